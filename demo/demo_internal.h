/* demo_internal.h - state shared by demo.c (open, close) and demo_service.c (participants, faults
 * on request). */
#pragma once

#include "demo/demo.h"
#include "demo/demo_agent.h"
#include "demo/demo_fleet.h"
#include "demo/demo_lake.h"
#include "demo/demo_replica.h"
#include "demo/demo_sim.h"
#include "demo/demo_work.h"
#include "net/call/call.h"

enum { TIDE_DEMO_PATH_SIZE = 4096 };

struct tide_demo {
    tide_demo_options options;
    char dir[TIDE_DEMO_PATH_SIZE];
    char fleet_file[TIDE_DEMO_PATH_SIZE + 8];
    char names[TIDE_DEMO_AGENTS_MAX][TIDE_SIM_NAME_SIZE];
    const char *pointers[TIDE_DEMO_AGENTS_MAX]; /* to the names */
    int agent_count;
    tide_demo_agent *processes[TIDE_DEMO_PROCESSES_MAX]; /* the first of the names */
    int process_count;
    tide_demo_fleet *fleet; /* the others; NULL: there are none */
    tide_demo_work *work;
    tide_demo_replica *replica;
    tide_demo_lake *lake;
};

/* -1: there is none of that name. */
int tide_demo_find_agent(const tide_demo *demo, const char *name);

/* tidemark.up.v1.DemoService; the argument is a tide_demo. */
extern const tide_method tide_demo_methods[];
