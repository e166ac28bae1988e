/* json.h - writing JSON (RFC 8259), piece by piece, into a buffer.
 *
 *     tide_json json;
 *     tide_json_init(&json, &buffer);
 *     tide_json_object_begin(&json);
 *     tide_json_key(&json, "name");
 *     tide_json_text(&json, name);
 *     tide_json_key(&json, "last");
 *     tide_json_i64(&json, 42);
 *     tide_json_object_end(&json);
 *     TIDE_TRY(tide_json_finish(&json));              {"name":"orders","last":42}
 *
 * Commas and colons are the writer's business. The first failure (buffer full, no memory) is
 * remembered, everything after it does nothing, and tide_json_finish reports it: one check for a
 * whole document. The buffer then holds a torso that must not be used.
 *
 * The output has no spaces and no line breaks. Text is escaped; broken UTF-8 becomes U+FFFD.
 * Numbers: int64 in full (readers in JavaScript lose digits above 2^53; that is theirs to know),
 * doubles in the fewest digits that read back as the same value; NaN and the infinities, which JSON
 * cannot say, as null.
 *
 * A value where a key belongs, a key in an array, an end that does not fit its begin: bugs, they
 * assert.
 *
 * Threads: a writer belongs to one thread at a time. Limits: TIDE_JSON_DEPTH_MAX levels. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

#include "base/buffer.h"

enum { TIDE_JSON_DEPTH_MAX = 32 };

typedef struct tide_json {
    tide_buffer *out;
    tide_status status;  /* the first failure, or TIDE_OK */
    int depth;           /* open objects and arrays */
    uint64_t is_object;  /* bit d: level d + 1 is an object */
    uint64_t has_member; /* bit d: level d has a member already (level 0: the document) */
    bool has_key;        /* a key stands there and wants its value */
} tide_json;

/* The buffer must outlive the writer; the document is appended to what it holds. */
void tide_json_init(tide_json *json, tide_buffer *out);

void tide_json_object_begin(tide_json *json);
void tide_json_object_end(tide_json *json);
void tide_json_array_begin(tide_json *json);
void tide_json_array_end(tide_json *json);

void tide_json_key(tide_json *json, const char *key);

void tide_json_text(tide_json *json, const char *text); /* NULL: null */
void tide_json_view(tide_json *json, tide_view text);
void tide_json_i64(tide_json *json, int64_t number);
void tide_json_double(tide_json *json, double number);
void tide_json_bool(tide_json *json, bool value);
void tide_json_null(tide_json *json);

/* Everything must be closed. The first failure of all calls, or TIDE_OK. */
TIDE_MUST_CHECK tide_status tide_json_finish(tide_json *json);

/* One quoted and escaped string, without a writer. On failure out is as before. */
TIDE_MUST_CHECK tide_status tide_json_append_string(tide_buffer *out, tide_view text);

/* One number as described above, without a writer. */
TIDE_MUST_CHECK tide_status tide_json_append_double(tide_buffer *out, double number);
