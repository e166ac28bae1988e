#include "store/postgres/pg_flush.h"

#include <stdio.h>
#include <string.h>

#include "base/cond_wait.h"
#include "base/lock.h"
#include "tidemark_sql.h"

enum { QUERY_EVERY_US = 2000 };

void tide_pg_flusher_init(tide_pg_flusher *flusher, tide_store *store)
{
    *flusher = (tide_pg_flusher){.store = store};
    (void)pthread_mutex_init(&flusher->lock, NULL);
    (void)pthread_cond_init(&flusher->changed, NULL);
}

void tide_pg_flusher_done(tide_pg_flusher *flusher)
{
    tide_pg_connection_close(flusher->connection);
    (void)pthread_cond_destroy(&flusher->changed);
    (void)pthread_mutex_destroy(&flusher->lock);
}

static tide_status connect_witness(tide_pg_flusher *flusher, int64_t until_us, bool *is_new,
                                   tide_error *err)
{
    *is_new = !flusher->connection || !tide_pg_connection_is_alive(flusher->connection);
    if (!*is_new)
        return TIDE_OK;
    tide_pg_connection_close(flusher->connection);
    flusher->connection = NULL;
    return tide_pg_connection_open(&flusher->connection, flusher->store, true, until_us, err);
}

/* A WARNING (a wait for a standby that was cancelled) means that the commit may not be durable. */
tide_status tide_pg_flush_on(tide_pg_connection *connection, tide_error *err)
{
    connection->has_warned = false;
    connection->has_standby_wait = false;
    TIDE_TRY(tide_pg_send(connection, TIDE_PG_FLUSH, (tide_pg_expectation){.is_flush = true}, err));
    TIDE_TRY(tide_pg_sync(connection, err));
    if (connection->has_warned)
        return tide_fail(err, TIDE_E_OUTCOME_UNKNOWN, "the server warned while flushing the WAL");
    return TIDE_OK;
}

/* With the lock held. */
static void begin_generation(tide_pg_flusher *flusher)
{
    flusher->generation++;
    (void)snprintf(flusher->server, sizeof flusher->server, "%s",
                   flusher->connection ? flusher->connection->server : "");
}

typedef struct tide_pg_flush_wait {
    tide_status status;
    uint64_t generation; /* of the flush that answered */
    uint64_t wal;        /* ... and its position */
    bool is_standby_away;
    bool is_answered;
    struct tide_pg_flush_wait *next;
} flush_wait;

/* With the lock held: the node is its owner's again. */
static void remove_wait(tide_pg_flusher *flusher, const flush_wait *wait)
{
    flush_wait **const lists[] = {&flusher->waiting, &flusher->served};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (flush_wait **at = lists[i]; *at; at = &(*at)->next)
            if (*at == wait) {
                *at = wait->next;
                return;
            }
}

/* Called with the lock held; returns with it held. */
static void lead(tide_pg_flusher *flusher, int64_t until_us)
{
    flusher->served = flusher->waiting;
    flusher->waiting = NULL;
    flusher->is_led = true;
    (void)pthread_mutex_unlock(&flusher->lock);
    tide_error ignored;
    bool is_new = false;
    bool is_standby_away = false;
    uint64_t wal = 0;
    tide_status status = connect_witness(flusher, until_us, &is_new, &ignored);
    if (status >= TIDE_OK) {
        flusher->connection->answer_by_us = until_us;
        status = tide_pg_flush_on(flusher->connection, &ignored);
        is_standby_away = flusher->connection->has_standby_wait;
        wal = flusher->connection->flush_wal;
        flusher->connection->answer_by_us = 0;
        /* What was abandoned has been cancelled. Its session is closed. */
        if (tide_pg_connection_is_lost(flusher->connection)) {
            tide_pg_connection_close(flusher->connection);
            flusher->connection = NULL;
        }
    }
    (void)pthread_mutex_lock(&flusher->lock);
    flusher->is_led = false;
    if (is_new)
        begin_generation(flusher);
    while (flusher->served) {
        flush_wait *wait = flusher->served;
        flusher->served = wait->next;
        wait->status = status;
        wait->generation = flusher->generation;
        wait->wal = wal;
        wait->is_standby_away = is_standby_away;
        wait->is_answered = true;
    }
    (void)pthread_cond_broadcast(&flusher->changed);
}

uint64_t tide_pg_flusher_generation(tide_pg_flusher *flusher, const char *server)
{
    TIDE_HOLD(&flusher->lock);
    const bool is_same = server[0] && strcmp(server, flusher->server) == 0;
    return is_same ? flusher->generation : 0;
}

tide_status tide_pg_flush(tide_pg_flusher *flusher, uint64_t generation, int64_t until_us,
                          uint64_t *wal, bool *is_standby_away, tide_error *err)
{
    (void)pthread_mutex_lock(&flusher->lock);
    flush_wait mine = {.next = flusher->waiting};
    flusher->waiting = &mine;
    bool is_patient = true;
    while (!mine.is_answered && is_patient) {
        if (flusher->is_led)
            is_patient = tide_cond_wait(&flusher->changed, &flusher->lock, until_us);
        else
            lead(flusher, until_us);
    }
    if (!mine.is_answered)
        remove_wait(flusher, &mine);
    (void)pthread_mutex_unlock(&flusher->lock);
    *is_standby_away = mine.is_standby_away;
    *wal = mine.wal;
    if (mine.is_answered && mine.status >= TIDE_OK && mine.generation == generation)
        return TIDE_OK;
    const bool is_late = tide_cond_until(0) >= until_us;
    return tide_fail(err, is_late ? TIDE_E_TIMEOUT : TIDE_E_UNAVAILABLE,
                     "cannot flush the WAL of %s%s", flusher->store->name,
                     mine.is_standby_away ? ": waiting for synchronous standby" : "");
}

tide_status tide_pg_flusher_connect(tide_pg_flusher *flusher, int64_t until_us, tide_error *err)
{
    TIDE_HOLD(&flusher->lock);
    while (flusher->is_led)
        (void)pthread_cond_wait(&flusher->changed, &flusher->lock);
    bool is_new = false;
    const tide_status status = connect_witness(flusher, until_us, &is_new, err);
    if (is_new)
        begin_generation(flusher);
    return status;
}

/* One query on the witness, which must not be reconnected for it. */
static tide_pg_outcome query_outcome(tide_pg_connection *witness, const char *xid, bool *is_running)
{
    const char *values[] = {xid};
    *is_running = false;
    tide_pg_outcome outcome = TIDE_PG_UNKNOWN;
    if (tide_pq.sendQueryParams(witness->pg,
                                TIDE_SQL_TRANSACTION_STATUS->engine[TIDE_ENGINE_POSTGRES].text, 1,
                                NULL, values, NULL, NULL, 0) != 1 ||
        tide_pq.pipelineSync(witness->pg) != 1)
        return outcome;
    PGresult *result = tide_pg_next_result(witness);
    if (tide_pq.resultStatus(result) == PGRES_TUPLES_OK && tide_pq.ntuples(result) == 1) {
        const char *state = tide_pq.getvalue(result, 0, 0);
        *is_running = strcmp(state, "in progress") == 0;
        if (strcmp(state, "committed") == 0)
            outcome = TIDE_PG_COMMITTED;
        else if (strcmp(state, "aborted") == 0)
            outcome = TIDE_PG_ABORTED;
    }
    tide_pq.clear(result);
    tide_pq.clear(tide_pg_next_result(witness));
    tide_pq.clear(tide_pg_next_result(witness));
    return outcome;
}

tide_pg_outcome tide_pg_flusher_outcome(tide_pg_flusher *flusher, uint64_t generation,
                                        const char *xid, int64_t until_us)
{
    tide_env *env = flusher->store->env;
    tide_pg_outcome outcome = TIDE_PG_UNKNOWN;
    bool is_running = xid[0] != '\0';
    while (is_running && tide_cond_until(0) < until_us) {
        bool is_patient = true;
        (void)pthread_mutex_lock(&flusher->lock);
        while (flusher->is_led && is_patient)
            is_patient = tide_cond_wait(&flusher->changed, &flusher->lock, until_us);
        is_running = is_patient && flusher->generation == generation && flusher->connection &&
                     tide_pg_connection_is_alive(flusher->connection);
        if (is_running) {
            flusher->connection->answer_by_us = until_us;
            outcome = query_outcome(flusher->connection, xid, &is_running);
            flusher->connection->answer_by_us = 0;
        }
        (void)pthread_mutex_unlock(&flusher->lock);
        if (is_running)
            env->sleep_us(env, QUERY_EVERY_US);
    }
    return outcome;
}
