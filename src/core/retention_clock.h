/* retention_clock.h - the time up to which retention may delete: a durable watermark behind a clock.
 *
 * What retention deletes does not return, and a clock may be wrong: a machine that boots three days
 * ahead would expire everything at once. Retention therefore asks for this time in place of the
 * clock's. The watermark only rises, never above the clock, and at most TIDE_RETENTION_PACE times as
 * fast as the machine's monotonic clock (CLOCK_BOOTTIME). An operator has the time between to notice.
 *
 *     watermark = max(stored, min(clock, what this boot last stored + PACE * time since then))
 *
 * How long the machine was off is not known: a boot begins at the watermark that it finds, and after
 * ten days without power retention is up to date again one day after the start. Several machines may
 * share a store. Each has a row for its boot, so that together they are no faster than one.
 *
 * A store without a watermark begins at the clock's time.
 *
 * Survives: the rows of retention_clocks, in the caller's transaction. Threads: as the transaction. */
#pragma once

#include <tidemark/store.h>

enum { TIDE_RETENTION_PACE = 10 };

/* So long without a note, and the boot's row is out of date: see is_note_due. */
#define TIDE_RETENTION_NOTE_US INT64_C(3600000000)

typedef struct tide_retention_clock {
    int64_t now_us; /* the watermark */
    /* In a transaction that only reads, which cannot note it: there is no row of this boot, or it is
     * older than TIDE_RETENTION_NOTE_US; or now_us was not known (INT64_MAX: tide_lease_now). */
    bool is_note_due;
} tide_retention_clock;

/* The watermark of this name ("feed", "colony"), given the clock's time; noted, if tx writes. */
TIDE_MUST_CHECK tide_status tide_retention_clock_read(tide_tx *tx, const char *name, int64_t now_us,
                                                      tide_retention_clock *out, tide_error *err);
