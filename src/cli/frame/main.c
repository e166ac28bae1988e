/* main.c - tidemark <noun> <verb>: finds the verb, checks its arguments, runs it, reports the
 * result. */
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/frame/cli.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/request.h"
#include "cli/help/help.h"
#include "store/identity.h"

const tide_cli_command *const tide_cli_commands[] = {
    &tide_cli_task,
    &tide_cli_work,
    &tide_cli_checkpoint,
    &tide_cli_idempotency,
    &tide_cli_schedule,
    &tide_cli_sequence,
    &tide_cli_feed,
    &tide_cli_sql,
    &tide_cli_store,
    &tide_cli_agent,
    &tide_cli_colony_command,
    &tide_cli_gaps,
    &tide_cli_query,
    &tide_cli_trace,
    &tide_cli_export,
    &tide_cli_replica,
    &tide_cli_lake,
    &tide_cli_serve,
    &tide_cli_up,
    &tide_cli_demo,
    &tide_cli_status,
    &tide_cli_top,
    &tide_cli_check,
    &tide_cli_token,
    &tide_cli_context,
    &tide_cli_doctor,
    &tide_cli_explain,
    &tide_cli_completion,
    &tide_cli_version,
    &tide_cli_help,
    NULL,
};

const tide_cli_command *const tide_cli_hidden_commands[] = {&tide_cli_demo_report,
                                                            &tide_cli_query_process, NULL};

void tide_cli_store_options(const tide_cli *cli, tide_store_options *out)
{
    static const tide_pg_pooler poolers[] = {TIDE_PG_POOLER_AUTO, TIDE_PG_POOLER_NONE,
                                             TIDE_PG_POOLER_TRANSACTION};
    out->pg_pooler = poolers[tide_cli_number(cli, TIDE_CLI_PG_POOLER)];
    /* The default is the store's own, which is longer for closures that are given more time. */
    if (!cli->is_own_timeout && tide_cli_is_given(cli, TIDE_CLI_TIMEOUT))
        out->timeout_us = tide_cli_number(cli, TIDE_CLI_TIMEOUT);
}

static tide_status note_last(void *arg, const tide_epoch *epoch, tide_error *err)
{
    (void)err;
    *(tide_epoch *)arg = *epoch;
    return TIDE_OK;
}

/* Opening found that history was cut: readers by number must know. */
static void warn_of_epoch(tide_store *store)
{
    tide_error ignored;
    tide_epoch last = {.epoch = 0};
    if (tide_store_epoch_changes(store) > 0 &&
        tide_identity_history(store, note_last, &last, &ignored) >= TIDE_OK)
        tide_cli_print(stderr, "tidemark: warning: %s began epoch %lld (%s): %s\n",
                       tide_store_name(store), (long long)last.epoch, last.reason, last.evidence);
}

/* A typing error in --store, or a volume that was not mounted, looks like an empty store. */
static void warn_of_replaced(tide_store *store)
{
    const char *before = tide_identity_replaced(store);
    tide_identity identity;
    tide_store_identity(store, &identity);
    if (*before)
        tide_cli_print(stderr,
                       "tidemark: warning: %s is another store (session %s) than the one that was "
                       "at this path (session %s)\n",
                       tide_store_name(store), identity.session_id, before);
}

tide_status tide_cli_open_store(tide_cli *cli, tide_store **out, tide_store_mode mode,
                                tide_error *err)
{
    /* One command is one closure: there is nothing to group, so no thread is needed. */
    tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .mode = mode, .is_inline = true};
    tide_cli_store_options(cli, &options);
    TIDE_TRY(tide_store_open(out, tide_cli_text(cli, TIDE_CLI_STORE), &options, err));
    warn_of_epoch(*out);
    warn_of_replaced(*out);
    return TIDE_OK;
}

static int print_failure(const tide_cli *cli, const char *what, tide_status status,
                         const tide_error *err)
{
    const tide_status_row *row = tide_status_get(status);
    const char *next = cli->hint[0] ? cli->hint : err->is_advised ? "" : row->next;
    if (!cli->is_told) {
        tide_cli_print(stderr, "tidemark: %s%s%s\n", what, *what ? ": " : "",
                       err->text[0] ? err->text : row->text);
        if (*next)
            tide_cli_print(stderr, "  %s\n", next);
    }
    return (int)row->exit_code;
}

static tide_status print_help(tide_cli *cli, const tide_cli_request *asked)
{
    if (!asked->command)
        tide_cli_help_overview(cli->out.file);
    else if (!asked->verb || !*asked->verb->name) /* its verbs, too */
        tide_cli_help_command(cli->out.file, asked->command);
    else
        tide_cli_help_verb(cli->out.file, asked->command, asked->verb);
    return TIDE_OK;
}

static tide_status run(tide_cli *cli, tide_cli_request *asked, tide_error *err)
{
    TIDE_TRY(tide_cli_request_find(cli, asked, err));
    if (tide_cli_is_given(cli, TIDE_CLI_HELP))
        return print_help(cli, asked);
    if (!asked->command && tide_cli_is_given(cli, TIDE_CLI_VERSION))
        return tide_cli_version.verbs[0].run(cli, err);
    if (!asked->verb) {
        if (asked->command)
            tide_cli_help_command(stderr, asked->command);
        else
            tide_cli_help_overview(stderr);
        cli->is_told = true;
        return tide_fail(err, TIDE_E_INVALID, "no command was given");
    }
    TIDE_TRY(tide_cli_request_check(cli, asked, err));
    cli->is_own_timeout = tide_cli_list_has(asked->verb->takes, TIDE_CLI_TIMEOUT);
    return asked->verb->run(cli, err);
}

/* A verb that found nothing has not failed; it may say what it looked for. */
static int print_nothing(const tide_cli *cli, const char *what, const tide_error *err)
{
    if (!cli->is_told && !cli->out.is_json && err->text[0])
        tide_cli_print(stderr, "tidemark: %s: %s\n", what, err->text);
    return (int)tide_status_get(TIDE_NONE)->exit_code;
}

static tide_status parse_and_run(tide_cli *cli, tide_cli_request *asked, int argc, char **argv,
                                 tide_error *err)
{
    const tide_status status = tide_cli_args_parse(&cli->words, argc, argv, err);
    tide_cli_output_init(&cli->out, stdout, tide_cli_is_given(cli, TIDE_CLI_JSON));
    if (status >= TIDE_OK)
        return run(cli, asked, err);
    tide_cli_request_suggest(cli, asked);
    return status;
}

int main(int argc, char **argv)
{
    tide_cli cli = {.arg_count = 0};
    tide_cli_request asked = {.command = NULL};
    tide_error err = {.status = TIDE_OK};
    (void)umask(S_IRWXG | S_IRWXO);   /* what we make is its owner's alone, from its first byte */
    (void)unsetenv("LD_ORIGIN_PATH"); /* tools/launcher.c's, for this process alone */
    tide_cli_interrupt_install();
    const tide_status status = parse_and_run(&cli, &asked, argc, argv, &err);
    tide_error write_err = {.status = TIDE_OK};
    const tide_status written = tide_cli_output_flush(&cli.out, &write_err);
    int exit_code = cli.exit_code;
    if (status < TIDE_OK)
        exit_code = print_failure(&cli, asked.name, status, &err);
    else if (written < TIDE_OK)
        exit_code = print_failure(&cli, asked.name, written, &write_err);
    else if (status == TIDE_NONE)
        exit_code = print_nothing(&cli, asked.name, &err);
    if (asked.command && asked.command->failure_exit && (status < TIDE_OK || written < TIDE_OK))
        exit_code = asked.command->failure_exit;
    tide_cli_output_done(&cli.out);
    tide_cli_args_done(&cli.words);
    return exit_code;
}
