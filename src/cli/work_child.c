#include "cli/work_child.h"

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
#include "base/json.h"
#include "base/json_canon.h"
#include "cli/work_messages.h"
#include "daemon/child.h"

enum {
    MESSAGE_FD = 3, /* where the command finds us */
    VARIABLES_MAX = 16,
    VARIABLE_SIZE = 640,
    STDERR_TAIL = 2000, /* bytes of stderr that become the error text */
    STOPPED = 1,        /* reason of tide_child_terminate */
};

#define LATER_US INT64_C(10000000) /* until an item that said "not now" is tried again */

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
    (void)pthread_mutex_lock(&children->lock);
    for (int i = 0; i < TIDE_WORK_CHILD_RUNNING_MAX; i++) {
        if (children->slots[i].job)
            continue;
        children->slots[i] = (tide_work_child_slot){.job = job, .stop_fd = stop_fd};
        break;
    }
    (void)pthread_mutex_unlock(&children->lock);
}

static void leave(tide_work_children *children, const tide_job *job)
{
    (void)pthread_mutex_lock(&children->lock);
    for (int i = 0; i < TIDE_WORK_CHILD_RUNNING_MAX; i++)
        if (children->slots[i].job == job)
            children->slots[i].job = NULL;
    (void)pthread_mutex_unlock(&children->lock);
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
    (void)pthread_mutex_lock(&children->lock);
    for (int i = 0; i < TIDE_WORK_CHILD_RUNNING_MAX; i++)
        if (children->slots[i].job == job)
            raise_flag(children->slots[i].stop_fd);
    (void)pthread_mutex_unlock(&children->lock);
}

/* ---- one run ---- */

typedef struct run {
    tide_work_children *children;
    tide_job *job;
    const tide_work_claimed *item;
    char key[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    tide_idempotency_state state;
    char checkpoint_path[64]; /* "": none */
    int sockets[2];           /* ours, the command's */
    int errors[2];            /* the command's stderr: read, write */
    int stop_fd;
    int end_fd;
    char tail[STDERR_TAIL + 1]; /* the end of stderr */
    size_t tail_len;
    char variables[VARIABLES_MAX][VARIABLE_SIZE];
    const char **env;
    tide_work_messages messages;
    tide_child_result result;
    int64_t took_us;
} run;

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void end_run(run *r)
{
    leave(r->children, r->job);
    for (int i = 0; i < 2; i++) {
        close_fd(&r->sockets[i]);
        close_fd(&r->errors[i]);
    }
    close_fd(&r->stop_fd);
    close_fd(&r->end_fd);
    if (r->checkpoint_path[0])
        (void)unlink(r->checkpoint_path);
    free(r->env);
    tide_buffer_done(&r->messages.line);
    tide_buffer_done(&r->messages.output);
    tide_child_result_done(&r->result);
    tide_idempotency_state_done(&r->state);
}

static tide_status open_run(run *r, tide_error *err)
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

static tide_status begin_key(run *r, tide_error *err)
{
    char name[TIDE_WORK_ID_MAX + 8];
    char hash[TIDE_IDEMPOTENCY_HASH_SIZE];
    (void)snprintf(name, sizeof name, "work-%s", r->item->work_item_id);
    TIDE_TRY(tide_idempotency_name(r->key, NULL, name, err));
    TIDE_TRY(tide_idempotency_hash(hash, tide_view_of(r->item->input ? r->item->input : ""), err));
    const tide_idempotency_request request = {
        .key = name,
        .request_hash = hash,
        .holder = r->item->worker,
        .task_id = r->item->task_id,
        .work_item_id = r->item->work_item_id,
        .lock_us = r->children->lease_us,
        .policy = TIDE_IDEMPOTENCY_RESUME,
    };
    return tide_idempotency_begin(tide_job_store(r->job), &request, &r->state, err);
}

static void give_key_back(run *r)
{
    tide_error err;
    const tide_view nothing = {NULL, 0};
    TIDE_IGNORE(tide_idempotency_fail(tide_job_store(r->job), r->key, r->state.token, false,
                                      nothing, &err));
}

/* ---- what an earlier attempt has reached ---- */

typedef struct search {
    char id[TIDE_JOURNAL_ID_MAX + 1];
} search;

static tide_status look_at(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    search *s = arg;
    /* These say that something began or broke, not how far it came. */
    if (s->id[0] || strcmp(checkpoint->type, "iteration_start") == 0 ||
        strcmp(checkpoint->type, "error_boundary") == 0)
        return TIDE_OK;
    (void)snprintf(s->id, sizeof s->id, "%s", checkpoint->checkpoint_id);
    return TIDE_OK;
}

static tide_status write_file(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    run *r = arg;
    const char *directory = getenv("TMPDIR");
    (void)snprintf(r->checkpoint_path, sizeof r->checkpoint_path, "%.30s/tidemark-XXXXXX",
                   directory && strlen(directory) <= 30 ? directory : "/tmp");
    int fd = mkostemp(r->checkpoint_path, O_CLOEXEC);
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

static tide_status hand_over_checkpoint(run *r, tide_error *err)
{
    const tide_journal_filter newest = {
        .work_item_id = r->item->work_item_id, .order = TIDE_JOURNAL_NEWEST_FIRST, .limit = 100};
    search s = {.id = ""};
    tide_store *store = tide_job_store(r->job);
    TIDE_TRY(tide_journal_list(store, &newest, look_at, &s, err));
    if (!s.id[0])
        return TIDE_OK;
    const tide_status status = tide_journal_find(store, s.id, true, write_file, r, err);
    return status < TIDE_OK ? status : TIDE_OK;
}

/* ---- checkpoints of our own ---- */

static void put_command(tide_json *json, char *const *argv)
{
    tide_json_key(json, "command");
    tide_json_array_begin(json);
    for (; *argv; argv++)
        tide_json_text(json, *argv);
    tide_json_array_end(json);
}

static void put_start(const run *r, tide_json *json)
{
    tide_json_object_begin(json);
    tide_json_key(json, "attempt");
    tide_json_i64(json, r->item->attempt);
    tide_json_key(json, "worker");
    tide_json_text(json, r->item->worker);
    put_command(json, r->children->argv);
    tide_json_object_end(json);
}

static tide_status note_start(run *r, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, TIDE_JOURNAL_SNAPSHOT_MAX);
    tide_json json;
    tide_json_init(&json, &text);
    put_start(r, &json);
    TIDE_TRY(tide_json_finish(&json));
    const tide_checkpoint_new checkpoint = {.type = "iteration_start",
                                            .snapshot = tide_buffer_view(&text)};
    tide_checkpoint_numbers numbers;
    return tide_job_checkpoint(r->job, &checkpoint, &numbers, err);
}

/* ---- running ---- */

static void hear_stop(void *arg, tide_child *child, tide_child_watch *watch)
{
    const run *r = arg;
    watch->fd = -1;
    /* Half of what is left for a clean end, at most 10 s; then it is killed. */
    const int64_t left_us = tide_job_lease_left_us(r->job) / 2;
    const int64_t most_us = 10 * INT64_C(1000000);
    tide_child_terminate(child, STOPPED, left_us < most_us ? left_us : most_us);
}

/* stderr passes through; its end is kept for the error text. */
static void hear_errors(void *arg, tide_child *child, tide_child_watch *watch)
{
    (void)child;
    run *r = arg;
    char bytes[4096];
    const ssize_t got = read(watch->fd, bytes, sizeof bytes);
    if (got <= 0) {
        watch->fd = got < 0 && errno == EINTR ? watch->fd : -1;
        return;
    }
    const ssize_t passed = write(STDERR_FILENO, bytes, (size_t)got);
    (void)passed;
    const size_t len = (size_t)got;
    const size_t fresh = len < STDERR_TAIL ? len : STDERR_TAIL;
    const size_t room = STDERR_TAIL - fresh;
    const size_t kept = r->tail_len < room ? r->tail_len : room;
    memmove(r->tail, r->tail + (r->tail_len - kept), kept);
    memcpy(r->tail + kept, bytes + (len - fresh), fresh);
    r->tail_len = kept + fresh;
    r->tail[r->tail_len] = '\0';
}

static tide_status fill_environment(run *r, tide_error *err)
{
    const tide_work_claimed *item = r->item;
    int count = 0;
#define PUT(...) (void)snprintf(r->variables[count++], VARIABLE_SIZE, __VA_ARGS__)
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
        return tide_fail(err, TIDE_E_NOMEM, "no memory for an environment");
    int at = 0;
    for (int i = 0; i < count; i++)
        r->env[at++] = r->variables[i];
    for (int i = 0; i < r->children->env_count; i++)
        r->env[at++] = r->children->env[i];
    r->env[at++] = r->children->store_url; /* TIDEMARK_STORE=... */
    return TIDE_OK;
}

static tide_status run_command(run *r, tide_error *err)
{
    tide_env *clock = tide_store_env(tide_job_store(r->job));
    tide_child_watch watches[] = {{.fd = r->stop_fd, .fn = hear_stop, .arg = r},
                                  {.fd = r->errors[0], .fn = hear_errors, .arg = r}};
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
        .watches = watches,
        .watch_count = 2,
    };
    const int64_t before_us = clock->mono_us(clock);
    const tide_status status = tide_child_run(&spec, &r->result, err);
    r->took_us = clock->mono_us(clock) - before_us;
    return status;
}

static tide_status run_with_messenger(run *r, tide_error *err)
{
    pthread_t messenger;
    r->messages = (tide_work_messages){.job = r->job,
                                       .fd = r->sockets[0],
                                       .end_fd = r->end_fd,
                                       .key = r->key,
                                       .key_token = r->state.token,
                                       .lock_us = r->children->lease_us};
    tide_buffer_init(&r->messages.line, TIDE_WORK_LINE_MAX);
    tide_buffer_init(&r->messages.output, TIDE_WORK_DATA_MAX);
    const int code = pthread_create(&messenger, NULL, tide_work_messages_serve, &r->messages);
    if (code != 0)
        return tide_fail(err, TIDE_E_LIMIT, "cannot start a thread: %s", strerror(code));
    enter(r->children, r->job, r->stop_fd);
    if (tide_job_is_stopping(r->job))
        raise_flag(r->stop_fd);
    const tide_status status = run_command(r, err);
    close_fd(&r->sockets[1]);
    raise_flag(r->end_fd);
    (void)pthread_join(messenger, NULL);
    return status;
}

/* ---- how it ended ---- */

/* The output message, else stdout: as JSON if it is JSON, else as a text in an object. Nothing printed: no output. */
static tide_status make_output(const run *r, tide_buffer *out, tide_error *err)
{
    if (r->messages.has_output)
        return tide_buffer_append_view(out, tide_buffer_view(&r->messages.output));
    if (r->result.is_out_over)
        return tide_fail(err, TIDE_E_LIMIT, "the command printed more than %d bytes",
                         TIDE_WORK_DATA_MAX);
    const tide_view printed = tide_buffer_view(&r->result.out);
    if (printed.len == 0)
        return TIDE_OK;
    if (tide_json_check(printed, NULL) == TIDE_OK)
        return tide_buffer_append_view(out, printed);
    tide_json json;
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    tide_json_key(&json, "stdout");
    tide_json_view(&json, printed);
    tide_json_object_end(&json);
    const tide_status status = tide_json_finish(&json);
    return status < TIDE_OK ? tide_fail(err, status, "the command printed too much") : TIDE_OK;
}

static tide_status make_executed(const run *r, const tide_buffer *output, tide_buffer *out)
{
    tide_json json;
    TIDE_TRY(tide_buffer_append_text(out, "{\"result\":"));
    TIDE_TRY(output->len > 0 ? tide_buffer_append_view(out, tide_buffer_view(output))
                             : tide_buffer_append_text(out, "null"));
    TIDE_TRY(tide_buffer_append_text(out, ",\"run\":"));
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    put_command(&json, r->children->argv);
    tide_json_key(&json, "exit_code");
    tide_json_i64(&json, r->result.exit_code);
    tide_json_key(&json, "duration_ms");
    tide_json_i64(&json, r->took_us / 1000);
    tide_json_object_end(&json);
    TIDE_TRY(tide_json_finish(&json));
    return tide_buffer_append_byte(out, '}');
}

static tide_status finish_item(run *r, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer output;
    tide_buffer_init(&output, TIDE_WORK_DATA_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer executed;
    tide_buffer_init(&executed, TIDE_JOURNAL_SNAPSHOT_MAX);
    const tide_status made = make_output(r, &output, err);
    if (made < TIDE_OK)
        return tide_job_fail(r->job, err->text, true, -1, err);
    TIDE_TRY(make_executed(r, &output, &executed));
    const tide_checkpoint_new checkpoint = {.type = "tool_executed",
                                            .snapshot = tide_buffer_view(&executed)};
    tide_work_result result = {
        .output = output.len > 0 ? tide_buffer_text(&output) : NULL,
        .checkpoint = &checkpoint,
        .idempotency_name = r->key,
        .idempotency_token = r->state.token,
        .response = output.len > 0 ? tide_buffer_view(&output) : (tide_view){NULL, 0},
    };
    return tide_job_finish(r->job, &result, err);
}

static void describe_failure(const run *r, char *text, size_t size)
{
    size_t len = r->tail_len;
    while (len > 0 && (r->tail[len - 1] == '\n' || r->tail[len - 1] == ' '))
        len--;
    if (r->result.signal > 0)
        (void)snprintf(text, size, "ended by signal %d%s%.*s", r->result.signal,
                       len > 0 ? ": " : "", (int)len, r->tail);
    else
        (void)snprintf(text, size, "exit status %d%s%.*s", r->result.exit_code, len > 0 ? ": " : "",
                       (int)len, r->tail);
}

static void note_failure(run *r, const char *words)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 1 << 20);
    tide_json json;
    tide_json_init(&json, &text);
    tide_json_object_begin(&json);
    tide_json_key(&json, "error");
    tide_json_text(&json, words);
    tide_json_key(&json, "attempt");
    tide_json_i64(&json, r->item->attempt);
    put_command(&json, r->children->argv);
    tide_json_object_end(&json);
    if (tide_json_finish(&json) < TIDE_OK)
        return;
    tide_error err;
    tide_checkpoint_numbers numbers;
    const tide_checkpoint_new checkpoint = {.type = "error_boundary",
                                            .snapshot = tide_buffer_view(&text)};
    TIDE_IGNORE(tide_job_checkpoint(r->job, &checkpoint, &numbers, &err));
}

static tide_status conclude(run *r, tide_error *err)
{
    if (r->result.exit_code == 0 && r->result.reason == 0)
        return finish_item(r, err);
    if (r->result.reason == STOPPED) {
        /* Stopped by us: not the item's fault. A command that managed to end well before the signal reached it is done. */
        if (r->result.exit_code == 0 && tide_job_lease_left_us(r->job) > 0)
            return finish_item(r, err);
        give_key_back(r);
        return tide_job_release(r->job, 0, err);
    }
    if (r->result.exit_code == TIDE_WORK_CHILD_LATER) {
        give_key_back(r);
        return tide_job_release(r->job, LATER_US, err);
    }
    char words[STDERR_TAIL + 64];
    describe_failure(r, words, sizeof words);
    note_failure(r, words);
    give_key_back(r);
    return tide_job_fail(r->job, words, r->result.exit_code == TIDE_WORK_CHILD_NEVER, -1, err);
}

/* Another attempt has stored the answer, but not the end of the item. */
static tide_status finish_from_answer(run *r, tide_error *err)
{
    tide_work_result result = {.output = r->state.has_response ? r->state.response : NULL};
    return tide_job_finish(r->job, &result, err);
}

static tide_status wait_for_key(run *r, tide_error *err)
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

tide_status tide_work_child_run(void *arg, tide_job *job, tide_error *err)
{
    TIDE_CLEANUP(end_run)
    run r = {.children = arg,
             .job = job,
             .item = tide_job_item(job),
             .sockets = {-1, -1},
             .errors = {-1, -1},
             .stop_fd = -1,
             .end_fd = -1};
    TIDE_TRY(open_run(&r, err));
    TIDE_TRY(begin_key(&r, err));
    if (r.state.outcome == TIDE_IDEMPOTENCY_REPLAY)
        return finish_from_answer(&r, err);
    if (r.state.outcome == TIDE_IDEMPOTENCY_IN_PROGRESS)
        return wait_for_key(&r, err);
    if (r.state.outcome == TIDE_IDEMPOTENCY_MISMATCH)
        return tide_job_fail(job, "the idempotency key of this item belongs to another request",
                             true, -1, err);
    tide_status status = hand_over_checkpoint(&r, err);
    if (status >= TIDE_OK)
        status = note_start(&r, err);
    if (status >= TIDE_OK)
        status = fill_environment(&r, err);
    if (status >= TIDE_OK)
        status = run_with_messenger(&r, err);
    if (status < TIDE_OK) {
        give_key_back(&r);
        return status;
    }
    return conclude(&r, err);
}
