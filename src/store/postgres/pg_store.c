/* pg_store.c - a store in a PostgreSQL database: the engine's operations.
 *
 * A write transaction commits with synchronous_commit=off; then the flusher carries it to disk, and
 * only then is the caller answered (shared flush). Behind a pooler, and on a server that refuses
 * its WAL functions, each commit is synchronous. A transaction runs again, on another connection if
 * need be, until its outcome is known or the call's time is up. Where it can die: pg_outcome.c. */
#include <tidemark/store.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "store/postgres/pg_engine.h"
#include "store/readonly_query.h"

enum {
    ATTEMPT_MAX = 20,
    GROUPS_MAX = 2, /* of one set of counters at once, see pg_group.c */
};

static const tide_backoff retry_policy = {.base_us = 1000, .cap_us = 250000};

/* ---- write ---- */

/* After the commit, so that woken watchers see it. */
static void notify(tide_pg_connection *connection)
{
    tide_pg_engine *engine = connection->store->engine;
    const tide_topics *topics = &connection->tx.topics;
    if (topics->count == 0)
        return;
    tide_watch_signal_topics(connection->store, topics);
    tide_pg_notify(&engine->listener, connection, topics);
}

/* The server is not what the process believed. TIDE_E_SERIALIZATION: now it is known; run again. */
static tide_status learn_server(tide_pg_connection *connection, bool is_write, tide_error *err)
{
    const tide_status status = tide_pg_identify_again(connection, is_write, err);
    if (status == TIDE_E_MISMATCH)
        connection->is_lost = true; /* the next connection may lead to the right one */
    return status >= TIDE_OK ? TIDE_E_SERIALIZATION : status;
}

/* What the runs of one call have found out. */
typedef struct call_state {
    bool is_alone; /* share no transaction with other closures; set where that has failed */
    int silences;  /* hosts that gave the transaction no server in time */
} call_state;

static tide_status write_once(tide_pg_connection *connection, tide_tx_fn *fn, void *arg,
                              call_state *call, bool has_lost_run, tide_error *err)
{
    connection->is_alone = call->is_alone;
    connection->silences = call->silences;
    connection->has_lost_run = has_lost_run;
    if (atomic_load(&connection->store->is_unrecorded))
        TIDE_TRY(tide_pg_identify_again(connection, true, err));
    const tide_status status = tide_pg_run_write(connection, fn, arg, true, err);
    connection->has_lost_run = false;
    call->is_alone = call->is_alone || connection->is_split;
    call->silences = connection->silences;
    if (status >= TIDE_OK) {
        if (!connection->is_resolved)
            TIDE_TRY(tide_pg_make_durable(connection, err));
        notify(connection);
        return status;
    }
    if (connection->is_stale)
        return learn_server(connection, true, err);
    if (connection->is_resolved || !tide_pg_connection_is_lost(connection))
        return status;
    return tide_pg_resolve_lost(connection, err);
}

/* The server was demoted under its connections: the next connection may find the new primary. */
static bool was_demoted(const tide_pg_connection *connection, tide_status status)
{
    return status == TIDE_E_UNAVAILABLE && connection->is_on_standby &&
           tide_pg_has_choice(connection->store);
}

/* A primary that returned, or another store, in front of the right one in a list of hosts: the
 * others are tried first from now on. */
static bool is_wrong_host(tide_pg_connection *connection, tide_status status, int attempt)
{
    const tide_store *store = connection->store;
    if (status != TIDE_E_MISMATCH || !atomic_load(&store->is_mismatched) ||
        attempt + 1 >= tide_pg_engine_of(store)->hosts.count)
        return false;
    connection->is_lost = true;
    tide_pg_note_silent(connection);
    return true;
}

static bool is_to_be_repeated(tide_store *store, int attempt, int64_t until_us)
{
    tide_env *env = store->env;
    if (attempt >= ATTEMPT_MAX || tide_cond_until(0) >= until_us)
        return false;
    env->sleep_us(env, tide_backoff_next(&retry_policy, attempt, env));
    return true;
}

/* A connection that broke is a failure of the store, also where its caller sees none: the closure
 * runs again, or its outcome was found out. */
static void report_lost(tide_pg_connection *connection, tide_status status, const tide_error *err)
{
    tide_error lost;
    if ((status < TIDE_OK && status != TIDE_E_SERIALIZATION) ||
        !tide_pg_connection_is_lost(connection))
        return;
    TIDE_IGNORE(
        tide_fail(&lost, TIDE_E_UNAVAILABLE, "lost the connection to %s", connection->store->name));
    tide_store_report_call(connection->store, TIDE_E_UNAVAILABLE, false,
                           status >= TIDE_OK ? &lost : err);
}

static tide_status pg_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    const int64_t until_us = tide_pg_call_until(store);
    call_state call = {0};
    for (int attempt = 0;; attempt++) {
        tide_pg_connection *connection = NULL;
        TIDE_TRY(tide_pg_acquire(&connection, store, true, until_us, err));
        assert(connection);
        tide_status status = write_once(connection, fn, arg, &call, false, err);
        if ((attempt == 0 && was_demoted(connection, status)) ||
            is_wrong_host(connection, status, attempt))
            status = TIDE_E_SERIALIZATION;
        report_lost(connection, status, err);
        tide_pg_release(connection);
        if (status != TIDE_E_SERIALIZATION || !is_to_be_repeated(store, attempt, until_us))
            return status;
    }
}

/* ---- write by id ---- */

/* A failure that leaves open what became of an earlier run. */
static bool is_still_open(tide_status status)
{
    return status == TIDE_E_OUTCOME_UNKNOWN || status == TIDE_E_SERIALIZATION ||
           status == TIDE_E_UNAVAILABLE || status == TIDE_E_BUSY || status == TIDE_E_TIMEOUT ||
           status == TIDE_E_MISMATCH;
}

/* The closure recognises by its id whether it has run before. In another epoch that proves nothing:
 * history may have been cut in front of it. */
static tide_status resolve_by_id(tide_store *store, tide_tx_fn *fn, void *arg, int64_t until_us,
                                 const char *epoch_id, tide_error *err)
{
    tide_error found = {.status = TIDE_OK};
    call_state call = {.is_alone = true};
    for (int attempt = 0; is_to_be_repeated(store, attempt, until_us); attempt++) {
        tide_pg_connection *connection = NULL;
        tide_status status = tide_pg_acquire(&connection, store, true, until_us, &found);
        bool is_same_epoch = true;
        if (status >= TIDE_OK) {
            status = write_once(connection, fn, arg, &call, true, &found);
            is_same_epoch = strcmp(connection->belief.epoch_id, epoch_id) == 0;
            tide_pg_release(connection);
        }
        if (!is_same_epoch)
            break;
        if (status < TIDE_OK && !is_still_open(status) && err)
            *err = found;
        if (!is_still_open(status))
            return status;
    }
    return TIDE_E_OUTCOME_UNKNOWN;
}

static tide_status pg_write_by_id(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    const int64_t until_us = tide_pg_call_until(store);
    call_state call = {0};
    for (int attempt = 0;; attempt++) {
        tide_pg_connection *connection = NULL;
        TIDE_TRY(tide_pg_acquire(&connection, store, true, until_us, err));
        assert(connection);
        tide_status status = write_once(connection, fn, arg, &call, false, err);
        if ((attempt == 0 && was_demoted(connection, status)) ||
            is_wrong_host(connection, status, attempt))
            status = TIDE_E_SERIALIZATION;
        report_lost(connection, status, err);
        char epoch_id[TIDE_SESSION_ID_SIZE];
        memcpy(epoch_id, connection->belief.epoch_id, sizeof epoch_id);
        tide_pg_release(connection);
        if (status == TIDE_E_OUTCOME_UNKNOWN) {
            tide_store_report_call(store, status, true, err); /* also if it is found out */
            return resolve_by_id(store, fn, arg, until_us, epoch_id, err);
        }
        if (status != TIDE_E_SERIALIZATION || !is_to_be_repeated(store, attempt, until_us))
            return status;
    }
}

/* ---- read ---- */

static tide_status read_once(tide_pg_connection *connection, tide_tx_fn *fn, void *arg,
                             call_state *call, bool is_local, tide_error *err)
{
    bool is_durable = true;
    connection->silences = call->silences;
    const tide_status status =
        tide_pg_run_read(connection, fn, arg, is_local, true, &is_durable, err);
    call->silences = connection->silences;
    if (status < TIDE_OK && connection->is_stale)
        return learn_server(connection, false, err);
    if (status >= TIDE_OK && !is_durable)
        TIDE_TRY(tide_pg_flush_read(connection, err));
    return status;
}

static tide_status pg_read(tide_store *store, tide_tx_fn *fn, void *arg, bool is_local,
                           tide_error *err)
{
    const int64_t until_us = tide_pg_call_until(store);
    call_state call = {0};
    for (int attempt = 0;; attempt++) {
        tide_pg_connection *connection = NULL;
        TIDE_TRY(tide_pg_acquire(&connection, store, false, until_us, err));
        assert(connection);
        tide_status status = read_once(connection, fn, arg, &call, is_local, err);
        if (is_wrong_host(connection, status, attempt))
            status = TIDE_E_SERIALIZATION;
        /* Reading changes nothing: a lost connection is no reason to fail. */
        const bool is_again =
            status == TIDE_E_SERIALIZATION || (status < TIDE_OK && status != TIDE_E_MISMATCH &&
                                               tide_pg_connection_is_lost(connection));
        report_lost(connection, is_again ? TIDE_E_SERIALIZATION : status, err);
        tide_pg_release(connection);
        if (!is_again || !is_to_be_repeated(store, attempt, until_us))
            return status;
    }
}

/* ---- beside transactions ---- */

/* On a connection of its own, closed afterwards, with everything that a caller's statement left in
 * its session. What it has seen is on disk before it succeeds. */
static tide_status pg_readonly_query(tide_store *store, const tide_readonly_query *query,
                                     tide_error *err)
{
    tide_pg_connection *own = NULL;
    const int64_t until_us = tide_pg_call_until(store);
    TIDE_TRY(tide_pg_connection_open(&own, store, false, until_us, err));
    int64_t is_flushed = !own->has_wal || !own->can_flush;
    /* The server ends the statement by itself, unless it is silent. */
    own->answer_by_us = tide_cond_until(query->timeout_us + tide_pg_cancel_us(store));
    tide_status status = tide_pg_readonly_query_run(own, query, err);
    if (status >= TIDE_OK && !is_flushed) {
        status = tide_pg_send(own, TIDE_PG_FLUSH_PROBE, (tide_pg_expectation){.value = &is_flushed},
                              err);
        if (status >= TIDE_OK)
            status = tide_pg_sync(own, err);
    }
    if (status >= TIDE_OK && !is_flushed) {
        own->answer_by_us = tide_pg_call_until(store);
        status = tide_pg_flush_on(own, err);
    }
    tide_pg_connection_close(own);
    return status;
}

static tide_status pg_watch(tide_store *store, tide_error *err)
{
    tide_pg_engine *engine = store->engine;
    return tide_watcher_start(&engine->listener.watcher, store, tide_pg_listen, err);
}

/* ---- life ---- */

/* libpq parses the port only when it connects. */
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

/* One server process answers only one direct connection. */
static tide_status check_sessions(tide_store *store, tide_error *err)
{
    const tide_pg_engine *engine = store->engine;
    const tide_pg_connection *first = engine->idle;
    const tide_pg_connection *second = engine->flusher.connection;
    const bool is_shared = first && second && first->backend_pid == second->backend_pid &&
                           strcmp(first->server, second->server) == 0;
    return is_shared ? tide_pg_fail_pooler(err, store) : TIDE_OK;
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
        const tide_status status =
            tide_fail(err, TIDE_E_INVALID, "malformed store URL: %s",
                      complaint ? complaint : tide_status_get(TIDE_E_NOMEM)->text);
        tide_pq.freemem(complaint);
        return status;
    }
    const tide_status checked = check_ports(parsed, err);
    tide_pg_engine *engine = checked >= TIDE_OK ? calloc(1, sizeof *engine) : NULL;
    if (engine)
        tide_pg_hosts_read(&engine->hosts, parsed);
    tide_pq.conninfoFree(parsed);
    TIDE_TRY(checked);
    TIDE_NEED_MEMORY(engine, err);
    (void)pthread_mutex_init(&engine->lock, NULL);
    (void)pthread_cond_init(&engine->has_idle, NULL);
    store->engine = engine;
    engine->url = strdup(target);
    tide_pg_flusher_init(&engine->flusher, store);
    tide_pg_listener_init(&engine->listener, store);
    engine->groups = tide_combiner_new(TIDE_COMBINER_BATCH_MAX, GROUPS_MAX, 0);
    TIDE_NEED_MEMORY(engine->url && engine->groups, err);
    const int64_t until_us = tide_pg_call_until(store);
    TIDE_TRY(tide_pg_connect_first(store, until_us, err));
    /* A standby is read without a primary, which may be away. */
    const bool is_on_standby = engine->idle && engine->idle->is_on_standby;
    if (engine->is_pooled || engine->is_reduced || is_on_standby)
        return TIDE_OK;
    TIDE_TRY(tide_pg_flusher_connect(&engine->flusher, until_us, err));
    return check_sessions(store, err);
}

static void pg_close(tide_store *store)
{
    tide_pg_engine *engine = store->engine;
    tide_pg_listener_done(&engine->listener);
    tide_pg_pool_done(engine);
    tide_pg_flusher_done(&engine->flusher);
    tide_combiner_free(engine->groups);
    (void)pthread_cond_destroy(&engine->has_idle);
    (void)pthread_mutex_destroy(&engine->lock);
    tide_pg_hosts_done(&engine->hosts);
    free(engine->url);
    free(engine);
}

const tide_engine_ops tide_pg_ops = {
    .engine = TIDE_ENGINE_POSTGRES,
    .name = "postgres",
    .open = pg_open,
    .close = pg_close,
    .write = pg_write,
    .write_by_id = pg_write_by_id,
    .read = pg_read,
    .now = tide_pg_now,
    .take_counters = tide_pg_take_counters,
    .script = tide_pg_script,
    .host = tide_pg_host,
    .describe = tide_pg_describe,
    .check = tide_pg_check,
    .backup = tide_pg_backup,
    .watch = pg_watch,
    .prepare = tide_pg_prepare,
    .step = tide_pg_step,
    .keep = tide_pg_keep,
    .reset = tide_pg_reset,
    .width = tide_pg_width,
    .column = tide_pg_column,
    .bulk_begin = tide_pg_bulk_begin,
    .bulk_row = tide_pg_bulk_row,
    .bulk_end = tide_pg_bulk_end,
    .readonly_query = pg_readonly_query,
};
