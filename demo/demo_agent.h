/* demo_agent.h - agent of the demonstration that is a process: `tidemark agent` as a child process,
 * a TCP proxy before it, and services that send it telemetry.
 *
 *     services (a thread) -------- OTLP --------> agent (child process) <---- proxy <---- colony
 *
 * Faults, which end by themselves: pause (SIGSTOP for a while), drop (the proxy is cut for a
 * while), wipe (kill -9, its store is deleted, it starts again). Its store keeps records for ten
 * minutes, up to 16 MiB (32 MiB unread), with a ballast file of 16 MiB beside it.
 *
 * If this process dies, the child gets SIGKILL. Its store stays in the directory, and the next
 * start continues with it.
 * Threads: one of its own; every function may be called from any thread. */
#pragma once

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/log.h"
#include "demo/demo_fault.h"

typedef struct tide_demo_agent tide_demo_agent;

typedef struct tide_demo_agent_options {
    const char *program; /* tidemark */
    const char *dir;     /* where its store is */
    const char *name;
    int number; /* of the fleet: varies what is sent */
    tide_env *env;
    tide_log *log;
} tide_demo_agent_options;

/* Returns when it is ready. What the options point to must outlive it. */
TIDE_MUST_CHECK tide_status tide_demo_agent_open(tide_demo_agent **out,
                                                 const tide_demo_agent_options *options,
                                                 tide_error *err);
/* Let it begin to end, and do not wait for it. */
void tide_demo_agent_stop(tide_demo_agent *agent);
void tide_demo_agent_close(tide_demo_agent *agent); /* takes NULL; the child ends */

const char *tide_demo_agent_address(const tide_demo_agent *agent); /* the proxy's */

/* pause, resume, drop, wipe; others do nothing. */
void tide_demo_agent_disturb(tide_demo_agent *agent, tide_demo_fault fault, int64_t for_us);
tide_demo_standing tide_demo_agent_show(tide_demo_agent *agent);
