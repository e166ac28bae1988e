#include "replica/desk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/list.h"
#include "replica/again.h"
#include "replica/capture.h"
#include "replica/conflict.h"
#include "replica/references.h"
#include "replica/resolve.h"
#include "tidemark_templates.h"

enum { SLOTS_FIRST = 256, KEPT_SLOTS = 4096 };

/* ---- tables, the node's clock ---- */

static tide_table *add_table(tide_desk *desk)
{
    if (tide_list_room(&desk->tables, desk->table_count, sizeof(tide_table *), TIDE_LIST_MAX,
                       NULL) < TIDE_OK)
        return NULL;
    tide_table *own = calloc(1, sizeof *own);
    if (own)
        desk->tables[desk->table_count++] = own;
    return own;
}

typedef tide_status find_fn(tide_table *out, tide_foreign_tx *tx, const char *name,
                            tide_error *err);

static tide_status load_tables(tide_desk *desk, const char *list, find_fn *find, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, desk->tx, list, err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        char name[TIDE_EVENT_TABLE_MAX + 1];
        const tide_view found = tide_foreign_col_bytes(query);
        tide_table *own = found.len < sizeof name ? add_table(desk) : NULL;
        TIDE_NEED_MEMORY(own, err);
        memcpy(name, found.ptr, found.len);
        name[found.len] = '\0';
        TIDE_TRY(find(own, desk->tx, name, err));
    }
    return TIDE_OK;
}

static tide_status load_names(tide_desk *desk, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, desk->tx, TIDE_TEMPLATE_NAMES_ALL->text, err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_TRY(tide_list_room(&desk->names, desk->name_count, sizeof *desk->names, TIDE_LIST_MAX,
                                err));
        const tide_view name = tide_foreign_col_bytes(query);
        if (name.len > TIDE_EVENT_TABLE_MAX)
            continue;
        tide_desk_name *own = &desk->names[desk->name_count++];
        memcpy(own->name, name.ptr, name.len);
        own->name[name.len] = '\0';
        own->table_id = tide_foreign_col_i64(query);
    }
    return TIDE_OK;
}

tide_status tide_desk_take_absent(tide_desk *desk, tide_error *err)
{
    return load_tables(desk, TIDE_TEMPLATE_REPLICA_ABSENT->text, tide_table_find_absent, err);
}

static tide_status load_clock(tide_desk *desk, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(
        &query, desk->tx, TIDE_TEMPLATE_APPLY_HYBRID_GET->text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    desk->clock = (tide_hybrid){.node = desk->node};
    if (status == TIDE_OK)
        desk->clock.last = (uint64_t)tide_foreign_col_i64(query);
    desk->clock_stored = desk->clock.last;
    return TIDE_OK;
}

static tide_status look_for_aside(tide_desk *desk, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(
        &query, desk->tx, TIDE_TEMPLATE_APPLY_CLOCK_ANY_ASIDE->text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    desk->has_aside = status == TIDE_OK;
    return TIDE_OK;
}

static tide_status store_clock(tide_desk *desk, tide_error *err)
{
    if (desk->clock.last == desk->clock_stored)
        return TIDE_OK;
    TIDE_TRY(tide_foreign_exec(desk->tx, TIDE_TEMPLATE_APPLY_HYBRID_PUT->text, NULL, err,
                               tide_bind_i64("last", (int64_t)desk->clock.last)));
    desk->clock_stored = desk->clock.last;
    return TIDE_OK;
}

tide_status tide_desk_init(tide_desk *desk, tide_node *node, tide_foreign_tx *tx, tide_error *err)
{
    tide_env *env = tide_foreign_env(tide_node_file(node));
    *desk = (tide_desk){.tx = tx,
                        .now_us = env->wall_us(env),
                        .node = tide_node_get_id(node),
                        .epoch = tide_node_epoch(node)};
    tide_arena_init(&desk->arena, TIDE_DESK_BYTES_MAX);
    desk->slots = calloc(SLOTS_FIRST, sizeof(tide_desk_row *));
    TIDE_NEED_MEMORY(desk->slots, err);
    desk->slot_count = SLOTS_FIRST;
    TIDE_TRY(load_tables(desk, TIDE_TEMPLATE_REPLICA_TABLE_LIST->text, tide_table_find, err));
    TIDE_TRY(load_names(desk, err));
    TIDE_TRY(tide_triggers_copy(tx, err));
    TIDE_TRY(tide_references_load(desk, err));
    TIDE_TRY(look_for_aside(desk, err));
    return load_clock(desk, err);
}

void tide_desk_done(tide_desk *desk)
{
    for (tide_desk_row *row = desk->first; row; row = row->next)
        tide_row_clock_done(&row->clock);
    for (int i = 0; i < desk->table_count; i++) {
        tide_table_done(desk->tables[i]);
        free(desk->tables[i]);
    }
    free(desk->tables);
    free(desk->names);
    free(desk->slots);
    if (desk->tx)
        tide_arena_done(&desk->arena);
    *desk = (tide_desk){.tx = NULL};
}

const tide_table *tide_desk_table(const tide_desk *desk, const char *name)
{
    for (int i = 0; i < desk->table_count; i++)
        if (!desk->tables[i]->is_absent && strcmp(desk->tables[i]->name, name) == 0)
            return desk->tables[i];
    for (int i = 0; i < desk->name_count; i++)
        if (strcasecmp(desk->names[i].name, name) == 0)
            return tide_desk_table_by_id(desk, desk->names[i].table_id);
    return NULL;
}

const tide_table *tide_desk_table_by_id(const tide_desk *desk, int64_t id)
{
    for (int i = 0; i < desk->table_count; i++)
        if (!desk->tables[i]->is_absent && desk->tables[i]->id == id)
            return desk->tables[i];
    return NULL;
}

/* ---- values ---- */

tide_status tide_desk_keep(tide_sql_value *out, tide_desk *desk, const tide_sql_value *value,
                           tide_error *err)
{
    *out = *value;
    if (value->kind != TIDE_SQL_VALUE_TEXT && value->kind != TIDE_SQL_VALUE_BLOB)
        return TIDE_OK;
    const char *copy =
        tide_arena_copy(&desk->arena, value->bytes.ptr ? value->bytes.ptr : "", value->bytes.len);
    TIDE_NEED_MEMORY(copy, err);
    out->bytes.ptr = copy;
    return TIDE_OK;
}

tide_status tide_desk_key(tide_view *out, tide_desk *desk, const tide_sql_value *values, int count,
                          tide_error *err)
{
    TIDE_BUFFER(bytes, TIDE_EVENT_KEY_BYTES_MAX);
    for (int i = 0; i < count; i++) {
        const tide_status status = tide_sql_value_encode(&bytes, &values[i]);
        if (status == TIDE_E_LIMIT)
            return tide_fail(err, TIDE_E_LIMIT, "a key of more than %d bytes",
                             TIDE_EVENT_KEY_BYTES_MAX);
        if (status < TIDE_OK)
            return tide_no_memory(err);
    }
    const char *copy = tide_arena_copy(&desk->arena, bytes.ptr, bytes.len);
    TIDE_NEED_MEMORY(copy, err);
    *out = tide_view_bytes(copy, bytes.len);
    return TIDE_OK;
}

tide_status tide_desk_key_values(tide_sql_value *out, int count, tide_view key, tide_error *err)
{
    tide_reader from = tide_reader_of(key);
    for (int i = 0; i < count; i++)
        if (tide_sql_value_decode(&out[i], &from) < TIDE_OK)
            return tide_fail(err, TIDE_E_DAMAGED, "a stored key is damaged");
    return tide_reader_left(&from) == 0 ? TIDE_OK
                                        : tide_fail(err, TIDE_E_DAMAGED, "a stored key is damaged");
}

/* ---- images: those columns that are known ---- */

static tide_status put_image(tide_buffer *out, const tide_desk_row *row)
{
    for (int i = 0; i < row->table->column_count; i++) {
        if (!row->has[i])
            continue;
        TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)i));
        TIDE_TRY(tide_sql_value_encode(out, &row->values[i]));
    }
    return TIDE_OK;
}

static tide_status get_image(tide_desk *desk, tide_desk_row *row, tide_view bytes, tide_error *err)
{
    tide_reader from = tide_reader_of(bytes);
    while (tide_reader_left(&from) > 0) {
        uint64_t column = 0;
        tide_sql_value value;
        if (tide_reader_varint_shortest(&from, &column) < TIDE_OK ||
            tide_sql_value_decode(&value, &from) < TIDE_OK)
            return tide_fail(err, TIDE_E_DAMAGED, "an image of table %s is damaged",
                             row->table->name);
        if (column >= (uint64_t)row->table->column_count)
            continue; /* the table has lost columns since */
        TIDE_TRY(tide_desk_keep(&row->values[column], desk, &value, err));
        row->has[column] = true;
    }
    return TIDE_OK;
}

/* ---- rows ---- */

static uint64_t hash_of(const tide_table *table, tide_view key)
{
    const tide_digest128 digest = tide_digest128_of(key);
    uint64_t hash = 0;
    memcpy(&hash, digest.bytes, sizeof hash);
    return hash ^ ((uint64_t)table->id * UINT64_C(0x9e3779b97f4a7c15));
}

static tide_desk_row *find_row(const tide_desk *desk, const tide_table *table, tide_view key)
{
    tide_desk_row *row = desk->slots[hash_of(table, key) & (desk->slot_count - 1)];
    while (row && (row->table != table || !tide_view_equal(row->key, key)))
        row = row->chain;
    return row;
}

static tide_status grow_slots(tide_desk *desk, tide_error *err)
{
    const size_t count = desk->slot_count * 2;
    tide_desk_row **slots = calloc(count, sizeof(tide_desk_row *));
    TIDE_NEED_MEMORY(slots, err);
    for (tide_desk_row *row = desk->first; row; row = row->next) {
        tide_desk_row **slot = &slots[hash_of(row->table, row->key) & (count - 1)];
        row->chain = *slot;
        *slot = row;
    }
    free(desk->slots);
    desk->slots = slots;
    desk->slot_count = count;
    return TIDE_OK;
}

static tide_status new_row(tide_desk_row **out, tide_desk *desk, const tide_table *table,
                           tide_view key, tide_error *err)
{
    const size_t columns = (size_t)table->column_count;
    if (desk->row_count >= desk->slot_count)
        TIDE_TRY(grow_slots(desk, err));
    tide_desk_row *row = tide_arena_alloc(&desk->arena, sizeof *row);
    tide_sql_value *values = tide_arena_alloc(&desk->arena, columns * sizeof *values);
    bool *has = tide_arena_alloc(&desk->arena, columns * sizeof *has);
    const char *bytes = tide_arena_copy(&desk->arena, key.ptr, key.len);
    TIDE_NEED_MEMORY(row && values && has && bytes, err);
    *row = (tide_desk_row){
        .table = table, .key = tide_view_bytes(bytes, key.len), .values = values, .has = has};
    memset(has, 0, columns * sizeof *has);
    memset(values, 0, columns * sizeof *values);
    tide_desk_row **slot = &desk->slots[hash_of(table, key) & (desk->slot_count - 1)];
    row->chain = *slot;
    *slot = row;
    if (desk->last)
        desk->last->next = row;
    else
        desk->first = row;
    desk->last = row;
    desk->row_count++;
    *out = row;
    return TIDE_OK;
}

tide_status tide_desk_note_kept(tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    if (row->aside != TIDE_ASIDE_UNIQUE || row->rival.len == 0)
        return TIDE_OK;
    if (!desk->kept) {
        desk->kept = tide_arena_alloc(&desk->arena, KEPT_SLOTS * sizeof(tide_desk_kept *));
        TIDE_NEED_MEMORY(desk->kept, err);
        memset(desk->kept, 0, KEPT_SLOTS * sizeof(tide_desk_kept *));
    }
    tide_desk_kept *kept = tide_arena_alloc(&desk->arena, sizeof *kept);
    TIDE_NEED_MEMORY(kept, err);
    tide_desk_kept **slot = &desk->kept[hash_of(row->table, row->rival) & (KEPT_SLOTS - 1)];
    *kept = (tide_desk_kept){.row = row, .next = *slot};
    *slot = kept;
    return TIDE_OK;
}

const tide_desk_kept *tide_desk_kept_by(const tide_desk *desk, const tide_desk_row *row)
{
    return desk->kept ? desk->kept[hash_of(row->table, row->key) & (KEPT_SLOTS - 1)] : NULL;
}

static tide_status keep_bytes(tide_view *out, tide_desk *desk, tide_view bytes, tide_error *err)
{
    const char *copy = bytes.len > 0 ? tide_arena_copy(&desk->arena, bytes.ptr, bytes.len) : NULL;
    if (bytes.len > 0 && !copy)
        return tide_no_memory(err);
    *out = tide_view_bytes(copy, bytes.len);
    return TIDE_OK;
}

/* Columns that were added since: they had their defaults. */
static tide_status extend_prints(tide_desk *desk, tide_desk_row *row, tide_view prints,
                                 tide_error *err)
{
    TIDE_BUFFER(all, (size_t)TIDE_TABLE_COLUMNS_MAX * TIDE_TABLE_PRINT_LEN);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(tide_buffer_append_view(&all, prints));
    TIDE_TRY(tide_table_query(&query, desk->tx, row->table, TIDE_TABLE_DEFAULTS, err));
    TIDE_TRY(tide_foreign_step(query, err));
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        if ((size_t)i * TIDE_TABLE_PRINT_LEN >= prints.len)
            TIDE_TRY(tide_table_prints(&all, &value, 1, err));
    }
    return keep_bytes(&row->prints, desk, tide_buffer_view(&all), err);
}

void tide_desk_print(const tide_desk_row *row, int column, const tide_sql_value *value)
{
    const size_t at = (size_t)column * TIDE_TABLE_PRINT_LEN;
    if (at + TIDE_TABLE_PRINT_LEN <= row->prints.len) /* memory of the desk */
        tide_table_print((uint8_t *)row->prints.ptr + at, value);
}

static tide_status load_stored(tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_OK_IF_NONE(tide_foreign_first(&query, desk->tx, TIDE_TEMPLATE_APPLY_CLOCK_GET->text, err,
                                       tide_bind_i64("table", row->table->id),
                                       tide_bind_blob("key", row->key)));
    TIDE_TRY(tide_row_clock_decode(&row->clock, tide_foreign_col_bytes(query), err));
    TIDE_TRY(get_image(desk, row, tide_foreign_col_bytes(query), err));
    row->aside = (tide_aside)tide_foreign_col_i64(query);
    TIDE_TRY(keep_bytes(&row->rival, desk, tide_foreign_col_bytes(query), err));
    TIDE_TRY(tide_desk_note_kept(desk, row, err));
    const tide_view prints = tide_foreign_col_bytes(query);
    if (prints.len >= (size_t)row->table->column_count * TIDE_TABLE_PRINT_LEN)
        return keep_bytes(&row->prints, desk, prints, err);
    return prints.len > 0 && !row->table->is_absent ? extend_prints(desk, row, prints, err)
                                                    : TIDE_OK;
}

/* Does it stand in its table under exactly this key? A key may also be found under another spelling (a collation, 1 and 1.0). */
static bool is_same_key(const tide_desk_row *row, const tide_sql_value *values,
                        const tide_sql_value *key)
{
    for (int i = 0; i < row->table->key_count; i++) {
        const int column = row->table->key[i];
        const tide_sql_value value = tide_table_key_value(row->table, column, &values[column]);
        if (!tide_sql_value_equal(&value, &key[i]))
            return false;
    }
    return true;
}

static tide_status load_from_table(tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    const tide_table *table = row->table;
    tide_sql_value key[TIDE_EVENT_KEY_MAX];
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(tide_desk_key_values(key, table->key_count, row->key, err));
    for (int i = 0; i < table->key_count; i++) {
        row->values[table->key[i]] = key[i];
        row->has[table->key[i]] = true;
    }
    if (table->is_absent)
        return TIDE_OK;
    TIDE_TRY(tide_table_query(&query, desk->tx, table, TIDE_TABLE_ROW_GET, err));
    for (int i = 0; i < table->key_count; i++)
        tide_table_bind(query, 'k', i, &key[i]);
    TIDE_OK_IF_NONE(tide_foreign_step(query, err));
    const size_t size = (size_t)table->column_count * sizeof(tide_sql_value);
    tide_sql_value *found = tide_arena_alloc(&desk->arena, size);
    TIDE_NEED_MEMORY(found, err);
    for (int i = 0; i < table->column_count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        TIDE_TRY(tide_desk_keep(&found[i], desk, &value, err));
    }
    if (!is_same_key(row, found, key))
        return TIDE_OK;
    if (!tide_row_clock_exists(&row->clock) || row->aside != TIDE_ASIDE_NONE) {
        row->image = tide_arena_copy(&desk->arena, row->values, size);
        TIDE_NEED_MEMORY(row->image, err);
    }
    row->before = found;
    row->is_here = true;
    memcpy(row->values, found, size);
    memset(row->has, 1, (size_t)table->column_count * sizeof *row->has);
    return TIDE_OK;
}

tide_status tide_desk_row_get(tide_desk_row **out, tide_desk *desk, const tide_table *table,
                              tide_view key, tide_error *err)
{
    *out = find_row(desk, table, key);
    if (*out)
        return TIDE_OK;
    tide_desk_row *row = NULL;
    TIDE_TRY(new_row(&row, desk, table, key, err));
    assert(row);
    TIDE_TRY(load_stored(desk, row, err));
    /* What does not exist by its clock, or is aside, does not stand there; unless an application has just put it there. */
    if (desk->is_folding || (tide_row_clock_exists(&row->clock) && row->aside == TIDE_ASIDE_NONE))
        TIDE_TRY(load_from_table(desk, row, err));
    else {
        tide_sql_value values[TIDE_EVENT_KEY_MAX];
        TIDE_TRY(tide_desk_key_values(values, table->key_count, row->key, err));
        for (int i = 0; i < table->key_count; i++) {
            row->values[table->key[i]] = values[i];
            row->has[table->key[i]] = true;
        }
    }
    *out = row;
    return TIDE_OK;
}

/* ---- merging ---- */

static bool is_key_column(const tide_table *table, int column)
{
    for (int i = 0; i < table->key_count; i++)
        if (table->key[i] == column)
            return true;
    return false;
}

tide_status tide_desk_merge(tide_desk *desk, tide_desk_row *row, const tide_event *event,
                            tide_error *err)
{
    tide_event bare;
    const tide_event *written = event;
    if (event->kind == TIDE_ROW_DELETE) {
        tide_event_copy(&bare, event);
        bare.column_count = 0; /* what it knew, not what it wrote */
        written = &bare;
    }
    TIDE_CLEANUP(tide_merge_done) tide_merge merge = {.columns = NULL};
    TIDE_TRY(tide_merge_event(&merge, &row->clock, written, err));
    TIDE_TRY(tide_conflict_note(desk, row, event, &merge, err));
    for (int i = 0; i < written->column_count; i++) {
        const tide_event_column *given = &event->columns[i];
        const tide_row_write shown = tide_row_clock_of(&merge.clock, given->column);
        if (given->column >= row->table->column_count || is_key_column(row->table, given->column) ||
            tide_stamp_compare(&shown.stamp, &event->stamp) != 0)
            continue; /* the value is another write's; where it is this one's, it is this value, also if it comes again */
        tide_desk_print(row, given->column, &given->value);
        tide_sql_value *value = &row->values[given->column];
        if (row->has[given->column] && tide_sql_value_equal(value, &given->value))
            continue;
        TIDE_TRY(tide_desk_keep(value, desk, &given->value, err));
        row->has[given->column] = true;
        row->is_stale = true;
        row->is_changed = true;
    }
    row->image = NULL;
    row->is_changed = row->is_changed || !merge.is_known;
    tide_row_clock_done(&row->clock);
    row->clock = merge.clock;
    merge.clock = (tide_row_clock){.columns = NULL};
    return TIDE_OK;
}

/* ---- writing down ---- */

static tide_status store_row(tide_desk_row *row, tide_foreign_query *put, tide_error *err)
{
    TIDE_BUFFER(clock, (size_t)1 << 24);
    TIDE_BUFFER(image, (size_t)1 << 30);
    if (tide_row_clock_encode(&clock, &row->clock) < TIDE_OK)
        return tide_no_memory(err);
    tide_foreign_reset(put);
    tide_foreign_bind_i64(put, "table", row->table->id);
    tide_foreign_bind_blob(put, "key", row->key);
    tide_foreign_bind_blob(put, "clock", tide_buffer_view(&clock));
    if (row->is_here) {
        tide_foreign_bind_null(put, "image");
    } else {
        if (put_image(&image, row) < TIDE_OK)
            return tide_no_memory(err);
        tide_foreign_bind_blob(put, "image", tide_buffer_view(&image));
    }
    TIDE_BUFFER(prints, (size_t)TIDE_TABLE_COLUMNS_MAX * TIDE_TABLE_PRINT_LEN);
    if (row->is_here) {
        if (row->prints.len == 0)
            TIDE_TRY(tide_table_prints(&prints, row->values, row->table->column_count, err));
        tide_foreign_bind_blob(put, "digest",
                               row->prints.len > 0 ? row->prints : tide_buffer_view(&prints));
    } else {
        tide_foreign_bind_null(put, "digest");
    }
    tide_foreign_bind_i64(put, "aside", row->aside);
    if (row->aside == TIDE_ASIDE_UNIQUE && row->rival.len > 0)
        tide_foreign_bind_blob(put, "rival", row->rival);
    else
        tide_foreign_bind_null(put, "rival");
    if (!tide_row_clock_exists(&row->clock) && row->clock.deleted.stamp.time != 0)
        tide_foreign_bind_i64(put, "gone", (int64_t)row->clock.deleted.stamp.time);
    else
        tide_foreign_bind_null(put, "gone");
    TIDE_TRY(tide_foreign_run(put, NULL, err));
    row->is_changed = false;
    return TIDE_OK;
}

tide_status tide_desk_store(tide_desk *desk, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(put, tide_foreign_begin, desk->tx, TIDE_TEMPLATE_APPLY_CLOCK_PUT->text,
                          err);
    for (tide_desk_row *row = desk->first; row; row = row->next)
        if (row->is_changed)
            TIDE_TRY(store_row(row, put, err));
    return store_clock(desk, err);
}

tide_status tide_desk_settle(tide_desk *desk, tide_error *err)
{
    TIDE_TRY(tide_resolve(desk, err));
    TIDE_TRY(tide_desk_store(desk, err));
    return desk->has_again ? tide_again_log(desk, err) : TIDE_OK;
}

void tide_found_done(tide_found *found)
{
    free(found->keys);
    *found = (tide_found){.keys = NULL};
}

tide_status tide_found_keep(tide_found *found, tide_desk *desk, tide_view key, tide_error *err)
{
    TIDE_TRY(tide_list_room(&found->keys, found->count, sizeof *found->keys, TIDE_LIST_MAX, err));
    const char *copy = tide_arena_copy(&desk->arena, key.ptr, key.len);
    TIDE_NEED_MEMORY(copy, err);
    found->keys[found->count++] = tide_view_bytes(copy, key.len);
    return TIDE_OK;
}

tide_status tide_found_collect(tide_found *found, tide_desk *desk, const tide_table *table,
                               tide_foreign_query *query, tide_error *err)
{
    tide_sql_value key[TIDE_EVENT_KEY_MAX];
    tide_view encoded;
    TIDE_EACH(tide_foreign_step(query, err)) {
        for (int i = 0; i < table->key_count; i++) {
            const tide_sql_value value = tide_foreign_col(query);
            key[i] = tide_table_key_value(table, table->key[i], &value);
        }
        TIDE_TRY(tide_desk_key(&encoded, desk, key, table->key_count, err));
        TIDE_TRY(tide_found_keep(found, desk, encoded, err));
    }
    return TIDE_OK;
}
