#include "journal/append_tx.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/watch.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/json.h"
#include "journal/check.h"
#include "journal/fence.h"
#include "store/statement.h"
#include "tidemark_sql.h"

const char *tide_append_trigger(const tide_checkpoint_new *given)
{
    return given->trigger ? given->trigger : "manual";
}

/* ---- in the transaction: what needs no number ---- */

/* An id that is here with the same content: this call was made before. */
static tide_status find_same(tide_append_item *it, tide_checkpoint_numbers *out, tide_tx *tx,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(tide_tx_one(&query, tx, TIDE_SQL_JOURNAL_SAME, err,
                                tide_bind_text("checkpoint_id", it->checkpoint_id)));
    const int64_t global_sequence = tide_query_col_i64(query);
    const int64_t sequence_number = tide_query_col_i64(query);
    if (!tide_checksum_equal(&it->checksum, tide_query_col_blob(query)))
        return tide_fail(err, TIDE_E_EXISTS,
                         "checkpoint %s exists already, with other content (number %" PRId64 ")",
                         it->checkpoint_id, global_sequence);
    it->is_existing = true;
    if (out) {
        out->global_sequence = global_sequence;
        out->sequence_number = sequence_number;
    }
    return TIDE_OK;
}

static tide_status check_type(const tide_append_item *it, tide_tx *tx, tide_error *err)
{
    if (tide_journal_is_builtin(it->given->type))
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_JOURNAL_TYPE_GET, err,
                                           tide_bind_text("type", it->given->type));
    if (status == TIDE_NONE)
        return tide_fail(
            err, TIDE_E_INVALID,
            "unknown checkpoint type '%s': register it first (tidemark checkpoint add-type)",
            it->given->type);
    return status;
}

tide_status tide_append_check_tasks(const tide_append *a, tide_tx *tx, tide_error *err)
{
    TIDE_BUFFER(list, (size_t)a->count * (TIDE_JOURNAL_ID_MAX * 6 + 4) + 2);
    tide_json json;
    tide_json_init(&json, &list);
    tide_json_array_begin(&json);
    for (int i = 0; i < a->count; i++)
        tide_json_text(&json, a->items[i].given->task_id);
    tide_json_array_end(&json);
    if (tide_json_finish(&json) < TIDE_OK)
        return tide_no_memory(err);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(tide_tx_one(&query, tx, TIDE_SQL_JOURNAL_TASKS_MISSING, err,
                                tide_bind_view("tasks", tide_buffer_view(&list))));
    const tide_view task = tide_query_col_text(query);
    return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %.*s", (int)task.len, task.ptr);
}

/* An equal check was made for an earlier item of this call. */
static bool is_checked_before(const tide_append *a, int index)
{
    const tide_checkpoint_new *given = a->items[index].given;
    for (int i = 0; i < index; i++) {
        const tide_append_item *it = &a->items[i];
        if (!it->is_existing && !it->is_held && it->given->token == given->token &&
            strcmp(it->given->task_id, given->task_id) == 0)
            return true;
    }
    return false;
}

static tide_status check_items(tide_append *a, tide_tx *tx, tide_error *err)
{
    for (int i = 0; i < a->count; i++) {
        tide_append_item *it = &a->items[i];
        it->is_held = false;
        if (!it->is_existing && a->is_fenced)
            TIDE_TRY(tide_fence_check_item(tx, it->given, &it->is_held, err));
    }
    return TIDE_OK;
}

tide_status tide_append_check_leases(const tide_append *a, tide_tx *tx, tide_error *err)
{
    for (int i = 0; i < a->count; i++) {
        const tide_append_item *it = &a->items[i];
        if (!it->is_existing && !it->is_held && !is_checked_before(a, i))
            TIDE_TRY(tide_fence_check_task(tx, it->given, err));
    }
    return TIDE_OK;
}

/* Several tasks are looked up by one list, so that the first that is missing is named. */
static tide_status check_tasks(const tide_append *a, tide_tx *tx, tide_error *err)
{
    if (a->count > 1 || a->items[0].is_held)
        TIDE_TRY(tide_append_check_tasks(a, tx, err));
    return a->is_fenced ? tide_append_check_leases(a, tx, err) : TIDE_OK;
}

static tide_status defer_fences(const tide_append *a, tide_tx *tx, tide_error *err)
{
    const bool is_postgres = tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES;
    for (int i = 0; i < a->count && is_postgres && a->is_fenced; i++) {
        const tide_append_item *it = &a->items[i];
        if (!it->is_existing && !it->is_held && !is_checked_before(a, i))
            TIDE_TRY(tide_fence_defer(tx, it->given, err));
    }
    return TIDE_OK;
}

/* Give each item that is written its place, within its task and among all. */
static void place_items(tide_append *a)
{
    a->new_count = 0;
    for (int i = 0; i < a->count; i++) {
        tide_append_item *it = &a->items[i];
        if (it->is_existing)
            continue;
        it->global_place = a->new_count++;
        it->first = i;
        it->task_count = 0;
        for (int k = 0; k < i && it->first == i; k++)
            if (!a->items[k].is_existing && a->items[k].first == k &&
                strcmp(a->items[k].given->task_id, it->given->task_id) == 0)
                it->first = k;
        it->task_place = a->items[it->first].task_count++;
    }
}

/* ---- numbers ---- */

/* Where a number goes that nobody asked for. Takes are made by the thread that ran the closure. */
static _Thread_local int64_t nobody;

/* Of one checkpoint the runner fills in the numbers itself. */
static int64_t *value_of(const tide_append *a, int64_t *asked, int64_t *own)
{
    if (a->count == 1 && a->out)
        return asked;
    return a->is_inside && !a->out ? &nobody : own;
}

static tide_status declare_task(tide_append *a, int index, tide_tx *tx, tide_error *err)
{
    tide_append_item *it = &a->items[index];
    char key[TIDE_TX_KEY_MAX + 1];
    (void)snprintf(key, sizeof key, "journal/1/%s", it->given->task_id);
    TIDE_QUERY(
        query, tx, TIDE_SQL_JOURNAL_TAKE_TASK, err, tide_bind_i64("count", it->task_count),
        tide_bind_blob("checksum", tide_view_bytes(it->checksum.bytes, sizeof it->checksum.bytes)),
        tide_bind_text("task_id", it->given->task_id));
    int64_t *asked = a->out ? &a->out->sequence_number : NULL;
    return tide_tx_declare_counter(tx, key, &query, value_of(a, asked, &it->taken), err);
}

static tide_status declare_global(tide_append *a, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_JOURNAL_TAKE_GLOBAL, err, tide_bind_i64("count", a->new_count),
               tide_bind_clock("clock"));
    int64_t *asked = a->out ? &a->out->global_sequence : NULL;
    return tide_tx_declare_counter(tx, "journal/2", &query, value_of(a, asked, &a->taken), err);
}

/* Of several checkpoints the runner knows the last number: the others are counted back from it here. */
static tide_status settle(tide_append *a, tide_tx *tx, tide_error *err)
{
    if (a->count == 1 || !a->out)
        return TIDE_OK;
    TIDE_TRY(tide_tx_take_counters(tx, err));
    for (int i = 0; i < a->count; i++) {
        const tide_append_item *it = &a->items[i];
        if (it->is_existing)
            continue;
        const tide_append_item *first = &a->items[it->first];
        a->out[i].sequence_number = first->taken - (first->task_count - 1 - it->task_place);
        a->out[i].global_sequence = a->taken - (a->new_count - 1 - it->global_place);
    }
    return TIDE_OK;
}

/* ---- what carries the numbers ---- */

static int64_t back_of(const tide_append *a, const tide_append_item *it)
{
    return a->items[it->first].task_count - 1 - it->task_place;
}

static int64_t global_back_of(const tide_append *a, const tide_append_item *it)
{
    return a->new_count - 1 - it->global_place;
}

static tide_status defer_expectation(const tide_append *a, const tide_append_item *it, tide_tx *tx,
                                     tide_error *err)
{
    if (it->given->expect_global == 0)
        return TIDE_OK;
    return tide_tx_defer(tx, TIDE_SQL_JOURNAL_EXPECT, err,
                         tide_bind_i64("last", it->given->expect_global + global_back_of(a, it)));
}

static tide_status defer_link(const tide_append *a, const tide_append_item *it, tide_tx *tx,
                              tide_error *err)
{
    if (it->task_place == 0) /* the take has linked it */
        return TIDE_OK;
    return tide_tx_defer(
        tx, TIDE_SQL_JOURNAL_LINK, err, tide_bind_i64("back", back_of(a, it)),
        tide_bind_blob("checksum", tide_view_bytes(it->checksum.bytes, sizeof it->checksum.bytes)),
        tide_bind_text("task_id", it->given->task_id));
}

static tide_status defer_tags(const tide_append *a, const tide_append_item *it, tide_tx *tx,
                              tide_error *err)
{
    if (it->tag_count == 0)
        return TIDE_OK;
    TIDE_BUFFER(list, TIDE_JOURNAL_TAGS_MAX * (TIDE_JOURNAL_TAG_MAX * 6 + 4));
    tide_json json;
    tide_json_init(&json, &list);
    tide_json_array_begin(&json);
    for (int i = 0; i < it->tag_count; i++)
        tide_json_text(&json, it->tags[i]);
    tide_json_array_end(&json);
    if (tide_json_finish(&json) < TIDE_OK)
        return tide_no_memory(err);
    return tide_tx_defer(tx, TIDE_SQL_JOURNAL_ADD_TAGS, err,
                         tide_bind_i64("global_back", global_back_of(a, it)),
                         tide_bind_view("tags", tide_buffer_view(&list)));
}

static tide_status defer_chunks(const tide_append *a, const tide_append_item *it, tide_tx *tx,
                                tide_error *err)
{
    if (it->snapshot.count == 0)
        return TIDE_OK;
    return tide_tx_defer(tx, TIDE_SQL_JOURNAL_ADD_CHUNKS, err,
                         tide_bind_i64("global_back", global_back_of(a, it)),
                         tide_bind_i64("count", it->snapshot.count),
                         tide_bind_blob("digests", tide_snapshot_digests(&it->snapshot)));
}

static void bind_row(tide_query *query, const tide_append_item *it)
{
    const tide_checkpoint_new *given = it->given;
    tide_query_bind_text(query, "checkpoint_id", it->checkpoint_id);
    tide_query_bind_text(query, "task_id", given->task_id);
    tide_query_bind_text(query, "work_item_id", given->work_item_id);
    tide_query_bind_text(query, "type", given->type);
    tide_query_bind_text_view(query, "snapshot", tide_snapshot_row_text(&it->snapshot));
    tide_query_bind_text(query, "metadata", given->metadata);
    tide_query_bind_text(query, "message", given->message);
    tide_query_bind_text(query, "trigger", tide_append_trigger(given));
    tide_query_bind_i64(query, "snapshot_len", (int64_t)given->snapshot.len);
    tide_query_bind_blob(query, "checksum",
                         tide_view_bytes(it->checksum.bytes, sizeof it->checksum.bytes));
}

static tide_status defer_row(const tide_append *a, const tide_append_item *it, tide_tx *tx,
                             tide_error *err)
{
    TIDE_QUERY(
        query, tx, TIDE_SQL_JOURNAL_ADD, err, tide_bind_i64("global_back", global_back_of(a, it)),
        tide_bind_i64("back", back_of(a, it)), tide_bind_i64("chunk_count", it->snapshot.count));
    bind_row(query, it);
    return tide_query_defer(&query, err);
}

/* ---- all at once (PostgreSQL) ---- */

static void read_numbers(tide_query *query, void *arg)
{
    tide_checkpoint_numbers *out = arg;
    out->sequence_number = tide_query_col_i64(query);
    out->global_sequence = tide_query_col_i64(query);
}

/* One checkpoint alone, without tags, chunks or expectations, needs no answer before its commit, and one statement. */
static bool is_simple(const tide_append *a)
{
    const tide_append_item *it = &a->items[0];
    return a->count == 1 && a->out && !a->is_inside && !it->given->checkpoint_id &&
           it->tag_count == 0 && it->snapshot.count == 0 && it->given->expect_global == 0;
}

static tide_status defer_append(const tide_append *a, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_JOURNAL_APPEND, err);
    bind_row(query, &a->items[0]);
    TIDE_TRY(tide_query_bind_clock(query, "clock", err));
    return tide_query_defer_rows(&query, read_numbers, a->out, err);
}

static tide_status defer_item(const tide_append *a, const tide_append_item *it, tide_tx *tx,
                              tide_error *err)
{
    TIDE_TRY(defer_link(a, it, tx, err));
    TIDE_TRY(defer_tags(a, it, tx, err));
    TIDE_TRY(defer_chunks(a, it, tx, err));
    return defer_row(a, it, tx, err);
}

/* ---- the closure ---- */

/* Whether the checkpoint is older than this call. A run whose response was lost has left in *out
 * what it found, so that its own checkpoint is recognised. */
static void report_existing(const tide_append *a, const tide_append_item *it,
                            tide_checkpoint_numbers *out)
{
    const bool is_own = !it->given->checkpoint_id || (a->has_lost_run && !out->is_existing);
    out->is_existing = it->is_existing && !is_own;
}

tide_status tide_append_write(tide_tx *tx, void *arg, tide_error *err)
{
    tide_append *a = arg;
    tide_identity identity;
    const bool is_repeated = a->runs++ > 0;
    a->has_lost_run = a->has_lost_run || tide_tx_has_lost_run(tx);
    if (a->out)
        TIDE_TRY(tide_tx_identity(tx, &identity, err));
    for (int i = 0; i < a->count; i++) {
        tide_append_item *it = &a->items[i];
        it->is_existing = false;
        if (a->out)
            a->out[i].identity = identity;
        /* An id that was made here is known to the store only if an earlier run was committed after all. */
        if (it->given->checkpoint_id || is_repeated)
            TIDE_TRY(find_same(it, a->out ? &a->out[i] : NULL, tx, err));
        if (a->out)
            report_existing(a, it, &a->out[i]);
        if (!it->is_existing)
            TIDE_TRY(check_type(it, tx, err));
    }
    place_items(a);
    if (a->new_count == 0)
        return TIDE_OK;
    TIDE_TRY(check_items(a, tx, err));
    if (a->is_known && is_simple(a)) {
        TIDE_TRY(tide_tx_notify(tx, TIDE_JOURNAL_TOPIC, err));
        TIDE_TRY(defer_append(a, tx, err));
        return defer_fences(a, tx, err);
    }
    if (!a->is_known)
        TIDE_TRY(check_tasks(a, tx, err));
    for (int i = 0; i < a->count; i++)
        if (!a->items[i].is_existing)
            TIDE_TRY(tide_snapshot_store(&a->items[i].snapshot, tx, err));
    for (int i = 0; i < a->count; i++)
        if (!a->items[i].is_existing && a->items[i].first == i)
            TIDE_TRY(declare_task(a, i, tx, err));
    TIDE_TRY(declare_global(a, tx, err));
    TIDE_TRY(tide_tx_notify(tx, TIDE_JOURNAL_TOPIC, err));
    TIDE_TRY(settle(a, tx, err));
    TIDE_TRY(defer_fences(a, tx, err));
    for (int i = 0; i < a->count; i++)
        if (!a->items[i].is_existing)
            TIDE_TRY(defer_expectation(a, &a->items[i], tx, err));
    for (int i = 0; i < a->count; i++)
        if (!a->items[i].is_existing)
            TIDE_TRY(defer_item(a, &a->items[i], tx, err));
    return TIDE_OK;
}
