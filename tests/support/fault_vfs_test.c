#include "support/fault_vfs.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <sqlite3.h>

#include "support/check.h"
#include "support/prng.h"
#include "support/tempdir.h"

enum {
    POWER_CUTS = 200,
    CONTRAST_CUTS = 60, /* for settings that only show what the harness can see */
    IMAGES_PER_CUT = 4,
    TRANSACTIONS = 24,
    FLIPS = 200,
    SWEEP_MAX = 2000,
};

static uint64_t base_seed;

/* --- a disk with a database on it ------------------------------------------------------------- */

typedef struct rig {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    fault_vfs *disk;
    sqlite3 *db;
    prng random;
    bool has_schema;  /* its creation was acknowledged */
    int acknowledged; /* transactions 1..acknowledged returned from COMMIT */
} rig;

static void begin_rig(rig *r, uint64_t seed)
{
    tide_error err;
    memset(r, 0, sizeof(*r));
    prng_init(&r->random, seed);
    /* SQLite has a generator of its own (WAL salts, randomblob()); 0 would unseed it. */
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)(seed % 1000000) + 1, NULL);
    assert_ok_err(tempdir_make(&r->dir, &err), &err);
    tempdir_join(&r->dir, "test.db", r->path);
    r->disk = fault_vfs_new(r->dir.path, prng_u64(&r->random));
}

static void end_rig(rig *r)
{
    tide_error err;
    sqlite3_close(r->db);
    fault_vfs_free(r->disk);
    assert_ok_err(tempdir_remove(&r->dir, &err), &err);
}

static int exec(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* -1: there is no answer. */
static int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t answer = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        answer = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return answer;
}

static bool is_intact(sqlite3 *db)
{
    return ask(db, "SELECT count(*) = 1 AND max(integrity_check) = 'ok' "
                   "FROM pragma_integrity_check") == 1;
}

static int open_db(rig *r, const char *journal_mode, const char *synchronous)
{
    char sql[256];
    snprintf(sql, sizeof(sql),
             "PRAGMA page_size=1024; PRAGMA journal_mode=%s; PRAGMA synchronous=%s;"
             "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=8",
             journal_mode, synchronous);
    const int rc = sqlite3_open_v2(r->path, &r->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                   fault_vfs_name(r->disk));
    return rc == SQLITE_OK ? exec(r->db, sql) : rc;
}

/* Every transaction adds several rows that name their number, and counts them in another table. */
static int create_schema(rig *r)
{
    const int rc = exec(r->db, "BEGIN;"
                               "CREATE TABLE part(tx INTEGER, parts INTEGER, body TEXT);"
                               "CREATE INDEX part_body ON part(body);"
                               "CREATE TABLE total(parts INTEGER);"
                               "INSERT INTO total VALUES (0);"
                               "COMMIT");
    r->has_schema = r->has_schema || rc == SQLITE_OK;
    return rc;
}

static int add_transaction(rig *r, int tx)
{
    char sql[512];
    const int parts = 1 + (int)prng_below(&r->random, 5);
    const int body_len = 1 + (int)prng_below(&r->random, 900);
    snprintf(sql, sizeof(sql),
             "BEGIN;"
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
             "INSERT INTO part SELECT %d, %d, hex(randomblob(%d)) FROM n;"
             "UPDATE total SET parts = parts + %d;"
             "COMMIT",
             parts, tx, parts, body_len, parts);
    const int rc = exec(r->db, sql);
    if (rc == SQLITE_OK)
        r->acknowledged = tx;
    else if (!sqlite3_get_autocommit(r->db))
        exec(r->db, "ROLLBACK");
    return rc;
}

/* Whole transactions only, and the counter agrees with the rows. */
static bool is_atomic(sqlite3 *db)
{
    return ask(db, "SELECT count(*) FROM (SELECT 1 FROM part GROUP BY tx "
                   "HAVING count(*) <> max(parts) OR min(parts) <> max(parts))") == 0 &&
           ask(db, "SELECT (SELECT parts FROM total) = (SELECT count(*) FROM part)") == 1;
}

static bool has_all_up_to(sqlite3 *db, int tx)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT count(DISTINCT tx) FROM part WHERE tx <= %d", tx);
    return ask(db, sql) == tx;
}

/* --- power cuts under a database -------------------------------------------------------------- */

typedef struct tally {
    int cuts;
    int images;
    int damaged;   /* does not open, fails its check, or holds half a transaction */
    int lost;      /* sound, but an acknowledged transaction is missing */
    int lost_many; /* of these: more than the last one */
} tally;

typedef struct power_case {
    const char *journal_mode;
    const char *synchronous;
} power_case;

/* Transactions with checkpoints and reopening between them, until the end or the cut. */
static void run_workload(rig *r, const power_case *c)
{
    static const char *const pauses[] = {
        "PRAGMA wal_checkpoint(PASSIVE)",
        "PRAGMA wal_checkpoint(RESTART)",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    };

    if (open_db(r, c->journal_mode, c->synchronous) != SQLITE_OK || create_schema(r) != SQLITE_OK)
        return;
    for (int tx = 1; tx <= TRANSACTIONS && !fault_vfs_is_cut(r->disk); tx++) {
        if (add_transaction(r, tx) != SQLITE_OK)
            return;
        if (prng_chance(&r->random, 1, 4))
            exec(r->db, pauses[prng_below(&r->random, 3)]);
        if (prng_chance(&r->random, 1, 10)) {
            sqlite3_close(r->db);
            r->db = NULL;
            if (open_db(r, c->journal_mode, c->synchronous) != SQLITE_OK)
                return;
        }
    }
}

/* The next boot: the standard VFS opens what the cut left. */
static void judge_image(const rig *r, const char *path, tally *t)
{
    struct stat st;
    sqlite3 *db = NULL;
    t->images++;
    if (!r->has_schema && stat(path, &st) != 0)
        return;

    /* Synchronous off here: the judge needs no durability of its own. */
    const bool is_open = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK &&
                         exec(db, "PRAGMA synchronous=OFF") == SQLITE_OK;
    const bool has_schema = ask(db, "SELECT count(*) = 3 FROM sqlite_schema") == 1;
    if (!is_open || !is_intact(db) || (has_schema && !is_atomic(db))) {
        t->damaged++;
    } else if (!has_schema) {
        t->lost += r->has_schema;
        t->lost_many += r->acknowledged > 0;
    } else if (!has_all_up_to(db, r->acknowledged)) {
        t->lost++;
        t->lost_many += !has_all_up_to(db, r->acknowledged - 1);
    }
    sqlite3_close(db);
}

static void draw_images(rig *r, tally *t)
{
    static const fault_vfs_survival survivals[IMAGES_PER_CUT] = {
        FAULT_VFS_KEEP_RANDOM,
        FAULT_VFS_KEEP_RANDOM,
        FAULT_VFS_KEEP_PREFIX,
        FAULT_VFS_KEEP_NONE,
    };

    for (int i = 0; i < IMAGES_PER_CUT; i++) {
        tempdir image;
        tide_error err;
        char path[TEMPDIR_PATH_MAX];
        assert_ok_err(tempdir_make(&image, &err), &err);
        tempdir_join(&image, "test.db", path);
        fault_vfs_image(r->disk, survivals[i], &r->random, image.path);
        judge_image(r, path, t);
        assert_ok_err(tempdir_remove(&image, &err), &err);
    }
}

static int64_t count_calls(const power_case *c, uint64_t seed)
{
    rig r;
    begin_rig(&r, seed);
    run_workload(&r, c);
    const int64_t calls = fault_vfs_calls(r.disk, FAULT_VFS_ANY);
    assert_int_equal(r.acknowledged, TRANSACTIONS);
    end_rig(&r);
    return calls;
}

static tally cut_many_times(const char *journal_mode, const char *synchronous, uint64_t cuts)
{
    const power_case c = {.journal_mode = journal_mode, .synchronous = synchronous};
    const uint64_t calls = (uint64_t)count_calls(&c, base_seed);
    tally t = {0};

    for (uint64_t i = 0; i < cuts; i++) {
        rig r;
        begin_rig(&r, base_seed + i);
        const int64_t nth = 1 + (int64_t)prng_below(&r.random, calls);
        fault_vfs_power_cut_at(r.disk, FAULT_VFS_ANY, nth);
        run_workload(&r, &c);
        fault_vfs_power_cut(r.disk); /* a run that needed fewer calls is cut at its end */
        sqlite3_close(r.db);
        r.db = NULL;
        t.cuts++;
        draw_images(&r, &t);
        end_rig(&r);
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
    const tally t = cut_many_times("WAL", "FULL", POWER_CUTS);
    assert_int_equal(t.cuts, POWER_CUTS);
    assert_int_equal(t.damaged, 0);
    assert_int_equal(t.lost, 0);
}

/* NORMAL does not sync at commit: the harness must see commits go, and never a torn database. */
static void wal_normal_is_seen_to_lose_commits_but_stays_sound(void **state)
{
    (void)state;
    const tally t = cut_many_times("WAL", "NORMAL", CONTRAST_CUTS);
    assert_int_equal(t.damaged, 0);
    assert_true(t.lost > 0);
}

/* OFF never syncs: commits go, and checkpoints tear the database. */
static void wal_off_is_seen_to_lose_commits_and_databases(void **state)
{
    (void)state;
    const tally t = cut_many_times("WAL", "OFF", CONTRAST_CUTS);
    assert_true(t.lost > 0);
    assert_true(t.damaged > 0);
}

/* A rollback journal with EXTRA syncs the directory after deleting the journal: nothing is lost. */
static void rollback_journal_extra_loses_nothing_in_a_power_cut(void **state)
{
    (void)state;
    const tally t = cut_many_times("DELETE", "EXTRA", POWER_CUTS);
    assert_int_equal(t.damaged, 0);
    assert_int_equal(t.lost, 0);
}

/* With FULL the deleted journal may come back and undo the last commit, no more; all stays
 * sound. */
static void rollback_journal_full_stays_sound_but_may_undo_the_last_commit(void **state)
{
    (void)state;
    const tally t = cut_many_times("DELETE", "FULL", CONTRAST_CUTS);
    assert_int_equal(t.damaged, 0);
    assert_true(t.lost > 0);
    assert_int_equal(t.lost_many, 0);
}

/* --- failing calls under a database ----------------------------------------------------------- */

/* A few transactions and a checkpoint; how many statements failed. */
static int run_short_workload(rig *r)
{
    int failed = 0;
    const int first = r->acknowledged + 1;
    for (int tx = first; tx < first + 4; tx++)
        if (add_transaction(r, r->acknowledged + 1) != SQLITE_OK)
            failed++;
    if (exec(r->db, "PRAGMA wal_checkpoint(TRUNCATE)") != SQLITE_OK)
        failed++;
    return failed;
}

/* The connection goes on, nothing acknowledged is missing, and a power cut now takes nothing
 * either. */
static void assert_sound_after_faults(rig *r)
{
    tally t = {0};
    fault_vfs_fail_off(r->disk);
    assert_true(has_all_up_to(r->db, r->acknowledged));
    /* A commit that failed may still be in the file: numbers go on after the highest one there. */
    r->acknowledged = (int)ask(r->db, "SELECT coalesce(max(tx), 0) FROM part");
    assert_int_equal(run_short_workload(r), 0);
    assert_true(is_intact(r->db));
    assert_true(is_atomic(r->db));
    assert_true(has_all_up_to(r->db, r->acknowledged));
    fault_vfs_power_cut(r->disk);
    sqlite3_close(r->db);
    r->db = NULL;
    draw_images(r, &t);
    assert_int_equal(t.damaged, 0);
    assert_int_equal(t.lost, 0);
}

/* Fail call n = 1, 2, 3... of a class until a run needs no more; returns how many runs were hit. */
static int sweep_failures(fault_vfs_fault fault)
{
    for (int n = 1; n < SWEEP_MAX; n++) {
        rig r;
        begin_rig(&r, base_seed + (uint64_t)n);
        assert_int_equal(open_db(&r, "WAL", "FULL"), SQLITE_OK);
        assert_int_equal(create_schema(&r), SQLITE_OK);
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
        end_rig(&r);
        if (hits == 0)
            return n - 1;
    }
    fail_msg("the sweep does not end");
    return -1;
}

/* Whatever call fails, once: a statement says so, and the database is sound. */
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
        rig r;
        begin_rig(&r, base_seed);
        fault_vfs_fail(r.disk, (fault_vfs_fault){.on = FAULT_VFS_ANY, .nth = ++n});
        if (open_db(&r, n % 2 ? "WAL" : "DELETE", "EXTRA") == SQLITE_OK &&
            create_schema(&r) == SQLITE_OK)
            run_short_workload(&r);
        sqlite3_close(r.db);
        hits = fault_vfs_hits(r.disk);
        fault_vfs_fail_off(r.disk);
        assert_int_equal(open_db(&r, "WAL", "FULL"), SQLITE_OK);
        if (!r.has_schema && ask(r.db, "SELECT count(*) FROM sqlite_schema") == 0)
            assert_int_equal(create_schema(&r), SQLITE_OK);
        assert_sound_after_faults(&r);
        end_rig(&r);
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

/* A full disk refuses commits; with space again the same connection goes on. */
static void a_full_disk_refuses_and_recovers(void **state)
{
    (void)state;
    for (int64_t room = 0; room < 16384; room += 1111) {
        rig r;
        int rc = SQLITE_OK;
        begin_rig(&r, base_seed + (uint64_t)room);
        assert_int_equal(open_db(&r, "WAL", "FULL"), SQLITE_OK);
        assert_int_equal(create_schema(&r), SQLITE_OK);
        fault_vfs_set_quota(r.disk, fault_vfs_used_len(r.disk) + room);
        for (int tx = 1; tx < 100 && rc == SQLITE_OK; tx++)
            rc = add_transaction(&r, tx);
        assert_int_equal(rc, SQLITE_FULL);
        assert_true(has_all_up_to(r.db, r.acknowledged));
        fault_vfs_set_quota(r.disk, FAULT_VFS_NO_QUOTA);
        assert_sound_after_faults(&r);
        end_rig(&r);
    }
}

/* --- bit flips -------------------------------------------------------------------------------- */

static bool is_flip_seen(const char *path)
{
    sqlite3 *db = NULL;
    const bool is_open = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK;
    const bool is_seen =
        !is_open || !is_intact(db) || !is_atomic(db) || !has_all_up_to(db, TRANSACTIONS);
    sqlite3_close(db);
    return is_seen;
}

/* SQLite has no checksums: flips in unused space pass, flips in indexed content are found. */
static void flipped_bits_are_mostly_found(void **state)
{
    (void)state;
    rig r;
    int seen = 0;
    begin_rig(&r, base_seed);
    run_workload(&r, &(power_case){"WAL", "FULL"});
    assert_int_equal(exec(r.db, "PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
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
    end_rig(&r);
}

/* --- the model itself, call by call ----------------------------------------------------------- */

typedef struct raw_file {
    sqlite3_vfs *vfs;
    sqlite3_file *file;
    char path[TEMPDIR_PATH_MAX];
} raw_file;

static void open_raw(rig *r, raw_file *f, const char *name, int kind)
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
static int read_image(rig *r, fault_vfs_survival survival, const char *name, char *out, size_t max)
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
    rig r;
    raw_file f;
    char got[8192] = {0};
    begin_rig(&r, base_seed);
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
    end_rig(&r);
}

/* A torn write changes whole sectors of the file or leaves them; over many images both are seen. */
static void writes_tear_at_sector_boundaries_only(void **state)
{
    (void)state;
    rig r;
    raw_file f;
    char got[8192] = {0};
    int torn = 0;
    begin_rig(&r, base_seed);
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
    end_rig(&r);
}

/* A file that was never synced may be gone; a deletion without a directory sync may be undone. */
static void creation_and_deletion_need_a_sync_to_last(void **state)
{
    (void)state;
    rig r;
    raw_file f;
    raw_file g;
    char got[8192] = {0};
    begin_rig(&r, base_seed);
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
    end_rig(&r);
}

/* The first sync of a new journal syncs the directory, and with it what happened to other names. */
static void a_new_journals_first_sync_makes_the_directory_durable(void **state)
{
    (void)state;
    rig r;
    raw_file f;
    raw_file db;
    raw_file wal;
    char got[8192] = {0};
    begin_rig(&r, base_seed);
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
    end_rig(&r);
}

/* After a failed sync the system has forgotten what was unsynced: trying again proves nothing. */
static void a_failed_sync_is_not_mended_by_the_next(void **state)
{
    (void)state;
    int lost = 0;
    for (uint64_t i = 0; i < 32; i++) {
        rig r;
        raw_file f;
        char got[8192] = {0};
        begin_rig(&r, base_seed + i);
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
        end_rig(&r);
    }
    assert_in_range(lost, 1, 31);
}

/* The nth call of a class fails once; a sticky fault fails it and all after. */
static void the_nth_call_fails_once_or_from_then_on(void **state)
{
    (void)state;
    rig r;
    raw_file f;
    begin_rig(&r, base_seed);
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
    end_rig(&r);
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
        rig r;
        raw_file f;
        begin_rig(&r, base_seed);
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
        end_rig(&r);
    }
    assert_int_equal(lens[0], lens[1]);
    assert_true(lens[0] > 0);
    assert_memory_equal(first, second, (size_t)lens[0]);
}

/* --- several disks, several threads ----------------------------------------------------------- */

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
    w->failures += exec(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(x)") != SQLITE_OK;
    for (int i = 0; i < 50; i++)
        w->failures += exec(db, "INSERT INTO t VALUES (1)") != SQLITE_OK;
    w->failures += ask(db, "SELECT count(*) FROM t") != 50;
    sqlite3_close(db);
    return NULL;
}

/* Two disks with two threads each; the power of one is cut, and the other does not notice. */
static void disks_are_independent_and_shared_by_threads(void **state)
{
    (void)state;
    rig rigs[2];
    writer writers[4] = {0};
    for (uint64_t i = 0; i < 2; i++)
        begin_rig(&rigs[i], base_seed + i);
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
        end_rig(&rigs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synced_bytes_survive_and_later_ones_need_not),
        cmocka_unit_test(writes_tear_at_sector_boundaries_only),
        cmocka_unit_test(creation_and_deletion_need_a_sync_to_last),
        cmocka_unit_test(a_new_journals_first_sync_makes_the_directory_durable),
        cmocka_unit_test(a_failed_sync_is_not_mended_by_the_next),
        cmocka_unit_test(the_nth_call_fails_once_or_from_then_on),
        cmocka_unit_test(a_seed_repeats_its_image),
        cmocka_unit_test(disks_are_independent_and_shared_by_threads),
        cmocka_unit_test(wal_full_loses_nothing_in_a_power_cut),
        cmocka_unit_test(wal_normal_is_seen_to_lose_commits_but_stays_sound),
        cmocka_unit_test(wal_off_is_seen_to_lose_commits_and_databases),
        cmocka_unit_test(rollback_journal_extra_loses_nothing_in_a_power_cut),
        cmocka_unit_test(rollback_journal_full_stays_sound_but_may_undo_the_last_commit),
        cmocka_unit_test(a_single_failure_is_reported_and_does_no_harm),
        cmocka_unit_test(a_lasting_failure_is_reported_and_does_no_harm),
        cmocka_unit_test(a_failure_between_open_and_close_does_no_harm),
        cmocka_unit_test(short_writes_are_reported_and_do_no_harm),
        cmocka_unit_test(a_full_disk_refuses_and_recovers),
        cmocka_unit_test(flipped_bits_are_mostly_found),
    };
    base_seed = prng_seed_from_env(20250101);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
