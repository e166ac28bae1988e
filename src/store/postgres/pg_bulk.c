/* pg_bulk.c - many rows on PostgreSQL: COPY in binary form. See bulk.h.
 *
 *     "PGCOPY\n\377\r\n\0"  flags: 4 bytes  extension: 4 bytes
 *     per row: number of fields, 2 bytes; per field: length, 4 bytes (-1: NULL), then its bytes
 *     -1, 2 bytes
 *
 * COPY needs the connection outside of pipeline mode; it returns to it when the rows end, also
 * after a failure. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/timefmt.h"
#include "store/bulk.h"
#include "store/postgres/pg_engine.h"

enum { ROW_LEN_MAX = 1 << 30 }; /* the limit of the server */

#define PG_EPOCH_US INT64_C(946684800000000) /* 2000-01-01 */

typedef struct bulk_state {
    tide_pg_connection *connection;
    tide_buffer out;
} bulk_state;

/* In pipeline mode again, and everything read; a connection that cannot do that is of no further
 * use. */
static tide_status resume_pipeline(tide_pg_connection *connection, tide_status status,
                                   tide_error *err)
{
    for (PGresult *rest = tide_pg_next_result(connection); rest;
         rest = tide_pg_next_result(connection))
        tide_pq.clear(rest);
    (void)tide_pq.setnonblocking(connection->pg, 1);
    if (!connection->is_lost && tide_pq.status(connection->pg) == CONNECTION_OK &&
        tide_pq.enterPipelineMode(connection->pg) == 1)
        return status;
    const tide_status lost = tide_pg_fail_lost(status < TIDE_OK ? NULL : err, connection);
    return status < TIDE_OK ? status : lost;
}

static tide_status start_copy(tide_bulk *bulk, tide_pg_connection *connection, tide_error *err)
{
    PGresult *result = tide_pg_exec(connection, bulk->sql->engine[TIDE_ENGINE_POSTGRES].text);
    tide_status status = TIDE_OK;
    if (tide_pq.resultStatus(result) != PGRES_COPY_IN)
        status = tide_pg_fail_result(err, result, bulk->sql->name);
    else
        bulk->width = tide_pq.nfields(result);
    tide_pq.clear(result);
    /* Rows that the server does not read yet must not pile up here. */
    (void)tide_pq.setnonblocking(connection->pg, 0);
    return status < TIDE_OK ? resume_pipeline(connection, status, err) : TIDE_OK;
}

tide_status tide_pg_bulk_begin(tide_bulk *bulk, tide_error *err)
{
    static const char HEADER[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
    tide_pg_connection *connection = bulk->tx->connection;
    TIDE_NEW(bulk_state, state, err);
    state->connection = connection;
    tide_buffer_init(&state->out, (size_t)ROW_LEN_MAX + TIDE_BULK_BUFFER_LEN);
    tide_status status = tide_buffer_append(&state->out, HEADER, 19);
    if (status < TIDE_OK)
        status = tide_buffer_check(status, err);
    if (status >= TIDE_OK)
        status = tide_pg_begin(connection, true, err);
    if (status >= TIDE_OK)
        status = tide_pg_sync(connection, err);
    if (status >= TIDE_OK && tide_pq.exitPipelineMode(connection->pg) != 1)
        status = tide_fail(err, TIDE_E_FAILED, "cannot leave pipeline mode");
    if (status >= TIDE_OK)
        status = start_copy(bulk, connection, err);
    if (status < TIDE_OK) {
        tide_buffer_done(&state->out);
        free(state);
        return status;
    }
    bulk->state = state;
    return TIDE_OK;
}

/* ---- rows ---- */

static void put_big_endian(char *out, uint64_t value, int len)
{
    for (int i = 0; i < len; i++)
        out[i] = (char)(value >> (8 * (len - 1 - i)));
}

/* A field of fixed length; room was made. */
static void add_fixed(tide_buffer *out, uint64_t value, int len)
{
    put_big_endian(out->ptr + out->len, (uint64_t)len, 4);
    put_big_endian(out->ptr + out->len + 4, value, len);
    out->len += (size_t)len + 4;
}

static void add_bytes(tide_buffer *out, tide_view bytes)
{
    put_big_endian(out->ptr + out->len, (uint64_t)bytes.len, 4);
    if (bytes.len > 0)
        memcpy(out->ptr + out->len + 4, bytes.ptr, bytes.len);
    out->len += bytes.len + 4;
}

static size_t measure(const tide_sql_value *values, int count)
{
    size_t len = 3; /* number of fields, and a terminator behind the buffer */
    for (int i = 0; i < count; i++)
        len += values[i].kind == TIDE_SQL_VALUE_TEXT || values[i].kind == TIDE_SQL_VALUE_BLOB
                   ? values[i].bytes.len + 4
                   : 12;
    return len;
}

static tide_status add_value(tide_buffer *out, const tide_sql_value *value, tide_error *err)
{
    uint64_t bits = 0;
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        put_big_endian(out->ptr + out->len, UINT32_MAX, 4);
        out->len += 4;
        return TIDE_OK;
    case TIDE_SQL_VALUE_I64:
        add_fixed(out, (uint64_t)value->i64, 8);
        return TIDE_OK;
    case TIDE_SQL_VALUE_BOOL:
        add_fixed(out, value->i64 != 0, 1);
        return TIDE_OK;
    case TIDE_SQL_VALUE_F64:
        memcpy(&bits, &value->f64, sizeof bits);
        add_fixed(out, bits, 8);
        return TIDE_OK;
    case TIDE_SQL_VALUE_TEXT:
    case TIDE_SQL_VALUE_BLOB:
        add_bytes(out, value->bytes);
        return TIDE_OK;
    case TIDE_SQL_VALUE_TIME:
        if (value->i64 < TIDE_TIME_MIN_US || value->i64 > TIDE_TIME_MAX_US)
            return tide_fail(err, TIDE_E_INVALID, "a time outside the years 1 to 9999");
        add_fixed(out, (uint64_t)(value->i64 - PG_EPOCH_US), 8);
        return TIDE_OK;
    }
    return tide_fail(err, TIDE_E_FAILED, "a value of unknown kind");
}

static tide_status send_rows(bulk_state *state, tide_error *err)
{
    if (tide_pq.putCopyData(state->connection->pg, state->out.ptr, (int)state->out.len) != 1)
        return tide_pg_fail_lost(err, state->connection);
    tide_buffer_clear(&state->out);
    return TIDE_OK;
}

tide_status tide_pg_bulk_row(tide_bulk *bulk, const tide_sql_value *values, tide_error *err)
{
    bulk_state *state = bulk->state;
    tide_buffer *out = &state->out;
    const size_t len = measure(values, bulk->width);
    if (len > ROW_LEN_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "%s: a row of more than 1 GiB", bulk->sql->name);
    const tide_status reserved = tide_buffer_reserve(out, len);
    TIDE_TRY(tide_buffer_check(reserved, err));
    put_big_endian(out->ptr + out->len, (uint64_t)bulk->width, 2);
    out->len += 2;
    for (int i = 0; i < bulk->width; i++)
        TIDE_TRY(add_value(out, &values[i], err));
    return out->len < TIDE_BULK_BUFFER_LEN ? TIDE_OK : send_rows(state, err);
}

/* ---- the end ---- */

static tide_status finish_copy(const tide_bulk *bulk, bool is_kept, tide_error *err)
{
    bulk_state *state = bulk->state;
    PGconn *pg = state->connection->pg;
    tide_status status = TIDE_OK;
    if (is_kept) {
        status = tide_buffer_append(&state->out, "\377\377", 2);
        if (status >= TIDE_OK)
            status = send_rows(state, err);
    }
    if (tide_pq.putCopyEnd(pg, is_kept && status >= TIDE_OK ? NULL : "given up") != 1)
        return tide_pg_fail_lost(err, state->connection);
    PGresult *result = tide_pg_next_result(state->connection);
    if (tide_pq.resultStatus(result) != PGRES_COMMAND_OK && status >= TIDE_OK)
        status = tide_pg_fail_result(err, result, bulk->sql->name);
    tide_pq.clear(result);
    return status;
}

tide_status tide_pg_bulk_end(tide_bulk *bulk, bool is_kept, tide_error *err)
{
    bulk_state *state = bulk->state;
    tide_pg_connection *connection = state->connection;
    tide_status status = TIDE_OK;
    if (!tide_pg_connection_is_lost(connection))
        status = resume_pipeline(connection, finish_copy(bulk, is_kept, err), err);
    else
        status = tide_pg_fail_lost(err, connection);
    tide_buffer_done(&state->out);
    free(state);
    return status;
}
