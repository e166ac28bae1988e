/* fence.h - which checkpoints a task accepts while it is being resumed.
 *
 * A task is resumed under the lease "task/<id>" (lease.h). While that lease is held, a checkpoint of
 * the task needs its token, or the token of the work item to which the checkpoint belongs. A token
 * that is presented must hold, also when no lease is held, so a resumer that stalled is refused.
 * The two are apart, because tokens of different leases may be the same number.
 *
 * On SQLite write transactions run one after the other, and the check in the closure decides. On
 * PostgreSQL an append locks its row of task_heads before it reads the lease, and a claim of the
 * lease locks the same row first. So no append that began before the claim is committed after it.
 *
 * Plain SQL does not pass here.
 *
 * Survives: reads only. Threads: as the transaction. */
#pragma once

#include <tidemark/journal.h>

enum { TIDE_FENCE_NAME_SIZE = TIDE_JOURNAL_ID_MAX + sizeof "task/" };

/* The name of a task's lease. */
void tide_fence_name(char out[TIDE_FENCE_NAME_SIZE], const char *task_id);

/* Before the lease of a task is claimed: wait for appends under way, and let later ones see it. */
TIDE_MUST_CHECK tide_status tide_fence_lock(tide_tx *tx, const char *task_id, tide_error *err);

/* TIDE_E_NOT_FOUND: there is no such work item. TIDE_E_INVALID: it belongs to another task.
 * TIDE_E_LEASE_LOST: its token does not hold it. *is_held: it does until this transaction ends,
 * and nothing else is to be checked. */
TIDE_MUST_CHECK tide_status tide_fence_check_item(tide_tx *tx,
                                                  const tide_checkpoint_new *checkpoint,
                                                  bool *is_held, tide_error *err);

/* TIDE_E_NOT_FOUND: there is no such task. TIDE_E_LEASE_LOST: the token does not hold the task.
 * TIDE_E_CONFLICT: there is no token, and another holder resumes the task. */
TIDE_MUST_CHECK tide_status tide_fence_check_task(tide_tx *tx,
                                                  const tide_checkpoint_new *checkpoint,
                                                  tide_error *err);

/* The same behind the counters (PostgreSQL): the transaction fails with TIDE_E_CONFLICT. */
TIDE_MUST_CHECK tide_status tide_fence_defer(tide_tx *tx, const tide_checkpoint_new *checkpoint,
                                             tide_error *err);
/* Is this the failure of what tide_fence_defer deferred? */
bool tide_fence_is_cause(const tide_checkpoint_new *checkpoint, const tide_error *failure);
