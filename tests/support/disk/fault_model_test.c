/* The model of a disk itself, call by call: what a sync saves and what a cut may take. */
#include "support/disk/fault_vfs.h"

#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "support/check.h"
#include "support/disk/fault_rig.h"
#include "support/prng.h"
#include "support/tempdir.h"

static uint64_t base_seed;

typedef struct raw_file {
    sqlite3_vfs *vfs;
    sqlite3_file *file;
    char path[TEMPDIR_PATH_MAX];
} raw_file;

static void open_raw(fault_rig *r, raw_file *f, const char *name, int kind)
{
    f->vfs = sqlite3_vfs_find(fault_vfs_name(r->disk));
    f->file = test_calloc(1, (size_t)f->vfs->szOsFile);
    tempdir_join(&r->dir, name, f->path);
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | kind;
    /* SQLite hands names over with an empty list of URI parameters behind them. */
    sqlite3_filename path = sqlite3_create_filename(f->path, "", "", 0, NULL);
    assert_int_equal(f->vfs->xOpen(f->vfs, path, f->file, flags, NULL), SQLITE_OK);
    sqlite3_free_filename(path);
}

static void close_raw(raw_file *f)
{
    f->file->pMethods->xClose(f->file);
    test_free(f->file);
}

static int put(raw_file *f, char letter, int len, int64_t offset)
{
    char bytes[8192];
    memset(bytes, letter, sizeof(bytes));
    return f->file->pMethods->xWrite(f->file, bytes, len, offset);
}

static int sync_raw(raw_file *f)
{
    return f->file->pMethods->xSync(f->file, SQLITE_SYNC_FULL);
}

/* The content of a file in an image; -1: it is not there. */
static int read_image(fault_rig *r, fault_vfs_survival survival, const char *name, char *out,
                      size_t max)
{
    tempdir image;
    tide_error err;
    char path[TEMPDIR_PATH_MAX];
    assert_ok_err(tempdir_make(&image, &err), &err);
    tempdir_join(&image, name, path);
    fault_vfs_image(r->disk, survival, &r->random, image.path);
    FILE *file = fopen(path, "rb");
    const int len = file ? (int)fread(out, 1, max, file) : -1;
    if (file)
        fclose(file);
    assert_ok_err(tempdir_remove(&image, &err), &err);
    return len;
}

/* Synced bytes are in every image; later ones in the image that keeps all, and only there for
 * sure. */
static void synced_bytes_survive_and_later_ones_need_not(void **state)
{
    (void)state;
    fault_rig r;
    raw_file f;
    char got[8192] = {0};
    fault_rig_begin(&r, base_seed);
    open_raw(&r, &f, "a", SQLITE_OPEN_MAIN_DB);
    assert_int_equal(put(&f, 'x', 1000, 0), SQLITE_OK);
    assert_int_equal(sync_raw(&f), SQLITE_OK);
    assert_int_equal(put(&f, 'y', 1000, 500), SQLITE_OK);
    fault_vfs_power_cut(r.disk);
    assert_int_equal(put(&f, 'z', 1, 0), SQLITE_IOERR);
    close_raw(&f);

    assert_int_equal(read_image(&r, FAULT_VFS_KEEP_NONE, "a", got, sizeof(got)), 1000);
    assert_true(got[0] == 'x' && got[999] == 'x');
    assert_int_equal(read_image(&r, FAULT_VFS_KEEP_ALL, "a", got, sizeof(got)), 1500);
    assert_true(got[0] == 'x' && got[499] == 'x' && got[500] == 'y' && got[1499] == 'y');
    fault_rig_end(&r);
}

/* A torn write changes whole sectors of the file or leaves them; over many images both are seen. */
static void writes_tear_at_sector_boundaries_only(void **state)
{
    (void)state;
    fault_rig r;
    raw_file f;
    char got[8192] = {0};
    int torn = 0;
    fault_rig_begin(&r, base_seed);
    open_raw(&r, &f, "a", SQLITE_OPEN_MAIN_DB);
    assert_int_equal(put(&f, 'x', 4096, 0), SQLITE_OK);
    assert_int_equal(sync_raw(&f), SQLITE_OK);
    assert_int_equal(put(&f, 'y', 3000, 100), SQLITE_OK);
    fault_vfs_power_cut(r.disk);
    close_raw(&f);

    for (int i = 0; i < 200; i++) {
        int changes = 0;
        assert_int_equal(read_image(&r, FAULT_VFS_KEEP_RANDOM, "a", got, sizeof(got)), 4096);
        for (int at = 1; at < 4096; at++) {
            if (got[at] == got[at - 1])
                continue;
            changes++;
            assert_true(at % FAULT_VFS_SECTOR_LEN == 0 || at == 100 || at == 3100);
        }
        torn += changes > 2;
    }
    assert_true(torn > 5);
    fault_rig_end(&r);
}

/* A file that was never synced may be gone; a deletion without a directory sync may be undone. */
static void creation_and_deletion_need_a_sync_to_last(void **state)
{
    (void)state;
    fault_rig r;
    raw_file f;
    raw_file g;
    char got[8192] = {0};
    fault_rig_begin(&r, base_seed);
    open_raw(&r, &f, "new", SQLITE_OPEN_MAIN_DB);
    open_raw(&r, &g, "old", SQLITE_OPEN_MAIN_DB);
    assert_int_equal(put(&f, 'x', 10, 0), SQLITE_OK);
    assert_int_equal(put(&g, 'x', 10, 0), SQLITE_OK);
    assert_int_equal(sync_raw(&g), SQLITE_OK);
    assert_int_equal(g.vfs->xDelete(g.vfs, g.path, 0), SQLITE_OK);
    close_raw(&f);
    close_raw(&g);
    fault_vfs_power_cut(r.disk);

    assert_int_equal(read_image(&r, FAULT_VFS_KEEP_NONE, "new", got, sizeof(got)), -1);
    assert_int_equal(read_image(&r, FAULT_VFS_KEEP_NONE, "old", got, sizeof(got)), 10);
    assert_int_equal(read_image(&r, FAULT_VFS_KEEP_ALL, "new", got, sizeof(got)), 10);
    assert_int_equal(read_image(&r, FAULT_VFS_KEEP_ALL, "old", got, sizeof(got)), -1);
    fault_rig_end(&r);
}

/* The first sync of a new journal syncs the directory, and with it what happened to other names. */
static void a_new_journals_first_sync_makes_the_directory_durable(void **state)
{
    (void)state;
    fault_rig r;
    raw_file f;
    raw_file db;
    raw_file wal;
    char got[8192] = {0};
    fault_rig_begin(&r, base_seed);
    open_raw(&r, &f, "old", SQLITE_OPEN_MAIN_DB);
    assert_int_equal(sync_raw(&f), SQLITE_OK);
    assert_int_equal(f.vfs->xDelete(f.vfs, f.path, 0), SQLITE_OK);
    open_raw(&r, &db, "new", SQLITE_OPEN_MAIN_DB); /* the unix VFS copies its mode for the WAL */
    open_raw(&r, &wal, "new-wal", SQLITE_OPEN_WAL);
    assert_int_equal(sync_raw(&wal), SQLITE_OK);
    close_raw(&f);
    close_raw(&db);
    close_raw(&wal);
    fault_vfs_power_cut(r.disk);

    assert_int_equal(read_image(&r, FAULT_VFS_KEEP_NONE, "old", got, sizeof(got)), -1);
    assert_int_equal(read_image(&r, FAULT_VFS_KEEP_NONE, "new", got, sizeof(got)), 0);
    assert_int_equal(read_image(&r, FAULT_VFS_KEEP_NONE, "new-wal", got, sizeof(got)), 0);
    fault_rig_end(&r);
}

/* After a failed sync the system has forgotten what was unsynced: trying again proves nothing. */
static void a_failed_sync_is_not_mended_by_the_next(void **state)
{
    (void)state;
    int lost = 0;
    for (uint64_t i = 0; i < 32; i++) {
        fault_rig r;
        raw_file f;
        char got[8192] = {0};
        fault_rig_begin(&r, base_seed + i);
        open_raw(&r, &f, "a", SQLITE_OPEN_MAIN_DB);
        assert_int_equal(sync_raw(&f), SQLITE_OK);
        assert_int_equal(put(&f, 'x', 512, 0), SQLITE_OK);
        fault_vfs_fail(r.disk, (fault_vfs_fault){.on = FAULT_VFS_SYNC, .nth = 1});
        assert_int_equal(sync_raw(&f), SQLITE_IOERR_FSYNC);
        assert_int_equal(sync_raw(&f), SQLITE_OK);
        close_raw(&f);
        fault_vfs_power_cut(r.disk);
        read_image(&r, FAULT_VFS_KEEP_ALL, "a", got, sizeof(got));
        lost += got[0] != 'x';
        fault_rig_end(&r);
    }
    assert_in_range(lost, 1, 31);
}

/* The nth call of a class fails once; a sticky fault fails it and all after. */
static void the_nth_call_fails_once_or_from_then_on(void **state)
{
    (void)state;
    fault_rig r;
    raw_file f;
    fault_rig_begin(&r, base_seed);
    open_raw(&r, &f, "a", SQLITE_OPEN_MAIN_DB);
    fault_vfs_fail(r.disk, (fault_vfs_fault){.on = FAULT_VFS_WRITE, .nth = 2, .code = SQLITE_FULL});
    assert_int_equal(put(&f, 'x', 1, 0), SQLITE_OK);
    assert_int_equal(sync_raw(&f), SQLITE_OK);
    assert_int_equal(put(&f, 'x', 1, 0), SQLITE_FULL);
    assert_int_equal(put(&f, 'x', 1, 0), SQLITE_OK);
    assert_int_equal(fault_vfs_hits(r.disk), 1);

    const fault_vfs_fault lasting = {.on = FAULT_VFS_ANY, .nth = 2, .is_sticky = true};
    fault_vfs_fail(r.disk, lasting);
    assert_int_equal(put(&f, 'x', 1, 0), SQLITE_OK);
    assert_int_equal(put(&f, 'x', 1, 0), SQLITE_IOERR_WRITE);
    assert_int_equal(sync_raw(&f), SQLITE_IOERR_FSYNC);
    assert_int_equal(fault_vfs_hits(r.disk), 2);
    fault_vfs_fail_off(r.disk);
    assert_int_equal(sync_raw(&f), SQLITE_OK);

    const fault_vfs_counters n = fault_vfs_count(r.disk);
    assert_int_equal(n.calls[FAULT_VFS_WRITE], 5);
    assert_int_equal(n.calls[FAULT_VFS_ANY], 9);
    assert_int_equal(n.writes, 3);
    assert_int_equal(n.syncs, 2);
    assert_int_equal(n.bytes_written, 3);
    close_raw(&f);
    fault_rig_end(&r);
}

/* One seed, one history: the same cut and the same image, byte for byte. */
static void a_seed_repeats_its_image(void **state)
{
    (void)state;
    char first[8192];
    char second[8192];
    char *outs[] = {first, second};
    int lens[2] = {0};
    for (int i = 0; i < 2; i++) {
        fault_rig r;
        raw_file f;
        fault_rig_begin(&r, base_seed);
        fault_vfs_power_cut_at(r.disk, FAULT_VFS_WRITE, 20);
        open_raw(&r, &f, "a", SQLITE_OPEN_MAIN_DB);
        for (int n = 0; n < 30; n++) {
            put(&f, (char)('a' + n % 26), 700, n * 250);
            if (n == 10)
                sync_raw(&f);
        }
        close_raw(&f);
        assert_true(fault_vfs_is_cut(r.disk));
        lens[i] = read_image(&r, FAULT_VFS_KEEP_RANDOM, "a", outs[i], sizeof(first));
        fault_rig_end(&r);
    }
    assert_int_equal(lens[0], lens[1]);
    assert_true(lens[0] > 0);
    assert_memory_equal(first, second, (size_t)lens[0]);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synced_bytes_survive_and_later_ones_need_not),
        cmocka_unit_test(writes_tear_at_sector_boundaries_only),
        cmocka_unit_test(creation_and_deletion_need_a_sync_to_last),
        cmocka_unit_test(a_new_journals_first_sync_makes_the_directory_durable),
        cmocka_unit_test(a_failed_sync_is_not_mended_by_the_next),
        cmocka_unit_test(the_nth_call_fails_once_or_from_then_on),
        cmocka_unit_test(a_seed_repeats_its_image),
    };
    base_seed = prng_seed_from_env(20250101);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
