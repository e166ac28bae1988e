/* annotate.c - annotations of checkpoints. */
#include <tidemark/journal.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "journal/annotate.h"
#include "journal/check.h"
#include "journal/page.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { PAGE = 100 };

tide_status tide_annotation_check(const char *severity, const char *note, tide_error *err)
{
    if (strcmp(severity, "info") != 0 && strcmp(severity, "warning") != 0 &&
        strcmp(severity, "critical") != 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "unknown severity '%.40s'; known are info, warning, critical", severity);
    if (!*note)
        return tide_fail(err, TIDE_E_INVALID, "an annotation says something");
    return tide_journal_check_text("a note", note, TIDE_JOURNAL_MESSAGE_MAX, err);
}

typedef struct annotate_request {
    const char *id_or_number;
    const char *severity;
    const char *note;
    int64_t annotation_id;
} annotate_request;

/* Until the commit nobody removes the checkpoint. */
static tide_status hold(tide_tx *tx, const char *id_or_number, int64_t *number, tide_error *err)
{
    TIDE_TRY(tide_journal_need(tx, id_or_number, number, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_JOURNAL_HOLD, err,
                                           tide_bind_i64("global_sequence", *number));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no checkpoint %s", id_or_number);
    return status;
}

static tide_status annotate(tide_tx *tx, void *arg, tide_error *err)
{
    annotate_request *request = arg;
    int64_t number = 0;
    TIDE_TRY(hold(tx, request->id_or_number, &number, err));
    return tide_tx_number(&request->annotation_id, tx, TIDE_SQL_ANNOTATION_ADD, err,
                          tide_bind_i64("global_sequence", number),
                          tide_bind_text("severity", request->severity),
                          tide_bind_text("note", request->note), tide_bind_now("now"));
}

tide_status tide_journal_annotate(tide_store *store, const char *id_or_number, const char *severity,
                                  const char *note, int64_t *annotation_id, tide_error *err)
{
    TIDE_NEED(store, err);
    annotate_request request = {.id_or_number = id_or_number,
                                .severity = severity ? severity : "info",
                                .note = note ? note : ""};
    TIDE_TRY(tide_annotation_check(request.severity, request.note, err));
    TIDE_TRY(tide_store_write(store, annotate, &request, err));
    if (annotation_id)
        *annotation_id = request.annotation_id;
    return TIDE_OK;
}

/* ---- reading ---- */

typedef struct annotation_page {
    const char *id_or_number;
    int64_t after;
    tide_arena arena;
    tide_annotation rows[PAGE];
    int count;
} annotation_page;

static void annotation_page_freep(annotation_page **page)
{
    if (*page)
        tide_arena_done(&(*page)->arena);
    free(*page);
}

static tide_status read_row(annotation_page *page, tide_query *query, tide_error *err)
{
    tide_annotation *row = &page->rows[page->count];
    row->annotation_id = tide_query_col_i64(query);
    row->checkpoint_id = tide_arena_text(&page->arena, tide_query_col_text(query));
    row->note = tide_arena_text(&page->arena, tide_query_col_text(query));
    row->severity = tide_arena_text(&page->arena, tide_query_col_text(query));
    row->created_at_us = tide_query_col_time(query);
    TIDE_NEED_MEMORY(row->checkpoint_id && row->note && row->severity, err);
    page->count++;
    return TIDE_OK;
}

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    annotation_page *page = arg;
    tide_arena_reset(&page->arena);
    page->count = 0;
    int64_t number = 0;
    TIDE_TRY(tide_journal_need(tx, page->id_or_number, &number, err));
    TIDE_QUERY(query, tx, TIDE_SQL_ANNOTATION_LIST, err, tide_bind_i64("global_sequence", number),
               tide_bind_i64("after", page->after), tide_bind_i64("limit", PAGE));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(read_row(page, query, err));
    return TIDE_OK;
}

tide_status tide_journal_annotations(tide_store *store, const char *id_or_number,
                                     tide_annotation_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && id_or_number && fn, err);
    TIDE_CLEANUP(annotation_page_freep) TIDE_NEW(annotation_page, page, err);
    page->id_or_number = id_or_number;
    tide_arena_init(&page->arena, (size_t)PAGE * TIDE_JOURNAL_MESSAGE_MAX * 2);
    do {
        TIDE_TRY(tide_store_read(store, read_page, page, err));
        for (int i = 0; i < page->count; i++)
            TIDE_TRY(tide_callback_check(fn(arg, &page->rows[i], err), err));
        if (page->count > 0)
            page->after = page->rows[page->count - 1].annotation_id;
    } while (page->count == PAGE);
    return TIDE_OK;
}
