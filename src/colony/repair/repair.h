/* repair.h - rows that are gone from the store are asked for again.
 *
 * A position counts what it has stored, and what retention has removed of it. Where fewer rows are
 * left, something else has deleted them: plain SQL, a restored table, damage. Their numbers are those
 * of stored batches that have no row, no dead letter and no gap. The agent is asked for them in
 * bounded ranges, and what comes is stored again: under the same numbers, uncounted, without
 * rollups, which still have it, and without a batch, since its own is there.
 *
 *     short = stored - expired - rows        restored + missing = short
 *
 * What the agent no longer has is named with the reason. Nothing is changed by that: the ledger's
 * audit goes on to report it.
 *
 * Survives: each answer is one transaction. Threads: as the sink; beside pollers (versions decide). */
#pragma once

#include "colony/audit.h"

enum {
    TIDE_REPAIR_RANGES_MAX = 10000, /* of a position and run; more are found by the next run */
};

/* One agent's stream that was short. */
typedef struct tide_repair_line {
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    char data_type[TIDE_FEED_NAME_MAX + 1];
    int64_t restored;
    int64_t missing;
    char reason[TIDE_ERROR_TEXT_MAX]; /* why some are missing; "": none is */
} tide_repair_line;

typedef tide_status tide_repair_fn(void *arg, const tide_repair_line *line, tide_error *err);

typedef struct tide_repair_options {
    tide_sink *sink;
    tide_env *env;
    const char *agent_id;   /* NULL: all */
    const char *data_type;  /* NULL: all */
    tide_audit_ask_fn *ask; /* NULL: no agent is asked, everything short is missing */
    void *ask_arg;
    tide_repair_fn *fn; /* per stream that was short; NULL: none */
    void *arg;
} tide_repair_options;

/* TIDE_OK: no row is missing now. TIDE_E_DAMAGED: some cannot be had. */
TIDE_MUST_CHECK tide_status tide_repair(const tide_repair_options *options, tide_error *err);
