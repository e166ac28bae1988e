/* commit_plan.c - what a change comes to: marks, tokens, the state's digest. */
#include "lake/change_parts.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/mark.h"

enum { PLAN_BYTES_MAX = 8 << 20 };

/* ---- differences ---- */

const tide_lake_column_row *lake_column_of(const tide_lake_column_row *columns, int count,
                                           int64_t id)
{
    for (int i = 0; i < count; i++)
        if (columns[i].seen.id == id)
            return &columns[i];
    return NULL;
}

bool lake_column_changed(const tide_lake_column_row *was, const tide_lake_column_row *is)
{
    return strcmp(was->seen.name, is->seen.name) != 0 ||
           strcmp(was->seen.type, is->seen.type) != 0 ||
           strcmp(was->seen.default_value, is->seen.default_value) != 0 ||
           was->seen.order != is->seen.order || was->seen.nulls_allowed != is->seen.nulls_allowed;
}

bool lake_thing_renamed(const lake_thing *thing)
{
    return thing->was_there && thing->is_there &&
           strcmp(thing->was.seen.name, thing->is.seen.name) != 0;
}

static bool is_view_altered(const lake_thing *thing)
{
    return thing->is.seen.kind == TIDE_LAKE_VIEW && thing->was_there && thing->is_there &&
           strcmp(thing->was.seen.sql, thing->is.seen.sql) != 0;
}

bool lake_table_altered(const lake_thing *thing)
{
    if (!thing->has_columns || !thing->was_there || !thing->is_there)
        return false;
    if (thing->partition_was.id != thing->partition.id ||
        thing->columns_were_count != thing->column_count)
        return true;
    for (int i = 0; i < thing->column_count; i++) {
        const tide_lake_column_row *was = lake_column_of(
            thing->columns_were, thing->columns_were_count, thing->columns[i].seen.id);
        if (!was || lake_column_changed(was, &thing->columns[i]))
            return true;
    }
    return false;
}

/* ---- marks and tokens ---- */

typedef struct planner {
    const tide_lake_change *change;
    lake_plan *plan;
    tide_error *err;
    bool is_anything;
} planner;

static tide_status add_deed(planner *p, tide_lake_act act, const lake_thing *thing,
                            int64_t object_id, const char *name)
{
    const tide_lake_deed deed = {.act = act,
                                 .schema_id = thing ? thing->is.seen.schema_id : 0,
                                 .object_id = object_id,
                                 .name = name};
    p->is_anything = true;
    TIDE_TRY(tide_lake_deed_leaves(&deed, &p->plan->leaves, p->err));
    return tide_lake_deed_fears(&deed, &p->plan->fears, p->err);
}

static tide_status append_quoted(tide_buffer *out, const char *name)
{
    TIDE_TRY(tide_buffer_append_byte(out, '"'));
    for (; *name; name++) {
        if (*name == '"')
            TIDE_TRY(tide_buffer_append_byte(out, '"'));
        TIDE_TRY(tide_buffer_append_byte(out, (uint8_t)*name));
    }
    return tide_buffer_append_byte(out, '"');
}

/* token:ID, or token:"schema"."name". */
static tide_status append_token(tide_buffer *out, const char *token, const lake_thing *thing,
                                bool is_named)
{
    TIDE_TRY(tide_buffer_printf(out, "%s%s:", out->len > 0 ? "," : "", token));
    if (!is_named)
        return tide_buffer_printf(out, "%" PRId64, thing->is.seen.id);
    if (thing->schema) {
        TIDE_TRY(append_quoted(out, thing->schema->is.seen.name));
        TIDE_TRY(tide_buffer_append_byte(out, '.'));
    }
    return append_quoted(out, thing->is.seen.name);
}

static tide_status add_token(planner *p, const char *token, const lake_thing *thing, bool is_named)
{
    const tide_status status = append_token(&p->plan->tokens, token, thing, is_named);
    return status < TIDE_OK
               ? tide_fail(p->err, status, "too many operations in one change: commit some first")
               : TIDE_OK;
}

static tide_status do_one(planner *p, tide_lake_act act, const char *token, const lake_thing *thing,
                          bool is_named)
{
    TIDE_TRY(add_deed(p, act, thing, thing->is.seen.id, is_named ? thing->is.seen.name : ""));
    return add_token(p, token, thing, is_named);
}

static tide_status plan_life(planner *p, const lake_thing *thing)
{
    static const struct {
        tide_lake_act create;
        const char *created;
        tide_lake_act drop;
        const char *dropped;
    } lives[] = {
        [TIDE_LAKE_SCHEMA] = {TIDE_LAKE_CREATE_SCHEMA, "created_schema", TIDE_LAKE_DROP_SCHEMA,
                              "dropped_schema"},
        [TIDE_LAKE_TABLE] = {TIDE_LAKE_CREATE_TABLE, "created_table", TIDE_LAKE_DROP_TABLE,
                             "dropped_table"},
        [TIDE_LAKE_VIEW] = {TIDE_LAKE_CREATE_VIEW, "created_view", TIDE_LAKE_DROP_VIEW,
                            "dropped_view"},
    };
    const tide_lake_kind kind = thing->is.seen.kind;
    if (thing->was_there == thing->is_there)
        return TIDE_OK;
    p->plan->schema_step = 1;
    if (thing->is_there)
        return do_one(p, lives[kind].create, lives[kind].created, thing, true);
    p->plan->has_drops = p->plan->has_drops || kind != TIDE_LAKE_SCHEMA;
    return do_one(p, lives[kind].drop, lives[kind].dropped, thing, false);
}

static tide_status plan_alteration(planner *p, const lake_thing *thing)
{
    const bool is_renamed = lake_thing_renamed(thing);
    const bool is_altered = lake_table_altered(thing) || is_view_altered(thing);
    if (!is_renamed && !is_altered)
        return TIDE_OK;
    p->plan->schema_step = 1;
    if (is_renamed)
        TIDE_TRY(add_deed(p, TIDE_LAKE_RENAME, thing, thing->is.seen.id, thing->is.seen.name));
    if (is_altered)
        TIDE_TRY(add_deed(p, TIDE_LAKE_ALTER, thing, thing->is.seen.id, ""));
    return add_token(p, thing->is.seen.kind == TIDE_LAKE_TABLE ? "altered_table" : "altered_view",
                     thing, false);
}

static tide_status plan_data(planner *p, const lake_thing *thing)
{
    if (!thing->is_there)
        return TIDE_OK;
    if (thing->has_inserts)
        TIDE_TRY(do_one(p, TIDE_LAKE_INSERT, "inserted_into_table", thing, false));
    if (thing->has_deletes)
        TIDE_TRY(do_one(p, TIDE_LAKE_DELETE, "deleted_from_table", thing, false));
    if (thing->has_compaction)
        /* Words that stock clients check a delete against; compacted_table is one that they read and never check. */
        TIDE_TRY(do_one(p, TIDE_LAKE_COMPACT,
                        thing->has_rewrite ? "rewrite_delete" : "merge_adjacent", thing, false));
    return TIDE_OK;
}

/* ---- the digest ---- */

static tide_status plan_row(planner *p, const tide_lake_object_row *row, bool is_begun)
{
    tide_lake_digest digest;
    TIDE_TRY(tide_lake_object_digest(row, &digest, p->err));
    if (is_begun)
        tide_lake_digest_add(&p->plan->digest, &digest);
    else
        tide_lake_digest_subtract(&p->plan->digest, &digest);
    return TIDE_OK;
}

static tide_status plan_columns(planner *p, const lake_thing *thing)
{
    tide_lake_digest digest;
    const int64_t id = thing->is.seen.id;
    for (int i = 0; i < thing->columns_were_count; i++) {
        const tide_lake_column_row *was = &thing->columns_were[i];
        const tide_lake_column_row *is =
            lake_column_of(thing->columns, thing->column_count, was->seen.id);
        if (is && !lake_column_changed(was, is))
            continue;
        TIDE_TRY(tide_lake_column_digest(id, was, &digest, p->err));
        tide_lake_digest_subtract(&p->plan->digest, &digest);
    }
    for (int i = 0; i < thing->column_count; i++) {
        const tide_lake_column_row *was = lake_column_of(
            thing->columns_were, thing->columns_were_count, thing->columns[i].seen.id);
        if (was && !lake_column_changed(was, &thing->columns[i]))
            continue;
        TIDE_TRY(tide_lake_column_digest(id, &thing->columns[i], &digest, p->err));
        tide_lake_digest_add(&p->plan->digest, &digest);
    }
    if (thing->partition_was.id == thing->partition.id)
        return TIDE_OK;
    if (thing->partition_was.id > 0) {
        TIDE_TRY(tide_lake_partition_digest(id, &thing->partition_was, &digest, p->err));
        tide_lake_digest_subtract(&p->plan->digest, &digest);
    }
    if (thing->partition.id > 0) {
        TIDE_TRY(tide_lake_partition_digest(id, &thing->partition, &digest, p->err));
        tide_lake_digest_add(&p->plan->digest, &digest);
    }
    return TIDE_OK;
}

/* Dropped tables and views are looked at under the lock. */
static tide_status plan_digest(planner *p, const lake_thing *thing)
{
    const bool is_schema = thing->is.seen.kind == TIDE_LAKE_SCHEMA;
    const bool is_changed = lake_thing_renamed(thing) || is_view_altered(thing);
    if (!thing->is_there)
        return is_schema && thing->was_there ? plan_row(p, &thing->was, false) : TIDE_OK;
    if (is_changed)
        TIDE_TRY(plan_row(p, &thing->was, false));
    if (is_changed || !thing->was_there)
        TIDE_TRY(plan_row(p, &thing->is, true));
    return thing->has_columns ? plan_columns(p, thing) : TIDE_OK;
}

static tide_status plan_files(planner *p)
{
    for (const lake_end *end = p->change->ends; end; end = end->next) {
        if (!end->table->is_there)
            continue;
        tide_lake_digest_subtract(&p->plan->digest, &end->digest);
        if (end->kind == TIDE_LAKE_DATA_FILE && !end->table->has_compaction)
            TIDE_TRY(add_deed(p, TIDE_LAKE_DELETE_FILE, NULL, end->id, ""));
    }
    for (const lake_file *file = p->change->files; file; file = file->next) {
        if (!file->table->is_there)
            continue;
        p->plan->file_count++;
        if (file->is_delete)
            TIDE_TRY(add_deed(p, TIDE_LAKE_DELETE_FILE, NULL, file->data_file_id, ""));
        else if (file->table->has_inserts)
            p->plan->rows_added += file->file.record_count;
    }
    return TIDE_OK;
}

static tide_status close_arrays(lake_plan *plan, tide_error *err)
{
    tide_status status = tide_buffer_append_byte(&plan->leaves, ']');
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(&plan->fears, ']');
    return status < TIDE_OK ? tide_fail(err, status, "too many operations in one change") : TIDE_OK;
}

static tide_status plan_all(planner *p)
{
    for (const lake_thing *thing = p->change->things; thing; thing = thing->next) {
        TIDE_TRY(plan_life(p, thing));
        TIDE_TRY(plan_alteration(p, thing));
        TIDE_TRY(plan_data(p, thing));
        TIDE_TRY(plan_digest(p, thing));
    }
    return plan_files(p);
}

/* Behind the bracket, so that marks know whether they are the first. */
static tide_status open_array(tide_buffer *buffer, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer inside = *buffer;
    tide_buffer_init(buffer, PLAN_BYTES_MAX);
    tide_status status = tide_buffer_append_byte(buffer, '[');
    if (status >= TIDE_OK)
        status = tide_buffer_append_view(buffer, tide_buffer_view(&inside));
    return tide_buffer_check(status, err);
}

tide_status lake_plan_make(const tide_lake_change *change, lake_plan *out, tide_error *err)
{
    memset(out, 0, sizeof *out);
    tide_buffer_init(&out->leaves, PLAN_BYTES_MAX);
    tide_buffer_init(&out->fears, PLAN_BYTES_MAX);
    tide_buffer_init(&out->tokens, PLAN_BYTES_MAX);
    planner p = {.change = change, .plan = out, .err = err};
    TIDE_TRY(plan_all(&p));
    if (!p.is_anything)
        return TIDE_NONE;
    TIDE_TRY(open_array(&out->leaves, err));
    TIDE_TRY(open_array(&out->fears, err));
    return close_arrays(out, err);
}

void lake_plan_done(lake_plan *plan)
{
    tide_buffer_done(&plan->leaves);
    tide_buffer_done(&plan->fears);
    tide_buffer_done(&plan->tokens);
}

bool lake_change_only_deletes(const tide_lake_change *change)
{
    bool has_deletes = false;
    for (const lake_thing *thing = change->things; thing; thing = thing->next) {
        if (thing->was_there != thing->is_there || lake_thing_renamed(thing) ||
            lake_table_altered(thing) || is_view_altered(thing) || thing->has_inserts ||
            thing->has_compaction)
            return false;
        has_deletes = has_deletes || thing->has_deletes;
    }
    return has_deletes;
}
