/* loop.h - one thread that moves bytes, and the connections that belong to it.
 *
 * Others speak to a loop through its inbox: sockets that were accepted, links that want a step,
 * orders to drain or to stop. Nothing else of a loop or a link is touched by another thread.
 *
 * Threads: tide_loop_new, _start, _hand_over, _order and tide_link_wake from any thread, the rest
 * on the loop. */
#pragma once

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include <tidemark/error.h>

#include "net/http/conn.h"
#include "net/server/address.h"
#include "net/server/peers.h"
#include "net/server/tls.h"

typedef struct tide_loop tide_loop;
typedef struct tide_link tide_link;

/* What all loops of a server share. */
typedef struct tide_loop_shared {
    tide_server_context *context;
    tide_tls *tls; /* NULL: plain */
    tide_peers peers;
    pthread_mutex_t lock;
    pthread_cond_t emptied; /* a link went */
    int64_t link_count;     /* with lock */
} tide_loop_shared;

/* All places are taken: whose idle connection has to make room for a new one? */
typedef enum tide_room {
    TIDE_ROOM_THERE,
    TIDE_ROOM_OF_PEER, /* one of the same address */
    TIDE_ROOM_OF_ANYBODY,
} tide_room;

/* A socket on its way to its loop. */
typedef struct tide_arrival {
    struct tide_arrival *next;
    int fd;
    tide_room room;
    struct sockaddr_storage address;
} tide_arrival;

struct tide_loop {
    tide_loop_shared *shared;
    struct event_base *base;
    struct event *bell; /* rung by others */
    int bell_fd;
    pthread_t thread;
    bool is_started;
    tide_link *links;
    tide_link *pumping;          /* the link whose protocol is at work */
    void (*on_drain)(void *arg); /* on the loop, when it is told to drain; NULL: nothing */
    void *on_drain_arg;

    pthread_mutex_t lock; /* the rest: the inbox */
    tide_arrival *arrivals;
    tide_link *woken;
    bool wants_room; /* a connection that has been idle long enough is to be closed */
    bool is_draining;
    bool is_stopping;
};

/* A socket and the protocol that is spoken on it. */
struct tide_link {
    tide_loop *loop;
    tide_link *next;
    tide_link **at; /* what points to us */
    struct bufferevent *bev;
    struct event *timer;
    int64_t timer_us; /* what the timer is set to; INT64_MAX: nothing */
    tide_conn *conn;  /* NULL until the first bytes tell the protocol */
    char peer[TIDE_ADDRESS_TEXT_MAX];
    tide_peer_owner owner;
    char certificate[TIDE_TLS_NAME_MAX + 1]; /* "": none */
    tide_peer_key key;
    bool has_key;
    bool has_news;   /* woken while its protocol is at work */
    bool is_secured; /* plain, or the TLS handshake is over */
    bool has_failed; /* memory ran out */
    bool is_ending;  /* only what is queued is still sent */
    bool is_lingering;
    int64_t opened_us;
    int64_t linger_until_us;
    int64_t stalled_us; /* since when little was sent of what waits; INT64_MAX: nothing waits */
    uint64_t added_len; /* bytes given to the socket's buffer, ever */
    uint64_t moved_mark;
    int64_t busy_us; /* since when something waits, whatever was sent; INT64_MAX: nothing waits */
    uint64_t busy_mark;  /* what had been sent by then */
    uint64_t linger_len; /* bytes that came in after the end and were thrown away */

    tide_link *next_woken; /* the loop's lock */
    bool is_woken;
};

TIDE_MUST_CHECK tide_status tide_loop_new(tide_loop **out, tide_loop_shared *shared,
                                          tide_error *err);
TIDE_MUST_CHECK tide_status tide_loop_start(tide_loop *loop, tide_error *err);

/* Stops, cancels what runs, joins the thread; takes NULL. */
void tide_loop_free(tide_loop *loop);

/* The socket becomes the loop's. */
void tide_loop_hand_over(tide_loop *loop, int fd, const struct sockaddr *address, socklen_t len,
                         tide_room room);
/* Close the connection that has been idle longest, if that is spare_us. */
void tide_loop_make_room(tide_loop *loop);
void tide_loop_drain(tide_loop *loop);
bool tide_loop_is_draining(tide_loop *loop);

/* link.c */
void tide_link_make_room(tide_loop *loop);
void tide_link_open(tide_loop *loop, const tide_arrival *arrival);
void tide_link_free(tide_link *link);
void tide_link_pump(tide_link *link);
void tide_link_wake(void *woken); /* a tide_link; any thread */

/* The reservation that the acceptor made for a connection is given back. */
void tide_loop_give_back(tide_loop_shared *shared, const tide_peer_key *key, bool has_key);
