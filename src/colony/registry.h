/* registry.h - the agents a colony knows, who polls which, and how they are.
 *
 * Agents are rows of colony_agents in the store beside the sink: name (agent_id), address, since when, from where (command line,
 * file, operator), how they were seen last. Removing one keeps its row and its history (is_removed).
 *
 * Sharing: colonies of one store announce themselves by a lease each (colony/member/ID) and hold agents by leases
 * (colony/agent/NAME). Each takes at most its fair share, ceil(agents / live members), gives up what is above it, and takes over what
 * has expired. The token of an agent's lease fences both ends: every change is applied under it, and every question carries
 * it as lease_token, so that the agent refuses an earlier holder.
 *
 * Reader names: an agent knows a store's colonies as one reader, "colony-" and the store's session. A
 * copy of the store, and a store that was restored to an earlier state, have the same session, and
 * tokens that overlap. The agent then refuses one of the two with a token that its store never
 * issued. That one takes a random reader name at this agent, kept in colony_agents, so that both read
 * on. Higher tokens instead would make the two lock each other out in turn.
 *
 * Whoever changes the registry notifies TIDE_REGISTRY_TOPIC (watch.h), so that colonies in other processes look at once. SQLite tells only that
 * something in the file has changed: tide_registry_mark tells whether it was the registry.
 *
 * Health is on the colony's own clock: healthy when a response came within 30 s and none was refused since, degraded within 2 min, else away.
 *
 * Survives: rows and leases. Threads: as the store. */
#pragma once

#include <stdbool.h>

#include <tidemark/store.h>

#include "colony/ask.h"

#define TIDE_REGISTRY_TOPIC "colony_agents"
#define TIDE_AGENT_HEALTHY_US INT64_C(30000000)
#define TIDE_AGENT_DEGRADED_US INT64_C(120000000)

enum {
    TIDE_AGENT_ADDRESS_MAX = 512,
    TIDE_AGENT_ERROR_MAX = 256,
    TIDE_COLONY_ID_MAX = 128,
    TIDE_HOLDING_CLAIM_MAX = 256, /* agents taken or given up by one turn */
    TIDE_REGISTRY_PUT_MAX = 1000, /* agents of one transaction */
};

/* Epochs that refusals of agents begin: at most one in this time, whatever agents claim. */
#define TIDE_READER_EPOCH_US INT64_C(60000000)

typedef enum tide_agent_health {
    TIDE_AGENT_UNSEEN,
    TIDE_AGENT_HEALTHY,
    TIDE_AGENT_DEGRADED,
    TIDE_AGENT_AWAY,
} tide_agent_health;
const char *tide_agent_health_name(tide_agent_health health);

typedef struct tide_agent_row {
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    char address[TIDE_AGENT_ADDRESS_MAX + 1]; /* HOST:PORT, http://..., https://..., unix:PATH */
    char origin[16];                          /* option, file, operator */
    bool is_removed;
    int64_t added_at_us;
    int64_t seen_at_us; /* 0: never */
    int64_t failed_at_us;
    char error[TIDE_AGENT_ERROR_MAX + 1]; /* of the last failure; "": none since it was seen */
    char holder[TIDE_COLONY_ID_MAX + 1];  /* which colony polls it; "": nobody */
    /* The same, also after its lease ran out; "": it gave the agent up, or never had it. */
    char last_holder[TIDE_COLONY_ID_MAX + 1];
    int64_t lease_token;
    char reader[TIDE_FEED_READER_MAX + 1]; /* its own name at the agent; "": the store's */
    tide_agent_health health;              /* on the store's clock */
} tide_agent_row;

/* TIDE_E_INVALID: a bad name or address, in words. */
TIDE_MUST_CHECK tide_status tide_registry_check(const char *agent_id, const char *address,
                                                tide_error *err);
/* Add one, or give it another address (idempotent; brings a removed one back). TIDE_E_INVALID: a bad name or address. */
TIDE_MUST_CHECK tide_status tide_registry_put(tide_store *store, const char *agent_id,
                                              const char *address, const char *origin,
                                              tide_error *err);
typedef struct tide_agent_given {
    const char *agent_id;
    const char *address;
    const char *origin; /* NULL: operator */
} tide_agent_given;
/* Many at once, TIDE_REGISTRY_PUT_MAX in a transaction. TIDE_E_INVALID: one of them is bad, and nothing was kept. */
TIDE_MUST_CHECK tide_status tide_registry_put_all(tide_store *store, const tide_agent_given *agents,
                                                  int count, tide_error *err);
/* TIDE_NONE: there was none. */
TIDE_MUST_CHECK tide_status tide_registry_remove(tide_store *store, const char *agent_id,
                                                 tide_error *err);
typedef tide_status tide_agent_fn(void *arg, const tide_agent_row *agent, tide_error *err);
TIDE_MUST_CHECK tide_status tide_registry_list(tide_store *store, bool with_removed,
                                               tide_agent_fn *fn, void *arg, tide_error *err);
TIDE_MUST_CHECK tide_status tide_registry_find(tide_store *store, const char *agent_id,
                                               tide_agent_row *out,
                                               tide_error *err); /* TIDE_NONE */
/* A number that rises with every change by put and remove; 0: there was none yet. */
TIDE_MUST_CHECK tide_status tide_registry_mark(tide_store *store, int64_t *out, tide_error *err);
/* What was seen of an agent, at most every few seconds each. error NULL: it answered. */
TIDE_MUST_CHECK tide_status tide_registry_note(tide_store *store, const char *agent_id,
                                               const char *error, tide_error *err);

/* The agent has refused this reader because it has seen seen_token. If the store never issued such a
 * token: reader is a fresh name, or the one that another process has just taken, and an epoch
 * (`diverged`) begins unless one such began within TIDE_READER_EPOCH_US.
 * TIDE_E_LEASE_LOST: the store has issued it, so another colony polls the agent; or the agent was
 * removed. *out is changed only on TIDE_OK. */
typedef struct tide_reader_refusal {
    const char *agent_id;
    const char *reader; /* that was refused */
    int64_t seen_token;
} tide_reader_refusal;
TIDE_MUST_CHECK tide_status tide_registry_rename_reader(tide_store *store,
                                                        const tide_reader_refusal *refusal,
                                                        char out[TIDE_FEED_READER_MAX + 1],
                                                        tide_error *err);

/* ---- sharing ---- */

typedef struct tide_held_agent {
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    char address[TIDE_AGENT_ADDRESS_MAX + 1];
    char reader[TIDE_FEED_READER_MAX + 1]; /* "": the store's name */
    int64_t token;
} tide_held_agent;

typedef struct tide_holding {
    char colony_id[TIDE_COLONY_ID_MAX + 1];
    int64_t member_token;
    int64_t lease_us;
    /* Set after init: claims every agent that nobody holds, announces no membership and makes nobody give anything up. */
    bool is_guest;
    /* On the env's monotonic clock, taken before the last turn that succeeded: from here on everything is to be treated as lost. */
    int64_t until_us;
    tide_held_agent *agents; /* ascending by name */
    int count;
} tide_holding;

void tide_holding_init(tide_holding *holding, const char *colony_id, int64_t lease_us);
void tide_holding_done(tide_holding *holding);

/* One turn: renew what is held, drop what was lost or removed, give up what is above the share, claim what is free up to it.
 * *next_us: when to come again (a third of lease_us, sooner while agents are free). TIDE_E_CONFLICT: somebody else is this colony, or was a
 * moment ago. After a failure nothing is known of the leases, and nothing has changed in holding: once until_us is over, all are to be
 * treated as lost. A turn is a handful of statements, whatever the number of agents, and one per agent that is taken or given up
 * (TIDE_HOLDING_CLAIM_MAX a turn). */
TIDE_MUST_CHECK tide_status tide_holding_step(tide_holding *holding, tide_store *store,
                                              int64_t *next_us, tide_error *err);
/* Give everything back (a clean stop). */
TIDE_MUST_CHECK tide_status tide_holding_release(tide_holding *holding, tide_store *store,
                                                 tide_error *err);

/* "colony/agent/NAME"; the lease under which an agent's changes are applied. */
void tide_registry_lease_name(char out[TIDE_AGENT_ID_MAX + 16], const char *agent_id);
