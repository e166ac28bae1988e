#include "cli/work/work_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/text/json.h"
#include "base/thread.h"
#include "cli/print/output.h"
#include "cli/work/work_child_run.h"
#include "worker/worker.h"

enum { MESSAGE_FD = 3 }; /* where the command finds us */

#define TROUBLE_US INT64_C(1000000) /* until one that could not be started is */

/* ---- which children run ---- */

void tide_work_children_init(tide_work_children *children)
{
    (void)pthread_mutex_init(&children->lock, NULL);
}

void tide_work_children_done(tide_work_children *children)
{
    (void)pthread_mutex_destroy(&children->lock);
}

static void enter(tide_work_children *children, const tide_job *job, int stop_fd)
{
    TIDE_HOLD(&children->lock);
    for (int i = 0; i < TIDE_WORK_CHILD_RUNNING_MAX; i++) {
        if (children->slots[i].job)
            continue;
        children->slots[i] = (tide_work_child_slot){.job = job, .stop_fd = stop_fd};
        break;
    }
}

static void leave(tide_work_children *children, const tide_job *job)
{
    TIDE_HOLD(&children->lock);
    for (int i = 0; i < TIDE_WORK_CHILD_RUNNING_MAX; i++)
        if (children->slots[i].job == job)
            children->slots[i].job = NULL;
}

static void raise_flag(int fd)
{
    const uint64_t one = 1;
    const ssize_t written = write(fd, &one, sizeof one);
    (void)written;
}

void tide_work_child_stop(void *arg, tide_job *job)
{
    tide_work_children *children = arg;
    TIDE_HOLD(&children->lock);
    for (int i = 0; i < TIDE_WORK_CHILD_RUNNING_MAX; i++)
        if (children->slots[i].job == job)
            raise_flag(children->slots[i].stop_fd);
}

/* ---- one run ---- */

static void end_run(tide_work_run *r)
{
    leave(r->children, r->job);
    for (int i = 0; i < 2; i++) {
        tide_file_closep(&r->sockets[i]);
        tide_file_closep(&r->errors[i]);
    }
    tide_file_closep(&r->stop_fd);
    tide_file_closep(&r->end_fd);
    if (r->checkpoint_path[0])
        (void)unlink(r->checkpoint_path);
    free(r->env);
    tide_buffer_done(&r->messages.line);
    tide_buffer_done(&r->messages.output);
    tide_child_result_done(&r->result);
    tide_idempotency_state_done(&r->state);
}

static tide_status open_run(tide_work_run *r, tide_error *err)
{
    r->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const bool is_open = r->stop_fd >= 0 && r->end_fd >= 0 &&
                         socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->sockets) == 0 &&
                         pipe2(r->errors, O_CLOEXEC) == 0;
    return is_open
               ? TIDE_OK
               : tide_fail(err, TIDE_E_LIMIT, "no descriptors for a command: %s", strerror(errno));
}

/* ---- the key ---- */

static tide_status begin_key(tide_work_run *r, tide_error *err)
{
    char name[TIDE_WORK_ID_MAX + 8];
    char hash[TIDE_IDEMPOTENCY_HASH_SIZE];
    (void)snprintf(name, sizeof name, "work-%s", r->item->work_item_id);
    TIDE_TRY(tide_idempotency_name(r->key, NULL, name, err));
    TIDE_TRY(tide_idempotency_hash(hash, tide_view_of(r->item->input ? r->item->input : ""), err));
    const tide_idempotency_request request = {
        TIDE_IDEMPOTENCY_REQUEST_INIT,
        .key = name,
        .request_hash = hash,
        .holder = r->item->worker,
        .task_id = r->item->task_id,
        .work_item_id = r->item->work_item_id,
        .lock_us = tide_work_messages_lock_us(r->job),
        .policy = TIDE_IDEMPOTENCY_RESUME,
    };
    return tide_idempotency_begin(tide_job_store(r->job), &request, &r->state, err);
}

void tide_work_give_key_back(tide_work_run *r)
{
    tide_error err;
    const tide_view nothing = {NULL, 0};
    TIDE_IGNORE(tide_idempotency_fail(tide_job_store(r->job), r->key, r->state.token, false,
                                      nothing, &err));
}

/* ---- what an earlier attempt has reached ---- */

static tide_status write_file(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    tide_work_run *r = arg;
    const char *directory = getenv("TMPDIR");
    if (snprintf(r->checkpoint_path, sizeof r->checkpoint_path, "%s/tidemark-XXXXXX",
                 directory && *directory ? directory : "/tmp") >= (int)sizeof r->checkpoint_path) {
        r->checkpoint_path[0] = '\0';
        return tide_fail(err, TIDE_E_INVALID, "TMPDIR has more than %d bytes",
                         TIDE_WORK_PATH_SIZE - 20);
    }
    const int fd = mkostemp(r->checkpoint_path, O_CLOEXEC);
    if (fd < 0) {
        r->checkpoint_path[0] = '\0';
        return tide_fail(err, TIDE_E_IO, "cannot make a file for the last checkpoint: %s",
                         strerror(errno));
    }
    tide_view left = checkpoint->snapshot;
    tide_status status = TIDE_OK;
    while (left.len > 0 && status == TIDE_OK) {
        const ssize_t written = write(fd, left.ptr, left.len);
        if (written < 0 && errno != EINTR)
            status = tide_fail(err, errno == ENOSPC ? TIDE_E_FULL : TIDE_E_IO,
                               "cannot write the last checkpoint: %s", strerror(errno));
        left = written > 0 ? (tide_view){left.ptr + written, left.len - (size_t)written} : left;
    }
    (void)close(fd);
    return status;
}

/* ---- checkpoints of our own ---- */

void tide_work_put_command(tide_json *json, char *const *argv)
{
    tide_json_key(json, "command");
    tide_json_array_begin(json);
    for (; *argv; argv++)
        tide_json_text(json, *argv);
    tide_json_array_end(json);
}

static void put_start(const tide_work_run *r, tide_json *json)
{
    tide_json_object_begin(json);
    tide_json_key(json, "attempt");
    tide_json_i64(json, r->item->attempt);
    tide_json_key(json, "worker");
    tide_json_text(json, r->item->worker);
    tide_work_put_command(json, r->children->argv);
    tide_json_object_end(json);
}

static tide_status note_start(tide_work_run *r, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_JOURNAL_SNAPSHOT_MAX);
    tide_json json;
    tide_json_init(&json, &text);
    put_start(r, &json);
    TIDE_TRY(tide_json_finish(&json));
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "iteration_start",
                                            .snapshot = tide_buffer_view(&text)};
    tide_checkpoint_numbers numbers;
    return tide_job_checkpoint(r->job, &checkpoint, &numbers, err);
}

/* ---- running ---- */

static void hear_stop(void *arg, tide_child *child, tide_child_watch *watch)
{
    const tide_work_run *r = arg;
    watch->fd = -1;
    /* Half of what is left for a clean end, at most 10 s; then it is killed. */
    const int64_t left_us = tide_job_lease_left_us(r->job) / 2;
    const int64_t most_us = 10 * INT64_C(1000000);
    tide_child_terminate(child, TIDE_WORK_STOPPED, left_us < most_us ? left_us : most_us);
}

static tide_status fill_environment(tide_work_run *r, tide_error *err)
{
    const tide_work_claimed *item = r->item;
    int count = 0;
#define PUT(...) (void)snprintf(r->variables[count++], TIDE_WORK_VARIABLE_SIZE, __VA_ARGS__)
    PUT("TIDEMARK_WORK_ITEM_ID=%s", item->work_item_id);
    PUT("TIDEMARK_TASK_ID=%s", item->task_id);
    PUT("TIDEMARK_WORK_TYPE=%s", item->work_type);
    PUT("TIDEMARK_WORKER=%s", item->worker);
    PUT("TIDEMARK_LEASE_TOKEN=%" PRId64, item->lease_token);
    PUT("TIDEMARK_ATTEMPT=%" PRId64, item->attempt);
    PUT("TIDEMARK_MAX_RETRIES=%" PRId64, item->max_retries);
    PUT("TIDEMARK_IDEMPOTENCY_KEY=%s", r->key);
    PUT("TIDEMARK_FD=%d", MESSAGE_FD);
    if (r->checkpoint_path[0])
        PUT("TIDEMARK_CHECKPOINT_FILE=%s", r->checkpoint_path);
#undef PUT
    r->env = calloc((size_t)(count + r->children->env_count) + 2, sizeof *r->env);
    if (!r->env)
        return tide_no_memory(err);
    int at = 0;
    for (int i = 0; i < count; i++)
        r->env[at++] = r->variables[i];
    for (int i = 0; i < r->children->env_count; i++)
        r->env[at++] = r->children->env[i];
    r->env[at++] = r->children->store_url; /* TIDEMARK_STORE=... */
    return TIDE_OK;
}

static tide_status run_command(tide_work_run *r, tide_error *err)
{
    tide_env *clock = tide_store_env(tide_job_store(r->job));
    tide_child_watch stop = {.fd = r->stop_fd, .fn = hear_stop, .arg = r};
    const tide_child_spec spec = {
        .argv = r->children->argv,
        .env = r->env,
        .stdin_kind = TIDE_CHILD_STDIN_BYTES,
        .stdin_bytes = tide_view_of(r->item->input ? r->item->input : ""),
        .is_captured = true,
        .stdout_max = TIDE_WORK_DATA_MAX,
        .tee_fd = -1,
        .pass = {{.ours = r->sockets[1], .theirs = MESSAGE_FD},
                 {.ours = r->errors[1], .theirs = STDERR_FILENO}},
        .pass_count = 2,
        .watches = &stop,
        .watch_count = 1,
    };
    const int64_t before_us = clock->mono_us(clock);
    const tide_status status = tide_child_run(&spec, &r->result, err);
    r->took_us = clock->mono_us(clock) - before_us;
    return status;
}

/* TIDE_E_INTERRUPTED: it must stop before it has begun. */
static tide_status run_with_messenger(tide_work_run *r, tide_error *err)
{
    pthread_t messenger;
    r->messages = (tide_work_messages){.job = r->job,
                                       .fd = r->sockets[0],
                                       .errors_fd = r->errors[0],
                                       .end_fd = r->end_fd,
                                       .key = r->key,
                                       .key_token = r->state.token};
    tide_buffer_init(&r->messages.line, TIDE_WORK_LINE_MAX);
    tide_buffer_init(&r->messages.output, TIDE_WORK_DATA_MAX);
    /* Whoever stops it from now on finds it; whoever did so before has left his mark. */
    enter(r->children, r->job, r->stop_fd);
    if (tide_job_is_stopping(r->job))
        return tide_fail(err, TIDE_E_INTERRUPTED, "stopped before it began");
    TIDE_TRY(tide_thread_start(&messenger, tide_work_messages_serve, &r->messages, err));
    const tide_status status = run_command(r, err);
    tide_file_closep(&r->sockets[1]);
    tide_file_closep(&r->errors[1]);
    raise_flag(r->end_fd);
    (void)pthread_join(messenger, NULL);
    return status;
}

/* ---- all of it ---- */

/* Another attempt has stored the answer, but not the end of the item. */
static tide_status finish_from_answer(tide_work_run *r, tide_error *err)
{
    tide_work_result result = {TIDE_WORK_RESULT_INIT,
                               .output = r->state.has_response ? r->state.response : NULL};
    return tide_job_finish(r->job, &result, err);
}

static tide_status wait_for_key(tide_work_run *r, tide_error *err)
{
    tide_env *env = tide_store_env(tide_job_store(r->job));
    const int64_t left_us = r->state.lock_expires_at_us - env->wall_us(env);
    const int64_t most_us = r->children->lease_us;
    return tide_job_release(r->job,
                            left_us < 0         ? 1000000
                            : left_us < most_us ? left_us
                                                : most_us,
                            err);
}

/* The store was away, or memory was: that is not the item's fault. */
static bool may_pass(tide_status status)
{
    return status == TIDE_E_OUTCOME_UNKNOWN || tide_status_get(status)->is_retryable;
}

static tide_status give_up(tide_work_run *r, tide_status status, tide_error *err)
{
    if (!may_pass(status))
        return status;
    tide_cli_print(stderr, "%s was not started: %s\n", r->item->work_item_id, err->text);
    return tide_job_release(r->job, TROUBLE_US, err);
}

static tide_status prepare(tide_work_run *r, tide_error *err)
{
    TIDE_TRY(tide_job_last_checkpoint(r->job, write_file, r, err));
    TIDE_TRY(note_start(r, err));
    return fill_environment(r, err);
}

tide_status tide_work_child_run(void *arg, tide_job *job, tide_error *err)
{
    TIDE_CLEANUP(end_run)
    tide_work_run r = {.children = arg,
                       .job = job,
                       .item = tide_job_item(job),
                       .sockets = {-1, -1},
                       .errors = {-1, -1},
                       .stop_fd = -1,
                       .end_fd = -1};
    TIDE_TRY(open_run(&r, err));
    tide_status status = begin_key(&r, err);
    if (status < TIDE_OK)
        return give_up(&r, status, err);
    if (r.state.outcome == TIDE_IDEMPOTENCY_REPLAY)
        return finish_from_answer(&r, err);
    if (r.state.outcome == TIDE_IDEMPOTENCY_IN_PROGRESS)
        return wait_for_key(&r, err);
    if (r.state.outcome == TIDE_IDEMPOTENCY_MISMATCH)
        return tide_job_fail(job, "the idempotency key of this item belongs to another request",
                             true, -1, err);
    status = prepare(&r, err);
    if (status >= TIDE_OK)
        status = run_with_messenger(&r, err);
    if (status >= TIDE_OK)
        return tide_work_conclude(&r, err);
    tide_work_give_key_back(&r);
    return give_up(&r, status, err);
}
