#include "support/sim/sim_queue.h"

#include <assert.h>
#include <stdlib.h>

static bool is_before(const sim_event *a, const sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap_events(sim_event *a, sim_event *b)
{
    const sim_event kept = *a;
    *a = *b;
    *b = kept;
}

bool sim_queue_put(sim_queue *q, sim_event e)
{
    if (q->len == SIM_EVENTS_MAX)
        return false;
    if (q->len == q->capacity) {
        q->capacity = q->capacity == 0 ? 64 : 2 * q->capacity;
        q->heap = reallocarray(q->heap, q->capacity, sizeof(sim_event));
        assert(q->heap != NULL);
    }
    e.order = q->order++;
    size_t at = q->len++;
    q->heap[at] = e;
    for (; at > 0 && is_before(&q->heap[at], &q->heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap_events(&q->heap[at], &q->heap[(at - 1) / 2]);
    return true;
}

const sim_event *sim_queue_peek(const sim_queue *q)
{
    return q->len > 0 ? &q->heap[0] : NULL;
}

sim_event sim_queue_take(sim_queue *q)
{
    assert(q->len > 0);
    const sim_event next = q->heap[0];
    q->heap[0] = q->heap[--q->len];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < q->len; child++)
            if (is_before(&q->heap[child], &q->heap[least]))
                least = child;
        if (least == at)
            return next;
        swap_events(&q->heap[at], &q->heap[least]);
        at = least;
    }
}

void sim_queue_done(sim_queue *q)
{
    for (size_t i = 0; i < q->len; i++)
        free(q->heap[i].bytes);
    free(q->heap);
}
