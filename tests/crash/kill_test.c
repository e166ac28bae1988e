/* Sixteen takers, random rollbacks, kill -9: numbers stay unique, gapless and in commit order, what was
 * acknowledged stays, and a reader of `> n` misses nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash/tailing.h"
#include "support/history.h"
#include "support/prng.h"
#include "support/store_fixture.h"

enum {
    PROCESSES = 4,
    THREADS_EACH = 4,
    THREADS = PROCESSES * THREADS_EACH,
    CYCLES = 5,
    SOAK_FACTOR = 30,
    ROWS_IN_PROCESS = 6000,
    SILENCE_MS = 30000,
};

static uint64_t seed;

static int scale(int count)
{
    return is_soak() ? count * SOAK_FACTOR : count;
}

/* ---- what must be true at the end ---- */

static void read_table(seen_rows *table, tide_store *store)
{
    tide_error err;
    tide_status status = TIDE_OK;
    while ((status = seen_rows_read(table, store, &err)) == TIDE_OK)
        continue;
    assert_status_err(TIDE_NONE, status, &err);
}

/* The whole table, and a sequence that stands at its end. A server may still be busy with the last commit of a
 * client that was killed: it is given time to finish. */
static void read_to_the_end(seen_rows *table, tide_store *store)
{
    const int64_t until_ms = proc_now_ms() + SILENCE_MS;
    tide_sequence sequence = {.last = -1};
    while (sequence.last != (int64_t)table->len && proc_now_ms() < until_ms) {
        tide_error err;
        assert_ok_err(tide_sequence_show(store, "numbered", &sequence, &err), &err);
        read_table(table, store);
    }
    assert_int_equal((int64_t)table->len, sequence.last);
}

static void ignore_finding(void *arg, const char *finding)
{
    (void)arg;
    print_error("finding: %s\n", finding);
}

/* Before anything is asserted: the reader's thread uses what a failed case takes away. */
static void finish_reader(tailer *reader)
{
    tide_error err;
    assert_ok_err(tailer_finish(reader, &err), &err);
}

static const char *history_path(const store_test *t)
{
    static char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "history.jsonl", path);
    return path;
}

/* What takers were told and the reader was shown, judged by a program that shares nothing with ours. */
static tide_status judge(const store_test *t, const seen_rows *table, int history, tide_error *err)
{
    char verdict[HISTORY_VERDICT_MAX];
    seen_rows_write(table, history);
    TIDE_TRY(history_judge("sequences.py", (const char *const[]){"--killed", history_path(t), NULL},
                           verdict, err));
    print_message("%s\n", verdict);
    return TIDE_OK;
}

static void check_all(store_test *t, tide_store *store, tailer *reader, int history)
{
    tide_error err;
    seen_rows table = {0};
    read_to_the_end(&table, store);
    const tide_status status = judge(t, &table, history, &err);
    if (status != TIDE_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    assert_ok_err(tide_store_verify(store, ignore_finding, NULL, &err), &err);
    /* A killed process is no cut of history. */
    tide_identity before;
    tide_identity after;
    tide_store_identity(t->store, &before);
    tide_store_identity(store_test_open(t), &after);
    assert_int_equal(before.epoch, after.epoch);
    seen_rows_done(&table);
    tailer_done(reader);
}

/* ---- processes that are killed ---- */

typedef struct crowd {
    store_test *test;
    const char *planted; /* a fault of the children; NULL: none */
} crowd;

static tide_status start_taker(proc *child, uint32_t cycle, uint32_t index, void *arg,
                               tide_error *err)
{
    const crowd *c = arg;
    char program[PATH_MAX];
    TIDE_TRY(proc_find("number-taker", program, err));
    char words[4][24];
    (void)snprintf(words[0], sizeof words[0], "%u", cycle);
    (void)snprintf(words[1], sizeof words[1], "%u", index);
    (void)snprintf(words[2], sizeof words[2], "%d", THREADS_EACH);
    (void)snprintf(words[3], sizeof words[3], "%llu", (unsigned long long)seed);
    const char *const argv[] = {program,    c->test->url, c->test->dir.path, history_path(c->test),
                                words[0],   words[1],     words[2],          words[3],
                                c->planted, NULL};
    return proc_start(child, &(proc_options){.argv = argv, .out = PROC_PIPE}, err);
}

static tide_status run_loop(crowd *c, uint32_t cycles, ack_journal *journal, tide_error *err)
{
    const kill_loop loop = {
        .seed = seed,
        .cycles = cycles,
        .children = PROCESSES,
        .acks_min = 50,
        .acks_max = 700,
        .all_at_once_percent = 30,
        .jitter_us = 3000,
        .silence_ms = SILENCE_MS,
        .arg = c,
        .start = start_taker,
    };
    kill_loop_result result;
    TIDE_TRY(kill_loop_run(&loop, journal, &result, err));
    if (result.kills != cycles * PROCESSES)
        return tide_fail(err, TIDE_E_FAILED, "%u kills, %u ended by themselves", result.kills,
                         result.finished);
    return TIDE_OK;
}

/* 4 processes of 4 threads each take numbers at once and are killed, one by one or all together, and started
 * again; a tailer reads beside them all the time. */
static void killed_takers_leave_no_gap_and_lose_nothing(void **state)
{
    store_test *t = *state;
    tide_store *store = store_test_open_real(t);
    const int history = history_open(history_path(t));
    tailer reader;
    tailer_start(&reader, store, false, history);
    ack_journal journal;
    ack_journal_init(&journal);
    tide_error err;
    const tide_status status =
        run_loop(&(crowd){.test = t}, (uint32_t)scale(CYCLES), &journal, &err);
    finish_reader(&reader);
    assert_ok_err(status, &err);
    check_all(t, store, &reader, history);
    ack_journal_done(&journal);
    (void)close(history);
}

/* The checker can see: an acknowledgement before the commit is found by the first kills. One round of them may miss the
 * moment between the two. */
static void acknowledging_before_the_commit_is_found_out(void **state)
{
    store_test *t = *state;
    tide_store *store = store_test_open_real(t);
    ack_journal journal;
    ack_journal_init(&journal);
    tide_error err;
    assert_ok_err(run_loop(&(crowd){.test = t, .planted = "hasty"}, CYCLES, &journal, &err), &err);
    seen_rows table = {0};
    read_table(&table, store);
    const int history = history_open(history_path(t));
    assert_status(TIDE_E_DAMAGED, judge(t, &table, history, &err));
    assert_contains(err.text, "was acknowledged");
    assert_contains(err.text, "was not found");
    (void)close(history);
    seen_rows_done(&table);
    ack_journal_done(&journal);
}

/* ---- threads of one process ---- */

typedef struct progress {
    atomic_size_t rows;
    atomic_bool stop;
    size_t enough;
} progress;

static void count_row(const taker *from, const taken *row)
{
    (void)row;
    progress *p = from->arg;
    if (atomic_fetch_add(&p->rows, 1) + 1 >= p->enough)
        atomic_store(&p->stop, true);
}

typedef struct thread_taker {
    taker taker;
    pthread_t thread;
    tide_status status;
    tide_error err;
} thread_taker;

static void *run_taker(void *arg)
{
    thread_taker *t = arg;
    t->status = taker_run(&t->taker, &t->err);
    if (t->status < TIDE_OK)
        atomic_store(&((progress *)t->taker.arg)->stop, true);
    return NULL;
}

/* 16 threads share one store: their closures share commits, and each fails alone. */
static void sixteen_threads_of_one_store_number_without_gaps(void **state)
{
    store_test *t = *state;
    tide_store *store = store_test_open_real(t);
    const int history = history_open(history_path(t));
    tailer reader;
    tailer_start(&reader, store_test_open_real(t), false, history);
    progress p = {.enough = (size_t)scale(ROWS_IN_PROCESS)};
    thread_taker takers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (thread_taker){.taker = {.store = store,
                                             .thread = i,
                                             .seed = seed,
                                             .history = history,
                                             .stop = &p.stop,
                                             .report = count_row,
                                             .arg = &p}};
        assert_int_equal(0, pthread_create(&takers[i].thread, NULL, run_taker, &takers[i]));
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(takers[i].thread, NULL);
    finish_reader(&reader);
    for (int i = 0; i < THREADS; i++)
        assert_ok_err(takers[i].status, &takers[i].err);
    check_all(t, store, &reader, history);
    (void)close(history);
}

TEST_FILE()
{
    seed = prng_seed_from_env(20250101);
    const struct CMUnitTest tests[] = {
        STORE_CASE(killed_takers_leave_no_gap_and_lose_nothing),
        STORE_CASE(acknowledging_before_the_commit_is_found_out),
        STORE_CASE(sixteen_threads_of_one_store_number_without_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
