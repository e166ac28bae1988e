/* raw_pg.h - PostgreSQL without Tidemark: libpq, prepared statements, one synchronous commit per
 * row.
 *
 * Two ways to number rows, and a reader that finds out what they are worth:
 *
 *     RAW_PG_HELD      counter and row in one statement; the counter's lock is held through the
 *                      disk flush, so numbers become visible in order
 *     RAW_PG_NEXTVAL   the database's own sequence: no lock, no order
 *
 * A tailer polls a table for rows above the highest number it has seen, as feeds do, and counts
 * them. What the table holds at or below that number at the end, and the tailer never saw, was
 * skipped.
 *
 * Threads: a connection belongs to one thread at a time; a tailer runs on its own. */
#pragma once

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum raw_pg_kind {
    RAW_PG_HELD,
    RAW_PG_NEXTVAL,
    RAW_PG_KINDS,
} raw_pg_kind;

PGconn *raw_pg_connect(const char *url);

/* Both kinds' tables and the sequence. */
void raw_pg_make_tables(const char *url);

/* Connect and prepare the writing statement of a kind. */
PGconn *raw_pg_open_writer(const char *url, raw_pg_kind kind);
void raw_pg_write(PGconn *pg, const char *writer, int64_t n);

/* The same with an unnamed statement, for a pooler that may change the server between two. The server's
 * default is a synchronous commit. */
void raw_pg_write_unnamed(PGconn *pg, raw_pg_kind kind, const char *writer, int64_t n);

/* The first column of the first row. */
int64_t raw_pg_ask(PGconn *pg, const char *query);

typedef struct raw_pg_tailer {
    PGconn *pg;
    const char *table; /* with a column seq_id */
    int64_t first;     /* what stood there before */
    int64_t last;      /* the highest number seen */
    int64_t seen;      /* rows */
    atomic_bool is_over;
    pthread_t thread;
} raw_pg_tailer;

void raw_pg_tailer_start(raw_pg_tailer *tailer, const char *url, const char *table);
/* Ends it; returns how many of *total rows it never saw. */
int64_t raw_pg_tailer_stop(raw_pg_tailer *tailer, int64_t *total);
