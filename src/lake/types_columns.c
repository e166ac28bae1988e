/* types_columns.c - "a BIGINT, b VARCHAR NOT NULL DEFAULT 'x'" becomes columns. */
#include "lake/types.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "lake/type_order.h"

enum { COLUMN_MAX = 1000, WORD_SIZE = 1024 };

typedef struct cursor {
    const char *text; /* the whole, for messages */
    const char *at;
} cursor;

static tide_status fail_at(const cursor *c, const char *wanted, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID,
                     "columns, at byte %zu ('%.30s'): %s; the form is \"a BIGINT, b VARCHAR NOT "
                     "NULL DEFAULT 'x'\"",
                     (size_t)(c->at - c->text), c->at, wanted);
}

static void skip_space(cursor *c)
{
    c->at += strspn(c->at, " \t\r\n");
}

static bool is_word(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_' || (unsigned char)byte >= 0x80;
}

/* What is between quotes, doubled inside. */
static bool take_quoted(cursor *c, char quote, char out[WORD_SIZE])
{
    size_t len = 0;
    c->at++;
    for (;; c->at++) {
        if (*c->at == quote && *++c->at != quote)
            break;
        if (!*c->at || len + 1 >= WORD_SIZE)
            return false;
        out[len++] = *c->at;
    }
    out[len] = '\0';
    return true;
}

static tide_status take_name(cursor *c, char out[WORD_SIZE], tide_error *err)
{
    skip_space(c);
    const cursor begin = *c;
    if (*c->at == '"') {
        if (!take_quoted(c, '"', out))
            return fail_at(&begin, "a name without its closing quote", err);
    } else {
        size_t len = 0;
        while (is_word(*c->at) && len + 1 < WORD_SIZE)
            out[len++] = *c->at++;
        out[len] = '\0';
        if (len == 0 || isdigit((unsigned char)out[0]))
            return fail_at(&begin, "a column's name is wanted", err);
    }
    return tide_lake_check_name(out, "column", err);
}

/* Does this word come next? Then it is taken. */
static bool take_word(cursor *c, const char *word)
{
    skip_space(c);
    const size_t len = strlen(word);
    if (strncasecmp(c->at, word, len) != 0 || is_word(c->at[len]))
        return false;
    c->at += len;
    return true;
}

static bool ends_type(cursor *c)
{
    cursor ahead = *c;
    skip_space(&ahead);
    return !*ahead.at || *ahead.at == ',' || take_word(&ahead, "NOT") ||
           take_word(&ahead, "NULL") || take_word(&ahead, "DEFAULT") ||
           take_word(&ahead, "PRIMARY") || take_word(&ahead, "UNIQUE") ||
           take_word(&ahead, "CHECK") || take_word(&ahead, "REFERENCES");
}

static tide_status take_type(cursor *c, char out[256], tide_error *err)
{
    char sql[WORD_SIZE];
    size_t len = 0;
    int depth = 0;
    skip_space(c);
    const cursor begin = *c;
    while (*c->at && (depth > 0 || !ends_type(c)) && len + 2 < WORD_SIZE) {
        /* A word at a time, so that a type's name is not ended by what it begins with. */
        do {
            depth += (*c->at == '(') - (*c->at == ')');
            sql[len++] = *c->at++;
        } while (is_word(c->at[-1]) && is_word(*c->at) && len + 2 < WORD_SIZE);
    }
    sql[len] = '\0';
    if (len == 0)
        return fail_at(&begin, "a type is wanted", err);
    return tide_lake_type_parse(out, sql, err);
}

static bool fits(const char *type, const char *value)
{
    int sign = 0;
    const tide_lake_order order = tide_lake_type_order(type);
    if (order == TIDE_LAKE_ORDER_DECIMAL || order == TIDE_LAKE_ORDER_DOUBLE)
        return tide_lake_compare(order, tide_view_of(value), tide_view_of("0"), &sign);
    if (strcmp(type, "boolean") == 0)
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    return true;
}

/* A literal: a text in quotes, a number, true, false, NULL (*is_null). */
static tide_status take_default(cursor *c, const char *type, char out[WORD_SIZE], bool *is_null,
                                tide_error *err)
{
    skip_space(c);
    const cursor begin = *c;
    size_t len = 0;
    *is_null = take_word(c, "NULL");
    if (*is_null)
        return TIDE_OK;
    if (*c->at == '\'') {
        if (!take_quoted(c, '\'', out))
            return fail_at(&begin, "a text without its closing quote", err);
        if (strcmp(out, "NULL") == 0)
            return fail_at(&begin, "the text 'NULL' cannot be told from no default", err);
    } else {
        while ((is_word(*c->at) || strchr("+-.", *c->at ? *c->at : ' ')) && len + 1 < WORD_SIZE)
            out[len++] = (char)tolower((unsigned char)*c->at++);
        out[len] = '\0';
        const bool is_number =
            len > 0 && (isdigit((unsigned char)out[len - 1]) || out[len - 1] == '.');
        if (!is_number && strcmp(out, "true") != 0 && strcmp(out, "false") != 0)
            return fail_at(&begin, "a default is a literal: 'text', a number, true, false or NULL",
                           err);
    }
    return fits(type, out) ? TIDE_OK
                           : fail_at(&begin, "the default is not of the column's type", err);
}

static tide_status take_constraints(cursor *c, tide_lake_column_def *column, tide_error *err)
{
    char text[WORD_SIZE];
    for (;;) {
        skip_space(c);
        const cursor begin = *c;
        bool is_null = false;
        if (take_word(c, "NOT")) {
            if (!take_word(c, "NULL"))
                return fail_at(&begin, "NOT NULL is wanted", err);
            column->is_not_null = true;
        } else if (take_word(c, "DEFAULT")) {
            TIDE_TRY(take_default(c, column->type, text, &is_null, err));
            free((char *)column->default_value);
            column->default_value = is_null ? NULL : strdup(text);
            if (!is_null && !column->default_value)
                return tide_no_memory(err);
        } else if (!take_word(c, "NULL")) {
            return !*c->at || *c->at == ','
                       ? TIDE_OK
                       : fail_at(&begin, "NOT NULL, DEFAULT or a comma is wanted", err);
        }
    }
}

static tide_status take_column(cursor *c, tide_lake_column_def *column, tide_error *err)
{
    char name[WORD_SIZE];
    char type[256];
    TIDE_TRY(take_name(c, name, err));
    TIDE_TRY(take_type(c, type, err));
    column->name = strdup(name);
    column->type = strdup(type);
    TIDE_NEED_MEMORY(column->name && column->type, err);
    return take_constraints(c, column, err);
}

typedef struct column_list {
    tide_lake_column_def *all;
    int count;
} column_list;

static void free_list(column_list *list)
{
    tide_lake_column_defs_free(list->all, list->count);
}

tide_status tide_lake_columns_parse(const char *text, tide_lake_column_def **out, int *count,
                                    tide_error *err)
{
    cursor c = {.text = text, .at = text};
    TIDE_CLEANUP(free_list) column_list list = {.all = calloc(COLUMN_MAX, sizeof *list.all)};
    TIDE_NEED_MEMORY(list.all, err);
    do {
        if (list.count > 0)
            c.at++;
        if (list.count == COLUMN_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "more than %d columns: make several tables",
                             COLUMN_MAX);
        TIDE_TRY(take_column(&c, &list.all[list.count++], err));
    } while (*c.at == ',');
    *out = TIDE_TAKE(list.all);
    *count = list.count;
    list.count = 0;
    return TIDE_OK;
}

void tide_lake_column_defs_free(tide_lake_column_def *columns, int count)
{
    for (int i = 0; columns && i < count; i++) {
        free((char *)columns[i].name);
        free((char *)columns[i].type);
        free((char *)columns[i].default_value);
    }
    free(columns);
}
