/* tailing.h - a reader that asks for `> n`, and the checks of what was promised.
 *
 * The tailer reads the table `numbered` in pages, each by one tide_store_read, and asks next for what lies above the
 * last number it has. It never looks back: a row that becomes visible below its position is lost to it. So each
 * page must continue where the last one ended, number by number: committed numbers have no gaps, and become
 * visible in their order. Times beside the numbers never go back either.
 *
 * Its pages are written to a history, to be compared with the table at the end: what left the store once can
 * be neither taken back nor given another number, whatever crashed in between.
 *
 * Threads: a tailer runs on its own; the rest on the test's. */
#pragma once

#include <pthread.h>

#include "crash/taking.h"
#include "support/process/journal.h"

enum { WHY_SIZE = 256 };

typedef struct seen_row {
    int64_t seq_id;
    char writer[WRITER_NAME_SIZE];
    int64_t n;
    int64_t at_us;
} seen_row;

typedef struct seen_rows {
    seen_row *rows; /* rows[i] has number i + 1 */
    size_t len;
    size_t capacity;
} seen_rows;

void seen_rows_done(seen_rows *seen);

/* Read the next page above what is there and append it. TIDE_OK: there were rows. TIDE_NONE: none.
 * TIDE_E_DAMAGED: the page does not continue where the last one ended, as *err says; any other failure is the
 * store's. */
TIDE_MUST_CHECK tide_status seen_rows_read(seen_rows *seen, tide_store *store, tide_error *err);

/* Write what was found in the end, for tests/check/sequences.py. */
void seen_rows_write(const seen_rows *table, int history);

typedef struct tailer {
    tide_store *store;
    bool is_server_mortal;
    int history; /* where its pages are written; 0: nowhere */
    seen_rows seen;
    atomic_llong position; /* the last number shown to it */
    atomic_bool stop;
    pthread_t thread;
    tide_status status; /* after tailer_finish */
    tide_error err;
} tailer;

void tailer_start(tailer *t, tide_store *store, bool is_server_mortal, int history);
/* Stop it and see whether all was well. Its rows stay. */
tide_status tailer_finish(tailer *t, tide_error *err);
void tailer_done(tailer *t);

/* Every line of the journal against the whole table; false says why. Rows of closures that gave up must not be
 * there. */
bool check_promises(const ack_journal *journal, const seen_rows *table, char why[WHY_SIZE]);
