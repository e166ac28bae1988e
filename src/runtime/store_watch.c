#include "runtime/store_watch.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/text/utf8.h"
#include "store/identity.h"
#include "store/statement.h"
#include "store/url.h"
#include "tidemark_sql.h"

/* ---- what the store reports ---- */

static void count_epoch(tide_store_watch *watch, int64_t epoch, int64_t changes)
{
    const char *name = tide_store_name(watch->store);
    tide_series_set(tide_metrics_series(watch->metrics, TIDE_METRIC_STORE_EPOCH, name), epoch);
    tide_series_add(tide_metrics_series(watch->metrics, TIDE_METRIC_STORE_EPOCH_CHANGES, name),
                    changes);
}

static void report_epoch(void *arg, const tide_identity *before, const tide_identity *now)
{
    tide_store_watch *watch = arg;
    tide_log_write(watch->log, TIDE_LOG_WARN, "store epoch changed",
                   TIDE_F("store", tide_store_name(watch->store)), TIDE_FI("epoch", now->epoch),
                   TIDE_F("epoch_id", now->epoch_id), TIDE_FI("before", before->epoch),
                   TIDE_F("before_id", before->epoch_id), TIDE_F_END);
    count_epoch(watch, now->epoch, 1);
}

static tide_status note_last(void *arg, const tide_epoch *epoch, tide_error *err)
{
    (void)err;
    *(tide_epoch *)arg = *epoch;
    return TIDE_OK;
}

/* An epoch that began while the store was opened, before an observer was set. */
static void report_opening(tide_store_watch *watch)
{
    tide_error ignored;
    tide_epoch last = {.epoch = 0};
    if (tide_store_epoch_changes(watch->store) == 0 ||
        tide_identity_history(watch->store, note_last, &last, &ignored) < TIDE_OK)
        return;
    const bool is_loss = strcmp(last.reason, "lost_tail") == 0;
    tide_log_write(watch->log, is_loss ? TIDE_LOG_ERROR : TIDE_LOG_WARN,
                   is_loss ? "acknowledged commits are lost; a new epoch began"
                           : "store epoch changed",
                   TIDE_F("store", tide_store_name(watch->store)), TIDE_FI("epoch", last.epoch),
                   TIDE_F("epoch_id", last.epoch_id), TIDE_F("reason", last.reason),
                   TIDE_F("evidence", last.evidence), TIDE_F_END);
}

/* The store that was here is gone, and what it knew with it. */
static void report_replaced(const tide_store_watch *watch, const tide_identity *identity)
{
    const char *before = tide_identity_replaced(watch->store);
    if (*before)
        tide_log_write(watch->log, TIDE_LOG_WARN, "another store is at this path",
                       TIDE_F("store", tide_store_name(watch->store)),
                       TIDE_F("session_id", identity->session_id),
                       TIDE_F("before_session_id", before), TIDE_F_END);
}

/* A file that others made looser than ours is left so. */
static void report_mode(const tide_store_watch *watch)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-door"};
    tide_error ignored;
    tide_store_url url;
    if (tide_store_engine(watch->store) != TIDE_ENGINE_SQLITE ||
        tide_store_url_parse(&url, tide_store_name(watch->store), &ignored) < TIDE_OK)
        return;
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char path[PATH_MAX];
        struct stat info;
        if (snprintf(path, sizeof path, "%s%s", url.target, suffixes[i]) >= (int)sizeof path ||
            stat(path, &info) != 0 || (info.st_mode & (S_IRWXG | S_IRWXO)) == 0)
            continue;
        char mode[8];
        (void)snprintf(mode, sizeof mode, "%04o", info.st_mode & 07777);
        tide_log_write(watch->log, TIDE_LOG_WARN, "other users can open the store: chmod 600",
                       TIDE_F("file", path), TIDE_F("mode", mode), TIDE_F_END);
    }
}

static tide_status count_lost_tail(void *arg, const tide_epoch *epoch, tide_error *err)
{
    (void)err;
    *(int64_t *)arg += strcmp(epoch->reason, "lost_tail") == 0;
    return TIDE_OK;
}

/* Of the whole history: another process may have been the first to open the file. */
static void count_lost_tails(tide_store_watch *watch)
{
    tide_error ignored;
    int64_t count = 0;
    if (tide_identity_history(watch->store, count_lost_tail, &count, &ignored) >= TIDE_OK)
        tide_series_set(tide_metrics_series(watch->metrics, TIDE_METRIC_STORE_LOST_TAILS,
                                            tide_store_name(watch->store)),
                        count);
}

static int64_t now_us(const tide_store_watch *watch)
{
    return watch->env->mono_us(watch->env);
}

/* Under the lock. */
static void note_failure(tide_store_watch *watch, tide_status status, const char *text)
{
    if (watch->failed_us == 0)
        watch->failed_us = now_us(watch);
    watch->status = status;
    watch->brief_failures += status != TIDE_E_BUSY;
    if (status == TIDE_E_FULL)
        watch->full_us = now_us(watch);
    const tide_view cut = tide_utf8_cut(tide_view_of(text), sizeof watch->reason - 1);
    (void)snprintf(watch->reason, sizeof watch->reason, "%.*s", (int)cut.len, cut.ptr);
}

static void note_success(tide_store_watch *watch)
{
    watch->success_us = now_us(watch);
    watch->failed_us = 0;
    watch->status = TIDE_OK;
}

/* Callers that read the same row again and again are counted, and logged once in a while. */
static void report_damage(tide_store_watch *watch, const char *text)
{
    bool is_logged = false;
    (void)pthread_mutex_lock(&watch->lock);
    is_logged = watch->damage_logged_us != 0 &&
                now_us(watch) - watch->damage_logged_us < TIDE_STORE_DAMAGE_US;
    if (!is_logged)
        watch->damage_logged_us = now_us(watch);
    (void)pthread_mutex_unlock(&watch->lock);
    tide_series_add(tide_metrics_series(watch->metrics, TIDE_METRIC_STORE_DAMAGED,
                                        tide_store_name(watch->store)),
                    1);
    if (!is_logged)
        tide_log_write(watch->log, TIDE_LOG_ERROR, "damage was read; it is not served",
                       TIDE_F("store", tide_store_name(watch->store)), TIDE_F("finding", text),
                       TIDE_F_END);
}

static void report_call(void *arg, tide_status status, const char *text)
{
    tide_store_watch *watch = arg;
    (void)pthread_mutex_lock(&watch->lock);
    if (status < TIDE_OK)
        note_failure(watch, status, text);
    else if (!watch->is_sink_failing)
        note_success(watch);
    (void)pthread_mutex_unlock(&watch->lock);
    if (status == TIDE_E_DAMAGED)
        report_damage(watch, text);
    if (status < TIDE_OK)
        tide_series_add(tide_metrics_series(watch->metrics, TIDE_METRIC_STORE_FAILURES,
                                            tide_store_name(watch->store),
                                            tide_status_get(status)->name),
                        1);
}

static bool is_of_sink(tide_status status)
{
    return status == TIDE_E_UNAVAILABLE || status == TIDE_E_BUSY || status == TIDE_E_TIMEOUT ||
           status == TIDE_E_FULL || status == TIDE_E_IO || status == TIDE_E_DAMAGED ||
           status == TIDE_E_DENIED || status == TIDE_E_OUTCOME_UNKNOWN;
}

void tide_store_watch_sink(tide_store_watch *watch, tide_status status, const char *text)
{
    if (!watch->env || (status < TIDE_OK && !is_of_sink(status)))
        return;
    TIDE_HOLD(&watch->lock);
    if (status < TIDE_OK) {
        watch->is_sink_failing = true;
        note_failure(watch, status, text);
    } else if (watch->is_sink_failing) {
        watch->is_sink_failing = false;
        note_success(watch);
    }
}

/* ---- brackets and the probe ---- */

void tide_store_watch_begin(tide_store_watch *watch, tide_store_bracket bracket)
{
    if (!watch->env)
        return;
    TIDE_HOLD(&watch->lock);
    watch->begun_us[bracket] = now_us(watch);
}

void tide_store_watch_end(tide_store_watch *watch, tide_store_bracket bracket, tide_status status)
{
    if (!watch->env)
        return;
    TIDE_HOLD(&watch->lock);
    watch->begun_us[bracket] = 0;
    if (status >= TIDE_OK)
        watch->success_us = now_us(watch); /* failures end when the store reports it */
}

static tide_status probe_read(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_PROBE_READ, err);
    return tide_query_one(query, err);
}

static tide_status probe_write(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_PROBE_WRITE, err);
    return tide_query_run(query, NULL, err);
}

/* The probe may wait, so it also measures the disk. */
static void measure_disk(tide_store_watch *watch)
{
    struct statvfs disk;
    tide_store_url url;
    if (tide_store_engine(watch->store) != TIDE_ENGINE_SQLITE ||
        tide_store_url_parse(&url, tide_store_name(watch->store), NULL) < TIDE_OK ||
        statvfs(url.target, &disk) != 0)
        return;
    TIDE_HOLD(&watch->lock);
    watch->disk_free = (int64_t)(disk.f_bavail * disk.f_frsize);
    watch->disk_size = (int64_t)(disk.f_blocks * disk.f_frsize);
}

tide_status tide_store_watch_probe(tide_store_watch *watch, tide_error *err)
{
    measure_disk(watch);
    (void)pthread_mutex_lock(&watch->lock);
    const bool is_failing = watch->failed_us != 0;
    (void)pthread_mutex_unlock(&watch->lock);
    tide_store_watch_begin(watch, TIDE_STORE_PROBE);
    /* A write that failed is followed by no other where no client calls: then this one ends it. */
    const tide_status status = is_failing
                                   ? tide_store_write(watch->store, probe_write, NULL, err)
                                   : tide_store_read_local(watch->store, probe_read, NULL, err);
    tide_store_watch_end(watch, TIDE_STORE_PROBE, status);
    return status;
}

/* ---- the state ---- */

static bool is_soft(tide_status status)
{
    return status == TIDE_E_BUSY || status == TIDE_E_OUTCOME_UNKNOWN || status == TIDE_E_DAMAGED;
}

/* Under the lock. */
static int64_t get_hang_us(const tide_store_watch *watch, int64_t now)
{
    int64_t longest_us = 0;
    for (int i = 0; i < TIDE_STORE_BRACKET_COUNT; i++)
        if (watch->begun_us[i] != 0 && now - watch->begun_us[i] > longest_us)
            longest_us = now - watch->begun_us[i];
    return longest_us >= TIDE_STORE_HANG_US ? longest_us : 0;
}

static void get_state(const tide_store_watch *watch, tide_store_state *out)
{
    const int64_t now = now_us(watch);
    const int64_t hang_us = get_hang_us(watch, now);
    const bool is_full = watch->full_us != 0 && now - watch->full_us < TIDE_STORE_FULL_US;
    const bool is_failing =
        is_full || (watch->failed_us != 0 &&
                    (!is_soft(watch->status) || now - watch->failed_us >= TIDE_STORE_SOFT_US));
    *out = (tide_store_state){.is_up = hang_us == 0 && !is_failing,
                              .age_us = now - watch->success_us,
                              .disk_free = watch->disk_free,
                              .disk_size = watch->disk_size};
    if (is_failing)
        memcpy(out->reason, watch->reason, sizeof out->reason);
    else if (hang_us > 0)
        (void)snprintf(out->reason, sizeof out->reason,
                       "the store has not answered for %" PRId64 " s", hang_us / 1000000);
}

void tide_store_watch_state(tide_store_watch *watch, tide_store_state *out)
{
    *out = (tide_store_state){.is_up = true, .disk_free = -1};
    if (!watch->env)
        return;
    TIDE_HOLD(&watch->lock);
    get_state(watch, out);
}

/* Under the lock. Failures of a store that is not logged as down, and that are over: their number,
 * to be logged now. */
static int64_t end_brief(tide_store_watch *watch, const tide_store_state *state, int64_t now)
{
    const int64_t count = watch->brief_failures;
    const bool is_early =
        watch->brief_logged_us != 0 && now - watch->brief_logged_us < TIDE_STORE_BRIEF_US;
    if (watch->is_logged_down || !state->is_up)
        watch->brief_failures = 0;
    if (count == 0 || watch->is_logged_down || !state->is_up || watch->failed_us != 0 || is_early)
        return 0;
    watch->brief_failures = 0;
    watch->brief_logged_us = now;
    return count;
}

void tide_store_watch_check(tide_store_watch *watch)
{
    tide_store_state state;
    char reason[TIDE_STORE_REASON_MAX];
    if (!watch->env)
        return;
    (void)pthread_mutex_lock(&watch->lock);
    get_state(watch, &state);
    const bool is_turned = state.is_up == watch->is_logged_down;
    const int64_t now = now_us(watch);
    const int64_t down_us = now - watch->down_us;
    const int64_t brief = end_brief(watch, &state, now);
    memcpy(reason, watch->reason, sizeof reason);
    if (is_turned) {
        watch->is_logged_down = !state.is_up;
        watch->down_us = now;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    const char *name = watch->store ? tide_store_name(watch->store) : "";
    if (brief > 0)
        tide_log_write(watch->log, TIDE_LOG_WARN, "store failed and recovered",
                       TIDE_F("store", name), TIDE_FI("failures", brief), TIDE_F("reason", reason),
                       TIDE_F_END);
    if (!is_turned)
        return;
    if (state.is_up)
        tide_log_write(watch->log, TIDE_LOG_INFO, "store is up again", TIDE_F("store", name),
                       TIDE_FI("down_seconds", down_us / 1000000), TIDE_F_END);
    else
        tide_log_write(watch->log, TIDE_LOG_ERROR, "store is down", TIDE_F("store", name),
                       TIDE_F("reason", state.reason), TIDE_F_END);
}

/* ---- life ---- */

void tide_store_watch_init(tide_store_watch *watch, tide_store *store, tide_env *env, tide_log *log,
                           tide_metrics *metrics)
{
    tide_identity identity;
    *watch = (tide_store_watch){
        .store = store, .env = env, .log = log, .metrics = metrics, .disk_free = -1};
    (void)pthread_mutex_init(&watch->lock, NULL);
    watch->success_us = now_us(watch); /* it was opened a moment ago */
    if (!store)
        return;
    tide_store_identity(store, &identity);
    count_epoch(watch, identity.epoch, tide_store_epoch_changes(store));
    report_opening(watch);
    report_replaced(watch, &identity);
    report_mode(watch);
    count_lost_tails(watch);
    /* Alerts watch how they rise: they are there from the beginning. */
    (void)tide_metrics_series(metrics, TIDE_METRIC_STORE_DAMAGED, tide_store_name(store));
    (void)tide_metrics_series(metrics, TIDE_METRIC_STORE_FAILURES, tide_store_name(store),
                              tide_status_get(TIDE_E_FULL)->name);
    tide_store_on_epoch(store, report_epoch, watch);
    tide_store_on_failure(store, report_call, watch);
}

void tide_store_watch_done(tide_store_watch *watch)
{
    if (!watch->env)
        return;
    if (watch->store) {
        tide_store_on_epoch(watch->store, NULL, NULL);
        tide_store_on_failure(watch->store, NULL, NULL);
    }
    (void)pthread_mutex_destroy(&watch->lock);
    *watch = (tide_store_watch){.store = NULL};
}
