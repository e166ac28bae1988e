/* expose.h - a catalog for stock DuckLake clients: views that they read and write (PostgreSQL), or a file that they read (anywhere).
 *
 * Exposing makes a schema with DuckLake 1.0's tables as views of one catalog, seen through its ancestors, so that a stock client attaches with
 *     ATTACH 'ducklake:postgres:...' AS lake (METADATA_SCHEMA 'lake_books')
 * Writing goes through triggers (sql/lake_expose.sql): a stock commit locks the same head as ours, is refused with SQLSTATE 40001 where it does not follow the newest
 * snapshot, and leaves what ours leave: digest, marks, a commit. So stock writers and ours share one ordered, checked history. docs/lake-compatibility.md says what
 * matches and what does not.
 *
 * On an exposed catalog our own commits come together, every TIDE_LAKE_TURN_US: a stock client needs a while without commits between reading and
 * writing, and gives up after ten tries.
 *
 * Exporting writes a SQLite file with the same tables, all snapshots of a catalog, forks made flat: nothing in it needs our store. It
 * owns its data files: hard links, else copies, in a directory of its own, so that a client that cleans up there removes nothing of the lake's. With is_reference its data
 * path is the lake's own: for readers alone.
 *
 * Survives: exposing is one transaction. The exported file appears whole, or not at all; what an export that died has left beside it goes with the next one to that
 * name, when nobody has touched it for an hour. Threads: as the store. */
#pragma once

#include "lake/state.h"

enum {
    TIDE_LAKE_EXPOSED_MAX = 63, /* bytes of a schema's name */
    TIDE_LAKE_TURN_US = 50000,  /* between our commits on an exposed catalog */
};

typedef struct tide_lake_exposed {
    int64_t catalog_id;
    char schema[TIDE_LAKE_EXPOSED_MAX + 1];
    bool was_there; /* it was exposed before; its views are up to date now */
} tide_lake_exposed;

/* schema NULL: "lake_" and the catalog's name. Fine when it is exposed under that name: its views are brought up to date.
 * TIDE_E_UNSUPPORTED: the metabase is in SQLite; the words name export. TIDE_E_NOT_FOUND: no such catalog. TIDE_E_CONFLICT: exposed under another name, or there is
 * a schema of that name. TIDE_E_INVALID: a name that PostgreSQL would cut. */
TIDE_MUST_CHECK tide_status tide_lake_expose(tide_lake *lake, const char *catalog,
                                             const char *schema, tide_lake_exposed *out,
                                             tide_error *err);
/* The views go; the history stays. Fine when it is not exposed: *was_exposed (may be NULL). */
TIDE_MUST_CHECK tide_status tide_lake_unexpose(tide_lake *lake, const char *catalog,
                                               bool *was_exposed, tide_error *err);

/* Until our next commit on an exposed catalog may be. */
int64_t tide_lake_turn_us(int64_t wall_us);

typedef struct tide_lake_exported {
    int64_t snapshot_id; /* the newest one in it */
    int64_t snapshots;
    int64_t tables; /* that live at it */
    int64_t files;  /* linked or copied */
} tide_lake_exported;

typedef struct tide_lake_export_options {
    const char *data_dir; /* NULL: "PATH.files" */
    bool is_reference;    /* the lake's own files, and no directory */
    bool is_forced; /* replace a file of that name, and take over a directory that is not empty */
} tide_lake_export_options;

/* Write a catalog file beside its name, and give it the name when it and its data files are whole and synced. TIDE_E_EXISTS: there is one, or the directory is not
 * empty. TIDE_E_NOT_FOUND: no such catalog, no such directory, a data file is missing. TIDE_E_INVALID: data_dir is within the lake's. TIDE_E_FULL, TIDE_E_IO, TIDE_E_DENIED. */
TIDE_MUST_CHECK tide_status tide_lake_export(tide_lake *lake, const char *catalog, const char *path,
                                             const tide_lake_export_options *options,
                                             tide_lake_exported *out, tide_error *err);
