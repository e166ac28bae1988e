/* import.c - the names <table>_Events: our view, and tables of the replication document's own kind that were there before (capture.h). */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/text/uuid.h"
#include "replica/capture.h"
#include "replica/table_parts.h"
#include "replica/table_text.h"
#include "tidemark_templates.h"

enum { NAME_SIZE = TIDE_EVENT_TABLE_MAX + 32 };

static tide_status run_text(tide_foreign_tx *tx, const tide_table *table,
                            const tide_template *template, const tide_table_fill *fill,
                            tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
    TIDE_TRY(tide_table_text(&text, table, template, fill, err));
    return tide_foreign_script(tx, tide_buffer_text(&text), err);
}

typedef enum standing {
    STANDING_NOTHING,
    STANDING_OURS,
    STANDING_TABLE,
} standing;

/* What stands under the name? A view is ours if it shows our events. */
static tide_status look(standing *out, tide_foreign_tx *tx, const char *name, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMA_FIND->text, err,
                       tide_bind_text("name", name));
    *out = STANDING_NOTHING;
    TIDE_OK_IF_NONE(tide_foreign_step(query, err));
    const bool is_view = tide_view_equal(tide_foreign_col_bytes(query), tide_view_of("view"));
    (void)tide_foreign_col_bytes(query);
    const tide_view sql = tide_foreign_col_bytes(query);
    *out = STANDING_TABLE;
    if (!is_view)
        return TIDE_OK;
    if (!memmem(sql.ptr, sql.len, "tide_replica_events", strlen("tide_replica_events")))
        return tide_fail(err, TIDE_E_CONFLICT,
                         "the database has a view %s of its own, a name that replication needs: "
                         "rename it",
                         name);
    *out = STANDING_OURS;
    return TIDE_OK;
}

/* Which column names the origin: the replication document calls it origin_node_id, source_node_id before. NULL: not a table of that kind. */
static tide_status find_node_column(const char **out, tide_foreign_tx *tx, const char *name,
                                    tide_error *err)
{
    static const char *const needed[] = {"id",   "operation_type", "record_id",
                                         "data", "timestamp",      "processed"};
    enum { NEEDED = sizeof needed / sizeof *needed };
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMA_COLUMNS->text, err,
                       tide_bind_text("name", name));
    *out = NULL;
    size_t found = 0;
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_CLEANUP(tide_freep) char *column = tide_table_copy(tide_foreign_col_bytes(query));
        TIDE_NEED_MEMORY(column, err);
        for (size_t i = 0; i < NEEDED; i++)
            found += strcasecmp(column, needed[i]) == 0;
        if (strcasecmp(column, "origin_node_id") == 0 ||
            (strcasecmp(column, "source_node_id") == 0 && !*out))
            *out = strcasecmp(column, "origin_node_id") == 0 ? "origin_node_id" : "source_node_id";
    }
    if (found == NEEDED && *out)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "the database has a table %s that is no event table, a name that replication "
                     "needs: rename it",
                     name);
}

/* A node's id as it was written: a UUID, or any text, of which a digest is taken; the view shows the text. */
static tide_status take_origin(tide_node_id *out, tide_foreign_tx *tx, tide_view text,
                               tide_error *err)
{
    tide_uuid uuid;
    if (tide_uuid_parse(&uuid, text) == TIDE_OK) {
        memcpy(out->bytes, uuid.bytes, sizeof out->bytes);
        return TIDE_OK;
    }
    const tide_digest128 digest = tide_digest128_of(text);
    memcpy(out->bytes, digest.bytes, sizeof out->bytes);
    return tide_foreign_exec(
        tx, TIDE_TEMPLATE_REPLICA_SEED_ORIGIN->text, NULL, err,
        tide_bind_blob("origin", tide_view_bytes(out->bytes, sizeof out->bytes)),
        tide_bind_view("name", text));
}

static tide_status next_number(int64_t *out, tide_foreign_tx *tx, const tide_node_id *origin,
                               tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(
        query, tide_foreign_first, tx, TIDE_TEMPLATE_REPLICA_SEED_LAST->text, err,
        tide_bind_blob("origin", tide_view_bytes(origin->bytes, sizeof origin->bytes)));
    *out = tide_foreign_col_i64(query) + 1;
    return TIDE_OK;
}

static void bind_any(tide_foreign_query *put, const char *name, tide_foreign_query *from)
{
    tide_sql_value value = tide_foreign_col(from);
    if (value.kind == TIDE_SQL_VALUE_BLOB)
        value.kind = TIDE_SQL_VALUE_TEXT;
    tide_foreign_bind(put, name, value);
}

/* id, operation_type, record_id, data, timestamp, node, processed */
static tide_status import_row(tide_foreign_tx *tx, const tide_table *table,
                              tide_foreign_query *from, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(put, tide_foreign_begin, tx, TIDE_TEMPLATE_REPLICA_SEED_PUT->text, err);
    bind_any(put, "id", from);
    bind_any(put, "operation_type", from);
    bind_any(put, "record_id", from);
    bind_any(put, "data", from);
    bind_any(put, "timestamp", from);
    tide_node_id origin;
    TIDE_TRY(take_origin(&origin, tx, tide_foreign_col_bytes(from), err));
    bind_any(put, "processed", from);
    int64_t seq = 0;
    TIDE_TRY(next_number(&seq, tx, &origin, err));
    tide_foreign_bind_blob(put, "origin", tide_view_bytes(origin.bytes, sizeof origin.bytes));
    tide_foreign_bind_i64(put, "seq", seq);
    tide_foreign_bind_text(put, "table_name", tide_view_of(table->name));
    return tide_foreign_run(put, NULL, err);
}

/* A name that is free. */
static tide_status choose_name(char out[NAME_SIZE], tide_foreign_tx *tx, const char *view,
                               tide_error *err)
{
    for (int n = 1; n < 1000; n++) {
        standing found = STANDING_NOTHING;
        (void)snprintf(out, NAME_SIZE, n == 1 ? "%.280s_imported" : "%.280s_imported_%d", view, n);
        TIDE_TRY(look(&found, tx, out, err));
        if (found == STANDING_NOTHING)
            return TIDE_OK;
    }
    return tide_fail(err, TIDE_E_CONFLICT, "there is no free name for the old table %s", view);
}

tide_status tide_capture_take_events(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    char view[NAME_SIZE];
    char renamed[NAME_SIZE];
    (void)snprintf(view, sizeof view, "%s_Events", table->name);
    tide_table_fill fill = {.view = view, .renamed = renamed};
    standing found = STANDING_NOTHING;
    TIDE_TRY(look(&found, tx, view, err));
    if (found == STANDING_OURS)
        return TIDE_OK;
    if (found == STANDING_TABLE) {
        TIDE_TRY(find_node_column(&fill.node, tx, view, err));
        TIDE_TRY(choose_name(renamed, tx, view, err));
        TIDE_TRY(run_text(tx, table, TIDE_TEMPLATE_EVENTS_RENAME, &fill, err));
        TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_SEED_NOTE->text, NULL, err,
                                   tide_bind_i64("table_id", table->id),
                                   tide_bind_text("renamed", renamed)));
    }
    return run_text(tx, table, TIDE_TEMPLATE_EVENTS_VIEW, &fill, err);
}

/* ---- importing, step by step ---- */

enum { STEP_ROWS = 5000, PLACE_BYTES_MAX = 4 << 20 };

typedef struct import {
    const char *name;
    int64_t count;      /* by the steps that were committed */
    int64_t count_here; /* by this step */
    bool is_done;
} import;

/* Where the last step ended: timestamp and id of its last row, encoded; empty: at the start. TIDE_NONE: nothing is to be imported. */
static tide_status find_place(tide_foreign_tx *tx, int64_t table_id, char renamed[NAME_SIZE],
                              tide_buffer *place, tide_error *err)
{
    TIDE_FOREIGN_QUERY_ONE(query, tx, TIDE_TEMPLATE_SEED_PLACE->text, err,
                           tide_bind_i64("table_id", table_id));
    const tide_view name = tide_foreign_col_bytes(query);
    (void)snprintf(renamed, NAME_SIZE, "%.*s", (int)name.len, name.ptr);
    TIDE_TRY(tide_buffer_append_view(place, tide_foreign_col_bytes(query)));
    return TIDE_OK;
}

static tide_status store_place(tide_foreign_tx *tx, int64_t table_id, tide_view place, bool is_done,
                               tide_error *err)
{
    return tide_foreign_exec(
        tx, (is_done ? TIDE_TEMPLATE_SEED_DONE : TIDE_TEMPLATE_SEED_PLACE_PUT)->text, NULL, err,
        tide_bind_i64("table_id", table_id), tide_bind_blob("place", place));
}

static const tide_template *choose_walk(tide_view place)
{
    tide_reader from = tide_reader_of(place);
    tide_sql_value timestamp;
    tide_sql_value id;
    if (tide_sql_value_decode(&timestamp, &from) < TIDE_OK ||
        tide_sql_value_decode(&id, &from) < TIDE_OK)
        return TIDE_TEMPLATE_SEED_EVENTS;
    return timestamp.kind == TIDE_SQL_VALUE_NULL || id.kind == TIDE_SQL_VALUE_NULL
               ? TIDE_TEMPLATE_SEED_EVENTS_FROM_NULL
               : TIDE_TEMPLATE_SEED_EVENTS_FROM;
}

static void bind_place(tide_foreign_query *query, tide_view place)
{
    static const char *const names[] = {"timestamp", "id"};
    tide_reader from = tide_reader_of(place);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tide_sql_value value = {.kind = TIDE_SQL_VALUE_NULL};
        if (tide_sql_value_decode(&value, &from) < TIDE_OK)
            return;
        if (value.kind != TIDE_SQL_VALUE_NULL) /* that walk has no parameters */
            tide_foreign_bind(query, names[i], value);
    }
}

static tide_status import_rows(import *s, tide_foreign_tx *tx, const tide_table *table,
                               tide_table_fill *fill, tide_buffer *place, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer next = tide_buffer_of(PLACE_BYTES_MAX);
    TIDE_TRY(tide_table_text(&text, table, choose_walk(tide_buffer_view(place)), fill, err));
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, tide_buffer_text(&text), err);
    bind_place(query, tide_buffer_view(place));
    tide_status status = TIDE_OK;
    while ((status = tide_foreign_step(query, err)) == TIDE_OK) {
        const tide_sql_value timestamp = tide_foreign_col(query);
        const tide_sql_value id = tide_foreign_col(query);
        tide_buffer_clear(&next);
        if (tide_sql_value_encode(&next, &timestamp) < TIDE_OK ||
            tide_sql_value_encode(&next, &id) < TIDE_OK)
            return tide_fail(err, TIDE_E_LIMIT, "an event's id in %s is too long", fill->renamed);
        /* Rows of one time and id are of one step. */
        if (s->count_here >= STEP_ROWS &&
            !tide_view_equal(tide_buffer_view(&next), tide_buffer_view(place)))
            break;
        TIDE_TRY(import_row(tx, table, query, err));
        s->count_here++;
        tide_buffer_clear(place);
        TIDE_TRY(tide_buffer_append_view(place, tide_buffer_view(&next)));
    }
    TIDE_TRY(status);
    s->is_done = status == TIDE_NONE;
    return TIDE_OK;
}

static tide_status step(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    import *s = arg;
    char renamed[NAME_SIZE];
    s->count_here = 0;
    s->is_done = true;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer place = tide_buffer_of(PLACE_BYTES_MAX);
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    TIDE_OK_IF_NONE(tide_table_find(&table, tx, s->name, err));
    TIDE_OK_IF_NONE(find_place(tx, table.id, renamed, &place, err));
    tide_table_fill fill = {.renamed = renamed};
    standing found = STANDING_NOTHING;
    TIDE_TRY(look(&found, tx, renamed, err));
    if (found == STANDING_TABLE) { /* else the application has dropped it */
        TIDE_TRY(find_node_column(&fill.node, tx, renamed, err));
        TIDE_TRY(import_rows(s, tx, &table, &fill, &place, err));
    }
    return store_place(tx, table.id, tide_buffer_view(&place), s->is_done, err);
}

tide_status tide_capture_import(tide_foreign_db *file, const char *table, int64_t *imported,
                                tide_error *err)
{
import s = {.name = table };
    while (!s.is_done) {
        TIDE_TRY(tide_foreign_write(file, step, &s, err));
        s.count += s.count_here;
    }
    *imported = s.count;
    return TIDE_OK;
}
