/* json_proto_fuzz.c - JSON and protobuf that claim to be messages.
 *
 * The first byte chooses the type and the direction. Whatever is accepted comes out the same after
 * another turn: JSON, protobuf, JSON. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/json_canon.h"
#include "grpc_reflection_v1_reflection.pb-c.h"
#include "net/codec/json_proto.h"
#include "net/codec/protobuf_scan.h"
#include "tidemark_agent_v1_agent.pb-c.h"

enum { OUT_MAX = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static const ProtobufCMessageDescriptor *const descriptors[] = {
    &tidemark__agent__v1__query_telemetry_response__descriptor,
    &tidemark__agent__v1__query_ebpf_metrics_request__descriptor,
    &tidemark__agent__v1__ingest_records_request__descriptor,
    &grpc__reflection__v1__server_reflection_response__descriptor,
};

/* Broken text is mended on its way to JSON, and two keys may become one. A NUL is text to us, but the scan ends there: whether text
 * behind it is broken is seen by what it was mended with. */
static bool is_sound(const ProtobufCMessageDescriptor *descriptor, tide_view bytes, tide_view json)
{
    tide_error err = {0};
    return tide_protobuf_scan(descriptor, bytes, NULL, NULL, &err) == TIDE_OK ||
           (strstr(err.text, "NUL") && !memmem(json.ptr, json.len, "\xEF\xBF\xBD", 3));
}

/* bytes to JSON, which is then read and written again. */
static void turn(const ProtobufCMessageDescriptor *descriptor, tide_view bytes, bool is_ours)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer json;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer third;
    tide_buffer_init(&json, OUT_MAX);
    tide_buffer_init(&again, OUT_MAX);
    tide_buffer_init(&third, OUT_MAX);
    tide_error err = {0};
    const tide_status status = tide_proto_to_json(descriptor, bytes, &json, &err);
    if (status != TIDE_OK) {
        require(!is_ours || status == TIDE_E_LIMIT);
        require(json.len == 0 && err.text[0] != '\0');
        return;
    }
    require(tide_json_check(tide_buffer_view(&json), &err) == TIDE_OK);
    if (!is_sound(descriptor, bytes, tide_buffer_view(&json)))
        return;
    require(tide_json_to_proto(descriptor, tide_buffer_view(&json), &again, &err) == TIDE_OK);
    require(tide_proto_to_json(descriptor, tide_buffer_view(&again), &third, &err) == TIDE_OK);
    require(tide_view_equal(tide_buffer_view(&json), tide_buffer_view(&third)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    const ProtobufCMessageDescriptor *descriptor = descriptors[data[0] % 4];
    const tide_view rest = tide_view_bytes(data + 1, len - 1);
    if (data[0] & 0x10) {
        turn(descriptor, rest, false);
        return 0;
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, OUT_MAX);
    tide_error err = {0};
    const tide_json_proto_options options = {.is_unknown_ignored = (data[0] & 0x20) != 0};
    if (tide_json_to_proto_with(descriptor, rest, &options, &bytes, &err) == TIDE_OK) {
        require(is_sound(descriptor, tide_buffer_view(&bytes), tide_view_of("")));
        turn(descriptor, tide_buffer_view(&bytes), true);
    } else {
        require(bytes.len == 0 && err.text[0] != '\0');
    }
    return 0;
}
