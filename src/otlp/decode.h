/* decode.h - what the parts of the decoder share: the request under way, and the steps that every
 * signal takes.
 *
 *     decode.c     request > resource > scope, their attributes; a record's begin and end
 *     value.c      AnyValue into text
 *     traces.c, metrics.c, histogram.c, profiles.c     records of a scope
 *     dictionary.c     what profiles refer to
 *
 * Texts that have to be made (numbers, lists, escapes) live in the arena of the layer that is being
 * read: one for the resource, one for its scope, one for a metric, one for a record; each is
 * emptied when the next of its kind begins. */
#pragma once

#include "base/arena.h"
#include "otlp/attributes.h"
#include "otlp/dictionary.h"
#include "otlp/histogram.h"
#include "otlp/otlp.h"
#include "otlp/reader.h"
#include "otlp/series.h"

enum {
    TIDE_OTLP_ARENA_MAX = 2 * TIDE_OTLP_RECORD_BYTES_MAX, /* of each layer */
    TIDE_OTLP_NUMBER_LEN_MAX = 64,                        /* of a number as text, and its key */
    TIDE_OTLP_SLOW_MS = 500,                              /* slower spans are never left out */
};

typedef enum tide_otlp_layer {
    TIDE_OTLP_LAYER_DICTIONARY, /* of profiles: lives as long as the request */
    TIDE_OTLP_LAYER_RESOURCE,
    TIDE_OTLP_LAYER_SCOPE,
    TIDE_OTLP_LAYER_METRIC,
    TIDE_OTLP_LAYER_RECORD,
    TIDE_OTLP_LAYER_COUNT,
} tide_otlp_layer;

struct tide_otlp {
    tide_otlp_options options;
    tide_arena arenas[TIDE_OTLP_LAYER_COUNT];
    tide_otlp_attributes attributes;
    tide_otlp_series series;
    tide_buffer json;   /* a list or map as text */
    tide_buffer events; /* of a span */
    tide_buffer links;

    /* the request under way */
    tide_otlp_signal signal;
    tide_otlp_reader reader;
    tide_otlp_output *output;
    tide_error *err;
    int64_t now_ms;

    /* its resource, its scope */
    tide_view service_name;
    tide_view scope_name;
    bool is_ebpf_resource;
    bool is_ebpf;
    int resource_count; /* attributes */
    int scope_count;
    tide_otlp_reason resource_flaw; /* no record of it can be taken, and why */
    tide_otlp_reason scope_flaw;

    tide_otlp_reason flaw; /* of the record under way */
    tide_otlp_histogram histogram;

    tide_otlp_dictionary dictionary; /* of profiles; empty with other signals */
    bool
        has_counts; /* the scope has profiles of counted samples: their CPU time is the same once more */
};

/* ---- steps (decode.c) ---- */

/* From here on texts go into this layer's arena, which is emptied. */
void tide_otlp_begin_layer(tide_otlp *otlp, tide_otlp_layer layer);

/* A record begins: nothing is known of it. */
void tide_otlp_begin_member(tide_otlp *otlp);

/* The record under way cannot be taken; the first reason counts. */
void tide_otlp_note_flaw(tide_otlp *otlp, tide_otlp_reason reason);

/* A failure to grow a buffer: too long is a flaw of the record, no memory one of the request. */
TIDE_MUST_CHECK tide_status tide_otlp_note_status(tide_otlp *otlp, tide_status status);

/* The attribute that the parent's last field is. */
TIDE_MUST_CHECK tide_status tide_otlp_read_attribute(tide_otlp *otlp,
                                                     const tide_otlp_message *parent,
                                                     const tide_otlp_field *field);

/* The key that a KeyValue's field says. */
tide_view tide_otlp_key_text(const tide_otlp *otlp, const tide_otlp_field *field);

/* An attribute of our own making, unless its value is empty. */
TIDE_MUST_CHECK tide_status tide_otlp_add_attribute(tide_otlp *otlp, const char *key,
                                                    tide_view value);

/* One attribute more is to come, of so many bytes: a record that has no room for it cannot be
 * taken. */
void tide_otlp_expect_attribute(tide_otlp *otlp, size_t len);

/* The value of the first of these keys (NULL ends them) that there is; empty: none. */
tide_view tide_otlp_find_attribute(const tide_otlp *otlp, const char *const *keys);

/* A whole number from 0 on; 0: it is none. */
int32_t tide_otlp_text_number(tide_view text);

/* The same as a number; 0: none. */
int32_t tide_otlp_find_number(const tide_otlp *otlp, const char *const *keys);

/* Is the record under way sound, its texts_len bytes besides the attributes included? False: it is
 * rejected and counted. */
bool tide_otlp_accept(tide_otlp *otlp, size_t texts_len);

/* A record of this stream; columns are then put into the batch. */
tide_record_batch *tide_otlp_record_begin(tide_otlp *otlp, tide_stream_kind kind);
/* All attributes (-1: the stream has no column for them), and the record's end. TIDE_E_LIMIT: the request has too many records. */
TIDE_MUST_CHECK tide_status tide_otlp_record_end(tide_otlp *otlp, tide_record_batch *batch,
                                                 int attributes_column);

/* Unix ns to ms; now where there is none. */
int64_t tide_otlp_time_ms(const tide_otlp *otlp, uint64_t ns);

/* An id of len bytes, not all 0, as text; false: it is none, and text is empty. */
bool tide_otlp_id_text(const tide_otlp_id *id, int len, char out[2 * TIDE_OTLP_ID_LEN_MAX + 1]);

/* ---- values (value.c) ---- */

/* What an AnyValue says, as text: lists and maps as JSON, bytes in base64. Borrowed until its layer
 * begins anew. */
TIDE_MUST_CHECK tide_status tide_otlp_value_text(tide_otlp *otlp, tide_otlp_message *any,
                                                 tide_view *out);

/* A double as text, in the fewest digits. */
TIDE_MUST_CHECK tide_status tide_otlp_double_text(tide_otlp *otlp, double number, tide_view *out);

/* Append the message's attributes (a list of KeyValue under that number) as a JSON object. */
TIDE_MUST_CHECK tide_status tide_otlp_write_attributes(tide_otlp *otlp, tide_buffer *out,
                                                       tide_otlp_message *owner, uint32_t number);
TIDE_MUST_CHECK tide_status tide_otlp_write_text(tide_otlp *otlp, tide_buffer *out, tide_view text);

/* ---- signals: the member that the scope's last field is ---- */

TIDE_MUST_CHECK tide_status tide_otlp_read_span(tide_otlp *otlp, tide_otlp_message *span);
TIDE_MUST_CHECK tide_status tide_otlp_read_metric(tide_otlp *otlp, tide_otlp_message *metric);
TIDE_MUST_CHECK tide_status tide_otlp_read_profile(tide_otlp *otlp, tide_otlp_message *profile);

/* Before the profiles of a scope: which kinds are there? */
TIDE_MUST_CHECK tide_status tide_otlp_look_at_profiles(tide_otlp *otlp,
                                                       const tide_otlp_message *scope);
