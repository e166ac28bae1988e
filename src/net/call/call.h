/* call.h - one remote call, whatever carried it here.
 *
 * The same method serves gRPC (HTTP/2), JSON or protobuf by POST (HTTP/1.1 or HTTP/2); plain HTTP
 * routes (route.h) are calls too. A method is a row in a table: path, kind, messages, and the
 * function that is run. The function receives the call, and answers it at once, later, or from
 * another thread; a call that waits for a disk or for news occupies no thread.
 *
 *     headers ---- authorised ---- message(s) ---- run ---- [tide_call_send ...] ---- tide_call_end
 *                  (role)          decompressed,           streams only               exactly once
 *                                  bounded
 *
 * Unary and server streams: run is called once, with the request's message. Client streams and
 * bidirectional ones: run is called when the headers are in, without a message; messages come
 * through tide_call_receive's function, in order, and one whose ptr is NULL is the client's
 * half-close. They are held back while the call's own queue is full.
 *
 * Where run runs: methods marked is_blocking on a thread of the server's pool (they may wait for
 * the store); the others on the connection's loop, which they must not keep waiting. The functions
 * given to tide_call_receive, tide_call_on_drain and tide_call_on_cancel always run on the loop.
 *
 * A call has references: the transport holds one until the end, run may use it until it returns,
 * and a later answer needs another (tide_call_hold). After cancellation (the peer left, the
 * deadline passed) sending does nothing and returns false; tide_call_end may still be called, and
 * is harmless.
 *
 * Compression: a gRPC answer is compressed when the request was (or tide_call_compress says so) and
 * the client accepts gzip; an HTTP answer when the client accepts it; short ones never.
 *
 * Threads: every function here may be called from any thread.
 * Limits: tide_net_limits (limits.h): bytes per message after decompression, bytes queued for a
 * slow reader, for all readers of an address and for all together, time. Above answer_len an answer
 * ends with RESOURCE_EXHAUSTED (HTTP 503) and advice when to try again; methods with long answers
 * ask for room first (tide_call_reserve). */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/buffer.h"

typedef struct tide_call tide_call;

typedef enum tide_call_kind {
    TIDE_CALL_UNARY,
    TIDE_CALL_SERVER_STREAM,
    TIDE_CALL_CLIENT_STREAM,
    TIDE_CALL_BIDIRECTIONAL,
} tide_call_kind;

/* What a caller may do, and what a method needs. A role includes the calls of others, but not all
 * of those with a lower number (tide_role_includes): who may ingest may not read, and the other way
 * round. */
typedef enum tide_call_role {
    TIDE_ROLE_NONE,   /* health, reflection: no token needed */
    TIDE_ROLE_READ,   /* queries */
    TIDE_ROLE_WRITE,  /* claims, commits; also ingest and read */
    TIDE_ROLE_ADMIN,  /* everything */
    TIDE_ROLE_INGEST, /* records and telemetry come in, nothing but metrics goes out */
    TIDE_ROLE_ANY,    /* of a method: any caller with a role */
} tide_call_role;

bool tide_role_includes(tide_call_role role, tide_call_role needed);

/* "none", "ingest", "read", "write", "admin" */
const char *tide_role_name(tide_call_role role);

typedef void tide_call_fn(tide_call *call, tide_view message, void *arg);

typedef struct tide_method {
    const char *path; /* "/package.Service/Method"; NULL ends a table */
    tide_call_kind kind;
    tide_call_role role;
    bool is_blocking;
    const ProtobufCMessageDescriptor *request; /* for JSON and decoding; NULL: bytes only */
    const ProtobufCMessageDescriptor *response;
    tide_call_fn *run;
} tide_method;

/* The bytes given to run (or the receiving function) are protobuf: a JSON request was translated.
 * They are borrowed until the function returns; tide_call_move_message, called inside it, makes
 * them the caller's (free). NULL: taken already. */
TIDE_MUST_CHECK char *tide_call_move_message(tide_call *call, size_t *len);

/* Did these bytes come compressed? Inside the function that was given them. */
bool tide_call_was_compressed(const tide_call *call);

/* Decode a message by the method's descriptor, depth and memory bounded. It lives as long as the
 * call, or until the next tide_call_decode. Only one thread at a time may decode. A failure is the
 * status to end the call with. */
TIDE_MUST_CHECK tide_status tide_call_decode(tide_call *call, tide_view message,
                                             ProtobufCMessage **out, tide_error *err);

/* What came with the headers. NULL: not there. Binary metadata ("-bin") is decoded. */
const char *tide_call_metadata(const tide_call *call, const char *name);
tide_view tide_call_metadata_view(const tide_call *call, const char *name); /* ptr NULL: none */
const char *tide_call_peer(const tide_call *call);                          /* address:port */
const char *tide_call_identity(
    const tide_call *call); /* token's or certificate's name; NULL: anonymous */
tide_call_role tide_call_role_of(const tide_call *call);
int64_t tide_call_deadline_us(
    const tide_call *call); /* of the env's monotonic clock; INT64_MAX: none */
bool tide_call_is_cancelled(const tide_call *call);

void tide_call_hold(tide_call *call);
void tide_call_release(tide_call *call);

/* Zeroed memory that lives as long as the call, for what functions called later refer to. NULL:
 * none left. */
TIDE_MUST_CHECK void *tide_call_memory(tide_call *call, size_t len);

/* Plain HTTP: what was asked for. The path has no query; the query is "" where there is none. */
const char *tide_call_path(const tide_call *call);
const char *tide_call_query(const tide_call *call);
const char *tide_call_content_type(const tide_call *call); /* without parameters; "": none */

/* Metadata of the answer, before the first message (headers) or with the end (trailers; as gRPC
 * only). The name is lower case. Values of names that end in -bin are bytes; others are visible
 * ASCII and spaces: what is not is left out. */
void tide_call_add_header(tide_call *call, const char *name, const char *value);
void tide_call_add_trailer_view(tide_call *call, const char *name, tide_view value);

/* Compress the messages that follow, or not, whatever the request was (if the client accepts
 * it). */
void tide_call_compress(tide_call *call, bool is_compressed);

/* Streams: send one message (HTTP routes: a piece of the body). false: the call is over, stop.
 * While tide_call_is_full the caller waits for tide_call_on_drain's function, which is called once,
 * when there is room again; who goes on regardless has the call ended at queue_len + message_len.
 * The bytes are copied; tide_call_send_owned takes malloc'ed ones. */
bool tide_call_send(tide_call *call, tide_view message);
bool tide_call_send_message(tide_call *call, const ProtobufCMessage *message);
bool tide_call_is_full(const tide_call *call);
void tide_call_on_drain(tide_call *call, void (*fn)(tide_call *call, void *arg), void *arg);

/* Streams: fn gets every message of the client; ptr NULL is its end. */
void tide_call_receive(tide_call *call, tide_call_fn *fn, void *arg);

/* fn is called once, from the loop, when the peer leaves or the deadline passes; at once, if that
 * has happened. It is not called after the end, but may be running while another thread ends the
 * call. fn NULL: none. */
void tide_call_on_cancel(tide_call *call, void (*fn)(tide_call *call, void *arg), void *arg);

/* How long an answer (a message, as protobuf) may be made now: at most wanted_len, less while
 * readers are slow. 0: there is no room at all, end with TIDE_E_NOMEM. Memory for making and
 * keeping it is set aside until the call is answered or ends; asking again replaces it, asking for
 * 0 gives it back. An answer that becomes longer is given if there is room for it then; so is one
 * without a reservation. */
size_t tide_call_reserve(tide_call *call, size_t wanted_len);

/* Answer a unary call and end it. The bytes are copied (or owned: malloc'ed). */
void tide_call_respond(tide_call *call, tide_view message);
void tide_call_respond_owned(tide_call *call, char *message, size_t len);
void tide_call_respond_message(tide_call *call, const ProtobufCMessage *message);
/* The same with an answer that many calls are given: its JSON is made and compressed by the first
 * of them that takes it so, into packed (empty before), and the others get those bytes. Who calls
 * keeps packed beside the message, and others away from both meanwhile. */
void tide_call_respond_shared(tide_call *call, tide_view message, tide_buffer *packed);

/* Answer an HTTP route and end it, with any status; content_type NULL: none. The body is copied. */
void tide_call_http_respond(tide_call *call, int http_code, const char *content_type,
                            tide_view body);

/* End with a status: TIDE_OK, or a failure whose gRPC and HTTP codes come from the status table,
 * with err's text. */
void tide_call_end(tide_call *call, tide_status status, const tide_error *err);

/* End with exactly this: gRPC code, text, details (serialised google.rpc.Status, ptr NULL: made of
 * the rest) and seconds to wait before another try (RetryInfo, Retry-After; <= 0: none). */
struct tide_error_metadata;
typedef struct tide_call_status {
    int grpc_code;
    int http_code; /* 0: from grpc_code */
    const char *message;
    tide_view details;
    double retry_after_s;
    const char *reason; /* ErrorInfo, as status_details.h; NULL: none */
    const struct tide_error_metadata *metadata;
    size_t metadata_count;
} tide_call_status;
void tide_call_end_with(tide_call *call, const tide_call_status *status);
