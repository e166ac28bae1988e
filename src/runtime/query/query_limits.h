/* query_limits.h - what a query process denies itself before it runs SQL of a caller.
 *
 *     at its start     no inherited descriptors, no_new_privs, no core dump; SIGXCPU ends it,
 *                      SIGTERM does not
 *     then             address space: what is mapped now, and memory_len
 *                      file size: that of SQLite's -shm, so that no disk is filled
 *                      Landlock, where the kernel has it: reading below the given directories,
 *                      writing to one file, nothing else in the file system; no TCP
 *     per query        CPU time
 *
 * The limits are set before a store is opened, so that no descriptor can write to it, and after the
 * library of DuckDB was loaded.
 *
 * Each call is for this process and for ever. What a kernel lacks is left out; the daemon still
 * kills the process at its time.
 *
 * Threads: at the start of the process, before others run. */
#pragma once

#include <stdint.h>

#include <tidemark/error.h>

/* Close all descriptors but 0, 1 and 2, and give up privileges. */
TIDE_MUST_CHECK tide_status tide_query_limits_begin(tide_error *err);

typedef struct tide_query_limits {
    int64_t memory_len;
    const char *const *directories; /* may be read */
    int directory_count;
    const char *written; /* a file that may be written; NULL: none */
} tide_query_limits;

TIDE_MUST_CHECK tide_status tide_query_limits_set(const tide_query_limits *limits, tide_error *err);

/* CPU time from now on; SIGXCPU ends the process beyond it. */
void tide_query_limits_cpu(int64_t cpu_us);
