/* fault_model.h - what a simulated disk holds: the durable part, and the changes since.
 *
 * A file is a node, apart from its name, as an inode is; a name is an entry. Both have a durable
 * state and a list of changes that no sync has reached yet, each with a serial number: the order
 * in which the program made them, over the whole disk.
 *
 *     entry "a.db" -- durable ----> node: durable bytes + unsynced writes and truncates
 *                  -- unsynced ---> node, or NULL for a deletion, ...
 *
 * Settling gives unsynced changes their fates and makes durable what is left of them. A lottery
 * draws the fates: FAULT_VFS_KEEP_ALL is a sync, the others are what a power cut or a failed
 * sync may leave. The rules stand in fault_vfs.h; this is the part of them without SQLite, and
 * only the files of fault_vfs use it.
 *
 * Threads: none; the disk's lock is held.
 * Memory: running out is reported where a call of SQLite's is under way. Settling needs none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/disk/fault_vfs.h"
#include "support/prng.h"

typedef struct fault_content {
    unsigned char *bytes;
    size_t len;
    size_t room;
} fault_content;

typedef struct fault_change fault_change; /* of a file's content, not synced yet */

typedef struct fault_node {
    int refs;              /* handles, durable entries, unsynced entries */
    fault_content durable; /* has room for all changes, so that a sync needs no memory */
    size_t size_now;
    fault_change *first;
    fault_change **last_next;
} fault_node;

typedef struct fault_entry_change { /* of a directory entry, not synced yet */
    struct fault_entry_change *next;
    uint64_t serial;
    fault_node *to; /* NULL: deleted */
} fault_entry_change;

typedef struct fault_entry {
    struct fault_entry *next;
    fault_node *durable; /* NULL: no such file */
    fault_entry_change *first;
    char name[];
} fault_entry;

typedef struct fault_model {
    fault_entry *entries;
    uint64_t serial; /* of the next change */
} fault_model;

typedef struct fault_lottery {
    fault_vfs_survival survival;
    prng *random;
    uint64_t kept_of_8; /* KEEP_RANDOM */
    uint64_t torn;      /* KEEP_PREFIX: the serial at which the disk stopped; set by the caller */
} fault_lottery;

/* A failure that cannot be returned to a caller ends the test program. */
_Noreturn void fault_give_up(const char *what, const char *about);

/* random is not used by KEEP_ALL and KEEP_NONE and may then be NULL. */
fault_lottery fault_lottery_open(fault_vfs_survival survival, prng *random);

/* An empty file without references. NULL: no memory. */
fault_node *fault_node_new(void);
void fault_node_unref(fault_node *n); /* the last one frees it; NULL is fine */

/* Note a write, or with data NULL a truncate to offset. False: no memory, nothing noted. */
bool fault_node_note(fault_model *model, fault_node *n, const void *data, size_t offset,
                     size_t len);

/* The unsynced changes get their fates now, and what is left of them is durable. */
void fault_node_settle(fault_node *n, const fault_lottery *l);

/* The content that a cut would leave; the bytes are the caller's. False: no memory. */
bool fault_node_draw(const fault_node *n, const fault_lottery *l, fault_content *out);

/* The file behind the name, as the running program sees it; NULL: none. */
fault_node *fault_entry_node(const fault_entry *e);

/* Takes over c, and a reference of its own to c->to. */
void fault_entry_note(fault_model *model, fault_entry *e, fault_entry_change *c);
void fault_entry_settle(fault_entry *e);

/* The file that a cut would leave behind the name; NULL: none. */
fault_node *fault_entry_draw(const fault_entry *e, const fault_lottery *l);

/* The entry of a name, made at the first meeting with what the real file at path then holds.
 * NULL: no memory. */
fault_entry *fault_model_find(fault_model *model, const char *name, const char *path);

void fault_model_settle(fault_model *model); /* the directory was synced: all entries */
int64_t fault_model_used_len(const fault_model *model);
uint64_t fault_model_oldest(const fault_model *model); /* serial of the oldest unsynced change */
void fault_model_done(fault_model *model);
