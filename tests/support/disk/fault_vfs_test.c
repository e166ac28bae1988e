/* Failing calls under a database: each is reported, and none does harm. */
#include "support/disk/fault_vfs.h"

#include <pthread.h>

#include <sqlite3.h>

#include "support/check.h"
#include "support/disk/fault_rig.h"
#include "support/prng.h"
#include "support/tempdir.h"

enum { SWEEP_MAX = 2000 };

static uint64_t base_seed;

/* A few transactions and a checkpoint; how many statements failed. */
static int run_short_workload(fault_rig *r)
{
    int failed = 0;
    const int first = r->acknowledged + 1;
    for (int tx = first; tx < first + 4; tx++)
        if (fault_rig_add(r, r->acknowledged + 1) != SQLITE_OK)
            failed++;
    if (fault_rig_exec(r->db, "PRAGMA wal_checkpoint(TRUNCATE)") != SQLITE_OK)
        failed++;
    return failed;
}

/* The connection continues, nothing acknowledged is missing, and a power cut now takes nothing
 * either. */
static void assert_sound_after_faults(fault_rig *r)
{
    fault_rig_tally t = {0};
    fault_vfs_fail_off(r->disk);
    assert_true(fault_rig_has_up_to(r->db, r->acknowledged));
    /* A commit that failed may still be in the file: numbers go on after the highest one there. */
    r->acknowledged = (int)fault_rig_ask(r->db, "SELECT coalesce(max(tx), 0) FROM part");
    assert_int_equal(run_short_workload(r), 0);
    assert_true(fault_rig_is_intact(r->db));
    assert_true(fault_rig_is_atomic(r->db));
    assert_true(fault_rig_has_up_to(r->db, r->acknowledged));
    fault_vfs_power_cut(r->disk);
    sqlite3_close(r->db);
    r->db = NULL;
    fault_rig_draw_images(r, &t);
    assert_int_equal(t.damaged, 0);
    assert_int_equal(t.lost, 0);
}

/* Fail call n = 1, 2, 3... of a class until a run needs no more; returns how many runs were hit. */
static int sweep_failures(fault_vfs_fault fault)
{
    for (int n = 1; n < SWEEP_MAX; n++) {
        fault_rig r;
        fault_rig_begin(&r, base_seed + (uint64_t)n);
        assert_int_equal(fault_rig_open(&r, "WAL", "FULL"), SQLITE_OK);
        assert_int_equal(fault_rig_create_schema(&r), SQLITE_OK);
        assert_int_equal(run_short_workload(&r), 0);

        fault.nth = n;
        fault_vfs_fail(r.disk, fault);
        const int failed = run_short_workload(&r);
        const int64_t hits = fault_vfs_hits(r.disk);
        if (hits > 0)
            assert_true(failed > 0);
        else
            assert_int_equal(failed, 0);
        assert_sound_after_faults(&r);
        fault_rig_end(&r);
        if (hits == 0)
            return n - 1;
    }
    fail_msg("the sweep does not end");
    return -1;
}

/* Whatever call fails, once: a statement reports it, and the database is sound. */
static void a_single_failure_is_reported_and_does_no_harm(void **state)
{
    (void)state;
    static const fault_vfs_call calls[] = {
        FAULT_VFS_ANY,  FAULT_VFS_READ,     FAULT_VFS_WRITE,
        FAULT_VFS_SYNC, FAULT_VFS_TRUNCATE, FAULT_VFS_SHM,
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        assert_true(sweep_failures((fault_vfs_fault){.on = calls[i]}) > 0);
}

/* The disk stays broken from the nth call on, until it is mended. */
static void a_lasting_failure_is_reported_and_does_no_harm(void **state)
{
    (void)state;
    const fault_vfs_fault fault = {.on = FAULT_VFS_ANY, .code = SQLITE_IOERR, .is_sticky = true};
    const int hit_runs = sweep_failures(fault);
    print_message("%d calls failed, one run each\n", hit_runs);
    assert_true(hit_runs > 20);
}

/* From open to close: SQLite may pass over a failure (a journal that cannot be deleted yet), but
 * what was acknowledged is there when the disk works again. */
static void a_failure_between_open_and_close_does_no_harm(void **state)
{
    (void)state;
    int64_t hits = 1;
    int n = 0;
    while (hits > 0) {
        fault_rig r;
        fault_rig_begin(&r, base_seed);
        fault_vfs_fail(r.disk, (fault_vfs_fault){.on = FAULT_VFS_ANY, .nth = ++n});
        if (fault_rig_open(&r, n % 2 ? "WAL" : "DELETE", "EXTRA") == SQLITE_OK &&
            fault_rig_create_schema(&r) == SQLITE_OK)
            run_short_workload(&r);
        sqlite3_close(r.db);
        hits = fault_vfs_hits(r.disk);
        fault_vfs_fail_off(r.disk);
        assert_int_equal(fault_rig_open(&r, "WAL", "FULL"), SQLITE_OK);
        if (!r.has_schema && fault_rig_ask(r.db, "SELECT count(*) FROM sqlite_schema") == 0)
            assert_int_equal(fault_rig_create_schema(&r), SQLITE_OK);
        assert_sound_after_faults(&r);
        fault_rig_end(&r);
        assert_true(n < SWEEP_MAX);
    }
    print_message("%d calls failed, one run each\n", n - 1);
    assert_true(n > 50);
}

/* Part of the bytes arrive, then the error: half a frame must never count. */
static void short_writes_are_reported_and_do_no_harm(void **state)
{
    (void)state;
    const fault_vfs_fault fault = {.on = FAULT_VFS_WRITE, .code = SQLITE_FULL, .is_short = true};
    assert_true(sweep_failures(fault) > 5);
}

/* A full disk refuses commits; with space again the same connection continues. */
static void a_full_disk_refuses_and_recovers(void **state)
{
    (void)state;
    for (int64_t room = 0; room < 16384; room += 1111) {
        fault_rig r;
        int rc = SQLITE_OK;
        fault_rig_begin(&r, base_seed + (uint64_t)room);
        assert_int_equal(fault_rig_open(&r, "WAL", "FULL"), SQLITE_OK);
        assert_int_equal(fault_rig_create_schema(&r), SQLITE_OK);
        fault_vfs_set_quota(r.disk, fault_vfs_used_len(r.disk) + room);
        for (int tx = 1; tx < 100 && rc == SQLITE_OK; tx++)
            rc = fault_rig_add(&r, tx);
        assert_int_equal(rc, SQLITE_FULL);
        assert_true(fault_rig_has_up_to(r.db, r.acknowledged));
        fault_vfs_set_quota(r.disk, FAULT_VFS_NO_QUOTA);
        assert_sound_after_faults(&r);
        fault_rig_end(&r);
    }
}

typedef struct writer {
    pthread_t thread;
    fault_vfs *disk;
    char path[TEMPDIR_PATH_MAX];
    int failures;
} writer;

static void *write_rows(void *arg)
{
    writer *w = arg;
    sqlite3 *db = NULL;
    w->failures += sqlite3_open_v2(w->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                   fault_vfs_name(w->disk)) != SQLITE_OK;
    w->failures += fault_rig_exec(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(x)") != SQLITE_OK;
    for (int i = 0; i < 50; i++)
        w->failures += fault_rig_exec(db, "INSERT INTO t VALUES (1)") != SQLITE_OK;
    w->failures += fault_rig_ask(db, "SELECT count(*) FROM t") != 50;
    sqlite3_close(db);
    return NULL;
}

/* Two disks with two threads each; the power of one is cut, and the other does not notice. */
static void disks_are_independent_and_shared_by_threads(void **state)
{
    (void)state;
    fault_rig rigs[2];
    writer writers[4] = {0};
    for (uint64_t i = 0; i < 2; i++)
        fault_rig_begin(&rigs[i], base_seed + i);
    fault_vfs_power_cut_at(rigs[1].disk, FAULT_VFS_SYNC, 20);
    for (int i = 0; i < 4; i++) {
        writers[i].disk = rigs[i / 2].disk;
        tempdir_join(&rigs[i / 2].dir, i % 2 ? "b.db" : "a.db", writers[i].path);
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_rows, &writers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(writers[i].thread, NULL);
    assert_int_equal(writers[0].failures + writers[1].failures, 0);
    assert_true(writers[2].failures > 0 && writers[3].failures > 0);
    assert_false(fault_vfs_is_cut(rigs[0].disk));
    for (int i = 0; i < 2; i++)
        fault_rig_end(&rigs[i]);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_failure_is_reported_and_does_no_harm),
        cmocka_unit_test(a_lasting_failure_is_reported_and_does_no_harm),
        cmocka_unit_test(a_failure_between_open_and_close_does_no_harm),
        cmocka_unit_test(short_writes_are_reported_and_do_no_harm),
        cmocka_unit_test(a_full_disk_refuses_and_recovers),
        cmocka_unit_test(disks_are_independent_and_shared_by_threads),
    };
    base_seed = prng_seed_from_env(20250101);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
