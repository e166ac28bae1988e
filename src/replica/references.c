#include "replica/references.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "replica/schemas.h"
#include "replica/table_parts.h"
#include "tidemark_templates.h"

enum { NAMES_BYTES_MAX = 1 << 20 };

/* ---- which reference it is ---- */

static int compare_names(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

/* Its columns by name, in order and in lower case, each with a NUL behind: the same on every node. */
static tide_status put_names(tide_buffer *out, const char **names, int count, tide_error *err)
{
    if (count > 1)
        qsort((void *)names, (size_t)count, sizeof *names, compare_names);
    for (int i = 0; i < count; i++)
        for (const char *at = names[i];; at++) {
            const char letter = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
            if (tide_buffer_append(out, &letter, 1) < TIDE_OK)
                return tide_no_memory(err);
            if (!*at)
                break;
        }
    return TIDE_OK;
}

static tide_status put_reference(tide_buffer *out, const tide_table *table,
                                 const tide_table_foreign *foreign, tide_error *err)
{
    const char *names[TIDE_EVENT_KEY_MAX];
    for (int i = 0; i < foreign->count; i++)
        names[i] = table->columns[foreign->column[i]].name;
    return put_names(out, names, foreign->count, err);
}

/* Positions of a reference's columns in a table, ascending. -1: not all of them are there. */
static int find_columns(int out[TIDE_EVENT_KEY_MAX], const tide_table *table, tide_view names)
{
    int count = 0;
    for (int column = 0; column < table->column_count; column++)
        for (size_t at = 0; at < names.len; at += strlen(names.ptr + at) + 1)
            if (count < TIDE_EVENT_KEY_MAX &&
                strcasecmp(names.ptr + at, table->columns[column].name) == 0)
                out[count++] = column;
    int wanted = 0;
    for (size_t at = 0; at < names.len; at += strlen(names.ptr + at) + 1)
        wanted++;
    return count == wanted ? count : -1;
}

/* What refers by a generated column, or to a table that is not tracked, holds nothing back. */
static bool is_enforced(const tide_desk *desk, const tide_table_foreign *foreign)
{
    for (int i = 0; i < foreign->count; i++)
        if (foreign->column[i] < 0)
            return false;
    return !foreign->is_loose && tide_desk_table(desk, foreign->parent) != NULL;
}

static tide_status mark_loose(const tide_table *table, tide_view names, tide_error *err)
{
    for (int i = 0; i < table->foreign_count; i++) {
        tide_table_foreign *foreign = &table->foreign[i];
        bool is_whole = true;
        for (int k = 0; k < foreign->count; k++)
            is_whole = is_whole && foreign->column[k] >= 0;
        if (!is_whole)
            continue;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer own = tide_buffer_of(NAMES_BYTES_MAX);
        TIDE_TRY(put_reference(&own, table, foreign, err));
        if (tide_view_equal(tide_buffer_view(&own), names))
            foreign->is_loose = true;
    }
    return TIDE_OK;
}

tide_status tide_references_load(tide_desk *desk, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, desk->tx, TIDE_TEMPLATE_REFERENCE_LIST->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        const tide_table *table = tide_desk_table_by_id(desk, tide_foreign_col_i64(query));
        const tide_view names = tide_foreign_col_bytes(query);
        if (table)
            TIDE_TRY(mark_loose(table, names, err));
    }
    return TIDE_OK;
}

/* key: of the orphan, for the event. Empty: a peer has told. */
static tide_status loosen(tide_desk *desk, const tide_table *table, tide_view names, tide_view key,
                          tide_error *err)
{
    TIDE_TRY(tide_foreign_exec(desk->tx, TIDE_TEMPLATE_REFERENCE_PUT->text, NULL, err,
                               tide_bind_i64("table_id", table->id),
                               tide_bind_blob("columns", names),
                               TIDE_BIND_IF(key.len > 0, tide_bind_blob("key", key))));
    return mark_loose(table, names, err);
}

static tide_status loosen_at(tide_desk *desk, const tide_table *table, int reference, tide_view key,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer names = tide_buffer_of(NAMES_BYTES_MAX);
    TIDE_TRY(put_reference(&names, table, &table->foreign[reference], err));
    return loosen(desk, table, tide_buffer_view(&names), key, err);
}

/* ---- parents and children ---- */

/* NULL refers to nothing. */
static bool is_null_among(const tide_sql_value *values, const int *columns, int count)
{
    for (int i = 0; i < count; i++)
        if (columns[i] < 0 || values[columns[i]].kind == TIDE_SQL_VALUE_NULL)
            return true;
    return false;
}

static bool is_equal_among(const tide_sql_value *a, const tide_sql_value *b, const int *columns,
                           int count)
{
    for (int i = 0; i < count; i++)
        if (!tide_sql_value_equal(&a[columns[i]], &b[columns[i]]))
            return false;
    return true;
}

static tide_status has_parent(bool *out, tide_desk *desk, const tide_desk_row *row, int reference,
                              tide_error *err)
{
    const tide_table_foreign *foreign = &row->table->foreign[reference];
    *out = true;
    if (!is_enforced(desk, foreign) || is_null_among(row->values, foreign->column, foreign->count))
        return TIDE_OK;
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query_at, desk->tx, row->table,
                          TIDE_TABLE_FOREIGN_PARENT, reference, err);
    for (int k = 0; k < foreign->count; k++)
        tide_table_bind(query, 'c', foreign->column[k], &row->values[foreign->column[k]]);
    const tide_status status = tide_foreign_step(query, err);
    *out = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_references_hold(bool *out, tide_desk *desk, const tide_desk_row *row,
                                 tide_error *err)
{
    *out = true;
    for (int i = 0; *out && i < row->table->foreign_count; i++)
        TIDE_TRY(has_parent(out, desk, row, i, err));
    return TIDE_OK;
}

/* '3.0' in a column of texts refers to 3 in one of numbers: who looks for 3 among the texts does not
 * find it. */
static bool is_found_by_parent_alone(const tide_table *table, const tide_table_foreign *foreign,
                                     const tide_table *parent)
{
    for (int i = 0; i < foreign->count; i++) {
        const tide_affinity child = table->columns[foreign->column[i]].affinity;
        const tide_affinity of = parent->columns[foreign->parent_column[i]].affinity;
        if ((child == TIDE_AFFINITY_TEXT || child == TIDE_AFFINITY_NONE) &&
            of != TIDE_AFFINITY_TEXT && of != TIDE_AFFINITY_NONE)
            return true;
    }
    return false;
}

tide_status tide_references_children(tide_found *out, tide_desk *desk, const tide_table *child,
                                     int reference, const tide_table *parent,
                                     const tide_sql_value *values, const tide_sql_value *now,
                                     tide_error *err)
{
    tide_table_foreign *foreign = &child->foreign[reference];
    if (!is_enforced(desk, foreign) || tide_desk_table(desk, foreign->parent) != parent ||
        is_null_among(values, foreign->parent_column, foreign->count) ||
        (now && is_equal_among(values, now, foreign->parent_column, foreign->count)))
        return TIDE_OK;
    if (is_found_by_parent_alone(child, foreign, parent)) {
        foreign->is_touched = true;
        return TIDE_OK;
    }
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query_at, desk->tx, child, TIDE_TABLE_FOREIGN_CHILDREN,
                          reference, err);
    for (int k = 0; k < foreign->count; k++)
        tide_table_bind(query, 'c', k, &values[foreign->parent_column[k]]);
    return tide_found_collect(out, desk, child, query, err);
}

tide_status tide_references_orphans(tide_found *out, tide_desk *desk, const tide_table *child,
                                    int reference, tide_error *err)
{
    if (!is_enforced(desk, &child->foreign[reference]))
        return TIDE_OK;
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query_at, desk->tx, child, TIDE_TABLE_FOREIGN_ORPHANS,
                          reference, err);
    return tide_found_collect(out, desk, child, query, err);
}

/* ---- what an application broke ---- */

static tide_status judge_row(tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    for (int i = 0; i < row->table->foreign_count; i++) {
        bool is_there = true;
        TIDE_TRY(has_parent(&is_there, desk, row, i, err));
        if (!is_there)
            TIDE_TRY(loosen_at(desk, row->table, i, row->key, err));
    }
    return TIDE_OK;
}

/* Values that others refer to and that are not known are looked for from the other side. */
static bool is_known_among(const tide_desk_row *row, const tide_table_foreign *foreign)
{
    for (int i = 0; i < foreign->count; i++)
        if (foreign->parent_column[i] < 0 || !row->has[foreign->parent_column[i]])
            return false;
    return true;
}

static tide_status judge_children(tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    for (int t = 0; t < desk->table_count; t++) {
        const tide_table *child = desk->tables[t];
        for (int i = 0; i < child->foreign_count; i++) {
            tide_table_foreign *foreign = &child->foreign[i];
            if (child->is_absent || tide_desk_table(desk, foreign->parent) != row->table)
                continue;
            if (!is_known_among(row, foreign)) {
                foreign->is_touched = true;
                continue;
            }
            TIDE_CLEANUP(tide_found_done) tide_found children = {.keys = NULL};
            TIDE_TRY(tide_references_children(&children, desk, child, i, row->table, row->values,
                                              NULL, err));
            for (int k = 0; k < children.count && !foreign->is_loose; k++) {
                tide_desk_row *found = NULL;
                bool is_there = true;
                TIDE_TRY(tide_desk_row_get(&found, desk, child, children.keys[k], err));
                TIDE_TRY(has_parent(&is_there, desk, found, i, err));
                if (!is_there)
                    TIDE_TRY(loosen_at(desk, child, i, found->key, err));
            }
        }
    }
    return TIDE_OK;
}

/* The parent's row, where the reference is to the key of its table. NULL: it is not, or no clock
 * knows the row. */
static tide_status find_parent(tide_desk_row **out, tide_desk *desk, const tide_desk_row *row,
                               int reference, tide_error *err)
{
    const tide_table_foreign *foreign = &row->table->foreign[reference];
    const tide_table *parent = tide_desk_table(desk, foreign->parent);
    tide_sql_value values[TIDE_EVENT_KEY_MAX];
    tide_view key;
    *out = NULL;
    if (!parent || parent->key_count != foreign->count)
        return TIDE_OK;
    for (int i = 0; i < parent->key_count; i++) {
        int at = 0;
        while (at < foreign->count && foreign->parent_column[at] != parent->key[i])
            at++;
        if (at == foreign->count)
            return TIDE_OK;
        values[i] = tide_table_key_value(parent, parent->key[i], &row->values[foreign->column[at]]);
    }
    const tide_status status = tide_desk_key(&key, desk, values, parent->key_count, err);
    if (status == TIDE_E_LIMIT)
        return TIDE_OK;
    TIDE_TRY(status);
    return tide_desk_row_get(out, desk, parent, key, err);
}

/* Has a program put other values into the row's reference, past the triggers? Clocks do not know. */
static bool is_written_unseen(const tide_desk_row *row, int reference)
{
    const tide_table_foreign *foreign = &row->table->foreign[reference];
    for (int i = 0; i < foreign->count; i++) {
        const size_t at = (size_t)foreign->column[i] * TIDE_TABLE_PRINT_LEN;
        uint8_t print[TIDE_TABLE_PRINT_LEN];
        if (!row->before || at + sizeof print > row->prints.len)
            continue;
        tide_table_print(print, &row->before[foreign->column[i]]);
        if (memcmp(row->prints.ptr + at, print, sizeof print) != 0)
            return true;
    }
    return false;
}

/* Was it an application of this node that left the row without its parent? While one of the tables
 * was not tracked, rows of peers arrived and parents left, and references were not checked. A parent
 * that exists by its clock is quarantined itself, or a program deleted it past the triggers. */
static tide_status is_own_orphan(bool *out, tide_desk *desk, const tide_desk_row *row,
                                 int reference, tide_error *err)
{
    tide_desk_row *parent = NULL;
    *out = is_written_unseen(row, reference);
    if (*out)
        return TIDE_OK;
    TIDE_TRY(find_parent(&parent, desk, row, reference, err));
    const bool is_known = parent && parent->clock.created.stamp.time != 0;
    if (is_known && tide_row_clock_exists(&parent->clock)) {
        *out = parent->aside == TIDE_ASIDE_NONE && !parent->is_here;
        return TIDE_OK;
    }
    const tide_stamp by =
        is_known ? parent->clock.deleted.stamp : tide_row_clock_newest(&row->clock);
    *out = memcmp(&by.node, &desk->node, sizeof by.node) == 0;
    return TIDE_OK;
}

static tide_status judge_touched(tide_desk *desk, const tide_table *table, int reference,
                                 tide_error *err)
{
    TIDE_CLEANUP(tide_found_done) tide_found orphans = {.keys = NULL};
    TIDE_TRY(tide_references_orphans(&orphans, desk, table, reference, err));
    table->foreign[reference].is_touched = desk->is_refer_wanted;
    for (int i = 0; i < orphans.count && !table->foreign[reference].is_loose; i++) {
        tide_desk_row *row = NULL;
        bool is_own = true;
        TIDE_TRY(tide_desk_row_get(&row, desk, table, orphans.keys[i], err));
        if (desk->is_refer_wanted)
            TIDE_TRY(is_own_orphan(&is_own, desk, row, reference, err));
        if (is_own)
            TIDE_TRY(loosen_at(desk, table, reference, row->key, err));
    }
    return TIDE_OK;
}

tide_status tide_references_judge(tide_desk *desk, tide_error *err)
{
    const tide_desk_row *last = desk->last; /* rows that are loaded from here on are children */
    for (tide_desk_row *row = desk->first; row; row = row->next) {
        if (row->is_changed && !row->table->is_absent)
            TIDE_TRY(row->is_here ? judge_row(desk, row, err) : judge_children(desk, row, err));
        if (row == last)
            break;
    }
    for (int t = 0; t < desk->table_count; t++)
        for (int i = 0; i < desk->tables[t]->foreign_count; i++) {
            tide_table_foreign *foreign = &desk->tables[t]->foreign[i];
            if (!foreign->is_touched || desk->tables[t]->is_absent)
                continue;
            TIDE_TRY(judge_touched(desk, desk->tables[t], i, err));
        }
    return TIDE_OK;
}

/* ---- its event ---- */

/* TIDE_NONE: all were reported. */
static tide_status next_unreported(tide_desk *desk, int64_t *table_id, tide_buffer *names,
                                   tide_view *key, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    tide_buffer_clear(names);
    TIDE_TRY_FOUND(tide_foreign_first(&query, desk->tx, TIDE_TEMPLATE_REFERENCE_UNREPORTED->text,
                                      err, TIDE_NO_BIND));
    *table_id = tide_foreign_col_i64(query);
    TIDE_TRY(tide_buffer_append_view(names, tide_foreign_col_bytes(query)));
    const tide_view found = tide_foreign_col_bytes(query);
    const char *copy = tide_arena_copy(&desk->arena, found.ptr, found.len);
    TIDE_NEED_MEMORY(copy, err);
    *key = tide_view_bytes(copy, found.len);
    return TIDE_OK;
}

static tide_status report(tide_desk *desk, tide_log_origin *origin, const tide_table *table,
                          tide_view names, tide_view key, tide_error *err)
{
    int columns[TIDE_EVENT_KEY_MAX];
    const int count = find_columns(columns, table, names);
    if (count < 1)
        return TIDE_OK;
    TIDE_CLEANUP(tide_event_done)
    tide_event event = {.kind = TIDE_ROW_UPDATE, .is_orphan = true, .key_count = table->key_count};
    TIDE_TRY(tide_desk_key_values(event.key, table->key_count, key, err));
    TIDE_ALLOC(event.columns, (size_t)count, err);
    for (int i = 0; i < count; i++)
        event.columns[event.column_count++] =
            (tide_event_column){.column = columns[i], .value = {.kind = TIDE_SQL_VALUE_NULL}};
    return tide_log_add_own(desk, origin, table, &event, err);
}

tide_status tide_references_report(tide_desk *desk, tide_log_origin *origin, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer names = tide_buffer_of(NAMES_BYTES_MAX);
    for (;;) {
        int64_t table_id = 0;
        tide_view key = {.len = 0};
        TIDE_OK_IF_NONE(next_unreported(desk, &table_id, &names, &key, err));
        const tide_table *table = tide_desk_table_by_id(desk, table_id);
        if (table)
            TIDE_TRY(report(desk, origin, table, tide_buffer_view(&names), key, err));
        TIDE_TRY(tide_foreign_exec(desk->tx, TIDE_TEMPLATE_REFERENCE_REPORTED->text, NULL, err,
                                   tide_bind_i64("table_id", table_id),
                                   tide_bind_blob("columns", tide_buffer_view(&names))));
    }
}

tide_status tide_references_apply(tide_hold *why, tide_desk *desk, const tide_table *table,
                                  const tide_event *event, tide_error *err)
{
    int map[TIDE_EVENT_COLUMNS_MAX];
    const char *names[TIDE_EVENT_KEY_MAX];
    *why = TIDE_HOLD_COLUMN;
    if (event->schema != table->schema) {
        TIDE_OK_IF_NONE(tide_schemas_map(map, desk->tx, table, event->schema, err));
    }
    if (event->column_count > TIDE_EVENT_KEY_MAX)
        return TIDE_OK;
    int count = 0;
    for (int i = 0; i < event->column_count; i++) {
        const int given = event->columns[i].column;
        const int column = event->schema != table->schema ? map[given] : given;
        if (column == TIDE_SCHEMA_COLUMN_NONE || column >= table->column_count)
            return TIDE_OK;
        if (column >= 0)
            names[count++] = table->columns[column].name;
    }
    *why = TIDE_HOLD_NOT;
    if (count == 0 || count < event->column_count)
        return TIDE_OK; /* a column was dropped, and the reference with it */
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(NAMES_BYTES_MAX);
    TIDE_TRY(put_names(&bytes, names, count, err));
    desk->is_refer_wanted = true; /* what it held back comes in */
    return loosen(desk, table, tide_buffer_view(&bytes), (tide_view){.len = 0}, err);
}

/* ---- migrations ---- */

/* The references of a table, each a length of 4 bytes and names. */
static tide_status read_all(tide_buffer *out, tide_foreign_tx *tx, int64_t table_id,
                            tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_REFERENCE_OF_TABLE->text, err,
                       tide_bind_i64("table_id", table_id));
    TIDE_EACH(tide_foreign_step(query, err)) {
        const tide_view names = tide_foreign_col_bytes(query);
        if (tide_buffer_append_u32(out, (uint32_t)names.len) < TIDE_OK ||
            tide_buffer_append_view(out, names) < TIDE_OK)
            return tide_no_memory(err);
    }
    return TIDE_OK;
}

/* False: the end, or bytes that are none of these. */
static bool next_reference(tide_reader *from, tide_view *out)
{
    uint32_t len = 0;
    return tide_reader_left(from) > 0 && tide_reader_u32(from, &len) >= TIDE_OK &&
           tide_reader_bytes(from, len, out) >= TIDE_OK && len > 0 && out->ptr[len - 1] == '\0';
}

tide_status tide_references_follow(tide_foreign_tx *tx, const tide_table *before,
                                   const tide_table *after, const int *map, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer all = tide_buffer_of(NAMES_BYTES_MAX);
    TIDE_TRY(read_all(&all, tx, before->id, err));
    tide_reader from = tide_reader_of(tide_buffer_view(&all));
    tide_view names;
    while (next_reference(&from, &names)) {
        int columns[TIDE_EVENT_KEY_MAX];
        const char *renamed[TIDE_EVENT_KEY_MAX];
        const int count = find_columns(columns, before, names);
        int kept = 0;
        for (int i = 0; i < count; i++)
            if (map[columns[i]] >= 0)
                renamed[kept++] = after->columns[map[columns[i]]].name;
        if (count < 1 || kept < count)
            continue;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer now = tide_buffer_of(NAMES_BYTES_MAX);
        TIDE_TRY(put_names(&now, renamed, kept, err));
        TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_REFERENCE_RENAME->text, NULL, err,
                                   tide_bind_i64("table_id", before->id),
                                   tide_bind_blob("columns", names),
                                   tide_bind_blob("renamed", tide_buffer_view(&now))));
    }
    return TIDE_OK;
}

/* ---- snapshots ---- */

tide_status tide_references_list(tide_foreign_tx *tx, int64_t table_id, tide_peer_table *out,
                                 tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer all = tide_buffer_of(NAMES_BYTES_MAX);
    TIDE_TRY(read_all(&all, tx, table_id, err));
    if (all.len == 0)
        return TIDE_OK;
    char *copy = malloc(all.len);
    TIDE_NEED_MEMORY(copy, err);
    memcpy(copy, all.ptr, all.len);
    out->loose = tide_view_bytes(copy, all.len);
    return TIDE_OK;
}

/* What a column of the other's table is called here; NULL: it is not here. */
static const char *find_name(const tide_peer_table *told, const tide_table *here, const int *map,
                             const char *name)
{
    const int same = tide_table_find_column(here, name);
    if (same >= 0 || !map)
        return same >= 0 ? here->columns[same].name : NULL;
    for (int s = 0; s < told->schema_count; s++) {
        int position = 0;
        if (told->schemas[s].schema != told->schema)
            continue;
        for (tide_view at = tide_schemas_name(told->schemas[s].columns, position); at.len > 0;
             at = tide_schemas_name(told->schemas[s].columns, ++position))
            if (at.len == strlen(name) && strncasecmp(at.ptr, name, at.len) == 0)
                return map[position] >= 0 ? here->columns[map[position]].name : NULL;
    }
    return NULL;
}

tide_status tide_references_learn(tide_foreign_tx *tx, const tide_peer_table *told,
                                  const tide_table *here, tide_error *err)
{
    int map[TIDE_EVENT_COLUMNS_MAX];
    tide_reader from = tide_reader_of(told->loose);
    tide_view names;
    if (here->id == 0 || told->loose.len == 0)
        return TIDE_OK;
    const tide_status is_known = tide_schemas_map(map, tx, here, told->schema, err);
    TIDE_TRY(is_known);
    while (next_reference(&from, &names)) {
        const char *ours[TIDE_EVENT_KEY_MAX];
        int count = 0;
        bool is_whole = true;
        for (size_t at = 0; at < names.len && is_whole; at += strlen(names.ptr + at) + 1) {
            const char *name =
                find_name(told, here, is_known == TIDE_OK ? map : NULL, names.ptr + at);
            is_whole = name && count < TIDE_EVENT_KEY_MAX;
            if (is_whole)
                ours[count++] = name;
        }
        if (!is_whole)
            continue;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(NAMES_BYTES_MAX);
        TIDE_TRY(put_names(&bytes, ours, count, err));
        TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_REFERENCE_PUT->text, NULL, err,
                                   tide_bind_i64("table_id", here->id),
                                   tide_bind_blob("columns", tide_buffer_view(&bytes))));
        TIDE_TRY(
            tide_foreign_exec(tx, TIDE_TEMPLATE_APPLY_REFER_WANT->text, NULL, err, TIDE_NO_BIND));
    }
    return TIDE_OK;
}
