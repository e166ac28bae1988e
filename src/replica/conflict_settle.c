/* conflict_settle.c - conflicts that a person has decided: see node.h, conflict.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/capture.h"
#include "replica/conflict.h"
#include "replica/fold.h"
#include "replica/log.h"
#include "store/foreign/foreign_triggers.h"
#include "tidemark_templates.h"

typedef struct entry {
    const tide_table *table;
    tide_view key;
    int column; /* TIDE_CONFLICT_DELETE: the row's deletion */
    tide_stamp stamp;
    tide_sql_value lost;
    bool is_aside;
} entry;

typedef struct settling {
    tide_node *node;
    const char *id; /* NULL: all that were found before before_us */
    int64_t before_us;
    tide_conflict_choice choice;
    const tide_sql_value *value;
    int64_t count;
    bool is_behind;
    entry *entries;
    int entry_count;
} settling;

/* ---- which ---- */

static bool is_wanted(const settling *s, const entry *e, int64_t found_at_us)
{
    char id[TIDE_CONFLICT_ID_SIZE];
    if (!s->id)
        return !e->is_aside && found_at_us < s->before_us;
    const char *column = e->column >= 0 && e->column < e->table->column_count
                             ? e->table->columns[e->column].name
                             : "";
    tide_conflict_id(id, e->table->name, e->key, column, &e->stamp);
    return strcmp(id, s->id) == 0;
}

static tide_status keep_entry(settling *s, tide_desk *desk, entry e, tide_view value,
                              tide_error *err)
{
    TIDE_TRY(tide_list_room(&s->entries, s->entry_count, sizeof *s->entries, TIDE_LIST_MAX, err));
    const char *key = tide_arena_copy(&desk->arena, e.key.ptr, e.key.len);
    TIDE_NEED_MEMORY(key, err);
    e.key.ptr = key;
    if (e.column >= 0 && !e.is_aside) {
        tide_sql_value lost;
        tide_reader from = tide_reader_of(value);
        if (tide_sql_value_decode(&lost, &from) < TIDE_OK)
            return tide_fail(err, TIDE_E_DAMAGED, "a conflict of table %s is damaged",
                             e.table->name);
        TIDE_TRY(tide_desk_keep(&e.lost, desk, &lost, err));
    }
    s->entries[s->entry_count++] = e;
    return TIDE_OK;
}

static tide_status find_entries(settling *s, tide_desk *desk, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, desk->tx,
                          TIDE_TEMPLATE_APPLY_CONFLICT_LIST->text, err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        char name[TIDE_EVENT_TABLE_MAX + 1];
        tide_view_copy(name, sizeof name, tide_foreign_col_bytes(query));
        entry e = {.table = tide_desk_table(desk, name), .key = tide_foreign_col_bytes(query)};
        e.column = (int)tide_foreign_col_i64(query);
        e.stamp.time = (uint64_t)tide_foreign_col_i64(query);
        const tide_view node = tide_foreign_col_bytes(query);
        if (node.len == TIDE_NODE_LEN)
            memcpy(e.stamp.node.bytes, node.ptr, TIDE_NODE_LEN);
        const tide_view value = tide_foreign_col_bytes(query);
        e.is_aside = tide_foreign_col_i64(query) != 0;
        if (e.table && is_wanted(s, &e, tide_foreign_col_i64(query)))
            TIDE_TRY(keep_entry(s, desk, e, value, err));
    }
    return TIDE_OK;
}

/* ---- writes of a person: as if an application had made them ---- */

static tide_status check_here(const tide_desk_row *row, tide_error *err)
{
    if (row->is_here)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "the row of this conflict is not in table %s any more; insert it again, or "
                     "dismiss the conflict",
                     row->table->name);
}

static tide_status bind_key(tide_foreign_query *query, const tide_desk_row *row, tide_error *err)
{
    tide_sql_value key[TIDE_EVENT_KEY_MAX];
    TIDE_TRY(tide_desk_key_values(key, row->table->key_count, row->key, err));
    for (int i = 0; i < row->table->key_count; i++)
        tide_table_bind(query, 'k', i, &key[i]);
    return TIDE_OK;
}

static tide_status write_value(tide_desk *desk, const tide_desk_row *row, int column,
                               const tide_sql_value *value, tide_error *err)
{
    const tide_table *table = row->table;
    TIDE_TRY(check_here(row, err));
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_CLEANUP(tide_freep)
    bool *is_written = calloc((size_t)table->column_count, sizeof *is_written);
    TIDE_NEED_MEMORY(is_written, err);
    TIDE_TRY(tide_table_query_some(&query, desk->tx, table, TIDE_TABLE_ROW_SET, &column, 1, err));
    tide_table_bind(query, 'c', column, value);
    TIDE_TRY(bind_key(query, row, err));
    TIDE_TRY(tide_foreign_run_row(query, err));
    is_written[column] = true;
    row->values[column] = *value;
    return tide_capture_log(desk->tx, table, TIDE_ROW_UPDATE, row->values, is_written, err);
}

static tide_status delete_row(tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    TIDE_TRY(check_here(row, err));
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, desk->tx, row->table, TIDE_TABLE_ROW_DELETE,
                          err);
    TIDE_TRY(bind_key(query, row, err));
    TIDE_TRY(tide_foreign_run_row(query, err));
    return tide_capture_log(desk->tx, row->table, TIDE_ROW_DELETE, row->values, NULL, err);
}

/* ---- one entry ---- */

/* The lost write is known from now on, here and everywhere. */
static tide_status dismiss_write(tide_desk *desk, tide_log_origin *origin, const entry *e,
                                 const tide_desk_row *row, tide_error *err)
{
    TIDE_CLEANUP(tide_event_done)
    tide_event event = {
        .kind = TIDE_ROW_UPDATE, .is_dismissal = true, .key_count = e->table->key_count};
    TIDE_TRY(tide_desk_key_values(event.key, event.key_count, e->key, err));
    TIDE_ALLOC(event.columns, 1, err);
    event.columns[event.column_count++] = (tide_event_column){
        .column = e->column, .value = {.kind = TIDE_SQL_VALUE_NULL}, .base = e->stamp};
    TIDE_TRY(tide_log_add_own(desk, origin, e->table, &event, err));
    return tide_conflict_dismiss(desk, row, &event, err);
}

/* A delete that was outlived has had its way, or the row is created again, above it. */
static tide_status settle_delete(const settling *s, tide_desk *desk, const tide_desk_row *row,
                                 tide_error *err)
{
    if (s->choice == TIDE_CONFLICT_VALUE)
        return tide_fail(err, TIDE_E_INVALID, "a delete has no value; take --ours or --theirs");
    if (s->choice == TIDE_CONFLICT_THEIRS)
        return delete_row(desk, row, err);
    TIDE_TRY(check_here(row, err));
    return tide_capture_log(desk->tx, row->table, TIDE_ROW_CREATE, row->values, NULL, err);
}

static tide_status settle_entry(settling *s, tide_desk *desk, tide_log_origin *origin,
                                const entry *e, tide_error *err)
{
    tide_desk_row *row = NULL;
    if (e->is_aside)
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "a constraint keeps this row out of table %s; change or delete the row "
                         "that is there instead, and it comes in",
                         e->table->name);
    TIDE_TRY(tide_desk_row_get(&row, desk, e->table, e->key, err));
    s->count++;
    if (e->column == TIDE_CONFLICT_DELETE)
        return settle_delete(s, desk, row, err);
    if (e->column >= e->table->column_count)
        return tide_fail(err, TIDE_E_DAMAGED, "a conflict of table %s has no column",
                         e->table->name);
    TIDE_TRY(dismiss_write(desk, origin, e, row, err));
    if (s->choice == TIDE_CONFLICT_OURS)
        return TIDE_OK;
    return write_value(desk, row, e->column,
                       s->choice == TIDE_CONFLICT_THEIRS ? &e->lost : s->value, err);
}

static tide_status settle_found(settling *s, tide_foreign_tx *tx, tide_error *err)
{
    const tide_node_id self = tide_node_get_id(s->node);
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
    TIDE_TRY(tide_desk_init(&desk, s->node, tx, err));
    TIDE_TRY(find_entries(s, &desk, err));
    if (s->id && s->entry_count == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no conflict %s", s->id);
    /* Dismissals first: their numbers are taken one by one, those of writes when they are ingested. */
    TIDE_TRY(tide_log_origin_load(&origin, tx, &self, tide_node_epoch(s->node), err));
    for (int i = 0; i < s->entry_count; i++)
        if (s->entries[i].column >= 0)
            TIDE_TRY(settle_entry(s, &desk, &origin, &s->entries[i], err));
    TIDE_TRY(tide_log_origin_store(&origin, tx, err));
    for (int i = 0; i < s->entry_count; i++)
        if (s->entries[i].column < 0)
            TIDE_TRY(settle_entry(s, &desk, &origin, &s->entries[i], err));
    return tide_desk_store(&desk, err);
}

static tide_status settle(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    settling *s = arg;
    int64_t events = 0;
    bool more = false;
    s->count = 0;
    s->entry_count = 0;
    TIDE_TRY(tide_fold_turn(s->node, tx, &events, &s->is_behind, err));
    if (s->is_behind)
        return TIDE_OK;
    TIDE_TRY(settle_found(s, tx, err));
    do
        TIDE_TRY(tide_fold_turn(s->node, tx, &events, &more, err));
    while (more);
    return TIDE_OK;
}

static tide_status run(settling *s, tide_error *err)
{
    tide_status status = TIDE_OK;
    do
        status = tide_foreign_write(tide_node_file(s->node), settle, s, err);
    while (status >= TIDE_OK && s->is_behind);
    free(s->entries);
    return status;
}

tide_status tide_node_settle_conflict(tide_node *node, const char *id, tide_conflict_choice choice,
                                      const tide_sql_value *value, tide_error *err)
{
    settling s = {.node = node, .id = id, .choice = choice, .value = value};
    return run(&s, err);
}

tide_status tide_node_dismiss_conflicts(tide_node *node, int64_t before_us, int64_t *count,
                                        tide_error *err)
{
    settling s = {.node = node, .before_us = before_us, .choice = TIDE_CONFLICT_OURS};
    TIDE_TRY(run(&s, err));
    *count = s.count;
    return TIDE_OK;
}
