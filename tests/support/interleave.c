#include "support/interleave.h"
#include "support/clock/fair_clock.h"

#include <string.h>
#include <time.h>

#include "base/cleanup.h"

enum { DEADLINE_MS = 30000, LOOK_EVERY_MS = 2 };

void interleave_init(interleave *x, store_test *test)
{
    memset(x, 0, sizeof *x);
    x->test = test;
    (void)pthread_mutex_init(&x->lock, NULL);
    (void)pthread_cond_init(&x->changed, NULL);
}

static void *run_actor(void *arg)
{
    interleave_actor *actor = arg;
    actor->fn(actor->owner, actor->index, actor->arg);
    (void)pthread_mutex_lock(&actor->owner->lock);
    actor->is_finished = true;
    (void)pthread_cond_broadcast(&actor->owner->changed);
    (void)pthread_mutex_unlock(&actor->owner->lock);
    return NULL;
}

int interleave_add(interleave *x, interleave_fn *fn, void *arg)
{
    assert_true(x->count < INTERLEAVE_ACTORS);
    const int index = x->count++;
    x->actors[index] = (interleave_actor){.owner = x, .index = index, .fn = fn, .arg = arg};
    return index;
}

void interleave_step(interleave *x, int index, int step)
{
    interleave_actor *actor = &x->actors[index];
    (void)pthread_mutex_lock(&x->lock);
    if (step > actor->at)
        actor->at = step;
    (void)pthread_cond_broadcast(&x->changed);
    while (step >= actor->allowed)
        (void)pthread_cond_wait(&x->changed, &x->lock);
    (void)pthread_mutex_unlock(&x->lock);
}

/* With the lock held. */
static void start_actor(interleave_actor *actor, int allowed)
{
    actor->allowed = allowed;
    if (!actor->is_started) {
        actor->is_started = true;
        assert_int_equal(0, pthread_create(&actor->thread, NULL, run_actor, actor));
    }
    (void)pthread_cond_broadcast(&actor->owner->changed);
}

static void wait_a_little(interleave *x)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_EVERY_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&x->changed, &x->lock, &until);
}

static void check_deadline(int64_t start_ms, const char *what, int index)
{
    if (fair_clock_ms() - start_ms > DEADLINE_MS)
        fail_msg("actor %d: %s did not happen within %d ms", index, what, DEADLINE_MS);
}

void interleave_until(interleave *x, int index, int step)
{
    interleave_actor *actor = &x->actors[index];
    const int64_t start_ms = fair_clock_ms();
    (void)pthread_mutex_lock(&x->lock);
    start_actor(actor, step);
    while (actor->at < step && !actor->is_finished) {
        wait_a_little(x);
        check_deadline(start_ms, "its step", index);
    }
    const bool is_there = actor->at == step && !actor->is_finished;
    (void)pthread_mutex_unlock(&x->lock);
    assert_true(is_there);
}

void interleave_finish(interleave *x, int index)
{
    interleave_actor *actor = &x->actors[index];
    const int64_t start_ms = fair_clock_ms();
    (void)pthread_mutex_lock(&x->lock);
    start_actor(actor, INT32_MAX);
    while (!actor->is_finished) {
        wait_a_little(x);
        check_deadline(start_ms, "its end", index);
    }
    (void)pthread_mutex_unlock(&x->lock);
}

static tide_status count_blocked(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_BLOCKED_BACKENDS, err));
    TIDE_TRY(tide_query_one(query, err));
    *(int64_t *)arg = tide_query_col_i64(query);
    return TIDE_OK;
}

static bool is_anybody_blocked(interleave *x)
{
    int64_t blocked = 0;
    if (x->test->engine == TIDE_ENGINE_POSTGRES)
        assert_ok(tide_store_read_local(x->test->store, count_blocked, &blocked, NULL));
    else /* one writer: an actor before its step waits for the actor behind it */
        for (int i = 0; i < x->count; i++)
            blocked += x->actors[i].is_started && !x->actors[i].is_finished && x->actors[i].at == 0;
    return blocked > 0;
}

void interleave_blocked(interleave *x, int index)
{
    interleave_actor *actor = &x->actors[index];
    const int64_t start_ms = fair_clock_ms();
    (void)pthread_mutex_lock(&x->lock);
    start_actor(actor, INT32_MAX);
    bool is_blocked = false;
    while (!is_blocked && !actor->is_finished) {
        (void)pthread_mutex_unlock(&x->lock);
        is_blocked = is_anybody_blocked(x);
        (void)pthread_mutex_lock(&x->lock);
        wait_a_little(x);
        check_deadline(start_ms, "being blocked", index);
    }
    const bool is_finished = actor->is_finished;
    (void)pthread_mutex_unlock(&x->lock);
    assert_false(is_finished);
}

void interleave_done(interleave *x)
{
    for (int i = 0; i < x->count; i++) {
        (void)pthread_mutex_lock(&x->lock);
        start_actor(&x->actors[i], INT32_MAX);
        (void)pthread_mutex_unlock(&x->lock);
        (void)pthread_join(x->actors[i].thread, NULL);
    }
    (void)pthread_cond_destroy(&x->changed);
    (void)pthread_mutex_destroy(&x->lock);
}
