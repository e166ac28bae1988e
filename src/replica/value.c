#include "replica/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"

bool tide_sql_value_equal(const tide_sql_value *a, const tide_sql_value *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case TIDE_SQL_VALUE_NULL:
        return true;
    case TIDE_SQL_VALUE_I64:
        return a->i64 == b->i64;
    case TIDE_SQL_VALUE_F64:
        return memcmp(&a->f64, &b->f64, sizeof a->f64) == 0;
    case TIDE_SQL_VALUE_TEXT:
    case TIDE_SQL_VALUE_BLOB:
    case TIDE_SQL_VALUE_BOOL: /* these two are no values of SQLite */
    case TIDE_SQL_VALUE_TIME:
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

tide_status tide_sql_value_encode(tide_buffer *out, const tide_sql_value *value)
{
    const uint8_t class = (uint8_t)value->kind;
    TIDE_TRY(tide_buffer_append(out, &class, 1));
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        return TIDE_OK;
    case TIDE_SQL_VALUE_I64:
        return tide_buffer_append_zigzag(out, value->i64);
    case TIDE_SQL_VALUE_F64:
        return tide_buffer_append_u64(out, bits_of(value->f64));
    case TIDE_SQL_VALUE_TEXT:
    case TIDE_SQL_VALUE_BLOB:
    case TIDE_SQL_VALUE_BOOL:
    case TIDE_SQL_VALUE_TIME:
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

tide_status tide_sql_value_decode(tide_sql_value *out, tide_reader *from)
{
    uint8_t class = 0;
    tide_sql_value found = {.i64 = 0};
    TIDE_TRY(tide_reader_byte(from, &class));
    switch (class) {
    case TIDE_SQL_VALUE_NULL:
        break;
    case TIDE_SQL_VALUE_I64:
        TIDE_TRY(read_integer(&found.i64, from));
        break;
    case TIDE_SQL_VALUE_F64:
        TIDE_TRY(read_real(&found.f64, from));
        break;
    case TIDE_SQL_VALUE_TEXT:
    case TIDE_SQL_VALUE_BLOB:
        TIDE_TRY(read_bytes(&found.bytes, from));
        break;
    default:
        return TIDE_E_DAMAGED;
    }
    found.kind = (tide_sql_value_kind) class;
    *out = found;
    return TIDE_OK;
}

/* ---- texts ---- */

static tide_status put_value(tide_buffer *out, const tide_sql_value *value)
{
    static const char digits[] = "0123456789abcdef";
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        return tide_buffer_append_text(out, "NULL");
    case TIDE_SQL_VALUE_I64:
        return tide_buffer_append_decimal(out, value->i64);
    case TIDE_SQL_VALUE_F64:
        return tide_buffer_printf(out, "%.17g", value->f64);
    case TIDE_SQL_VALUE_TEXT:
        return tide_buffer_append_view(out, value->bytes);
    case TIDE_SQL_VALUE_BLOB:
    case TIDE_SQL_VALUE_BOOL: /* these two are no values of SQLite */
    case TIDE_SQL_VALUE_TIME:
        break;
    }
    for (size_t i = 0; i < value->bytes.len; i++) {
        const uint8_t byte = (uint8_t)value->bytes.ptr[i];
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)digits[byte >> 4]));
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)digits[byte & 15]));
    }
    return TIDE_OK;
}

tide_status tide_key_text(tide_buffer *out, const tide_sql_value *key, int count)
{
    for (int i = 0; i < count; i++) {
        if (i > 0)
            TIDE_TRY(tide_buffer_append_text(out, ":"));
        TIDE_TRY(put_value(out, &key[i]));
    }
    return TIDE_OK;
}

tide_status tide_key_text_encoded(tide_buffer *out, tide_view key)
{
    tide_reader from = tide_reader_of(key);
    for (bool is_first = true; tide_reader_left(&from) > 0; is_first = false) {
        tide_sql_value value;
        if (!is_first)
            TIDE_TRY(tide_buffer_append_text(out, ":"));
        TIDE_TRY(tide_sql_value_decode(&value, &from));
        TIDE_TRY(put_value(out, &value));
    }
    return TIDE_OK;
}

void tide_value_json(tide_json *json, const tide_sql_value *value)
{
    char *hex = NULL;
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        tide_json_null(json);
        return;
    case TIDE_SQL_VALUE_I64:
        tide_json_i64(json, value->i64);
        return;
    case TIDE_SQL_VALUE_F64:
        tide_json_double(json, value->f64);
        return;
    case TIDE_SQL_VALUE_TEXT:
        tide_json_view(json, value->bytes);
        return;
    case TIDE_SQL_VALUE_BLOB:
    case TIDE_SQL_VALUE_BOOL: /* these two are no values of SQLite */
    case TIDE_SQL_VALUE_TIME:
        break;
    }
    hex = malloc(2 * value->bytes.len + 1);
    if (hex)
        tide_hex_encode(hex, value->bytes.ptr, value->bytes.len);
    tide_json_text(json, hex);
    free(hex);
}

void tide_value_json_member(tide_json *json, tide_view name, const tide_sql_value *value)
{
    char text[1024];
    if (name.len == 0 || name.len >= sizeof text)
        return;
    memcpy(text, name.ptr, name.len);
    text[name.len] = '\0';
    tide_json_key(json, text);
    tide_value_json(json, value);
}
