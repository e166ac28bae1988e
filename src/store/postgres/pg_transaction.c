/* pg_transaction.c - one closure in one transaction on one connection.
 *
 *     BEGIN  guard  ...statements...  counters  deferred rows  [flush]  COMMIT
 *
 * A write transaction is READ COMMITTED, a read transaction REPEATABLE READ. The guard travels
 * right behind BEGIN: it sets what ends with the transaction, and fails it on a server that is not
 * the one the process believes in. The flush is inside only where no connection outlives the
 * commit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cond_wait.h"
#include "store/postgres/pg_engine.h"
#include "tidemark_sql.h"

enum { GUARD_PARAM_MAX = 9, NUMBER_SIZE = 24, WAL_SIZE = 20 };

bool tide_pg_is_unguarded;

/* ---- the beginning ---- */

static void begin_tx(tide_pg_connection *connection, bool is_write, bool is_guarded)
{
    tide_store *store = connection->store;
    tide_pg_engine *engine = store->engine;
    connection->is_synchronous =
        connection->is_pooled || !connection->has_wal || !connection->can_flush;
    connection->witness = connection->is_synchronous
                              ? 0
                              : tide_pg_flusher_generation(&engine->flusher, connection->server);
    connection->is_begun = false;
    connection->is_commit_sent = false;
    connection->is_committed = false;
    connection->is_unanswered = false;
    connection->is_flushed = false;
    connection->is_vain = false;
    connection->is_stale = false;
    connection->is_split = false;
    connection->is_resolved = false;
    connection->has_warned = false;
    connection->has_standby_wait = false;
    connection->begin_wal = 0;
    connection->flush_wal = 0;
    connection->xid[0] = '\0';
    (void)pthread_mutex_lock(&store->identity_lock);
    connection->is_guarded = is_guarded && store->identity.epoch_id[0] != '\0';
    const bool is_missing =
        store->known.epoch > store->identity.epoch && !store->options.is_mismatch_allowed;
    memcpy(connection->belief.epoch_id,
           is_missing ? store->known.epoch_id : store->identity.epoch_id,
           sizeof connection->belief.epoch_id);
    memcpy(connection->belief.timeline, store->host.timeline, sizeof connection->belief.timeline);
    memcpy(connection->belief.started, store->host.started, sizeof connection->belief.started);
    connection->belief.wal = store->host.wal;
    (void)pthread_mutex_unlock(&store->identity_lock);
    tide_tx_init(&connection->tx, store, connection, &connection->pool, is_write);
    connection->tx.has_lost_run = connection->has_lost_run;
}

typedef struct guard_values {
    char wal[WAL_SIZE];
    char lock_ms[NUMBER_SIZE];
    char statement_ms[NUMBER_SIZE];
    char idle_ms[NUMBER_SIZE];
} guard_values;

static void write_ms(char out[NUMBER_SIZE], int64_t us)
{
    const int64_t ms = us / 1000;
    (void)snprintf(out, NUMBER_SIZE, "%" PRId64, ms < INT32_MAX ? ms : INT32_MAX);
}

static const char *find_value(const tide_pg_connection *connection, const guard_values *values,
                              const char *name, bool with_id)
{
    const struct {
        const char *name;
        const char *value;
    } rows[] = {
        {"with_id", with_id ? "t" : "f"},
        {"epoch_id", connection->belief.epoch_id},
        {"timeline", connection->belief.timeline},
        {"started", connection->belief.started},
        {"wal", values->wal},
        {"lock_ms", values->lock_ms},
        {"statement_ms", values->statement_ms},
        {"idle_ms", values->idle_ms},
        {"commit", connection->is_synchronous || !connection->tx.is_write ? NULL : "off"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].value;
    return NULL;
}

static tide_status send_guard(tide_pg_connection *connection, bool with_id, tide_error *err)
{
    const tide_store_options *options = &connection->store->options;
    const tide_pg_command command = !connection->is_guarded ? TIDE_PG_SETTINGS
                                    : connection->has_wal   ? TIDE_PG_GUARDED
                                                            : TIDE_PG_GUARDED_REDUCED;
    const tide_sql_text *text = tide_pg_command_text(command);
    guard_values values;
    (void)snprintf(values.wal, sizeof values.wal, "%" PRIX32 "/%" PRIX32,
                   (uint32_t)(connection->belief.wal >> 32), (uint32_t)connection->belief.wal);
    write_ms(values.lock_ms, options->wait_us);
    write_ms(values.statement_ms, options->closure_us);
    write_ms(values.idle_ms, options->closure_us + 1000000);
    const char *params[GUARD_PARAM_MAX];
    for (int i = 0; i < text->param_count; i++)
        params[i] = find_value(connection, &values, text->params[i], with_id);
    return tide_pg_send_texts(connection, command, params, text->param_count,
                              (tide_pg_expectation){.is_guard = true}, err);
}

/* A pooler queues its clients while its server is away. Nothing that has an effect is sent before
 * the transaction has a server, so that another host can be tried. The limit grows with each host
 * that was left so, and with no other failure: those come fast where a server has just gone. */
static tide_status await_server(tide_pg_connection *connection, tide_error *err)
{
    const int64_t until_us = connection->answer_by_us;
    const int64_t limit_us = tide_cond_until((int64_t)TIDE_PG_HOST_US << connection->silences);
    connection->answer_by_us = limit_us < until_us ? limit_us : until_us;
    connection->is_discardable = true;
    const tide_status status = tide_pg_sync(connection, err);
    connection->is_discardable = false;
    connection->answer_by_us = until_us;
    if (!connection->has_timed_out || tide_cond_until(0) >= until_us)
        return status;
    connection->has_timed_out = false; /* the call has not */
    connection->silences++;
    tide_pg_note_silent(connection);
    return status;
}

tide_status tide_pg_begin(tide_pg_connection *connection, bool with_id, tide_error *err)
{
    if (connection->is_begun)
        return TIDE_OK;
    const bool is_write = connection->tx.is_write;
    TIDE_TRY(tide_pg_send(connection, is_write ? TIDE_PG_BEGIN_WRITE : TIDE_PG_BEGIN_READ,
                          (tide_pg_expectation){.is_begin = true}, err));
    connection->is_begun = true;
    if (tide_pg_is_unguarded && connection->is_guarded)
        return TIDE_OK;
    /* By the id a witness looks up the outcome of a commit whose response was lost. */
    TIDE_TRY(send_guard(connection, with_id && is_write && !connection->is_synchronous, err));
    const bool is_awaited = connection->is_pooled && tide_pg_has_choice(connection->store);
    return is_awaited ? await_server(connection, err) : TIDE_OK;
}

/* ---- the end ---- */

static void roll_back(tide_pg_connection *connection)
{
    tide_error ignored;
    if (connection->is_committed)
        return;
    if (connection->is_begun && !tide_pg_connection_is_lost(connection) &&
        tide_pg_send(connection, TIDE_PG_ROLLBACK, (tide_pg_expectation){0}, &ignored) >= TIDE_OK)
        TIDE_IGNORE(tide_pg_sync(connection, &ignored));
    connection->is_begun = false;
}

static tide_status send_counters(tide_pg_connection *connection, const tide_tx *tx, tide_error *err)
{
    for (int i = 0; i < tx->take_count; i++)
        TIDE_TRY(tide_pg_send_query(connection, tx->takes[i].query,
                                    (tide_pg_expectation){.value = tx->takes[i].value}, err));
    return TIDE_OK;
}

static tide_status send_deferred(tide_pg_connection *connection, const tide_tx *tx, tide_error *err)
{
    for (tide_query *query = tx->deferred_first; query; query = query->next)
        TIDE_TRY(tide_pg_send_query(
            connection, query, (tide_pg_expectation){.query = query->on_row ? query : NULL}, err));
    return TIDE_OK;
}

static void report_rows(tide_tx *tx)
{
    for (tide_query *query = tx->deferred_first; query; query = query->next) {
        const int count = query->on_row ? tide_pq.ntuples(query->result) : 0;
        query->is_started = true;
        query->has_row = true;
        for (query->row = 0; query->row < count; query->row++) {
            query->column = 0;
            tx->has_told = true;
            query->on_row(query, query->on_row_arg);
        }
    }
}

/* Where nothing outlives the commit, the transaction itself carries to disk what it has seen. A
 * server without WAL functions commits everything synchronously: there, what is visible is on
 * disk. */
static tide_status send_flush_inside(tide_pg_connection *connection, tide_error *err)
{
    /* Its own commit flushes. */
    const bool has_written = connection->tx.take_count > 0 || connection->tx.is_synchronous;
    if (!connection->is_synchronous || !connection->has_wal || !connection->can_flush ||
        has_written)
        return TIDE_OK;
    return tide_pg_send(connection, TIDE_PG_FLUSH_INSIDE, (tide_pg_expectation){0}, err);
}

/* In the pipeline, behind the answer to COMMIT, which releases the counters. */
static tide_status send_flush_behind(tide_pg_connection *connection, tide_error *err)
{
    TIDE_TRY(tide_pg_send_sync(connection, err));
    return tide_pg_send(connection, TIDE_PG_FLUSH, (tide_pg_expectation){.is_flush = true}, err);
}

static tide_status send_commit(tide_pg_connection *connection, bool has_own_flush, tide_error *err)
{
    if (connection->is_synchronous && connection->has_wal && connection->tx.is_write)
        TIDE_TRY(tide_pg_send(connection, TIDE_PG_WAL_END,
                              (tide_pg_expectation){.is_wal_end = true}, err));
    TIDE_TRY(
        tide_pg_send(connection, TIDE_PG_COMMIT, (tide_pg_expectation){.is_commit = true}, err));
    connection->is_commit_sent = true;
    if (has_own_flush && !connection->is_synchronous)
        TIDE_TRY(send_flush_behind(connection, err));
    return tide_pg_sync(connection, err);
}

/* Numbers last: what is left of the transaction travels in one pipeline. */
static tide_status complete(tide_pg_connection *connection, tide_error *err)
{
    tide_tx *tx = &connection->tx;
    const bool is_empty = !connection->is_begun && tx->take_count == 0 && !tx->deferred_first;
    if (is_empty)
        return TIDE_OK;
    const bool is_alone = !connection->is_begun && tx->take_count == 0;
    if (is_alone && tx->is_synchronous && connection->has_wal && connection->can_flush)
        connection->is_synchronous = true;
    TIDE_TRY(tide_pg_begin(connection, false, err));
    if (!tx->has_counters) {
        tide_tx_sort_takes(tx);
        TIDE_TRY(send_counters(connection, tx, err));
    }
    TIDE_TRY(send_deferred(connection, tx, err));
    TIDE_TRY(send_flush_inside(connection, err));
    const tide_status status = send_commit(connection, tx->has_own_flush, err);
    /* A flush that failed behind a commit is left to tide_pg_make_durable. */
    if (status < TIDE_OK && (!connection->is_committed || tide_pg_connection_is_lost(connection)))
        return status;
    report_rows(tx);
    connection->is_vain = is_alone && tx->is_told && !tx->has_told;
    return TIDE_OK;
}

/* ---- several closures ---- */

tide_status tide_pg_send_group(tide_pg_connection *connection, tide_pg_connection *const *members,
                               int count, tide_error *err)
{
    for (int i = 0; i < count; i++)
        TIDE_TRY(tide_pg_prepare_all(connection, &members[i]->tx, err));
    TIDE_TRY(tide_pg_begin(connection, false, err));
    for (int i = 0; i < count; i++) {
        TIDE_TRY(send_counters(connection, &members[i]->tx, err));
        TIDE_TRY(send_deferred(connection, &members[i]->tx, err));
    }
    return send_commit(connection, count > 1, err);
}

void tide_pg_roll_back(tide_pg_connection *connection)
{
    roll_back(connection);
}

void tide_pg_report_rows(tide_pg_connection *connection)
{
    report_rows(&connection->tx);
}

tide_status tide_pg_run_write(tide_pg_connection *connection, tide_tx_fn *fn, void *arg,
                              bool is_guarded, tide_error *err)
{
    begin_tx(connection, true, is_guarded);
    tide_status status = tide_tx_run(&connection->tx, fn, arg, err);
    if (status >= TIDE_OK) {
        const tide_status completed = tide_pg_can_share(connection)
                                          ? tide_pg_complete_shared(connection, err)
                                          : complete(connection, err);
        if (completed < TIDE_OK)
            status = completed;
    }
    tide_tx_done(&connection->tx);
    if (status < TIDE_OK)
        roll_back(connection);
    return status;
}

static tide_status complete_read(tide_pg_connection *connection, bool is_local, bool *is_durable,
                                 tide_error *err)
{
    int64_t is_flushed = 0;
    *is_durable = true;
    if (!connection->is_begun && !connection->tx.deferred_first)
        return TIDE_OK;
    TIDE_TRY(tide_pg_begin(connection, false, err));
    TIDE_TRY(send_deferred(connection, &connection->tx, err));
    const bool is_probed = !is_local && !connection->is_synchronous;
    if (is_probed)
        TIDE_TRY(tide_pg_send(connection, TIDE_PG_FLUSH_PROBE,
                              (tide_pg_expectation){.value = &is_flushed}, err));
    else if (!is_local)
        TIDE_TRY(send_flush_inside(connection, err));
    TIDE_TRY(send_commit(connection, false, err));
    report_rows(&connection->tx);
    *is_durable = !is_probed || is_flushed != 0;
    if (connection->has_warned && !is_local)
        return tide_fail(err, TIDE_E_TIMEOUT, "the server warned while flushing the WAL%s",
                         connection->has_standby_wait ? ": waiting for synchronous standby" : "");
    return TIDE_OK;
}

tide_status tide_pg_run_read(tide_pg_connection *connection, tide_tx_fn *fn, void *arg,
                             bool is_local, bool is_guarded, bool *is_durable, tide_error *err)
{
    begin_tx(connection, false, is_guarded);
    tide_status status = tide_tx_run(&connection->tx, fn, arg, err);
    if (status >= TIDE_OK) {
        const tide_status ended = complete_read(connection, is_local, is_durable, err);
        if (ended < TIDE_OK)
            status = ended;
    }
    tide_tx_done(&connection->tx);
    if (status < TIDE_OK)
        roll_back(connection);
    return status;
}

/* ---- inside ---- */

tide_status tide_pg_now(tide_tx *tx, tide_error *err)
{
    tide_pg_connection *connection = tx->connection;
    if (tx->store->options.is_env_clock) {
        tx->now_us = tx->store->env->wall_us(tx->store->env);
        return TIDE_OK;
    }
    if (connection->is_begun)
        TIDE_TRY(tide_pg_send(connection, TIDE_PG_NOW, (tide_pg_expectation){.is_now = true}, err));
    else
        TIDE_TRY(tide_pg_begin(connection, true, err));
    return tide_pg_sync(connection, err);
}

tide_status tide_pg_take_counters(tide_tx *tx, tide_error *err)
{
    tide_pg_connection *connection = tx->connection;
    TIDE_TRY(tide_pg_begin(connection, true, err));
    TIDE_TRY(send_counters(connection, tx, err));
    return tide_pg_sync(connection, err);
}

/* Several statements at once need the simple protocol, outside of pipeline mode. */
tide_status tide_pg_script(tide_tx *tx, const char *text, tide_error *err)
{
    tide_pg_connection *connection = tx->connection;
    TIDE_TRY(tide_pg_begin(connection, true, err));
    TIDE_TRY(tide_pg_sync(connection, err));
    if (tide_pq.exitPipelineMode(connection->pg) != 1)
        return tide_fail(err, TIDE_E_FAILED, "cannot leave pipeline mode");
    PGresult *result = tide_pg_exec(connection, text);
    tide_status status = TIDE_OK;
    if (tide_pg_connection_is_lost(connection))
        return tide_pg_fail_lost(err, connection);
    if (tide_pq.resultStatus(result) != PGRES_COMMAND_OK &&
        tide_pq.resultStatus(result) != PGRES_TUPLES_OK)
        status = tide_pg_fail_result(err, result, "script");
    tide_pq.clear(result);
    if (tide_pq.enterPipelineMode(connection->pg) != 1)
        return tide_fail(err, TIDE_E_FAILED, "cannot enter pipeline mode");
    return status;
}

tide_status tide_pg_host(tide_tx *tx, tide_host *out, tide_error *err)
{
    tide_pg_connection *connection = tx->connection;
    TIDE_TRY(tide_pg_begin(connection, true, err));
    TIDE_TRY(tide_pg_sync(connection, err));
    return tide_pg_read_host(out, connection, err);
}
