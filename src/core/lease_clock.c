/* lease_clock.c - the time that leases are measured by.
 *
 * PostgreSQL: the server's clock. SQLite: CLOCK_BOOTTIME plus an offset kept in the file, so that every process
 * on this boot agrees and nobody can move it by setting the wall clock. A boot id other than the anchor's means
 * that the machine was started anew (or the file moved to another one): all leases end, and a new anchor is set
 * from the wall clock. */
#include <tidemark/identity.h>
#include <tidemark/lease.h>

#include <string.h>

#include "base/buffer.h"
#include "base/bytes/crc32c.h"
#include "base/interface/caller.h"
#include "core/lease_clock.h"
#include "store/statement.h"
#include "tidemark_sql.h"

int64_t tide_lease_token_floor(tide_tx *tx)
{
    tide_identity identity;
    tide_store_identity(tide_tx_store(tx), &identity);
    const int64_t salt = tide_crc32c(tide_view_of(identity.session_id));
    return (identity.epoch << TIDE_EPOCH_TOKEN_BITS) + 1 + salt;
}

typedef struct anchor {
    char boot_id[TIDE_BOOT_ID_SIZE];
    int64_t offset_us;
} anchor;

static tide_status read_anchor(tide_tx *tx, anchor *out, tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_LEASE_CLOCK_GET, err, TIDE_NO_BIND);
    tide_view_copy(out->boot_id, sizeof out->boot_id, tide_query_col_text(query));
    out->offset_us = tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status end_with_tokens(tide_tx *tx, const tide_sql *sql, tide_error *err)
{
    return tide_tx_exec(tx, sql, NULL, err, tide_bind_i64("floor", tide_lease_token_floor(tx)));
}

static tide_status end_work(tide_tx *tx, int64_t now_us, int64_t booted_us, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_LEASE_END_WORK, NULL, err, tide_bind_time("now", now_us),
                        tide_bind_time("booted", booted_us));
}

/* Leases of every kind: by name, of idempotency keys, of work items. */
static tide_status end_all(tide_tx *tx, int64_t now_us, int64_t booted_us, tide_error *err)
{
    TIDE_TRY(end_with_tokens(tx, TIDE_SQL_LEASE_END_ALL, err));
    TIDE_TRY(end_with_tokens(tx, TIDE_SQL_IDEMPOTENCY_END_ALL, err));
    return end_work(tx, now_us, booted_us, err);
}

static tide_status put_anchor(tide_tx *tx, const anchor *fresh, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_LEASE_CLOCK_PUT, NULL, err,
                        tide_bind_text("boot_id", fresh->boot_id),
                        tide_bind_i64("offset_us", fresh->offset_us));
}

tide_status tide_lease_now(tide_tx *tx, int64_t *now_us, tide_error *err)
{
    TIDE_NEED(tx && now_us, err);
    tide_store *store = tide_tx_store(tx);
    if (tide_store_engine(store) == TIDE_ENGINE_POSTGRES)
        return tide_tx_now(tx, now_us, err);
    tide_env *env = tide_store_env(store);
    anchor stored = {.boot_id = ""};
    anchor fresh = {.boot_id = ""};
    const tide_status found = read_anchor(tx, &stored, err);
    TIDE_TRY(found);
    env->boot_id(env, fresh.boot_id);
    const int64_t boot_us = env->boot_us(env);
    if (strcmp(stored.boot_id, fresh.boot_id) == 0) {
        *now_us = boot_us + stored.offset_us;
        return TIDE_OK;
    }
    if (!tide_tx_is_write(tx)) {
        *now_us = INT64_MAX;
        return TIDE_OK;
    }
    fresh.offset_us = env->wall_us(env) - boot_us;
    *now_us = boot_us + fresh.offset_us;
    if (found == TIDE_OK) /* without an anchor there were only plain SQL's, which need none */
        TIDE_TRY(end_all(tx, *now_us, fresh.offset_us, err));
    return put_anchor(tx, &fresh, err);
}
