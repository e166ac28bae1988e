/* Images of a disk under a database: what power cuts and flipped bits leave of it. */
#include "support/disk/fault_vfs.h"

#include <inttypes.h>

#include <sqlite3.h>

#include "support/check.h"
#include "support/disk/fault_rig.h"
#include "support/prng.h"
#include "support/tempdir.h"

enum {
    POWER_CUTS = 200,
    CONTRAST_CUTS = 60, /* for settings that only show what the harness can see */
    TRANSACTIONS = 24,
    FLIPS = 200,
};

static uint64_t base_seed;

typedef struct power_case {
    const char *journal_mode;
    const char *synchronous;
} power_case;

/* Transactions with checkpoints and reopening between them, until the end or the cut. */
static void run_workload(fault_rig *r, const power_case *c)
{
    static const char *const pauses[] = {
        "PRAGMA wal_checkpoint(PASSIVE)",
        "PRAGMA wal_checkpoint(RESTART)",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    };

    if (fault_rig_open(r, c->journal_mode, c->synchronous) != SQLITE_OK ||
        fault_rig_create_schema(r) != SQLITE_OK)
        return;
    for (int tx = 1; tx <= TRANSACTIONS && !fault_vfs_is_cut(r->disk); tx++) {
        if (fault_rig_add(r, tx) != SQLITE_OK)
            return;
        if (prng_chance(&r->random, 1, 4))
            fault_rig_exec(r->db, pauses[prng_below(&r->random, 3)]);
        if (prng_chance(&r->random, 1, 10)) {
            sqlite3_close(r->db);
            r->db = NULL;
            if (fault_rig_open(r, c->journal_mode, c->synchronous) != SQLITE_OK)
                return;
        }
    }
}

static int64_t count_calls(const power_case *c, uint64_t seed)
{
    fault_rig r;
    fault_rig_begin(&r, seed);
    run_workload(&r, c);
    const int64_t calls = fault_vfs_calls(r.disk, FAULT_VFS_ANY);
    assert_int_equal(r.acknowledged, TRANSACTIONS);
    fault_rig_end(&r);
    return calls;
}

static fault_rig_tally cut_many_times(const char *journal_mode, const char *synchronous,
                                      uint64_t cuts)
{
    const power_case c = {.journal_mode = journal_mode, .synchronous = synchronous};
    const uint64_t calls = (uint64_t)count_calls(&c, base_seed);
    fault_rig_tally t = {0};

    for (uint64_t i = 0; i < cuts; i++) {
        fault_rig r;
        fault_rig_begin(&r, base_seed + i);
        const int64_t nth = 1 + (int64_t)prng_below(&r.random, calls);
        fault_vfs_power_cut_at(r.disk, FAULT_VFS_ANY, nth);
        run_workload(&r, &c);
        fault_vfs_power_cut(r.disk); /* a run that needed fewer calls is cut at its end */
        sqlite3_close(r.db);
        r.db = NULL;
        t.cuts++;
        fault_rig_draw_images(&r, &t);
        fault_rig_end(&r);
    }
    print_message(
        "%s %s: %d cuts in about %" PRIu64 " calls, %d images: %d damaged, %d lost a commit, "
        "%d of them more than the last\n",
        journal_mode, synchronous, t.cuts, calls, t.images, t.damaged, t.lost, t.lost_many);
    return t;
}

/* WAL with synchronous=FULL: what COMMIT acknowledged survives every cut, whole. */
static void wal_full_loses_nothing_in_a_power_cut(void **state)
{
    (void)state;
    const fault_rig_tally t = cut_many_times("WAL", "FULL", POWER_CUTS);
    assert_int_equal(t.cuts, POWER_CUTS);
    assert_int_equal(t.damaged, 0);
    assert_int_equal(t.lost, 0);
}

/* NORMAL does not sync at commit: the harness must see commits go, and never a torn database. */
static void wal_normal_is_seen_to_lose_commits_but_stays_sound(void **state)
{
    (void)state;
    const fault_rig_tally t = cut_many_times("WAL", "NORMAL", CONTRAST_CUTS);
    assert_int_equal(t.damaged, 0);
    assert_true(t.lost > 0);
}

/* OFF never syncs: commits go, and checkpoints tear the database. */
static void wal_off_is_seen_to_lose_commits_and_databases(void **state)
{
    (void)state;
    const fault_rig_tally t = cut_many_times("WAL", "OFF", CONTRAST_CUTS);
    assert_true(t.lost > 0);
    assert_true(t.damaged > 0);
}

/* A rollback journal with EXTRA syncs the directory after deleting the journal: nothing is lost. */
static void rollback_journal_extra_loses_nothing_in_a_power_cut(void **state)
{
    (void)state;
    const fault_rig_tally t = cut_many_times("DELETE", "EXTRA", POWER_CUTS);
    assert_int_equal(t.damaged, 0);
    assert_int_equal(t.lost, 0);
}

/* With FULL the deleted journal may come back and undo the last commit, no more; all stays
 * sound. */
static void rollback_journal_full_stays_sound_but_may_undo_the_last_commit(void **state)
{
    (void)state;
    const fault_rig_tally t = cut_many_times("DELETE", "FULL", CONTRAST_CUTS);
    assert_int_equal(t.damaged, 0);
    assert_true(t.lost > 0);
    assert_int_equal(t.lost_many, 0);
}

static bool is_flip_seen(const char *path)
{
    sqlite3 *db = NULL;
    const bool is_open = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK;
    const bool is_seen = !is_open || !fault_rig_is_intact(db) || !fault_rig_is_atomic(db) ||
                         !fault_rig_has_up_to(db, TRANSACTIONS);
    sqlite3_close(db);
    return is_seen;
}

/* SQLite has no checksums: flips in unused space pass, flips in indexed content are found. */
static void flipped_bits_are_mostly_found(void **state)
{
    (void)state;
    fault_rig r;
    int seen = 0;
    fault_rig_begin(&r, base_seed);
    run_workload(&r, &(power_case){"WAL", "FULL"});
    assert_int_equal(fault_rig_exec(r.db, "PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
    sqlite3_close(r.db);
    r.db = NULL;
    fault_vfs_power_cut(r.disk);

    for (int i = 0; i < FLIPS; i++) {
        tempdir image;
        tide_error err;
        char path[TEMPDIR_PATH_MAX];
        assert_ok_err(tempdir_make(&image, &err), &err);
        tempdir_join(&image, "test.db", path);
        fault_vfs_image(r.disk, FAULT_VFS_KEEP_ALL, NULL, image.path);
        if (i == 0)
            assert_false(is_flip_seen(path));
        fault_vfs_flip_bit(path, 0, INT64_MAX, &r.random);
        seen += is_flip_seen(path);
        assert_ok_err(tempdir_remove(&image, &err), &err);
    }
    print_message("%d of %d flipped bits were found\n", seen, FLIPS);
    assert_true(seen > FLIPS / 2);
    fault_rig_end(&r);
}

/* A machine that loses power before a process has opened the database boots with the same
 * database. */
static void a_database_that_was_not_opened_survives_the_cut(void **state)
{
    (void)state;
    fault_rig r;
    tempdir image;
    tide_error err;
    char path[TEMPDIR_PATH_MAX];
    fault_rig_begin(&r, base_seed);
    run_workload(&r, &(power_case){"WAL", "FULL"});
    sqlite3_close(r.db);
    r.db = NULL;
    fault_vfs_free(r.disk);
    r.disk = fault_vfs_new(r.dir.path, base_seed);
    fault_vfs_power_cut(r.disk);
    assert_ok_err(tempdir_make(&image, &err), &err);
    tempdir_join(&image, "test.db", path);
    fault_vfs_image(r.disk, FAULT_VFS_KEEP_NONE, NULL, image.path);
    assert_false(is_flip_seen(path));
    assert_ok_err(tempdir_remove(&image, &err), &err);
    fault_rig_end(&r);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_full_loses_nothing_in_a_power_cut),
        cmocka_unit_test(wal_normal_is_seen_to_lose_commits_but_stays_sound),
        cmocka_unit_test(wal_off_is_seen_to_lose_commits_and_databases),
        cmocka_unit_test(rollback_journal_extra_loses_nothing_in_a_power_cut),
        cmocka_unit_test(rollback_journal_full_stays_sound_but_may_undo_the_last_commit),
        cmocka_unit_test(flipped_bits_are_mostly_found),
        cmocka_unit_test(a_database_that_was_not_opened_survives_the_cut),
    };
    base_seed = prng_seed_from_env(20250101);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
