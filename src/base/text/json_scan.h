/* json_scan.h - JSON text token by token: what is valid JSON is decided here and nowhere else.
 *
 *     tide_json_scan scan;
 *     tide_json_scan_init(&scan, text);
 *     tide_json_token token;
 *     do
 *         TIDE_TRY(tide_json_scan_next(&scan, &token, err));
 *     while (token.kind != TIDE_JSON_END);
 *
 * Valid is RFC 8259, read strictly: one value with nothing but white space around it; valid UTF-8
 * (no overlong forms, no surrogates, no byte order mark); no control characters in strings, and
 * every \uD800..\uDBFF followed by its \uDC00..\uDFFF. The escape \u0000 is allowed: it stays an
 * escape, no NUL enters the text. Beyond the grammar two limits: objects and arrays nest at most
 * TIDE_JSON_NESTING_MAX deep, and a number must not be too large for a double (1e400); one too
 * small for it is 0. Keys that appear twice are not seen here: that needs memory (json_canon.h).
 *
 * A failure is TIDE_E_INVALID and names line and column, both from 1, columns in characters.
 *
 * Nothing is allocated, nothing recurses: the scanner costs the same for every document of a
 * length. Tokens are borrowed from the text.
 *
 * Threads: a scanner belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

enum { TIDE_JSON_NESTING_MAX = 100 };

typedef enum tide_json_kind {
    TIDE_JSON_OBJECT_BEGIN,
    TIDE_JSON_OBJECT_END,
    TIDE_JSON_ARRAY_BEGIN,
    TIDE_JSON_ARRAY_END,
    TIDE_JSON_KEY,     /* with its quotes; the colon is consumed with it */
    TIDE_JSON_STRING,  /* with its quotes */
    TIDE_JSON_NUMBER,  /* as written */
    TIDE_JSON_LITERAL, /* true, false, null */
    TIDE_JSON_END,     /* of the text; only white space was left */
} tide_json_kind;

typedef struct tide_json_token {
    tide_json_kind kind;
    tide_view text;
    size_t offset;   /* of text, in the whole */
    bool has_escape; /* a key or string: there is a backslash in it */
    bool is_integer; /* a number: written without point and exponent */
} tide_json_token;

typedef struct tide_json_scan {
    tide_view text;
    size_t at;
    int depth;
    uint64_t is_object[2]; /* bit d: the level d + 1 is an object */
    int expects;           /* what may come next; json_scan.c */
} tide_json_scan;

/* The text must outlive the scanner. */
void tide_json_scan_init(tide_json_scan *scan, tide_view text);

/* After TIDE_JSON_END or a failure it must not be called again. */
TIDE_MUST_CHECK tide_status tide_json_scan_next(tide_json_scan *scan, tide_json_token *token,
                                                tide_error *err);

/* Fail with TIDE_E_INVALID and "line 3, column 14: what". */
TIDE_MUST_CHECK tide_status tide_json_scan_fail(tide_view text, size_t offset, const char *what,
                                                tide_error *err);

/* The double nearest to a number's text, whatever the locale. False: too large for a double. */
TIDE_MUST_CHECK bool tide_json_scan_double(tide_view number, double *out);
