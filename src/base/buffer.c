#include "base/buffer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

enum { FIRST_CAPACITY = 64 };

tide_buffer tide_buffer_of(size_t max)
{
    assert(max < SIZE_MAX); /* one byte more is the terminator */
    return (tide_buffer){.max = max};
}

void tide_buffer_init(tide_buffer *buffer, size_t max)
{
    *buffer = tide_buffer_of(max);
}

void tide_buffer_done(tide_buffer *buffer)
{
    free(buffer->ptr);
    tide_buffer_init(buffer, buffer->max);
}

tide_status tide_buffer_check(tide_status status, tide_error *err)
{
    if (status >= TIDE_OK)
        return status;
    return status == TIDE_E_NOMEM ? tide_no_memory(err)
                                  : tide_fail(err, status, "more bytes than there is room for");
}

void tide_buffer_clear(tide_buffer *buffer)
{
    tide_buffer_truncate(buffer, 0);
}

void tide_buffer_truncate(tide_buffer *buffer, size_t len)
{
    assert(len <= buffer->len);
    buffer->len = len;
    if (buffer->ptr)
        buffer->ptr[len] = '\0';
}

tide_status tide_buffer_reserve(tide_buffer *buffer, size_t more)
{
    if (more > buffer->max - buffer->len)
        return TIDE_E_LIMIT;
    const size_t need = buffer->len + more;
    if (buffer->ptr && need <= buffer->capacity)
        return TIDE_OK;

    size_t capacity = buffer->capacity > 0 ? buffer->capacity : FIRST_CAPACITY;
    while (capacity < need && capacity <= buffer->max / 2)
        capacity *= 2;
    if (capacity < need || capacity > buffer->max)
        capacity = buffer->max;

    TIDE_TRY(tide_list_resize(&buffer->ptr, capacity + 1, 1, NULL));
    buffer->ptr[buffer->len] = '\0';
    buffer->capacity = capacity;
    return TIDE_OK;
}

tide_status tide_buffer_append(tide_buffer *buffer, const void *ptr, size_t len)
{
    TIDE_TRY(tide_buffer_reserve(buffer, len));
    if (len > 0)
        memcpy(buffer->ptr + buffer->len, ptr, len);
    buffer->len += len;
    buffer->ptr[buffer->len] = '\0';
    return TIDE_OK;
}

tide_status tide_buffer_append_view(tide_buffer *buffer, tide_view bytes)
{
    return tide_buffer_append(buffer, bytes.ptr, bytes.len);
}

tide_status tide_buffer_append_text(tide_buffer *buffer, const char *text)
{
    return tide_buffer_append(buffer, text, strlen(text));
}

tide_status tide_buffer_append_decimal(tide_buffer *buffer, int64_t number)
{
    char text[20]; /* 19 digits and a sign */
    char *at = text + sizeof text;
    uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (number < 0)
        *--at = '-';
    return tide_buffer_append(buffer, at, (size_t)(text + sizeof text - at));
}

tide_status tide_buffer_append_byte(tide_buffer *buffer, uint8_t byte)
{
    return tide_buffer_append(buffer, &byte, 1);
}

tide_status tide_buffer_append_u32(tide_buffer *buffer, uint32_t number)
{
    uint8_t bytes[4];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    return tide_buffer_append(buffer, bytes, sizeof bytes);
}

tide_status tide_buffer_append_u64(tide_buffer *buffer, uint64_t number)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    return tide_buffer_append(buffer, bytes, sizeof bytes);
}

tide_status tide_buffer_append_varint(tide_buffer *buffer, uint64_t number)
{
    uint8_t bytes[TIDE_VARINT_LEN_MAX];
    size_t len = 0;
    while (number >= 0x80U) {
        bytes[len++] = (uint8_t)(number | 0x80U);
        number >>= 7;
    }
    bytes[len++] = (uint8_t)number;
    return tide_buffer_append(buffer, bytes, len);
}

tide_status tide_buffer_append_zigzag(tide_buffer *buffer, int64_t number)
{
    const uint64_t sign = number < 0 ? UINT64_MAX : 0;
    return tide_buffer_append_varint(buffer, ((uint64_t)number << 1) ^ sign);
}

tide_status tide_buffer_printf(tide_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    const int len = vsnprintf(NULL, 0, format, args);
    va_end(args);

    tide_status status = len < 0 ? TIDE_E_INVALID : tide_buffer_reserve(buffer, (size_t)len);
    if (status == TIDE_OK) {
        const int written = vsnprintf(buffer->ptr + buffer->len, (size_t)len + 1, format, again);
        assert(written == len);
        (void)written;
        buffer->len += (size_t)len;
    }
    va_end(again);
    return status;
}

tide_view tide_buffer_view(const tide_buffer *buffer)
{
    return tide_view_bytes(buffer->ptr, buffer->len);
}

const char *tide_buffer_text(const tide_buffer *buffer)
{
    return buffer->ptr ? buffer->ptr : "";
}

tide_reader tide_reader_of(tide_view bytes)
{
    return (tide_reader){.view = bytes};
}

size_t tide_reader_left(const tide_reader *reader)
{
    return reader->view.len - reader->offset;
}

tide_status tide_reader_bytes(tide_reader *reader, size_t len, tide_view *out)
{
    if (len > tide_reader_left(reader))
        return TIDE_E_DAMAGED;
    /* NULL + 0 is not allowed by the language: an empty view keeps its pointer. */
    const char *at = reader->offset > 0 ? reader->view.ptr + reader->offset : reader->view.ptr;
    *out = tide_view_bytes(at, len);
    reader->offset += len;
    return TIDE_OK;
}

/* len is 1..8 bytes, lowest first. */
static tide_status read_fixed(tide_reader *reader, size_t len, uint64_t *out)
{
    tide_view bytes;
    TIDE_TRY(tide_reader_bytes(reader, len, &bytes));
    uint64_t number = 0;
    for (size_t i = 0; i < len; i++)
        number |= (uint64_t)(uint8_t)bytes.ptr[i] << (8 * i);
    *out = number;
    return TIDE_OK;
}

tide_status tide_reader_byte(tide_reader *reader, uint8_t *out)
{
    uint64_t number;
    const tide_status status = read_fixed(reader, 1, &number);
    if (status == TIDE_OK)
        *out = (uint8_t)number;
    return status;
}

tide_status tide_reader_u32(tide_reader *reader, uint32_t *out)
{
    uint64_t number;
    const tide_status status = read_fixed(reader, 4, &number);
    if (status == TIDE_OK)
        *out = (uint32_t)number;
    return status;
}

tide_status tide_reader_u64(tide_reader *reader, uint64_t *out)
{
    return read_fixed(reader, 8, out);
}

tide_status tide_reader_varint(tide_reader *reader, uint64_t *out)
{
    const size_t left = tide_reader_left(reader);
    uint64_t number = 0;
    for (size_t i = 0; i < left && i < TIDE_VARINT_LEN_MAX; i++) {
        const uint8_t byte = (uint8_t)reader->view.ptr[reader->offset + i];
        if (i == TIDE_VARINT_LEN_MAX - 1 && byte > 1)
            return TIDE_E_DAMAGED; /* more than 64 bits, or an 11th byte */
        number |= (uint64_t)(byte & 0x7FU) << (7 * i);
        if (byte < 0x80U) {
            reader->offset += i + 1;
            *out = number;
            return TIDE_OK;
        }
    }
    return TIDE_E_DAMAGED;
}

tide_status tide_reader_zigzag(tide_reader *reader, int64_t *out)
{
    uint64_t number;
    const tide_status status = tide_reader_varint(reader, &number);
    if (status == TIDE_OK)
        *out = (int64_t)(number >> 1) ^ -(int64_t)(number & 1U);
    return status;
}

tide_status tide_reader_varint_shortest(tide_reader *reader, uint64_t *out)
{
    tide_reader ahead = *reader;
    uint64_t number;
    TIDE_TRY(tide_reader_varint(&ahead, &number));
    /* Padding shows as a last byte that adds nothing. */
    if (ahead.offset - reader->offset > 1 && ahead.view.ptr[ahead.offset - 1] == 0)
        return TIDE_E_DAMAGED;
    *reader = ahead;
    *out = number;
    return TIDE_OK;
}

void tide_view_copy(char *out, size_t size, tide_view text)
{
    (void)snprintf(out, size, "%.*s", (int)(text.len < size ? text.len : size),
                   text.len > 0 ? text.ptr : "");
}
