/* mark.c - the conflict matrix of mark.h, as two columns of a table. */
#include "lake/mark.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "lake/lake.h"
#include "lake/lake_parts.h"

typedef enum mark_kind {
    NO_MARK,
    NAME_SCHEMA, /* a schema's name was taken */
    DROP_SCHEMA,
    CREATE_IN, /* a schema got a table or view */
    NAME,      /* a table's or view's name was taken */
    DROP,
    ALTER,
    INSERT,
    DELETE,
    DELETE_FILE,
    COMPACT,
    INLINED_DELETE,
    FLUSH,
    MARK_KINDS,
} mark_kind;

static const struct {
    const char *word;
    const char *said; /* of who did it */
} kinds[MARK_KINDS] = {
    [NO_MARK] = {"", "changed something"},
    [NAME_SCHEMA] = {"name-schema", "created a schema of this name"},
    [DROP_SCHEMA] = {"drop-schema", "dropped the schema"},
    [CREATE_IN] = {"create-in", "created a table or view in the schema"},
    [NAME] = {"name", "created a table or view of this name"},
    [DROP] = {"drop", "dropped it"},
    [ALTER] = {"alter", "altered it"},
    [INSERT] = {"insert", "inserted into the table"},
    [DELETE] = {"delete", "deleted from the table"},
    [DELETE_FILE] = {"delete-file", "deleted rows of the same file"},
    [COMPACT] = {"compact", "compacted the table"},
    [INLINED_DELETE] = {"inlined-delete", "deleted inlined rows of the table"},
    [FLUSH] = {"flush", "flushed inlined rows of the table"},
};

enum { MARKS = 6 };

/* mark.h shows the same, for people. */
static const struct {
    mark_kind leaves[MARKS];
    mark_kind fears[MARKS];
} matrix[TIDE_LAKE_ACT_COUNT] = {
    [TIDE_LAKE_CREATE_SCHEMA] = {{NAME_SCHEMA}, {NAME_SCHEMA}},
    [TIDE_LAKE_DROP_SCHEMA] = {{DROP_SCHEMA}, {DROP_SCHEMA, CREATE_IN}},
    [TIDE_LAKE_CREATE_TABLE] = {{NAME, CREATE_IN}, {NAME, DROP_SCHEMA}},
    [TIDE_LAKE_DROP_TABLE] = {{DROP}, {DROP}},
    [TIDE_LAKE_CREATE_VIEW] = {{NAME, CREATE_IN}, {NAME, DROP_SCHEMA}},
    [TIDE_LAKE_DROP_VIEW] = {{DROP}, {DROP}},
    [TIDE_LAKE_RENAME] = {{ALTER, NAME}, {DROP, ALTER, NAME, DROP_SCHEMA}},
    [TIDE_LAKE_ALTER] = {{ALTER}, {DROP, ALTER}},
    [TIDE_LAKE_INSERT] = {{INSERT}, {DROP, ALTER}},
    [TIDE_LAKE_DELETE] = {{DELETE}, {DROP, ALTER, COMPACT, INSERT}},
    [TIDE_LAKE_DELETE_FILE] = {{DELETE_FILE}, {DELETE_FILE}},
    [TIDE_LAKE_COMPACT] = {{COMPACT}, {DROP, DELETE, COMPACT}},
    [TIDE_LAKE_INLINED_DELETE] = {{DELETE, INLINED_DELETE},
                                  {DROP, ALTER, INLINED_DELETE, FLUSH, INSERT}},
    [TIDE_LAKE_FLUSH] = {{FLUSH}, {DROP, INLINED_DELETE, FLUSH}},
};

enum { MARK_MAX = TIDE_LAKE_NAME_MAX + 64 };

/* What tells a mark of this kind from others: a schema's number, a name, a thing's number. */
static void write_mark(char out[MARK_MAX], mark_kind kind, const tide_lake_deed *deed)
{
    char name[TIDE_LAKE_NAME_MAX + 1] = "";
    if (strlen(deed->name ? deed->name : "") <= TIDE_LAKE_NAME_MAX)
        tide_lake_fold(name, deed->name ? deed->name : "");
    if (kind == NAME_SCHEMA)
        (void)snprintf(out, MARK_MAX, "%s %s", kinds[kind].word, name);
    else if (kind == DROP_SCHEMA || kind == CREATE_IN)
        (void)snprintf(out, MARK_MAX, "%s %" PRId64, kinds[kind].word, deed->schema_id);
    else if (kind == NAME)
        (void)snprintf(out, MARK_MAX, "%s %" PRId64 " %s", kinds[kind].word, deed->schema_id, name);
    else
        (void)snprintf(out, MARK_MAX, "%s %" PRId64, kinds[kind].word, deed->object_id);
}

static tide_status append_marks(const tide_lake_deed *deed, const mark_kind *list, tide_buffer *out,
                                tide_error *err)
{
    for (int i = 0; i < MARKS && list[i] != NO_MARK; i++) {
        char mark[MARK_MAX];
        write_mark(mark, list[i], deed);
        tide_status status = out->len > 0 ? tide_buffer_append_byte(out, ',') : TIDE_OK;
        if (status >= TIDE_OK)
            status = tide_json_append_string(out, tide_view_of(mark));
        if (status < TIDE_OK)
            return tide_fail(err, status, "too many operations in one change: commit some first");
    }
    return TIDE_OK;
}

tide_status tide_lake_deed_leaves(const tide_lake_deed *deed, tide_buffer *out, tide_error *err)
{
    return append_marks(deed, matrix[deed->act].leaves, out, err);
}

tide_status tide_lake_deed_fears(const tide_lake_deed *deed, tide_buffer *out, tide_error *err)
{
    return append_marks(deed, matrix[deed->act].fears, out, err);
}

bool tide_lake_deeds_collide(const tide_lake_deed *mine, const tide_lake_deed *theirs)
{
    for (int i = 0; i < MARKS && matrix[mine->act].fears[i] != NO_MARK; i++) {
        char feared[MARK_MAX];
        write_mark(feared, matrix[mine->act].fears[i], mine);
        for (int j = 0; j < MARKS && matrix[theirs->act].leaves[j] != NO_MARK; j++) {
            char left[MARK_MAX];
            write_mark(left, matrix[theirs->act].leaves[j], theirs);
            if (strcmp(feared, left) == 0)
                return true;
        }
    }
    return false;
}

const char *tide_lake_mark_words(const char *mark)
{
    const size_t len = strcspn(mark, " ");
    for (int i = 1; i < MARK_KINDS; i++)
        if (strlen(kinds[i].word) == len && strncmp(kinds[i].word, mark, len) == 0)
            return kinds[i].said;
    return kinds[NO_MARK].said;
}

/* ---- parsing ---- */

/* between them. */
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
