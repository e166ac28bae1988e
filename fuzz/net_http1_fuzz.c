/* net_http1_fuzz.c - bytes that claim to be HTTP/1.1 requests.
 *
 * The first byte says how large the pieces are in which the rest arrives. However they are cut, the answers are the same,
 * every request's memory is given back, and nothing runs in the end. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1)
        return 0;
    const size_t piece = data[0] + 1U;
    const tide_view bytes = tide_view_bytes(data + 1, len - 1);
    tide_buffer whole;
    tide_buffer cut;
    tide_buffer_init(&whole, NET_FUZZ_OUTPUT_MAX);
    tide_buffer_init(&cut, NET_FUZZ_OUTPUT_MAX);
    net_fuzz_run(tide_http1_new, bytes, SIZE_MAX, &whole);
    net_fuzz_run(tide_http1_new, bytes, piece, &cut);
    net_fuzz_require(tide_view_equal(tide_buffer_view(&whole), tide_buffer_view(&cut)));
    tide_buffer_done(&whole);
    tide_buffer_done(&cut);
    return 0;
}
