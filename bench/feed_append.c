/* feed_append.c - what numbering, chaining, packing and storing records costs, against the bare disk and against a table.
 *
 * The same records for everybody, 100, 1,000 and 10,000 per sync: spans of about 160 bytes with ids that do not repeat themselves.
 * Contestants: tide_feed_commit; write + fdatasync of the encoded bytes, unpacked, into a file that has its blocks already; and SQLite with
 * a row per record: the same library, WAL, synchronous=FULL and pages of 16 KiB, one prepared statement whose columns are bound one by one,
 * one transaction per sync with the counter in it. Once with no index beside the number, and once with indexes by time and by service:
 * the feed answers these questions too. */
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

static const double seconds = 1;
static const int sizes[SIZES] = {100, 1000, 10000};

typedef enum kind { FEED, DISK, TABLE, INDEXED, KINDS } kind;

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
    sqlite3_stmt *count;
    int64_t inserted; /* time goes on: a table's indexes grow at their end */
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
    (void)n;
    exec(c->db, "BEGIN IMMEDIATE");
    for (int i = 0; i < c->rows; i++) {
        const feed_load_span *span = &c->load.spans[i];
        (void)sqlite3_bind_int64(c->insert, 1, c->load.spans[0].timestamp + c->inserted++);
        (void)sqlite3_bind_text(c->insert, 2, span->trace_id, 32, SQLITE_STATIC);
        (void)sqlite3_bind_text(c->insert, 3, span->span_id, 16, SQLITE_STATIC);
        (void)sqlite3_bind_text(c->insert, 4, span->service, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(c->insert, 5, "SERVER", 6, SQLITE_STATIC);
        (void)sqlite3_bind_double(c->insert, 6, span->duration_ms);
        (void)sqlite3_bind_int64(c->insert, 7, 0);
        (void)sqlite3_bind_int64(c->insert, 8, 200);
        (void)sqlite3_bind_text(c->insert, 9, "GET", 3, SQLITE_STATIC);
        (void)sqlite3_bind_text(c->insert, 10, "/api/v1/items/{id}", 18, SQLITE_STATIC);
        (void)sqlite3_bind_text(c->insert, 11, span->attributes_json, -1, SQLITE_STATIC);
        if (sqlite3_step(c->insert) != SQLITE_DONE)
            bench_die("insert: %s", sqlite3_errmsg(c->db));
        (void)sqlite3_reset(c->insert);
    }
    (void)sqlite3_bind_int64(c->count, 1, sqlite3_last_insert_rowid(c->db));
    if (sqlite3_step(c->count) != SQLITE_DONE)
        bench_die("counter: %s", sqlite3_errmsg(c->db));
    (void)sqlite3_reset(c->count);
    exec(c->db, "COMMIT");
}

static bench_step_fn *const steps[KINDS] = {write_feed, write_disk, write_table, write_table};

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    return statement;
}

static void open_table(contestant *c, const char *path)
{
    if (sqlite3_open(path, &c->db) != SQLITE_OK)
        bench_die("cannot open %s", path);
    exec(c->db, "PRAGMA page_size=16384; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                "PRAGMA cache_size=-16384;"
                "CREATE TABLE spans (seq_id INTEGER PRIMARY KEY, timestamp INTEGER, trace_id TEXT,"
                " span_id TEXT, service_name TEXT, span_kind TEXT, duration_ms REAL,"
                " is_error INTEGER, http_status INTEGER, http_method TEXT, http_route TEXT,"
                " attributes TEXT);"
                "CREATE TABLE counter (last INTEGER); INSERT INTO counter VALUES (0);");
    if (c->kind == INDEXED)
        exec(c->db, "CREATE INDEX spans_by_time ON spans (timestamp);"
                    "CREATE INDEX spans_by_service ON spans (service_name, timestamp);");
    c->insert = prepare(c->db, "INSERT INTO spans (timestamp, trace_id, span_id, service_name,"
                               " span_kind, duration_ms, is_error, http_status, http_method,"
                               " http_route, attributes) VALUES (?,?,?,?,?,?,?,?,?,?,?)");
    c->count = prepare(c->db, "UPDATE counter SET last = ?");
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
                                             "SQLite, a row per record",
                                             "SQLite, a row, and two indexes"};
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
        const tide_feed_options options = {TIDE_FEED_OPTIONS_INIT, .keep_bytes = INT64_C(256) << 20,
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
    (void)sqlite3_finalize(c->count);
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
        (void)snprintf(name, sizeof name, "feed / SQLite, a row, and two indexes, %d per sync",
                       sizes[s]);
        bench_print_ratio(name, &all[s][FEED].rate, &all[s][INDEXED].rate, 0);
    }
    for (int s = 0; s < SIZES; s++)
        for (int k = 0; k < KINDS; k++)
            close_contestant(&all[s][k]);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
