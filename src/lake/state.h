/* state.h - what a catalog holds at a snapshot, seen through its ancestors.
 *
 * Everything is read within the caller's transaction (one consistent look) from the views lake_<kind>: visible at s is begin <= s < end.
 *
 * Threads: as the transaction. */
#pragma once

#include "lake/lake.h"

/* Kinds of rows with a life, as lake_ended names them. */
typedef enum tide_lake_kind {
    TIDE_LAKE_SCHEMA = 1,
    TIDE_LAKE_TABLE = 2,
    TIDE_LAKE_VIEW = 3,
    TIDE_LAKE_COLUMN = 4,
    TIDE_LAKE_DATA_FILE = 5,
    TIDE_LAKE_DELETE_FILE_KIND = 6,
    TIDE_LAKE_PARTITION = 7,
} tide_lake_kind;

/* By name, folded. TIDE_E_NOT_FOUND: there is none; the words name those that are there, if few. */
TIDE_MUST_CHECK tide_status tide_lake_find_catalog(tide_tx *tx, const char *name,
                                                   tide_lake_catalog *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_each_catalog(tide_tx *tx, tide_lake_catalog_fn *fn, void *arg,
                                                   tide_error *err);

/* What is asked for by --at: "" (the head), a snapshot's id, or a time ("2026-11-16 12:00:00"): the newest snapshot at or before it, by (time, id).
 * TIDE_E_NOT_FOUND: not a snapshot of this catalog (or expired; the words say the oldest there is), or before its first. */
TIDE_MUST_CHECK tide_status tide_lake_find_snapshot(tide_tx *tx, const tide_lake_catalog *catalog,
                                                    const char *at, int64_t *snapshot,
                                                    tide_error *err);

typedef struct tide_lake_object { /* a schema, table or view */
    tide_lake_kind kind;
    int64_t id;
    int64_t schema_id; /* of a schema: its own */
    int64_t owner_id;  /* the catalog whose row it is */
    int64_t begin_snapshot;
    char uuid[37];
    char name[TIDE_LAKE_NAME_MAX + 1];
    char path[1024]; /* whole, below the data directory, with a slash at its end */
    char *
        sql; /* of a view: in an each_ function until fn returns, from tide_lake_find_object the caller's to free */
} tide_lake_object;

/* TIDE_NONE: no such thing at that snapshot. */
TIDE_MUST_CHECK tide_status tide_lake_find_schema(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                                  const char *name, tide_lake_object *out,
                                                  tide_error *err);
/* A table or a view: they share names. */
TIDE_MUST_CHECK tide_status tide_lake_find_object(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                                  int64_t schema_id, const char *name,
                                                  tide_lake_object *out, tide_error *err);
typedef tide_status tide_lake_object_fn(void *arg, const tide_lake_object *object, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_each_schema(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                                  tide_lake_object_fn *fn, void *arg,
                                                  tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_each_object(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                                  int64_t schema_id, tide_lake_object_fn *fn,
                                                  void *arg, tide_error *err);

typedef struct tide_lake_column {
    int64_t id; /* the field id in Parquet */
    int64_t begin_snapshot;
    int64_t order;
    char name[TIDE_LAKE_NAME_MAX + 1];
    char
        type[256]; /* DuckLake's words: int64, varchar, decimal(18,2), timestamptz, ... (types.h) */
    char initial_default[1024]; /* what rows have that are older than the column; "NULL" */
    char default_value[1024];
    bool nulls_allowed;
} tide_lake_column;

/* Of the top level, in order; free with free(). */
TIDE_MUST_CHECK tide_status tide_lake_read_columns(tide_tx *tx, int64_t catalog_id,
                                                   int64_t snapshot, int64_t table_id,
                                                   tide_lake_column **out, int *count,
                                                   tide_error *err);

typedef struct tide_lake_partition_key {
    int64_t column_id;
    char transform[64]; /* identity, year, month, day, hour, bucket(n) */
} tide_lake_partition_key;
enum { TIDE_LAKE_PARTITION_KEYS_MAX = 8 };
typedef struct tide_lake_partition {
    int64_t id; /* 0: not partitioned */
    int64_t begin_snapshot;
    int count;
    tide_lake_partition_key keys[TIDE_LAKE_PARTITION_KEYS_MAX];
} tide_lake_partition;
TIDE_MUST_CHECK tide_status tide_lake_read_partition(tide_tx *tx, int64_t catalog_id,
                                                     int64_t snapshot, int64_t table_id,
                                                     tide_lake_partition *out, tide_error *err);

/* Where a table's files are: below the data directory, or absolute. */
TIDE_MUST_CHECK tide_status tide_lake_table_path(tide_tx *tx, int64_t table_id, char out[1024],
                                                 tide_error *err);

/* A data file with the delete file that applies to it. Paths are whole, below the data directory (or absolute: a stock client's). Views until fn returns. */
typedef struct tide_lake_file_seen {
    int64_t data_file_id;
    int64_t owner_id;
    int64_t begin_snapshot;
    const char *path;
    int64_t record_count;
    int64_t file_size_bytes;
    int64_t footer_size;
    int64_t row_id_start;
    int64_t partition_id;   /* 0: none */
    int64_t delete_file_id; /* 0: none */
    int64_t delete_begin;   /* its begin_snapshot */
    int64_t delete_owner_id;
    const char *delete_path; /* "": none */
    int64_t delete_count;
    const char *sha256;        /* of the file, hexadecimal; "" or NULL: not known */
    const char *delete_sha256; /* of the delete file; "" */
    bool is_foreign; /* only its own client reads it: columns by name, a deletion vector, a key */
} tide_lake_file_seen;
typedef tide_status tide_lake_file_fn(void *arg, const tide_lake_file_seen *file, tide_error *err);
/* In order of ids. */
TIDE_MUST_CHECK tide_status tide_lake_each_file(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                                int64_t table_id, tide_lake_file_fn *fn, void *arg,
                                                tide_error *err);
/* Only files whose statistics allow column `op` value ("=", "<", "<=", ">", ">="); a file without statistics of the column is given. value is as statistics
 * are written; compared by the column's type. */
TIDE_MUST_CHECK tide_status tide_lake_each_file_where(tide_tx *tx, int64_t catalog_id,
                                                      int64_t snapshot, int64_t table_id,
                                                      const tide_lake_column *column,
                                                      const char *op, const char *value,
                                                      tide_lake_file_fn *fn, void *arg,
                                                      tide_error *err);

typedef struct tide_lake_snapshot {
    int64_t snapshot_id;
    int64_t catalog_id; /* whose commit it was: an ancestor's, below a fork */
    int64_t time_us;
    int64_t schema_version;
    tide_view changes_made;
    tide_view author;
    tide_view message;
} tide_lake_snapshot;
typedef tide_status tide_lake_snapshot_fn(void *arg, const tide_lake_snapshot *snapshot,
                                          tide_error *err);
/* Ascending above `after`, at most limit; ancestors' too. */
TIDE_MUST_CHECK tide_status tide_lake_each_snapshot(tide_tx *tx, int64_t catalog_id, int64_t after,
                                                    int64_t limit, tide_lake_snapshot_fn *fn,
                                                    void *arg, tide_error *err);

/* Rows with a life that are visible at b and not at a ('+'), or at a and not at b ('-'): schemas, tables, views, columns, files. */
typedef struct tide_lake_difference {
    char sign;
    tide_lake_kind kind;
    int64_t id;
    int64_t table_id; /* of columns and files */
    const char *name; /* or path */
    int64_t records;  /* of files */
} tide_lake_difference;
typedef tide_status tide_lake_difference_fn(void *arg, const tide_lake_difference *difference,
                                            tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_diff(tide_tx *tx, int64_t catalog_id, int64_t a, int64_t b,
                                           tide_lake_difference_fn *fn, void *arg, tide_error *err);
