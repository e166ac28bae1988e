#include "cli/work/work_messages.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/json_tree.h"
#include "cli/frame/input.h"

#define LINGER_US                                                                                  \
    INT64_C(1000000) /* for what is left to read and to pass on when the command has ended */
#define RENEWAL_MIN_US INT64_C(20000)

static void answer_failure(tide_buffer *answer, const char *words)
{
    tide_json json;
    tide_buffer_clear(answer);
    tide_json_init(&json, answer);
    tide_json_object_begin(&json);
    tide_json_key(&json, "ok");
    tide_json_bool(&json, false);
    tide_json_key(&json, "error");
    tide_json_text(&json, words);
    tide_json_object_end(&json);
    TIDE_IGNORE(tide_json_finish(&json));
}

static tide_status answer_success(tide_buffer *answer, const tide_checkpoint_numbers *numbers)
{
    tide_json json;
    tide_json_init(&json, answer);
    tide_json_object_begin(&json);
    tide_json_key(&json, "ok");
    tide_json_bool(&json, true);
    if (numbers) {
        tide_json_key(&json, "checkpoint_id");
        tide_json_text(&json, numbers->checkpoint_id);
        tide_json_key(&json, "sequence_number");
        tide_json_i64(&json, numbers->sequence_number);
        tide_json_key(&json, "global_sequence");
        tide_json_i64(&json, numbers->global_sequence);
    }
    tide_json_object_end(&json);
    return tide_json_finish(&json);
}

static tide_status take_tags(const tide_json_node *object, const char *tags[TIDE_JOURNAL_TAGS_MAX],
                             int *count, tide_error *err)
{
    const tide_json_node *list = tide_json_node_find(object, "tags");
    *count = 0;
    if (!list)
        return TIDE_OK;
    if (!tide_json_node_is(list, TIDE_JSON_TYPE_ARRAY) ||
        tide_json_node_count(list) > TIDE_JOURNAL_TAGS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "\"tags\" is a list of up to %d texts",
                         TIDE_JOURNAL_TAGS_MAX);
    for (size_t i = 0; i < tide_json_node_count(list); i++) {
        tags[i] = tide_json_node_text(tide_json_node_at(list, i));
        if (!tags[i])
            return tide_fail(err, TIDE_E_INVALID, "\"tags\" is a list of texts");
        (*count)++;
    }
    return TIDE_OK;
}

static tide_status take_text(const tide_json_node *object, const char *name, const char **out,
                             tide_error *err)
{
    const tide_json_node *value = tide_json_node_find(object, name);
    if (!value || tide_json_node_is(value, TIDE_JSON_TYPE_NULL))
        return TIDE_OK;
    if (!tide_json_node_is(value, TIDE_JSON_TYPE_TEXT))
        return tide_fail(err, TIDE_E_INVALID, "\"%s\" is not a text", name);
    *out = tide_json_node_text(value);
    return TIDE_OK;
}

static tide_status store_checkpoint(tide_work_messages *messages, const tide_json_node *object,
                                    tide_view snapshot, tide_checkpoint_numbers *numbers,
                                    tide_error *err)
{
    const char *tags[TIDE_JOURNAL_TAGS_MAX];
    tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "manual_checkpoint",
                                      .snapshot = snapshot, .tags = tags};
    TIDE_TRY(take_text(object, "type", &checkpoint.type, err));
    TIDE_TRY(take_text(object, "message", &checkpoint.message, err));
    TIDE_TRY(take_tags(object, tags, &checkpoint.tag_count, err));
    return tide_job_checkpoint(messages->job, &checkpoint, numbers, err);
}

static tide_status store_progress(tide_work_messages *messages, tide_view value, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_JOURNAL_METADATA_MAX);
    const tide_status status = tide_buffer_append_view(&text, value);
    if (status < TIDE_OK)
        return tide_fail(err, status, "a progress has up to %d bytes", TIDE_JOURNAL_METADATA_MAX);
    return tide_job_progress(messages->job, tide_buffer_text(&text), err);
}

/* An output that is refused leaves the one before it. */
static tide_status keep_output(tide_work_messages *messages, tide_view value, tide_error *err)
{
    if (value.len > TIDE_WORK_DATA_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "an output has up to %d bytes", TIDE_WORK_DATA_MAX);
    tide_buffer_clear(&messages->output);
    messages->has_output = false;
    const tide_status status = tide_buffer_append_view(&messages->output, value);
    TIDE_TRY(tide_buffer_check(status, err));
    messages->has_output = true;
    return TIDE_OK;
}

static tide_status take_object(tide_work_messages *messages, const tide_json_node *object,
                               tide_view line, tide_buffer *answer, tide_error *err)
{
    /* Values are kept as they were written. */
    const tide_view snapshot = tide_cli_json_member(line, "checkpoint");
    const tide_view progress = tide_cli_json_member(line, "progress");
    const tide_view output = tide_cli_json_member(line, "output");
    tide_checkpoint_numbers numbers = {.global_sequence = 0};
    if (!snapshot.ptr && !progress.ptr && !output.ptr)
        return tide_fail(err, TIDE_E_INVALID,
                         "a message has a \"checkpoint\", a \"progress\" or an \"output\"");
    if (output.ptr)
        TIDE_TRY(keep_output(messages, output, err));
    if (progress.ptr)
        TIDE_TRY(store_progress(messages, progress, err));
    if (snapshot.ptr)
        TIDE_TRY(store_checkpoint(messages, object, snapshot, &numbers, err));
    return answer_success(answer, snapshot.ptr ? &numbers : NULL);
}

void tide_work_messages_take(tide_work_messages *messages, tide_view line, tide_buffer *answer)
{
    tide_error err = {0};
    tide_buffer_clear(answer);
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *object = NULL;
    if (tide_json_tree_read(&object, line, &err) < TIDE_OK) {
        answer_failure(answer, err.text);
        return;
    }
    if (!tide_json_node_is(object, TIDE_JSON_TYPE_OBJECT)) {
        answer_failure(answer, "a message is a JSON object");
        return;
    }
    const tide_status status = take_object(messages, object, line, answer, &err);
    if (status < TIDE_OK)
        answer_failure(answer, err.text[0] ? err.text : tide_status_get(status)->text);
}

/* ---- the socket ---- */

static void send_answer(const tide_work_messages *messages, tide_buffer *answer)
{
    if (tide_buffer_append_byte(answer, '\n') < TIDE_OK)
        return;
    /* Who does not read its answers must not hold us up. */
    const ssize_t sent = send(messages->fd, answer->ptr, answer->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent;
}

/* Bytes of the line under way. */
static void grow_line(tide_work_messages *messages, const char *bytes, size_t len)
{
    if (messages->is_over || tide_buffer_append(&messages->line, bytes, len) == TIDE_OK)
        return;
    messages->is_over = true;
    tide_buffer_done(&messages->line);
    tide_buffer_init(&messages->line, TIDE_WORK_LINE_MAX);
}

static void end_line(tide_work_messages *messages, tide_buffer *answer)
{
    if (messages->is_over)
        answer_failure(answer, "the message is too long");
    else
        tide_work_messages_take(messages, tide_buffer_view(&messages->line), answer);
    send_answer(messages, answer);
    messages->is_over = false;
    tide_buffer_clear(&messages->line);
}

/* False: nothing more will come. */
static bool read_lines(tide_work_messages *messages, tide_buffer *answer)
{
    char bytes[65536];
    const ssize_t got = recv(messages->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 && (errno == EINTR || errno == EAGAIN);
    const char *at = bytes;
    const char *const end = bytes + got;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        grow_line(messages, at, (size_t)((stop ? stop : end) - at));
        if (stop)
            end_line(messages, answer);
        at = stop ? stop + 1 : end;
    }
    return true;
}

/* ---- stderr ---- */

static void keep_tail(tide_work_messages *messages, const char *bytes, size_t len)
{
    const size_t fresh = len < TIDE_WORK_TAIL_MAX ? len : TIDE_WORK_TAIL_MAX;
    const size_t room = TIDE_WORK_TAIL_MAX - fresh;
    const size_t kept = messages->tail_len < room ? messages->tail_len : room;
    memmove(messages->tail, messages->tail + (messages->tail_len - kept), kept);
    memcpy(messages->tail + kept, bytes + (len - fresh), fresh);
    messages->tail_len = kept + fresh;
    messages->tail[messages->tail_len] = '\0';
}

/* False: nothing more will come. */
static bool read_errors(tide_work_messages *messages)
{
    const ssize_t got = read(messages->errors_fd, messages->held, sizeof messages->held);
    if (got <= 0)
        return got < 0 && (errno == EINTR || errno == EAGAIN);
    keep_tail(messages, messages->held, (size_t)got);
    messages->held_at = 0;
    messages->held_len = (size_t)got;
    return true;
}

static bool has_held(const tide_work_messages *messages)
{
    return messages->held_at < messages->held_len;
}

/* Called when poll says that the reader takes some: so this does not block. */
static void pass_on(tide_work_messages *messages)
{
    const ssize_t sent = write(STDERR_FILENO, messages->held + messages->held_at,
                               messages->held_len - messages->held_at);
    if (sent >= 0)
        messages->held_at += (size_t)sent;
    else if (errno != EINTR && errno != EAGAIN)
        messages->held_at = messages->held_len; /* the reader has left */
}

/* ---- the loop ---- */

int64_t tide_work_messages_lock_us(const tide_job *job)
{
    const int64_t left_us = tide_job_lease_left_us(job);
    return left_us > TIDE_LEASE_MIN_US ? left_us : TIDE_LEASE_MIN_US;
}

static void keep_lock(tide_work_messages *messages)
{
    tide_error err;
    TIDE_IGNORE(tide_idempotency_renew(tide_job_store(messages->job), messages->key,
                                       messages->key_token,
                                       tide_work_messages_lock_us(messages->job), &err));
}

/* Everything that was written is read and passed on. */
static bool is_dry(const tide_work_messages *messages)
{
    struct pollfd fds[2] = {{.fd = messages->fd, .events = POLLIN},
                            {.fd = messages->errors_fd, .events = POLLIN}};
    return !has_held(messages) && poll(fds, 2, 0) == 0;
}

static void turn_once(tide_work_messages *messages, tide_buffer *answer, int64_t wait_us)
{
    const bool is_holding = has_held(messages);
    struct pollfd fds[] = {
        {.fd = messages->fd, .events = POLLIN},
        {.fd = messages->end_fd, .events = POLLIN},
        {.fd = is_holding ? -1 : messages->errors_fd, .events = POLLIN},
        {.fd = is_holding ? STDERR_FILENO : -1, .events = POLLOUT},
    };
    const int wait_ms = wait_us <= 0 ? 0 : (int)(wait_us < 60000000 ? wait_us / 1000 + 1 : 60000);
    if (poll(fds, sizeof fds / sizeof fds[0], wait_ms) <= 0)
        return;
    if (fds[0].revents && !read_lines(messages, answer))
        messages->fd = -1;
    if (fds[2].revents && !read_errors(messages))
        messages->errors_fd = -1;
    if (fds[3].revents)
        pass_on(messages);
    if (fds[1].revents)
        messages->end_fd = -1;
}

/* With the lease, after a third of what is left of it. */
static int64_t plan_renewal(const tide_work_messages *messages, tide_env *env)
{
    const int64_t third_us = tide_work_messages_lock_us(messages->job) / 3;
    return env->boot_us(env) + (third_us > RENEWAL_MIN_US ? third_us : RENEWAL_MIN_US);
}

/* How long what is left may take when the command has ended: not so long that the lease ends over it. When it is over already there is nothing to
 * hurry for, and what the command said is in the pipe. */
static int64_t find_linger_us(const tide_work_messages *messages)
{
    const int64_t left_us = tide_job_lease_left_us(messages->job) / 4;
    return left_us > 0 && left_us < LINGER_US ? left_us : LINGER_US;
}

void *tide_work_messages_serve(void *arg)
{
    tide_work_messages *messages = arg;
    tide_env *env = tide_store_env(tide_job_store(messages->job));
    int64_t renew_at_us = plan_renewal(messages, env);
    int64_t until_us = INT64_MAX;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = tide_buffer_of(1 << 20);
    for (;;) {
        const int64_t now_us = env->boot_us(env);
        const bool has_ended = messages->end_fd < 0;
        if (has_ended && until_us == INT64_MAX)
            until_us = now_us + find_linger_us(messages);
        if (has_ended && (is_dry(messages) || now_us >= until_us))
            break;
        if (!has_ended && now_us >= renew_at_us) {
            keep_lock(messages);
            renew_at_us = plan_renewal(messages, env);
        }
        turn_once(messages, &answer, (has_ended ? until_us : renew_at_us) - now_us);
    }
    if (messages->line.len > 0 || messages->is_over)
        end_line(messages, &answer);
    return NULL;
}
