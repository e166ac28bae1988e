/* history_line.c - a catalog's commits, one behind the other: rules order and linear. See history.h. */
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "lake/history_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { LINE_PAGE = 5000 };

/* What a snapshot's row says, beside what is kept of it. */
typedef struct line_row {
    bool is_expired;
    bool has_snapshot;
    bool has_changes;
    int64_t time_us;
    int64_t schema_version;
} line_row;

typedef struct line_walk {
    int64_t time_us; /* of the newest snapshot before */
    int64_t schema_version;
    int64_t snapshot_id;
} line_walk;

/* NULL: no memory. */
static tide_line_point *add_point(tide_history *h)
{
    if (tide_list_room(&h->points, h->count, sizeof *h->points, TIDE_LIST_MAX, NULL) < TIDE_OK)
        return NULL;
    tide_line_point *fresh = &h->points[h->count++];
    *fresh = (tide_line_point){0};
    return fresh;
}

static tide_status read_row(tide_history *h, tide_query *query, line_row *row, tide_error *err)
{
    tide_line_point *point = add_point(h);
    TIDE_NEED_MEMORY(point, err);
    point->snapshot_id = tide_query_col_i64(query);
    point->parent_id = tide_query_col_i64(query);
    point->recorded.sums[0] = (uint64_t)tide_query_col_i64(query);
    point->recorded.sums[1] = (uint64_t)tide_query_col_i64(query);
    row->is_expired = tide_query_col_bool(query);
    row->has_snapshot = tide_query_col_bool(query);
    row->has_changes = tide_query_col_bool(query);
    row->time_us = tide_query_col_time(query);
    row->schema_version = tide_query_col_i64(query);
    point->has_state = row->has_snapshot;
    point->next_object = tide_query_col_i64(query);
    point->next_file = tide_query_col_i64(query);
    return TIDE_OK;
}

int64_t tide_history_find(const tide_history *h, int64_t snapshot)
{
    int64_t low = 0;
    int64_t high = h->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (h->points[middle].snapshot_id < snapshot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_point(const tide_history *h, int64_t snapshot)
{
    const int64_t at = tide_history_find(h, snapshot);
    return at < h->count && h->points[at].snapshot_id == snapshot;
}

/* The parent is not the commit before: what went wrong? */
static void tell_parent(tide_history *h, int64_t at)
{
    const tide_line_point *point = &h->points[at];
    const int64_t parent = point->parent_id;
    if (parent >= point->snapshot_id) {
        tide_history_tell(h, "order", point->snapshot_id,
                          "snapshot %" PRId64 " was committed behind %" PRId64
                          ": numbers do not follow the commits",
                          point->snapshot_id, parent);
        return;
    }
    /* In an ordered line the one that follows it stands right behind it. */
    const tide_line_point *rival = &h->points[tide_history_find(h, parent + 1)];
    if (rival < point && rival->parent_id == parent) {
        tide_history_tell(h, "linear", point->snapshot_id,
                          "snapshots %" PRId64 " and %" PRId64 " both follow %" PRId64,
                          rival->snapshot_id, point->snapshot_id, parent);
        return;
    }
    tide_history_tell(h, is_point(h, parent) ? "order" : "linear", point->snapshot_id,
                      "snapshot %" PRId64 " follows %" PRId64
                      ", but the one before it in the catalog is %" PRId64,
                      point->snapshot_id, parent, at > 0 ? h->points[at - 1].snapshot_id : 0);
}

static void check_parents(tide_history *h)
{
    for (int64_t i = 0; i < h->count; i++) {
        const int64_t before = i > 0 ? h->points[i - 1].snapshot_id : h->fork_snapshot;
        if (h->points[i].parent_id != before || before >= h->points[i].snapshot_id)
            tell_parent(h, i);
    }
    if (h->count == 0)
        tide_history_tell(h, "linear", 0, "the catalog has no commits");
    else if (h->points[0].snapshot_id != h->created_snapshot)
        tide_history_tell(h, "linear", h->created_snapshot,
                          "the catalog began with snapshot %" PRId64
                          ", but its first commit is %" PRId64,
                          h->created_snapshot, h->points[0].snapshot_id);
}

static void check_head(tide_history *h)
{
    if (!h->has_head) {
        if (!h->is_dropped)
            tide_history_tell(h, "linear", 0, "the catalog has no head");
        return;
    }
    if (h->count == 0)
        return;
    const tide_line_point *last = &h->points[h->count - 1];
    if (h->head != last->snapshot_id || h->head_parent != last->parent_id)
        tide_history_tell(h, "linear", h->head,
                          "the head is snapshot %" PRId64 " behind %" PRId64
                          ", but the last commit is %" PRId64 " behind %" PRId64,
                          h->head, h->head_parent, last->snapshot_id, last->parent_id);
    else if (h->head_digest.sums[0] != last->recorded.sums[0] ||
             h->head_digest.sums[1] != last->recorded.sums[1])
        tide_history_tell(h, "immutable", h->head,
                          "the head has another digest than its commit, %" PRId64, h->head);
}

static void check_presence(tide_history *h, const line_row *row, int64_t snapshot)
{
    if (row->is_expired) {
        if (row->has_snapshot) /* what it changed outlives it for a while */
            tide_history_tell(h, "linear", snapshot, "snapshot %" PRId64 " is expired, but there",
                              snapshot);
        return;
    }
    if (!row->has_snapshot)
        tide_history_tell(h, "linear", snapshot,
                          "commit %" PRId64 " has no snapshot, and was never expired", snapshot);
    if (!row->has_changes)
        tide_history_tell(h, "linear", snapshot, "commit %" PRId64 " does not say what it changed",
                          snapshot);
}

static void check_times(tide_history *h, const line_row *row, int64_t snapshot, line_walk *walk)
{
    if (!row->has_snapshot)
        return;
    h->checked.snapshots++;
    if (row->time_us < walk->time_us)
        tide_history_tell(h, "order", snapshot,
                          "snapshot %" PRId64 " has an earlier time than %" PRId64 " before it",
                          snapshot, walk->snapshot_id);
    if (row->schema_version < walk->schema_version)
        tide_history_tell(h, "order", snapshot,
                          "snapshot %" PRId64 " has schema version %" PRId64 ", %" PRId64
                          " before it %" PRId64,
                          snapshot, row->schema_version, walk->snapshot_id, walk->schema_version);
    *walk = (line_walk){row->time_us, row->schema_version, snapshot};
}

static tide_status read_page(tide_history *h, tide_query *query, line_walk *walk, bool *more,
                             tide_error *err)
{
    int64_t rows = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        line_row row = {0};
        TIDE_TRY(read_row(h, query, &row, err));
        const int64_t snapshot = h->points[h->count - 1].snapshot_id;
        check_presence(h, &row, snapshot);
        check_times(h, &row, snapshot, walk);
        rows++;
    }
    *more = rows == LINE_PAGE;
    return TIDE_OK;
}

static tide_status check_strays(tide_history *h, tide_error *err)
{
    TIDE_QUERY(query, h->tx, TIDE_LAKE_SQL_CHECK_STRAYS, err,
               tide_bind_i64("catalog", h->catalog_id),
               tide_bind_i64("limit", TIDE_LAKE_FINDINGS_MAX));
    TIDE_EACH(tide_query_step(query, err)) {
        const int64_t snapshot = tide_query_col_i64(query);
        const tide_view what = tide_query_col_text(query);
        tide_history_tell(h, "linear", snapshot, "a %.*s %" PRId64 " that no commit made",
                          (int)what.len, what.ptr, snapshot);
    }
    return TIDE_OK;
}

tide_status tide_history_read_line(tide_history *h, tide_error *err)
{
    h->count = 0;
    line_walk walk = {.time_us = INT64_MIN};
    for (bool more = true; more;) {
        TIDE_QUERY(query, h->tx, TIDE_LAKE_SQL_CHECK_LINE, err,
                   tide_bind_i64("catalog", h->catalog_id),
                   tide_bind_i64("after", h->count > 0 ? h->points[h->count - 1].snapshot_id : -1),
                   tide_bind_i64("limit", LINE_PAGE));
        TIDE_TRY(read_page(h, query, &walk, &more, err));
    }
    check_parents(h);
    check_head(h);
    return check_strays(h, err);
}
