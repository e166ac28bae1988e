/* stress.h - writers that do everything at once, an observer, and the proof that nothing was lost: the fan-out of many work items on one workbook's catalog.
 *
 *     prepare    C catalogs, each with a table main.events
 *     writer     a process of its own: appends, tables made, altered and dropped, schemas, catalogs, forks, at random; it may be killed at any point
 *     observer   pins heads, looks at them twice, and remembers what it saw (history.h)
 *     judge      every acknowledged request is there exactly once, and nothing that nobody asked for
 *
 * A writer's log, one line per event, is what it knew: I (about to ask, with everything to ask again), A (acknowledged), R (refused), U (unknown, and given up), E (an error that
 * should not be). Lines end with @ and microseconds of the monotonic clock, so that others can judge the order. A writer that is started again finds what its predecessor was about to do and asks again under the same key: a lost reply.
 *
 * Files are hard links of one small file, so that the disk is not what is measured. Names are few, so that writers get into each other's way.
 *
 * Survives: kill -9 of writers: logs are written before and after, in the page cache. Threads: one each. Time and chance come from the store's env; who
 * starts and kills processes is the caller (src/cli). */
#pragma once

#include "base/cleanup.h"
#include "lake/history.h"

enum {
    TIDE_STRESS_NAME_MAX = 96,
    TIDE_STRESS_CATALOGS_MAX = 1000,
    TIDE_STRESS_SIGHTS_MAX = 100000,
    TIDE_STRESS_STATUSES = 32,
};

/* One run. Catalogs are named <prefix>-c<i>; their forks and others begin with the prefix too. */
typedef struct tide_stress {
    const char *prefix; /* letters and digits */
    int catalogs;
    const char *
        seed_file; /* what files are links to; prepare makes one that is no Parquet, where there is none */
    int writer;
    int turn; /* how often this writer was started before */
    const char *log;
} tide_stress;

/* Fine when they are there. */
TIDE_MUST_CHECK tide_status tide_stress_prepare(tide_lake *lake, const tide_stress *run,
                                                tide_error *err);

typedef struct tide_stress_writer tide_stress_writer;
/* Reads its log, if there is one, and takes up what stands last in it. */
TIDE_MUST_CHECK tide_status tide_stress_writer_open(tide_stress_writer **out, tide_lake *lake,
                                                    const tide_stress *run, tide_error *err);
/* One request, repeated until it is answered or the env's monotonic clock passes deadline_us. Fails only when the log cannot be written. */
TIDE_MUST_CHECK tide_status tide_stress_writer_step(tide_stress_writer *writer, int64_t deadline_us,
                                                    tide_error *err);
void tide_stress_writer_close(tide_stress_writer *writer); /* takes NULL */
TIDE_CLEANUP_FN(tide_stress_writer_closep, tide_stress_writer, tide_stress_writer_close)

typedef struct tide_stress_observer tide_stress_observer;
TIDE_MUST_CHECK tide_status tide_stress_observer_open(tide_stress_observer **out, tide_lake *lake,
                                                      const tide_stress *run, tide_error *err);
/* Look at one head, and once more at what was pinned a while ago. A store that is away is passed by. */
void tide_stress_observer_step(tide_stress_observer *observer);
/* What was seen; *changed: how often something pinned was not the same again. */
const tide_lake_sight *tide_stress_observer_sights(const tide_stress_observer *observer,
                                                   int64_t *count, int64_t *changed);
void tide_stress_observer_close(tide_stress_observer *observer); /* takes NULL */
TIDE_CLEANUP_FN(tide_stress_observer_closep, tide_stress_observer, tide_stress_observer_close)

typedef struct tide_stress_report {
    int64_t commits;   /* acknowledged */
    int64_t conflicts; /* refused by the matrix */
    int64_t refused;   /* names that were there or gone when the request looked */
    int64_t retries;   /* of transactions, within requests */
    int64_t repeats;   /* of requests, after a lost reply */
    int64_t unknown;   /* never answered */
    int64_t errors;    /* that should not be ... */
    int64_t by_status[TIDE_STRESS_STATUSES]; /* ... [-status]; the last: any other */
    int64_t duplicate_keys;                  /* among them */
    char first_error[256];
    int64_t slowest; /* commits of a writer */
    int64_t fastest;
    int64_t lost;     /* acknowledged, and not there (or another snapshot) */
    int64_t phantoms; /* there, and asked for by nobody, or refused */
} tide_stress_report;

/* Logs of all writers, and what is in the store. Findings have the rules lost and phantom. */
TIDE_MUST_CHECK tide_status tide_stress_judge(tide_lake *lake, const tide_stress *run,
                                              const char *const *logs, int count,
                                              tide_lake_finding_fn *fn, void *arg,
                                              tide_stress_report *out, tide_error *err);
