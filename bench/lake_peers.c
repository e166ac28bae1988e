#include "lake_peers.h"

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "raw_pg.h"

enum { TRIES = 10, STATEMENTS = 9 };

struct lake_peer {
    lake_peer_kind kind;
    PGconn *pg;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    uint32_t chance;
};

/* ---- what both engines write ---- */

static const char *const tables =
    "CREATE TABLE ducklake_snapshot (snapshot_id bigint PRIMARY KEY, snapshot_time varchar, "
    "schema_version bigint, next_catalog_id bigint, next_file_id bigint);"
    "CREATE TABLE ducklake_snapshot_changes (snapshot_id bigint PRIMARY KEY, changes_made varchar, "
    "author varchar, commit_message varchar, commit_extra_info varchar);"
    "CREATE TABLE ducklake_data_file (data_file_id bigint PRIMARY KEY, table_id bigint, "
    "begin_snapshot bigint, end_snapshot bigint, path varchar, record_count bigint,"
    " file_size_bytes bigint, footer_size bigint, row_id_start bigint);"
    "CREATE TABLE ducklake_file_column_stats (data_file_id bigint, table_id bigint, column_id "
    "bigint, column_size_bytes bigint, value_count bigint, null_count bigint,"
    " min_value varchar, max_value varchar);"
    "CREATE TABLE ducklake_table_stats (table_id bigint PRIMARY KEY, record_count bigint, "
    "next_row_id bigint, file_size_bytes bigint);"
    "CREATE TABLE lineage (parent_id bigint PRIMARY KEY, child_id bigint);"
    "INSERT INTO ducklake_snapshot VALUES (0, 'then', 0, 1, 0);";

/* $1: the snapshot's number, and the file's; $2: the table. */
static const char *const rows[] = {
    "INSERT INTO ducklake_snapshot VALUES ($1, 'now', 1, 2, $1 + 1)",
    "INSERT INTO ducklake_data_file VALUES ($1, $2, $1, NULL, 'file-' || $1 || '.parquet', 1000, "
    "20000, 500, 0)",
    "INSERT INTO ducklake_file_column_stats VALUES ($1, $2, 1, 8000, 1000, 0, '1', '1000')",
    "INSERT INTO ducklake_file_column_stats VALUES ($1, $2, 2, 12000, 1000, 0, 'a', 'z')",
    "UPDATE ducklake_table_stats SET record_count = record_count + 1000, next_row_id = next_row_id "
    "+ 1000, file_size_bytes = file_size_bytes + 20000"
    " WHERE table_id = $2 AND $1 > 0",
    "INSERT INTO ducklake_snapshot_changes VALUES ($1, 'inserted_into_table:' || $2, NULL, NULL, "
    "NULL)",
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* DuckLake's wait before the next try. */
static void wait_for(lake_peer *peer, int attempt)
{
    peer->chance = peer->chance * 1664525U + 1013904223U;
    double seconds = 0.1 * (0.5 + 0.5 * (double)(peer->chance >> 8) / (double)(1U << 24));
    for (int i = 0; i < attempt; i++)
        seconds *= 1.5;
    const struct timespec pause = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&pause, NULL);
}

/* ---- PostgreSQL ---- */

static void must_exec(PGconn *pg, const char *text)
{
    PGresult *result = PQexec(pg, text);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        bench_die("%.60s...: %s", text, PQerrorMessage(pg));
    PQclear(result);
}

void lake_peers_make_pg(const char *url, int writers)
{
    char text[160];
    PGconn *pg = raw_pg_connect(url);
    for (int kind = 0; kind < LAKE_PEER_KINDS; kind++) {
        (void)snprintf(text, sizeof text, "CREATE SCHEMA peer%d; SET search_path = peer%d", kind,
                       kind);
        must_exec(pg, text);
        must_exec(pg, tables);
        must_exec(pg, "CREATE SEQUENCE snapshot_seq");
        (void)snprintf(text, sizeof text,
                       "INSERT INTO ducklake_table_stats SELECT i, 0, 0, 0 FROM generate_series(0, "
                       "%d) i",
                       writers);
        must_exec(pg, text);
    }
    PQfinish(pg);
}

static void prepare_pg(PGconn *pg, const char *name, const char *text)
{
    PGresult *result = PQprepare(pg, name, text, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        bench_die("%s: %s", text, PQerrorMessage(pg));
    PQclear(result);
}

/* A bare sequence needs no number in the client: the first row takes it, the others repeat it, and everything is one round trip. */
static void write_row(char *out, size_t size, const char *text, bool is_taken_inside)
{
    const char *word = "nextval('snapshot_seq')";
    size_t len = 0;
    bool is_first = strstr(text, "INTO ducklake_snapshot VALUES") != NULL;
    for (; *text && len + 1 < size; text++) {
        if (is_taken_inside && text[0] == '$' && text[1] == '1') {
            len += (size_t)snprintf(out + len, size - len, "%s",
                                    is_first ? word : "currval('snapshot_seq')");
            is_first = false;
            text++;
        } else {
            out[len++] = *text;
        }
    }
    out[len] = '\0';
}

lake_peer *lake_peer_open_pg(const char *url, lake_peer_kind kind)
{
    static uint32_t opened;
    lake_peer *peer = bench_alloc(sizeof *peer);
    peer->kind = kind;
    peer->chance = ++opened * 2654435761U;
    peer->pg = raw_pg_connect(url);
    char path[64];
    (void)snprintf(path, sizeof path, "SET search_path = peer%d", (int)kind);
    must_exec(peer->pg, path);
    must_exec(peer->pg, "SET synchronous_commit=on");
    prepare_pg(peer->pg, "begin", "BEGIN");
    prepare_pg(peer->pg, "commit", "COMMIT");
    prepare_pg(peer->pg, "latest", "SELECT max(snapshot_id) FROM ducklake_snapshot");
    prepare_pg(peer->pg, "tip",
               "SELECT coalesce((SELECT child_id FROM lineage ORDER BY parent_id DESC LIMIT 1), "
               "0), nextval('snapshot_seq')");
    prepare_pg(peer->pg, "swap", "INSERT INTO lineage VALUES ($1, $2)");
    for (int i = 0; i < ROWS; i++) {
        char name[16];
        char text[768];
        (void)snprintf(name, sizeof name, "row%d", i);
        write_row(text, sizeof text, rows[i], kind == LAKE_PEER_NEXTVAL);
        static const Oid types[] = {20, 20};
        PGresult *result = PQprepare(peer->pg, name, text, 2, types);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            bench_die("%s: %s", text, PQerrorMessage(peer->pg));
        PQclear(result);
    }
    return peer;
}

/* The first row's columns. */
static void ask_pg(PGconn *pg, const char *name, int64_t *values, int count)
{
    PGresult *result = PQexecPrepared(pg, name, 0, NULL, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        bench_die("%s: %s", name, PQerrorMessage(pg));
    for (int i = 0; i < count; i++)
        values[i] = strtoll(PQgetvalue(result, 0, i), NULL, 10);
    PQclear(result);
}

static void send_pg(PGconn *pg, const char *name, int64_t a, int64_t b, int count)
{
    char texts[2][24];
    const char *values[] = {texts[0], texts[1]};
    (void)snprintf(texts[0], sizeof texts[0], "%lld", (long long)a);
    (void)snprintf(texts[1], sizeof texts[1], "%lld", (long long)b);
    if (PQsendQueryPrepared(pg, name, count, values, NULL, NULL, 0) != 1)
        bench_die("%s: %s", name, PQerrorMessage(pg));
}

/* Everything that was sent has been answered; false: a key was there already. */
static bool end_pipeline(PGconn *pg)
{
    bool is_fine = true;
    if (PQpipelineSync(pg) != 1)
        bench_die("pipeline: %s", PQerrorMessage(pg));
    for (;;) {
        PGresult *result = PQgetResult(pg);
        const ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_FATAL_ERROR && result) {
            const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
            if (!state || strcmp(state, "23505") != 0)
                bench_die("commit: %s", PQerrorMessage(pg));
            is_fine = false;
        }
        PQclear(result);
        if (status == PGRES_PIPELINE_SYNC)
            return is_fine;
    }
}

static bool try_pg(lake_peer *peer, int writer)
{
    int64_t seen[2] = {0};
    int64_t id = 0;
    if (peer->kind == LAKE_PEER_LATEST) {
        ask_pg(peer->pg, "latest", seen, 1);
        id = seen[0] + 1;
    } else if (peer->kind == LAKE_PEER_LINEAGE) {
        ask_pg(peer->pg, "tip", seen, 2);
        id = seen[1];
    }
    if (PQenterPipelineMode(peer->pg) != 1)
        bench_die("pipeline: %s", PQerrorMessage(peer->pg));
    send_pg(peer->pg, "begin", 0, 0, 0);
    if (peer->kind == LAKE_PEER_LINEAGE)
        send_pg(peer->pg, "swap", seen[0], id, 2);
    for (int i = 0; i < ROWS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "row%d", i);
        send_pg(peer->pg, name, id, writer, 2);
    }
    send_pg(peer->pg, "commit", 0, 0, 0);
    const bool is_fine = end_pipeline(peer->pg);
    (void)PQexitPipelineMode(peer->pg);
    if (!is_fine)
        must_exec(peer->pg, "ROLLBACK");
    return is_fine;
}

/* ---- SQLite ---- */

static void must_run(sqlite3 *db, const char *text)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("%.60s...: %s", text, sqlite3_errmsg(db));
}

static void name_file(char out[TEMPDIR_PATH_MAX], const char *path, lake_peer_kind kind)
{
    if (snprintf(out, TEMPDIR_PATH_MAX, "%s.%d", path, (int)kind) >= TEMPDIR_PATH_MAX)
        bench_die("%s: too long", path);
}

static void make_file(const char *path, int writers)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    must_run(db, "PRAGMA journal_mode=WAL");
    must_run(db, tables);
    must_run(db, "CREATE TABLE counter (last bigint); INSERT INTO counter VALUES (0)");
    for (int i = 0; i < writers; i++) {
        char text[96];
        (void)snprintf(text, sizeof text, "INSERT INTO ducklake_table_stats VALUES (%d, 0, 0, 0)",
                       i);
        must_run(db, text);
    }
    (void)sqlite3_close(db);
}

void lake_peers_make_sqlite(const char *path, int writers)
{
    for (int kind = 0; kind < LAKE_PEER_KINDS; kind++) {
        char name[TEMPDIR_PATH_MAX];
        name_file(name, path, (lake_peer_kind)kind);
        make_file(name, writers);
    }
}

enum { SQLITE_NUMBER = ROWS, SQLITE_BEGIN, SQLITE_COMMIT };
_Static_assert((int)SQLITE_COMMIT < (int)STATEMENTS, "room for every statement");

lake_peer *lake_peer_open_sqlite(const char *path, lake_peer_kind kind)
{
    static uint32_t opened;
    lake_peer *peer = bench_alloc(sizeof *peer);
    peer->kind = kind;
    peer->chance = ++opened * 2654435761U;
    char name[TEMPDIR_PATH_MAX];
    name_file(name, path, kind);
    if (sqlite3_open_v2(name, &peer->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        bench_die("%s: %s", path, sqlite3_errmsg(peer->db));
    (void)sqlite3_busy_timeout(peer->db, 10000);
    must_run(peer->db, "PRAGMA synchronous=FULL");
    for (int i = 0; i < STATEMENTS; i++) {
        char text[512];
        (void)snprintf(
            text, sizeof text, "%s",
            i < ROWS                   ? rows[i]
            : i == SQLITE_COMMIT       ? "COMMIT"
            : i == SQLITE_BEGIN        ? (kind == LAKE_PEER_LATEST ? "BEGIN" : "BEGIN IMMEDIATE")
            : kind == LAKE_PEER_LATEST ? "SELECT max(snapshot_id) + 1 FROM ducklake_snapshot"
                                       : "UPDATE counter SET last = last + 1 RETURNING last");
        for (char *at = text; *at; at++)
            if (*at == '$')
                *at = '?';
        if (sqlite3_prepare_v3(peer->db, text, -1, SQLITE_PREPARE_PERSISTENT, &peer->statements[i],
                               NULL) != SQLITE_OK)
            bench_die("%s: %s", text, sqlite3_errmsg(peer->db));
    }
    return peer;
}

/* False: locked by somebody, or a key that was there. */
static bool step_sqlite(lake_peer *peer, int which, int64_t id, int writer, int64_t *value)
{
    sqlite3_stmt *statement = peer->statements[which];
    if (which < ROWS) {
        (void)sqlite3_bind_int64(statement, 1, id);
        if (sqlite3_bind_parameter_count(statement) > 1)
            (void)sqlite3_bind_int64(statement, 2, writer);
    }
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *value = sqlite3_column_int64(statement, 0);
        code = sqlite3_step(statement);
    }
    (void)sqlite3_reset(statement);
    if (code == SQLITE_DONE)
        return true;
    if (code != SQLITE_BUSY && code != SQLITE_CONSTRAINT && code != SQLITE_LOCKED)
        bench_die("SQLite: %s", sqlite3_errmsg(peer->db));
    return false;
}

static bool try_sqlite(lake_peer *peer, int writer)
{
    int64_t id = 0;
    int64_t ignored = 0;
    bool is_fine = step_sqlite(peer, SQLITE_BEGIN, 0, 0, &ignored) &&
                   step_sqlite(peer, SQLITE_NUMBER, 0, 0, &id);
    for (int i = 0; is_fine && i < ROWS; i++)
        is_fine = step_sqlite(peer, i, id, writer, &ignored);
    is_fine = is_fine && step_sqlite(peer, SQLITE_COMMIT, 0, 0, &ignored);
    if (!is_fine && !sqlite3_get_autocommit(peer->db))
        must_run(peer->db, "ROLLBACK");
    return is_fine;
}

/* ---- both ---- */

void lake_peer_close(lake_peer *peer)
{
    if (!peer)
        return;
    PQfinish(peer->pg);
    for (int i = 0; i < STATEMENTS; i++)
        (void)sqlite3_finalize(peer->statements[i]);
    (void)sqlite3_close(peer->db);
    free(peer);
}

bool lake_peer_commit(lake_peer *peer, int writer, int64_t n, int64_t *retries)
{
    (void)n;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        if (peer->pg ? try_pg(peer, writer) : try_sqlite(peer, writer))
            return true;
        ++*retries;
        wait_for(peer, attempt);
    }
    return false;
}
