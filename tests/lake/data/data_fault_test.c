/* Memory that runs out anywhere on the way: an error or the right result, and no files left behind. */
#include <string.h>

#include "lake/data/data_fixture.h"
#include "support/alloc_fault.h"

enum { ALLOCATIONS_MAX = 5000 };

static void write_once(void *arg)
{
    data_test *t = arg;
    tide_lake_written written = {0};
    const tide_status status = tide_lake_write_rows(t->data, &t->table, data_path(t, "rows.csv"),
                                                    TIDE_LAKE_BY_NAME, &written, &t->err);
    assert_true(status == TIDE_OK || status == TIDE_E_NOMEM);
    if (status == TIDE_OK) {
        assert_int_equal(written.rows, 4);
        assert_int_equal(data_count_files(t), written.count);
        tide_lake_written_discard(t->data, &t->table.table, &written);
    }
    tide_lake_written_done(&written);
    assert_int_equal(data_count_files(t), 0);
}

static void writing_without_memory_leaves_nothing(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR, c INTERVAL, d BIGINT DEFAULT 4");
    data_partition(t, "a", "bucket(2)");
    data_partition(t, "b", "identity");
    (void)data_file(t, "rows.csv", "a,b,c\n1,x,1 day\n1,x,2 days\n1,x,\n1,,\n");
    assert_true(alloc_fault_sweep(alloc_fault_at, write_once, t, ALLOCATIONS_MAX) > 0);
}

static void refuse_once(void *arg)
{
    data_test *t = arg;
    tide_lake_written written = {0};
    const tide_status status = tide_lake_write_rows(t->data, &t->table, data_path(t, "rows.csv"),
                                                    TIDE_LAKE_BY_NAME, &written, &t->err);
    assert_true(status == TIDE_E_INVALID || status == TIDE_E_NOMEM);
    assert_int_equal(data_count_files(t), 0);
}

static void refusing_without_memory_leaves_nothing(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    (void)data_file(t, "rows.csv", "a\n1\nx\n");
    ALLOC_FAULT_SWEEP(refuse_once, t, ALLOCATIONS_MAX);
}

static void delete_once(void *arg)
{
    data_test *t = arg;
    tide_lake_written written = {0};
    int which[DATA_FILES_MAX];
    int64_t rows = 0;
    const tide_status status = tide_lake_find_deletes(t->data, &t->table, &t->files, "a % 2 = 1",
                                                      &written, which, &rows, &t->err);
    assert_true(status == TIDE_OK || status == TIDE_E_NOMEM);
    assert_int_equal(rows, status == TIDE_OK ? 2 : 0);
    if (status == TIDE_OK)
        tide_lake_written_discard(t->data, &t->table.table, &written);
    tide_lake_written_done(&written);
    assert_int_equal(data_count_files(t), 3);
}

static void compact_once(void *arg)
{
    data_test *t = arg;
    tide_lake_written written = {0};
    const tide_status status = tide_lake_rewrite(t->data, &t->table, &t->files, &written, &t->err);
    assert_true(status == TIDE_OK || status == TIDE_E_NOMEM);
    if (status == TIDE_OK) {
        assert_int_equal(written.rows, 5);
        tide_lake_written_discard(t->data, &t->table.table, &written);
    }
    tide_lake_written_done(&written);
    assert_int_equal(data_count_files(t), 3);
}

static void put_rows(data_test *t)
{
    data_table(t, "a BIGINT");
    data_append_rows(t, "a\n1\n2\n3\n");
    data_append_rows(t, "a\n4\n5\n6\n");
    assert_int_equal(data_delete(t, "a = 3"), 1);
    assert_int_equal(data_count_files(t), 3);
}

static void deleting_without_memory_leaves_nothing(void **state)
{
    data_test *t = *state;
    put_rows(t);
    assert_true(alloc_fault_sweep(alloc_fault_at, delete_once, t, ALLOCATIONS_MAX) > 0);
}

static void compacting_without_memory_leaves_nothing(void **state)
{
    data_test *t = *state;
    put_rows(t);
    ALLOC_FAULT_SWEEP(compact_once, t, ALLOCATIONS_MAX);
}

static void ask_once(void *arg)
{
    data_test *t = arg;
    const tide_status status = data_try_ask(t, "SELECT sum(a) FROM t");
    alloc_fault_off(); /* what follows is the test's own */
    assert_true(status == TIDE_OK || status == TIDE_E_NOMEM);
    if (status == TIDE_OK)
        assert_string_equal(tide_buffer_text(&t->answer), "18\n");
}

static void asking_without_memory_says_so(void **state)
{
    data_test *t = *state;
    put_rows(t);
    assert_ok(tide_buffer_reserve(&t->answer, 1024));
    assert_true(alloc_fault_sweep(alloc_fault_at, ask_once, t, ALLOCATIONS_MAX) > 0);
}

static int teardown(void **state)
{
    alloc_fault_off();
    return data_teardown(state);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, data_setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(writing_without_memory_leaves_nothing),
        CASE(refusing_without_memory_leaves_nothing),
        CASE(deleting_without_memory_leaves_nothing),
        CASE(compacting_without_memory_leaves_nothing),
        CASE(asking_without_memory_says_so),
    };
    return cmocka_run_group_tests_name("lake data fault", tests, NULL, NULL);
}
