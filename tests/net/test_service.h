/* test_service.h - what the tests of the network layer call.
 *
 * grpc.testing.TestService as the interoperability tests of gRPC want it, and plain routes:
 *
 *     GET  /healthz            nobody is asked for a token
 *     GET  /numbers            "name value" of every counter, and held_len, answers_len
 *     POST /echo               the body, with its content type
 *     GET  /stream?N           N pieces of 64 KiB, as fast as the reader takes them
 *     GET  /page?N             N bytes, or as many as there is room for
 *     POST /slow               answered by a thread of the pool after `x-wait-ms` milliseconds
 *     GET  /never              never answered
 *     GET  /files/...          a prefix: the path
 *     POST /park               kept, to be answered by test_service_answer_parked, from any thread
 *
 * The methods and routes other than /healthz and /numbers want the role READ.
 *
 * Threads: as the methods of any service. */
#pragma once

#include <stdatomic.h>

#include "net/call/route.h"
#include "net/server/server.h"

typedef struct test_service {
    const tide_net_counters *counters; /* for /numbers; NULL: none yet */
    const tide_server *server;
    atomic_int running;   /* calls of /slow that have begun */
    atomic_int cancelled; /* calls whose cancellation was told */
    _Atomic(tide_call *) parked;
    atomic_int streamed; /* pieces given to calls of StreamingOutputCall and /stream */
} test_service;

/* The routes hand the service to the methods. */
tide_status test_service_add(test_service *service, tide_routes *routes, tide_error *err);

/* Answer the parked call, if there is one, and let go of it. */
void test_service_answer_parked(test_service *service);

/* A hook: "reader", "writer" and "admin" are tokens; a certificate's name is a writer. */
tide_status test_service_authorise(void *arg, const tide_credentials *given, tide_caller *out,
                                   tide_error *err);
