/* pg_outcome.c - outcome of a commit.
 *
 *     before COMMIT is sent        nothing happened; the closure runs again
 *     session ended by the server  its notice follows its responses: without one to COMMIT, run
 *                                  again
 *     COMMIT sent, no answer       the witness looks up the transaction's id: committed, or run
 *                                  again. Without witness or id: outcome unknown
 *     COMMIT answered, no flush    flushed on the committer's own connection; if that is lost:
 *                                  outcome unknown
 *     flush answered               durable
 *     synchronous COMMIT, or a flush behind it on the same connection, answered
 *                                  durable, unless the server warned that it gave up waiting for a
 *                                  standby */
#include <string.h>

#include "base/cond_wait.h"
#include "base/lock.h"
#include "store/identity_marker.h"
#include "store/postgres/pg_engine.h"

enum { REASON_US = 500000 };

static const char standby_reason[] = "waiting for synchronous standby";

/* On the committer's own connection, which is idle. */
static bool is_standby_awaited(tide_pg_connection *connection)
{
    tide_error ignored;
    int64_t is_waiting = 0;
    const int64_t end_us = connection->answer_by_us + tide_pg_cancel_us(connection->store);
    const int64_t until_us = tide_cond_until(REASON_US);
    if (tide_pg_connection_is_lost(connection) || tide_cond_until(0) >= end_us)
        return false;
    connection->answer_by_us = until_us < end_us ? until_us : end_us;
    connection->is_discardable = true;
    const bool is_known =
        tide_pg_send(connection, TIDE_PG_STANDBY_WAIT, (tide_pg_expectation){.value = &is_waiting},
                     &ignored) >= TIDE_OK &&
        tide_pg_sync(connection, &ignored) >= TIDE_OK;
    connection->is_discardable = false;
    return is_known && is_waiting != 0;
}

/* What was in the WAL at the flush or in front of the commit, or else when the transaction began,
 * is durable now: a server that has less of it has lost history. */
static void note_wal(tide_pg_connection *connection)
{
    tide_store *store = connection->store;
    const uint64_t wal = connection->flush_wal > 0 ? connection->flush_wal : connection->begin_wal;
    TIDE_HOLD(&store->identity_lock);
    if (wal == 0 || strcmp(connection->belief.epoch_id, store->identity.epoch_id) != 0 ||
        strcmp(connection->belief.timeline, store->host.timeline) != 0)
        return;
    if (wal > store->host.wal)
        store->host.wal = wal;
    tide_identity_marker_raise(store->marker, (int64_t)wal, store->identity.epoch);
}

static tide_status flush(tide_pg_connection *connection, bool *is_standby_away, tide_error *err)
{
    tide_pg_engine *engine = connection->store->engine;
    const int64_t until_us = connection->answer_by_us;
    const tide_status status = tide_pg_flush(&engine->flusher, connection->witness, until_us,
                                             &connection->flush_wal, is_standby_away, err);
    if (status >= TIDE_OK)
        return TIDE_OK;
    if (status == TIDE_E_TIMEOUT) {
        *is_standby_away = *is_standby_away || is_standby_awaited(connection);
        return status;
    }
    const tide_status own = tide_pg_flush_on(connection, err);
    *is_standby_away = connection->has_standby_wait;
    return own;
}

tide_status tide_pg_make_durable(tide_pg_connection *connection, tide_error *err)
{
    bool is_standby_away = connection->has_standby_wait;
    if (!connection->is_commit_sent || connection->is_vain)
        return TIDE_OK; /* nothing was read or written, or nothing came of it */
    const bool is_carried = connection->is_synchronous || connection->is_flushed;
    const bool is_durable =
        is_carried ? !connection->has_warned : flush(connection, &is_standby_away, err) >= TIDE_OK;
    if (is_durable) {
        note_wal(connection);
        return TIDE_OK;
    }
    return tide_fail(err, TIDE_E_OUTCOME_UNKNOWN,
                     "committed on %s, but not known to be durable%s%s", connection->store->name,
                     is_standby_away ? ": " : "", is_standby_away ? standby_reason : "");
}

tide_status tide_pg_flush_read(tide_pg_connection *connection, tide_error *err)
{
    bool is_standby_away = false;
    const tide_status status = flush(connection, &is_standby_away, err);
    if (status >= TIDE_OK)
        return TIDE_OK;
    return tide_fail(err, status == TIDE_E_OUTCOME_UNKNOWN ? TIDE_E_TIMEOUT : status,
                     "what was read from %s is not known to be durable%s%s",
                     connection->store->name, is_standby_away ? ": " : "",
                     is_standby_away ? standby_reason : "");
}

tide_status tide_pg_resolve_lost(tide_pg_connection *connection, tide_error *err)
{
    tide_pg_engine *engine = connection->store->engine;
    /* A session that is ended while its commit waits for a standby warns that it is committed
     * here. */
    const bool is_undone =
        connection->is_ended && !connection->is_committed && !connection->has_warned;
    if (!connection->is_commit_sent || is_undone)
        return connection->has_timed_out ? TIDE_E_TIMEOUT : TIDE_E_SERIALIZATION;
    bool is_standby_away = connection->has_standby_wait;
    switch (tide_pg_flusher_outcome(&engine->flusher, connection->witness, connection->xid,
                                    connection->answer_by_us)) {
    case TIDE_PG_ABORTED:
        return TIDE_E_SERIALIZATION;
    case TIDE_PG_COMMITTED:
        if (tide_pg_flush(&engine->flusher, connection->witness, connection->answer_by_us,
                          &connection->flush_wal, &is_standby_away, err) < TIDE_OK)
            break;
        /* Without them OK would hand out numbers and rows that were never read. */
        if (connection->is_unanswered)
            return tide_fail(err, TIDE_E_OUTCOME_UNKNOWN,
                             "committed on %s, but the connection was lost before its answer came",
                             connection->store->name);
        return TIDE_OK;
    case TIDE_PG_UNKNOWN:
        break;
    }
    return tide_fail(err, TIDE_E_OUTCOME_UNKNOWN, "%s %s during the commit%s%s",
                     connection->has_timed_out ? "no response from" : "lost the connection to",
                     connection->store->name, is_standby_away ? ": " : "",
                     is_standby_away ? standby_reason : "");
}
