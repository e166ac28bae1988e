/* service_gaps.c - gaps, one by one and as incidents; see service.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "services/colony/service.h"

enum { TRY_MAX = 20, LIMIT_DEFAULT = 1000, INCIDENT_GAPS_MAX = 10000, INCIDENT_NAMES_MAX = 64 };

#define INCIDENT_US INT64_C(60000000) /* gaps that follow one another so closely belong together */

static void fill(COLONY(Gap) * out, const tide_gap *gap)
{
    out->id = gap->id;
    out->agent_id = tide_rpc_borrow(gap->agent_id);
    out->data_type = tide_rpc_borrow(gap->data_type);
    out->start_seq_id = (uint64_t)gap->start_seq;
    out->end_seq_id = (uint64_t)gap->end_seq;
    out->detected_at = gap->detected_at_us;
    out->recovered_at = gap->recovered_at_us;
    out->status = tide_rpc_borrow(tide_gap_status_name(gap->status));
    out->recovery_attempts = (uint32_t)gap->attempts;
    out->last_recovery_attempt = gap->last_attempt_us;
    out->session_id = tide_rpc_borrow(gap->session_id);
    out->epoch = (uint64_t)gap->epoch;
    out->reason = tide_rpc_borrow(gap->reason);
    out->evidence = tide_rpc_borrow(gap->evidence);
    out->settled_at = gap->settled_at_us;
}

/* ---- looking ---- */

typedef struct gap_list {
    tide_buffer *out;
    int64_t left;
    bool has_more;
} gap_list;

static tide_status put_gap(void *arg, const tide_gap *gap, tide_error *err)
{
    gap_list *list = arg;
    if (list->left == 0) {
        list->has_more = true;
        return TIDE_OK;
    }
    list->left--;
    COLONY(Gap) row = COLONY_INIT(GAP);
    fill(&row, gap);
    return tide_rpc_put_message(list->out, 1, &row.base, err);
}

static tide_status read_statuses(uint32_t *out, char *const *names, size_t count, tide_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int status = 0;
        while (status < TIDE_GAP_STATUS_COUNT &&
               strcmp(tide_gap_status_name((tide_gap_status)status), names[i]) != 0)
            status++;
        if (status == TIDE_GAP_STATUS_COUNT)
            return tide_fail(err, TIDE_E_INVALID,
                             "'%s' is no status of a gap: detected, recovering, recovered, "
                             "permanent, void",
                             names[i]);
        *out |= UINT32_C(1) << status;
    }
    return TIDE_OK;
}

tide_status tide_colony_list_gaps(tide_colony *colony, const ProtobufCMessage *request,
                                  tide_buffer *out, tide_error *err)
{
    const COLONY(ListGapsRequest) *given = (const COLONY(ListGapsRequest) *)request;
    gap_list list = {.out = out, .left = given->limit > 0 ? given->limit : LIMIT_DEFAULT};
    tide_gap_filter filter = {.agent_id = tide_rpc_text(given->agent_id),
                              .data_type = tide_rpc_text(given->data_type),
                              .epoch = -1,
                              .after_id = given->after_id};
    if (list.left >= TIDE_SINK_GAPS_MAX)
        list.left = TIDE_SINK_GAPS_MAX - 1;
    filter.limit = list.left + 1;
    TIDE_TRY(tide_colony_check_names(colony, given->agent_id, given->data_type, err));
    TIDE_TRY(read_statuses(&filter.statuses, given->statuses, given->n_statuses, err));
    TIDE_TRY(colony->sink->ops->gaps(colony->sink, &filter, put_gap, &list, err));
    COLONY(ListGapsResponse) rest = COLONY_INIT(LIST_GAPS_RESPONSE);
    rest.more = list.has_more;
    return tide_rpc_pack(out, &rest.base, err);
}

static tide_status find(tide_colony *colony, int64_t id, tide_gap *out, tide_error *err)
{
    const tide_status status = colony->sink->ops->gap(colony->sink, id, out, err);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no gap %" PRId64, id);
    return status;
}

static tide_status answer_gap(tide_colony *colony, int64_t id, tide_buffer *out, tide_error *err)
{
    tide_gap gap;
    COLONY(Gap) row = COLONY_INIT(GAP);
    TIDE_TRY(find(colony, id, &gap, err));
    fill(&row, &gap);
    return tide_rpc_pack(out, &row.base, err);
}

tide_status tide_colony_get_gap(tide_colony *colony, const ProtobufCMessage *request,
                                tide_buffer *out, tide_error *err)
{
    return answer_gap(colony, ((const COLONY(GetGapRequest) *)request)->id, out, err);
}

/* ---- acts ---- */

/* The position a gap belongs to, which may be closed. */
typedef struct owner {
    const tide_gap *gap;
    tide_position *position;
    bool is_found;
} owner;

static tide_status keep_owner(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                              tide_error *err)
{
    (void)gaps;
    owner *o = arg;
    if (o->is_found || position->source_id != o->gap->source_id)
        return TIDE_OK;
    o->is_found = true;
    return tide_position_copy(o->position, position, err);
}

typedef tide_status gap_act(tide_change *change, const tide_position *at, const tide_gap *gap,
                            const char *note, int64_t now_us, tide_error *err);

static tide_status try_act(tide_colony *colony, int64_t id, gap_act *act, const char *note,
                           tide_error *err)
{
    tide_gap gap;
    TIDE_CLEANUP(tide_position_done) tide_position at = {.version = 0};
    TIDE_CLEANUP(tide_change_done) tide_change change = {.row_count = 0};
    owner o = {.gap = &gap, .position = &at};
    TIDE_TRY(find(colony, id, &gap, err));
    TIDE_TRY(colony->sink->ops->positions(colony->sink, gap.agent_id, gap.data_type, true,
                                          keep_owner, &o, err));
    if (!o.is_found)
        return tide_fail(err, TIDE_E_DAMAGED, "gap %" PRId64 " belongs to no checkpoint", id);
    const tide_status status =
        act(&change, &at, &gap, note, colony->env->wall_us(colony->env), err);
    return status == TIDE_OK ? tide_sink_apply(colony->sink, &change, err) : status;
}

static tide_status act_on(tide_colony *colony, int64_t id, gap_act *act, const char *note,
                          tide_buffer *out, tide_error *err)
{
    tide_status status = TIDE_E_CONFLICT;
    for (int i = 0; i < TRY_MAX && status == TIDE_E_CONFLICT; i++)
        status = try_act(colony, id, act, note, err);
    TIDE_TRY(status);
    return answer_gap(colony, id, out, err);
}

static tide_status retry(tide_change *change, const tide_position *at, const tide_gap *gap,
                         const char *note, int64_t now_us, tide_error *err)
{
    (void)note;
    return tide_settle_retry(change, at, gap, now_us, err);
}

tide_status tide_colony_retry_gap(tide_colony *colony, const ProtobufCMessage *request,
                                  tide_buffer *out, tide_error *err)
{
    const COLONY(RetryGapRequest) *given = (const COLONY(RetryGapRequest) *)request;
    TIDE_TRY(act_on(colony, given->id, retry, "", out, err));
    if (colony->scheduler)
        tide_scheduler_recover(colony->scheduler);
    return TIDE_OK;
}

tide_status tide_colony_accept_gap(tide_colony *colony, const ProtobufCMessage *request,
                                   tide_buffer *out, tide_error *err)
{
    const COLONY(AcceptGapRequest) *given = (const COLONY(AcceptGapRequest) *)request;
    return act_on(colony, given->id, tide_settle_accept, given->note, out, err);
}

/* ---- incidents ---- */

typedef struct gap_array {
    tide_gap *gaps;
    size_t count;
    int64_t since_us;
} gap_array;

static void array_done(gap_array *array)
{
    free(array->gaps);
}

static tide_status keep_gap(void *arg, const tide_gap *gap, tide_error *err)
{
    gap_array *array = arg;
    if (gap->detected_at_us < array->since_us)
        return TIDE_OK;
    TIDE_TRY(tide_list_room(&array->gaps, (int64_t)array->count, sizeof *array->gaps, TIDE_LIST_MAX,
                            err));
    array->gaps[array->count++] = *gap;
    return TIDE_OK;
}

static int compare_detected(const void *a, const void *b)
{
    const int64_t x = ((const tide_gap *)a)->detected_at_us;
    const int64_t y = ((const tide_gap *)b)->detected_at_us;
    return (x > y) - (x < y);
}

/* A set of names, borrowed. */
typedef struct name_set {
    char *names[INCIDENT_NAMES_MAX];
    size_t count;
} name_set;

static void add_name(name_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->names[i], name) == 0)
            return;
    if (set->count < INCIDENT_NAMES_MAX)
        set->names[set->count++] = tide_rpc_borrow(name);
}

/* Several agents: one alone has gaps, not an incident. */
static tide_status put_incident(tide_buffer *out, const tide_gap *gaps, size_t count,
                                tide_error *err)
{
    name_set agents = {.count = 0};
    name_set types = {.count = 0};
    COLONY(Incident) row = COLONY_INIT(INCIDENT);
    for (size_t i = 0; i < count; i++) {
        const uint64_t width = (uint64_t)(gaps[i].end_seq - gaps[i].start_seq) + 1;
        add_name(&agents, gaps[i].agent_id);
        add_name(&types, gaps[i].data_type);
        row.numbers += width;
        row.lost += gaps[i].status == TIDE_GAP_PERMANENT ? width : 0;
    }
    if (agents.count < 2)
        return TIDE_OK;
    row.began_at = gaps[0].detected_at_us;
    row.ended_at = gaps[count - 1].detected_at_us;
    row.agents = agents.names;
    row.n_agents = agents.count;
    row.data_types = types.names;
    row.n_data_types = types.count;
    row.gaps = (uint32_t)count;
    return tide_rpc_put_message(out, 1, &row.base, err);
}

tide_status tide_colony_list_incidents(tide_colony *colony, const ProtobufCMessage *request,
                                       tide_buffer *out, tide_error *err)
{
    const COLONY(ListIncidentsRequest) *given = (const COLONY(ListIncidentsRequest) *)request;
    TIDE_CLEANUP(array_done) gap_array array = {.since_us = given->since};
    const tide_gap_filter filter = {.epoch = -1, .limit = INCIDENT_GAPS_MAX};
    TIDE_TRY(colony->sink->ops->gaps(colony->sink, &filter, keep_gap, &array, err));
    if (array.count > 0)
        qsort(array.gaps, array.count, sizeof *array.gaps, compare_detected);
    for (size_t first = 0, last = 0; first < array.count; first = last) {
        last = first + 1;
        while (last < array.count &&
               array.gaps[last].detected_at_us - array.gaps[last - 1].detected_at_us < INCIDENT_US)
            last++;
        TIDE_TRY(put_incident(out, &array.gaps[first], last - first, err));
    }
    return TIDE_OK;
}
