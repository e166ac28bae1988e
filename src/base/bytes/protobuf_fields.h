/* protobuf_fields.h - the fields of a protobuf message, one after the other.
 *
 *     field = tag varint (number << 3 | type), then by type:
 *             0 a varint   1 eight bytes   2 a length varint and so many bytes   5 four bytes
 *
 * The reader does not know what fields mean: it needs no descriptor, allocates nothing and does not
 * descend. Whatever follows the rules above is a field; groups (types 3 and 4) are refused, as are
 * numbers outside 1..2^29-1, tags and lengths in more than five bytes, varints of more than 64 bits
 * and lengths that reach behind the end.
 *
 * Threads: pure; a reader belongs to one thread at a time. */
#pragma once

#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"

typedef enum tide_wire_type {
    TIDE_WIRE_VARINT = 0,
    TIDE_WIRE_FIXED64 = 1,
    TIDE_WIRE_BYTES = 2,
    TIDE_WIRE_FIXED32 = 5,
} tide_wire_type;

typedef struct tide_wire_field {
    uint32_t number;
    tide_wire_type type;
    uint64_t value;  /* all types but TIDE_WIRE_BYTES */
    tide_view bytes; /* TIDE_WIRE_BYTES: borrowed from what is read */
    tide_view all;   /* tag and content */
} tide_wire_field;

/* As tide_wire_next, whatever the field is. */
TIDE_MUST_CHECK tide_status tide_wire_next_any(tide_reader *reader, tide_wire_field *field,
                                               tide_error *err);

/* The next field. TIDE_NONE: the end. TIDE_E_INVALID: these bytes are not protobuf; the text says
 * why and at which offset. Inline are the fields that decoders meet most: tag and length, or tag
 * and number, of one byte each. */
TIDE_MUST_CHECK static inline tide_status tide_wire_next(tide_reader *reader,
                                                         tide_wire_field *field, tide_error *err)
{
    const size_t left = reader->view.len - reader->offset;
    if (left < 2)
        return tide_wire_next_any(reader, field, err);
    const char *at = reader->view.ptr + reader->offset;
    if (((uint8_t)at[0] | (uint8_t)at[1]) >= 0x80U || (uint8_t)at[0] < 8)
        return tide_wire_next_any(reader, field, err);
    const unsigned type = (uint8_t)at[0] & 7U;
    const size_t second = (uint8_t)at[1];
    if (type == TIDE_WIRE_BYTES && second <= left - 2) {
        field->bytes = tide_view_bytes(at + 2, second);
        field->value = 0;
        field->all = tide_view_bytes(at, second + 2);
    } else if (type == TIDE_WIRE_VARINT) {
        field->bytes = (tide_view){NULL, 0};
        field->value = second;
        field->all = tide_view_bytes(at, 2);
    } else {
        return tide_wire_next_any(reader, field, err);
    }
    field->number = (uint8_t)at[0] >> 3;
    field->type = (tide_wire_type)type;
    reader->offset += field->all.len;
    return TIDE_OK;
}
