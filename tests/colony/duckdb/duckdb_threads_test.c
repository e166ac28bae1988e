/* Several pollers, a cleaner and readers on one DuckDB sink at once. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/duckdb/duckdb_place.h"
#include "colony/sink_duckdb.h"
#include "colony/sink_fixture.h"

enum { POLLERS = 3, PAGES = 12, PAGE_ROWS = 50 };

typedef struct shared {
    tide_sink *sink;
    atomic_int running;
    atomic_int failures;
    atomic_int conflicts;
} shared;

typedef struct poller {
    shared *all;
    char agent[16];
} poller;

static void fail_thread(shared *all, const char *what, tide_status status, const tide_error *err)
{
    (void)fprintf(stderr, "%s: %d %s\n", what, status, err->text);
    atomic_fetch_add(&all->failures, 1);
}

/* Pages one after the other; a conflict is met by loading again, as pollers do. */
static void *poll_pages(void *arg)
{
    poller *p = arg;
    tide_error err = {0};
    for (int64_t i = 0; i < PAGES; i++) {
        const tide_status status =
            store_spans(p->all->sink, p->agent, i * PAGE_ROWS + 1, (i + 1) * PAGE_ROWS, &err);
        if (status == TIDE_E_CONFLICT) {
            atomic_fetch_add(&p->all->conflicts, 1);
            i--;
        } else if (status < TIDE_OK) {
            fail_thread(p->all, p->agent, status, &err);
            break;
        }
    }
    atomic_fetch_sub(&p->all->running, 1);
    return NULL;
}

static void *clean(void *arg)
{
    shared *all = arg;
    tide_error err = {0};
    ((tide_duck_sink *)all->sink)->superseded_max = 3;
    while (atomic_load(&all->running) > 0) {
        tide_retained done;
        const tide_status status = all->sink->ops->retain(all->sink, SECOND_US, &done, &err);
        if (status < TIDE_OK)
            fail_thread(all, "retain", status, &err);
    }
    return NULL;
}

typedef struct seen {
    shared *all;
} seen;

/* Ledgers balance in every snapshot, however many write. */
static tide_status check(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                         tide_error *err)
{
    seen *s = arg;
    tide_ledger ledger;
    tide_position_ledger(position, gaps, &ledger);
    if (ledger.unexplained != 0 || position->stored % PAGE_ROWS != 0)
        fail_thread(s->all, position->agent_id, TIDE_E_DAMAGED, err);
    return TIDE_OK;
}

static void *look(void *arg)
{
    seen s = {.all = arg};
    tide_error err = {0};
    while (atomic_load(&s.all->running) > 0) {
        const tide_status status =
            s.all->sink->ops->positions(s.all->sink, NULL, NULL, true, check, &s, &err);
        if (status < TIDE_OK)
            fail_thread(s.all, "positions", status, &err);
    }
    return NULL;
}

static void pollers_readers_and_clean_up_go_together(void **state)
{
    store_test *t = *state;
    char path[TEMPDIR_PATH_MAX];
    duckdb_place();
    tempdir_join(&t->dir, "colony.duckdb", path);
    shared all = {.running = POLLERS};
    assert_ok_err(tide_sink_open_duckdb(&all.sink, t->store, path, NULL, &t->err), &t->err);
    poller pollers[POLLERS];
    pthread_t threads[POLLERS + 2];
    for (int i = 0; i < POLLERS; i++) {
        pollers[i].all = &all;
        (void)snprintf(pollers[i].agent, sizeof pollers[i].agent, "agent-%d", i);
        assert_int_equal(0, pthread_create(&threads[i], NULL, poll_pages, &pollers[i]));
    }
    assert_int_equal(0, pthread_create(&threads[POLLERS], NULL, clean, &all));
    assert_int_equal(0, pthread_create(&threads[POLLERS + 1], NULL, look, &all));
    for (int i = 0; i < POLLERS + 2; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(0, atomic_load(&all.failures));
    assert_int_equal(0, atomic_load(&all.conflicts)); /* clean-up does not get into their way */
    assert_int_equal(POLLERS, check_ledger(all.sink));
    assert_int_equal(POLLERS * PAGES * PAGE_ROWS,
                     ask_number(all.sink, "SELECT count(*) FROM spans"));
    tide_sink_close(all.sink);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(pollers_readers_and_clean_up_go_together),
    };
    return cmocka_run_group_tests_name("duckdb-threads", tests, NULL, NULL);
}
