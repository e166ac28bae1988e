/* depend.c - what the items of a batch wait for.
 *
 * A dependency is an item of the same task: one of the same batch, or one that is there already. Of the latter the row is
 * locked before its status is read, so that it cannot complete unseen between the look and our commit.
 *
 * Circles can only lie within the batch: what is there already depends on nothing that is new. */
#include "work/add.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* One item of the batch (by position) waits for another one of it, or for one outside. */
typedef struct edge {
    int from;
    int to;         /* a position; -1: outside */
    const char *id; /* of what it waits for */
    bool is_over;   /* that is completed */
} edge;

typedef struct graph {
    tide_item_batch *batch;
    edge *edges;
    int count;
    bool is_any_outside;
} graph;

static int compare_edges(const void *a, const void *b)
{
    const edge *x = a;
    const edge *y = b;
    const int order = strcmp(x->id, y->id);
    return order ? order : x->from - y->from;
}

/* List the edges of the new items, each once, sorted by what is waited for. */
static tide_status list_edges(graph *g, tide_error *err)
{
    const tide_item_batch *b = g->batch;
    size_t total = 0;
    for (int i = 0; i < b->count; i++)
        total += (size_t)b->plans[i].item->depends_on_count;
    if (total == 0)
        return TIDE_OK;
    g->edges = tide_arena_alloc(&g->batch->arena, total * sizeof *g->edges);
    if (!g->edges)
        return tide_fail(err, TIDE_E_LIMIT, "%zu dependencies in one call: give less at a time",
                         total);
    for (int i = 0; i < b->count; i++) {
        const tide_item_plan *plan = &b->plans[i];
        for (int d = 0; d < plan->item->depends_on_count && !plan->added->is_existing; d++) {
            const char *id = plan->item->depends_on[d];
            const tide_item_plan *other = tide_item_batch_find(b, tide_view_of(id));
            const bool is_new = other && !other->added->is_existing;
            g->edges[g->count++] = (edge){.from = i,
                                          .to = is_new ? other->position : -1,
                                          .id = other ? other->added->work_item_id : id};
            g->is_any_outside = g->is_any_outside || !is_new;
        }
    }
    qsort(g->edges, (size_t)g->count, sizeof *g->edges, compare_edges);
    int distinct = 0;
    for (int i = 0; i < g->count; i++)
        if (distinct == 0 || compare_edges(&g->edges[distinct - 1], &g->edges[i]) != 0)
            g->edges[distinct++] = g->edges[i];
    g->count = distinct;
    return TIDE_OK;
}

/* The first edge to this id, or to one behind it. */
static int find_edge(const graph *g, const char *id)
{
    int low = 0;
    int high = g->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (strcmp(g->edges[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- circles ---- */

/* Take away what waits for nothing (more), until nothing changes: what is left stands in a circle or waits for one. */
static void peel(const graph *g, int *open, int *queue)
{
    const tide_item_batch *b = g->batch;
    int tail = 0;
    for (int i = 0; i < g->count; i++)
        if (g->edges[i].to >= 0)
            open[g->edges[i].from]++;
    for (int i = 0; i < b->count; i++)
        if (open[i] == 0)
            queue[tail++] = i;
    for (int head = 0; head < tail; head++) {
        const char *id = b->plans[queue[head]].added->work_item_id;
        for (int i = find_edge(g, id); i < g->count && strcmp(g->edges[i].id, id) == 0; i++)
            if (g->edges[i].to == queue[head] && --open[g->edges[i].from] == 0)
                queue[tail++] = g->edges[i].from;
    }
}

/* From any of those left, go on long enough to stand in a circle. */
static tide_status fail_circle(const graph *g, const int *open, int *next, tide_error *err)
{
    const tide_item_batch *b = g->batch;
    int at = 0;
    for (int i = 0; i < g->count; i++) {
        const edge *e = &g->edges[i];
        if (e->to >= 0 && open[e->from] > 0 && open[e->to] > 0)
            next[e->from] = e->to;
        if (e->to >= 0 && open[e->from] > 0)
            at = e->from;
    }
    for (int i = 0; i < b->count; i++)
        at = next[at];
    return tide_fail(err, TIDE_E_CONFLICT,
                     "dependencies in a circle: work item %s waits for %s, which in the end waits "
                     "for it",
                     b->plans[at].added->work_item_id, b->plans[next[at]].added->work_item_id);
}

static tide_status check_circles(const graph *g, tide_error *err)
{
    const size_t count = (size_t)g->batch->count;
    TIDE_CLEANUP(tide_freep) int *open = calloc(count, sizeof *open);
    TIDE_CLEANUP(tide_freep) int *queue = calloc(count, sizeof *queue);
    TIDE_NEED_MEMORY(open && queue, err);
    peel(g, open, queue);
    for (size_t i = 0; i < count; i++)
        if (open[i] > 0)
            return fail_circle(g, open, queue, err);
    return TIDE_OK;
}

/* ---- what is there already ---- */

static tide_status settle_outside(graph *g, edge *e, const char *task_id, const char *status,
                                  tide_error *err)
{
    const tide_item_plan *plan = &g->batch->plans[e->from];
    if (strcmp(plan->task_id, task_id) != 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "work item %s cannot depend on %s, which belongs to another task (%s)",
                         plan->added->work_item_id, e->id, task_id);
    if (strcmp(status, "failed") == 0)
        return tide_fail(err, TIDE_E_CONFLICT, "work item %s depends on %s, which has failed",
                         plan->added->work_item_id, e->id);
    e->is_over = strcmp(status, "completed") == 0;
    return TIDE_OK;
}

static tide_status settle_row(graph *g, tide_query *query, int *settled, tide_error *err)
{
    tide_row row = {.query = query, .arena = &g->batch->arena};
    const char *id = tide_row_text(&row);
    const char *task_id = tide_row_text(&row);
    const char *status = tide_row_text(&row);
    TIDE_TRY(tide_row_end(&row, err));
    for (int i = find_edge(g, id); i < g->count && strcmp(g->edges[i].id, id) == 0; i++) {
        if (g->edges[i].to >= 0)
            continue;
        TIDE_TRY(settle_outside(g, &g->edges[i], task_id, status, err));
        (*settled)++;
    }
    return TIDE_OK;
}

static tide_status fail_unsettled(const graph *g, tide_error *err)
{
    for (int i = 0; i < g->count; i++) {
        const edge *e = &g->edges[i];
        if (e->to < 0) {
            TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
            const tide_status status = tide_tx_one(&query, g->batch->tx, TIDE_SQL_WORK_TASK_OF, err,
                                                   tide_bind_text("id", e->id));
            TIDE_TRY(status);
            if (status == TIDE_NONE)
                return tide_fail(err, TIDE_E_NOT_FOUND,
                                 "there is no work item %s for %s to depend on", e->id,
                                 g->batch->plans[e->from].added->work_item_id);
        }
    }
    return tide_fail(err, TIDE_E_SERIALIZATION, "a dependency was made or removed meanwhile");
}

static int list_outside(const graph *g, const char **ids)
{
    int count = 0;
    for (int i = 0; i < g->count; i++)
        if (g->edges[i].to < 0 && (count == 0 || strcmp(ids[count - 1], g->edges[i].id) != 0))
            ids[count++] = g->edges[i].id;
    return count;
}

static tide_status settle_all_outside(graph *g, tide_error *err)
{
    const char **ids = tide_arena_alloc(&g->batch->arena, (size_t)g->count * sizeof *ids);
    TIDE_NEED_MEMORY(ids, err);
    const int count = list_outside(g, ids);
    int outside = 0;
    int settled = 0;
    for (int i = 0; i < g->count; i++)
        outside += g->edges[i].to < 0;
    TIDE_QUERY_BY(query, tide_query_begin, g->batch->tx, TIDE_SQL_WORK_DEPENDENCIES_LOCK, err);
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, count, false, err));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(settle_row(g, query, &settled, err));
    if (settled != outside)
        return fail_unsettled(g, err);
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(g->batch->tx, &now_us, err));
    TIDE_QUERY_BY(mark, tide_query_begin, g->batch->tx, TIDE_SQL_WORK_DEPENDENCIES_MARK, err);
    TIDE_TRY(tide_item_bind_texts(mark, "ids", ids, count, false, err));
    tide_query_bind_time(mark, "now", now_us);
    return tide_query_run(mark, NULL, err);
}

tide_status tide_item_batch_depend(tide_item_batch *b, tide_json *pairs, int *pair_count,
                                   tide_error *err)
{
    graph g = {.batch = b};
    TIDE_TRY(list_edges(&g, err));
    *pair_count = g.count;
    if (g.count == 0)
        return TIDE_OK;
    TIDE_TRY(check_circles(&g, err));
    if (g.is_any_outside)
        TIDE_TRY(settle_all_outside(&g, err));
    for (int i = 0; i < g.count; i++) {
        const edge *e = &g.edges[i];
        b->plans[e->from].waits_for += !e->is_over;
        if (e->to >= 0) {
            b->plans[e->to].is_needed = true;
            if (strcmp(b->plans[e->to].task_id, b->plans[e->from].task_id) != 0)
                return tide_fail(err, TIDE_E_INVALID,
                                 "work item %s cannot depend on %s, which belongs to another task",
                                 b->plans[e->from].added->work_item_id, e->id);
        }
        tide_json_array_begin(pairs);
        tide_json_text(pairs, b->plans[e->from].added->work_item_id);
        tide_json_text(pairs, e->id);
        tide_json_array_end(pairs);
    }
    return TIDE_OK;
}
