/* Rows through a metabase: written, committed, asked for at any snapshot, on every engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "lake/catalog.h"
#include "lake/data.h"
#include "lake/types.h"
#include "store/engine.h"
#include "support/store_fixture.h"

#include "colony/duckdb/duckdb_place.h"

typedef struct lake_test {
    store_test *base;
    tide_lake *lake;
    tide_lake_data *data;
    char dir[TEMPDIR_PATH_MAX];
    tide_buffer answer;
    const char *at;
    const char *default_catalog;
    tide_error err;
} lake_test;

static void open_lake(lake_test *t, void **state)
{
    *t = (lake_test){.base = *state, .at = ""};
    duckdb_place();
    tempdir_join(&t->base->dir, "lake", t->dir);
    bool was_there = false;
    assert_ok_err(tide_lake_init(t->base->store, t->dir, &was_there, &t->err), &t->err);
    assert_ok_err(tide_lake_open(&t->lake, t->base->store, &t->err), &t->err);
    assert_ok_err(tide_lake_data_open(&t->data, tide_lake_data_dir(t->lake), NULL, &t->err),
                  &t->err);
    tide_buffer_init(&t->answer, 1 << 20);
}

static void close_lake(lake_test *t)
{
    tide_lake_data_close(t->data);
    tide_lake_close(t->lake);
    tide_buffer_done(&t->answer);
}
#define LAKE(t)                                                                                    \
    TIDE_CLEANUP(close_lake) lake_test opened_;                                                    \
    lake_test *t = &opened_; /* NOLINT(bugprone-macro-parentheses): a name */                      \
    open_lake(t, state)

static void make_catalog(lake_test *t, const char *name)
{
    tide_lake_created created;
    assert_ok_err(tide_lake_create_catalog(t->lake, name, false, NULL, &created, &t->err), &t->err);
}

static tide_lake_change *begin(lake_test *t, const char *catalog)
{
    tide_lake_change *change = NULL;
    assert_ok_err(tide_lake_begin(&change, t->lake, catalog, 0, &t->err), &t->err);
    return change;
}

static int64_t commit(lake_test *t, tide_lake_change *change)
{
    tide_lake_committed done = {0};
    assert_ok_err(tide_lake_commit(change, NULL, &done, &t->err), &t->err);
    tide_lake_drop_change(change);
    return done.snapshot_id;
}

static int64_t make_table(lake_test *t, const char *catalog, const char *table, const char *columns)
{
    tide_lake_column_def *defs = NULL;
    int count = 0;
    assert_ok_err(tide_lake_columns_parse(columns, &defs, &count, &t->err), &t->err);
    tide_lake_change *change = begin(t, catalog);
    assert_ok_err(tide_lake_create_table(change, "main", table, defs, count, &t->err), &t->err);
    tide_lake_column_defs_free(defs, count);
    return commit(t, change);
}

static int64_t append(lake_test *t, const char *catalog, const char *table, const char *csv)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->base->dir, "rows.csv", path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(csv, 1, strlen(csv), file), strlen(csv));
    assert_int_equal(fclose(file), 0);
    tide_lake_change *change = begin(t, catalog);
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    TIDE_CLEANUP(tide_lake_written_done) tide_lake_written written = {0};
    assert_ok_err(tide_lake_change_table(change, "main", table, &seen, &t->err), &t->err);
    assert_ok_err(tide_lake_write_rows(t->data, &seen, path, TIDE_LAKE_BY_NAME, &written, &t->err),
                  &t->err);
    for (int i = 0; i < written.count; i++)
        assert_ok_err(tide_lake_add_file(change, seen.table.id, &written.files[i], &t->err),
                      &t->err);
    return commit(t, change);
}

typedef struct look {
    int64_t catalog_id;
    int64_t snapshot;
    int64_t table_id;
    tide_lake_files *files;
} look;

static tide_status look_files(tide_tx *tx, void *arg, tide_error *err)
{
    look *l = arg;
    return tide_lake_files_read(tx, l->catalog_id, l->snapshot, l->table_id, l->files, err);
}

static int64_t delete_rows(lake_test *t, const char *catalog, const char *table,
                           const char *condition)
{
    tide_lake_change *change = begin(t, catalog);
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    TIDE_CLEANUP(tide_lake_files_done) tide_lake_files files = {0};
    TIDE_CLEANUP(tide_lake_written_done) tide_lake_written written = {0};
    assert_ok_err(tide_lake_change_table(change, "main", table, &seen, &t->err), &t->err);
    look l = {.catalog_id = tide_lake_change_catalog(change)->catalog_id,
              .snapshot = tide_lake_change_base(change),
              .table_id = seen.table.id,
              .files = &files};
    assert_ok_err(tide_store_read(t->base->store, look_files, &l, &t->err), &t->err);
    int which[16];
    int64_t rows = 0;
    assert_ok_err(
        tide_lake_find_deletes(t->data, &seen, &files, condition, &written, which, &rows, &t->err),
        &t->err);
    for (int i = 0; i < written.count; i++)
        assert_ok_err(tide_lake_delete_rows(change, seen.table.id, &files.all[which[i]],
                                            *written.files[i].path ? &written.files[i] : NULL,
                                            &t->err),
                      &t->err);
    return commit(t, change);
}

/* ---- questions ---- */

static tide_status take_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg;
    (void)names;
    (void)count;
    (void)err;
    return TIDE_OK;
}

static tide_status take_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    lake_test *t = arg;
    (void)err;
    for (int i = 0; i < count; i++) {
        const char *between = i > 0 ? "|" : "";
        if (cells[i].kind == TIDE_SQL_VALUE_I64)
            assert_ok(tide_buffer_printf(&t->answer, "%s%lld", between, (long long)cells[i].i64));
        else if (cells[i].kind == TIDE_SQL_VALUE_TEXT)
            assert_ok(tide_buffer_printf(&t->answer, "%s%.*s", between, (int)cells[i].bytes.len,
                                         cells[i].bytes.ptr));
        else
            assert_ok(tide_buffer_printf(&t->answer, "%sNULL", between));
    }
    return tide_buffer_append_byte(&t->answer, '\n');
}

static tide_status try_ask(lake_test *t, const char *text)
{
    tide_buffer_clear(&t->answer);
    const tide_lake_ask ask = {.text = text,
                               .at = t->at,
                               .default_catalog = t->default_catalog,
                               .row_max = 1000,
                               .bytes_max = 1 << 20,
                               .timeout_us = 60 * SECOND_US,
                               .columns = take_columns,
                               .row = take_row,
                               .arg = t};
    return tide_lake_query(t->data, t->lake, &ask, &t->err);
}

static const char *ask_at(lake_test *t, int64_t snapshot, const char *text)
{
    char at[32] = "";
    if (snapshot > 0)
        (void)snprintf(at, sizeof at, "%lld", (long long)snapshot);
    t->at = at;
    assert_ok_err(try_ask(t, text), &t->err);
    t->at = "";
    return tide_buffer_text(&t->answer);
}

static void rows_are_found_at_every_snapshot(void **state)
{
    LAKE(t);
    make_catalog(t, "Sales");
    const int64_t made = make_table(t, "sales", "Orders", "id BIGINT, what VARCHAR");
    const int64_t first = append(t, "sales", "orders", "id,what\n1,tea\n2,milk\n");
    const int64_t second = append(t, "sales", "orders", "id,what\n3,jam\n");
    const int64_t third = delete_rows(t, "sales", "orders", "what IN ('milk', 'jam')");
    const char *text = "SELECT * FROM SALES.main.orders ORDER BY id";
    assert_string_equal(ask_at(t, made, text), "");
    assert_string_equal(ask_at(t, first, text), "1|tea\n2|milk\n");
    assert_string_equal(ask_at(t, second, text), "1|tea\n2|milk\n3|jam\n");
    assert_string_equal(ask_at(t, third, text), "1|tea\n");
    assert_string_equal(ask_at(t, 0, text), "1|tea\n");
}

static void catalogs_are_joined_and_forks_are_apart(void **state)
{
    LAKE(t);
    make_catalog(t, "a");
    (void)make_table(t, "a", "t", "id BIGINT, v VARCHAR");
    (void)append(t, "a", "t", "id,v\n1,one\n2,two\n");
    tide_lake_created fork;
    assert_ok_err(tide_lake_fork(t->lake, "a", "b", "", NULL, &fork, &t->err), &t->err);
    (void)append(t, "b", "t", "id,v\n3,three\n");
    (void)delete_rows(t, "b", "t", "id = 1");
    (void)append(t, "a", "t", "id,v\n4,four\n");
    assert_string_equal(ask_at(t, 0, "SELECT string_agg(id, ',' ORDER BY id) FROM a.main.t"),
                        "1,2,4\n");
    assert_string_equal(ask_at(t, 0, "SELECT string_agg(id, ',' ORDER BY id) FROM b.main.t"),
                        "2,3\n");
    assert_string_equal(
        ask_at(t, 0, "SELECT x.id, y.v FROM a.main.t x JOIN b.main.t y USING (id) ORDER BY 1"),
        "2|two\n");
}

static void names_need_not_be_whole(void **state)
{
    LAKE(t);
    make_catalog(t, "a");
    (void)make_table(t, "a", "t", "id BIGINT");
    (void)append(t, "a", "t", "id\n7\n");
    assert_string_equal(ask_at(t, 0, "SELECT id FROM a.t"), "7\n");
    t->default_catalog = "A";
    assert_string_equal(ask_at(t, 0, "SELECT id FROM t"), "7\n");
    assert_string_equal(ask_at(t, 0, "SELECT id FROM main.t"), "7\n");
    assert_string_equal(ask_at(t, 0, "WITH t AS (SELECT 8 AS id) SELECT id FROM t"), "8\n");
    assert_string_equal(
        ask_at(t, 0, "SELECT count(*) FROM information_schema.schemata WHERE false"), "0\n");
}

static void catalogs_may_have_the_names_of_duckdbs_own(void **state)
{
    LAKE(t);
    static const char *const names[] = {"memory", "temp", "System", "main"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        make_catalog(t, names[i]);
        (void)make_table(t, names[i], "t", "id BIGINT");
        (void)append(t, names[i], "t", "id\n7\n");
        t->default_catalog = names[i];
        assert_string_equal(ask_at(t, 0, "SELECT id FROM t"), "7\n");
    }
    t->default_catalog = NULL;
    assert_string_equal(ask_at(t, 0, "SELECT id FROM memory.main.t"), "7\n");
    assert_status(TIDE_E_UNSUPPORTED, try_ask(t, "SELECT id FROM temp.main.t"));
}

static void views_show_what_they_name(void **state)
{
    LAKE(t);
    make_catalog(t, "a");
    (void)make_table(t, "a", "t", "id BIGINT");
    (void)append(t, "a", "t", "id\n1\n2\n3\n");
    tide_lake_change *change = begin(t, "a");
    assert_ok_err(
        tide_lake_create_view(change, "main", "odd", "SELECT id FROM t WHERE id % 2 = 1", &t->err),
        &t->err);
    assert_ok_err(tide_lake_create_view(change, "main", "most",
                                        "SELECT max(id) AS id FROM main.odd", &t->err),
                  &t->err);
    assert_ok_err(
        tide_lake_create_view(change, "main", "round", "SELECT * FROM a.main.round", &t->err),
        &t->err);
    assert_ok_err(tide_lake_create_view(change, "main", "writes", "DELETE FROM t", &t->err),
                  &t->err);
    (void)commit(t, change);
    assert_string_equal(
        ask_at(t, 0, "SELECT o.id, m.id FROM a.main.odd o, a.main.most m ORDER BY 1"),
        "1|3\n3|3\n");
    assert_status(TIDE_E_INVALID, try_ask(t, "FROM a.main.round"));
    assert_contains(t->err.text, "names itself");
    assert_status(TIDE_E_DENIED, try_ask(t, "FROM a.main.writes"));
}

static void what_is_not_there_is_named(void **state)
{
    LAKE(t);
    make_catalog(t, "a");
    const int64_t made = make_table(t, "a", "t", "id BIGINT");
    assert_status(TIDE_E_NOT_FOUND, try_ask(t, "FROM nowhere.main.t"));
    assert_contains(t->err.text, "nowhere");
    assert_status(TIDE_E_NOT_FOUND, try_ask(t, "FROM a.main.nothing"));
    assert_contains(t->err.text, "nothing");
    assert_status(TIDE_E_NOT_FOUND, try_ask(t, "FROM a.void.t"));
    assert_status(TIDE_E_INVALID, try_ask(t, "FROM nothing"));
    char at[32];
    (void)snprintf(at, sizeof at, "%lld", (long long)made + 1000);
    t->at = at;
    assert_status(TIDE_E_NOT_FOUND, try_ask(t, "FROM a.main.t"));
    t->at = "";
    assert_status(TIDE_E_DENIED, try_ask(t, "DROP TABLE a.main.t"));
    assert_string_equal(ask_at(t, 0, "SELECT count(*) FROM a.main.t"), "0\n");
}

/* Statistics that were written prune, and never a file that has the value. */
static tide_status count_file(void *arg, const tide_lake_file_seen *file, tide_error *err)
{
    (void)file;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

typedef struct prune {
    int64_t catalog_id;
    int64_t snapshot;
    const tide_lake_table_seen *table;
    int column;
    const char *op;
    const char *value;
    int found;
} prune;

static tide_status look_pruned(tide_tx *tx, void *arg, tide_error *err)
{
    prune *p = arg;
    p->found = 0;
    return tide_lake_each_file_where(tx, p->catalog_id, p->snapshot, p->table->table.id,
                                     &p->table->columns[p->column], p->op, p->value, count_file,
                                     &p->found, err);
}

static void statistics_leave_out_files_that_cannot_have_it(void **state)
{
    LAKE(t);
    make_catalog(t, "a");
    (void)make_table(t, "a", "t", "n BIGINT, v VARCHAR, d DATE, f DOUBLE");
    (void)append(t, "a", "t", "n,v,d,f\n-5,a,2024-01-01,0.5\n9,b,2024-01-31,1e10\n");
    (void)append(t, "a", "t", "n,v,d,f\n10,é,2024-02-01,2e10\n100,z,2024-12-31,nan\n");
    tide_lake_change *change = begin(t, "a");
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &t->err), &t->err);
    const struct {
        int column;
        const char *op;
        const char *value;
        int files;
    } cases[] = {
        {0, "=", "9", 1},          {0, "<", "10", 1},         {0, ">", "9", 1}, {0, "=", "50", 1},
        {0, ">=", "-5", 2},        {0, "=", "101", 0},        {1, "=", "b", 1}, {1, "<=", "a", 1},
        {2, "=", "2024-01-15", 1}, {2, "<", "2024-01-01", 0}, {3, "<", "1", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        prune p = {.catalog_id = tide_lake_change_catalog(change)->catalog_id,
                   .snapshot = tide_lake_change_base(change),
                   .table = &seen,
                   .column = cases[i].column,
                   .op = cases[i].op,
                   .value = cases[i].value};
        assert_ok_err(tide_store_read(t->base->store, look_pruned, &p, &t->err), &t->err);
        print_message("%d %s %s: %d\n", cases[i].column, cases[i].op, cases[i].value, p.found);
        assert_int_equal(p.found, cases[i].files);
    }
    tide_lake_drop_change(change);
}

static tide_status run_text(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_tx_script(tx, arg, err);
}

/* Seen: a role with SELECT alone could not query, since a query writes a pin. */
static void who_may_only_read_queries_without_a_pin(void **state)
{
    LAKE(t);
    static char refuse[] = "REVOKE ALL ON lake_pin FROM CURRENT_USER; GRANT SELECT ON lake_pin TO "
                           "CURRENT_USER";
    make_catalog(t, "a");
    (void)make_table(t, "a", "t", "id BIGINT");
    const int64_t first = append(t, "a", "t", "id\n1\n");
    (void)append(t, "a", "t", "id\n2\n");
    assert_ok_err(tide_store_write(t->base->store, run_text, refuse, &t->err), &t->err);
    assert_string_equal(ask_at(t, 0, "SELECT count(*) FROM a.main.t"), "2\n");
    assert_string_equal(ask_at(t, first, "SELECT count(*) FROM a.main.t"), "1\n");
    assert_status(TIDE_E_NOT_FOUND, try_ask(t, "SELECT count(*) FROM b.main.t"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(rows_are_found_at_every_snapshot),
        STORE_CASE(catalogs_are_joined_and_forks_are_apart),
        STORE_CASE_POSTGRES(who_may_only_read_queries_without_a_pin),
        STORE_CASE_SQLITE(names_need_not_be_whole),
        STORE_CASE_SQLITE(catalogs_may_have_the_names_of_duckdbs_own),
        STORE_CASE_SQLITE(views_show_what_they_name),
        STORE_CASE_SQLITE(what_is_not_there_is_named),
        STORE_CASE_SQLITE(statistics_leave_out_files_that_cannot_have_it),
    };
    return cmocka_run_group_tests_name("lake data query", tests, NULL, NULL);
}
