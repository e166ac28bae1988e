#include "replica/repair.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { KEYS_BYTES_MAX = 64 << 20, LEAF_ROWS = 1000 };

/* ---- a node of this process ---- */

static tide_status local_split(void *arg, const char *table, uint64_t schema,
                               const tide_range *range, int parts, tide_range_fn *fn, void *fn_arg,
                               tide_error *err)
{
    return tide_node_split(arg, table, schema, range, parts, fn, fn_arg, err);
}

static tide_status local_states(void *arg, const char *table, uint64_t schema,
                                const tide_view *keys, int count, size_t max_bytes,
                                tide_row_states *out, tide_error *err)
{
    return tide_node_row_states(arg, table, schema, keys, count, max_bytes, out, err);
}

static tide_status local_merge(void *arg, const char *table, uint64_t schema,
                               const tide_row_states *theirs, tide_repaired *out, tide_error *err)
{
    return tide_node_merge_states(arg, table, schema, theirs, out, err);
}

tide_repair_peer tide_repair_of_node(tide_node *node, const char *name)
{
    return (tide_repair_peer){.arg = node,
                              .name = name,
                              .split = local_split,
                              .states = local_states,
                              .merge = local_merge};
}

/* ---- parts of a range, kept ---- */

typedef struct part {
    size_t end_offset; /* of its end, in keys */
    size_t end_len;
    int64_t rows;
    uint8_t digest[16];
} part;

typedef struct parts {
    tide_buffer keys;
    part of[TIDE_RANGE_PARTS];
    int count;
} parts;

static void parts_freep(parts **p)
{
    if (!*p)
        return;
    tide_buffer_done(&(*p)->keys);
    free(*p);
}

static tide_status keep_part(void *arg, const tide_range_digest *given, tide_error *err)
{
    parts *p = arg;
    if (p->count == TIDE_RANGE_PARTS)
        return tide_fail(err, TIDE_E_INVALID, "more than %d ranges came", TIDE_RANGE_PARTS);
    part *to = &p->of[p->count];
    *to = (part){.end_offset = p->keys.len, .end_len = given->end.len, .rows = given->rows};
    memcpy(to->digest, given->digest, sizeof to->digest);
    if (tide_buffer_append_view(&p->keys, given->end) < TIDE_OK)
        return tide_fail(err, TIDE_E_LIMIT, "keys of ranges take more than %d bytes",
                         KEYS_BYTES_MAX);
    p->count++;
    return TIDE_OK;
}

static tide_view end_of(const parts *p, int index)
{
    const part *of = &p->of[index];
    return of->end_len > 0 ? tide_view_bytes(p->keys.ptr + of->end_offset, of->end_len)
                           : (tide_view){.len = 0};
}

/* ---- the work ---- */

typedef struct healing {
    tide_node *here;
    tide_repair_peer *there;
    const char *table;
    uint64_t schema;
    const tide_repair_options *options;
    tide_repair_result *result;
    tide_arena arena; /* of keys */
    tide_view keys[TIDE_REPAIR_KEYS];
    int key_count;
} healing;

static tide_status check_over(const healing *h, tide_error *err)
{
    if (h->options->is_over && h->options->is_over(h->options->arg))
        return tide_fail(err, TIDE_E_INTERRUPTED, "the comparison was interrupted");
    return TIDE_OK;
}

static void add_repaired(tide_repaired *sum, const tide_repaired *turn)
{
    sum->rows += turn->rows;
    sum->newer += turn->newer;
    sum->chosen += turn->chosen;
    sum->restored += turn->restored;
    sum->captured += turn->captured;
    sum->conflicts += turn->conflicts;
    sum->refused += turn->refused;
}

/* Both tell before either takes anything, so that both see the same two states, and choose alike. */
static tide_status heal_some(healing *h, const tide_view *keys, int count, int *done,
                             tide_error *err)
{
    tide_repaired turn = {.rows = 0};
    TIDE_CLEANUP(tide_row_states_done) tide_row_states ours;
    TIDE_CLEANUP(tide_row_states_done) tide_row_states theirs;
    tide_row_states_init(&ours);
    tide_row_states_init(&theirs);
    TIDE_TRY(h->there->states(h->there->arg, h->table, h->schema, keys, count, TIDE_REPAIR_BYTES,
                              &theirs, err));
    if (theirs.count < 1 || theirs.count > count)
        return tide_fail(err, TIDE_E_INVALID, "%s was asked for %d rows and told of %d",
                         h->there->name, count, theirs.count);
    for (int i = 0; i < theirs.count; i++)
        if (!tide_view_equal(theirs.rows[i].key, keys[i]))
            return tide_fail(err, TIDE_E_INVALID, "%s told of another row than it was asked for",
                             h->there->name);
    TIDE_TRY(tide_node_row_states(h->here, h->table, h->schema, keys, theirs.count,
                                  TIDE_REPAIR_BYTES, &ours, err));
    while (theirs.count > ours.count)
        theirs.count--;
    TIDE_TRY(h->there->merge(h->there->arg, h->table, h->schema, &ours, &turn, err));
    add_repaired(&h->result->there, &turn);
    theirs.is_again = h->options->is_again;
    TIDE_TRY(tide_node_merge_states(h->here, h->table, h->schema, &theirs, &turn, err));
    add_repaired(&h->result->here, &turn);
    *done = ours.count;
    return TIDE_OK;
}

static tide_status flush(healing *h, tide_error *err)
{
    for (int i = 0; h->options->is_repairing && i < h->key_count;) {
        int done = 0;
        TIDE_TRY(check_over(h, err));
        TIDE_TRY(heal_some(h, h->keys + i, h->key_count - i, &done, err));
        i += done;
    }
    h->key_count = 0;
    tide_arena_reset(&h->arena);
    return TIDE_OK;
}

static tide_status add_key(healing *h, tide_view key, tide_error *err)
{
    if (h->key_count == TIDE_REPAIR_KEYS)
        TIDE_TRY(flush(h, err));
    const char *copy = tide_arena_copy(&h->arena, key.ptr, key.len);
    TIDE_NEED_MEMORY(copy, err);
    h->keys[h->key_count++] = tide_view_bytes(copy, key.len);
    h->result->differing++;
    return h->options->found ? h->options->found(h->options->arg, h->table, key, err) : TIDE_OK;
}

/* ---- the smallest ranges: at most one row there, any number here ---- */

typedef struct leaf {
    tide_buffer keys; /* varint length, key, ... of rows here that are not the same there */
    tide_buffer last; /* the last one that was looked at */
    int seen;
    tide_view other; /* key of the row there; empty: none */
    uint8_t other_digest[16];
    bool is_met;  /* the row there is the same here */
    bool is_here; /* a row of its key is here */
} leaf;

static void leaf_done(leaf *l)
{
    tide_buffer_done(&l->keys);
    tide_buffer_done(&l->last);
}

static tide_status look_at_row(void *arg, const tide_range_digest *row, tide_error *err)
{
    leaf *l = arg;
    l->seen++;
    tide_buffer_clear(&l->last);
    tide_status status = tide_buffer_append_view(&l->last, row->end);
    if (l->other.len > 0 && tide_view_equal(l->other, row->end)) {
        l->is_here = true;
        l->is_met = memcmp(l->other_digest, row->digest, sizeof row->digest) == 0;
        if (l->is_met)
            return status;
    }
    if (status >= TIDE_OK)
        status = tide_buffer_append_varint(&l->keys, row->end.len);
    if (status >= TIDE_OK)
        status = tide_buffer_append_view(&l->keys, row->end);
    return status < TIDE_OK ? tide_fail(err, status, "keys of rows that differ") : TIDE_OK;
}

static tide_status add_keys(healing *h, const leaf *l, tide_error *err)
{
    tide_reader from = tide_reader_of(tide_buffer_view(&l->keys));
    while (tide_reader_left(&from) > 0) {
        uint64_t len = 0;
        tide_view key;
        if (tide_reader_varint(&from, &len) < TIDE_OK ||
            tide_reader_bytes(&from, (size_t)len, &key) < TIDE_OK)
            return tide_fail(err, TIDE_E_FAILED, "keys that were kept cannot be read");
        TIDE_TRY(add_key(h, key, err));
    }
    return TIDE_OK;
}

static tide_status heal_leaf(healing *h, const tide_range *range, const tide_view other,
                             const uint8_t digest[16], tide_error *err)
{
    TIDE_CLEANUP(leaf_done) leaf l = {.other = other};
    tide_range left = *range;
    tide_buffer_init(&l.keys, KEYS_BYTES_MAX);
    tide_buffer_init(&l.last, KEYS_BYTES_MAX);
    memcpy(l.other_digest, digest, sizeof l.other_digest);
    h->result->ranges++;
    do {
        l.seen = 0;
        tide_buffer_clear(&l.keys);
        TIDE_TRY(check_over(h, err));
        TIDE_TRY(tide_node_range_rows(h->here, h->table, h->schema, &left, LEAF_ROWS, look_at_row,
                                      &l, err));
        TIDE_TRY(add_keys(h, &l, err));
        left.after = tide_buffer_view(&l.last);
    } while (l.seen == LEAF_ROWS);
    return other.len > 0 && !l.is_here ? add_key(h, other, err) : TIDE_OK;
}

/* ---- ranges ---- */

static tide_status ask_parts(parts **out, healing *h, const tide_range *range, tide_error *err)
{
    TIDE_NEW(parts, p, err);
    *out = p;
    tide_buffer_init(&p->keys, KEYS_BYTES_MAX);
    h->result->questions++;
    TIDE_TRY(h->there->split(h->there->arg, h->table, h->schema, range, TIDE_RANGE_PARTS, keep_part,
                             p, err));
    for (int i = 0; i < p->count; i++)
        if ((p->of[i].rows > 0) != (p->of[i].end_len > 0) || (p->of[i].rows == 0 && p->count > 1))
            return tide_fail(err, TIDE_E_INVALID, "%s tells of ranges that cannot be",
                             h->there->name);
    if (p->count == 0)
        return tide_fail(err, TIDE_E_INVALID, "%s tells of no ranges", h->there->name);
    return TIDE_OK;
}

static tide_status heal_range(healing *h, const tide_range *range, int depth, tide_error *err);

static tide_status heal_part(healing *h, const tide_range *range, const parts *p, int index,
                             int depth, tide_error *err)
{
    const part *of = &p->of[index];
    tide_range_digest mine;
    TIDE_TRY(check_over(h, err));
    TIDE_TRY(tide_node_range(h->here, h->table, h->schema, range, &mine, err));
    if (depth == 0) {
        h->result->rows_here += mine.rows;
        h->result->rows_there += of->rows;
    }
    if (mine.rows == of->rows && memcmp(mine.digest, of->digest, sizeof mine.digest) == 0)
        return TIDE_OK;
    if (of->rows > 1 && depth < TIDE_REPAIR_DEPTH_MAX)
        return heal_range(h, range, depth + 1, err);
    return heal_leaf(h, range, of->rows == 1 ? end_of(p, index) : (tide_view){.len = 0}, of->digest,
                     err);
}

static tide_status heal_range(healing *h, const tide_range *range, int depth, tide_error *err)
{
    TIDE_CLEANUP(parts_freep) parts *p = NULL;
    TIDE_TRY(ask_parts(&p, h, range, err));
    assert(p);
    for (int i = 0; i < p->count; i++) {
        const tide_range inner = {.after = i == 0 ? range->after : end_of(p, i - 1),
                                  .through = i == p->count - 1 ? range->through : end_of(p, i)};
        TIDE_TRY(heal_part(h, &inner, p, i, depth, err));
    }
    return TIDE_OK;
}

/* ---- a table ---- */

typedef struct schema_call {
    const char *table;
    uint64_t schema;
} schema_call;

static tide_status find_schema(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    schema_call *call = arg;
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    const tide_status status = tide_table_find(&table, tx, call->table, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "table '%s' is not tracked here", call->table);
    call->schema = table.schema;
    return TIDE_OK;
}

static void healing_done(healing *h)
{
    tide_arena_done(&h->arena);
}

tide_status tide_repair_table(tide_node *here, tide_repair_peer *there, const char *table,
                              const tide_repair_options *options, tide_repair_result *out,
                              tide_error *err)
{
    const tide_range all = {.after = {.len = 0}};
    schema_call call = {.table = table};
    *out = (tide_repair_result){.rows_here = 0};
    TIDE_CLEANUP(healing_done)
    healing h = {.here = here, .there = there, .table = table, .options = options, .result = out};
    tide_arena_init(&h.arena, KEYS_BYTES_MAX);
    TIDE_TRY(tide_foreign_read(tide_node_file(here), find_schema, &call, err));
    h.schema = call.schema;
    TIDE_TRY(heal_range(&h, &all, 0, err));
    return flush(&h, err);
}
