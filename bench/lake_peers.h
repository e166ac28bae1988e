/* lake_peers.h - a lake's commit without Tidemark: what others do to number a snapshot.
 *
 * The rows are those of a DuckLake commit (snapshot, its changes, a data file, statistics of two columns, the table's statistics), in tables with its names; statements are
 * prepared, BEGIN .. COMMIT travel in one pipeline, commits are synchronous. What differs is where the number comes from:
 *
 *     LAKE_PEER_LATEST    latest + 1; the primary key tells who came second; read again, 10 tries, 100 ms x U(0.5, 1) x 1.5^i between them (DuckLake)
 *     LAKE_PEER_LINEAGE   a sequence, and a row (parent, child) whose key is the parent: compare and swap, the same tries
 *     LAKE_PEER_NEXTVAL   a sequence and nothing else: no order, no check
 *
 * On SQLite: LATEST reads and then writes in one deferred transaction; NEXTVAL is BEGIN IMMEDIATE and a counter; there is no LINEAGE.
 *
 * Threads: a peer belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum lake_peer_kind {
    LAKE_PEER_LATEST,
    LAKE_PEER_LINEAGE,
    LAKE_PEER_NEXTVAL,
    LAKE_PEER_KINDS,
} lake_peer_kind;

typedef struct lake_peer lake_peer;

/* Tables of their own for every kind (a schema each, a file each); once per database or path. */
void lake_peers_make_pg(const char *url, int writers);
void lake_peers_make_sqlite(const char *path, int writers);

lake_peer *lake_peer_open_pg(const char *url, lake_peer_kind kind);
lake_peer *lake_peer_open_sqlite(const char *path, lake_peer_kind kind);
void lake_peer_close(lake_peer *peer); /* takes NULL */

/* One commit of a file into the writer's table. False: given up after all tries. *retries counts tries beyond the first. */
bool lake_peer_commit(lake_peer *peer, int writer, int64_t n, int64_t *retries);
