#include "agent/running_agent.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { READY_MS = 60000, STOP_MS = 60000 };

static tide_status read_line(proc *process, char *line, size_t size, tide_error *err)
{
    const int64_t until_ms = proc_now_ms() + READY_MS;
    for (size_t len = 0; len + 1 < size;) {
        struct pollfd fd = {.fd = process->out_fd, .events = POLLIN};
        const int64_t left_ms = until_ms - proc_now_ms();
        if (left_ms <= 0 || poll(&fd, 1, (int)left_ms) <= 0)
            return tide_fail(err, TIDE_E_TIMEOUT, "not ready after %d ms", READY_MS);
        if (read(process->out_fd, line + len, 1) != 1)
            return tide_fail(err, TIDE_E_FAILED, "it ended before it was ready");
        if (line[len] == '\n') {
            line[len] = '\0';
            return TIDE_OK;
        }
        len++;
    }
    return tide_fail(err, TIDE_E_LIMIT, "a very long line");
}

/* The value behind "name=" in the ready line. */
static void take_address(char out[RUNNING_AGENT_ADDRESS], const char *line, const char *name)
{
    const char *at = strstr(line, name);
    if (at)
        (void)snprintf(out, RUNNING_AGENT_ADDRESS, "%.*s", (int)strcspn(at + strlen(name), " "),
                       at + strlen(name));
}

tide_status running_agent_start(running_agent *agent, const char *verb, const char *store,
                                const char *const *more, tide_error *err)
{
    char program[PATH_MAX];
    *agent = (running_agent){.process = {.in_fd = -1, .out_fd = -1, .err_fd = -1}};
    TIDE_TRY(proc_find("tidemark", program, err));
    const bool is_agent = strcmp(verb, "agent") == 0;
    const char *argv[RUNNING_AGENT_ARGS] = {
        program, verb, "--store", store, is_agent ? "--grpc" : "--listen", "127.0.0.1:0"};
    int count = 6;
    if (is_agent) {
        argv[count++] = "--http";
        argv[count++] = "127.0.0.1:0";
    }
    for (; more && *more && count + 1 < RUNNING_AGENT_ARGS; more++)
        argv[count++] = *more;
    TIDE_TRY(proc_start(&agent->process, &(proc_options){.argv = argv, .out = PROC_PIPE}, err));
    char line[1024];
    TIDE_TRY(read_line(&agent->process, line, sizeof line, err));
    take_address(agent->grpc, line, is_agent ? "grpc=" : "listen=");
    take_address(agent->http, line, is_agent ? "http=" : "listen=");
    if (strncmp(line, "ready ", 6) != 0 || !agent->grpc[0])
        return tide_fail(err, TIDE_E_FAILED, "it says '%s'", line);
    return TIDE_OK;
}

tide_status running_agent_stop(running_agent *agent, tide_error *err)
{
    TIDE_TRY(proc_kill(&agent->process, SIGTERM, err));
    TIDE_TRY(proc_wait(&agent->process, STOP_MS, err));
    const int code = agent->process.exit_code;
    proc_done(&agent->process);
    return code == 0 ? TIDE_OK : tide_fail(err, TIDE_E_FAILED, "it ended with %d", code);
}

void running_agent_kill(running_agent *agent)
{
    proc_done(&agent->process);
}

tide_status running_agent_client(const running_agent *agent, tide_client **out, tide_error *err)
{
    char target[RUNNING_AGENT_ADDRESS + 8];
    (void)snprintf(target, sizeof target, "http://%s", agent->grpc);
    return tide_client_open(out, &(tide_client_options){.target = target}, err);
}

tide_status running_agent_call(tide_client *client, const char *method,
                               const ProtobufCMessage *request,
                               const ProtobufCMessageDescriptor *answers,
                               ProtobufCMessage **response, tide_error *err)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/tidemark.agent.v1.%s", method);
    const size_t len = protobuf_c_message_get_packed_size(request);
    TIDE_CLEANUP(tide_freep) char *bytes = malloc(len + 1);
    if (!bytes)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a request");
    (void)protobuf_c_message_pack(request, (uint8_t *)bytes);
    TIDE_CLEANUP(tide_client_reply_done) tide_client_reply reply;
    tide_client_reply_init(&reply);
    TIDE_TRY(tide_client_call(
        client, &(tide_client_request){.path = path, .message = tide_view_bytes(bytes, len)},
        &reply, err));
    *response = protobuf_c_message_unpack(answers, NULL, reply.message.len,
                                          (const uint8_t *)reply.message.ptr);
    return *response ? TIDE_OK : tide_fail(err, TIDE_E_DAMAGED, "an answer that is no message");
}
