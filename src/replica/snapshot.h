/* snapshot.h - a node's tables at one cut, as a file: so that history may be collected, and others need not have seen it.
 *
 * Making. Captured changes are folded until, under the write lock, nothing is left to fold: at that moment the tables, clocks and marks speak of the
 * same events. A private copy of the file is made from one read that begins there (store/foreign/foreign_copy.h): a raw copy holds checkpoints up for as
 * long as the disk takes to copy, not for as long as it takes to encode and compress; it costs the file's size in free space for a while. The
 * snapshot is written from the copy (snapshot_record.h says what is in it and why), then restored into a database of its own, whose digests must
 * be those of the copy's tables; only then does the file get its name and is it listed. Everything under way lies in FILE.making, a directory that its
 * maker keeps locked; one that a dead maker has left is emptied by the next.
 *
 *     it dies                              then
 *     before the rename                    there is no FILE; FILE.making is cleared by the next maker
 *     between the rename and the list      FILE is whole and verified, and not listed; a keeper of its directory removes it (tide_snapshot_keep)
 *
 * Restoring is a merge of states: every row's clock is joined with the one that is here (merge.h: each stamp the greatest that either met), values follow
 * their stamps, constraints are resolved as always. That is what all the events would have given. Writes that nobody saw lost are listed; what is
 * here and not in the snapshot stays if it has events that the maker did not have, and goes if the maker had them all: then it was deleted there so long ago
 * that the tombstone is gone. Own events stay in the log and go out later. Then the marks move to the cut, which becomes the floor.
 * The file is read twice: first it is checked from end to end, then it is applied in one transaction, in batches of bounded memory; rows that are here already
 * are only looked at, so the lock is held for reading the snapshot and writing the difference. Into a node without rows they are put as they are, and the
 * tables' digests are compared before the commit.
 *
 *     it dies                              then
 *     before the transaction               tables that were not here are there, tracked and empty; nothing else
 *     inside, also in its COMMIT           as before, or whole; doing it again changes nothing
 *     a new database                       is made in DB.restoring and takes its name when it is whole
 *
 * A snapshot serves somebody only while its cut is at or above every floor of who gives the tail: others are not offered.
 *
 * Threads: as the node. */
#pragma once

#include "base/digest.h"
#include "base/text/uuid.h"
#include "replica/sync.h"

enum { TIDE_SNAPSHOT_PATH_MAX = 4096, TIDE_SNAPSHOT_KEPT = 2 };

/* Somebody who looks on, and may end it. Everything may be NULL. */
typedef struct tide_snapshot_watch {
    void *arg;
    void (*progress)(void *arg, const char *what, int64_t done,
                     int64_t total); /* total 0: not known */
    bool (*is_over)(void *arg);      /* true: TIDE_E_INTERRUPTED, and nothing is left behind */
} tide_snapshot_watch;

typedef struct tide_snapshot_info {
    char id[TIDE_UUID_TEXT_SIZE];
    char path[TIDE_SNAPSHOT_PATH_MAX];
    int64_t created_us;
    int64_t bytes;
    uint8_t digest[TIDE_SHA256_LEN];
    tide_peer_marks cut; /* origins with their marks; names and schemas of tables */
    bool is_verified;
} tide_snapshot_info;
void tide_snapshot_info_done(tide_snapshot_info *info); /* fits TIDE_CLEANUP on {0} */

/* ---- making ---- */

/* TIDE_E_EXISTS: there is something of this name. TIDE_E_BUSY: another is making it; or writers leave no moment. TIDE_E_FULL, TIDE_E_IO.
 * TIDE_E_MISMATCH: restored, it had other digests: nothing is kept. TIDE_E_INTERRUPTED. */
TIDE_MUST_CHECK tide_status tide_snapshot_create(tide_node *node, const char *path,
                                                 const tide_snapshot_watch *watch,
                                                 tide_snapshot_info *out, tide_error *err);

/* ---- looking ---- */

/* Read a file to its end. TIDE_E_DAMAGED, TIDE_E_FOREIGN, TIDE_E_NEWER say what is wrong. */
TIDE_MUST_CHECK tide_status tide_snapshot_check(const char *path, const tide_snapshot_watch *watch,
                                                tide_snapshot_info *out, tide_error *err);
/* The same, and restore it into a database that is thrown away. */
TIDE_MUST_CHECK tide_status tide_snapshot_verify(const char *path, tide_env *env,
                                                 const tide_snapshot_watch *watch,
                                                 tide_snapshot_info *out, tide_error *err);

/* ---- restoring ---- */

typedef struct tide_snapshot_restored {
    int64_t rows;      /* of the snapshot */
    int64_t changed;   /* rows of tables that were written */
    int64_t events;    /* that came with it */
    int64_t conflicts; /* that were found */
    int64_t
        forgotten; /* rows that the maker had deleted so long ago that nothing is left of them */
    int tables_created;
    bool is_bulk; /* nothing was here */
} tide_snapshot_restored;

/* Into a node that is established. TIDE_E_CONFLICT: a table is here, but not tracked, or lacks columns: says what to do. TIDE_E_INVALID: its stamps lie in
 * the future, or it knows more of this node than this node. TIDE_E_MISMATCH: the tables would have other digests. As tide_snapshot_check. */
TIDE_MUST_CHECK tide_status tide_snapshot_restore(tide_node *node, const char *path,
                                                  const tide_snapshot_watch *watch,
                                                  tide_snapshot_restored *out, tide_error *err);
/* Into a database that does not exist: a new node with a new id. TIDE_E_EXISTS. */
TIDE_MUST_CHECK tide_status tide_snapshot_restore_new(const char *db, const char *path,
                                                      const tide_node_options *options,
                                                      const tide_snapshot_watch *watch,
                                                      tide_snapshot_restored *out, tide_error *err);

/* ---- the list: verified snapshots that this node has made ---- */

typedef tide_status tide_snapshot_fn(void *arg, const tide_snapshot_info *info, tide_error *err);
/* Oldest first; those whose file is gone, or has another size, are left out. Borrowed. */
TIDE_MUST_CHECK tide_status tide_snapshot_list(tide_node *node, tide_snapshot_fn *fn, void *arg,
                                               tide_error *err);
/* The newest whose cut is at or above every floor here. TIDE_NONE: none. */
TIDE_MUST_CHECK tide_status tide_snapshot_newest(tide_node *node, tide_snapshot_info *out,
                                                 tide_error *err);
/* One of them, by its id. TIDE_NONE. */
TIDE_MUST_CHECK tide_status tide_snapshot_find(tide_node *node, const char *id,
                                               tide_snapshot_info *out, tide_error *err);
/* Could a node at nothing be brought up by events alone? No, if a floor has risen: *out. */
TIDE_MUST_CHECK tide_status tide_snapshot_is_needed(tide_node *node, bool *out, tide_error *err);

/* Make one in a directory (which is made, too), named by its id. */
TIDE_MUST_CHECK tide_status tide_snapshot_make_in(tide_node *node, const char *dir,
                                                  const tide_snapshot_watch *watch,
                                                  tide_snapshot_info *out, tide_error *err);
/* Keep the newest `kept` of those in this directory, remove the others, and what nobody lists. */
TIDE_MUST_CHECK tide_status tide_snapshot_keep(tide_node *node, const char *dir, int kept,
                                               tide_error *err);

/* The directory beside a database where its snapshots are kept: DB-snapshots. TIDE_E_LIMIT. */
TIDE_MUST_CHECK tide_status tide_snapshot_dir_of(char out[TIDE_SNAPSHOT_PATH_MAX], const char *db,
                                                 tide_error *err);
