#include <tidemark/worker.h>

#include "public.h"

static tide_status run(void *arg, tide_job *job, tide_error *err)
{
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .output = "{\"pages\":3}"};
    ++*(int *)arg;
    return tide_job_finish(job, &result, err);
}

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    int runs = 0;
    char task_id[TIDE_WORK_ID_MAX + 1];
    tide_work_added added;
    tide_worker *worker = NULL;
    tide_worker_totals totals;
    const char *const types[] = {"page"};
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "a task"};
    const tide_work_spec item = {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "page"};
    const tide_worker_options options = {
        TIDE_WORKER_OPTIONS_INIT, .worker = "w", .types = types,  .type_count = 1,
        .until_empty = true,      .run = run,    .run_arg = &runs};
    (void)db;
    (void)dir;
    DO(tide_task_create(store, &task, task_id, err));
    DO(tide_work_add(store, &item, 1, &added, err));
    DO(tide_worker_open(&worker, store, &options, err));
    DO(tide_worker_run(worker, err));
    tide_worker_totals_get(worker, &totals);
    WANT(runs == 1 && totals.finished == 1);
    tide_worker_close(worker);
    return TIDE_OK;
}
