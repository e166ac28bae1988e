#include "demo/demo_work.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/thread.h"
#include "runtime/child.h"

enum {
    WORKERS = TIDE_DEMO_WORKERS,
    ITEMS = 3,
    PATH_SIZE = 4096,
    TURN_MS = 250,
    STOP_MS = 3000,
    LIST_MAX = 5000,
    CLEAN_MAX = 500, /* at a time */
};
#define TASK_US INT64_C(10000000)
#define TITLE "report "
#define MARK "\"demo\""
#define METADATA "{" MARK ":true}"
#define CLEAN_US INT64_C(60000000)
#define LOG_MAX (INT64_C(1) << 20)
#define REST_US INT64_C(6000000) /* of a worker that was killed */

typedef struct worker {
    pid_t pid; /* 0: none */
    int64_t again_us;
} worker;

struct tide_demo_work {
    tide_demo_work_options options;
    char store[PATH_SIZE];
    char log[PATH_SIZE];
    char temporary[PATH_SIZE]; /* TMPDIR=..., of the workers */
    int waker;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_over;
    pthread_mutex_t lock; /* of the workers */
    worker workers[WORKERS];
    int64_t task_us;  /* when the next task comes */
    int64_t clean_us; /* when old ones go */
    int64_t task_count;
};

static int64_t now_us(const tide_demo_work *work)
{
    return work->options.env->mono_us(work->options.env);
}

/* ---- workers ---- */

/* The output of the workers is stored in a file. */
static tide_status open_log(const tide_demo_work *work, int *out, tide_error *err)
{
    *out = open(work->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return *out >= 0 ? TIDE_OK
                     : tide_fail(err, TIDE_E_IO, "cannot open %s: %s", work->log, strerror(errno));
}

/* Workers store the last checkpoint in a temporary file, also where there is no /tmp. */
static bool needs_temporary_directory(void)
{
    const char *given = getenv("TMPDIR");
    return !(given && *given) && access("/tmp", W_OK) != 0;
}

static tide_status start_process(tide_demo_work *work, int number, pid_t *pid, tide_error *err)
{
    char name[32];
    char *program = (char *)work->options.program;
    char *argv[] = {program,  "work",        "run",      "--store",     work->store,
                    "--type", "demo.report", "--worker", name,          "--lease",
                    "6s",     "--",          program,    "demo-report", NULL};
    const char *const env[] = {work->temporary, NULL};
    (void)snprintf(name, sizeof name, "worker-%d", number + 1);
    TIDE_CLEANUP(tide_file_closep) int log = -1;
    TIDE_TRY(open_log(work, &log, err));
    const tide_child_spec spec = {.argv = argv,
                                  .env = needs_temporary_directory() ? env : NULL,
                                  .stdin_kind = TIDE_CHILD_STDIN_NONE,
                                  .is_captured = true,
                                  .tee_fd = -1,
                                  .pass = {{.ours = log, .theirs = STDERR_FILENO}},
                                  .pass_count = 1};
    tide_child_started started = {.pid = 0};
    TIDE_TRY(tide_child_start(&spec, &started, err));
    (void)close(started.out_fd);
    *pid = started.pid;
    return TIDE_OK;
}

static void start_worker(tide_demo_work *work, worker *w, int number)
{
    tide_error err = {0};
    if (start_process(work, number, &w->pid, &err) >= TIDE_OK)
        return;
    tide_log_write(work->options.log, TIDE_LOG_WARN, "a worker of the demonstration is down",
                   TIDE_F("error", err.text), TIDE_F_END);
    w->again_us = now_us(work) + REST_US;
}

static void check_workers(tide_demo_work *work)
{
    TIDE_HOLD(&work->lock);
    for (int i = 0; i < WORKERS; i++) {
        worker *w = &work->workers[i];
        if (w->pid != 0 && waitpid(w->pid, NULL, WNOHANG) == w->pid)
            *w = (worker){.again_us = now_us(work) + REST_US};
        if (w->pid == 0 && now_us(work) >= w->again_us)
            start_worker(work, w, i);
    }
}

static void end_workers(tide_demo_work *work)
{
    TIDE_HOLD(&work->lock);
    for (int i = 0; i < WORKERS; i++)
        if (work->workers[i].pid != 0)
            (void)kill(-work->workers[i].pid, SIGTERM);
    const int64_t until_us = now_us(work) + STOP_MS * INT64_C(1000);
    for (int i = 0; i < WORKERS; i++) {
        const pid_t pid = work->workers[i].pid;
        while (pid != 0 && waitpid(pid, NULL, WNOHANG) == 0) {
            work->options.env->sleep_us(work->options.env, 10000);
            if (now_us(work) > until_us)
                (void)kill(-pid, SIGKILL);
        }
        work->workers[i].pid = 0;
    }
}

tide_status tide_demo_work_kill(tide_demo_work *work, int *number, tide_error *err)
{
    bool was_killed = false;
    if (!work)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "no worker runs");
    (void)pthread_mutex_lock(&work->lock);
    for (int i = 0; i < WORKERS && !was_killed; i++)
        if (work->workers[i].pid != 0) {
            was_killed = kill(-work->workers[i].pid, SIGKILL) == 0;
            *number = i + 1;
        }
    (void)pthread_mutex_unlock(&work->lock);
    return was_killed ? TIDE_OK
                      : tide_fail(err, TIDE_E_UNAVAILABLE,
                                  "no worker runs just now: try again in a moment");
}

void tide_demo_work_show(tide_demo_work *work, int64_t pids[TIDE_DEMO_WORKERS])
{
    memset(pids, 0, TIDE_DEMO_WORKERS * sizeof pids[0]);
    if (!work)
        return;
    TIDE_HOLD(&work->lock);
    for (int i = 0; i < WORKERS; i++)
        pids[i] = work->workers[i].pid;
}

/* ---- tasks ---- */

static tide_status add_task(tide_demo_work *work, tide_error *err)
{
    char title[64];
    char id[TIDE_WORK_ID_MAX + 1];
    char inputs[ITEMS][64];
    tide_work_spec items[ITEMS];
    tide_work_added added[ITEMS];
    (void)snprintf(title, sizeof title, TITLE "%lld", (long long)++work->task_count);
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = title, .metadata = METADATA};
    TIDE_TRY(tide_task_create(work->options.store, &task, id, err));
    for (int i = 0; i < ITEMS; i++) {
        (void)snprintf(inputs[i], sizeof inputs[i], "{\"chapter\":%d}", i + 1);
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = id, .work_type = "demo.report",
                                    .input = inputs[i], .max_retries = 3};
    }
    return tide_work_add(work->options.store, items, ITEMS, added, err);
}

/* Tasks of ours that are old enough to go, and the highest number that one has. */
typedef struct old_tasks {
    int64_t before_us;
    char ids[CLEAN_MAX][TIDE_WORK_ID_MAX + 1];
    int count;
    int64_t highest;
} old_tasks;

static tide_status check_task(void *arg, const tide_task *task, tide_error *err)
{
    old_tasks *old = arg;
    (void)err;
    if (!task->metadata || !strstr(task->metadata, MARK) ||
        strncmp(task->title, TITLE, strlen(TITLE)) != 0)
        return TIDE_OK; /* of another owner */
    const int64_t number = strtoll(task->title + strlen(TITLE), NULL, 10);
    if (number > old->highest)
        old->highest = number;
    if (task->created_at_us < old->before_us && old->count < CLEAN_MAX)
        (void)snprintf(old->ids[old->count++], sizeof old->ids[0], "%s", task->task_id);
    return TIDE_OK;
}

static tide_status clean(tide_demo_work *work, tide_error *err)
{
    tide_env *env = work->options.env;
    TIDE_CLEANUP(tide_freep) TIDE_NEW(old_tasks, old, err);
    old->before_us = env->wall_us(env) - TIDE_DEMO_TASK_US;
    TIDE_TRY(tide_task_list(work->options.store, NULL, LIST_MAX, check_task, old, err));
    if (work->task_count < old->highest)
        work->task_count = old->highest; /* of an earlier start */
    for (int i = 0; i < old->count; i++) {
        const tide_status status = tide_task_delete(work->options.store, old->ids[i], true, err);
        if (status < TIDE_OK && status != TIDE_E_CONFLICT) /* it has forks */
            return status;
    }
    return TIDE_OK;
}

/* What workers say is kept, but not for ever. */
static void shorten_log(const tide_demo_work *work)
{
    struct stat facts;
    if (stat(work->log, &facts) == 0 && facts.st_size > LOG_MAX && truncate(work->log, 0) != 0)
        tide_log_write(work->options.log, TIDE_LOG_WARN, "the workers' log cannot be shortened",
                       TIDE_F("file", work->log), TIDE_F_END);
}

static void log_failure(const tide_demo_work *work, const char *what, const tide_error *err)
{
    tide_log_write(work->options.log, TIDE_LOG_WARN, what, TIDE_F("error", err->text), TIDE_F_END);
}

static void *run(void *arg)
{
    tide_demo_work *work = arg;
    while (!atomic_load(&work->is_over)) {
        tide_error err = {0};
        check_workers(work);
        if (now_us(work) >= work->clean_us) {
            work->clean_us = now_us(work) + CLEAN_US;
            shorten_log(work);
            if (clean(work, &err) < TIDE_OK)
                log_failure(work, "old tasks of the demonstration were not removed", &err);
        }
        if (now_us(work) >= work->task_us) {
            work->task_us = now_us(work) + TASK_US;
            if (add_task(work, &err) < TIDE_OK)
                log_failure(work, "a task of the demonstration was not made", &err);
        }
        struct pollfd waker = {.fd = work->waker, .events = POLLIN};
        (void)poll(&waker, 1, TURN_MS);
    }
    end_workers(work);
    return NULL;
}

/* ---- life ---- */

tide_status tide_demo_work_open(tide_demo_work **out, const tide_demo_work_options *options,
                                tide_error *err)
{
    TIDE_NEW(tide_demo_work, work, err);
    work->options = *options;
    (void)snprintf(work->store, sizeof work->store, "%s/colony.db", options->data_dir);
    (void)snprintf(work->log, sizeof work->log, "%s/demo/workers.log", options->data_dir);
    (void)snprintf(work->temporary, sizeof work->temporary, "TMPDIR=%s/demo", options->data_dir);
    (void)pthread_mutex_init(&work->lock, NULL);
    work->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const tide_status status = tide_thread_start_unmasked(&work->thread, run, work, err);
    if (status < TIDE_OK) {
        tide_demo_work_close(work);
        return status;
    }
    work->has_thread = true;
    *out = work;
    return TIDE_OK;
}

void tide_demo_work_stop(tide_demo_work *work)
{
    if (!work)
        return;
    atomic_store(&work->is_over, true);
    (void)eventfd_write(work->waker, 1);
}

void tide_demo_work_close(tide_demo_work *work)
{
    if (!work)
        return;
    tide_demo_work_stop(work);
    if (work->has_thread)
        (void)pthread_join(work->thread, NULL);
    (void)close(work->waker);
    (void)pthread_mutex_destroy(&work->lock);
    free(work);
}
