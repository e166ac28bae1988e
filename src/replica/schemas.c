#include "replica/schemas.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "replica/references.h"
#include "tidemark_templates.h"

enum { NAMES_BYTES_MAX = 4 << 20, NAME_SIZE = 1024 };

/* ---- lists of names: with NUL between ---- */

typedef struct names {
    tide_view bytes;
    size_t at;
    bool is_over;
} names;

static names names_of(tide_view bytes)
{
    return (names){.bytes = bytes, .is_over = bytes.len == 0};
}

static bool next_name(names *list, tide_view *out)
{
    if (list->is_over)
        return false;
    const char *begin = list->bytes.ptr + list->at;
    const size_t left = list->bytes.len - list->at;
    const char *end = left > 0 ? memchr(begin, '\0', left) : NULL;
    *out = tide_view_bytes(begin, end ? (size_t)(end - begin) : left);
    list->is_over = !end;
    list->at += out->len + 1;
    return true;
}

static bool is_named(tide_view name, const char *text)
{
    return strlen(text) == name.len && strncasecmp(name.ptr, text, name.len) == 0;
}

static int find_column(const tide_table *table, tide_view name)
{
    for (int i = 0; i < table->column_count; i++)
        if (is_named(name, table->columns[i].name))
            return i;
    return TIDE_SCHEMA_COLUMN_NONE;
}

/* ---- the counter ---- */

tide_status tide_schemas_counter(int64_t *out, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status =
        tide_foreign_first(&query, tx, TIDE_TEMPLATE_SCHEMAS_COUNTER->text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    *out = status == TIDE_OK ? tide_foreign_col_i64(query) : 0;
    return TIDE_OK;
}

static tide_status schemas_raise(tide_foreign_tx *tx, tide_error *err)
{
    return tide_foreign_exec(tx, TIDE_TEMPLATE_SCHEMAS_RAISE->text, NULL, err, TIDE_NO_BIND);
}

/* ---- what this node has itself ---- */

static tide_status put_names(tide_buffer *out, tide_buffer *key, const tide_table *table,
                             tide_error *err)
{
    tide_status status = TIDE_OK;
    for (int i = 0; i < table->column_count && status == TIDE_OK; i++) {
        const char *name = table->columns[i].name;
        status = tide_buffer_append(out, name, strlen(name) + (i + 1 < table->column_count));
    }
    for (int i = 0; i < table->key_count && status == TIDE_OK; i++)
        status = tide_buffer_append_u32(key, (uint32_t)table->key[i]);
    return tide_buffer_check(status, err);
}

tide_status tide_schemas_put(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer columns = tide_buffer_of(NAMES_BYTES_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer key = tide_buffer_of(NAMES_BYTES_MAX);
    TIDE_TRY(put_names(&columns, &key, table, err));
    TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_SCHEMAS_PUT->text, NULL, err,
                               tide_bind_text("table_name", table->name),
                               tide_bind_i64("schema", (int64_t)table->schema),
                               tide_bind_blob("columns", tide_buffer_view(&columns)),
                               tide_bind_blob("key_columns", tide_buffer_view(&key))));
    return schemas_raise(tx, err);
}

/* TIDE_NONE: not known. *out: what its columns are called now; until the query ends. */
static tide_status find_names(tide_view *out, tide_foreign_query **query, tide_foreign_tx *tx,
                              const char *table, uint64_t schema, tide_error *err)
{
    TIDE_TRY(tide_foreign_start(query, tx, TIDE_TEMPLATE_SCHEMAS_FIND->text, err,
                                tide_bind_text("table_name", table),
                                tide_bind_i64("schema", (int64_t)schema)));
    const tide_status status = tide_foreign_step(*query, err);
    if (status == TIDE_OK)
        *out = tide_foreign_col_bytes(*query);
    return status;
}

tide_status tide_schemas_map(int map[TIDE_EVENT_COLUMNS_MAX], tide_foreign_tx *tx,
                             const tide_table *table, uint64_t schema, tide_error *err)
{
    const bool is_same = schema == table->schema;
    for (int i = 0; i < TIDE_EVENT_COLUMNS_MAX; i++)
        map[i] = is_same && i < table->column_count ? i : TIDE_SCHEMA_COLUMN_NONE;
    if (is_same)
        return TIDE_OK;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    tide_view bytes = {.len = 0};
    TIDE_TRY_FOUND(find_names(&bytes, &query, tx, table->name, schema, err));
    names list = names_of(bytes);
    tide_view name;
    for (int i = 0; i < TIDE_EVENT_COLUMNS_MAX && next_name(&list, &name); i++)
        map[i] = name.len == 0 ? TIDE_SCHEMA_COLUMN_DROPPED : find_column(table, name);
    return TIDE_OK;
}

tide_status tide_schemas_columns(tide_view *columns, tide_view *key, tide_foreign_query **query,
                                 tide_foreign_tx *tx, const char *table, uint64_t schema,
                                 tide_error *err)
{
    TIDE_TRY(tide_foreign_start(query, tx, TIDE_TEMPLATE_SCHEMAS_COLUMNS->text, err,
                                tide_bind_text("table_name", table),
                                tide_bind_i64("schema", (int64_t)schema)));
    TIDE_TRY_FOUND(tide_foreign_step(*query, err));
    *columns = tide_foreign_col_bytes(*query);
    *key = tide_foreign_col_bytes(*query);
    return TIDE_OK;
}

tide_view tide_schemas_name(tide_view columns, int position)
{
    names list = names_of(columns);
    tide_view name = {.len = 0};
    for (int i = 0; next_name(&list, &name); i++)
        if (i == position)
            return name;
    return (tide_view){.len = 0};
}

/* ---- renamed and dropped columns ---- */

static tide_status follow_names(tide_buffer *out, tide_view bytes, const tide_table *before,
                                const tide_table *after, const int *map)
{
    names list = names_of(bytes);
    tide_view name;
    for (bool is_first = true; next_name(&list, &name); is_first = false) {
        const int column = name.len > 0 ? find_column(before, name) : TIDE_SCHEMA_COLUMN_NONE;
        if (!is_first)
            TIDE_TRY(tide_buffer_append(out, "", 1));
        if (column < 0)
            TIDE_TRY(tide_buffer_append_view(out, name)); /* of a schema that is not here yet */
        else if (map[column] >= 0)
            TIDE_TRY(tide_buffer_append_text(out, after->columns[map[column]].name));
    }
    return TIDE_OK;
}

static tide_status store_becomes(tide_foreign_tx *tx, const char *table, int64_t schema,
                                 tide_view becomes, tide_error *err)
{
    return tide_foreign_exec(tx, TIDE_TEMPLATE_SCHEMAS_BECOMES->text, NULL, err,
                             tide_bind_text("table_name", table), tide_bind_i64("schema", schema),
                             tide_bind_blob("becomes", becomes));
}

tide_status tide_schemas_follow(tide_foreign_tx *tx, const tide_table *before,
                                const tide_table *after, const int *map, tide_error *err)
{
    bool is_any = false;
    for (int i = 0; i < before->column_count; i++)
        is_any = is_any || map[i] < 0 ||
                 strcasecmp(before->columns[i].name, after->columns[map[i]].name) != 0;
    if (!is_any)
        return TIDE_OK;
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMAS_LIST->text, err,
                       tide_bind_text("table_name", before->name));
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer becomes = tide_buffer_of(NAMES_BYTES_MAX);
        const int64_t schema = tide_foreign_col_i64(query);
        (void)tide_foreign_col_bytes(query);
        if (follow_names(&becomes, tide_foreign_col_bytes(query), before, after, map) < TIDE_OK)
            return tide_no_memory(err);
        TIDE_TRY(store_becomes(tx, before->name, schema, tide_buffer_view(&becomes), err));
    }
    return schemas_raise(tx, err);
}

tide_status tide_schemas_had(bool *out, tide_foreign_tx *tx, const tide_table *table,
                             const char *name, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMAS_LIST->text, err,
                       tide_bind_text("table_name", table->name));
    *out = false;
    TIDE_EACH(tide_foreign_step(query, err)) {
        (void)tide_foreign_col_i64(query);
        names was = names_of(tide_foreign_col_bytes(query));
        names is = names_of(tide_foreign_col_bytes(query));
        tide_view before;
        tide_view after;
        while (next_name(&was, &before) && next_name(&is, &after))
            *out = *out || (after.len == 0 && is_named(before, name));
    }
    return TIDE_OK;
}

/* ---- renamed tables ---- */

static tide_status put_former(tide_foreign_tx *tx, int64_t table_id, const char *name,
                              int64_t *changed, tide_error *err)
{
    return tide_foreign_exec(tx, TIDE_TEMPLATE_NAMES_PUT->text, changed, err,
                             tide_bind_i64("table_id", table_id), tide_bind_text("name", name));
}

static tide_status run_renaming(tide_foreign_tx *tx, const char *text, int64_t table_id,
                                const char *before, const char *after, tide_error *err)
{
    return tide_foreign_exec(tx, text, NULL, err, tide_bind_i64("table_id", table_id),
                             tide_bind_text("before", before), tide_bind_text("after", after));
}

tide_status tide_schemas_rename(tide_foreign_tx *tx, int64_t table_id, const char *before,
                                const char *after, tide_error *err)
{
    TIDE_TRY(run_renaming(tx, TIDE_TEMPLATE_NAMES_RENAME->text, table_id, before, after, err));
    TIDE_TRY(run_renaming(tx, TIDE_TEMPLATE_SCHEMAS_RENAME->text, table_id, before, after, err));
    TIDE_TRY(run_renaming(tx, TIDE_TEMPLATE_NAMES_CUT->text, table_id, before, after, err));
    TIDE_TRY(put_former(tx, table_id, before, NULL, err));
    TIDE_TRY(run_renaming(tx, TIDE_TEMPLATE_NAMES_NOTE->text, table_id, before, after, err));
    return schemas_raise(tx, err);
}

/* ---- peers ---- */

tide_status tide_schemas_tell(tide_foreign_tx *tx, int64_t table_id, const char *name,
                              tide_peer_table *out, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *former = NULL;
    TIDE_TRY(tide_foreign_start(&query, tx, TIDE_TEMPLATE_SCHEMAS_LIST->text, err,
                                tide_bind_text("table_name", name)));
    tide_status status = TIDE_OK;
    while ((status = tide_foreign_step(query, err)) == TIDE_OK) {
        const uint64_t schema = (uint64_t)tide_foreign_col_i64(query);
        const tide_view columns = tide_foreign_col_bytes(query);
        const tide_view becomes = tide_foreign_col_bytes(query);
        const tide_view key = tide_foreign_col_bytes(query);
        if (key.len > 0)
            TIDE_TRY(tide_peer_table_add_schema(out, schema, columns, becomes, key, err));
    }
    TIDE_TRY(status);
    TIDE_TRY(tide_foreign_start(&former, tx, TIDE_TEMPLATE_NAMES_LIST->text, err,
                                tide_bind_i64("table_id", table_id)));
    while ((status = tide_foreign_step(former, err)) == TIDE_OK)
        TIDE_TRY(tide_peer_table_add_former(out, tide_foreign_col_bytes(former), err));
    return status < TIDE_OK ? status : TIDE_OK;
}

static size_t count_names(tide_view bytes)
{
    names list = names_of(bytes);
    tide_view name;
    size_t count = 0;
    while (next_name(&list, &name))
        count++;
    return count;
}

/* The digest is that of names and key (table.c): nobody can put other names under it. */
static tide_status check_schema(const tide_peer_table *table, const tide_peer_schema *schema,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of((size_t)NAMES_BYTES_MAX * 2);
    if (tide_buffer_append_view(&text, schema->columns) < TIDE_OK ||
        tide_buffer_append(&text, "", 1) < TIDE_OK ||
        tide_buffer_append_view(&text, schema->key) < TIDE_OK)
        return tide_fail(err, TIDE_E_LIMIT, "a schema of table '%s' is too long", table->name);
    const tide_digest128 digest = tide_digest128_of(tide_buffer_view(&text));
    uint64_t found = 0;
    for (int i = 0; i < 8; i++)
        found = found << 8 | digest.bytes[i];
    if (found != schema->schema || count_names(schema->columns) > TIDE_EVENT_COLUMNS_MAX ||
        count_names(schema->columns) != count_names(schema->becomes))
        return tide_fail(err, TIDE_E_INVALID,
                         "a schema of table '%s' does not fit its digest %016llx", table->name,
                         (unsigned long long)schema->schema);
    return TIDE_OK;
}

/* Is each of these names one of the table's, or of a column that was dropped? */
static bool is_understood(const tide_table *table, tide_view becomes)
{
    names list = names_of(becomes);
    tide_view name;
    while (next_name(&list, &name))
        if (name.len > 0 && find_column(table, name) < 0)
            return false;
    return true;
}

/* What both know, put together: a column that is here by what they say was renamed, though here, where nobody saw it, it looked like one that was dropped and
 * another that was added. Where ours is not understood and theirs is, theirs counts: they were there. *is_found: a column has been found again. */
static tide_status join_names(tide_buffer *out, const tide_table *table, tide_view ours,
                              tide_view theirs, bool *is_found)
{
    const bool is_ours = is_understood(table, ours) || !is_understood(table, theirs);
    names a = names_of(ours);
    names b = names_of(theirs);
    tide_view mine;
    tide_view other;
    *is_found = false;
    for (bool is_first = true; next_name(&a, &mine) && next_name(&b, &other); is_first = false) {
        const bool is_better = is_ours ? mine.len == 0 && find_column(table, other) >= 0 : true;
        *is_found = *is_found || (is_ours && is_better);
        if (!is_first)
            TIDE_TRY(tide_buffer_append(out, "", 1));
        TIDE_TRY(tide_buffer_append_view(out, is_better ? other : mine));
    }
    return TIDE_OK;
}

/* Events were merged without what they say of a column: once more. */
static tide_status merge_again(tide_foreign_tx *tx, const tide_table *table, tide_error *err)
{
    const tide_template *const steps[] = {TIDE_TEMPLATE_SCHEMAS_AGAIN,
                                          TIDE_TEMPLATE_SCHEMAS_AGAIN_MARK};
    for (size_t i = 0; i < sizeof steps / sizeof(tide_template *); i++) {
        TIDE_TRY(
            tide_foreign_exec(tx, steps[i]->text, NULL, err, tide_bind_i64("table_id", table->id)));
    }
    return TIDE_OK;
}

static tide_status learn_becomes(tide_foreign_tx *tx, const tide_table *table,
                                 const tide_peer_schema *schema, int64_t *learned, tide_error *err)
{
    bool is_found = false;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer joined = tide_buffer_of(NAMES_BYTES_MAX);
    {
        tide_view ours = {.len = 0};
        TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
        const tide_status status = find_names(&ours, &query, tx, table->name, schema->schema, err);
        TIDE_TRY(status);
        if (status != TIDE_OK || schema->schema == table->schema)
            return TIDE_OK;
        if (join_names(&joined, table, ours, schema->becomes, &is_found) < TIDE_OK)
            return tide_no_memory(err);
        if (tide_view_equal(ours, tide_buffer_view(&joined)))
            return TIDE_OK;
    }
    ++*learned;
    TIDE_TRY(
        store_becomes(tx, table->name, (int64_t)schema->schema, tide_buffer_view(&joined), err));
    return is_found ? merge_again(tx, table, err) : TIDE_OK;
}

static tide_status learn_schema(tide_foreign_tx *tx, const tide_peer_table *told, const char *name,
                                const tide_table *table, const tide_peer_schema *schema,
                                int64_t *learned, tide_error *err)
{
    int64_t changed = 0;
    TIDE_TRY(check_schema(told, schema, err));
    TIDE_TRY(tide_foreign_exec(
        tx, TIDE_TEMPLATE_SCHEMAS_LEARN->text, &changed, err, tide_bind_text("table_name", name),
        tide_bind_i64("schema", (int64_t)schema->schema),
        tide_bind_blob("columns", schema->columns), tide_bind_blob("becomes", schema->becomes),
        tide_bind_blob("key_columns", schema->key)));
    *learned += changed;
    return changed == 0 && table->id > 0 ? learn_becomes(tx, table, schema, learned, err) : TIDE_OK;
}

static tide_status learn_former(tide_foreign_tx *tx, const char *own, const char *name,
                                int64_t *learned, tide_error *err)
{
    int64_t changed = 0;
    TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_NAMES_LEARN->text, &changed, err,
                               tide_bind_text("table_name", own), tide_bind_text("name", name)));
    *learned += changed;
    return TIDE_OK;
}

/* What a name stands for here: a tracked table, or one that had it before. TIDE_NONE: nothing. */
static tide_status find_own(char out[TIDE_EVENT_TABLE_MAX + 1], tide_foreign_tx *tx,
                            const char *name, tide_error *err)
{
    const tide_template *const places[] = {TIDE_TEMPLATE_NAMES_OWN, TIDE_TEMPLATE_NAMES_STANDS};
    for (size_t i = 0; i < sizeof places / sizeof(tide_template *); i++) {
        TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
        const tide_status status =
            tide_foreign_first(&query, tx, places[i]->text, err, tide_bind_text("name", name));
        TIDE_TRY(status);
        if (status != TIDE_OK)
            continue;
        const tide_view found = tide_foreign_col_bytes(query);
        if (found.len > TIDE_EVENT_TABLE_MAX)
            continue;
        memcpy(out, found.ptr, found.len);
        out[found.len] = '\0';
        return TIDE_OK;
    }
    return TIDE_NONE;
}

tide_status tide_schemas_find_own(char out[TIDE_EVENT_TABLE_MAX + 1], tide_foreign_tx *tx,
                                  const tide_peer_table *table, tide_error *err)
{
    tide_status status = find_own(out, tx, table->name, err);
    for (int i = 0; status == TIDE_NONE && i < table->former_count; i++)
        status = find_own(out, tx, table->former[i], err);
    return status;
}

tide_status tide_schemas_learn(tide_foreign_tx *tx, const tide_peer_table *table, tide_error *err)
{
    int64_t learned = 0;
    char own[TIDE_EVENT_TABLE_MAX + 1];
    const tide_status status = tide_schemas_find_own(own, tx, table, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        (void)snprintf(own, sizeof own, "%s", table->name); /* for whoever tracks it later */
    TIDE_CLEANUP(tide_table_done) tide_table here = {.id = 0};
    TIDE_TRY(tide_table_find(&here, tx, own, err));
    for (int i = 0; i < table->schema_count; i++)
        TIDE_TRY(learn_schema(tx, table, own, &here, &table->schemas[i], &learned, err));
    for (int i = 0; i < table->former_count; i++)
        TIDE_TRY(learn_former(tx, own, table->former[i], &learned, err));
    if (strcmp(own, table->name) != 0) /* called otherwise here, or not renamed yet */
        TIDE_TRY(learn_former(tx, own, table->name, &learned, err));
    TIDE_TRY(tide_references_learn(tx, table, &here, err));
    return learned > 0 ? schemas_raise(tx, err) : TIDE_OK;
}
