/* migration.h - the steps that bring the schema of a store, or of a part of it, up to this
 * program's.
 *
 * A set of migrations has a name and a table of its own that lists what was applied: the store's is
 * schema_version, the lake's lake_version. Steps are numbered from 1, forward only, each applied
 * once and recorded with the SHA-256 of its text. Two processes that start at once both succeed:
 * the second finds the work done. A set with a migration that this program does not have was
 * written by a newer one and is refused; one whose text differs from what was applied was altered,
 * and is refused too.
 *
 * Survives: all missing steps are one transaction of the caller's. A crash leaves the schema before
 * or after them. */
#pragma once

#include <tidemark/store.h>

typedef struct tide_migration {
    int number; /* 0 ends the list */
    const char *version;
    const char *name;
    const char *text[TIDE_ENGINE_COUNT];
} tide_migration;

typedef struct tide_migration_set {
    const char *name; /* whose schema it is, in errors */
    const tide_migration *migrations;
    const tide_sql *list; /* number, version, checksum of what was applied, ascending */
    const tide_sql *add;  /* :number, :version, :name, :checksum, :now */
    tide_tx_fn *on_first; /* runs behind the first step; NULL: nothing */
} tide_migration_set;

/* *applied: the number of the newest step, 0: none. TIDE_E_NEWER, TIDE_E_DAMAGED: see above. The
 * table of the set exists. */
TIDE_MUST_CHECK tide_status tide_migrations_check(const tide_migration_set *set, tide_tx *tx,
                                                  int64_t *applied, tide_error *err);

/* Apply and record every step above applied. */
TIDE_MUST_CHECK tide_status tide_migrations_apply(const tide_migration_set *set, tide_tx *tx,
                                                  int64_t applied, tide_error *err);

/* Was it opened as it is, with a schema older than this program's? */
bool tide_store_is_older(const tide_store *store);

/* Is there a step above applied? */
bool tide_migrations_are_missing(const tide_migration_set *set, int64_t applied);
