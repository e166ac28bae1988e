/* demo_fleet.h - simulated agents of the demonstration, up to a few thousand, behind one port
 * (demo_sim.h).
 *
 * Each is called NAME.localhost:PORT, which is this machine; the name in the authority of a request
 * selects the agent. So each has connections, requests and responses of its own, as in a fleet, and
 * needs no process.
 *
 *     thread     moves the clock of each agent, answers calls that wait, saves positions
 *     calls      are answered at once, on the server's loops
 *
 * The clocks move only while it runs. Positions are stored in a file every few seconds, with some
 * ticks to spare: after kill -9 numbers continue above all that were ever assigned.
 *
 * Threads: its own, and those of its server; every function may be called from any thread. */
#pragma once

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/log.h"
#include "demo/demo_fault.h"
#include "demo/demo_sim.h"

typedef struct tide_demo_fleet tide_demo_fleet;

typedef struct tide_demo_fleet_options {
    const char *file; /* where it is kept how far they are */
    const char *const *names;
    int count;
    tide_env *env;
    tide_log *log;
} tide_demo_fleet_options;

/* What the options point to must outlive it. */
TIDE_MUST_CHECK tide_status tide_demo_fleet_open(tide_demo_fleet **out,
                                                 const tide_demo_fleet_options *options,
                                                 tide_error *err);
void tide_demo_fleet_close(tide_demo_fleet *fleet); /* takes NULL */

/* NAME.localhost:PORT; buffers of TIDE_DEMO_ADDRESS_SIZE. */
enum { TIDE_DEMO_ADDRESS_SIZE = 80 };
void tide_demo_fleet_address(const tide_demo_fleet *fleet, int index, char *out);

void tide_demo_fleet_disturb(tide_demo_fleet *fleet, int index, tide_demo_fault fault,
                             int64_t for_us);
tide_demo_standing tide_demo_fleet_show(tide_demo_fleet *fleet, int index);

/* ---- how far simulated agents are, in a file ---- */

/* spare: ticks that may pass before it is saved again; a load begins behind them. */
TIDE_MUST_CHECK tide_status tide_demo_fleet_save(const char *file, const tide_sim *sims, int count,
                                                 int64_t spare, tide_error *err);
/* Fills session and tick of those whose names stand there; the others stay as they are. No file:
 * fine. */
TIDE_MUST_CHECK tide_status tide_demo_fleet_load(const char *file, tide_sim *sims, int count,
                                                 tide_error *err);
