/* cmd_context.c - tidemark context add|use|leave|ls|show|remove: places by name. See context.h. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/colony/colony_store.h"
#include "cli/frame/context.h"
#include "store/url.h"

enum { TEXT_MAX = 32 << 10, NAMES_MAX = 10000 };

/* ---- add ---- */

/* Relative paths would mean something else in every directory. */
static tide_status write_path(tide_buffer *out, const char *path, tide_error *err)
{
    char directory[PATH_MAX];
    if (path[0] == '/')
        return tide_buffer_append_text(out, path);
    if (!getcwd(directory, sizeof directory))
        return tide_fail(err, TIDE_E_IO, "the working directory has no path: %s", strerror(errno));
    return tide_buffer_printf(out, "%s/%s", directory, strncmp(path, "./", 2) ? path : path + 2);
}

static tide_status write_store(tide_buffer *out, const char *url, tide_error *err)
{
    static const char duckdb[] = "duckdb:";
    tide_store_url parsed;
    if (strncmp(url, duckdb, sizeof duckdb - 1) == 0) {
        TIDE_TRY(tide_buffer_append_text(out, duckdb));
        return write_path(out, url + sizeof duckdb - 1, err);
    }
    TIDE_TRY(tide_store_url_parse(&parsed, url, err));
    if (parsed.engine == TIDE_ENGINE_POSTGRES)
        return tide_buffer_append_text(out, url);
    TIDE_TRY(tide_buffer_append_text(out, "sqlite:"));
    return write_path(out, parsed.target, err);
}

static tide_status write_value(tide_buffer *out, tide_cli_option_id id, const char *value,
                               tide_error *err)
{
    for (const char *at = value; *at; at++)
        if (*at == '"' || (unsigned char)*at < ' ' || *at == 127)
            return tide_fail(err, TIDE_E_INVALID,
                             "--%s: quotation marks and control characters cannot be kept",
                             tide_cli_options[id].name);
    if (id == TIDE_CLI_STORE)
        return write_store(out, value, err);
    if (id == TIDE_CLI_ADDRESS)
        return tide_buffer_append_text(out, value);
    if (access(value, R_OK) != 0)
        return tide_fail(err, errno == EACCES ? TIDE_E_DENIED : TIDE_E_NOT_FOUND, "--%s %s: %s",
                         tide_cli_options[id].name, value, strerror(errno));
    return write_path(out, value, err);
}

static tide_status write_settings(const tide_cli *cli, tide_buffer *out, tide_error *err)
{
    for (const tide_cli_option_id *id = tide_cli_context_options; *id != TIDE_CLI_OPTION_COUNT;
         id++) {
        if (!tide_cli_is_given(cli, *id))
            continue;
        const tide_cli_option *option = &tide_cli_options[*id];
        if (option->type == TIDE_CLI_FLAG) {
            TIDE_TRY(tide_buffer_printf(out, "%s = true\n", option->name));
            continue;
        }
        TIDE_TRY(tide_buffer_printf(out, "%s = \"", option->name));
        TIDE_TRY(write_value(out, *id, tide_cli_text(cli, *id), err));
        TIDE_TRY(tide_buffer_append_text(out, "\"\n"));
    }
    return TIDE_OK;
}

/* An address, certificates and a token that fit each other; nobody is called. */
static tide_status check_service(const tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_client_closep) tide_client *client = NULL;
    if (!tide_cli_is_given(cli, TIDE_CLI_ADDRESS))
        return TIDE_OK;
    return tide_cli_service_open(&client, cli, tide_cli_text(cli, TIDE_CLI_ADDRESS), err);
}

static tide_status tell(tide_cli *cli, const char *name, const char *result, tide_error *err)
{
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s: %s\n", name, result);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "name", name);
    tide_cli_json_text(&cli->out, "result", result);
    return tide_cli_json_end(&cli->out, err);
}

static tide_status add(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TEXT_MAX);
    TIDE_CLEANUP(tide_options_file_done) tide_options_file again = {0};
    TIDE_TRY(tide_cli_context_check_name(cli->args[0], err));
    if (!tide_cli_is_given(cli, TIDE_CLI_STORE) && !tide_cli_is_given(cli, TIDE_CLI_ADDRESS)) {
        (void)snprintf(cli->hint, sizeof cli->hint, "name one with --store URL or --address ADDR");
        return tide_fail(err, TIDE_E_INVALID, "a context is a store, an address, or both");
    }
    TIDE_TRY(check_service(cli, err));
    TIDE_TRY(write_settings(cli, &text, err));
    TIDE_TRY(tide_options_file_parse(&again, tide_buffer_view(&text), cli->args[0], err));
    TIDE_TRY(tide_cli_context_write(cli->args[0], tide_buffer_view(&text),
                                    tide_cli_is_given(cli, TIDE_CLI_FORCE), err));
    return tell(cli, cli->args[0], "added", err);
}

/* ---- use, leave, remove ---- */

static tide_status fail_unknown(tide_cli *cli, const char *name, tide_error *err)
{
    (void)snprintf(cli->hint, sizeof cli->hint, "'tidemark context ls' lists them");
    return tide_fail(err, TIDE_E_NOT_FOUND, "no context is called '%s'", name);
}

static tide_status use(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_options_file_done) tide_options_file file = {0};
    const tide_status status = tide_cli_context_read(&file, cli->args[0], err);
    if (status == TIDE_NONE)
        return fail_unknown(cli, cli->args[0], err);
    TIDE_TRY(status);
    TIDE_TRY(tide_cli_context_use(cli->args[0], err));
    return tell(cli, cli->args[0], "in use", err);
}

static tide_status leave(tide_cli *cli, tide_error *err)
{
    char name[TIDE_CLI_CONTEXT_NAME_MAX + 1];
    TIDE_TRY_FOUND(tide_cli_context_current(name, err));
    TIDE_TRY(tide_cli_context_use(NULL, err));
    return tell(cli, name, "left", err);
}

static tide_status drop(tide_cli *cli, tide_error *err)
{
    const tide_status status = tide_cli_context_remove(cli->args[0], err);
    if (status == TIDE_NONE)
        return fail_unknown(cli, cli->args[0], err);
    TIDE_TRY(status);
    return tell(cli, cli->args[0], "removed", err);
}

/* ---- show, ls ---- */

/* Without passwords; for free. */
static char *shown_value(const tide_options_file *file, tide_cli_option_id id)
{
    const char *value = tide_cli_context_value(file, id);
    if (!value)
        return NULL;
    return id == TIDE_CLI_STORE ? tide_store_url_redact(value) : strdup(value);
}

static void print_json(tide_cli *cli, const tide_options_file *file, const char *name,
                       const char *current)
{
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "name", name);
    tide_cli_json_bool(&cli->out, "in_use", strcmp(name, current) == 0);
    for (const tide_cli_option_id *id = tide_cli_context_options; *id != TIDE_CLI_OPTION_COUNT;
         id++) {
        char key[TIDE_OPTIONS_NAME_MAX];
        TIDE_CLEANUP(tide_freep) char *value = shown_value(file, *id);
        (void)snprintf(key, sizeof key, "%s", tide_cli_options[*id].name);
        for (char *dash = strchr(key, '-'); dash; dash = strchr(dash, '-'))
            *dash = '_';
        if (tide_cli_options[*id].type == TIDE_CLI_FLAG)
            tide_cli_json_bool(&cli->out, key, value && strcmp(value, "true") == 0);
        else
            tide_cli_json_text(&cli->out, key, value);
    }
}

static tide_status read_current(char current[TIDE_CLI_CONTEXT_NAME_MAX + 1], tide_error *err)
{
    current[0] = '\0';
    const tide_status status = tide_cli_context_current(current, err);
    return status == TIDE_NONE ? TIDE_OK : status;
}

static tide_status show(tide_cli *cli, tide_error *err)
{
    char current[TIDE_CLI_CONTEXT_NAME_MAX + 1];
    TIDE_CLEANUP(tide_options_file_done) tide_options_file file = {0};
    TIDE_TRY(read_current(current, err));
    const char *wanted = cli->arg_count > 0 ? cli->args[0] : tide_cli_text(cli, TIDE_CLI_CONTEXT);
    const char *name = wanted ? wanted : current;
    if (!*name) {
        (void)tide_fail(err, TIDE_NONE, "no context is in use");
        return TIDE_NONE;
    }
    const tide_status status = tide_cli_context_read(&file, name, err);
    if (status == TIDE_NONE)
        return fail_unknown(cli, name, err);
    TIDE_TRY(status);
    if (cli->out.is_json) {
        print_json(cli, &file, name, current);
        return tide_cli_json_end(&cli->out, err);
    }
    tide_cli_print(cli->out.file, "%-18s %s%s\n", "name", name,
                   strcmp(name, current) == 0 ? " (in use)" : "");
    for (const tide_cli_option_id *id = tide_cli_context_options; *id != TIDE_CLI_OPTION_COUNT;
         id++) {
        TIDE_CLEANUP(tide_freep) char *value = shown_value(&file, *id);
        if (value)
            tide_cli_print(cli->out.file, "%-18s %s\n", tide_cli_options[*id].name, value);
    }
    return TIDE_OK;
}

static tide_status list_one(tide_cli *cli, tide_cli_table *table, const char *name,
                            const char *current, tide_error *err)
{
    TIDE_CLEANUP(tide_options_file_done) tide_options_file file = {0};
    const tide_status status = tide_cli_context_read(&file, name, err);
    if (status == TIDE_NONE)
        return TIDE_OK; /* gone meanwhile */
    TIDE_TRY(status);
    if (cli->out.is_json) {
        print_json(cli, &file, name, current);
        return tide_cli_json_end(&cli->out, err);
    }
    TIDE_CLEANUP(tide_freep) char *store = shown_value(&file, TIDE_CLI_STORE);
    tide_cli_table_cell(table, name);
    tide_cli_table_cell(table, strcmp(name, current) == 0 ? "yes" : NULL);
    tide_cli_table_cell(table, store);
    tide_cli_table_cell(table, tide_cli_context_value(&file, TIDE_CLI_ADDRESS));
    return TIDE_OK;
}

static int is_listed(const struct dirent *entry)
{
    tide_error unused = {.status = TIDE_OK};
    return tide_cli_context_check_name(entry->d_name, &unused) == TIDE_OK;
}

/* table NULL: objects. Frees the names. */
static tide_status list_all(tide_cli *cli, tide_cli_table *table, struct dirent **names, int count,
                            const char *current, tide_error *err)
{
    tide_status status = TIDE_OK;
    for (int i = 0; i < count; i++) {
        if (status >= TIDE_OK && i < NAMES_MAX)
            status = list_one(cli, table, names[i]->d_name, current, err);
        free(names[i]);
    }
    free(names);
    return status;
}

static tide_status list(tide_cli *cli, tide_error *err)
{
    char directory[TIDE_CLI_CONTEXT_PATH_MAX];
    char current[TIDE_CLI_CONTEXT_NAME_MAX + 1];
    struct dirent **names = NULL;
    tide_cli_table table;
    TIDE_TRY(read_current(current, err));
    TIDE_TRY_FOUND(tide_cli_context_directory(directory, false, err));
    const int count = scandir(directory, &names, is_listed, alphasort);
    if (count <= 0) {
        free(names);
        return TIDE_NONE;
    }
    if (cli->out.is_json)
        return list_all(cli, NULL, names, count, current, err);
    tide_cli_table_begin(&table, &cli->out, "NAME,IN USE,STORE,ADDRESS");
    const tide_status status = list_all(cli, &table, names, count, current, err);
    return tide_cli_table_end(&table, status, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "add",
     .arguments = "NAME",
     .takes = TIDE_CLI_LIST(FORCE, TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         TIDE_CLI_COLONY_TOKEN, {.id = TIDE_CLI_FORCE, .help = "replace the one of this name"}),
     .summary = "give a store, a service, or both a name",
     .details = "Kept in $XDG_CONFIG_HOME/tidemark/contexts, readable for you alone. Paths become "
                "absolute. Commands\n"
                "that can ask a service ask it; others open the store.",
     .run = add},
    {.name = "use",
     .arguments = "CONTEXT",
     .summary = "let commands that name no place go there",
     .details = "--context NAME counts first; else --store, --address, $TIDEMARK_STORE and "
                "$TIDEMARK_ADDRESS; else\n"
                "$TIDEMARK_CONTEXT; else the context in use.",
     .run = use},
    {.name = "leave", .summary = "use none any more", .run = leave},
    {.name = "ls", .summary = "list contexts", .run = list},
    {.name = "show",
     .arguments = "[CONTEXT]",
     .summary = "tell what a context holds; the one in use",
     .run = show},
    {.name = "remove", .arguments = "CONTEXT", .summary = "forget a context", .run = drop},
    {.name = NULL},
};

const tide_cli_command tide_cli_context = {
    .name = "context",
    .summary = "Stores and services by name.",
    .verbs = verbs,
    .is_placeless = true,
};
