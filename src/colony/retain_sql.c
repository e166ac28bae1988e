/* retain_sql.c - what is old goes, and stays counted. See sink.h.
 *
 * A turn is one transaction with a bounded number of rows. Rows go by the batch that stored them; how many really went is added to their
 * source's count in the same transaction, so that stored = rows + expired at any time. Several colonies may do this at once: on PostgreSQL they pass
 * each other's batches and gaps over (SKIP LOCKED). */

#include "base/cleanup.h"
#include "colony/rollup.h"
#include "colony/sink_sql.h"
#include "core/retention_clock.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    BATCH_MAX = 64, /* of one type and turn */
    ROW_MAX = 50000,
    GAP_MAX = 500,
    DEAD_MAX = 500,
    BUCKET_MAX = 5000,
};

#define DEAD_KEEP_US INT64_C(2592000000000) /* 30 days */
#define AGAIN_US INT64_C(60000000)

typedef struct turn {
    const tide_sink *sink;
    int64_t gap_keep_us;
    int64_t now_us; /* retention_clock.h */
    tide_retained done;
    bool has_more;
} turn;

/* What left a source's tables. */
typedef struct tally {
    int64_t expired;
    int64_t expired_dead;
    int64_t voided;
    int64_t lost;
    int64_t recovered;
} tally;

static tide_status add_to_source(tide_tx *tx, int64_t source_id, const tally *gone, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_SOURCE_ADD, NULL, err, tide_bind_i64("source_id", source_id),
                        tide_bind_i64("expired", gone->expired),
                        tide_bind_i64("expired_dead", gone->expired_dead),
                        tide_bind_i64("voided", gone->voided), tide_bind_i64("lost", gone->lost),
                        tide_bind_i64("recovered", gone->recovered));
}

static tide_status drop(tide_tx *tx, const tide_sql *sql, int64_t id, tide_error *err)
{
    return tide_tx_exec(tx, sql, NULL, err, tide_bind_i64("id", id));
}

/* ---- rows ---- */

static const tide_sql *expire_of(tide_stream_kind kind)
{
    const tide_sql *const statements[TIDE_STREAM_COUNT] = {
        [TIDE_STREAM_TELEMETRY] = TIDE_SQL_SPANS_EXPIRE,
        [TIDE_STREAM_SYSTEM_METRICS] = TIDE_SQL_SYSTEM_METRICS_EXPIRE,
        [TIDE_STREAM_BEYLA_HTTP] = TIDE_SQL_EBPF_HTTP_METRICS_EXPIRE,
        [TIDE_STREAM_BEYLA_GRPC] = TIDE_SQL_EBPF_GRPC_METRICS_EXPIRE,
        [TIDE_STREAM_BEYLA_SQL] = TIDE_SQL_EBPF_SQL_METRICS_EXPIRE,
        [TIDE_STREAM_BEYLA_TRACES] = TIDE_SQL_EBPF_TRACES_EXPIRE,
        [TIDE_STREAM_CPU_PROFILE] = TIDE_SQL_CPU_PROFILE_SAMPLES_EXPIRE,
        [TIDE_STREAM_MEMORY_PROFILE] = TIDE_SQL_MEMORY_PROFILE_SAMPLES_EXPIRE,
        [TIDE_STREAM_LOGS] = TIDE_SQL_LOGS_EXPIRE,
        [TIDE_STREAM_LOSS_RECEIPTS] = TIDE_SQL_LOSS_RECEIPTS_EXPIRE,
        [TIDE_STREAM_OPAQUE] = TIDE_SQL_RECORDS_EXPIRE,
    };
    return statements[kind];
}

typedef struct batch {
    int64_t id;
    int64_t source_id;
    int64_t first;
    int64_t last;
} batch;

static tide_status find_batches(tide_tx *tx, const tide_colony_type *type, int64_t before_us,
                                batch *out, int *count, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_BATCH_OLD, err, tide_bind_text("target", type->table),
               tide_bind_time("before", before_us), tide_bind_i64("limit", BATCH_MAX));
    TIDE_EACH(tide_query_step(query, err)) {
        batch *b = &out[(*count)++];
        b->id = tide_query_col_i64(query);
        b->source_id = tide_query_col_i64(query);
        b->first = tide_query_col_i64(query);
        b->last = tide_query_col_i64(query);
    }
    return TIDE_OK;
}

static tide_status expire_batch(tide_tx *tx, const tide_colony_type *type, const batch *b,
                                int64_t before_us, int64_t *rows, tide_error *err)
{
    TIDE_TRY(tide_tx_exec(tx, expire_of(type->stream->kind), rows, err,
                          tide_bind_i64("source_id", b->source_id),
                          tide_bind_i64("first", b->first), tide_bind_i64("last", b->last),
                          tide_bind_i64("batch", b->id), tide_bind_time("before", before_us)));
    TIDE_TRY(drop(tx, TIDE_SQL_BATCH_DROP, b->id, err));
    return add_to_source(tx, b->source_id, &(tally){.expired = *rows}, err);
}

static tide_status expire_type(tide_tx *tx, turn *t, const tide_colony_type *type, tide_error *err)
{
    const int64_t before_us = t->now_us - tide_sink_keep_us(t->sink, type->keep_us);
    batch found[BATCH_MAX];
    int count = 0;
    TIDE_TRY(find_batches(tx, type, before_us, found, &count, err));
    for (int i = 0; i < count; i++) {
        if (t->done.rows >= ROW_MAX) {
            t->has_more = true;
            return TIDE_OK;
        }
        int64_t rows = 0;
        TIDE_TRY(expire_batch(tx, type, &found[i], before_us, &rows, err));
        t->done.rows += rows;
        t->done.batches++;
    }
    t->has_more = t->has_more || count == BATCH_MAX;
    return TIDE_OK;
}

/* ---- dead letters ---- */

static tide_status expire_dead(tide_tx *tx, turn *t, tide_error *err)
{
    struct {
        int64_t id;
        int64_t source_id;
        int64_t seq;
    } found[DEAD_MAX];
    int count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_DEAD_LETTER_OLD, err,
               tide_bind_time("before", t->now_us - DEAD_KEEP_US),
               tide_bind_i64("limit", DEAD_MAX));
    TIDE_EACH(tide_query_step(query, err)) {
        found[count].id = tide_query_col_i64(query);
        found[count].source_id = tide_query_col_i64(query);
        found[count++].seq = tide_query_col_i64(query);
    }
    for (int i = 0; i < count; i++) {
        TIDE_TRY(drop(tx, TIDE_SQL_DEAD_LETTER_DROP, found[i].id, err));
        if (found[i].seq > 0)
            TIDE_TRY(add_to_source(tx, found[i].source_id, &(tally){.expired_dead = 1}, err));
    }
    t->done.dead += count;
    t->has_more = t->has_more || count == DEAD_MAX;
    return TIDE_OK;
}

/* ---- gaps ---- */

typedef struct ended_gap {
    int64_t id;
    int64_t source_id;
    tally folded;
} ended_gap;

static void read_ended(ended_gap *out, tide_query *query)
{
    *out = (ended_gap){.id = tide_query_col_i64(query)};
    out->source_id = tide_query_col_i64(query);
    const tide_view status = tide_query_col_text(query);
    const int64_t width = tide_query_col_i64(query);
    if (tide_view_equal(status, tide_view_of("void")))
        out->folded.voided = width;
    else if (tide_view_equal(status, tide_view_of("permanent")))
        out->folded.lost = width;
    else
        out->folded.recovered = width;
}

static tide_status fold_gaps(tide_tx *tx, turn *t, tide_error *err)
{
    ended_gap found[GAP_MAX];
    int count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_GAP_ENDED, err,
               tide_bind_time("before", t->now_us - t->gap_keep_us),
               tide_bind_i64("limit", GAP_MAX));
    TIDE_EACH(tide_query_step(query, err))
        read_ended(&found[count++], query);
    for (int i = 0; i < count; i++) {
        TIDE_TRY(add_to_source(tx, found[i].source_id, &found[i].folded, err));
        TIDE_TRY(drop(tx, TIDE_SQL_GAP_DROP, found[i].id, err));
    }
    t->done.gaps += count;
    t->has_more = t->has_more || count == GAP_MAX;
    return TIDE_OK;
}

/* ---- rollups ---- */

static tide_status expire_rollups(tide_tx *tx, turn *t, const tide_colony_type *type,
                                  tide_error *err)
{
    int64_t gone = 0;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_ROLLUP_DROP, &gone, err,
                          tide_bind_text("data_type", type->stream->name),
                          tide_bind_time("before", t->now_us - TIDE_ROLLUP_KEEP_US),
                          tide_bind_i64("limit", BUCKET_MAX)));
    t->has_more = t->has_more || gone == BUCKET_MAX;
    return TIDE_OK;
}

static tide_status take_turn(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    t->done = (tide_retained){0};
    t->has_more = false;
    int64_t now_us = 0;
    tide_retention_clock clock;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_TRY(tide_retention_clock_read(tx, "colony", now_us, &clock, err));
    t->now_us = clock.now_us;
    for (int kind = 0; kind < TIDE_STREAM_COUNT; kind++) {
        const tide_colony_type *type = tide_colony_type_of((tide_stream_kind)kind);
        TIDE_TRY(expire_type(tx, t, type, err));
        if (tide_rollup_has((tide_stream_kind)kind))
            TIDE_TRY(expire_rollups(tx, t, type, err));
    }
    TIDE_TRY(expire_dead(tx, t, err));
    return fold_gaps(tx, t, err);
}

tide_status tide_sink_sql_retain(tide_sink *sink, int64_t gap_keep_us, tide_retained *out,
                                 tide_error *err)
{
    turn t = {.sink = sink, .gap_keep_us = gap_keep_us};
    TIDE_TRY(tide_store_write(sink->store, take_turn, &t, err));
    *out = t.done;
    out->next_us = t.has_more ? 0 : AGAIN_US;
    return TIDE_OK;
}
