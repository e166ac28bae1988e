/* query_process.h - a process that runs SQL of callers, one query at a time, and can be killed.
 *
 * An engine can neither bound the memory of a statement nor end one between its steps, and a defect
 * of it ends its process. So a daemon runs texts of callers in a process of its own
 * (query_child.h): the file opened read-only, no inherited descriptors, no privileges to gain,
 * limits on address space, CPU time and file size, Landlock (query_limits.h). It dies with the
 * daemon (child.h).
 *
 *     at its limit     the process interrupts the query; TIDE_QUERY_GRACE_US later it is killed
 *     cancel_fd        readable: killed at once
 *     memory           the query fails, and the process is replaced
 *     a crash          one failed query; the next one gets a new process
 *
 * The process starts with the first query and stays. A file outside of the directories that it may
 * read starts it anew with one more.
 *
 * Survives: nothing is changed. Threads: one at a time, and always the same one: the process dies
 * with the thread that started it. SIGPIPE is blocked on it (base/thread.h) or ignored.
 * Limits: options. */
#pragma once

#include <sys/types.h>

#include "lake/query_sandbox.h"
#include "runtime/metrics.h"
#include "runtime/query/query_frame.h"

#define TIDE_QUERY_GRACE_US INT64_C(1000000)

typedef struct tide_query_process tide_query_process;

/* What a process opens. Texts must outlive it. */
typedef struct tide_query_target {
    tide_query_kind kind;
    const char *path;
    const char *library; /* of DuckDB; NULL: where it usually is */
} tide_query_target;

typedef struct tide_query_process_options {
    tide_query_target target;
    const char *program; /* NULL: that of this process. Must outlive it */
    int64_t memory_len;
    int cancel_fd;         /* an eventfd; who writes to it resets it. -1: none */
    tide_metrics *metrics; /* counts what is killed; NULL: nothing */
} tide_query_process_options;

/* Starts nothing yet. */
TIDE_MUST_CHECK tide_status tide_query_process_open(tide_query_process **out,
                                                    const tide_query_process_options *options,
                                                    tide_error *err);
void tide_query_process_close(tide_query_process *process); /* takes NULL */

/* Texts of callers over a lake, in this process. Borrowed. */
const tide_lake_runner *tide_query_process_runner(tide_query_process *process);

/* Run one query; of TIDE_QUERY_SQLITE text and limits count alone. *is_cut (may be NULL): there
 * were more rows or bytes than allowed.
 * TIDE_E_TIMEOUT, TIDE_E_INTERRUPTED (cancel_fd), TIDE_E_INVALID, TIDE_E_DENIED. TIDE_E_LIMIT: cut,
 * or out of memory (*is_cut false). TIDE_E_FAILED: the engine crashed. TIDE_E_UNAVAILABLE: no
 * process. */
TIDE_MUST_CHECK tide_status tide_query_process_run(tide_query_process *process,
                                                   const tide_lake_sandbox_query *query,
                                                   bool *is_cut, tide_error *err);

/* Of the last query: did it fail with TIDE_E_LIMIT for want of memory? */
bool tide_query_process_was_out_of_memory(const tide_query_process *process);

/* Process id; 0: none runs. For tests. */
pid_t tide_query_process_pid(const tide_query_process *process);
