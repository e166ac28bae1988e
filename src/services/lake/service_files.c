/* service_files.c - which files a table is made of, and which commits were refused: ListFiles, ListConflicts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "lake/mark.h"
#include "services/api/messages.h"
#include "services/lake/service.h"

/* ---- files ---- */

enum { FILES_FIELD = 3 };

typedef struct files_look {
    const LAKE(ListFilesRequest) * given;
    tide_buffer *out;
    int64_t limit;
    /* of this run */
    int64_t snapshot;
    LAKE(ListFilesResponse) sums;
} files_look;

static tide_status put_file(void *arg, const tide_lake_file_seen *file, tide_error *err)
{
    files_look *look = arg;
    look->sums.files_total++;
    look->sums.rows_total += file->record_count - file->delete_count;
    look->sums.bytes_total += file->file_size_bytes;
    if (look->sums.files_total > look->limit)
        return TIDE_OK; /* counted all the same */
    LAKE(File) row = LAKE_INIT(FILE);
    row.data_file_id = file->data_file_id;
    row.path = tide_rpc_borrow(file->path);
    row.rows = file->record_count;
    row.deleted_rows = file->delete_count;
    row.bytes = file->file_size_bytes;
    row.begin_snapshot_id = file->begin_snapshot;
    row.catalog_id = file->owner_id;
    return tide_rpc_put_message(look->out, FILES_FIELD, &row.base, err);
}

static tide_status no_table(const files_look *look, tide_error *err)
{
    return tide_fail(err, TIDE_E_NOT_FOUND,
                     "catalog %.255s has no table %.255s.%.255s at snapshot %" PRId64,
                     look->given->catalog, look->given->schema, look->given->table, look->snapshot);
}

static tide_status list_files(tide_tx *tx, void *arg, tide_error *err)
{
    files_look *look = arg;
    tide_lake_catalog catalog;
    tide_lake_object schema = {0};
    tide_lake_object table = {0};
    tide_buffer_clear(look->out); /* it may run again */
    look->sums = (LAKE(ListFilesResponse))LAKE_INIT(LIST_FILES_RESPONSE);
    TIDE_TRY(tide_lake_find_catalog(tx, look->given->catalog, &catalog, err));
    TIDE_TRY(tide_lake_find_snapshot(tx, &catalog, look->given->at, &look->snapshot, err));
    tide_status status = tide_lake_find_schema(tx, catalog.catalog_id, look->snapshot,
                                               look->given->schema, &schema, err);
    TIDE_TRY(status);
    if (status == TIDE_OK)
        status = tide_lake_find_object(tx, catalog.catalog_id, look->snapshot, schema.id,
                                       look->given->table, &table, err);
    TIDE_TRY(status);
    free(table.sql);
    if (status == TIDE_NONE || table.kind != TIDE_LAKE_TABLE)
        return no_table(look, err);
    return tide_lake_each_file(tx, catalog.catalog_id, look->snapshot, table.id, put_file, look,
                               err);
}

tide_status tide_laked_list_files(tide_lake_turn *turn, const ProtobufCMessage *request,
                                  tide_error *err)
{
    files_look look = {.given = (const LAKE(ListFilesRequest) *)request, .out = &turn->out};
    TIDE_TRY(tide_laked_bound(&look.limit, look.given->limit, TIDE_RPC_LIST_DEFAULT,
                              TIDE_LAKED_FILES_MAX, "limit", err));
    TIDE_TRY(tide_store_read(turn->laked->store, list_files, &look, err));
    look.sums.snapshot_id = look.snapshot;
    look.sums.cut = look.sums.files_total > look.limit;
    return tide_rpc_pack(&turn->out, &look.sums.base, err);
}

/* ---- refused commits ---- */

void tide_laked_note_refusal(const tide_lake_turn *turn, const char *author)
{
    tide_refusal refusal = {.time_us = turn->laked->env->wall_us(turn->laked->env),
                            .base = turn->base,
                            .with = turn->collision};
    (void)snprintf(refusal.catalog, sizeof refusal.catalog, "%s", turn->catalog);
    (void)snprintf(refusal.author, sizeof refusal.author, "%s", author ? author : "");
    tide_refusals_add(&turn->laked->refusals, &refusal);
}

tide_status tide_laked_list_conflicts(tide_lake_turn *turn, const ProtobufCMessage *request,
                                      tide_error *err)
{
    enum { CONFLICTS_FIELD = 1 };
    const LAKE(ListConflictsRequest) *given = (const LAKE(ListConflictsRequest) *)request;
    int64_t limit = 0;
    tide_refusal refusal;
    TIDE_TRY(tide_laked_bound(&limit, given->limit, TIDE_RPC_LIST_DEFAULT, TIDE_REFUSALS_KEPT,
                              "limit", err));
    for (uint64_t i = 0; limit > 0 && tide_refusals_get(&turn->laked->refusals, i, &refusal); i++) {
        if (given->catalog[0] && strcasecmp(given->catalog, refusal.catalog) != 0)
            continue;
        limit--;
        LAKE(Conflict) row = LAKE_INIT(CONFLICT);
        row.time = refusal.time_us;
        row.catalog = refusal.catalog;
        row.author = refusal.author;
        row.base_snapshot_id = refusal.base;
        row.snapshot_id = refusal.with.snapshot_id;
        row.with_author = refusal.with.author;
        row.mark = refusal.with.mark;
        row.what = tide_rpc_borrow(tide_lake_mark_words(refusal.with.mark));
        TIDE_TRY(tide_rpc_put_message(&turn->out, CONFLICTS_FIELD, &row.base, err));
    }
    return TIDE_OK;
}
