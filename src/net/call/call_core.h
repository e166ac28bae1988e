/* call_core.h - a call as the transports see it: opened by headers, fed with a body, read for its
 * answer.
 *
 * HTTP/1.1 and HTTP/2 share everything between "the headers are in" and "these bytes are the
 * answer":
 *
 *     tide_call_open      finds the route, authorises, and gives a call; a refused one has ended
 *                         already
 *     tide_call_feed      bytes of the body, as they come; above a limit the call ends with the
 *                         code for it
 *     tide_call_feed_end  the body is complete: the method runs
 *     tide_call_step      messages are delivered, waiting functions are called, deadlines looked at
 *     tide_call_response    true once the answer's head is known; then tide_call_read, and trailers
 *                           at its end
 *     tide_call_leave     the transport lets go: what has not ended is cancelled
 *
 * News from other threads reach the loop through the wake function, called with the call's lock
 * held: it only notes that the connection wants a step. After tide_call_leave it is never called
 * again.
 *
 * Threads: the functions here belong to the loop, except for tide_call_run. */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "net/call/call.h"
#include "net/codec/inflate.h"
#include "net/http/charged_buffer.h"
#include "net/http/headers.h"
#include "net/server/server_context.h"

typedef enum tide_call_form {
    TIDE_FORM_GRPC,
    TIDE_FORM_JSON,
    TIDE_FORM_PROTOBUF,
    TIDE_FORM_RAW, /* an HTTP route */
} tide_call_form;

/* A piece of the answer on its way out. */
typedef struct tide_piece {
    struct tide_piece *next;
    uint8_t prefix[TIDE_GRPC_PREFIX_LEN];
    size_t prefix_len;
    char *bytes;
    size_t len;
    size_t offset;  /* what was read, prefix included */
    size_t charged; /* to the quota */
} tide_piece;

/* A message of a client stream that waits for its receiver. */
typedef struct tide_inbound {
    struct tide_inbound *next;
    tide_charged_buffer held;
    bool is_packed; /* it came compressed */
} tide_inbound;

typedef void tide_call_event_fn(tide_call *call, void *arg);

struct tide_call {
    /* constant once open */
    atomic_int refs;
    tide_server_context *context;
    tide_peer_quota *quota;  /* its memory is charged to it */
    tide_route_entry *entry; /* NULL: refused before one was found */
    tide_call_form form;
    tide_call_kind kind;
    bool is_h2;
    bool is_head; /* HEAD: the answer has no body */
    tide_headers request;
    char *method;
    char *path;
    char *query;
    char *content_type;
    char *peer;
    tide_peer_owner owner;
    tide_caller identity;
    bool has_identity;
    int64_t opened_us;
    int64_t deadline_us;
    int64_t body_until_us; /* INT64_MAX: a stream, which may take its time */
    tide_coding coding;    /* of the request's body or messages */
    bool accepts_gzip;

    /* the loop's: what is being received */
    uint8_t prefix[TIDE_GRPC_PREFIX_LEN];
    size_t prefix_len;
    bool is_packed;  /* the message that is coming is compressed */
    bool is_reading; /* ... its prefix is complete */
    size_t message_len;
    tide_charged_buffer body;
    int messages; /* complete ones, of a call that takes one */
    bool is_input_over;

    /* of the running method: the message it was given */
    tide_charged_buffer *current;
    bool is_current_packed;
    tide_arena arena;
    bool has_arena;

    pthread_mutex_t lock; /* the rest */
    void (*wake)(void *arg);
    void *wake_arg;
    tide_inbound *inbox;
    tide_inbound **inbox_tail;
    size_t inbox_len; /* bytes */
    bool is_half_closed;
    bool is_end_told;
    tide_call_fn *receive;
    void *receive_arg;
    tide_call_event_fn *on_drain;
    void *on_drain_arg;
    tide_call_event_fn *on_cancel;
    void *on_cancel_arg;

    struct tide_call_memory *memory; /* freed with the call */
    tide_headers answer;
    tide_headers trailers;
    tide_piece *queue;
    tide_piece **queue_tail;
    size_t queue_len;
    size_t reserved_len; /* charged for an answer that is being made */
    bool is_compressed;
    bool is_started; /* the head of the answer was handed out */
    bool has_sent;   /* pieces were queued */
    bool is_ended;
    bool is_torn; /* a plain answer that failed after its head was sent */
    bool is_cancelled;
    int grpc_code;
    int http_code;
    char *message; /* NULL: none */
    tide_buffer details;
};

/* What opens a call. Everything is borrowed, except for head, which is taken over. */
typedef struct tide_call_origin {
    const char *method;
    const char *target; /* path and query */
    const char *peer;
    tide_peer_owner owner;
    const char *certificate; /* NULL: none */
    bool is_h2;
    bool is_head_too_large;
    tide_headers *head;
    void (*wake)(void *arg);
    void *wake_arg;
} tide_call_origin;

/* NULL: no memory. The transport's reference is the caller's. */
tide_call *tide_call_open(tide_server_context *context, const tide_call_origin *origin);
void tide_call_leave(tide_call *call);

/* The call still wants the body: it was not refused. */
bool tide_call_wants_body(const tide_call *call);
void tide_call_feed(tide_call *call, tide_view bytes);
void tide_call_feed_end(tide_call *call);

/* Messages wait for their receiver: the peer should not send more yet. */
bool tide_call_is_congested(tide_call *call);

/* Let the method run, on the calling thread. */
void tide_call_run(tide_call *call);

/* The same, here or on a thread that may wait, as the method's row says. */
void tide_call_dispatch(tide_call *call);

/* Free what was received of a body that is not wanted; one that is complete belongs to the
 * method. */
void tide_call_drop_body(tide_call *call);

/* Returns when the next deadline is due; INT64_MAX: none. */
int64_t tide_call_step(tide_call *call, int64_t now_us);

/* End the call before it answered, and notify its owner. Nothing, if it has ended. */
void tide_call_cancel(tide_call *call, int grpc_code, int http_code, const char *message);

typedef struct tide_response {
    int http_code;
    const tide_headers
        *head;     /* constant from now on; user fields and those that the form asks for */
    bool is_whole; /* the call has ended: body_len is all there will be */
    size_t body_len;
    bool is_trailers_only; /* gRPC: nothing but a status */
} tide_response;

/* false: not yet. */
bool tide_call_response(tide_call *call, tide_response *out);

/* The next bytes of the body; 0 and *is_end: that was all; 0 alone: not yet. */
size_t tide_call_read(tide_call *call, void *out, size_t size, bool *is_end);

/* The body breaks off: its reader must not take it for complete. */
bool tide_call_is_torn(tide_call *call);

/* The trailers of a gRPC call that has ended: status, message, details, the method's own.
 * TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_call_trailers(tide_call *call, tide_headers *out);

/* ---- shared by the files of a call ---- */

static inline void tide_call_lock(const tide_call *call)
{
    const int failed = pthread_mutex_lock((pthread_mutex_t *)&call->lock);
    assert(failed == 0);
    (void)failed;
}

static inline void tide_call_unlock(const tide_call *call)
{
    const int failed = pthread_mutex_unlock((pthread_mutex_t *)&call->lock);
    assert(failed == 0);
    (void)failed;
}

/* The client sends any number of messages. */
static inline bool tide_call_streams_in(const tide_call *call)
{
    return call->kind == TIDE_CALL_CLIENT_STREAM || call->kind == TIDE_CALL_BIDIRECTIONAL;
}

typedef struct tide_ending {
    int grpc_code;
    int http_code; /* 0: from grpc_code */
    const char *message;
    tide_view details;
    double retry_after_s;
    const char *reason; /* NULL: none */
    const struct tide_error_metadata *metadata;
    size_t metadata_count;
} tide_ending;

/* With the lock held. */
void tide_call_finish(tide_call *call, const tide_ending *ending);
void tide_call_queue(tide_call *call, char *bytes, size_t len); /* of a failure: never refused */
void tide_call_free_piece(tide_call *call, tide_piece *piece);
void tide_call_give_reserved(tide_call *call);
bool tide_call_is_held_back(const tide_call *call); /* its reader is slow: send nothing more now */
void tide_call_drop_queue(tide_call *call);
void tide_call_drop_inbox(tide_call *call);
void tide_call_wake(tide_call *call);

/* Without it: end the call as a limit, a peer or the protocol wants it. */
void tide_call_refuse(tide_call *call, int grpc_code, int http_code, double retry_after_s,
                      const char *format, ...) TIDE_PRINTF(5, 6);
/* ... and as a status of the tables wants it. */
void tide_call_refuse_status(tide_call *call, tide_status status, const tide_error *err);
