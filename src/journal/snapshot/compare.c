/* compare.c - restoring a checkpoint, and the difference of two. */
#include <tidemark/journal.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "journal/events.h"
#include "journal/page.h"
#include "journal/snapshot/json_diff.h"

typedef struct load_request {
    const char *id_or_number;
    tide_journal_page *page;
} load_request;

static tide_status load(tide_tx *tx, void *arg, tide_error *err)
{
    const load_request *request = arg;
    int64_t number = 0;
    TIDE_TRY(tide_journal_need(tx, request->id_or_number, &number, err));
    return tide_journal_page_read(request->page, tx, &number, 1, TIDE_PAGE_SNAPSHOTS, err);
}

/* One checkpoint with its snapshot, verified. */
static tide_status load_one(tide_journal_page **out, tide_store *store, const char *id_or_number,
                            tide_error *err)
{
    *out = tide_journal_page_new();
    TIDE_NEED_MEMORY(*out, err);
    load_request request = {.id_or_number = id_or_number, .page = *out};
    TIDE_TRY(tide_store_read(store, load, &request, err));
    return tide_journal_row_check(&(*out)->rows[0], err);
}

/* ---- restore ---- */

typedef struct restore_request {
    const tide_checkpoint *checkpoint;
    tide_sequence_range range;
} restore_request;

static tide_status record_restore(tide_tx *tx, void *arg, tide_error *err)
{
    restore_request *request = arg;
    const tide_journal_event event = {
        .kind = TIDE_JOURNAL_RESTORED,
        .first_global = request->checkpoint->global_sequence,
        .last_global = request->checkpoint->global_sequence,
        .count = 1,
        .task_id = request->checkpoint->task_id,
    };
    return tide_journal_event_add(tx, &event, &request->range, err);
}

tide_status tide_journal_restore(tide_store *store, const char *id_or_number,
                                 tide_checkpoint_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && id_or_number && fn, err);
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *page = NULL;
    TIDE_TRY(load_one(&page, store, id_or_number, err));
    restore_request request = {.checkpoint = &page->rows[0].checkpoint};
    TIDE_TRY(tide_callback_check(fn(arg, request.checkpoint, err),
                                 err)); /* what was refused was not restored */
    return tide_store_write(store, record_restore, &request, err);
}

/* ---- diff ---- */

tide_status tide_journal_diff(tide_store *store, const char *a, const char *b,
                              tide_difference_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && a && b && fn, err);
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *first = NULL;
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *second = NULL;
    TIDE_TRY(load_one(&first, store, a, err));
    TIDE_TRY(load_one(&second, store, b, err));
    return tide_json_diff(first->rows[0].checkpoint.snapshot, second->rows[0].checkpoint.snapshot,
                          fn, arg, err);
}
