/* pg_store.c - a store in a PostgreSQL database: pool, the ordered commit, durable reads.
 *
 * A write transaction is READ COMMITTED and commits with synchronous_commit=off; then the flusher carries it to
 * disk, and only then is the caller answered. Where it can die:
 *
 *     before COMMIT is sent        nothing happened; the closure runs again
 *     session ended by the server  its farewell comes behind its answers: without one to COMMIT, run again
 *     COMMIT sent, no answer       the witness is asked for the transaction's id: committed, or run again; with the
 *                                  witness gone, or the id never learnt: outcome unknown
 *     COMMIT answered, no flush    flushed on the committer's own connection; if that is gone: outcome unknown
 *     flush answered               durable
 *
 * A read transaction is REPEATABLE READ, and flushes too unless the WAL is already on disk. */
#include <tidemark/store.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "store/identity.h"
#include "store/postgres/pg_connection.h"
#include "store/postgres/pg_flush.h"
#include "store/postgres/pg_listen.h"
#include "tidemark_sql.h"

enum { ATTEMPT_MAX = 20 };

static const tide_backoff retry_policy = {.base_us = 1000, .cap_us = 250000};

typedef struct pg_engine {
    char *url;
    pthread_mutex_t lock; /* of the pool */
    pthread_cond_t has_idle;
    tide_pg_connection *idle;
    int connection_count;
    tide_pg_flusher flusher;
    tide_pg_listener listener;
} pg_engine;

/* ---- running one transaction on one connection ---- */

static void begin_tx(tide_pg_connection *connection, bool is_write)
{
    pg_engine *engine = connection->store->engine;
    connection->witness = tide_pg_flusher_generation(&engine->flusher, connection->server);
    connection->is_begun = false;
    connection->is_commit_sent = false;
    connection->is_committed = false;
    connection->is_vain = false;
    connection->xid[0] = '\0';
    tide_tx_init(&connection->tx, connection->store, connection, &connection->pool, is_write);
}

static void roll_back(tide_pg_connection *connection)
{
    tide_error ignored;
    if (connection->is_begun && !tide_pg_connection_is_lost(connection) &&
        tide_pg_send(connection, TIDE_PG_ROLLBACK, (tide_pg_expectation){0}, &ignored) >= TIDE_OK)
        TIDE_IGNORE(tide_pg_sync(connection, &ignored));
}

static tide_status send_takes(tide_pg_connection *connection, tide_error *err)
{
    tide_tx *tx = &connection->tx;
    for (int i = 0; i < tx->take_count; i++)
        TIDE_TRY(tide_pg_send_query(connection, tx->takes[i].query,
                                    (tide_pg_expectation){.value = tx->takes[i].value}, err));
    return TIDE_OK;
}

static tide_status send_deferred(tide_pg_connection *connection, tide_error *err)
{
    for (tide_query *query = connection->tx.deferred_first; query; query = query->next)
        TIDE_TRY(tide_pg_send_query(
            connection, query, (tide_pg_expectation){.query = query->on_row ? query : NULL}, err));
    return TIDE_OK;
}

static void tell_rows(tide_query *query)
{
    const int count = query->on_row ? tide_pq.ntuples(query->result) : 0;
    query->is_started = true;
    query->has_row = true;
    for (query->row = 0; query->row < count; query->row++) {
        query->column = 0;
        query->tx->has_told = true;
        query->on_row(query, query->on_row_arg);
    }
}

/* Numbers last: what is left of the transaction travels in one pipeline. */
static tide_status complete(tide_pg_connection *connection, tide_error *err)
{
    tide_tx *tx = &connection->tx;
    const bool is_empty = !connection->is_begun && tx->take_count == 0 && !tx->deferred_first;
    if (is_empty)
        return TIDE_OK;
    const bool is_alone = !connection->is_begun && tx->take_count == 0;
    TIDE_TRY(tide_pg_begin(connection, false, err));
    if (!tx->is_settled) {
        tide_tx_sort_takes(tx);
        TIDE_TRY(send_takes(connection, err));
    }
    TIDE_TRY(send_deferred(connection, err));
    TIDE_TRY(
        tide_pg_send(connection, TIDE_PG_COMMIT, (tide_pg_expectation){.is_commit = true}, err));
    connection->is_commit_sent = true;
    TIDE_TRY(tide_pg_sync(connection, err));
    for (tide_query *query = tx->deferred_first; query; query = query->next)
        tell_rows(query);
    connection->is_vain = is_alone && tx->is_told && !tx->has_told;
    return TIDE_OK;
}

static tide_status run_write(tide_pg_connection *connection, tide_tx_fn *fn, void *arg,
                             tide_error *err)
{
    begin_tx(connection, true);
    tide_status status = tide_tx_run(&connection->tx, fn, arg, err);
    if (status >= TIDE_OK) {
        const tide_status completed = complete(connection, err);
        if (completed < TIDE_OK)
            status = completed;
    }
    tide_tx_done(&connection->tx);
    if (status < TIDE_OK && !connection->is_committed)
        roll_back(connection);
    return status;
}

/* ---- the pool ---- */

static tide_status run_and_flush(void *arg, tide_tx_fn *fn, void *fn_arg, tide_error *err)
{
    tide_pg_connection *connection = arg;
    TIDE_TRY(run_write(connection, fn, fn_arg, err));
    return tide_pg_flush_on(connection, err);
}

/* A failover or a restored copy: numbers from here on belong to a new epoch. */
static tide_status check_host(tide_pg_connection *connection, tide_error *err)
{
    tide_store *store = connection->store;
    tide_host host = {0};
    TIDE_TRY(tide_pg_read_host(&host, connection, err));
    (void)pthread_mutex_lock(&store->identity_lock);
    const bool is_same = !store->host.text[0] || strcmp(store->host.text, host.text) == 0;
    (void)pthread_mutex_unlock(&store->identity_lock);
    if (is_same || host.is_standby || store->options.mode == TIDE_STORE_AS_IS)
        return TIDE_OK;
    return tide_identity_recheck(store, run_and_flush, connection, err);
}

static tide_status connect_once(tide_pg_connection **out, tide_store *store, tide_error *err)
{
    pg_engine *engine = store->engine;
    tide_pg_connection *connection = NULL;
    TIDE_TRY(tide_pg_connection_open(&connection, store, engine->url, false, err));
    assert(connection);
    const tide_status status = check_host(connection, err);
    if (status < TIDE_OK) {
        tide_pg_connection_close(connection);
        return status;
    }
    *out = connection;
    return TIDE_OK;
}

/* A server that restarts is waited for; one that refuses us is not. */
static tide_status connect_patiently(tide_pg_connection **out, tide_store *store, tide_error *err)
{
    tide_env *env = store->env;
    const int64_t until_us = env->mono_us(env) + store->options.wait_us;
    for (int attempt = 0;; attempt++) {
        const tide_status status = connect_once(out, store, err);
        if (status != TIDE_E_UNAVAILABLE || env->mono_us(env) >= until_us)
            return status;
        env->sleep_us(env, tide_backoff_next(&retry_policy, attempt, env));
    }
}

static void forget_connection(pg_engine *engine, tide_pg_connection *connection)
{
    tide_pg_connection_close(connection);
    (void)pthread_mutex_lock(&engine->lock);
    engine->connection_count--;
    (void)pthread_cond_signal(&engine->has_idle);
    (void)pthread_mutex_unlock(&engine->lock);
}

static tide_status acquire(tide_pg_connection **out, tide_store *store, tide_error *err)
{
    pg_engine *engine = store->engine;
    const int64_t until_us = tide_cond_until(store->options.wait_us);
    for (;;) {
        bool is_patient = true;
        (void)pthread_mutex_lock(&engine->lock);
        while (!engine->idle && engine->connection_count >= store->options.connection_max &&
               is_patient)
            is_patient = tide_cond_wait(&engine->has_idle, &engine->lock, until_us);
        if (!engine->idle && engine->connection_count >= store->options.connection_max) {
            (void)pthread_mutex_unlock(&engine->lock);
            return tide_fail(err, TIDE_E_BUSY,
                             "all %d connections to %s have been in use for too long",
                             store->options.connection_max, store->name);
        }
        tide_pg_connection *connection = engine->idle;
        if (connection)
            engine->idle = connection->next;
        else
            engine->connection_count++;
        (void)pthread_mutex_unlock(&engine->lock);
        if (!connection)
            break;
        if (tide_pg_connection_is_alive(connection)) {
            *out = connection;
            return TIDE_OK;
        }
        forget_connection(engine, connection);
    }
    const tide_status status = connect_patiently(out, store, err);
    if (status < TIDE_OK)
        forget_connection(engine, NULL);
    return status;
}

static void release(tide_pg_connection *connection)
{
    pg_engine *engine = connection->store->engine;
    if (tide_pg_connection_is_lost(connection) ||
        tide_pq.transactionStatus(connection->pg) != PQTRANS_IDLE) {
        forget_connection(engine, connection);
        return;
    }
    (void)pthread_mutex_lock(&engine->lock);
    connection->next = engine->idle;
    engine->idle = connection;
    (void)pthread_cond_signal(&engine->has_idle);
    (void)pthread_mutex_unlock(&engine->lock);
}

/* ---- write ---- */

static tide_status flush_commit(tide_pg_connection *connection, tide_error *err)
{
    pg_engine *engine = connection->store->engine;
    if (!connection->is_commit_sent || connection->is_vain)
        return TIDE_OK; /* nothing was read or written, or nothing came of it */
    if (tide_pg_flush(&engine->flusher, connection->witness, err) >= TIDE_OK)
        return TIDE_OK;
    if (tide_pg_flush_on(connection, err) >= TIDE_OK)
        return TIDE_OK;
    return tide_fail_context(err, TIDE_E_OUTCOME_UNKNOWN, "committed, but not known to be on disk");
}

/* The connection broke. TIDE_OK: it had committed after all, and is durable. TIDE_E_SERIALIZATION: it had not;
 * run it again. */
static tide_status resolve_lost(tide_pg_connection *connection, tide_error *err)
{
    pg_engine *engine = connection->store->engine;
    if (!connection->is_commit_sent || (connection->is_ended && !connection->is_committed))
        return TIDE_E_SERIALIZATION;
    switch (tide_pg_flusher_ask(&engine->flusher, connection->witness, connection->xid)) {
    case TIDE_PG_ABORTED:
        return TIDE_E_SERIALIZATION;
    case TIDE_PG_COMMITTED:
        if (tide_pg_flush(&engine->flusher, connection->witness, err) >= TIDE_OK)
            return TIDE_OK;
        break;
    case TIDE_PG_UNKNOWN:
        break;
    }
    return tide_fail_context(err, TIDE_E_OUTCOME_UNKNOWN,
                             "the connection was lost during the commit");
}

/* After the commit, so that whoever is woken sees it. */
static void tell(tide_pg_connection *connection)
{
    pg_engine *engine = connection->store->engine;
    const tide_topics *topics = &connection->tx.topics;
    if (topics->count == 0)
        return;
    tide_watch_signal_topics(connection->store, topics);
    tide_pg_notify(&engine->listener, connection, topics);
}

static tide_status write_once(tide_pg_connection *connection, tide_tx_fn *fn, void *arg,
                              tide_error *err)
{
    tide_status status = run_write(connection, fn, arg, err);
    if (status >= TIDE_OK) {
        const tide_status flushed = flush_commit(connection, err);
        if (flushed >= TIDE_OK)
            tell(connection);
        return flushed < TIDE_OK ? flushed : status;
    }
    return tide_pg_connection_is_lost(connection) ? resolve_lost(connection, err) : status;
}

static tide_status pg_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    tide_env *env = store->env;
    for (int attempt = 0;; attempt++) {
        tide_pg_connection *connection = NULL;
        TIDE_TRY(acquire(&connection, store, err));
        assert(connection);
        const tide_status status = write_once(connection, fn, arg, err);
        release(connection);
        if (status != TIDE_E_SERIALIZATION || attempt >= ATTEMPT_MAX)
            return status;
        env->sleep_us(env, tide_backoff_next(&retry_policy, attempt, env));
    }
}

/* ---- read ---- */

static tide_status end_read(tide_pg_connection *connection, bool is_local, bool *is_durable,
                            tide_error *err)
{
    int64_t is_flushed = 0;
    tide_tx *tx = &connection->tx;
    if (!connection->is_begun && !tx->deferred_first)
        return TIDE_OK;
    TIDE_TRY(tide_pg_begin(connection, false, err));
    TIDE_TRY(send_deferred(connection, err));
    if (!is_local)
        TIDE_TRY(tide_pg_send(connection, TIDE_PG_FLUSH_PROBE,
                              (tide_pg_expectation){.value = &is_flushed}, err));
    TIDE_TRY(
        tide_pg_send(connection, TIDE_PG_COMMIT, (tide_pg_expectation){.is_commit = true}, err));
    TIDE_TRY(tide_pg_sync(connection, err));
    for (tide_query *query = tx->deferred_first; query; query = query->next)
        tell_rows(query);
    *is_durable = is_local || is_flushed != 0;
    return TIDE_OK;
}

static tide_status read_once(tide_pg_connection *connection, tide_tx_fn *fn, void *arg,
                             bool is_local, tide_error *err)
{
    pg_engine *engine = connection->store->engine;
    bool is_durable = true;
    begin_tx(connection, false);
    tide_status status = tide_tx_run(&connection->tx, fn, arg, err);
    if (status >= TIDE_OK) {
        const tide_status ended = end_read(connection, is_local, &is_durable, err);
        if (ended < TIDE_OK)
            status = ended;
    }
    tide_tx_done(&connection->tx);
    if (status < TIDE_OK)
        roll_back(connection);
    else if (!is_durable && tide_pg_flush(&engine->flusher, connection->witness, err) < TIDE_OK)
        TIDE_TRY(tide_pg_flush_on(connection, err));
    return status;
}

static tide_status pg_read(tide_store *store, tide_tx_fn *fn, void *arg, bool is_local,
                           tide_error *err)
{
    tide_env *env = store->env;
    for (int attempt = 0;; attempt++) {
        tide_pg_connection *connection = NULL;
        TIDE_TRY(acquire(&connection, store, err));
        assert(connection);
        const tide_status status = read_once(connection, fn, arg, is_local, err);
        const bool is_lost = tide_pg_connection_is_lost(connection);
        release(connection);
        /* Reading changes nothing: a lost connection is no reason to fail. */
        const bool is_again = status == TIDE_E_SERIALIZATION || (status < TIDE_OK && is_lost);
        if (!is_again || attempt >= ATTEMPT_MAX)
            return status;
        env->sleep_us(env, tide_backoff_next(&retry_policy, attempt, env));
    }
}

/* ---- inside a transaction ---- */

static tide_status pg_now(tide_tx *tx, tide_error *err)
{
    tide_pg_connection *connection = tx->connection;
    if (tx->store->options.is_env_clock) {
        tx->now_us = tx->store->env->wall_us(tx->store->env);
        return TIDE_OK;
    }
    if (connection->is_begun) /* begun without asking: a script */
        TIDE_TRY(tide_pg_send(connection, TIDE_PG_NOW, (tide_pg_expectation){.is_now = true}, err));
    else
        TIDE_TRY(tide_pg_begin(connection, true, err));
    return tide_pg_sync(connection, err);
}

static tide_status pg_settle(tide_tx *tx, tide_error *err)
{
    tide_pg_connection *connection = tx->connection;
    TIDE_TRY(tide_pg_begin(connection, true, err));
    TIDE_TRY(send_takes(connection, err));
    return tide_pg_sync(connection, err);
}

/* Several statements at once need the simple protocol, outside of pipeline mode. */
static tide_status pg_script(tide_tx *tx, const char *text, tide_error *err)
{
    tide_pg_connection *connection = tx->connection;
    TIDE_TRY(tide_pg_begin(connection, true, err));
    TIDE_TRY(tide_pg_sync(connection, err));
    if (tide_pq.exitPipelineMode(connection->pg) != 1)
        return tide_fail(err, TIDE_E_FAILED, "cannot leave pipeline mode");
    PGresult *result = tide_pq.exec(connection->pg, text);
    tide_status status = TIDE_OK;
    if (tide_pq.resultStatus(result) != PGRES_COMMAND_OK &&
        tide_pq.resultStatus(result) != PGRES_TUPLES_OK)
        status = tide_pg_fail_result(err, result, "script");
    tide_pq.clear(result);
    if (tide_pq.enterPipelineMode(connection->pg) != 1)
        return tide_fail(err, TIDE_E_FAILED, "cannot enter pipeline mode");
    return status;
}

/* On a connection of its own, closed afterwards: what a foreign statement leaves behind in its session is gone then. What it has
 * seen is on disk before it is said to have succeeded. */
static tide_status pg_look(tide_store *store, const tide_readonly_query *look, tide_error *err)
{
    pg_engine *engine = store->engine;
    tide_pg_connection *own = NULL;
    TIDE_TRY(tide_pg_connection_open(&own, store, engine->url, false, err));
    int64_t is_flushed = 0;
    tide_status status = tide_pg_look_on(own, look, err);
    if (status >= TIDE_OK)
        status = tide_pg_send(own, TIDE_PG_FLUSH_PROBE, (tide_pg_expectation){.value = &is_flushed},
                              err);
    if (status >= TIDE_OK)
        status = tide_pg_sync(own, err);
    if (status >= TIDE_OK && !is_flushed)
        status = tide_pg_flush_on(own, err);
    tide_pg_connection_close(own);
    return status;
}

static tide_status pg_host(tide_tx *tx, tide_host *out, tide_error *err)
{
    tide_pg_connection *connection = tx->connection;
    TIDE_TRY(tide_pg_begin(connection, true, err));
    TIDE_TRY(tide_pg_sync(connection, err));
    return tide_pg_read_host(out, connection, err);
}

static tide_status pg_watch(tide_store *store, tide_error *err)
{
    pg_engine *engine = store->engine;
    return tide_watcher_start(&engine->listener.watcher, store, tide_pg_listen, err);
}

/* ---- life ---- */

/* libpq looks at the port only when it connects, and then it is too late to call it malformed. */
static tide_status check_ports(const PQconninfoOption *options, tide_error *err)
{
    for (; options->keyword; options++) {
        if (strcmp(options->keyword, "port") != 0 || !options->val)
            continue;
        for (const char *at = options->val; *at; at += strspn(at, ",")) {
            char *end = NULL;
            const long port = strtol(at, &end, 10);
            if ((*end != ',' && *end != '\0') || end == at || port < 1 || port > 65535)
                return tide_fail(err, TIDE_E_INVALID, "malformed store URL: '%s' is not a port",
                                 options->val);
            at = end;
        }
    }
    return TIDE_OK;
}

static tide_status pg_open(tide_store *store, const char *target, tide_error *err)
{
    TIDE_TRY(tide_pq_load(err));
    char *complaint = NULL;
    PQconninfoOption *parsed = tide_pq.conninfoParse(target, &complaint);
    if (!parsed) {
        /* libpq quotes what it complains about, and that may be the password. */
        if (complaint)
            complaint[strcspn(complaint, "\"\n")] = '\0';
        const tide_status status = tide_fail(err, TIDE_E_INVALID, "malformed store URL: %s",
                                             complaint ? complaint : "no memory");
        tide_pq.freemem(complaint);
        return status;
    }
    const tide_status checked = check_ports(parsed, err);
    tide_pq.conninfoFree(parsed);
    TIDE_TRY(checked);
    pg_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return tide_no_memory(err);
    (void)pthread_mutex_init(&engine->lock, NULL);
    (void)pthread_cond_init(&engine->has_idle, NULL);
    store->engine = engine;
    engine->url = strdup(target);
    tide_pg_flusher_init(&engine->flusher, store, engine->url);
    tide_pg_listener_init(&engine->listener, store, engine->url);
    if (!engine->url)
        return tide_no_memory(err);
    /* A server that is starting up is waited for; one that is not there is reported at once. */
    tide_pg_connection *first = NULL;
    tide_error refusal;
    const tide_status tried = connect_once(&first, store, &refusal);
    if (tried == TIDE_E_UNAVAILABLE && strstr(refusal.text, "FATAL")) {
        TIDE_TRY(acquire(&first, store, err));
        assert(first);
        release(first);
    } else if (tried < TIDE_OK) {
        if (err)
            *err = refusal;
        return tried;
    } else {
        assert(first);
        engine->connection_count++;
        release(first);
    }
    return tide_pg_flusher_connect(&engine->flusher, err);
}

static void pg_close(tide_store *store)
{
    pg_engine *engine = store->engine;
    tide_pg_listener_done(&engine->listener);
    while (engine->idle) {
        tide_pg_connection *connection = engine->idle;
        engine->idle = connection->next;
        tide_pg_connection_close(connection);
    }
    tide_pg_flusher_done(&engine->flusher);
    (void)pthread_cond_destroy(&engine->has_idle);
    (void)pthread_mutex_destroy(&engine->lock);
    free(engine->url);
    free(engine);
}

const tide_engine_ops tide_pg_ops = {
    .engine = TIDE_ENGINE_POSTGRES,
    .name = "postgres",
    .open = pg_open,
    .close = pg_close,
    .write = pg_write,
    .read = pg_read,
    .now = pg_now,
    .settle = pg_settle,
    .script = pg_script,
    .host = pg_host,
    .describe = tide_pg_describe,
    .check = tide_pg_check,
    .backup = tide_pg_backup,
    .watch = pg_watch,
    .prepare = tide_pg_prepare,
    .step = tide_pg_step,
    .keep = tide_pg_keep,
    .reset = tide_pg_reset,
    .column = tide_pg_column,
    .bulk_begin = tide_pg_bulk_begin,
    .bulk_row = tide_pg_bulk_row,
    .bulk_end = tide_pg_bulk_end,
    .look = pg_look,
};
