/* sink.c - what all sinks share. See sink.h. */
#include "colony/sink.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/list.h"

void tide_sink_close(tide_sink *sink)
{
    if (sink)
        sink->ops->close(sink);
}

void tide_sink_closep(tide_sink **sink)
{
    tide_sink_close(*sink);
    *sink = NULL;
}

/* ---- gaps of a position ---- */

void tide_gap_list_done(tide_gap_list *list)
{
    free(list->gaps);
    *list = (tide_gap_list){0};
}

typedef struct gathering {
    tide_gap_list list;
    int64_t last_id;
    int64_t seen; /* of the last listing */
} gathering;

static void drop_gathering(gathering *g)
{
    tide_gap_list_done(&g->list);
}

static tide_status gather(void *arg, const tide_gap *gap, tide_error *err)
{
    gathering *g = arg;
    TIDE_TRY(
        tide_list_room(&g->list.gaps, g->list.count, sizeof *g->list.gaps, TIDE_LIST_MAX, err));
    g->list.gaps[g->list.count++] = *gap;
    g->last_id = gap->id;
    g->seen++;
    return TIDE_OK;
}

static int compare_starts(const void *left, const void *right)
{
    const tide_gap *a = left;
    const tide_gap *b = right;
    return a->start_seq < b->start_seq ? -1 : a->start_seq > b->start_seq;
}

tide_status tide_sink_gaps_in(tide_sink *sink, const tide_position *position, int64_t first,
                              int64_t last, tide_gap_list *out, tide_error *err)
{
    *out = (tide_gap_list){0};
    TIDE_CLEANUP(drop_gathering) gathering g = {0};
    if (position->source_id == 0)
        return TIDE_OK;
    tide_gap_filter filter = {.agent_id = position->agent_id,
                              .data_type = position->data_type,
                              .session_id = position->session_id,
                              .epoch = position->epoch,
                              .statuses = 1U << TIDE_GAP_DETECTED | 1U << TIDE_GAP_RECOVERING |
                                          1U << TIDE_GAP_PERMANENT | 1U << TIDE_GAP_VOID,
                              .first_seq = first,
                              .last_seq = last,
                              .limit = TIDE_SINK_GAPS_MAX};
    do {
        g.seen = 0;
        TIDE_TRY(sink->ops->gaps(sink, &filter, gather, &g, err));
        filter.after_id = g.last_id;
    } while (g.seen == filter.limit);
    if (g.list.count > 1)
        qsort(g.list.gaps, (size_t)g.list.count, sizeof g.list.gaps[0], compare_starts);
    *out = g.list;
    g.list = (tide_gap_list){0};
    return TIDE_OK;
}

tide_status tide_sink_fail_owner(const tide_position *to, tide_view owner, tide_error *err)
{
    const int len = (int)owner.len;
    const char *name = (const char *)owner.ptr;
    return tide_fail(err, TIDE_E_EXISTS,
                     "session %s is of agent '%.*s', and answers at the address of '%s': correct "
                     "the addresses (tidemark colony agent ls), or remove '%.*s'",
                     to->session_id, len, name, to->agent_id, len, name);
}

static int compare_intervals(const void *a, const void *b)
{
    const int64_t x = ((const tide_interval *)a)->first;
    const int64_t y = ((const tide_interval *)b)->first;
    return (x > y) - (x < y);
}

tide_status tide_sink_tell_absent(tide_interval *found, int count, tide_interval_fn *fn, void *arg,
                                  tide_error *err)
{
    int64_t through = 0;
    if (count > 1)
        qsort(found, (size_t)count, sizeof *found, compare_intervals);
    for (int i = 0; i < count; i++) {
        const int64_t first = found[i].first > through ? found[i].first : through + 1;
        if (first > found[i].last)
            continue;
        TIDE_TRY(fn(arg, (tide_interval){first, found[i].last}, err));
        through = found[i].last;
    }
    return TIDE_OK;
}
