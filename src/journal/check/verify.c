/* verify.c - every row against its checksum, every chunk against its digest, every task against its chain, and every
 * number against the records of what was removed.
 *
 * A task is walked in pages, each one durable snapshot of rows, cuts and head: so others may append and remove meanwhile. What
 * goes from page to page is the last number and the chain behind it. A cut that ends behind that number stands for the
 * rows that were removed, with the chain as they left it. */
#include "journal/check/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "journal/check/checksum.h"
#include "journal/checkpoint_iter.h"
#include "journal/tasks.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { FINDINGS_LEN = 1 << 20 };

void tide_verify_say(tide_buffer *findings, const char *format, ...)
{
    char line[TIDE_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    /* What does not fit any more is still counted. */
    if (tide_buffer_append(findings, line, strlen(line) + 1) < TIDE_OK)
        return;
}

void tide_verify_tell(const tide_buffer *findings, tide_journal_finding_fn *fn, void *arg)
{
    for (size_t at = 0; fn && at < findings->len; at += strlen(findings->ptr + at) + 1)
        fn(arg, findings->ptr + at);
}

/* ---- one task ---- */

typedef struct place {
    int64_t number; /* the last one looked at */
    tide_chain chain;
} place;

typedef struct task_check {
    tide_checkpoint_iter walk;
    place before; /* the page */
    place after;
    bool is_start; /* the chain before the first page must be asked for */
    tide_journal_report page;
    tide_buffer findings;
} task_check;

static void task_check_done(task_check *check)
{
    tide_checkpoint_iter_done(&check->walk);
    tide_buffer_done(&check->findings);
}

static const tide_segment *segment_of(const task_check *check)
{
    return &check->walk.lineage.segments[check->walk.segment];
}

/* Cuts in order, read beside the rows. */
typedef struct cuts {
    tide_query *query;
    bool is_there;
    int64_t first;
    int64_t last;
    bool has_chain;
    tide_chain chain;
} cuts;

static tide_status next_cut(cuts *c, tide_error *err)
{
    const tide_status status = tide_query_step(c->query, err);
    TIDE_TRY(status);
    c->is_there = status == TIDE_OK;
    if (!c->is_there)
        return TIDE_OK;
    c->first = tide_query_col_i64(c->query);
    c->last = tide_query_col_i64(c->query);
    c->has_chain = !tide_query_col_is_null(c->query);
    tide_chain_set(&c->chain, tide_query_col_blob(c->query));
    return TIDE_OK;
}

/* Pass the cuts that end before a number. */
static tide_status pass_cuts(task_check *check, cuts *c, int64_t before, tide_error *err)
{
    while (c->is_there && c->last < before) {
        if (c->has_chain)
            check->after.chain = c->chain;
        TIDE_TRY(next_cut(c, err));
    }
    return TIDE_OK;
}

static tide_status check_row(task_check *check, const tide_journal_row *row, const cuts *c,
                             tide_error *err)
{
    const tide_checkpoint *checkpoint = &row->checkpoint;
    check->after.number = checkpoint->sequence_number;
    bool is_valid = true;
    if (c->is_there && c->first <= checkpoint->sequence_number) {
        tide_verify_say(&check->findings,
                        "checkpoint %" PRId64 " (%s): is there, but recorded as removed",
                        checkpoint->global_sequence, checkpoint->checkpoint_id);
        is_valid = false;
    }
    if (!checkpoint->is_sealed) {
        check->page.skipped += is_valid;
        check->page.invalid += !is_valid;
        return TIDE_OK;
    }
    if (row->damage) {
        tide_verify_say(&check->findings, "checkpoint %" PRId64 " (%s): %s",
                        checkpoint->global_sequence, checkpoint->checkpoint_id, row->damage);
        is_valid = false;
    }
    tide_checksum link;
    TIDE_TRY(tide_checksum_link(&link, tide_chain_view(&check->after.chain),
                                checkpoint->sequence_number, row->checksum, err));
    if (!tide_checksum_equal(&link, row->chain)) {
        tide_verify_say(&check->findings,
                        "checkpoint %" PRId64 " (%s), number %" PRId64
                        " of task %s: the chain is broken: it, or what stood before it, was "
                        "altered or removed",
                        checkpoint->global_sequence, checkpoint->checkpoint_id,
                        checkpoint->sequence_number, checkpoint->task_id);
        is_valid = false;
    }
    tide_chain_set(&check->after.chain, row->chain);
    check->page.valid += is_valid;
    check->page.invalid += !is_valid;
    return TIDE_OK;
}

/* A task without a counter was deleted meanwhile, or is damaged. */
static tide_status check_headless(task_check *check, tide_tx *tx, tide_error *err)
{
    const char *task_id = segment_of(check)->task_id;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(tide_tx_one(&query, tx, TIDE_SQL_FORK_TASK_EXISTS, err,
                                tide_bind_text("task_id", task_id)));
    tide_verify_say(&check->findings, "task %s: its counter is missing", task_id);
    check->page.invalid++;
    return TIDE_OK;
}

/* A fork has rows of its own only above its fork point: others would be looked at by nobody. */
static tide_status check_below(task_check *check, tide_tx *tx, tide_error *err)
{
    const tide_segment *segment = segment_of(check);
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_VERIFY_BELOW, err,
                  tide_bind_text("task_id", segment->task_id),
                  tide_bind_i64("number", segment->low));
    const int64_t count = tide_query_col_i64(query);
    if (count == 0)
        return TIDE_OK;
    tide_verify_say(&check->findings,
                    "task %s: %" PRId64 " of its checkpoints stand at or below its fork point",
                    segment->task_id, count);
    check->page.invalid += count;
    return TIDE_OK;
}

/* Nothing may be missing at the end either. */
static tide_status check_end(task_check *check, tide_tx *tx, tide_error *err)
{
    const char *task_id = segment_of(check)->task_id;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_VERIFY_HEAD, err, tide_bind_text("task_id", task_id));
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : check_headless(check, tx, err);
    const int64_t last = tide_query_col_i64(query);
    const tide_view chain = tide_query_col_blob(query);
    if (!tide_view_equal(chain, tide_chain_view(&check->after.chain))) {
        tide_verify_say(&check->findings,
                        "task %s: its chain ends otherwise than its newest checkpoint: some were "
                        "altered or removed",
                        task_id);
        check->page.invalid++;
    }
    if (check->after.number > last) {
        tide_verify_say(&check->findings,
                        "task %s: its counter stands at %" PRId64
                        ", below its newest checkpoint (%" PRId64 ")",
                        task_id, last, check->after.number);
        check->page.invalid++;
    }
    return TIDE_OK;
}

static void cuts_done(cuts *c)
{
    tide_query_endp(&c->query);
}

static tide_status begin_cuts(cuts *c, const task_check *check, tide_tx *tx, tide_error *err)
{
    const tide_segment *segment = segment_of(check);
    TIDE_TRY(tide_query_start(
        &c->query, tx, TIDE_SQL_VERIFY_CUTS, err, tide_bind_text("task_id", segment->task_id),
        tide_bind_i64("after", check->before.number),
        tide_bind_i64("until", check->walk.is_full ? check->walk.last_number : segment->high)));
    return next_cut(c, err);
}

static tide_status check_page(tide_tx *tx, void *arg, tide_error *err)
{
    task_check *check = arg;
    tide_checkpoint_iter *walk = &check->walk;
    tide_buffer_clear(&check->findings);
    check->page = (tide_journal_report){0};
    const bool is_own = walk->segment == walk->lineage.count - 1;
    if (check->is_start)
        TIDE_TRY(tide_chain_at(&check->before.chain, tx, segment_of(check)->task_id,
                               segment_of(check)->low, err));
    if (check->is_start && is_own)
        TIDE_TRY(check_below(check, tx, err));
    check->after = check->before;
    TIDE_TRY(tide_checkpoint_iter_read_in(walk, tx, err));
    TIDE_CLEANUP(cuts_done) cuts c = {0};
    TIDE_TRY(begin_cuts(&c, check, tx, err));
    for (int i = 0; i < walk->page->count; i++) {
        const tide_journal_row *row = &walk->page->rows[i];
        TIDE_TRY(pass_cuts(check, &c, row->checkpoint.sequence_number, err));
        TIDE_TRY(check_row(check, row, &c, err));
    }
    if (walk->is_full)
        return TIDE_OK;
    TIDE_TRY(pass_cuts(check, &c, INT64_MAX, err));
    return is_own ? check_end(check, tx, err) : TIDE_OK;
}

/* with_shared: also what the task shares with those it was forked from. */
static tide_status check_task(tide_store *store, const char *task_id, bool with_shared,
                              tide_journal_finding_fn *fn, void *arg, tide_journal_report *report,
                              tide_error *err)
{
    TIDE_CLEANUP(task_check_done) task_check check = {0};
    tide_buffer_init(&check.findings, FINDINGS_LEN);
    const tide_journal_filter filter = {TIDE_JOURNAL_FILTER_INIT, .task_id = task_id};
    const tide_status begun =
        tide_checkpoint_iter_begin(&check.walk, store, &filter, TIDE_PAGE_SNAPSHOTS, err);
    if (begun == TIDE_E_NOT_FOUND && !with_shared)
        return TIDE_OK; /* deleted meanwhile */
    TIDE_TRY(begun);
    if (!with_shared)
        check.walk.segment = check.walk.lineage.count - 1;
    int segment = -1;
    while (!tide_checkpoint_iter_is_done(&check.walk)) {
        check.is_start = check.walk.segment != segment;
        segment = check.walk.segment;
        if (check.is_start)
            check.before.number = segment_of(&check)->low;
        TIDE_TRY(tide_store_read(store, check_page, &check, err));
        tide_checkpoint_iter_move_on(&check.walk);
        check.before = check.after;
        report->valid += check.page.valid;
        report->invalid += check.page.invalid;
        report->skipped += check.page.skipped;
        tide_verify_tell(&check.findings, fn, arg);
    }
    return TIDE_OK;
}

/* ---- all of them ---- */

typedef struct every_task {
    tide_store *store;
    tide_journal_finding_fn *fn;
    void *arg;
    tide_journal_report *report;
} every_task;

static tide_status check_one_of_all(void *arg, const char *task_id, tide_error *err)
{
    const every_task *all = arg;
    return check_task(all->store, task_id, false, all->fn, all->arg, all->report, err);
}

/* SQLite's guards let everybody pass while there is a permit. */
static tide_status check_permits(const every_task *all, tide_error *err)
{
    int64_t count = 0;
    if (tide_store_engine(all->store) != TIDE_ENGINE_SQLITE)
        return TIDE_OK;
    TIDE_TRY(tide_store_number(&count, all->store, TIDE_SQL_VERIFY_PERMITS, err, TIDE_NO_BIND));
    if (count == 0)
        return TIDE_OK;
    all->report->invalid++;
    if (all->fn)
        all->fn(all->arg,
                "journal_permits: a permit to remove checkpoints was left behind; with it "
                "any client can delete them");
    return TIDE_OK;
}

tide_status tide_journal_verify(tide_store *store, const char *task_id, tide_journal_finding_fn *fn,
                                void *arg, tide_journal_report *out, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_journal_report report = {0};
    if (task_id) {
        TIDE_TRY(check_task(store, task_id, true, fn, arg, &report, err));
    } else {
        every_task all = {.store = store, .fn = fn, .arg = arg, .report = &report};
        TIDE_TRY(tide_journal_each_task(store, check_one_of_all, &all, err));
        TIDE_TRY(tide_verify_numbers(store, fn, arg, &report, err));
        TIDE_TRY(check_permits(&all, err));
    }
    if (out)
        *out = report;
    if (report.invalid == 0 && report.missing == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_DAMAGED,
                     "%" PRId64 " findings about checkpoints, %" PRId64 " global numbers missing",
                     report.invalid, report.missing);
}
