/* From protobuf to JSON. A message is walked twice: once to find where its fields are, once, in the
 * order of their numbers, to write them. Nothing is decoded into structs. */
#include "net/codec/json_proto.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/base64.h"
#include "base/text/json.h"
#include "base/text/json_canon.h"
#include "base/text/timefmt.h"
#include "net/codec/json_field.h"
#include "net/codec/json_format.h"
#include "net/codec/json_value.h"
#include "net/codec/protobuf_scan.h"
#include "net/codec/protobuf_wire.h"

enum { SPANS_LEN_MAX = 16 << 20 }; /* of all messages that are open */

/* Where the occurrences of a field are: offsets of tags in the message. */
typedef struct span {
    size_t first;
    size_t last;
    size_t count;
} span;

/* An entry of a map, by its key. */
typedef struct map_entry {
    tide_view bytes; /* of the entry */
    tide_view key;   /* text keys */
    uint64_t number; /* others, as the wire keeps them */
} map_entry;

typedef struct json_writer {
    tide_json_proto_options options;
    bool is_plain;
    tide_buffer *out;
    tide_error *err;
    tide_buffer spans;   /* span of every field of every open message, the innermost last */
    tide_buffer entries; /* map_entry of every open map, the innermost last */
    int depth;
} json_writer;

static tide_status write_message(json_writer *w, const ProtobufCMessageDescriptor *descriptor,
                                 tide_view bytes);

static tide_status check(const json_writer *w, tide_status status)
{
    if (status == TIDE_E_LIMIT)
        return tide_fail(w->err, status, "the message is larger than %zu bytes as JSON",
                         w->out->max);
    if (status != TIDE_OK)
        return tide_buffer_check(status, w->err);
    return TIDE_OK;
}

static tide_status put(json_writer *w, const char *text)
{
    return check(w, tide_buffer_append_text(w->out, text));
}

/* --- where the fields are --- */

/* Is this a form in which the field may come? Otherwise it counts as unknown. */
static bool fits(const ProtobufCFieldDescriptor *field, const tide_wire_field *wire)
{
    return wire->type == tide_wire_type_of(field->type) ||
           (wire->type == TIDE_WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED &&
            tide_wire_is_packable(field->type));
}

static span *get_span(const json_writer *w, size_t spans_at, size_t index)
{
    return (span *)(void *)(w->spans.ptr + spans_at) + index;
}

/* A member of a oneof came: those before it are no longer set. */
static void clear_rivals(const json_writer *w, const ProtobufCMessageDescriptor *descriptor,
                         const ProtobufCFieldDescriptor *field, size_t spans_at)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        if (tide_json_field_is_rival(field, &descriptor->fields[i]))
            get_span(w, spans_at, i)->count = 0;
    }
}

static void note_field(const json_writer *w, const ProtobufCMessageDescriptor *descriptor,
                       const tide_wire_field *wire, size_t at, size_t spans_at)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(descriptor, wire->number);
    if (!field || !fits(field, wire))
        return;
    span *found = get_span(w, spans_at, (size_t)(field - descriptor->fields));
    if (found->count == 0)
        found->first = at;
    found->last = at;
    found->count++;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        clear_rivals(w, descriptor, field, spans_at);
}

/* Push the spans of a message's fields; *spans_at is where they are, until they are popped. */
static tide_status push_spans(json_writer *w, const ProtobufCMessageDescriptor *descriptor,
                              tide_view bytes, size_t *spans_at)
{
    *spans_at = w->spans.len;
    const size_t len = descriptor->n_fields * sizeof(span);
    TIDE_TRY(check(w, tide_buffer_reserve(&w->spans, len)));
    memset(w->spans.ptr + *spans_at, 0, len);
    w->spans.len += len;
    tide_reader reader = tide_reader_of(bytes);
    for (;;) {
        const size_t at = reader.offset;
        tide_wire_field wire;
        TIDE_OK_IF_NONE(tide_wire_next(&reader, &wire, w->err));
        note_field(w, descriptor, &wire, at, *spans_at);
    }
}

/* The next occurrence of a field in its span; the reader stands in it. TIDE_NONE: no more. */
static tide_status next_in_span(json_writer *w, tide_reader *reader, const span *found,
                                const ProtobufCFieldDescriptor *field, tide_wire_field *wire)
{
    while (found->count > 0 && reader->offset <= found->last) {
        const tide_status status = tide_wire_next(reader, wire, w->err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            break;
        if (wire->number == field->id && fits(field, wire))
            return TIDE_OK;
    }
    return TIDE_NONE;
}

static tide_reader begin_span(tide_view bytes, const span *found)
{
    tide_reader reader = tide_reader_of(bytes);
    reader.offset = found->first;
    return reader;
}

/* --- values --- */

/* Text of plain ASCII, which most text is, goes out as it is. */
static tide_status write_text(json_writer *w, tide_view text)
{
    bool is_plain = true;
    for (size_t i = 0; i < text.len && is_plain; i++)
        is_plain =
            text.ptr[i] >= 0x20 && text.ptr[i] != '"' && text.ptr[i] != '\\' && text.ptr[i] != 0x7F;
    if (!is_plain)
        return check(w, tide_json_append_string(w->out, text));
    TIDE_TRY(check(w, tide_buffer_reserve(w->out, text.len + 2)));
    TIDE_TRY(put(w, "\""));
    TIDE_TRY(check(w, tide_buffer_append_view(w->out, text)));
    return put(w, "\"");
}

static tide_status write_enum(json_writer *w, const ProtobufCFieldDescriptor *field, uint64_t value)
{
    const ProtobufCEnumValue *known =
        protobuf_c_enum_descriptor_get_value(field->descriptor, (int32_t)(uint32_t)value);
    if (known)
        return write_text(w, tide_view_of(known->name));
    return check(w, tide_json_append_number(w->out, PROTOBUF_C_TYPE_ENUM, value, w->is_plain));
}

static tide_status write_number(json_writer *w, const ProtobufCFieldDescriptor *field,
                                uint64_t value)
{
    if (field->type == PROTOBUF_C_TYPE_ENUM)
        return write_enum(w, field, value);
    return check(w, tide_json_append_number(w->out, field->type, value, w->is_plain));
}

/* A number that is not a time of the years 0001 to 9999 stays a number. */
static tide_status write_time(json_writer *w, const ProtobufCFieldDescriptor *field,
                              int64_t unit_us, uint64_t value)
{
    char text[TIDE_TIME_TEXT_SIZE];
    int64_t us = 0;
    if (__builtin_mul_overflow((int64_t)value, unit_us, &us) ||
        tide_time_format(us, text) != TIDE_OK)
        return write_number(w, field, value);
    text[10] = 'T';
    return check(w, tide_buffer_printf(w->out, "\"%sZ\"", text));
}

/* Programs of others may have written text that is not JSON. In JSON a bare line break is white
 * space, never part of a text: the document stays on one line. */
static tide_status write_document(json_writer *w, tide_view text)
{
    if (tide_json_check(text, NULL) != TIDE_OK)
        return write_text(w, text);
    const size_t at = w->out->len;
    TIDE_TRY(check(w, tide_buffer_append_view(w->out, text)));
    for (size_t i = at; i < w->out->len; i++) {
        if (w->out->ptr[i] == '\n' || w->out->ptr[i] == '\r')
            w->out->ptr[i] = ' ';
    }
    return TIDE_OK;
}

static tide_status write_value(json_writer *w, const ProtobufCFieldDescriptor *field,
                               tide_json_format format, const tide_wire_field *wire)
{
    if (format != TIDE_JSON_AS_IS && format != TIDE_JSON_NULL_IF_ABSENT && wire->value == 0 &&
        wire->bytes.len == 0)
        return put(w, "null");
    switch (format) {
    case TIDE_JSON_TIME:
        return write_time(w, field, 1, wire->value);
    case TIDE_JSON_TIME_MS:
        return write_time(w, field, 1000, wire->value);
    case TIDE_JSON_DOCUMENT:
    case TIDE_JSON_TEXT_DOCUMENT:
        return write_document(w, wire->bytes);
    case TIDE_JSON_ALWAYS_NULL:
        return put(w, "null");
    case TIDE_JSON_AS_IS:
    case TIDE_JSON_NULLABLE:
    case TIDE_JSON_NULL_IF_ABSENT:
        break;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return write_text(w, wire->bytes);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return write_message(w, field->descriptor, wire->bytes);
    if (field->type != PROTOBUF_C_TYPE_BYTES)
        return write_number(w, field, wire->value);
    TIDE_TRY(put(w, "\""));
    TIDE_TRY(check(w, tide_base64_encode(w->out, wire->bytes, true)));
    return put(w, "\"");
}

/* A message in several parts is the message of all their bytes in a row. */
static tide_status write_merged(json_writer *w, const ProtobufCFieldDescriptor *field,
                                tide_view bytes, const span *found)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer whole = tide_buffer_of(bytes.len);
    tide_reader reader = begin_span(bytes, found);
    tide_wire_field wire;
    TIDE_EACH(next_in_span(w, &reader, found, field, &wire)) {
        TIDE_TRY(check(w, tide_buffer_append_view(&whole, wire.bytes)));
    }
    return write_message(w, field->descriptor, tide_buffer_view(&whole));
}

/* A field that is there; of several values the last one counts. */
static tide_status write_singular(json_writer *w, const ProtobufCFieldDescriptor *field,
                                  tide_json_format format, tide_view bytes, const span *found)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE && found->count > 1)
        return write_merged(w, field, bytes, found);
    tide_reader reader = tide_reader_of(bytes);
    reader.offset = found->last;
    tide_wire_field wire;
    TIDE_TRY(tide_wire_next(&reader, &wire, w->err));
    return write_value(w, field, format, &wire);
}

/* --- arrays --- */

static tide_status read_packed(tide_reader *reader, ProtobufCType type, uint64_t *value)
{
    switch (tide_wire_type_of(type)) {
    case TIDE_WIRE_FIXED64:
        return tide_reader_u64(reader, value);
    case TIDE_WIRE_FIXED32: {
        uint32_t narrow = 0;
        const tide_status status = tide_reader_u32(reader, &narrow);
        *value = narrow;
        return status;
    }
    case TIDE_WIRE_VARINT:
    case TIDE_WIRE_BYTES:
        break;
    }
    return tide_reader_varint(reader, value);
}

static tide_status write_packed(json_writer *w, const ProtobufCFieldDescriptor *field,
                                tide_json_format format, tide_view bytes, bool *is_first)
{
    tide_reader reader = tide_reader_of(bytes);
    while (tide_reader_left(&reader) > 0) {
        tide_wire_field wire = {.number = field->id};
        if (read_packed(&reader, field->type, &wire.value) != TIDE_OK)
            return tide_fail(w->err, TIDE_E_INVALID, "field %s: half an element at the end",
                             field->name);
        if (!*is_first)
            TIDE_TRY(put(w, ","));
        *is_first = false;
        TIDE_TRY(write_value(w, field, format, &wire));
    }
    return TIDE_OK;
}

static tide_status write_array(json_writer *w, const ProtobufCFieldDescriptor *field,
                               tide_json_format format, tide_view bytes, const span *found)
{
    TIDE_TRY(put(w, "["));
    tide_reader reader = begin_span(bytes, found);
    bool is_first = true;
    tide_wire_field wire;
    TIDE_EACH(next_in_span(w, &reader, found, field, &wire)) {
        if (wire.type == TIDE_WIRE_BYTES && tide_wire_is_packable(field->type)) {
            TIDE_TRY(write_packed(w, field, format, wire.bytes, &is_first));
            continue;
        }
        if (!is_first)
            TIDE_TRY(put(w, ","));
        is_first = false;
        TIDE_TRY(write_value(w, field, format, &wire));
    }
    return put(w, "]");
}

/* --- maps --- */

/* What a varint means to its type: the bits that are more than it has do not tell keys apart. */
static uint64_t narrow_number(ProtobufCType type, uint64_t value)
{
    if (type == PROTOBUF_C_TYPE_BOOL)
        return value != 0;
    const bool is_narrow = type == PROTOBUF_C_TYPE_INT32 || type == PROTOBUF_C_TYPE_SINT32 ||
                           type == PROTOBUF_C_TYPE_UINT32;
    return is_narrow ? (uint32_t)value : value;
}

/* The key of an entry: the last field 1 in it, or the type's default. */
static tide_status read_key(json_writer *w, const ProtobufCFieldDescriptor *key, map_entry *entry)
{
    tide_reader reader = tide_reader_of(entry->bytes);
    tide_wire_field wire;
    TIDE_EACH(tide_wire_next(&reader, &wire, w->err)) {
        if (wire.number == key->id && fits(key, &wire)) {
            entry->key = wire.bytes;
            entry->number = narrow_number(key->type, wire.value);
        }
    }
    return TIDE_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const map_entry *x = a;
    const map_entry *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    const size_t len = x->key.len < y->key.len ? x->key.len : y->key.len;
    const int order = len > 0 ? memcmp(x->key.ptr, y->key.ptr, len) : 0;
    if (order != 0)
        return order;
    if (x->key.len != y->key.len)
        return x->key.len < y->key.len ? -1 : 1;
    return x->bytes.ptr < y->bytes.ptr ? -1 : x->bytes.ptr > y->bytes.ptr;
}

static tide_status gather_entries(json_writer *w, const ProtobufCFieldDescriptor *field,
                                  tide_view bytes, const span *found)
{
    const ProtobufCMessageDescriptor *descriptor = field->descriptor;
    tide_reader reader = begin_span(bytes, found);
    tide_wire_field wire;
    TIDE_EACH(next_in_span(w, &reader, found, field, &wire)) {
        map_entry entry = {.bytes = wire.bytes};
        TIDE_TRY(read_key(w, &descriptor->fields[0], &entry));
        const tide_status added = tide_buffer_append(&w->entries, &entry, sizeof entry);
        if (added == TIDE_E_LIMIT)
            return tide_fail(w->err, added, "%s: maps of more than %d entries", field->name,
                             TIDE_JSON_PROTO_MAP_MAX);
        TIDE_TRY(check(w, added));
    }
    return TIDE_OK;
}

/* A key is always a string. */
static tide_status write_key(json_writer *w, const ProtobufCFieldDescriptor *key,
                             const map_entry *entry)
{
    if (key->type == PROTOBUF_C_TYPE_STRING)
        return write_text(w, entry->key);
    const size_t at = w->out->len;
    TIDE_TRY(write_number(w, key, entry->number));
    if (w->out->ptr[at] == '"')
        return TIDE_OK;
    char number[32] = "";
    memcpy(number, w->out->ptr + at, w->out->len - at < sizeof number ? w->out->len - at : 0);
    tide_buffer_truncate(w->out, at);
    return check(w, tide_buffer_printf(w->out, "\"%s\"", number));
}

static tide_status write_entry(json_writer *w, const ProtobufCFieldDescriptor *field,
                               const map_entry *entry)
{
    const ProtobufCMessageDescriptor *descriptor = field->descriptor;
    const ProtobufCFieldDescriptor *value = &descriptor->fields[1];
    TIDE_TRY(write_key(w, &descriptor->fields[0], entry));
    TIDE_TRY(put(w, ":"));
    size_t spans_at;
    TIDE_TRY(push_spans(w, descriptor, entry->bytes, &spans_at));
    const span found = *get_span(w, spans_at, 1);
    tide_buffer_truncate(&w->spans, spans_at);
    if (found.count > 0)
        return write_singular(w, value, TIDE_JSON_AS_IS, entry->bytes, &found);
    const tide_wire_field nothing = {.bytes = tide_view_of("")};
    return write_value(w, value, TIDE_JSON_AS_IS, &nothing);
}

/* In the order of the keys; of several entries with one key the last one counts. */
static tide_status write_map(json_writer *w, const ProtobufCFieldDescriptor *field, tide_view bytes,
                             const span *found)
{
    const size_t entries_at = w->entries.len;
    TIDE_TRY(gather_entries(w, field, bytes, found));
    const size_t count = (w->entries.len - entries_at) / sizeof(map_entry);
    if (count > 1)
        qsort(w->entries.ptr + entries_at, count, sizeof(map_entry), compare_entries);
    TIDE_TRY(put(w, "{"));
    bool is_first = true;
    for (size_t i = 0; i < count; i++) {
        /* Values may hold maps, which move the entries: they are found anew each time. */
        const map_entry *entries = (const map_entry *)(void *)(w->entries.ptr + entries_at);
        const map_entry entry = entries[i];
        if (i + 1 < count && entries[i + 1].number == entry.number &&
            tide_view_equal(entries[i + 1].key, entry.key))
            continue;
        if (!is_first)
            TIDE_TRY(put(w, ","));
        is_first = false;
        TIDE_TRY(write_entry(w, field, &entry));
    }
    tide_buffer_truncate(&w->entries, entries_at);
    return put(w, "}");
}

/* --- messages --- */

static bool is_left_out(const ProtobufCFieldDescriptor *field, const span *found)
{
    return found->count == 0 && field->label != PROTOBUF_C_LABEL_REPEATED &&
           (field->type == PROTOBUF_C_TYPE_MESSAGE || field->label != PROTOBUF_C_LABEL_NONE ||
            (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0);
}

static tide_status write_name(json_writer *w, const ProtobufCFieldDescriptor *field)
{
    TIDE_TRY(put(w, "\""));
    if (w->is_plain || w->options.has_proto_names)
        TIDE_TRY(put(w, field->name));
    else
        TIDE_TRY(check(w, tide_json_field_append_name(w->out, field)));
    return put(w, "\":");
}

static tide_status write_field(json_writer *w, const ProtobufCMessageDescriptor *descriptor,
                               const ProtobufCFieldDescriptor *field, tide_json_format format,
                               tide_view bytes, const span *found)
{
    const bool is_nullable = format == TIDE_JSON_NULLABLE || format == TIDE_JSON_NULL_IF_ABSENT;
    if (is_left_out(field, found) || (is_nullable && found->count == 0))
        return put(w, "null");
    if (tide_json_field_is_map(descriptor, field))
        return write_map(w, field, bytes, found);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return write_array(w, field, format, bytes, found);
    if (found->count > 0)
        return write_singular(w, field, format, bytes, found);
    const tide_wire_field nothing = {.bytes = tide_view_of("")};
    return write_value(w, field, format, &nothing);
}

/* A message that stands for its one value. */
static tide_status write_only_value(json_writer *w, const ProtobufCMessageDescriptor *descriptor,
                                    const char *formats, tide_view bytes, size_t spans_at)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const span found = *get_span(w, spans_at, i);
        if (!is_left_out(&descriptor->fields[i], &found))
            return write_field(w, descriptor, &descriptor->fields[i],
                               (tide_json_format)formats[1 + i], bytes, &found);
    }
    return put(w, "null");
}

static tide_status write_members(json_writer *w, const ProtobufCMessageDescriptor *descriptor,
                                 const char *formats, tide_view bytes, size_t spans_at)
{
    TIDE_TRY(put(w, "{"));
    bool is_first = true;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        const span found = *get_span(w, spans_at, i);
        if (!w->is_plain && is_left_out(field, &found))
            continue;
        if (!is_first)
            TIDE_TRY(put(w, ","));
        is_first = false;
        TIDE_TRY(write_name(w, field));
        TIDE_TRY(write_field(w, descriptor, field,
                             formats ? (tide_json_format)formats[1 + i] : TIDE_JSON_AS_IS, bytes,
                             &found));
    }
    return put(w, "}");
}

static tide_status write_message(json_writer *w, const ProtobufCMessageDescriptor *descriptor,
                                 tide_view bytes)
{
    if (w->depth == TIDE_PROTOBUF_DEPTH_MAX)
        return tide_fail(w->err, TIDE_E_LIMIT, "messages are nested more than %d levels deep",
                         TIDE_PROTOBUF_DEPTH_MAX);
    w->depth++;
    size_t spans_at;
    TIDE_TRY(push_spans(w, descriptor, bytes, &spans_at));
    const char *formats = w->is_plain ? tide_json_formats_find(descriptor->name) : NULL;
    TIDE_TRY(formats && formats[0] ? write_only_value(w, descriptor, formats, bytes, spans_at)
                                   : write_members(w, descriptor, formats, bytes, spans_at));
    tide_buffer_truncate(&w->spans, spans_at);
    w->depth--;
    return TIDE_OK;
}

static void json_writer_done(json_writer *w)
{
    tide_buffer_done(&w->spans);
    tide_buffer_done(&w->entries);
}

tide_status tide_proto_to_json_with(const ProtobufCMessageDescriptor *descriptor, tide_view bytes,
                                    const tide_json_proto_options *options, tide_buffer *out,
                                    tide_error *err)
{
    TIDE_CLEANUP(json_writer_done)
    json_writer w = {
        .out = out, .err = err, .is_plain = tide_json_formats_find(descriptor->name) != NULL};
    if (options)
        w.options = *options;
    tide_buffer_init(&w.spans, SPANS_LEN_MAX);
    tide_buffer_init(&w.entries, TIDE_JSON_PROTO_MAP_MAX * sizeof(map_entry));
    const size_t before_len = out->len;
    const tide_status status = write_message(&w, descriptor, bytes);
    if (status != TIDE_OK)
        tide_buffer_truncate(out, before_len);
    return status;
}

tide_status tide_proto_to_json(const ProtobufCMessageDescriptor *descriptor, tide_view bytes,
                               tide_buffer *out, tide_error *err)
{
    return tide_proto_to_json_with(descriptor, bytes, NULL, out, err);
}
