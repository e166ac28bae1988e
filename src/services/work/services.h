/* services.h - tasks, work, checkpoints and idempotency keys of a store, as a part of a front. */
#ifndef TIDE_SERVICES_WORK_SERVICES_H
#define TIDE_SERVICES_WORK_SERVICES_H

#include "runtime/listener.h"

typedef struct tide_services tide_services;

/* Add tidemark.work.v1 and tidemark.journal.v1 over this store to a front that is not serving yet. */
TIDE_MUST_CHECK tide_status tide_services_open(tide_services **out, tide_listener *front,
                                               tide_store *store, tide_error *err);
/* After tide_listener_stop, before tide_listener_close. Takes NULL. */
void tide_services_close(tide_services *services);

#endif
