#include "replica/capture.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "replica/node_parts.h"
#include "replica/schemas.h"
#include "replica/table_text.h"
#include "store/foreign/foreign_triggers.h"
#include "tidemark_templates.h"

/* ---- warnings ---- */

typedef struct advising {
    const char *name;
    tide_tracked *out;
    size_t len; /* of what stood there before */
} advising;

__attribute__((format(printf, 2, 3))) static void say(tide_tracked *out, const char *format, ...)
{
    const size_t len = strlen(out->advice);
    const int dash =
        snprintf(out->advice + len, sizeof out->advice - len, "%s", len > 0 ? "; " : "");
    const size_t at = len + (size_t)dash;
    va_list args;
    if (at >= sizeof out->advice)
        return;
    va_start(args, format);
    (void)vsnprintf(out->advice + at, sizeof out->advice - at, format, args);
    va_end(args);
}

static void tell_numbers(tide_tracked *out, const tide_table *table)
{
    if (table->is_rowid_key)
        say(out,
            "%s: two nodes give the same number to different rows, because SQLite continues from "
            "the highest number in the table (%s is INTEGER PRIMARY KEY); such rows become "
            "conflicts. Ranges of numbers per node do not help, nor does AUTOINCREMENT; use UUIDs",
            table->name, table->columns[table->key[0]].name);
}

/* Nothing holds a row back whose parent is not replicated. */
static void tell_parents(tide_tracked *out, tide_foreign_tx *tx, const tide_table *table)
{
    for (int i = 0; i < table->foreign_count; i++) {
        tide_error why;
        int64_t is_tracked = 0;
        if (tide_foreign_number(&is_tracked, tx, TIDE_TEMPLATE_REPLICA_TABLE_IS_TRACKED->text, &why,
                                tide_bind_text("name", table->foreign[i].parent)) == TIDE_OK &&
            is_tracked == 0)
            say(out,
                "%s refers to table %s, which is not tracked: other nodes may show rows without "
                "their parents; track %s as well",
                table->name, table->foreign[i].parent, table->foreign[i].parent);
    }
}

static tide_status tell_nameless(tide_tracked *out, tide_foreign_tx *tx, const tide_table *table,
                                 tide_error *err)
{
    if (!tide_table_is_key_nullable(table))
        return TIDE_OK;
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, tx, table, TIDE_TABLE_COUNT_NAMELESS, err);
    TIDE_TRY(tide_foreign_step(query, err));
    const int64_t count = tide_foreign_col_i64(query);
    if (count > 0)
        say(out,
            "%lld rows of %s have NULL in their PRIMARY KEY: no other node could find them, so "
            "they stay here alone",
            (long long)count, table->name);
    return TIDE_OK;
}

/* An application that does not switch foreign keys on may have children without parents. They stay,
 * and the reference holds nothing back on any node (references.h). */
static void tell_orphans(tide_tracked *out, tide_foreign_tx *tx, const char *name)
{
    tide_error why;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (tide_foreign_begin(&query, tx, TIDE_TEMPLATE_REPLICA_ORPHANS->text, &why) < TIDE_OK)
        return;
    tide_foreign_bind_text(query, "name", tide_view_of(name));
    /* A foreign key that fits no unique key is an error here, and the application's own business. */
    if (tide_foreign_step(query, &why) != TIDE_OK)
        return;
    const tide_view child = tide_foreign_col_bytes(query);
    const tide_view parent = tide_foreign_col_bytes(query);
    const int64_t count = tide_foreign_col_i64(query);
    say(out,
        "%lld rows of %.*s refer to rows of %.*s that are not there: they stay, and the foreign "
        "key holds no rows back on any node",
        (long long)count, (int)child.len, child.ptr, (int)parent.len, parent.ptr);
}

static tide_status advise(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const advising *a = arg;
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    a->out->advice[a->len] = '\0'; /* a closure may run again */
    TIDE_TRY(tide_table_read(&table, tx, a->name, err));
    tell_numbers(a->out, &table);
    tell_parents(a->out, tx, &table);
    TIDE_TRY(tell_nameless(a->out, tx, &table, err));
    tell_orphans(a->out, tx, a->name);
    return TIDE_OK;
}

/* Warnings for the caller that tracks the table, appended to out->advice. */
static tide_status capture_advise(tide_foreign_db *file, const char *table, tide_tracked *out,
                                  tide_error *err)
{
    advising a = {.name = table, .out = out, .len = strlen(out->advice)};
    return tide_foreign_read(file, advise, &a, err);
}

/* ---- triggers ---- */

enum { HOOKS_MAX = 7, FOLD_TURNS_MAX = 100 };

typedef struct hooks {
    const tide_template *templates[HOOKS_MAX];
    int count;
} hooks;

static hooks choose_hooks(const tide_table *table)
{
    hooks h = {0};
    h.templates[h.count++] = TIDE_TEMPLATE_HOOK_INSERT;
    h.templates[h.count++] = TIDE_TEMPLATE_HOOK_DELETE;
    h.templates[h.count++] =
        table->foreign_count > 0 ? TIDE_TEMPLATE_HOOK_MOVE_AGAIN : TIDE_TEMPLATE_HOOK_MOVE;
    if (table->column_count > table->key_count)
        h.templates[h.count++] = TIDE_TEMPLATE_HOOK_UPDATE;
    if (tide_table_has_doubles(table)) {
        h.templates[h.count++] = TIDE_TEMPLATE_HOOK_BEFORE_INSERT;
        h.templates[h.count++] = TIDE_TEMPLATE_HOOK_BEFORE_UPDATE;
    }
    if (table->foreign_count > 0)
        h.templates[h.count++] = TIDE_TEMPLATE_HOOK_BEFORE_MOVE;
    return h;
}

static tide_status run_text(tide_foreign_tx *tx, const tide_table *table,
                            const tide_template *template, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
    TIDE_TRY(tide_table_text(&text, table, template, NULL, err));
    return tide_foreign_script(tx, tide_buffer_text(&text), err);
}

static tide_status install_hooks(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    const hooks h = choose_hooks(table);
    TIDE_TRY(run_text(tx, table, TIDE_TEMPLATE_HOOK_DROP, err));
    for (int i = 0; i < h.count; i++)
        TIDE_TRY(run_text(tx, table, h.templates[i], err));
    return TIDE_OK;
}

/* Is there a trigger of exactly this text? *ours: how many of ours there are. */
static tide_status find_hook(tide_foreign_tx *tx, const tide_table *table, const char *text,
                             bool *is_there, int *ours, tide_error *err)
{
    char prefix[64];
    (void)snprintf(prefix, sizeof prefix, "tide_capture_%" PRId64 "_", table->id);
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMA_HOOKS->text, err,
                       tide_bind_text("name", table->name));
    *is_there = false;
    *ours = 0;
    TIDE_EACH(tide_foreign_step(query, err)) {
        const tide_view name = tide_foreign_col_bytes(query);
        const tide_view sql = tide_foreign_col_bytes(query);
        const size_t len = strlen(prefix);
        *ours += name.len > len && memcmp(name.ptr, prefix, len) == 0;
        *is_there = *is_there || tide_view_equal(sql, tide_view_of(text));
    }
    return TIDE_OK;
}

/* Do triggers of the application fire before ours? */
static tide_status look_overtaken(tide_foreign_tx *tx, const tide_table *table, bool *is_whole,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(&query, tx, TIDE_TEMPLATE_HOOK_OVERTAKEN->text,
                                                  err, tide_bind_text("name", table->name));
    TIDE_TRY(status);
    *is_whole = status == TIDE_OK && tide_foreign_col_i64(query) == 0;
    return TIDE_OK;
}

/* One that is missing, or reads otherwise than it was made, may have let anything pass; so may one that is overtaken. */
tide_status tide_capture_look(tide_foreign_tx *tx, const tide_table *table, bool *is_whole,
                              tide_error *err)
{
    const hooks h = choose_hooks(table);
    *is_whole = true;
    for (int i = 0; *is_whole && i < h.count; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
        TIDE_TRY(tide_table_text(&text, table, h.templates[i], NULL, err));
        int ours = 0;
        TIDE_TRY(find_hook(tx, table, tide_buffer_text(&text), is_whole, &ours, err));
        *is_whole = *is_whole && ours == h.count;
    }
    return *is_whole ? look_overtaken(tx, table, is_whole, err) : TIDE_OK;
}

/* ---- the record ---- */

static tide_status put_column(tide_foreign_tx *tx, const tide_table *table, int column,
                              tide_error *err)
{
    static const char *const affinities[] = {"NONE", "INTEGER", "REAL", "NUMERIC", "TEXT"};
    const tide_table_column *it = &table->columns[column];
    int key_position = 0;
    for (int i = 0; i < table->key_count; i++)
        if (table->key[i] == column)
            key_position = i + 1;
    return tide_foreign_exec(
        tx, TIDE_TEMPLATE_REPLICA_COLUMN_PUT->text, NULL, err, tide_bind_i64("table_id", table->id),
        tide_bind_i64("position", column), tide_bind_text("name", it->name),
        tide_bind_i64("key_position", key_position), tide_bind_i64("is_not_null", it->is_not_null),
        tide_bind_text("affinity", affinities[it->affinity]),
        TIDE_BIND_IF(it->fallback, tide_bind_text("fallback", it->fallback)));
}

tide_status tide_capture_record(tide_foreign_tx *tx, const tide_table *table, int64_t retain_us,
                                tide_error *err)
{
    TIDE_TRY(tide_foreign_exec(
        tx, TIDE_TEMPLATE_REPLICA_TABLE_PUT->text, NULL, err, tide_bind_i64("id", table->id),
        tide_bind_text("name", table->name), tide_bind_i64("is_tracked", 1),
        tide_bind_i64("schema", (int64_t)table->schema), tide_bind_i64("retain_us", retain_us)));
    TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_REPLICA_COLUMNS_CUT->text, NULL, err,
                               tide_bind_i64("table_id", table->id)));
    for (int i = 0; i < table->column_count; i++)
        TIDE_TRY(put_column(tx, table, i, err));
    return tide_schemas_put(tx, table, err);
}

/* What a write has to compute must be known to us: functions and collations of the application are not. */
static tide_status check_writable(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    static const tide_table_statement needed[] = {TIDE_TABLE_ROW_PUT, TIDE_TABLE_ROW_DELETE,
                                                  TIDE_TABLE_ROW_SET};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
        tide_error cause = {.status = TIDE_OK};
        const tide_status status = tide_table_query(&query, tx, table, needed[i], &cause);
        if (status < TIDE_OK)
            return tide_fail(err, TIDE_E_UNSUPPORTED,
                             "table %s cannot be written without its application: %s", table->name,
                             cause.text);
    }
    return TIDE_OK;
}

tide_status tide_capture_unhook(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    return run_text(tx, table, TIDE_TEMPLATE_HOOK_DROP, err);
}

tide_status tide_capture_drop_log(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    return run_text(tx, table, TIDE_TEMPLATE_TABLE_LOG_DROP, err);
}

/* Numbers have as many columns as the widest of the narrow tables. */
static tide_status widen_numbers(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    int missing[TIDE_TABLE_MASK_BITS];
    tide_table_fill fill = {.some = missing};
    {
        TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx,
                              TIDE_TEMPLATE_REPLICA_SEQ_COLUMNS->text, err, TIDE_NO_BIND);
        for (int i = (int)tide_foreign_col_i64(query); i < table->column_count; i++)
            missing[fill.some_count++] = i;
    }
    if (fill.some_count == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TIDE_TABLE_TEXT_MAX);
    TIDE_TRY(tide_table_text(&text, table, TIDE_TEMPLATE_TABLE_LOG_WIDEN, &fill, err));
    return tide_foreign_script(tx, tide_buffer_text(&text), err);
}

tide_status tide_capture_make_log(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    TIDE_TRY(tide_capture_drop_log(tx, table, err));
    if (tide_table_is_narrow(table))
        TIDE_TRY(widen_numbers(tx, table, err));
    TIDE_TRY(run_text(tx, table, TIDE_TEMPLATE_TABLE_LOG_MAKE, err));
    return run_text(tx, table, TIDE_TEMPLATE_TABLE_GONE_MAKE, err);
}

tide_status tide_capture_install(tide_foreign_tx *tx, tide_table *table, int64_t retain_us,
                                 tide_error *err)
{
    TIDE_TRY(check_writable(tx, table, err));
    TIDE_TRY(tide_capture_make_log(tx, table, err));
    TIDE_TRY(install_hooks(tx, table, err));
    return tide_capture_record(tx, table, retain_us, err);
}

/* What was captured last is folded yet: the numbers are taken, and peers wait for them. */
tide_status tide_capture_remove(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    TIDE_TRY(run_text(tx, table, TIDE_TEMPLATE_HOOK_DROP, err));
    TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_REPLICA_TABLE_UNTRACK->text, NULL, err,
                               tide_bind_i64("id", table->id)));
    return tide_foreign_exec(tx, TIDE_TEMPLATE_REPLICA_TABLE_ENDED->text, NULL, err,
                             tide_bind_i64("id", table->id));
}

/* ---- the log ---- */

/* ?2 and on: the operation, the masks, the columns. */
static void bind_change(tide_foreign_query *query, const tide_table *table, tide_change_kind kind,
                        bool is_bare, const tide_sql_value *values, const bool *is_written)
{
    enum { DELETE_BARE = 4 };
    static const int operations[] = {
        [TIDE_ROW_CREATE] = 1, [TIDE_ROW_UPDATE] = 2, [TIDE_ROW_DELETE] = 3};
    tide_foreign_bind_at(query, 2,
                         (tide_sql_value){.kind = TIDE_SQL_VALUE_I64,
                                          .i64 = is_bare ? DELETE_BARE : operations[kind]});
    for (int m = 0; m * TIDE_TABLE_MASK_BITS < table->column_count; m++) {
        uint64_t mask = 0;
        for (int i = 0; is_written && i < TIDE_TABLE_MASK_BITS; i++) {
            const int column = m * TIDE_TABLE_MASK_BITS + i;
            mask |= column < table->column_count && is_written[column] ? UINT64_C(1) << i : 0;
        }
        tide_foreign_bind_at(query, 3 + m,
                             (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = (int64_t)mask});
    }
    for (int i = 0; i < table->column_count; i++)
        tide_table_bind(query, 'c', i, &values[i]);
}

/* A number whose change stands elsewhere. */
static tide_status take_number(tide_foreign_tx *tx, const tide_table *table, tide_sql_value at,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (tide_table_is_narrow(table))
        return TIDE_OK;
    TIDE_TRY(tide_foreign_start(&query, tx, TIDE_TEMPLATE_REPLICA_SEQ_ADD->text, err,
                                tide_bind_i64("table_id", table->id)));
    tide_foreign_bind(query, "at", at);
    return tide_foreign_run(query, NULL, err);
}

/* Of a wide table it is beside the number. */
static void bind_time(tide_foreign_query *query, const tide_table *table, tide_sql_value at)
{
    if (tide_table_is_narrow(table))
        tide_foreign_bind_at(query, TIDE_TABLE_TIME_PARAM, at);
}

static tide_status log_at(tide_foreign_tx *tx, const tide_table *table, tide_change_kind kind,
                          tide_sql_value at, const tide_sql_value *values, const bool *is_written,
                          tide_error *err)
{
    TIDE_TRY(take_number(tx, table, at, err));
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, tx, table, TIDE_TABLE_LOG_ADD, err);
    bind_time(query, table, at);
    bind_change(query, table, kind, false, values, is_written);
    return tide_foreign_run(query, NULL, err);
}

tide_status tide_capture_log(tide_foreign_tx *tx, const tide_table *table, tide_change_kind kind,
                             const tide_sql_value *values, const bool *is_written, tide_error *err)
{
    return log_at(tx, table, kind, (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL}, values,
                  is_written, err);
}

tide_status tide_capture_log_gone(tide_foreign_tx *tx, const tide_table *table,
                                  const tide_sql_value *values, tide_error *err)
{
    const tide_sql_value at = {.kind = TIDE_SQL_VALUE_NULL};
    TIDE_TRY(take_number(tx, table, at, err));
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, tx, table, TIDE_TABLE_LOG_ADD, err);
    bind_change(query, table, TIDE_ROW_DELETE, true, values, NULL);
    return tide_foreign_run(query, NULL, err);
}

tide_status tide_capture_log_put(tide_foreign_tx *tx, const tide_table *table,
                                 const tide_log_row *row, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, tx, table, TIDE_TABLE_LOG_PUT, err);
    tide_foreign_bind_at(query, 1, (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = row->seq});
    bind_time(query, table, row->at);
    bind_change(query, table, row->kind, row->is_bare, row->values, row->is_written);
    return tide_foreign_run(query, NULL, err);
}

/* A note whose row does not stand in the table any more: it was replaced unseen. */
static tide_status settle_note(tide_foreign_tx *tx, const tide_table *recorded,
                               const tide_table *live, tide_foreign_query *note,
                               tide_sql_value *values, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(get, tide_table_query, tx, live, TIDE_TABLE_ROW_GET, err);
    for (int i = 0; i < recorded->column_count; i++)
        values[i] = tide_foreign_col(note);
    for (int i = 0; i < recorded->key_count; i++)
        tide_table_bind(get, 'k', i, &values[recorded->key[i]]);
    const tide_status status = tide_foreign_step(get, err);
    /* It was removed by a write that was captured after the note: its time is the first that is free
     * behind those. */
    return status == TIDE_NONE
               ? log_at(tx, recorded, TIDE_ROW_DELETE, (tide_sql_value){.kind = TIDE_SQL_VALUE_I64},
                        values, NULL, err)
               : status;
}

tide_status tide_capture_settle_gone(tide_foreign_tx *tx, const tide_table *recorded,
                                     const tide_table *live, tide_error *err)
{
    TIDE_CLEANUP(tide_freep)
    tide_sql_value *values = calloc((size_t)recorded->column_count, sizeof *values);
    TIDE_NEED_MEMORY(values, err);
    TIDE_FOREIGN_QUERY_BY(notes, tide_table_query, tx, recorded, TIDE_TABLE_GONE_READ, err);
    bool is_any = false;
    TIDE_EACH(tide_foreign_step(notes, err)) {
        is_any = true;
        TIDE_TRY(settle_note(tx, recorded, live, notes, values, err));
    }
    if (!is_any)
        return TIDE_OK;
    tide_foreign_reset(notes);
    TIDE_FOREIGN_QUERY_BY(cut, tide_table_query, tx, recorded, TIDE_TABLE_GONE_CUT, err);
    return tide_foreign_run(cut, NULL, err);
}

static tide_status settle_table(void *arg, const tide_table *table, tide_error *err)
{
    return tide_table_has_doubles(table) || table->foreign_count > 0
               ? tide_capture_settle_gone(arg, table, table, err)
               : TIDE_OK;
}

/* The replication document's counter: origin_seq::<database name>. */
static tide_status put_meta(tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(last, tide_foreign_first, tx, TIDE_TEMPLATE_REPLICA_SEQ_LAST->text, err,
                          TIDE_NO_BIND);
    char value[32];
    char key[512];
    const char *path = tide_foreign_path(tide_foreign_of(tx));
    const char *slash = strrchr(path, '/');
    (void)snprintf(value, sizeof value, "%" PRId64, tide_foreign_col_i64(last));
    (void)snprintf(key, sizeof key, "origin_seq::%s", slash ? slash + 1 : path);
    return tide_foreign_exec(tx, TIDE_TEMPLATE_REPLICA_META_PUT->text, NULL, err,
                             tide_bind_text("key", key), tide_bind_text("value", value));
}

tide_status tide_capture_settle(tide_foreign_tx *tx, tide_error *err)
{
    TIDE_TRY(tide_table_list(tx, settle_table, tx, err));
    return put_meta(tx, err);
}

tide_status tide_capture_is_folded(tide_foreign_tx *tx, const tide_table *table, bool *out,
                                   tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query, tx, table, TIDE_TABLE_LOG_IS_EMPTY, err);
    TIDE_TRY(tide_foreign_step(query, err));
    *out = tide_foreign_col_i64(query) != 0;
    return TIDE_OK;
}

/* ---- track, untrack ---- */

typedef struct request {
    tide_node *node;
    const char *name;
    int64_t retain_us;
    tide_tracked *out;
    bool is_scan_wanted;
    bool is_check_wanted; /* it was known before: what has become of it? */
    bool is_fold_wanted;  /* captured changes have to be folded before anything else */
    tide_node_id id;
    int64_t epoch;
} request;

/* Is it known already, by any spelling of its name? */
static tide_status find_record(tide_foreign_tx *tx, tide_table *table, bool *is_known, request *r,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *find = NULL;
    const tide_status status = tide_foreign_first(&find, tx, TIDE_TEMPLATE_REPLICA_TABLE_FIND->text,
                                                  err, tide_bind_text("name", table->name));
    TIDE_TRY(status);
    *is_known = status == TIDE_OK;
    if (*is_known) {
        table->id = tide_foreign_col_i64(find);
        (void)tide_foreign_col_bytes(find);
        r->out->was_tracked = tide_foreign_col_i64(find) != 0;
        (void)tide_foreign_col_i64(find);
        if (r->retain_us < 0)
            r->retain_us = tide_foreign_col_i64(find);
        return TIDE_OK;
    }
    if (r->retain_us < 0)
        r->retain_us = TIDE_NODE_RETAIN_US;
    TIDE_FOREIGN_QUERY_BY(add, tide_foreign_first, tx, TIDE_TEMPLATE_REPLICA_TABLE_ADD->text, err,
                          tide_bind_text("name", table->name));
    table->id = tide_foreign_col_i64(add);
    return tide_foreign_run(add, NULL, err);
}

static tide_status run_for_table(tide_foreign_tx *tx, const tide_template *template, int64_t id,
                                 int64_t retain_us, tide_error *err)
{
    return tide_foreign_exec(tx, template->text, NULL, err, tide_bind_i64("id", id),
                             tide_bind_i64("retain_us", retain_us));
}

/* It was tracked once: columns keep the places that clocks know them by, unless it has another key, and so other rows. */
static tide_status track_again(tide_foreign_tx *tx, request *r, const tide_table *live,
                               bool *is_again, tide_error *err)
{
    TIDE_TRY(run_for_table(tx, TIDE_TEMPLATE_REPLICA_TABLE_RETRACK, live->id, r->retain_us, err));
    TIDE_CLEANUP(tide_table_done) tide_table recorded = {0};
    TIDE_TRY(tide_table_find(&recorded, tx, live->name, err));
    TIDE_TRY(tide_capture_fits(is_again, &recorded, tx, err));
    if (*is_again)
        return tide_capture_take_events(tx, live, err);
    bool is_empty = false;
    TIDE_TRY(tide_capture_is_folded(tx, &recorded, &is_empty, err));
    r->is_fold_wanted = !is_empty;
    return run_for_table(tx, TIDE_TEMPLATE_REPLICA_CLOCKS_CUT, live->id, 0, err);
}

/* A name that another table had stands for that table in the events of all nodes, so two tables cannot have it. One that is not tracked any more hands over
 * its history with the name: as if it had been rebuilt. */
static tide_status take_name(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    char holder[TIDE_EVENT_TABLE_MAX + 1];
    int64_t id = 0;
    {
        TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
        TIDE_OK_IF_NONE(tide_foreign_first(&query, tx, TIDE_TEMPLATE_NAMES_TAKEN->text, err,
                                           tide_bind_text("name", table->name)));
        id = tide_foreign_col_i64(query);
        const tide_view name = tide_foreign_col_bytes(query);
        tide_view_copy(holder, sizeof holder, name);
        if (tide_foreign_col_i64(query) != 0)
            return tide_fail(err, TIDE_E_CONFLICT,
                             "%s is a name of the table %s, before or on other nodes: events under "
                             "it are that table's. Give the new table another name; or 'untrack' "
                             "%s, and this one goes on in its place",
                             table->name, holder, holder);
    }
    TIDE_TRY(tide_schemas_rename(tx, id, holder, table->name, err));
    return tide_foreign_exec(tx, TIDE_TEMPLATE_NAMES_TOLD->text, NULL, err,
                             tide_bind_i64("table_id", id));
}

static tide_status track_table(tide_foreign_tx *tx, request *r, tide_error *err)
{
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    TIDE_TRY(tide_table_read(&table, tx, r->name, err));
    TIDE_TRY(take_name(tx, &table, err));
    bool is_known = false;
    TIDE_TRY(find_record(tx, &table, &is_known, r, err));
    if (is_known)
        TIDE_TRY(track_again(tx, r, &table, &r->is_check_wanted, err));
    if (r->is_check_wanted || r->is_fold_wanted)
        return TIDE_OK;
    r->is_scan_wanted = true;
    TIDE_TRY(tide_capture_take_events(tx, &table, err));
    TIDE_TRY(tide_capture_install(tx, &table, r->retain_us, err));
    TIDE_TRY(tide_triggers_check(tx, err));
    return tide_capture_want_scan(tx, table.id, err);
}

static tide_status track(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    request *r = arg;
    *r->out = (tide_tracked){0};
    r->is_scan_wanted = false;
    r->is_check_wanted = false;
    r->is_fold_wanted = false;
    TIDE_TRY(tide_node_establish_in(tx, &r->id, &r->epoch, err));
    TIDE_TRY(tide_capture_follow(tx, err));
    return track_table(tx, r, err);
}

tide_status tide_capture_track_empty(tide_foreign_tx *tx, const char *table, int64_t retain_us,
                                     tide_error *err)
{
    tide_tracked ignored = {0};
    request r = {.name = table, .retain_us = retain_us, .out = &ignored};
    TIDE_TRY(track_table(tx, &r, err));
    return TIDE_OK;
}

tide_status tide_capture_fold_all(tide_node *node, tide_error *err)
{
    bool more = tide_node_epoch(node) > 0;
    while (more) {
        int64_t events = 0;
        TIDE_TRY(tide_node_fold(node, &events, &more, err));
    }
    return TIDE_OK;
}

/* Log rows are read by the columns that were recorded: they are folded before those change. Others write meanwhile, so it may take a few turns. */
static tide_status write_folded(request *r, tide_foreign_fn *fn, tide_error *err)
{
    tide_status status = TIDE_OK;
    for (int turn = 0; turn < FOLD_TURNS_MAX; turn++) {
        status = tide_foreign_write(r->node->file, fn, r, err);
        if (status < TIDE_OK || !r->is_fold_wanted)
            return status;
        TIDE_TRY(tide_capture_fold_all(r->node, err));
    }
    return tide_fail(err, TIDE_E_BUSY, "table %s is written to without a pause", r->name);
}

static tide_status track_and_scan(tide_node *node, request *r, const char *table, tide_tracked *out,
                                  tide_error *err)
{
    TIDE_TRY(write_folded(r, track, err));
    tide_node_become(node, &r->id, r->epoch);
    TIDE_TRY(tide_capture_import(node->file, table, &out->imported, err));
    /* Capture stands: rows that were there are logged in steps, beside whoever writes. */
    if (!r->is_check_wanted)
        return tide_capture_rescan(node->file, table, &out->rows, err);
    tide_capture_found found = {0};
    TIDE_TRY(tide_capture_check(node, table, &found, err));
    out->rows = found.rescanned;
    const size_t len = strlen(out->advice);
    (void)snprintf(out->advice + len, sizeof out->advice - len, "%s%s",
                   len > 0 && found.report[0] ? "; " : "", found.report);
    return TIDE_OK;
}

tide_status tide_node_track(tide_node *node, const char *table, int64_t retain_us,
                            tide_tracked *out, tide_error *err)
{
    request r = {.node = node, .name = table, .retain_us = retain_us, .out = out};
    TIDE_TRY(track_and_scan(node, &r, table, out, err));
    return capture_advise(node->file, table, out, err);
}

tide_status tide_node_rescan(tide_node *node, const char *table, int64_t *found, tide_error *err)
{
    tide_capture_found checked = {0};
    *found = 0;
    TIDE_TRY(tide_node_check(node, &checked, err)); /* columns and triggers as they are by now */
    TIDE_TRY(tide_capture_fold_all(node, err));     /* what was captured is no news */
    TIDE_TRY(tide_capture_rescan(node->file, table, found, err));
    *found += checked.rescanned;
    return TIDE_OK;
}

static tide_status untrack(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    request *r = arg;
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    TIDE_TRY_FOUND(tide_table_find(&table, tx, r->name, err));
    bool is_empty = false;
    TIDE_TRY(tide_capture_is_folded(tx, &table, &is_empty, err));
    r->is_fold_wanted = !is_empty;
    return is_empty ? tide_capture_remove(tx, &table, err) : TIDE_OK;
}

tide_status tide_node_untrack(tide_node *node, const char *table, tide_error *err)
{
    if (tide_node_epoch(node) == 0)
        return TIDE_NONE;
    request r = {.node = node, .name = table};
    return write_folded(&r, untrack, err);
}

static bool is_tracked(void *arg, const char *table)
{
    tide_error err;
    int64_t found = 0;
    return tide_foreign_number(&found, arg, TIDE_TEMPLATE_REPLICA_TABLE_IS_TRACKED->text, &err,
                               tide_bind_text("name", table)) == TIDE_OK &&
           found != 0;
}

tide_status tide_triggers_copy(tide_foreign_tx *tx, tide_error *err)
{
    return tide_foreign_copy_triggers(tx, is_tracked, tx, err);
}

tide_status tide_triggers_check(tide_foreign_tx *tx, tide_error *err)
{
    char why[1024];
    TIDE_TRY(tide_triggers_copy(tx, err));
    TIDE_OK_IF_NONE(tide_foreign_trigger_problem(tx, why, sizeof why, err));
    return tide_fail(err, TIDE_E_UNSUPPORTED, "%s", why);
}
