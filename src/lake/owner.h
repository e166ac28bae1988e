/* owner.h - whose a data directory is.
 *
 * Who removes files has to know all that are needed, and a metabase knows only its own. So a data directory says whose it is, in a small file (.tidemark-lake): the
 * store's session and epoch (tidemark/identity.h), and its name for people. Another metabase in the same directory, a copy of a metabase, or one that was restored
 * beside the original finds somebody else's name there, and removes nothing.
 *
 *     init      marks a directory that nobody has marked; one of another metabase is refused
 *     cleanup   needs its own mark. None at all: the directory may not be mounted
 *
 * A metabase that was restored in place has a new epoch: `lake init --force` (tide_lake_take_over) says that it is the one in use.
 *
 * Survives: the mark appears whole or not at all; of two who mark at once one comes first, and the other is refused. */
#pragma once

#include <stdbool.h>

#include <tidemark/store.h>

/* In the data directory; not of its files. */
#define TIDE_LAKE_OWNER_FILE ".tidemark-lake"

/* data_dir ends with a slash, everywhere. */

/* May this metabase live there? TIDE_E_CONFLICT: another one does. */
TIDE_MUST_CHECK tide_status tide_lake_owner_look(tide_store *store, const char *data_dir,
                                                 tide_error *err);
/* Mark it, unless it is marked. needs_files: the metabase has files, so an empty directory is not its own (TIDE_E_NOT_FOUND). TIDE_E_CONFLICT: somebody else was faster. */
TIDE_MUST_CHECK tide_status tide_lake_owner_mark(tide_store *store, const char *data_dir,
                                                 bool needs_files, tide_error *err);
/* May this metabase remove files there? TIDE_E_NOT_FOUND: there is no directory, or nobody's. TIDE_E_CONFLICT: it is another one's, or another copy's. */
TIDE_MUST_CHECK tide_status tide_lake_owner_need(tide_store *store, const char *data_dir,
                                                 tide_error *err);
