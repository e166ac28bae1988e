/* web.h - the dashboard: its files, and a stream of events that names what has changed.
 *
 *     GET /                     index.html; /dashboard.js, .css, .svg (web/, bundled, embedded)
 *     GET /about                {"version", "views"}: what is served here
 *     GET /place                {"store"}: the store's file, for the commands that the page names
 *     GET /events               server-sent events: `data: TOPIC` after a change, at most 2/s
 *
 * The page has no data of its own: it calls the same services as other clients, by POST. An event
 * is a hint to call again; views also call at intervals. The files need no credentials, place and
 * events need the role read. Nothing is loaded from elsewhere: the content security policy allows
 * this origin only, no inline script, no frame.
 *
 * Threads: one of its own watches the sources and holds the calls.
 * Limits: TIDE_WEB_LISTENERS pages receive events; further ones are refused and poll. The stream of
 * a page that does not read is closed. */
#pragma once

#include "runtime/listener.h"

enum {
    TIDE_WEB_LISTENERS = 256,
    TIDE_WEB_SOURCES_MAX = 8,
};

/* What a topic's news come from: a topic of the store's (watch.h), or a number that rises. */
typedef struct tide_web_source {
    const char *topic;       /* the name that pages receive */
    const char *store_topic; /* NULL: the number */
    uint64_t (*version)(void *arg);
    void *arg;
} tide_web_source;

typedef struct tide_web tide_web;

typedef struct tide_web_options {
    tide_store *store; /* of the topics; must outlive it */
    const tide_web_source *sources;
    int source_count;
    const char *about; /* JSON: {"version": "0.1.0", "views": ["fleet", ...]}; must outlive it */
    const char *place; /* JSON: {"store": "/var/lib/..."}; must outlive it */
} tide_web_options;

/* Add it to a listener that is not serving yet. */
TIDE_MUST_CHECK tide_status tide_web_open(tide_web **out, tide_listener *listener,
                                          const tide_web_options *options, tide_error *err);
/* After tide_listener_stop, before tide_listener_close. Takes NULL. */
void tide_web_close(tide_web *web);
