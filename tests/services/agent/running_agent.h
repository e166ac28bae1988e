/* running_agent.h - a real process that serves (agent, serve, colony), and calls to it by our own client.
 *
 * Threads: a running_agent belongs to one thread; calls through its target may be made by any client. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "net/client/client.h"
#include "support/process/proc.h"
#include "tidemark_agent_v1_agent.pb-c.h"

enum { RUNNING_AGENT_ADDRESS = 64, RUNNING_AGENT_ARGS = 32 };

typedef struct running_agent {
    proc process;
    char grpc[RUNNING_AGENT_ADDRESS]; /* HOST:PORT */
    char http[RUNNING_AGENT_ADDRESS];
} running_agent;

/* Start `tidemark VERB --store STORE ...` and wait for its ready line; serve and colony have one port, which is then both. more: further arguments, NULL at the end, or NULL. */
TIDE_MUST_CHECK tide_status running_agent_start(running_agent *agent, const char *verb,
                                                const char *store, const char *const *more,
                                                tide_error *err);
/* SIGTERM, and it must end with 0. */
TIDE_MUST_CHECK tide_status running_agent_stop(running_agent *agent, tide_error *err);
void running_agent_kill(running_agent *agent);

/* A client of the gRPC port. */
TIDE_MUST_CHECK tide_status running_agent_client(const running_agent *agent, tide_client **out,
                                                 tide_error *err);

/* One call of tidemark.agent.v1.AgentService; *response is to be freed with protobuf_c_message_free_unpacked. */
TIDE_MUST_CHECK tide_status running_agent_call(tide_client *client, const char *method,
                                               const ProtobufCMessage *request,
                                               const ProtobufCMessageDescriptor *answers,
                                               ProtobufCMessage **response, tide_error *err);

/* One request to the HTTP port, JSON by POST, or GET where body is NULL; returns the code of the answer, 0: there was none. */
int running_agent_http(const running_agent *agent, const char *path, const char *body);
/* The body of a GET, for free; NULL: there was none, or a code other than 200. */
char *running_agent_get(const running_agent *agent, const char *path);
