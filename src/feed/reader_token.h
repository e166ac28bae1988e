/* reader_token.h - the text with which a feed refuses a reader's token, and how a colony reads it.
 *
 * A feed refuses a token below one that it has seen from the same reader (TIDE_E_LEASE_LOST). The text
 * names both tokens. A colony whose store never issued the higher one shares its reader name with a
 * copy or a later state of its store (colony/registry.h).
 *
 * Threads: pure. */
#pragma once

#include <stdint.h>

#include <tidemark/error.h>

/* Always TIDE_E_LEASE_LOST. */
tide_status tide_reader_token_refuse(const char *reader, int64_t token, int64_t seen_token,
                                     tide_error *err);

/* The higher token of such a text, whatever precedes it; 0: the text names none. */
int64_t tide_reader_token_seen(const char *text);
