/* demo_service.c - tidemark.up.v1.DemoService: participants, and faults on request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "demo/demo_internal.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "tidemark_up_v1_up.pb-c.h"

#define UP(type_) Tidemark__Up__V1__##type_
#define UP_INIT(type_) TIDEMARK__UP__V1__##type_##__INIT

enum { TEXT_SIZE = 256, RESPONSE_MAX = 4 << 20 };

typedef struct fault_row {
    const char *name;
    int64_t for_us;
    bool is_agents;
    const char *words;
} fault_row;

static const fault_row faults[TIDE_DEMO_FAULT_COUNT] = {
#define ROW(id_, name_, seconds_, is_agents_, words_)                                              \
    [TIDE_DEMO_##id_] = {.name = (name_),                                                          \
                         .for_us = INT64_C(1000000) * (seconds_),                                  \
                         .is_agents = (is_agents_),                                                \
                         .words = (words_)},
    TIDE_DEMO_FAULTS(ROW)
#undef ROW
};

/* Records that were never read are lost with the process, and no reader can miss them. */
static const char wipe_words[] =
    "%s loses its store: a new session begins; numbers that were never read are unknown";

static int find_fault(const char *name)
{
    for (int i = 0; i < TIDE_DEMO_FAULT_COUNT; i++)
        if (strcmp(faults[i].name, name) == 0)
            return i;
    return -1;
}

int tide_demo_find_agent(const tide_demo *demo, const char *name)
{
    for (int i = 0; i < demo->agent_count; i++)
        if (strcmp(demo->names[i], name) == 0)
            return i;
    return -1;
}

static tide_demo_standing check(const tide_demo *demo, int index)
{
    return index < demo->process_count
               ? tide_demo_agent_show(demo->processes[index])
               : tide_demo_fleet_show(demo->fleet, index - demo->process_count);
}

/* ---- looking ---- */

static tide_status put_message(tide_buffer *out, uint32_t field, const ProtobufCMessage *message,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(RESPONSE_MAX);
    TIDE_TRY(tide_rpc_pack(&bytes, message, err));
    return tide_rpc_put_bytes(out, field, tide_buffer_view(&bytes), err);
}

static void fill_text(char out[TEXT_SIZE], const char *words, const char *agent)
{
    const char *at = strstr(words, "%s");
    if (at)
        (void)snprintf(out, TEXT_SIZE, "%.*s%s%s", (int)(at - words), words, agent, at + 2);
    else
        (void)snprintf(out, TEXT_SIZE, "%s", words);
}

static tide_status put_agents(const tide_demo *demo, tide_buffer *out, tide_error *err)
{
    for (int i = 0; i < demo->agent_count; i++) {
        const tide_demo_standing standing = check(demo, i);
        UP(DemoAgent) agent = UP_INIT(DEMO_AGENT);
        agent.name = tide_rpc_borrow(demo->names[i]);
        agent.kind = tide_rpc_borrow(i < demo->process_count ? "process" : "simulated");
        agent.state = tide_rpc_borrow(standing.state);
        agent.for_ms = standing.for_us / 1000;
        TIDE_TRY(tide_rpc_put_bytes(out, 1, tide_view_of(demo->names[i]), err));
        TIDE_TRY(put_message(out, 3, &agent.base, err));
    }
    return TIDE_OK;
}

static tide_status put_faults(tide_buffer *out, tide_error *err)
{
    for (int i = 0; i < TIDE_DEMO_FAULT_COUNT; i++) {
        char words[TEXT_SIZE];
        UP(DemoFault) fault = UP_INIT(DEMO_FAULT);
        fill_text(words, faults[i].words, "an agent");
        fault.name = tide_rpc_borrow(faults[i].name);
        fault.text = words;
        fault.wants_agent = faults[i].is_agents;
        TIDE_TRY(tide_rpc_put_bytes(out, 2, tide_view_of(faults[i].name), err));
        TIDE_TRY(put_message(out, 4, &fault.base, err));
    }
    return TIDE_OK;
}

static tide_status put_workers(const tide_demo *demo, tide_buffer *out, tide_error *err)
{
    int64_t pids[TIDE_DEMO_WORKERS];
    tide_demo_work_show(demo->work, pids);
    for (int i = 0; i < TIDE_DEMO_WORKERS; i++) {
        char name[32];
        UP(DemoWorker) worker = UP_INIT(DEMO_WORKER);
        (void)snprintf(name, sizeof name, "worker-%d", i + 1);
        worker.name = name;
        worker.pid = pids[i];
        TIDE_TRY(put_message(out, 5, &worker.base, err));
    }
    return TIDE_OK;
}

static void run_get_demo(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    tide_error err = {0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(RESPONSE_MAX);
    tide_status status = put_agents(arg, &out, &err);
    if (status >= TIDE_OK)
        status = put_faults(&out, &err);
    if (status >= TIDE_OK)
        status = put_workers(arg, &out, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
    else
        tide_call_respond(call, tide_buffer_view(&out));
}

/* ---- breaking ---- */

/* Gaps are made by simulated agents, which can show them, unless the request names another. */
static int choose(const tide_demo *demo, tide_demo_fault fault)
{
    uint64_t bits = 0;
    demo->options.env->random(demo->options.env, &bits, sizeof bits);
    const int simulated = demo->agent_count - demo->process_count;
    if ((fault == TIDE_DEMO_LATE || fault == TIDE_DEMO_WIPE) && simulated > 0)
        return demo->process_count + (int)(bits % (uint64_t)simulated);
    const int first = (int)(bits % (uint64_t)demo->agent_count);
    for (int i = 0; fault == TIDE_DEMO_RESUME && i < demo->agent_count; i++) {
        const char *state = check(demo, i).state;
        if (strcmp(state, "paused") == 0 || strcmp(state, "dropped") == 0)
            return i;
    }
    return first;
}

static tide_status disturb_agent(tide_demo *demo, tide_demo_fault fault, const char *name,
                                 char words[TEXT_SIZE], const char **agent, tide_error *err)
{
    const int index = *name ? tide_demo_find_agent(demo, name) : choose(demo, fault);
    if (index < 0)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "no agent '%s' in the demonstration: 'tidemark demo ls' lists them", name);
    const bool is_process = index < demo->process_count;
    if (is_process && fault == TIDE_DEMO_LATE)
        return tide_fail(err, TIDE_E_INVALID,
                         "%s is a real agent, whose records are not late: choose a simulated one "
                         "('tidemark demo ls')",
                         demo->names[index]);
    if (is_process)
        tide_demo_agent_disturb(demo->processes[index], fault, faults[fault].for_us);
    else
        tide_demo_fleet_disturb(demo->fleet, index - demo->process_count, fault,
                                faults[fault].for_us);
    *agent = demo->names[index];
    fill_text(words, is_process && fault == TIDE_DEMO_WIPE ? wipe_words : faults[fault].words,
              *agent);
    return TIDE_OK;
}

static tide_status disturb(tide_demo *demo, const UP(DisturbRequest) * request,
                           char words[TEXT_SIZE], const char **agent, tide_error *err)
{
    int number = 0;
    const int fault = find_fault(request->fault);
    if (fault < 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "no fault '%s': there are pause, resume, drop, late, wipe, kill",
                         request->fault);
    if (faults[fault].is_agents)
        return disturb_agent(demo, (tide_demo_fault)fault, request->agent, words, agent, err);
    TIDE_TRY(tide_demo_work_kill(demo->work, &number, err));
    fill_text(words, faults[fault].words, "");
    return TIDE_OK;
}

static void run_disturb(tide_call *call, tide_view message, void *arg)
{
    tide_error err = {0};
    ProtobufCMessage *request = NULL;
    char words[TEXT_SIZE] = "";
    const char *agent = "";
    tide_status status = tide_call_decode(call, message, &request, &err);
    if (status >= TIDE_OK)
        status = disturb(arg, (const UP(DisturbRequest) *)request, words, &agent, &err);
    if (status < TIDE_OK) {
        tide_call_end(call, status, &err);
        return;
    }
    UP(DisturbResponse) response = UP_INIT(DISTURB_RESPONSE);
    response.agent = tide_rpc_borrow(agent);
    response.text = words;
    tide_call_respond_message(call, &response.base);
}

const tide_method tide_demo_methods[] = {
    TIDE_RPC_ROW("/tidemark.up.v1.DemoService", "GetDemo", READ, up__v1__get_demo_request,
                 up__v1__get_demo_response, get_demo),
    TIDE_RPC_ROW("/tidemark.up.v1.DemoService", "Disturb", ADMIN, up__v1__disturb_request,
                 up__v1__disturb_response, disturb),
    {.path = NULL},
};
