/* client_internal.h - what the parts of the client share: see client.h.
 *
 *     client.c          open, close
 *     client_hub.c      the thread that drives libcurl, for one client or for many
 *     client_call.c     calls that end with a callback
 *     client_connect.c  which transfer makes a connection, which waits, which shares one
 *     client_transfer.c libcurl's callbacks: bytes in and out of a transfer
 *     client_response.c what a response means
 *     client_stream.c   what callers do with a transfer
 *     client_call.c     whole calls, tried again
 *
 * A transfer is one HTTP exchange. Callers' threads and the hub's thread share it by its lock; its
 * libcurl handle is touched by the hub's thread alone, which tide_client_wake asks to check a
 * transfer again. It is kept by two references: the caller's and the thread's. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "net/client/client.h"
#include "net/client/client_hub.h"
#include "net/client/curl_api.h"
#include "net/codec/inflate.h"
#include "net/http/grpc.h"

typedef struct tide_client_sockets tide_client_sockets;

typedef struct tide_client_message {
    struct tide_client_message *next;
    tide_buffer bytes;
} tide_client_message;

struct tide_client {
    tide_client_options options; /* with defaults filled in; its texts are the client's own */
    char *texts[7];
    char *base_url; /* http://HOST:PORT */
    char *socket_path;
    bool is_https;
    tide_env *env;
    tide_client_hub *hub;
    tide_client_hub *own_hub; /* NULL: a shared one */
    CURLM *multi;             /* one of the hub's */
    tide_client_sockets *sockets;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t stopped;
    bool is_stopping;
    struct stat token_facts; /* of the file as it was read last */
    char token[TIDE_CLIENT_TOKEN_MAX + 1];

    /* under the hub's lock */
    bool is_told; /* is in the list of those that stop */
    bool is_closing;
    bool is_gone; /* the hub's thread has let go of it */
    tide_client *next_stopping;

    /* the thread's alone; see client_connect.c */
    bool is_stepping;
    tide_client *next_stepping;
    tide_client_stream *running;
    tide_client_stream *waiting; /* for the first connection to be made */
    tide_client_stream **waiting_end;
    tide_client_stream *connecting; /* who makes it */
};

/* Connections may outlive the client that made them, in libcurl's cache: so does their count. The
 * thread's alone, once the client is open. */
struct tide_client_sockets {
    tide_client_hub *hub;
    int count;
    bool is_orphan; /* the client is closed: freed with the last socket, or with the hub */
    tide_client_sockets *next; /* of the hub's orphans */
};

struct tide_client_stream {
    tide_client *client;
    atomic_int refs;
    bool is_grpc;
    bool is_idempotent;

    /* the thread's alone */
    CURL *easy;
    bool is_added;
    bool is_fresh;   /* makes a connection of its own */
    bool is_refused; /* would have needed one, but may not make it */
    int made_fd;     /* the socket that it made; < 0: none */
    int start_count;
    int lost_count;    /* answers that libcurl has lost */
    int request_count; /* how often it was sent, as far as libcurl came */
    tide_client_stream *next_waiting;
    tide_client_stream *next_running;
    tide_client_stream **running_link;
    bool is_sending; /* much, or who knows how much */
    tide_client_stream *next_sending;
    int corked_fd; /* < 0: none; see client_connect.c */
    tide_client_stream *next_corked;

    /* set before it starts */
    struct curl_slist *fields;
    char *url;
    int64_t body_len; /* < 0: not known yet */
    int64_t until_us; /* its deadline; INT64_MAX: none */
    size_t message_max;

    /* under the hub's lock */
    bool is_pending;
    tide_client_stream *next_pending;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool is_cancelled;

    tide_buffer out; /* what is sent; of an open one, out_at bytes are gone */
    size_t out_at;
    bool is_out_ended;
    bool is_out_paused;

    uint8_t prefix[TIDE_GRPC_PREFIX_LEN];
    size_t prefix_len;
    uint32_t message_len;
    tide_client_message *partial; /* a message that is not complete yet; the whole body of a post */
    tide_client_message *first;
    tide_client_message **last;
    size_t queued_len;
    size_t held_len; /* counted in options.held */
    bool is_in_paused;

    bool has_head; /* its fields are complete */
    tide_client_response reply;
    tide_status failure; /* our own: too large, not gRPC */
    char failure_text[TIDE_ERROR_TEXT_MAX];
    bool is_over;
    /* called once, by the hub's thread, when it is over; NULL: none */
    tide_client_done_fn *on_over;
    void *on_over_arg;
    int64_t begun_us;      /* of calls with a callback */
    bool was_unsent;       /* the server cannot have seen it */
    bool is_retry_refused; /* the server says: not again (pushback < 0) */
    tide_status status;
    char text[TIDE_ERROR_TEXT_MAX];
};

/* client.c */
bool tide_client_is_stopping(tide_client *client);

/* client_hub.c: look at a stream again (a new one, one to resume or cancel). */
void tide_client_wake(tide_client_stream *stream);
void tide_client_hub_join(tide_client_hub *hub, tide_client *client);
/* End all its calls, soon. */
void tide_client_hub_stop(tide_client *client);
/* The same, and wait until the thread knows nothing of the client any more. */
void tide_client_hub_leave(tide_client *client);
/* On the thread: what was held back is sent, as soon as libcurl is through with what it does. */
void tide_client_hub_cork(tide_client_stream *stream);
/* On the thread: the socket of one of our ports; < 0: it is not known. */
void tide_client_hub_know(tide_client_hub *hub, int port, int fd);
void tide_client_hub_forget(tide_client_hub *hub, int port, int fd);
int tide_client_hub_find(const tide_client_hub *hub, int port);
/* On the thread: streams that wait for a connection are to be looked at, or need not be. */
void tide_client_hub_step(tide_client *client);

/* client_connect.c: all on the client's thread. Start a transfer, now or when there is a connection
 * for it. */
void tide_client_connect_start(tide_client_stream *stream);
/* It has a connection, or will have none: no transfer waits for it any longer. */
void tide_client_connect_made(tide_client_stream *stream);
/* libcurl is through with it. True: it was started again, in another way. */
TIDE_MUST_CHECK bool tide_client_connect_again(tide_client_stream *stream, CURLcode result);
/* The request goes out next, by this port of ours: as a whole, if it is short. */
void tide_client_connect_cork(tide_client_stream *stream, int port);
void tide_client_connect_uncork(tide_client_stream *stream);
/* It is over. */
void tide_client_connect_end(tide_client_stream *stream);
/* The count of a client that has closed while it had sockets, and its end, by the thread or by the
 * close of the hub. */
void tide_client_hub_adopt(tide_client_hub *hub, tide_client_sockets *sockets);
void tide_client_hub_bury(tide_client_hub *hub, tide_client_sockets *sockets);

/* Let go of the sockets' count: the client closes. */
void tide_client_sockets_leave(tide_client_sockets *sockets);
/* Start those that have waited long enough. Not inside a callback of libcurl. */
void tide_client_connect_step(tide_client *client);
void tide_client_connect_set(tide_client_stream *stream);

/* client_transfer.c */
void tide_client_transfer_set(tide_client_stream *stream);
void tide_client_message_free(tide_client_message *message);

/* client_response.c: under the stream's lock. */
void tide_client_response_line(tide_client_stream *stream, tide_view line);
/* How it ended, once libcurl is through with it. */
void tide_client_response_end(tide_client_stream *stream, CURLcode result);
/* The delay of RetryInfo inside google.rpc.Status; < 0: none. */
int64_t tide_client_retry_delay(tide_view details);

/* client_call.c: call its callback, on the hub's thread. */
void tide_client_finish_call(tide_client_stream *stream);

/* client_stream.c: a transfer that the thread does not know yet (tide_client_wake); and one that it
 * does. */
TIDE_MUST_CHECK tide_status tide_client_make(tide_client_stream **out, tide_client *client,
                                             const tide_client_request *request, bool is_grpc,
                                             int64_t timeout_us, tide_error *err);
TIDE_MUST_CHECK tide_status tide_client_start(tide_client_stream **out, tide_client *client,
                                              const tide_client_request *request, bool is_grpc,
                                              int64_t timeout_us, tide_error *err);
void tide_client_release(tide_client_stream *stream);
/* Over: wake all waiters. Takes the stream's lock. */
void tide_client_finish(tide_client_stream *stream, CURLcode result);
