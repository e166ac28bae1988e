#include "work/item.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/interface/caller.h"
#include "base/text/json_canon.h"
#include "base/text/timefmt.h"
#include "base/text/utf8.h"
#include "core/value_digest.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- what callers give ---- */

tide_status tide_item_check_text(const char *what, const char *text, size_t max, tide_error *err)
{
    const tide_view view = tide_view_of(text);
    if (view.len > max)
        return tide_fail(err, TIDE_E_INVALID, "%s has at most %zu bytes, this one has %zu", what,
                         max, view.len);
    if (view.len > 0 && !tide_utf8_valid(view))
        return tide_fail(err, TIDE_E_INVALID, "%s is UTF-8 text", what);
    return TIDE_OK;
}

tide_status tide_item_check_name(const char *what, const char *name, size_t max, tide_error *err)
{
    if (!name || !*name)
        return tide_fail(err, TIDE_E_INVALID, "%s has 1 to %zu bytes, this one has none", what,
                         max);
    TIDE_TRY(tide_item_check_text(what, name, max, err));
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return tide_fail(err, TIDE_E_INVALID, "%s has no control characters", what);
    return TIDE_OK;
}

tide_status tide_item_check_word(const char *what, const char *word, const char *const *known,
                                 tide_error *err)
{
    char list[256] = "";
    if (!word)
        return TIDE_OK;
    for (int i = 0; known[i]; i++) {
        if (strcmp(word, known[i]) == 0)
            return TIDE_OK;
        const size_t len = strlen(list);
        (void)snprintf(list + len, sizeof list - len, "%s%s", i > 0 ? ", " : "", known[i]);
    }
    return tide_fail(err, TIDE_E_INVALID, "'%.40s' is not %s; known are %s", word, what, list);
}

tide_status tide_item_check_id(const char *what, const char *id, tide_error *err)
{
    return tide_item_check_name(what, id, TIDE_WORK_ID_MAX, err);
}

tide_status tide_item_check_json(const char *what, const char *json, tide_error *err)
{
    if (!json)
        return TIDE_OK;
    const tide_view text = tide_view_of(json);
    if (text.len > TIDE_WORK_DATA_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%s has at most %d bytes, this one has %zu", what,
                         TIDE_WORK_DATA_MAX, text.len);
    const tide_status status = tide_json_check(text, err);
    return status < TIDE_OK ? tide_fail_context(err, status, "%s is not JSON", what) : TIDE_OK;
}

tide_status tide_item_check_range(const char *what, int64_t value, int64_t min, int64_t max,
                                  tide_error *err)
{
    if (value >= min && value <= max)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID, "%s %" PRId64 ", want %" PRId64 " to %" PRId64, what,
                     value, min, max);
}

tide_status tide_item_check_lease(int64_t lease_us, int64_t *out, tide_error *err)
{
    *out = lease_us ? lease_us : TIDE_WORK_LEASE_US;
    if (*out < TIDE_LEASE_MIN_US || *out > TIDE_LEASE_MAX_US)
        return tide_fail(err, TIDE_E_INVALID,
                         "a lease lasts from 1 ms to 365 days, not %" PRId64 " us", lease_us);
    return TIDE_OK;
}

/* ---- time ---- */

tide_status tide_item_clock_get(tide_tx *tx, tide_item_clock *out, tide_error *err)
{
    TIDE_TRY(tide_lease_now(tx, &out->lease_now_us, err));
    /* Reading after a reboot that no write has noticed yet: every lease is over. */
    if (out->lease_now_us > TIDE_TIME_MAX_US)
        out->lease_now_us = TIDE_TIME_MAX_US;
    return tide_tx_now(tx, &out->now_us, err);
}

tide_status tide_item_bind_lease_clock(tide_query *query, tide_tx *tx, tide_item_clock *out,
                                       tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        return tide_query_bind_clock(query, "clock", err);
    TIDE_TRY(tide_item_clock_get(tx, out, err));
    tide_query_bind_time(query, "lease_now", out->lease_now_us);
    return TIDE_OK;
}

tide_status tide_item_bind_clock(tide_query *query, tide_tx *tx, tide_item_clock *out,
                                 tide_error *err)
{
    TIDE_TRY(tide_item_bind_lease_clock(query, tx, out, err));
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_SQLITE)
        tide_query_bind_time(query, "now", out->now_us);
    return TIDE_OK;
}

void tide_item_json_time(tide_json *json, tide_tx *tx, int64_t us)
{
    char text[TIDE_TIME_TEXT_SIZE + 3];
    if (us == 0 || tide_time_format(us, text) != TIDE_OK) {
        tide_json_null(json);
        return;
    }
    /* PostgreSQL would read it in the session's time zone. */
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        memcpy(text + strlen(text), "+00", sizeof "+00");
    tide_json_text(json, text);
}

/* ---- rows ---- */

static const tide_value_table values_of_items = {.page = TIDE_SQL_WORK_VERIFY,
                                                 .what = "input or output of work item",
                                                 .kinds = {"input", "output"}};

const char *tide_row_text(tide_row *row)
{
    const bool is_null = tide_query_col_is_null(row->query);
    const tide_view text = tide_query_col_text(row->query);
    if (is_null)
        return NULL;
    const char *copy = tide_arena_text(row->arena, text);
    row->is_short = row->is_short || !copy;
    return copy;
}

int64_t tide_row_time(tide_row *row)
{
    const int64_t us = tide_query_col_time(row->query);
    return us == INT64_MIN ? 0 : us;
}

tide_status tide_row_end(const tide_row *row, tide_error *err)
{
    if (!row->is_short)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_LIMIT, "more than %zu MiB in one answer: ask for less",
                     row->arena->max >> 20);
}

int64_t tide_item_input_digest(const char *id, const char *input)
{
    return tide_value_digest(values_of_items.kinds[0], tide_view_of(id), tide_view_of(input));
}

int64_t tide_item_output_digest(const char *id, const char *output)
{
    return tide_value_digest(values_of_items.kinds[1], tide_view_of(id), tide_view_of(output));
}

tide_status tide_item_check_digest(tide_query *query, const char *id, int64_t found,
                                   tide_error *err)
{
    const bool is_unchecked = tide_query_col_is_null(query);
    const int64_t stored = tide_query_col_i64(query);
    if (is_unchecked)
        return TIDE_OK;
    return tide_value_digest_check(stored, found, values_of_items.what, tide_view_of(id), err);
}

tide_status tide_work_verify(tide_store *store, tide_store_finding_fn *fn, void *arg,
                             tide_values_checked *out, tide_error *err)
{
    TIDE_NEED(store && fn && out, err);
    return tide_values_verify(store, &values_of_items, fn, arg, out, err);
}

tide_status tide_item_read(tide_query *query, tide_arena *arena, tide_work_item *out,
                           int64_t *position, tide_error *err)
{
    tide_row row = {.query = query, .arena = arena};
    out->work_item_id = tide_row_text(&row);
    out->task_id = tide_row_text(&row);
    out->work_type = tide_row_text(&row);
    out->status = tide_row_text(&row);
    out->priority = tide_query_col_i64(query);
    out->lease_holder = tide_row_text(&row);
    out->lease_acquired_at_us = tide_row_time(&row);
    out->lease_expires_at_us = tide_row_time(&row);
    out->heartbeat_at_us = tide_row_time(&row);
    out->retry_count = tide_query_col_i64(query);
    out->max_retries = tide_query_col_i64(query);
    out->input = tide_row_text(&row);
    out->output = tide_row_text(&row);
    out->error_message = tide_row_text(&row);
    out->created_at_us = tide_row_time(&row);
    out->started_at_us = tide_row_time(&row);
    out->completed_at_us = tide_row_time(&row);
    out->updated_at_us = tide_row_time(&row);
    out->lease_token = tide_query_col_i64(query);
    out->lease_via = tide_row_text(&row);
    out->revision = tide_query_col_i64(query);
    out->run_after_us = tide_row_time(&row);
    out->unique_key = tide_row_text(&row);
    out->timeout_us = tide_query_col_i64(query);
    out->deadline_at_us = tide_row_time(&row);
    out->failure_count = tide_query_col_i64(query);
    out->crash_count = tide_query_col_i64(query);
    out->failure_kind = tide_row_text(&row);
    out->attempt_outcome = tide_row_text(&row);
    out->progress = tide_row_text(&row);
    out->retried_from = tide_row_text(&row);
    out->schedule_name = tide_row_text(&row);
    out->waits_for = tide_query_col_i64(query);
    out->has_dependents = tide_query_col_bool(query);
    out->claim_key = tide_query_col_i64(query);
    out->title = tide_row_text(&row);
    out->limit_key = tide_row_text(&row);
    TIDE_TRY(tide_row_end(&row, err));
    TIDE_TRY(tide_item_check_digest(query, out->work_item_id,
                                    tide_item_input_digest(out->work_item_id, out->input) ^
                                        tide_item_output_digest(out->work_item_id, out->output),
                                    err));
    const int64_t at = tide_query_col_i64(query);
    if (position)
        *position = at;
    return TIDE_OK;
}

/* ---- lists ---- */

tide_status tide_item_check_list(tide_status status, tide_error *err)
{
    if (status == TIDE_E_LIMIT)
        return tide_fail(err, status, "more than %d MiB in one call: give less at a time",
                         TIDE_ITEM_LIST_MAX >> 20);
    return tide_buffer_check(status, err);
}

tide_status tide_item_bind_list(tide_query *query, const char *name, tide_json *json,
                                tide_error *err)
{
    TIDE_TRY(tide_item_check_list(tide_json_finish(json), err));
    tide_query_bind_text_view(query, name, tide_buffer_view(json->out));
    return TIDE_OK;
}

tide_status tide_item_bind_texts(tide_query *query, const char *name, const char *const *texts,
                                 int count, bool is_optional, tide_error *err)
{
    if (count == 0 && is_optional) {
        tide_query_bind_null(query, name);
        return TIDE_OK;
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer list = tide_buffer_of(TIDE_ITEM_LIST_MAX);
    tide_json json;
    tide_json_init(&json, &list);
    tide_json_array_begin(&json);
    for (int i = 0; i < count; i++)
        tide_json_text(&json, texts[i]);
    tide_json_array_end(&json);
    return tide_item_bind_list(query, name, &json, err);
}

/* ---- refusals ---- */

tide_status tide_item_check_task(tide_tx *tx, const char *task_id, const char *so, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_TASKS, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", &task_id, 1, false, err));
    const tide_status status = tide_query_one(query, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", task_id);
    (void)tide_query_col_text(query);
    const tide_view state = tide_query_col_text(query);
    if (tide_view_equal(state, tide_view_of("pending")) ||
        tide_view_equal(state, tide_view_of("running")))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT, "task %s has ended (%.*s): %s", task_id, (int)state.len,
                     state.ptr, so);
}

tide_status tide_item_find_task(tide_tx *tx, const char *task_id, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_TASKS, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", &task_id, 1, false, err));
    const tide_status status = tide_query_one(query, err);
    return status == TIDE_NONE ? tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", task_id)
                               : status;
}

tide_status tide_item_fail_missing(const char *id, tide_error *err)
{
    return tide_fail(err, TIDE_E_NOT_FOUND, "there is no work item %s", id);
}

tide_status tide_item_fail_lost(tide_tx *tx, const char *id, int64_t token, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_WORK_STATE, err, tide_bind_text("id", id));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_item_fail_missing(id, err);
    const tide_view state = tide_query_col_text(query);
    const tide_view holder = tide_query_col_text(query);
    const int64_t current = tide_query_col_i64(query);
    const tide_view kind = tide_query_col_text(query);
    if (!tide_view_equal(state, tide_view_of("in_progress")))
        return tide_fail(err, TIDE_E_LEASE_LOST,
                         "token %" PRId64 " no longer holds work item %s: it is %.*s%s%.*s", token,
                         id, (int)state.len, state.ptr, kind.len > 0 ? ", " : "", (int)kind.len,
                         kind.ptr);
    if (current == token)
        return tide_fail(err, TIDE_E_LEASE_LOST,
                         "token %" PRId64 " no longer holds work item %s: its lease has run out",
                         token, id);
    return tide_fail(err, TIDE_E_LEASE_LOST,
                     "token %" PRId64 " does not hold work item %s: %.*s does, with token %" PRId64,
                     token, id, (int)holder.len, holder.ptr, current);
}

tide_status tide_item_fail_some(int lost, int count, tide_error *err)
{
    if (lost == 0)
        return TIDE_OK;
    if (lost == count)
        return tide_fail(err, TIDE_E_LEASE_LOST, "%s",
                         count == 1 ? "the lease is lost" : "all leases are lost");
    return tide_fail(err, TIDE_E_PARTIAL, "%d of %d leases are lost", lost, count);
}

/* ---- idempotency keys ---- */

tide_status tide_item_free_keys(tide_tx *tx, const char *const *ids, int count, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_KEYS_FREE, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, count, false, err));
    return tide_query_run(query, NULL, err);
}

tide_status tide_item_end_keys(tide_tx *tx, const char *const *ids, int count, tide_error *err)
{
    tide_item_clock clock = {0};
    TIDE_TRY(tide_item_clock_get(tx, &clock, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_KEYS_END, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, count, false, err));
    tide_query_bind_time(query, "lease_now", clock.lease_now_us);
    return tide_query_run(query, NULL, err);
}

/* ---- wake-ups ---- */

void tide_work_topic(char out[64], const char *work_type)
{
    if (!out)
        return;
    const size_t len = work_type ? strlen(work_type) : 0;
    if (len == 0) { /* no type has an empty name */
        (void)snprintf(out, 64, "work/");
        return;
    }
    if (len + sizeof "work/" <= 64) {
        (void)snprintf(out, 64, "work/%s", work_type);
        return;
    }
    /* Too long for a topic: its digest stands for it. */
    const tide_digest128 digest = tide_digest128_of(tide_view_of(work_type));
    char hex[TIDE_DIGEST128_TEXT_SIZE];
    for (int i = 0; i < TIDE_DIGEST128_LEN; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", digest.bytes[i]);
    (void)snprintf(out, 64, "work/#%s", hex);
}

void tide_item_wake(tide_item_wakes *wakes, const char *work_type)
{
    if (wakes->is_broadcast)
        return;
    for (int i = 0; i < wakes->count; i++)
        if (strcmp(wakes->types[i], work_type) == 0)
            return;
    /* Three are left: for the topics of every type, of what is due, and of the journal. */
    if (wakes->count == (int)(sizeof wakes->types / sizeof wakes->types[0])) {
        wakes->is_broadcast = true;
        return;
    }
    (void)snprintf(wakes->types[wakes->count++], sizeof wakes->types[0], "%s", work_type);
}

void tide_item_notify(const tide_item_wakes *wakes, tide_tx *tx)
{
    if (wakes->is_broadcast) {
        TIDE_IGNORE(tide_tx_notify(tx, TIDE_WORK_TOPIC, NULL));
        return;
    }
    /* Each type's own topic, and the one for those who take every type. */
    for (int i = 0; i <= wakes->count && wakes->count > 0; i++) {
        char topic[64];
        tide_work_topic(topic, i < wakes->count ? wakes->types[i] : NULL);
        TIDE_IGNORE(tide_tx_notify(tx, topic, NULL));
    }
}

void tide_item_notify_due(tide_tx *tx, int64_t in_us)
{
    if (in_us < TIDE_WORK_SWEEP_US)
        TIDE_IGNORE(tide_tx_notify(tx, TIDE_WORK_DUE_TOPIC, NULL));
}

void tide_item_wake_column(tide_tx *tx, tide_query *query)
{
    const tide_view type = tide_query_col_text(query);
    char text[TIDE_WORK_TYPE_MAX + 1];
    tide_item_wakes wakes = {.count = 0};
    if (type.len < sizeof text) {
        tide_view_copy(text, sizeof text, type);
        tide_item_wake(&wakes, text);
    }
    tide_item_notify(&wakes, tx);
}
