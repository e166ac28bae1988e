#include "replica_history.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "replica/merge.h"
#include "replica/table.h"

enum { BATCH = 1000, COLUMNS = 2 };

sqlite3 *replica_history_open(const char *path)
{
    sqlite3 *db = replica_load_open(path, "NORMAL");
    replica_load_run(db, "DROP TABLE items; " REPLICA_HISTORY_SCHEMA);
    return db;
}

/* ---- the node as it stands ---- */

typedef struct history {
    sqlite3 *db;
    tide_event event; /* the one that was made last */
    tide_event_column column;
    int64_t table_id;
    sqlite3_stmt *put_row;
    sqlite3_stmt *put_event;
    sqlite3_stmt *put_clock;
    tide_buffer body;
    tide_buffer key;
    tide_buffer clock;
    tide_buffer prints;
} history;

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    return statement;
}

static void run(sqlite3 *db, sqlite3_stmt *statement)
{
    if (sqlite3_step(statement) != SQLITE_DONE)
        bench_die("a history: %s", sqlite3_errmsg(db));
    (void)sqlite3_reset(statement);
}

static void load(history *h)
{
    sqlite3_stmt *found = prepare(
        h->db, "SELECT o.origin, o.epoch, c.last_seq, t.id, t.schema, (SELECT value FROM "
               "tide_replica_state WHERE key = 'hybrid') FROM tide_replica_tables t, "
               "tide_replica_origins o LEFT JOIN tide_replica_cursors c USING (origin, epoch)");
    if (sqlite3_step(found) != SQLITE_ROW ||
        sqlite3_column_bytes(found, 0) != (int)sizeof h->event.origin)
        bench_die("no tracked table");
    memcpy(&h->event.origin, sqlite3_column_blob(found, 0), sizeof h->event.origin);
    h->event.epoch = sqlite3_column_int64(found, 1);
    h->event.seq = sqlite3_column_int64(found, 2);
    h->table_id = sqlite3_column_int64(found, 3);
    h->event.schema = (uint64_t)sqlite3_column_int64(found, 4);
    h->event.stamp.time = (uint64_t)sqlite3_column_int64(found, 5);
    (void)sqlite3_finalize(found);
    h->event.stamp.node = h->event.origin;
    h->event.kind = TIDE_ROW_CREATE;
    h->event.columns = &h->column;
    h->event.column_count = h->event.key_count = 1;
    h->column.column = 1;
    (void)snprintf(h->event.table, sizeof h->event.table, "items");
}

static void begin(history *h, const char *path)
{
    h->db = replica_load_open(path, "OFF");
    (void)sqlite3_db_config(h->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    replica_load_run(h->db, "PRAGMA cache_size = -1000000; PRAGMA journal_mode = DELETE; PRAGMA "
                            "journal_mode = OFF; BEGIN EXCLUSIVE");
    load(h);
    h->put_row = prepare(h->db, "INSERT INTO items VALUES (?1, ?1)");
    h->put_event = prepare(
        h->db,
        "INSERT INTO tide_replica_events (origin, epoch, seq, cut_seq, id, table_name, "
        "operation_type, record_id, data, timestamp, processed, stamp, body) VALUES (?1, ?2, ?3, "
        "?4, ?5, 'items', 'create', CAST(?6 AS TEXT), printf('{\"id\":%d,\"n\":%d}', ?6, ?6), "
        "?7, 1, ?8, ?9)");
    h->put_clock = prepare(h->db, "INSERT INTO tide_replica_clocks (table_id, key, clock, digest) "
                                  "VALUES (?1, ?2, ?3, ?4)");
    tide_buffer_init(&h->body, 4096);
    tide_buffer_init(&h->key, 4096);
    tide_buffer_init(&h->clock, 4096);
    tide_buffer_init(&h->prints, 4096);
}

/* ---- one change ---- */

static void bind_bytes(sqlite3_stmt *statement, int position, const tide_buffer *bytes)
{
    (void)sqlite3_bind_blob(statement, position, bytes->ptr, (int)bytes->len, SQLITE_STATIC);
}

static void put_event(history *h, int64_t row)
{
    char id[TIDE_UUID_TEXT_SIZE];
    const tide_event *event = &h->event;
    tide_error err = {.status = TIDE_OK};
    tide_buffer_truncate(&h->body, 0);
    bench_must(tide_event_encode(&h->body, event, &err), &err, "an event");
    tide_event_id(id, event);
    (void)sqlite3_bind_blob(h->put_event, 1, &event->origin, sizeof event->origin, SQLITE_STATIC);
    (void)sqlite3_bind_int64(h->put_event, 2, event->epoch);
    (void)sqlite3_bind_int64(h->put_event, 3, event->seq);
    (void)sqlite3_bind_int64(h->put_event, 4, event->cut_seq);
    (void)sqlite3_bind_text(h->put_event, 5, id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(h->put_event, 6, row);
    (void)sqlite3_bind_int64(h->put_event, 7, tide_stamp_us(&event->stamp) / 1000);
    (void)sqlite3_bind_int64(h->put_event, 8, (int64_t)event->stamp.time);
    bind_bytes(h->put_event, 9, &h->body);
    run(h->db, h->put_event);
}

static void put_clock(history *h, const tide_sql_value values[COLUMNS])
{
    const tide_row_clock clock = {.created = {.stamp = h->event.stamp}};
    tide_error err = {.status = TIDE_OK};
    tide_buffer_truncate(&h->key, 0);
    tide_buffer_truncate(&h->clock, 0);
    tide_buffer_truncate(&h->prints, 0);
    bench_must(tide_sql_value_encode(&h->key, &values[0]), &err, "a key");
    bench_must(tide_row_clock_encode(&h->clock, &clock), &err, "a clock");
    bench_must(tide_table_prints(&h->prints, values, COLUMNS, &err), &err, "prints");
    (void)sqlite3_bind_int64(h->put_clock, 1, h->table_id);
    bind_bytes(h->put_clock, 2, &h->key);
    bind_bytes(h->put_clock, 3, &h->clock);
    bind_bytes(h->put_clock, 4, &h->prints);
    run(h->db, h->put_clock);
}

static void put(history *h, int64_t row)
{
    const tide_sql_value number = {.kind = TIDE_SQL_VALUE_I64, .i64 = row};
    const tide_sql_value values[COLUMNS] = {number, number};
    h->event.prev_seq = h->event.seq++;
    h->event.stamp.time++;
    h->event.key[0] = h->column.value = number;
    (void)sqlite3_bind_int64(h->put_row, 1, row);
    run(h->db, h->put_row);
    put_event(h, row);
    put_clock(h, values);
}

/* ---- where it has come to ---- */

static void settle(history *h)
{
    tide_cursor cursor;
    tide_uuid id;
    char text[TIDE_UUID_TEXT_SIZE];
    tide_error err = {.status = TIDE_OK};
    tide_cursor_init(&cursor, h->event.seq, 1);
    tide_buffer_truncate(&h->body, 0);
    bench_must(tide_cursor_encode(&cursor, &h->body, &err), &err, "a cursor");
    tide_cursor_done(&cursor);
    memcpy(id.bytes, &h->event.origin, sizeof id.bytes);
    tide_uuid_format(&id, text);
    static const char *const puts[] = {
        "UPDATE tide_replica_origins SET cursor = ?1",
        ("INSERT OR REPLACE INTO tide_replica_cursors (table_name, origin, epoch, cursor, "
         "last_seq) "
         "SELECT 'items', origin, epoch, cursor, ?2 FROM tide_replica_origins"),
        "INSERT OR REPLACE INTO replication_checkpoints VALUES ('items', ?3, ?2)",
        "UPDATE replication_meta SET value = ?2 WHERE key LIKE 'origin_seq::%'",
        "INSERT OR REPLACE INTO tide_replica_state VALUES ('hybrid', ?4)",
        "DELETE FROM tide_replica_seq",
        "INSERT INTO tide_replica_seq (seq, t) VALUES (?2, 0)"};
    for (size_t i = 0; i < sizeof puts / sizeof puts[0]; i++) {
        sqlite3_stmt *statement = prepare(h->db, puts[i]);
        const int count = sqlite3_bind_parameter_count(statement);
        if (count >= 1)
            bind_bytes(statement, 1, &h->body);
        if (count >= 2)
            (void)sqlite3_bind_int64(statement, 2, h->event.seq);
        if (count >= 3)
            (void)sqlite3_bind_text(statement, 3, text, -1, SQLITE_STATIC);
        if (count >= 4)
            (void)sqlite3_bind_int64(statement, 4, (int64_t)h->event.stamp.time);
        run(h->db, statement);
        (void)sqlite3_finalize(statement);
    }
}

static void end(history *h)
{
    (void)sqlite3_finalize(h->put_row);
    (void)sqlite3_finalize(h->put_event);
    (void)sqlite3_finalize(h->put_clock);
    tide_buffer_done(&h->body);
    tide_buffer_done(&h->key);
    tide_buffer_done(&h->clock);
    tide_buffer_done(&h->prints);
    replica_load_run(h->db, "COMMIT; PRAGMA journal_mode = WAL");
    (void)sqlite3_close(h->db);
}

void replica_history_grow(const char *path, int64_t first, int64_t last)
{
    history h = {.db = NULL};
    begin(&h, path);
    const uint64_t now = (uint64_t)time(NULL) * 1000 << 16;
    if (h.event.stamp.time < now)
        h.event.stamp.time = now;
    for (int64_t row = first + 1; row <= last; row++) {
        if ((row - first - 1) % BATCH == 0) { /* a millisecond each */
            const int64_t left = last - row + 1;
            h.event.cut_seq = h.event.seq + (left < BATCH ? left : BATCH);
            h.event.stamp.time = ((h.event.stamp.time >> 16) + 1) << 16;
        }
        put(&h, row);
    }
    settle(&h);
    end(&h);
}

/* ---- two of them ---- */

/* Tables with the columns that are the same on both sides. */
static const char *const compared[][2] = {
    {"origin, epoch, seq, cut_seq, id, table_name, operation_type, record_id, data, timestamp, "
     "processed, stamp, body",
     "tide_replica_events"},
    {"table_id, key, clock, image, aside, rival, gone, digest", "tide_replica_clocks"},
    {"id, n", "items"},
    {"table_name, origin_node_id, origin_seq", "replication_checkpoints"},
};

static void check_holds(sqlite3 *db, const char *side, const char *other)
{
    for (size_t i = 0; i < sizeof compared / sizeof compared[0]; i++) {
        char sql[1024];
        const char *columns = compared[i][0];
        const char *table = compared[i][1];
        (void)snprintf(sql, sizeof sql,
                       "SELECT count(*) FROM (SELECT %s FROM %s.%s EXCEPT SELECT %s FROM %s.%s)",
                       columns, side, table, columns, other, table);
        sqlite3_stmt *differing = prepare(db, sql);
        if (sqlite3_step(differing) != SQLITE_ROW || sqlite3_column_int64(differing, 0) != 0)
            bench_die("%s: a history that was written down differs from one that was synced",
                      table);
        (void)sqlite3_finalize(differing);
    }
}

void replica_history_check(const char *path, const char *other)
{
    char sql[TEMPDIR_PATH_MAX + 32];
    sqlite3 *db = replica_load_open(path, "NORMAL");
    (void)snprintf(sql, sizeof sql, "ATTACH '%s' AS other", other);
    replica_load_run(db, sql);
    check_holds(db, "main", "other");
    check_holds(db, "other", "main");
    (void)sqlite3_close(db);
}

void replica_history_copy(const char *path, const char *to)
{
    struct stat found;
    const int from_fd = open(path, O_RDONLY | O_CLOEXEC);
    const int to_fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (from_fd < 0 || to_fd < 0 || fstat(from_fd, &found) != 0)
        bench_die("%s cannot be copied", path);
    for (off_t left = found.st_size; left > 0;) {
        const ssize_t copied = copy_file_range(from_fd, NULL, to_fd, NULL, (size_t)left, 0);
        if (copied <= 0)
            bench_die("%s cannot be copied", path);
        left -= copied;
    }
    (void)close(from_fd);
    (void)close(to_fd);
}
