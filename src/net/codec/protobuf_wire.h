/* protobuf_wire.h - fields of protobuf messages, appended one by one. base/bytes/protobuf_fields.h
 * reads them.
 *
 * The writers append one field each and return the buffer's status.
 *
 * Threads: pure. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/bytes/protobuf_fields.h"

/* The type in which a value of a protobuf type is written, one by one (not packed). */
tide_wire_type tide_wire_type_of(ProtobufCType type);

/* May many values of it share one TIDE_WIRE_BYTES field (packed)? */
bool tide_wire_is_packable(ProtobufCType type);

/* A number as its type keeps it: what protobuf calls zigzag. */
uint64_t tide_wire_zigzag(int64_t number);
int64_t tide_wire_unzigzag(uint64_t number);

TIDE_MUST_CHECK tide_status tide_wire_append_tag(tide_buffer *out, uint32_t number,
                                                 tide_wire_type type);
TIDE_MUST_CHECK tide_status tide_wire_append_varint(tide_buffer *out, uint32_t number,
                                                    uint64_t value);
TIDE_MUST_CHECK tide_status tide_wire_append_fixed64(tide_buffer *out, uint32_t number,
                                                     uint64_t value);
TIDE_MUST_CHECK tide_status tide_wire_append_fixed32(tide_buffer *out, uint32_t number,
                                                     uint32_t value);
TIDE_MUST_CHECK tide_status tide_wire_append_bytes(tide_buffer *out, uint32_t number,
                                                   tide_view bytes);
TIDE_MUST_CHECK tide_status tide_wire_append_text(tide_buffer *out, uint32_t number,
                                                  const char *text);

/* A field whose length is known only when it is written: begin returns where its content starts,
 * end puts the length in front of it (and moves the content, by 1 to 4 bytes, where it is 128 or
 * more bytes long). Brackets nest. */
TIDE_MUST_CHECK tide_status tide_wire_begin(tide_buffer *out, uint32_t number, size_t *content_at);
TIDE_MUST_CHECK tide_status tide_wire_end(tide_buffer *out, size_t content_at);
