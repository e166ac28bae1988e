/* recover_plan.c - which gaps get their next attempt.
 *
 * All gaps that are due are looked at, in pages; of each agent the few that come first are kept. So memory goes with the number of
 * agents, and no agent's gaps hide another's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/json.h"
#include "colony/recover_parts.h"

enum {
    GAPS_PAGE = 1000,
    PAGES_MAX = 1000, /* of one turn */
    KEPT_MAX = 16,    /* gaps of one agent at a time, at most */
    INPUT_MAX = 1024,
};

typedef struct due_gap {
    int64_t id;
    int priority; /* of its type; 1 is first */
    int64_t last_attempt_us;
    char data_type[TIDE_FEED_NAME_MAX + 1];
} due_gap;

typedef struct agent_gaps {
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    due_gap gaps[KEPT_MAX];
    int count;
} agent_gaps;

typedef struct plan {
    const tide_recover_options *options;
    int kept_max;
    int64_t now_us;
    int64_t next_us;    /* the earliest that is not due yet, from now */
    bool has_more;      /* somebody's gaps were too many */
    agent_gaps *agents; /* ascending by name */
    int count;
    /* of the page */
    int64_t last_id;
    int seen;
} plan;

static void plan_done(plan *p)
{
    free(p->agents);
}

/* ---- who is first ---- */

static bool is_before(const due_gap *a, const due_gap *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->last_attempt_us != b->last_attempt_us)
        return a->last_attempt_us < b->last_attempt_us;
    return a->id < b->id;
}

static void keep_first(plan *p, agent_gaps *agent, const due_gap *gap)
{
    int at = agent->count;
    while (at > 0 && is_before(gap, &agent->gaps[at - 1]))
        at--;
    p->has_more = p->has_more || agent->count == p->kept_max;
    if (at == p->kept_max)
        return;
    const int moved = (agent->count == p->kept_max ? agent->count - 1 : agent->count) - at;
    memmove(&agent->gaps[at + 1], &agent->gaps[at], (size_t)moved * sizeof *gap);
    agent->gaps[at] = *gap;
    agent->count += agent->count < p->kept_max;
}

/* NULL: no memory. */
static agent_gaps *find_agent(plan *p, const char *agent_id)
{
    int low = 0;
    int high = p->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (strcmp(p->agents[middle].agent_id, agent_id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < p->count && strcmp(p->agents[low].agent_id, agent_id) == 0)
        return &p->agents[low];
    if (tide_list_room(&p->agents, p->count, sizeof *p->agents, TIDE_LIST_MAX, NULL) < TIDE_OK)
        return NULL;
    memmove(&p->agents[low + 1], &p->agents[low], (size_t)(p->count - low) * sizeof *p->agents);
    p->agents[low] = (agent_gaps){.count = 0};
    (void)snprintf(p->agents[low].agent_id, sizeof p->agents[low].agent_id, "%s", agent_id);
    p->count++;
    return &p->agents[low];
}

static tide_status look_at(void *arg, const tide_gap *gap, tide_error *err)
{
    plan *p = arg;
    p->last_id = gap->id;
    p->seen++;
    if (!tide_recover_is_due(p->options, gap, p->now_us, &p->next_us))
        return TIDE_OK;
    agent_gaps *agent = find_agent(p, gap->agent_id);
    TIDE_NEED_MEMORY(agent, err);
    due_gap due = {.id = gap->id,
                   .priority = tide_colony_type_find(gap->data_type)->priority,
                   .last_attempt_us = gap->last_attempt_us};
    memcpy(due.data_type, gap->data_type, sizeof due.data_type);
    keep_first(p, agent, &due);
    return TIDE_OK;
}

static tide_status look_at_all(plan *p, tide_error *err)
{
    tide_sink *sink = p->options->sink;
    tide_gap_filter filter = {.epoch = -1,
                              .statuses = 1U << TIDE_GAP_DETECTED | 1U << TIDE_GAP_RECOVERING |
                                          1U << TIDE_GAP_VOID,
                              .limit = GAPS_PAGE};
    for (int page = 0; page < PAGES_MAX; page++) {
        p->seen = 0;
        TIDE_TRY(sink->ops->gaps(sink, &filter, look_at, p, err));
        if (p->seen < GAPS_PAGE)
            return TIDE_OK;
        filter.after_id = p->last_id;
    }
    p->has_more = true;
    return TIDE_OK;
}

/* ---- items ---- */

static tide_status write_input(tide_buffer *out, const agent_gaps *agent, const due_gap *gap,
                               tide_error *err)
{
    tide_json json;
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    tide_json_key(&json, "gap_id");
    tide_json_i64(&json, gap->id);
    tide_json_key(&json, "agent_id");
    tide_json_text(&json, agent->agent_id);
    tide_json_key(&json, "data_type");
    tide_json_text(&json, gap->data_type);
    tide_json_object_end(&json);
    return tide_json_finish(&json) < TIDE_OK ? tide_no_memory(err) : TIDE_OK;
}

/* One item; the task that all of them belong to is made when it is missing. */
static tide_status add_item(tide_store *store, const tide_work_spec *item, tide_work_added *added,
                            tide_error *err)
{
    const tide_status status = tide_work_add(store, item, 1, added, err);
    if (status != TIDE_E_NOT_FOUND)
        return status;
    char task_id[TIDE_WORK_ID_MAX + 1];
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = TIDE_RECOVER_TASK,
                                .title = "Recovery of gaps"};
    const tide_status made = tide_task_create(store, &task, task_id, err);
    if (made < TIDE_OK && made != TIDE_E_EXISTS)
        return made;
    return tide_work_add(store, item, 1, added, err);
}

static tide_status add_gap(const plan *p, const agent_gaps *agent, const due_gap *gap,
                           int64_t *added, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer input = {0};
    tide_buffer_init(&input, INPUT_MAX);
    TIDE_TRY(write_input(&input, agent, gap, err));
    char key[48];
    (void)snprintf(key, sizeof key, "gap/%" PRId64, gap->id);
    const tide_work_spec item = {TIDE_WORK_SPEC_INIT,
                                 .task_id = TIDE_RECOVER_TASK,
                                 .work_type = TIDE_RECOVER_WORK_TYPE,
                                 .input = tide_buffer_text(&input),
                                 .priority = 10 - gap->priority,
                                 .max_retries = -1,
                                 .unique_key = key};
    tide_work_added out;
    TIDE_TRY(add_item(p->options->sink->store, &item, &out, err));
    *added += !out.is_existing;
    return TIDE_OK;
}

tide_status tide_recover_plan(const tide_recover_options *given, int64_t *added, int64_t *next_us,
                              tide_error *err)
{
    tide_recover_options options;
    tide_recover_defaults(&options, given);
    TIDE_CLEANUP(plan_done)
    plan p = {.options = &options,
              .kept_max = options.per_agent_max < KEPT_MAX ? options.per_agent_max : KEPT_MAX,
              .now_us = options.env->wall_us(options.env),
              .next_us = options.interval_us};
    *added = 0;
    TIDE_TRY(look_at_all(&p, err));
    for (int i = 0; i < p.count; i++)
        for (int j = 0; j < p.agents[i].count; j++)
            TIDE_TRY(add_gap(&p, &p.agents[i], &p.agents[i].gaps[j], added, err));
    *next_us =
        p.has_more && p.next_us > options.interval_us / 10 ? options.interval_us / 10 : p.next_us;
    return TIDE_OK;
}
