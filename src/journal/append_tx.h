/* append_tx.h - appending, the half inside of the transaction.
 *
 *     check, seal, cut into chunks        append.c, no transaction
 *     same id? task, lease? type? chunks  statements of the closure
 *     task counters, global counter       taken by the runner, in key order
 *     fence, expectation, tags,           deferred: they carry the numbers
 *     references, row
 *
 * The row comes behind its tags and references: once it is there, nobody may add to it.
 *
 * Threads: one at a time. */
#pragma once

#include <tidemark/journal.h>

#include "journal/check/checksum.h"
#include "journal/snapshot/snapshot.h"

typedef struct tide_append_item {
    const tide_checkpoint_new *given;
    char checkpoint_id[TIDE_JOURNAL_ID_MAX + 1];
    const char *tags[TIDE_JOURNAL_TAGS_MAX]; /* in order, each once */
    int tag_count;
    tide_checksum checksum;
    tide_snapshot snapshot;
    /* Of one run of the closure. */
    bool is_existing;
    bool is_held;     /* by the token of its work item */
    int first;        /* index of the task's first item of this transaction */
    int task_count;   /* of the first: items of its task */
    int task_place;   /* among the items of its task */
    int global_place; /* among all that are written */
    int64_t taken;    /* of the first: the task's last number */
} tide_append_item;

typedef struct tide_append {
    tide_append_item *items;
    int count;
    int new_count;
    tide_checkpoint_numbers *out; /* NULL: nobody wants to know */
    bool is_known;                /* the tasks exist */
    bool is_inside;               /* the transaction outlives this */
    bool is_fenced;               /* leases of tasks are checked (fence.h) */
    int64_t taken;                /* the last global number */
    int runs;                     /* of the closure, so far */
    bool has_lost_run;            /* one of them may have been committed */
} tide_append;

/* The closure; arg is a tide_append. */
TIDE_MUST_CHECK tide_status tide_append_write(tide_tx *tx, void *arg, tide_error *err);

/* TIDE_E_NOT_FOUND: one of the tasks does not exist. */
TIDE_MUST_CHECK tide_status tide_append_check_tasks(const tide_append *a, tide_tx *tx,
                                                    tide_error *err);

/* As tide_fence_check_task, for each task. */
TIDE_MUST_CHECK tide_status tide_append_check_leases(const tide_append *a, tide_tx *tx,
                                                     tide_error *err);

const char *tide_append_trigger(const tide_checkpoint_new *given);
