#include "runtime/refresh.h"

#include "base/cond_wait.h"
#include "base/lock.h"

void tide_refresh_init(tide_refresh *refresh, tide_ticker *ticker, const char *step)
{
    *refresh = (tide_refresh){.ticker = ticker, .step = step};
    (void)pthread_mutex_init(&refresh->lock, NULL);
    (void)pthread_cond_init(&refresh->changed, NULL);
}

void tide_refresh_done(tide_refresh *refresh)
{
    (void)pthread_cond_destroy(&refresh->changed);
    (void)pthread_mutex_destroy(&refresh->lock);
}

void tide_refresh_request(tide_refresh *refresh)
{
    const int64_t until_us = tide_cond_until(TIDE_REFRESH_WAIT_US);
    bool is_patient = true;
    TIDE_HOLD(&refresh->lock);
    const uint64_t turn = ++refresh->asked;
    tide_ticker_wake(refresh->ticker, refresh->step);
    while (refresh->done < turn && is_patient)
        is_patient = tide_cond_wait(&refresh->changed, &refresh->lock, until_us);
}

uint64_t tide_refresh_begin(tide_refresh *refresh)
{
    TIDE_HOLD(&refresh->lock);
    return refresh->asked;
}

void tide_refresh_end(tide_refresh *refresh, uint64_t turn)
{
    TIDE_HOLD(&refresh->lock);
    refresh->done = turn;
    (void)pthread_cond_broadcast(&refresh->changed);
}
