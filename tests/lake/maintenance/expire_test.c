/* Old snapshots go and take with them what nobody else needs; files leave the disk behind their rows. */
#include "lake/lake_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lake/data.h"
#include "lake/expire.h"
#include "lake/maintenance/hand_lake.h"
#include "store/engine.h"
#include "support/interleave.h"

static const char *at(int64_t snapshot)
{
    static char text[8][24];
    static int next;
    next = (next + 1) % 8;
    (void)snprintf(text[next], sizeof text[next], "%" PRId64, snapshot);
    return text[next];
}

/* A catalog with a table of three files, one per snapshot; the snapshot of the first. */
static int64_t make_table(lake_case *l, const char *catalog)
{
    lake_catalog(l, catalog);
    lake_table(l, catalog, "main", "t");
    const int64_t first = lake_insert(l, catalog, "main", "t", 1);
    lake_insert(l, catalog, "main", "t", 2);
    lake_insert(l, catalog, "main", "t", 3);
    return first;
}

static tide_lake_expired expire(lake_case *l, const char *catalog, int64_t keep_last)
{
    const tide_lake_expire_options options = {.keep_last = keep_last};
    tide_lake_expired expired;
    assert_ok_err(tide_lake_expire(l->lake, catalog, &options, &expired, &l->err), &l->err);
    lake_assert_sound(l);
    return expired;
}

static tide_lake_cleaned clean(lake_case *l, int64_t grace_us, bool with_orphans)
{
    const tide_lake_cleanup_options options = {.grace_us = grace_us, .with_orphans = with_orphans};
    tide_lake_cleaned cleaned;
    assert_ok_err(tide_lake_cleanup(l->lake, &options, &cleaned, &l->err), &l->err);
    return cleaned;
}

/* ---- files on the real disk ---- */

typedef struct file_list {
    char paths[16][512]; /* whole */
    int count;
} file_list;

typedef struct files_ask {
    lake_case *l;
    const char *catalog;
    file_list *list;
} files_ask;

static tide_status keep_path(void *arg, const tide_lake_file_seen *file, tide_error *err)
{
    (void)err;
    const files_ask *ask = arg;
    assert_true(ask->list->count < 16);
    (void)snprintf(ask->list->paths[ask->list->count++], sizeof ask->list->paths[0], "%s%s",
                   tide_lake_data_dir(ask->l->lake), file->path);
    return TIDE_OK;
}

static tide_status read_paths(tide_tx *tx, void *arg, tide_error *err)
{
    files_ask *ask = arg;
    tide_lake_catalog catalog;
    tide_lake_object schema;
    tide_lake_object table;
    ask->list->count = 0;
    TIDE_TRY(tide_lake_find_catalog(tx, ask->catalog, &catalog, err));
    TIDE_TRY(tide_lake_find_schema(tx, catalog.catalog_id, catalog.head, "main", &schema, err));
    TIDE_TRY(
        tide_lake_find_object(tx, catalog.catalog_id, catalog.head, schema.id, "t", &table, err));
    return tide_lake_each_file(tx, catalog.catalog_id, catalog.head, table.id, keep_path, ask, err);
}

static void make_directories(const char *path)
{
    char part[512];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        (void)mkdir(part, 0700);
    }
}

static void put_file(const char *path)
{
    make_directories(path);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs("rows", out) >= 0);
    assert_int_equal(0, fclose(out));
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* The files of main.t at the head, put on the disk. */
static file_list put_files(lake_case *l, const char *catalog)
{
    file_list list;
    files_ask ask = {l, catalog, &list};
    assert_ok_err(tide_store_read(l->t->store, read_paths, &ask, &l->err), &l->err);
    for (int i = 0; i < list.count; i++)
        put_file(list.paths[i]);
    return list;
}

static int count_there(const file_list *list)
{
    int count = 0;
    for (int i = 0; i < list->count; i++)
        count += is_there(list->paths[i]);
    return count;
}

/* ---- what goes and what stays ---- */

static void all_but_the_newest_snapshots_go(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    TIDE_CLEANUP(tide_freep) char *before = lake_state(&l, "work", "");
    const tide_lake_expired expired = expire(&l, "work", 2);
    assert_int_equal(3, expired.snapshots);
    assert_int_equal(0, expired.files);
    assert_false(expired.more);
    TIDE_CLEANUP(tide_freep) char *after = lake_state(&l, "work", "");
    assert_string_equal(before, after);
    assert_int_equal(3, lake_rows(&l, "work", at(lake_head(&l, "work") - 1), "main", "t"));
    hand_lake_done(&l);
}

static void snapshots_older_than_a_time_go(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    virtual_env_advance(&l.t->clock, 60 * SECOND_US);
    lake_insert(&l, "work", "main", "t", 4);
    const tide_lake_expire_options options = {.older_than_us = l.t->clock.wall_us - 30 * SECOND_US};
    tide_lake_expired expired;
    assert_ok_err(tide_lake_expire(l.lake, "work", &options, &expired, &l.err), &l.err);
    assert_int_equal(5, expired.snapshots);
    assert_int_equal(10, lake_rows(&l, "work", "", "main", "t"));
    hand_lake_done(&l);
}

static void a_turn_is_bounded_and_says_that_there_is_more(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    const tide_lake_expire_options options = {.keep_last = 1, .batch = 3};
    tide_lake_expired expired;
    assert_ok_err(tide_lake_expire(l.lake, "work", &options, &expired, &l.err), &l.err);
    assert_int_equal(3, expired.snapshots);
    assert_true(expired.more);
    assert_ok_err(tide_lake_expire(l.lake, "work", &options, &expired, &l.err), &l.err);
    assert_int_equal(1, expired.snapshots);
    assert_false(expired.more);
    hand_lake_done(&l);
}

/* A stock client whose transaction is open across the expiry checks against it when it tries again. */
static void what_snapshots_changed_outlives_them_for_a_while(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "books");
    expire(&l, "books", 1);
    const bool is_postgres = l.t->engine == TIDE_ENGINE_POSTGRES;
    if (is_postgres)
        lake_sql(&l,
                 "DO $$ BEGIN ASSERT (SELECT count(*) FROM ducklake_snapshot WHERE catalog_id = 1) "
                 "= 1; ASSERT (SELECT count(*) FROM ducklake_snapshot_changes WHERE catalog_id = "
                 "1) = 5; END $$");
    virtual_env_advance(&l.t->clock, TIDE_LAKE_CONFLICT_RETENTION_US + SECOND_US);
    lake_insert(&l, "books", "main", "t", 1);
    expire(&l, "books", 1);
    if (is_postgres)
        lake_sql(&l, "DO $$ BEGIN ASSERT (SELECT count(*) FROM ducklake_snapshot_changes WHERE "
                     "catalog_id = 1) = 2; END $$"); /* and the word that refuses older bases */
    hand_lake_done(&l);
}

static void a_pin_keeps_its_snapshot_until_it_runs_out(void **state)
{
    lake_case l = hand_lake(state);
    const int64_t first = make_table(&l, "work");
    const int64_t id = lake_find(&l, "work").catalog_id;
    tide_lake_pin pin;
    assert_ok_err(tide_lake_pin_take(l.lake, id, first, "reader", 10 * SECOND_US, &pin, &l.err),
                  &l.err);
    assert_int_equal(3, expire(&l, "work", 1).snapshots);
    assert_int_equal(1, lake_rows(&l, "work", at(first), "main", "t"));
    virtual_env_advance(&l.t->clock, 11 * SECOND_US);
    assert_int_equal(1, expire(&l, "work", 1).snapshots);
    assert_status(TIDE_E_LEASE_LOST, tide_lake_pin_renew(l.lake, &pin, 10 * SECOND_US, &l.err));
    assert_status(TIDE_E_NOT_FOUND,
                  tide_lake_pin_take(l.lake, id, first, "reader", SECOND_US, &pin, &l.err));
    hand_lake_done(&l);
}

static void a_forks_point_stays(void **state)
{
    lake_case l = hand_lake(state);
    const int64_t first = make_table(&l, "work");
    lake_fork_of(&l, "work", "child", at(first));
    assert_int_equal(3, expire(&l, "work", 1).snapshots);
    assert_int_equal(1, lake_rows(&l, "work", at(first), "main", "t"));
    assert_int_equal(1, lake_rows(&l, "child", "", "main", "t"));
    hand_lake_done(&l);
}

static void a_rehearsal_counts_and_changes_nothing(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    lake_drop(&l, "work", "main", "t");
    const tide_lake_expire_options options = {.keep_last = 1, .is_dry_run = true};
    tide_lake_expired rehearsed;
    assert_ok_err(tide_lake_expire(l.lake, "work", &options, &rehearsed, &l.err), &l.err);
    assert_int_equal(5, rehearsed.snapshots);
    assert_int_equal(3, rehearsed.files);
    const tide_lake_expired expired = expire(&l, "work", 1);
    assert_int_equal(rehearsed.snapshots, expired.snapshots);
    assert_int_equal(rehearsed.files, expired.files);
    assert_int_equal(rehearsed.rows, expired.rows);
    hand_lake_done(&l);
}

static void expiring_wants_to_know_what_and_of_which_catalog(void **state)
{
    lake_case l = hand_lake(state);
    lake_catalog(&l, "work");
    tide_lake_expired expired;
    const tide_lake_expire_options nothing = {0};
    const tide_lake_expire_options keep = {.keep_last = 1};
    assert_status(TIDE_E_INVALID, tide_lake_expire(l.lake, "work", &nothing, &expired, &l.err));
    assert_contains(l.err.text, "--keep)");
    assert_status(TIDE_E_NOT_FOUND, tide_lake_expire(l.lake, "none", &keep, &expired, &l.err));
    hand_lake_done(&l);
}

static void a_requests_key_answers_after_its_snapshot_expired(void **state)
{
    lake_case l = hand_lake(state);
    lake_catalog(&l, "work");
    const tide_lake_commit_options options = {.request_key = "once",
                                              .request_hash = tide_view_of("hash")};
    tide_lake_committed first;
    tide_lake_committed again;
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_create_schema(change, "s", &l.err), &l.err);
    assert_ok_err(tide_lake_commit(change, &options, &first, &l.err), &l.err);
    lake_table(&l, "work", "s", "t");
    expire(&l, "work", 1);
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *repeated = lake_begin(&l, "work");
    assert_ok_err(tide_lake_create_schema(repeated, "s2", &l.err), &l.err);
    assert_ok_err(tide_lake_commit(repeated, &options, &again, &l.err), &l.err);
    assert_true(again.is_replay);
    assert_int_equal(first.snapshot_id, again.snapshot_id);
    hand_lake_done(&l);
}

/* Nobody can tell what such a change would collide with. */
static void a_change_from_an_expired_base_is_refused(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_insert(&l, change, "main", "t", 1);
    lake_drop(&l, "work", "main", "t");
    lake_table(&l, "work", "main", "u");
    lake_table(&l, "work", "main", "v");
    expire(&l, "work", 1);
    assert_int_equal(TIDE_E_CONFLICT, lake_try_commit(&l, change));
    hand_lake_done(&l);
}

/* ---- files ---- */

static void a_dropped_tables_files_leave_the_disk_after_the_grace(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    const file_list files = put_files(&l, "work");
    lake_drop(&l, "work", "main", "t");
    assert_int_equal(3, expire(&l, "work", 1).files);
    assert_int_equal(0, clean(&l, 0, false).files);
    assert_int_equal(3, count_there(&files));
    virtual_env_advance(&l.t->clock, TIDE_LAKE_GRACE_US + SECOND_US);
    const tide_lake_cleaned cleaned = clean(&l, 0, false);
    assert_int_equal(3, cleaned.files);
    assert_int_equal(12, cleaned.bytes);
    assert_int_equal(0, count_there(&files));
    assert_int_equal(0, clean(&l, -1, false).files);
    hand_lake_done(&l);
}

static void a_file_that_is_gone_already_is_no_failure(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    const file_list files = put_files(&l, "work");
    lake_drop(&l, "work", "main", "t");
    expire(&l, "work", 1);
    assert_int_equal(0, unlink(files.paths[1]));
    const tide_lake_cleaned cleaned = clean(&l, -1, false);
    assert_int_equal(2, cleaned.files);
    assert_int_equal(1, cleaned.missing);
    assert_int_equal(0, clean(&l, -1, false).missing);
    hand_lake_done(&l);
}

static void a_shared_file_lives_until_no_catalog_needs_it(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    const file_list files = put_files(&l, "work");
    lake_fork_of(&l, "work", "child", "");
    lake_drop(&l, "work", "main", "t");
    assert_int_equal(0, expire(&l, "work", 1).files);
    assert_int_equal(0, clean(&l, -1, true).files);
    assert_int_equal(3, count_there(&files));
    assert_int_equal(6, lake_rows(&l, "child", "", "main", "t"));
    assert_ok_err(tide_lake_drop_catalog(l.lake, "child", &l.err), &l.err);
    const tide_lake_expired expired = expire(&l, NULL, 1);
    assert_int_equal(1, expired.catalogs);
    assert_int_equal(3, expired.files);
    assert_int_equal(3, clean(&l, -1, true).files);
    assert_int_equal(0, count_there(&files));
    hand_lake_done(&l);
}

static void a_dropped_parent_stays_until_its_last_fork_is_gone(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    const file_list files = put_files(&l, "work");
    lake_fork_of(&l, "work", "child", "");
    assert_ok_err(tide_lake_drop_catalog(l.lake, "work", &l.err), &l.err);
    assert_int_equal(0, expire(&l, NULL, 0).catalogs);
    assert_int_equal(6, lake_rows(&l, "child", "", "main", "t"));
    assert_int_equal(0, clean(&l, -1, true).files);
    assert_int_equal(3, count_there(&files));
    assert_ok_err(tide_lake_drop_catalog(l.lake, "child", &l.err), &l.err);
    assert_int_equal(2, expire(&l, NULL, 0).catalogs);
    assert_int_equal(3, clean(&l, -1, false).files);
    assert_int_equal(0, count_there(&files));
    hand_lake_done(&l);
}

static void files_outside_of_the_data_directory_are_left_alone(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    char victim[TEMPDIR_PATH_MAX];
    tempdir_join(&l.t->dir, "victim.parquet", victim);
    put_file(victim);
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "INSERT INTO ducklake_files_scheduled_for_deletion VALUES "
                   "(900001, '%s', FALSE, '2020-01-01 00:00:00.000000', 1), "
                   "(900002, '../victim.parquet', TRUE, '2020-01-01 00:00:00.000000', 1), "
                   "(900003, 'x/../../victim.parquet', TRUE, '2020-01-01 00:00:00.000000', 1)",
                   victim);
    lake_sql(&l, text);
    const tide_lake_cleaned cleaned = clean(&l, -1, false);
    assert_int_equal(3, cleaned.foreign);
    assert_int_equal(0, cleaned.files);
    assert_true(is_there(victim));
    assert_int_equal(0, clean(&l, -1, false).foreign);
    hand_lake_done(&l);
}

/* ---- orphans ---- */

static void to_real_time(lake_case *l, int64_t later_us)
{
    tide_env *real = tide_env_system();
    virtual_env_set_wall(&l->t->clock, real->wall_us(real) + later_us);
}

static void orphans_go_and_named_files_stay(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    const file_list files = put_files(&l, "work");
    char orphan[600];
    char other[600];
    (void)snprintf(orphan, sizeof orphan, "%.500s-x.parquet", files.paths[0]);
    (void)snprintf(other, sizeof other, "%.500s.txt", files.paths[0]);
    put_file(orphan);
    put_file(other);
    to_real_time(&l, TIDE_LAKE_ORPHAN_GRACE_US - 60 * SECOND_US);
    assert_int_equal(0, clean(&l, 0, true).orphans);
    to_real_time(&l, TIDE_LAKE_ORPHAN_GRACE_US + 60 * SECOND_US);
    const tide_lake_cleanup_options rehearsal = {.with_orphans = true, .is_dry_run = true};
    tide_lake_cleaned cleaned;
    assert_ok_err(tide_lake_cleanup(l.lake, &rehearsal, &cleaned, &l.err), &l.err);
    assert_int_equal(1, cleaned.orphans);
    assert_true(is_there(orphan));
    assert_int_equal(1, clean(&l, 0, true).orphans);
    assert_false(is_there(orphan));
    assert_true(is_there(other));
    assert_int_equal(3, count_there(&files));
    hand_lake_done(&l);
}

static void files_that_a_pin_may_stand_for_are_no_orphans(void **state)
{
    lake_case l = hand_lake(state);
    make_table(&l, "work");
    to_real_time(&l, 0);
    tide_lake_pin pin;
    assert_ok_err(tide_lake_pin_take(l.lake, lake_find(&l, "work").catalog_id,
                                     lake_head(&l, "work"), "writer", 3600 * SECOND_US, &pin,
                                     &l.err),
                  &l.err);
    char orphan[600];
    (void)snprintf(orphan, sizeof orphan, "%sbeing-written.parquet", tide_lake_data_dir(l.lake));
    put_file(orphan);
    to_real_time(&l, 60 * SECOND_US);
    assert_int_equal(0, clean(&l, -1, true).orphans);
    assert_ok_err(tide_lake_pin_release(l.lake, &pin, &l.err), &l.err);
    assert_int_equal(1, clean(&l, -1, true).orphans);
    assert_false(is_there(orphan));
    hand_lake_done(&l);
}

static void links_are_not_followed(void **state)
{
    lake_case l = hand_lake(state);
    lake_catalog(&l, "work");
    char outside[TEMPDIR_PATH_MAX];
    char victim[TEMPDIR_PATH_MAX];
    char link[600];
    tempdir_join(&l.t->dir, "outside", outside);
    tempdir_join(&l.t->dir, "outside/victim.parquet", victim);
    put_file(victim);
    (void)snprintf(link, sizeof link, "%slink", tide_lake_data_dir(l.lake));
    make_directories(link);
    assert_int_equal(0, symlink(outside, link));
    to_real_time(&l, 60 * SECOND_US);
    assert_int_equal(0, clean(&l, -1, true).orphans);
    assert_true(is_there(victim));
    hand_lake_done(&l);
}

/* ---- who comes first ---- */

typedef struct pinner {
    lake_case *l;
    tide_store *store;
    interleave *x;
    int actor;
    int64_t snapshot;
    tide_status status;
} pinner;

/* What pins and forks do: hold the snapshot, look, write. */
static tide_status pin_slowly(tide_tx *tx, void *arg, tide_error *err)
{
    const pinner *p = arg;
    char text[512];
    (void)snprintf(text, sizeof text,
                   "SELECT 1 FROM ducklake_snapshot WHERE snapshot_id = %" PRId64 "%s", p->snapshot,
                   p->l->t->engine == TIDE_ENGINE_POSTGRES ? " FOR KEY SHARE" : "");
    TIDE_TRY(tx->store->ops->script(tx, text, err));
    interleave_step(p->x, p->actor, 1);
    (void)snprintf(
        text, sizeof text,
        "INSERT INTO lake_pin VALUES ('00000000-0000-0000-0000-000000000001', 1, %" PRId64
        ", 'slow', '2020-01-01 00:00:00.000000', '2099-01-01 00:00:00.000000')",
        p->snapshot);
    return tx->store->ops->script(tx, text, err);
}

static void run_pinner(interleave *x, int actor, void *arg)
{
    pinner *p = arg;
    tide_error err;
    p->x = x;
    p->actor = actor;
    p->status = tide_store_write(p->store, pin_slowly, p, &err);
}

typedef struct expirer {
    tide_lake *lake;
    tide_lake_expired expired;
    tide_status status;
} expirer;

static void run_expirer(interleave *x, int actor, void *arg)
{
    (void)x;
    (void)actor;
    expirer *e = arg;
    tide_error err;
    const tide_lake_expire_options options = {.keep_last = 1};
    e->status = tide_lake_expire(e->lake, "work", &options, &e->expired, &err);
}

static void a_snapshot_that_is_being_pinned_is_waited_for_and_stays(void **state)
{
    lake_case l = hand_lake(state);
    const int64_t first = make_table(&l, "work");
    tide_store *second = store_test_open(l.t);
    pinner p = {.l = &l, .store = second, .snapshot = first};
    expirer e = {.lake = l.lake};
    interleave x;
    interleave_init(&x, l.t);
    const int a = interleave_add(&x, run_pinner, &p);
    const int b = interleave_add(&x, run_expirer, &e);
    interleave_until(&x, a, 1);
    interleave_blocked(&x, b);
    interleave_finish(&x, a);
    interleave_finish(&x, b);
    interleave_done(&x);
    assert_int_equal(TIDE_OK, p.status);
    assert_int_equal(TIDE_OK, e.status);
    assert_int_equal(3, e.expired.snapshots);
    assert_int_equal(1, lake_rows(&l, "work", at(first), "main", "t"));
    hand_lake_done(&l);
}

static void a_fork_of_an_expired_snapshot_is_told_so(void **state)
{
    lake_case l = hand_lake(state);
    const int64_t first = make_table(&l, "work");
    expire(&l, "work", 1);
    tide_lake_created made;
    assert_status(TIDE_E_NOT_FOUND,
                  tide_lake_fork(l.lake, "work", "child", at(first), NULL, &made, &l.err));
    hand_lake_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        HAND_CASE(all_but_the_newest_snapshots_go),
        HAND_CASE(snapshots_older_than_a_time_go),
        HAND_CASE(a_turn_is_bounded_and_says_that_there_is_more),
        HAND_CASE(what_snapshots_changed_outlives_them_for_a_while),
        HAND_CASE(a_pin_keeps_its_snapshot_until_it_runs_out),
        HAND_CASE(a_forks_point_stays),
        HAND_CASE(a_rehearsal_counts_and_changes_nothing),
        HAND_CASE(expiring_wants_to_know_what_and_of_which_catalog),
        HAND_CASE(a_requests_key_answers_after_its_snapshot_expired),
        HAND_CASE(a_change_from_an_expired_base_is_refused),
        HAND_CASE(a_dropped_tables_files_leave_the_disk_after_the_grace),
        HAND_CASE(a_file_that_is_gone_already_is_no_failure),
        HAND_CASE(a_shared_file_lives_until_no_catalog_needs_it),
        HAND_CASE(a_dropped_parent_stays_until_its_last_fork_is_gone),
        HAND_CASE(files_outside_of_the_data_directory_are_left_alone),
        HAND_CASE(orphans_go_and_named_files_stay),
        HAND_CASE(files_that_a_pin_may_stand_for_are_no_orphans),
        HAND_CASE(links_are_not_followed),
        HAND_CASE_POSTGRES(a_snapshot_that_is_being_pinned_is_waited_for_and_stays),
        HAND_CASE(a_fork_of_an_expired_snapshot_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, hand_group_teardown);
}
