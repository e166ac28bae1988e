#include <tidemark/store.h>

#include "public.h"

static const tide_sql create = {
    TIDE_SQL_INIT, .name = "create",
    .engine = {{.text = "CREATE TABLE mine (n INTEGER)"}, {.text = NULL}}};
static const char *const names[] = {"n"};
static const tide_sql insert = {
    TIDE_SQL_INIT, .name = "insert",
    .engine = {{.text = "INSERT INTO mine VALUES (?1)", .params = names, .param_count = 1}}};

static tide_status write_mine(tide_tx *tx, void *arg, tide_error *err)
{
    tide_query *query = NULL;
    DO(tide_query_begin(&query, tx, &create, err));
    DO(tide_query_run(query, NULL, err));
    tide_query_end(query);
    DO(tide_query_begin(&query, tx, &insert, err));
    tide_query_bind_i64(query, "n", *(int64_t *)arg);
    DO(tide_query_run(query, NULL, err));
    tide_query_end(query);
    return TIDE_OK;
}

static tide_status call_again(tide_tx *tx, void *arg, tide_error *err)
{
    (void)tx;
    return tide_store_write(arg, write_mine, NULL, err);
}

static void count_finding(void *arg, const char *finding)
{
    (void)finding;
    ++*(int *)arg;
}

/* What the library writes the application's own SQLite reads, from the same file. */
tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    char path[4096];
    int64_t n = 7;
    int findings = 0;
    sqlite3 *same = NULL;
    sqlite3_stmt *statement = NULL;
    (void)db;
    DO(tide_store_write(store, write_mine, &n, err));
    WANT(tide_store_write(store, call_again, store, NULL) == TIDE_E_INVALID);
    (void)snprintf(path, sizeof path, "%s/store.db", dir);
    WANT(sqlite3_open(path, &same) == SQLITE_OK);
    WANT(sqlite3_prepare_v2(same, "SELECT n FROM mine", -1, &statement, NULL) == SQLITE_OK);
    WANT(sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0) == 7);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(same);
    DO(tide_store_verify(store, count_finding, &findings, err));
    WANT(findings == 0);
    (void)snprintf(path, sizeof path, "%s/copy.db", dir);
    return tide_store_backup(store, path, err);
}
