/* expire.c - leases that ran out: back to pending, or ended.
 *
 * The rows are locked (PostgreSQL: those that nobody else has in hand), what becomes of each is decided, and one
 * statement does it to all of them, with the predicate repeated. In the same transaction each gets its error_boundary
 * checkpoint. A transaction handles few tasks, because each has a counter to take. */
#include <tidemark/work.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/lease_clock.h"
#include "journal/append.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"
#include "work/policy/policy.h"

enum {
    STEP_ITEMS = 100, /* per transaction */
    STEP_TASKS = 50,
    TIDY_STEP = 500, /* entries of leases per transaction (PostgreSQL) */
    TIDY_STEPS_MAX = 200,
};

/* ---- what becomes of an item whose lease ran out ---- */

typedef struct overdue {
    const char *id;
    const char *task_id;
    const char *work_type;
    const char *holder;
    int64_t token;
    int64_t retry_count;
    int64_t max_retries;
    int64_t crash_count;
    bool is_timed_out;
    bool is_left; /* by plain SQL, in 'expired': its attempt is closed and counted */
    /* decided */
    bool is_over;
    bool is_poison;
    bool is_refused;      /* the policy of its type allows no retry */
    bool is_done;         /* the statement found it as it was */
    int64_t run_after_us; /* 0: at once */
} overdue;

typedef struct expire_step {
    int64_t limit;
    int64_t crash_limit;
    overdue *rows;
    int count;
    bool is_more; /* there may be others */
    int64_t requeued, failed, quarantined;
    tide_arena arena;
    tide_item_clock clock;
    tide_policies policies;
} expire_step;

static const char *cause_of(const overdue *row)
{
    return row->is_timed_out ? "Timed out" : "Lease expired";
}

static const char *text_of(const overdue *row)
{
    return row->is_over && !row->is_refused ? "Max retries exceeded" : cause_of(row);
}

/* The first lease that runs out is nobody's fault: at once. After that, and after a timeout, with back-off. */
static void decide(overdue *row, const expire_step *step, tide_tx *tx)
{
    const tide_work_policy *policy = tide_policies_find(&step->policies, row->work_type);
    const unsigned why = row->is_timed_out ? TIDE_WORK_NO_RETRY_TIMEOUT : TIDE_WORK_NO_RETRY_CRASH;
    const int64_t crashes = row->crash_count + (!row->is_timed_out && !row->is_left);
    row->is_refused = (policy->no_retry & why) != 0;
    row->is_over = row->retry_count >= row->max_retries || row->is_refused;
    row->is_poison = row->is_over && crashes >= step->crash_limit;
    row->run_after_us = 0;
    if (row->is_over || (crashes <= 1 && !row->is_timed_out))
        return;
    const int64_t retry = row->is_timed_out ? row->retry_count : row->retry_count - 1;
    row->run_after_us = step->clock.now_us + tide_policy_backoff_us(policy, tx, retry);
}

/* ---- finding ---- */

static tide_status read_overdue(tide_query *query, expire_step *step, bool is_left, tide_error *err)
{
    tide_row row = {.query = query, .arena = &step->arena};
    overdue *o = &step->rows[step->count];
    *o = (overdue){.id = tide_row_text(&row), .is_left = is_left};
    o->task_id = tide_row_text(&row);
    o->work_type = tide_row_text(&row);
    o->token = tide_query_col_i64(query);
    o->holder = tide_row_text(&row);
    o->retry_count = tide_query_col_i64(query);
    o->max_retries = tide_query_col_i64(query);
    o->crash_count = tide_query_col_i64(query);
    o->is_timed_out = tide_query_col_bool(query);
    step->count++;
    return tide_row_end(&row, err);
}

static tide_status find_overdue(tide_tx *tx, expire_step *step, const tide_sql *sql, bool is_left,
                                tide_error *err)
{
    if (step->count >= step->limit)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(
        &query, tx, sql, err,
        TIDE_BIND_IF(!is_left, tide_bind_time("lease_now", step->clock.lease_now_us)),
        tide_bind_i64("limit", step->limit - step->count)));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(read_overdue(query, step, is_left, err));
    return TIDE_OK;
}

static int compare_tasks(const void *a, const void *b)
{
    const overdue *x = a;
    const overdue *y = b;
    const int order = strcmp(x->task_id, y->task_id);
    return order ? order : strcmp(x->id, y->id);
}

/* Keep the items of a few tasks; the others wait for the next transaction. */
static void keep_few_tasks(expire_step *step)
{
    int tasks = 0;
    int kept = 0;
    qsort(step->rows, (size_t)step->count, sizeof *step->rows, compare_tasks);
    for (; kept < step->count; kept++) {
        tasks += kept == 0 || strcmp(step->rows[kept - 1].task_id, step->rows[kept].task_id) != 0;
        if (tasks > STEP_TASKS)
            break;
    }
    step->is_more = step->count >= step->limit || kept < step->count;
    step->count = kept;
}

/* ---- doing ---- */

static void put_text(tide_json *json, const char *key, const char *text)
{
    tide_json_key(json, key);
    tide_json_text(json, text);
}

static void put_number(tide_json *json, const char *key, int64_t number)
{
    tide_json_key(json, key);
    tide_json_i64(json, number);
}

static void put_decision(tide_json *json, const overdue *row, tide_tx *tx)
{
    const char *end = row->is_poison ? "quarantined" : "exhausted";
    tide_json_object_begin(json);
    put_text(json, "id", row->id);
    put_number(json, "token", row->token);
    put_text(json, "status", row->is_over ? "failed" : "pending");
    put_number(json, "retry", row->retry_count + !row->is_over);
    put_number(json, "crash", !row->is_left && !row->is_timed_out);
    put_number(json, "failure", !row->is_left && row->is_timed_out);
    put_text(json, "kind", row->is_over ? end : NULL);
    put_text(json, "outcome", row->is_left ? NULL : (row->is_timed_out ? "timed_out" : "expired"));
    put_text(json, "error", text_of(row));
    tide_json_key(json, "after");
    tide_item_json_time(json, tx, row->run_after_us);
    tide_json_object_end(json);
}

static void mark_done(expire_step *step, tide_view id)
{
    for (int i = 0; i < step->count; i++)
        if (tide_view_equal(tide_view_of(step->rows[i].id), id))
            step->rows[i].is_done = true;
}

static tide_status apply_decisions(tide_tx *tx, expire_step *step, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer list = tide_buffer_of(TIDE_ITEM_LIST_MAX);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    tide_json json;
    tide_json_init(&json, &list);
    tide_json_array_begin(&json);
    for (int i = 0; i < step->count; i++) {
        decide(&step->rows[i], step, tx);
        put_decision(&json, &step->rows[i], tx);
    }
    tide_json_array_end(&json);
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_EXPIRE, err));
    TIDE_TRY(tide_item_bind_list(query, "items", &json, err));
    tide_query_bind_time(query, "now", step->clock.now_us);
    tide_query_bind_time(query, "lease_now", step->clock.lease_now_us);
    tide_query_bind_i64(query, "floor", tide_lease_token_floor(tx));
    TIDE_EACH(tide_query_step(query, err))
        mark_done(step, tide_query_col_text(query));
    return TIDE_OK;
}

/* ---- recording ---- */

static tide_status write_boundary(tide_checkpoint_new *out, const overdue *row, expire_step *step,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(16384);
    tide_json json;
    tide_json_init(&json, &text);
    tide_json_object_begin(&json);
    put_text(&json, "error", text_of(row));
    put_number(&json, "retry", row->retry_count + !row->is_over);
    put_number(&json, "max_retries", row->max_retries);
    put_text(&json, "cause", cause_of(row));
    put_text(&json, "work_item_id", row->id);
    put_text(&json, "work_type", row->work_type);
    put_text(&json, "worker", row->holder);
    put_number(&json, "lease_token", row->token);
    if (row->is_over)
        put_text(&json, "failure_kind", row->is_poison ? "quarantined" : "exhausted");
    tide_json_object_end(&json);
    const tide_status status = tide_json_finish(&json);
    const char *copy =
        status < TIDE_OK ? NULL : tide_arena_text(&step->arena, tide_buffer_view(&text));
    if (!copy)
        return tide_no_memory(err);
    *out = (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT,       .task_id = row->task_id,
                                 .work_item_id = row->id,        .type = "error_boundary",
                                 .snapshot = tide_view_of(copy), .message = text_of(row),
                                 .trigger = "time_passed"};
    return TIDE_OK;
}

static tide_status record(tide_tx *tx, expire_step *step, tide_item_wakes *wakes, tide_error *err)
{
    tide_checkpoint_new *checkpoints =
        tide_arena_alloc(&step->arena, (size_t)step->count * sizeof *checkpoints);
    tide_checkpoint_numbers *numbers =
        tide_arena_alloc(&step->arena, (size_t)step->count * sizeof *numbers);
    if (!checkpoints || !numbers)
        return tide_no_memory(err);
    int count = 0;
    for (int i = 0; i < step->count; i++) {
        const overdue *row = &step->rows[i];
        if (!row->is_done)
            continue;
        TIDE_TRY(write_boundary(&checkpoints[count++], row, step, err));
        step->requeued += !row->is_over;
        step->failed += row->is_over;
        step->quarantined += row->is_poison;
        tide_item_wake(wakes, row->work_type); /* a slot is free, whether it runs again or not */
    }
    return count > 0 ? tide_journal_append_known_in(tx, checkpoints, count, numbers, err) : TIDE_OK;
}

static tide_status end_keys(tide_tx *tx, expire_step *step, tide_error *err)
{
    const char **ids = tide_arena_alloc(&step->arena, (size_t)step->count * sizeof *ids);
    int count = 0;
    if (!ids)
        return tide_no_memory(err);
    for (int i = 0; i < step->count; i++)
        if (step->rows[i].is_done)
            ids[count++] = step->rows[i].id;
    return count > 0 ? tide_item_end_keys(tx, ids, count, err) : TIDE_OK;
}

static tide_status expire_some(tide_tx *tx, void *arg, tide_error *err)
{
    expire_step *step = arg;
    tide_item_wakes wakes = {.count = 0};
    step->count = 0;
    step->requeued = step->failed = step->quarantined = 0;
    tide_arena_reset(&step->arena);
    TIDE_TRY(tide_item_clock_get(tx, &step->clock, err));
    TIDE_TRY(find_overdue(tx, step, TIDE_SQL_WORK_OVERDUE, false, err));
    TIDE_TRY(find_overdue(tx, step, TIDE_SQL_WORK_LEFT_EXPIRED, true, err));
    keep_few_tasks(step);
    if (step->count == 0)
        return TIDE_OK;
    TIDE_TRY(tide_policies_read(tx, &step->policies, &step->arena, err));
    TIDE_TRY(apply_decisions(tx, step, err));
    TIDE_TRY(end_keys(tx, step, err));
    TIDE_TRY(record(tx, step, &wakes, err));
    tide_item_notify(&wakes, tx);
    return TIDE_OK;
}

/* ---- entries of leases (PostgreSQL) ---- */

tide_status tide_item_tidy_leases(tide_tx *tx, int64_t limit, int64_t *count, tide_error *err)
{
    tide_item_clock clock = {0};
    TIDE_TRY(tide_item_clock_get(tx, &clock, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_tx_one(&query, tx, TIDE_SQL_WORK_LEASE_ENDS_TIDY, err,
                         tide_bind_time("lease_now", clock.lease_now_us),
                         tide_bind_i64("limit", limit)));
    *count = tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status tidy_leases(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_item_tidy_leases(tx, TIDY_STEP, arg, err);
}

/* What is left in front are leases that are over. */
static tide_status tidy(tide_store *store, tide_error *err)
{
    int64_t count = TIDY_STEP;
    if (tide_store_engine(store) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    for (int step = 0; step < TIDY_STEPS_MAX && count == TIDY_STEP; step++)
        TIDE_TRY(tide_store_write(store, tidy_leases, &count, err));
    return TIDE_OK;
}

tide_status tide_item_expire(tide_store *store, int64_t limit, int64_t crash_limit,
                             tide_work_swept *out, tide_error *err)
{
    TIDE_TRY(tidy(store, err));
    TIDE_CLEANUP(tide_freep) overdue *rows = calloc(STEP_ITEMS, sizeof *rows);
    if (!rows)
        return tide_no_memory(err);
    expire_step step = {.crash_limit = crash_limit, .rows = rows, .is_more = true};
    tide_arena_init(&step.arena, TIDE_ITEM_PAGE_MAX);
    tide_status status = TIDE_OK;
    while (step.is_more && limit > 0 && status >= TIDE_OK) {
        step.limit = limit < STEP_ITEMS ? limit : STEP_ITEMS;
        status = tide_store_write(store, expire_some, &step, err);
        if (status < TIDE_OK)
            break;
        out->requeued += step.requeued;
        out->failed += step.failed;
        out->quarantined += step.quarantined;
        limit -= step.count > 0 ? step.count : limit;
    }
    out->has_more = out->has_more || step.is_more;
    tide_policies_done(&step.policies);
    tide_arena_done(&step.arena);
    return status;
}
