/* attempt_times.h - how long work items waited and ran, as histograms of a daemon.
 *
 * Waiting is the time from adding an item to its first claim. Running is the time from a claim to the
 * end of that attempt: finish, fail or release. Both count what passes through this process. A claim is
 * remembered in a slot of its token, and a later claim of the same slot replaces it, so an attempt
 * that never ends occupies nothing for long.
 *
 * Threads: any. Limits: of more than TIDE_ATTEMPT_SLOTS attempts at once some are not measured. */
#pragma once

#include <tidemark/work.h>

#include "runtime/metrics.h"

enum { TIDE_ATTEMPT_SLOTS = 16384 };

typedef struct tide_attempt_times tide_attempt_times;

TIDE_MUST_CHECK tide_status tide_attempt_times_new(tide_attempt_times **out, tide_metrics *metrics,
                                                   tide_env *env, tide_error *err);
void tide_attempt_times_free(tide_attempt_times *times); /* takes NULL */

/* Both take NULL for times. */
void tide_attempt_times_claimed(tide_attempt_times *times, const tide_work_claims *claims);
void tide_attempt_times_ended(tide_attempt_times *times, const char *work_item_id, int64_t token);
