#include "sim/work/client.h"

#include <assert.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/timefmt.h"

struct work_client {
    tide_engine engine;
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    tide_env *env;
    sqlite3 *db;
    sqlite3_stmt *statements[WORK_SQL_COUNT];
    PGconn *pg;
    bool is_prepared[WORK_SQL_COUNT];
};

/* ---- the statements ----
 *
 * As the recovery document has them; on SQLite the times given as parameters are left out, so that its own words
 * (CURRENT_TIMESTAMP) are what is tried. */

typedef struct statement {
    const char *sqlite;
    const char *postgres;
} statement;

#define PG_US(column) "(extract(epoch FROM " column ") * 1000000)::bigint"

static const statement statements[WORK_SQL_COUNT] = {
    [WORK_SQL_VERSION] = {.sqlite = "PRAGMA data_version",
                          .postgres = "SELECT pg_current_wal_insert_lsn()"},
    [WORK_SQL_ROWS] =
        {.sqlite = "SELECT work_item_id, status, lease_token, lease_holder, lease_via, "
                   "lease_expires_at, deadline_at, run_after, retry_count, failure_count, "
                   "crash_count, failure_kind, waits_for, output_data, claim_key, "
                   "(SELECT count(*) FROM work_attempts a WHERE a.work_item_id = w.work_item_id "
                   "AND a.outcome IS NOT 'released'), "
                   "(SELECT count(*) FROM work_attempts a WHERE a.work_item_id = w.work_item_id "
                   "AND a.ended_at IS NULL), revision "
                   "FROM work_items w ORDER BY rowid",
         .postgres = "SELECT work_item_id, status, lease_token, lease_holder, "
                     "lease_via, " PG_US("lease_expires_at") ", " PG_US("deadline_at") ", " PG_US(
                         "run_after") ", retry_count, "
                                      "failure_count, crash_count, "
                                      "failure_kind, waits_for, "
                                      "output_data, claim_key, "
                                      "(SELECT count(*) FROM "
                                      "work_attempts a WHERE "
                                      "a.work_item_id = "
                                      "w.work_item_id "
                                      "AND a.outcome IS DISTINCT "
                                      "FROM 'released'), "
                                      "(SELECT count(*) FROM "
                                      "work_attempts a WHERE "
                                      "a.work_item_id = "
                                      "w.work_item_id "
                                      "AND a.ended_at IS NULL), "
                                      "revision "
                                      "FROM work_items w"},
    [WORK_SQL_CHECKPOINTS] =
        {.sqlite = "SELECT global_sequence, task_id, sequence_number, work_item_id FROM "
                   "checkpoints WHERE global_sequence > CAST(?1 AS INTEGER) ORDER BY "
                   "global_sequence",
         .postgres = "SELECT global_sequence, task_id, sequence_number, work_item_id FROM "
                     "checkpoints WHERE global_sequence > $1::bigint ORDER BY global_sequence"},
    [WORK_SQL_ANCHOR] = {.sqlite = "SELECT boot_id, offset_us FROM lease_clock",
                         .postgres = "SELECT 1 WHERE false"},
    [WORK_SQL_DO_CLAIM] =
        {.sqlite = "UPDATE work_items SET status = 'in_progress', lease_holder = ?1, "
                   "lease_acquired_at = CURRENT_TIMESTAMP, lease_expires_at = ?3, heartbeat_at = "
                   "CURRENT_TIMESTAMP, started_at = CASE WHEN started_at IS NULL THEN "
                   "CURRENT_TIMESTAMP ELSE started_at END "
                   "WHERE work_item_id = (SELECT work_item_id FROM work_items WHERE status = "
                   "'pending' ORDER BY priority DESC, created_at ASC LIMIT 1) "
                   "RETURNING work_item_id",
         .postgres = "UPDATE work_items SET status = 'in_progress', lease_holder = $1, "
                     "lease_acquired_at = $2::timestamptz, lease_expires_at = $3::timestamptz, "
                     "heartbeat_at = $2::timestamptz, started_at = coalesce(started_at, "
                     "$2::timestamptz) "
                     "WHERE work_item_id = (SELECT work_item_id FROM work_items WHERE status = "
                     "'pending' ORDER BY priority DESC, created_at ASC LIMIT 1) "
                     "RETURNING work_item_id"},
    [WORK_SQL_DO_ADD] =
        {.sqlite = "INSERT INTO work_items (work_item_id, task_id, work_type, priority, "
                   "max_retries, timeout_us, unique_key, input_data) VALUES (?1, ?2, ?3, CAST(?4 "
                   "AS INTEGER), CAST(?5 AS INTEGER), CAST(?6 AS INTEGER), ?7, '{\"n\":1}')",
         .postgres = "INSERT INTO work_items (work_item_id, task_id, work_type, priority, "
                     "max_retries, timeout_us, unique_key, input_data, created_at) VALUES ($1, "
                     "$2, $3, $4::bigint, $5::bigint, $6::bigint, $7, '{\"n\":1}', "
                     "$8::timestamptz)"},
    [WORK_SQL_DO_HEARTBEAT] =
        {.sqlite = "UPDATE work_items SET heartbeat_at = CURRENT_TIMESTAMP, lease_expires_at = ?4 "
                   "WHERE work_item_id = ?1 AND lease_holder = ?2 AND status = 'in_progress' "
                   "RETURNING work_item_id",
         .postgres = "UPDATE work_items SET heartbeat_at = $3::timestamptz, lease_expires_at = "
                     "$4::timestamptz WHERE work_item_id = $1 AND lease_holder = $2 AND status = "
                     "'in_progress' RETURNING work_item_id"},
    [WORK_SQL_DO_COMPLETE] =
        {.sqlite = "UPDATE work_items SET status = 'completed', output_data = ?2, completed_at = "
                   "CURRENT_TIMESTAMP, lease_holder = NULL, lease_expires_at = NULL WHERE "
                   "work_item_id = ?1 RETURNING work_item_id",
         .postgres = "UPDATE work_items SET status = 'completed', output_data = $2, completed_at = "
                     "$3::timestamptz, lease_holder = NULL, lease_expires_at = NULL WHERE "
                     "work_item_id = $1 RETURNING work_item_id"},
    [WORK_SQL_DO_FAIL] =
        {.sqlite = "UPDATE work_items SET status = 'failed', error_message = 'Command execution "
                   "timeout', completed_at = CURRENT_TIMESTAMP, lease_holder = NULL, "
                   "lease_expires_at = NULL WHERE work_item_id = ?1 RETURNING work_item_id",
         .postgres = "UPDATE work_items SET status = 'failed', error_message = 'Command execution "
                     "timeout', completed_at = $2::timestamptz, lease_holder = NULL, "
                     "lease_expires_at = NULL WHERE work_item_id = $1 RETURNING work_item_id"},
    [WORK_SQL_DO_SWEEP] =
        {.sqlite = "UPDATE work_items SET status = CASE WHEN retry_count < max_retries THEN "
                   "'pending' ELSE 'failed' END, retry_count = retry_count + 1, lease_holder = "
                   "NULL, lease_expires_at = NULL, error_message = 'Lease expired - no heartbeat "
                   "received' WHERE status = 'in_progress' AND lease_expires_at < "
                   "CURRENT_TIMESTAMP RETURNING work_item_id",
         .postgres = "UPDATE work_items SET status = CASE WHEN retry_count < max_retries THEN "
                     "'pending' ELSE 'failed' END, retry_count = retry_count + 1, lease_holder = "
                     "NULL, lease_expires_at = NULL, error_message = 'Lease expired - no "
                     "heartbeat received' WHERE status = 'in_progress' AND lease_expires_at < "
                     "$1::timestamptz RETURNING work_item_id"},
    [WORK_SQL_DO_EXPIRE] =
        {.sqlite = "UPDATE work_items SET status = 'expired' WHERE status = 'in_progress' AND "
                   "lease_expires_at < CURRENT_TIMESTAMP RETURNING work_item_id",
         .postgres = "UPDATE work_items SET status = 'expired' WHERE status = 'in_progress' AND "
                     "lease_expires_at < $1::timestamptz RETURNING work_item_id"},
    [WORK_SQL_DO_CHECKPOINT] =
        {.sqlite = "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                   "sequence_number, snapshot_data) SELECT ?1, task_id, 'iteration_end', "
                   "last_sequence + 1, '{}' FROM task_heads WHERE task_id = ?2",
         .postgres = "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
                     "sequence_number, snapshot_data) SELECT $1, task_id, 'iteration_end', "
                     "last_sequence + 1, '{}' FROM task_heads WHERE task_id = $2"},
};

/* ---- a VFS that tells the simulated time ---- */

enum { JULIAN_EPOCH_DAYS_X10 = 24405875 }; /* 1970-01-01 00:00 in tenths of a Julian day */

static int tell_time(sqlite3_vfs *vfs, sqlite3_int64 *out_ms)
{
    const work_client *client =
        (const work_client *)((const char *)vfs - offsetof(work_client, vfs));
    *out_ms =
        (sqlite3_int64)JULIAN_EPOCH_DAYS_X10 * 8640000 + client->env->wall_us(client->env) / 1000;
    return SQLITE_OK;
}

static int tell_days(sqlite3_vfs *vfs, double *out)
{
    sqlite3_int64 ms = 0;
    (void)tell_time(vfs, &ms);
    *out = (double)ms / 86400000.0;
    return SQLITE_OK;
}

static void open_sqlite(work_client *client, const char *path)
{
    client->real = sqlite3_vfs_find(NULL);
    client->vfs = *client->real;
    client->vfs.zName = "tidemark-work-client";
    client->vfs.pNext = NULL;
    client->vfs.xCurrentTime = tell_days;
    client->vfs.xCurrentTimeInt64 = tell_time;
    int code = sqlite3_vfs_register(&client->vfs, 0);
    assert(code == SQLITE_OK);
    code = sqlite3_open_v2(path, &client->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                           client->vfs.zName);
    assert(code == SQLITE_OK);
    (void)code;
}

work_client *work_client_open(tide_engine engine, const char *url, tide_env *env)
{
    work_client *client = calloc(1, sizeof *client);
    assert(client);
    client->engine = engine;
    client->env = env;
    if (engine == TIDE_ENGINE_SQLITE) {
        open_sqlite(client, url);
    } else {
        client->pg = PQconnectdb(url);
        assert(PQstatus(client->pg) == CONNECTION_OK);
        PQclear(PQexec(client->pg, "SET synchronous_commit = off; SET timezone = 'UTC'"));
    }
    return client;
}

void work_client_close(work_client *client)
{
    if (!client)
        return;
    for (int i = 0; i < WORK_SQL_COUNT; i++)
        (void)sqlite3_finalize(client->statements[i]);
    (void)sqlite3_close(client->db);
    if (client->engine == TIDE_ENGINE_SQLITE)
        (void)sqlite3_vfs_unregister(&client->vfs);
    if (client->pg)
        PQfinish(client->pg);
    free(client);
}

/* ---- running ---- */

static bool run_sqlite(work_client *client, work_sql sql, const char *const *params, int count,
                       work_client_row_fn *fn, void *arg, char words[WORK_CLIENT_WORDS])
{
    sqlite3_stmt **at = &client->statements[sql];
    if (!*at) {
        const int code = sqlite3_prepare_v3(client->db, statements[sql].sqlite, -1,
                                            SQLITE_PREPARE_PERSISTENT, at, NULL);
        assert(code == SQLITE_OK);
        (void)code;
    }
    const int wanted = sqlite3_bind_parameter_count(*at);
    for (int i = 0; i < count && i < wanted; i++)
        (void)sqlite3_bind_text(*at, i + 1, params[i], -1, SQLITE_STATIC);
    const char *columns[WORK_CLIENT_COLUMNS];
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(*at)) == SQLITE_ROW) {
        const int columns_len = sqlite3_column_count(*at);
        for (int i = 0; i < columns_len; i++)
            columns[i] = (const char *)sqlite3_column_text(*at, i);
        if (fn)
            fn(arg, columns, columns_len);
    }
    if (code != SQLITE_DONE)
        (void)snprintf(words, WORK_CLIENT_WORDS, "%s", sqlite3_errmsg(client->db));
    (void)sqlite3_reset(*at);
    return code == SQLITE_DONE;
}

static bool run_postgres(work_client *client, work_sql sql, const char *const *params, int count,
                         work_client_row_fn *fn, void *arg, char words[WORK_CLIENT_WORDS])
{
    char name[16];
    (void)snprintf(name, sizeof name, "s%d", (int)sql);
    if (!client->is_prepared[sql]) {
        PGresult *prepared = PQprepare(client->pg, name, statements[sql].postgres, 0, NULL);
        if (PQresultStatus(prepared) != PGRES_COMMAND_OK)
            (void)fprintf(stderr, "%s: %s\n", statements[sql].postgres, PQerrorMessage(client->pg));
        assert(PQresultStatus(prepared) == PGRES_COMMAND_OK);
        PQclear(prepared);
        client->is_prepared[sql] = true;
    }
    PGresult *result = PQexecPrepared(client->pg, name, count, params, NULL, NULL, 0);
    const ExecStatusType status = PQresultStatus(result);
    const bool is_done = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (!is_done)
        (void)snprintf(words, WORK_CLIENT_WORDS, "%s", PQresultErrorMessage(result));
    const char *columns[WORK_CLIENT_COLUMNS];
    for (int row = 0; is_done && fn && row < PQntuples(result); row++) {
        for (int i = 0; i < PQnfields(result); i++)
            columns[i] = PQgetisnull(result, row, i) ? NULL : PQgetvalue(result, row, i);
        fn(arg, columns, PQnfields(result));
    }
    PQclear(result);
    return is_done;
}

bool work_client_run(work_client *client, work_sql sql, const char *const *params, int count,
                     work_client_row_fn *fn, void *arg, char words[WORK_CLIENT_WORDS])
{
    words[0] = '\0';
    return client->engine == TIDE_ENGINE_SQLITE
               ? run_sqlite(client, sql, params, count, fn, arg, words)
               : run_postgres(client, sql, params, count, fn, arg, words);
}

/* ---- times ---- */

int64_t work_client_time(const work_client *client, const char *column)
{
    int64_t us = 0;
    if (!column)
        return 0;
    if (client->engine == TIDE_ENGINE_POSTGRES)
        return strtoll(column, NULL, 10);
    return tide_time_parse(&us, tide_view_of(column)) == TIDE_OK ? us : -1;
}

void work_client_seconds(char out[32], int64_t us)
{
    char text[TIDE_TIME_TEXT_SIZE];
    if (tide_time_format(us, text) != TIDE_OK)
        text[0] = '\0';
    (void)snprintf(out, 32, "%.19s", text);
}
