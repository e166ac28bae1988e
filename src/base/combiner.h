/* combiner.h - many who want the same kind of thing done at the same time: one of them does it for all who wait.
 *
 *     waiting    a | b c d e | f g ...        a finds nobody at work and does its own; b takes what has gathered meanwhile, and so on
 *
 * Members stand in lines by a key, first come first served; the first of a line becomes its leader as soon as there is a place for one, takes everybody
 * who waits (up to batch_max) and does their work, while the next ones gather. Nobody waits for company: a batch is what is there. There is no thread.
 * A leader whose work has a part that does not exclude others' (waiting for a disk) passes the lead on before it.
 *
 * Threads: any. */
#pragma once

#include <stdint.h>

#include <tidemark/export.h>

enum { TIDE_COMBINER_BATCH_MAX = 64 };

typedef struct tide_combiner tide_combiner;

/* leader_max: batches of one line that may be under way at once. NULL: no memory. */
tide_combiner *tide_combiner_new(int batch_max, int leader_max);
void tide_combiner_free(tide_combiner *crew); /* takes NULL; nobody is inside */

/* Does the work of all of them; each finds there what has become of his. turn may be NULL. */
typedef struct tide_combiner_turn tide_combiner_turn;
typedef void tide_combiner_fn(tide_combiner_turn *turn, void **whats, int count);

/* What is left of the work does not keep the next batch from beginning: its leader takes everybody who has come until now. Once more does nothing. */
void tide_combiner_pass(tide_combiner_turn *turn);

/* Return when fn has been called with `what` among others, by this thread or another one. The members of a line give the same fn. */
void tide_combiner_do(tide_combiner *crew, int64_t key, void *what, tide_combiner_fn *fn);

/* How many wait in a line for their turn. */
int tide_combiner_queued(tide_combiner *crew, int64_t key);
/* How many wait for a leader, in all lines. */
int tide_combiner_waiting(tide_combiner *crew);
