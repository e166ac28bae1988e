/* snapshot_write.c - a node's file becomes records: see snapshot_record.h. Reads a private copy, so nobody waits for it. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/log.h"
#include "replica/references.h"
#include "replica/schemas.h"
#include "replica/snapshot_writing.h"
#include "replica/spool.h"
#include "tidemark_templates.h"

static void writing_done(tide_snapshot_writing *w)
{
    for (int i = 0; i < w->table_count; i++)
        tide_table_done(&w->tables[i]);
    free(w->tables);
    free(w->origins);
    tide_buffer_done(&w->record);
}

static tide_status ask_number(int64_t *out, tide_foreign_tx *tx, const char *text, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(&query, tx, text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? tide_foreign_col_i64(query) : 0;
    return TIDE_OK;
}

/* ---- tables, parents before children ---- */

typedef struct names {
    char (*of)[TIDE_EVENT_TABLE_MAX + 1];
    int count;
} names;

static void names_done(names *n)
{
    free(n->of);
}

static tide_status keep_name(void *arg, const tide_table *table, tide_error *err)
{
    names *n = arg;
    TIDE_TRY(tide_list_room(&n->of, n->count, sizeof *n->of, TIDE_LIST_MAX, err));
    memcpy(n->of[n->count++], table->name, sizeof table->name);
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
static bool has_late_parent(const tide_snapshot_writing *w, int placed, const tide_table *table)
{
    for (int i = 0; i < table->foreign_count; i++) {
        const char *parent = table->foreign[i].parent;
        if (strcmp(parent, table->name) != 0 && is_among(w->tables, w->table_count, parent) &&
            !is_among(w->tables, placed, parent))
            return true;
    }
    return false;
}

static void sort_tables(tide_snapshot_writing *w)
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

static tide_status load_tables(tide_snapshot_writing *w, tide_error *err)
{
    TIDE_CLEANUP(names_done) names found = {.of = NULL};
    TIDE_TRY(tide_table_list(w->tx, keep_name, &found, err));
    w->tables = calloc((size_t)found.count + 1, sizeof *w->tables);
    TIDE_NEED_MEMORY(w->tables, err);
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

static tide_status load_statements(statements *out, const tide_snapshot_writing *w,
                                   const tide_table *table, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, w->tx, TIDE_TEMPLATE_PEER_TABLE_SQL->text, err,
                       tide_bind_text("name", table->name));
    TIDE_EACH(tide_foreign_step(query, err)) {
        const tide_view text = tide_foreign_col_bytes(query);
        if (out->count == TIDE_SYNC_TABLE_SQL_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "table %s has more than %d indexes", table->name,
                             TIDE_SYNC_TABLE_SQL_MAX - 1);
        out->of[out->count] = strndup(text.ptr, text.len);
        TIDE_NEED_MEMORY(out->of[out->count], err);
        out->count++;
    }
    return TIDE_OK;
}

static tide_status put_table(tide_snapshot_writing *w, const tide_table *table, tide_error *err)
{
    TIDE_CLEANUP(statements_done) statements sql = {.count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks made = {.origin_count = 0};
    TIDE_TRY(load_statements(&sql, w, table, err));
    TIDE_TRY(tide_peer_marks_add_table(&made, table->name, table->schema, table->retain_us,
                                       (const char *const *)sql.of, err));
    TIDE_TRY(tide_schemas_tell(w->tx, table->id, table->name, &made.tables[0], err));
    TIDE_TRY(tide_references_list(w->tx, table->id, &made.tables[0], err));
    return tide_snapshot_write_record(
        w, tide_snapshot_put_table(&w->record, table, &made.tables[0]), err);
}

/* ---- marks ---- */

/* The cut: what is here without a hole, and merged. */
static tide_status find_cut(tide_origin_mark *mark, const tide_snapshot_writing *w, tide_view bytes,
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

static tide_status load_origins(tide_snapshot_writing *w, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, w->tx, TIDE_TEMPLATE_APPLY_ORIGIN_LIST->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_TRY(
            tide_list_room(&w->origins, w->origin_count, sizeof *w->origins, TIDE_LIST_MAX, err));
        tide_origin_mark *mark = &w->origins[w->origin_count];
        *mark = (tide_origin_mark){.epoch = 0};
        if (!tide_snapshot_write_node(&mark->origin, tide_foreign_col_bytes(query)))
            return tide_fail(err, TIDE_E_DAMAGED, "an origin's id has another length");
        mark->epoch = tide_foreign_col_i64(query);
        mark->start = tide_foreign_col_i64(query);
        mark->floor = tide_foreign_col_i64(query);
        TIDE_TRY(find_cut(mark, w, tide_foreign_col_bytes(query), err));
        w->origin_count++;
    }
    return TIDE_OK;
}

/* NULL: no such log. */
static const tide_origin_mark *find_origin(const tide_snapshot_writing *w,
                                           const tide_node_id *origin, int64_t epoch)
{
    for (int i = 0; i < w->origin_count; i++)
        if (w->origins[i].epoch == epoch &&
            memcmp(&w->origins[i].origin, origin, sizeof *origin) == 0)
            return &w->origins[i];
    return NULL;
}

static tide_status put_cursors(tide_snapshot_writing *w, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, w->tx, TIDE_TEMPLATE_SNAPSHOT_CURSORS->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_snapshot_cursor cursor = {.prefix = 0};
        cursor.table = tide_foreign_col_bytes(query);
        if (!tide_snapshot_write_node(&cursor.origin, tide_foreign_col_bytes(query)))
            return tide_fail(err, TIDE_E_DAMAGED, "an origin's id has another length");
        cursor.epoch = tide_foreign_col_i64(query);
        TIDE_CLEANUP(tide_cursor_done) tide_cursor numbers = {.contiguous = 0};
        TIDE_TRY(
            tide_cursor_decode(&numbers, tide_foreign_col_bytes(query), TIDE_LOG_HOLES_MAX, err));
        cursor.last_seq = tide_foreign_col_i64(query);
        const tide_origin_mark *of = find_origin(w, &cursor.origin, cursor.epoch);
        if (!of)
            continue;
        cursor.prefix = tide_cursor_contiguous(&numbers);
        if (cursor.prefix > of->prefix)
            cursor.prefix = of->prefix;
        if (cursor.last_seq > of->prefix)
            cursor.last_seq = of->prefix;
        TIDE_TRY(tide_snapshot_write_record(w, tide_snapshot_put_cursor(&w->record, &cursor), err));
    }
    return TIDE_OK;
}

static tide_status put_events(tide_snapshot_writing *w, const tide_origin_mark *of, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, w->tx, TIDE_TEMPLATE_SNAPSHOT_EVENTS->text, err,
                       tide_bind_blob("origin", tide_view_bytes(of->origin.bytes, TIDE_NODE_LEN)),
                       tide_bind_i64("epoch", of->epoch), tide_bind_i64("prefix", of->prefix));
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_snapshot_event event = {.is_processed = tide_foreign_col_i64(query) != 0};
        event.reason = tide_foreign_col_bytes(query);
        event.detail = tide_foreign_col_bytes(query);
        event.found_at_us = tide_foreign_col_i64(query);
        event.body = tide_foreign_col_bytes(query);
        TIDE_TRY(tide_snapshot_write_record(w, tide_snapshot_put_event(&w->record, &event), err));
        w->counted.events++;
    }
    return TIDE_OK;
}

static tide_status put_begin(tide_snapshot_writing *w, tide_error *err)
{
    int64_t clock = 0;
    TIDE_TRY(ask_number(&clock, w->tx, TIDE_TEMPLATE_APPLY_HYBRID_GET->text, err));
    const tide_snapshot_begin begin = {.node = w->maker->node,
                                       .epoch = w->maker->epoch,
                                       .clock = (uint64_t)clock,
                                       .origins = w->origin_count,
                                       .tables = w->table_count};
    return tide_snapshot_write_record(w, tide_snapshot_put_begin(&w->record, &begin), err);
}

static tide_status write_all(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_snapshot_writing *w = arg;
    int64_t any = 0;
    w->tx = tx;
    TIDE_TRY(load_tables(w, err));
    TIDE_TRY(load_origins(w, err));
    TIDE_TRY(ask_number(&any, tx, TIDE_TEMPLATE_SNAPSHOT_ANY_CONFLICT->text, err));
    w->has_conflicts = any != 0;
    TIDE_TRY(put_begin(w, err));
    for (int i = 0; i < w->origin_count; i++)
        TIDE_TRY(tide_snapshot_write_record(w, tide_snapshot_put_origin(&w->record, &w->origins[i]),
                                            err));
    for (int i = 0; i < w->table_count; i++)
        TIDE_TRY(put_table(w, &w->tables[i], err));
    TIDE_TRY(put_cursors(w, err));
    for (int i = 0; i < w->origin_count; i++)
        TIDE_TRY(put_events(w, &w->origins[i], err));
    for (int i = 0; i < w->table_count; i++)
        TIDE_TRY(tide_snapshot_write_rows(w, i, err));
    TIDE_TRY(tide_snapshot_write_record(w, tide_snapshot_put_end(&w->record, &w->counted), err));
    return tide_snapshot_writer_finish(w->to, err);
}

tide_status tide_snapshot_write(tide_snapshot_writer *writer, tide_foreign_db *copy,
                                const tide_snapshot_maker *maker, tide_error *err)
{
    TIDE_CLEANUP(writing_done) tide_snapshot_writing w = {.to = writer, .maker = maker};
    tide_buffer_init(&w.record, TIDE_SNAPSHOT_RECORD_MAX);
    return tide_foreign_read(copy, write_all, &w, err);
}
