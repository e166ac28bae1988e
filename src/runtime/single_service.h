/* single_service.h - a daemon of one part: a front, and the one thing that it shows (an agent, a colony, a lake, ...).
 *
 *     TIDE_CLEANUP(tide_single_service_done) tide_single_service solo = {.close = close_part};
 *     TIDE_TRY(tide_listener_open(&solo.front, options, err));
 *     TIDE_TRY(tide_agent_open(&agent, solo.front, options, err));
 *     solo.part = agent;
 *     return tide_single_service_serve(&solo, err);
 *
 * Whatever happens, the end has its order: the front stops, so that nobody is called any more; then the part is closed; then the front.
 *
 * Threads: as of the front. */
#ifndef TIDE_RUNTIME_SINGLE_SERVICE_H
#define TIDE_RUNTIME_SINGLE_SERVICE_H

#include "runtime/listener.h"

typedef struct tide_single_service {
    tide_listener *front;
    void *part; /* NULL: it was not opened */
    void (*close)(void *part);
} tide_single_service;

/* Fits TIDE_CLEANUP; takes one of which nothing was opened. */
void tide_single_service_done(tide_single_service *solo);

/* As tide_listener_serve. TIDE_E_INTERRUPTED: somebody is in a hurry, so nothing is closed by tide_single_service_done, and the process ends as it is. */
TIDE_MUST_CHECK tide_status tide_single_service_serve(tide_single_service *solo, tide_error *err);

#endif
