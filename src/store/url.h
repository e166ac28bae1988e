/* url.h - which engine a store URL names, and what may be shown of it.
 *
 *     sqlite:PATH   PATH              a SQLite file
 *     postgres://...  postgresql://...  a PostgreSQL database, in libpq's own form
 *
 * A bare word before a colon is taken for a scheme, so that a mistyped engine is an error and not a
 * file name; a path with a colon is written sqlite:PATH or ./PATH.
 *
 * Threads: pure. */
#pragma once

#include <tidemark/store.h>

typedef struct tide_store_url {
    tide_engine engine;
    const char *target; /* path or libpq URL; borrowed from the text that was parsed */
} tide_store_url;

TIDE_MUST_CHECK tide_status tide_store_url_parse(tide_store_url *out, const char *text,
                                                 tide_error *err);

/* The URL with its password replaced, for messages; the caller frees it. NULL: no memory. */
char *tide_store_url_redact(const char *text);
