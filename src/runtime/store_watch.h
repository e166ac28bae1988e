/* store_watch.h - state of a daemon's store, in memory: up or down, since when, and why.
 *
 * /readyz, /metrics and status calls read it without calling the store, so they answer at once
 * whatever the store does. It is fed by
 *
 *     the store            each failure of a call, and the first success after one
 *     tide_step_store_probe  a tiny read every second, and a write while writes fail
 *     brackets             tide_store_watch_begin and _end around calls whose duration matters
 *
 *     refused, read-only, another store                  down at once
 *     full                                               down at once, for STORE_FULL_US at least:
 *                                                        a small write may find room where a large
 *                                                        one does not
 *     busy (locked), outcome of a commit unknown, damaged (it may be one value)
 *                                                        down when nothing succeeds for
 *                                                        STORE_SOFT_US
 *     a bracket that does not end                        down after STORE_HANG_US
 *
 * The first failure and the recovery are logged once each, by tide_store_watch_check; failures in
 * between are counted. Failures that are over before they are logged (a connection that broke and
 * was replaced) are a warning, at most one in STORE_BRIEF_US, with their number. An epoch change is
 * a warning with both epochs; one that opening the store found has the new one.
 *
 * Threads: any. The store calls until tide_store_watch_done. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include <tidemark/store.h>

#include "base/log.h"
#include "runtime/metrics.h"

enum { TIDE_STORE_REASON_MAX = 256 };
#define TIDE_STORE_SOFT_US INT64_C(3000000)
#define TIDE_STORE_HANG_US INT64_C(3000000)
#define TIDE_STORE_FULL_US INT64_C(5000000)
#define TIDE_STORE_DAMAGE_US INT64_C(1000000) /* between two log lines */
#define TIDE_STORE_BRIEF_US INT64_C(10000000)

/* Calls that must not take long. */
typedef enum tide_store_bracket {
    TIDE_STORE_PROBE,
    TIDE_STORE_LEASES,
    TIDE_STORE_APPEND,
    TIDE_STORE_BRACKET_COUNT
} tide_store_bracket;

typedef struct tide_store_watch {
    tide_store *store; /* NULL: none */
    tide_env *env;
    tide_log *log;
    tide_metrics *metrics;
    pthread_mutex_t lock;                       /* of what follows */
    int64_t begun_us[TIDE_STORE_BRACKET_COUNT]; /* monotonic; 0: not under way */
    int64_t success_us;                         /* the last success that is known */
    int64_t failed_us;                          /* the first failure since then; 0: none */
    int64_t full_us;                            /* when it was full last; 0: never */
    bool is_sink_failing;                       /* what failed is the sink beside the store */
    tide_status status;                         /* of the last failure */
    char reason[TIDE_STORE_REASON_MAX];
    bool is_logged_down;
    int64_t down_us;          /* when it was logged as down */
    int64_t brief_failures;   /* not logged yet; being busy is none */
    int64_t brief_logged_us;  /* 0: never */
    int64_t damage_logged_us; /* 0: never */
    int64_t disk_free;        /* bytes, of a store that is a file; -1: not known */
    int64_t disk_size;
} tide_store_watch;

typedef struct tide_store_state {
    bool is_up;
    int64_t age_us;    /* since a call succeeded */
    int64_t disk_free; /* bytes on the disk of a file; -1: not known */
    int64_t disk_size;
    char reason[TIDE_STORE_REASON_MAX]; /* "" while it is up */
} tide_store_state;

/* store NULL: it could not be opened yet; failures are reported by tide_store_watch_fail. */
void tide_store_watch_init(tide_store_watch *watch, tide_store *store, tide_env *env, tide_log *log,
                           tide_metrics *metrics);
void tide_store_watch_done(tide_store_watch *watch); /* takes one that was not initialised */

/* A watch that was not initialised is up. */
void tide_store_watch_state(tide_store_watch *watch, tide_store_state *out);
/* Log a turn to down or up, and failures that are over. Every second, from a thread that never
 * waits for the store. */
void tide_store_watch_check(tide_store_watch *watch);

/* One call of a kind at a time. */
void tide_store_watch_begin(tide_store_watch *watch, tide_store_bracket bracket);
void tide_store_watch_end(tide_store_watch *watch, tide_store_bracket bracket, tide_status status);

/* The sink of a colony is a file beside the store (DuckDB), which reports nothing itself. status
 * TIDE_OK: it took a change. Statuses that are not of the sink are ignored. */
void tide_store_watch_sink(tide_store_watch *watch, tide_status status, const char *text);

/* One turn of the probe. */
TIDE_MUST_CHECK tide_status tide_store_watch_probe(tide_store_watch *watch, tide_error *err);
