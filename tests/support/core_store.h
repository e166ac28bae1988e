/* core_store.h - stores with the core's schema alone, for tests that make thousands of them.
 *
 * Most of the time it takes to make or open a store goes into the tables and triggers of work and
 * journal. Who sweeps what the store itself does (its files, its memory, its commits) needs none of
 * them.
 *
 * Survives: as any store; opened by tide_store_open it gets the tables that it lacks. Threads:
 * any. */
#pragma once

#include <tidemark/store.h>

/* As tide_store_open, with the first migration only. */
TIDE_MUST_CHECK tide_status core_store_open(tide_store **out, const char *url,
                                            const tide_store_options *options, tide_error *err);
