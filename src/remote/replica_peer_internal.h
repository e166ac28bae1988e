/* replica_peer_internal.h - a call to a node behind a network, as the files that speak to it see it
 * (replica_peer.h). */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "remote/replica_peer.h"

/* Ask a method of tidemark.replica.v1.ReplicaService. The answer is decoded into memory of the
 * remote: until the next question. A failure names the peer. */
TIDE_MUST_CHECK tide_status tide_remote_call(tide_remote *remote, const char *method,
                                             const tide_buffer *request,
                                             const ProtobufCMessageDescriptor *answers,
                                             ProtobufCMessage **response, tide_error *err);
