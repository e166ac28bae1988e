/* pg_query.c - running a query on PostgreSQL. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/postgres/pg_engine.h"

static tide_pg_connection *connection_of(const tide_query *query)
{
    return query->tx->connection;
}

/* Its own round trip, once per connection: the parameter types must be known before values can be
 * sent. What is queued already (a BEGIN) travels along. Behind a proxy the statement has no name,
 * and is sent again with each use. */
static tide_status prepare_and_describe(tide_pg_connection *connection,
                                        tide_pg_statement *statement, const tide_query *query,
                                        tide_error *err)
{
    PGconn *pg = connection->pg;
    TIDE_TRY(tide_pg_sync(connection, err));
    if (tide_pq.sendPrepare(pg, statement->name, query->text->text, 0, NULL) != 1 ||
        tide_pq.sendDescribePrepared(pg, statement->name) != 1 || tide_pq.pipelineSync(pg) != 1)
        return tide_pg_fail_lost(err, connection);
    tide_status status = TIDE_OK;
    for (int answer = 0; answer < 2; answer++) {
        PGresult *result = tide_pg_next_result(connection);
        if (tide_pq.resultStatus(result) != PGRES_COMMAND_OK && status >= TIDE_OK)
            status = tide_pg_fail_response(err, connection, result, query->sql->name);
        for (int i = 0; answer == 1 && status >= TIDE_OK && i < tide_pq.nparams(result); i++)
            statement->params[i] = tide_pq.paramtype(result, i);
        tide_pq.clear(result);
        tide_pq.clear(tide_pg_next_result(connection));
    }
    tide_pq.clear(tide_pg_next_result(connection));
    if (tide_pg_connection_is_lost(connection))
        return tide_pg_fail_lost(err, connection);
    return status;
}

/* The statement of a query on this connection, which may be another one than the query's own. */
static tide_status prepare_on(tide_pg_statement **out, tide_pg_connection *connection,
                              const tide_query *query, tide_error *err)
{
    *out = tide_statement_map_find(&connection->statements, query->sql);
    if (*out)
        return TIDE_OK;
    TIDE_NEW(tide_pg_statement, statement, err);
    if (!connection->is_pooled)
        (void)snprintf(statement->name, sizeof statement->name, "t%d",
                       connection->statement_count++);
    tide_status status = prepare_and_describe(connection, statement, query, err);
    if (status >= TIDE_OK &&
        !tide_statement_map_put(&connection->statements, query->sql, statement))
        status = tide_no_memory(err);
    if (status < TIDE_OK) {
        free(statement);
        return status;
    }
    *out = statement;
    return TIDE_OK;
}

tide_status tide_pg_prepare(tide_query *query, tide_error *err)
{
    tide_pg_statement *statement = NULL;
    TIDE_TRY(prepare_on(&statement, connection_of(query), query, err));
    query->statement = statement;
    return TIDE_OK;
}

tide_status tide_pg_prepare_all(tide_pg_connection *connection, const tide_tx *tx, tide_error *err)
{
    tide_pg_statement *ignored = NULL;
    for (int i = 0; i < tx->take_count; i++)
        TIDE_TRY(prepare_on(&ignored, connection, tx->takes[i].query, err));
    for (const tide_query *query = tx->deferred_first; query; query = query->next)
        TIDE_TRY(prepare_on(&ignored, connection, query, err));
    return TIDE_OK;
}

static tide_status run(tide_query *query, tide_error *err)
{
    tide_pg_connection *connection = connection_of(query);
    TIDE_TRY(tide_pg_begin(connection, true, err));
    TIDE_TRY(tide_pg_send_query(connection, query, (tide_pg_expectation){.query = query}, err));
    TIDE_TRY(tide_pg_sync(connection, err));
    query->row = -1;
    const bool is_select = strncmp(tide_pq.cmdStatus(query->result), "SELECT", 6) == 0;
    query->changed = is_select ? 0 : strtoll(tide_pq.cmdTuples(query->result), NULL, 10);
    return TIDE_OK;
}

tide_status tide_pg_step(tide_query *query, tide_error *err)
{
    if (!query->is_started)
        TIDE_TRY(run(query, err));
    query->row++;
    return query->row < tide_pq.ntuples(query->result) ? TIDE_OK : TIDE_NONE;
}

tide_status tide_pg_keep(tide_query *query, tide_error *err)
{
    return tide_pq.ntuples(query->result) == 1 ? TIDE_OK : tide_query_several(query, err);
}

void tide_pg_reset(tide_query *query)
{
    tide_pq.clear(query->result);
    query->result = NULL;
}

int tide_pg_width(const tide_query *query)
{
    return tide_pq.nfields(query->result);
}

tide_sql_value tide_pg_column(const tide_query *query, int index)
{
    const PGresult *result = query->result;
    if (tide_pq.getisnull(result, query->row, index))
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
    return tide_pg_decode(tide_pq.getvalue(result, query->row, index),
                          tide_pq.getlength(result, query->row, index),
                          tide_pq.ftype(result, index));
}
