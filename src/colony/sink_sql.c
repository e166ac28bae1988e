/* sink_sql.c - the sink on the tables of a SQL store. See sink.h. */
#include "colony/sink_sql.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "colony/rollup.h"
#include "core/retention_clock.h"
#include "store/readonly_query.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- apply ---- */

/* What a run finds out; handed over when it is durable. */
typedef struct applying {
    const tide_change *change;
    int64_t source_id; /* of `to`, or of `closed` when nothing follows */
    int64_t version;
    int64_t closed_source_id;
    int64_t *gap_ids;
} applying;

static bool is_same_source(const tide_position *a, const tide_position *b)
{
    return a->epoch == b->epoch && strcmp(a->session_id, b->session_id) == 0;
}

/* Where nothing was stored yet, or of an agent that was removed before, nothing is left to be closed: what follows begins. */
static bool is_ending(const tide_change *change)
{
    return change->is_closing && change->from.source_id != 0;
}

static tide_status fail_moved(const tide_position *from, tide_error *err)
{
    return tide_fail(err, TIDE_E_CONFLICT, "%s, %s is no longer at version %" PRId64,
                     from->agent_id, from->data_type, from->version);
}

/* ---- sources ---- */

static tide_status put_source(tide_tx *tx, const tide_position *of, int64_t now_us, int64_t *id,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_SOURCE_PUT, err, tide_bind_text("agent_id", of->agent_id),
                    tide_bind_text("data_type", of->data_type),
                    tide_bind_text("session_id", of->session_id), tide_bind_i64("epoch", of->epoch),
                    tide_bind_text("epoch_id", of->epoch_id), tide_bind_time("now", now_us));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "a source got no number: is there a foreign trigger?");
    TIDE_TRY(status);
    *id = tide_query_col_i64(query);
    return TIDE_OK;
}

/* An agent's session is its alone. Two that begin at once take turns on PostgreSQL. */
static tide_status check_owner(tide_tx *tx, const tide_position *to, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_SESSION_TURN, NULL, err,
                              tide_bind_text("session_id", to->session_id)));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_SESSION_OWNER, err,
                                           tide_bind_text("session_id", to->session_id),
                                           tide_bind_text("agent_id", to->agent_id));
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : TIDE_OK;
    return tide_sink_fail_owner(to, tide_query_col_text(query), err);
}

/* A position begins on this source. If the source has a closed one, it is that one which is opened again, or the change was made without
 * knowing of it. */
static tide_status open_again(tide_tx *tx, const tide_position *to, int64_t source_id,
                              tide_error *err)
{
    int64_t changed = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    if (to->source_id == source_id) {
        TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_POSITION_REOPEN, err,
                                  tide_bind_i64("source_id", source_id)));
        TIDE_TRY(tide_query_run(query, &changed, err));
        return changed == 1 ? TIDE_OK : fail_moved(to, err);
    }
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_POSITION_CLOSED, err,
                                           tide_bind_i64("source_id", source_id));
    if (status == TIDE_OK)
        return tide_fail(err, TIDE_E_CONFLICT, "session %s of %s, %s was here before",
                         to->session_id, to->agent_id, to->data_type);
    return status < TIDE_OK ? status : TIDE_OK;
}

/* ---- the position ---- */

static tide_status write_position(tide_tx *tx, const tide_sql *sql, const applying *job,
                                  const tide_position *position, tide_error *err)
{
    const tide_position *from = &job->change->from;
    int64_t changed = 0;
    TIDE_QUERY_BY(query, tide_query_begin, tx, sql, err);
    TIDE_TRY(tide_sink_sql_bind_position(query, position, job->source_id, job->version, err));
    if (sql != TIDE_SQL_POSITION_ADD)
        tide_query_bind_i64(query, "from_version", from->version);
    TIDE_TRY(tide_query_run(query, &changed, err));
    return changed == 1 ? TIDE_OK : fail_moved(from, err);
}

static tide_status note_position(tide_tx *tx, const tide_position *position, int64_t source_id,
                                 const char *event, const char *note, int64_t now_us,
                                 tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_POSITION_NOTE, err, tide_bind_text("event", event),
               tide_bind_text("note", note), tide_bind_time("recorded_at", now_us));
    TIDE_TRY(tide_sink_sql_bind_position(query, position, source_id, position->version, err));
    return tide_query_defer(&query, err);
}

/* One that goes on: the ordinary page, and what is still recovered for one that is closed. */
static tide_status go_on(tide_tx *tx, applying *job, int64_t now_us, tide_error *err)
{
    const tide_change *change = job->change;
    const tide_position *to = &change->to;
    const bool is_begin = !is_same_source(&change->from, to) || change->from.source_id == 0;
    job->source_id = change->from.source_id;
    if (to->closed_at_us != 0)
        return write_position(tx, TIDE_SQL_POSITION_MOVE_CLOSED, job, to, err);
    if (is_begin && strcmp(change->from.session_id, to->session_id) != 0)
        TIDE_TRY(check_owner(tx, to, err));
    if (is_begin || strcmp(change->from.epoch_id, to->epoch_id) != 0)
        TIDE_TRY(put_source(tx, to, now_us, &job->source_id, err));
    if (is_begin)
        TIDE_TRY(open_again(tx, to, job->source_id, err));
    return write_position(
        tx, change->from.version == 0 ? TIDE_SQL_POSITION_ADD : TIDE_SQL_POSITION_MOVE, job, to,
        err);
}

/* One that ends, and the one that follows, if any does. */
static tide_status close_and_follow(tide_tx *tx, applying *job, int64_t now_us, tide_error *err)
{
    const tide_change *change = job->change;
    const bool is_last = change->to.session_id[0] == '\0';
    job->closed_source_id = change->from.source_id;
    job->source_id = job->closed_source_id;
    if (is_last) {
        TIDE_TRY(write_position(tx, TIDE_SQL_POSITION_MOVE, job, &change->closed, err));
    } else {
        if (strcmp(change->closed.session_id, change->to.session_id) != 0)
            TIDE_TRY(check_owner(tx, &change->to, err));
        TIDE_TRY(put_source(tx, &change->to, now_us, &job->source_id, err));
        TIDE_TRY(open_again(tx, &change->to, job->source_id, err));
        TIDE_TRY(write_position(tx, TIDE_SQL_POSITION_MOVE, job, &change->to, err));
    }
    return note_position(tx, &change->closed, job->closed_source_id, "closed",
                         change->note[0] ? change->note : change->closed.closed_reason, now_us,
                         err);
}

static tide_status check_change(const tide_change *change, tide_error *err)
{
    const tide_position *from = &change->from;
    if (is_ending(change)) {
        if (from->version == 0 || from->closed_at_us != 0)
            return tide_fail(err, TIDE_E_INVALID, "%s, %s has no position that could be closed",
                             from->agent_id, from->data_type);
        if (is_same_source(&change->to, &change->closed))
            return tide_fail(err, TIDE_E_INVALID, "a position of %s, %s cannot follow itself",
                             from->agent_id, from->data_type);
    } else if (change->to.session_id[0] == '\0') {
        return tide_fail(err, TIDE_E_INVALID, "%s, %s has no session yet", from->agent_id,
                         from->data_type);
    }
    return TIDE_OK;
}

/* ---- everything ---- */

static tide_status carry_out(tide_tx *tx, void *arg, tide_error *err)
{
    applying *job = arg;
    const tide_change *change = job->change;
    const tide_position *of = is_ending(change) ? &change->closed : &change->to;
    int64_t now_us = 0;
    /* One that is opened again had a version of its own: what is written is above both. */
    job->version =
        (change->from.version > change->to.version ? change->from.version : change->to.version) + 1;
    job->source_id = 0;
    job->closed_source_id = 0;
    for (int i = 0; i < change->gap_count; i++)
        job->gap_ids[i] = 0;
    if (change->lease_name)
        TIDE_TRY(tide_lease_check(tx, change->lease_name, change->lease_token, err));
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    if (is_ending(change))
        TIDE_TRY(close_and_follow(tx, job, now_us, err));
    else
        TIDE_TRY(go_on(tx, job, now_us, err));
    const int64_t source_id = is_ending(change) ? job->closed_source_id : job->source_id;
    TIDE_TRY(tide_sink_sql_put_rows(tx, change, of, source_id, now_us, err));
    TIDE_TRY(tide_sink_sql_put_gaps(tx, change, of, source_id, now_us, job->gap_ids, err));
    if (change->note[0] && !change->is_closing && change->from.source_id != 0)
        return note_position(tx, &change->from, change->from.source_id, "noted", change->note,
                             now_us, err);
    return TIDE_OK;
}

static void hand_over(const applying *job, tide_change *change)
{
    if (is_ending(change)) {
        change->closed.source_id = job->closed_source_id;
        change->closed.version = change->from.version;
    }
    if (is_ending(change) && change->to.session_id[0] == '\0') {
        change->to.version = job->version;
    } else {
        change->to.source_id = job->source_id;
        change->to.version = job->version;
    }
    for (int i = 0; i < change->gap_count; i++) {
        change->gaps[i].source_id = is_ending(change) ? job->closed_source_id : job->source_id;
        if (change->gaps[i].id == 0)
            change->gaps[i].id = job->gap_ids[i];
    }
}

static tide_status sink_sql_apply(tide_sink *sink, tide_change *change, tide_error *err)
{
    TIDE_TRY(check_change(change, err));
    TIDE_CLEANUP(tide_freep)
    int64_t *gap_ids = calloc((size_t)change->gap_count + 1, sizeof *gap_ids);
    TIDE_NEED_MEMORY(gap_ids, err);
    applying job = {.change = change, .gap_ids = gap_ids};
    TIDE_TRY(tide_store_write(sink->store, carry_out, &job, err));
    hand_over(&job, change);
    return TIDE_OK;
}

/* ---- retention ---- */

/* A turn is one transaction with a bounded number of rows. Rows go by the batch that stored them;
 * how many really went is added to their source's count in the same transaction, so that stored =
 * rows + expired at any time. Several colonies may do this at once: on PostgreSQL they pass each
 * other's batches and gaps over (SKIP LOCKED). */
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

static tide_status sink_sql_retain(tide_sink *sink, int64_t gap_keep_us, tide_retained *out,
                                   tide_error *err)
{
    turn t = {.sink = sink, .gap_keep_us = gap_keep_us};
    TIDE_TRY(tide_store_write(sink->store, take_turn, &t, err));
    *out = t.done;
    out->next_us = t.has_more ? 0 : AGAIN_US;
    return TIDE_OK;
}

enum { PAGE = 256 /* positions read at a time */ };

/* Sorts behind every name: U+10FFFF, twice. */
static const char LAST_NAME[] = "\xf4\x8f\xbf\xbf\xf4\x8f\xbf\xbf";

#define BYTES_MAX_USUAL (INT64_C(64) << 20)
#define TIMEOUT_USUAL_US INT64_C(30000000)

static void close_sink(tide_sink *sink)
{
    free(sink);
}

/* ---- load ---- */

typedef struct loading {
    const char *agent_id;
    const char *data_type;
    tide_position *out;
} loading;

static tide_status load_inside(tide_tx *tx, void *arg, tide_error *err)
{
    const loading *l = arg;
    tide_position_done(l->out);
    tide_position_init(l->out, l->agent_id, l->data_type);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(tide_tx_one(&query, tx, TIDE_SQL_POSITION_FIND, err,
                                tide_bind_text("agent_id", l->agent_id),
                                tide_bind_text("data_type", l->data_type)));
    TIDE_CLEANUP(tide_position_done) tide_position position;
    tide_position_init(&position, "", "");
    TIDE_TRY(tide_sink_sql_read_position(&position, query, err));
    if (position.closed_at_us !=
        0) { /* the agent was removed: what comes now begins anew, in this row's place */
        l->out->version = position.version;
        return TIDE_OK;
    }
    *l->out = position;
    tide_position_init(&position, "", "");
    return TIDE_OK;
}

static tide_status load(tide_sink *sink, const char *agent_id, const char *data_type,
                        tide_position *out, tide_error *err)
{
    loading l = {.agent_id = agent_id, .data_type = data_type, .out = out};
    tide_position_init(out, agent_id, data_type);
    tide_status status = tide_store_read(sink->store, load_inside, &l, err);
    if (status >= TIDE_OK)
        status = tide_position_hold(out, sink->env->mono_us(sink->env), err);
    if (status < TIDE_OK) {
        tide_position_done(out);
        tide_position_init(out, agent_id, data_type);
    }
    return status;
}

/* ---- positions ---- */

/* Read page by page, and told outside of the snapshot: it may be read twice, and whoever is told may use the store. */
typedef struct page {
    const char *agent_id;
    const char *data_type;
    bool with_closed;
    char after_agent[TIDE_AGENT_ID_MAX + 1];
    char after_type[TIDE_FEED_NAME_MAX + 1];
    int64_t after_source;
    tide_position positions[PAGE];
    tide_gap_sums sums[PAGE];
    int count;
} page;

static void forget_page(page *p)
{
    for (int i = 0; i < p->count; i++)
        tide_position_done(&p->positions[i]);
    p->count = 0;
}

static void free_page(page **p)
{
    if (*p)
        forget_page(*p);
    free(*p);
}

static void bind_text_or_null(tide_query *query, const char *name, const char *text)
{
    if (text)
        tide_query_bind_text(query, name, text);
    else
        tide_query_bind_null(query, name);
}

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    page *p = arg;
    forget_page(p);
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_POSITION_LIST, err);
    bind_text_or_null(query, "agent_id", p->agent_id);
    bind_text_or_null(query, "data_type", p->data_type);
    tide_query_bind_bool(query, "with_closed", p->with_closed);
    tide_query_bind_text(query, "last_agent", p->agent_id ? p->agent_id : LAST_NAME);
    tide_query_bind_text(query, "after_agent", p->after_agent);
    tide_query_bind_text(query, "after_type", p->after_type);
    tide_query_bind_i64(query, "after_source", p->after_source);
    tide_query_bind_i64(query, "limit", PAGE);
    TIDE_EACH(tide_query_step(query, err)) {
        TIDE_TRY(tide_sink_sql_read_position(&p->positions[p->count], query, err));
        tide_gap_sums *sums = &p->sums[p->count++];
        sums->open = tide_query_col_i64(query);
        sums->voided = tide_query_col_i64(query);
        sums->permanent = tide_query_col_i64(query);
        sums->recovered = tide_query_col_i64(query);
        sums->accepted = tide_query_col_i64(query);
    }
    return TIDE_OK;
}

static tide_status tell_page(page *p, tide_sink *sink, tide_position_fn *fn, void *arg,
                             tide_error *err)
{
    for (int i = 0; i < p->count; i++) {
        TIDE_TRY(tide_position_hold(&p->positions[i], sink->env->mono_us(sink->env), err));
        TIDE_TRY(fn(arg, &p->positions[i], &p->sums[i], err));
    }
    return TIDE_OK;
}

static tide_status positions(tide_sink *sink, const char *agent_id, const char *data_type,
                             bool with_closed, tide_position_fn *fn, void *arg, tide_error *err)
{
    TIDE_CLEANUP(free_page) TIDE_NEW(page, p, err);
    p->agent_id = agent_id;
    p->data_type = data_type;
    p->with_closed = with_closed;
    if (agent_id) /* begin there: others' positions are not looked at */
        tide_sink_sql_text(p->after_agent, sizeof p->after_agent, tide_view_of(agent_id));
    do {
        TIDE_TRY(tide_store_read(sink->store, read_page, p, err));
        TIDE_TRY(tell_page(p, sink, fn, arg, err));
        if (p->count > 0) {
            const tide_position *last = &p->positions[p->count - 1];
            memcpy(p->after_agent, last->agent_id, sizeof p->after_agent);
            memcpy(p->after_type, last->data_type, sizeof p->after_type);
            p->after_source = last->source_id;
        }
    } while (p->count == PAGE);
    return TIDE_OK;
}

/* ---- count ---- */

static const tide_sql *count_of(tide_stream_kind kind)
{
    const tide_sql *const statements[TIDE_STREAM_COUNT] = {
        [TIDE_STREAM_TELEMETRY] = TIDE_SQL_SPANS_COUNT,
        [TIDE_STREAM_SYSTEM_METRICS] = TIDE_SQL_SYSTEM_METRICS_COUNT,
        [TIDE_STREAM_BEYLA_HTTP] = TIDE_SQL_EBPF_HTTP_METRICS_COUNT,
        [TIDE_STREAM_BEYLA_GRPC] = TIDE_SQL_EBPF_GRPC_METRICS_COUNT,
        [TIDE_STREAM_BEYLA_SQL] = TIDE_SQL_EBPF_SQL_METRICS_COUNT,
        [TIDE_STREAM_BEYLA_TRACES] = TIDE_SQL_EBPF_TRACES_COUNT,
        [TIDE_STREAM_CPU_PROFILE] = TIDE_SQL_CPU_PROFILE_SAMPLES_COUNT,
        [TIDE_STREAM_MEMORY_PROFILE] = TIDE_SQL_MEMORY_PROFILE_SAMPLES_COUNT,
        [TIDE_STREAM_LOGS] = TIDE_SQL_LOGS_COUNT,
        [TIDE_STREAM_LOSS_RECEIPTS] = TIDE_SQL_LOSS_RECEIPTS_COUNT,
        [TIDE_STREAM_OPAQUE] = TIDE_SQL_RECORDS_COUNT,
    };
    return statements[kind];
}

typedef struct counting {
    page *page; /* begins with the position */
    int64_t source_id;
    int64_t rows;
    int64_t dead;
} counting;

static tide_status count_one(tide_tx *tx, const tide_sql *sql, int64_t source_id, int64_t *out,
                             tide_error *err)
{
    return tide_tx_number(out, tx, sql, err, tide_bind_i64("source_id", source_id));
}

static tide_status count_inside(tide_tx *tx, void *arg, tide_error *err)
{
    counting *c = arg;
    const tide_stream_kind kind = tide_colony_type_find(c->page->data_type)->stream->kind;
    TIDE_TRY(read_page(tx, c->page, err));
    TIDE_TRY(count_one(tx, count_of(kind), c->source_id, &c->rows, err));
    return count_one(tx, TIDE_SQL_DEAD_LETTER_COUNT, c->source_id, &c->dead, err);
}

static tide_status count(tide_sink *sink, const tide_position *which, tide_position_fn *fn,
                         void *arg, int64_t *rows, int64_t *dead, tide_error *err)
{
    TIDE_CLEANUP(free_page) TIDE_NEW(page, p, err);
    p->agent_id = which->agent_id;
    p->data_type = which->data_type;
    p->with_closed = true;
    memcpy(p->after_agent, which->agent_id, sizeof p->after_agent);
    memcpy(p->after_type, which->data_type, sizeof p->after_type);
    p->after_source = which->source_id - 1;
    counting c = {.page = p, .source_id = which->source_id};
    TIDE_TRY(tide_store_read(sink->store, count_inside, &c, err));
    if (p->count == 0 || p->positions[0].source_id != which->source_id)
        return TIDE_NONE;
    *rows = c.rows;
    *dead = c.dead;
    TIDE_TRY(tide_position_hold(&p->positions[0], sink->env->mono_us(sink->env), err));
    return fn ? fn(arg, &p->positions[0], &p->sums[0], err) : TIDE_OK;
}

/* ---- query ---- */

static tide_status query(tide_sink *sink, const tide_sink_query *asked, const tide_sink_rows *rows,
                         tide_error *err)
{
    const tide_readonly_query inner = {
        .sql = asked->sql,
        .row_max = asked->row_max > 0 ? asked->row_max : TIDE_SINK_QUERY_ROWS,
        .bytes_max = asked->bytes_max > 0 ? asked->bytes_max : BYTES_MAX_USUAL,
        .timeout_us = asked->timeout_us > 0 ? asked->timeout_us : TIMEOUT_USUAL_US,
        .cancel_fd = asked->cancel_fd,
        .columns = rows->columns,
        .row = rows->row,
        .arg = rows->arg,
    };
    return tide_readonly_query_run(sink->store, &inner, err);
}

/* ---- life ---- */

#define SQL_OPS(engine)                                                                            \
    {                                                                                              \
        .name = (engine), .close = close_sink, .load = load, .apply = sink_sql_apply,              \
        .positions = positions, .gaps = tide_sink_sql_gaps, .gap = tide_sink_sql_gap,              \
        .count = count, .absent = tide_sink_sql_absent, .trace = tide_sink_sql_trace,              \
        .retain = sink_sql_retain, .query = query,                                                 \
    }
static const tide_sink_ops sqlite_ops = SQL_OPS("sqlite");
static const tide_sink_ops postgres_ops = SQL_OPS("postgres");

tide_status tide_sink_open_sql(tide_sink **out, tide_store *store, tide_error *err)
{
    TIDE_NEW(tide_sink, sink, err);
    sink->ops = tide_store_engine(store) == TIDE_ENGINE_POSTGRES ? &postgres_ops : &sqlite_ops;
    sink->store = store;
    sink->env = tide_store_env(store);
    *out = sink;
    return TIDE_OK;
}
