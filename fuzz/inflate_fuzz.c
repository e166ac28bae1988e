/* inflate_fuzz.c - bytes that claim to be compressed; the first byte chooses the coding.
 *
 * In pieces or at once: the same bytes or the same refusal, never more than the limit. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "net/codec/inflate.h"

enum { OUT_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static tide_status unpack(tide_coding coding, tide_view bytes, size_t step, tide_buffer *out)
{
    const tide_inflate_limits limits = {.ratio = 100, .ratio_floor_len = 64 << 10};
    tide_error err = {0};
    TIDE_CLEANUP(tide_inflater_freep) tide_inflater *inflater = NULL;
    TIDE_TRY(tide_inflater_new(&inflater, coding, &limits, &err));
    while (bytes.len > 0) {
        const size_t len = step < bytes.len ? step : bytes.len;
        const tide_status status =
            tide_inflater_feed(inflater, tide_view_bytes(bytes.ptr, len), out, &err);
        require(status == TIDE_OK || err.text[0] != '\0');
        TIDE_TRY(status);
        bytes = tide_view_bytes(bytes.ptr + len, bytes.len - len);
    }
    return tide_inflater_finish(inflater, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 2)
        return 0;
    const tide_coding coding = (tide_coding)(data[0] % 4);
    const tide_view bytes = tide_view_bytes(data + 2, len - 2);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer whole;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer pieces;
    tide_buffer_init(&whole, OUT_MAX);
    tide_buffer_init(&pieces, OUT_MAX);
    const tide_status at_once = unpack(coding, bytes, SIZE_MAX, &whole);
    const tide_status in_pieces = unpack(coding, bytes, (size_t)data[1] + 1, &pieces);
    require(whole.len <= OUT_MAX && pieces.len <= OUT_MAX);
    require((at_once == TIDE_OK) == (in_pieces == TIDE_OK));
    if (at_once == TIDE_OK)
        require(tide_view_equal(tide_buffer_view(&whole), tide_buffer_view(&pieces)));
    return 0;
}
