/* replica_history.h - a node with a long history, quickly: rows, events and clocks written down as folding would leave them.
 *
 * Ten million changes take minutes to be captured and folded. Here they are encoded by the same functions and inserted by plain SQL, in order, without a
 * journal. That the result is what replication makes of it is checked where it is short (replica_history_check): a second node that gets everything by sync
 * must hold the same events, clocks and rows.
 *
 * Threads: one. */
#pragma once

#include "replica_load.h"

#define REPLICA_HISTORY_SCHEMA "CREATE TABLE items(id INTEGER PRIMARY KEY, n INTEGER)"
#define REPLICA_HISTORY_UPDATE "UPDATE items SET n = n + 1 WHERE id = ?1"

/* A file with that table. */
sqlite3 *replica_history_open(const char *path);
/* Rows first + 1 .. last are created by the node of this file, 1,000 per batch. It has nothing to fold, and nobody has it open. */
void replica_history_grow(const char *path, int64_t first, int64_t last);
/* Both files have the same events, clocks and rows; dies otherwise. */
void replica_history_check(const char *path, const char *other);
/* The same bytes in another file: a node of its own when it is opened. Nobody has it open. */
void replica_history_copy(const char *path, const char *to);
