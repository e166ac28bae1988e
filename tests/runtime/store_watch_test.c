/* The state of a daemon's store: which failures make it down, what ends them, what is logged. */
#include "runtime/store_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/store_fixture.h"

typedef struct watched {
    store_test *t;
    tide_metrics *metrics;
    tide_store_watch watch;
    tide_log log;
    FILE *file;
    char *lines;
    size_t lines_len;
} watched;

static void watched_begin(watched *w, store_test *t)
{
    *w = (watched){.t = t};
    w->file = open_memstream(&w->lines, &w->lines_len);
    assert_non_null(w->file);
    tide_log_init(&w->log, w->file, &t->clock.env, TIDE_LOG_LOGFMT, TIDE_LOG_INFO);
    assert_ok_err(tide_metrics_new(&w->metrics, "1", &t->clock.env, &t->err), &t->err);
    tide_store_watch_init(&w->watch, t->store, &t->clock.env, &w->log, w->metrics);
}

static void watched_end(watched *w)
{
    tide_store_watch_done(&w->watch);
    tide_metrics_free(w->metrics);
    (void)fclose(w->file);
    free(w->lines);
}

static bool is_up(watched *w)
{
    tide_store_state state;
    tide_store_watch_state(&w->watch, &state);
    assert_int_equal(state.is_up, state.reason[0] == '\0');
    return state.is_up;
}

static int count_lines(watched *w, const char *text)
{
    int count = 0;
    (void)fflush(w->file);
    for (const char *at = w->lines; (at = strstr(at, text)); at += strlen(text))
        count++;
    return count;
}

static tide_status refuse(tide_tx *tx, void *arg, tide_error *err)
{
    (void)tx;
    return tide_fail(err, *(const tide_status *)arg, "the disk of the test");
}

static tide_status nothing(tide_tx *tx, void *arg, tide_error *err)
{
    (void)tx;
    (void)arg;
    (void)err;
    return TIDE_OK;
}

static void fail_write(watched *w, tide_status status)
{
    assert_status(status, tide_store_write(w->t->store, refuse, &status, &w->t->err));
}

/* A store that is full or read-only still answers reads. */
static void a_failed_write_is_ended_by_a_write_alone(void **state)
{
    static const tide_status statuses[] = {TIDE_E_IO, TIDE_E_UNAVAILABLE, TIDE_E_DENIED};
    store_test *t = *state;
    watched w;
    watched_begin(&w, t);
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        assert_true(is_up(&w));
        fail_write(&w, statuses[i]);
        assert_false(is_up(&w));
        assert_ok_err(tide_store_read(t->store, nothing, NULL, &t->err), &t->err);
        assert_false(is_up(&w));
        assert_ok_err(tide_store_write(t->store, nothing, NULL, &t->err), &t->err);
        assert_true(is_up(&w));
    }
    watched_end(&w);
}

/* No client writes: the probe does, and finds out that writes work again. */
static void the_probe_ends_a_failure_of_writes(void **state)
{
    store_test *t = *state;
    watched w;
    watched_begin(&w, t);
    fail_write(&w, TIDE_E_IO);
    assert_false(is_up(&w));
    assert_ok_err(tide_store_watch_probe(&w.watch, &t->err), &t->err);
    assert_true(is_up(&w));
    watched_end(&w);
}

/* A small write may find room where a large one does not. */
static void a_full_store_stays_down_for_a_moment(void **state)
{
    store_test *t = *state;
    watched w;
    watched_begin(&w, t);
    fail_write(&w, TIDE_E_FULL);
    assert_ok_err(tide_store_watch_probe(&w.watch, &t->err), &t->err);
    assert_false(is_up(&w));
    virtual_env_advance(&t->clock, TIDE_STORE_FULL_US);
    assert_true(is_up(&w));
    watched_end(&w);
}

static void a_busy_moment_is_no_failure_and_a_locked_store_is_one(void **state)
{
    store_test *t = *state;
    watched w;
    watched_begin(&w, t);
    fail_write(&w, TIDE_E_BUSY);
    assert_true(is_up(&w));
    virtual_env_advance(&t->clock, TIDE_STORE_SOFT_US);
    assert_false(is_up(&w));
    assert_ok_err(tide_store_write(t->store, nothing, NULL, &t->err), &t->err);
    assert_true(is_up(&w));
    watched_end(&w);
}

/* A call that hangs returns nothing that could be reported. */
static void a_call_that_does_not_return_makes_the_store_down(void **state)
{
    store_test *t = *state;
    watched w;
    tide_store_state before;
    watched_begin(&w, t);
    tide_store_watch_begin(&w.watch, TIDE_STORE_LEASES);
    virtual_env_advance(&t->clock, TIDE_STORE_HANG_US - 1);
    assert_true(is_up(&w));
    virtual_env_advance(&t->clock, 1);
    assert_false(is_up(&w));
    tide_store_watch_state(&w.watch, &before);
    assert_string_equal("the store has not answered for 3 s", before.reason);
    assert_int_equal(TIDE_STORE_HANG_US, before.age_us);
    tide_store_watch_end(&w.watch, TIDE_STORE_LEASES, TIDE_OK);
    assert_true(is_up(&w));
    watched_end(&w);
}

/* The file beside the store: what the store itself takes says nothing about it. */
static void a_sink_that_takes_nothing_is_down_until_it_does(void **state)
{
    store_test *t = *state;
    watched w;
    watched_begin(&w, t);
    tide_store_watch_sink(&w.watch, TIDE_E_CONFLICT, "another version");
    assert_true(is_up(&w));
    tide_store_watch_sink(&w.watch, TIDE_E_IO, "no such device");
    assert_false(is_up(&w));
    fail_write(&w, TIDE_E_IO);
    assert_ok_err(tide_store_write(t->store, nothing, NULL, &t->err), &t->err);
    assert_false(is_up(&w));
    tide_store_watch_sink(&w.watch, TIDE_OK, "");
    assert_true(is_up(&w));
    watched_end(&w);
}

static void down_and_up_are_logged_once_each(void **state)
{
    store_test *t = *state;
    watched w;
    watched_begin(&w, t);
    for (int i = 0; i < 5; i++) {
        fail_write(&w, TIDE_E_IO);
        tide_store_watch_check(&w.watch);
        virtual_env_advance(&t->clock, SECOND_US);
    }
    assert_int_equal(1, count_lines(&w, "store is down"));
    assert_int_equal(1, count_lines(&w, "the disk of the test"));
    assert_ok_err(tide_store_write(t->store, nothing, NULL, &t->err), &t->err);
    for (int i = 0; i < 3; i++)
        tide_store_watch_check(&w.watch);
    assert_int_equal(1, count_lines(&w, "store is up again"));
    assert_int_equal(1, count_lines(&w, "down_seconds=5"));
    watched_end(&w);
}

/* A connection that broke and was replaced: the caller saw no failure, so the log is all there is. */
static void failures_that_are_over_are_logged_with_their_number(void **state)
{
    store_test *t = *state;
    watched w;
    watched_begin(&w, t);
    for (int i = 0; i < 3; i++) {
        fail_write(&w, i == 1 ? TIDE_E_OUTCOME_UNKNOWN : TIDE_E_UNAVAILABLE);
        assert_ok_err(tide_store_write(t->store, nothing, NULL, &t->err), &t->err);
    }
    fail_write(&w, TIDE_E_BUSY);
    tide_store_watch_check(&w.watch);
    assert_int_equal(0, count_lines(&w, "level=warn")); /* it is not over */
    assert_ok_err(tide_store_write(t->store, nothing, NULL, &t->err), &t->err);
    tide_store_watch_check(&w.watch);
    tide_store_watch_check(&w.watch);
    assert_int_equal(1, count_lines(&w, "level=warn msg=\"store failed and recovered\""));
    assert_int_equal(1, count_lines(&w, "failures=3"));
    assert_int_equal(0, count_lines(&w, "store is down"));
    /* Many of them are one line in a while. */
    for (int i = 0; i < 20; i++) {
        fail_write(&w, TIDE_E_UNAVAILABLE);
        assert_ok_err(tide_store_write(t->store, nothing, NULL, &t->err), &t->err);
        virtual_env_advance(&t->clock, SECOND_US);
        tide_store_watch_check(&w.watch);
    }
    assert_int_equal(3, count_lines(&w, "store failed and recovered"));
    watched_end(&w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_failed_write_is_ended_by_a_write_alone),
        STORE_CASE(the_probe_ends_a_failure_of_writes),
        STORE_CASE(a_full_store_stays_down_for_a_moment),
        STORE_CASE_SQLITE(failures_that_are_over_are_logged_with_their_number),
        STORE_CASE_SQLITE(a_busy_moment_is_no_failure_and_a_locked_store_is_one),
        STORE_CASE_SQLITE(a_call_that_does_not_return_makes_the_store_down),
        STORE_CASE_SQLITE(a_sink_that_takes_nothing_is_down_until_it_does),
        STORE_CASE_SQLITE(down_and_up_are_logged_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
