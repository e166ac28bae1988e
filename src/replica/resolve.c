#include "replica/resolve.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/desk.h"
#include "replica/references.h"
#include "replica/table_text.h"
#include "store/foreign/foreign_triggers.h"
#include "tidemark_templates.h"

/* ---- unique conflicts ----
 *
 * Which rows have the unique values that make the table refuse a row. Unique keys of stored columns
 * are looked up by the row's values. Expressions, generated columns and partial indexes are
 * SQLite's to compute: the row is inserted by force, read back, and all of it is undone. */

/* The columns of a row whose values are known; their count. out: room for all of the table's. */
static int rivals_columns(const tide_desk_row *row, bool with_key, int *out)
{
    int count = 0;
    for (int i = 0; i < row->table->column_count; i++) {
        bool is_key = false;
        for (int k = 0; k < row->table->key_count; k++)
            is_key = is_key || row->table->key[k] == i;
        if (row->has[i] && (with_key || !is_key))
            out[count++] = i;
    }
    return count;
}

/* A parameter per unique key (is the row in it?) and per term, in their order. */
typedef struct terms {
    tide_sql_value *values;
    int count;
    bool is_made; /* some of it only SQLite can tell */
} terms;

static void terms_done(terms *t)
{
    free(t->values);
}

static tide_status terms_init(terms *t, const tide_table *table, tide_error *err)
{
    for (int u = 0; u < table->unique_count; u++) {
        const tide_table_unique *unique = &table->uniques[u];
        if (tide_table_unique_is_rowid(unique))
            continue;
        t->count += 1 + unique->term_count;
        t->is_made = t->is_made || unique->where;
        for (int i = 0; i < unique->term_count; i++)
            t->is_made = t->is_made || unique->terms[i].column < 0;
    }
    t->values = calloc((size_t)t->count + 1, sizeof *t->values);
    return t->values ? TIDE_OK : tide_no_memory(err);
}

static void take_stored(terms *t, const tide_desk_row *row)
{
    int at = 0;
    for (int u = 0; u < row->table->unique_count; u++) {
        const tide_table_unique *unique = &row->table->uniques[u];
        if (tide_table_unique_is_rowid(unique))
            continue;
        t->values[at++] = (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = 1};
        for (int i = 0; i < unique->term_count; i++)
            t->values[at++] = row->values[unique->terms[i].column];
    }
}

static tide_status force(tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    int columns[TIDE_EVENT_COLUMNS_MAX];
    const int count = rivals_columns(row, true, columns);
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query_some, desk->tx, row->table, TIDE_TABLE_ROW_FORCE,
                          columns, count, err);
    for (int i = 0; i < count; i++)
        tide_table_bind(query, 'c', columns[i], &row->values[columns[i]]);
    return tide_foreign_run(query, NULL, err);
}

static void bind_key(tide_foreign_query *query, const tide_desk_row *row)
{
    for (int i = 0; i < row->table->key_count; i++)
        tide_table_bind(query, 'k', i, &row->values[row->table->key[i]]);
}

static tide_status read_forced(terms *t, tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(force(desk, row, err));
    TIDE_TRY(tide_table_query(&query, desk->tx, row->table, TIDE_TABLE_ROW_TERMS, err));
    bind_key(query, row);
    const tide_status status = tide_foreign_step(query, err);
    if (status != TIDE_OK)
        return status < TIDE_OK
                   ? status
                   : tide_fail(err, TIDE_E_FAILED, "table %s swallows a row", row->table->name);
    for (int i = 0; i < t->count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        TIDE_TRY(tide_desk_keep(&t->values[i], desk, &value, err));
    }
    return TIDE_OK;
}

static tide_status take_made(terms *t, tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    TIDE_TRY(tide_foreign_script(desk->tx, TIDE_TEMPLATE_RIVALS_BEGIN->text, err));
    tide_foreign_mute_triggers(desk->tx, true);
    const tide_status status = read_forced(t, desk, row, err);
    tide_foreign_mute_triggers(desk->tx, false);
    tide_error undo = {0};
    if (tide_foreign_script(desk->tx, TIDE_TEMPLATE_RIVALS_UNDO->text, &undo) < TIDE_OK)
        return tide_fail(err, TIDE_E_FAILED, "a row that was put by force stays: %s", undo.text);
    return status;
}

/* Rows that stand in the table, are another than this one, and share values of a unique key with it: exactly those. */
static tide_status rivals_find(tide_found *out, tide_desk *desk, const tide_desk_row *row,
                               tide_error *err)
{
    TIDE_CLEANUP(terms_done) terms t = {.values = NULL};
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(terms_init(&t, row->table, err));
    if (t.count == 0)
        return TIDE_OK;
    if (t.is_made) {
        const tide_status status = take_made(&t, desk, row, err);
        if (status == TIDE_E_INVALID) /* it cannot stand there anyway */
            return TIDE_OK;
        TIDE_TRY(status);
    } else {
        take_stored(&t, row);
    }
    TIDE_TRY(tide_table_query(&query, desk->tx, row->table, TIDE_TABLE_ROW_RIVALS, err));
    for (int i = 0; i < t.count; i++)
        tide_table_bind(query, 'c', i, &t.values[i]);
    bind_key(query, row);
    return tide_found_collect(out, desk, row->table, query, err);
}

/* ---- rows by falling stamp ---- */

typedef struct queue {
    tide_desk_row **rows; /* a heap: the greatest stamp first */
    size_t count;
} queue;

static void queue_done(queue *q)
{
    free(q->rows);
}

/* A total order, so that the outcome is one: stamps of one node never tie, but one event may be the newest of two rows' columns. */
static int compare(const tide_desk_row *a, const tide_desk_row *b)
{
    const int order = tide_stamp_compare(&a->newest, &b->newest);
    if (order != 0)
        return order;
    const size_t len = a->key.len < b->key.len ? a->key.len : b->key.len;
    const int bytes = memcmp(a->key.ptr, b->key.ptr, len);
    if (bytes != 0)
        return bytes;
    return a->key.len == b->key.len ? 0 : (a->key.len < b->key.len ? -1 : 1);
}

static void sift_up(queue *q, size_t at)
{
    assert(q->rows);
    while (at > 0 && compare(q->rows[at], q->rows[(at - 1) / 2]) > 0) {
        tide_desk_row *kept = q->rows[at];
        q->rows[at] = q->rows[(at - 1) / 2];
        q->rows[(at - 1) / 2] = kept;
        at = (at - 1) / 2;
    }
}

static void sift_down(queue *q, size_t at)
{
    for (;;) {
        size_t greatest = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < q->count; child++)
            if (compare(q->rows[child], q->rows[greatest]) > 0)
                greatest = child;
        if (greatest == at)
            return;
        tide_desk_row *kept = q->rows[at];
        q->rows[at] = q->rows[greatest];
        q->rows[greatest] = kept;
        at = greatest;
    }
}

static tide_status append(queue *q, tide_desk_row *row, tide_error *err)
{
    TIDE_TRY(
        tide_list_room(&q->rows, (int64_t)q->count, sizeof(tide_desk_row *), TIDE_LIST_MAX, err));
    row->is_queued = true;
    row->newest = tide_row_clock_newest(&row->clock); /* placing rows changes no clock */
    q->rows[q->count++] = row;
    return TIDE_OK;
}

static tide_status push(queue *q, tide_desk_row *row, tide_error *err)
{
    if (row->is_queued)
        return TIDE_OK;
    TIDE_TRY(append(q, row, err));
    sift_up(q, q->count - 1);
    return TIDE_OK;
}

static tide_desk_row *pop(queue *q)
{
    tide_desk_row *row = q->rows[0];
    q->rows[0] = q->rows[--q->count];
    sift_down(q, 0);
    row->is_queued = false;
    return row;
}

/* ---- the table itself ---- */

static tide_status remove_row(tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    if (!row->is_here)
        return TIDE_OK;
    tide_sql_value key[TIDE_EVENT_KEY_MAX];
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(tide_desk_key_values(key, row->table->key_count, row->key, err));
    TIDE_TRY(tide_table_query(&query, desk->tx, row->table, TIDE_TABLE_ROW_DELETE, err));
    for (int i = 0; i < row->table->key_count; i++)
        tide_table_bind(query, 'k', i, &key[i]);
    TIDE_TRY(tide_foreign_run_row(query, err));
    row->is_here = false;
    row->is_changed = true;
    desk->rows++;
    return TIDE_OK;
}

static tide_status set_aside(tide_desk *desk, tide_desk_row *row, tide_aside why, tide_view rival,
                             tide_error *err)
{
    TIDE_TRY(remove_row(desk, row, err));
    if (row->aside != why || !tide_view_equal(row->rival, rival))
        row->is_changed = true;
    row->aside = why;
    row->rival = rival;
    desk->has_aside = desk->has_aside || why != TIDE_ASIDE_NONE;
    return tide_desk_note_kept(desk, row, err);
}

/* Only what differs is updated: indexes of other columns are left alone. */
static int list_stale(const tide_desk_row *row, int *out)
{
    const int count = rivals_columns(row, false, out);
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (!row->before || !tide_sql_value_equal(&row->before[out[i]], &row->values[out[i]]))
            out[kept++] = out[i];
    return kept;
}

static bool is_whole(const tide_desk_row *row)
{
    for (int i = 0; i < row->table->column_count; i++)
        if (!row->has[i])
            return false;
    return true;
}

/* A row that comes back has defaults in columns that were added while it was gone: its prints have to tell so. */
static tide_status take_defaults(tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (is_whole(row))
        return TIDE_OK;
    TIDE_TRY(tide_table_query(&query, desk->tx, row->table, TIDE_TABLE_DEFAULTS, err));
    TIDE_TRY(tide_foreign_step(query, err));
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        if (!row->has[i])
            TIDE_TRY(tide_desk_keep(&row->values[i], desk, &value, err));
        row->has[i] = true;
    }
    return TIDE_OK;
}

/* TIDE_E_EXISTS: a unique value is taken. TIDE_E_INVALID: the table refuses the row. */
static tide_status write_row(tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    int columns[TIDE_EVENT_COLUMNS_MAX];
    tide_sql_value key[TIDE_EVENT_KEY_MAX];
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (!row->is_here)
        TIDE_TRY(take_defaults(desk, row, err));
    const int count = row->is_here ? list_stale(row, columns) : rivals_columns(row, true, columns);
    if (count == 0 && row->is_here)
        return TIDE_OK;
    TIDE_TRY(tide_table_query_some(&query, desk->tx, row->table,
                                   row->is_here ? TIDE_TABLE_ROW_SET : TIDE_TABLE_ROW_PUT, columns,
                                   count, err));
    for (int i = 0; i < count; i++)
        tide_table_bind(query, 'c', columns[i], &row->values[columns[i]]);
    if (row->is_here) {
        TIDE_TRY(tide_desk_key_values(key, row->table->key_count, row->key, err));
        for (int i = 0; i < row->table->key_count; i++)
            tide_table_bind(query, 'k', i, &key[i]);
    }
    TIDE_TRY(tide_foreign_run_row(query, err));
    if (!row->is_here) /* all of it was put there by us */
        row->prints = (tide_view){.len = 0};
    if (!row->is_here || row->aside != TIDE_ASIDE_NONE)
        row->is_changed = true;
    row->is_here = true;
    row->is_stale = false;
    row->is_fresh = true;
    row->aside = TIDE_ASIDE_NONE;
    row->rival = (tide_view){.len = 0};
    desk->rows++;
    return TIDE_OK;
}

/* ---- rules 1 and 2 ---- */

static tide_status queue_found(queue *q, tide_desk *desk, const tide_table *table,
                               const tide_found *f, tide_error *err)
{
    for (int i = 0; i < f->count; i++) {
        tide_desk_row *row = NULL;
        TIDE_TRY(tide_desk_row_get(&row, desk, table, f->keys[i], err));
        TIDE_TRY(push(q, row, err));
    }
    return TIDE_OK;
}

/* Those that this row has kept out have to be looked at again. */
static tide_status release(queue *q, tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    TIDE_CLEANUP(tide_found_done) tide_found kept_out = {.keys = NULL};
    if (!desk->has_aside)
        return TIDE_OK;
    {
        TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
        tide_status status = tide_foreign_first(
            &query, desk->tx, TIDE_TEMPLATE_APPLY_CLOCK_KEPT_OUT->text, err,
            tide_bind_i64("table", row->table->id), tide_bind_blob("rival", row->key));
        for (; status == TIDE_OK; status = tide_foreign_step(query, err))
            TIDE_TRY(tide_found_keep(&kept_out, desk, tide_foreign_col_bytes(query), err));
        TIDE_TRY(status);
    }
    /* Loaded, they are as they are by now: one that stands again, or has another rival, is not pushed, or two would push each other for ever. */
    for (int i = 0; i < kept_out.count; i++) {
        tide_desk_row *loaded = NULL;
        TIDE_TRY(tide_desk_row_get(&loaded, desk, row->table, kept_out.keys[i], err));
    }
    for (const tide_desk_kept *kept = tide_desk_kept_by(desk, row); kept; kept = kept->next)
        if (kept->row->table == row->table && kept->row->aside == TIDE_ASIDE_UNIQUE &&
            tide_view_equal(kept->row->rival, row->key))
            TIDE_TRY(push(q, kept->row, err));
    return TIDE_OK;
}

/* The rival with the greatest stamp, if it is above the row's. */
static tide_status find_greater(tide_desk_row **out, tide_desk *desk, const tide_desk_row *row,
                                const tide_found *rivals, tide_error *err)
{
    *out = NULL;
    for (int i = 0; i < rivals->count; i++) {
        tide_desk_row *rival = NULL;
        TIDE_TRY(tide_desk_row_get(&rival, desk, row->table, rivals->keys[i], err));
        rival->newest = tide_row_clock_newest(&rival->clock);
        if (rival != row && compare(rival, row) > 0 && (!*out || compare(rival, *out) > 0))
            *out = rival;
    }
    return TIDE_OK;
}

static tide_status displace(queue *q, tide_desk *desk, const tide_desk_row *row,
                            const tide_found *rivals, tide_error *err)
{
    for (int i = 0; i < rivals->count; i++) {
        tide_desk_row *rival = NULL;
        TIDE_TRY(tide_desk_row_get(&rival, desk, row->table, rivals->keys[i], err));
        if (rival == row || !rival->is_here)
            continue;
        TIDE_TRY(set_aside(desk, rival, TIDE_ASIDE_UNIQUE, row->key, err));
        TIDE_TRY(release(q, desk, rival, err));
    }
    return TIDE_OK;
}

static tide_status refuse(queue *q, tide_desk *desk, tide_desk_row *row, tide_aside why,
                          tide_view rival, tide_error *err)
{
    TIDE_TRY(set_aside(desk, row, why, rival, err));
    return release(q, desk, row, err);
}

/* A unique value is taken: by stamps. */
static tide_status contend(queue *q, tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    TIDE_CLEANUP(tide_found_done) tide_found rivals = {.keys = NULL};
    tide_desk_row *greater = NULL;
    TIDE_TRY(rivals_find(&rivals, desk, row, err));
    TIDE_TRY(find_greater(&greater, desk, row, &rivals, err));
    if (greater)
        return refuse(q, desk, row, TIDE_ASIDE_UNIQUE, greater->key, err);
    TIDE_TRY(displace(q, desk, row, &rivals, err));
    const tide_status status = write_row(desk, row, err);
    if (status == TIDE_E_EXISTS) /* by an index that came since the table was read */
        return refuse(q, desk, row, TIDE_ASIDE_UNIQUE, (tide_view){.len = 0}, err);
    if (status != TIDE_E_INVALID) {
        TIDE_TRY(status);
        return release(q, desk, row, err);
    }
    TIDE_TRY(refuse(q, desk, row, TIDE_ASIDE_CHECK, (tide_view){.len = 0}, err));
    return queue_found(q, desk, row->table, &rivals, err); /* they may stay after all */
}

static tide_status place(queue *q, tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    if (row->table->is_absent)
        return TIDE_OK; /* its table is gone: there is nothing to stand in */
    if (!tide_row_clock_exists(&row->clock)) {
        const bool was = row->is_here || row->aside != TIDE_ASIDE_NONE || row->before;
        TIDE_TRY(set_aside(desk, row, TIDE_ASIDE_NONE, (tide_view){.len = 0}, err));
        return was ? release(q, desk, row, err) : TIDE_OK;
    }
    if (row->is_here && !row->is_stale)
        return TIDE_OK;
    const tide_status status = write_row(desk, row, err);
    if (status == TIDE_E_EXISTS)
        return contend(q, desk, row, err);
    if (status == TIDE_E_INVALID)
        return refuse(q, desk, row, TIDE_ASIDE_CHECK, (tide_view){.len = 0}, err);
    TIDE_TRY(status);
    return release(q, desk, row, err); /* its values may be others than those that kept them out */
}

/* ---- rule 3 ---- */

typedef struct check {
    tide_desk_row **rows;
    size_t count;
} check;

static void check_done(check *c)
{
    free(c->rows);
}

static tide_status add_check(check *c, tide_desk_row *row, tide_error *err)
{
    TIDE_TRY(
        tide_list_room(&c->rows, (int64_t)c->count, sizeof(tide_desk_row *), TIDE_LIST_MAX, err));
    c->rows[c->count++] = row;
    return TIDE_OK;
}

static tide_status check_found(check *c, tide_desk *desk, const tide_table *table,
                               const tide_found *found, tide_error *err)
{
    for (int i = 0; i < found->count; i++) {
        tide_desk_row *row = NULL;
        TIDE_TRY(tide_desk_row_get(&row, desk, table, found->keys[i], err));
        TIDE_TRY(add_check(c, row, err));
    }
    return TIDE_OK;
}

/* Rows that referred to these values of a row that has left, or has other ones now. */
static tide_status check_children(check *c, tide_desk *desk, const tide_table *parent,
                                  const tide_sql_value *values, const tide_sql_value *now,
                                  tide_error *err)
{
    for (int t = 0; t < desk->table_count; t++)
        for (int i = 0; i < desk->tables[t]->foreign_count; i++) {
            TIDE_CLEANUP(tide_found_done) tide_found children = {.keys = NULL};
            TIDE_TRY(tide_references_children(&children, desk, desk->tables[t], i, parent, values,
                                              now, err));
            TIDE_TRY(check_found(c, desk, desk->tables[t], &children, err));
        }
    return TIDE_OK;
}

/* Rows that refer to nothing, where values alone do not find those that referred to a row. */
static tide_status check_orphans(check *c, tide_desk *desk, tide_error *err)
{
    for (int t = 0; t < desk->table_count; t++)
        for (int i = 0; i < desk->tables[t]->foreign_count; i++) {
            tide_table_foreign *foreign = &desk->tables[t]->foreign[i];
            if (!foreign->is_touched)
                continue;
            foreign->is_touched = false;
            TIDE_CLEANUP(tide_found_done) tide_found orphans = {.keys = NULL};
            TIDE_TRY(tide_references_orphans(&orphans, desk, desk->tables[t], i, err));
            TIDE_TRY(check_found(c, desk, desk->tables[t], &orphans, err));
        }
    return TIDE_OK;
}

static bool is_any_touched(const tide_desk *desk)
{
    for (int t = 0; t < desk->table_count; t++)
        for (int i = 0; i < desk->tables[t]->foreign_count; i++)
            if (desk->tables[t]->foreign[i].is_touched)
                return true;
    return false;
}

static bool has_foreign_keys(const tide_desk *desk)
{
    for (int i = 0; i < desk->table_count; i++)
        if (desk->tables[i]->foreign_count > 0)
            return true;
    return false;
}

static tide_status check_row(check *c, tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    bool is_fine = true;
    if (!row->is_here)
        return TIDE_OK;
    TIDE_TRY(tide_references_hold(&is_fine, desk, row, err));
    if (is_fine)
        return TIDE_OK;
    TIDE_TRY(set_aside(desk, row, TIDE_ASIDE_FOREIGN, (tide_view){.len = 0}, err));
    return check_children(c, desk, row->table, row->values, NULL, err);
}

static tide_status keep_referring(tide_desk *desk, tide_error *err)
{
    if (!has_foreign_keys(desk))
        return TIDE_OK;
    TIDE_CLEANUP(check_done) check c = {.rows = NULL};
    const tide_desk_row *last = desk->last; /* rows that are loaded from here on are children */
    for (tide_desk_row *row = desk->first; row; row = row->next) {
        if (row->is_here && row->is_fresh)
            TIDE_TRY(add_check(&c, row, err));
        if (row->before && (!row->is_here || row->is_fresh))
            TIDE_TRY(check_children(&c, desk, row->table, row->before,
                                    row->is_here ? row->values : NULL, err));
        if (row == last)
            break;
    }
    size_t checked = 0;
    do { /* what goes aside may leave others without a parent */
        TIDE_TRY(check_orphans(&c, desk, err));
        for (; checked < c.count; checked++)
            TIDE_TRY(check_row(&c, desk, c.rows[checked], err));
    } while (is_any_touched(desk));
    return TIDE_OK;
}

/* Those that wait for a parent take their places again, and lose them again under rule 3 if it is still missing. */
static tide_status queue_waiting(queue *q, tide_desk *desk, tide_error *err)
{
    if (!desk->has_aside || (!has_foreign_keys(desk) && !desk->is_refer_wanted))
        return TIDE_OK;
    for (int i = 0; i < desk->table_count; i++) {
        if (desk->tables[i]->is_absent)
            continue;
        TIDE_CLEANUP(tide_found_done) tide_found waiting = {.keys = NULL};
        TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
        tide_status status =
            tide_foreign_first(&query, desk->tx,
                               desk->is_refer_wanted ? TIDE_TEMPLATE_APPLY_CLOCK_ASIDE->text
                                                     : TIDE_TEMPLATE_APPLY_CLOCK_WAITING->text,
                               err, tide_bind_i64("table", desk->tables[i]->id));
        for (; status == TIDE_OK; status = tide_foreign_step(query, err))
            TIDE_TRY(tide_found_keep(&waiting, desk, tide_foreign_col_bytes(query), err));
        TIDE_TRY(status);
        TIDE_TRY(queue_found(q, desk, desk->tables[i], &waiting, err));
    }
    return TIDE_OK;
}

/* Rows come mostly by rising stamp, the worst order to push them one by one: they are made a heap at once. */
static tide_status queue_changed(queue *q, tide_desk *desk, tide_error *err)
{
    for (tide_desk_row *row = desk->first; row; row = row->next)
        if (row->is_changed)
            TIDE_TRY(append(q, row, err));
    for (size_t i = 0; i < q->count / 2; i++) {
        tide_desk_row *kept = q->rows[i];
        q->rows[i] = q->rows[q->count - 1 - i];
        q->rows[q->count - 1 - i] = kept;
    }
    for (size_t i = q->count / 2; i > 0; i--)
        sift_down(q, i - 1);
    return TIDE_OK;
}

tide_status tide_resolve(tide_desk *desk, tide_error *err)
{
    TIDE_CLEANUP(queue_done) queue q = {.rows = NULL};
    TIDE_TRY(queue_changed(&q, desk, err));
    if (q.count == 0 && !desk->is_refer_wanted)
        return TIDE_OK;
    TIDE_TRY(queue_waiting(&q, desk, err));
    while (q.count > 0)
        TIDE_TRY(place(&q, desk, pop(&q), err));
    return keep_referring(desk, err);
}

tide_status tide_resolve_released(tide_desk *desk, tide_error *err)
{
    TIDE_CLEANUP(queue_done) queue q = {.rows = NULL};
    if (!desk->has_aside && !desk->is_refer_wanted)
        return TIDE_OK;
    const tide_desk_row *last = desk->last; /* rows that are loaded from here on are others */
    for (tide_desk_row *row = desk->first; row && !desk->is_refer_wanted; row = row->next) {
        if (row->last_hint > 0 && !row->table->is_absent)
            TIDE_TRY(release(&q, desk, row, err));
        if (row == last)
            break;
    }
    TIDE_TRY(queue_waiting(&q, desk, err));
    while (q.count > 0)
        TIDE_TRY(place(&q, desk, pop(&q), err));
    return keep_referring(desk, err);
}
