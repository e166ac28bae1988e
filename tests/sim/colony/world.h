/* world.h - agents and colonies in a bad world.
 *
 * Agents are real feeds on disks that lose power, fill up, are wiped, and are restored to an earlier state, with and without the agent
 * noticing. Colonies are processes on one machine: they share a real store on such a disk, divide the agents by leases
 * (tide_holding), ask them over the network (tide_poller, tide_recover) and may die at any step. All that is left to chance
 * comes from the seed.
 *
 *     agent.c        an agent: puts records, answers, holds watches
 *     colony.c       a colony: leases, pollers, recovery; and the machine that its store is on
 *     check.c        what must hold
 *     store.c        empty stores
 *     colony_test.c  worlds
 *
 * Judged behind every change of the colonies' store: the ledger of its position balances (head - first + 1 = stored + dead + filtered +
 * void + lost + pending, and the rows are there), its prefix, highest number and count never go back, also over power cuts. And in the
 * end, when all has settled: every record that an agent holds is a row of its session, under its number, once; every row
 * is a record that an agent had under this number; no gap is open.
 *
 * Threads: none. */
#pragma once

#include "colony/rig.h"
#include "support/disk/fault_vfs.h"
#include "support/sim/sim.h"

enum {
    WORLD_AGENTS_MAX = 10,
    WORLD_COLONIES_MAX = 3,
    WORLD_STREAMS = 2,
    WORLD_PARKED = 8,
    WORLD_SOURCES_MAX = 4096,
    WORLD_PUTS_MAX = 4096, /* records of one agent */
    WORLD_TEXT_MAX = 128,
};

typedef enum colony_planted_fault {
    COLONY_NO_FAULT,
    COLONY_LOSING, /* now and then a row is left out of what is stored */
    COLONY_SKIPPING, /* a page whose storing failed is passed over: the checkpoint moves without its rows */
} colony_planted_fault;

typedef struct world world;

/* ---- messages ---- */

typedef struct letter {
    int64_t number;
    int64_t status;
    int64_t path_len; /* of a question */
    int64_t text_len; /* of an answer */
    int64_t body_len;
} letter;

/* ---- agents ---- */

typedef struct parked {
    bool is_used;
    sim_id from;
    int64_t number;
    int64_t until_us; /* true time */
    tide_buffer request;
} parked;

/* A record that was put: where it is, if that is known. */
typedef struct put_record {
    char session_id[TIDE_SESSION_ID_SIZE];
    int64_t seq; /* 0: the commit's outcome is not known */
    int stream;
} put_record;

typedef struct world_agent {
    world *w;
    sim_id id;
    int index;
    rig_agent rig;
    fault_vfs *disk; /* NULL while down */
    tempdir scratch;
    tempdir backup;
    tempdir state; /* of the identity marker */
    bool has_backup;
    parked parked[WORLD_PARKED];
    put_record puts[WORLD_PUTS_MAX + 1]; /* by the number in their name */
    bool is_news;                        /* something was put since those who wait were looked at */
    int64_t next_put_us;                 /* true time */
} world_agent;

/* ---- colonies ---- */

typedef struct asked {
    int64_t number; /* 0: nothing is under way */
    int64_t until_us;
} asked;

typedef struct polled_agent {
    tide_poller *poller; /* NULL: not held */
    int64_t token;
    asked asked;
    int64_t wake_us;
} polled_agent;

typedef struct world_colony {
    world *w;
    sim_id id;
    int index;
    int64_t starts; /* of the process, for its name */
    tide_store *store;
    tide_sink *sink;
    tide_holding holding;
    bool is_ready; /* the process runs */
    polled_agent agents[WORLD_AGENTS_MAX];
    int64_t holding_us; /* when its next turn is */
    int64_t plan_us;
    tide_recovery *recovery;
    asked recovery_asked;
} world_colony;

/* The machine that the colonies run on. */
typedef struct world_depot {
    world *w;
    sim_id id;
    fault_vfs *disk; /* NULL while down */
    tempdir dir;
    tempdir scratch;
    char path[TEMPDIR_PATH_MAX];
} world_depot;

/* What was acknowledged of a source. */
typedef struct source_mark {
    int64_t contiguous;
    int64_t highest;
    int64_t stored;
} source_mark;

typedef struct world_tally {
    int64_t applied, stored, repeated, permanent, closed, cut, wipes, restores, unnoticed,
        lost_leases;
} world_tally;

struct world {
    sim *sim;
    colony_planted_fault planted;
    int64_t calm_from_us;
    int64_t answer_max; /* longer answers are refused; 0: none */
    int64_t keep_us;    /* agents' retention; 0: longer than a world lasts */
    int64_t numbers;    /* of questions */
    world_agent agents[WORLD_AGENTS_MAX];
    int agent_count;
    world_colony colonies[WORLD_COLONIES_MAX];
    int colony_count;
    world_depot depot;
    source_mark marks[WORLD_SOURCES_MAX]; /* by source_id */
    /* changed since it was judged last */
    char dirty_agent[TIDE_AGENT_ID_MAX + 1];
    const char *dirty_stream;
    bool is_dirty;
    world_tally tally;
};

extern const char *const world_streams[WORLD_STREAMS];

bool world_is_calm(const world *w);
/* True with a chance of one in n, and never when it is calm. */
bool world_happens(world *w, uint64_t n);
/* Send a question or an answer. */
void world_send(world *w, sim_id from, sim_id to, letter head, const char *text, tide_view body);

/* Empty stores, made once and copied: making one takes longer than a world. */
void world_templates_make(void);
void world_templates_remove(void);
const char *world_agent_template(int agent);
const char *world_colony_template(void);

void world_agent_init(world_agent *a, world *w, int index);
void world_agent_done(world_agent *a);

void world_depot_init(world_depot *d, world *w);
void world_depot_done(world_depot *d);
void world_colony_init(world_colony *c, world *w, int index);
/* Its memory is gone; what it had open is closed. */
void world_colony_drop(world_colony *c);

/* Something was applied. */
void world_note_change(world *w, const tide_change *change);
bool world_ledger_balances(void *arg, const sim *place, char why[SIM_WHY_MAX]);
/* When all has settled. */
void world_expect_end(world *w);
