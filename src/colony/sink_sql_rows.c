/* sink_sql_rows.c - records as rows, and what comes with them: dead letters, frames, batch, rollup. See sink_sql.h. */
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/timefmt.h"
#include "base/text/utf8.h"
#include "colony/rollup.h"
#include "colony/sink_sql.h"
#include "store/bulk.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    LIST_LEN_MAX = 4 << 20,   /* bytes of a JSON list; more go in several statements */
    NUMBERLESS_MAX = 100,     /* dead letters without a number that one change keeps */
    ROW_EXTRA = 2,            /* source_id, seq_id */
    TEXT_LEN_MAX = 256 << 20, /* of what is made of one row's values */
    PLAIN_PAIRS_MAX = 32,
};

static const tide_sql *statement_of(tide_stream_kind kind)
{
    const tide_sql *const statements[TIDE_STREAM_COUNT] = {
        [TIDE_STREAM_TELEMETRY] = TIDE_SQL_SPANS_PUT,
        [TIDE_STREAM_SYSTEM_METRICS] = TIDE_SQL_SYSTEM_METRICS_PUT,
        [TIDE_STREAM_BEYLA_HTTP] = TIDE_SQL_EBPF_HTTP_METRICS_PUT,
        [TIDE_STREAM_BEYLA_GRPC] = TIDE_SQL_EBPF_GRPC_METRICS_PUT,
        [TIDE_STREAM_BEYLA_SQL] = TIDE_SQL_EBPF_SQL_METRICS_PUT,
        [TIDE_STREAM_BEYLA_TRACES] = TIDE_SQL_EBPF_TRACES_PUT,
        [TIDE_STREAM_CPU_PROFILE] = TIDE_SQL_CPU_PROFILE_SAMPLES_PUT,
        [TIDE_STREAM_MEMORY_PROFILE] = TIDE_SQL_MEMORY_PROFILE_SAMPLES_PUT,
        [TIDE_STREAM_LOGS] = TIDE_SQL_LOGS_PUT,
        [TIDE_STREAM_LOSS_RECEIPTS] = TIDE_SQL_LOSS_RECEIPTS_PUT,
        [TIDE_STREAM_OPAQUE] = TIDE_SQL_RECORDS_PUT,
    };
    return statements[kind];
}

/* ---- one row ---- */

/* What the values of a row are made into; views into it are set when it no longer grows. */
typedef struct row_maker {
    const tide_stream_type *type;
    tide_record_row row;
    tide_sql_value values[TIDE_RECORD_COLUMNS_MAX + ROW_EXTRA];
    size_t offsets[TIDE_RECORD_COLUMNS_MAX + ROW_EXTRA]; /* in text; SIZE_MAX: not there */
    tide_buffer text;
    tide_arena names; /* services that had to be cleaned: they outlive their row */
    int64_t time_us;
} row_maker;

static void end_maker(row_maker *maker)
{
    tide_buffer_done(&maker->text);
    tide_arena_done(&maker->names);
}

static int64_t time_of(int64_t ms)
{
    if (ms < TIDE_TIME_MIN_US / 1000)
        return TIDE_TIME_MIN_US;
    return ms > TIDE_TIME_MAX_US / 1000 ? TIDE_TIME_MAX_US : ms * 1000;
}

/* Numbers of records that an agent lost have a sign in every engine; hashes have none. */
static int64_t number_of(const tide_stream_type *type, uint64_t number)
{
    if (type->kind == TIDE_STREAM_LOSS_RECEIPTS && number > INT64_MAX)
        return INT64_MAX;
    int64_t bits = 0;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static tide_status make_text(row_maker *maker, int column, tide_view text)
{
    size_t replaced = 0;
    tide_sql_value *value = &maker->values[column + ROW_EXTRA];
    *value = (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = text};
    if (tide_utf8_valid(text))
        return TIDE_OK;
    maker->offsets[column + ROW_EXTRA] = maker->text.len;
    TIDE_TRY(tide_utf8_clean(&maker->text, text, &replaced));
    value->bytes.len = maker->text.len - maker->offsets[column + ROW_EXTRA];
    return TIDE_OK;
}

/* Attributes are most of a row, and nearly all of them are letters and digits that JSON takes as they are. Anything else is left to the
 * general writer; the outcome is the same. */
static bool is_plain(tide_view text)
{
    unsigned odd = 0;
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        odd |= (unsigned)(c < 0x20) | (unsigned)(c > 0x7e) | (unsigned)(c == '"') |
               (unsigned)(c == '\\');
    }
    return odd == 0;
}

static void add_quoted(tide_buffer *out, tide_view text, char behind)
{
    char *at = out->ptr + out->len;
    *at++ = '"';
    if (text.len > 0)
        memcpy(at, text.ptr, text.len);
    at[text.len] = '"';
    at[text.len + 1] = behind;
    out->len += text.len + 3;
}

static bool is_among(const tide_view *keys, int count, tide_view key)
{
    for (int i = 0; i < count; i++)
        if (tide_view_equal(keys[i], key))
            return true;
    return false;
}

/* False: not one of the simple ones; out is to be cut back. */
static bool make_plain_map(row_maker *maker, int column, const tide_record_value *from)
{
    tide_view keys[PLAIN_PAIRS_MAX];
    tide_view key;
    tide_view value;
    int count = 0;
    tide_buffer *out = &maker->text;
    if (from->count < 1 || from->count > PLAIN_PAIRS_MAX ||
        tide_buffer_append_byte(out, '{') < TIDE_OK)
        return false;
    tide_record_cursor cursor = tide_record_cursor_of(maker->type, column, from);
    while (tide_record_next_pair(&cursor, &key, &value)) {
        if (count == PLAIN_PAIRS_MAX || !is_plain(key) || !is_plain(value) ||
            is_among(keys, count, key) ||
            tide_buffer_reserve(out, key.len + value.len + 6) < TIDE_OK)
            return false;
        keys[count++] = key;
        add_quoted(out, key, ':');
        add_quoted(out, value, ',');
    }
    out->ptr[out->len - 1] = '}';
    return count > 0;
}

static tide_status make_json(row_maker *maker, int column, const tide_record_value *from)
{
    tide_sql_value *value = &maker->values[column + ROW_EXTRA];
    const size_t begin = maker->text.len;
    maker->offsets[column + ROW_EXTRA] = begin;
    const bool is_map = maker->type->columns[column].kind == TIDE_COLUMN_MAP;
    if (!is_map || !make_plain_map(maker, column, from)) {
        tide_buffer_truncate(&maker->text, begin);
        TIDE_TRY(tide_record_value_json(&maker->text, maker->type, column, from));
    }
    *value = (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT,
                              .bytes.len = maker->text.len - maker->offsets[column + ROW_EXTRA]};
    return TIDE_OK;
}

static tide_status make_value(row_maker *maker, int column)
{
    const tide_record_value *from = &maker->row.values[column];
    tide_sql_value *value = &maker->values[column + ROW_EXTRA];
    if (column == maker->type->time_column) {
        maker->time_us = time_of(from->i64);
        *value = (tide_sql_value){.kind = TIDE_SQL_VALUE_TIME, .i64 = maker->time_us};
        return TIDE_OK;
    }
    switch (maker->type->columns[column].kind) {
    case TIDE_COLUMN_I64:
    case TIDE_COLUMN_I32:
        *value = (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = from->i64};
        return TIDE_OK;
    case TIDE_COLUMN_U64:
        *value =
            (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = number_of(maker->type, from->u64)};
        return TIDE_OK;
    case TIDE_COLUMN_F64:
        *value = (tide_sql_value){.kind = TIDE_SQL_VALUE_F64, .f64 = from->f64};
        return TIDE_OK;
    case TIDE_COLUMN_BOOL:
        *value = (tide_sql_value){.kind = TIDE_SQL_VALUE_BOOL, .i64 = from->i64};
        return TIDE_OK;
    case TIDE_COLUMN_BLOB:
        *value = (tide_sql_value){.kind = TIDE_SQL_VALUE_BLOB, .bytes = from->bytes};
        return TIDE_OK;
    case TIDE_COLUMN_TEXT:
        return make_text(maker, column, from->bytes);
    case TIDE_COLUMN_MAP:
    case TIDE_COLUMN_IDS:
        return make_json(maker, column, from);
    }
    return TIDE_E_INVALID;
}

static tide_status make_row(row_maker *maker, const tide_reply_record *record, tide_error *err)
{
    const int count = maker->type->column_count;
    if (tide_record_decode(maker->type, record->message, &maker->row) < TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "record %" PRId64 " is no record of %s", record->seq,
                         maker->type->name);
    tide_buffer_clear(&maker->text);
    maker->values[1] = (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = record->seq};
    for (int i = 0; i < count; i++) {
        maker->offsets[i + ROW_EXTRA] = SIZE_MAX;
        const tide_status status = make_value(maker, i);
        if (status < TIDE_OK)
            return tide_fail(err, status, "no room for record %" PRId64 " of %s", record->seq,
                             maker->type->name);
    }
    for (int i = 0; i < count; i++)
        if (maker->offsets[i + ROW_EXTRA] != SIZE_MAX)
            maker->values[i + ROW_EXTRA].bytes.ptr =
                maker->text.ptr + maker->offsets[i + ROW_EXTRA];
    return TIDE_OK;
}

/* The service as it was stored: a copy, where that is not what the record says. */
static tide_status add_to_rollup(tide_rollup *rollup, row_maker *maker, tide_error *err)
{
    const int column = maker->type->service_column;
    tide_view service = tide_view_of("");
    if (column >= 0) {
        service = maker->values[column + ROW_EXTRA].bytes;
        if (maker->offsets[column + ROW_EXTRA] != SIZE_MAX) {
            service.ptr = tide_arena_copy(&maker->names, service.ptr, service.len);
            TIDE_NEED_MEMORY(service.ptr, err);
        }
    }
    return tide_rollup_add(rollup, &maker->row, service, maker->time_us, err);
}

/* ---- rows ---- */

static tide_status copy_rows(tide_tx *tx, const tide_change *change, const tide_stream_type *type,
                             int64_t source_id, row_maker *maker, tide_rollup *rollup,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_bulk_dropp) tide_bulk *bulk = NULL;
    const int width = type->column_count + ROW_EXTRA;
    TIDE_TRY(tide_bulk_begin(&bulk, tx, statement_of(type->kind), err));
    maker->values[0] = (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = source_id};
    for (int i = 0; i < change->row_count; i++) {
        TIDE_TRY(make_row(maker, change->rows[i], err));
        TIDE_TRY(tide_bulk_row(bulk, maker->values, width, err));
        if (tide_rollup_has(type->kind))
            TIDE_TRY(add_to_rollup(rollup, maker, err));
    }
    return tide_bulk_end(&bulk, NULL, err);
}

static tide_status send_buckets(tide_tx *tx, const tide_position *of, tide_buffer *list,
                                tide_error *err)
{
    return tide_tx_defer(tx, TIDE_SQL_ROLLUP_PUT, err, tide_bind_text("data_type", of->data_type),
                         tide_bind_text("agent_id", of->agent_id),
                         tide_bind_view("buckets", tide_buffer_view(list)));
}

static tide_status add_bucket(tide_buffer *list, const tide_rollup_entry *entry)
{
    char minute[TIDE_TIME_TEXT_SIZE];
    TIDE_TRY(tide_time_format(entry->minute_us, minute));
    TIDE_TRY(tide_buffer_printf(list, "%s[\"%s\",", list->len > 0 ? "," : "[", minute));
    TIDE_TRY(tide_json_append_string(list, entry->service));
    return tide_buffer_printf(list, ",%d,%" PRId64 ",%" PRId64 "]", entry->bucket, entry->count,
                              entry->errors);
}

static tide_status put_rollup(tide_tx *tx, const tide_position *of, tide_rollup *rollup,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer list = tide_buffer_of(2 * (size_t)LIST_LEN_MAX);
    tide_rollup_sort(rollup);
    for (int i = 0; i < rollup->count; i++) {
        tide_status status = add_bucket(&list, &rollup->entries[i]);
        const bool is_last = i + 1 == rollup->count;
        if (status >= TIDE_OK && (is_last || list.len >= LIST_LEN_MAX)) {
            status = tide_buffer_append_byte(&list, ']');
            if (status >= TIDE_OK)
                TIDE_TRY(send_buckets(tx, of, &list, err));
            tide_buffer_clear(&list);
        }
        TIDE_TRY(tide_buffer_check(status, err));
    }
    return TIDE_OK;
}

static tide_status put_batch(tide_tx *tx, const tide_change *change, const tide_position *of,
                             int64_t source_id, int64_t now_us, tide_error *err)
{
    const int64_t last = change->rows[change->row_count - 1]->seq;
    const unsigned char *digest = tide_position_digest(of, last);
    return tide_tx_defer(
        tx, TIDE_SQL_BATCH_PUT, err, tide_bind_i64("source_id", source_id),
        tide_bind_text("target", tide_colony_type_find(of->data_type)->table),
        tide_bind_i64("first", change->rows[0]->seq), tide_bind_i64("last", last),
        tide_bind_i64("rows", change->row_count), tide_bind_time("now", now_us),
        TIDE_BIND_IF(digest,
                     tide_bind_blob("chain", tide_view_bytes(digest, TIDE_FEED_DIGEST_SIZE))));
}

/* ---- dead letters ---- */

static tide_status put_dead(tide_tx *tx, const tide_change *change, int64_t source_id,
                            int64_t now_us, tide_error *err)
{
    int numberless = 0;
    TIDE_CLEANUP(tide_bulk_dropp) tide_bulk *bulk = NULL;
    TIDE_TRY(tide_bulk_begin(&bulk, tx, TIDE_SQL_DEAD_LETTER_PUT, err));
    for (int i = 0; i < change->dead_count; i++) {
        const tide_dead_letter *letter = &change->dead[i];
        if (letter->seq == 0 && numberless++ >= NUMBERLESS_MAX)
            continue;
        const tide_sql_value row[] = {
            {.kind = TIDE_SQL_VALUE_I64, .i64 = source_id},
            {.kind = TIDE_SQL_VALUE_I64, .i64 = letter->seq},
            {.kind = TIDE_SQL_VALUE_TEXT,
             .bytes = tide_view_of(letter->reason ? letter->reason : "")},
            {.kind = TIDE_SQL_VALUE_BLOB, .bytes = letter->bytes},
            {.kind = TIDE_SQL_VALUE_TIME, .i64 = now_us},
        };
        TIDE_TRY(tide_bulk_row(bulk, row, (int)(sizeof row / sizeof row[0]), err));
    }
    return tide_bulk_end(&bulk, NULL, err);
}

/* ---- frames ---- */

static tide_status send_frames(tide_tx *tx, const tide_position *of, tide_buffer *list,
                               tide_error *err)
{
    return tide_tx_defer(tx, TIDE_SQL_FRAME_PUT, err, tide_bind_text("agent_id", of->agent_id),
                         tide_bind_text("session_id", of->session_id),
                         tide_bind_view("frames", tide_buffer_view(list)));
}

static tide_status add_frame(tide_buffer *list, const tide_reply_frame *frame)
{
    int64_t id = 0;
    memcpy(&id, &frame->id, sizeof id);
    TIDE_TRY(tide_buffer_printf(list, "%s[%" PRId64 ",", list->len > 0 ? "," : "[", id));
    TIDE_TRY(tide_json_append_string(list, frame->name));
    return tide_buffer_append_byte(list, ']');
}

static tide_status put_frames(tide_tx *tx, const tide_change *change, const tide_position *of,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer list = tide_buffer_of(TIDE_TX_BYTES_MAX / 2);
    for (int i = 0; i < change->frame_count; i++) {
        tide_status status = add_frame(&list, &change->frames[i]);
        const bool is_last = i + 1 == change->frame_count;
        if (status >= TIDE_OK && (is_last || list.len >= LIST_LEN_MAX)) {
            status = tide_buffer_append_byte(&list, ']');
            if (status >= TIDE_OK)
                TIDE_TRY(send_frames(tx, of, &list, err));
            tide_buffer_clear(&list);
        }
        if (status < TIDE_OK)
            return tide_fail(err, status, "no room for the names of %d frames",
                             change->frame_count);
    }
    return TIDE_OK;
}

tide_status tide_sink_sql_put_rows(tide_tx *tx, const tide_change *change, const tide_position *of,
                                   int64_t source_id, int64_t now_us, tide_error *err)
{
    const tide_stream_type *type = tide_colony_type_find(of->data_type)->stream;
    if (change->row_count > 0) {
        TIDE_CLEANUP(end_maker) row_maker maker = {.type = type};
        tide_buffer_init(&maker.text, TEXT_LEN_MAX);
        tide_arena_init(&maker.names, TIDE_TX_BYTES_MAX);
        TIDE_CLEANUP(tide_rollup_done) tide_rollup rollup;
        tide_rollup_init(&rollup, type);
        TIDE_TRY(copy_rows(tx, change, type, source_id, &maker, &rollup, err));
        if (!change->is_repair) {
            TIDE_TRY(put_rollup(tx, of, &rollup, err));
            TIDE_TRY(put_batch(tx, change, of, source_id, now_us, err));
        }
    }
    if (change->dead_count > 0)
        TIDE_TRY(put_dead(tx, change, source_id, now_us, err));
    return change->frame_count > 0 ? put_frames(tx, change, of, err) : TIDE_OK;
}
