/* table_index.c - unique and foreign keys of a table, as the file's schema has them.
 *
 * SQLite tells the columns of an index, but an expression or a WHERE stands only in the text of its CREATE INDEX. That text is taken apart at its
 * parentheses and commas; the pieces are used as they are. */
#include "replica/table_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "tidemark_templates.h"

char *tide_table_copy(tide_view text)
{
    char *copy = malloc(text.len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return copy;
}

/* ---- the text of an index ---- */

/* Length of the quoted name or text at `at`; 0: none begins there. */
static size_t measure_quoted(const char *at)
{
    const char close = *at == '[' ? ']' : *at;
    if (!strchr("'\"`[", *at) || *at == '\0')
        return 0;
    size_t len = 1;
    while (at[len] && at[len] != close)
        len++; /* a doubled quote begins the next quoted piece */
    return at[len] ? len + 1 : len;
}

static size_t measure_comment(const char *at)
{
    if (at[0] == '-' && at[1] == '-')
        return strcspn(at, "\n");
    if (at[0] != '/' || at[1] != '*')
        return 0;
    const char *end = strstr(at + 2, "*/");
    return end ? (size_t)(end - at) + 2 : strlen(at);
}

static char *strip_comments(const char *text)
{
    char *out = malloc(strlen(text) + 1);
    size_t len = 0;
    for (const char *at = text; out && *at;) {
        const size_t comment = measure_comment(at);
        const size_t quoted = comment > 0 ? 0 : measure_quoted(at);
        const size_t piece = quoted > 0 ? quoted : 1;
        if (comment > 0)
            out[len++] = ' ';
        else
            memcpy(out + len, at, piece);
        len += comment > 0 ? 0 : piece;
        at += comment > 0 ? comment : piece;
    }
    if (out)
        out[len] = '\0';
    return out;
}

/* Where the piece that begins at text ends: a comma or the closing parenthesis of its own level. */
static const char *find_piece_end(const char *text)
{
    int depth = 0;
    while (*text) {
        const size_t quoted = measure_quoted(text);
        if (quoted > 0) {
            text += quoted;
            continue;
        }
        if (depth == 0 && (*text == ',' || *text == ')'))
            return text;
        depth += *text == '(';
        depth -= *text == ')';
        text++;
    }
    return text;
}

static size_t trim_word(const char *text, size_t len, const char *word)
{
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    const size_t word_len = strlen(word);
    if (len > word_len && strncasecmp(text + len - word_len, word, word_len) == 0 &&
        (isspace((unsigned char)text[len - word_len - 1]) || text[len - word_len - 1] == ')'))
        len -= word_len;
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    return len;
}

static const char *find_open(const char *text)
{
    while (*text && *text != '(') {
        const size_t quoted = measure_quoted(text);
        text += quoted > 0 ? quoted : 1;
    }
    return *text ? text + 1 : text;
}

/* Fill in the expressions and the condition. */
static tide_status take_apart(tide_table_unique *unique, const char *sql, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *text = strip_comments(sql);
    TIDE_NEED_MEMORY(text, err);
    const char *at = find_open(text);
    for (int i = 0; i < unique->term_count && *at; i++) {
        const char *end = find_piece_end(at);
        const size_t len = trim_word(at, trim_word(at, (size_t)(end - at), "asc"), "desc");
        tide_table_term *term = &unique->terms[i];
        if (term->column == -1 && !(term->sql = tide_table_copy(tide_view_bytes(at, len))))
            return tide_no_memory(err);
        at = *end == ',' ? end + 1 : end;
    }
    at += *at == ')';
    at += strspn(at, " \t\r\n");
    if (strncasecmp(at, "where", 5) != 0)
        return TIDE_OK;
    unique->where = tide_table_copy(tide_view_of(at + 5));
    return unique->where ? TIDE_OK : tide_no_memory(err);
}

/* ---- unique keys ---- */

static void unique_done(tide_table_unique *unique)
{
    for (int i = 0; i < unique->term_count; i++) {
        free(unique->terms[i].name);
        free(unique->terms[i].sql);
        free(unique->terms[i].collation);
    }
    free(unique->terms);
    free(unique->where);
}

void tide_table_uniques_done(tide_table *table)
{
    for (int i = 0; i < table->unique_count; i++)
        unique_done(&table->uniques[i]);
    free(table->uniques);
    table->uniques = NULL;
    table->unique_count = 0;
    for (int i = 0; i < table->foreign_count; i++)
        for (int c = 0; c < table->foreign[i].count; c++)
            free(table->foreign[i].parent_name[c]);
    free(table->foreign);
    table->foreign = NULL;
    table->foreign_count = 0;
}

static bool is_known_collation(const char *name)
{
    return strcasecmp(name, "BINARY") == 0 || strcasecmp(name, "NOCASE") == 0 ||
           strcasecmp(name, "RTRIM") == 0;
}

static tide_table_term *grow_terms(tide_table_unique *unique)
{
    if (tide_list_room(&unique->terms, unique->term_count, sizeof *unique->terms, TIDE_LIST_MAX,
                       NULL) < TIDE_OK)
        return NULL;
    unique->terms[unique->term_count] = (tide_table_term){.column = -1};
    return &unique->terms[unique->term_count++];
}

static tide_status add_term(tide_table_unique *unique, const tide_table *table,
                            tide_foreign_query *query, tide_error *err)
{
    const int64_t cid = tide_foreign_col_i64(query);
    TIDE_CLEANUP(tide_freep) char *name = tide_table_copy(tide_foreign_col_bytes(query));
    TIDE_CLEANUP(tide_freep) char *collation = tide_table_copy(tide_foreign_col_bytes(query));
    tide_table_term *term = name && collation ? grow_terms(unique) : NULL;
    TIDE_NEED_MEMORY(term, err);
    if (!is_known_collation(collation))
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "table %s has an index with the collation %s, which only its application "
                         "knows: an index with BINARY, NOCASE or RTRIM can be replicated",
                         table->name, collation);
    if (cid >= 0)
        term->column = tide_table_find_column(table, name);
    if (cid >= 0 && term->column < 0)
        term->column = -2;
    term->collation = TIDE_TAKE(collation);
    if (term->column == -2)
        term->name = TIDE_TAKE(name);
    return TIDE_OK;
}

static tide_status read_terms(tide_table_unique *unique, tide_foreign_tx *tx,
                              const tide_table *table, tide_view index, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMA_TERMS->text, err,
                       tide_bind_view("name", index));
    TIDE_EACH(tide_foreign_step(query, err))
        TIDE_TRY(add_term(unique, table, query, err));
    return TIDE_OK;
}

static tide_table_unique *grow_uniques(tide_table *table)
{
    if (tide_list_room(&table->uniques, table->unique_count, sizeof *table->uniques, TIDE_LIST_MAX,
                       NULL) < TIDE_OK)
        return NULL;
    table->uniques[table->unique_count] = (tide_table_unique){0};
    return &table->uniques[table->unique_count++];
}

/* The key itself: the same columns in any order, whole. */
static bool is_the_key(const tide_table *table, const tide_table_unique *unique)
{
    if (unique->where || unique->term_count != table->key_count)
        return false;
    for (int i = 0; i < unique->term_count; i++) {
        bool is_there = false;
        for (int k = 0; k < table->key_count; k++)
            is_there = is_there || table->key[k] == unique->terms[i].column;
        if (!is_there)
            return false;
    }
    return true;
}

/* Rows of a table whose key is not its rowid have one nevertheless, and it can be written. */
static tide_status add_rowid(tide_table *table, tide_error *err)
{
    static const char *const names[] = {"rowid", "_rowid_", "oid"};
    const char *free_name = NULL; /* columns may have such names */
    for (int i = 0; i < 3 && !free_name; i++)
        if (tide_table_find_column(table, names[i]) < 0)
            free_name = names[i];
    if (table->is_without_rowid || table->is_rowid_key || !free_name)
        return TIDE_OK;
    tide_table_unique *unique = grow_uniques(table);
    tide_table_term *term = unique ? grow_terms(unique) : NULL;
    TIDE_NEED_MEMORY(term, err);
    term->column = -3;
    term->name = strdup(free_name);
    return term->name ? TIDE_OK : tide_no_memory(err);
}

tide_status tide_table_read_uniques(tide_table *table, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMA_UNIQUES->text, err,
                       tide_bind_text("name", table->name));
    tide_status status = TIDE_OK;
    while ((status = tide_foreign_step(query, err)) == TIDE_OK) {
        tide_table_unique *unique = grow_uniques(table);
        TIDE_NEED_MEMORY(unique, err);
        TIDE_TRY(read_terms(unique, tx, table, tide_foreign_col_bytes(query), err));
        (void)tide_foreign_col_bytes(query);
        (void)tide_foreign_col_i64(query);
        TIDE_CLEANUP(tide_freep) char *sql = tide_table_copy(tide_foreign_col_bytes(query));
        TIDE_NEED_MEMORY(sql, err);
        TIDE_TRY(take_apart(unique, sql, err));
        unique->is_key = is_the_key(table, unique);
    }
    return status < TIDE_OK ? status : add_rowid(table, err);
}

/* ---- foreign keys ---- */

static tide_table_foreign *grow_foreign(tide_table *table)
{
    if (tide_list_room(&table->foreign, table->foreign_count, sizeof *table->foreign, TIDE_LIST_MAX,
                       NULL) < TIDE_OK)
        return NULL;
    table->foreign[table->foreign_count] = (tide_table_foreign){0};
    return &table->foreign[table->foreign_count++];
}

static tide_status add_pair(tide_table *table, tide_table_foreign *foreign,
                            tide_foreign_query *query, tide_error *err)
{
    if (foreign->count == TIDE_EVENT_KEY_MAX)
        return tide_fail(err, TIDE_E_UNSUPPORTED, "a foreign key of %s has more than %d columns",
                         table->name, TIDE_EVENT_KEY_MAX);
    TIDE_CLEANUP(tide_freep) char *from = tide_table_copy(tide_foreign_col_bytes(query));
    TIDE_CLEANUP(tide_freep) char *to = tide_table_copy(tide_foreign_col_bytes(query));
    TIDE_NEED_MEMORY(from && to, err);
    foreign->column[foreign->count] = tide_table_find_column(table, from);
    foreign->parent_column[foreign->count] = -1;
    foreign->parent_name[foreign->count++] = TIDE_TAKE(to);
    return TIDE_OK;
}

/* Where the parent's columns stand among its stored ones, and the names that REFERENCES left out: its primary key's. */
static tide_status find_parent(tide_table_foreign *foreign, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMA_COLUMNS->text, err,
                       tide_bind_text("name", foreign->parent));
    tide_status status = TIDE_OK;
    for (int column = 0; (status = tide_foreign_step(query, err)) == TIDE_OK;) {
        TIDE_CLEANUP(tide_freep) char *name = tide_table_copy(tide_foreign_col_bytes(query));
        (void)tide_foreign_col_bytes(query);
        (void)tide_foreign_col_i64(query);
        (void)tide_foreign_col_bytes(query);
        const int64_t key_position = tide_foreign_col_i64(query);
        const bool is_stored = tide_foreign_col_i64(query) == 0;
        TIDE_NEED_MEMORY(name, err);
        for (int i = 0; i < foreign->count; i++) {
            char **wanted = &foreign->parent_name[i];
            if (!**wanted && key_position == i + 1) {
                free(*wanted);
                *wanted = strdup(name);
                TIDE_NEED_MEMORY(*wanted, err);
            }
            if (is_stored && strcasecmp(*wanted, name) == 0)
                foreign->parent_column[i] = column;
        }
        column += is_stored;
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_table_read_foreign(tide_table *table, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_SCHEMA_FOREIGN->text, err,
                       tide_bind_text("name", table->name));
    int64_t last_id = -1;
    TIDE_EACH(tide_foreign_step(query, err)) {
        const int64_t id = tide_foreign_col_i64(query);
        const tide_view parent = tide_foreign_col_bytes(query);
        tide_table_foreign *foreign =
            id == last_id ? &table->foreign[table->foreign_count - 1] : grow_foreign(table);
        TIDE_NEED_MEMORY(foreign, err);
        if (parent.len > TIDE_EVENT_TABLE_MAX)
            return tide_fail(err, TIDE_E_UNSUPPORTED, "%s refers to a table with too long a name",
                             table->name);
        memcpy(foreign->parent, parent.ptr, parent.len);
        TIDE_TRY(add_pair(table, foreign, query, err));
        last_id = id;
    }
    table->has_foreign_keys = table->foreign_count > 0;
    for (int i = 0; i < table->foreign_count; i++)
        TIDE_TRY(find_parent(&table->foreign[i], tx, err));
    return TIDE_OK;
}
