#include "cli/work_messages.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/input.h"

static void decrefp(json_t **value)
{
    json_decref(*value);
}

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

static tide_status take_tags(const json_t *object, const char *tags[TIDE_JOURNAL_TAGS_MAX],
                             int *count, tide_error *err)
{
    const json_t *list = json_object_get(object, "tags");
    *count = 0;
    if (!list)
        return TIDE_OK;
    if (!json_is_array(list) || json_array_size(list) > TIDE_JOURNAL_TAGS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "\"tags\" is a list of up to %d texts",
                         TIDE_JOURNAL_TAGS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        tags[i] = json_string_value(json_array_get(list, i));
        if (!tags[i])
            return tide_fail(err, TIDE_E_INVALID, "\"tags\" is a list of texts");
        (*count)++;
    }
    return TIDE_OK;
}

static tide_status store_checkpoint(tide_work_messages *messages, const json_t *object,
                                    tide_view snapshot, tide_checkpoint_numbers *numbers,
                                    tide_error *err)
{
    const char *tags[TIDE_JOURNAL_TAGS_MAX];
    const char *type = json_string_value(json_object_get(object, "type"));
    tide_checkpoint_new checkpoint = {
        .type = type ? type : "manual_checkpoint",
        .snapshot = snapshot,
        .message = json_string_value(json_object_get(object, "message")),
        .tags = tags,
    };
    TIDE_TRY(take_tags(object, tags, &checkpoint.tag_count, err));
    return tide_job_checkpoint(messages->job, &checkpoint, numbers, err);
}

static tide_status store_progress(tide_work_messages *messages, tide_view value, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, TIDE_JOURNAL_METADATA_MAX);
    TIDE_TRY(tide_buffer_append_view(&text, value));
    return tide_job_progress(messages->job, tide_buffer_text(&text), err);
}

static tide_status keep_output(tide_work_messages *messages, tide_view value, tide_error *err)
{
    tide_buffer_clear(&messages->output);
    const tide_status status = tide_buffer_append_view(&messages->output, value);
    if (status < TIDE_OK)
        return tide_fail(err, status, "an output has up to %d bytes", TIDE_WORK_DATA_MAX);
    messages->has_output = true;
    return TIDE_OK;
}

static tide_status take_object(tide_work_messages *messages, const json_t *object, tide_view line,
                               tide_buffer *answer, tide_error *err)
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
    json_error_t where;
    TIDE_CLEANUP(decrefp) json_t *object = json_loadb(line.ptr, line.len, JSON_ALLOW_NUL, &where);
    tide_buffer_clear(answer);
    if (!json_is_object(object)) {
        answer_failure(answer, "a message is one JSON object on one line");
        return;
    }
    const tide_status status = take_object(messages, object, line, answer, &err);
    if (status == TIDE_E_LEASE_LOST)
        atomic_store(&messages->is_lost, true);
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

static void take_lines(tide_work_messages *messages, tide_buffer *answer)
{
    size_t start = 0;
    const char *end = NULL;
    while (start < messages->line.len &&
           (end = memchr(messages->line.ptr + start, '\n', messages->line.len - start))) {
        const size_t len = (size_t)(end - (messages->line.ptr + start));
        if (len > 0) {
            tide_work_messages_take(messages, (tide_view){messages->line.ptr + start, len}, answer);
            send_answer(messages, answer);
        }
        start += len + 1;
    }
    memmove(messages->line.ptr, messages->line.ptr + start, messages->line.len - start);
    tide_buffer_truncate(&messages->line, messages->line.len - start);
}

/* False: nothing more will come. */
static bool read_some(tide_work_messages *messages, tide_buffer *answer)
{
    char bytes[65536];
    const ssize_t got = recv(messages->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (got == 0)
        return false;
    if (tide_buffer_append(&messages->line, bytes, (size_t)got) < TIDE_OK) {
        answer_failure(answer, "the message is too long");
        send_answer(messages, answer);
        tide_buffer_clear(&messages->line);
        return true;
    }
    if (memchr(bytes, '\n', (size_t)got))
        take_lines(messages, answer);
    return true;
}

static bool has_more(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

static void keep_lock(tide_work_messages *messages)
{
    tide_error err;
    if (messages->key)
        TIDE_IGNORE(tide_idempotency_renew(tide_job_store(messages->job), messages->key,
                                           messages->key_token, messages->lock_us, &err));
}

void *tide_work_messages_serve(void *arg)
{
    tide_work_messages *messages = arg;
    tide_env *env = tide_store_env(tide_job_store(messages->job));
    const int64_t gap_us = messages->lock_us / 3;
    int64_t renew_at_us = env->boot_us(env) + gap_us;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer;
    tide_buffer_init(&answer, 1 << 20);
    for (;;) {
        struct pollfd fds[2] = {{.fd = messages->fd, .events = POLLIN},
                                {.fd = messages->end_fd, .events = POLLIN}};
        const int64_t left_us = renew_at_us - env->boot_us(env);
        const int timeout_ms =
            left_us <= 0 ? 0 : (int)(left_us / 1000 < 60000 ? left_us / 1000 + 1 : 60000);
        (void)poll(fds, 2, timeout_ms);
        if (fds[0].revents && !read_some(messages, &answer))
            return NULL;
        if (fds[1].revents && !has_more(messages->fd))
            return NULL;
        if (env->boot_us(env) >= renew_at_us) {
            keep_lock(messages);
            renew_at_us = env->boot_us(env) + gap_us;
        }
    }
}
