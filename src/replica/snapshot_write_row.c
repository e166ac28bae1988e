/* snapshot_write_row.c - the rows of a table become records: see snapshot_record.h. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/range.h"
#include "replica/snapshot_writing.h"
#include "tidemark_templates.h"

enum { TELL_EVERY = 1000 };

/* Write the record that was put into the buffer. */
tide_status tide_snapshot_write_record(tide_snapshot_writing *w, tide_status put, tide_error *err)
{
    if (put < TIDE_OK)
        return put == TIDE_E_LIMIT ? tide_fail(err, put, "a row is too large for a snapshot")
                                   : tide_no_memory(err);
    TIDE_TRY(tide_snapshot_writer_add(w->to, tide_buffer_view(&w->record), err));
    tide_buffer_clear(&w->record);
    return TIDE_OK;
}

bool tide_snapshot_write_node(tide_node_id *out, tide_view bytes)
{
    if (bytes.len != TIDE_NODE_LEN)
        return false;
    memcpy(out->bytes, bytes.ptr, TIDE_NODE_LEN);
    return true;
}

/* What one row's record is made of; freed row by row. */
typedef struct row_parts {
    tide_sql_value *values; /* of the table: views until the query moves */
    tide_snapshot_conflict *conflicts;
    tide_snapshot_known *knowledge;
    tide_buffer bytes; /* of conflicts' values */
} row_parts;

static void row_parts_done(row_parts *p)
{
    free(p->values);
    free(p->conflicts);
    free(p->knowledge);
    tide_buffer_done(&p->bytes);
}

static tide_status add_conflict(row_parts *p, tide_snapshot_row *row, tide_foreign_query *query,
                                tide_error *err)
{
    TIDE_TRY(tide_list_room(&p->conflicts, row->conflict_count, sizeof *p->conflicts, TIDE_LIST_MAX,
                            err));
    row->conflicts = p->conflicts;
    tide_snapshot_conflict *conflict = &p->conflicts[row->conflict_count];
    *conflict = (tide_snapshot_conflict){.column = (int)tide_foreign_col_i64(query)};
    conflict->stamp.time = (uint64_t)tide_foreign_col_i64(query);
    if (!tide_snapshot_write_node(&conflict->stamp.node, tide_foreign_col_bytes(query)))
        return tide_fail(err, TIDE_E_DAMAGED, "a conflict's node has an id of another length");
    conflict->has_value = !tide_foreign_col_is_null(query);
    const tide_view value = tide_foreign_col_bytes(query);
    conflict->value = tide_view_bytes(NULL, value.len); /* its place follows when all are there */
    if (tide_buffer_append_view(&p->bytes, value) < TIDE_OK)
        return tide_no_memory(err);
    conflict->found_at_us = tide_foreign_col_i64(query);
    row->conflict_count++;
    return TIDE_OK;
}

static tide_status begin_of_row(tide_foreign_query **out, const tide_snapshot_writing *w,
                                const char *text, const tide_table *table, tide_view key,
                                tide_error *err)
{
    return tide_foreign_start(out, w->tx, text, err, tide_bind_i64("table", table->id),
                              tide_bind_blob("key", key));
}

static tide_status load_conflicts(const tide_snapshot_writing *w, row_parts *p,
                                  tide_snapshot_row *row, const tide_table *table, tide_error *err)
{
    tide_status status = TIDE_OK;
    size_t at = 0;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *known = NULL;
    TIDE_TRY(begin_of_row(&query, w, TIDE_TEMPLATE_SNAPSHOT_CONFLICTS->text, table, row->key, err));
    while ((status = tide_foreign_step(query, err)) == TIDE_OK)
        TIDE_TRY(add_conflict(p, row, query, err));
    TIDE_TRY(status);
    for (int i = 0; i < row->conflict_count; i++) {
        row->conflicts[i].value.ptr = p->bytes.ptr ? p->bytes.ptr + at : "";
        at += row->conflicts[i].value.len;
    }
    TIDE_TRY(begin_of_row(&known, w, TIDE_TEMPLATE_SNAPSHOT_KNOWLEDGE->text, table, row->key, err));
    while ((status = tide_foreign_step(known, err)) == TIDE_OK) {
        TIDE_TRY(tide_list_room(&p->knowledge, row->known_count, sizeof *p->knowledge,
                                TIDE_LIST_MAX, err));
        row->knowledge = p->knowledge;
        tide_snapshot_known *one = &p->knowledge[row->known_count++];
        one->column = (int)tide_foreign_col_i64(known);
        one->stamp = (tide_stamp){.time = (uint64_t)tide_foreign_col_i64(known)};
        const tide_view node = tide_foreign_col_bytes(known);
        if (node.len == TIDE_NODE_LEN)
            memcpy(one->stamp.node.bytes, node.ptr, TIDE_NODE_LEN);
        one->added_us = tide_foreign_col_i64(known);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status fail_missing(const tide_table *table, tide_error *err)
{
    return tide_fail(err, TIDE_E_CONFLICT,
                     "rows of %s were changed behind the capture (another program with triggers "
                     "off?): 'tidemark replica untrack' and 'track' it anew",
                     table->name);
}

/* Does the table have what was folded last? The key's own columns were compared as keys are: 0.0 and -0.0 are one, as bits they are two. */
static tide_status check_prints(const tide_sql_value *values, const tide_table *table,
                                tide_view prints, tide_error *err)
{
    const size_t taken = prints.len / TIDE_TABLE_PRINT_LEN; /* 0: not known */
    if (taken > (size_t)table->column_count)
        return fail_missing(table, err);
    for (size_t i = 0; i < taken; i++) {
        uint8_t now[TIDE_TABLE_PRINT_LEN];
        tide_table_print(now, &values[i]);
        if (!table->columns[i].is_key && memcmp(now, prints.ptr + i * sizeof now, sizeof now) != 0)
            return fail_missing(table, err);
    }
    return TIDE_OK;
}

/* The row as it stands in its table, under exactly its key. */
static tide_status load_values(tide_foreign_query *get, row_parts *p, tide_snapshot_row *row,
                               const tide_table *table, tide_error *err)
{
    tide_sql_value key[TIDE_EVENT_KEY_MAX];
    TIDE_TRY(tide_desk_key_values(key, table->key_count, row->key, err));
    for (int i = 0; i < table->key_count; i++)
        tide_table_bind(get, 'k', i, &key[i]);
    const tide_status status = tide_foreign_step(get, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return fail_missing(table, err);
    for (int i = 0; i < table->column_count; i++)
        p->values[i] = tide_foreign_col(get);
    for (int i = 0; i < table->key_count; i++) {
        p->values[table->key[i]] =
            tide_table_key_value(table, table->key[i], &p->values[table->key[i]]);
        if (!tide_sql_value_equal(&p->values[table->key[i]], &key[i]))
            return fail_missing(table, err);
    }
    row->values = p->values;
    return TIDE_OK;
}

static tide_status put_row(tide_snapshot_writing *w, tide_foreign_query *rows,
                           tide_foreign_query *get, int index, int64_t *standing, tide_error *err)
{
    const tide_table *table = &w->tables[index];
    TIDE_CLEANUP(row_parts_done) row_parts p = {.values = NULL};
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock clock = {.columns = NULL};
    tide_snapshot_row row = {.table = index, .key = tide_foreign_col_bytes(rows)};
    tide_buffer_init(&p.bytes, TIDE_SNAPSHOT_RECORD_MAX);
    row.has_clock = !tide_foreign_col_is_null(rows);
    row.clock_bytes = tide_foreign_col_bytes(rows);
    row.image = tide_foreign_col_bytes(rows);
    row.aside = (tide_aside)tide_foreign_col_i64(rows);
    row.rival = tide_foreign_col_bytes(rows);
    if (row.has_clock) {
        TIDE_TRY(tide_row_clock_decode(&clock, row.clock_bytes, err));
        row.is_here = tide_row_clock_exists(&clock) && row.aside == TIDE_ASIDE_NONE;
    }
    if (row.is_here) {
        TIDE_ALLOC(p.values, (size_t)table->column_count, err);
        TIDE_TRY(load_values(get, &p, &row, table, err));
        TIDE_TRY(check_prints(p.values, table, tide_foreign_col_bytes(rows), err));
        ++*standing;
    }
    if (w->has_conflicts)
        TIDE_TRY(load_conflicts(w, &p, &row, table, err));
    TIDE_TRY(tide_snapshot_write_record(
        w, tide_snapshot_put_row(&w->record, &row, table->column_count), err));
    tide_foreign_reset(get);
    w->counted.rows++;
    return TIDE_OK;
}

tide_status tide_snapshot_sum_of(tide_snapshot_sum *out, tide_foreign_tx *tx,
                                 const tide_table *table, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_SNAPSHOT_RECORD_MAX);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    out->rows = 0;
    memset(out->digest, 0, sizeof out->digest);
    TIDE_TRY(tide_table_query(&query, tx, table, TIDE_TABLE_ROW_WALK, err));
    uint8_t digest[16];
    TIDE_EACH(tide_range_next(digest, NULL, &bytes, query, table, err)) {
        tide_range_add(out->digest, digest);
        out->rows++;
    }
    return TIDE_OK;
}

tide_status tide_snapshot_write_rows(tide_snapshot_writing *w, int index, tide_error *err)
{
    const tide_table *table = &w->tables[index];
    tide_snapshot_sum sum = {.table = index};
    int64_t standing = 0;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *rows = NULL;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *get = NULL;
    TIDE_TRY(tide_foreign_start(&rows, w->tx, TIDE_TEMPLATE_SNAPSHOT_ROWS->text, err,
                                tide_bind_i64("table", table->id)));
    TIDE_TRY(tide_table_query(&get, w->tx, table, TIDE_TABLE_ROW_GET, err));
    TIDE_EACH(tide_foreign_step(rows, err)) {
        TIDE_TRY(put_row(w, rows, get, index, &standing, err));
        if (w->counted.rows % TELL_EVERY == 0)
            TIDE_TRY(tide_snapshot_tell(w->maker->watch, "writing rows", w->counted.rows, 0, err));
    }
    TIDE_TRY(tide_snapshot_sum_of(&sum, w->tx, table, err));
    if (sum.rows != standing)
        return fail_missing(table, err);
    return tide_snapshot_write_record(w, tide_snapshot_put_sum(&w->record, &sum), err);
}
