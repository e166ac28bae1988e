/* Rows of SQLite and PostgreSQL become the same Parquet files as those of DuckDB. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/duckdb/duckdb_place.h"
#include "colony/export.h"
#include "colony/sink_fixture.h"
#include "store/duckdb/duckdb.h"

enum { RECORDS = 7 };

/* Values that are hard to keep: the largest, quotes, nothing at all. */
static void fill(tide_record_batch *batch, int round)
{
    const uint64_t ids[] = {UINT64_C(18446744073709551615), 2, 3};
    tide_record_begin(batch);
    for (int c = 0; c < batch->type->column_count && round > 0; c++) {
        switch (batch->type->columns[c].kind) {
        case TIDE_COLUMN_I64:
        case TIDE_COLUMN_I32:
            tide_record_i64(batch, c, c == batch->type->time_column ? NOON_MS + round : -40 - c);
            break;
        case TIDE_COLUMN_U64:
            /* Hashes have 64 bits; numbers of records end at 2^63-1. */
            tide_record_u64(batch, c,
                            batch->type->kind == TIDE_STREAM_LOSS_RECEIPTS
                                ? (uint64_t)INT64_MAX
                                : UINT64_C(18446744073709551615));
            break;
        case TIDE_COLUMN_F64:
            tide_record_f64(batch, c, 0.1 * round);
            break;
        case TIDE_COLUMN_BOOL:
            tide_record_bool(batch, c, round % 2 == 0);
            break;
        case TIDE_COLUMN_TEXT:
            tide_record_text(batch, c, tide_view_of("it's \"x\"; -- \xc3\xa9"));
            break;
        case TIDE_COLUMN_BLOB:
            tide_record_blob(batch, c, tide_view_bytes("\0\xff\n", 3));
            break;
        case TIDE_COLUMN_MAP:
            tide_record_pair(batch, c, tide_view_of("k'"), tide_view_of("v\"w"));
            break;
        case TIDE_COLUMN_IDS:
            tide_record_ids(batch, c, ids, 3);
            break;
        }
    }
}

static void store_type(tide_sink *sink, tide_stream_kind kind, const char *agent)
{
    const tide_stream_type *type = tide_stream_type_of(kind);
    const char *data_type = kind == TIDE_STREAM_OPAQUE ? "orders" : type->name;
    TIDE_CLEANUP(page_done) page p;
    page_init(&p, kind);
    for (int i = 0; i < RECORDS; i++) {
        fill(&p.batch, i);
        page_end_record(&p, i + 1);
    }
    page_close(&p);
    TIDE_CLEANUP(tide_position_done) tide_position at = {0};
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    tide_error err;
    load_position(sink, agent, data_type, &at);
    change_begin(&change, &at, NOON_MS * 1000);
    change_store(&change, &p);
    assert_ok_err(tide_sink_apply(sink, &change, &err), &err);
}

/* ---- what the files hold ---- */

static tide_status ignore_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg;
    (void)names;
    (void)count;
    (void)err;
    return TIDE_OK;
}

static tide_status take_text(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    (void)count;
    (void)err;
    char *out = arg;
    (void)snprintf(out, 65536, "%.*s", (int)cells[0].bytes.len, cells[0].bytes.ptr);
    return TIDE_OK;
}

/* All rows of a table's files, as one text. */
static void read_files(const char *dir, const char *table, char out[65536])
{
    char sql[1024];
    tide_error err;
    (void)snprintf(sql, sizeof sql,
                   "SELECT string_agg(r::VARCHAR, '|' ORDER BY r.seq_id) FROM "
                   "read_parquet('%s/%s/*/*.parquet') r",
                   dir, table);
    const tide_duckdb_options options = {.threads = 1, .may_touch_files = true};
    tide_duckdb *db = NULL;
    assert_ok_err(tide_duckdb_open(&db, NULL, &options, &err), &err);
    *out = '\0';
    const tide_duck_ask ask = {.text = sql,
                               .row_max = 10,
                               .bytes_max = 65536,
                               .timeout_us = 20000000,
                               .columns = ignore_columns,
                               .row = take_text,
                               .arg = out};
    assert_ok_err(tide_duckdb_ask(db, &ask, &err), &err);
    tide_duckdb_close(db);
}

static void export_all(tide_sink *sink, const char *dir)
{
    tide_error err;
    tide_export_sum sum = {0};
    for (int kind = 0; kind < TIDE_STREAM_COUNT; kind++)
        store_type(sink, (tide_stream_kind)kind, "it's /a");
    const tide_export_options options = {.sink = sink, .dir = dir, .row_max = 4};
    assert_ok_err(tide_export_run(&options, NULL, NULL, &sum, &err), &err);
    assert_int_equal(RECORDS * TIDE_STREAM_COUNT, sum.rows);
    assert_int_equal(2 * TIDE_STREAM_COUNT, sum.files);
    assert_ok_err(tide_export_run(&options, NULL, NULL, &sum, &err), &err);
    assert_int_equal(0, sum.rows);
}

static void files_are_the_same_whatever_the_store(void **state)
{
    store_test *t = *state;
    char dir[TEMPDIR_PATH_MAX];
    char duck_dir[TEMPDIR_PATH_MAX];
    char path[TEMPDIR_PATH_MAX];
    duckdb_place();
    tempdir_join(&t->dir, "out", dir);
    tempdir_join(&t->dir, "duck-out", duck_dir);
    tempdir_join(&t->dir, "colony.duckdb", path);
    tide_sink *sink = NULL;
    tide_sink *duck = NULL;
    assert_ok_err(tide_sink_open_sql(&sink, t->store, &t->err), &t->err);
    assert_ok_err(tide_sink_open_duckdb(&duck, t->store, path, NULL, &t->err), &t->err);
    export_all(sink, dir);
    export_all(duck, duck_dir);
    char *one = malloc(65536);
    char *other = malloc(65536);
    for (int kind = 0; kind < TIDE_STREAM_COUNT; kind++) {
        const char *table = tide_colony_type_of((tide_stream_kind)kind)->table;
        read_files(dir, kind == TIDE_STREAM_OPAQUE ? "records/orders" : table, one);
        read_files(duck_dir, kind == TIDE_STREAM_OPAQUE ? "records/orders" : table, other);
        assert_int_not_equal(0, strlen(one));
        assert_string_equal(other, one);
    }
    free(one);
    free(other);
    tide_sink_close(sink);
    tide_sink_close(duck);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(files_are_the_same_whatever_the_store),
    };
    return cmocka_run_group_tests_name("duckdb-export-sql", tests, NULL, NULL);
}
