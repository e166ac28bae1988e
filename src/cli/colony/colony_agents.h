/* colony_agents.h - agents that a colony is given: --agent NAME=ADDRESS, and --agents FILE with NAME ADDRESS (or NAME=ADDRESS) per line, # for
 * comments.
 *
 * All are read and checked before the first is kept: one that is wrong, or two of one name, and nothing has been changed.
 *
 * Threads: one. */
#pragma once

#include "base/arena.h"
#include "cli/frame/cli.h"
#include "colony/registry.h"

typedef struct tide_cli_agents {
    tide_arena texts;
    tide_agent_given *items;
    int count;
} tide_cli_agents;

/* To be given back also after a failure. TIDE_E_INVALID, in words. */
TIDE_MUST_CHECK tide_status tide_cli_agents_read(tide_cli_agents *out, const tide_cli *cli,
                                                 tide_error *err);
void tide_cli_agents_done(tide_cli_agents *agents); /* fits TIDE_CLEANUP after a read */

/* Into the registry, where they stay. */
TIDE_MUST_CHECK tide_status tide_cli_agents_put(const tide_cli_agents *agents, tide_store *store,
                                                tide_error *err);
