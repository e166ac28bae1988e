/* conn.h - one connection as a protocol sees it: bytes in, bytes out, and time.
 *
 * The protocols (h2.h, http1.h) own no socket, thread or clock. Whoever drives one
 *
 *     feeds    what came from the peer; what is not taken is fed again after the next step
 *     pulls    what is to be sent, as much as there is room for
 *     steps    after every feed, after a wake-up, and when the time that step returned has come
 *     closes   when it is over and everything that was pulled is sent
 *
 * The wake function may be called on any thread and only notes that a step is wanted.
 *
 * Threads: a connection belongs to its loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/export.h>
#include <tidemark/view.h>

#include "net/server/server_context.h"

typedef struct tide_conn tide_conn;

typedef struct tide_conn_class {
    void (*free)(tide_conn *conn); /* calls that have not ended are cancelled */
    size_t (*feed)(tide_conn *conn, tide_view bytes, int64_t now_us);
    tide_view (*pull)(tide_conn *conn); /* valid until the next call; len 0: nothing now */
    int64_t (*step)(tide_conn *conn, int64_t now_us); /* INT64_MAX: only when something happens */
    void (*drain)(tide_conn *conn); /* take no new calls, end when all have ended */
    bool (*is_over)(const tide_conn *conn);
    int64_t (*idle_since_us)(const tide_conn *conn); /* INT64_MAX: it is not idle */
} tide_conn_class;

struct tide_conn {
    const tide_conn_class *class;
    bool is_hostile; /* the peer floods us: it is owed no gentle end */
};

typedef struct tide_conn_setup {
    tide_server_context *context;
    const char *peer; /* copied */
    tide_peer_owner owner;
    const char *certificate; /* copied; NULL: none */
    void (*wake)(void *arg);
    void *wake_arg;
} tide_conn_setup;

/* NULL: no memory. */
TIDE_MUST_CHECK tide_conn *tide_h2_new(const tide_conn_setup *setup, int64_t now_us);
TIDE_MUST_CHECK tide_conn *tide_http1_new(const tide_conn_setup *setup, int64_t now_us);

/* Which one the first bytes ask for: HTTP/2 begins with a preface that no other request can be. */
typedef enum tide_preface {
    TIDE_PREFACE_H2,
    TIDE_PREFACE_HTTP1,
    TIDE_PREFACE_UNDECIDED
} tide_preface;
tide_preface tide_preface_find(tide_view bytes);
