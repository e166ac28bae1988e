/* pg_cluster.h - a real PostgreSQL server for the tests, started by the tests.
 *
 * A cluster is a temporary directory with the data, the server's log and its socket; fsync is
 * on, so what it acknowledges has the price and the promise of production. It listens on the
 * socket only, unless TCP on a free port of 127.0.0.1 is asked for. Run as root it serves as
 * user postgres, because PostgreSQL refuses root. The programs are those of pg_config --bindir
 * or the newest below /usr/lib/postgresql, or those in the directory TIDEMARK_TEST_PG_BIN names.
 *
 *     pg_cluster_shared   one server for the whole test program, or the one the test runner
 *                         already has: TIDEMARK_TEST_PG_URL (a postgres:// URL) or
 *                         TIDEMARK_TEST_PG_DIR (a socket directory). Each case takes a
 *                         database of its own from it.
 *     pg_cluster_start    a server of one's own, to be crashed, shut down and restarted.
 *
 *     start --> running -- crash, shutdown --> down -- restart --> running ...  stop: gone
 *
 * Survives: a small supervisor process in a session of its own waits for the end of a pipe. When
 * the test program goes, however it goes, the supervisor ends the server and removes the
 * directory. It keeps waiting while a copy of the test made by bare fork() lives: start programs
 * with proc_start.
 *
 * Threads: the functions that take a const cluster may run in any thread; the others in one at a
 * time.
 * Limits: PG_CLUSTER_DEADLINE_MS for every single wait. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

#include "support/process/proc.h"
#include "support/tempdir.h"

enum {
    PG_CLUSTER_URL_MAX = 2048, /* bytes, with the terminator */
    PG_CLUSTER_NAME_MAX = 64,  /* a database name, with the terminator */
    PG_CLUSTER_DEADLINE_MS = 60000,
};

typedef struct pg_cluster_options {
    bool has_tcp;                /* also listen on 127.0.0.1, on a free port */
    bool is_copy;                /* of the test run's empty one: quick, but with its identifier */
    const char *const *settings; /* "name=value" for the server, NULL at the end; or NULL */
} pg_cluster_options;

typedef struct pg_cluster {
    tempdir dir;                    /* none when the server belongs to the test runner */
    char base[PG_CLUSTER_URL_MAX];  /* the URL up to the database's name */
    char query[PG_CLUSTER_URL_MAX]; /* and what follows it: "" or "?..." */
    char bin[TEMPDIR_PATH_MAX];
    int port;
    pg_cluster_options options; /* the settings must live as long as the cluster */
    proc server;
    proc supervisor;
} pg_cluster;

/* Make a cluster and start it; options may be NULL. TIDE_E_NOT_FOUND: PostgreSQL is not installed.
 * After a failure nothing is left behind. */
TIDE_MUST_CHECK tide_status pg_cluster_start(pg_cluster *c, const pg_cluster_options *options,
                                             tide_error *err);

/* A hot standby of a running cluster, called "standby", made from a base backup; it streams from
 * there. TIDE_E_NOT_FOUND as above. */
TIDE_MUST_CHECK tide_status pg_cluster_start_standby(pg_cluster *c, const pg_cluster *primary,
                                                     const pg_cluster_options *options,
                                                     tide_error *err);

/* Make a standby a primary; returns when it takes writes. Connections to it stay open. */
TIDE_MUST_CHECK tide_status pg_cluster_promote(const pg_cluster *c, tide_error *err);

/* From now on commits wait for the standbys that `names` lists, "" for none. Returns when they do,
 * which is later than any session shows the setting: the checkpointer makes it count. */
TIDE_MUST_CHECK tide_status pg_cluster_require_standby(const pg_cluster *c, const char *names,
                                                       tide_error *err);

/* Run one statement on the database postgres, and return its first value, "" for none. */
TIDE_MUST_CHECK tide_status pg_cluster_query(const pg_cluster *c, const char *sql, char *out,
                                             size_t size, tide_error *err);

/* End the server at once; its files are removed in the background, soon after. Fine in every
 * state, also after a failed start. */
void pg_cluster_stop(pg_cluster *c);

/* kill -9 of the server and all its processes, as one. */
TIDE_MUST_CHECK tide_status pg_cluster_crash(pg_cluster *c, tide_error *err);

/* End the server in good order (a "fast" shutdown); the data stays. */
TIDE_MUST_CHECK tide_status pg_cluster_shutdown(pg_cluster *c, tide_error *err);

/* Start it again on the same data, socket and port; after a crash this runs recovery. */
TIDE_MUST_CHECK tide_status pg_cluster_restart(pg_cluster *c, tide_error *err);

/* The server of this test program, started at the first call and stopped at exit. *out is borrowed.
 * Not for crashing. TIDE_E_NOT_FOUND: PostgreSQL is not installed. */
TIDE_MUST_CHECK tide_status pg_cluster_shared(pg_cluster **out, tide_error *err);

/* The same inside a cmocka case. Where PostgreSQL is not installed the case is skipped, loudly;
 * in CI, and for any other failure, it fails. */
pg_cluster *pg_cluster_for_test(void);

/* Create a database: a copy of the database called from, or an empty one when that is NULL.
 * No client may be connected to from. */
TIDE_MUST_CHECK tide_status pg_cluster_create_database(const pg_cluster *c, const char *name,
                                                       const char *from, tide_error *err);

/* The same under a new name that no other test program uses. */
TIDE_MUST_CHECK tide_status pg_cluster_fresh_database(const pg_cluster *c, const char *from,
                                                      char name[PG_CLUSTER_NAME_MAX],
                                                      tide_error *err);

/* The same for PG_OWNER, an ordinary role, which is created if it is missing: it may log in, owns
 * its databases, and has no other privilege. */
#define PG_OWNER "tidemark_owner"
TIDE_MUST_CHECK tide_status pg_cluster_owned_database(const pg_cluster *c, const char *from,
                                                      char name[PG_CLUSTER_NAME_MAX],
                                                      tide_error *err);

/* Drop a database and its connections. Costs a checkpoint: worth it only for large
 * ones. */
TIDE_MUST_CHECK tide_status pg_cluster_drop_database(const pg_cluster *c, const char *name,
                                                     tide_error *err);

/* postgres://... for a database, over the socket, or over TCP in a cluster that has it. */
void pg_cluster_url(const pg_cluster *c, const char *database, char out[PG_CLUSTER_URL_MAX]);
/* The same as PG_OWNER. */
void pg_cluster_owner_url(const pg_cluster *c, const char *database, char out[PG_CLUSTER_URL_MAX]);
void pg_cluster_tcp_url(const pg_cluster *c, const char *database, char out[PG_CLUSTER_URL_MAX]);
