/* json_format.h - the options of tidemark/options.proto: how messages and fields look in plain
 * JSON.
 *
 * protobuf-c's descriptors have no options. scripts/build/json-formats reads them from the compiled
 * .proto files into a table; messages of files without plain_json are not in it.
 *
 * Threads: constant. */
#pragma once

#include <stddef.h>

/* tidemark.Json */
typedef enum tide_json_format {
    TIDE_JSON_AS_IS = 0,
    TIDE_JSON_NULLABLE = 1,
    TIDE_JSON_TIME = 2,
    TIDE_JSON_TIME_MS = 3,
    TIDE_JSON_DOCUMENT = 4,
    TIDE_JSON_TEXT_DOCUMENT = 5,
    TIDE_JSON_ALWAYS_NULL = 6,
    TIDE_JSON_NULL_IF_ABSENT = 7,
} tide_json_format;

typedef struct tide_json_message {
    const char *name;
    /* [0]: 1 if the message is printed as the value of its field that is set (json_value).
     * [1 + i]: the tide_json_format of the field with the i-th lowest number. */
    const char *formats;
} tide_json_message;

/* Generated, sorted by name. */
extern const size_t tide_json_messages_count;
extern const tide_json_message tide_json_messages[];

/* The formats of a message by its full name. NULL: it has protobuf's own JSON mapping. */
const char *tide_json_formats_find(const char *message);
