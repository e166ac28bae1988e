/* What a verb prints: JSON members of every kind, tables, durations, progress. */
#include "cli/print/output.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/print/progress.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"
#include "support/json.h"

/* An output that is kept in memory. */
typedef struct fixture {
    char *text;
    size_t len;
    FILE *file;
    tide_cli_output out;
    tide_error err;
} fixture;

static int setup(void **state)
{
    fixture *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->file = open_memstream(&t->text, &t->len);
    assert_non_null(t->file);
    tide_cli_output_init(&t->out, t->file, true);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    fixture *t = *state;
    tide_cli_output_done(&t->out);
    (void)fclose(t->file);
    free(t->text);
    free(t);
    return 0;
}

static const char *printed(fixture *t)
{
    assert_ok_err(tide_cli_output_flush(&t->out, &t->err), &t->err);
    return t->text;
}

static void members_of_every_kind_stand_in_one_line(void **state)
{
    fixture *t = *state;
    tide_cli_output *out = &t->out;
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "text", "a\"b");
    tide_cli_json_text(out, "no_text", NULL);
    tide_cli_json_view(out, "view", tide_view_bytes("abcdef", 3));
    tide_cli_json_view(out, "no_view", (tide_view){NULL, 0});
    tide_cli_json_i64(out, "number", INT64_MIN);
    tide_cli_json_double(out, "double", 0.5);
    tide_cli_json_double(out, "nan", (double)NAN);
    tide_cli_json_bool(out, "bool", true);
    tide_cli_json_null(out, "null");
    tide_cli_json_time(out, "time", 0);
    tide_cli_json_time(out, "no_time", INT64_MIN);
    assert_ok_err(tide_cli_json_end(out, &t->err), &t->err);
    assert_string_equal(
        "{\"text\":\"a\\\"b\",\"no_text\":null,\"view\":\"abc\",\"no_view\":null,"
        "\"number\":-9223372036854775808,\"double\":0.5,\"nan\":null,\"bool\":true,"
        "\"null\":null,\"time\":\"1970-01-01T00:00:00.000000Z\",\"no_time\":null}\n",
        printed(t));
}

static void objects_and_arrays_nest(void **state)
{
    fixture *t = *state;
    tide_cli_output *out = &t->out;
    tide_cli_json_begin(out);
    tide_cli_json_array_begin(out, "list");
    tide_cli_json_i64(out, NULL, 1);
    tide_cli_json_raw(out, NULL, tide_view_of("[2]"));
    tide_cli_json_object_begin(out, NULL);
    tide_cli_json_raw(out, "a", tide_view_of("{\"b\":3}"));
    tide_cli_json_object_end(out);
    tide_cli_json_array_begin(out, NULL);
    tide_cli_json_array_end(out);
    tide_cli_json_array_end(out);
    tide_cli_json_object_begin(out, "object");
    tide_cli_json_object_end(out);
    tide_cli_json_bool(out, "last", false);
    assert_ok_err(tide_cli_json_end(out, &t->err), &t->err);
    assert_string_equal("{\"list\":[1,[2],{\"a\":{\"b\":3}},[]],\"object\":{},\"last\":false}\n",
                        printed(t));
}

/* A program reads line by line: a value that was written over several lines must not break that. */
static void a_raw_value_stays_as_it_is_but_on_one_line(void **state)
{
    fixture *t = *state;
    tide_cli_json_begin(&t->out);
    tide_cli_json_raw(&t->out, "a", tide_view_of("{\r\n  \"x\": 1.10,\n  \"y\": \"\\n\"\n}"));
    tide_cli_json_raw(&t->out, "b", (tide_view){NULL, 0});
    tide_cli_json_raw(&t->out, "c", tide_view_of("12345678901234567890123"));
    assert_ok_err(tide_cli_json_end(&t->out, &t->err), &t->err);
    assert_string_equal("{\"a\":{    \"x\": 1.10,   \"y\": \"\\n\" },\"b\":null,"
                        "\"c\":12345678901234567890123}\n",
                        printed(t));
}

static void one_object_carries_the_largest_snapshot(void **state)
{
    fixture *t = *state;
    enum { LEN = 64 << 20 };
    TIDE_CLEANUP(tide_freep) char *snapshot = malloc(LEN);
    assert_non_null(snapshot);
    memset(snapshot, 'x', LEN);
    snapshot[0] = snapshot[LEN - 1] = '"';
    tide_cli_json_begin(&t->out);
    tide_cli_json_raw(&t->out, "data", tide_view_bytes(snapshot, LEN));
    assert_ok_err(tide_cli_json_end(&t->out, &t->err), &t->err);
    (void)printed(t);
    assert_int_equal(LEN + strlen("{\"data\":}\n"), t->len);
    /* Three of them are too many, and said to be. */
    tide_cli_json_begin(&t->out);
    for (int i = 0; i < 3; i++)
        tide_cli_json_raw(&t->out, "data", tide_view_bytes(snapshot, LEN));
    assert_status(TIDE_E_LIMIT, tide_cli_json_end(&t->out, &t->err));
}

/* ---- tables ---- */

static void a_table_has_up_to_sixteen_columns(void **state)
{
    fixture *t = *state;
    tide_cli_column columns[TIDE_CLI_TABLE_COLUMNS] = {{.title = "A"}};
    for (int i = 0; i < TIDE_CLI_TABLE_COLUMNS; i++)
        columns[i].title = "AB";
    tide_cli_table table;
    tide_cli_table_init(&table, &t->out, columns, TIDE_CLI_TABLE_COLUMNS);
    for (int i = 0; i < TIDE_CLI_TABLE_COLUMNS; i++)
        tide_cli_table_number(&table, 100 + i);
    assert_ok_err(tide_cli_table_done(&table, &t->err), &t->err);
    const char *text = printed(t);
    assert_contains(text, "AB   AB   AB   AB   AB   AB   AB   AB   AB");
    assert_contains(text, "100  101  102  103  104  105  106  107  108  109  110  111  112  113  "
                          "114  115\n");
}

static void cells_are_cut_cleaned_and_never_empty(void **state)
{
    fixture *t = *state;
    static const tide_cli_column columns[] = {{.title = "TEXT"}, {.title = "TIME"}};
    char large[TIDE_CLI_CELL_MAX + 2];
    memset(large, 'x', sizeof large);
    tide_cli_table table;
    tide_cli_table_init(&table, &t->out, columns, 2);
    tide_cli_table_cell(&table, NULL);
    tide_cli_table_time(&table, INT64_MIN);
    tide_cli_table_view(&table, tide_view_bytes("a\nbcd", 3));
    tide_cli_table_time(&table, 1);
    tide_cli_table_view(&table, tide_view_bytes(large, sizeof large));
    tide_cli_table_cell(&table, "end");
    assert_ok_err(tide_cli_table_done(&table, &t->err), &t->err);
    const char *text = printed(t);
    assert_contains(text, "a?b ");
    assert_contains(text, "1970-01-01T00:00:00.000001Z\n");
    assert_contains(text, "xxx...  end\n");
    const char *second = strchr(text, '\n') + 1;
    assert_int_equal('-', second[0]);
    assert_contains(second, "  -\n");
    assert_int_equal(TIDE_CLI_CELL_MAX, strspn(strstr(text, "xxx"), "x"));
}

/* A number stands to the right; a title may have spaces. */
static void titles_are_a_list_in_one_text(void **state)
{
    fixture *t = *state;
    tide_cli_table table;
    tide_cli_table_begin(&table, &t->out, "NAME,IN USE#,AT");
    tide_cli_table_cell(&table, "a");
    tide_cli_table_number(&table, 7);
    tide_cli_table_cell(&table, "b");
    assert_ok_err(tide_cli_table_end(&table, TIDE_NONE, &t->err), &t->err);
    assert_string_equal(printed(t), "NAME  IN USE  AT\na          7  b\n");
}

static void a_table_whose_rows_failed_returns_their_failure(void **state)
{
    fixture *t = *state;
    tide_cli_table table;
    tide_cli_table_begin(&table, &t->out, "NAME");
    const tide_status failed = tide_fail(&t->err, TIDE_E_BUSY, "the rows are locked");
    assert_status(TIDE_E_BUSY, tide_cli_table_end(&table, failed, &t->err));
    assert_string_equal(t->err.text, "the rows are locked");
    assert_string_equal(printed(t), "");
}

static void a_duration_is_told_in_its_two_largest_units(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *want;
    } rows[] = {{0, "0us"},
                {999, "999us"},
                {1000, "1ms"},
                {999999, "999ms"},
                {1250000, "1.250s"},
                {59999999, "59.999s"},
                {60000000, "1m 0s"},
                {270000000, "4m 30s"},
                {INT64_C(3600000000), "1h 0m"},
                {INT64_C(183600000000), "2d 3h"},
                {-1250000, "-1.250s"},
                {INT64_MIN, "-106751991d 4h"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[TIDE_CLI_DURATION_SIZE];
        tide_cli_duration_text(text, rows[i].us);
        assert_string_equal(rows[i].want, text);
    }
}

/* ---- progress ---- */

/* One line that is written over, ten times a second at most, and gone at the end. */
static void progress_is_one_line_that_goes_away(void **state)
{
    fixture *t = *state;
    virtual_env env;
    virtual_env_init(&env, 1);
    tide_cli_progress progress = {.file = t->file, .env = &env.env, .what = "importing"};
    progress.next_us = env.mono_us + 500000;
    virtual_env_advance(&env, 499999);
    tide_cli_progress_update(&progress, 1, 8);
    virtual_env_advance(&env, 1);
    tide_cli_progress_update(&progress, 2, 8);
    virtual_env_advance(&env, 99999);
    tide_cli_progress_update(&progress, 3, 8);
    virtual_env_advance(&env, 1);
    tide_cli_progress_update(&progress, 4, 0);
    tide_cli_progress_end(&progress);
    tide_cli_progress_update(&progress, 5, 8);
    assert_string_equal("\r\033[Kimporting: 2 of 8 (25 %)\r\033[Kimporting: 4\r\033[K", printed(t));
    virtual_env_done(&env);
}

static void work_that_is_quick_shows_nothing(void **state)
{
    fixture *t = *state;
    virtual_env env;
    virtual_env_init(&env, 1);
    tide_cli_progress progress = {.file = t->file, .env = &env.env, .next_us = INT64_MAX};
    tide_cli_progress_update(&progress, 1, 2);
    tide_cli_progress_end(&progress);
    assert_string_equal("", printed(t));
    virtual_env_done(&env);
}

static bool is_shown(bool is_json)
{
    tide_cli_output out = {.is_json = is_json};
    tide_cli_progress progress;
    tide_cli_progress_begin(&progress, &out, "testing");
    const bool is_to_terminal = progress.file == stderr;
    progress.file = NULL;
    tide_cli_progress_end(&progress);
    return is_to_terminal;
}

static void progress_is_for_a_terminal_only(void **state)
{
    (void)state;
    const int kept = dup(STDERR_FILENO);
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(kept >= 0 && master >= 0);
    assert_int_equal(0, grantpt(master));
    assert_int_equal(0, unlockpt(master));
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(terminal >= 0 && nowhere >= 0);
    assert_int_equal(0, setenv("TERM", "xterm", 1));
    (void)dup2(terminal, STDERR_FILENO);
    const bool on_terminal = is_shown(false);
    const bool on_terminal_with_json = is_shown(true);
    (void)setenv("TERM", "dumb", 1);
    const bool on_dumb_terminal = is_shown(false);
    (void)setenv("TERM", "xterm", 1);
    (void)dup2(nowhere, STDERR_FILENO);
    const bool elsewhere = is_shown(false);
    (void)dup2(kept, STDERR_FILENO);
    const int all[] = {kept, master, terminal, nowhere};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        (void)close(all[i]);
    assert_true(on_terminal);
    assert_false(on_terminal_with_json);
    assert_false(on_dumb_terminal);
    assert_false(elsewhere);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members_of_every_kind_stand_in_one_line, setup, teardown),
        cmocka_unit_test_setup_teardown(objects_and_arrays_nest, setup, teardown),
        cmocka_unit_test_setup_teardown(a_raw_value_stays_as_it_is_but_on_one_line, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_object_carries_the_largest_snapshot, setup, teardown),
        cmocka_unit_test_setup_teardown(a_table_has_up_to_sixteen_columns, setup, teardown),
        cmocka_unit_test_setup_teardown(cells_are_cut_cleaned_and_never_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(titles_are_a_list_in_one_text, setup, teardown),
        cmocka_unit_test_setup_teardown(a_table_whose_rows_failed_returns_their_failure, setup,
                                        teardown),
        cmocka_unit_test(a_duration_is_told_in_its_two_largest_units),
        cmocka_unit_test_setup_teardown(progress_is_one_line_that_goes_away, setup, teardown),
        cmocka_unit_test_setup_teardown(work_that_is_quick_shows_nothing, setup, teardown),
        cmocka_unit_test(progress_is_for_a_terminal_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
