/* source.h - the source of the simulated world: a real store on a disk that loses power.
 *
 * It answers two questions. "Append (writer, n)": in one transaction it looks whether that row is there, and if not
 * adds it under the next number; then it answers with the number. "What comes after a?": one page of rows.
 *
 * Its disk is a fault_vfs: the seed cuts the power in the middle of a write, and the source comes up again
 * on what is left, in the same place (the same store) or on a copy (a new epoch).
 *
 * Wrong sources, to see that the invariants notice:
 *
 *     SOURCE_HASTY      answers before the commit
 *     SOURCE_FORGETFUL  remembers what it has appended in memory, outside of the transaction
 *
 * Threads: none. */
#pragma once

#include <tidemark/tidemark.h>

#include "support/disk/fault_vfs.h"
#include "support/sim/sim.h"
#include "support/tempdir.h"

enum {
    APPEND_PRODUCERS = 3,
    APPEND_EACH = 6, /* rows of each producer */
    APPEND_TOTAL = APPEND_PRODUCERS * APPEND_EACH,
    APPEND_PAGE = 4,
    APPEND_ROWS_MAX = 4 * APPEND_TOTAL, /* more than a right source can have */
    APPEND_AGAIN = 1000,                /* a forgetful source's second n for one request */
};

typedef enum source_planted_fault {
    SOURCE_NO_FAULT,
    SOURCE_HASTY,
    SOURCE_FORGETFUL
} source_planted_fault;

typedef struct append_row {
    int64_t seq_id;
    int64_t writer; /* a producer's index */
    int64_t n;
} append_row;

typedef enum message_kind { MESSAGE_APPEND, MESSAGE_ACK, MESSAGE_POLL, MESSAGE_PAGE } message_kind;

typedef struct message {
    int64_t kind;
    int64_t epoch;  /* of answers */
    append_row row; /* APPEND: writer and n; ACK: all */
    int64_t after;  /* POLL, PAGE */
    int64_t count;  /* PAGE */
    append_row rows[APPEND_PAGE];
} message;

typedef struct append_source {
    sim_id id;
    source_planted_fault planted;
    int64_t calm_from_us; /* no cuts any more */
    tempdir dir;
    tempdir scratch;
    tempdir state;     /* of identity markers: it keeps everything */
    fault_vfs *disk;   /* NULL while down */
    tide_store *store; /* NULL while down */
    int64_t epoch;     /* of the last start that succeeded */
    int64_t moves;     /* to another machine since then */
    bool is_dirty;     /* something may have changed since append_source_read */
    int64_t appended[APPEND_PRODUCERS][APPEND_EACH + 1]; /* a forgetful source's memory */
    int64_t attempts;
} append_source;

void append_source_init(append_source *s, sim *world, source_planted_fault planted,
                        int64_t calm_from_us);
void append_source_done(append_source *s);
sim_actor append_source_actor(append_source *s);

/* Every row, by number; for invariants. Returns how many; -1: not up, or it cannot be read. */
int append_source_read(append_source *s, append_row rows[APPEND_ROWS_MAX]);
