#include "services/agent/running_agent.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/clock/fair_clock.h"

enum { READY_MS = 60000, STOP_MS = 60000 };

static tide_status read_line(proc *process, char *line, size_t size, tide_error *err)
{
    const int64_t until_ms = proc_now_ms() + READY_MS;
    for (size_t len = 0; len + 1 < size;) {
        if (!fair_wait_fd(process->out_fd, until_ms))
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
    const char *port = is_agent ? "grpc" : strcmp(verb, "colony") == 0 ? "http" : "listen";
    char option[16];
    char told[16];
    (void)snprintf(option, sizeof option, "--%s", port);
    (void)snprintf(told, sizeof told, "%s=", port);
    const char *argv[RUNNING_AGENT_ARGS] = {program, verb, "--store", store, option, "127.0.0.1:0"};
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
    take_address(agent->grpc, line, told);
    take_address(agent->http, line, is_agent ? "http=" : told);
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
    TIDE_CLEANUP(tide_client_response_done) tide_client_response reply;
    tide_client_response_init(&reply);
    TIDE_TRY(tide_client_call(
        client, &(tide_client_request){.path = path, .message = tide_view_bytes(bytes, len)},
        &reply, err));
    *response = protobuf_c_message_unpack(answers, NULL, reply.message.len,
                                          (const uint8_t *)reply.message.ptr);
    return *response ? TIDE_OK : tide_fail(err, TIDE_E_DAMAGED, "an answer that is no message");
}

static bool send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* The whole answer, for free; *len is its length. NULL: no memory. */
static char *ask_http(const running_agent *agent, const char *path, const char *body, size_t *len)
{
    enum { STEP = 65536 };
    const char *colon = strrchr(agent->http, ':');
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10)),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    char head[256];
    const size_t body_len = body ? strlen(body) : 0;
    const int head_len = snprintf(head, sizeof head,
                                  "%s %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                                  "content-type: application/json\r\ncontent-length: %zu\r\n\r\n",
                                  body ? "POST" : "GET", path, body_len);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char *answer = calloc(1, STEP + 1);
    *len = 0;
    bool goes_on = fd >= 0 && answer &&
                   connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                   send_all(fd, head, (size_t)head_len) && send_all(fd, body, body_len);
    while (goes_on) {
        const ssize_t got = recv(fd, answer + *len, STEP, 0);
        *len += got > 0 ? (size_t)got : 0;
        char *more = got > 0 ? realloc(answer, *len + STEP + 1) : NULL;
        answer = more ? more : answer;
        answer[*len] = '\0';
        goes_on = more != NULL;
    }
    (void)close(fd);
    return answer;
}

static int code_of(const char *answer, size_t len)
{
    return answer && len > 12 ? (int)strtol(answer + 9, NULL, 10) : 0;
}

int running_agent_http(const running_agent *agent, const char *path, const char *body)
{
    size_t len = 0;
    TIDE_CLEANUP(tide_freep) char *answer = ask_http(agent, path, body, &len);
    return code_of(answer, len);
}

char *running_agent_get(const running_agent *agent, const char *path)
{
    size_t len = 0;
    TIDE_CLEANUP(tide_freep) char *answer = ask_http(agent, path, NULL, &len);
    const char *body = answer ? strstr(answer, "\r\n\r\n") : NULL;
    return body && code_of(answer, len) == 200 ? strdup(body + 4) : NULL;
}
