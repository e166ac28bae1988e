#include "store/postgres/pg_connection.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cond_wait.h"
#include "base/list.h"
#include "base/thread.h"
#include "tidemark_sql.h"

enum { CANCEL_US_MAX = 1000000 };

int64_t tide_pg_cancel_us(const tide_store *store)
{
    const int64_t part_us = store->options.timeout_us / 4;
    return part_us < CANCEL_US_MAX ? part_us : CANCEL_US_MAX;
}

/* ---- commands ---- */

const tide_sql_text *tide_pg_command_text(tide_pg_command command)
{
    const tide_sql *sql = NULL;
    switch (command) {
    case TIDE_PG_GUARDED:
        sql = TIDE_SQL_TRANSACTION_GUARDED;
        break;
    case TIDE_PG_GUARDED_REDUCED:
        sql = TIDE_SQL_TRANSACTION_GUARDED_REDUCED;
        break;
    case TIDE_PG_SETTINGS:
        sql = TIDE_SQL_TRANSACTION_SETTINGS;
        break;
    case TIDE_PG_NOW:
        sql = TIDE_SQL_TRANSACTION_NOW;
        break;
    case TIDE_PG_FLUSH:
        sql = TIDE_SQL_FLUSH;
        break;
    case TIDE_PG_FLUSH_INSIDE:
        sql = TIDE_SQL_FLUSH_INSIDE;
        break;
    case TIDE_PG_FLUSH_PROBE:
        sql = TIDE_SQL_FLUSH_PROBE;
        break;
    case TIDE_PG_WAL_END:
        sql = TIDE_SQL_WAL_END;
        break;
    case TIDE_PG_NOTIFY:
        sql = TIDE_SQL_NOTIFY;
        break;
    case TIDE_PG_STANDBY_WAIT:
        sql = TIDE_SQL_STANDBY_WAIT;
        break;
    case TIDE_PG_BEGIN_WRITE:
    case TIDE_PG_BEGIN_READ:
    case TIDE_PG_COMMIT:
    case TIDE_PG_ROLLBACK:
    case TIDE_PG_LISTEN:
    case TIDE_PG_COMMAND_COUNT:
        break;
    }
    return sql ? &sql->engine[TIDE_ENGINE_POSTGRES] : NULL;
}

static const char *text_of(tide_pg_command command)
{
    static const char *const texts[TIDE_PG_COMMAND_COUNT] = {
        [TIDE_PG_BEGIN_WRITE] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        [TIDE_PG_BEGIN_READ] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        [TIDE_PG_COMMIT] = "COMMIT",
        [TIDE_PG_ROLLBACK] = "ROLLBACK",
        [TIDE_PG_LISTEN] = "LISTEN tidemark",
    };
    assert(command < TIDE_PG_COMMAND_COUNT);
    const tide_sql_text *text = tide_pg_command_text(command);
    return text ? text->text : texts[command];
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
    if (connection->has_timed_out)
        return tide_fail(err, TIDE_E_TIMEOUT, "no response from %s in time%s",
                         connection->store->name,
                         connection->has_standby_wait ? ": waiting for synchronous standby" : "");
    char line[256];
    (void)snprintf(line, sizeof line, "%s", tide_pq.errorMessage(connection->pg));
    line[strcspn(line, "\n")] = '\0';
    return tide_fail(err, TIDE_E_UNAVAILABLE, "connection to %s lost: %s", connection->store->name,
                     line);
}

static tide_status expect(tide_pg_connection *connection, tide_pg_expectation expectation,
                          tide_error *err)
{
    TIDE_TRY(tide_list_room(&connection->expected, connection->expected_count,
                            sizeof *connection->expected, TIDE_LIST_MAX, err));
    connection->expected[connection->expected_count++] = expectation;
    return TIDE_OK;
}

/* Named on first use, in the pipeline that uses it. */
static tide_status prepare_command(tide_pg_connection *connection, tide_pg_command command,
                                   const char *name, tide_error *err)
{
    if (connection->is_prepared[command])
        return TIDE_OK;
    TIDE_TRY(expect(connection, (tide_pg_expectation){.prepares = 1 + (int)command}, err));
    if (tide_pq.sendPrepare(connection->pg, name, text_of(command), 0, NULL) != 1) {
        connection->expected_count--;
        return tide_pg_fail_lost(err, connection);
    }
    connection->is_prepared[command] = true;
    return TIDE_OK;
}

tide_status tide_pg_send_texts(tide_pg_connection *connection, tide_pg_command command,
                               const char *const *values, int count,
                               tide_pg_expectation expectation, tide_error *err)
{
    char name[16];
    (void)snprintf(name, sizeof name, "c%d", (int)command);
    if (!connection->is_pooled)
        TIDE_TRY(prepare_command(connection, command, name, err));
    TIDE_TRY(expect(connection, expectation, err));
    const int is_sent =
        connection->is_pooled
            ? tide_pq.sendQueryParams(connection->pg, text_of(command), count, NULL, values, NULL,
                                      NULL, 1)
            : tide_pq.sendQueryPrepared(connection->pg, name, count, values, NULL, NULL, 1);
    if (is_sent == 1)
        return TIDE_OK;
    connection->expected_count--;
    return tide_pg_fail_lost(err, connection);
}

tide_status tide_pg_send(tide_pg_connection *connection, tide_pg_command command,
                         tide_pg_expectation expectation, tide_error *err)
{
    return tide_pg_send_texts(connection, command, NULL, 0, expectation, err);
}

tide_status tide_pg_send_query(tide_pg_connection *connection, tide_query *query,
                               tide_pg_expectation expectation, tide_error *err)
{
    const tide_pg_statement *statement =
        query->tx->connection == connection
            ? query->statement
            : tide_statement_map_find(&connection->statements, query->sql);
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
    const int is_sent = statement->name[0]
                            ? tide_pq.sendQueryPrepared(connection->pg, statement->name, count,
                                                        values, lens, formats, 1)
                            : tide_pq.sendQueryParams(connection->pg, query->text->text, count,
                                                      statement->params, values, lens, formats, 1);
    if (is_sent == 1)
        return TIDE_OK;
    connection->expected_count--;
    return tide_pg_fail_lost(err, connection);
}

/* ---- results ---- */

tide_status tide_pg_fail_result(tide_error *err, const PGresult *result, const char *what)
{
    const char *sqlstate = tide_pq.resultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = tide_pq.resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = tide_pq.resultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
    return tide_fail(err, tide_pg_status_of(sqlstate), "%s: %s%s%s (%s)", what,
                     words ? words : "no response", detail ? ": " : "", detail ? detail : "",
                     sqlstate ? sqlstate : "connection lost");
}

/* Named statements belong to a session. One that is missing, or exists before it was prepared,
 * shows that the session is another one. */
static bool is_other_session(const PGresult *result)
{
    const char *sqlstate = tide_pq.resultErrorField(result, PG_DIAG_SQLSTATE);
    return sqlstate && (strcmp(sqlstate, "42P05") == 0 || strcmp(sqlstate, "26000") == 0);
}

tide_status tide_pg_fail_pooler(tide_error *err, const tide_store *store)
{
    return tide_fail_advised(err, TIDE_E_INVALID,
                             "cannot use %s as a direct connection: a pooler in transaction mode "
                             "shares its sessions; leave --pg-pooler out, or pass --pg-pooler "
                             "transaction",
                             store->name);
}

tide_status tide_pg_fail_response(tide_error *err, const tide_pg_connection *connection,
                                  const PGresult *result, const char *what)
{
    if (connection->is_pooled || !is_other_session(result))
        return tide_pg_fail_result(err, result, what);
    return tide_pg_fail_pooler(err, connection->store);
}

static tide_sql_value value_at(const PGresult *result, int column)
{
    return tide_pg_decode(tide_pq.getvalue(result, 0, column), tide_pq.getlength(result, 0, column),
                          tide_pq.ftype(result, column));
}

static void read_now(tide_pg_connection *connection, const PGresult *result)
{
    tide_tx *tx = &connection->tx;
    if (!connection->store->options.is_env_clock) {
        tx->now_us = value_at(result, 0).i64;
        tx->is_now_known = true;
    }
}

/* A pg_lsn: eight bytes, the highest first. */
static uint64_t read_wal(const PGresult *result, int column)
{
    const unsigned char *bytes = (const unsigned char *)tide_pq.getvalue(result, 0, column);
    uint64_t wal = 0;
    for (int i = 0; i < tide_pq.getlength(result, 0, column); i++)
        wal = wal << 8 | bytes[i];
    return wal;
}

/* The columns of transaction_guarded. */
static void read_guard(tide_pg_connection *connection, const PGresult *result)
{
    read_now(connection, result);
    (void)snprintf(connection->xid, sizeof connection->xid, "%.*s", tide_pq.getlength(result, 0, 1),
                   tide_pq.getvalue(result, 0, 1));
    connection->is_on_standby = value_at(result, 2).i64 != 0;
    connection->begin_wal = read_wal(result, 3);
}

/* Owns the result. */
static void accept_result(tide_pg_connection *connection, const tide_pg_expectation *expectation,
                          PGresult *result)
{
    if (expectation->is_commit)
        connection->is_committed = true;
    if (expectation->is_flush)
        connection->is_flushed = true;
    if (expectation->is_flush || expectation->is_wal_end)
        connection->flush_wal = read_wal(result, 0);
    if (expectation->is_guard)
        read_guard(connection, result);
    if (expectation->is_now)
        read_now(connection, result);
    if (expectation->value && tide_pq.ntuples(result) == 1)
        *expectation->value = value_at(result, 0).i64;
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

/* ---- waiting ---- */

/* A cancellation under way. PQcancel waits for the server, which may hang, so it has a thread of
 * its own. The caller or the thread frees this, whichever ends last. */
typedef struct cancel_job {
    PGcancel *cancel;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done; /* by the thread */
    bool is_left; /* by the caller */
} cancel_job;

static void cancel_job_free(cancel_job *job)
{
    tide_pq.freeCancel(job->cancel);
    (void)pthread_cond_destroy(&job->changed);
    (void)pthread_mutex_destroy(&job->lock);
    free(job);
}

static void *run_cancel(void *arg)
{
    cancel_job *job = arg;
    char ignored[256];
    (void)tide_pq.cancel(job->cancel, ignored, sizeof ignored);
    (void)pthread_mutex_lock(&job->lock);
    job->is_done = true;
    const bool is_last = job->is_left;
    (void)pthread_cond_signal(&job->changed);
    (void)pthread_mutex_unlock(&job->lock);
    if (is_last)
        cancel_job_free(job);
    return NULL;
}

/* Returns when the server has received the request, or at until_us. It must not be cut short
 * without need: PgBouncer 1.18 ends when a client leaves while its request is passed on. */
static void cancel_until(PGconn *pg, int64_t until_us)
{
    pthread_t thread;
    cancel_job *job = calloc(1, sizeof *job);
    if (!job)
        return;
    (void)pthread_mutex_init(&job->lock, NULL);
    (void)pthread_cond_init(&job->changed, NULL);
    job->cancel = tide_pq.getCancel(pg);
    if (!job->cancel || tide_thread_start(&thread, run_cancel, job, NULL) < TIDE_OK) {
        cancel_job_free(job);
        return;
    }
    (void)pthread_detach(thread);
    bool is_patient = true;
    (void)pthread_mutex_lock(&job->lock);
    while (!job->is_done && is_patient)
        is_patient = tide_cond_wait(&job->changed, &job->lock, until_us);
    job->is_left = true;
    const bool is_last = job->is_done;
    (void)pthread_mutex_unlock(&job->lock);
    if (is_last)
        cancel_job_free(job);
}

/* Returns when an answer can be read, the connection broke (false), or time is up (false). */
static bool wait_readable(tide_pg_connection *connection, int64_t until_us)
{
    while (tide_pq.isBusy(connection->pg)) {
        const int64_t left_us = until_us - tide_cond_until(0);
        const int unsent = tide_pq.flush(connection->pg);
        struct pollfd ready = {.fd = tide_pq.socket(connection->pg),
                               .events = (short)(unsent > 0 ? POLLIN | POLLOUT : POLLIN)};
        if (unsent < 0 || left_us <= 0 ||
            (poll(&ready, 1, (int)(left_us / 1000) + 1) < 0 && errno != EINTR) ||
            tide_pq.consumeInput(connection->pg) != 1)
            return false;
    }
    return true;
}

/* A backend that waits for a standby does not notice a closed connection. It is cancelled, and its
 * answer to that gives the reason. */
static void abandon(tide_pg_connection *connection)
{
    const int64_t until_us = connection->answer_by_us + tide_pg_cancel_us(connection->store);
    cancel_until(connection->pg, until_us);
    /* In a pipeline one NULL ends each response, outside of it the only one. */
    bool is_end = false;
    for (int nulls = 0; !is_end && nulls < 2 && wait_readable(connection, until_us) &&
                        tide_pq.status(connection->pg) == CONNECTION_OK;) {
        PGresult *result = tide_pq.getResult(connection->pg);
        is_end = tide_pq.resultStatus(result) == PGRES_PIPELINE_SYNC;
        nulls = result ? 0 : nulls + 1;
        tide_pq.clear(result);
    }
}

PGresult *tide_pg_next_result(tide_pg_connection *connection)
{
    if (connection->answer_by_us > 0 && !wait_readable(connection, connection->answer_by_us)) {
        if (tide_cond_until(0) >= connection->answer_by_us) {
            connection->has_timed_out = true;
            if (!connection->is_discardable)
                abandon(connection);
        }
        connection->is_lost = true;
        return NULL;
    }
    return tide_pq.getResult(connection->pg);
}

static PGresult *read_last_result(tide_pg_connection *connection)
{
    PGresult *last = NULL;
    for (PGresult *result = tide_pg_next_result(connection); result;
         result = tide_pg_next_result(connection)) {
        tide_pq.clear(last);
        last = result;
        if (tide_pq.resultStatus(result) == PGRES_COPY_IN)
            return result;
    }
    if (!connection->is_lost)
        return last;
    tide_pq.clear(last);
    return NULL;
}

PGresult *tide_pg_exec(tide_pg_connection *connection, const char *text)
{
    return tide_pq.sendQuery(connection->pg, text) == 1 ? read_last_result(connection) : NULL;
}

PGresult *tide_pg_exec_params(tide_pg_connection *connection, const char *text, int count,
                              const char *const *values)
{
    const int is_sent =
        tide_pq.sendQueryParams(connection->pg, text, count, NULL, values, NULL, NULL, 0);
    return is_sent == 1 ? read_last_result(connection) : NULL;
}

/* ---- answers ---- */

/* The end of a session by an administrator or a time limit is reported behind the responses already
 * sent. If that of COMMIT is not among them, it did not happen. (A crash shutdown, 57P02, has no
 * such order.) */
static bool is_orderly_end(const PGresult *result)
{
    static const char *const states[] = {"57P01", "57P05", "25P03"};
    const char *sqlstate = tide_pq.resultErrorField(result, PG_DIAG_SQLSTATE);
    for (size_t i = 0; sqlstate && i < sizeof states / sizeof states[0]; i++)
        if (strcmp(sqlstate, states[i]) == 0)
            return true;
    return false;
}

/* A refusal by the guard: its cast failed, or its table does not exist. */
static bool is_guard_refusal(const tide_pg_expectation *expectation, const PGresult *result)
{
    const char *sqlstate = tide_pq.resultErrorField(result, PG_DIAG_SQLSTATE);
    const bool is_of_guard = expectation->is_guard ||
                             expectation->prepares == 1 + TIDE_PG_GUARDED ||
                             expectation->prepares == 1 + TIDE_PG_GUARDED_REDUCED;
    return is_of_guard && sqlstate &&
           (strcmp(sqlstate, "22P02") == 0 || strcmp(sqlstate, "42P01") == 0);
}

static tide_status fail_response(tide_pg_connection *connection,
                                 const tide_pg_expectation *expectation, const PGresult *result,
                                 tide_error *err)
{
    const char *sqlstate = tide_pq.resultErrorField(result, PG_DIAG_SQLSTATE);
    connection->is_ended = is_orderly_end(result);
    connection->is_stale = is_guard_refusal(expectation, result);
    if (expectation->is_begin && sqlstate && strcmp(sqlstate, "0A000") == 0) {
        connection->is_on_standby = true;
        return tide_fail(err, TIDE_E_UNAVAILABLE, "%s is a read-only standby",
                         connection->store->name);
    }
    return tide_pg_fail_response(err, connection, result, name_expectation(expectation));
}

static tide_status read_response(tide_pg_connection *connection, tide_pg_expectation *expectation,
                                 tide_status first, tide_error *err)
{
    PGresult *result = tide_pg_next_result(connection);
    if (!result)
        return first < TIDE_OK ? first : tide_pg_fail_lost(err, connection);
    tide_status status = first;
    if (tide_pq.resultStatus(result) == PGRES_PIPELINE_ABORTED ||
        !is_accepted(expectation, result)) {
        if (first >= TIDE_OK)
            status = fail_response(connection, expectation, result, err);
        if (expectation->prepares > 0)
            connection->is_prepared[expectation->prepares - 1] = false;
        tide_pq.clear(result);
    } else {
        if (expectation->value && tide_pq.ntuples(result) != 1 && first >= TIDE_OK)
            status = tide_fail(err, TIDE_E_DAMAGED,
                               "a counter gave no number: is there a foreign trigger?");
        accept_result(connection, expectation, result);
        expectation->is_answered = true;
    }
    for (PGresult *rest = tide_pg_next_result(connection); rest;
         rest = tide_pg_next_result(connection))
        tide_pq.clear(rest);
    return status;
}

static bool is_cut(const tide_pg_connection *connection)
{
    return connection->is_lost || tide_pq.status(connection->pg) != CONNECTION_OK;
}

tide_status tide_pg_send_sync(tide_pg_connection *connection, tide_error *err)
{
    TIDE_TRY(expect(connection, (tide_pg_expectation){.is_sync = true}, err));
    if (tide_pq.pipelineSync(connection->pg) == 1)
        return TIDE_OK;
    connection->expected_count--;
    return tide_pg_fail_lost(err, connection);
}

static tide_status read_sync(tide_pg_connection *connection, tide_status first, tide_error *err)
{
    PGresult *end = tide_pg_next_result(connection);
    const bool is_sync = tide_pq.resultStatus(end) == PGRES_PIPELINE_SYNC;
    tide_pq.clear(end);
    return is_sync || first < TIDE_OK ? first : tide_pg_fail_lost(err, connection);
}

tide_status tide_pg_sync(tide_pg_connection *connection, tide_error *err)
{
    const int count = connection->expected_count;
    connection->expected_count = 0;
    if (tide_pq.pipelineSync(connection->pg) != 1)
        return tide_pg_fail_lost(err, connection);
    tide_status status = TIDE_OK;
    for (int i = 0; i < count && !is_cut(connection); i++)
        status = connection->expected[i].is_sync
                     ? read_sync(connection, status, err)
                     : read_response(connection, &connection->expected[i], status, err);
    if (!is_cut(connection))
        status = read_sync(connection, status, err);
    if (!is_cut(connection))
        return status;
    /* Rows are handed on after the last answer, so they count as missing. */
    for (int i = 0; i < count; i++)
        if (connection->expected[i].query ||
            (connection->expected[i].value && !connection->expected[i].is_answered))
            connection->is_unanswered = true;
    return tide_pg_fail_lost(err, connection);
}
