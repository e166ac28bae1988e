/* last_checkpoint.h - how far a work item came: its newest checkpoint that is no beginning and no error.
 *
 * Threads: any. */
#pragma once

#include <tidemark/journal.h>

/* With its snapshot. TIDE_NONE: there is none. */
TIDE_MUST_CHECK tide_status tide_journal_last_checkpoint(tide_store *store,
                                                         const char *work_item_id,
                                                         tide_checkpoint_fn *fn, void *arg,
                                                         tide_error *err);
