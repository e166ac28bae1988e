/* commit_files.c - a commit's files: many rows of a kind travel as one JSON array. Deferred, as in commit_rows.c. */
#include "lake/change_parts.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { ROWS_BYTES_MAX = 48 << 20 };

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

static void put_file_words(tide_json *json, const lake_file *file, int64_t rows_before)
{
    put_number(json, "id", file->id);
    put_number(json, "table", file->table->is.seen.id);
    put_text(json, "path", file->file.path);
    put_number(json, "records", file->file.record_count);
    put_number(json, "bytes", file->file.file_size_bytes);
    put_number(json, "footer", file->file.footer_size);
    if (file->is_delete) {
        put_number(json, "file", file->data_file_id);
    } else {
        put_number(json, "row", rows_before + file->first_row);
        if (file->file.partition_id > 0)
            put_number(json, "partition", file->file.partition_id);
    }
}

static void put_file(tide_json *json, const lake_file *file)
{
    tide_json_object_begin(json);
    put_file_words(json, file, 0);
    tide_json_object_end(json);
}

static void put_stats(tide_json *json, const lake_file *file)
{
    for (int i = 0; i < file->file.stat_count; i++) {
        const tide_lake_column_stats *stats = &file->file.stats[i];
        tide_json_object_begin(json);
        put_number(json, "file", file->id);
        put_number(json, "table", file->table->is.seen.id);
        put_number(json, "column", stats->column_id);
        put_number(json, "bytes", stats->size_bytes);
        put_number(json, "values", stats->value_count - stats->null_count); /* as DuckLake counts */
        put_number(json, "nulls", stats->null_count);
        put_text(json, "min", stats->min_value);
        put_text(json, "max", stats->max_value);
        if (stats->has_nan_known) {
            tide_json_key(json, "nan");
            tide_json_bool(json, stats->contains_nan);
        }
        tide_json_object_end(json);
    }
}

static void put_partitions(tide_json *json, const lake_file *file)
{
    for (int i = 0; file->file.partition_values && i < file->table->partition.count; i++) {
        tide_json_object_begin(json);
        put_number(json, "file", file->id);
        put_number(json, "table", file->table->is.seen.id);
        put_number(json, "index", i);
        put_text(json, "value", file->file.partition_values[i]);
        tide_json_object_end(json);
    }
}

static void put_digest(tide_json *json, const lake_file *file)
{
    if (!file->file.sha256)
        return;
    tide_json_object_begin(json);
    put_number(json, "id", file->id);
    put_text(json, "sha256", file->file.sha256);
    tide_json_object_end(json);
}

typedef void put_fn(tide_json *json, const lake_file *file);

/* One statement for all of them, if there are any. */
static tide_status write_rows(tide_tx *tx, int64_t catalog_id, const tide_sql *sql, tide_json *json,
                              const tide_buffer *rows, tide_error *err)
{
    const tide_status status = tide_json_finish(json);
    if (status < TIDE_OK)
        return tide_fail(err, status, "too many files in one change: commit some first");
    if (rows->len <= 2)
        return TIDE_OK;
    return tide_tx_defer(tx, sql, err, tide_bind_i64("catalog_id", catalog_id),
                         tide_bind_view("rows", tide_buffer_view(rows)));
}

/* Digests of data and delete files. */
tide_status lake_write_digests_of(tide_tx *tx, const tide_lake_change *const *changes, int count,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer rows = tide_buffer_of(ROWS_BYTES_MAX);
    tide_json json;
    tide_json_init(&json, &rows);
    tide_json_array_begin(&json);
    for (int i = 0; i < count; i++)
        for (const lake_file *file = changes[i]->files; file; file = file->next)
            if (file->table->is_there)
                put_digest(&json, file);
    tide_json_array_end(&json);
    const tide_status status = tide_json_finish(&json);
    if (status < TIDE_OK)
        return tide_fail(err, status, "too many files in one change: commit some first");
    if (rows.len <= 2)
        return TIDE_OK;
    return tide_tx_defer(tx, TIDE_LAKE_SQL_LAKE_ADD_FILE_DIGESTS, err,
                         tide_bind_view("rows", tide_buffer_view(&rows)));
}

/* The files of a kind, of several changes. */
static tide_status write_array(tide_tx *tx, const tide_lake_change *const *changes, int count,
                               const tide_sql *sql, bool of_deletes, put_fn *put, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer rows = tide_buffer_of(ROWS_BYTES_MAX);
    tide_json json;
    tide_json_init(&json, &rows);
    tide_json_array_begin(&json);
    for (int i = 0; i < count; i++)
        for (const lake_file *file = changes[i]->files; file; file = file->next)
            if (file->table->is_there && file->is_delete == of_deletes)
                put(&json, file);
    tide_json_array_end(&json);
    return write_rows(tx, changes[0]->catalog.catalog_id, sql, &json, &rows, err);
}

static tide_status write_stats(tide_tx *tx, int64_t catalog_id, const lake_thing *table,
                               tide_error *err)
{
    return tide_tx_defer(
        tx, TIDE_LAKE_SQL_LAKE_STATS_STEP, err, tide_bind_i64("catalog_id", catalog_id),
        tide_bind_i64("table_id", table->is.seen.id), tide_bind_i64("records", table->records),
        tide_bind_i64("row_ids", table->row_ids), tide_bind_i64("bytes", table->bytes));
}

static bool has_stats(const lake_thing *thing)
{
    return thing->is_there && (thing->row_ids != 0 || thing->records != 0 || thing->bytes != 0);
}

/* A fork's first insert into an ancestor's table. */
static tide_status begin_stats(tide_tx *tx, int64_t catalog_id, const lake_thing *table,
                               tide_error *err)
{
    return tide_tx_defer(tx, TIDE_LAKE_SQL_LAKE_STATS_BEGIN, err,
                         tide_bind_i64("catalog_id", catalog_id),
                         tide_bind_i64("table_id", table->is.seen.id));
}

static tide_status begin_fork_stats(tide_tx *tx, const tide_lake_change *change, tide_error *err)
{
    if (change->catalog.parent_id == 0)
        return TIDE_OK;
    for (const lake_thing *thing = change->things; thing; thing = thing->next)
        if (has_stats(thing) && thing->was_there)
            TIDE_TRY(begin_stats(tx, change->catalog.catalog_id, thing, err));
    return TIDE_OK;
}

tide_status lake_write_files(tide_tx *tx, const tide_lake_change *change, tide_error *err)
{
    const int64_t catalog_id = change->catalog.catalog_id;
    for (const lake_end *end = change->ends; end; end = end->next)
        if (end->table->is_there)
            TIDE_TRY(lake_end_row(tx, catalog_id, end->kind, end->id, 0, end->begin, end->owner_id,
                                  err));
    TIDE_TRY(begin_fork_stats(tx, change, err));
    TIDE_TRY(write_array(tx, &change, 1, TIDE_LAKE_SQL_LAKE_ADD_FILES, false, put_file, err));
    TIDE_TRY(write_array(tx, &change, 1, TIDE_LAKE_SQL_LAKE_ADD_FILE_STATS, false, put_stats, err));
    TIDE_TRY(write_array(tx, &change, 1, TIDE_LAKE_SQL_LAKE_ADD_FILE_PARTITIONS, false,
                         put_partitions, err));
    TIDE_TRY(write_array(tx, &change, 1, TIDE_LAKE_SQL_LAKE_ADD_DELETES, true, put_file, err));
    TIDE_TRY(lake_write_digests_of(tx, &change, 1, err));
    for (const lake_thing *thing = change->things; thing; thing = thing->next)
        if (has_stats(thing))
            TIDE_TRY(write_stats(tx, catalog_id, thing, err));
    return TIDE_OK;
}

/* ---- of several changes ---- */

static const lake_thing *table_in(const tide_lake_change *change, int64_t table_id)
{
    for (const lake_thing *thing = change->things; thing; thing = thing->next)
        if (thing->is.seen.kind == TIDE_LAKE_TABLE && thing->is.seen.id == table_id)
            return thing;
    return NULL;
}

/* Row ids that changes before this one take of a table. */
static int64_t rows_before(const tide_lake_change *const *changes, int place, int64_t table_id)
{
    int64_t rows = 0;
    for (int i = 0; i < place; i++) {
        const lake_thing *table = table_in(changes[i], table_id);
        rows += table ? table->row_ids : 0;
    }
    return rows;
}

void lake_group_rows_init(lake_group_rows *rows)
{
    tide_buffer_init(&rows->files, ROWS_BYTES_MAX);
    tide_buffer_init(&rows->stats, ROWS_BYTES_MAX);
    tide_buffer_init(&rows->sums, ROWS_BYTES_MAX);
}

void lake_group_rows_done(lake_group_rows *rows)
{
    tide_buffer_done(&rows->files);
    tide_buffer_done(&rows->stats);
    tide_buffer_done(&rows->sums);
}

static void put_sum(tide_json *json, const lake_thing *thing)
{
    tide_json_object_begin(json);
    put_number(json, "table", thing->is.seen.id);
    put_number(json, "records", thing->records);
    put_number(json, "row_ids", thing->row_ids);
    put_number(json, "bytes", thing->bytes);
    tide_json_object_end(json);
}

static void put_file_at(tide_json *json, const lake_file *file, int place,
                        const tide_lake_change *const *changes)
{
    tide_json_object_begin(json);
    put_number(json, "place", place);
    put_file_words(json, file, rows_before(changes, place, file->table->is.seen.id));
    tide_json_object_end(json);
}

tide_status lake_group_rows_write(lake_group_rows *rows, const tide_lake_change *const *changes,
                                  int count, tide_error *err)
{
    enum { FILES, STATS, SUMS, KINDS };
    tide_buffer *const buffers[KINDS] = {&rows->files, &rows->stats, &rows->sums};
    tide_json json[KINDS];
    for (int i = 0; i < KINDS; i++) {
        tide_json_init(&json[i], buffers[i]);
        tide_json_array_begin(&json[i]);
    }
    for (int i = 0; i < count; i++) {
        for (const lake_file *file = changes[i]->files; file; file = file->next) {
            put_file_at(&json[FILES], file, i, changes);
            put_stats(&json[STATS], file);
        }
        for (const lake_thing *thing = changes[i]->things; thing; thing = thing->next)
            if (has_stats(thing))
                put_sum(&json[SUMS], thing);
    }
    for (int i = 0; i < KINDS; i++) {
        tide_json_array_end(&json[i]);
        const tide_status status = tide_json_finish(&json[i]);
        if (status < TIDE_OK)
            return tide_fail(err, status, "too many files in one group");
    }
    return TIDE_OK;
}

tide_status lake_settle_bounds(tide_tx *tx, const tide_lake_change *const *changes, int count,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer ids = tide_buffer_of(ROWS_BYTES_MAX);
    tide_status status = tide_buffer_append_byte(&ids, '{');
    for (int i = 0; i < count; i++)
        for (const lake_file *file = changes[i]->files; file; file = file->next)
            if (file->table->is_there && !file->is_delete && status >= TIDE_OK)
                status = tide_buffer_printf(&ids, "%s%" PRId64, ids.len > 1 ? "," : "", file->id);
    const bool is_empty = ids.len <= 1;
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(&ids, '}');
    if (status < TIDE_OK)
        return tide_fail(err, status, "too many files in one change: commit some first");
    if (is_empty || tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    return tide_tx_defer(tx, TIDE_LAKE_SQL_LAKE_SETTLE_BOUNDS, err,
                         tide_bind_i64("catalog_id", changes[0]->catalog.catalog_id),
                         tide_bind_text("files", tide_buffer_text(&ids)));
}

tide_status lake_begin_stats_of(tide_tx *tx, const tide_lake_change *const *changes, int count,
                                tide_error *err)
{
    for (int i = 0; i < count; i++)
        TIDE_TRY(begin_fork_stats(tx, changes[i], err));
    return TIDE_OK;
}

tide_status lake_write_partitions_of(tide_tx *tx, const tide_lake_change *const *changes, int count,
                                     tide_error *err)
{
    return write_array(tx, changes, count, TIDE_LAKE_SQL_LAKE_ADD_FILE_PARTITIONS, false,
                       put_partitions, err);
}
