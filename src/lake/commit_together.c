/* commit_together.c - appends of one process to one catalog at the same time become several snapshots of one transaction (PostgreSQL; on SQLite the store groups).
 *
 * Every member keeps its own snapshot, parent, digest, key and marks, as if it had committed alone behind the member before it; what is shared are the head's lock, one
 * statement over all their rows, the COMMIT and the flush. The next group gathers while one writes, and writes while that one waits for the disk. Only plain appends go together: they leave nothing that another of them fears, so what one is checked
 * against is what stood there before all of them.
 *
 *     head locked  ->  anything since a base that is feared, a key that is there: refused; snapshots, changes, marks, commits, head, files, statistics  ->  COMMIT
 *
 * If anything fails, all of it has failed, and each member goes alone (docs/decisions/0003-no-savepoints-on-postgresql.md).
 * An outcome that is not known is found out the same way: by its key, under the lock. */
#include "lake/change_parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum {
    GROUP_BYTES_MAX = 16 << 20,
    HASH_MAX = 64,        /* bytes of a request's hash */
    GROUP_FILES_MAX = 16, /* of one member: a change of many files is its own group */
};

typedef struct group {
    lake_try **members;
    int count;
    int64_t catalog_id;
    int64_t head; /* that was locked */
    tide_combiner_turn *turn;
    tide_lake_left left; /* file ids */
} group;

static bool is_plain(const lake_try *c)
{
    if (tide_store_engine(c->change->store) != TIDE_ENGINE_POSTGRES || c->plan.schema_step != 0 ||
        c->plan.has_drops || c->change->ends || c->plan.file_count < 1 ||
        c->plan.file_count > GROUP_FILES_MAX ||
        (c->options && c->options->request_hash.len > HASH_MAX))
        return false;
    for (const lake_file *file = c->change->files; file; file = file->next)
        if (file->is_delete || file->table->has_compaction || file->table->has_deletes)
            return false;
    return true;
}

/* ---- files ---- */

/* The ids of all files in one go; a member's digest is what the state has gained with it and everybody before it. */
static tide_status number_members(tide_tx *tx, group *g, tide_lake_digest *digests, tide_error *err)
{
    int count = 0;
    for (int i = 0; i < g->count; i++)
        count += g->members[i]->plan.file_count;
    TIDE_CLEANUP(tide_freep) int64_t *ids = calloc((size_t)count + 1, sizeof *ids);
    TIDE_NEED_MEMORY(ids, err);
    TIDE_TRY(tide_lake_file_ids(g->members[0]->change->lake, tx, count, ids, &g->left, err));
    tide_lake_digest sum = {.sums = {0, 0}};
    int next = 0;
    for (int i = 0; i < g->count; i++) {
        lake_try *c = g->members[i];
        tide_lake_digest_add(&sum, &c->plan.digest);
        TIDE_TRY(lake_number_files(c, ids + next, &sum, err));
        next += c->plan.file_count;
        digests[i] = sum;
    }
    return TIDE_OK;
}

/* ---- members ---- */

static void put_number(tide_json *json, const char *key, int64_t value)
{
    tide_json_key(json, key);
    tide_json_i64(json, value);
}

static void put_text(tide_json *json, const char *key, const char *value)
{
    tide_json_key(json, key);
    tide_json_text(json, value);
}

static void put_hash(tide_json *json, tide_view hash)
{
    char hex[2 * HASH_MAX + 1] = "";
    assert(hash.len <= HASH_MAX);
    if (hash.len == 0)
        return;
    for (size_t i = 0; i < hash.len; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned)(unsigned char)hash.ptr[i]);
    put_text(json, "hash", hex);
}

/* fears and marks are JSON already, and travel as texts. */
static void put_member(tide_json *json, const lake_try *c, int place, const tide_lake_digest *state)
{
    const tide_lake_commit_options *options = c->options;
    tide_json_object_begin(json);
    put_number(json, "place", place);
    put_number(json, "base", c->change->base);
    if (c->change->is_base_local) {
        put_number(json, "base_a", c->change->catalog.digest[0]);
        put_number(json, "base_b", c->change->catalog.digest[1]);
    }
    put_text(json, "fears", tide_buffer_text(&c->plan.fears));
    put_text(json, "marks", tide_buffer_text(&c->plan.leaves));
    put_text(json, "changes", tide_buffer_text(&c->plan.tokens));
    put_text(json, "key", c->key);
    put_text(json, "attempt", c->change->attempt);
    if (lake_try_pin(c))
        put_text(json, "pin", lake_try_pin(c));
    if (lake_try_asks(c))
        put_text(json, "asked", c->key);
    if (options) {
        put_text(json, "author", options->author);
        put_text(json, "message", options->message);
        put_text(json, "extra", options->extra);
        put_hash(json, options->request_hash);
    }
    put_number(json, "rows", c->plan.rows_added);
    put_number(json, "digest_a", (int64_t)state->sums[0]);
    put_number(json, "digest_b", (int64_t)state->sums[1]);
    tide_json_object_end(json);
}

static tide_status write_members(const group *g, const tide_lake_digest *digests, tide_buffer *out,
                                 tide_error *err)
{
    tide_json json;
    tide_json_init(&json, out);
    tide_json_array_begin(&json);
    for (int i = 0; i < g->count; i++)
        put_member(&json, g->members[i], i, &digests[i]);
    tide_json_array_end(&json);
    const tide_status status = tide_json_finish(&json);
    return status < TIDE_OK ? tide_fail(err, status, "too much for one group") : TIDE_OK;
}

static void tell_member(tide_query *query, void *arg)
{
    const group *g = arg;
    tide_combiner_pass(
        g->turn); /* committed, in order: the next group need not wait for the disk */
    const int64_t place = tide_query_col_i64(query);
    if (place < 0 || place >= g->count)
        return;
    g->members[place]->snapshot = tide_query_col_i64(query);
    g->members[place]->parent = tide_query_col_i64(query);
}

static tide_status publish_members(tide_tx *tx, group *g, const tide_lake_digest *digests,
                                   const tide_lake_change *const *changes, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer members = tide_buffer_of(GROUP_BYTES_MAX);
    TIDE_CLEANUP(lake_group_rows_done) lake_group_rows rows;
    lake_group_rows_init(&rows);
    TIDE_TRY(write_members(g, digests, &members, err));
    TIDE_TRY(lake_group_rows_write(&rows, changes, g->count, err));
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_GROUP_PUBLISH, err,
               tide_bind_i64("catalog_id", g->catalog_id),
               tide_bind_view("members", tide_buffer_view(&members)),
               tide_bind_view("files", tide_buffer_view(&rows.files)),
               tide_bind_view("stats", tide_buffer_view(&rows.stats)),
               tide_bind_view("sums", tide_buffer_view(&rows.sums)), tide_bind_clock("clock"));
    return tide_query_defer_rows(&query, tell_member, g, err);
}

static tide_status write_together(tide_tx *tx, void *arg, tide_error *err)
{
    group *g = arg;
    tide_lake_digest digests[TIDE_COMBINER_BATCH_MAX] = {{.sums = {0, 0}}};
    const tide_lake_change *changes[TIDE_COMBINER_BATCH_MAX];
    for (int i = 0; i < g->count; i++) {
        g->members[i]->runs++;
        g->members[i]->parent = TIDE_LAKE_UNANSWERED;
        changes[i] = g->members[i]->change;
    }
    TIDE_TRY(number_members(tx, g, digests, err));
    TIDE_TRY(tide_lake_hold_head(tx, g->catalog_id, &g->head, err));
    TIDE_TRY(lake_begin_stats_of(tx, changes, g->count, err));
    TIDE_TRY(publish_members(tx, g, digests, changes, err));
    TIDE_TRY(lake_write_partitions_of(tx, changes, g->count, err));
    TIDE_TRY(lake_write_digests_of(tx, changes, g->count, err));
    return lake_settle_bounds(tx, changes, g->count, err);
}

/* ---- the group ---- */

static void commit_members(tide_combiner_turn *turn, void **whats, int count)
{
    lake_try *members[TIDE_COMBINER_BATCH_MAX] = {NULL};
    assert(count > 0 && count <= TIDE_COMBINER_BATCH_MAX);
    for (int i = 0; i < count; i++)
        members[i] = whats[i];
    group g = {.turn = turn,
               .members = members,
               .count = count,
               .catalog_id = members[0]->change->catalog.catalog_id};
    tide_error ignored; /* who goes alone finds the reason, or none */
    const tide_status status =
        tide_store_write(members[0]->change->store, write_together, &g, &ignored);
    if (status >= TIDE_OK)
        tide_lake_keep_ids(members[0]->change->lake, &g.left);
    for (int i = 0; i < count; i++) {
        lake_try *c = members[i];
        c->tries = 1;
        c->is_committed = status >= TIDE_OK && c->parent != TIDE_LAKE_UNANSWERED;
        if (status >= TIDE_OK || status == TIDE_E_OUTCOME_UNKNOWN)
            c->change->outcome = c->is_committed ? TIDE_LAKE_COMMITTED : TIDE_LAKE_UNKNOWN;
    }
}

bool lake_commit_together(lake_try *c)
{
    if (!is_plain(c))
        return false;
    tide_combiner_do(c->change->lake->crew, c->change->catalog.catalog_id, c, commit_members);
    return c->is_committed;
}
