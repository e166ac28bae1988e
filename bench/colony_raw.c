#include "colony_raw.h"

#include <endian.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/text/timefmt.h"
#include "bench.h"
#include "raw_pg.h"
#include "store/duckdb/duckdb.h"

enum { FIELDS = 15, CACHE_KIB = 16384, SEND_LEN = 65536 };

#define PG_EPOCH_US INT64_C(946684800000000) /* 2000-01-01 */

/* ---- SQLite ---- */

static void exec(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
}

static void bind_text(sqlite3_stmt *insert, int column, const char *text)
{
    (void)sqlite3_bind_text(insert, column, text, -1, SQLITE_STATIC);
}

static void insert_span(sqlite3 *db, sqlite3_stmt *insert, int source, int64_t seq,
                        const feed_load_span *span)
{
    char time[TIDE_TIME_TEXT_SIZE];
    if (tide_time_format(span->timestamp * 1000, time) != TIDE_OK)
        bench_die("a time that is none");
    (void)sqlite3_bind_int64(insert, 1, source);
    (void)sqlite3_bind_int64(insert, 2, seq);
    (void)sqlite3_bind_text(insert, 3, time, TIDE_TIME_TEXT_SIZE - 1, SQLITE_STATIC);
    bind_text(insert, 4, span->trace_id);
    bind_text(insert, 5, span->span_id);
    bind_text(insert, 6, "");
    bind_text(insert, 7, span->service);
    bind_text(insert, 8, "SERVER");
    (void)sqlite3_bind_double(insert, 9, span->duration_ms);
    (void)sqlite3_bind_int64(insert, 10, 0);
    (void)sqlite3_bind_int64(insert, 11, 200);
    bind_text(insert, 12, "GET");
    bind_text(insert, 13, "/api/v1/items/{id}");
    bind_text(insert, 14, span->attributes_json);
    bind_text(insert, 15, "");
    if (sqlite3_step(insert) != SQLITE_DONE)
        bench_die("insert: %s", sqlite3_errmsg(db));
    (void)sqlite3_reset(insert);
}

static void insert_sqlite(const colony_place *place, const feed_load *pages, int sources, int count)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL;
    char cache[64];
    (void)snprintf(cache, sizeof cache, "PRAGMA cache_size=-%d", CACHE_KIB);
    if (sqlite3_open(place->path, &db) != SQLITE_OK)
        bench_die("%s: %s", place->path, sqlite3_errmsg(db));
    exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
    exec(db, cache);
    if (sqlite3_prepare_v2(db,
                           "INSERT INTO spans_rows (source_id, seq_id, timestamp, trace_id, "
                           "span_id, parent_span_id, service_name, span_kind, duration_ms, "
                           "is_error, http_status, http_method, http_route, attributes, span_name) "
                           "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
                           "?15)",
                           -1, &insert, NULL) != SQLITE_OK)
        bench_die("insert: %s", sqlite3_errmsg(db));
    for (int page = 0; page < count; page++)
        for (int source = 1; source <= sources; source++) {
            const int64_t first = (int64_t)page * COLONY_PAGE;
            exec(db, "BEGIN IMMEDIATE");
            for (int i = 0; i < COLONY_PAGE; i++)
                insert_span(db, insert, source, first + i + 1, &pages[page].spans[i]);
            exec(db, "COMMIT");
        }
    (void)sqlite3_finalize(insert);
    if (sqlite3_close(db) != SQLITE_OK)
        bench_die("%s does not close", place->path);
}

/* ---- PostgreSQL ---- */

static void must(tide_status status)
{
    if (status < TIDE_OK)
        bench_die("no memory for rows");
}

static void add_field(tide_buffer *out, const void *bytes, size_t len)
{
    const uint32_t wire = htobe32((uint32_t)len);
    must(tide_buffer_append(out, &wire, sizeof wire));
    must(tide_buffer_append(out, bytes, len));
}

static void add_i64(tide_buffer *out, int64_t value)
{
    const uint64_t wire = htobe64((uint64_t)value);
    add_field(out, &wire, sizeof wire);
}

static void add_text(tide_buffer *out, const char *text)
{
    add_field(out, text, strlen(text));
}

static void add_row(tide_buffer *out, int source, int64_t seq, const feed_load_span *span)
{
    const uint16_t fields = htobe16(FIELDS);
    uint64_t bits = 0;
    memcpy(&bits, &span->duration_ms, sizeof bits);
    must(tide_buffer_append(out, &fields, sizeof fields));
    add_i64(out, source);
    add_i64(out, seq);
    add_i64(out, span->timestamp * 1000 - PG_EPOCH_US);
    add_text(out, span->trace_id);
    add_text(out, span->span_id);
    add_text(out, "");
    add_text(out, span->service);
    add_text(out, "SERVER");
    add_i64(out, (int64_t)bits);
    add_field(out, "\0", 1);
    add_i64(out, 200);
    add_text(out, "GET");
    add_text(out, "/api/v1/items/{id}");
    add_text(out, span->attributes_json);
    add_text(out, "");
}

static void run(PGconn *pg, const char *sql, ExecStatusType wanted)
{
    PGresult *result = PQexec(pg, sql);
    if (PQresultStatus(result) != wanted)
        bench_die("%s: %s", sql, PQerrorMessage(pg));
    PQclear(result);
}

static void copy_page(PGconn *pg, const tide_buffer *rows)
{
    run(pg, "BEGIN", PGRES_COMMAND_OK);
    run(pg, "COPY spans_rows FROM STDIN (FORMAT binary)", PGRES_COPY_IN);
    for (size_t at = 0; at < rows->len; at += SEND_LEN) {
        const size_t left = rows->len - at;
        if (PQputCopyData(pg, rows->ptr + at, (int)(left < SEND_LEN ? left : SEND_LEN)) != 1)
            bench_die("COPY: %s", PQerrorMessage(pg));
    }
    if (PQputCopyEnd(pg, NULL) != 1)
        bench_die("COPY: %s", PQerrorMessage(pg));
    for (PGresult *result = PQgetResult(pg); result; result = PQgetResult(pg)) {
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            bench_die("COPY: %s", PQerrorMessage(pg));
        PQclear(result);
    }
    run(pg, "COMMIT", PGRES_COMMAND_OK);
}

/* Rows are encoded between the timed pieces. */
static double insert_postgres(const colony_place *place, const feed_load *pages, int sources,
                              int count)
{
    static const char header[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
    tide_buffer rows;
    tide_buffer_init(&rows, (size_t)COLONY_PAGE * 4096);
    int64_t spent_us = -bench_now_us();
    PGconn *pg = raw_pg_connect(place->url);
    spent_us += bench_now_us();
    for (int page = 0; page < count; page++)
        for (int source = 1; source <= sources; source++) {
            const int64_t first = (int64_t)page * COLONY_PAGE;
            tide_buffer_clear(&rows);
            must(tide_buffer_append(&rows, header, sizeof header));
            for (int i = 0; i < COLONY_PAGE; i++)
                add_row(&rows, source, first + i + 1, &pages[page].spans[i]);
            must(tide_buffer_append(&rows, "\377\377", 2));
            spent_us -= bench_now_us();
            copy_page(pg, &rows);
            spent_us += bench_now_us();
        }
    PQfinish(pg);
    tide_buffer_done(&rows);
    return (double)spent_us / 1e6;
}

/* ---- DuckDB ---- */

static void append_span(tide_duck_appender *out, const char *agent, int64_t seq,
                        const feed_load_span *span, int64_t now_us)
{
    tide_duck_put_text(out, tide_view_of(agent));
    tide_duck_put_text(out, tide_view_of("0f3c2a9d5b7e4c61a8d2e4f6b8c0d1e3"));
    tide_duck_put_i64(out, 1);
    tide_duck_put_i64(out, seq);
    tide_duck_put_time(out, span->timestamp * 1000);
    tide_duck_put_text(out, tide_view_of(span->trace_id));
    tide_duck_put_text(out, tide_view_of(span->span_id));
    tide_duck_put_text(out, tide_view_of(""));
    tide_duck_put_text(out, tide_view_of(span->service));
    tide_duck_put_text(out, tide_view_of("SERVER"));
    tide_duck_put_f64(out, span->duration_ms);
    tide_duck_put_bool(out, false);
    tide_duck_put_i64(out, 200);
    tide_duck_put_text(out, tide_view_of("GET"));
    tide_duck_put_text(out, tide_view_of("/api/v1/items/{id}"));
    tide_duck_put_text(out, tide_view_of(span->attributes_json));
    tide_duck_put_text(out, tide_view_of(""));
    tide_duck_put_time(out, now_us);
    tide_duck_end_row(out);
}

static void append_page(tide_duck *duck, const feed_load *pages, int source, int page)
{
    tide_error err = {.status = TIDE_OK};
    tide_duck_appender *out = NULL;
    char agent[16];
    const int64_t first = (int64_t)page * COLONY_PAGE;
    (void)snprintf(agent, sizeof agent, "a%d", source - 1);
    bench_must(tide_duck_begin(duck, &err), &err, "begin");
    bench_must(tide_duck_append_begin(&out, duck, "spans_rows", &err), &err, "the appender");
    for (int i = 0; i < COLONY_PAGE; i++)
        append_span(out, agent, first + i + 1, &pages[page].spans[i],
                    pages[page].spans[0].timestamp * 1000);
    bench_must(tide_duck_append_end(&out, &err), &err, "the appender");
    bench_must(tide_duck_commit(duck, &err), &err, "commit");
}

static void insert_duckdb(const colony_place *place, const feed_load *pages, int sources, int count)
{
    tide_error err = {.status = TIDE_OK};
    tide_duckdb *db = NULL;
    tide_duck *duck = NULL;
    bench_must(tide_duckdb_open(&db, place->path, NULL, &err), &err, place->path);
    bench_must(tide_duck_connect(&duck, db, &err), &err, place->path);
    for (int page = 0; page < count; page++)
        for (int source = 1; source <= sources; source++)
            append_page(duck, pages, source, page);
    tide_duck_close(duck);
    tide_duckdb_close(db);
}

double colony_raw_insert(const colony_place *place, const feed_load *pages, int sources, int count)
{
    if (place->engine == COLONY_POSTGRES)
        return insert_postgres(place, pages, sources, count);
    const int64_t started_us = bench_now_us();
    if (place->engine == COLONY_SQLITE)
        insert_sqlite(place, pages, sources, count);
    else
        insert_duckdb(place, pages, sources, count);
    return (double)(bench_now_us() - started_us) / 1e6;
}
