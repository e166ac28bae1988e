#include "cli/help/man.h"

#include <ctype.h>
#include <string.h>

#include "cli/frame/value.h"
#include "cli/help/codes.h"
#include "cli/help/help.h"
#include "cli/version.h"

enum { TEXT_SIZE = 512 };

/* ---- text ---- */

/* What roff would take for its own is written so that it shows. */
static void put_text(FILE *file, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const bool is_line_start = i == 0 || text[i - 1] == '\n';
        if (is_line_start && (text[i] == '.' || text[i] == '\''))
            (void)fputs("\\&", file);
        if (text[i] == '\\')
            (void)fputs("\\e", file);
        else if (text[i] == '-')
            (void)fputs("\\-", file);
        else if (text[i] == '~')
            (void)fputs("\\(ti", file);
        else if (text[i] == '^')
            (void)fputs("\\(ha", file);
        else if (text[i] == '`')
            (void)fputs("\\(ga", file);
        else
            (void)fputc(text[i], file);
    }
}

static void put_line(FILE *file, const char *text)
{
    put_text(file, text, strlen(text));
    (void)fputc('\n', file);
}

/* Paragraphs are parted by empty lines; what is indented stays as it is. */
static void put_details(FILE *file, const char *text)
{
    bool is_literal = false;
    bool is_paragraph = true; /* begins with the next line */
    while (*text) {
        const size_t len = strcspn(text, "\n");
        const bool is_indented = text[0] == ' ';
        if (len == 0) {
            is_paragraph = true;
        } else {
            if (is_literal && !is_indented)
                (void)fputs(".fi\n", file);
            if (is_paragraph || is_indented != is_literal)
                (void)fputs(".PP\n", file);
            if (is_indented && !is_literal)
                (void)fputs(".nf\n", file);
            is_literal = is_indented;
            is_paragraph = false;
            put_text(file, text, len);
            (void)fputc('\n', file);
        }
        text += len + (text[len] == '\n');
    }
    if (is_literal)
        (void)fputs(".fi\n", file);
}

static void put_head(FILE *file, const char *name, const char *what)
{
    (void)fputs(".TH \"TIDEMARK", file);
    for (const char *at = name; *at; at++)
        (void)fprintf(file, "%s%c", at == name ? "\\-" : "", toupper((unsigned char)*at));
    (void)fprintf(file, "\" 1 \"%s\" \"tidemark %s\" \"Tidemark\"\n.SH NAME\ntidemark%s",
                  TIDE_CLI_RELEASED, TIDE_CLI_VERSION, *name ? "\\-" : "");
    put_text(file, name, strlen(name));
    (void)fputs(" \\- ", file);
    const size_t len = strlen(what);
    put_text(file, what, len > 0 && what[len - 1] == '.' ? len - 1 : len);
    (void)fputc('\n', file);
}

/* ---- options ---- */

static void put_option(FILE *file, const tide_cli_option *option)
{
    char range[64];
    char note[TEXT_SIZE] = "";
    (void)fputs(".TP\n", file);
    (void)fputs("\\fB", file);
    if (option->letter)
        (void)fprintf(file, "\\-%c\\fR, \\fB", option->letter);
    (void)fputs("\\-\\-", file);
    put_text(file, option->name, strlen(option->name));
    (void)fputs("\\fR", file);
    if (option->value) {
        (void)fputs(" \\fI", file);
        put_text(file, option->value, strlen(option->value));
        (void)fputs("\\fR", file);
    }
    (void)fputc('\n', file);
    tide_cli_value_range(range, sizeof range, option);
    if (option->environment && option->fallback)
        (void)snprintf(note, sizeof note, " ($%s, else %s)", option->environment, option->fallback);
    else if (option->environment)
        (void)snprintf(note, sizeof note, " ($%s)", option->environment);
    else if (option->fallback)
        (void)snprintf(note, sizeof note, " (%s)", option->fallback);
    put_text(file, option->help, strlen(option->help));
    put_text(file, range, strlen(range));
    put_line(file, note);
}

static void put_own_options(FILE *file, const tide_cli_verb *verb)
{
    const tide_cli_takes takes = tide_cli_takes_of(verb);
    for (int i = 0; i < TIDE_CLI_OPTION_COUNT; i++) {
        const tide_cli_option_id id = (tide_cli_option_id)i;
        if (!tide_cli_list_has(takes.takes, id))
            continue;
        const tide_cli_option option = tide_cli_option_for(&takes, id);
        put_option(file, &option);
    }
}

static void put_common_options(FILE *file)
{
    (void)fputs(".SH OPTIONS OF EVERY COMMAND\n", file);
    for (int i = 0; i < TIDE_CLI_OPTION_COUNT; i++)
        if (tide_cli_is_common((tide_cli_option_id)i))
            put_option(file, &tide_cli_options[i]);
}

/* ---- pages ---- */

static void put_usage(FILE *file, const tide_cli_command *command, const tide_cli_verb *verb)
{
    char usage[TEXT_SIZE];
    tide_cli_help_usage(usage, sizeof usage, command, verb);
    const size_t name_len =
        strlen("tidemark ") + strlen(command->name) + (*verb->name ? 1 + strlen(verb->name) : 0);
    (void)fputs("\\fB", file);
    put_text(file, usage, name_len);
    (void)fputs("\\fR", file);
    put_line(file, usage + name_len);
}

static void put_exit_codes(FILE *file)
{
    size_t count = 0;
    const tide_cli_code *codes = tide_cli_codes(&count);
    (void)fputs(".SH EXIT STATUS\n", file);
    for (size_t i = 0; i < count; i++) {
        if (codes[i].kind != TIDE_CLI_CODE_EXIT)
            continue;
        (void)fprintf(file, ".TP\n\\fB%s\\fR\n", codes[i].code);
        put_line(file, codes[i].meaning);
    }
}

static bool stands_alone(const tide_cli_command *command)
{
    return !*command->verbs[0].name && !command->verbs[1].name;
}

static void put_verb(FILE *file, const tide_cli_command *command, const tide_cli_verb *verb)
{
    if (!stands_alone(command)) {
        (void)fputs(".SS ", file);
        put_usage(file, command, verb);
    }
    put_line(file, verb->summary);
    if (verb->details)
        put_details(file, verb->details);
    put_own_options(file, verb);
}

void tide_cli_man_command(FILE *file, const tide_cli_command *command)
{
    put_head(file, command->name, command->summary);
    (void)fputs(".SH SYNOPSIS\n", file);
    for (const tide_cli_verb *verb = command->verbs; verb->name; verb++) {
        put_usage(file, command, verb);
        if (verb[1].name)
            (void)fputs(".br\n", file);
    }
    (void)fputs(".SH DESCRIPTION\n", file);
    for (const tide_cli_verb *verb = command->verbs; verb->name; verb++)
        put_verb(file, command, verb);
    put_common_options(file);
    put_exit_codes(file);
    (void)fputs(".SH SEE ALSO\n.BR tidemark (1)\n", file);
}

void tide_cli_man_overview(FILE *file)
{
    put_head(file, "", "durable sequences and checkpoints");
    (void)fputs(
        ".SH SYNOPSIS\n\\fBtidemark\\fR \\fICOMMAND\\fR [\\fIVERB\\fR] [\\fIARGUMENT\\fR...] "
        "[options]\n.SH DESCRIPTION\nMoves, records and resumes work so that every item is "
        "delivered exactly once to every consumer, or accounted for by name as lost.\n"
        ".SH COMMANDS\n",
        file);
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++) {
        (void)fprintf(file, ".TP\n.BR tidemark\\-%s (1)\n", (*command)->name);
        put_line(file, (*command)->summary);
    }
    put_common_options(file);
    put_exit_codes(file);
    (void)fputs(".SH ENVIRONMENT\n.TP\n\\fBNO_COLOR\\fR\nany value: no colour\n"
                ".TP\n\\fBTIDEMARK_STATE_DIR\\fR\n"
                "where this host keeps its notes about stores, to notice a restored file\n"
                ".TP\n\\fBXDG_CONFIG_HOME\\fR\nwhere contexts are kept\n"
                ".SH SEE ALSO\n",
                file);
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++)
        (void)fprintf(file, ".BR tidemark\\-%s (1)%s\n", (*command)->name, command[1] ? "," : "");
}
