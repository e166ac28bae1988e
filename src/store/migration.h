/* migration.h - the steps that bring a store's schema up to this program's.
 *
 * Numbered from 1, forward only, each applied once in one transaction and recorded in schema_version with
 * the SHA-256 of its text. Two processes that start at once both succeed: the second finds the work done. A
 * store that lists a migration this program does not have was made by a newer one, and is refused; one
 * whose text differs from what was applied was altered, and is refused too.
 *
 * Survives: a crash leaves the schema before or after a step, never in between. */
#ifndef TIDE_STORE_MIGRATION_H
#define TIDE_STORE_MIGRATION_H

#include <tidemark/store.h>

typedef struct tide_migration {
    int number; /* 0 ends the list */
    const char *version;
    const char *name;
    const char *text[TIDE_ENGINE_COUNT];
} tide_migration;

#endif
