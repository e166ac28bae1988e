/* pg_readonly_query.c - SQL of callers on PostgreSQL, which only reads (readonly_query.h). */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cond_wait.h"
#include "base/text/timefmt.h"
#include "store/postgres/pg_connection.h"
#include "store/postgres/pg_query_guard.h"
#include "store/readonly_query.h"

/* From the server's catalogue, where they never change. */
enum {
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_OID = 26,
    OID_FLOAT4 = 700,
    OID_FLOAT8 = 701,
    OID_TIMESTAMP = 1114,
    OID_TIMESTAMPTZ = 1184,
};

static tide_status begin(tide_pg_connection *connection, const tide_readonly_query *query,
                         bool has_role, tide_error *err)
{
    char text[256];
    const int64_t timeout_ms = query->timeout_us / 1000 > 0 ? query->timeout_us / 1000 : 1;
    (void)snprintf(text, sizeof text,
                   "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone='UTC';"
                   "SET LOCAL statement_timeout=%" PRId64 "%s",
                   timeout_ms < INT32_MAX ? timeout_ms : INT32_MAX,
                   has_role ? ";SET LOCAL ROLE tidemark_query" : "");
    PGresult *result = tide_pg_exec(connection, text);
    const bool is_begun = tide_pq.resultStatus(result) == PGRES_COMMAND_OK;
    const tide_status status =
        is_begun ? TIDE_OK : tide_pg_fail_result(err, result, "cannot begin a query");
    tide_pq.clear(result);
    return status;
}

/* ---- values ---- */

typedef struct row_text {
    char time[TIDE_TIME_TEXT_SIZE];
    unsigned char *bytes; /* of PQunescapeBytea */
} row_text;

/* '2025-01-01 00:00:00.5+00': ours has all digits and no zone. Others (infinity, BC) stay as they
 * are. */
static tide_view time_of(tide_view text, char out[TIDE_TIME_TEXT_SIZE])
{
    const size_t len =
        text.len > 3 && strncmp(text.ptr + text.len - 3, "+00", 3) == 0 ? text.len - 3 : text.len;
    int64_t us = 0;
    if (tide_time_parse(&us, tide_view_bytes(text.ptr, len)) != TIDE_OK ||
        tide_time_format(us, out) != TIDE_OK)
        return text;
    return tide_view_of(out);
}

static tide_sql_value value_of(const PGresult *result, int column, row_text *text)
{
    if (tide_pq.getisnull(result, 0, column))
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
    const char *field = tide_pq.getvalue(result, 0, column);
    tide_sql_value value = {
        .kind = TIDE_SQL_VALUE_TEXT,
        .bytes = tide_view_bytes(field, (size_t)tide_pq.getlength(result, 0, column))};
    switch (tide_pq.ftype(result, column)) {
    case OID_BOOL:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_BOOL, .i64 = field[0] == 't'};
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
    case OID_OID:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = strtoll(field, NULL, 10)};
    case OID_FLOAT4:
    case OID_FLOAT8:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_F64, .f64 = strtod(field, NULL)};
    case OID_TIMESTAMP:
    case OID_TIMESTAMPTZ:
        value.bytes = time_of(value.bytes, text->time);
        return value;
    case OID_BYTEA: {
        size_t len = 0;
        text->bytes = tide_pq.unescapeBytea((const unsigned char *)field, &len);
        value.kind = TIDE_SQL_VALUE_BLOB;
        value.bytes = tide_view_bytes(text->bytes, text->bytes ? len : 0);
        return value;
    }
    default:
        return value;
    }
}

static tide_status report_row(const tide_readonly_query *query, const PGresult *result,
                              tide_sql_value *values, row_text *texts, int64_t *len,
                              tide_error *err)
{
    const int count = tide_pq.nfields(result);
    assert(values && texts);
    for (int i = 0; i < count; i++) {
        *len += 8 + tide_pq.getlength(result, 0, i);
        texts[i].bytes = NULL;
        values[i] = value_of(result, i, &texts[i]);
    }
    tide_status status = TIDE_OK;
    if (*len > query->bytes_max)
        status = tide_fail(err, TIDE_E_LIMIT, "the result has more than %" PRId64 " bytes",
                           query->bytes_max);
    else
        status = query->row(query->arg, values, count, err);
    for (int i = 0; i < count; i++)
        tide_pq.freemem(texts[i].bytes);
    return status;
}

/* ---- rows ---- */

typedef struct progress {
    const tide_readonly_query *query;
    tide_sql_value *values;
    row_text *texts;
    int64_t rows;
    int64_t len;
    bool has_columns; /* they were reported */
} progress;

static tide_status report_columns(progress *p, const PGresult *result, tide_error *err)
{
    const int count = tide_pq.nfields(result);
    if (p->has_columns)
        return TIDE_OK;
    p->has_columns = true;
    if (count > TIDE_READONLY_QUERY_COLUMNS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d columns",
                         TIDE_READONLY_QUERY_COLUMNS_MAX);
    const char *names[TIDE_READONLY_QUERY_COLUMNS_MAX];
    for (int i = 0; i < count; i++)
        names[i] = tide_pq.fname(result, i);
    p->values = calloc((size_t)count + 1, sizeof *p->values);
    p->texts = calloc((size_t)count + 1, sizeof *p->texts);
    if (!p->values || !p->texts)
        return tide_no_memory(err);
    return p->query->columns(p->query->arg, names, count, err);
}

static tide_status handle_result(progress *p, const PGresult *result, tide_error *err)
{
    const ExecStatusType status = tide_pq.resultStatus(result);
    if (status == PGRES_SINGLE_TUPLE) {
        TIDE_TRY(report_columns(p, result, err));
        if (p->rows++ == p->query->row_max)
            return tide_fail(err, TIDE_E_LIMIT, "the result has more than %" PRId64 " rows",
                             p->query->row_max);
        return report_row(p->query, result, p->values, p->texts, &p->len, err);
    }
    if (status == PGRES_TUPLES_OK)
        return report_columns(p, result, err);
    return status == PGRES_COMMAND_OK ? TIDE_OK : tide_pg_fail_result(err, result, "query");
}

/* Wait for the next result, or until the caller leaves. tide_pg_next_result reports a lost
 * connection and the end of the time. */
static tide_status wait_for_result(const progress *p, const tide_pg_connection *connection,
                                   tide_error *err)
{
    PGconn *pg = connection->pg;
    while (p->query->cancel_fd > 0 && tide_pq.isBusy(pg)) {
        const int64_t left_us = connection->answer_by_us - tide_cond_until(0);
        if (left_us <= 0)
            return TIDE_OK;
        struct pollfd fds[] = {{.fd = tide_pq.socket(pg), .events = POLLIN},
                               {.fd = p->query->cancel_fd, .events = POLLIN}};
        if (poll(fds, 2, (int)(left_us / 1000) + 1) < 0 && errno != EINTR)
            return TIDE_OK;
        if (fds[1].revents != 0) {
            char ignored[256];
            PGcancel *cancel = tide_pq.getCancel(pg);
            if (cancel)
                (void)tide_pq.cancel(cancel, ignored, sizeof ignored);
            tide_pq.freeCancel(cancel);
            return tide_fail(err, TIDE_E_INTERRUPTED, "the caller left; query cancelled");
        }
        if (tide_pq.consumeInput(pg) != 1)
            return TIDE_OK;
    }
    return TIDE_OK;
}

static tide_status read_rows(progress *p, tide_pg_connection *connection, tide_error *err)
{
    tide_status status = TIDE_OK;
    for (;;) {
        TIDE_TRY(wait_for_result(p, connection, err));
        PGresult *result = tide_pg_next_result(connection);
        if (!result && connection->is_lost)
            return tide_pg_fail_lost(err, connection);
        if (!result)
            break;
        if (status >= TIDE_OK)
            status = handle_result(p, result, err);
        tide_pq.clear(result);
        if (status < TIDE_OK)
            break; /* the connection is closed with the rest */
    }
    return status;
}

/* A statement that the server does not understand is the caller's mistake, not the store's
 * failure. */
static tide_status name_failure(tide_status status, tide_error *err)
{
    if (status != TIDE_E_FAILED && status != TIDE_E_FOREIGN)
        return status;
    if (err)
        err->status = TIDE_E_INVALID;
    return TIDE_E_INVALID;
}

tide_status tide_pg_readonly_query_run(tide_pg_connection *connection,
                                       const tide_readonly_query *query, tide_error *err)
{
    PGconn *pg = connection->pg;
    const char *inner = NULL;
    bool has_role = false;
    TIDE_TRY(tide_pg_query_guard_text(query->sql, &inner, err));
    if (tide_pq.exitPipelineMode(pg) != 1)
        return tide_fail(err, TIDE_E_FAILED, "cannot leave pipeline mode");
    TIDE_TRY(name_failure(
        tide_pg_query_guard_names(connection, inner, query->timeout_us, &has_role, err), err));
    TIDE_TRY(begin(connection, query, has_role, err));
    if (tide_pq.sendQueryParams(pg, query->sql, 0, NULL, NULL, NULL, NULL, 0) != 1 ||
        tide_pq.setSingleRowMode(pg) != 1)
        return tide_pg_fail_lost(err, connection);
    progress p = {.query = query};
    const tide_status status = read_rows(&p, connection, err);
    free(p.values);
    free(p.texts);
    if (status < TIDE_OK)
        return name_failure(status, err);
    tide_pq.clear(tide_pg_exec(connection, "ROLLBACK"));
    return tide_pq.enterPipelineMode(pg) == 1 ? TIDE_OK : tide_pg_fail_lost(err, connection);
}
