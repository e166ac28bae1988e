/* idempotency.h - do it once, answer it always.
 *
 *                        begin
 *      (no key) ------------------------------> NEW: locked by us, token
 *      pending, lock live --------------------> IN_PROGRESS
 *      pending, lock given back --------------> NEW: locked by us, new token
 *      pending, lock over --------------------> TAKEOVER: locked by us, new token, as the key's
 *                                               policy says
 *      completed, or failed for good ---------> REPLAY: the stored answer
 *      any of them, another request hash -----> MISMATCH
 *      expired, nobody works on it -----------> NEW: born again, new token
 *
 * The lock (how long somebody may work before another takes over) and the expiry (how long the
 * answer is kept, counted from when it was given) are two times. Completing needs the token: a
 * holder that stalled and was taken over is refused with TIDE_E_LEASE_LOST. One that stalled, and
 * nobody came, may still complete: what it did is the truth. Tokens only rise, also when a key is
 * deleted and made again.
 *
 * The lock is measured by the lease clock (lease.h), so on SQLite a reboot ends it; the expiry by
 * the transaction's time. A key whose outcome nobody knows (policy FAIL) expires like any other.
 *
 * Keys made by plain SQL (INSERT ... status 'pending') are locked for five minutes and may then be
 * taken over; what plain SQL completed is replayed. Without expires_at they never expire.
 *
 * Survives: everything is a row. Completing can be part of the caller's own transaction, so that
 * the effect and the answer are one commit. Who does not know whether a call was stored
 * (TIDE_E_OUTCOME_UNKNOWN of complete, fail) calls again with the same values.
 * Threads: as safe as the tide_store or tide_tx it is given. */
#ifndef TIDEMARK_IDEMPOTENCY_H
#define TIDEMARK_IDEMPOTENCY_H

#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_IDEMPOTENCY_KEY_MAX = 512,  /* bytes of scope and key together */
    TIDE_IDEMPOTENCY_HASH_SIZE = 72, /* "sha256:" and 64 hex digits, with the terminator */
    TIDE_IDEMPOTENCY_HOLDER_MAX = 256,
    TIDE_IDEMPOTENCY_RESPONSE_MAX = 48 << 20,
};

#define TIDE_IDEMPOTENCY_LOCK_US INT64_C(300000000)              /* 5 min */
#define TIDE_IDEMPOTENCY_EXPIRY_US INT64_C(86400000000)          /* 24 h */
#define TIDE_IDEMPOTENCY_EXPIRY_MAX_US INT64_C(3153600000000000) /* 100 years */
#define TIDE_IDEMPOTENCY_KEEP_US INT64_C(604800000000)           /* completed keys: 7 d */

typedef enum tide_idempotency_outcome {
    TIDE_IDEMPOTENCY_NEW,
    TIDE_IDEMPOTENCY_REPLAY,
    TIDE_IDEMPOTENCY_IN_PROGRESS,
    TIDE_IDEMPOTENCY_MISMATCH,
    TIDE_IDEMPOTENCY_TAKEOVER,
} tide_idempotency_outcome;

/* What a takeover means: fixed when the key is made. */
typedef enum tide_idempotency_policy {
    TIDE_IDEMPOTENCY_RERUN,  /* run it again */
    TIDE_IDEMPOTENCY_RESUME, /* go on from the last checkpoint */
    TIDE_IDEMPOTENCY_FAIL,   /* TIDE_E_OUTCOME_UNKNOWN: a person decides */
} tide_idempotency_policy;

typedef struct tide_idempotency_request {
    size_t size;       /* TIDE_IDEMPOTENCY_REQUEST_INIT */
    const char *scope; /* NULL or "": none; the column holds scope/key; has no '/' */
    const char *key;
    const char *request_hash; /* see tide_idempotency_hash */
    const char *holder;       /* for people; NULL: none */
    const char *task_id;      /* NULL: none */
    const char *work_item_id; /* NULL: none */
    int64_t lock_us;          /* 0: the default above */
    int64_t expiry_us;        /* 0: the default above */
    tide_idempotency_policy policy;
} tide_idempotency_request;
#define TIDE_IDEMPOTENCY_REQUEST_INIT .size = sizeof(tide_idempotency_request)

typedef struct tide_idempotency_state {
    tide_idempotency_outcome outcome;
    tide_idempotency_policy policy; /* the key's own */
    int64_t token;                  /* NEW, TAKEOVER */
    int64_t lock_expires_at_us;     /* NEW, TAKEOVER, IN_PROGRESS */
    int64_t completed_at_us;        /* REPLAY; 0: not known */
    bool is_failed;                 /* REPLAY of a failure */
    bool has_response;              /* REPLAY: false when the stored answer is null */
    char *response; /* REPLAY, with a NUL behind it; free with tide_idempotency_state_done */
    size_t response_len;
    char holder[TIDE_IDEMPOTENCY_HOLDER_MAX + 1]; /* IN_PROGRESS: who */
} tide_idempotency_state;

/* Frees what it holds; it is then all zeroes again. Fits TIDE_CLEANUP. */
TIDE_API void tide_idempotency_state_done(tide_idempotency_state *state);

/* "NEW", "REPLAY", ... and "rerun", "resume", "fail". */
TIDE_API const char *tide_idempotency_outcome_name(tide_idempotency_outcome outcome);
TIDE_API const char *tide_idempotency_policy_name(tide_idempotency_policy policy);

/* "sha256:..." of canonical JSON when the request is JSON, else of its bytes. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_hash(char out[TIDE_IDEMPOTENCY_HASH_SIZE],
                                                           tide_view request, tide_error *err);

/* "key" or "scope/key", as stored. TIDE_E_INVALID: empty, too long, not UTF-8, control characters,
 * or a '/' in the scope. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_name(char out[TIDE_IDEMPOTENCY_KEY_MAX + 1],
                                                           const char *scope, const char *key,
                                                           tide_error *err);

/* TIDE_OK with the outcome in *out (init it with zeroes, end it with state_done; what it holds is
 * freed first). The _in form is part of the caller's transaction.
 * TIDE_E_NOT_FOUND: there is no such task or work item. TIDE_E_OUTCOME_UNKNOWN: the lock is over
 * under the policy FAIL, and the key stays as it is until somebody completes, fails or deletes it,
 * or it expires; or the commit's own outcome is unknown: the lock may then be ours, and is over in
 * lock_us. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_begin(tide_store *store,
                                                            const tide_idempotency_request *request,
                                                            tide_idempotency_state *out,
                                                            tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status
tide_idempotency_begin_in(tide_tx *tx, const tide_idempotency_request *request,
                          tide_idempotency_state *out, tide_error *err);

/* ---- under a token; name as given by tide_idempotency_name ----
 *
 * TIDE_E_LEASE_LOST: the token no longer holds the key. The _in forms are part of the caller's
 * transaction. */

/* From now on for lock_us (0: the default). A lock that is over is not renewed. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_renew(tide_store *store, const char *name,
                                                            int64_t token, int64_t lock_us,
                                                            tide_error *err);

/* A response without ptr: the answer is null, and that is stored too. A response is UTF-8 text.
 * The same answer twice is fine; TIDE_E_MISMATCH: this token has given another one.
 * TIDE_E_LIMIT: over TIDE_IDEMPOTENCY_RESPONSE_MAX. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_complete(tide_store *store, const char *name,
                                                               int64_t token, tide_view response,
                                                               tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_complete_in(tide_tx *tx, const char *name,
                                                                  int64_t token, tide_view response,
                                                                  tide_error *err);

/* is_final: the failure is the answer from now on; else the lock is given back, the response is
 * not stored, and the next begin runs it again. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_fail(tide_store *store, const char *name,
                                                           int64_t token, bool is_final,
                                                           tide_view response, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_fail_in(tide_tx *tx, const char *name,
                                                              int64_t token, bool is_final,
                                                              tide_view response, tide_error *err);

/* ---- looking after keys ---- */

typedef struct tide_idempotency_key {
    const char *name;
    const char *task_id;      /* NULL: none */
    const char *work_item_id; /* NULL: none */
    const char *request_hash;
    const char *status;      /* pending, completed, failed */
    const char *lock_holder; /* NULL: none */
    const char *lock_via;    /* api, sql; NULL: none */
    const char *policy;      /* resume, rerun, fail */
    tide_view response;      /* read by tide_idempotency_find; empty in lists */
    bool has_response;
    bool is_locked; /* pending, and its lock has not run out */
    int64_t lock_token;
    int64_t lock_expires_at_us; /* 0: none */
    int64_t attempts;
    int64_t created_at_us;   /* 0: not known */
    int64_t completed_at_us; /* 0: none */
    int64_t expires_at_us;   /* 0: never */
} tide_idempotency_key;

/* The key is borrowed until the function returns. */
typedef tide_status tide_idempotency_key_fn(void *arg, const tide_idempotency_key *key,
                                            tide_error *err);

/* TIDE_NONE: no such key, or expired and nobody works on it. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_find(tide_store *store, const char *name,
                                                           tide_idempotency_key_fn *fn, void *arg,
                                                           tide_error *err);

typedef struct tide_idempotency_filter {
    size_t size;         /* TIDE_IDEMPOTENCY_FILTER_INIT */
    const char *status;  /* NULL: any */
    const char *task_id; /* NULL: any */
    int64_t limit;       /* 0: all */
} tide_idempotency_filter;
#define TIDE_IDEMPOTENCY_FILTER_INIT .size = sizeof(tide_idempotency_filter)

/* By name; also expired ones that are not cleaned up yet. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_list(tide_store *store,
                                                           const tide_idempotency_filter *filter,
                                                           tide_idempotency_key_fn *fn, void *arg,
                                                           tide_error *err);

/* TIDE_E_CONFLICT while it is locked, unless is_forced. TIDE_E_NOT_FOUND. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_delete(tide_store *store, const char *name,
                                                             bool is_forced, tide_error *err);

/* Remove expired keys, and completed ones older than keep_us, in bounded steps, never one that is
 * locked. keep_us 0: the default above, and then only keys that have no expiry of their own.
 * *removed (may be NULL) is how many, also when it failed half-way. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_clean(tide_store *store, int64_t keep_us,
                                                            int64_t *removed, tide_error *err);

/* Compare every stored response with its digest; fn is called per finding, *out is added to.
 * TIDE_E_DAMAGED: there were findings. */
TIDE_API TIDE_MUST_CHECK tide_status tide_idempotency_verify(tide_store *store,
                                                             tide_store_finding_fn *fn, void *arg,
                                                             tide_values_checked *out,
                                                             tide_error *err);

TIDE_END_DECLS

#endif
