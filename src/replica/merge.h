/* merge.h - what becomes of a row when changes meet: pure, and the same on every node in any order.
 *
 * A row's clock: the stamp of its last creation, of its last deletion, and of each column that was written since that creation (one that has none
 * has the creation's, which wrote them all). Each is the greatest that was met.
 *
 *     a column's value    is that of its greatest stamp, whether the row exists or not
 *     the row exists      iff its creation is known, and that or one of its columns has a greater stamp than its deletion; so there are
 *                         no half rows: writes that come before their creation wait in the image
 *
 * So a delete takes every write with it that it knew, and every concurrent one with a lower stamp; a write with a greater stamp keeps the row, or brings
 * it back, with all its columns as they were last written. For that the values of a row that does not exist stay beside its clock, as its image, until every
 * peer has everything. Merging is commutative, associative and idempotent: what the order was cannot be seen.
 *
 * Conflicts. An event says which stamp it replaced, as its origin knew it (base). Of two writes of a column the lower one is lost unseen
 * iff its stamp lies above the greater one's base; that does not depend on which came first. A write whose stamp is the base of
 * another write of that column was not lost but replaced knowingly, by whoever made that one.
 *
 * Threads: pure. */
#pragma once

#include "replica/event.h"

/* A write as the clock knows it. */
typedef struct tide_row_write {
    tide_stamp stamp; /* time 0: never */
    tide_stamp base;  /* that it replaced */
} tide_row_write;

/* In place of a column: the greatest write of any that the table has lost since. Whether a row exists does not depend on who has dropped what first. */
enum { TIDE_ROW_CLOCK_LOST = TIDE_EVENT_COLUMNS_MAX - 1 };

typedef struct tide_column_clock {
    int column;
    tide_row_write write;
} tide_column_clock;

typedef struct tide_row_clock {
    tide_row_write created;
    tide_row_write deleted;
    tide_column_clock *columns; /* ascending; those that were written after the creation */
    int column_count;
} tide_row_clock;

/* A version byte, then varints; one clock has one encoding. */
TIDE_MUST_CHECK tide_status tide_row_clock_encode(tide_buffer *out, const tide_row_clock *clock);
/* TIDE_E_DAMAGED, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_row_clock_decode(tide_row_clock *out, tide_view bytes,
                                                  tide_error *err);
void tide_row_clock_done(tide_row_clock *clock); /* fits TIDE_CLEANUP on {0} */

bool tide_row_clock_exists(const tide_row_clock *clock);
/* The write that a column's value is of. */
tide_row_write tide_row_clock_of(const tide_row_clock *clock, int column);
/* The greatest stamp of creation and columns. */
tide_stamp tide_row_clock_newest(const tide_row_clock *clock);

/* What a row's clock is where both have been: each stamp the greater of two. The same as if all events behind a had been merged into b, or the other
 * way round. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_row_clock_join(tide_row_clock *out, const tide_row_clock *a,
                                                const tide_row_clock *b, tide_error *err);

typedef enum tide_row_fate {
    TIDE_FATE_NOTHING, /* the table stays as it is; the image may change */
    TIDE_FATE_INSERT,  /* the image with the written columns becomes a row */
    TIDE_FATE_UPDATE,  /* the written columns */
    TIDE_FATE_DELETE,  /* the row becomes the image */
} tide_row_fate;

/* What became of one column of the event. */
typedef struct tide_column_merge {
    bool is_written; /* the event's value is the column's from now on */
    bool
        is_conflict; /* a write was lost unseen: the stored one where is_written, else the event's */
} tide_column_merge;

typedef struct tide_merge {
    tide_row_fate fate;
    tide_column_merge *columns; /* one per column of the event */
    bool
        is_conflict; /* of a delete: it took writes with it that it did not know, or was itself outlived by some */
    bool is_known;        /* the clock had all of it: nothing changes */
    tide_row_clock clock; /* as it shall be */
} tide_merge;

/* TIDE_E_NOMEM. On failure *out holds nothing. */
TIDE_MUST_CHECK tide_status tide_merge_event(tide_merge *out, const tide_row_clock *stored,
                                             const tide_event *event, tide_error *err);
void tide_merge_done(tide_merge *merge); /* fits TIDE_CLEANUP on {0} */
