#include "replica/spool.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/quarantine.h"
#include "tidemark_templates.h"

#define STEP_BYTES_MAX ((size_t)64 << 20)

static tide_status begin(tide_foreign_query **out, tide_foreign_tx *tx,
                         const tide_template *template, const tide_node_id *origin, int64_t epoch,
                         tide_error *err)
{
    return tide_foreign_start(
        out, tx, template->text, err,
        tide_bind_blob("origin", tide_view_bytes(origin->bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", epoch));
}

/* ---- what waits ---- */

bool tide_spool_is_whole(const tide_log_origin *origin, int64_t cut)
{
    return tide_cursor_contiguous(&origin->cursor) >= cut;
}

tide_status tide_spool_has(bool *out, tide_foreign_tx *tx, const tide_log_origin *origin,
                           int64_t cut, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, begin, tx, TIDE_TEMPLATE_SPOOL_FIND, &origin->origin,
                          origin->epoch, err);
    tide_foreign_bind_i64(query, "cut", cut);
    const tide_status status = tide_foreign_step(query, err);
    *out = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_spool_put(tide_foreign_tx *tx, const tide_event *event, int64_t now_us,
                           tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, begin, tx, TIDE_TEMPLATE_SPOOL_PUT, &event->origin, event->epoch,
                          err);
    tide_foreign_bind_i64(query, "cut", event->cut_seq);
    tide_foreign_bind_i64(query, "first", event->seq);
    tide_foreign_bind_i64(query, "now", now_us);
    return tide_foreign_run(query, NULL, err);
}

tide_status tide_spool_bound(int64_t *out, tide_foreign_tx *tx, const tide_node_id *origin,
                             int64_t epoch, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, begin, tx, TIDE_TEMPLATE_SPOOL_BOUND, origin, epoch, err);
    const tide_status status = tide_foreign_step(query, err);
    TIDE_TRY(status);
    *out = status == TIDE_OK && !tide_foreign_col_is_null(query) ? tide_foreign_col_i64(query)
                                                                 : INT64_MAX;
    return TIDE_OK;
}

/* ---- merging ---- */

typedef struct step {
    tide_node *node;
    tide_foreign_tx *tx;
    const tide_log_origin *origin;
    int64_t cut;
    int64_t after; /* events at or below it are done */
    bool more;
    tide_applied *applied;
} step;

static tide_status merge_event(step *s, tide_desk *desk, tide_view bytes, tide_error *err)
{
    tide_hold why = TIDE_HOLD_NOT;
    TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
    TIDE_TRY(tide_event_decode(&event, bytes, err));
    TIDE_TRY(tide_quarantine_merge(&why, desk, &event, err));
    s->after = event.seq;
    if (why == TIDE_HOLD_NOT)
        return tide_log_set_processed(desk, &event, err);
    if (why == TIDE_HOLD_DRIFT)
        s->applied->waiting++;
    else
        s->applied->quarantined++;
    return tide_quarantine_put(desk, &event, why, err);
}

/* Events borrow from their bytes, which the desk keeps until it is settled; the question has ended before the answers are changed. */
static tide_status read_step(step *s, tide_desk *desk, tide_view *bodies, int *count,
                             tide_error *err)
{
    size_t bytes = 0;
    TIDE_FOREIGN_QUERY_BY(query, begin, s->tx, TIDE_TEMPLATE_SPOOL_BODIES, &s->origin->origin,
                          s->origin->epoch, err);
    tide_foreign_bind_i64(query, "cut", s->cut);
    tide_foreign_bind_i64(query, "after", s->after);
    tide_status status = TIDE_OK;
    *count = 0;
    s->more = true;
    while (*count < TIDE_SPOOL_STEP && bytes < STEP_BYTES_MAX) {
        status = tide_foreign_step(query, err);
        if (status != TIDE_OK)
            break;
        const tide_view body = tide_foreign_col_bytes(query);
        const char *copy = tide_arena_copy(&desk->arena, body.ptr, body.len);
        TIDE_NEED_MEMORY(copy, err);
        bodies[(*count)++] = tide_view_bytes(copy, body.len);
        bytes += body.len;
    }
    s->more = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status merge_step(step *s, tide_view *bodies, tide_error *err)
{
    int count = 0;
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_TRY(tide_desk_init(&desk, s->node, s->tx, err));
    TIDE_TRY(read_step(s, &desk, bodies, &count, err));
    for (int i = 0; i < count; i++)
        TIDE_TRY(merge_event(s, &desk, bodies[i], err));
    TIDE_TRY(tide_desk_settle(&desk, err));
    s->applied->rows += desk.rows;
    s->applied->conflicts += desk.conflicts;
    return TIDE_OK;
}

static tide_status merge_batch(step *s, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) tide_view *bodies = calloc(TIDE_SPOOL_STEP, sizeof *bodies);
    TIDE_NEED_MEMORY(bodies, err);
    for (s->more = true; s->more;)
        TIDE_TRY(merge_step(s, bodies, err));
    TIDE_FOREIGN_QUERY_BY(query, begin, s->tx, TIDE_TEMPLATE_SPOOL_CUT, &s->origin->origin,
                          s->origin->epoch, err);
    tide_foreign_bind_i64(query, "cut", s->cut);
    return tide_foreign_run(query, NULL, err);
}

/* The first batch above `after` that waits. */
static tide_status find_next(int64_t *cut, int64_t *first, tide_foreign_tx *tx,
                             const tide_log_origin *origin, int64_t after, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, begin, tx, TIDE_TEMPLATE_SPOOL_NEXT, &origin->origin,
                          origin->epoch, err);
    tide_foreign_bind_i64(query, "after", after);
    TIDE_TRY_FOUND(tide_foreign_step(query, err));
    *cut = tide_foreign_col_i64(query);
    *first = tide_foreign_col_i64(query);
    return TIDE_OK;
}

tide_status tide_spool_release(tide_node *node, tide_foreign_tx *tx, const tide_log_origin *origin,
                               tide_applied *applied, tide_error *err)
{
    int64_t cut = 0;
    int64_t first = 0;
    for (;;) {
        const tide_status status = find_next(&cut, &first, tx, origin, cut, err);
        if (status != TIDE_OK || !tide_spool_is_whole(origin, cut))
            return status < TIDE_OK ? status : TIDE_OK;
        step s = {.node = node,
                  .tx = tx,
                  .origin = origin,
                  .cut = cut,
                  .after = first - 1,
                  .applied = applied};
        TIDE_TRY(merge_batch(&s, err));
    }
}

static tide_status find_origin(tide_node_id *origin, int64_t *epoch, tide_foreign_tx *tx,
                               tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, begin, tx, TIDE_TEMPLATE_SPOOL_ORIGIN, origin, *epoch, err);
    TIDE_TRY_FOUND(tide_foreign_step(query, err));
    const tide_view id = tide_foreign_col_bytes(query);
    if (id.len != TIDE_NODE_LEN)
        return tide_fail(err, TIDE_E_DAMAGED, "tide_replica_spool: an origin of %zu bytes", id.len);
    memcpy(origin->bytes, id.ptr, TIDE_NODE_LEN);
    *epoch = tide_foreign_col_i64(query);
    return TIDE_OK;
}

tide_status tide_spool_release_all(tide_node *node, tide_foreign_tx *tx, tide_error *err)
{
    tide_node_id of = {.bytes = {0}};
    int64_t epoch = 0;
    for (;;) {
        tide_applied applied = {.events = 0};
        TIDE_OK_IF_NONE(find_origin(&of, &epoch, tx, err));
        TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
        TIDE_TRY(tide_log_origin_load(&origin, tx, &of, epoch, err));
        TIDE_TRY(tide_spool_release(node, tx, &origin, &applied, err));
    }
}
