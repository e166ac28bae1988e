#include "cli/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/suggest.h"
#include "cli/value.h"

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

/* ---- what a verb takes ---- */

bool tide_cli_list_has(const tide_cli_option_id *list, tide_cli_option_id id)
{
    for (; list && *list != TIDE_CLI_OPTION_COUNT; list++)
        if (*list == id)
            return true;
    return false;
}

bool tide_cli_is_common(tide_cli_option_id id)
{
    static const tide_cli_option_id common[] = {
#define COMMON_ID(id, ...) TIDE_CLI_##id,
        TIDE_CLI_OPTIONS_COMMON(COMMON_ID)
#undef COMMON_ID
            TIDE_CLI_OPTION_COUNT};
    return tide_cli_list_has(common, id);
}

static bool is_taken(const tide_cli_takes *takes, tide_cli_option_id id)
{
    return tide_cli_is_common(id) || tide_cli_list_has(takes->takes, id);
}

tide_cli_option tide_cli_option_for(const tide_cli_takes *takes, tide_cli_option_id id)
{
    tide_cli_option option = tide_cli_options[id];
    const tide_cli_override *own = takes->overrides;
    for (; own && own->id != TIDE_CLI_OPTION_COUNT; own++) {
        if (own->id != id)
            continue;
        if (own->fallback || own->is_bare)
            option.fallback = own->fallback;
        if (own->help)
            option.help = own->help;
        if (own->value)
            option.value = own->value;
        if (own->max)
            option.max = own->max;
    }
    return option;
}

/* ---- taking the command line apart ---- */

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

/* value: what stood behind '=' or the letter, or NULL; then the next word is taken. */
static tide_status take_option(tide_cli_words *out, int id, const char *value, char *const **next,
                               tide_error *err)
{
    const tide_cli_option *option = &tide_cli_options[id];
    const bool is_flag = option->type == TIDE_CLI_FLAG;
    if (is_flag && value)
        return tide_fail(err, TIDE_E_INVALID, "--%s takes no value", option->name);
    if (!is_flag && !value && **next)
        value = *(*next)++;
    if (!is_flag && !value)
        return tide_fail(err, TIDE_E_INVALID, "--%s needs a value: --%s %s", option->name,
                         option->name, option->value);
    out->given[id] = true;
    out->uses[out->use_count++] = (tide_cli_use){.id = (tide_cli_option_id)id, .value = value};
    return TIDE_OK;
}

static tide_status take_long(tide_cli_words *out, const char *word, char *const **next,
                             tide_error *err)
{
    const size_t len = strcspn(word, "=");
    const int id = find_by_name(word, len);
    if (id < 0) {
        out->unknown = word;
        out->unknown_len = len;
        return tide_fail(err, TIDE_E_INVALID, "unknown option --%.*s", (int)len, word);
    }
    return take_option(out, id, word[len] == '=' ? word + len + 1 : NULL, next, err);
}

/* -jn5 is -j -n 5: flags may stand together, a value ends the word. */
static tide_status take_short(tide_cli_words *out, const char *word, char *const **next,
                              tide_error *err)
{
    for (; *word; word++) {
        const int id = find_by_letter(*word);
        if (id < 0) {
            out->unknown = word;
            out->unknown_len = 1;
            return tide_fail(err, TIDE_E_INVALID, "unknown option -%c", *word);
        }
        const bool is_flag = tide_cli_options[id].type == TIDE_CLI_FLAG;
        TIDE_TRY(take_option(out, id, !is_flag && word[1] ? word + 1 : NULL, next, err));
        if (!is_flag)
            break;
    }
    return TIDE_OK;
}

/* Room for the longest outcome: a word may be as many options as it has letters. */
static tide_status make_room(tide_cli_words *out, char *const *words, tide_error *err)
{
    size_t word_count = 0;
    size_t use_count = 0;
    for (; words[word_count]; word_count++)
        use_count += words[word_count][0] == '-' ? strlen(words[word_count]) : 0;
    out->words = calloc(word_count + 1, sizeof *out->words);
    out->uses = calloc(use_count + 1, sizeof *out->uses);
    return out->words && out->uses ? TIDE_OK
                                   : tide_fail(err, TIDE_E_NOMEM, "no memory for the words");
}

tide_status tide_cli_words_parse(tide_cli_words *out, int argc, char *const *argv, tide_error *err)
{
    *out = (tide_cli_words){0};
    char *const *next = argv + (argc > 0);
    TIDE_TRY(make_room(out, next, err));
    while (*next) {
        const char *word = *next++;
        if (out->behind || word[0] != '-' || word[1] == '\0' || (word[1] >= '0' && word[1] <= '9'))
            out->words[out->word_count++] = word;
        else if (strcmp(word, "--") == 0)
            out->behind = next;
        else if (word[1] == '-')
            TIDE_TRY(take_long(out, word + 2, &next, err));
        else
            TIDE_TRY(take_short(out, word + 1, &next, err));
        if (!out->behind)
            out->before_count = out->word_count;
    }
    return TIDE_OK;
}

void tide_cli_words_done(tide_cli_words *words)
{
    free(words->words);
    free(words->uses);
    free(words->pool);
    *words = (tide_cli_words){0};
}

const char *tide_cli_words_suggest(const tide_cli_words *words, const tide_cli_takes *takes)
{
    tide_cli_suggestion nearest = tide_cli_suggest_begin(words->unknown, words->unknown_len);
    /* A letter alone is near to everything. */
    for (int id = 0; words->unknown_len > 1 && id < TIDE_CLI_OPTION_COUNT; id++)
        if (!takes || is_taken(takes, (tide_cli_option_id)id))
            tide_cli_suggest_offer(&nearest, tide_cli_options[id].name);
    return nearest.best;
}

/* ---- settling it for a verb ---- */

/* A value from anywhere; what says from where. */
static tide_status set_value(tide_cli_words *words, tide_cli_option_id id,
                             const tide_cli_option *option, const char *value, const char *what,
                             tide_error *err)
{
    const tide_status status = tide_cli_value_check(&words->number[id], option, value, what, err);
    words->has_bad_value = status < TIDE_OK;
    words->text[id] = value;
    return status;
}

/* Values of one option come to stand side by side in the pool. */
static void add_to_list(tide_cli_words *words, tide_cli_option_id id, const char *value,
                        int *pool_count)
{
    tide_cli_values *list = &words->list[id];
    if (list->count == 0)
        list->items = words->pool + *pool_count;
    assert(list->items + list->count == words->pool + *pool_count);
    words->pool[(*pool_count)++] = value;
    list->count++;
}

static tide_status settle_option(tide_cli_words *words, const tide_cli_takes *takes,
                                 tide_cli_option_id id, int *pool_count, tide_error *err)
{
    const tide_cli_option option = tide_cli_option_for(takes, id);
    char what[64];
    (void)snprintf(what, sizeof what, "--%s", option.name);
    for (int i = 0; words->given[id] && i < words->use_count; i++) {
        if (words->uses[i].id != id || option.type == TIDE_CLI_FLAG)
            continue;
        TIDE_TRY(set_value(words, id, &option, words->uses[i].value, what, err));
        if (option.type == TIDE_CLI_TEXTS)
            add_to_list(words, id, words->uses[i].value, pool_count);
    }
    if (!words->text[id]) {
        const char *outside = option.environment ? getenv(option.environment) : NULL;
        if (outside && *outside)
            TIDE_TRY(set_value(words, id, &option, outside, option.environment, err));
        else if (option.fallback)
            TIDE_TRY(set_value(words, id, &option, option.fallback, what, err));
        if (words->text[id] && option.type == TIDE_CLI_TEXTS)
            add_to_list(words, id, words->text[id], pool_count);
    }
    if (option.type == TIDE_CLI_TEXTS && words->list[id].count > option.max)
        return option.max == 1 ? tide_fail(err, TIDE_E_INVALID, "%s can be given once here", what)
                               : tide_fail(err, TIDE_E_INVALID,
                                           "%s is given %d times, at most %lld are allowed", what,
                                           words->list[id].count, (long long)option.max);
    if (!words->text[id] && tide_cli_list_has(takes->needs, id))
        return tide_fail(err, TIDE_E_INVALID, "%s %s is missing", what, option.value);
    return TIDE_OK;
}

tide_status tide_cli_words_settle(tide_cli_words *words, const tide_cli_takes *takes,
                                  tide_error *err)
{
    for (int i = 0; i < words->use_count; i++)
        if (!is_taken(takes, words->uses[i].id))
            return tide_fail(err, TIDE_E_INVALID, "--%s means nothing here",
                             tide_cli_options[words->uses[i].id].name);
    const size_t pool_max = (size_t)words->use_count + TIDE_CLI_OPTION_COUNT;
    int pool_count = 0;
    words->pool = calloc(pool_max, sizeof *words->pool);
    if (!words->pool)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for the options");
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++)
        if (is_taken(takes, (tide_cli_option_id)id))
            TIDE_TRY(settle_option(words, takes, (tide_cli_option_id)id, &pool_count, err));
    return TIDE_OK;
}
