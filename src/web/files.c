#include "web/files.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"

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

/* This origin and nothing else. Styles of elements are set by script, which this allows; style attributes and inline styles it does not. */
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

/* The tag is the contents' digest: a file that a browser has kept is used again only while it is this one. */
static void serve_file(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    (void)arg;
    const embedded *file = find_file(tide_call_path(call));
    if (!file) {
        tide_call_http_reply(call, 404, "text/plain; charset=utf-8", tide_view_of("not here\n"));
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
        tide_call_http_reply(call, 304, NULL, (tide_view){.len = 0});
    else
        tide_call_http_reply(call, 200, file->type, contents);
}

const tide_route tide_web_file_routes[] = {
    {.method = "GET", .path = "/", .role = TIDE_ROLE_NONE, .run = serve_file},
    {.method = "GET", .path = "/dashboard.js", .role = TIDE_ROLE_NONE, .run = serve_file},
    {.method = "GET", .path = "/dashboard.css", .role = TIDE_ROLE_NONE, .run = serve_file},
    {.method = "GET", .path = "/dashboard.svg", .role = TIDE_ROLE_NONE, .run = serve_file},
    {.method = NULL},
};
