/* Records as rows of their type's table. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/timefmt.h"
#include "base/text/utf8.h"
#include "colony/rollup.h"
#include "colony/sink_duckdb.h"

enum { SCRATCH_MAX = 32 << 20 }; /* several times the largest record */

typedef struct row_writer {
    const tide_stream_type *type;
    tide_duck_appender *out;
    tide_buffer scratch;
    tide_buffer json;
    uint64_t *ids;
    size_t id_capacity;
    tide_rollup rollup;
    tide_arena cleaned; /* texts that were not valid, and what refers to them */
} row_writer;

static void row_writer_done(row_writer *writer)
{
    tide_duck_append_dropp(&writer->out);
    tide_buffer_done(&writer->scratch);
    tide_buffer_done(&writer->json);
    tide_rollup_done(&writer->rollup);
    tide_arena_done(&writer->cleaned);
    free(writer->ids);
}

/* Times of records are milliseconds, and nobody has checked them: what no year has becomes the nearest time. */
static int64_t time_of(int64_t ms)
{
    if (ms > TIDE_TIME_MAX_US / 1000)
        return TIDE_TIME_MAX_US;
    if (ms < TIDE_TIME_MIN_US / 1000)
        return TIDE_TIME_MIN_US;
    return ms * 1000;
}

static tide_status put_text(row_writer *writer, tide_view text)
{
    if (tide_utf8_valid(text)) {
        tide_duck_put_text(writer->out, text);
        return TIDE_OK;
    }
    size_t replaced = 0;
    tide_buffer_clear(&writer->scratch);
    TIDE_TRY(tide_utf8_clean(&writer->scratch, text, &replaced));
    tide_duck_put_text(writer->out, tide_buffer_view(&writer->scratch));
    return TIDE_OK;
}

static tide_status put_map(row_writer *writer, int column, const tide_record_value *value)
{
    if (value->count == 0) {
        tide_duck_put_text(writer->out, tide_view_of("{}"));
        return TIDE_OK;
    }
    tide_buffer_clear(&writer->json);
    TIDE_TRY(tide_record_value_json(&writer->json, writer->type, column, value));
    return put_text(writer, tide_buffer_view(&writer->json));
}

static tide_status put_ids(row_writer *writer, int column, const tide_record_value *value)
{
    const size_t want = (size_t)value->count;
    if (want > writer->id_capacity) {
        TIDE_TRY(tide_list_resize(&writer->ids, want, sizeof *writer->ids, NULL));
        writer->id_capacity = want;
    }
    tide_record_cursor cursor = tide_record_cursor_of(writer->type, column, value);
    int count = 0;
    while (count < value->count && tide_record_next_id(&cursor, &writer->ids[count]))
        count++;
    tide_duck_put_ids(writer->out, writer->ids, count);
    return TIDE_OK;
}

static tide_status put_value(row_writer *writer, int column, const tide_record_value *value)
{
    switch (writer->type->columns[column].kind) {
    case TIDE_COLUMN_I64:
        if (column == writer->type->time_column)
            tide_duck_put_time(writer->out, time_of(value->i64));
        else
            tide_duck_put_i64(writer->out, value->i64);
        return TIDE_OK;
    case TIDE_COLUMN_I32:
        tide_duck_put_i64(writer->out, value->i64);
        return TIDE_OK;
    case TIDE_COLUMN_U64:
        tide_duck_put_u64(writer->out, value->u64);
        return TIDE_OK;
    case TIDE_COLUMN_F64:
        tide_duck_put_f64(writer->out, value->f64);
        return TIDE_OK;
    case TIDE_COLUMN_BOOL:
        tide_duck_put_bool(writer->out, value->i64 != 0);
        return TIDE_OK;
    case TIDE_COLUMN_TEXT:
        return put_text(writer, value->bytes);
    case TIDE_COLUMN_BLOB:
        tide_duck_put_blob(writer->out, value->bytes);
        return TIDE_OK;
    case TIDE_COLUMN_MAP:
        return put_map(writer, column, value);
    case TIDE_COLUMN_IDS:
        return put_ids(writer, column, value);
    }
    return TIDE_E_FAILED;
}

/* The name under which a row is rolled up; it outlives the row. */
static tide_status service_of(row_writer *writer, const tide_record_row *row, tide_view *out)
{
    const int column = writer->type->service_column;
    *out = column >= 0 ? row->values[column].bytes : tide_view_of("");
    if (tide_utf8_valid(*out))
        return TIDE_OK;
    size_t replaced = 0;
    tide_buffer_clear(&writer->scratch);
    TIDE_TRY(tide_utf8_clean(&writer->scratch, *out, &replaced));
    const tide_view clean = tide_buffer_view(&writer->scratch);
    const char *copy = tide_arena_text(&writer->cleaned, clean);
    *out = tide_view_bytes(copy, clean.len);
    return copy ? TIDE_OK : TIDE_E_NOMEM;
}

static tide_status roll_up(row_writer *writer, const tide_record_row *row, tide_error *err)
{
    if (!tide_rollup_has(writer->type->kind))
        return TIDE_OK;
    tide_view service;
    if (service_of(writer, row, &service) < TIDE_OK)
        return tide_no_memory(err);
    const int64_t time_us = time_of(row->values[writer->type->time_column].i64);
    return tide_rollup_add(&writer->rollup, row, service, time_us, err);
}

static tide_status put_record(row_writer *writer, const tide_position *position,
                              const tide_reply_record *record, int64_t now_us, tide_error *err)
{
    tide_record_row row;
    if (tide_record_decode(writer->type, record->message, &row) < TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "record %" PRId64 " cannot be decoded", record->seq);
    tide_duck_put_text(writer->out, tide_view_of(position->agent_id));
    if (writer->type->kind == TIDE_STREAM_OPAQUE)
        tide_duck_put_text(writer->out, tide_view_of(position->data_type));
    tide_duck_put_text(writer->out, tide_view_of(position->session_id));
    tide_duck_put_i64(writer->out, position->epoch);
    tide_duck_put_i64(writer->out, record->seq);
    for (int column = 0; column < writer->type->column_count; column++)
        if (put_value(writer, column, &row.values[column]) < TIDE_OK)
            return tide_no_memory(err);
    tide_duck_put_time(writer->out, now_us);
    tide_duck_end_row(writer->out);
    return roll_up(writer, &row, err);
}

static tide_status put_rollups(row_writer *writer, tide_duck *duck, const tide_position *position,
                               tide_error *err)
{
    if (writer->rollup.count == 0)
        return TIDE_OK;
    TIDE_TRY(tide_duck_append_begin(&writer->out, duck, "rollup_rows", err));
    for (int i = 0; i < writer->rollup.count; i++) {
        const tide_rollup_entry *entry = &writer->rollup.entries[i];
        tide_duck_put_text(writer->out, tide_view_of(position->data_type));
        tide_duck_put_time(writer->out, entry->minute_us);
        tide_duck_put_text(writer->out, tide_view_of(position->agent_id));
        tide_duck_put_text(writer->out, entry->service);
        tide_duck_put_i64(writer->out, entry->bucket);
        tide_duck_put_i64(writer->out, entry->count);
        tide_duck_put_i64(writer->out, entry->errors);
        tide_duck_end_row(writer->out);
    }
    return tide_duck_append_end(&writer->out, err);
}

void tide_duck_rows_table(char out[TIDE_DUCK_TABLE_SIZE], const tide_colony_type *type)
{
    (void)snprintf(out, TIDE_DUCK_TABLE_SIZE, "%s_rows", type->table);
}

tide_status tide_duck_put_records(tide_duck *duck, const tide_position *position,
                                  const tide_change *change, int64_t now_us, tide_error *err)
{
    const tide_colony_type *type = tide_colony_type_find(position->data_type);
    TIDE_CLEANUP(row_writer_done) row_writer writer = {.type = type->stream};
    tide_buffer_init(&writer.scratch, SCRATCH_MAX);
    tide_buffer_init(&writer.json, SCRATCH_MAX);
    tide_rollup_init(&writer.rollup, type->stream);
    tide_arena_init(&writer.cleaned, SCRATCH_MAX);
    char table[TIDE_DUCK_TABLE_SIZE];
    tide_duck_rows_table(table, type);
    TIDE_TRY(tide_duck_append_begin(&writer.out, duck, table, err));
    for (int i = 0; i < change->row_count; i++)
        TIDE_TRY(put_record(&writer, position, change->rows[i], now_us, err));
    TIDE_TRY(tide_duck_append_end(&writer.out, err));
    return change->is_repair ? TIDE_OK : put_rollups(&writer, duck, position, err);
}
