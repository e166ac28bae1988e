/* toy_disk.h - a disk of names: which files are there, since when, and which call on it fails.
 *
 * Paths are those that hand.h makes: below the data directory, s<schema>/t<table>/f<file>.parquet. */
#pragma once

#include "lake/expire.h"
#include "lake/maintenance/hand.h"

enum { TOY_FILES = 4096 };

typedef struct toy_disk {
    hand *h;
    tide_lake_disk ops;
    struct toy_file {
        char path[64]; /* below the data directory */
        int64_t changed_at_us;
        bool is_there;
    } files[TOY_FILES]; /* by file id */
    int removals;
    int fail_at;       /* this removal fails; 0: none */
    bool fails_behind; /* after the file has gone: the process dies before it can tell */
} toy_disk;

void toy_disk_init(toy_disk *d, hand *h);
void toy_disk_put(toy_disk *d, int64_t schema, int64_t table, int64_t file);
int toy_disk_count(const toy_disk *d);
