/* expose.c - see expose.h. */
#include "lake/expose.h"

#include <stdio.h>
#include <string.h>

#include "lake/lake_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

int64_t tide_lake_turn_us(int64_t wall_us)
{
    return TIDE_LAKE_TURN_US - wall_us % TIDE_LAKE_TURN_US;
}

/* Who makes or removes views is alone with it. */
static tide_status lock_alone(tide_tx *tx, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_LAKE_SQL_LAKE_LOCK, NULL, err, TIDE_NO_BIND);
}

static tide_status check_engine(tide_lake *lake, const char *catalog, tide_error *err)
{
    if (tide_store_engine(lake->store) == TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_UNSUPPORTED,
                     "stock clients cannot share a SQLite file with other writers: write them a "
                     "catalog file with 'tidemark lake export %.100s FILE.sqlite', or keep the "
                     "metabase in PostgreSQL",
                     catalog);
}

typedef struct exposing {
    const char *catalog;
    const char *schema; /* NULL: by default */
    tide_lake_exposed out;
} exposing;

static tide_status name_schema(exposing *e, const tide_lake_catalog *catalog, tide_error *err)
{
    char name[TIDE_LAKE_NAME_MAX + 16];
    char folded[TIDE_LAKE_NAME_MAX + 1];
    tide_lake_fold(folded, catalog->name);
    (void)snprintf(name, sizeof name, "%s%s", e->schema ? "" : "lake_",
                   e->schema ? e->schema : folded);
    TIDE_TRY(tide_lake_check_name(name, "schema", err));
    if (strlen(name) > TIDE_LAKE_EXPOSED_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "'%.70s' is longer than PostgreSQL's names (%d bytes): name a schema with "
                         "--schema",
                         name, TIDE_LAKE_EXPOSED_MAX);
    memcpy(e->out.schema, name, strlen(name) + 1);
    return TIDE_OK;
}

static tide_status expose(tide_tx *tx, void *arg, tide_error *err)
{
    exposing *e = arg;
    tide_lake_catalog catalog;
    TIDE_TRY(lock_alone(tx, err));
    TIDE_TRY(tide_lake_find_catalog(tx, e->catalog, &catalog, err));
    TIDE_TRY(name_schema(e, &catalog, err));
    e->out.catalog_id = catalog.catalog_id;
    e->out.was_there = strcmp(catalog.exposed_as, e->out.schema) == 0;
    const tide_status status = tide_tx_exec(tx, TIDE_LAKE_SQL_LAKE_EXPOSE, NULL, err,
                                            tide_bind_i64("catalog_id", catalog.catalog_id),
                                            tide_bind_text("schema", e->out.schema));
    return status < TIDE_OK ? tide_fail_context(err, status, "catalog %s", catalog.name) : TIDE_OK;
}

tide_status tide_lake_expose(tide_lake *lake, const char *catalog, const char *schema,
                             tide_lake_exposed *out, tide_error *err)
{
    exposing e = {.catalog = catalog, .schema = schema};
    if (schema && strlen(schema) > TIDE_LAKE_NAME_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a schema's name has at most %d bytes",
                         TIDE_LAKE_EXPOSED_MAX);
    TIDE_TRY(check_engine(lake, catalog, err));
    TIDE_TRY(tide_store_write(lake->store, expose, &e, err));
    *out = e.out;
    return TIDE_OK;
}

static tide_status unexpose(tide_tx *tx, void *arg, tide_error *err)
{
    exposing *e = arg;
    tide_lake_catalog catalog;
    TIDE_TRY(lock_alone(tx, err));
    TIDE_TRY(tide_lake_find_catalog(tx, e->catalog, &catalog, err));
    e->out.was_there = catalog.exposed_as[0] != '\0';
    return tide_tx_exec(tx, TIDE_LAKE_SQL_LAKE_UNEXPOSE, NULL, err,
                        tide_bind_i64("catalog_id", catalog.catalog_id));
}

tide_status tide_lake_unexpose(tide_lake *lake, const char *catalog, bool *was_exposed,
                               tide_error *err)
{
    exposing e = {.catalog = catalog};
    TIDE_TRY(check_engine(lake, catalog, err));
    TIDE_TRY(tide_store_write(lake->store, unexpose, &e, err));
    if (was_exposed)
        *was_exposed = e.out.was_there;
    return TIDE_OK;
}
