/* Small files become larger ones: the rows stay, whoever is faster wins, and one process at a time does it. */
#include "lake/lake_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "colony/duckdb/duckdb_place.h"
#include "lake/compact.h"
#include "lake/expire.h"
#include "lake/maintenance/hand_lake.h"
#include "lake/types.h"

/* ---- which files ---- */

enum { KIB = 1024, TARGET = 1000 * KIB };

typedef struct choice {
    tide_lake_file_seen files[16];
    uint64_t partitions[16];
    int count;
    int which[16];
    int chosen;
} choice;

static void add(choice *c, int64_t kib, uint64_t partition)
{
    c->files[c->count] = (tide_lake_file_seen){
        .data_file_id = c->count + 1, .file_size_bytes = kib * KIB, .record_count = 10};
    c->partitions[c->count++] = partition;
}

static void choose(choice *c)
{
    const tide_lake_compact_options options = {
        .target_bytes = TARGET, .files_least = 3, .files_most = 5};
    c->chosen = tide_lake_compact_choose(c->files, c->partitions, c->count, &options, c->which);
}

static void few_small_files_are_left_alone(void **state)
{
    (void)state;
    choice c = {0};
    add(&c, 10, 0);
    add(&c, 10, 0);
    choose(&c);
    assert_int_equal(0, c.chosen);
}

static void neighbours_are_taken_together_up_to_a_number(void **state)
{
    (void)state;
    choice c = {0};
    for (int i = 0; i < 7; i++)
        add(&c, 10, 0);
    choose(&c);
    assert_int_equal(5, c.chosen);
    assert_int_equal(4, c.which[4]);
}

static void a_large_file_parts_its_neighbours(void **state)
{
    (void)state;
    choice c = {0};
    add(&c, 10, 0);
    add(&c, 10, 0);
    add(&c, 900, 0);
    add(&c, 10, 0);
    add(&c, 10, 0);
    add(&c, 10, 0);
    choose(&c);
    assert_int_equal(3, c.chosen);
    assert_int_equal(3, c.which[0]);
}

static void other_partitions_are_passed_by(void **state)
{
    (void)state;
    choice c = {0};
    add(&c, 10, 1);
    add(&c, 10, 2);
    add(&c, 10, 1);
    add(&c, 900, 2);
    add(&c, 10, 1);
    choose(&c);
    assert_int_equal(3, c.chosen);
    assert_int_equal(0, c.which[0]);
    assert_int_equal(2, c.which[1]);
    assert_int_equal(4, c.which[2]);
}

static void the_target_is_not_exceeded(void **state)
{
    (void)state;
    choice c = {0};
    for (int i = 0; i < 5; i++)
        add(&c, 240, 0);
    choose(&c);
    assert_int_equal(4, c.chosen);
}

static void a_file_that_is_half_deleted_is_worth_it_alone(void **state)
{
    (void)state;
    choice c = {0};
    add(&c, 900, 0);
    add(&c, 900, 0);
    c.files[1].delete_file_id = 9;
    c.files[1].delete_count = 4;
    choose(&c);
    assert_int_equal(0, c.chosen);
    c.files[1].delete_count = 5;
    choose(&c);
    assert_int_equal(1, c.chosen);
    assert_int_equal(1, c.which[0]);
}

/* ---- with rows ---- */

typedef struct compact_case {
    lake_case l;
    tide_lake_data *data;
} compact_case;

static compact_case open_case(void **state, const char *partition)
{
    compact_case c = {.l = hand_lake(state)};
    duckdb_place();
    assert_ok_err(tide_lake_data_open(&c.data, tide_lake_data_dir(c.l.lake), NULL, &c.l.err),
                  &c.l.err);
    lake_catalog(&c.l, "work");
    tide_lake_column_def *defs = NULL;
    int count = 0;
    assert_ok_err(tide_lake_columns_parse("id BIGINT, kind VARCHAR", &defs, &count, &c.l.err),
                  &c.l.err);
    tide_lake_change *change = lake_begin(&c.l, "work");
    assert_ok_err(tide_lake_create_table(change, "main", "t", defs, count, &c.l.err), &c.l.err);
    tide_lake_column_defs_free(defs, count);
    const char *const transform = "identity";
    if (partition)
        assert_ok_err(
            tide_lake_partition_table(change, "main", "t", &partition, &transform, 1, &c.l.err),
            &c.l.err);
    (void)lake_commit(&c.l, change);
    return c;
}

static void close_case(compact_case *c)
{
    tide_lake_data_close(c->data);
    hand_lake_done(&c->l);
}

static int64_t append(compact_case *c, const char *csv)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c->l.t->dir, "rows.csv", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "id,kind\n%s", csv) > 0);
    assert_int_equal(0, fclose(file));
    tide_lake_change *change = lake_begin(&c->l, "work");
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    TIDE_CLEANUP(tide_lake_written_done) tide_lake_written written = {0};
    assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &c->l.err), &c->l.err);
    assert_ok_err(
        tide_lake_write_rows(c->data, &seen, path, TIDE_LAKE_BY_NAME, &written, &c->l.err),
        &c->l.err);
    for (int i = 0; i < written.count; i++)
        assert_ok_err(tide_lake_add_file(change, seen.table.id, &written.files[i], &c->l.err),
                      &c->l.err);
    return lake_commit(&c->l, change);
}

static tide_status take_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg;
    (void)names;
    (void)count;
    (void)err;
    return TIDE_OK;
}

static tide_status take_number(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    (void)err;
    assert_int_equal(1, count);
    *(int64_t *)arg = cells[0].i64;
    return TIDE_OK;
}

static int64_t sum_at(compact_case *c, int64_t snapshot)
{
    char at[24] = "";
    int64_t sum = 0;
    if (snapshot > 0)
        (void)snprintf(at, sizeof at, "%" PRId64, snapshot);
    const tide_lake_ask ask = {.text = "SELECT sum(id)::BIGINT FROM work.main.t",
                               .at = at,
                               .row_max = 10,
                               .bytes_max = 1 << 20,
                               .timeout_us = 60 * SECOND_US,
                               .columns = take_columns,
                               .row = take_number,
                               .arg = &sum};
    assert_ok_err(tide_lake_query(c->data, c->l.lake, &ask, &c->l.err), &c->l.err);
    return sum;
}

static tide_status count_file(void *arg, const tide_lake_disk_file *file, tide_error *err)
{
    (void)err;
    const size_t len = strlen(file->path);
    *(int *)arg += len > 8 && strcmp(file->path + len - 8, ".parquet") == 0;
    return TIDE_OK;
}

static int files_on_disk(compact_case *c)
{
    int count = 0;
    const tide_lake_disk *disk = tide_lake_disk_system();
    assert_ok_err(
        disk->walk(disk->context, tide_lake_data_dir(c->l.lake), count_file, &count, &c->l.err),
        &c->l.err);
    return count;
}

static tide_lake_compacted compact(compact_case *c)
{
    tide_lake_compacted compacted = {0};
    assert_ok_err(tide_lake_compact(c->l.lake, c->data, "work", NULL, &compacted, &c->l.err),
                  &c->l.err);
    return compacted;
}

/* ---- somebody who is faster ---- */

static void (*while_rewriting)(void *arg);
static void *while_rewriting_arg;

tide_status __real_tide_lake_rewrite(tide_lake_data *data, const tide_lake_table_seen *table,
                                     const tide_lake_files *files, tide_lake_written *out,
                                     tide_error *err);
tide_status __wrap_tide_lake_rewrite(tide_lake_data *data, const tide_lake_table_seen *table,
                                     const tide_lake_files *files, tide_lake_written *out,
                                     tide_error *err);

tide_status __wrap_tide_lake_rewrite(tide_lake_data *data, const tide_lake_table_seen *table,
                                     const tide_lake_files *files, tide_lake_written *out,
                                     tide_error *err)
{
    const tide_status status = __real_tide_lake_rewrite(data, table, files, out, err);
    if (while_rewriting)
        while_rewriting(while_rewriting_arg);
    return status;
}

static void small_files_become_one_and_the_rows_stay(void **state)
{
    compact_case c = open_case(state, NULL);
    append(&c, "1,a\n2,b\n");
    append(&c, "3,a\n");
    append(&c, "4,b\n");
    const int64_t before = append(&c, "5,a\n6,b\n");
    const tide_lake_compacted compacted = compact(&c);
    assert_int_equal(1, compacted.steps);
    assert_int_equal(4, compacted.files_before);
    assert_int_equal(1, compacted.files_after);
    assert_int_equal(6, compacted.rows);
    assert_int_equal(1, lake_files(&c.l, "work", "", "main", "t"));
    assert_int_equal(21, sum_at(&c, 0));
    assert_int_equal(21, sum_at(&c, before));
    assert_int_equal(0, compact(&c).steps);
    close_case(&c);
}

static void partitions_stay_apart(void **state)
{
    compact_case c = open_case(state, "kind");
    for (int i = 0; i < 4; i++)
        append(&c, "1,a\n10,b\n");
    assert_int_equal(8, lake_files(&c.l, "work", "", "main", "t"));
    const tide_lake_compacted compacted = compact(&c);
    assert_int_equal(2, compacted.steps);
    assert_int_equal(8, compacted.files_before);
    assert_int_equal(2, compacted.files_after);
    assert_int_equal(44, sum_at(&c, 0));
    close_case(&c);
}

static void drop_the_table(void *arg)
{
    compact_case *c = arg;
    while_rewriting = NULL;
    lake_drop(&c->l, "work", "main", "t");
}

static void who_is_slower_gives_up_and_leaves_no_files(void **state)
{
    compact_case c = open_case(state, NULL);
    for (int i = 0; i < 4; i++)
        append(&c, "1,a\n");
    assert_int_equal(4, files_on_disk(&c));
    while_rewriting = drop_the_table;
    while_rewriting_arg = &c;
    const tide_lake_compacted compacted = compact(&c);
    while_rewriting = NULL;
    assert_int_equal(0, compacted.steps);
    assert_int_equal(1, compacted.conflicts);
    assert_int_equal(4, files_on_disk(&c));
    close_case(&c);
}

static void insert_a_row(void *arg)
{
    while_rewriting = NULL;
    append(arg, "100,z\n");
}

static void an_insert_meanwhile_does_no_harm(void **state)
{
    compact_case c = open_case(state, NULL);
    for (int i = 0; i < 4; i++)
        append(&c, "1,a\n");
    while_rewriting = insert_a_row;
    while_rewriting_arg = &c;
    const tide_lake_compacted compacted = compact(&c);
    while_rewriting = NULL;
    assert_int_equal(1, compacted.steps);
    assert_int_equal(0, compacted.conflicts);
    assert_int_equal(104, sum_at(&c, 0));
    assert_int_equal(2, lake_files(&c.l, "work", "", "main", "t"));
    close_case(&c);
}

static tide_status claim_all(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    for (int64_t table = 1; table < 20; table++) {
        char name[64];
        tide_lease lease;
        (void)snprintf(name, sizeof name, "lake/compact/%" PRId64, table);
        TIDE_TRY(tide_lease_claim(tx, name, "another", 60 * SECOND_US, &lease, err));
    }
    return TIDE_OK;
}

static void a_table_that_another_works_on_is_left_to_it(void **state)
{
    compact_case c = open_case(state, NULL);
    for (int i = 0; i < 4; i++)
        append(&c, "1,a\n");
    assert_ok_err(tide_store_write(c.l.t->store, claim_all, NULL, &c.l.err), &c.l.err);
    const tide_lake_compacted held = compact(&c);
    assert_int_equal(0, held.steps);
    assert_int_equal(1, held.busy);
    virtual_env_advance(&c.l.t->clock, 61 * SECOND_US);
    assert_int_equal(1, compact(&c).steps);
    assert_int_equal(0, compact(&c).busy);
    close_case(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_small_files_are_left_alone),
        cmocka_unit_test(neighbours_are_taken_together_up_to_a_number),
        cmocka_unit_test(a_large_file_parts_its_neighbours),
        cmocka_unit_test(other_partitions_are_passed_by),
        cmocka_unit_test(the_target_is_not_exceeded),
        cmocka_unit_test(a_file_that_is_half_deleted_is_worth_it_alone),
        HAND_CASE(small_files_become_one_and_the_rows_stay),
        HAND_CASE(partitions_stay_apart),
        HAND_CASE(who_is_slower_gives_up_and_leaves_no_files),
        HAND_CASE(an_insert_meanwhile_does_no_harm),
        HAND_CASE(a_table_that_another_works_on_is_left_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, hand_group_teardown);
}
