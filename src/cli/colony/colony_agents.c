#include "cli/colony/colony_agents.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/list.h"

enum { FILE_MAX = 8 << 20, TEXTS_MAX = 64 << 20 };

void tide_cli_agents_done(tide_cli_agents *agents)
{
    tide_arena_done(&agents->texts);
    free(agents->items);
    agents->items = NULL;
}

/* ---- one agent ---- */

static tide_status add(tide_cli_agents *agents, tide_view name, tide_view address,
                       const char *origin, tide_error *err)
{
    TIDE_TRY(
        tide_list_room(&agents->items, agents->count, sizeof *agents->items, TIDE_LIST_MAX, err));
    const tide_agent_given agent = {.agent_id = tide_arena_text(&agents->texts, name),
                                    .address = tide_arena_text(&agents->texts, address),
                                    .origin = origin};
    TIDE_NEED_MEMORY(agent.agent_id && agent.address, err);
    TIDE_TRY(tide_registry_check(agent.agent_id, agent.address, err));
    agents->items[agents->count++] = agent;
    return TIDE_OK;
}

static tide_status add_option(tide_cli_agents *agents, const char *text, tide_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return tide_fail(err, TIDE_E_INVALID, "--agent wants NAME=HOST:PORT, not '%s'", text);
    return add(agents, tide_view_bytes(text, (size_t)(equals - text)), tide_view_of(equals + 1),
               "option", err);
}

/* ---- a file of them ---- */

static tide_status add_line(tide_cli_agents *agents, tide_view line, tide_error *err)
{
    static const char blanks[] = " \t\r";
    const char *at = line.ptr;
    const char *end = memchr(at, '#', line.len);
    end = end ? end : at + line.len;
    while (at < end && strchr(blanks, *at))
        at++;
    while (at < end && strchr(blanks, end[-1]))
        end--;
    if (at == end)
        return TIDE_OK;
    const char *name_end = at;
    while (name_end < end && *name_end != '=' && !strchr(blanks, *name_end))
        name_end++;
    const char *address = name_end;
    while (address < end && strchr(blanks, *address))
        address++;
    if (address < end && *address == '=')
        address++;
    while (address < end && strchr(blanks, *address))
        address++;
    if (address == end)
        return tide_fail(err, TIDE_E_INVALID, "'%.*s' has no address: NAME HOST:PORT",
                         (int)(name_end - at), at);
    return add(agents, tide_view_bytes(at, (size_t)(name_end - at)),
               tide_view_bytes(address, (size_t)(end - address)), "file", err);
}

static tide_status add_file(tide_cli_agents *agents, const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(FILE_MAX);
    TIDE_TRY(tide_file_read(&text, path, err));
    const char *at = tide_buffer_text(&text);
    const char *end = at + text.len;
    if (memchr(at, '\0', text.len))
        return tide_fail(err, TIDE_E_INVALID, "%s has a NUL in it", path);
    for (int number = 1; at < end; number++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        const tide_status status =
            add_line(agents, tide_view_bytes(at, (size_t)(line_end - at)), err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "%s:%d", path, number);
        at = line_end + 1;
    }
    return TIDE_OK;
}

/* ---- all ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const tide_agent_given *)a)->agent_id, ((const tide_agent_given *)b)->agent_id);
}

static tide_status check_names(tide_cli_agents *agents, tide_error *err)
{
    if (agents->count > 1)
        qsort(agents->items, (size_t)agents->count, sizeof *agents->items, compare_names);
    for (int i = 1; i < agents->count; i++)
        if (strcmp(agents->items[i - 1].agent_id, agents->items[i].agent_id) == 0)
            return tide_fail(err, TIDE_E_INVALID, "the agent '%s' is given twice",
                             agents->items[i].agent_id);
    return TIDE_OK;
}

tide_status tide_cli_agents_read(tide_cli_agents *out, const tide_cli *cli, tide_error *err)
{
    const tide_cli_values given = tide_cli_list(cli, TIDE_CLI_AGENT);
    const char *file = tide_cli_text(cli, TIDE_CLI_AGENTS);
    *out = (tide_cli_agents){.count = 0};
    tide_arena_init(&out->texts, TEXTS_MAX);
    for (int i = 0; i < given.count; i++)
        TIDE_TRY(add_option(out, given.items[i], err));
    if (file)
        TIDE_TRY(add_file(out, file, err));
    return check_names(out, err);
}

tide_status tide_cli_agents_put(const tide_cli_agents *agents, tide_store *store, tide_error *err)
{
    return tide_registry_put_all(store, agents->items, agents->count, err);
}
