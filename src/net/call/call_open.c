/* call_open.c - from the headers of a request to a call: route, form, credentials, deadline. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/base64.h"
#include "net/call/call_core.h"
#include "net/http/authority.h"

enum { RESPONSE_HEAD_MAX = 65536, DETAILS_LEN_MAX = 16384 };

/* "application/json; charset=utf-8" -> "application/json" */
static char *copy_content_type(const char *value)
{
    const size_t len = value ? strcspn(value, "; \t") : 0;
    char *copy = strndup(value ? value : "", len);
    for (size_t i = 0; copy && i < len; i++) {
        if (copy[i] >= 'A' && copy[i] <= 'Z')
            copy[i] = (char)(copy[i] + ('a' - 'A'));
    }
    return copy;
}

static tide_call *make_call(tide_server_context *context, const tide_call_origin *origin)
{
    tide_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    atomic_init(&call->refs, 1);
    call->quota = tide_peer_quota_get(&context->quotas, origin->peer, origin->owner);
    if (!call->quota) {
        free(call);
        return NULL;
    }
    call->context = context;
    tide_server_context_hold(context);
    (void)pthread_mutex_init(&call->lock, NULL);
    call->request = *origin->head;
    tide_headers_init(origin->head, origin->head->max);
    tide_headers_init(&call->answer, RESPONSE_HEAD_MAX);
    tide_headers_init(&call->trailers, RESPONSE_HEAD_MAX);
    tide_buffer_init(&call->details, DETAILS_LEN_MAX);
    tide_charged_buffer_init(&call->body, &call->quota->requests,
                             (size_t)context->limits.message_len);
    call->queue_tail = &call->queue;
    call->inbox_tail = &call->inbox;
    const size_t path_len = strcspn(origin->target, "?");
    call->method = strdup(origin->method);
    call->path = strndup(origin->target, path_len);
    call->query = strdup(origin->target[path_len] == '?' ? origin->target + path_len + 1 : "");
    call->content_type = copy_content_type(tide_headers_text(&call->request, "content-type"));
    call->peer = strdup(origin->peer);
    if (!call->method || !call->path || !call->query || !call->content_type || !call->peer) {
        tide_call_release(call);
        return NULL;
    }
    call->owner = origin->owner;
    call->is_h2 = origin->is_h2;
    call->is_head = strcmp(origin->method, "HEAD") == 0;
    call->opened_us = context->env->mono_us(context->env);
    call->http_code = 200;
    call->deadline_us = INT64_MAX;
    call->body_until_us = call->opened_us + context->limits.body_us;
    call->wake = origin->wake;
    call->wake_arg = origin->wake_arg;
    tide_count(&context->counters.calls_running, 1);
    return call;
}

static bool is_grpc_type(const char *type)
{
    return strcmp(type, "application/grpc") == 0 || strcmp(type, "application/grpc+proto") == 0;
}

/* What the request speaks, by its content type alone: even a refusal must be understood. */
static tide_call_form find_form(const tide_call *call)
{
    const char *type = call->content_type;
    if (call->is_h2 && strncmp(type, "application/grpc", strlen("application/grpc")) == 0)
        return TIDE_FORM_GRPC;
    if (strcmp(type, "application/x-protobuf") == 0 || strcmp(type, "application/proto") == 0 ||
        strcmp(type, "application/protobuf") == 0)
        return TIDE_FORM_PROTOBUF;
    return strcmp(type, "application/json") == 0 ? TIDE_FORM_JSON : TIDE_FORM_RAW;
}

static bool find_route(tide_call *call)
{
    bool has_path;
    const char *allow;
    tide_route_entry *entry =
        tide_routes_find(call->context->routes, call->method, call->path, &has_path, &allow);
    if (!entry && has_path) {
        tide_call_add_header(call, "allow", allow);
        tide_call_refuse(call, TIDE_GRPC_UNIMPLEMENTED, 405, 0, "%s is served with %s", call->path,
                         allow);
        return false;
    }
    if (!entry) {
        tide_call_refuse(call, TIDE_GRPC_UNIMPLEMENTED, 404, 0, "nothing at %s", call->path);
        return false;
    }
    call->entry = entry;
    if (entry->route)
        call->form = TIDE_FORM_RAW;
    else
        call->kind = entry->method->kind;
    return true;
}

/* HTTP/2 may name the host twice, and a proxy may route by the one that we do not look at. The
 * reader of HTTP/1.1 heads has checked Host already. */
static bool check_host(tide_call *call)
{
    const char *authority = tide_headers_text(&call->request, ":authority");
    const char *host = tide_headers_text(&call->request, "host");
    const char *scheme = tide_headers_text(&call->request, ":scheme");
    const int default_port = scheme && strcasecmp(scheme, "https") == 0 ? 443 : 80;
    tide_authority one;
    tide_authority other;
    if (!call->is_h2)
        return true;
    if ((!authority || tide_authority_parse(&one, tide_view_of(authority))) &&
        (!host || tide_authority_parse(&other, tide_view_of(host))) &&
        (!authority || !host || tide_authority_equal(&one, &other, default_port)))
        return true;
    tide_call_refuse(call, TIDE_GRPC_INVALID_ARGUMENT, 400, 0,
                     authority && host ? ":authority and host name different hosts"
                                       : "an authority that is no host and port");
    return false;
}

/* A method needs a content type that it can be called in. */
static bool check_form(tide_call *call)
{
    const tide_method *method = call->entry->method;
    if (!method)
        return true;
    if (call->form == TIDE_FORM_RAW ||
        (call->form == TIDE_FORM_GRPC && !is_grpc_type(call->content_type)) ||
        (call->form == TIDE_FORM_JSON && (!method->request || !method->response))) {
        tide_call_refuse(call, TIDE_GRPC_INVALID_ARGUMENT, 415, 0,
                         "content type '%s'; want application/json, application/x-protobuf, or "
                         "application/grpc over HTTP/2",
                         call->content_type);
        return false;
    }
    if (call->form != TIDE_FORM_GRPC && call->kind != TIDE_CALL_UNARY) {
        tide_call_refuse(call, TIDE_GRPC_UNIMPLEMENTED, 501, 0, "%s streams: call it by gRPC",
                         call->path);
        return false;
    }
    return true;
}

static const char *bearer_token(const tide_headers *head)
{
    const char *value = tide_headers_text(head, "authorization");
    if (!value || strncasecmp(value, "Bearer ", 7) != 0)
        return NULL;
    value += 7;
    return value + strspn(value, " ");
}

static void count_refusal(tide_net_counters *counters, tide_status status)
{
    if (status == TIDE_E_DENIED)
        tide_count(&counters->refused_denied, 1);
    else if (status == TIDE_E_BUSY)
        tide_count(&counters->refused_guessing, 1);
    else if (status == TIDE_E_UNAUTHENTICATED)
        tide_count(&counters->refused_unauthenticated, 1);
    else
        tide_count(&counters->refused_unchecked, 1);
}

/* A browser sends one. Of several, none can be believed. */
static const char *get_web_origin(const tide_headers *request)
{
    return tide_headers_count(request, "origin") > 1 ? "several origins"
                                                     : tide_headers_text(request, "origin");
}

static bool authorise(tide_call *call, const char *certificate)
{
    tide_server_context *context = call->context;
    const tide_call_role needed =
        call->entry->method ? call->entry->method->role : call->entry->route->role;
    if (!context->authorise) {
        call->identity.role = TIDE_ROLE_ADMIN;
        return true;
    }
    if (needed == TIDE_ROLE_NONE)
        return true;
    const char *authority = tide_headers_text(&call->request, ":authority");
    const tide_credentials given = {
        .token = bearer_token(&call->request),
        .certificate = certificate,
        .peer = call->peer,
        .owner = call->owner,
        .host = authority ? authority : tide_headers_text(&call->request, "host"),
        .origin = get_web_origin(&call->request),
    };
    tide_error err = {0};
    const tide_status status =
        context->authorise(context->authorise_arg, &given, &call->identity, &err);
    if (status != TIDE_OK) {
        call->identity = (tide_caller){0};
        count_refusal(&context->counters, status);
        if (status == TIDE_E_UNAUTHENTICATED)
            tide_call_add_header(call, "www-authenticate", "Bearer");
        tide_call_refuse_status(call, status, &err);
        return false;
    }
    call->has_identity = true;
    if (!tide_role_includes(call->identity.role, needed)) {
        const bool is_user = !given.token && !given.certificate;
        tide_count(&context->counters.refused_denied, 1);
        tide_call_refuse(call, TIDE_GRPC_PERMISSION_DENIED, 403, 0,
                         "'%s' has role %s and may not call %s%s", call->identity.name,
                         tide_role_name(call->identity.role), call->path,
                         is_user ? ": show a token (tidemark token create), call as the daemon's "
                                   "user, or start it with another --local-role"
                                 : "");
        return false;
    }
    return true;
}

static bool find_coding(tide_call *call)
{
    const bool is_grpc = call->form == TIDE_FORM_GRPC;
    const char *name =
        tide_headers_text(&call->request, is_grpc ? "grpc-encoding" : "content-encoding");
    tide_error err = {0};
    if (name && tide_coding_find(&call->coding, tide_view_of(name), &err) != TIDE_OK) {
        tide_call_add_header(call, is_grpc ? "grpc-accept-encoding" : "accept-encoding",
                             TIDE_CODING_ACCEPTED);
        tide_call_refuse(call, TIDE_GRPC_UNIMPLEMENTED, 415, 0, "%s", err.text);
        return false;
    }
    const char *accepted =
        tide_headers_text(&call->request, is_grpc ? "grpc-accept-encoding" : "accept-encoding");
    call->accepts_gzip = tide_headers_lists(accepted, "gzip");
    call->is_compressed = is_grpc && call->accepts_gzip && call->coding != TIDE_CODING_IDENTITY;
    return true;
}

static bool find_deadline(tide_call *call)
{
    const char *timeout = tide_headers_text(&call->request, "grpc-timeout");
    int64_t timeout_us;
    if (!timeout)
        return true;
    if (!tide_grpc_timeout_parse(tide_view_of(timeout), &timeout_us)) {
        tide_call_refuse(call, TIDE_GRPC_INVALID_ARGUMENT, 400, 0, "grpc-timeout '%s'", timeout);
        return false;
    }
    if (timeout_us < INT64_MAX - call->opened_us)
        call->deadline_us = call->opened_us + timeout_us;
    return true;
}

/* Binary metadata comes as base64. */
static bool decode_metadata(tide_call *call)
{
    for (size_t i = 0; i < call->request.count; i++) {
        tide_header_field *field = &call->request.fields[i];
        if (!tide_headers_is_binary(tide_view_bytes(field->name, field->name_len)))
            continue;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        tide_buffer_init(&bytes, field->value_len); /* decoding shortens */
        const tide_status status =
            tide_base64_decode(&bytes, tide_view_bytes(field->value, field->value_len));
        if (status != TIDE_OK) {
            tide_call_refuse(call, TIDE_GRPC_INVALID_ARGUMENT, 400, 0, "%s is not base64",
                             field->name);
            return false;
        }
        if (bytes.len > 0)
            memcpy(field->value, bytes.ptr, bytes.len);
        field->value[bytes.len] = '\0';
        field->value_len = bytes.len;
    }
    return true;
}

static bool is_declared_too_large(tide_call *call)
{
    const char *text = tide_headers_text(&call->request, "content-length");
    const uint64_t len = text ? strtoull(text, NULL, 10) : 0;
    if (call->form == TIDE_FORM_GRPC || len <= (uint64_t)call->context->limits.message_len)
        return false;
    tide_count(&call->context->counters.refused_message_len, 1);
    tide_call_refuse(call, TIDE_GRPC_RESOURCE_EXHAUSTED, 413, 0,
                     "a body of %s bytes, the limit is %lld", text,
                     (long long)call->context->limits.message_len);
    return true;
}

tide_call *tide_call_open(tide_server_context *context, const tide_call_origin *origin)
{
    tide_call *call = make_call(context, origin);
    if (!call)
        return NULL;
    call->form = find_form(call);
    if (origin->is_head_too_large) {
        tide_count(&context->counters.refused_headers, 1);
        tide_call_refuse(call, TIDE_GRPC_RESOURCE_EXHAUSTED, 431, 0,
                         "header fields above the limit of %lld bytes",
                         (long long)context->limits.header_list_len);
        return call;
    }
    if (!check_host(call) || !find_route(call) || !authorise(call, origin->certificate) ||
        !check_form(call) || !find_coding(call) || !find_deadline(call) || !decode_metadata(call) ||
        is_declared_too_large(call))
        return call;
    if (tide_call_streams_in(call)) {
        call->body_until_us = INT64_MAX;
        tide_call_dispatch(call);
    }
    return call;
}
