/* stats.c - three looks at the whole: items by type and status, the health of leases, tasks with most checkpoints. */
#include <tidemark/work.h>

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/list.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"

#define STALE_US INT64_C(120000000) /* two minutes without a heartbeat */

enum { TOP_TASKS = 10 };

typedef struct stats {
    tide_work_stat *items;
    int item_count;
    tide_work_lease_stat leases;
    tide_work_task_stat tasks[TOP_TASKS];
    int task_count;
    tide_arena arena;
} stats;

static tide_status add_item_stat(stats *s, tide_query *query, tide_error *err)
{
    TIDE_TRY(tide_list_room(&s->items, s->item_count, sizeof *s->items, TIDE_LIST_MAX, err));
    tide_row row = {.query = query, .arena = &s->arena};
    tide_work_stat *stat = &s->items[s->item_count++];
    stat->work_type = tide_row_text(&row);
    stat->status = tide_row_text(&row);
    stat->count = tide_query_col_i64(query);
    stat->mean_age_s = tide_query_col_f64(query);
    return tide_row_end(&row, err);
}

static tide_status read_items(tide_tx *tx, stats *s, int64_t now_us, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_WORK_STATS_ITEMS, err, tide_bind_time("now", now_us));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(add_item_stat(s, query, err));
    return TIDE_OK;
}

static tide_status read_leases(tide_tx *tx, stats *s, int64_t lease_now_us, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_WORK_STATS_LEASES, err,
                  tide_bind_time("lease_now", lease_now_us),
                  tide_bind_time("stale_before", lease_now_us - STALE_US));
    s->leases.active = tide_query_col_i64(query);
    s->leases.stale = tide_query_col_i64(query);
    s->leases.mean_heartbeat_age_s = tide_query_col_f64(query);
    return TIDE_OK;
}

static tide_status read_tasks(tide_tx *tx, stats *s, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_WORK_STATS_TASKS, err);
    tide_status status = TIDE_OK;
    while (s->task_count < TOP_TASKS && (status = tide_query_step(query, err)) == TIDE_OK) {
        tide_row row = {.query = query, .arena = &s->arena};
        tide_work_task_stat *stat = &s->tasks[s->task_count++];
        stat->task_id = tide_row_text(&row);
        stat->checkpoint_count = tide_query_col_i64(query);
        stat->max_sequence = tide_query_col_i64(query);
        stat->first_at_us = tide_row_time(&row);
        stat->last_at_us = tide_row_time(&row);
        TIDE_TRY(tide_row_end(&row, err));
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status read_stats(tide_tx *tx, void *arg, tide_error *err)
{
    stats *s = arg;
    tide_item_clock clock = {0};
    s->item_count = 0;
    s->task_count = 0;
    tide_arena_reset(&s->arena);
    TIDE_TRY(tide_item_clock_get(tx, &clock, err));
    TIDE_TRY(read_items(tx, s, clock.now_us, err));
    TIDE_TRY(read_leases(tx, s, clock.lease_now_us, err));
    return read_tasks(tx, s, err);
}

static tide_status tell(const stats *s, const tide_work_stats_fns *fns, void *arg, tide_error *err)
{
    for (int i = 0; i < s->item_count && fns->item; i++)
        TIDE_TRY(tide_callback_check(fns->item(arg, &s->items[i], err), err));
    if (fns->lease)
        TIDE_TRY(tide_callback_check(fns->lease(arg, &s->leases, err), err));
    for (int i = 0; i < s->task_count && fns->task; i++)
        TIDE_TRY(tide_callback_check(fns->task(arg, &s->tasks[i], err), err));
    return TIDE_OK;
}

tide_status tide_work_stats(tide_store *store, const tide_work_stats_fns *given, void *arg,
                            tide_error *err)
{
    TIDE_NEED(store, err);
    tide_work_stats_fns fns;
    TIDE_TRY(TIDE_SIZED_COPY(&fns, given, tide_work_stats_fns, err));
    stats s = {.item_count = 0};
    tide_arena_init(&s.arena, TIDE_ITEM_PAGE_MAX);
    tide_status status = tide_store_read(store, read_stats, &s, err);
    if (status == TIDE_OK)
        status = tell(&s, &fns, arg, err);
    tide_arena_done(&s.arena);
    free(s.items);
    return status;
}
