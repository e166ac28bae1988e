/* identity_marker.h - what this host remembers of a store, outside of it (see identity.h, layer 2).
 *
 * A file of one page in <state directory>/identity-markers, one per session and file, mapped by
 * every process that writes the store:
 *
 *     mark       of the last commit that raised the store's own mark
 *     epoch      the greatest that the file was in
 *     counters   name and last number of sequences, each as the last commit that raised it left it
 *     is_logged  a commit may stand in the write-ahead log alone
 *
 * Each commit moves it, after the sync and before the answer: its counters, or the mark where it
 * raised none. So it is never ahead of its file, unless the file went back or lost its tail, and
 * whatever follows a kill is found by the next open, whichever program recovered the file
 * meanwhile. A power cut loses at most the second since it was written out: old evidence, not false
 * evidence.
 *
 * The values never go down, even if several processes write them, except when an epoch begins.
 *
 * What root makes in a directory of another user belongs to that user, who could not read it
 * otherwise.
 *
 * The state directory: options.state_dir, else TIDEMARK_STATE_DIR, else /var/lib/tidemark for root,
 * else XDG_STATE_HOME/tidemark or ~/.local/state/tidemark. Not writable: no marker is kept.
 *
 * Threads: any, except open and close. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/identity.h>

#include "store/engine.h"

enum {
    TIDE_IDENTITY_MARKER_PATH_SIZE = 1024,
    TIDE_IDENTITY_MARKER_COUNTERS = 62,
    TIDE_IDENTITY_MARKER_NAME_SIZE = 56,
};

/* The state directory, which may not exist yet; given overrides the rest, NULL does not. False:
 * none. */
bool tide_identity_marker_state_directory(const char *given,
                                          char out[TIDE_IDENTITY_MARKER_PATH_SIZE]);

/* A folder or file of this state directory that this process may not read and write, and so knows
 * nothing of. False: none. */
bool tide_identity_marker_find_refused(const char *state_dir,
                                       char out[TIDE_IDENTITY_MARKER_PATH_SIZE]);

typedef struct tide_identity_marker tide_identity_marker;

/* Where the marker of a session and file lives, made if absent. NULL: none is kept; the functions
 * below take that. */
tide_identity_marker *tide_identity_marker_open(const char *state_dir, const char *session_id,
                                                const char *host);
void tide_identity_marker_close(tide_identity_marker *marker);
const char *tide_identity_marker_path(const tide_identity_marker *marker);

typedef struct tide_marker_counter {
    char name[TIDE_IDENTITY_MARKER_NAME_SIZE];
    int64_t last;
} tide_marker_counter;

typedef struct tide_marker_state {
    int64_t mark;  /* -1: no marker */
    int64_t epoch; /* 0: not known */
    bool is_logged;
    int counter_count;
    tide_marker_counter counters[TIDE_IDENTITY_MARKER_COUNTERS];
} tide_marker_state;

/* Read it before the file: the file may be ahead of what was read, not behind. */
void tide_identity_marker_read(const tide_identity_marker *marker, tide_marker_state *out);

/* The greatest epoch in any marker of this session on this host; 0: none. A file that was deleted
 * and restored has another inode and so another marker, and its earlier ones are the only memory of
 * the epochs between. */
int64_t tide_identity_marker_newest_epoch(const tide_identity_marker *marker);

void tide_identity_marker_raise(tide_identity_marker *marker, int64_t mark, int64_t epoch);

/* Is there a place for a counter of this name, or can one be had? */
bool tide_identity_marker_has_counter(tide_identity_marker *marker, const char *name);
void tide_identity_marker_raise_counter(tide_identity_marker *marker, const char *name,
                                        int64_t last);
/* An epoch has begun in which the counter continues from here. */
void tide_identity_marker_set_counter(tide_identity_marker *marker, const char *name, int64_t last);

void tide_identity_marker_set_logged(tide_identity_marker *marker, bool is_logged);

/* Begin to write it out, for a power cut. Does not wait. */
void tide_identity_marker_sync(tide_identity_marker *marker);

/* ---- SQLite: the session at a path ----
 *
 * `SESSION`, one text file per path, in <state directory>/store-paths. A store that was deleted and
 * made anew has no marker of its own that could show it. */

/* Record that this session is at the path. True: another one was, in before. */
bool tide_identity_marker_set_session(const char *state_dir, const char *path,
                                      const char *session_id, char before[TIDE_SESSION_ID_SIZE]);

/* ---- PostgreSQL: what was seen of the server ----
 *
 * `SESSION EPOCH EPOCH_ID START_NUMBER START_ID ...`, the newest epoch and starts of the server, in
 * one text file per session, cluster and database: not per timeline, so that the primary that
 * returns after a failover is recognised. Synced, because nothing else remembers it. Beside it a
 * marker as above, one per epoch, whose mark is the last position in the WAL that was durable. */

void tide_identity_marker_init_epoch(tide_store *store, const char *session_id, const char *host);
TIDE_MUST_CHECK tide_status tide_identity_marker_read_epoch(const tide_store *store,
                                                            tide_identity *out,
                                                            tide_server_starts *starts);
void tide_identity_marker_write_epoch(tide_store *store, const tide_identity *identity,
                                      const tide_server_starts *starts);

/* The greatest epoch of this session that was seen on this host, in any cluster and database; 0:
 * none. */
int64_t tide_identity_marker_newest_seen(const tide_store *store);

/* 0: not known. */
uint64_t tide_identity_marker_read_wal(const tide_store *store, int64_t epoch);

/* Make store->marker the one of this epoch, and delete that of an older one; 0: keep none. The
 * store's identity_lock is held. */
void tide_identity_marker_follow_epoch(tide_store *store, int64_t epoch);
