/* record_read.c - the columns of a record that somebody stored. See record.h. */
#include "feed/record.h"

#include <assert.h>
#include <string.h>

#include "base/text/utf8.h"

enum {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
    FIELD_MAX = (1 << 29) - 1,
};

typedef struct field {
    uint32_t number;
    int wire;
    uint64_t value; /* varint, fixed */
    tide_view bytes;
    size_t begin; /* where its tag stands */
} field;

/* Groups are not in the language any more, and are refused with everything else that is no field. */
static tide_status next_field(tide_reader *reader, field *out)
{
    uint64_t tag = 0;
    out->begin = reader->offset;
    TIDE_TRY(tide_reader_varint(reader, &tag));
    if (tag >> 3 < 1 || tag >> 3 > FIELD_MAX)
        return TIDE_E_DAMAGED;
    out->number = (uint32_t)(tag >> 3);
    out->wire = (int)(tag & 7U);
    out->value = 0;
    out->bytes = tide_view_bytes(NULL, 0);
    if (out->wire == WIRE_VARINT)
        return tide_reader_varint(reader, &out->value);
    if (out->wire == WIRE_FIXED64)
        return tide_reader_u64(reader, &out->value);
    if (out->wire == WIRE_BYTES) {
        uint64_t len = 0;
        TIDE_TRY(tide_reader_varint(reader, &len));
        return len > tide_reader_left(reader) ? TIDE_E_DAMAGED
                                              : tide_reader_bytes(reader, (size_t)len, &out->bytes);
    }
    uint32_t fixed = 0;
    return out->wire == WIRE_FIXED32 ? tide_reader_u32(reader, &fixed) : TIDE_E_DAMAGED;
}

static tide_status read_pair(tide_view entry, tide_view *key, tide_view *value)
{
    *key = tide_view_of("");
    *value = tide_view_of("");
    tide_reader reader = tide_reader_of(entry);
    while (tide_reader_left(&reader) > 0) {
        field f;
        TIDE_TRY(next_field(&reader, &f));
        if (f.number > 2)
            continue;
        if (f.wire != WIRE_BYTES)
            return TIDE_E_DAMAGED;
        *(f.number == 1 ? key : value) = f.bytes;
    }
    return TIDE_OK;
}

/* From the first occurrence to the end of this one: the cursor passes over what stands between. */
static void stretch(tide_record_value *value, const tide_reader *reader, size_t begin)
{
    const char *base = reader->view.ptr;
    if (value->bytes.len == 0)
        value->bytes.ptr = base + begin;
    value->bytes.len = (size_t)(base + reader->offset - value->bytes.ptr);
}

static tide_status read_map(const field *f, const tide_reader *reader, tide_record_value *value)
{
    tide_view key;
    tide_view text;
    if (f->wire != WIRE_BYTES)
        return TIDE_E_DAMAGED;
    TIDE_TRY(read_pair(f->bytes, &key, &text));
    stretch(value, reader, f->begin);
    value->count++;
    return TIDE_OK;
}

static tide_status read_ids(const field *f, const tide_reader *reader, tide_record_value *value)
{
    if (f->wire != WIRE_BYTES && f->wire != WIRE_VARINT)
        return TIDE_E_DAMAGED;
    int count = 1;
    if (f->wire == WIRE_BYTES) {
        tide_reader packed = tide_reader_of(f->bytes);
        uint64_t id = 0;
        for (count = 0; tide_reader_left(&packed) > 0; count++)
            TIDE_TRY(tide_reader_varint(&packed, &id));
    }
    stretch(value, reader, f->begin);
    value->count += count;
    return TIDE_OK;
}

static tide_status read_value(tide_column_kind kind, const field *f, const tide_reader *reader,
                              tide_record_value *value)
{
    switch (kind) {
    case TIDE_COLUMN_I64:
    case TIDE_COLUMN_U64:
        value->u64 = f->value;
        return f->wire == WIRE_VARINT ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_I32:
        value->i64 = (int32_t)(uint32_t)f->value;
        return f->wire == WIRE_VARINT ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_BOOL:
        value->i64 = f->value != 0;
        return f->wire == WIRE_VARINT ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_F64:
        memcpy(&value->f64, &f->value, sizeof value->f64);
        return f->wire == WIRE_FIXED64 ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_TEXT:
    case TIDE_COLUMN_BLOB:
        value->bytes = f->bytes;
        return f->wire == WIRE_BYTES ? TIDE_OK : TIDE_E_DAMAGED;
    case TIDE_COLUMN_MAP:
        return read_map(f, reader, value);
    case TIDE_COLUMN_IDS:
        return read_ids(f, reader, value);
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
        field f;
        TIDE_TRY(next_field(&reader, &f));
        if (f.number == type->seq_field) {
            if (f.wire != WIRE_VARINT || f.value > INT64_MAX)
                return TIDE_E_DAMAGED;
            out->seq = (int64_t)f.value;
            continue;
        }
        const int column = find_column(type, f.number);
        if (column >= 0)
            TIDE_TRY(read_value(type->columns[column].kind, &f, &reader, &out->values[column]));
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
        field f;
        TIDE_TRY(next_field(&reader, &f));
        if (f.number == of->field)
            TIDE_TRY(read_value(of->kind, &f, &reader, out));
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
static bool next_occurrence(tide_record_cursor *cursor, field *f)
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
    field f;
    return next_occurrence(cursor, &f) && read_pair(f.bytes, key, value) == TIDE_OK;
}

bool tide_record_next_id(tide_record_cursor *cursor, uint64_t *id)
{
    while (tide_reader_left(&cursor->packed) == 0) {
        field f;
        if (!next_occurrence(cursor, &f))
            return false;
        if (f.wire == WIRE_VARINT) {
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
