/* daemon.h - `tidemark colony`: the scheduler, its services and figures as a part of a listener, alone there or beside others. */
#pragma once

#include "runtime/listener.h"
#include "services/colony/scheduler.h"

/* Of `tidemark colony`. */
extern const tide_step *const tidemark_colony_steps[];

typedef struct tide_colony_options {
    tide_listener_options listener; /* ports, log, env; store: the sink's */
    tide_scheduler_options scheduler;
    const char *address_file;   /* where the address is told to other processes; NULL: nowhere */
    const char *duckdb_library; /* for exports; NULL: where it usually is */
    const char *export_dir;     /* absolute, no links; where callers may export to; NULL: nowhere */
    bool is_sql_trusted;        /* admins may run SQL inside the daemon, on a duckdb: store */
} tide_colony_options;

typedef struct tide_colonyd tide_colonyd;

/* Add a colony to a listener that is not serving yet. The options must outlive it. */
TIDE_MUST_CHECK tide_status tide_colonyd_open(tide_colonyd **out, tide_listener *listener,
                                              const tide_colony_options *options, tide_error *err);
/* After tide_listener_stop, before tide_listener_close. Takes NULL. */
void tide_colonyd_close(tide_colonyd *colonyd);

/* Rises whenever something was stored or has changed: for who wants to look again only then. From any thread. */
uint64_t tide_colonyd_version(const tide_colonyd *colonyd);

/* A listener with a colony alone, until SIGTERM. */
TIDE_MUST_CHECK tide_status tide_colony_run(const tide_colony_options *options, tide_error *err);
