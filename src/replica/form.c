#include "replica/form.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "tidemark_templates.h"

/* ---- a table's own ---- */

/* By which the key's values are compared; "": byte by byte. */
static const char *key_collation(const tide_table *table, int column)
{
    for (int u = 0; u < table->unique_count; u++) {
        const tide_table_unique *unique = &table->uniques[u];
        for (int i = 0; unique->is_key && i < unique->term_count; i++)
            if (unique->terms[i].column == column && unique->terms[i].collation &&
                strcasecmp(unique->terms[i].collation, "BINARY") != 0)
                return unique->terms[i].collation;
    }
    return "";
}

static tide_status put_text(tide_buffer *out, const char *before, const char *text)
{
    TIDE_TRY(tide_buffer_append_text(out, before));
    return tide_buffer_append_text(out, text);
}

static tide_status put_column(tide_buffer *out, const tide_table *table, int index)
{
    static const char *const affinities[] = {"no type", "INTEGER", "REAL", "NUMERIC", "TEXT"};
    const tide_table_column *column = &table->columns[index];
    const char *collation = column->is_key ? key_collation(table, index) : "";
    TIDE_TRY(tide_buffer_append(out, column->name, strlen(column->name) + 1));
    TIDE_TRY(put_text(out, table->is_strict ? "STRICT " : "", affinities[column->affinity]));
    if (column->is_key)
        TIDE_TRY(put_text(out, " KEY", collation[0] ? " COLLATE " : ""));
    TIDE_TRY(tide_buffer_append_text(out, collation));
    if (column->is_not_null && !column->is_key)
        TIDE_TRY(tide_buffer_append_text(out, " NOT NULL"));
    if (column->fallback)
        TIDE_TRY(put_text(out, " DEFAULT ", column->fallback));
    return tide_buffer_append(out, "", 1);
}

tide_status tide_form_put(tide_buffer *out, const tide_table *table, tide_error *err)
{
    tide_status status = TIDE_OK;
    for (int i = 0; i < table->column_count && status >= TIDE_OK; i++)
        status = put_column(out, table, i);
    return tide_buffer_check(status, err);
}

/* ---- two of them ---- */

typedef struct pairs {
    tide_view left;
} pairs;

static bool next_text(pairs *list, tide_view *out)
{
    const char *end = list->left.len > 0 ? memchr(list->left.ptr, '\0', list->left.len) : NULL;
    if (!end)
        return false;
    *out = tide_view_bytes(list->left.ptr, (size_t)(end - list->left.ptr));
    list->left = tide_view_bytes(end + 1, list->left.len - out->len - 1);
    return true;
}

static bool find_form(tide_view form, tide_view name, tide_view *out)
{
    pairs list = {.left = form};
    tide_view found;
    while (next_text(&list, &found) && next_text(&list, out))
        if (found.len == name.len && strncasecmp(found.ptr, name.ptr, name.len) == 0)
            return true;
    return false;
}

__attribute__((format(printf, 2, 3))) static void say(char out[TIDE_SYNC_UNLIKE_MAX],
                                                      const char *format, ...)
{
    const size_t len = strlen(out);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(out + len, TIDE_SYNC_UNLIKE_MAX - len, format, args);
    va_end(args);
}

static int clip(tide_view text)
{
    enum { SHOWN_MAX = 80 };
    return text.len > SHOWN_MAX ? SHOWN_MAX : (int)text.len;
}

static void compare_tables(char out[TIDE_SYNC_UNLIKE_MAX], const tide_peer_table *ours,
                           const tide_peer_table *theirs)
{
    pairs list = {.left = ours->form};
    tide_view name;
    tide_view mine;
    tide_view other;
    while (next_text(&list, &name) && next_text(&list, &mine))
        if (find_form(theirs->form, name, &other) && !tide_view_equal(mine, other))
            say(out, "%s%s.%.*s is %.*s here, %.*s there", out[0] ? "; " : "", ours->name,
                clip(name), name.ptr, clip(mine), mine.ptr, clip(other), other.ptr);
}

static bool had_name(const tide_peer_table *table, const char *name)
{
    for (int i = 0; i < table->former_count; i++)
        if (strcasecmp(table->former[i], name) == 0)
            return true;
    return false;
}

static bool is_same(const tide_peer_table *ours, const tide_peer_table *theirs)
{
    return strcasecmp(ours->name, theirs->name) == 0 || had_name(ours, theirs->name) ||
           had_name(theirs, ours->name);
}

void tide_form_compare(char out[TIDE_SYNC_UNLIKE_MAX], const tide_peer_marks *ours,
                       const tide_peer_marks *theirs)
{
    out[0] = '\0';
    for (int i = 0; i < ours->table_count; i++)
        for (int k = 0; k < theirs->table_count; k++)
            if (is_same(&ours->tables[i], &theirs->tables[k]))
                compare_tables(out, &ours->tables[i], &theirs->tables[k]);
}

/* ---- kept ---- */

typedef struct noting {
    const tide_node_id *peer;
    const char *unlike;
    bool is_known;
} noting;

static tide_status is_known(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    noting *n = arg;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status =
        tide_foreign_first(&query, tx, TIDE_TEMPLATE_PEER_UNLIKE_GET->text, err,
                           tide_bind_blob("peer", tide_view_bytes(n->peer->bytes, TIDE_NODE_LEN)));
    TIDE_TRY(status);
    n->is_known = status == TIDE_OK
                      ? tide_view_equal(tide_foreign_col_bytes(query), tide_view_of(n->unlike))
                      : !n->unlike[0];
    return TIDE_OK;
}

static tide_status put_unlike(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const noting *n = arg;
    return tide_foreign_exec(
        tx,
        n->unlike[0] ? TIDE_TEMPLATE_PEER_UNLIKE_PUT->text : TIDE_TEMPLATE_PEER_UNLIKE_CUT->text,
        NULL, err, tide_bind_blob("peer", tide_view_bytes(n->peer->bytes, TIDE_NODE_LEN)),
        TIDE_BIND_IF(n->unlike[0], tide_bind_text("unlike", n->unlike)));
}

tide_status tide_form_note(tide_node *node, const tide_node_id *peer, const char *unlike,
                           tide_error *err)
{
    noting n = {.peer = peer, .unlike = unlike};
    TIDE_TRY(tide_foreign_read(tide_node_file(node), is_known, &n, err));
    return n.is_known ? TIDE_OK : tide_foreign_write(tide_node_file(node), put_unlike, &n, err);
}
