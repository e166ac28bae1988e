/* audit.c - the ledger, recounted.
 *
 * A position and its rows are of one snapshot: a colony may go on storing. Agents are gone through one by one, so that memory does not grow with their number. */
#include "colony/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"

enum { REQUEST_MAX = 64 << 10 };

typedef struct audit {
    tide_sink *sink;
    const char *data_type;
    tide_audit_ask_fn *ask;
    void *ask_arg;
    tide_audit_fn *fn;
    void *arg;
    int64_t findings;
} audit;

/* ---- which agents ---- */

typedef struct names {
    char (*names)[TIDE_AGENT_ID_MAX + 1]; /* ascending, once each */
    int count;
} names;

static void names_done(names *n)
{
    free(n->names);
}

static tide_status keep_name(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                             tide_error *err)
{
    (void)gaps;
    names *n = arg;
    int at = n->count;
    while (at > 0 && strcmp(n->names[at - 1], position->agent_id) > 0)
        at--;
    if (at > 0 && strcmp(n->names[at - 1], position->agent_id) == 0)
        return TIDE_OK;
    TIDE_TRY(tide_list_room(&n->names, n->count, sizeof *n->names, TIDE_LIST_MAX, err));
    memmove(&n->names[at + 1], &n->names[at], (size_t)(n->count - at) * sizeof *n->names);
    (void)snprintf(n->names[at], sizeof n->names[at], "%s", position->agent_id);
    n->count++;
    return TIDE_OK;
}

/* ---- an agent's positions ---- */

typedef struct entry {
    tide_position position;
    tide_gap_sums gaps;
} entry;

typedef struct entries {
    entry *entries;
    int count;
} entries;

static void entries_clear(entries *e)
{
    for (int i = 0; i < e->count; i++)
        tide_position_done(&e->entries[i].position);
    e->count = 0;
}

static void entries_done(entries *e)
{
    entries_clear(e);
    free(e->entries);
}

static tide_status keep_entry(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                              tide_error *err)
{
    entries *e = arg;
    TIDE_TRY(tide_list_room(&e->entries, e->count, sizeof *e->entries, TIDE_LIST_MAX, err));
    entry *fresh = &e->entries[e->count];
    tide_position_init(&fresh->position, "", "");
    TIDE_TRY(tide_position_copy(&fresh->position, position, err));
    fresh->gaps = *gaps;
    e->count++;
    return TIDE_OK;
}

/* ---- one position ---- */

/* Rows and letters, and the entry as it was when they were counted. TIDE_NONE: it is not there any more. */
static tide_status count_rows(const audit *a, entry *e, tide_audit_line *line, tide_error *err)
{
    TIDE_CLEANUP(entries_done) entries counted = {0};
    const tide_status status = a->sink->ops->count(a->sink, &e->position, keep_entry, &counted,
                                                   &line->rows, &line->dead_rows, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return TIDE_NONE;
    const entry old = *e;
    *e = counted.entries[0];
    counted.entries[0] = old; /* freed with the rest */
    return TIDE_OK;
}

static tide_audit_digest judge(const tide_position *position, const tide_reply *reply)
{
    if (!reply->has_state || strcmp(reply->session_id, position->session_id) != 0)
        return TIDE_AUDIT_CANNOT_TELL;
    switch (reply->standing) {
    case TIDE_FEED_STANDING_OK:
        return TIDE_AUDIT_EQUAL;
    case TIDE_FEED_STANDING_DIVERGED:
        return TIDE_AUDIT_DIFFERS;
    case TIDE_FEED_STANDING_NONE:
    case TIDE_FEED_STANDING_UNKNOWN:
    case TIDE_FEED_STANDING_AHEAD:
        break;
    }
    return TIDE_AUDIT_CANNOT_TELL;
}

/* The agent is shown our points and says whether its history has them. Nothing is noted there: no reader is named. */
static tide_status compare_digest(const audit *a, const tide_position *position,
                                  tide_audit_line *line, tide_error *err)
{
    const tide_colony_type *type = tide_colony_type_find(position->data_type);
    const tide_ask ask = {.type = type,
                          .data_type = position->data_type,
                          .start_seq = position->cursor.highest,
                          .max_records = 1,
                          .session_id = position->session_id,
                          .points = position->points,
                          .point_count = position->point_count};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request = {0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = {0};
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    tide_buffer_init(&request, REQUEST_MAX);
    tide_buffer_init(&answer, TIDE_REPLY_BYTES_MAX);
    TIDE_TRY(tide_ask_encode(&request, &ask, err));
    tide_error why;
    line->digest = TIDE_AUDIT_CANNOT_TELL;
    if (a->ask(a->ask_arg, position->agent_id, type->path, tide_buffer_view(&request), &answer,
               &why) == TIDE_OK &&
        tide_reply_read(&reply, type, tide_buffer_view(&answer), &why) == TIDE_OK)
        line->digest = judge(position, &reply);
    return TIDE_OK;
}

/* What is wrong first is told. */
static void find_fault(tide_audit_line *line)
{
    const tide_position *at = line->position;
    const tide_ledger *b = &line->ledger;
    char *out = line->finding;
    const size_t size = sizeof line->finding;
    if (b->unexplained != 0)
        (void)snprintf(out, size, "%" PRId64 " numbers are unexplained", b->unexplained);
    else if (line->rows + at->expired != at->stored)
        (void)snprintf(out, size,
                       "%" PRId64 " rows are there and %" PRId64 " have expired, but %" PRId64
                       " are counted as stored",
                       line->rows, at->expired, at->stored);
    else if (line->dead_rows != at->dead)
        (void)snprintf(out, size, "%" PRId64 " dead letters are there, but %" PRId64 " are counted",
                       line->dead_rows, at->dead);
    else if (line->digest == TIDE_AUDIT_DIFFERS)
        (void)snprintf(out, size, "the agent's records differ from those that were read");
    line->is_balanced = *out == '\0';
}

static tide_status check_entry(audit *a, entry *e, tide_error *err)
{
    tide_audit_line line = {.digest = TIDE_AUDIT_NOT_ASKED};
    TIDE_OK_IF_NONE(count_rows(a, e, &line, err));
    line.position = &e->position;
    tide_position_ledger(&e->position, &e->gaps, &line.ledger);
    if (a->ask && e->position.closed_at_us == 0 && e->position.point_count > 0 &&
        !e->position.is_foreign)
        TIDE_TRY(compare_digest(a, &e->position, &line, err));
    find_fault(&line);
    a->findings += !line.is_balanced;
    return a->fn ? a->fn(a->arg, &line, err) : TIDE_OK;
}

static tide_status check_agent(audit *a, const char *agent_id, tide_error *err)
{
    TIDE_CLEANUP(entries_done) entries all = {0};
    TIDE_TRY(a->sink->ops->positions(a->sink, agent_id, a->data_type, true, keep_entry, &all, err));
    for (int i = 0; i < all.count; i++)
        TIDE_TRY(check_entry(a, &all.entries[i], err));
    return TIDE_OK;
}

tide_status tide_audit(tide_sink *sink, const char *agent_id, const char *data_type,
                       tide_audit_ask_fn *ask, void *ask_arg, tide_audit_fn *fn, void *arg,
                       tide_error *err)
{
    TIDE_CLEANUP(names_done) names agents = {0};
    audit a = {
        .sink = sink, .data_type = data_type, .ask = ask, .ask_arg = ask_arg, .fn = fn, .arg = arg};
    TIDE_TRY(sink->ops->positions(sink, agent_id, data_type, true, keep_name, &agents, err));
    for (int i = 0; i < agents.count; i++)
        TIDE_TRY(check_agent(&a, agents.names[i], err));
    return a.findings == 0
               ? TIDE_OK
               : tide_fail(err, TIDE_E_DAMAGED,
                           "the ledgers of %" PRId64 " positions do not balance", a.findings);
}
