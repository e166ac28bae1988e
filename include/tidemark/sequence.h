/* sequence.h - durable numbers: handed out once, in order, for ever.
 *
 * A number becomes visible together with the row that carries it: both are written by one
 * transaction, and transactions that take numbers of one sequence commit in number order.
 * So a reader that has seen n has seen everything below n.
 *
 * A closure declares what it will take, and defers the statements that carry the numbers:
 *
 *     tide_sequence_declare(tx, "orders", 2, &range, err);
 *     INSERT INTO orders (seq_id, at, ...)                       -- tide_query_defer
 *     SELECT last - :back, last_at, ... FROM sequences WHERE name = 'orders'
 *                                                               -- :back = 1 for the first row, 0
 *                                                               for the second
 *
 * The runner takes the numbers last (store.h says why), fills *range, and the rows refer to them:
 * the sequence's row stands at the last number taken, and beside it a time that never goes back. A
 * closure that must know the numbers in C calls tide_tx_take_counters and reads *range.
 *
 * Numbers start at 1 and end at 2^63-1. Rolled back, they are given again: committed numbers have
 * no gaps.
 *
 * Survives: a crash at any point. Threads: as safe as the tide_tx it is given. */
#ifndef TIDEMARK_SEQUENCE_H
#define TIDEMARK_SEQUENCE_H

#include <tidemark/identity.h>
#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_SEQUENCE_NAME_MAX = 128,      /* bytes, without the terminator */
    TIDE_SEQUENCE_BATCH_MAX = 1000000, /* numbers per transaction and sequence */
};

typedef struct tide_sequence_range {
    int64_t first; /* written by the runner, when the numbers are taken */
    int64_t count;
} tide_sequence_range;

static inline int64_t tide_sequence_range_last(const tide_sequence_range *range)
{
    return range->first + (range->count - 1);
}

/* A name is 1 to 128 bytes of UTF-8, without ASCII control characters and spaces at its ends.
 * TIDE_E_INVALID otherwise. */
TIDE_API TIDE_MUST_CHECK tide_status tide_sequence_check_name(const char *name, tide_error *err);

/* Declare that this transaction takes the next count numbers of a sequence, creating it at 1 on
 * first use.
 * TIDE_E_INVALID: a bad name or count, or the sequence was declared already. range must outlive the
 * closure; its numbers are final when tide_store_write succeeds. tide_store_write fails with
 * TIDE_E_EXHAUSTED beyond 2^63-1. */
TIDE_API TIDE_MUST_CHECK tide_status tide_sequence_declare(tide_tx *tx, const char *name,
                                                           int64_t count,
                                                           tide_sequence_range *range,
                                                           tide_error *err);

/* Raise a sequence to at least `last`; lower values change nothing. *now_last (may be NULL) is
 * where it stands. */
TIDE_API TIDE_MUST_CHECK tide_status tide_sequence_raise(tide_store *store, const char *name,
                                                         int64_t last, int64_t *now_last,
                                                         tide_error *err);

/* Take numbers in a transaction of their own: for numbers that no row carries. *identity (may be
 * NULL) is the epoch that they belong to. */
TIDE_API TIDE_MUST_CHECK tide_status tide_sequence_next(tide_store *store, const char *name,
                                                        int64_t count, tide_sequence_range *range,
                                                        tide_identity *identity, tide_error *err);

typedef struct tide_sequence {
    char name[TIDE_SEQUENCE_NAME_MAX + 1];
    int64_t last; /* the last number issued; 0: none yet */
    int64_t last_at_us;
} tide_sequence;

/* Where a sequence stands. TIDE_NONE: no number was ever taken. */
TIDE_API TIDE_MUST_CHECK tide_status tide_sequence_show(tide_store *store, const char *name,
                                                        tide_sequence *out, tide_error *err);

/* Every sequence, by name; fn returns a failure to stop. */
typedef tide_status tide_sequence_fn(void *arg, const tide_sequence *sequence, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_sequence_list(tide_store *store, tide_sequence_fn *fn,
                                                        void *arg, tide_error *err);

TIDE_END_DECLS

#endif
