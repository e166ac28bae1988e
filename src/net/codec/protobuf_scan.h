/* protobuf_scan.h - look at protobuf bytes before anything is allocated for them.
 *
 * protobuf-c unpacks whatever it is given: it recurses as deep as the sender likes, and 4 MB of
 * empty messages become 500 MB of structs. The scan walks over the same bytes first, by the same
 * descriptor, in constant memory and without recursion, and refuses what should never reach it:
 *
 *   - nesting deeper than limits.depth (messages inside messages; the outermost is level 1);
 *   - more than limits.fields fields, over all levels;
 *   - bytes that are not protobuf: see protobuf_wire.h;
 *   - a known field in a form its type does not have, a packed field with half an element;
 *   - a string that is not UTF-8, or has a NUL in it (protobuf-c would cut it there), by name.
 *     proto3 knows no other strings: who has other bytes uses a bytes field;
 *   - what would take more than limits.memory_len bytes decoded.
 *
 * The estimate of memory follows protobuf-c 1.4: the struct of every message, an array per repeated
 * field, texts and bytes, unknown fields, and 32 bytes of notes per field beyond the 16th of a
 * message, each rounded up as an arena does. It is exact for what encoders write. Only a singular
 * message that is given several times (the parts are merged) may take more; the allocator
 * (protobuf_guard.h) has the last word.
 *
 * Unknown fields are not looked into: protobuf-c keeps them as bytes.
 *
 * Threads: pure. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

enum {
    TIDE_PROTOBUF_DEPTH_MAX = 100,
    TIDE_PROTOBUF_FIELDS_MAX = 8 * 1000 * 1000,
    TIDE_PROTOBUF_MEMORY_MAX = 64 << 20,
};

/* 0 stands for the constant above, which is also the most that depth may be. */
typedef struct tide_protobuf_limits {
    int depth;
    size_t fields;
    size_t memory_len;
} tide_protobuf_limits;

typedef struct tide_protobuf_facts {
    int depth; /* levels there are */
    size_t fields;
    size_t memory_len; /* what protobuf-c would allocate */
} tide_protobuf_facts;

/* limits NULL: all of the constants. facts may be NULL; it is written only on TIDE_OK.
 * TIDE_E_INVALID: not a message of this type. TIDE_E_LIMIT: too deep, too many, too large. */
TIDE_MUST_CHECK tide_status tide_protobuf_scan(const ProtobufCMessageDescriptor *descriptor,
                                               tide_view bytes, const tide_protobuf_limits *limits,
                                               tide_protobuf_facts *facts, tide_error *err);
