#include "base/text/base64.h"

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

size_t tide_base64_encode_to(char *out, tide_view bytes, bool has_padding)
{
    char *end = out;
    for (size_t at = 0; at < bytes.len; at += 3) {
        const size_t count = bytes.len - at < 3 ? bytes.len - at : 3;
        uint32_t word = 0;
        for (size_t i = 0; i < 3; i++)
            word = word << 8 | (i < count ? (uint8_t)bytes.ptr[at + i] : 0U);
        for (size_t i = 0; i < (has_padding ? 4 : count + 1); i++)
            *end++ = i <= count ? ALPHABET[word >> (18 - 6 * i) & 63U] : '=';
    }
    return (size_t)(end - out);
}

static tide_view without_padding(tide_view text)
{
    if (text.len > 0 && text.len % 4 == 0)
        for (int i = 0; i < 2 && text.ptr[text.len - 1] == '='; i++)
            text.len--;
    return text;
}

bool tide_base64_decode_to(char *out, tide_view text, size_t *len)
{
    text = without_padding(text);
    uint32_t bits = 0;
    unsigned count = 0; /* of bits that are no byte yet */
    *len = 0;
    for (size_t i = 0; i < text.len; i++) {
        const int value = value_of(text.ptr[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            out[(*len)++] = (char)(bits >> count & 0xFFU);
        }
    }
    return count < 6 && (bits & ((1U << count) - 1U)) == 0;
}

tide_status tide_base64_encode(tide_buffer *out, tide_view bytes, bool has_padding)
{
    TIDE_TRY(tide_buffer_reserve(out, has_padding ? TIDE_BASE64_LEN(bytes.len)
                                                  : (bytes.len * 4 + 2) / 3));
    out->len += tide_base64_encode_to(out->ptr + out->len, bytes, has_padding);
    out->ptr[out->len] = '\0';
    return TIDE_OK;
}

tide_status tide_base64_decode(tide_buffer *out, tide_view text)
{
    size_t len = 0;
    TIDE_TRY(tide_buffer_reserve(out, without_padding(text).len * 3 / 4));
    const bool is_valid = tide_base64_decode_to(out->ptr + out->len, text, &len);
    out->len += is_valid ? len : 0;
    out->ptr[out->len] = '\0';
    return is_valid ? TIDE_OK : TIDE_E_INVALID;
}
