/* cmd_completion.c - tidemark completion bash|zsh|fish. */
#include <string.h>

#include "cli/help/completion.h"

static tide_status print_for(tide_cli *cli, const char *name)
{
    const tide_cli_shell *shell = tide_cli_shells;
    while (strcmp(shell->name, name) != 0)
        shell++;
    tide_cli_completion_print(cli->out.file, shell);
    return TIDE_OK;
}

static tide_status print_bash(tide_cli *cli, tide_error *err)
{
    (void)err;
    return print_for(cli, "bash");
}

static tide_status print_zsh(tide_cli *cli, tide_error *err)
{
    (void)err;
    return print_for(cli, "zsh");
}

static tide_status print_fish(tide_cli *cli, tide_error *err)
{
    (void)err;
    return print_for(cli, "fish");
}

static const tide_cli_verb verbs[] = {
    {.name = "bash",
     .summary = "print completions for bash",
     .details = "source <(tidemark completion bash)",
     .run = print_bash},
    {.name = "zsh",
     .summary = "print completions for zsh",
     .details = "tidemark completion zsh > \"${fpath[1]}/_tidemark\"",
     .run = print_zsh},
    {.name = "fish",
     .summary = "print completions for fish",
     .details = "tidemark completion fish > ~/.config/fish/completions/tidemark.fish",
     .run = print_fish},
    {.name = NULL},
};

const tide_cli_command tide_cli_completion = {
    .name = "completion",
    .summary = "Completions for shells.",
    .verbs = verbs,
    .is_placeless = true,
};
