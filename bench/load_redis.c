/* load_redis.c - pipelined XADD, one entry per span. See load.h.
 *
 * The pipeline of a batch is encoded once. An answer is "$LEN\r\nID\r\n": every second line is an entry that is in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "load.h"

enum { PIPELINE_MAX = 4 << 20 };

typedef struct redis_state {
    tide_buffer pipeline;
    bool is_inside;  /* of a line */
    bool is_id_next; /* the line after "$LEN" */
} redis_state;

static void begin(load_connection *c)
{
    redis_state *state = bench_alloc(sizeof *state);
    c->state = state;
    tide_buffer_init(&state->pipeline, PIPELINE_MAX);
    for (int i = 0; i < c->batch; i++) {
        const tide_view span = c->spans->spans[i];
        load_must(tide_buffer_printf(&state->pipeline,
                                     "*5\r\n$4\r\nXADD\r\n$5\r\nbench\r\n$1\r\n*\r\n$1\r\nd\r\n"
                                     "$%zu\r\n",
                                     span.len));
        load_must(tide_buffer_append_view(&state->pipeline, span));
        load_must(tide_buffer_append_text(&state->pipeline, "\r\n"));
    }
}

static void clear(load_connection *c)
{
    char answer[64] = "";
    load_send(c, tide_view_of("*2\r\n$3\r\nDEL\r\n$5\r\nbench\r\n"));
    const size_t len = load_receive(c, answer, sizeof answer - 1);
    if (answer[0] != ':')
        bench_die("redis says %.*s", (int)len, answer);
}

static void fill(load_connection *c)
{
    const redis_state *state = c->state;
    while (c->in_flight + c->batch <= c->window) {
        load_must(tide_buffer_append_view(&c->out, tide_buffer_view(&state->pipeline)));
        c->in_flight += c->batch;
    }
}

static void take(load_connection *c, const char *bytes, size_t len)
{
    redis_state *state = c->state;
    for (const char *at = bytes, *end = bytes + len; at < end;) {
        if (!state->is_inside && !state->is_id_next && *at != '$')
            bench_die("redis says %.*s", (int)(end - at < 100 ? end - at : 100), at);
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        state->is_inside = !line_end;
        if (!line_end)
            return;
        if (state->is_id_next) {
            c->acked++;
            c->in_flight--;
        }
        state->is_id_next = !state->is_id_next;
        at = line_end + 1;
    }
}

static void end(load_connection *c)
{
    redis_state *state = c->state;
    tide_buffer_done(&state->pipeline);
    free(state);
}

const load_protocol load_redis = {
    .begin = begin, .clear = clear, .fill = fill, .take = take, .end = end};
