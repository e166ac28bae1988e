/* change_file.c - operations on a table's files. */
#include "lake/change_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- the table, for who writes its files ---- */

tide_status tide_lake_change_table(tide_lake_change *change, const char *schema, const char *table,
                                   tide_lake_table_seen *out, tide_error *err)
{
    lake_thing *found = NULL;
    TIDE_TRY(lake_need_table(change, schema, table, &found, err));
    TIDE_TRY(lake_know_columns(change, found, err));
    tide_lake_column *columns = calloc((size_t)found->column_count + 1, sizeof *columns);
    TIDE_NEED_MEMORY(columns, err);
    for (int i = 0; i < found->column_count; i++)
        columns[i] = found->columns[i].seen;
    *out = (tide_lake_table_seen){.table = found->is.seen,
                                  .columns = columns,
                                  .column_count = found->column_count,
                                  .partition = found->partition};
    return TIDE_OK;
}

void tide_lake_table_done(tide_lake_table_seen *seen)
{
    free(seen->columns);
    seen->columns = NULL;
    seen->column_count = 0;
}

/* ---- copies ---- */

static tide_status check_file(const lake_thing *table, const tide_lake_new_file *file,
                              tide_error *err)
{
    const tide_view path = tide_view_of(file->path);
    if (path.len == 0 || path.len > TIDE_LAKE_PATH_MAX || path.ptr[0] == '/' ||
        !tide_utf8_valid(path) || strstr(file->path, "..") != NULL)
        return tide_fail(
            err, TIDE_E_INVALID,
            "'%.100s' is not a path below the directory of table %s (1 to %d bytes, not "
            "absolute, without '..')",
            file->path, table->is.seen.name, TIDE_LAKE_PATH_MAX);
    if (file->record_count < 0 || file->file_size_bytes < 0 || file->footer_size < 0)
        return tide_fail(err, TIDE_E_INVALID, "file %.100s: counts and sizes below 0", file->path);
    return TIDE_OK;
}

static tide_status check_stats(const lake_thing *table, const tide_lake_new_file *file,
                               tide_error *err)
{
    for (int i = 0; i < file->stat_count; i++)
        if (!lake_column_of(table->columns, table->column_count, file->stats[i].column_id))
            return tide_fail(err, TIDE_E_INVALID,
                             "file %.100s has statistics of column %" PRId64
                             ", which table %s does not have: read the table again",
                             file->path, file->stats[i].column_id, table->is.seen.name);
    if (file->partition_values && file->partition_id != table->partition.id)
        return tide_fail(err, TIDE_E_INVALID,
                         "file %.100s was written for partition %" PRId64 " of table %s, which has "
                         "%" PRId64 " now: write it again",
                         file->path, file->partition_id, table->is.seen.name, table->partition.id);
    return TIDE_OK;
}

static bool copy_text(tide_arena *memory, const char **text)
{
    if (*text)
        *text = tide_arena_text(memory, tide_view_of(*text));
    return *text != NULL;
}

static bool copy_stats(tide_arena *memory, tide_lake_new_file *file)
{
    if (file->stat_count == 0)
        return true;
    tide_lake_column_stats *stats =
        tide_arena_copy(memory, file->stats, (size_t)file->stat_count * sizeof *stats);
    if (!stats)
        return false;
    for (int i = 0; i < file->stat_count; i++) {
        const bool has_min = stats[i].min_value != NULL;
        const bool has_max = stats[i].max_value != NULL;
        if ((has_min && !copy_text(memory, &stats[i].min_value)) ||
            (has_max && !copy_text(memory, &stats[i].max_value)))
            return false;
    }
    file->stats = stats;
    return true;
}

static bool copy_values(tide_arena *memory, tide_lake_new_file *file, int count)
{
    if (!file->partition_values)
        return true;
    const char **values = tide_arena_alloc(memory, (size_t)count * sizeof *values);
    for (int i = 0; values && i < count; i++) {
        values[i] = file->partition_values[i]; /* NULL: the value is NULL */
        if (values[i] && !copy_text(memory, &values[i]))
            return false;
    }
    file->partition_values = values;
    return values != NULL;
}

static tide_status keep_file(tide_lake_change *change, lake_thing *table,
                             const tide_lake_new_file *file, lake_file **out, tide_error *err)
{
    lake_file *kept = tide_arena_alloc(&change->memory, sizeof *kept);
    if (!kept)
        return lake_fail_memory(change, err);
    *kept = (lake_file){.table = table, .file = *file};
    if (!copy_text(&change->memory, &kept->file.path) ||
        (file->sha256 && !copy_text(&change->memory, &kept->file.sha256)) ||
        !copy_stats(&change->memory, &kept->file) ||
        !copy_values(&change->memory, &kept->file, table->partition.count))
        return lake_fail_memory(change, err);
    if (change->last_file)
        change->last_file->next = kept;
    else
        change->files = kept;
    change->last_file = kept;
    *out = kept;
    return TIDE_OK;
}

static tide_status keep_data_file(tide_lake_change *change, lake_thing *table,
                                  const tide_lake_new_file *file, tide_error *err)
{
    lake_file *kept = NULL;
    TIDE_TRY(lake_know_columns(change, table, err));
    TIDE_TRY(check_file(table, file, err));
    TIDE_TRY(check_stats(table, file, err));
    TIDE_TRY(keep_file(change, table, file, &kept, err));
    assert(kept);
    kept->first_row = table->row_ids;
    table->row_ids += file->record_count;
    table->records += file->record_count;
    table->bytes += file->file_size_bytes;
    return TIDE_OK;
}

tide_status tide_lake_add_file(tide_lake_change *change, int64_t table_id,
                               const tide_lake_new_file *file, tide_error *err)
{
    lake_thing *table = NULL;
    TIDE_TRY(lake_need_table_id(change, table_id, &table, err));
    TIDE_TRY(keep_data_file(change, table, file, err));
    table->has_inserts = true;
    return TIDE_OK;
}

/* ---- what ends ---- */

typedef struct end_request {
    int64_t id;
    bool is_delete;
    tide_lake_digest digest;
    bool is_there;
} end_request;

/* Files never change: whenever it is read, this is what it adds to the state. */
static tide_status read_ending(tide_tx *tx, void *arg, tide_error *err)
{
    end_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx,
                                           request->is_delete ? TIDE_LAKE_SQL_LAKE_DELETE_GET
                                                              : TIDE_LAKE_SQL_LAKE_FILE_GET,
                                           err, tide_bind_i64("id", request->id));
    request->is_there = status == TIDE_OK;
    if (status != TIDE_OK)
        return status;
    tide_lake_file_row row = {.id = request->id, .table_id = tide_query_col_i64(query)};
    if (request->is_delete)
        row.data_file_id = tide_query_col_i64(query);
    row.path = tide_query_col_text(query);
    row.is_relative = tide_query_col_bool(query);
    row.records = tide_query_col_i64(query);
    row.bytes = tide_query_col_i64(query);
    if (request->is_delete)
        return tide_lake_delete_file_digest(&row, &request->digest, err);
    row.has_footer = !tide_query_col_is_null(query);
    row.footer = tide_query_col_i64(query);
    return tide_lake_data_file_digest(&row, &request->digest, err);
}

static tide_status keep_end(tide_lake_change *change, lake_thing *table, tide_lake_kind kind,
                            const lake_end *what, tide_error *err)
{
    for (const lake_end *end = change->ends; end; end = end->next)
        if (end->kind == kind && end->id == what->id)
            return tide_fail(err, TIDE_E_INVALID,
                             "file %" PRId64 " ends twice in one change: commit before you delete "
                             "from it again",
                             what->id);
    end_request request = {.id = what->id, .is_delete = kind == TIDE_LAKE_DELETE_FILE_KIND};
    TIDE_TRY(tide_store_read_local(change->store, read_ending, &request, err));
    if (!request.is_there)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "there is no file %" PRId64 ": read the table again", what->id);
    lake_end *end = tide_arena_copy(&change->memory, what, sizeof *what);
    if (!end)
        return lake_fail_memory(change, err);
    end->table = table;
    end->kind = kind;
    end->digest = request.digest;
    end->next = change->ends;
    change->ends = end;
    return TIDE_OK;
}

static tide_status end_delete_file(tide_lake_change *change, lake_thing *table,
                                   const tide_lake_file_seen *seen, tide_error *err)
{
    if (seen->delete_file_id == 0)
        return TIDE_OK;
    return keep_end(change, table, TIDE_LAKE_DELETE_FILE_KIND,
                    &(lake_end){.id = seen->delete_file_id,
                                .begin = seen->delete_begin,
                                .owner_id = seen->delete_owner_id},
                    err);
}

static tide_status end_data_file(tide_lake_change *change, lake_thing *table,
                                 const tide_lake_file_seen *seen, tide_error *err)
{
    return keep_end(change, table, TIDE_LAKE_DATA_FILE,
                    &(lake_end){.id = seen->data_file_id,
                                .begin = seen->begin_snapshot,
                                .owner_id = seen->owner_id},
                    err);
}

tide_status tide_lake_delete_rows(tide_lake_change *change, int64_t table_id,
                                  const tide_lake_file_seen *seen, const tide_lake_new_file *file,
                                  tide_error *err)
{
    lake_thing *table = NULL;
    lake_file *kept = NULL;
    TIDE_TRY(lake_need_table_id(change, table_id, &table, err));
    TIDE_TRY(lake_know_columns(change, table, err));
    if (file)
        TIDE_TRY(check_file(table, file, err));
    TIDE_TRY(end_delete_file(change, table, seen, err));
    if (!file) {
        TIDE_TRY(end_data_file(change, table, seen, err));
        table->has_deletes = true;
        return TIDE_OK;
    }
    tide_lake_new_file plain = *file;
    plain.stats = NULL;
    plain.stat_count = 0;
    plain.partition_values = NULL;
    TIDE_TRY(keep_file(change, table, &plain, &kept, err));
    assert(kept);
    kept->is_delete = true;
    kept->data_file_id = seen->data_file_id;
    table->has_deletes = true;
    return TIDE_OK;
}

tide_status tide_lake_compact_files(tide_lake_change *change, int64_t table_id,
                                    const tide_lake_file_seen *olds, int old_count,
                                    const tide_lake_new_file *files, int count, tide_error *err)
{
    lake_thing *table = NULL;
    int64_t rows = 0;
    TIDE_TRY(lake_need_table_id(change, table_id, &table, err));
    for (int i = 0; i < old_count; i++)
        rows += olds[i].record_count - olds[i].delete_count;
    for (int i = 0; i < old_count; i++)
        table->has_rewrite = table->has_rewrite || olds[i].delete_file_id > 0;
    for (int i = 0; i < count; i++)
        rows -= files[i].record_count;
    if (rows != 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "compaction of table %s must keep its rows, and %" PRId64
                         " %s: nothing was "
                         "changed",
                         table->is.seen.name, rows > 0 ? rows : -rows,
                         rows > 0 ? "are missing" : "are too many");
    for (int i = 0; i < old_count; i++) {
        TIDE_TRY(end_delete_file(change, table, &olds[i], err));
        TIDE_TRY(end_data_file(change, table, &olds[i], err));
        table->records -= olds[i].record_count;
        table->bytes -= olds[i].file_size_bytes;
    }
    for (int i = 0; i < count; i++)
        TIDE_TRY(keep_data_file(change, table, &files[i], err));
    table->has_compaction = true;
    return TIDE_OK;
}
