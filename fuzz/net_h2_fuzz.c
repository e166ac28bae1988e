/* net_h2_fuzz.c - bytes that claim to be an HTTP/2 connection, with gRPC inside.
 *
 * The first byte says how large the pieces are in which the rest arrives; the preface is put in front. Every request's
 * memory is given back, and nothing runs in the end. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1)
        return 0;
    char *bytes = malloc(sizeof PREFACE + len);
    if (!bytes)
        return 0;
    memcpy(bytes, PREFACE, sizeof PREFACE); /* its terminator is the last byte of SETTINGS */
    memcpy(bytes + sizeof PREFACE, data + 1, len - 1);
    tide_buffer out;
    tide_buffer_init(&out, NET_FUZZ_OUTPUT_MAX);
    net_fuzz_run(tide_h2_new, tide_view_bytes(bytes, sizeof PREFACE + len - 1), data[0] + 1U, &out);
    tide_buffer_done(&out);
    free(bytes);
    return 0;
}
