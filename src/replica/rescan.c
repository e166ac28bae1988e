/* rescan.c - what no trigger saw: a table compared with its clocks (capture.h).
 *
 * In steps of a few thousand rows, each a transaction: triggers stand by then, so what others write meanwhile is captured anyway, and logging a row
 * twice changes nothing. That a scan is under way stands in tide_replica_state until it has come to the end. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "replica/capture.h"
#include "tidemark_templates.h"

enum { STEP_ROWS = 4000, KEY_BYTES_MAX = 64 << 20 };

typedef struct scan {
    const char *name;
    tide_buffer last; /* encoded key that the last step ended at; empty: from the start */
    bool is_done;
    int64_t found;      /* by the steps that were committed */
    int64_t found_here; /* by this step */
} scan;

static void scan_done(scan *s)
{
    tide_buffer_done(&s->last);
}

static tide_status run_by_table(tide_foreign_tx *tx, const tide_template *template,
                                int64_t table_id, tide_error *err)
{
    return tide_foreign_exec(tx, template->text, NULL, err, tide_bind_i64("table_id", table_id));
}

tide_status tide_capture_want_scan(tide_foreign_tx *tx, int64_t table_id, tide_error *err)
{
    return run_by_table(tx, TIDE_TEMPLATE_REPLICA_SCAN_PUT, table_id, err);
}

tide_status tide_capture_scan_wanted(tide_foreign_tx *tx, int64_t table_id, bool *out,
                                     tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(&query, tx, TIDE_TEMPLATE_REPLICA_SCAN_FIND->text,
                                                  err, tide_bind_i64("table_id", table_id));
    *out = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status encode_key(tide_buffer *out, const tide_table *table,
                              const tide_sql_value *values, tide_error *err)
{
    tide_buffer_clear(out);
    for (int i = 0; i < table->key_count; i++) {
        const tide_sql_value value =
            tide_table_key_value(table, table->key[i], &values[table->key[i]]);
        const tide_status status = tide_sql_value_encode(out, &value);
        if (status < TIDE_OK)
            return tide_fail(err, status, "a key of %s is too long", table->name);
    }
    return TIDE_OK;
}

static tide_status bind_key(tide_foreign_query *query, const tide_table *table, tide_view key,
                            tide_sql_value *values, tide_error *err)
{
    tide_reader reader = tide_reader_of(key);
    for (int i = 0; i < table->key_count; i++) {
        tide_sql_value *value = &values[table->key[i]];
        if (tide_sql_value_decode(value, &reader) != TIDE_OK)
            return tide_fail(err, TIDE_E_DAMAGED, "tide_replica_clocks: a key of %s", table->name);
        tide_table_bind(query, 'k', i, value);
    }
    return TIDE_OK;
}

/* ---- rows against clocks ---- */

typedef enum known {
    KNOWN_NOT,     /* no clock, or of a row that is gone */
    KNOWN_OTHER,   /* with other values */
    KNOWN_EXACTLY, /* as it stands there */
} known;

/* Columns that were added after the print was taken: they had their defaults then. */
static tide_status compare_added(bool *is_changed, tide_foreign_tx *tx, const tide_table *table,
                                 int first, const tide_sql_value *values, tide_error *err)
{
    int added[TIDE_TABLE_COLUMNS_MAX];
    for (int i = first; i < table->column_count; i++)
        added[i - first] = i;
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query_some, tx, table, TIDE_TABLE_ROW_ADDED, added,
                          table->column_count - first, err);
    for (int i = 0; i < table->key_count; i++)
        tide_table_bind(query, 'k', i, &values[table->key[i]]);
    const tide_status status = tide_foreign_step(query, err);
    TIDE_TRY(status);
    for (int i = first; status == TIDE_OK && i < table->column_count; i++)
        is_changed[i] = tide_foreign_col_i64(query) != 0;
    return TIDE_OK;
}

/* is_changed: which columns have other values than their prints say; all, where there is none. */
static tide_status compare_prints(known *out, bool *is_changed, tide_foreign_tx *tx,
                                  const tide_table *table, tide_view prints,
                                  const tide_sql_value *values, tide_error *err)
{
    const size_t found = prints.len / TIDE_TABLE_PRINT_LEN;
    const int taken = found < (size_t)table->column_count ? (int)found : table->column_count;
    for (int i = 0; i < table->column_count; i++) {
        uint8_t print[TIDE_TABLE_PRINT_LEN];
        tide_table_print(print, &values[i]);
        is_changed[i] =
            taken == 0 ||
            (i < taken && memcmp(print, prints.ptr + (size_t)i * sizeof print, sizeof print) != 0);
    }
    if (taken > 0 && taken < table->column_count)
        TIDE_TRY(compare_added(is_changed, tx, table, taken, values, err));
    *out = KNOWN_EXACTLY;
    for (int i = 0; i < table->column_count; i++)
        if (is_changed[i] && !table->columns[i].is_key)
            *out = KNOWN_OTHER;
    return TIDE_OK;
}

static tide_status find_clock(known *out, bool *is_changed, tide_foreign_tx *tx,
                              const tide_table *table, tide_view key, const tide_sql_value *values,
                              tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_REPLICA_CLOCK_FIND->text, err,
                       tide_bind_i64("table_id", table->id), tide_bind_blob("key", key));
    *out = KNOWN_NOT;
    TIDE_OK_IF_NONE(tide_foreign_step(query, err));
    const bool exists = tide_foreign_col_i64(query) != 0;
    const bool is_aside = tide_foreign_col_i64(query) != 0;
    if (!exists || is_aside)
        return TIDE_OK;
    return compare_prints(out, is_changed, tx, table, tide_foreign_col_bytes(query), values, err);
}

static tide_status scan_row(scan *s, tide_foreign_tx *tx, const tide_table *table,
                            const tide_sql_value *values, bool *is_changed, tide_buffer *key,
                            tide_error *err)
{
    known how = KNOWN_NOT;
    TIDE_TRY(encode_key(key, table, values, err));
    TIDE_TRY(find_clock(&how, is_changed, tx, table, tide_buffer_view(key), values, err));
    if (how == KNOWN_EXACTLY)
        return TIDE_OK;
    s->found_here++;
    return tide_capture_log(tx, table, how == KNOWN_NOT ? TIDE_ROW_CREATE : TIDE_ROW_UPDATE, values,
                            is_changed, err);
}

static tide_status step_rows(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    scan *s = arg;
    s->found_here = 0;
    s->is_done = true;
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    TIDE_TRY_FOUND(tide_table_find(&table, tx, s->name, err));
    TIDE_CLEANUP(tide_freep)
    tide_sql_value *values = calloc((size_t)table.column_count, sizeof *values);
    TIDE_CLEANUP(tide_freep)
    bool *is_changed = calloc((size_t)table.column_count, sizeof *is_changed);
    TIDE_NEED_MEMORY(values && is_changed, err);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer key = tide_buffer_of(KEY_BYTES_MAX);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *walk = NULL;
    const bool is_first = s->last.len == 0;
    TIDE_TRY(tide_table_query(&walk, tx, &table,
                              is_first ? TIDE_TABLE_ROW_WALK : TIDE_TABLE_ROW_WALK_FROM, err));
    if (!is_first)
        TIDE_TRY(bind_key(walk, &table, tide_buffer_view(&s->last), values, err));
    int rows = 0;
    tide_status status = TIDE_OK;
    while (rows < STEP_ROWS && (status = tide_foreign_step(walk, err)) == TIDE_OK) {
        for (int i = 0; i < table.column_count; i++)
            values[i] = tide_foreign_col(walk);
        TIDE_TRY(scan_row(s, tx, &table, values, is_changed, &key, err));
        rows++;
    }
    TIDE_TRY(status);
    s->is_done = rows < STEP_ROWS;
    if (s->is_done)
        return TIDE_OK;
    tide_buffer_clear(&s->last);
    TIDE_TRY(tide_buffer_append_view(&s->last, tide_buffer_view(&key)));
    return TIDE_OK;
}

/* ---- clocks against rows ---- */

static tide_status scan_clock(scan *s, tide_foreign_tx *tx, const tide_table *table, tide_view key,
                              tide_sql_value *values, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(get, tide_table_query, tx, table, TIDE_TABLE_ROW_GET, err);
    TIDE_TRY(bind_key(get, table, key, values, err));
    const tide_status status = tide_foreign_step(get, err);
    if (status != TIDE_NONE)
        return status;
    s->found_here++;
    return tide_capture_log_gone(tx, table, values, err);
}

static tide_status step_clocks(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    scan *s = arg;
    s->found_here = 0;
    s->is_done = true;
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    TIDE_TRY_FOUND(tide_table_find(&table, tx, s->name, err));
    TIDE_CLEANUP(tide_freep)
    tide_sql_value *values = calloc((size_t)table.column_count, sizeof *values);
    TIDE_NEED_MEMORY(values, err);
    TIDE_FOREIGN_QUERY(
        clocks, tx, TIDE_TEMPLATE_REPLICA_CLOCKS_OF->text, err, tide_bind_i64("table_id", table.id),
        tide_bind_blob("after", tide_buffer_view(&s->last)), tide_bind_i64("limit", STEP_ROWS));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer last = tide_buffer_of(KEY_BYTES_MAX);
    int rows = 0;
    TIDE_EACH(tide_foreign_step(clocks, err)) {
        const tide_view key = tide_foreign_col_bytes(clocks);
        TIDE_TRY(scan_clock(s, tx, &table, key, values, err));
        tide_buffer_clear(&last);
        TIDE_TRY(tide_buffer_append_view(&last, key));
        rows++;
    }
    s->is_done = rows < STEP_ROWS;
    if (s->is_done) {
        TIDE_TRY(run_by_table(tx, TIDE_TEMPLATE_APPLY_REFER_WANT, table.id, err));
        return run_by_table(tx, TIDE_TEMPLATE_REPLICA_SCAN_CUT, table.id, err);
    }
    tide_buffer_clear(&s->last);
    return tide_buffer_append_view(&s->last, tide_buffer_view(&last));
}

static tide_status run_steps(scan *s, tide_foreign_db *file, tide_foreign_fn *step, tide_error *err)
{
    tide_buffer_clear(&s->last);
    s->is_done = false;
    while (!s->is_done) {
        TIDE_TRY(tide_foreign_write(file, step, s, err));
        s->found += s->found_here;
    }
    return TIDE_OK;
}

tide_status tide_capture_rescan(tide_foreign_db *file, const char *table, int64_t *found,
                                tide_error *err)
{
    TIDE_CLEANUP(scan_done) scan s = {.name = table};
    tide_buffer_init(&s.last, KEY_BYTES_MAX);
    TIDE_TRY(run_steps(&s, file, step_rows, err));
    TIDE_TRY(run_steps(&s, file, step_clocks, err));
    *found = s.found;
    return TIDE_OK;
}
