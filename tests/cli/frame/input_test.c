/* Values from the command line, files and stdin; JSON and JSON lines. */
#include "cli/frame/input.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/json.h"
#include "support/tempdir.h"

typedef struct fixture {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];      /* of a file that write_file makes */
    char value[TEMPDIR_PATH_MAX + 1]; /* @PATH */
    tide_buffer read;
    tide_error err;
} fixture;

static int setup(void **state)
{
    fixture *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    tempdir_join(&t->dir, "value", t->path);
    snprintf(t->value, sizeof t->value, "@%s", t->path);
    tide_buffer_init(&t->read, TIDE_CLI_INPUT_MAX);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    fixture *t = *state;
    tide_buffer_done(&t->read);
    assert_ok_err(tempdir_remove(&t->dir, &t->err), &t->err);
    free(t);
    return 0;
}

static void write_file(const fixture *t, const void *bytes, size_t len)
{
    FILE *file = fopen(t->path, "wbe");
    assert_non_null(file);
    assert_int_equal(len, fwrite(bytes, 1, len, file));
    assert_int_equal(0, fclose(file));
}

static void write_text(const fixture *t, const char *text)
{
    write_file(t, text, strlen(text));
}

/* ---- values ---- */

static void a_value_is_itself_or_what_a_file_holds(void **state)
{
    fixture *t = *state;
    assert_ok_err(tide_cli_input_read(&t->read, "as it is", "--data", &t->err), &t->err);
    assert_string_equal("as it is", tide_buffer_text(&t->read));
    tide_buffer_clear(&t->read);
    write_file(t, "a\0b\n", 4);
    assert_ok_err(tide_cli_input_read(&t->read, t->value, "--data", &t->err), &t->err);
    assert_int_equal(4, t->read.len);
    assert_memory_equal("a\0b\n", t->read.ptr, 4);
    tide_buffer_clear(&t->read);
    write_text(t, "");
    assert_ok_err(tide_cli_input_read(&t->read, t->value, "--data", &t->err), &t->err);
    assert_int_equal(0, t->read.len);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    fixture *t = *state;
    assert_status(TIDE_E_INVALID, tide_cli_input_read(&t->read, t->value, "--data", &t->err));
    assert_contains(t->err.text, "--data");
    assert_contains(t->err.text, t->path);
    char directory[TEMPDIR_PATH_MAX + 1];
    snprintf(directory, sizeof directory, "@%s", t->dir.path);
    assert_status(TIDE_E_INVALID, tide_cli_input_read(&t->read, directory, "--data", &t->err));
    assert_contains(t->err.text, "is a directory");
    assert_status(TIDE_E_INVALID, tide_cli_input_read(&t->read, "@", "--data", &t->err));
}

static void a_value_over_its_maximum_is_refused(void **state)
{
    fixture *t = *state;
    tide_buffer_done(&t->read);
    tide_buffer_init(&t->read, 5);
    assert_ok_err(tide_cli_input_read(&t->read, "12345", "--data", &t->err), &t->err);
    tide_buffer_clear(&t->read);
    assert_status(TIDE_E_INVALID, tide_cli_input_read(&t->read, "123456", "--data", &t->err));
    assert_contains(t->err.text, "--data is longer than 5 bytes");
    write_text(t, "123456");
    assert_status(TIDE_E_INVALID, tide_cli_input_read(&t->read, t->value, "--data", &t->err));
    assert_contains(t->err.text, "longer than 5 bytes");
    /* Without an end: seen to be too long, not read for ever. */
    tide_buffer_clear(&t->read);
    assert_status(TIDE_E_INVALID, tide_cli_input_read(&t->read, "@/dev/zero", "--data", &t->err));
}

/* Whoever writes - twice would get nothing the second time. */
static void stdin_is_read_once(void **state)
{
    fixture *t = *state;
    write_text(t, " {\"a\": [1, 2]}\n\n");
    const int file = open(t->path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(STDIN_FILENO, dup2(file, STDIN_FILENO));
    assert_int_equal(0, close(file));
    assert_ok_err(tide_cli_input_json(&t->read, "-", "--data", &t->err), &t->err);
    assert_string_equal("{\"a\": [1, 2]}", tide_buffer_text(&t->read));
    tide_buffer_clear(&t->read);
    assert_status(TIDE_E_INVALID, tide_cli_input_read(&t->read, "-", "--metadata", &t->err));
    assert_contains(t->err.text, "--metadata: stdin is read already");
    TIDE_CLEANUP(tide_cli_lines_done) tide_cli_lines lines = {.file = NULL};
    assert_status(TIDE_E_INVALID, tide_cli_lines_init(&lines, "-", 100, &t->err));
}

/* ---- JSON ---- */

static void json_is_kept_as_it_was_written(void **state)
{
    fixture *t = *state;
    static const char *const values[] = {"{}",       "[1.10, 12345678901234567890123]",
                                         "\"text\"", "null",
                                         "-0",       "{\"a\":1,\"a\":2}",
                                         "true",     "{ \"spaced\" : [ ] }"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        tide_buffer_clear(&t->read);
        assert_ok_err(tide_cli_input_json(&t->read, values[i], "--data", &t->err), &t->err);
        assert_string_equal(values[i], tide_buffer_text(&t->read));
    }
    write_text(t, "\n\t {\"a\":\r\n1} \n");
    tide_buffer_clear(&t->read);
    assert_ok_err(tide_cli_input_json(&t->read, t->value, "--data", &t->err), &t->err);
    assert_string_equal("{\"a\":\r\n1}", tide_buffer_text(&t->read));
}

static void assert_no_json(fixture *t, const void *bytes, size_t len)
{
    write_file(t, bytes, len);
    tide_buffer_clear(&t->read);
    assert_status(TIDE_E_INVALID, tide_cli_input_json(&t->read, t->value, "--data", &t->err));
    assert_contains(t->err.text, "--data is not JSON");
}

static void what_is_not_json_is_refused(void **state)
{
    fixture *t = *state;
    static const char *const texts[] = {
        "",        " ",      "{",           "{\"a\":}",      "[1,]",
        "nothing", "1 2",    "{'a':1}",     "\"\xff\"",      "\"\xed\xa0\x80\"",
        "\"\t\"",  "[1]\n]", "\"\\ud800\"", "\xef\xbb\xbf{}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_no_json(t, texts[i], strlen(texts[i]));
    assert_no_json(t, "\"a\0b\"", 5);
    assert_no_json(t, "{}\0", 3);
}

static void nesting_ends_at_a_hundred(void **state)
{
    fixture *t = *state;
    char text[202];
    memset(text, '[', 101);
    memset(text + 101, ']', 101);
    assert_no_json(t, text, 202);
    write_file(t, text + 1, 200);
    tide_buffer_clear(&t->read);
    assert_ok_err(tide_cli_input_json(&t->read, t->value, "--data", &t->err), &t->err);
}

/* ---- JSON lines ---- */

static void lines_are_numbered_and_blank_ones_skipped(void **state)
{
    fixture *t = *state;
    write_text(t, "{\"n\":1}\r\n\n  \n{\"n\":4}\n{\"n\":5}");
    static const int numbers[] = {1, 4, 5};
    TIDE_CLEANUP(tide_cli_lines_done) tide_cli_lines lines = {.file = NULL};
    const tide_json_node *object = NULL;
    assert_ok_err(tide_cli_lines_init(&lines, t->path, 100, &t->err), &t->err);
    for (int i = 0; i < 3; i++) {
        assert_ok_err(tide_cli_lines_next(&lines, &object, &t->err), &t->err);
        assert_int_equal(numbers[i], tide_json_node_integer(tide_json_node_find(object, "n")));
        assert_int_equal(numbers[i], lines.number);
    }
    assert_status(TIDE_E_CONFLICT,
                  tide_cli_lines_fail(&lines, &t->err, TIDE_E_CONFLICT, "%s is taken", "it"));
    assert_contains(t->err.text, "value, line 5: it is taken");
    assert_status(TIDE_NONE, tide_cli_lines_next(&lines, &object, &t->err));
}

static void a_bad_line_is_told_with_its_number(void **state)
{
    fixture *t = *state;
    static const struct {
        const char *text;
        const char *told;
    } rows[] = {{"{}\n{\n", "line 2: not JSON"},
                {"{}\n\n[1]\n", "line 3: not a JSON object"},
                {"7", "line 1: not a JSON object"},
                {"{}\n{\"a\":\"\xff\"}\n", "line 2: not JSON"},
                {"{}{}\n", "line 1: not JSON"},
                {"{}\n{\"a\":\"01234567890123456789\"}\n", "line 2: longer than 20 bytes"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_text(t, rows[i].text);
        TIDE_CLEANUP(tide_cli_lines_done) tide_cli_lines lines = {.file = NULL};
        const tide_json_node *object = NULL;
        assert_ok_err(tide_cli_lines_init(&lines, t->value, 20, &t->err), &t->err);
        tide_status status;
        while ((status = tide_cli_lines_next(&lines, &object, &t->err)) == TIDE_OK)
            assert_int_equal(0, tide_json_node_count(object));
        assert_status(TIDE_E_INVALID, status);
        assert_contains(t->err.text, rows[i].told);
        assert_contains(t->err.text, t->path);
    }
    TIDE_CLEANUP(tide_cli_lines_done) tide_cli_lines lines = {.file = NULL};
    assert_status(TIDE_E_INVALID, tide_cli_lines_init(&lines, "/no/such/file", 20, &t->err));
}

/* A payload must not be changed by being read: 1.10 stays 1.10. */
static void a_member_is_found_as_it_was_written(void **state)
{
    fixture *t = *state;
    write_text(t, "{ \"input\" : {\"x\": [1.10, {\"type\":\"inner\"}]} , \"type\":\"t\","
                  "\"n\":-5,\"o\":{\"deep\":1},\"\\u0061\":[ ], \"input\" : [2.50] }\n");
    TIDE_CLEANUP(tide_cli_lines_done) tide_cli_lines lines = {.file = NULL};
    const tide_json_node *object = NULL;
    assert_ok_err(tide_cli_lines_init(&lines, t->path, 1000, &t->err), &t->err);
    assert_ok_err(tide_cli_lines_next(&lines, &object, &t->err), &t->err);
    static const struct {
        const char *key;
        const char *want;
    } members[] = {{"input", "[2.50]"}, {"type", "\"t\""}, {"n", "-5"}, {"a", "[ ]"}};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const tide_view found = tide_cli_lines_member(&lines, members[i].key);
        assert_true(tide_view_equal(tide_view_of(members[i].want), found));
    }
    assert_null(tide_cli_lines_member(&lines, "x").ptr);
    assert_null(tide_cli_lines_member(&lines, "deep").ptr);
    assert_null(tide_cli_lines_member(&lines, "").ptr);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_value_is_itself_or_what_a_file_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_read_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_value_over_its_maximum_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(stdin_is_read_once, setup, teardown),
        cmocka_unit_test_setup_teardown(json_is_kept_as_it_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_json_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(nesting_ends_at_a_hundred, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_are_numbered_and_blank_ones_skipped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_line_is_told_with_its_number, setup, teardown),
        cmocka_unit_test_setup_teardown(a_member_is_found_as_it_was_written, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
