/* page.h - checkpoints read back: rows by number, with tags, and on demand the whole snapshot, verified.
 *
 * Reading has two steps: numbers are picked (by range, task, tag, ...), then their rows are read. All of it happens inside
 * one read transaction, into an arena; what was read is handed out after the transaction has ended.
 *
 * Damage does not stop the reading: a row whose content does not match its checksum, or whose chunks are not there, says
 * so in `damage`. Whoever hands the content out must look (tide_journal_row_check).
 *
 * Threads: one at a time. Limits: TIDE_JOURNAL_PAGE_LEN_MAX bytes in one page. */
#pragma once

#include <tidemark/journal.h>

#include "base/arena.h"
#include "journal/snapshot/chunk.h"

enum {
    TIDE_JOURNAL_PAGE_MAX = 256,           /* rows */
    TIDE_JOURNAL_PAGE_LEN = 1 << 20,       /* bytes of snapshots, unless one is larger */
    TIDE_JOURNAL_PAGE_LEN_MAX = 256 << 20, /* bytes of all */
};

typedef struct tide_journal_row {
    tide_checkpoint checkpoint;
    tide_view checksum; /* empty: plain SQL */
    tide_view chain;
    int64_t chunk_count;
    const char *annotations; /* JSON; only with TIDE_PAGE_ANNOTATIONS */
    const char *damage;      /* NULL: none was found */
} tide_journal_row;

typedef struct tide_journal_page {
    tide_arena arena;
    tide_chunk_coder coder;
    tide_identity identity;                       /* the epoch in force when it was read */
    tide_journal_row rows[TIDE_JOURNAL_PAGE_MAX]; /* by global sequence */
    int count;
} tide_journal_page;

typedef enum tide_page_what {
    TIDE_PAGE_ROWS = 0,
    TIDE_PAGE_SNAPSHOTS = 1, /* read and verified */
    TIDE_PAGE_ANNOTATIONS = 2,
} tide_page_what;

/* NULL: no memory. */
tide_journal_page *tide_journal_page_new(void);
void tide_journal_page_freep(tide_journal_page **page);

/* Read the rows with these numbers; those that do not exist are left out. what: flags of tide_page_what. */
TIDE_MUST_CHECK tide_status tide_journal_page_read(tide_journal_page *page, tide_tx *tx,
                                                   const int64_t *numbers, int count, unsigned what,
                                                   tide_error *err);

/* TIDE_E_DAMAGED, with words, if damage was found. */
TIDE_MUST_CHECK tide_status tide_journal_row_check(const tide_journal_row *row, tide_error *err);

/* The number of the checkpoint with this id or this decimal number. TIDE_NONE: none. */
TIDE_MUST_CHECK tide_status tide_journal_resolve(tide_tx *tx, const char *id_or_number,
                                                 int64_t *global_sequence, tide_error *err);

/* The same, but TIDE_E_NOT_FOUND with words. */
TIDE_MUST_CHECK tide_status tide_journal_need(tide_tx *tx, const char *id_or_number,
                                              int64_t *global_sequence, tide_error *err);
