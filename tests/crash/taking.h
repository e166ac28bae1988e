/* taking.h - a taker: writes numbered rows without end and says what became of each.
 *
 * One taker is one thread. In a loop it runs tide_store_write with a closure that takes numbers of the sequence
 * `numbered` and puts rows that carry them into the table of the same name. The seed decides the shape of each:
 *
 *     one row, or several at once              the rows are deferred, the runner takes the numbers last
 *     the same, settled first                  the closure sees its numbers and writes the rows itself
 *     a closure that fails after all its work  its rows have a negative n: none may ever be seen
 *
 * A row is named by (writer, n); the writer's name tells cycle, process and thread, so that no two takers
 * that ever ran share one. After each tide_store_write the taker reports every row with its fate:
 *
 *     TAKEN_STORED   acknowledged: the row is there for ever, under this number
 *     TAKEN_FAILED   refused: the row is not there, and will not be
 *     TAKEN_UNKNOWN  the store said that it does not know
 *
 * Its history (tests/check/sequences.py) has a take for each row, announced before the call: whoever
 * judges knows also what a killed taker may have written.
 *
 * Threads: one taker, one thread; report is called on it. */
#pragma once

#include <stdatomic.h>

#include <tidemark/tidemark.h>

enum {
    TAKEN_LINE_MAX = 160,
    TAKER_ROWS_MAX = 5, /* in one transaction */
    WRITER_NAME_SIZE = 40,
};

typedef enum taken_fate {
    TAKEN_FAILED,
    TAKEN_STORED,
    TAKEN_UNKNOWN,
} taken_fate;

typedef struct taken {
    int64_t cycle;
    int64_t child;
    int64_t thread;
    int64_t n;
    int64_t fate;   /* taken_fate */
    int64_t seq_id; /* of a stored row; 0: not told */
} taken;

enum { TAKEN_FIELDS = sizeof(taken) / sizeof(int64_t) };

typedef struct taker taker;
struct taker {
    tide_store *store;
    int64_t cycle;
    int64_t child;
    int64_t thread;
    uint64_t seed;
    bool is_hasty;         /* acknowledges before the commit: how not to do it */
    bool is_server_mortal; /* TIDE_E_UNAVAILABLE and TIDE_E_OUTCOME_UNKNOWN are to be expected */
    int history;           /* where its calls are written (support/history.h); 0: nowhere */
    const atomic_bool *stop;
    void (*report)(const taker *from, const taken *row);
    void *arg;
};

/* Write until *stop, or until the store says something that it should not say. */
TIDE_MUST_CHECK tide_status taker_run(const taker *t, tide_error *err);

void taken_writer(char out[WRITER_NAME_SIZE], const taken *row);

/* "<writer> <n>", the name of a row in a history. */
enum { TAKEN_VALUE_SIZE = WRITER_NAME_SIZE + 24 };
void taken_value(char out[TAKEN_VALUE_SIZE], const char *writer, int64_t n);

/* "ack <the fields in order>\n", for journal.h. Returns the length. */
size_t taken_format(char out[TAKEN_LINE_MAX], const taken *row);
