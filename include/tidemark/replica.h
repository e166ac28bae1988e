/* replica.h - an application's SQLite file as a node: which tables are captured, and what was.
 *
 * The file stays the application's. Tracking a table installs triggers that append every change to
 * a log, in the writer's own transaction, whichever program writes; folding makes events of what is
 * in the log, and peers fetch these (`tidemark replica serve`, `tidemark replica sync`).
 *
 *     tide_replica_options options = {TIDE_REPLICA_OPTIONS_INIT, .path = "app.db"};
 *     tide_replica *replica;
 *     tide_replica_open(&replica, &options, err);
 *     tide_replica_track(replica, "notes", &rows, err);
 *     tide_replica_fold(replica, &events, err);
 *
 * Survives: a crash at any point; every step is one transaction, and doing it again changes
 * nothing.
 * Threads: several may use a replica at once. */
#ifndef TIDEMARK_REPLICA_H
#define TIDEMARK_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>
#include <tidemark/export.h>

TIDE_BEGIN_DECLS

enum { TIDE_REPLICA_ID_SIZE = 37 }; /* a UUID and its terminator */

typedef struct tide_node tide_replica;

typedef struct tide_replica_options {
    size_t size;           /* TIDE_REPLICA_OPTIONS_INIT */
    const char *path;      /* of the application's file */
    const char *state_dir; /* where the file's identity is noted; NULL: the user's */
    tide_env *env;         /* NULL: tide_env_system() */
    bool may_create;       /* a file that is absent is made, empty */
} tide_replica_options;
#define TIDE_REPLICA_OPTIONS_INIT .size = sizeof(tide_replica_options)

/* TIDE_E_NOT_FOUND: no such file. TIDE_E_INVALID: size is not that of a release, or no path.
 * TIDE_E_NEWER: of a later release. */
TIDE_API TIDE_MUST_CHECK tide_status tide_replica_open(tide_replica **out,
                                                       const tide_replica_options *options,
                                                       tide_error *err);
TIDE_API void tide_replica_close(tide_replica *replica); /* takes NULL */

/* Capture a table from now on; *rows (may be NULL) were there already and became events. Tracking
 * again changes nothing, and repairs triggers. TIDE_E_NOT_FOUND: no such table. TIDE_E_CONFLICT:
 * the application has tables of our names. */
TIDE_API TIDE_MUST_CHECK tide_status tide_replica_track(tide_replica *replica, const char *table,
                                                        int64_t *rows, tide_error *err);

/* Capture it no longer; its history stays for peers. TIDE_NONE: it was not tracked. */
TIDE_API TIDE_MUST_CHECK tide_status tide_replica_untrack(tide_replica *replica, const char *table,
                                                          tide_error *err);

/* Everything that was captured becomes events; *events (may be NULL) says how many. */
TIDE_API TIDE_MUST_CHECK tide_status tide_replica_fold(tide_replica *replica, int64_t *events,
                                                       tide_error *err);

typedef struct tide_replica_state {
    char node_id[TIDE_REPLICA_ID_SIZE]; /* zeros: no table was tracked yet */
    int64_t epoch;                      /* rises when the file is restored; 0: as above */
    int64_t origins;                    /* nodes whose events are here, with their epochs */
    int64_t conflicts;                  /* writes that another one has overtaken unseen */
    int64_t aside;       /* rows that a constraint of the application keeps out of its tables */
    int64_t quarantined; /* events that cannot be applied */
} tide_replica_state;

TIDE_API TIDE_MUST_CHECK tide_status tide_replica_status(tide_replica *replica,
                                                         tide_replica_state *out, tide_error *err);

TIDE_END_DECLS

#endif
