/* reflection_fuzz.c - requests of reflection, and descriptor sets; the first byte says which.
 *
 * Every answer is a ServerReflectionResponse; a set is indexed or refused. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "grpc_reflection_v1_reflection.pb-c.h"
#include "net/call/reflection.h"
#include "net/codec/descriptor.h"
#include "net/codec/protobuf_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static void check_request(tide_view request)
{
    static tide_reflection *reflection; /* kept: it is the same for every input */
    if (!reflection) {
        require(tide_reflection_new(&reflection, (tide_view){0}, NULL) == TIDE_OK);
        require(tide_reflection_add_methods(reflection, tide_reflection_methods, NULL) == TIDE_OK);
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, TIDE_REFLECTION_RESPONSE_MAX);
    tide_error err = {0};
    if (tide_reflection_respond(reflection, request, &out, &err) != TIDE_OK) {
        require(out.len == 0 && err.text[0] != '\0');
        return;
    }
    require(tide_protobuf_scan(&grpc__reflection__v1__server_reflection_response__descriptor,
                               tide_buffer_view(&out), NULL, NULL, &err) == TIDE_OK);
}

static bool count_file(const tide_descriptor_file *file, void *arg)
{
    require(file->bytes.ptr != NULL);
    (*(size_t *)arg)++;
    return true;
}

static void check_set(tide_view set)
{
    TIDE_CLEANUP(tide_descriptors_freep) tide_descriptors *descriptors = NULL;
    tide_error err = {0};
    if (tide_descriptors_new(&descriptors, set, &err) != TIDE_OK) {
        require(!descriptors && err.text[0] != '\0');
        return;
    }
    for (size_t i = 0; i < tide_descriptors_service_count(descriptors); i++) {
        const tide_descriptor_file *file =
            tide_descriptors_find_symbol(descriptors, tide_descriptors_service(descriptors, i));
        size_t count = 0;
        require(file && tide_descriptors_walk(descriptors, file, count_file, &count));
        require(count > 0 && count <= tide_descriptors_file_count(descriptors));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    const tide_view rest = tide_view_bytes(data + 1, len - 1);
    if (data[0] & 1)
        check_set(rest);
    else
        check_request(rest);
    return 0;
}
