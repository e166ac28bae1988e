/* service_maintenance.c - housekeeping: Expire, Cleanup, Compact, Verify. */

#include "base/cleanup.h"
#include "lake/compact.h"
#include "lake/expire.h"
#include "services/lake/service.h"

/* Turn by turn, while there is time and somebody waits. */
static bool goes_on(const tide_lake_turn *turn, int64_t until_us)
{
    tide_env *env = turn->laked->env;
    return env->mono_us(env) < until_us && !tide_call_is_cancelled(turn->call);
}

/* ---- expire ---- */

static tide_status read_expire(const tide_lake_turn *turn, const LAKE(ExpireRequest) * given,
                               tide_lake_expire_options *out, tide_error *err)
{
    int64_t age_us = 0;
    if (given->keep_last < 0)
        return tide_fail(err, TIDE_E_INVALID, "keep_last is below 0");
    TIDE_TRY(tide_rpc_duration(&age_us, given->older_than_ms, "older_than_ms", err));
    tide_env *env = turn->laked->env;
    *out = (tide_lake_expire_options){.older_than_us = age_us > 0 ? env->wall_us(env) - age_us : 0,
                                      .keep_last = given->keep_last,
                                      .is_dry_run = given->dry_run};
    return TIDE_OK;
}

tide_status tide_laked_expire(tide_lake_turn *turn, const ProtobufCMessage *request,
                              tide_error *err)
{
    const LAKE(ExpireRequest) *given = (const LAKE(ExpireRequest) *)request;
    const int64_t until_us = tide_laked_until(turn, TIDE_LAKED_KEEP_US);
    LAKE(ExpireResponse) answer = LAKE_INIT(EXPIRE_RESPONSE);
    tide_lake_expire_options options = {0};
    TIDE_TRY(read_expire(turn, given, &options, err));
    do {
        tide_lake_expired done = {0};
        TIDE_TRY(tide_lake_expire(turn->laked->lake, tide_rpc_text(given->catalog), &options, &done,
                                  err));
        answer.snapshots += done.snapshots;
        answer.rows += done.rows;
        answer.files += done.files;
        answer.catalogs += done.catalogs;
        answer.more = done.more && done.snapshots + done.rows > 0;
    } while (answer.more && !options.is_dry_run && goes_on(turn, until_us));
    return tide_rpc_pack(&turn->out, &answer.base, err);
}

/* ---- cleanup ---- */

tide_status tide_laked_cleanup(tide_lake_turn *turn, const ProtobufCMessage *request,
                               tide_error *err)
{
    const LAKE(CleanupRequest) *given = (const LAKE(CleanupRequest) *)request;
    const int64_t until_us = tide_laked_until(turn, TIDE_LAKED_KEEP_US);
    LAKE(CleanupResponse) answer = LAKE_INIT(CLEANUP_RESPONSE);
    tide_lake_cleanup_options options = {.with_orphans = given->orphans,
                                         .is_dry_run = given->dry_run};
    if (given->_grace_case == TIDEMARK__LAKE__V1__CLEANUP_REQUEST___GRACE_GRACE_MS) {
        TIDE_TRY(tide_rpc_duration(&options.grace_us, given->grace_ms, "grace_ms", err));
        if (options.grace_us == 0)
            options.grace_us = -1; /* none */
    }
    do {
        tide_lake_cleaned done = {0};
        TIDE_TRY(tide_lake_cleanup(turn->laked->lake, &options, &done, err));
        answer.files += done.files;
        answer.orphans += done.orphans;
        answer.bytes += done.bytes;
        answer.missing += done.missing;
        answer.foreign += done.foreign;
        answer.more = done.more;
    } while (answer.more && !options.is_dry_run && goes_on(turn, until_us));
    return tide_rpc_pack(&turn->out, &answer.base, err);
}

/* ---- compact ---- */

tide_status tide_laked_compact(tide_lake_turn *turn, const ProtobufCMessage *request,
                               tide_error *err)
{
    const LAKE(CompactRequest) *given = (const LAKE(CompactRequest) *)request;
    const char *holder = tide_rpc_text(given->holder);
    const tide_lake_compact_options options = {
        .holder = holder ? holder : tide_rpc_text(tide_call_identity(turn->call))};
    tide_lake *lake = turn->laked->lake;
    tide_lake_data *data = NULL;
    tide_lake_compacted done = {0};
    if (!given->schema[0] != !given->table[0])
        return tide_fail(err, TIDE_E_INVALID, "schema and table: name both, or neither");
    TIDE_TRY(tide_duckdb_thread_data(turn->desk, &data, err));
    TIDE_TRY(given->table[0] ? tide_lake_compact_step(lake, data, given->catalog, given->schema,
                                                      given->table, &options, &done, err)
                             : tide_lake_compact(lake, data, given->catalog, &options, &done, err));
    LAKE(CompactResponse) answer;
    tide_lake_message_compacted(&answer, &done);
    return tide_rpc_pack(&turn->out, &answer.base, err);
}

/* ---- verify ---- */

/* Damage is what was asked for: a response, not an error. */
static tide_status damage_is_found(tide_status status)
{
    return status == TIDE_E_DAMAGED ? TIDE_OK : status;
}

/* The checker reads everything in one closure: it gets a store of its own, whose closures may take
 * as long as the caller waits. */
tide_status tide_laked_verify(tide_lake_turn *turn, const ProtobufCMessage *request,
                              tide_error *err)
{
    const char *catalog = tide_rpc_text(((const LAKE(VerifyRequest) *)request)->catalog);
    if (!turn->laked->store_url)
        return damage_is_found(
            tide_lake_message_verify(&turn->out, turn->laked->lake, catalog, err));
    tide_env *env = turn->laked->env;
    const int64_t left_us = tide_laked_until(turn, TIDE_LAKED_VERIFY_US) - env->mono_us(env);
    const tide_store_options options = {
        TIDE_STORE_OPTIONS_INIT, .env = env,          .mode = TIDE_STORE_EXISTING,
        .is_inline = true,       .connection_max = 2, .closure_us = left_us > 0 ? left_us : 1};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_CLEANUP(tide_lake_closep) tide_lake *lake = NULL;
    TIDE_TRY(tide_store_open(&store, turn->laked->store_url, &options, err));
    TIDE_TRY(tide_lake_open(&lake, store, err));
    return damage_is_found(tide_lake_message_verify(&turn->out, lake, catalog, err));
}
