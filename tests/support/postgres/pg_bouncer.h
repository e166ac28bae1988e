/* pg_bouncer.h - a real PgBouncer in front of a test's cluster.
 *
 * Listens on a socket in a directory of its own; every client becomes the server's superuser.
 * Transaction mode and two server connections per pool, unless settings say otherwise.
 *
 * Ends with pg_bouncer_stop; a test program that goes without it leaves a process that its
 * directory's end does not stop, so a case stops it in every way out. */
#pragma once

#include "support/postgres/pg_cluster.h"

typedef struct pg_bouncer {
    tempdir dir;
    proc process;
    int port; /* of the socket's file name */
} pg_bouncer;

/* settings: lines for [pgbouncer], "" for none. TIDE_E_NOT_FOUND: it is not installed. */
TIDE_MUST_CHECK tide_status pg_bouncer_start(pg_bouncer *b, const pg_cluster *cluster,
                                             const char *settings, tide_error *err);
void pg_bouncer_stop(pg_bouncer *b);
void pg_bouncer_url(const pg_bouncer *b, const char *database, char out[PG_CLUSTER_URL_MAX]);
