/* idempotency_rpc.c - IdempotencyService. */
#include <string.h>

#include "base/cleanup.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"

#define SERVICE "/tidemark.work.v1.IdempotencyService"

static tide_status find_policy(tide_idempotency_policy *out, const char *name, tide_error *err)
{
    static const tide_idempotency_policy policies[] = {
        TIDE_IDEMPOTENCY_RERUN, TIDE_IDEMPOTENCY_RESUME, TIDE_IDEMPOTENCY_FAIL};
    *out = TIDE_IDEMPOTENCY_RERUN;
    if (!*name)
        return TIDE_OK;
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (strcmp(tide_idempotency_policy_name(policies[i]), name) == 0) {
            *out = policies[i];
            return TIDE_OK;
        }
    return tide_fail(err, TIDE_E_INVALID, "policy '%.40s', want rerun, resume or fail", name);
}

static tide_status find_hash(char out[TIDE_IDEMPOTENCY_HASH_SIZE], const WORK(BeginRequest) * given,
                             tide_error *err)
{
    if (*given->request_hash && *given->request)
        return tide_fail(err, TIDE_E_INVALID, "give request or request_hash, not both");
    if (!*given->request_hash && !*given->request)
        return tide_fail(err, TIDE_E_INVALID, "what is asked for? give request or request_hash");
    if (!*given->request_hash)
        return tide_idempotency_hash(out, tide_view_of(given->request), err);
    const char *hex = given->request_hash + strlen("sha256:");
    if (strncmp(given->request_hash, "sha256:", strlen("sha256:")) != 0 ||
        strlen(given->request_hash) != TIDE_IDEMPOTENCY_HASH_SIZE - 1 ||
        strspn(hex, "0123456789abcdef") != strlen(hex))
        return tide_fail(err, TIDE_E_INVALID, "a request_hash is sha256: and 64 hex digits");
    memcpy(out, given->request_hash, strlen(given->request_hash) + 1);
    return TIDE_OK;
}

static tide_status begin(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    const WORK(BeginRequest) *given = (const WORK(BeginRequest) *)message;
    char hash[TIDE_IDEMPOTENCY_HASH_SIZE];
    TIDE_TRY(find_hash(hash, given, err));
    tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT,
                                        .scope = tide_rpc_text(given->scope),
                                        .key = given->key,
                                        .request_hash = hash,
                                        .holder = tide_rpc_text(given->holder),
                                        .task_id = tide_rpc_text(given->task_id),
                                        .work_item_id = tide_rpc_text(given->work_item_id)};
    TIDE_TRY(find_policy(&request.policy, given->policy, err));
    TIDE_TRY(tide_rpc_duration(&request.lock_us, given->lock_ms, "lock_ms", err));
    TIDE_TRY(tide_rpc_duration(&request.expiry_us, given->expiry_ms, "expiry_ms", err));
    TIDE_CLEANUP(tide_idempotency_state_done) tide_idempotency_state state = {0};
    TIDE_TRY(tide_idempotency_begin(rpc->store, &request, &state, err));
    WORK(BeginResponse) response = WORK_INIT(BEGIN_RESPONSE);
    response.outcome = tide_rpc_borrow(tide_idempotency_outcome_name(state.outcome));
    response.policy = tide_rpc_borrow(tide_idempotency_policy_name(state.policy));
    response.token = state.token;
    response.lock_expires_at = state.lock_expires_at_us;
    response.completed_at = state.completed_at_us;
    response.is_failed = state.is_failed;
    response.has_response = state.has_response;
    response.response = state.response;
    response.holder = state.holder;
    return tide_rpc_respond(rpc, &response.base, err);
}
TIDE_RPC_RUN(begin)

static tide_status need_lock(const WORK(KeyToken) * lock, tide_error *err)
{
    return lock ? TIDE_OK : tide_fail(err, TIDE_E_INVALID, "lock is missing: key and token");
}

TIDE_RPC(renew, WORK(RenewKeyRequest))
{
    int64_t lock_us = 0;
    TIDE_TRY(need_lock(request->lock, err));
    TIDE_TRY(tide_rpc_duration(&lock_us, request->lock_ms, "lock_ms", err));
    return tide_idempotency_renew(rpc->store, request->lock->key, request->lock->token, lock_us,
                                  err);
}

TIDE_RPC(complete, WORK(CompleteRequest))
{
    TIDE_TRY(need_lock(request->lock, err));
    const tide_view response =
        tide_view_of(request->_response_case != 0 ? request->response : NULL);
    return tide_idempotency_complete(rpc->store, request->lock->key, request->lock->token, response,
                                     err);
}

TIDE_RPC(fail, WORK(FailKeyRequest))
{
    TIDE_TRY(need_lock(request->lock, err));
    const tide_view response =
        tide_view_of(request->_response_case != 0 ? request->response : NULL);
    return tide_idempotency_fail(rpc->store, request->lock->key, request->lock->token,
                                 request->final, response, err);
}

static tide_status answer_key(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    WORK(IdempotencyKey) response;
    tide_rpc_key(&response, key);
    return tide_rpc_respond(arg, &response.base, err);
}

TIDE_RPC(get, WORK(GetKeyRequest))
{
    const tide_status status =
        tide_idempotency_find(rpc->store, request->key, answer_key, rpc, err);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no key %s", request->key);
    return status;
}

static tide_status put_key(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    WORK(IdempotencyKey) row;
    tide_rpc_key(&row, key);
    return tide_rpc_put(arg, 1, &row.base, err);
}

TIDE_RPC(list, WORK(ListKeysRequest))
{
    const tide_status status = tide_idempotency_list(
        rpc->store,
        &(tide_idempotency_filter){
            TIDE_IDEMPOTENCY_FILTER_INIT, .status = tide_rpc_text(request->status),
            .task_id = tide_rpc_text(request->task_id),
            .limit = request->limit == 0 ? TIDE_RPC_LIST_DEFAULT : request->limit},
        put_key, rpc, err);
    return status == TIDE_NONE ? TIDE_OK : status;
}

TIDE_RPC(delete_key, WORK(DeleteKeyRequest))
{
    return tide_idempotency_delete(rpc->store, request->key, request->force, err);
}

TIDE_RPC(clean, WORK(CleanRequest))
{
    int64_t keep_us = 0;
    TIDE_TRY(tide_rpc_duration(&keep_us, request->keep_ms, "keep_ms", err));
    WORK(CleanResponse) response = WORK_INIT(CLEAN_RESPONSE);
    TIDE_TRY(tide_idempotency_clean(rpc->store, keep_us, &response.removed, err));
    return tide_rpc_respond(rpc, &response.base, err);
}

/* clang-format off */
const tide_method tide_rpc_idempotency[] = {
    TIDE_RPC_ROW(SERVICE, "Begin", WRITE, work__v1__begin_request, work__v1__begin_response, begin),
    TIDE_RPC_ROW(SERVICE, "Renew", WRITE, work__v1__renew_key_request, work__v1__empty, renew),
    TIDE_RPC_ROW(SERVICE, "Complete", WRITE, work__v1__complete_request, work__v1__empty, complete),
    TIDE_RPC_ROW(SERVICE, "Fail", WRITE, work__v1__fail_key_request, work__v1__empty, fail),
    TIDE_RPC_ROW(SERVICE, "Get", READ, work__v1__get_key_request, work__v1__idempotency_key, get),
    TIDE_RPC_ROW(SERVICE, "List", READ, work__v1__list_keys_request, work__v1__list_keys_response, list),
    TIDE_RPC_ROW(SERVICE, "Delete", WRITE, work__v1__delete_key_request, work__v1__empty, delete_key),
    TIDE_RPC_ROW(SERVICE, "Clean", ADMIN, work__v1__clean_request, work__v1__clean_response, clean),
    {.path = NULL},
};
/* clang-format on */
