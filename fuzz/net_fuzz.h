/* net_fuzz.h - a connection that is fed with bytes, for the fuzz targets of the protocols.
 *
 * Methods: /echo (POST) answers with its body, /t.T/U, /t.T/S (server stream), /t.T/B (bidirectional, echoes), all with
 * small limits so that bounds are reached by short inputs. Time passes a little with every piece. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "net/http/conn.h"

enum { NET_FUZZ_OUTPUT_MAX = 64 << 20, NET_FUZZ_FILL = 3 };

/* Not assert: it must hold in whatever way the target is built. */
static inline void net_fuzz_require(bool is_true)
{
    if (!is_true)
        abort();
}

static inline int64_t net_fuzz_zero(tide_env *env)
{
    (void)env;
    return 0;
}

static inline void net_fuzz_echo(tide_call *call, tide_view message, void *arg)
{
    (void)arg;
    tide_call_respond(call, message);
}

static inline void net_fuzz_stream(tide_call *call, tide_view message, void *arg)
{
    (void)arg;
    for (int i = 0; i < NET_FUZZ_FILL; i++)
        (void)tide_call_send(call, message);
    tide_call_end(call, TIDE_OK, NULL);
}

static inline void net_fuzz_receive(tide_call *call, tide_view message, void *arg)
{
    (void)arg;
    if (message.ptr)
        (void)tide_call_send(call, message);
    else
        tide_call_end(call, TIDE_OK, NULL);
}

static inline void net_fuzz_duplex(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    tide_call_receive(call, net_fuzz_receive, arg);
}

static const tide_method NET_FUZZ_METHODS[] = {
    {"/t.T/U", TIDE_CALL_UNARY, TIDE_ROLE_NONE, false, NULL, NULL, net_fuzz_echo},
    {"/t.T/S", TIDE_CALL_SERVER_STREAM, TIDE_ROLE_NONE, false, NULL, NULL, net_fuzz_stream},
    {"/t.T/B", TIDE_CALL_BIDIRECTIONAL, TIDE_ROLE_NONE, false, NULL, NULL, net_fuzz_duplex},
    {0},
};

static const tide_route NET_FUZZ_ROUTES[] = {
    {"POST", "/echo", false, TIDE_ROLE_NONE, false, net_fuzz_echo},
    {"GET", "/g/", true, TIDE_ROLE_NONE, false, net_fuzz_echo},
    {0},
};

static inline void net_fuzz_wake(void *arg)
{
    bool *is_woken = arg;
    *is_woken = true;
}

typedef tide_conn *net_fuzz_make(const tide_conn_setup *setup, int64_t now_us);

/* Let the connection work until nothing moves. */
static inline void net_fuzz_turn(tide_conn *conn, bool *is_woken, tide_buffer *input,
                                 tide_buffer *out)
{
    for (bool is_moving = true; is_moving;) {
        *is_woken = false;
        const size_t before = out->len;
        const size_t taken =
            input->len > 0 ? conn->class->feed(conn, tide_buffer_view(input), 0) : 0;
        net_fuzz_require(taken <= input->len);
        if (taken > 0) {
            memmove(input->ptr, input->ptr + taken, input->len - taken);
            tide_buffer_truncate(input, input->len - taken);
        }
        (void)conn->class->step(conn, 0);
        for (tide_view bytes = conn->class->pull(conn); bytes.len > 0;
             bytes = conn->class->pull(conn)) {
            if (tide_buffer_append_view(out, bytes) != TIDE_OK)
                return;
        }
        is_moving = taken > 0 || *is_woken || out->len > before;
    }
}

static inline void net_fuzz_run(net_fuzz_make *make, tide_view bytes, size_t piece,
                                tide_buffer *out)
{
    tide_env env = {TIDE_ENV_INIT, .wall_us = net_fuzz_zero, .mono_us = net_fuzz_zero,
                    .boot_us = net_fuzz_zero};
    tide_net_limits limits;
    tide_net_limits_init(&limits);
    limits.message_len = 4096;
    limits.budget_len = 65536;
    limits.queue_len = 4096;
    limits.header_list_len = 2048;
    limits.streams = 8;
    tide_routes *routes = NULL;
    tide_server_context *context = NULL;
    if (tide_routes_new(&routes, NULL) != TIDE_OK ||
        tide_routes_add_methods(routes, NET_FUZZ_METHODS, NULL, NULL) != TIDE_OK ||
        tide_routes_add(routes, NET_FUZZ_ROUTES, NULL, NULL) != TIDE_OK ||
        tide_server_context_new(&context, &env, &limits, routes, NULL) != TIDE_OK)
        abort();
    bool is_woken = false;
    const tide_conn_setup setup = {
        .context = context, .peer = "192.0.2.1:1", .wake = net_fuzz_wake, .wake_arg = &is_woken};
    tide_conn *conn = make(&setup, 0);
    net_fuzz_require(conn != NULL);
    tide_buffer input;
    tide_buffer_init(&input, bytes.len + 1);
    for (size_t at = 0; at < bytes.len && !conn->class->is_over(conn);) {
        const size_t part = bytes.len - at < piece ? bytes.len - at : piece;
        net_fuzz_require(tide_buffer_append(&input, bytes.ptr + at, part) == TIDE_OK);
        at += part;
        net_fuzz_turn(conn, &is_woken, &input, out);
    }
    conn->class->free(conn);
    net_fuzz_require(atomic_load(&context->budget.used) == 0);
    net_fuzz_require(tide_counted(&context->counters.calls_running) == 0);
    tide_buffer_done(&input);
    tide_server_context_release(context);
    tide_routes_free(routes);
}
