#include "demo/demo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "base/cleanup.h"
#include "colony/registry.h"
#include "demo/demo_agent.h"
#include "demo/demo_fleet.h"
#include "demo/demo_internal.h"
#include "demo/demo_lake.h"
#include "demo/demo_replica.h"
#include "demo/demo_work.h"

#define KEEP_US INT64_C(1800000000)
#define RECOVER_US INT64_C(3000000)
#define FEED_KEEP_US INT64_C(600000000)
#define FEED_HARD_US INT64_C(1800000000)
enum { ATTEMPTS = 20, FEED_KEEP_BYTES = 16 << 20, FEED_HARD_BYTES = 32 << 20 };

/* ---- with up ---- */

/* An earlier start may have had more agents, which do not exist any more. */
typedef struct forgetting {
    const tide_demo *demo;
    char (*names)[TIDE_SIM_NAME_SIZE];
    int count;
} forgetting;

static tide_status note_stranger(void *arg, const tide_agent_row *agent, tide_error *err)
{
    forgetting *f = arg;
    (void)err;
    if (strcmp(agent->origin, "option") == 0 && strcmp(agent->agent_id, TIDE_UP_AGENT) != 0 &&
        tide_demo_find_agent(f->demo, agent->agent_id) < 0 && f->count < TIDE_DEMO_AGENTS_MAX &&
        strlen(agent->agent_id) < TIDE_SIM_NAME_SIZE)
        (void)snprintf(f->names[f->count++], TIDE_SIM_NAME_SIZE, "%s", agent->agent_id);
    return TIDE_OK;
}

static tide_status forget_strangers(const tide_demo *demo, tide_store *store, tide_error *err)
{
    TIDE_CLEANUP(tide_freep)
    char(*names)[TIDE_SIM_NAME_SIZE] = calloc(TIDE_DEMO_AGENTS_MAX, TIDE_SIM_NAME_SIZE);
    forgetting f = {.demo = demo, .names = names};
    TIDE_NEED_MEMORY(names, err);
    TIDE_TRY(tide_registry_list(store, false, note_stranger, &f, err));
    for (int i = 0; i < f.count; i++)
        TIDE_TRY(tide_registry_remove(store, names[i], err));
    return TIDE_OK;
}

static tide_status register_agents(const tide_demo *demo, tide_store *store, tide_error *err)
{
    TIDE_CLEANUP(tide_freep)
    tide_agent_given *given = calloc((size_t)demo->agent_count, sizeof *given);
    TIDE_CLEANUP(tide_freep)
    char(*addresses)[TIDE_DEMO_ADDRESS_SIZE] =
        calloc((size_t)demo->agent_count, TIDE_DEMO_ADDRESS_SIZE);
    TIDE_NEED_MEMORY(given && addresses, err);
    for (int i = 0; i < demo->agent_count; i++) {
        if (i < demo->process_count)
            (void)snprintf(addresses[i], TIDE_DEMO_ADDRESS_SIZE, "%s",
                           tide_demo_agent_address(demo->processes[i]));
        else
            tide_demo_fleet_address(demo->fleet, i - demo->process_count, addresses[i]);
        given[i] = (tide_agent_given){
            .agent_id = demo->names[i], .address = addresses[i], .origin = "option"};
    }
    TIDE_TRY(forget_strangers(demo, store, err));
    return tide_registry_put_all(store, given, demo->agent_count, err);
}

/* Let all components begin to end, so that they end in parallel. */
static void demo_leave(void *arg)
{
    tide_demo *demo = arg;
    tide_demo_lake_stop(demo->lake);
    tide_demo_work_stop(demo->work);
    for (int i = 0; i < demo->process_count; i++)
        tide_demo_agent_stop(demo->processes[i]);
}

static tide_status join(void *arg, tide_listener *listener, tide_error *err)
{
    tide_demo *demo = arg;
    TIDE_TRY(tide_listener_join(listener,
                                &(tide_listener_component){.leave = demo_leave, .arg = demo}, err));
    return tide_listener_add(listener, tide_demo_methods, NULL, demo, err);
}

static tide_status begin(void *arg, tide_store *store, const tide_listener *listener,
                         tide_error *err)
{
    tide_demo *demo = arg;
    const tide_demo_options *options = &demo->options;
    TIDE_TRY(register_agents(demo, store, err));
    TIDE_TRY(tide_demo_replica_begin(demo->replica, err));
    TIDE_TRY(tide_demo_lake_open(&demo->lake, tide_listener_inside(listener), options->env,
                                 options->log, err));
    const tide_demo_work_options work = {.program = options->program,
                                         .data_dir = options->data_dir,
                                         .store = store,
                                         .env = options->env,
                                         .log = options->log};
    TIDE_TRY(tide_demo_work_open(&demo->work, &work, err));
    if (options->greet) /* last: the address stays visible below what is reported before it */
        options->greet(tide_listener_address(listener, 0), options->tls_cert);
    return TIDE_OK;
}

/* Its store is closed next. */
static void end(void *arg)
{
    tide_demo *demo = arg;
    tide_demo_lake_close(demo->lake);
    demo->lake = NULL;
    tide_demo_work_close(demo->work);
    demo->work = NULL;
}

void tide_demo_tune(tide_demo *demo, tide_up_options *options)
{
    options->extra = (tide_up_extra){
        .join = join, .begin = begin, .end = end, .views = ",\"demo\"", .arg = demo};
    options->keep_us = KEEP_US;
    options->recover_us = RECOVER_US;
    options->attempt_max = ATTEMPTS;
    options->feed = (tide_feed_options){TIDE_FEED_OPTIONS_INIT, .keep_us = FEED_KEEP_US,
                                        .keep_bytes = FEED_KEEP_BYTES, .hard_us = FEED_HARD_US,
                                        .hard_bytes = FEED_HARD_BYTES};
    tide_demo_replica_join(demo->replica, &options->replicas);
}

/* ---- life ---- */

static void name_agents(tide_demo *demo)
{
    static const char *const places[] = {"berlin", "lyon", "porto", "oslo", "turin"};
    enum { PLACES = sizeof places / sizeof places[0] };
    for (int i = 0; i < demo->options.agent_count; i++) {
        (void)snprintf(demo->names[i], TIDE_SIM_NAME_SIZE, "shop-%s-%d", places[i % PLACES],
                       1 + i / PLACES);
        demo->pointers[i] = demo->names[i];
    }
    demo->agent_count = demo->options.agent_count;
}

static tide_status open_agents(tide_demo *demo, tide_error *err)
{
    const int half = (demo->agent_count + 1) / 2;
    const int processes = half < TIDE_DEMO_PROCESSES_MAX ? half : TIDE_DEMO_PROCESSES_MAX;
    for (int i = 0; i < processes; i++) {
        const tide_demo_agent_options options = {.program = demo->options.program,
                                                 .dir = demo->dir,
                                                 .name = demo->names[i],
                                                 .number = i,
                                                 .env = demo->options.env,
                                                 .log = demo->options.log};
        TIDE_TRY(tide_demo_agent_open(&demo->processes[i], &options, err));
        demo->process_count++;
    }
    if (demo->agent_count == processes)
        return TIDE_OK;
    (void)snprintf(demo->fleet_file, sizeof demo->fleet_file, "%s/fleet", demo->dir);
    return tide_demo_fleet_open(
        &demo->fleet,
        &(tide_demo_fleet_options){.file = demo->fleet_file,
                                   .names = demo->pointers + demo->process_count,
                                   .count = demo->agent_count - demo->process_count,
                                   .env = demo->options.env,
                                   .log = demo->options.log},
        err);
}

static tide_status open_all(tide_demo *demo, tide_error *err)
{
    const tide_demo_options *options = &demo->options;
    if (snprintf(demo->dir, sizeof demo->dir, "%s/demo", options->data_dir) >=
        (int)sizeof demo->dir)
        return tide_fail(err, TIDE_E_INVALID, "the directory's name is too long");
    if ((mkdir(options->data_dir, 0700) != 0 && errno != EEXIST) ||
        (mkdir(demo->dir, 0700) != 0 && errno != EEXIST))
        return tide_fail(err, errno == EACCES ? TIDE_E_DENIED : TIDE_E_IO, "%s cannot be made: %s",
                         demo->dir, strerror(errno));
    TIDE_TRY(tide_demo_replica_open(&demo->replica, demo->dir, options->env, options->log, err));
    name_agents(demo);
    return open_agents(demo, err);
}

tide_status tide_demo_open(tide_demo **out, const tide_demo_options *options, tide_error *err)
{
    TIDE_NEW(tide_demo, demo, err);
    demo->options = *options;
    if (demo->options.agent_count <= 0)
        demo->options.agent_count = TIDE_DEMO_AGENTS;
    if (demo->options.agent_count > TIDE_DEMO_AGENTS_MAX)
        demo->options.agent_count = TIDE_DEMO_AGENTS_MAX;
    const tide_status status = open_all(demo, err);
    if (status < TIDE_OK) {
        tide_demo_close(demo);
        return status;
    }
    *out = demo;
    return TIDE_OK;
}

void tide_demo_close(tide_demo *demo)
{
    if (!demo)
        return;
    tide_demo_lake_close(demo->lake);
    tide_demo_work_close(demo->work);
    tide_demo_replica_close(demo->replica);
    for (int i = 0; i < demo->process_count; i++)
        tide_demo_agent_stop(demo->processes[i]);
    for (int i = 0; i < demo->process_count; i++)
        tide_demo_agent_close(demo->processes[i]);
    tide_demo_fleet_close(demo->fleet);
    free(demo);
}
