/* daemon.h - `tidemark colony`: the driver, its services and figures behind a front. */
#ifndef TIDE_COLONYD_DAEMON_H
#define TIDE_COLONYD_DAEMON_H

#include "colonyd/driver.h"
#include "daemon/front.h"

typedef struct tide_colony_options {
    tide_front_options front; /* ports, log, env; store: the sink's */
    tide_driver_options driver;
    const char *address_file;   /* where the address is told to other processes; NULL: nowhere */
    const char *duckdb_library; /* for exports; NULL: where it usually is */
} tide_colony_options;

/* Runs until SIGTERM. */
TIDE_MUST_CHECK tide_status tide_colony_run(const tide_colony_options *options, tide_error *err);

#endif
