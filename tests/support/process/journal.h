/* journal.h - kill -9 of real processes, and the list of what they had promised by then.
 *
 * A child prints one line "ack ..." on its stdout for each write, after the write is durable.
 * The driver reads these lines into a journal, kills the children at moments the seed decides,
 * and starts new ones on the same data, cycle after cycle. Afterwards an independent checker
 * holds the journal against the data: every acknowledged write must be there. What was written
 * but not acknowledged may be there or not.
 *
 * A line counts once its newline was printed, also when the driver reads it only after the kill:
 * the child had made its promise. A last line without newline does not count. Other lines
 * are the child's own output and are passed on to stderr.
 *
 * When to kill is counted in acknowledgements, not in time: a cycle draws a number of lines, and
 * when the children together have printed so many, one of them dies, at whatever point of its
 * own work it is; the others go on until the next draw. In some cycles all die at once, as in a
 * power cut of the machine. jitter_us lets the driver read on for a drawn moment before a kill,
 * which spreads the kills of a single child.
 *
 * Survives: nothing; the journal is in the memory of the test, whose own processes are not the
 * ones killed.
 * Threads: one.
 * Limits: KILL_LOOP_CHILDREN_MAX, KILL_LOOP_LINE_MAX, and silence_ms: children that print nothing
 * for so long are stuck, which is a failure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

#include "support/process/proc.h"

enum {
    KILL_LOOP_CHILDREN_MAX = 64,
    KILL_LOOP_LINE_MAX = 1024, /* bytes of a line, with its newline */
    KILL_LOOP_SILENCE_MS = 60000,
};

/* One acknowledged write. */
typedef struct ack {
    uint32_t cycle;   /* 0, 1, ... */
    uint32_t child;   /* 0, 1, ... within the cycle */
    const char *text; /* behind "ack ", without the newline; as long as the journal */
} ack;

typedef struct ack_journal {
    ack *acks; /* in the order of reading; of one child in the order of printing */
    size_t len;
    size_t capacity;
} ack_journal;

void ack_journal_init(ack_journal *journal);
void ack_journal_done(ack_journal *journal);
void ack_journal_add(ack_journal *journal, uint32_t cycle, uint32_t child, const char *text);

/* Read the fields of a line as numbers. TIDE_E_INVALID: there are not exactly len of them. */
TIDE_MUST_CHECK tide_status ack_numbers(const ack *line, int64_t *out, size_t len, tide_error *err);

typedef struct kill_loop {
    uint64_t seed;
    uint32_t cycles;
    uint32_t children; /* at once */
    uint32_t acks_min; /* lines from one kill to the next, evenly between the two */
    uint32_t acks_max;
    uint32_t all_at_once_percent; /* of the cycles: one kill for all */
    bool is_first_last;           /* child 0 dies when it is alone: the others wait for its input */
    int64_t jitter_us;
    int64_t silence_ms; /* 0: KILL_LOOP_SILENCE_MS */
    void *arg;

    /* Start a child with stdout as a pipe. It works until it is killed, or ends with exit code
     * 0. */
    tide_status (*start)(proc *child, uint32_t cycle, uint32_t index, void *arg, tide_error *err);

    /* Called after each cycle, when no child runs; may be NULL. A failure ends the loop. */
    tide_status (*check)(const ack_journal *journal, uint32_t cycle, void *arg, tide_error *err);
} kill_loop;

typedef struct kill_loop_result {
    uint32_t kills;
    uint32_t finished; /* children that ended by themselves, with 0 */
} kill_loop_result;

/* Run all cycles. TIDE_E_FAILED: a child ended with another code than 0 or by another signal
 * than ours; TIDE_E_TIMEOUT: the children fell silent; TIDE_E_LIMIT: a line too long; else what
 * start or check said. The message names the seed and the cycle. No child runs any more when it
 * returns. */
TIDE_MUST_CHECK tide_status kill_loop_run(const kill_loop *loop, ack_journal *journal,
                                          kill_loop_result *result, tide_error *err);
