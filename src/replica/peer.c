#include "replica/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "replica/capture.h"
#include "replica/form.h"
#include "replica/schemas.h"
#include "replica/self.h"
#include "tidemark_templates.h"

/* ---- looking at the file ---- */

static tide_status fold_all(tide_node *node, tide_error *err)
{
    enum { TURNS_MAX = 1000000 };
    bool more = true;
    for (int turn = 0; more && turn < TURNS_MAX; turn++) {
        int64_t events = 0;
        TIDE_TRY(tide_node_fold(node, &events, &more, err));
    }
    return TIDE_OK;
}

tide_status tide_peer_look(tide_node *node, tide_capture_found *found, tide_error *err)
{
    tide_capture_found mine = {.lost_tables = 0};
    TIDE_TRY(tide_node_check(node, found ? found : &mine, err));
    return fold_all(node, err);
}

/* ---- tables ---- */

typedef struct telling {
    tide_foreign_tx *tx;
    tide_peer_marks *out;
} telling;

static tide_status tell_table(void *arg, const tide_table *table, tide_error *err)
{
    const telling *t = arg;
    char *sql[TIDE_SYNC_TABLE_SQL_MAX + 1] = {NULL};
    int count = 0;
    tide_status status;
    TIDE_FOREIGN_QUERY(query, t->tx, TIDE_TEMPLATE_PEER_TABLE_SQL->text, err,
                       tide_bind_text("name", table->name));
    while ((status = tide_foreign_step(query, err)) == TIDE_OK && count < TIDE_SYNC_TABLE_SQL_MAX) {
        const tide_view text = tide_foreign_col_bytes(query);
        sql[count] = strndup(text.ptr, text.len);
        if (!sql[count])
            status = tide_no_memory(err);
        if (status < TIDE_OK)
            break;
        count++;
    }
    if (status >= TIDE_OK)
        status = tide_peer_marks_add_table(t->out, table->name, table->schema, table->retain_us,
                                           (const char *const *)sql, err);
    for (int i = 0; i < count; i++)
        free(sql[i]);
    TIDE_TRY(status);
    tide_peer_table *told = &t->out->tables[t->out->table_count - 1];
    TIDE_CLEANUP(tide_buffer_done) tide_buffer form = tide_buffer_of(TIDE_SYNC_SCHEMA_BYTES_MAX);
    if (tide_form_put(&form, table, err) >= TIDE_OK) /* too long to be told: not compared */
        TIDE_TRY(tide_peer_table_set_form(told, tide_buffer_view(&form), err));
    return tide_schemas_tell(t->tx, table->id, table->name, told, err);
}

static tide_status tell_tables(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_peer_marks *out = arg;
    telling t = {.tx = tx, .out = out};
    tide_peer_marks_cut_tables(out); /* a closure may run again */
    return tide_table_list(tx, tell_table, &t, err);
}

tide_status tide_peer_tables(tide_node *node, tide_peer_marks *out, tide_error *err)
{
    return tide_foreign_read(tide_node_file(node), tell_tables, out, err);
}

/* ---- creating ---- */

/* The end of a quoted text, a name or a comment that begins here; the same where none does. */
static const char *skip_quoted(const char *at)
{
    if (at[0] == '-' && at[1] == '-')
        return at + strcspn(at, "\n");
    if (at[0] == '/' && at[1] == '*') {
        const char *end = strstr(at + 2, "*/");
        return end ? end + 2 : at + strlen(at);
    }
    if (!strchr("'\"`[", *at) || !*at)
        return at;
    const char *end = strchr(at + 1, *at == '[' ? ']' : *at);
    return end ? end + 1 : at + strlen(at);
}

static bool is_one_statement(const char *sql)
{
    for (const char *at = sql; *at;) {
        const char *next = skip_quoted(at);
        if (next == at && *at == ';')
            return false;
        at = next == at ? at + 1 : next;
    }
    return true;
}

static bool begins_with(const char *text, const char *start)
{
    return strncasecmp(text, start, strlen(start)) == 0;
}

static bool is_statement(const char *sql, const char *words)
{
    return begins_with(sql, words) && sql[strlen(words)] == ' ';
}

/* The type that sqlite_schema gives what the statement creates; NULL: it may not come from outside. */
static const char *type_of(const char *sql, bool is_first)
{
    if (!is_one_statement(sql))
        return NULL;
    if (is_first)
        return is_statement(sql, "CREATE TABLE") ? "table" : NULL;
    return is_statement(sql, "CREATE INDEX") || is_statement(sql, "CREATE UNIQUE INDEX") ? "index"
                                                                                         : NULL;
}

static tide_status refuse(const tide_peer_table *table, const char *why, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID, "table '%s' of a peer is not created: %s", table->name,
                     why);
}

static tide_status run_statement(tide_foreign_tx *tx, const tide_peer_table *table, const char *sql,
                                 const char *type, tide_error *err)
{
    tide_error why = {.status = TIDE_OK};
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    tide_status status = tide_foreign_script(tx, sql, &why);
    if (status < TIDE_OK)
        return refuse(table, why.text, err);
    status = tide_foreign_first(&query, tx, TIDE_TEMPLATE_PEER_CREATED->text, err,
                                tide_bind_text("sql", sql), tide_bind_text("table", table->name),
                                tide_bind_text("type", type));
    TIDE_TRY(status);
    if (status != TIDE_OK || tide_foreign_col_i64(query) != 1)
        return refuse(table, "its statements create something else", err);
    return TIDE_OK;
}

static bool has_column(const tide_table *table, const char *name, size_t len)
{
    for (int i = 0; i < table->column_count; i++)
        if (strlen(table->columns[i].name) == len &&
            strncasecmp(table->columns[i].name, name, len) == 0)
            return true;
    return false;
}

/* The schema may have the same columns in another order: that in which its node has come to know them. */
static bool is_same_set(const tide_table *made, const tide_peer_table *table)
{
    for (int i = 0; i < table->schema_count; i++) {
        const tide_view names = table->schemas[i].columns;
        int count = 0;
        if (table->schemas[i].schema != table->schema)
            continue;
        for (size_t at = 0; at < names.len; count++) {
            const char *end = memchr(names.ptr + at, '\0', names.len - at);
            const size_t len = end ? (size_t)(end - names.ptr) - at : names.len - at;
            if (!has_column(made, names.ptr + at, len))
                return false;
            at += len + 1;
        }
        return count == made->column_count;
    }
    return false;
}

static tide_status check_made(tide_foreign_tx *tx, const tide_peer_table *table, tide_error *err)
{
    TIDE_CLEANUP(tide_table_done) tide_table made = {.id = 0};
    TIDE_TRY(tide_table_read(&made, tx, table->name, err));
    if (made.schema == table->schema || is_same_set(&made, table))
        return TIDE_OK;
    return refuse(table, "its schema has another digest", err);
}

typedef struct creating {
    const tide_peer_table *table;
    bool stands;
} creating;

static tide_status create_in(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    creating *c = arg;
    const tide_peer_table *table = c->table;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    c->stands = false;
    const tide_status status = tide_foreign_first(&query, tx, TIDE_TEMPLATE_PEER_TABLE_STANDS->text,
                                                  err, tide_bind_text("name", table->name));
    TIDE_TRY(status);
    tide_foreign_reset(query);
    char own[TIDE_EVENT_TABLE_MAX + 1];
    const tide_status is_known = tide_schemas_find_own(own, tx, table, err);
    TIDE_TRY(is_known);
    c->stands = status == TIDE_OK || is_known == TIDE_OK;
    if (c->stands)
        return tide_schemas_learn(tx, table, err);
    for (int i = 0; table->sql[i]; i++) {
        const char *type = type_of(table->sql[i], i == 0);
        if (!type)
            return refuse(table, "only CREATE TABLE and CREATE INDEX may come from a peer", err);
        TIDE_TRY(run_statement(tx, table, table->sql[i], type, err));
    }
    TIDE_TRY(check_made(tx, table, err));
    TIDE_TRY(tide_capture_track_empty(tx, table->name, table->retain_us, err));
    return tide_schemas_learn(tx, table, err);
}

tide_status tide_peer_create(tide_node *node, const tide_peer_table *table, tide_error *err)
{
    creating c = {.table = table};
    if (!table->sql || !table->sql[0])
        return refuse(table, "it does not say how", err);
    if (begins_with(table->name, "tide_") || begins_with(table->name, "sqlite_") ||
        begins_with(table->name, "replication_"))
        return refuse(table, "that name is not an application's", err);
    TIDE_TRY(tide_node_establish(node, err));
    TIDE_TRY(tide_foreign_write(tide_node_file(node), create_in, &c, err));
    return c.stands ? TIDE_NONE : TIDE_OK;
}

/* ---- the peer ---- */

static tide_status add_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    return tide_peer_marks_add(arg, mark, err);
}

static tide_status count_held(tide_node *node, tide_peer_marks *out, tide_error *err)
{
    tide_node_counts counts = {.quarantined = 0};
    TIDE_TRY(tide_node_count_held(node, &counts, err));
    out->quarantined = counts.quarantined;
    out->waiting = counts.waiting;
    return TIDE_OK;
}

static tide_status note_unlike(tide_node *node, const tide_peer_marks *ours,
                               const tide_peer_marks *theirs, tide_error *err)
{
    char unlike[TIDE_SYNC_UNLIKE_MAX];
    tide_form_compare(unlike, ours, theirs);
    return tide_form_note(node, &theirs->node, unlike, err);
}

static tide_status local_marks(void *arg, const tide_peer_marks *others, tide_peer_marks *out,
                               tide_error *err)
{
    tide_node *node = arg;
    tide_self_view self;
    TIDE_TRY(tide_peer_look(node, NULL, err));
    if (others)
        TIDE_TRY(tide_self_compare(node, others, false, &self, err));
    out->node = tide_node_get_id(node);
    out->epoch = tide_node_epoch(node);
    TIDE_TRY(tide_node_marks(node, add_mark, out, err));
    TIDE_TRY(tide_peer_tables(node, out, err));
    TIDE_TRY(tide_peer_marks_sort(out, err));
    TIDE_TRY(count_held(node, out, err));
    if (!others)
        return TIDE_OK;
    if (others->table_count > 0)
        TIDE_TRY(note_unlike(node, out, others, err));
    TIDE_TRY(tide_self_flag(node, others, out, err));
    tide_env *env = tide_foreign_env(tide_node_file(node));
    return tide_node_note_peer(node, &others->node, "", env->wall_us(env) + TIDE_PEER_LEASE_US,
                               others->origins, others->origin_count, err);
}

static tide_status local_offer(void *arg, const tide_peer_table *tables, int count, int *created,
                               tide_error *err)
{
    *created = 0;
    for (int i = 0; i < count; i++) {
        const tide_status status = tide_peer_create(arg, &tables[i], err);
        TIDE_TRY(status);
        *created += status == TIDE_OK;
    }
    return TIDE_OK;
}

static tide_status add_event(void *arg, tide_view event, int64_t seq, int64_t cut_seq,
                             tide_error *err)
{
    (void)seq;
    (void)cut_seq;
    return tide_peer_page_add(arg, event, err);
}

static tide_status local_read(void *arg, const tide_node_id *origin, int64_t epoch, int64_t after,
                              int64_t max_rows, int64_t max_bytes, tide_peer_page *page,
                              tide_error *err)
{
    tide_peer_page_clear(page);
    page->through = after;
    const tide_status status =
        tide_node_read(arg, origin, epoch, after, max_rows, max_bytes, add_event, page,
                       &page->through, &page->has_more, err);
    if (status != TIDE_E_NOT_FOUND)
        return status;
    tide_peer_page_clear(page);
    page->through = after;
    page->needs_snapshot = true;
    return TIDE_OK;
}

static tide_status local_push(void *arg, const tide_origin_mark *mark, const tide_peer_page *page,
                              tide_applied *out, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) tide_view *events = calloc((size_t)page->count + 1, sizeof *events);
    TIDE_NEED_MEMORY(events, err);
    for (int i = 0; i < page->count; i++)
        events[i] = tide_peer_page_event(page, i);
    TIDE_TRY(tide_node_learn(arg, mark, err));
    return tide_node_apply(arg, events, page->count, out, err);
}

static tide_status local_compare(void *arg, const tide_peer_marks *others, bool *has_begun,
                                 bool *differs, tide_error *err)
{
    tide_self_view self;
    TIDE_TRY(tide_self_compare(arg, others, true, &self, err));
    *has_begun = self.has_begun;
    *differs = self.differs;
    return TIDE_OK;
}

tide_peer tide_peer_of_node(tide_node *node, const char *name)
{
    return (tide_peer){.arg = node,
                       .name = name,
                       .marks = local_marks,
                       .compare = local_compare,
                       .offer = local_offer,
                       .read = local_read,
                       .push = local_push};
}

/* ---- who they are ---- */

typedef struct listing {
    tide_peer_seen_fn *fn;
    tide_peer_mark_fn *mark_fn;
    void *arg;
} listing;

static bool read_node(tide_node_id *out, tide_view bytes)
{
    if (bytes.len != TIDE_NODE_LEN)
        return false;
    memcpy(out->bytes, bytes.ptr, TIDE_NODE_LEN);
    return true;
}

static tide_status list_marks(tide_foreign_tx *tx, const listing *l, const tide_node_id *peer,
                              tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_PEER_MARK_LIST->text, err,
                       tide_bind_blob("peer", tide_view_bytes(peer->bytes, TIDE_NODE_LEN)));
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_node_id origin;
        if (!read_node(&origin, tide_foreign_col_bytes(query)))
            continue;
        const int64_t epoch = tide_foreign_col_i64(query);
        const int64_t mark = tide_foreign_col_i64(query);
        TIDE_TRY(l->mark_fn(l->arg, peer, &origin, epoch, mark, err));
    }
    return TIDE_OK;
}

static tide_status list_peers(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const listing *l = arg;
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_PEER_LIST->text, err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_peer_seen peer = {.name = ""};
        if (!read_node(&peer.node, tide_foreign_col_bytes(query)))
            continue;
        const tide_view name = tide_foreign_col_bytes(query);
        (void)snprintf(peer.name, sizeof peer.name, "%.*s", (int)(name.len < 255 ? name.len : 255),
                       name.ptr ? name.ptr : "");
        peer.seen_at_us = tide_foreign_col_i64(query);
        peer.expires_at_us = tide_foreign_col_i64(query);
        const tide_view unlike = tide_foreign_col_bytes(query);
        (void)snprintf(peer.unlike, sizeof peer.unlike, "%.*s",
                       (int)(unlike.len < sizeof peer.unlike ? unlike.len : 0),
                       unlike.ptr ? unlike.ptr : "");
        TIDE_TRY(l->fn(l->arg, &peer, err));
        TIDE_TRY(list_marks(tx, l, &peer.node, err));
    }
    return TIDE_OK;
}

tide_status tide_peer_list(tide_node *node, tide_peer_seen_fn *fn, tide_peer_mark_fn *mark_fn,
                           void *arg, tide_error *err)
{
    listing l = {.fn = fn, .mark_fn = mark_fn, .arg = arg};
    return tide_foreign_read(tide_node_file(node), list_peers, &l, err);
}

/* ---- how far tables are ---- */

typedef struct cursors {
    tide_peer_cursor_fn *fn;
    void *arg;
} cursors;

static tide_status tell_cursor(const cursors *c, tide_foreign_query *query, tide_error *err)
{
    char table[TIDE_EVENT_TABLE_MAX + 1];
    tide_node_id origin;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor cursor = {.contiguous = 0};
    const tide_view name = tide_foreign_col_bytes(query);
    (void)snprintf(table, sizeof table, "%.*s",
                   (int)(name.len < sizeof table ? name.len : sizeof table - 1),
                   name.ptr ? name.ptr : "");
    if (!read_node(&origin, tide_foreign_col_bytes(query)))
        return TIDE_OK;
    const int64_t epoch = tide_foreign_col_i64(query);
    TIDE_TRY(
        tide_cursor_decode(&cursor, tide_foreign_col_bytes(query), TIDE_CURSOR_HOLES_USUAL, err));
    return c->fn(c->arg, table, &origin, epoch, &cursor, err);
}

static tide_status tell_cursors(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_PEER_CURSOR_LIST->text, err);
    TIDE_EACH(tide_foreign_step(query, err))
        TIDE_TRY(tell_cursor(arg, query, err));
    return TIDE_OK;
}

tide_status tide_peer_cursors(tide_node *node, tide_peer_cursor_fn *fn, void *arg, tide_error *err)
{
    cursors c = {.fn = fn, .arg = arg};
    return tide_foreign_read(tide_node_file(node), tell_cursors, &c, err);
}
