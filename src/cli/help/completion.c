#include "cli/help/completion.h"

#include <string.h>

#include "cli/help/codes.h"

enum { PLACE_SIZE = 96 };

/* ---- writing ---- */

/* A part of a '...' text. */
static void put_quoted(FILE *file, const tide_cli_shell *shell, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\'')
            (void)fputs(shell->quote, file);
        else if (text[i] == '\\' && shell->is_escaping)
            (void)fputs("\\\\", file);
        else
            (void)fputc(text[i], file);
    }
}

static void put_word(FILE *file, const tide_cli_shell *shell, const char *word, size_t len,
                     const char *what)
{
    (void)fputs(" \\\n            '", file);
    put_quoted(file, shell, word, len);
    (void)fputc('\t', file);
    put_quoted(file, shell, what, strlen(what));
    (void)fputc('\'', file);
}

static void begin_function(FILE *file, const tide_cli_shell *shell, const char *name)
{
    (void)fprintf(file, "%s_tidemark_%s%s", shell->function_word, name, shell->function_begin);
}

/* '*' in front: whatever stands before it. */
static void begin_case(FILE *file, const tide_cli_shell *shell, const char *place,
                       const tide_cli_option *option)
{
    (void)fputs(shell->case_begin, file);
    if (!option) {
        (void)fprintf(file, "'%s'", place);
    } else {
        const bool is_star = place[0] == '*';
        (void)fprintf(file, "%s%s --%s'", is_star ? shell->star : "'", is_star ? "" : place,
                      option->name);
        if (is_star && option->letter)
            (void)fprintf(file, "%s%s -%c'", shell->case_or, shell->star, option->letter);
    }
    (void)fputs(shell->case_end, file);
}

static void end_case(FILE *file, const tide_cli_shell *shell)
{
    (void)fputs(shell->list_end, file);
}

/* ---- next ---- */

/* The place that a word of a verb's name belongs to: "colony" for "poll", "colony agent" for the add of "agent add". */
static void name_place(char out[PLACE_SIZE], const tide_cli_command *command,
                       const tide_cli_verb *verb)
{
    (void)snprintf(out, PLACE_SIZE, "%s%s%s", command->name, *verb->name ? " " : "", verb->name);
}

static bool begins_with(const tide_cli_verb *verb, const char *word, size_t len)
{
    return strncmp(verb->name, word, len) == 0 && (verb->name[len] == ' ' || !verb->name[len]);
}

/* Words of verbs come once, however many verbs begin with them. */
static bool is_first_of(const tide_cli_command *command, const tide_cli_verb *verb, size_t len)
{
    for (const tide_cli_verb *other = command->verbs; other < verb; other++)
        if (begins_with(other, verb->name, len))
            return false;
    return true;
}

static void print_second_words(FILE *file, const tide_cli_shell *shell,
                               const tide_cli_command *command, const tide_cli_verb *first,
                               size_t len)
{
    char place[PLACE_SIZE];
    (void)snprintf(place, sizeof place, "%s %.*s", command->name, (int)len, first->name);
    begin_case(file, shell, place, NULL);
    for (const tide_cli_verb *verb = first; verb->name; verb++)
        if (strncmp(verb->name, first->name, len) == 0 && verb->name[len] == ' ')
            put_word(file, shell, verb->name + len + 1, strlen(verb->name + len + 1),
                     verb->summary);
    end_case(file, shell);
}

static void print_verbs(FILE *file, const tide_cli_shell *shell, const tide_cli_command *command)
{
    const bool has_verbs = command->verbs[0].name[0] || command->verbs[1].name;
    if (!has_verbs)
        return;
    begin_case(file, shell, command->name, NULL);
    for (const tide_cli_verb *verb = command->verbs; verb->name; verb++) {
        const size_t len = strcspn(verb->name, " ");
        if (len > 0 && is_first_of(command, verb, len))
            put_word(file, shell, verb->name, len, verb->name[len] ? "" : verb->summary);
    }
    end_case(file, shell);
    for (const tide_cli_verb *verb = command->verbs; verb->name; verb++) {
        const size_t len = strcspn(verb->name, " ");
        if (verb->name[len] && is_first_of(command, verb, len))
            print_second_words(file, shell, command, verb, len);
    }
}

static void print_next(FILE *file, const tide_cli_shell *shell)
{
    begin_function(file, shell, "next");
    begin_case(file, shell, "", NULL);
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++)
        put_word(file, shell, (*command)->name, strlen((*command)->name), (*command)->summary);
    end_case(file, shell);
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++)
        print_verbs(file, shell, *command);
    (void)fputs(shell->function_end, file);
}

/* ---- options ---- */

static void put_option(FILE *file, const tide_cli_shell *shell, const tide_cli_option *option)
{
    char name[64];
    (void)snprintf(name, sizeof name, "--%s", option->name);
    put_word(file, shell, name, strlen(name), option->help);
}

static void print_verb_options(FILE *file, const tide_cli_shell *shell,
                               const tide_cli_command *command, const tide_cli_verb *verb)
{
    char place[PLACE_SIZE];
    const tide_cli_takes takes = tide_cli_takes_of(verb);
    name_place(place, command, verb);
    begin_case(file, shell, place, NULL);
    for (int i = 0; i < TIDE_CLI_OPTION_COUNT; i++) {
        const tide_cli_option_id id = (tide_cli_option_id)i;
        if (!tide_cli_is_common(id) && !tide_cli_list_has(takes.takes, id))
            continue;
        const tide_cli_option option = tide_cli_option_for(&takes, id);
        put_option(file, shell, &option);
    }
    end_case(file, shell);
}

static void print_options(FILE *file, const tide_cli_shell *shell)
{
    begin_function(file, shell, "options");
    begin_case(file, shell, "", NULL);
    put_option(file, shell, &tide_cli_options[TIDE_CLI_HELP]);
    put_option(file, shell, &tide_cli_options[TIDE_CLI_VERSION]);
    end_case(file, shell);
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++)
        for (const tide_cli_verb *verb = (*command)->verbs; verb->name; verb++)
            print_verb_options(file, shell, *command, verb);
    (void)fputs(shell->function_end, file);
}

/* ---- values ---- */

static void put_choices(FILE *file, const tide_cli_shell *shell, const char *choices)
{
    while (*choices) {
        const size_t len = strcspn(choices, "|");
        put_word(file, shell, choices, len, "");
        choices += len + (choices[len] == '|');
    }
}

static void put_values(FILE *file, const tide_cli_shell *shell, tide_cli_option_id id,
                       const tide_cli_option *option)
{
    static const struct {
        const char *value, *word;
    } kinds[] = {{"FILE", "@file"}, {"DIR", "@dir"}, {"URL", "@file"}};
    const char *word = id == TIDE_CLI_CONTEXT ? "@context" : "@none";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(option->value, kinds[i].value) == 0)
            word = kinds[i].word;
    if (option->type == TIDE_CLI_CHOICE)
        put_choices(file, shell, option->value);
    else
        put_word(file, shell, word, strlen(word), "");
}

/* Where a verb sees other values than the table says. */
static void print_own_values(FILE *file, const tide_cli_shell *shell,
                             const tide_cli_command *command, const tide_cli_verb *verb)
{
    char place[PLACE_SIZE];
    const tide_cli_takes takes = tide_cli_takes_of(verb);
    name_place(place, command, verb);
    for (const tide_cli_override *own = verb->overrides; own && own->id != TIDE_CLI_OPTION_COUNT;
         own++) {
        if (!own->value || strcmp(own->value, tide_cli_options[own->id].value) == 0)
            continue;
        const tide_cli_option option = tide_cli_option_for(&takes, own->id);
        begin_case(file, shell, place, &option);
        put_values(file, shell, own->id, &option);
        end_case(file, shell);
    }
}

static void print_values(FILE *file, const tide_cli_shell *shell)
{
    begin_function(file, shell, "values");
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++)
        for (const tide_cli_verb *verb = (*command)->verbs; verb->name; verb++)
            print_own_values(file, shell, *command, verb);
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++) {
        const tide_cli_option *option = &tide_cli_options[id];
        if (option->type == TIDE_CLI_FLAG)
            continue;
        begin_case(file, shell, "*", option);
        put_values(file, shell, (tide_cli_option_id)id, option);
        end_case(file, shell);
    }
    (void)fputs(shell->function_end, file);
}

/* ---- arguments ---- */

static void put_codes(FILE *file, const tide_cli_shell *shell)
{
    size_t count = 0;
    const tide_cli_code *codes = tide_cli_codes(&count);
    for (size_t i = 0; i < count; i++)
        put_word(file, shell, codes[i].code, strlen(codes[i].code), codes[i].meaning);
}

/* What the first argument is that can be completed; NULL: none. */
static const char *find_argument(const tide_cli_verb *verb)
{
    static const struct {
        const char *name, *word;
    } kinds[] = {{"FILE", "@file"},       {"DB", "@file"},        {"OUT", "@file"},
                 {"PATH", "@file"},       {"DIR", "@dir"},        {"CODE...", "@code"},
                 {"COMMAND", "@command"}, {"CONTEXT", "@context"}};
    for (const char *at = tide_cli_arguments_text(verb); *at;) {
        at += strspn(at, " [");
        const size_t len = strcspn(at, " ]|");
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            if (strlen(kinds[i].name) == len && strncmp(at, kinds[i].name, len) == 0)
                return kinds[i].word;
        at += len;
        at += strspn(at, " ]|");
    }
    return NULL;
}

static void print_arguments(FILE *file, const tide_cli_shell *shell)
{
    begin_function(file, shell, "arguments");
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++)
        for (const tide_cli_verb *verb = (*command)->verbs; verb->name; verb++) {
            const char *word = find_argument(verb);
            char place[PLACE_SIZE];
            if (!word)
                continue;
            name_place(place, *command, verb);
            begin_case(file, shell, place, NULL);
            if (strcmp(word, "@code") == 0)
                put_codes(file, shell);
            else
                put_word(file, shell, word, strlen(word), "");
            end_case(file, shell);
        }
    (void)fputs(shell->function_end, file);
}

void tide_cli_completion_print(FILE *file, const tide_cli_shell *shell)
{
    (void)fputs(shell->head, file);
    print_next(file, shell);
    print_options(file, shell);
    print_values(file, shell);
    print_arguments(file, shell);
    (void)fputs(shell->tail, file);
}
