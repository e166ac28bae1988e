/* snapshot_service.h - snapshots of a node that serves: made in time, kept, listed, read (replica/snapshot.h).
 *
 * They lie in one directory, the newest TIDE_SNAPSHOT_KEPT. One is made at a time, by a step with a thread of its own (runtime/ticker.h):
 *
 *     every so often       when the newest is older than that (`run --snapshot-every`)
 *     at once              when events were collected and none of the snapshots reaches up to the floor: otherwise a new peer could not begin
 *     on demand            when a peer asks, and there is none that serves
 *
 * Who reads one names it by its id, never by a path; the file is found through the node's list.
 *
 * Threads: any. */
#pragma once

#include "base/log.h"
#include "remote/replica_messages.h"
#include "replica/snapshot.h"
#include "runtime/ticker.h"

extern const tide_step tide_step_replica_snapshot;

typedef struct tide_snapshot_service tide_snapshot_service;

typedef struct tide_snapshot_service_options {
    tide_node *node;  /* must outlive it */
    const char *dir;  /* NULL: beside the database */
    int64_t every_us; /* 0: only when one is needed */
    tide_log *log;    /* NULL: none */
    tide_ticker *ticker;
} tide_snapshot_service_options;

TIDE_MUST_CHECK tide_status tide_snapshot_service_open(tide_snapshot_service **out,
                                                       const tide_snapshot_service_options *options,
                                                       tide_error *err);
/* End what is under way; from any thread. */
void tide_snapshot_service_stop(tide_snapshot_service *service);
void tide_snapshot_service_close(tide_snapshot_service *service); /* takes NULL */

/* Bind the step. is_timed: also without a request, when one is due or needed. */
TIDE_MUST_CHECK tide_status tide_snapshot_service_bind(tide_snapshot_service *service,
                                                       const char *instance, bool is_timed,
                                                       tide_error *err);

/* ---- methods ---- */

TIDE_MUST_CHECK tide_status tide_snapshot_serve_list(tide_snapshot_service *service,
                                                     const REPLICA(ListSnapshotsRequest) * request,
                                                     tide_buffer *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_snapshot_serve_read(tide_snapshot_service *service,
                                                     const REPLICA(ReadSnapshotRequest) * request,
                                                     tide_buffer *out, tide_error *err);
