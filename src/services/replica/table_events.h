/* table_events.h - events of one table, for clients that state a number per origin, or a time.
 *
 * Logs follow each other by origin and epoch, events of a log by number. A page ends at page_size events, those behind the first also at 4 MiB; its
 * token names the last event, so that the next page goes on behind it whatever came or went meanwhile. Clients that only count pages get
 * them by counting; what is collected meanwhile may shift those. A page that is too large is TIDE_E_LIMIT: ask for fewer.
 *
 * Before its first page the node looks at its file: what was captured by then is among the events.
 *
 * What is left out: events at or below what from_by_origin states for their origin (of any epoch, or of the one it names), and, for origins
 * that it does not name, those not later than from_timestamp. Of the requester's own origin nothing is left out beyond what it states.
 *
 * Threads: as the node. */
#pragma once

#include "remote/replica_messages.h"

enum {
    TIDE_TABLE_EVENTS_USUAL = 500,
    TIDE_TABLE_EVENTS_MAX = 5000,
    TIDE_TABLE_EVENTS_BYTES = 4 << 20,
};

/* The answer's fields, appended to out. TIDE_E_INVALID: a token, an id, a page. */
TIDE_MUST_CHECK tide_status tide_table_events(tide_node *node,
                                              const REPLICA(TableEventsRequest) * request,
                                              tide_buffer *out, tide_error *err);
