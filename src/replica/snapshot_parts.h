/* snapshot_parts.h - what the files of snapshot.h share. */
#pragma once

#include "replica/snapshot.h"
#include "replica/snapshot_record.h"

/* ---- watching ---- */

/* Tell how far it is. TIDE_E_INTERRUPTED: end it. watch may be NULL. */
TIDE_MUST_CHECK tide_status tide_snapshot_tell(const tide_snapshot_watch *watch, const char *what,
                                               int64_t done, int64_t total, tide_error *err);

/* ---- a directory for what is under way (snapshot_work.c) ---- */

typedef struct tide_snapshot_work {
    char dir[TIDE_SNAPSHOT_PATH_MAX]; /* "": none */
    int fd;                           /* locked */
} tide_snapshot_work;

/* Make <path><suffix>, lock it, empty it of what a dead process left. TIDE_E_BUSY: somebody works there. TIDE_E_EXISTS: it has files of others. */
TIDE_MUST_CHECK tide_status tide_snapshot_work_begin(tide_snapshot_work *work, const char *path,
                                                     const char *suffix, tide_error *err);
/* Remove it with everything in it. Fits TIDE_CLEANUP on {.fd = -1}. */
void tide_snapshot_work_end(tide_snapshot_work *work);
TIDE_MUST_CHECK tide_status tide_snapshot_work_path(const tide_snapshot_work *work,
                                                    const char *name,
                                                    char out[TIDE_SNAPSHOT_PATH_MAX],
                                                    tide_error *err);
/* Give a whole, synced file its name, which nobody has yet; on disk when it returns. TIDE_E_EXISTS. */
TIDE_MUST_CHECK tide_status tide_snapshot_publish(const char *from, const char *to,
                                                  tide_error *err);

/* ---- files ---- */

typedef struct tide_snapshot_input {
    int fd;
    int64_t bytes;
    tide_snapshot_reader reader;
    tide_snapshot_decoder decoder;
} tide_snapshot_input;

TIDE_MUST_CHECK tide_status tide_snapshot_input_open(tide_snapshot_input *input, const char *path,
                                                     tide_error *err);
void tide_snapshot_input_close(tide_snapshot_input *input); /* fits TIDE_CLEANUP on {.fd = -1} */

/* ---- writing (snapshot_make.c) ---- */

/* Who makes it, and when. */
typedef struct tide_snapshot_maker {
    tide_node_id node;
    int64_t epoch;
    const tide_snapshot_watch *watch;
} tide_snapshot_maker;

/* The digest of a table as it is in this transaction (digest.c's, of one table). */
TIDE_MUST_CHECK tide_status tide_snapshot_sum_of(tide_snapshot_sum *out, tide_foreign_tx *tx,
                                                 const tide_table *table, tide_error *err);

/* ---- making (snapshot_make.c) ---- */

/* tide_snapshot_create, with an id that is given. */
TIDE_MUST_CHECK tide_status tide_snapshot_create_as(tide_node *node, const tide_uuid *id,
                                                    const char *path,
                                                    const tide_snapshot_watch *watch,
                                                    tide_snapshot_info *out, tide_error *err);

/* ---- the list (snapshot_list.c) ---- */

TIDE_MUST_CHECK tide_status tide_snapshot_list_add(tide_node *node, const tide_snapshot_info *info,
                                                   tide_error *err);

/* ---- restoring (snapshot_restore.c, snapshot_merge.c, snapshot_merge.c) ---- */

/* tide_snapshot_restore into a node that is thrown away: to see whether it can be. */
TIDE_MUST_CHECK tide_status tide_snapshot_try(tide_node *node, const char *path,
                                              const tide_snapshot_watch *watch,
                                              tide_snapshot_restored *out, tide_error *err);

/* A table of the snapshot as it is here. */
typedef struct tide_snapshot_target {
    const tide_table *table; /* of the desk */
    int *map;                /* the snapshot's columns -> columns here */
    bool is_same;            /* each is in its place */
    const tide_sql_value **
        defaults; /* of columns here that the maker's table does not have, memory of the desk; NULL: it has the column. NULL as a whole: it has all */
} tide_snapshot_target;

/* TIDE_E_CONFLICT: not tracked here, another key, a column is missing here. */
TIDE_MUST_CHECK tide_status tide_snapshot_target_init(tide_snapshot_target *out, tide_desk *desk,
                                                      const tide_snapshot_table *from,
                                                      tide_error *err);
void tide_snapshot_target_done(tide_snapshot_target *target); /* fits TIDE_CLEANUP on {0} */
/* The default of a column that the maker's table does not have, so that nobody wrote it there; NULL: it has it. */
const tide_sql_value *tide_snapshot_target_default(const tide_snapshot_target *target, int column);

typedef struct tide_restoring {
    tide_node *node;
    tide_foreign_tx *tx;
    tide_snapshot_decoder *decoder;
    tide_desk *desk; /* of the batch */
    tide_snapshot_target *targets;
    tide_snapshot_restored *out;
    bool has_conflicts;     /* here, before */
    tide_origin_mark *here; /* logs of this node, as they were */
    int here_count;
    tide_buffer forgotten; /* keys whose clocks go with the batch: u64 table, u32 length, bytes */
    tide_buffer last_key;  /* up to where rows of this table were compared */
    tide_buffer held;      /* stamps of events below the cut that the maker has not merged */
    bool is_held_sorted;
} tide_restoring;

/* Events that are here and that the maker did not have know writes which the snapshot shows or lists. Once, before the rows. */
TIDE_MUST_CHECK tide_status tide_snapshot_keep_knowledge(tide_restoring *r, tide_error *err);
/* The maker has this event, below its cut, and has not merged it. is_merged: we have. Before the rows. */
TIDE_MUST_CHECK tide_status tide_snapshot_note_held(tide_restoring *r, const tide_event *event,
                                                    bool is_merged, tide_error *err);
/* One row of the snapshot into the desk. */
TIDE_MUST_CHECK tide_status tide_snapshot_merge_row(tide_restoring *r, const tide_snapshot_row *row,
                                                    tide_error *err);
/* A row that is here and not in the snapshot. */
TIDE_MUST_CHECK tide_status tide_snapshot_merge_absent(tide_restoring *r,
                                                       const tide_snapshot_target *target,
                                                       tide_view key, tide_error *err);
