/* idempotency_calls.h - short words for tests about idempotency keys: one key "job", one request.
 *
 * Every call is on the case's store unless one is named. Threads: one. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "support/store_fixture.h"

#define HASH_A "sha256:aaaa"
#define HASH_B "sha256:bbbb"
#define LOCK_US (30 * SECOND_US)
#define EXPIRY_US (3600 * SECOND_US)

static inline tide_idempotency_request request_of(const char *key, const char *hash)
{
    return (tide_idempotency_request){TIDE_IDEMPOTENCY_REQUEST_INIT,
                                      .key = key,
                                      .request_hash = hash,
                                      .holder = "tester",
                                      .lock_us = LOCK_US,
                                      .expiry_us = EXPIRY_US};
}

/* What begin says; the answer, if any, is dropped. */
static inline tide_idempotency_state begin_with(store_test *t, const tide_idempotency_request *r)
{
    tide_idempotency_state state = {.token = 0};
    assert_ok_err(tide_idempotency_begin(t->store, r, &state, &t->err), &t->err);
    tide_idempotency_state copy = state;
    copy.response = NULL;
    tide_idempotency_state_done(&state);
    return copy;
}

static inline tide_idempotency_state begin_job(store_test *t, const char *hash)
{
    const tide_idempotency_request r = request_of("job", hash);
    return begin_with(t, &r);
}

/* Begin, which must say so; returns the token. */
static inline int64_t begin_as(store_test *t, tide_idempotency_outcome outcome)
{
    const tide_idempotency_state state = begin_job(t, HASH_A);
    assert_string_equal(tide_idempotency_outcome_name(outcome),
                        tide_idempotency_outcome_name(state.outcome));
    return state.token;
}

static inline tide_status complete(store_test *t, int64_t token, const char *response)
{
    return tide_idempotency_complete(t->store, "job", token, tide_view_of(response), &t->err);
}

static inline tide_status fail_job(store_test *t, int64_t token, bool is_final,
                                   const char *response)
{
    return tide_idempotency_fail(t->store, "job", token, is_final, tide_view_of(response), &t->err);
}

/* Begin, which must be a replay of exactly this answer; NULL: of null. */
static inline void assert_replay(store_test *t, const char *response, bool is_failed)
{
    const tide_idempotency_request r = request_of("job", HASH_A);
    TIDE_CLEANUP(tide_idempotency_state_done) tide_idempotency_state state = {.token = 0};
    assert_ok_err(tide_idempotency_begin(t->store, &r, &state, &t->err), &t->err);
    assert_int_equal(TIDE_IDEMPOTENCY_REPLAY, state.outcome);
    assert_int_equal(is_failed, state.is_failed);
    assert_int_equal(response != NULL, state.has_response);
    if (response) {
        assert_int_equal(strlen(response), state.response_len);
        assert_string_equal(response, state.response);
    } else {
        assert_null(state.response);
    }
}

/* Plain SQL, as a foreign client would send it. */
static inline tide_status run_script(tide_tx *tx, void *arg, tide_error *err)
{
    return tx->store->ops->script(tx, arg, err);
}

static inline tide_status plain_sql(store_test *t, tide_store *store, const char *sql)
{
    char text[2048];
    assert_true(strlen(sql) < sizeof text);
    snprintf(text, sizeof text, "%s", sql);
    return tide_store_write(store, run_script, text, &t->err);
}

/* A copy of what tide_idempotency_find shows; texts are those of the case. */
typedef struct seen_key {
    int count;
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    char status[16];
    char policy[16];
    char response[256];
    char task_id[129];
    tide_idempotency_key key; /* numbers and flags only */
} seen_key;

static inline tide_status note_key(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    (void)err;
    seen_key *seen = arg;
    seen->count++;
    seen->key = *key;
    snprintf(seen->name, sizeof seen->name, "%s", key->name);
    snprintf(seen->status, sizeof seen->status, "%s", key->status);
    snprintf(seen->policy, sizeof seen->policy, "%s", key->policy);
    snprintf(seen->task_id, sizeof seen->task_id, "%s", key->task_id ? key->task_id : "");
    snprintf(seen->response, sizeof seen->response, "%.*s", (int)key->response.len,
             key->response.ptr ? key->response.ptr : "");
    return TIDE_OK;
}

static inline seen_key find(store_test *t, const char *name)
{
    seen_key seen = {.count = 0};
    assert_ok_err(tide_idempotency_find(t->store, name, note_key, &seen, &t->err), &t->err);
    return seen;
}
