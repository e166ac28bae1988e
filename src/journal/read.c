/* read.c - looking things up: lists, one checkpoint, the head. */
#include <tidemark/journal.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "journal/checkpoint_iter.h"
#include "store/statement.h"
#include "tidemark_sql.h"

tide_status tide_journal_list(tide_store *store, const tide_journal_filter *given,
                              tide_checkpoint_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    tide_journal_filter filter;
    TIDE_TRY(TIDE_SIZED_COPY(&filter, given, tide_journal_filter, err));
    if ((unsigned)filter.order > TIDE_JOURNAL_NEWEST_FIRST)
        return tide_fail(err, TIDE_E_INVALID, "there is no order %d", (int)filter.order);
    TIDE_CLEANUP(tide_checkpoint_iter_done) tide_checkpoint_iter walk = {0};
    TIDE_TRY(tide_checkpoint_iter_begin(
        &walk, store, &filter, filter.with_snapshot ? TIDE_PAGE_SNAPSHOTS : TIDE_PAGE_ROWS, err));
    TIDE_EACH(tide_checkpoint_iter_next(&walk, err)) {
        for (int i = 0; i < walk.page->count; i++) {
            const tide_journal_row *row = tide_checkpoint_iter_row(&walk, i);
            TIDE_TRY(tide_journal_row_check(row, err));
            TIDE_TRY(tide_callback_check(fn(arg, &row->checkpoint, err), err));
        }
    }
    return TIDE_OK;
}

typedef struct find_request {
    const char *id_or_number;
    bool with_snapshot;
    tide_journal_page *page;
} find_request;

static tide_status find(tide_tx *tx, void *arg, tide_error *err)
{
    const find_request *request = arg;
    int64_t number = 0;
    TIDE_TRY_FOUND(tide_journal_resolve(tx, request->id_or_number, &number, err));
    return tide_journal_page_read(request->page, tx, &number, 1,
                                  request->with_snapshot ? TIDE_PAGE_SNAPSHOTS : TIDE_PAGE_ROWS,
                                  err);
}

tide_status tide_journal_find(tide_store *store, const char *id_or_number, bool with_snapshot,
                              tide_checkpoint_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && id_or_number && fn, err);
    TIDE_CLEANUP(tide_journal_page_freep) tide_journal_page *page = tide_journal_page_new();
    TIDE_NEED_MEMORY(page, err);
    find_request request = {
        .id_or_number = id_or_number, .with_snapshot = with_snapshot, .page = page};
    TIDE_TRY_FOUND(tide_store_read(store, find, &request, err));
    TIDE_TRY(tide_journal_row_check(&page->rows[0], err));
    return tide_callback_check(fn(arg, &page->rows[0].checkpoint, err), err);
}

typedef struct head_request {
    int64_t last;
    tide_identity identity;
} head_request;

static tide_status read_head(tide_tx *tx, void *arg, tide_error *err)
{
    head_request *head = arg;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_JOURNAL_HEAD_GET, err, TIDE_NO_BIND);
    head->last = tide_query_col_i64(query);
    return tide_identity_read(tx, &head->identity, err);
}

tide_status tide_journal_head(tide_store *store, int64_t *global_sequence, tide_identity *identity,
                              tide_error *err)
{
    TIDE_NEED(store && global_sequence, err);
    head_request head = {0};
    TIDE_TRY(tide_store_read(store, read_head, &head, err));
    *global_sequence = head.last;
    if (identity)
        *identity = head.identity;
    return TIDE_OK;
}
