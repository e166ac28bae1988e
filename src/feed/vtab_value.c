/* vtab_value.c - the columns of the row that a cursor stands at. See vtab_parts.h.
 *
 * A record is decoded when its first column is asked for, and once. Values are copied: SQLite may keep them longer than the batch
 * stays in memory. */
#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/timefmt.h"
#include "feed/vtab_parts.h"

static tide_status decode_row(tide_vtab_cursor *cursor)
{
    if (cursor->row_seq == cursor->seq)
        return TIDE_OK;
    cursor->row_seq = 0;
    const size_t offset = cursor->offsets[cursor->seq - cursor->open_first];
    tide_view rest = tide_view_bytes(cursor->raw.ptr + offset, cursor->raw.len - offset);
    tide_record record;
    const tide_status status = tide_record_next(cursor->table->type, &rest, &record);
    if (status != TIDE_OK)
        return TIDE_E_DAMAGED;
    TIDE_TRY(tide_record_decode(cursor->table->type, record.message, &cursor->row));
    cursor->row_seq = cursor->seq;
    return TIDE_OK;
}

static void put_json(tide_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    tide_buffer_clear(&cursor->text);
    const tide_status status = tide_record_value_json(&cursor->text, cursor->table->type, column,
                                                      &cursor->row.values[column]);
    if (status < TIDE_OK)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text64(context, tide_buffer_text(&cursor->text), cursor->text.len,
                              SQLITE_TRANSIENT, SQLITE_UTF8);
}

static void put_value(tide_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    const tide_record_value *value = &cursor->row.values[column];
    const char *bytes = value->bytes.len > 0 ? value->bytes.ptr : "";
    switch (cursor->table->type->columns[column].kind) {
    case TIDE_COLUMN_I64:
    case TIDE_COLUMN_I32:
    case TIDE_COLUMN_BOOL:
        sqlite3_result_int64(context, value->i64);
        break;
    case TIDE_COLUMN_U64:
        sqlite3_result_int64(context, (sqlite3_int64)value->u64);
        break;
    case TIDE_COLUMN_F64:
        sqlite3_result_double(context, value->f64);
        break;
    case TIDE_COLUMN_TEXT:
        sqlite3_result_text64(context, bytes, value->bytes.len, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case TIDE_COLUMN_BLOB:
        sqlite3_result_blob64(context, bytes, value->bytes.len, SQLITE_TRANSIENT);
        break;
    case TIDE_COLUMN_MAP:
    case TIDE_COLUMN_IDS:
        put_json(cursor, context, column);
        break;
    }
}

static void put_record_column(tide_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    if (decode_row(cursor) == TIDE_OK) {
        put_value(cursor, context, column);
        return;
    }
    char *words = sqlite3_mprintf("%s: record %lld cannot be read", cursor->table->stream,
                                  (long long)cursor->seq);
    sqlite3_result_error(context, words ? words : "a record cannot be read", -1);
    sqlite3_result_error_code(context, SQLITE_CORRUPT_VTAB);
    sqlite3_free(words);
}

static void put_arrival(const tide_vtab_cursor *cursor, sqlite3_context *context)
{
    char text[TIDE_TIME_TEXT_SIZE];
    if (tide_time_format(cursor->head.arrived_us, text) == TIDE_OK)
        sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

int tide_vtab_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    tide_vtab_cursor *cursor = (tide_vtab_cursor *)base;
    const int record_columns = cursor->table->type->column_count;
    if (column >= 1 && column <= record_columns) {
        put_record_column(cursor, context, column - 1);
        return SQLITE_OK;
    }
    switch (column - record_columns) {
    case TIDE_VTAB_ARRIVED_AT:
        put_arrival(cursor, context);
        break;
    case TIDE_VTAB_EPOCH:
        sqlite3_result_int64(context, cursor->head.epoch);
        break;
    case TIDE_VTAB_BATCH_ID:
        sqlite3_result_int64(context, cursor->head.id);
        break;
    case TIDE_VTAB_SKIP_DAMAGED:
        sqlite3_result_int(context, cursor->scan.skips_damaged);
        break;
    default:
        sqlite3_result_int64(context, cursor->seq);
    }
    return SQLITE_OK;
}

/* Statements of the catalogue, prepared on a connection that is not ours. See vtab_parts.h.
 *
 * Every table of vtab.sql is written `main.<table>`. For another schema its quoted name takes the place of `main`. That is the one place
 * where a statement's text is made from parts: schemas cannot be bound. */

enum { TEXT_MAX = 16384 };

static const char MAIN[] = "main.";

/* "name", with its quotes doubled. */
static tide_status append_name(tide_buffer *out, const char *name)
{
    TIDE_TRY(tide_buffer_append_byte(out, '"'));
    for (; *name; name++) {
        if (*name == '"')
            TIDE_TRY(tide_buffer_append_byte(out, '"'));
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)*name));
    }
    return tide_buffer_append_text(out, "\".");
}

static tide_status append_for_schema(tide_buffer *out, const char *text, const char *schema)
{
    const char *at = NULL;
    while ((at = strstr(text, MAIN)) != NULL) {
        TIDE_TRY(tide_buffer_append(out, text, (size_t)(at - text)));
        TIDE_TRY(append_name(out, schema));
        text = at + sizeof MAIN - 1;
    }
    return tide_buffer_append_text(out, text);
}

int tide_vtab_prepare(sqlite3_stmt **out, sqlite3 *db, const tide_sql *sql, const char *schema)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TEXT_MAX);
    if (append_for_schema(&text, sql->engine[TIDE_ENGINE_SQLITE].text, schema) < TIDE_OK)
        return SQLITE_NOMEM;
    return sqlite3_prepare_v2(db, tide_buffer_text(&text), -1, out, NULL);
}

tide_status tide_vtab_replace(tide_buffer *out, const tide_sql *sql, const char *word,
                              const char *other)
{
    const char *text = sql->engine[TIDE_ENGINE_SQLITE].text;
    const char *at = strstr(text, word);
    assert(at);
    TIDE_TRY(tide_buffer_append(out, text, (size_t)(at - text)));
    TIDE_TRY(tide_buffer_append_text(out, other));
    return tide_buffer_append_text(out, at + strlen(word));
}

int tide_vtab_param(const tide_sql *sql, const char *name)
{
    const tide_sql_text *text = &sql->engine[TIDE_ENGINE_SQLITE];
    int place = 0;
    while (place < text->param_count && strcmp(text->params[place], name) != 0)
        place++;
    assert(place < text->param_count);
    return place + 1;
}

void tide_vtab_finalizep(sqlite3_stmt **statement)
{
    (void)sqlite3_finalize(*statement);
}
