/* The lake as scripts see it: the real program on SQLite and PostgreSQL, with DuckDB writing and reading Parquet. Every case ends with the history checker. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_run.h"
#include "colony/duckdb/duckdb_place.h"

enum { USAGE = 2, NOT_THERE = 3, REFUSED = 4, DAMAGED = 8, WRITERS = 4 };

/* ---- helpers ---- */

static void write_text(const cli_fixture *t, const char *name, const char *text)
{
    cli_write_file(t, name, text, strlen(text));
}

/* The run ended well. */
static void assert_done(const cli_result result)
{
    if (result.exit_code != 0)
        fail_msg("exit code %d: %s%s", result.exit_code, result.out, result.err);
}

/* A number of the one object that a run printed. */
static int64_t number_of(const cli_result result, const char *key)
{
    tide_json_node *object = cli_json(&result);
    const int64_t number = json_number(object, key);
    tide_json_tree_free(object);
    return number;
}

static int64_t query_n(cli_fixture *t, const char *sql, const char *at)
{
    return number_of(at ? cli_run(t, "lake", "query", sql, "--at", at, "--json", NULL)
                        : cli_run(t, "lake", "query", sql, "--json", NULL),
                     "n");
}

static int count_lines(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static int parquet_count;

static int count_parquet(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)at;
    const size_t len = strlen(path);
    parquet_count += kind == FTW_F && len > 8 && strcmp(path + len - 8, ".parquet") == 0;
    return 0;
}

/* Files below the data directory. */
static int count_files(const cli_fixture *t)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "data", path);
    parquet_count = 0;
    assert_int_equal(0, nftw(path, count_parquet, 16, FTW_PHYS));
    return parquet_count;
}

static int lake_setup(void **state)
{
    if (cli_setup(state) != 0)
        return -1;
    cli_fixture *t = *state;
    assert_done(cli_run(t, "lake", "init", "--data", "data", NULL));
    assert_done(cli_run(t, "lake", "catalog", "create", "books", NULL));
    assert_done(cli_run(t, "lake", "table", "create", "books.main.t", "a BIGINT, b VARCHAR", NULL));
    write_text(t, "rows.csv", "a,b\n1,x\n2,y\n3,z\n");
    return 0;
}

static int lake_teardown(void **state)
{
    cli_fixture *t = *state;
    assert_done(cli_run(t, "lake", "verify", NULL));
    return cli_teardown(state);
}

/* ---- cases ---- */

/* What scripts rely on: names of members, numbers that go on, rows that are there. */
static void a_catalog_is_made_filled_and_read(void **state)
{
    cli_fixture *t = *state;
    const cli_result made = cli_run(t, "lake", "catalog", "create", "other", "--json", NULL);
    assert_true(number_of(made, "catalog_id") > 1);
    const int64_t first = number_of(made, "snapshot_id");
    const int64_t second =
        number_of(cli_run(t, "lake", "schema", "create", "other.s", "--json", NULL), "snapshot_id");
    assert_true(second > first);
    assert_done(cli_run(t, "lake", "table", "create", "other.s.t", "a BIGINT, b VARCHAR", NULL));
    const cli_result added = cli_run(t, "lake", "table", "append", "other.s.t", "rows.csv",
                                     "--json", "--author", "ann", "-m", "first rows", NULL);
    assert_int_equal(3, number_of(added, "rows"));
    assert_true(number_of(added, "snapshot_id") > second);
    assert_int_equal(6, query_n(t, "SELECT sum(a) AS n FROM other.s.t", NULL));
    const cli_result listed = cli_run(t, "lake", "snapshots", "other", "--json", NULL);
    assert_done(listed);
    assert_int_equal(4, count_lines(listed.out));
    assert_contains(listed.out, "\"changes_made\":\"inserted_into_table:");
    assert_contains(listed.out, "\"author\":\"ann\"");
    assert_contains(listed.out, "\"snapshot_time\":\"20");
    const cli_result one = cli_run(t, "lake", "snapshots", "other", "--limit", "1", "--json", NULL);
    assert_int_equal(first, number_of(one, "snapshot_id"));
}

/* Init is fine the second time, and says so. */
static void a_second_init_finds_the_first(void **state)
{
    cli_fixture *t = *state;
    const cli_result again = cli_run(t, "lake", "init", "--data", "data", "--json", NULL);
    tide_json_node *object = cli_json(&again);
    assert_true(json_is_true(tide_json_node_find(object, "was_there")));
    tide_json_tree_free(object);
    const cli_result other = cli_run(t, "lake", "init", "--data", "elsewhere", NULL);
    cli_assert_fails(&other, REFUSED);
}

/* A fork sees its point, and neither sees what the other does behind it. */
static void a_fork_goes_its_own_way(void **state)
{
    cli_fixture *t = *state;
    char at[32];
    const int64_t point =
        number_of(cli_run(t, "lake", "table", "append", "books.main.t", "rows.csv", "--json", NULL),
                  "snapshot_id");
    (void)snprintf(at, sizeof at, "%lld", (long long)point);
    assert_done(cli_run(t, "lake", "table", "append", "books.main.t", "rows.csv", NULL));
    const cli_result fork =
        cli_run(t, "lake", "catalog", "fork", "books", "draft", "--at", at, "--json", NULL);
    assert_int_equal(point, number_of(fork, "parent_snapshot_id"));
    assert_true(number_of(fork, "snapshot_id") > point);
    assert_true(number_of(fork, "catalog_id") > 0);
    assert_int_equal(3, query_n(t, "SELECT count(*) AS n FROM draft.main.t", NULL));
    assert_int_equal(2, number_of(cli_run(t, "lake", "delete", "draft.main.t", "--where", "a < 3",
                                          "--json", NULL),
                                  "rows_deleted"));
    assert_int_equal(1, query_n(t, "SELECT count(*) AS n FROM draft.main.t", NULL));
    assert_int_equal(6, query_n(t, "SELECT count(*) AS n FROM books.main.t", NULL));
    assert_int_equal(3, query_n(t, "SELECT count(*) AS n FROM books.main.t", at));
    const cli_result catalogs = cli_run(t, "lake", "catalog", "ls", "--json", NULL);
    assert_int_equal(2, count_lines(catalogs.out));
    assert_contains(catalogs.out, "\"parent\":\"books\"");
}

/* A file of operations is one snapshot; one that fails at its end has done nothing, on the disk neither. */
static void several_operations_are_one_snapshot_or_none(void **state)
{
    cli_fixture *t = *state;
    static const char good[] =
        "{\"op\":\"create_schema\",\"schema\":\"s\"}\n"
        "{\"op\":\"create_table\",\"table\":\"s.u\",\"columns\":\"a BIGINT, b VARCHAR\"}\n\n"
        "{\"op\":\"append\",\"table\":\"s.u\",\"file\":\"rows.csv\"}\n"
        "{\"op\":\"delete\",\"table\":\"main.t\",\"where\":\"a = 2\"}\n"
        "{\"op\":\"append\",\"table\":\"books.main.t\",\"file\":\"rows.csv\"}\n"
        "{\"op\":\"create_view\",\"view\":\"s.v\",\"sql\":\"SELECT a FROM s.u\"}\n";
    static const char bad[] = "{\"op\":\"append\",\"table\":\"s.u\",\"file\":\"rows.csv\"}\n\n"
                              "{\"op\":\"drop\",\"table\":\"s.nothing\"}\n";
    assert_done(cli_run(t, "lake", "table", "append", "books.main.t", "rows.csv", NULL));
    write_text(t, "good.jsonl", good);
    write_text(t, "bad.jsonl", bad);
    const int64_t before =
        count_lines(cli_run(t, "lake", "snapshots", "books", "--json", NULL).out);
    const cli_result done =
        cli_run(t, "lake", "commit", "books", "--file", "good.jsonl", "--json", NULL);
    assert_int_equal(6, number_of(done, "rows"));
    assert_int_equal(1, number_of(done, "rows_deleted"));
    assert_int_equal(5, query_n(t, "SELECT count(*) AS n FROM books.main.t", NULL));
    assert_int_equal(6, query_n(t, "SELECT sum(a) AS n FROM books.s.v", NULL));
    const int files = count_files(t);
    const cli_result failed = cli_run(t, "lake", "commit", "books", "--file", "bad.jsonl", NULL);
    cli_assert_fails(&failed, NOT_THERE);
    assert_contains(failed.err, "bad.jsonl, line 3");
    assert_int_equal(files, count_files(t));
    const cli_result listed = cli_run(t, "lake", "snapshots", "books", "--json", NULL);
    assert_int_equal(before + 1, count_lines(listed.out));
}

/* The second request under a key is answered, not done; another request under it is refused. */
static void a_request_key_is_done_once(void **state)
{
    cli_fixture *t = *state;
    int64_t snapshots[2];
    for (int i = 0; i < 2; i++) {
        snapshots[i] = number_of(cli_run(t, "lake", "table", "append", "books.main.t", "rows.csv",
                                         "--request-key", "k1", "--json", NULL),
                                 "snapshot_id");
        const cli_result made = cli_run(t, "lake", "table", "create", "books.main.u", "a BIGINT",
                                        "--request-key", "k2", NULL);
        assert_done(made);
        assert_done(cli_run(t, "lake", "catalog", "create", "late", "--request-key", "k3", NULL));
    }
    assert_int_equal(snapshots[0], snapshots[1]);
    assert_int_equal(1, count_files(t));
    assert_int_equal(3, query_n(t, "SELECT count(*) AS n FROM books.main.t", NULL));
    const cli_result other = cli_run(t, "lake", "table", "create", "books.main.w", "a BIGINT",
                                     "--request-key", "k2", NULL);
    cli_assert_fails(&other, REFUSED);
    assert_contains(other.err, "k2");
}

/* Rows that do not fit are named, and nothing of them is left. */
static void rows_that_do_not_fit_leave_nothing(void **state)
{
    cli_fixture *t = *state;
    write_text(t, "bad.csv", "a,b\n1,x\nseven,y\n");
    write_text(t, "wide.csv", "a,b,c\n1,x,y\n");
    write_text(t, "none.csv", "a,b\n");
    write_text(t, "no.parquet", "this is not Parquet");
    static const char *const files[] = {"bad.csv", "wide.csv", "no.parquet"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const cli_result refused =
            cli_run(t, "lake", "table", "append", "books.main.t", files[i], NULL);
        cli_assert_fails(&refused, USAGE);
    }
    assert_int_equal(0, count_files(t));
    const cli_result nothing =
        cli_run(t, "lake", "table", "append", "books.main.t", "none.csv", "--json", NULL);
    assert_int_equal(0, number_of(nothing, "rows"));
    const cli_result deleted =
        cli_run(t, "lake", "table", "delete", "books.main.t", "--where", "a = 7", "--json", NULL);
    assert_int_equal(0, number_of(deleted, "rows_deleted"));
    const cli_result listed = cli_run(t, "lake", "snapshots", "books", "--json", NULL);
    assert_int_equal(2, count_lines(listed.out));
}

/* Columns come and go; older files give defaults, older snapshots the older columns. */
static void a_table_is_altered(void **state)
{
    cli_fixture *t = *state;
    static const char *const steps[][3] = {{"add", "c INTEGER DEFAULT 7", NULL},
                                           {"type", "c", "BIGINT"},
                                           {"rename-column", "c", "d"},
                                           {"drop", "b", NULL},
                                           {"rename", "u", NULL},
                                           {"partition", "bucket(4, a)", "d"}};
    assert_done(cli_run(t, "lake", "table", "append", "books.main.t", "rows.csv", NULL));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        assert_done(cli_run(t, "lake", "table", "alter", i < 5 ? "books.main.t" : "books.main.u",
                            steps[i][0], steps[i][1], steps[i][2], NULL));
    write_text(t, "more.csv", "a,d\n4,1\n5,\n");
    assert_done(cli_run(t, "lake", "table", "append", "books.main.u", "more.csv", NULL));
    assert_int_equal(22, query_n(t, "SELECT sum(d) AS n FROM books.main.u", NULL));
    const cli_result listed = cli_run(t, "lake", "table", "ls", "books.main", "--json", NULL);
    tide_json_node *table = cli_json(&listed);
    assert_string_equal("u", json_text(table, "name"));
    assert_int_equal(2, tide_json_node_count(tide_json_node_find(table, "columns")));
    tide_json_tree_free(table);
    const cli_result unknown =
        cli_run(t, "lake", "table", "alter", "books.main.u", "explode", NULL);
    cli_assert_fails(&unknown, USAGE);
}

/* Old snapshots go, their files with them; what a fork needs stays. */
static void what_nobody_needs_goes(void **state)
{
    cli_fixture *t = *state;
    assert_done(cli_run(t, "lake", "table", "append", "books.main.t", "rows.csv", NULL));
    assert_done(cli_run(t, "lake", "catalog", "fork", "books", "draft", NULL));
    assert_done(cli_run(t, "lake", "table", "append", "books.main.t", "rows.csv", NULL));
    assert_done(cli_run(t, "lake", "table", "drop", "books.main.t", NULL));
    assert_int_equal(2, count_files(t));
    const cli_result expired = cli_run(t, "lake", "expire", "books", "--keep", "1", "--json", NULL);
    assert_int_equal(1, number_of(expired, "files"));
    const cli_result cleaned = cli_run(t, "lake", "cleanup", "--grace", "0s", "--json", NULL);
    assert_int_equal(1, number_of(cleaned, "files"));
    assert_int_equal(1, count_files(t));
    assert_int_equal(3, query_n(t, "SELECT count(*) AS n FROM draft.main.t", NULL));
    assert_done(cli_run(t, "lake", "catalog", "drop", "draft", NULL));
    assert_done(cli_run(t, "lake", "expire", NULL));
    assert_done(cli_run(t, "lake", "expire", "books", "--keep", "1", NULL)); /* the fork's point */
    assert_done(cli_run(t, "lake", "cleanup", "--grace", "0s", NULL));
    assert_int_equal(0, count_files(t));
}

/* What is between two snapshots. */
static void a_diff_tells_what_came_and_went(void **state)
{
    cli_fixture *t = *state;
    char from[32];
    char to[32];
    (void)snprintf(
        from, sizeof from, "%lld",
        (long long)number_of(cli_run(t, "lake", "schema", "create", "books.s", "--json", NULL),
                             "snapshot_id"));
    (void)snprintf(to, sizeof to, "%lld",
                   (long long)number_of(cli_run(t, "lake", "table", "append", "books.main.t",
                                                "rows.csv", "--json", NULL),
                                        "snapshot_id"));
    const cli_result there = cli_run(t, "lake", "diff", from, to, "--json", NULL);
    assert_int_equal(3, number_of(there, "records"));
    assert_contains(there.out, "\"added\":true,\"kind\":\"data_file\"");
    const cli_result back = cli_run(t, "lake", "diff", "books", to, from, "--json", NULL);
    assert_contains(back.out, "\"added\":false,\"kind\":\"data_file\"");
    const cli_result unknown = cli_run(t, "lake", "diff", from, "999999", NULL);
    cli_assert_fails(&unknown, NOT_THERE);
}

/* A catalog is made by who says so, not by who mistyped. */
static void a_catalog_is_made_on_demand_only(void **state)
{
    cli_fixture *t = *state;
    const cli_result refused = cli_run(t, "lake", "table", "create", "new.s.t", "a BIGINT", NULL);
    cli_assert_fails(&refused, NOT_THERE);
    assert_done(cli_run(t, "lake", "table", "create", "new.s.t", "a BIGINT", "--create", NULL));
    const cli_result again =
        cli_run(t, "lake", "table", "create", "new.s.t", "a BIGINT", "--create", NULL);
    cli_assert_fails(&again, REFUSED);
    assert_int_equal(0, query_n(t, "SELECT count(*) AS n FROM new.s.t", NULL));
}

/* Processes that append at once: every row is there, every commit has a snapshot of its own. */
static void writers_at_once_all_get_through(void **state)
{
    cli_fixture *t = *state;
    proc writers[WRITERS];
    const char *const argv[] = {t->program,     "lake",     "table", "append",
                                "books.main.t", "rows.csv", NULL};
    for (int i = 0; i < WRITERS; i++) {
        proc_options options = cli_options(t, argv);
        options.out = PROC_NULL;
        assert_ok_err(proc_start(&writers[i], &options, &t->err), &t->err);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_ok_err(proc_wait(&writers[i], CLI_TIMEOUT_MS, &t->err), &t->err);
        assert_int_equal(0, writers[i].exit_code);
        proc_done(&writers[i]);
    }
    assert_int_equal(3 * WRITERS, query_n(t, "SELECT count(*) AS n FROM books.main.t", NULL));
    const cli_result listed = cli_run(t, "lake", "snapshots", "books", "--json", NULL);
    assert_int_equal(2 + WRITERS, count_lines(listed.out));
}

/* Words that are wrong are told, with the exit code of their kind. */
static void bad_words_are_told_and_change_nothing(void **state)
{
    cli_fixture *t = *state;
    static const struct {
        int exit_code;
        const char *words[5];
    } cases[] = {
        {USAGE, {"table", "create", "books.main.u", "a NOTATYPE", NULL}},
        {USAGE, {"table", "create", "books.main", "a BIGINT", NULL}},
        {REFUSED, {"table", "create", "books.main.t", "a BIGINT", NULL}},
        {REFUSED, {"catalog", "create", "books", NULL, NULL}},
        {REFUSED, {"schema", "create", "books.main", NULL, NULL}},
        {NOT_THERE, {"table", "append", "books.main.t", "missing.csv", NULL}},
        {NOT_THERE, {"table", "append", "books.main.nothing", "rows.csv", NULL}},
        {NOT_THERE, {"snapshots", "nothing", NULL, NULL, NULL}},
        {NOT_THERE, {"catalog", "fork", "books", "kid", "--at=99999"}},
        {NOT_THERE, {"query", "SELECT * FROM books.main.nothing", NULL, NULL, NULL}},
        {USAGE, {"query", "SELEKT", NULL, NULL, NULL}},
        {USAGE, {"delete", "books.main.t", NULL, NULL, NULL}},
        {USAGE, {"expire", "books", NULL, NULL, NULL}},
        {NOT_THERE, {"verify", "nothing", NULL, NULL, NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *w = cases[i].words;
        const cli_result result = cli_run(t, "lake", w[0], w[1], w[2], w[3], w[4], NULL);
        cli_assert_fails(&result, cases[i].exit_code);
    }
    write_text(t, "unknown.jsonl", "{\"op\":\"append\",\"table\":\"main.t\",\"fiel\":\"x\"}\n");
    const cli_result member =
        cli_run(t, "lake", "commit", "books", "--file", "unknown.jsonl", NULL);
    cli_assert_fails(&member, USAGE);
    assert_contains(member.err, "fiel");
    const cli_result listed = cli_run(t, "lake", "snapshots", "books", "--json", NULL);
    assert_int_equal(2, count_lines(listed.out));
}

/* A row that somebody changed behind our back is found, and told by 8. */
static void a_history_that_was_changed_is_found(void **state)
{
    cli_fixture *t = *state;
    assert_done(cli_run(t, "lake", "table", "append", "books.main.t", "rows.csv", NULL));
    cli_sql(t, "store.db", "UPDATE ducklake_data_file SET record_count = 4");
    const cli_result found = cli_run(t, "lake", "verify", "--json", NULL);
    assert_int_equal(DAMAGED, found.exit_code);
    assert_contains(found.out, "\"rule\":\"immutable\"");
}

static char parquet_path[TEMPDIR_PATH_MAX];

static int find_parquet(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    if (count_parquet(path, info, kind, at) == 0 && parquet_count == 0)
        return 0;
    (void)snprintf(parquet_path, sizeof parquet_path, "%s", path);
    return 1;
}

static void assert_files(cli_fixture *t, const char *option, int exit_code, const char *status,
                         int checked, int unchecked, int damaged)
{
    const cli_result result = cli_run(t, "lake", "verify", "--files", "--json", option, NULL);
    char want[128];
    assert_int_equal(exit_code, result.exit_code);
    (void)snprintf(want, sizeof want,
                   "\"status\":\"%s\",\"checked\":%d,\"unchecked\":%d,\"damaged\":%d}", status,
                   checked, unchecked, damaged);
    assert_contains(result.out, want);
}

/* A changed byte of a Parquet file is not served. */
static void a_file_that_was_changed_is_found(void **state)
{
    cli_fixture *t = *state;
    char path[TEMPDIR_PATH_MAX];
    assert_done(cli_run(t, "lake", "table", "append", "books.main.t", "rows.csv", NULL));
    assert_done(cli_run(t, "lake", "delete", "books.main.t", "--where", "a = 1", NULL));
    assert_files(t, NULL, 0, "sound", 2, 0, 0);
    cli_path(t, "data", path);
    parquet_count = 0;
    assert_int_equal(1, nftw(path, find_parquet, 16, FTW_PHYS));
    FILE *file = fopen(parquet_path, "r+");
    assert_non_null(file);
    assert_int_equal(0, fseek(file, 10, SEEK_SET));
    const int byte = fgetc(file);
    assert_int_equal(0, fseek(file, 10, SEEK_SET));
    assert_int_equal(byte ^ 1, fputc(byte ^ 1, file));
    assert_int_equal(0, fclose(file));
    const cli_result query = cli_run(t, "lake", "query", "SELECT * FROM books.main.t", NULL);
    assert_int_equal(DAMAGED, query.exit_code);
    assert_contains(query.err, strrchr(parquet_path, '/') + 1);
    assert_contains(query.err, "lake verify --files");
    assert_files(t, NULL, DAMAGED, "damaged", 2, 0, 1);
    cli_sql(t, "store.db", "DELETE FROM lake_file_digest"); /* as after a stock client */
    assert_files(t, NULL, 0, "sound", 0, 2, 0);
    assert_files(t, "--record-digests", 0, "sound", 2, 0, 0);
    assert_files(t, NULL, 0, "sound", 2, 0, 0);
    assert_int_equal(0, remove(parquet_path));
    assert_files(t, NULL, DAMAGED, "damaged", 1, 0, 1);
}

/* On PostgreSQL as views, anywhere as a file. */
static void a_catalog_is_exposed(void **state)
{
    cli_fixture *t = *state;
    assert_int_equal(
        1, number_of(cli_run(t, "lake", "expose", "books", "--schema", "shown", "--json", NULL),
                     "catalog_id"));
    assert_int_equal(REFUSED, cli_run(t, "lake", "catalog", "drop", "books", NULL).exit_code);
    assert_done(cli_run(t, "lake", "unexpose", "books", NULL));
}

static void a_catalog_is_exported(void **state)
{
    cli_fixture *t = *state;
    const cli_result refused = cli_run(t, "lake", "expose", "books", NULL);
    assert_true(refused.exit_code != 0);
    assert_contains(refused.err, "lake export books");
    assert_int_equal(
        1,
        number_of(cli_run(t, "lake", "export", "books", "books.sqlite", "--json", NULL), "tables"));
    assert_int_equal(REFUSED,
                     cli_run(t, "lake", "export", "books", "books.sqlite", NULL).exit_code);
    assert_done(cli_run(t, "lake", "export", "books", "books.sqlite", "--force", NULL));
}

#define ON(function, engine)                                                                       \
    {                                                                                              \
#function " (" engine ")", function, lake_setup, lake_teardown, (void *)(engine)           \
    }
#define ON_EVERY_STORE(function) ON(function, "sqlite"), ON(function, "postgres")

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(a_catalog_is_made_filled_and_read),
        ON(a_second_init_finds_the_first, "sqlite"),
        ON_EVERY_STORE(a_fork_goes_its_own_way),
        ON_EVERY_STORE(several_operations_are_one_snapshot_or_none),
        ON_EVERY_STORE(a_request_key_is_done_once),
        ON(rows_that_do_not_fit_leave_nothing, "sqlite"),
        ON(a_table_is_altered, "postgres"),
        ON(a_catalog_is_exposed, "postgres"),
        ON(a_catalog_is_exported, "sqlite"),
        ON_EVERY_STORE(what_nobody_needs_goes),
        ON(a_diff_tells_what_came_and_went, "sqlite"),
        ON(a_catalog_is_made_on_demand_only, "postgres"),
        ON_EVERY_STORE(writers_at_once_all_get_through),
        ON(bad_words_are_told_and_change_nothing, "sqlite"),
        ON(a_file_that_was_changed_is_found, "sqlite"),
        {"a_history_that_was_changed_is_found (sqlite)", a_history_that_was_changed_is_found,
         lake_setup, cli_teardown, (void *)"sqlite"},
    };
    duckdb_place();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
