#include "net/codec/protobuf_scan.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/text/utf8.h"
#include "net/codec/protobuf_wire.h"

/* protobuf-c 1.4 notes every field of a message before it decodes them: 16 on the stack, then slabs
 * of 32, 64, 128 ... notes of this size. */
enum {
    NOTE_LEN = 32,
    NOTES_ON_STACK = 16,
};

/* A message that the scan is inside of. */
typedef struct level {
    const ProtobufCMessageDescriptor *descriptor;
    size_t end;   /* where it ends in the whole */
    size_t notes; /* fields so far */
    size_t notes_room;
    const ProtobufCFieldDescriptor *last; /* fields of a kind come in rows */
} level;

typedef struct scanner {
    tide_protobuf_limits limits;
    tide_protobuf_facts facts;
    tide_reader reader; /* over the whole; its view ends where the innermost message does */
    level levels[TIDE_PROTOBUF_DEPTH_MAX];
    int depth;
} scanner;

static tide_status fail_field(const scanner *scan, const ProtobufCFieldDescriptor *field,
                              const char *what, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID, "field %s of %s: %s", field->name,
                     scan->levels[scan->depth - 1].descriptor->name, what);
}

/* Count an allocation, rounded as the arena does. */
static tide_status add_memory(scanner *scan, size_t count, size_t size, tide_error *err)
{
    const size_t unit = _Alignof(max_align_t);
    const size_t most = SIZE_MAX / 2;
    const size_t len = count > most / size ? most : count * size;
    scan->facts.memory_len += (len + unit - 1) / unit * unit;
    if (scan->facts.memory_len > scan->limits.memory_len)
        return tide_fail(err, TIDE_E_LIMIT,
                         "the message would take more than %zu bytes of memory decoded",
                         scan->limits.memory_len);
    return TIDE_OK;
}

static tide_status begin_message(scanner *scan, const ProtobufCMessageDescriptor *descriptor,
                                 size_t end, tide_error *err)
{
    if (scan->depth == scan->limits.depth)
        return tide_fail(err, TIDE_E_LIMIT, "messages are nested more than %d levels deep",
                         scan->limits.depth);
    scan->levels[scan->depth++] =
        (level){.descriptor = descriptor, .end = end, .notes_room = NOTES_ON_STACK};
    scan->reader.view.len = end;
    if (scan->facts.depth < scan->depth)
        scan->facts.depth = scan->depth;
    const size_t bitmap_len = (descriptor->n_fields + 7U) / 8U;
    if (bitmap_len > 16) /* of required fields; below that on the stack */
        TIDE_TRY(add_memory(scan, bitmap_len, 1, err));
    return add_memory(scan, descriptor->sizeof_message, 1, err);
}

static void end_message(scanner *scan)
{
    scan->depth--;
    if (scan->depth > 0)
        scan->reader.view.len = scan->levels[scan->depth - 1].end;
}

/* One more field of the innermost message. */
static tide_status add_note(scanner *scan, tide_error *err)
{
    if (++scan->facts.fields > scan->limits.fields)
        return tide_fail(err, TIDE_E_LIMIT, "the message has more than %zu fields",
                         scan->limits.fields);
    level *inner = &scan->levels[scan->depth - 1];
    if (++inner->notes <= inner->notes_room)
        return TIDE_OK;
    const size_t slab = inner->notes_room + NOTES_ON_STACK; /* 32, 64, 128 ... */
    inner->notes_room += slab;
    return add_memory(scan, slab, NOTE_LEN, err);
}

static size_t size_of_element(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
        break;
    }
    return 4;
}

/* How many elements a packed field has. False: the last one is not whole. */
static bool count_packed(ProtobufCType type, tide_view bytes, size_t *count)
{
    const tide_wire_type wire = tide_wire_type_of(type);
    if (wire != TIDE_WIRE_VARINT) {
        const size_t len = wire == TIDE_WIRE_FIXED64 ? 8 : 4;
        *count = bytes.len / len;
        return bytes.len % len == 0;
    }
    tide_reader reader = tide_reader_of(bytes);
    for (*count = 0; tide_reader_left(&reader) > 0; (*count)++) {
        uint64_t ignored;
        if (tide_reader_varint(&reader, &ignored) != TIDE_OK)
            return false;
    }
    return true;
}

/* Places in the field's array. That is one allocation, rounded once; elements come in rows, and
 * every row is rounded here. */
static tide_status add_elements(scanner *scan, const ProtobufCFieldDescriptor *field, size_t count,
                                tide_error *err)
{
    level *inner = &scan->levels[scan->depth - 1];
    const size_t rounding_len = inner->last == field ? 0 : 1;
    inner->last = field;
    scan->facts.memory_len += count * size_of_element(field->type); /* count <= bytes.len */
    return add_memory(scan, rounding_len, 1, err);
}

static tide_status check_text(const scanner *scan, const ProtobufCFieldDescriptor *field,
                              tide_view text, tide_error *err)
{
    if (tide_utf8_valid(text))
        return TIDE_OK;
    const bool has_nul = text.len > 0 && memchr(text.ptr, '\0', text.len);
    return fail_field(scan, field, has_nul ? "a text with a NUL in it" : "not valid UTF-8", err);
}

static tide_status scan_packed(scanner *scan, const ProtobufCFieldDescriptor *field,
                               tide_view bytes, tide_error *err)
{
    size_t count = 0;
    if (!count_packed(field->type, bytes, &count))
        return fail_field(scan, field, "half an element at the end", err);
    return add_elements(scan, field, count, err);
}

static tide_status scan_known(scanner *scan, const ProtobufCFieldDescriptor *field,
                              const tide_wire_field *wire, tide_error *err)
{
    const bool is_repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    if (is_repeated && wire->type == TIDE_WIRE_BYTES && tide_wire_is_packable(field->type))
        return scan_packed(scan, field, wire->bytes, err);
    if (wire->type != tide_wire_type_of(field->type))
        return fail_field(scan, field, "not in the form of its type", err);
    if (is_repeated)
        TIDE_TRY(add_elements(scan, field, 1, err));
    scan->levels[scan->depth - 1].last = field;

    if (field->type == PROTOBUF_C_TYPE_STRING) {
        TIDE_TRY(check_text(scan, field, wire->bytes, err));
        return add_memory(scan, wire->bytes.len + 1, 1, err);
    }
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return wire->bytes.len > 0 ? add_memory(scan, wire->bytes.len, 1, err) : TIDE_OK;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return TIDE_OK;
    /* Step back to where its content begins, and go on inside. */
    const size_t end = scan->reader.offset;
    scan->reader.offset = end - wire->bytes.len;
    return begin_message(scan, field->descriptor, end, err);
}

/* len is of the whole field. */
static tide_status scan_unknown(scanner *scan, size_t len, tide_error *err)
{
    TIDE_TRY(add_memory(scan, 1, sizeof(ProtobufCMessageUnknownField), err));
    return add_memory(scan, len, 1, err);
}

static tide_status scan_field(scanner *scan, tide_error *err)
{
    const size_t start = scan->reader.offset;
    tide_wire_field wire;
    TIDE_TRY(tide_wire_next(&scan->reader, &wire, err));
    TIDE_TRY(add_note(scan, err));
    const level *inner = &scan->levels[scan->depth - 1];
    const ProtobufCFieldDescriptor *field =
        inner->last && inner->last->id == wire.number
            ? inner->last
            : protobuf_c_message_descriptor_get_field(inner->descriptor, wire.number);
    if (field)
        return scan_known(scan, field, &wire, err);
    return scan_unknown(scan, scan->reader.offset - start, err);
}

static tide_protobuf_limits fill_limits(const tide_protobuf_limits *limits)
{
    tide_protobuf_limits filled = limits ? *limits : (tide_protobuf_limits){0};
    if (filled.depth == 0)
        filled.depth = TIDE_PROTOBUF_DEPTH_MAX;
    if (filled.fields == 0)
        filled.fields = TIDE_PROTOBUF_FIELDS_MAX;
    if (filled.memory_len == 0)
        filled.memory_len = TIDE_PROTOBUF_MEMORY_MAX;
    assert(filled.depth > 0 && filled.depth <= TIDE_PROTOBUF_DEPTH_MAX);
    return filled;
}

tide_status tide_protobuf_scan(const ProtobufCMessageDescriptor *descriptor, tide_view bytes,
                               const tide_protobuf_limits *limits, tide_protobuf_facts *facts,
                               tide_error *err)
{
    scanner scan = {.limits = fill_limits(limits), .reader = tide_reader_of(bytes)};
    TIDE_TRY(begin_message(&scan, descriptor, bytes.len, err));
    while (scan.depth > 0) {
        if (tide_reader_left(&scan.reader) == 0)
            end_message(&scan);
        else
            TIDE_TRY(scan_field(&scan, err));
    }
    if (facts)
        *facts = scan.facts;
    return TIDE_OK;
}
