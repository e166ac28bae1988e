#include "services/api/refusal_log.h"

#include "base/lock.h"

#define SECOND_US INT64_C(1000000)

void tide_refusal_log_init(tide_refusal_log *refusals, tide_log *log, tide_metrics *metrics,
                           tide_env *env)
{
    *refusals = (tide_refusal_log){
        .log = log, .metrics = metrics, .env = env, .begun_us = env->mono_us(env)};
    (void)pthread_mutex_init(&refusals->lock, NULL);
}

void tide_refusal_log_done(tide_refusal_log *refusals)
{
    (void)pthread_mutex_destroy(&refusals->lock);
}

/* -1: not this one. Otherwise how many were left out since the last line. */
static int64_t admit_line(tide_refusal_log *refusals)
{
    TIDE_HOLD(&refusals->lock);
    const int64_t now_us = refusals->env->mono_us(refusals->env);
    if (now_us - refusals->begun_us >= SECOND_US) {
        refusals->begun_us = now_us;
        refusals->lines = 0;
    }
    if (refusals->lines == TIDE_REFUSAL_LINES) {
        refusals->omitted++;
        return -1;
    }
    refusals->lines++;
    const int64_t omitted = refusals->omitted;
    refusals->omitted = 0;
    return omitted;
}

void tide_refusal_log_write(tide_refusal_log *refusals, const char *method, const char *text)
{
    if (!refusals)
        return;
    tide_series_add(tide_metrics_series(refusals->metrics, TIDE_METRIC_REFUSED_TOKENS, method), 1);
    if (!refusals->log)
        return;
    const int64_t omitted = admit_line(refusals);
    if (omitted >= 0)
        tide_log_write(refusals->log, TIDE_LOG_WARN, "refused a token that does not hold",
                       TIDE_F("method", method), TIDE_F("reason", text),
                       TIDE_FI("omitted", omitted), TIDE_F_END);
}
