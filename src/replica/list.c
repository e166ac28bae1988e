#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/conflict.h"
#include "replica/desk.h"
#include "replica/node.h"
#include "replica/value.h"
#include "tidemark_templates.h"

enum { TEXT_BYTES_MAX = 1 << 30 };

typedef struct conflicts_call {
    tide_node *node;
    tide_conflict_fn *fn;
    void *arg;
    tide_table recorded; /* the table of the last conflict, if it is tracked no more */
} conflicts_call;

static const char *reason_of(int64_t column, int64_t aside)
{
    if (aside == TIDE_ASIDE_CHECK)
        return "check";
    if (aside == TIDE_ASIDE_UNIQUE)
        return "unique";
    if (aside == TIDE_ASIDE_FOREIGN)
        return "foreign key";
    return column == TIDE_CONFLICT_DELETE ? "delete" : "write";
}

/* The columns of a row that is kept out of its table (desk.c, images). */
static tide_status put_row(tide_buffer *out, const tide_table *table, tide_view image)
{
    tide_json json;
    tide_reader from = tide_reader_of(image);
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    while (tide_reader_left(&from) > 0) {
        uint64_t column = 0;
        tide_sql_value value;
        TIDE_TRY(tide_reader_varint_shortest(&from, &column));
        TIDE_TRY(tide_sql_value_decode(&value, &from));
        if (column < (uint64_t)table->column_count)
            tide_value_json_member(&json, tide_view_of(table->columns[column].name), &value);
    }
    tide_json_object_end(&json);
    return tide_json_finish(&json);
}

static tide_status fail_damaged(const char *table, tide_error *err)
{
    return tide_fail(err, TIDE_E_DAMAGED, "a conflict of table %s is damaged", table);
}

/* The table of a conflict, as it was recorded where it is not tracked any more. */
static tide_status find_table(const tide_table **out, conflicts_call *call, const tide_desk *desk,
                              const char *name, tide_error *err)
{
    *out = tide_desk_table(desk, name);
    if (*out)
        return TIDE_OK;
    if (strcmp(call->recorded.name, name) != 0) {
        tide_table_done(&call->recorded);
        const tide_status status = tide_table_find_absent(&call->recorded, desk->tx, name, err);
        if (status != TIDE_OK)
            return status < TIDE_OK ? status : fail_damaged(name, err);
    }
    *out = &call->recorded;
    return TIDE_OK;
}

/* The write that was lost. place: room for the name of a column that has none any more. */
static tide_status take_write(tide_conflict *out, char place[32], const tide_table *table,
                              int64_t column, tide_view value, tide_error *err)
{
    tide_reader from = tide_reader_of(value);
    if (tide_sql_value_decode(&out->value, &from) < TIDE_OK)
        return fail_damaged(table->name, err);
    (void)snprintf(place, 32, "#%" PRId64, column + 1);
    out->column = column < table->column_count ? table->columns[column].name : place;
    return TIDE_OK;
}

static tide_status put_shown(tide_buffer *out, const tide_desk_row *row, int64_t column)
{
    tide_json json;
    if (!row->is_here)
        return TIDE_OK;
    tide_json_init(&json, out);
    if (column >= 0) {
        tide_value_json(&json, &row->before[column]);
        return tide_json_finish(&json);
    }
    tide_json_object_begin(&json);
    for (int i = 0; i < row->table->column_count; i++)
        tide_value_json_member(&json, tide_view_of(row->table->columns[i].name), &row->before[i]);
    tide_json_object_end(&json);
    return tide_json_finish(&json);
}

/* What the table shows: the row, or the one that keeps it out. */
static tide_status find_shown(tide_buffer *out, tide_desk *desk, const tide_table *table,
                              tide_view key, int64_t column, tide_error *err)
{
    tide_desk_row *row = NULL;
    if (table->is_absent || tide_desk_table(desk, table->name) != table ||
        column >= table->column_count)
        return TIDE_OK;
    TIDE_TRY(tide_desk_row_get(&row, desk, table, key, err));
    if (row->aside != TIDE_ASIDE_NONE && row->rival.len > 0)
        TIDE_TRY(tide_desk_row_get(&row, desk, table, row->rival, err));
    return put_shown(out, row, column) < TIDE_OK ? tide_no_memory(err) : TIDE_OK;
}

static tide_status give_conflict(conflicts_call *call, tide_desk *desk, tide_foreign_query *query,
                                 tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer record = tide_buffer_of(TEXT_BYTES_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer row = tide_buffer_of(TEXT_BYTES_MAX);
    const tide_table *table = NULL;
    char place[32] = "";
    char name[TIDE_EVENT_TABLE_MAX + 1] = "";
    const tide_view table_name = tide_foreign_col_bytes(query);
    if (table_name.len < sizeof name)
        memcpy(name, table_name.ptr, table_name.len);
    tide_conflict conflict = {.table = name, .column = "", .key = tide_foreign_col_bytes(query)};
    const int64_t column = tide_foreign_col_i64(query);
    conflict.stamp.time = (uint64_t)tide_foreign_col_i64(query);
    const tide_view node = tide_foreign_col_bytes(query);
    if (node.len == TIDE_NODE_LEN)
        memcpy(conflict.stamp.node.bytes, node.ptr, TIDE_NODE_LEN);
    const tide_view value = tide_foreign_col_bytes(query);
    const int64_t aside = tide_foreign_col_i64(query);
    conflict.found_at_us = tide_foreign_col_i64(query);
    conflict.reason = reason_of(column, aside);
    TIDE_TRY(find_table(&table, call, desk, name, err));
    if (aside == 0 && column >= 0)
        TIDE_TRY(take_write(&conflict, place, table, column, value, err));
    if (tide_key_text_encoded(&record, conflict.key) < TIDE_OK ||
        (aside != 0 && put_row(&row, table, value) < TIDE_OK))
        return fail_damaged(name, err);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer shown = tide_buffer_of(TEXT_BYTES_MAX);
    TIDE_TRY(find_shown(&shown, desk, table, conflict.key, column, err));
    conflict.ours = tide_buffer_view(&shown);
    tide_conflict_id(conflict.id, name, conflict.key, conflict.column, &conflict.stamp);
    conflict.record_id = tide_buffer_view(&record);
    conflict.data = tide_buffer_view(&row);
    return call->fn(call->arg, &conflict, err);
}

static tide_status give_conflicts(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    conflicts_call *call = arg;
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(tide_desk_init(&desk, call->node, tx, err));
    TIDE_TRY(tide_foreign_begin(&query, tx, TIDE_TEMPLATE_APPLY_CONFLICT_LIST->text, err));
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_OK_IF_NONE(give_conflict(call, &desk, query, err));
    }
    return TIDE_OK;
}

tide_status tide_node_conflicts(tide_node *node, tide_conflict_fn *fn, void *arg, tide_error *err)
{
    conflicts_call call = {.node = node, .fn = fn, .arg = arg};
    const tide_status status = tide_foreign_read(tide_node_file(node), give_conflicts, &call, err);
    tide_table_done(&call.recorded);
    return status;
}

/* ---- quarantine ---- */

typedef struct held_call {
    int64_t limit;
    tide_quarantined_fn *fn;
    void *arg;
} held_call;

static tide_status give_held(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const held_call *call = arg;
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_APPLY_QUARANTINE_LIST->text, err,
                       tide_bind_i64("limit", call->limit));
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_quarantined held = {.epoch = 0};
        const tide_view origin = tide_foreign_col_bytes(query);
        if (origin.len == TIDE_NODE_LEN)
            memcpy(held.origin.bytes, origin.ptr, TIDE_NODE_LEN);
        held.epoch = tide_foreign_col_i64(query);
        held.seq = tide_foreign_col_i64(query);
        held.table = tide_foreign_col_bytes(query);
        held.record_id = tide_foreign_col_bytes(query);
        held.reason = tide_foreign_col_bytes(query);
        held.detail = tide_foreign_col_bytes(query);
        held.found_at_us = tide_foreign_col_i64(query);
        TIDE_TRY(call->fn(call->arg, &held, err));
    }
    return TIDE_OK;
}

tide_status tide_node_quarantined(tide_node *node, int64_t limit, tide_quarantined_fn *fn,
                                  void *arg, tide_error *err)
{
    held_call call = {.limit = limit, .fn = fn, .arg = arg};
    return tide_foreign_read(tide_node_file(node), give_held, &call, err);
}

static tide_status count_all(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_node_counts *out = arg;
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx, TIDE_TEMPLATE_APPLY_CONFLICT_COUNTS->text,
                          err, TIDE_NO_BIND);
    out->conflicts = tide_foreign_col_i64(query);
    out->aside = tide_foreign_col_i64(query);
    out->quarantined = tide_foreign_col_i64(query);
    out->waiting = tide_foreign_col_i64(query);
    return TIDE_OK;
}

static tide_status count_held(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_node_counts *out = arg;
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx,
                          TIDE_TEMPLATE_APPLY_QUARANTINE_COUNTS->text, err, TIDE_NO_BIND);
    out->quarantined = tide_foreign_col_i64(query);
    out->waiting = tide_foreign_col_i64(query);
    return TIDE_OK;
}

tide_status tide_node_count_held(tide_node *node, tide_node_counts *out, tide_error *err)
{
    return tide_foreign_read(tide_node_file(node), count_held, out, err);
}

tide_status tide_node_count(tide_node *node, tide_node_counts *out, tide_error *err)
{
    return tide_foreign_read(tide_node_file(node), count_all, out, err);
}
