/* state_file.c - files of a table at a snapshot, pruned by statistics; what differs between two snapshots. */
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "lake/state_row.h"
#include "lake/type_order.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { WHOLE_PATH_MAX = 2 * TIDE_LAKE_PATH_MAX };

tide_status tide_lake_table_path(tide_tx *tx, int64_t table_id, char out[TIDE_LAKE_TEXT_SIZE],
                                 tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_TABLE_PATH, err,
                                           tide_bind_i64("table_id", table_id));
    out[0] = '\0';
    return status == TIDE_OK ? tide_lake_copy(out, TIDE_LAKE_TEXT_SIZE, tide_query_col_text(query),
                                              "a table's path", err)
                             : status;
}

/* What a question needs of a file's statistics. */
typedef struct condition {
    int64_t column_id; /* 0: there is no condition */
    tide_lake_order order;
    const char *op;
    tide_view value;
} condition;

typedef struct listing {
    char table_path[TIDE_LAKE_TEXT_SIZE];
    tide_buffer path;
    tide_buffer delete_path;
    char sha256[TIDE_SHA256_TEXT_SIZE];
    char delete_sha256[TIDE_SHA256_TEXT_SIZE];
    tide_lake_file_seen file;
} listing;

static void listing_done(listing *list)
{
    tide_buffer_done(&list->path);
    tide_buffer_done(&list->delete_path);
}

static tide_status write_path(tide_buffer *out, const char *table_path, tide_view path,
                              bool is_relative, tide_error *err)
{
    tide_buffer_clear(out);
    tide_status status = TIDE_OK;
    if (is_relative && path.len > 0)
        status = tide_buffer_append_text(out, table_path);
    if (status >= TIDE_OK)
        status = tide_buffer_append_view(out, path);
    return status >= TIDE_OK ? TIDE_OK : tide_fail(err, status, "a file's path is too long");
}

static tide_status read_file(tide_query *query, listing *list, tide_error *err)
{
    tide_lake_file_seen *file = &list->file;
    file->data_file_id = tide_query_col_i64(query);
    file->owner_id = tide_query_col_i64(query);
    file->begin_snapshot = tide_query_col_i64(query);
    const tide_view path = tide_query_col_text(query);
    TIDE_TRY(write_path(&list->path, list->table_path, path, tide_query_col_bool(query), err));
    file->path = tide_buffer_text(&list->path);
    file->record_count = tide_query_col_i64(query);
    file->file_size_bytes = tide_query_col_i64(query);
    file->footer_size = tide_query_col_i64(query);
    file->row_id_start = tide_query_col_i64(query);
    file->partition_id = tide_query_col_i64(query);
    file->delete_file_id = tide_query_col_i64(query);
    file->delete_begin = tide_query_col_i64(query);
    file->delete_owner_id = tide_query_col_i64(query);
    const tide_view delete_path = tide_query_col_text(query);
    TIDE_TRY(write_path(&list->delete_path, list->table_path, delete_path,
                        tide_query_col_bool(query), err));
    file->delete_path = tide_buffer_text(&list->delete_path);
    file->delete_count = tide_query_col_i64(query);
    file->is_foreign = tide_query_col_bool(query);
    tide_view_copy(list->sha256, sizeof list->sha256, tide_query_col_text(query));
    tide_view_copy(list->delete_sha256, sizeof list->delete_sha256, tide_query_col_text(query));
    file->sha256 = list->sha256;
    file->delete_sha256 = list->delete_sha256;
    return TIDE_OK;
}

/* Could a value of this file be `op` the condition's? Only what is certain excludes. */
static bool may_hold(tide_query *query, const condition *want)
{
    const bool has_min = !tide_query_col_is_null(query);
    const tide_view min = tide_query_col_text(query);
    const bool has_max = !tide_query_col_is_null(query);
    const tide_view max = tide_query_col_text(query);
    const bool has_counts = !tide_query_col_is_null(query);
    const int64_t values = tide_query_col_i64(query);
    const bool has_nulls = !tide_query_col_is_null(query);
    const int64_t nulls = tide_query_col_i64(query);
    if (has_counts && has_nulls && values == 0 && nulls > 0 && !has_min)
        return false; /* nothing but NULLs */
    int sign = 0;
    const bool is_upward = want->op[0] == '>';
    const bool is_open = want->op[1] != '=' && want->op[0] != '=';
    if ((is_upward || want->op[0] == '=') && has_max &&
        tide_lake_compare(want->order, max, want->value, &sign) &&
        (sign < 0 || (sign == 0 && is_open)))
        return false;
    return !((!is_upward || want->op[0] == '=') && has_min &&
             tide_lake_compare(want->order, min, want->value, &sign) &&
             (sign > 0 || (sign == 0 && is_open)));
}

static tide_status each_file(tide_tx *tx, int64_t catalog_id, int64_t snapshot, int64_t table_id,
                             const condition *want, tide_lake_file_fn *fn, void *arg,
                             tide_error *err)
{
    TIDE_CLEANUP(listing_done) listing list = {.table_path = ""};
    tide_buffer_init(&list.path, WHOLE_PATH_MAX);
    tide_buffer_init(&list.delete_path, WHOLE_PATH_MAX);
    TIDE_TRY(tide_lake_table_path(tx, table_id, list.table_path, err));
    TIDE_QUERY(query, tx,
               want->column_id > 0 ? TIDE_LAKE_SQL_LAKE_FILE_LIST_STATS
                                   : TIDE_LAKE_SQL_LAKE_FILE_LIST,
               err, tide_bind_i64("catalog_id", catalog_id), tide_bind_i64("snapshot", snapshot),
               tide_bind_i64("table_id", table_id),
               TIDE_BIND_IF(want->column_id > 0, tide_bind_i64("column_id", want->column_id)));
    TIDE_EACH(tide_query_step(query, err)) {
        TIDE_TRY(read_file(query, &list, err));
        if (want->column_id == 0 || may_hold(query, want))
            TIDE_TRY(fn(arg, &list.file, err));
    }
    return TIDE_OK;
}

tide_status tide_lake_each_file(tide_tx *tx, int64_t catalog_id, int64_t snapshot, int64_t table_id,
                                tide_lake_file_fn *fn, void *arg, tide_error *err)
{
    const condition all = {.column_id = 0};
    return each_file(tx, catalog_id, snapshot, table_id, &all, fn, arg, err);
}

tide_status tide_lake_each_file_where(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                      int64_t table_id, const tide_lake_column *column,
                                      const char *op, const char *value, tide_lake_file_fn *fn,
                                      void *arg, tide_error *err)
{
    static const char *const ops[] = {"=", "<", "<=", ">", ">="};
    const condition want = {.column_id = column->id,
                            .order = tide_lake_type_order(column->type),
                            .op = op,
                            .value = tide_view_of(value)};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(op, ops[i]) == 0)
            return each_file(tx, catalog_id, snapshot, table_id, &want, fn, arg, err);
    return tide_fail(err, TIDE_E_INVALID, "'%.10s' is not one of =, <, <=, >, >=", op);
}

/* ---- differences ---- */

static tide_status each_side(tide_tx *tx, int64_t catalog_id, int64_t a, int64_t b, char sign,
                             tide_lake_difference_fn *fn, void *arg, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_DIFF, err, tide_bind_i64("catalog_id", catalog_id),
               tide_bind_i64("a", a), tide_bind_i64("b", b));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer name = tide_buffer_of(WHOLE_PATH_MAX);
    TIDE_EACH(tide_query_step(query, err)) {
        tide_lake_difference row = {.sign = sign,
                                    .kind = (tide_lake_kind)tide_query_col_i64(query)};
        row.id = tide_query_col_i64(query);
        row.table_id = tide_query_col_i64(query);
        TIDE_TRY(write_path(&name, "", tide_query_col_text(query), false, err));
        row.name = tide_buffer_text(&name);
        row.records = tide_query_col_i64(query);
        TIDE_TRY(fn(arg, &row, err));
    }
    return TIDE_OK;
}

tide_status tide_lake_diff(tide_tx *tx, int64_t catalog_id, int64_t a, int64_t b,
                           tide_lake_difference_fn *fn, void *arg, tide_error *err)
{
    TIDE_TRY(each_side(tx, catalog_id, b, a, '-', fn, arg, err));
    return each_side(tx, catalog_id, a, b, '+', fn, arg, err);
}
