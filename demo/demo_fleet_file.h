/* demo_fleet_file.h - how far simulated agents are, in a file: a line `NAME SESSION TICKS` each.
 *
 * Survives: it is written beside its name, synced and renamed: there is the old one or the new one. Threads: one at a time. */
#ifndef TIDE_DEMO_DEMO_FLEET_FILE_H
#define TIDE_DEMO_DEMO_FLEET_FILE_H

#include "demo/demo_sim.h"

/* spare: ticks that may pass before it is saved again; whoever loads it begins behind them. */
TIDE_MUST_CHECK tide_status tide_demo_fleet_save(const char *file, const tide_sim *sims, int count,
                                                 int64_t spare, tide_error *err);
/* Fills session and tick of those whose names stand there; the others stay as they are. No file: fine. */
TIDE_MUST_CHECK tide_status tide_demo_fleet_load(const char *file, tide_sim *sims, int count,
                                                 tide_error *err);

#endif
