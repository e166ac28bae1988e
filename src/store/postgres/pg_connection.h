/* pg_connection.h - one PostgreSQL connection: pipelines, statements, errors as statuses.
 *
 * A connection is always in pipeline mode. Commands are sent without waiting and *expected* in
 * order; one sync ends the batch and reads every answer. So BEGIN, the guard and the first
 * statement travel together, and so do the counters, the rows that carry them and the COMMIT.
 *
 * No session state: nothing is set outside of a transaction. The guard (sql/identity.sql,
 * transaction_guarded) sets what the transaction needs and proves where it runs; see
 * pg_transaction.c. On a direct connection statements are prepared by name on first use. Behind a
 * proxy, which may give every transaction another server process, they are unnamed. A proxy is
 * recognised by the process id of the connection, which is not that of the process that answers.
 *
 * Statements are described once per connection. The types of their parameters determine the binary
 * form of each value.
 *
 * Every wait ends at answer_by_us. What is abandoned then is cancelled on the server, within
 * tide_pg_cancel_us.
 *
 * Threads: a connection belongs to one thread at a time. */
#pragma once

#include "store/engine.h"
#include "store/postgres/pq_library.h"
#include "store/statement_map.h"

enum {
    TIDE_PG_XID_SIZE = 24,
    TIDE_PG_SERVER_SIZE = 96,
    /* For one of several hosts to answer, before another one is tried. */
    TIDE_PG_HOST_US = 3000000,
};

typedef struct tide_pg_statement {
    char name[24]; /* "": unnamed, behind a proxy */
    Oid params[TIDE_QUERY_PARAM_MAX];
} tide_pg_statement;

/* Commands of the runner itself. */
typedef enum tide_pg_command {
    TIDE_PG_BEGIN_WRITE,
    TIDE_PG_BEGIN_READ,
    TIDE_PG_GUARDED,
    TIDE_PG_GUARDED_REDUCED, /* on a server that refuses its WAL functions */
    TIDE_PG_SETTINGS,        /* of a transaction without a guard */
    TIDE_PG_COMMIT,
    TIDE_PG_ROLLBACK,
    TIDE_PG_NOW,
    TIDE_PG_FLUSH,
    TIDE_PG_FLUSH_INSIDE,
    TIDE_PG_FLUSH_PROBE,
    TIDE_PG_WAL_END,
    TIDE_PG_LISTEN,
    TIDE_PG_NOTIFY, /* one parameter: the topic */
    TIDE_PG_STANDBY_WAIT,
    TIDE_PG_COMMAND_COUNT,
} tide_pg_command;

/* What the next answer belongs to. */
typedef struct tide_pg_expectation {
    tide_query *query; /* owns the result; NULL: only its success matters */
    int64_t *value;    /* receives the first column */
    bool is_begin;     /* BEGIN: refused by a standby */
    bool is_guard;     /* time, id, role and WAL position of the transaction */
    bool is_now;       /* the transaction's time */
    bool is_commit;
    bool is_flush;   /* the flush of this connection's own commit */
    bool is_wal_end; /* position in the WAL in front of a synchronous commit */
    bool is_sync;    /* the end of a part of the pipeline */
    bool is_answered;
    int prepares; /* 1 + the command that this answer prepares; 0: none */
} tide_pg_expectation;

/* What a process believes about the server it writes to; "" and 0: nothing yet. */
typedef struct tide_pg_belief {
    char epoch_id[TIDE_SESSION_ID_SIZE];
    char timeline[TIDE_HOST_TIMELINE_SIZE];
    char started[TIDE_HOST_STARTED_SIZE];
    uint64_t wal; /* a position that was durable */
} tide_pg_belief;

typedef struct tide_pg_connection {
    tide_store *store;
    PGconn *pg;
    int host;                         /* of the URL, from 0; below 0: libpq's choice */
    char server[TIDE_PG_SERVER_SIZE]; /* which running server this is: cluster/started */
    int backend_pid;                  /* of the process that answered first */
    bool is_pooled;                   /* through a proxy */
    bool has_wal;                     /* the server permits its WAL and control functions */
    bool can_flush;                   /* ... and messages in the WAL */
    bool is_prepared[TIDE_PG_COMMAND_COUNT];
    tide_statement_map statements;
    int statement_count;
    tide_query_pool pool;
    tide_tx tx;
    tide_pg_expectation *expected;
    int expected_count;

    /* Of the running transaction. */
    tide_pg_belief belief;
    bool is_guarded;
    bool is_synchronous; /* its COMMIT waits for the disk and for the standbys */
    bool is_begun;       /* BEGIN was sent */
    bool is_commit_sent; /* from here on a lost connection leaves the outcome open */
    bool is_committed;   /* COMMIT was answered */
    bool is_unanswered;  /* a number or row that the caller needs never came */
    bool is_vain;        /* ... and had changed nothing */
    bool is_flushed;     /* ... and a flush behind it was answered */
    bool is_stale;       /* the guard refused: the server is not what the process believes */
    bool is_alone;       /* shares its transaction with no other closure */
    bool has_lost_run;   /* the response to an earlier commit of its closure was lost */
    int silences;        /* of the call: hosts that gave its transaction no server in time */
    bool is_split;       /* the transaction that it shared failed: run it alone */
    bool is_resolved;    /* its outcome is known, and durable if it succeeded */
    bool is_on_standby;
    uint64_t begin_wal; /* end of the WAL when it began; 0: not known */
    uint64_t flush_wal; /* of the flush behind it, or in front of its synchronous commit; 0: none */
    uint64_t witness;   /* the flusher's generation when it began */
    char xid[TIDE_PG_XID_SIZE]; /* "" until known */

    bool is_lost;          /* no further use */
    bool is_ended;         /* the server reported, in order, that it ends this session */
    bool has_timed_out;    /* lost because answer_by_us passed */
    bool has_warned;       /* the server sent a WARNING */
    bool has_standby_wait; /* ... that a wait for a synchronous standby was given up */
    bool is_discardable;  /* what was sent has no effect, and is abandoned without a cancellation */
    int interrupt_slot;   /* pg_interrupt.c; below 0: none */
    int64_t answer_by_us; /* real time by which the server must answer; 0: no limit */
    struct tide_pg_connection *next;
} tide_pg_connection;

/* One try, which ends at until_us (tide_cond_until); identifies the server and recognises a proxy
 * before any statement with an effect.
 *
 * For a write, and for every call where the URL asks for a primary, all hosts are tried until one
 * is a primary by its own answer: a pooler reports the parameters of the server that it reached
 * first, so libpq's choice by them is not reliable. A write gets a standby if there is no primary;
 * where the URL asks for one, that is TIDE_E_UNAVAILABLE. A host that does not answer within
 * TIDE_PG_HOST_US is left for the others.
 *
 * TIDE_E_UNAVAILABLE: waiting may help. Other statuses: the server's own reason. */
TIDE_MUST_CHECK tide_status tide_pg_connection_open(tide_pg_connection **out, tide_store *store,
                                                    bool is_write, int64_t until_us,
                                                    tide_error *err);
void tide_pg_connection_close(tide_pg_connection *connection);

/* Identity of the server; also sets connection->server, has_wal and can_flush. */
TIDE_MUST_CHECK tide_status tide_pg_read_host(tide_host *out, tide_pg_connection *connection,
                                              tide_error *err);

/* False: the connection is closed. Reads what has arrived. */
bool tide_pg_connection_is_alive(tide_pg_connection *connection);

/* True when a call on this connection failed because it was lost. */
bool tide_pg_connection_is_lost(const tide_pg_connection *connection);

/* A refusal by the server, with its text. */
tide_status tide_pg_fail_result(tide_error *err, const PGresult *result, const char *what);

/* The same for a command of a transaction. TIDE_E_INVALID: there is a pooler in front of the server
 * that was not recognised, or that the store's options exclude. */
tide_status tide_pg_fail_pooler(tide_error *err, const tide_store *store);
tide_status tide_pg_fail_response(tide_error *err, const tide_pg_connection *connection,
                                  const PGresult *result, const char *what);

/* Note that the connection is lost, and report it. TIDE_E_TIMEOUT after a deadline, otherwise
 * TIDE_E_UNAVAILABLE. */
tide_status tide_pg_fail_lost(tide_error *err, tide_pg_connection *connection);

/* The part of a call's time that is kept to cancel what it abandons. */
int64_t tide_pg_cancel_us(const tide_store *store);

/* PQexec, but not beyond answer_by_us, outside of pipeline mode. NULL: the connection is lost. */
PGresult *tide_pg_exec(tide_pg_connection *connection, const char *text);
PGresult *tide_pg_exec_params(tide_pg_connection *connection, const char *text, int count,
                              const char *const *values);

/* Queue a command or a query; the next sync reads the response. */
TIDE_MUST_CHECK tide_status tide_pg_send(tide_pg_connection *connection, tide_pg_command command,
                                         tide_pg_expectation expectation, tide_error *err);
TIDE_MUST_CHECK tide_status tide_pg_send_query(tide_pg_connection *connection, tide_query *query,
                                               tide_pg_expectation expectation, tide_error *err);

/* The same with text parameters. */
TIDE_MUST_CHECK tide_status tide_pg_send_texts(tide_pg_connection *connection,
                                               tide_pg_command command, const char *const *values,
                                               int count, tide_pg_expectation expectation,
                                               tide_error *err);

/* Prepare on this connection what a transaction of another one has queued. */
TIDE_MUST_CHECK tide_status tide_pg_prepare_all(tide_pg_connection *connection, const tide_tx *tx,
                                                tide_error *err);

/* End a part of the pipeline: the next part runs even if this one fails. The next sync reads its
 * responses. */
TIDE_MUST_CHECK tide_status tide_pg_send_sync(tide_pg_connection *connection, tide_error *err);

/* Send what is queued and read every answer. Returns the first failure. */
TIDE_MUST_CHECK tide_status tide_pg_sync(tide_pg_connection *connection, tide_error *err);

/* PQgetResult, but not beyond answer_by_us: then what runs is cancelled and the connection lost. */
PGresult *tide_pg_next_result(tide_pg_connection *connection);

/* pg_interrupt.c: a signal handler can cancel what runs on this connection. */
void tide_pg_interrupt_add(tide_pg_connection *connection);
void tide_pg_interrupt_remove(tide_pg_connection *connection);

/* The catalogue's entry of a command; NULL: it has none, and no parameters. */
const tide_sql_text *tide_pg_command_text(tide_pg_command command);

/* The queries' half of tide_pg_ops (pg_query.c). */
tide_status tide_pg_prepare(tide_query *query, tide_error *err);
tide_status tide_pg_step(tide_query *query, tide_error *err);
tide_status tide_pg_keep(tide_query *query, tide_error *err);
void tide_pg_reset(tide_query *query);
int tide_pg_width(const tide_query *query);
tide_sql_value tide_pg_column(const tide_query *query, int index);

/* pg_bulk.c, pg_readonly_query.c: their part of tide_pg_ops. A query has a connection of its own,
 * and closed afterwards. */
tide_status tide_pg_bulk_begin(tide_bulk *bulk, tide_error *err);
tide_status tide_pg_bulk_row(tide_bulk *bulk, const tide_sql_value *values, tide_error *err);
tide_status tide_pg_bulk_end(tide_bulk *bulk, bool is_kept, tide_error *err);
tide_status tide_pg_readonly_query_run(tide_pg_connection *connection,
                                       const tide_readonly_query *query, tide_error *err);

/* pg_admin.c: its part of tide_pg_ops. */
tide_status tide_pg_describe(tide_store *store, tide_store_describe_fn *fn, void *arg,
                             tide_error *err);
tide_status tide_pg_check(tide_store *store, tide_store_finding_fn *fn, void *arg, tide_error *err);
tide_status tide_pg_backup(tide_store *store, const char *path, tide_error *err);

/* pg_codec.c: values in PostgreSQL's binary form. */
typedef struct tide_pg_param {
    const char *bytes; /* NULL: SQL NULL */
    int len;
} tide_pg_param;
TIDE_MUST_CHECK tide_status tide_pg_encode(tide_pg_param *out, const tide_sql_value *value,
                                           Oid type, tide_arena *arena, tide_error *err);
tide_sql_value tide_pg_decode(const char *bytes, int len, Oid type);

/* What a SQLSTATE means for us. */
tide_status tide_pg_status_of(const char *sqlstate);
