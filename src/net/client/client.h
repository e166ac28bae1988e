/* client.h - gRPC and HTTP client: calls and streams over connections that are reused.
 *
 *     tide_client_open(&client, &(tide_client_options){.target = "https://agent-7:4317", ...})
 *     tide_client_call(client, &request, &reply, err)     one message each way, retried if safe
 *     tide_client_post(client, &request, &reply, err)     the same with any body, as plain HTTP
 *
 *     tide_client_begin(&stream, client, &request, err)   streams, in every direction:
 *     tide_client_send, tide_client_send_end                  messages to the server
 *     tide_client_next                                        messages from the server
 *     tide_client_end                                         ends or abandons it
 *
 *     tide_client_start_call(NULL, client, &request, done, arg, err)   done is called at its end
 *
 * A client belongs to one target. A thread moves the bytes of all calls (libcurl): its own, or that
 * of a hub which many clients share (client_hub.h). Calls share connections: HTTP/2 carries many at
 * a time. Callers wait for their own call, on any number of threads.
 *
 * Every call has a deadline over all tries and waits together. The server receives it
 * (grpc-timeout).
 *
 * Retried are (tide_client_call and _post alone; streams are left to their caller):
 *
 *     calls that did not reach the server (no connection)     always
 *     UNAVAILABLE, RESOURCE_EXHAUSTED, ABORTED, HTTP 429      always, not before the time that
 *       or 503 with a time (RetryInfo, Retry-After,             the server names
 *       grpc-retry-pushback-ms)
 *     UNAVAILABLE without a time; HTTP 502, 503, 504          idempotent calls
 *     broken connections                                      idempotent calls; others are
 *                                                             TIDE_E_OUTCOME_UNKNOWN
 *
 * with waits that double and vary (base/backoff.h), at most try_max tries, and never beyond the
 * deadline.
 *
 * Flow control: a stream is not read on while queue_len bytes of it wait for tide_client_next.
 * Messages may be compressed (gzip, deflate, zstd are received, gzip is sent) and have at most
 * message_max bytes, also after decompression.
 *
 * Security: over https the server's certificate and name are always checked. A token file is read
 * again when it has changed. A token is not sent over a plain connection to another machine, unless
 * is_insecure. Redirects are not followed, proxies of the environment not used.
 *
 * A server that refuses a call at its headers and resets the stream at once makes libcurl 7.88 lose
 * the response. So short requests are sent whole, and an idempotent call whose response was lost is
 * begun again (client_connect.c). A call that is not idempotent and has a long message may still
 * end as one whose connection broke.
 *
 * gRPC codes become statuses (tide_client_status_of). The code itself, its message and details are
 * in the reply.
 *
 * Threads: tide_client_stop, tide_client_cancel, calls and begins may be used from any thread; a
 * stream's send and next on two threads, its end after both. tide_client_close does not wait: all
 * calls must have returned, all streams have been ended.
 * Limits: below, and those of the options. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/backoff.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "net/client/client_hub.h"
#include "net/http/headers.h"

enum {
    /* bytes of a message; also what is kept of an error's body */
    TIDE_CLIENT_MESSAGE_MAX = 64 << 20,
    TIDE_CLIENT_QUEUE_LEN = 1 << 20, /* unread bytes of a stream before its sender is held back */
    TIDE_CLIENT_HEAD_MAX = 64 << 10, /* bytes of header fields of an answer */
    TIDE_CLIENT_TRY_MAX = 5,
    TIDE_CLIENT_CONNECTIONS = 8,
    TIDE_CLIENT_TOKEN_MAX = 4096, /* bytes of a token */
};

#define TIDE_CLIENT_TIMEOUT_US INT64_C(60000000)
#define TIDE_CLIENT_CONNECT_US INT64_C(10000000)

typedef struct tide_client tide_client;
typedef struct tide_client_stream tide_client_stream;

/* A call that has ended, for metrics (runtime/client_metrics.h). */
typedef struct tide_client_counted {
    const char *path; /* of the request: borrowed */
    int grpc_code;    /* as of the status that the caller gets */
    int try_count;    /* 0: it was never begun */
    int64_t took_us;  /* with all tries and waits */
} tide_client_counted;
typedef void tide_client_count_fn(void *arg, const tide_client_counted *counted);

/* Zero and NULL mean the default everywhere. */
typedef struct tide_client_options {
    const char *target;  /* http://HOST:PORT, https://HOST:PORT or unix:PATH */
    const char *ca_file; /* checks a https server; NULL: the system's */
    const char *cert_file;
    const char *key_file;   /* NULL: in cert_file */
    const char *token;      /* bearer token */
    const char *token_file; /* or a file whose first line it is */
    bool is_insecure;       /* the token may go over a plain connection to another machine */
    bool is_gzip;           /* compress what we send */
    const char *user_agent; /* "tidemark" */
    tide_env *env;          /* for waits between tries and their chance; calls wait in real time */
    int64_t timeout_us;     /* of a call that says nothing; TIDE_CLIENT_TIMEOUT_US */
    int64_t connect_us;     /* for a connection to be made; TIDE_CLIENT_CONNECT_US */
    size_t message_max;
    size_t queue_len;
    int try_max;
    int connection_max;   /* of a client without a hub; others: the hub's */
    tide_client_hub *hub; /* must outlive the client; NULL: one of its own */
    tide_backoff backoff; /* 100 ms to 5 s */
    /* of whole calls (tide_client_call, _post), on the caller's thread; NULL: none */
    tide_client_count_fn *count;
    void *count_arg;
    /* The bytes of responses that are not complete yet are added to it, of any number of clients;
     * must outlive them. NULL: not counted. */
    atomic_llong *held;
} tide_client_options;

/* A header field of a request. The value of a name that ends in "-bin" is bytes, others are visible
 * ASCII and spaces. */
typedef struct tide_client_field {
    const char *name; /* lower case */
    tide_view value;
} tide_client_field;

typedef struct tide_client_request {
    const char *path;  /* "/package.Service/Method" */
    tide_view message; /* ptr NULL: none yet (streams); empty messages have a pointer */
    const tide_client_field *fields;
    size_t field_count;
    int64_t timeout_us;       /* 0: the client's; INT64_MAX: none */
    bool is_idempotent;       /* doing it twice is the same as once */
    bool is_open;             /* streams: more messages will be sent */
    size_t message_max;       /* of this call's answer; 0: the client's */
    const char *content_type; /* of a post; NULL: application/json */
} tide_client_request;

/* A response. On the caller's stack: init, any number of calls, done. */
typedef struct tide_client_response {
    tide_buffer message; /* or the body of a post, whatever its HTTP status */
    tide_headers head;
    tide_headers trailers;
    int http_code;          /* 0: no answer */
    int grpc_code;          /* of the server, or as HTTP and the connection imply */
    tide_buffer details;    /* google.rpc.Status, as bytes; empty: none */
    int64_t retry_after_us; /* advice of the server; < 0: none */
    bool is_too_large;      /* TIDE_E_LIMIT is ours, not the server's */
    int try_count;
} tide_client_response;

void tide_client_response_init(tide_client_response *reply);
void tide_client_response_done(tide_client_response *reply); /* fits TIDE_CLEANUP */

/* The scheme to put before an address (HOST:PORT, unix:PATH, or with a scheme already). */
const char *tide_client_scheme(const char *address, bool is_tls);

/* The options are copied. TIDE_E_INVALID: no such target, files that are not what they should be
 * (tls.h), a token that may not be sent. TIDE_E_NOT_FOUND, TIDE_E_DENIED: a file. Does not connect
 * yet. */
TIDE_MUST_CHECK tide_status tide_client_open(tide_client **out, const tide_client_options *options,
                                             tide_error *err);
void tide_client_close(tide_client *client); /* takes NULL */
TIDE_CLEANUP_FN(tide_client_closep, tide_client, tide_client_close)

/* End all calls, waits and streams with TIDE_E_INTERRUPTED; further ones end likewise. */
void tide_client_stop(tide_client *client);

/* One message each way. TIDE_OK: reply->message is the response. Otherwise the status of the
 * server, or TIDE_E_TIMEOUT, TIDE_E_UNAVAILABLE (never arrived), TIDE_E_OUTCOME_UNKNOWN,
 * TIDE_E_DENIED (certificates), TIDE_E_LIMIT (a message too large), TIDE_E_DAMAGED (an invalid
 * response), TIDE_E_INTERRUPTED. */
TIDE_MUST_CHECK tide_status tide_client_call(tide_client *client,
                                             const tide_client_request *request,
                                             tide_client_response *reply, tide_error *err);

/* POST as plain HTTP. TIDE_OK: 2xx. Otherwise as above, from the HTTP code and, where the body is
 * JSON with "message", with that text; the body is in the reply. */
TIDE_MUST_CHECK tide_status tide_client_post(tide_client *client,
                                             const tide_client_request *request,
                                             tide_client_response *reply, tide_error *err);

/* ---- streams ---- */

/* Begin a call; request->message, if there is one, is sent. Returns before anything has arrived
 * anywhere.
 * TIDE_E_INVALID: a path or field that cannot be sent. */
TIDE_MUST_CHECK tide_status tide_client_begin(tide_client_stream **out, tide_client *client,
                                              const tide_client_request *request, tide_error *err);

/* Send one more message; waits while queue_len bytes are under way. A failure is the call's end. */
TIDE_MUST_CHECK tide_status tide_client_send(tide_client_stream *stream, tide_view message,
                                             tide_error *err);
/* Nothing more will be sent. */
void tide_client_send_end(tide_client_stream *stream);

/* The next message into an emptied buffer, which gets the message's memory. TIDE_NONE: the server
 * has ended the call without a failure. A failure: how it ended; a second call returns the same. */
TIDE_MUST_CHECK tide_status tide_client_next(tide_client_stream *stream, tide_buffer *message,
                                             tide_error *err);

/* Is there a message, or the end? Does not wait. */
bool tide_client_is_ready(tide_client_stream *stream);

/* Once next has returned TIDE_NONE or a failure: codes, fields and details; its message is empty.
 * Borrowed until the end. Before that head alone counts, once a message has come. */
const tide_client_response *tide_client_stream_response(const tide_client_stream *stream);

/* Abandon it; waiting calls get TIDE_E_INTERRUPTED. From any thread, until the end. */
void tide_client_cancel(tide_client_stream *stream);

/* Give it back; cancels what is not over. Takes NULL. */
void tide_client_end(tide_client_stream *stream);
TIDE_CLEANUP_FN(tide_client_endp, tide_client_stream, tide_client_end)

/* ---- calls with a callback ---- */

/* The end of a call, on the hub's thread, which must not wait: TIDE_OK and reply->message, which
 * may be moved (swap it for an initialised buffer), or a failure and its text. */
typedef void tide_client_done_fn(void *arg, tide_status status, tide_client_response *reply,
                                 const char *text);

/* One message each way, one try. done is called exactly once if this returns TIDE_OK, also when the
 * call is cancelled or the client stops, and never otherwise. out may be NULL; otherwise it is for
 * tide_client_cancel, and must be ended with tide_client_end, which cancels a call under way. */
TIDE_MUST_CHECK tide_status tide_client_start_call(tide_client_stream **out, tide_client *client,
                                                   const tide_client_request *request,
                                                   tide_client_done_fn *done, void *arg,
                                                   tide_error *err);

/* What a gRPC code means in our statuses. */
tide_status tide_client_status_of(int grpc_code);
