/* protobuf_guard.h - messages of others, decoded within a stated amount of memory.
 *
 *     TIDE_CLEANUP(tide_arena_done) tide_arena arena;
 *     tide_arena_init(&arena, TIDE_PROTOBUF_MEMORY_MAX);
 *     ProtobufCMessage *message = NULL;
 *     TIDE_TRY(tide_protobuf_unpack(&message, &thing__descriptor, bytes, &arena, err));
 *     const Thing *thing = (const Thing *)message;
 *
 * The bytes are scanned first (protobuf_scan.h): nothing is allocated for what is too deep, too
 * large or not of this type. Then protobuf-c unpacks them into the caller's arena, which refuses
 * what goes beyond its maximum or beyond limits.memory_len, whichever is less. The message is one
 * with its arena: it is never freed alone (not with protobuf_c_message_free_unpacked), and all of
 * it goes at once with tide_arena_done or tide_arena_reset.
 *
 * Texts are valid UTF-8 without NUL. Unknown fields are kept in the message, as protobuf-c does.
 * A singular message that comes in several parts is merged, except where it has a oneof: protobuf-c
 * 1.4 cannot do that, and the whole is refused. No encoder writes such parts.
 *
 * Threads: as safe as the arena and the buffer given. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "net/codec/protobuf_scan.h"

/* *out lives as long as the arena's content, and copies what it holds: bytes may go. Written only
 * on TIDE_OK. TIDE_E_INVALID: not a message of this type. TIDE_E_LIMIT: too deep, too many fields
 * (protobuf_scan.h), or more memory than is left of the arena's maximum. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_protobuf_unpack(ProtobufCMessage **out,
                                                 const ProtobufCMessageDescriptor *descriptor,
                                                 tide_view bytes, tide_arena *arena,
                                                 tide_error *err);

/* The same with limits of one's own; a memory_len of 0 is what is left of the arena. */
TIDE_MUST_CHECK tide_status tide_protobuf_unpack_within(
    ProtobufCMessage **out, const ProtobufCMessageDescriptor *descriptor, tide_view bytes,
    const tide_protobuf_limits *limits, tide_arena *arena, tide_error *err);

/* Append the encoding of a message. TIDE_E_LIMIT: it does not fit; TIDE_E_NOMEM. out is then as
 * before. */
TIDE_MUST_CHECK tide_status tide_protobuf_pack(tide_buffer *out, const ProtobufCMessage *message,
                                               tide_error *err);
