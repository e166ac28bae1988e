/* Workers and those who add work are killed with kill -9, and PostgreSQL itself is: no acknowledged item is lost, no
 * finished item is lost or finished twice, attempts stay within bounds, the journal stays sound. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crash/work/work_check.h"
#include "support/clock/fair_clock.h"
#include "support/history.h"
#include "support/prng.h"
#include "support/process/journal.h"
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
    WAIT_MS = 60000,
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
    size_t done;
    bool is_broken;
    atomic_bool stop;
} promises;

static void note_word(const load *from, const char *word, const char *id, int64_t token)
{
    promises *p = from->arg;
    (void)id;
    (void)token;
    (void)pthread_mutex_lock(&p->lock);
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
                       bool is_server_mortal, int history)
{
    *t = (thread_load){.load = {.role = role,
                                .store = store,
                                .cycle = 1000, /* ids of its own */
                                .child = child,
                                .seed = seed,
                                .is_server_mortal = is_server_mortal,
                                .history = history,
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
static void work_to_the_end(tide_store *store, int history)
{
    promises p = {.lock = PTHREAD_MUTEX_INITIALIZER, .grown = PTHREAD_COND_INITIALIZER};
    thread_load worker;
    start_load(&worker, &p, store, LOAD_RUNTIME, 99, false, history);
    const int64_t until_ms = fair_clock_ms() + END_MS;
    int64_t live = 1;
    tide_error err;
    tide_status status = TIDE_OK;
    while (status == TIDE_OK && live > 0 && fair_clock_ms() < until_ms) {
        tide_env *env = tide_store_env(store);
        status = work_count_live(store, &live, &err);
        env->sleep_us(env, 10000);
    }
    join_load(&worker);
    assert_ok_err(status, &err);
    if (live > 0)
        print_error("%lld items have not ended\n", (long long)live);
}

static void tell_finding(void *arg, const char *finding)
{
    (void)arg;
    print_error("finding: %s\n", finding);
}

/* What adders and workers were answered and what is there, judged by a program that shares nothing with ours. */
static tide_status judge(tide_store *store, const char *path, int history, tide_error *err)
{
    char verdict[HISTORY_VERDICT_MAX];
    TIDE_TRY(work_check_write(store, history, err));
    TIDE_TRY(
        history_judge("leases.py", (const char *const[]){"--killed", path, NULL}, verdict, err));
    print_message("%s\n", verdict);
    return TIDE_OK;
}

static void check_all(tide_store *store, const char *path, int history)
{
    tide_error err;
    tide_journal_report report;
    if (judge(store, path, history, &err) != TIDE_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    assert_ok_err(tide_journal_verify(store, NULL, tell_finding, NULL, &report, &err), &err);
    assert_ok_err(tide_store_verify(store, tell_finding, NULL, &err), &err);
}

/* ---- processes that are killed ---- */

static const char *history_path(const store_test *t)
{
    static char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "history.jsonl", path);
    return path;
}

typedef struct crowd {
    store_test *test;
    tide_store *store;
    const char *planted; /* a fault of the children; NULL: none */
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
    const char *const argv[] = {program,    c->test->url, c->test->dir.path, history_path(c->test),
                                words[0],   words[1],     words[2],          roles[index],
                                c->planted, NULL};
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
    const int history = history_open(history_path(t));
    work_to_the_end(store, history);
    check_all(store, history_path(t), history);
    (void)close(history);
    ack_journal_done(&journal);
}

static void expect_found_out(store_test *t, const char *planted, const char *words)
{
    tide_store *store = store_test_open_real(t);
    tide_error err;
    ack_journal journal;
    ack_journal_init(&journal);
    assert_ok_err(load_prepare(store, &err), &err);
    crowd wrong = {.test = t, .store = store, .planted = planted};
    assert_ok_err(run_loop(&wrong, WRONG_CYCLES, &journal, &err), &err);
    const int history = history_open(history_path(t));
    work_to_the_end(store, history);
    assert_status(TIDE_E_DAMAGED, judge(store, history_path(t), history, &err));
    assert_contains(err.text, words);
    (void)close(history);
    ack_journal_done(&journal);
}

/* The checks can see: who says done before the commit is found out. */
static void saying_done_before_the_finish_is_found_out(void **state)
{
    expect_found_out(*state, "hasty", "finished");
}

/* The checks can see: an effect outside of the commit that finishes comes twice. */
static void an_effect_outside_of_the_finish_is_found_out(void **state)
{
    expect_found_out(*state, "split", "effect: ");
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
    const int64_t until_ms = fair_clock_ms() + WAIT_MS;
    (void)pthread_mutex_lock(&p->lock);
    const size_t enough = p->done + more;
    bool has_time = true;
    while (p->done < enough && !p->is_broken && has_time)
        has_time = fair_wait_cond(&p->grown, &p->lock, until_ms);
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
    promises p = {.lock = PTHREAD_MUTEX_INITIALIZER, .grown = PTHREAD_COND_INITIALIZER};
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    assert_ok_err(tempdir_make(&dir, &c->err), &c->err);
    tempdir_join(&dir, "history.jsonl", path);
    const int history = history_open(path);
    prng chance;
    prng_init(&chance, seed);
    assert_ok_err(load_prepare(c->stores[PROCESSES], &c->err), &c->err);
    static thread_load loads[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        start_load(&loads[i], &p, c->stores[i], roles[i], i, true, history);
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
    work_to_the_end(c->stores[PROCESSES], history);
    check_all(c->stores[PROCESSES], path, history);
    (void)close(history);
    TIDE_IGNORE(tempdir_remove(&dir, &c->err));
}

#define CLUSTER_CASE(f) cmocka_unit_test_setup_teardown(f, set_up_cluster, tear_down_cluster)

TEST_FILE()
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
