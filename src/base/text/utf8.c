#include "base/text/utf8.h"

/* What may follow a first byte. The second byte's range is narrower where it has to keep out
 * overlong forms (E0, F0), surrogates (ED) and numbers above U+10FFFF (F4). */
typedef struct shape {
    size_t len; /* of the character; 0: no character begins with this byte */
    uint8_t second_min;
    uint8_t second_max;
} shape;

static shape get_shape(uint8_t first)
{
    if (first < 0x80)
        return (shape){.len = 1};
    if (first >= 0xC2 && first <= 0xDF)
        return (shape){2, 0x80, 0xBF};
    if (first >= 0xE0 && first <= 0xEF)
        return (shape){3, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF};
    if (first >= 0xF0 && first <= 0xF4)
        return (shape){4, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF};
    return (shape){.len = 0};
}

bool tide_utf8_next(tide_view text, size_t *len)
{
    const uint8_t *at = (const uint8_t *)text.ptr;
    const shape want = get_shape(at[0]);
    *len = 1;
    if (want.len == 0)
        return false;
    while (*len < want.len) {
        if (*len == text.len)
            return false;
        const uint8_t min = *len == 1 ? want.second_min : 0x80;
        const uint8_t max = *len == 1 ? want.second_max : 0xBF;
        if (at[*len] < min || at[*len] > max)
            return false;
        (*len)++;
    }
    return true;
}

/* How many bytes at the start need no replacement. */
static size_t count_clean(tide_view text)
{
    size_t at = 0;
    while (at < text.len) {
        size_t len;
        if (text.ptr[at] == '\0' ||
            !tide_utf8_next(tide_view_bytes(text.ptr + at, text.len - at), &len))
            break;
        at += len;
    }
    return at;
}

bool tide_utf8_valid(tide_view text)
{
    return count_clean(text) == text.len;
}

static tide_status append_clean(tide_buffer *out, tide_view text, size_t *count)
{
    while (text.len > 0) {
        size_t len = count_clean(text);
        tide_status status = tide_buffer_append(out, text.ptr, len);
        if (status == TIDE_OK && len < text.len) {
            text = tide_view_bytes(text.ptr + len, text.len - len);
            (void)tide_utf8_next(text, &len);
            status = tide_buffer_append_text(out, "\xEF\xBF\xBD");
            (*count)++;
        }
        if (status != TIDE_OK)
            return status;
        text = tide_view_bytes(text.ptr + len, text.len - len);
    }
    return TIDE_OK;
}

tide_status tide_utf8_clean(tide_buffer *out, tide_view text, size_t *replaced)
{
    const size_t before_len = out->len;
    size_t count = 0;
    const tide_status status = append_clean(out, text, &count);
    if (status != TIDE_OK) {
        tide_buffer_truncate(out, before_len);
        return status;
    }
    *replaced = count;
    return TIDE_OK;
}

tide_view tide_utf8_cut(tide_view text, size_t max)
{
    if (text.len <= max)
        return text;
    size_t len = max;
    while (len > 0 && max - len < 3 && ((uint8_t)text.ptr[len] & 0xC0U) == 0x80U)
        len--;
    return tide_view_bytes(text.ptr, len);
}

size_t tide_utf8_put(char out[4], uint32_t character)
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    const size_t len = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, character >>= 6)
        out[i] = (char)(0x80U | (character & 0x3FU));
    out[0] = (char)((0xF00U >> len & 0xFFU) | character);
    return len;
}
