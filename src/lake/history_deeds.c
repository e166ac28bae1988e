/* history_deeds.c - no two commits both happened that could not see each other and collide: rule conflict. See history.h.
 *
 * What a commit did comes from its list of changes; new names and deleted files, which the list does not name by id, from its rows. Going along the
 * line, a map holds who left each mark last: a commit collides when something that it fears was left after its base. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/json_scan.h"
#include "lake/history_parts.h"
#include "lake/mark.h"
#include "lake/mark_map.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { DEEDS_PAGE = 5000, MARKS_BYTES_MAX = 1 << 20, PAGE_BYTES_MAX = 256 << 20 };

typedef struct commit {
    int64_t snapshot_id;
    int64_t base_id;
    int64_t parent_id;
    const char *changes; /* in the page's arena */
} commit;

/* A page of commits, and their rows behind them, in the same order. */
typedef struct page {
    tide_arena arena;
    commit *commits;
    int count;
    tide_query *begun;
    tide_query *deleted;
    int64_t begun_at; /* of the row that waits; INT64_MAX: none */
    int64_t deleted_at;
} page;

static void page_done(page *p)
{
    tide_query_end(p->begun);
    tide_query_end(p->deleted);
    free(p->commits);
    tide_arena_done(&p->arena);
}

typedef struct digests {
    tide_digest128 *all;
    size_t count;
} digests;

typedef struct ids {
    int64_t *all;
    size_t count;
} ids;

typedef struct deeds {
    tide_history *h;
    tide_mark_map last;
    tide_buffer inside; /* marks, as mark.h writes them */
    tide_buffer text;   /* the same as an array */
    const commit *commit;
    digests leaves; /* of the commit under way */
    ids deleted;    /* tables that it deleted rows of */
} deeds;

static void deeds_done(deeds *d)
{
    tide_mark_map_done(&d->last);
    tide_buffer_done(&d->inside);
    tide_buffer_done(&d->text);
    free(d->leaves.all);
    free(d->deleted.all);
}

static tide_status keep_leave(deeds *d, tide_view mark, tide_error *err)
{
    TIDE_TRY(tide_list_room(&d->leaves.all, (int64_t)d->leaves.count, sizeof *d->leaves.all,
                            TIDE_LIST_MAX, err));
    d->leaves.all[d->leaves.count++] = tide_digest128_of(mark);
    return TIDE_OK;
}

static tide_status check_fear(deeds *d, tide_view mark, tide_error *err)
{
    (void)err;
    const tide_digest128 digest = tide_digest128_of(mark);
    const int64_t left = tide_mark_map_get(&d->last, &digest);
    if (left > d->commit->base_id)
        tide_history_tell(d->h, "conflict", d->commit->snapshot_id,
                          "snapshot %" PRId64 ", made from %" PRId64 ", and %" PRId64
                          ", which it had not seen, collide in %.*s",
                          d->commit->snapshot_id, d->commit->base_id, left, (int)mark.len,
                          mark.ptr);
    return TIDE_OK;
}

/* Every string of d->text, with its quotes. */
static tide_status each_mark(deeds *d, tide_status (*fn)(deeds *d, tide_view mark, tide_error *err),
                             tide_error *err)
{
    tide_json_scan scan;
    tide_json_scan_init(&scan, tide_buffer_view(&d->text));
    for (;;) {
        tide_json_token token;
        TIDE_TRY(tide_json_scan_next(&scan, &token, err));
        if (token.kind == TIDE_JSON_END)
            return TIDE_OK;
        if (token.kind == TIDE_JSON_STRING)
            TIDE_TRY(fn(d, token.text, err));
    }
}

typedef tide_status mark_fn(const tide_lake_deed *deed, tide_buffer *out, tide_error *err);

static tide_status marks_of(deeds *d, const tide_lake_deed *deed, mark_fn *of, tide_error *err)
{
    tide_buffer_clear(&d->inside);
    tide_buffer_clear(&d->text);
    TIDE_TRY(of(deed, &d->inside, err));
    if (tide_buffer_printf(&d->text, "[%s]", tide_buffer_text(&d->inside)) < TIDE_OK)
        return tide_no_memory(err);
    return TIDE_OK;
}

static tide_status take_deed(deeds *d, const tide_lake_deed *deed, tide_error *err)
{
    if (d->commit->base_id < d->commit->parent_id) {
        TIDE_TRY(marks_of(d, deed, tide_lake_deed_fears, err));
        TIDE_TRY(each_mark(d, check_fear, err));
    }
    TIDE_TRY(marks_of(d, deed, tide_lake_deed_leaves, err));
    return each_mark(d, keep_leave, err);
}

static tide_status take_change(void *arg, const tide_lake_deed *deed, const char *schema_name,
                               tide_error *err)
{
    (void)schema_name;
    deeds *d = arg;
    switch (deed->act) {
    case TIDE_LAKE_CREATE_SCHEMA:
    case TIDE_LAKE_CREATE_TABLE:
    case TIDE_LAKE_CREATE_VIEW:
        return TIDE_OK; /* their rows say more */
    case TIDE_LAKE_DELETE:
        TIDE_TRY(tide_list_room(&d->deleted.all, (int64_t)d->deleted.count, sizeof *d->deleted.all,
                                TIDE_LIST_MAX, err));
        d->deleted.all[d->deleted.count++] = deed->object_id;
        return take_deed(d, deed, err);
    case TIDE_LAKE_DROP_SCHEMA:
    case TIDE_LAKE_DROP_TABLE:
    case TIDE_LAKE_DROP_VIEW:
    case TIDE_LAKE_RENAME:
    case TIDE_LAKE_ALTER:
    case TIDE_LAKE_INSERT:
    case TIDE_LAKE_DELETE_FILE:
    case TIDE_LAKE_COMPACT:
    case TIDE_LAKE_INLINED_DELETE:
    case TIDE_LAKE_FLUSH:
    case TIDE_LAKE_ACT_COUNT:
        break;
    }
    return take_deed(d, deed, err);
}

/* ---- rows, merged with the commits ---- */

static tide_status next_row(tide_query *query, int64_t *at, tide_error *err)
{
    const tide_status status = tide_query_step(query, err);
    TIDE_TRY(status);
    *at = status == TIDE_NONE ? INT64_MAX : tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status take_begun(deeds *d, tide_query *query, tide_error *err)
{
    const int64_t kind = tide_query_col_i64(query);
    tide_lake_deed deed = {.schema_id = tide_query_col_i64(query)};
    deed.object_id = tide_query_col_i64(query);
    TIDE_CLEANUP(tide_freep) char *name = NULL;
    const tide_view text = tide_query_col_text(query);
    name = strndup(text.len > 0 ? text.ptr : "", text.len);
    TIDE_NEED_MEMORY(name, err);
    deed.name = name;
    const bool is_first = tide_query_col_bool(query);
    if (kind == TIDE_LAKE_SCHEMA)
        deed.act = TIDE_LAKE_CREATE_SCHEMA;
    else if (!is_first)
        deed.act = TIDE_LAKE_RENAME;
    else
        deed.act = kind == TIDE_LAKE_TABLE ? TIDE_LAKE_CREATE_TABLE : TIDE_LAKE_CREATE_VIEW;
    return take_deed(d, &deed, err);
}

static tide_status take_deleted(deeds *d, tide_query *query, tide_error *err)
{
    const int64_t table_id = tide_query_col_i64(query);
    const tide_lake_deed deed = {
        .act = TIDE_LAKE_DELETE_FILE, .object_id = tide_query_col_i64(query), .name = ""};
    for (size_t i = 0; i < d->deleted.count; i++)
        if (d->deleted.all[i] == table_id)
            return take_deed(d, &deed, err);
    return TIDE_OK;
}

/* Rows of commits that are expired are passed by. */
static tide_status take_rows(deeds *d, page *p, tide_error *err)
{
    const int64_t snapshot = d->commit->snapshot_id;
    while (p->begun_at <= snapshot) {
        if (p->begun_at == snapshot)
            TIDE_TRY(take_begun(d, p->begun, err));
        TIDE_TRY(next_row(p->begun, &p->begun_at, err));
    }
    while (p->deleted_at <= snapshot) {
        if (p->deleted_at == snapshot)
            TIDE_TRY(take_deleted(d, p->deleted, err));
        TIDE_TRY(next_row(p->deleted, &p->deleted_at, err));
    }
    return TIDE_OK;
}

static tide_status take_commit(deeds *d, page *p, const commit *c, tide_error *err)
{
    d->commit = c;
    d->leaves.count = 0;
    d->deleted.count = 0;
    tide_error parse_err = {0};
    const tide_status status = tide_lake_changes_parse(c->changes, take_change, d, &parse_err);
    if (status == TIDE_E_INVALID) {
        tide_history_tell(d->h, "conflict", c->snapshot_id,
                          "snapshot %" PRId64
                          " says what it changed in words that are not DuckLake's: %s",
                          c->snapshot_id, parse_err.text);
    } else if (status < TIDE_OK) {
        *err = parse_err;
        return status;
    }
    TIDE_TRY(take_rows(d, p, err));
    for (size_t i = 0; i < d->leaves.count; i++)
        TIDE_TRY(tide_mark_map_put(&d->last, &d->leaves.all[i], c->snapshot_id, err));
    return TIDE_OK;
}

/* ---- pages ---- */

static tide_status read_commits(page *p, tide_history *h, int64_t after, tide_error *err)
{
    TIDE_ALLOC(p->commits, DEEDS_PAGE, err);
    TIDE_QUERY(query, h->tx, TIDE_LAKE_SQL_CHECK_CHANGES, err,
               tide_bind_i64("catalog", h->catalog_id), tide_bind_i64("after", after),
               tide_bind_i64("limit", DEEDS_PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        commit *c = &p->commits[p->count++];
        c->snapshot_id = tide_query_col_i64(query);
        c->base_id = tide_query_col_i64(query);
        c->parent_id = tide_query_col_i64(query);
        c->changes = tide_arena_text(&p->arena, tide_query_col_text(query));
        TIDE_NEED_MEMORY(c->changes, err);
    }
    return TIDE_OK;
}

static tide_status open_rows(tide_query **out, const page *p, tide_history *h, const tide_sql *sql,
                             int64_t after, int64_t *at, tide_error *err)
{
    TIDE_TRY(tide_query_start(out, h->tx, sql, err, tide_bind_i64("catalog", h->catalog_id),
                              tide_bind_i64("after", after),
                              tide_bind_i64("upto", p->commits[p->count - 1].snapshot_id)));
    return next_row(*out, at, err);
}

/* *after: the last commit of the page, or -1 at the end. */
static tide_status take_page(deeds *d, int64_t *after, tide_error *err)
{
    TIDE_CLEANUP(page_done) page p = {0};
    tide_arena_init(&p.arena, PAGE_BYTES_MAX);
    TIDE_TRY(read_commits(&p, d->h, *after, err));
    const int64_t start = *after;
    *after = -1;
    if (p.count == 0)
        return TIDE_OK;
    TIDE_TRY(open_rows(&p.begun, &p, d->h, TIDE_LAKE_SQL_CHECK_BEGUN, start, &p.begun_at, err));
    TIDE_TRY(
        open_rows(&p.deleted, &p, d->h, TIDE_LAKE_SQL_CHECK_DELETED, start, &p.deleted_at, err));
    for (int i = 0; i < p.count; i++)
        TIDE_TRY(take_commit(d, &p, &p.commits[i], err));
    if (p.count == DEEDS_PAGE)
        *after = p.commits[p.count - 1].snapshot_id;
    return TIDE_OK;
}

tide_status tide_history_check_deeds(tide_history *h, tide_error *err)
{
    TIDE_CLEANUP(deeds_done) deeds d = {.h = h};
    tide_buffer_init(&d.inside, MARKS_BYTES_MAX);
    tide_buffer_init(&d.text, MARKS_BYTES_MAX + 2);
    for (int64_t after = 0; after >= 0;)
        TIDE_TRY(take_page(&d, &after, err));
    return TIDE_OK;
}
