/* client.h - a foreign program on the same database: plain SQL, without the library.
 *
 * Two uses. The stranger of the simulated world works with the statements of the recovery document: it claims, beats,
 * completes, fails and sweeps without a token. And the invariants read what really stands in the tables, not what the
 * library says.
 *
 * On SQLite `now` is the machine's wall clock as the simulator has it: the connection's VFS tells the time. On
 * PostgreSQL the server's own clock cannot be moved, so times are given as parameters there.
 *
 * Threads: none. One client at a time on SQLite. */
#pragma once

#include <tidemark/env.h>
#include <tidemark/store.h>

typedef enum work_sql {
    WORK_SQL_VERSION,     /* the same again: nobody else has written since */
    WORK_SQL_ROWS,        /* every work item with its attempts */
    WORK_SQL_CHECKPOINTS, /* those above ?1 */
    WORK_SQL_ANCHOR,      /* of the lease clock; nothing on PostgreSQL */
    WORK_SQL_DO_CLAIM,    /* ?1 worker, ?2 now, ?3 the lease's end */
    WORK_SQL_DO_ADD, /* ?1 item, ?2 task, ?3 type, ?4 priority, ?5 retries, ?6 timeout, ?7 key, ?8 now */
    WORK_SQL_DO_HEARTBEAT,  /* ?1 item, ?2 worker, ?3 now, ?4 the lease's end */
    WORK_SQL_DO_COMPLETE,   /* ?1 item, ?2 output, ?3 now */
    WORK_SQL_DO_FAIL,       /* ?1 item, ?2 now */
    WORK_SQL_DO_SWEEP,      /* ?1 now */
    WORK_SQL_DO_EXPIRE,     /* ?1 now */
    WORK_SQL_DO_CHECKPOINT, /* ?1 id, ?2 task */
    WORK_SQL_COUNT,
} work_sql;

enum { WORK_CLIENT_COLUMNS = 24, WORK_CLIENT_WORDS = 256 };

typedef struct work_client work_client;

/* The env's wall clock is what plain SQL takes for now (SQLite). */
work_client *work_client_open(tide_engine engine, const char *url, tide_env *env);
void work_client_close(work_client *client);

/* A row: count texts, NULL for NULL; borrowed until return. */
typedef void work_client_row_fn(void *arg, const char *const *columns, int count);

/* Run a statement with texts as parameters. False: the database refused, and *words says why. */
bool work_client_run(work_client *client, work_sql sql, const char *const *params, int count,
                     work_client_row_fn *fn, void *arg, char words[WORK_CLIENT_WORDS]);

/* Microseconds of a column that holds a time; 0 for NULL. */
int64_t work_client_time(const work_client *client, const char *column);
/* A time as a parameter, whole seconds. */
void work_client_seconds(char out[32], int64_t us);
