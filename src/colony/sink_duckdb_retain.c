/* One turn of clean-up: old rows, old dead letters, gaps that ended long ago, states that are no longer so. What is taken from a source is booked
 * in source_folds by the transaction that takes it. */
#include "base/cleanup.h"
#include "colony/rollup.h"
#include "colony/sink_duckdb.h"
#include "core/retention_clock.h"

#define TURN_SPAN_US INT64_C(600000000)
#define DEAD_KEEP_US INT64_C(2592000000000) /* 30 days */
#define REST_US INT64_C(60000000)           /* between turns that found nothing */

enum {
    TURN_ROWS_MAX = 1000000,  /* of one type */
    ROLLUP_ROWS_MAX = 200000, /* before those of one bucket are added up */
};

typedef struct turn {
    int64_t now_us;
    int64_t gap_keep_us;
    bool is_compacting;
    bool has_more;
    tide_retained sum;
} turn;

/* In the order of tide_stream_kind. */
const tide_sql *tide_duck_expire_statement(tide_stream_kind kind)
{
    const tide_sql *const statements[] = {
#define EXPIRE(kind, table, path, start, max, position, max_seq, session, state, metric, hours,    \
               interval, priority)                                                                 \
    [TIDE_STREAM_##kind] = TIDE_DUCKDB_SQL_COLONY_EXPIRE_##kind,
        TIDE_COLONY_TYPES(EXPIRE)
#undef EXPIRE
    };
    return statements[kind];
}

/* ---- folds ---- */

typedef struct fold {
    int64_t source_id;
    int64_t expired;
    int64_t expired_dead;
    int64_t voided;
    int64_t lost;
    int64_t recovered;
} fold;

static void put_fold(tide_duck_appender *out, const fold *f)
{
    tide_duck_put_i64(out, f->source_id);
    tide_duck_put_i64(out, f->expired);
    tide_duck_put_i64(out, f->expired_dead);
    tide_duck_put_i64(out, f->voided);
    tide_duck_put_i64(out, f->lost);
    tide_duck_put_i64(out, f->recovered);
    tide_duck_end_row(out);
}

/* Book every row of the query, which `read` turns into a fold. */
static tide_status put_folds(tide_duck_sink *sink, tide_duck_query *query,
                             void (*read)(tide_duck_query *row, fold *out, tide_retained *sum),
                             tide_retained *sum, tide_error *err)
{
    TIDE_CLEANUP(tide_duck_append_dropp) tide_duck_appender *out = NULL;
    TIDE_TRY(tide_duck_append_begin(&out, sink->writer, "source_folds", err));
    TIDE_EACH(tide_duck_query_step(query, err)) {
        fold f = {.source_id = tide_duck_col_i64(query)};
        read(query, &f, sum);
        put_fold(out, &f);
    }
    return tide_duck_append_end(&out, err);
}

/* Run a statement with one time, and perhaps a text. */
static tide_status run_before(tide_duck_sink *sink, const tide_sql *sql, int64_t before_us,
                              const char *name, const char *value, int64_t *changed,
                              tide_error *err)
{
    TIDE_DUCK_QUERY(query, sink->writer, sql, err);
    tide_duck_bind_time(query, "before", before_us);
    if (name)
        tide_duck_bind_text(query, name, value);
    return tide_duck_query_run(query, changed, err);
}

/* ---- rows ---- */

static tide_status find_old(tide_duck_sink *sink, const char *table, int64_t limit_us,
                            int64_t *oldest_us, int64_t *count, tide_error *err)
{
    TIDE_DUCK_QUERY(query, sink->writer, TIDE_DUCKDB_SQL_COLONY_ROWS_OLD, err);
    tide_duck_bind_text(query, "table", table);
    tide_duck_bind_time(query, "before", limit_us);
    TIDE_TRY(tide_duck_query_step(query, err));
    *oldest_us = tide_duck_col_time(query);
    *count = tide_duck_col_i64(query);
    return TIDE_OK;
}

static void read_expired(tide_duck_query *row, fold *out, tide_retained *sum)
{
    out->expired = tide_duck_col_i64(row);
    sum->rows += out->expired;
}

static tide_status book_rows(tide_duck_sink *sink, const tide_colony_type *type, const char *table,
                             int64_t before_us, tide_retained *sum, tide_error *err)
{
    const bool is_users = type->stream->kind == TIDE_STREAM_OPAQUE;
    TIDE_DUCK_QUERY(query, sink->writer,
                    is_users ? TIDE_DUCKDB_SQL_COLONY_RECORDS_EXPIRING
                             : TIDE_DUCKDB_SQL_COLONY_ROWS_EXPIRING,
                    err);
    tide_duck_bind_time(query, "before", before_us);
    if (!is_users) {
        tide_duck_bind_text(query, "table", table);
        tide_duck_bind_text(query, "data_type", type->stream->name);
    }
    return put_folds(sink, query, read_expired, sum, err);
}

/* Where there are many, some minutes' rows at a time. */
static tide_status expire_rows(tide_duck_sink *sink, const tide_colony_type *type, turn *t,
                               tide_error *err)
{
    char table[TIDE_DUCK_TABLE_SIZE];
    const int64_t limit = t->now_us - tide_sink_keep_us(&sink->base, type->keep_us);
    int64_t oldest = 0;
    int64_t count = 0;
    int64_t batches = 0;
    tide_duck_rows_table(table, type);
    TIDE_TRY(find_old(sink, table, limit, &oldest, &count, err));
    if (count == 0)
        return TIDE_OK;
    const bool is_cut = count > TURN_ROWS_MAX && oldest + TURN_SPAN_US < limit;
    const int64_t before = is_cut ? oldest + TURN_SPAN_US : limit;
    t->has_more = t->has_more || is_cut;
    TIDE_TRY(book_rows(sink, type, table, before, &t->sum, err));
    TIDE_TRY(run_before(sink, tide_duck_expire_statement(type->stream->kind), before, NULL, NULL,
                        NULL, err));
    TIDE_TRY(run_before(sink, TIDE_DUCKDB_SQL_COLONY_BATCHES_EXPIRE, before, "target", type->table,
                        &batches, err));
    t->sum.batches += batches;
    return TIDE_OK;
}

/* ---- dead letters, gaps, rollups ---- */

static void read_expired_dead(tide_duck_query *row, fold *out, tide_retained *sum)
{
    (void)sum;
    out->expired_dead = tide_duck_col_i64(row);
}

static tide_status expire_dead(tide_duck_sink *sink, int64_t now_us, tide_retained *sum,
                               tide_error *err)
{
    int64_t dropped = 0;
    TIDE_DUCK_QUERY(query, sink->writer, TIDE_DUCKDB_SQL_COLONY_DEAD_EXPIRING, err);
    tide_duck_bind_time(query, "before", now_us - DEAD_KEEP_US);
    TIDE_TRY(put_folds(sink, query, read_expired_dead, sum, err));
    TIDE_TRY(run_before(sink, TIDE_DUCKDB_SQL_COLONY_DEAD_EXPIRE, now_us - DEAD_KEEP_US, NULL, NULL,
                        &dropped, err));
    sum->dead += dropped;
    return TIDE_OK;
}

static void read_ended(tide_duck_query *row, fold *out, tide_retained *sum)
{
    out->voided = tide_duck_col_i64(row);
    out->lost = tide_duck_col_i64(row);
    out->recovered = tide_duck_col_i64(row);
    sum->gaps += tide_duck_col_i64(row);
}

static tide_status expire_gaps(tide_duck_sink *sink, int64_t before_us, tide_retained *sum,
                               tide_error *err)
{
    TIDE_DUCK_QUERY(query, sink->writer, TIDE_DUCKDB_SQL_COLONY_GAPS_ENDING, err);
    tide_duck_bind_time(query, "before", before_us);
    TIDE_TRY(put_folds(sink, query, read_ended, sum, err));
    return run_before(sink, TIDE_DUCKDB_SQL_COLONY_GAPS_EXPIRE, before_us, NULL, NULL, NULL, err);
}

/* ---- states that are no longer so ---- */

static tide_status ask_number(tide_duck_sink *sink, const tide_sql *sql, int64_t *out,
                              tide_error *err)
{
    TIDE_DUCK_QUERY(query, sink->writer, sql, err);
    TIDE_TRY(tide_duck_query_step(query, err));
    *out = tide_duck_col_i64(query);
    return TIDE_OK;
}

/* Sums in place of what they are made of: the sums are appended, what stood before them goes. */
static tide_status add_up(tide_duck_sink *sink, const tide_sql *last, const tide_sql *sums,
                          const tide_sql *drop, tide_error *err)
{
    int64_t row = 0;
    TIDE_TRY(ask_number(sink, last, &row, err));
    TIDE_TRY(tide_duck_run(sink->writer, sums, err));
    TIDE_DUCK_QUERY(query, sink->writer, drop, err);
    tide_duck_bind_i64(query, "last", row);
    return tide_duck_query_run(query, NULL, err);
}

static tide_status compact(tide_duck_sink *sink, tide_error *err)
{
    TIDE_TRY(tide_duck_run(sink->writer, TIDE_DUCKDB_SQL_COLONY_STATES_COMPACT, err));
    TIDE_TRY(tide_duck_run(sink->writer, TIDE_DUCKDB_SQL_COLONY_GAPS_COMPACT, err));
    TIDE_TRY(tide_duck_run(sink->writer, TIDE_DUCKDB_SQL_COLONY_COUNTERS_COMPACT, err));
    TIDE_TRY(tide_duck_run(sink->writer, TIDE_DUCKDB_SQL_COLONY_FRAMES_COMPACT, err));
    return add_up(sink, TIDE_DUCKDB_SQL_COLONY_FOLDS_LAST, TIDE_DUCKDB_SQL_COLONY_FOLDS_ADD_UP,
                  TIDE_DUCKDB_SQL_COLONY_FOLDS_COMPACT, err);
}

static tide_status compact_rollups(tide_duck_sink *sink, int64_t now_us, tide_error *err)
{
    TIDE_TRY(run_before(sink, TIDE_DUCKDB_SQL_COLONY_ROLLUPS_EXPIRE, now_us - TIDE_ROLLUP_KEEP_US,
                        NULL, NULL, NULL, err));
    return add_up(sink, TIDE_DUCKDB_SQL_COLONY_ROLLUPS_LAST, TIDE_DUCKDB_SQL_COLONY_ROLLUPS_ADD_UP,
                  TIDE_DUCKDB_SQL_COLONY_ROLLUPS_COMPACT, err);
}

/* ---- all of it ---- */

static tide_status work(tide_duck_sink *sink, turn *t, tide_error *err)
{
    for (int kind = 0; kind < TIDE_STREAM_COUNT; kind++)
        TIDE_TRY(expire_rows(sink, tide_colony_type_of((tide_stream_kind)kind), t, err));
    TIDE_TRY(expire_dead(sink, t->now_us, &t->sum, err));
    TIDE_TRY(expire_gaps(sink, t->now_us - t->gap_keep_us, &t->sum, err));
    int64_t superseded = 0;
    int64_t rollups = 0;
    TIDE_TRY(ask_number(sink, TIDE_DUCKDB_SQL_COLONY_STATES_SUPERSEDED, &superseded, err));
    TIDE_TRY(ask_number(sink, TIDE_DUCKDB_SQL_COLONY_ROLLUPS_SUPERSEDED, &rollups, err));
    t->is_compacting = superseded > sink->superseded_max || rollups > ROLLUP_ROWS_MAX;
    if (superseded > sink->superseded_max)
        TIDE_TRY(compact(sink, err));
    if (rollups > ROLLUP_ROWS_MAX)
        TIDE_TRY(compact_rollups(sink, t->now_us, err));
    return TIDE_OK;
}

/* In the store beside the file, before anything is deleted: what this process dies of then costs nothing. */
static tide_status read_clock(tide_tx *tx, void *arg, tide_error *err)
{
    tide_retention_clock *out = arg;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    return tide_retention_clock_read(tx, "colony", now_us, out, err);
}

tide_status tide_duck_sink_retain(tide_sink *base, int64_t gap_keep_us, tide_retained *out,
                                  tide_error *err)
{
    tide_duck_sink *sink = tide_duck_sink_of(base);
    tide_retention_clock clock;
    TIDE_TRY(tide_store_write(base->store, read_clock, &clock, err));
    TIDE_CLEANUP(tide_duckdb_unlockp) tide_duckdb *held = tide_duckdb_lock(sink->db);
    (void)held;
    TIDE_TRY(tide_duck_sink_refresh(sink, err));
    turn t = {.now_us = clock.now_us, .gap_keep_us = gap_keep_us};
    TIDE_TRY(tide_duck_begin(sink->writer, err));
    tide_status status = work(sink, &t, err);
    if (status < TIDE_OK) {
        tide_duck_rollback(sink->writer);
        return status;
    }
    /* Memory holds the folds too. */
    sink->is_stale = true;
    TIDE_TRY(tide_duck_commit(sink->writer, err));
    TIDE_TRY(tide_duck_sink_refresh(sink, err));
    *out = t.sum;
    out->next_us = t.has_more ? 0 : REST_US;
    if (t.is_compacting)
        /* Gives the space back. It waits for nobody: where somebody reads, it is left for the next time. */
        TIDE_IGNORE(tide_duck_run(sink->writer, TIDE_DUCKDB_SQL_COLONY_CHECKPOINT, NULL));
    return TIDE_OK;
}
