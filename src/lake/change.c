/* change.c - a change begins and ends; new things. */
#include "lake/change_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- life ---- */

/* At a snapshot that is named. */
static tide_status read_base(tide_tx *tx, void *arg, tide_error *err)
{
    tide_lake_change *change = arg;
    char name[TIDE_LAKE_NAME_MAX + 1];
    (void)snprintf(name, sizeof name, "%s", change->catalog.name);
    TIDE_TRY(tide_lake_find_catalog(tx, name, &change->catalog, err));
    if (change->base == 0)
        return TIDE_OK;
    char at[24];
    int64_t found = 0;
    (void)snprintf(at, sizeof at, "%" PRId64, change->base);
    TIDE_TRY(tide_lake_find_snapshot(tx, &change->catalog, at, &found, err));
    if (change->base < change->catalog.created_snapshot)
        return tide_fail(err, TIDE_E_INVALID,
                         "snapshot %" PRId64 " is from before the fork %s: a change begins at one "
                         "of its own, %" PRId64 " or later",
                         change->base, change->catalog.name, change->catalog.created_snapshot);
    return TIDE_OK;
}

typedef struct head_request {
    tide_store *store;
    const char *name;
    tide_lake_catalog_wish wish;
} head_request;

typedef struct head_requests {
    head_request **all;
    int count;
} head_requests;

/* The one among them, from the first on, that asks for the same catalog. */
static head_request *first_of_name(const head_requests *requests, int upto)
{
    for (int i = 0; i < upto; i++)
        if (strcmp(requests->all[i]->name, requests->all[upto]->name) == 0)
            return requests->all[i];
    return requests->all[upto];
}

static tide_status ask_for_heads(tide_tx *tx, void *arg, tide_error *err)
{
    const head_requests *requests = arg;
    for (int i = 0; i < requests->count; i++) {
        head_request *request = requests->all[i];
        if (first_of_name(requests, i) == request)
            TIDE_TRY(tide_lake_wish_catalog(tx, request->name, &request->wish, err));
    }
    return TIDE_OK;
}

/* One look at the heads serves everybody who asked before it was taken. */
static void read_heads(tide_combiner_turn *turn, void **whats, int count)
{
    (void)turn;
    head_request *all[TIDE_COMBINER_BATCH_MAX] = {NULL};
    assert(count > 0 && count <= TIDE_COMBINER_BATCH_MAX);
    for (int i = 0; i < count; i++)
        all[i] = whats[i];
    head_requests requests = {.all = all, .count = count};
    tide_error failure;
    const tide_status status =
        tide_store_read_local(all[0]->store, ask_for_heads, &requests, &failure);
    for (int i = 0; i < count; i++) {
        const head_request *same = first_of_name(&requests, i);
        if (status < TIDE_OK) {
            all[i]->wish.status = status;
            all[i]->wish.failure = failure;
        } else if (same != all[i]) {
            all[i]->wish.status = same->wish.status;
            all[i]->wish.failure = same->wish.failure;
            *all[i]->wish.out = *same->wish.out;
        }
    }
}

/* At the head: one round trip, and no wait for the disk. What is seen may be lost in a crash of the server; then the commit is refused. */
static tide_status read_head(tide_lake_change *change, const char *name, tide_error *err)
{
    head_request request = {
        .store = change->store, .name = name, .wish = {.out = &change->catalog}};
    void *what = &request;
    change->is_base_local = tide_store_engine(change->store) == TIDE_ENGINE_POSTGRES;
    if (change->is_base_local)
        tide_combiner_do(change->lake->heads, 0, what, read_heads);
    else
        read_heads(NULL, &what, 1);
    if (request.wish.status == TIDE_NONE) {
        (void)snprintf(change->catalog.name, sizeof change->catalog.name, "%s", name);
        return tide_store_read(change->store, read_base, change, err);
    }
    if (request.wish.status < TIDE_OK && err)
        *err = request.wish.failure;
    return request.wish.status;
}

tide_status tide_lake_begin(tide_lake_change **out, tide_lake *lake, const char *catalog,
                            int64_t base, tide_error *err)
{
    TIDE_TRY(tide_lake_check_name(catalog, "catalog", err));
    TIDE_CLEANUP(tide_lake_drop_changep) TIDE_NEW(tide_lake_change, change, err);
    change->lake = lake;
    change->store = tide_lake_store(lake);
    tide_arena_init(&change->memory, TIDE_LAKE_CHANGE_BYTES_MAX);
    (void)snprintf(change->catalog.name, sizeof change->catalog.name, "%s", catalog);
    change->base = base;
    TIDE_TRY(base == 0 ? read_head(change, catalog, err)
                       : tide_store_read(change->store, read_base, change, err));
    change->version = -1;
    if (base == 0) {
        change->base = change->catalog.head;
        change->version = change->catalog.schema_version;
    }
    *out = TIDE_TAKE(change);
    return TIDE_OK;
}

static tide_status find_base(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_lake_change *change = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    return tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_BASE_FIND, err,
                       tide_bind_i64("catalog_id", change->catalog.catalog_id),
                       tide_bind_i64("base", change->base),
                       tide_bind_i64("digest_a", change->catalog.digest[0]),
                       tide_bind_i64("digest_b", change->catalog.digest[1]));
}

tide_status lake_check_base(tide_lake_change *change, tide_error *err)
{
    if (!change->is_base_local)
        return TIDE_OK;
    const tide_status status = tide_store_read(change->store, find_base, change, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "snapshot %" PRId64 " of catalog %s, which this change is based on, was "
                         "lost when the server crashed: read the current state and try again",
                         change->base, change->catalog.name);
    change->is_base_local = false;
    return TIDE_OK;
}

void tide_lake_drop_change(tide_lake_change *change)
{
    if (!change)
        return;
    for (lake_thing *thing = change->things; thing; thing = thing->next) {
        free(thing->was.seen.sql);
        free(thing->columns_were);
    }
    tide_arena_done(&change->memory);
    free(change);
}

void tide_lake_drop_changep(tide_lake_change **change)
{
    tide_lake_drop_change(*change);
    *change = NULL;
}

const tide_lake_catalog *tide_lake_change_catalog(const tide_lake_change *change)
{
    return &change->catalog;
}

int64_t tide_lake_change_base(const tide_lake_change *change)
{
    return change->base;
}

tide_lake_outcome tide_lake_change_outcome(const tide_lake_change *change)
{
    return change->outcome;
}

const tide_lake_collision *tide_lake_change_collision(const tide_lake_change *change)
{
    return &change->collision;
}

const tide_status *tide_lake_change_retries(const tide_lake_change *change, int *count)
{
    *count = change->retry_count;
    return change->retries;
}

tide_status lake_fail_memory(const tide_lake_change *change, tide_error *err)
{
    const bool is_over = change->memory.used_len * 2 > TIDE_LAKE_CHANGE_BYTES_MAX;
    return is_over ? tide_fail(err, TIDE_E_LIMIT,
                               "too many operations in one change: commit some first")
                   : tide_no_memory(err);
}

tide_status lake_check_open(const tide_lake_change *change, tide_error *err)
{
    if (change->is_committed)
        return tide_fail(err, TIDE_E_INVALID, "this change is committed: begin another");
    return TIDE_OK;
}

/* ---- new things ---- */

static void name_paths(tide_lake_change *change, lake_thing *thing)
{
    tide_lake_object_row *row = &thing->is;
    char own[96];
    tide_lake_directory(own, row->seen.name, row->seen.uuid);
    row->is_relative = true;
    if (row->seen.kind == TIDE_LAKE_SCHEMA) {
        char catalog[96];
        tide_lake_directory(catalog, change->catalog.name, change->catalog.uuid);
        (void)snprintf(row->path, sizeof row->path, "%s%s", catalog, own);
        (void)snprintf(row->seen.path, sizeof row->seen.path, "%s", row->path);
    } else {
        (void)snprintf(row->path, sizeof row->path, "%s", own);
        (void)snprintf(row->seen.path, sizeof row->seen.path, "%.900s%s",
                       thing->schema->is.seen.path, own);
    }
}

tide_status lake_new_thing(tide_lake_change *change, tide_lake_kind kind, lake_thing *schema,
                           const char *name, lake_thing **out, tide_error *err)
{
    int64_t id = 0;
    TIDE_TRY(tide_lake_spend_ids(change->lake, TIDE_LAKE_OBJECT_IDS, 0, 1, &id, err));
    lake_thing *thing = lake_add_thing(change);
    if (!thing)
        return lake_fail_memory(change, err);
    tide_uuid uuid;
    tide_uuid_v4(tide_store_env(change->store), &uuid);
    tide_lake_object *seen = &thing->is.seen;
    tide_uuid_format(&uuid, seen->uuid);
    seen->kind = kind;
    seen->id = id;
    seen->schema_id = schema ? schema->is.seen.id : id;
    seen->owner_id = change->catalog.catalog_id;
    (void)snprintf(seen->name, sizeof seen->name, "%s", name);
    thing->schema = schema;
    thing->is_there = true;
    thing->has_columns = kind == TIDE_LAKE_TABLE;
    if (kind != TIDE_LAKE_VIEW)
        name_paths(change, thing);
    *out = thing;
    return TIDE_OK;
}
