/* colony.c - the public interface of a colony's store: thin calls of sink, registry and audit. */
#include <tidemark/colony.h>

#include <stdio.h>

#include "base/interface/caller.h"
#include "colony/audit.h"
#include "colony/registry.h"

_Static_assert((int)TIDE_COLONY_AGENT_MAX == (int)TIDE_AGENT_ID_MAX, "the same names");
_Static_assert((int)TIDE_COLONY_SESSION_MAX == (int)TIDE_POSITION_ID_MAX, "the same ids");

tide_status tide_colony_open(tide_colony **out, tide_store *store, tide_error *err)
{
    TIDE_NEED(out && store, err);
    return tide_sink_open_sql(out, store, err);
}

void tide_colony_close(tide_colony *colony)
{
    tide_sink_close(colony);
}

tide_status tide_colony_put_agent(tide_colony *colony, const char *agent_id, const char *address,
                                  tide_error *err)
{
    TIDE_NEED(colony, err);
    return tide_registry_put(colony->store, agent_id, address, "operator", err);
}

tide_status tide_colony_remove_agent(tide_colony *colony, const char *agent_id, tide_error *err)
{
    TIDE_NEED(colony, err);
    return tide_registry_remove(colony->store, agent_id, err);
}

/* ---- positions ---- */

typedef struct listing {
    tide_colony_ledger_fn *fn;
    void *arg;
} listing;

static tide_colony_ledger make_ledger(const tide_position *position, const tide_ledger *ledger)
{
    tide_colony_ledger out = {.epoch = position->epoch,
                              .first = ledger->first,
                              .head = ledger->head,
                              .stored = ledger->stored,
                              .dead = ledger->dead,
                              .filtered = ledger->filtered,
                              .voided = ledger->voided,
                              .lost = ledger->lost,
                              .pending = ledger->pending,
                              .is_closed = position->closed_at_us > 0,
                              .is_balanced = ledger->unexplained == 0};
    (void)snprintf(out.agent_id, sizeof out.agent_id, "%s", position->agent_id);
    (void)snprintf(out.data_type, sizeof out.data_type, "%s", position->data_type);
    (void)snprintf(out.session_id, sizeof out.session_id, "%s", position->session_id);
    return out;
}

static tide_status list_position(void *arg, const tide_position *position,
                                 const tide_gap_sums *gaps, tide_error *err)
{
    const listing *l = arg;
    tide_ledger sums;
    tide_position_ledger(position, gaps, &sums);
    const tide_colony_ledger ledger = make_ledger(position, &sums);
    return tide_callback_check(l->fn(l->arg, &ledger, err), err);
}

tide_status tide_colony_positions(tide_colony *colony, tide_colony_ledger_fn *fn, void *arg,
                                  tide_error *err)
{
    TIDE_NEED(colony && fn, err);
    listing l = {fn, arg};
    return colony->ops->positions(colony, NULL, NULL, true, list_position, &l, err);
}

static tide_status list_line(void *arg, const tide_audit_line *line, tide_error *err)
{
    const listing *l = arg;
    tide_colony_ledger ledger = make_ledger(line->position, &line->ledger);
    ledger.is_balanced = line->is_balanced;
    (void)snprintf(ledger.finding, sizeof ledger.finding, "%s", line->finding);
    return tide_callback_check(l->fn(l->arg, &ledger, err), err);
}

tide_status tide_colony_audit(tide_colony *colony, tide_colony_ledger_fn *fn, void *arg,
                              tide_error *err)
{
    TIDE_NEED(colony && fn, err);
    listing l = {fn, arg};
    return tide_audit(colony, NULL, NULL, NULL, NULL, list_line, &l, err);
}

/* ---- gaps ---- */

typedef struct gap_listing {
    tide_colony_gap_fn *fn;
    void *arg;
} gap_listing;

static tide_status list_gap(void *arg, const tide_gap *gap, tide_error *err)
{
    const gap_listing *l = arg;
    tide_colony_gap out = {.id = gap->id,
                           .epoch = gap->epoch,
                           .first_seq = gap->start_seq,
                           .last_seq = gap->end_seq,
                           .status = tide_gap_status_name(gap->status)};
    (void)snprintf(out.agent_id, sizeof out.agent_id, "%s", gap->agent_id);
    (void)snprintf(out.data_type, sizeof out.data_type, "%s", gap->data_type);
    (void)snprintf(out.session_id, sizeof out.session_id, "%s", gap->session_id);
    (void)snprintf(out.reason, sizeof out.reason, "%s", gap->reason);
    return tide_callback_check(l->fn(l->arg, &out, err), err);
}

tide_status tide_colony_gaps(tide_colony *colony, int64_t after_id, tide_colony_gap_fn *fn,
                             void *arg, tide_error *err)
{
    TIDE_NEED(colony && fn, err);
    gap_listing l = {fn, arg};
    const tide_gap_filter filter = {.epoch = -1, .after_id = after_id};
    return colony->ops->gaps(colony, &filter, list_gap, &l, err);
}
