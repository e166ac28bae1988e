#include "cli/help/help.h"

#include <string.h>

#include "cli/frame/value.h"
#include "net/http/limits.h"
#include "runtime/listener.h"
#include "services/lake/metrics.h"
#include "services/replica/metrics.h"
#include "services/work/work_metrics.h"

enum {
    LINE_WIDTH = 100,
    LEFT_MAX = 30, /* what is wider does not push the texts to the right */
    TEXT_SIZE = 512,
};

static bool stands_alone(const tide_cli_command *command)
{
    return command->verbs[0].name[0] == '\0' && !command->verbs[1].name;
}

void tide_cli_help_usage(char *out, size_t size, const tide_cli_command *command,
                         const tide_cli_verb *verb)
{
    /* What is needed stands before the command to run: behind -- it would be the command's. */
    const char *arguments = tide_cli_arguments_text(verb);
    const char *behind = strstr(arguments, "-- ");
    if (behind && behind > arguments && behind[-1] == '[')
        behind--;
    const char *arguments_end = behind ? behind : arguments + strlen(arguments);
    while (arguments_end > arguments && arguments_end[-1] == ' ')
        arguments_end--;
    const int arguments_len = (int)(arguments_end - arguments);
    int len = snprintf(out, size, "tidemark %s%s%s%s%.*s", command->name, *verb->name ? " " : "",
                       verb->name, arguments_len > 0 ? " " : "", arguments_len, arguments);
    const tide_cli_takes takes = tide_cli_takes_of(verb);
    for (const tide_cli_option_id *id = verb->needs; id && *id != TIDE_CLI_OPTION_COUNT; id++) {
        const tide_cli_option option = tide_cli_option_for(&takes, *id);
        if (len > 0 && (size_t)len < size)
            len += snprintf(out + len, size - (size_t)len, " --%s %s", option.name, option.value);
    }
    if (behind && len > 0 && (size_t)len < size)
        (void)snprintf(out + len, size - (size_t)len, " %s", behind);
}

/* ---- two columns: a name, and what it is ---- */

static int widen(int width, const char *left)
{
    const int len = (int)strlen(left);
    return len > width && len <= LEFT_MAX ? len : width;
}

/* Where the right column stands, and how far its line has come. */
typedef struct right_column {
    FILE *file;
    int indent;
    int at;
} right_column;

static void break_line(right_column *column)
{
    (void)fprintf(column->file, "\n%*s", column->indent, "");
    column->at = column->indent;
}

/* A piece that is not broken: into this line, or at the start of the next. */
static void put_piece(right_column *column, const char *piece, size_t len)
{
    if (column->at > column->indent && column->at + 1 + (int)len > LINE_WIDTH)
        break_line(column);
    column->at +=
        fprintf(column->file, "%s%.*s", column->at == column->indent ? "" : " ", (int)len, piece);
}

/* A name, and what it is, word by word; a note stays in one piece. "": none. */
static void print_entry(FILE *file, int width, const char *left, const char *text, const char *note)
{
    right_column column = {.file = file, .indent = width + 4};
    column.at = fprintf(file, "  %-*s  ", width, left);
    if (column.at > column.indent)
        break_line(&column);
    while (*text) {
        const size_t len = strcspn(text, " ");
        put_piece(&column, text, len);
        text += len;
        text += strspn(text, " ");
    }
    if (*note)
        put_piece(&column, note, strlen(note));
    (void)fputc('\n', file);
}

/* ---- options ---- */

static void name_option(char *out, size_t size, const tide_cli_option *option)
{
    char letter[] = "    ";
    if (option->letter)
        (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
    (void)snprintf(out, size, "%s--%s%s%s", letter, option->name, option->value ? " " : "",
                   option->value ? option->value : "");
}

static void print_option(FILE *file, int width, const tide_cli_option *option)
{
    char left[64];
    char range[64];
    char text[TEXT_SIZE];
    char note[TEXT_SIZE] = "";
    name_option(left, sizeof left, option);
    tide_cli_value_range(range, sizeof range, option);
    (void)snprintf(text, sizeof text, "%s%s", option->help, range);
    if (option->environment && option->fallback)
        (void)snprintf(note, sizeof note, "($%s, else %s)", option->environment, option->fallback);
    else if (option->environment)
        (void)snprintf(note, sizeof note, "($%s)", option->environment);
    else if (option->fallback)
        (void)snprintf(note, sizeof note, "(%s)", option->fallback);
    print_entry(file, width, left, text, note);
}

/* Rows, as one verb or several see them. */
typedef struct shown_options {
    bool is_shown[TIDE_CLI_OPTION_COUNT];
    tide_cli_option rows[TIDE_CLI_OPTION_COUNT];
} shown_options;

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Where the verbs of a noun differ about an option, their common page says what holds for all of them. */
static void merge_row(tide_cli_option *row, const tide_cli_option *other,
                      const tide_cli_option *table)
{
    if (!is_same_text(row->fallback, other->fallback))
        row->fallback = NULL;
    if (!is_same_text(row->help, other->help))
        row->help = table->help;
    if (row->max != other->max)
        row->max = table->max;
}

static void add_options(shown_options *shown, const tide_cli_takes *takes)
{
    for (int i = 0; i < TIDE_CLI_OPTION_COUNT; i++) {
        const tide_cli_option_id id = (tide_cli_option_id)i;
        if (!tide_cli_is_common(id) && !tide_cli_list_has(takes->takes, id))
            continue;
        const tide_cli_option option = tide_cli_option_for(takes, id);
        if (shown->is_shown[id])
            merge_row(&shown->rows[id], &option, &tide_cli_options[id]);
        else
            shown->rows[id] = option;
        shown->is_shown[id] = true;
    }
}

static void print_options(FILE *file, const shown_options *shown)
{
    int width = 0;
    char left[64];
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++) {
        if (!shown->is_shown[id])
            continue;
        name_option(left, sizeof left, &shown->rows[id]);
        width = widen(width, left);
    }
    (void)fputs("\nOptions:\n", file);
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++)
        if (shown->is_shown[id])
            print_option(file, width, &shown->rows[id]);
}

/* ---- pages ---- */

void tide_cli_help_verb(FILE *file, const tide_cli_command *command, const tide_cli_verb *verb)
{
    char usage[TEXT_SIZE];
    shown_options shown = {0};
    const tide_cli_takes takes = tide_cli_takes_of(verb);
    tide_cli_help_usage(usage, sizeof usage, command, verb);
    /* Options stand before the command to run. */
    const char *behind = tide_cli_arguments_of(verb).takes_command ? strstr(usage, " -- ") : NULL;
    if (!behind)
        behind = strstr(usage, " [-- ");
    const int usage_len = behind ? (int)(behind - usage) : (int)strlen(usage);
    (void)fprintf(file, "Usage: %.*s [options]%s\n\n%s\n", usage_len, usage, behind ? behind : "",
                  verb->summary);
    if (verb->details)
        (void)fprintf(file, "\n%s\n", verb->details);
    add_options(&shown, &takes);
    print_options(file, &shown);
}

static void name_verb(char *out, size_t size, const tide_cli_verb *verb)
{
    (void)snprintf(out, size, "%s%s%s", *verb->name ? verb->name : "(none)",
                   verb->arguments ? " " : "", tide_cli_arguments_text(verb));
}

void tide_cli_help_command(FILE *file, const tide_cli_command *command)
{
    if (stands_alone(command)) {
        tide_cli_help_verb(file, command, &command->verbs[0]);
        return;
    }
    shown_options shown = {0};
    char left[64];
    int width = 0;
    for (const tide_cli_verb *verb = command->verbs; verb->name; verb++) {
        const tide_cli_takes takes = tide_cli_takes_of(verb);
        add_options(&shown, &takes);
        name_verb(left, sizeof left, verb);
        width = widen(width, left);
    }
    (void)fprintf(file, "Usage: tidemark %s %s [options]\n\n%s\n\nVerbs:\n", command->name,
                  *command->verbs[0].name ? "VERB" : "[VERB]", command->summary);
    for (const tide_cli_verb *verb = command->verbs; verb->name; verb++) {
        name_verb(left, sizeof left, verb);
        print_entry(file, width, left, verb->summary, "");
    }
    print_options(file, &shown);
    (void)fprintf(file, "\n'tidemark help %s VERB' tells more about one of them.\n", command->name);
}

/* Every command with every verb; called twice, to measure (file NULL) and to print. */
static int list_commands(FILE *file, int width)
{
    char left[64];
    int widest = 0;
    for (const tide_cli_command *const *command = tide_cli_commands; *command; command++) {
        for (const tide_cli_verb *verb = (*command)->verbs; verb->name; verb++) {
            (void)snprintf(left, sizeof left, "%s%s%s", (*command)->name, *verb->name ? " " : "",
                           verb->name);
            widest = widen(widest, left);
            if (file)
                print_entry(file, width, left, verb->summary, "");
        }
    }
    return widest;
}

void tide_cli_help_overview(FILE *file)
{
    static const tide_cli_option_id also[] = {TIDE_CLI_VERSION, TIDE_CLI_OPTION_COUNT};
    const tide_cli_takes takes = {.takes = also};
    shown_options shown = {0};
    (void)fputs("tidemark - durable sequences and checkpoints\n\n"
                "Usage: tidemark COMMAND [VERB] [ARGUMENT...] [options]\n\nCommands:\n",
                file);
    (void)list_commands(file, list_commands(NULL, 0));
    add_options(&shown, &takes);
    print_options(file, &shown);
    (void)fputs("\nExit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 not permitted, "
                "6 unavailable\n(try again), 7 partly done, 8 damage found, 130 interrupted.\n"
                "\n'tidemark help COMMAND [VERB]' tells more.\n",
                file);
}

/* ---- JSON ---- */

static const char *const type_names[] = {
    [TIDE_CLI_FLAG] = "flag",     [TIDE_CLI_TEXT] = "text",         [TIDE_CLI_TEXTS] = "texts",
    [TIDE_CLI_NUMBER] = "number", [TIDE_CLI_DURATION] = "duration", [TIDE_CLI_SIZE] = "size",
    [TIDE_CLI_CHOICE] = "choice", [TIDE_CLI_FUTURE] = "time",       [TIDE_CLI_PAST] = "time",
};

static void put_option(tide_cli_output *out, const tide_cli_takes *takes, tide_cli_option_id id)
{
    char letter[2] = "";
    char range[64];
    const tide_cli_option option = tide_cli_option_for(takes, id);
    letter[0] = option.letter;
    tide_cli_value_range(range, sizeof range, &option);
    tide_cli_json_object_begin(out, NULL);
    tide_cli_json_text(out, "name", option.name);
    tide_cli_json_text(out, "letter", option.letter ? letter : NULL);
    tide_cli_json_text(out, "value", option.value);
    tide_cli_json_text(out, "type", type_names[option.type]);
    tide_cli_json_text(out, "default", option.fallback);
    tide_cli_json_text(out, "environment", option.environment);
    tide_cli_json_text(out, "help", option.help);
    tide_cli_json_text(out, "range", range[0] ? range + 2 : NULL); /* without ", " or "; " */
    tide_cli_json_bool(out, "common", tide_cli_is_common(id));
    tide_cli_json_bool(out, "needed", tide_cli_list_has(takes->needs, id));
    tide_cli_json_object_end(out);
}

static tide_status put_verb(tide_cli_output *out, const tide_cli_command *command,
                            const tide_cli_verb *verb, tide_error *err)
{
    const tide_cli_takes takes = tide_cli_takes_of(verb);
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "table", "verb");
    tide_cli_json_text(out, "command", command->name);
    tide_cli_json_text(out, "command_summary", command->summary);
    tide_cli_json_text(out, "verb", verb->name);
    tide_cli_json_text(out, "arguments", tide_cli_arguments_text(verb));
    tide_cli_json_text(out, "summary", verb->summary);
    tide_cli_json_text(out, "details", verb->details);
    tide_cli_json_array_begin(out, "options");
    for (int i = 0; i < TIDE_CLI_OPTION_COUNT; i++) {
        const tide_cli_option_id id = (tide_cli_option_id)i;
        if (tide_cli_is_common(id) || tide_cli_list_has(takes.takes, id))
            put_option(out, &takes, id);
    }
    tide_cli_json_array_end(out);
    return tide_cli_json_end(out, err);
}

static tide_status put_limits(tide_cli_output *out, tide_error *err)
{
    static const char *const units[] = {[TIDE_NET_BYTES] = "bytes",
                                        [TIDE_NET_COUNT] = "",
                                        [TIDE_NET_PER_SECOND] = "per second",
                                        [TIDE_NET_MICROSECONDS] = "microseconds"};
    size_t count = 0;
    const tide_net_limit_row *rows = tide_net_limit_rows(&count);
    for (size_t i = 0; i < count; i++) {
        tide_cli_json_begin(out);
        tide_cli_json_text(out, "table", "limit");
        tide_cli_json_text(out, "name", rows[i].name);
        tide_cli_json_i64(out, "default", rows[i].standard);
        tide_cli_json_i64(out, "minimum", rows[i].minimum);
        tide_cli_json_i64(out, "maximum", rows[i].maximum);
        tide_cli_json_text(out, "unit", units[rows[i].unit]);
        tide_cli_json_text(out, "help", rows[i].help);
        TIDE_TRY(tide_cli_json_end(out, err));
    }
    return TIDE_OK;
}

static tide_status put_metrics(tide_cli_output *out, const tide_metric_row *rows, size_t count,
                               const char *where, tide_error *err)
{
    static const char *const types[] = {[TIDE_METRIC_COUNTER] = "counter",
                                        [TIDE_METRIC_GAUGE] = "gauge",
                                        [TIDE_METRIC_HISTOGRAM] = "histogram"};
    for (size_t i = 0; i < count; i++) {
        tide_cli_json_begin(out);
        tide_cli_json_text(out, "table", "metric");
        tide_cli_json_text(out, "name", rows[i].name);
        tide_cli_json_text(out, "type", types[rows[i].type]);
        tide_cli_json_text(out, "unit", rows[i].unit);
        tide_cli_json_text(out, "labels", rows[i].labels);
        tide_cli_json_text(out, "help", rows[i].help);
        tide_cli_json_text(out, "where", where);
        TIDE_TRY(tide_cli_json_end(out, err));
    }
    return TIDE_OK;
}

static tide_status put_all_metrics(tide_cli_output *out, tide_error *err)
{
    size_t count = 0;
    TIDE_TRY(put_metrics(out, tide_metric_rows, TIDE_METRIC_COUNT, "daemons", err));
    const tide_metric_row *rows = tide_listener_metric_rows(&count);
    TIDE_TRY(put_metrics(out, rows, count, "network", err));
    rows = tide_work_metric_rows(&count);
    TIDE_TRY(put_metrics(out, rows, count, "work", err));
    rows = tide_lake_metric_rows(&count);
    TIDE_TRY(put_metrics(out, rows, count, "lake", err));
    rows = tide_replica_metric_rows(&count);
    return put_metrics(out, rows, count, "replica", err);
}

tide_status tide_cli_help_json(tide_cli *cli, const tide_cli_command *command, tide_error *err)
{
    for (const tide_cli_command *const *one = tide_cli_commands; *one; one++)
        for (const tide_cli_verb *verb = (*one)->verbs; verb->name && (!command || command == *one);
             verb++)
            TIDE_TRY(put_verb(&cli->out, *one, verb, err));
    if (command)
        return TIDE_OK;
    TIDE_TRY(put_limits(&cli->out, err));
    return put_all_metrics(&cli->out, err);
}
