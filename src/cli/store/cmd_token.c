/* cmd_token.c - tidemark token create|ls|revoke. */
#include "cli/frame/cli.h"

#include <string.h>

#include <tidemark/token.h>

#include "base/cleanup.h"
#include "cli/work/work_output.h"

static void print_members(tide_cli_output *out, const tide_token *token)
{
    tide_cli_json_text(out, "name", token->name);
    tide_cli_json_text(out, "role", tide_token_role_name(token->role));
    tide_cli_json_text(out, "agent", token->agent[0] ? token->agent : NULL);
    tide_cli_json_time(out, "created_at", token->created_at_us);
    tide_cli_json_time(out, "expires_at", token->expires_at_us);
    tide_cli_json_moment(out, "last_used_at", token->last_used_at_us);
    tide_cli_json_moment(out, "revoked_at", token->revoked_at_us);
}

/* Words are checked before the store is opened: opening may create it. */
static tide_status create(tide_cli *cli, tide_error *err)
{
    static const tide_token_role roles[] = {TIDE_TOKEN_INGEST, TIDE_TOKEN_READ, TIDE_TOKEN_WRITE,
                                            TIDE_TOKEN_ADMIN};
    const tide_token_new wanted = {
        TIDE_TOKEN_NEW_INIT,
        .name = cli->args[0],
        .agent = tide_cli_text(cli, TIDE_CLI_AGENT),
        .role = roles[tide_cli_number(cli, TIDE_CLI_ROLE)],
        .lifetime_us = tide_cli_number(cli, TIDE_CLI_EXPIRES),
    };
    char text[TIDE_TOKEN_TEXT_SIZE] = "";
    tide_token made = {.name = ""};
    TIDE_TRY(tide_token_check_name(wanted.name, err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_CREATE, err);
    TIDE_TRY(tide_token_create(store, &wanted, text, &made, err));
    tide_status status = TIDE_OK;
    if (cli->out.is_json) {
        tide_cli_json_begin(&cli->out);
        print_members(&cli->out, &made);
        tide_cli_json_text(&cli->out, "token", text);
        status = tide_cli_json_end(&cli->out, err);
    } else {
        tide_cli_print(cli->out.file, "%s\n", text);
    }
    explicit_bzero(text, sizeof text);
    return status;
}

typedef struct listing {
    tide_cli_output *out;
    tide_cli_table table;
    int64_t now_us;
} listing;

static const char *get_state(const tide_token *token, int64_t now_us)
{
    if (token->revoked_at_us != 0)
        return "revoked";
    return token->expires_at_us <= now_us ? "expired" : "live";
}

static tide_status list_one(void *arg, const tide_token *token, tide_error *err)
{
    listing *list = arg;
    const char *state = get_state(token, list->now_us);
    if (list->out->is_json) {
        tide_cli_json_begin(list->out);
        print_members(list->out, token);
        tide_cli_json_text(list->out, "state", state);
        return tide_cli_json_end(list->out, err);
    }
    tide_cli_table_cell(&list->table, token->name);
    tide_cli_table_cell(&list->table, tide_token_role_name(token->role));
    tide_cli_table_cell(&list->table, token->agent[0] ? token->agent : NULL);
    tide_cli_table_cell(&list->table, state);
    tide_cli_table_time(&list->table, token->created_at_us);
    tide_cli_table_time(&list->table, token->expires_at_us);
    tide_cli_table_time(&list->table, token->last_used_at_us ? token->last_used_at_us : INT64_MAX);
    return TIDE_OK;
}

static tide_status read_clock(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_tx_now(tx, arg, err);
}

static tide_status list_all(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    listing list = {.out = &cli->out};
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_AS_IS, err));
    TIDE_TRY(tide_store_read_local(store, read_clock, &list.now_us, err));
    tide_cli_table_begin(&list.table, &cli->out, "NAME,ROLE,AGENT,STATE,CREATED,EXPIRES,LAST USED");
    const tide_status status =
        tide_token_list(store, tide_cli_is_given(cli, TIDE_CLI_ALL), list_one, &list, err);
    return tide_cli_table_end(&list.table, status, err);
}

static tide_status revoke(tide_cli *cli, tide_error *err)
{
    TIDE_TRY(tide_token_check_name(cli->args[0], err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_token_revoke(store, cli->args[0], err));
    return tide_cli_print_done(&cli->out, "name", cli->args[0], "revoked", err);
}

static const tide_cli_verb verbs[] = {
    {.name = "create",
     .arguments = "NAME",
     .takes = TIDE_CLI_LIST(ROLE, AGENT, EXPIRES),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_AGENT, .max = 1}),
     .summary = "make a token and print it, this once",
     .details = "The store keeps a digest only: a token that is lost is revoked and made anew. "
                "Whoever has it\n"
                "presents it as 'Authorization: Bearer TOKEN'. admin may what write may, write may "
                "what read and\n"
                "ingest may. ingest sends records and telemetry, and reads nothing but /metrics. A "
                "token of an agent\n"
                "counts at the daemon of that agent, and elsewhere beside its client certificate.",
     .run = create},
    {.name = "ls",
     .takes = TIDE_CLI_LIST(ALL),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_ALL, .help = "also those that were revoked"}),
     .summary = "list tokens: who, what for, until when, last used",
     .run = list_all},
    {.name = "revoke",
     .arguments = "NAME",
     .summary = "end a token; running services forget it within seconds",
     .run = revoke},
    {.name = NULL},
};

const tide_cli_command tide_cli_token = {
    .name = "token",
    .summary = "Who may call the services: bearer tokens.",
    .verbs = verbs,
};
