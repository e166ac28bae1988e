#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"

typedef struct fixture {
    virtual_env env;
    tide_log log;
    FILE *file;
    char *text;
    size_t len;
} fixture;

static fixture t;

static void open_log(tide_log_format format, tide_log_level level)
{
    virtual_env_init(&t.env, 1);
    t.file = open_memstream(&t.text, &t.len);
    assert_non_null(t.file);
    tide_log_init(&t.log, t.file, &t.env.env, format, level);
}

static int close_log(void **state)
{
    (void)state;
    if (t.file)
        (void)fclose(t.file);
    free(t.text);
    virtual_env_done(&t.env);
    t = (fixture){0};
    return 0;
}

/* The whole line, as a reader of logfmt gets it. */
static void a_logfmt_line_has_time_level_message_and_fields(void **state)
{
    (void)state;
    open_log(TIDE_LOG_LOGFMT, TIDE_LOG_INFO);
    tide_log_write(&t.log, TIDE_LOG_INFO, "opened store", TIDE_F("url", "sqlite:a.db"),
                   TIDE_FI("ms", 12), TIDE_FD("ratio", 0.5), TIDE_FB("new", true),
                   TIDE_FV("part", tide_view_bytes("abc", 2)), TIDE_F_END);
    assert_string_equal(t.text, "time=2025-01-01T00:00:00.000000Z level=info msg=\"opened store\" "
                                "url=sqlite:a.db ms=12 ratio=0.5 new=true part=ab\n");
}

/* The same line as JSON. */
static void a_json_line_is_one_object(void **state)
{
    (void)state;
    open_log(TIDE_LOG_JSON, TIDE_LOG_INFO);
    tide_log_write(&t.log, TIDE_LOG_WARN, "slow \"disk\"", TIDE_F("path", "C:\\x\n"),
                   TIDE_FI("ms", INT64_MIN), TIDE_FB("new", false), TIDE_F("none", NULL),
                   TIDE_F_END);
    assert_string_equal(t.text, "{\"time\":\"2025-01-01T00:00:00.000000Z\",\"level\":\"warn\","
                                "\"msg\":\"slow \\\"disk\\\"\",\"path\":\"C:\\\\x\\n\","
                                "\"ms\":-9223372036854775808,\"new\":false,\"none\":\"\"}\n");
}

/* No value can end its line or pretend to be another field. */
static void logfmt_values_are_quoted_where_needed(void **state)
{
    (void)state;
    open_log(TIDE_LOG_LOGFMT, TIDE_LOG_DEBUG);
    tide_log_write(&t.log, TIDE_LOG_DEBUG, "m", TIDE_F("a", ""), TIDE_F("b", "x y"),
                   TIDE_F("c", "q\"q"), TIDE_F("d", "k=v"), TIDE_F("e", "l1\nlevel=error"),
                   TIDE_F("f", "\x1B[31m"), TIDE_F("g", "\xC3\xBC"), TIDE_F("h", "\xFF"),
                   TIDE_F("i", "b\\s"), TIDE_F_END);
    assert_string_equal(strstr(t.text, "msg="),
                        "msg=m a=\"\" b=\"x y\" c=\"q\\\"q\" d=\"k=v\" e=\"l1\\nlevel=error\" "
                        "f=\"\\u001b[31m\" g=\xC3\xBC h=\"\xEF\xBF\xBD\" i=\"b\\\\s\"\n");
}

/* A key from outside cannot break the line either. */
static void awkward_keys_are_made_harmless(void **state)
{
    (void)state;
    open_log(TIDE_LOG_LOGFMT, TIDE_LOG_INFO);
    tide_log_write(&t.log, TIDE_LOG_INFO, "m", TIDE_F("a b=c\n\"", "v"), TIDE_F_END);
    assert_string_equal(strstr(t.text, "msg="), "msg=m a_b_c__=v\n");
}

/* What is not asked for costs nothing and is not there. */
static void lines_above_the_level_are_not_written(void **state)
{
    (void)state;
    open_log(TIDE_LOG_LOGFMT, TIDE_LOG_WARN);
    tide_log_write(&t.log, TIDE_LOG_DEBUG, "no", TIDE_F_END);
    tide_log_write(&t.log, TIDE_LOG_INFO, "no", TIDE_F_END);
    assert_int_equal(fflush(t.file), 0);
    assert_int_equal(t.len, 0);
    tide_log_write(&t.log, TIDE_LOG_WARN, "one", TIDE_F_END);
    tide_log_write(&t.log, TIDE_LOG_ERROR, "two", TIDE_F_END);
    assert_non_null(strstr(t.text, "level=warn msg=one\n"));
    assert_non_null(strstr(t.text, "level=error msg=two\n"));
    assert_false(tide_log_is_on(&t.log, TIDE_LOG_INFO));
    assert_true(tide_log_is_on(&t.log, TIDE_LOG_ERROR));
}

/* One long value is cut, not the line behind it. */
static void a_long_value_ends_in_three_dots(void **state)
{
    (void)state;
    open_log(TIDE_LOG_LOGFMT, TIDE_LOG_INFO);
    char value[TIDE_LOG_VALUE_MAX + 2];
    memset(value, 'x', sizeof value);
    value[TIDE_LOG_VALUE_MAX] = '\0';
    tide_log_write(&t.log, TIDE_LOG_INFO, value, TIDE_F("k", value), TIDE_F_END);
    assert_null(strstr(t.text, "..."));
    value[TIDE_LOG_VALUE_MAX] = 'x';
    value[TIDE_LOG_VALUE_MAX + 1] = '\0';
    tide_log_write(&t.log, TIDE_LOG_INFO, "m", TIDE_F("k", value), TIDE_FI("n", 1), TIDE_F_END);
    assert_non_null(strstr(t.text, "xx... n=1\n"));
}

/* Fields that do not fit are missing as a whole, and the line says so and stays well formed. */
static void fields_that_do_not_fit_are_dropped_and_named(void **state)
{
    static const char *const ends[] = {
        [TIDE_LOG_LOGFMT] = " cut=true\n", [TIDE_LOG_JSON] = ",\"cut\":true}\n"};
    char value[TIDE_LOG_VALUE_MAX];
    memset(value, '\x01', sizeof value); /* each becomes six bytes */
    value[sizeof value - 1] = '\0';
    for (int format = TIDE_LOG_LOGFMT; format <= TIDE_LOG_JSON; format++) {
        open_log((tide_log_format)format, TIDE_LOG_INFO);
        tide_log_write(&t.log, TIDE_LOG_INFO, value, TIDE_F("a", value), TIDE_F("b", value),
                       TIDE_F("c", value), TIDE_FI("d", 1), TIDE_F_END);
        assert_true(t.len <= TIDE_LOG_LINE_MAX);
        const char *end = ends[format];
        assert_string_equal(t.text + t.len - strlen(end), end);
        assert_ptr_equal(strchr(t.text, '\n'), t.text + t.len - 1);
        assert_int_equal(atomic_load(&t.log.lost), 0);
        (void)close_log(state);
    }
}

/* A clock outside the calendar must not lose the line. */
static void an_impossible_clock_shows_as_the_epoch(void **state)
{
    (void)state;
    open_log(TIDE_LOG_LOGFMT, TIDE_LOG_INFO);
    virtual_env_set_wall(&t.env, INT64_MAX);
    tide_log_write(&t.log, TIDE_LOG_INFO, "m", TIDE_F_END);
    assert_string_equal(t.text, "time=1970-01-01T00:00:00.000000Z level=info msg=m\n");
}

/* Logging never stops the work: a line that cannot be written is counted, and errno is as
 * before. */
static void a_line_that_cannot_be_written_is_counted(void **state)
{
    (void)state;
    virtual_env_init(&t.env, 1);
    t.file = fopen("/dev/full", "w");
    assert_non_null(t.file);
    tide_log_init(&t.log, t.file, &t.env.env, TIDE_LOG_LOGFMT, TIDE_LOG_INFO);
    errno = EINTR;
    tide_log_write(&t.log, TIDE_LOG_INFO, "m", TIDE_F_END);
    assert_int_equal(errno, EINTR);
    assert_int_equal(atomic_load(&t.log.lost), 1);
}

enum { WRITERS = 4, LINES = 200 };

static void write_many(FILE *file, char mark)
{
    virtual_env env;
    virtual_env_init(&env, 1);
    tide_log log;
    tide_log_init(&log, file, &env.env, TIDE_LOG_LOGFMT, TIDE_LOG_INFO);
    char value[1501];
    memset(value, mark, sizeof value);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < LINES; i++)
        tide_log_write(&log, TIDE_LOG_INFO, "m", TIDE_F("v", value), TIDE_F("w", value),
                       TIDE_F_END);
}

/* Each line holds the mark of one writer only. */
static void assert_unmixed(FILE *file)
{
    TIDE_CLEANUP(tide_freep) char *line = NULL;
    size_t capacity = 0;
    int count = 0;
    for (ssize_t len; (len = getline(&line, &capacity, file)) > 0; count++) {
        const char *value = strstr(line, " v=");
        assert_non_null(value);
        assert_int_equal(strspn(value + 3, (char[]){value[3], 0}), 1500);
        assert_int_equal(line + len - (value + 3), 1500 + 3 + 1500 + 1);
    }
    assert_int_equal(count, WRITERS * LINES);
}

/* Several processes on one file: no line is torn by another. */
static void lines_of_several_processes_do_not_mix(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    FILE *appending = fopen(path, "a");
    assert_non_null(appending);
    pid_t children[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            write_many(appending, (char)('a' + i));
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    rewind(file);
    assert_unmixed(file);
    (void)fclose(appending);
    (void)fclose(file);
}

/* Options name levels and formats. */
static void levels_and_formats_are_read_by_name(void **state)
{
    (void)state;
    tide_log_level level;
    tide_log_format format;
    assert_ok(tide_log_level_parse(&level, "debug"));
    assert_int_equal(level, TIDE_LOG_DEBUG);
    assert_ok(tide_log_level_parse(&level, "error"));
    assert_int_equal(level, TIDE_LOG_ERROR);
    assert_status(TIDE_E_INVALID, tide_log_level_parse(&level, "ERROR"));
    assert_status(TIDE_E_INVALID, tide_log_level_parse(&level, ""));
    assert_int_equal(level, TIDE_LOG_ERROR);
    assert_ok(tide_log_format_parse(&format, "json"));
    assert_int_equal(format, TIDE_LOG_JSON);
    assert_status(TIDE_E_INVALID, tide_log_format_parse(&format, "xml"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_logfmt_line_has_time_level_message_and_fields, close_log),
        cmocka_unit_test_teardown(a_json_line_is_one_object, close_log),
        cmocka_unit_test_teardown(logfmt_values_are_quoted_where_needed, close_log),
        cmocka_unit_test_teardown(awkward_keys_are_made_harmless, close_log),
        cmocka_unit_test_teardown(lines_above_the_level_are_not_written, close_log),
        cmocka_unit_test_teardown(a_long_value_ends_in_three_dots, close_log),
        cmocka_unit_test(fields_that_do_not_fit_are_dropped_and_named),
        cmocka_unit_test_teardown(an_impossible_clock_shows_as_the_epoch, close_log),
        cmocka_unit_test_teardown(a_line_that_cannot_be_written_is_counted, close_log),
        cmocka_unit_test(lines_of_several_processes_do_not_mix),
        cmocka_unit_test(levels_and_formats_are_read_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
