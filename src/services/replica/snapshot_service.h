/* snapshot_service.h - snapshots of a node that serves: made in time, kept, listed, read (replica/snapshot.h).
 *
 * They lie in one directory, the newest TIDE_SNAPSHOT_KEPT. One is made at a time, by a thread of its own:
 *
 *     every so often       when the newest is older than that (`run --snapshot-every`)
 *     at once              when events were collected and none of the snapshots reaches up to the floor: otherwise a new peer could not begin
 *     on demand            when a peer asks, and there is none that serves
 *
 * Who reads one names it by its id, never by a path; the file is found through the node's list.
 *
 * Threads: any. */
#ifndef TIDE_SERVICES_REPLICA_SNAPSHOT_SERVICE_H
#define TIDE_SERVICES_REPLICA_SNAPSHOT_SERVICE_H

#include "base/log.h"
#include "remote/replica_messages.h"
#include "replica/snapshot.h"

typedef struct tide_snapshot_service tide_snapshot_service;

typedef struct tide_snapshot_service_options {
    tide_node *node;  /* must outlive it */
    const char *dir;  /* NULL: beside the database */
    int64_t every_us; /* 0: only when one is needed */
    tide_log *log;    /* NULL: nobody is told */
} tide_snapshot_service_options;

TIDE_MUST_CHECK tide_status tide_snapshot_service_open(tide_snapshot_service **out,
                                                       const tide_snapshot_service_options *options,
                                                       tide_error *err);
/* End what is under way; from any thread. */
void tide_snapshot_service_stop(tide_snapshot_service *service);
void tide_snapshot_service_close(tide_snapshot_service *service); /* takes NULL */

/* Look whether one is due, and begin it. Now and then. */
void tide_snapshot_service_step(tide_snapshot_service *service);

/* ---- methods ---- */

TIDE_MUST_CHECK tide_status tide_snapshot_serve_list(tide_snapshot_service *service,
                                                     const REPLICA(ListSnapshotsRequest) * request,
                                                     tide_buffer *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_snapshot_serve_read(tide_snapshot_service *service,
                                                     const REPLICA(ReadSnapshotRequest) * request,
                                                     tide_buffer *out, tide_error *err);

#endif
