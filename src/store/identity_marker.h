/* identity_marker.h - what this host remembers of a store, outside of it (see identity.h, layer 2).
 *
 * A small text file, `SESSION MARK EPOCH`, in <state directory>/identity-markers, one per session and
 * file. The writer raises the mark inside a commit that happens anyway, and writes the marker after
 * that commit. So the marker is never ahead of its file, unless the file went back.
 *
 * Written by rename, without a sync: a marker that is lost or old is no evidence, and nothing else.
 * A marker never goes down, even if two processes write it at once.
 *
 * The state directory: options.state_dir, else TIDEMARK_STATE_DIR, else /var/lib/tidemark for root,
 * else XDG_STATE_HOME/tidemark or ~/.local/state/tidemark. Not writable: no marker is kept. */
#ifndef TIDE_STORE_IDENTITY_MARKER_H
#define TIDE_STORE_IDENTITY_MARKER_H

#include "store/engine.h"

enum { TIDE_IDENTITY_MARKER_PATH_SIZE = 1024 };

/* The state directory, which may not exist yet; given overrides the rest, NULL does not. False: none. */
bool tide_identity_marker_state_directory(const char *given,
                                          char out[TIDE_IDENTITY_MARKER_PATH_SIZE]);

/* Decide where this store's identity marker lives; after its session and host are known. */
void tide_identity_marker_init(tide_store *store);

static inline bool tide_identity_marker_is_kept(const tide_store *store)
{
    return store->marker_path != NULL;
}

/* TIDE_OK, or TIDE_NONE when there is no readable identity marker of this session. epoch: the greatest this file was in, so that one that is put back
 * twice does not begin the same epoch twice; 0: not known. May be NULL. */
TIDE_MUST_CHECK tide_status tide_identity_marker_read(const tide_store *store, int64_t *mark,
                                                      int64_t *epoch);

/* The greatest epoch in any marker of this session on this host; 0: none. A file that was deleted and restored has
 * another inode and so another marker, and its earlier ones are the only memory of the epochs between. */
int64_t tide_identity_marker_newest_epoch(const tide_store *store);

void tide_identity_marker_write(tide_store *store, int64_t mark);

/* ---- PostgreSQL: the newest epoch that was seen ----
 *
 * `SESSION EPOCH EPOCH EPOCH_ID`, one per session, cluster and database: not per timeline, so that the primary
 * that returns after a failover is recognised. Synced, because nothing else remembers it. */

void tide_identity_marker_init_epoch(tide_store *store, const char *session_id, const char *host);
TIDE_MUST_CHECK tide_status tide_identity_marker_read_epoch(const tide_store *store,
                                                            tide_identity *out);
void tide_identity_marker_write_epoch(tide_store *store, const tide_identity *identity);

/* ---- the same for a file that is no store (app_file.h) ---- */

/* Where the identity marker lives; the caller frees it. NULL: none is kept. */
char *tide_identity_marker_path_of(const char *state_dir, const char *session_id, const char *host);
TIDE_MUST_CHECK tide_status tide_identity_marker_read_at(const char *path, const char *session_id,
                                                         int64_t *mark, int64_t *epoch);
void tide_identity_marker_write_at(const char *path, const char *session_id, int64_t mark,
                                   int64_t epoch);

#endif
