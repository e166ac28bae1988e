#include "runtime/store_watch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <tidemark/identity.h>

#include "store/url.h"

enum { QUIET_US = 1000000 };

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

/* An epoch that began while the store was opened, before anybody could be told. */
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

static void note_health(tide_store_watch *watch, bool is_up)
{
    atomic_store(&watch->is_away, !is_up);
    tide_series_set(
        tide_metrics_series(watch->metrics, TIDE_METRIC_STORE_UP, tide_store_name(watch->store)),
        is_up);
}

static void report_failure(void *arg, tide_status status, const char *text)
{
    tide_store_watch *watch = arg;
    tide_env *env = tide_store_env(watch->store);
    const char *name = tide_store_name(watch->store);
    const char *reason = tide_status_get(status)->name;
    /* A commit whose outcome is open, or a busy moment, says nothing of the store. */
    if (status != TIDE_E_OUTCOME_UNKNOWN && status != TIDE_E_BUSY)
        note_health(watch, status >= TIDE_OK);
    if (status >= TIDE_OK)
        return;
    tide_series_add(tide_metrics_series(watch->metrics, TIDE_METRIC_STORE_FAILURES, name, reason),
                    1);
    (void)pthread_mutex_lock(&watch->lock);
    const int64_t now_us = env->mono_us(env);
    const bool is_quiet = now_us < watch->quiet_until_us;
    const int64_t left_out = watch->left_out;
    watch->left_out = is_quiet ? left_out + 1 : 0;
    if (!is_quiet)
        watch->quiet_until_us = now_us + QUIET_US;
    (void)pthread_mutex_unlock(&watch->lock);
    if (!is_quiet)
        tide_log_write(watch->log, TIDE_LOG_WARN, "store call failed", TIDE_F("store", name),
                       TIDE_F("reason", reason), TIDE_F("error", text),
                       TIDE_FI("left_out", left_out), TIDE_F_END);
}

void tide_store_watch_init(tide_store_watch *watch, tide_store *store, tide_log *log,
                           tide_metrics *metrics)
{
    tide_identity identity;
    *watch = (tide_store_watch){.store = store, .log = log, .metrics = metrics};
    (void)pthread_mutex_init(&watch->lock, NULL);
    tide_store_identity(store, &identity);
    count_epoch(watch, identity.epoch, tide_store_epoch_changes(store));
    report_opening(watch);
    report_mode(watch);
    count_lost_tails(watch);
    note_health(watch, true);
    /* Alerts watch how it rises: it is there from the beginning. */
    (void)tide_metrics_series(metrics, TIDE_METRIC_STORE_FAILURES, tide_store_name(store),
                              tide_status_get(TIDE_E_FULL)->name);
    tide_store_on_epoch(store, report_epoch, watch);
    tide_store_on_failure(store, report_failure, watch);
}

bool tide_store_watch_is_healthy(const tide_store_watch *watch)
{
    return !atomic_load(&watch->is_away);
}

void tide_store_watch_done(tide_store_watch *watch)
{
    if (!watch->store)
        return;
    tide_store_on_epoch(watch->store, NULL, NULL);
    tide_store_on_failure(watch->store, NULL, NULL);
    (void)pthread_mutex_destroy(&watch->lock);
    watch->store = NULL;
}
