#include "store/sqlite/sqlite_writer.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/thread.h"
#include "store/sqlite/sqlite_group.h"

enum {
    GROUP_MAX = 512,      /* closures that share one commit */
    GATHER_YIELDS = 1000, /* how often the writer steps aside for callers who were just answered */
};

/* ---- the queue ---- */

static int take_group(tide_sqlite_writer *writer, tide_sqlite_job **jobs)
{
    int count = 0;
    while (writer->first && count < GROUP_MAX) {
        jobs[count++] = writer->first;
        writer->first = writer->first->next;
    }
    if (!writer->first)
        writer->last = NULL;
    writer->queued -= count;
    return count;
}

/* Callers who were just answered often come back at once: stepping aside for a moment makes one
 * group of them where there would be two. Called with the lock held. */
static void gather(tide_sqlite_writer *writer, int expected)
{
    for (int i = 0; i < GATHER_YIELDS && writer->queued < expected && !writer->is_stopping; i++) {
        (void)pthread_mutex_unlock(&writer->lock);
        (void)sched_yield();
        (void)pthread_mutex_lock(&writer->lock);
    }
}

static void *run_writer(void *arg)
{
    tide_sqlite_writer *writer = arg;
    static _Thread_local tide_sqlite_job *jobs[GROUP_MAX];
    int count = 0;
    (void)pthread_mutex_lock(&writer->lock);
    for (;;) {
        if (count > 1)
            gather(writer, count);
        while (!writer->first && !writer->is_stopping)
            (void)pthread_cond_wait(&writer->has_work, &writer->lock);
        if (!writer->first)
            break;
        count = take_group(writer, jobs);
        (void)pthread_cond_broadcast(&writer->has_room);
        (void)pthread_mutex_unlock(&writer->lock);
        tide_sqlite_group_run(writer, jobs, count);
        for (int i = 0; i < count; i++)
            (void)sem_post(&jobs[i]->answered);
        tide_sqlite_group_checkpoint(writer);
        (void)pthread_mutex_lock(&writer->lock);
    }
    (void)pthread_mutex_unlock(&writer->lock);
    return NULL;
}

static tide_status submit_inline(tide_sqlite_writer *writer, tide_sqlite_job *mine)
{
    const int locked = pthread_mutex_lock(&writer->lock);
    assert(locked == 0 && "tide_store_write called inside a closure");
    tide_sqlite_group_run(writer, &mine, 1);
    tide_sqlite_group_checkpoint(writer);
    (void)pthread_mutex_unlock(&writer->lock);
    return mine->status;
}

tide_status tide_sqlite_writer_submit(tide_sqlite_writer *writer, tide_tx_fn *fn, void *arg,
                                      tide_error *err)
{
    tide_sqlite_job mine = {.fn = fn, .arg = arg, .err = err};
    if (!writer->has_thread)
        return submit_inline(writer, &mine);
    assert(!pthread_equal(pthread_self(), writer->thread) &&
           "tide_store_write called inside a closure");
    const int64_t until_us = tide_cond_until(writer->store->options.wait_us);
    (void)sem_init(&mine.answered, 0, 0);
    (void)pthread_mutex_lock(&writer->lock);
    bool is_patient = true;
    while (writer->queued >= writer->store->options.queue_max && is_patient)
        is_patient = tide_cond_wait(&writer->has_room, &writer->lock, until_us);
    if (writer->queued >= writer->store->options.queue_max) {
        (void)pthread_mutex_unlock(&writer->lock);
        (void)sem_destroy(&mine.answered);
        return tide_fail(err, TIDE_E_BUSY, "%d closures are waiting to be written to %s already",
                         writer->store->options.queue_max, writer->store->name);
    }
    if (writer->last)
        writer->last->next = &mine;
    else
        writer->first = &mine;
    writer->last = &mine;
    writer->queued++;
    (void)pthread_cond_signal(&writer->has_work);
    (void)pthread_mutex_unlock(&writer->lock);
    while (sem_wait(&mine.answered) != 0) {
        /* interrupted by a signal */
    }
    (void)sem_destroy(&mine.answered);
    return mine.status;
}

/* ---- life ---- */

static void init_locks(tide_sqlite_writer *writer)
{
    pthread_mutexattr_t checked;
    (void)pthread_mutexattr_init(&checked);
    (void)pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    (void)pthread_mutex_init(&writer->lock, &checked);
    (void)pthread_mutexattr_destroy(&checked);
    (void)pthread_cond_init(&writer->has_work, NULL);
    (void)pthread_cond_init(&writer->has_room, NULL);
}

tide_status tide_sqlite_writer_open(tide_sqlite_writer **out, tide_store *store, const char *path,
                                    tide_error *err)
{
    TIDE_NEW(tide_sqlite_writer, writer, err);
    writer->store = store;
    writer->path = path;
    writer->door.fd = -1;
    init_locks(writer);
    tide_status status =
        tide_sqlite_connection_open(&writer->connection, store, path, TIDE_SQLITE_WRITER, err);
    char page_size[TIDE_SQLITE_VALUE_SIZE] = "";
    if (status >= TIDE_OK)
        status = tide_sqlite_ask(writer->connection, "PRAGMA page_size", page_size, err);
    writer->place.file = tide_sqlite_place_of(path).file;
    writer->page_size = strtoll(page_size, NULL, 10);
    if (status >= TIDE_OK)
        status = tide_sqlite_door_open(&writer->door, path, err);
    if (status >= TIDE_OK && !store->options.is_inline) {
        status = tide_thread_start(&writer->thread, run_writer, writer, err);
        writer->has_thread = status == TIDE_OK;
    }
    if (status < TIDE_OK) {
        tide_sqlite_writer_close(writer);
        return status;
    }
    *out = writer;
    return TIDE_OK;
}

void tide_sqlite_writer_close(tide_sqlite_writer *writer)
{
    if (!writer)
        return;
    if (writer->has_thread) {
        (void)pthread_mutex_lock(&writer->lock);
        writer->is_stopping = true;
        (void)pthread_cond_signal(&writer->has_work);
        (void)pthread_mutex_unlock(&writer->lock);
        (void)pthread_join(writer->thread, NULL);
    }
    tide_sqlite_connection_close(writer->connection);
    tide_sqlite_door_close(&writer->door);
    (void)pthread_cond_destroy(&writer->has_work);
    (void)pthread_cond_destroy(&writer->has_room);
    (void)pthread_mutex_destroy(&writer->lock);
    free(writer);
}

tide_sqlite_connection *tide_sqlite_writer_connection(tide_sqlite_writer *writer)
{
    return writer->connection;
}

tide_sqlite_door *tide_sqlite_writer_door(tide_sqlite_writer *writer)
{
    return &writer->door;
}

static tide_status change_nothing(tide_tx *tx, void *arg, tide_error *err)
{
    (void)tx;
    (void)arg;
    (void)err;
    return TIDE_OK;
}

void tide_sqlite_writer_empty_log(tide_sqlite_writer *writer)
{
    tide_error ignored;
    atomic_store(&writer->is_log_unwanted, true);
    /* The log is looked after when a group has been answered: the second answer comes behind that
     * of the first. */
    for (int i = 0; i < 2; i++)
        TIDE_IGNORE(tide_sqlite_writer_submit(writer, change_nothing, NULL, &ignored));
}

void tide_sqlite_writer_hold_log(tide_sqlite_writer *writer)
{
    atomic_fetch_add(&writer->log_holds, 1);
}

void tide_sqlite_writer_release_log(tide_sqlite_writer *writer)
{
    atomic_fetch_sub(&writer->log_holds, 1);
}

int64_t tide_sqlite_writer_wal_bytes(const tide_sqlite_writer *writer)
{
    return atomic_load(&writer->wal_bytes);
}
