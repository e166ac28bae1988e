/* export_parts.h - what the files of the export share. See export.h.
 *
 *     export.c           ranges, their order, their rows and Parquet files
 *     export_manifest.c  the manifest: reading, cutting off, appending */
#pragma once

#include "base/buffer.h"
#include "colony/export.h"
#include "store/duckdb/duckdb.h"

enum { TIDE_EXPORT_MISSING_MAX = 1000 }; /* intervals of a range whose absence is noted */

/* What is known of a source. */
typedef struct tide_export_source {
    char data_type[TIDE_FEED_NAME_MAX + 1];
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    char session_id[TIDE_POSITION_ID_MAX + 1];
    int64_t epoch;
    int64_t through;  /* ranges have been written up to here */
    tide_cursor done; /* numbers of them that are in a file; the others may come late */
    bool has_plan;
    tide_export_range plan;
} tide_export_source;

typedef struct tide_manifest {
    const char *dir;
    int fd;
    int lock_fd;
    tide_export_source *sources;
    int count;
} tide_manifest;

/* Read a directory's manifest for a run: locks it, cuts off what a crash left half. TIDE_E_BUSY. */
TIDE_MUST_CHECK tide_status tide_manifest_open(tide_manifest *out, const char *dir,
                                               tide_error *err);
void tide_manifest_close(tide_manifest *manifest); /* fits TIDE_CLEANUP */

/* The source of a position; made where there is none. Borrowed until the next one is made. */
TIDE_MUST_CHECK tide_status tide_manifest_source(tide_manifest *manifest, const char *data_type,
                                                 const char *agent_id, const char *session_id,
                                                 int64_t epoch, tide_export_source **out,
                                                 tide_error *err);

/* Append a line and sync it; what it says becomes part of the source. missing: numbers of the range that have no row. */
TIDE_MUST_CHECK tide_status tide_manifest_note(tide_manifest *manifest,
                                               const tide_export_range *range,
                                               const tide_interval *missing, int missing_count,
                                               tide_error *err);

/* DIR/TABLE/AGENT/SESSION-EPOCH-FIRST-LAST.parquet. */
TIDE_MUST_CHECK tide_status tide_export_path(char out[TIDE_EXPORT_NAME_SIZE], const char *dir,
                                             const tide_export_range *range, tide_error *err);

/* Where rows become files: a database in memory, made on first use and again when much has gone through it. */
typedef struct tide_export_writer {
    const tide_export_options *options;
    tide_duckdb *db;
    tide_duck *duck;
    int64_t rows;
    const tide_cursor *
        done; /* of a late range: numbers that are in a file already, and are left out; NULL: none */
} tide_export_writer;

/* Read rows of range->first_seq..last_seq, at most row_max, and write them into range's file. Before a byte of it is written `plan` is called with the range as it
 * will be: last_seq is lower where there were more rows. No rows: no file. *missing: as above; the caller frees it. TIDE_E_EXISTS: a late range has the ends of
 * one whose file is there; nothing was planned or written. */
typedef tide_status tide_export_plan_fn(void *arg, const tide_export_range *range, tide_error *err);
