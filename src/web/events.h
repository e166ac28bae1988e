/* events.h - stream of server-sent events: topics that have changed (web.h).
 *
 * One thread waits for the sources and sends each page the topics that have changed, collected for
 * half a second. Without changes a comment line every 2 s is the heartbeat by which pages know that
 * the server lives: after 5 s of silence a page marks what it shows as stale (web/src/fresh.js). */
#pragma once

#include "web/web.h"

typedef struct tide_events tide_events;

extern const tide_route tide_events_routes[];

TIDE_MUST_CHECK tide_status tide_events_open(tide_events **out, tide_store *store,
                                             const tide_web_source *sources, int count,
                                             tide_error *err);
TIDE_MUST_CHECK tide_status tide_events_start(tide_events *events, tide_error *err);
void tide_events_end(tide_events *events); /* ends all streams; new ones are refused */
void tide_events_close(tide_events *events);
