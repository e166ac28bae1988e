/* http1_head.h - the one reader of HTTP/1.1 request heads: from bytes to method, target, framing
 * and fields.
 *
 *     METHOD SP target SP HTTP/1.x CR LF
 *     name ":" OWS value OWS CR LF ...
 *     CR LF
 *
 * Two programs that read one request differently are how requests are smuggled past a proxy. So a
 * head is either read completely, or refused with a code and the connection closed; the caller
 * parses no byte behind a refused head. In particular:
 *
 * - Line ends are CR LF. There are no folded lines, no spaces before a colon, no control
 *   characters.
 * - Framing (Content-Length, Transfer-Encoding) is derived from all fields, before any limit
 *   applies: what a limit cuts off cannot hide a length. Each may be given once, never both; the
 *   only coding is "chunked", in HTTP/1.1 alone.
 * - Host is parsed whole (authority.h). With an absolute target it must name the same authority,
 *   because a proxy routes by one of them and we check the other.
 *
 * Threads: pure. Limits: TIDE_HTTP1_TARGET_MAX, and the cost of the fields (headers.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/view.h>

#include "net/http/headers.h"

enum {
    TIDE_HTTP1_METHOD_MAX = 7,    /* bytes of "OPTIONS" */
    TIDE_HTTP1_TARGET_MAX = 8191, /* bytes */
};

typedef struct tide_http1_head {
    char method[TIDE_HTTP1_METHOD_MAX + 1];
    char *target; /* path and query, or "*"; an absolute target without its authority */
    bool is_http10;
    bool is_kept_alive;
    bool is_chunked;
    uint64_t body_len; /* of Content-Length; 0: none */
    bool expects_continue;
    bool expects_unknown; /* an expectation that we cannot meet */
    tide_headers fields;
} tide_http1_head;

enum { TIDE_HTTP1_NO_HTTP = 1 }; /* not a code: the first line is of no HTTP request */

/* Read a head that ends with its empty line, of fields that cost at most fields_max.
 * 0: *out is complete. 400, 414, 431, 503 (no memory): refused with that code; *wrong says why.
 * TIDE_HTTP1_NO_HTTP: the peer speaks something else (a bad preface of HTTP/2), and is owed no
 * answer. To be given back (done) in either case. */
int tide_http1_head_read(tide_http1_head *out, tide_view bytes, size_t fields_max,
                         const char **wrong);
void tide_http1_head_done(tide_http1_head *head);

/* A byte of a token: of a method, a field name. */
bool tide_http1_is_token(char c);
