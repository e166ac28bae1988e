/* task_end.h - ends of tasks that are under way, for the sweep (task_end.c). */
#pragma once

#include <tidemark/work.h>

enum { TIDE_TASK_END_STEP = 500 }; /* items, keys or checkpoints that one transaction changes */

/* The numbers of a task's items, by status. */
TIDE_MUST_CHECK tide_status tide_task_count_items(tide_tx *tx, const char *task_id, tide_task *out,
                                                  tide_error *err);

/* Continue what a process that died has begun: about limit items. *done is how many were ended or
 * deleted; *has_more: call again. */
TIDE_MUST_CHECK tide_status tide_task_end_continue(tide_store *store, int64_t limit, int64_t *done,
                                                   bool *has_more, tide_error *err);
