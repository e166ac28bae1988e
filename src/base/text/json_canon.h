/* json_canon.h - JSON that others wrote: is it valid, and which documents are the same?
 *
 * tide_json_check says whether a text is one valid JSON value (json_scan.h says what that means).
 * It reads the text once and allocates nothing.
 *
 * tide_json_canonical writes the one form that all texts of a value share, in the spirit of RFC
 * 8785, so that documents can be compared and hashed as bytes:
 *
 *   - no white space;
 *   - the members of an object in the order of their keys, compared by UTF-16 code units, as RFC
 *     8785 (and JavaScript) has it: that is the order of code points, except that U+E000..U+FFFF
 *     come behind everything above U+FFFF;
 *   - strings with as few escapes as possible: \" \\ \b \t \n \f \r, other control characters as
 *     \u00xx with small letters, everything else as it is;
 *   - whole numbers from -2^63 to 2^64 - 1 as integers, exactly, however they were written (1e3 is
 *     1000, -0 is 0). RFC 8785 would round those above 2^53, and two ids would become the same;
 *   - every other number as the nearest double in the fewest digits (tide_json_append_double): so
 *     two numbers that no double tells apart are the same;
 *   - an object that has a key twice has no canonical form and is refused: its readers disagree
 *     about what it says.
 *
 * The form is what request hashes are made of: it must never change.
 *
 * Memory: the result (at most 5 times the text: 1e19), 16 bytes per member of the objects that are
 * open, and while the members of an object are put in order a copy of it.
 *
 * Threads: pure. Limits: TIDE_JSON_TEXT_MAX, TIDE_JSON_NESTING_MAX. */
#pragma once

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/text/json_scan.h"

enum {
    TIDE_JSON_TEXT_MAX = 64 << 20,       /* bytes of a text to canonicalise */
    TIDE_JSON_CANONICAL_MAX = 320 << 20, /* a buffer of this size holds every canonical form */
    TIDE_JSON_REQUEST_HASH_SIZE = 72,    /* "sha256:", 64 digits, the terminator */
};

/* TIDE_E_INVALID: not JSON; the words say where and why. */
TIDE_MUST_CHECK tide_status tide_json_check(tide_view text, tide_error *err);

/* Append the canonical form of text to out. TIDE_E_INVALID: not JSON, or a key appears twice in an
 * object. TIDE_E_LIMIT: the text is longer than TIDE_JSON_TEXT_MAX, or the form does not fit.
 * TIDE_E_NOMEM. On failure out is as before. */
TIDE_MUST_CHECK tide_status tide_json_canonical(tide_view text, tide_buffer *out, tide_error *err);

/* "sha256:<hex>" of a request: of its canonical form if it has one, otherwise of its bytes.
 * TIDE_E_NOMEM, TIDE_E_FAILED (no SHA-256): out is then empty. */
TIDE_MUST_CHECK tide_status tide_json_request_hash(char out[TIDE_JSON_REQUEST_HASH_SIZE],
                                                   tide_view request);

/* The order of two keys as they stand in a canonical text, with their quotes: below, at or above
 * 0. */
int tide_json_key_compare(tide_view a, tide_view b);

/* Take one character (a code point) of a canonical string from *rest, which stands behind the
 * opening quote and not at the closing one. */
uint32_t tide_json_string_next(tide_view *rest);

/* Append the content of a string or key as the scanner gives it (with its quotes, valid): escapes
 * are resolved. TIDE_E_LIMIT, TIDE_E_NOMEM. The other one writes to memory of the caller, which has
 * room for quoted.len - 2 bytes, and returns how many they are. */
TIDE_MUST_CHECK tide_status tide_json_unescape(tide_buffer *out, tide_view quoted);
size_t tide_json_unescape_to(char *out, tide_view quoted);
