#include "replica/range.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "replica/desk.h"
#include "replica/table_text.h"
#include "tidemark_templates.h"

enum { ROW_BYTES_MAX = 1 << 30 };

/* ---- rows ---- */

void tide_range_add(uint8_t sum[16], const uint8_t row[16])
{
    unsigned carry = 0;
    for (int i = 15; i >= 0; i--) {
        carry += (unsigned)sum[i] + row[i];
        sum[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

tide_status tide_range_next(uint8_t digest[16], tide_buffer *key, tide_buffer *bytes,
                            tide_foreign_query *query, const tide_table *table, tide_error *err)
{
    tide_sql_value keys[TIDE_EVENT_KEY_MAX];
    TIDE_TRY_FOUND(tide_foreign_step(query, err));
    tide_buffer_clear(bytes);
    for (int i = 0; i < table->column_count; i++) {
        tide_sql_value value = tide_foreign_col(query);
        if (table->columns[i].is_key)
            value = tide_table_key_value(table, i, &value);
        for (int k = 0; key && k < table->key_count; k++)
            if (table->key[k] == i)
                keys[k] = value;
        if (tide_sql_value_encode(bytes, &value) < TIDE_OK)
            return tide_no_memory(err);
    }
    const tide_digest128 row = tide_digest128_of(tide_buffer_view(bytes));
    memcpy(digest, row.bytes, sizeof row.bytes);
    if (key)
        tide_buffer_clear(key);
    for (int k = 0; key && k < table->key_count; k++)
        if (tide_sql_value_encode(key, &keys[k]) < TIDE_OK)
            return tide_no_memory(err);
    return TIDE_OK;
}

/* ---- statements of a range ---- */

static tide_status bind_key(tide_foreign_query *query, const tide_table *table, tide_view key,
                            bool is_end, tide_error *err)
{
    tide_sql_value values[TIDE_EVENT_KEY_MAX];
    if (key.len == 0)
        return TIDE_OK;
    if (tide_desk_key_values(values, table->key_count, key, err) < TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID, "these bytes are no key of table %s", table->name);
    for (int i = 0; i < table->key_count; i++)
        tide_table_bind(query, is_end ? 'c' : 'k', is_end ? table->key[i] : i, &values[i]);
    return TIDE_OK;
}

static tide_status begin(tide_foreign_query **out, tide_foreign_tx *tx, const tide_table *table,
                         const tide_range *range, bool is_count, tide_error *err)
{
    const bool has_after = range->after.len > 0;
    const bool has_through = range->through.len > 0;
    const tide_template *rows = has_after && has_through ? TIDE_TEMPLATE_RANGE_BETWEEN
                                : has_after              ? TIDE_TEMPLATE_RANGE_AFTER
                                : has_through            ? TIDE_TEMPLATE_RANGE_THROUGH
                                                         : TIDE_TEMPLATE_RANGE_ALL;
    const tide_template *count = has_after && has_through ? TIDE_TEMPLATE_RANGE_COUNT_BETWEEN
                                 : has_after              ? TIDE_TEMPLATE_RANGE_COUNT_AFTER
                                 : has_through            ? TIDE_TEMPLATE_RANGE_COUNT_THROUGH
                                                          : TIDE_TEMPLATE_RANGE_COUNT_ALL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
    TIDE_TRY(tide_table_text(&text, table, is_count ? count : rows, NULL, err));
    TIDE_TRY(tide_foreign_begin(out, tx, tide_buffer_text(&text), err));
    TIDE_TRY(bind_key(*out, table, range->after, false, err));
    return bind_key(*out, table, range->through, true, err);
}

/* ---- one read ---- */

typedef struct range_call {
    const char *table;
    uint64_t schema;
    const tide_range *range;
    int64_t parts; /* 0: one part per row */
    int64_t max;   /* rows; 0: all */
    tide_range_fn *fn;
    void *arg;
} range_call;

static tide_status find_table(tide_table *out, tide_foreign_tx *tx, const range_call *call,
                              tide_error *err)
{
    const tide_status status = tide_table_find(out, tx, call->table, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "table '%s' is not tracked here", call->table);
    if (call->schema != 0 && out->schema != call->schema)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "table '%s' has another schema here: bring both to the same one",
                         call->table);
    return TIDE_OK;
}

static tide_status count_rows(int64_t *out, tide_foreign_tx *tx, const tide_table *table,
                              const tide_range *range, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, begin, tx, table, range, true, err);
    const tide_status status = tide_foreign_step(query, err);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? tide_foreign_col_i64(query) : 0;
    return TIDE_OK;
}

static tide_status give_parts(tide_foreign_tx *tx, const range_call *call, const tide_table *table,
                              int64_t rows, tide_error *err)
{
    const int64_t size = call->parts > 0 ? (rows + call->parts - 1) / call->parts : 1;
    tide_range_digest part = {.rows = 0};
    uint8_t row[16] = {0};
    tide_status status;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer key = tide_buffer_of(TIDE_EVENT_KEY_BYTES_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(ROW_BYTES_MAX);
    TIDE_FOREIGN_QUERY_BY(query, begin, tx, table, call->range, false, err);
    for (int64_t seen = 0; call->max == 0 || seen < call->max;) {
        status = tide_range_next(row, &key, &bytes, query, table, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            break;
        seen++;
        part.rows++;
        tide_range_add(part.digest, row);
        const bool is_last = call->parts > 0 && seen == rows;
        if (part.rows < size || is_last)
            continue;
        part.end = tide_buffer_view(&key);
        TIDE_TRY(call->fn(call->arg, &part, err));
        part = (tide_range_digest){.rows = 0};
    }
    if (call->parts == 0)
        return TIDE_OK;
    if (part.rows > 0)
        part.end = tide_buffer_view(&key);
    return call->fn(call->arg, &part, err);
}

static tide_status run_range(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const range_call *call = arg;
    int64_t rows = 0;
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    TIDE_TRY(find_table(&table, tx, call, err));
    if (call->parts > 0)
        TIDE_TRY(count_rows(&rows, tx, &table, call->range, err));
    return give_parts(tx, call, &table, rows, err);
}

tide_status tide_node_split(tide_node *node, const char *table, uint64_t schema,
                            const tide_range *range, int parts, tide_range_fn *fn, void *arg,
                            tide_error *err)
{
    if (parts < 1 || parts > TIDE_RANGE_PARTS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%d parts, want 1..%d", parts, TIDE_RANGE_PARTS_MAX);
    range_call call = {
        .table = table, .schema = schema, .range = range, .parts = parts, .fn = fn, .arg = arg};
    return tide_foreign_read(tide_node_file(node), run_range, &call, err);
}

static tide_status keep_part(void *arg, const tide_range_digest *part, tide_error *err)
{
    (void)err;
    *(tide_range_digest *)arg = *part;
    return TIDE_OK;
}

tide_status tide_node_range(tide_node *node, const char *table, uint64_t schema,
                            const tide_range *range, tide_range_digest *out, tide_error *err)
{
    TIDE_TRY(tide_node_split(node, table, schema, range, 1, keep_part, out, err));
    out->end = (tide_view){.len = 0}; /* its memory is gone */
    return TIDE_OK;
}

tide_status tide_node_range_rows(tide_node *node, const char *table, uint64_t schema,
                                 const tide_range *range, int max, tide_range_fn *fn, void *arg,
                                 tide_error *err)
{
    range_call call = {
        .table = table, .schema = schema, .range = range, .max = max, .fn = fn, .arg = arg};
    return tide_foreign_read(tide_node_file(node), run_range, &call, err);
}
