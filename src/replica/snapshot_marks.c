/* snapshot_marks.c - logs of a snapshot, and events that come along: see snapshot_run.h. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "replica/snapshot_run.h"
#include "tidemark_templates.h"

static tide_status keep_mark(tide_restore_run *u, tide_foreign_query *query, tide_error *err)
{
    TIDE_TRY(tide_list_room(&u->r.here, u->r.here_count, sizeof *u->r.here, TIDE_LIST_MAX, err));
    tide_origin_mark *mark = &u->r.here[u->r.here_count];
    *mark = (tide_origin_mark){.epoch = 0};
    const tide_view origin = tide_foreign_col_bytes(query);
    if (origin.len != TIDE_NODE_LEN)
        return tide_fail(err, TIDE_E_DAMAGED, "an origin's id of %zu bytes", origin.len);
    memcpy(mark->origin.bytes, origin.ptr, TIDE_NODE_LEN);
    mark->epoch = tide_foreign_col_i64(query);
    mark->start = tide_foreign_col_i64(query);
    mark->floor = tide_foreign_col_i64(query);
    TIDE_CLEANUP(tide_cursor_done) tide_cursor cursor = {.contiguous = 0};
    TIDE_TRY(tide_cursor_decode(&cursor, tide_foreign_col_bytes(query), TIDE_LOG_HOLES_MAX, err));
    (void)tide_cursor_raise(&cursor, mark->start);
    mark->prefix = tide_cursor_contiguous(&cursor);
    mark->highest = tide_cursor_highest(&cursor);
    u->r.here_count++;
    return TIDE_OK;
}

tide_status tide_restore_load_marks(tide_restore_run *u, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, u->r.tx, TIDE_TEMPLATE_APPLY_ORIGIN_LIST->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err))
        TIDE_TRY(keep_mark(u, query, err));
    return TIDE_OK;
}

static const tide_origin_mark *find_here(const tide_restore_run *u, const tide_origin_mark *mark)
{
    for (int i = 0; i < u->r.here_count; i++)
        if (u->r.here[i].epoch == mark->epoch &&
            memcmp(&u->r.here[i].origin, &mark->origin, sizeof mark->origin) == 0)
            return &u->r.here[i];
    return NULL;
}

/* Nobody can know more of this node than this node. */
tide_status tide_restore_check_own(const tide_restore_run *u, tide_error *err)
{
    const tide_snapshot_decoder *decoder = &u->input.decoder;
    const tide_node_id self = tide_node_get_id(u->call->node);
    const int64_t epoch = tide_node_epoch(u->call->node);
    for (int i = 0; i < decoder->origin_count; i++) {
        const tide_origin_mark *mark = &decoder->origins[i];
        if (memcmp(&mark->origin, &self, sizeof self) != 0)
            continue;
        const tide_origin_mark *here = find_here(u, mark);
        if (mark->epoch > epoch || (mark->epoch == epoch && here && mark->highest > here->highest))
            return tide_fail(err, TIDE_E_INVALID,
                             "the snapshot has number %" PRId64 " of epoch %" PRId64
                             " of this node, which has not made it",
                             mark->highest, mark->epoch);
    }
    return TIDE_OK;
}

/* ---- marks, cursors, events ---- */

static tide_status end_up_to(const tide_restore_run *u, const char *text,
                             const tide_origin_mark *mark, tide_error *err)
{
    return tide_foreign_exec(
        u->r.tx, text, NULL, err,
        tide_bind_blob("origin", tide_view_bytes(mark->origin.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", mark->epoch), tide_bind_i64("cut", mark->prefix));
}

tide_status tide_restore_end_waiting(const tide_restore_run *u, const tide_origin_mark *mark,
                                     tide_error *err)
{
    TIDE_TRY(end_up_to(u, TIDE_TEMPLATE_SNAPSHOT_SPOOLED_DONE->text, mark, err));
    return end_up_to(u, TIDE_TEMPLATE_SNAPSHOT_SPOOL_CUT->text, mark, err);
}

/* Everything up to the cut has been here, one way or the other; what is not in the log cannot be asked for. */
tide_status tide_restore_move_mark(tide_restore_run *u, const tide_origin_mark *mark,
                                   tide_error *err)
{
    const tide_origin_mark *here = find_here(u, mark);
    TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
    TIDE_TRY(tide_log_origin_load(&origin, u->r.tx, &mark->origin, mark->epoch, err));
    if (here && here->prefix >= mark->prefix && here->start >= mark->start)
        return TIDE_OK;
    if (origin.start < mark->start)
        origin.start = mark->start;
    if (origin.floor < mark->prefix)
        origin.floor = mark->prefix;
    (void)tide_cursor_raise(&origin.cursor, mark->prefix);
    return tide_log_origin_store(&origin, u->r.tx, err);
}

tide_status tide_restore_store_origin(tide_restore_run *u, tide_error *err)
{
    if (!u->has_origin)
        return TIDE_OK;
    u->has_origin = false;
    const tide_status status = tide_log_origin_store(&u->origin, u->r.tx, err);
    tide_log_origin_done(&u->origin);
    return status;
}

static tide_status take_origin(tide_restore_run *u, const tide_node_id *origin, int64_t epoch,
                               tide_error *err)
{
    if (u->has_origin && u->origin.epoch == epoch &&
        memcmp(&u->origin.origin, origin, sizeof *origin) == 0)
        return TIDE_OK;
    TIDE_TRY(tide_restore_store_origin(u, err));
    u->has_origin = true;
    return tide_log_origin_load(&u->origin, u->r.tx, origin, epoch, err);
}

static bool is_of_snapshot(const tide_restore_run *u, const char *name)
{
    for (int i = 0; i < u->input.decoder.table_count; i++) {
        const tide_snapshot_table *table = &u->input.decoder.tables[i];
        if (strcmp(table->name, name) == 0)
            return true;
        for (int k = 0; k < table->former_count; k++)
            if (strcasecmp(table->former[k], name) == 0)
                return true;
    }
    return false;
}

/* The maker has had events of a table that is tracked here and not there. As long as it keeps them they come with the snapshot; what it has collected would
 * never come. */
static tide_status check_untracked(const tide_restore_run *u, const char *name,
                                   const tide_snapshot_cursor *cursor, tide_error *err)
{
    const tide_origin_mark *mark =
        tide_snapshot_decoder_origin(&u->input.decoder, &cursor->origin, cursor->epoch);
    if (!mark || is_of_snapshot(u, name) || !tide_desk_table(&u->desk, name))
        return TIDE_OK;
    const tide_origin_mark *here = find_here(u, mark);
    const int64_t prefix = here && here->prefix > mark->start ? here->prefix : mark->start;
    if (cursor->last_seq <= prefix || mark->floor <= prefix)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "table %s is tracked here, but not by the snapshot's maker, who has collected "
                     "events of it: take the snapshot of a peer that tracks it",
                     name);
}

tide_status tide_restore_take_cursor(tide_restore_run *u, const tide_snapshot_cursor *cursor,
                                     tide_error *err)
{
    char name[TIDE_EVENT_TABLE_MAX + 1];
    tide_log_table *table = NULL;
    tide_view_copy(name, sizeof name, cursor->table);
    TIDE_TRY(check_untracked(u, name, cursor, err));
    TIDE_TRY(take_origin(u, &cursor->origin, cursor->epoch, err));
    TIDE_TRY(tide_log_origin_table(&table, &u->origin, u->r.tx, name, err));
    (void)tide_cursor_raise(&table->cursor, cursor->prefix);
    if (table->last_seq < cursor->last_seq)
        table->last_seq = cursor->last_seq;
    return TIDE_OK;
}

static tide_status quarantine(tide_restore_run *u, const tide_snapshot_event *given,
                              tide_view reason, tide_error *err)
{
    return tide_foreign_exec(
        u->r.tx, TIDE_TEMPLATE_SNAPSHOT_QUARANTINE_PUT->text, NULL, err,
        tide_bind_blob("origin", tide_view_bytes(given->event.origin.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", given->event.epoch), tide_bind_i64("seq", given->event.seq),
        tide_bind_view("reason", reason), tide_bind_view("detail", given->detail),
        tide_bind_i64("found_at", given->reason.len > 0 ? given->found_at_us : u->desk.now_us));
}

typedef enum held_state {
    HELD_UNKNOWN,
    HELD_WAITING, /* in our log */
    HELD_MERGED,  /* here, maybe long ago */
} held_state;

static tide_status find_state(held_state *out, const tide_restore_run *u, const tide_event *event,
                              tide_error *err)
{
    const tide_origin_mark wanted = {.origin = event->origin, .epoch = event->epoch};
    const tide_origin_mark *here = find_here(u, &wanted);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(
        &query, u->r.tx, TIDE_TEMPLATE_SNAPSHOT_IS_PROCESSED->text, err,
        tide_bind_blob("origin", tide_view_bytes(event->origin.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", event->epoch), tide_bind_i64("seq", event->seq));
    TIDE_TRY(status);
    if (status == TIDE_OK)
        *out = tide_foreign_col_i64(query) != 0 ? HELD_MERGED : HELD_WAITING;
    else
        *out = here && event->seq <= here->prefix ? HELD_MERGED : HELD_UNKNOWN;
    return TIDE_OK;
}

static tide_status put_event(tide_restore_run *u, const tide_snapshot_event *given,
                             bool is_processed, tide_error *err)
{
    TIDE_TRY(take_origin(u, &given->event.origin, given->event.epoch, err));
    TIDE_TRY(tide_log_settle(&u->origin, u->r.tx, &given->event, err));
    u->call->out.events++;
    return tide_log_put(&u->desk, &given->event, given->body, is_processed, err);
}

/* The maker has not merged it: it waits here, too, for its table if for nothing else, unless we have merged it. */
static tide_status take_held(tide_restore_run *u, const tide_snapshot_event *given, tide_error *err)
{
    held_state found = HELD_UNKNOWN;
    TIDE_TRY(find_state(&found, u, &given->event, err));
    TIDE_TRY(tide_snapshot_note_held(&u->r, &given->event, found == HELD_MERGED, err));
    if (found == HELD_MERGED)
        return TIDE_OK;
    if (found == HELD_UNKNOWN)
        TIDE_TRY(put_event(u, given, false, err));
    return quarantine(u, given, given->reason.len > 0 ? given->reason : tide_view_of("table"), err);
}

/* An event that comes with the snapshot: the rows have it (beyond a hole), or it waits. */
tide_status tide_restore_take_event(tide_restore_run *u, const tide_snapshot_event *given,
                                    tide_error *err)
{
    const tide_event *event = &given->event;
    const tide_origin_mark wanted = {.origin = event->origin, .epoch = event->epoch};
    const tide_origin_mark *here = find_here(u, &wanted);
    if (!given->is_processed || given->reason.len > 0 || !is_of_snapshot(u, event->table))
        return take_held(u, given, err);
    if (here && event->seq <= here->prefix)
        return TIDE_OK;
    TIDE_TRY(take_origin(u, &event->origin, event->epoch, err));
    if (tide_cursor_has(&u->origin.cursor, event->seq) &&
        event->seq > tide_cursor_contiguous(&u->origin.cursor))
        return TIDE_OK; /* beyond a hole of our own: it is in our log */
    return put_event(u, given, true, err);
}
