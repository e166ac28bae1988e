/* suggest.h - the name that was probably meant.
 *
 *     tide_cli_suggestion nearest = tide_cli_suggest_begin("sequnce", 7);
 *     tide_cli_suggest_offer(&nearest, "sequence");             for every name there is
 *     if (nearest.best) ...                                     "sequence"
 *
 * Distance counts letters changed, added, left out, and neighbours swapped. A third of the word may be wrong, and
 * a word that is the beginning of a name counts as one mistake; farther names are not offered.
 *
 * Threads: pure. */
#pragma once

#include <stddef.h>

enum { TIDE_CLI_SUGGEST_LEN_MAX = 32 }; /* longer words get no suggestion */

typedef struct tide_cli_suggestion {
    const char *word; /* borrowed */
    size_t len;
    const char *best; /* borrowed from the offer; NULL: nothing near */
    size_t distance;
} tide_cli_suggestion;

tide_cli_suggestion tide_cli_suggest_begin(const char *word, size_t len);
void tide_cli_suggest_offer(tide_cli_suggestion *suggestion, const char *name);
