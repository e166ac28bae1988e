/* When memory runs out or the power goes: an import is there or not there, an export is right or an error, and the store goes
 * on. */
#include "journal/journal_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/alloc_fault.h"
#include "support/disk/fault_vfs.h"
#include "support/prng.h"

enum { SWEEP_MAX = 200000, CUTS = 60, ROWS = 4 };

/* ---- a small store and its export ---- */

static void fill(store_test *t)
{
    make_task(t, "a");
    const char *const tags[] = {"x", "y"};
    TIDE_CLEANUP(tide_freep) char *large = make_state(1, 12000);
    (void)append_n(t, "a", 1);
    (void)append_new(t, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                              .type = "manual_checkpoint",
                                              .snapshot = tide_view_of(large), .message = "large",
                                              .tags = tags, .tag_count = 2});
    char made[TIDE_JOURNAL_ID_MAX + 1];
    assert_ok(tide_journal_fork(t->store, "2", "f", NULL, made, &t->err));
    (void)append_n(t, "f", 3);
    (void)append_n(t, "a", 4);
    assert_ok(tide_journal_annotate(t->store, "1", "info", "a note", NULL, &t->err));
}

static tide_store *open_inline(store_test *t, const char *name)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, name, path);
    tide_store_options options = store_test_options(t);
    options.is_inline = true;
    tide_store *store = NULL;
    assert_ok_err(tide_store_open(&store, path, &options, &t->err), &t->err);
    t->others[t->other_count++] = store;
    return store;
}

static bool is_said(tide_status status)
{
    return status == TIDE_E_NOMEM || status == TIDE_E_OUTCOME_UNKNOWN;
}

/* ---- memory ---- */

typedef struct memory_case {
    store_test *t;
    tide_store *store;
    memory_file file;
    int64_t nth;
} memory_case;

/* All of it or nothing of it, whatever was answered; and a second try completes it. */
static void check_import(memory_case *c, tide_status status, const tide_error *err, int64_t before)
{
    const int64_t rows = ASK(c->store, "SELECT count(*) FROM checkpoints");
    const bool is_right = (status >= TIDE_OK && rows == ROWS) ||
                          (status == TIDE_E_NOMEM && rows == 0) ||
                          (status == TIDE_E_OUTCOME_UNKNOWN && (rows == 0 || rows == ROWS));
    if (!is_right)
        fail_msg("allocation %" PRId64 ": %s (%s), %" PRId64 " rows", c->nth,
                 tide_status_get(status)->name, status < TIDE_OK ? err->text : "", rows);
    if (rows == 0)
        assert_int_equal(before, head_of(c->store));
    assert_sound(c->store);
    run_sql(c->store, "DELETE FROM tasks WHERE forked_from IS NOT NULL; DELETE FROM tasks");
}

static void sweep_import(memory_case *c, void (*arm)(int64_t nth), int64_t step)
{
    bool is_met = true;
    for (c->nth = 1; is_met && c->nth < SWEEP_MAX; c->nth += step) {
        const int64_t before = head_of(c->store);
        tide_journal_transfer counts;
        tide_error err;
        arm(c->nth);
        const tide_status status = import_from(c->store, &c->file, &counts, &err);
        is_met = alloc_fault_hit() > 0;
        alloc_fault_off();
        check_import(c, status, &err, before);
    }
    assert_false(is_met);
    print_message("%" PRId64 " allocations\n", c->nth);
}

static void an_import_survives_every_failing_allocation(void **state)
{
    store_test *t = *state;
    fill(t);
    memory_case c = {.t = t, .store = open_inline(t, "other.db")};
    export_to(t->store, NULL, &c.file);
    sweep_import(&c, alloc_fault_at, 3);
    sweep_import(&c, alloc_fault_from, 17);
    memory_done(&c.file);
}

/* The same bytes, or an error that names memory. */
static void an_export_survives_every_failing_allocation(void **state)
{
    store_test *t = *state;
    fill(t);
    TIDE_CLEANUP(memory_done) memory_file want = {0};
    export_to(t->store, NULL, &want);
    tide_store_closep(&t->store);
    t->store = open_inline(t, "store.db");
    t->others[t->other_count - 1] = NULL;
    void (*const arms[])(int64_t) = {alloc_fault_at, alloc_fault_from};
    for (int i = 0; i < 2; i++) {
        bool is_met = true;
        for (int64_t nth = 1; is_met && nth < SWEEP_MAX; nth++) {
            TIDE_CLEANUP(memory_done)
            memory_file file = {.bytes = malloc(want.size), .size = want.size};
            tide_journal_transfer counts;
            tide_error err;
            arms[i](nth);
            const tide_status status = tide_journal_export(
                t->store,
                &(tide_journal_export_request){TIDE_JOURNAL_EXPORT_REQUEST_INIT,
                                               .write = memory_write, .arg = &file},
                &counts, &err);
            is_met = alloc_fault_hit() > 0;
            alloc_fault_off();
            if (status < TIDE_OK && !is_said(status))
                fail_msg("allocation %" PRId64 ": %s", nth, err.text);
            if (status >= TIDE_OK)
                assert_int_equal(want.len, file.len);
        }
        assert_false(is_met);
    }
}

/* Appending, reading, verifying, removing: an error, or done. */
static void the_journal_survives_every_failing_allocation(void **state)
{
    store_test *t = *state;
    tide_store *store = open_inline(t, "other.db");
    run_sql(store, "INSERT INTO tasks (task_id) VALUES ('a')");
    TIDE_CLEANUP(tide_freep) char *large = make_state(1, 12000);
    const char *const tags[] = {"x"};
    bool is_met = true;
    for (int64_t nth = 1; is_met && nth < SWEEP_MAX; nth++) {
        char id[32];
        (void)snprintf(id, sizeof id, "c%" PRId64, nth);
        const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT,
                                         .checkpoint_id = id,
                                         .task_id = "a",
                                         .type = "manual_checkpoint",
                                         .snapshot = tide_view_of(large),
                                         .tags = tags,
                                         .tag_count = 1};
        static seen_list list;
        list.count = 0;
        const tide_compaction policy = {TIDE_COMPACTION_INIT, .keep = 3};
        const tide_journal_filter filter = {TIDE_JOURNAL_FILTER_INIT, .tag = "x",
                                            .with_snapshot = true};
        const int64_t head = head_of(store);
        tide_checkpoint_numbers numbers;
        tide_error err;
        tide_status statuses[5];
        alloc_fault_at(nth);
        statuses[0] = tide_journal_append(store, &row, &numbers, &err);
        statuses[1] = tide_journal_list(store, &filter, see, &list, &err);
        statuses[2] = tide_journal_verify(store, NULL, NULL, NULL, NULL, &err);
        statuses[3] = tide_journal_compact(store, &policy, NULL, &err);
        statuses[4] = tide_journal_find(store, id, true, see, &list, &err);
        is_met = alloc_fault_hit() > 0;
        alloc_fault_off();
        for (int i = 0; i < 5; i++)
            if (statuses[i] < TIDE_OK && !is_said(statuses[i]))
                fail_msg("allocation %" PRId64 ", call %d: %s", nth, i, err.text);
        if (statuses[0] == TIDE_OK)
            assert_int_equal(head + 1, head_of(store));
        else if (statuses[0] == TIDE_E_NOMEM)
            assert_int_equal(head, head_of(store));
        assert_sound(store);
    }
    assert_false(is_met);
}

static int off(void **state)
{
    alloc_fault_off();
    return store_fixture_teardown(state);
}

/* ---- power ---- */

typedef struct power_case {
    tempdir dir;
    tempdir image;
    virtual_env clock;
    prng chance;
    fault_vfs *disk;
    tide_store *store;
    tide_error err;
} power_case;

static void open_on(power_case *c, const tempdir *dir, bool is_on_disk)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(dir, "store.db", path);
    const tide_store_options options = {
        TIDE_STORE_OPTIONS_INIT,
        .env = &c->clock.env,
        .state_dir = "",
        .is_inline = true,
        .sqlite_vfs = is_on_disk ? fault_vfs_name(c->disk) : NULL,
    };
    assert_ok_err(tide_store_open(&c->store, path, &options, &c->err), &c->err);
}

static void add_local_rows(power_case *c)
{
    run_sql(c->store, "INSERT INTO tasks (task_id) VALUES ('z')");
    for (int i = 0; i < 3; i++) {
        const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "z",
                                         .type = "manual_checkpoint",
                                         .snapshot = tide_view_of("{}")};
        assert_ok_err(tide_journal_append(c->store, &row, NULL, &c->err), &c->err);
    }
}

/* Returns false when the import was through before the power went. */
static bool cut_once(uint64_t seed, int64_t nth, memory_file *file)
{
    power_case c = {0};
    prng_init(&c.chance, seed);
    virtual_env_init(&c.clock, seed);
    assert_ok(tempdir_make(&c.dir, &c.err));
    assert_ok(tempdir_make(&c.image, &c.err));
    c.disk = fault_vfs_new(c.dir.path, seed);
    open_on(&c, &c.dir, true);
    add_local_rows(&c);
    fault_vfs_power_cut_at(c.disk, FAULT_VFS_ANY, nth);
    tide_journal_transfer counts;
    const tide_status status = import_from(c.store, file, &counts, &c.err);
    const bool is_cut = fault_vfs_is_cut(c.disk);
    if (!is_cut)
        fault_vfs_power_cut(c.disk);
    tide_store_closep(&c.store);
    fault_vfs_image(c.disk, FAULT_VFS_KEEP_RANDOM, &c.chance, c.image.path);
    open_on(&c, &c.image, false);
    const int64_t rows = ASK(c.store, "SELECT count(*) FROM checkpoints");
    if (rows != 3 && rows != 3 + ROWS)
        fail_msg("call %" PRId64 ": %" PRId64 " rows", nth, rows);
    if (status == TIDE_OK)
        assert_int_equal(3 + ROWS, rows);
    assert_int_equal(rows, head_of(c.store));
    assert_sound(c.store);
    /* Later: what was left lying about is cleaned away, and the import completes. */
    virtual_env_advance(&c.clock, 2 * 3600 * SECOND_US);
    assert_ok_err(import_from(c.store, file, &counts, &c.err), &c.err);
    assert_int_equal(3 + ROWS, ASK(c.store, "SELECT count(*) FROM checkpoints"));
    assert_int_equal(0, ASK(c.store, "SELECT (SELECT count(*) FROM import_runs) + (SELECT count(*) "
                                     "FROM import_checkpoints) + (SELECT count(*) FROM "
                                     "import_chunks) + (SELECT count(*) FROM chunk_candidates)"));
    assert_sound(c.store);
    tide_store_closep(&c.store);
    fault_vfs_free(c.disk);
    TIDE_IGNORE(tempdir_remove(&c.dir, NULL));
    TIDE_IGNORE(tempdir_remove(&c.image, NULL));
    virtual_env_done(&c.clock);
    return is_cut;
}

/* The power goes at call 1, 4, 7, ... of the disk: after that the import is complete or has never been. */
static void an_import_is_whole_or_not_at_all_after_a_power_cut(void **state)
{
    store_test *t = *state;
    fill(t);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    export_to(t->store, NULL, &file);
    const uint64_t seed = prng_seed_from_env(20261116);
    bool is_cut = true;
    int64_t nth = 1;
    for (uint64_t i = 0; is_cut && i < 1000; i++, nth += 3)
        is_cut = cut_once(seed + i, nth, &file);
    assert_false(is_cut);
    print_message("cut at calls up to %" PRId64 "\n", nth);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        {"an_import_survives_every_failing_allocation", an_import_survives_every_failing_allocation,
         store_fixture_setup_sqlite, off, NULL},
        {"an_export_survives_every_failing_allocation", an_export_survives_every_failing_allocation,
         store_fixture_setup_sqlite, off, NULL},
        {"the_journal_survives_every_failing_allocation",
         the_journal_survives_every_failing_allocation, store_fixture_setup_sqlite, off, NULL},
        STORE_CASE_SQLITE(an_import_is_whole_or_not_at_all_after_a_power_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
