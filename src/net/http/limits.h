/* limits.h - every limit of the network server, once.
 *
 * A row is a field of tide_net_limits, an option of the daemons, a line of the documentation and a
 * test. Sizes are bytes, times microseconds. What is above a limit is refused with a code that says
 * so, and counted (counters.h).
 *
 * Threads: constant data; a tide_net_limits is copied by whoever uses it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

typedef enum tide_net_unit {
    TIDE_NET_BYTES,
    TIDE_NET_COUNT,
    TIDE_NET_PER_SECOND,
    TIDE_NET_MICROSECONDS,
} tide_net_unit;

#define TIDE_NET_SECOND INT64_C(1000000)
#define TIDE_NET_MIB INT64_C(1048576)

/* X(name, default, minimum, maximum, unit, help) */
#define TIDE_NET_LIMIT_TABLE(X)                                                                    \
    X(message_len, 64 * TIDE_NET_MIB, 1024, 1024 * TIDE_NET_MIB, BYTES,                            \
      "one request or message, as sent and after decompression")                                   \
    X(budget_len, 112 * TIDE_NET_MIB, 65536, INT64_C(1) << 40, BYTES,                              \
      "all request bytes that are held at one time, of all connections together")                  \
    X(peer_budget_len, 96 * TIDE_NET_MIB, 65536, INT64_C(1) << 40, BYTES,                          \
      "the share of budget_len that one address may hold")                                         \
    X(answer_len, 96 * TIDE_NET_MIB, 65536, INT64_C(1) << 40, BYTES,                               \
      "all answers that are made or wait for their readers, of all connections together")          \
    X(peer_answer_len, 48 * TIDE_NET_MIB, 65536, INT64_C(1) << 40, BYTES,                          \
      "the share of answer_len that one address may hold")                                         \
    X(queue_len, TIDE_NET_MIB, 4096, 1024 * TIDE_NET_MIB, BYTES,                                   \
      "answers queued for one slow reader before its call is held back")                           \
    X(header_list_len, 16384, 1024, 65536, BYTES, "the header fields of one request")              \
    X(streams, 128, 1, 65536, COUNT, "unfinished calls of one HTTP/2 connection")                  \
    X(connections, 16384, 1, 1000000, COUNT, "open connections")                                   \
    X(peer_connections, 4096, 1, 1000000, COUNT, "open connections of one address")                \
    X(reset_burst, 1000, 1, 1000000, COUNT, "streams that a peer may reset at once")               \
    X(reset_rate, 33, 1, 1000000, PER_SECOND, "streams that a peer may reset for ever")            \
    X(continuations, 8, 1, 1000, COUNT, "CONTINUATION frames of one header block")                 \
    X(control_burst, 1000, 16, 1000000, COUNT,                                                     \
      "PING, SETTINGS, PRIORITY and empty DATA frames of a peer at once")                          \
    X(control_rate, 100, 1, 1000000, PER_SECOND, "the same frames for ever")                       \
    X(header_us, 10 * TIDE_NET_SECOND, 1000, 3600 * TIDE_NET_SECOND, MICROSECONDS,                 \
      "from the first byte of a request (or the connection) to the end of its headers")            \
    X(body_us, 60 * TIDE_NET_SECOND, 1000, 3600 * TIDE_NET_SECOND, MICROSECONDS,                   \
      "from a request's headers to the end of its body")                                           \
    X(write_us, 30 * TIDE_NET_SECOND, 1000, 3600 * TIDE_NET_SECOND, MICROSECONDS,                  \
      "for a reader to take the next 64 KiB of what waits for it")                                 \
    X(write_rate, 65536, 1, 1024 * TIDE_NET_MIB, PER_SECOND,                                       \
      "bytes that a reader must take on average, once it has had write_us")                        \
    X(idle_us, 300 * TIDE_NET_SECOND, 1000, 86400 * TIDE_NET_SECOND, MICROSECONDS,                 \
      "a connection without a call is kept open")                                                  \
    X(spare_us, 5 * TIDE_NET_SECOND, 0, 86400 * TIDE_NET_SECOND, MICROSECONDS,                     \
      "a connection without a call is not closed for a new one that finds no place")               \
    X(drain_us, 10 * TIDE_NET_SECOND, 0, 3600 * TIDE_NET_SECOND, MICROSECONDS,                     \
      "running calls may take to end when the server stops")                                       \
    X(loops, 2, 1, 64, COUNT, "threads that move bytes")                                           \
    X(workers, 8, 1, 1024, COUNT, "threads for calls that wait for a disk")                        \
    X(worker_queue, 1024, 1, 1000000, COUNT, "calls that wait for such a thread")                  \
    X(query_us, 30 * TIDE_NET_SECOND, 1000, 86400 * TIDE_NET_SECOND, MICROSECONDS,                 \
      "one SQL query of a caller; a request for more is refused")                                  \
    X(query_memory_len, 512 * TIDE_NET_MIB, 16 * TIDE_NET_MIB, INT64_C(1) << 40, BYTES,            \
      "memory of one such query")                                                                  \
    X(query_processes, 2, 1, 64, COUNT, "such queries that run at one time, each in a process")    \
    X(query_queue, 64, 1, 100000, COUNT, "such queries that wait; one caller may have half")       \
    X(compress_min_len, 1024, 0, 1024 * TIDE_NET_MIB, BYTES, "shorter answers are never compressed")

typedef struct tide_net_limits {
#define TIDE_NET_LIMIT_FIELD(name, ...) int64_t name;
    TIDE_NET_LIMIT_TABLE(TIDE_NET_LIMIT_FIELD)
#undef TIDE_NET_LIMIT_FIELD
} tide_net_limits;

typedef struct tide_net_limit_row {
    const char *name;
    int64_t standard;
    int64_t minimum;
    int64_t maximum;
    tide_net_unit unit;
    const char *help;
    size_t offset; /* of the int64_t in tide_net_limits */
} tide_net_limit_row;

/* All rows; *count is how many. */
const tide_net_limit_row *tide_net_limit_rows(size_t *count);

void tide_net_limits_init(tide_net_limits *limits);

/* How long a reader may have kept us waiting in all, when it has taken moved_len bytes and shares
 * its connection with crowd readers, itself included: write_us, and what the bytes take at
 * write_rate. */
int64_t tide_net_limits_patience_us(const tide_net_limits *limits, uint64_t moved_len,
                                    size_t crowd);

/* TIDE_E_INVALID: a value outside its row's range, which the text names. */
TIDE_MUST_CHECK tide_status tide_net_limits_check(const tide_net_limits *limits, tide_error *err);
