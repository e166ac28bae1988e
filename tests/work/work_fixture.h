/* work_fixture.h - what the tests of work share: a task, items in one line, what became of them, plain SQL. */
#pragma once

#include <tidemark/work.h>

#include "support/store_fixture.h"

#define MINUTE_US (60 * SECOND_US)
#define LEASE_US (30 * SECOND_US)

void make_task(store_test *t, const char *task_id);

/* One item of task "t", type "job"; fails the case when it cannot be added. */
void add_item(store_test *t, const char *id);
void add_new(store_test *t, tide_work_spec item);
tide_status try_add(store_test *t, const tide_work_spec *items, int count, tide_work_added *out);

/* A claimed item, copied. token 0: there was nothing. */
typedef struct held {
    char id[TIDE_WORK_ID_MAX + 1];
    char input[128];
    int64_t token;
    int64_t attempt;
    int64_t lease_us;
    int64_t expires_at_us;
    int64_t deadline_at_us;
    int64_t next_due_us; /* of a claim in vain */
} held;

/* The next of type "job", for LEASE_US. */
held claim(store_test *t, const char *worker);
held claim_with(tide_store *store, tide_work_claim_request request);
/* The ids of many, joined by spaces; "" when there is nothing. Valid until the next call. */
const char *claim_ids(tide_store *store, tide_work_claim_request request);

tide_status finish(store_test *t, const held *h, const char *output);
tide_status fail_it(store_test *t, const held *h, const char *error, bool is_final);
tide_work_swept sweep(store_test *t);

/* An item as it is, copied. */
typedef struct item_copy {
    bool is_there;
    char status[16];
    char error[512];
    char kind[16];
    char outcome[16];
    char holder[64];
    char output[128];
    char progress[128];
    char retried_from[TIDE_WORK_ID_MAX + 1];
    char schedule[64];
    char via[8];
    int64_t retry_count, failure_count, crash_count, token, waits_for, run_after_us, revision;
    int64_t expires_at_us, heartbeat_at_us, completed_at_us, claim_key, started_at_us,
        deadline_at_us;
    int64_t max_retries, priority, timeout_us;
    bool has_dependents;
} item_copy;
item_copy look(store_test *t, const char *id);
void assert_item(store_test *t, const char *id, const char *status);

/* Outcomes of an item's attempts, oldest first, joined by spaces; an open one is "-". Valid until the next call. */
const char *outcomes_of(store_test *t, const char *id);

/* The snapshots of a task's error_boundary checkpoints, one line each. Valid until the next call. */
const char *boundaries_of(store_test *t, const char *task_id);
int64_t count_checkpoints(store_test *t, const char *task_id);

/* Plain SQL, as from a foreign client, but on our connection. */
tide_status try_sql(store_test *t, const char *text);
void run_sql(store_test *t, const char *text);

/* The reasons that explain gives, joined by spaces; the words of the last one are in *words when not NULL. */
const char *reasons_of(store_test *t, const char *id, char words[512]);
