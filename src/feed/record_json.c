/* record_json.c - records for people and for SQL: one JSON object each. See record.h. */
#include "feed/record.h"

#include <inttypes.h>

#include "base/text/base64.h"
#include "base/text/json.h"

/* Keys that stand there twice are written once, with their last value, as a protobuf parser reads them. Maps are small; a larger
 * one than this is written as it stands. */
enum { PAIRS_MAX = 64 };

static bool comes_again(tide_record_cursor rest, tide_view key)
{
    tide_view other;
    tide_view value;
    while (tide_record_next_pair(&rest, &other, &value))
        if (tide_view_equal(key, other))
            return true;
    return false;
}

static tide_status append_map(tide_buffer *out, const tide_stream_type *type, int column,
                              const tide_record_value *value)
{
    tide_record_cursor cursor = tide_record_cursor_of(type, column, value);
    tide_view key;
    tide_view text;
    char separator = '{';
    while (tide_record_next_pair(&cursor, &key, &text)) {
        if (value->count <= PAIRS_MAX && comes_again(cursor, key))
            continue;
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)separator));
        TIDE_TRY(tide_json_append_string(out, key));
        TIDE_TRY(tide_buffer_append_byte(out, ':'));
        TIDE_TRY(tide_json_append_string(out, text));
        separator = ',';
    }
    return tide_buffer_append_text(out, separator == '{' ? "{}" : "}");
}

static tide_status append_ids(tide_buffer *out, const tide_stream_type *type, int column,
                              const tide_record_value *value)
{
    tide_record_cursor cursor = tide_record_cursor_of(type, column, value);
    uint64_t id = 0;
    char separator = '[';
    while (tide_record_next_id(&cursor, &id)) {
        TIDE_TRY(tide_buffer_printf(out, "%c%" PRIu64, separator, id));
        separator = ',';
    }
    return tide_buffer_append_text(out, separator == '[' ? "[]" : "]");
}

static tide_status append_base64(tide_buffer *out, tide_view bytes)
{
    TIDE_TRY(tide_buffer_append_byte(out, '"'));
    TIDE_TRY(tide_base64_encode(out, bytes, true));
    return tide_buffer_append_byte(out, '"');
}

tide_status tide_record_value_json(tide_buffer *out, const tide_stream_type *type, int column,
                                   const tide_record_value *value)
{
    switch (type->columns[column].kind) {
    case TIDE_COLUMN_I64:
    case TIDE_COLUMN_I32:
        return tide_buffer_printf(out, "%" PRId64, value->i64);
    case TIDE_COLUMN_U64:
        return tide_buffer_printf(out, "%" PRIu64, value->u64);
    case TIDE_COLUMN_F64:
        return tide_json_append_double(out, value->f64);
    case TIDE_COLUMN_BOOL:
        return tide_buffer_append_text(out, value->i64 ? "true" : "false");
    case TIDE_COLUMN_TEXT:
        return tide_json_append_string(out, value->bytes);
    case TIDE_COLUMN_BLOB:
        return append_base64(out, value->bytes);
    case TIDE_COLUMN_MAP:
        return append_map(out, type, column, value);
    case TIDE_COLUMN_IDS:
        return append_ids(out, type, column, value);
    }
    return TIDE_E_INVALID;
}

tide_status tide_record_row_json(tide_buffer *out, const tide_stream_type *type,
                                 const tide_record_row *row)
{
    TIDE_TRY(tide_buffer_printf(out, "{\"seq_id\":%" PRId64, row->seq));
    for (int i = 0; i < type->column_count; i++) {
        TIDE_TRY(tide_buffer_printf(out, ",\"%s\":", type->columns[i].name));
        TIDE_TRY(tide_record_value_json(out, type, i, &row->values[i]));
    }
    return tide_buffer_append_byte(out, '}');
}
