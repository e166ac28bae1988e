/* duckdb_apart.c - a question that may be left alone.
 *
 * DuckDB looks at an interruption between two steps. One call of a function is one step, also while a statement is planned (constants are computed
 * then): repeat('x', 4000000000) goes on for minutes. So the question runs on a thread of its own, and who asked waits no longer than
 * its time and a little more, in which it can still be interrupted. What does not end then is left: it hands over nothing any more, and its
 * database is not taken from under it. */
#include <stdlib.h>
#include <string.h>

#include "base/cond_wait.h"
#include "base/thread.h"
#include "store/duckdb/duckdb_internal.h"

#define HEED_US INT64_C(1000000) /* how long an interruption may take */

typedef struct apart {
    pthread_mutex_t lock;
    pthread_cond_t over;
    tide_duckdb *db;
    char *text;
    tide_duck_ask ask;          /* with our own functions in it */
    const tide_duck_ask *given; /* while it is not left */
    bool is_over;
    bool is_left;
    tide_status status;
    tide_error err;
} apart;

static void apart_free(apart *a)
{
    if (!a)
        return;
    (void)pthread_cond_destroy(&a->over);
    (void)pthread_mutex_destroy(&a->lock);
    free(a->text);
    free(a);
}

static tide_status give_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    apart *a = arg;
    (void)pthread_mutex_lock(&a->lock);
    const tide_status status = a->is_left ? tide_fail(err, TIDE_E_INTERRUPTED, "nobody waits")
                                          : a->given->columns(a->given->arg, names, count, err);
    (void)pthread_mutex_unlock(&a->lock);
    return status;
}

static tide_status give_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    apart *a = arg;
    (void)pthread_mutex_lock(&a->lock);
    const tide_status status = a->is_left ? tide_fail(err, TIDE_E_INTERRUPTED, "nobody waits")
                                          : a->given->row(a->given->arg, cells, count, err);
    (void)pthread_mutex_unlock(&a->lock);
    return status;
}

static void *run(void *arg)
{
    apart *a = arg;
    a->status = tide_duckdb_ask(a->db, &a->ask, &a->err);
    (void)pthread_mutex_lock(&a->lock);
    a->is_over = true;
    const bool is_left = a->is_left;
    (void)pthread_cond_signal(&a->over);
    (void)pthread_mutex_unlock(&a->lock);
    if (is_left) {
        atomic_fetch_sub(&a->db->left_count, 1);
        apart_free(a);
    }
    return NULL;
}

static apart *apart_new(tide_duckdb *db, const tide_duck_ask *ask)
{
    apart *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    (void)pthread_mutex_init(&a->lock, NULL);
    (void)pthread_cond_init(&a->over, NULL);
    a->db = db;
    a->given = ask;
    a->text = strdup(ask->text);
    a->ask = *ask;
    a->ask.text = a->text;
    a->ask.columns = give_columns;
    a->ask.row = give_row;
    a->ask.arg = a;
    if (!a->text) {
        apart_free(a);
        return NULL;
    }
    return a;
}

/* True: it has ended. False: it is left, and frees itself. */
static bool wait_for(apart *a)
{
    const int64_t until_us = tide_cond_until(a->ask.timeout_us + HEED_US);
    (void)pthread_mutex_lock(&a->lock);
    while (!a->is_over && tide_cond_wait(&a->over, &a->lock, until_us)) {
    }
    const bool is_over = a->is_over;
    a->is_left = !is_over;
    if (!is_over)
        atomic_fetch_add(&a->db->left_count, 1);
    (void)pthread_mutex_unlock(&a->lock);
    return is_over;
}

tide_status tide_duckdb_ask_apart(tide_duckdb *db, const tide_duck_ask *ask, tide_error *err)
{
    if (atomic_load(&db->left_count) > 0)
        return tide_fail(err, TIDE_E_BUSY,
                         "a query whose time is over cannot be stopped before its next step, and "
                         "no other begins until it is done");
    apart *a = apart_new(db, ask);
    if (!a)
        return tide_no_memory(err);
    pthread_t thread;
    const tide_status started = tide_thread_start(&thread, run, a, err);
    if (started < TIDE_OK) {
        apart_free(a);
        return started;
    }
    if (!wait_for(a)) {
        (void)pthread_detach(thread);
        return tide_fail(err, TIDE_E_TIMEOUT,
                         "the query took longer than %lld ms, and cannot be stopped at once",
                         (long long)(ask->timeout_us / 1000));
    }
    (void)pthread_join(thread, NULL);
    const tide_status status = a->status;
    if (err)
        *err = a->err;
    apart_free(a);
    return status;
}
