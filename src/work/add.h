/* add.h - a batch of items on its way in; the steps of adding it, in the order in which they are taken.
 *
 *     check, name  ->  what is there already  ->  tasks (locked)  ->  dependencies (locked)  ->  insert
 *
 * Threads: as safe as the tide_tx. */
#pragma once

#include "work/item.h"

/* One of them. */
typedef struct tide_item_plan {
    const tide_work_spec *item;
    const char *task_id;
    tide_work_added *added; /* its id; is_existing once something stands for it */
    int position;           /* in the batch */
    int64_t waits_for;
    bool is_needed; /* another one of the batch depends on it */
} tide_item_plan;

typedef struct tide_item_batch {
    tide_tx *tx;
    const tide_item_origin *origin; /* may be NULL */
    tide_item_plan *plans;
    tide_item_plan **by_id;  /* those whose id was given, sorted */
    tide_item_plan **by_key; /* those with a unique key, sorted by type and key */
    int count;
    int id_count;
    int key_count;
    tide_arena arena;
} tide_item_batch;

/* The first of the batch that was given this id; NULL: none. */
tide_item_plan *tide_item_batch_find(const tide_item_batch *batch, tide_view id);

/* add_dedupe.c: mark what is there already, by id and by unique key. TIDE_E_EXISTS: an id with other content. */
TIDE_MUST_CHECK tide_status tide_item_batch_mark_existing(tide_item_batch *batch, tide_error *err);

/* add_dedupe.c: lock the tasks of what is new. TIDE_E_NOT_FOUND, TIDE_E_CONFLICT: one has ended. */
TIDE_MUST_CHECK tide_status tide_item_batch_check_tasks(tide_item_batch *batch, tide_error *err);

/* depend.c: what the new ones wait for. Locks what they depend on and appends to pairs, a JSON list. */
TIDE_MUST_CHECK tide_status tide_item_batch_depend(tide_item_batch *batch, tide_json *pairs,
                                                   int *pair_count, tide_error *err);
