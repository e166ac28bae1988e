#include "replica/again.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "replica/capture.h"
#include "tidemark_templates.h"

void tide_again_mark(tide_desk *desk, tide_desk_row *row)
{
    row->is_again = true;
    desk->has_again = true;
}

tide_status tide_again_log(tide_desk *desk, tide_error *err)
{
    for (tide_desk_row *row = desk->first; row; row = row->next) {
        if (!row->is_again || row->table->is_absent)
            continue;
        row->is_again = false;
        if (row->is_here)
            TIDE_TRY(
                tide_capture_log(desk->tx, row->table, TIDE_ROW_CREATE, row->values, NULL, err));
        else if (!tide_row_clock_exists(&row->clock) && row->clock.deleted.stamp.time != 0)
            TIDE_TRY(tide_capture_log_gone(desk->tx, row->table, row->values, err));
    }
    desk->has_again = false;
    return TIDE_OK;
}

/* ---- late origins ---- */

static void name_late(char out[96], const tide_node_id *origin, int64_t epoch)
{
    char hex[2 * TIDE_NODE_LEN + 1];
    tide_hex_encode(hex, origin->bytes, TIDE_NODE_LEN);
    (void)snprintf(out, 96, "late/%s/%" PRId64, hex, epoch);
}

tide_status tide_again_meet(tide_foreign_tx *tx, const tide_node_id *origin, int64_t epoch,
                            tide_error *err)
{
    char key[96];
    name_late(key, origin, epoch);
    return tide_foreign_exec(tx, TIDE_TEMPLATE_AGAIN_LATE_PUT->text, NULL, err,
                             tide_bind_text("key", key));
}

/* Up to which stamp this origin is late; kept on the desk for the events that follow. */
static tide_status find_late(tide_desk *desk, const tide_event *event, tide_error *err)
{
    char key[96];
    if (desk->late_epoch == event->epoch &&
        memcmp(&desk->late_origin, &event->origin, sizeof event->origin) == 0)
        return TIDE_OK;
    name_late(key, &event->origin, event->epoch);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status = tide_foreign_first(
        &query, desk->tx, TIDE_TEMPLATE_AGAIN_LATE_GET->text, err, tide_bind_text("key", key));
    TIDE_TRY(status);
    desk->late_origin = event->origin;
    desk->late_epoch = event->epoch;
    desk->late_through = status == TIDE_OK ? (uint64_t)tide_foreign_col_i64(query) : 0;
    return TIDE_OK;
}

tide_status tide_again_judge(tide_desk *desk, tide_desk_row *row, const tide_event *event,
                             tide_error *err)
{
    if (event->kind == TIDE_ROW_DELETE || event->epoch < 1)
        return TIDE_OK;
    TIDE_TRY(find_late(desk, event, err));
    const bool is_late = event->stamp.time <= desk->late_through &&
                         tide_row_clock_exists(&row->clock) &&
                         tide_row_clock_newest(&row->clock).time <= desk->late_through;
    if (is_late)
        tide_again_mark(desk, row);
    return TIDE_OK;
}

/* ---- own events ---- */

enum { DESK_ROWS = 1000 };

typedef struct own {
    tide_node *node;
    tide_foreign_tx *tx;
    tide_foreign_query *bodies;
    bool is_done;
} own;

static tide_status say_event(tide_desk *desk, tide_view body, tide_error *err)
{
    tide_view key;
    tide_desk_row *row = NULL;
    TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
    TIDE_TRY(tide_event_decode(&event, body, err));
    const tide_table *table = tide_desk_table(desk, event.table);
    if (!table || table->key_count != event.key_count)
        return TIDE_OK;
    TIDE_TRY(tide_desk_key(&key, desk, event.key, event.key_count, err));
    TIDE_TRY(tide_desk_row_get(&row, desk, table, key, err));
    tide_again_mark(desk, row);
    return TIDE_OK;
}

static tide_status say_some(own *o, tide_error *err)
{
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_TRY(tide_desk_init(&desk, o->node, o->tx, err));
    while (!o->is_done && desk.row_count < DESK_ROWS) {
        const tide_status status = tide_foreign_step(o->bodies, err);
        TIDE_TRY(status);
        o->is_done = status == TIDE_NONE;
        if (o->is_done)
            break;
        (void)tide_foreign_col_i64(o->bodies); /* its number */
        (void)tide_foreign_col_i64(o->bodies); /* its batch */
        TIDE_TRY(say_event(&desk, tide_foreign_col_bytes(o->bodies), err));
    }
    return tide_again_log(&desk, err);
}

tide_status tide_again_own(tide_node *node, tide_foreign_tx *tx, int64_t epoch, int64_t after,
                           tide_error *err)
{
    const tide_node_id self = tide_node_get_id(node);
    TIDE_FOREIGN_QUERY(bodies, tx, TIDE_TEMPLATE_APPLY_EVENT_BODIES->text, err,
                       tide_bind_blob("origin", tide_view_bytes(self.bytes, TIDE_NODE_LEN)),
                       tide_bind_i64("epoch", epoch), tide_bind_i64("after", after),
                       tide_bind_i64("through", INT64_MAX));
    own o = {.node = node, .tx = tx, .bodies = bodies};
    while (!o.is_done)
        TIDE_TRY(say_some(&o, err));
    return TIDE_OK;
}
