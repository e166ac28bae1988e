/* check.c - is everything still captured? Triggers and schemas compared with what was recorded (capture.h). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/list.h"
#include "replica/capture.h"
#include "replica/node_parts.h"
#include "replica/references.h"
#include "replica/reshape.h"
#include "replica/schemas.h"
#include "replica/table_parts.h"
#include "store/foreign/foreign_triggers.h"
#include "store/foreign/migration_lock.h"
#include "tidemark_templates.h"

typedef struct name_list {
    char **names;
    int64_t *ids;
    int count;
} name_list;

static void name_list_done(name_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->names[i]);
    free((void *)list->names);
    free(list->ids);
}

static tide_status add_name(name_list *list, tide_view name, int64_t id, tide_error *err)
{
    TIDE_TRY(tide_list_room((void *)&list->names, list->count, sizeof(char *), TIDE_LIST_MAX, err));
    TIDE_TRY(tide_list_room(&list->ids, list->count, sizeof *list->ids, TIDE_LIST_MAX, err));
    char *copy = tide_table_copy(name);
    TIDE_NEED_MEMORY(copy, err);
    list->names[list->count] = copy;
    list->ids[list->count++] = id;
    return TIDE_OK;
}

typedef struct checking {
    tide_foreign_tx *tx;
    const char *name;
    tide_capture_found *out;
    tide_capture_found here; /* what this transaction adds */
    bool is_scan_wanted;
    bool is_again; /* fold, then look once more */
    char scan_name[TIDE_EVENT_TABLE_MAX + 1];
} checking;

__attribute__((format(printf, 2, 3))) static void report(tide_capture_found *out,
                                                         const char *format, ...)
{
    const size_t len = strlen(out->report);
    if (len + 4 > sizeof out->report)
        return;
    char *at = out->report + len;
    size_t left = sizeof out->report - len;
    if (len > 0) {
        (void)snprintf(at, left, "; ");
        at += 2;
        left -= 2;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(at, left, format, args);
    va_end(args);
}

/* ---- aligning the live columns with the recorded ones ---- */

/* SQLite renames columns in triggers, too: the insert trigger names them all, in the recorded order. False: it is not there, or not ours. */
static bool read_hook_names(name_list *out, tide_view sql)
{
    static const char begin[] = "NEW.\"";
    const char *at = sql.ptr;
    const char *end = sql.ptr + sql.len;
    while ((at = memmem(at, (size_t)(end - at), begin, sizeof begin - 1))) {
        char name[1024];
        size_t len = 0;
        for (at += sizeof begin - 1; at < end; at++) {
            if (*at == '"' && (at + 1 == end || at[1] != '"'))
                break;
            at += *at == '"';
            if (len + 1 < sizeof name)
                name[len++] = *at;
        }
        if (add_name(out, tide_view_bytes(name, len), 0, NULL) < TIDE_OK)
            return false;
    }
    return true;
}

static tide_status find_hook_names(name_list *out, tide_foreign_tx *tx, const tide_table *recorded,
                                   tide_error *err)
{
    char hook[64];
    (void)snprintf(hook, sizeof hook, "tide_capture_%" PRId64 "_insert", recorded->id);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_OK_IF_NONE(tide_foreign_first(&query, tx, TIDE_TEMPLATE_HOOK_TEXT->text, err,
                                       tide_bind_text("name", hook),
                                       tide_bind_text("table_name", recorded->name)));
    if (!read_hook_names(out, tide_foreign_col_bytes(query)) ||
        out->count != recorded->column_count) {
        name_list_done(out);
        *out = (name_list){.count = 0};
    }
    return TIDE_OK;
}

/* Without triggers: columns in the same order as before, some under names that are new, are renamed ones. */
static bool is_same_order(const tide_table *live, const tide_table *recorded)
{
    for (int i = 0; i < recorded->column_count; i++) {
        if (i >= live->column_count)
            return false;
        const char *was = recorded->columns[i].name;
        const char *is = live->columns[i].name;
        if (strcasecmp(was, is) != 0 &&
            (tide_table_find_column(live, was) >= 0 || tide_table_find_column(recorded, is) >= 0))
            return false;
    }
    return true;
}

/* The live column that a recorded one has become. -1: dropped. */
static int find_successor(const tide_table *live, const tide_table *recorded,
                          const name_list *hooks, bool in_order, int column)
{
    if (hooks->count > 0)
        return tide_table_find_column(live, hooks->names[column]);
    const int same = tide_table_find_column(live, recorded->columns[column].name);
    return same < 0 && in_order ? column : same;
}

static void move_columns(tide_table *live, const int *place)
{
    for (int i = 0; i < live->key_count; i++)
        live->key[i] = place[live->key[i]] - 1;
    for (int u = 0; u < live->unique_count; u++)
        for (int t = 0; t < live->uniques[u].term_count; t++)
            if (live->uniques[u].terms[t].column >= 0)
                live->uniques[u].terms[t].column = place[live->uniques[u].terms[t].column] - 1;
    for (int f = 0; f < live->foreign_count; f++)
        for (int c = 0; c < live->foreign[f].count; c++)
            if (live->foreign[f].column[c] >= 0)
                live->foreign[f].column[c] = place[live->foreign[f].column[c]] - 1;
}

/* Put the live columns in the recorded order, new ones behind: a column's position is what clocks know it by. map: for each recorded column its
 * place from now on; below 0: it was dropped. *kept: how many were not. */
static tide_status align(tide_table *live, const tide_table *recorded, tide_foreign_tx *tx,
                         int *map, int *kept, tide_error *err)
{
    TIDE_CLEANUP(name_list_done) name_list hooks = {.count = 0};
    TIDE_TRY(find_hook_names(&hooks, tx, recorded, err));
    const bool in_order = is_same_order(live, recorded);
    const size_t count = (size_t)live->column_count;
    TIDE_CLEANUP(tide_freep) tide_table_column *columns = calloc(count, sizeof *columns);
    TIDE_CLEANUP(tide_freep) int *place = calloc(count, sizeof *place); /* from 1; 0: not yet */
    TIDE_NEED_MEMORY(columns && place, err);
    int used = 0;
    for (int i = 0; i < recorded->column_count; i++) {
        const int at = find_successor(live, recorded, &hooks, in_order, i);
        map[i] = -1;
        if (at < 0 || place[at] > 0)
            continue;
        map[i] = used;
        place[at] = ++used;
    }
    *kept = used;
    for (int i = 0; i < live->column_count; i++) {
        if (place[i] == 0)
            place[i] = ++used;
        columns[place[i] - 1] = live->columns[i];
    }
    move_columns(live, place);
    memcpy(live->columns, columns, count * sizeof *columns);
    return tide_table_digest_schema(live, err);
}

static bool is_same_key(const tide_table *live, const tide_table *recorded, const int *map)
{
    for (int i = 0; i < live->key_count && live->key_count == recorded->key_count; i++)
        if (map[recorded->key[i]] != live->key[i])
            return false;
    return live->key_count == recorded->key_count;
}

tide_status tide_capture_fits(bool *out, const tide_table *recorded, tide_foreign_tx *tx,
                              tide_error *err)
{
    int kept = 0;
    TIDE_CLEANUP(tide_table_done) tide_table live = {0};
    TIDE_CLEANUP(tide_freep)
    int *map = calloc((size_t)recorded->column_count + 1, sizeof *map);
    TIDE_NEED_MEMORY(map, err);
    TIDE_TRY(tide_table_read(&live, tx, recorded->name, err));
    TIDE_TRY(align(&live, recorded, tx, map, &kept, err));
    *out = is_same_key(&live, recorded, map);
    return TIDE_OK;
}

/* ---- renamed tables ---- */

/* The application may have renamed it: its triggers went along. */
static tide_status find_new_name(tide_foreign_tx *tx, int64_t id, const tide_template *template,
                                 char out[TIDE_EVENT_TABLE_MAX + 1], tide_error *err)
{
    TIDE_FOREIGN_QUERY_ONE(query, tx, template->text, err, tide_bind_i64("table_id", id));
    const tide_view name = tide_foreign_col_bytes(query);
    if (name.len > TIDE_EVENT_TABLE_MAX)
        return tide_fail(err, TIDE_E_UNSUPPORTED, "a table's name has at most %d bytes",
                         TIDE_EVENT_TABLE_MAX);
    memcpy(out, name.ptr, name.len);
    out[name.len] = '\0';
    return TIDE_OK;
}

static tide_status list_lost(name_list *out, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_NAMES_LOST->text, err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        const int64_t id = tide_foreign_col_i64(query);
        TIDE_TRY(add_name(out, tide_foreign_col_bytes(query), id, err));
    }
    return TIDE_OK;
}

tide_status tide_capture_follow(tide_foreign_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(name_list_done) name_list lost = {.count = 0};
    TIDE_TRY(list_lost(&lost, tx, err));
    for (int i = 0; i < lost.count; i++) {
        char name[TIDE_EVENT_TABLE_MAX + 1];
        tide_status status = find_new_name(tx, lost.ids[i], TIDE_TEMPLATE_HOOK_HOME, name, err);
        if (status == TIDE_NONE) /* renamed, and made anew under the name that it had before */
            status = find_new_name(tx, lost.ids[i], TIDE_TEMPLATE_NAMES_BACK, name, err);
        TIDE_TRY(status);
        if (status == TIDE_OK)
            TIDE_TRY(tide_schemas_rename(tx, lost.ids[i], lost.names[i], name, err));
    }
    return TIDE_OK;
}

/* Said once, by the first look after it. */
static tide_status tell_renamed(checking *c, const tide_table *live, tide_error *err)
{
    {
        TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
        TIDE_OK_IF_NONE(tide_foreign_first(&query, c->tx, TIDE_TEMPLATE_NAMES_NOTED->text, err,
                                           tide_bind_i64("table_id", live->id)));
        const tide_view before = tide_foreign_col_bytes(query);
        c->here.changed++;
        report(
            &c->here,
            "table %.*s is called %s now: rename it on the other nodes as well (a new table %.*s "
            "is not captured)",
            (int)before.len, before.ptr, live->name, (int)before.len, before.ptr);
    }
    TIDE_TRY(tide_foreign_exec(c->tx, TIDE_TEMPLATE_NAMES_TOLD->text, NULL, err,
                               tide_bind_i64("table_id", live->id)));
    return tide_capture_take_events(c->tx, live, err);
}

/* ---- one table ---- */

/* Rows that have something else than the default in a column that was added; all, where a column of that name was there before: whatever old events
 * say of that one, this is what it is now. */
static tide_status log_added(tide_foreign_tx *tx, const tide_table *table, const bool *is_added,
                             bool is_all, int64_t *found, tide_error *err)
{
    int added[TIDE_TABLE_COLUMNS_MAX];
    int count = 0;
    TIDE_CLEANUP(tide_freep)
    tide_sql_value *values = calloc((size_t)table->column_count, sizeof *values);
    TIDE_NEED_MEMORY(values, err);
    for (int i = 0; i < table->column_count; i++)
        if (is_added[i])
            added[count++] = i;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (is_all)
        TIDE_TRY(tide_table_query(&query, tx, table, TIDE_TABLE_ROW_WALK, err));
    else
        TIDE_TRY(
            tide_table_query_some(&query, tx, table, TIDE_TABLE_ROW_WALK_ADDED, added, count, err));
    TIDE_EACH(tide_foreign_step(query, err)) {
        for (int i = 0; i < table->column_count; i++)
            values[i] = tide_foreign_col(query);
        TIDE_TRY(tide_capture_log(tx, table, TIDE_ROW_UPDATE, values, is_added, err));
        ++*found;
    }
    return TIDE_OK;
}

static bool is_same_default(const tide_table_column *a, const tide_table_column *b)
{
    return a->fallback && b->fallback ? strcmp(a->fallback, b->fallback) == 0
                                      : a->fallback == b->fallback;
}

static bool has_new_default(const tide_table *live, const tide_table *recorded, const int *map)
{
    for (int i = 0; i < recorded->column_count; i++)
        if (map[i] >= 0 && !is_same_default(&live->columns[map[i]], &recorded->columns[i]))
            return true;
    return false;
}

/* The prints of the defaults that the recorded columns had. */
static tide_status print_defaults(tide_buffer *out, tide_foreign_tx *tx, const tide_table *recorded,
                                  tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, tx, recorded, TIDE_TABLE_DEFAULTS, err);
    TIDE_TRY(tide_foreign_step(query, err));
    for (int i = 0; i < recorded->column_count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        TIDE_TRY(tide_table_prints(out, &value, 1, err));
    }
    return TIDE_OK;
}

/* Columns of which a row may have the former default without an event that carries it: a peer would
 * fill in the new one. */
static bool find_implicit(bool *is_written, const tide_table *file, const tide_table *recorded,
                          const int *map, const char *prints, const tide_sql_value *values)
{
    bool is_found = false;
    memset(is_written, 0, (size_t)file->column_count * sizeof *is_written);
    for (int i = 0; i < recorded->column_count; i++) {
        uint8_t print[TIDE_TABLE_PRINT_LEN];
        const tide_table_column *column = &file->columns[map[i]];
        if (column->is_key || is_same_default(column, &recorded->columns[i]))
            continue;
        tide_table_print(print, &values[map[i]]);
        is_written[map[i]] = memcmp(print, prints + (size_t)i * sizeof print, sizeof print) == 0;
        is_found = is_found || is_written[map[i]];
    }
    return is_found;
}

/* A column has another DEFAULT: rows that got the former one when the column was added have it by an
 * event from now on. */
static tide_status log_implicit(tide_foreign_tx *tx, const tide_table *file,
                                const tide_table *recorded, const int *map, int64_t *found,
                                tide_error *err)
{
    if (!has_new_default(file, recorded, map))
        return TIDE_OK;
    TIDE_BUFFER(prints, (size_t)TIDE_TABLE_COLUMNS_MAX * TIDE_TABLE_PRINT_LEN);
    TIDE_CLEANUP(tide_freep)
    tide_sql_value *values = calloc((size_t)file->column_count, sizeof *values);
    TIDE_CLEANUP(tide_freep)
    bool *is_written = calloc((size_t)file->column_count, sizeof *is_written);
    TIDE_NEED_MEMORY(values && is_written, err);
    TIDE_TRY(print_defaults(&prints, tx, recorded, err));
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, tx, file, TIDE_TABLE_ROW_WALK, err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        for (int i = 0; i < file->column_count; i++)
            values[i] = tide_foreign_col(query);
        if (!find_implicit(is_written, file, recorded, map, prints.ptr, values))
            continue;
        TIDE_TRY(tide_capture_log(tx, file, TIDE_ROW_UPDATE, values, is_written, err));
        ++*found;
    }
    return TIDE_OK;
}

static tide_status had_before(bool *out, tide_foreign_tx *tx, const tide_table *table,
                              const bool *is_added, tide_error *err)
{
    *out = false;
    for (int i = 0; !*out && i < table->column_count; i++)
        if (is_added[i])
            TIDE_TRY(tide_schemas_had(out, tx, table, table->columns[i].name, err));
    return TIDE_OK;
}

/* Where each recorded column stands in the table itself. False: as it is recorded. */
static bool map_to_file(int *map, bool *is_added, const tide_table *file, const tide_table *aligned,
                        int recorded)
{
    bool is_moved = false;
    for (int i = 0; i < file->column_count; i++)
        is_added[i] = true;
    for (int i = 0; i < recorded; i++) {
        map[i] = tide_table_find_column(file, aligned->columns[i].name);
        is_added[map[i]] = false;
        is_moved = is_moved || map[i] != i;
    }
    return is_moved;
}

static tide_status tell_repair(checking *c, const tide_table *file, const tide_table *recorded,
                               bool is_lost, tide_error *err)
{
    if (file->schema != recorded->schema) {
        c->here.changed++;
        report(&c->here, "table %s has another schema: %d columns (%d before)", file->name,
               file->column_count, recorded->column_count);
    }
    if (!is_lost)
        return TIDE_OK;
    c->here.lost_tables++;
    report(&c->here, "table %s was not captured any more (rebuilt?): it is captured again",
           file->name);
    return tide_capture_want_scan(c->tx, file->id, err);
}

/* Renamed, and another made under its name, between two looks: as a rebuild does before it drops the first. The triggers that went along go. */
static tide_status tell_left(checking *c, const tide_table *file, tide_error *err)
{
    char name[TIDE_EVENT_TABLE_MAX + 1];
    const tide_status status = find_new_name(c->tx, file->id, TIDE_TEMPLATE_HOOK_HOME, name, err);
    TIDE_TRY(status);
    if (status == TIDE_OK && strcasecmp(name, file->name) != 0)
        report(
            &c->here,
            "table %s was renamed to %s, and another %s made: that one goes on in its place, and "
            "%s is captured no more (track it, if it shall be)",
            file->name, name, file->name, name);
    return TIDE_OK;
}

/* Triggers, log and record are made anew, with the columns in the table's own order; what was not captured is found. */
static tide_status repair(checking *c, const tide_table *live, const tide_table *recorded,
                          bool is_lost, tide_error *err)
{
    const int before = recorded->column_count;
    bool had = false;
    TIDE_CLEANUP(tide_table_done) tide_table file = {0};
    TIDE_CLEANUP(tide_freep) int *map = calloc((size_t)before + 1, sizeof *map);
    TIDE_CLEANUP(tide_freep)
    bool *is_added = calloc((size_t)live->column_count + 1, sizeof *is_added);
    TIDE_NEED_MEMORY(map && is_added, err);
    TIDE_TRY(tide_table_read(&file, c->tx, live->name, err));
    file.id = recorded->id;
    if (map_to_file(map, is_added, &file, live, before))
        TIDE_TRY(tide_reshape(c->tx, recorded, &file, map, err));
    TIDE_TRY(had_before(&had, c->tx, &file, is_added, err));
    TIDE_TRY(tell_left(c, &file, err));
    TIDE_TRY(tide_capture_install(c->tx, &file, recorded->retain_us, err));
    TIDE_TRY(tell_repair(c, &file, recorded, is_lost, err));
    TIDE_TRY(log_implicit(c->tx, &file, recorded, map, &c->here.rescanned, err));
    if (file.column_count > before && (had || !is_lost)) /* the scan sees the others */
        return log_added(c->tx, &file, is_added, had, &c->here.rescanned, err);
    return TIDE_OK;
}

static tide_status end_capture(checking *c, const tide_table *recorded, const char *why,
                               tide_error *err)
{
    c->here.changed++;
    report(&c->here, "table %s: %s: it is not captured any more, track it anew", recorded->name,
           why);
    return tide_capture_remove(c->tx, recorded, err);
}

/* The defaults that the live columns have, or those that the recorded ones had. */
static void swap_defaults(const tide_table *live, const tide_table *recorded, const int *map)
{
    for (int i = 0; i < recorded->column_count; i++) {
        if (map[i] < 0)
            continue;
        char *kept = live->columns[map[i]].fallback;
        live->columns[map[i]].fallback = recorded->columns[i].fallback;
        recorded->columns[i].fallback = kept;
    }
}

/* What was captured is folded under the names that table and columns have by now, before columns that
 * were added and defaults that changed are recorded. */
static tide_status record_kept(tide_foreign_tx *tx, tide_table *live, const tide_table *recorded,
                               const int *map, int kept, tide_error *err)
{
    const int count = live->column_count;
    TIDE_TRY(tide_schemas_follow(tx, recorded, live, map, err));
    TIDE_TRY(tide_references_follow(tx, recorded, live, map, err));
    live->column_count = kept;
    swap_defaults(live, recorded, map);
    tide_status status = tide_table_digest_schema(live, err);
    if (status == TIDE_OK)
        status = tide_capture_record(tx, live, recorded->retain_us, err);
    swap_defaults(live, recorded, map);
    live->column_count = count;
    return status < TIDE_OK ? status : tide_table_digest_schema(live, err);
}

/* Clocks, images and what was captured lose the columns that are no more; the rest is as if they had never been. */
static tide_status drop_columns(checking *c, tide_table *live, const tide_table *recorded,
                                const int *map, int kept, tide_error *err)
{
    c->here.changed++;
    for (int i = 0; i < recorded->column_count; i++)
        if (map[i] < 0)
            report(&c->here, "table %s has lost its column %s: drop it on the other nodes as well",
                   live->name, recorded->columns[i].name);
    const int count = live->column_count;
    live->column_count = kept;
    const tide_status status = tide_reshape(c->tx, recorded, live, map, err);
    live->column_count = count;
    TIDE_TRY(status);
    TIDE_TRY(record_kept(c->tx, live, recorded, map, kept, err));
    c->is_again = true;
    return tide_capture_want_scan(c->tx, live->id, err);
}

/* Are the triggers those that the recorded columns have, under the names of today? */
static tide_status look_at_hooks(bool *is_whole, tide_foreign_tx *tx, tide_table *live, int kept,
                                 tide_error *err)
{
    const int count = live->column_count;
    live->column_count = kept;
    const tide_status status = tide_capture_look(tx, live, is_whole, err);
    live->column_count = count;
    return status;
}

static tide_status compare_aligned(checking *c, tide_table *live, const tide_table *recorded,
                                   const int *map, int kept, tide_error *err)
{
    bool is_whole = false;
    bool is_folded = false;
    TIDE_TRY(tell_renamed(c, live, err));
    if (kept < recorded->column_count)
        return drop_columns(c, live, recorded, map, kept, err);
    TIDE_TRY(look_at_hooks(&is_whole, c->tx, live, kept, err));
    TIDE_TRY(tide_capture_scan_wanted(c->tx, recorded->id, &c->is_scan_wanted, err));
    if (is_whole && live->schema == recorded->schema && !has_new_default(live, recorded, map))
        return TIDE_OK;
    TIDE_TRY(tide_capture_take_events(c->tx, live, err));
    TIDE_TRY(tide_capture_is_folded(c->tx, recorded, &is_folded, err));
    TIDE_TRY(record_kept(c->tx, live, recorded, map, kept, err));
    c->is_again = !is_folded;
    if (!is_folded)
        return TIDE_OK;
    TIDE_TRY(repair(c, live, recorded, !is_whole, err));
    c->is_scan_wanted = c->is_scan_wanted || !is_whole;
    return TIDE_OK;
}

static tide_status compare(checking *c, const tide_table *recorded, tide_error *err)
{
    int kept = 0;
    TIDE_CLEANUP(tide_table_done) tide_table live = {0};
    TIDE_CLEANUP(tide_freep)
    int *map = calloc((size_t)recorded->column_count + 1, sizeof *map);
    TIDE_NEED_MEMORY(map, err);
    const tide_status status = tide_table_read(&live, c->tx, recorded->name, err);
    if (status == TIDE_E_UNSUPPORTED)
        return end_capture(c, recorded, "it has no usable key now", err);
    TIDE_TRY(status);
    live.id = recorded->id;
    (void)snprintf(c->scan_name, sizeof c->scan_name, "%s", live.name);
    TIDE_TRY(align(&live, recorded, c->tx, map, &kept, err));
    if (!is_same_key(&live, recorded, map))
        return end_capture(c, recorded, "it has another key now", err);
    return compare_aligned(c, &live, recorded, map, kept, err);
}

static tide_status check_table(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    checking *c = arg;
    c->tx = tx;
    c->here = (tide_capture_found){0};
    c->is_scan_wanted = false;
    c->is_again = false;
    TIDE_CLEANUP(tide_table_done) tide_table recorded = {0};
    TIDE_OK_IF_NONE(tide_table_find(&recorded, tx, c->name, err));
    if (!recorded.is_absent)
        return compare(c, &recorded, err);
    c->here.changed++;
    report(&c->here, "table %s is gone: it is captured again when it comes back", recorded.name);
    return TIDE_OK;
}

/* ---- all tables ---- */

/* Everything that a look compares stands in the file's schema, whose version rises with every change, or is noted to be done. So a look at a version
 * that was looked at, when nothing is noted, need not read the tables: an application may have hundreds. */
typedef struct looking {
    const tide_node *node;
    name_list tables;
    uint64_t state; /* epoch and schema_version: tide_node.looked after a look that found nothing */
    bool is_due;
    char failure[1024]; /* of a trigger, for a row of a peer; "": none */
    char problem[1024]; /* with a trigger; "": none */
} looking;

static tide_status read_version(tide_foreign_tx *tx, looking *l, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx, TIDE_TEMPLATE_REPLICA_LOOK_STATE->text,
                          err, TIDE_NO_BIND);
    const uint32_t version = (uint32_t)tide_foreign_col_i64(query);
    const bool is_noted = tide_foreign_col_i64(query) != 0;
    l->state = (uint64_t)tide_node_epoch(l->node) << 32 | version;
    l->is_due = is_noted || l->state != atomic_load(&l->node->looked);
    return TIDE_OK;
}

static tide_status list_tables(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    looking *l = arg;
    TIDE_TRY(tide_capture_follow(tx, err));
    if (!l->failure[0]) /* a closure may run again */
        (void)tide_foreign_trigger_failure(tx, l->failure, sizeof l->failure);
    name_list_done(&l->tables); /* a closure may run again */
    l->tables = (name_list){.count = 0};
    TIDE_TRY(read_version(tx, l, err));
    if (!l->is_due)
        return TIDE_OK;
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_REPLICA_TABLE_NAMES->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err))
        TIDE_TRY(add_name(&l->tables, tide_foreign_col_bytes(query), 0, err));
    return TIDE_OK;
}

static void looking_done(looking *l)
{
    name_list_done(&l->tables);
}

/* A trigger that came after its table was tracked, and would have been refused then. */
static tide_status look_at_triggers(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    looking *l = arg;
    tide_error why;
    const tide_status status = tide_triggers_check(tx, &why);
    if (status < TIDE_OK && status != TIDE_E_UNSUPPORTED)
        return tide_fail(err, status, "%s", why.text);
    (void)snprintf(l->problem, sizeof l->problem, "%s", status < TIDE_OK ? why.text : "");
    return TIDE_OK;
}

static tide_status report_triggers(tide_node *node, looking *l, tide_capture_found *out,
                                   tide_error *err)
{
    if (l->failure[0])
        report(out, "a trigger failed for a row of a peer, which was written without it: %s",
               l->failure);
    if (!l->is_due || l->tables.count == 0)
        return TIDE_OK;
    TIDE_TRY(tide_foreign_write(node->file, look_at_triggers, l, err));
    if (l->problem[0])
        report(out, "%s; until then it does not run for rows of peers", l->problem);
    return TIDE_OK;
}

static void add_found(tide_capture_found *out, const tide_capture_found *here)
{
    out->lost_tables += here->lost_tables;
    out->rescanned += here->rescanned;
    out->changed += here->changed;
    if (here->report[0])
        report(out, "%s", here->report);
}

static tide_status begin_check(tide_node *node, checking *c, tide_error *err)
{
    TIDE_TRY(tide_foreign_write(node->file, check_table, c, err));
    add_found(c->out, &c->here);
    return TIDE_OK;
}

static tide_status finish_check(tide_node *node, checking *c, tide_error *err)
{
    enum { TURNS_MAX = 100 };
    for (int turn = 0; c->is_again && turn < TURNS_MAX; turn++) {
        TIDE_TRY(tide_capture_fold_all(node, err));
        TIDE_TRY(begin_check(node, c, err));
    }
    if (c->is_again)
        return tide_fail(err, TIDE_E_BUSY, "table %s is written to without a pause", c->name);
    int64_t imported = 0;
    TIDE_TRY(tide_capture_import(node->file, c->name, &imported, err));
    if (imported > 0)
        report(c->out, "%" PRId64 " events of table %s were imported", imported, c->name);
    if (!c->is_scan_wanted)
        return TIDE_OK;
    int64_t found = 0;
    TIDE_TRY(tide_capture_rescan(node->file, c->scan_name, &found, err));
    c->out->rescanned += found;
    return TIDE_OK;
}

tide_status tide_capture_check(tide_node *node, const char *table, tide_capture_found *out,
                               tide_error *err)
{
    checking c = {.name = table, .out = out};
    TIDE_TRY(begin_check(node, &c, err));
    return finish_check(node, &c, err);
}

void tide_node_on_report(tide_node *node, tide_report_fn *fn, void *arg)
{
    node->report = fn;
    node->report_arg = arg;
}

static void tell(tide_node *node, const tide_capture_found *found)
{
    uint64_t digest = 0;
    const tide_digest128 all = tide_digest128_of(tide_view_of(found->report));
    memcpy(&digest, all.bytes, sizeof digest);
    if (node->report && atomic_exchange(&node->reported, digest) != digest && found->report[0])
        node->report(node->report_arg, found->report);
}

tide_status tide_node_check(tide_node *node, tide_capture_found *out, tide_error *err)
{
    *out = (tide_capture_found){0};
    if (tide_node_epoch(node) == 0)
        return TIDE_OK;
    if (tide_foreign_is_paused(tide_foreign_path(node->file))) {
        report(out, "a migration is under way: the file is looked at when it has ended");
        return TIDE_OK;
    }
    TIDE_CLEANUP(looking_done) looking l = {.node = node};
    TIDE_TRY(tide_foreign_write(node->file, list_tables, &l, err));
    TIDE_CLEANUP(tide_freep) checking *checks = calloc((size_t)l.tables.count + 1, sizeof *checks);
    TIDE_NEED_MEMORY(checks, err);
    tide_status status = TIDE_OK;
    /* All of them before anything is folded: that reads every table by its recorded columns. */
    for (int i = 0; i < l.tables.count && status >= TIDE_OK; i++) {
        checks[i] = (checking){.name = l.tables.names[i], .out = out};
        status = begin_check(node, &checks[i], err);
        out->looked++;
    }
    for (int i = 0; i < l.tables.count && status >= TIDE_OK; i++)
        status = finish_check(node, &checks[i], err);
    if (status >= TIDE_OK)
        status = report_triggers(node, &l, out, err);
    tell(node, out);
    if (status < TIDE_OK)
        return status;
    if (l.is_due && out->changed + out->rescanned + out->lost_tables == 0 && !out->report[0])
        atomic_store(&node->looked, l.state);
    return TIDE_OK;
}
