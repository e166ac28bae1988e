/* load_nats.c - publishing to a JetStream stream, one message per span. See load.h.
 *
 * Singly: every message asks for its acknowledgement. In atomic batches (nats-server 2.12 and later): the last message of a batch
 * asks, and the batch is stored as a whole. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "load.h"

enum { IN_MAX = 1 << 20, LINE_MAX_LEN = 4096 };

#define SUBJECT "bench"
#define STREAM "BENCH"

typedef struct nats_state {
    tide_buffer in;
    char inbox[32];
    bool is_batch;
    int64_t batches;
    bool is_answered; /* of a request outside the run */
} nats_state;

static int connections_made;

/* ---- what comes ---- */

static void take_message(load_connection *c, tide_view body)
{
    nats_state *state = c->state;
    if (body.len > 0 && memmem(body.ptr, body.len, "\"error\"", 7))
        bench_die("nats says %.*s", (int)body.len, body.ptr);
    if (body.len == 0)
        return; /* a batch was begun */
    state->is_answered = true;
    const int64_t records = state->is_batch ? c->batch : 1;
    if (c->in_flight >= records) {
        c->in_flight -= records;
        c->acked += records;
    }
}

/* "MSG SUBJECT SID [REPLY] LEN" or "HMSG SUBJECT SID [REPLY] HEADER_LEN LEN": the last number counts. */
static size_t read_len(tide_view line)
{
    size_t at = line.len;
    while (at > 0 && line.ptr[at - 1] != ' ')
        at--;
    return (size_t)strtoull(line.ptr + at, NULL, 10);
}

/* Takes one message or line; 0: it is not all there yet. */
static size_t take_one(load_connection *c, tide_view rest)
{
    const char *line_end = memchr(rest.ptr, '\n', rest.len);
    if (!line_end)
        return 0;
    const size_t line_len = (size_t)(line_end - rest.ptr) + 1;
    const tide_view line = tide_view_bytes(rest.ptr, line_len < 2 ? 0 : line_len - 2);
    if (line.len >= 4 && (memcmp(line.ptr, "MSG ", 4) == 0 || memcmp(line.ptr, "HMSG", 4) == 0)) {
        const size_t len = read_len(line);
        if (rest.len < line_len + len + 2)
            return 0;
        take_message(c, tide_view_bytes(rest.ptr + line_len, len));
        return line_len + len + 2;
    }
    if (line.len >= 4 && memcmp(line.ptr, "PING", 4) == 0)
        load_must(tide_buffer_append_text(&c->out, "PONG\r\n"));
    if (line.len >= 4 && memcmp(line.ptr, "-ERR", 4) == 0)
        bench_die("nats says %.*s", (int)line.len, line.ptr);
    return line_len;
}

static void take(load_connection *c, const char *bytes, size_t len)
{
    nats_state *state = c->state;
    load_must(tide_buffer_append(&state->in, bytes, len));
    size_t at = 0;
    while (at < state->in.len) {
        const size_t used = take_one(c, tide_view_bytes(state->in.ptr + at, state->in.len - at));
        if (used == 0)
            break;
        at += used;
    }
    memmove(state->in.ptr, state->in.ptr + at, state->in.len - at);
    tide_buffer_truncate(&state->in, state->in.len - at);
}

/* ---- what goes ---- */

/* Ask the server for something and wait for its answer. */
static void request(load_connection *c, const char *subject, const char *body)
{
    nats_state *state = c->state;
    char text[LINE_MAX_LEN];
    char bytes[LINE_MAX_LEN];
    (void)snprintf(text, sizeof text, "PUB %s %s %zu\r\n%s\r\n", subject, state->inbox,
                   strlen(body), body);
    load_send(c, tide_view_of(text));
    state->is_answered = false;
    while (!state->is_answered)
        take(c, bytes, load_receive(c, bytes, sizeof bytes));
}

/* The server greets with INFO {..., "version":"2.15.1", ...}. */
static bool knows_batches(load_connection *c)
{
    static const char mark[] = "\"version\":\"";
    char bytes[LINE_MAX_LEN];
    const size_t len = load_receive(c, bytes, sizeof bytes - 1);
    bytes[len] = '\0';
    const char *at = strstr(bytes, mark);
    char *rest = NULL;
    const long major = at ? strtol(at + sizeof mark - 1, &rest, 10) : 0;
    const long minor = rest && *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
    if (major == 0)
        bench_die("nats greets with %s", bytes);
    return major > 2 || (major == 2 && minor >= 12);
}

static void begin_as(load_connection *c, bool is_batch)
{
    const bool is_capable = knows_batches(c);
    nats_state *state = bench_alloc(sizeof *state);
    c->state = state;
    state->is_batch = is_batch;
    tide_buffer_init(&state->in, IN_MAX);
    if (is_batch && !is_capable)
        bench_die("this nats-server has no atomic batches; 2.12 and later have");
    const int number = ++connections_made;
    (void)snprintf(state->inbox, sizeof state->inbox, "_INBOX.%d", number);
    char text[LINE_MAX_LEN];
    (void)snprintf(text, sizeof text,
                   "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,"
                   "\"no_responders\":true,\"protocol\":1}\r\nSUB %s 1\r\n",
                   state->inbox);
    load_send(c, tide_view_of(text));
    if (number == 1)
        request(c, "$JS.API.STREAM.CREATE." STREAM,
                is_capable ? "{\"name\":\"" STREAM "\",\"subjects\":[\"" SUBJECT
                             "\"],\"storage\":\"file\",\"num_replicas\":1,\"allow_atomic\":true}"
                           : "{\"name\":\"" STREAM "\",\"subjects\":[\"" SUBJECT
                             "\"],\"storage\":\"file\",\"num_replicas\":1}");
}

static void begin(load_connection *c)
{
    begin_as(c, false);
}

static void begin_batch(load_connection *c)
{
    begin_as(c, true);
}

static void clear(load_connection *c)
{
    request(c, "$JS.API.STREAM.PURGE." STREAM, "");
}

static void put_span(load_connection *c, tide_view span)
{
    load_must(tide_buffer_append_view(&c->out, span));
    load_must(tide_buffer_append_text(&c->out, "\r\n"));
}

static void fill(load_connection *c)
{
    const nats_state *state = c->state;
    for (; c->in_flight < c->window; c->in_flight++) {
        const tide_view span = c->spans->spans[c->in_flight % LOAD_SPANS];
        load_must(
            tide_buffer_printf(&c->out, "PUB " SUBJECT " %s %zu\r\n", state->inbox, span.len));
        put_span(c, span);
    }
}

static void fill_batch(load_connection *c)
{
    nats_state *state = c->state;
    for (; c->in_flight + c->batch <= c->window; c->in_flight += c->batch) {
        state->batches++;
        for (int i = 0; i < c->batch; i++) {
            const bool is_last = i + 1 == c->batch;
            const tide_view span = c->spans->spans[i];
            char head[256];
            const int len = snprintf(head, sizeof head,
                                     "NATS/1.0\r\nNats-Batch-Id:%s.%" PRId64
                                     "\r\nNats-Batch-Sequence:%d\r\n%s\r\n",
                                     state->inbox + sizeof "_INBOX." - 1, state->batches, i + 1,
                                     is_last ? "Nats-Batch-Commit:1\r\n" : "");
            load_must(tide_buffer_printf(&c->out, "HPUB " SUBJECT "%s%s %d %zu\r\n",
                                         is_last ? " " : "", is_last ? state->inbox : "", len,
                                         (size_t)len + span.len));
            load_must(tide_buffer_append(&c->out, head, (size_t)len));
            put_span(c, span);
        }
    }
}

static void end(load_connection *c)
{
    nats_state *state = c->state;
    tide_buffer_done(&state->in);
    free(state);
}

const load_protocol load_nats = {
    .begin = begin, .clear = clear, .fill = fill, .take = take, .end = end};
const load_protocol load_nats_batch = {
    .begin = begin_batch, .clear = clear, .fill = fill_batch, .take = take, .end = end};
