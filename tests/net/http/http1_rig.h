/* http1_rig.h - our side of an HTTP/1.1 connection, in one thread and without a socket.
 *
 * Time is virtual, the methods are those of test_service.h; what is blocking runs at once.
 *
 * Threads: none. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "net/http/conn.h"
#include "net/test_service.h"
#include "support/clock/virtual_env.h"

typedef struct http1_rig {
    virtual_env env;
    tide_net_limits limits;
    test_service service;
    tide_routes *routes;
    tide_server_context *context;
    tide_conn *conn;
    tide_buffer input; /* not taken yet */
    tide_buffer output;
    bool is_woken;
    int64_t next_us;
} http1_rig;

/* Without a connection: the limits may still be changed. */
void http1_rig_init(http1_rig *rig);
void http1_rig_done(http1_rig *rig);

/* The first connection. With authorisation: the tokens of test_service.h. */
void http1_rig_open(http1_rig *rig, bool has_auth);

/* Another one of the same server, in its place. */
void http1_rig_reopen(http1_rig *rig, const char *peer);

/* Move bytes to and fro until nothing moves any more. */
void http1_rig_run(http1_rig *rig);

/* Send bytes. Returns what was answered since the last call, borrowed. */
const char *http1_rig_ask_bytes(http1_rig *rig, tide_view bytes);
const char *http1_rig_ask(http1_rig *rig, const char *text);

bool http1_rig_is_over(const http1_rig *rig);
