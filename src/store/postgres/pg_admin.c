/* pg_admin.c - description and verification of a PostgreSQL store. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/postgres/pg_engine.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static const char *const setting_facts[] = {
    "server_version", "fsync",          "full_page_writes", "synchronous_standby_names",
    "wal_level",      "data_checksums", "server_encoding",  "wal_sync_method",
};

typedef struct describe_request {
    tide_store_describe_fn *fn;
    void *arg;
} describe_request;

static tide_status describe_settings(tide_tx *tx, void *arg, tide_error *err)
{
    const describe_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_SETTING_GET, err));
    for (size_t i = 0; i < sizeof setting_facts / sizeof setting_facts[0]; i++) {
        tide_query_bind_text(query, "name", setting_facts[i]);
        TIDE_TRY(tide_query_one(query, err));
        char value[256];
        const tide_view found = tide_query_col_text(query);
        (void)snprintf(value, sizeof value, "%.*s", (int)found.len, found.ptr);
        request->fn(request->arg, i == 0 ? "engine_version" : setting_facts[i], value);
        tide_query_reset(query);
    }
    return TIDE_OK;
}

static tide_status describe_role(tide_tx *tx, void *arg, tide_error *err)
{
    const describe_request *request = arg;
    tide_pg_connection *connection = tx->connection;
    char value[64];
    TIDE_TRY(tide_pg_begin(connection, false, err));
    TIDE_TRY(tide_pg_sync(connection, err));
    request->fn(request->arg, "is_standby", connection->is_on_standby ? "true" : "false");
    if (!connection->is_on_standby || !connection->has_wal)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_STANDBY_LAG, err));
    TIDE_TRY(tide_query_one(query, err));
    (void)snprintf(value, sizeof value, "%" PRId64, tide_query_col_i64(query));
    request->fn(request->arg, "standby_lag_bytes", value);
    (void)snprintf(value, sizeof value, "%" PRId64, tide_query_col_i64(query));
    request->fn(request->arg, "standby_lag_seconds", value);
    return TIDE_OK;
}

tide_status tide_pg_describe(tide_store *store, tide_store_describe_fn *fn, void *arg,
                             tide_error *err)
{
    describe_request request = {.fn = fn, .arg = arg};
    tide_pg_engine *engine = store->engine;
    TIDE_TRY(tide_store_read_local(store, describe_settings, &request, err));
    TIDE_TRY(tide_store_read_local(store, describe_role, &request, err));
    (void)pthread_mutex_lock(&engine->lock);
    const bool is_pooled = engine->is_pooled;
    const bool is_reduced = engine->is_reduced;
    (void)pthread_mutex_unlock(&engine->lock);
    fn(arg, "commit_mode", is_pooled || is_reduced ? "synchronous" : "shared_flush");
    fn(arg, "pooler", is_pooled ? "transaction" : "none");
    fn(arg, "commit",
       is_pooled || is_reduced
           ? "ordered: each commit is synchronous in its own transaction"
           : "ordered: synchronous_commit=off, then one shared synchronous flush");
    fn(arg, "identity",
       is_reduced
           ? "reduced: the server refuses WAL or control functions; every start of the server "
             "begins an epoch"
           : "cluster, timeline, database, start of the server and epoch, proved in every "
             "transaction");
    return TIDE_OK;
}

enum { ENTRIES_MAX = 1000 }; /* missing entries that are listed */

typedef struct finding_request {
    tide_store_finding_fn *fn;
    void *arg;
    int count;
} finding_request;

/* Counting reads every page; a damaged one fails its checksum or its structure. */
static tide_status read_every_table(tide_tx *tx, void *arg, tide_error *err)
{
    finding_request *request = arg;
    TIDE_TRY(
        tx->store->ops->script(tx, "SET LOCAL statement_timeout = 0", err)); /* for large tables */
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_TABLE_CHECK, err));
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        const tide_view table = tide_query_col_text(query);
        if (tide_query_col_i64(query) >= 0)
            continue;
        char text[256];
        (void)snprintf(text, sizeof text, "table %.*s cannot be counted", (int)table.len,
                       table.ptr);
        request->count++;
        request->fn(request->arg, text);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

/* Work items that no claim or sweep would find, because their entries are missing. */
static tide_status compare_entries(tide_tx *tx, void *arg, tide_error *err)
{
    finding_request *request = arg;
    TIDE_TRY(tx->store->ops->script(tx, "SET LOCAL statement_timeout = 0", err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_WORK_ENTRIES_CHECK, err,
                              tide_bind_i64("limit", ENTRIES_MAX)));
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view item = tide_query_col_text(query);
        const tide_view table = tide_query_col_text(query);
        char text[512];
        (void)snprintf(text, sizeof text,
                       "work item %.*s has no entry in %.*s, so that no claim or sweep finds it; "
                       "docs/internals/work-layout.md has the statement that adds it",
                       (int)item.len, item.ptr, (int)table.len, table.ptr);
        request->count++;
        request->fn(request->arg, text);
    }
    return TIDE_OK;
}

tide_status tide_pg_check(tide_store *store, tide_store_finding_fn *fn, void *arg, tide_error *err)
{
    finding_request request = {.fn = fn, .arg = arg};
    TIDE_TRY(tide_store_read_local(store, read_every_table, &request, err));
    TIDE_TRY(tide_store_read_local(store, compare_entries, &request, err));
    return request.count == 0
               ? TIDE_OK
               : tide_fail(err, TIDE_E_DAMAGED, "%s: %d findings", store->name, request.count);
}

tide_status tide_pg_backup(tide_store *store, const char *path, tide_error *err)
{
    return tide_fail(err, TIDE_E_UNSUPPORTED,
                     "%s is a PostgreSQL database: use pg_dump or pg_basebackup to write %s",
                     store->name, path);
}
