/* protobuf_fuzz.c - bytes that claim to be messages; the first byte chooses the type.
 *
 * What the scan lets pass protobuf-c can unpack, within the memory that the scan foresaw unless
 * parts are merged; what was unpacked and packed again passes too. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "grpc_reflection_v1_reflection.pb-c.h"
#include "net/codec/protobuf_guard.h"
#include "tidemark_agent_v1_agent.pb-c.h"

enum { MEMORY_MAX = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Not assert: it must hold in whatever way the target is built. */
static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static const ProtobufCMessageDescriptor *const descriptors[] = {
    &tidemark__agent__v1__query_telemetry_response__descriptor,
    &tidemark__agent__v1__query_ebpf_metrics_request__descriptor,
    &tidemark__agent__v1__ingest_cpuprofile_samples_request__descriptor,
    &grpc__reflection__v1__server_reflection_request__descriptor, /* a oneof */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    const ProtobufCMessageDescriptor *descriptor = descriptors[data[0] % 4];
    const tide_view bytes = tide_view_bytes(data + 1, len - 1);
    TIDE_CLEANUP(tide_arena_done) tide_arena arena;
    tide_arena_init(&arena, MEMORY_MAX);
    const tide_protobuf_limits limits = {.memory_len = MEMORY_MAX};
    tide_error err = {0};
    const tide_status scanned = tide_protobuf_scan(descriptor, bytes, &limits, NULL, &err);
    require(scanned == TIDE_OK || err.text[0] != '\0');
    ProtobufCMessage *message = NULL;
    const tide_status unpacked = tide_protobuf_unpack(&message, descriptor, bytes, &arena, &err);
    require((unpacked == TIDE_OK) == (message != NULL));
    require(arena.used_len <= MEMORY_MAX);
    if (scanned != TIDE_OK)
        require(unpacked == scanned);
    else
        require(unpacked == TIDE_OK || unpacked == TIDE_E_LIMIT);
    if (!message)
        return 0;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
    tide_buffer_init(&again, MEMORY_MAX);
    require(tide_protobuf_pack(&again, message, &err) == TIDE_OK);
    const tide_status rescanned =
        tide_protobuf_scan(descriptor, tide_buffer_view(&again), &limits, NULL, &err);
    require(rescanned == TIDE_OK || rescanned == TIDE_E_LIMIT);
    return 0;
}
