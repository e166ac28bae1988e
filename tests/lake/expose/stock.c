/* stock.c - see stock.h. */
#include "lake/expose/stock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <libpq-fe.h>

enum { TEXT_MAX = 64 << 10 };

static void say_nothing(void *arg, const char *text)
{
    (void)arg;
    (void)text;
}

bool stock_open(stock *s, const char *url, const char *schema)
{
    *s = (stock){0};
    (void)snprintf(s->schema, sizeof s->schema, "%s", schema);
    s->connection = PQconnectdb(url);
    (void)PQsetNoticeProcessor(s->connection, say_nothing, NULL);
    (void)snprintf(s->error, sizeof s->error, "%s", PQerrorMessage(s->connection));
    return PQstatus(s->connection) == CONNECTION_OK;
}

void stock_close(stock *s)
{
    PQfinish(s->connection);
    s->connection = NULL;
}

/* "M." becomes the schema's name, as a client fills its templates. */
static void fill_schema(const stock *s, const char *text, char out[TEXT_MAX])
{
    size_t len = 0;
    for (const char *at = text; *at && len + sizeof s->schema + 8 < TEXT_MAX; at++) {
        if (at[0] == 'M' && at[1] == '.' && (at == text || at[-1] == ' ' || at[-1] == '(')) {
            len += (size_t)snprintf(out + len, TEXT_MAX - len, "\"%s\".", s->schema);
            at++;
        } else {
            out[len++] = *at;
        }
    }
    out[len] = '\0';
}

static PGresult *ask(stock *s, const char *text)
{
    char *filled = malloc(TEXT_MAX);
    if (!filled)
        abort();
    fill_schema(s, text, filled);
    PGresult *result = PQexec(s->connection, filled);
    free(filled);
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY)
        return result;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    (void)snprintf(s->error, sizeof s->error, "%s", PQresultErrorMessage(result));
    (void)snprintf(s->sqlstate, sizeof s->sqlstate, "%s", state ? state : "");
    PQclear(result);
    return NULL;
}

bool stock_run(stock *s, const char *text)
{
    PGresult *result = ask(s, text);
    PQclear(result);
    return result != NULL;
}

bool stock_runf(stock *s, const char *format, ...)
{
    char *text = malloc(TEXT_MAX);
    if (!text)
        abort();
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, TEXT_MAX, format, args);
    va_end(args);
    const bool is_done = stock_run(s, text);
    free(text);
    return is_done;
}

char *stock_rows(stock *s, const char *format, ...)
{
    char *text = malloc(TEXT_MAX);
    if (!text)
        abort();
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, TEXT_MAX, format, args);
    va_end(args);
    PGresult *result = ask(s, text);
    free(text);
    if (!result)
        return NULL;
    char *rows = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&rows, &size);
    for (int i = 0; out && i < PQntuples(result); i++)
        for (int k = 0; k < PQnfields(result); k++)
            (void)fprintf(out, "%s%c", PQgetisnull(result, i, k) ? "-" : PQgetvalue(result, i, k),
                          k + 1 < PQnfields(result) ? '|' : '\n');
    if (out)
        (void)fclose(out);
    PQclear(result);
    return rows;
}

int64_t stock_number(stock *s, const char *text)
{
    PGresult *result = ask(s, text);
    const bool has_one = result && PQntuples(result) == 1 && !PQgetisnull(result, 0, 0);
    const int64_t number = has_one ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : -1;
    PQclear(result);
    return number;
}

static bool read_head(stock *s)
{
    PGresult *result =
        ask(s, "SELECT snapshot_id, schema_version, next_catalog_id, next_file_id FROM "
               "M.ducklake_snapshot WHERE snapshot_id = (SELECT MAX(snapshot_id) FROM "
               "M.ducklake_snapshot);");
    if (!result || PQntuples(result) != 1) {
        PQclear(result);
        return false;
    }
    int64_t *const fields[] = {&s->head.snapshot, &s->head.schema_version, &s->head.next_catalog,
                               &s->head.next_file};
    for (int i = 0; i < 4; i++)
        *fields[i] = strtoll(PQgetvalue(result, 0, i), NULL, 10);
    PQclear(result);
    return true;
}

bool stock_begin(stock *s)
{
    return stock_run(s, "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ") && read_head(s);
}

bool stock_next(stock *s, int schema_step, int objects, int files)
{
    return stock_runf(s,
                      "INSERT INTO M.ducklake_snapshot VALUES (%" PRId64 ", NOW(), %" PRId64
                      ", %" PRId64 ", %" PRId64 ");",
                      s->head.snapshot + 1, s->head.schema_version + schema_step,
                      s->head.next_catalog + objects, s->head.next_file + files);
}

void stock_rollback(stock *s)
{
    PGresult *result = PQexec(s->connection, "ROLLBACK");
    PQclear(result);
}

bool stock_end(stock *s, const char *changes)
{
    const bool is_done = stock_runf(s,
                                    "INSERT INTO M.ducklake_snapshot_changes VALUES (%" PRId64
                                    ", '%s', NULL, NULL, NULL);",
                                    s->head.snapshot + 1, changes) &&
                         stock_run(s, "COMMIT");
    if (!is_done)
        stock_rollback(s);
    return is_done;
}

bool stock_may_try_again(const stock *s)
{
    return strcasestr(s->error, "primary key") || strcasestr(s->error, "unique") ||
           strcasestr(s->error, "conflict") || strcasestr(s->error, "concurrent");
}

/* What a second attempt is checked against: was the table dropped, altered, or deleted from since? */
static bool was_changed(stock *s, int64_t since, int64_t table_id)
{
    char *changes = stock_rows(s,
                               "SELECT COALESCE((SELECT STRING_AGG(changes_made, ',') FROM "
                               "M.ducklake_snapshot_changes c WHERE c.snapshot_id > %" PRId64
                               "),'') AS changes",
                               since);
    static const char *const words[] = {"dropped_table", "altered_table", "deleted_from_table"};
    bool is_changed = !changes;
    for (size_t i = 0; changes && i < 3; i++) {
        char word[64];
        (void)snprintf(word, sizeof word, "%s:%" PRId64, words[i], table_id);
        is_changed = is_changed || strstr(changes, word);
    }
    free(changes);
    return is_changed;
}

typedef struct old_stats {
    int64_t records;
    int64_t next_row;
    int64_t bytes;
    int64_t column_id;
    int64_t low;
    int64_t high;
    bool is_there;
} old_stats;

static bool read_stats(stock *s, int64_t table_id, old_stats *out)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "SELECT table_id, column_id, record_count, next_row_id, file_size_bytes, "
                   "contains_null, contains_nan, min_value, max_value, extra_stats FROM "
                   "M.ducklake_table_stats LEFT JOIN M.ducklake_table_column_stats USING "
                   "(table_id) WHERE table_id = %" PRId64
                   " AND record_count IS NOT NULL AND file_size_bytes IS NOT NULL ORDER BY "
                   "table_id, column_id;",
                   table_id);
    *out = (old_stats){.column_id = 0};
    PGresult *result = ask(s, text);
    if (result && PQntuples(result) > 0) {
        *out = (old_stats){.is_there = true,
                           .records = strtoll(PQgetvalue(result, 0, 2), NULL, 10),
                           .next_row = strtoll(PQgetvalue(result, 0, 3), NULL, 10),
                           .bytes = strtoll(PQgetvalue(result, 0, 4), NULL, 10),
                           .low = strtoll(PQgetvalue(result, 0, 7), NULL, 10),
                           .high = strtoll(PQgetvalue(result, 0, 8), NULL, 10)};
    }
    const bool is_read = result != NULL;
    PQclear(result);
    (void)snprintf(text, sizeof text,
                   "SELECT min(column_id) FROM M.ducklake_column WHERE table_id = %" PRId64
                   " AND end_snapshot IS NULL",
                   table_id);
    out->column_id = stock_number(s, text);
    return is_read && out->column_id >= 0;
}

static bool send_insert(stock *s, int64_t table_id, const char *file, int64_t rows, int64_t low,
                        int64_t high)
{
    old_stats old;
    if (!read_stats(s, table_id, &old) || !stock_next(s, 0, 0, 1))
        return false;
    const int64_t id = s->head.next_file;
    const int64_t least = old.is_there && old.low < low ? old.low : low;
    const int64_t most = old.is_there && old.high > high ? old.high : high;
    if (!stock_runf(s,
                    "INSERT INTO M.ducklake_data_file VALUES (%" PRId64 ", %" PRId64 ", %" PRId64
                    ", NULL, NULL, '%s', true, 'parquet', %" PRId64 ", 100, 10, %" PRId64
                    ", NULL, NULL, NULL, NULL);"
                    "INSERT INTO M.ducklake_file_column_stats VALUES (%" PRId64 ", %" PRId64
                    ", %" PRId64 ", 8, %" PRId64 ", 0, '%" PRId64 "', '%" PRId64 "', NULL, NULL);",
                    id, table_id, s->head.snapshot + 1, file, rows, old.next_row, id, table_id,
                    old.column_id, rows, low, high))
        return false;
    if (!old.is_there)
        return stock_runf(s,
                          "INSERT INTO M.ducklake_table_stats VALUES (%" PRId64 ", %" PRId64
                          ", %" PRId64 ", 100);"
                          "INSERT INTO M.ducklake_table_column_stats VALUES (%" PRId64 ", %" PRId64
                          ", false, NULL, '%" PRId64 "', '%" PRId64 "', NULL);",
                          table_id, rows, rows, table_id, old.column_id, low, high);
    return stock_runf(
        s,
        "UPDATE M.ducklake_table_stats SET record_count=%" PRId64 ", file_size_bytes=%" PRId64
        ", next_row_id=%" PRId64 " WHERE table_id=%" PRId64 ";"
        "WITH new_values(tid, cid, new_contains_null, new_contains_nan, new_min, new_max, "
        "new_extra_stats) AS (VALUES (%" PRId64 ", %" PRId64 ", false, NULL, '%" PRId64
        "', '%" PRId64 "', NULL)) UPDATE M.ducklake_table_column_stats SET "
        "contains_null=new_contains_null, contains_nan=new_contains_nan::boolean, "
        "min_value=new_min, max_value=new_max, extra_stats=new_extra_stats FROM new_values WHERE "
        "table_id=tid AND column_id=cid;",
        old.records + rows, old.bytes + 100, old.next_row + rows, table_id, table_id, old.column_id,
        least, most);
}

bool stock_insert(stock *s, int64_t table_id, const char *file, int64_t rows, int64_t low,
                  int64_t high, int tries, int64_t wait_us)
{
    int64_t base = 0;
    for (s->tries = 1; s->tries <= tries; s->tries++) {
        char changes[64];
        if (!stock_begin(s))
            return false;
        if (s->tries == 1)
            base = s->head.snapshot;
        else if (was_changed(s, base, table_id)) {
            (void)snprintf(s->error, sizeof s->error, "Transaction conflict");
            stock_rollback(s);
            return false;
        }
        (void)snprintf(changes, sizeof changes, "inserted_into_table:%" PRId64, table_id);
        if (!send_insert(s, table_id, file, rows, low, high))
            stock_rollback(s);
        else if (stock_end(s, changes))
            return true;
        if (!stock_may_try_again(s))
            return false;
        (void)usleep((useconds_t)(wait_us / 2 + random() % (wait_us / 2 + 1)));
        wait_us = wait_us < 100000 ? wait_us * 3 / 2 : wait_us;
    }
    return false;
}

bool stock_delete(stock *s, int64_t table, int64_t data_file, int64_t old_delete, int64_t old_begin,
                  int64_t count)
{
    char changes[64];
    (void)snprintf(changes, sizeof changes, "deleted_from_table:%" PRId64, table);
    return stock_begin(s) && stock_next(s, 0, 0, 1) &&
           (old_delete == 0 ||
            stock_runf(s,
                       "DELETE FROM M.ducklake_delete_file WHERE delete_file_id IN (%" PRId64 ");"
                       "INSERT INTO M.ducklake_files_scheduled_for_deletion VALUES (%" PRId64
                       ", 'main/t/d.parquet', true, NOW());",
                       old_delete, old_delete)) &&
           stock_runf(s,
                      "INSERT INTO M.ducklake_delete_file VALUES (%" PRId64 ", %" PRId64
                      ", %" PRId64 ", NULL, %" PRId64 ", 'd-%" PRId64
                      ".parquet', true, 'parquet', %" PRId64 ", 50, 10, NULL, %s);",
                      s->head.next_file, table, old_begin > 0 ? old_begin : s->head.snapshot + 1,
                      data_file, s->head.next_file, count, old_delete > 0 ? "1" : "NULL") &&
           stock_end(s, changes);
}

bool stock_end_file(stock *s, int64_t table, int64_t data_file)
{
    char changes[64];
    (void)snprintf(changes, sizeof changes, "deleted_from_table:%" PRId64, table);
    return stock_begin(s) && stock_next(s, 0, 0, 0) &&
           stock_runf(s,
                      "UPDATE M.ducklake_data_file SET end_snapshot = %" PRId64
                      " WHERE data_file_id IN (%" PRId64 ") AND end_snapshot IS NULL",
                      s->head.snapshot + 1, data_file) &&
           stock_end(s, changes);
}

/* As a client lists a table's files: data files with the delete file that is visible. */
static int64_t ask_files(stock *s, const char *what, int64_t table_id, int64_t snapshot)
{
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "SELECT %s FROM M.ducklake_data_file data LEFT JOIN (SELECT * FROM M.ducklake_delete_file "
        "WHERE table_id=%" PRId64 " AND %" PRId64 " >= begin_snapshot AND (%" PRId64
        " < end_snapshot OR end_snapshot IS NULL)) del USING (data_file_id) WHERE "
        "data.table_id=%" PRId64 " AND %" PRId64 " >= data.begin_snapshot AND (%" PRId64
        " < data.end_snapshot OR data.end_snapshot IS NULL)",
        what, table_id, snapshot, snapshot, table_id, snapshot, snapshot);
    return stock_number(s, text);
}

int64_t stock_files(stock *s, int64_t table_id, int64_t snapshot)
{
    return ask_files(s, "COUNT(*)", table_id, snapshot);
}

int64_t stock_count(stock *s, int64_t table_id, int64_t snapshot)
{
    return ask_files(s, "COALESCE(SUM(data.record_count - COALESCE(del.delete_count, 0)), 0)",
                     table_id, snapshot);
}

int64_t stock_table(stock *s, const char *schema, const char *table, int64_t snapshot)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "SELECT tbl.table_id FROM M.ducklake_table tbl JOIN M.ducklake_schema sch "
                   "USING (schema_id) WHERE sch.schema_name = '%s' AND tbl.table_name = '%s' AND "
                   "%" PRId64 " >= tbl.begin_snapshot AND (%" PRId64
                   " < tbl.end_snapshot OR tbl.end_snapshot IS NULL)",
                   schema, table, snapshot, snapshot);
    return stock_number(s, text);
}
