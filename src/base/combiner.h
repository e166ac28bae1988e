/* combiner.h - combining queue: the first waiter runs the operation for everyone queued.
 *
 *     queued     a | b c d e | f g ...     a finds no leader and runs alone; b then runs b to e
 *
 * Members queue by a key, first come first served. The first of a queue becomes its leader as soon
 * as fewer than leader_max are at work, takes what is queued (up to batch_max) and runs it, while
 * the next members queue. No member waits for others: a batch is what is queued. There is no
 * thread. A leader whose operation has a part that does not exclude others (waiting for a disk)
 * passes the lead on before it.
 *
 * Where a second leader may begin beside the first, its first member has waited for some time
 * (patience_us) while others were queued behind it: else every batch that ends would be followed by
 * one of a single member, the first that comes back.
 *
 * Threads: any. */
#pragma once

#include <stdint.h>

#include <tidemark/export.h>

enum { TIDE_COMBINER_BATCH_MAX = 64 };

typedef struct tide_combiner tide_combiner;

/* leader_max: batches of one queue that may run at once. patience_us: how long a member waits for a
 * batch at work before it begins another one beside it. NULL: no memory. */
tide_combiner *tide_combiner_new(int batch_max, int leader_max, int64_t patience_us);
void tide_combiner_free(tide_combiner *combiner); /* takes NULL; no member is inside */

/* Runs the operations of a batch; each result is stored in its `what`. turn may be NULL. */
typedef struct tide_combiner_turn tide_combiner_turn;
typedef void tide_combiner_fn(tide_combiner_turn *turn, void **whats, int count);

/* Let the next batch begin before this one ends. A second call does nothing. */
void tide_combiner_pass(tide_combiner_turn *turn);

/* Return when fn has been called with `what` among others, by this thread or another one. The
 * members of a queue give the same fn. */
void tide_combiner_do(tide_combiner *combiner, int64_t key, void *what, tide_combiner_fn *fn);

/* Members queued under a key. */
int tide_combiner_queued(tide_combiner *combiner, int64_t key);
/* Members queued, under all keys. */
int tide_combiner_waiting(tide_combiner *combiner);
