#include <tidemark/idempotency.h>

#include "public.h"

static tide_status count_key(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    (void)err;
    *(int *)arg += strcmp(key->status, "completed") == 0;
    return TIDE_OK;
}

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    int count = 0;
    char hash[TIDE_IDEMPOTENCY_HASH_SIZE];
    tide_idempotency_state state = {0};
    const tide_idempotency_filter all = {TIDE_IDEMPOTENCY_FILTER_INIT};
    (void)db;
    (void)dir;
    DO(tide_idempotency_hash(hash, tide_view_of("{\"amount\":5}"), err));
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT, .key = "order-1",
                                              .request_hash = hash};
    DO(tide_idempotency_begin(store, &request, &state, err));
    WANT(state.outcome == TIDE_IDEMPOTENCY_NEW);
    DO(tide_idempotency_complete(store, "order-1", state.token, tide_view_of("paid"), err));
    DO(tide_idempotency_begin(store, &request, &state, err));
    WANT(state.outcome == TIDE_IDEMPOTENCY_REPLAY && strcmp(state.response, "paid") == 0);
    tide_idempotency_state_done(&state);
    DO(tide_idempotency_list(store, &all, count_key, &count, err));
    WANT(count == 1);
    return TIDE_OK;
}
