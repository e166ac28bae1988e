/* utf8.h - text that every engine and every peer accepts.
 *
 * Text in Tidemark is valid UTF-8 without NUL. Invalid bytes would make a peer's protobuf parser
 * reject a whole page and PostgreSQL's COPY abort a whole batch; a NUL ends texts early. So text
 * from outside is cleaned once, where it enters, and the replacements are counted.
 *
 * Valid is what Unicode says: no overlong forms, no surrogates, nothing above U+10FFFF. Each
 * maximal prefix of a broken character becomes one U+FFFD, as browsers do it.
 *
 * Threads: pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

#include "base/buffer.h"

/* What stands at the beginning of text, which must not be empty: one whole character (true), or a
 * broken one (false). *len is its length, at least 1. A NUL is a character here. */
bool tide_utf8_next(tide_view text, size_t *len);

/* True: valid UTF-8 without NUL; cleaning would change nothing. */
bool tide_utf8_valid(tide_view text);

/* Append text to out with every broken character and every NUL replaced by U+FFFD. *replaced is how
 * many. TIDE_E_LIMIT, TIDE_E_NOMEM: out is as before and *replaced untouched. */
TIDE_MUST_CHECK tide_status tide_utf8_clean(tide_buffer *out, tide_view text, size_t *replaced);

/* Write a character as UTF-8; returns how many bytes. */
size_t tide_utf8_put(char out[4], uint32_t character);

/* The longest part of text of at most max bytes that does not end inside a character. */
tide_view tide_utf8_cut(tide_view text, size_t max);
