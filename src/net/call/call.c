/* call.c - a call as its method sees it: looking at the request, keeping and answering it. */
#include "net/call/call.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/text/base64.h"
#include "net/call/call_core.h"
#include "net/codec/protobuf_guard.h"
#include "net/codec/status_details.h"

enum { METADATA_VALUE_MAX = 65536 };

bool tide_role_includes(tide_call_role role, tide_call_role needed)
{
    switch (needed) {
    case TIDE_ROLE_NONE:
        return true;
    case TIDE_ROLE_ANY:
        return role != TIDE_ROLE_NONE;
    case TIDE_ROLE_INGEST:
        return role == TIDE_ROLE_INGEST || role == TIDE_ROLE_WRITE || role == TIDE_ROLE_ADMIN;
    case TIDE_ROLE_READ:
        return role == TIDE_ROLE_READ || role == TIDE_ROLE_WRITE || role == TIDE_ROLE_ADMIN;
    case TIDE_ROLE_WRITE:
        return role == TIDE_ROLE_WRITE || role == TIDE_ROLE_ADMIN;
    case TIDE_ROLE_ADMIN:
        return role == TIDE_ROLE_ADMIN;
    }
    return false;
}

const char *tide_role_name(tide_call_role role)
{
    static const char *const names[] = {
        [TIDE_ROLE_NONE] = "none",   [TIDE_ROLE_READ] = "read",     [TIDE_ROLE_WRITE] = "write",
        [TIDE_ROLE_ADMIN] = "admin", [TIDE_ROLE_INGEST] = "ingest", [TIDE_ROLE_ANY] = "any",
    };
    return names[role];
}

char *tide_call_move_message(tide_call *call, size_t *len)
{
    if (!call->current)
        return NULL;
    char *taken = tide_charged_buffer_take(call->current, len);
    call->current = NULL;
    return taken;
}

bool tide_call_was_compressed(const tide_call *call)
{
    return call->is_current_packed;
}

tide_status tide_call_decode(tide_call *call, tide_view message, ProtobufCMessage **out,
                             tide_error *err)
{
    const tide_method *method = call->entry ? call->entry->method : NULL;
    assert(method && method->request);
    if (call->has_arena)
        tide_arena_done(&call->arena);
    /* What is decoded copies the bytes that it holds, and may take so much more. */
    tide_arena_init(&call->arena, TIDE_PROTOBUF_MEMORY_MAX + message.len);
    call->has_arena = true;
    const tide_protobuf_limits limits = {.memory_len = TIDE_PROTOBUF_MEMORY_MAX + message.len};
    return tide_protobuf_unpack_within(out, method->request, message, &limits, &call->arena, err);
}

const char *tide_call_metadata(const tide_call *call, const char *name)
{
    return tide_headers_text(&call->request, name);
}

tide_view tide_call_metadata_view(const tide_call *call, const char *name)
{
    const tide_header_field *field = tide_headers_find(&call->request, name);
    return field ? tide_view_bytes(field->value, field->value_len) : tide_view_bytes(NULL, 0);
}

const char *tide_call_peer(const tide_call *call)
{
    return call->peer;
}

const char *tide_call_identity(const tide_call *call)
{
    return call->has_identity ? call->identity.name : NULL;
}

tide_call_role tide_call_role_of(const tide_call *call)
{
    return call->identity.role;
}

int64_t tide_call_deadline_us(const tide_call *call)
{
    return call->deadline_us;
}

const char *tide_call_path(const tide_call *call)
{
    return call->path;
}

const char *tide_call_query(const tide_call *call)
{
    return call->query;
}

const char *tide_call_content_type(const tide_call *call)
{
    return call->content_type;
}

bool tide_call_is_cancelled(const tide_call *call)
{
    tide_call_lock(call);
    const bool is_cancelled = call->is_cancelled;
    tide_call_unlock(call);
    return is_cancelled;
}

struct tide_call_memory {
    struct tide_call_memory *next;
    max_align_t bytes[];
};

void *tide_call_memory(tide_call *call, size_t len)
{
    struct tide_call_memory *memory = calloc(1, sizeof *memory + len);
    if (!memory)
        return NULL;
    tide_call_lock(call);
    memory->next = call->memory;
    call->memory = memory;
    tide_call_unlock(call);
    return memory->bytes;
}

static void free_memory(tide_call *call)
{
    while (call->memory) {
        struct tide_call_memory *memory = call->memory;
        call->memory = memory->next;
        free(memory);
    }
}

void tide_call_hold(tide_call *call)
{
    (void)atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
}

void tide_call_release(tide_call *call)
{
    if (atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) > 1)
        return;
    assert(!call->wake); /* the transport's reference is the last but those of late answers */
    tide_call_drop_inbox(call);
    tide_call_drop_queue(call);
    tide_call_give_reserved(call);
    tide_charged_buffer_done(&call->body);
    tide_headers_done(&call->request);
    tide_headers_done(&call->answer);
    tide_headers_done(&call->trailers);
    tide_buffer_done(&call->details);
    if (call->has_arena)
        tide_arena_done(&call->arena);
    free(call->method);
    free(call->path);
    free(call->query);
    free(call->content_type);
    free(call->peer);
    free(call->message);
    free_memory(call);
    (void)pthread_mutex_destroy(&call->lock);
    tide_peer_quota_release(&call->context->quotas, call->quota);
    tide_server_context_trim(call->context);
    tide_server_context_release(call->context);
    free(call);
}

static bool is_visible(tide_view text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < ' ' || text.ptr[i] > '~')
            return false;
    }
    return true;
}

/* A header that does not fit or that HTTP cannot carry is left out: an answer without it is better
 * than none. */
static void add_field(tide_call *call, bool is_trailer, const char *name, tide_view value)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(METADATA_VALUE_MAX);
    if (tide_headers_is_binary(tide_view_of(name))) {
        if (tide_base64_encode(&text, value, false) != TIDE_OK)
            return;
        value = tide_view_of(tide_buffer_text(&text));
    }
    if (!is_visible(value))
        return;
    tide_call_lock(call);
    if (!call->is_ended && (is_trailer || !call->is_started))
        TIDE_IGNORE(tide_headers_add(is_trailer ? &call->trailers : &call->answer,
                                     tide_view_of(name), value));
    tide_call_unlock(call);
}

void tide_call_add_trailer_view(tide_call *call, const char *name, tide_view value)
{
    add_field(call, true, name, value);
}

void tide_call_add_header(tide_call *call, const char *name, const char *value)
{
    add_field(call, false, name, tide_view_of(value));
}

void tide_call_compress(tide_call *call, bool is_compressed)
{
    tide_call_lock(call);
    call->is_compressed = is_compressed && call->accepts_gzip;
    tide_call_unlock(call);
}

bool tide_call_is_full(const tide_call *call)
{
    tide_call_lock(call);
    const bool is_full = tide_call_is_held_back(call);
    tide_call_unlock(call);
    return is_full;
}

void tide_call_on_drain(tide_call *call, tide_call_event_fn *fn, void *arg)
{
    tide_call_lock(call);
    call->on_drain = fn;
    call->on_drain_arg = arg;
    tide_call_wake(call);
    tide_call_unlock(call);
}

void tide_call_receive(tide_call *call, tide_call_fn *fn, void *arg)
{
    tide_call_lock(call);
    call->receive = fn;
    call->receive_arg = arg;
    tide_call_wake(call);
    tide_call_unlock(call);
}

void tide_call_on_cancel(tide_call *call, tide_call_event_fn *fn, void *arg)
{
    tide_call_lock(call);
    const bool is_late = call->is_cancelled;
    if (!is_late) {
        call->on_cancel = fn;
        call->on_cancel_arg = arg;
    }
    tide_call_unlock(call);
    if (is_late && fn)
        fn(call, arg);
}

void tide_call_refuse_status(tide_call *call, tide_status status, const tide_error *err)
{
    const tide_status_row *row = tide_status_get(status);
    const char *text = err && err->text[0] != '\0' ? err->text : row->text;
    const tide_ending ending = {
        .grpc_code = row->grpc_code,
        .http_code = row->http_code,
        .message = status == TIDE_OK ? NULL : text,
        .reason = status == TIDE_OK ? NULL : tide_status_reason(status),
        .retry_after_s = row->is_retryable ? 1 : 0,
    };
    tide_call_lock(call);
    tide_call_finish(call, &ending);
    tide_call_unlock(call);
}

void tide_call_end(tide_call *call, tide_status status, const tide_error *err)
{
    tide_call_refuse_status(call, status, err);
}

void tide_call_end_with(tide_call *call, const tide_call_status *status)
{
    const tide_ending ending = {
        .grpc_code = status->grpc_code,
        .http_code = status->http_code,
        .message = status->message,
        .details = status->details,
        .retry_after_s = status->retry_after_s,
        .reason = status->reason,
        .metadata = status->metadata,
        .metadata_count = status->metadata_count,
    };
    tide_call_lock(call);
    tide_call_finish(call, &ending);
    tide_call_unlock(call);
}
