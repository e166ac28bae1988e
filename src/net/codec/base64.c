#include "net/codec/base64.h"

#include <stdint.h>

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int value_of(char digit)
{
    if (digit >= 'A' && digit <= 'Z')
        return digit - 'A';
    if (digit >= 'a' && digit <= 'z')
        return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9')
        return digit - '0' + 52;
    if (digit == '+' || digit == '-')
        return 62;
    return digit == '/' || digit == '_' ? 63 : -1;
}

tide_status tide_base64_encode(tide_buffer *out, tide_view bytes, bool has_padding)
{
    const size_t start = out->len;
    for (size_t at = 0; at < bytes.len; at += 3) {
        const size_t count = bytes.len - at < 3 ? bytes.len - at : 3;
        uint32_t word = 0;
        for (size_t i = 0; i < 3; i++)
            word = word << 8 | (i < count ? (uint8_t)bytes.ptr[at + i] : 0U);
        char digits[4];
        for (size_t i = 0; i < 4; i++)
            digits[i] = i <= count ? ALPHABET[word >> (18 - 6 * i) & 63U] : '=';
        const tide_status status = tide_buffer_append(out, digits, has_padding ? 4 : count + 1);
        if (status != TIDE_OK) {
            tide_buffer_truncate(out, start);
            return status;
        }
    }
    return TIDE_OK;
}

/* 2 to 4 digits are 1 to 3 bytes. */
static tide_status decode_group(tide_buffer *out, tide_view digits)
{
    if (digits.len < 2)
        return TIDE_E_INVALID;
    uint32_t word = 0;
    for (size_t i = 0; i < 4; i++) {
        const int value = i < digits.len ? value_of(digits.ptr[i]) : 0;
        if (value < 0)
            return TIDE_E_INVALID;
        word = word << 6 | (uint32_t)value;
    }
    const size_t count = digits.len - 1;
    if ((word & ((1U << (8 * (3 - count))) - 1U)) != 0)
        return TIDE_E_INVALID; /* bits that belong to no byte */
    const uint8_t bytes[3] = {(uint8_t)(word >> 16), (uint8_t)(word >> 8), (uint8_t)word};
    return tide_buffer_append(out, bytes, count);
}

tide_status tide_base64_decode(tide_buffer *out, tide_view text)
{
    if (text.len > 0 && text.len % 4 == 0) {
        for (int i = 0; i < 2 && text.ptr[text.len - 1] == '='; i++)
            text.len--;
    }
    const size_t start = out->len;
    for (size_t at = 0; at < text.len; at += 4) {
        const size_t count = text.len - at < 4 ? text.len - at : 4;
        const tide_status status = decode_group(out, tide_view_bytes(text.ptr + at, count));
        if (status != TIDE_OK) {
            tide_buffer_truncate(out, start);
            return status;
        }
    }
    return TIDE_OK;
}
