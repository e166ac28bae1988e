/* faulty_disk.h - a store on a disk that fails, with a memory of what the store said.
 *
 * The store has the core's schema alone (core_store.h): what is swept are its files, and there are thousands of them.
 *
 * Each write is noted with its outcome, as in taking.h; the checks hold the notes against what is found: success
 * means the row is there, a failure means it is not, "outcome unknown" leaves it open.
 *
 * Threads: disk_case_note and disk_case_write from any thread; the rest from the test's. */
#pragma once

#include <pthread.h>

#include "crash/tailing.h"
#include "support/disk/fault_vfs.h"
#include "support/prng.h"
#include "support/store_fixture.h"

enum { DISK_BLOB_LEN = 100000 };

typedef struct disk_case {
    prng chance;
    tempdir dir;
    tempdir image;
    char path[TEMPDIR_PATH_MAX];
    fault_vfs *disk;
    virtual_env clock;
    tide_store *store;
    pthread_mutex_t lock;
    ack_journal journal;
    char what[96]; /* for messages */
    tide_error err;
} disk_case;

/* A fresh disk with a store that has the tables of test.sql; nobody has it open. */
void disk_case_init(disk_case *c, uint64_t seed);
void disk_case_done(disk_case *c);

/* c->path is opened on the disk, any other path is a plain file. */
tide_status disk_case_open(disk_case *c, const char *path, bool is_inline);

void disk_case_note(disk_case *c, int64_t thread, int64_t n, tide_status status, int64_t seq_id);

/* A closure for tide_store_write: a numbered row, and a blob when blob_id is not 0. */
typedef struct fault_row {
    numbered_row row;
    int64_t blob_id; /* 0: none */
    int runs;
} fault_row;
tide_status add_fault_row(tide_tx *tx, void *fault_row_arg, tide_error *err);

/* One such row, noted. */
tide_status disk_case_write(disk_case *c, int64_t thread, int64_t n, int64_t blob_id);

/* Hold the open store against the notes. */
void disk_case_check(disk_case *c);

/* The same now, after opening again, and after a power cut that takes all it may take. */
void disk_case_check_now_and_later(disk_case *c);
