#include "store/postgres/pg_connection.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cond_wait.h"
#include "tidemark_sql.h"

/* ---- life ---- */

static void note_warning(void *arg, const PGresult *result)
{
    tide_pg_connection *connection = arg;
    const char *severity = tide_pq.resultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity && strcmp(severity, "WARNING") == 0)
        connection->has_warned = true;
    if (severity && strcmp(severity, "FATAL") == 0)
        connection->is_ended = true;
}

/* Sessions ended by an administrator or a time limit say so behind the answers already given: if COMMIT was not
 * among those, it did not happen. (A crash shutdown, 57P02, keeps no such order.) */
static bool is_orderly_end(const PGresult *result)
{
    static const char *const states[] = {"57P01", "57P05", "25P03"};
    const char *sqlstate = tide_pq.resultErrorField(result, PG_DIAG_SQLSTATE);
    for (size_t i = 0; sqlstate && i < sizeof states / sizeof states[0]; i++)
        if (strcmp(sqlstate, states[i]) == 0)
            return true;
    return false;
}

/* libpq gives no SQLSTATE for a connection that failed. A server that answers FATAL is there and refuses us; only
 * some of its reasons pass by themselves. */
static tide_status status_of_refusal(const PGconn *pg, const char *words)
{
    static const char *const passing[] = {"starting up", "shutting down", "recovery", "too many",
                                          "remaining connection slots"};
    if (tide_pq.connectionNeedsPassword(pg))
        return TIDE_E_UNAUTHENTICATED;
    if (!strstr(words, "FATAL"))
        return TIDE_E_UNAVAILABLE;
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++)
        if (strstr(words, passing[i]))
            return TIDE_E_UNAVAILABLE;
    if (strstr(words, "FATAL:  database \"") && strstr(words, "does not exist"))
        return TIDE_E_NOT_FOUND;
    return TIDE_E_UNAUTHENTICATED;
}

static tide_status fail_connect(tide_error *err, const tide_pg_connection *connection)
{
    const char *words = tide_pq.errorMessage(connection->pg);
    const tide_status status = status_of_refusal(connection->pg, words);
    char line[400];
    (void)snprintf(line, sizeof line, "%s", words);
    line[strcspn(line, "\n")] = '\0';
    return tide_fail(err, status, "cannot connect to %s: %s", connection->store->name, line);
}

static const char *text_of(tide_pg_command command)
{
    switch (command) {
    case TIDE_PG_BEGIN_WRITE:
        return "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
    case TIDE_PG_BEGIN_READ:
        return "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    case TIDE_PG_COMMIT:
        return "COMMIT";
    case TIDE_PG_ROLLBACK:
        return "ROLLBACK";
    case TIDE_PG_START:
        return TIDE_SQL_TRANSACTION_START->engine[TIDE_ENGINE_POSTGRES].text;
    case TIDE_PG_NOW:
        return TIDE_SQL_TRANSACTION_NOW->engine[TIDE_ENGINE_POSTGRES].text;
    case TIDE_PG_FLUSH:
        return TIDE_SQL_FLUSH->engine[TIDE_ENGINE_POSTGRES].text;
    case TIDE_PG_FLUSH_PROBE:
        return TIDE_SQL_FLUSH_PROBE->engine[TIDE_ENGINE_POSTGRES].text;
    case TIDE_PG_SYNCHRONOUS:
        return "SET LOCAL synchronous_commit=on";
    case TIDE_PG_LISTEN:
        return "LISTEN tidemark";
    case TIDE_PG_NOTIFY:
        return TIDE_SQL_NOTIFY->engine[TIDE_ENGINE_POSTGRES].text;
    case TIDE_PG_COMMAND_COUNT:
        break;
    }
    return NULL;
}

static void name_command(char out[16], tide_pg_command command)
{
    (void)snprintf(out, 16, "c%d", (int)command);
}

/* All in one round trip. */
static tide_status prepare_commands(tide_pg_connection *connection, tide_error *err)
{
    char name[16];
    bool is_sent = true;
    for (int i = 0; i < TIDE_PG_COMMAND_COUNT && is_sent; i++) {
        name_command(name, (tide_pg_command)i);
        is_sent =
            tide_pq.sendPrepare(connection->pg, name, text_of((tide_pg_command)i), 0, NULL) == 1;
    }
    if (!is_sent || tide_pq.pipelineSync(connection->pg) != 1)
        return fail_connect(err, connection);
    tide_status status = TIDE_OK;
    for (int i = 0; i < TIDE_PG_COMMAND_COUNT; i++) {
        PGresult *result = tide_pq.getResult(connection->pg);
        if (tide_pq.resultStatus(result) != PGRES_COMMAND_OK && status >= TIDE_OK)
            status = fail_connect(err, connection);
        tide_pq.clear(result);
        tide_pq.clear(tide_pq.getResult(connection->pg));
    }
    tide_pq.clear(tide_pq.getResult(connection->pg));
    return status;
}

static tide_status set_session(tide_pg_connection *connection, bool is_flusher, tide_error *err)
{
    const tide_store_options *options = &connection->store->options;
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "SET client_encoding='UTF8'; SET client_min_messages=warning; SET lock_timeout=%" PRId64
        "; SET statement_timeout=%" PRId64 "; SET idle_in_transaction_session_timeout=%" PRId64 ";"
        "SET synchronous_commit=%s;"
        /* A claim stops at its limit; the planner, which does not know it, sees millions of rows and compiles. */
        "SET jit=off;",
        options->wait_us / 1000, options->closure_us / 1000, options->closure_us / 1000 + 1000,
        is_flusher ? "on" : "off");
    PGresult *result = tide_pq.exec(connection->pg, text);
    const bool is_set = tide_pq.resultStatus(result) == PGRES_COMMAND_OK;
    tide_pq.clear(result);
    if (!is_set)
        return fail_connect(err, connection);
    if (tide_pq.enterPipelineMode(connection->pg) != 1)
        return tide_fail(err, TIDE_E_FAILED, "cannot enter pipeline mode");
    return prepare_commands(connection, err);
}

tide_status tide_pg_connection_open(tide_pg_connection **out, tide_store *store, const char *url,
                                    bool is_flusher, tide_error *err)
{
    tide_pg_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return tide_no_memory(err);
    connection->store = store;
    /* What the URL says comes later and wins. */
    const char *const keys[] = {"connect_timeout", "tcp_user_timeout",          "keepalives_idle",
                                "dbname",          "fallback_application_name", NULL};
    const char *const values[] = {"10", "30000", "30", url, "tidemark", NULL};
    connection->pg = tide_pq.connectdbParams(keys, values, 1);
    tide_status status = TIDE_OK;
    if (!connection->pg)
        status = tide_no_memory(err);
    else if (tide_pq.status(connection->pg) != CONNECTION_OK)
        status = fail_connect(err, connection);
    else {
        (void)tide_pq.setNoticeReceiver(connection->pg, note_warning, connection);
        status = set_session(connection, is_flusher, err);
    }
    if (status < TIDE_OK) {
        tide_pg_connection_close(connection);
        return status;
    }
    *out = connection;
    return TIDE_OK;
}

void tide_pg_connection_close(tide_pg_connection *connection)
{
    if (!connection)
        return;
    tide_statement_map_done(&connection->statements, free);
    tide_query_pool_done(&connection->pool);
    tide_pq.finish(connection->pg);
    free(connection->expected);
    free(connection);
}

bool tide_pg_connection_is_alive(tide_pg_connection *connection)
{
    if (tide_pg_connection_is_lost(connection) || tide_pq.consumeInput(connection->pg) != 1)
        return false;
    (void)tide_pq.isBusy(connection->pg); /* parses what has come: a farewell is a notice */
    return !tide_pg_connection_is_lost(connection);
}

/* ---- sending ---- */

bool tide_pg_connection_is_lost(const tide_pg_connection *connection)
{
    return connection->is_lost || connection->is_ended ||
           tide_pq.status(connection->pg) != CONNECTION_OK;
}

tide_status tide_pg_fail_lost(tide_error *err, tide_pg_connection *connection)
{
    connection->is_lost = true;
    char line[256];
    (void)snprintf(line, sizeof line, "%s", tide_pq.errorMessage(connection->pg));
    line[strcspn(line, "\n")] = '\0';
    return tide_fail(err, TIDE_E_UNAVAILABLE, "the connection to %s was lost: %s",
                     connection->store->name, line);
}

static tide_status expect(tide_pg_connection *connection, tide_pg_expectation expectation,
                          tide_error *err)
{
    if (connection->expected_count == connection->expected_size) {
        const int size = connection->expected_size ? connection->expected_size * 2 : 32;
        tide_pg_expectation *larger =
            realloc(connection->expected, (size_t)size * sizeof *connection->expected);
        if (!larger)
            return tide_no_memory(err);
        connection->expected = larger;
        connection->expected_size = size;
    }
    connection->expected[connection->expected_count++] = expectation;
    return TIDE_OK;
}

tide_status tide_pg_send(tide_pg_connection *connection, tide_pg_command command,
                         tide_pg_expectation expectation, tide_error *err)
{
    char name[16];
    name_command(name, command);
    TIDE_TRY(expect(connection, expectation, err));
    if (tide_pq.sendQueryPrepared(connection->pg, name, 0, NULL, NULL, NULL, 1) == 1)
        return TIDE_OK;
    connection->expected_count--;
    return tide_pg_fail_lost(err, connection);
}

tide_status tide_pg_send_text(tide_pg_connection *connection, tide_pg_command command,
                              const char *value, tide_error *err)
{
    char name[16];
    name_command(name, command);
    TIDE_TRY(expect(connection, (tide_pg_expectation){0}, err));
    if (tide_pq.sendQueryPrepared(connection->pg, name, 1, &value, NULL, NULL, 1) == 1)
        return TIDE_OK;
    connection->expected_count--;
    return tide_pg_fail_lost(err, connection);
}

tide_status tide_pg_send_query(tide_pg_connection *connection, tide_query *query,
                               tide_pg_expectation expectation, tide_error *err)
{
    const tide_pg_statement *statement = query->statement;
    const char *values[TIDE_QUERY_PARAM_MAX];
    int lens[TIDE_QUERY_PARAM_MAX];
    int formats[TIDE_QUERY_PARAM_MAX];
    const int count = query->text->param_count;
    for (int i = 0; i < count; i++) {
        tide_pg_param param;
        const tide_status status =
            tide_pg_encode(&param, &query->values[i], statement->params[i], &query->arena, err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "%s: :%s", query->sql->name,
                                     query->text->params[i]);
        values[i] = param.bytes;
        lens[i] = param.len;
        formats[i] = 1;
    }
    TIDE_TRY(expect(connection, expectation, err));
    if (tide_pq.sendQueryPrepared(connection->pg, statement->name, count, values, lens, formats,
                                  1) == 1)
        return TIDE_OK;
    connection->expected_count--;
    return tide_pg_fail_lost(err, connection);
}

/* ---- answers ---- */

tide_status tide_pg_fail_result(tide_error *err, const PGresult *result, const char *what)
{
    const char *sqlstate = tide_pq.resultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = tide_pq.resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = tide_pq.resultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
    return tide_fail(err, tide_pg_status_of(sqlstate), "%s: %s%s%s (%s)", what,
                     words ? words : "no answer", detail ? ": " : "", detail ? detail : "",
                     sqlstate ? sqlstate : "connection lost");
}

static void take_now(tide_pg_connection *connection, const PGresult *result)
{
    tide_tx *tx = &connection->tx;
    const tide_value now = tide_pg_decode(
        tide_pq.getvalue(result, 0, 0), tide_pq.getlength(result, 0, 0), tide_pq.ftype(result, 0));
    if (!connection->store->options.is_env_clock) {
        tx->now_us = now.as.i64;
        tx->is_now_known = true;
    }
    if (tide_pq.nfields(result) > 1)
        (void)snprintf(connection->xid, sizeof connection->xid, "%.*s",
                       tide_pq.getlength(result, 0, 1), tide_pq.getvalue(result, 0, 1));
}

/* Takes over the result. */
static void accept_result(tide_pg_connection *connection, const tide_pg_expectation *expectation,
                          PGresult *result)
{
    if (expectation->is_commit)
        connection->is_committed = true;
    if (expectation->is_now)
        take_now(connection, result);
    if (expectation->value && tide_pq.ntuples(result) == 1)
        *expectation->value =
            tide_pg_decode(tide_pq.getvalue(result, 0, 0), tide_pq.getlength(result, 0, 0),
                           tide_pq.ftype(result, 0))
                .as.i64;
    if (expectation->query)
        expectation->query->result = result;
    else
        tide_pq.clear(result);
}

/* COMMIT of a failed transaction answers ROLLBACK without an error. */
static bool is_accepted(const tide_pg_expectation *expectation, PGresult *result)
{
    const ExecStatusType status = tide_pq.resultStatus(result);
    if (expectation->is_commit)
        return status == PGRES_COMMAND_OK && strcmp(tide_pq.cmdStatus(result), "COMMIT") == 0;
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static const char *name_expectation(const tide_pg_expectation *expectation)
{
    if (expectation->query)
        return expectation->query->sql->name;
    return expectation->is_commit ? "commit" : "transaction";
}

/* PQgetResult, but not for ever: a commit that waits for a standby which is away has no time limit of its own. */
static PGresult *next_result(tide_pg_connection *connection)
{
    while (connection->answer_by_us > 0 && tide_pq.isBusy(connection->pg)) {
        const int64_t left_us = connection->answer_by_us - tide_cond_until(0);
        struct pollfd ready = {.fd = tide_pq.socket(connection->pg), .events = POLLIN};
        if (left_us <= 0 || poll(&ready, 1, (int)(left_us / 1000) + 1) < 0 ||
            tide_pq.consumeInput(connection->pg) != 1) {
            connection->is_lost = true;
            return NULL;
        }
    }
    return tide_pq.getResult(connection->pg);
}

static tide_status read_answer(tide_pg_connection *connection,
                               const tide_pg_expectation *expectation, tide_status first,
                               tide_error *err)
{
    PGresult *result = next_result(connection);
    if (!result)
        return first < TIDE_OK ? first : tide_pg_fail_lost(err, connection);
    tide_status status = first;
    if (tide_pq.resultStatus(result) == PGRES_PIPELINE_ABORTED ||
        !is_accepted(expectation, result)) {
        if (first >= TIDE_OK) {
            status = tide_pg_fail_result(err, result, name_expectation(expectation));
            connection->is_ended = is_orderly_end(result);
        }
        tide_pq.clear(result);
    } else {
        if (expectation->value && tide_pq.ntuples(result) != 1 && first >= TIDE_OK)
            status = tide_fail(err, TIDE_E_DAMAGED,
                               "a counter gave no number: is there a foreign trigger?");
        accept_result(connection, expectation, result);
    }
    for (PGresult *rest = next_result(connection); rest; rest = next_result(connection))
        tide_pq.clear(rest);
    return status;
}

static bool is_cut(const tide_pg_connection *connection)
{
    return connection->is_lost || tide_pq.status(connection->pg) != CONNECTION_OK;
}

tide_status tide_pg_sync(tide_pg_connection *connection, tide_error *err)
{
    const int count = connection->expected_count;
    connection->expected_count = 0;
    if (tide_pq.pipelineSync(connection->pg) != 1)
        return tide_pg_fail_lost(err, connection);
    tide_status status = TIDE_OK;
    for (int i = 0; i < count && !is_cut(connection); i++)
        status = read_answer(connection, &connection->expected[i], status, err);
    if (!is_cut(connection)) {
        PGresult *end = next_result(connection);
        const bool is_sync = tide_pq.resultStatus(end) == PGRES_PIPELINE_SYNC;
        tide_pq.clear(end);
        if (!is_sync && status >= TIDE_OK)
            status = tide_pg_fail_lost(err, connection);
    }
    if (is_cut(connection))
        return tide_pg_fail_lost(err, connection);
    return status;
}

tide_status tide_pg_begin(tide_pg_connection *connection, bool with_now, tide_error *err)
{
    if (connection->is_begun)
        return TIDE_OK;
    const bool is_write = connection->tx.is_write;
    TIDE_TRY(tide_pg_send(connection, is_write ? TIDE_PG_BEGIN_WRITE : TIDE_PG_BEGIN_READ,
                          (tide_pg_expectation){0}, err));
    connection->is_begun = true;
    if (!with_now)
        return TIDE_OK;
    /* The id makes the outcome of a commit whose answer was lost a question that can be asked. */
    return tide_pg_send(connection, is_write ? TIDE_PG_START : TIDE_PG_NOW,
                        (tide_pg_expectation){.is_now = true}, err);
}

tide_status tide_pg_read_host(tide_host *out, tide_pg_connection *connection, tide_error *err)
{
    PGconn *pg = connection->pg;
    if (tide_pq.sendQueryParams(pg, TIDE_SQL_IDENTITY_HOST->engine[TIDE_ENGINE_POSTGRES].text, 0,
                                NULL, NULL, NULL, NULL, 0) != 1 ||
        tide_pq.pipelineSync(pg) != 1)
        return tide_pg_fail_lost(err, connection);
    PGresult *result = tide_pq.getResult(pg);
    tide_status status = TIDE_OK;
    if (tide_pq.resultStatus(result) == PGRES_TUPLES_OK && tide_pq.ntuples(result) == 1) {
        (void)snprintf(out->text, sizeof out->text, "%s", tide_pq.getvalue(result, 0, 0));
        out->is_standby = tide_pq.getvalue(result, 0, 1)[0] == 't';
        (void)snprintf(connection->server, sizeof connection->server, "%s",
                       tide_pq.getvalue(result, 0, 2));
    } else {
        status = tide_pg_fail_result(err, result, "cannot identify the server");
    }
    tide_pq.clear(result);
    tide_pq.clear(tide_pq.getResult(pg));
    tide_pq.clear(tide_pq.getResult(pg));
    return status;
}
