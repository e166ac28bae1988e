/* services.h - tasks, work, checkpoints and idempotency keys of a store, as a component of a listener: `tidemark serve`, `up`. */
#pragma once

#include "runtime/listener.h"
#include "services/work/maintenance.h"

/* Of `tidemark serve`. */
extern const tide_step *const tidemark_serve_steps[];

typedef struct tide_services tide_services;

/* Add tidemark.work.v1 and tidemark.journal.v1 over this store to a listener that is not serving yet, and bind
 * TIDE_WORK_STEPS. */
TIDE_MUST_CHECK tide_status tide_services_open(tide_services **out, tide_listener *listener,
                                               tide_store *store,
                                               const tide_work_maintenance_options *maintenance,
                                               tide_error *err);
/* After tide_listener_stop, before tide_listener_close. Takes NULL. */
void tide_services_close(tide_services *services);
