#include "store/url.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static size_t scheme_len(const char *text)
{
    size_t len = 0;
    while (isalnum((unsigned char)text[len]) || (len > 0 && strchr("+-.", text[len]) && text[len]))
        len++;
    return len > 1 && text[len] == ':' && isalpha((unsigned char)text[0]) ? len : 0;
}

static bool is_scheme(const char *text, size_t len, const char *name)
{
    return len == strlen(name) && strncmp(text, name, len) == 0;
}

/* libpq ends the password at the first '@' and reports the rest as part of a host's name. */
static bool has_bare_at(const char *authority)
{
    const char *end = authority + strcspn(authority, "/?");
    const char *first = memchr(authority, '@', (size_t)(end - authority));
    return first && memchr(first + 1, '@', (size_t)(end - first - 1));
}

tide_status tide_store_url_parse(tide_store_url *out, const char *text, tide_error *err)
{
    if (!text || !*text)
        return tide_fail(err, TIDE_E_INVALID,
                         "empty store URL; want sqlite:PATH, a path, or postgres://HOST/DATABASE");
    const size_t len = scheme_len(text);
    const char *rest = len ? text + len + 1 : text;
    if (len == 0 || is_scheme(text, len, "sqlite")) {
        if (!*rest)
            return tide_fail(err, TIDE_E_INVALID, "store URL '%s' names no file", text);
        if (strncmp(rest, "//", 2) == 0 && rest[2] != '/')
            return tide_fail(err, TIDE_E_INVALID,
                             "store URL '%s': a SQLite file has no host; write sqlite:PATH", text);
        if (rest[0] == ':')
            return tide_fail(err, TIDE_E_INVALID,
                             "store URL '%s' names no file; a store lives on a disk", text);
        *out = (tide_store_url){.engine = TIDE_ENGINE_SQLITE, .target = rest};
        return TIDE_OK;
    }
    if (is_scheme(text, len, "postgres") || is_scheme(text, len, "postgresql")) {
        if (strncmp(rest, "//", 2) != 0)
            return tide_fail(err, TIDE_E_INVALID,
                             "malformed store URL; want postgres://USER@HOST:PORT/DATABASE");
        if (has_bare_at(rest + 2))
            return tide_fail(err, TIDE_E_INVALID,
                             "malformed store URL: a '@' in a name or a password is written %%40");
        *out = (tide_store_url){.engine = TIDE_ENGINE_POSTGRES, .target = text};
        return TIDE_OK;
    }
    return tide_fail(
        err, TIDE_E_INVALID,
        "unknown engine '%.*s' in the store URL; this program knows sqlite and postgres "
        "(a file name with a colon is written sqlite:PATH)",
        (int)len, text);
}

/* Password of the authority part: between the ':' after the user and the last '@' before the
 * path. */
static void hide_authority(char *text)
{
    char *authority = strstr(text, "://");
    if (!authority)
        return;
    authority += 3;
    char *end = authority + strcspn(authority, "/?");
    char *at = NULL;
    for (char *c = authority; c < end; c++)
        if (*c == '@')
            at = c;
    char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (!colon)
        return;
    memmove(colon + 2, at, strlen(at) + 1);
    colon[1] = '*';
}

static void hide_parameter(char *text, const char *name)
{
    for (char *at = text; (at = strstr(at, name)) != NULL;) {
        at += strlen(name);
        char *end = at + strcspn(at, "&");
        if (end > at) {
            at[0] = '*';
            memmove(at + 1, end, strlen(end) + 1);
        }
    }
}

char *tide_store_url_redact(const char *text)
{
    /* One byte more: an empty password still becomes a star. */
    char *copy = malloc(strlen(text) + 2);
    if (!copy)
        return NULL;
    memcpy(copy, text, strlen(text) + 1);
    if (strncmp(text, "postgres", 8) == 0) {
        hide_authority(copy);
        hide_parameter(copy, "password=");
    }
    return copy;
}
