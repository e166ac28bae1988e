/* sink_sql.c - the sink on the tables of a SQL store. See sink.h. */
#include "colony/sink_sql.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/readonly_query.h"
#include "store/statement.h"
#include "tidemark_sql.h"

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
        .name = (engine), .close = close_sink, .load = load, .apply = tide_sink_sql_apply,         \
        .positions = positions, .gaps = tide_sink_sql_gaps, .gap = tide_sink_sql_gap,              \
        .count = count, .retain = tide_sink_sql_retain, .query = query,                            \
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
