/* sqlite_bulk.c - many rows on SQLite: one statement, bound without copies. See bulk.h. */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/text/timefmt.h"
#include "store/bulk.h"
#include "store/sqlite/sqlite_connection.h"

typedef struct bulk_state {
    sqlite3 *db;
    tide_sqlite_statement *statement;
    struct {
        int64_t us;
        char text
            /* of the column's last time: rows beside each other often share it */
            [TIDE_TIME_TEXT_SIZE];
    } times[TIDE_QUERY_PARAM_MAX];
} bulk_state;

tide_status tide_sqlite_bulk_begin(tide_bulk *bulk, tide_error *err)
{
    TIDE_NEW(bulk_state, state, err);
    tide_sqlite_connection *connection = bulk->tx->connection;
    state->db = connection->db;
    const int code =
        tide_sqlite_statements_lend(&state->statement, &connection->statements, state->db,
                                    bulk->sql->engine[TIDE_ENGINE_SQLITE].text);
    if (code != SQLITE_OK) {
        free(state);
        return tide_sqlite_fail(err, connection->db, code, bulk->sql->name);
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
    return sqlite3_bind_text(state->statement->handle, column + 1, text, TIDE_TIME_TEXT_SIZE - 1,
                             SQLITE_STATIC);
}

tide_status tide_sqlite_bulk_row(tide_bulk *bulk, const tide_sql_value *values, tide_error *err)
{
    bulk_state *state = bulk->state;
    for (int i = 0; i < bulk->width; i++) {
        const int code = values[i].kind == TIDE_SQL_VALUE_TIME
                             ? bind_time(state, i, values[i].i64)
                             : tide_sqlite_bind(state->statement->handle, i + 1, &values[i], true);
        if (code != SQLITE_OK)
            return tide_sqlite_fail(err, NULL, code, bulk->sql->name);
    }
    const int code = sqlite3_step(state->statement->handle);
    const tide_status status =
        code == SQLITE_DONE ? TIDE_OK : tide_sqlite_fail(err, state->db, code, bulk->sql->name);
    (void)sqlite3_reset(state->statement->handle);
    return status;
}

tide_status tide_sqlite_bulk_end(tide_bulk *bulk, bool is_kept, tide_error *err)
{
    (void)is_kept; /* who gives rows up has doomed the transaction */
    (void)err;
    bulk_state *state = bulk->state;
    tide_sqlite_statement_return(state->statement);
    free(state);
    return TIDE_OK;
}
