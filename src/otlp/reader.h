/* reader.h - a request field by field, whichever way it was written.
 *
 *     tide_otlp_message span;
 *     tide_otlp_enter(&span, &parent, &field);
 *     while ((status = tide_otlp_next(&span, &field)) == TIDE_OK)
 *         switch (field.number) ...
 *     TIDE_TRY(status);
 *
 * Protobuf and JSON look alike from here: fields have the numbers and kinds of schema.h, elements
 * of lists come one by one, null and unknown fields do not come at all. A message that is given but
 * not entered is passed over; one that is entered may be left half read.
 *
 * Nothing is read twice and nothing is built. Texts are borrowed from the request; those that JSON
 * wrote with escapes, and bytes in base64, are made in the reader's arena.
 *
 * Failures are TIDE_E_INVALID, with the offset or the line and column; TIDE_E_NOMEM. A text that
 * does not fit into the arena sets is_overfull and comes empty: the record is too large.
 *
 * Limits: protobuf has no depth of its own here, callers go as deep as they enter; JSON:
 * TIDE_JSON_NESTING_MAX. Threads: a reader belongs to one thread at a time. */
#pragma once

#include <tidemark/error.h>

#include "base/arena.h"
#include "base/text/json_scan.h"
#include "otlp/schema.h"

typedef struct tide_otlp_reader {
    tide_view bytes;
    bool is_json;
    bool is_overfull;
    size_t at;           /* protobuf: the next byte */
    tide_json_scan scan; /* JSON */
    tide_arena *arena;   /* may be changed between calls */
    tide_error *err;
} tide_otlp_reader;

typedef struct tide_otlp_message {
    tide_otlp_reader *reader;
    const tide_otlp_message_type *type;
    size_t end;           /* protobuf */
    size_t resume;        /* protobuf: where the next field begins */
    size_t list_end;      /* protobuf: of packed numbers */
    uint32_t list_number; /* the list we are in; 0: none */
    int depth;            /* JSON: of the scanner, inside the object */
} tide_otlp_message;

typedef struct tide_otlp_id {
    uint8_t bytes[TIDE_OTLP_ID_LEN_MAX];
    int len; /* -1: not an id */
} tide_otlp_id;

typedef struct tide_otlp_field {
    uint32_t number;
    const tide_otlp_field_type *type;
    size_t end; /* protobuf: of a message */
    union {
        uint64_t u64; /* BOOL, INT, SINT, FIXED64: the bits */
        double f64;
        tide_view text; /* TEXT, BYTES */
        tide_otlp_id id;
    };
} tide_otlp_field;

/* Begin with the request itself. The bytes must outlive the reader. */
TIDE_MUST_CHECK tide_status tide_otlp_read(tide_otlp_reader *reader, tide_otlp_message *root,
                                           const tide_otlp_message_type *type,
                                           tide_otlp_format format, tide_view bytes,
                                           tide_arena *arena, tide_error *err);

/* Behind the root's last field there must be nothing else. */
TIDE_MUST_CHECK tide_status tide_otlp_read_end(tide_otlp_reader *reader);

/* Into the message that the parent's last field is. */
void tide_otlp_enter(tide_otlp_message *message, const tide_otlp_message *parent,
                     const tide_otlp_field *field);

/* TIDE_OK: *field; its texts are valid until the arena is reset. TIDE_NONE: the message's end. */
TIDE_MUST_CHECK tide_status tide_otlp_next(tide_otlp_message *message, tide_otlp_field *field);

/* A look ahead: a reader and a message of its own, which go on from where this message stands. */
typedef struct tide_otlp_ahead {
    tide_otlp_reader reader;
    tide_otlp_message message;
} tide_otlp_ahead;

void tide_otlp_look_ahead(tide_otlp_ahead *ahead, const tide_otlp_message *message);

/* len bytes of the arena. *out is NULL when there is no room (is_overfull). TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_otlp_reader_room(tide_otlp_reader *reader, size_t len, char **out);
