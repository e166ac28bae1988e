/* migrate.c - see migration.h. */
#include "store/migration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "store/engine.h"
#include "store/identity.h"
#include "store/statement.h"
#include "tidemark_sql.h"

typedef struct migration_state {
    const tide_migration *migrations;
    int64_t applied; /* number of the newest */
} migration_state;

static tide_status checksum(char out[TIDE_SHA256_TEXT_SIZE], const tide_migration *migration,
                            tide_engine engine, tide_error *err)
{
    uint8_t digest[TIDE_SHA256_LEN];
    TIDE_TRY(tide_sha256_of(tide_view_of(migration->text[engine]), digest, err));
    tide_hex_encode(out, digest, sizeof digest);
    return TIDE_OK;
}

static const tide_migration *find_migration(const tide_migration *list, int64_t number)
{
    for (; list->number > 0; list++)
        if (list->number == number)
            return list;
    return NULL;
}

/* Is what the store lists what this program knows? */
static tide_status check_applied(tide_tx *tx, migration_state *state, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_SCHEMA_LIST, err));
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        const int64_t number = tide_query_col_i64(query);
        const tide_view version = tide_query_col_text(query);
        (void)tide_query_col_text(query);
        const tide_view sum = tide_query_col_text(query);
        const tide_migration *known = find_migration(state->migrations, number);
        if (!known)
            return tide_fail(err, TIDE_E_NEWER,
                             "%s has schema %.*s (migration %" PRId64
                             "), which this program does not know",
                             tx->store->name, (int)version.len, version.ptr, number);
        char expected[TIDE_SHA256_TEXT_SIZE];
        TIDE_TRY(checksum(expected, known, tx->store->ops->engine, err));
        if (!tide_view_equal(sum, tide_view_of(expected)))
            return tide_fail(err, TIDE_E_DAMAGED,
                             "%s: migration %" PRId64 " (%s) was applied with another text",
                             tx->store->name, number, known->name);
        state->applied = number;
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status find_applied(tide_tx *tx, migration_state *state, tide_error *err)
{
    state->applied = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_tx_one(&query, tx, TIDE_SQL_SCHEMA_EXISTS, err, TIDE_NO_BIND));
    const bool is_there = tide_query_col_bool(query);
    const bool is_ours = tide_query_col_bool(query);
    if (is_there && !is_ours)
        return tide_fail(err, TIDE_E_FOREIGN, "%s has a table schema_version of another program",
                         tx->store->name);
    return is_there ? check_applied(tx, state, err) : TIDE_OK;
}

static tide_status record_applied(tide_tx *tx, const tide_migration *migration, tide_error *err)
{
    char sum[TIDE_SHA256_TEXT_SIZE];
    TIDE_TRY(checksum(sum, migration, tx->store->ops->engine, err));
    return tide_tx_exec(
        tx, TIDE_SQL_SCHEMA_ADD, NULL, err, tide_bind_text("version", migration->version),
        tide_bind_i64("number", migration->number), tide_bind_text("name", migration->name),
        tide_bind_text("checksum", sum), tide_bind_now("now"));
}

static tide_status apply_one(tide_tx *tx, const tide_migration *migration, tide_error *err)
{
    const tide_status status =
        tx->store->ops->script(tx, migration->text[tx->store->ops->engine], err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "migration %d (%s)", migration->number,
                                 migration->name);
    TIDE_TRY(record_applied(tx, migration, err));
    return migration->number == 1 ? tide_identity_create(tx, err) : TIDE_OK;
}

static tide_status look_up(tide_tx *tx, void *arg, tide_error *err)
{
    return find_applied(tx, arg, err);
}

/* All steps in one transaction: a store is as it was, or as this program wants it. */
static tide_status apply_missing(tide_tx *tx, void *arg, tide_error *err)
{
    migration_state *state = arg;
    if (tx->store->ops->engine == TIDE_ENGINE_POSTGRES) {
        TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_SCHEMA_LOCK, NULL, err, TIDE_NO_BIND));
    }
    TIDE_TRY(find_applied(tx, state, err));
    for (const tide_migration *next = state->migrations; next->number > 0; next++)
        if (next->number > state->applied)
            TIDE_TRY(apply_one(tx, next, err));
    return TIDE_OK;
}

tide_status tide_store_migrate(tide_store *store, const tide_migration *migrations, tide_error *err)
{
    migration_state state = {.migrations = migrations};
    int newest = 0;
    while (migrations[newest].number > 0)
        newest++;
    TIDE_TRY(store->ops->read(store, look_up, &state, true, err));
    if (state.applied >= newest)
        return TIDE_OK;
    if (store->options.mode == TIDE_STORE_AS_IS || store->options.mode == TIDE_STORE_EXISTING) {
        if (state.applied == 0)
            return tide_fail(err, TIDE_E_NOT_FOUND, "there is no Tidemark store at %s",
                             store->name);
        store->is_older = store->options.mode == TIDE_STORE_AS_IS;
        if (store->is_older)
            return TIDE_OK;
    }
    return store->ops->write(store, apply_missing, &state, err);
}
