/* cmd_help.c - tidemark help [COMMAND [VERB]]: for people, as manual pages (--man), for programs (--json). */
#include "cli/help/help.h"
#include "cli/help/man.h"

static tide_status show_help(tide_cli *cli, tide_error *err)
{
    const bool is_man = tide_cli_is_given(cli, TIDE_CLI_MAN);
    if (cli->arg_count == 0 && cli->out.is_json)
        return tide_cli_help_json(cli, NULL, err);
    if (cli->arg_count == 0) {
        (is_man ? tide_cli_man_overview : tide_cli_help_overview)(cli->out.file);
        return TIDE_OK;
    }
    const tide_cli_command *command = tide_cli_find_command(cli->args[0]);
    (void)snprintf(cli->hint, sizeof cli->hint, "'tidemark help' lists the commands");
    if (!command)
        return tide_fail(err, TIDE_E_INVALID, "no command is called '%s'", cli->args[0]);
    if (cli->out.is_json)
        return tide_cli_help_json(cli, command, err);
    if (cli->arg_count == 1 || is_man) {
        (is_man ? tide_cli_man_command : tide_cli_help_command)(cli->out.file, command);
        return TIDE_OK;
    }
    const tide_cli_verb *verb = cli->arg_count > 2
                                    ? tide_cli_find_verb_of_two(command, cli->args[1], cli->args[2])
                                    : tide_cli_find_verb(command, cli->args[1]);
    if (!verb)
        return tide_fail(err, TIDE_E_INVALID, "%s has no verb '%s'", command->name, cli->args[1]);
    tide_cli_help_verb(cli->out.file, command, verb);
    return TIDE_OK;
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .arguments = "[COMMAND] [VERB] [VERB]",
     .takes = TIDE_CLI_LIST(MAN),
     .summary = "tell what a command does and which options it takes",
     .details = "With --json: the tables of verbs, options, limits and metrics, an object per row.",
     .run = show_help},
    {.name = NULL},
};

const tide_cli_command tide_cli_help = {
    .name = "help",
    .summary = "tell what a command does and which options it takes",
    .verbs = verbs,
    .is_placeless = true,
};
