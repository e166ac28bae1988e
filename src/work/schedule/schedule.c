/* schedule.c - items that come again and again.
 *
 * A schedule knows the time of its next item. Whoever moves it on makes the item, in the same transaction; moving on is a
 * compare-and-set on that time, so each time has one item, however many sweep. Times that were missed are made
 * up by one item: the next time lies after now. */
#include <tidemark/work.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/time_zone.h"
#include "base/text/timefmt.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"
#include "work/schedule/cron.h"

#define SECOND_US INT64_C(1000000)

static tide_status read_schedule(tide_query *query, tide_arena *arena, tide_schedule *out,
                                 tide_error *err)
{
    tide_row row = {.query = query, .arena = arena};
    *out = (tide_schedule){.name = tide_row_text(&row)};
    out->task_id = tide_row_text(&row);
    out->work_type = tide_row_text(&row);
    out->cron = tide_row_text(&row);
    out->every_us = tide_query_col_i64(query);
    out->input = tide_row_text(&row);
    out->priority = tide_query_col_i64(query);
    out->max_retries = tide_query_col_i64(query);
    out->timeout_us = tide_query_col_i64(query);
    out->is_paused = tide_query_col_bool(query);
    out->next_run_at_us = tide_row_time(&row);
    out->last_run_at_us = tide_row_time(&row);
    out->run_count = tide_query_col_i64(query);
    out->time_zone = tide_row_text(&row);
    return tide_row_end(&row, err);
}

/* The first local time after now at which the expression fits. One that comes twice has run the
 * first time. */
static tide_status cron_after(const tide_cron *cron, const char *time_zone, int64_t now_us,
                              int64_t *next_us, tide_error *err)
{
    if (!time_zone)
        return tide_cron_next(cron, now_us, next_us);
    TIDE_CLEANUP(tide_time_zone_freep) tide_time_zone *zone = NULL;
    TIDE_TRY(tide_time_zone_load(&zone, time_zone, err));
    int64_t local_us = now_us + tide_time_zone_offset(zone, now_us / SECOND_US) * SECOND_US;
    int64_t found_us = 0;
    do {
        const tide_status status = tide_cron_next(cron, local_us, &local_us);
        if (status != TIDE_OK)
            return status;
        found_us = tide_time_zone_find(zone, local_us / SECOND_US) * SECOND_US;
    } while (found_us <= now_us);
    *next_us = found_us;
    return TIDE_OK;
}

/* The first time after now; the end of time if there is none (or somebody wrote nonsense into the
 * table). A failure is about the time zone. */
static tide_status time_after(const tide_schedule *s, int64_t now_us, int64_t *next_us,
                              tide_error *err)
{
    tide_cron cron;
    *next_us = TIDE_TIME_MAX_US;
    if (s->cron) {
        if (tide_cron_parse(&cron, s->cron, NULL) < TIDE_OK)
            return TIDE_OK;
        const tide_status status = cron_after(&cron, s->time_zone, now_us, next_us, err);
        return status < TIDE_OK ? status : TIDE_OK;
    }
    if (s->every_us < 1)
        return TIDE_OK;
    if (s->next_run_at_us > now_us) {
        *next_us = s->next_run_at_us;
        return TIDE_OK;
    }
    const int64_t missed = (now_us - s->next_run_at_us) / s->every_us;
    *next_us = s->next_run_at_us + (missed + 1) * s->every_us;
    return TIDE_OK;
}

/* ---- adding ---- */

typedef struct add_request {
    const tide_schedule_new *wanted;
    int64_t max_retries;
    int64_t next_run_at_us;
    tide_arena arena;
} add_request;

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same(const tide_schedule *found, const add_request *request)
{
    const tide_schedule_new *wanted = request->wanted;
    return is_same_text(found->task_id, wanted->task_id) &&
           is_same_text(found->work_type, wanted->work_type) &&
           is_same_text(found->cron, wanted->cron) && found->every_us == wanted->every_us &&
           is_same_text(found->input, wanted->input) && found->priority == wanted->priority &&
           found->max_retries == request->max_retries && found->timeout_us == wanted->timeout_us &&
           is_same_text(found->time_zone, wanted->time_zone);
}

static tide_status find_schedule(tide_tx *tx, const char *name, tide_arena *arena,
                                 tide_schedule *out, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_SCHEDULE_FIND, err, tide_bind_text("name", name));
    return status == TIDE_OK ? read_schedule(query, arena, out, err) : status;
}

static tide_status insert_schedule(tide_tx *tx, add_request *request, int64_t *inserted,
                                   tide_error *err)
{
    const tide_schedule_new *wanted = request->wanted;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    const tide_schedule fresh = {.cron = wanted->cron,
                                 .every_us = wanted->every_us,
                                 .next_run_at_us = now_us,
                                 .time_zone = wanted->time_zone};
    TIDE_TRY(time_after(&fresh, now_us, &request->next_run_at_us, err));
    if (request->next_run_at_us >= TIDE_TIME_MAX_US)
        return tide_fail(err, TIDE_E_INVALID, "a schedule that never comes: %s",
                         wanted->cron ? wanted->cron : "");
    return tide_tx_exec(
        tx, TIDE_SQL_SCHEDULE_ADD, inserted, err, tide_bind_text("name", wanted->name),
        tide_bind_text("task_id", wanted->task_id), tide_bind_text("work_type", wanted->work_type),
        tide_bind_text("cron", wanted->cron),
        TIDE_BIND_IF(wanted->every_us > 0, tide_bind_i64("every_us", wanted->every_us)),
        tide_bind_text("input", wanted->input), tide_bind_i64("priority", wanted->priority),
        tide_bind_i64("max_retries", request->max_retries),
        TIDE_BIND_IF(wanted->timeout_us > 0, tide_bind_i64("timeout_us", wanted->timeout_us)),
        tide_bind_time("next", request->next_run_at_us), tide_bind_time("now", now_us),
        tide_bind_text("time_zone", wanted->time_zone));
}

static tide_status add_schedule(tide_tx *tx, void *arg, tide_error *err)
{
    add_request *request = arg;
    int64_t inserted = 0;
    tide_arena_reset(&request->arena);
    TIDE_TRY(tide_item_check_task(tx, request->wanted->task_id, "it takes no more items", err));
    TIDE_TRY(insert_schedule(tx, request, &inserted, err));
    if (inserted == 1) {
        tide_item_notify_due(tx, 0); /* however far: schedules are added rarely */
        return TIDE_OK;
    }
    tide_schedule found = {0};
    const tide_status status =
        find_schedule(tx, request->wanted->name, &request->arena, &found, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE || !is_same(&found, request))
        return tide_fail(err, TIDE_E_EXISTS, "there is a schedule %s already, another one",
                         request->wanted->name);
    request->next_run_at_us = found.next_run_at_us;
    return TIDE_OK;
}

static tide_status check_new(const tide_schedule_new *s, tide_error *err)
{
    tide_cron cron;
    TIDE_TRY(tide_item_check_id("a schedule's name", s->name, err));
    TIDE_TRY(tide_item_check_id("a task's id", s->task_id, err));
    TIDE_TRY(tide_item_check_name("a work type", s->work_type, TIDE_WORK_TYPE_MAX, err));
    TIDE_TRY(tide_item_check_json("input", s->input, err));
    TIDE_TRY(tide_item_check_range("priority", s->priority, -TIDE_ITEM_PRIORITY_MAX,
                                   TIDE_ITEM_PRIORITY_MAX, err));
    if (s->max_retries > 0)
        TIDE_TRY(
            tide_item_check_range("max_retries", s->max_retries, 0, TIDE_ITEM_RETRIES_MAX, err));
    if (s->timeout_us != 0)
        TIDE_TRY(tide_item_check_range("timeout", s->timeout_us, TIDE_LEASE_MIN_US,
                                       TIDE_LEASE_MAX_US, err));
    if ((s->cron != NULL) == (s->every_us != 0))
        return tide_fail(err, TIDE_E_INVALID, "a schedule has a cron expression or an interval");
    if (s->time_zone && !s->cron)
        return tide_fail(err, TIDE_E_INVALID, "an interval has no time zone");
    if (s->time_zone) {
        TIDE_CLEANUP(tide_time_zone_freep) tide_time_zone *zone = NULL;
        if (tide_time_zone_load(&zone, s->time_zone, err) < TIDE_OK)
            return tide_fail_context(err, TIDE_E_INVALID, "time zone");
    }
    if (s->cron)
        return tide_cron_parse(&cron, s->cron, err);
    return tide_item_check_range("every", s->every_us, TIDE_LEASE_MIN_US, TIDE_ITEM_DELAY_MAX_US,
                                 err);
}

tide_status tide_schedule_add(tide_store *store, const tide_schedule_new *given,
                              int64_t *next_run_at_us, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_schedule_new own;
    TIDE_TRY(TIDE_SIZED_COPY(&own, given, tide_schedule_new, err));
    const tide_schedule_new *schedule = &own;
    TIDE_TRY(check_new(schedule, err));
    add_request request = {.wanted = schedule,
                           .max_retries = schedule->max_retries < 0 ? TIDE_WORK_RETRIES_DEFAULT
                                                                    : schedule->max_retries};
    tide_arena_init(&request.arena, TIDE_ITEM_ROW_MAX);
    const tide_status status = tide_store_write(store, add_schedule, &request, err);
    tide_arena_done(&request.arena);
    if (status == TIDE_OK && next_run_at_us)
        *next_run_at_us = request.next_run_at_us;
    return status;
}

/* ---- making items ---- */

static tide_status move_on(tide_tx *tx, const tide_schedule *s, int64_t now_us, int64_t *moved,
                           tide_error *err)
{
    int64_t next_us = 0;
    TIDE_TRY(time_after(s, now_us, &next_us, err));
    return tide_tx_exec(tx, TIDE_SQL_SCHEDULE_ADVANCE, moved, err, tide_bind_text("name", s->name),
                        tide_bind_time("due", s->next_run_at_us), tide_bind_time("next", next_us),
                        tide_bind_time("now", now_us));
}

/* The machine cannot run this one. It stays due: others may know its zone, or tzdata is installed. */
static bool is_zone_unknown(const tide_schedule *s)
{
    tide_time_zone *zone = NULL;
    const bool is_known =
        !s->cron || !s->time_zone || tide_time_zone_load(&zone, s->time_zone, NULL) >= TIDE_OK;
    tide_time_zone_free(zone);
    return !is_known;
}

static tide_status make_item(tide_tx *tx, const tide_schedule *s, tide_item_wakes *wakes,
                             tide_error *err)
{
    const tide_work_spec item = {TIDE_WORK_SPEC_INIT,        .task_id = s->task_id,
                                 .work_type = s->work_type,  .input = s->input,
                                 .priority = s->priority,    .max_retries = s->max_retries,
                                 .timeout_us = s->timeout_us};
    const tide_item_origin origin = {.schedule_name = s->name};
    tide_work_added added;
    return tide_item_add(tx, &item, 1, &origin, &added, wakes, err);
}

static tide_status read_due(tide_tx *tx, tide_schedule *rows, int *count, int64_t now_us,
                            tide_arena *arena, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_SCHEDULE_DUE, err, tide_bind_time("now", now_us),
                              tide_bind_i64("limit", *count)));
    *count = 0;
    tide_status status = TIDE_OK;
    while (arena->used_len < TIDE_ITEM_PAGE_MAX &&
           (status = tide_query_step(query, err)) == TIDE_OK)
        TIDE_TRY(read_schedule(query, arena, &rows[(*count)++], err));
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_schedule_sweep(tide_tx *tx, int64_t limit, tide_schedule_swept *out,
                                tide_item_wakes *wakes, tide_error *err)
{
    tide_schedule rows[TIDE_SCHEDULE_STEP];
    int count = limit < TIDE_SCHEDULE_STEP ? (int)limit : TIDE_SCHEDULE_STEP;
    int64_t now_us = 0;
    *out = (tide_schedule_swept){0};
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_arena_done)
    tide_arena arena = tide_arena_of(TIDE_ITEM_PAGE_MAX + TIDE_ITEM_ROW_MAX);
    TIDE_TRY(read_due(tx, rows, &count, now_us, &arena, err));
    for (int i = 0; i < count; i++) {
        int64_t moved = 0;
        if (is_zone_unknown(&rows[i])) {
            out->skipped++;
            (void)snprintf(out->skipped_name, sizeof out->skipped_name, "%s", rows[i].name);
            continue;
        }
        TIDE_TRY(move_on(tx, &rows[i], now_us, &moved, err));
        if (moved == 1)
            TIDE_TRY(make_item(tx, &rows[i], wakes, err));
        out->made += moved;
    }
    return TIDE_OK;
}

/* ---- the clock was set back ---- */

static tide_status read_strayed(tide_tx *tx, tide_schedule *rows, int *count, int64_t now_us,
                                tide_arena *arena, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_SCHEDULE_STRAYED, err,
                              tide_bind_time("ahead", now_us + TIDE_ITEM_AHEAD_US),
                              tide_bind_i64("limit", TIDE_SCHEDULE_STEP)));
    *count = 0;
    tide_status status = TIDE_OK;
    while (arena->used_len < TIDE_ITEM_PAGE_MAX &&
           (status = tide_query_step(query, err)) == TIDE_OK)
        TIDE_TRY(read_schedule(query, arena, &rows[(*count)++], err));
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_schedule_pull_in(tide_tx *tx, int64_t *pulled, tide_error *err)
{
    tide_schedule rows[TIDE_SCHEDULE_STEP];
    int count = 0;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_arena_done)
    tide_arena arena = tide_arena_of(TIDE_ITEM_PAGE_MAX + TIDE_ITEM_ROW_MAX);
    TIDE_TRY(read_strayed(tx, rows, &count, now_us, &arena, err));
    *pulled = 0;
    for (int i = 0; i < count; i++) {
        if (is_zone_unknown(&rows[i]))
            continue;
        const tide_schedule fresh = {.cron = rows[i].cron,
                                     .every_us = rows[i].every_us,
                                     .next_run_at_us = now_us,
                                     .time_zone = rows[i].time_zone};
        int64_t next_us = 0;
        TIDE_TRY(time_after(&fresh, now_us, &next_us, err));
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_start(
            &query, tx, TIDE_SQL_SCHEDULE_PULL_IN, err, tide_bind_text("name", rows[i].name),
            tide_bind_time("due", rows[i].next_run_at_us), tide_bind_time("next", next_us),
            tide_bind_time("now", now_us),
            TIDE_BIND_IF(rows[i].last_run_at_us != 0, tide_bind_time("last", now_us))));
        int64_t changed = 0;
        TIDE_TRY(tide_query_run(query, &changed, err));
        *pulled += changed;
    }
    return TIDE_OK;
}

/* ---- looking after schedules ---- */

typedef struct list_request {
    char after[TIDE_WORK_ID_MAX + 1];
    int count;
    bool is_last;
    tide_schedule rows[TIDE_SCHEDULE_STEP];
    tide_arena arena;
} list_request;

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    list_request *request = arg;
    request->count = 0;
    tide_arena_reset(&request->arena);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_SCHEDULE_LIST, err,
                              tide_bind_text("after", request->after),
                              tide_bind_i64("limit", TIDE_SCHEDULE_STEP)));
    tide_status status = TIDE_OK;
    while (request->arena.used_len < TIDE_ITEM_PAGE_MAX &&
           (status = tide_query_step(query, err)) == TIDE_OK)
        TIDE_TRY(read_schedule(query, &request->arena, &request->rows[request->count++], err));
    request->is_last = status == TIDE_NONE && request->count < TIDE_SCHEDULE_STEP;
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status list_pages(tide_store *store, list_request *request, tide_schedule_fn *fn,
                              void *arg, tide_error *err)
{
    do {
        TIDE_TRY(tide_store_read(store, read_page, request, err));
        for (int i = 0; i < request->count; i++)
            TIDE_TRY(tide_callback_check(fn(arg, &request->rows[i], err), err));
        if (request->count > 0)
            (void)snprintf(request->after, sizeof request->after, "%s",
                           request->rows[request->count - 1].name);
    } while (!request->is_last && request->count > 0);
    return TIDE_OK;
}

tide_status tide_schedule_list(tide_store *store, tide_schedule_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_CLEANUP(tide_freep) list_request *request = calloc(1, sizeof *request);
    if (!request)
        return tide_no_memory(err);
    tide_arena_init(&request->arena, TIDE_ITEM_PAGE_MAX + TIDE_ITEM_ROW_MAX);
    const tide_status status = list_pages(store, request, fn, arg, err);
    tide_arena_done(&request->arena);
    return status;
}

typedef struct change_request {
    const char *name;
    bool is_paused;
    tide_arena arena;
} change_request;

static tide_status fail_missing(const char *name, tide_error *err)
{
    return tide_fail(err, TIDE_E_NOT_FOUND, "there is no schedule %s", name);
}

/* Times that passed during a pause are not made up. */
static tide_status pause_schedule(tide_tx *tx, void *arg, tide_error *err)
{
    change_request *request = arg;
    tide_schedule found = {0};
    int64_t now_us = 0;
    tide_arena_reset(&request->arena);
    const tide_status status = find_schedule(tx, request->name, &request->arena, &found, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return fail_missing(request->name, err);
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    const bool is_late = found.is_paused && !request->is_paused && found.next_run_at_us <= now_us;
    int64_t next_us = found.next_run_at_us;
    if (is_late)
        TIDE_TRY(time_after(&found, now_us, &next_us, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(
        &query, tx, TIDE_SQL_SCHEDULE_PAUSE, err, tide_bind_text("name", request->name),
        tide_bind_bool("is_paused", request->is_paused), tide_bind_time("next", next_us)));
    if (!request->is_paused)
        tide_item_notify_due(tx, 0);
    return tide_query_run(query, NULL, err);
}

tide_status tide_schedule_pause(tide_store *store, const char *name, bool is_paused,
                                tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a schedule's name", name, err));
    change_request request = {.name = name, .is_paused = is_paused};
    tide_arena_init(&request.arena, TIDE_ITEM_ROW_MAX);
    const tide_status status = tide_store_write(store, pause_schedule, &request, err);
    tide_arena_done(&request.arena);
    return status;
}

/* ---- updating ---- */

typedef struct update_request {
    const tide_schedule_change *change;
    int64_t next_run_at_us;
    tide_arena arena;
} update_request;

static tide_schedule_new apply_change(const tide_schedule *found, const tide_schedule_change *c)
{
    const bool is_new_rule = c->cron || c->every_us > 0;
    return (tide_schedule_new){
        TIDE_SCHEDULE_NEW_INIT,
        .name = found->name,
        .task_id = found->task_id,
        .work_type = c->work_type ? c->work_type : found->work_type,
        .cron = is_new_rule ? c->cron : found->cron,
        .every_us = is_new_rule ? c->every_us : found->every_us,
        .time_zone = c->time_zone      ? c->time_zone
                     : c->every_us > 0 ? NULL
                                       : found->time_zone,
        .input = c->input ? c->input : found->input,
        .priority = c->has_priority ? c->priority : found->priority,
        .max_retries = !c->has_max_retries  ? found->max_retries
                       : c->max_retries < 0 ? TIDE_WORK_RETRIES_DEFAULT
                                            : c->max_retries,
        .timeout_us = c->has_timeout ? c->timeout_us : found->timeout_us,
    };
}

static tide_status update_schedule(tide_tx *tx, void *arg, tide_error *err)
{
    update_request *request = arg;
    const tide_schedule_change *change = request->change;
    tide_schedule found = {0};
    int64_t now_us = 0;
    tide_arena_reset(&request->arena);
    TIDE_CLEANUP(tide_query_endp) tide_query *lock = NULL;
    const tide_status status =
        tide_tx_one(&lock, tx, TIDE_SQL_SCHEDULE_LOCK, err, tide_bind_text("name", change->name));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return fail_missing(change->name, err);
    TIDE_TRY(find_schedule(tx, change->name, &request->arena, &found, err));
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    const tide_schedule_new next = apply_change(&found, change);
    TIDE_TRY(check_new(&next, err));
    request->next_run_at_us = found.next_run_at_us;
    if (change->cron || change->every_us > 0 || change->time_zone) {
        const tide_schedule fresh = {.cron = next.cron,
                                     .every_us = next.every_us,
                                     .next_run_at_us = now_us,
                                     .time_zone = next.time_zone};
        TIDE_TRY(time_after(&fresh, now_us, &request->next_run_at_us, err));
        if (request->next_run_at_us >= TIDE_TIME_MAX_US)
            return tide_fail(err, TIDE_E_INVALID, "a schedule that never comes: %s", next.cron);
    }
    tide_item_notify_due(tx, 0);
    return tide_tx_exec(
        tx, TIDE_SQL_SCHEDULE_UPDATE, NULL, err, tide_bind_text("name", change->name),
        tide_bind_text("work_type", next.work_type), tide_bind_text("cron", next.cron),
        TIDE_BIND_IF(next.every_us > 0, tide_bind_i64("every_us", next.every_us)),
        tide_bind_text("time_zone", next.time_zone), tide_bind_text("input", next.input),
        tide_bind_i64("priority", next.priority), tide_bind_i64("max_retries", next.max_retries),
        TIDE_BIND_IF(next.timeout_us > 0, tide_bind_i64("timeout_us", next.timeout_us)),
        tide_bind_time("next", request->next_run_at_us));
}

tide_status tide_schedule_update(tide_store *store, const tide_schedule_change *given,
                                 int64_t *next_run_at_us, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_schedule_change change;
    TIDE_TRY(TIDE_SIZED_COPY(&change, given, tide_schedule_change, err));
    TIDE_TRY(tide_item_check_id("a schedule's name", change.name, err));
    if (change.cron && change.every_us > 0)
        return tide_fail(err, TIDE_E_INVALID, "a schedule has a cron expression or an interval");
    update_request request = {.change = &change};
    tide_arena_init(&request.arena, TIDE_ITEM_ROW_MAX);
    const tide_status status = tide_store_write(store, update_schedule, &request, err);
    tide_arena_done(&request.arena);
    if (status == TIDE_OK && next_run_at_us)
        *next_run_at_us = request.next_run_at_us;
    return status;
}

tide_status tide_schedule_remove(tide_store *store, const char *name, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a schedule's name", name, err));
    int64_t changed = 0;
    TIDE_TRY(tide_store_exec(store, TIDE_SQL_SCHEDULE_REMOVE, &changed, err,
                             tide_bind_text("name", name)));
    return changed == 1 ? TIDE_OK : fail_missing(name, err);
}
