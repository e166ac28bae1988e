#include "work/task/resume.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "core/idempotency_row.h"
#include "store/statement.h"
#include "tidemark_sql.h"

#define RESUME_BYTES_MAX ((size_t)1 << 30)

static void free_later(tide_resume *r)
{
    for (int i = 0; i < r->later_count; i++)
        tide_journal_page_freep(&r->later[i]);
    r->later_count = 0;
}

tide_status tide_resume_init(tide_resume *r, const char *task_id, tide_error *err)
{
    *r = (tide_resume){.task_id = task_id};
    tide_arena_init(&r->arena, RESUME_BYTES_MAX);
    r->end = tide_journal_page_new();
    if (!r->end)
        return tide_no_memory(err);
    return TIDE_OK;
}

void tide_resume_done(tide_resume *r)
{
    tide_journal_page_freep(&r->end);
    free_later(r);
    free(r->items);
    free(r->keys);
    tide_arena_done(&r->arena);
}

static tide_status read_items(tide_tx *tx, tide_resume *r, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_TASK_RESUME_ITEMS, err,
                              tide_bind_text("task_id", r->task_id),
                              tide_bind_time("lease_now", r->clock.lease_now_us)));
    TIDE_EACH(tide_query_step(query, err)) {
        TIDE_TRY(tide_list_room(&r->items, r->item_count, sizeof *r->items, TIDE_LIST_MAX, err));
        TIDE_TRY(tide_item_read(query, &r->arena, &r->items[r->item_count], NULL, err));
        r->item_count++;
    }
    return TIDE_OK;
}

static tide_status read_key(tide_query *query, tide_resume *r, tide_idempotency_key *out,
                            tide_error *err)
{
    tide_row row = {.query = query, .arena = &r->arena};
    *out = (tide_idempotency_key){.name = tide_row_text(&row)};
    out->task_id = tide_row_text(&row);
    out->work_item_id = tide_row_text(&row);
    out->request_hash = tide_row_text(&row);
    out->status = tide_row_text(&row);
    out->lock_holder = tide_row_text(&row);
    out->policy = tide_row_text(&row);
    out->response = tide_view_of(tide_row_text(&row));
    out->has_response = out->response.ptr != NULL;
    const bool is_unchecked = tide_query_col_is_null(query);
    const int64_t digest = tide_query_col_i64(query);
    if (!is_unchecked && out->has_response)
        TIDE_TRY(tide_idempotency_row_check(digest, out->name, out->response, err));
    out->lock_token = tide_query_col_i64(query);
    out->attempts = tide_query_col_i64(query);
    out->created_at_us = tide_row_time(&row);
    out->completed_at_us = tide_row_time(&row);
    out->expires_at_us = tide_row_time(&row);
    return tide_row_end(&row, err);
}

static tide_status read_keys(tide_tx *tx, tide_resume *r, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_TASK_ANSWERS, err,
                              tide_bind_text("task_id", r->task_id),
                              tide_bind_time("now", r->clock.now_us)));
    TIDE_EACH(tide_query_step(query, err)) {
        TIDE_TRY(tide_list_room(&r->keys, r->key_count, sizeof *r->keys, TIDE_LIST_MAX, err));
        TIDE_TRY(read_key(query, r, &r->keys[r->key_count], err));
        r->key_count++;
    }
    return TIDE_OK;
}

/* ---- the history ---- */

static void bind_segment(tide_query *query, const tide_segment *segment, int64_t low)
{
    tide_query_bind_text(query, "task_id", segment->task_id);
    tide_query_bind_i64(query, "low", low > segment->low ? low : segment->low);
    tide_query_bind_i64(query, "high", segment->high);
}

/* The newest iteration_end of the history: *segment and *number say where; -1: there is none. */
static tide_status find_end(tide_tx *tx, tide_resume *r, int *segment, int64_t *number,
                            tide_error *err)
{
    *segment = -1;
    for (int i = r->lineage.count - 1; i >= 0 && *segment < 0; i--) {
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_TASK_LAST_END, err));
        bind_segment(query, &r->lineage.segments[i], 0);
        const tide_status status = tide_query_one(query, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            continue;
        const int64_t global = tide_query_col_i64(query);
        *number = tide_query_col_i64(query);
        *segment = i;
        TIDE_TRY(tide_journal_page_read(r->end, tx, &global, 1, TIDE_PAGE_SNAPSHOTS, err));
    }
    return TIDE_OK;
}

static tide_status find_cut(tide_tx *tx, const tide_segment *segment, bool *is_cut, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_CUT_FIND, err));
    bind_segment(query, segment, 0);
    const tide_status status = tide_query_one(query, err);
    *is_cut = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

/* How many iterations have ended; -1: nobody knows, because checkpoints were removed. */
static tide_status count_ends(tide_tx *tx, tide_resume *r, tide_error *err)
{
    for (int i = 0; i < r->lineage.count; i++) {
        const tide_segment *segment = &r->lineage.segments[i];
        bool is_cut = false;
        TIDE_TRY(find_cut(tx, segment, &is_cut, err));
        if (is_cut) {
            r->end_count = -1;
            return TIDE_OK;
        }
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_TASK_COUNT_ENDS, err));
        bind_segment(query, segment, 0);
        TIDE_TRY(tide_query_one(query, err));
        r->end_count += tide_query_col_i64(query);
    }
    return TIDE_OK;
}

/* One page of what was done behind number low of a segment; *low moves on. */
static tide_status read_later_page(tide_tx *tx, tide_resume *r, const tide_segment *segment,
                                   int64_t *low, bool *is_last, tide_error *err)
{
    int64_t numbers[TIDE_JOURNAL_PAGE_MAX];
    int count = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_TASK_LATER, err));
    bind_segment(query, segment, *low);
    tide_query_bind_i64(query, "limit", TIDE_JOURNAL_PAGE_MAX);
    TIDE_EACH(tide_query_step(query, err))
        numbers[count++] = tide_query_col_i64(query);
    *is_last = count < TIDE_JOURNAL_PAGE_MAX;
    if (count == 0)
        return TIDE_OK;
    if (r->later_count == TIDE_RESUME_PAGES_MAX)
        return tide_fail(err, TIDE_E_LIMIT,
                         "more than %d tools and responses since the last iteration_end of task %s",
                         TIDE_RESUME_PAGES_MAX * TIDE_JOURNAL_PAGE_MAX, r->task_id);
    tide_journal_page *page = tide_journal_page_new();
    if (!page)
        return tide_no_memory(err);
    r->later[r->later_count++] = page;
    TIDE_TRY(tide_journal_page_read(page, tx, numbers, count, TIDE_PAGE_SNAPSHOTS, err));
    if (page->count > 0)
        *low = page->rows[page->count - 1].checkpoint.sequence_number;
    return TIDE_OK;
}

static tide_status read_later(tide_tx *tx, tide_resume *r, int segment, int64_t number,
                              tide_error *err)
{
    for (int i = segment < 0 ? 0 : segment; i < r->lineage.count; i++) {
        int64_t low = i == segment ? number : 0;
        bool is_last = false;
        while (!is_last)
            TIDE_TRY(read_later_page(tx, r, &r->lineage.segments[i], &low, &is_last, err));
    }
    return TIDE_OK;
}

tide_status tide_resume_read(tide_tx *tx, void *arg, tide_error *err)
{
    tide_resume *r = arg;
    int segment = -1;
    int64_t number = 0;
    r->item_count = 0;
    r->key_count = 0;
    r->end_count = 0;
    r->end->count = 0;
    free_later(r);
    tide_arena_reset(&r->arena);
    TIDE_TRY(tide_item_clock_get(tx, &r->clock, err));
    TIDE_TRY(read_items(tx, r, err));
    TIDE_TRY(read_keys(tx, r, err));
    TIDE_TRY(tide_lineage_read(&r->lineage, tx, r->task_id, err));
    TIDE_TRY(find_end(tx, r, &segment, &number, err));
    TIDE_TRY(count_ends(tx, r, err));
    return read_later(tx, r, segment, number, err);
}
