#include "replica/value_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"

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
