/* model.h - what must be true: the world of work, thought through once more without a database.
 *
 * The model holds for each item what the rules say it is: status, token, lease, attempts, what it waits for. For every
 * request that reached the store it works out which answer is right and what must have changed, by work.h alone,
 * and compares both the answer and every row. What the rules leave open (how long a back-off is, which of several
 * leases that ran out a bounded sweep takes) is taken over from the rows, within its bounds.
 *
 * Beside that, what holds for any row at any time, whatever the model believes: tokens only rise, ended items never
 * change, transitions are those allowed, attempts stay within 1 + max_retries, one open attempt if and only if in
 * progress, one live item per unique key, checkpoints numbered without gaps per task and globally.
 *
 * Leases are measured by the machine's boot clock (SQLite), so the model never looks at the wall clock for them; a
 * reboot ends them all. On PostgreSQL the wall clock is the server's.
 *
 * Threads: none. */
#pragma once

#include <tidemark/store.h>

#include "sim/work/plan.h"

enum {
    WORK_WHY_SIZE = 240,
    WORK_TEXT_SIZE = 64,
    WORK_CHECKPOINTS_MAX = 8192, /* of one run */
};

typedef enum work_status {
    WORK_ABSENT,
    WORK_PENDING,
    WORK_IN_PROGRESS,
    WORK_COMPLETED,
    WORK_FAILED,
    WORK_EXPIRED,
} work_status;

typedef enum work_kind {
    WORK_KIND_NONE,
    WORK_KIND_ERROR,
    WORK_KIND_EXHAUSTED,
    WORK_KIND_QUARANTINED,
    WORK_KIND_CANCELLED,
    WORK_KIND_DEPENDENCY,
} work_kind;

/* An item, as a row has it and as the model has it. Times in microseconds, 0: none. */
enum { WORK_FAILED_MAX = 16 }; /* more than an item has attempts */

typedef struct work_row {
    work_status status;
    int64_t token;
    char holder[WORK_NAME_SIZE]; /* "": none */
    bool is_sql;                 /* the lease was taken by plain SQL */
    int64_t expires_us;
    int64_t deadline_us;
    int64_t run_after_us;
    int64_t retries;
    int64_t failures;
    int64_t crashes;
    work_kind kind;
    int64_t waits_for;
    char output[WORK_TEXT_SIZE];
    int64_t claim_key;
    int64_t attempts; /* not released */
    int64_t open_attempts;
    /* the model's own */
    int64_t order;    /* of insertion */
    bool is_rebooted; /* the machine was started anew under its lease */
    struct {
        int64_t token;
        bool is_final;
    } failed[WORK_FAILED_MAX]; /* tokens whose holder said that it failed */
    int failed_count;
} work_row;

typedef struct work_checkpoint_row {
    int64_t global;
    int64_t number;
    int task;
    int item; /* -1: none */
} work_checkpoint_row;

/* What was read after a request: every item, the checkpoints since the last time, the lease clock. */
typedef struct work_snapshot {
    work_row rows[WORK_ITEMS];
    int strays; /* rows under ids that nobody planned */
    work_checkpoint_row *checkpoints;
    int checkpoint_count;
    char boot_id[40]; /* of the lease clock's anchor */
    int64_t offset_us;
} work_snapshot;

/* The machine's clocks at the time of a request; they stand still while it runs. */
typedef struct work_now {
    int64_t wall_us;
    int64_t boot_us;
    char boot_id[40];
} work_now;

typedef struct work_tally {
    int64_t requests;
    int64_t claims;        /* items claimed */
    int64_t finishes;      /* items completed through the library */
    int64_t repeats;       /* a finish said twice, and accepted */
    int64_t refused;       /* writes of somebody who had lost the lease */
    int64_t refused_stale; /* of those: another had claimed it since */
    int64_t refused_late;  /* of those: its time was up and nobody had noticed yet */
    int64_t swept;
    int64_t exhausted;
    int64_t quarantined;
    int64_t blocked;
    int64_t sql_claims;
    int64_t sql_refused;
    int64_t unique_hits;
    int64_t checkpoints;
    int64_t reboots;
    int64_t jumps;
} work_tally;

typedef struct work_model {
    const work_plan *plan;
    tide_engine engine;
    int64_t floor;       /* the lowest token */
    int64_t plain_floor; /* ... that triggers give */
    work_row items[WORK_ITEMS];
    int64_t next_order;
    bool is_paused[WORK_TYPES];
    bool is_cancelled[WORK_TASKS];
    int64_t global;                             /* the last checkpoint */
    int64_t number[WORK_TASKS];                 /* the last one of each task */
    int64_t known_number[WORK_CHECKPOINTS_MAX]; /* by the number of a checkpoint's id */
    int64_t known_global[WORK_CHECKPOINTS_MAX];
    char boot_id[40];
    int64_t offset_us;
    work_tally tally;
    char why[WORK_WHY_SIZE]; /* the first thing that was wrong; "" */
} work_model;

void work_model_init(work_model *m, const work_plan *plan, tide_engine engine, int64_t floor,
                     int64_t plain_floor);

/* The machine was started anew: every lease is over. */
void work_model_reboot(work_model *m);

/* Judge what a request did. False: *why says what is wrong. */
bool work_model_judge(work_model *m, const work_request *request, const work_answer *answer,
                      const work_now *now, const work_snapshot *seen);

/* Has everything ended? *item is one that has not. */
bool work_model_is_done(const work_model *m, int *item);

const char *work_status_name(work_status status);

/* ---- for the files that make it up ---- */

/* A judgement under way: what the model expects so far, before it is compared. */
typedef struct work_case {
    work_model *m;
    const work_request *request;
    const work_answer *answer;
    const work_now *now;
    const work_snapshot *seen;
    int64_t lease_now_us;           /* INT64_MAX: every lease is over */
    int64_t boundaries[WORK_TASKS]; /* checkpoints that this request must have written */
    int boundary_count;
    int64_t last_number; /* of the one it wrote itself */
} work_case;

void work_complain(work_model *m, const char *format, ...) TIDE_PRINTF(2, 3);

/* model_lease.c: requests under a token, and claims. */
void work_judge_claim(work_case *c);
void work_judge_renew(work_case *c);
void work_judge_checkpoint(work_case *c);
void work_judge_progress(work_case *c);
void work_judge_finish(work_case *c);
void work_judge_fail(work_case *c);
void work_judge_release(work_case *c);

/* model_boss.c: adding, cancelling, pausing, sweeping. */
void work_judge_add(work_case *c);
void work_judge_cancel(work_case *c);
void work_judge_cancel_task(work_case *c);
void work_judge_sweep(work_case *c);
void work_add_item(work_case *c, int item, int64_t position);
int work_find_live_key(const work_model *m, int item);

/* model_sql.c: plain SQL. */
void work_judge_sql(work_case *c);

/* Shared. */
bool work_is_live(work_status status);
bool work_is_over(const work_case *c, const work_row *row); /* the lease of an item in progress */
bool work_is_held(const work_case *c, const work_hold *hold);
int work_count_waits(const work_model *m, int item); /* dependencies that are not completed */
int64_t work_next_token(const work_model *m, int64_t token);
int64_t work_next_plain_token(const work_model *m, int64_t token);
void work_expect_status(work_case *c, tide_status expected);
void work_expect_number(work_case *c, const char *what, int64_t expected, int64_t actual);
void work_write_checkpoint(work_case *c, int task);
void work_output(char out[WORK_TEXT_SIZE], int64_t token); /* what a worker writes on finish */
#define WORK_SQL_OUTPUT "{\"by\":\"sql\"}"
