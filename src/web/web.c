#include "web/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "web/events.h"

/* ---- files, as they are embedded (web/, bundled by web/build.sh) ---- */

extern const unsigned char tide_web_page[];
extern const unsigned long tide_web_page_len;
extern const unsigned char tide_web_script[];
extern const unsigned long tide_web_script_len;
extern const unsigned char tide_web_style[];
extern const unsigned long tide_web_style_len;
extern const unsigned char tide_web_icon[];
extern const unsigned long tide_web_icon_len;

typedef struct embedded {
    const char *path;
    const char *type;
    const unsigned char *bytes;
    const unsigned long *len;
} embedded;

static const embedded files[] = {
    {"/", "text/html; charset=utf-8", tide_web_page, &tide_web_page_len},
    {"/dashboard.js", "text/javascript; charset=utf-8", tide_web_script, &tide_web_script_len},
    {"/dashboard.css", "text/css; charset=utf-8", tide_web_style, &tide_web_style_len},
    {"/dashboard.svg", "image/svg+xml", tide_web_icon, &tide_web_icon_len},
};

/* This origin and nothing else. Styles of elements are set by script, which this allows; style
 * attributes and inline styles it does not. */
#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "              \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static const embedded *find_file(const char *path)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}

static void make_tag(char out[TIDE_DIGEST128_TEXT_SIZE + 2], tide_view contents)
{
    const tide_digest128 digest = tide_digest128_of(contents);
    char text[TIDE_DIGEST128_TEXT_SIZE];
    tide_hex_encode(text, digest.bytes, sizeof digest.bytes);
    (void)snprintf(out, TIDE_DIGEST128_TEXT_SIZE + 2, "\"%s\"", text);
}

/* The tag is the contents' digest: a file that a browser has kept is used again only while it is
 * this one. */
static void serve_file(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    (void)arg;
    const embedded *file = find_file(tide_call_path(call));
    if (!file) {
        tide_call_http_respond(call, 404, "text/plain; charset=utf-8", tide_view_of("not here\n"));
        return;
    }
    char tag[TIDE_DIGEST128_TEXT_SIZE + 2];
    const char *known = tide_call_metadata(call, "if-none-match");
    const tide_view contents = {.ptr = (const char *)file->bytes, .len = *file->len};
    make_tag(tag, contents);
    tide_call_add_header(call, "etag", tag);
    tide_call_add_header(call, "cache-control", "no-cache");
    tide_call_add_header(call, "content-security-policy", POLICY);
    tide_call_add_header(call, "x-content-type-options", "nosniff");
    tide_call_add_header(call, "referrer-policy", "no-referrer");
    tide_call_add_header(call, "cross-origin-opener-policy", "same-origin");
    if (known && strcmp(known, tag) == 0)
        tide_call_http_respond(call, 304, NULL, (tide_view){.len = 0});
    else
        tide_call_http_respond(call, 200, file->type, contents);
}

static const tide_route file_routes[] = {
    {.method = "GET", .path = "/", .role = TIDE_ROLE_NONE, .run = serve_file},
    {.method = "GET", .path = "/dashboard.js", .role = TIDE_ROLE_NONE, .run = serve_file},
    {.method = "GET", .path = "/dashboard.css", .role = TIDE_ROLE_NONE, .run = serve_file},
    {.method = "GET", .path = "/dashboard.svg", .role = TIDE_ROLE_NONE, .run = serve_file},
    {.method = NULL},
};

struct tide_web {
    tide_events *events;
    const char *about;
    const char *place;
};

static void respond_json(tide_call *call, const char *text)
{
    tide_call_add_header(call, "cache-control", "no-store");
    tide_call_http_respond(call, 200, "application/json", tide_view_of(text));
}

/* What the page shows: views of which nothing is served here are left out. */
static void serve_about(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    respond_json(call, ((const tide_web *)arg)->about);
}

/* The path on this machine's disk needs the role read. */
static void serve_place(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    respond_json(call, ((const tide_web *)arg)->place);
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
    TIDE_TRY(tide_listener_add(listener, NULL, file_routes, web, err));
    TIDE_TRY(tide_listener_add(listener, NULL, about_routes, web, err));
    TIDE_TRY(tide_listener_add(listener, NULL, tide_events_routes, web->events, err));
    return tide_listener_join(listener, &component, err);
}

tide_status tide_web_open(tide_web **out, tide_listener *listener, const tide_web_options *options,
                          tide_error *err)
{
    TIDE_NEW(tide_web, web, err);
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
