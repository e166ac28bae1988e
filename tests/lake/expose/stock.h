/* stock.h - a stock DuckLake client's statements, over libpq: what it asks and what it sends, in its shapes and its order, without its data files.
 *
 * It reads the newest snapshot in a REPEATABLE READ transaction and commits by one batch: the snapshot (the one it read, plus 1), rows, changes. After an error that has
 * one of its words (primary key, unique, conflict, concurrent) it waits, reads what is new, and tries again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct stock_head {
    int64_t snapshot;
    int64_t schema_version;
    int64_t next_catalog;
    int64_t next_file;
} stock_head;

typedef struct stock {
    void *connection; /* a PGconn */
    char schema[64];
    char error[1024]; /* of the last failure */
    char sqlstate[8];
    stock_head head;
    int tries; /* of the last stock_insert */
} stock;

bool stock_open(stock *s, const char *url, const char *schema);
void stock_close(stock *s);

/* Several statements, each "M." before a metadata table's name: the schema. */
bool stock_run(stock *s, const char *text);
__attribute__((format(printf, 2, 3))) bool stock_runf(stock *s, const char *format, ...);
/* Rows as "a|b\n", NULL as "-"; free it. NULL: it failed. */
__attribute__((format(printf, 2, 3))) char *stock_rows(stock *s, const char *format, ...);
int64_t stock_number(stock *s, const char *text); /* one number; -1: none, or it failed */

/* A transaction at the newest snapshot, which s->head is from then on. */
bool stock_begin(stock *s);
/* The first statement of a commit: what is to be the next snapshot, with so many new ids. */
bool stock_next(stock *s, int schema_step, int objects, int files);
/* The last one, and COMMIT. After a failure everything is rolled back. */
bool stock_end(stock *s, const char *changes);
void stock_rollback(stock *s);
bool stock_may_try_again(const stock *s);

/* One file of `rows` rows into a table, with statistics of its first column from low to high, as a client does it: up to `tries` attempts, waits from wait_us on. */
bool stock_insert(stock *s, int64_t table_id, const char *file, int64_t rows, int64_t low,
                  int64_t high, int tries, int64_t wait_us);

/* One delete of a client: the file that it overwrites, if there is one, loses its row; the new one claims to be as old. */
bool stock_delete(stock *s, int64_t table, int64_t data_file, int64_t old_delete, int64_t old_begin,
                  int64_t count);
/* An UPDATE or DELETE of all rows of a file, as a client writes it: the file ends. */
bool stock_end_file(stock *s, int64_t table, int64_t data_file);

/* The files of a table at a snapshot as it asks for them: how many, and their rows without deleted ones. */
int64_t stock_files(stock *s, int64_t table_id, int64_t snapshot);
int64_t stock_count(stock *s, int64_t table_id, int64_t snapshot);
/* -1: no such table at that snapshot. */
int64_t stock_table(stock *s, const char *schema, const char *table, int64_t snapshot);
