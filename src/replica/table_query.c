/* table_query.c - statements of a table, its values, and its log: see table.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "replica/table_text.h"
#include "tidemark_templates.h"

static const tide_template *find_template(tide_table_statement which)
{
    switch (which) {
    case TIDE_TABLE_ROW_GET:
        return TIDE_TEMPLATE_TABLE_ROW_GET;
    case TIDE_TABLE_ROW_PUT:
        return TIDE_TEMPLATE_TABLE_ROW_PUT;
    case TIDE_TABLE_ROW_SET:
        return TIDE_TEMPLATE_TABLE_ROW_SET;
    case TIDE_TABLE_ROW_DELETE:
        return TIDE_TEMPLATE_TABLE_ROW_DELETE;
    case TIDE_TABLE_ROW_WALK:
        return TIDE_TEMPLATE_TABLE_ROW_WALK;
    case TIDE_TABLE_ROW_WALK_FROM:
        return TIDE_TEMPLATE_TABLE_ROW_WALK_FROM;
    case TIDE_TABLE_ROW_WALK_ADDED:
        return TIDE_TEMPLATE_TABLE_ROW_WALK_ADDED;
    case TIDE_TABLE_ROW_ADDED:
        return TIDE_TEMPLATE_TABLE_ROW_ADDED;
    case TIDE_TABLE_DEFAULTS:
        return TIDE_TEMPLATE_TABLE_DEFAULTS;
    case TIDE_TABLE_ROW_FORCE:
        return TIDE_TEMPLATE_TABLE_ROW_FORCE;
    case TIDE_TABLE_ROW_TERMS:
        return TIDE_TEMPLATE_TABLE_ROW_TERMS;
    case TIDE_TABLE_ROW_RIVALS:
        return TIDE_TEMPLATE_TABLE_ROW_RIVALS;
    case TIDE_TABLE_FOREIGN_PARENT:
        return TIDE_TEMPLATE_TABLE_FOREIGN_PARENT;
    case TIDE_TABLE_FOREIGN_CHILDREN:
        return TIDE_TEMPLATE_TABLE_FOREIGN_CHILDREN;
    case TIDE_TABLE_FOREIGN_ORPHANS:
        return TIDE_TEMPLATE_TABLE_FOREIGN_ORPHANS;
    case TIDE_TABLE_COUNT:
        return TIDE_TEMPLATE_TABLE_COUNT;
    case TIDE_TABLE_COUNT_NAMELESS:
        return TIDE_TEMPLATE_TABLE_COUNT_NAMELESS;
    case TIDE_TABLE_LOG_READ:
        return TIDE_TEMPLATE_TABLE_LOG_READ;
    case TIDE_TABLE_LOG_CUT:
        return TIDE_TEMPLATE_TABLE_LOG_CUT;
    case TIDE_TABLE_LOG_ADD:
        return TIDE_TEMPLATE_TABLE_LOG_ADD;
    case TIDE_TABLE_LOG_PUT:
        return TIDE_TEMPLATE_TABLE_LOG_PUT;
    case TIDE_TABLE_LOG_FIRST:
        return TIDE_TEMPLATE_TABLE_LOG_FIRST;
    case TIDE_TABLE_LOG_IS_EMPTY:
        return TIDE_TEMPLATE_TABLE_LOG_IS_EMPTY;
    case TIDE_TABLE_GONE_READ:
        return TIDE_TEMPLATE_TABLE_GONE_READ;
    case TIDE_TABLE_GONE_CUT:
        return TIDE_TEMPLATE_TABLE_GONE_CUT;
    case TIDE_TABLE_STATEMENTS:
        break;
    }
    assert(false && "no such statement");
    return NULL;
}

static tide_status begin(tide_foreign_query **out, tide_foreign_tx *tx, const tide_table *table,
                         tide_table_statement which, const tide_table_fill *fill, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
    TIDE_TRY(tide_table_text(&text, table, find_template(which), fill, err));
    return tide_foreign_begin(out, tx, tide_buffer_text(&text), err);
}

/* Filling costs more than running: a table keeps the texts it has made. */
tide_status tide_table_query(tide_foreign_query **out, tide_foreign_tx *tx, const tide_table *table,
                             tide_table_statement which, tide_error *err)
{
    *out = NULL;
    if (table->texts && table->texts[which])
        return tide_foreign_begin(out, tx, table->texts[which], err);
    int all[TIDE_TABLE_COLUMNS_MAX];
    for (int i = 0; i < table->column_count; i++)
        all[i] = i;
    const tide_table_fill fill = {.some = all, .some_count = table->column_count};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
    TIDE_TRY(tide_table_text(&text, table, find_template(which), &fill, err));
    if (table->texts)
        table->texts[which] = strdup(tide_buffer_text(&text));
    return tide_foreign_begin(out, tx, tide_buffer_text(&text), err);
}

tide_status tide_table_query_at(tide_foreign_query **out, tide_foreign_tx *tx,
                                const tide_table *table, tide_table_statement which, int index,
                                tide_error *err)
{
    assert(index >= 0 && index < table->foreign_count);
    const tide_table_fill fill = {.foreign = index,
                                  .is_parent = which == TIDE_TABLE_FOREIGN_PARENT};
    *out = NULL;
    return begin(out, tx, table, which, &fill, err);
}

static bool is_of(const tide_table_some *some, const int *columns, int count)
{
    return some->text && some->count == count &&
           memcmp(some->columns, columns, (size_t)count * sizeof *columns) == 0;
}

/* Rows that follow each other mostly have the same columns written. Without memory nothing is kept. */
static void keep_text(tide_table_some *some, const char *text, const int *columns, int count)
{
    char *copy = strdup(text);
    int *list = calloc((size_t)count, sizeof *list);
    if (!copy || !list) {
        free(copy);
        free(list);
        return;
    }
    memcpy(list, columns, (size_t)count * sizeof *list);
    free(some->text);
    free(some->columns);
    *some = (tide_table_some){.text = copy, .columns = list, .count = count};
}

tide_status tide_table_query_some(tide_foreign_query **out, tide_foreign_tx *tx,
                                  const tide_table *table, tide_table_statement which,
                                  const int *columns, int count, tide_error *err)
{
    assert(count > 0);
    const tide_table_fill fill = {.some = columns, .some_count = count};
    *out = NULL;
    if (table->some && is_of(&table->some[which], columns, count))
        return tide_foreign_begin(out, tx, table->some[which].text, err);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
    TIDE_TRY(tide_table_text(&text, table, find_template(which), &fill, err));
    if (table->some)
        keep_text(&table->some[which], tide_buffer_text(&text), columns, count);
    return tide_foreign_begin(out, tx, tide_buffer_text(&text), err);
}

/* ---- values ---- */

void tide_table_bind(tide_foreign_query *query, char prefix, int index, const tide_sql_value *value)
{
    assert(prefix == 'k' || prefix == 'c');
    tide_foreign_bind_at(query, prefix == 'k' ? 1 + index : TIDE_TABLE_COLUMN_PARAM + index,
                         *value);
}

tide_sql_value tide_table_key_value(const tide_table *table, int column,
                                    const tide_sql_value *value)
{
    const tide_affinity affinity = table->columns[column].affinity;
    tide_sql_value made = *value;
    if (value->kind != TIDE_SQL_VALUE_F64)
        return made;
    if (value->f64 == 0)
        made.f64 = 0;
    if ((affinity == TIDE_AFFINITY_INTEGER || affinity == TIDE_AFFINITY_NUMERIC) &&
        value->f64 == (double)INT64_MIN)
        made = (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = INT64_MIN};
    return made;
}

void tide_table_print(uint8_t out[TIDE_TABLE_PRINT_LEN], const tide_sql_value *value)
{
    uint8_t fixed[1 + sizeof value->i64] = {(uint8_t)value->kind};
    tide_view bytes = tide_view_bytes(fixed, sizeof fixed);
    if (value->kind == TIDE_SQL_VALUE_I64)
        memcpy(fixed + 1, &value->i64, sizeof value->i64);
    else if (value->kind == TIDE_SQL_VALUE_F64)
        memcpy(fixed + 1, &value->f64, sizeof value->f64);
    else if (value->kind != TIDE_SQL_VALUE_NULL)
        bytes = value->bytes;
    const tide_digest128 digest = tide_digest128_of(bytes);
    memcpy(out, digest.bytes, TIDE_TABLE_PRINT_LEN);
    if (value->kind == TIDE_SQL_VALUE_BLOB)
        out[0] ^= 1; /* not the text of the same bytes */
}

tide_status tide_table_prints(tide_buffer *out, const tide_sql_value *values, int count,
                              tide_error *err)
{
    for (int i = 0; i < count; i++) {
        uint8_t print[TIDE_TABLE_PRINT_LEN];
        tide_table_print(print, &values[i]);
        const tide_status status = tide_buffer_append(out, print, sizeof print);
        TIDE_TRY(tide_buffer_check(status, err));
    }
    return TIDE_OK;
}

/* ---- the log ---- */

tide_status tide_log_row_init(tide_log_row *row, const tide_table *table, tide_error *err)
{
    const size_t count = (size_t)table->column_count;
    *row = (tide_log_row){.values = calloc(count, sizeof *row->values),
                          .is_written = calloc(count, sizeof *row->is_written)};
    if (row->values && row->is_written)
        return TIDE_OK;
    tide_log_row_done(row);
    return tide_no_memory(err);
}

void tide_log_row_done(tide_log_row *row)
{
    free(row->values);
    free(row->is_written);
    *row = (tide_log_row){0};
}

/* A mask of 0 in an update stands for all columns: written by a rescan, which cannot tell. */
static void read_masks(tide_log_row *row, tide_foreign_query *query, const tide_table *table)
{
    bool is_any = false;
    for (int first = 0; first < table->column_count; first += TIDE_TABLE_MASK_BITS) {
        const uint64_t mask = (uint64_t)tide_foreign_col_i64(query);
        for (int i = 0; i < TIDE_TABLE_MASK_BITS && first + i < table->column_count; i++) {
            const bool is_key = table->columns[first + i].is_key;
            row->is_written[first + i] = (mask >> i & 1) != 0 && !is_key;
        }
        is_any = is_any || mask != 0; /* of the key alone: what was written is no column any more */
    }
    for (int i = 0; i < table->column_count; i++) {
        if (row->kind == TIDE_ROW_CREATE)
            row->is_written[i] = true;
        else if (row->kind == TIDE_ROW_DELETE)
            row->is_written[i] = false;
        else if (!is_any)
            row->is_written[i] = !table->columns[i].is_key;
    }
}

/* The lowest integer has a REAL that is equal and stays one: triggers do not tell these two apart, fold does (capture.h). */
static bool is_lowest(const tide_table_column *column, const tide_sql_value *value)
{
    return column->affinity == TIDE_AFFINITY_INTEGER && !column->is_key &&
           ((value->kind == TIDE_SQL_VALUE_I64 && value->i64 == INT64_MIN) ||
            (value->kind == TIDE_SQL_VALUE_F64 && value->f64 == (double)INT64_MIN));
}

tide_status tide_log_next(tide_log_row *row, tide_foreign_query *query, const tide_table *table,
                          tide_error *err)
{
    TIDE_TRY_FOUND(tide_foreign_step(query, err));
    row->seq = tide_foreign_col_i64(query);
    const int64_t op = tide_foreign_col_i64(query);
    row->is_bare = op == 4;
    if (op < 1 || op > 4)
        return tide_fail(err, TIDE_E_DAMAGED, "tide_log_%lld: row %lld is no change",
                         (long long)table->id, (long long)row->seq);
    row->at = tide_foreign_col(query);
    row->kind = op == 1 ? TIDE_ROW_CREATE : op == 2 ? TIDE_ROW_UPDATE : TIDE_ROW_DELETE;
    read_masks(row, query, table);
    for (int i = 0; i < table->column_count; i++) {
        row->values[i] = tide_foreign_col(query);
        if (row->kind == TIDE_ROW_UPDATE && is_lowest(&table->columns[i], &row->values[i]))
            row->is_written[i] = true;
    }
    return TIDE_OK;
}
