/* main.c - tidemark <noun> <verb>: finds the verb, checks its words, runs it, tells how it ended. */
#include <string.h>

#include "cli/cli.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/suggest.h"

const tide_cli_command *const tide_cli_commands[] = {
    &tide_cli_sequence, &tide_cli_store, &tide_cli_doctor, &tide_cli_version, &tide_cli_help, NULL,
};

const tide_cli_command *tide_cli_find_command(const char *name)
{
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

const tide_cli_verb *tide_cli_find_verb(const tide_cli_command *command, const char *name)
{
    for (const tide_cli_verb *verb = command->verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return verb;
    return NULL;
}

void tide_cli_count_arguments(const tide_cli_verb *verb, int *least, int *most)
{
    *least = 0;
    *most = 0;
    for (const char *at = verb->arguments; *at; at += strspn(at, " ")) {
        (*most)++;
        if (*at != '[')
            (*least)++;
        at += strcspn(at, " ");
    }
}

tide_status tide_cli_open_store(tide_cli *cli, tide_store **out, tide_store_mode mode,
                                tide_error *err)
{
    /* One command is one closure: there is nothing to group, so no thread is needed. */
    const tide_store_options options = {.mode = mode, .is_inline = true};
    return tide_store_open(out, cli->words.text[TIDE_CLI_STORE], &options, err);
}

/* ---- which verb ---- */

typedef struct request {
    const tide_cli_command *command; /* NULL: none was named */
    const tide_cli_verb *verb;       /* NULL: none was named */
    char name[64];                   /* "sequence next", for messages */
} request;

static tide_status find_command(tide_cli *cli, request *asked, tide_error *err)
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

static tide_status find_verb(tide_cli *cli, request *asked, tide_error *err)
{
    const tide_cli_verb *verbs = asked->command->verbs;
    cli->args = cli->words.words + 1;
    cli->arg_count = cli->words.word_count - 1;
    if (verbs[0].name[0] == '\0') {
        asked->verb = &verbs[0];
        return TIDE_OK;
    }
    if (cli->arg_count == 0)
        return TIDE_OK;
    const char *name = cli->args[0];
    asked->verb = tide_cli_find_verb(asked->command, name);
    if (asked->verb) {
        cli->args++;
        cli->arg_count--;
        (void)snprintf(asked->name, sizeof asked->name, "%s %s", asked->command->name,
                       asked->verb->name);
        return TIDE_OK;
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

/* ---- does it fit the verb's table ---- */

static tide_status check_options(const tide_cli *cli, const tide_cli_verb *verb, tide_error *err)
{
    const uint32_t allowed = verb->takes | TIDE_CLI_TAKES_COMMON;
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++) {
        const uint32_t bit = UINT32_C(1) << id;
        if ((cli->words.given & bit) && !(allowed & bit))
            return tide_fail(err, TIDE_E_INVALID, "--%s means nothing here",
                             tide_cli_options[id].name);
        if ((verb->needs & bit) && !cli->words.text[id])
            return tide_fail(err, TIDE_E_INVALID, "--%s %s is missing", tide_cli_options[id].name,
                             tide_cli_options[id].value);
    }
    return TIDE_OK;
}

static tide_status check_words(tide_cli *cli, const request *asked, tide_error *err)
{
    char usage[TIDE_CLI_HINT_SIZE - 16];
    tide_cli_help_usage(usage, sizeof usage, asked->command, asked->verb);
    (void)snprintf(cli->hint, sizeof cli->hint, "usage: %s", usage);
    TIDE_TRY(check_options(cli, asked->verb, err));
    int least = 0;
    int most = 0;
    tide_cli_count_arguments(asked->verb, &least, &most);
    if (cli->arg_count < least)
        return tide_fail(err, TIDE_E_INVALID, "wants %s", asked->verb->arguments);
    if (cli->arg_count > most)
        return tide_fail(err, TIDE_E_INVALID, "one word too many: '%s'", cli->args[most]);
    cli->hint[0] = '\0';
    return TIDE_OK;
}

/* ---- run and tell ---- */

static int tell_failure(const tide_cli *cli, const char *what, tide_status status,
                        const tide_error *err)
{
    const tide_status_row *row = tide_status_get(status);
    const char *next = cli->hint[0] ? cli->hint : row->next;
    if (!cli->is_told) {
        tide_cli_print(stderr, "tidemark: %s%s%s\n", what, *what ? ": " : "",
                       err->text[0] ? err->text : row->text);
        if (*next)
            tide_cli_print(stderr, "  %s\n", next);
    }
    return (int)row->exit_code;
}

static tide_status print_help(tide_cli *cli, const request *asked)
{
    if (!asked->command)
        tide_cli_help_overview(cli->out.file);
    else if (!asked->verb)
        tide_cli_help_command(cli->out.file, asked->command);
    else
        tide_cli_help_verb(cli->out.file, asked->command, asked->verb);
    return TIDE_OK;
}

static tide_status run(tide_cli *cli, request *asked, tide_error *err)
{
    TIDE_TRY(find_command(cli, asked, err));
    if (asked->command)
        TIDE_TRY(find_verb(cli, asked, err));
    if (tide_cli_is_given(cli, TIDE_CLI_HELP))
        return print_help(cli, asked);
    if (!asked->command && tide_cli_is_given(cli, TIDE_CLI_VERSION))
        return tide_cli_version.verbs[0].run(cli, err);
    if (!asked->verb) {
        if (asked->command)
            tide_cli_help_command(stderr, asked->command);
        else
            tide_cli_help_overview(stderr);
        cli->is_told = true;
        return tide_fail(err, TIDE_E_INVALID, "no command was given");
    }
    TIDE_TRY(check_words(cli, asked, err));
    return asked->verb->run(cli, err);
}

int main(int argc, char **argv)
{
    tide_cli cli = {.arg_count = 0};
    request asked = {.command = NULL};
    tide_error err = {.status = TIDE_OK};
    tide_cli_interrupt_install();
    tide_status status = tide_cli_words_parse(&cli.words, argc, argv, &err);
    tide_cli_output_init(&cli.out, stdout, tide_cli_is_given(&cli, TIDE_CLI_JSON));
    if (status < TIDE_OK)
        memcpy(cli.hint, cli.words.hint, sizeof cli.hint);
    else
        status = run(&cli, &asked, &err);
    tide_error write_err = {.status = TIDE_OK};
    const tide_status written = tide_cli_output_flush(&cli.out, &write_err);
    tide_cli_output_done(&cli.out);
    if (status < TIDE_OK)
        return tell_failure(&cli, asked.name, status, &err);
    return written < TIDE_OK ? tell_failure(&cli, asked.name, written, &write_err) : TIDE_EXIT_OK;
}
