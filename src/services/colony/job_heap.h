/* job_heap.h - jobs by a number, the smallest first.
 *
 * A job is in at most one heap; it knows which and where, so that it can be taken out from the middle.
 * Threads: under the scheduler's lock. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

struct tide_poll_job;

typedef struct tide_poll_job_entry {
    int64_t key;
    struct tide_poll_job *job;
} tide_poll_job_entry;

typedef struct tide_poll_job_heap {
    tide_poll_job_entry *entries;
    size_t count;
    size_t capacity;
} tide_poll_job_heap;

void tide_poll_job_heap_done(tide_poll_job_heap *heap);

/* Room for count jobs in all: from then on adding cannot fail. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_poll_job_heap_reserve(tide_poll_job_heap *heap, size_t count);

void tide_poll_job_heap_add(tide_poll_job_heap *heap, struct tide_poll_job *job, int64_t key);
/* From wherever it is; nothing, if it is in none. */
void tide_poll_job_heap_remove(struct tide_poll_job *job);
/* NULL: empty. The job stays. */
struct tide_poll_job *tide_poll_job_heap_first(const tide_poll_job_heap *heap, int64_t *key);
