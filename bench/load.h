/* load.h - clients that keep a server busy: several connections, much under way, answers counted.
 *
 * A connection sends requests of `batch` records until `window` records are under way, and goes on as answers come. A record counts when the
 * server has answered for it, which all of the servers do once it is on disk. What is sent is the same everywhere: the spans of a
 * load_spans. One thread serves all connections with poll, so that a machine of two cores has one left for the server.
 *
 *     load_connection connections[8] = {{.protocol = &load_redis, .spans = &spans, .batch = 1000, .window = 4000}, ...};
 *     load_open(connections, 8, port);
 *     bench_add(&rate, load_run(connections, 8, seconds));
 *     load_close(connections, 8);
 *
 * Whatever fails ends the program.
 * Threads: none. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"

enum {
    LOAD_SPANS = 1000, /* at most in one request */
    LOAD_CONNECTIONS_MAX = 64,
};

/* ---- what is sent ---- */

/* Spans as OTLP encodes them, about 200 bytes each, with ids that do not repeat themselves. */
typedef struct load_spans {
    tide_buffer bytes;
    tide_view spans[LOAD_SPANS];
} load_spans;

void load_spans_init(load_spans *spans);
void load_spans_done(load_spans *spans);
/* Append an ExportTraceServiceRequest with the first count of them. */
void load_spans_request(const load_spans *spans, int count, tide_buffer *out);

/* ---- who sends it ---- */

typedef struct load_connection load_connection;

typedef struct load_protocol {
    void (*begin)(load_connection *c); /* connected, and reads and writes still wait */
    void (*clear)(load_connection *c); /* forget what is stored; NULL: nothing to do. Waits */
    void (*fill)(load_connection *c);  /* into out, while a batch fits below window */
    void (*take)(load_connection *c, const char *bytes, size_t len);
    void (*end)(load_connection *c);
} load_protocol;

struct load_connection {
    const load_protocol *protocol;
    const load_spans *spans;
    int batch;
    int64_t window;
    /* the loop's */
    int fd;
    tide_buffer out;
    size_t sent_len; /* of out */
    int64_t in_flight;
    int64_t acked;   /* since it was opened */
    int64_t refused; /* "come again later" */
    void *state;
};

extern const load_protocol load_grpc;
extern const load_protocol load_redis;
extern const load_protocol load_nats;       /* one message per publish */
extern const load_protocol load_nats_batch; /* atomic batches of `batch` */

void load_open(load_connection *connections, int count, int port);
/* Records per second answered until the time was up. Returns when everything under way has been answered. */
double load_run(load_connection *connections, int count, double seconds);
void load_close(load_connection *connections, int count);

/* For protocols: send all of it and wait for input; both wait, and end the program when the connection ends. */
void load_send(load_connection *c, tide_view bytes);
size_t load_receive(load_connection *c, char *bytes, size_t size);
void load_must(tide_status status);
