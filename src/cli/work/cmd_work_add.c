/* cmd_work_add.c - tidemark work add: one item from options, or many from JSON lines. */
#include "cli/work/cmd_work.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/work.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "cli/frame/input.h"
#include "cli/work/work_output.h"

enum {
    ITEMS_MAX = 1000000,         /* of one batch */
    ITEMS_BYTES_MAX = 512 << 20, /* texts of one batch */
};

struct tide_cli_items {
    tide_arena texts;
    tide_work_spec *list;
    int count;
};

void tide_cli_items_freep(tide_cli_items **items)
{
    if (!*items)
        return;
    tide_arena_done(&(*items)->texts);
    free((*items)->list);
    free(*items);
}

const tide_work_spec *tide_cli_items_get(const tide_cli_items *items, int *count)
{
    *count = items->count;
    return items->list;
}

/* ---- one line ---- */

typedef struct line_reader {
    tide_cli_items *items;
    tide_cli_lines *lines;
    const tide_json_node *object;
} line_reader;

/* A text under either name; NULL stays where there is none. */
static tide_status take_text(const line_reader *r, const char **out, const char *name,
                             const char *other, tide_error *err)
{
    const tide_json_node *value = tide_json_node_find(r->object, name);
    if (!value && other)
        value = tide_json_node_find(r->object, other);
    if (!value || tide_json_node_is(value, TIDE_JSON_TYPE_NULL))
        return TIDE_OK;
    if (!tide_json_node_is(value, TIDE_JSON_TYPE_TEXT))
        return tide_cli_lines_fail(r->lines, err, TIDE_E_INVALID, "\"%s\" is not a text", name);
    if (memchr(value->text.ptr, '\0', value->text.len))
        return tide_cli_lines_fail(r->lines, err, TIDE_E_INVALID, "\"%s\" contains U+0000", name);
    *out = tide_arena_text(&r->items->texts, value->text);
    return *out ? TIDE_OK : tide_no_memory(err);
}

static tide_status take_number(const line_reader *r, int64_t *out, const char *name,
                               tide_error *err)
{
    const tide_json_node *value = tide_json_node_find(r->object, name);
    if (!value || tide_json_node_is(value, TIDE_JSON_TYPE_NULL))
        return TIDE_OK;
    if (!tide_json_node_is(value, TIDE_JSON_TYPE_INTEGER))
        return tide_cli_lines_fail(r->lines, err, TIDE_E_INVALID, "\"%s\" is not a whole number",
                                   name);
    *out = tide_json_node_integer(value);
    return TIDE_OK;
}

static tide_status take_duration(const line_reader *r, int64_t *out, const char *name,
                                 tide_error *err)
{
    const char *text = NULL;
    TIDE_TRY(take_text(r, &text, name, NULL, err));
    if (!text)
        return TIDE_OK;
    const tide_status status =
        tide_cli_parse_duration(out, text, name, 1, TIDE_CLI_DURATION_MAX, err);
    return status < TIDE_OK
               ? tide_fail_context(err, status, "line %lld", (long long)r->lines->number)
               : TIDE_OK;
}

/* The input is kept as it was written. */
static tide_status take_input(const line_reader *r, const char **out, tide_error *err)
{
    tide_view raw = tide_cli_lines_member(r->lines, "input");
    if (!raw.ptr)
        raw = tide_cli_lines_member(r->lines, "input_data");
    if (!raw.ptr || tide_view_equal(raw, tide_view_of("null")))
        return TIDE_OK;
    *out = tide_arena_text(&r->items->texts, raw);
    return *out ? TIDE_OK : tide_no_memory(err);
}

static tide_status take_depends(const line_reader *r, tide_work_spec *item, tide_error *err)
{
    const tide_json_node *list = tide_json_node_find(r->object, "depends_on");
    if (!list || tide_json_node_is(list, TIDE_JSON_TYPE_NULL))
        return TIDE_OK;
    if (!tide_json_node_is(list, TIDE_JSON_TYPE_ARRAY))
        return tide_cli_lines_fail(r->lines, err, TIDE_E_INVALID,
                                   "\"depends_on\" is not a list of ids");
    const size_t count = tide_json_node_count(list);
    if (count == 0)
        return TIDE_OK;
    if (count > TIDE_WORK_BATCH_MAX)
        return tide_cli_lines_fail(r->lines, err, TIDE_E_INVALID,
                                   "an item depends on at most %d others", TIDE_WORK_BATCH_MAX);
    const char **ids = tide_arena_alloc(&r->items->texts, count * sizeof *ids);
    TIDE_NEED_MEMORY(ids, err);
    for (size_t i = 0; i < count; i++) {
        const tide_json_node *id = tide_json_node_at(list, i);
        if (!tide_json_node_is(id, TIDE_JSON_TYPE_TEXT))
            return tide_cli_lines_fail(r->lines, err, TIDE_E_INVALID,
                                       "\"depends_on\" is not a list of ids");
        ids[i] = tide_arena_text(&r->items->texts, id->text);
        TIDE_NEED_MEMORY(ids[i], err);
    }
    item->depends_on = ids;
    item->depends_on_count = (int)count;
    return TIDE_OK;
}

static tide_status check_names(const line_reader *r, tide_error *err)
{
    static const char *const names[] = {"work_item_id", "task",       "task_id",    "type",
                                        "work_type",    "input",      "input_data", "priority",
                                        "max_retries",  "delay",      "run_after",  "timeout",
                                        "unique_key",   "depends_on", "title",      "limit_key"};
    for (const tide_json_node *member = r->object->first; member; member = member->next) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof names / sizeof names[0] && !is_known; i++)
            is_known = tide_view_equal(member->key, tide_view_of(names[i]));
        if (!is_known)
            return tide_cli_lines_fail(r->lines, err, TIDE_E_INVALID, "unknown member \"%s\"",
                                       member->key.ptr);
    }
    return TIDE_OK;
}

static tide_status take_run_after(const line_reader *r, tide_work_spec *item, tide_error *err)
{
    const char *text = NULL;
    TIDE_TRY(take_text(r, &text, "run_after", NULL, err));
    if (!text)
        return TIDE_OK;
    tide_env *env = tide_env_system();
    const tide_status status = tide_cli_parse_time(&item->run_after_us, text, "run_after",
                                                   TIDE_CLI_FUTURE, env->wall_us(env), err);
    return status < TIDE_OK
               ? tide_fail_context(err, status, "line %lld", (long long)r->lines->number)
               : TIDE_OK;
}

static tide_status read_item(const line_reader *r, const char *task_id, tide_work_spec *item,
                             tide_error *err)
{
    *item = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = task_id, .max_retries = -1};
    TIDE_TRY(check_names(r, err));
    TIDE_TRY(take_text(r, &item->work_item_id, "work_item_id", NULL, err));
    TIDE_TRY(take_text(r, &item->task_id, "task_id", "task", err));
    TIDE_TRY(take_text(r, &item->work_type, "type", "work_type", err));
    TIDE_TRY(take_text(r, &item->unique_key, "unique_key", NULL, err));
    TIDE_TRY(take_text(r, &item->title, "title", NULL, err));
    TIDE_TRY(take_text(r, &item->limit_key, "limit_key", NULL, err));
    TIDE_TRY(take_number(r, &item->priority, "priority", err));
    TIDE_TRY(take_number(r, &item->max_retries, "max_retries", err));
    TIDE_TRY(take_duration(r, &item->delay_us, "delay", err));
    TIDE_TRY(take_duration(r, &item->timeout_us, "timeout", err));
    TIDE_TRY(take_run_after(r, item, err));
    TIDE_TRY(take_input(r, &item->input, err));
    TIDE_TRY(take_depends(r, item, err));
    if (tide_json_node_is(tide_json_node_find(r->object, "max_retries"), TIDE_JSON_TYPE_INTEGER) &&
        item->max_retries < 0)
        return tide_cli_lines_fail(r->lines, err, TIDE_E_INVALID, "\"max_retries\" is 0 or more");
    if (!item->work_type)
        return tide_cli_lines_fail(r->lines, err, TIDE_E_INVALID, "\"type\" is missing");
    return TIDE_OK;
}

tide_status tide_cli_items_read(tide_cli_items **out, const char *source, const char *task_id,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_cli_items_freep) TIDE_NEW(tide_cli_items, items, err);
    tide_arena_init(&items->texts, ITEMS_BYTES_MAX);
    TIDE_CLEANUP(tide_cli_lines_done) tide_cli_lines lines;
    TIDE_TRY(tide_cli_lines_init(&lines, source, TIDE_WORK_DATA_MAX + (1 << 20), err));
    line_reader reader = {.items = items, .lines = &lines};
    TIDE_EACH(tide_cli_lines_next(&lines, &reader.object, err)) {
        if (items->count >= ITEMS_MAX)
            return tide_fail(err, TIDE_E_INVALID, "more than %d items: split the batch", ITEMS_MAX);
        TIDE_TRY(tide_list_room(&items->list, items->count, sizeof *items->list, ITEMS_MAX, err));
        TIDE_TRY(read_item(&reader, task_id, &items->list[items->count], err));
        items->count++;
    }
    *out = TIDE_TAKE(items);
    return TIDE_OK;
}

/* ---- add ---- */

tide_status tide_cli_print_added(tide_cli *cli, const tide_work_added *added, tide_error *err)
{
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s%s\n", added->work_item_id,
                       added->is_existing ? "  (was there already)" : "");
        return TIDE_OK;
    }
    WORK(AddedItem) row = WORK_INIT(ADDED_ITEM);
    row.work_item_id = tide_rpc_borrow(added->work_item_id);
    row.is_existing = added->is_existing;
    return tide_cli_print_message(&cli->out, &row.base, err);
}

/* Everything was read and checked before the first item is stored. A thousand at a time are all or none. */
static tide_status add_batch(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_items_freep) tide_cli_items *items = NULL;
    TIDE_TRY(tide_cli_items_read(&items, tide_cli_text(cli, TIDE_CLI_BATCH),
                                 tide_cli_text(cli, TIDE_CLI_TASK), err));
    assert(items);
    for (int i = 0; i < items->count; i++)
        if (!items->list[i].task_id)
            return tide_fail(err, TIDE_E_INVALID,
                             "item %d names no task: give --task ID, or \"task\" in its line",
                             i + 1);
    TIDE_CLEANUP(tide_freep)
    tide_work_added *added = calloc(TIDE_WORK_BATCH_MAX, sizeof *added);
    TIDE_NEED_MEMORY(added, err);
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    for (int from = 0; from < items->count; from += TIDE_WORK_BATCH_MAX) {
        const int left = items->count - from;
        const int count = left < TIDE_WORK_BATCH_MAX ? left : TIDE_WORK_BATCH_MAX;
        const tide_status status = tide_work_add(store, items->list + from, count, added, err);
        if (status < TIDE_OK)
            return from == 0
                       ? status
                       : tide_fail_context(err, status, "the first %d items are stored", from);
        for (int i = 0; i < count; i++)
            TIDE_TRY(tide_cli_print_added(cli, &added[i], err));
    }
    return TIDE_OK;
}

static tide_status fill_when(const tide_cli *cli, tide_work_spec *item, tide_error *err)
{
    tide_env *env = tide_env_system();
    return tide_cli_time(cli, TIDE_CLI_RUN_AFTER, env->wall_us(env), &item->run_after_us, err);
}

void tide_cli_note_attempt_timeout(const tide_cli *cli)
{
    if (tide_cli_is_given(cli, TIDE_CLI_TIMEOUT) &&
        !tide_cli_is_given(cli, TIDE_CLI_ATTEMPT_TIMEOUT))
        tide_cli_print(stderr, "tidemark: --timeout is how long to wait for the store; "
                               "--attempt-timeout limits the attempts of the item\n");
}

tide_status tide_cli_work_add(tide_cli *cli, tide_error *err)
{
    if (tide_cli_text(cli, TIDE_CLI_BATCH))
        return add_batch(cli, err);
    const char *input = tide_cli_text(cli, TIDE_CLI_INPUT);
    const char *type = tide_cli_text(cli, TIDE_CLI_TYPE);
    if (!tide_cli_text(cli, TIDE_CLI_TASK) || !type)
        return tide_fail(err, TIDE_E_INVALID, "an item needs --task ID and --type TYPE");
    tide_cli_note_attempt_timeout(cli);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data = tide_buffer_of(TIDE_WORK_DATA_MAX);
    if (input)
        TIDE_TRY(tide_cli_input_json(&data, input, "--input", err));
    const tide_cli_values depends = tide_cli_list(cli, TIDE_CLI_DEPENDS_ON);
    tide_work_spec item = {
        TIDE_WORK_SPEC_INIT,
        .work_item_id = tide_cli_text(cli, TIDE_CLI_WORK_ITEM),
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .work_type = type,
        .input = input ? tide_buffer_text(&data) : NULL,
        .priority = tide_cli_number(cli, TIDE_CLI_PRIORITY),
        .max_retries = tide_cli_is_given(cli, TIDE_CLI_MAX_RETRIES)
                           ? tide_cli_number(cli, TIDE_CLI_MAX_RETRIES)
                           : -1,
        .title = tide_cli_text(cli, TIDE_CLI_TITLE),
        .limit_key = tide_cli_text(cli, TIDE_CLI_LIMIT_KEY),
        .timeout_us = tide_cli_number(cli, TIDE_CLI_ATTEMPT_TIMEOUT),
        .unique_key = tide_cli_text(cli, TIDE_CLI_UNIQUE_KEY),
        .depends_on = depends.items,
        .depends_on_count = depends.count,
    };
    TIDE_TRY(fill_when(cli, &item, err));
    tide_work_added added = {.is_existing = false};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_work_add(store, &item, 1, &added, err));
    return tide_cli_print_added(cli, &added, err);
}
