/* h2_case.h - a case of the HTTP/2 tests: a connection without a socket, its limits and a buffer. */
#pragma once

#include <stdlib.h>

#include "net/http/h2.h"
#include "net/http/h2_rig.h"
#include "support/check.h"

#define H2_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const char *const GRPC[] = {"content-type", "application/grpc", "te", "trailers", NULL};

typedef struct fixture {
    h2_rig rig;
    tide_net_limits limits;
    tide_buffer bytes;
} fixture;

static inline int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    tide_net_limits_init(&f->limits);
    tide_buffer_init(&f->bytes, 512 << 20);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    fixture *f = *state;
    h2_rig_done(&f->rig);
    tide_buffer_done(&f->bytes);
    free(f);
    return 0;
}

static inline void ignore_wake(void *arg)
{
    (void)arg;
}

static inline tide_view no_message(void)
{
    return tide_view_bytes("", 0);
}
