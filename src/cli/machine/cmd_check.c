/* cmd_check.c - tidemark check lag|gaps|books|disk|cert|ready: for monitoring systems. See check.h. */
#include <stdarg.h>
#include <stdio.h>

#include "cli/colony/colony_store.h"
#include "cli/machine/check.h"

static const char *const state_names[] = {[TIDE_CHECK_OK] = "OK",
                                          [TIDE_CHECK_WARNING] = "WARNING",
                                          [TIDE_CHECK_CRITICAL] = "CRITICAL",
                                          [TIDE_CHECK_UNKNOWN] = "UNKNOWN"};

/* ---- what a check says ---- */

void tide_check_raise(tide_check *check, tide_check_state state)
{
    if (state > check->state)
        check->state = state;
}

void tide_check_say(tide_check *check, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(check->text, sizeof check->text, format, args);
    va_end(args);
}

static tide_check_figure *add_figure(tide_check *check, const char *label, const char *unit,
                                     double value)
{
    tide_check_figure *figure = &check->figures[check->figure_count++];
    *figure = (tide_check_figure){.label = label, .unit = unit, .value = value};
    return figure;
}

void tide_check_figure_only(tide_check *check, const char *label, const char *unit, double value)
{
    (void)add_figure(check, label, unit, value);
}

void tide_check_rising(tide_check *check, const char *label, const char *unit, double value,
                       double warning, double critical)
{
    tide_check_figure *figure = add_figure(check, label, unit, value);
    if (warning >= 0)
        (void)snprintf(figure->warning, sizeof figure->warning, "%.15g", warning);
    if (critical >= 0)
        (void)snprintf(figure->critical, sizeof figure->critical, "%.15g", critical);
    if (critical >= 0 && value >= critical)
        tide_check_raise(check, TIDE_CHECK_CRITICAL);
    else if (warning >= 0 && value >= warning)
        tide_check_raise(check, TIDE_CHECK_WARNING);
}

void tide_check_falling(tide_check *check, const char *label, const char *unit, double value,
                        double warning, double critical)
{
    tide_check_figure *figure = add_figure(check, label, unit, value);
    (void)snprintf(figure->warning, sizeof figure->warning, "%.15g:", warning);
    (void)snprintf(figure->critical, sizeof figure->critical, "%.15g:", critical);
    if (value < critical)
        tide_check_raise(check, TIDE_CHECK_CRITICAL);
    else if (value < warning)
        tide_check_raise(check, TIDE_CHECK_WARNING);
}

/* ---- thresholds ---- */

static tide_status fail_order(bool is_falling, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID, "--critical must not be %s than --warning",
                     is_falling ? "greater" : "less");
}

tide_status tide_check_durations(const tide_cli *cli, bool is_falling, int64_t *warning_us,
                                 int64_t *critical_us, tide_error *err)
{
    TIDE_TRY(tide_cli_parse_duration(warning_us, tide_cli_text(cli, TIDE_CLI_WARNING), "--warning",
                                     0, TIDE_CLI_DURATION_MAX, err));
    TIDE_TRY(tide_cli_parse_duration(critical_us, tide_cli_text(cli, TIDE_CLI_CRITICAL),
                                     "--critical", 0, TIDE_CLI_DURATION_MAX, err));
    const bool is_fine = is_falling ? *critical_us <= *warning_us : *warning_us <= *critical_us;
    return is_fine ? TIDE_OK : fail_order(is_falling, err);
}

tide_status tide_check_numbers(const tide_cli *cli, int64_t *warning, int64_t *critical,
                               tide_error *err)
{
    TIDE_TRY(tide_cli_parse_number(warning, tide_cli_text(cli, TIDE_CLI_WARNING), "--warning", 0,
                                   INT64_MAX, err));
    return tide_cli_parse_number(critical, tide_cli_text(cli, TIDE_CLI_CRITICAL), "--critical", 0,
                                 INT64_MAX, err);
}

/* ---- the line ---- */

static tide_status print_json(const tide_check *check, const char *name, tide_error *err)
{
    tide_cli_output *out = &check->cli->out;
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "check", name);
    tide_cli_json_text(out, "state", state_names[check->state]);
    tide_cli_json_i64(out, "exit_code", (int64_t)check->state);
    tide_cli_json_text(out, "text", check->text);
    tide_cli_json_array_begin(out, "figures");
    for (int i = 0; i < check->figure_count; i++) {
        const tide_check_figure *figure = &check->figures[i];
        tide_cli_json_object_begin(out, NULL);
        tide_cli_json_text(out, "label", figure->label);
        tide_cli_json_double(out, "value", figure->value);
        tide_cli_json_text(out, "unit", figure->unit);
        tide_cli_json_text(out, "warning", figure->warning[0] ? figure->warning : NULL);
        tide_cli_json_text(out, "critical", figure->critical[0] ? figure->critical : NULL);
        tide_cli_json_object_end(out);
    }
    tide_cli_json_array_end(out);
    return tide_cli_json_end(out, err);
}

/* One line; what stands behind the first | is figures, so the words have none. */
static void print_line(tide_check *check, const char *name)
{
    FILE *file = check->cli->out.file;
    for (char *at = check->text; *at; at++)
        if (*at == '|' || *at == '\n')
            *at = ' ';
    tide_cli_print(file, "TIDEMARK %s %s - %s", name, state_names[check->state], check->text);
    for (int i = 0; i < check->figure_count; i++) {
        const tide_check_figure *figure = &check->figures[i];
        (void)fprintf(file, "%s%s=%.15g%s;%s;%s;0", i == 0 ? " | " : " ", figure->label,
                      figure->value, figure->unit, figure->warning, figure->critical);
    }
    (void)fputc('\n', file);
}

static tide_status run_check(tide_cli *cli, const char *name, const char *title, tide_check_fn *fn,
                             tide_error *err)
{
    tide_check check = {.cli = cli, .env = tide_env_system()};
    tide_error why = {.status = TIDE_OK};
    const tide_status status = fn(&check, &why);
    if (status != TIDE_OK) {
        check.state = TIDE_CHECK_UNKNOWN;
        check.figure_count = 0;
        tide_check_say(&check, "%s", why.text[0] ? why.text : tide_status_get(status)->text);
    }
    cli->exit_code = (int)check.state;
    if (cli->out.is_json)
        return print_json(&check, name, err);
    print_line(&check, title);
    return TIDE_OK;
}

static tide_status run_lag(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "lag", "LAG", tide_check_lag, err);
}

static tide_status run_gaps(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "gaps", "GAPS", tide_check_gaps, err);
}

static tide_status run_books(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "books", "BOOKS", tide_check_books, err);
}

static tide_status run_disk(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "disk", "DISK", tide_check_disk, err);
}

static tide_status run_cert(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "cert", "CERT", tide_check_cert, err);
}

static tide_status run_ready(tide_cli *cli, tide_error *err)
{
    return run_check(cli, "ready", "READY", tide_check_ready, err);
}

#define LEVELS(what_, warning_, critical_, help_)                                                  \
    {.id = TIDE_CLI_WARNING,                                                                       \
     .value = (what_),                                                                             \
     .fallback = (warning_),                                                                       \
     .help = "a warning " help_},                                                                  \
    {                                                                                              \
        .id = TIDE_CLI_CRITICAL, .value = (what_), .fallback = (critical_),                        \
        .help = "critical " help_                                                                  \
    }

static const tide_cli_verb verbs[] = {
    {.name = "lag",
     .arguments = "",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         TIDE_CLI_COLONY_TOKEN, LEVELS("DURATION", "1m", "5m", "from this lag of an agent on")),
     .summary = "how far the colony is behind its agents",
     .details = "The age of the oldest record that was not read, of the slowest agent. What an "
                "agent has that is away is\n"
                "not known: critical. One that is degraded or was never seen is a warning.",
     .run = run_lag},
    {.name = "gaps",
     .arguments = "",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL, SINCE, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         TIDE_CLI_COLONY_TOKEN,
         {.id = TIDE_CLI_WARNING,
          .value = "N",
          .fallback = "1",
          .help = "a warning from so many numbers in open gaps on"},
         {.id = TIDE_CLI_CRITICAL,
          .value = "N",
          .fallback = "1",
          .help = "critical from so many numbers on that were lost since --since"},
         {.id = TIDE_CLI_SINCE, .fallback = "24h"}),
     .summary = "numbers in open gaps, and numbers lost",
     .details = "What an operator has accepted or skipped does not count as lost.",
     .run = run_gaps},
    {.name = "books",
     .arguments = "",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN,
                                     LEVELS("N", "1", "1", "from so many unexplained numbers on")),
     .summary = "numbers that the colony's books do not explain",
     .run = run_books},
    {.name = "disk",
     .arguments = "[PATH]",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL),
     .overrides = TIDE_CLI_OVERRIDES(
         LEVELS("FREE", "20%", "10%", "with less free than this: 20% or a size like 5GiB")),
     .summary = "free space where a store's file is, or PATH",
     .run = run_disk},
    {.name = "cert",
     .arguments = "[FILE|ADDR]",
     .takes = TIDE_CLI_LIST(WARNING, CRITICAL, TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN,
                                     LEVELS("DURATION", "30d", "7d", "when it ends within this")),
     .summary = "until a certificate ends: of a PEM file, or of the service at HOST:PORT",
     .details = "Of several in a file the first that ends counts. Without an argument: the service "
                "of --address.",
     .run = run_cert},
    {.name = "ready",
     .arguments = "[ADDR]",
     .takes = TIDE_CLI_LIST(ADDRESS, SERVICE_CA, SERVICE_CERT, SERVICE_KEY),
     .summary = "whether the service at HOST:PORT is ready, as a container's health check asks",
     .details = "GET /readyz. A service that does not answer, or answers anything but 200, is "
                "critical. No token is sent,\n"
                "and a certificate is checked only with --service-ca. Without an argument: the "
                "service of --address.",
     .run = run_ready},
    {.name = NULL},
};

const tide_cli_command tide_cli_check = {
    .name = "check",
    .summary = "For monitoring: one line, figures, exit code 0, 1, 2 or 3.",
    .verbs = verbs,
    .failure_exit = TIDE_CHECK_UNKNOWN,
};
