/* colony_calls.h - a colony on the case's store, with real agents beside it.
 *
 * An agent has the name and the store file NAME.db in the case's directory, and looks at nothing by itself: what is in it was sent by the case. The
 * colony is `tidemark colony`, as a daemon or as commands.
 *
 * Threads: one. */
#pragma once

#include "cli/cli_run.h"
#include "services/agent/running_agent.h"

enum { COLONY_WAIT_MS = 60000 };

/* Processes live until they are stopped, or the case ends (kill_all). */
const running_agent *start_agent(cli_fixture *t, const char *name);
/* NAME=HOST:PORT; lives until the next call. */
const char *agent_option(const running_agent *agent, const char *name);
/* one span per call, acknowledged */
void send_spans(const running_agent *agent, int count);
/* one record of each of the 8 data types */
void send_everything(const running_agent *agent);

running_agent *start_colony(cli_fixture *t, const char *const *more);
void stop_colony(cli_fixture *t, running_agent *colony);
void kill_all(cli_fixture *t);
/* colony poll --once, which must succeed */
void poll_once(cli_fixture *t, const running_agent *agent, const char *name);

/* The whole numbers of a query's only row, in its column n. */
int64_t query_number(cli_fixture *t, const char *sql);
/* Ask again until it is this, or the test fails: for what a daemon does in its own time. */
void wait_for_number(cli_fixture *t, const char *sql, int64_t want);

/* The line with these values; NULL: there is none. */
const tide_json_node *find_line(const tide_json_node *lines, const char *key, const char *value);
