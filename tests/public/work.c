#include <tidemark/work.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    char task_id[TIDE_WORK_ID_MAX + 1];
    tide_work_added added;
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "a task"};
    const tide_work_spec item = {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "page",
                                 .max_retries = -1};
    (void)db;
    (void)dir;
    DO(tide_task_create(store, &task, task_id, err));
    WANT(strcmp(task_id, "t") == 0);
    DO(tide_work_add(store, &item, 1, &added, err));
    WANT(!added.is_existing);
    return TIDE_OK;
}
