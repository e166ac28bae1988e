#include "services/work/maintenance.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/journal.h>
#include <tidemark/watch.h>
#include <tidemark/work.h>

#include "base/cleanup.h"
#include "core/idempotency_keys.h"
#include "work/clean.h"

#define SWEEP_REST_US INT64_C(500000)      /* SQLite reports every commit of other processes */
#define CLEAN_US INT64_C(60000000)         /* between clean-ups that found nothing more */
#define CLEAN_DELAY_US INT64_C(2000000)    /* after the start */
#define CHECKPOINTS_US INT64_C(3600000000) /* a compaction reads every task */

struct tide_work_maintenance {
    tide_store *store;
    tide_env *env;
    tide_work_maintenance_options options;
    tide_metrics *metrics; /* NULL: none */
    tide_log *log;         /* NULL: none */
    char skipped_name[TIDE_WORK_ID_MAX + 1];
    tide_watch *watch; /* of what is due; NULL: none */
    bool has_tried_watch;
    int64_t clean_position; /* of tide_work_clean_step */
    int64_t full_due_us;    /* a sweep also does what tide_work_next_sweep does not look for */
};

/* ---- sweep ---- */

static void count_swept(const tide_work_maintenance *m, const tide_work_swept *swept)
{
    const struct {
        const char *result;
        int64_t count;
    } rows[] = {{"requeued", swept->requeued},
                {"failed", swept->failed},
                {"quarantined", swept->quarantined},
                {"promoted", swept->promoted},
                {"blocked", swept->blocked},
                {"scheduled", swept->scheduled},
                {"ended", swept->ended},
                {"skipped", swept->skipped}};
    for (size_t i = 0; m->metrics && i < sizeof rows / sizeof rows[0]; i++)
        tide_series_add(tide_metrics_series(m->metrics, TIDE_METRIC_SWEPT, rows[i].result),
                        rows[i].count);
}

/* Once for each name that comes up, not with every sweep. */
static void report_skipped(tide_work_maintenance *m, const tide_work_swept *swept)
{
    if (m->log && swept->skipped > 0 && strcmp(m->skipped_name, swept->skipped_name) != 0)
        tide_log_write(m->log, TIDE_LOG_WARN,
                       "schedule not run: its time zone is not known here, install tzdata",
                       TIDE_F("schedule", swept->skipped_name),
                       TIDE_FI("schedules", swept->skipped), TIDE_F_END);
    memcpy(m->skipped_name, swept->skipped_name, sizeof m->skipped_name);
}

static int64_t count_changes(const tide_work_swept *swept)
{
    return swept->requeued + swept->failed + swept->promoted + swept->blocked + swept->scheduled +
           swept->ended;
}

/* A sweep that changed something is followed by another look at once. One that found an item or a schedule it could
 * not change (its task has just ended) is not: that would be a busy loop. */
static tide_status sweep(void *arg, int64_t *next_us, tide_error *err)
{
    tide_work_maintenance *m = arg;
    tide_work_swept swept = {.has_more = false};
    int64_t wait_us = 0;
    *next_us = m->options.sweep_us;
    if (m->watch)
        TIDE_IGNORE(tide_watch_wait(m->watch, 0, NULL));
    TIDE_TRY(tide_work_next_sweep(m->store, &wait_us, err));
    const int64_t now_us = m->env->mono_us(m->env);
    if (wait_us > 0 && now_us < m->full_due_us) {
        *next_us = wait_us < *next_us ? wait_us : *next_us;
        return TIDE_NONE;
    }
    TIDE_TRY(tide_work_sweep(m->store, 0, m->options.crash_limit, &swept, err));
    m->full_due_us = now_us + TIDE_WORK_SWEEP_US;
    count_swept(m, &swept);
    report_skipped(m, &swept);
    if (swept.has_more || count_changes(&swept) > 0 || wait_us > 0)
        *next_us = 0;
    return TIDE_OK;
}

/* Opened by the thread that waits for it: a simulation, which does not wait, has no thread of a watch either. It is a
 * hint, so one that cannot be opened is done without. */
static int get_watch_fd(void *arg)
{
    tide_work_maintenance *m = arg;
    if (!m->has_tried_watch)
        TIDE_IGNORE(tide_watch_open(&m->watch, m->store, TIDE_WORK_DUE_TOPIC, NULL));
    m->has_tried_watch = true;
    return m->watch ? tide_watch_fd(m->watch) : -1;
}

const tide_step tide_step_sweep = {
    .name = "sweep",
    .summary = "requeue items whose lease ended, release due items, fire schedules",
    .run = sweep,
    .watch_fd = get_watch_fd,
    .rest_us = SWEEP_REST_US,
};

/* ---- clean-up ---- */

static void count_cleaned(const tide_work_maintenance *m, const char *kind, int64_t rows)
{
    if (m->metrics)
        tide_series_add(tide_metrics_series(m->metrics, TIDE_METRIC_CLEANED, kind), rows);
}

static tide_status clean_keys(void *arg, int64_t *next_us, tide_error *err)
{
    tide_work_maintenance *m = arg;
    int64_t removed = 0;
    bool has_more = false;
    TIDE_TRY(tide_idempotency_clean_step(m->store, m->options.keep_keys_us, false, &removed,
                                         &has_more, err));
    count_cleaned(m, "idempotency_keys", removed);
    *next_us = has_more ? 0 : CLEAN_US;
    return removed > 0 ? TIDE_OK : TIDE_NONE;
}

const tide_step tide_step_clean_keys = {
    .name = "clean_keys",
    .summary = "delete expired idempotency keys, and completed ones after a week",
    .run = clean_keys,
};

static tide_status clean_items(void *arg, int64_t *next_us, tide_error *err)
{
    tide_work_maintenance *m = arg;
    int64_t removed = 0;
    bool has_more = false;
    TIDE_TRY(tide_work_clean_step(m->store, m->options.keep_items_us, &m->clean_position, &removed,
                                  &has_more, err));
    count_cleaned(m, "work_items", removed);
    *next_us = has_more ? 0 : CLEAN_US;
    return removed > 0 ? TIDE_OK : TIDE_NONE;
}

const tide_step tide_step_clean_items = {
    .name = "clean_items",
    .summary = "delete work items a month after they ended",
    .run = clean_items,
};

/* Many transactions, each of them bounded: it has a lane of its own. */
static tide_status clean_checkpoints(void *arg, int64_t *next_us, tide_error *err)
{
    const tide_work_maintenance *m = arg;
    const tide_compaction policy = {TIDE_COMPACTION_INIT, .keep = m->options.keep_checkpoints,
                                    .keep_tagged = true};
    tide_compacted done = {.removed = 0};
    TIDE_TRY(tide_journal_compact(m->store, &policy, &done, err));
    count_cleaned(m, "checkpoints", done.removed);
    *next_us = CHECKPOINTS_US;
    return TIDE_OK;
}

const tide_step tide_step_clean_checkpoints = {
    .name = "clean_checkpoints",
    .summary = "delete all but the newest checkpoints of each task and what resuming needs",
    .run = clean_checkpoints,
    .lane = TIDE_LANE_OWN,
};

const tide_step *const tidemark_work_run_steps[] = {TIDE_WORK_STEPS, NULL};

/* ---- life ---- */

tide_status tide_work_maintenance_new(tide_work_maintenance **out, tide_store *store,
                                      const tide_work_maintenance_options *options,
                                      tide_metrics *metrics, tide_error *err)
{
    TIDE_CLEANUP(tide_work_maintenance_freep) tide_work_maintenance *m = calloc(1, sizeof *m);
    if (!m)
        return tide_no_memory(err);
    *m = (tide_work_maintenance){
        .store = store, .env = tide_store_env(store), .options = *options, .metrics = metrics};
    m->log = options->log;
    if (m->options.sweep_us == 0)
        m->options.sweep_us = TIDE_SWEEP_DEFAULT_US;
    *out = TIDE_TAKE(m);
    return TIDE_OK;
}

void tide_work_maintenance_free(tide_work_maintenance *maintenance)
{
    if (!maintenance)
        return;
    tide_watch_close(maintenance->watch);
    free(maintenance);
}

tide_status tide_work_maintenance_bind_sweep(tide_work_maintenance *m, tide_ticker *ticker,
                                             tide_error *err)
{
    return tide_ticker_bind(ticker, &tide_step_sweep, &(tide_step_binding){.arg = m}, err);
}

tide_status tide_work_maintenance_bind(tide_work_maintenance *m, tide_ticker *ticker,
                                       tide_error *err)
{
    const tide_step_binding later = {.arg = m, .delay_us = CLEAN_DELAY_US};
    TIDE_TRY(tide_work_maintenance_bind_sweep(m, ticker, err));
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_clean_keys, &later, err));
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_clean_items, &later, err));
    if (m->options.keep_checkpoints > 0)
        return tide_ticker_bind(ticker, &tide_step_clean_checkpoints, &later, err);
    tide_ticker_skip(ticker, &tide_step_clean_checkpoints);
    return TIDE_OK;
}
