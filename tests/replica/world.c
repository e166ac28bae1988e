#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* ---- nodes ---- */

static void open_node(world *w, int index)
{
    world_node *n = &w->nodes[index];
    const tide_node_options options = {.env = &n->env.env};
    assert_ok_err(tide_node_open(&n->node, n->path, &options, &w->err), &w->err);
}

void world_init(world *w, int count, uint64_t seed, const char *schema, const char *const *tables,
                int64_t retain_us)
{
    char state[TEMPDIR_PATH_MAX];
    *w = (world){.count = count};
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 1);
    assert_ok_err(tempdir_make(&w->dir, &w->err), &w->err);
    tempdir_join(&w->dir, "state", state);
    (void)setenv("TIDEMARK_STATE_DIR", state, 1);
    for (int i = 0; i < count; i++) {
        world_node *n = &w->nodes[i];
        char name[32];
        (void)snprintf(name, sizeof name, "node%d.db", i);
        tempdir_join(&w->dir, name, n->path);
        virtual_env_init(&n->env, seed * 16 + (uint64_t)i);
        virtual_env_advance(&n->env, 1000 * (7 * i + 1));
        assert_int_equal(SQLITE_OK, sqlite3_open(n->path, &n->writer));
        assert_int_equal(SQLITE_OK, sqlite3_busy_timeout(n->writer, 10000));
        world_run(w, i, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
        world_run(w, i, "%s", schema);
        open_node(w, i);
        for (int t = 0; tables[t]; t++) {
            tide_tracked tracked;
            assert_ok_err(tide_node_track(n->node, tables[t], retain_us, &tracked, &w->err),
                          &w->err);
        }
    }
}

void world_done(world *w)
{
    for (int i = 0; i < w->count; i++) {
        (void)sqlite3_close(w->nodes[i].writer);
        tide_node_close(w->nodes[i].node);
        virtual_env_done(&w->nodes[i].env);
    }
    TIDE_IGNORE(tempdir_remove(&w->dir, &w->err));
}

void world_reopen(world *w, int node)
{
    tide_node_close(w->nodes[node].node);
    open_node(w, node);
}

void world_advance(world *w, int64_t us)
{
    for (int i = 0; i < w->count; i++)
        virtual_env_advance(&w->nodes[i].env, us);
}

/* ---- a foreign program ---- */

static int run(world *w, int node, const char *format, va_list args)
{
    char *text = sqlite3_vmprintf(format, args);
    assert_non_null(text);
    const int code = sqlite3_exec(w->nodes[node].writer, text, NULL, NULL, NULL);
    if (code != SQLITE_OK && !sqlite3_get_autocommit(w->nodes[node].writer))
        (void)sqlite3_exec(w->nodes[node].writer, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_free(text);
    return code;
}

int world_try(world *w, int node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int code = run(w, node, format, args);
    va_end(args);
    return code;
}

void world_run(world *w, int node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int code = run(w, node, format, args);
    va_end(args);
    if (code != SQLITE_OK)
        fail_msg("node %d: %s: %s", node, format, sqlite3_errmsg(w->nodes[node].writer));
}

int64_t world_number(world *w, int node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = sqlite3_vmprintf(format, args);
    va_end(args);
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(w->nodes[node].writer, text, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(w->nodes[node].writer));
    assert_int_equal(SQLITE_ROW, sqlite3_step(statement));
    const int64_t number = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    sqlite3_free(text);
    return number;
}

char *world_dump(world *w, int node, const char *query)
{
    sqlite3_stmt *statement = NULL;
    sqlite3_str *out = sqlite3_str_new(NULL);
    if (sqlite3_prepare_v2(w->nodes[node].writer, query, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", query, sqlite3_errmsg(w->nodes[node].writer));
    while (sqlite3_step(statement) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const int class = sqlite3_column_type(statement, i);
            const unsigned char *bytes = sqlite3_column_blob(statement, i);
            const int len = sqlite3_column_bytes(statement, i);
            sqlite3_str_appendf(out, "%d:", class);
            for (int k = 0; k < len; k++)
                sqlite3_str_appendf(out, bytes[k] >= ' ' && bytes[k] < 127 ? "%c" : "\\%02x",
                                    bytes[k]);
            sqlite3_str_appendall(out, "|");
        }
        sqlite3_str_appendall(out, "\n");
    }
    (void)sqlite3_finalize(statement);
    char *text = sqlite3_str_finish(out);
    return text ? text : sqlite3_mprintf("");
}

/* ---- pages ---- */

void world_fold(world *w, int node)
{
    int64_t events = 0;
    bool more = true;
    while (more)
        assert_ok_err(tide_node_fold(w->nodes[node].node, &events, &more, &w->err), &w->err);
}

typedef struct marks {
    tide_origin_mark *out;
    int count;
} marks;

static tide_status keep_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    marks *m = arg;
    (void)err;
    assert_true(m->count < WORLD_MARKS_MAX);
    m->out[m->count++] = *mark;
    return TIDE_OK;
}

int world_marks(world *w, int node, tide_origin_mark out[WORLD_MARKS_MAX])
{
    marks m = {.out = out};
    assert_ok_err(tide_node_marks(w->nodes[node].node, keep_mark, &m, &w->err), &w->err);
    return m.count;
}

int64_t world_prefix(world *w, int node, const tide_node_id *origin, int64_t epoch)
{
    tide_origin_mark found[WORLD_MARKS_MAX];
    const int count = world_marks(w, node, found);
    for (int i = 0; i < count; i++)
        if (memcmp(&found[i].origin, origin, sizeof *origin) == 0 && found[i].epoch == epoch)
            return found[i].prefix;
    return 0;
}

static tide_status keep_event(void *arg, tide_view event, int64_t seq, int64_t cut_seq,
                              tide_error *err)
{
    world_page *page = arg;
    (void)seq;
    (void)cut_seq;
    (void)err;
    assert_true(page->count < WORLD_PAGE_MAX);
    char *copy = malloc(event.len);
    assert_non_null(copy);
    memcpy(copy, event.ptr, event.len);
    page->events[page->count++] = tide_view_bytes(copy, event.len);
    return TIDE_OK;
}

tide_status world_read(world *w, int node, const tide_origin_mark *of, int64_t after, int64_t rows,
                       world_page *out)
{
    out->count = 0;
    return tide_node_read(w->nodes[node].node, &of->origin, of->epoch, after, rows, 1 << 20,
                          keep_event, out, &out->through, &out->more, &w->err);
}

void world_page_done(world_page *page)
{
    for (int i = 0; i < page->count; i++)
        free((void *)page->events[i].ptr);
    page->count = 0;
}

tide_applied world_apply(world *w, int node, const world_page *page)
{
    tide_applied applied;
    assert_ok_err(
        tide_node_apply(w->nodes[node].node, page->events, page->count, &applied, &w->err),
        &w->err);
    return applied;
}

bool world_pull(world *w, int to, int from, int64_t rows)
{
    tide_origin_mark theirs[WORLD_MARKS_MAX];
    static world_page page;
    bool moved = false;
    world_fold(w, from);
    const int count = world_marks(w, from, theirs);
    for (int i = 0; i < count; i++) {
        int64_t after = world_prefix(w, to, &theirs[i].origin, theirs[i].epoch);
        assert_ok_err(tide_node_learn(w->nodes[to].node, &theirs[i], &w->err), &w->err);
        if (after < theirs[i].start)
            after = theirs[i].start;
        while (after < theirs[i].prefix) {
            assert_ok_err(world_read(w, from, &theirs[i], after, rows, &page), &w->err);
            if (page.count == 0)
                break;
            moved = world_apply(w, to, &page).events > 0 || moved;
            after = page.through;
            world_page_done(&page);
        }
    }
    return moved;
}

void world_settle(world *w)
{
    bool moved = true;
    for (int i = 0; i < w->count; i++)
        world_fold(w, i);
    for (int round = 0; moved; round++) {
        assert_true(round < 20);
        moved = false;
        for (int to = 0; to < w->count; to++)
            for (int from = 0; from < w->count; from++)
                if (to != from)
                    moved = world_pull(w, to, from, 100) || moved;
    }
}

void world_acknowledge(world *w, int64_t lease_us)
{
    for (int of = 0; of < w->count; of++) {
        tide_origin_mark found[WORLD_MARKS_MAX];
        const int count = world_marks(w, of, found);
        const tide_node_id id = tide_node_get_id(w->nodes[of].node);
        for (int at = 0; at < w->count; at++) {
            tide_env *env = &w->nodes[at].env.env;
            if (at != of)
                assert_ok_err(tide_node_note_peer(w->nodes[at].node, &id, "peer",
                                                  env->wall_us(env) + lease_us, found, count,
                                                  &w->err),
                              &w->err);
        }
    }
}

/* ---- comparing ---- */

typedef struct digests {
    char text[4096];
    size_t len;
} digests;

static tide_status keep_digest(void *arg, const tide_table_digest *digest, tide_error *err)
{
    digests *d = arg;
    (void)err;
    d->len += (size_t)snprintf(d->text + d->len, sizeof d->text - d->len, "%s %lld ", digest->table,
                               (long long)digest->rows);
    for (int i = 0; i < 16; i++)
        d->len +=
            (size_t)snprintf(d->text + d->len, sizeof d->text - d->len, "%02x", digest->digest[i]);
    return TIDE_OK;
}

static void assert_same_text(world *w, int node, const char *query)
{
    char *first = world_dump(w, 0, query);
    char *other = world_dump(w, node, query);
    if (strcmp(first, other) != 0)
        fail_msg("%s\nnode 0:\n%s\nnode %d:\n%s", query, first, node, other);
    sqlite3_free(first);
    sqlite3_free(other);
}

void world_assert_same(world *w, const char *const *tables, bool with_conflicts)
{
    digests first = {.len = 0};
    assert_ok_err(tide_node_digests(w->nodes[0].node, keep_digest, &first, &w->err), &w->err);
    for (int i = 1; i < w->count; i++) {
        digests other = {.len = 0};
        for (int t = 0; tables[t]; t++) {
            char query[256];
            (void)snprintf(query, sizeof query, "SELECT * FROM \"%s\" ORDER BY 1, 2", tables[t]);
            assert_same_text(w, i, query);
        }
        assert_ok_err(tide_node_digests(w->nodes[i].node, keep_digest, &other, &w->err), &w->err);
        assert_string_equal(first.text, other.text);
        if (!with_conflicts)
            continue;
        assert_same_text(
            w, i,
            "SELECT t.name, k.key, k.aside, k.rival, k.image FROM tide_replica_clocks k "
            "JOIN tide_replica_tables t ON t.id = k.table_id WHERE k.aside > 0 ORDER BY 1, 2");
        assert_same_text(
            w, i,
            "SELECT t.name, c.key, c.col, c.time, c.node, c.value FROM tide_replica_conflicts c "
            "JOIN tide_replica_tables t ON t.id = c.table_id ORDER BY 1, 2, 3, 4, 5");
    }
}
