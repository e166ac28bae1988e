#include "work/foreign/raw_sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATEMENT_SIZE = 4096, TIMES = 8, TIME_SIZE = 96 };

void raw_open(raw_sql *raw, const store_test *t)
{
    *raw = (raw_sql){.engine = t->engine};
    if (t->engine == TIDE_ENGINE_SQLITE) {
        assert_int_equal(SQLITE_OK, sqlite3_open_v2(t->url, &raw->db, SQLITE_OPEN_READWRITE, NULL));
        assert_int_equal(SQLITE_OK, sqlite3_busy_timeout(raw->db, 10000));
        return;
    }
    raw->pg = PQconnectdb(t->url);
    assert_int_equal(CONNECTION_OK, PQstatus(raw->pg));
    PQclear(PQexec(raw->pg, "SET client_min_messages = warning"));
}

void raw_close(raw_sql *raw)
{
    (void)sqlite3_close(raw->db);
    PQfinish(raw->pg);
    *raw = (raw_sql){.engine = raw->engine};
}

/* ---- running ---- */

static void add_value(raw_sql *raw, int row, int column, const char *value)
{
    const size_t used = strlen(raw->text);
    const char *before = column > 0 ? "|" : row > 0 ? " " : "";
    (void)snprintf(raw->text + used, sizeof raw->text - used, "%s%s", before, value ? value : "-");
}

static bool run_sqlite(raw_sql *raw, const char *statement)
{
    sqlite3_stmt *prepared = NULL;
    const char *rest = statement;
    int code = SQLITE_OK;
    while (code == SQLITE_OK && *rest) {
        code = sqlite3_prepare_v2(raw->db, rest, -1, &prepared, &rest);
        if (code != SQLITE_OK || !prepared)
            break;
        raw->text[0] = '\0';
        for (int row = 0; sqlite3_step(prepared) == SQLITE_ROW; row++)
            for (int i = 0; i < sqlite3_column_count(prepared); i++)
                add_value(raw, row, i, (const char *)sqlite3_column_text(prepared, i));
        code = sqlite3_finalize(prepared);
    }
    if (code == SQLITE_OK)
        return true;
    (void)snprintf(raw->error, sizeof raw->error, "%s", sqlite3_errmsg(raw->db));
    (void)snprintf(raw->sqlstate, sizeof raw->sqlstate, "%s",
                   (code & 0xff) == SQLITE_CONSTRAINT ? "23" : "");
    if (!sqlite3_get_autocommit(raw->db))
        (void)sqlite3_exec(raw->db, "ROLLBACK", NULL, NULL, NULL);
    return false;
}

static bool run_postgres(raw_sql *raw, const char *statement)
{
    PGresult *result = PQexec(raw->pg, statement);
    const ExecStatusType status = PQresultStatus(result);
    const bool is_done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    for (int row = 0; is_done && row < PQntuples(result); row++)
        for (int i = 0; i < PQnfields(result); i++)
            add_value(raw, row, i, PQgetisnull(result, row, i) ? NULL : PQgetvalue(result, row, i));
    if (!is_done) {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        (void)snprintf(raw->error, sizeof raw->error, "%s", PQresultErrorMessage(result));
        (void)snprintf(raw->sqlstate, sizeof raw->sqlstate, "%s", state ? state : "");
    }
    PQclear(result);
    if (PQtransactionStatus(raw->pg) == PQTRANS_INERROR)
        PQclear(PQexec(raw->pg, "ROLLBACK"));
    return is_done;
}

static bool run(raw_sql *raw, const char *statement, int len)
{
    assert_true(len >= 0 && len < STATEMENT_SIZE);
    raw->text[0] = raw->error[0] = raw->sqlstate[0] = '\0';
    return raw->engine == TIDE_ENGINE_SQLITE ? run_sqlite(raw, statement)
                                             : run_postgres(raw, statement);
}

static void run_or_fail(raw_sql *raw, const char *statement, int len)
{
    if (!run(raw, statement, len))
        fail_msg("refused: %s: %s", statement, raw->error);
}

bool raw_try(raw_sql *raw, const char *format, ...)
{
    char statement[STATEMENT_SIZE];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(statement, sizeof statement, format, args);
    va_end(args);
    return run(raw, statement, len);
}

void raw_ok(raw_sql *raw, const char *format, ...)
{
    char statement[STATEMENT_SIZE];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(statement, sizeof statement, format, args);
    va_end(args);
    run_or_fail(raw, statement, len);
}

void raw_refuse(raw_sql *raw, const char *why, const char *format, ...)
{
    char statement[STATEMENT_SIZE];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(statement, sizeof statement, format, args);
    va_end(args);
    if (run(raw, statement, len))
        fail_msg("accepted: %s", statement);
    if (strncmp(raw->sqlstate, "23", 2) != 0 || !strstr(raw->error, why))
        fail_msg("refused with other words (%s): %s: %s", raw->sqlstate, statement, raw->error);
}

const char *raw_text(raw_sql *raw, const char *format, ...)
{
    char statement[STATEMENT_SIZE];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(statement, sizeof statement, format, args);
    va_end(args);
    run_or_fail(raw, statement, len);
    return raw->text;
}

int64_t raw_number(raw_sql *raw, const char *format, ...)
{
    char statement[STATEMENT_SIZE];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(statement, sizeof statement, format, args);
    va_end(args);
    run_or_fail(raw, statement, len);
    return assert_number(raw->text);
}

const char *raw_time(const raw_sql *raw, int seconds)
{
    static char texts[TIMES][TIME_SIZE];
    static int next;
    char *text = texts[next++ % TIMES];
    (void)snprintf(text, TIME_SIZE,
                   raw->engine == TIDE_ENGINE_SQLITE
                       ? "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '%+d seconds')"
                       : "(clock_timestamp() + interval '%d seconds')",
                   seconds);
    return text;
}
