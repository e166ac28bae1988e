#include "replica/value.h"

#include <string.h>

bool tide_any_equal(const tide_any *a, const tide_any *b)
{
    if (a->class != b->class)
        return false;
    switch (a->class) {
    case TIDE_CLASS_NULL:
        return true;
    case TIDE_CLASS_INTEGER:
        return a->integer == b->integer;
    case TIDE_CLASS_REAL:
        return memcmp(&a->real, &b->real, sizeof a->real) == 0;
    case TIDE_CLASS_TEXT:
    case TIDE_CLASS_BLOB:
        break;
    }
    return tide_view_equal(a->bytes, b->bytes);
}

static uint64_t bits_of(double real)
{
    uint64_t bits = 0;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

tide_status tide_any_encode(tide_buffer *out, const tide_any *value)
{
    const uint8_t class = (uint8_t)value->class;
    TIDE_TRY(tide_buffer_append(out, &class, 1));
    switch (value->class) {
    case TIDE_CLASS_NULL:
        return TIDE_OK;
    case TIDE_CLASS_INTEGER:
        return tide_buffer_append_zigzag(out, value->integer);
    case TIDE_CLASS_REAL:
        return tide_buffer_append_u64(out, bits_of(value->real));
    case TIDE_CLASS_TEXT:
    case TIDE_CLASS_BLOB:
        break;
    }
    TIDE_TRY(tide_buffer_append_varint(out, value->bytes.len));
    return tide_buffer_append_view(out, value->bytes);
}

static tide_status read_real(double *out, tide_reader *from)
{
    uint64_t bits = 0;
    TIDE_TRY(tide_reader_u64(from, &bits));
    memcpy(out, &bits, sizeof bits);
    return *out == *out ? TIDE_OK : TIDE_E_DAMAGED; /* SQLite has no NaN */
}

static tide_status read_bytes(tide_view *out, tide_reader *from)
{
    uint64_t len = 0;
    TIDE_TRY(tide_reader_varint_shortest(from, &len));
    return len <= tide_reader_left(from) ? tide_reader_bytes(from, (size_t)len, out)
                                         : TIDE_E_DAMAGED;
}

static tide_status read_integer(int64_t *out, tide_reader *from)
{
    uint64_t number = 0;
    TIDE_TRY(tide_reader_varint_shortest(from, &number));
    *out = (int64_t)((number >> 1) ^ (0 - (number & 1)));
    return TIDE_OK;
}

tide_status tide_any_decode(tide_any *out, tide_reader *from)
{
    uint8_t class = 0;
    tide_any found = {.integer = 0};
    TIDE_TRY(tide_reader_byte(from, &class));
    switch (class) {
    case TIDE_CLASS_NULL:
        break;
    case TIDE_CLASS_INTEGER:
        TIDE_TRY(read_integer(&found.integer, from));
        break;
    case TIDE_CLASS_REAL:
        TIDE_TRY(read_real(&found.real, from));
        break;
    case TIDE_CLASS_TEXT:
    case TIDE_CLASS_BLOB:
        TIDE_TRY(read_bytes(&found.bytes, from));
        break;
    default:
        return TIDE_E_DAMAGED;
    }
    found.class = (tide_class) class;
    *out = found;
    return TIDE_OK;
}
