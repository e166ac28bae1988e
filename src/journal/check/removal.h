/* removal.h - taking checkpoints away, so that everything else still adds up.
 *
 * In one transaction: the permit without which the database refuses, the rows with all that is theirs, the record of their
 * global numbers (joined with neighbours, so that a range stays a range), the cut in the task's chain (likewise), and an
 * event. Numbers are never given again.
 *
 * One removal at a time: on PostgreSQL under a lock that who makes a fork shares (fork.c).
 *
 * Threads: as safe as the tide_tx. */
#pragma once

#include <tidemark/journal.h>
#include <tidemark/sequence.h>

#include "journal/check/checksum.h"

enum { TIDE_REMOVAL_MAX = 500 }; /* rows of one transaction */

/* A checkpoint that may go, and why it must not. */
typedef struct tide_candidate {
    int64_t global_sequence;
    int64_t sequence_number;
    tide_chain chain;
    bool has_chain;
    int64_t len; /* of what stands in the row */
    bool is_old; /* older than asked for */
    bool is_tagged;
    bool is_fork_point; /* a task was forked here */
    bool is_needed;     /* for resuming at the head or, if has_fork, at a fork behind it */
    bool is_live;       /* the last one of a work item that has not ended */
    bool has_fork;
    bool is_going; /* decided by the caller */
} tide_candidate;

typedef struct tide_candidates {
    tide_candidate rows[TIDE_REMOVAL_MAX]; /* by number */
    int count;
} tide_candidates;

/* Keep other removals and forks away until the commit. */
TIDE_MUST_CHECK tide_status tide_removal_begin(tide_tx *tx, tide_error *err);
/* First in a transaction that makes a fork: until its end nothing is removed, so that the fork point stays. */
TIDE_MUST_CHECK tide_status tide_removal_keep_away(tide_tx *tx, tide_error *err);

/* The next ones of a task, with numbers above after and below before. older_us 0: any age counts as old. */
TIDE_MUST_CHECK tide_status tide_removal_read(tide_candidates *out, tide_tx *tx,
                                              const char *task_id, int64_t after, int64_t before,
                                              int64_t older_us, tide_error *err);

/* Remove those that are going. range must outlive the closure. */
TIDE_MUST_CHECK tide_status tide_removal_do(tide_tx *tx, const char *task_id,
                                            const tide_candidates *candidates,
                                            tide_journal_event_kind kind,
                                            tide_sequence_range *range, tide_error *err);

/* Events go when they are old.
 *
 * What was removed of the journal stays recorded elsewhere, for good (checkpoint_gaps, checkpoint_cuts); events are for who
 * follows. One who comes back after longer than they are kept sees every checkpoint that is there, and of the rest what
 * happened since.
 *
 * Survives: a crash between two steps, each is a transaction. Threads: any. */

/* Remove events older than keep_us, in bounded steps; the newest stays. */
TIDE_MUST_CHECK tide_status tide_journal_expire_events(tide_store *store, int64_t keep_us,
                                                       tide_error *err);
