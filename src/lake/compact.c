/* compact.c - one step of compaction, and all of them; see compact.h. */
#include "lake/compact.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "lake/catalog.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- which files ---- */

enum { SMALL_SHARE = 4 }; /* a file is small below the target by this */

/* A run of small files of one partition, as it grows along the list. */
typedef struct run {
    int count;
    int64_t bytes;
} run;

static bool is_half_deleted(const tide_lake_file_seen *file)
{
    return file->delete_file_id != 0 && 2 * file->delete_count >= file->record_count;
}

static bool is_small(const tide_lake_file_seen *file, int64_t target_bytes)
{
    return file->file_size_bytes < target_bytes / SMALL_SHARE;
}

/* The run that begins with a file: neighbours in its partition, until one is not small, the target is reached or there are enough. */
static int grow(const tide_lake_file_seen *files, const uint64_t *partitions, int count, int first,
                const tide_lake_compact_options *options, int *which)
{
    run r = {0};
    for (int i = first; i < count && r.count < options->files_most; i++) {
        if (partitions[i] != partitions[first])
            continue; /* not a neighbour of this partition */
        if (!is_small(&files[i], options->target_bytes) ||
            r.bytes + files[i].file_size_bytes > options->target_bytes)
            break;
        which[r.count++] = i;
        r.bytes += files[i].file_size_bytes;
    }
    return r.count;
}

int tide_lake_compact_choose(const tide_lake_file_seen *files, const uint64_t *partitions,
                             int count, const tide_lake_compact_options *options, int *which)
{
    for (int i = 0; i < count; i++) {
        if (is_small(&files[i], options->target_bytes)) {
            const int found = grow(files, partitions, count, i, options, which);
            if (found >= options->files_least)
                return found;
        }
        if (is_half_deleted(&files[i])) {
            which[0] = i;
            return 1;
        }
    }
    return 0;
}

#define TARGET_BYTES (INT64_C(128) << 20)
#define LEASE_US INT64_C(600000000)

enum { FILES_LEAST = 4, FILES_MOST = 200, TABLE_TRIES = 3 };

static tide_lake_compact_options fill_in(const tide_lake_compact_options *given)
{
    tide_lake_compact_options o = given ? *given : (tide_lake_compact_options){0};
    o.target_bytes = o.target_bytes > 0 ? o.target_bytes : TARGET_BYTES;
    o.files_least = o.files_least > 1 ? o.files_least : FILES_LEAST;
    o.files_most = o.files_most > 1 ? o.files_most : FILES_MOST;
    o.lease_us = o.lease_us > 0 ? o.lease_us : LEASE_US;
    o.holder = o.holder ? o.holder : "compaction";
    return o;
}

/* A step under way. */
typedef struct step {
    tide_lake *lake;
    tide_lake_data *data;
    tide_lake_compact_options options;
    tide_lake_change *change;
    tide_lake_table_seen table;
    char lease_name[64];
    tide_lease lease;
    bool has_lease;
    tide_lake_pin pin;
    bool has_pin;
    tide_lake_files files; /* of the table, at the base */
    uint64_t *partitions;
    int *which;
    tide_lake_files group; /* borrows from files */
    tide_lake_written written;
} step;

/* ---- lease and pin ---- */

static tide_status claim(tide_tx *tx, void *arg, tide_error *err)
{
    step *s = arg;
    return tide_lease_claim(tx, s->lease_name, s->options.holder, s->options.lease_us, &s->lease,
                            err);
}

static tide_status release(tide_tx *tx, void *arg, tide_error *err)
{
    const step *s = arg;
    return tide_lease_release(tx, s->lease_name, s->lease.token, err);
}

static void step_done(step *s)
{
    tide_error ignored;
    /* Files of a commit that may be there are not ours to remove; if it is not, cleanup finds them. */
    if (s->written.count > 0 && tide_lake_change_outcome(s->change) == TIDE_LAKE_REFUSED)
        tide_lake_written_discard(s->data, &s->table.table, &s->written);
    if (s->has_pin)
        TIDE_IGNORE(tide_lake_pin_release(s->lake, &s->pin, &ignored));
    if (s->has_lease)
        TIDE_IGNORE(tide_store_write(tide_lake_store(s->lake), release, s, &ignored));
    tide_lake_written_done(&s->written);
    tide_lake_files_done(&s->files);
    free(s->group.all);
    free(s->partitions);
    free(s->which);
    tide_lake_table_done(&s->table);
    tide_lake_drop_change(s->change);
}

/* TIDE_NONE: another has it. */
static tide_status take_lease(step *s, tide_error *err)
{
    (void)snprintf(s->lease_name, sizeof s->lease_name, "lake/compact/%" PRId64, s->table.table.id);
    const tide_status status =
        tide_store_write_by_id(tide_lake_store(s->lake), claim, s, false, err);
    if (status == TIDE_E_CONFLICT)
        return TIDE_NONE;
    TIDE_TRY(status);
    s->has_lease = true;
    return TIDE_OK;
}

/* ---- which files ---- */

static int find_file(const step *s, int64_t id)
{
    int low = 0;
    int high = s->files.count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (s->files.all[middle].data_file_id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->files.count && s->files.all[low].data_file_id == id ? low : -1;
}

/* A number per partition: its id, and its values in turn. */
static tide_status read_partitions(step *s, tide_tx *tx, tide_error *err)
{
    for (int i = 0; i < s->files.count; i++)
        s->partitions[i] = (uint64_t)s->files.all[i].partition_id;
    if (s->table.partition.id == 0)
        return TIDE_OK;
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_COMPACT_VALUES, err,
               tide_bind_i64("table", s->table.table.id));
    TIDE_EACH(tide_query_step(query, err)) {
        const int at = find_file(s, tide_query_col_i64(query));
        const tide_digest128 value = tide_digest128_of(tide_query_col_text(query));
        uint64_t part = 0;
        memcpy(&part, value.bytes, sizeof part);
        if (at >= 0)
            s->partitions[at] = s->partitions[at] * UINT64_C(0x9E3779B97F4A7C15) + part;
    }
    return TIDE_OK;
}

static tide_status read_files(tide_tx *tx, void *arg, tide_error *err)
{
    step *s = arg;
    tide_lake_files_done(&s->files);
    s->files = (tide_lake_files){0};
    TIDE_TRY(tide_lake_files_read(tx, tide_lake_change_catalog(s->change)->catalog_id,
                                  tide_lake_change_base(s->change), s->table.table.id, &s->files,
                                  err));
    free(s->partitions);
    free(s->which);
    s->partitions = calloc((size_t)s->files.count + 1, sizeof *s->partitions);
    s->which = calloc((size_t)s->files.count + 1, sizeof *s->which);
    TIDE_NEED_MEMORY(s->partitions && s->which, err);
    return read_partitions(s, tx, err);
}

/* TIDE_NONE: nothing is worth it. */
static tide_status choose_group(step *s, tide_error *err)
{
    TIDE_TRY(tide_store_read(tide_lake_store(s->lake), read_files, s, err));
    const int count = tide_lake_compact_choose(s->files.all, s->partitions, s->files.count,
                                               &s->options, s->which);
    if (count == 0)
        return TIDE_NONE;
    TIDE_ALLOC(s->group.all, (size_t)count, err);
    s->group.count = count;
    for (int i = 0; i < count; i++)
        s->group.all[i] = s->files.all[s->which[i]];
    return TIDE_OK;
}

/* ---- a step ---- */

static tide_status commit_group(step *s, tide_lake_compacted *out, tide_error *err)
{
    TIDE_TRY(tide_lake_rewrite(s->data, &s->table, &s->group, &s->written, err));
    TIDE_TRY(tide_lake_compact_files(s->change, s->table.table.id, s->group.all, s->group.count,
                                     s->written.files, s->written.count, err));
    const tide_lake_commit_options options = {.pin_id = s->pin.id,
                                              .author = s->options.holder,
                                              .message = "small files became larger ones"};
    tide_lake_committed committed;
    const tide_status status = tide_lake_commit(s->change, &options, &committed, err);
    if (status == TIDE_E_CONFLICT || status == TIDE_E_NOT_FOUND || status == TIDE_E_LEASE_LOST) {
        out->conflicts++;
        return TIDE_NONE;
    }
    TIDE_TRY(status);
    out->steps++;
    out->files_before += s->group.count;
    out->files_after += s->written.count;
    out->rows += s->written.rows;
    return TIDE_OK;
}

tide_status tide_lake_compact_step(tide_lake *lake, tide_lake_data *data, const char *catalog,
                                   const char *schema, const char *table,
                                   const tide_lake_compact_options *options,
                                   tide_lake_compacted *out, tide_error *err)
{
    TIDE_CLEANUP(step_done) step s = {.lake = lake, .data = data, .options = fill_in(options)};
    TIDE_TRY(tide_lake_begin(&s.change, lake, catalog, 0, err));
    TIDE_TRY(tide_lake_change_table(s.change, schema, table, &s.table, err));
    tide_status status = choose_group(&s, err);
    if (status != TIDE_OK)
        return status;
    status = take_lease(&s, err);
    if (status == TIDE_NONE)
        out->busy++;
    if (status != TIDE_OK)
        return status;
    TIDE_TRY(tide_lake_pin_take(lake, tide_lake_change_catalog(s.change)->catalog_id,
                                tide_lake_change_base(s.change), s.options.holder,
                                s.options.lease_us, &s.pin, err));
    s.has_pin = true;
    return commit_group(&s, out, err);
}

/* ---- all tables ---- */

typedef struct table_search {
    const char *catalog;
    int64_t after;
    char schema[TIDE_LAKE_NAME_MAX + 1];
    char table[TIDE_LAKE_NAME_MAX + 1];
} table_search;

static void copy_name(char out[TIDE_LAKE_NAME_MAX + 1], tide_view name)
{
    (void)snprintf(out, TIDE_LAKE_NAME_MAX + 1, "%.*s", (int)name.len,
                   name.len > 0 ? name.ptr : "");
}

static tide_status next_table(tide_tx *tx, void *arg, tide_error *err)
{
    table_search *search = arg;
    tide_lake_catalog catalog;
    TIDE_TRY(tide_lake_find_catalog(tx, search->catalog, &catalog, err));
    TIDE_QUERY_ONE(query, tx, TIDE_LAKE_SQL_COMPACT_TABLES, err,
                   tide_bind_i64("catalog", catalog.catalog_id),
                   tide_bind_i64("snapshot", catalog.head), tide_bind_i64("after", search->after));
    search->after = tide_query_col_i64(query);
    copy_name(search->schema, tide_query_col_text(query));
    copy_name(search->table, tide_query_col_text(query));
    return TIDE_OK;
}

/* Until nothing is worth it. Somebody who is always faster is let go after a few tries. */
static tide_status compact_table(tide_lake *lake, tide_lake_data *data, const table_search *at,
                                 const tide_lake_compact_options *options, tide_lake_compacted *out,
                                 tide_error *err)
{
    for (int tries = 0; tries < TABLE_TRIES;) {
        const int64_t conflicts = out->conflicts;
        const tide_status status = tide_lake_compact_step(lake, data, at->catalog, at->schema,
                                                          at->table, options, out, err);
        if (status == TIDE_E_NOT_FOUND)
            return TIDE_OK; /* dropped or renamed meanwhile */
        TIDE_TRY(status);
        if (status == TIDE_NONE && out->conflicts == conflicts)
            return TIDE_OK;
        tries += out->conflicts > conflicts;
    }
    return TIDE_OK;
}

tide_status tide_lake_compact(tide_lake *lake, tide_lake_data *data, const char *catalog,
                              const tide_lake_compact_options *options, tide_lake_compacted *out,
                              tide_error *err)
{
    table_search search = {.catalog = catalog};
    for (;;) {
        const int64_t before = search.after;
        const tide_status status =
            tide_store_read_local(tide_lake_store(lake), next_table, &search, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE || search.after == before)
            return TIDE_OK;
        TIDE_TRY(compact_table(lake, data, &search, options, out, err));
    }
}
