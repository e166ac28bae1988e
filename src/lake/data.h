/* data.h - rows of a lake table: written to and read from Parquet by DuckDB.
 *
 *     write    a source (a Parquet, CSV or JSON-lines file, or standard input) -> the table's columns by name, cast to its types -> one or more Parquet files below the
 *              table's directory with field ids and statistics, synced (file and directory) before they are told
 *     delete   which rows of which files a condition meets -> a delete file per data file (positions), in DuckLake's form
 *     compact  small files of a table -> larger ones with the same rows
 *     scan     a question over catalog.schema.table names, at a snapshot
 *
 * DuckDB runs in memory, within limits; its library is looked for as store/duckdb/duckdb.h says. Names of files, columns and values never enter a statement as text that could
 * leave its quotes: one place quotes (quote.h). Times with a zone are UTC's. Texts of others (conditions, questions, views) run in an instance of their own,
 * which can read the table's files and nothing else, and whose settings are locked; what comes out of it is positions or rows.
 *
 *     <data dir>/<table's path>/<uuid>.new/           what is being written (or was, when a process died); no row names it
 *                               <uuid>.parquet        rows, whatever their partition: its values stand in the metabase alone
 *                               <uuid>-delete.parquet positions
 *
 * A file gets its name when it is whole and synced; then the directory is synced; then it is told. Until a commit names it in the metabase it is nobody's: who writes
 * removes it when the commit is refused; after a crash cleanup finds it (expire.h).
 *
 * Columns are matched by field id, not by name or position: a file that is older than a column gives its initial default, one that is older than a
 * renaming its values. Row order within a source is kept.
 *
 * Statistics are DuckDB's own of what it wrote, in its text form, which is DuckLake's (BOOLEAN: 0 and 1; BLOB: hexadecimal). Bounds that no text can hold (a NUL in them) are
 * not told; INTERVAL and TIMETZ have none. HUGEINT and UHUGEINT are refused: Parquet has no such integers, and DuckDB would write doubles.
 *
 * Partitions: identity, year, month, day, hour (of UTC), bucket(n) with the hash of Iceberg and DuckLake. A partition's file is not cut at file_bytes.
 *
 * Threads: a tide_lake_data belongs to one thread at a time. Processes may write to one table at once. */
#pragma once

#include "base/cleanup.h"
#include "lake/change.h"
#include "store/duckdb/duckdb.h"

typedef struct tide_lake_data tide_lake_data;

typedef struct tide_lake_data_options {
    const char *library; /* as tide_duckdb_options */
    int threads;
    int64_t memory_max;
    int64_t file_bytes; /* a new file is begun beyond it (not within a partition); 0: 128 MiB */
    tide_env *env;      /* NULL: the system's */
    /* Pulling it ends what is being done with TIDE_E_INTERRUPTED, and leaves nothing behind on the disk; close the handle then. NULL: none. */
    tide_duck_cancel *cancel;
    /* Where texts of callers run (query_sandbox.h). Must outlive the handle. NULL: in this process. */
    const struct tide_lake_runner *runner;
    /* Files whose digests were compared (file_digest.h), shared by handles of one metabase. Must outlive the handle. NULL: its own. */
    struct tide_lake_seen_files *seen;
    /* With a runner: for tide_lake_query alone. No DuckDB is opened in this process. */
    bool is_remote;
} tide_lake_data_options;

TIDE_MUST_CHECK tide_status tide_lake_data_open(tide_lake_data **out, const char *data_dir,
                                                const tide_lake_data_options *options,
                                                tide_error *err);
void tide_lake_data_close(tide_lake_data *data); /* takes NULL */
TIDE_CLEANUP_FN(tide_lake_data_closep, tide_lake_data, tide_lake_data_close)

typedef enum tide_lake_format {
    TIDE_LAKE_BY_NAME, /* .parquet, .csv, .tsv, .json, .jsonl, also with .gz or .zst where DuckDB reads them */
    TIDE_LAKE_PARQUET,
    TIDE_LAKE_CSV,
    TIDE_LAKE_JSON,
} tide_lake_format;

/* What a source without a name is, as its first bytes say; anything that is neither Parquet nor JSON is CSV. */
tide_lake_format tide_lake_format_of(tide_view bytes);
/* How names of spooled sources end: they are not shown in words, and cleanup knows them (expire.h). */
#define TIDE_LAKE_STAGE ".new"
#define TIDE_LAKE_SPOOLED TIDE_LAKE_STAGE "/input"

/* Files that were written: what tide_lake_add_file takes. */
typedef struct tide_lake_written {
    tide_lake_new_file *files;
    int count;
    int64_t rows;
    int64_t bytes;
    struct tide_arena *memory;
} tide_lake_written;
void tide_lake_written_done(tide_lake_written *written); /* fits TIDE_CLEANUP on {0} */
/* Remove them from the disk again. */
void tide_lake_written_discard(tide_lake_data *data, const tide_lake_object *table,
                               const tide_lake_written *written);

/* CSV: a first line with names, commas between values (tabs in .tsv), double quotes, nothing guessed; nothing is NULL, "" an empty text. JSON: lines or an array of objects; all of
 * it is looked at twice, so that no name goes unseen; whole numbers are not rounded (1.0 is 1, 1.5 is refused); numbers beyond a double's digits are to be written as texts.
 * source "-": standard input, through a temporary file, as is every pipe; BY_NAME tells its format by its first bytes. TIDE_E_NOT_FOUND: no such file. TIDE_E_INVALID: not of its format, columns that the table does not have (named), missing
 * columns without default that may not be NULL, values that cannot be cast (which row, which column): nothing is left on the disk. */
TIDE_MUST_CHECK tide_status tide_lake_write_rows(tide_lake_data *data,
                                                 const tide_lake_table_seen *table,
                                                 const char *source, tide_lake_format format,
                                                 tide_lake_written *out, tide_error *err);

/* Files of a table as state.h sees them, copied. */
typedef struct tide_lake_files {
    tide_lake_file_seen *all;
    int count;
    struct tide_arena *memory;
} tide_lake_files;
TIDE_MUST_CHECK tide_status tide_lake_files_read(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                                 int64_t table_id, tide_lake_files *out,
                                                 tide_error *err);
void tide_lake_files_done(tide_lake_files *files); /* fits TIDE_CLEANUP on {0} */

/* Rows that meet the condition (an SQL expression over the table's columns, which may be called by the table's name too), per file, as a new delete file that holds the older positions too; file NULL in
 * the change's sense (path "") where no row is left. *rows: newly deleted. out->files[i] belongs to files->all[which[i]]: which has room for files->count. TIDE_E_INVALID: a condition that is none. TIDE_E_DENIED: it wants
 * other files. */
TIDE_MUST_CHECK tide_status tide_lake_find_deletes(tide_lake_data *data,
                                                   const tide_lake_table_seen *table,
                                                   const tide_lake_files *files,
                                                   const char *condition, tide_lake_written *out,
                                                   int *which, int64_t *rows, tide_error *err);

/* Rewrite some files, without what was deleted, as larger ones, in the table's columns and partition of now. */
TIDE_MUST_CHECK tide_status tide_lake_rewrite(tide_lake_data *data,
                                              const tide_lake_table_seen *table,
                                              const tide_lake_files *files, tide_lake_written *out,
                                              tide_error *err);

/* ---- questions ---- */

/* Tables are shown to DuckDB as views catalog.schema.table of the files that live at the snapshot. Only those that the text names are read. */
typedef struct tide_lake_ask {
    const char *text;
    const char *at;              /* as tide_lake_find_snapshot, for every catalog that is named */
    const char *default_catalog; /* for names without one; NULL: none */
    int64_t row_max;
    int64_t bytes_max;
    int64_t timeout_us;
    tide_status (*columns)(void *arg, const char *const *names, int count, tide_error *err);
    tide_status (*row)(void *arg, const tide_sql_value *cells, int count, tide_error *err);
    void *arg;
} tide_lake_ask;
/* Pins what it reads while it reads. One statement, which only reads (SELECT, DESCRIBE, SUMMARIZE, EXPLAIN of a SELECT), and no other files than the tables'. Names of
 * two parts are schema.table of the default catalog, or catalog.table (of its schema main) where there is none; views see their own catalog and schema first.
 * TIDE_E_NOT_FOUND: a catalog, table or snapshot; TIDE_E_DENIED, TIDE_E_INVALID, TIDE_E_LIMIT, TIDE_E_TIMEOUT, TIDE_E_NOMEM as tide_duckdb_ask. */
TIDE_MUST_CHECK tide_status tide_lake_query(tide_lake_data *data, tide_lake *lake,
                                            const tide_lake_ask *ask, tide_error *err);
