/* idempotency_row.h - one row of idempotency_keys, as the code that decides over it sees it.
 *
 * What is read from a row counts as of the statement that read it. Who will change the row locks it
 * first and looks afterwards.
 *
 * Threads: as safe as the tide_tx. */
#pragma once

#include <tidemark/idempotency.h>

/* The two times of a transaction: of the store (expiry) and of leases (locks). */
typedef struct tide_idempotency_times {
    int64_t now_us;
    int64_t lock_now_us;
} tide_idempotency_times;

typedef struct tide_idempotency_row {
    char request_hash[TIDE_IDEMPOTENCY_HASH_SIZE]; /* "": longer than any of ours */
    char holder[TIDE_IDEMPOTENCY_HOLDER_MAX + 1];
    bool is_pending;
    bool is_failed;
    bool is_locked;  /* pending, and the lock has not run out */
    bool is_expired; /* and nobody works on it */
    bool has_lock_via;
    bool is_ours; /* lock_via is api: a token of ours may end the lock */
    bool has_response;
    tide_idempotency_policy policy;
    int64_t token;
    int64_t lock_expires_at_us; /* 0: none */
    int64_t created_at_us;      /* 0: not known */
    int64_t completed_at_us;    /* 0: none */
    int64_t expires_at_us;      /* 0: never */
} tide_idempotency_row;

TIDE_MUST_CHECK tide_status tide_idempotency_times_get(tide_tx *tx, tide_idempotency_times *out,
                                                       tide_error *err);

/* A key's name as stored: 1 to TIDE_IDEMPOTENCY_KEY_MAX bytes of UTF-8. */
TIDE_MUST_CHECK tide_status tide_idempotency_check_name(const char *name, tide_error *err);

/* The lock's duration, 0 being the default. */
TIDE_MUST_CHECK tide_status tide_idempotency_lock_time(int64_t lock_us, int64_t *out,
                                                       tide_error *err);

/* Lock the row until the transaction ends. TIDE_NONE: there is none. */
TIDE_MUST_CHECK tide_status tide_idempotency_row_lock(tide_tx *tx, const char *name,
                                                      tide_error *err);

/* TIDE_NONE: there is none. */
TIDE_MUST_CHECK tide_status tide_idempotency_row_look(tide_tx *tx, const char *name,
                                                      const tide_idempotency_times *times,
                                                      tide_idempotency_row *out, tide_error *err);

#define TIDE_IDEMPOTENCY_VALUE "response" /* kind of its digest (value_digest.h) */
#define TIDE_IDEMPOTENCY_WHAT "response of key"

/* TIDE_E_DAMAGED: this is not the response that was stored with this digest. */
TIDE_MUST_CHECK tide_status tide_idempotency_row_check(int64_t digest, const char *name,
                                                       tide_view response, tide_error *err);

/* The answer that this token gave: *out, with a NUL behind it, is the caller's; untouched when the
 * answer is null. TIDE_NONE: the row is gone, or is another's by now. */
TIDE_MUST_CHECK tide_status tide_idempotency_row_answer(tide_tx *tx, const char *name,
                                                        int64_t token, char **out, size_t *out_len,
                                                        bool *has_response, tide_error *err);

/* 0 for NULL and for what is no time. */
int64_t tide_idempotency_col_time(tide_query *query);
