#include "otlp/reader.h"

#include <string.h>

#include "base/bytes/protobuf_fields.h"

static tide_reader reader_to(const tide_otlp_reader *reader, size_t end)
{
    return (tide_reader){.view = tide_view_bytes(reader->bytes.ptr, end), .offset = reader->at};
}

static tide_wire_type wire_of(tide_otlp_kind kind)
{
    switch (kind) {
    case TIDE_OTLP_KIND_BOOL:
    case TIDE_OTLP_KIND_INT:
    case TIDE_OTLP_KIND_SINT:
        return TIDE_WIRE_VARINT;
    case TIDE_OTLP_KIND_FIXED64:
    case TIDE_OTLP_KIND_DOUBLE:
        return TIDE_WIRE_FIXED64;
    case TIDE_OTLP_KIND_UNKNOWN:
    case TIDE_OTLP_KIND_MESSAGE:
    case TIDE_OTLP_KIND_TEXT:
    case TIDE_OTLP_KIND_BYTES:
    case TIDE_OTLP_KIND_ID:
        break;
    }
    return TIDE_WIRE_BYTES;
}

/* A number, alone or out of a packed list. */
static void take_number(tide_otlp_field *field, uint64_t number)
{
    if (field->type->kind == TIDE_OTLP_KIND_SINT)
        field->u64 = (number >> 1) ^ (~(number & 1) + 1);
    else if (field->type->kind == TIDE_OTLP_KIND_DOUBLE)
        memcpy(&field->f64, &number, sizeof number);
    else
        field->u64 = number;
}

static void take_id(tide_otlp_id *id, tide_view bytes)
{
    *id = (tide_otlp_id){.len = -1};
    if (bytes.len > sizeof id->bytes)
        return;
    id->len = (int)bytes.len;
    memcpy(id->bytes, bytes.ptr, bytes.len);
}

/* Bytes of any kind. A packed list is not a field yet: its elements are. */
static void take_bytes(tide_otlp_message *message, tide_otlp_field *field, tide_view bytes)
{
    tide_otlp_reader *reader = message->reader;
    reader->at = message->resume - bytes.len;
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
    uint64_t number = 0;
    tide_reader list = reader_to(reader, message->list_end);
    if ((wire_of(field->type->kind) == TIDE_WIRE_VARINT
             ? tide_reader_varint(&list, &number)
             : tide_reader_u64(&list, &number)) < TIDE_OK)
        return tide_fail(reader->err, TIDE_E_INVALID, "offset %zu: a number that does not end",
                         reader->at);
    reader->at = list.offset;
    take_number(field, number);
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
        tide_reader fields = reader_to(reader, message->end);
        tide_wire_field found;
        const tide_status status = tide_wire_next(&fields, &found, reader->err);
        if (status != TIDE_OK)
            return status;
        message->resume = fields.offset;
        const tide_otlp_field_type *type =
            found.number < message->type->count ? &message->type->fields[found.number] : NULL;
        if (!type || !type->name)
            continue;
        field->number = found.number;
        field->type = type;
        const bool is_bytes = found.type == TIDE_WIRE_BYTES;
        if (found.type == wire_of(type->kind)) {
            reader->at = fields.offset;
            if (is_bytes)
                take_bytes(message, field, found.bytes);
            else
                take_number(field, found.value);
            return TIDE_OK;
        }
        if (is_bytes && type->is_list)
            take_bytes(message, field, found.bytes);
    }
}
