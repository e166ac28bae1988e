/* dictionary.h - what the profiles of a request refer to: texts, stacks, locations, functions, binaries.
 *
 *     sample -> stack -> locations -> lines -> function -> name       a frame of ours is a name
 *                            \-> mapping -> file, build id
 *
 * It is read before any profile, wherever it stands in the request, into plain tables; references are looked at when a sample uses
 * them. A location without lines has no function yet (native code that is not symbolised): its frame is named by file and
 * address, `libc.so.6+0x2d810`.
 *
 * Frames that samples use are marked, and numbered all at once (tide_otlp_dictionary_number); before, each has the largest number
 * there is, so that a record does not become longer by it.
 *
 * Texts are borrowed from the request, or made in the dictionary's layer (decode.h).
 * Limits: TIDE_OTLP_TABLE_MAX, TIDE_OTLP_INDICES_MAX, TIDE_OTLP_DICTIONARY_BYTES_MAX: about 60 MiB in all (docs/otlp.md), given back behind each request.
 * Threads: belongs to its decoder. */
#pragma once

#include "base/buffer.h"
#include "otlp/otlp.h"
#include "otlp/reader.h"

struct tide_otlp;

typedef struct tide_otlp_frame {
    tide_view name;
    uint64_t id;
    bool is_used;
} tide_otlp_frame;

typedef struct tide_otlp_binary {
    uint32_t filename; /* of strings */
    uint32_t first;    /* of indices: its attributes */
    uint32_t count;
    tide_view build_id; /* found once, when everything is read: many samples ask for it */
} tide_otlp_binary;

typedef struct tide_otlp_location {
    uint32_t mapping;
    uint32_t first; /* of indices: frames, the innermost first */
    uint32_t count;
    uint64_t address;
} tide_otlp_location;

typedef struct tide_otlp_range {
    uint32_t first; /* of indices */
    uint32_t count;
} tide_otlp_range;

typedef struct tide_otlp_pair {
    tide_view key;
    tide_view value;
    uint32_t key_index;
} tide_otlp_pair;

/* Arrays, each in a buffer that knows its maximum. */
typedef struct tide_otlp_dictionary {
    tide_buffer strings;   /* tide_view */
    tide_buffer frames;    /* tide_otlp_frame: by function, then those of locations without one */
    tide_buffer locations; /* tide_otlp_location */
    tide_buffer mappings;  /* tide_otlp_binary */
    tide_buffer stacks;    /* tide_otlp_range */
    tide_buffer pairs;     /* tide_otlp_pair */
    tide_buffer indices;   /* uint32_t */
    bool is_numbered;
    uint64_t replaced; /* broken characters in names */
} tide_otlp_dictionary;

/* Allocates nothing yet. */
void tide_otlp_dictionary_init(tide_otlp_dictionary *dictionary);
void tide_otlp_dictionary_done(tide_otlp_dictionary *dictionary);
/* Forget everything, and give the memory back. */
void tide_otlp_dictionary_clear(tide_otlp_dictionary *dictionary);

/* Find it in the request and read it. TIDE_E_INVALID, TIDE_E_LIMIT, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_otlp_dictionary_read(struct tide_otlp *otlp,
                                                      const tide_otlp_message *root);

/* The frames of a stack, leaf first, into ids; they are marked as used. *count is how many.
 * NONE, or the flaw: REFERENCE, STACK; then nothing is marked that matters. */
tide_otlp_reason tide_otlp_dictionary_stack(tide_otlp_dictionary *dictionary, uint64_t stack,
                                            uint64_t ids[TIDE_OTLP_STACK_MAX], int *count);

/* The build id of the first binary of a stack that has one; empty: none. The stack is one whose frames were found. */
tide_view tide_otlp_dictionary_build_id(const tide_otlp_dictionary *dictionary, uint64_t stack);

/* A text; empty: there is none of this number. */
tide_view tide_otlp_dictionary_string(const tide_otlp_dictionary *dictionary, uint64_t index);

/* An attribute of the table; NULL: there is none of this number. */
const tide_otlp_pair *tide_otlp_dictionary_pair(const tide_otlp_dictionary *dictionary,
                                                uint64_t index);

/* Number the frames that are used. */
TIDE_MUST_CHECK tide_status tide_otlp_dictionary_number(tide_otlp_dictionary *dictionary,
                                                        const tide_otlp_frames *by,
                                                        tide_error *err);
