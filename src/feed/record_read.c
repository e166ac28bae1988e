/* record_read.c - the columns of a record that somebody stored. See record.h. */
#include "feed/record.h"

#include <assert.h>
#include <string.h>

#include "base/bytes/protobuf_fields.h"
#include "base/text/utf8.h"

static tide_status next_field(tide_reader *reader, tide_wire_field *out)
{
    return tide_wire_next(reader, out, NULL) == TIDE_OK ? TIDE_OK : TIDE_E_DAMAGED;
}

static tide_status read_pair(tide_view entry, tide_view *key, tide_view *value)
{
    *key = tide_view_of("");
    *value = tide_view_of("");
    tide_reader reader = tide_reader_of(entry);
    while (tide_reader_left(&reader) > 0) {
        tide_wire_field f;
        TIDE_TRY(next_field(&reader, &f));
        if (f.number > 2)
            continue;
        if (f.type != TIDE_WIRE_BYTES)
            return TIDE_E_DAMAGED;
        *(f.number == 1 ? key : value) = f.bytes;
    }
    return TIDE_OK;
}

/* From the first occurrence to the end of this one: the cursor passes over what stands between. */
static void stretch(tide_record_value *value, tide_view occurrence)
{
    if (value->bytes.len == 0)
        value->bytes.ptr = occurrence.ptr;
    value->bytes.len = (size_t)(occurrence.ptr + occurrence.len - value->bytes.ptr);
}

static tide_status read_map(const tide_wire_field *f, tide_record_value *value)
{
    tide_view key;
    tide_view text;
    if (f->type != TIDE_WIRE_BYTES)
        return TIDE_E_DAMAGED;
    TIDE_TRY(read_pair(f->bytes, &key, &text));
    stretch(value, f->all);
    value->count++;
    return TIDE_OK;
}

static tide_status read_ids(const tide_wire_field *f, tide_record_value *value)
{
    if (f->type != TIDE_WIRE_BYTES && f->type != TIDE_WIRE_VARINT)
        return TIDE_E_DAMAGED;
    int count = 1;
    if (f->type == TIDE_WIRE_BYTES) {
        tide_reader packed = tide_reader_of(f->bytes);
        uint64_t id = 0;
        for (count = 0; tide_reader_left(&packed) > 0; count++)
            TIDE_TRY(tide_reader_varint(&packed, &id));
    }
    stretch(value, f->all);
    value->count += count;
    return TIDE_OK;
}

static tide_status read_value(tide_column_kind kind, const tide_wire_field *f,
                              tide_record_value *value)
{
    switch (kind) {
    case TIDE_COLUMN_I64:
    case TIDE_COLUMN_U64:
        value->u64 = f->value;
        return f->type == TIDE_WIRE_VARINT ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_I32:
        value->i64 = (int32_t)(uint32_t)f->value;
        return f->type == TIDE_WIRE_VARINT ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_BOOL:
        value->i64 = f->value != 0;
        return f->type == TIDE_WIRE_VARINT ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_F64:
        memcpy(&value->f64, &f->value, sizeof value->f64);
        return f->type == TIDE_WIRE_FIXED64 ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_TEXT:
    case TIDE_COLUMN_BLOB:
        value->bytes = f->bytes;
        return f->type == TIDE_WIRE_BYTES ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_MAP:
        return read_map(f, value);
    case TIDE_COLUMN_IDS:
        return read_ids(f, value);
    }
    return TIDE_E_DAMAGED;
}

static int find_column(const tide_stream_type *type, uint32_t number)
{
    for (int i = 0; i < type->column_count; i++)
        if (type->columns[i].field == number)
            return i;
    return -1;
}

tide_status tide_record_decode(const tide_stream_type *type, tide_view message,
                               tide_record_row *out)
{
    memset(out, 0, sizeof *out);
    tide_reader reader = tide_reader_of(message);
    while (tide_reader_left(&reader) > 0) {
        tide_wire_field f;
        TIDE_TRY(next_field(&reader, &f));
        if (f.number == type->seq_field) {
            if (f.type != TIDE_WIRE_VARINT || f.value > INT64_MAX)
                return TIDE_E_DAMAGED;
            out->seq = (int64_t)f.value;
            continue;
        }
        const int column = find_column(type, f.number);
        if (column >= 0)
            TIDE_TRY(read_value(type->columns[column].kind, &f, &out->values[column]));
    }
    return TIDE_OK;
}

tide_status tide_record_find(const tide_stream_type *type, tide_view message, int column,
                             tide_record_value *out)
{
    assert(column >= 0 && column < type->column_count);
    const tide_column *of = &type->columns[column];
    memset(out, 0, sizeof *out);
    tide_reader reader = tide_reader_of(message);
    while (tide_reader_left(&reader) > 0) {
        tide_wire_field f;
        TIDE_TRY(next_field(&reader, &f));
        if (f.number == of->field)
            TIDE_TRY(read_value(of->kind, &f, out));
    }
    return TIDE_OK;
}

tide_record_cursor tide_record_cursor_of(const tide_stream_type *type, int column,
                                         const tide_record_value *value)
{
    return (tide_record_cursor){
        .field = type->columns[column].field,
        .fields = tide_reader_of(value->bytes),
        .packed = tide_reader_of(tide_view_bytes(NULL, 0)),
    };
}

/* The next field of the cursor's number; false at the end. */
static bool next_occurrence(tide_record_cursor *cursor, tide_wire_field *f)
{
    while (tide_reader_left(&cursor->fields) > 0)
        if (next_field(&cursor->fields, f) != TIDE_OK)
            return false;
        else if (f->number == cursor->field)
            return true;
    return false;
}

bool tide_record_next_pair(tide_record_cursor *cursor, tide_view *key, tide_view *value)
{
    tide_wire_field f;
    return next_occurrence(cursor, &f) && read_pair(f.bytes, key, value) == TIDE_OK;
}

bool tide_record_next_id(tide_record_cursor *cursor, uint64_t *id)
{
    while (tide_reader_left(&cursor->packed) == 0) {
        tide_wire_field f;
        if (!next_occurrence(cursor, &f))
            return false;
        if (f.type == TIDE_WIRE_VARINT) {
            *id = f.value;
            return true;
        }
        cursor->packed = tide_reader_of(f.bytes);
    }
    return tide_reader_varint(&cursor->packed, id) == TIDE_OK;
}

/* ---- what readers may get ---- */

static tide_status check_text(const tide_column *column, tide_view text, tide_error *err)
{
    if (tide_utf8_valid(text))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID, "%s is not UTF-8 text without NUL", column->name);
}

static tide_status check_map(const tide_stream_type *type, int column,
                             const tide_record_value *value, tide_error *err)
{
    tide_record_cursor cursor = tide_record_cursor_of(type, column, value);
    tide_view key;
    tide_view text;
    while (tide_record_next_pair(&cursor, &key, &text)) {
        TIDE_TRY(check_text(&type->columns[column], key, err));
        TIDE_TRY(check_text(&type->columns[column], text, err));
    }
    return TIDE_OK;
}

tide_status tide_record_check(const tide_stream_type *type, const tide_record *record,
                              tide_error *err)
{
    tide_record_row row;
    if (record->bytes.len > TIDE_FEED_RECORD_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a record has at most %d bytes, this one %zu",
                         TIDE_FEED_RECORD_MAX, record->bytes.len);
    if (tide_record_decode(type, record->message, &row) != TIDE_OK || row.seq != record->seq)
        return tide_fail(err, TIDE_E_INVALID, "these bytes are no record of %s", type->name);
    for (int i = 0; i < type->column_count; i++) {
        if (type->columns[i].kind == TIDE_COLUMN_TEXT)
            TIDE_TRY(check_text(&type->columns[i], row.values[i].bytes, err));
        if (type->columns[i].kind == TIDE_COLUMN_MAP)
            TIDE_TRY(check_map(type, i, &row.values[i], err));
    }
    return TIDE_OK;
}
