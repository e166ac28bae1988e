#include "demo/demo_agent.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "demo/demo_load.h"
#include "demo/tcp_proxy.h"
#include "net/client/client.h"
#include "runtime/child.h"

enum {
    PATH_SIZE = 4096,
    LINE_SIZE = 512,
    READY_MS = 20000,
    TURN_MS = 1000,
    STOP_MS = 5000,
};
#define CALL_US INT64_C(1000000)

struct tide_demo_agent {
    tide_demo_agent_options options;
    char store[PATH_SIZE];
    tide_tcp_proxy *proxy;
    int waker;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_over;
    atomic_bool is_wiped; /* asked for */
    atomic_bool is_up;    /* for other threads */
    atomic_llong pause_until_us;
    atomic_llong drop_until_us;
    tide_client *client; /* the thread's, as is what follows */
    pid_t pid;           /* 0: none */
    int port;
    bool is_paused;
    int64_t turn;
};

static int64_t now_us(const tide_demo_agent *agent)
{
    return agent->options.env->mono_us(agent->options.env);
}

/* ---- the child ---- */

/* Its first line: `ready grpc=127.0.0.1:PORT ...`. */
static tide_status await_ready(tide_demo_agent *agent, int fd, tide_error *err)
{
    char line[LINE_SIZE];
    size_t len = 0;
    const int64_t until_us = now_us(agent) + READY_MS * INT64_C(1000);
    while (now_us(agent) < until_us && len < sizeof line - 1) {
        struct pollfd out = {.fd = fd, .events = POLLIN};
        (void)poll(&out, 1, 100);
        const ssize_t got = read(fd, line + len, sizeof line - 1 - len);
        if (got == 0)
            break;
        len += got > 0 ? (size_t)got : 0;
        line[len] = '\0';
        const char *at = strstr(line, "grpc=127.0.0.1:");
        if (at && strchr(line, '\n')) {
            agent->port = (int)strtol(at + strlen("grpc=127.0.0.1:"), NULL, 10);
            return TIDE_OK;
        }
    }
    return tide_fail(err, TIDE_E_UNAVAILABLE, "agent %s did not get ready", agent->options.name);
}

static tide_status start_child(tide_demo_agent *agent, tide_error *err)
{
    char *argv[] = {(char *)agent->options.program,
                    "agent",
                    "--store",
                    agent->store,
                    "--name",
                    (char *)agent->options.name,
                    "--grpc",
                    "127.0.0.1:0",
                    "--http",
                    "127.0.0.1:0",
                    "--collect",
                    "10s",
                    "--keep-for",
                    "10m",
                    "--keep-bytes",
                    "16MiB",
                    "--hard-for",
                    "30m",
                    "--hard-bytes",
                    "32MiB",
                    "--log-level",
                    "error",
                    NULL};
    tide_child_started started = {.pid = 0};
    const tide_child_spec spec = {
        .argv = argv, .stdin_kind = TIDE_CHILD_STDIN_NONE, .is_captured = true, .tee_fd = -1};
    TIDE_TRY(tide_child_start(&spec, &started, err));
    agent->pid = started.pid;
    const tide_status status = await_ready(agent, started.out_fd, err);
    (void)close(started.out_fd);
    TIDE_TRY(status);
    char target[48];
    (void)snprintf(target, sizeof target, "http://127.0.0.1:%d", agent->port);
    tide_client_close(agent->client);
    agent->client = NULL;
    tide_tcp_proxy_aim(agent->proxy, agent->port);
    return tide_client_open(&agent->client,
                            &(tide_client_options){.target = target, .timeout_us = CALL_US}, err);
}

static void end_child(tide_demo_agent *agent, int number)
{
    if (agent->pid == 0)
        return;
    tide_tcp_proxy_aim(agent->proxy, 0);
    (void)kill(agent->pid, SIGCONT);
    (void)kill(agent->pid, number);
    const int64_t until_us = now_us(agent) + STOP_MS * INT64_C(1000);
    while (waitpid(agent->pid, NULL, WNOHANG) == 0) {
        agent->options.env->sleep_us(agent->options.env, 10000);
        if (now_us(agent) > until_us)
            (void)kill(agent->pid, SIGKILL);
    }
    agent->pid = 0;
    agent->is_paused = false;
}

static void wipe(tide_demo_agent *agent)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-door"};
    char path[PATH_SIZE + 8];
    end_child(agent, SIGKILL);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", agent->store, endings[i]);
        (void)unlink(path);
    }
}

/* What was asked for is done here, by the thread whose child it is. */
static void follow_orders(tide_demo_agent *agent)
{
    const bool is_paused = now_us(agent) < atomic_load(&agent->pause_until_us);
    if (atomic_exchange(&agent->is_wiped, false))
        wipe(agent);
    if (agent->pid != 0 && is_paused != agent->is_paused) {
        (void)kill(agent->pid, is_paused ? SIGSTOP : SIGCONT);
        agent->is_paused = is_paused;
    }
    if (agent->pid != 0 && waitpid(agent->pid, NULL, WNOHANG) == agent->pid)
        agent->pid = 0; /* it was killed from outside */
}

/* ---- telemetry ---- */

static void send_load(tide_demo_agent *agent)
{
    static const int every[TIDE_DEMO_KINDS] = {[TIDE_DEMO_TRACES] = 1,
                                               [TIDE_DEMO_METRICS] = 5,
                                               [TIDE_DEMO_PROFILES] = 2,
                                               [TIDE_DEMO_EBPF] = 3,
                                               [TIDE_DEMO_EBPF_TRACES] = 3};
    for (int kind = 0; kind < TIDE_DEMO_KINDS; kind++) {
        if (agent->turn % every[kind] != 0)
            continue;
        tide_demo_request load = tide_demo_load(agent->options.env, (tide_demo_kind)kind,
                                                agent->options.number, agent->turn);
        if (!load.body)
            continue;
        TIDE_CLEANUP(tide_client_response_done) tide_client_response reply;
        tide_client_response_init(&reply);
        const tide_client_request request = {
            .path = load.path, .message = tide_view_of(load.body), .timeout_us = CALL_US};
        /* A service whose agent does not answer drops what it has to say: that is its right. */
        TIDE_IGNORE(tide_client_post(agent->client, &request, &reply, NULL));
        free(load.body);
    }
    agent->turn++;
}

static void *run(void *arg)
{
    tide_demo_agent *agent = arg;
    while (!atomic_load(&agent->is_over)) {
        tide_error err = {0};
        follow_orders(agent);
        if (agent->pid == 0 && start_child(agent, &err) < TIDE_OK)
            tide_log_write(
                agent->options.log, TIDE_LOG_WARN, "an agent of the demonstration is down",
                TIDE_F("agent", agent->options.name), TIDE_F("error", err.text), TIDE_F_END);
        atomic_store(&agent->is_up, agent->pid != 0);
        if (agent->pid != 0 && agent->client && !agent->is_paused)
            send_load(agent);
        struct pollfd waker = {.fd = agent->waker, .events = POLLIN};
        eventfd_t ignored = 0;
        if (poll(&waker, 1, TURN_MS) > 0)
            (void)eventfd_read(agent->waker, &ignored);
    }
    end_child(agent, SIGTERM);
    return NULL;
}

/* ---- life ---- */

tide_status tide_demo_agent_open(tide_demo_agent **out, const tide_demo_agent_options *options,
                                 tide_error *err)
{
    TIDE_NEW(tide_demo_agent, agent, err);
    agent->options = *options;
    (void)snprintf(agent->store, sizeof agent->store, "%s/%s.db", options->dir, options->name);
    agent->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tide_status status = tide_tcp_proxy_open(&agent->proxy, options->env, err);
    if (status >= TIDE_OK)
        status = tide_thread_start_unmasked(&agent->thread, run, agent, err);
    if (status < TIDE_OK) {
        tide_demo_agent_close(agent);
        return status;
    }
    agent->has_thread = true;
    *out = agent;
    return TIDE_OK;
}

void tide_demo_agent_stop(tide_demo_agent *agent)
{
    atomic_store(&agent->is_over, true);
    (void)eventfd_write(agent->waker, 1);
}

void tide_demo_agent_close(tide_demo_agent *agent)
{
    if (!agent)
        return;
    tide_demo_agent_stop(agent);
    if (agent->has_thread)
        (void)pthread_join(agent->thread, NULL);
    tide_client_close(agent->client);
    tide_tcp_proxy_close(agent->proxy);
    (void)close(agent->waker);
    free(agent);
}

const char *tide_demo_agent_address(const tide_demo_agent *agent)
{
    return tide_tcp_proxy_address(agent->proxy);
}

static void wake(tide_demo_agent *agent)
{
    (void)eventfd_write(agent->waker, 1);
}

void tide_demo_agent_disturb(tide_demo_agent *agent, tide_demo_fault fault, int64_t for_us)
{
    if (fault == TIDE_DEMO_PAUSE) {
        atomic_store(&agent->pause_until_us, now_us(agent) + for_us);
    } else if (fault == TIDE_DEMO_DROP) {
        atomic_store(&agent->drop_until_us, now_us(agent) + for_us);
        tide_tcp_proxy_cut(agent->proxy, for_us);
    } else if (fault == TIDE_DEMO_RESUME) {
        atomic_store(&agent->pause_until_us, 0);
        atomic_store(&agent->drop_until_us, 0);
        tide_tcp_proxy_cut(agent->proxy, 0);
    } else if (fault == TIDE_DEMO_WIPE) {
        atomic_store(&agent->is_wiped, true);
    }
    wake(agent);
}

tide_demo_standing tide_demo_agent_show(tide_demo_agent *agent)
{
    const int64_t paused_us = atomic_load(&agent->pause_until_us) - now_us(agent);
    const int64_t dropped_us = atomic_load(&agent->drop_until_us) - now_us(agent);
    if (atomic_load(&agent->is_wiped))
        return (tide_demo_standing){.state = "wiping"};
    if (!atomic_load(&agent->is_up))
        return (tide_demo_standing){.state = "down"};
    if (paused_us > 0)
        return (tide_demo_standing){.state = "paused", .for_us = paused_us};
    if (dropped_us > 0)
        return (tide_demo_standing){.state = "dropped", .for_us = dropped_us};
    return (tide_demo_standing){.state = "well"};
}
