#include "lake/quote.h"

#include <string.h>

/* Every byte may become three, and two quotes and the end are added. */
static char *begin(tide_arena *arena, const char *text)
{
    return tide_arena_alloc(arena, strlen(text) * 3 + 3);
}

static char *double_quotes(tide_arena *arena, const char *text, char quote)
{
    char *out = begin(arena, text);
    if (!out)
        return NULL;
    char *at = out;
    *at++ = quote;
    for (; *text; text++) {
        if (*text == quote)
            *at++ = quote;
        *at++ = *text;
    }
    *at++ = quote;
    *at = '\0';
    return out;
}

char *tide_lake_quote_text(tide_arena *arena, const char *text)
{
    return double_quotes(arena, text, '\'');
}

char *tide_lake_quote_name(tide_arena *arena, const char *name)
{
    return double_quotes(arena, name, '"');
}

bool tide_lake_is_pattern(const char *path)
{
    return strpbrk(path, "*?[") != NULL;
}

char *tide_lake_quote_path(tide_arena *arena, const char *path)
{
    char *plain = begin(arena, path);
    if (!plain)
        return NULL;
    char *at = plain;
    for (; *path; path++) {
        const bool is_special = strchr("*?[", *path) != NULL;
        if (is_special)
            *at++ = '[';
        *at++ = *path;
        if (is_special)
            *at++ = ']';
    }
    *at = '\0';
    return tide_lake_quote_text(arena, plain);
}
