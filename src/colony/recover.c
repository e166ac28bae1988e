#include "colony/recover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/json_tree.h"
#include "colony/poller_parts.h"
#include "colony/recover_parts.h"

enum {
    BEGIN_TRIES = 100, /* items that turn out to be done already, in one call */
    APPLY_TRIES = 8,
    REQUEST_MAX = 64 << 10,
    OUTPUT_MAX = 2048,
    EVIDENCE_RECORDS = 100, /* asked for below a gap: does the agent still serve lower numbers? */
};

struct tide_recovery {
    tide_recover_options options;
    tide_gap gap;
    tide_position position;
    tide_agent_row agent;
    char work_item_id[TIDE_WORK_ID_MAX + 1];
    int64_t token;
    bool has_item;
    tide_ask ask;
    tide_buffer request;
    tide_question question;
};

/* ---- which gaps ---- */

void tide_recover_defaults(tide_recover_options *out, const tide_recover_options *given)
{
    *out = *given;
    if (out->interval_us <= 0)
        out->interval_us = TIDE_RECOVER_INTERVAL_US;
    if (out->attempt_max <= 0)
        out->attempt_max = TIDE_RECOVER_ATTEMPT_MAX;
    if (out->per_agent_max <= 0)
        out->per_agent_max = TIDE_RECOVER_PER_AGENT_MAX;
    if (out->give_up_us <= 0)
        out->give_up_us = TIDE_RECOVER_GIVE_UP_US;
}

static bool is_presumed(const tide_gap *gap)
{
    return gap->status == TIDE_GAP_VOID && strcmp(gap->reason, "presumed") == 0;
}

static bool recover_is_wanted(const tide_gap *gap, int64_t now_us)
{
    return tide_gap_is_open(gap->status) ||
           (is_presumed(gap) && now_us - gap->detected_at_us < TIDE_RECOVER_PRESUMED_US);
}

bool tide_recover_is_due(const tide_recover_options *options, const tide_gap *gap, int64_t now_us,
                         int64_t *next_us)
{
    if (!recover_is_wanted(gap, now_us))
        return false;
    const int64_t passed_us = now_us - gap->last_attempt_us;
    /* An attempt in the future: the clock was set back since. */
    if (gap->last_attempt_us == 0 || passed_us >= options->interval_us || passed_us < 0)
        return true;
    if (options->interval_us - passed_us < *next_us)
        *next_us = options->interval_us - passed_us;
    return false;
}

/* ---- its position ---- */

typedef struct search {
    int64_t source_id;
    tide_position *out;
    bool is_found;
} search;

static tide_status match_source(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                                tide_error *err)
{
    (void)gaps;
    search *s = arg;
    if (s->is_found || position->source_id != s->source_id)
        return TIDE_OK;
    tide_position_done(s->out);
    TIDE_TRY(tide_position_copy(s->out, position, err));
    s->is_found = true;
    return TIDE_OK;
}

/* The gap and its position as they are now. TIDE_NONE: the gap is gone, or has ended. */
static tide_status load_gap(tide_recovery *r, tide_error *err)
{
    tide_sink *sink = r->options.sink;
    tide_env *env = r->options.env;
    TIDE_TRY_FOUND(sink->ops->gap(sink, r->gap.id, &r->gap, err));
    if (!recover_is_wanted(&r->gap, env->wall_us(env)))
        return TIDE_NONE;
    search s = {.source_id = r->gap.source_id, .out = &r->position};
    TIDE_TRY(
        sink->ops->positions(sink, r->gap.agent_id, r->gap.data_type, true, match_source, &s, err));
    return s.is_found ? TIDE_OK : TIDE_NONE;
}

/* ---- the question ---- */

static void make_ask(tide_recovery *r)
{
    const tide_gap *gap = &r->gap;
    const tide_colony_type *type = tide_colony_type_find(gap->data_type);
    const int64_t width = gap->end_seq - gap->start_seq + 1;
    /* Perhaps it was too much. An agent of ours starts the count anew with every answer that brings something, so it is asked
     * for one record in the end; of a foreign one we have only attempt_max answers. */
    const int64_t least = r->position.is_foreign ? EVIDENCE_RECORDS : 1;
    int64_t page = width < type->stream->page ? width : type->stream->page;
    for (int i = 0; i < gap->attempts && page > least; i++)
        page = page / 4 > least ? page / 4 : least;
    r->ask = (tide_ask){.type = type,
                        .data_type = r->gap.data_type,
                        .start_seq = gap->start_seq - 1,
                        .last_seq = gap->end_seq,
                        .max_records = page,
                        .session_id = "",
                        .points = r->position.points,
                        .point_count = r->position.is_foreign ? 0 : r->position.point_count,
                        .sent_us = r->options.env->mono_us(r->options.env)};
    const bool is_last = gap->attempts + 1 >= r->options.attempt_max || is_presumed(gap);
    if (r->position.is_foreign && is_last) {
        const int64_t below =
            gap->start_seq - 1 < EVIDENCE_RECORDS ? gap->start_seq - 1 : EVIDENCE_RECORDS;
        r->ask.start_seq -= below;
        r->ask.max_records += below;
    }
}

static tide_status make_question(tide_recovery *r, tide_error *err)
{
    make_ask(r);
    tide_buffer_clear(&r->request);
    TIDE_TRY(tide_ask_encode(&r->request, &r->ask, err));
    r->question = (tide_question){.path = r->ask.type->path,
                                  .request = tide_buffer_view(&r->request),
                                  .timeout_us = TIDE_POLLER_TIMEOUT_US,
                                  .message_max = TIDE_REPLY_BYTES_MAX,
                                  .bytes = TIDE_ASK_BYTES_DEFAULT};
    return TIDE_OK;
}

/* ---- the item ---- */

TIDE_CLEANUP_FN(recovery_freep, tide_recovery, tide_recovery_free)

void tide_recovery_free(tide_recovery *recovery)
{
    if (!recovery)
        return;
    tide_error err;
    if (recovery->has_item) /* whoever comes next finds it; if not, its lease runs out */
        TIDE_IGNORE(tide_work_release(recovery->options.sink->store, recovery->work_item_id,
                                      recovery->token, 0, &err));
    tide_position_done(&recovery->position);
    tide_buffer_done(&recovery->request);
    free(recovery);
}

void tide_recovery_abandon(tide_recovery *recovery)
{
    if (recovery)
        recovery->has_item = false;
    tide_recovery_free(recovery);
}

static tide_status write_output(tide_buffer *out, const tide_recovery *r, const char *outcome,
                                const char *why)
{
    tide_json json;
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    tide_json_key(&json, "gap_id");
    tide_json_i64(&json, r->gap.id);
    tide_json_key(&json, "outcome");
    tide_json_text(&json, outcome);
    if (why) {
        tide_json_key(&json, "why");
        tide_json_text(&json, why);
    }
    tide_json_object_end(&json);
    return tide_json_finish(&json);
}

/* The attempt is over, whatever it brought. A lost lease changes nothing: the item comes again and finds what was done. */
static tide_status finish_item(tide_recovery *r, const char *outcome, const char *why,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer output = {0};
    tide_buffer_init(&output, OUTPUT_MAX);
    if (write_output(&output, r, outcome, why) < TIDE_OK)
        return tide_no_memory(err);
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = r->work_item_id,
                               .token = r->token, .output = tide_buffer_text(&output)};
    r->has_item = false;
    const tide_status status = tide_work_finish(r->options.sink->store, &result, err);
    return status == TIDE_E_LEASE_LOST ? TIDE_OK : status;
}

static int64_t parse_gap_id(const char *input)
{
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *root = NULL;
    if (input)
        TIDE_IGNORE(tide_json_tree_read(&root, tide_view_of(input), NULL));
    return tide_json_node_integer(tide_json_node_find(root, "gap_id"));
}

static tide_status claim_item(tide_recovery *r, const char *worker, tide_error *err)
{
    const char *const types[] = {TIDE_RECOVER_WORK_TYPE};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = worker,
                                             .types = types, .type_count = 1, .limit = 1};
    tide_work_claims claims = {0};
    const tide_status status = tide_work_claim(r->options.sink->store, &request, &claims, err);
    if (status == TIDE_OK) {
        (void)snprintf(r->work_item_id, sizeof r->work_item_id, "%s", claims.items[0].work_item_id);
        r->token = claims.items[0].lease_token;
        r->gap = (tide_gap){.id = parse_gap_id(claims.items[0].input)};
        r->has_item = true;
    }
    tide_work_claims_done(&claims);
    return status;
}

/* ---- settling ---- */

/* What came back, or why nothing did. */
typedef struct outcome {
    const tide_reply *reply; /* NULL: nothing */
    const char *why;
} outcome;

static tide_status compute(tide_recovery *r, const outcome *o, tide_change *out, tide_error *err)
{
    const tide_recover_options *options = &r->options;
    const int64_t now_us = options->env->wall_us(options->env);
    if (o->reply)
        return tide_settle_gap(out, &r->position, &r->gap, &r->ask, o->reply, options->attempt_max,
                               now_us, err);
    return tide_settle_miss(out, &r->position, &r->gap, o->why, options->attempt_max,
                            options->give_up_us, now_us, err);
}

static tide_status apply(tide_recovery *r, tide_change *change, tide_error *err)
{
    const tide_poller_events *events = &r->options.events;
    TIDE_TRY(tide_sink_apply(r->options.sink, change, err));
    const bool was_void = r->gap.status == TIDE_GAP_VOID;
    if (was_void)
        change->voided = 0; /* it was counted when it became void */
    for (int i = 0; i < change->gap_count; i++)
        if (!was_void || change->gaps[i].status != TIDE_GAP_VOID)
            tide_poller_report(&r->options.reporter,
                               &(tide_report){.kind = TIDE_REPORT_GAP, .gap = &change->gaps[i]});
    if (events->applied)
        events->applied(events->arg, change);
    return TIDE_OK;
}

/* The poller, or an operator, may have been first: then it is computed anew from what is there. TIDE_NONE: there is nothing left to do.
 * *is_sink: a failure is the sink's, not the answer's. */
static tide_status settle(tide_recovery *r, const outcome *o, bool *is_sink, tide_error *err)
{
    for (int i = 1;; i++) {
        TIDE_CLEANUP(tide_change_done) tide_change change = {0};
        *is_sink = false;
        tide_status status = compute(r, o, &change, err);
        if (status != TIDE_OK)
            return status;
        *is_sink = true;
        status = apply(r, &change, err);
        const bool is_moved = status == TIDE_E_CONFLICT || status == TIDE_E_OUTCOME_UNKNOWN;
        if (!is_moved || i == APPLY_TRIES)
            return status;
        const int64_t start_seq = r->gap.start_seq;
        const int attempts = r->gap.attempts;
        status = load_gap(r, err);
        if (status != TIDE_OK)
            return status;
        /* Somebody else has tried, or it was this change after all: the next item asks anew. */
        if (r->gap.start_seq != start_seq || r->gap.attempts != attempts)
            return TIDE_NONE;
    }
}

static void tell_failed(const tide_recovery *r, tide_status status, const char *text)
{
    const tide_poller_events *events = &r->options.events;
    if (events->failed)
        events->failed(events->arg, r->gap.agent_id, r->gap.data_type, status, text);
}

static void tell_not_stored(const tide_recovery *r, tide_status status, const char *text)
{
    const tide_poller_events *events = &r->options.events;
    if (events->not_stored)
        events->not_stored(events->arg, r->gap.agent_id, r->gap.data_type, status, text);
}

static tide_status take_miss(tide_recovery *r, tide_status why, const char *text, tide_error *err)
{
    bool is_sink;
    const outcome o = {.why = text};
    tell_failed(r, why, text);
    const tide_status status = settle(r, &o, &is_sink, err);
    if (status < TIDE_OK) {
        tell_not_stored(r, status, err->text);
        return status;
    }
    return finish_item(r, "missed", text, err);
}

/* What ends with a session ends when the poller has followed the agent to the next one. Until then
 * another agent may have answered. */
static tide_status check_session(const tide_recovery *r, const tide_reply *reply, tide_error *err)
{
    const tide_gap *gap = &r->gap;
    if (strcmp(reply->session_id, gap->session_id) == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_position_done) tide_position current;
    tide_position_init(&current, gap->agent_id, gap->data_type);
    TIDE_TRY(tide_sink_load(r->options.sink, gap->agent_id, gap->data_type, &current, err));
    if (strcmp(current.session_id, reply->session_id) == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_MISMATCH,
                     "the response is of session %s, the gap of %s, and the agent is in %s",
                     reply->session_id, gap->session_id, current.session_id);
}

static tide_status take_reply(tide_recovery *r, const tide_reply *reply, tide_error *err)
{
    bool is_sink = false;
    const outcome o = {.reply = reply};
    tide_status status = check_session(r, reply, err);
    if (status == TIDE_OK)
        status = settle(r, &o, &is_sink, err);
    if (status >= TIDE_OK)
        return finish_item(r, "settled", NULL, err);
    if (is_sink) {
        tell_not_stored(r, status, err->text);
        return status;
    }
    char why[TIDE_ERROR_TEXT_MAX];
    memcpy(why, err->text, sizeof why);
    return take_miss(r, status, why, err);
}

/* ---- begin and take ---- */

/* TIDE_OK: a question stands there. TIDE_NONE: this item is done, try the next. */
static tide_status prepare(tide_recovery *r, tide_error *err)
{
    tide_store *store = r->options.sink->store;
    const tide_status status = r->gap.id > 0 ? load_gap(r, err) : TIDE_NONE;
    TIDE_TRY(status);
    if (status == TIDE_NONE) {
        TIDE_TRY(finish_item(r, "ended before", NULL, err));
        return TIDE_NONE;
    }
    const tide_status found = tide_registry_find(store, r->gap.agent_id, &r->agent, err);
    TIDE_TRY(found);
    if (found == TIDE_NONE || r->agent.is_removed) {
        TIDE_TRY(take_miss(r, TIDE_E_NOT_FOUND, "the agent was removed", err));
        return TIDE_NONE;
    }
    return make_question(r, err);
}

tide_status tide_recover_begin(tide_recovery **out, const tide_recover_options *options,
                               const char *worker, tide_error *err)
{
    TIDE_CLEANUP(recovery_freep) TIDE_NEW(tide_recovery, r, err);
    tide_recover_defaults(&r->options, options);
    tide_position_init(&r->position, "", "");
    tide_buffer_init(&r->request, REQUEST_MAX);
    for (int i = 0; i < BEGIN_TRIES; i++) {
        TIDE_TRY_FOUND(claim_item(r, worker, err));
        const tide_status status = prepare(r, err);
        TIDE_TRY(status);
        if (status == TIDE_OK) {
            *out = TIDE_TAKE(r);
            return TIDE_OK;
        }
    }
    return TIDE_NONE;
}

const char *tide_recovery_agent(const tide_recovery *recovery)
{
    return recovery->gap.agent_id;
}

const char *tide_recovery_address(const tide_recovery *recovery)
{
    return recovery->agent.address;
}

const tide_question *tide_recovery_question(const tide_recovery *recovery)
{
    return &recovery->question;
}

tide_status tide_recover_take(tide_recovery *recovery, tide_status status, tide_view answer,
                              const char *text, tide_error *err)
{
    TIDE_CLEANUP(recovery_freep) tide_recovery *r = recovery;
    const char *words = text ? text : tide_status_get(status)->text;
    if (status != TIDE_OK)
        return take_miss(r, status, words, err);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    const tide_status sound = tide_reply_read(&reply, r->ask.type, answer, err);
    if (sound == TIDE_E_NOMEM)
        return sound;
    if (sound < TIDE_OK) {
        char why[TIDE_ERROR_TEXT_MAX];
        memcpy(why, err->text, sizeof why);
        return take_miss(r, sound, why, err);
    }
    return take_reply(r, &reply, err);
}
