/* store.c - opening by URL, and the public face of an engine. */
#include <tidemark/store.h>

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/lock.h"
#include "store/engine.h"
#include "store/identity.h"
#include "store/identity_marker.h"
#include "store/readonly_query.h"
#include "store/statement.h"
#include "store/url.h"
#include "tidemark_sql.h"

#define DEFAULT_WAIT_US INT64_C(10000000)
#define DEFAULT_CLOSURE_US INT64_C(30000000)
#define DEFAULT_TIMEOUT_US INT64_C(30000000)
#define DEFAULT_WAL_MAX (INT64_C(1) << 30)

enum {
    DEFAULT_CONNECTIONS = 16,
    DEFAULT_QUEUE = 4096,
    CONNECTIONS_MAX = 10000,
    QUEUE_MAX = 1 << 20,
    /* Calls of one kind that share a transaction, and such transactions under way: one that waits
     * does not hold up all. Two of eight calls took an eighth less time than one of sixteen
     * (docs/benchmarks.md). */
    COMBINED_MAX = 8,
    COMBINED_AT_ONCE = 2,
    COMBINED_PATIENCE_US = 1000,
    /* Large calls gain little by sharing: a transaction keeps one processor busy. */
    COMBINED_LARGE_MAX = 6,
};

static const tide_engine_ops *const engines[TIDE_ENGINE_COUNT] = {
    [TIDE_ENGINE_SQLITE] = &tide_sqlite_ops,
    [TIDE_ENGINE_POSTGRES] = &tide_pg_ops,
};

static tide_status check_options(const tide_store_options *options, tide_error *err)
{
    if (options->env)
        TIDE_TRY(tide_env_check(options->env, err));
    if ((unsigned)options->mode > TIDE_STORE_AS_IS ||
        (unsigned)options->pg_pooler > TIDE_PG_POOLER_TRANSACTION)
        return tide_fail(err, TIDE_E_INVALID, "tide_store_options: mode %d, pg_pooler %d: unknown",
                         (int)options->mode, (int)options->pg_pooler);
    if (options->wait_us < 0 || options->closure_us < 0 || options->timeout_us < 0 ||
        options->connection_max < 0 || options->connection_max > CONNECTIONS_MAX ||
        options->queue_max < 0 || options->queue_max > QUEUE_MAX || options->wal_max < 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "tide_store_options: times and sizes are not below 0; connection_max is "
                         "at most %d, queue_max at most %d",
                         CONNECTIONS_MAX, QUEUE_MAX);
    return TIDE_OK;
}

static void fill_defaults(tide_store_options *options)
{
    if (!options->env)
        options->env = tide_env_system();
    if (options->wait_us == 0)
        options->wait_us = DEFAULT_WAIT_US;
    if (options->closure_us == 0)
        options->closure_us = DEFAULT_CLOSURE_US;
    if (options->timeout_us == 0)
        options->timeout_us =
            options->closure_us > DEFAULT_TIMEOUT_US ? options->closure_us : DEFAULT_TIMEOUT_US;
    if (options->connection_max == 0)
        options->connection_max = DEFAULT_CONNECTIONS;
    if (options->queue_max == 0)
        options->queue_max = DEFAULT_QUEUE;
    if (options->wal_max == 0)
        options->wal_max = DEFAULT_WAL_MAX;
}

static tide_status open_engine(tide_store *store, const char *target, tide_error *err)
{
    store->open_until_us = tide_cond_until(store->options.timeout_us);
    TIDE_TRY(store->ops->open(store, target, err));
    TIDE_TRY(tide_store_migrate(store, store->migrations, err));
    TIDE_TRY(tide_identity_establish(store, err));
    store->open_until_us = 0;
    return TIDE_OK;
}

tide_status tide_store_open_with(tide_store **out, const char *url,
                                 const tide_store_options *options,
                                 const tide_migration *migrations, tide_error *err)
{
    tide_store_url parsed;
    tide_store_options own;
    TIDE_TRY(TIDE_SIZED_COPY_OPTIONAL(&own, options, tide_store_options, err));
    TIDE_TRY(check_options(&own, err));
    TIDE_TRY(tide_store_url_parse(&parsed, url, err));
    TIDE_NEW(tide_store, store, err);
    store->options = own;
    fill_defaults(&store->options);
    store->env = store->options.env;
    store->migrations = migrations;
    store->ops = engines[parsed.engine];
    store->name = tide_store_url_redact(url);
    (void)pthread_mutex_init(&store->identity_lock, NULL);
    (void)pthread_mutex_init(&store->watch_lock, NULL);
    (void)pthread_mutex_init(&store->user_lock, NULL);
    (void)pthread_cond_init(&store->has_left, NULL);
    store->pid = getpid();
    store->combiners[false] =
        tide_combiner_new(COMBINED_MAX, COMBINED_AT_ONCE, COMBINED_PATIENCE_US);
    store->combiners[true] = tide_combiner_new(COMBINED_LARGE_MAX, COMBINED_AT_ONCE, 0);
    tide_status status = TIDE_OK;
    if (!store->name || !store->combiners[false] || !store->combiners[true])
        status = tide_no_memory(err);
    if (status >= TIDE_OK)
        status = open_engine(store, parsed.target, err);
    if (status < TIDE_OK) {
        tide_store_close(store);
        return status;
    }
    *out = store;
    return TIDE_OK;
}

tide_status tide_store_open(tide_store **out, const char *url, const tide_store_options *options,
                            tide_error *err)
{
    TIDE_NEED(out && url, err);
    return tide_store_open_with(out, url, options, tide_sql_migrations, err);
}

/* A call begins. Closing waits until all have ended. */
static tide_status enter(tide_store *store, tide_error *err)
{
    if (tide_tx_is_inside(store))
        return tide_fail(
            err, TIDE_E_INVALID,
            "a closure called its own store %s again; use the tide_tx that it was given",
            store->name);
    if (store->pid != getpid())
        return tide_fail(err, TIDE_E_INVALID,
                         "%s was opened before a fork; a child process opens its own", store->name);
    TIDE_HOLD(&store->user_lock);
    store->users++;
    return TIDE_OK;
}

/* Is it the store that failed, and not what was asked of it? A write that is denied found the store
 * read-only: no closure refuses by that status. */
static bool is_of_store(tide_store *store, tide_status status, bool is_write)
{
    return status == TIDE_E_UNAVAILABLE || status == TIDE_E_BUSY || status == TIDE_E_TIMEOUT ||
           status == TIDE_E_OUTCOME_UNKNOWN || status == TIDE_E_FULL || status == TIDE_E_IO ||
           status == TIDE_E_DAMAGED || (is_write && status == TIDE_E_DENIED) ||
           (status == TIDE_E_MISMATCH && atomic_load(&store->is_mismatched));
}

/* Each failure, and the first success behind one. A store that is full, read-only or locked can
 * still be read, so only a write ends a failure of writes. */
void tide_store_report_call(tide_store *store, tide_status status, bool is_write,
                            const tide_error *err)
{
    const bool is_failure = is_of_store(store, status, is_write);
    const bool ends_failure =
        atomic_load(&store->is_write_failing) ? is_write : atomic_load(&store->is_failing);
    if (!is_failure && (status < TIDE_OK || !ends_failure))
        return;
    atomic_store(&store->is_failing, is_failure);
    if (is_write)
        atomic_store(&store->is_write_failing, is_failure);
    (void)pthread_mutex_lock(&store->identity_lock);
    tide_store_failure_fn *report = store->on_failure;
    void *arg = store->on_failure_arg;
    (void)pthread_mutex_unlock(&store->identity_lock);
    if (!report)
        return;
    if (is_failure)
        report(arg, status, err && err->text[0] ? err->text : tide_status_get(status)->text);
    else
        report(arg, TIDE_OK, "");
}

static void end_call(tide_store *store)
{
    TIDE_HOLD(&store->user_lock);
    if (--store->users == 0)
        (void)pthread_cond_broadcast(&store->has_left);
}

static tide_status leave(tide_store *store, tide_status status, bool is_write,
                         const tide_error *err)
{
    tide_store_report_call(store, status, is_write, err);
    end_call(store);
    return status;
}

static void wait_for_users(tide_store *store)
{
    TIDE_HOLD(&store->user_lock);
    while (store->users > 0)
        (void)pthread_cond_wait(&store->has_left, &store->user_lock);
}

void tide_store_close(tide_store *store)
{
    /* A closure of the store would wait for itself. In a child process nothing of it can be closed
     * without harm to the parent: it stays until the child ends. */
    if (!store || store->pid != getpid() || tide_tx_is_inside(store))
        return;
    wait_for_users(store);
    if (store->engine)
        store->ops->close(store);
    (void)pthread_cond_destroy(&store->has_left);
    (void)pthread_mutex_destroy(&store->user_lock);
    (void)pthread_mutex_destroy(&store->identity_lock);
    (void)pthread_mutex_destroy(&store->watch_lock);
    for (int i = 0; i < 2; i++)
        tide_combiner_free(store->combiners[i]);
    tide_identity_marker_close(store->marker);
    free(store->epoch_path);
    free(store->name);
    free(store);
}

TIDE_CLOSE_FN(tide_store_closep, tide_store, tide_store_close)

tide_engine tide_store_engine(const tide_store *store)
{
    return store ? store->ops->engine : TIDE_ENGINE_SQLITE;
}

tide_env *tide_store_env(const tide_store *store)
{
    return store ? store->env : NULL;
}

const char *tide_store_name(const tide_store *store)
{
    return store ? store->name : "";
}

tide_status tide_store_describe(tide_store *store, tide_store_describe_fn *fn, void *arg,
                                tide_error *err)
{
    TIDE_NEED(store && fn, err);
    fn(arg, "engine", store->ops->name);
    return store->ops->describe(store, fn, arg, err);
}

/* A statement that cannot be prepared misses a table or a column. */
static tide_status prepare_everything(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    for (const tide_sql *sql = tide_sql_catalogue; sql->name; sql++) {
        const bool is_copy = sql->is_bulk && tx->store->ops->engine == TIDE_ENGINE_POSTGRES;
        if (!sql->engine[tx->store->ops->engine].text || is_copy)
            continue;
        tide_query *query = NULL;
        TIDE_TRY(tide_query_begin(&query, tx, sql, err));
        tide_query_end(query);
    }
    return TIDE_OK;
}

tide_status tide_store_verify(tide_store *store, tide_store_finding_fn *fn, void *arg,
                              tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_TRY(store->ops->check(store, fn, arg, err));
    tide_error missing;
    const bool is_whole = !store->is_older && store->migrations == tide_sql_migrations;
    if (!is_whole || tide_store_read_local(store, prepare_everything, NULL, &missing) >= TIDE_OK)
        return TIDE_OK;
    if (missing.status != TIDE_E_FAILED) {
        if (err)
            *err = missing;
        return missing.status;
    }
    fn(arg, missing.text);
    return tide_fail(err, TIDE_E_DAMAGED, "%s lacks a part of its schema", store->name);
}

tide_status tide_store_backup(tide_store *store, const char *path, tide_error *err)
{
    TIDE_NEED(store && path, err);
    return store->ops->backup(store, path, err);
}

tide_status tide_store_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    if (store->options.mode == TIDE_STORE_AS_IS)
        return tide_fail(err, TIDE_E_DENIED, "%s was opened for reading only", store->name);
    TIDE_TRY(enter(store, err));
    return leave(store, store->ops->write(store, fn, arg, err), true, err);
}

tide_status tide_store_write_by_id(tide_store *store, tide_tx_fn *fn, void *arg, bool is_callers_id,
                                   tide_error *err)
{
    TIDE_NEED(store && fn, err);
    if (!store->ops->write_by_id)
        return tide_store_write(store, fn, arg, err);
    if (store->options.mode == TIDE_STORE_AS_IS)
        return tide_fail(err, TIDE_E_DENIED, "%s was opened for reading only", store->name);
    tide_error unknown = {.status = TIDE_OK};
    TIDE_TRY(enter(store, err));
    const tide_status status =
        leave(store, store->ops->write_by_id(store, fn, arg, &unknown), true, &unknown);
    if (status == TIDE_E_OUTCOME_UNKNOWN && is_callers_id)
        return tide_fail_advised(err, TIDE_E_UNAVAILABLE, "%s; repeating with the same id is safe",
                                 unknown.text);
    if (status < TIDE_OK && err)
        *err = unknown;
    return status;
}

/* The calls of fn report their outcomes themselves. */
tide_status tide_store_combine(tide_store *store, bool is_large, void *what, tide_combiner_fn *fn,
                               tide_error *err)
{
    TIDE_TRY(enter(store, err));
    tide_combiner_do(store->combiners[is_large], 0, what, fn);
    end_call(store);
    return TIDE_OK;
}

tide_status tide_store_read(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_TRY(enter(store, err));
    return leave(store, store->ops->read(store, fn, arg, false, err), false, err);
}

tide_status tide_store_read_local(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_TRY(enter(store, err));
    return leave(store, store->ops->read(store, fn, arg, true, err), false, err);
}

tide_status tide_readonly_query_run(tide_store *store, const tide_readonly_query *query,
                                    tide_error *err)
{
    TIDE_TRY(enter(store, err));
    return leave(store, store->ops->readonly_query(store, query, err), false, err);
}
