#include "colony/poller_parts.h"

#include "base/list.h"

enum { NAMED_MAX = 1000 };

/* Gaps that end with their position are not in the change one by one. */
static bool is_told(const tide_change *change, int64_t id)
{
    for (int i = 0; i < change->gap_count; i++)
        if (change->gaps[i].id == id)
            return true;
    return false;
}

int64_t tide_poller_count_ended(const tide_change *change, const tide_gap_list *ended)
{
    int64_t count = 0;
    for (int i = 0; i < ended->count; i++)
        count += is_told(change, ended->gaps[i].id) ? 0 : 1;
    return count;
}

void tide_poller_report(const tide_reporter *reporter, const tide_report *report)
{
    if (reporter->fn)
        reporter->fn(reporter->arg, report);
}

void tide_poller_report_change(const tide_reporter *reporter, const tide_change *change,
                               const tide_gap_list *ended)
{
    if (change->is_closing)
        tide_poller_report(reporter,
                           &(tide_report){.kind = TIDE_REPORT_CLOSED, .position = &change->closed});
    for (int i = 0; i < change->gap_count; i++)
        tide_poller_report(reporter,
                           &(tide_report){.kind = TIDE_REPORT_GAP, .gap = &change->gaps[i]});
    for (int i = 0; ended && i < ended->count; i++)
        if (!is_told(change, ended->gaps[i].id))
            tide_poller_report(reporter, &(tide_report){.kind = TIDE_REPORT_GAP_LOST,
                                                        .gap = &ended->gaps[i],
                                                        .reason = change->closed.closed_reason});
}

/* ---- gaps that end with their position ---- */

typedef struct ended_gaps {
    tide_gap_list *list;
    int64_t above;
} ended_gaps;

static tide_status keep_gap(void *arg, const tide_gap *gap, tide_error *err)
{
    const ended_gaps *e = arg;
    if (gap->end_seq <= e->above)
        return TIDE_OK;
    TIDE_TRY(tide_list_room(&e->list->gaps, e->list->count, sizeof *gap, TIDE_LIST_MAX, err));
    e->list->gaps[e->list->count++] = *gap;
    return TIDE_OK;
}

tide_status tide_poller_find_ended(tide_sink *sink, const tide_change *change, tide_gap_list *out,
                                   tide_error *err)
{
    if (!change->is_closing || !change->closes_all_gaps)
        return TIDE_OK;
    ended_gaps e = {.list = out, .above = change->closes_gaps_above};
    const tide_gap_filter filter = {.agent_id = change->closed.agent_id,
                                    .data_type = change->closed.data_type,
                                    .session_id = change->closed.session_id,
                                    .epoch = change->closed.epoch,
                                    .statuses = 1U << TIDE_GAP_DETECTED | 1U << TIDE_GAP_RECOVERING,
                                    .limit = NAMED_MAX};
    return sink->ops->gaps(sink, &filter, keep_gap, &e, err);
}
