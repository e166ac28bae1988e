/* find_sql.c - what the SQL sink looks up in rows: numbers without one, and the rows of a trace. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "colony/sink_sql.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- numbers without rows ---- */

static const tide_sql *absent_of(tide_stream_kind kind)
{
    const tide_sql *const statements[TIDE_STREAM_COUNT] = {
        [TIDE_STREAM_TELEMETRY] = TIDE_SQL_SPANS_ABSENT,
        [TIDE_STREAM_SYSTEM_METRICS] = TIDE_SQL_SYSTEM_METRICS_ABSENT,
        [TIDE_STREAM_BEYLA_HTTP] = TIDE_SQL_EBPF_HTTP_METRICS_ABSENT,
        [TIDE_STREAM_BEYLA_GRPC] = TIDE_SQL_EBPF_GRPC_METRICS_ABSENT,
        [TIDE_STREAM_BEYLA_SQL] = TIDE_SQL_EBPF_SQL_METRICS_ABSENT,
        [TIDE_STREAM_BEYLA_TRACES] = TIDE_SQL_EBPF_TRACES_ABSENT,
        [TIDE_STREAM_CPU_PROFILE] = TIDE_SQL_CPU_PROFILE_SAMPLES_ABSENT,
        [TIDE_STREAM_MEMORY_PROFILE] = TIDE_SQL_MEMORY_PROFILE_SAMPLES_ABSENT,
        [TIDE_STREAM_LOGS] = TIDE_SQL_LOGS_ABSENT,
        [TIDE_STREAM_LOSS_RECEIPTS] = TIDE_SQL_LOSS_RECEIPTS_ABSENT,
        [TIDE_STREAM_OPAQUE] = TIDE_SQL_RECORDS_ABSENT,
    };
    return statements[kind];
}

typedef struct looking {
    const tide_position *which;
    tide_interval *found;
    int count;
} looking;

static void looking_done(looking *l)
{
    free(l->found);
}

static tide_status look_for_absent(tide_tx *tx, void *arg, tide_error *err)
{
    looking *l = arg;
    const tide_stream_kind kind = tide_colony_type_find(l->which->data_type)->stream->kind;
    l->count = 0;
    TIDE_QUERY(query, tx, absent_of(kind), err, tide_bind_i64("source_id", l->which->source_id),
               tide_bind_i64("limit", TIDE_SINK_ABSENT_MAX));
    TIDE_EACH(tide_query_step(query, err)) {
        TIDE_TRY(tide_list_room(&l->found, l->count, sizeof *l->found, TIDE_LIST_MAX, err));
        const int64_t first = tide_query_col_i64(query);
        const int64_t last = tide_query_col_i64(query);
        const int64_t batch_first = tide_query_col_i64(query);
        const int64_t batch_last = tide_query_col_i64(query);
        l->found[l->count++] = (tide_interval){first > batch_first ? first : batch_first,
                                               last < batch_last ? last : batch_last};
    }
    return TIDE_OK;
}

tide_status tide_sink_sql_absent(tide_sink *sink, const tide_position *which, tide_interval_fn *fn,
                                 void *arg, tide_error *err)
{
    TIDE_CLEANUP(looking_done) looking l = {.which = which};
    TIDE_TRY(tide_store_read(sink->store, look_for_absent, &l, err));
    return tide_sink_tell_absent(l.found, l.count, fn, arg, err);
}

/* ---- the rows of a trace ---- */

typedef struct tracing {
    const char *trace_id;
    tide_trace_fn *fn;
    void *arg;
} tracing;

/* The text of a column, or "" where it is NULL. */
static tide_view text_of(tide_query *query)
{
    const bool is_null = tide_query_col_is_null(query);
    const tide_view text = tide_query_col_text(query);
    return is_null ? tide_view_of("") : text;
}

static tide_status tell_trace(tide_tx *tx, void *arg, tide_error *err)
{
    const tracing *t = arg;
    TIDE_QUERY(query, tx, TIDE_SQL_TRACE_FIND, err, tide_bind_text("trace_id", t->trace_id),
               tide_bind_i64("limit", TIDE_SINK_TRACE_MAX));
    int64_t index = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        tide_trace_row row = {.index = index++};
        row.source = text_of(query);
        row.agent_id = text_of(query);
        row.session_id = text_of(query);
        row.epoch = tide_query_col_i64(query);
        row.seq = tide_query_col_i64(query);
        row.time_us = tide_sink_sql_col_time(query);
        row.span_id = text_of(query);
        row.parent_span_id = text_of(query);
        row.service_name = text_of(query);
        row.name = text_of(query);
        row.kind = text_of(query);
        row.duration_us = tide_query_col_i64(query);
        row.is_error = tide_query_col_i64(query) != 0;
        row.attributes = text_of(query);
        TIDE_TRY(t->fn(t->arg, &row, err));
    }
    return TIDE_OK;
}

tide_status tide_sink_sql_trace(tide_sink *sink, const char *trace_id, tide_trace_fn *fn, void *arg,
                                tide_error *err)
{
    tracing t = {.trace_id = trace_id, .fn = fn, .arg = arg};
    return tide_store_read(sink->store, tell_trace, &t, err);
}
