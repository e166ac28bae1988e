/* client_stream.c - what callers do with a transfer: begin, send, next, end; see
 * client_internal.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/text/base64.h"
#include "net/client/client_internal.h"

/* ---- requests ---- */

enum { PATH_LEN_MAX = 2048, FIELD_LEN_MAX = 16384, LINE_SIZE = 256, UPLOAD_LEN = 16384 };

/* ---- the token ---- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static tide_status check_token(const char *token, const char *from, tide_error *err)
{
    const size_t len = strlen(token);
    bool is_good = len > 0 && len <= TIDE_CLIENT_TOKEN_MAX;
    for (const char *at = token; is_good && *at; at++)
        is_good = *at > ' ' && *at <= '~';
    return is_good ? TIDE_OK
                   : tide_fail(err, TIDE_E_INVALID,
                               "%s: no token of visible ASCII in its first line", from);
}

/* Under the client's lock. */
static tide_status read_token(tide_client *client, tide_error *err)
{
    const char *path = client->options.token_file;
    struct stat facts;
    if (stat(path, &facts) == 0 && client->token[0] && is_same_file(&facts, &client->token_facts))
        return TIDE_OK;
    tide_buffer text;
    tide_buffer_init(&text, TIDE_CLIENT_TOKEN_MAX);
    tide_status status = tide_file_read_private(&text, path, err);
    if (status == TIDE_OK && text.len > 0)
        text.ptr[strcspn(text.ptr, "\r\n")] = '\0';
    if (status == TIDE_OK)
        status = check_token(tide_buffer_text(&text), path, err);
    if (status == TIDE_OK) {
        (void)snprintf(client->token, sizeof client->token, "%s", tide_buffer_text(&text));
        client->token_facts = facts;
    }
    if (text.ptr)
        explicit_bzero(text.ptr, text.capacity);
    tide_buffer_done(&text);
    return status;
}

/* ---- fields ---- */

static tide_status add_line(tide_client_stream *stream, const char *line, tide_error *err)
{
    struct curl_slist *longer = curl_slist_append(stream->fields, line);
    TIDE_NEED_MEMORY(longer, err);
    stream->fields = longer;
    return TIDE_OK;
}

static tide_status add_token(tide_client_stream *stream, tide_error *err)
{
    tide_client *client = stream->client;
    char line[TIDE_CLIENT_TOKEN_MAX + 32];
    if (!client->options.token && !client->options.token_file)
        return TIDE_OK;
    if (client->options.token) {
        TIDE_TRY(check_token(client->options.token, "the token", err));
        (void)snprintf(line, sizeof line, "authorization: Bearer %s", client->options.token);
    } else {
        pthread_mutex_lock(&client->lock);
        const tide_status status = read_token(client, err);
        (void)snprintf(line, sizeof line, "authorization: Bearer %s", client->token);
        pthread_mutex_unlock(&client->lock);
        TIDE_TRY(status);
    }
    const tide_status status = add_line(stream, line, err);
    explicit_bzero(line, sizeof line);
    return status;
}

static bool is_field_name(const char *name)
{
    if (!*name || strlen(name) > 128 || strncmp(name, "grpc-", 5) == 0)
        return false;
    for (; *name; name++)
        if (!((*name >= 'a' && *name <= 'z') || (*name >= '0' && *name <= '9') ||
              strchr("-_.", *name)))
            return false;
    return true;
}

static bool is_field_value(tide_view value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] < ' ' || value.ptr[i] > '~')
            return false;
    return true;
}

/* No value can end its line: what it may consist of has been looked at, bytes travel as base64. */
static tide_status add_field(tide_client_stream *stream, const tide_client_field *field,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer line = tide_buffer_of(FIELD_LEN_MAX);
    const bool is_binary = tide_headers_is_binary(tide_view_of(field->name));
    if (!is_field_name(field->name) || (!is_binary && !is_field_value(field->value)))
        return tide_fail(err, TIDE_E_INVALID, "the field '%s' cannot be sent", field->name);
    /* libcurl's way of writing a field without a value. */
    tide_status status =
        tide_buffer_printf(&line, field->value.len > 0 ? "%s: " : "%s;", field->name);
    if (status >= TIDE_OK && field->value.len > 0)
        status = is_binary ? tide_base64_encode(&line, field->value, false)
                           : tide_buffer_append_view(&line, field->value);
    if (status < TIDE_OK)
        return tide_fail(err, status, "the field '%s' is too long", field->name);
    return add_line(stream, tide_buffer_text(&line), err);
}

/* At most eight digits and a unit. */
static tide_status add_timeout(tide_client_stream *stream, int64_t timeout_us, tide_error *err)
{
    char line[LINE_SIZE];
    if (timeout_us == INT64_MAX)
        return TIDE_OK;
    if (timeout_us < 100000000)
        (void)snprintf(line, sizeof line, "grpc-timeout: %" PRId64 "u", timeout_us);
    else if (timeout_us / 1000 < 100000000)
        (void)snprintf(line, sizeof line, "grpc-timeout: %" PRId64 "m", timeout_us / 1000);
    else
        (void)snprintf(line, sizeof line, "grpc-timeout: %" PRId64 "S", timeout_us / 1000000);
    return add_line(stream, line, err);
}

static tide_status add_fields(tide_client_stream *stream, const tide_client_request *request,
                              int64_t timeout_us, tide_error *err)
{
    TIDE_TRY(add_line(stream, "Expect:", err)); /* libcurl would ask before it sends much */
    if (stream->is_grpc) {
        TIDE_TRY(add_line(stream, "content-type: application/grpc", err));
        TIDE_TRY(add_line(stream, "te: trailers", err));
        TIDE_TRY(add_line(stream, "accept:", err));
        TIDE_TRY(add_line(stream, "grpc-accept-encoding: " TIDE_CODING_ACCEPTED, err));
        if (stream->client->options.is_gzip)
            TIDE_TRY(add_line(stream, "grpc-encoding: gzip", err));
        TIDE_TRY(add_timeout(stream, timeout_us, err));
    } else {
        const char *type = request->content_type ? request->content_type : "application/json";
        const tide_client_field field = {"content-type", tide_view_of(type)};
        TIDE_TRY(add_field(stream, &field, err));
        if (stream->client->options.is_gzip)
            TIDE_TRY(add_line(stream, "content-encoding: gzip", err));
    }
    TIDE_TRY(add_token(stream, err));
    for (size_t i = 0; i < request->field_count; i++)
        TIDE_TRY(add_field(stream, &request->fields[i], err));
    return TIDE_OK;
}

/* ---- the handle ---- */

static tide_status set_url(tide_client_stream *stream, const char *path, tide_error *err)
{
    bool is_good = path && path[0] == '/' && strlen(path) <= PATH_LEN_MAX;
    for (const char *at = path; is_good && *at; at++)
        is_good = *at > ' ' && *at <= '~' && *at != '#';
    if (!is_good)
        return tide_fail(err, TIDE_E_INVALID, "the path '%s' cannot be called", path ? path : "");
    if (asprintf(&stream->url, "%s%s", stream->client->base_url, path) < 0) {
        stream->url = NULL;
        return tide_no_memory(err);
    }
    return TIDE_OK;
}

static void set_tls(const tide_client_stream *stream)
{
    const tide_client_options *options = &stream->client->options;
    CURL *easy = stream->easy;
    (void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (options->ca_file) {
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca_file);
        (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (options->cert_file) {
        (void)curl_easy_setopt(easy, CURLOPT_SSLCERT, options->cert_file);
        (void)curl_easy_setopt(easy, CURLOPT_SSLKEY,
                               options->key_file ? options->key_file : options->cert_file);
    }
}

static void set_times(tide_client_stream *stream, int64_t timeout_us)
{
    const int64_t connect_us = stream->client->options.connect_us;
    stream->until_us = timeout_us == INT64_MAX ? INT64_MAX : tide_cond_until(timeout_us);
    if (timeout_us != INT64_MAX)
        (void)curl_easy_setopt(stream->easy, CURLOPT_TIMEOUT_MS, (long)((timeout_us + 999) / 1000));
    (void)curl_easy_setopt(stream->easy, CURLOPT_CONNECTTIMEOUT_MS,
                           (long)((connect_us + 999) / 1000));
    (void)curl_easy_setopt(stream->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(stream->easy, CURLOPT_TCP_KEEPIDLE, 20L);
    (void)curl_easy_setopt(stream->easy, CURLOPT_TCP_KEEPINTVL, 10L);
}

/* Handle, URL and fields of a new transfer. */
static tide_status client_request_set(tide_client_stream *stream,
                                      const tide_client_request *request, int64_t timeout_us,
                                      tide_error *err)
{
    stream->easy = curl_easy_init();
    CURL *easy = stream->easy;
    TIDE_NEED_MEMORY(easy, err);
    TIDE_TRY(set_url(stream, request->path, err));
    TIDE_TRY(add_fields(stream, request, timeout_us, err));
    (void)curl_easy_setopt(easy, CURLOPT_URL, stream->url);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, stream->fields);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, stream->client->options.user_agent);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
    /* Connections are kept, not addresses: libcurl looks through all of the addresses that it keeps
     * whenever a transfer ends, which thousands of targets pay for; and a target that moved is
     * found at once. */
    (void)curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_LEN); /* a frame */
    if (stream->client->socket_path)
        (void)curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, stream->client->socket_path);
    if (!stream->is_grpc)
        (void)curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
    set_tls(stream);
    set_times(stream, timeout_us);
    tide_client_connect_set(stream);
    tide_client_transfer_set(stream);
    return TIDE_OK;
}

enum {
    GZIP_MIN_LEN = 1024,    /* shorter messages are not worth it */
    PACKED_SLACK = 1 << 16, /* what gzip may add to bytes that cannot be compressed, and prefixes */
    ERROR_BODY_MAX = 4096,  /* of an answer that is no gRPC */
    DETAILS_MAX = 16384,
};

/* ---- replies ---- */

void tide_client_response_init(tide_client_response *reply)
{
    *reply = (tide_client_response){.retry_after_us = -1};
    tide_buffer_init(&reply->message, TIDE_CLIENT_MESSAGE_MAX);
    tide_buffer_init(&reply->details, DETAILS_MAX);
    tide_headers_init(&reply->head, TIDE_CLIENT_HEAD_MAX);
    tide_headers_init(&reply->trailers, TIDE_CLIENT_HEAD_MAX);
}

void tide_client_response_done(tide_client_response *reply)
{
    tide_buffer_done(&reply->message);
    tide_buffer_done(&reply->details);
    tide_headers_done(&reply->head);
    tide_headers_done(&reply->trailers);
}

/* ---- a transfer's life ---- */

static void free_stream(tide_client_stream *stream)
{
    curl_easy_cleanup(stream->easy);
    curl_slist_free_all(stream->fields);
    free(stream->url);
    tide_buffer_done(&stream->out);
    tide_client_message_free(stream->partial);
    while (stream->first) {
        tide_client_message *message = stream->first;
        stream->first = message->next;
        tide_client_message_free(message);
    }
    tide_client_response_done(&stream->reply);
    (void)pthread_cond_destroy(&stream->changed);
    (void)pthread_mutex_destroy(&stream->lock);
    free(stream);
}

void tide_client_release(tide_client_stream *stream)
{
    if (atomic_fetch_sub(&stream->refs, 1) == 1)
        free_stream(stream);
}

static void releasep(tide_client_stream **stream)
{
    if (*stream)
        tide_client_release(*stream);
}

void tide_client_finish(tide_client_stream *stream, CURLcode result)
{
    pthread_mutex_lock(&stream->lock);
    tide_client_response_end(stream, result);
    stream->is_over = true;
    pthread_cond_broadcast(&stream->changed);
    const size_t held_len = stream->held_len;
    stream->held_len = 0;
    pthread_mutex_unlock(&stream->lock);
    if (held_len > 0)
        (void)atomic_fetch_sub(stream->client->options.held, (long long)held_len);
    if (stream->on_over)
        tide_client_finish_call(stream);
}

static tide_client_stream *new_stream(tide_client *client, bool is_grpc)
{
    tide_client_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->client = client;
    stream->is_grpc = is_grpc;
    atomic_init(&stream->refs, 1);
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->changed, NULL);
    tide_buffer_init(&stream->out,
                     client->options.message_max + client->options.queue_len + PACKED_SLACK);
    stream->last = &stream->first;
    stream->made_fd = -1;
    stream->corked_fd = -1;
    tide_client_response_init(&stream->reply);
    tide_buffer_init(&stream->reply.message,
                     is_grpc ? (size_t)ERROR_BODY_MAX : client->options.message_max);
    return stream;
}

/* ---- what we say ---- */

static tide_status put_packed(tide_client_stream *stream, tide_view message, bool is_packed,
                              tide_error *err)
{
    uint8_t prefix[TIDE_GRPC_PREFIX_LEN];
    tide_grpc_prefix_encode(prefix, is_packed, (uint32_t)message.len);
    const size_t before_len = stream->out.len;
    tide_status status = TIDE_OK;
    if (stream->is_grpc)
        status = tide_buffer_append(&stream->out, prefix, sizeof prefix);
    if (status >= TIDE_OK)
        status = tide_buffer_append_view(&stream->out, message);
    if (status >= TIDE_OK)
        return TIDE_OK;
    tide_buffer_truncate(&stream->out, before_len);
    return tide_fail(err, status, "no room for a message of %zu bytes", message.len);
}

static tide_status put_message(tide_client_stream *stream, tide_view message, tide_error *err)
{
    const tide_client_options *options = &stream->client->options;
    if (message.len > options->message_max)
        return tide_fail(err, TIDE_E_LIMIT, "a message of %zu bytes, at most %zu are sent",
                         message.len, options->message_max);
    if (!options->is_gzip || (stream->is_grpc && message.len < GZIP_MIN_LEN))
        return put_packed(stream, message, false, err);
    TIDE_CLEANUP(tide_buffer_done)
    tide_buffer packed = tide_buffer_of(options->message_max + PACKED_SLACK);
    TIDE_TRY(tide_gzip_append(&packed, message, 0, err));
    return put_packed(stream, tide_buffer_view(&packed), true, err);
}

tide_status tide_client_make(tide_client_stream **out, tide_client *client,
                             const tide_client_request *request, bool is_grpc, int64_t timeout_us,
                             tide_error *err)
{
    TIDE_CLEANUP(releasep) tide_client_stream *stream = new_stream(client, is_grpc);
    TIDE_NEED_MEMORY(stream, err);
    stream->is_idempotent = request->is_idempotent;
    stream->message_max = request->message_max ? request->message_max : client->options.message_max;
    stream->is_out_ended = !request->is_open;
    if (request->message.ptr || !request->is_open)
        TIDE_TRY(put_message(stream, request->message, err));
    stream->body_len = request->is_open ? -1 : (int64_t)stream->out.len;
    TIDE_TRY(client_request_set(stream, request, timeout_us, err));
    *out = TIDE_TAKE(stream);
    return TIDE_OK;
}

tide_status tide_client_start(tide_client_stream **out, tide_client *client,
                              const tide_client_request *request, bool is_grpc, int64_t timeout_us,
                              tide_error *err)
{
    TIDE_TRY(tide_client_make(out, client, request, is_grpc, timeout_us, err));
    tide_client_wake(*out);
    return TIDE_OK;
}

tide_status tide_client_begin(tide_client_stream **out, tide_client *client,
                              const tide_client_request *request, tide_error *err)
{
    const int64_t timeout_us =
        request->timeout_us ? request->timeout_us : client->options.timeout_us;
    return tide_client_start(out, client, request, true, timeout_us, err);
}

static tide_status report_end(const tide_client_stream *stream, tide_error *err)
{
    if (stream->status >= TIDE_OK)
        return TIDE_NONE;
    const char *words = stream->text[0] ? stream->text : tide_status_get(stream->status)->text;
    return tide_fail(err, stream->status, "%s", words);
}

tide_status tide_client_send(tide_client_stream *stream, tide_view message, tide_error *err)
{
    pthread_mutex_lock(&stream->lock);
    while (!stream->is_over && !stream->is_cancelled &&
           stream->out.len - stream->out_at >= stream->client->options.queue_len)
        pthread_cond_wait(&stream->changed, &stream->lock);
    tide_status status = TIDE_OK;
    if (stream->is_over) {
        status = report_end(stream, err);
        if (status == TIDE_NONE)
            status = tide_fail(err, TIDE_E_INTERRUPTED, "the server has ended the call already");
    } else if (stream->is_out_ended) {
        status = tide_fail(err, TIDE_E_INTERRUPTED, "the server has ended the call already");
    } else {
        status = put_message(stream, message, err);
    }
    const bool was_paused = stream->is_out_paused;
    stream->is_out_paused = false;
    pthread_mutex_unlock(&stream->lock);
    if (was_paused)
        tide_client_wake(stream);
    return status;
}

void tide_client_send_end(tide_client_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->is_out_ended = true;
    stream->is_out_paused = false;
    pthread_mutex_unlock(&stream->lock);
    tide_client_wake(stream);
}

/* ---- what comes back ---- */

/* The first message; the sender goes on when half of what may wait has been taken. */
static bool pop_first(tide_client_stream *stream, tide_buffer *message)
{
    tide_client_message *taken = stream->first;
    stream->first = taken->next;
    if (!stream->first)
        stream->last = &stream->first;
    stream->queued_len -= taken->bytes.len;
    tide_buffer_done(message);
    *message = taken->bytes;
    free(taken);
    const bool goes_on =
        stream->is_in_paused && stream->queued_len <= stream->client->options.queue_len / 2;
    if (goes_on)
        stream->is_in_paused = false;
    return goes_on;
}

tide_status tide_client_next(tide_client_stream *stream, tide_buffer *message, tide_error *err)
{
    bool goes_on = false;
    tide_status status = TIDE_OK;
    pthread_mutex_lock(&stream->lock);
    while (!stream->first && !stream->is_over)
        pthread_cond_wait(&stream->changed, &stream->lock);
    /* What was given up is not read on. */
    const bool is_given_up = stream->is_over && stream->status == TIDE_E_INTERRUPTED;
    if (stream->first && !is_given_up)
        goes_on = pop_first(stream, message);
    else
        status = report_end(stream, err);
    pthread_mutex_unlock(&stream->lock);
    if (goes_on)
        tide_client_wake(stream);
    return status;
}

bool tide_client_is_ready(tide_client_stream *stream)
{
    TIDE_HOLD(&stream->lock);
    return stream->first || stream->is_over;
}

const tide_client_response *tide_client_stream_response(const tide_client_stream *stream)
{
    return &stream->reply;
}

void tide_client_cancel(tide_client_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->is_cancelled = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    tide_client_wake(stream);
}

void tide_client_end(tide_client_stream *stream)
{
    if (!stream)
        return;
    pthread_mutex_lock(&stream->lock);
    const bool is_over = stream->is_over;
    pthread_mutex_unlock(&stream->lock);
    if (!is_over)
        tide_client_cancel(stream);
    tide_client_release(stream);
}
