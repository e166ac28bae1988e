/* checksum.h - what the checksum of a checkpoint covers, and the step of a task's hash chain.
 *
 * The checksum is SHA-256 over a canonical encoding: one version byte, then each field with its
 * length in front, so that no two checkpoints share an encoding.
 *
 *     byte 1 (version)
 *     checkpoint_id, task_id, work_item_id, type, message, metadata, trigger:
 *         byte 0 (NULL), or byte 1, length (8 bytes, little endian), bytes
 *     number of tags (8 bytes, little endian), then each tag as above, in byte order
 *     the whole snapshot as above, whether it stands in the row or in chunks
 *
 * Numbers and times are not covered: a checkpoint that is imported elsewhere keeps its checksum. The
 * number is part of the chain: chain = SHA-256(previous chain, number as 8 bytes big endian, checksum).
 *
 *     THIS IS A STORAGE FORMAT: it is verified against what older programs wrote.
 *
 * Threads: pure. */
#pragma once

#include <tidemark/journal.h>

#include "base/digest.h"

typedef struct tide_checksum {
    uint8_t bytes[TIDE_SHA256_LEN];
} tide_checksum;

typedef struct tide_checksum_fields {
    const char *checkpoint_id;
    const char *task_id;
    const char *work_item_id; /* NULL: none; likewise below */
    const char *type;
    const char *message;
    const char *metadata;
    const char *trigger;
    const char *const *tags; /* in byte order */
    int tag_count;
    tide_view snapshot;
} tide_checksum_fields;

TIDE_MUST_CHECK tide_status tide_checksum_compute(tide_checksum *out,
                                                  const tide_checksum_fields *fields,
                                                  tide_error *err);

/* The fields of a checkpoint that was read with its snapshot. */
tide_checksum_fields tide_checksum_fields_of(const tide_checkpoint *checkpoint);

TIDE_MUST_CHECK tide_status tide_checksum_link(tide_checksum *out, tide_view previous,
                                               int64_t number, tide_view checksum, tide_error *err);

bool tide_checksum_equal(const tide_checksum *seal, tide_view bytes);

/* Put tags into byte order and drop repeated ones; returns how many are left. */
int tide_checksum_sort_tags(const char **tags, int count);

/* A task's hash chain as it stood at one of its numbers.
 *
 * A fork goes on with the chain of what it was forked from, so the chain at its first own number begins where that of the
 * parent stood at the fork point. Rows of plain SQL have no part in the chain; removed rows have left theirs in a cut. */

typedef struct tide_chain {
    uint8_t bytes[TIDE_SHA256_LEN];
    size_t len; /* 0: nothing was sealed yet */
} tide_chain;

tide_view tide_chain_view(const tide_chain *chain);
/* What is no chain (another length) becomes one that nothing equals. */
void tide_chain_set(tide_chain *chain, tide_view bytes);

/* Behind `number` of the task, along what it was forked from. */
TIDE_MUST_CHECK tide_status tide_chain_at(tide_chain *out, tide_tx *tx, const char *task_id,
                                          int64_t number, tide_error *err);
