/* cmd_checkpoint_add.c - tidemark checkpoint add, with what it may say about the surroundings.
 *
 * Variables of the environment end up in backups and exports. So only names on a list are kept with their value;
 * of all others it is recorded that they were set. */
#include "cli/journal/cmd_checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/json_tree.h"
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

/* What is not UTF-8 cannot be kept as it is: an unlisted name is left out, a value is redacted. value NULL: it is not
 * set. */
static void put_variable(tide_json *env, const char *name, const char *value)
{
    if (!tide_utf8_valid(tide_view_of(name)))
        return;
    const bool is_kept = !value || (is_harmless(name) && tide_utf8_valid(tide_view_of(value)));
    tide_json_key(env, name);
    tide_json_text(env, is_kept ? value : "[redacted]");
}

/* "*": every variable that is set. */
static void put_all(tide_json *env)
{
    for (char **at = environ; *at; at++) {
        const char *equals = strchr(*at, '=');
        char name[256];
        if (!equals || (size_t)(equals - *at) >= sizeof name)
            continue;
        memcpy(name, *at, (size_t)(equals - *at));
        name[equals - *at] = '\0';
        put_variable(env, name, equals + 1);
    }
}

static bool has_name(tide_cli_values names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names.items[i], name) == 0)
            return true;
    return false;
}

/* {"env":{...},"working_dir":"..."} */
static tide_status write_surroundings(tide_buffer *out, tide_cli_values names)
{
    const bool has_all = has_name(names, names.count, "*");
    char directory[4096];
    tide_json json;
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    tide_json_key(&json, "env");
    tide_json_object_begin(&json);
    if (has_all)
        put_all(&json);
    for (int i = 0; i < names.count; i++) {
        const char *value = getenv(names.items[i]);
        const bool is_there = has_all && (value || strcmp(names.items[i], "*") == 0);
        if (!is_there && !has_name(names, i, names.items[i]))
            put_variable(&json, names.items[i], value);
    }
    tide_json_object_end(&json);
    if (getcwd(directory, sizeof directory)) {
        tide_json_key(&json, "working_dir");
        tide_json_text(&json, directory);
    }
    tide_json_object_end(&json);
    return tide_json_finish(&json);
}

/* The members of an object as they were written, but those that are added; each followed by a comma. */
static tide_status copy_members(tide_buffer *out, const tide_json_node *object, tide_view text)
{
    for (const tide_json_node *member = object->first; member; member = member->next) {
        const char *key = member->key.ptr;
        const bool is_last = tide_json_node_find(object, key) == member;
        if (!is_last || strcmp(key, "env") == 0 || strcmp(key, "working_dir") == 0)
            continue;
        TIDE_TRY(tide_json_append_string(out, member->key));
        TIDE_TRY(tide_buffer_append_byte(out, ':'));
        TIDE_TRY(tide_buffer_append_view(out, tide_cli_json_member(text, key)));
        TIDE_TRY(tide_buffer_append_byte(out, ','));
    }
    return TIDE_OK;
}

static tide_status add_surroundings(tide_buffer *out, const tide_json_node *object, tide_view text,
                                    tide_cli_values names)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer added = tide_buffer_of(out->max);
    TIDE_TRY(write_surroundings(&added, names));
    TIDE_TRY(tide_buffer_append_byte(out, '{'));
    if (object)
        TIDE_TRY(copy_members(out, object, text));
    return tide_buffer_append_text(out, added.ptr + 1); /* without its brace */
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
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *given = NULL;
    if (metadata->len > 0)
        TIDE_TRY(tide_json_tree_read(&given, tide_buffer_view(metadata), err));
    if (given && !tide_json_node_is(given, TIDE_JSON_TYPE_OBJECT))
        return tide_fail(err, TIDE_E_INVALID, "with --env, --metadata must be a JSON object");
    TIDE_CLEANUP(tide_buffer_done) tide_buffer whole = tide_buffer_of(metadata->max);
    tide_status status = add_surroundings(&whole, given, tide_buffer_view(metadata), names);
    tide_buffer_clear(metadata);
    if (status >= TIDE_OK)
        status = tide_buffer_append_view(metadata, tide_buffer_view(&whole));
    return status < TIDE_OK ? tide_fail(err, status, "the environment is too long for metadata")
                            : TIDE_OK;
}

tide_status tide_cli_checkpoint_add(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data = tide_buffer_of(TIDE_JOURNAL_SNAPSHOT_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer metadata = tide_buffer_of(TIDE_JOURNAL_METADATA_MAX);
    TIDE_TRY(tide_cli_input_json(&data, tide_cli_text(cli, TIDE_CLI_DATA), "--data", err));
    if (tide_cli_text(cli, TIDE_CLI_METADATA))
        TIDE_TRY(tide_cli_input_json(&metadata, tide_cli_text(cli, TIDE_CLI_METADATA), "--metadata",
                                     err));
    TIDE_TRY(capture(cli, &metadata, err));
    const tide_cli_values tags = tide_cli_list(cli, TIDE_CLI_TAG);
    const tide_checkpoint_new checkpoint = {
        TIDE_CHECKPOINT_NEW_INIT,
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
        .token = tide_cli_number(cli, TIDE_CLI_TOKEN),
        .item_token = tide_cli_number(cli, TIDE_CLI_ITEM_TOKEN),
    };
    tide_checkpoint_numbers numbers = {.global_sequence = 0};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_journal_append(store, &checkpoint, &numbers, err));
    return tide_cli_print_numbers(&cli->out, &numbers, err);
}
