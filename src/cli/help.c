#include "cli/help.h"

#include <string.h>

static bool stands_alone(const tide_cli_command *command)
{
    return command->verbs[0].name[0] == '\0';
}

void tide_cli_help_usage(char *out, size_t size, const tide_cli_command *command,
                         const tide_cli_verb *verb)
{
    int len = snprintf(out, size, "tidemark %s%s%s%s%s", command->name, *verb->name ? " " : "",
                       verb->name, *verb->arguments ? " " : "", verb->arguments);
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++)
        if ((verb->needs & UINT32_C(1) << id) && len > 0 && (size_t)len < size)
            len += snprintf(out + len, size - (size_t)len, " --%s %s", tide_cli_options[id].name,
                            tide_cli_options[id].value);
}

static void print_option(FILE *file, const tide_cli_option *option)
{
    char left[64];
    (void)snprintf(left, sizeof left, "-%c, --%s%s%s", option->letter, option->name,
                   option->value ? " " : "", option->value ? option->value : "");
    (void)fprintf(file, "  %-18s %s", left, option->help);
    if (option->type == TIDE_CLI_NUMBER)
        (void)fprintf(file, ", %lld to %lld", (long long)option->min, (long long)option->max);
    if (option->environment && option->fallback)
        (void)fprintf(file, "\n%21s($%s, else %s)", "", option->environment, option->fallback);
    else if (option->environment)
        (void)fprintf(file, " ($%s)", option->environment);
    else if (option->fallback)
        (void)fprintf(file, " (%s)", option->fallback);
    (void)fputc('\n', file);
}

static void print_options(FILE *file, uint32_t takes)
{
    (void)fputs("\nOptions:\n", file);
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++)
        if (takes & UINT32_C(1) << id)
            print_option(file, &tide_cli_options[id]);
}

void tide_cli_help_verb(FILE *file, const tide_cli_command *command, const tide_cli_verb *verb)
{
    char usage[256];
    tide_cli_help_usage(usage, sizeof usage, command, verb);
    (void)fprintf(file, "Usage: %s [options]\n\n%s\n", usage, verb->summary);
    if (verb->details)
        (void)fprintf(file, "\n%s\n", verb->details);
    print_options(file, verb->takes | TIDE_CLI_TAKES_COMMON);
}

void tide_cli_help_command(FILE *file, const tide_cli_command *command)
{
    if (stands_alone(command)) {
        tide_cli_help_verb(file, command, &command->verbs[0]);
        return;
    }
    uint32_t takes = TIDE_CLI_TAKES_COMMON;
    (void)fprintf(file, "Usage: tidemark %s VERB [options]\n\n%s\n\nVerbs:\n", command->name,
                  command->summary);
    for (const tide_cli_verb *verb = command->verbs; verb->name; verb++) {
        char left[64];
        (void)snprintf(left, sizeof left, "%s%s%s", verb->name, *verb->arguments ? " " : "",
                       verb->arguments);
        (void)fprintf(file, "  %-18s %s\n", left, verb->summary);
        takes |= verb->takes;
    }
    print_options(file, takes);
    (void)fprintf(file, "\n'tidemark help %s VERB' tells more about one of them.\n", command->name);
}

void tide_cli_help_overview(FILE *file)
{
    (void)fputs("tidemark - durable sequences and checkpoints\n\n"
                "Usage: tidemark COMMAND [VERB] [ARGUMENT...] [options]\n\nCommands:\n",
                file);
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++) {
        if (stands_alone(*command)) {
            (void)fprintf(file, "  %-18s %s\n", (*command)->name, (*command)->summary);
            continue;
        }
        for (const tide_cli_verb *verb = (*command)->verbs; verb->name; verb++) {
            char left[64];
            (void)snprintf(left, sizeof left, "%s %s", (*command)->name, verb->name);
            (void)fprintf(file, "  %-18s %s\n", left, verb->summary);
        }
    }
    print_options(file, TIDE_CLI_TAKES_COMMON | TIDE_CLI_TAKES(VERSION));
    (void)fputs("\nExit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 not permitted, "
                "6 unavailable\n(try again), 7 partly done, 8 damage found, 130 interrupted.\n"
                "\n'tidemark help COMMAND [VERB]' tells more.\n",
                file);
}
