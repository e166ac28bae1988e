/* fault_rig.h - a simulated disk with a database on it, for the tests of fault_vfs.
 *
 * The database is written by numbered transactions. Each adds several rows that carry its number,
 * and counts them in another table, so that half a transaction and a lost one are both seen.
 * After a power cut images of the disk are drawn, and judged as the next boot would find them.
 *
 * Survives: as in fault_vfs.h; the rig remembers what was acknowledged.
 * Threads: one rig belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "support/disk/fault_vfs.h"
#include "support/prng.h"
#include "support/tempdir.h"

enum { FAULT_RIG_IMAGES = 4 }; /* drawn per cut */

typedef struct fault_rig {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    fault_vfs *disk;
    sqlite3 *db;
    prng random;
    bool has_schema;  /* its creation was acknowledged */
    int acknowledged; /* transactions 1..acknowledged returned from COMMIT */
} fault_rig;

typedef struct fault_rig_tally {
    int cuts;
    int images;
    int damaged;   /* does not open, fails its check, or holds half a transaction */
    int lost;      /* sound, but an acknowledged transaction is missing */
    int lost_many; /* of these: more than the last one */
} fault_rig_tally;

void fault_rig_begin(fault_rig *r, uint64_t seed);
void fault_rig_end(fault_rig *r);

/* Open the database; the status is SQLite's, here and below. */
int fault_rig_open(fault_rig *r, const char *journal_mode, const char *synchronous);
int fault_rig_create_schema(fault_rig *r);
int fault_rig_add(fault_rig *r, int tx); /* transaction number tx */

int fault_rig_exec(sqlite3 *db, const char *sql);
int64_t fault_rig_ask(sqlite3 *db, const char *sql); /* -1: there is no answer */

bool fault_rig_is_intact(sqlite3 *db); /* SQLite's own check */
/* Whole transactions only, and the counter agrees with the rows. */
bool fault_rig_is_atomic(sqlite3 *db);
bool fault_rig_has_up_to(sqlite3 *db, int tx);

/* Of a disk whose power was cut: draw FAULT_RIG_IMAGES images and add up what they hold. */
void fault_rig_draw_images(fault_rig *r, fault_rig_tally *t);
