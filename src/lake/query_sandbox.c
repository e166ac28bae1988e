#include "lake/query_sandbox.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/utf8.h"
#include "lake/data_parts.h"
#include "lake/lake_parts.h"
#include "tidemark_lake_duck.h"

/* What DuckDB calls the database of an instance in memory, and names that it reserves. */
static const char home[] = "memory";
static const char *const reserved[] = {"system", "temp", "main"};

/* An instance with the objects of a query in it. Opening one takes milliseconds, so the last one is
 * kept for the next query that names the same objects and files. */
typedef struct tide_lake_box {
    tide_duckdb *db;
    tide_duck *duck;
    tide_buffer key; /* objects and files */
} sandbox;

void tide_lake_box_free(sandbox *s)
{
    if (!s)
        return;
    tide_duck_close(s->duck);
    tide_duckdb_close(s->db);
    tide_buffer_done(&s->key);
    free(s);
}

/* Texts end with a NUL, which none of them has inside. */
static tide_status put_text(tide_buffer *key, const char *text)
{
    return tide_buffer_append(key, text, strlen(text) + 1);
}

static tide_status put_key(tide_buffer *key, const tide_lake_sandbox_query *query)
{
    for (int i = 0; i < query->object_count; i++) {
        const tide_lake_sandbox_object *object = &query->objects[i];
        const char kind[] = {object->is_table ? 't' : 'v', object->is_default ? 'd' : '-', '\0'};
        TIDE_TRY(put_text(key, kind));
        TIDE_TRY(put_text(key, object->catalog));
        TIDE_TRY(put_text(key, object->schema));
        TIDE_TRY(put_text(key, object->name));
        TIDE_TRY(put_text(key, object->sql));
    }
    TIDE_TRY(put_text(key, "files"));
    for (int i = 0; i < query->path_count; i++)
        TIDE_TRY(put_text(key, query->paths[i]));
    return TIDE_OK;
}

/* ---- objects ---- */

/* Which of DuckDB's databases a catalog is. One with a reserved name is found without its name alone. */
static const char *database_of(const tide_lake_sandbox_object *object)
{
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (tide_lake_same_name(reserved[i], object->catalog))
            return object->is_default ? home : NULL;
    return tide_lake_same_name(object->catalog, home) ? home : object->catalog;
}

static tide_status attach(sandbox *s, const tide_lake_sandbox_query *query, tide_error *err)
{
    const tide_lake_sandbox_object *objects = query->objects;
    for (int i = 0; i < query->object_count; i++) {
        const char *database = database_of(&objects[i]);
        if (!database)
            return tide_fail(err, TIDE_E_UNSUPPORTED,
                             "DuckDB has a database %s of its own; query with that catalog as the "
                             "default, and without its name",
                             objects[i].catalog);
        bool is_new = database != home;
        for (int k = 0; k < i && is_new; k++)
            is_new = !tide_lake_same_name(objects[k].catalog, objects[i].catalog);
        if (!is_new)
            continue;
        const tide_template_value value = {.hole = "catalog", .name = database};
        const tide_template_context context = {.values = &value, .value_count = 1};
        TIDE_TRY(tide_lake_run_made(s->duck, TIDE_TEMPLATE_DUCK_ATTACH, &context, err));
    }
    return TIDE_OK;
}

static tide_status make_view(sandbox *s, const tide_lake_sandbox_object *object,
                             const char *database, tide_error *err)
{
    const tide_template_value values[] = {{.hole = "catalog", .name = database},
                                          {.hole = "schema", .name = object->schema},
                                          {.hole = "view", .name = object->name}};
    const tide_template_list list = TIDE_LAKE_PIECE("scan", object->sql);
    const tide_template_context context = {
        .values = values, .value_count = 3, .lists = &list, .list_count = 1};
    TIDE_TRY(tide_lake_run_made(s->duck, TIDE_TEMPLATE_DUCK_SCHEMA, &context, err));
    return tide_lake_run_made(s->duck, TIDE_TEMPLATE_DUCK_VIEW, &context, err);
}

/* The same without its catalog's name. */
static tide_status make_alias(sandbox *s, const tide_lake_sandbox_object *object, tide_error *err)
{
    const tide_template_value values[] = {{.hole = "home", .name = home},
                                          {.hole = "catalog", .name = home},
                                          {.hole = "schema", .name = object->schema},
                                          {.hole = "view", .name = object->name}};
    const tide_template_context schema = {.values = values, .value_count = 4};
    TIDE_TRY(tide_lake_run_made(s->duck, TIDE_TEMPLATE_DUCK_SCHEMA, &schema, err));
    const tide_template_value original[] = {{.hole = "home", .name = home},
                                            {.hole = "catalog", .name = object->catalog},
                                            {.hole = "schema", .name = object->schema},
                                            {.hole = "view", .name = object->name}};
    const tide_template_context context = {.values = original, .value_count = 4};
    return tide_lake_run_made(s->duck, TIDE_TEMPLATE_DUCK_VIEW_ALIAS, &context, err);
}

static tide_status add_object(sandbox *s, const tide_lake_sandbox_object *object, tide_error *err)
{
    const char *database = database_of(object);
    const tide_status status = make_view(s, object, database, err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "%s.%s.%s", object->catalog, object->schema,
                                 object->name);
    return object->is_default && database != home ? make_alias(s, object, err) : TIDE_OK;
}

/* ---- read-only ---- */

/* Behind EXPLAIN and its ANALYZE. */
static const char *skip_explain(const char *text)
{
    static const char *const words[] = {"EXPLAIN", "ANALYZE"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *at = text + strspn(text, " \t\r\n");
        const size_t len = strlen(words[i]);
        if (strncasecmp(at, words[i], len) != 0 || !isspace((unsigned char)at[len]))
            break;
        text = at + len;
    }
    return text;
}

/* *is_plain (may be NULL): it calls no function that could show or leave something in the instance. */
static tide_status check_reads(tide_lake_data *data, const char *text, bool *is_plain,
                               tide_error *err)
{
    if (!tide_utf8_valid(tide_view_of(text)))
        return tide_fail(err, TIDE_E_INVALID, "the query is not UTF-8");
    TIDE_DUCK_QUERY(query, data->duck, TIDE_LAKE_DUCK_PARSED, err);
    tide_duck_bind_text(query, "text", text);
    const tide_status status = tide_duck_query_step(query, err);
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : tide_fail(err, TIDE_E_FAILED, "DuckDB returned no row");
    const bool reads = tide_duck_col_is_null(query);
    const tide_view words = tide_duck_col_text(query);
    const tide_view kind = tide_duck_col_text(query);
    const int64_t statements = tide_duck_col_i64(query);
    const bool has_effect = !tide_duck_col_is_null(query);
    const tide_view effect = tide_duck_col_text(query);
    const int64_t others = tide_duck_col_i64(query);
    if (reads && has_effect)
        return tide_fail(err, TIDE_E_DENIED, "a query only reads: %.*s() is refused",
                         (int)effect.len, effect.ptr);
    if (is_plain)
        *is_plain = others == 0;
    if (reads && statements == 1)
        return TIDE_OK;
    if (reads)
        return tide_fail(err, TIDE_E_INVALID, "%lld statements, want one", (long long)statements);
    if (tide_view_equal(kind, tide_view_of("not implemented")))
        return tide_fail(
            err, TIDE_E_DENIED,
            "only statements that read are allowed here (SELECT, and PIVOT within one)");
    if (tide_view_equal(words, tide_view_of("NameListToString NOT IMPLEMENTED")))
        return tide_fail(err, TIDE_E_INVALID,
                         "a name has more than three parts, want CATALOG.SCHEMA.TABLE (a part with "
                         "a dot goes in double quotes)");
    return tide_fail(err, TIDE_E_INVALID, "%.*s", (int)words.len, words.ptr);
}

/* ---- run ---- */

static tide_status fill_box(tide_lake_data *data, sandbox *s, const tide_lake_sandbox_query *query,
                            tide_error *err)
{
    TIDE_TRY(tide_lake_open_box(data, &s->db, &s->duck, err));
    TIDE_TRY(attach(s, query, err));
    for (int i = 0; i < query->object_count; i++)
        if (query->objects[i].is_table)
            TIDE_TRY(add_object(s, &query->objects[i], err));
    TIDE_TRY(tide_lake_seal_box(s->duck, query->paths, query->path_count, err));
    for (int i = 0; i < query->object_count; i++) /* texts of callers, too */
        if (!query->objects[i].is_table)
            TIDE_TRY(add_object(s, &query->objects[i], err));
    return TIDE_OK;
}

/* The kept box, if it has these objects and files; else a new one. A box is shown to plain texts
 * alone, and kept behind one that succeeded. */
static tide_status take_box(tide_lake_data *data, const tide_lake_sandbox_query *query,
                            bool is_plain, sandbox **out, tide_error *err)
{
    TIDE_CLEANUP(tide_lake_box_freep) sandbox *kept = TIDE_TAKE(data->box);
    TIDE_CLEANUP(tide_lake_box_freep) TIDE_NEW(sandbox, fresh, err);
    tide_buffer_init(&fresh->key, TIDE_LAKE_ARENA_MAX);
    if (put_key(&fresh->key, query) < TIDE_OK)
        return tide_no_memory(err);
    if (kept && is_plain &&
        tide_view_equal(tide_buffer_view(&kept->key), tide_buffer_view(&fresh->key))) {
        *out = TIDE_TAKE(kept);
        return TIDE_OK;
    }
    tide_lake_box_free(TIDE_TAKE(kept));
    TIDE_TRY(fill_box(data, fresh, query, err));
    *out = TIDE_TAKE(fresh);
    return TIDE_OK;
}

static tide_status run(tide_lake_data *data, const tide_lake_sandbox_query *query, tide_error *err)
{
    TIDE_CLEANUP(tide_lake_box_freep) sandbox *s = NULL;
    bool is_plain = false;
    if (!query->is_checked)
        TIDE_TRY(check_reads(data, skip_explain(query->text), &is_plain, err));
    for (int i = 0; i < query->object_count && is_plain; i++)
        if (!query->objects[i].is_table)
            TIDE_TRY(check_reads(data, query->objects[i].sql, &is_plain, err));
    TIDE_TRY(take_box(data, query, is_plain, &s, err));
    const tide_duck_ask inner = {
        .text = query->text,
        .row_max = query->row_max,
        .bytes_max = query->bytes_max,
        .timeout_us = query->timeout_us,
        .columns = query->columns,
        .row = query->row,
        .arg = query->arg,
    };
    TIDE_TRY(tide_duckdb_ask(s->db, &inner, err));
    if (is_plain)
        data->box = TIDE_TAKE(s);
    return TIDE_OK;
}

tide_status tide_lake_sandbox_run(tide_lake_data *data, const tide_lake_sandbox_query *query,
                                  tide_error *err)
{
    if (data->runner)
        return data->runner->run(data->runner->arg, query, err);
    const tide_status status = run(data, query, err);
    return tide_lake_blame_files(query->paths, query->path_count, status, err);
}

tide_status tide_lake_sandbox_parse(tide_lake_data *data, const char *text, bool *is_statement,
                                    tide_error *err)
{
    if (data->runner)
        return data->runner->parse(data->runner->arg, text, is_statement, err);
    *is_statement = tide_duck_is_statement(data->duck, text);
    return TIDE_OK;
}

/* ---- describe ---- */

typedef struct description {
    tide_lake_sandbox_object *objects;
    tide_arena arena;
    const char **paths;
    int path_count;
} description;

static void description_done(description *d)
{
    tide_arena_done(&d->arena);
    free(d->objects);
    free(d->paths);
}

static tide_status copy_text(description *d, const char *text, const char **out, tide_error *err)
{
    *out = tide_arena_text(&d->arena, tide_view_of(text));
    return *out ? TIDE_OK : tide_no_memory(err);
}

static tide_status describe_table(description *d, const tide_lake_data *data,
                                  const tide_lake_shown *shown, tide_lake_sandbox_object *out,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_lake_scan_done) tide_lake_scan scan = {0};
    TIDE_TRY(tide_lake_scan_make(&scan, data, shown->table, shown->files, false, err));
    TIDE_TRY(copy_text(d, tide_buffer_text(&scan.text), &out->sql, err));
    for (int i = 0; i < scan.path_count; i++) {
        TIDE_TRY(tide_list_room(&d->paths, d->path_count, sizeof *d->paths, TIDE_LIST_MAX, err));
        TIDE_TRY(copy_text(d, scan.paths[i], &d->paths[d->path_count], err));
        d->path_count++;
    }
    return TIDE_OK;
}

static tide_status describe(description *d, const tide_lake_data *data,
                            const tide_lake_shown *shown, int count, tide_error *err)
{
    TIDE_ALLOC(d->objects, (size_t)count + 1, err);
    for (int i = 0; i < count; i++) {
        const bool is_table = shown[i].table != NULL;
        d->objects[i] = (tide_lake_sandbox_object){
            .catalog = shown[i].catalog,
            .schema = shown[i].schema,
            .name = is_table ? shown[i].table->table.name : shown[i].view_name,
            .sql = shown[i].view_sql,
            .is_table = is_table,
            .is_default = shown[i].is_default,
        };
        if (is_table)
            TIDE_TRY(describe_table(d, data, &shown[i], &d->objects[i], err));
    }
    return TIDE_OK;
}

tide_status tide_lake_ask_shown(tide_lake_data *data, const tide_lake_shown *shown, int count,
                                const tide_lake_ask *ask, tide_error *err)
{
    TIDE_CLEANUP(description_done) description d = {0};
    tide_arena_init(&d.arena, TIDE_LAKE_ARENA_MAX);
    TIDE_TRY(describe(&d, data, shown, count, err));
    const tide_lake_sandbox_query query = {
        .text = ask->text,
        .objects = d.objects,
        .object_count = count,
        .paths = d.paths,
        .path_count = d.path_count,
        .row_max = ask->row_max,
        .bytes_max = ask->bytes_max,
        .timeout_us = ask->timeout_us,
        .columns = ask->columns,
        .row = ask->row,
        .arg = ask->arg,
    };
    return tide_lake_sandbox_run(data, &query, err);
}

/* ---- names ---- */

static void copy_part(char out[TIDE_LAKE_NAME_MAX + 1], tide_view text, bool *fits)
{
    *fits = *fits && text.len <= TIDE_LAKE_NAME_MAX && !memchr(text.ptr, '\0', text.len);
    const size_t len = *fits ? text.len : 0;
    memcpy(out, text.ptr, len);
    out[len] = '\0';
}

tide_status tide_lake_each_name(tide_lake_data *data, const char *text, tide_lake_name_fn *fn,
                                void *arg, tide_error *err)
{
    if (data->runner)
        return data->runner->each_name(data->runner->arg, text, fn, arg, err);
    const char *reading = skip_explain(text);
    TIDE_TRY(check_reads(data, reading, NULL, err));
    TIDE_DUCK_QUERY(query, data->duck, TIDE_LAKE_DUCK_NAMES, err);
    tide_duck_bind_text(query, "text", reading);
    TIDE_EACH(tide_duck_query_step(query, err)) {
        tide_lake_name name;
        bool fits = true;
        copy_part(name.catalog, tide_duck_col_text(query), &fits);
        copy_part(name.schema, tide_duck_col_text(query), &fits);
        copy_part(name.object, tide_duck_col_text(query), &fits);
        if (fits) /* nothing has a longer name: DuckDB reports it as missing */
            TIDE_TRY(fn(arg, &name, err));
    }
    return TIDE_OK;
}
