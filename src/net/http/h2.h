/* h2.h - HTTP/2: gRPC, and the same methods and routes by plain requests.
 *
 * A connection is made by tide_h2_new (conn.h) and driven as conn.h says. Each stream is one call
 * (call_core.h): opened by its headers, fed by DATA, cancelled by RST_STREAM, answered by HEADERS,
 * DATA and trailers as the call gives them.
 *
 * Frames for streams that are over end the connection (STREAM_CLOSED), new ids that do not rise too
 * (PROTOCOL_ERROR); what may still be on its way is tolerated (h2_closed.h). A header block is
 * decoded to TIDE_H2_BLOCK_PART times header_list_len at most: a few bytes of HPACK can stand for
 * megabytes.
 *
 * Ends: a malformed peer gets GOAWAY with the reason; one that floods us ENHANCE_YOUR_CALM; a
 * silent one, and everybody when the server drains, NO_ERROR, and calls that run are finished
 * first.
 *
 * Limits: limits.h; windows below. */
#pragma once

#include "net/http/conn.h"

enum {
    TIDE_H2_BLOCK_PART = 4,
    TIDE_H2_STREAM_WINDOW = 1 << 20,     /* bytes that a peer may be ahead on one stream */
    TIDE_H2_CONNECTION_WINDOW = 4 << 20, /* ... and on all of a connection */
};
