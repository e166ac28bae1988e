/* reply_field.h - one protobuf field after the other, out of bytes that nobody vouches for. Part of reply.c. */
#pragma once

#include "base/bytes/protobuf_fields.h"
#include "colony/ask.h"

/* TIDE_NONE: the end. TIDE_E_DAMAGED: no field stands there. */
TIDE_MUST_CHECK tide_status tide_field_next(tide_reader *reader, tide_wire_field *out);

/* TIDE_E_DAMAGED: not a varint, or above 2^63-1. */
TIDE_MUST_CHECK tide_status tide_field_number(const tide_wire_field *field, int64_t *out);
/* TIDE_E_DAMAGED: not UTF-8 without NUL, or no room for it. */
TIDE_MUST_CHECK tide_status tide_field_text(const tide_wire_field *field, char *out, size_t size);
