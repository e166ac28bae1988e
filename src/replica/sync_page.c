/* sync_page.c - what peers exchange: marks and pages, checked when they are made, whoever made them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replica/sync.h"

#include "base/cleanup.h"
#include "base/list.h"

/* ---- marks ---- */

static void free_table(tide_peer_table *table)
{
    for (int i = 0; i < table->schema_count; i++)
        free((void *)table->schemas[i].columns.ptr); /* one piece holds all three */
    free(table->schemas);
    for (int i = 0; i < table->former_count; i++)
        free(table->former[i]);
    free((void *)table->former);
    free((void *)table->loose.ptr);
    for (char **sql = table->sql; sql && *sql; sql++)
        free(*sql);
    free((void *)table->sql);
    free((void *)table->form.ptr);
}

void tide_peer_marks_cut_tables(tide_peer_marks *marks)
{
    while (marks->table_count > 0)
        free_table(&marks->tables[--marks->table_count]);
}

void tide_peer_marks_done(tide_peer_marks *marks)
{
    tide_peer_marks_cut_tables(marks);
    free(marks->tables);
    free(marks->origins);
    *marks = (tide_peer_marks){.origin_count = 0};
}

static bool is_possible(const tide_origin_mark *mark)
{
    return mark->epoch >= 1 && mark->start >= 0 && mark->floor >= 0 &&
           mark->prefix >= mark->floor && mark->highest >= mark->prefix;
}

tide_status tide_peer_marks_add(tide_peer_marks *marks, const tide_origin_mark *mark,
                                tide_error *err)
{
    if (!is_possible(mark))
        return tide_fail(err, TIDE_E_INVALID,
                         "a mark that cannot be: epoch %lld, start %lld, floor %lld, prefix %lld, "
                         "highest %lld",
                         (long long)mark->epoch, (long long)mark->start, (long long)mark->floor,
                         (long long)mark->prefix, (long long)mark->highest);
    if (marks->origin_count >= TIDE_SYNC_ORIGINS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d logs at one node", TIDE_SYNC_ORIGINS_MAX);
    TIDE_TRY(tide_list_room(&marks->origins, marks->origin_count, sizeof *marks->origins,
                            TIDE_SYNC_ORIGINS_MAX, err));
    marks->origins[marks->origin_count++] = *mark;
    return TIDE_OK;
}

static tide_status copy_sql(tide_peer_table *table, const char *const *sql, tide_error *err)
{
    size_t count = 0;
    while (sql && sql[count])
        count++;
    if (count > TIDE_SYNC_TABLE_SQL_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "table '%s' has more than %d statements", table->name,
                         TIDE_SYNC_TABLE_SQL_MAX);
    table->sql = (char **)calloc(count + 1, sizeof *table->sql);
    for (size_t i = 0; table->sql && i < count; i++)
        if (!(table->sql[i] = strdup(sql[i])))
            return tide_no_memory(err);
    return table->sql ? TIDE_OK : tide_no_memory(err);
}

tide_status tide_peer_marks_add_table(tide_peer_marks *marks, const char *name, uint64_t schema,
                                      int64_t retain_us, const char *const *sql, tide_error *err)
{
    const size_t len = strlen(name);
    if (len == 0 || len > TIDE_EVENT_TABLE_MAX || retain_us < 0)
        return tide_fail(err, TIDE_E_INVALID, "a table's name has 1 to %d bytes",
                         TIDE_EVENT_TABLE_MAX);
    if (marks->table_count >= TIDE_SYNC_TABLES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d tables at one node",
                         TIDE_SYNC_TABLES_MAX);
    TIDE_TRY(tide_list_room(&marks->tables, marks->table_count, sizeof *marks->tables,
                            TIDE_SYNC_TABLES_MAX, err));
    tide_peer_table *table = &marks->tables[marks->table_count];
    *table = (tide_peer_table){.schema = schema, .retain_us = retain_us};
    memcpy(table->name, name, len + 1);
    const tide_status status = copy_sql(table, sql, err);
    if (status < TIDE_OK) {
        free_table(table);
        return status;
    }
    marks->table_count++;
    return TIDE_OK;
}

tide_status tide_peer_table_add_schema(tide_peer_table *table, uint64_t schema, tide_view columns,
                                       tide_view becomes, tide_view key, tide_error *err)
{
    const size_t len = columns.len + becomes.len + key.len;
    if (table->schema_count >= TIDE_SYNC_SCHEMAS_MAX || len > TIDE_SYNC_SCHEMA_BYTES_MAX)
        return tide_fail(err, TIDE_E_LIMIT,
                         "table '%s' has had more than %d schemas, or one of %zu bytes",
                         table->name, TIDE_SYNC_SCHEMAS_MAX, len);
    TIDE_TRY(tide_list_room(&table->schemas, table->schema_count, sizeof *table->schemas,
                            TIDE_SYNC_SCHEMAS_MAX, err));
    char *bytes = malloc(len + 1);
    TIDE_NEED_MEMORY(bytes, err);
    memcpy(bytes, columns.len > 0 ? columns.ptr : "", columns.len);
    memcpy(bytes + columns.len, becomes.len > 0 ? becomes.ptr : "", becomes.len);
    memcpy(bytes + columns.len + becomes.len, key.len > 0 ? key.ptr : "", key.len);
    table->schemas[table->schema_count++] =
        (tide_peer_schema){.schema = schema,
                           .columns = tide_view_bytes(bytes, columns.len),
                           .becomes = tide_view_bytes(bytes + columns.len, becomes.len),
                           .key = tide_view_bytes(bytes + columns.len + becomes.len, key.len)};
    return TIDE_OK;
}

tide_status tide_peer_table_add_former(tide_peer_table *table, tide_view name, tide_error *err)
{
    if (name.len == 0 || name.len > TIDE_EVENT_TABLE_MAX ||
        table->former_count >= TIDE_SYNC_SCHEMAS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "table '%s' has had more than %d names, or a long one",
                         table->name, TIDE_SYNC_SCHEMAS_MAX);
    TIDE_TRY(tide_list_room((void *)&table->former, table->former_count, sizeof(char *),
                            TIDE_SYNC_SCHEMAS_MAX, err));
    char *copy = strndup(name.ptr, name.len);
    TIDE_NEED_MEMORY(copy, err);
    table->former[table->former_count++] = copy;
    return TIDE_OK;
}

tide_status tide_peer_table_set_form(tide_peer_table *table, tide_view form, tide_error *err)
{
    if (form.len > TIDE_SYNC_SCHEMA_BYTES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "table '%s' has a form of %zu bytes", table->name,
                         form.len);
    char *copy = malloc(form.len + 1);
    TIDE_NEED_MEMORY(copy, err);
    memcpy(copy, form.len > 0 ? form.ptr : "", form.len);
    free((void *)table->form.ptr);
    table->form = tide_view_bytes(copy, form.len);
    return TIDE_OK;
}

static bool knows_schema(const tide_peer_table *table, const tide_peer_schema *schema)
{
    for (int i = 0; i < table->schema_count; i++)
        if (table->schemas[i].schema == schema->schema)
            return tide_view_equal(table->schemas[i].becomes, schema->becomes);
    return false;
}

static bool knows_name(const tide_peer_table *table, const char *name)
{
    for (int i = 0; i < table->former_count; i++)
        if (strcmp(table->former[i], name) == 0)
            return true;
    return false;
}

bool tide_peer_table_knows(const tide_peer_table *table, const tide_peer_table *other)
{
    for (int i = 0; i < other->schema_count; i++)
        if (!knows_schema(table, &other->schemas[i]))
            return false;
    for (int i = 0; i < other->former_count; i++)
        if (!knows_name(table, other->former[i]))
            return false;
    return true;
}

static int compare_log(const tide_node_id *origin, int64_t epoch, const tide_origin_mark *mark)
{
    const int order = memcmp(origin->bytes, mark->origin.bytes, TIDE_NODE_LEN);
    return order != 0 ? order : (epoch > mark->epoch) - (epoch < mark->epoch);
}

static int compare_marks(const void *a, const void *b)
{
    const tide_origin_mark *mark = a;
    return compare_log(&mark->origin, mark->epoch, b);
}

static int compare_tables(const void *a, const void *b)
{
    return strcmp(((const tide_peer_table *)a)->name, ((const tide_peer_table *)b)->name);
}

tide_status tide_peer_marks_sort(tide_peer_marks *marks, tide_error *err)
{
    if (marks->origin_count > 1)
        qsort(marks->origins, (size_t)marks->origin_count, sizeof *marks->origins, compare_marks);
    if (marks->table_count > 1)
        qsort(marks->tables, (size_t)marks->table_count, sizeof *marks->tables, compare_tables);
    for (int i = 1; i < marks->origin_count; i++)
        if (compare_marks(&marks->origins[i - 1], &marks->origins[i]) == 0)
            return tide_fail(err, TIDE_E_INVALID, "a log has two marks");
    for (int i = 1; i < marks->table_count; i++)
        if (compare_tables(&marks->tables[i - 1], &marks->tables[i]) == 0)
            return tide_fail(err, TIDE_E_INVALID, "table '%s' is told twice",
                             marks->tables[i].name);
    return TIDE_OK;
}

const tide_origin_mark *tide_peer_marks_find(const tide_peer_marks *marks,
                                             const tide_node_id *origin, int64_t epoch)
{
    int low = 0;
    int high = marks->origin_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = compare_log(origin, epoch, &marks->origins[middle]);
        if (order == 0)
            return &marks->origins[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const tide_peer_table *tide_peer_marks_table(const tide_peer_marks *marks, const char *name)
{
    for (int i = 0; i < marks->table_count; i++)
        if (strcmp(marks->tables[i].name, name) == 0)
            return &marks->tables[i];
    return NULL;
}

/* ---- pages ---- */

void tide_peer_page_init(tide_peer_page *page)
{
    *page = (tide_peer_page){.count = 0};
    tide_buffer_init(&page->bytes, TIDE_SYNC_PAGE_BYTES_MAX);
}

void tide_peer_page_done(tide_peer_page *page)
{
    tide_buffer_done(&page->bytes);
    free(page->ends);
    page->ends = NULL;
    page->count = 0;
}

void tide_peer_page_clear(tide_peer_page *page)
{
    tide_buffer_truncate(&page->bytes, 0);
    page->count = 0;
    page->through = 0;
    page->has_more = false;
    page->needs_snapshot = false;
    page->floor = 0;
}

tide_status tide_peer_page_add(tide_peer_page *page, tide_view event, tide_error *err)
{
    TIDE_TRY(tide_list_room(&page->ends, page->count, sizeof *page->ends, TIDE_LIST_MAX, err));
    const tide_status status = tide_buffer_append(&page->bytes, event.ptr, event.len);
    if (status < TIDE_OK)
        return tide_fail(err, status, "a page of events has more than %d MiB",
                         TIDE_SYNC_PAGE_BYTES_MAX >> 20);
    page->ends[page->count++] = page->bytes.len;
    return TIDE_OK;
}

tide_view tide_peer_page_event(const tide_peer_page *page, int index)
{
    const size_t begin = index > 0 ? page->ends[index - 1] : 0;
    return tide_view_bytes(page->bytes.ptr + begin, page->ends[index] - begin);
}
