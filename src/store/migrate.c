/* migrate.c - see migration.h. */
#include "store/migration.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "store/engine.h"
#include "store/identity.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static tide_status checksum(char out[TIDE_SHA256_TEXT_SIZE], const tide_migration *migration,
                            const tide_tx *tx, tide_error *err)
{
    uint8_t digest[TIDE_SHA256_LEN];
    TIDE_TRY(tide_sha256_of(tide_view_of(migration->text[tx->store->ops->engine]), digest, err));
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

bool tide_migrations_are_missing(const tide_migration_set *set, int64_t applied)
{
    return find_migration(set->migrations, applied + 1) != NULL;
}

tide_status tide_migrations_check(const tide_migration_set *set, tide_tx *tx, int64_t *applied,
                                  tide_error *err)
{
    *applied = 0;
    TIDE_QUERY_BY(query, tide_query_begin, tx, set->list, err);
    TIDE_EACH(tide_query_step(query, err)) {
        *applied = tide_query_col_i64(query);
        const tide_view version = tide_query_col_text(query);
        const tide_view sum = tide_query_col_text(query);
        const tide_migration *known = find_migration(set->migrations, *applied);
        if (!known)
            return tide_fail(err, TIDE_E_NEWER,
                             "%s: schema %.*s of the %s (migration %" PRId64
                             ") is newer than this program",
                             tx->store->name, (int)version.len, version.ptr, set->name, *applied);
        char expected[TIDE_SHA256_TEXT_SIZE];
        TIDE_TRY(checksum(expected, known, tx, err));
        if (!tide_view_equal(sum, tide_view_of(expected)))
            return tide_fail(err, TIDE_E_DAMAGED,
                             "%s: migration %d (%s) of the %s was applied with another text",
                             tx->store->name, known->number, known->name, set->name);
    }
    return TIDE_OK;
}

static tide_status apply_one(const tide_migration_set *set, tide_tx *tx,
                             const tide_migration *migration, tide_error *err)
{
    char sum[TIDE_SHA256_TEXT_SIZE];
    const tide_status status = tide_tx_script(tx, migration->text[tx->store->ops->engine], err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "migration %d (%s) of the %s", migration->number,
                                 migration->name, set->name);
    TIDE_TRY(checksum(sum, migration, tx, err));
    TIDE_TRY(tide_tx_exec(tx, set->add, NULL, err, tide_bind_text("version", migration->version),
                          tide_bind_i64("number", migration->number),
                          tide_bind_text("name", migration->name), tide_bind_text("checksum", sum),
                          tide_bind_now("now")));
    return migration->number == 1 && set->on_first ? set->on_first(tx, NULL, err) : TIDE_OK;
}

tide_status tide_migrations_apply(const tide_migration_set *set, tide_tx *tx, int64_t applied,
                                  tide_error *err)
{
    for (const tide_migration *next = set->migrations; next->number > 0; next++)
        if (next->number > applied)
            TIDE_TRY(apply_one(set, tx, next, err));
    return TIDE_OK;
}

/* ---- the store's own set ---- */

typedef struct store_migration {
    tide_migration_set set;
    int64_t applied;
} store_migration;

static tide_status find_applied(tide_tx *tx, void *arg, tide_error *err)
{
    store_migration *m = arg;
    m->applied = 0;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_SCHEMA_EXISTS, err, TIDE_NO_BIND);
    const bool is_there = tide_query_col_bool(query);
    const bool is_ours = tide_query_col_bool(query);
    if (is_there && !is_ours)
        return tide_fail(err, TIDE_E_FOREIGN, "%s has a table schema_version of another program",
                         tx->store->name);
    return is_there ? tide_migrations_check(&m->set, tx, &m->applied, err) : TIDE_OK;
}

static tide_status apply_missing(tide_tx *tx, void *arg, tide_error *err)
{
    store_migration *m = arg;
    if (tx->store->ops->engine == TIDE_ENGINE_POSTGRES)
        TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_SCHEMA_LOCK, NULL, err, TIDE_NO_BIND));
    TIDE_TRY(find_applied(tx, m, err));
    return tide_migrations_apply(&m->set, tx, m->applied, err);
}

static tide_status create_identity(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tide_identity_create(tx, err);
}

tide_status tide_store_migrate(tide_store *store, const tide_migration *migrations, tide_error *err)
{
    store_migration m = {.set = {.name = "store",
                                 .migrations = migrations,
                                 .list = TIDE_SQL_SCHEMA_LIST,
                                 .add = TIDE_SQL_SCHEMA_ADD,
                                 .on_first = create_identity}};
    TIDE_TRY(store->ops->read(store, find_applied, &m, true, err));
    if (!tide_migrations_are_missing(&m.set, m.applied))
        return TIDE_OK;
    if (store->options.mode == TIDE_STORE_AS_IS || store->options.mode == TIDE_STORE_EXISTING) {
        if (m.applied == 0)
            return tide_fail(err, TIDE_E_NOT_FOUND, "there is no Tidemark store at %s",
                             store->name);
        store->is_older = store->options.mode == TIDE_STORE_AS_IS;
        if (store->is_older)
            return TIDE_OK;
    }
    return store->ops->write(store, apply_missing, &m, err);
}

bool tide_store_is_older(const tide_store *store)
{
    return store->is_older;
}
