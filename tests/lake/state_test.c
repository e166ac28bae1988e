/* What a catalog holds: times, differences, columns, partitions, pruning, pins. */
#include "lake_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/timefmt.h"

static const char *at(int64_t snapshot)
{
    static char text[8][24];
    static int next;
    next = (next + 1) % 8;
    (void)snprintf(text[next], sizeof text[next], "%" PRId64, snapshot);
    return text[next];
}

static lake_case open_work(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    return l;
}

/* ---- times ---- */

typedef struct time_question {
    const char *catalog;
    const char *at;
    int64_t snapshot;
} time_question;

static tide_status ask_time(tide_tx *tx, void *arg, tide_error *err)
{
    time_question *q = arg;
    tide_lake_catalog catalog;
    TIDE_TRY(tide_lake_find_catalog(tx, q->catalog, &catalog, err));
    return tide_lake_find_snapshot(tx, &catalog, q->at, &q->snapshot, err);
}

static int64_t at_time(lake_case *l, const char *catalog, int64_t us)
{
    char text[TIDE_TIME_TEXT_SIZE];
    assert_ok(tide_time_format(us, text));
    time_question q = {.catalog = catalog, .at = text};
    assert_ok_err(tide_store_read(l->t->store, ask_time, &q, &l->err), &l->err);
    return q.snapshot;
}

static void a_time_finds_the_newest_snapshot_at_or_before_it(void **state)
{
    lake_case l = open_work(state);
    int64_t snapshots[4];
    int64_t times[4];
    for (int i = 0; i < 4; i++) {
        if (i != 2) /* the third has the time of the second */
            virtual_env_advance(&l.t->clock, SECOND_US);
        snapshots[i] = lake_insert(&l, "work", "main", "t", 1);
        times[i] = lake_find(&l, "work").head_time_us;
    }
    assert_int_equal(times[1], times[2]);
    assert_int_equal(at_time(&l, "work", times[0]), snapshots[0]);
    assert_int_equal(at_time(&l, "work", times[1] - 1), snapshots[0]);
    assert_int_equal(at_time(&l, "work", times[1]), snapshots[2]);
    assert_int_equal(at_time(&l, "work", times[3] + SECOND_US), snapshots[3]);
    lake_fork_of(&l, "work", "fork", "");
    assert_int_equal(at_time(&l, "fork", times[0]), snapshots[0]);
    lake_case_done(&l);
}

static void times_never_go_back_beside_numbers(void **state)
{
    lake_case l = open_work(state);
    virtual_env_advance(&l.t->clock, 10 * SECOND_US);
    lake_insert(&l, "work", "main", "t", 1);
    const int64_t before = lake_find(&l, "work").head_time_us;
    virtual_env_set_wall(&l.t->clock, before - 5 * SECOND_US);
    lake_insert(&l, "work", "main", "t", 1);
    assert_true(lake_find(&l, "work").head_time_us >= before);
    lake_case_done(&l);
}

/* ---- columns ---- */

static void columns_are_added_renamed_widened_and_dropped_and_the_past_keeps_them(void **state)
{
    lake_case l = open_work(state);
    const int64_t old = lake_insert(&l, "work", "main", "t", 1);
    TIDE_CLEANUP(tide_freep) char *was = lake_state(&l, "work", at(old));
    tide_lake_change *change = lake_begin(&l, "work");
    const tide_lake_column_def column = {.name = "n", .type = "int32", .default_value = "5"};
    const tide_lake_column_def bad = {.name = "m", .type = "int32", .is_not_null = true};
    assert_ok_err(tide_lake_add_column(change, "main", "t", &column, &l.err), &l.err);
    assert_status(TIDE_E_EXISTS, tide_lake_add_column(change, "main", "t", &column, &l.err));
    assert_status(TIDE_E_INVALID, tide_lake_add_column(change, "main", "t", &bad, &l.err));
    assert_contains(l.err.text, "DEFAULT");
    lake_commit(&l, change);
    change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_widen_column(change, "main", "t", "n", "int64", &l.err), &l.err);
    assert_status(TIDE_E_INVALID,
                  tide_lake_widen_column(change, "main", "t", "n", "int16", &l.err));
    assert_ok_err(tide_lake_rename_column(change, "main", "t", "n", "count", &l.err), &l.err);
    assert_ok_err(tide_lake_drop_column(change, "main", "t", "name", &l.err), &l.err);
    assert_status(TIDE_E_NOT_FOUND, tide_lake_drop_column(change, "main", "t", "name", &l.err));
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &l.err), &l.err);
    assert_int_equal(seen.column_count, 2);
    assert_string_equal(seen.columns[1].name, "count");
    assert_string_equal(seen.columns[1].type, "int64");
    assert_string_equal(seen.columns[1].initial_default, "5");
    lake_commit(&l, change);
    TIDE_CLEANUP(tide_freep) char *now = lake_state(&l, "work", "");
    assert_contains(now, "count int64 5");
    TIDE_CLEANUP(tide_freep) char *is = lake_state(&l, "work", at(old));
    assert_string_equal(was, is);
    lake_case_done(&l);
}

static void the_last_column_and_the_partition_s_stay(void **state)
{
    lake_case l = open_work(state);
    const char *const columns[] = {"name"};
    const char *const transforms[] = {"identity"};
    tide_lake_change *change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_partition_table(change, "main", "t", columns, transforms, 1, &l.err),
                  &l.err);
    assert_status(TIDE_E_INVALID, tide_lake_drop_column(change, "main", "t", "name", &l.err));
    assert_ok_err(tide_lake_drop_column(change, "main", "t", "id", &l.err), &l.err);
    assert_status(TIDE_E_INVALID, tide_lake_drop_column(change, "main", "t", "name", &l.err));
    assert_contains(l.err.text, "drop the table instead");
    lake_commit(&l, change);
    lake_case_done(&l);
}

/* ---- partitions ---- */

static void a_partition_begins_changes_and_ends(void **state)
{
    lake_case l = open_work(state);
    const char *const columns[] = {"id", "name"};
    const char *const good[] = {"bucket(8)", "identity"};
    const char *const year[] = {"year"};
    const char *const nonsense[] = {"sideways"};
    tide_lake_change *change = lake_begin(&l, "work");
    assert_status(TIDE_E_INVALID,
                  tide_lake_partition_table(change, "main", "t", columns, year, 1, &l.err));
    assert_status(TIDE_E_INVALID,
                  tide_lake_partition_table(change, "main", "t", columns, nonsense, 1, &l.err));
    assert_ok_err(tide_lake_partition_table(change, "main", "t", columns, good, 2, &l.err), &l.err);
    lake_commit(&l, change);
    change = lake_begin(&l, "work");
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &l.err), &l.err);
    assert_int_equal(seen.partition.count, 2);
    assert_string_equal(seen.partition.keys[0].transform, "bucket(8)");
    const char *const values[] = {"3", NULL};
    const tide_lake_new_file file = {.path = "p.parquet",
                                     .record_count = 1,
                                     .partition_values = values,
                                     .partition_id = seen.partition.id};
    tide_lake_new_file stale = file;
    stale.partition_id = seen.partition.id + 1;
    assert_status(TIDE_E_INVALID, tide_lake_add_file(change, seen.table.id, &stale, &l.err));
    assert_ok_err(tide_lake_add_file(change, seen.table.id, &file, &l.err), &l.err);
    lake_commit(&l, change);
    change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_partition_table(change, "main", "t", NULL, NULL, 0, &l.err), &l.err);
    lake_commit(&l, change);
    lake_case_done(&l);
}

/* ---- views ---- */

static void views_are_made_altered_and_dropped(void **state)
{
    lake_case l = open_work(state);
    tide_lake_change *change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_create_view(change, "main", "v", "SELECT 'x\"' FROM t", &l.err),
                  &l.err);
    assert_status(TIDE_E_EXISTS, tide_lake_create_view(change, "main", "T", "SELECT 1", &l.err));
    const int64_t first = lake_commit(&l, change);
    change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_alter_view(change, "main", "V", "SELECT 2", &l.err), &l.err);
    const int64_t second = lake_commit(&l, change);
    change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_drop_view(change, "main", "v", &l.err), &l.err);
    lake_commit(&l, change);
    TIDE_CLEANUP(tide_freep) char *a = lake_state(&l, "work", at(first));
    TIDE_CLEANUP(tide_freep) char *b = lake_state(&l, "work", at(second));
    TIDE_CLEANUP(tide_freep) char *c = lake_state(&l, "work", "");
    assert_contains(a, "SELECT 'x\"' FROM t");
    assert_contains(b, "SELECT 2");
    assert_null(strstr(c, "SELECT"));
    lake_case_done(&l);
}

/* ---- differences ---- */

typedef struct difference_list {
    int64_t catalog_id;
    int64_t a;
    int64_t b;
    char text[2048];
} difference_list;

static tide_status hear(void *arg, const tide_lake_difference *d, tide_error *err)
{
    (void)err;
    difference_list *list = arg;
    const size_t len = strlen(list->text);
    (void)snprintf(list->text + len, sizeof list->text - len, "%c%d%s%s ", d->sign, d->kind,
                   d->kind < TIDE_LAKE_DATA_FILE ? ":" : "",
                   d->kind < TIDE_LAKE_DATA_FILE ? d->name : "");
    return TIDE_OK;
}

static tide_status differ(tide_tx *tx, void *arg, tide_error *err)
{
    difference_list *list = arg;
    list->text[0] = '\0';
    return tide_lake_diff(tx, list->catalog_id, list->a, list->b, hear, list, err);
}

static void two_snapshots_differ_by_what_came_and_went(void **state)
{
    lake_case l = open_work(state);
    const int64_t a = lake_insert(&l, "work", "main", "t", 3);
    lake_table(&l, "work", "main", "u");
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_delete(&l, change, "main", "t", false);
    const int64_t b = lake_commit(&l, change);
    const int64_t c = lake_drop(&l, "work", "main", "t");
    difference_list list = {.catalog_id = lake_find(&l, "work").catalog_id, .a = a, .b = b};
    assert_ok_err(tide_store_read(l.t->store, differ, &list, &l.err), &l.err);
    assert_string_equal(list.text, "+2:u +4:id +4:name +6 ");
    list.b = a;
    list.a = b;
    assert_ok_err(tide_store_read(l.t->store, differ, &list, &l.err), &l.err);
    assert_string_equal(list.text, "-2:u -4:id -4:name -6 ");
    list.a = a;
    list.b = c;
    assert_ok_err(tide_store_read(l.t->store, differ, &list, &l.err), &l.err);
    assert_string_equal(list.text, "-2:t -4:id -4:name -5 +2:u +4:id +4:name ");
    lake_case_done(&l);
}

/* ---- pruning ---- */

typedef struct pruning {
    int64_t catalog_id;
    int64_t snapshot;
    int64_t table_id;
    const tide_lake_column *column;
    const char *op;
    const char *value;
    int count;
} pruning;

static tide_status count_one(void *arg, const tide_lake_file_seen *file, tide_error *err)
{
    (void)file;
    (void)err;
    ((pruning *)arg)->count++;
    return TIDE_OK;
}

static tide_status prune(tide_tx *tx, void *arg, tide_error *err)
{
    pruning *p = arg;
    p->count = 0;
    return tide_lake_each_file_where(tx, p->catalog_id, p->snapshot, p->table_id, p->column, p->op,
                                     p->value, count_one, p, err);
}

static void statistics_leave_out_files_that_cannot_hold_a_value(void **state)
{
    lake_case l = open_work(state);
    static const char *const bounds[][2] = {{"1", "9"}, {"10", "99"}, {"-5", "-2"}, {NULL, NULL}};
    tide_lake_change *change = lake_begin(&l, "work");
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &l.err), &l.err);
    for (int i = 0; i < 4; i++) {
        char path[16];
        (void)snprintf(path, sizeof path, "%d.parquet", i);
        const tide_lake_column_stats stats = {.column_id = seen.columns[0].id,
                                              .value_count = 1,
                                              .min_value = bounds[i][0],
                                              .max_value = bounds[i][1]};
        const tide_lake_new_file file = {
            .path = path, .record_count = 1, .stats = &stats, .stat_count = 1};
        assert_ok_err(tide_lake_add_file(change, seen.table.id, &file, &l.err), &l.err);
    }
    const int64_t snapshot = lake_commit(&l, change);
    static const struct {
        const char *op;
        const char *value;
        int count; /* one has no statistics, and is always given */
    } questions[] = {{"=", "9", 2},  {"=", "9.5", 1}, {"<", "1", 2},   {"<=", "1", 3},
                     {">", "99", 1}, {">=", "99", 2}, {"=", "-3", 2},  {"<", "-5", 1},
                     {">", "-6", 4}, {"=", "abc", 4}, {"<", "100", 4}, {">", "9", 2}};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        pruning p = {.catalog_id = lake_find(&l, "work").catalog_id,
                     .snapshot = snapshot,
                     .table_id = seen.table.id,
                     .column = &seen.columns[0],
                     .op = questions[i].op,
                     .value = questions[i].value};
        assert_ok_err(tide_store_read(l.t->store, prune, &p, &l.err), &l.err);
        if (p.count != questions[i].count)
            fail_msg("%s %s: %d files", p.op, p.value, p.count);
    }
    lake_case_done(&l);
}

/* ---- pins ---- */

static void a_pin_is_held_renewed_and_lost(void **state)
{
    lake_case l = open_work(state);
    const tide_lake_catalog work = lake_find(&l, "work");
    tide_lake_pin pin;
    assert_status(TIDE_E_NOT_FOUND,
                  tide_lake_pin_take(l.lake, work.catalog_id, 999, "me", SECOND_US, &pin, &l.err));
    assert_ok_err(
        tide_lake_pin_take(l.lake, work.catalog_id, work.head, "me", 10 * SECOND_US, &pin, &l.err),
        &l.err);
    virtual_env_advance(&l.t->clock, 5 * SECOND_US);
    assert_ok_err(tide_lake_pin_renew(l.lake, &pin, 10 * SECOND_US, &l.err), &l.err);
    virtual_env_advance(&l.t->clock, 11 * SECOND_US);
    assert_status(TIDE_E_LEASE_LOST, tide_lake_pin_renew(l.lake, &pin, SECOND_US, &l.err));
    assert_ok_err(tide_lake_pin_release(l.lake, &pin, &l.err), &l.err);
    assert_ok_err(tide_lake_pin_release(l.lake, &pin, &l.err), &l.err);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_time_finds_the_newest_snapshot_at_or_before_it),
        STORE_CASE(times_never_go_back_beside_numbers),
        STORE_CASE(columns_are_added_renamed_widened_and_dropped_and_the_past_keeps_them),
        STORE_CASE(the_last_column_and_the_partition_s_stay),
        STORE_CASE(a_partition_begins_changes_and_ends),
        STORE_CASE(views_are_made_altered_and_dropped),
        STORE_CASE(two_snapshots_differ_by_what_came_and_went),
        STORE_CASE(statistics_leave_out_files_that_cannot_hold_a_value),
        STORE_CASE(a_pin_is_held_renewed_and_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
