#include "replica/fold.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/capture.h"
#include "replica/desk.h"
#include "replica/fold_left.h"
#include "replica/log.h"
#include "replica/quarantine.h"
#include "replica/references.h"
#include "replica/resolve.h"
#include "replica/spool.h"
#include "tidemark_templates.h"

/* ---- rows that are rebuilt ----
 *
 * A scan finds rows missing whose deletion no trigger captured. A concurrent write may restore such
 * a row, on every node as it was: its image is assembled from the event log, each column from the
 * event that its clock names. What was collected already stays unknown. */

/* The event of a stamp. *out borrows from memory of the desk. TIDE_NONE: it is not here. */
static tide_status find_event(tide_event *out, tide_desk *desk, const tide_stamp *stamp,
                              tide_error *err)
{
    TIDE_FOREIGN_QUERY_ONE(
        query, desk->tx, TIDE_TEMPLATE_APPLY_EVENT_OF_STAMP->text, err,
        tide_bind_blob("origin", tide_view_bytes(stamp->node.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("timestamp", tide_stamp_us(stamp) / 1000),
        tide_bind_i64("stamp", (int64_t)stamp->time));
    const tide_view body = tide_foreign_col_bytes(query);
    const char *copy = tide_arena_copy(&desk->arena, body.ptr, body.len);
    TIDE_NEED_MEMORY(copy, err);
    return tide_event_decode(out, tide_view_bytes(copy, body.len), err);
}

/* Every column whose clock names this stamp. */
static tide_status take_columns(tide_desk *desk, tide_desk_row *row, const tide_stamp *stamp,
                                tide_error *err)
{
    tide_hold why = TIDE_HOLD_NOT;
    TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
    TIDE_CLEANUP(tide_event_done) tide_event ours = {.columns = NULL};
    TIDE_OK_IF_NONE(find_event(&event, desk, stamp, err));
    if (event.kind == TIDE_ROW_DELETE || row->table->is_absent)
        return TIDE_OK;
    TIDE_TRY(tide_quarantine_translate(&why, &ours, desk, row->table, &event, err));
    for (int i = 0; why == TIDE_HOLD_NOT && i < ours.column_count; i++) {
        const int column = ours.columns[i].column;
        if (column >= row->table->column_count || row->has[column])
            continue;
        const tide_row_write write = tide_row_clock_of(&row->clock, column);
        if (tide_stamp_compare(&write.stamp, stamp) != 0)
            continue;
        TIDE_TRY(tide_desk_keep(&row->values[column], desk, &ours.columns[i].value, err));
        row->has[column] = true;
    }
    return TIDE_OK;
}

/* Fill in values of the row that are not known. */
static tide_status recall(tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    tide_stamp last = {.time = 0};
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_row_write write = tide_row_clock_of(&row->clock, i);
        if (row->has[i] || write.stamp.time == 0 || tide_stamp_compare(&write.stamp, &last) == 0)
            continue;
        last = write.stamp;
        TIDE_TRY(take_columns(desk, row, &last, err));
    }
    return TIDE_OK;
}

/* ---- one change ---- */

static bool is_key_column(const tide_table *table, int column)
{
    for (int i = 0; i < table->key_count; i++)
        if (table->key[i] == column)
            return true;
    return false;
}

/* Did the application see the row's columns, as our clock has them? Not those of a row that was aside or deleted. */
static bool is_seen(const tide_desk_row *row)
{
    return tide_row_clock_exists(&row->clock) && row->aside == TIDE_ASIDE_NONE;
}

/* ---- what triggers do not tell apart is logged always (capture.h): zeros and their signs where a column has no type, the lowest integer ---- */

static bool is_told_apart(const tide_table_column *column, const tide_sql_value *value)
{
    if (column->affinity == TIDE_AFFINITY_NONE)
        return value->kind != TIDE_SQL_VALUE_F64 || value->f64 != 0;
    if (column->affinity != TIDE_AFFINITY_INTEGER)
        return true;
    return value->kind == TIDE_SQL_VALUE_F64 ? value->f64 != (double)INT64_MIN
                                             : value->i64 != INT64_MIN;
}

static bool is_same_value(const tide_desk_row *row, int column, const tide_sql_value *value)
{
    const size_t at = (size_t)column * TIDE_TABLE_PRINT_LEN;
    uint8_t print[TIDE_TABLE_PRINT_LEN];
    if (is_told_apart(&row->table->columns[column], value) || at + sizeof print > row->prints.len)
        return false;
    tide_table_print(print, value);
    return memcmp(row->prints.ptr + at, print, sizeof print) == 0;
}

static void leave_unchanged(const tide_desk_row *row, const tide_log_row *change)
{
    for (int i = 0; change->kind == TIDE_ROW_UPDATE && i < row->table->column_count; i++)
        if (change->is_written[i] && is_same_value(row, i, &change->values[i]))
            change->is_written[i] = false;
}

/* What was folded, and nothing that stands in the table besides: a scan finds that. */
static tide_status take_prints(tide_desk *desk, tide_desk_row *row, const tide_log_row *change,
                               tide_error *err)
{
    if (change->kind == TIDE_ROW_CREATE) {
        const size_t len = (size_t)row->table->column_count * TIDE_TABLE_PRINT_LEN;
        const char *room = tide_arena_alloc(&desk->arena, len);
        TIDE_NEED_MEMORY(room, err);
        row->prints = tide_view_bytes(room, len);
    }
    for (int i = 0; i < row->table->column_count; i++)
        if (change->is_written[i])
            tide_desk_print(row, i, &change->values[i]);
    return TIDE_OK;
}

static void add_columns(tide_event *event, const tide_desk_row *row, const tide_log_row *change,
                        bool is_whole)
{
    const bool seen = is_seen(row);
    for (int i = 0; i < row->table->column_count; i++) {
        if (is_key_column(row->table, i) || !(change->is_written[i] || (is_whole && row->has[i])))
            continue;
        const tide_stamp base = tide_row_clock_of(&row->clock, i).stamp;
        event->columns[event->column_count++] =
            (tide_event_column){.column = i,
                                .value = change->is_written[i] ? change->values[i] : row->values[i],
                                .base = seen ? base : (tide_stamp){.time = 0}};
    }
}

/* What a delete knew: the newest stamp, and the columns whose own is another. */
static void add_bases(tide_event *event, const tide_desk_row *row)
{
    if (!is_seen(row))
        return;
    event->base = tide_row_clock_newest(&row->clock);
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_stamp base = tide_row_clock_of(&row->clock, i).stamp;
        if (!is_key_column(row->table, i) && tide_stamp_compare(&base, &event->base) != 0)
            event->columns[event->column_count++] = (tide_event_column){
                .column = i, .value = {.kind = TIDE_SQL_VALUE_NULL}, .base = base};
    }
}

/* Values that only the log still has. */
static tide_status take_values(tide_desk *desk, tide_desk_row *row, const tide_log_row *change,
                               tide_error *err)
{
    for (int i = 0; i < row->table->column_count; i++)
        if (!row->has[i]) {
            TIDE_TRY(tide_desk_keep(&row->values[i], desk, &change->values[i], err));
            row->has[i] = true;
        }
    return TIDE_OK;
}

static tide_status describe(tide_event *event, tide_desk *desk, tide_desk_row *row,
                            const tide_log_row *change, tide_error *err)
{
    event->kind = change->kind;
    if (change->kind == TIDE_ROW_DELETE) {
        add_bases(event, row);
        return change->is_bare ? recall(desk, row, err) : take_values(desk, row, change, err);
    }
    /* An update of a row that no clock knows tells of a row: all of it. */
    const bool is_whole = change->kind == TIDE_ROW_UPDATE && !is_seen(row);
    if (is_whole)
        event->kind = TIDE_ROW_CREATE;
    if (event->kind == TIDE_ROW_CREATE)
        event->base = is_seen(row) ? tide_row_clock_newest(&row->clock) : row->clock.deleted.stamp;
    add_columns(event, row, change, is_whole);
    return TIDE_OK;
}

/* Values that foreign keys of others refer to were changed in place: what they were before is not in the log, so whoever may have referred to them is
 * looked for when rows are placed. */
static void touch_children(tide_desk *desk, const tide_desk_row *row, const tide_log_row *change)
{
    if (change->kind == TIDE_ROW_DELETE || !is_seen(row))
        return; /* it leaves with its values, or is new */
    for (int t = 0; t < desk->table_count; t++)
        for (int f = 0; f < desk->tables[t]->foreign_count; f++) {
            tide_table_foreign *foreign = &desk->tables[t]->foreign[f];
            if (tide_desk_table(desk, foreign->parent) != row->table)
                continue;
            for (int c = 0; c < foreign->count; c++) {
                const int column = foreign->parent_column[c];
                if (column < 0 ||
                    (change->is_written[column] && !is_key_column(row->table, column)))
                    foreign->is_touched = true;
            }
        }
}

/* Where a captured change and the table disagree, the table wins: triggers may have been missing
 * since. Asked of the last change of a row alone; what stands in the table is none of the earlier
 * ones'. */
static void prefer_table(const tide_desk_row *row, tide_log_row *change)
{
    const int count = row->table->column_count;
    if (!row->before) {
        change->is_bare = change->is_bare || change->kind == TIDE_ROW_UPDATE;
        change->kind = TIDE_ROW_DELETE;
        memset(change->is_written, 0, (size_t)count * sizeof *change->is_written);
        return;
    }
    if (change->kind == TIDE_ROW_DELETE || !is_seen(row)) {
        change->kind = TIDE_ROW_CREATE;
        change->is_bare = false;
        memset(change->is_written, 1, (size_t)count * sizeof *change->is_written);
    }
    memcpy(change->values, row->before, (size_t)count * sizeof *change->values);
}

static tide_status take_change(tide_event *event, tide_desk *desk, tide_desk_row *row,
                               tide_log_row *change, tide_error *err)
{
    if (!desk->is_partial && !row->table->is_absent && change->seq >= row->last_hint)
        prefer_table(row, change);
    leave_unchanged(row, change);
    touch_children(desk, row, change);
    TIDE_TRY(describe(event, desk, row, change, err));
    return take_prints(desk, row, change, err);
}

/* When the application wrote it. A clock that was set back since does not make it later than now. */
static int64_t time_of(const tide_desk *desk, const tide_log_row *change)
{
    static const double epoch_days = 2440587.5; /* of 1970, as a Julian day */
    static const double day_us = 86400e6;
    double days = 0;
    if (change->at.kind == TIDE_SQL_VALUE_F64)
        days = change->at.f64;
    else if (change->at.kind == TIDE_SQL_VALUE_I64)
        days = (double)change->at.i64;
    else
        return desk->now_us;
    const double us = (days - epoch_days) * day_us;
    if (!(us < (double)desk->now_us))
        return desk->now_us;
    return us > 0 ? (int64_t)us : 0;
}

static tide_status fold_change(tide_desk *desk, tide_log_origin *origin, const tide_table *table,
                               tide_log_row *change, int64_t cut, tide_error *err)
{
    tide_fold_left left_out = {.column = NULL};
    tide_desk_row *row = NULL;
    tide_log_table *log = NULL;
    TIDE_CLEANUP(tide_event_done)
    tide_event event = {.origin = desk->node,
                        .epoch = desk->epoch,
                        .seq = change->seq,
                        .cut_seq = cut,
                        .schema = table->schema,
                        .key_count = table->key_count};
    (void)snprintf(event.table, sizeof event.table, "%s", table->name);
    for (int i = 0; i < table->key_count; i++)
        event.key[i] = tide_table_key_value(table, table->key[i], &change->values[table->key[i]]);
    TIDE_ALLOC(event.columns, (size_t)table->column_count + 1, err);
    TIDE_TRY(tide_log_origin_table(&log, origin, desk->tx, table->name, err));
    assert(log);
    event.prev_seq = log->last_seq;
    event.kind = change->kind;
    TIDE_TRY(tide_fold_find_row(&row, &event, &left_out, desk, table, err));
    if (!left_out.column)
        TIDE_TRY(take_change(&event, desk, row, change, err));
    TIDE_TRY(tide_hybrid_next(&desk->clock, time_of(desk, change), &event.stamp, err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_EVENT_BYTES_MAX);
    TIDE_TRY(tide_fold_encode(&bytes, &left_out, &event, table, err));
    TIDE_TRY(tide_log_settle(origin, desk->tx, &event, err));
    TIDE_TRY(tide_log_put(desk, &event, tide_buffer_view(&bytes), true, err));
    TIDE_TRY(tide_fold_tell_left(desk, &event, table, &left_out, err));
    TIDE_TRY(tide_desk_merge(desk, row, &event, err));
    row->is_changed = true;
    row->is_stale = false;
    if (row->last_hint < change->seq)
        row->last_hint = change->seq;
    row->aside = TIDE_ASIDE_NONE;
    row->rival = (tide_view){.len = 0};
    return TIDE_OK;
}

/* ---- one turn ---- */

typedef struct source {
    const tide_table *table;
    tide_foreign_query *query;
    tide_log_row row;
    bool has_row;
} source;

typedef struct sources {
    source *of;
    int count;
} sources;

static void sources_done(sources *s)
{
    for (int i = 0; i < s->count; i++) {
        tide_foreign_end(s->of[i].query);
        tide_log_row_done(&s->of[i].row);
    }
    free(s->of);
}

static tide_status advance(source *s, tide_error *err)
{
    const tide_status status = tide_log_next(&s->row, s->query, s->table, err);
    TIDE_TRY(status);
    s->has_row = status == TIDE_OK;
    return TIDE_OK;
}

static tide_status open_sources(sources *out, tide_desk *desk, int64_t after, int64_t through,
                                tide_error *err)
{
    TIDE_ALLOC(out->of, (size_t)desk->table_count + 1, err);
    for (int i = 0; i < desk->table_count; i++) {
        source *s = &out->of[i];
        s->table = desk->tables[i];
        TIDE_TRY(tide_log_row_init(&s->row, s->table, err));
        out->count = i + 1;
        TIDE_TRY(tide_table_query(&s->query, desk->tx, s->table, TIDE_TABLE_LOG_READ, err));
        tide_foreign_bind_i64(s->query, "after", after);
        tide_foreign_bind_i64(s->query, "through", through);
        TIDE_TRY(advance(s, err));
    }
    return TIDE_OK;
}

static source *find_lowest(sources *s)
{
    source *lowest = NULL;
    for (int i = 0; i < s->count; i++)
        if (s->of[i].has_row && (!lowest || s->of[i].row.seq < lowest->row.seq))
            lowest = &s->of[i];
    return lowest;
}

/* A key that no event carries as it is (fold_left.h) is passed over: nothing else has it. */
static tide_status note_hint(tide_desk *desk, const tide_table *table, const tide_log_row *change,
                             tide_error *err)
{
    tide_sql_value key[TIDE_EVENT_KEY_MAX];
    tide_desk_row *row = NULL;
    tide_view encoded;
    for (int i = 0; i < table->key_count; i++) {
        key[i] = tide_table_key_value(table, table->key[i], &change->values[table->key[i]]);
        if (key[i].kind == TIDE_SQL_VALUE_NULL)
            return TIDE_OK;
    }
    const tide_status status = tide_desk_key(&encoded, desk, key, table->key_count, err);
    if (status == TIDE_E_LIMIT)
        return TIDE_OK;
    TIDE_TRY(status);
    TIDE_TRY(tide_desk_row_get(&row, desk, table, encoded, err));
    if (row->last_hint < change->seq)
        row->last_hint = change->seq;
    return TIDE_OK;
}

/* Which change of a row is its last. In the last turn alone: in others the tables are further. */
static tide_status note_hints(tide_desk *desk, int64_t after, int64_t through, tide_error *err)
{
    TIDE_CLEANUP(sources_done) sources logs = {.of = NULL};
    TIDE_TRY(open_sources(&logs, desk, after, through, err));
    for (int i = 0; i < logs.count; i++)
        while (logs.of[i].has_row) {
            if (!logs.of[i].table->is_absent)
                TIDE_TRY(note_hint(desk, logs.of[i].table, &logs.of[i].row, err));
            TIDE_TRY(advance(&logs.of[i], err));
        }
    return TIDE_OK;
}

static tide_status fold_range(tide_desk *desk, tide_log_origin *origin, int64_t after,
                              int64_t through, int64_t cut, int64_t *events, tide_error *err)
{
    if (!desk->is_partial)
        TIDE_TRY(note_hints(desk, after, through, err));
    TIDE_CLEANUP(sources_done) sources logs = {.of = NULL};
    TIDE_TRY(open_sources(&logs, desk, after, through, err));
    for (source *next = find_lowest(&logs); next; next = find_lowest(&logs)) {
        TIDE_TRY(fold_change(desk, origin, next->table, &next->row, cut, err));
        TIDE_TRY(advance(next, err));
        ++*events;
    }
    return TIDE_OK;
}

static tide_status get_number(int64_t *out, tide_foreign_tx *tx, const char *text, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(&query, tx, text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? tide_foreign_col_i64(query) : 0;
    return TIDE_OK;
}

/* The cut under way, or a new one: everything that this transaction sees. */
static tide_status find_cut(int64_t *cut, tide_foreign_tx *tx, int64_t after, tide_error *err)
{
    TIDE_TRY(get_number(cut, tx, TIDE_TEMPLATE_APPLY_FOLD_CUT_GET->text, err));
    if (*cut > after)
        return TIDE_OK;
    TIDE_TRY(get_number(cut, tx, TIDE_TEMPLATE_REPLICA_SEQ_LAST->text, err));
    if (*cut <= after + TIDE_FOLD_CHANGES_MAX)
        return TIDE_OK; /* done in one turn: nothing to remember */
    return tide_foreign_exec(tx, TIDE_TEMPLATE_APPLY_FOLD_CUT_PUT->text, NULL, err,
                             tide_bind_i64("cut", *cut));
}

static tide_status run(tide_foreign_tx *tx, const char *text, tide_error *err)
{
    return tide_foreign_exec(tx, text, NULL, err, TIDE_NO_BIND);
}

/* The captured rows go with their numbers, of which the newest stays, as the counter. */
static tide_status cut_numbers(tide_foreign_tx *tx, int64_t through, tide_error *err)
{
    int64_t last = 0;
    TIDE_TRY(get_number(&last, tx, TIDE_TEMPLATE_REPLICA_SEQ_LAST->text, err));
    const bool is_all = last <= through;
    TIDE_TRY(tide_foreign_exec(
        tx, is_all ? TIDE_TEMPLATE_REPLICA_SEQ_CLEAR->text : TIDE_TEMPLATE_REPLICA_SEQ_CUT->text,
        NULL, err, TIDE_BIND_IF(!is_all, tide_bind_i64("through", through))));
    if (!is_all || last == 0)
        return TIDE_OK;
    return tide_foreign_exec(tx, TIDE_TEMPLATE_REPLICA_SEQ_RAISE->text, NULL, err,
                             tide_bind_i64("seq", last));
}

static tide_status cut_logs(tide_desk *desk, int64_t through, tide_error *err)
{
    for (int i = 0; i < desk->table_count; i++) {
        if (tide_table_is_narrow(desk->tables[i]))
            continue;
        TIDE_FOREIGN_QUERY_BY(query, tide_table_query, desk->tx, desk->tables[i],
                              TIDE_TABLE_LOG_CUT, err);
        tide_foreign_bind_i64(query, "through", through);
        TIDE_TRY(tide_foreign_run(query, NULL, err));
    }
    return cut_numbers(desk->tx, through, err);
}

/* The replication document's counter: origin_seq::<database name>. */
static tide_status put_meta(tide_node *node, tide_foreign_tx *tx, int64_t last, tide_error *err)
{
    const char *path = tide_foreign_path(tide_node_file(node));
    const char *slash = strrchr(path, '/');
    char key[512];
    (void)snprintf(key, sizeof key, "origin_seq::%s", slash ? slash + 1 : path);
    return tide_foreign_exec(tx, TIDE_TEMPLATE_APPLY_META_PUT->text, NULL, err,
                             tide_bind_text("key", key), tide_bind_i64("value", last));
}

/* The next turn has changes of rows that this one has clocks of: what stands in the tables is not touched before the last. Then all that was not looked
 * at is: rows aside, references. */
static tide_status leave_to_last_turn(tide_desk *desk, tide_error *err)
{
    desk->is_partial = true;
    return tide_foreign_exec(desk->tx, TIDE_TEMPLATE_APPLY_REFER_RELEASE->text, NULL, err,
                             TIDE_NO_BIND);
}

/* What an application changed or deleted may have kept rows of peers out. That places them: the
 * guard, under which everything that was captured is ingested, is taken away. */
static tide_status release_kept_out(tide_desk *desk, tide_error *err)
{
    tide_foreign_guard(desk->tx, false);
    desk->is_folding = false;
    TIDE_TRY(tide_resolve_released(desk, err));
    return tide_desk_store(desk, err);
}

static tide_status fold_range_of(tide_node *node, tide_foreign_tx *tx, tide_log_origin *origin,
                                 int64_t after, int64_t cut, bool *more, int64_t *events,
                                 tide_error *err)
{
    int64_t last = 0;
    int64_t is_scanned = 0; /* changes may be of a time when nobody looked at references */
    const int64_t through =
        cut - after > TIDE_FOLD_CHANGES_MAX ? after + TIDE_FOLD_CHANGES_MAX : cut;
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_TRY(tide_desk_init(&desk, node, tx, err));
    desk.is_folding = true;
    TIDE_TRY(get_number(&last, tx, TIDE_TEMPLATE_REPLICA_SEQ_LAST->text, err));
    *more = through < last;
    if (*more)
        TIDE_TRY(leave_to_last_turn(&desk, err));
    int64_t has_oversize = 0;
    TIDE_TRY(get_number(&has_oversize, tx, TIDE_TEMPLATE_APPLY_QUARANTINE_HAS_SIZE->text, err));
    desk.has_oversize = has_oversize != 0;
    TIDE_TRY(tide_desk_take_absent(&desk, err));
    TIDE_TRY(fold_range(&desk, origin, after, through, cut, events, err));
    TIDE_TRY(get_number(&is_scanned, tx, TIDE_TEMPLATE_APPLY_REFER_SCANNED->text, err));
    if (is_scanned == 0)
        TIDE_TRY(tide_references_judge(&desk, err));
    (void)tide_cursor_raise(&origin->cursor, through);
    TIDE_TRY(tide_references_report(&desk, origin, err));
    TIDE_TRY(tide_desk_store(&desk, err));
    const int64_t reported = tide_cursor_contiguous(&origin->cursor);
    TIDE_TRY(tide_log_origin_store(origin, tx, err));
    TIDE_TRY(put_meta(node, tx, reported, err));
    TIDE_TRY(cut_logs(&desk, reported, err));
    if (through == cut)
        TIDE_TRY(run(tx, TIDE_TEMPLATE_REPLICA_ABSENT_CUT->text, err));
    return *more ? TIDE_OK : release_kept_out(&desk, err);
}

static tide_status fold_captured(tide_node *node, tide_foreign_tx *tx, int64_t *events, bool *more,
                                 tide_error *err)
{
    int64_t cut = 0;
    const tide_node_id self = tide_node_get_id(node);
    TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
    TIDE_TRY(tide_log_origin_load(&origin, tx, &self, tide_node_epoch(node), err));
    const int64_t after = tide_cursor_contiguous(&origin.cursor);
    TIDE_TRY(find_cut(&cut, tx, after, err));
    if (cut <= after)
        return TIDE_OK;
    return fold_range_of(node, tx, &origin, after, cut, more, events, err);
}

/* What waited for a table, a column or the time. */
static tide_status retry_held(tide_node *node, tide_foreign_tx *tx, bool *more, tide_error *err)
{
    int64_t merged = 0;
    int64_t held = 0;
    TIDE_TRY(get_number(&held, tx, TIDE_TEMPLATE_APPLY_QUARANTINE_ANY->text, err));
    if (held == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_TRY(tide_desk_init(&desk, node, tx, err));
    TIDE_TRY(tide_quarantine_retry(&merged, more, &desk, TIDE_FOLD_RETRY_MAX, err));
    return merged > 0 ? tide_desk_settle(&desk, err) : TIDE_OK;
}

/* Events that came before their schema was known tell their data when it is, though they may wait on. */
static tide_status tell_waiting(tide_node *node, tide_foreign_tx *tx, tide_error *err)
{
    int64_t is_behind = 0;
    TIDE_TRY(get_number(&is_behind, tx, TIDE_TEMPLATE_APPLY_TOLD_BEHIND->text, err));
    if (is_behind == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_TRY(tide_desk_init(&desk, node, tx, err));
    TIDE_TRY(tide_log_fill_waiting(&desk, err));
    return run(tx, TIDE_TEMPLATE_APPLY_TOLD_PUT->text, err);
}

/* While a table was not captured, or its parent not tracked, nobody looked at its references. Not
 * before everything is ingested, and what waited for a table is merged: rows that no clock knows yet
 * are not judged. */
static tide_status judge_references(tide_node *node, tide_foreign_tx *tx, tide_error *err)
{
    int64_t is_wanted = 0;
    int64_t is_scanned = 0;
    const tide_node_id self = tide_node_get_id(node);
    TIDE_TRY(get_number(&is_wanted, tx, TIDE_TEMPLATE_APPLY_REFER_WANTED->text, err));
    TIDE_TRY(get_number(&is_scanned, tx, TIDE_TEMPLATE_APPLY_REFER_SCANNED->text, err));
    if (is_wanted == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_TRY(tide_log_origin_load(&origin, tx, &self, tide_node_epoch(node), err));
    TIDE_TRY(tide_desk_init(&desk, node, tx, err));
    desk.is_refer_wanted = true;
    tide_foreign_guard(tx, true);
    for (int i = 0; i < desk.table_count; i++)
        for (int k = 0; k < desk.tables[i]->foreign_count; k++)
            desk.tables[i]->foreign[k].is_touched = is_scanned != 0;
    TIDE_TRY(tide_references_judge(&desk, err));
    TIDE_TRY(tide_references_report(&desk, &origin, err));
    TIDE_TRY(tide_log_origin_store(&origin, tx, err));
    TIDE_TRY(run(tx, TIDE_TEMPLATE_APPLY_REFER_CUT->text, err));
    return release_kept_out(&desk, err);
}

tide_status tide_fold_turn(tide_node *node, tide_foreign_tx *tx, int64_t *events, bool *more,
                           tide_error *err)
{
    *events = 0;
    *more = false;
    TIDE_TRY(tide_capture_follow(tx, err));
    tide_foreign_guard(tx, true);
    TIDE_TRY(tide_capture_settle(tx, err));
    TIDE_TRY(fold_captured(node, tx, events, more, err));
    tide_foreign_guard(tx, false);
    if (*more)
        return TIDE_OK;
    TIDE_TRY(tide_spool_release_all(node, tx, err));
    TIDE_TRY(tell_waiting(node, tx, err));
    TIDE_TRY(retry_held(node, tx, more, err));
    return *more ? TIDE_OK : judge_references(node, tx, err);
}

typedef struct fold_call {
    tide_node *node;
    int64_t events;
    bool more;
} fold_call;

static tide_status fold_once(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    fold_call *call = arg;
    return tide_fold_turn(call->node, tx, &call->events, &call->more, err);
}

tide_status tide_node_fold(tide_node *node, int64_t *events, bool *more, tide_error *err)
{
    fold_call call = {.node = node};
    TIDE_TRY(tide_foreign_write(tide_node_file(node), fold_once, &call, err));
    *events = call.events;
    *more = call.more;
    return TIDE_OK;
}
