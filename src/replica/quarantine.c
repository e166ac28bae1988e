#include "replica/quarantine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "replica/again.h"
#include "replica/conflict.h"
#include "replica/log.h"
#include "replica/references.h"
#include "replica/schemas.h"
#include "tidemark_templates.h"

static const char *const hold_names[] = {"", "table", "column", "key", "drift", "size", "null"};

/* ---- columns by name ---- */

static int key_place(const tide_table *table, int column)
{
    for (int i = 0; i < table->key_count; i++)
        if (table->key[i] == column)
            return i;
    return -1;
}

static int compare_columns(const void *a, const void *b)
{
    const tide_event_column *x = a;
    const tide_event_column *y = b;
    return (x->column > y->column) - (x->column < y->column);
}

static bool has_column(const tide_event *event, int count, int column)
{
    for (int i = 0; i < count; i++)
        if (event->columns[i].column == column)
            return true;
    return false;
}

/* A row that was created where a column was not known has that column's default: it is written like the others, so that an older write of that column
 * does not outlive the row that it was of. */
static tide_status add_defaults(tide_event *out, tide_desk *desk, const tide_table *table,
                                tide_error *err)
{
    const int given = out->column_count;
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, desk->tx, table, TIDE_TABLE_DEFAULTS, err);
    TIDE_TRY(tide_foreign_step(query, err));
    for (int i = 0; i < table->column_count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        if (key_place(table, i) >= 0 || has_column(out, given, i))
            continue;
        tide_event_column *column = &out->columns[out->column_count++];
        *column = (tide_event_column){.column = i, .is_made_up = true};
        TIDE_TRY(tide_desk_keep(&column->value, desk, &value, err));
    }
    return TIDE_OK;
}

/* The event in terms of our columns, without the key's. */
tide_status tide_quarantine_translate(tide_hold *why, tide_event *out, tide_desk *desk,
                                      const tide_table *table, const tide_event *event,
                                      tide_error *err)
{
    int map[TIDE_EVENT_COLUMNS_MAX]; /* of another schema; nearly all events have the table's own */
    const bool is_same = event->schema == table->schema;
    *why = TIDE_HOLD_COLUMN;
    if (!is_same) {
        TIDE_OK_IF_NONE(tide_schemas_map(map, desk->tx, table, event->schema, err));
    }
    tide_event_copy(out, event);
    TIDE_ALLOC(out->columns, (size_t)(event->column_count + table->column_count) + 1, err);
    out->column_count = 0;
    bool is_lost = false;
    for (int i = 0; i < event->column_count; i++) {
        tide_event_column column = event->columns[i];
        if (!is_same)
            column.column = map[column.column];
        else if (column.column >= table->column_count)
            column.column = TIDE_SCHEMA_COLUMN_NONE;
        if (column.column == TIDE_SCHEMA_COLUMN_DROPPED) {
            is_lost = true; /* nobody will ever see it here, but it was a write of this row */
            continue;
        }
        if (column.column < 0)
            return TIDE_OK;
        const int place = key_place(table, column.column);
        if (place < 0) {
            out->columns[out->column_count++] = column;
        } else if (event->kind != TIDE_ROW_DELETE &&
                   !tide_sql_value_equal(&column.value, &event->key[place])) {
            *why = TIDE_HOLD_KEY;
            return TIDE_OK;
        }
    }
    if (event->kind == TIDE_ROW_CREATE &&
        out->column_count + table->key_count < table->column_count)
        TIDE_TRY(add_defaults(out, desk, table, err));
    if (is_lost && event->kind == TIDE_ROW_UPDATE && !event->is_dismissal)
        out->columns[out->column_count++] = (tide_event_column){
            .column = TIDE_ROW_CLOCK_LOST, .value = {.kind = TIDE_SQL_VALUE_NULL}};
    if (out->column_count > 1)
        qsort(out->columns, (size_t)out->column_count, sizeof *out->columns, compare_columns);
    *why = TIDE_HOLD_NOT;
    return TIDE_OK;
}

/* ---- merging what may be merged ---- */

tide_status tide_quarantine_merge(tide_hold *why, tide_desk *desk, const tide_event *event,
                                  tide_error *err)
{
    const tide_table *table = tide_desk_table(desk, event->table);
    *why = TIDE_HOLD_TABLE;
    if (!table)
        return TIDE_OK;
    *why = TIDE_HOLD_KEY;
    if (event->key_count != table->key_count)
        return TIDE_OK;
    /* No key has NULL: a rowid would be made up for it, on each node another one. */
    for (int i = 0; i < event->key_count; i++)
        if (event->key[i].kind == TIDE_SQL_VALUE_NULL)
            return TIDE_OK;
    if (event->is_orphan)
        return tide_references_apply(why, desk, table, event, err);
    TIDE_CLEANUP(tide_event_done) tide_event ours; /* not cleared: room for the key is 2.5 KB */
    ours.columns = NULL;
    TIDE_TRY(tide_quarantine_translate(why, &ours, desk, table, event, err));
    if (*why != TIDE_HOLD_NOT)
        return TIDE_OK;
    *why = TIDE_HOLD_DRIFT;
    if (tide_hybrid_meet(&desk->clock, desk->now_us, &event->stamp) == TIDE_NONE)
        return TIDE_OK;
    tide_view key;
    tide_desk_row *row = NULL;
    TIDE_TRY(tide_desk_key(&key, desk, event->key, event->key_count, err));
    TIDE_TRY(tide_desk_row_get(&row, desk, table, key, err));
    *why = TIDE_HOLD_NOT;
    if (event->is_dismissal)
        return tide_conflict_dismiss(desk, row, &ours, err);
    TIDE_TRY(tide_desk_merge(desk, row, &ours, err));
    return tide_again_judge(desk, row, event, err);
}

static tide_status put(const tide_desk *desk, const tide_event *event, tide_hold why,
                       const char *detail, tide_error *err)
{
    int64_t tried = 0;
    TIDE_TRY(tide_schemas_counter(&tried, desk->tx, err));
    return tide_foreign_exec(
        desk->tx, TIDE_TEMPLATE_APPLY_QUARANTINE_PUT->text, NULL, err,
        tide_bind_blob("origin", tide_view_bytes(event->origin.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", event->epoch), tide_bind_i64("seq", event->seq),
        tide_bind_text("reason", hold_names[why]), tide_bind_text("detail", detail),
        tide_bind_i64("tried", tried), tide_bind_i64("now", desk->now_us));
}

tide_status tide_quarantine_put(tide_desk *desk, const tide_event *event, tide_hold why,
                                tide_error *err)
{
    char detail[TIDE_EVENT_TABLE_MAX + 128] = "";
    switch (why) {
    case TIDE_HOLD_TABLE:
        (void)snprintf(detail, sizeof detail, "no table %s is tracked here", event->table);
        break;
    case TIDE_HOLD_COLUMN:
        (void)snprintf(detail, sizeof detail,
                       "%s: of schema %016" PRIx64 ", with columns that are not here: migrate this "
                       "node's table, too",
                       event->table, event->schema);
        break;
    case TIDE_HOLD_KEY:
        (void)snprintf(detail, sizeof detail, "%s: its key does not fit the table's", event->table);
        break;
    case TIDE_HOLD_DRIFT:
        (void)snprintf(detail, sizeof detail, "%s: stamped %" PRId64 " s ahead of this clock",
                       event->table, (tide_stamp_us(&event->stamp) - desk->now_us) / 1000000);
        break;
    case TIDE_HOLD_NULL:
        (void)snprintf(detail, sizeof detail,
                       "%s: a row whose key is NULL stays here alone; give it a key", event->table);
        break;
    case TIDE_HOLD_SIZE:
    case TIDE_HOLD_NOT:
        break;
    }
    return put(desk, event, why, detail, err);
}

tide_status tide_quarantine_put_size(const tide_desk *desk, const tide_event *event,
                                     const char *column, size_t len, tide_error *err)
{
    char detail[2 * TIDE_EVENT_TABLE_MAX + 192];
    (void)snprintf(
        detail, sizeof detail,
        "%.*s: a value of %zu bytes in table %s: more than an event carries (%d, keys %d), so "
        "it stays here alone; write a smaller one",
        TIDE_EVENT_TABLE_MAX, column, len, event->table, TIDE_EVENT_BYTES_MAX,
        TIDE_EVENT_KEY_BYTES_MAX);
    return put(desk, event, TIDE_HOLD_SIZE, detail, err);
}

tide_status tide_quarantine_end_size(const tide_desk *desk, const tide_event *event,
                                     const char *column, tide_error *err)
{
    return tide_foreign_exec(
        desk->tx, TIDE_TEMPLATE_APPLY_QUARANTINE_END_SIZE->text, NULL, err,
        tide_bind_blob("origin", tide_view_bytes(event->origin.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", event->epoch), tide_bind_i64("seq", event->seq),
        TIDE_BIND_IF(column, tide_bind_text("column", column)));
}

tide_status tide_quarantine_end_null(const tide_desk *desk, const tide_event *event,
                                     tide_error *err)
{
    return tide_foreign_exec(desk->tx, TIDE_TEMPLATE_APPLY_QUARANTINE_END_NULL->text, NULL, err,
                             tide_bind_text("table", event->table));
}

static tide_status end_quarantine(tide_desk *desk, const tide_event *event, tide_error *err)
{
    TIDE_TRY(tide_log_set_processed(desk, event, err));
    return tide_foreign_exec(
        desk->tx, TIDE_TEMPLATE_APPLY_QUARANTINE_DELETE->text, NULL, err,
        tide_bind_blob("origin", tide_view_bytes(event->origin.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", event->epoch), tide_bind_i64("seq", event->seq));
}

/* Events borrow from their bytes: those are kept by the desk until it is settled. */
static tide_status retry_one(bool *merged, tide_desk *desk, tide_view bytes, tide_error *err)
{
    tide_hold why = TIDE_HOLD_NOT;
    const char *copy = tide_arena_copy(&desk->arena, bytes.ptr, bytes.len);
    TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
    TIDE_NEED_MEMORY(copy, err);
    TIDE_TRY(tide_event_decode(&event, tide_view_bytes(copy, bytes.len), err));
    TIDE_TRY(tide_quarantine_merge(&why, desk, &event, err));
    *merged = why == TIDE_HOLD_NOT;
    return *merged ? end_quarantine(desk, &event, err)
                   : tide_quarantine_put(desk, &event, why, err); /* not before something changes */
}

tide_status tide_quarantine_retry(int64_t *merged, bool *more, tide_desk *desk, int64_t limit,
                                  tide_error *err)
{
    int64_t counter = 0;
    int64_t tried = 0;
    TIDE_TRY(tide_schemas_counter(&counter, desk->tx, err));
    tide_buffer bodies;
    tide_buffer_init(&bodies, (size_t)1 << 28);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer kept = bodies;
    *merged = 0;
    {
        TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
        tide_status status = tide_foreign_first(
            &query, desk->tx, TIDE_TEMPLATE_APPLY_QUARANTINE_BODIES->text, err,
            tide_bind_i64("limit", limit), tide_bind_i64("counter", counter),
            tide_bind_i64(
                "horizon",
                (int64_t)((uint64_t)((desk->now_us + TIDE_STAMP_DRIFT_US) / 1000) << 16)));
        for (; status == TIDE_OK; status = tide_foreign_step(query, err)) {
            const tide_view body = tide_foreign_col_bytes(query);
            if (tide_buffer_append_u32(&kept, (uint32_t)body.len) < TIDE_OK ||
                tide_buffer_append_view(&kept, body) < TIDE_OK)
                break; /* the others in the next turn */
        }
        TIDE_TRY(status);
    }
    tide_reader from = tide_reader_of(tide_buffer_view(&kept));
    uint32_t len = 0;
    while (tide_reader_left(&from) > 0 && tide_reader_u32(&from, &len) >= TIDE_OK) {
        tide_view body;
        bool is_merged = false;
        if (tide_reader_bytes(&from, len, &body) < TIDE_OK)
            break;
        TIDE_TRY(retry_one(&is_merged, desk, body, err));
        *merged += is_merged;
        tried++;
    }
    *more = tried >= limit && *merged > 0;
    return TIDE_OK;
}
