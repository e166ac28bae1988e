/* A catalog as a file for stock clients: its tables are DuckLake's on SQLite, and hold what the catalog holds, at every snapshot. */
#include "lake/lake_fixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "lake/expose.h"
#include "lake/expose/stock.h"

static sqlite3 *open_file(const char *path)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return db;
}

/* Rows as stock_rows writes them; free it. */
static char *file_rows(sqlite3 *db, const char *text)
{
    sqlite3_stmt *query = NULL;
    char *rows = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&rows, &size);
    assert_non_null(out);
    if (sqlite3_prepare_v2(db, text, -1, &query, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(db));
    while (sqlite3_step(query) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(query); i++) {
            const unsigned char *value = sqlite3_column_text(query, i);
            (void)fprintf(out, "%s%c", value ? (const char *)value : "-",
                          i + 1 < sqlite3_column_count(query) ? '|' : '\n');
        }
    (void)sqlite3_finalize(query);
    (void)fclose(out);
    return rows;
}

static int64_t file_number(sqlite3 *db, const char *text)
{
    TIDE_CLEANUP(tide_freep) char *rows = file_rows(db, text);
    return rows[0] ? strtoll(rows, NULL, 10) : -1;
}

/* A catalog with some history, and a fork that goes its own way. */
static void make_history(lake_case *l)
{
    char at[32];
    lake_catalog(l, "books");
    lake_table(l, "books", "main", "t");
    lake_insert(l, "books", "main", "t", 3);
    lake_insert(l, "books", "main", "t", 4);
    tide_lake_change *change = lake_begin(l, "books");
    lake_op_delete(l, change, "main", "t", false);
    assert_ok_err(tide_lake_create_view(change, "main", "v", "SELECT 1", &l->err), &l->err);
    static const char *const columns[] = {"id"};
    static const char *const transforms[] = {"identity"};
    lake_op_table(l, change, "main", "parts");
    assert_ok_err(
        tide_lake_partition_table(change, "main", "parts", columns, transforms, 1, &l->err),
        &l->err);
    (void)snprintf(at, sizeof at, "%" PRId64, lake_commit(l, change));
    lake_insert(l, "books", "main", "t", 5);
    lake_fork_of(l, "books", "draft", at);
    lake_insert(l, "draft", "main", "t", 7);
    change = lake_begin(l, "draft");
    lake_op_delete(l, change, "main", "t", true);
    lake_commit(l, change);
    lake_drop(l, "draft", "main", "parts");
    lake_insert(l, "books", "main", "t", 6);
}

/* Files are rows alone here, but where a case makes some. */
static const tide_lake_export_options referring = {.is_reference = true};
static const tide_lake_export_options replacing = {.is_reference = true, .is_forced = true};

static void export_to(lake_case *l, const char *catalog, char path[TEMPDIR_PATH_MAX])
{
    tide_lake_exported out;
    char name[64];
    (void)snprintf(name, sizeof name, "%s.sqlite", catalog);
    tempdir_join(&l->t->dir, name, path);
    assert_ok_err(tide_lake_export(l->lake, catalog, path, &referring, &out, &l->err), &l->err);
    assert_int_equal(out.snapshot_id, lake_head(l, catalog));
}

/* ---- cases ---- */

static void an_exported_file_holds_every_snapshot(void **state)
{
    static const char *const catalogs[] = {"books", "draft"};
    lake_case l = lake_case_open(state);
    make_history(&l);
    for (int i = 0; i < 2; i++) {
        char path[TEMPDIR_PATH_MAX];
        export_to(&l, catalogs[i], path);
        sqlite3 *db = open_file(path);
        TIDE_CLEANUP(tide_freep)
        char *snapshots = file_rows(db, "SELECT snapshot_id FROM ducklake_snapshot ORDER BY 1");
        for (char *at = snapshots, *next; *at; at = next + 1) {
            char word[32];
            char text[600];
            next = strchr(at, '\n');
            (void)snprintf(word, sizeof word, "%.*s", (int)(next - at), at);
            (void)snprintf(text, sizeof text,
                           "SELECT count(*) FROM ducklake_data_file f JOIN ducklake_table t USING "
                           "(table_id) WHERE t.table_name = 't' AND %s >= t.begin_snapshot AND (%s "
                           "< t.end_snapshot OR t.end_snapshot IS NULL) AND %s >= f.begin_snapshot "
                           "AND (%s < f.end_snapshot OR f.end_snapshot IS NULL)",
                           word, word, word, word);
            const int64_t files = lake_files(&l, catalogs[i], word, "main", "t");
            assert_int_equal(file_number(db, text), files < 0 ? 0 : files);
        }
        (void)sqlite3_close(db);
    }
    lake_case_done(&l);
}

/* The file and the views are two ways to the same rows. */
static void an_exported_file_has_the_rows_of_the_views(void **state)
{
    static const char *const catalogs[] = {"books", "draft"};
    lake_case l = lake_case_open(state);
    make_history(&l);
    for (int i = 0; i < 2; i++) {
        char path[TEMPDIR_PATH_MAX];
        char schema[32];
        tide_lake_exposed exposed;
        stock s;
        assert_ok_err(tide_lake_expose(l.lake, catalogs[i], NULL, &exposed, &l.err), &l.err);
        export_to(&l, catalogs[i], path);
        (void)snprintf(schema, sizeof schema, "lake_%s", catalogs[i]);
        assert_true(stock_open(&s, l.t->url, schema));
        sqlite3 *db = open_file(path);
        TIDE_CLEANUP(tide_freep)
        char *tables = stock_rows(
            &s,
            "SELECT table_name, string_agg(CASE udt_name WHEN 'bool' THEN column_name::text || "
            "'::int' "
            "WHEN 'timestamptz' THEN 'to_char(' || column_name::text || ' AT TIME ZONE ''UTC'', "
            "''YYYY-MM-DD HH24:MI:SS.US'') || ''+00''' ELSE column_name::text END, ', ' ORDER BY "
            "ordinal_position) FROM information_schema.columns WHERE table_schema = '%s' AND "
            "table_name <> 'ducklake_files_scheduled_for_deletion' AND column_name <> 'ctid' GROUP "
            "BY 1 ORDER BY 1",
            schema);
        int compared = 0;
        for (char *at = tables, *next; *at; at = next + 1, compared++) {
            char text[200];
            next = strchr(at, '\n');
            *next = '\0';
            char *columns = strchr(at, '|');
            *columns++ = '\0';
            TIDE_CLEANUP(tide_freep)
            char *wanted = stock_rows(
                &s, "SELECT %s FROM M.%s ORDER BY 1, 2, 3, %d", columns, at,
                strstr(at, "metadata") || strstr(at, "versions") || strstr(at, "mapping") ? 3 : 4);
            (void)snprintf(
                text, sizeof text, "SELECT * FROM %s ORDER BY 1, 2, 3, %d", at,
                strstr(at, "metadata") || strstr(at, "versions") || strstr(at, "mapping") ? 3 : 4);
            if (strstr(at, "inlined"))
                continue;
            TIDE_CLEANUP(tide_freep) char *found = file_rows(db, text);
            if (!wanted)
                fail_msg("%s: %s", at, s.error);
            if (strcmp(wanted, found) != 0)
                fail_msg("%s of %s:\n%s--- in the file:\n%s", at, catalogs[i], wanted, found);
        }
        assert_int_equal(compared, 27);
        (void)sqlite3_close(db);
        stock_close(&s);
    }
    lake_case_done(&l);
}

static void an_exported_file_has_ducklakes_tables(void **state)
{
    lake_case l = lake_case_open(state);
    make_history(&l);
    char path[TEMPDIR_PATH_MAX];
    export_to(&l, "books", path);
    sqlite3 *db = open_file(path);
    assert_int_equal(file_number(db, "SELECT count(*) FROM sqlite_master WHERE type = 'table'"),
                     28);
    assert_int_equal(file_number(db, "SELECT count(*) FROM sqlite_master WHERE type <> 'table' AND "
                                     "name NOT LIKE 'sqlite_autoindex%'"),
                     0);
    TIDE_CLEANUP(tide_freep)
    char *columns =
        file_rows(db, "SELECT name, type FROM pragma_table_info('ducklake_delete_file')");
    assert_string_equal(columns, "delete_file_id|bigint\ntable_id|bigint\nbegin_snapshot|bigint\n"
                                 "end_snapshot|bigint\ndata_file_id|bigint\npath|varchar\n"
                                 "path_is_relative|bigint\nformat|varchar\ndelete_count|bigint\n"
                                 "file_size_bytes|bigint\nfooter_size|bigint\n"
                                 "encryption_key|varchar\npartial_max|bigint\n");
    TIDE_CLEANUP(tide_freep)
    char *settings = file_rows(db, "SELECT key, value FROM ducklake_metadata WHERE key IN "
                                   "('version', 'encrypted') ORDER BY key");
    assert_string_equal(settings, "encrypted|false\nversion|1.0\n");
    (void)sqlite3_close(db);
    lake_case_done(&l);
}

static void an_export_replaces_nothing_that_it_was_not_told_to(void **state)
{
    lake_case l = lake_case_open(state);
    tide_lake_exported out;
    char path[TEMPDIR_PATH_MAX];
    char nowhere[TEMPDIR_PATH_MAX];
    lake_catalog(&l, "books");
    export_to(&l, "books", path);
    assert_status(TIDE_E_EXISTS, tide_lake_export(l.lake, "books", path, &referring, &out, &l.err));
    assert_status(TIDE_E_NOT_FOUND,
                  tide_lake_export(l.lake, "nobody", path, &replacing, &out, &l.err));
    lake_table(&l, "books", "main", "t");
    assert_ok_err(tide_lake_export(l.lake, "books", path, &replacing, &out, &l.err), &l.err);
    assert_int_equal(out.tables, 1);
    sqlite3 *db = open_file(path);
    assert_int_equal(file_number(db, "SELECT count(*) FROM ducklake_table"), 1);
    (void)sqlite3_close(db);
    tempdir_join(&l.t->dir, "no/such/file", nowhere);
    assert_status(TIDE_E_NOT_FOUND,
                  tide_lake_export(l.lake, "books", nowhere, &referring, &out, &l.err));
    /* Somebody has the file open, with a log beside it. */
    char log[TEMPDIR_PATH_MAX + 8];
    (void)snprintf(log, sizeof log, "%s-wal", path);
    FILE *held = fopen(log, "w");
    assert_non_null(held);
    assert_true(fputs("frames", held) >= 0);
    (void)fclose(held);
    assert_status(TIDE_E_BUSY, tide_lake_export(l.lake, "books", path, &replacing, &out, &l.err));
    assert_int_equal(unlink(log), 0);
    lake_case_done(&l);
}

static void put_file_of(lake_case *l, const char *name, int64_t age_s)
{
    char path[TEMPDIR_PATH_MAX];
    tide_env *env = tide_store_env(l->t->store);
    const time_t then = (time_t)(env->wall_us(env) / 1000000 - age_s);
    const struct timespec times[] = {{.tv_sec = then}, {.tv_sec = then}};
    tempdir_join(&l->t->dir, name, path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(0, futimens(fd, times));
    assert_int_equal(0, close(fd));
}

static bool is_there(lake_case *l, const char *name)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&l->t->dir, name, path);
    return access(path, F_OK) == 0;
}

/* The data files of an exported file, one per line, below a directory. */
static char *files_of(const char *path)
{
    sqlite3 *db = open_file(path);
    char *files = file_rows(
        db, "SELECT s.path || t.path || f.path FROM (SELECT table_id, path FROM ducklake_data_file "
            "UNION ALL SELECT table_id, path FROM ducklake_delete_file) f JOIN (SELECT DISTINCT "
            "table_id, schema_id, path FROM ducklake_table) t USING (table_id) JOIN "
            "ducklake_schema s USING (schema_id) ORDER BY 1");
    (void)sqlite3_close(db);
    return files;
}

typedef void file_fn(const char *path);

static void each_file(const char *files, const char *dir, file_fn *fn)
{
    for (const char *at = files; *at; at = strchr(at, '\n') + 1) {
        char path[2 * TEMPDIR_PATH_MAX];
        (void)snprintf(path, sizeof path, "%s%.*s", dir, (int)strcspn(at, "\n"), at);
        fn(path);
    }
}

static void make_file(const char *path)
{
    char part[2 * TEMPDIR_PATH_MAX];
    (void)snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(part, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(path, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect_file(const char *path)
{
    assert_int_equal(access(path, R_OK), 0);
}

static void remove_file(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

/* Seen: a clean-up of a stock client on the copy deleted files of the lake. */
static void an_export_owns_its_files(void **state)
{
    lake_case l = lake_case_open(state);
    tide_lake_exported out;
    char path[TEMPDIR_PATH_MAX];
    char owned[TEMPDIR_PATH_MAX];
    char own_dir[TEMPDIR_PATH_MAX + 8];
    char wanted[TEMPDIR_PATH_MAX + 16];
    make_history(&l);
    export_to(&l, "draft", path);
    TIDE_CLEANUP(tide_freep) char *files = files_of(path);
    const char *lake_dir = tide_lake_data_dir(l.lake);
    tempdir_join(&l.t->dir, "owned.sqlite", owned);
    (void)snprintf(own_dir, sizeof own_dir, "%s.files/", owned);
    /* A file that is not there is no file to hand over. */
    const tide_lake_export_options owning = {.data_dir = NULL};
    assert_status(TIDE_E_NOT_FOUND,
                  tide_lake_export(l.lake, "draft", owned, &owning, &out, &l.err));
    assert_int_not_equal(access(owned, F_OK), 0);
    each_file(files, lake_dir, make_file);
    const tide_lake_export_options within = {.data_dir = lake_dir, .is_forced = true};
    assert_status(TIDE_E_INVALID, tide_lake_export(l.lake, "draft", owned, &within, &out, &l.err));
    assert_ok_err(tide_lake_export(l.lake, "draft", owned, &owning, &out, &l.err), &l.err);
    TIDE_CLEANUP(tide_freep) char *same = files_of(owned);
    assert_string_equal(same, files);
    assert_true(out.files > 2);
    sqlite3 *db = open_file(owned);
    TIDE_CLEANUP(tide_freep)
    char *data_path = file_rows(db, "SELECT value FROM ducklake_metadata WHERE key = 'data_path'");
    (void)sqlite3_close(db);
    (void)snprintf(wanted, sizeof wanted, "%s\n", own_dir);
    assert_string_equal(data_path, wanted);
    each_file(files, own_dir, expect_file);
    each_file(files, own_dir, remove_file); /* as a client cleans up */
    each_file(files, lake_dir, expect_file);
    /* Again, over what is there. */
    const tide_lake_export_options again = {.is_forced = true};
    assert_ok_err(tide_lake_export(l.lake, "draft", owned, &again, &out, &l.err), &l.err);
    each_file(files, own_dir, expect_file);
    assert_int_equal(unlink(owned), 0);
    assert_status(TIDE_E_EXISTS, tide_lake_export(l.lake, "draft", owned, &owning, &out, &l.err));
    lake_case_done(&l);
}

/* An export that was killed leaves a file that nobody knows the name of. */
static void what_a_dead_export_has_left_goes_with_the_next(void **state)
{
#define TOKEN "01890a5d-ac96-774b-bcce-b302099a8057"
    enum { OLD_S = 3700, YOUNG_S = 3500 };
    static const char *const leavings[] = {"books.sqlite." TOKEN ".partial",
                                           "books.sqlite." TOKEN ".partial-journal"};
    static const char *const others[] = {
        "books.sqlite." TOKEN ".partial.mine",
        "books.sqlite.this-is-a-file-of-somebody-elses-own.partial",
        "books.sqlite.partial",
        "other.sqlite." TOKEN ".partial",
    };
    static const char young[] = "books.sqlite.01890a5d-ac96-774b-bcce-b302099a8058.partial";
    lake_case l = lake_case_open(state);
    char path[TEMPDIR_PATH_MAX];
    lake_catalog(&l, "books");
    for (size_t i = 0; i < sizeof leavings / sizeof leavings[0]; i++)
        put_file_of(&l, leavings[i], OLD_S);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        put_file_of(&l, others[i], OLD_S);
    put_file_of(&l, young, YOUNG_S); /* somebody may be writing it */
    export_to(&l, "books", path);
    for (size_t i = 0; i < sizeof leavings / sizeof leavings[0]; i++)
        assert_false(is_there(&l, leavings[i]));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_true(is_there(&l, others[i]));
    assert_true(is_there(&l, young));
    lake_case_done(&l);
#undef TOKEN
}

/* Whoever adds a file widens the bounds of its columns: a bound that is too narrow would hide rows. */
static void bounds_of_columns_hold_for_all_files_also_in_forks(void **state)
{
    lake_case l = lake_case_open(state);
    char path[TEMPDIR_PATH_MAX];
    lake_catalog(&l, "books");
    lake_table(&l, "books", "main", "t");
    static const struct {
        const char *catalog;
        const char *least;
        const char *most;
        int64_t nulls;
    } files[] = {{"books", "5", "9", 0}, {"books", "-12", "7", 1}, {"draft", "8", "100", 0}};
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            lake_fork_of(&l, "books", "draft", "");
        TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
        tide_lake_change *change = lake_begin(&l, files[i].catalog);
        assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &l.err), &l.err);
        const tide_lake_column_stats stats = {.column_id = seen.columns[0].id,
                                              .value_count = 4,
                                              .null_count = files[i].nulls,
                                              .min_value = files[i].least,
                                              .max_value = files[i].most};
        char name[32];
        (void)snprintf(name, sizeof name, "bounds-%d.parquet", i);
        const tide_lake_new_file file = {
            .path = name, .record_count = 4, .stats = &stats, .stat_count = 1};
        assert_ok_err(tide_lake_add_file(change, seen.table.id, &file, &l.err), &l.err);
        lake_commit(&l, change);
    }
    static const char *const wanted[] = {"1|-12|9\n", "1|-12|100\n"};
    static const char *const catalogs[] = {"books", "draft"};
    for (int i = 0; i < 2; i++) {
        export_to(&l, catalogs[i], path);
        sqlite3 *db = open_file(path);
        TIDE_CLEANUP(tide_freep)
        char *found = file_rows(
            db, "SELECT contains_null, min_value, max_value FROM ducklake_table_column_stats");
        assert_string_equal(found, wanted[i]);
        (void)sqlite3_close(db);
    }
    lake_case_done(&l);
}

/* Rows that are older than a column have its first default, which no statistics tell. */
static void bounds_of_a_column_that_came_later_are_not_known(void **state)
{
    lake_case l = lake_case_open(state);
    char path[TEMPDIR_PATH_MAX];
    lake_catalog(&l, "books");
    lake_table(&l, "books", "main", "t");
    lake_insert(&l, "books", "main", "t", 1);
    static const tide_lake_column_def later = {.name = "later", .type = "int64"};
    tide_lake_change *change = lake_begin(&l, "books");
    assert_ok_err(tide_lake_add_column(change, "main", "t", &later, &l.err), &l.err);
    lake_commit(&l, change);
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    change = lake_begin(&l, "books");
    assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &l.err), &l.err);
    assert_int_equal(seen.column_count, 3);
    const tide_lake_column_stats stats[] = {
        {.column_id = seen.columns[0].id, .value_count = 1, .min_value = "5", .max_value = "5"},
        {.column_id = seen.columns[2].id, .value_count = 1, .min_value = "5", .max_value = "5"}};
    const tide_lake_new_file file = {
        .path = "later.parquet", .record_count = 1, .stats = stats, .stat_count = 2};
    assert_ok_err(tide_lake_add_file(change, seen.table.id, &file, &l.err), &l.err);
    lake_commit(&l, change);
    export_to(&l, "books", path);
    sqlite3 *db = open_file(path);
    TIDE_CLEANUP(tide_freep)
    char *found = file_rows(db, "SELECT c.column_name FROM ducklake_table_column_stats s JOIN "
                                "ducklake_column c USING (table_id, column_id)");
    assert_string_equal(found, "id\n");
    (void)sqlite3_close(db);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(an_exported_file_holds_every_snapshot),
        STORE_CASE_POSTGRES(an_exported_file_has_the_rows_of_the_views),
        STORE_CASE_SQLITE(an_exported_file_has_ducklakes_tables),
        STORE_CASE_SQLITE(an_export_replaces_nothing_that_it_was_not_told_to),
        STORE_CASE_SQLITE(what_a_dead_export_has_left_goes_with_the_next),
        STORE_CASE(bounds_of_columns_hold_for_all_files_also_in_forks),
        STORE_CASE(an_export_owns_its_files),
        STORE_CASE(bounds_of_a_column_that_came_later_are_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
