#include "cli/help/suggest.h"

#include <string.h>

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment, the whole matrix: words are short. */
static size_t measure(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t cost[TIDE_CLI_SUGGEST_LEN_MAX + 1][TIDE_CLI_SUGGEST_LEN_MAX + 1];
    for (size_t i = 0; i <= a_len; i++)
        cost[i][0] = i;
    for (size_t j = 0; j <= b_len; j++)
        cost[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        for (size_t j = 1; j <= b_len; j++) {
            const size_t changed = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            cost[i][j] = min_of(changed, min_of(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = min_of(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[a_len][b_len];
}

tide_cli_suggestion tide_cli_suggest_begin(const char *word, size_t len)
{
    return (tide_cli_suggestion){.word = word, .len = len};
}

void tide_cli_suggest_offer(tide_cli_suggestion *suggestion, const char *name)
{
    const size_t name_len = strlen(name);
    if (suggestion->len == 0 || suggestion->len > TIDE_CLI_SUGGEST_LEN_MAX ||
        name_len > TIDE_CLI_SUGGEST_LEN_MAX)
        return;
    size_t distance = measure(suggestion->word, suggestion->len, name, name_len);
    if (suggestion->len < name_len && strncmp(suggestion->word, name, suggestion->len) == 0)
        distance = 1;
    if (distance > (suggestion->len + 2) / 3)
        return;
    if (!suggestion->best || distance < suggestion->distance) {
        suggestion->best = name;
        suggestion->distance = distance;
    }
}
