#include "base/bytes/protobuf_fields.h"

enum { SHORT_VARINT_LEN_MAX = 5 }; /* of tags and lengths: 32 bits */

static tide_status fail_at(const tide_reader *reader, const char *what, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID, "not protobuf: %s at byte %zu", what, reader->offset);
}

/* Most numbers, tags and lengths have one byte. */
static inline bool has_short_byte(const tide_reader *reader)
{
    return reader->offset < reader->view.len && (uint8_t)reader->view.ptr[reader->offset] < 0x80U;
}

/* A tag or a length: at most five bytes, as protobuf-c reads them. */
static inline bool read_short_varint(tide_reader *reader, uint32_t *out)
{
    if (has_short_byte(reader)) {
        *out = (uint8_t)reader->view.ptr[reader->offset++];
        return true;
    }
    tide_reader ahead = *reader;
    uint64_t number;
    if (tide_reader_varint(&ahead, &number) != TIDE_OK || number > UINT32_MAX ||
        ahead.offset - reader->offset > SHORT_VARINT_LEN_MAX)
        return false;
    *reader = ahead;
    *out = (uint32_t)number;
    return true;
}

static inline tide_status read_content(tide_reader *reader, unsigned type, tide_wire_field *field,
                                       tide_error *err)
{
    uint32_t short_number = 0;
    switch (type) {
    case TIDE_WIRE_VARINT:
        field->type = TIDE_WIRE_VARINT;
        if (has_short_byte(reader))
            field->value = (uint8_t)reader->view.ptr[reader->offset++];
        else if (tide_reader_varint(reader, &field->value) != TIDE_OK)
            return fail_at(reader, "a number that does not end", err);
        return TIDE_OK;
    case TIDE_WIRE_FIXED64:
        field->type = TIDE_WIRE_FIXED64;
        if (tide_reader_u64(reader, &field->value) != TIDE_OK)
            return fail_at(reader, "less than eight bytes", err);
        return TIDE_OK;
    case TIDE_WIRE_FIXED32:
        field->type = TIDE_WIRE_FIXED32;
        if (tide_reader_u32(reader, &short_number) != TIDE_OK)
            return fail_at(reader, "less than four bytes", err);
        field->value = short_number;
        return TIDE_OK;
    case TIDE_WIRE_BYTES:
        field->type = TIDE_WIRE_BYTES;
        if (!read_short_varint(reader, &short_number))
            return fail_at(reader, "a bad length", err);
        if (short_number > reader->view.len - reader->offset)
            return fail_at(reader, "a length beyond the end", err);
        field->bytes = tide_view_bytes(reader->view.ptr + reader->offset, short_number);
        reader->offset += short_number;
        return TIDE_OK;
    default:
        return fail_at(reader, type <= 4 ? "a group (not supported)" : "an unknown wire type", err);
    }
}

tide_status tide_wire_next_any(tide_reader *reader, tide_wire_field *field, tide_error *err)
{
    if (tide_reader_left(reader) == 0)
        return TIDE_NONE;
    const size_t begin = reader->offset;
    uint32_t tag;
    if (!read_short_varint(reader, &tag))
        return fail_at(reader, "a bad tag", err);
    *field = (tide_wire_field){.number = tag >> 3};
    if (field->number == 0)
        return fail_at(reader, "field number 0", err);
    TIDE_TRY(read_content(reader, tag & 7U, field, err));
    field->all = tide_view_bytes(reader->view.ptr + begin, reader->offset - begin);
    return TIDE_OK;
}
