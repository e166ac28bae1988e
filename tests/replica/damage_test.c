/* A replica's file that loses the end of its log, or of which a bit changes: everything that was acknowledged is there,
 * or a new epoch, a failed call or a finding says that it is not. */
#include <fcntl.h>
#include <glob.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "crash/copying.h"
#include "net/codec/protobuf_guard.h"
#include "replica/capture/app_fixture.h"
#include "services/api/rpc.h"
#include "services/replica/table_events.h"
#include "support/disk/flips.h"

enum { ROUNDS = 5, PAGE = 4096, FRAME = PAGE + 24, WAL_HEADER = 32, PAGE_ROWS = 1000 };

static void run(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        (void)fprintf(stderr, "%s: %s\n", sql, why);
        _exit(3);
    }
}

/* An application and its node, as a kill leaves them: the tables are in the file, the rounds in its log. */
static void write_and_die(app_fixture *t, int rounds)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        int status = 0;
        assert_int_equal(child, waitpid(child, &status, 0));
        assert_int_equal(0, status);
        return;
    }
    sqlite3 *db = NULL;
    int64_t events = 0;
    bool more = true;
    if (sqlite3_open(t->path, &db) != SQLITE_OK)
        _exit(1);
    run(db, "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            "CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT)");
    app_track(t, "notes");
    run(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    for (int i = 0; i < rounds; i++) {
        char sql[160];
        (void)snprintf(sql, sizeof sql,
                       "INSERT INTO notes(id, body) VALUES (%d, 'note %d of the application')", i,
                       i);
        run(db, sql);
        if (tide_node_fold(t->node, &events, &more, &t->err) < TIDE_OK)
            _exit(2);
    }
    _exit(0);
}

/* ---- the end of the log ---- */

typedef struct killed_app {
    app_fixture *t;
    char wal[TEMPDIR_PATH_MAX + 8];
    char marker[TEMPDIR_PATH_MAX];
    char kept_db[TEMPDIR_PATH_MAX];
    char kept_wal[TEMPDIR_PATH_MAX];
    char kept_marker[TEMPDIR_PATH_MAX];
    int64_t frames;
} killed_app;

static void set_up(killed_app *s, app_fixture *t)
{
    char pattern[TEMPDIR_PATH_MAX + 32];
    struct stat info;
    glob_t found;
    *s = (killed_app){.t = t};
    write_and_die(t, ROUNDS);
    (void)snprintf(pattern, sizeof pattern, "%s/identity-markers/*", t->state_dir);
    assert_int_equal(0, glob(pattern, 0, NULL, &found));
    assert_int_equal(1, found.gl_pathc);
    (void)snprintf(s->marker, sizeof s->marker, "%s", found.gl_pathv[0]);
    globfree(&found);
    (void)snprintf(s->wal, sizeof s->wal, "%s-wal", t->path);
    tempdir_join(&t->dir, "kept.db", s->kept_db);
    tempdir_join(&t->dir, "kept.wal", s->kept_wal);
    tempdir_join(&t->dir, "kept.marker", s->kept_marker);
    copy_file(t->path, s->kept_db);
    copy_file(s->wal, s->kept_wal);
    copy_file(s->marker, s->kept_marker);
    assert_int_equal(0, stat(s->wal, &info));
    s->frames = (info.st_size - WAL_HEADER) / FRAME;
    assert_true(s->frames >= 2 * ROUNDS);
}

static void put_back(const killed_app *s)
{
    char name[TEMPDIR_PATH_MAX + 8];
    (void)snprintf(name, sizeof name, "%s-shm", s->t->path);
    (void)unlink(name);
    copy_file(s->kept_db, s->t->path);
    copy_file(s->kept_wal, s->wal);
    copy_file(s->kept_marker, s->marker);
}

static tide_status count_event(void *arg, tide_view event, int64_t seq, int64_t cut_seq,
                               tide_error *err)
{
    (void)event;
    (void)seq;
    (void)cut_seq;
    (void)err;
    ++*(int64_t *)arg;
    return TIDE_OK;
}

/* How many events of the first epoch are there, and which epoch is it now? */
static int64_t look(const killed_app *s, int64_t *epoch)
{
    app_fixture *t = s->t;
    int64_t count = 0;
    int64_t through = 0;
    int64_t folded = 0;
    bool more = false;
    app_open(t);
    assert_ok_err(tide_node_fold(t->node, &folded, &more, &t->err), &t->err);
    const tide_node_id self = tide_node_get_id(t->node);
    const tide_status status = tide_node_read(t->node, &self, 1, 0, PAGE_ROWS, 1 << 20, count_event,
                                              &count, &through, &more, &t->err);
    if (status < TIDE_OK)
        fail_msg("reading events: %s", t->err.text);
    *epoch = tide_node_epoch(t->node);
    tide_node_close(t->node);
    t->node = NULL;
    return count;
}

static void judge(const killed_app *s, const char *what, int64_t where)
{
    int64_t epoch = 0;
    const int64_t count = look(s, &epoch);
    if (count != ROUNDS && epoch == 1)
        fail_msg("%s at %lld: %lld of %d events, and no epoch began", what, (long long)where,
                 (long long)count, ROUNDS);
}

static void flip(const killed_app *s, int64_t at)
{
    unsigned char byte = 0;
    const int fd = open(s->wal, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(1, pread(fd, &byte, 1, at));
    byte ^= 0x10;
    assert_int_equal(1, pwrite(fd, &byte, 1, at));
    assert_int_equal(0, close(fd));
}

static void what_a_kill_leaves_is_no_loss(void **state)
{
    killed_app s;
    int64_t epoch = 0;
    set_up(&s, *state);
    assert_int_equal(ROUNDS, look(&s, &epoch));
    assert_int_equal(1, epoch);
}

/* Each kind of byte of every frame, and of the header. */
static void a_flipped_bit_in_the_log_is_reported(void **state)
{
    static const int64_t places[] = {1, 5, 9, 13, 17, 21, 24, 24 + PAGE / 2, 24 + PAGE - 1};
    killed_app s;
    set_up(&s, *state);
    for (int64_t at = 0; at < WAL_HEADER; at++) {
        put_back(&s);
        flip(&s, at);
        judge(&s, "a flipped bit of the header", at);
    }
    for (int64_t frame = 0; frame < s.frames; frame++)
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            const int64_t at = WAL_HEADER + frame * FRAME + places[i];
            put_back(&s);
            flip(&s, at);
            judge(&s, "a flipped bit", at);
        }
}

static void a_log_that_was_cut_is_reported(void **state)
{
    killed_app s;
    set_up(&s, *state);
    for (int64_t len = 0; len < WAL_HEADER + s.frames * FRAME; len += FRAME / 2) {
        put_back(&s);
        assert_int_equal(0, truncate(s.wal, len));
        judge(&s, "a log of length", len);
    }
    put_back(&s);
    assert_int_equal(0, unlink(s.wal));
    judge(&s, "no log", 0);
}

/* ---- bits of the file ---- */

typedef struct serving {
    flip_answers *answers;
    app_fixture *t;
} serving;

static tide_status say_event(void *arg, tide_view event, int64_t seq, int64_t cut_seq,
                             tide_error *err)
{
    (void)err;
    serving *s = arg;
    flip_say_bytes(s->answers, "event", seq, event);
    flip_say(s->answers, "R batch of %lld ends at %lld", (long long)seq, (long long)cut_seq);
    return TIDE_OK;
}

static void say_table(serving *s)
{
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of((size_t)64 << 20);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of((size_t)64 << 20);
    ProtobufCMessage *message = NULL;
    REPLICA(TableEventsRequest) request = REPLICA_INIT(TABLE_EVENTS_REQUEST);
    request.table = (char *)"notes";
    request.page_size = PAGE_ROWS;
    tide_error *err = &s->t->err;
    if (flip_is_told(s->answers, tide_table_events(s->t->node, &request, &bytes, err), err))
        return;
    assert_ok_err(tide_protobuf_unpack(&message,
                                       &tidemark__replica__v1__table_events_response__descriptor,
                                       tide_buffer_view(&bytes), &arena, err),
                  err);
    const REPLICA(TableEventsResponse) *found = (REPLICA(TableEventsResponse) *)message;
    for (size_t i = 0; i < found->n_events; i++) {
        const REPLICA(TableEvent) *e = found->events[i];
        flip_say(s->answers, "V table event %lld: %s %s %s %s %lld", (long long)e->origin_seq,
                 e->id, e->operation_type, e->record_id, e->data, (long long)e->timestamp);
    }
}

static bool is_known;
static tide_node_id known; /* the node of the case */

static void ask_events(void *scene, flip_answers *a)
{
    app_fixture *t = scene;
    serving s = {.answers = a, .t = t};
    int64_t through = 0;
    bool more = false;
    const tide_node_options options = {.state_dir = ""};
    if (flip_is_told(a, tide_node_open(&t->node, t->path, &options, &t->err), &t->err))
        return;
    if (tide_node_epoch(t->node) != 1)
        flip_report(a, "another epoch");
    const tide_node_id self = tide_node_get_id(t->node);
    if (is_known && memcmp(&known, &self, sizeof self) != 0)
        flip_report(a, "another node"); /* peers know this one's events by its id */
    else if (!is_known)
        known = self;
    is_known = true;
    (void)flip_is_told(a,
                       tide_node_read(t->node, &self, 1, 0, PAGE_ROWS, 1 << 24, say_event, &s,
                                      &through, &more, &t->err),
                       &t->err);
    flip_say(a, "R events to %lld", (long long)through);
    say_table(&s);
    tide_node_close(t->node);
    t->node = NULL;
}

/* The file is the application's: SQLite's own check, and what every sync checks. */
static void verify_file(void *scene, flip_answers *a)
{
    app_fixture *t = scene;
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    if (sqlite3_open(t->path, &db) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &row, NULL) != SQLITE_OK ||
        sqlite3_step(row) != SQLITE_ROW ||
        strcmp((const char *)sqlite3_column_text(row, 0), "ok") != 0)
        flip_report(a, "integrity_check");
    (void)sqlite3_finalize(row);
    (void)sqlite3_close(db);
}

static void no_bit_of_a_replicas_file_is_silent(void **state)
{
    app_fixture *t = *state;
    write_and_die(t, 60);
    app_write_sql(t, APP_SHELL, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE");
    const flip_kind events = {"replica", t->path, ask_events, verify_file};
    flip_sweep(&events, t);
}

#define APP_CASE(f) cmocka_unit_test_setup_teardown(f, app_setup, app_teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        APP_CASE(what_a_kill_leaves_is_no_loss),
        APP_CASE(a_flipped_bit_in_the_log_is_reported),
        APP_CASE(a_log_that_was_cut_is_reported),
        APP_CASE(no_bit_of_a_replicas_file_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
