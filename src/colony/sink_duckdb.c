#include "colony/sink_duckdb.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "colony/rollup.h"

/* ---- current positions, in memory ---- */

void tide_duck_position_free(tide_position *position)
{
    if (!position)
        return;
    tide_position_done(position);
    free(position);
}

static int compare(const tide_position *position, const char *agent_id, const char *data_type)
{
    const int by_agent = strcmp(position->agent_id, agent_id);
    return by_agent != 0 ? by_agent : strcmp(position->data_type, data_type);
}

/* Where it stands, or would. */
static int find_place(const tide_duck_sink *sink, const char *agent_id, const char *data_type)
{
    int low = 0;
    int high = sink->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (compare(sink->positions[middle], agent_id, data_type) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const tide_duck_sink *sink, int place, const char *agent_id,
                  const char *data_type)
{
    return place < sink->count && compare(sink->positions[place], agent_id, data_type) == 0;
}

tide_position *tide_duck_sink_find(tide_duck_sink *sink, const char *agent_id,
                                   const char *data_type)
{
    const int place = find_place(sink, agent_id, data_type);
    return is_at(sink, place, agent_id, data_type) ? sink->positions[place] : NULL;
}

tide_status tide_duck_sink_reserve(tide_duck_sink *sink, tide_error *err)
{
    return tide_list_room((void *)&sink->positions, sink->count, sizeof(tide_position *),
                          TIDE_LIST_MAX, err);
}

void tide_duck_sink_put(tide_duck_sink *sink, tide_position *position)
{
    const int place = find_place(sink, position->agent_id, position->data_type);
    if (is_at(sink, place, position->agent_id, position->data_type)) {
        tide_duck_position_free(sink->positions[place]);
    } else {
        memmove((void *)(sink->positions + place + 1), (void *)(sink->positions + place),
                (size_t)(sink->count - place) * sizeof(tide_position *));
        sink->count++;
    }
    sink->positions[place] = position;
}

static void forget(tide_duck_sink *sink)
{
    for (int i = 0; i < sink->count; i++)
        tide_duck_position_free(sink->positions[i]);
    sink->count = 0;
}

static tide_status read_counters(tide_duck_sink *sink, tide_error *err)
{
    TIDE_DUCK_QUERY(query, sink->writer, TIDE_DUCKDB_SQL_COLONY_COUNTERS_READ, err);
    tide_status status;
    while ((status = tide_duck_query_step(query, err)) == TIDE_OK) {
        const tide_view name = tide_duck_col_text(query);
        const int64_t value = tide_duck_col_i64(query);
        if (tide_view_equal(name, tide_view_of("source")))
            sink->last_source_id = value;
        else if (tide_view_equal(name, tide_view_of("gap")))
            sink->last_gap_id = value;
    }
    return status;
}

static tide_status read_positions(tide_duck_sink *sink, tide_error *err)
{
    TIDE_DUCK_QUERY(query, sink->writer, TIDE_DUCKDB_SQL_COLONY_STATES_CURRENT, err);
    tide_status status;
    while ((status = tide_duck_query_step(query, err)) == TIDE_OK) {
        TIDE_CLEANUP(tide_duck_position_freep) TIDE_NEW(tide_position, position, err);
        TIDE_TRY(tide_duck_read_state(query, position, err));
        TIDE_TRY(tide_duck_sink_reserve(sink, err));
        tide_duck_sink_put(sink, TIDE_TAKE(position));
    }
    return status;
}

tide_status tide_duck_sink_refresh(tide_duck_sink *sink, tide_error *err)
{
    if (!sink->is_stale)
        return TIDE_OK;
    forget(sink);
    TIDE_TRY(read_counters(sink, err));
    TIDE_TRY(read_positions(sink, err));
    sink->is_stale = false;
    return TIDE_OK;
}

static tide_status load(tide_sink *base, const char *agent_id, const char *data_type,
                        tide_position *out, tide_error *err)
{
    tide_duck_sink *sink = tide_duck_sink_of(base);
    TIDE_CLEANUP(tide_duckdb_unlockp) tide_duckdb *held = tide_duckdb_lock(sink->db);
    (void)held;
    TIDE_TRY(tide_duck_sink_refresh(sink, err));
    const tide_position *found = tide_duck_sink_find(sink, agent_id, data_type);
    if (found && found->closed_at_us == 0) {
        TIDE_TRY(tide_position_copy(out, found, err));
        return tide_position_hold(out, base->env->mono_us(base->env), err);
    }
    tide_position_init(out, agent_id, data_type);
    out->version = found ? found->version : 0; /* in place of one that is closed */
    return TIDE_OK;
}

/* ---- opening ---- */

static tide_status ask_number(tide_duck *duck, const tide_sql *sql, int64_t *out, tide_error *err)
{
    TIDE_DUCK_QUERY(query, duck, sql, err);
    TIDE_TRY(tide_duck_query_step(query, err));
    *out = tide_duck_col_i64(query);
    return TIDE_OK;
}

static tide_status put_bounds(tide_duck *duck, tide_error *err)
{
    TIDE_CLEANUP(tide_duck_append_dropp) tide_duck_appender *out = NULL;
    TIDE_TRY(tide_duck_append_begin(&out, duck, "rollup_bounds", err));
    for (int bucket = 0; bucket < TIDE_ROLLUP_BUCKETS; bucket++) {
        tide_duck_put_i64(out, bucket);
        tide_duck_put_f64(out, tide_rollup_bound(bucket));
        tide_duck_end_row(out);
    }
    return tide_duck_append_end(&out, err);
}

/* A fresh file gets the tables; another program's is left alone. */
static tide_status make_tables(tide_duck *duck, const char *path, tide_error *err)
{
    int64_t is_there = 0;
    TIDE_TRY(ask_number(duck, TIDE_DUCKDB_SQL_COLONY_FORMAT_EXISTS, &is_there, err));
    if (!is_there) {
        int64_t others = 0;
        TIDE_TRY(ask_number(duck, TIDE_DUCKDB_SQL_COLONY_FOREIGN_TABLES, &others, err));
        if (others > 0)
            return tide_fail(err, TIDE_E_FOREIGN, "%s holds tables of another program", path);
        TIDE_TRY(tide_duck_begin(duck, err));
        TIDE_TRY(tide_duck_run(duck, TIDE_DUCKDB_SQL_COLONY_SCHEMA, err));
        TIDE_TRY(put_bounds(duck, err));
        return tide_duck_commit(duck, err);
    }
    int64_t version = 0;
    TIDE_TRY(ask_number(duck, TIDE_DUCKDB_SQL_COLONY_FORMAT_READ, &version, err));
    if (version > TIDE_SINK_DUCKDB_FORMAT)
        return tide_fail(err, TIDE_E_NEWER, "%s has format %lld, this program knows %d", path,
                         (long long)version, TIDE_SINK_DUCKDB_FORMAT);
    return TIDE_OK;
}

static void close_sink(tide_sink *base)
{
    tide_duck_sink *sink = tide_duck_sink_of(base);
    forget(sink);
    free((void *)sink->positions);
    tide_duck_close(sink->writer);
    tide_duckdb_close(sink->db);
    free(sink);
}

static void close_sinkp(tide_duck_sink **sink)
{
    if (*sink)
        close_sink(&(*sink)->base);
}

static const tide_sink_ops duckdb_ops = {
    .name = "duckdb",
    .close = close_sink,
    .load = load,
    .apply = tide_duck_sink_apply,
    .positions = tide_duck_sink_positions,
    .gaps = tide_duck_sink_gaps,
    .gap = tide_duck_sink_gap,
    .count = tide_duck_sink_count,
    .absent = tide_duck_sink_absent,
    .trace = tide_duck_sink_trace,
    .retain = tide_duck_sink_retain,
    .query = tide_duck_sink_query,
};

tide_status tide_sink_open_duckdb(tide_sink **out, tide_store *store, const char *path,
                                  const char *library, tide_error *err)
{
    TIDE_CLEANUP(close_sinkp) TIDE_NEW(tide_duck_sink, sink, err);
    sink->base = (tide_sink){.ops = &duckdb_ops, .store = store, .env = tide_store_env(store)};
    sink->superseded_max = TIDE_SINK_DUCKDB_SUPERSEDED_MAX;
    const tide_duckdb_options options = {.library = library};
    TIDE_TRY(tide_duckdb_open(&sink->db, path, &options, err));
    TIDE_TRY(tide_duck_connect(&sink->writer, sink->db, err));
    TIDE_TRY(make_tables(sink->writer, path, err));
    sink->is_stale = true;
    TIDE_TRY(tide_duck_sink_refresh(sink, err));
    *out = &TIDE_TAKE(sink)->base;
    return TIDE_OK;
}
