/* migration_lock.h - an application's schema is being changed: who looks after its file leaves it
 * alone.
 *
 * Told by a lock on a file beside the database (<database>-tide-migrate), which the kernel lets go
 * when its holder dies, however that happens. The file may be left behind; without a lock it means
 * nothing.
 *
 * Threads: any. */
#pragma once

#include <stdbool.h>

#include <tidemark/error.h>

typedef struct tide_foreign_pause {
    int fd; /* -1: none */
    char path[4096];
} tide_foreign_pause;

/* TIDE_E_BUSY: another process has it. TIDE_E_DENIED, TIDE_E_IO. */
TIDE_MUST_CHECK tide_status tide_foreign_pause_begin(tide_foreign_pause *pause,
                                                     const char *database, tide_error *err);
void tide_foreign_pause_end(tide_foreign_pause *pause); /* fits TIDE_CLEANUP on {.fd = -1} */

bool tide_foreign_is_paused(const char *database);
