#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/suggest.h"

const tide_cli_option tide_cli_options[TIDE_CLI_OPTION_COUNT] = {
#define OPTION_ROW(id, name_, letter_, value_, fallback_, environment_, type_, min_, max_, help_)  \
    [TIDE_CLI_##id] = {                                                                            \
        .name = (name_),                                                                           \
        .letter = (letter_),                                                                       \
        .value = (value_),                                                                         \
        .fallback = (fallback_),                                                                   \
        .environment = (environment_),                                                             \
        .type = TIDE_CLI_##type_,                                                                  \
        .min = (min_),                                                                             \
        .max = (max_),                                                                             \
        .help = (help_),                                                                           \
    },
    TIDE_CLI_OPTIONS(OPTION_ROW)
#undef OPTION_ROW
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

tide_status tide_cli_parse_number(int64_t *out, const char *text, const char *what, int64_t min,
                                  int64_t max, tide_error *err)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    const size_t len = strlen(digits);
    size_t digit_count = 0;
    while (is_digit(digits[digit_count]))
        digit_count++;
    if (len == 0 || digit_count != len)
        return tide_fail(err, TIDE_E_INVALID, "%s '%s' is not a whole number", what, text);
    errno = 0;
    const int64_t number = strtoll(text, NULL, 10);
    if (errno == ERANGE || number < min || number > max)
        return tide_fail(err, TIDE_E_INVALID, "%s %s is out of range, want %" PRId64 " to %" PRId64,
                         what, text, min, max);
    *out = number;
    return TIDE_OK;
}

static int find_by_name(const char *name, size_t len)
{
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++)
        if (strlen(tide_cli_options[id].name) == len &&
            strncmp(tide_cli_options[id].name, name, len) == 0)
            return id;
    return -1;
}

static int find_by_letter(char letter)
{
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++)
        if (tide_cli_options[id].letter == letter)
            return id;
    return -1;
}

static tide_status fail_unknown(tide_cli_words *out, const char *name, size_t len, tide_error *err)
{
    tide_cli_suggestion nearest = tide_cli_suggest_begin(name, len);
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++)
        tide_cli_suggest_offer(&nearest, tide_cli_options[id].name);
    if (nearest.best)
        (void)snprintf(out->hint, sizeof out->hint, "did you mean --%s?", nearest.best);
    else
        (void)snprintf(out->hint, sizeof out->hint, "'tidemark help' lists the options");
    return tide_fail(err, TIDE_E_INVALID, "unknown option --%.*s", (int)len, name);
}

/* A value from anywhere; the name in messages says from where. */
static tide_status set_value(tide_cli_words *out, int id, const char *value, const char *what,
                             tide_error *err)
{
    const tide_cli_option *option = &tide_cli_options[id];
    if (option->type == TIDE_CLI_NUMBER)
        TIDE_TRY(
            tide_cli_parse_number(&out->number[id], value, what, option->min, option->max, err));
    out->text[id] = value;
    return TIDE_OK;
}

/* value: what stood behind '=' or the letter, or NULL; then the next word is taken. */
static tide_status take_option(tide_cli_words *out, int id, const char *value, char *const **next,
                               tide_error *err)
{
    const tide_cli_option *option = &tide_cli_options[id];
    char what[64];
    (void)snprintf(what, sizeof what, "--%s", option->name);
    out->given |= UINT32_C(1) << id;
    if (option->type == TIDE_CLI_FLAG)
        return value ? tide_fail(err, TIDE_E_INVALID, "%s takes no value", what) : TIDE_OK;
    if (!value && **next)
        value = *(*next)++;
    if (!value)
        return tide_fail(err, TIDE_E_INVALID, "%s needs a value: %s %s", what, what, option->value);
    return set_value(out, id, value, what, err);
}

static tide_status take_long(tide_cli_words *out, const char *word, char *const **next,
                             tide_error *err)
{
    const size_t len = strcspn(word, "=");
    const int id = find_by_name(word, len);
    if (id < 0)
        return fail_unknown(out, word, len, err);
    return take_option(out, id, word[len] == '=' ? word + len + 1 : NULL, next, err);
}

/* -jn5 is -j -n 5: flags may stand together, a value ends the word. */
static tide_status take_short(tide_cli_words *out, const char *word, char *const **next,
                              tide_error *err)
{
    for (; *word; word++) {
        const int id = find_by_letter(*word);
        if (id < 0) {
            (void)snprintf(out->hint, sizeof out->hint, "'tidemark help' lists the options");
            return tide_fail(err, TIDE_E_INVALID, "unknown option -%c", *word);
        }
        const bool is_flag = tide_cli_options[id].type == TIDE_CLI_FLAG;
        TIDE_TRY(take_option(out, id, !is_flag && word[1] ? word + 1 : NULL, next, err));
        if (!is_flag)
            break;
    }
    return TIDE_OK;
}

static tide_status take_word(tide_cli_words *out, const char *word, tide_error *err)
{
    if (out->word_count == TIDE_CLI_WORD_MAX)
        return tide_fail(err, TIDE_E_INVALID, "more than %d words", TIDE_CLI_WORD_MAX);
    out->words[out->word_count++] = word;
    return TIDE_OK;
}

static tide_status fill_from_outside(tide_cli_words *out, tide_error *err)
{
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++) {
        const tide_cli_option *option = &tide_cli_options[id];
        if (out->text[id])
            continue;
        const char *from_environment = option->environment ? getenv(option->environment) : NULL;
        if (from_environment && *from_environment)
            TIDE_TRY(set_value(out, id, from_environment, option->environment, err));
        else if (option->fallback)
            TIDE_TRY(set_value(out, id, option->fallback, option->name, err));
    }
    return TIDE_OK;
}

tide_status tide_cli_words_parse(tide_cli_words *out, int argc, char *const *argv, tide_error *err)
{
    *out = (tide_cli_words){0};
    bool is_ended = false;
    for (char *const *next = argv + (argc > 0); *next;) {
        const char *word = *next++;
        if (is_ended || word[0] != '-' || word[1] == '\0' || is_digit(word[1]))
            TIDE_TRY(take_word(out, word, err));
        else if (strcmp(word, "--") == 0)
            is_ended = true;
        else if (word[1] == '-')
            TIDE_TRY(take_long(out, word + 2, &next, err));
        else
            TIDE_TRY(take_short(out, word + 1, &next, err));
    }
    return fill_from_outside(out, err);
}
