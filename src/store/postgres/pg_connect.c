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
    CONNECT_S_MIN = 2, /* libpq's least */
    CONNECT_S_MAX = 10,
    REFUSAL_US = 2000000, /* limit of the second try, which finds the reason of a refusal */
    SQLSTATE_LEN = 5,
    OPTION_MAX = 11,
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
    char connect_s[16];
    char user_ms[16];
} connect_options;

/* Values of the URL override those before it. The encoding and the choice of a server override the URL.
 * choice NULL: any host. is_any: also one that the URL does not admit. */
static void fill_options(connect_options *out, const char *url, const tide_pg_endpoint *choice,
                         bool is_any, int64_t until_us)
{
    const int64_t left_us = until_us - tide_cond_until(0);
    int64_t left_s = left_us / 1000000;
    if (left_s < CONNECT_S_MIN)
        left_s = CONNECT_S_MIN;
    if (left_s > CONNECT_S_MAX)
        left_s = CONNECT_S_MAX;
    (void)snprintf(out->connect_s, sizeof out->connect_s, "%d", (int)left_s);
    (void)snprintf(out->user_ms, sizeof out->user_ms, "%d", (int)left_s * 1000);
    const char *const pairs[][2] = {
        {"connect_timeout", out->connect_s},
        {"tcp_user_timeout", out->user_ms},
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

/* ---- refusals ---- */

/* "FATAL:  28P01: text": the state between two colons. NULL: there is none. */
static const char *find_sqlstate(const char *text)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (const char *at = strstr(text, ":  "); at; at = strstr(at + 1, ":  "))
        if (strspn(at + 3, letters) == SQLSTATE_LEN && at[3 + SQLSTATE_LEN] == ':')
            return at + 3;
    return NULL;
}

/* libpq has no SQLSTATE of a connection that failed. It writes it into its message when it is verbose,
 * which can be set only between start and end of connecting. So a server that refused is tried once
 * more. The second try may succeed. */
static PGconn *try_verbosely(const connect_options *options, int64_t until_us)
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
        if (left_us <= 0 || poll(&ready, 1, (int)(left_us / 1000) + 1) < 0)
            break;
        state = tide_pq.connectPoll(pg);
    }
    (void)tide_pq.setErrorVerbosity(pg, PQERRORS_DEFAULT);
    return pg;
}

static tide_status status_of_refusal(const PGconn *pg, const char *sqlstate)
{
    if (tide_pq.connectionNeedsPassword(pg))
        return TIDE_E_UNAUTHENTICATED;
    if (!sqlstate)
        return TIDE_E_UNAVAILABLE;
    if (strncmp(sqlstate, "3D000", SQLSTATE_LEN) == 0)
        return TIDE_E_NOT_FOUND;
    return tide_pg_status_of(sqlstate);
}

static void copy_line(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text);
    out[strcspn(out, "\n")] = '\0';
}

static tide_status fail_connect(tide_error *err, const tide_pg_connection *connection,
                                const char *sqlstate)
{
    const tide_status status = status_of_refusal(connection->pg, sqlstate);
    char line[400];
    copy_line(line, sizeof line, tide_pq.errorMessage(connection->pg));
    return tide_fail(err, status, "cannot connect to %s: %s%s%.*s%s", connection->store->name, line,
                     sqlstate ? " (" : "", sqlstate ? SQLSTATE_LEN : 0, sqlstate ? sqlstate : "",
                     sqlstate ? ")" : "");
}

static tide_status connect_server(tide_pg_connection *connection, int host, bool is_any,
                                  int64_t until_us, tide_error *err)
{
    const tide_pg_engine *engine = tide_pg_engine_of(connection->store);
    connect_options options;
    tide_pg_endpoint choice;
    if (host != ANY_HOST)
        tide_pg_hosts_get(&engine->hosts, host, &choice);
    fill_options(&options, engine->url, host == ANY_HOST ? NULL : &choice, is_any, until_us);
    connection->pg = tide_pq.connectdbParams(options.keys, options.values, 1);
    TIDE_NEED_MEMORY(connection->pg, err);
    if (tide_pq.status(connection->pg) == CONNECTION_OK)
        return TIDE_OK;
    /* Two spaces behind a colon: a message of the server. */
    if (!strstr(tide_pq.errorMessage(connection->pg), ":  "))
        return fail_connect(err, connection, NULL);
    const int64_t again_until_us = tide_cond_until(REFUSAL_US);
    PGconn *again = try_verbosely(&options, again_until_us < until_us ? again_until_us : until_us);
    if (again && tide_pq.status(again) == CONNECTION_OK) {
        tide_pq.finish(connection->pg);
        connection->pg = again;
        return TIDE_OK;
    }
    char sqlstate[SQLSTATE_LEN + 1] = "";
    const char *found = again ? find_sqlstate(tide_pq.errorMessage(again)) : NULL;
    if (found)
        (void)snprintf(sqlstate, sizeof sqlstate, "%.*s", SQLSTATE_LEN, found);
    tide_pq.finish(again);
    return fail_connect(err, connection, found ? sqlstate : NULL);
}

/* ---- identity of the server ---- */

static uint64_t parse_wal(const char *text)
{
    char *end = NULL;
    const uint64_t high = strtoull(text, &end, 16);
    return *end == '/' ? (high << 32) + strtoull(end + 1, NULL, 16) : 0;
}

/* "cluster/timeline/database.table": the timeline in hexadecimal, as file names of the WAL have it. */
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
        (void)snprintf(connection->server, sizeof connection->server, "%s",
                       tide_pq.getvalue(result, 0, 2));
        *backend_pid = atoi(tide_pq.getvalue(result, 0, 3));
        out->wal = tide_pq.getisnull(result, 0, 4) ? 0 : parse_wal(tide_pq.getvalue(result, 0, 4));
        connection->can_flush = tide_pq.getvalue(result, 0, 5)[0] == 't';
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

/* Without WAL or control functions, the rest of the identity. In a transaction of the caller there is
 * no second query: connection->has_wal is known by then. */
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

static tide_status open_host(tide_pg_connection **out, tide_store *store, int host, bool is_any,
                             int64_t until_us, tide_error *err)
{
    TIDE_NEW(tide_pg_connection, connection, err);
    connection->store = store;
    connection->answer_by_us = until_us;
    connection->interrupt_slot = -1;
    tide_status status = connect_server(connection, host, is_any, until_us, err);
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
    *out = connection;
    return TIDE_OK;
}

tide_status tide_pg_connection_open(tide_pg_connection **out, tide_store *store, bool is_write,
                                    int64_t until_us, tide_error *err)
{
    const tide_pg_hosts *hosts = &tide_pg_engine_of(store)->hosts;
    const bool is_primary_only = hosts->wanted == TIDE_PG_WANTED_PRIMARY;
    const bool is_sought = is_primary_only || (is_write && hosts->wanted != TIDE_PG_WANTED_STANDBY);
    TIDE_TRY(open_host(out, store, ANY_HOST, is_sought, until_us, err));
    const int count = is_sought && hosts->count > 1 ? hosts->count : 0;
    for (int i = 0; i < count && (*out)->is_on_standby; i++) {
        tide_pg_connection *other = NULL;
        tide_error ignored;
        if (open_host(&other, store, i, true, until_us, &ignored) < TIDE_OK)
            continue;
        if (other->is_on_standby) {
            tide_pg_connection_close(other);
        } else {
            tide_pg_connection_close(*out);
            *out = other;
        }
    }
    if (!is_primary_only || !(*out)->is_on_standby)
        return TIDE_OK;
    tide_pg_connection_close(TIDE_TAKE(*out));
    return tide_fail(err, TIDE_E_UNAVAILABLE,
                     "cannot connect to %s: read-only standby, and the URL asks for a primary; "
                     "promote one, or name it in the URL",
                     store->name);
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
