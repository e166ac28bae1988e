#include "store/foreign/foreign_triggers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "store/foreign/foreign_internal.h"
#include "store/sql_template.h"
#include "tidemark_templates.h"

enum { TEXT_MAX = 1 << 24, NAME_SIZE = 64, WHY_SIZE = 1024 };

typedef struct trigger {
    char *name;
    char *table;
    char *sql;
    bool is_of_view;
    bool is_reached; /* a write of a tracked table fires it, directly or through copies */
    tide_trigger_kind kind;
    char **writes; /* tables, by name */
    int write_count;
    char why[WHY_SIZE];
} trigger;

struct tide_foreign_triggers {
    int64_t version; /* of the schema that the copies are of; -1: there are none */
    bool is_new;     /* made in this transaction: they are gone if it fails */
    bool is_muted;
    trigger *list;
    int count;
    int copy_count; /* that run */
    trigger *asked; /* whose writes are collected; NULL: none */
    char failure[WHY_SIZE];
};

/* ---- the text of a trigger ---- */

typedef struct token {
    const char *at;
    size_t len;
    bool is_word; /* a keyword or a name without quotes */
} token;

static bool is_word_byte(char byte)
{
    const unsigned char c = (unsigned char)byte;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c >= 0x80;
}

static const char *skip_blanks(const char *at)
{
    for (;;) {
        if (*at == ' ' || (*at >= '\t' && *at <= '\r')) {
            at++;
        } else if (at[0] == '-' && at[1] == '-') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

static const char *skip_quoted(const char *at)
{
    const char end = *at == '[' ? ']' : *at;
    for (at++; *at; at++) {
        if (*at != end)
            continue;
        if (end == ']' || at[1] != end)
            return at + 1;
        at++;
    }
    return at;
}

/* False: the end. */
static bool next_token(token *out, const char **from)
{
    const char *at = skip_blanks(*from);
    const char *end = at;
    out->is_word = is_word_byte(*at);
    if (*at == '\0')
        return false;
    if (out->is_word)
        while (is_word_byte(*end))
            end++;
    else if (strchr("'\"`[", *at))
        end = skip_quoted(at);
    else
        end = at + 1;
    out->at = at;
    out->len = (size_t)(end - at);
    *from = end;
    return true;
}

static bool is_keyword(const token *t, const char *word)
{
    return t->is_word && t->len == strlen(word) && sqlite3_strnicmp(t->at, word, (int)t->len) == 0;
}

/* What of its text a copy has: between its name and ON; WHEN; BEGIN and everything behind. */
typedef struct parts {
    char *head;
    char *guard; /* NULL: none */
    char *body;
    const char *event; /* "insert", "update", "delete" */
} parts;

static void parts_done(parts *p)
{
    free(p->head);
    free(p->guard);
    free(p->body);
}

static char *copy_between(const char *from, const char *to)
{
    return strndup(from, (size_t)(to - from));
}

/* The token behind a name, which may have a schema in front. */
static bool skip_name(token *t, const char **at)
{
    if (!next_token(t, at))
        return false;
    while (t->len == 1 && *t->at == '.')
        for (int i = 0; i < 2; i++) /* the name, and what follows it */
            if (!next_token(t, at))
                return false;
    return true;
}

static void read_event(parts *out, const token *t)
{
    static const char *const events[] = {"insert", "update", "delete"};
    for (size_t i = 0; !out->event && i < sizeof events / sizeof *events; i++)
        if (is_keyword(t, events[i]))
            out->event = events[i];
}

/* TIDE_NONE: it does not read as a trigger. */
static tide_status cut_text(parts *out, const char *sql, tide_error *err)
{
    const char *at = sql;
    token t = {.len = 0};
    while (next_token(&t, &at) && !is_keyword(&t, "trigger")) {
    }
    if (!next_token(&t, &at))
        return TIDE_NONE;
    if (is_keyword(&t, "if")) /* IF NOT EXISTS */
        for (int i = 0; i < 3; i++)
            if (!next_token(&t, &at))
                return TIDE_NONE;
    if (!skip_name(&t, &at))
        return TIDE_NONE;
    const char *head = t.at;
    while (!is_keyword(&t, "on")) {
        read_event(out, &t);
        if (!next_token(&t, &at))
            return TIDE_NONE;
    }
    const char *head_end = t.at;
    if (!next_token(&t, &at) || !skip_name(&t, &at))
        return TIDE_NONE;
    const char *guard = NULL;
    for (bool is_dotted = false;
         is_dotted || !is_keyword(&t, "begin");) { /* NEW.begin is a column */
        if (!guard && !is_dotted && is_keyword(&t, "when"))
            guard = at;
        is_dotted = t.len == 1 && *t.at == '.';
        if (!next_token(&t, &at))
            return TIDE_NONE;
    }
    out->head = copy_between(head, head_end);
    out->guard = guard ? copy_between(guard, t.at) : NULL;
    out->body = strdup(t.at);
    if (!out->head || !out->body || (guard && !out->guard))
        return tide_no_memory(err);
    return out->event ? TIDE_OK : TIDE_NONE;
}

static bool has_raise(const char *sql)
{
    token t;
    while (next_token(&t, &sql))
        if (is_keyword(&t, "raise") && *skip_blanks(sql) == '(')
            return true;
    return false;
}

/* ---- statements ---- */

static tide_status fill(tide_buffer *out, const tide_template *template, const char *name,
                        const char *table, const tide_template_list *lists, int list_count,
                        tide_error *err)
{
    const tide_template_value values[] = {{.hole = "name", .name = name},
                                          {.hole = "table", .name = table}};
    const tide_template_context context = {
        .values = values, .value_count = 2, .lists = lists, .list_count = list_count};
    return tide_template_fill(out, template, &context, err);
}

static void name_copy(char out[NAME_SIZE], int index)
{
    (void)snprintf(out, NAME_SIZE, "tide_trigger_%d", index);
}

static tide_status drop_copy(tide_foreign_tx *tx, int index, tide_error *err)
{
    char name[NAME_SIZE];
    name_copy(name, index);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TEXT_MAX);
    TIDE_TRY(fill(&text, TIDE_TEMPLATE_APP_TRIGGER_DROP, name, "", NULL, 0, err));
    return tide_foreign_run_script(tx->connection, tide_buffer_text(&text), err);
}

static tide_status make_copy(tide_foreign_tx *tx, const trigger *of, const parts *p, int index,
                             tide_error *err)
{
    char name[NAME_SIZE];
    name_copy(name, index);
    const tide_template_item items[] = {{.name = "", .sql = p->head},
                                        {.name = "", .sql = p->guard ? p->guard : ""},
                                        {.name = "", .sql = p->body}};
    const tide_template_list lists[] = {{.hole = "head", .items = &items[0], .count = 1},
                                        {.hole = "guard", .items = &items[1], .count = !!p->guard},
                                        {.hole = "body", .items = &items[2], .count = 1}};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TEXT_MAX);
    TIDE_TRY(fill(&text, TIDE_TEMPLATE_APP_TRIGGER_COPY, name, of->table, lists, 3, err));
    return tide_foreign_run_script(tx->connection, tide_buffer_text(&text), err);
}

/* ---- what a trigger writes ---- */

static void free_names(char **names, int count)
{
    for (int i = 0; i < count; i++)
        free(names[i]);
    free((void *)names);
}

static bool is_among(char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (sqlite3_stricmp(names[i], name) == 0)
            return true;
    return false;
}

static tide_status add_write(trigger *to, const char *table)
{
    if (is_among(to->writes, to->write_count, table))
        return TIDE_OK;
    TIDE_TRY(
        tide_list_room((void *)&to->writes, to->write_count, sizeof(char *), TIDE_LIST_MAX, NULL));
    char *copy = strdup(table);
    if (!copy)
        return TIDE_E_NOMEM;
    to->writes[to->write_count++] = copy;
    return TIDE_OK;
}

bool tide_foreign_is_collecting(const tide_foreign_connection *connection)
{
    return connection->triggers && connection->triggers->asked;
}

/* by: the innermost trigger. Writes of another copy are that one's, unless it is a view's. */
int tide_foreign_collect(tide_foreign_connection *connection, int action, const char *table,
                         const char *by)
{
    const tide_foreign_triggers *all = connection->triggers;
    trigger *asked = all->asked;
    if (!by || (action != SQLITE_INSERT && action != SQLITE_UPDATE && action != SQLITE_DELETE))
        return SQLITE_OK;
    char name[NAME_SIZE];
    bool is_counted = false;
    for (int i = 0; !is_counted && i < all->count; i++) {
        name_copy(name, i);
        is_counted = strcmp(name, by) == 0 && (&all->list[i] == asked || all->list[i].is_of_view);
    }
    return is_counted && add_write(asked, table) < TIDE_OK ? SQLITE_DENY : SQLITE_OK;
}

static tide_status list_columns(char ***out, int *count, tide_foreign_tx *tx, const char *table,
                                tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_APP_TRIGGER_COLUMNS->text, err,
                       tide_bind_text("name", table));
    TIDE_EACH(tide_foreign_step(query, err)) {
        const tide_view name = tide_foreign_col_bytes(query);
        TIDE_TRY(tide_list_room((void *)out, *count, sizeof(char *), TIDE_LIST_MAX, err));
        char *copy = strndup(name.ptr, name.len);
        TIDE_NEED_MEMORY(copy, err);
        (*out)[(*count)++] = copy;
    }
    return TIDE_OK;
}

static tide_status put_update(tide_buffer *out, tide_foreign_tx *tx, const char *table,
                              tide_error *err)
{
    char **names = NULL;
    int count = 0;
    tide_status status = list_columns(&names, &count, tx, table, err);
    tide_template_item *items = calloc((size_t)count + 1, sizeof *items);
    if (status == TIDE_OK && !items)
        status = tide_no_memory(err);
    if (status == TIDE_OK) {
        for (int i = 0; i < count; i++)
            items[i] = (tide_template_item){.name = names[i]};
        const tide_template_list columns = {.hole = "columns", .items = items, .count = count};
        status = fill(out, TIDE_TEMPLATE_APP_TRIGGER_UPDATE, "", table, &columns, 1, err);
    }
    free(items);
    free_names(names, count);
    return status;
}

/* Prepare a write that fires it, with the copy in place. */
static tide_status collect_writes(tide_foreign_tx *tx, trigger *of, const parts *p, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(TEXT_MAX);
    if (p->event[0] == 'u')
        TIDE_TRY(put_update(&text, tx, of->table, err));
    else
        TIDE_TRY(fill(&text,
                      p->event[0] == 'i' ? TIDE_TEMPLATE_APP_TRIGGER_INSERT
                                         : TIDE_TEMPLATE_APP_TRIGGER_DELETE,
                      "", of->table, NULL, 0, err));
    tide_foreign_connection *connection = tx->connection;
    sqlite3_stmt *statement = NULL;
    connection->triggers->asked = of;
    const int code =
        sqlite3_prepare_v2(connection->db, tide_buffer_text(&text), -1, &statement, NULL);
    connection->triggers->asked = NULL;
    (void)sqlite3_finalize(statement);
    if (code == SQLITE_NOMEM)
        return tide_no_memory(err);
    if (code != SQLITE_OK) {
        of->kind = TIDE_TRIGGER_UNKNOWN;
        (void)snprintf(of->why, sizeof of->why,
                       "trigger %s of table %s cannot run here: %s; without it rows of peers would "
                       "leave behind what it writes",
                       of->name, of->table, sqlite3_errmsg(connection->db));
    }
    return TIDE_OK;
}

static void judge(tide_foreign_tx *tx, trigger *of, tide_foreign_tracked_fn *is_tracked, void *arg)
{
    const char *tracked = NULL;
    const char *other = NULL;
    for (int i = 0; i < of->write_count; i++) {
        const char *table = of->writes[i];
        if (is_tracked(arg, table))
            tracked = table;
        else if (sqlite3_table_column_metadata(tx->connection->db, "main", table, NULL, NULL, NULL,
                                               NULL, NULL, NULL) == SQLITE_OK) /* not a view */
            other = table;
    }
    of->kind = other ? TIDE_TRIGGER_RUNS : TIDE_TRIGGER_OFF;
    if (!other)
        return;
    if (tracked) {
        of->kind = TIDE_TRIGGER_MIXED;
        (void)snprintf(of->why, sizeof of->why,
                       "trigger %s of table %s writes table %s, which is tracked, and table %s, "
                       "which is not; split it in two, or track both",
                       of->name, of->table, tracked, other);
    } else if (has_raise(of->sql)) {
        of->kind = TIDE_TRIGGER_MIXED;
        (void)snprintf(of->why, sizeof of->why,
                       "trigger %s of table %s may refuse rows (RAISE) and writes table %s; split "
                       "it in two",
                       of->name, of->table, other);
    }
}

static tide_status copy_trigger(tide_foreign_tx *tx, trigger *of, int index,
                                tide_foreign_tracked_fn *is_tracked, void *arg, tide_error *err)
{
    TIDE_CLEANUP(parts_done) parts p = {.head = NULL};
    const tide_status status = cut_text(&p, of->sql, err);
    TIDE_TRY(status);
    of->kind = TIDE_TRIGGER_OFF;
    if (status == TIDE_NONE)
        return TIDE_OK;
    tide_error why = {.status = TIDE_OK};
    if (make_copy(tx, of, &p, index, &why) < TIDE_OK) {
        of->kind = TIDE_TRIGGER_UNKNOWN;
        (void)snprintf(of->why, sizeof of->why, "trigger %s of table %s cannot run here: %s",
                       of->name, of->table, why.text);
        return TIDE_OK;
    }
    if (of->is_of_view)
        return TIDE_OK; /* part of those that write the view */
    TIDE_TRY(collect_writes(tx, of, &p, err));
    if (of->kind != TIDE_TRIGGER_UNKNOWN)
        judge(tx, of, is_tracked, arg);
    if (of->kind != TIDE_TRIGGER_RUNS)
        return drop_copy(tx, index, err);
    tx->connection->triggers->copy_count++;
    return TIDE_OK;
}

/* ---- all of them ---- */

static void forget(tide_foreign_triggers *all)
{
    for (int i = 0; i < all->count; i++) {
        trigger *one = &all->list[i];
        free(one->name);
        free(one->table);
        free(one->sql);
        free_names(one->writes, one->write_count);
    }
    free(all->list);
    all->list = NULL;
    all->count = 0;
    all->copy_count = 0;
}

static tide_status list_triggers(tide_foreign_triggers *all, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_APP_TRIGGERS->text, err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_TRY(tide_list_room(&all->list, all->count, sizeof *all->list, TIDE_LIST_MAX, err));
        trigger *one = &all->list[all->count++];
        *one = (trigger){.kind = TIDE_TRIGGER_OFF};
        const tide_view name = tide_foreign_col_bytes(query);
        one->name = strndup(name.ptr, name.len);
        const tide_view table = tide_foreign_col_bytes(query);
        one->table = strndup(table.ptr, table.len);
        const tide_view sql = tide_foreign_col_bytes(query);
        one->sql = strndup(sql.ptr, sql.len);
        one->is_of_view = tide_foreign_col_i64(query) != 0;
        TIDE_NEED_MEMORY(one->name && one->table && one->sql, err);
    }
    return TIDE_OK;
}

/* Triggers of tracked tables, then those of tables that copies write, and so on. */
static void reach(tide_foreign_triggers *all, tide_foreign_tracked_fn *is_tracked, void *arg)
{
    for (bool is_more = true; is_more;) {
        is_more = false;
        for (int i = 0; i < all->count; i++) {
            trigger *one = &all->list[i];
            bool is_reached = is_tracked(arg, one->table);
            for (int k = 0; !is_reached && k < all->count; k++)
                is_reached = all->list[k].is_reached && all->list[k].kind == TIDE_TRIGGER_RUNS &&
                             is_among(all->list[k].writes, all->list[k].write_count, one->table);
            is_more = is_more || (is_reached && !one->is_reached);
            one->is_reached = one->is_reached || is_reached;
        }
    }
}

static tide_status copy_all(tide_foreign_tx *tx, tide_foreign_tracked_fn *is_tracked, void *arg,
                            tide_error *err)
{
    tide_foreign_triggers *all = tx->connection->triggers;
    for (int i = 0; i < all->count; i++)
        TIDE_TRY(drop_copy(tx, i, err));
    forget(all);
    TIDE_TRY(list_triggers(all, tx, err));
    for (int i = 0; i < all->count; i++)
        TIDE_TRY(copy_trigger(tx, &all->list[i], i, is_tracked, arg, err));
    reach(all, is_tracked, arg);
    return TIDE_OK;
}

static void may_run(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    const tide_foreign_triggers *all = sqlite3_user_data(context);
    sqlite3_result_int(context, !all->is_muted);
}

static tide_status begin_copies(tide_foreign_connection *connection, tide_error *err)
{
    TIDE_ALLOC(connection->triggers, 1, err);
    connection->triggers->version = -1;
    const int code = sqlite3_create_function(connection->db, "tide_triggers_run", 0,
                                             SQLITE_UTF8 | SQLITE_INNOCUOUS, connection->triggers,
                                             may_run, NULL, NULL);
    return code == SQLITE_OK ? TIDE_OK : tide_foreign_fail(err, connection, code);
}

tide_status tide_foreign_copy_triggers(tide_foreign_tx *tx, tide_foreign_tracked_fn *is_tracked,
                                       void *arg, tide_error *err)
{
    int64_t version = 0;
    if (!tx->is_write)
        return TIDE_OK;
    if (!tx->connection->triggers)
        TIDE_TRY(begin_copies(tx->connection, err));
    tide_foreign_triggers *all = tx->connection->triggers;
    TIDE_TRY(tide_foreign_number_of(tx->connection, "PRAGMA main.schema_version", &version, err));
    if (version == all->version)
        return TIDE_OK;
    all->is_new = true;
    TIDE_TRY(copy_all(tx, is_tracked, arg, err));
    all->version = version;
    return TIDE_OK;
}

void tide_foreign_triggers_end(tide_foreign_connection *connection, bool is_committed)
{
    tide_foreign_triggers *all = connection->triggers;
    if (!all)
        return;
    if (all->is_new && !is_committed)
        all->version = -1;
    all->is_new = false;
    all->is_muted = false;
}

void tide_foreign_triggers_free(tide_foreign_triggers *all)
{
    if (all)
        forget(all);
    free(all);
}

/* ---- reports, runs ---- */

tide_status tide_foreign_trigger_problem(tide_foreign_tx *tx, char *out, size_t size,
                                         tide_error *err)
{
    const tide_foreign_triggers *all = tx->connection->triggers;
    (void)err;
    for (int i = 0; all && i < all->count; i++)
        if (all->list[i].is_reached && all->list[i].why[0]) {
            (void)snprintf(out, size, "%s", all->list[i].why);
            return TIDE_OK;
        }
    return TIDE_NONE;
}

bool tide_foreign_trigger_failure(tide_foreign_tx *tx, char *out, size_t size)
{
    tide_foreign_triggers *all = tx->connection->triggers;
    if (!all || !all->failure[0])
        return false;
    (void)snprintf(out, size, "%s", all->failure);
    all->failure[0] = '\0';
    return true;
}

void tide_foreign_mute_triggers(tide_foreign_tx *tx, bool is_muted)
{
    if (tx->connection->triggers)
        tx->connection->triggers->is_muted = is_muted;
}

/* Of these SQLite may have undone the whole transaction; and waiting is for callers. */
static bool is_of_machine(tide_status status)
{
    return status == TIDE_E_FULL || status == TIDE_E_NOMEM || status == TIDE_E_BUSY ||
           status == TIDE_E_IO;
}

tide_status tide_foreign_run_row(tide_foreign_query *query, tide_error *err)
{
    tide_foreign_triggers *all = query->tx->connection->triggers;
    tide_error why = {.status = TIDE_OK};
    const tide_status status = tide_foreign_run(query, NULL, &why);
    if (status >= TIDE_OK)
        return status;
    if (!all || all->copy_count == 0 || all->is_muted || is_of_machine(status))
        return tide_fail(err, status, "%s", why.text);
    all->is_muted = true;
    const tide_status again = tide_foreign_run(query, NULL, err);
    all->is_muted = false;
    if (again >= TIDE_OK)
        (void)snprintf(all->failure, sizeof all->failure, "%s", why.text);
    return again;
}
