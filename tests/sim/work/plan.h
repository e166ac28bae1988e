/* plan.h - what is to be done in the simulated world of work, and the words in which it is asked for.
 *
 * A plan is drawn from the seed once: roots (items that the boss adds) and for some of them a follow-up (added by the
 * commit that finishes the root). Items are named by their index, so that the same item can be added again
 * after a lost answer.
 *
 *     root 0 .. WORK_ROOTS - 1        i000, i001, ...
 *     follow-up of root r             index WORK_ROOTS + r
 *
 * A request is one call of the library, or one statement of plain SQL. Everything in it is int64_t: messages are
 * hashed byte by byte, and padding would be noise.
 *
 * Threads: none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "support/prng.h"

enum {
    WORK_TASKS = 3,
    WORK_TYPES = 3,
    WORK_ROOTS = 30,
    WORK_ITEMS = 2 * WORK_ROOTS,
    WORK_DEPENDS_MAX = 2,
    WORK_BATCH = 4, /* items of one request */
    WORK_NAME_SIZE = 8,
};

typedef struct work_plan_item {
    int task;
    int type;
    int64_t priority;
    int64_t max_retries;
    int64_t delay_us;
    int64_t timeout_us; /* 0: none */
    int key;            /* 0: no unique key */
    int depends_on[WORK_DEPENDS_MAX];
    int depends_count;
    bool has_follow_up;
} work_plan_item;

typedef struct work_plan {
    work_plan_item items[WORK_ITEMS];
} work_plan;

void work_plan_draw(work_plan *plan, prng *chance);

void work_item_name(char out[WORK_NAME_SIZE], int64_t item);
void work_task_name(char out[WORK_NAME_SIZE], int64_t task);
void work_type_name(char out[WORK_NAME_SIZE], int64_t type);
void work_key_name(char out[WORK_NAME_SIZE], int64_t key);
void work_sender_name(char out[WORK_NAME_SIZE], int64_t sender);

/* The index behind such a name; -1: none. */
int work_item_index(const char *name);

typedef enum work_verb {
    WORK_ADD,
    WORK_CLAIM,
    WORK_RENEW,
    WORK_CHECKPOINT,
    WORK_PROGRESS,
    WORK_FINISH,
    WORK_FINISH_MANY,
    WORK_FAIL,
    WORK_RELEASE,
    WORK_CANCEL,
    WORK_CANCEL_TASK,
    WORK_PAUSE,
    WORK_RESUME,
    WORK_SWEEP,
    WORK_SQL_CLAIM, /* from here on plain SQL */
    WORK_SQL_ADD,
    WORK_SQL_HEARTBEAT,
    WORK_SQL_COMPLETE,
    WORK_SQL_FAIL,
    WORK_SQL_SWEEP,  /* requeue or fail what has run out, by the wall clock */
    WORK_SQL_EXPIRE, /* leave it in 'expired' */
    WORK_SQL_CHECKPOINT,
    WORK_VERBS,
} work_verb;

const char *work_verb_name(int64_t verb);

typedef struct work_hold {
    int64_t item;
    int64_t token;
} work_hold;

typedef struct work_request {
    int64_t number; /* of the sender's requests; an answer carries it */
    int64_t verb;
    int64_t sender; /* whose name it is under: two workers may share one */
    int64_t count;
    work_hold items[WORK_BATCH];
    int64_t limit; /* CLAIM, SWEEP */
    int64_t types; /* CLAIM: a mask, 0: any. PAUSE, RESUME: one type */
    int64_t task;  /* CLAIM: -1: any */
    int64_t lease_us;
    int64_t delay_us;       /* FAIL: below 0: back-off. RELEASE */
    int64_t is_final;       /* FAIL */
    int64_t has_checkpoint; /* FINISH */
    int64_t has_follow_up;  /* FINISH */
    int64_t checkpoint;     /* CHECKPOINT: 0: a new id each time, else the id's number */
} work_request;

typedef struct work_claim {
    int64_t item;
    int64_t token;
    int64_t attempt;
    int64_t lease_us;
    int64_t expires_us;
} work_claim;

typedef struct work_answer {
    int64_t number;
    int64_t status; /* tide_status */
    int64_t count;
    work_claim claims[WORK_BATCH];   /* CLAIM, SQL_CLAIM */
    int64_t next_due_us;             /* CLAIM in vain */
    int64_t is_lost[WORK_BATCH];     /* RENEW, FINISH, FINISH_MANY */
    int64_t is_existing[WORK_BATCH]; /* ADD */
    int64_t sequence_number;         /* CHECKPOINT, FINISH */
    int64_t global_sequence;
    int64_t is_checkpoint_existing;
    int64_t is_final;       /* FAIL */
    int64_t retry_after_us; /* FAIL */
    int64_t requeued;       /* SWEEP */
    int64_t failed;
    int64_t quarantined;
    int64_t blocked;
    int64_t has_more;
} work_answer;
