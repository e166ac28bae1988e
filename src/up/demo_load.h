/* demo_load.h - what the services of the demonstration tell their agent: traces, metrics, profiles, eBPF figures, as JSON of OTLP/HTTP and of the ingest service.
 *
 * Threads: pure, apart from the random numbers of the env. */
#ifndef TIDE_UP_DEMO_LOAD_H
#define TIDE_UP_DEMO_LOAD_H

#include <tidemark/env.h>

typedef struct tide_demo_request {
    const char *path;
    char *body; /* JSON; free() */
} tide_demo_request;

enum { TIDE_DEMO_KINDS = 4 };

/* The request of one kind (0: traces, 1: metrics, 2: profiles, 3: eBPF) of a turn. body NULL: no memory. */
tide_demo_request tide_demo_load(tide_env *env, int kind, int agent, int64_t turn);

#endif
