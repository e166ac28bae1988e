/* call_send.c - a call's answer as its method gives it: messages, replies, bodies of HTTP
 * routes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/call/call_core.h"
#include "net/codec/inflate.h"
#include "net/codec/json_proto.h"
#include "net/codec/protobuf_guard.h"

enum {
    GZIP_LEVEL = 1,
    TINY_LEN = 1024, /* answers that are smaller than the call they belong to: never refused */
};

static char *copy_bytes(tide_view bytes)
{
    char *copy = malloc(bytes.len + 1);
    if (copy && bytes.len > 0)
        memcpy(copy, bytes.ptr, bytes.len);
    return copy;
}

/* What a method may send in one message: the bound of requests holds for answers too. */
static size_t response_max(const tide_call *call)
{
    return (size_t)call->context->limits.message_len;
}

/* Replace *bytes by their gzip form when that is wanted and shorter. */
static bool pack_bytes(const tide_call *call, char **bytes, size_t *len)
{
    if ((int64_t)*len < call->context->limits.compress_min_len)
        return false;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer packed = tide_buffer_of(*len - 1);
    if (tide_gzip_append(&packed, tide_view_bytes(*bytes, *len), GZIP_LEVEL, NULL) != TIDE_OK)
        return false;
    free(*bytes);
    *len = packed.len;
    *bytes = TIDE_TAKE(packed.ptr);
    tide_buffer_init(&packed, 0);
    return true;
}

void tide_call_give_reserved(tide_call *call)
{
    tide_budget_give(&call->quota->answers, call->reserved_len);
    call->reserved_len = 0;
}

/* With the lock held: charge for an answer, out of what was reserved for it first. */
static bool charge_response(tide_call *call, size_t len)
{
    tide_budget *answers = &call->quota->answers;
    const size_t reserved_len = call->reserved_len;
    call->reserved_len = 0;
    tide_budget_give(answers, reserved_len >= len ? reserved_len - len : reserved_len);
    if (len <= TINY_LEN && reserved_len < len)
        tide_budget_force(answers, len);
    if (len <= TINY_LEN || reserved_len >= len || tide_budget_take(answers, len))
        return true;
    tide_count(&call->context->counters.refused_answers, 1);
    return false;
}

void tide_call_free_piece(tide_call *call, tide_piece *piece)
{
    tide_budget_give(&call->quota->answers, piece->charged);
    tide_server_context_note_freed(call->context, piece->charged);
    free(piece->bytes);
    free(piece);
}

/* Small steps as long as its address holds much already: each reader may have one message waiting
 * then. */
bool tide_call_is_held_back(const tide_call *call)
{
    const tide_server_context *context = call->context;
    if (call->queue_len == 0 || call->queue_len >= (size_t)context->limits.queue_len)
        return call->queue_len > 0;
    return tide_budget_left(&call->quota->answers) < call->quota->answers.max / 4 ||
           tide_budget_left(&context->answers) < context->answers.max / 4;
}

size_t tide_call_reserve(tide_call *call, size_t wanted_len)
{
    /* What the method reads and what it makes of it, and then the text that becomes of that. */
    const size_t copies = call->form == TIDE_FORM_JSON ? 4 : 2;
    size_t room = (wanted_len < response_max(call) ? wanted_len : response_max(call)) * copies;
    tide_call_lock(call);
    tide_call_give_reserved(call);
    if (wanted_len > 0 && !call->is_ended) {
        tide_budget *answers = &call->quota->answers;
        /* No call gets all that is left, and less if others hold some: pages become smaller
         * before a call is refused. */
        const size_t left = tide_budget_left(answers) / (tide_budget_used(answers) > 0 ? 4 : 2);
        room = room < left ? room : left;
        if (room < TIDE_BUDGET_SMALL_LEN || !tide_budget_take(answers, room))
            room = tide_budget_take(answers, TIDE_BUDGET_SMALL_LEN) ? TIDE_BUDGET_SMALL_LEN : 0;
        call->reserved_len = room;
    }
    tide_call_unlock(call);
    return room / copies;
}

/* With the lock held. The message becomes a frame of gRPC, or a piece of a body. */
static bool queue_piece(tide_call *call, char *bytes, size_t len, bool is_packed, size_t charged)
{
    tide_piece *piece = call->is_ended ? NULL : calloc(1, sizeof *piece);
    if (!piece) {
        tide_budget_give(&call->quota->answers, charged);
        free(bytes);
        return false;
    }
    piece->charged = charged;
    if (call->form == TIDE_FORM_GRPC) {
        tide_grpc_prefix_encode(piece->prefix, is_packed, (uint32_t)len);
        piece->prefix_len = TIDE_GRPC_PREFIX_LEN;
    }
    piece->bytes = bytes;
    piece->len = len;
    *call->queue_tail = piece;
    call->queue_tail = &piece->next;
    call->queue_len += len + piece->prefix_len;
    call->has_sent = true;
    tide_call_wake(call);
    return true;
}

void tide_call_queue(tide_call *call, char *bytes, size_t len)
{
    (void)queue_piece(call, bytes, len, false, 0);
}

static void refuse_response(tide_call *call, size_t len)
{
    tide_call_refuse(call, TIDE_GRPC_RESOURCE_EXHAUSTED, 503, 1,
                     "no room for a response of %zu bytes now: too much waits for its readers; "
                     "ask for less, or try again",
                     len);
}

static bool call_send_owned(tide_call *call, char *message, size_t len)
{
    assert(call->form == TIDE_FORM_GRPC || call->form == TIDE_FORM_RAW);
    if (len > response_max(call)) {
        free(message);
        tide_call_refuse(call, TIDE_GRPC_RESOURCE_EXHAUSTED, 500, 0,
                         "an answer of %zu bytes, the limit is %zu", len, response_max(call));
        return false;
    }
    tide_call_lock(call);
    const bool wants_gzip = call->form == TIDE_FORM_GRPC && call->is_compressed;
    tide_call_unlock(call);
    const bool is_packed = wants_gzip && pack_bytes(call, &message, &len);

    tide_call_lock(call);
    const bool is_over =
        call->queue_len > (size_t)call->context->limits.queue_len + response_max(call);
    const bool has_room = !is_over && charge_response(call, len);
    const bool is_sent = has_room && queue_piece(call, message, len, is_packed, len);
    if (!has_room)
        free(message);
    tide_call_unlock(call);
    if (!is_over && !has_room)
        refuse_response(call, len);
    if (is_over)
        tide_call_refuse(call, TIDE_GRPC_RESOURCE_EXHAUSTED, 500, 0,
                         "the reader is too slow for what is sent");
    return is_sent;
}

bool tide_call_send(tide_call *call, tide_view message)
{
    char *copy = copy_bytes(message);
    if (!copy) {
        tide_call_refuse_status(call, TIDE_E_NOMEM, NULL);
        return false;
    }
    return call_send_owned(call, copy, message.len);
}

/* NULL: the call was ended with the reason. */
static char *encode_message(tide_call *call, const ProtobufCMessage *message, size_t *len)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(response_max(call));
    tide_error err = {0};
    tide_status status = tide_protobuf_pack(&bytes, message, &err);
    if (status == TIDE_OK)
        status = tide_buffer_reserve(&bytes, 0); /* an empty message has bytes too */
    if (status != TIDE_OK) {
        tide_call_refuse_status(call, status, &err);
        return NULL;
    }
    *len = bytes.len;
    char *taken = TIDE_TAKE(bytes.ptr);
    tide_buffer_init(&bytes, 0);
    return taken;
}

bool tide_call_send_message(tide_call *call, const ProtobufCMessage *message)
{
    size_t len;
    char *bytes = encode_message(call, message, &len);
    return bytes && call_send_owned(call, bytes, len);
}

/* The JSON form of an answer. NULL: the call was ended with the reason. */
static char *translate_response(tide_call *call, const char *message, size_t *len)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer json;
    tide_buffer_init(&json, 4 * response_max(call)); /* numbers and base64 are longer than bytes */
    tide_error err = {0};
    tide_status status = tide_proto_to_json(call->entry->method->response,
                                            tide_view_bytes(message, *len), &json, &err);
    if (status == TIDE_OK)
        status = tide_buffer_append_byte(&json, '\n');
    if (status != TIDE_OK) {
        tide_call_refuse_status(call, status == TIDE_E_INVALID ? TIDE_E_FAILED : status, &err);
        return NULL;
    }
    *len = json.len;
    char *taken = TIDE_TAKE(json.ptr);
    tide_buffer_init(&json, 0);
    return taken;
}

/* With the lock held. */
static void add_response_field(tide_call *call, const char *name, const char *value)
{
    if (!call->is_ended && !call->is_started)
        TIDE_IGNORE(tide_headers_add(&call->answer, tide_view_of(name), tide_view_of(value)));
}

/* The whole body of an HTTP answer as it is sent, and its end. */
static void respond_bytes(tide_call *call, int http_code, const char *content_type, char *body,
                          size_t len, bool is_packed)
{
    tide_call_lock(call);
    if (!charge_response(call, len)) {
        tide_call_unlock(call);
        free(body);
        refuse_response(call, len);
        return;
    }
    if (content_type)
        add_response_field(call, "content-type", content_type);
    if (is_packed) {
        add_response_field(call, "content-encoding", "gzip");
        add_response_field(call, "vary", "accept-encoding");
    }
    (void)queue_piece(call, body, len, false, len);
    const tide_ending ending = {.grpc_code = TIDE_GRPC_OK, .http_code = http_code};
    tide_call_finish(call, &ending);
    tide_call_unlock(call);
}

static void respond_body(tide_call *call, int http_code, const char *content_type, char *body,
                         size_t len)
{
    const bool is_packed = call->accepts_gzip && pack_bytes(call, &body, &len);
    respond_bytes(call, http_code, content_type, body, len, is_packed);
}

static void respond_grpc(tide_call *call, char *message, size_t len)
{
    if (!call_send_owned(call, message, len))
        return;
    tide_call_end(call, TIDE_OK, NULL);
}

void tide_call_respond_owned(tide_call *call, char *message, size_t len)
{
    switch (call->form) {
    case TIDE_FORM_GRPC:
        respond_grpc(call, message, len);
        return;
    case TIDE_FORM_JSON: {
        char *json = translate_response(call, message, &len);
        free(message);
        if (json)
            respond_body(call, 200, "application/json", json, len);
        return;
    }
    case TIDE_FORM_PROTOBUF:
        respond_body(call, 200, call->content_type, message, len);
        return;
    case TIDE_FORM_RAW:
        respond_body(call, 200, "application/octet-stream", message, len);
        return;
    }
}

void tide_call_respond(tide_call *call, tide_view message)
{
    char *copy = copy_bytes(message);
    if (copy)
        tide_call_respond_owned(call, copy, message.len);
    else
        tide_call_refuse_status(call, TIDE_E_NOMEM, NULL);
}

/* Fill packed. false: the call was ended with the reason. */
static bool pack_response(tide_call *call, tide_view message, tide_buffer *packed)
{
    size_t len = message.len;
    TIDE_CLEANUP(tide_freep) char *json = translate_response(call, message.ptr, &len);
    tide_error err = {0};
    if (!json)
        return false;
    const tide_status status =
        tide_gzip_append(packed, tide_view_bytes(json, len), GZIP_LEVEL, &err);
    if (status != TIDE_OK)
        tide_call_refuse_status(call, status, &err);
    return status == TIDE_OK;
}

void tide_call_respond_shared(tide_call *call, tide_view message, tide_buffer *packed)
{
    if (call->form != TIDE_FORM_JSON || !call->accepts_gzip) {
        tide_call_respond(call, message);
        return;
    }
    if (packed->len == 0 && !pack_response(call, message, packed))
        return;
    char *copy = copy_bytes(tide_buffer_view(packed));
    if (copy)
        respond_bytes(call, 200, "application/json", copy, packed->len, true);
    else
        tide_call_refuse_status(call, TIDE_E_NOMEM, NULL);
}

void tide_call_respond_message(tide_call *call, const ProtobufCMessage *message)
{
    size_t len;
    char *bytes = encode_message(call, message, &len);
    if (bytes)
        tide_call_respond_owned(call, bytes, len);
}

void tide_call_http_respond(tide_call *call, int http_code, const char *content_type,
                            tide_view body)
{
    assert(call->form == TIDE_FORM_RAW && http_code >= 200 && http_code <= 599);
    char *copy = copy_bytes(body);
    if (copy)
        respond_body(call, http_code, content_type, copy, body.len);
    else
        tide_call_refuse_status(call, TIDE_E_NOMEM, NULL);
}
