/* demo_load.h - telemetry of the demonstration's services: traces, metrics, profiles, eBPF metrics
 * and spans as OTLP/HTTP in JSON.
 *
 * Threads: pure, apart from the random numbers of the env. */
#pragma once

#include <tidemark/env.h>

typedef struct tide_demo_request {
    const char *path;
    char *body; /* JSON; free() */
} tide_demo_request;

typedef enum tide_demo_kind {
    TIDE_DEMO_TRACES,
    TIDE_DEMO_METRICS,
    TIDE_DEMO_PROFILES, /* of CPU and of memory by turns */
    TIDE_DEMO_EBPF,     /* durations of HTTP, gRPC and SQL */
    TIDE_DEMO_EBPF_TRACES,
    TIDE_DEMO_KINDS,
} tide_demo_kind;

/* The request of one kind of a turn. body NULL: no memory. */
tide_demo_request tide_demo_load(tide_env *env, tide_demo_kind kind, int agent, int64_t turn);
