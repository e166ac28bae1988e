/* Sixteen takers, random rollbacks, kill -9: numbers stay unique, gapless and in commit order, what was
 * acknowledged stays, and a reader of `> n` misses nothing (FAULTS rules 1 and 4, C22, F6). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash/tailing.h"
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

static void check_all(store_test *t, tide_store *store, tailer *reader, const ack_journal *journal)
{
    tide_error err;
    char why[WHY_SIZE] = "";
    seen_rows table = {0};
    read_to_the_end(&table, store);
    read_table(&reader->seen, store);
    if (!check_promises(journal, &table, why) || !check_same(&reader->seen, &table, why))
        fail_msg("seed %llu: %s", (unsigned long long)seed, why);
    assert_int_equal(table.len, reader->seen.len);
    assert_ok_err(tide_store_check(store, ignore_finding, NULL, &err), &err);
    /* A killed process is no cut of history. */
    tide_identity before;
    tide_identity after;
    tide_store_identity(t->store, &before);
    tide_store_identity(store_test_open(t), &after);
    assert_int_equal(before.epoch, after.epoch);
    print_message("%zu acknowledged, %zu rows\n", journal->len, table.len);
    seen_rows_done(&table);
    tailer_done(reader);
}

/* ---- processes that are killed ---- */

typedef struct crowd {
    store_test *test;
    const char *manner; /* of acknowledging; NULL: rightly */
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
    const char *const argv[] = {program,  c->test->url, c->test->dir.path, words[0], words[1],
                                words[2], words[3],     c->manner,         NULL};
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
    tailer reader;
    tailer_start(&reader, store, false);
    ack_journal journal;
    ack_journal_init(&journal);
    tide_error err;
    const tide_status status =
        run_loop(&(crowd){.test = t}, (uint32_t)scale(CYCLES), &journal, &err);
    finish_reader(&reader);
    assert_ok_err(status, &err);
    check_all(t, store, &reader, &journal);
    ack_journal_done(&journal);
}

/* The checker can see: who acknowledges before the commit is found out by the first kills. */
static void acknowledging_before_the_commit_is_found_out(void **state)
{
    store_test *t = *state;
    tide_store *store = store_test_open_real(t);
    ack_journal journal;
    ack_journal_init(&journal);
    tide_error err;
    assert_ok_err(run_loop(&(crowd){.test = t, .manner = "hasty"}, 1, &journal, &err), &err);
    seen_rows table = {0};
    read_table(&table, store);
    char why[WHY_SIZE] = "";
    assert_false(check_promises(&journal, &table, why));
    assert_contains(why, "acknowledged, and not there");
    seen_rows_done(&table);
    ack_journal_done(&journal);
}

/* ---- threads of one process ---- */

typedef struct promises {
    pthread_mutex_t lock;
    ack_journal journal;
    atomic_bool stop;
    size_t enough;
} promises;

static void note_row(const taker *from, const taken *row)
{
    promises *p = from->arg;
    char line[TAKEN_LINE_MAX];
    const size_t len = taken_format(line, row);
    line[len - 1] = '\0';
    (void)pthread_mutex_lock(&p->lock);
    ack_journal_add(&p->journal, 0, 0, line + strlen("ack "));
    if (p->journal.len >= p->enough)
        atomic_store(&p->stop, true);
    (void)pthread_mutex_unlock(&p->lock);
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
        atomic_store(&((promises *)t->taker.arg)->stop, true);
    return NULL;
}

/* 16 threads share one store: their closures share commits, and each fails alone. */
static void sixteen_threads_of_one_store_number_without_gaps(void **state)
{
    store_test *t = *state;
    tide_store *store = store_test_open_real(t);
    tailer reader;
    tailer_start(&reader, store_test_open_real(t), false);
    promises p = {.lock = PTHREAD_MUTEX_INITIALIZER, .enough = (size_t)scale(ROWS_IN_PROCESS)};
    thread_taker takers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (thread_taker){.taker = {.store = store,
                                             .thread = i,
                                             .seed = seed,
                                             .stop = &p.stop,
                                             .report = note_row,
                                             .arg = &p}};
        assert_int_equal(0, pthread_create(&takers[i].thread, NULL, run_taker, &takers[i]));
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(takers[i].thread, NULL);
    finish_reader(&reader);
    for (int i = 0; i < THREADS; i++)
        assert_ok_err(takers[i].status, &takers[i].err);
    check_all(t, store, &reader, &p.journal);
    ack_journal_done(&p.journal);
}

int main(void)
{
    seed = prng_seed_from_env(20250101);
    const struct CMUnitTest tests[] = {
        STORE_CASE(killed_takers_leave_no_gap_and_lose_nothing),
        STORE_CASE(acknowledging_before_the_commit_is_found_out),
        STORE_CASE(sixteen_threads_of_one_store_number_without_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
