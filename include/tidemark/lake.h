/* lake.h - a metabase: catalogs of table snapshots in a store, with data files below a directory.
 *
 * Within a catalog, snapshot ids rise in commit order, and a snapshot never changes once it is
 * published: who has seen snapshot n has seen everything below n. Commits that do not touch the
 * same rows go side by side. The tables are DuckLake's; reading and writing rows is DuckDB's work,
 * through `tidemark lake` and the lake's service. This interface makes and opens metabases, lists
 * catalogs and checks their history.
 *
 *     tide_lake *lake;
 *     tide_lake_init(store, "/srv/lake", &was_there, err);
 *     tide_lake_open(&lake, store, err);
 *     tide_lake_list_catalogs(lake, print_catalog, NULL, err);
 *     tide_lake_check_history(lake, NULL, print_finding, NULL, &checked, err);
 *
 * Survives: a crash at any point. Two processes may make a metabase at once.
 * Threads: a tide_lake is as safe as its store. */
#ifndef TIDEMARK_LAKE_H
#define TIDEMARK_LAKE_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum { TIDE_LAKE_NAME_MAX = 255 }; /* bytes of a catalog's, schema's, table's, column's name */

typedef struct tide_lake tide_lake;

/* Make a metabase in a store, with its data below data_dir (absolute or made so; created if
 * missing). Fine when there is one with the same data_dir: *was_there. TIDE_E_CONFLICT: there is
 * one with another directory, or the directory is another metabase's; TIDE_E_NOT_FOUND: it is
 * empty, and the metabase has files there; TIDE_E_FOREIGN: tables of its names that are not ours (a
 * stock DuckLake's, say). */
TIDE_API TIDE_MUST_CHECK tide_status tide_lake_init(tide_store *store, const char *data_dir,
                                                    bool *was_there, tide_error *err);

/* The store must outlive it. TIDE_E_NOT_FOUND: no metabase there; the words say how to make one.
 * TIDE_E_NEWER: of a later release. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lake_open(tide_lake **out, tide_store *store,
                                                    tide_error *err);
TIDE_API void tide_lake_close(tide_lake *lake); /* takes NULL */

/* Absolute, with a slash at its end. Borrowed until the lake is closed. */
TIDE_API const char *tide_lake_data_dir(const tide_lake *lake);

typedef struct tide_lake_catalog {
    int64_t catalog_id;
    char name[TIDE_LAKE_NAME_MAX + 1];
    char uuid[37];
    int64_t parent_id; /* 0: not a fork */
    char parent_name[TIDE_LAKE_NAME_MAX + 1];
    int64_t fork_snapshot;
    int64_t created_snapshot;
    int64_t created_at_us;
    int64_t head; /* snapshot */
    int64_t head_time_us;
    int64_t schema_version;
    char exposed_as[64];
    int64_t digest[2]; /* of the head's state */
} tide_lake_catalog;

/* Borrowed for the call. A failure ends the listing and is returned. */
typedef tide_status tide_lake_catalog_fn(void *arg, const tide_lake_catalog *catalog,
                                         tide_error *err);

/* Every catalog, of one moment. A listing whose connection broke runs again from the beginning. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lake_list_catalogs(tide_lake *lake,
                                                             tide_lake_catalog_fn *fn, void *arg,
                                                             tide_error *err);

typedef struct tide_lake_finding {
    const char *rule;
    int64_t catalog_id;
    int64_t snapshot_id; /* 0: of none */
    const char *words;
} tide_lake_finding;
typedef void tide_lake_finding_fn(void *arg, const tide_lake_finding *finding);

typedef struct tide_lake_checked {
    int64_t catalogs;
    int64_t snapshots; /* with a state: not expired */
    int64_t rows;
    int64_t findings;
} tide_lake_checked;

/* Compute the history anew from the rows and compare it with what commits recorded; fn is called
 * with every finding. catalog NULL: all, dropped ones too. TIDE_OK: it was read; out->findings says
 * whether it holds. TIDE_E_NOT_FOUND: no such catalog. */
TIDE_API TIDE_MUST_CHECK tide_status tide_lake_check_history(tide_lake *lake, const char *catalog,
                                                             tide_lake_finding_fn *fn, void *arg,
                                                             tide_lake_checked *out,
                                                             tide_error *err);

TIDE_END_DECLS

#endif
