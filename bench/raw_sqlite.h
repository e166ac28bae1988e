/* raw_sqlite.h - the contestant without Tidemark: SQLite alone, same library, same rows, same
 * durability.
 *
 * The same two tables (a counter, and rows that carry its numbers), WAL, synchronous=FULL,
 * statements prepared once, BEGIN IMMEDIATE and SQLite's own busy timeout. Everything else stays at
 * SQLite's defaults: pages of 4 KiB, which for single rows are faster than Tidemark's 16 KiB, and
 * checkpoints after 1,000 of them.
 *
 * Threads: a connection belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { RAW_SQLITE_WRITERS = 16 };

typedef struct raw_sqlite raw_sqlite;

/* Opens, creates the tables where they are missing. busy_ms: how long a write waits for the lock.
 * */
raw_sqlite *raw_sqlite_open(const char *path, int busy_ms);
void raw_sqlite_close(raw_sqlite *raw);

/* One durable transaction of count numbered rows: row n of this writer, of the next one, ... up to
 * RAW_SQLITE_WRITERS, and round again. False: "database is locked". */
bool raw_sqlite_write(raw_sqlite *raw, int writer, int64_t n, int count);
