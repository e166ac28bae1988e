#include "support/alloc_fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "support/check.h"
#include "support/disk/fault_vfs.h"
#include "support/tempdir.h"

enum { SWEEP_MAX = 5000, THREADS = 4, BLOCKS_PER_THREAD = 1000 };

static int turn_off(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

/* Kept out of the optimiser's sight: an allocation that is only freed may be left out. */
static void *volatile kept;

static bool can_allocate(void)
{
    kept = malloc(16);
    const bool is_there = kept != NULL;
    free(kept);
    return is_there;
}

/* One shot: the nth fails, its neighbours do not. */
static void the_nth_allocation_fails_once(void **state)
{
    (void)state;
    alloc_fault_at(3);
    assert_true(can_allocate());
    assert_true(can_allocate());
    errno = 0;
    assert_false(can_allocate());
    assert_int_equal(errno, ENOMEM);
    assert_true(can_allocate());
    alloc_fault_off();
    assert_true(can_allocate());
    assert_int_equal(alloc_fault_count(), 4);
    assert_int_equal(alloc_fault_hit(), 1);
}

/* Lasting: memory is gone until it is switched off. */
static void from_the_nth_on_all_allocations_fail(void **state)
{
    (void)state;
    alloc_fault_from(2);
    assert_true(can_allocate());
    assert_false(can_allocate());
    assert_false(can_allocate());
    alloc_fault_off();
    assert_true(can_allocate());
    assert_int_equal(alloc_fault_hit(), 2);
}

/* Zero only counts. */
static void zero_fails_nothing(void **state)
{
    (void)state;
    alloc_fault_at(0);
    assert_true(can_allocate());
    alloc_fault_from(0);
    assert_true(can_allocate());
    assert_int_equal(alloc_fault_count(), 1);
    assert_int_equal(alloc_fault_hit(), 0);
}

/* Each wrapped function passes here, and a failed realloc leaves its block alone. */
static void every_kind_of_allocation_can_fail(void **state)
{
    (void)state;
    /* Called through a pointer: the compiler would count the block as gone. */
    void *(*volatile resize)(void *, size_t) = realloc;
    void *aligned = NULL;
    char *text = strdup("kept");
    assert_non_null(text);

    alloc_fault_from(1);
    kept = calloc(2, 8);
    assert_null(kept);
    char *grown = resize(text, 4096);
    assert_null(grown);
    assert_string_equal(text, "kept");
    kept = strdup(text);
    assert_null(kept);
    kept = aligned_alloc(64, 64);
    assert_null(kept);
    assert_int_equal(posix_memalign(&aligned, 64, 64), ENOMEM);
    alloc_fault_off();
    assert_int_equal(alloc_fault_hit(), 5);

    kept = aligned_alloc(64, 64);
    assert_non_null(kept);
    free(kept);
    assert_int_equal(posix_memalign(&aligned, 64, 64), 0);
    free(aligned);
    free(grown ? grown : text);
}

/* Three allocations, each of which may be the one that fails; reports which were seen failing. */
static void allocate_three(void *arg)
{
    int *failures = arg;
    for (int i = 0; i < 3; i++)
        if (!can_allocate())
            failures[i]++;
}

/* The sweep fails each allocation exactly once, and stops after the last. */
static void a_sweep_fails_every_allocation_once(void **state)
{
    (void)state;
    int failures[3] = {0};
    assert_int_equal(alloc_fault_sweep(alloc_fault_at, allocate_three, failures, 10), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(failures[i], 1);
    assert_int_equal(alloc_fault_sweep(alloc_fault_from, allocate_three, failures, 10), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(failures[i], 1 + i + 1);
    assert_int_equal(alloc_fault_sweep(alloc_fault_at, allocate_three, failures, 2), -1);
}

static void *allocate_many(void *arg)
{
    int64_t *failures = arg;
    for (int i = 0; i < BLOCKS_PER_THREAD; i++) {
        void *volatile block = malloc(16);
        *failures += block == NULL;
        free(block);
    }
    return NULL;
}

/* However the threads meet, one of them gets the failure, and every allocation is counted. */
static void threads_share_one_count(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int64_t failures[THREADS] = {0};
    int64_t sum = 0;
    alloc_fault_at(THREADS * BLOCKS_PER_THREAD / 2);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_many, &failures[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += failures[i];
    }
    alloc_fault_off();
    assert_int_equal(sum, 1);
    assert_int_equal(alloc_fault_hit(), 1);
    assert_true(alloc_fault_count() >= THREADS * BLOCKS_PER_THREAD);
}

/* SQLite from its start to its end. A failure is reported as such, or the answer is right. */
static void use_sqlite(void *arg)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    int *refusals = arg;

    int rc = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db,
                          "CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT);"
                          "CREATE INDEX t_v ON t(v);"
                          "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three');",
                          NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(db, "SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY v)", -1,
                                &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    if (text)
        assert_string_equal(text, "one,three,two");
    else
        assert_true(alloc_fault_hit() > 0);
    if (rc != SQLITE_ROW)
        assert_int_equal(rc & 0xff, SQLITE_NOMEM);
    *refusals += !text;
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    sqlite3_shutdown(); /* so that each run allocates the same */
}

/* Every allocation of a whole life of SQLite fails once; none brings the program down. */
static void sqlite_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    int refusals = 0;
    alloc_fault_at(0);
    use_sqlite(&refusals);
    alloc_fault_off();
    const int64_t needed = alloc_fault_count();
    assert_int_equal(refusals, 0);
    assert_true(needed > 20);

    const int64_t failed = alloc_fault_sweep(alloc_fault_at, use_sqlite, &refusals, SWEEP_MAX);
    print_message("%ld allocations, %ld failed in turn, %d refusals\n", (long)needed, (long)failed,
                  refusals);
    assert_true(failed >= needed);
    assert_true(refusals > 0 && refusals <= failed);
    ALLOC_FAULT_SWEEP(use_sqlite, &refusals, SWEEP_MAX);
}

typedef struct disk_case {
    tempdir dir;
    fault_vfs *disk;
    int runs;
} disk_case;

static sqlite3 *open_on_disk(const disk_case *c, const char *path)
{
    sqlite3 *db = NULL;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    if (sqlite3_open_v2(path, &db, flags, fault_vfs_name(c->disk)) == SQLITE_OK)
        return db;
    sqlite3_close(db);
    return NULL;
}

static int64_t count_rows(sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;
    int64_t rows = 0;
    if (sqlite3_prepare_v2(db, "SELECT count(*) FROM t", -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        rows = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return rows;
}

/* A database of its own for each run, written without memory and read back with it. */
static void insert_on_disk(void *arg)
{
    disk_case *c = arg;
    char name[32];
    char path[TEMPDIR_PATH_MAX];
    snprintf(name, sizeof(name), "%d.db", c->runs++);
    tempdir_join(&c->dir, name, path);

    sqlite3 *db = open_on_disk(c, path);
    const bool is_acknowledged = db && sqlite3_exec(db,
                                                    "PRAGMA journal_mode=WAL; CREATE TABLE t(x);"
                                                    "INSERT INTO t VALUES (zeroblob(9000))",
                                                    NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_close(db);
    alloc_fault_off();
    assert_true(is_acknowledged || alloc_fault_hit() > 0);

    db = open_on_disk(c, path);
    assert_non_null(db);
    assert_true(count_rows(db) >= is_acknowledged);
    sqlite3_close(db);
}

/* The simulated disk allocates too: its failures are errors to SQLite, and no row goes missing. */
static void a_database_on_a_simulated_disk_survives_the_sweep(void **state)
{
    (void)state;
    tide_error err;
    disk_case c = {0};
    assert_ok_err(tempdir_make(&c.dir, &err), &err);
    c.disk = fault_vfs_new(c.dir.path, 1);
    ALLOC_FAULT_SWEEP(insert_on_disk, &c, SWEEP_MAX);
    print_message("%d runs\n", c.runs);
    fault_vfs_free(c.disk);
    assert_ok_err(tempdir_remove(&c.dir, &err), &err);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_nth_allocation_fails_once, turn_off),
        cmocka_unit_test_teardown(from_the_nth_on_all_allocations_fail, turn_off),
        cmocka_unit_test_teardown(zero_fails_nothing, turn_off),
        cmocka_unit_test_teardown(every_kind_of_allocation_can_fail, turn_off),
        cmocka_unit_test_teardown(a_sweep_fails_every_allocation_once, turn_off),
        cmocka_unit_test_teardown(threads_share_one_count, turn_off),
        cmocka_unit_test_teardown(sqlite_survives_the_failure_of_every_allocation, turn_off),
        cmocka_unit_test_teardown(a_database_on_a_simulated_disk_survives_the_sweep, turn_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
