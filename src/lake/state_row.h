/* state_row.h - rows as they are stored, read with everything that their digest needs; for the files of this folder alone. */
#pragma once

#include "lake/digest.h"
#include "lake/state.h"

enum { TIDE_LAKE_TEXT_SIZE = 1024 }; /* of paths and defaults, with the terminator */

typedef struct tide_lake_object_row {
    tide_lake_object seen;
    char path[TIDE_LAKE_TEXT_SIZE]; /* as stored: below its schema */
    bool is_relative;
    char dialect[64]; /* of a view */
} tide_lake_object_row;

typedef struct tide_lake_column_row {
    tide_lake_column seen;
    int64_t owner_id;
    bool has_initial; /* otherwise NULL is stored, which seen says as "NULL" */
    bool has_default;
} tide_lake_column_row;

/* tide_lake_find_catalog in one round trip: known when the transaction has ended. status: TIDE_NONE, there is none; the words are tide_lake_find_catalog's. */
typedef struct tide_lake_catalog_wish {
    tide_lake_catalog *out;
    tide_status status;
    tide_error failure;
} tide_lake_catalog_wish;
TIDE_MUST_CHECK tide_status tide_lake_wish_catalog(tide_tx *tx, const char *name,
                                                   tide_lake_catalog_wish *wish, tide_error *err);

/* Copy a text of a row. TIDE_E_LIMIT: longer than this program can hold; the words name what it is. */
TIDE_MUST_CHECK tide_status tide_lake_copy(char *out, size_t size, tide_view text, const char *what,
                                           tide_error *err);

/* The current row of lake_schema_*, lake_object_* or lake_table_get. The text of its view (member sql of seen) is the caller's to free. */
TIDE_MUST_CHECK tide_status tide_lake_object_row_read(tide_query *query, tide_lake_object_row *out,
                                                      tide_error *err);
/* One object by a statement whose other parameters are bound. TIDE_NONE: no such row. */
TIDE_MUST_CHECK tide_status tide_lake_object_row_find(tide_query *query, tide_lake_object_row *out,
                                                      tide_error *err);

/* Columns of the top level; free with free(). */
TIDE_MUST_CHECK tide_status tide_lake_column_rows(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                                  int64_t table_id, tide_lake_column_row **out,
                                                  int *count, tide_error *err);
/* owner_id (may be NULL): whose row it is. */
TIDE_MUST_CHECK tide_status tide_lake_partition_row(tide_tx *tx, int64_t catalog_id,
                                                    int64_t snapshot, int64_t table_id,
                                                    tide_lake_partition *out, int64_t *owner_id,
                                                    tide_error *err);

/* ---- what rows add to their catalog's state (digest.h) ---- */

TIDE_MUST_CHECK tide_status tide_lake_object_digest(const tide_lake_object_row *row,
                                                    tide_lake_digest *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_column_digest(int64_t table_id,
                                                    const tide_lake_column_row *row,
                                                    tide_lake_digest *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_partition_digest(int64_t table_id,
                                                       const tide_lake_partition *row,
                                                       tide_lake_digest *out, tide_error *err);

typedef struct tide_lake_file_row { /* of a data file or a delete file */
    int64_t id;
    int64_t table_id;
    int64_t data_file_id; /* of a delete file */
    tide_view path;
    bool is_relative;
    int64_t records; /* deleted ones, of a delete file */
    int64_t bytes;
    int64_t footer;
    bool has_footer; /* otherwise NULL is stored */
} tide_lake_file_row;
TIDE_MUST_CHECK tide_status tide_lake_data_file_digest(const tide_lake_file_row *row,
                                                       tide_lake_digest *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_delete_file_digest(const tide_lake_file_row *row,
                                                         tide_lake_digest *out, tide_error *err);
