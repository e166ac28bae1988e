#include "replica/snapshot_conflict.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/conflict.h"
#include "replica/stamped.h"
#include "tidemark_templates.h"

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

/* ---- what the maker had ---- */

int64_t tide_snapshot_cut_of(const tide_restoring *r, const tide_node_id *origin, int64_t epoch)
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
tide_status tide_snapshot_maker_has(bool *out, tide_restoring *r, const tide_stamp *stamp,
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
        const int64_t cut = tide_snapshot_cut_of(r, &log->origin, log->epoch);
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
    *out = status == TIDE_OK ? found.seq <= tide_snapshot_cut_of(r, &stamp->node, found.epoch)
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

tide_status tide_snapshot_mark_known(const tide_snapshot_meeting *m, int column,
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
    *out = m->joined->deleted.stamp.time != 0 && is_same(&m->joined->deleted.base, stamp);
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
    return m->is_shown && is_same(&shown.stamp, stamp);
}

static bool shows_theirs(const tide_snapshot_meeting *m, int column, const tide_stamp *stamp)
{
    const tide_row_write shown = tide_row_clock_of(m->theirs, column);
    return m->is_theirs && is_same(&shown.stamp, stamp);
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
            is_same(&conflict->stamp, stamp))
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
        TIDE_TRY(tide_snapshot_mark_known(m, column, &known->stamp, err));
        TIDE_TRY(forget(m, column, &known->stamp, err));
    }
    for (int i = 0; i < 2; i++) {
        if (deletes[i]->stamp.time == 0)
            continue;
        TIDE_TRY(forget(m, TIDE_CONFLICT_ROW, &deletes[i]->base, err));
        if (!is_same(&deletes[i]->stamp, &m->joined->deleted.stamp))
            TIDE_TRY(tide_snapshot_mark_known(m, TIDE_CONFLICT_ROW, &deletes[i]->base, err));
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
            TIDE_TRY(tide_snapshot_maker_has(&is_over, m->r, &one->stamp, err));
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
    if (is_same(&theirs.base, &ours.stamp) && theirs.stamp.time != 0 &&
        tide_stamp_compare(&theirs.stamp, &ours.stamp) > 0)
        return TIDE_OK;
    TIDE_TRY(is_known(&known, m, column, &ours.stamp, err));
    if (!known && !shows_theirs(m, column, &ours.stamp))
        TIDE_TRY(tide_snapshot_maker_has(&known, m->r, &ours.stamp, err));
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
    if (is_same(&ours.base, &theirs.stamp) && tide_stamp_compare(&ours.stamp, &theirs.stamp) > 0)
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

tide_status tide_snapshot_settle_conflicts(const tide_snapshot_meeting *m, tide_error *err)
{
    TIDE_TRY(take_knowledge(m, err));
    TIDE_TRY(drop_listed(m, err));
    TIDE_TRY(take_listed(m, err));
    for (int i = 0; i < m->row->table->column_count; i++) {
        if (is_key(m->row->table, i))
            continue;
        TIDE_TRY(list_ours(m, i, err));
        TIDE_TRY(list_theirs(m, i, err));
    }
    return list_outlived(m, err);
}
