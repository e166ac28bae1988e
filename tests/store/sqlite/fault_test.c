/* A disk that fails, fills up or decays under the store. Whatever a writer is told is true afterwards: success
 * means the row is there, a failure means it is not, and only "outcome unknown" leaves it open. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "crash/copying.h"
#include "crash/faulty_disk.h"
#include "store/engine.h"

enum {
    ROWS = 5,
    THREADS = 4,
    SWEEP_MAX = 50000, /* a scenario that makes more calls than this is not small */
    CHECKPOINT_ROWS = 150,
    FLIPS = 120,
    GROUP_TRIES = 200,
};

/* ---- one call fails ---- */

typedef void scenario(disk_case *c);

static void write_alone(disk_case *c)
{
    if (disk_case_open(c, c->path, true) < TIDE_OK)
        return;
    for (int64_t n = 1; n <= ROWS; n++)
        TIDE_IGNORE(disk_case_write(c, 0, n, n % 2 == 0 ? n : 0));
}

typedef struct thread_arg {
    disk_case *c;
    int64_t thread;
    pthread_t id;
} thread_arg;

static void *write_some(void *arg)
{
    const thread_arg *a = arg;
    for (int64_t n = 1; n <= ROWS; n++)
        TIDE_IGNORE(disk_case_write(a->c, a->thread, n, n == 2 ? a->thread * ROWS + n : 0));
    return NULL;
}

static void write_together(disk_case *c)
{
    if (disk_case_open(c, c->path, false) < TIDE_OK)
        return;
    thread_arg threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (thread_arg){.c = c, .thread = i};
        assert_int_equal(0, pthread_create(&threads[i].id, NULL, write_some, &threads[i]));
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i].id, NULL);
}

/* True: the fault was met. */
static bool run_with_fault(scenario *run, fault_vfs_fault fault)
{
    disk_case c;
    disk_case_init(&c, (uint64_t)fault.nth);
    (void)snprintf(c.what, sizeof c.what, "call class %d, nth %" PRId64 "%s%s", (int)fault.on,
                   fault.nth, fault.is_sticky ? ", sticky" : "", fault.is_short ? ", short" : "");
    fault_vfs_fail(c.disk, fault);
    run(&c);
    const bool is_met = fault_vfs_hits(c.disk) > 0;
    fault_vfs_fail_off(c.disk);
    if (c.store) {
        /* The disk is well again: so is the store, without opening it anew. */
        const tide_status status = disk_case_write(&c, 99, 1, 0);
        if (status < TIDE_OK)
            fail_msg("%s: still failing with %s when the disk is well", c.what,
                     tide_status_get(status)->name);
    } else {
        if (!is_met)
            fail_msg("%s: cannot open: %s", c.what, c.err.text);
        assert_ok_err(disk_case_open(&c, c.path, true), &c.err);
    }
    disk_case_check_now_and_later(&c);
    disk_case_done(&c);
    return is_met;
}

typedef bool attempt(scenario *run, fault_vfs_fault fault);

static void sweep_with(attempt *try, scenario *run, fault_vfs_fault fault, int64_t step)
{
    int64_t nth = 1;
    int runs = 0;
    for (; nth < SWEEP_MAX; nth += step) {
        fault.nth = nth;
        if (!try(run, fault))
            break;
        runs++;
    }
    assert_true(nth < SWEEP_MAX);
    print_message("class %d: %d calls failed, each in a run of its own\n", (int)fault.on, runs);
}

static void sweep(scenario *run, fault_vfs_fault fault, int64_t step)
{
    sweep_with(run_with_fault, run, fault, step);
}

/* Every call of every kind fails once, each in a run of its own. */
static void one_failed_call_is_told_truly(void **state)
{
    (void)state;
    for (fault_vfs_call on = FAULT_VFS_OPEN; on < FAULT_VFS_CALL_COUNT; on++)
        sweep(write_alone, (fault_vfs_fault){.on = on}, 1);
}

static void write_until_refused(disk_case *c)
{
    if (disk_case_open(c, c->path, true) < TIDE_OK)
        return;
    tide_status status = TIDE_OK;
    for (int64_t n = 1; n <= ROWS && status == TIDE_OK; n++)
        status = disk_case_write(c, 0, n, n % 2 == 0 ? n : 0);
}

/* Nothing is written after the failure: the power goes at once. */
static bool cut_after_fault(scenario *run, fault_vfs_fault fault)
{
    static const fault_vfs_survival survivals[] = {FAULT_VFS_KEEP_ALL, FAULT_VFS_KEEP_PREFIX,
                                                   FAULT_VFS_KEEP_RANDOM, FAULT_VFS_KEEP_NONE};
    disk_case c;
    disk_case_init(&c, (uint64_t)fault.nth);
    (void)snprintf(c.what, sizeof c.what, "cut after class %d, nth %" PRId64 "%s", (int)fault.on,
                   fault.nth, fault.is_sticky ? ", sticky" : "");
    fault_vfs_fail(c.disk, fault);
    run(&c);
    const bool is_met = fault_vfs_hits(c.disk) > 0;
    fault_vfs_power_cut(c.disk);
    tide_store_closep(&c.store);
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c.image, "store.db", path);
    for (size_t i = 0; i < sizeof survivals / sizeof survivals[0]; i++) {
        remove_store(path);
        fault_vfs_image(c.disk, survivals[i], &c.chance, c.image.path);
        if (disk_case_open(&c, path, true) < TIDE_OK)
            fail_msg("%s: cannot open after a power cut: %s", c.what, c.err.text);
        disk_case_check(&c);
        tide_store_closep(&c.store);
    }
    disk_case_done(&c);
    return is_met;
}

/* A commit that failed leaves its pages in the log, complete perhaps. Who was told that it failed does not find
 * it there after a crash; otherwise nobody was told so. */
static void a_refused_commit_does_not_come_back(void **state)
{
    (void)state;
    sweep_with(cut_after_fault, write_until_refused, (fault_vfs_fault){.on = FAULT_VFS_SYNC}, 1);
    sweep_with(cut_after_fault, write_until_refused,
               (fault_vfs_fault){.on = FAULT_VFS_SYNC, .is_sticky = true}, 1);
    sweep_with(cut_after_fault, write_until_refused, (fault_vfs_fault){.on = FAULT_VFS_WRITE}, 1);
    sweep_with(cut_after_fault, write_until_refused,
               (fault_vfs_fault){.on = FAULT_VFS_ANY, .is_sticky = true}, 3);
}

/* Enough pages for a checkpoint and a log that begins anew. */
static void write_through_checkpoints(disk_case *c)
{
    if (disk_case_open(c, c->path, true) < TIDE_OK)
        return;
    for (int64_t n = 1; n <= CHECKPOINT_ROWS; n++)
        TIDE_IGNORE(disk_case_write(c, 0, n, n));
}

/* A checkpoint that fails costs nobody anything: the log is complete without it. */
static void a_failed_call_of_a_checkpoint_is_told_truly(void **state)
{
    (void)state;
    sweep(write_through_checkpoints, (fault_vfs_fault){.on = FAULT_VFS_ANY}, 331);
    sweep(write_through_checkpoints, (fault_vfs_fault){.on = FAULT_VFS_SYNC}, 5);
    sweep(write_through_checkpoints, (fault_vfs_fault){.on = FAULT_VFS_SYNC, .is_sticky = true},
          17);
}

static bool create_with_fault(scenario *run, fault_vfs_fault fault)
{
    disk_case c;
    disk_case_init(&c, (uint64_t)fault.nth);
    remove_store(c.path);
    fault_vfs_free(c.disk);
    c.disk = fault_vfs_new(c.dir.path, (uint64_t)fault.nth);
    (void)snprintf(c.what, sizeof c.what, "creation, nth %" PRId64, fault.nth);
    fault_vfs_fail(c.disk, fault);
    run(&c);
    const bool is_met = fault_vfs_hits(c.disk) > 0;
    fault_vfs_fail_off(c.disk);
    if (!c.store && disk_case_open(&c, c.path, true) < TIDE_OK)
        fail_msg("%s: cannot make it again: %s", c.what, c.err.text);
    store_test_add_tables(c.store);
    assert_ok(disk_case_write(&c, 0, 1, 0));
    disk_case_check_now_and_later(&c);
    disk_case_done(&c);
    return is_met;
}

static void create(disk_case *c)
{
    TIDE_IGNORE(disk_case_open(c, c->path, true));
}

/* A store that could not be finished is finished by the next who opens it. */
static void a_failed_creation_can_be_repeated(void **state)
{
    (void)state;
    sweep_with(create_with_fault, create, (fault_vfs_fault){.on = FAULT_VFS_ANY}, 1);
    sweep_with(create_with_fault, create, (fault_vfs_fault){.on = FAULT_VFS_ANY, .is_sticky = true},
               3);
}

/* A write that leaves part of its bytes behind, and a disk that stays broken from then on. */
static void a_torn_write_and_a_dying_disk_are_told_truly(void **state)
{
    (void)state;
    sweep(write_alone, (fault_vfs_fault){.on = FAULT_VFS_WRITE, .is_short = true}, 2);
    sweep(write_alone, (fault_vfs_fault){.on = FAULT_VFS_ANY, .is_sticky = true}, 3);
    sweep(write_alone, (fault_vfs_fault){.on = FAULT_VFS_SYNC, .is_sticky = true}, 1);
}

/* Several closures share a transaction that the failure takes away: none is lost, none is kept by mistake. */
static void a_failed_call_in_a_group_is_told_truly_to_all(void **state)
{
    (void)state;
    sweep(write_together, (fault_vfs_fault){.on = FAULT_VFS_SYNC}, 1);
    sweep(write_together, (fault_vfs_fault){.on = FAULT_VFS_WRITE}, 3);
    sweep(write_together,
          (fault_vfs_fault){.on = FAULT_VFS_WRITE, .code = SQLITE_FULL, .is_short = true}, 5);
    sweep(write_together, (fault_vfs_fault){.on = FAULT_VFS_READ}, 1);
}

/* ---- the disk is full ---- */

static void a_full_disk_is_an_error_that_passes(void **state)
{
    (void)state;
    uint64_t seeds = 20;
    const uint64_t first = prng_first_of(&seeds, 0);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        disk_case c;
        disk_case_init(&c, seed);
        (void)snprintf(c.what, sizeof c.what, "seed %" PRIu64, seed);
        assert_ok_err(disk_case_open(&c, c.path, seed % 2 == 0), &c.err);
        fault_vfs_set_quota(c.disk, fault_vfs_used_len(c.disk) +
                                        (int64_t)prng_below(&c.chance, 6 * DISK_BLOB_LEN));
        tide_status status = TIDE_OK;
        int64_t n = 0;
        while (status == TIDE_OK && n < 100) {
            n++;
            status = disk_case_write(&c, 0, n, n);
        }
        if (status != TIDE_E_OUTCOME_UNKNOWN)
            assert_status(TIDE_E_FULL, status);
        /* Reading goes on. */
        int64_t count = 0;
        int64_t highest = 0;
        count_numbered(c.store, &count, &highest);
        assert_true(count >= n - 1);
        fault_vfs_set_quota(c.disk, FAULT_VFS_NO_QUOTA);
        assert_ok(disk_case_write(&c, 0, n + 1, n + 1));
        disk_case_check_now_and_later(&c);
        disk_case_done(&c);
    }
}

/* ---- a closure that takes the whole transaction away ---- */

static tide_status make_trap(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tx->store->ops->script(tx,
                                  "CREATE TRIGGER trap BEFORE INSERT ON typed WHEN new.id = 13 "
                                  "BEGIN SELECT RAISE(ROLLBACK, 'spoilt'); END",
                                  err);
}

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int waiting; /* who is about to hand over a closure */
} gate;

/* Holds the writer until the others stand in its queue, so that they become one group. */
static tide_status hold_writer(tide_tx *tx, void *arg, tide_error *err)
{
    (void)tx;
    (void)err;
    gate *g = arg;
    (void)pthread_mutex_lock(&g->lock);
    while (g->waiting < THREADS)
        (void)pthread_cond_wait(&g->changed, &g->lock);
    (void)pthread_mutex_unlock(&g->lock);
    tide_env *env = tide_env_system();
    env->sleep_us(env, 500);
    return TIDE_OK;
}

typedef struct member {
    disk_case *c;
    gate *g;
    fault_row row;
    char name[WRITER_NAME_SIZE];
    tide_status status;
    pthread_t id;
} member;

static void *join_group(void *arg)
{
    member *m = arg;
    (void)pthread_mutex_lock(&m->g->lock);
    m->g->waiting++;
    (void)pthread_cond_signal(&m->g->changed);
    (void)pthread_mutex_unlock(&m->g->lock);
    tide_error err;
    m->status = tide_store_write(m->c->store, add_fault_row, &m->row, &err);
    return NULL;
}

static void *open_gate(void *arg)
{
    member *m = arg;
    tide_error err;
    m->status = tide_store_write(m->c->store, hold_writer, m->g, &err);
    return NULL;
}

/* One group with a closure that springs the trap; returns how often the others ran together. */
static int run_group(disk_case *c, int64_t round)
{
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    member keeper = {.c = c, .g = &g};
    member members[THREADS];
    assert_int_equal(0, pthread_create(&keeper.id, NULL, open_gate, &keeper));
    for (int i = 0; i < THREADS; i++) {
        members[i] = (member){.c = c, .g = &g, .row = {.blob_id = i == 1 ? 13 : 0}};
        const taken self = {.thread = i};
        taken_writer(members[i].name, &self);
        members[i].row.row = (numbered_row){.writer = members[i].name, .n = round};
        assert_int_equal(0, pthread_create(&members[i].id, NULL, join_group, &members[i]));
    }
    (void)pthread_join(keeper.id, NULL);
    int runs = 0;
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(members[i].id, NULL);
        disk_case_note(c, i, round, members[i].status, members[i].row.row.range.first);
        assert_status(i == 1 ? TIDE_E_CONFLICT : TIDE_OK, members[i].status);
        runs += members[i].row.runs;
    }
    return runs;
}

/* RAISE(ROLLBACK) undoes everybody's work without a word. The others are run again and kept. */
static void a_trigger_that_rolls_back_spoils_only_its_closure(void **state)
{
    (void)state;
    disk_case c;
    disk_case_init(&c, 1);
    (void)snprintf(c.what, sizeof c.what, "trap");
    assert_ok_err(disk_case_open(&c, c.path, false), &c.err);
    assert_ok_err(tide_store_write(c.store, make_trap, NULL, &c.err), &c.err);
    int taken_apart = 0;
    for (int64_t round = 1; round <= GROUP_TRIES && taken_apart < 10; round++)
        taken_apart += run_group(&c, round) > THREADS;
    assert_true(taken_apart >= 10); /* a group was really taken apart, not only met singly */
    disk_case_check_now_and_later(&c);
    disk_case_done(&c);
}

/* ---- decay ---- */

static void count_finding(void *arg, const char *finding)
{
    (void)finding;
    ++*(int *)arg;
}

/* Read all there is through the public functions; the worst status on the way. */
static tide_status read_everything(disk_case *c, const char *path)
{
    int findings = 0;
    TIDE_TRY(disk_case_open(c, path, true));
    tide_status status = tide_store_verify(c->store, count_finding, &findings, &c->err);
    seen_rows table = {0};
    tide_status page = TIDE_OK;
    while ((page = seen_rows_read(&table, c->store, &c->err)) == TIDE_OK)
        continue;
    seen_rows_done(&table);
    tide_store_closep(&c->store);
    return page < TIDE_OK ? page : status;
}

/* A file whose log is empty: everything is in the database itself. */
static void fill_and_checkpoint(disk_case *c)
{
    assert_ok_err(disk_case_open(c, c->path, true), &c->err);
    for (int64_t n = 1; n <= 60; n++)
        assert_ok(disk_case_write(c, 0, n, n % 10 == 0 ? n : 0));
    tide_store_closep(&c->store);
    sqlite3 *db = NULL;
    assert_int_equal(SQLITE_OK,
                     sqlite3_open_v2(c->path, &db, SQLITE_OPEN_READWRITE, fault_vfs_name(c->disk)));
    assert_int_equal(SQLITE_OK,
                     sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
}

/* A flipped bit is reported or harmless, wherever it is; it never brings the program down. Where the structure
 * of a page is hit, it is always reported. */
static void a_flipped_bit_is_reported_or_harmless(void **state)
{
    (void)state;
    const uint64_t seed = prng_seed_from_env(20250104);
    disk_case c;
    disk_case_init(&c, seed);
    fill_and_checkpoint(&c);
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c.image, "decayed.db", path);
    int reported = 0;
    for (int i = 0; i < FLIPS; i++) {
        copy_file(c.path, path);
        const bool is_page_header = i % 2 == 0;
        const int64_t page = 1 + (int64_t)prng_below(&c.chance, 8);
        const int64_t at = is_page_header ? fault_vfs_flip_bit(path, page * 16384, 1, &c.chance)
                                          : fault_vfs_flip_bit(path, 0, INT64_MAX / 2, &c.chance);
        const tide_status status = read_everything(&c, path);
        reported += status < TIDE_OK;
        if (is_page_header && status >= TIDE_OK)
            fail_msg("seed %" PRIu64 ": bit %" PRId64 " is flipped and nobody says so", seed, at);
        if (status == TIDE_E_FAILED || status == TIDE_E_OUTCOME_UNKNOWN)
            fail_msg("seed %" PRIu64 ": bit %" PRId64 ": %s", seed, at, c.err.text);
        remove_store(path);
    }
    print_message("%d of %d flips reported\n", reported, FLIPS);
    disk_case_done(&c);
}

/* ---- several stores in one process ---- */

static bool is_shared_lock_held(int fd)
{
    /* SQLite's shared locks: 510 bytes behind the pending byte. An OFD lock meets the process's own POSIX locks. */
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000002, .l_len = 510};
    assert_int_equal(0, fcntl(fd, F_OFD_GETLK, &lock));
    return lock.l_type != F_UNLCK;
}

/* POSIX locks are the process's: closing any descriptor of the file drops them all. Without them a foreign
 * program that closes the file last deletes the log under us. */
static void a_second_store_leaves_the_locks_of_the_first(void **state)
{
    store_test *t = *state;
    int64_t count = 0;
    int64_t highest = 0;
    count_numbered(t->store, &count, &highest);
    const int fd = open(t->url, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(is_shared_lock_held(fd));
    tide_store *second = store_test_open(t);
    const bool is_held_beside = is_shared_lock_held(fd);
    store_test_close(t, &second);
    const bool is_held_after = is_shared_lock_held(fd);
    (void)close(fd);
    assert_true(is_held_beside);
    assert_true(is_held_after);
}

/* What fails is our own disk, in front of the machine's: files that cost nothing make it quick. */
static void use_quick_files(void)
{
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
}

TEST_FILE()
{
    use_quick_files();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failed_call_is_told_truly),
        cmocka_unit_test(a_torn_write_and_a_dying_disk_are_told_truly),
        cmocka_unit_test(a_failed_call_in_a_group_is_told_truly_to_all),
        cmocka_unit_test(a_refused_commit_does_not_come_back),
        cmocka_unit_test(a_failed_call_of_a_checkpoint_is_told_truly),
        cmocka_unit_test(a_failed_creation_can_be_repeated),
        cmocka_unit_test(a_full_disk_is_an_error_that_passes),
        cmocka_unit_test(a_trigger_that_rolls_back_spoils_only_its_closure),
        cmocka_unit_test(a_flipped_bit_is_reported_or_harmless),
        STORE_CASE_SQLITE(a_second_store_leaves_the_locks_of_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
