#include "replica_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void replica_load_run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
}

sqlite3 *replica_load_open(const char *path, const char *synchronous)
{
    char pragma[128];
    sqlite3 *db = NULL;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    (void)sqlite3_busy_timeout(db, 60000);
    (void)snprintf(pragma, sizeof pragma, "PRAGMA journal_mode = WAL; PRAGMA synchronous = %s",
                   synchronous);
    replica_load_run(db, pragma);
    (void)sqlite3_exec(db, REPLICA_LOAD_SCHEMA, NULL, NULL, NULL); /* may be there */
    return db;
}

void replica_load_writer_init(replica_load_writer *writer, sqlite3 *db, const char *sql)
{
    writer->db = db;
    if (sqlite3_prepare_v2(db, sql, -1, &writer->put, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
}

void replica_load_writer_done(replica_load_writer *writer)
{
    (void)sqlite3_finalize(writer->put);
}

void replica_load_write(replica_load_writer *writer, int64_t first, int64_t count)
{
    replica_load_run(writer->db, "BEGIN IMMEDIATE");
    for (int64_t i = 0; i < count; i++) {
        (void)sqlite3_bind_int64(writer->put, 1, first + i);
        if (sqlite3_step(writer->put) != SQLITE_DONE)
            bench_die("writing: %s", sqlite3_errmsg(writer->db));
        (void)sqlite3_reset(writer->put);
    }
    replica_load_run(writer->db, "COMMIT");
}

tide_node *replica_load_node(const char *path, bool is_tracked)
{
    tide_error err = {.status = TIDE_OK};
    tide_node *node = NULL;
    tide_tracked tracked;
    const tide_node_options options = {.is_new = true};
    bench_must(tide_node_open(&node, path, &options, &err), &err, "a node");
    bench_must(tide_node_establish(node, &err), &err, "a node");
    if (is_tracked)
        bench_must(tide_node_track(node, "items", 0, &tracked, &err), &err, "tracking");
    return node;
}

void replica_load_fold(tide_node *node)
{
    tide_error err = {.status = TIDE_OK};
    bench_must(tide_peer_look(node, NULL, &err), &err, "folding");
}

typedef struct own_log {
    tide_node_id node;
    tide_origin_mark mark;
} own_log;

static tide_status find_own(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    own_log *own = arg;
    (void)err;
    if (memcmp(&mark->origin, &own->node, sizeof own->node) == 0)
        own->mark = *mark;
    return TIDE_OK;
}

static tide_origin_mark get_own(tide_node *node)
{
    tide_error err = {.status = TIDE_OK};
    own_log own = {.node = tide_node_get_id(node)};
    bench_must(tide_node_marks(node, find_own, &own, &err), &err, "marks");
    return own.mark;
}

int64_t replica_load_prefix(tide_node *node)
{
    return get_own(node).prefix;
}

void replica_load_read(replica_load_log *out, tide_node *node, int64_t after)
{
    tide_error err = {.status = TIDE_OK};
    tide_peer peer = tide_peer_of_node(node, "bench");
    const tide_origin_mark mark = get_own(node);
    *out = (replica_load_log){.count = 0};
    for (bool more = after < mark.prefix; more;) {
        out->pages = realloc(out->pages, ((size_t)out->count + 1) * sizeof *out->pages);
        if (!out->pages)
            bench_die("no memory");
        tide_peer_page *page = &out->pages[out->count++];
        tide_peer_page_init(page);
        bench_must(peer.read(peer.arg, &mark.origin, mark.epoch, after, TIDE_SYNC_PAGE_ROWS,
                             TIDE_SYNC_PAGE_BYTES, page, &err),
                   &err, "reading a page");
        out->events += page->count;
        out->bytes += (int64_t)page->bytes.len;
        after = page->through;
        more = page->has_more;
    }
}

void replica_load_log_done(replica_load_log *log)
{
    for (int i = 0; i < log->count; i++)
        tide_peer_page_done(&log->pages[i]);
    free(log->pages);
    *log = (replica_load_log){.count = 0};
}

int64_t replica_load_apply(tide_node *node, const replica_load_log *log)
{
    int64_t events = 0;
    for (int i = 0; i < log->count; i++) {
        tide_error err = {.status = TIDE_OK};
        tide_applied applied;
        const tide_peer_page *page = &log->pages[i];
        TIDE_CLEANUP(tide_freep) tide_view *views = calloc((size_t)page->count + 1, sizeof *views);
        for (int k = 0; k < page->count; k++)
            views[k] = tide_peer_page_event(page, k);
        bench_must(tide_node_apply(node, views, page->count, &applied, &err), &err, "applying");
        events += applied.events;
    }
    return events;
}
