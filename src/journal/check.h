/* check.h - what is accepted as a checkpoint: decided before anything is written.
 *
 * Texts are UTF-8 without NUL; names (ids, types, tags) also without control characters, so that they can be
 * shown, logged and joined. Whether a task exists or a type is registered is not looked at here.
 *
 * Threads: pure. */
#pragma once

#include <tidemark/journal.h>

/* Each: TIDE_E_INVALID with words. `what` names the thing, "task id". */
TIDE_MUST_CHECK tide_status tide_journal_check_name(const char *what, const char *name, size_t max,
                                                    tide_error *err);
TIDE_MUST_CHECK tide_status tide_journal_check_trigger(const char *trigger, tide_error *err);
TIDE_MUST_CHECK tide_status tide_journal_check_text(const char *what, const char *text, size_t max,
                                                    tide_error *err);
TIDE_MUST_CHECK tide_status tide_journal_check_new(const tide_checkpoint_new *checkpoint,
                                                   tide_error *err);

/* One of the eight types that every store knows. */
bool tide_journal_is_builtin(const char *type);

/* The name of an automatic trigger, or NULL, however it is written: "GapFilled", "gap filled". */
const char *tide_journal_find_trigger(tide_view text);
