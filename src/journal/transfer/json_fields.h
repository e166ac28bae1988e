/* json_fields.h - the members of a JSON object, one after the other, without a tree.
 *
 *     tide_json_fields fields;
 *     TIDE_TRY(tide_json_fields_begin(&fields, text, err));
 *     while ((status = tide_json_fields_next(&fields, &field, err)) == TIDE_OK)
 *         if (tide_json_field_is(&field, "name")) ...
 *
 * The whole text is checked on the way (json_scan.h says what is valid); a value that is an object or an array is handed out
 * as its text. Arrays are walked the same way; their elements have no key.
 *
 * Threads: pure. */
#pragma once

#include "base/arena.h"
#include "base/text/json_scan.h"

typedef struct tide_json_fields {
    tide_json_scan scan;
    bool is_object;
} tide_json_fields;

typedef struct tide_json_field {
    tide_view key;       /* with its quotes; empty in an array */
    tide_json_kind kind; /* of the value's first token */
    tide_view value;     /* as it stands in the text */
} tide_json_field;

/* The text is one object or one array. TIDE_E_INVALID: it is neither, or no JSON. */
TIDE_MUST_CHECK tide_status tide_json_fields_begin(tide_json_fields *fields, tide_view text,
                                                   tide_error *err);

/* TIDE_NONE: that was the last; nothing but white space follows. TIDE_E_INVALID: no JSON. */
TIDE_MUST_CHECK tide_status tide_json_fields_next(tide_json_fields *fields, tide_json_field *field,
                                                  tide_error *err);

/* A key that is written with escapes is no key of ours. */
bool tide_json_field_is(const tide_json_field *field, const char *key);
bool tide_json_field_is_null(const tide_json_field *field);

/* The value as text, decoded, valid UTF-8 without NUL. TIDE_E_INVALID: another kind, or a NUL in it. */
TIDE_MUST_CHECK tide_status tide_json_field_text(const tide_json_field *field, tide_arena *arena,
                                                 tide_view *out, tide_error *err);

/* The same into memory of the caller, which has room for the value as it stands in the text. */
TIDE_MUST_CHECK tide_status tide_json_field_decode(const tide_json_field *field, char *out,
                                                   tide_view *text, tide_error *err);

/* The value as a whole number. TIDE_E_INVALID: another kind, or not within 64 bits. */
TIDE_MUST_CHECK tide_status tide_json_field_i64(const tide_json_field *field, int64_t *out,
                                                tide_error *err);

TIDE_MUST_CHECK tide_status tide_json_field_bool(const tide_json_field *field, bool *out,
                                                 tide_error *err);
