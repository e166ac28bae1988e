/* The parser, without the program around it. */
#include "cli/frame/options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/frame/value.h"
#include "cli/help/suggest.h"
#include "support/check.h"

enum { WORDS_MAX = 40 };

/* A verb that takes every option, as the table has it. */
static const tide_cli_takes *take_everything(void)
{
    static tide_cli_option_id all[TIDE_CLI_OPTION_COUNT + 1];
    static tide_cli_takes takes = {.takes = all};
    for (int id = 0; id <= TIDE_CLI_OPTION_COUNT; id++)
        all[id] = (tide_cli_option_id)id;
    return &takes;
}

static tide_status parse_list(tide_cli_args *out, const tide_cli_takes *takes, tide_error *err,
                              va_list list)
{
    static char program[] = "tidemark";
    static char *argv[WORDS_MAX + 2]; /* as those of main, it outlives what points into it */
    argv[0] = program;
    int argc = 1;
    while ((argv[argc] = va_arg(list, char *)) != NULL)
        argc++;
    TIDE_TRY(tide_cli_args_parse(out, argc, argv, err));
    return tide_cli_args_resolve(out, takes, err);
}

/* What the words mean to a verb that takes these. */
static tide_status parse_for(tide_cli_args *out, const tide_cli_takes *takes, tide_error *err, ...)
{
    va_list list;
    va_start(list, err);
    const tide_status status = parse_list(out, takes, err, list);
    va_end(list);
    return status;
}

static tide_status parse(tide_cli_args *out, tide_error *err, ...)
{
    va_list list;
    va_start(list, err);
    const tide_status status = parse_list(out, take_everything(), err, list);
    va_end(list);
    return status;
}

static void every_way_to_give_a_value_means_the_same(void **state)
{
    (void)state;
    static const char *const ways[][2] = {
        {"--count=7", NULL}, {"--count", "7"}, {"-n", "7"}, {"-n7", NULL}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        tide_cli_args words;
        tide_error err;
        assert_ok_err(parse(&words, &err, ways[i][0], ways[i][1], NULL), &err);
        assert_int_equal(7, words.number[TIDE_CLI_COUNT]);
        assert_true(words.given[TIDE_CLI_COUNT]);
        assert_int_equal(0, words.word_count);
        tide_cli_args_done(&words);
    }
}

static void short_flags_may_stand_together(void **state)
{
    (void)state;
    tide_cli_args words;
    tide_error err;
    assert_ok_err(parse(&words, &err, "-jhn5", "a", NULL), &err);
    assert_true(words.given[TIDE_CLI_JSON]);
    assert_true(words.given[TIDE_CLI_HELP]);
    assert_int_equal(5, words.number[TIDE_CLI_COUNT]);
    assert_int_equal(1, words.word_count);
    tide_cli_args_done(&words);
}

static void words_and_options_may_be_mixed(void **state)
{
    (void)state;
    tide_cli_args words;
    tide_error err;
    assert_ok_err(
        parse(&words, &err, "--json", "a", "-n", "2", "b", "--store=x=y", "-3", "-", NULL), &err);
    assert_int_equal(4, words.word_count);
    assert_string_equal("a", words.words[0]);
    assert_string_equal("b", words.words[1]);
    assert_string_equal("-3", words.words[2]);
    assert_string_equal("-", words.words[3]);
    assert_string_equal("x=y", words.text[TIDE_CLI_STORE]);
    tide_cli_args_done(&words);
}

/* What stands behind is handed over untouched, and marked as such. */
static void two_dashes_end_the_options(void **state)
{
    (void)state;
    tide_cli_args words;
    tide_error err;
    assert_ok_err(parse(&words, &err, "a", "--", "--json", "--", "-n", NULL), &err);
    assert_int_equal(4, words.word_count);
    assert_int_equal(1, words.before_count);
    assert_string_equal("--json", words.words[1]);
    assert_string_equal("--", words.words[2]);
    assert_string_equal("--json", words.behind[0]);
    assert_string_equal("-n", words.behind[2]);
    assert_null(words.behind[3]);
    assert_false(words.given[TIDE_CLI_JSON]);
    tide_cli_args_done(&words);
    assert_ok_err(parse(&words, &err, "a", "b", NULL), &err);
    assert_null(words.behind);
    assert_int_equal(2, words.before_count);
    tide_cli_args_done(&words);
}

static void the_command_line_beats_the_environment_and_that_the_default(void **state)
{
    (void)state;
    tide_cli_args words;
    tide_error err;
    assert_int_equal(0, unsetenv("TIDEMARK_STORE"));
    assert_ok_err(parse(&words, &err, NULL), &err);
    assert_string_equal("./tidemark.db", words.text[TIDE_CLI_STORE]);
    assert_int_equal(1, words.number[TIDE_CLI_COUNT]);
    assert_null(words.text[TIDE_CLI_WHY]);
    tide_cli_args_done(&words);
    assert_int_equal(0, setenv("TIDEMARK_STORE", "from-env", 1));
    assert_ok_err(parse(&words, &err, NULL), &err);
    assert_string_equal("from-env", words.text[TIDE_CLI_STORE]);
    assert_false(words.given[TIDE_CLI_STORE]);
    tide_cli_args_done(&words);
    assert_ok_err(parse(&words, &err, "--store", "mine", NULL), &err);
    assert_string_equal("mine", words.text[TIDE_CLI_STORE]);
    tide_cli_args_done(&words);
    assert_int_equal(0, setenv("TIDEMARK_STORE", "", 1));
    assert_ok_err(parse(&words, &err, NULL), &err);
    assert_string_equal("./tidemark.db", words.text[TIDE_CLI_STORE]);
    tide_cli_args_done(&words);
}

static void what_is_no_option_is_refused(void **state)
{
    (void)state;
    static const char *const words_given[] = {"--nothing", "-x",  "--json=1", "--count",
                                              "-n",        "--=", "---"};
    for (size_t i = 0; i < sizeof words_given / sizeof words_given[0]; i++) {
        tide_cli_args words;
        tide_error err;
        assert_status(TIDE_E_INVALID, parse(&words, &err, words_given[i], NULL));
        assert_true(strlen(err.text) > 0);
        tide_cli_args_done(&words);
    }
}

/* Only the system limits how many words there are. */
static void ten_thousand_words_and_options_are_taken(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    static char word[] = "w";
    static char flags[] = "-jjjj";
    static char *argv[2 * COUNT + 2];
    for (int i = 0; i <= 2 * COUNT; i++)
        argv[i] = i % 2 ? word : flags;
    tide_cli_args words;
    tide_error err;
    assert_ok_err(tide_cli_args_parse(&words, 2 * COUNT + 1, argv, &err), &err);
    assert_int_equal(COUNT, words.word_count);
    assert_int_equal(4 * COUNT, words.use_count);
    tide_cli_args_done(&words);
}

/* A program may be started with no words at all, not even its own name. */
static void an_empty_command_line_is_empty(void **state)
{
    (void)state;
    char *argv[] = {NULL};
    tide_cli_args words;
    tide_error err;
    assert_ok_err(tide_cli_args_parse(&words, 0, argv, &err), &err);
    assert_int_equal(0, words.word_count);
    tide_cli_args_done(&words);
}

/* ---- what a verb takes ---- */

static const tide_cli_takes claim = {
    .takes = TIDE_CLI_LIST(TYPE, LIMIT, LEASE, WORKER),
    .needs = TIDE_CLI_LIST(WORKER),
    .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LIMIT, .fallback = "1", .max = 1000},
                                    {.id = TIDE_CLI_LEASE, .is_bare = true}),
};

static void a_verb_takes_what_it_lists_and_the_common_ones(void **state)
{
    (void)state;
    tide_cli_args words;
    tide_error err;
    assert_ok_err(
        parse_for(&words, &claim, &err, "--json", "-s", "x", "-t", "a", "--worker", "w", NULL),
        &err);
    tide_cli_args_done(&words);
    assert_status(TIDE_E_INVALID,
                  parse_for(&words, &claim, &err, "--worker", "w", "--count", "1", NULL));
    assert_contains(err.text, "--count means nothing here");
    tide_cli_args_done(&words);
    assert_status(TIDE_E_INVALID, parse_for(&words, &claim, &err, "-t", "a", NULL));
    assert_contains(err.text, "--worker NAME is missing");
    tide_cli_args_done(&words);
}

/* The environment can give what a verb needs; what it does not take is not even looked at. */
static void the_environment_gives_what_is_needed_and_only_that(void **state)
{
    (void)state;
    tide_cli_args words;
    tide_error err;
    assert_int_equal(0, setenv("TIDEMARK_WORKER", "from-env", 1));
    assert_ok_err(parse_for(&words, &claim, &err, NULL), &err);
    assert_string_equal("from-env", words.text[TIDE_CLI_WORKER]);
    tide_cli_args_done(&words);
    const tide_cli_takes nothing = {NULL, NULL, NULL};
    assert_ok_err(parse_for(&words, &nothing, &err, NULL), &err);
    assert_null(words.text[TIDE_CLI_WORKER]);
    tide_cli_args_done(&words);
    assert_int_equal(0, unsetenv("TIDEMARK_WORKER"));
}

/* One verb claims 1 by default and at most 1000, another lists 100. */
static void a_verb_has_defaults_and_maxima_of_its_own(void **state)
{
    (void)state;
    tide_cli_args words;
    tide_error err;
    assert_ok_err(parse_for(&words, &claim, &err, "--worker", "w", NULL), &err);
    assert_int_equal(1, words.number[TIDE_CLI_LIMIT]);
    assert_null(words.text[TIDE_CLI_LEASE]);
    tide_cli_args_done(&words);
    assert_ok_err(parse(&words, &err, NULL), &err);
    assert_int_equal(100, words.number[TIDE_CLI_LIMIT]);
    assert_int_equal(INT64_C(300000000), words.number[TIDE_CLI_LEASE]);
    tide_cli_args_done(&words);
    assert_status(TIDE_E_INVALID,
                  parse_for(&words, &claim, &err, "--worker", "w", "--limit", "1001", NULL));
    assert_contains(err.text, "want 1 to 1000");
    tide_cli_args_done(&words);
}

/* ---- kinds of values ---- */

static void a_repeatable_option_collects_in_order(void **state)
{
    (void)state;
    tide_cli_args words;
    tide_error err;
    assert_ok_err(parse(&words, &err, "--tag", "b", "--depends-on=7", "--tag=a", "--tag", "",
                        "--depends-on", "8", NULL),
                  &err);
    assert_int_equal(3, words.list[TIDE_CLI_TAG].count);
    assert_string_equal("b", words.list[TIDE_CLI_TAG].items[0]);
    assert_string_equal("a", words.list[TIDE_CLI_TAG].items[1]);
    assert_string_equal("", words.list[TIDE_CLI_TAG].items[2]);
    assert_int_equal(2, words.list[TIDE_CLI_DEPENDS_ON].count);
    assert_string_equal("8", words.list[TIDE_CLI_DEPENDS_ON].items[1]);
    assert_string_equal("8", words.text[TIDE_CLI_DEPENDS_ON]);
    assert_int_equal(0, words.list[TIDE_CLI_ENV].count);
    tide_cli_args_done(&words);
}

static void a_repeatable_option_can_be_limited_to_one(void **state)
{
    (void)state;
    static const tide_cli_option_id takes[] = {TIDE_CLI_TYPE, TIDE_CLI_OPTION_COUNT};
    static const tide_cli_override overrides[] = {{.id = TIDE_CLI_TYPE, .max = 1},
                                                  {.id = TIDE_CLI_OPTION_COUNT}};
    const tide_cli_takes add = {.takes = takes, .overrides = overrides};
    tide_cli_args words;
    tide_error err;
    assert_ok_err(parse_for(&words, &add, &err, "--type", "a", NULL), &err);
    tide_cli_args_done(&words);
    assert_status(TIDE_E_INVALID,
                  parse_for(&words, &add, &err, "--type", "a", "--type", "b", NULL));
    assert_contains(err.text, "--type can be given once here");
    tide_cli_args_done(&words);
}

static void a_list_has_a_maximum(void **state)
{
    (void)state;
    static char tag[] = "--tag=x";
    static char *argv[TIDE_CLI_TEXTS_MAX + 3];
    for (int i = 0; i < TIDE_CLI_TEXTS_MAX + 2; i++)
        argv[i] = tag;
    tide_cli_args words;
    tide_error err;
    assert_ok_err(tide_cli_args_parse(&words, TIDE_CLI_TEXTS_MAX + 2, argv, &err), &err);
    assert_status(TIDE_E_INVALID, tide_cli_args_resolve(&words, take_everything(), &err));
    assert_contains(err.text, "--tag is given 1001 times");
    tide_cli_args_done(&words);
    argv[TIDE_CLI_TEXTS_MAX + 1] = NULL;
    assert_ok_err(tide_cli_args_parse(&words, TIDE_CLI_TEXTS_MAX + 1, argv, &err), &err);
    assert_ok_err(tide_cli_args_resolve(&words, take_everything(), &err), &err);
    assert_int_equal(TIDE_CLI_TEXTS_MAX, words.list[TIDE_CLI_TAG].count);
    tide_cli_args_done(&words);
}

static void assert_refused(const char *option, const char *value, const char *words_told)
{
    tide_cli_args words;
    tide_error err;
    assert_status(TIDE_E_INVALID, parse(&words, &err, option, value, NULL));
    assert_contains(err.text, option);
    assert_contains(err.text, words_told);
    tide_cli_args_done(&words);
}

static void a_duration_is_a_number_and_a_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } durations[] = {{"250ms", 250000},
                     {"30s", 30000000},
                     {"5m", 300000000},
                     {"24h", INT64_C(86400000000)},
                     {"7d", INT64_C(604800000000)}};
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        tide_cli_args words;
        tide_error err;
        assert_ok_err(parse(&words, &err, "--lease", durations[i].text, NULL), &err);
        assert_int_equal(durations[i].us, words.number[TIDE_CLI_LEASE]);
        tide_cli_args_done(&words);
    }
    static const char *const bad[] = {"30", "", "s", "-5s", "5 s", "5S", "1.5s", "99999999999999d"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused("--lease", bad[i], "is not a duration");
    assert_refused("--lease", "999us", "want 1ms to 365d");
    assert_refused("--lease", "366d", "want 1ms to 365d");
    assert_refused("--timeout", "0", "want 1us to 3650d");
}

static void a_choice_is_one_of_its_words(void **state)
{
    (void)state;
    static const char *const choices[] = {"resume", "rerun", "fail"};
    for (int i = 0; i < 3; i++) {
        tide_cli_args words;
        tide_error err;
        assert_ok_err(parse(&words, &err, "--policy", choices[i], NULL), &err);
        assert_int_equal(i, words.number[TIDE_CLI_POLICY]);
        tide_cli_args_done(&words);
    }
    static const char *const bad[] = {"", "res", "resumed", "resume|rerun", "|", "FAIL"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused("--policy", bad[i], "none of resume|rerun|fail");
}

static void a_time_is_absolute_or_counted_from_now(void **state)
{
    (void)state;
    static const int64_t now_us = INT64_C(1709209800000000); /* 2024-02-29 12:30:00 */
    static const struct {
        const char *text;
        tide_cli_type type;
        int64_t us;
    } times[] = {{"now", TIDE_CLI_FUTURE, 0},
                 {"+30s", TIDE_CLI_FUTURE, 30000000},
                 {"+30s", TIDE_CLI_PAST, 30000000},
                 {"-1h", TIDE_CLI_PAST, -INT64_C(3600000000)},
                 {"-1h", TIDE_CLI_FUTURE, -INT64_C(3600000000)},
                 {"5m", TIDE_CLI_FUTURE, 300000000},
                 {"5m", TIDE_CLI_PAST, -300000000},
                 {"0", TIDE_CLI_PAST, 0},
                 {"2024-02-29T12:30:01Z", TIDE_CLI_PAST, 1000000},
                 {"2024-02-29 12:30:01", TIDE_CLI_FUTURE, 1000000}};
    tide_error err;
    int64_t us = 0;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        assert_ok_err(
            tide_cli_parse_time(&us, times[i].text, "--since", times[i].type, now_us, &err), &err);
        assert_int_equal(now_us + times[i].us, us);
    }
    static const char *const bad[] = {"", "+", "-", "tomorrow", "12:30", "+-5s", "++5s", "Now"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused("--run-after", bad[i], "is not a time");
    assert_status(TIDE_E_INVALID,
                  tide_cli_parse_time(&us, "9999999d", "--since", TIDE_CLI_FUTURE, now_us, &err));
    assert_contains(err.text, "years");
}

static void a_size_is_bytes_or_has_a_unit(void **state)
{
    (void)state;
    const tide_cli_option option = {.type = TIDE_CLI_SIZE, .min = 1, .max = 1 << 20};
    tide_error err;
    int64_t bytes = 0;
    assert_ok_err(tide_cli_value_check(&bytes, &option, "64KiB", "--size", &err), &err);
    assert_int_equal(65536, bytes);
    assert_status(TIDE_E_INVALID, tide_cli_value_check(&bytes, &option, "2MiB", "--size", &err));
    assert_contains(err.text, "want 1 to 1048576 bytes");
    assert_status(TIDE_E_INVALID, tide_cli_value_check(&bytes, &option, "64KB", "--size", &err));
    assert_contains(err.text, "is not a size");
}

static void a_number_may_be_negative_where_its_range_says_so(void **state)
{
    (void)state;
    tide_cli_args words;
    tide_error err;
    assert_ok_err(parse(&words, &err, "--priority", "-5", "--token=9223372036854775807", NULL),
                  &err);
    assert_int_equal(-5, words.number[TIDE_CLI_PRIORITY]);
    assert_int_equal(INT64_MAX, words.number[TIDE_CLI_TOKEN]);
    tide_cli_args_done(&words);
    assert_refused("--priority", "-1000001", "want -1000000 to 1000000");
    assert_refused("--token", "0", "want 1 to 9223372036854775807");
    assert_refused("--token", "9223372036854775808", "out of range");
    assert_refused("--progress", "101", "want 0 to 100");
}

static const char *suggest(const char *word)
{
    static const char *const names[] = {"sequence", "store", "doctor", "ls", "next"};
    tide_cli_suggestion nearest = tide_cli_suggest_begin(word, strlen(word));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        tide_cli_suggest_offer(&nearest, names[i]);
    return nearest.best;
}

static void the_nearest_name_is_found_and_a_far_one_is_not(void **state)
{
    (void)state;
    assert_string_equal("sequence", suggest("seqeunce"));
    assert_string_equal("sequence", suggest("seq"));
    assert_string_equal("store", suggest("stoer"));
    assert_string_equal("doctor", suggest("docotr"));
    assert_string_equal("next", suggest("nex"));
    assert_null(suggest("zebra"));
    assert_null(suggest(""));
    assert_null(suggest("a-word-that-is-much-too-long-to-be-a-mistyped-one"));
}

/* Words of a verb's own are nearer than those of others. */
static void an_unknown_option_is_answered_among_those_of_the_verb(void **state)
{
    (void)state;
    static const tide_cli_option_id takes[] = {TIDE_CLI_LIMIT, TIDE_CLI_OPTION_COUNT};
    const tide_cli_takes list = {.takes = takes};
    tide_cli_args words;
    tide_error err;
    assert_status(TIDE_E_INVALID, parse(&words, &err, "work", "--limt=5", NULL));
    assert_string_equal("limit", tide_cli_args_suggest(&words, &list));
    tide_cli_args_done(&words);
    assert_status(TIDE_E_INVALID, parse(&words, &err, "work", "--pripority", "5", NULL));
    assert_string_equal("priority", tide_cli_args_suggest(&words, NULL));
    assert_null(tide_cli_args_suggest(&words, &list));
    assert_int_equal(1, words.word_count);
    tide_cli_args_done(&words);
}

/* Two options with one name or letter would make one of them unreachable. */
static void every_option_has_a_name_and_letter_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < TIDE_CLI_OPTION_COUNT; i++) {
        for (int j = i + 1; j < TIDE_CLI_OPTION_COUNT; j++) {
            assert_string_not_equal(tide_cli_options[i].name, tide_cli_options[j].name);
            if (tide_cli_options[i].letter)
                assert_int_not_equal(tide_cli_options[i].letter, tide_cli_options[j].letter);
        }
        assert_int_equal(tide_cli_options[i].type == TIDE_CLI_FLAG,
                         tide_cli_options[i].value == NULL);
    }
}

/* A default that its own row refuses would fail every command that takes it. */
static void every_default_fits_its_row(void **state)
{
    (void)state;
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++) {
        const tide_cli_option *option = &tide_cli_options[id];
        int64_t number = 0;
        tide_error err;
        if (option->fallback)
            assert_ok_err(
                tide_cli_value_check(&number, option, option->fallback, option->name, &err), &err);
        if (option->type == TIDE_CLI_TEXTS || option->type == TIDE_CLI_NUMBER ||
            option->type == TIDE_CLI_DURATION || option->type == TIDE_CLI_SIZE)
            assert_true(option->min < option->max);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_give_a_value_means_the_same),
        cmocka_unit_test(short_flags_may_stand_together),
        cmocka_unit_test(words_and_options_may_be_mixed),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(the_command_line_beats_the_environment_and_that_the_default),
        cmocka_unit_test(what_is_no_option_is_refused),
        cmocka_unit_test(ten_thousand_words_and_options_are_taken),
        cmocka_unit_test(an_empty_command_line_is_empty),
        cmocka_unit_test(a_verb_takes_what_it_lists_and_the_common_ones),
        cmocka_unit_test(the_environment_gives_what_is_needed_and_only_that),
        cmocka_unit_test(a_verb_has_defaults_and_maxima_of_its_own),
        cmocka_unit_test(a_repeatable_option_collects_in_order),
        cmocka_unit_test(a_repeatable_option_can_be_limited_to_one),
        cmocka_unit_test(a_list_has_a_maximum),
        cmocka_unit_test(a_duration_is_a_number_and_a_unit),
        cmocka_unit_test(a_choice_is_one_of_its_words),
        cmocka_unit_test(a_time_is_absolute_or_counted_from_now),
        cmocka_unit_test(a_size_is_bytes_or_has_a_unit),
        cmocka_unit_test(a_number_may_be_negative_where_its_range_says_so),
        cmocka_unit_test(the_nearest_name_is_found_and_a_far_one_is_not),
        cmocka_unit_test(an_unknown_option_is_answered_among_those_of_the_verb),
        cmocka_unit_test(every_option_has_a_name_and_letter_of_its_own),
        cmocka_unit_test(every_default_fits_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
