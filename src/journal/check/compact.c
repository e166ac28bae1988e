/* compact.c - old checkpoints go, in bounded steps, but never what resuming needs.
 *
 * What must stay is decided by the statement removal_candidates, inside the transaction that removes: the newest of each
 * resumable type, the tool_executed and llm_response ones since the last iteration_end, the last of each type of each live
 * work item, fork points, and what resuming at a fork point needs. */
#include <tidemark/journal.h>

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "journal/check/chunk_gc.h"
#include "journal/check/removal.h"
#include "journal/tasks.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- one task ---- */

typedef struct compact_step {
    const tide_compaction *policy;
    const char *task_id;
    int64_t keep;     /* 0: none */
    int64_t older_us; /* remove only what is older than this time; 0: any */
    int64_t after;    /* the step begins behind this number */
    int64_t before;   /* the oldest that is among the newest; or just behind all there are */
    bool is_done;
    tide_compacted counts; /* of this step */
    tide_candidates candidates;
    tide_sequence_range range;
} compact_step;

static tide_status count_rows(int64_t *count, tide_tx *tx, const char *task_id, tide_error *err)
{
    return tide_tx_number(count, tx, TIDE_SQL_REMOVAL_COUNT, err,
                          tide_bind_text("task_id", task_id));
}

/* Where the newest `keep` begin, and the time of the policy. */
static tide_status find_bounds(tide_tx *tx, void *arg, tide_error *err)
{
    compact_step *step = arg;
    step->older_us = 0;
    if (step->policy->older_than_us > 0) {
        int64_t now_us = 0;
        TIDE_TRY(tide_tx_now(tx, &now_us, err));
        step->older_us = now_us - step->policy->older_than_us;
    }
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(
        &query, tx, TIDE_SQL_REMOVAL_BOUND, err, tide_bind_text("task_id", step->task_id),
        tide_bind_i64("skip", step->keep > 0 ? step->keep - 1 : 0));
    TIDE_TRY(status);
    step->is_done = status == TIDE_NONE;
    if (step->is_done)
        return count_rows(&step->counts.kept, tx, step->task_id, err);
    step->before = tide_query_col_i64(query);
    if (step->keep == 0 && step->before < INT64_MAX)
        step->before++;
    step->counts.kept = step->keep;
    return TIDE_OK;
}

static bool is_within(const tide_compaction *policy, const tide_candidate *row)
{
    return policy->up_to_global == 0 || row->global_sequence <= policy->up_to_global;
}

static void decide(compact_step *step)
{
    const tide_compaction *policy = step->policy;
    step->counts = (tide_compacted){0};
    for (int i = 0; i < step->candidates.count; i++) {
        tide_candidate *row = &step->candidates.rows[i];
        const bool is_needed = row->is_fork_point || row->is_needed || row->is_live;
        const bool is_wanted =
            !row->is_old || !is_within(policy, row) || (policy->keep_tagged && row->is_tagged);
        row->is_going = !is_needed && !is_wanted;
        step->counts.removed += row->is_going;
        step->counts.kept += !row->is_going;
        step->counts.kept_for_resume += is_needed && !is_wanted;
        if (row->is_going)
            step->counts.bytes_removed += row->len;
    }
}

static tide_status look(tide_tx *tx, void *arg, tide_error *err)
{
    compact_step *step = arg;
    TIDE_TRY(tide_removal_read(&step->candidates, tx, step->task_id, step->after, step->before,
                               step->older_us, err));
    decide(step);
    return TIDE_OK;
}

static tide_status compact(tide_tx *tx, void *arg, tide_error *err)
{
    compact_step *step = arg;
    TIDE_TRY(tide_removal_begin(tx, err));
    TIDE_TRY(look(tx, arg, err));
    if (step->counts.removed == 0)
        return TIDE_OK;
    return tide_removal_do(tx, step->task_id, &step->candidates, TIDE_JOURNAL_COMPACTED,
                           &step->range, err);
}

static void add_counts(tide_compacted *out, const tide_compacted *counts)
{
    out->removed += counts->removed;
    out->kept += counts->kept;
    out->kept_for_resume += counts->kept_for_resume;
    out->bytes_removed += counts->bytes_removed;
}

static tide_status compact_task(tide_store *store, compact_step *step, tide_compacted *out,
                                tide_error *err)
{
    step->after = 0;
    step->counts = (tide_compacted){0};
    TIDE_TRY(tide_store_read(store, find_bounds, step, err));
    add_counts(out, &step->counts);
    while (!step->is_done) {
        if (step->policy->is_dry_run)
            TIDE_TRY(tide_store_read(store, look, step, err));
        else
            TIDE_TRY(tide_store_write(store, compact, step, err));
        add_counts(out, &step->counts);
        step->is_done = step->candidates.count < TIDE_REMOVAL_MAX;
        if (!step->is_done)
            step->after = step->candidates.rows[TIDE_REMOVAL_MAX - 1].sequence_number;
    }
    return TIDE_OK;
}

/* ---- all of them ---- */

typedef struct every_task {
    tide_store *store;
    compact_step *step;
    tide_compacted *out;
} every_task;

static tide_status compact_one_of_all(void *arg, const char *task_id, tide_error *err)
{
    const every_task *all = arg;
    all->step->task_id = task_id;
    return compact_task(all->store, all->step, all->out, err);
}

static tide_status check_task(tide_tx *tx, void *arg, tide_error *err)
{
    const char *task_id = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_FORK_TASK_EXISTS, err, tide_bind_text("task_id", task_id));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %.*s", TIDE_JOURNAL_ID_MAX,
                         task_id);
    return status;
}

tide_status tide_journal_compact(tide_store *store, const tide_compaction *given,
                                 tide_compacted *out, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_compaction own;
    TIDE_TRY(TIDE_SIZED_COPY(&own, given, tide_compaction, err));
    const tide_compaction *policy = &own;
    if (policy->older_than_us < 0 || policy->up_to_global < 0)
        return tide_fail(err, TIDE_E_INVALID, "older than %" PRId64 " us, up to number %" PRId64,
                         policy->older_than_us, policy->up_to_global);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(compact_step, step, err);
    step->policy = policy;
    step->keep = policy->keep == 0 ? TIDE_JOURNAL_KEEP_DEFAULT : policy->keep;
    if (step->keep < 0)
        step->keep = 0;
    tide_compacted counts = {0};
    if (policy->task_id) {
        TIDE_TRY(tide_store_read(store, check_task, (void *)policy->task_id, err));
        step->task_id = policy->task_id;
        TIDE_TRY(compact_task(store, step, &counts, err));
    } else {
        every_task all = {.store = store, .step = step, .out = &counts};
        TIDE_TRY(tide_journal_each_task(store, compact_one_of_all, &all, err));
    }
    if (!policy->is_dry_run) {
        TIDE_TRY(tide_journal_chunk_gc(store, &counts.chunks_removed, &counts.bytes_removed, err));
        if (counts.removed > 0 || counts.chunks_removed > 0)
            TIDE_TRY(tide_journal_shrink(store, err));
        TIDE_TRY(tide_journal_expire_events(store, TIDE_JOURNAL_EVENTS_KEEP_US, err));
    }
    if (out)
        *out = counts;
    return TIDE_OK;
}
