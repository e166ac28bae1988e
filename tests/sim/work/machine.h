/* machine.h - the machine that the store is on: it serves requests, and its clock is set and its power cut.
 *
 * One machine, one store, on SQLite without a writer thread: what happens is decided by the seed alone. Every request is one
 * call of the library, or one statement of a foreign client; behind each the tables are read and judged by the model.
 *
 *     wall clock     set forward and back by up to WORK_JUMP_MAX_US, at any time
 *     reboot         a new boot id, the boot clock at 0; every process on the machine is gone
 *
 * Threads: none. */
#pragma once

#include <tidemark/tidemark.h>

#include "sim/work/client.h"
#include "sim/work/model.h"
#include "support/sim/sim.h"
#include "support/store_fixture.h"

#define WORK_JUMP_MAX_US (INT64_C(600) * SIM_SECOND_US)

typedef struct work_machine {
    tide_env env; /* first: the store's env is the machine */
    sim *world;
    sim_id id;
    tide_engine engine;
    tempdir dir;
    char url[PG_CLUSTER_URL_MAX];
    tide_store *store;
    work_client *client;
    work_model model;
    work_snapshot seen;
    char version[32]; /* of the database, as of `seen` */
    int64_t base_us;  /* wall time at the beginning */
    int64_t ahead_us; /* how far the wall clock was set wrong */
    int64_t booted_us;
    char boot_id[TIDE_BOOT_ID_SIZE];
    prng random;
} work_machine;

/* Adds itself to the world, makes the store and the plan's tasks. */
void work_machine_init(work_machine *m, sim *world, tide_engine engine, const work_plan *plan);
void work_machine_done(work_machine *m);

/* Do it, read the tables, judge. A wrong answer or row fails the world. */
void work_machine_serve(work_machine *m, const work_request *request, work_answer *answer);

void work_machine_set_wall(work_machine *m, int64_t ahead_us);

/* The processes are the caller's to end. */
void work_machine_reboot(work_machine *m);

/* The journal, all of it, as the library verifies it. */
void work_machine_verify(work_machine *m);

/* serve.c: the calls. */
void work_serve_call(work_machine *m, const work_request *request, work_answer *answer);
