/* colony.h - the agents that a colony polls, how far it has come, and whether its ledger balances.
 *
 * A colony asks agents for records and stores them as rows. Per agent, data type, session and epoch
 * it keeps a position: the numbers that were stored, are void, were lost or are still missing. The
 * polling itself is a daemon (`tidemark colony`); this interface reads what it stores, in the
 * store that it uses, and names agents to it.
 *
 *     tide_colony *colony;
 *     tide_colony_open(&colony, store, err);
 *     tide_colony_put_agent(colony, "edge-1", "127.0.0.1:4317", err);
 *     tide_colony_audit(colony, print_line, NULL, err);
 *
 * Survives: agents and positions are rows. Threads: as the store. */
#ifndef TIDEMARK_COLONY_H
#define TIDEMARK_COLONY_H

#include <stdbool.h>

#include <tidemark/feed.h>
#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_COLONY_AGENT_MAX = 128,  /* bytes of an agent's name */
    TIDE_COLONY_SESSION_MAX = 64, /* bytes of a session's id */
    TIDE_COLONY_TEXT_MAX = 255,   /* bytes of a reason or finding */
};

typedef struct tide_sink tide_colony;

/* The store (SQLite or PostgreSQL) must outlive it. TIDE_E_NEWER: of a later release. */
TIDE_API TIDE_MUST_CHECK tide_status tide_colony_open(tide_colony **out, tide_store *store,
                                                      tide_error *err);
TIDE_API void tide_colony_close(tide_colony *colony); /* takes NULL */

/* Add an agent, or give it another address (HOST:PORT, http://..., https://..., unix:PATH).
 * Colonies that run on this store poll it from now on. TIDE_E_INVALID: a bad name or address. */
TIDE_API TIDE_MUST_CHECK tide_status tide_colony_put_agent(tide_colony *colony,
                                                           const char *agent_id,
                                                           const char *address, tide_error *err);

/* Poll it no longer; its rows and its history stay. TIDE_NONE: there is no such agent. */
TIDE_API TIDE_MUST_CHECK tide_status tide_colony_remove_agent(tide_colony *colony,
                                                              const char *agent_id,
                                                              tide_error *err);

/* What is known of one source of numbers. head - first + 1 = stored + dead + filtered + voided +
 * lost + pending. */
typedef struct tide_colony_ledger {
    char agent_id[TIDE_COLONY_AGENT_MAX + 1];
    char data_type[TIDE_FEED_NAME_MAX + 1];
    char session_id[TIDE_COLONY_SESSION_MAX + 1]; /* "": never polled */
    int64_t epoch;
    int64_t first;    /* 0: not decided yet */
    int64_t head;     /* highest number that the agent has stated */
    int64_t stored;   /* rows */
    int64_t dead;     /* records that could not be read, kept as they came */
    int64_t filtered; /* that the agent left out by the colony's wish */
    int64_t voided;   /* numbers that never had a record */
    int64_t lost;     /* for ever */
    int64_t pending;  /* not polled yet, or in an open gap */
    bool is_closed;   /* another session or epoch has followed it */
    bool is_balanced; /* of tide_colony_audit: the sum holds, and the rows are there */
    char finding[TIDE_COLONY_TEXT_MAX + 1]; /* of tide_colony_audit; "": nothing is wrong */
} tide_colony_ledger;

/* Borrowed for the call. A failure ends the listing and is returned. */
typedef tide_status tide_colony_ledger_fn(void *arg, const tide_colony_ledger *ledger,
                                          tide_error *err);

/* Every position, closed ones too, by agent and data type. */
TIDE_API TIDE_MUST_CHECK tide_status tide_colony_positions(tide_colony *colony,
                                                           tide_colony_ledger_fn *fn, void *arg,
                                                           tide_error *err);

/* The same, and compares each with the rows that are stored. TIDE_E_DAMAGED: some do not balance;
 * fn was called with each. No agent is asked. */
TIDE_API TIDE_MUST_CHECK tide_status tide_colony_audit(tide_colony *colony,
                                                       tide_colony_ledger_fn *fn, void *arg,
                                                       tide_error *err);

/* Numbers that were missing in an answer. */
typedef struct tide_colony_gap {
    int64_t id;
    char agent_id[TIDE_COLONY_AGENT_MAX + 1];
    char data_type[TIDE_FEED_NAME_MAX + 1];
    char session_id[TIDE_COLONY_SESSION_MAX + 1];
    int64_t epoch;
    int64_t first_seq; /* both ends belong to it */
    int64_t last_seq;
    const char *status; /* detected, recovering, recovered, permanent, void */
    char reason[TIDE_COLONY_TEXT_MAX + 1];
} tide_colony_gap;

typedef tide_status tide_colony_gap_fn(void *arg, const tide_colony_gap *gap, tide_error *err);

/* Gaps with an id above after_id, ascending, at most 1,000: to be called again with the last id. */
TIDE_API TIDE_MUST_CHECK tide_status tide_colony_gaps(tide_colony *colony, int64_t after_id,
                                                      tide_colony_gap_fn *fn, void *arg,
                                                      tide_error *err);

TIDE_END_DECLS

#endif
