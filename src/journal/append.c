/* append.c - checkpoints come in: checked, sealed, cut into chunks; then numbered and written (append_tx.h). */
#include "journal/append.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/uuid.h"
#include "journal/append_tx.h"
#include "journal/check.h"
#include "journal/fence.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static void append_done(tide_append *a)
{
    for (int i = 0; a->items && i < a->count; i++)
        tide_snapshot_done(&a->items[i].snapshot);
    free(a->items);
}

static tide_status prepare_item(tide_append_item *it, const tide_checkpoint_new *given,
                                tide_env *env, tide_error *err)
{
    TIDE_TRY(tide_journal_check_new(given, err));
    it->given = given;
    if (given->checkpoint_id) {
        (void)snprintf(it->checkpoint_id, sizeof it->checkpoint_id, "%s", given->checkpoint_id);
    } else {
        tide_uuid uuid;
        tide_uuid_v7(env, &uuid);
        tide_uuid_format(&uuid, it->checkpoint_id);
    }
    for (int i = 0; i < given->tag_count; i++)
        it->tags[i] = given->tags[i];
    it->tag_count = tide_checksum_sort_tags(it->tags, given->tag_count);
    const tide_checksum_fields fields = {
        .checkpoint_id = it->checkpoint_id,
        .task_id = given->task_id,
        .work_item_id = given->work_item_id,
        .type = given->type,
        .message = given->message,
        .metadata = given->metadata,
        .trigger = tide_append_trigger(given),
        .tags = it->tags,
        .tag_count = it->tag_count,
        .snapshot = given->snapshot,
    };
    TIDE_TRY(tide_checksum_compute(&it->checksum, &fields, err));
    return tide_snapshot_init(&it->snapshot, given->snapshot, err);
}

static tide_status check_ids_differ(const tide_append *a, tide_error *err)
{
    for (int i = 1; i < a->count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(a->items[i].checkpoint_id, a->items[k].checkpoint_id) == 0)
                return tide_fail(err, TIDE_E_INVALID, "checkpoint id %s is given twice",
                                 a->items[i].checkpoint_id);
    return TIDE_OK;
}

static tide_status check_count(int count, tide_error *err)
{
    if (count < 1 || count > TIDE_JOURNAL_BATCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%d checkpoints at once, want 1 to %d", count,
                         TIDE_JOURNAL_BATCH_MAX);
    return TIDE_OK;
}

static tide_status prepare(tide_append *a, const tide_checkpoint_new *given, int count,
                           tide_env *env, tide_error *err)
{
    TIDE_ALLOC(a->items, (size_t)count, err);
    a->count = count;
    for (int i = 0; i < count; i++) {
        const tide_status status = prepare_item(&a->items[i], &given[i], env, err);
        if (status < TIDE_OK)
            return count == 1 ? status : tide_fail_context(err, status, "checkpoint %d", i + 1);
        if (a->out)
            memcpy(a->out[i].checkpoint_id, a->items[i].checkpoint_id,
                   sizeof a->out[i].checkpoint_id);
    }
    return check_ids_differ(a, err);
}

/* ---- several, in somebody's transaction ---- */

static tide_status append_in(tide_tx *tx, const tide_checkpoint_new *checkpoints, int count,
                             tide_checkpoint_numbers *out, bool is_known, tide_error *err)
{
    TIDE_CLEANUP(append_done)
    tide_append a = {.out = out, .is_known = is_known, .is_inside = true, .is_fenced = !is_known};
    TIDE_TRY(prepare(&a, checkpoints, count, tide_store_env(tide_tx_store(tx)), err));
    return tide_append_write(tx, &a, err);
}

tide_status tide_journal_append_in(tide_tx *tx, const tide_checkpoint_new *checkpoints, int count,
                                   tide_checkpoint_numbers *out, tide_error *err)
{
    TIDE_NEED(tx, err);
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list = {0};
    TIDE_TRY(check_count(count, err));
    TIDE_TRY(TIDE_SIZED_LIST(&list, checkpoints, count, tide_checkpoint_new, err));
    return append_in(tx, list.items, count, out, false, err);
}

tide_status tide_journal_append_known_in(tide_tx *tx, const tide_checkpoint_new *checkpoints,
                                         int count, tide_checkpoint_numbers *out, tide_error *err)
{
    return append_in(tx, checkpoints, count, out, true, err);
}

/* ---- one, in a transaction of its own ---- */

static tide_status look_for_cause(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_append *a = arg;
    const tide_checkpoint_new *given = a->items[0].given;
    TIDE_TRY(tide_append_check_tasks(a, tx, err));
    TIDE_TRY(tide_append_check_leases(a, tx, err));
    if (given->expect_global == 0)
        return TIDE_OK;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_JOURNAL_HEAD_GET, err, TIDE_NO_BIND);
    const int64_t last = tide_query_col_i64(query);
    if (last == INT64_MAX || last + 1 == given->expect_global)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "global sequence %" PRId64 " was expected, the next is %" PRId64,
                     given->expect_global, last + 1);
}

/* What the closure did not ask, to save the question, is asked now that it has failed. */
static tide_status explain(tide_append *a, tide_store *store, tide_status status, tide_error *err)
{
    tide_error cause;
    const tide_status found = tide_store_read_local(store, look_for_cause, a, &cause);
    if (found == TIDE_OK && tide_fence_is_cause(a->items[0].given, err))
        return tide_fail(err, status, "the lease of task %s changed while a checkpoint was written",
                         a->items[0].given->task_id);
    if (found != TIDE_E_NOT_FOUND && found != TIDE_E_CONFLICT && found != TIDE_E_LEASE_LOST)
        return status;
    if (err)
        *err = cause;
    return found;
}

tide_status tide_journal_append(tide_store *store, const tide_checkpoint_new *given,
                                tide_checkpoint_numbers *out, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_checkpoint_new checkpoint;
    TIDE_TRY(TIDE_SIZED_COPY(&checkpoint, given, tide_checkpoint_new, err));
    const bool is_postgres = tide_store_engine(store) == TIDE_ENGINE_POSTGRES;
    TIDE_CLEANUP(append_done)
    tide_append a = {.out = out, .is_known = is_postgres, .is_fenced = true};
    TIDE_TRY(prepare(&a, &checkpoint, 1, tide_store_env(store), err));
    TIDE_TRY(tide_snapshot_foresee(&a.items[0].snapshot, store, err));
    tide_error cause = {.status = TIDE_OK};
    tide_status status = tide_store_write_by_id(store, tide_append_write, &a,
                                                checkpoint.checkpoint_id != NULL, &cause);
    /* Another has written this very id meanwhile: look at it. */
    if ((status == TIDE_E_EXISTS || status == TIDE_E_CONFLICT) && checkpoint.checkpoint_id)
        status = tide_store_write(store, tide_append_write, &a, &cause);
    if (status == TIDE_E_CONFLICT || status == TIDE_E_DAMAGED || status == TIDE_E_INVALID)
        status = explain(&a, store, status, &cause);
    if (status == TIDE_E_EXHAUSTED)
        status = tide_fail(&cause, status,
                           "no checkpoint of task %s: number %" PRId64 " was the last, of the task "
                           "or of the journal",
                           checkpoint.task_id, INT64_MAX);
    if (status < TIDE_OK && err)
        *err = cause;
    return status;
}

static tide_status append_expected(tide_store *store, tide_checkpoint_new checkpoint,
                                   int64_t sequence, tide_checkpoint_numbers *out, tide_error *err)
{
    if (sequence < 1)
        return tide_fail(err, TIDE_E_INVALID, "numbers start at 1; %" PRId64 " cannot be the next",
                         sequence);
    checkpoint.type = "manual_checkpoint";
    checkpoint.snapshot = tide_view_of("{}");
    checkpoint.expect_global = sequence;
    return tide_journal_append(store, &checkpoint, out, err);
}

tide_status tide_journal_checkpoint_with_sequence(tide_store *store, const char *task_id,
                                                  const char *message, int64_t sequence,
                                                  tide_checkpoint_numbers *out, tide_error *err)
{
    TIDE_NEED(store, err);
    return append_expected(
        store,
        (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = task_id, .message = message},
        sequence, out, err);
}

tide_status tide_journal_checkpoint_with_tags_and_sequence(tide_store *store,
                                                           const tide_checkpoint_new *given,
                                                           int64_t sequence,
                                                           tide_checkpoint_numbers *out,
                                                           tide_error *err)
{
    TIDE_NEED(store, err);
    tide_checkpoint_new checkpoint;
    TIDE_TRY(TIDE_SIZED_COPY(&checkpoint, given, tide_checkpoint_new, err));
    return append_expected(
        store,
        (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = checkpoint.task_id,
                              .message = checkpoint.message, .tags = checkpoint.tags,
                              .tag_count = checkpoint.tag_count},
        sequence, out, err);
}

tide_status tide_journal_auto_checkpoint_with_sequence(tide_store *store, const char *task_id,
                                                       const char *trigger, int64_t sequence,
                                                       tide_checkpoint_numbers *out,
                                                       tide_error *err)
{
    TIDE_NEED(store, err);
    return append_expected(
        store,
        (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = task_id, .trigger = trigger},
        sequence, out, err);
}
