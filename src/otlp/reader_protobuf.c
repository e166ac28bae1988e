#include "otlp/reader.h"

#include <string.h>

enum wire {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
};

static tide_status fail_at(const tide_otlp_reader *reader, size_t offset, const char *what)
{
    return tide_fail(reader->err, TIDE_E_INVALID, "offset %zu: %s", offset, what);
}

/* Padded numbers are fine, an 11th byte or a 65th bit is not. */
static tide_status read_long_varint(tide_otlp_reader *reader, size_t end, uint64_t *out)
{
    const size_t start = reader->at;
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (reader->at == end)
            return fail_at(reader, start, "a number that does not end");
        const uint8_t byte = (uint8_t)reader->bytes.ptr[reader->at++];
        if (shift == 63 && byte > 1)
            break;
        number |= (uint64_t)(byte & 0x7FU) << shift;
        if (byte < 0x80) {
            *out = number;
            return TIDE_OK;
        }
    }
    return fail_at(reader, start, "a number of more than 64 bits");
}

/* Nearly all of them have one byte. */
static inline tide_status read_varint(tide_otlp_reader *reader, size_t end, uint64_t *out)
{
    if (reader->at < end && (uint8_t)reader->bytes.ptr[reader->at] < 0x80) {
        *out = (uint8_t)reader->bytes.ptr[reader->at++];
        return TIDE_OK;
    }
    return read_long_varint(reader, end, out);
}

static tide_status read_fixed64(tide_otlp_reader *reader, size_t end, uint64_t *out)
{
    if (end - reader->at < sizeof *out)
        return fail_at(reader, reader->at, "a number that does not end");
    uint64_t number = 0;
    const uint8_t *bytes = (const uint8_t *)reader->bytes.ptr + reader->at;
    for (unsigned i = 0; i < sizeof number; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    reader->at += sizeof number;
    *out = number;
    return TIDE_OK;
}

static uint64_t undo_zigzag(uint64_t number)
{
    return (number >> 1) ^ (~(number & 1) + 1);
}

static enum wire wire_of(tide_otlp_kind kind)
{
    switch (kind) {
    case TIDE_OTLP_KIND_BOOL:
    case TIDE_OTLP_KIND_INT:
    case TIDE_OTLP_KIND_SINT:
        return WIRE_VARINT;
    case TIDE_OTLP_KIND_FIXED64:
    case TIDE_OTLP_KIND_DOUBLE:
        return WIRE_FIXED64;
    case TIDE_OTLP_KIND_UNKNOWN:
    case TIDE_OTLP_KIND_MESSAGE:
    case TIDE_OTLP_KIND_TEXT:
    case TIDE_OTLP_KIND_BYTES:
    case TIDE_OTLP_KIND_ID:
        break;
    }
    return WIRE_BYTES;
}

/* A number, alone or out of a packed list. */
static tide_status read_number(tide_otlp_reader *reader, size_t end, tide_otlp_field *field)
{
    if (wire_of(field->type->kind) == WIRE_VARINT) {
        TIDE_TRY(read_varint(reader, end, &field->u64));
        if (field->type->kind == TIDE_OTLP_KIND_SINT)
            field->u64 = undo_zigzag(field->u64);
        return TIDE_OK;
    }
    uint64_t bits = 0;
    TIDE_TRY(read_fixed64(reader, end, &bits));
    if (field->type->kind == TIDE_OTLP_KIND_DOUBLE)
        memcpy(&field->f64, &bits, sizeof bits);
    else
        field->u64 = bits;
    return TIDE_OK;
}

static void take_id(tide_otlp_id *id, tide_view bytes)
{
    *id = (tide_otlp_id){.len = -1};
    if (bytes.len > sizeof id->bytes)
        return;
    id->len = (int)bytes.len;
    memcpy(id->bytes, bytes.ptr, bytes.len);
}

static tide_status skip(tide_otlp_reader *reader, size_t end, uint64_t wire)
{
    const size_t start = reader->at;
    uint64_t len = 0;
    switch (wire) {
    case WIRE_VARINT:
        return read_varint(reader, end, &len);
    case WIRE_FIXED64:
        len = 8;
        break;
    case WIRE_FIXED32:
        len = 4;
        break;
    case WIRE_BYTES:
        TIDE_TRY(read_varint(reader, end, &len));
        break;
    default: /* groups have been gone since before OTLP */
        return fail_at(reader, start, "an unknown wire type");
    }
    if (len > end - reader->at)
        return fail_at(reader, start, "a field that is longer than its message");
    reader->at += (size_t)len;
    return TIDE_OK;
}

/* Bytes of any kind. A packed list is not a field yet: its elements are. */
static tide_status read_bytes(tide_otlp_message *message, tide_otlp_field *field)
{
    tide_otlp_reader *reader = message->reader;
    const size_t start = reader->at;
    uint64_t len = 0;
    TIDE_TRY(read_varint(reader, message->end, &len));
    if (len > message->end - reader->at)
        return fail_at(reader, start, "a field that is longer than its message");
    const tide_view bytes = tide_view_bytes(reader->bytes.ptr + reader->at, (size_t)len);
    message->resume = reader->at + (size_t)len;
    field->end = message->resume;
    switch (field->type->kind) {
    case TIDE_OTLP_KIND_TEXT:
    case TIDE_OTLP_KIND_BYTES:
        field->text = bytes;
        break;
    case TIDE_OTLP_KIND_ID:
        take_id(&field->id, bytes);
        break;
    case TIDE_OTLP_KIND_MESSAGE:
        break;
    case TIDE_OTLP_KIND_UNKNOWN:
    case TIDE_OTLP_KIND_BOOL:
    case TIDE_OTLP_KIND_INT:
    case TIDE_OTLP_KIND_SINT:
    case TIDE_OTLP_KIND_FIXED64:
    case TIDE_OTLP_KIND_DOUBLE:
        message->list_number = field->number;
        message->list_end = message->resume;
        break;
    }
    return TIDE_OK;
}

/* The element of a packed list that stands here; TIDE_NONE: there is none. */
static tide_status next_packed(tide_otlp_message *message, tide_otlp_field *field)
{
    tide_otlp_reader *reader = message->reader;
    if (message->list_number == 0 || reader->at == message->list_end) {
        message->list_number = 0;
        return TIDE_NONE;
    }
    field->number = message->list_number;
    field->type = &message->type->fields[field->number];
    return read_number(reader, message->list_end, field);
}

static tide_status read_tag(const tide_otlp_message *message, uint64_t *number, uint64_t *wire)
{
    tide_otlp_reader *reader = message->reader;
    const size_t start = reader->at;
    uint64_t tag = 0;
    TIDE_TRY(read_varint(reader, message->end, &tag));
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return fail_at(reader, start, "a field number that cannot be");
    *number = tag >> 3;
    *wire = tag & 7;
    return TIDE_OK;
}

tide_status tide_otlp_next_protobuf(tide_otlp_message *message, tide_otlp_field *field)
{
    tide_otlp_reader *reader = message->reader;
    for (;;) {
        const tide_status packed = next_packed(message, field);
        if (packed != TIDE_NONE)
            return packed;
        reader->at = message->resume;
        if (reader->at == message->end)
            return TIDE_NONE;
        uint64_t number = 0;
        uint64_t wire = 0;
        TIDE_TRY(read_tag(message, &number, &wire));
        const tide_otlp_field_type *type =
            number < message->type->count ? &message->type->fields[number] : NULL;
        const bool is_known = type && type->name;
        if (is_known && wire == wire_of(type->kind)) {
            field->number = (uint32_t)number;
            field->type = type;
            if (wire == WIRE_BYTES)
                return read_bytes(message, field);
            TIDE_TRY(read_number(reader, message->end, field));
            message->resume = reader->at;
            return TIDE_OK;
        }
        if (is_known && wire == WIRE_BYTES && type->is_list) {
            field->number = (uint32_t)number;
            field->type = type;
            TIDE_TRY(read_bytes(message, field));
            continue;
        }
        TIDE_TRY(skip(reader, message->end, wire));
        message->resume = reader->at;
    }
}
