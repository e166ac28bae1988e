/* repair_row.c - what one node knows of rows: see repair.h. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/fold.h"
#include "replica/repair_parts.h"
#include "tidemark_templates.h"

/* ---- states ---- */

void tide_row_states_init(tide_row_states *states)
{
    *states = (tide_row_states){.count = 0};
    tide_arena_init(&states->arena, TIDE_DESK_BYTES_MAX);
}

void tide_row_states_done(tide_row_states *states)
{
    free(states->rows);
    tide_arena_done(&states->arena);
    *states = (tide_row_states){.count = 0};
}

static tide_status copy(tide_view *out, tide_row_states *states, tide_view bytes, tide_error *err)
{
    const char *own = tide_arena_copy(&states->arena, bytes.len > 0 ? bytes.ptr : "", bytes.len);
    TIDE_NEED_MEMORY(own, err);
    *out = tide_view_bytes(own, bytes.len);
    states->bytes += bytes.len;
    return TIDE_OK;
}

tide_status tide_row_states_add(tide_row_states *states, const tide_row_state *state,
                                tide_error *err)
{
    if (states->count == TIDE_REPAIR_ROWS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "at most %d rows at a time", TIDE_REPAIR_ROWS_MAX);
    TIDE_TRY(
        tide_list_room(&states->rows, states->count, sizeof *states->rows, TIDE_LIST_MAX, err));
    tide_row_state own = *state;
    TIDE_TRY(copy(&own.key, states, state->key, err));
    TIDE_TRY(copy(&own.clock, states, state->clock, err));
    TIDE_TRY(copy(&own.values, states, state->values, err));
    states->rows[states->count++] = own;
    return TIDE_OK;
}

/* ---- one call: fold first, then work on the rows, in one transaction ---- */

tide_status tide_repair_find_table(const tide_table **out, const tide_desk *desk,
                                   const tide_repair_call *call, tide_error *err)
{
    *out = tide_desk_table(desk, call->table);
    if (!*out)
        return tide_fail(err, TIDE_E_NOT_FOUND, "table '%s' is not tracked here", call->table);
    if (call->schema != 0 && (*out)->schema != call->schema)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "table '%s' has another schema here: bring both to the same one",
                         call->table);
    return TIDE_OK;
}

tide_status tide_repair_check_key(const tide_table *table, tide_view key, tide_error *err)
{
    tide_sql_value values[TIDE_EVENT_KEY_MAX];
    if (key.len == 0 || tide_desk_key_values(values, table->key_count, key, err) < TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID, "these bytes are no key of table %s", table->name);
    return TIDE_OK;
}

tide_status tide_repair_find_loose(tide_sql_value **out, tide_desk *desk, const tide_desk_row *row,
                                   tide_error *err)
{
    const tide_table *table = row->table;
    tide_sql_value key[TIDE_EVENT_KEY_MAX];
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    *out = NULL;
    if (tide_row_clock_exists(&row->clock) && row->aside == TIDE_ASIDE_NONE)
        return TIDE_OK;
    TIDE_TRY(tide_desk_key_values(key, table->key_count, row->key, err));
    TIDE_TRY(tide_table_query(&query, desk->tx, table, TIDE_TABLE_ROW_GET, err));
    for (int i = 0; i < table->key_count; i++)
        tide_table_bind(query, 'k', i, &key[i]);
    TIDE_OK_IF_NONE(tide_foreign_step(query, err));
    tide_sql_value *values =
        tide_arena_alloc(&desk->arena, (size_t)table->column_count * sizeof(tide_sql_value));
    TIDE_NEED_MEMORY(values, err);
    for (int i = 0; i < table->column_count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        TIDE_TRY(tide_desk_keep(&values[i], desk, &value, err));
    }
    *out = values;
    return TIDE_OK;
}

tide_status tide_repair_look_altered(bool *out, tide_desk *desk, const tide_desk_row *row,
                                     tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer prints = tide_buffer_of(TIDE_REPAIR_CLOCK_MAX);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    *out = false;
    if (!row->is_here || !row->before)
        return TIDE_OK;
    TIDE_OK_IF_NONE(tide_foreign_first(&query, desk->tx, TIDE_TEMPLATE_REPAIR_PRINT_FIND->text, err,
                                       tide_bind_i64("table", row->table->id),
                                       tide_bind_blob("key", row->key)));
    const tide_view stored = tide_foreign_col_bytes(query); /* empty: nothing was recorded */
    TIDE_TRY(tide_table_prints(&prints, row->before, row->table->column_count, err));
    const size_t len = stored.len < prints.len ? stored.len : prints.len;
    *out = len > 0 && memcmp(stored.ptr, prints.ptr, len) != 0;
    return TIDE_OK;
}

bool tide_repair_is_key_column(const tide_table *table, int column)
{
    for (int i = 0; i < table->key_count; i++)
        if (table->key[i] == column)
            return true;
    return false;
}

tide_status tide_repair_run(tide_repair_call *call, tide_foreign_fn *fn, tide_error *err)
{
    do
        TIDE_TRY(tide_foreign_write(tide_node_file(call->node), fn, call, err));
    while (call->is_behind);
    return TIDE_OK;
}

/* ---- telling ---- */

static tide_status put_values(tide_buffer *out, const tide_desk_row *row)
{
    for (int i = 0; i < row->table->column_count; i++) {
        if (!row->has[i] || tide_repair_is_key_column(row->table, i))
            continue;
        TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)i));
        TIDE_TRY(tide_sql_value_encode(out, &row->values[i]));
    }
    return TIDE_OK;
}

static tide_status tell_row(tide_row_states *out, tide_desk *desk, const tide_table *table,
                            tide_view key, tide_error *err)
{
    tide_desk_row *row = NULL;
    tide_sql_value *loose = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer clock = tide_buffer_of(TIDE_REPAIR_CLOCK_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer values = tide_buffer_of(TIDE_REPAIR_VALUES_MAX);
    TIDE_TRY(tide_repair_check_key(table, key, err));
    TIDE_TRY(tide_desk_row_get(&row, desk, table, key, err));
    TIDE_TRY(tide_repair_find_loose(&loose, desk, row, err));
    tide_row_state state = {.key = key, .stands = row->is_here || loose, .is_loose = loose != NULL};
    TIDE_TRY(tide_repair_look_altered(&state.is_altered, desk, row, err));
    if (tide_row_clock_encode(&clock, &row->clock) < TIDE_OK || put_values(&values, row) < TIDE_OK)
        return tide_no_memory(err);
    state.clock = tide_buffer_view(&clock);
    state.values = tide_buffer_view(&values);
    return tide_row_states_add(out, &state, err);
}

static tide_status tell_rows(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_repair_call *call = arg;
    const tide_table *table = NULL;
    int64_t folded = 0;
    TIDE_TRY(tide_fold_turn(call->node, tx, &folded, &call->is_behind, err));
    if (call->is_behind)
        return TIDE_OK;
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_TRY(tide_desk_init(&desk, call->node, tx, err));
    TIDE_TRY(tide_repair_find_table(&table, &desk, call, err));
    tide_row_states_done(call->out); /* a closure may run again */
    tide_row_states_init(call->out);
    call->out->node = desk.node;
    for (int i = 0; i < call->count && (i == 0 || call->out->bytes < call->max_bytes); i++)
        TIDE_TRY(tell_row(call->out, &desk, table, call->keys[i], err));
    return TIDE_OK;
}

tide_status tide_node_row_states(tide_node *node, const char *table, uint64_t schema,
                                 const tide_view *keys, int count, size_t max_bytes,
                                 tide_row_states *out, tide_error *err)
{
    if (count > TIDE_REPAIR_ROWS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "at most %d rows at a time", TIDE_REPAIR_ROWS_MAX);
    tide_repair_call call = {.node = node,
                             .table = table,
                             .schema = schema,
                             .keys = keys,
                             .count = count,
                             .max_bytes = max_bytes,
                             .out = out};
    return tide_repair_run(&call, tell_rows, err);
}
