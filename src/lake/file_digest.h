/* file_digest.h - digests of data and delete files: taken when they are written, compared when they are read.
 *
 * DuckDB neither writes nor checks checksums of Parquet pages, so a changed byte would be a changed value. A file that we write has its
 * SHA-256 in the metabase with its row (lake_file_digest). The first read of a file by a handle compares it, if the file has at most
 * TIDE_LAKE_CHECK_LEN bytes; tide_lake_verify_files compares all. Files of stock clients have no digest until one is recorded.
 *
 * Threads: safe; handles of one metabase may share a tide_lake_seen_files. Limits: SEEN_MAX files are remembered; then it begins again. */
#pragma once

#include "base/digest.h"
#include "lake/lake.h"

#define TIDE_LAKE_CHECK_LEN (INT64_C(64) << 20)

/* TIDE_E_NOT_FOUND, TIDE_E_DENIED, TIDE_E_IO: it cannot be read. */
TIDE_MUST_CHECK tide_status tide_lake_file_sha256(char out[TIDE_SHA256_TEXT_SIZE], const char *path,
                                                  tide_error *err);

typedef struct tide_lake_seen_files tide_lake_seen_files;
TIDE_MUST_CHECK tide_status tide_lake_seen_files_new(tide_lake_seen_files **out, tide_error *err);
void tide_lake_seen_files_free(tide_lake_seen_files *seen); /* takes NULL */

/* Is it what was written? TIDE_E_DAMAGED names the file. sha256 "" or NULL: not known, nothing is read. What cannot be read is for the reader to
 * report. */
TIDE_MUST_CHECK tide_status tide_lake_seen_files_check(tide_lake_seen_files *seen, int64_t file_id,
                                                       const char *path, const char *sha256,
                                                       tide_error *err);

typedef struct tide_lake_files_checked {
    int64_t checked;
    int64_t unchecked; /* they have no digest */
    int64_t damaged;   /* changed, or gone */
    int64_t recorded;
} tide_lake_files_checked;

/* Compare all files of a catalog (NULL: of all) with their digests; findings have the rule "digest". is_recording: what has none gets
 * one. TIDE_E_DAMAGED: some are. TIDE_E_NOT_FOUND: no such catalog. */
TIDE_MUST_CHECK tide_status tide_lake_verify_files(tide_lake *lake, const char *catalog,
                                                   bool is_recording, tide_lake_finding_fn *fn,
                                                   void *arg, tide_lake_files_checked *out,
                                                   tide_error *err);
