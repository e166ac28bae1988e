/* export.h - rows of a colony as Parquet files, each row in one file, once.
 *
 * Every run writes what has come since the last one into a directory:
 *
 *     DIR/spans/web-1/SESSION-EPOCH-FIRST-LAST.parquet     numbers FIRST..LAST of one source; names are percent-encoded
 *     DIR/records/STREAM/web-1/...                         of users' streams, which may have any name
 *     DIR/manifest.tsv                                     what is planned and what is written: the truth
 *     DIR/lock                                             one run at a time
 *
 * What is exported of a source ends before its first held hole and its first open gap: everything below is settled. Numbers that were given up
 * and came after all (a void or permanent gap that was recovered) get a file of their own later.
 *
 * The sink may be any one: rows are read by its query, and DuckDB, in memory, writes the file.
 *
 * Survives: a crash at any point. A range is first planned (a line of the manifest, synced), then its file is written under another name, synced and
 * renamed, its directory synced, then it is noted as written (synced).
 *
 *     died before the plan             nothing has happened
 *     before the rename                the next run writes the planned range, under the same name; what lies there half is removed
 *     before it is noted as written    the file is complete: the next run looks into it and notes it
 *     in the middle of a line          the line is cut off; its range is begun again
 *
 * So whoever reads the files that the manifest lists as written, or all of *.parquet, has no row twice. Rows that retention has removed before they were exported are
 * not in any file; run it more often than rows are kept.
 *
 * Threads: one run at a time per directory (TIDE_E_BUSY). Limits: TIDE_EXPORT_ROWS_DEFAULT rows per file. */
#pragma once

#include "colony/sink.h"

enum {
    TIDE_EXPORT_ROWS_DEFAULT = 250000,
    TIDE_EXPORT_ROWS_MAX = 10000000,
    TIDE_EXPORT_NAME_SIZE = 1024,
};

typedef struct tide_export_options {
    tide_sink *sink;
    const char *dir;       /* is made, if its parent is there */
    bool is_confined;      /* dir is what a caller asked for: links below it are not followed */
    const char *agent_id;  /* NULL: all */
    const char *data_type; /* NULL: all */
    const char *library;   /* of DuckDB; NULL: where it usually is */
    int64_t row_max;       /* of one file; 0: TIDE_EXPORT_ROWS_DEFAULT */
} tide_export_options;

/* A line of the manifest. */
typedef struct tide_export_range {
    char data_type[TIDE_FEED_NAME_MAX + 1];
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    char session_id[TIDE_POSITION_ID_MAX + 1];
    int64_t epoch;
    int64_t first_seq;
    int64_t last_seq;
    bool is_written; /* or planned */
    int64_t rows;
    int64_t bytes; /* of the file; 0: a range without rows has none */
    bool is_late;  /* numbers that came after the ranges around them */
} tide_export_range;

typedef tide_status tide_export_fn(void *arg, const tide_export_range *range, const char *path,
                                   tide_error *err);

typedef struct tide_export_sum {
    int64_t files;
    int64_t rows;
    int64_t bytes;
} tide_export_sum;

/* Write what is new; fn (may be NULL) is told of each range that has been written. TIDE_E_BUSY: another run is under way.
 * TIDE_E_DAMAGED: the manifest is not one. TIDE_E_UNAVAILABLE: no DuckDB. */
TIDE_MUST_CHECK tide_status tide_export_run(const tide_export_options *options, tide_export_fn *fn,
                                            void *arg, tide_export_sum *out, tide_error *err);

/* What the manifest lists, in its order. TIDE_E_NOT_FOUND: no manifest. */
TIDE_MUST_CHECK tide_status tide_export_list(const char *dir, tide_export_fn *fn, void *arg,
                                             tide_error *err);
