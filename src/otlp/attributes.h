/* attributes.h - the attributes of a record with those of its scope and its resource.
 *
 * A stack of three layers: those of the resource lie at the bottom and serve all its records, those
 * of a record are taken off before the next. What lies on top wins: a record's attribute hides one
 * of the same key in its scope or resource, and the last of a key within one layer hides the
 * others. Taking off brings back what was hidden.
 *
 *     resource            scope               record
 *     a=1  b=2            c=3                 b=4         -> a=1 c=3 b=4
 *
 * Keys are found through chains of a hash table; the newest stands first, so that taking off is
 * undoing.
 *
 * Beside the texts stands what they become in a record, entries of a map<string, string> with their
 * texts cleaned: those of a resource are encoded once and copied into each of its records.
 *
 * Texts are borrowed and must live as long as their layer.
 * Limits: TIDE_OTLP_ATTRIBUTES_MAX entries, TIDE_OTLP_ATTRIBUTE_BYTES_MAX bytes of texts, hidden
 * ones included. Threads: a stack belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "feed/record.h"
#include "otlp/otlp.h"

enum { TIDE_OTLP_ATTRIBUTE_HEADS = 2048 }; /* a power of two */

typedef struct tide_otlp_attribute {
    tide_view key;
    tide_view value;
    uint64_t hash;
    size_t encoded_at; /* where its entry begins */
    int16_t next;      /* in the chain; -1: the last */
    int16_t hides;     /* -1: nothing */
    bool is_hidden;
} tide_otlp_attribute;

typedef struct tide_otlp_attributes {
    tide_otlp_attribute entries[TIDE_OTLP_ATTRIBUTES_MAX];
    int count;
    int hidden_count;
    size_t bytes_len;
    uint64_t seed;
    tide_buffer encoded; /* entries one behind the other */
    tide_buffer clean;   /* a text that had to be cleaned */
    uint8_t tag;         /* of the entries: the map's number in its message */
    uint64_t replaced;   /* broken characters, since the beginning */
    int16_t heads[TIDE_OTLP_ATTRIBUTE_HEADS];
} tide_otlp_attributes;

/* Allocates nothing yet. */
void tide_otlp_attributes_init(tide_otlp_attributes *attributes, uint64_t seed);
void tide_otlp_attributes_done(tide_otlp_attributes *attributes);

/* Put one on top. *reason: TIDE_OTLP_REASON_NONE, it is there; otherwise why not. TIDE_E_NOMEM: it
 * is not there. */
TIDE_MUST_CHECK tide_status tide_otlp_attributes_push(tide_otlp_attributes *attributes,
                                                      tide_view key, tide_view value,
                                                      tide_otlp_reason *reason);

/* Take off all above the first count. */
void tide_otlp_attributes_cut(tide_otlp_attributes *attributes, int count);

/* The value of a key; false: there is none. */
bool tide_otlp_attributes_find(const tide_otlp_attributes *attributes, tide_view key,
                               tide_view *value);

/* Put all that are not hidden into the record under way, as its map column. */
void tide_otlp_attributes_write(tide_otlp_attributes *attributes, tide_record_batch *batch,
                                int column);

/* What tells this set of the first count attributes from another, whatever their order. */
tide_digest128 tide_otlp_attributes_digest(const tide_otlp_attributes *attributes, int count);
