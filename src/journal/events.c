#include "journal/events.h"

#include <assert.h>

#include <tidemark/watch.h>

#include "base/interface/caller.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static const char *const kind_names[] = {
    [TIDE_JOURNAL_CREATED] = "created",   [TIDE_JOURNAL_RESTORED] = "restored",
    [TIDE_JOURNAL_DELETED] = "deleted",   [TIDE_JOURNAL_COMPACTED] = "compacted",
    [TIDE_JOURNAL_IMPORTED] = "imported", [TIDE_JOURNAL_EPOCH_CHANGED] = "epoch_changed",
};

const char *tide_journal_event_name(tide_journal_event_kind kind)
{
    return TIDE_NAME_AT(kind_names, kind);
}

bool tide_journal_event_parse(tide_journal_event_kind *kind, tide_view name)
{
    for (int i = TIDE_JOURNAL_RESTORED; i <= TIDE_JOURNAL_IMPORTED; i++) {
        if (!tide_view_equal(name, tide_view_of(kind_names[i])))
            continue;
        *kind = (tide_journal_event_kind)i;
        return true;
    }
    return false;
}

tide_status tide_journal_event_declare(tide_tx *tx, tide_sequence_range *range, tide_error *err)
{
    TIDE_TRY(tide_sequence_declare(tx, TIDE_JOURNAL_EVENTS, 1, range, err));
    return tide_tx_notify(tx, TIDE_JOURNAL_TOPIC, err);
}

tide_status tide_journal_event_defer(tide_tx *tx, const tide_journal_event *event, tide_error *err)
{
    assert(event->kind >= TIDE_JOURNAL_RESTORED && event->kind <= TIDE_JOURNAL_IMPORTED);
    return tide_tx_defer(
        tx, TIDE_SQL_JOURNAL_EVENT_ADD, err, tide_bind_text("kind", kind_names[event->kind]),
        tide_bind_i64("first", event->first_global), tide_bind_i64("last", event->last_global),
        tide_bind_i64("count", event->count), tide_bind_text("task_id", event->task_id));
}

tide_status tide_journal_event_add(tide_tx *tx, const tide_journal_event *event,
                                   tide_sequence_range *range, tide_error *err)
{
    TIDE_TRY(tide_journal_event_declare(tx, range, err));
    return tide_journal_event_defer(tx, event, err);
}
