/* The end of the write-ahead log is lost after it was acknowledged: a flipped bit, a cut, a deleted log.
 * Either everything is there, or an epoch began that says so. */
#include "support/store_fixture.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash/copying.h"
#include "feed/record.h"
#include "store/engine.h"
#include "store/identity_marker.h"

enum {
    ROUNDS = 9,
    PAGE = 16384,
    FRAME = PAGE + 24,
    WAL_HEADER = 32,
};

typedef struct finding {
    int64_t numbers; /* the last of orders, or of logs */
    int64_t rows;    /* tasks, or records */
    tide_epoch epoch;
} finding;

/* What the store is used for: each round makes commits; the look fills numbers and rows. */
typedef struct use {
    tide_status (*write)(tide_store *store, int round, tide_error *err);
    void (*look)(store_test *t, tide_store *store, finding *found);
    int64_t numbers; /* of all rounds */
    int64_t rows;
} use;

/* What a process left behind that was killed. */
typedef struct scene {
    store_test *t;
    const use *use;
    char wal[PG_CLUSTER_URL_MAX + 32];
    char kept_db[TEMPDIR_PATH_MAX];
    char kept_wal[TEMPDIR_PATH_MAX];
    char kept_marker[TEMPDIR_PATH_MAX];
    char marker[TEMPDIR_PATH_MAX * 2];
    int64_t frames;
    bool has_marker;
} scene;

/* A commit with a counter, and one without. */
static tide_status write_order(tide_store *store, int round, tide_error *err)
{
    (void)round;
    tide_sequence_range range;
    char id[TIDE_WORK_ID_MAX + 1];
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = "t"};
    const tide_status status = tide_sequence_next(store, "orders", 3, &range, NULL, err);
    return status < TIDE_OK ? status : tide_task_create(store, &task, id, err);
}

static tide_status count_task(void *arg, const tide_task *task, tide_error *err)
{
    (void)task;
    (void)err;
    ++*(int64_t *)arg;
    return TIDE_OK;
}

static void look_at_orders(store_test *t, tide_store *store, finding *found)
{
    tide_sequence shown = {.last = 0};
    if (tide_sequence_show(store, "orders", &shown, &t->err) == TIDE_OK)
        found->numbers = shown.last;
    assert_ok_err(tide_task_list(store, NULL, 1000, count_task, &found->rows, &t->err), &t->err);
}

static const use orders = {write_order, look_at_orders, 3 * ROUNDS, ROUNDS};

/* As an agent does. */
static tide_status write_logs(tide_store *store, int round, tide_error *err)
{
    tide_feed *feed = NULL;
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    for (int i = 0; i < 3; i++) {
        tide_record_begin(&batch);
        tide_record_i64(&batch, TIDE_LOG_TIMESTAMP, 1000 * round + i);
        tide_record_text(&batch, TIDE_LOG_BODY, tide_view_of("a record"));
        if (tide_record_end(&batch) < TIDE_OK)
            return TIDE_E_NOMEM;
    }
    tide_feed_records records = tide_record_batch_feed(&batch, NULL);
    tide_status status = tide_feed_open(&feed, store, NULL, err);
    if (status >= TIDE_OK)
        status = tide_feed_commit(feed, &records, 1, err);
    tide_feed_close(feed);
    tide_record_batch_done(&batch);
    return status;
}

static void look_at_logs(store_test *t, tide_store *store, finding *found)
{
    tide_feed *feed = NULL;
    tide_feed_answer answer = {0};
    const tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "logs"};
    assert_ok_err(tide_feed_open(&feed, store, NULL, &t->err), &t->err);
    if (tide_feed_read(feed, &request, &answer, &t->err) >= TIDE_OK) {
        found->numbers = answer.max_seq;
        found->rows = answer.count;
    }
    tide_feed_answer_done(&answer);
    tide_feed_close(feed);
}

static const use logs = {write_logs, look_at_logs, 3 * ROUNDS, 3 * ROUNDS};

static void write_and_die(store_test *t, const use *u)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        int status = 0;
        assert_int_equal(child, waitpid(child, &status, 0));
        assert_int_equal(0, status);
        return;
    }
    tide_store_options options = store_test_options(t);
    options.is_inline = true;
    tide_store *store = NULL;
    tide_error err;
    if (tide_store_open(&store, t->url, &options, &err) < TIDE_OK)
        _exit(1);
    for (int i = 0; i < ROUNDS; i++)
        if (u->write(store, i, &err) < TIDE_OK)
            _exit(2);
    _exit(0);
}

static int64_t size_of(const char *path)
{
    struct stat info;
    assert_int_equal(0, stat(path, &info));
    return info.st_size;
}

static void set_up_use(scene *s, store_test *t, const use *u)
{
    *s = (scene){.t = t, .use = u, .has_marker = true};
    (void)snprintf(s->marker, sizeof s->marker, "%s", tide_identity_marker_path(t->store->marker));
    tide_store_closep(&t->store);
    write_and_die(t, u);
    (void)snprintf(s->wal, sizeof s->wal, "%s-wal", t->url);
    tempdir_join(&t->dir, "kept.db", s->kept_db);
    tempdir_join(&t->dir, "kept.wal", s->kept_wal);
    tempdir_join(&t->dir, "kept.marker", s->kept_marker);
    copy_file(t->url, s->kept_db);
    copy_file(s->wal, s->kept_wal);
    copy_file(s->marker, s->kept_marker);
    s->frames = (size_of(s->wal) - WAL_HEADER) / FRAME;
    assert_true(s->frames >= 2 * ROUNDS);
}

static void set_up(scene *s, store_test *t)
{
    set_up_use(s, t, &orders);
}

static void put_back(const scene *s)
{
    char name[PG_CLUSTER_URL_MAX + 32];
    (void)snprintf(name, sizeof name, "%s-shm", s->t->url);
    (void)unlink(name);
    copy_file(s->kept_db, s->t->url);
    copy_file(s->kept_wal, s->wal);
    if (s->has_marker)
        copy_file(s->kept_marker, s->marker);
    else
        (void)unlink(s->marker);
}

static void flip(const scene *s, int64_t at)
{
    unsigned char byte = 0;
    const int fd = open(s->wal, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(1, pread(fd, &byte, 1, at));
    byte ^= 0x10;
    assert_int_equal(1, pwrite(fd, &byte, 1, at));
    assert_int_equal(0, close(fd));
}

static tide_status note_last(void *arg, const tide_epoch *epoch, tide_error *err)
{
    (void)err;
    *(tide_epoch *)arg = *epoch;
    return TIDE_OK;
}

static finding open_and_look(const scene *s, const char *what, int64_t where)
{
    store_test *t = s->t;
    finding found = {.numbers = 0};
    tide_store_options options = store_test_options(t);
    options.is_inline = true;
    tide_store *store = NULL;
    const tide_status status = tide_store_open(&store, t->url, &options, &t->err);
    if (status < TIDE_OK)
        fail_msg("%s at %lld: %s", what, (long long)where, t->err.text);
    s->use->look(t, store, &found);
    assert_ok_err(tide_identity_history(store, note_last, &found.epoch, &t->err), &t->err);
    tide_store_close(store);
    return found;
}

static bool is_complete(const scene *s, const finding *found)
{
    return found->numbers == s->use->numbers && found->rows == s->use->rows;
}

/* Nothing is silent: what is not there has begun an epoch, and the log was kept. */
static void judge(const scene *s, const char *what, int64_t where, bool is_log_left)
{
    char kept[PG_CLUSTER_URL_MAX + 32];
    const finding found = open_and_look(s, what, where);
    (void)snprintf(kept, sizeof kept, "%s-wal.lost-%d", s->t->url, (int)found.epoch.epoch);
    if (found.epoch.epoch == 1 ? !is_complete(s, &found)
                               : strcmp(found.epoch.reason, "lost_tail") != 0 ||
                                     (is_log_left && access(kept, F_OK) != 0))
        fail_msg("%s at %lld: numbers to %lld, %lld rows, epoch %lld (%s: %s), %s %s", what,
                 (long long)where, (long long)found.numbers, (long long)found.rows,
                 (long long)found.epoch.epoch, found.epoch.reason, found.epoch.evidence, kept,
                 access(kept, F_OK) == 0 ? "is there" : "is not there");
    (void)unlink(kept);
    (void)snprintf(kept, sizeof kept, "%s-wal.lost", s->t->url);
    assert_int_not_equal(0, access(kept, F_OK));
}

/* Each kind of byte of every frame: page number, size, salts, sums, and the page. */
static const int64_t places[] = {1, 5, 9, 13, 17, 21, 24, 24 + PAGE / 2, 24 + PAGE - 1};

static void flip_everywhere(const scene *s, int64_t last_frame)
{
    for (int64_t frame = 0; frame < last_frame; frame++)
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            const int64_t at = WAL_HEADER + frame * FRAME + places[i];
            put_back(s);
            flip(s, at);
            judge(s, "a flipped bit", at, true);
        }
}

static void a_flipped_bit_in_the_log_is_reported(void **state)
{
    scene s;
    set_up(&s, *state);
    put_back(&s);
    const finding found = open_and_look(&s, "nothing", 0);
    assert_true(is_complete(&s, &found));
    assert_int_equal(1, found.epoch.epoch);
    flip_everywhere(&s, s.frames);
}

/* The log alone proves it, where a later transaction follows. */
static void a_flipped_bit_is_reported_without_a_marker(void **state)
{
    scene s;
    set_up(&s, *state);
    s.has_marker = false;
    flip_everywhere(&s, s.frames - 8);
}

static void a_flipped_bit_in_the_header_of_the_log_is_reported(void **state)
{
    scene s;
    set_up(&s, *state);
    for (int i = 0; i < 2; i++) {
        s.has_marker = i == 0;
        for (int64_t at = 0; at < WAL_HEADER; at++) {
            put_back(&s);
            flip(&s, at);
            judge(&s, "a flipped bit of the header", at, true);
        }
    }
}

static void cut_everywhere(const scene *s)
{
    const int64_t size = size_of(s->kept_wal);
    for (int64_t len = 0; len < size; len += FRAME / 3) {
        put_back(s);
        assert_int_equal(0, truncate(s->wal, len));
        judge(s, "a log of length", len, false);
    }
    put_back(s);
    assert_int_equal(0, unlink(s->wal));
    judge(s, "no log", 0, false);
}

static void a_log_that_was_cut_is_reported(void **state)
{
    scene s;
    set_up(&s, *state);
    cut_everywhere(&s);
}

static void what_a_feed_acknowledged_is_there_or_reported(void **state)
{
    scene s;
    set_up_use(&s, *state, &logs);
    put_back(&s);
    const finding found = open_and_look(&s, "nothing", 0);
    assert_true(is_complete(&s, &found));
    assert_int_equal(1, found.epoch.epoch);
    flip_everywhere(&s, s.frames);
    cut_everywhere(&s);
}

/* Stock SQLite recovers what it can, writes, and empties the log into the file: the log is gone. */
static void a_loss_is_reported_after_another_program_recovered_the_file(void **state)
{
    scene s;
    set_up(&s, *state);
    for (int64_t frame = 0; frame < s.frames; frame += 2) {
        put_back(&s);
        flip(&s, WAL_HEADER + frame * FRAME + 24 + 100);
        sqlite3 *db = NULL;
        assert_int_equal(SQLITE_OK, sqlite3_open(s.t->url, &db));
        assert_int_equal(SQLITE_OK, sqlite3_exec(db, "CREATE TABLE theirs (x)", NULL, NULL, NULL));
        assert_int_equal(SQLITE_OK, sqlite3_close(db));
        assert_int_not_equal(0, access(s.wal, F_OK));
        judge(&s, "a frame that another program met", frame, false);
    }
}

/* Once: the next open finds nothing more, and numbers go on. */
static void a_loss_begins_one_epoch_and_numbers_go_on(void **state)
{
    scene s;
    set_up(&s, *state);
    put_back(&s);
    flip(&s, WAL_HEADER + 24 + 100);
    const finding first = open_and_look(&s, "the first open", 0);
    const finding second = open_and_look(&s, "the second open", 0);
    assert_int_equal(2, first.epoch.epoch);
    assert_int_equal(2, second.epoch.epoch);
    assert_non_null(strstr(first.epoch.evidence, "orders: 27 was issued"));
    tide_store *store = store_test_open(s.t);
    tide_sequence_range range;
    assert_ok_err(tide_sequence_next(store, "orders", 1, &range, NULL, &s.t->err), &s.t->err);
    assert_int_equal(first.numbers + 1, range.first);
}

/* The process dies behind the commit that begins the epoch, before the marker follows. */
static void a_loss_is_not_reported_twice(void **state)
{
    scene s;
    set_up(&s, *state);
    put_back(&s);
    flip(&s, WAL_HEADER + 24 + 100);
    const finding first = open_and_look(&s, "the first open", 0);
    assert_int_equal(2, first.epoch.epoch);
    copy_file(s.kept_marker, s.marker);
    assert_int_equal(2, open_and_look(&s, "with the marker of before", 0).epoch.epoch);
    tide_store *store = store_test_open(s.t);
    tide_sequence_range range;
    assert_ok_err(tide_sequence_next(store, "orders", 1, &range, NULL, &s.t->err), &s.t->err);
    store_test_close(s.t, &store);
    assert_int_equal(2, open_and_look(&s, "after a further number", 0).epoch.epoch);
}

/* A log that nobody damaged, as every kill leaves it, and one whose last write was torn before it was
 * acknowledged. */
static void a_torn_last_write_is_no_loss(void **state)
{
    scene s;
    set_up(&s, *state);
    const int64_t size = size_of(s.kept_wal);
    const int fd = open(s.kept_wal, O_WRONLY | O_APPEND);
    assert_true(fd >= 0);
    static unsigned char frame[FRAME];
    FILE *in = fopen(s.kept_wal, "r");
    assert_non_null(in);
    assert_int_equal(0, fseek(in, (long)(size - FRAME), SEEK_SET));
    assert_int_equal(1, fread(frame, sizeof frame, 1, in));
    (void)fclose(in);
    assert_int_equal(sizeof frame, write(fd, frame, sizeof frame)); /* continues nothing */
    assert_int_equal(0, close(fd));
    for (int i = 0; i < 2; i++) {
        s.has_marker = i == 0;
        put_back(&s);
        const finding found = open_and_look(&s, "a torn write", 0);
        assert_int_equal(1, found.epoch.epoch);
        assert_true(is_complete(&s, &found));
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(a_flipped_bit_in_the_log_is_reported),
        STORE_CASE_SQLITE(a_flipped_bit_is_reported_without_a_marker),
        STORE_CASE_SQLITE(a_flipped_bit_in_the_header_of_the_log_is_reported),
        STORE_CASE_SQLITE(a_log_that_was_cut_is_reported),
        STORE_CASE_SQLITE(what_a_feed_acknowledged_is_there_or_reported),
        STORE_CASE_SQLITE(a_loss_is_reported_after_another_program_recovered_the_file),
        STORE_CASE_SQLITE(a_loss_begins_one_epoch_and_numbers_go_on),
        STORE_CASE_SQLITE(a_loss_is_not_reported_twice),
        STORE_CASE_SQLITE(a_torn_last_write_is_no_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
