/* headers.h - the header fields of a request or an answer, in order.
 *
 * Names are lower case. A field costs its name, its value and 32 bytes, as HTTP/2 counts a header
 * list; headers that would cost more than their maximum take no more fields
 * (TIDE_E_LIMIT). Values of names that end in "-bin" are bytes: decoded when they came from a peer.
 *
 * Threads: a list belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

typedef struct tide_header_field {
    char *name; /* one allocation holds both */
    char *value;
    size_t name_len;
    size_t value_len;
} tide_header_field;

typedef struct tide_headers {
    tide_header_field *fields;
    size_t count;
    size_t cost;
    size_t max;
} tide_headers;

enum { TIDE_HEADERS_FIELD_COST = 32 };

void tide_headers_init(tide_headers *headers, size_t max);
void tide_headers_done(tide_headers *headers);

/* Copies; the name is made lower case. TIDE_E_LIMIT, TIDE_E_NOMEM: the headers are as before. */
TIDE_MUST_CHECK tide_status tide_headers_add(tide_headers *headers, tide_view name,
                                             tide_view value);

/* Take out every field of this name. */
void tide_headers_drop(tide_headers *headers, const char *name);

/* The first of this name; NULL: none. */
const tide_header_field *tide_headers_find(const tide_headers *headers, const char *name);

/* Its value as text, borrowed; NULL: none. */
const char *tide_headers_text(const tide_headers *headers, const char *name);

/* How many have this name. */
size_t tide_headers_count(const tide_headers *headers, const char *name);

/* Does the name end in "-bin"? */
bool tide_headers_is_binary(tide_view name);

/* A comma-separated list of tokens, as of Accept-Encoding, names this one with a weight above 0;
 * case is ignored. */
bool tide_headers_lists(const char *list, const char *token);
