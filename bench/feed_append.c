/* feed_append.c - what numbering, chaining, packing and storing records costs, against the bare disk and against a table.
 *
 * The same records for everybody, 100, 1,000 and 10,000 per sync: spans of about 190 bytes with ids that do not repeat themselves.
 * Contestants: tide_feed_commit; write + fdatasync of the encoded bytes, unpacked, into a file that has its blocks already; and SQLite with
 * a row per record, the columns bound one by one, a counter in the same transaction. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/feed.h>

#include "bench.h"
#include "feed_load.h"

enum {
    SIZES = 3,
    PLAIN_LEN = 64 << 20,
    STEP_EVERY = 64, /* commits */
};

static const double seconds = 0.75;
static const int sizes[SIZES] = {100, 1000, 10000};

typedef enum kind { FEED, DISK, TABLE, KINDS } kind;

typedef struct contestant {
    kind kind;
    int rows;
    char name[64];
    bench_series rate;
    feed_load load;
    tide_store *store;
    tide_feed *feed;
    int fd;
    off_t at;
    sqlite3 *db;
    sqlite3_stmt *insert;
} contestant;

static void write_feed(void *context, int thread, int64_t n)
{
    contestant *c = context;
    tide_error err;
    int64_t next_us = 0;
    (void)thread;
    tide_feed_records records = tide_record_batch_feed(&c->load.batch, NULL);
    bench_must(tide_feed_commit(c->feed, &records, 1, &err), &err, "commit");
    if (n % STEP_EVERY == 0)
        bench_must(tide_feed_step(c->feed, &next_us, &err), &err, "step");
}

static void write_disk(void *context, int thread, int64_t n)
{
    contestant *c = context;
    (void)thread;
    (void)n;
    const size_t len = c->load.batch.bytes.len;
    if (c->at + (off_t)len > PLAIN_LEN)
        c->at = 0;
    if (pwrite(c->fd, c->load.batch.bytes.ptr, len, c->at) != (ssize_t)len || fdatasync(c->fd) != 0)
        bench_die("cannot write and sync a plain file");
    c->at += (off_t)len;
}

static void exec(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
}

static void write_table(void *context, int thread, int64_t n)
{
    contestant *c = context;
    (void)thread;
    exec(c->db, "BEGIN IMMEDIATE");
    for (int i = 0; i < c->rows; i++) {
        const feed_load_span *span = &c->load.spans[i];
        (void)sqlite3_bind_int64(c->insert, 1, span->timestamp);
        (void)sqlite3_bind_text(c->insert, 2, span->trace_id, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(c->insert, 3, span->span_id, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(c->insert, 4, span->service, -1, SQLITE_STATIC);
        (void)sqlite3_bind_double(c->insert, 5, span->duration_ms);
        (void)sqlite3_bind_text(c->insert, 6, span->attributes, -1, SQLITE_STATIC);
        if (sqlite3_step(c->insert) != SQLITE_DONE)
            bench_die("insert: %s", sqlite3_errmsg(c->db));
        (void)sqlite3_reset(c->insert);
    }
    exec(c->db, "UPDATE counter SET last = (SELECT max(seq_id) FROM spans)");
    exec(c->db, "COMMIT");
    if (n % 200 == 0 && c->rows >= 10000) /* as the feed, it does not grow for ever */
        exec(c->db, "DELETE FROM spans");
}

static bench_step_fn *const steps[KINDS] = {write_feed, write_disk, write_table};

static void open_table(contestant *c, const char *path)
{
    if (sqlite3_open(path, &c->db) != SQLITE_OK)
        bench_die("cannot open %s", path);
    exec(c->db, "PRAGMA page_size=16384; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                "CREATE TABLE spans (seq_id INTEGER PRIMARY KEY, timestamp INTEGER, trace_id TEXT, "
                "span_id TEXT,"
                " service_name TEXT, span_kind TEXT DEFAULT 'SERVER', duration_ms REAL, is_error "
                "INTEGER DEFAULT 0,"
                " http_status INTEGER DEFAULT 200, http_method TEXT DEFAULT 'GET', http_route TEXT "
                "DEFAULT '/api/v1/items/{id}',"
                " attributes TEXT);"
                "CREATE TABLE counter (last INTEGER); INSERT INTO counter VALUES (0);");
    if (sqlite3_prepare_v2(c->db,
                           "INSERT INTO spans (timestamp, trace_id, span_id, service_name, "
                           "duration_ms, attributes) "
                           "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                           -1, &c->insert, NULL) != SQLITE_OK)
        bench_die("prepare: %s", sqlite3_errmsg(c->db));
}

static void open_disk(contestant *c, const char *path)
{
    c->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char *blocks = calloc(1, PLAIN_LEN);
    if (c->fd < 0 || !blocks || pwrite(c->fd, blocks, PLAIN_LEN, 0) != PLAIN_LEN ||
        fsync(c->fd) != 0)
        bench_die("cannot prepare %s", path);
    free(blocks);
}

static void open_contestant(contestant *c, const tempdir *dir)
{
    static const char *const names[KINDS] = {"tide_feed_commit", "write + fdatasync",
                                             "SQLite, a row per record"};
    char file[64];
    char path[TEMPDIR_PATH_MAX];
    tide_error err;
    (void)snprintf(file, sizeof file, "%d-%d.db", (int)c->kind, c->rows);
    (void)snprintf(c->name, sizeof c->name, "%s, %d records per sync", names[c->kind], c->rows);
    c->rate.name = c->name;
    tempdir_join(dir, file, path);
    feed_load_init(&c->load, c->rows, 100, 0, 1);
    if (c->kind == FEED) {
        c->store = bench_open_store(path, dir);
        const tide_feed_options options = {.keep_bytes = INT64_C(256) << 20,
                                           .hard_bytes = INT64_C(512) << 20};
        bench_must(tide_feed_open(&c->feed, c->store, &options, &err), &err, "feed");
    } else if (c->kind == DISK) {
        open_disk(c, path);
    } else {
        open_table(c, path);
    }
}

static void close_contestant(contestant *c)
{
    tide_feed_close(c->feed);
    tide_store_close(c->store);
    (void)sqlite3_finalize(c->insert);
    (void)sqlite3_close(c->db);
    if (c->kind == DISK)
        (void)close(c->fd);
    feed_load_done(&c->load);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, seconds);
    static contestant all[SIZES][KINDS];
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    for (int s = 0; s < SIZES; s++)
        for (int k = 0; k < KINDS; k++) {
            all[s][k] = (contestant){.kind = (kind)k, .rows = sizes[s]};
            open_contestant(&all[s][k], &dir);
            (void)bench_run(1, options.seconds / 3, steps[k], &all[s][k]);
        }
    for (int round = 0; round < options.rounds; round++)
        for (int s = 0; s < SIZES; s++)
            for (int k = 0; k < KINDS; k++)
                bench_add(&all[s][k].rate,
                          sizes[s] * bench_run(1, options.seconds / 3, steps[k], &all[s][k]));
    bench_print_heading("Append: numbered records, durable before the next commit", "records/s");
    for (int s = 0; s < SIZES; s++)
        for (int k = 0; k < KINDS; k++)
            bench_print_series(&all[s][k].rate);
    (void)printf("\n");
    for (int s = 0; s < SIZES; s++) {
        char name[96];
        (void)snprintf(name, sizeof name, "feed / write + fdatasync, %d per sync", sizes[s]);
        bench_print_ratio(name, &all[s][FEED].rate, &all[s][DISK].rate, 0.4);
        (void)snprintf(name, sizeof name, "feed / SQLite, a row per record, %d per sync", sizes[s]);
        bench_print_ratio(name, &all[s][FEED].rate, &all[s][TABLE].rate, 4);
    }
    for (int s = 0; s < SIZES; s++)
        for (int k = 0; k < KINDS; k++)
            close_contestant(&all[s][k]);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
