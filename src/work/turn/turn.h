/* turn.h - one transaction of finishes and claims, of one caller or of several that wait.
 *
 *     finishes (one statement)  ->  claims (one statement per type)  ->  COMMIT, in the same pipeline
 *
 * On PostgreSQL small calls of one process share it (tide_store_combine): the first caller runs it at once, those that
 * arrive meanwhile are queued and become the next one. Calls of many items queue apart, and two of their transactions
 * run side by side: one finishes items while the other has the turn of the type. Nothing of one caller can refuse another's: a token
 * that is not held, or a type without items, is a row that does not come back. If the transaction
 * itself fails, each caller runs alone (docs/decisions/0003-no-savepoints-on-postgresql.md). A failure
 * of the store is the answer to all of them. SQLite's writer makes groups by itself.
 *
 * Finishes come first, so that what they make ready can be claimed, and since a claim waits for nothing: it holds the lock of
 * a type's turn for the shortest time.
 *
 * Survives: as a transaction. Of an outcome that is not known finishes may be repeated, and claims are
 * leases that run out.
 * Threads: any; a turn's lists belong to its transaction until tide_work_turn_run returns. */
#pragma once

#include "work/item.h"
#include "work/lease_list.h"

enum {
    TIDE_TURN_SHARED_MAX = 100,         /* items of a call that shares a transaction */
    TIDE_TURN_SHARED_BYTES = 256 << 10, /* bytes of their outputs */
    TIDE_TURN_ITEMS_MAX = 1000,         /* items of a shared transaction */
    TIDE_TURN_LARGE = 32,               /* items of a call that queues with large ones */
    TIDE_TURN_BOUND_EVERY = 256,        /* items claimed between two rises of a bound, about */
    TIDE_TURN_LIMIT = 10,               /* a lone claim of fewer items takes no turn */
};

/* Claimed, and not what was written: it is ended as failed behind the claim. */
typedef struct tide_claim_damaged {
    const char *id;
    int64_t token;
    tide_error why;
    struct tide_claim_damaged *next;
} tide_claim_damaged;

typedef struct tide_claim {
    const tide_work_claim_request *request;
    int limit;
    int64_t lease_us;
    tide_work_claims *out;
    int64_t *keys;               /* claim_key of each */
    bool is_vain;                /* nothing was found, nothing was changed */
    bool is_first;               /* SQLite: of its task */
    tide_status failure;         /* of reading what was claimed */
    tide_claim_damaged *damaged; /* in the memory of *out */
} tide_claim;

/* Plain results: output only. */
typedef struct tide_finish_list {
    const tide_lease_list *held; /* sorted; each with is_lost and is_needed */
    bool *needed;                /* what is_needed of each refers to; may be NULL */
    int count;
} tide_finish_list;

typedef struct tide_work_turn {
    tide_claim *claim;              /* NULL: claims nothing */
    const tide_finish_list *finish; /* NULL: finishes nothing */
    tide_store *store;              /* from here on: of tide_work_turn_run */
    tide_status status;
    tide_error err;
    bool is_alone; /* the shared transaction failed: this one is still to be done */
} tide_work_turn;

/* One commit. What was finished has is_lost false, what was claimed is in claim->out, in claim order. Nothing is promoted, no repeated
 * finish is recognised, no dependent is notified: see tide_claim_rest and tide_finish_rest. */
TIDE_MUST_CHECK tide_status tide_work_turn_run(tide_store *store, tide_work_turn *turn,
                                               tide_error *err);

/* ---- claim.c ---- */

/* Checks the request, which must outlive c, and makes room in *out. Ends with tide_claim_done, also on failure. */
TIDE_MUST_CHECK tide_status tide_claim_init(tide_claim *c, tide_store *store,
                                            const tide_work_claim_request *request,
                                            tide_work_claims *out, tide_error *err);
void tide_claim_done(tide_claim *c);

/* Forget what an earlier run of the transaction claimed. */
TIDE_MUST_CHECK tide_status tide_claim_reset(tide_claim *c, tide_tx *tx, tide_error *err);
/* The claim's own statement, bound. */
TIDE_MUST_CHECK tide_status tide_claim_begin(tide_query **query, tide_tx *tx, const tide_claim *c,
                                             tide_error *err);
/* One row of it. */
TIDE_MUST_CHECK tide_status tide_claim_read(tide_query *query, tide_claim *c, tide_error *err);
void tide_claim_sort(tide_claim *c);

/* Claim inside a transaction, promoting what is due. TIDE_NONE: nothing was found. */
TIDE_MUST_CHECK tide_status tide_claim_take(tide_tx *tx, tide_claim *c, tide_error *err);
/* Behind a turn that claimed nothing: promote what is due and look once more. TIDE_NONE: nothing was found. */
TIDE_MUST_CHECK tide_status tide_claim_rest(tide_store *store, tide_claim *c, tide_error *err);
/* The claim is over, with this status, which is returned. */
TIDE_MUST_CHECK tide_status tide_claim_end(tide_store *store, tide_claim *c, tide_status status);

/* ---- finish.c ---- */

/* TIDE_E_INVALID: a result has more than an output, or an item is named twice. Ends with tide_finish_done,
 * also on failure. */
TIDE_MUST_CHECK tide_status tide_finish_init(tide_finish_list *list, tide_work_result *results,
                                             int count, tide_error *err);
void tide_finish_done(tide_finish_list *list);

/* Recognise repeated finishes among those marked as lost, and notify waiting dependents. */
TIDE_MUST_CHECK tide_status tide_finish_follow_up(tide_tx *tx, const tide_finish_list *list,
                                                  tide_error *err);
/* The same behind a turn, if there is anything to do. */
TIDE_MUST_CHECK tide_status tide_finish_rest(tide_store *store, const tide_finish_list *list,
                                             tide_error *err);
