/* A question over tables that are shown to it: an instance of DuckDB of its own, in which they are views, sealed before texts of others come in. */
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

/* What DuckDB calls the database of an instance in memory, and names that it lets nobody have. */
static const char home[] = "memory";
static const char *const taken[] = {"system", "temp", "main"};

typedef struct box {
    tide_lake_data *data;
    tide_duckdb *db;
    tide_duck *duck;
    tide_arena arena;
    const char **paths;
    int path_count;
} box;

static void close_box(box *b)
{
    tide_duck_close(b->duck);
    tide_duckdb_close(b->db);
    tide_arena_done(&b->arena);
    free(b->paths);
}

/* ---- what is shown ---- */

static tide_status keep_paths(box *b, const tide_lake_scan *scan, tide_error *err)
{
    for (int i = 0; i < scan->path_count; i++) {
        TIDE_TRY(tide_list_room(&b->paths, b->path_count, sizeof *b->paths, TIDE_LIST_MAX, err));
        const char *path = tide_arena_text(&b->arena, tide_view_of(scan->paths[i]));
        if (!path)
            return tide_no_memory(err);
        b->paths[b->path_count++] = path;
    }
    return TIDE_OK;
}

/* Which of DuckDB's databases a catalog is. One whose name is taken can be asked without its name alone. */
static const char *database_of(const tide_lake_shown *shown)
{
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (tide_lake_same_name(taken[i], shown->catalog))
            return shown->is_default ? home : NULL;
    return tide_lake_same_name(shown->catalog, home) ? home : shown->catalog;
}

static tide_status attach(box *b, const tide_lake_shown *shown, int count, tide_error *err)
{
    for (int i = 0; i < count; i++) {
        const char *database = database_of(&shown[i]);
        if (!database)
            return tide_fail(err, TIDE_E_UNSUPPORTED,
                             "DuckDB has a database %s of its own: ask with that catalog as the "
                             "default, and without its name",
                             shown[i].catalog);
        bool is_new = database != home;
        for (int k = 0; k < i && is_new; k++)
            is_new = !tide_lake_same_name(shown[k].catalog, shown[i].catalog);
        if (!is_new)
            continue;
        const tide_template_value value = {.hole = "catalog", .name = database};
        const tide_template_context context = {.values = &value, .value_count = 1};
        TIDE_TRY(tide_lake_run_made(b->duck, TIDE_TEMPLATE_DUCK_ATTACH, &context, err));
    }
    return TIDE_OK;
}

static tide_status make_view(box *b, const tide_lake_shown *shown, const char *catalog,
                             const char *name, const char *sql, tide_error *err)
{
    const tide_template_value values[] = {{.hole = "catalog", .name = catalog},
                                          {.hole = "schema", .name = shown->schema},
                                          {.hole = "view", .name = name}};
    const tide_template_list list = TIDE_LAKE_PIECE("scan", sql);
    const tide_template_context context = {
        .values = values, .value_count = 3, .lists = &list, .list_count = 1};
    TIDE_TRY(tide_lake_run_made(b->duck, TIDE_TEMPLATE_DUCK_SCHEMA, &context, err));
    return tide_lake_run_made(b->duck, TIDE_TEMPLATE_DUCK_VIEW, &context, err);
}

/* The same without its catalog's name. */
static tide_status make_alias(box *b, const tide_lake_shown *shown, const char *name,
                              tide_error *err)
{
    const tide_template_value values[] = {{.hole = "home", .name = home},
                                          {.hole = "catalog", .name = home},
                                          {.hole = "schema", .name = shown->schema},
                                          {.hole = "view", .name = name}};
    const tide_template_context schema = {.values = values, .value_count = 4};
    TIDE_TRY(tide_lake_run_made(b->duck, TIDE_TEMPLATE_DUCK_SCHEMA, &schema, err));
    const tide_template_value original[] = {{.hole = "home", .name = home},
                                            {.hole = "catalog", .name = shown->catalog},
                                            {.hole = "schema", .name = shown->schema},
                                            {.hole = "view", .name = name}};
    const tide_template_context context = {.values = original, .value_count = 4};
    return tide_lake_run_made(b->duck, TIDE_TEMPLATE_DUCK_VIEW_ALIAS, &context, err);
}

static tide_status show(box *b, const tide_lake_shown *shown, tide_error *err)
{
    const char *name = shown->table ? shown->table->table.name : shown->view_name;
    TIDE_CLEANUP(tide_lake_scan_done) tide_lake_scan scan = {0};
    const char *sql = shown->view_sql;
    if (shown->table) {
        TIDE_TRY(tide_lake_scan_make(&scan, b->data, shown->table, shown->files, false, err));
        TIDE_TRY(keep_paths(b, &scan, err));
        sql = tide_buffer_text(&scan.text);
    }
    const char *database = database_of(shown);
    const tide_status status = make_view(b, shown, database, name, sql, err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "%s.%s.%s", shown->catalog, shown->schema, name);
    if (shown->is_default && database != home)
        TIDE_TRY(make_alias(b, shown, name, err));
    return TIDE_OK;
}

/* ---- does it only read? ---- */

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

static tide_status check_reads(tide_lake_data *data, const char *text, tide_error *err)
{
    if (!tide_utf8_valid(tide_view_of(text)))
        return tide_fail(err, TIDE_E_INVALID, "the query is not UTF-8");
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;
    TIDE_TRY(tide_duck_query_begin(&query, data->duck, TIDE_LAKE_DUCK_PARSED, err));
    tide_duck_bind_text(query, "text", text);
    const tide_status status = tide_duck_query_step(query, err);
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : tide_fail(err, TIDE_E_FAILED, "DuckDB says nothing");
    const bool reads = tide_duck_col_is_null(query);
    const tide_view words = tide_duck_col_text(query);
    const tide_view kind = tide_duck_col_text(query);
    const int64_t statements = tide_duck_col_i64(query);
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

/* ---- the question ---- */

static tide_status run(box *b, const tide_lake_shown *shown, int count, const tide_lake_ask *ask,
                       tide_error *err)
{
    TIDE_TRY(check_reads(b->data, skip_explain(ask->text), err));
    TIDE_TRY(tide_lake_open_box(b->data, &b->db, &b->duck, err));
    TIDE_TRY(attach(b, shown, count, err));
    for (int i = 0; i < count; i++)
        if (shown[i].table)
            TIDE_TRY(show(b, &shown[i], err));
    TIDE_TRY(tide_lake_seal_box(b->duck, b->paths, b->path_count, err));
    for (int i = 0; i < count; i++) /* somebody's texts, too */
        if (!shown[i].table)
            TIDE_TRY(show(b, &shown[i], err));
    const tide_duck_ask inner = {
        .text = ask->text,
        .row_max = ask->row_max,
        .bytes_max = ask->bytes_max,
        .timeout_us = ask->timeout_us,
        .columns = ask->columns,
        .row = ask->row,
        .arg = ask->arg,
    };
    return tide_duckdb_ask(b->db, &inner, err);
}

tide_status tide_lake_ask_shown(tide_lake_data *data, const tide_lake_shown *shown, int count,
                                const tide_lake_ask *ask, tide_error *err)
{
    box b = {.data = data};
    tide_arena_init(&b.arena, TIDE_LAKE_ARENA_MAX);
    tide_status status = run(&b, shown, count, ask, err);
    status = tide_lake_blame_files(b.paths, b.path_count, status, err);
    close_box(&b);
    return status;
}

/* ---- names ---- */

static void take_part(char out[TIDE_LAKE_NAME_MAX + 1], tide_view text, bool *fits)
{
    *fits = *fits && text.len <= TIDE_LAKE_NAME_MAX && !memchr(text.ptr, '\0', text.len);
    const size_t len = *fits ? text.len : 0;
    memcpy(out, text.ptr, len);
    out[len] = '\0';
}

tide_status tide_lake_each_name(tide_lake_data *data, const char *text, tide_lake_name_fn *fn,
                                void *arg, tide_error *err)
{
    const char *reading = skip_explain(text);
    TIDE_TRY(check_reads(data, reading, err));
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;
    TIDE_TRY(tide_duck_query_begin(&query, data->duck, TIDE_LAKE_DUCK_NAMES, err));
    tide_duck_bind_text(query, "text", reading);
    TIDE_EACH(tide_duck_query_step(query, err)) {
        tide_lake_name name;
        bool fits = true;
        take_part(name.catalog, tide_duck_col_text(query), &fits);
        take_part(name.schema, tide_duck_col_text(query), &fits);
        take_part(name.object, tide_duck_col_text(query), &fits);
        if (fits) /* nothing has a longer name: DuckDB will say that it is not there */
            TIDE_TRY(fn(arg, &name, err));
    }
    return TIDE_OK;
}
