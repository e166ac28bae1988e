/* Processes that append to a feed are killed, and the power is cut: every acknowledged record is there under its number, no
 * number is given twice, and the chain verifies. */
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "crash/feed_load.h"
#include "support/disk/fault_vfs.h"
#include "support/history.h"
#include "support/prng.h"
#include "support/process/journal.h"
#include "support/store_fixture.h"

enum {
    CYCLES = 34, /* of three processes: 102 kills */
    CHILDREN = 3,
    CUTS = 200,
    SOAK_FACTOR = 10,
    COMMITS_MAX = 200, /* before the power is cut by hand */
    CALLS = 1500,
};

static uint64_t seed;

static uint32_t scale(uint32_t count)
{
    return is_soak() ? count * SOAK_FACTOR : count;
}

/* What writers were told and what is there, judged by a program that shares nothing with ours. */
static void judge(const char *path)
{
    tide_error err;
    char verdict[HISTORY_VERDICT_MAX];
    if (history_judge("sequences.py", (const char *const[]){"--killed", path, NULL}, verdict,
                      &err) != TIDE_OK)
        fail_msg("seed %" PRIu64 ": %s", seed, err.text);
    print_message("%s\n", verdict);
}

/* ---- kill -9 ---- */

static const char *history_path(const store_test *t)
{
    static char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "history.jsonl", path);
    return path;
}

static tide_status start_writer(proc *child, uint32_t cycle, uint32_t index, void *arg,
                                tide_error *err)
{
    const store_test *t = arg;
    char program[PATH_MAX];
    char words[2][24];
    TIDE_TRY(proc_find("feed-writer", program, err));
    (void)snprintf(words[0], sizeof words[0], "%u", cycle);
    (void)snprintf(words[1], sizeof words[1], "%u", index);
    const char *const argv[] = {program,  t->url,   t->dir.path, history_path(t),
                                words[0], words[1], NULL};
    return proc_start(child, &(proc_options){.argv = argv, .out = PROC_PIPE}, err);
}

static void killed_writers_lose_nothing_that_was_acknowledged(void **state)
{
    store_test *t = *state;
    ack_journal journal;
    ack_journal_init(&journal);
    const kill_loop loop = {
        .seed = seed,
        .cycles = scale(CYCLES),
        .children = CHILDREN,
        .acks_min = 5,
        .acks_max = 60,
        .all_at_once_percent = 30,
        .jitter_us = 3000,
        .arg = t,
        .start = start_writer,
    };
    kill_loop_result result;
    assert_ok_err(kill_loop_run(&loop, &journal, &result, &t->err), &t->err);
    assert_int_equal(scale(CYCLES) * CHILDREN, result.kills);
    tide_feed *feed = NULL;
    assert_ok_err(tide_feed_open(&feed, store_test_open_real(t), NULL, &t->err), &t->err);
    const feed_load_history history = {.fd = history_open(history_path(t)), .sequence = "logs"};
    assert_ok_err(feed_load_write(feed, &history, &t->err), &t->err);
    (void)close(history.fd);
    judge(history_path(t));
    print_message("%u kills, %zu commits acknowledged\n", result.kills, journal.len);
    tide_feed_close(feed);
    ack_journal_done(&journal);
}

/* ---- power cuts ---- */

typedef struct cut_case {
    prng chance;
    tempdir dir;
    tempdir image;
    virtual_env clock;
    fault_vfs *disk;
    feed_load_history history;
    size_t acknowledged;
    tide_error err;
} cut_case;

static void write_until_cut(cut_case *c, int64_t child)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c->dir, "store.db", path);
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = &c->clock.env,
                                        .state_dir = "", .is_inline = true,
                                        .sqlite_vfs = fault_vfs_name(c->disk)};
    tide_store *store = NULL;
    tide_feed *feed = NULL;
    assert_ok_err(tide_store_open(&store, path, &options, &c->err), &c->err);
    assert_ok_err(tide_feed_open(&feed, store, NULL, &c->err), &c->err);
    fault_vfs_power_cut_at(c->disk, FAULT_VFS_ANY, 1 + (int64_t)prng_below(&c->chance, CALLS));
    tide_status status = TIDE_OK;
    for (int64_t n = 1; n <= COMMITS_MAX && status == TIDE_OK; n++) {
        int64_t first = 0;
        int64_t next_us = 0;
        status = feed_load_commit(feed, &c->history, 0, child, n, &first, &c->err);
        c->acknowledged += status == TIDE_OK;
        if (n % 20 == 0)
            TIDE_IGNORE(tide_feed_step(feed, &next_us, &c->err));
    }
    if (!fault_vfs_is_cut(c->disk))
        fault_vfs_power_cut(c->disk);
    tide_feed_close(feed);
    tide_store_close(store);
}

static void boot_and_check(cut_case *c, uint64_t case_seed)
{
    static const fault_vfs_survival survivals[] = {FAULT_VFS_KEEP_RANDOM, FAULT_VFS_KEEP_RANDOM,
                                                   FAULT_VFS_KEEP_PREFIX, FAULT_VFS_KEEP_ALL,
                                                   FAULT_VFS_KEEP_NONE};
    fault_vfs_image(c->disk, survivals[prng_below(&c->chance, 5)], &c->chance, c->image.path);
    virtual_env_reboot(&c->clock);
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c->image, "store.db", path);
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = &c->clock.env,
                                        .state_dir = "", .mode = TIDE_STORE_EXISTING};
    tide_store *store = NULL;
    tide_feed *feed = NULL;
    assert_ok_err(tide_store_open(&store, path, &options, &c->err), &c->err);
    assert_ok_err(tide_feed_open(&feed, store, NULL, &c->err), &c->err);
    if (feed_load_write(feed, &c->history, &c->err) != TIDE_OK)
        fail_msg("seed %" PRIu64 ": %s", case_seed, c->err.text);
    /* And on it goes: behind everything that is there. */
    tide_feed_stream before;
    int64_t first = 0;
    const feed_load_history nowhere = {.fd = open("/dev/null", O_WRONLY | O_CLOEXEC),
                                       .sequence = "after"};
    assert_ok_err(tide_feed_show(feed, "logs", &before, &c->err), &c->err);
    assert_ok_err(feed_load_commit(feed, &nowhere, 1, 0, 1, &first, &c->err), &c->err);
    (void)close(nowhere.fd);
    assert_int_equal(before.head_seq + 1, first);
    tide_feed_close(feed);
    tide_store_close(store);
}

static void cut_once(uint64_t case_seed, int history, size_t *acknowledged)
{
    char sequence[48];
    (void)snprintf(sequence, sizeof sequence, "cut with seed %" PRIu64, case_seed);
    cut_case c = {.history = {.fd = history, .sequence = sequence}};
    prng_init(&c.chance, case_seed);
    (void)sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)case_seed, NULL);
    virtual_env_init(&c.clock, case_seed);
    assert_ok_err(tempdir_make(&c.dir, &c.err), &c.err);
    assert_ok_err(tempdir_make(&c.image, &c.err), &c.err);
    c.disk = fault_vfs_new(c.dir.path, case_seed);
    write_until_cut(&c, 0);
    boot_and_check(&c, case_seed);
    *acknowledged += c.acknowledged;
    fault_vfs_free(c.disk);
    TIDE_IGNORE(tempdir_remove(&c.dir, NULL));
    TIDE_IGNORE(tempdir_remove(&c.image, NULL));
    virtual_env_done(&c.clock);
}

static void power_cuts_lose_nothing_that_was_acknowledged(void **state)
{
    (void)state;
    size_t acknowledged = 0;
    tempdir dir;
    tide_error err;
    char path[TEMPDIR_PATH_MAX];
    assert_ok_err(tempdir_make(&dir, &err), &err);
    tempdir_join(&dir, "history.jsonl", path);
    const int history = history_open(path);
    for (uint32_t i = 0; i < scale(CUTS); i++)
        cut_once(seed + i, history, &acknowledged);
    (void)close(history);
    judge(path);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    print_message("%u cuts, %zu commits acknowledged\n", scale(CUTS), acknowledged);
    assert_true(acknowledged > CUTS);
}

TEST_FILE()
{
    seed = prng_seed_from_env(20250401);
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(killed_writers_lose_nothing_that_was_acknowledged),
        cmocka_unit_test(power_cuts_lose_nothing_that_was_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
