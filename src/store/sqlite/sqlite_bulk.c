/* sqlite_bulk.c - many rows on SQLite: one statement, bound without copies. See bulk.h. */
#include <assert.h>
#include <stdlib.h>

#include "base/text/timefmt.h"
#include "store/bulk.h"
#include "store/sqlite/sqlite_connection.h"

typedef struct bulk_state {
    sqlite3 *db;
    sqlite3_stmt *statement;
    bool is_spare; /* prepared for this bulk alone, because the kept one is in use */
    struct {
        int64_t us;
        char text
            [TIDE_TIME_TEXT_SIZE]; /* of the column's last time: rows beside each other often share it */
    } times[TIDE_QUERY_PARAM_MAX];
} bulk_state;

static tide_status compile(sqlite3_stmt **out, const tide_bulk *bulk, sqlite3 *db, tide_error *err)
{
    const int code = sqlite3_prepare_v3(db, bulk->sql->engine[TIDE_ENGINE_SQLITE].text, -1,
                                        SQLITE_PREPARE_PERSISTENT, out, NULL);
    return code == SQLITE_OK ? TIDE_OK : tide_sqlite_fail(err, db, code, bulk->sql->name);
}

static tide_status choose_statement(bulk_state *state, const tide_bulk *bulk, tide_error *err)
{
    tide_sqlite_connection *connection = bulk->tx->connection;
    state->db = connection->db;
    state->statement = tide_statement_map_find(&connection->statements, bulk->sql);
    if (state->statement && !sqlite3_stmt_busy(state->statement))
        return TIDE_OK;
    const bool is_kept = state->statement != NULL;
    TIDE_TRY(compile(&state->statement, bulk, state->db, err));
    state->is_spare =
        is_kept || !tide_statement_map_put(&connection->statements, bulk->sql, state->statement);
    return TIDE_OK;
}

tide_status tide_sqlite_bulk_begin(tide_bulk *bulk, tide_error *err)
{
    bulk_state *state = calloc(1, sizeof *state);
    if (!state)
        return tide_no_memory(err);
    const tide_status status = choose_statement(state, bulk, err);
    if (status < TIDE_OK) {
        free(state);
        return status;
    }
    bulk->width = bulk->sql->engine[TIDE_ENGINE_SQLITE].param_count;
    assert(bulk->width <= TIDE_QUERY_PARAM_MAX);
    bulk->state = state;
    return TIDE_OK;
}

static int bind_time(bulk_state *state, int column, int64_t us)
{
    char *text = state->times[column].text;
    if ((!text[0] || state->times[column].us != us) && tide_time_format(us, text) != TIDE_OK)
        return SQLITE_MISMATCH;
    state->times[column].us = us;
    return sqlite3_bind_text(state->statement, column + 1, text, TIDE_TIME_TEXT_SIZE - 1,
                             SQLITE_STATIC);
}

/* Empty is not NULL: SQLite takes a pointer to nothing for nothing at all. */
static const char *bytes_of(tide_view view)
{
    return view.ptr ? view.ptr : "";
}

static int bind_one(bulk_state *state, int column, const tide_value *value)
{
    sqlite3_stmt *statement = state->statement;
    switch (value->kind) {
    case TIDE_VALUE_NULL:
        return sqlite3_bind_null(statement, column + 1);
    case TIDE_VALUE_I64:
    case TIDE_VALUE_BOOL:
        return sqlite3_bind_int64(statement, column + 1, value->as.i64);
    case TIDE_VALUE_F64:
        return sqlite3_bind_double(statement, column + 1, value->as.f64);
    case TIDE_VALUE_TEXT:
        return sqlite3_bind_text64(statement, column + 1, bytes_of(value->as.bytes),
                                   value->as.bytes.len, SQLITE_STATIC, SQLITE_UTF8);
    case TIDE_VALUE_BLOB:
        return sqlite3_bind_blob64(statement, column + 1, bytes_of(value->as.bytes),
                                   value->as.bytes.len, SQLITE_STATIC);
    case TIDE_VALUE_TIME:
        return bind_time(state, column, value->as.i64);
    }
    return SQLITE_MISUSE;
}

tide_status tide_sqlite_bulk_row(tide_bulk *bulk, const tide_value *values, tide_error *err)
{
    bulk_state *state = bulk->state;
    for (int i = 0; i < bulk->width; i++) {
        const int code = bind_one(state, i, &values[i]);
        if (code != SQLITE_OK)
            return tide_sqlite_fail(err, NULL, code, bulk->sql->name);
    }
    const int code = sqlite3_step(state->statement);
    const tide_status status =
        code == SQLITE_DONE ? TIDE_OK : tide_sqlite_fail(err, state->db, code, bulk->sql->name);
    (void)sqlite3_reset(state->statement);
    return status;
}

tide_status tide_sqlite_bulk_end(tide_bulk *bulk, bool is_kept, tide_error *err)
{
    (void)is_kept; /* who gives rows up has doomed the transaction */
    (void)err;
    bulk_state *state = bulk->state;
    (void)sqlite3_clear_bindings(state->statement);
    if (state->is_spare)
        (void)sqlite3_finalize(state->statement);
    free(state);
    return TIDE_OK;
}
