/* The parser, without the program around it. */
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/suggest.h"
#include "support/check.h"

enum { WORDS_MAX = 40 };

static tide_status parse(tide_cli_words *out, tide_error *err, ...)
{
    static char program[] = "tidemark";
    char *argv[WORDS_MAX + 2] = {program};
    int argc = 1;
    va_list words;
    va_start(words, err);
    while ((argv[argc] = va_arg(words, char *)) != NULL)
        argc++;
    va_end(words);
    return tide_cli_words_parse(out, argc, argv, err);
}

static bool is_given(const tide_cli_words *words, tide_cli_option_id id)
{
    return (words->given & UINT32_C(1) << id) != 0;
}

static void every_way_to_give_a_value_means_the_same(void **state)
{
    (void)state;
    static const char *const ways[][2] = {
        {"--count=7", NULL}, {"--count", "7"}, {"-n", "7"}, {"-n7", NULL}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        tide_cli_words words;
        tide_error err;
        assert_ok_err(parse(&words, &err, ways[i][0], ways[i][1], NULL), &err);
        assert_int_equal(7, words.number[TIDE_CLI_COUNT]);
        assert_true(is_given(&words, TIDE_CLI_COUNT));
        assert_int_equal(0, words.word_count);
    }
}

static void short_flags_may_stand_together(void **state)
{
    (void)state;
    tide_cli_words words;
    tide_error err;
    assert_ok_err(parse(&words, &err, "-jhn5", "a", NULL), &err);
    assert_true(is_given(&words, TIDE_CLI_JSON));
    assert_true(is_given(&words, TIDE_CLI_HELP));
    assert_int_equal(5, words.number[TIDE_CLI_COUNT]);
    assert_int_equal(1, words.word_count);
}

static void words_and_options_may_be_mixed(void **state)
{
    (void)state;
    tide_cli_words words;
    tide_error err;
    assert_ok_err(
        parse(&words, &err, "--json", "a", "-n", "2", "b", "--store=x=y", "-3", "-", NULL), &err);
    assert_int_equal(4, words.word_count);
    assert_string_equal("a", words.words[0]);
    assert_string_equal("b", words.words[1]);
    assert_string_equal("-3", words.words[2]);
    assert_string_equal("-", words.words[3]);
    assert_string_equal("x=y", words.text[TIDE_CLI_STORE]);
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    tide_cli_words words;
    tide_error err;
    assert_ok_err(parse(&words, &err, "a", "--", "--json", "--", "-n", NULL), &err);
    assert_int_equal(4, words.word_count);
    assert_string_equal("--json", words.words[1]);
    assert_string_equal("--", words.words[2]);
    assert_false(is_given(&words, TIDE_CLI_JSON));
}

static void the_command_line_beats_the_environment_and_that_the_default(void **state)
{
    (void)state;
    tide_cli_words words;
    tide_error err;
    assert_int_equal(0, unsetenv("TIDEMARK_STORE"));
    assert_ok_err(parse(&words, &err, NULL), &err);
    assert_string_equal("./tidemark.db", words.text[TIDE_CLI_STORE]);
    assert_int_equal(1, words.number[TIDE_CLI_COUNT]);
    assert_null(words.text[TIDE_CLI_WHY]);
    assert_int_equal(0, setenv("TIDEMARK_STORE", "from-env", 1));
    assert_ok_err(parse(&words, &err, NULL), &err);
    assert_string_equal("from-env", words.text[TIDE_CLI_STORE]);
    assert_false(is_given(&words, TIDE_CLI_STORE));
    assert_ok_err(parse(&words, &err, "--store", "mine", NULL), &err);
    assert_string_equal("mine", words.text[TIDE_CLI_STORE]);
    assert_int_equal(0, setenv("TIDEMARK_STORE", "", 1));
    assert_ok_err(parse(&words, &err, NULL), &err);
    assert_string_equal("./tidemark.db", words.text[TIDE_CLI_STORE]);
}

static void what_is_no_option_is_refused(void **state)
{
    (void)state;
    static const char *const words_given[] = {"--nothing", "-x",  "--json=1", "--count",
                                              "-n",        "--=", "---"};
    for (size_t i = 0; i < sizeof words_given / sizeof words_given[0]; i++) {
        tide_cli_words words;
        tide_error err;
        assert_status(TIDE_E_INVALID, parse(&words, &err, words_given[i], NULL));
        assert_true(strlen(err.text) > 0);
    }
}

static void too_many_words_are_refused(void **state)
{
    (void)state;
    char word[] = "w";
    char *argv[TIDE_CLI_WORD_MAX + 3];
    for (int i = 0; i < TIDE_CLI_WORD_MAX + 2; i++)
        argv[i] = word;
    argv[TIDE_CLI_WORD_MAX + 2] = NULL;
    tide_cli_words words;
    tide_error err;
    assert_status(TIDE_E_INVALID, tide_cli_words_parse(&words, TIDE_CLI_WORD_MAX + 2, argv, &err));
    argv[TIDE_CLI_WORD_MAX + 1] = NULL;
    assert_ok_err(tide_cli_words_parse(&words, TIDE_CLI_WORD_MAX + 1, argv, &err), &err);
}

/* A program may be started with no words at all, not even its own name. */
static void an_empty_command_line_is_empty(void **state)
{
    (void)state;
    char *argv[] = {NULL};
    tide_cli_words words;
    tide_error err;
    assert_ok_err(tide_cli_words_parse(&words, 0, argv, &err), &err);
    assert_int_equal(0, words.word_count);
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

/* Two options with one name or letter would make one of them unreachable. */
static void every_option_has_a_name_and_letter_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < TIDE_CLI_OPTION_COUNT; i++) {
        for (int j = i + 1; j < TIDE_CLI_OPTION_COUNT; j++) {
            assert_string_not_equal(tide_cli_options[i].name, tide_cli_options[j].name);
            assert_int_not_equal(tide_cli_options[i].letter, tide_cli_options[j].letter);
        }
        assert_int_equal(tide_cli_options[i].type == TIDE_CLI_FLAG,
                         tide_cli_options[i].value == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_give_a_value_means_the_same),
        cmocka_unit_test(short_flags_may_stand_together),
        cmocka_unit_test(words_and_options_may_be_mixed),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(the_command_line_beats_the_environment_and_that_the_default),
        cmocka_unit_test(what_is_no_option_is_refused),
        cmocka_unit_test(too_many_words_are_refused),
        cmocka_unit_test(an_empty_command_line_is_empty),
        cmocka_unit_test(the_nearest_name_is_found_and_a_far_one_is_not),
        cmocka_unit_test(every_option_has_a_name_and_letter_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
