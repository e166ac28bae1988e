/* pg_connect.c - opening a PostgreSQL connection: refusals, the server's identity, proxies. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "store/postgres/pg_engine.h"
#include "tidemark_sql.h"

enum {
    CONNECT_US = 20000000, /* for a host to answer; it may have two addresses */
    SILENCE_MS_MIN = 2000, /* after which the kernel gives up a peer that acknowledges nothing */
    SILENCE_MS_MAX = 10000,
    SQLSTATE_LEN = 5,
    OPTION_MAX = 10,
    ANY_HOST = -1, /* libpq's choice */
};

/* Notices of the server. */
static void receive_notice(void *arg, const PGresult *result)
{
    tide_pg_connection *connection = arg;
    const char *severity = tide_pq.resultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *function = tide_pq.resultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
    if (severity && strcmp(severity, "WARNING") == 0) {
        connection->has_warned = true;
        if (function && strcmp(function, "SyncRepWaitForLSN") == 0)
            connection->has_standby_wait = true;
    }
    if (severity && strcmp(severity, "FATAL") == 0)
        connection->is_ended = true;
}

/* ---- connecting ---- */

typedef struct connect_options {
    const char *keys[OPTION_MAX];
    const char *values[OPTION_MAX];
    char silence_ms[16];
} connect_options;

/* Values of the URL override those before it. The encoding and the choice of a server override the
 * URL. choice NULL: any host. is_any: also one that the URL does not admit. */
static void fill_options(connect_options *out, const char *url, const tide_pg_endpoint *choice,
                         bool is_any, int64_t until_us)
{
    int64_t silence_ms = (until_us - tide_cond_until(0)) / 1000;
    if (silence_ms < SILENCE_MS_MIN)
        silence_ms = SILENCE_MS_MIN;
    if (silence_ms > SILENCE_MS_MAX)
        silence_ms = SILENCE_MS_MAX;
    (void)snprintf(out->silence_ms, sizeof out->silence_ms, "%d", (int)silence_ms);
    const char *const pairs[][2] = {
        {"tcp_user_timeout", out->silence_ms},
        {"keepalives_idle", "30"},
        {"dbname", url},
        {"fallback_application_name", "tidemark"},
        {"client_encoding", "UTF8"},
        {"host", choice && choice->host[0] ? choice->host : NULL},
        {"hostaddr", choice && choice->hostaddr[0] ? choice->hostaddr : NULL},
        {"port", choice && choice->port[0] ? choice->port : NULL},
        {"target_session_attrs", is_any ? "any" : NULL},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (!pairs[i][1])
            continue;
        out->keys[count] = pairs[i][0];
        out->values[count++] = pairs[i][1];
    }
    out->keys[count] = NULL;
    out->values[count] = NULL;
}

/* PQconnectdb cannot be ended early, and waits whole seconds. Besides, libpq has no SQLSTATE of a
 * connection that failed: it is part of the message if errors are verbose, which can be set only
 * between start and end of connecting. */
static PGconn *connect_until(const connect_options *options, int64_t until_us)
{
    PGconn *pg = tide_pq.connectStartParams(options->keys, options->values, 1);
    if (!pg)
        return NULL;
    (void)tide_pq.setErrorVerbosity(pg, PQERRORS_VERBOSE);
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (tide_pq.status(pg) != CONNECTION_BAD &&
           (state == PGRES_POLLING_READING || state == PGRES_POLLING_WRITING)) {
        struct pollfd ready = {.fd = tide_pq.socket(pg),
                               .events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        const int64_t left_us = until_us - tide_cond_until(0);
        if (left_us <= 0 || (poll(&ready, 1, (int)(left_us / 1000) + 1) < 0 && errno != EINTR))
            break;
        if (ready.revents != 0)
            state = tide_pq.connectPoll(pg);
    }
    (void)tide_pq.setErrorVerbosity(pg, PQERRORS_DEFAULT);
    return pg;
}

/* ---- refusals ---- */

/* "FATAL:  28P01: text" becomes "FATAL:  text". "": the message has no SQLSTATE. */
static void cut_sqlstate(char *text, char out[SQLSTATE_LEN + 1])
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    out[0] = '\0';
    for (char *at = strstr(text, ":  "); at; at = strstr(at + 1, ":  ")) {
        char *state = at + 3;
        if (strspn(state, letters) != SQLSTATE_LEN || state[SQLSTATE_LEN] != ':')
            continue;
        (void)snprintf(out, SQLSTATE_LEN + 1, "%.*s", SQLSTATE_LEN, state);
        memmove(state, state + SQLSTATE_LEN + 2, strlen(state + SQLSTATE_LEN + 2) + 1);
        return;
    }
}

static tide_status status_of_refusal(const PGconn *pg, const char *sqlstate)
{
    if (tide_pq.connectionNeedsPassword(pg))
        return TIDE_E_UNAUTHENTICATED;
    if (!sqlstate[0])
        return TIDE_E_UNAVAILABLE;
    if (strcmp(sqlstate, "3D000") == 0)
        return TIDE_E_NOT_FOUND;
    return tide_pg_status_of(sqlstate);
}

static tide_status fail_connect(tide_error *err, const tide_pg_connection *connection)
{
    char line[400];
    char sqlstate[SQLSTATE_LEN + 1];
    (void)snprintf(line, sizeof line, "%s", tide_pq.errorMessage(connection->pg));
    line[strcspn(line, "\n")] = '\0';
    cut_sqlstate(line, sqlstate);
    return tide_fail(err, status_of_refusal(connection->pg, sqlstate),
                     "cannot connect to %s: %s%s%s%s", connection->store->name, line,
                     sqlstate[0] ? " (" : "", sqlstate, sqlstate[0] ? ")" : "");
}

/* TIDE_E_TIMEOUT: no answer by until_us. */
static tide_status connect_server(tide_pg_connection *connection, bool is_any, int64_t until_us,
                                  tide_error *err)
{
    const tide_pg_engine *engine = tide_pg_engine_of(connection->store);
    const bool is_chosen = connection->host != ANY_HOST;
    connect_options options = {.silence_ms = ""};
    tide_pg_endpoint choice;
    if (is_chosen)
        tide_pg_hosts_get(&engine->hosts, connection->host, &choice);
    fill_options(&options, engine->url, is_chosen ? &choice : NULL, is_any, until_us);
    connection->pg = connect_until(&options, until_us);
    TIDE_NEED_MEMORY(connection->pg, err);
    if (tide_pq.status(connection->pg) == CONNECTION_BAD)
        return fail_connect(err, connection);
    if (tide_pq.status(connection->pg) != CONNECTION_OK)
        return TIDE_E_TIMEOUT;
    /* A server that reads nothing must not hold up a call that sends much. */
    return tide_pq.setnonblocking(connection->pg, 1) == 0 ? TIDE_OK : fail_connect(err, connection);
}

/* ---- identity of the server ---- */

/* "": 0. */
static uint64_t parse_wal(const char *text)
{
    char *end = NULL;
    const uint64_t high = strtoull(text, &end, 16);
    return *end == '/' ? (high << 32) + strtoull(end + 1, NULL, 16) : 0;
}

/* "cluster/timeline/database.table": the timeline in hexadecimal, as file names of the WAL have
 * it. */
static void read_timeline(tide_host *host)
{
    const char *at = strchr(host->text, '/');
    host->timeline[0] = '\0';
    if (at && at[1] != '-')
        (void)snprintf(host->timeline, sizeof host->timeline, "%08lX", strtoul(at + 1, NULL, 16));
}

static tide_status query_host(tide_host *out, tide_pg_connection *connection, const tide_sql *sql,
                              int *backend_pid, tide_error *err)
{
    PGconn *pg = connection->pg;
    if (tide_pq.sendQueryParams(pg, sql->engine[TIDE_ENGINE_POSTGRES].text, 0, NULL, NULL, NULL,
                                NULL, 0) != 1 ||
        tide_pq.pipelineSync(pg) != 1)
        return tide_pg_fail_lost(err, connection);
    PGresult *result = tide_pg_next_result(connection);
    tide_status status = TIDE_OK;
    if (!result) {
        status = tide_pg_fail_lost(err, connection);
    } else if (tide_pq.resultStatus(result) == PGRES_TUPLES_OK && tide_pq.ntuples(result) == 1) {
        (void)snprintf(out->text, sizeof out->text, "%s", tide_pq.getvalue(result, 0, 0));
        out->is_standby = tide_pq.getvalue(result, 0, 1)[0] == 't';
        (void)snprintf(out->started, sizeof out->started, "%s", tide_pq.getvalue(result, 0, 2));
        (void)snprintf(connection->server, sizeof connection->server, "%.*s/%s",
                       (int)strcspn(out->text, "/"), out->text, out->started);
        *backend_pid = (int)strtol(tide_pq.getvalue(result, 0, 3), NULL, 10);
        out->wal = parse_wal(tide_pq.getvalue(result, 0, 4));
        connection->can_flush = tide_pq.getvalue(result, 0, 5)[0] == 't';
        out->checkpoint_wal = parse_wal(tide_pq.getvalue(result, 0, 6));
        read_timeline(out);
    } else {
        status = tide_pg_fail_result(err, result, "cannot identify the server");
    }
    tide_pq.clear(result);
    while (!connection->is_lost && tide_pq.status(pg) == CONNECTION_OK) {
        PGresult *rest = tide_pg_next_result(connection);
        const bool is_end = tide_pq.resultStatus(rest) == PGRES_PIPELINE_SYNC;
        tide_pq.clear(rest);
        if (is_end)
            break;
    }
    return status;
}

/* Without WAL or control functions, the rest of the identity. In a transaction of the caller there
 * is no second query: connection->has_wal is known by then. */
static tide_status find_host(tide_host *out, tide_pg_connection *connection, int *backend_pid,
                             tide_error *err)
{
    if (connection->has_wal) {
        const tide_status status =
            query_host(out, connection, TIDE_SQL_IDENTITY_HOST, backend_pid, err);
        if (status >= TIDE_OK || tide_pg_connection_is_lost(connection) || connection->is_begun)
            return status;
    }
    connection->has_wal = false;
    TIDE_TRY(query_host(out, connection, TIDE_SQL_IDENTITY_HOST_REDUCED, backend_pid, err));
    out->wal = 0;
    return TIDE_OK;
}

tide_status tide_pg_read_host(tide_host *out, tide_pg_connection *connection, tide_error *err)
{
    int ignored = 0;
    return find_host(out, connection, &ignored, err);
}

/* See tide_pg_is_unguarded. */
static void set_session(tide_pg_connection *connection)
{
    (void)tide_pq.exitPipelineMode(connection->pg);
    tide_pq.clear(tide_pq.exec(connection->pg,
                               "SET lock_timeout=10000; SET statement_timeout=30000;"
                               "SET idle_in_transaction_session_timeout=31000; SET jit=off;"
                               "SET synchronous_commit=off"));
    (void)tide_pq.enterPipelineMode(connection->pg);
}

static tide_status identify(tide_pg_connection *connection, tide_error *err)
{
    tide_host host = {0};
    int backend_pid = 0;
    connection->has_wal = true;
    if (tide_pq.enterPipelineMode(connection->pg) != 1)
        return tide_fail(err, TIDE_E_FAILED, "cannot enter pipeline mode");
    const tide_status status = find_host(&host, connection, &backend_pid, err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "cannot connect to %s", connection->store->name);
    connection->is_on_standby = host.is_standby;
    connection->backend_pid = backend_pid;
    if (tide_pg_is_unguarded)
        set_session(connection);
    switch (connection->store->options.pg_pooler) {
    case TIDE_PG_POOLER_AUTO:
        connection->is_pooled = tide_pq.backendPID(connection->pg) != backend_pid;
        break;
    case TIDE_PG_POOLER_NONE:
        connection->is_pooled = false;
        break;
    case TIDE_PG_POOLER_TRANSACTION:
        connection->is_pooled = true;
        break;
    }
    return TIDE_OK;
}

/* TIDE_E_TIMEOUT: no answer by until_us. */
static tide_status open_host(tide_pg_connection **out, tide_store *store, int host, bool is_any,
                             int64_t until_us, tide_error *err)
{
    TIDE_NEW(tide_pg_connection, connection, err);
    connection->store = store;
    connection->host = host;
    connection->answer_by_us = until_us;
    connection->is_discardable = true;
    connection->interrupt_slot = -1;
    tide_status status = connect_server(connection, is_any, until_us, err);
    if (status >= TIDE_OK) {
        (void)tide_pq.setNoticeReceiver(connection->pg, receive_notice, connection);
        tide_pg_interrupt_add(connection);
        status = identify(connection, err);
    }
    if (status < TIDE_OK) {
        tide_pg_connection_close(connection);
        return status;
    }
    connection->answer_by_us = 0;
    connection->is_discardable = false;
    *out = connection;
    return TIDE_OK;
}

/* ---- several hosts ---- */

typedef struct host_search {
    tide_store *store;
    bool is_sought; /* a primary */
    int64_t until_us;
    tide_pg_connection *found;   /* what was sought */
    tide_pg_connection *standby; /* in its stead */
    uint64_t silent;             /* hosts that did not answer, by their bits */
    tide_status status;          /* of the failure that is reported */
    tide_error err;
    bool is_refused; /* by a server: libpq would not try another one either */
} host_search;

static uint64_t bit_of(int host)
{
    return UINT64_C(1) << (host & 63);
}

/* The words of a server are worth more than those of a machine that nothing listens on. */
static void note_failure(host_search *s, int host, tide_status status, const tide_error *err)
{
    if (status == TIDE_E_TIMEOUT)
        s->silent |= bit_of(host);
    else
        s->silent &= ~bit_of(host);
    s->is_refused =
        status != TIDE_E_TIMEOUT && status != TIDE_E_UNAVAILABLE && status != TIDE_E_BUSY;
    if (status == TIDE_E_TIMEOUT ||
        (s->status < TIDE_OK && !s->is_refused && !strstr(err->text, "FATAL")))
        return;
    s->status = status;
    s->err = *err;
}

static void try_host(host_search *s, int host, int64_t limit_us)
{
    const int64_t host_until_us = tide_cond_until(limit_us);
    tide_pg_connection *opened = NULL;
    tide_error err = {.status = TIDE_OK};
    const tide_status status =
        open_host(&opened, s->store, host, true,
                  host_until_us < s->until_us ? host_until_us : s->until_us, &err);
    if (status < TIDE_OK) {
        note_failure(s, host, status, &err);
        return;
    }
    s->silent &= ~bit_of(host);
    if (!s->is_sought || !opened->is_on_standby)
        s->found = opened;
    else if (!s->standby)
        s->standby = opened;
    else
        tide_pg_connection_close(opened);
}

/* In the order of the URL, but hosts that were silent come last. A host that answers nothing, such
 * as a pooler whose server is gone, is left for the next one. If no other is of use, it gets a
 * longer limit. */
static void search_hosts(host_search *s)
{
    tide_pg_engine *engine = tide_pg_engine_of(s->store);
    const int count = engine->hosts.count;
    const uint64_t known = atomic_load(&engine->silent_hosts);
    s->silent = known;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < count; i++) {
            const bool is_due = round == 2 ? (s->silent & bit_of(i)) != 0
                                           : ((known & bit_of(i)) != 0) == (round == 1);
            if (is_due && !s->found && !s->is_refused && tide_cond_until(0) < s->until_us)
                try_host(s, i, round == 2 ? CONNECT_US : TIDE_PG_HOST_US);
        }
    atomic_store(&engine->silent_hosts, s->silent);
    if (!s->found)
        s->found = TIDE_TAKE(s->standby);
    tide_pg_connection_close(s->standby);
}

tide_status tide_pg_connection_open(tide_pg_connection **out, tide_store *store, bool is_write,
                                    int64_t until_us, tide_error *err)
{
    const tide_pg_hosts *hosts = &tide_pg_engine_of(store)->hosts;
    const bool is_primary_only = hosts->wanted == TIDE_PG_WANTED_PRIMARY;
    host_search s = {.store = store,
                     .is_sought =
                         is_primary_only || (is_write && hosts->wanted != TIDE_PG_WANTED_STANDBY),
                     .until_us = until_us};
    if (hosts->count > 1 && hosts->wanted != TIDE_PG_WANTED_STANDBY) {
        search_hosts(&s);
    } else {
        const int64_t limit_us = tide_cond_until(CONNECT_US);
        s.status = open_host(&s.found, store, ANY_HOST, s.is_sought,
                             limit_us < until_us ? limit_us : until_us, &s.err);
    }
    if (!s.found) {
        if (s.status >= TIDE_OK || s.status == TIDE_E_TIMEOUT)
            return tide_fail(err, TIDE_E_UNAVAILABLE, "cannot connect to %s: no response in time",
                             store->name);
        if (err)
            *err = s.err;
        return s.status;
    }
    if (is_primary_only && s.found->is_on_standby) {
        tide_pg_connection_close(s.found);
        return tide_fail(err, TIDE_E_UNAVAILABLE,
                         "cannot connect to %s: read-only standby, and the URL asks for a primary; "
                         "promote one, or name it in the URL",
                         store->name);
    }
    *out = s.found;
    return TIDE_OK;
}

void tide_pg_connection_close(tide_pg_connection *connection)
{
    if (!connection)
        return;
    tide_pg_interrupt_remove(connection);
    tide_statement_map_done(&connection->statements, free);
    tide_query_pool_done(&connection->pool);
    tide_pq.finish(connection->pg);
    free(connection->expected);
    free(connection);
}

bool tide_pg_connection_is_alive(tide_pg_connection *connection)
{
    if (tide_pg_connection_is_lost(connection) || tide_pq.consumeInput(connection->pg) != 1)
        return false;
    (void)tide_pq.isBusy(
        connection->pg); /* parses what arrived: the end of a session is a notice */
    return !tide_pg_connection_is_lost(connection);
}
