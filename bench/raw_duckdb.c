#include "raw_duckdb.h"

#include <dlfcn.h>
#include <duckdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "support/process/proc.h"

/* The functions that are used: looked up in the library under their own names. */
#define CALLS(X)                                                                                   \
    X(open)                                                                                        \
    X(close)                                                                                       \
    X(connect)                                                                                     \
    X(disconnect)                                                                                  \
    X(query)                                                                                       \
    X(prepare)                                                                                     \
    X(prepare_error)                                                                               \
    X(destroy_prepare)                                                                             \
    X(bind_int64)                                                                                  \
    X(execute_prepared)                                                                            \
    X(result_error)                                                                                \
    X(destroy_result)                                                                              \
    X(fetch_chunk)                                                                                 \
    X(data_chunk_get_size)                                                                         \
    X(destroy_data_chunk)                                                                          \
    X(appender_create)                                                                             \
    X(appender_end_row)                                                                            \
    X(appender_destroy)                                                                            \
    X(append_bool)                                                                                 \
    X(append_double)                                                                               \
    X(append_int32)                                                                                \
    X(append_int64)                                                                                \
    X(append_varchar)                                                                              \
    X(append_null)                                                                                 \
    X(library_version)

typedef struct calls {
#define DECLARE(name)                                                                              \
    __typeof__(duckdb_##name) *name; /* NOLINT(bugprone-macro-parentheses): a name */
    CALLS(DECLARE)
#undef DECLARE
} calls;

struct raw_duckdb {
    void *library;
    calls call;
    duckdb_database database;
    duckdb_connection connection;
    duckdb_prepared_statement page;
};

static void *find_library(void)
{
    const char *wish = getenv("TIDEMARK_DUCKDB");
    if (wish && *wish)
        return dlopen(wish, RTLD_NOW | RTLD_LOCAL);
    char path[PATH_MAX];
    proc_self_path(path);
    for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
        char candidate[PATH_MAX + 64];
        *slash = '\0';
        (void)snprintf(candidate, sizeof candidate, "%s/deps/duckdb/libduckdb.so", path);
        void *library = dlopen(candidate, RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return dlopen("build/deps/duckdb/libduckdb.so", RTLD_NOW | RTLD_LOCAL);
}

static void load_calls(raw_duckdb *db)
{
#define LOAD(name)                                                                                 \
    *(void **)&db->call.name = dlsym(db->library, "duckdb_" #name);                                \
    if (!db->call.name)                                                                            \
        bench_die("DuckDB has no duckdb_" #name);
    CALLS(LOAD)
#undef LOAD
}

static void run(raw_duckdb *db, const char *sql)
{
    duckdb_result result;
    if (db->call.query(db->connection, sql, &result) != DuckDBSuccess)
        bench_die("%s: %s", sql, db->call.result_error(&result));
    db->call.destroy_result(&result);
}

static const char schema[] =
    "CREATE TABLE otel_spans_local (seq_id BIGINT NOT NULL, timestamp BIGINT NOT NULL,"
    " trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR, service_name VARCHAR,"
    " span_kind VARCHAR, duration_ms DOUBLE, is_error BOOLEAN, http_status INTEGER,"
    " http_method VARCHAR, http_route VARCHAR, attributes VARCHAR)";
static const char page[] =
    "SELECT seq_id, timestamp, trace_id, span_id, parent_span_id, service_name, span_kind,"
    " duration_ms, is_error, http_status, http_method, http_route, attributes"
    " FROM otel_spans_local WHERE seq_id > ? ORDER BY seq_id LIMIT ?";

raw_duckdb *raw_duckdb_open(const char *path)
{
    void *library = find_library();
    if (!library)
        return NULL;
    raw_duckdb *db = bench_alloc(sizeof *db);
    db->library = library;
    load_calls(db);
    if (db->call.open(path, &db->database) != DuckDBSuccess ||
        db->call.connect(db->database, &db->connection) != DuckDBSuccess)
        bench_die("DuckDB cannot open %s", path);
    run(db, schema);
    return db;
}

void raw_duckdb_close(raw_duckdb *db)
{
    if (!db)
        return;
    db->call.destroy_prepare(&db->page);
    db->call.disconnect(&db->connection);
    db->call.close(&db->database);
    free(db); /* the library stays: its threads may still end */
}

const char *raw_duckdb_version(const raw_duckdb *db)
{
    return db->call.library_version();
}

static void append_span(const raw_duckdb *db, duckdb_appender appender, int64_t seq,
                        const feed_load_span *span)
{
    const calls *call = &db->call;
    (void)call->append_int64(appender, seq);
    (void)call->append_int64(appender, span->timestamp);
    (void)call->append_varchar(appender, span->trace_id);
    (void)call->append_varchar(appender, span->span_id);
    (void)call->append_null(appender);
    (void)call->append_varchar(appender, span->service);
    (void)call->append_varchar(appender, "SERVER");
    (void)call->append_double(appender, span->duration_ms);
    (void)call->append_bool(appender, false);
    (void)call->append_int32(appender, 200);
    (void)call->append_varchar(appender, "GET");
    (void)call->append_varchar(appender, "/api/v1/items/{id}");
    (void)call->append_varchar(appender, span->attributes_json);
    if (call->appender_end_row(appender) != DuckDBSuccess)
        bench_die("DuckDB does not take a span");
}

void raw_duckdb_fill(raw_duckdb *db, const feed_load *load, int times)
{
    duckdb_appender appender;
    if (db->call.appender_create(db->connection, NULL, "otel_spans_local", &appender) !=
        DuckDBSuccess)
        bench_die("DuckDB has no appender");
    int64_t seq = 0;
    for (int i = 0; i < times; i++)
        for (int j = 0; j < load->count; j++)
            append_span(db, appender, ++seq, &load->spans[j]);
    if (db->call.appender_destroy(&appender) != DuckDBSuccess)
        bench_die("DuckDB does not keep the spans");
    run(db, "CREATE INDEX idx_otel_spans_seq ON otel_spans_local (seq_id)");
    run(db, "CHECKPOINT");
    if (db->call.prepare(db->connection, page, &db->page) != DuckDBSuccess)
        bench_die("DuckDB: %s", db->call.prepare_error(db->page));
}

int64_t raw_duckdb_page(raw_duckdb *db, int64_t after, int64_t limit)
{
    duckdb_result result;
    int64_t rows = 0;
    if (db->call.bind_int64(db->page, 1, after) != DuckDBSuccess ||
        db->call.bind_int64(db->page, 2, limit) != DuckDBSuccess ||
        db->call.execute_prepared(db->page, &result) != DuckDBSuccess)
        bench_die("DuckDB: %s", db->call.result_error(&result));
    for (;;) {
        duckdb_data_chunk chunk = db->call.fetch_chunk(result);
        if (!chunk)
            break;
        rows += (int64_t)db->call.data_chunk_get_size(chunk);
        db->call.destroy_data_chunk(&chunk);
    }
    db->call.destroy_result(&result);
    return rows;
}
