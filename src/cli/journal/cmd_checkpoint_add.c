/* cmd_checkpoint_add.c - tidemark checkpoint add, with what it may say about the surroundings.
 *
 * Variables of the environment end up in backups and exports. So only names on a list are kept with their value;
 * of all others it is recorded that they were set. */
#include "cli/journal/cmd_checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "cli/frame/input.h"
#include "cli/work/work_output.h"

static const char *const harmless[] = {
    "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
    "HOME",   "HOSTNAME",   "LANG",     "LANGUAGE",    "LOGNAME",     "PATH",       "PWD",
    "SHELL",  "TERM",       "TMPDIR",   "TZ",          "USER",        "COLUMNS",    "LINES"};

static bool is_harmless(const char *name)
{
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strcmp(harmless[i], name) == 0)
            return true;
    return false;
}

/* What is not UTF-8 cannot be kept as it is: an unlisted name is left out, a value is redacted. */
static int put_variable(json_t *env, const char *name, const char *value)
{
    if (!tide_utf8_valid(tide_view_of(name)))
        return 0;
    const bool is_kept = is_harmless(name) && tide_utf8_valid(tide_view_of(value));
    return json_object_set_new(env, name, json_string(is_kept ? value : "[redacted]"));
}

/* "*": every variable that is set. */
static int put_all(json_t *env)
{
    int failed = 0;
    for (char **at = environ; *at; at++) {
        const char *equals = strchr(*at, '=');
        char name[256];
        if (!equals || (size_t)(equals - *at) >= sizeof name)
            continue;
        memcpy(name, *at, (size_t)(equals - *at));
        name[equals - *at] = '\0';
        failed |= put_variable(env, name, equals + 1);
    }
    return failed;
}

static void decrefp(json_t **value)
{
    json_decref(*value);
}

/* Add working_dir and env to the metadata. */
static tide_status capture(const tide_cli *cli, tide_buffer *metadata, tide_error *err)
{
    const tide_cli_values names = tide_cli_list(cli, TIDE_CLI_ENV);
    if (names.count == 0)
        return TIDE_OK;
    for (int i = 0; i < names.count; i++)
        if (strchr(names.items[i], '='))
            return tide_fail(err, TIDE_E_INVALID,
                             "--env takes the name of a variable, without '='");
    TIDE_CLEANUP(decrefp)
    json_t *all = metadata->len > 0 ? json_loadb(metadata->ptr, metadata->len,
                                                 JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                                    : json_object();
    if (!json_is_object(all))
        return tide_fail(err, TIDE_E_INVALID, "with --env, --metadata must be a JSON object");
    json_t *env = json_object();
    int failed = json_object_set_new(all, "env", env);
    for (int i = 0; i < names.count && !failed; i++) {
        const char *value = getenv(names.items[i]);
        if (strcmp(names.items[i], "*") == 0)
            failed |= put_all(env);
        else
            failed |= value ? put_variable(env, names.items[i], value)
                            : json_object_set_new(env, names.items[i], json_null());
    }
    char directory[4096];
    if (getcwd(directory, sizeof directory))
        failed |= json_object_set_new(all, "working_dir", json_string(directory));
    TIDE_CLEANUP(tide_freep) char *text = failed ? NULL : json_dumps(all, JSON_COMPACT);
    if (!text)
        return tide_fail(err, TIDE_E_INVALID,
                         "the environment could not be captured: is it UTF-8?");
    tide_buffer_clear(metadata);
    return tide_buffer_append_text(metadata, text);
}

static tide_status check_task_of(void *arg, const tide_work_item *item, tide_error *err)
{
    const char *task_id = arg;
    if (strcmp(item->task_id, task_id) == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID, "work item %s belongs to task %s", item->work_item_id,
                     item->task_id);
}

/* Evidence may outlive its item, but does not begin without it. */
static tide_status check_item(const tide_checkpoint_new *checkpoint, tide_store *store,
                              tide_error *err)
{
    if (!checkpoint->work_item_id)
        return TIDE_OK;
    return tide_cli_found(tide_work_find(store, checkpoint->work_item_id, check_task_of,
                                         (void *)checkpoint->task_id, err),
                          "work item", checkpoint->work_item_id, store, err);
}

tide_status tide_cli_checkpoint_add(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data;
    tide_buffer_init(&data, TIDE_JOURNAL_SNAPSHOT_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer metadata;
    tide_buffer_init(&metadata, TIDE_JOURNAL_METADATA_MAX);
    TIDE_TRY(tide_cli_input_json(&data, tide_cli_text(cli, TIDE_CLI_DATA), "--data", err));
    if (tide_cli_text(cli, TIDE_CLI_METADATA))
        TIDE_TRY(tide_cli_input_json(&metadata, tide_cli_text(cli, TIDE_CLI_METADATA), "--metadata",
                                     err));
    TIDE_TRY(capture(cli, &metadata, err));
    const tide_cli_values tags = tide_cli_list(cli, TIDE_CLI_TAG);
    const tide_checkpoint_new checkpoint = {
        .checkpoint_id = tide_cli_text(cli, TIDE_CLI_KEY),
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .work_item_id = tide_cli_text(cli, TIDE_CLI_WORK_ITEM),
        .type = tide_cli_text(cli, TIDE_CLI_TYPE),
        .snapshot = tide_buffer_view(&data),
        .metadata = metadata.len > 0 ? tide_buffer_text(&metadata) : NULL,
        .message = tide_cli_text(cli, TIDE_CLI_MESSAGE),
        .trigger = tide_cli_text(cli, TIDE_CLI_TRIGGER),
        .tags = tags.items,
        .tag_count = tags.count,
        .expect_global = tide_cli_number(cli, TIDE_CLI_EXPECT),
    };
    tide_checkpoint_numbers numbers = {.global_sequence = 0};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(check_item(&checkpoint, store, err));
    TIDE_TRY(tide_journal_append(store, &checkpoint, &numbers, err));
    return tide_cli_print_numbers(&cli->out, &numbers, err);
}
