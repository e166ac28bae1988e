#include "cli/help/help_json.h"

#include "cli/frame/value.h"
#include "net/http/limits.h"
#include "runtime/listener.h"
#include "services/lake/metrics.h"
#include "services/replica/metrics.h"
#include "services/work/work_metrics.h"

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
    tide_cli_json_text(out, "arguments", verb->arguments);
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
