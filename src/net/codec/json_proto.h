/* json_proto.h - protobuf messages as JSON and back, by descriptor: plain JSON or the proto3
 * mapping.
 *
 * Both directions work on the wire form, in one go and without building the message:
 *
 *     JSON text  ---- tide_json_to_proto ---->  protobuf bytes
 *     JSON text  <---- tide_proto_to_json ----  protobuf bytes
 *
 * Messages of .proto files with the option plain_json have the plain form (docs/protocol.md), all
 * others the mapping that protobuf defines. What follows is the mapping.
 *
 * From JSON
 *   - names in lowerCamelCase or as the .proto has them; an unknown one is refused, with the
 *     nearest known name (or ignored, as an option says);
 *   - int32, uint32, int64, uint64 ... as numbers or strings ("12", 12, 12.0, 1.2e1), exactly;
 *     a fraction or a number outside of the type's range is refused;
 *   - float and double as numbers or strings, also "NaN", "Infinity", "-Infinity";
 *   - enums by name or number; bytes in base64, standard or URL-safe, padded or not;
 *   - maps as objects; a key that comes twice is refused, as is a field given twice (under either
 *     name) or a second member of a oneof;
 *   - null is the same as leaving the field out; it is refused inside arrays and maps.
 *   Fields of default value are not written; repeated numbers are packed.
 *
 * To JSON
 *   - lowerCamelCase (or the names of the .proto, as an option says), in order of field number;
 *   - 64-bit integers as strings, enums by name (a number without a name as a number), bytes in
 *     padded standard base64, NaN and the infinities as strings;
 *   - fields of default value are printed too, so that scripts find them: 0, "", false, [], {}.
 *     Left out are only singular messages, members of oneofs and `optional` fields that are
 *     not set, and unknown fields;
 *   - text that is not UTF-8 gets U+FFFD where it is broken.
 *   Fields that come several times, in any order, mean what protobuf says: the last value, the
 *   merged message, all elements, the last entry of a map's key.
 *
 * Plain JSON, where it differs
 *   - written: names as in the .proto, every integer as a number, every member present; null for
 *     what is not set and for numbers that JSON does not have. The options of fields
 *     (tidemark/options.proto) make a default null, a number a time, a text a document, and a
 *     message its only value;
 *   - read: all of the above, and times as RFC 3339. Messages that are printed as their value are
 *     not read in that form: no request has one.
 *
 * Maps: protobuf-c knows map<K, V> x only as `repeated XEntry x`. A repeated message is taken for
 * a map when it is called as protoc calls such entries and has exactly key = 1 and value = 2.
 * The well-known types of google.protobuf have no special form here.
 *
 * Threads: pure. Limits: the output's maximum (the buffer's); nesting as in TIDE_JSON_NESTING_MAX
 * (from JSON) and TIDE_PROTOBUF_DEPTH_MAX (to JSON); TIDE_JSON_PROTO_MAP_MAX. Memory besides the
 * output: 12 bytes (from JSON) or 40 (to JSON) per entry of the maps that are open, 24 bytes per
 * field of the messages that are, the longest text with escapes, and messages that come in several
 * parts. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"

enum { TIDE_JSON_PROTO_MAP_MAX = 1000 * 1000 }; /* entries of a map, with those it is part of */

typedef struct tide_json_proto_options {
    bool is_unknown_ignored; /* from JSON: pass over unknown fields and unknown names of enums */
    bool has_proto_names;    /* to JSON: snake_case, as in the .proto */
} tide_json_proto_options;

/* Append the protobuf form of a JSON object. On a failure out is as before.
 * TIDE_E_INVALID: not JSON, or not this message; the words name line, column and field.
 * TIDE_E_LIMIT: out is full. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_json_to_proto(const ProtobufCMessageDescriptor *descriptor,
                                               tide_view json, tide_buffer *out, tide_error *err);

/* Append the JSON form of a message's bytes. On a failure out is as before.
 * TIDE_E_INVALID: not protobuf. TIDE_E_LIMIT: out is full, or messages nest too deeply.
 * TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_proto_to_json(const ProtobufCMessageDescriptor *descriptor,
                                               tide_view bytes, tide_buffer *out, tide_error *err);

/* The same with options. */
TIDE_MUST_CHECK tide_status tide_json_to_proto_with(const ProtobufCMessageDescriptor *descriptor,
                                                    tide_view json,
                                                    const tide_json_proto_options *options,
                                                    tide_buffer *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_proto_to_json_with(const ProtobufCMessageDescriptor *descriptor,
                                                    tide_view bytes,
                                                    const tide_json_proto_options *options,
                                                    tide_buffer *out, tide_error *err);
