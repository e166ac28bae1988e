/* service_catalog.c - catalogs are made, listed, forked, dropped; numbers are spent. */
#include <string.h>

#include "base/cleanup.h"
#include "services/lake/service.h"
#include "store/duckdb/duckdb.h"

/* What is asked, for its key: the words that the command line hashes, too. */
static tide_status hash_words(const char *const words[4], uint8_t out[TIDE_SHA256_LEN],
                              tide_error *err)
{
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    TIDE_TRY(tide_sha256_init(&sha, err));
    for (int i = 0; i < 4; i++)
        TIDE_TRY(tide_sha256_add(&sha, tide_view_bytes(words[i], strlen(words[i]) + 1), err));
    return tide_sha256_finish(&sha, out, err);
}

static tide_status answer_created(tide_lake_turn *turn, const tide_lake_created *created,
                                  tide_error *err)
{
    LAKE(CreatedCatalog) answer;
    tide_lake_message_created(&answer, created);
    return tide_rpc_pack(&turn->out, &answer.base, err);
}

tide_status tide_laked_create_catalog(tide_lake_turn *turn, const ProtobufCMessage *request,
                                      tide_error *err)
{
    const LAKE(CreateCatalogRequest) *given = (const LAKE(CreateCatalogRequest) *)request;
    uint8_t hash[TIDE_SHA256_LEN];
    TIDE_TRY(hash_words((const char *const[4]){"create", given->name, "", ""}, hash, err));
    const tide_lake_commit_options options = tide_laked_commit_options(
        turn, given->commit, tide_view_bytes((const char *)hash, sizeof hash));
    tide_lake_created created = {0};
    const tide_status status = tide_lake_create_catalog(turn->laked->lake, given->name,
                                                        given->may_exist, &options, &created, err);
    tide_lake_metrics_made(turn->laked->metrics, status, created.was_there);
    TIDE_TRY(status);
    return answer_created(turn, &created, err);
}

tide_status tide_laked_fork_catalog(tide_lake_turn *turn, const ProtobufCMessage *request,
                                    tide_error *err)
{
    const LAKE(ForkCatalogRequest) *given = (const LAKE(ForkCatalogRequest) *)request;
    uint8_t hash[TIDE_SHA256_LEN];
    TIDE_TRY(hash_words((const char *const[4]){"fork", given->parent, given->name, given->at}, hash,
                        err));
    const tide_lake_commit_options options = tide_laked_commit_options(
        turn, given->commit, tide_view_bytes((const char *)hash, sizeof hash));
    tide_lake_created created = {0};
    const tide_status status = tide_lake_fork(turn->laked->lake, given->parent, given->name,
                                              given->at, &options, &created, err);
    tide_lake_metrics_made(turn->laked->metrics, status, created.was_there);
    TIDE_TRY(status);
    return answer_created(turn, &created, err);
}

tide_status tide_laked_drop_catalog(tide_lake_turn *turn, const ProtobufCMessage *request,
                                    tide_error *err)
{
    const LAKE(DropCatalogRequest) *given = (const LAKE(DropCatalogRequest) *)request;
    return tide_lake_drop_catalog(turn->laked->lake, given->name, err);
}

tide_status tide_laked_next_snapshot_id(tide_lake_turn *turn, const ProtobufCMessage *request,
                                        tide_error *err)
{
    (void)request;
    LAKE(NextSnapshotIdResponse) answer = LAKE_INIT(NEXT_SNAPSHOT_ID_RESPONSE);
    TIDE_TRY(tide_lake_spend_snapshot(turn->laked->lake, &answer.snapshot_id, err));
    return tide_rpc_pack(&turn->out, &answer.base, err);
}

/* ---- list ---- */

static tide_status put_catalog(void *arg, const tide_lake_catalog *catalog, tide_error *err)
{
    LAKE(Catalog) row;
    tide_lake_message_catalog(&row, catalog);
    return tide_rpc_put_message(arg, 1, &row.base, err);
}

static tide_status list_catalogs(tide_tx *tx, void *arg, tide_error *err)
{
    tide_buffer_clear(arg); /* it may run again */
    return tide_lake_each_catalog(tx, put_catalog, arg, err);
}

tide_status tide_laked_list_catalogs(tide_lake_turn *turn, const ProtobufCMessage *request,
                                     tide_error *err)
{
    (void)request;
    TIDE_TRY(tide_store_read(turn->laked->store, list_catalogs, &turn->out, err));
    const char *version = NULL;
    tide_error missing = {0};
    if (tide_duckdb_find(&version, turn->laked->duckdb_library, &missing) == TIDE_OK)
        return TIDE_OK;
    LAKE(ListCatalogsResponse) rest = LAKE_INIT(LIST_CATALOGS_RESPONSE);
    rest.rows_unavailable = missing.text;
    return tide_rpc_pack(&turn->out, &rest.base, err);
}
