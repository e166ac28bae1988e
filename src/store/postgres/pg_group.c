/* pg_group.c - closures of several threads in one transaction.
 *
 *     BEGIN  guard   counters of A  rows of A   counters of B  rows of B   ...   COMMIT  flush
 *
 * Threads that want numbers of the same counters would queue for the counters' locks on the server.
 * They queue here instead: one of them sends what all that wait have declared and deferred, in
 * their order, as one transaction on its own connection, and the flush right behind it. Two groups
 * are under way at most: while one waits for the disk, the other takes its numbers. No closure
 * waits for others: a group consists of those that are queued.
 *
 * A closure joins if it has run without an answer of the server, and only with closures of the same
 * set of counters, so that a group takes its locks in the order in which each of its members would.
 *
 * If the transaction fails, nothing of it happened, and each member runs again alone
 * (docs/decisions/0003-no-savepoints-on-postgresql.md). An outcome that is not known is so for all.
 *
 * Threads: the leader uses the members' connections while these wait. */
#include <string.h>

#include "base/cond_wait.h"
#include "store/postgres/pg_engine.h"

enum { GROUP_BYTES_MAX = 1 << 20 };

typedef struct member {
    tide_pg_connection *connection;
    tide_status status;
    tide_error error;
    bool is_done;
} member;

/* Members of one transaction; it runs on the connection of the first. */
typedef struct group {
    member *members[TIDE_COMBINER_BATCH_MAX];
    tide_pg_connection *connections[TIDE_COMBINER_BATCH_MAX];
    int count;
} group;

bool tide_pg_can_share(const tide_pg_connection *connection)
{
    const tide_tx *tx = &connection->tx;
    return !connection->is_alone && connection->is_guarded && !connection->is_begun &&
           !tx->has_counters && tx->take_count > 0;
}

/* ---- members ---- */

/* FNV-1a over the keys of the counters. is_alike separates sets with the same value. */
static int64_t hash_counters(const tide_tx *tx)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < tx->take_count; i++)
        for (const char *at = tx->takes[i].key;; at++) {
            hash = (hash ^ (unsigned char)*at) * 0x100000001b3;
            if (*at == '\0')
                break;
        }
    return (int64_t)hash;
}

static bool has_same_counters(const tide_tx *a, const tide_tx *b)
{
    if (a->take_count != b->take_count)
        return false;
    for (int i = 0; i < a->take_count; i++)
        if (strcmp(a->takes[i].key, b->takes[i].key) != 0)
            return false;
    return true;
}

/* What one connection proves, commits and flushes holds for the other. */
static bool is_alike(const tide_pg_connection *a, const tide_pg_connection *b)
{
    return strcmp(a->server, b->server) == 0 && a->is_synchronous == b->is_synchronous &&
           a->has_wal == b->has_wal && strcmp(a->belief.epoch_id, b->belief.epoch_id) == 0 &&
           strcmp(a->belief.timeline, b->belief.timeline) == 0 &&
           strcmp(a->belief.started, b->belief.started) == 0 && has_same_counters(&a->tx, &b->tx);
}

static bool end_if_late(member *one)
{
    const tide_pg_connection *connection = one->connection;
    if (tide_cond_until(0) < connection->answer_by_us)
        return false;
    one->is_done = true;
    one->status = tide_fail(&one->error, TIDE_E_TIMEOUT, "no turn in time to write to %s",
                            connection->store->name);
    return true;
}

/* The first that is not done, and those behind it that may go with it. False: all are done. */
static bool gather(group *out, member **all, int count)
{
    size_t len = 0;
    out->count = 0;
    for (int i = 0; i < count; i++) {
        tide_pg_connection *connection = all[i]->connection;
        const size_t grown = len + connection->tx.deferred_len;
        const bool is_apart = out->count > 0 && (grown > GROUP_BYTES_MAX ||
                                                 !is_alike(out->connections[0], connection));
        if (all[i]->is_done || is_apart || end_if_late(all[i]))
            continue;
        len = grown;
        all[i]->is_done = true;
        out->members[out->count] = all[i];
        out->connections[out->count++] = connection;
    }
    return out->count > 0;
}

/* ---- one transaction ---- */

static void end_member(member *one, tide_status status, const tide_error *err)
{
    one->status = status;
    if (status < TIDE_OK && err)
        one->error = *err;
}

static void end_all(const group *g, tide_status status, const tide_error *err)
{
    for (int i = 0; i < g->count; i++) {
        end_member(g->members[i], status, err);
        g->connections[i]->is_resolved = true;
    }
}

/* Nothing happened. A closure that was alone has its own failure; where the guard refused, the
 * first finds out why. */
static void end_undone(const group *g, tide_status status, const tide_error *err)
{
    const bool is_stale = g->connections[0]->is_stale;
    for (int i = 0; i < g->count; i++) {
        const bool is_own = g->count == 1 || (is_stale && i == 0);
        end_member(g->members[i], is_own ? status : TIDE_E_SERIALIZATION, err);
        g->connections[i]->is_split = g->count > 1 && !is_stale;
    }
}

static void run_group(const group *g)
{
    tide_pg_connection *first = g->connections[0];
    tide_error err = {.status = TIDE_OK};
    tide_status status = tide_pg_send_group(first, g->connections, g->count, &err);
    if (status < TIDE_OK && !first->is_committed &&
        (first->is_stale || !tide_pg_connection_is_lost(first))) {
        tide_pg_roll_back(first);
        end_undone(g, status, &err);
        return;
    }
    status = tide_pg_connection_is_lost(first) ? tide_pg_resolve_lost(first, &err)
                                               : tide_pg_make_durable(first, &err);
    end_all(g, status, &err);
}

/* A tide_combiner_fn. */
static void run_groups(tide_combiner_turn *turn, void **whats, int count)
{
    (void)turn;
    member *all[TIDE_COMBINER_BATCH_MAX];
    for (int i = 0; i < count; i++)
        all[i] = whats[i];
    for (group g; gather(&g, all, count);)
        run_group(&g);
}

tide_status tide_pg_complete_shared(tide_pg_connection *connection, tide_error *err)
{
    tide_pg_engine *engine = connection->store->engine;
    member me = {.connection = connection, .status = TIDE_OK};
    tide_tx_sort_takes(&connection->tx);
    tide_combiner_do(engine->groups, hash_counters(&connection->tx), &me, run_groups);
    if (me.status < TIDE_OK) {
        if (err)
            *err = me.error;
        return me.status;
    }
    connection->is_committed = true;
    tide_pg_report_rows(connection);
    return TIDE_OK;
}
