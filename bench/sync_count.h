/* sync_count.h - how often did this program ask the disk to keep what it has?
 *
 * Programs that link this with --wrap=fdatasync count every call, also SQLite's.
 *
 * Threads: any. */
#pragma once

#include <stdint.h>

/* Calls since the program began. */
int64_t sync_count(void);
