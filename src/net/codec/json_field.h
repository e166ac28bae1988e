/* json_field.h - what JSON calls the fields of a message, and which of them are maps.
 *
 * protobuf-c's descriptors have the names of the .proto alone; the JSON name is made from it:
 * underscores go, and the letter behind one becomes upper case (max_records, maxRecords).
 *
 * Threads: pure. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

#include "base/buffer.h"

/* The field of this name, in either form. Looks at *hint first (an index, 0 to begin with) and
 * leaves there the index behind the one found: fields mostly come in order. NULL: none. */
const ProtobufCFieldDescriptor *tide_json_field_find(const ProtobufCMessageDescriptor *descriptor,
                                                     tide_view name, unsigned *hint);

/* The known name that is most like this one, for "did you mean": a text of at most size bytes, ""
 * when none is like it. is_plain: in snake_case, otherwise in lowerCamelCase. */
void tide_json_field_suggest(const ProtobufCMessageDescriptor *descriptor, tide_view name,
                             bool is_plain, char *out, size_t size);
/* The same for the names of an enum's values. */
void tide_json_enum_suggest(const ProtobufCEnumDescriptor *descriptor, tide_view name, char *out,
                            size_t size);

/* Append the JSON name, without quotes. It needs no escapes. */
TIDE_MUST_CHECK tide_status tide_json_field_append_name(tide_buffer *out,
                                                        const ProtobufCFieldDescriptor *field);

/* Is this field of the message a map? Its descriptor is then that of the entries: fields[0] is the
 * key, fields[1] the value. */
bool tide_json_field_is_map(const ProtobufCMessageDescriptor *descriptor,
                            const ProtobufCFieldDescriptor *field);

/* Do both belong to the same oneof? */
static inline bool tide_json_field_is_rival(const ProtobufCFieldDescriptor *a,
                                            const ProtobufCFieldDescriptor *b)
{
    const uint32_t flag = PROTOBUF_C_FIELD_FLAG_ONEOF;
    return a != b && (a->flags & b->flags & flag) != 0 &&
           a->quantifier_offset == b->quantifier_offset;
}
