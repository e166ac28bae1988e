/* sweep.c - the watchdog: one bounded turn. Many may run at once.
 *
 * A look in a read transaction says what there is to do; a turn in vain writes nothing. Then, each in transactions of its
 * own: leases that ran out (expire.c), delayed items that are due, items that depend on failed ones, schedules
 * (schedule.c), what was put off while the clock was ahead. At last the low-water bounds of types are raised (low_water.c). */
#include <tidemark/work.h>

#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"
#include "work/task/task_end.h"

enum { STRAYED_MAX = 1000 }; /* items that are looked at */

typedef struct turn {
    int64_t limit;
    int64_t count; /* done by the closure */
    tide_schedule_swept schedules;
    bool has_overdue, has_due, has_blocked, has_schedules;
    bool has_strayed_items, has_strayed_schedules; /* written while the clock was ahead */
} turn;

static tide_status look_for_strayed(tide_tx *tx, turn *t, int64_t now_us, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_tx_one(&query, tx, TIDE_SQL_WORK_LOOK_STRAYED, err,
                         tide_bind_time("ahead", now_us + TIDE_ITEM_AHEAD_US),
                         tide_bind_i64("limit", STRAYED_MAX)));
    t->has_strayed_items = tide_query_col_bool(query);
    t->has_strayed_schedules = tide_query_col_bool(query);
    return TIDE_OK;
}

static tide_status look_for_due(tide_tx *tx, turn *t, tide_item_clock *clock, tide_error *err)
{
    TIDE_TRY(tide_item_clock_get(tx, clock, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_tx_one(&query, tx, TIDE_SQL_WORK_LOOK_AFTER, err,
                         tide_bind_time("now", clock->now_us),
                         tide_bind_time("lease_now", clock->lease_now_us)));
    t->has_overdue = tide_query_col_bool(query);
    t->has_due = tide_query_col_bool(query);
    t->has_blocked = tide_query_col_bool(query);
    t->has_schedules = tide_query_col_bool(query);
    return TIDE_OK;
}

static tide_status look_after(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    tide_item_clock clock = {0};
    TIDE_TRY(look_for_due(tx, t, &clock, err));
    return look_for_strayed(tx, t, clock.now_us, err);
}

/* A back-off is a matter of seconds, and a schedule of its period, wherever the clock stood when they were written. */
static tide_status pull_in_items(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    tide_item_wakes wakes = {.count = 0};
    t->count = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_WORK_PULL_IN, err, tide_bind_now("now"),
                              tide_bind_now_plus("ahead", TIDE_ITEM_AHEAD_US),
                              tide_bind_i64("limit", STRAYED_MAX)));
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_ITEM_PAGE_MAX);
    tide_status status = TIDE_OK;
    for (; (status = tide_query_step(query, err)) == TIDE_OK; t->count++) {
        tide_row row = {.query = query, .arena = &arena};
        const char *type = tide_row_text(&row);
        if (type)
            tide_item_wake(&wakes, type);
    }
    tide_item_notify(&wakes, tx);
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status pull_in_schedules(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    return tide_schedule_pull_in(tx, &t->count, err);
}

static tide_status pull_in(tide_store *store, turn *t, tide_work_swept *out, tide_error *err)
{
    if (t->has_strayed_items) {
        TIDE_TRY(tide_store_write(store, pull_in_items, t, err));
        out->promoted += t->count;
        out->has_more = out->has_more || t->count > 0;
    }
    if (t->has_strayed_schedules) {
        TIDE_TRY(tide_store_write(store, pull_in_schedules, t, err));
        out->has_more = out->has_more || t->count > 0;
    }
    return TIDE_OK;
}

static tide_status promote(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    tide_item_wakes wakes = {.count = 0};
    TIDE_TRY(tide_item_promote(tx, t->limit, &t->count, &wakes, err));
    tide_item_notify(&wakes, tx);
    return TIDE_OK;
}

static tide_status run_bounded(tide_tx *tx, const tide_sql *sql, int64_t limit, int64_t now_us,
                               int64_t *changed, tide_error *err)
{
    return tide_tx_exec(tx, sql, changed, err, tide_bind_time("now", now_us),
                        tide_bind_i64("limit", limit));
}

static tide_status block(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_TRY(run_bounded(tx, TIDE_SQL_WORK_BLOCK, t->limit, now_us, &t->count, err));
    return run_bounded(tx, TIDE_SQL_WORK_FOLLOWED_UP, t->limit, now_us, NULL, err);
}

/* What was failed here may have dependents of its own: round by round. */
static tide_status block_dependents(tide_store *store, turn *t, tide_work_swept *out,
                                    tide_error *err)
{
    const int64_t limit = t->limit;
    int64_t done = 0;
    do {
        t->limit = limit - done;
        TIDE_TRY(tide_store_write(store, block, t, err));
        done += t->count;
    } while (t->count > 0 && done < limit);
    t->limit = limit;
    out->blocked = done;
    out->has_more = out->has_more || done >= limit;
    return TIDE_OK;
}

static tide_status run_schedules(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    tide_item_wakes wakes = {.count = 0};
    TIDE_TRY(tide_schedule_sweep(tx, t->limit, &t->schedules, &wakes, err));
    tide_item_notify(&wakes, tx);
    return TIDE_OK;
}

static tide_status make_scheduled(tide_store *store, turn *t, tide_work_swept *out, tide_error *err)
{
    do {
        const tide_status status = tide_store_write(store, run_schedules, t, err);
        /* A task that ended or went meanwhile: its schedules are left out by the next turn. */
        if (status == TIDE_E_CONFLICT || status == TIDE_E_NOT_FOUND)
            return TIDE_OK;
        TIDE_TRY(status);
        out->scheduled += t->schedules.made;
    } while (t->schedules.made == TIDE_SCHEDULE_STEP && out->scheduled < t->limit);
    out->has_more = out->has_more || t->schedules.made == TIDE_SCHEDULE_STEP;
    out->skipped = t->schedules.skipped;
    memcpy(out->skipped_name, t->schedules.skipped_name, sizeof out->skipped_name);
    return TIDE_OK;
}

static tide_status end_tasks(tide_store *store, const turn *t, tide_work_swept *out,
                             tide_error *err)
{
    bool has_more = false;
    TIDE_TRY(tide_task_end_continue(store, t->limit, &out->ended, &has_more, err));
    out->has_more = out->has_more || has_more;
    return TIDE_OK;
}

static tide_status sweep_rest(tide_store *store, turn *t, tide_work_swept *out, tide_error *err)
{
    if (t->has_due) {
        TIDE_TRY(tide_store_write(store, promote, t, err));
        out->promoted += t->count;
        out->has_more = out->has_more || t->count >= t->limit;
    }
    if (t->has_blocked)
        TIDE_TRY(block_dependents(store, t, out, err));
    if (t->has_schedules)
        TIDE_TRY(make_scheduled(store, t, out, err));
    TIDE_TRY(pull_in(store, t, out, err));
    TIDE_TRY(end_tasks(store, t, out, err));
    return tide_item_raise_bounds(store, NULL, err);
}

tide_status tide_work_sweep(tide_store *store, int64_t limit, int64_t crash_limit,
                            tide_work_swept *out, tide_error *err)
{
    TIDE_NEED(store && out, err);
    *out = (tide_work_swept){0};
    TIDE_TRY(tide_item_check_range("limit", limit, 0, TIDE_WORK_SWEEP_MAX, err));
    TIDE_TRY(tide_item_check_range("crash_limit", crash_limit, 0, TIDE_ITEM_RETRIES_MAX, err));
    turn t = {.limit = limit ? limit : TIDE_WORK_SWEEP_MAX};
    TIDE_TRY(tide_store_read(store, look_after, &t, err));
    if (t.has_overdue)
        TIDE_TRY(tide_item_expire(store, t.limit, crash_limit ? crash_limit : TIDE_WORK_CRASH_LIMIT,
                                  out, err));
    /* What has just failed may have dependents. */
    t.has_blocked = t.has_blocked || out->failed > 0;
    return sweep_rest(store, &t, out, err);
}

/* ---- when to sweep ---- */

/* The next column is a time, which is not before now. */
static int64_t read_wait(tide_query *query, int64_t now_us)
{
    const bool is_null = tide_query_col_is_null(query);
    const int64_t at_us = tide_query_col_time(query); /* moves to the next column, also from NULL */
    if (is_null)
        return INT64_MAX;
    return at_us > now_us ? at_us - now_us : 0;
}

static tide_status find_next_sweep(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t *wait_us = arg;
    turn t = {.limit = 0};
    tide_item_clock clock = {0};
    TIDE_TRY(look_for_due(tx, &t, &clock, err));
    *wait_us = 0;
    if (t.has_overdue || t.has_due || t.has_blocked || t.has_schedules)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_tx_one(&query, tx, TIDE_SQL_WORK_NEXT_SWEEP, err,
                         tide_bind_time("now", clock.now_us),
                         tide_bind_time("lease_now", clock.lease_now_us)));
    const int64_t lease_us = read_wait(query, clock.lease_now_us);
    const int64_t due_us = read_wait(query, clock.now_us);
    const int64_t schedule_us = read_wait(query, clock.now_us);
    *wait_us = lease_us < due_us ? lease_us : due_us;
    *wait_us = schedule_us < *wait_us ? schedule_us : *wait_us;
    return TIDE_OK;
}

tide_status tide_work_next_sweep(tide_store *store, int64_t *wait_us, tide_error *err)
{
    TIDE_NEED(wait_us, err);
    return tide_store_read_local(store, find_next_sweep, wait_us, err);
}
