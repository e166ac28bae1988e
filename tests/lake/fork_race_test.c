/* A fork that waits for its parent: its first snapshot comes after its point, whatever the catalogs' numbers. */
#include "lake_fixture.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "support/interleave.h"

typedef struct committer {
    tide_store *store;
    interleave *x;
    int actor;
    tide_status status;
} committer;

/* A commit by hand that changes nothing, and dawdles while it holds the head. */
static tide_status commit_slowly(tide_tx *tx, void *arg, tide_error *err)
{
    const committer *c = arg;
    TIDE_TRY(
        tx->store->ops->script(tx, "SELECT 1 FROM lake_head WHERE catalog_id = 2 FOR UPDATE", err));
    interleave_step(c->x, c->actor, 1);
    return tx->store->ops->script(
        tx,
        "UPDATE lake_head SET parent_snapshot_id = snapshot_id, "
        "snapshot_id = nextval('ducklake_snapshot_id_seq') WHERE catalog_id = 2;"
        "INSERT INTO ducklake_snapshot SELECT h.snapshot_id, s.snapshot_time, s.schema_version, "
        "s.next_catalog_id, s.next_file_id, 2 FROM lake_head h JOIN ducklake_snapshot s "
        "ON s.snapshot_id = h.parent_snapshot_id WHERE h.catalog_id = 2;"
        "INSERT INTO ducklake_snapshot_changes SELECT snapshot_id, '', NULL, NULL, NULL, 2 "
        "FROM lake_head WHERE catalog_id = 2;"
        "INSERT INTO lake_commit (snapshot_id, catalog_id, parent_snapshot_id, digest_a, digest_b, "
        "request_key, committed_at) SELECT snapshot_id, 2, parent_snapshot_id, digest_a, digest_b, "
        "'slow', snapshot_time FROM lake_head WHERE catalog_id = 2",
        err);
}

static void run_committer(interleave *x, int actor, void *arg)
{
    committer *c = arg;
    tide_error err;
    c->x = x;
    c->actor = actor;
    c->status = tide_store_write(c->store, commit_slowly, c, &err);
}

typedef struct forker {
    tide_lake *lake;
    tide_lake_created made;
    tide_status status;
} forker;

static void run_forker(interleave *x, int actor, void *arg)
{
    (void)x;
    (void)actor;
    forker *f = arg;
    tide_error err;
    f->status = tide_lake_fork(f->lake, "c2", "child", "", NULL, &f->made, &err);
}

/* Numbers are taken in the order of their keys, and "10" stands before "2". */
static void a_fork_that_waited_begins_after_its_point(void **state)
{
    lake_case l = lake_case_open(state);
    for (int i = 1; i <= 9; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "c%d", i);
        assert_int_equal(i, lake_catalog(&l, name));
    }
    committer c = {.store = store_test_open(l.t)};
    forker f = {.lake = l.lake};
    interleave x;
    interleave_init(&x, l.t);
    const int a = interleave_add(&x, run_committer, &c);
    const int b = interleave_add(&x, run_forker, &f);
    interleave_until(&x, a, 1);
    interleave_blocked(&x, b);
    interleave_finish(&x, a);
    interleave_finish(&x, b);
    interleave_done(&x);
    assert_int_equal(TIDE_OK, c.status);
    assert_int_equal(TIDE_OK, f.status);
    assert_int_equal(10, f.made.catalog_id);
    assert_int_equal(lake_head(&l, "c2"), f.made.parent_snapshot_id);
    assert_true(f.made.snapshot_id > f.made.parent_snapshot_id);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(a_fork_that_waited_begins_after_its_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
