/* lease.h - at most one effective holder of a name, fenced by a token that only rises.
 *
 *                claim                        renew (token)
 *      free ---------------> held ------------------------------> held, longer
 *        ^                    | release (token)
 *        +--------------------+
 *        +--------------------+ expires: nobody renewed in time (token rises)
 *
 * A lease is (holder, token, expires). The token rises with every claim and every expiry. Whoever
 * writes under a lease presents its token in the same transaction (tide_lease_check), and is
 * refused with TIDE_E_LEASE_LOST once another claim or an expiry has happened: a holder that stalls
 * and wakes up later cannot do harm. The holder's name is for people: it does not help to claim
 * twice under one name.
 *
 * A token is epoch * 2^40 + n (identity.h), so a failover to an older copy cannot issue one a
 * second time.
 *
 * Time is the store's: on PostgreSQL the server's clock, as of the transaction's begin; on SQLite
 * the boot clock of the machine, anchored in the file. Setting the wall clock neither ends nor
 * prolongs a lease; a reboot ends them all, because nobody who held one is still running. The
 * columns are readable times all the same.
 *
 * Survives: everything is a row. Threads: as safe as the tide_tx or tide_store it is given. */
#ifndef TIDEMARK_LEASE_H
#define TIDEMARK_LEASE_H

#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_LEASE_NAME_MAX = 256, /* bytes, without the terminator */
    TIDE_LEASE_HOLDER_MAX = 256,
    TIDE_LEASE_EXPIRE_MAX = 1000, /* leases ended by one call of tide_lease_expire */
};

#define TIDE_LEASE_MIN_US INT64_C(1000)           /* 1 ms */
#define TIDE_LEASE_MAX_US INT64_C(31536000000000) /* 365 days */

typedef struct tide_lease {
    char name[TIDE_LEASE_NAME_MAX + 1];
    char holder[TIDE_LEASE_HOLDER_MAX + 1]; /* "": free */
    int64_t token;
    int64_t claimed_at_us;
    int64_t expires_at_us;
    bool is_live; /* held, and its time is not up */
} tide_lease;

/* All of these run inside the caller's write transaction, so that claiming, working and releasing
 * can be one commit with the caller's own rows. */

/* TIDE_OK: *out is ours. TIDE_E_CONFLICT: somebody holds it; the text says who and for how long. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lease_claim(tide_tx *tx, const char *name,
                                                      const char *holder, int64_t duration_us,
                                                      tide_lease *out, tide_error *err);

/* From now on for duration_us. TIDE_E_LEASE_LOST: another token, or the time was up already. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lease_renew(tide_tx *tx, const char *name, int64_t token,
                                                      int64_t duration_us, tide_error *err);

/* Give it back early. TIDE_E_LEASE_LOST as above. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lease_release(tide_tx *tx, const char *name,
                                                        int64_t token, tide_error *err);

/* Is this token the effective holder until this transaction commits? TIDE_E_LEASE_LOST: no. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lease_check(tide_tx *tx, const char *name, int64_t token,
                                                      tide_error *err);

/* End up to limit leases whose time is up; *ended says how many. Many may do this at once. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lease_expire(tide_tx *tx, int64_t limit, int64_t *ended,
                                                       tide_error *err);

/* Any transaction. TIDE_NONE: never claimed. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lease_find(tide_tx *tx, const char *name, tide_lease *out,
                                                     tide_error *err);

/* The time leases are measured by, as microseconds since 1970. INT64_MAX: in a read transaction
 * after a reboot that no write has noticed yet, when every lease is over. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lease_now(tide_tx *tx, int64_t *now_us, tide_error *err);

TIDE_END_DECLS

#endif
