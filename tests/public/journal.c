#include <tidemark/journal.h>
#include <tidemark/work.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    tide_checkpoint_numbers numbers = {.global_sequence = 0};
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "t",
                                            .type = "manual_checkpoint",
                                            .snapshot = tide_view_of("{}")};
    (void)db;
    (void)dir;
    char task_id[TIDE_WORK_ID_MAX + 1];
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "a task"};
    DO(tide_task_create(store, &task, task_id, err));
    DO(tide_journal_append(store, &checkpoint, &numbers, err));
    WANT(numbers.sequence_number == 1 && numbers.global_sequence == 1);
    return TIDE_OK;
}
