#include "net/http/http1_rig.h"

#include <string.h>

#include "support/check.h"

enum { OUTPUT_MAX = 64 << 20 };

static void note_wake(void *arg)
{
    http1_rig *rig = arg;
    rig->is_woken = true;
}

void http1_rig_init(http1_rig *rig)
{
    tide_error err;
    *rig = (http1_rig){0};
    virtual_env_init(&rig->env, 1);
    tide_net_limits_init(&rig->limits);
    tide_buffer_init(&rig->input, OUTPUT_MAX);
    tide_buffer_init(&rig->output, OUTPUT_MAX);
    assert_ok_err(tide_routes_new(&rig->routes, &err), &err);
    assert_ok_err(test_service_add(&rig->service, rig->routes, &err), &err);
}

void http1_rig_reopen(http1_rig *rig, const char *peer)
{
    if (rig->conn)
        rig->conn->class->free(rig->conn);
    const tide_conn_setup setup = {.context = rig->context,
                                   .peer = peer,
                                   .owner = {.is_known = true},
                                   .wake = note_wake,
                                   .wake_arg = rig};
    rig->conn = tide_http1_new(&setup, rig->env.mono_us);
    assert_non_null(rig->conn);
    tide_buffer_clear(&rig->input);
    tide_buffer_clear(&rig->output);
}

void http1_rig_open(http1_rig *rig, bool has_auth)
{
    tide_error err;
    assert_ok_err(
        tide_server_context_new(&rig->context, &rig->env.env, &rig->limits, rig->routes, &err),
        &err);
    rig->service.counters = &rig->context->counters;
    rig->context->authorise = has_auth ? test_service_authorise : NULL;
    http1_rig_reopen(rig, "192.0.2.1:5");
}

void http1_rig_done(http1_rig *rig)
{
    rig->conn->class->free(rig->conn);
    assert_int_equal(0, tide_budget_used(&rig->context->budget));
    assert_int_equal(0, tide_budget_used(&rig->context->answers));
    assert_int_equal(0, tide_counted(&rig->context->counters.calls_running));
    tide_server_context_release(rig->context);
    tide_routes_free(rig->routes);
    tide_buffer_done(&rig->input);
    tide_buffer_done(&rig->output);
    virtual_env_done(&rig->env);
}

void http1_rig_run(http1_rig *rig)
{
    bool is_moving = true;
    while (is_moving) {
        rig->is_woken = false;
        const size_t taken =
            rig->input.len > 0
                ? rig->conn->class->feed(rig->conn, tide_buffer_view(&rig->input), rig->env.mono_us)
                : 0;
        if (taken > 0) {
            memmove(rig->input.ptr, rig->input.ptr + taken, rig->input.len - taken);
            tide_buffer_truncate(&rig->input, rig->input.len - taken);
        }
        rig->next_us = rig->conn->class->step(rig->conn, rig->env.mono_us);
        const size_t before = rig->output.len;
        for (tide_view out = rig->conn->class->pull(rig->conn); out.len > 0;
             out = rig->conn->class->pull(rig->conn))
            assert_ok(tide_buffer_append_view(&rig->output, out));
        is_moving = taken > 0 || rig->is_woken || rig->output.len > before;
    }
}

const char *http1_rig_ask_bytes(http1_rig *rig, tide_view bytes)
{
    tide_buffer_clear(&rig->output);
    assert_ok(tide_buffer_append_view(&rig->input, bytes));
    http1_rig_run(rig);
    return tide_buffer_text(&rig->output);
}

const char *http1_rig_ask(http1_rig *rig, const char *text)
{
    return http1_rig_ask_bytes(rig, tide_view_of(text));
}

bool http1_rig_is_over(const http1_rig *rig)
{
    return rig->conn->class->is_over(rig->conn);
}
