/* pg_pool.c - connection pool of a store: opening, lending, identity of the server. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/cond_wait.h"
#include "base/lock.h"
#include "store/identity.h"
#include "store/postgres/pg_engine.h"

static const tide_backoff retry_policy = {.base_us = 1000, .cap_us = 250000};

int64_t tide_pg_call_until(const tide_store *store)
{
    /* What is abandoned is cancelled within the call's time. */
    const int64_t until_us = store->open_until_us > 0 ? store->open_until_us
                                                      : tide_cond_until(store->options.timeout_us);
    return until_us - tide_pg_cancel_us(store);
}

/* ---- identity ---- */

static tide_status run_write_here(void *arg, tide_tx_fn *fn, void *fn_arg, tide_error *err)
{
    tide_pg_connection *connection = arg;
    TIDE_TRY(tide_pg_run_write(connection, fn, fn_arg, false, err));
    return tide_pg_make_durable(connection, err);
}

static tide_status run_read_here(void *arg, tide_tx_fn *fn, void *fn_arg, tide_error *err)
{
    bool ignored = false;
    return tide_pg_run_read(arg, fn, fn_arg, true, false, &ignored, err);
}

tide_status tide_pg_identify_again(tide_pg_connection *connection, bool is_write, tide_error *err)
{
    const tide_identity_runner runner = {
        .write = run_write_here, .read = run_read_here, .arg = connection};
    return tide_identity_recheck(connection->store, &runner, is_write, err);
}

/* Another server than the identity was checked against, or started anew since: a failover, a
 * restored copy. The guard of the next transaction would find it, too; here it costs no
 * transaction. */
static tide_status check_host(tide_pg_connection *connection, bool is_write, tide_error *err)
{
    tide_store *store = connection->store;
    tide_host host = {0};
    (void)pthread_mutex_lock(&store->identity_lock);
    const bool is_known = store->host.text[0] != '\0';
    (void)pthread_mutex_unlock(&store->identity_lock);
    if (!is_known)
        return TIDE_OK;
    TIDE_TRY(tide_pg_read_host(&host, connection, err));
    (void)pthread_mutex_lock(&store->identity_lock);
    const bool is_same = tide_identity_same_host(store->host.text, host.text) &&
                         strcmp(store->host.started, host.started) == 0;
    (void)pthread_mutex_unlock(&store->identity_lock);
    return is_same || host.is_standby ? TIDE_OK : tide_pg_identify_again(connection, is_write, err);
}

/* ---- connecting ---- */

static void note_server(tide_pg_engine *engine, const tide_pg_connection *connection)
{
    TIDE_HOLD(&engine->lock);
    engine->is_pooled = connection->is_pooled;
    engine->is_reduced = !connection->has_wal || !connection->can_flush;
}

static tide_status connect_once(tide_pg_connection **out, tide_store *store, bool is_write,
                                int64_t until_us, tide_error *err)
{
    tide_pg_engine *engine = store->engine;
    tide_pg_connection *connection = NULL;
    TIDE_TRY(tide_pg_connection_open(&connection, store, is_write, until_us, err));
    assert(connection);
    note_server(engine, connection);
    connection->answer_by_us = until_us;
    const tide_status status = check_host(connection, is_write, err);
    if (status < TIDE_OK) {
        tide_pg_connection_close(connection);
        return status;
    }
    *out = connection;
    return TIDE_OK;
}

/* A server that restarts is waited for; one that refuses us is not. */
static tide_status connect_patiently(tide_pg_connection **out, tide_store *store, bool is_write,
                                     int64_t until_us, tide_error *err)
{
    tide_env *env = store->env;
    const int64_t patient_until_us = env->mono_us(env) + store->options.wait_us;
    for (int attempt = 0;; attempt++) {
        const tide_status status = connect_once(out, store, is_write, until_us, err);
        if (status != TIDE_E_UNAVAILABLE || env->mono_us(env) >= patient_until_us ||
            tide_cond_until(0) >= until_us)
            return status;
        env->sleep_us(env, tide_backoff_next(&retry_policy, attempt, env));
    }
}

/* ---- lending ---- */

static void forget_connection(tide_pg_engine *engine, tide_pg_connection *connection)
{
    tide_pg_connection_close(connection);
    TIDE_HOLD(&engine->lock);
    engine->connection_count--;
    (void)pthread_cond_signal(&engine->has_idle);
}

/* An idle connection, or NULL and the right to make one. */
static tide_status reserve(tide_pg_connection **out, tide_store *store, int64_t until_us,
                           tide_error *err)
{
    tide_pg_engine *engine = store->engine;
    bool is_patient = true;
    (void)pthread_mutex_lock(&engine->lock);
    while (!engine->idle && engine->connection_count >= store->options.connection_max && is_patient)
        is_patient = tide_cond_wait(&engine->has_idle, &engine->lock, until_us);
    if (!engine->idle && engine->connection_count >= store->options.connection_max) {
        (void)pthread_mutex_unlock(&engine->lock);
        return tide_fail(err, TIDE_E_BUSY, "all %d connections to %s are in use",
                         store->options.connection_max, store->name);
    }
    *out = engine->idle;
    if (*out)
        engine->idle = (*out)->next;
    else
        engine->connection_count++;
    (void)pthread_mutex_unlock(&engine->lock);
    return TIDE_OK;
}

tide_status tide_pg_acquire(tide_pg_connection **out, tide_store *store, bool is_write,
                            int64_t until_us, tide_error *err)
{
    tide_pg_engine *engine = store->engine;
    const int64_t patient_until_us = tide_cond_until(store->options.wait_us);
    const int64_t reserve_until_us = patient_until_us < until_us ? patient_until_us : until_us;
    for (;;) {
        tide_pg_connection *connection = NULL;
        TIDE_TRY(reserve(&connection, store, reserve_until_us, err));
        if (!connection)
            break;
        const bool is_of_use =
            !is_write || !connection->is_on_standby || !tide_pg_has_choice(store);
        if (is_of_use && tide_pg_connection_is_alive(connection)) {
            connection->answer_by_us = until_us;
            *out = connection;
            return TIDE_OK;
        }
        forget_connection(engine, connection);
    }
    const tide_status status = connect_patiently(out, store, is_write, until_us, err);
    if (status < TIDE_OK)
        forget_connection(engine, NULL);
    return status;
}

void tide_pg_release(tide_pg_connection *connection)
{
    tide_pg_engine *engine = connection->store->engine;
    if (tide_pg_connection_is_lost(connection) ||
        tide_pq.transactionStatus(connection->pg) != PQTRANS_IDLE) {
        forget_connection(engine, connection);
        return;
    }
    connection->answer_by_us = 0;
    TIDE_HOLD(&engine->lock);
    connection->next = engine->idle;
    engine->idle = connection;
    (void)pthread_cond_signal(&engine->has_idle);
}

/* ---- life ---- */

tide_status tide_pg_connect_first(tide_store *store, int64_t until_us, tide_error *err)
{
    tide_pg_engine *engine = store->engine;
    tide_pg_connection *first = NULL;
    tide_error refusal;
    const tide_status tried = connect_once(&first, store, false, until_us, &refusal);
    if (tried >= TIDE_OK) {
        assert(first);
        engine->connection_count++;
        tide_pg_release(first);
        return TIDE_OK;
    }
    if (tried != TIDE_E_UNAVAILABLE || !strstr(refusal.text, "FATAL")) {
        if (err)
            *err = refusal;
        return tried;
    }
    TIDE_TRY(tide_pg_acquire(&first, store, false, until_us, err));
    assert(first);
    tide_pg_release(first);
    return TIDE_OK;
}

void tide_pg_note_silent(const tide_pg_connection *connection)
{
    tide_pg_engine *engine = connection->store->engine;
    tide_pg_connection *silent = NULL;
    (void)atomic_fetch_or(&engine->silent_hosts, UINT64_C(1) << (connection->host & 63));
    (void)pthread_mutex_lock(&engine->lock);
    for (tide_pg_connection **at = &engine->idle; *at;) {
        tide_pg_connection *idle = *at;
        if (idle->host != connection->host) {
            at = &idle->next;
            continue;
        }
        *at = idle->next;
        idle->next = silent;
        silent = idle;
    }
    (void)pthread_mutex_unlock(&engine->lock);
    while (silent) {
        tide_pg_connection *idle = silent;
        silent = idle->next;
        forget_connection(engine, idle);
    }
}

void tide_pg_pool_done(tide_pg_engine *engine)
{
    while (engine->idle) {
        tide_pg_connection *connection = engine->idle;
        engine->idle = connection->next;
        tide_pg_connection_close(connection);
    }
}
