/* tasks.h - every task, one after the other. */
#pragma once

#include <tidemark/journal.h>

typedef tide_status tide_task_id_fn(void *arg, const char *task_id, tide_error *err);

/* In the order of ids, in pages: tasks that come or go meanwhile may be seen or not. fn is called outside of any
 * transaction; a failure of it ends the walk. */
TIDE_MUST_CHECK tide_status tide_journal_each_task(tide_store *store, tide_task_id_fn *fn,
                                                   void *arg, tide_error *err);

/* How far a work item came: its newest checkpoint that is no beginning and no error.
 *
 * Threads: any. */

/* With its snapshot. TIDE_NONE: there is none. */
TIDE_MUST_CHECK tide_status tide_journal_last_checkpoint(tide_store *store,
                                                         const char *work_item_id,
                                                         tide_checkpoint_fn *fn, void *arg,
                                                         tide_error *err);
