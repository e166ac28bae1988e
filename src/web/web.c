#include "web/web.h"

#include <stdlib.h>

#include "web/events.h"
#include "web/files.h"

struct tide_web {
    tide_events *events;
    const char *about;
    const char *place;
};

static void reply_json(tide_call *call, const char *text)
{
    tide_call_add_header(call, "cache-control", "no-store");
    tide_call_http_reply(call, 200, "application/json", tide_view_of(text));
}

/* What the page shows: views of which nothing is served here are left out. */
static void serve_about(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    reply_json(call, ((const tide_web *)arg)->about);
}

/* Where it is on this machine's disk is for those who may read it. */
static void serve_place(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    reply_json(call, ((const tide_web *)arg)->place);
}

static const tide_route about_routes[] = {
    {.method = "GET", .path = "/about", .role = TIDE_ROLE_NONE, .run = serve_about},
    {.method = "GET", .path = "/place", .role = TIDE_ROLE_READ, .run = serve_place},
    {.method = NULL},
};

static tide_status start(void *arg, tide_error *err)
{
    return tide_events_start(((tide_web *)arg)->events, err);
}

static void leave(void *arg)
{
    tide_events_end(((tide_web *)arg)->events);
}

static tide_status join(tide_web *web, tide_listener *listener, tide_error *err)
{
    const tide_listener_component component = {.start = start, .leave = leave, .arg = web};
    TIDE_TRY(tide_listener_add(listener, NULL, tide_web_file_routes, web, err));
    TIDE_TRY(tide_listener_add(listener, NULL, about_routes, web, err));
    TIDE_TRY(tide_listener_add(listener, NULL, tide_events_routes, web->events, err));
    return tide_listener_join(listener, &component, err);
}

tide_status tide_web_open(tide_web **out, tide_listener *listener, const tide_web_options *options,
                          tide_error *err)
{
    tide_web *web = calloc(1, sizeof *web);
    if (!web)
        return tide_no_memory(err);
    web->about = options->about;
    web->place = options->place;
    tide_status status = tide_events_open(&web->events, options->store, options->sources,
                                          options->source_count, err);
    if (status >= TIDE_OK)
        status = join(web, listener, err);
    if (status < TIDE_OK) {
        tide_web_close(web);
        return status;
    }
    *out = web;
    return TIDE_OK;
}

void tide_web_close(tide_web *web)
{
    if (!web)
        return;
    tide_events_close(web->events);
    free(web);
}
