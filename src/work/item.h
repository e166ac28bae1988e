/* item.h - what the parts of the work capability share: checks of what callers give, the two clocks, rows read into
 * structs, lists as JSON parameters, wake-ups.
 *
 * Two clocks: `now` is the store's time (when was it added, when is it due), `lease_now` the time that leases are measured
 * by (lease.h). On PostgreSQL both are the server's clock.
 *
 * Threads: as safe as the tide_tx. */
#pragma once

#include <tidemark/watch.h>
#include <tidemark/work.h>

#include "base/arena.h"
#include "base/text/json.h"

/* One step of priority weighs as much as ten minutes of age (claim_key). */
#define TIDE_ITEM_PRIORITY_STEP_US INT64_C(600000000)
#define TIDE_ITEM_DELAY_MAX_US INT64_C(315360000000000) /* 10 years */

enum {
    TIDE_ITEM_PRIORITY_MAX = 1000000, /* and as much below 0 */
    TIDE_ITEM_RETRIES_MAX = 1000000,
    TIDE_ITEM_KEY_MAX = 512,       /* bytes of a unique key */
    TIDE_ITEM_TITLE_MAX = 65536,   /* bytes of a task's title */
    TIDE_ITEM_REASON_MAX = 4096,   /* bytes of a reason */
    TIDE_ITEM_LIST_MAX = 60 << 20, /* bytes of a list given to a statement */
    TIDE_ITEM_PAGE_MAX = 32 << 20, /* bytes of rows after which a page ends ... */
    TIDE_ITEM_ROW_MAX = 80 << 20,  /* ... and bytes of the last of them */
};

/* ---- what callers give ---- */

/* 1 to max bytes of UTF-8 without control characters. `what` names it in the refusal. */
TIDE_MUST_CHECK tide_status tide_item_check_name(const char *what, const char *name, size_t max,
                                                 tide_error *err);
/* One of the words of a list that ends with NULL; NULL: none is given. */
TIDE_MUST_CHECK tide_status tide_item_check_word(const char *what, const char *word,
                                                 const char *const *known, tide_error *err);
TIDE_MUST_CHECK tide_status tide_item_check_id(const char *what, const char *id, tide_error *err);

/* Valid UTF-8 of at most max bytes; NULL is fine. */
TIDE_MUST_CHECK tide_status tide_item_check_text(const char *what, const char *text, size_t max,
                                                 tide_error *err);
/* Valid JSON of at most TIDE_WORK_DATA_MAX bytes; NULL is fine. */
TIDE_MUST_CHECK tide_status tide_item_check_json(const char *what, const char *json,
                                                 tide_error *err);
TIDE_MUST_CHECK tide_status tide_item_check_range(const char *what, int64_t value, int64_t min,
                                                  int64_t max, tide_error *err);
/* *out is lease_us, or the default for 0. */
TIDE_MUST_CHECK tide_status tide_item_check_lease(int64_t lease_us, int64_t *out, tide_error *err);

/* ---- time ---- */

typedef struct tide_item_clock {
    int64_t now_us;
    int64_t lease_now_us;
} tide_item_clock;

TIDE_MUST_CHECK tide_status tide_item_clock_get(tide_tx *tx, tide_item_clock *out, tide_error *err);

/* For a statement that stands alone: binds now and lease_now (SQLite) or clock (PostgreSQL). *out is filled on
 * SQLite only. */
TIDE_MUST_CHECK tide_status tide_item_bind_clock(tide_query *query, tide_tx *tx,
                                                 tide_item_clock *out, tide_error *err);
/* The same without now. */
TIDE_MUST_CHECK tide_status tide_item_bind_lease_clock(tide_query *query, tide_tx *tx,
                                                       tide_item_clock *out, tide_error *err);

/* A time as a member of a JSON list; 0: null. */
void tide_item_json_time(tide_json *json, tide_tx *tx, int64_t us);

/* ---- rows ---- */

/* Columns of the current row, in order, copied into an arena. */
typedef struct tide_row {
    tide_query *query;
    tide_arena *arena;
    bool is_short; /* of memory: what was read is incomplete */
} tide_row;

const char *tide_row_text(tide_row *row); /* NULL for NULL */
int64_t tide_row_time(tide_row *row);     /* 0 for NULL and for what is no time */
TIDE_MUST_CHECK tide_status tide_row_end(const tide_row *row, tide_error *err);

/* Digests of an item's values (core/value_digest.h); NULL: 0. */
int64_t tide_item_input_digest(const char *id, const char *input);
int64_t tide_item_output_digest(const char *id, const char *output);
/* The next column of the row is the digest; found is that of the values in the row. TIDE_E_DAMAGED: they are
 * not what was written. */
TIDE_MUST_CHECK tide_status tide_item_check_digest(tide_query *query, const char *id, int64_t found,
                                                   tide_error *err);

/* All columns of an item, as work_find lists them. *position is its place in the order of insertion (SQLite). */
TIDE_MUST_CHECK tide_status tide_item_read(tide_query *query, tide_arena *arena,
                                           tide_work_item *out, int64_t *position, tide_error *err);

/* ---- lists ---- */

/* The status of building a list, with words. */
TIDE_MUST_CHECK tide_status tide_item_check_list(tide_status status, tide_error *err);

/* Bind a finished list; the buffer may be changed afterwards. */
TIDE_MUST_CHECK tide_status tide_item_bind_list(tide_query *query, const char *name,
                                                tide_json *json, tide_error *err);

/* Bind the texts as a JSON list; count 0 and is_optional: NULL. */
TIDE_MUST_CHECK tide_status tide_item_bind_texts(tide_query *query, const char *name,
                                                 const char *const *texts, int count,
                                                 bool is_optional, tide_error *err);

/* ---- refusals ---- */

/* TIDE_E_NOT_FOUND: no such task. TIDE_E_CONFLICT: it has ended, and so: what that means for the caller, in words. */
TIDE_MUST_CHECK tide_status tide_item_check_task(tide_tx *tx, const char *task_id, const char *so,
                                                 tide_error *err);

/* TIDE_E_NOT_FOUND: no such task. */
TIDE_MUST_CHECK tide_status tide_item_find_task(tide_tx *tx, const char *task_id, tide_error *err);

/* A token was refused: TIDE_E_NOT_FOUND or TIDE_E_LEASE_LOST, with what became of the item. */
TIDE_MUST_CHECK tide_status tide_item_fail_lost(tide_tx *tx, const char *id, int64_t token,
                                                tide_error *err);
TIDE_MUST_CHECK tide_status tide_item_fail_missing(const char *id, tide_error *err);

/* The answer of a call about many: none, some or all of count were lost. */
TIDE_MUST_CHECK tide_status tide_item_fail_some(int lost, int count, tide_error *err);

/* ---- idempotency keys ---- */

/* Attempts of these items ended: keys that they began and did not answer are given back, so that the
 * next attempts need not wait for their locks. */
TIDE_MUST_CHECK tide_status tide_item_free_keys(tide_tx *tx, const char *const *ids, int count,
                                                tide_error *err);
/* Attempts were ended from outside, so what they did is unknown: the locks of their keys are over,
 * and the policy of each key decides (idempotency.h). */
TIDE_MUST_CHECK tide_status tide_item_end_keys(tide_tx *tx, const char *const *ids, int count,
                                               tide_error *err);

/* ---- wake-ups ---- */

/* Which types became claimable in this transaction. Init with zeroes. */
typedef struct tide_item_wakes {
    int count;
    bool is_broadcast;
    char types[TIDE_TX_TOPIC_MAX - 3][TIDE_WORK_TYPE_MAX + 1];
} tide_item_wakes;

void tide_item_wake(tide_item_wakes *wakes, const char *work_type);
/* The type in the next column of a query's row became claimable; tells so at once. */
void tide_item_wake_column(tide_tx *tx, tide_query *query);
/* A hint that does not fit in is left out, and never a reason to fail. */
void tide_item_notify(const tide_item_wakes *wakes, tide_tx *tx);
/* A sweep has something to do in so many microseconds (TIDE_WORK_DUE_TOPIC). */
void tide_item_notify_due(tide_tx *tx, int64_t in_us);

/* ---- adding ---- */

/* Where an item comes from, besides its maker. NULL: nowhere else. */
typedef struct tide_item_origin {
    const char *retried_from;
    const char *schedule_name;
    const char *task_id; /* of items that name none */
} tide_item_origin;

/* tide_work_add_in with an origin, which may be NULL; tells wakes instead of notifying. */
TIDE_MUST_CHECK tide_status tide_item_add(tide_tx *tx, const tide_work_spec *items, int count,
                                          const tide_item_origin *origin, tide_work_added *out,
                                          tide_item_wakes *wakes, tide_error *err);

/* Let delayed items that are due run, up to limit; counts them in *count (may be NULL). */
TIDE_MUST_CHECK tide_status tide_item_promote(tide_tx *tx, int64_t limit, int64_t *count,
                                              tide_item_wakes *wakes, tide_error *err);

/* Raise the low-water bound of a type, or of all (NULL). PostgreSQL; nothing elsewhere. low_water.c */
TIDE_MUST_CHECK tide_status tide_item_raise_bounds(tide_store *store, const char *work_type,
                                                   tide_error *err);

/* ---- the sweep's parts ---- */

/* Take up leases that ran out, up to limit; adds to *out. expire.c */
TIDE_MUST_CHECK tide_status tide_item_expire(tide_store *store, int64_t limit, int64_t crash_limit,
                                             tide_work_swept *out, tide_error *err);
/* Move or delete entries of leases whose time has come, up to limit; *count is how many. PostgreSQL. */
TIDE_MUST_CHECK tide_status tide_item_tidy_leases(tide_tx *tx, int64_t limit, int64_t *count,
                                                  tide_error *err);

enum { TIDE_SCHEDULE_STEP = 50 }; /* schedules per transaction */

typedef struct tide_schedule_swept {
    int64_t made;    /* items */
    int64_t skipped; /* schedules, as in tide_work_swept */
    char skipped_name[TIDE_WORK_ID_MAX + 1];
} tide_schedule_swept;

/* Make the items of up to limit schedules that are due, at most TIDE_SCHEDULE_STEP. schedule.c */
TIDE_MUST_CHECK tide_status tide_schedule_sweep(tide_tx *tx, int64_t limit,
                                                tide_schedule_swept *out, tide_item_wakes *wakes,
                                                tide_error *err);

/* Schedules that ran while the clock was ahead come when they would have come: up to TIDE_SCHEDULE_STEP. schedule.c */
TIDE_MUST_CHECK tide_status tide_schedule_pull_in(tide_tx *tx, int64_t *pulled, tide_error *err);

/* What was written later than this was written while the clock was ahead. The longest back-off is as long: what is
 * less off is over by itself. */
#define TIDE_ITEM_AHEAD_US INT64_C(3600000000)
