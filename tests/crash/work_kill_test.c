/* Workers and those who add work are killed with kill -9, and PostgreSQL itself is: no acknowledged item is lost, no
 * finished item is lost or finished twice, attempts stay within bounds, the journal stays sound (FAULTS A1, A5, A6,
 * A7, A11). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crash/work_check.h"
#include "support/prng.h"
#include "support/store_fixture.h"

enum {
    PROCESSES = 5, /* two add, one is a plain loop, two are the runtime */
    CYCLES = 50,
    SOAK_FACTOR = 10,
    WRONG_CYCLES = 6, /* enough to find out a wrong worker */
    SILENCE_MS = 30000,
    END_MS = 120000, /* until everything has ended: leases, back-off, and a slow machine */
    CRASHES = 6,
    WORDS_BETWEEN = 150, /* at least, before the next crash of the server */
    WAIT_S = 60,
};

static uint64_t seed;

static int scale(int count)
{
    return is_soak() ? count * SOAK_FACTOR : count;
}

/* ---- words spoken in this process ---- */

typedef struct promises {
    pthread_mutex_t lock;
    pthread_cond_t grown;
    ack_journal *journal;
    size_t done;
    bool is_broken;
    atomic_bool stop;
} promises;

static void note_word(const load *from, const char *word, const char *id, int64_t token)
{
    promises *p = from->arg;
    char line[LOAD_LINE_MAX];
    const size_t len = load_format(line, word, id, token);
    line[len - 1] = '\0';
    (void)pthread_mutex_lock(&p->lock);
    ack_journal_add(p->journal, 0, 0, line + strlen("ack "));
    p->done += strcmp(word, "done") == 0;
    (void)pthread_cond_signal(&p->grown);
    (void)pthread_mutex_unlock(&p->lock);
}

typedef struct thread_load {
    load load;
    tide_worker *worker; /* of a runtime */
    pthread_t thread;
    tide_status status;
    tide_error err;
} thread_load;

static void *run_load(void *arg)
{
    thread_load *t = arg;
    promises *p = t->load.arg;
    t->status = t->worker ? tide_worker_run(t->worker, &t->err) : load_run(&t->load, &t->err);
    if (t->status < TIDE_OK) {
        (void)pthread_mutex_lock(&p->lock);
        p->is_broken = true;
        (void)pthread_cond_signal(&p->grown);
        (void)pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

static void start_load(thread_load *t, promises *p, tide_store *store, load_role role, int child,
                       bool is_server_mortal)
{
    *t = (thread_load){.load = {.role = role,
                                .store = store,
                                .cycle = 1000, /* ids of its own */
                                .child = child,
                                .seed = seed,
                                .is_server_mortal = is_server_mortal,
                                .stop = &p->stop,
                                .say = note_word,
                                .arg = p}};
    if (role == LOAD_RUNTIME)
        assert_ok_err(load_open_worker(&t->load, &t->worker, &t->err), &t->err);
    assert_int_equal(0, pthread_create(&t->thread, NULL, run_load, t));
}

static void join_load(thread_load *t)
{
    if (t->worker)
        tide_worker_stop(t->worker);
    (void)pthread_join(t->thread, NULL);
    tide_worker_closep(&t->worker);
    assert_ok_err(t->status, &t->err);
}

/* ---- what must be true at the end ---- */

/* Nobody is killed any more: everything comes to its end. */
static void work_to_the_end(tide_store *store, ack_journal *journal)
{
    promises p = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .grown = PTHREAD_COND_INITIALIZER, .journal = journal};
    thread_load worker;
    start_load(&worker, &p, store, LOAD_RUNTIME, 99, false);
    const int64_t until_ms = proc_now_ms() + END_MS;
    int64_t live = 1;
    tide_error err;
    tide_status status = TIDE_OK;
    while (status == TIDE_OK && live > 0 && proc_now_ms() < until_ms) {
        tide_env *env = tide_store_env(store);
        status = work_count_live(store, &live, &err);
        env->sleep_us(env, 10000);
    }
    join_load(&worker);
    assert_ok_err(status, &err);
}

static void tell_finding(void *arg, const char *finding)
{
    (void)arg;
    print_error("finding: %s\n", finding);
}

static void check_all(tide_store *store, const ack_journal *journal)
{
    tide_error err;
    char why[WORK_CHECK_WHY] = "";
    work_found *found = NULL;
    tide_journal_report report;
    assert_ok_err(work_found_read(&found, store, &err), &err);
    const bool is_kept = work_found_keeps(found, journal, why);
    print_message("%zu words, %zu items, %zu completed\n", journal->len, work_found_count(found),
                  work_found_completed(found));
    work_found_free(found);
    if (!is_kept)
        fail_msg("seed %llu: %s", (unsigned long long)seed, why);
    assert_ok_err(tide_journal_verify(store, NULL, tell_finding, NULL, &report, &err), &err);
    assert_ok_err(tide_store_check(store, tell_finding, NULL, &err), &err);
}

/* ---- processes that are killed ---- */

typedef struct crowd {
    store_test *test;
    tide_store *store;
    const char *manner; /* NULL: rightly */
} crowd;

static tide_status start_process(proc *child, uint32_t cycle, uint32_t index, void *arg,
                                 tide_error *err)
{
    static const char *const roles[PROCESSES] = {"add", "plain", "runtime", "add", "runtime"};
    const crowd *c = arg;
    char program[PATH_MAX];
    TIDE_TRY(proc_find("work-worker", program, err));
    char words[3][24];
    (void)snprintf(words[0], sizeof words[0], "%u", cycle);
    (void)snprintf(words[1], sizeof words[1], "%u", index);
    (void)snprintf(words[2], sizeof words[2], "%llu", (unsigned long long)seed);
    const char *const argv[] = {program,  c->test->url, c->test->dir.path, words[0], words[1],
                                words[2], roles[index], c->manner,         NULL};
    return proc_start(child, &(proc_options){.argv = argv, .out = PROC_PIPE}, err);
}

/* Nobody runs: whatever was committed stands still. */
static tide_status check_keys(const ack_journal *journal, uint32_t cycle, void *arg,
                              tide_error *err)
{
    (void)journal;
    (void)cycle;
    return work_check_keys(((const crowd *)arg)->store, err);
}

static tide_status run_loop(crowd *c, uint32_t cycles, ack_journal *journal, tide_error *err)
{
    const kill_loop loop = {
        .seed = seed,
        .cycles = cycles,
        .children = PROCESSES,
        .acks_min = 5,
        .acks_max = 60,
        .all_at_once_percent = 40,
        .is_first_last = true, /* who adds; a worker that has done everything says nothing */
        .jitter_us = 3000,
        .silence_ms = SILENCE_MS,
        .arg = c,
        .start = start_process,
        .check = check_keys,
    };
    kill_loop_result result;
    TIDE_TRY(kill_loop_run(&loop, journal, &result, err));
    if (result.kills != cycles * PROCESSES)
        return tide_fail(err, TIDE_E_FAILED, "%u kills, %u ended by themselves", result.kills,
                         result.finished);
    return TIDE_OK;
}

/* Workers with the same names come and go, whatever they were doing. */
static void killed_workers_lose_nothing_and_finish_nothing_twice(void **state)
{
    store_test *t = *state;
    tide_store *store = store_test_open_real(t);
    tide_error err;
    ack_journal journal;
    ack_journal_init(&journal);
    assert_ok_err(load_prepare(store, &err), &err);
    crowd right = {.test = t, .store = store};
    assert_ok_err(run_loop(&right, (uint32_t)scale(CYCLES), &journal, &err), &err);
    work_to_the_end(store, &journal);
    check_all(store, &journal);
    ack_journal_done(&journal);
}

static void expect_found_out(store_test *t, const char *manner, const char *words)
{
    tide_store *store = store_test_open_real(t);
    tide_error err;
    ack_journal journal;
    ack_journal_init(&journal);
    assert_ok_err(load_prepare(store, &err), &err);
    crowd wrong = {.test = t, .store = store, .manner = manner};
    assert_ok_err(run_loop(&wrong, WRONG_CYCLES, &journal, &err), &err);
    work_to_the_end(store, &journal);
    char why[WORK_CHECK_WHY] = "";
    work_found *found = NULL;
    assert_ok_err(work_found_read(&found, store, &err), &err);
    const bool is_kept = work_found_keeps(found, &journal, why);
    work_found_free(found);
    ack_journal_done(&journal);
    assert_false(is_kept);
    assert_contains(why, words);
}

/* The checks can see: who says done before the commit is found out. */
static void saying_done_before_the_finish_is_found_out(void **state)
{
    expect_found_out(*state, "hasty", "finished, acknowledged, and now");
}

/* The checks can see: an effect outside of the commit that finishes comes twice (A11). */
static void an_effect_outside_of_the_finish_is_found_out(void **state)
{
    expect_found_out(*state, "split", "its effect is there not once");
}

/* ---- the server is killed ---- */

typedef struct cluster_case {
    pg_cluster cluster;
    char url[PG_CLUSTER_URL_MAX];
    tide_store *stores[PROCESSES + 1];
    tide_error err;
} cluster_case;

/* Nothing but a flush brings a commit to disk: the server's own writer comes by every 10 s only. */
static const char *const settings[] = {"wal_writer_delay=10000ms", "checkpoint_timeout=1h", NULL};

static int set_up_cluster(void **state)
{
    pg_cluster_for_test(); /* skips where there is no PostgreSQL */
    cluster_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *state = c;
    const pg_cluster_options options = {.settings = settings};
    assert_ok_err(pg_cluster_start(&c->cluster, &options, &c->err), &c->err);
    char name[PG_CLUSTER_NAME_MAX];
    assert_ok_err(pg_cluster_fresh_database(&c->cluster, NULL, name, &c->err), &c->err);
    pg_cluster_url(&c->cluster, name, c->url);
    for (int i = 0; i <= PROCESSES; i++)
        assert_ok_err(tide_store_open(&c->stores[i], c->url, NULL, &c->err), &c->err);
    return 0;
}

static int tear_down_cluster(void **state)
{
    cluster_case *c = *state;
    for (int i = 0; i <= PROCESSES; i++)
        tide_store_close(c->stores[i]);
    pg_cluster_stop(&c->cluster);
    free(c);
    return 0;
}

/* Wait until so many more finishes are acknowledged. */
static bool wait_for_words(promises *p, size_t more)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    (void)pthread_mutex_lock(&p->lock);
    const size_t enough = p->done + more;
    int timed_out = 0;
    while (p->done < enough && !p->is_broken && timed_out == 0)
        timed_out = pthread_cond_timedwait(&p->grown, &p->lock, &until);
    const bool is_done = p->done >= enough;
    (void)pthread_mutex_unlock(&p->lock);
    return is_done;
}

/* The same workers outlive the server's crashes: they wait, say again what nobody answered, and go on. */
static void a_server_crash_loses_no_work_and_doubles_none(void **state)
{
    cluster_case *c = *state;
    static const load_role roles[PROCESSES] = {LOAD_ADD, LOAD_PLAIN, LOAD_RUNTIME, LOAD_ADD,
                                               LOAD_RUNTIME};
    ack_journal journal;
    ack_journal_init(&journal);
    promises p = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .grown = PTHREAD_COND_INITIALIZER, .journal = &journal};
    prng chance;
    prng_init(&chance, seed);
    assert_ok_err(load_prepare(c->stores[PROCESSES], &c->err), &c->err);
    static thread_load loads[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        start_load(&loads[i], &p, c->stores[i], roles[i], i, true);
    bool is_moving = true;
    for (int i = 0; i < scale(CRASHES) && is_moving; i++) {
        is_moving = wait_for_words(&p, WORDS_BETWEEN + (size_t)prng_below(&chance, WORDS_BETWEEN));
        assert_ok_err(pg_cluster_crash(&c->cluster, &c->err), &c->err);
        assert_ok_err(pg_cluster_restart(&c->cluster, &c->err), &c->err);
    }
    is_moving = is_moving && wait_for_words(&p, WORDS_BETWEEN);
    atomic_store(&p.stop, true);
    for (int i = 0; i < PROCESSES; i++)
        join_load(&loads[i]);
    assert_true(is_moving);
    work_to_the_end(c->stores[PROCESSES], &journal);
    check_all(c->stores[PROCESSES], &journal);
    ack_journal_done(&journal);
}

#define CLUSTER_CASE(f) cmocka_unit_test_setup_teardown(f, set_up_cluster, tear_down_cluster)

int main(void)
{
    seed = prng_seed_from_env(20250103);
    const struct CMUnitTest tests[] = {
        STORE_CASE(killed_workers_lose_nothing_and_finish_nothing_twice),
        STORE_CASE_SQLITE(saying_done_before_the_finish_is_found_out),
        STORE_CASE_SQLITE(an_effect_outside_of_the_finish_is_found_out),
        CLUSTER_CASE(a_server_crash_loses_no_work_and_doubles_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
