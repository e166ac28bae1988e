/* Processes that commit are killed with -9: what was acknowledged is there exactly once, nothing is there in part, and the history is sound. */
#include "lake_fixture.h"
#include "lake_judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/prng.h"
#include "support/process/journal.h"

enum { PROCESSES = 4, CYCLES = 3, SOAK_FACTOR = 20, SILENCE_MS = 60000 };

static tide_status start_writer(proc *child, uint32_t cycle, uint32_t index, void *arg,
                                tide_error *err)
{
    const store_test *t = arg;
    char program[PATH_MAX];
    char words[2][16];
    TIDE_TRY(proc_find("lake-writer", program, err));
    (void)snprintf(words[0], sizeof words[0], "%u", cycle);
    (void)snprintf(words[1], sizeof words[1], "%u", index);
    char history[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "history.jsonl", history);
    const char *const argv[] = {program, t->url, t->dir.path, history, words[0], words[1], NULL};
    return proc_start(child, &(proc_options){.argv = argv, .out = PROC_PIPE}, err);
}

typedef struct acknowledged {
    int64_t snapshot;
    char name[64];
} acknowledged;

/* The state after an acknowledged snapshot has its file, and the one before it has not. */
static void check_ack(const char *portrait, const acknowledged *a)
{
    char wanted[96];
    (void)snprintf(wanted, sizeof wanted, "/%s.parquet ", a->name);
    const char *first = strstr(portrait, wanted);
    if (!first)
        fail_msg("%s was acknowledged and is not there", a->name);
    assert_null(strstr(first + 1, wanted));
}

static void killed_writers_leave_whole_commits_and_lose_none(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    ack_journal journal;
    ack_journal_init(&journal);
    kill_loop_result result;
    const kill_loop loop = {.seed = prng_seed_from_env(20260101),
                            .cycles = is_soak() ? CYCLES * SOAK_FACTOR : CYCLES,
                            .children = PROCESSES,
                            .acks_min = 3,
                            .acks_max = 30,
                            .all_at_once_percent = 30,
                            .jitter_us = 3000,
                            .silence_ms = SILENCE_MS,
                            .arg = l.t,
                            .start = start_writer};
    assert_ok_err(kill_loop_run(&loop, &journal, &result, &l.err), &l.err);
    /* A writer's last commit may still be on its way at the server: one more comes behind it. */
    lake_insert(&l, "work", "main", "t", 1);
    bool is_seen = false;
    lake_observe(&l.t->dir, l.t->url, &is_seen);
    assert_true(is_seen);
    lake_insert(&l, "work", "main", "t", 1);
    TIDE_CLEANUP(tide_freep) char *portrait = lake_state(&l, "work", "");
    for (size_t i = 0; i < journal.len; i++) {
        acknowledged a = {0};
        char *end = NULL;
        a.snapshot = strtoll(journal.acks[i].text, &end, 10);
        assert_int_equal(sscanf(end, " %63s", a.name), 1);
        check_ack(portrait, &a);
    }
    lake_judge(&l.t->dir, l.t->url, NULL);
    print_message("%zu acknowledged, %" PRId64 " rows\n", journal.len,
                  lake_rows(&l, "work", "", "main", "t"));
    assert_true(lake_rows(&l, "work", "", "main", "t") >= (int64_t)journal.len);
    ack_journal_done(&journal);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(killed_writers_leave_whole_commits_and_lose_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
