/* replay.c - what became of a request that may have been made before. */
#include <inttypes.h>
#include <stdio.h>

#include "lake/change_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

typedef struct replay {
    const char *catalog;
    const tide_lake_commit_options *options;
    tide_lake_committed out;
} replay;

static tide_status find_request(tide_tx *tx, void *arg, tide_error *err)
{
    replay *r = arg;
    tide_lake_catalog catalog;
    TIDE_TRY(tide_lake_find_catalog(tx, r->catalog, &catalog, err));
    TIDE_QUERY_ONE(query, tx, TIDE_LAKE_SQL_LAKE_KEY_FIND, err,
                   tide_bind_i64("catalog_id", catalog.catalog_id),
                   tide_bind_text("key", r->options->request_key));
    r->out = (tide_lake_committed){.tries = 1, .is_replay = true};
    (void)snprintf(r->out.request_key, sizeof r->out.request_key, "%s", r->options->request_key);
    r->out.snapshot_id = tide_query_col_i64(query);
    r->out.parent_snapshot_id = tide_query_col_i64(query);
    const bool is_same = tide_view_equal(tide_query_col_blob(query), r->options->request_hash);
    r->out.rows_added = tide_query_col_i64(query);
    if (is_same)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "request key '%.100s' was used for another request (snapshot %" PRId64
                     " of catalog %s): use a new key for a new request",
                     r->options->request_key, r->out.snapshot_id, catalog.name);
}

tide_status tide_lake_find_request(tide_lake *lake, const char *catalog,
                                   const tide_lake_commit_options *options,
                                   tide_lake_committed *out, tide_error *err)
{
    TIDE_TRY(lake_check_options(options, err));
    if (!options || !options->request_key)
        return TIDE_NONE;
    replay r = {.catalog = catalog, .options = options};
    const tide_status status = tide_store_read(lake->store, find_request, &r, err);
    if (status == TIDE_OK)
        *out = r.out;
    return status;
}
