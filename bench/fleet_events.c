#include "fleet_events.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_before(const fleet_event *a, const fleet_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void fleet_events_push(fleet_events *events, fleet_event event)
{
    if (events->len == events->max) {
        events->max = events->max ? 2 * events->max : 1024;
        events->heap = realloc(events->heap, (size_t)events->max * sizeof *events->heap);
        assert(events->heap);
    }
    event.order = events->order++;
    fleet_event *heap = events->heap;
    int64_t at = events->len++;
    for (; at > 0 && is_before(&event, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = event;
}

fleet_event fleet_events_pop(fleet_events *events)
{
    assert(events->len > 0);
    fleet_event *heap = events->heap;
    const fleet_event top = heap[0];
    const fleet_event last = heap[--events->len];
    int64_t at = 0;
    for (int64_t child = 1; child < events->len; child = 2 * at + 1) {
        child += child + 1 < events->len && is_before(&heap[child + 1], &heap[child]);
        if (!is_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

void fleet_events_done(fleet_events *events)
{
    free(events->heap);
}
