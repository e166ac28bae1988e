/* json_value.h - numbers of JSON as protobuf's types want them.
 *
 * Threads: pure. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

#include "base/buffer.h"

/* Is this text a number as JSON writes it, and nothing else? */
bool tide_json_is_number(tide_view text);

/* The value of a whole number of a type, from the text of a JSON number: exact, however it is
 * written (12, 12.0, 1.2e1), in the form in which the wire keeps it (zigzag, sign extended).
 * NULL: fine. Otherwise what is wrong, in words: a fraction, or outside of the type's range. */
const char *tide_json_read_integer(ProtobufCType type, tide_view number, uint64_t *out);

/* The same for float and double. The text is a number, NaN, Infinity or -Infinity. */
const char *tide_json_read_real(ProtobufCType type, tide_view text, uint64_t *out);

/* Append a value of the wire as JSON: integers, float, double, bool. Not for enums. is_plain: every
 * value as a number, or null where it is none; otherwise 64 bits, NaN and the infinities as
 * strings. */
TIDE_MUST_CHECK tide_status tide_json_append_number(tide_buffer *out, ProtobufCType type,
                                                    uint64_t value, bool is_plain);
