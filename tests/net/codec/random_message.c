#include "net/codec/random_message.h"

#include "net/codec/protobuf_wire.h"
#include "support/check.h"

static uint64_t random_number(prng *random)
{
    switch (prng_below(random, 5)) {
    case 0:
        return 0;
    case 1:
        return prng_below(random, 200);
    case 2:
        return (uint64_t) - (int64_t)prng_below(random, 200);
    case 3:
        return UINT64_MAX >> prng_below(random, 64);
    default:
        return prng_u64(random);
    }
}

static void append_text(prng *random, uint32_t number, tide_buffer *out)
{
    static const char *const pieces[] = {
        "a", "tide", "\"", "\\", "\n", "\xC3\xA9", "\x7F", "\xF0\x9F\x8C\x8A", " ", "\x01"};
    size_t at;
    assert_ok(tide_wire_begin(out, number, &at));
    for (uint64_t n = prng_below(random, 12); n > 0; n--)
        assert_ok(tide_buffer_append_text(
            out, pieces[prng_below(random, sizeof pieces / sizeof pieces[0])]));
    assert_ok(tide_wire_end(out, at));
}

static void append_bytes(prng *random, uint32_t number, tide_buffer *out)
{
    size_t at;
    assert_ok(tide_wire_begin(out, number, &at));
    for (uint64_t n = prng_below(random, 40); n > 0; n--)
        assert_ok(tide_buffer_append_byte(out, (uint8_t)prng_u64(random)));
    assert_ok(tide_wire_end(out, at));
}

static void append_scalar(prng *random, const ProtobufCFieldDescriptor *field, bool has_tag,
                          tide_buffer *out)
{
    uint64_t value = random_number(random);
    if (field->type == PROTOBUF_C_TYPE_BOOL)
        value &= 1;
    else if (field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_SINT32)
        value &= UINT32_MAX;
    else if (field->type == PROTOBUF_C_TYPE_INT32 || field->type == PROTOBUF_C_TYPE_ENUM)
        value = (uint64_t)(int64_t)(int32_t)(uint32_t)value;
    const tide_wire_type type = tide_wire_type_of(field->type);
    if (has_tag)
        assert_ok(tide_wire_append_tag(out, field->id, type));
    if (type == TIDE_WIRE_VARINT)
        assert_ok(tide_buffer_append_varint(out, value));
    else if (type == TIDE_WIRE_FIXED64)
        assert_ok(tide_buffer_append_u64(out, value));
    else
        assert_ok(tide_buffer_append_u32(out, (uint32_t)value));
}

static void append_value(prng *random, const ProtobufCFieldDescriptor *field, int depth,
                         tide_buffer *out)
{
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        append_text(random, field->id, out);
    } else if (field->type == PROTOBUF_C_TYPE_BYTES) {
        append_bytes(random, field->id, out);
    } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        size_t at;
        assert_ok(tide_wire_begin(out, field->id, &at));
        if (depth > 0)
            random_message(random, field->descriptor, depth - 1, out);
        assert_ok(tide_wire_end(out, at));
    } else {
        append_scalar(random, field, true, out);
    }
}

static void append_field(prng *random, const ProtobufCFieldDescriptor *field, int depth,
                         tide_buffer *out)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        append_value(random, field, depth, out);
        return;
    }
    const uint64_t count = prng_chance(random, 1, 20) ? 50 : prng_below(random, 5);
    const bool is_packed = tide_wire_is_packable(field->type) && prng_chance(random, 3, 4);
    if (!is_packed) {
        for (uint64_t n = 0; n < (depth > 0 ? count : 1); n++)
            append_value(random, field, depth, out);
        return;
    }
    size_t at;
    assert_ok(tide_wire_begin(out, field->id, &at));
    for (uint64_t n = 0; n < count; n++)
        append_scalar(random, field, false, out);
    assert_ok(tide_wire_end(out, at));
}

void random_message(prng *random, const ProtobufCMessageDescriptor *descriptor, int depth,
                    tide_buffer *out)
{
    if (out->len > out->max / 2)
        return;
    if (prng_chance(random, 1, 4)) {
        for (uint64_t n = descriptor->n_fields; n > 0; n--)
            append_field(random, &descriptor->fields[prng_below(random, descriptor->n_fields)],
                         depth, out);
        return;
    }
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        if (prng_chance(random, 2, 3))
            append_field(random, &descriptor->fields[i], depth, out);
    }
}
