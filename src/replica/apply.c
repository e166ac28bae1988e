#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "replica/again.h"
#include "replica/fold.h"
#include "replica/log.h"
#include "replica/node.h"
#include "replica/quarantine.h"
#include "replica/spool.h"

enum { PAGE_EVENTS_MAX = 200000, PAGE_BYTES_MAX = 64 << 20 };
#define AHEAD_MAX (INT64_C(1) << 40) /* numbers beyond what is known of an origin */

/* ---- what can be told without looking ---- */

typedef struct page {
    tide_arena arena; /* events without the room for further columns of a key, most of their size */
    tide_event **events;
    const tide_view *bytes;
    int count;
} page;

static void page_done(page *p)
{
    for (int i = 0; i < p->count; i++)
        tide_event_done(p->events[i]);
    free((void *)p->events);
    tide_arena_done(&p->arena);
}

static tide_status add_event(page *out, tide_view bytes, tide_error *err)
{
    tide_event event;
    TIDE_TRY(tide_event_decode(&event, bytes, err));
    tide_event *kept = tide_arena_alloc(&out->arena, tide_event_size(&event));
    if (!kept) {
        tide_event_done(&event);
        return tide_no_memory(err);
    }
    tide_event_copy(kept, &event);
    out->events[out->count++] = kept;
    return TIDE_OK;
}

static tide_status check_follows(const tide_event *before, const tide_event *event, tide_error *err)
{
    if (memcmp(&before->origin, &event->origin, sizeof event->origin) != 0 ||
        before->epoch != event->epoch)
        return tide_fail(err, TIDE_E_INVALID, "a page holds events of one origin's epoch");
    if (event->seq <= before->seq || event->cut_seq < before->cut_seq ||
        (event->seq <= before->cut_seq && event->cut_seq != before->cut_seq))
        return tide_fail(err, TIDE_E_INVALID,
                         "event %" PRId64 " (batch to %" PRId64 ") follows %" PRId64
                         " (batch to %" PRId64 ")",
                         event->seq, event->cut_seq, before->seq, before->cut_seq);
    if (tide_stamp_compare(&event->stamp, &before->stamp) <= 0)
        return tide_fail(err, TIDE_E_INVALID, "the stamp of event %" PRId64 " does not rise",
                         event->seq);
    return TIDE_OK;
}

static tide_status decode_page(page *out, const tide_view *events, int count, tide_error *err)
{
    size_t bytes = 0;
    if (count < 0 || count > PAGE_EVENTS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a page of %d events, at most %d", count,
                         PAGE_EVENTS_MAX);
    for (int i = 0; i < count; i++)
        bytes += events[i].len;
    if (bytes > PAGE_BYTES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a page of %zu bytes, at most %d", bytes,
                         PAGE_BYTES_MAX);
    tide_arena_init(&out->arena, (size_t)PAGE_EVENTS_MAX * sizeof(tide_event));
    out->events = (tide_event **)calloc((size_t)count + 1, sizeof(tide_event *));
    TIDE_NEED_MEMORY(out->events, err);
    out->bytes = events;
    for (int i = 0; i < count; i++) {
        TIDE_TRY(add_event(out, events[i], err));
        const tide_event *event = out->events[i];
        if (memcmp(&event->stamp.node, &event->origin, sizeof event->origin) != 0)
            return tide_fail(err, TIDE_E_INVALID, "event %" PRId64 " has the stamp of another node",
                             event->seq);
        if (event->epoch > TIDE_EPOCH_MAX)
            return tide_fail(err, TIDE_E_INVALID, "epoch %" PRId64 " cannot be", event->epoch);
        if (i > 0)
            TIDE_TRY(check_follows(out->events[i - 1], event, err));
    }
    return TIDE_OK;
}

/* ---- a page in its transaction ---- */

typedef struct apply_call {
    tide_node *node;
    const page *page;
    tide_applied applied;
    bool is_behind; /* there is still to fold: the page was not looked at */
} apply_call;

/* Numbers that an origin cannot have given yet. Ours alone can we know. */
static tide_status check_numbers(tide_node *node, const tide_log_origin *origin, const page *p,
                                 tide_error *err)
{
    const tide_node_id self = tide_node_get_id(node);
    const int64_t epoch = tide_node_epoch(node);
    const tide_event *last = p->events[p->count - 1];
    const int64_t highest = tide_cursor_highest(&origin->cursor);
    const bool is_ours = memcmp(&self, &origin->origin, sizeof self) == 0;
    if (is_ours && (last->epoch > epoch || (last->epoch == epoch && last->seq > highest)))
        return tide_fail(err, TIDE_E_INVALID,
                         "event %" PRId64 " of epoch %" PRId64
                         " names this node as its origin, which has not made it",
                         last->seq, last->epoch);
    if (last->cut_seq - highest > AHEAD_MAX)
        return tide_fail(err, TIDE_E_INVALID, "number %" PRId64 " lies too far above %" PRId64,
                         last->cut_seq, highest);
    return TIDE_OK;
}

/* The batch that events under work belong to. */
typedef struct batch {
    int64_t cut;
    bool is_merged; /* whole, and none of it waits: merged as it comes */
} batch;

static tide_status look_at_batch(batch *out, const tide_desk *desk, const tide_log_origin *origin,
                                 int64_t cut, tide_error *err)
{
    const bool is_whole = tide_spool_is_whole(origin, cut);
    bool is_waiting = false;
    if (out->cut == cut)
        return TIDE_OK;
    if (is_whole)
        TIDE_TRY(tide_spool_has(&is_waiting, desk->tx, origin, cut, err));
    *out = (batch){.cut = cut, .is_merged = is_whole && !is_waiting};
    return TIDE_OK;
}

static tide_status take_event(apply_call *call, tide_desk *desk, const tide_log_origin *origin,
                              batch *of, int index, tide_error *err)
{
    const tide_event *event = call->page->events[index];
    const tide_view bytes = call->page->bytes[index];
    tide_hold why = TIDE_HOLD_NOT;
    call->applied.events++;
    TIDE_TRY(look_at_batch(of, desk, origin, event->cut_seq, err));
    if (!of->is_merged) {
        call->applied.spooled++;
        TIDE_TRY(tide_log_put(desk, event, bytes, false, err));
        return tide_spool_put(desk->tx, event, desk->now_us, err);
    }
    TIDE_TRY(tide_quarantine_merge(&why, desk, event, err));
    TIDE_TRY(tide_log_put(desk, event, bytes, why == TIDE_HOLD_NOT, err));
    if (why == TIDE_HOLD_NOT)
        return TIDE_OK;
    if (why == TIDE_HOLD_DRIFT)
        call->applied.waiting++;
    else
        call->applied.quarantined++;
    return tide_quarantine_put(desk, event, why, err);
}

/* Seen before or not is decided by position, whatever has become of the row. is_new: one per event. */
static tide_status settle_page(apply_call *call, tide_foreign_tx *tx, tide_log_origin *origin,
                               bool *is_new, tide_error *err)
{
    for (int i = 0; i < call->page->count; i++) {
        const tide_event *event = call->page->events[i];
        is_new[i] = !tide_cursor_has(&origin->cursor, event->seq);
        if (is_new[i])
            TIDE_TRY(tide_log_settle(origin, tx, event, err));
        else
            call->applied.known++;
    }
    return TIDE_OK;
}

static tide_status take_page(apply_call *call, tide_foreign_tx *tx, tide_log_origin *origin,
                             tide_error *err)
{
    const page *p = call->page;
    batch of = {.cut = 0};
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_CLEANUP(tide_freep) bool *is_new = calloc((size_t)p->count, sizeof *is_new);
    TIDE_NEED_MEMORY(is_new, err);
    TIDE_TRY(check_numbers(call->node, origin, p, err));
    TIDE_TRY(settle_page(call, tx, origin, is_new, err));
    if (call->applied.known == p->count)
        return TIDE_OK;
    if (origin->is_new) /* before what it sends is judged */
        TIDE_TRY(tide_again_meet(tx, &origin->origin, origin->epoch, err));
    TIDE_TRY(tide_desk_init(&desk, call->node, tx, err));
    for (int i = 0; i < p->count; i++)
        if (is_new[i])
            TIDE_TRY(take_event(call, &desk, origin, &of, i, err));
    TIDE_TRY(tide_desk_settle(&desk, err));
    call->applied.rows = desk.rows;
    call->applied.conflicts = desk.conflicts;
    return tide_log_origin_store(origin, tx, err);
}

static tide_status apply_page(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    apply_call *call = arg;
    const page *p = call->page;
    int64_t folded = 0;
    call->applied = (tide_applied){.events = 0};
    call->is_behind = false;
    TIDE_TRY(tide_fold_turn(call->node, tx, &folded, &call->is_behind, err));
    if (call->is_behind || p->count == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
    TIDE_TRY(tide_log_origin_load(&origin, tx, &p->events[0]->origin, p->events[0]->epoch, err));
    TIDE_TRY(take_page(call, tx, &origin, err));
    return call->applied.events > 0
               ? tide_spool_release(call->node, tx, &origin, &call->applied, err)
               : TIDE_OK;
}

tide_status tide_node_apply(tide_node *node, const tide_view *events, int count, tide_applied *out,
                            tide_error *err)
{
    TIDE_CLEANUP(page_done) page p = {.events = NULL};
    TIDE_TRY(decode_page(&p, events, count, err));
    apply_call call = {.node = node, .page = &p};
    do /* every turn folds as much as one transaction may; writers cannot keep it from ending, they wait for the same lock */
        TIDE_TRY(tide_foreign_write(tide_node_file(node), apply_page, &call, err));
    while (call.is_behind);
    *out = call.applied;
    return TIDE_OK;
}
