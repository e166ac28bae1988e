/* lake.h - a metabase: catalogs of tables whose concurrent commits never collide and never rewrite history.
 *
 * DuckLake's metadata tables, for several catalogs, in a store of ours (SQLite or PostgreSQL), with data files (Parquet) below one directory.
 * sql/lake_schema.sql is the canonical schema and the only bootstrap.
 *
 *     catalog ---- head: the newest snapshot (lake_head, one row, which every commit locks)
 *        |             snapshots: what was visible after each commit; never changed once published
 *        |-- schemas, tables, columns, views, data files, delete files: rows that live from begin_snapshot to before end_snapshot
 *        '-- forks: catalogs that see the parent's rows as they were at one snapshot (lake_ancestor), and end them for themselves (lake_ended)
 *
 * The rule: snapshot ids come from one counter for all catalogs, taken under the catalog's head. Within a catalog id order is
 * commit order; a reader that has seen snapshot n has seen everything below n, and n never changes. Catalogs do not wait for each other.
 *
 * Opening heals: a metabase restored from a dump whose counters stand behind its rows gets them raised, under a lock.
 *
 * Survives: a crash at any point. Init and bootstrap are one transaction; two processes may do it at once.
 * Threads: a tide_lake is as safe as its store. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/lake.h>
#include <tidemark/store.h>

enum {
    TIDE_LAKE_PATH_MAX = 4000, /* bytes of a file's path below the data directory */
    TIDE_LAKE_KEY_MAX = 255,   /* bytes of a request's key */
    TIDE_LAKE_TRIES_MAX = 10,  /* of a commit, on transient failures */
};

/* Notified (tidemark/watch.h) by everything that makes a snapshot, of any catalog. */
#define TIDE_LAKE_TOPIC "lake"

/* Below the data directory, what exports keep on their way into the lake: not the lake's own, left alone by cleanup. */
#define TIDE_LAKE_EXPORTS ".exports"

/* Can it be a data directory? It is made where it is missing. TIDE_E_DENIED, TIDE_E_NOT_FOUND, TIDE_E_INVALID, TIDE_E_FULL, TIDE_E_IO. */
TIDE_MUST_CHECK tide_status tide_lake_check_directory(const char *data_dir, tide_error *err);

/* A metabase that was copied or restored is the one in use from here on: its data directory (absolute, with a slash at its end) is its own again (owner.h).
 * TIDE_E_CONFLICT: another metabase's. */
TIDE_MUST_CHECK tide_status tide_lake_take_over(tide_store *store, const char *data_dir,
                                                tide_error *err);

void tide_lake_closep(tide_lake **lake);
tide_store *tide_lake_store(tide_lake *lake);

/* ---- counters (ids.c) ---- */

/* Never reissued, never going back. Objects are schemas, tables, views and macros, which share DuckLake's catalog ids. */
typedef enum tide_lake_counter {
    TIDE_LAKE_CATALOG_IDS,
    TIDE_LAKE_OBJECT_IDS,
    TIDE_LAKE_COLUMN_IDS,
    TIDE_LAKE_FILE_IDS,
    TIDE_LAKE_PARTITION_IDS,
    TIDE_LAKE_SNAPSHOT_IDS, /* of no commit: tide_lake_spend_snapshot */
} tide_lake_counter;

/* The next `count` ids, ascending, into ids; inside a write. On PostgreSQL they are spent at once, on SQLite when the transaction commits. */
TIDE_MUST_CHECK tide_status tide_lake_next_ids(tide_tx *tx, tide_lake_counter counter, int count,
                                               int64_t *ids, tide_error *err);

/* The allocator of snapshot ids: declares that this transaction locks the catalog's head and moves it to a new snapshot; the one way to
 * get one. Runs last, with the deferred rows behind it (store.h), which find the id as lake_head.snapshot_id and the one before it as
 * parent_snapshot_id. schema_step: 1 where the change alters schemas or tables. *snapshot is final when tide_store_write succeeds. Zero rows, a head that is
 * gone (the catalog was dropped): TIDE_E_NOT_FOUND of tide_store_write. */
TIDE_MUST_CHECK tide_status tide_lake_next_snapshot(tide_tx *tx, int64_t catalog_id,
                                                    int schema_step, const uint64_t digest[2],
                                                    int64_t *snapshot, tide_error *err);

/* A number of the same counter that no snapshot has or will have, above all those that were there when it was asked for: spent at once, for who keeps something of
 * his own in one order with snapshots. It cannot be committed: a commit takes its own, above. */
TIDE_MUST_CHECK tide_status tide_lake_spend_snapshot(tide_lake *lake, int64_t *number,
                                                     tide_error *err);

/* ---- names ---- */

/* "catalog.schema.table", parts in double quotes where they hold dots or quotes (doubled inside). As many parts as wanted; others "". */
typedef struct tide_lake_name {
    char catalog[TIDE_LAKE_NAME_MAX + 1];
    char schema[TIDE_LAKE_NAME_MAX + 1];
    char object[TIDE_LAKE_NAME_MAX + 1];
} tide_lake_name;

/* parts: 1 (catalog), 2 (catalog.schema) or 3. TIDE_E_INVALID: another number, empty or too long ones, control characters; the words show the form. */
TIDE_MUST_CHECK tide_status tide_lake_name_parse(tide_lake_name *out, const char *text, int parts,
                                                 tide_error *err);
/* A new name: 1..255 bytes of UTF-8 without control characters. */
TIDE_MUST_CHECK tide_status tide_lake_check_name(const char *name, const char *what,
                                                 tide_error *err);
