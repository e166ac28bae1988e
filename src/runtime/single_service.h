/* single_service.h - a daemon of one component: a listener, and the one thing that it shows (an agent, a colony, a lake, ...).
 *
 *     TIDE_CLEANUP(tide_single_service_done) tide_single_service single = {.close = close_component};
 *     TIDE_TRY(tide_listener_open(&single.listener, options, err));
 *     TIDE_TRY(tide_agent_open(&agent, single.listener, options, err));
 *     single.component = agent;
 *     return tide_single_service_serve(&single, err);
 *
 * Whatever happens, the end has its order: the listener stops, so that nobody is called any more; then the component is closed; then the listener.
 *
 * Threads: as of the listener. */
#ifndef TIDE_RUNTIME_SINGLE_SERVICE_H
#define TIDE_RUNTIME_SINGLE_SERVICE_H

#include "runtime/listener.h"

typedef struct tide_single_service {
    tide_listener *listener;
    void *component; /* NULL: it was not opened */
    void (*close)(void *component);
} tide_single_service;

/* Fits TIDE_CLEANUP; takes one of which nothing was opened. */
void tide_single_service_done(tide_single_service *single);

/* As tide_listener_serve. TIDE_E_INTERRUPTED: somebody is in a hurry, so nothing is closed by tide_single_service_done, and the process ends as it is. */
TIDE_MUST_CHECK tide_status tide_single_service_serve(tide_single_service *single, tide_error *err);

#endif
