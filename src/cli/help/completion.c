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

/* Bash, zsh and fish: how the data are written, and what walks over the words. See completion.h. */

static const char bash_tail[] =
    "_tidemark_lines() { # the words of lines, where a shell can find them: @file, ...\n"
    "    local line word\n"
    "    while IFS= read -r line; do\n"
    "        word=${line%%$'\\t'*}\n"
    "        case $word in\n"
    "        '') ;;\n"
    "        @file) compgen -f -- \"$cur\" ;;\n"
    "        @dir) compgen -d -- \"$cur\" ;;\n"
    "        @context) \"${COMP_WORDS[0]}\" context ls 2>/dev/null | awk 'NR > 1 { print $1 }' ;;\n"
    "        @command) _tidemark_lines < <(_tidemark_next \"$topic\") ;;\n"
    "        @none) ;;\n"
    "        *) printf '%s\\n' \"$word\" ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    "_tidemark() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} place='' topic='' expects='' word i seen=0 lines\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ $word == '=' ]]; then\n"
    "            continue\n"
    "        elif [[ -n $expects ]]; then\n"
    "            expects=''\n"
    "        elif [[ $word == -- ]]; then\n"
    "            compopt -o default 2>/dev/null\n"
    "            return\n"
    "        elif [[ $word == -* ]]; then\n"
    "            [[ -z $(_tidemark_values \"$place $word\") ]] || expects=$word\n"
    "        elif [[ $seen == 0 && $'\\n'$(_tidemark_next \"$place\") == *$'\\n'\"$word\"$'\\t'* "
    "]]; then\n"
    "            place=\"${place:+$place }$word\"\n"
    "        else\n"
    "            seen=1\n"
    "            topic=\"${topic:+$topic }$word\"\n"
    "        fi\n"
    "    done\n"
    "    [[ $cur != '=' ]] || cur=''\n"
    "    if [[ -n $expects ]]; then\n"
    "        lines=$(_tidemark_values \"$place $expects\")\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        lines=$(_tidemark_options \"$place\")\n"
    "    else\n"
    "        lines=$(_tidemark_arguments \"$place\")\n"
    "        [[ $seen == 1 ]] || lines+=$'\\n'$(_tidemark_next \"$place\")\n"
    "    fi\n"
    "    case $lines in @file* | @dir*) compopt -o filenames 2>/dev/null ;; esac\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r word; do\n"
    "        [[ $word != \"$cur\"* ]] || COMPREPLY+=(\"$word\")\n"
    "    done < <(_tidemark_lines <<<\"$lines\")\n"
    "}\n"
    "complete -F _tidemark tidemark\n";

static const char zsh_tail[] =
    "_tidemark_lines() { # offers lines: $1 what they are, then the lines\n"
    "    local what=$1 line word\n"
    "    local -a offers\n"
    "    shift\n"
    "    for line in \"$@\"; do\n"
    "        word=${line%%$'\\t'*}\n"
    "        case $word in\n"
    "        ('') ;;\n"
    "        (@file) _files ;;\n"
    "        (@dir) _files -/ ;;\n"
    "        (@context) offers+=(${(f)\"$($words[1] context ls 2>/dev/null | awk 'NR > 1 { print "
    "$1 }')\"}) ;;\n"
    "        (@command) _tidemark_lines command \"${(@f)$(_tidemark_next \"$topic\")}\" ;;\n"
    "        (@none) _message value ;;\n"
    "        (*) offers+=(\"${word//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "        esac\n"
    "    done\n"
    "    if (( $#offers )); then\n"
    "        if [[ $what == option ]]; then _describe -o $what offers; else _describe $what "
    "offers; fi\n"
    "    fi\n"
    "}\n"
    "_tidemark() {\n"
    "    local place='' topic='' expects='' word cur=$words[CURRENT]\n"
    "    local -i i seen=0\n"
    "    for ((i = 2; i < CURRENT; i++)); do\n"
    "        word=$words[i]\n"
    "        if [[ -n $expects ]]; then\n"
    "            expects=''\n"
    "        elif [[ $word == -- ]]; then\n"
    "            _default\n"
    "            return\n"
    "        elif [[ $word == --*=* ]]; then\n"
    "            continue\n"
    "        elif [[ $word == -* ]]; then\n"
    "            [[ -z $(_tidemark_values \"$place $word\") ]] || expects=$word\n"
    "        elif [[ $seen == 0 && $'\\n'$(_tidemark_next \"$place\") == *$'\\n'\"$word\"$'\\t'* "
    "]]; then\n"
    "            place=\"${place:+$place }$word\"\n"
    "        else\n"
    "            seen=1\n"
    "            topic=\"${topic:+$topic }$word\"\n"
    "        fi\n"
    "    done\n"
    "    if [[ -z $expects && $cur == --*=* ]]; then\n"
    "        expects=${cur%%=*}\n"
    "        compset -P '*='\n"
    "    fi\n"
    "    if [[ -n $expects ]]; then\n"
    "        _tidemark_lines value \"${(@f)$(_tidemark_values \"$place $expects\")}\"\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        _tidemark_lines option \"${(@f)$(_tidemark_options \"$place\")}\"\n"
    "    else\n"
    "        _tidemark_lines argument \"${(@f)$(_tidemark_arguments \"$place\")}\"\n"
    "        (( seen )) || _tidemark_lines command \"${(@f)$(_tidemark_next \"$place\")}\"\n"
    "    fi\n"
    "}\n"
    "if [[ $funcstack[1] == _tidemark ]]; then _tidemark \"$@\"; else compdef _tidemark tidemark; "
    "fi\n";

static const char fish_tail[] =
    "function _tidemark_lines # offers lines: $argv[1] in front of each, then the lines\n"
    "    for line in $argv[2..]\n"
    "        set -l word (string split -m1 \\t -- $line)[1]\n"
    "        switch \"$word\"\n"
    "            case ''\n"
    "            case @file\n"
    "                __fish_complete_path (string replace -- \"$argv[1]\" '' (commandline -ct))\n"
    "            case @dir\n"
    "                __fish_complete_directories (string replace -- \"$argv[1]\" '' (commandline "
    "-ct))\n"
    "            case @context\n"
    "                tidemark context ls 2>/dev/null | awk 'NR > 1 { print $1 }'\n"
    "            case @command\n"
    "                _tidemark_lines '' (_tidemark_next \"$topic\")\n"
    "            case @none\n"
    "            case '*'\n"
    "                printf '%s%s\\n' $argv[1] $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "function _tidemark_complete\n"
    "    set -l place ''\n"
    "    set -g topic ''\n"
    "    set -l expects ''\n"
    "    set -l seen 0\n"
    "    set -l cur (commandline -ct)\n"
    "    for word in (commandline -opc)[2..]\n"
    "        if test -n \"$expects\"\n"
    "            set expects ''\n"
    "        else if test \"$word\" = --\n"
    "            __fish_complete_path $cur\n"
    "            return\n"
    "        else if string match -q -- '--*=*' $word\n"
    "            continue\n"
    "        else if string match -q -- '-*' $word\n"
    "            test -z \"$(_tidemark_values \"$place $word\")\"; or set expects $word\n"
    "        else if test $seen = 0; and contains -- $word (_tidemark_next \"$place\" | string "
    "split -f1 \\t)\n"
    "            set place (string trim \"$place $word\")\n"
    "        else\n"
    "            set seen 1\n"
    "            set topic (string trim \"$topic $word\")\n"
    "        end\n"
    "    end\n"
    "    if test -n \"$expects\"\n"
    "        _tidemark_lines '' (_tidemark_values \"$place $expects\")\n"
    "    else if string match -q -- '--*=*' $cur\n"
    "        set -l option (string split -m1 = -- $cur)[1]\n"
    "        _tidemark_lines \"$option=\" (_tidemark_values \"$place $option\")\n"
    "    else if string match -q -- '-*' $cur\n"
    "        _tidemark_lines '' (_tidemark_options \"$place\")\n"
    "    else\n"
    "        _tidemark_lines '' (_tidemark_arguments \"$place\")\n"
    "        test $seen = 1; or _tidemark_lines '' (_tidemark_next \"$place\")\n"
    "    end\n"
    "end\n"
    "complete -c tidemark -f -a '(_tidemark_complete)'\n";

#define SH_DATA                                                                                    \
    .function_word = "", .function_begin = "() {\n    case $1 in\n",                               \
    .function_end = "    esac\n}\n", .case_begin = "    ", .case_or = "|",                         \
    .case_end = ") printf '%s\\n'", .list_end = " ;;\n", .quote = "'\\''", .star = "*'"

const tide_cli_shell tide_cli_shells[] = {
    {.name = "bash",
     .head = "# bash completion of tidemark, made by 'tidemark completion bash'\n",
     SH_DATA,
     .tail = bash_tail},
    {.name = "zsh",
     .head = "#compdef tidemark\n# zsh completion of tidemark, made by 'tidemark completion zsh'\n",
     SH_DATA,
     .tail = zsh_tail},
    {.name = "fish",
     .head = "# fish completion of tidemark, made by 'tidemark completion fish'\n",
     .function_word = "function ",
     .function_begin = "\n    switch \"$argv[1]\"\n",
     .function_end = "    end\nend\n",
     .case_begin = "        case ",
     .case_or = " ",
     .case_end = "\n            printf '%s\\n'",
     .list_end = "\n",
     .quote = "\\'",
     .star = "'*",
     .is_escaping = true,
     .tail = fish_tail},
    {.name = NULL},
};
