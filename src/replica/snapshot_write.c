/* snapshot_write.c - a node's file becomes records: see snapshot_record.h. Reads a private copy, so nobody waits for it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/log.h"
#include "replica/range.h"
#include "replica/schemas.h"
#include "replica/snapshot_parts.h"
#include "replica/spool.h"
#include "tidemark_templates.h"

enum { TELL_EVERY = 1000 };

typedef struct writing {
    tide_app_tx *tx;
    tide_snapshot_writer *to;
    const tide_snapshot_maker *maker;
    tide_table *tables;
    int table_count;
    tide_buffer record;
    tide_origin_mark *origins;
    int origin_count;
    bool has_conflicts;
    int64_t rows_total;
    tide_snapshot_end counted;
} writing;

static void writing_done(writing *w)
{
    for (int i = 0; i < w->table_count; i++)
        tide_table_done(&w->tables[i]);
    free(w->tables);
    free(w->origins);
    tide_buffer_done(&w->record);
}

static tide_status fail_memory(tide_error *err)
{
    return tide_fail(err, TIDE_E_NOMEM, "no memory for a snapshot's record");
}

/* Write the record that was put into the buffer. */
static tide_status flush(writing *w, tide_status put, tide_error *err)
{
    if (put < TIDE_OK)
        return put == TIDE_E_LIMIT ? tide_fail(err, put, "a row is too large for a snapshot")
                                   : fail_memory(err);
    TIDE_TRY(tide_snapshot_writer_add(w->to, tide_buffer_view(&w->record), err));
    tide_buffer_clear(&w->record);
    return TIDE_OK;
}

static tide_status ask_number(int64_t *out, tide_app_tx *tx, const char *text, tide_error *err)
{
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, tx, text, err));
    const tide_status status = tide_app_step(query, err);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? tide_app_col_i64(query) : 0;
    return TIDE_OK;
}

/* ---- tables, parents before children ---- */

typedef struct names {
    char (*of)[TIDE_EVENT_TABLE_MAX + 1];
    int count;
} names;

static tide_status keep_name(void *arg, const tide_table *table, tide_error *err)
{
    names *n = arg;
    char(*more)[TIDE_EVENT_TABLE_MAX + 1] = realloc(n->of, ((size_t)n->count + 1) * sizeof *more);
    if (!more)
        return fail_memory(err);
    n->of = more;
    memcpy(more[n->count++], table->name, sizeof table->name);
    return TIDE_OK;
}

static bool is_among(const tide_table *tables, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(tables[i].name, name) == 0)
            return true;
    return false;
}

/* Does it refer to a tracked table that stands behind it? */
static bool has_late_parent(const writing *w, int placed, const tide_table *table)
{
    for (int i = 0; i < table->foreign_count; i++) {
        const char *parent = table->foreign[i].parent;
        if (strcmp(parent, table->name) != 0 && is_among(w->tables, w->table_count, parent) &&
            !is_among(w->tables, placed, parent))
            return true;
    }
    return false;
}

static void sort_tables(writing *w)
{
    for (int placed = 0; placed < w->table_count; placed++) {
        int next = placed;
        while (next < w->table_count && has_late_parent(w, placed, &w->tables[next]))
            next++;
        if (next == w->table_count)
            next = placed; /* a circle: any will do */
        const tide_table kept = w->tables[next];
        memmove(&w->tables[placed + 1], &w->tables[placed],
                (size_t)(next - placed) * sizeof *w->tables);
        w->tables[placed] = kept;
    }
}

static tide_status load_tables(writing *w, tide_error *err)
{
    names found = {.of = NULL};
    const tide_status listed = tide_table_list(w->tx, keep_name, &found, err);
    TIDE_CLEANUP(tide_freep) void *owned = found.of;
    TIDE_TRY(listed);
    w->tables = calloc((size_t)found.count + 1, sizeof *w->tables);
    if (!w->tables)
        return fail_memory(err);
    for (int i = 0; i < found.count; i++) {
        const tide_status status = tide_table_find(&w->tables[i], w->tx, found.of[i], err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return tide_fail(err, TIDE_E_DAMAGED, "table %s is tracked and cannot be found",
                             found.of[i]);
        w->table_count = i + 1;
    }
    sort_tables(w);
    return TIDE_OK;
}

typedef struct statements {
    char *of[TIDE_SYNC_TABLE_SQL_MAX + 1]; /* NULL at the end */
    int count;
} statements;

static void statements_done(statements *s)
{
    for (int i = 0; i < s->count; i++)
        free(s->of[i]);
}

static tide_status load_statements(statements *out, const writing *w, const tide_table *table,
                                   tide_error *err)
{
    tide_status status = TIDE_OK;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, w->tx, TIDE_TEMPLATE_PEER_TABLE_SQL->text, err));
    tide_app_bind_text(query, "name", tide_view_of(table->name));
    while ((status = tide_app_step(query, err)) == TIDE_OK) {
        const tide_view text = tide_app_col_bytes(query);
        if (out->count == TIDE_SYNC_TABLE_SQL_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "table %s has more than %d indexes", table->name,
                             TIDE_SYNC_TABLE_SQL_MAX - 1);
        out->of[out->count] = strndup(text.ptr, text.len);
        if (!out->of[out->count])
            return fail_memory(err);
        out->count++;
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status put_table(writing *w, const tide_table *table, tide_error *err)
{
    TIDE_CLEANUP(statements_done) statements sql = {.count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks made = {.origin_count = 0};
    TIDE_TRY(load_statements(&sql, w, table, err));
    TIDE_TRY(tide_peer_marks_add_table(&made, table->name, table->schema, table->retain_us,
                                       (const char *const *)sql.of, err));
    TIDE_TRY(tide_schemas_tell(w->tx, table->id, table->name, &made.tables[0], err));
    return flush(w, tide_snapshot_put_table(&w->record, table, &made.tables[0]), err);
}

/* ---- marks ---- */

static bool read_node(tide_node_id *out, tide_view bytes)
{
    if (bytes.len != TIDE_NODE_LEN)
        return false;
    memcpy(out->bytes, bytes.ptr, TIDE_NODE_LEN);
    return true;
}

/* The cut: what is here without a hole, and merged. */
static tide_status find_cut(tide_origin_mark *mark, const writing *w, tide_view bytes,
                            tide_error *err)
{
    int64_t bound = 0;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor cursor = {.contiguous = 0};
    TIDE_TRY(tide_cursor_decode(&cursor, bytes, TIDE_LOG_HOLES_MAX, err));
    (void)tide_cursor_raise(&cursor, mark->start);
    TIDE_TRY(tide_spool_bound(&bound, w->tx, &mark->origin, mark->epoch, err));
    mark->prefix = tide_cursor_contiguous(&cursor);
    mark->highest = tide_cursor_highest(&cursor);
    if (mark->prefix > bound)
        mark->prefix = bound > mark->start ? bound : mark->start;
    if (mark->floor > mark->prefix)
        mark->floor = mark->prefix;
    return TIDE_OK;
}

static tide_status load_origins(writing *w, tide_error *err)
{
    tide_status status = TIDE_OK;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, w->tx, TIDE_TEMPLATE_APPLY_ORIGIN_LIST->text, err));
    while ((status = tide_app_step(query, err)) == TIDE_OK) {
        tide_origin_mark *more = realloc(w->origins, ((size_t)w->origin_count + 1) * sizeof *more);
        if (!more)
            return fail_memory(err);
        w->origins = more;
        tide_origin_mark *mark = &more[w->origin_count];
        *mark = (tide_origin_mark){.epoch = 0};
        if (!read_node(&mark->origin, tide_app_col_bytes(query)))
            return tide_fail(err, TIDE_E_DAMAGED, "an origin's id has another length");
        mark->epoch = tide_app_col_i64(query);
        mark->start = tide_app_col_i64(query);
        mark->floor = tide_app_col_i64(query);
        TIDE_TRY(find_cut(mark, w, tide_app_col_bytes(query), err));
        w->origin_count++;
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

/* NULL: no such log. */
static const tide_origin_mark *find_origin(const writing *w, const tide_node_id *origin,
                                           int64_t epoch)
{
    for (int i = 0; i < w->origin_count; i++)
        if (w->origins[i].epoch == epoch &&
            memcmp(&w->origins[i].origin, origin, sizeof *origin) == 0)
            return &w->origins[i];
    return NULL;
}

static tide_status put_cursors(writing *w, tide_error *err)
{
    tide_status status = TIDE_OK;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, w->tx, TIDE_TEMPLATE_SNAPSHOT_CURSORS->text, err));
    while ((status = tide_app_step(query, err)) == TIDE_OK) {
        tide_snapshot_cursor cursor = {.prefix = 0};
        cursor.table = tide_app_col_bytes(query);
        if (!read_node(&cursor.origin, tide_app_col_bytes(query)))
            return tide_fail(err, TIDE_E_DAMAGED, "an origin's id has another length");
        cursor.epoch = tide_app_col_i64(query);
        TIDE_CLEANUP(tide_cursor_done) tide_cursor numbers = {.contiguous = 0};
        TIDE_TRY(tide_cursor_decode(&numbers, tide_app_col_bytes(query), TIDE_LOG_HOLES_MAX, err));
        cursor.last_seq = tide_app_col_i64(query);
        const tide_origin_mark *of = find_origin(w, &cursor.origin, cursor.epoch);
        if (!of)
            continue;
        cursor.prefix = tide_cursor_contiguous(&numbers);
        if (cursor.prefix > of->prefix)
            cursor.prefix = of->prefix;
        if (cursor.last_seq > of->prefix)
            cursor.last_seq = of->prefix;
        TIDE_TRY(flush(w, tide_snapshot_put_cursor(&w->record, &cursor), err));
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status put_events(writing *w, const tide_origin_mark *of, tide_error *err)
{
    tide_status status = TIDE_OK;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_TRY(tide_app_begin(&query, w->tx, TIDE_TEMPLATE_SNAPSHOT_EVENTS->text, err));
    tide_app_bind_blob(query, "origin", tide_view_bytes(of->origin.bytes, TIDE_NODE_LEN));
    tide_app_bind_i64(query, "epoch", of->epoch);
    tide_app_bind_i64(query, "prefix", of->prefix);
    while ((status = tide_app_step(query, err)) == TIDE_OK) {
        tide_snapshot_event event = {.is_processed = tide_app_col_i64(query) != 0};
        event.reason = tide_app_col_bytes(query);
        event.detail = tide_app_col_bytes(query);
        event.found_at_us = tide_app_col_i64(query);
        event.body = tide_app_col_bytes(query);
        TIDE_TRY(flush(w, tide_snapshot_put_event(&w->record, &event), err));
        w->counted.events++;
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

/* ---- rows ---- */

/* What one row's record is made of; freed row by row. */
typedef struct row_parts {
    tide_any *values; /* of the table: views until the query moves */
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

static tide_status add_conflict(row_parts *p, tide_snapshot_row *row, tide_app_query *query,
                                tide_error *err)
{
    tide_snapshot_conflict *more =
        realloc(p->conflicts, ((size_t)row->conflict_count + 1) * sizeof *more);
    if (!more)
        return fail_memory(err);
    p->conflicts = more;
    row->conflicts = more;
    tide_snapshot_conflict *conflict = &more[row->conflict_count];
    *conflict = (tide_snapshot_conflict){.column = (int)tide_app_col_i64(query)};
    conflict->stamp.time = (uint64_t)tide_app_col_i64(query);
    if (!read_node(&conflict->stamp.node, tide_app_col_bytes(query)))
        return tide_fail(err, TIDE_E_DAMAGED, "a conflict's node has an id of another length");
    conflict->has_value = tide_app_col_class(query) != 5;
    const tide_view value = tide_app_col_bytes(query);
    conflict->value = tide_view_bytes(NULL, value.len); /* its place follows when all are there */
    if (tide_buffer_append_view(&p->bytes, value) < TIDE_OK)
        return fail_memory(err);
    conflict->found_at_us = tide_app_col_i64(query);
    row->conflict_count++;
    return TIDE_OK;
}

static tide_status begin_of_row(tide_app_query **out, const writing *w, const char *text,
                                const tide_table *table, tide_view key, tide_error *err)
{
    TIDE_TRY(tide_app_begin(out, w->tx, text, err));
    tide_app_bind_i64(*out, "table", table->id);
    tide_app_bind_blob(*out, "key", key);
    return TIDE_OK;
}

static tide_status load_conflicts(const writing *w, row_parts *p, tide_snapshot_row *row,
                                  const tide_table *table, tide_error *err)
{
    tide_status status = TIDE_OK;
    size_t at = 0;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *known = NULL;
    TIDE_TRY(begin_of_row(&query, w, TIDE_TEMPLATE_SNAPSHOT_CONFLICTS->text, table, row->key, err));
    while ((status = tide_app_step(query, err)) == TIDE_OK)
        TIDE_TRY(add_conflict(p, row, query, err));
    TIDE_TRY(status);
    for (int i = 0; i < row->conflict_count; i++) {
        row->conflicts[i].value.ptr = p->bytes.ptr ? p->bytes.ptr + at : "";
        at += row->conflicts[i].value.len;
    }
    TIDE_TRY(begin_of_row(&known, w, TIDE_TEMPLATE_SNAPSHOT_KNOWLEDGE->text, table, row->key, err));
    while ((status = tide_app_step(known, err)) == TIDE_OK) {
        tide_snapshot_known *more =
            realloc(p->knowledge, ((size_t)row->known_count + 1) * sizeof *more);
        if (!more)
            return fail_memory(err);
        p->knowledge = more;
        row->knowledge = more;
        tide_snapshot_known *one = &more[row->known_count++];
        one->column = (int)tide_app_col_i64(known);
        one->time = (uint64_t)tide_app_col_i64(known);
        one->added_us = tide_app_col_i64(known);
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

/* Does the table have what was folded last? */
static tide_status check_prints(const tide_any *values, const tide_table *table, tide_view prints,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer now;
    tide_buffer_init(&now, (size_t)TIDE_TABLE_COLUMNS_MAX * TIDE_TABLE_PRINT_LEN);
    if (prints.len == 0)
        return TIDE_OK; /* not known */
    TIDE_TRY(tide_table_prints(&now, values, table->column_count, err));
    return prints.len <= now.len && memcmp(now.ptr, prints.ptr, prints.len) == 0
               ? TIDE_OK
               : fail_missing(table, err);
}

/* The row as it stands in its table, under exactly its key. */
static tide_status load_values(tide_app_query *get, row_parts *p, tide_snapshot_row *row,
                               const tide_table *table, tide_error *err)
{
    tide_any key[TIDE_EVENT_KEY_MAX];
    TIDE_TRY(tide_desk_key_values(key, table->key_count, row->key, err));
    for (int i = 0; i < table->key_count; i++)
        tide_table_bind(get, 'k', i, &key[i]);
    const tide_status status = tide_app_step(get, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return fail_missing(table, err);
    for (int i = 0; i < table->column_count; i++)
        p->values[i] = tide_table_col(get);
    for (int i = 0; i < table->key_count; i++)
        if (!tide_any_equal(&p->values[table->key[i]], &key[i]))
            return fail_missing(table, err);
    row->values = p->values;
    return TIDE_OK;
}

static tide_status put_row(writing *w, tide_app_query *rows, tide_app_query *get, int index,
                           int64_t *standing, tide_error *err)
{
    const tide_table *table = &w->tables[index];
    TIDE_CLEANUP(row_parts_done) row_parts p = {.values = NULL};
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock clock = {.columns = NULL};
    tide_snapshot_row row = {.table = index, .key = tide_app_col_bytes(rows)};
    tide_buffer_init(&p.bytes, TIDE_SNAPSHOT_RECORD_MAX);
    row.has_clock = tide_app_col_class(rows) != 5;
    row.clock_bytes = tide_app_col_bytes(rows);
    row.image = tide_app_col_bytes(rows);
    row.aside = (tide_aside)tide_app_col_i64(rows);
    row.rival = tide_app_col_bytes(rows);
    if (row.has_clock) {
        TIDE_TRY(tide_row_clock_decode(&clock, row.clock_bytes, err));
        row.is_here = tide_row_clock_exists(&clock) && row.aside == TIDE_ASIDE_NONE;
    }
    if (row.is_here) {
        p.values = calloc((size_t)table->column_count, sizeof *p.values);
        if (!p.values)
            return fail_memory(err);
        TIDE_TRY(load_values(get, &p, &row, table, err));
        TIDE_TRY(check_prints(p.values, table, tide_app_col_bytes(rows), err));
        ++*standing;
    }
    if (w->has_conflicts)
        TIDE_TRY(load_conflicts(w, &p, &row, table, err));
    TIDE_TRY(flush(w, tide_snapshot_put_row(&w->record, &row, table->column_count), err));
    tide_app_reset(get);
    w->counted.rows++;
    return TIDE_OK;
}

tide_status tide_snapshot_sum_of(tide_snapshot_sum *out, tide_app_tx *tx, const tide_table *table,
                                 tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *query = NULL;
    tide_buffer_init(&bytes, TIDE_SNAPSHOT_RECORD_MAX);
    out->rows = 0;
    memset(out->digest, 0, sizeof out->digest);
    TIDE_TRY(tide_table_query(&query, tx, table, TIDE_TABLE_ROW_WALK, err));
    for (;;) {
        uint8_t digest[16];
        const tide_status status = tide_range_next(digest, NULL, &bytes, query, table, err);
        if (status != TIDE_OK)
            return status < TIDE_OK ? status : TIDE_OK;
        tide_range_add(out->digest, digest);
        out->rows++;
    }
}

static tide_status put_rows(writing *w, int index, tide_error *err)
{
    const tide_table *table = &w->tables[index];
    tide_snapshot_sum sum = {.table = index};
    int64_t standing = 0;
    tide_status status = TIDE_OK;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *rows = NULL;
    TIDE_CLEANUP(tide_app_endp) tide_app_query *get = NULL;
    TIDE_TRY(tide_app_begin(&rows, w->tx, TIDE_TEMPLATE_SNAPSHOT_ROWS->text, err));
    tide_app_bind_i64(rows, "table", table->id);
    TIDE_TRY(tide_table_query(&get, w->tx, table, TIDE_TABLE_ROW_GET, err));
    while ((status = tide_app_step(rows, err)) == TIDE_OK) {
        TIDE_TRY(put_row(w, rows, get, index, &standing, err));
        if (w->counted.rows % TELL_EVERY == 0)
            TIDE_TRY(tide_snapshot_tell(w->maker->watch, "writing rows", w->counted.rows, 0, err));
    }
    TIDE_TRY(status);
    TIDE_TRY(tide_snapshot_sum_of(&sum, w->tx, table, err));
    if (sum.rows != standing)
        return fail_missing(table, err);
    return flush(w, tide_snapshot_put_sum(&w->record, &sum), err);
}

static tide_status put_begin(writing *w, tide_error *err)
{
    int64_t clock = 0;
    TIDE_TRY(ask_number(&clock, w->tx, TIDE_TEMPLATE_APPLY_HYBRID_GET->text, err));
    const tide_snapshot_begin begin = {.node = w->maker->node,
                                       .epoch = w->maker->epoch,
                                       .clock = (uint64_t)clock,
                                       .origins = w->origin_count,
                                       .tables = w->table_count};
    return flush(w, tide_snapshot_put_begin(&w->record, &begin), err);
}

static tide_status write_all(tide_app_tx *tx, void *arg, tide_error *err)
{
    writing *w = arg;
    int64_t any = 0;
    w->tx = tx;
    TIDE_TRY(load_tables(w, err));
    TIDE_TRY(load_origins(w, err));
    TIDE_TRY(ask_number(&any, tx, TIDE_TEMPLATE_SNAPSHOT_ANY_CONFLICT->text, err));
    w->has_conflicts = any != 0;
    TIDE_TRY(put_begin(w, err));
    for (int i = 0; i < w->origin_count; i++)
        TIDE_TRY(flush(w, tide_snapshot_put_origin(&w->record, &w->origins[i]), err));
    for (int i = 0; i < w->table_count; i++)
        TIDE_TRY(put_table(w, &w->tables[i], err));
    TIDE_TRY(put_cursors(w, err));
    for (int i = 0; i < w->origin_count; i++)
        TIDE_TRY(put_events(w, &w->origins[i], err));
    for (int i = 0; i < w->table_count; i++)
        TIDE_TRY(put_rows(w, i, err));
    TIDE_TRY(flush(w, tide_snapshot_put_end(&w->record, &w->counted), err));
    return tide_snapshot_writer_finish(w->to, err);
}

tide_status tide_snapshot_write(tide_snapshot_writer *writer, tide_app *copy,
                                const tide_snapshot_maker *maker, tide_error *err)
{
    TIDE_CLEANUP(writing_done) writing w = {.to = writer, .maker = maker};
    tide_buffer_init(&w.record, TIDE_SNAPSHOT_RECORD_MAX);
    return tide_app_read(copy, write_all, &w, err);
}
