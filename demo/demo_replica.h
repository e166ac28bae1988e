/* demo_replica.h - replicated databases of the demonstration: two shops, a SQLite file each.
 *
 *     writer (a thread, plain SQLite) ---- DIR/north.db   `up` serves both (replicas.h);
 *                                     \--- DIR/south.db   south syncs with north
 *
 * Orders are added and deleted all the time. At times both shops count the same shelf at the same
 * moment, which is a conflict. Tables, events and tombstones stay bounded: a shop keeps
 * TIDE_DEMO_ORDERS of its orders, events are kept for TIDE_DEMO_RETAIN_US.
 *
 * Survives: everything is in the files; a second start continues.
 * Threads: one of its own. */
#pragma once

#include "allinone/replicas.h"
#include "base/log.h"

enum { TIDE_DEMO_ORDERS = 200 };
#define TIDE_DEMO_RETAIN_US INT64_C(600000000)

typedef struct tide_demo_replica tide_demo_replica;

/* Makes the files where they are missing, and tracks their tables. */
TIDE_MUST_CHECK tide_status tide_demo_replica_open(tide_demo_replica **out, const char *dir,
                                                   tide_env *env, tide_log *log, tide_error *err);
void tide_demo_replica_close(tide_demo_replica *replica); /* takes NULL; the writer ends */

/* What `up` shall serve; borrowed from it. */
void tide_demo_replica_join(const tide_demo_replica *replica, tide_replicas_options *options);
/* Let the writer begin. */
TIDE_MUST_CHECK tide_status tide_demo_replica_begin(tide_demo_replica *replica, tide_error *err);
