#include "services/colony/job_heap.h"

#include <assert.h>
#include <stdlib.h>

#include "base/list.h"
#include "services/colony/scheduler_internal.h"

void tide_poll_job_heap_done(tide_poll_job_heap *heap)
{
    free(heap->entries);
    *heap = (tide_poll_job_heap){.entries = NULL};
}

tide_status tide_poll_job_heap_reserve(tide_poll_job_heap *heap, size_t count)
{
    if (count <= heap->capacity)
        return TIDE_OK;
    const size_t capacity = count < 32 ? 32 : 2 * count;
    TIDE_TRY(tide_list_resize(&heap->entries, capacity, sizeof *heap->entries, NULL));
    heap->capacity = capacity;
    return TIDE_OK;
}

static void set(tide_poll_job_heap *heap, size_t at, tide_poll_job_entry entry)
{
    heap->entries[at] = entry;
    entry.job->heap = heap;
    entry.job->heap_at = at;
}

static void move_up(tide_poll_job_heap *heap, size_t at, tide_poll_job_entry entry)
{
    while (at > 0 && heap->entries[(at - 1) / 2].key > entry.key) {
        set(heap, at, heap->entries[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    set(heap, at, entry);
}

static void move_down(tide_poll_job_heap *heap, size_t at, tide_poll_job_entry entry)
{
    for (size_t child = 2 * at + 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && heap->entries[child + 1].key < heap->entries[child].key)
            child++;
        if (heap->entries[child].key >= entry.key)
            break;
        set(heap, at, heap->entries[child]);
        at = child;
    }
    set(heap, at, entry);
}

void tide_poll_job_heap_add(tide_poll_job_heap *heap, tide_poll_job *job, int64_t key)
{
    assert(!job->heap && heap->count < heap->capacity);
    heap->count++;
    move_up(heap, heap->count - 1, (tide_poll_job_entry){.key = key, .job = job});
}

void tide_poll_job_heap_remove(tide_poll_job *job)
{
    tide_poll_job_heap *heap = job->heap;
    if (!heap)
        return;
    const size_t at = job->heap_at;
    job->heap = NULL;
    heap->count--;
    if (at == heap->count)
        return;
    const tide_poll_job_entry last = heap->entries[heap->count];
    if (at > 0 && heap->entries[(at - 1) / 2].key > last.key)
        move_up(heap, at, last);
    else
        move_down(heap, at, last);
}

tide_poll_job *tide_poll_job_heap_first(const tide_poll_job_heap *heap, int64_t *key)
{
    if (heap->count == 0)
        return NULL;
    *key = heap->entries[0].key;
    return heap->entries[0].job;
}
