#include "worker/worker_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "support/clock/fair_clock.h"

static const char *const names[] = {"claimed", "finished", "failed", "released", "lost", "swept",
                                    "trouble", "started",  "ended",  "told",     "over"};
_Static_assert(sizeof names / sizeof names[0] == RIG_NAMES, "a name for every count");

int64_t rig_now_us(void)
{
    tide_env *env = tide_env_system();
    return env->boot_us(env);
}

/* ---- counting ---- */

static int find_name(const char *name)
{
    for (int i = 0; i < RIG_NAMES; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    abort(); /* on any thread: a misspelt name is the case's own mistake */
}

void rig_note(rig *r, const char *name)
{
    (void)pthread_mutex_lock(&r->lock);
    r->counts[find_name(name)]++;
    (void)pthread_cond_broadcast(&r->moved);
    (void)pthread_mutex_unlock(&r->lock);
}

int rig_count(rig *r, const char *name)
{
    (void)pthread_mutex_lock(&r->lock);
    const int count = r->counts[find_name(name)];
    (void)pthread_mutex_unlock(&r->lock);
    return count;
}

/* With the lock held. False: the deadline has passed. */
static bool wait_moved(rig *r, int64_t deadline_us)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    const int64_t left_us = deadline_us - rig_now_us();
    if (left_us <= 0)
        return false;
    until.tv_sec += (time_t)(left_us / 1000000);
    until.tv_nsec += (long)(left_us % 1000000 * 1000);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&r->moved, &r->lock, &until);
    return true;
}

void rig_wait(rig *r, const char *name, int count)
{
    const int at = find_name(name);
    const int64_t deadline_ms = fair_clock_ms() + RIG_DEADLINE_MS;
    bool is_there = false;
    (void)pthread_mutex_lock(&r->lock);
    while (!(is_there = r->counts[at] >= count) && fair_wait_cond(&r->moved, &r->lock, deadline_ms))
        ;
    (void)pthread_mutex_unlock(&r->lock);
    if (!is_there)
        fail_msg("%s: waited for %d, got %d; %s", name, count, r->counts[at], r->log);
}

void rig_let(rig *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->is_open = true;
    (void)pthread_cond_broadcast(&r->moved);
    (void)pthread_mutex_unlock(&r->lock);
}

static void hear_event(void *arg, tide_worker_event event, const tide_work_claimed *item,
                       const tide_error *err)
{
    rig *r = arg;
    (void)pthread_mutex_lock(&r->lock);
    const size_t len = strlen(r->log);
    if (event != TIDE_WORKER_SWEPT)
        snprintf(r->log + len, sizeof r->log - len, "%s%s %s", len > 0 ? ", " : "", names[event],
                 item ? item->work_item_id : "-");
    if (event == TIDE_WORKER_CLAIMED)
        r->first_expires_us = item->lease_expires_at_us;
    if (event == TIDE_WORKER_TROUBLE && err)
        r->err = *err;
    (void)pthread_mutex_unlock(&r->lock);
    rig_note(r, names[event]);
}

/* ---- the function ---- */

static void wait_at_the_gate(rig *r, tide_job *job)
{
    (void)pthread_mutex_lock(&r->lock);
    while (!r->is_open && (r->is_deaf || !tide_job_is_stopping(job)))
        (void)wait_moved(r, rig_now_us() + 20000); /* is_stopping tells nobody: it is asked */
    if (tide_job_is_stopping(job) && r->stop_seen_us == 0) {
        r->stop_seen_us = rig_now_us();
        r->stop_reason = tide_job_stop_get(job);
    }
    (void)pthread_mutex_unlock(&r->lock);
    const int64_t left_us = tide_job_lease_left_us(job);
    (void)pthread_mutex_lock(&r->lock);
    r->lease_left_us = left_us;
    (void)pthread_mutex_unlock(&r->lock);
}

static tide_status run_one(void *arg, tide_job *job, tide_error *err)
{
    rig *r = arg;
    (void)pthread_mutex_lock(&r->lock);
    r->started_us = rig_now_us();
    (void)pthread_mutex_unlock(&r->lock);
    rig_note(r, "started");
    wait_at_the_gate(r, job);
    tide_status status = r->act ? r->act(r, job, err) : r->result;
    if (!r->act && r->result == TIDE_OK && tide_job_is_stopping(job) && !r->is_deaf)
        status = TIDE_E_INTERRUPTED;
    rig_note(r, "ended");
    return status;
}

static void hear_stop(void *arg, tide_job *job)
{
    (void)job;
    rig_note(arg, "told");
}

/* ---- open, start ---- */

static rig *open_rig(store_test *t, tide_store *mine)
{
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->t = t;
    r->mine = mine;
    r->store = store_test_open_real(t);
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->moved, NULL);
    static const char *const types[] = {"job"};
    r->options = (tide_worker_options){
        TIDE_WORKER_OPTIONS_INIT,
        .worker = "w",
        .types = types,
        .type_count = 1,
        .lease_us = 3600 * SECOND_US,
        .poll_us = 3600 * SECOND_US,
        .sweep_us = -1,
        .run = run_one,
        .run_arg = r,
        .stop = hear_stop,
        .event = hear_event,
        .event_arg = r,
    };
    return r;
}

static int finish_setup(void **state)
{
    store_test *t = *state;
    /* The fixture's own store has a clock of its own; leases would be measured by two. */
    tide_store_closep(&t->store);
    t->store = NULL;
    rig *r = open_rig(t, store_test_open_real(t));
    char id[TIDE_WORK_ID_MAX + 1];
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "a task"};
    assert_ok_err(tide_task_create(r->mine, &task, id, &t->err), &t->err);
    *state = r;
    return 0;
}

int rig_setup_sqlite(void **state)
{
    assert_int_equal(0, store_fixture_setup_sqlite(state));
    return finish_setup(state);
}

int rig_setup_postgres(void **state)
{
    assert_int_equal(0, store_fixture_setup_postgres(state));
    return finish_setup(state);
}

rig *rig_second(rig *r)
{
    assert_null(r->second);
    r->second = open_rig(r->t, r->mine);
    const tide_worker_options own = r->second->options;
    r->second->options = r->options;
    r->second->options.run_arg = own.run_arg;
    r->second->options.event_arg = own.event_arg;
    return r->second;
}

static void close_rig(rig *r)
{
    if (!r)
        return;
    close_rig(r->second);
    if (r->is_running) {
        tide_worker_stop(r->worker);
        tide_worker_stop(r->worker);
        rig_let(r);
        (void)pthread_join(r->thread, NULL);
    }
    tide_worker_close(r->worker);
    (void)pthread_cond_destroy(&r->moved);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

int rig_teardown(void **state)
{
    rig *r = *state;
    store_test *t = r->t;
    close_rig(r);
    *state = t;
    return store_fixture_teardown(state);
}

void rig_add_new(rig *r, tide_work_spec item)
{
    tide_work_added added;
    item.task_id = item.task_id ? item.task_id : "t";
    item.work_type = item.work_type ? item.work_type : "job";
    assert_ok_err(tide_work_add(r->mine, &item, 1, &added, &r->t->err), &r->t->err);
}

void rig_add(rig *r, const char *id)
{
    rig_add_new(r, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id, .max_retries = -1});
}

static void *run_worker(void *arg)
{
    rig *r = arg;
    r->ended_with = tide_worker_run(r->worker, &r->err);
    rig_note(r, "over");
    return NULL;
}

void rig_start(rig *r)
{
    assert_ok_err(tide_worker_open(&r->worker, r->store, &r->options, &r->t->err), &r->t->err);
    assert_int_equal(0, pthread_create(&r->thread, NULL, run_worker, r));
    r->is_running = true;
    r->run_count++;
}

void rig_join(rig *r)
{
    assert_true(r->is_running);
    rig_wait(r, "over", r->run_count);
    assert_int_equal(0, pthread_join(r->thread, NULL));
    r->is_running = false;
    assert_ok_err(r->ended_with, &r->err);
}

/* ---- looking ---- */

static void copy_text(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

static tide_status copy_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    rig_item *out = arg;
    copy_text(out->status, sizeof out->status, item->status);
    copy_text(out->error, sizeof out->error, item->error_message);
    copy_text(out->kind, sizeof out->kind, item->failure_kind);
    copy_text(out->outcome, sizeof out->outcome, item->attempt_outcome);
    copy_text(out->output, sizeof out->output, item->output);
    out->retry_count = item->retry_count;
    out->failure_count = item->failure_count;
    out->crash_count = item->crash_count;
    out->expires_us = item->lease_expires_at_us;
    out->token = item->lease_token;
    out->run_after_us = item->run_after_us;
    return TIDE_OK;
}

rig_item rig_look(rig *r, const char *id)
{
    rig_item item = {.status = ""};
    assert_ok_err(tide_work_find(r->mine, id, copy_item, &item, &r->t->err), &r->t->err);
    return item;
}

void rig_wait_status(rig *r, const char *id, const char *status)
{
    const int64_t deadline_ms = fair_clock_ms() + RIG_DEADLINE_MS;
    while (strcmp(rig_look(r, id).status, status) != 0) {
        if (fair_clock_ms() > deadline_ms)
            fail_msg("%s is %s, not %s; %s", id, rig_look(r, id).status, status, r->log);
        (void)pthread_mutex_lock(&r->lock);
        (void)wait_moved(r, rig_now_us() + 10000);
        (void)pthread_mutex_unlock(&r->lock);
    }
}

/* ---- somebody who holds a row ---- */

static tide_status hold_and_hang(tide_tx *tx, void *arg, tide_error *err)
{
    rig_hang *hang = arg;
    rig *r = hang->r;
    TIDE_TRY(tide_work_check(tx, hang->id, hang->token, err));
    (void)pthread_mutex_lock(&r->lock);
    hang->has_begun = true;
    (void)pthread_cond_broadcast(&r->moved);
    while (!hang->may_end)
        (void)wait_moved(r, rig_now_us() + 1000000);
    (void)pthread_mutex_unlock(&r->lock);
    return TIDE_OK;
}

static void *run_hang(void *arg)
{
    rig_hang *hang = arg;
    tide_error err;
    TIDE_IGNORE(tide_store_write(hang->store, hold_and_hang, hang, &err));
    return NULL;
}

void rig_hang_begin(rig_hang *hang, rig *r, const char *id, int64_t token)
{
    *hang = (rig_hang){.r = r, .token = token, .store = store_test_open_real(r->t)};
    copy_text(hang->id, sizeof hang->id, id);
    assert_int_equal(0, pthread_create(&hang->thread, NULL, run_hang, hang));
    const int64_t deadline_ms = fair_clock_ms() + RIG_DEADLINE_MS;
    (void)pthread_mutex_lock(&r->lock);
    while (!hang->has_begun && fair_wait_cond(&r->moved, &r->lock, deadline_ms))
        ;
    const bool has_begun = hang->has_begun;
    (void)pthread_mutex_unlock(&r->lock);
    assert_true(has_begun);
}

void rig_hang_end(rig_hang *hang)
{
    (void)pthread_mutex_lock(&hang->r->lock);
    hang->may_end = true;
    (void)pthread_cond_broadcast(&hang->r->moved);
    (void)pthread_mutex_unlock(&hang->r->lock);
    assert_int_equal(0, pthread_join(hang->thread, NULL));
}
