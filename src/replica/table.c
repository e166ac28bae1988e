#include "replica/table.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/list.h"
#include "replica/table_parts.h"
#include "tidemark_templates.h"

static const char *const affinity_names[] = {"NONE", "INTEGER", "REAL", "NUMERIC", "TEXT"};

void tide_table_done(tide_table *table)
{
    tide_table_uniques_done(table);
    for (int i = 0; i < table->column_count; i++) {
        free(table->columns[i].name);
        free(table->columns[i].fallback);
    }
    free(table->columns);
    for (int i = 0; table->texts && i < TIDE_TABLE_STATEMENTS; i++)
        free(table->texts[i]);
    free(table->texts);
    for (int i = 0; table->some && i < TIDE_TABLE_STATEMENTS; i++) {
        free(table->some[i].text);
        free(table->some[i].columns);
    }
    free(table->some);
    *table = (tide_table){0};
}

int tide_table_find_column(const tide_table *table, const char *name)
{
    for (int i = 0; i < table->column_count; i++)
        if (strcasecmp(table->columns[i].name, name) == 0)
            return i;
    return -1;
}

static bool has_part(const char *text, const char *part)
{
    const size_t len = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, len) == 0)
            return true;
    return false;
}

/* SQLite's own rules (datatype3.html, 3.1), in their order. */
static tide_affinity find_affinity(const char *type, bool is_strict)
{
    if (is_strict && strcasecmp(type, "ANY") == 0)
        return TIDE_AFFINITY_NONE;
    if (has_part(type, "INT"))
        return TIDE_AFFINITY_INTEGER;
    if (has_part(type, "CHAR") || has_part(type, "CLOB") || has_part(type, "TEXT"))
        return TIDE_AFFINITY_TEXT;
    if (!*type || has_part(type, "BLOB"))
        return TIDE_AFFINITY_NONE;
    if (has_part(type, "REAL") || has_part(type, "FLOA") || has_part(type, "DOUB"))
        return TIDE_AFFINITY_REAL;
    return TIDE_AFFINITY_NUMERIC;
}

static tide_table_column *grow_columns(tide_table *table)
{
    if (tide_list_room(&table->columns, table->column_count, sizeof *table->columns, TIDE_LIST_MAX,
                       NULL) < TIDE_OK)
        return NULL;
    table->columns[table->column_count] = (tide_table_column){0};
    return &table->columns[table->column_count++];
}

/* name, type, notnull, default, key position, hidden */
static tide_status add_column(tide_table *table, tide_foreign_query *query, bool *is_integer,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *name = tide_table_copy(tide_foreign_col_bytes(query));
    TIDE_CLEANUP(tide_freep) char *type = tide_table_copy(tide_foreign_col_bytes(query));
    const bool is_not_null = tide_foreign_col_i64(query) != 0;
    const bool has_fallback = !tide_foreign_col_is_null(query);
    TIDE_CLEANUP(tide_freep) char *fallback = tide_table_copy(tide_foreign_col_bytes(query));
    const int64_t key_position = tide_foreign_col_i64(query);
    const bool is_stored = tide_foreign_col_i64(query) == 0;
    TIDE_NEED_MEMORY(name && type && fallback, err);
    if (!is_stored)
        return TIDE_OK;
    if (key_position > TIDE_EVENT_KEY_MAX)
        return tide_fail(err, TIDE_E_UNSUPPORTED, "the key of table %s has more than %d columns",
                         table->name, TIDE_EVENT_KEY_MAX);
    tide_table_column *column = grow_columns(table);
    TIDE_NEED_MEMORY(column, err);
    column->name = TIDE_TAKE(name);
    column->affinity = find_affinity(type, table->is_strict);
    column->is_not_null = is_not_null;
    if (has_fallback)
        column->fallback = TIDE_TAKE(fallback);
    if (key_position > 0) {
        table->key[key_position - 1] = table->column_count - 1;
        if (key_position > table->key_count)
            table->key_count = (int)key_position;
        *is_integer = strcasecmp(type, "INTEGER") == 0;
    }
    return TIDE_OK;
}

static tide_status read_columns(tide_table *table, tide_foreign_tx *tx, bool *is_integer,
                                tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMA_COLUMNS->text, err,
                       tide_bind_text("name", table->name));
    TIDE_EACH(tide_foreign_step(query, err))
        TIDE_TRY(add_column(table, query, is_integer, err));
    if (table->column_count > TIDE_TABLE_COLUMNS_MAX)
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "table %s has %d columns, at most %d can be replicated", table->name,
                         table->column_count, TIDE_TABLE_COLUMNS_MAX);
    return TIDE_OK;
}

/* ---- the key ---- */

bool tide_table_is_key_nullable(const tide_table *table)
{
    for (int i = 0; i < table->key_count; i++)
        if (!table->columns[table->key[i]].is_not_null)
            return true;
    return false;
}

static bool is_never_null(const tide_table *table, const int *columns, int count)
{
    for (int i = 0; i < count; i++)
        if (columns[i] < 0 || !table->columns[columns[i]].is_not_null)
            return false;
    return count > 0;
}

/* Without a primary key that holds: a whole unique index whose columns are never NULL. */
static bool take_unique(tide_table *table)
{
    for (int u = 0; u < table->unique_count; u++) {
        const tide_table_unique *unique = &table->uniques[u];
        if (unique->where || unique->term_count > TIDE_EVENT_KEY_MAX)
            continue;
        int columns[TIDE_EVENT_KEY_MAX];
        for (int i = 0; i < unique->term_count; i++)
            columns[i] = unique->terms[i].column;
        if (!is_never_null(table, columns, unique->term_count))
            continue;
        memcpy(table->key, columns, sizeof columns);
        table->key_count = unique->term_count;
        return true;
    }
    return false;
}

static tide_status choose_key(tide_table *table, tide_foreign_tx *tx, bool is_integer,
                              tide_error *err)
{
    TIDE_TRY(tide_table_read_uniques(table, tx, err));
    bool has_key_index = false;
    for (int u = 0; u < table->unique_count; u++)
        has_key_index = has_key_index || table->uniques[u].is_key;
    /* The rowid itself is the one key that needs no index: INTEGER PRIMARY KEY, but not with DESC. */
    table->is_rowid_key =
        !table->is_without_rowid && table->key_count == 1 && is_integer && !has_key_index;
    const bool is_sound = table->is_without_rowid || table->is_rowid_key ||
                          is_never_null(table, table->key, table->key_count);
    const bool is_nullable = !is_sound && !take_unique(table);
    if (is_nullable && table->key_count == 0)
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "table %s has no key that names every row on every node; give it a "
                         "PRIMARY KEY, or a UNIQUE index over columns that are NOT NULL",
                         table->name);
    for (int i = 0; i < table->key_count; i++) {
        tide_table_column *column = &table->columns[table->key[i]];
        column->is_key = true;
        column->is_not_null = column->is_not_null || !is_nullable;
    }
    tide_table_uniques_done(table); /* which of them is the key is known only now */
    return tide_table_read_uniques(table, tx, err);
}

/* ---- the digest ---- */

tide_status tide_table_digest_schema(tide_table *table, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of((size_t)1 << 24);
    tide_status status = TIDE_OK;
    for (int i = 0; i < table->column_count && status == TIDE_OK; i++)
        status =
            tide_buffer_append(&text, table->columns[i].name, strlen(table->columns[i].name) + 1);
    for (int i = 0; i < table->key_count && status == TIDE_OK; i++)
        status = tide_buffer_append_u32(&text, (uint32_t)table->key[i]);
    TIDE_TRY(tide_buffer_check(status, err));
    const tide_digest128 digest = tide_digest128_of(tide_buffer_view(&text));
    table->schema = 0;
    for (int i = 0; i < 8; i++)
        table->schema = table->schema << 8 | digest.bytes[i];
    return TIDE_OK;
}

/* ---- reading ---- */

static tide_status make_room_for_texts(tide_table *table, tide_error *err)
{
    table->texts = calloc(TIDE_TABLE_STATEMENTS, sizeof *table->texts);
    table->some = calloc(TIDE_TABLE_STATEMENTS, sizeof *table->some);
    return table->texts && table->some ? TIDE_OK : tide_no_memory(err);
}

static bool is_ours(const char *name)
{
    return strncasecmp(name, "sqlite_", 7) == 0 || strncasecmp(name, "tide_", 5) == 0 ||
           strcasecmp(name, "replication_meta") == 0 ||
           strcasecmp(name, "replication_checkpoints") == 0;
}

/* The name as the schema writes it, and what kind of table it is. */
static tide_status find_table(tide_table *out, tide_foreign_tx *tx, const char *name,
                              tide_error *err)
{
    if (strlen(name) > TIDE_EVENT_TABLE_MAX)
        return tide_fail(err, TIDE_E_UNSUPPORTED, "a table's name has at most %d bytes",
                         TIDE_EVENT_TABLE_MAX);
    if (!name[0])
        return tide_fail(err, TIDE_E_UNSUPPORTED, "a table without a name cannot be replicated");
    if (is_ours(name))
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "%s is a table of SQLite's or Tidemark's own, not of the application",
                         name);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(&query, tx, TIDE_TEMPLATE_SCHEMA_FIND->text, err,
                                                  tide_bind_text("name", name));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no table %s", name);
    const bool is_view = tide_view_equal(tide_foreign_col_bytes(query), tide_view_of("view"));
    const tide_view exact = tide_foreign_col_bytes(query);
    if (is_view)
        return tide_fail(err, TIDE_E_UNSUPPORTED, "%s is a view: track the tables it shows", name);
    memcpy(out->name, exact.ptr, exact.len);
    out->name[exact.len] = '\0';
    return TIDE_OK;
}

static tide_status read_kind(tide_table *out, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx, TIDE_TEMPLATE_SCHEMA_KIND->text, err,
                          tide_bind_text("name", out->name));
    const tide_view kind = tide_foreign_col_bytes(query);
    if (!tide_view_equal(kind, tide_view_of("table")))
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "%s is a %.*s table: its module keeps its rows, in tables that can be "
                         "tracked if they have keys",
                         out->name, (int)kind.len, kind.ptr);
    out->is_without_rowid = tide_foreign_col_i64(query) != 0;
    out->is_strict = tide_foreign_col_i64(query) != 0;
    return TIDE_OK;
}

static tide_status read_table(tide_table *out, tide_foreign_tx *tx, const char *name,
                              tide_error *err)
{
    bool is_integer = false;
    TIDE_TRY(find_table(out, tx, name, err));
    TIDE_TRY(read_kind(out, tx, err));
    TIDE_TRY(read_columns(out, tx, &is_integer, err));
    TIDE_TRY(choose_key(out, tx, is_integer, err));
    TIDE_TRY(tide_table_read_foreign(out, tx, err));
    TIDE_TRY(make_room_for_texts(out, err));
    return tide_table_digest_schema(out, err);
}

tide_status tide_table_read(tide_table *out, tide_foreign_tx *tx, const char *name, tide_error *err)
{
    *out = (tide_table){0};
    const tide_status status = read_table(out, tx, name, err);
    if (status < TIDE_OK)
        tide_table_done(out);
    return status;
}

/* ---- what was recorded ---- */

/* name, key position, not null, affinity, fallback */
static tide_status take_recorded(tide_table *table, tide_foreign_query *query, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *name = tide_table_copy(tide_foreign_col_bytes(query));
    const int64_t key_position = tide_foreign_col_i64(query);
    const bool is_not_null = tide_foreign_col_i64(query) != 0;
    const tide_view affinity = tide_foreign_col_bytes(query);
    const bool has_fallback = !tide_foreign_col_is_null(query);
    tide_affinity found = TIDE_AFFINITY_NONE;
    while (found < TIDE_AFFINITY_TEXT &&
           !tide_view_equal(affinity, tide_view_of(affinity_names[found])))
        found++;
    TIDE_CLEANUP(tide_freep) char *fallback = tide_table_copy(tide_foreign_col_bytes(query));
    if (key_position < 0 || key_position > TIDE_EVENT_KEY_MAX ||
        table->column_count == TIDE_TABLE_COLUMNS_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "tide_replica_columns: table %s", table->name);
    tide_table_column *column = name && fallback ? grow_columns(table) : NULL;
    TIDE_NEED_MEMORY(column, err);
    column->name = TIDE_TAKE(name);
    column->is_not_null = is_not_null;
    column->affinity = found;
    column->is_key = key_position > 0;
    if (has_fallback)
        column->fallback = TIDE_TAKE(fallback);
    if (key_position > 0) {
        table->key[key_position - 1] = table->column_count - 1;
        if (key_position > table->key_count)
            table->key_count = (int)key_position;
    }
    return TIDE_OK;
}

static tide_status read_recorded(tide_table *table, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_REPLICA_COLUMNS->text, err,
                       tide_bind_i64("table_id", table->id));
    TIDE_EACH(tide_foreign_step(query, err))
        TIDE_TRY(take_recorded(table, query, err));
    if (table->key_count == 0)
        return tide_fail(err, TIDE_E_DAMAGED, "tide_replica_columns: table %s has no key",
                         table->name);
    return TIDE_OK;
}

/* id, name, is_tracked, schema, retain_us. TIDE_NONE: not tracked, or with is_any: never was. */
static tide_status read_row(tide_table *out, tide_foreign_tx *tx, const char *name, bool is_any,
                            tide_error *err)
{
    TIDE_FOREIGN_QUERY_ONE(query, tx, TIDE_TEMPLATE_REPLICA_TABLE_FIND->text, err,
                           tide_bind_text("name", name));
    out->id = tide_foreign_col_i64(query);
    const tide_view exact = tide_foreign_col_bytes(query);
    if (exact.len > TIDE_EVENT_TABLE_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "tide_replica_tables: a name of %zu bytes",
                         exact.len);
    memcpy(out->name, exact.ptr, exact.len);
    out->name[exact.len] = '\0';
    if (tide_foreign_col_i64(query) == 0 && !is_any)
        return TIDE_NONE;
    out->schema = (uint64_t)tide_foreign_col_i64(query);
    out->retain_us = tide_foreign_col_i64(query);
    return TIDE_OK;
}

static tide_status read_tracked(tide_table *out, tide_foreign_tx *tx, const char *name,
                                tide_error *err)
{
    TIDE_TRY_FOUND(read_row(out, tx, name, false, err));
    TIDE_TRY(read_recorded(out, tx, err));
    TIDE_TRY(make_room_for_texts(out, err));
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status is_there = tide_foreign_first(&query, tx, TIDE_TEMPLATE_SCHEMA_KIND->text,
                                                    err, tide_bind_text("name", out->name));
    out->is_absent = is_there == TIDE_NONE; /* check says so */
    if (is_there != TIDE_OK)
        return is_there < TIDE_OK ? is_there : TIDE_OK;
    (void)tide_foreign_col_bytes(query);
    out->is_without_rowid = tide_foreign_col_i64(query) != 0;
    out->is_strict = tide_foreign_col_i64(query) != 0;
    TIDE_TRY(tide_table_read_uniques(out, tx, err));
    TIDE_TRY(tide_table_read_foreign(out, tx, err));
    for (int i = 0; i < out->foreign_count; i++) {
        tide_table parent = {0};
        out->foreign[i].is_tracked =
            read_row(&parent, tx, out->foreign[i].parent, false, NULL) == TIDE_OK;
    }
    return TIDE_OK;
}

tide_status tide_table_find(tide_table *out, tide_foreign_tx *tx, const char *name, tide_error *err)
{
    *out = (tide_table){0};
    const tide_status status = read_tracked(out, tx, name, err);
    if (status != TIDE_OK)
        tide_table_done(out);
    return status;
}

tide_status tide_table_find_absent(tide_table *out, tide_foreign_tx *tx, const char *name,
                                   tide_error *err)
{
    *out = (tide_table){0};
    tide_status status = read_row(out, tx, name, true, err);
    if (status == TIDE_OK)
        status = read_recorded(out, tx, err);
    if (status == TIDE_OK)
        status = make_room_for_texts(out, err);
    out->is_absent = true;
    if (status != TIDE_OK)
        tide_table_done(out);
    return status;
}

tide_status tide_table_list(tide_foreign_tx *tx, tide_table_fn *fn, void *arg, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_REPLICA_TABLE_LIST->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_CLEANUP(tide_freep) char *name = tide_table_copy(tide_foreign_col_bytes(query));
        TIDE_NEED_MEMORY(name, err);
        TIDE_CLEANUP(tide_table_done) tide_table table = {0};
        TIDE_TRY(tide_table_find(&table, tx, name, err));
        TIDE_TRY(fn(arg, &table, err));
    }
    return TIDE_OK;
}
