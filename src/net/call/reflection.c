#include "net/call/reflection.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/codec/descriptor.h"
#include "net/codec/protobuf_scan.h"
#include "net/codec/protobuf_wire.h"

#include "grpc_reflection_v1_reflection.pb-c.h"
#include "grpc_reflection_v1alpha_reflection.pb-c.h"

/* Field numbers of grpc/reflection/v1/reflection.proto. */
enum {
    REQUEST_HOST = 1,
    REQUEST_FILE = 3,
    REQUEST_SYMBOL = 4,
    REQUEST_EXTENSION = 5,
    REQUEST_EXTENSION_NUMBERS = 6,
    REQUEST_SERVICES = 7,
    EXTENSION_TYPE = 1,
    EXTENSION_NUMBER = 2,
    RESPONSE_HOST = 1,
    RESPONSE_REQUEST = 2,
    RESPONSE_FILES = 4,
    RESPONSE_EXTENSION_NUMBERS = 5,
    RESPONSE_SERVICES = 6,
    RESPONSE_ERROR = 7,
    FILES_FILE = 1,
    NUMBERS_TYPE = 1,
    NUMBERS_NUMBER = 2,
    SERVICES_SERVICE = 1,
    SERVICE_NAME = 1,
    ERROR_CODE = 1,
    ERROR_MESSAGE = 2,
};

struct tide_reflection {
    tide_descriptors *descriptors;
    tide_view services[TIDE_REFLECTION_SERVICES_MAX]; /* in order */
    size_t service_count;
};

/* --- what is served --- */

tide_status tide_reflection_new(tide_reflection **out, tide_view set, tide_error *err)
{
    TIDE_CLEANUP(tide_reflection_freep) TIDE_NEW(tide_reflection, made, err);
    if (!set.ptr)
        set = tide_view_bytes(tide_descriptor_set, tide_descriptor_set_len);
    TIDE_TRY(tide_descriptors_new(&made->descriptors, set, err));
    *out = TIDE_TAKE(made);
    return TIDE_OK;
}

void tide_reflection_free(tide_reflection *reflection)
{
    if (!reflection)
        return;
    tide_descriptors_free(reflection->descriptors);
    free(reflection);
}

static int compare_views(tide_view a, tide_view b)
{
    const int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    if (order != 0)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

/* Into its place; one that is there already stays. */
static tide_status add_service(tide_reflection *reflection, tide_view name, tide_error *err)
{
    size_t at = 0;
    while (at < reflection->service_count && compare_views(reflection->services[at], name) < 0)
        at++;
    if (at < reflection->service_count && tide_view_equal(reflection->services[at], name))
        return TIDE_OK;
    if (reflection->service_count == TIDE_REFLECTION_SERVICES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d services", TIDE_REFLECTION_SERVICES_MAX);
    memmove(&reflection->services[at + 1], &reflection->services[at],
            (reflection->service_count - at) * sizeof reflection->services[0]);
    reflection->services[at] = name;
    reflection->service_count++;
    return TIDE_OK;
}

tide_status tide_reflection_add_methods(tide_reflection *reflection, const tide_method *methods,
                                        tide_error *err)
{
    for (const tide_method *method = methods; method->path; method++) {
        const char *slash = strrchr(method->path, '/');
        if (method->path[0] != '/' || slash <= method->path + 1)
            return tide_fail(err, TIDE_E_INVALID, "%s is not the path of a method", method->path);
        const tide_view service =
            tide_view_bytes(method->path + 1, (size_t)(slash - method->path - 1));
        /* A client asks for the file of every service that is listed, and gives up where there is
         * none. */
        if (tide_descriptors_find_symbol(reflection->descriptors, service))
            TIDE_TRY(add_service(reflection, service, err));
    }
    return TIDE_OK;
}

/* --- answers --- */

/* Statuses of the buffer are passed up as they are; tide_reflection_respond finds the words. */

static tide_status append_error(tide_buffer *out, tide_status status, const char *what,
                                tide_view name)
{
    enum { NAME_SHOWN_MAX = 200 };
    size_t content_at;
    TIDE_TRY(tide_wire_begin(out, RESPONSE_ERROR, &content_at));
    TIDE_TRY(
        tide_wire_append_varint(out, ERROR_CODE, (uint64_t)tide_status_get(status)->grpc_code));
    size_t message_at;
    TIDE_TRY(tide_wire_begin(out, ERROR_MESSAGE, &message_at));
    TIDE_TRY(tide_buffer_append_text(out, what));
    if (name.len > NAME_SHOWN_MAX)
        name.len = 0; /* the sender knows it */
    TIDE_TRY(tide_buffer_append_view(out, name));
    TIDE_TRY(tide_wire_end(out, message_at));
    return tide_wire_end(out, content_at);
}

typedef struct file_list {
    tide_buffer *out;
    tide_status status;
} file_list;

static bool append_file(const tide_descriptor_file *file, void *arg)
{
    file_list *list = arg;
    list->status = tide_wire_append_bytes(list->out, FILES_FILE, file->bytes);
    return list->status == TIDE_OK;
}

static tide_status append_files(const tide_reflection *reflection, const tide_descriptor_file *file,
                                const char *missing, tide_view name, tide_buffer *out)
{
    if (!file)
        return append_error(out, TIDE_E_NOT_FOUND, missing, name);
    size_t content_at;
    TIDE_TRY(tide_wire_begin(out, RESPONSE_FILES, &content_at));
    file_list list = {.out = out, .status = TIDE_OK};
    if (!tide_descriptors_walk(reflection->descriptors, file, append_file, &list))
        return list.status == TIDE_OK ? TIDE_E_NOMEM : list.status;
    return tide_wire_end(out, content_at);
}

static tide_status append_extension_file(const tide_reflection *reflection, tide_view request,
                                         tide_buffer *out)
{
    tide_view type = tide_view_of("");
    int32_t number = 0;
    tide_reader reader = tide_reader_of(request);
    tide_wire_field field;
    TIDE_EACH(tide_wire_next(&reader, &field, NULL)) {
        if (field.number == EXTENSION_TYPE && field.type == TIDE_WIRE_BYTES)
            type = field.bytes;
        else if (field.number == EXTENSION_NUMBER && field.type == TIDE_WIRE_VARINT)
            number = (int32_t)(uint32_t)field.value;
    }
    return append_files(reflection,
                        tide_descriptors_find_extension(reflection->descriptors, type, number),
                        "no such extension of ", type, out);
}

static tide_status append_extension_numbers(const tide_reflection *reflection, tide_view type,
                                            tide_buffer *out)
{
    if (!tide_descriptors_has_message(reflection->descriptors, type))
        return append_error(out, TIDE_E_NOT_FOUND, "no such type: ", type);
    size_t content_at;
    TIDE_TRY(tide_wire_begin(out, RESPONSE_EXTENSION_NUMBERS, &content_at));
    TIDE_TRY(tide_wire_append_bytes(out, NUMBERS_TYPE, type));
    size_t index = 0;
    int32_t number = 0;
    while (tide_descriptors_next_extension(reflection->descriptors, type, &index, &number))
        TIDE_TRY(tide_wire_append_varint(out, NUMBERS_NUMBER, (uint64_t)(int64_t)number));
    return tide_wire_end(out, content_at);
}

static tide_status append_services(const tide_reflection *reflection, tide_buffer *out)
{
    size_t content_at;
    TIDE_TRY(tide_wire_begin(out, RESPONSE_SERVICES, &content_at));
    for (size_t i = 0; i < reflection->service_count; i++) {
        size_t service_at;
        TIDE_TRY(tide_wire_begin(out, SERVICES_SERVICE, &service_at));
        TIDE_TRY(tide_wire_append_bytes(out, SERVICE_NAME, reflection->services[i]));
        TIDE_TRY(tide_wire_end(out, service_at));
    }
    return tide_wire_end(out, content_at);
}

static tide_status append_response(const tide_reflection *reflection, uint32_t question,
                                   tide_view asked, tide_buffer *out)
{
    const tide_descriptors *descriptors = reflection->descriptors;
    switch (question) {
    case REQUEST_FILE:
        return append_files(reflection, tide_descriptors_find_file(descriptors, asked),
                            "no such file: ", asked, out);
    case REQUEST_SYMBOL:
        return append_files(reflection, tide_descriptors_find_symbol(descriptors, asked),
                            "no such symbol: ", asked, out);
    case REQUEST_EXTENSION:
        return append_extension_file(reflection, asked, out);
    case REQUEST_EXTENSION_NUMBERS:
        return append_extension_numbers(reflection, asked, out);
    case REQUEST_SERVICES:
        return append_services(reflection, out);
    default:
        return append_error(out, TIDE_E_INVALID, "the request asks for nothing", tide_view_of(""));
    }
}

/* The scan has seen to it that this is a request; of a oneof the last member counts. */
static tide_status append_request_response(const tide_reflection *reflection, tide_view request,
                                           tide_buffer *out)
{
    uint32_t question = 0;
    tide_view asked = tide_view_of("");
    tide_view host = tide_view_of("");
    tide_reader reader = tide_reader_of(request);
    tide_wire_field field;
    TIDE_EACH(tide_wire_next(&reader, &field, NULL)) {
        if (field.number == REQUEST_HOST) {
            host = field.bytes;
        } else if (field.number >= REQUEST_FILE && field.number <= REQUEST_SERVICES) {
            question = field.number;
            asked = field.bytes;
        }
    }
    if (host.len > 0)
        TIDE_TRY(tide_wire_append_bytes(out, RESPONSE_HOST, host));
    TIDE_TRY(tide_wire_append_bytes(out, RESPONSE_REQUEST, request));
    return append_response(reflection, question, asked, out);
}

tide_status tide_reflection_respond(const tide_reflection *reflection, tide_view request,
                                    tide_buffer *out, tide_error *err)
{
    TIDE_TRY(tide_protobuf_scan(&grpc__reflection__v1__server_reflection_request__descriptor,
                                request, NULL, NULL, err));
    const size_t before_len = out->len;
    const tide_status status = append_request_response(reflection, request, out);
    if (status == TIDE_OK)
        return TIDE_OK;
    tide_buffer_truncate(out, before_len);
    return tide_fail(err, status, "no room for the answer");
}

/* --- as a method --- */

static void receive_request(tide_call *call, tide_view message, void *arg)
{
    const tide_reflection *reflection = arg;
    if (!message.ptr) {
        tide_call_end(call, TIDE_OK, NULL);
        return;
    }
    tide_error err = {0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_REFLECTION_RESPONSE_MAX);
    const tide_status status = tide_reflection_respond(reflection, message, &out, &err);
    if (status != TIDE_OK)
        tide_call_end(call, status, &err);
    else
        (void)tide_call_send(call, tide_buffer_view(&out));
}

static void run_reflection(tide_call *call, tide_view message, void *arg)
{
    (void)message; /* they come one by one */
    tide_call_receive(call, receive_request, arg);
}

const tide_method tide_reflection_methods[] = {
    {
        .path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        .kind = TIDE_CALL_BIDIRECTIONAL,
        .role = TIDE_ROLE_NONE,
        .request = &grpc__reflection__v1__server_reflection_request__descriptor,
        .response = &grpc__reflection__v1__server_reflection_response__descriptor,
        .run = run_reflection,
    },
    {
        .path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        .kind = TIDE_CALL_BIDIRECTIONAL,
        .role = TIDE_ROLE_NONE,
        .request = &grpc__reflection__v1alpha__server_reflection_request__descriptor,
        .response = &grpc__reflection__v1alpha__server_reflection_response__descriptor,
        .run = run_reflection,
    },
    {0},
};
