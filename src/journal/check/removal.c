#include "journal/check/removal.h"

#include <inttypes.h>
#include <stdlib.h>

#include <tidemark/journal.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "journal/check/chunk_gc.h"
#include "journal/checkpoint_iter.h"
#include "journal/events.h"
#include "journal/page.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- candidates ---- */

/* SQLite has one writer at a time anyhow. */
static tide_status lock(tide_tx *tx, const tide_sql *sql, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    return tide_tx_exec(tx, sql, NULL, err, TIDE_NO_BIND);
}

tide_status tide_removal_begin(tide_tx *tx, tide_error *err)
{
    return lock(tx, TIDE_SQL_REMOVAL_ALONE, err);
}

tide_status tide_removal_keep_away(tide_tx *tx, tide_error *err)
{
    return lock(tx, TIDE_SQL_REMOVAL_SHARE, err);
}

static void read_candidate(tide_candidate *row, tide_query *query)
{
    *row = (tide_candidate){.global_sequence = tide_query_col_i64(query)};
    row->sequence_number = tide_query_col_i64(query);
    row->has_chain = !tide_query_col_is_null(query);
    tide_chain_set(&row->chain, tide_query_col_blob(query));
    row->len = tide_query_col_i64(query);
    row->is_old = tide_query_col_bool(query);
    row->is_tagged = tide_query_col_bool(query);
    row->is_fork_point = tide_query_col_bool(query);
    row->is_needed = tide_query_col_bool(query);
    row->is_live = tide_query_col_bool(query);
    row->has_fork = tide_query_col_bool(query);
}

tide_status tide_removal_read(tide_candidates *out, tide_tx *tx, const char *task_id, int64_t after,
                              int64_t before, int64_t older_us, tide_error *err)
{
    out->count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_REMOVAL_CANDIDATES, err, tide_bind_text("task_id", task_id),
               tide_bind_i64("after", after), tide_bind_i64("before", before),
               tide_bind_i64("limit", TIDE_REMOVAL_MAX), tide_bind_bool("yes", true));
    if (older_us != 0)
        tide_journal_bind_bound(query, tx, "older", older_us);
    TIDE_EACH(tide_query_step(query, err))
        read_candidate(&out->rows[out->count++], query);
    return TIDE_OK;
}

/* ---- rows ---- */

static tide_status run(tide_tx *tx, const tide_sql *sql, tide_error *err)
{
    return tide_tx_exec(tx, sql, NULL, err, TIDE_NO_BIND);
}

static tide_status remove_rows(tide_tx *tx, const tide_candidates *candidates, int64_t *removed,
                               tide_error *err)
{
    TIDE_BUFFER(list, TIDE_REMOVAL_MAX * 24);
    *removed = 0;
    for (int i = 0; i < candidates->count; i++)
        if (candidates->rows[i].is_going &&
            tide_buffer_printf(&list, "%c%" PRId64, (*removed)++ ? ',' : '[',
                               candidates->rows[i].global_sequence) < TIDE_OK)
            return tide_no_memory(err);
    if (tide_buffer_append_byte(&list, ']') < TIDE_OK)
        return tide_no_memory(err);
    TIDE_QUERY(query, tx, TIDE_SQL_REMOVAL_DO, err,
               tide_bind_view("numbers", tide_buffer_view(&list)));
    int64_t changed = 0;
    TIDE_TRY(tide_query_run(query, &changed, err));
    if (changed != *removed)
        return tide_fail(err, TIDE_E_CONFLICT, "the task was deleted meanwhile");
    return TIDE_OK;
}

/* ---- global numbers ---- */

typedef struct span {
    int64_t first;
    int64_t last;
    int parts; /* of which it was joined */
} span;

/* Runs of removed numbers, and the gaps that touch them: at most two per run. */
typedef struct spans {
    span rows[TIDE_REMOVAL_MAX * 3];
    int count;
} spans;

static int compare_spans(const void *a, const void *b)
{
    const int64_t x = ((const span *)a)->first;
    const int64_t y = ((const span *)b)->first;
    return (x > y) - (x < y);
}

/* Put them in order and join what touches. */
static void join_spans(spans *s)
{
    qsort(s->rows, (size_t)s->count, sizeof s->rows[0], compare_spans);
    int kept = 0;
    for (int i = 0; i < s->count; i++) {
        if (kept > 0 && s->rows[i].first <= s->rows[kept - 1].last + 1) {
            if (s->rows[i].last > s->rows[kept - 1].last)
                s->rows[kept - 1].last = s->rows[i].last;
            s->rows[kept - 1].parts += s->rows[i].parts;
        } else {
            s->rows[kept++] = s->rows[i];
        }
    }
    s->count = kept;
}

static tide_status list_spans(tide_buffer *out, const spans *s, tide_error *err)
{
    for (int i = 0; i < s->count; i++)
        if (tide_buffer_printf(out, "%c[%" PRId64 ",%" PRId64 "]", i ? ',' : '[', s->rows[i].first,
                               s->rows[i].last) < TIDE_OK)
            return tide_no_memory(err);
    return tide_buffer_append_byte(out, ']') < TIDE_OK ? tide_no_memory(err) : TIDE_OK;
}

static tide_status add_edges(spans *s, tide_tx *tx, tide_error *err)
{
    TIDE_BUFFER(list, TIDE_REMOVAL_MAX * 48);
    TIDE_TRY(list_spans(&list, s, err));
    TIDE_QUERY(query, tx, TIDE_SQL_GAP_EDGES, err, tide_bind_view("runs", tide_buffer_view(&list)));
    TIDE_EACH(tide_query_step(query, err)) {
        span *edge = &s->rows[s->count++];
        *edge = (span){.first = tide_query_col_i64(query), .parts = 1};
        edge->last = tide_query_col_i64(query);
    }
    return TIDE_OK;
}

static tide_status defer_span(tide_tx *tx, const tide_sql *sql, const span *gap, int64_t now_us,
                              tide_error *err)
{
    return tide_tx_defer(tx, sql, err, tide_bind_i64("first", gap->first),
                         tide_bind_i64("last", gap->last),
                         TIDE_BIND_IF(sql == TIDE_SQL_GAP_ADD, tide_bind_time("now", now_us)));
}

/* The database has recorded each removed number, on PostgreSQL each run of them; here they are joined to what was
 * recorded before. */
static tide_status join_gaps(tide_tx *tx, const tide_candidates *candidates, int64_t now_us,
                             tide_error *err)
{
    const bool is_single = tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_SQLITE;
    TIDE_CLEANUP(tide_freep) TIDE_NEW(spans, s, err);
    for (int i = 0; i < candidates->count; i++) {
        const int64_t number = candidates->rows[i].global_sequence;
        if (candidates->rows[i].is_going)
            s->rows[s->count++] = (span){number, number, is_single};
    }
    join_spans(s);
    for (int i = 0; !is_single && i < s->count; i++)
        s->rows[i].parts = 1;
    TIDE_TRY(add_edges(s, tx, err));
    join_spans(s);
    for (int i = 0; i < s->count; i++) {
        if (s->rows[i].parts == 1)
            continue;
        TIDE_TRY(defer_span(tx, TIDE_SQL_GAP_FORGET, &s->rows[i], now_us, err));
        TIDE_TRY(defer_span(tx, TIDE_SQL_GAP_ADD, &s->rows[i], now_us, err));
    }
    return TIDE_OK;
}

/* ---- the task's chain ---- */

/* A run of removed rows without a surviving one between them. */
typedef struct cut {
    int64_t low;  /* the surviving number before it */
    int64_t high; /* ... and behind it */
    int64_t first;
    int64_t last;
    int64_t chain_number; /* the number that the chain stands behind; 0: none */
    tide_chain chain;
} cut;

typedef struct cuts {
    cut rows[TIDE_REMOVAL_MAX];
    int count;
} cuts;

static void note_chain(cut *c, int64_t number, const tide_chain *chain)
{
    if (number < c->chain_number)
        return;
    c->chain_number = number;
    c->chain = *chain;
}

static void find_cuts(cuts *out, const tide_candidates *candidates, int64_t low, int64_t high)
{
    bool is_open = false;
    out->count = 0;
    for (int i = 0; i < candidates->count; i++) {
        const tide_candidate *row = &candidates->rows[i];
        if (!row->is_going) {
            low = row->sequence_number;
            if (is_open)
                out->rows[out->count - 1].high = low;
            is_open = false;
            continue;
        }
        if (!is_open)
            out->rows[out->count++] =
                (cut){.low = low, .high = high, .first = row->sequence_number};
        is_open = true;
        cut *c = &out->rows[out->count - 1];
        c->last = row->sequence_number;
        if (row->has_chain)
            note_chain(c, row->sequence_number, &row->chain);
    }
}

/* Cuts that were made before and have no surviving row between them and these become one with them. */
static tide_status join_cuts(cuts *all, tide_tx *tx, const char *task_id, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_CUT_LIST, err, tide_bind_text("task_id", task_id),
               tide_bind_i64("low", all->rows[0].low),
               tide_bind_i64("high", all->rows[all->count - 1].high));
    int at = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        const int64_t first = tide_query_col_i64(query);
        const int64_t last = tide_query_col_i64(query);
        const bool has_chain = !tide_query_col_is_null(query);
        tide_chain chain;
        tide_chain_set(&chain, tide_query_col_blob(query));
        while (at < all->count - 1 && first > all->rows[at].high)
            at++;
        cut *c = &all->rows[at];
        if (first <= c->low || last >= c->high)
            continue;
        c->first = first < c->first ? first : c->first;
        c->last = last > c->last ? last : c->last;
        if (has_chain)
            note_chain(c, last, &chain);
    }
    return TIDE_OK;
}

static tide_status defer_cut(const cut *c, tide_tx *tx, const char *task_id, const char *reason,
                             int64_t now_us, tide_error *err)
{
    TIDE_TRY(tide_tx_defer(tx, TIDE_SQL_CUT_FORGET, err, tide_bind_text("task_id", task_id),
                           tide_bind_i64("low", c->low), tide_bind_i64("high", c->high)));
    return tide_tx_defer(
        tx, TIDE_SQL_CUT_ADD, err, tide_bind_text("task_id", task_id),
        tide_bind_i64("first", c->first), tide_bind_i64("last", c->last),
        TIDE_BIND_IF(c->chain_number > 0, tide_bind_blob("chain", tide_chain_view(&c->chain))),
        tide_bind_text("reason", reason), tide_bind_time("now", now_us));
}

static tide_status read_neighbours(const tide_candidates *candidates, tide_tx *tx,
                                   const char *task_id, int64_t *low, int64_t *high,
                                   tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_REMOVAL_NEIGHBOURS, err,
                  tide_bind_text("task_id", task_id),
                  tide_bind_i64("first", candidates->rows[0].sequence_number),
                  tide_bind_i64("last", candidates->rows[candidates->count - 1].sequence_number));
    *low = tide_query_col_i64(query);
    *high = tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status record_cuts(tide_tx *tx, const char *task_id, const tide_candidates *candidates,
                               const char *reason, int64_t now_us, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) TIDE_NEW(cuts, all, err);
    int64_t low = 0;
    int64_t high = 0;
    TIDE_TRY(read_neighbours(candidates, tx, task_id, &low, &high, err));
    find_cuts(all, candidates, low, high);
    TIDE_TRY(join_cuts(all, tx, task_id, err));
    for (int i = 0; i < all->count; i++)
        TIDE_TRY(defer_cut(&all->rows[i], tx, task_id, reason, now_us, err));
    return TIDE_OK;
}

/* ---- all of it ---- */

static tide_status add_event(tide_tx *tx, const char *task_id, const tide_candidates *candidates,
                             tide_journal_event_kind kind, int64_t removed,
                             tide_sequence_range *range, tide_error *err)
{
    tide_journal_event event = {.kind = kind, .task_id = task_id, .count = removed};
    for (int i = 0; i < candidates->count; i++) {
        const int64_t number = candidates->rows[i].global_sequence;
        if (!candidates->rows[i].is_going)
            continue;
        if (event.first_global == 0 || number < event.first_global)
            event.first_global = number;
        if (number > event.last_global)
            event.last_global = number;
    }
    return tide_journal_event_add(tx, &event, range, err);
}

tide_status tide_removal_do(tide_tx *tx, const char *task_id, const tide_candidates *candidates,
                            tide_journal_event_kind kind, tide_sequence_range *range,
                            tide_error *err)
{
    int64_t now_us = 0;
    int64_t removed = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_TRY(run(tx, TIDE_SQL_REMOVAL_PERMIT, err));
    TIDE_TRY(remove_rows(tx, candidates, &removed, err));
    TIDE_TRY(join_gaps(tx, candidates, now_us, err));
    const char *reason = kind == TIDE_JOURNAL_DELETED ? "deleted" : "compacted";
    TIDE_TRY(record_cuts(tx, task_id, candidates, reason, now_us, err));
    TIDE_TRY(add_event(tx, task_id, candidates, kind, removed, range, err));
    return tide_tx_defer(tx, TIDE_SQL_REMOVAL_PERMIT_END, err, TIDE_NO_BIND);
}

enum { STEP = 1000 }; /* events of one transaction */

typedef struct trim_step {
    int64_t keep_us;
    bool has_more;
} trim_step;

static tide_status begin_before(tide_query **out, tide_tx *tx, const tide_sql *sql, int64_t keep_us,
                                tide_error *err)
{
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    return tide_query_start(out, tx, sql, err,
                            tide_bind_time("before", now_us > keep_us ? now_us - keep_us : 0));
}

static tide_status look_for_old(tide_tx *tx, void *arg, tide_error *err)
{
    trim_step *step = arg;
    TIDE_QUERY_BY(query, begin_before, tx, TIDE_SQL_JOURNAL_EVENTS_OLD, step->keep_us, err);
    TIDE_TRY(tide_query_one(query, err));
    step->has_more = tide_query_col_bool(query);
    return TIDE_OK;
}

static tide_status trim(tide_tx *tx, void *arg, tide_error *err)
{
    trim_step *step = arg;
    int64_t removed = 0;
    TIDE_TRY(tide_removal_begin(tx, err));
    TIDE_TRY(run(tx, TIDE_SQL_REMOVAL_PERMIT, err));
    TIDE_QUERY_BY(query, begin_before, tx, TIDE_SQL_JOURNAL_EVENTS_TRIM, step->keep_us, err);
    tide_query_bind_i64(query, "limit", STEP);
    TIDE_TRY(tide_query_run(query, &removed, err));
    step->has_more = removed == STEP;
    return run(tx, TIDE_SQL_REMOVAL_PERMIT_END, err);
}

tide_status tide_journal_expire_events(tide_store *store, int64_t keep_us, tide_error *err)
{
    trim_step step = {.keep_us = keep_us};
    TIDE_TRY(tide_store_read_local(store, look_for_old, &step, err));
    while (step.has_more)
        TIDE_TRY(tide_store_write(store, trim, &step, err));
    return TIDE_OK;
}

/* One checkpoint goes, unless somebody needs it. */

typedef struct delete_request {
    const char *id_or_number;
    bool is_forced;
    tide_candidates candidates;
    tide_sequence_range range;
    char task_id[TIDE_JOURNAL_ID_MAX + 1];
} delete_request;

static tide_status find_one(delete_request *request, tide_tx *tx, tide_error *err)
{
    int64_t global_sequence = 0;
    TIDE_TRY(tide_journal_need(tx, request->id_or_number, &global_sequence, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_FORK_PARENT, err,
                                           tide_bind_i64("global_sequence", global_sequence));
    if (status != TIDE_OK)
        return status < TIDE_OK ? status
                                : tide_fail(err, TIDE_E_NOT_FOUND, "there is no checkpoint %s",
                                            request->id_or_number);
    tide_view_copy(request->task_id, sizeof request->task_id, tide_query_col_text(query));
    const int64_t number = tide_query_col_i64(query);
    return tide_removal_read(&request->candidates, tx, request->task_id, number - 1, number + 1, 0,
                             err);
}

static tide_status delete_one(tide_tx *tx, void *arg, tide_error *err)
{
    delete_request *request = arg;
    TIDE_TRY(tide_removal_begin(tx, err));
    TIDE_TRY(find_one(request, tx, err));
    if (request->candidates.count != 1)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no checkpoint %s", request->id_or_number);
    tide_candidate *row = &request->candidates.rows[0];
    if (row->is_fork_point || (row->is_needed && row->has_fork))
        return tide_fail(err, TIDE_E_CONFLICT, "a fork of task %s needs checkpoint %s",
                         request->task_id, request->id_or_number);
    if ((row->is_needed || row->is_live) && !request->is_forced)
        return tide_fail(err, TIDE_E_CONFLICT, "resuming task %s needs checkpoint %s",
                         request->task_id, request->id_or_number);
    row->is_going = true;
    return tide_removal_do(tx, request->task_id, &request->candidates, TIDE_JOURNAL_DELETED,
                           &request->range, err);
}

tide_status tide_journal_delete(tide_store *store, const char *id_or_number, bool is_forced,
                                tide_error *err)
{
    TIDE_NEED(store && id_or_number, err);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(delete_request, request, err);
    request->id_or_number = id_or_number;
    request->is_forced = is_forced;
    TIDE_TRY(tide_store_write(store, delete_one, request, err));
    /* It is gone, whatever becomes of its chunks: the next compaction looks after them. */
    int64_t chunks = 0;
    int64_t bytes = 0;
    TIDE_IGNORE(tide_journal_chunk_gc(store, &chunks, &bytes, NULL));
    return TIDE_OK;
}
