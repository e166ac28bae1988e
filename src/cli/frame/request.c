#include "cli/frame/request.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/frame/context.h"
#include "cli/help/help.h"
#include "cli/help/suggest.h"

/* ---- reading the tables ---- */

const tide_cli_command *tide_cli_find_command(const char *name)
{
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    for (const tide_cli_command *const *command = tide_cli_hidden_commands; *command; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

/* Old and other spellings of verbs, which help does not list. */
static const char *translate_verb(const tide_cli_command *command, const char *name)
{
    static const struct {
        const char *command; /* NULL: any */
        const char *old;
        const char *now;
    } spellings[] = {{NULL, "list", "ls"},
                     {"store", "check", "verify"},
                     {"work", "reprioritize", "reprioritise"}};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        if (strcmp(name, spellings[i].old) == 0 &&
            (!spellings[i].command || strcmp(command->name, spellings[i].command) == 0))
            return spellings[i].now;
    return name;
}

static const tide_cli_verb *find_named(const tide_cli_command *command, const char *name)
{
    for (const tide_cli_verb *verb = command->verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return verb;
    return NULL;
}

const tide_cli_verb *tide_cli_find_verb(const tide_cli_command *command, const char *name)
{
    const tide_cli_verb *verb = find_named(command, name);
    return verb ? verb : find_named(command, translate_verb(command, name));
}

const tide_cli_verb *tide_cli_find_verb_of_two(const tide_cli_command *command, const char *first,
                                               const char *second)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%.30s %.30s", first, translate_verb(command, second));
    return find_named(command, name);
}

static bool ends_with(const char *word, size_t len, const char *end)
{
    const size_t end_len = strlen(end);
    return len >= end_len && strncmp(word + len - end_len, end, end_len) == 0;
}

tide_cli_arguments tide_cli_arguments_of(const tide_cli_verb *verb)
{
    tide_cli_arguments found = {0};
    for (const char *at = tide_cli_arguments_text(verb); *at; at += strspn(at, " ")) {
        const size_t len = strcspn(at, " ");
        if (ends_with(at, len, "--")) {
            found.takes_command = true;
            found.needs_command = *at != '[';
            break;
        }
        const bool is_many = ends_with(at, len, "...") || ends_with(at, len, "...]");
        if (is_many)
            found.most = INT_MAX;
        else if (found.most < INT_MAX)
            found.most++;
        if (*at != '[')
            found.least++;
        at += len;
    }
    return found;
}

tide_status tide_cli_time(const tide_cli *cli, tide_cli_option_id id, int64_t now_us, int64_t *us,
                          tide_error *err)
{
    const tide_cli_option *option = &tide_cli_options[id];
    const char *text = tide_cli_text(cli, id);
    char what[64];
    if (!text)
        return TIDE_NONE;
    (void)snprintf(what, sizeof what, "--%s", option->name);
    return tide_cli_parse_time(us, text, what, option->type, now_us, err);
}

/* ---- which verb ---- */

/* "agent" of "agent add", "agent ls": the words that may follow it, with commas between. false: no
 * verb begins so. */
static bool list_second_names(const tide_cli_verb *verbs, const char *first, char *out, size_t size)
{
    const size_t len = strlen(first);
    size_t at = 0;
    for (; verbs->name; verbs++)
        if (strncmp(verbs->name, first, len) == 0 && verbs->name[len] == ' ' && at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at > 0 ? ", " : "",
                                   verbs->name + len + 1);
    return at > 0;
}

static tide_status find_command(tide_cli *cli, tide_cli_request *asked, tide_error *err)
{
    if (cli->words.word_count == 0)
        return TIDE_OK;
    const char *name = cli->words.words[0];
    asked->command = tide_cli_find_command(name);
    if (asked->command) {
        (void)snprintf(asked->name, sizeof asked->name, "%s", asked->command->name);
        return TIDE_OK;
    }
    tide_cli_suggestion nearest = tide_cli_suggest_begin(name, strlen(name));
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++)
        tide_cli_suggest_offer(&nearest, (*command)->name);
    if (nearest.best)
        (void)snprintf(cli->hint, sizeof cli->hint, "did you mean 'tidemark %s'?", nearest.best);
    else
        (void)snprintf(cli->hint, sizeof cli->hint, "'tidemark help' lists the commands");
    return tide_fail(err, TIDE_E_INVALID, "unknown command '%s'", name);
}

static tide_status find_verb(tide_cli *cli, tide_cli_request *asked, tide_error *err)
{
    const tide_cli_verb *verbs = asked->command->verbs;
    cli->args = cli->words.words + 1;
    cli->arg_count = cli->words.word_count - 1;
    const bool is_bare = verbs[0].name[0] == '\0';
    if (is_bare && (!verbs[1].name || cli->arg_count == 0)) {
        asked->verb = &verbs[0];
        return TIDE_OK;
    }
    if (cli->arg_count == 0)
        return TIDE_OK;
    const char *name = cli->args[0];
    int word_count = 2;
    if (cli->arg_count > 1)
        asked->verb = tide_cli_find_verb_of_two(asked->command, name, cli->args[1]);
    if (!asked->verb) {
        asked->verb = tide_cli_find_verb(asked->command, name);
        word_count = 1;
    }
    if (asked->verb) {
        cli->args += word_count;
        cli->arg_count -= word_count;
        (void)snprintf(asked->name, sizeof asked->name, "%s %s", asked->command->name,
                       asked->verb->name);
        return TIDE_OK;
    }
    char words[128];
    if (cli->arg_count == 1 && list_second_names(verbs, name, words, sizeof words)) {
        if (tide_cli_is_given(cli, TIDE_CLI_HELP))
            return TIDE_OK;
        (void)snprintf(cli->hint, sizeof cli->hint, "'tidemark help %s' lists its verbs",
                       asked->command->name);
        return tide_fail(err, TIDE_E_INVALID, "'%s' wants one more word: %s", name, words);
    }
    tide_cli_suggestion nearest = tide_cli_suggest_begin(name, strlen(name));
    for (const tide_cli_verb *verb = verbs; verb->name; verb++)
        tide_cli_suggest_offer(&nearest, verb->name);
    if (nearest.best)
        (void)snprintf(cli->hint, sizeof cli->hint, "did you mean 'tidemark %s %s'?",
                       asked->command->name, nearest.best);
    else
        (void)snprintf(cli->hint, sizeof cli->hint, "'tidemark help %s' lists its verbs",
                       asked->command->name);
    return tide_fail(err, TIDE_E_INVALID, "unknown verb '%s'", name);
}

tide_status tide_cli_request_find(tide_cli *cli, tide_cli_request *asked, tide_error *err)
{
    TIDE_TRY(find_command(cli, asked, err));
    return asked->command ? find_verb(cli, asked, err) : TIDE_OK;
}

/* ---- does it fit the verb's table ---- */

/* What follows `--` is the command, or further arguments. */
static tide_status split_command(tide_cli *cli, const tide_cli_arguments *wanted, tide_error *err)
{
    if (!wanted->takes_command)
        return TIDE_OK;
    const int behind_count = cli->words.word_count - cli->words.before_count;
    if (behind_count > cli->arg_count) /* `--` stood before the verb */
        return tide_fail(err, TIDE_E_INVALID, "-- belongs in front of the command to run");
    cli->arg_count -= behind_count;
    if (behind_count > 0)
        cli->command = cli->words.behind;
    if (behind_count == 0 && (wanted->needs_command || cli->words.behind))
        return tide_fail(err, TIDE_E_INVALID, "no command to run was given behind --");
    return TIDE_OK;
}

static tide_status check_arguments(tide_cli *cli, const tide_cli_verb *verb, tide_error *err)
{
    const tide_cli_arguments wanted = tide_cli_arguments_of(verb);
    TIDE_TRY(split_command(cli, &wanted, err));
    if (cli->arg_count < wanted.least)
        return tide_fail(err, TIDE_E_INVALID, "wants %s", verb->arguments);
    if (cli->arg_count > wanted.most)
        return tide_fail(err, TIDE_E_INVALID, "one word too many: '%s'", cli->args[wanted.most]);
    return TIDE_OK;
}

tide_status tide_cli_request_check(tide_cli *cli, const tide_cli_request *asked, tide_error *err)
{
    const tide_cli_takes takes = tide_cli_takes_of(asked->verb);
    char usage[TIDE_CLI_HINT_SIZE - 16];
    tide_cli_help_usage(usage, sizeof usage, asked->command, asked->verb);
    (void)snprintf(cli->hint, sizeof cli->hint, "usage: %s", usage);
    tide_status status = TIDE_OK;
    if (!asked->command->is_placeless)
        status = tide_cli_context_enter(&cli->words, &takes, err);
    if (status >= TIDE_OK)
        status = tide_cli_args_resolve(&cli->words, &takes, err);
    if (status >= TIDE_OK && !asked->command->is_placeless)
        status = tide_cli_args_assign(&cli->words, err);
    if (status >= TIDE_OK)
        status = check_arguments(cli, asked->verb, err);
    if (status >= TIDE_OK || cli->words.has_bad_value)
        cli->hint[0] = '\0';
    return status;
}

/* What was meant is among the options of the verb, if one was named before the mistake. */
void tide_cli_request_suggest(tide_cli *cli, tide_cli_request *asked)
{
    tide_error unused = {.status = TIDE_OK};
    TIDE_IGNORE(tide_cli_request_find(cli, asked, &unused));
    cli->hint[0] = '\0';
    if (!cli->words.unknown)
        return;
    const tide_cli_verb *verb = asked->verb;
    const tide_cli_takes takes =
        verb ? tide_cli_takes_of(verb) : (tide_cli_takes){NULL, NULL, NULL};
    const char *meant = tide_cli_args_suggest(&cli->words, verb ? &takes : NULL);
    if (meant)
        (void)snprintf(cli->hint, sizeof cli->hint, "did you mean --%s?", meant);
    else if (verb && tide_cli_arguments_of(verb).takes_command)
        (void)snprintf(cli->hint, sizeof cli->hint,
                       "options of the command to run stand behind --; 'tidemark help %s' lists "
                       "ours",
                       asked->name);
    else
        (void)snprintf(cli->hint, sizeof cli->hint, "'tidemark help%s%s' lists the options",
                       asked->name[0] ? " " : "", asked->name);
}
