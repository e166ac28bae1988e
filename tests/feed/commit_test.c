/* Records become durable under numbers of their stream's sequence, all of a commit or none. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "feed/feed_fixture.h"

/* Numbers go on from commit to commit and over a restart; a commit of several streams numbers each for itself. */
static void records_are_numbered_without_a_gap(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    assert_int_equal(1, put_logs(feed, 3, "api", 1000));
    assert_int_equal(4, put_logs(feed, 1, "api", 1000));
    assert_int_equal(4, tide_feed_head(feed, "logs"));
    assert_int_equal(-1, tide_feed_head(feed, "telemetry"));
    tide_feed_close(feed);
    tide_store *again = store_test_open(t);
    assert_ok_err(tide_feed_open(&feed, again, NULL, &t->err), &t->err);
    assert_int_equal(5, put_logs(feed, 10, "api", 1000));
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_numbers(&answer, TIDE_STREAM_LOGS, 1, 14);
    tide_feed_answer_done(&answer);
    tide_sequence sequence;
    assert_ok_err(tide_sequence_show(t->store, "seq_logs", &sequence, &t->err), &t->err);
    assert_int_equal(14, sequence.last);
    tide_feed_close(feed);
}

static tide_feed_records make_logs(tide_record_batch *batch, int count)
{
    int64_t n = 0;
    tide_record_batch_init(batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    add_logs(batch, count, "api", 1, &n);
    return tide_record_batch_feed(batch, NULL);
}

static tide_feed_records make_opaque(tide_record_batch *batch, const char *stream, const char *data)
{
    tide_record_batch_init(batch, tide_stream_type_of(TIDE_STREAM_OPAQUE), 0);
    tide_record_begin(batch);
    tide_record_blob(batch, TIDE_OPAQUE_DATA, tide_view_of(data));
    assert_ok(tide_record_end(batch));
    return tide_record_batch_feed(batch, stream);
}

/* All streams of one commit are there, or none. */
static void a_commit_of_several_streams_is_all_or_nothing(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_record_batch logs;
    tide_record_batch orders;
    tide_feed_records both[] = {make_logs(&logs, 2), make_opaque(&orders, "orders", "x")};
    assert_status(TIDE_E_NOT_FOUND, tide_feed_commit(feed, both, 2, &t->err));
    assert_int_equal(1, put_logs(feed, 1, "api", 1)); /* nothing was taken by the refused one */
    assert_ok_err(tide_feed_declare(feed, "orders", &t->err), &t->err);
    assert_ok_err(tide_feed_declare(feed, "orders", &t->err), &t->err);
    assert_ok_err(tide_feed_commit(feed, both, 2, &t->err), &t->err);
    assert_int_equal(2, both[0].first_seq);
    assert_int_equal(1, both[1].first_seq);
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .stream = "orders"});
    assert_numbers(&answer, TIDE_STREAM_OPAQUE, 1, 1);
    tide_feed_answer_done(&answer);
    tide_record_batch_done(&logs);
    tide_record_batch_done(&orders);
    tide_feed_close(feed);
}

static void bad_commits_are_refused(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_record_batch batch;
    tide_feed_records logs = make_logs(&batch, 2);
    tide_feed_records twice[] = {logs, logs};
    assert_status(TIDE_E_INVALID, tide_feed_commit(feed, twice, 2, &t->err));
    assert_status(TIDE_E_INVALID, tide_feed_commit(feed, &logs, 0, &t->err));
    tide_feed_records miscounted = logs;
    miscounted.count = 3;
    assert_status(TIDE_E_INVALID, tide_feed_commit(feed, &miscounted, 1, &t->err));
    tide_feed_records other = logs;
    other.stream = "telemetry"; /* other tags */
    assert_status(TIDE_E_INVALID, tide_feed_commit(feed, &other, 1, &t->err));
    tide_feed_records cut = logs;
    cut.len--;
    assert_status(TIDE_E_INVALID, tide_feed_commit(feed, &cut, 1, &t->err));
    assert_status(TIDE_E_INVALID, tide_feed_declare(feed, "Not A Name", &t->err));
    assert_status(TIDE_E_EXISTS, tide_feed_declare(feed, "telemetry", &t->err));
    assert_status(TIDE_E_EXISTS, tide_feed_declare(feed, "otel_spans", &t->err));
    tide_sequence_range range;
    assert_ok_err(tide_sequence_next(t->store, "seq_mine", 1, &range, NULL, &t->err), &t->err);
    assert_status(TIDE_E_EXISTS, tide_feed_declare(feed, "mine", &t->err));
    assert_int_equal(1, put_logs(feed, 1, "api", 1));
    tide_record_batch_done(&batch);
    tide_feed_close(feed);
}

/* The streams' counters can be read, and belong to records alone. */
static void numbers_of_a_stream_cannot_be_taken_from_outside(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_sequence_range range;
    assert_status(TIDE_E_CONFLICT,
                  tide_sequence_next(t->store, "seq_logs", 1, &range, NULL, &t->err));
    assert_contains(t->err.text, "belong to a stream");
    assert_int_equal(1, put_logs(feed, 1, "api", 1));
    assert_status(TIDE_E_CONFLICT,
                  tide_sequence_next(t->store, "seq_logs", 1, &range, NULL, &t->err));
    assert_status(TIDE_E_CONFLICT, tide_sequence_raise(t->store, "seq_logs", 10, NULL, &t->err));
    assert_int_equal(2, put_logs(feed, 1, "api", 1));
    assert_ok_err(tide_sequence_next(t->store, "other", 1, &range, NULL, &t->err), &t->err);
    tide_feed_close(feed);
}

typedef struct committer {
    tide_feed *feed;
    int64_t numbers[20];
    pthread_t thread;
} committer;

static void *commit_often(void *arg)
{
    committer *c = arg;
    for (int i = 0; i < 20; i++) {
        tide_error err;
        tide_record_batch batch;
        tide_feed_records logs = make_logs(&batch, 5);
        c->numbers[i] = tide_feed_commit(c->feed, &logs, 1, &err) == TIDE_OK ? logs.first_seq : -1;
        tide_record_batch_done(&batch);
    }
    return NULL;
}

/* Committers of one stream take their numbers in the transaction: a batch that was prepared for a place that somebody else took is made
 * again, and its chain too. */
static void committers_at_once_share_no_number(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    committer c[4];
    for (int i = 0; i < 4; i++) {
        c[i].feed = feed;
        assert_int_equal(0, pthread_create(&c[i].thread, NULL, commit_often, &c[i]));
    }
    bool is_taken[400] = {false};
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(c[i].thread, NULL);
        for (int j = 0; j < 20; j++) {
            assert_in_range(c[i].numbers[j], 1, 396);
            assert_false(is_taken[c[i].numbers[j]]);
            is_taken[c[i].numbers[j]] = true;
        }
    }
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_numbers(&answer, TIDE_STREAM_LOGS, 1, 400);
    tide_feed_answer_done(&answer);
    assert_ok_err(tide_feed_verify(feed, NULL, NULL, NULL, &t->err), &t->err);
    tide_feed_close(feed);
}

/* A commit is prepared for where this feed's last one left the head. Where another writes in turn, that is wrong: the batch is made again
 * inside the transaction, and the feed looks first for a while. */
static void feeds_that_take_turns_look_before_they_commit(void **state)
{
    store_test *t = *state;
    tide_feed *one = feed_test_open(t, NULL);
    tide_feed *other = feed_test_open(t, NULL);
    for (int64_t i = 0; i < 60; i++) {
        assert_int_equal(2 * i + 1, put_logs(one, 1, "one", 1000));
        assert_int_equal(2 * i + 2, put_logs(other, 1, "other", 1000));
    }
    tide_feed_counters counters;
    tide_feed_count(one, &counters);
    assert_in_range(counters.redone, 1, 4);
    tide_feed_count(other, &counters);
    assert_in_range(counters.redone, 1, 4);
    assert_ok_err(tide_feed_verify(one, NULL, NULL, NULL, &t->err), &t->err);
    tide_feed_close(one);
    tide_feed_close(other);
}

/* Setting the clock back, or forward, moves no arrival: beside the numbers it goes back with a reboot alone, and not by little. */
static void arrival_does_not_go_back_with_the_wall_clock(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 1, "api", 1);
    tide_feed_answer before = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US - 100 * HOUR_US);
    virtual_env_advance(&t->clock, SECOND_US);
    (void)put_logs(feed, 1, "api", 1);
    tide_feed_answer after = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_int_equal(before.head_arrived_us + SECOND_US, after.head_arrived_us);
    /* The anchor is set anew. A little behind: arrival stands still until it has caught up. */
    virtual_env_set_wall(&t->clock, after.head_arrived_us - MINUTE_US);
    virtual_env_reboot(&t->clock);
    (void)put_logs(feed, 1, "api", 1);
    tide_feed_answer booted = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_int_equal(after.head_arrived_us, booted.head_arrived_us);
    tide_feed_answer_done(&booted);
    /* Far behind: one of the two clocks was wrong, and what comes now is stamped by the one there is. */
    virtual_env_set_wall(&t->clock, after.head_arrived_us - 100 * HOUR_US);
    virtual_env_reboot(&t->clock);
    (void)put_logs(feed, 1, "api", 1);
    booted = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_int_equal(after.head_arrived_us - 100 * HOUR_US, booted.head_arrived_us);
    assert_ok_err(tide_feed_verify(feed, NULL, NULL, NULL, &t->err), &t->err);
    tide_feed_answer_done(&before);
    tide_feed_answer_done(&after);
    tide_feed_answer_done(&booted);
    tide_feed_close(feed);
}

static void every_codec_gives_back_what_was_stored(void **state)
{
    store_test *t = *state;
    static const char *const codecs[] = {"none", "zstd", "lz4"};
    for (int i = 0; i < 3; i++) {
        tide_feed *feed =
            feed_test_open(t, &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .codec = codecs[i]});
        assert_int_equal(1 + i * 500, put_logs(feed, 500, "api", 1));
        tide_feed_close(feed);
    }
    tide_feed *feed = feed_test_open(t, NULL);
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_numbers(&answer, TIDE_STREAM_LOGS, 1, 1500);
    tide_feed_answer_done(&answer);
    assert_int_equal(3, ask_sql(t, "SELECT count(DISTINCT codec) FROM feed_batches"));
    assert_ok_err(tide_feed_verify(feed, NULL, NULL, NULL, &t->err), &t->err);
    tide_feed_close(feed);
    assert_status(TIDE_E_INVALID,
                  tide_feed_open(&feed, t->store,
                                 &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .codec = "rar"},
                                 &t->err));
}

/* A commit tells whoever watches. */
static void a_commit_notifies_the_topic(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_watch *watch = NULL;
    assert_ok_err(tide_watch_open(&watch, t->store, TIDE_FEED_TOPIC, &t->err), &t->err);
    (void)put_logs(feed, 1, "api", 1);
    assert_ok_err(tide_watch_wait(watch, 10 * SECOND_US, &t->err), &t->err);
    tide_watch_close(watch);
    tide_feed_close(feed);
}

/* More than the hard cap and a margin: refused with a status that says "later". */
static void commits_are_held_back_while_retention_is_behind(void **state)
{
    store_test *t = *state;
    tide_feed *feed =
        feed_test_open(t, &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .keep_bytes = 1000,
                                               .hard_bytes = 2000, .codec = "none"});
    (void)put_logs(feed, 100, "api", 1);
    tide_record_batch batch;
    tide_feed_records logs = make_logs(&batch, 1);
    assert_status(TIDE_E_FULL, tide_feed_commit(feed, &logs, 1, &t->err));
    int64_t next_us = 0;
    assert_ok_err(tide_feed_step(feed, &next_us, &t->err), &t->err);
    assert_ok_err(tide_feed_commit(feed, &logs, 1, &t->err), &t->err);
    assert_int_equal(101, logs.first_seq);
    tide_record_batch_done(&batch);
    tide_feed_close(feed);
}

static void a_feed_is_refused_on_postgresql(void **state)
{
    store_test *t = *state;
    tide_feed *feed = NULL;
    assert_status(TIDE_E_UNSUPPORTED, tide_feed_open(&feed, t->store, NULL, &t->err));
    assert_contains(t->err.text, "SQLite");
}

/* Whoever set one cap is told of the other one. */
static void caps_that_do_not_fit_are_named(void **state)
{
    store_test *t = *state;
    tide_feed *feed = NULL;
    assert_status(TIDE_E_INVALID,
                  tide_feed_open(&feed, t->store,
                                 &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .hard_bytes = 1000},
                                 &t->err));
    assert_contains(t->err.text, "hard-bytes (1000) is below keep-bytes (1073741824)");
    assert_status(TIDE_E_INVALID,
                  tide_feed_open(&feed, t->store,
                                 &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .hard_us = SECOND_US},
                                 &t->err));
    assert_contains(t->err.text, "hard-for (1 s) is below keep-for (3600 s)");
}

/* More records than a batch takes: several batches in one commit, numbers without a gap, all or nothing. */
static void a_large_commit_becomes_several_batches(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    assert_int_equal(1, put_logs(feed, 3, "api", 1));
    const int count = 2 * TIDE_FEED_BATCH_RECORDS_MAX + 1000;
    int64_t n = 0;
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS),
                           TIDE_FEED_COMMIT_BYTES_MAX);
    add_logs(&batch, count, "large", 1, &n);
    tide_feed_records records = tide_record_batch_feed(&batch, NULL);
    assert_ok_err(tide_feed_commit(feed, &records, 1, &t->err), &t->err);
    assert_int_equal(4, records.first_seq);
    assert_int_equal(3 + count, records.last_seq);
    assert_int_equal(4, ask_sql(t, "SELECT count(*) FROM feed_batches"));
    assert_int_equal(4 + count, put_logs(feed, 1, "api", 1));
    int64_t at = 0;
    while (at < 4 + count) {
        tide_feed_answer answer =
            read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = at,
                                                .max_records = 50000});
        assert_numbers(&answer, TIDE_STREAM_LOGS, at + 1, answer.max_seq);
        at = answer.max_seq;
        tide_feed_answer_done(&answer);
    }
    assert_ok_err(tide_feed_verify(feed, NULL, NULL, NULL, &t->err), &t->err);
    records.count--; /* not what is in the bytes */
    assert_status(TIDE_E_INVALID, tide_feed_commit(feed, &records, 1, &t->err));
    tide_record_batch_done(&batch);
    tide_feed_close(feed);
}

/* The same by bytes, of two streams at once. */
static void a_commit_of_many_bytes_becomes_several_batches(void **state)
{
    store_test *t = *state;
    tide_feed *feed =
        feed_test_open(t, &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .codec = "none"});
    static char body[1000000];
    memset(body, 'x', sizeof body);
    tide_record_batch batches[2];
    tide_feed_records records[2];
    static const tide_stream_kind kinds[] = {TIDE_STREAM_LOGS, TIDE_STREAM_SYSTEM_METRICS};
    for (int i = 0; i < 2; i++) {
        tide_record_batch_init(&batches[i], tide_stream_type_of(kinds[i]),
                               TIDE_FEED_COMMIT_BYTES_MAX);
        for (int j = 0; j < 20 + 20 * i; j++) {
            tide_record_begin(&batches[i]);
            tide_record_text(&batches[i],
                             i == 0 ? (int)TIDE_LOG_BODY : (int)TIDE_SYSTEM_METRIC_UNIT,
                             tide_view_bytes(body, sizeof body));
            assert_ok(tide_record_end(&batches[i]));
        }
        records[i] = tide_record_batch_feed(&batches[i], NULL);
    }
    assert_ok_err(tide_feed_commit(feed, records, 2, &t->err), &t->err);
    assert_int_equal(1, records[0].first_seq);
    assert_int_equal(20, records[0].last_seq);
    assert_int_equal(1, records[1].first_seq);
    assert_int_equal(40, records[1].last_seq);
    assert_int_equal(5, ask_sql(t, "SELECT count(*) FROM feed_batches"));
    assert_ok_err(tide_feed_verify(feed, NULL, NULL, NULL, &t->err), &t->err);
    for (int i = 0; i < 2; i++)
        tide_record_batch_done(&batches[i]);
    tide_feed_close(feed);
}

/* Acknowledged, and then the log lost its end: a new epoch gives the numbers again, and readers of the old
 * one find a receipt for what they miss. */
static void records_of_a_lost_tail_leave_a_receipt(void **state)
{
    store_test *t = *state;
    char wal[PG_CLUSTER_URL_MAX + 8];
    tide_store_closep(&t->store);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tide_store_options options = store_test_options(t);
        options.is_inline = true;
        tide_store *store = NULL;
        tide_feed *feed = NULL;
        assert_ok(tide_store_open(&store, t->url, &options, &t->err));
        assert_ok(tide_feed_open(&feed, store, NULL, &t->err));
        for (int i = 0; i < 10; i++)
            (void)put_logs(feed, 3, "api", 1000);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_int_equal(0, status);
    (void)snprintf(wal, sizeof wal, "%s-wal", t->url);
    struct stat info;
    assert_int_equal(0, stat(wal, &info));
    assert_int_equal(0, truncate(wal, info.st_size / 2));
    tide_store *store = store_test_open(t);
    tide_feed *feed = NULL;
    assert_ok_err(tide_feed_open(&feed, store, NULL, &t->err), &t->err);
    tide_sequence left;
    assert_ok_err(tide_sequence_show(store, "seq_logs", &left, &t->err), &t->err);
    assert_in_range(left.last, 1, 29);
    assert_int_equal(30 - left.last, count_receipts(feed, "logs", "lost"));
    assert_int_equal(left.last + 1, put_logs(feed, 1, "api", 1000));
    tide_identity identity;
    tide_store_identity(store, &identity);
    assert_int_equal(2, identity.epoch);
    tide_feed_close(feed);
    assert_ok_err(tide_feed_open(&feed, store, NULL, &t->err), &t->err);
    assert_int_equal(30 - left.last, count_receipts(feed, "logs", "lost"));
    tide_feed_close(feed);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(records_of_a_lost_tail_leave_a_receipt),
        STORE_CASE_SQLITE(records_are_numbered_without_a_gap),
        STORE_CASE_SQLITE(a_commit_of_several_streams_is_all_or_nothing),
        STORE_CASE_SQLITE(bad_commits_are_refused),
        STORE_CASE_SQLITE(numbers_of_a_stream_cannot_be_taken_from_outside),
        STORE_CASE_SQLITE(committers_at_once_share_no_number),
        STORE_CASE_SQLITE(feeds_that_take_turns_look_before_they_commit),
        STORE_CASE_SQLITE(arrival_does_not_go_back_with_the_wall_clock),
        STORE_CASE_SQLITE(every_codec_gives_back_what_was_stored),
        STORE_CASE_SQLITE(a_commit_notifies_the_topic),
        STORE_CASE_SQLITE(commits_are_held_back_while_retention_is_behind),
        STORE_CASE_POSTGRES(a_feed_is_refused_on_postgresql),
        STORE_CASE_SQLITE(a_large_commit_becomes_several_batches),
        STORE_CASE_SQLITE(a_commit_of_many_bytes_becomes_several_batches),
        STORE_CASE_SQLITE(caps_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
