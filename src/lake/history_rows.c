/* history_rows.c - rows with a life, added up along a catalog's line: rules immutable and counters. See history.h. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/history_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

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

tide_status tide_history_each_row(tide_tx *tx, int64_t catalog_id, int64_t since, int64_t upto,
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

tide_status tide_history_check_rows(tide_history *h, tide_error *err)
{
    TIDE_TRY(tide_history_each_row(h->tx, h->catalog_id, -1, INT64_MAX, add_row, h, err));
    check_points(h);
    return TIDE_OK;
}
