#include "cli/frame/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/idempotency.h>

#include "base/cleanup.h"
#include "cli/frame/value.h"
#include "cli/help/suggest.h"
#include "runtime/options_file.h"

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
        .own_environment = "TIDEMARK_" #id,                                                        \
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

/* Can this be set outside the command line? */
static bool is_setting(const tide_cli_takes *takes, tide_cli_option_id id)
{
    return tide_cli_list_has(takes->takes, TIDE_CLI_CONFIG) && is_taken(takes, id) &&
           id != TIDE_CLI_HELP && id != TIDE_CLI_JSON && id != TIDE_CLI_CONTEXT;
}

tide_cli_option tide_cli_option_for(const tide_cli_takes *takes, tide_cli_option_id id)
{
    tide_cli_option option = tide_cli_options[id];
    if (!option.environment && is_setting(takes, id))
        option.environment = option.own_environment;
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
static tide_status parse_option(tide_cli_args *out, int id, const char *value, char *const **next,
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

static tide_status parse_long(tide_cli_args *out, const char *word, char *const **next,
                              tide_error *err)
{
    const size_t len = strcspn(word, "=");
    const int id = find_by_name(word, len);
    if (id < 0) {
        out->unknown = word;
        out->unknown_len = len;
        return tide_fail(err, TIDE_E_INVALID, "unknown option --%.*s", (int)len, word);
    }
    return parse_option(out, id, word[len] == '=' ? word + len + 1 : NULL, next, err);
}

/* -jn5 is -j -n 5: flags may stand together, a value ends the word. */
static tide_status parse_short(tide_cli_args *out, const char *word, char *const **next,
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
        TIDE_TRY(parse_option(out, id, !is_flag && word[1] ? word + 1 : NULL, next, err));
        if (!is_flag)
            break;
    }
    return TIDE_OK;
}

/* Room for the longest outcome: a word may be as many options as it has letters. */
static tide_status make_room(tide_cli_args *out, char *const *words, tide_error *err)
{
    size_t word_count = 0;
    size_t use_count = 0;
    for (; words[word_count]; word_count++)
        use_count += words[word_count][0] == '-' ? strlen(words[word_count]) : 0;
    out->words = calloc(word_count + 1, sizeof *out->words);
    out->uses = calloc(use_count + 1, sizeof *out->uses);
    return out->words && out->uses ? TIDE_OK : tide_no_memory(err);
}

tide_status tide_cli_args_parse(tide_cli_args *out, int argc, char *const *argv, tide_error *err)
{
    *out = (tide_cli_args){0};
    char *const *next = argv + (argc > 0);
    TIDE_TRY(make_room(out, next, err));
    while (*next) {
        const char *word = *next++;
        if (out->behind || word[0] != '-' || word[1] == '\0' || (word[1] >= '0' && word[1] <= '9'))
            out->words[out->word_count++] = word;
        else if (strcmp(word, "--") == 0)
            out->behind = next;
        else if (word[1] == '-')
            TIDE_TRY(parse_long(out, word + 2, &next, err));
        else
            TIDE_TRY(parse_short(out, word + 1, &next, err));
        if (!out->behind)
            out->before_count = out->word_count;
    }
    return TIDE_OK;
}

static void free_file(tide_options_file *file)
{
    if (file)
        tide_options_file_done(file);
    free(file);
}

void tide_cli_args_done(tide_cli_args *words)
{
    free_file(words->file);
    free_file(words->context);
    free(words->words);
    free(words->uses);
    free(words->pool);
    *words = (tide_cli_args){0};
}

const char *tide_cli_args_suggest(const tide_cli_args *words, const tide_cli_takes *takes)
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
static tide_status set_value(tide_cli_args *words, tide_cli_option_id id,
                             const tide_cli_option *option, const char *value, const char *what,
                             tide_error *err)
{
    words->text[id] = value;
    if (id == TIDE_CLI_EXPIRY && strcmp(value, "forever") == 0) {
        words->number[id] = TIDE_IDEMPOTENCY_EXPIRY_MAX_US;
        return TIDE_OK;
    }
    const tide_status status = tide_cli_value_check(&words->number[id], option, value, what, err);
    words->has_bad_value = status < TIDE_OK;
    return status;
}

/* Values of one option come to stand side by side in the pool. */
static void add_to_list(tide_cli_args *words, tide_cli_option_id id, const char *value,
                        int *pool_count)
{
    tide_cli_values *list = &words->list[id];
    if (list->count == 0)
        list->items = words->pool + *pool_count;
    assert(list->items + list->count == words->pool + *pool_count);
    words->pool[(*pool_count)++] = value;
    list->count++;
}

/* A flag outside the command line. */
static tide_status set_flag(tide_cli_args *words, tide_cli_option_id id, const char *value,
                            const char *what, tide_error *err)
{
    const bool is_true = strcmp(value, "true") == 0;
    if (!is_true && strcmp(value, "false") != 0) {
        words->has_bad_value = true;
        return tide_fail(err, TIDE_E_INVALID, "%s '%s' is neither true nor false", what, value);
    }
    words->given[id] = is_true;
    return TIDE_OK;
}

static tide_status set_outside(tide_cli_args *words, tide_cli_option_id id,
                               const tide_cli_option *option, const char *value, const char *what,
                               tide_error *err)
{
    return option->type == TIDE_CLI_FLAG ? set_flag(words, id, value, what, err)
                                         : set_value(words, id, option, value, what, err);
}

/* All lines of a file (NULL: none) that are about this option; several only where it collects. */
static tide_status resolve_from_file(tide_cli_args *words, const tide_options_file *file,
                                     tide_cli_option_id id, const tide_cli_option *option,
                                     int *pool_count, tide_error *err)
{
    for (int i = 0; file && i < file->count; i++) {
        const tide_setting *setting = &file->settings[i];
        if (strcmp(setting->name, option->name) != 0)
            continue;
        const tide_status status =
            set_outside(words, id, option, setting->value, setting->name, err);
        if (status < TIDE_OK)
            return tide_options_file_fail(file, setting, status, err);
        if (option->type == TIDE_CLI_TEXTS)
            add_to_list(words, id, setting->value, pool_count);
    }
    return TIDE_OK;
}

/* What the command line does not say. */
static tide_status resolve_from_outside(tide_cli_args *words, tide_cli_option_id id,
                                        const tide_cli_option *option, const char *what,
                                        int *pool_count, tide_error *err)
{
    const char *outside = option->environment ? getenv(option->environment) : NULL;
    if (words->given[TIDE_CLI_CONTEXT])
        TIDE_TRY(resolve_from_file(words, words->context, id, option, pool_count, err));
    if (!words->text[id] && outside && *outside)
        TIDE_TRY(set_outside(words, id, option, outside, option->environment, err));
    else if (!words->text[id])
        TIDE_TRY(resolve_from_file(words, words->file, id, option, pool_count, err));
    if (!words->text[id])
        TIDE_TRY(resolve_from_file(words, words->context, id, option, pool_count, err));
    if (!words->text[id] && !(outside && *outside) && option->fallback)
        TIDE_TRY(set_value(words, id, option, option->fallback, what, err));
    if (words->text[id] && option->type == TIDE_CLI_TEXTS && words->list[id].count == 0)
        add_to_list(words, id, words->text[id], pool_count);
    return TIDE_OK;
}

static tide_status resolve_option(tide_cli_args *words, const tide_cli_takes *takes,
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
    if (!words->given[id])
        TIDE_TRY(resolve_from_outside(words, id, &option, what, pool_count, err));
    if (option.type == TIDE_CLI_TEXTS && words->list[id].count > option.max)
        return option.max == 1 ? tide_fail(err, TIDE_E_INVALID, "%s can be given once here", what)
                               : tide_fail(err, TIDE_E_INVALID,
                                           "%s is given %d times, at most %lld are allowed", what,
                                           words->list[id].count, (long long)option.max);
    if (!words->text[id] && tide_cli_list_has(takes->needs, id))
        return tide_fail(err, TIDE_E_INVALID, "%s %s is missing", what, option.value);
    return TIDE_OK;
}

/* ---- the file of --config ---- */

static tide_status check_setting(const tide_options_file *file, int at, const tide_cli_takes *takes,
                                 tide_error *err)
{
    const tide_setting *setting = &file->settings[at];
    const int id = find_by_name(setting->name, strlen(setting->name));
    if (id < 0) {
        tide_cli_suggestion nearest = tide_cli_suggest_begin(setting->name, strlen(setting->name));
        for (int i = 0; i < TIDE_CLI_OPTION_COUNT; i++)
            if (is_setting(takes, (tide_cli_option_id)i))
                tide_cli_suggest_offer(&nearest, tide_cli_options[i].name);
        return nearest.best ? tide_fail(err, TIDE_E_INVALID, "unknown option '%s'; %s is meant?",
                                        setting->name, nearest.best)
                            : tide_fail(err, TIDE_E_INVALID, "unknown option '%s'", setting->name);
    }
    if (!is_setting(takes, (tide_cli_option_id)id) || id == TIDE_CLI_CONFIG)
        return tide_fail(err, TIDE_E_INVALID, "%s means nothing here", setting->name);
    for (int i = 0; i < at && tide_cli_options[id].type != TIDE_CLI_TEXTS; i++)
        if (strcmp(file->settings[i].name, setting->name) == 0)
            return tide_fail(err, TIDE_E_INVALID, "%s is set twice, first in line %d",
                             setting->name, file->settings[i].line);
    return TIDE_OK;
}

static tide_status read_file(tide_cli_args *words, const tide_cli_takes *takes, tide_error *err)
{
    int unused = 0;
    if (!tide_cli_list_has(takes->takes, TIDE_CLI_CONFIG))
        return TIDE_OK;
    TIDE_TRY(resolve_option(words, takes, TIDE_CLI_CONFIG, &unused, err));
    if (!words->text[TIDE_CLI_CONFIG])
        return TIDE_OK;
    TIDE_ALLOC(words->file, 1, err);
    words->has_bad_value = true; /* what is wrong from here on, is so in the file */
    TIDE_TRY(tide_options_file_read(words->file, words->text[TIDE_CLI_CONFIG], err));
    for (int i = 0; i < words->file->count; i++) {
        const tide_status status = check_setting(words->file, i, takes, err);
        if (status < TIDE_OK)
            return tide_options_file_fail(words->file, &words->file->settings[i], status, err);
    }
    words->has_bad_value = false;
    return TIDE_OK;
}

/* Old spellings, which help does not list: where a verb takes the new option and not the old
 * one. */
static void rename_old_spellings(tide_cli_args *words, const tide_cli_takes *takes)
{
    static const struct {
        tide_cli_option_id old;
        tide_cli_option_id now;
    } spellings[] = {{TIDE_CLI_REASON, TIDE_CLI_FAILURE_KIND}};
    for (int i = 0; i < words->use_count; i++) {
        for (size_t k = 0; k < sizeof spellings / sizeof spellings[0]; k++) {
            if (words->uses[i].id != spellings[k].old || is_taken(takes, spellings[k].old) ||
                !is_taken(takes, spellings[k].now))
                continue;
            words->uses[i].id = spellings[k].now;
            words->given[spellings[k].old] = false;
            words->given[spellings[k].now] = true;
        }
    }
}

tide_status tide_cli_args_resolve(tide_cli_args *words, const tide_cli_takes *takes,
                                  tide_error *err)
{
    rename_old_spellings(words, takes);
    for (int i = 0; i < words->use_count; i++)
        if (!is_taken(takes, words->uses[i].id))
            return tide_fail(err, TIDE_E_INVALID, "--%s means nothing here",
                             tide_cli_options[words->uses[i].id].name);
    TIDE_TRY(read_file(words, takes, err));
    const size_t pool_max = (size_t)words->use_count + TIDE_CLI_OPTION_COUNT +
                            (words->file ? (size_t)words->file->count : 0) +
                            (words->context ? (size_t)words->context->count : 0);
    int pool_count = 0;
    TIDE_ALLOC(words->pool, pool_max, err);
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++)
        if (is_taken(takes, (tide_cli_option_id)id))
            TIDE_TRY(resolve_option(words, takes, (tide_cli_option_id)id, &pool_count, err));
    return TIDE_OK;
}

tide_status tide_cli_args_assign(tide_cli_args *words, tide_error *err)
{
    if (words->given[TIDE_CLI_STORE] && words->given[TIDE_CLI_ADDRESS])
        return tide_fail(err, TIDE_E_INVALID, "--store and --address name two places: give one");
    if (words->given[TIDE_CLI_STORE])
        words->text[TIDE_CLI_ADDRESS] = NULL;
    return TIDE_OK;
}
