/* mark_parse.c - what DuckLake's changes_made says: token:value, token:value, ... A value is a number, or names in double quotes with dots
 * between them. */
#include "lake/mark.h"

#include <stdlib.h>
#include <string.h>

#include "lake/lake.h"

/* Macros stand beside tables and views as names of their schema. */
static const struct {
    const char *token;
    tide_lake_act act;
} tokens[] = {
    {"created_schema", TIDE_LAKE_CREATE_SCHEMA},
    {"created_table", TIDE_LAKE_CREATE_TABLE},
    {"created_view", TIDE_LAKE_CREATE_VIEW},
    {"created_scalar_macro", TIDE_LAKE_CREATE_VIEW},
    {"created_table_macro", TIDE_LAKE_CREATE_VIEW},
    {"dropped_schema", TIDE_LAKE_DROP_SCHEMA},
    {"dropped_table", TIDE_LAKE_DROP_TABLE},
    {"dropped_view", TIDE_LAKE_DROP_VIEW},
    {"dropped_scalar_macro", TIDE_LAKE_DROP_VIEW},
    {"dropped_table_macro", TIDE_LAKE_DROP_VIEW},
    {"inserted_into_table", TIDE_LAKE_INSERT},
    {"deleted_from_table", TIDE_LAKE_DELETE},
    {"altered_table", TIDE_LAKE_ALTER},
    {"altered_view", TIDE_LAKE_ALTER},
    {"compacted_table", TIDE_LAKE_COMPACT},
    {"merge_adjacent", TIDE_LAKE_COMPACT},
    {"rewrite_delete", TIDE_LAKE_COMPACT},
    {"inlined_insert", TIDE_LAKE_INSERT},
    {"inlined_delete", TIDE_LAKE_INLINED_DELETE},
    {"flushed_inlined", TIDE_LAKE_FLUSH},
};

static bool find_act(tide_lake_act *out, const char *token, size_t len)
{
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        if (strlen(tokens[i].token) == len && strncmp(tokens[i].token, token, len) == 0) {
            *out = tokens[i].act;
            return true;
        }
    }
    return false;
}

/* A name in double quotes, doubled inside; *at moves behind it. */
static bool take_quoted(const char **at, char out[TIDE_LAKE_NAME_MAX + 1])
{
    const char *in = *at;
    size_t len = 0;
    if (*in++ != '"')
        return false;
    for (;; in++) {
        if (*in == '"' && *++in != '"')
            break;
        if (!*in || len == TIDE_LAKE_NAME_MAX)
            return false;
        out[len++] = *in;
    }
    out[len] = '\0';
    *at = in;
    return len > 0;
}

typedef struct parsed {
    tide_lake_deed deed;
    char first[TIDE_LAKE_NAME_MAX + 1];
    char second[TIDE_LAKE_NAME_MAX + 1];
} parsed;

static bool take_value(const char **at, parsed *out)
{
    tide_lake_deed *deed = &out->deed;
    if (**at != '"') {
        char *end = NULL;
        const int64_t id = strtoll(*at, &end, 10);
        const bool is_read = end != *at && id >= 0;
        *at = end;
        *(deed->act == TIDE_LAKE_DROP_SCHEMA ? &deed->schema_id : &deed->object_id) = id;
        return is_read && deed->act != TIDE_LAKE_CREATE_SCHEMA &&
               deed->act != TIDE_LAKE_CREATE_TABLE && deed->act != TIDE_LAKE_CREATE_VIEW;
    }
    if (!take_quoted(at, out->first))
        return false;
    if (**at == '.') {
        (*at)++;
        if (!take_quoted(at, out->second))
            return false;
    }
    const bool is_schema = deed->act == TIDE_LAKE_CREATE_SCHEMA;
    deed->name = is_schema ? out->first : out->second;
    return deed->name[0] &&
           (is_schema || deed->act == TIDE_LAKE_CREATE_TABLE || deed->act == TIDE_LAKE_CREATE_VIEW);
}

tide_status tide_lake_changes_parse(const char *changes_made, tide_lake_deed_fn *fn, void *arg,
                                    tide_error *err)
{
    const char *at = changes_made;
    while (*at) {
        const char *begin = at;
        const size_t len = strcspn(at, ":");
        parsed one = {.deed = {.name = ""}};
        at += len;
        const bool is_read =
            *at == ':' && find_act(&one.deed.act, begin, len) && (at++, take_value(&at, &one));
        if (!is_read || (*at != ',' && *at != '\0'))
            return tide_fail(err, TIDE_E_INVALID,
                             "changes_made holds what DuckLake 1.0 does not know: '%.60s'", begin);
        if (*at == ',')
            at++;
        TIDE_TRY(fn(arg, &one.deed, one.second[0] ? one.first : "", err));
    }
    return TIDE_OK;
}
