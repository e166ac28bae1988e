/* check.c - is everything still captured? Triggers and schemas compared with what was recorded (capture.h, DECISIONS 28). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "replica/capture.h"
#include "replica/node_parts.h"
#include "replica/table_parts.h"
#include "tidemark_templates.h"

typedef struct names {
    char **list;
    int count;
} names;

static void names_done(names *n)
{
    for (int i = 0; i < n->count; i++)
        free(n->list[i]);
    free(n->list);
}

typedef struct checking {
    tide_app_tx *tx;
    const char *name;
    tide_capture_found *out;
    tide_capture_found here; /* what this transaction adds */
    bool is_scan_wanted;
    bool is_fold_wanted;
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

/* The live column that a recorded one has become: by name, or at its own place if that is no other's name. -1: dropped. */
static int find_successor(const tide_table *live, const tide_table *recorded, int column)
{
    const int same = tide_table_find_column(live, recorded->columns[column].name);
    if (same >= 0)
        return same;
    if (column < live->column_count && live->column_count >= recorded->column_count &&
        tide_table_find_column(recorded, live->columns[column].name) < 0)
        return column;
    return -1;
}

/* Put the live columns in the recorded order, new ones behind: a column's position is what clocks know it by. *dropped: the name of a column that
 * is gone, NULL: none. */
static tide_status align(tide_table *live, const tide_table *recorded, const char **dropped,
                         tide_error *err)
{
    const size_t count = (size_t)live->column_count;
    TIDE_CLEANUP(tide_freep) tide_table_column *columns = calloc(count, sizeof *columns);
    TIDE_CLEANUP(tide_freep) int *place = calloc(count, sizeof *place); /* from 1; 0: not yet */
    if (!columns || !place)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for table %s", live->name);
    *dropped = NULL;
    int used = 0;
    for (int i = 0; i < recorded->column_count; i++) {
        const int at = find_successor(live, recorded, i);
        if (at < 0 || place[at] > 0) {
            *dropped = recorded->columns[i].name;
            return TIDE_OK;
        }
        place[at] = ++used;
    }
    for (int i = 0; i < live->column_count; i++) {
        if (place[i] == 0)
            place[i] = ++used;
        columns[place[i] - 1] = live->columns[i];
    }
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
    memcpy(live->columns, columns, count * sizeof *columns);
    return tide_table_digest_schema(live, err);
}

static bool is_same_key(const tide_table *a, const tide_table *b)
{
    return a->key_count == b->key_count &&
           memcmp(a->key, b->key, (size_t)a->key_count * sizeof *a->key) == 0;
}

/* ---- one table ---- */

/* The application may have renamed it: its triggers went along. */
static tide_status find_new_name(tide_app_tx *tx, int64_t id, char out[TIDE_EVENT_TABLE_MAX + 1],
                                 tide_error *err)
{
    char hook[64];
    (void)snprintf(hook, sizeof hook, "tide_capture_%" PRId64 "_insert", id);
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, tx, TIDE_TEMPLATE_HOOK_HOME->text, err));
    tide_app_bind_text(query, "name", tide_view_of(hook));
    const tide_status status = tide_app_step(query, err);
    if (status != TIDE_OK)
        return status;
    const tide_view name = tide_app_col_bytes(query);
    if (name.len > TIDE_EVENT_TABLE_MAX)
        return tide_fail(err, TIDE_E_UNSUPPORTED, "a table's name has at most %d bytes",
                         TIDE_EVENT_TABLE_MAX);
    memcpy(out, name.ptr, name.len);
    out[name.len] = '\0';
    return TIDE_OK;
}

static tide_status log_added(tide_app_tx *tx, const tide_table *table, int first, int64_t *found,
                             tide_error *err)
{
    int added[TIDE_TABLE_COLUMNS_MAX];
    const int count = table->column_count - first;
    for (int i = 0; i < count; i++)
        added[i] = first + i;
    TIDE_CLEANUP(tide_freep) tide_any *values = calloc((size_t)table->column_count, sizeof *values);
    if (!values)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a row of %s", table->name);
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(
        tide_table_query_some(&query, tx, table, TIDE_TABLE_ROW_WALK_ADDED, added, count, err));
    tide_status status = TIDE_OK;
    while ((status = tide_app_step(query, err)) == TIDE_OK) {
        for (int i = 0; i < table->column_count; i++)
            values[i] = tide_table_col(query);
        TIDE_TRY(
            tide_capture_log(tx, table, TIDE_ROW_UPDATE, values, first, table->column_count, err));
        ++*found;
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status forget_digests(tide_app_tx *tx, int64_t table_id, tide_error *err)
{
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, tx, TIDE_TEMPLATE_REPLICA_DIGESTS_FORGET->text, err));
    tide_app_bind_i64(query, "table_id", table_id);
    return tide_app_run(query, NULL, err);
}

/* Triggers, log and record are made anew; what was not captured is found. */
static tide_status repair(checking *c, tide_table *live, const tide_table *recorded,
                          tide_capture_state state, tide_error *err)
{
    const bool has_new_schema = live->schema != recorded->schema;
    const bool is_lost = state == TIDE_CAPTURE_LOST;
    TIDE_TRY(tide_capture_install(c->tx, live, recorded->retain_us, err));
    if (has_new_schema) {
        c->here.changed++;
        report(&c->here, "table %s has another schema: %d columns (%d before)", live->name,
               live->column_count, recorded->column_count);
        TIDE_TRY(forget_digests(c->tx, live->id, err));
    }
    if (is_lost) {
        c->here.lost_tables++;
        report(&c->here, "table %s was not captured any more (rebuilt?): it is captured again",
               live->name);
        return tide_capture_want_scan(c->tx, live->id, err);
    }
    if (live->column_count > recorded->column_count)
        return log_added(c->tx, live, recorded->column_count, &c->here.rescanned, err);
    return TIDE_OK;
}

static tide_status end_capture(checking *c, const tide_table *recorded, const char *why,
                               const char *column, tide_error *err)
{
    c->here.changed++;
    report(&c->here, "table %s: %s%s: it is not captured any more, track it anew", recorded->name,
           why, column);
    return tide_capture_remove(c->tx, recorded, err);
}

/* What was captured is folded under the names that table and columns have by now, before those that were added are recorded. */
static tide_status record_names(tide_app_tx *tx, tide_table *live, const tide_table *recorded,
                                tide_error *err)
{
    const int count = live->column_count;
    live->column_count = recorded->column_count;
    tide_status status = tide_table_digest_schema(live, err);
    if (status == TIDE_OK)
        status = tide_capture_record(tx, live, recorded->retain_us, err);
    live->column_count = count;
    return status;
}

static tide_status compare(checking *c, const tide_table *recorded, const char *name,
                           tide_error *err)
{
    TIDE_CLEANUP(tide_table_done) tide_table live = {0};
    const tide_status status = tide_table_read(&live, c->tx, name, err);
    if (status == TIDE_E_UNSUPPORTED)
        return end_capture(c, recorded, "it has no usable key now", "", err);
    TIDE_TRY(status);
    const char *dropped = NULL;
    live.id = recorded->id;
    TIDE_TRY(align(&live, recorded, &dropped, err));
    if (dropped)
        return end_capture(c, recorded, "column dropped: ", dropped, err);
    if (!is_same_key(&live, recorded))
        return end_capture(c, recorded, "it has another key now", "", err);
    tide_capture_state state = TIDE_CAPTURE_WHOLE;
    TIDE_TRY(tide_capture_look(c->tx, &live, &state, err));
    TIDE_TRY(tide_capture_scan_wanted(c->tx, recorded->id, &c->is_scan_wanted, err));
    (void)snprintf(c->scan_name, sizeof c->scan_name, "%s", live.name);
    const bool is_renamed = strcmp(live.name, recorded->name) != 0;
    if (state == TIDE_CAPTURE_WHOLE && live.schema == recorded->schema && !is_renamed)
        return TIDE_OK;
    int64_t imported = 0;
    TIDE_TRY(tide_capture_take_events(c->tx, &live, &imported, err));
    if (is_renamed)
        report(&c->here, "table %s is called %s now: rename it on the other nodes as well",
               recorded->name, live.name);
    bool is_folded = false;
    TIDE_TRY(tide_capture_is_folded(c->tx, recorded, &is_folded, err));
    c->is_fold_wanted = !is_folded;
    if (!is_folded)
        return record_names(c->tx, &live, recorded, err);
    TIDE_TRY(repair(c, &live, recorded, state, err));
    c->is_scan_wanted = c->is_scan_wanted || state == TIDE_CAPTURE_LOST;
    return TIDE_OK;
}

/* TIDE_OK or TIDE_NONE. The question has ended when it is answered: tables are dropped and made after it. */
static tide_status find_in_schema(tide_app_tx *tx, const char *name, tide_error *err)
{
    TIDE_CLEANUP(tide_app_endp) tide_app_query *find = NULL;
    TIDE_TRY(tide_app_begin(&find, tx, TIDE_TEMPLATE_SCHEMA_FIND->text, err));
    tide_app_bind_text(find, "name", tide_view_of(name));
    return tide_app_step(find, err);
}

static tide_status check_table(tide_app_tx *tx, void *arg, tide_error *err)
{
    checking *c = arg;
    c->tx = tx;
    c->here = (tide_capture_found){0};
    c->is_scan_wanted = false;
    c->is_fold_wanted = false;
    TIDE_CLEANUP(tide_table_done) tide_table recorded = {0};
    const tide_status is_tracked = tide_table_find(&recorded, tx, c->name, err);
    if (is_tracked != TIDE_OK)
        return is_tracked < TIDE_OK ? is_tracked : TIDE_OK;
    const tide_status is_there = find_in_schema(tx, recorded.name, err);
    TIDE_TRY(is_there);
    if (is_there == TIDE_OK)
        return compare(c, &recorded, recorded.name, err);
    char name[TIDE_EVENT_TABLE_MAX + 1];
    const tide_status is_renamed = find_new_name(tx, recorded.id, name, err);
    TIDE_TRY(is_renamed);
    if (is_renamed == TIDE_OK)
        return compare(c, &recorded, name, err);
    c->here.changed++;
    report(&c->here, "table %s is gone: it is captured again when it comes back", recorded.name);
    return TIDE_OK;
}

/* ---- all tables ---- */

static tide_status list_tables(tide_app_tx *tx, void *arg, tide_error *err)
{
    names *n = arg;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, tx, TIDE_TEMPLATE_REPLICA_TABLE_NAMES->text, err));
    tide_status status = TIDE_OK;
    while ((status = tide_app_step(query, err)) == TIDE_OK) {
        char **list = realloc(n->list, (size_t)(n->count + 1) * sizeof *list);
        if (list)
            n->list = list;
        char *copy = list ? tide_table_copy(tide_app_col_bytes(query)) : NULL;
        if (!copy)
            return tide_fail(err, TIDE_E_NOMEM, "no memory for a table");
        n->list[n->count++] = copy;
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static void add_found(tide_capture_found *out, const tide_capture_found *here)
{
    out->lost_tables += here->lost_tables;
    out->rescanned += here->rescanned;
    out->changed += here->changed;
    if (here->report[0])
        report(out, "%s", here->report);
}

static tide_status check_one(checking *c, tide_node *node, tide_error *err)
{
    enum { TURNS_MAX = 100 };
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        TIDE_TRY(tide_app_write(node->file, check_table, c, err));
        add_found(c->out, &c->here);
        if (!c->is_fold_wanted)
            break;
        c->name = c->scan_name;
        TIDE_TRY(tide_capture_fold_all(node, err));
    }
    if (c->is_fold_wanted)
        return tide_fail(err, TIDE_E_BUSY, "table %s is written to without a pause", c->name);
    if (!c->is_scan_wanted)
        return TIDE_OK;
    int64_t found = 0;
    TIDE_TRY(tide_capture_rescan(node->file, c->scan_name, &found, err));
    c->out->rescanned += found;
    return TIDE_OK;
}

tide_status tide_node_check(tide_node *node, tide_capture_found *out, tide_error *err)
{
    *out = (tide_capture_found){0};
    if (node->epoch == 0)
        return TIDE_OK;
    TIDE_CLEANUP(names_done) names tables = {0};
    TIDE_TRY(tide_app_read(node->file, list_tables, &tables, err));
    for (int i = 0; i < tables.count; i++) {
        checking c = {.name = tables.list[i], .out = out};
        TIDE_TRY(check_one(&c, node, err));
    }
    return TIDE_OK;
}
