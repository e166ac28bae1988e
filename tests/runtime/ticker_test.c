/* The ticker: steps over virtual time, wakes, failures, lanes, and lists that cannot lose a step. */
#include "runtime/ticker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/clock/fair_clock.h"
#include "support/clock/virtual_env.h"

#define SECOND_US INT64_C(1000000)

enum { WAIT_MS = 20000 };

/* What a step of the test does and has seen. */
typedef struct probe {
    virtual_env *clock;
    int64_t next_us;
    int64_t takes_us;
    tide_status status;
    atomic_int runs;
    int64_t last_us; /* when it ran last */
    char *order;     /* of all probes, one letter per run; NULL: not noted */
    char letter;
    int fd;                  /* its watch; below 0: none */
    atomic_bool is_blocking; /* until it is false, the step does not return */
} probe;

static tide_status run_probe(void *arg, int64_t *next_us, tide_error *err)
{
    probe *p = arg;
    uint64_t count = 0;
    p->last_us = p->clock ? p->clock->env.mono_us(&p->clock->env) : 0;
    if (p->clock && p->takes_us > 0)
        virtual_env_advance(p->clock, p->takes_us);
    if (p->order)
        strncat(p->order, &p->letter, 1);
    if (p->fd >= 0)
        (void)!read(p->fd, &count, sizeof count);
    atomic_fetch_add(&p->runs, 1);
    while (atomic_load(&p->is_blocking))
        (void)usleep(1000);
    *next_us = p->next_us;
    return p->status < TIDE_OK ? tide_fail(err, p->status, "the disk is full") : p->status;
}

static int get_probe_fd(void *arg)
{
    const probe *p = arg;
    return p->fd;
}

static const tide_step step_a = {.name = "a", .run = run_probe, .watch_fd = get_probe_fd};
static const tide_step step_b = {.name = "b", .run = run_probe};
static const tide_step step_rested = {
    .name = "rested", .run = run_probe, .watch_fd = get_probe_fd, .rest_us = SECOND_US};
static const tide_step step_leases = {.name = "leases", .run = run_probe, .lane = TIDE_LANE_LEASES};
static const tide_step step_own = {.name = "own", .run = run_probe, .lane = TIDE_LANE_OWN};

static const tide_step *const all_steps[] = {&step_a,      &step_b,   &step_rested,
                                             &step_leases, &step_own, NULL};
static const tide_step *const two_steps[] = {&step_a, &step_b, NULL};

typedef struct ticker_test {
    virtual_env clock;
    tide_metrics *metrics;
    tide_log log;
    FILE *log_file;
    char *log_text;
    size_t log_len;
    tide_ticker *ticker;
    tide_error err;
} ticker_test;

static int setup(void **state)
{
    ticker_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    virtual_env_init(&t->clock, 1);
    t->log_file = open_memstream(&t->log_text, &t->log_len);
    assert_non_null(t->log_file);
    tide_log_init(&t->log, t->log_file, &t->clock.env, TIDE_LOG_LOGFMT, TIDE_LOG_INFO);
    assert_ok_err(tide_metrics_new(&t->metrics, "1", &t->clock.env, &t->err), &t->err);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    ticker_test *t = *state;
    tide_ticker_free(t->ticker);
    tide_metrics_free(t->metrics);
    (void)fclose(t->log_file);
    free(t->log_text);
    virtual_env_done(&t->clock);
    free(t);
    return 0;
}

static void open_ticker(ticker_test *t, const tide_step *const *steps, tide_env *env)
{
    const tide_ticker_options options = {
        .steps = steps, .env = env ? env : &t->clock.env, .log = &t->log, .metrics = t->metrics};
    assert_ok_err(tide_ticker_new(&t->ticker, &options, &t->err), &t->err);
}

static void bind(ticker_test *t, const tide_step *step, probe *p)
{
    assert_ok_err(tide_ticker_bind(t->ticker, step, &(tide_step_binding){.arg = p}, &t->err),
                  &t->err);
}

/* Returns how long until the next step is due. */
static int64_t step(ticker_test *t)
{
    int64_t due_us = 0;
    assert_ok_err(tide_ticker_step(t->ticker, &due_us, &t->err), &t->err);
    return due_us == INT64_MAX ? INT64_MAX : due_us - t->clock.mono_us;
}

static int64_t metric(ticker_test *t, tide_metric id, const char *label)
{
    return tide_series_value(tide_metrics_series(t->metrics, id, label));
}

static int count_text(ticker_test *t, const char *text)
{
    int count = 0;
    (void)fflush(t->log_file);
    for (const char *at = t->log_text; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

/* ---- virtual time ---- */

static void a_step_runs_when_it_asked_to(void **state)
{
    ticker_test *t = *state;
    probe a = {.clock = &t->clock, .next_us = 3 * SECOND_US, .fd = -1};
    probe b = {.clock = &t->clock, .next_us = 60 * SECOND_US, .fd = -1};
    open_ticker(t, two_steps, NULL);
    bind(t, &step_a, &a);
    bind(t, &step_b, &b);
    assert_int_equal(3 * SECOND_US, step(t));
    for (int second = 0; second < 60; second++) {
        virtual_env_advance(&t->clock, SECOND_US);
        (void)step(t);
    }
    assert_int_equal(21, a.runs);
    assert_int_equal(2, b.runs);
    assert_int_equal(t->clock.wall_us, metric(t, TIDE_METRIC_STEP_LAST_SUCCESS, "a"));
    assert_int_equal(21, metric(t, TIDE_METRIC_STEP_DURATION, "a"));
}

static void a_delay_comes_before_the_first_run(void **state)
{
    ticker_test *t = *state;
    probe a = {.clock = &t->clock, .next_us = INT64_MAX, .fd = -1};
    open_ticker(t, two_steps, NULL);
    tide_ticker_skip(t->ticker, &step_b);
    assert_ok(tide_ticker_bind(t->ticker, &step_a,
                               &(tide_step_binding){.arg = &a, .delay_us = SECOND_US}, &t->err));
    assert_int_equal(SECOND_US, step(t));
    assert_int_equal(0, a.runs);
    virtual_env_advance(&t->clock, SECOND_US);
    assert_int_equal(INT64_MAX, step(t));
    assert_int_equal(1, a.runs);
}

/* A step that always wants to run again at once runs once a round, and the others in between. */
static void a_busy_step_does_not_starve_the_others(void **state)
{
    ticker_test *t = *state;
    char order[64] = "";
    probe a = {.clock = &t->clock, .takes_us = 10, .fd = -1, .order = order, .letter = 'a'};
    probe b = a;
    b.letter = 'b';
    b.next_us = 5;
    open_ticker(t, two_steps, NULL);
    bind(t, &step_a, &a);
    bind(t, &step_b, &b);
    for (int i = 0; i < 4; i++)
        (void)step(t);
    assert_string_equal("abababab", order);
}

static void waking_runs_a_step_early(void **state)
{
    ticker_test *t = *state;
    probe a = {.clock = &t->clock, .next_us = INT64_MAX, .fd = -1};
    probe b = a;
    open_ticker(t, two_steps, NULL);
    bind(t, &step_a, &a);
    bind(t, &step_b, &b);
    (void)step(t);
    tide_ticker_wake(t->ticker, "b");
    tide_ticker_wake(t->ticker, "b");
    tide_ticker_wake(t->ticker, "no such step");
    assert_int_equal(INT64_MAX, step(t));
    assert_int_equal(1, a.runs);
    assert_int_equal(2, b.runs);
}

static void wakes_wait_for_the_rest_of_a_step(void **state)
{
    ticker_test *t = *state;
    static const tide_step *const steps[] = {&step_rested, NULL};
    probe a = {.clock = &t->clock, .next_us = INT64_MAX, .fd = -1};
    open_ticker(t, steps, NULL);
    bind(t, &step_rested, &a);
    (void)step(t);
    tide_ticker_wake(t->ticker, "rested");
    assert_int_equal(SECOND_US, step(t));
    assert_int_equal(1, a.runs);
    virtual_env_advance(&t->clock, SECOND_US);
    assert_int_equal(INT64_MAX, step(t));
    assert_int_equal(2, a.runs);
}

/* ---- failures ---- */

static void a_failure_and_its_end_are_logged_once(void **state)
{
    ticker_test *t = *state;
    probe a = {.clock = &t->clock, .next_us = SECOND_US, .status = TIDE_E_FULL, .fd = -1};
    open_ticker(t, two_steps, NULL);
    bind(t, &step_a, &a);
    tide_ticker_skip(t->ticker, &step_b);
    for (int i = 0; i < 5; i++) {
        (void)step(t);
        virtual_env_advance(&t->clock, SECOND_US);
    }
    assert_int_equal(1, count_text(t, "step failed"));
    assert_int_equal(1, count_text(t, "the disk is full"));
    assert_int_equal(5, metric(t, TIDE_METRIC_STEP_FAILURES, "a"));
    assert_int_equal(0, metric(t, TIDE_METRIC_STEP_LAST_SUCCESS, "a"));
    a.status = TIDE_OK;
    for (int i = 0; i < 2; i++) {
        (void)step(t);
        virtual_env_advance(&t->clock, SECOND_US);
    }
    assert_int_equal(1, count_text(t, "step recovered"));
    assert_int_equal(1, count_text(t, "failures=5"));
    a.status = TIDE_E_FULL;
    (void)step(t);
    assert_int_equal(2, count_text(t, "step failed"));
}

static void nothing_due_is_a_success_without_a_duration(void **state)
{
    ticker_test *t = *state;
    probe a = {.clock = &t->clock, .next_us = SECOND_US, .status = TIDE_NONE, .fd = -1};
    open_ticker(t, two_steps, NULL);
    bind(t, &step_a, &a);
    tide_ticker_skip(t->ticker, &step_b);
    (void)step(t);
    assert_int_equal(t->clock.wall_us, metric(t, TIDE_METRIC_STEP_LAST_SUCCESS, "a"));
    assert_int_equal(0, metric(t, TIDE_METRIC_STEP_DURATION, "a"));
}

/* ---- lists ---- */

static void a_step_of_the_list_that_is_not_bound_keeps_the_daemon_from_starting(void **state)
{
    ticker_test *t = *state;
    probe a = {.clock = &t->clock, .fd = -1};
    int64_t due_us = 0;
    open_ticker(t, two_steps, NULL);
    bind(t, &step_a, &a);
    assert_status(TIDE_E_FAILED, tide_ticker_start(t->ticker, &t->err));
    assert_non_null(strstr(t->err.text, "step b"));
    assert_status(TIDE_E_FAILED, tide_ticker_step(t->ticker, &due_us, &t->err));
    tide_ticker_skip(t->ticker, &step_b);
    assert_ok(tide_ticker_step(t->ticker, &due_us, &t->err));
}

static void a_step_outside_the_list_is_refused(void **state)
{
    ticker_test *t = *state;
    probe a = {.clock = &t->clock, .fd = -1};
    open_ticker(t, two_steps, NULL);
    assert_status(TIDE_E_FAILED,
                  tide_ticker_bind(t->ticker, &step_own, &(tide_step_binding){.arg = &a}, &t->err));
}

static void a_step_is_bound_once_for_each_instance(void **state)
{
    ticker_test *t = *state;
    probe a = {.clock = &t->clock, .fd = -1, .next_us = INT64_MAX};
    probe b = a;
    const tide_step_binding orders = {.arg = &a, .instance = "orders"};
    const tide_step_binding users = {.arg = &b, .instance = "users"};
    open_ticker(t, two_steps, NULL);
    tide_ticker_skip(t->ticker, &step_b);
    assert_ok(tide_ticker_bind(t->ticker, &step_a, &orders, &t->err));
    assert_ok(tide_ticker_bind(t->ticker, &step_a, &users, &t->err));
    assert_status(TIDE_E_FAILED, tide_ticker_bind(t->ticker, &step_a, &users, &t->err));
    (void)step(t);
    tide_ticker_wake(t->ticker, "a");
    (void)step(t);
    assert_int_equal(2, a.runs);
    assert_int_equal(2, b.runs);
    assert_int_equal(2, metric(t, TIDE_METRIC_STEP_DURATION, "a/users"));
}

/* ---- threads ---- */

static void await_runs(probe *p, int runs)
{
    const int64_t until_ms = fair_clock_ms() + WAIT_MS;
    while (atomic_load(&p->runs) < runs && fair_clock_ms() < until_ms)
        (void)usleep(1000);
    assert_true(atomic_load(&p->runs) >= runs);
}

/* The renewal of leases goes on while another step hangs, and so does work with a lane of its own. */
static void a_renewal_never_waits_for_another_step(void **state)
{
    ticker_test *t = *state;
    probe a = {.fd = -1, .is_blocking = true, .next_us = INT64_MAX};
    probe b = {.fd = -1, .next_us = 1000};
    probe rested = {.fd = -1, .next_us = INT64_MAX};
    probe leases = {.fd = -1, .next_us = 1000};
    probe own = {.fd = -1, .next_us = 1000};
    open_ticker(t, all_steps, tide_env_system());
    bind(t, &step_a, &a);
    bind(t, &step_b, &b);
    bind(t, &step_rested, &rested);
    bind(t, &step_leases, &leases);
    bind(t, &step_own, &own);
    assert_ok_err(tide_ticker_start(t->ticker, &t->err), &t->err);
    await_runs(&a, 1);
    const int before = atomic_load(&b.runs);
    await_runs(&leases, 20);
    await_runs(&own, 20);
    assert_int_equal(before, atomic_load(&b.runs));
    atomic_store(&a.is_blocking, false);
    await_runs(&b, before + 2);
    tide_ticker_stop(t->ticker);
    const int after = atomic_load(&leases.runs);
    tide_ticker_wake(t->ticker, "leases");
    assert_int_equal(after, atomic_load(&leases.runs));
}

static void a_watch_wakes_its_step(void **state)
{
    ticker_test *t = *state;
    const uint64_t one = 1;
    probe a = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .next_us = INT64_MAX};
    probe b = {.fd = -1, .next_us = INT64_MAX};
    assert_true(a.fd >= 0);
    open_ticker(t, two_steps, tide_env_system());
    bind(t, &step_a, &a);
    bind(t, &step_b, &b);
    assert_ok_err(tide_ticker_start(t->ticker, &t->err), &t->err);
    await_runs(&b, 1);
    for (int i = 0; i < 3; i++) {
        const int before = atomic_load(&a.runs);
        assert_int_equal((ssize_t)sizeof one, write(a.fd, &one, sizeof one));
        await_runs(&a, before + 1);
    }
    tide_ticker_wake(t->ticker, "b");
    await_runs(&b, 2);
    tide_ticker_stop(t->ticker);
    assert_int_equal(2, b.runs);
    (void)close(a.fd);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(a_step_runs_when_it_asked_to),
        CASE(a_delay_comes_before_the_first_run),
        CASE(a_busy_step_does_not_starve_the_others),
        CASE(waking_runs_a_step_early),
        CASE(wakes_wait_for_the_rest_of_a_step),
        CASE(a_failure_and_its_end_are_logged_once),
        CASE(nothing_due_is_a_success_without_a_duration),
        CASE(a_step_of_the_list_that_is_not_bound_keeps_the_daemon_from_starting),
        CASE(a_step_outside_the_list_is_refused),
        CASE(a_step_is_bound_once_for_each_instance),
        CASE(a_renewal_never_waits_for_another_step),
        CASE(a_watch_wakes_its_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
