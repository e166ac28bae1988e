/* Settings in a file: what a line may be, and how a mistake is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/options_file.h"
#include "support/check.h"
#include "support/tempdir.h"

static tide_status parse(tide_options_file *file, const char *text, tide_error *err)
{
    return tide_options_file_parse(file, tide_view_of(text), "agent.conf", err);
}

static void names_and_values_are_found_with_their_lines(void **state)
{
    (void)state;
    tide_error err = {.status = TIDE_OK};
    TIDE_CLEANUP(tide_options_file_done) tide_options_file file = {.count = 0};
    assert_ok_err(parse(&file,
                        "\xEF\xBB\xBF# comment\n"
                        "grpc=127.0.0.1:4317\r\n"
                        "   \n"
                        "; another\n"
                        "\tname\t =  agent # 1 = one  \n"
                        "empty = \"\"\n"
                        "quoted = \"  kept  \"\n"
                        "store = \xc3\xa4.db",
                        &err),
                  &err);
    static const struct {
        const char *name;
        const char *value;
        int line;
    } rows[] = {{"grpc", "127.0.0.1:4317", 2},
                {"name", "agent # 1 = one", 5},
                {"empty", "", 6},
                {"quoted", "  kept  ", 7},
                {"store", "\xc3\xa4.db", 8}};
    assert_int_equal(sizeof rows / sizeof rows[0], file.count);
    for (int i = 0; i < file.count; i++) {
        assert_string_equal(rows[i].name, file.settings[i].name);
        assert_string_equal(rows[i].value, file.settings[i].value);
        assert_int_equal(rows[i].line, file.settings[i].line);
    }
}

static void an_empty_file_sets_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n", "#", "\r\n\r\n", "\xEF\xBB\xBF"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        TIDE_CLEANUP(tide_options_file_done) tide_options_file file = {.count = 0};
        assert_ok(parse(&file, texts[i], NULL));
        assert_int_equal(0, file.count);
    }
}

static void mistakes_are_told_with_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"grpc\n", "agent.conf:1: want NAME = VALUE"},
        {"a = 1\n\n= 2\n", "agent.conf:3: no name before '='"},
        {"a b = 1\n", "agent.conf:1: 'a b' is not the name of an option"},
        {"Grpc = 1\n", "agent.conf:1: 'Grpc' is not"},
        {"--grpc = 1\n\nx", "agent.conf:3: want"},
        {"a =\n", "agent.conf:1: no value behind '='"},
        {"a = \"\n", "agent.conf:1: the value begins with '\"'"},
        {"a = \"b\"c\"\n", "agent.conf:1: a value in '\"' cannot hold another"},
        {"a = b\x01\n", "agent.conf:1: a control character (0x01) at column 6"},
        {"a = \xff\n", "agent.conf:1: not valid UTF-8"},
        {"# \xff\n", "agent.conf:1: not valid UTF-8"},
        {"a = b\rc\n", "agent.conf:1: a control character (0x0d)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tide_error err = {.status = TIDE_OK};
        TIDE_CLEANUP(tide_options_file_done) tide_options_file file = {.count = 0};
        assert_status_err(TIDE_E_INVALID, parse(&file, rows[i].text, &err), &err);
        assert_contains(err.text, rows[i].words);
    }
    tide_error err = {.status = TIDE_OK};
    TIDE_CLEANUP(tide_options_file_done) tide_options_file file = {.count = 0};
    assert_status(TIDE_E_INVALID,
                  tide_options_file_parse(&file, tide_view_bytes("a = b\0c", 7), "f", &err));
}

static void limits_are_kept(void **state)
{
    (void)state;
    tide_error err = {.status = TIDE_OK};
    const size_t size = (size_t)TIDE_OPTIONS_FILE_MAX + 2;
    TIDE_CLEANUP(tide_freep) char *text = malloc(size);
    assert_non_null(text);
    TIDE_CLEANUP(tide_options_file_done) tide_options_file file = {.count = 0};
    memset(text, '\n', size);
    assert_status(TIDE_E_INVALID,
                  tide_options_file_parse(&file, tide_view_bytes(text, size - 1), "f", &err));
    tide_options_file_done(&file);
    assert_ok(tide_options_file_parse(&file, tide_view_bytes(text, size - 2), "f", &err));
    tide_options_file_done(&file);
    /* a value, a name, and as many lines as there may be, and one more */
    memset(text, 'v', size);
    memcpy(text, "a=", 2);
    assert_ok(tide_options_file_parse(&file, tide_view_bytes(text, 2 + TIDE_OPTIONS_VALUE_MAX), "f",
                                      &err));
    tide_options_file_done(&file);
    assert_status(TIDE_E_INVALID,
                  tide_options_file_parse(&file, tide_view_bytes(text, 3 + TIDE_OPTIONS_VALUE_MAX),
                                          "f", &err));
    tide_options_file_done(&file);
    text[0] = 'v';
    text[1] = 'v';
    text[TIDE_OPTIONS_NAME_MAX] = '=';
    assert_ok(tide_options_file_parse(&file, tide_view_bytes(text, TIDE_OPTIONS_NAME_MAX + 9), "f",
                                      &err));
    tide_options_file_done(&file);
    text[TIDE_OPTIONS_NAME_MAX] = 'v';
    text[TIDE_OPTIONS_NAME_MAX + 1] = '=';
    assert_status(TIDE_E_INVALID,
                  tide_options_file_parse(&file, tide_view_bytes(text, TIDE_OPTIONS_NAME_MAX + 9),
                                          "f", &err));
    tide_options_file_done(&file);
    for (int i = 0; i <= TIDE_OPTIONS_FILE_LINES; i++)
        memcpy(text + 4 * i, "a=b\n", 4);
    assert_ok(tide_options_file_parse(
        &file, tide_view_bytes(text, 4 * (size_t)TIDE_OPTIONS_FILE_LINES), "f", &err));
    tide_options_file_done(&file);
    assert_status(
        TIDE_E_INVALID,
        tide_options_file_parse(
            &file, tide_view_bytes(text, 4 * (size_t)TIDE_OPTIONS_FILE_LINES + 4), "f", &err));
    assert_contains(err.text, "f:4097: more than 4096 settings");
}

static void a_file_is_read_by_its_path(void **state)
{
    (void)state;
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    tide_error err = {.status = TIDE_OK};
    assert_ok_err(tempdir_make(&dir, &err), &err);
    tempdir_join(&dir, "agent.conf", path);
    TIDE_CLEANUP(tide_options_file_done) tide_options_file file = {.count = 0};
    assert_status(TIDE_E_NOT_FOUND, tide_options_file_read(&file, path, &err));
    assert_contains(err.text, "agent.conf: No such file");
    assert_status(TIDE_E_INVALID, tide_options_file_read(&file, dir.path, &err));
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs("a = 1\n", out) >= 0);
    assert_int_equal(0, fclose(out));
    assert_ok_err(tide_options_file_read(&file, path, &err), &err);
    assert_int_equal(1, file.count);
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_values_are_found_with_their_lines),
        cmocka_unit_test(an_empty_file_sets_nothing),
        cmocka_unit_test(mistakes_are_told_with_file_and_line),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(a_file_is_read_by_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
