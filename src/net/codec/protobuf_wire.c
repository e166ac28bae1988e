#include "net/codec/protobuf_wire.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"

enum { NUMBER_MAX = (1 << 29) - 1 };

tide_wire_type tide_wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return TIDE_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return TIDE_WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return TIDE_WIRE_BYTES;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        break;
    }
    return TIDE_WIRE_VARINT;
}

bool tide_wire_is_packable(ProtobufCType type)
{
    return tide_wire_type_of(type) != TIDE_WIRE_BYTES;
}

uint64_t tide_wire_zigzag(int64_t number)
{
    return ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
}

int64_t tide_wire_unzigzag(uint64_t number)
{
    return (int64_t)(number >> 1) ^ -(int64_t)(number & 1U);
}

/* How many bytes the shortest varint of a number has. */
static size_t wire_varint_len(uint64_t number)
{
    size_t len = 1;
    while (number >= 0x80U) {
        number >>= 7;
        len++;
    }
    return len;
}

tide_status tide_wire_append_tag(tide_buffer *out, uint32_t number, tide_wire_type type)
{
    assert(number > 0 && number <= NUMBER_MAX);
    return tide_buffer_append_varint(out, number << 3 | (uint32_t)type);
}

/* The content of a field was refused: its tag goes too. */
static tide_status store_whole(tide_buffer *out, size_t before_len, tide_status status)
{
    if (status != TIDE_OK)
        tide_buffer_truncate(out, before_len);
    return status;
}

tide_status tide_wire_append_varint(tide_buffer *out, uint32_t number, uint64_t value)
{
    const size_t before_len = out->len;
    tide_status status = tide_wire_append_tag(out, number, TIDE_WIRE_VARINT);
    if (status == TIDE_OK)
        status = tide_buffer_append_varint(out, value);
    return store_whole(out, before_len, status);
}

tide_status tide_wire_append_fixed64(tide_buffer *out, uint32_t number, uint64_t value)
{
    const size_t before_len = out->len;
    tide_status status = tide_wire_append_tag(out, number, TIDE_WIRE_FIXED64);
    if (status == TIDE_OK)
        status = tide_buffer_append_u64(out, value);
    return store_whole(out, before_len, status);
}

tide_status tide_wire_append_fixed32(tide_buffer *out, uint32_t number, uint32_t value)
{
    const size_t before_len = out->len;
    tide_status status = tide_wire_append_tag(out, number, TIDE_WIRE_FIXED32);
    if (status == TIDE_OK)
        status = tide_buffer_append_u32(out, value);
    return store_whole(out, before_len, status);
}

tide_status tide_wire_append_bytes(tide_buffer *out, uint32_t number, tide_view bytes)
{
    const size_t before_len = out->len;
    if (bytes.len > UINT32_MAX)
        return TIDE_E_LIMIT;
    tide_status status = tide_wire_append_tag(out, number, TIDE_WIRE_BYTES);
    if (status == TIDE_OK)
        status = tide_buffer_append_varint(out, bytes.len);
    if (status == TIDE_OK)
        status = tide_buffer_append_view(out, bytes);
    return store_whole(out, before_len, status);
}

tide_status tide_wire_append_text(tide_buffer *out, uint32_t number, const char *text)
{
    return tide_wire_append_bytes(out, number, tide_view_of(text));
}

/* One byte is kept for the length: enough for most fields. */
tide_status tide_wire_begin(tide_buffer *out, uint32_t number, size_t *content_at)
{
    const size_t before_len = out->len;
    tide_status status = tide_wire_append_tag(out, number, TIDE_WIRE_BYTES);
    if (status == TIDE_OK)
        status = tide_buffer_append_byte(out, 0);
    if (status == TIDE_OK)
        *content_at = out->len;
    return store_whole(out, before_len, status);
}

tide_status tide_wire_end(tide_buffer *out, size_t content_at)
{
    assert(content_at > 0 && content_at <= out->len);
    size_t len = out->len - content_at;
    if (len > UINT32_MAX)
        return TIDE_E_LIMIT;
    const size_t more_len = wire_varint_len(len) - 1;
    if (more_len > 0) {
        TIDE_TRY_FOUND(tide_buffer_reserve(out, more_len));
        memmove(out->ptr + content_at + more_len, out->ptr + content_at, len);
        out->len += more_len;
        out->ptr[out->len] = '\0';
    }
    char *at = out->ptr + content_at - 1;
    for (; len >= 0x80U; len >>= 7)
        *at++ = (char)(uint8_t)(len | 0x80U);
    *at = (char)(uint8_t)len;
    return TIDE_OK;
}
