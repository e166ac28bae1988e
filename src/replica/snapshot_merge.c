/* snapshot_merge.c - one row of a snapshot meets the row that is here: see snapshot.h. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/conflict.h"
#include "replica/quarantine.h"
#include "replica/snapshot_conflict.h"
#include "replica/snapshot_parts.h"
#include "replica/stamped.h"
#include "tidemark_templates.h"

/* ---- conflicts ---- */

static bool is_key_conflict(const tide_table *table, int column)
{
    for (int i = 0; i < table->key_count; i++)
        if (table->key[i] == column)
            return true;
    return false;
}

static bool is_same_conflict(const tide_stamp *a, const tide_stamp *b)
{
    return tide_stamp_compare(a, b) == 0;
}

/* ---- what the maker had ---- */

static int64_t snapshot_cut_of(const tide_restoring *r, const tide_node_id *origin, int64_t epoch)
{
    const tide_origin_mark *mark = tide_snapshot_decoder_origin(r->decoder, origin, epoch);
    return mark ? mark->prefix : -1;
}

static int compare_stamps(const void *a, const void *b)
{
    return tide_stamp_compare(a, b);
}

/* What waits at the maker is not in its rows, though its marks have its number. */
static bool is_held(tide_restoring *r, const tide_stamp *stamp)
{
    const size_t count = r->held.len / sizeof *stamp;
    if (count == 0)
        return false;
    if (!r->is_held_sorted)
        qsort(r->held.ptr, count, sizeof *stamp, compare_stamps);
    r->is_held_sorted = true;
    return bsearch(stamp, r->held.ptr, count, sizeof *stamp, compare_stamps) != NULL;
}

/* Is a write that is here among those that the maker had? By its log's number, not by its time: an origin that was put back may have other events at
 * the same times. */
static tide_status snapshot_maker_has(bool *out, tide_restoring *r, const tide_stamp *stamp,
                                      tide_error *err)
{
    bool is_any = false;
    bool has_all = true;
    *out = false;
    if (is_held(r, stamp))
        return TIDE_OK;
    bool has_collected = true;
    for (int i = 0; i < r->here_count; i++) {
        const tide_origin_mark *log = &r->here[i];
        if (memcmp(&log->origin, &stamp->node, sizeof log->origin) != 0)
            continue;
        const int64_t cut = snapshot_cut_of(r, &log->origin, log->epoch);
        is_any = true;
        has_all = has_all && (cut >= log->highest || log->highest <= log->start);
        has_collected = has_collected && (cut >= log->floor || log->floor <= log->start);
    }
    *out = is_any && has_all;
    if (*out || !is_any)
        return TIDE_OK;
    tide_stamped found;
    const tide_status status = tide_stamped_find(&found, r->tx, stamp, err);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? found.seq <= snapshot_cut_of(r, &stamp->node, found.epoch)
                             : has_collected;
    return TIDE_OK;
}

static int64_t prefix_here(const tide_restoring *r, const tide_origin_mark *mark)
{
    for (int i = 0; i < r->here_count; i++)
        if (r->here[i].epoch == mark->epoch &&
            memcmp(&r->here[i].origin, &mark->origin, sizeof mark->origin) == 0)
            return r->here[i].prefix;
    return -1;
}

/* Was a write of the maker's merged here before? Then what became of it is settled. Where it cannot be told any more: no. */
static tide_status had_it(bool *out, tide_restoring *r, const tide_stamp *stamp, tide_error *err)
{
    tide_stamped found;
    bool has_all = true;
    for (int i = 0; i < r->decoder->origin_count; i++) {
        const tide_origin_mark *mark = &r->decoder->origins[i];
        if (memcmp(&mark->origin, &stamp->node, sizeof mark->origin) == 0 &&
            mark->highest > mark->start)
            has_all = has_all && prefix_here(r, mark) >= mark->highest;
    }
    const tide_status status = tide_stamped_find(&found, r->tx, stamp, err);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? found.is_processed : has_all;
    return TIDE_OK;
}

/* ---- records ---- */

static tide_status begin(tide_foreign_query **out, const tide_snapshot_meeting *m, const char *text,
                         int column, const tide_stamp *stamp, tide_error *err)
{
    return tide_foreign_start(
        out, m->r->tx, text, err, tide_bind_i64("table", m->row->table->id),
        tide_bind_blob("key", m->row->key), tide_bind_i64("col", column),
        tide_bind_i64("time", (int64_t)stamp->time),
        tide_bind_blob("node", tide_view_bytes(stamp->node.bytes, TIDE_NODE_LEN)));
}

static tide_status snapshot_mark_known(const tide_snapshot_meeting *m, int column,
                                       const tide_stamp *stamp, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (stamp->time == 0)
        return TIDE_OK;
    TIDE_TRY(begin(&query, m, TIDE_TEMPLATE_APPLY_KNOWN_PUT->text, column, stamp, err));
    tide_foreign_bind_i64(query, "now", m->r->desk->now_us);
    return tide_foreign_run(query, NULL, err);
}

static tide_status forget(const tide_snapshot_meeting *m, int column, const tide_stamp *stamp,
                          tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (stamp->time == 0)
        return TIDE_OK;
    TIDE_TRY(begin(&query, m, TIDE_TEMPLATE_APPLY_CONFLICT_DELETE->text, column, stamp, err));
    return tide_foreign_run(query, NULL, err);
}

static tide_status is_known(bool *out, const tide_snapshot_meeting *m, int column,
                            const tide_stamp *stamp, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    *out = m->joined->deleted.stamp.time != 0 && is_same_conflict(&m->joined->deleted.base, stamp);
    if (*out)
        return TIDE_OK;
    TIDE_TRY(begin(&query, m, TIDE_TEMPLATE_APPLY_KNOWN_FIND->text, column, stamp, err));
    const tide_status status = tide_foreign_step(query, err);
    TIDE_TRY(status);
    *out = status == TIDE_OK;
    return TIDE_OK;
}

/* List a write. value: encoded; NULL: a deletion. */
static tide_status list_write(const tide_snapshot_meeting *m, int column, const tide_stamp *stamp,
                              const tide_view *value, int64_t found_at_us, tide_error *err)
{
    int64_t changed = 0;
    TIDE_FOREIGN_QUERY_BY(query, begin, m, TIDE_TEMPLATE_SNAPSHOT_CONFLICT_PUT->text, column, stamp,
                          err);
    tide_foreign_bind_i64(query, "found_at", found_at_us);
    if (value)
        tide_foreign_bind_blob(query, "value", *value);
    TIDE_TRY(tide_foreign_run(query, &changed, err));
    m->r->out->conflicts += changed;
    return TIDE_OK;
}

static tide_status list_value(const tide_snapshot_meeting *m, int column, const tide_stamp *stamp,
                              const tide_sql_value *value, tide_error *err)
{
    static const tide_sql_value nothing = {.kind = TIDE_SQL_VALUE_NULL};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_SNAPSHOT_RECORD_MAX);
    if (tide_sql_value_encode(&bytes, value ? value : &nothing) < TIDE_OK)
        return tide_no_memory(err);
    const tide_view encoded = tide_buffer_view(&bytes);
    return list_write(m, column, stamp, &encoded, m->r->desk->now_us, err);
}

/* ---- conflicts of one row ---- */

static bool shows(const tide_snapshot_meeting *m, int column, const tide_stamp *stamp)
{
    const tide_row_write shown = tide_row_clock_of(m->joined, column);
    return m->is_shown && is_same_conflict(&shown.stamp, stamp);
}

static bool shows_theirs(const tide_snapshot_meeting *m, int column, const tide_stamp *stamp)
{
    const tide_row_write shown = tide_row_clock_of(m->theirs, column);
    return m->is_theirs && is_same_conflict(&shown.stamp, stamp);
}

static const tide_snapshot_target *target_of(const tide_snapshot_meeting *m)
{
    return m->given ? &m->r->targets[m->given->table] : NULL;
}

static bool lists_theirs(const tide_snapshot_meeting *m, int column, const tide_stamp *stamp)
{
    for (int i = 0; m->given && i < m->given->conflict_count; i++) {
        const tide_snapshot_conflict *conflict = &m->given->conflicts[i];
        if (conflict->column >= 0 && target_of(m)->map[conflict->column] == column &&
            is_same_conflict(&conflict->stamp, stamp))
            return true;
    }
    return false;
}

/* What they knew, and which deletes they knew of. */
static tide_status take_knowledge(const tide_snapshot_meeting *m, tide_error *err)
{
    const tide_row_write *deletes[] = {&m->row->clock.deleted, &m->theirs->deleted};
    for (int i = 0; m->given && i < m->given->known_count; i++) {
        const tide_snapshot_known *known = &m->given->knowledge[i];
        const int column = known->column >= 0 ? target_of(m)->map[known->column] : known->column;
        TIDE_TRY(snapshot_mark_known(m, column, &known->stamp, err));
        TIDE_TRY(forget(m, column, &known->stamp, err));
    }
    for (int i = 0; i < 2; i++) {
        if (deletes[i]->stamp.time == 0)
            continue;
        TIDE_TRY(forget(m, TIDE_CONFLICT_ROW, &deletes[i]->base, err));
        if (!is_same_conflict(&deletes[i]->stamp, &m->joined->deleted.stamp))
            TIDE_TRY(snapshot_mark_known(m, TIDE_CONFLICT_ROW, &deletes[i]->base, err));
    }
    return TIDE_OK;
}

typedef struct listed {
    tide_snapshot_conflict *of;
    int count;
} listed;

static void listed_done(listed *l)
{
    free(l->of);
}

static tide_status load_listed(listed *out, const tide_snapshot_meeting *m, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, m->r->tx, TIDE_TEMPLATE_SNAPSHOT_CONFLICTS->text, err,
                       tide_bind_i64("table", m->row->table->id),
                       tide_bind_blob("key", m->row->key));
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_TRY(tide_list_room(&out->of, out->count, sizeof *out->of, TIDE_LIST_MAX, err));
        tide_snapshot_conflict *one = &out->of[out->count++];
        *one = (tide_snapshot_conflict){.column = (int)tide_foreign_col_i64(query)};
        one->stamp.time = (uint64_t)tide_foreign_col_i64(query);
        const tide_view node = tide_foreign_col_bytes(query);
        if (node.len == TIDE_NODE_LEN)
            memcpy(one->stamp.node.bytes, node.ptr, TIDE_NODE_LEN);
    }
    return TIDE_OK;
}

/* Those that are listed here: shown now, or known to the maker, which had them and does not list them. */
static tide_status drop_listed(const tide_snapshot_meeting *m, tide_error *err)
{
    TIDE_CLEANUP(listed_done) listed ours = {.of = NULL};
    if (!m->r->has_conflicts)
        return TIDE_OK;
    TIDE_TRY(load_listed(&ours, m, err));
    for (int i = 0; i < ours.count; i++) {
        const tide_snapshot_conflict *one = &ours.of[i];
        if (one->column < 0)
            continue;
        bool is_over = shows(m, one->column, &one->stamp);
        if (!is_over && !lists_theirs(m, one->column, &one->stamp) &&
            !shows_theirs(m, one->column, &one->stamp))
            TIDE_TRY(snapshot_maker_has(&is_over, m->r, &one->stamp, err));
        if (!is_over)
            continue;
        TIDE_FOREIGN_QUERY_BY(query, begin, m, TIDE_TEMPLATE_SNAPSHOT_CONFLICT_CUT->text,
                              one->column, &one->stamp, err);
        TIDE_TRY(tide_foreign_run(query, NULL, err));
    }
    return TIDE_OK;
}

static tide_status take_listed(const tide_snapshot_meeting *m, tide_error *err)
{
    for (int i = 0; m->given && i < m->given->conflict_count; i++) {
        const tide_snapshot_conflict *one = &m->given->conflicts[i];
        if (one->column < 0)
            continue;
        bool known = false;
        const int column = target_of(m)->map[one->column];
        if (shows(m, column, &one->stamp))
            continue;
        TIDE_TRY(is_known(&known, m, column, &one->stamp, err));
        if (!known)
            TIDE_TRY(list_write(m, column, &one->stamp, one->has_value ? &one->value : NULL,
                                one->found_at_us, err));
    }
    return TIDE_OK;
}

/* What was shown here, and is not any more. */
static tide_status list_ours(const tide_snapshot_meeting *m, int column, tide_error *err)
{
    bool known = false;
    const tide_row_write ours = tide_row_clock_of(&m->row->clock, column);
    const tide_row_write theirs = tide_row_clock_of(m->theirs, column);
    if (!m->is_here || ours.stamp.time == 0 || shows(m, column, &ours.stamp))
        return TIDE_OK;
    if (is_same_conflict(&theirs.base, &ours.stamp) && theirs.stamp.time != 0 &&
        tide_stamp_compare(&theirs.stamp, &ours.stamp) > 0)
        return TIDE_OK;
    TIDE_TRY(is_known(&known, m, column, &ours.stamp, err));
    if (!known && !shows_theirs(m, column, &ours.stamp))
        TIDE_TRY(snapshot_maker_has(&known, m->r, &ours.stamp, err));
    if (!known)
        TIDE_TRY(tide_conflict_is_made_up(&known, m->r->desk, m->row->table, &m->row->clock, column,
                                          err));
    return known ? TIDE_OK
                 : list_value(m, column, &ours.stamp,
                              m->row->has[column] ? &m->row->values[column] : NULL, err);
}

/* What the maker showed, and is not shown. */
static tide_status list_theirs(const tide_snapshot_meeting *m, int column, tide_error *err)
{
    bool known = false;
    const tide_row_write ours = tide_row_clock_of(&m->row->clock, column);
    const tide_row_write theirs = tide_row_clock_of(m->theirs, column);
    if (!m->is_theirs || theirs.stamp.time == 0 || shows(m, column, &theirs.stamp) ||
        tide_snapshot_target_default(target_of(m), column)) /* nobody wrote that */
        return TIDE_OK;
    if (is_same_conflict(&ours.base, &theirs.stamp) &&
        tide_stamp_compare(&ours.stamp, &theirs.stamp) > 0)
        return TIDE_OK;
    TIDE_TRY(is_known(&known, m, column, &theirs.stamp, err));
    if (!known)
        TIDE_TRY(had_it(&known, m->r, &theirs.stamp, err));
    if (!known)
        TIDE_TRY(
            tide_conflict_is_made_up(&known, m->r->desk, m->row->table, m->theirs, column, err));
    return known ? TIDE_OK : list_value(m, column, &theirs.stamp, m->values[column], err);
}

/* The greatest delete is listed while a write that did not know it keeps the row: a function of the clock. */
static tide_status list_outlived(const tide_snapshot_meeting *m, tide_error *err)
{
    const tide_row_write *deleted = &m->joined->deleted;
    if (deleted->stamp.time == 0)
        return TIDE_OK;
    TIDE_TRY(tide_foreign_exec(m->r->tx, TIDE_TEMPLATE_SNAPSHOT_OUTLIVED_CUT->text, NULL, err,
                               tide_bind_i64("table", m->row->table->id),
                               tide_bind_blob("key", m->row->key)));
    if (!m->is_shown || tide_stamp_compare(&m->joined->created.stamp, &deleted->stamp) > 0)
        return TIDE_OK;
    return list_write(m, TIDE_CONFLICT_DELETE, &deleted->stamp, NULL, m->r->desk->now_us, err);
}

/* Before the row changes: list, keep and drop. */
static tide_status snapshot_settle_conflicts(const tide_snapshot_meeting *m, tide_error *err)
{
    TIDE_TRY(take_knowledge(m, err));
    TIDE_TRY(drop_listed(m, err));
    TIDE_TRY(take_listed(m, err));
    for (int i = 0; i < m->row->table->column_count; i++) {
        if (is_key_conflict(m->row->table, i))
            continue;
        TIDE_TRY(list_ours(m, i, err));
        TIDE_TRY(list_theirs(m, i, err));
    }
    return list_outlived(m, err);
}

static bool is_key(const tide_table *table, int column)
{
    for (int i = 0; i < table->key_count; i++)
        if (table->key[i] == column)
            return true;
    return false;
}

static bool is_same(const tide_stamp *a, const tide_stamp *b)
{
    return tide_stamp_compare(a, b) == 0;
}

/* ---- the row ---- */

static bool is_clock_equal(const tide_row_clock *a, const tide_row_clock *b)
{
    if (!is_same(&a->created.stamp, &b->created.stamp) ||
        !is_same(&a->deleted.stamp, &b->deleted.stamp) || a->column_count != b->column_count)
        return false;
    for (int i = 0; i < a->column_count; i++)
        if (a->columns[i].column != b->columns[i].column ||
            !is_same(&a->columns[i].write.stamp, &b->columns[i].write.stamp))
            return false;
    return true;
}

static int compare_columns(const void *a, const void *b)
{
    const tide_column_clock *x = a;
    const tide_column_clock *y = b;
    return (x->column > y->column) - (x->column < y->column);
}

/* Their clock in terms of our columns. */
static tide_status translate(tide_row_clock *out, const tide_snapshot_target *target,
                             const tide_row_clock *theirs, tide_error *err)
{
    *out = *theirs;
    TIDE_ALLOC(out->columns, (size_t)theirs->column_count + 1, err);
    for (int i = 0; i < theirs->column_count; i++)
        out->columns[i] =
            (tide_column_clock){.column = theirs->columns[i].column == TIDE_ROW_CLOCK_LOST
                                              ? TIDE_ROW_CLOCK_LOST
                                              : target->map[theirs->columns[i].column],
                                .write = theirs->columns[i].write};
    if (out->column_count > 1)
        qsort(out->columns, (size_t)out->column_count, sizeof *out->columns, compare_columns);
    return TIDE_OK;
}

/* Values follow their stamps, and prints their values: what stays as it was written unseen is still found by a scan. */
static tide_status take_values(const tide_snapshot_meeting *m, tide_error *err)
{
    tide_desk_row *row = m->row;
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_row_write ours = tide_row_clock_of(&row->clock, i);
        const tide_row_write theirs = tide_row_clock_of(m->theirs, i);
        const int order = tide_stamp_compare(&theirs.stamp, &ours.stamp);
        if (is_key(row->table, i) || !m->values[i] || order < 0 || (order == 0 && row->has[i]))
            continue;
        tide_desk_print(row, i, m->values[i]);
        if (row->has[i] && tide_sql_value_equal(m->values[i], &row->values[i]))
            continue;
        TIDE_TRY(tide_desk_keep(&row->values[i], m->r->desk, m->values[i], err));
        row->has[i] = true;
        row->is_stale = true;
        row->is_changed = true;
    }
    return TIDE_OK;
}

static tide_status meet(tide_snapshot_meeting *m, tide_error *err)
{
    const tide_snapshot_row *given = m->given;
    const bool is_changed = !is_clock_equal(m->joined, &m->row->clock);
    const bool is_equal = !is_changed && is_clock_equal(m->joined, m->theirs);
    if (!is_equal || m->r->has_conflicts || given->conflict_count > 0 || given->known_count > 0)
        TIDE_TRY(snapshot_settle_conflicts(m, err));
    TIDE_TRY(take_values(m, err));
    m->row->is_changed = m->row->is_changed || is_changed;
    return TIDE_OK;
}

tide_status tide_snapshot_merge_row(tide_restoring *r, const tide_snapshot_row *given,
                                    tide_error *err)
{
    const tide_snapshot_target *target = &r->targets[given->table];
    const tide_snapshot_table *from = &r->decoder->tables[given->table];
    tide_desk_row *row = NULL;
    if (!given->has_clock)
        TIDE_TRY(tide_snapshot_merge_absent(r, target, given->key, err));
    TIDE_TRY(tide_desk_row_get(&row, r->desk, target->table, given->key, err));
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock theirs = {.columns = NULL};
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock joined = {.columns = NULL};
    TIDE_CLEANUP(tide_freep)
    const tide_sql_value **values =
        (const tide_sql_value **)calloc((size_t)target->table->column_count, sizeof(void *));
    TIDE_NEED_MEMORY(values, err);
    for (int i = 0; i < from->column_count; i++)
        values[target->map[i]] = given->has[i] ? &given->values[i] : NULL;
    for (int i = 0; given->clock.created.stamp.time != 0 && i < target->table->column_count; i++)
        if (tide_snapshot_target_default(target, i))
            values[i] = tide_snapshot_target_default(target, i);
    TIDE_TRY(translate(&theirs, target, &given->clock, err));
    TIDE_TRY(tide_row_clock_join(&joined, &row->clock, &theirs, err));
    tide_snapshot_meeting m = {.r = r,
                               .row = row,
                               .given = given,
                               .theirs = &theirs,
                               .joined = &joined,
                               .values = values,
                               .is_here = tide_row_clock_exists(&row->clock),
                               .is_theirs = tide_row_clock_exists(&theirs),
                               .is_shown = tide_row_clock_exists(&joined)};
    TIDE_TRY(meet(&m, err));
    tide_row_clock_done(&row->clock);
    row->clock = joined;
    joined = (tide_row_clock){.columns = NULL};
    return TIDE_OK;
}

/* ---- rows that the maker does not have ---- */

static tide_status strip(bool *is_stripped, tide_restoring *r, tide_row_write *write,
                         tide_error *err)
{
    *is_stripped = false;
    if (write->stamp.time == 0)
        return TIDE_OK;
    TIDE_TRY(snapshot_maker_has(is_stripped, r, &write->stamp, err));
    if (*is_stripped)
        *write = (tide_row_write){.stamp.time = 0};
    return TIDE_OK;
}

/* What is left of a clock without the writes that the maker had. */
static tide_status strip_clock(tide_row_clock *out, tide_restoring *r, const tide_row_clock *clock,
                               tide_error *err)
{
    bool is_stripped = false;
    *out = *clock;
    out->column_count = 0;
    TIDE_ALLOC(out->columns, (size_t)clock->column_count + 1, err);
    TIDE_TRY(strip(&is_stripped, r, &out->created, err));
    TIDE_TRY(strip(&is_stripped, r, &out->deleted, err));
    for (int i = 0; i < clock->column_count; i++) {
        tide_column_clock column = clock->columns[i];
        TIDE_TRY(strip(&is_stripped, r, &column.write, err));
        if (!is_stripped)
            out->columns[out->column_count++] = column;
    }
    return TIDE_OK;
}

static bool is_empty(const tide_row_clock *clock)
{
    return clock->created.stamp.time == 0 && clock->deleted.stamp.time == 0 &&
           clock->column_count == 0;
}

static tide_status remember_forgotten(tide_restoring *r, const tide_desk_row *row, tide_error *err)
{
    if (tide_buffer_append_u64(&r->forgotten, (uint64_t)row->table->id) < TIDE_OK ||
        tide_buffer_append_u32(&r->forgotten, (uint32_t)row->key.len) < TIDE_OK ||
        tide_buffer_append_view(&r->forgotten, row->key) < TIDE_OK)
        return tide_no_memory(err);
    r->out->forgotten++;
    return TIDE_OK;
}

/* It was created among what the maker had, and the maker has nothing of it: it was deleted there, and the tombstone collected. What was written here and
 * never got there is kept, as the maker will keep it when it comes: beside a row that does not exist, and listed. */
tide_status tide_snapshot_merge_absent(tide_restoring *r, const tide_snapshot_target *target,
                                       tide_view key, tide_error *err)
{
    tide_desk_row *row = NULL;
    TIDE_TRY(tide_desk_row_get(&row, r->desk, target->table, key, err));
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock left = {.columns = NULL};
    TIDE_TRY(strip_clock(&left, r, &row->clock, err));
    if (is_clock_equal(&left, &row->clock) || left.created.stamp.time != 0)
        return TIDE_OK;
    const tide_row_clock nothing = {.columns = NULL};
    tide_snapshot_meeting m = {.r = r,
                               .row = row,
                               .theirs = &nothing,
                               .joined = &left,
                               .is_here = tide_row_clock_exists(&row->clock)};
    TIDE_TRY(snapshot_settle_conflicts(&m, err));
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_row_write kept = tide_row_clock_of(&left, i);
        if (!is_key(row->table, i) && kept.stamp.time == 0)
            row->has[i] = false;
    }
    row->is_changed = true;
    if (is_empty(&left))
        TIDE_TRY(remember_forgotten(r, row, err));
    tide_row_clock_done(&row->clock);
    row->clock = left;
    left = (tide_row_clock){.columns = NULL};
    return TIDE_OK;
}

/* ---- what our own further events knew ---- */

static tide_status keep_bases(tide_restoring *r, const tide_event *event, tide_error *err)
{
    tide_view key;
    tide_hold why = TIDE_HOLD_NOT;
    const tide_table *table = tide_desk_table(r->desk, event->table);
    if (!table || event->key_count != table->key_count)
        return TIDE_OK;
    TIDE_CLEANUP(tide_event_done) tide_event ours;
    ours.columns = NULL;
    TIDE_TRY(tide_quarantine_translate(&why, &ours, r->desk, table, event, err));
    if (why != TIDE_HOLD_NOT)
        return TIDE_OK;
    TIDE_TRY(tide_desk_key(&key, r->desk, event->key, event->key_count, err));
    tide_desk_row row = {.table = table, .key = key};
    const tide_snapshot_meeting m = {.r = r, .row = &row};
    if (event->kind == TIDE_ROW_DELETE)
        TIDE_TRY(snapshot_mark_known(&m, TIDE_CONFLICT_ROW, &event->base, err));
    for (int i = 0; i < ours.column_count; i++)
        TIDE_TRY(snapshot_mark_known(&m, ours.columns[i].column, &ours.columns[i].base, err));
    return TIDE_OK;
}

tide_status tide_snapshot_note_held(tide_restoring *r, const tide_event *event, bool is_merged,
                                    tide_error *err)
{
    if (tide_buffer_append(&r->held, &event->stamp, sizeof event->stamp) < TIDE_OK)
        return tide_no_memory(err);
    r->is_held_sorted = false;
    return is_merged ? keep_bases(r, event, err) : TIDE_OK;
}

tide_status tide_snapshot_keep_knowledge(tide_restoring *r, tide_error *err)
{
    for (int i = 0; i < r->here_count; i++) {
        const int64_t cut = snapshot_cut_of(r, &r->here[i].origin, r->here[i].epoch);
        TIDE_FOREIGN_QUERY(
            query, r->tx, TIDE_TEMPLATE_SNAPSHOT_EVENTS_ABOVE->text, err,
            tide_bind_blob("origin", tide_view_bytes(r->here[i].origin.bytes, TIDE_NODE_LEN)),
            tide_bind_i64("epoch", r->here[i].epoch), tide_bind_i64("after", cut < 0 ? 0 : cut));
        TIDE_EACH(tide_foreign_step(query, err)) {
            TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
            TIDE_TRY(tide_event_decode(&event, tide_foreign_col_bytes(query), err));
            TIDE_TRY(keep_bases(r, &event, err));
        }
    }
    return TIDE_OK;
}

/* A table of a snapshot and the table of that name here: which column is which. */

static int find_column(const tide_table *table, const char *name)
{
    for (int i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return i;
    return -1;
}

static tide_status map_columns(tide_snapshot_target *out, const tide_snapshot_table *from,
                               tide_error *err)
{
    const tide_table *table = out->table;
    out->is_same = table->schema == from->schema && table->column_count == from->column_count;
    TIDE_ALLOC(out->map, (size_t)from->column_count + 1, err);
    for (int i = 0; i < from->column_count; i++) {
        out->map[i] = find_column(table, from->columns[i]);
        if (out->map[i] < 0)
            return tide_fail(err, TIDE_E_CONFLICT,
                             "table %s has no column %s here, but in the snapshot: add it first",
                             from->name, from->columns[i]);
        out->is_same = out->is_same && out->map[i] == i;
    }
    return TIDE_OK;
}

static bool is_mapped(const tide_snapshot_target *target, const tide_snapshot_table *from,
                      int column)
{
    for (int i = 0; i < from->column_count; i++)
        if (target->map[i] == column)
            return true;
    return false;
}

/* A row that was created where a column was not known has that column's default, as if its events had come (quarantine.c, add_defaults). */
static tide_status take_defaults(tide_snapshot_target *out, tide_desk *desk,
                                 const tide_snapshot_table *from, tide_error *err)
{
    const tide_table *table = out->table;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (table->column_count == from->column_count)
        return TIDE_OK;
    out->defaults = (const tide_sql_value **)calloc((size_t)table->column_count, sizeof(void *));
    TIDE_NEED_MEMORY(out->defaults, err);
    TIDE_TRY(tide_table_query(&query, desk->tx, table, TIDE_TABLE_DEFAULTS, err));
    TIDE_TRY(tide_foreign_step(query, err));
    for (int i = 0; i < table->column_count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        if (is_mapped(out, from, i))
            continue;
        tide_sql_value *own = tide_arena_alloc(&desk->arena, sizeof *own);
        TIDE_NEED_MEMORY(own, err);
        TIDE_TRY(tide_desk_keep(own, desk, &value, err));
        out->defaults[i] = own;
    }
    return TIDE_OK;
}

tide_status tide_snapshot_target_init(tide_snapshot_target *out, tide_desk *desk,
                                      const tide_snapshot_table *from, tide_error *err)
{
    const tide_table *table = tide_desk_table(desk, from->name);
    if (!table)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "table %s is here and not tracked: 'tidemark replica track' it first",
                         from->name);
    out->table = table;
    TIDE_TRY(map_columns(out, from, err));
    bool is_key_same = table->key_count == from->key_count;
    for (int i = 0; is_key_same && i < from->key_count; i++)
        is_key_same = out->map[from->key[i]] == table->key[i];
    if (!is_key_same)
        return tide_fail(err, TIDE_E_CONFLICT, "table %s has another key here than in the snapshot",
                         from->name);
    return take_defaults(out, desk, from, err);
}

void tide_snapshot_target_done(tide_snapshot_target *target)
{
    free(target->map);
    free((void *)target->defaults);
    *target = (tide_snapshot_target){.table = NULL};
}

const tide_sql_value *tide_snapshot_target_default(const tide_snapshot_target *target, int column)
{
    return target->defaults ? target->defaults[column] : NULL;
}
