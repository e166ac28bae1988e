/* Parquet files of a colony's rows: each row in one file, once, whatever dies in between. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "colony/duckdb/duckdb_rig.h"
#include "colony/export.h"
#include "store/duckdb/duckdb.h"

static void out_dir(duckdb_rig *r, char out[TEMPDIR_PATH_MAX])
{
    tempdir_join(&r->dir, "out", out);
}

static tide_export_sum run(duckdb_rig *r, int64_t row_max)
{
    char dir[TEMPDIR_PATH_MAX];
    out_dir(r, dir);
    tide_export_sum sum = {0};
    const tide_export_options options = {.sink = r->sink, .dir = dir, .row_max = row_max};
    assert_ok_err(tide_export_run(&options, NULL, NULL, &sum, &r->err), &r->err);
    return sum;
}

typedef struct number {
    int64_t value;
} number;

static tide_status ignore_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg;
    (void)names;
    (void)count;
    (void)err;
    return TIDE_OK;
}

static tide_status take_number(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    (void)count;
    (void)err;
    ((number *)arg)->value = cells[0].i64;
    return TIDE_OK;
}

/* What a reader of all files sees. */
static int64_t read_files(duckdb_rig *r, const char *what, const char *table)
{
    char dir[TEMPDIR_PATH_MAX];
    char sql[TEMPDIR_PATH_MAX + 128];
    out_dir(r, dir);
    (void)snprintf(sql, sizeof sql, "SELECT %s FROM read_parquet('%s/%s/*/*.parquet')", what, dir,
                   table);
    const tide_duckdb_options options = {.threads = 1, .may_touch_files = true};
    tide_duckdb *db = NULL;
    assert_ok_err(tide_duckdb_open(&db, NULL, &options, &r->err), &r->err);
    number n = {0};
    const tide_duck_ask ask = {.text = sql,
                               .row_max = 10,
                               .bytes_max = 1000,
                               .timeout_us = 20000000,
                               .columns = ignore_columns,
                               .row = take_number,
                               .arg = &n};
    assert_ok_err(tide_duckdb_ask(db, &ask, &r->err), &r->err);
    tide_duckdb_close(db);
    return n.value;
}

static void check_files(duckdb_rig *r, int64_t rows)
{
    assert_int_equal(rows, read_files(r, "count(*)", "spans"));
    assert_int_equal(
        rows, read_files(r, "count(DISTINCT (agent_id, session_id, epoch, seq_id))", "spans"));
}

/* Every run writes what is new, in files of at most so many rows. */
static void each_row_is_exported_once(void **state)
{
    duckdb_rig *r = *state;
    duckdb_rig_page(r, "web-1", "s1", 1, 250);
    duckdb_rig_page(r, "web/2 ../x", "t1", 1, 10);
    tide_export_sum sum = run(r, 100);
    assert_int_equal(260, sum.rows);
    assert_int_equal(4, sum.files);
    check_files(r, 260);
    assert_int_equal(0, run(r, 100).rows);
    duckdb_rig_page(r, "web-1", "s1", 251, 260);
    sum = run(r, 100);
    assert_int_equal(10, sum.rows);
    assert_int_equal(1, sum.files);
    check_files(r, 270);
    assert_int_equal(260, read_files(r,
                                     "count(*) FILTER (WHERE agent_id = 'web-1' AND duration_ms "
                                     "IS NOT NULL)",
                                     "spans"));
}

static void poll_with_hole(duckdb_rig *r, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        answer a;
        answer_begin(&a, "s1");
        answer_foreign_run(&a, 1, 3);
        answer_foreign_run(&a, 5, 9);
        assert_ok_err(duckdb_rig_poll(r, "web-1", 0, &a), &r->err);
        virtual_env_advance(&r->clock, 11 * SECOND);
    }
}

static tide_status take_gap(void *arg, const tide_gap *gap, tide_error *err)
{
    (void)err;
    *(tide_gap *)arg = *gap;
    return TIDE_OK;
}

static tide_gap only_gap(duckdb_rig *r)
{
    tide_gap gap = {0};
    const tide_gap_filter filter = {.epoch = -1};
    assert_ok_err(r->sink->ops->gaps(r->sink, &filter, take_gap, &gap, &r->err), &r->err);
    assert_int_equal(4, gap.start_seq);
    return gap;
}

/* Nothing beyond a hole or an open gap is exported; what was given up and still came has a file of its own. */
static void late_rows_have_their_own_file(void **state)
{
    duckdb_rig *r = *state;
    poll_with_hole(r, 1);
    assert_int_equal(3, run(r, 0).rows);
    poll_with_hole(r, 1); /* the hole is a gap now */
    assert_int_equal(0, run(r, 0).rows);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    tide_gap gap = only_gap(r);
    duckdb_rig_load(r, "web-1", "telemetry", &at);
    assert_ok_err(tide_settle_accept(&change, &at, &gap, "gone", r->clock.wall_us, &r->err),
                  &r->err);
    assert_ok_err(tide_sink_apply(r->sink, &change, &r->err), &r->err);
    duckdb_rig_forget(r);
    assert_int_equal(5, run(r, 0).rows);
    check_files(r, 8);
    /* 4 comes after all. */
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, 9);
    assert_ok_err(duckdb_rig_poll(r, "web-1", 0, &a), &r->err);
    assert_int_equal(TIDE_GAP_RECOVERED, only_gap(r).status);
    assert_int_equal(1, run(r, 0).rows);
    assert_int_equal(0, run(r, 0).rows);
    check_files(r, 9);
}

/* Late numbers that lie near each other share a file, and what lies between them is not in it a second time. */
static void late_neighbours_share_a_file(void **state)
{
    enum { LAST = 41 };
    duckdb_rig *r = *state;
    answer a;
    answer_begin(&a, "s1");
    for (int64_t seq = 1; seq <= LAST; seq += 2) {
        answer_record(&a, seq, seq);
        if (seq < LAST)
            answer_hole(&a, seq + 1, seq + 1, "lost");
    }
    answer_state(&a, 1, 1, LAST, LAST);
    assert_ok_err(duckdb_rig_poll(r, "web-1", 0, &a), &r->err);
    assert_int_equal(21, run(r, 0).rows);
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, LAST);
    answer_state(&a, 1, 1, LAST, LAST);
    assert_ok_err(duckdb_rig_poll(r, "web-1", 0, &a), &r->err);
    const tide_export_sum late = run(r, 0);
    assert_int_equal(20, late.rows);
    assert_int_equal(1, late.files);
    assert_int_equal(0, run(r, 0).rows);
    check_files(r, LAST);
}

/* ---- crashes ---- */

static void manifest_path(duckdb_rig *r, char out[TEMPDIR_PATH_MAX])
{
    tempdir_join(&r->dir, "out/manifest.tsv", out);
}

/* Cut the manifest after so many lines, and some bytes of the next: what a crash leaves. */
static void cut_manifest(duckdb_rig *r, int lines, size_t more)
{
    char path[TEMPDIR_PATH_MAX];
    manifest_path(r, path);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 1 << 20);
    assert_ok_err(tide_file_read(&text, path, &r->err), &r->err);
    const char *at = text.ptr;
    for (int i = 0; i < lines; i++)
        at = strchr(at, '\n') + 1;
    assert_int_equal(0, truncate(path, at - text.ptr + (off_t)more));
}

static tide_status take_path(void *arg, const tide_export_range *range, const char *path,
                             tide_error *err)
{
    (void)err;
    if (range->is_written)
        (void)snprintf(arg, TIDE_EXPORT_NAME_SIZE, "%s", path);
    return TIDE_OK;
}

/* The run died behind the rename, before it was noted: the file is looked at and noted, not written again under another name. */
static void a_file_that_was_not_noted_is_found_again(void **state)
{
    duckdb_rig *r = *state;
    duckdb_rig_page(r, "web-1", "s1", 1, 50);
    assert_int_equal(50, run(r, 0).rows);
    cut_manifest(r, 2, 0); /* title, plan */
    duckdb_rig_page(r, "web-1", "s1", 51, 80);
    const tide_export_sum sum = run(r, 0);
    assert_int_equal(80, sum.rows);
    assert_int_equal(2, sum.files);
    check_files(r, 80);
}

/* It died before the rename: the planned range is written, whatever has come since. */
static void a_planned_range_is_written_under_its_name(void **state)
{
    duckdb_rig *r = *state;
    char dir[TEMPDIR_PATH_MAX];
    char path[TIDE_EXPORT_NAME_SIZE] = "";
    out_dir(r, dir);
    duckdb_rig_page(r, "web-1", "s1", 1, 50);
    assert_int_equal(50, run(r, 0).rows);
    assert_ok_err(tide_export_list(dir, take_path, path, &r->err), &r->err);
    char part[TIDE_EXPORT_NAME_SIZE + 8];
    (void)snprintf(part, sizeof part, "%s.part", path);
    assert_int_equal(0, rename(path, part));
    assert_int_equal(0, truncate(part, 100));
    cut_manifest(r, 2, 17); /* and half of a line */
    duckdb_rig_page(r, "web-1", "s1", 51, 80);
    assert_int_equal(80, run(r, 0).rows);
    assert_int_equal(0, access(path, R_OK));
    assert_int_equal(-1, access(part, R_OK));
    check_files(r, 80);
    assert_int_equal(0, run(r, 0).rows);
}

/* A manifest of something else is not written to. */
static void a_damaged_manifest_stops_the_export(void **state)
{
    duckdb_rig *r = *state;
    char path[TEMPDIR_PATH_MAX];
    char dir[TEMPDIR_PATH_MAX];
    duckdb_rig_page(r, "web-1", "s1", 1, 5);
    assert_int_equal(5, run(r, 0).rows);
    manifest_path(r, path);
    out_dir(r, dir);
    FILE *out = fopen(path, "a");
    (void)fputs("something else\n", out);
    (void)fclose(out);
    tide_export_sum sum;
    const tide_export_options options = {.sink = r->sink, .dir = dir};
    assert_status_err(TIDE_E_DAMAGED, tide_export_run(&options, NULL, NULL, &sum, &r->err),
                      &r->err);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, duckdb_rig_setup, duckdb_rig_teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(each_row_is_exported_once),
        CASE(late_rows_have_their_own_file),
        CASE(late_neighbours_share_a_file),
        CASE(a_file_that_was_not_noted_is_found_again),
        CASE(a_planned_range_is_written_under_its_name),
        CASE(a_damaged_manifest_stops_the_export),
    };
    return cmocka_run_group_tests_name("duckdb-export", tests, NULL, NULL);
}
