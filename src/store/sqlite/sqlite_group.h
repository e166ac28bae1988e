/* sqlite_group.h - one group of closures in one transaction, and the checkpoint after it.
 *
 * What sqlite_writer.h describes, without queue and thread: the writer calls these one after the
 * other, from one thread or under its lock.
 *
 * Threads: none of its own. */
#pragma once

#include <semaphore.h>
#include <stdatomic.h>

#include "store/identity_marker.h"
#include "store/sqlite/sqlite_writer.h"

/* A closure and its caller, who waits. */
typedef struct tide_sqlite_job {
    tide_tx_fn *fn;
    void *arg;
    tide_error *err;
    tide_status status;
    tide_topics topics; /* of its last run */
    sem_t answered;
    struct tide_sqlite_job *next;
} tide_sqlite_job;

/* Run the closures and commit them together; each job's status and error are final afterwards. */
void tide_sqlite_group_run(tide_sqlite_writer *writer, tide_sqlite_job *const *jobs, int count);

/* After the answers: empty the log when it has grown. */
void tide_sqlite_group_checkpoint(tide_sqlite_writer *writer);

struct tide_sqlite_writer {
    tide_store *store;
    tide_sqlite_connection *connection;
    tide_sqlite_door door;
    const char *path;
    tide_sqlite_place
        place;          /* the file when it was opened, its log at the first commit; 0: not known */
    int careful_groups; /* how many more groups run in savepoints */
    int64_t page_size;
    int64_t mark_due_us;   /* a mark could not be raised: not tried again before */
    int64_t marker_due_us; /* when the identity marker is written out again */
    int raised_count;
    tide_raised raised[TIDE_IDENTITY_MARKER_COUNTERS]; /* by the group that is running */
    int64_t checkpointed_frames; /* frames in the log when the last checkpoint ended */
    _Atomic int64_t wal_bytes;
    atomic_bool is_log_unwanted; /* the next checkpoint empties it */
    atomic_int log_holds;        /* while there are any, that is the only checkpoint */

    pthread_mutex_t lock; /* of what follows; in inline mode: held while a closure runs */
    pthread_cond_t has_work;
    pthread_cond_t has_room;
    tide_sqlite_job *first;
    tide_sqlite_job *last;
    int queued;
    bool is_stopping;
    bool has_thread;
    pthread_t thread;
};
