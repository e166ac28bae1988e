/* cmd_sequence.c - tidemark sequence next|show|raise|ls. */
#include "cli/frame/cli.h"

#include <inttypes.h>

#include <tidemark/sequence.h>

#include "cli/work/work_output.h"

static tide_status print_range(tide_cli *cli, const char *name, const tide_sequence_range *range,
                               const tide_identity *identity, tide_error *err)
{
    const int64_t last = tide_sequence_range_last(range);
    if (cli->out.is_json) {
        tide_cli_json_begin(&cli->out);
        tide_cli_json_text(&cli->out, "name", name);
        tide_cli_json_i64(&cli->out, "first", range->first);
        tide_cli_json_i64(&cli->out, "last", last);
        tide_cli_json_identity(&cli->out, identity);
        return tide_cli_json_end(&cli->out, err);
    }
    if (range->count == 1)
        (void)fprintf(cli->out.file, "%" PRId64 "\n", last);
    else
        (void)fprintf(cli->out.file, "%" PRId64 "..%" PRId64 "\n", range->first, last);
    return TIDE_OK;
}

/* Names and numbers are checked before the store is opened: opening may create it. */
static tide_status next(tide_cli *cli, tide_error *err)
{
    const char *name = cli->args[0];
    tide_sequence_range range = {0};
    tide_identity identity;
    TIDE_TRY(tide_sequence_check_name(name, err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_CREATE, err);
    TIDE_TRY(tide_sequence_next(store, name, tide_cli_number(cli, TIDE_CLI_COUNT), &range,
                                &identity, err));
    return print_range(cli, name, &range, &identity, err);
}

static tide_status show(tide_cli *cli, tide_error *err)
{
    const char *name = cli->args[0];
    tide_sequence found = {0};
    TIDE_TRY(tide_sequence_check_name(name, err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    const tide_status status = tide_sequence_show(store, name, &found, err);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no number of '%s' was ever taken in %s", name,
                         tide_store_name(store));
    TIDE_TRY(status);
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file, "%" PRId64 "\n", found.last);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "name", found.name);
    tide_cli_json_i64(&cli->out, "last", found.last);
    tide_cli_json_time(&cli->out, "last_at", found.last_at_us);
    tide_identity identity;
    tide_store_identity(store, &identity);
    tide_cli_json_identity(&cli->out, &identity);
    return tide_cli_json_end(&cli->out, err);
}

static tide_status raise_to(tide_cli *cli, tide_error *err)
{
    const char *name = cli->args[0];
    int64_t last = 0;
    int64_t now_last = 0;
    TIDE_TRY(tide_sequence_check_name(name, err));
    TIDE_TRY(tide_cli_parse_number(&last, cli->args[1], "LAST", 1, INT64_MAX, err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_CREATE, err);
    TIDE_TRY(tide_sequence_raise(store, name, last, &now_last, err));
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file, "%" PRId64 "\n", now_last);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "name", name);
    tide_cli_json_i64(&cli->out, "last", now_last);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- ls ---- */

static tide_status list_one(void *arg, const tide_sequence *sequence, tide_error *err)
{
    tide_cli_table *table = arg;
    tide_cli_output *out = table->out;
    if (out->is_json) {
        tide_cli_json_begin(out);
        tide_cli_json_text(out, "name", sequence->name);
        tide_cli_json_i64(out, "last", sequence->last);
        tide_cli_json_time(out, "last_at", sequence->last_at_us);
        return tide_cli_json_end(out, err);
    }
    char at[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(at, sequence->last_at_us);
    tide_cli_table_cell(table, sequence->name);
    tide_cli_table_number(table, sequence->last);
    tide_cli_table_cell(table, at);
    return TIDE_OK;
}

static tide_status list_all(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "NAME,LAST#,LAST TAKEN");
    const tide_status status = tide_sequence_list(store, list_one, &table, err);
    return tide_cli_table_end(&table, status, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "next",
     .arguments = "NAME",
     .takes = TIDE_CLI_LIST(COUNT),
     .summary = "take the next number, or the next N",
     .details = "Prints the number, or FIRST..LAST when several were asked for. What is printed is "
                "on disk and\n"
                "is never given again. The store and the sequence are made on first use; numbers "
                "start at 1.",
     .run = next},
    {.name = "show",
     .arguments = "NAME",
     .summary = "print the last number taken; changes nothing",
     .details = "Ends with 3 when no number was ever taken, or when there is no store.",
     .run = show},
    {.name = "raise",
     .arguments = "NAME LAST",
     .summary = "go on after LAST; a sequence never goes down",
     .details = "Prints where the sequence stands: LAST, or more if it was beyond that already.",
     .run = raise_to},
    {.name = "ls", .summary = "list every sequence", .run = list_all},
    {.name = NULL},
};

const tide_cli_command tide_cli_sequence = {
    .name = "sequence",
    .summary = "Durable numbers: each given once, in order, for ever.",
    .verbs = verbs,
};
