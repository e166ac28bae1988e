#include "raw_sqlite.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

static const char *const set_up =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "CREATE TABLE IF NOT EXISTS sequences (name TEXT NOT NULL PRIMARY KEY, last INTEGER NOT NULL,"
    " last_at TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS appended (seq_id INTEGER NOT NULL PRIMARY KEY, writer TEXT NOT "
    "NULL,"
    " n INTEGER NOT NULL, at TEXT NOT NULL) STRICT;";

typedef enum raw_statement {
    RAW_BEGIN,
    RAW_TAKE,
    RAW_ADD,
    RAW_COMMIT,
    RAW_COUNT,
} raw_statement;

#define TAKE                                                                                       \
    "INSERT INTO sequences (name, last, last_at) VALUES ('numbered', 1, ?1)"                       \
    " ON CONFLICT (name) DO UPDATE SET last = last + 1, last_at = ?1 RETURNING last"

static const char *const texts[RAW_COUNT] = {
    [RAW_BEGIN] = "BEGIN IMMEDIATE",
    [RAW_TAKE] = TAKE,
    [RAW_ADD] = "INSERT INTO appended (seq_id, writer, n, at) VALUES (?1, ?2, ?3, ?4)",
    [RAW_COMMIT] = "COMMIT",
};

static const char *const at = "2026-01-02 03:04:05.678901";

struct raw_sqlite {
    sqlite3 *db;
    sqlite3_stmt *statements[RAW_COUNT];
};

raw_sqlite *raw_sqlite_open(const char *path, int busy_ms)
{
    raw_sqlite *raw = calloc(1, sizeof *raw);
    if (!raw)
        bench_die("no memory for %s", path);
    if (sqlite3_open_v2(path, &raw->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(raw->db, busy_ms) != SQLITE_OK ||
        sqlite3_exec(raw->db, set_up, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("%s: %s", path, sqlite3_errmsg(raw->db));
    for (int i = 0; i < RAW_COUNT; i++)
        if (sqlite3_prepare_v3(raw->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &raw->statements[i], NULL) != SQLITE_OK)
            bench_die("%s: %s", texts[i], sqlite3_errmsg(raw->db));
    return raw;
}

void raw_sqlite_close(raw_sqlite *raw)
{
    if (!raw)
        return;
    for (int i = 0; i < RAW_COUNT; i++)
        (void)sqlite3_finalize(raw->statements[i]);
    (void)sqlite3_close(raw->db);
    free(raw);
}

/* Runs to the end; returns the first column of the only row, if there is one. */
static int64_t run(raw_sqlite *raw, raw_statement which)
{
    sqlite3_stmt *statement = raw->statements[which];
    int64_t value = 0;
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        value = sqlite3_column_int64(statement, 0);
        code = sqlite3_step(statement);
    }
    if (code != SQLITE_DONE)
        bench_die("%s: %s", texts[which], sqlite3_errmsg(raw->db));
    (void)sqlite3_reset(statement);
    return value;
}

static bool begin(raw_sqlite *raw)
{
    const int code = sqlite3_step(raw->statements[RAW_BEGIN]);
    (void)sqlite3_reset(raw->statements[RAW_BEGIN]);
    if (code != SQLITE_DONE && code != SQLITE_BUSY)
        bench_die("%s: %s", texts[RAW_BEGIN], sqlite3_errmsg(raw->db));
    return code == SQLITE_DONE;
}

bool raw_sqlite_write(raw_sqlite *raw, int writer, int64_t n, int count)
{
    if (!begin(raw))
        return false;
    for (int i = 0; i < count; i++) {
        (void)sqlite3_bind_text(raw->statements[RAW_TAKE], 1, at, -1, SQLITE_STATIC);
        const int64_t number = run(raw, RAW_TAKE);
        char name[32];
        (void)snprintf(name, sizeof name, "writer-%02d", (writer + i) % RAW_SQLITE_WRITERS);
        sqlite3_stmt *add = raw->statements[RAW_ADD];
        (void)sqlite3_bind_int64(add, 1, number);
        (void)sqlite3_bind_text(add, 2, name, -1, SQLITE_TRANSIENT);
        (void)sqlite3_bind_int64(add, 3, n);
        (void)sqlite3_bind_text(add, 4, at, -1, SQLITE_STATIC);
        (void)run(raw, RAW_ADD);
    }
    (void)run(raw, RAW_COMMIT);
    return true;
}
