/* tail.c - following the journal: checkpoints and events, merged, nothing missed.
 *
 * Checkpoints become visible in the order of their numbers, events in the order of theirs. An event knows the last
 * checkpoint number of its time: it is handed out when everything up to that number has been. */
#include <tidemark/journal.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "journal/events.h"
#include "journal/page.h"
#include "store/statement.h"
#include "tidemark_sql.h"

typedef struct happening {
    tide_journal_event event;
    int64_t head;
    char task_id[TIDE_JOURNAL_ID_MAX + 1];
} happening;

typedef struct tail_step {
    tide_journal_position asked;
    tide_journal_position from; /* asked, moved to the store's present epoch */
    int64_t limit;
    bool with_snapshot;
    tide_journal_page *page;
    bool is_epoch_changed; /* from has moved to what is common; nothing else was read */
    happening happenings[TIDE_JOURNAL_PAGE_MAX];
    int happening_count;
    bool is_page_full; /* there may be checkpoints behind it */
} tail_step;

/* The next numbers; a page of large snapshots ends early. */
static tide_status pick(tail_step *step, tide_tx *tx, int64_t *numbers, int *count, tide_error *err)
{
    *count = 0;
    step->is_page_full = false;
    TIDE_QUERY(query, tx, TIDE_SQL_JOURNAL_PICK_UP, err,
               tide_bind_i64("first", step->from.global_sequence + 1),
               tide_bind_i64("last", INT64_MAX), tide_bind_i64("limit", step->limit));
    int64_t weight = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        const int64_t number = tide_query_col_i64(query);
        (void)tide_query_col_i64(query); /* its number in the task */
        const int64_t snapshot_len = tide_query_col_i64(query);
        weight += tide_query_col_i64(query) + (step->with_snapshot ? snapshot_len : 0);
        if (*count > 0 && weight > TIDE_JOURNAL_PAGE_LEN) {
            step->is_page_full = true;
            return TIDE_OK;
        }
        numbers[(*count)++] = number;
    }
    step->is_page_full = *count == step->limit;
    return TIDE_OK;
}

static tide_status read_event(happening *out, tide_query *query, tide_error *err)
{
    *out = (happening){0};
    out->event.event_id = tide_query_col_i64(query);
    const tide_view kind = tide_query_col_text(query);
    if (!tide_journal_event_parse(&out->event.kind, kind))
        return tide_fail(err, TIDE_E_DAMAGED, "event %" PRId64 ": unknown kind",
                         out->event.event_id);
    out->head = tide_query_col_i64(query);
    out->event.first_global = tide_query_col_i64(query);
    out->event.last_global = tide_query_col_i64(query);
    out->event.count = tide_query_col_i64(query);
    const bool has_task = !tide_query_col_is_null(query);
    tide_view_copy(out->task_id, sizeof out->task_id, tide_query_col_text(query));
    out->event.task_id = has_task ? out->task_id : NULL;
    out->event.at_us = tide_query_col_time(query);
    return TIDE_OK;
}

static tide_status read_events(tail_step *step, tide_tx *tx, tide_error *err)
{
    step->happening_count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_JOURNAL_EVENT_LIST, err,
               tide_bind_i64("after", step->from.event_id), tide_bind_i64("limit", step->limit));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(read_event(&step->happenings[step->happening_count++], query, err));
    return TIDE_OK;
}

/* Does the store have the epoch of the position? An epoch that is older than the store's by its
 * number has been left behind by an operator (store new-epoch), and is known to be cut. */
static tide_status check_known(const tide_identity *seen, const tide_identity *now, tide_tx *tx,
                               tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_JOURNAL_EPOCH_KNOWN, err,
                  tide_bind_text("epoch_id", seen->epoch_id));
    if (tide_query_col_i64(query) > 0 || (seen->epoch > 0 && seen->epoch < now->epoch))
        return TIDE_OK;
    return tide_fail(
        err, TIDE_E_MISMATCH,
        "the position is of epoch %s, which this store does not have; it is at epoch "
        "%" PRId64 " (%s). It may be an older copy, a primary that returned or another "
        "store: use the newer one, or run tidemark store new-epoch --why TEXT and read "
        "again "
        "without the position",
        seen->epoch_id, now->epoch, now->epoch_id);
}

/* Moves step->from to the last numbers that its epoch and the store's have in common. */
static tide_status check_epoch(tail_step *step, tide_tx *tx, tide_error *err)
{
    tide_identity now;
    tide_identity *seen = &step->from.identity;
    TIDE_TRY(tide_identity_read(tx, &now, err));
    if (seen->session_id[0] && strcmp(seen->session_id, now.session_id) != 0)
        return tide_fail(err, TIDE_E_MISMATCH,
                         "the position is of another store: session %s, this one is %s",
                         seen->session_id, now.session_id);
    step->is_epoch_changed = seen->epoch_id[0] && strcmp(seen->epoch_id, now.epoch_id) != 0;
    if (step->is_epoch_changed) {
        TIDE_TRY(check_known(seen, &now, tx, err));
        TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_JOURNAL_EPOCH_COMMON, err,
                      tide_bind_text("epoch_id", seen->epoch_id));
        const int64_t head = tide_query_col_i64(query);
        const int64_t event = tide_query_col_i64(query);
        if (head < step->from.global_sequence)
            step->from.global_sequence = head;
        if (event < step->from.event_id)
            step->from.event_id = event;
    }
    *seen = now;
    return TIDE_OK;
}

static tide_status read_step(tide_tx *tx, void *arg, tide_error *err)
{
    tail_step *step = arg;
    step->from = step->asked; /* a closure may run more than once */
    TIDE_TRY(check_epoch(step, tx, err));
    if (step->is_epoch_changed)
        return TIDE_OK;
    int64_t numbers[TIDE_JOURNAL_PAGE_MAX];
    int count = 0;
    TIDE_TRY(pick(step, tx, numbers, &count, err));
    TIDE_TRY(tide_journal_page_read(step->page, tx, numbers, count,
                                    step->with_snapshot ? TIDE_PAGE_SNAPSHOTS : TIDE_PAGE_ROWS,
                                    err));
    return read_events(step, tx, err);
}

static tide_status hand_out_checkpoint(const tail_step *step, const tide_journal_row *row,
                                       tide_journal_event_fn *fn, void *arg, tide_error *err)
{
    TIDE_TRY(tide_journal_row_check(row, err));
    const tide_journal_event event = {
        .kind = TIDE_JOURNAL_CREATED,
        .first_global = row->checkpoint.global_sequence,
        .last_global = row->checkpoint.global_sequence,
        .count = 1,
        .task_id = row->checkpoint.task_id,
        .at_us = row->checkpoint.created_at_us,
        .checkpoint = &row->checkpoint,
        .identity = &step->from.identity,
    };
    return tide_callback_check(fn(arg, &event, err), err);
}

/* The position moves with each event that fn took: what fails is handed out again. */
static tide_status hand_out(tail_step *step, tide_journal_position *position,
                            tide_journal_event_fn *fn, void *arg, tide_error *err)
{
    const tide_journal_page *page = step->page;
    int row = 0;
    int happened = 0;
    for (int64_t n = 0; n < step->limit; n++) {
        const bool has_row = row < page->count;
        const bool has_event = happened < step->happening_count;
        happening *next = &step->happenings[happened];
        const bool is_event_next =
            has_event && (has_row ? next->head < page->rows[row].checkpoint.global_sequence
                                  : !step->is_page_full || next->head <= position->global_sequence);
        if (is_event_next) {
            next->event.identity = &step->from.identity;
            TIDE_TRY(tide_callback_check(fn(arg, &next->event, err), err));
            position->event_id = next->event.event_id;
            happened++;
        } else if (has_row) {
            TIDE_TRY(hand_out_checkpoint(step, &page->rows[row], fn, arg, err));
            position->global_sequence = page->rows[row].checkpoint.global_sequence;
            row++;
        } else {
            break;
        }
    }
    return TIDE_OK;
}

tide_status tide_journal_tail(tide_store *store, tide_journal_position *position,
                              const tide_journal_tail_options *given, tide_journal_event_fn *fn,
                              void *arg, tide_error *err)
{
    TIDE_NEED(store && position && fn, err);
    tide_journal_tail_options options;
    TIDE_TRY(TIDE_SIZED_COPY(&options, given, tide_journal_tail_options, err));
    const int64_t limit = options.limit;
    if (limit < 1 || position->global_sequence < 0 || position->event_id < 0 ||
        position->identity.epoch < 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "a limit of %" PRId64 " from position %" PRId64 "/%" PRId64, limit,
                         position->global_sequence, position->event_id);
    TIDE_CLEANUP(tide_freep) tail_step *step = calloc(1, sizeof *step);
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *page = tide_journal_page_new();
    TIDE_NEED_MEMORY(step && page, err);
    step->asked = *position;
    step->limit = limit < TIDE_JOURNAL_PAGE_MAX ? limit : TIDE_JOURNAL_PAGE_MAX;
    step->with_snapshot = options.with_snapshot;
    step->page = page;
    TIDE_TRY(tide_store_read(store, read_step, step, err));
    if (step->is_epoch_changed) {
        const tide_journal_event event = {
            .kind = TIDE_JOURNAL_EPOCH_CHANGED,
            .first_global = step->from.global_sequence,
            .last_global = step->from.global_sequence,
            .identity = &step->from.identity,
        };
        TIDE_TRY(tide_callback_check(fn(arg, &event, err), err));
        *position = step->from;
        return TIDE_OK;
    }
    *position = step->from;
    if (page->count == 0 && step->happening_count == 0)
        return TIDE_NONE;
    return hand_out(step, position, fn, arg, err);
}
