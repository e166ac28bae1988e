/* export_files.h - the data files of an exported catalog file: hard links into a directory of its own, else copies.
 *
 * A stock client that cleans up on the copy removes what its catalog names, and what its data path holds beside: nothing of that is the lake's.
 *
 * Files are synced before the catalog file gets its name. What an export that died has left in the directory is taken over with is_forced. */
#pragma once

#include "store/foreign/foreign_db.h"

/* data_dir: absolute, with a slash at its end; made where it is missing. *is_empty: all that is in it later is the export's. TIDE_E_EXISTS: it is not empty. */
TIDE_MUST_CHECK tide_status tide_lake_export_directory(const char *data_dir, bool is_forced,
                                                       bool *is_empty, tide_error *err);

/* Remove a directory and everything in it, as far as that is possible: of an export that failed. */
void tide_lake_export_undo(const char *data_dir);

/* Give the rows of the file that is written data files of their own. source_dir: the lake's. *count: how many. TIDE_E_NOT_FOUND: one is missing. */
TIDE_MUST_CHECK tide_status tide_lake_export_files(tide_foreign_tx *file, const char *source_dir,
                                                   const char *data_dir, int64_t *count,
                                                   tide_error *err);
