/* replica_load.h - rows, files and nodes for the benchmarks of replication.
 *
 * The table is one that applications have: a text key, two texts, a number, a real. Writers are plain SQLite connections that know nothing of us.
 *
 * Threads: one. */
#pragma once

#include <sqlite3.h>

#include "bench.h"
#include "replica/peer.h"

#define REPLICA_LOAD_SCHEMA                                                                        \
    "CREATE TABLE items(id TEXT PRIMARY KEY NOT NULL, title TEXT, body TEXT, n INTEGER, price "    \
    "REAL)"

/* A file in WAL mode with that table; synchronous: "NORMAL" or "FULL". */
sqlite3 *replica_load_open(const char *path, const char *synchronous);
void replica_load_run(sqlite3 *db, const char *sql);

/* A statement with one parameter, the row's number. */
typedef struct replica_load_writer {
    sqlite3 *db;
    sqlite3_stmt *put;
} replica_load_writer;

void replica_load_writer_init(replica_load_writer *writer, sqlite3 *db, const char *sql);
void replica_load_writer_done(replica_load_writer *writer);
/* Rows [first, first + count) in one transaction. */
void replica_load_write(replica_load_writer *writer, int64_t first, int64_t count);

#define REPLICA_LOAD_INSERT                                                                        \
    "INSERT INTO items VALUES(printf('%012d', ?1), 'title ' || ?1, 'a body of some words, and a "  \
    "number: ' || (?1 * 7919 % 100003), ?1, ?1 * 0.5)"
#define REPLICA_LOAD_UPDATE                                                                        \
    "UPDATE items SET n = n + 1, title = 'changed ' || ?1 WHERE id = printf('%012d', ?1)"

tide_node *replica_load_node(const char *path, bool is_tracked);
void replica_load_fold(tide_node *node);

/* All pages of a node's own log above a number. */
typedef struct replica_load_log {
    tide_peer_page *pages;
    int count;
    int64_t events;
    int64_t bytes;
} replica_load_log;
void replica_load_read(replica_load_log *out, tide_node *node, int64_t after);
void replica_load_log_done(replica_load_log *log);
int64_t replica_load_apply(tide_node *node, const replica_load_log *log);
int64_t replica_load_prefix(tide_node *node);
