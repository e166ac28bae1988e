/* What is there: positions, gaps, counts, and people's own questions. Each on a connection of its own, so that nobody who writes waits. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "colony/sink_duckdb.h"

enum { QUERY_BYTES_DEFAULT = 64 << 20, GAPS_DEFAULT = 1000 };
#define QUERY_TIMEOUT_DEFAULT_US INT64_C(30000000)

static tide_status list_positions(tide_duck *duck, const char *agent_id, const char *data_type,
                                  bool with_closed, tide_position_fn *fn, void *arg,
                                  tide_error *err)
{
    TIDE_DUCK_QUERY(query, duck, TIDE_DUCKDB_SQL_COLONY_STATES_LIST, err);
    tide_duck_bind_text(query, "agent_id", agent_id);
    tide_duck_bind_text(query, "data_type", data_type);
    tide_duck_bind_i64(query, "with_closed", with_closed ? 1 : 0);
    TIDE_EACH(tide_duck_query_step(query, err)) {
        TIDE_CLEANUP(tide_position_done) tide_position position = {0};
        TIDE_TRY(tide_duck_read_state(query, &position, err));
        tide_gap_sums sums = {.open = tide_duck_col_i64(query)};
        sums.voided = tide_duck_col_i64(query);
        sums.permanent = tide_duck_col_i64(query);
        sums.recovered = tide_duck_col_i64(query);
        sums.accepted = tide_duck_col_i64(query);
        TIDE_TRY(fn(arg, &position, &sums, err));
    }
    return TIDE_OK;
}

tide_status tide_duck_sink_positions(tide_sink *base, const char *agent_id, const char *data_type,
                                     bool with_closed, tide_position_fn *fn, void *arg,
                                     tide_error *err)
{
    TIDE_CLEANUP(tide_duck_closep) tide_duck *duck = NULL;
    TIDE_TRY(tide_duck_connect(&duck, tide_duck_sink_of(base)->db, err));
    return list_positions(duck, agent_id, data_type, with_closed, fn, arg, err);
}

/* ---- gaps ---- */

static void name_statuses(char *out, size_t size, uint32_t statuses)
{
    *out = '\0';
    for (int i = 0; i < TIDE_GAP_STATUS_COUNT; i++) {
        if (statuses != 0 && !(statuses & 1U << i))
            continue;
        strncat(out, tide_gap_status_name((tide_gap_status)i), size - strlen(out) - 1);
        strncat(out, ",", size - strlen(out) - 1);
    }
}

static int64_t limit_of(const tide_gap_filter *filter)
{
    if (filter->limit <= 0)
        return GAPS_DEFAULT;
    return filter->limit < TIDE_SINK_GAPS_MAX ? filter->limit : TIDE_SINK_GAPS_MAX;
}

tide_status tide_duck_sink_gaps(tide_sink *base, const tide_gap_filter *filter, tide_gap_fn *fn,
                                void *arg, tide_error *err)
{
    char statuses[128];
    name_statuses(statuses, sizeof statuses, filter->statuses);
    TIDE_CLEANUP(tide_duck_closep) tide_duck *duck = NULL;
    TIDE_TRY(tide_duck_connect(&duck, tide_duck_sink_of(base)->db, err));
    TIDE_DUCK_QUERY(query, duck, TIDE_DUCKDB_SQL_COLONY_GAPS_LIST, err);
    tide_duck_bind_i64(query, "after_id", filter->after_id);
    tide_duck_bind_text(query, "agent_id", filter->agent_id);
    tide_duck_bind_text(query, "data_type", filter->data_type);
    tide_duck_bind_text(query, "session_id", filter->session_id);
    tide_duck_bind_i64(query, "epoch", filter->epoch);
    tide_duck_bind_text(query, "statuses", statuses);
    tide_duck_bind_i64(query, "first_seq", filter->first_seq);
    tide_duck_bind_i64(query, "last_seq", filter->last_seq);
    tide_duck_bind_i64(query, "limit", limit_of(filter));
    TIDE_EACH(tide_duck_query_step(query, err)) {
        tide_gap gap;
        TIDE_TRY(tide_duck_read_gap(query, &gap, err));
        TIDE_TRY(fn(arg, &gap, err));
    }
    return TIDE_OK;
}

tide_status tide_duck_sink_gap(tide_sink *base, int64_t id, tide_gap *out, tide_error *err)
{
    TIDE_CLEANUP(tide_duck_closep) tide_duck *duck = NULL;
    TIDE_TRY(tide_duck_connect(&duck, tide_duck_sink_of(base)->db, err));
    TIDE_DUCK_QUERY(query, duck, TIDE_DUCKDB_SQL_COLONY_GAP_FIND, err);
    tide_duck_bind_i64(query, "id", id);
    const tide_status status = tide_duck_query_step(query, err);
    return status == TIDE_OK ? tide_duck_read_gap(query, out, err) : status;
}

/* ---- counting ---- */

static tide_status count_rows(tide_duck *duck, const tide_sql *sql, const char *table,
                              const tide_position *position, int64_t *out, tide_error *err)
{
    TIDE_DUCK_QUERY(query, duck, sql, err);
    if (table)
        tide_duck_bind_text(query, "table", table);
    else
        tide_duck_bind_text(query, "data_type", position->data_type);
    tide_duck_bind_text(query, "agent_id", position->agent_id);
    tide_duck_bind_text(query, "session_id", position->session_id);
    tide_duck_bind_i64(query, "epoch", position->epoch);
    TIDE_TRY(tide_duck_query_step(query, err));
    *out = tide_duck_col_i64(query);
    return TIDE_OK;
}

typedef struct one_position {
    int64_t source_id;
    bool is_found;
    tide_position position;
    tide_gap_sums sums;
} one_position;

static void one_position_done(one_position *one)
{
    tide_position_done(&one->position);
}

static tide_status keep_one(void *arg, const tide_position *position, const tide_gap_sums *sums,
                            tide_error *err)
{
    one_position *one = arg;
    if (position->source_id != one->source_id)
        return TIDE_OK;
    one->is_found = true;
    one->sums = *sums;
    return tide_position_copy(&one->position, position, err);
}

tide_status tide_duck_sink_count(tide_sink *base, const tide_position *which, tide_position_fn *fn,
                                 void *arg, int64_t *rows, int64_t *dead, tide_error *err)
{
    const tide_colony_type *type = tide_colony_type_find(which->data_type);
    char table[TIDE_DUCK_TABLE_SIZE];
    tide_duck_rows_table(table, type);
    const bool is_users = type->stream->kind == TIDE_STREAM_OPAQUE;
    int64_t expired = 0;
    TIDE_CLEANUP(one_position_done) one_position one = {.source_id = which->source_id};
    tide_position_init(&one.position, "", "");
    TIDE_CLEANUP(tide_duck_closep) tide_duck *duck = NULL;
    TIDE_TRY(tide_duck_connect(&duck, tide_duck_sink_of(base)->db, err));
    TIDE_TRY(tide_duck_begin_read(duck, err)); /* all of one moment */
    TIDE_TRY(list_positions(duck, which->agent_id, which->data_type, true, keep_one, &one, err));
    if (!one.is_found)
        return TIDE_NONE;
    TIDE_TRY(count_rows(
        duck, is_users ? TIDE_DUCKDB_SQL_COLONY_RECORDS_COUNT : TIDE_DUCKDB_SQL_COLONY_ROWS_COUNT,
        is_users ? NULL : table, which, rows, err));
    TIDE_TRY(count_rows(duck, TIDE_DUCKDB_SQL_COLONY_DEAD_COUNT, NULL, which, dead, err));
    TIDE_TRY(count_rows(duck, TIDE_DUCKDB_SQL_COLONY_DEAD_EXPIRED, NULL, which, &expired, err));
    *dead += expired;
    return fn ? fn(arg, &one.position, &one.sums, err) : TIDE_OK;
}

/* ---- looking up ---- */

typedef struct absent_list {
    tide_interval *items;
    int count;
} absent_list;

static void absent_list_done(absent_list *list)
{
    free(list->items);
}

static tide_status list_absent(tide_duck *duck, const tide_position *which, absent_list *out,
                               tide_error *err)
{
    const tide_colony_type *type = tide_colony_type_find(which->data_type);
    char table[TIDE_DUCK_TABLE_SIZE];
    tide_duck_rows_table(table, type);
    const bool is_users = type->stream->kind == TIDE_STREAM_OPAQUE;
    TIDE_DUCK_QUERY(
        query, duck,
        is_users ? TIDE_DUCKDB_SQL_COLONY_RECORDS_ABSENT : TIDE_DUCKDB_SQL_COLONY_ROWS_ABSENT, err);
    if (is_users)
        tide_duck_bind_text(query, "data_type", which->data_type);
    else
        tide_duck_bind_text(query, "table", table);
    tide_duck_bind_i64(query, "source_id", which->source_id);
    tide_duck_bind_text(query, "agent_id", which->agent_id);
    tide_duck_bind_text(query, "session_id", which->session_id);
    tide_duck_bind_i64(query, "epoch", which->epoch);
    tide_duck_bind_i64(query, "limit", TIDE_SINK_ABSENT_MAX);
    TIDE_EACH(tide_duck_query_step(query, err)) {
        TIDE_TRY(tide_list_room(&out->items, out->count, sizeof *out->items, TIDE_LIST_MAX, err));
        const int64_t first = tide_duck_col_i64(query);
        out->items[out->count++] = (tide_interval){first, tide_duck_col_i64(query)};
    }
    return TIDE_OK;
}

tide_status tide_duck_sink_absent(tide_sink *base, const tide_position *which, tide_interval_fn *fn,
                                  void *arg, tide_error *err)
{
    TIDE_CLEANUP(absent_list_done) absent_list list = {0};
    {
        TIDE_CLEANUP(tide_duck_closep) tide_duck *duck = NULL;
        TIDE_TRY(tide_duck_connect(&duck, tide_duck_sink_of(base)->db, err));
        TIDE_TRY(list_absent(duck, which, &list, err));
    }
    return tide_sink_tell_absent(list.items, list.count, fn, arg, err);
}

static tide_view text_of(tide_duck_query *query)
{
    const bool is_null = tide_duck_col_is_null(query);
    const tide_view text = tide_duck_col_text(query);
    return is_null ? tide_view_of("") : text;
}

tide_status tide_duck_sink_trace(tide_sink *base, const char *trace_id, tide_trace_fn *fn,
                                 void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_duck_closep) tide_duck *duck = NULL;
    TIDE_TRY(tide_duck_connect(&duck, tide_duck_sink_of(base)->db, err));
    TIDE_DUCK_QUERY(query, duck, TIDE_DUCKDB_SQL_COLONY_TRACE_FIND, err);
    tide_duck_bind_text(query, "trace_id", trace_id);
    tide_duck_bind_i64(query, "limit", TIDE_SINK_TRACE_MAX);
    int64_t index = 0;
    TIDE_EACH(tide_duck_query_step(query, err)) {
        tide_trace_row row = {.index = index++};
        row.source = text_of(query);
        row.agent_id = text_of(query);
        row.session_id = text_of(query);
        row.epoch = tide_duck_col_i64(query);
        row.seq = tide_duck_col_i64(query);
        row.time_us = tide_duck_col_time(query);
        row.span_id = text_of(query);
        row.parent_span_id = text_of(query);
        row.service_name = text_of(query);
        row.name = text_of(query);
        row.kind = text_of(query);
        row.duration_us = tide_duck_col_i64(query);
        row.is_error = tide_duck_col_i64(query) != 0;
        row.attributes = text_of(query);
        TIDE_TRY(fn(arg, &row, err));
    }
    return TIDE_OK;
}

/* ---- questions ---- */

tide_status tide_duck_sink_query(tide_sink *base, const tide_sink_query *query,
                                 const tide_sink_rows *rows, tide_error *err)
{
    const tide_duck_ask ask = {
        .text = query->sql,
        .row_max = query->row_max > 0 ? query->row_max : TIDE_SINK_QUERY_ROWS,
        .bytes_max = query->bytes_max > 0 ? query->bytes_max : QUERY_BYTES_DEFAULT,
        .timeout_us = query->timeout_us > 0 ? query->timeout_us : QUERY_TIMEOUT_DEFAULT_US,
        .columns = rows->columns,
        .row = rows->row,
        .arg = rows->arg,
    };
    return tide_duckdb_ask(tide_duck_sink_of(base)->db, &ask, err);
}
