/* pg_connection.h - one PostgreSQL connection: pipelines, prepared statements, errors as statuses.
 *
 * A connection is always in pipeline mode. Commands are sent without waiting and *expected* in order; one
 * sync ends the batch and reads every answer. So BEGIN travels with the first statement, and the counters, the
 * rows that carry them and the COMMIT travel together.
 *
 * Statements are prepared on first use and described: their parameter types tell how each value is written in
 * binary form. Session settings: synchronous_commit=off, because durability is the flusher's business
 * (pg_flush.h), UTF-8, and limits for statements, locks and idle transactions.
 *
 * Threads: a connection belongs to one thread at a time. */
#ifndef TIDE_STORE_POSTGRES_PG_CONNECTION_H
#define TIDE_STORE_POSTGRES_PG_CONNECTION_H

#include "store/engine.h"
#include "store/postgres/pq_library.h"
#include "store/statement_map.h"

enum { TIDE_PG_XID_SIZE = 24 };

typedef struct tide_pg_statement {
    char name[24];
    Oid params[TIDE_QUERY_PARAM_MAX];
} tide_pg_statement;

/* What the next answer belongs to. */
typedef struct tide_pg_expectation {
    tide_query *query; /* keeps the result; NULL: only its success matters */
    int64_t *value;    /* the first column goes here */
    bool is_now;       /* the transaction's time (and id) */
    bool is_commit;
} tide_pg_expectation;

typedef struct tide_pg_connection {
    tide_store *store;
    PGconn *pg;
    char server[96]; /* which running server this is; see identity_host */
    tide_statement_map statements;
    int statement_count;
    tide_query_pool pool;
    tide_tx tx;
    tide_pg_expectation *expected;
    int expected_count;
    int expected_size;
    bool is_begun;              /* BEGIN was sent */
    bool is_commit_sent;        /* from here on a lost connection leaves the outcome open */
    bool is_committed;          /* COMMIT was answered */
    bool is_vain;               /* ... and had changed nothing */
    bool is_lost;               /* no further use */
    bool is_ended;              /* the server said, in order, that it ends this session */
    bool has_warned;            /* the server sent a WARNING */
    int64_t answer_by_us;       /* real time by which the server must answer; 0: no limit */
    uint64_t witness;           /* the flusher's generation when the transaction began */
    char xid[TIDE_PG_XID_SIZE]; /* of the running transaction; "" until known */
    struct tide_pg_connection *next;
} tide_pg_connection;

/* One try. TIDE_E_UNAVAILABLE: nobody answers. is_flusher: commits of this session wait for the disk. */
TIDE_MUST_CHECK tide_status tide_pg_connection_open(tide_pg_connection **out, tide_store *store,
                                                    const char *url, bool is_flusher,
                                                    tide_error *err);
void tide_pg_connection_close(tide_pg_connection *connection);

/* Ask who the server is; fills connection->server too. */
TIDE_MUST_CHECK tide_status tide_pg_read_host(tide_host *out, tide_pg_connection *connection,
                                              tide_error *err);

/* False when the server has gone away: looks at what has arrived. */
bool tide_pg_connection_is_alive(tide_pg_connection *connection);

/* True when a call on this connection failed because it was lost. */
bool tide_pg_connection_is_lost(const tide_pg_connection *connection);

/* A server's refusal, in its words. */
tide_status tide_pg_fail_result(tide_error *err, const PGresult *result, const char *what);

/* Note that the connection is lost, and say so. */
tide_status tide_pg_fail_lost(tide_error *err, tide_pg_connection *connection);

/* Commands of the runner itself, prepared when the connection is made. */
typedef enum tide_pg_command {
    TIDE_PG_BEGIN_WRITE,
    TIDE_PG_BEGIN_READ,
    TIDE_PG_COMMIT,
    TIDE_PG_ROLLBACK,
    TIDE_PG_START, /* the time and the id of a write transaction */
    TIDE_PG_NOW,
    TIDE_PG_FLUSH,
    TIDE_PG_FLUSH_PROBE,
    TIDE_PG_SYNCHRONOUS, /* this transaction's commit waits for the disk */
    TIDE_PG_LISTEN,
    TIDE_PG_NOTIFY, /* one parameter: the topic */
    TIDE_PG_COMMAND_COUNT,
} tide_pg_command;

/* Queue a command or a query; the answer comes with the next sync. */
TIDE_MUST_CHECK tide_status tide_pg_send(tide_pg_connection *connection, tide_pg_command command,
                                         tide_pg_expectation expectation, tide_error *err);
TIDE_MUST_CHECK tide_status tide_pg_send_query(tide_pg_connection *connection, tide_query *query,
                                               tide_pg_expectation expectation, tide_error *err);

/* The same with a text parameter. */
TIDE_MUST_CHECK tide_status tide_pg_send_text(tide_pg_connection *connection,
                                              tide_pg_command command, const char *value,
                                              tide_error *err);

/* Send what is queued and read every answer. Returns the first failure. */
TIDE_MUST_CHECK tide_status tide_pg_sync(tide_pg_connection *connection, tide_error *err);

/* BEGIN (and the transaction's time, when it comes from the server), once per transaction. */
TIDE_MUST_CHECK tide_status tide_pg_begin(tide_pg_connection *connection, bool with_now,
                                          tide_error *err);

/* The queries' half of tide_pg_ops (pg_query.c). */
tide_status tide_pg_prepare(tide_query *query, tide_error *err);
tide_status tide_pg_step(tide_query *query, tide_error *err);
tide_status tide_pg_keep(tide_query *query, tide_error *err);
void tide_pg_reset(tide_query *query);
tide_value tide_pg_column(const tide_query *query, int index);

/* pg_bulk.c, pg_look.c: their part of tide_pg_ops. The connection that looks is its caller's own, and closed afterwards. */
tide_status tide_pg_bulk_begin(tide_bulk *bulk, tide_error *err);
tide_status tide_pg_bulk_row(tide_bulk *bulk, const tide_value *values, tide_error *err);
tide_status tide_pg_bulk_end(tide_bulk *bulk, bool is_kept, tide_error *err);
tide_status tide_pg_look_on(tide_pg_connection *connection, const tide_readonly_query *look,
                            tide_error *err);

/* pg_admin.c: the part of tide_pg_ops that looks after a store. */
tide_status tide_pg_describe(tide_store *store, tide_store_describe_fn *fn, void *arg,
                             tide_error *err);
tide_status tide_pg_check(tide_store *store, tide_store_finding_fn *fn, void *arg, tide_error *err);
tide_status tide_pg_backup(tide_store *store, const char *path, tide_error *err);

/* pg_codec.c: values in PostgreSQL's binary form. */
typedef struct tide_pg_param {
    const char *bytes; /* NULL: SQL NULL */
    int len;
} tide_pg_param;
TIDE_MUST_CHECK tide_status tide_pg_encode(tide_pg_param *out, const tide_value *value, Oid type,
                                           tide_arena *arena, tide_error *err);
tide_value tide_pg_decode(const char *bytes, int len, Oid type);

/* What a SQLSTATE means for us. */
tide_status tide_pg_status_of(const char *sqlstate);

#endif
