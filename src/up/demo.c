#include "up/demo.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "base/cleanup.h"
#include "colony/registry.h"
#include "rpc/messages.h"
#include "rpc/rpc.h"
#include "tidemark_up_v1_up.pb-c.h"
#include "up/demo_agent.h"
#include "up/demo_work.h"

enum { PATH_SIZE = 4096, NAME_SIZE = 32 };

#define PAUSE_US INT64_C(20000000)
#define DROP_US INT64_C(10000000)

struct tide_demo {
    tide_demo_options options;
    char dir[PATH_SIZE];
    char names[TIDE_DEMO_AGENTS_MAX][NAME_SIZE];
    tide_demo_agent *agents[TIDE_DEMO_AGENTS_MAX];
    int agent_count;
    tide_demo_work *work;
};

/* ---- faults ---- */

typedef struct fault {
    const char *name;
    const char *words; /* with the agent's name */
} fault;

static const fault faults[] = {
    {"pause", "%s does not answer for 20 s: it goes to away, and catches up afterwards"},
    {"drop",
     "connections to %s break off for 10 s: pages are asked for again, nothing is stored twice"},
    {"wipe", "%s lost its store: a new session begins, what nobody had read is told as lost"},
    {"kill", "a worker was killed with kill -9: its lease runs out, and another goes on from its "
             "checkpoint"},
};
enum { FAULTS = sizeof faults / sizeof faults[0], KILL = 3 };

static int find_fault(const char *name)
{
    for (int i = 0; i < FAULTS; i++)
        if (strcmp(faults[i].name, name) == 0)
            return i;
    return -1;
}

/* NULL: there is none of that name. */
static tide_demo_agent *find_agent(const tide_demo *demo, const char *name)
{
    uint64_t bits = 0;
    demo->options.env->random(demo->options.env, &bits, sizeof bits);
    if (!*name)
        return demo->agents[bits % (uint64_t)demo->agent_count];
    for (int i = 0; i < demo->agent_count; i++)
        if (strcmp(demo->names[i], name) == 0)
            return demo->agents[i];
    return NULL;
}

static void break_agent(tide_demo_agent *agent, int index)
{
    if (index == 0)
        tide_demo_agent_pause(agent, PAUSE_US);
    else if (index == 1)
        tide_demo_agent_drop(agent, DROP_US);
    else
        tide_demo_agent_wipe(agent);
}

/* ---- the service ---- */

typedef Tidemark__Up__V1__DisturbRequest disturb_request;
typedef Tidemark__Up__V1__DisturbResponse disturb_response;
typedef Tidemark__Up__V1__GetDemoResponse demo_response;

static void serve_demo(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    const tide_demo *demo = arg;
    char *names[TIDE_DEMO_AGENTS_MAX];
    char *words[FAULTS];
    demo_response response = TIDEMARK__UP__V1__GET_DEMO_RESPONSE__INIT;
    for (int i = 0; i < demo->agent_count; i++)
        names[i] = tide_rpc_borrow(demo->names[i]);
    for (int i = 0; i < FAULTS; i++)
        words[i] = tide_rpc_borrow(faults[i].name);
    response.agents = names;
    response.n_agents = (size_t)demo->agent_count;
    response.faults = words;
    response.n_faults = FAULTS;
    tide_call_reply_message(call, &response.base);
}

static tide_status break_something(tide_demo *demo, const disturb_request *request, char words[256],
                                   const char **agent, tide_error *err)
{
    const int index = find_fault(request->fault);
    if (index < 0)
        return tide_fail(err, TIDE_E_INVALID, "no fault '%s': there are pause, drop, wipe, kill",
                         request->fault);
    if (index == KILL) {
        TIDE_TRY(tide_demo_work_kill(demo->work, err));
        (void)snprintf(words, 256, "%s", faults[index].words);
        return TIDE_OK;
    }
    tide_demo_agent *chosen = find_agent(demo, request->agent);
    if (!chosen)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no agent '%s' in the demonstration",
                         request->agent);
    break_agent(chosen, index);
    *agent = tide_demo_agent_name(chosen);
    const char *at = strstr(faults[index].words, "%s");
    (void)snprintf(words, 256, "%.*s%s%s", (int)(at - faults[index].words), faults[index].words,
                   *agent, at + 2);
    return TIDE_OK;
}

static void serve_break(tide_call *call, tide_view message, void *arg)
{
    tide_error err = {0};
    ProtobufCMessage *request = NULL;
    char words[256] = "";
    const char *agent = "";
    tide_status status = tide_call_decode(call, message, &request, &err);
    if (status >= TIDE_OK)
        status = break_something(arg, (const disturb_request *)request, words, &agent, &err);
    if (status < TIDE_OK) {
        tide_call_end(call, status, &err);
        return;
    }
    disturb_response response = TIDEMARK__UP__V1__DISTURB_RESPONSE__INIT;
    response.agent = tide_rpc_borrow(agent);
    response.words = words;
    tide_call_reply_message(call, &response.base);
}

static const tide_method methods[] = {
    {.path = "/tidemark.up.v1.DemoService/GetDemo",
     .role = TIDE_ROLE_READ,
     .is_blocking = true,
     .request = &tidemark__up__v1__get_demo_request__descriptor,
     .response = &tidemark__up__v1__get_demo_response__descriptor,
     .run = serve_demo},
    {.path = "/tidemark.up.v1.DemoService/Disturb",
     .role = TIDE_ROLE_ADMIN,
     .is_blocking = true,
     .request = &tidemark__up__v1__disturb_request__descriptor,
     .response = &tidemark__up__v1__disturb_response__descriptor,
     .run = serve_break},
    {.path = NULL},
};

/* ---- with up ---- */

static tide_status join(void *arg, tide_front *front, tide_error *err)
{
    return tide_front_add(front, methods, NULL, arg, err);
}

static tide_status begin(void *arg, tide_store *store, tide_error *err)
{
    tide_demo *demo = arg;
    for (int i = 0; i < demo->agent_count; i++)
        TIDE_TRY(tide_registry_put(store, demo->names[i], tide_demo_agent_address(demo->agents[i]),
                                   "option", err));
    return tide_demo_work_open(&demo->work,
                               &(tide_demo_work_options){.program = demo->options.program,
                                                         .data_dir = demo->options.data_dir,
                                                         .store = store,
                                                         .env = demo->options.env,
                                                         .log = demo->options.log},
                               err);
}

/* Its store is closed next. */
static void end(void *arg)
{
    tide_demo *demo = arg;
    tide_demo_work_close(demo->work);
    demo->work = NULL;
}

tide_up_extra tide_demo_extra(tide_demo *demo)
{
    return (tide_up_extra){
        .join = join, .begin = begin, .end = end, .views = ",\"demo\"", .arg = demo};
}

/* ---- life ---- */

static tide_status open_agents(tide_demo *demo, tide_error *err)
{
    static const char *const places[] = {"berlin", "lyon", "porto", "oslo", "turin"};
    enum { PLACES = sizeof places / sizeof places[0] };
    for (int i = 0; i < demo->options.agent_count; i++) {
        (void)snprintf(demo->names[i], NAME_SIZE, "shop-%s-%d", places[i % PLACES], 1 + i / PLACES);
        const tide_demo_agent_options options = {.program = demo->options.program,
                                                 .dir = demo->dir,
                                                 .name = demo->names[i],
                                                 .number = i,
                                                 .env = demo->options.env,
                                                 .log = demo->options.log};
        TIDE_TRY(tide_demo_agent_open(&demo->agents[i], &options, err));
        demo->agent_count++;
    }
    return TIDE_OK;
}

tide_status tide_demo_open(tide_demo **out, const tide_demo_options *options, tide_error *err)
{
    tide_demo *demo = calloc(1, sizeof *demo);
    if (!demo)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for the demonstration");
    demo->options = *options;
    if (demo->options.agent_count == 0)
        demo->options.agent_count = TIDE_DEMO_AGENTS;
    (void)snprintf(demo->dir, sizeof demo->dir, "%s/demo", options->data_dir);
    tide_status status = TIDE_OK;
    if ((mkdir(options->data_dir, 0700) != 0 && errno != EEXIST) ||
        (mkdir(demo->dir, 0700) != 0 && errno != EEXIST))
        status = tide_fail(err, TIDE_E_IO, "%s cannot be made: %s", demo->dir, strerror(errno));
    if (status >= TIDE_OK)
        status = open_agents(demo, err);
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
    tide_demo_work_close(demo->work);
    for (int i = 0; i < demo->agent_count; i++)
        tide_demo_agent_close(demo->agents[i]);
    free(demo);
}
