#include "net/http/grpc.h"

#include "base/text/utf8.h"

int tide_grpc_http_code(int grpc_code)
{
    static const int codes[TIDE_GRPC_CODES] = {200, 499, 500, 400, 504, 404, 409, 403, 429,
                                               400, 409, 400, 501, 500, 503, 500, 401};
    return grpc_code >= 0 && grpc_code < TIDE_GRPC_CODES ? codes[grpc_code] : 500;
}

bool tide_grpc_timeout_parse(tide_view text, int64_t *timeout_us)
{
    static const struct {
        char unit;
        int64_t ns;
    } units[] = {{'H', INT64_C(3600000000000)},
                 {'M', INT64_C(60000000000)},
                 {'S', 1000000000},
                 {'m', 1000000},
                 {'u', 1000},
                 {'n', 1}};
    if (text.len < 2 || text.len > 9)
        return false;
    int64_t number = 0;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        number = number * 10 + (text.ptr[i] - '0');
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (text.ptr[text.len - 1] != units[i].unit)
            continue;
        const int64_t century_us = INT64_C(3155760000000000);
        const int64_t us_of_unit = units[i].ns / 1000;
        if (us_of_unit > 0)
            *timeout_us = number > century_us / us_of_unit ? INT64_MAX : number * us_of_unit;
        else
            *timeout_us = (number + 999) / 1000; /* a nanosecond is more than nothing */
        return true;
    }
    return false;
}

void tide_grpc_prefix_encode(uint8_t out[TIDE_GRPC_PREFIX_LEN], bool is_compressed, uint32_t len)
{
    out[0] = is_compressed ? 1 : 0;
    for (size_t i = 0; i < 4; i++)
        out[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}

void tide_grpc_prefix_decode(const uint8_t in[TIDE_GRPC_PREFIX_LEN], bool *is_compressed,
                             uint32_t *len)
{
    *is_compressed = (in[0] & 1U) != 0;
    *len = 0;
    for (size_t i = 0; i < 4; i++)
        *len = *len << 8 | in[1 + i];
}

/* The whole character or nothing. */
static bool encode_character(tide_buffer *out, tide_view character)
{
    const size_t start = out->len;
    for (size_t i = 0; i < character.len; i++) {
        const uint8_t byte = (uint8_t)character.ptr[i];
        const bool is_plain = byte >= 0x20 && byte <= 0x7E && byte != '%';
        const tide_status status =
            is_plain ? tide_buffer_append_byte(out, byte) : tide_buffer_printf(out, "%%%02X", byte);
        if (status != TIDE_OK) {
            tide_buffer_truncate(out, start);
            return false;
        }
    }
    return true;
}

void tide_grpc_message_encode(tide_buffer *out, const char *text)
{
    tide_view left = tide_view_of(text);
    while (left.len > 0) {
        size_t len;
        (void)tide_utf8_next(left, &len); /* broken bytes travel as they are */
        if (!encode_character(out, tide_view_bytes(left.ptr, len)))
            return;
        left = tide_view_bytes(left.ptr + len, left.len - len);
    }
}
