/* rpc.h - what the services over a store have in common: a request is decoded, something is done,
 * an answer is encoded.
 *
 * A service is a table of methods whose argument is a tide_rpc_context. Each method's function gets
 * the decoded request and writes its answer piece by piece: fields of one protobuf message may be
 * written one after the other, so a list is encoded while it is read, without a tree of messages in
 * memory.
 *
 *     TIDE_RPC(create_task, CreateTaskRequest)     rpc, request and err are its parameters
 *     {
 *         return tide_task_create(rpc->store, request->task_id, err);
 *     }
 *     {"/pkg.Service/CreateTask", ..., .run = run_create_task}
 *
 * TIDE_RPC_RUN(name) defines run_name for a tide_rpc_fn that others call too.
 *
 * TIDE_OK sends the answer, TIDE_NONE is NOT_FOUND, a failure ends the call with its code and text.
 *
 * Threads: methods block (they wait for the store), so they run on the server's pool.
 * Limits: an answer has at most TIDE_RPC_RESPONSE_MAX bytes; longer lists end with TIDE_E_LIMIT and
 * say what to do. */
#pragma once

#include <tidemark/store.h>

#include "base/buffer.h"
#include "net/call/call.h"
#include "services/api/long_poll.h"
#include "services/api/refusal_log.h"

enum {
    TIDE_RPC_RESPONSE_MAX = 64 << 20,
    TIDE_RPC_LIST_DEFAULT = 100,
};

/* What the methods work on; the argument of every table below. */
typedef struct tide_rpc_context {
    tide_store *store;
    tide_long_poll *work;             /* on tide_work_topic(NULL); NULL: claims do not wait */
    tide_long_poll *journal;          /* on TIDE_JOURNAL_TOPIC */
    tide_refusal_log *refusals;       /* NULL: none */
    struct tide_attempt_times *times; /* NULL: not measured */
} tide_rpc_context;

typedef struct tide_rpc {
    tide_call *call;
    tide_store *store;
    const tide_rpc_context *context;
    bool is_parked; /* answered later, by another thread */
    tide_buffer answer;
} tide_rpc;

typedef tide_status tide_rpc_fn(tide_rpc *rpc, const ProtobufCMessage *request, tide_error *err);

void tide_rpc_run(tide_call *call, tide_view message, const tide_rpc_context *context,
                  tide_rpc_fn *fn);

/* Append a message's fields to a buffer; or bytes, or a message, as one occurrence of a field. */
TIDE_MUST_CHECK tide_status tide_rpc_pack(tide_buffer *out, const ProtobufCMessage *message,
                                          tide_error *err);
TIDE_MUST_CHECK tide_status tide_rpc_put_bytes(tide_buffer *out, uint32_t field, tide_view bytes,
                                               tide_error *err);

TIDE_MUST_CHECK tide_status tide_rpc_put_message(tide_buffer *out, uint32_t field,
                                                 const ProtobufCMessage *message, tide_error *err);

/* Append the fields of a response, or a part of them. */
TIDE_MUST_CHECK tide_status tide_rpc_respond(tide_rpc *rpc, const ProtobufCMessage *part,
                                             tide_error *err);

/* Append a message as one occurrence of a field. */
TIDE_MUST_CHECK tide_status tide_rpc_put(tide_rpc *rpc, uint32_t field,
                                         const ProtobufCMessage *message, tide_error *err);

/* What a request leaves out is empty in protobuf and NULL in the library. */
const char *tide_rpc_text(const char *text);

/* Milliseconds of a request as microseconds. TIDE_E_INVALID: negative, or too many. */
TIDE_MUST_CHECK tide_status tide_rpc_duration(int64_t *us, int64_t ms, const char *what,
                                              tide_error *err);

/* clang-format off */
#define TIDE_RPC_RUN(name_)                                                                        \
    static void run_##name_(tide_call *call, tide_view message, void *arg)                         \
    {                                                                                              \
        tide_rpc_run(call, message, arg, name_);                                                   \
    }

#define TIDE_RPC(name_, request_)                                                                  \
    static tide_status name_(tide_rpc *rpc, const request_ *request, tide_error *err);             \
    static tide_status decoded_##name_(tide_rpc *rpc, const ProtobufCMessage *message,             \
                                       tide_error *err)                                            \
    {                                                                                              \
        return name_(rpc, (const request_ *)message, err);                                         \
    }                                                                                              \
    static void run_##name_(tide_call *call, tide_view message, void *arg)                         \
    {                                                                                              \
        tide_rpc_run(call, message, arg, decoded_##name_);                                         \
    }                                                                                              \
    static tide_status name_(tide_rpc *rpc, const request_ *request, tide_error *err)
/* clang-format on */

/* Methods that the command line runs on the store itself, so that both print the same. */
tide_rpc_fn tide_rpc_get_task;
tide_rpc_fn tide_rpc_resume_task;
tide_rpc_fn tide_rpc_get_item;
tide_rpc_fn tide_rpc_explain;
tide_rpc_fn tide_rpc_get_policy;
tide_rpc_fn tide_rpc_get_limit;
tide_rpc_fn tide_rpc_stats;
tide_rpc_fn tide_rpc_get_checkpoint;
tide_rpc_fn tide_rpc_begin_step;

/* Verify, of the journal: an encoded VerifyResponse. TIDE_E_DAMAGED: it has findings. */
TIDE_MUST_CHECK tide_status tide_rpc_journal_verify(tide_buffer *out, tide_store *store,
                                                    const char *task_id, tide_error *err);

/* The services. */
extern const tide_method tide_rpc_tasks[];
extern const tide_method tide_rpc_work[];
extern const tide_method tide_rpc_work_look[];
extern const tide_method tide_rpc_schedules[];
extern const tide_method tide_rpc_idempotency[];
extern const tide_method tide_rpc_journal[];
extern const tide_method tide_rpc_journal_streams[];
