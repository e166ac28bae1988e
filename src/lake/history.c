/* history.c - see history.h. */
#include "lake/history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "lake/history_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- rows ---- */

enum { ROWS_PAGE = 2000, FIELDS_MAX = 2 + 16 + 2 * TIDE_LAKE_PARTITION_KEYS_MAX, KEYS_MAX = 3 };

/* How rows of a kind are asked for: the columns of their key, whether the life stands behind a key that holds its begin, and their
 * fields: n number, t text, b boolean. */
typedef struct row_shape {
    tide_lake_kind kind;
    const tide_sql *sql;
    int keys;
    const char *fields;
} row_shape;

static const row_shape shapes[] = {
    {TIDE_LAKE_SCHEMA, TIDE_LAKE_SQL_CHECK_SCHEMAS, 1, "ntttb"},
    {TIDE_LAKE_TABLE, TIDE_LAKE_SQL_CHECK_TABLES, 2, "ntnttb"},
    {TIDE_LAKE_VIEW, TIDE_LAKE_SQL_CHECK_VIEWS, 2, "ntnttt"},
    {TIDE_LAKE_COLUMN, TIDE_LAKE_SQL_CHECK_COLUMNS, 3, "nnnttttb"},
    {TIDE_LAKE_DATA_FILE, TIDE_LAKE_SQL_CHECK_DATA_FILES, 1, "nntbnnn"},
    {TIDE_LAKE_DELETE_FILE_KIND, TIDE_LAKE_SQL_CHECK_DELETE_FILES, 1, "nnntbnn"},
    {TIDE_LAKE_PARTITION, TIDE_LAKE_SQL_CHECK_PARTITIONS, 1, "nn"},
};
static const char *const key_names[KEYS_MAX] = {"a", "b", "c"};

static tide_lake_field number_field(int64_t number)
{
    return (tide_lake_field){.number = number, .kind = TIDE_LAKE_FIELD_NUMBER};
}

static tide_lake_field read_field(tide_query *query, char type)
{
    if (tide_query_col_is_null(query)) {
        (void)tide_query_col_text(query);
        return (tide_lake_field){.kind = TIDE_LAKE_FIELD_NULL};
    }
    switch (type) {
    case 'n':
        return number_field(tide_query_col_i64(query));
    case 'b':
        return number_field(tide_query_col_bool(query) ? 1 : 0);
    default:
        return (tide_lake_field){.text = tide_query_col_text(query), .kind = TIDE_LAKE_FIELD_TEXT};
    }
}

/* A partition's digest goes over its keys too; their texts live as long as the query. */
static tide_status digest_partition(tide_tx *tx, tide_lake_field *fields, int count,
                                    tide_lake_digest *out, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_CHECK_PARTITION_KEYS, err,
               tide_bind_i64("partition", fields[1].number));
    char transforms[TIDE_LAKE_PARTITION_KEYS_MAX][64];
    int keys = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        if (keys == TIDE_LAKE_PARTITION_KEYS_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "partition %" PRId64 " has more than %d keys",
                             fields[1].number, TIDE_LAKE_PARTITION_KEYS_MAX);
        fields[count++] = read_field(query, 'n');
        tide_lake_field transform = read_field(query, 't');
        if (transform.text.len > sizeof transforms[0])
            return tide_fail(err, TIDE_E_LIMIT, "partition %" PRId64 " has a transform too long",
                             fields[1].number);
        if (transform.text.len > 0)
            memcpy(transforms[keys], transform.text.ptr, transform.text.len);
        transform.text.ptr = transforms[keys++];
        fields[count++] = transform;
    }
    return tide_lake_digest_of(out, fields, count, err);
}

static tide_status digest_row(tide_tx *tx, const row_shape *shape, tide_query *query,
                              tide_lake_digest *out, tide_error *err)
{
    tide_lake_field fields[FIELDS_MAX];
    int count = 0;
    fields[count++] = number_field(shape->kind);
    for (const char *type = shape->fields; *type; type++)
        fields[count++] = read_field(query, *type);
    if (shape->kind == TIDE_LAKE_PARTITION)
        return digest_partition(tx, fields, count, out, err);
    return tide_lake_digest_of(out, fields, count, err);
}

typedef struct rows_walk {
    tide_tx *tx;
    int64_t catalog_id;
    int64_t since;
    int64_t upto;
    int64_t keys[KEYS_MAX]; /* of the last row */
    tide_history_row_fn *fn;
    void *arg;
} rows_walk;

static tide_status walk_page(rows_walk *walk, const row_shape *shape, bool *more, tide_error *err)
{
    TIDE_QUERY(query, walk->tx, shape->sql, err, tide_bind_i64("catalog", walk->catalog_id),
               tide_bind_i64("since", walk->since), tide_bind_i64("upto", walk->upto),
               tide_bind_i64("limit", ROWS_PAGE));
    for (int i = 0; i < shape->keys && i < KEYS_MAX; i++)
        tide_query_bind_i64(query, key_names[i], walk->keys[i]);
    int64_t rows = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        for (int i = 0; i < shape->keys && i < KEYS_MAX; i++)
            walk->keys[i] = tide_query_col_i64(query);
        tide_history_row row = {.kind = shape->kind, .id = walk->keys[0]};
        row.begin = tide_query_col_i64(query);
        row.end = tide_query_col_i64(query);
        TIDE_TRY(digest_row(walk->tx, shape, query, &row.digest, err));
        TIDE_TRY(walk->fn(walk->arg, &row, err));
        rows++;
    }
    *more = rows == ROWS_PAGE;
    return TIDE_OK;
}

/* Every row that a catalog sees, of all kinds, that began by `upto` and did not end by `since`. */
static tide_status history_each_row(tide_tx *tx, int64_t catalog_id, int64_t since, int64_t upto,
                                    tide_history_row_fn *fn, void *arg, tide_error *err)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        rows_walk walk = {tx, catalog_id, since, upto, {-1, -1, -1}, fn, arg};
        for (bool more = true; more;)
            TIDE_TRY(walk_page(&walk, &shapes[i], &more, err));
    }
    return TIDE_OK;
}

static const char *kind_words(tide_lake_kind kind)
{
    static const char *const words[] = {
        [TIDE_LAKE_SCHEMA] = "schema",       [TIDE_LAKE_TABLE] = "table",
        [TIDE_LAKE_VIEW] = "view",           [TIDE_LAKE_COLUMN] = "column of table",
        [TIDE_LAKE_DATA_FILE] = "data file", [TIDE_LAKE_DELETE_FILE_KIND] = "delete file",
        [TIDE_LAKE_PARTITION] = "partition",
    };
    return words[kind];
}

/* The point where something happens. What is older than the catalog (a fork's inheritance) is there from its first point. */
static int64_t find_point(tide_history *h, const tide_history_row *row, int64_t snapshot,
                          const char *verb)
{
    const int64_t at = tide_history_find(h, snapshot);
    const bool is_older = snapshot <= h->fork_snapshot && h->fork_snapshot > 0;
    if (!is_older && (at == h->count || h->points[at].snapshot_id != snapshot))
        tide_history_tell(h, "linear", snapshot,
                          "%s %" PRId64 " %s with snapshot %" PRId64
                          ", which no commit of the catalog made",
                          kind_words(row->kind), row->id, verb, snapshot);
    return at;
}

static void raise(int64_t *highest, int64_t id)
{
    if (id > *highest)
        *highest = id;
}

static tide_status add_row(void *arg, const tide_history_row *row, tide_error *err)
{
    (void)err;
    tide_history *h = arg;
    h->checked.rows++;
    const int64_t begin = find_point(h, row, row->begin, "begins");
    if (begin < h->count) {
        tide_line_point *point = &h->points[begin];
        tide_lake_digest_add(&point->begun, &row->digest);
        if (row->kind <= TIDE_LAKE_VIEW)
            raise(&point->object_max, row->id);
        if (row->kind == TIDE_LAKE_DATA_FILE || row->kind == TIDE_LAKE_DELETE_FILE_KIND)
            raise(&point->file_max, row->id);
    }
    if (row->end == 0)
        return TIDE_OK;
    const int64_t end = find_point(h, row, row->end, "ends");
    if (end < h->count)
        tide_lake_digest_subtract(&h->points[end].begun, &row->digest);
    if (row->end < row->begin)
        tide_history_tell(h, "order", row->end, "%s %" PRId64 " ends before it begins",
                          kind_words(row->kind), row->id);
    return TIDE_OK;
}

static void check_counter(tide_history *h, const char *name, int64_t snapshot, int64_t next,
                          int64_t before, int64_t issued)
{
    if (next < before)
        tide_history_tell(h, "counters", snapshot,
                          "%s went back from %" PRId64 " to %" PRId64 " at snapshot %" PRId64, name,
                          before, next, snapshot);
    if (next <= issued)
        tide_history_tell(h, "counters", snapshot,
                          "%s is %" PRId64 " at snapshot %" PRId64 ", but %" PRId64
                          " was issued by then",
                          name, next, snapshot, issued);
}

/* Along the line: what each snapshot holds, and how far the counters are. */
static void check_points(tide_history *h)
{
    tide_lake_digest state = {{0, 0}};
    tide_line_point before = {0};
    for (int64_t i = 0; i < h->count; i++) {
        const tide_line_point *point = &h->points[i];
        tide_lake_digest_add(&state, &point->begun);
        raise(&before.object_max, point->object_max);
        raise(&before.file_max, point->file_max);
        if (!point->has_state)
            continue;
        if (memcmp(&state, &point->recorded, sizeof state) != 0)
            tide_history_tell(h, "immutable", point->snapshot_id,
                              "what is there at snapshot %" PRId64
                              " is not what was committed: rows were added, changed or lost since",
                              point->snapshot_id);
        check_counter(h, "next_catalog_id", point->snapshot_id, point->next_object,
                      before.next_object, before.object_max);
        check_counter(h, "next_file_id", point->snapshot_id, point->next_file, before.next_file,
                      before.file_max);
        before.next_object = point->next_object;
        before.next_file = point->next_file;
    }
}

/* All rows of the catalog: rules immutable, counters, and linear for their ends. */
static tide_status history_check_rows(tide_history *h, tide_error *err)
{
    TIDE_TRY(history_each_row(h->tx, h->catalog_id, -1, INT64_MAX, add_row, h, err));
    check_points(h);
    return TIDE_OK;
}

void tide_history_tell(tide_history *h, const char *rule, int64_t snapshot, const char *format, ...)
{
    char words[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    h->checked.findings++;
    if (h->fn)
        h->fn(h->arg, &(tide_lake_finding){rule, h->catalog_id, snapshot, words});
}

/* ---- queries whose every row is a finding: a snapshot, two ids, a text ---- */

typedef struct suspicion {
    const char *rule;
    const tide_sql *sql;
    const char *format; /* %1$ text, %2$ and %3$ the ids */
} suspicion;

static const suspicion of_a_catalog[] = {
    {"names", TIDE_LAKE_SQL_CHECK_SCHEMA_NAMES,
     "schema %2$" PRId64 " has the name '%1$s' while %3$" PRId64 " or another lives with it"},
    {"names", TIDE_LAKE_SQL_CHECK_OBJECT_NAMES,
     "table or view %2$" PRId64 " has the name '%1$s' while %3$" PRId64
     " or another lives with it"},
    {"names", TIDE_LAKE_SQL_CHECK_COLUMN_NAMES,
     "column %2$" PRId64 " of table %3$" PRId64 " has the name '%1$s', which another has"},
    {"files", TIDE_LAKE_SQL_CHECK_DELETE_ALONE,
     "delete file %2$" PRId64 " (%1$s) outlives its data file %3$" PRId64},
    {"files", TIDE_LAKE_SQL_CHECK_DELETE_TWICE,
     "delete file %2$" PRId64 " (%1$s) is not the only one of data file %3$" PRId64},
    {"files", TIDE_LAKE_SQL_CHECK_FILE_ALONE,
     "data file %2$" PRId64 " (%1$s) outlives its table %3$" PRId64},
};

static const suspicion of_all[] = {
    {"names", TIDE_LAKE_SQL_CHECK_OBJECT_IDS,
     "id %2$" PRId64 " names %3$" PRId64 " schemas, tables or views, '%1$s' among them"},
    {"files", TIDE_LAKE_SQL_CHECK_FILE_IDS,
     "file id %2$" PRId64 " names %3$" PRId64 " files, '%1$s' among them"},
    {"files", TIDE_LAKE_SQL_CHECK_FILE_PATHS, "'%1$s' is file %2$" PRId64 " and file %3$" PRId64},
    {"files", TIDE_LAKE_SQL_CHECK_SCHEDULED,
     "file %2$" PRId64 " (%1$s) is scheduled for deletion by catalog %3$" PRId64 ", but has a row"},
};

static tide_status ask_suspicion(tide_history *h, const suspicion *s, bool is_of_catalog,
                                 tide_error *err)
{
    TIDE_QUERY(query, h->tx, s->sql, err,
               TIDE_BIND_IF(is_of_catalog, tide_bind_i64("catalog", h->catalog_id)),
               tide_bind_i64("limit", TIDE_LAKE_FINDINGS_MAX));
    TIDE_EACH(tide_query_step(query, err)) {
        const int64_t snapshot = tide_query_col_i64(query);
        const int64_t id = tide_query_col_i64(query);
        const int64_t other = tide_query_col_i64(query);
        const tide_view view = tide_query_col_text(query);
        char text[160];
        (void)snprintf(text, sizeof text, "%.*s", (int)view.len, view.len > 0 ? view.ptr : "");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        tide_history_tell(h, s->rule, snapshot, s->format, text, id, other);
#pragma GCC diagnostic pop
    }
    return TIDE_OK;
}

static tide_status check_counters(tide_history *h, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_query_begin, h->tx, TIDE_LAKE_SQL_CHECK_COUNTERS, err);
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view name = tide_query_col_text(query);
        const int64_t last = tide_query_col_i64(query);
        const int64_t highest = tide_query_col_i64(query);
        if (last < highest)
            tide_history_tell(h, "counters", 0,
                              "the counter of %.*s ids stands at %" PRId64 ", but %" PRId64
                              " is in use",
                              (int)name.len, name.ptr, last, highest);
    }
    return TIDE_OK;
}

static tide_status check_all(tide_history *h, tide_error *err)
{
    h->catalog_id = 0;
    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
        TIDE_TRY(ask_suspicion(h, &of_all[i], false, err));
    return check_counters(h, err);
}

/* ---- catalogs ---- */

/* TIDE_NONE: that was the last. */
static tide_status next_catalog(tide_history *h, int64_t after, tide_error *err)
{
    TIDE_QUERY_ONE(query, h->tx, TIDE_LAKE_SQL_CHECK_CATALOG, err, tide_bind_i64("after", after));
    h->catalog_id = tide_query_col_i64(query);
    h->parent_id = tide_query_col_i64(query);
    h->fork_snapshot = tide_query_col_i64(query);
    h->created_snapshot = tide_query_col_i64(query);
    h->is_dropped = tide_query_col_bool(query);
    h->has_head = tide_query_col_bool(query);
    h->head = tide_query_col_i64(query);
    h->head_parent = tide_query_col_i64(query);
    h->head_digest.sums[0] = (uint64_t)tide_query_col_i64(query);
    h->head_digest.sums[1] = (uint64_t)tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status check_catalog(tide_history *h, tide_error *err)
{
    h->checked.catalogs++;
    TIDE_TRY(tide_history_read_line(h, err));
    TIDE_TRY(history_check_rows(h, err));
    TIDE_TRY(tide_history_check_deeds(h, err));
    for (size_t i = 0; i < sizeof of_a_catalog / sizeof *of_a_catalog; i++)
        TIDE_TRY(ask_suspicion(h, &of_a_catalog[i], true, err));
    return TIDE_OK;
}

static tide_status find_catalog(tide_tx *tx, const char *name, int64_t *id, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_LAKE_SQL_CHECK_CATALOG_ID, err, tide_bind_text("name", name));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "no catalog '%s': 'tidemark lake catalog ls' lists those there are", name);
    *id = tide_query_col_i64(query);
    return TIDE_OK;
}

typedef struct history_run {
    tide_history h;
    const char *catalog;
} history_run;

static tide_status run_history(tide_tx *tx, void *arg, tide_error *err)
{
    history_run *run = arg;
    tide_history *h = &run->h;
    h->tx = tx;
    h->checked = (tide_lake_checked){0};
    int64_t only = 0;
    if (run->catalog) {
        TIDE_TRY(find_catalog(tx, run->catalog, &only, err));
    } else {
        TIDE_TRY(check_all(h, err));
    }
    for (int64_t after = run->catalog ? only - 1 : 0;; after = h->catalog_id) {
        TIDE_OK_IF_NONE(next_catalog(h, after, err));
        TIDE_TRY(check_catalog(h, err));
        if (run->catalog)
            return TIDE_OK;
    }
}

static tide_status judge(const tide_lake_checked *checked, tide_error *err)
{
    if (checked->findings == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_DAMAGED, "the history breaks its rules: %" PRId64 " findings",
                     checked->findings);
}

tide_status tide_lake_check_history(tide_lake *lake, const char *catalog, tide_lake_finding_fn *fn,
                                    void *arg, tide_lake_checked *out, tide_error *err)
{
    TIDE_NEED(lake, err);
    history_run run = {.h = {.fn = fn, .arg = arg}, .catalog = catalog};
    const tide_status status = tide_store_read(tide_lake_store(lake), run_history, &run, err);
    free(run.h.points);
    TIDE_TRY(status);
    if (out)
        *out = run.h.checked;
    return judge(&run.h.checked, err);
}

/* ---- sights ---- */

static tide_status add_seen(void *arg, const tide_history_row *row, tide_error *err)
{
    (void)err;
    tide_lake_sight *sight = arg;
    tide_lake_digest_add(&sight->digest, &row->digest);
    return TIDE_OK;
}

tide_status tide_lake_look(tide_tx *tx, int64_t catalog_id, int64_t snapshot, tide_lake_sight *out,
                           tide_error *err)
{
    *out = (tide_lake_sight){.catalog_id = catalog_id, .snapshot_id = snapshot};
    return history_each_row(tx, catalog_id, snapshot, snapshot, add_seen, out, err);
}

typedef struct sights_run {
    tide_history h;
    const tide_lake_sight *sights;
    int64_t count;
} sights_run;

static tide_status check_sight(tide_history *h, const tide_lake_sight *sight, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, h->tx, TIDE_LAKE_SQL_CHECK_COMMIT, err,
                                           tide_bind_i64("catalog", sight->catalog_id),
                                           tide_bind_i64("snapshot", sight->snapshot_id));
    TIDE_TRY(status);
    h->catalog_id = sight->catalog_id;
    h->checked.snapshots++;
    if (status == TIDE_NONE) {
        tide_history_tell(h, "observed", sight->snapshot_id,
                          "snapshot %" PRId64 " was seen, and is not there", sight->snapshot_id);
        return TIDE_OK;
    }
    const uint64_t first = (uint64_t)tide_query_col_i64(query);
    const uint64_t second = (uint64_t)tide_query_col_i64(query);
    if (first != sight->digest.sums[0] || second != sight->digest.sums[1])
        tide_history_tell(h, "observed", sight->snapshot_id,
                          "snapshot %" PRId64
                          " was seen with another state than its commit recorded",
                          sight->snapshot_id);
    return TIDE_OK;
}

static tide_status run_sights(tide_tx *tx, void *arg, tide_error *err)
{
    sights_run *run = arg;
    run->h.tx = tx;
    run->h.checked = (tide_lake_checked){0};
    for (int64_t i = 0; i < run->count; i++)
        TIDE_TRY(check_sight(&run->h, &run->sights[i], err));
    return TIDE_OK;
}

tide_status tide_lake_check_sights(tide_lake *lake, const tide_lake_sight *sights, int64_t count,
                                   tide_lake_finding_fn *fn, void *arg, tide_lake_checked *out,
                                   tide_error *err)
{
    sights_run run = {.h = {.fn = fn, .arg = arg}, .sights = sights, .count = count};
    TIDE_TRY(tide_store_read(tide_lake_store(lake), run_sights, &run, err));
    if (out)
        *out = run.h.checked;
    return judge(&run.h.checked, err);
}
