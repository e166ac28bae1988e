/* snapshot_run.h - one run of a restore (snapshot.h), as the files that carry it out see it. */
#pragma once

#include "replica/log.h"
#include "replica/snapshot_parts.h"

typedef struct tide_restore_call {
    tide_node *node;
    const char *path;
    const tide_snapshot_watch *watch;
    tide_snapshot_restored out;
    bool is_behind;   /* there is still to fold */
    bool may_be_bulk; /* put rows as they are, where nothing is here */
    bool is_trial;    /* thrown away: a clock that was set back is no reason to refuse it */
    bool was_refused; /* a table here refuses what the maker's allowed: they have to be resolved */
} tide_restore_call;

/* The state of one run of the closure. */
typedef struct tide_restore_run {
    tide_restore_call *call;
    tide_restoring r;
    tide_snapshot_input input;
    tide_desk desk;
    tide_snapshot_target *targets;
    int target_count;
    tide_log_origin origin; /* whose events come */
    bool has_origin;
    int64_t batch_bytes;
} tide_restore_run;

/* ---- snapshot_marks.c: logs, and events that come along ---- */

/* How far logs are here, before anything is changed. */
TIDE_MUST_CHECK tide_status tide_restore_load_marks(tide_restore_run *u, tide_error *err);
/* TIDE_E_INVALID: it knows more of this node than this node. */
TIDE_MUST_CHECK tide_status tide_restore_check_own(const tide_restore_run *u, tide_error *err);
/* To the cut, which becomes the floor. */
TIDE_MUST_CHECK tide_status tide_restore_move_mark(tide_restore_run *u,
                                                   const tide_origin_mark *mark, tide_error *err);
TIDE_MUST_CHECK tide_status tide_restore_take_cursor(tide_restore_run *u,
                                                     const tide_snapshot_cursor *cursor,
                                                     tide_error *err);
TIDE_MUST_CHECK tide_status tide_restore_take_event(tide_restore_run *u,
                                                    const tide_snapshot_event *given,
                                                    tide_error *err);
/* Batches that waited here for their rest: the rows of the snapshot have them, but for events that it holds. */
TIDE_MUST_CHECK tide_status tide_restore_end_waiting(const tide_restore_run *u,
                                                     const tide_origin_mark *mark, tide_error *err);
/* When no more cursors and events come. */
TIDE_MUST_CHECK tide_status tide_restore_store_origin(tide_restore_run *u, tide_error *err);
