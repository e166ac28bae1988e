
#include "colony/poller_parts.h"

#include "base/list.h"

enum { NAMED_MAX = 1000 };

static void write_gap(tide_log *log, tide_log_level level, const char *message, const tide_gap *gap,
                      const char *reason)
{
    tide_log_write(log, level, message, TIDE_F("agent", gap->agent_id),
                   TIDE_F("data_type", gap->data_type), TIDE_F("session", gap->session_id),
                   TIDE_FI("epoch", gap->epoch), TIDE_FI("start", gap->start_seq),
                   TIDE_FI("end", gap->end_seq),
                   TIDE_FI("records", gap->end_seq - gap->start_seq + 1), TIDE_F("reason", reason),
                   TIDE_FI("attempts", gap->attempts), TIDE_F_END);
}

static void log_gap(tide_log *log, const tide_gap *gap)
{
    switch (gap->status) {
    case TIDE_GAP_DETECTED:
        if (gap->attempts == 0)
            write_gap(log, TIDE_LOG_WARN, "gap detected", gap, gap->reason);
        else
            write_gap(log, TIDE_LOG_WARN, "gap recovery failed, will retry", gap,
                      *gap->evidence ? gap->evidence : gap->reason);
        break;
    case TIDE_GAP_RECOVERING:
        write_gap(log, TIDE_LOG_WARN, "gap recovery failed, will retry", gap,
                  *gap->evidence ? gap->evidence : gap->reason);
        break;
    case TIDE_GAP_RECOVERED:
        write_gap(log, TIDE_LOG_INFO, "gap recovery succeeded", gap, gap->reason);
        break;
    case TIDE_GAP_VOID:
        write_gap(log, TIDE_LOG_INFO, "gap is void: these numbers were never used", gap,
                  gap->reason);
        break;
    case TIDE_GAP_PERMANENT:
        write_gap(log, TIDE_LOG_ERROR, "PERMANENT DATA LOSS", gap, gap->reason);
        break;
    case TIDE_GAP_STATUS_COUNT:
        break;
    }
}

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

void tide_poller_log_change(tide_log *log, const tide_change *change, const tide_gap_list *ended)
{
    if (!log)
        return;
    if (change->is_closing)
        tide_log_write(
            log, TIDE_LOG_WARN, "position closed", TIDE_F("agent", change->closed.agent_id),
            TIDE_F("data_type", change->closed.data_type),
            TIDE_F("session", change->closed.session_id), TIDE_FI("epoch", change->closed.epoch),
            TIDE_FI("last_seq", change->closed.last_seq), TIDE_FI("head", change->closed.head),
            TIDE_F("reason", change->closed.closed_reason), TIDE_F_END);
    for (int i = 0; i < change->gap_count; i++)
        log_gap(log, &change->gaps[i]);
    for (int i = 0; ended && i < ended->count; i++)
        if (!is_told(change, ended->gaps[i].id))
            write_gap(log, TIDE_LOG_ERROR, "PERMANENT DATA LOSS", &ended->gaps[i],
                      change->closed.closed_reason);
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
