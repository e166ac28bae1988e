/* One does the work of all who wait; lines do not wait for each other. */
#include "base/combiner.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "support/check.h"
#include "support/clock/fair_clock.h"

enum { THREADS = 8, TURNS = 500 };

typedef struct wish {
    int64_t line;
    int done; /* how often it was among the whats */
    int batch;
} wish;

static atomic_int at_work[2];
static atomic_int most_at_work;
static atomic_int largest;

static void fulfil(tide_combiner_turn *turn, void **whats, int count)
{
    (void)turn;
    const int64_t line = ((wish *)whats[0])->line;
    const int together = atomic_fetch_add(&at_work[line], 1) + 1;
    if (together > atomic_load(&most_at_work))
        atomic_store(&most_at_work, together);
    if (count > atomic_load(&largest))
        atomic_store(&largest, count);
    for (int i = 0; i < count; i++) {
        wish *w = whats[i];
        assert_true(w->line == line);
        w->done++;
        w->batch = count;
    }
    (void)atomic_fetch_sub(&at_work[line], 1);
}

typedef struct caller {
    tide_combiner *crew;
    int64_t line;
    int fulfilled;
} caller;

static void *ask_again_and_again(void *arg)
{
    caller *c = arg;
    for (int i = 0; i < TURNS; i++) {
        wish w = {.line = c->line};
        tide_combiner_do(c->crew, c->line, &w, fulfil);
        c->fulfilled += w.done == 1;
    }
    return NULL;
}

static void run_callers(int leaders)
{
    tide_combiner *crew = tide_combiner_new(4, leaders, 0);
    pthread_t threads[THREADS];
    caller callers[THREADS];
    assert_non_null(crew);
    atomic_store(&most_at_work, 0);
    atomic_store(&largest, 0);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.crew = crew, .line = i % 2};
        assert_int_equal(0, pthread_create(&threads[i], NULL, ask_again_and_again, &callers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
        assert_int_equal(TURNS, callers[i].fulfilled);
    }
    assert_true(atomic_load(&most_at_work) <= leaders);
    assert_true(atomic_load(&largest) <= 4);
    tide_combiner_free(crew);
}

static void every_wish_is_fulfilled_once_and_one_leads(void **state)
{
    (void)state;
    run_callers(1);
}

static void several_may_lead_a_line(void **state)
{
    (void)state;
    run_callers(3);
}

typedef struct relay {
    bool is_first;
    sem_t *begun; /* the second one's work */
    bool has_seen_it;
} relay;

static void pass_and_wait(tide_combiner_turn *turn, void **whats, int count)
{
    assert_int_equal(1, count);
    relay *r = whats[0];
    if (!r->is_first) {
        (void)sem_post(r->begun);
        return;
    }
    tide_combiner_pass(turn);
    tide_combiner_pass(turn); /* once more is nothing */
    r->has_seen_it = fair_wait_sem(r->begun, fair_clock_ms() + 20000);
}

typedef struct runner {
    tide_combiner *crew;
    relay *what;
} runner;

static void *run_relay(void *arg)
{
    runner *r = arg;
    tide_combiner_do(r->crew, 1, r->what, pass_and_wait);
    return NULL;
}

static void who_has_passed_keeps_nobody_from_leading(void **state)
{
    (void)state;
    sem_t begun;
    assert_int_equal(0, sem_init(&begun, 0, 0));
    tide_combiner *crew = tide_combiner_new(1, 1, 0);
    relay relays[] = {{.is_first = true, .begun = &begun}, {.begun = &begun}};
    runner runners[] = {{crew, &relays[0]}, {crew, &relays[1]}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, run_relay, &runners[i]));
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, pthread_join(threads[i], NULL));
    assert_true(relays[0].has_seen_it);
    tide_combiner_free(crew);
    (void)sem_destroy(&begun);
}

static void wait_beside(tide_combiner_turn *turn, void **whats, int count)
{
    (void)turn;
    assert_int_equal(1, count);
    relay *r = whats[0];
    if (r->is_first)
        r->has_seen_it = fair_wait_sem(r->begun, fair_clock_ms() + 20000);
    else
        (void)sem_post(r->begun);
}

static void *run_beside(void *arg)
{
    runner *r = arg;
    tide_combiner_do(r->crew, 1, r->what, wait_beside);
    return NULL;
}

static void a_batch_that_is_stuck_holds_up_the_next_for_a_moment_only(void **state)
{
    (void)state;
    sem_t begun;
    assert_int_equal(0, sem_init(&begun, 0, 0));
    tide_combiner *crew = tide_combiner_new(1, 2, 1000);
    relay relays[] = {{.is_first = true, .begun = &begun}, {.begun = &begun}};
    runner runners[] = {{crew, &relays[0]}, {crew, &relays[1]}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, run_beside, &runners[i]));
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, pthread_join(threads[i], NULL));
    assert_true(relays[0].has_seen_it);
    tide_combiner_free(crew);
    (void)sem_destroy(&begun);
}

typedef struct guest {
    tide_combiner *crew;
    sem_t *begun; /* of the first: it is at work ... */
    sem_t *end;   /* ... until then */
    int batch;
} guest;

static void hold_the_first(tide_combiner_turn *turn, void **whats, int count)
{
    (void)turn;
    for (int i = 0; i < count; i++)
        ((guest *)whats[i])->batch = count;
    guest *first = whats[0];
    if (!first->begun)
        return;
    (void)sem_post(first->begun);
    assert_true(fair_wait_sem(first->end, fair_clock_ms() + 20000));
}

static void *run_guest(void *arg)
{
    guest *g = arg;
    tide_combiner_do(g->crew, 1, g, hold_the_first);
    return NULL;
}

static void members_that_come_while_one_leads_go_together(void **state)
{
    (void)state;
    sem_t begun;
    sem_t end;
    assert_int_equal(0, sem_init(&begun, 0, 0));
    assert_int_equal(0, sem_init(&end, 0, 0));
    tide_combiner *crew = tide_combiner_new(4, 2, INT64_C(3600000000));
    guest guests[] = {{.crew = crew, .begun = &begun, .end = &end}, {.crew = crew}, {.crew = crew}};
    pthread_t threads[3];
    assert_int_equal(0, pthread_create(&threads[0], NULL, run_guest, &guests[0]));
    assert_true(fair_wait_sem(&begun, fair_clock_ms() + 20000));
    for (int i = 1; i < 3; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, run_guest, &guests[i]));
    const int64_t deadline_ms = fair_clock_ms() + 20000;
    while (tide_combiner_queued(crew, 1) < 2 && fair_clock_ms() < deadline_ms)
        (void)sched_yield();
    (void)sem_post(&end);
    for (int i = 0; i < 3; i++)
        assert_int_equal(0, pthread_join(threads[i], NULL));
    assert_int_equal(1, guests[0].batch);
    assert_int_equal(2, guests[1].batch);
    assert_int_equal(2, guests[2].batch);
    tide_combiner_free(crew);
    (void)sem_destroy(&begun);
    (void)sem_destroy(&end);
}

static void who_is_alone_does_its_own(void **state)
{
    (void)state;
    tide_combiner *crew = tide_combiner_new(64, 1, 0);
    wish w = {.line = 1};
    tide_combiner_do(crew, 1, &w, fulfil);
    assert_int_equal(1, w.done);
    assert_int_equal(1, w.batch);
    tide_combiner_free(crew);
    tide_combiner_free(NULL);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_alone_does_its_own),
        cmocka_unit_test(every_wish_is_fulfilled_once_and_one_leads),
        cmocka_unit_test(several_may_lead_a_line),
        cmocka_unit_test(who_has_passed_keeps_nobody_from_leading),
        cmocka_unit_test(a_batch_that_is_stuck_holds_up_the_next_for_a_moment_only),
        cmocka_unit_test(members_that_come_while_one_leads_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
