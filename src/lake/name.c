/* name.c - names of catalogs, schemas, tables and columns. */
#include "lake/lake_parts.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>

#include "base/text/utf8.h"

static char fold_byte(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

void tide_lake_fold(char *out, const char *name)
{
    for (; *name; name++)
        *out++ = fold_byte(*name);
    *out = '\0';
}

bool tide_lake_same_name(const char *a, const char *b)
{
    for (; *a && fold_byte(*a) == fold_byte(*b); a++)
        b++;
    return fold_byte(*a) == fold_byte(*b);
}

tide_status tide_lake_check_name(const char *name, const char *what, tide_error *err)
{
    const tide_view text = tide_view_of(name);
    if (text.len == 0)
        return tide_fail(err, TIDE_E_INVALID, "the name of the %s is empty: give it 1 to %d bytes",
                         what, TIDE_LAKE_NAME_MAX);
    if (text.len > TIDE_LAKE_NAME_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "the name of the %s has %zu bytes: choose one of at most %d", what,
                         text.len, TIDE_LAKE_NAME_MAX);
    if (!tide_utf8_valid(text))
        return tide_fail(err, TIDE_E_INVALID, "the name of the %s is not UTF-8: choose another",
                         what);
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f)
            return tide_fail(err, TIDE_E_INVALID,
                             "the name of the %s has a control character at byte %zu: choose "
                             "another",
                             what, i);
    return TIDE_OK;
}

/* One part into out, at most max bytes; *text moves behind it. False: too long or a quote without its end. */
static bool take_part(const char **text, char *out, size_t max)
{
    const char *at = *text;
    const bool is_quoted = *at == '"';
    size_t len = 0;
    if (is_quoted)
        at++;
    for (; *at && (is_quoted || *at != '.'); at++) {
        if (is_quoted && *at == '"' && *++at != '"') {
            out[len] = '\0';
            *text = at;
            return true;
        }
        if (len == max)
            return false;
        out[len++] = *at;
    }
    out[len] = '\0';
    *text = at;
    return !is_quoted;
}

static tide_status fail_form(const char *text, int parts, tide_error *err)
{
    static const char *const forms[] = {"", "CATALOG", "CATALOG.SCHEMA", "CATALOG.SCHEMA.TABLE"};
    return tide_fail(err, TIDE_E_INVALID,
                     "'%.100s' is not a name of the form %s (parts of at most %d bytes; one with a "
                     "dot or a quote goes in double quotes: \"my.table\")",
                     text, forms[parts], TIDE_LAKE_NAME_MAX);
}

tide_status tide_lake_name_parse(tide_lake_name *out, const char *text, int parts, tide_error *err)
{
    static const char *const whats[] = {"catalog", "schema", "table"};
    tide_lake_name name = {.catalog = ""};
    char *const slots[] = {name.catalog, name.schema, name.object};
    const char *at = text;
    assert(parts >= 1 && parts <= 3);
    for (int i = 0; i < parts; i++) {
        if (i > 0 && *at++ != '.')
            return fail_form(text, parts, err);
        if (!take_part(&at, slots[i], TIDE_LAKE_NAME_MAX) || !slots[i][0])
            return fail_form(text, parts, err);
        TIDE_TRY(tide_lake_check_name(slots[i], whats[i], err));
    }
    if (*at)
        return fail_form(text, parts, err);
    *out = name;
    return TIDE_OK;
}

void tide_lake_directory(char out[96], const char *name, const char *uuid)
{
    enum { READABLE = 40 };
    char readable[READABLE + 1];
    size_t len = 0;
    for (; *name && len < READABLE; name++)
        if (isalnum((unsigned char)*name) || *name == '_')
            readable[len++] = *name;
    readable[len] = '\0';
    (void)snprintf(out, 96, "%s%s%s/", readable, len > 0 ? "-" : "", uuid);
}
