/* demo_lake.h - lake of the demonstration: a catalog `demo`, changed through tidemark.lake.v1.
 *
 *     every 10 s       rows are appended to demo.shop.orders or demo.shop.visits
 *     every minute     rows older than 10 minutes are deleted
 *     every 2 minutes  a fork of the catalog with rows of its own, of which the last two are kept;
 *                      and two deletes from one base, of which the second conflicts
 *     every 3 minutes  compaction; snapshots older than 15 minutes and unreachable files are
 *                      deleted
 *
 * So it stays at about a hundred snapshots and as many small files. Only the record of its commits
 * (request keys) grows, by less than 4 MiB a day.
 *
 * Without DuckDB's library it writes no rows and logs that once.
 *
 * Survives: everything is in the lake; a second start continues.
 * Threads: one of its own. */
#pragma once

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/log.h"

typedef struct tide_demo_lake tide_demo_lake;

/* address: of the service, HOST:PORT; copied. Returns at once: the service need not answer yet. */
TIDE_MUST_CHECK tide_status tide_demo_lake_open(tide_demo_lake **out, const char *address,
                                                tide_env *env, tide_log *log, tide_error *err);
/* Nothing is asked for any more; from any thread, so that a service that stops need not wait. Takes
 * NULL. */
void tide_demo_lake_stop(tide_demo_lake *lake);
void tide_demo_lake_close(tide_demo_lake *lake); /* takes NULL */
