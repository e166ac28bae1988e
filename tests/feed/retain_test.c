/* What is dropped, when, and what is left behind of it. */
#include <stdio.h>
#include <string.h>

#include "feed/feed_fixture.h"
#include "support/fault_vfs.h"
#include "support/prng.h"

static void step(tide_feed *feed)
{
    tide_error err;
    int64_t next_us = 0;
    do
        assert_ok_err(tide_feed_step(feed, &next_us, &err), &err);
    while (next_us == 0);
}

static void settle(tide_feed *feed, const char *reader, int64_t seq)
{
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){.reader = reader, .start_seq = seq, .max_records = 1});
    tide_feed_answer_done(&answer);
}

static void assert_oldest(tide_feed *feed, int64_t seq)
{
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){.max_records = 1});
    assert_int_equal(seq, answer.oldest_seq);
    tide_feed_answer_done(&answer);
}

/* FAULTS C15: retention goes by arrival; a record's own time means nothing. */
static void records_are_kept_by_arrival(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 10, "past", 1);
    (void)put_logs(feed, 10, "future", INT64_C(4000000000000));
    virtual_env_advance(&t->clock, 59 * MINUTE_US);
    (void)put_logs(feed, 10, "past", 1);
    step(feed);
    assert_oldest(feed, 1);
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US + 1000 * HOUR_US); /* moves nothing */
    step(feed);
    assert_oldest(feed, 1);
    virtual_env_advance(&t->clock, 2 * MINUTE_US);
    step(feed);
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){0});
    assert_numbers(&answer, TIDE_STREAM_LOGS, 21, 30);
    assert_hole(&answer, 0, 1, 20, "expired");
    assert_int_equal(21, answer.oldest_seq);
    tide_feed_answer_done(&answer);
    assert_int_equal(0,
                     count_receipts(feed, "logs", "expired")); /* nobody reads: nothing is lost */
    virtual_env_advance(&t->clock, 2 * HOUR_US);
    step(feed);
    answer = read_feed(feed, (tide_feed_request){.start_seq = 25});
    assert_hole(&answer, 0, 26, 30, "expired");
    assert_int_equal(31, answer.oldest_seq);
    assert_false(answer.has_more);
    tide_feed_answer_done(&answer);
    assert_int_equal(31, put_logs(feed, 1, "api", 1));
    assert_ok_err(tide_feed_verify(feed, NULL, NULL, NULL, &t->err), &t->err);
    tide_feed_close(feed);
}

/* FAULTS C15: what a reader has not read is kept, up to the hard cap; then it leaves a receipt. */
static void unread_records_are_kept_until_the_hard_cap(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 10, "api", 1);
    (void)put_logs(feed, 10, "api", 1);
    (void)put_logs(feed, 10, "api", 1);
    settle(feed, "colony", 14);
    virtual_env_advance(&t->clock, 3 * HOUR_US);
    step(feed);
    assert_oldest(feed, 11); /* the first batch was read; the second only in part */
    virtual_env_advance(&t->clock, 20 * HOUR_US);
    settle(feed, "colony", 14);
    step(feed);
    assert_oldest(feed, 11);
    virtual_env_advance(&t->clock, 2 * HOUR_US);
    step(feed);
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){0});
    assert_int_equal(31, answer.oldest_seq);
    assert_int_equal(1, answer.hole_count);
    assert_hole(&answer, 0, 1, 30, "expired");
    tide_feed_answer_done(&answer);
    assert_int_equal(16, count_receipts(feed, "logs", "expired"));
    tide_feed_close(feed);
}

/* A reader that does not come any more is forgotten, and protects nothing from then on. */
static void idle_readers_are_forgotten(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(
        t, &(tide_feed_options){.reader_idle_us = 2 * HOUR_US, .hard_us = 100 * HOUR_US});
    (void)put_logs(feed, 10, "api", 1);
    settle(feed, "gone", 0);
    virtual_env_advance(&t->clock, 119 * MINUTE_US);
    step(feed);
    assert_oldest(feed, 1);
    virtual_env_advance(&t->clock, 2 * MINUTE_US);
    step(feed);
    assert_oldest(feed, 11);
    assert_int_equal(0, count_receipts(feed, "logs", "expired"));
    tide_feed_close(feed);
}

typedef struct losses {
    int64_t records;
    char reason[16];
} losses;

static void note_loss(void *arg, const char *stream, const char *reason, int64_t records)
{
    losses *l = arg;
    assert_string_equal("logs", stream);
    l->records += records;
    (void)snprintf(l->reason, sizeof l->reason, "%s", reason);
}

/* Too many bytes: what was read goes first; beyond the hard cap the oldest unread go, with receipts. */
static void size_drops_what_was_read_and_then_the_oldest(void **state)
{
    store_test *t = *state;
    losses lost = {0};
    tide_feed *feed = feed_test_open(t, &(tide_feed_options){.keep_bytes = 20000,
                                                             .hard_bytes = 40000,
                                                             .codec = "none",
                                                             .on_loss = note_loss,
                                                             .on_loss_arg = &lost});
    settle(feed, "colony", 0);
    while (ask_sql(t, "SELECT coalesce(sum(length(body)), 0) FROM feed_batches") < 30000)
        (void)put_logs(feed, 10, "api", 1);
    step(feed);
    assert_oldest(feed, 1);
    settle(feed, "colony", 50);
    step(feed);
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){.max_records = 1});
    assert_true(answer.oldest_seq > 1 && answer.oldest_seq <= 51);
    const int64_t oldest = answer.oldest_seq;
    tide_feed_answer_done(&answer);
    assert_int_equal(0, lost.records);
    while (ask_sql(t, "SELECT sum(length(body)) FROM feed_batches WHERE stream_id = 9") < 43000)
        (void)put_logs(feed, 10, "api", 1);
    step(feed);
    answer = read_feed(feed, (tide_feed_request){.max_records = 1});
    assert_true(answer.oldest_seq > oldest && answer.oldest_seq > 51);
    const int64_t evicted = answer.oldest_seq - 51;
    tide_feed_answer_done(&answer);
    assert_int_equal(evicted, count_receipts(feed, "logs", "evicted"));
    assert_int_equal(evicted, lost.records);
    assert_string_equal("evicted", lost.reason);
    answer = read_feed(feed, (tide_feed_request){.max_records = 1});
    assert_hole(&answer, 0, 1, 50, "expired");
    assert_hole(&answer, 1, 51, 50 + evicted, "evicted");
    tide_feed_answer_done(&answer);
    assert_ok_err(tide_feed_verify(feed, NULL, NULL, NULL, &t->err), &t->err);
    tide_feed_close(feed);
}

/* FAULTS C24: a hole is an interval, however wide: 10^8 numbers cost what one does. */
static void a_hole_of_a_hundred_million_is_one_interval(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 1, "api", 1);
    run_sql(t, "UPDATE feed_streams SET floor_seq = 100000000 WHERE name = 'logs';"
               "DELETE FROM feed_batches;"
               "DROP TRIGGER sequences_of_streams; UPDATE sequences SET last = 100000000 WHERE "
               "name = 'seq_logs'");
    assert_int_equal(100000001, put_logs(feed, 5, "api", 1));
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){0});
    assert_numbers(&answer, TIDE_STREAM_LOGS, 100000001, 100000005);
    assert_int_equal(1, answer.hole_count);
    assert_hole(&answer, 0, 1, 100000000, "expired");
    tide_feed_answer_done(&answer);
    tide_feed_close(feed);
}

/* A long series of evictions, each right behind the last, stays one row. */
static void losses_side_by_side_are_joined(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(
        t, &(tide_feed_options){.keep_bytes = 1, .hard_bytes = 1000000, .hard_us = HOUR_US});
    settle(feed, "colony", 0);
    for (int i = 0; i < 5; i++) {
        (void)put_logs(feed, 10, "api", 1);
        virtual_env_advance(&t->clock, 61 * MINUTE_US);
        step(feed);
    }
    assert_int_equal(1, ask_sql(t, "SELECT count(*) FROM feed_losses"));
    assert_int_equal(50, ask_sql(t, "SELECT last_seq - first_seq + 1 FROM feed_losses"));
    assert_int_equal(10,
                     count_receipts(feed, "logs", "expired")); /* they too are kept for hard_us */
    tide_feed_close(feed);
}

/* ---- a full disk ---- */

typedef struct small_disk {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    virtual_env clock;
    fault_vfs *disk;
    tide_store *store;
    tide_feed *feed;
    tide_error err;
} small_disk;

static void small_disk_init(small_disk *d)
{
    virtual_env_init(&d->clock, 1);
    assert_ok_err(tempdir_make(&d->dir, &d->err), &d->err);
    tempdir_join(&d->dir, "store.db", d->path);
    d->disk = fault_vfs_new(d->dir.path, 1);
    const tide_store_options options = {
        .env = &d->clock.env, .state_dir = "", .sqlite_vfs = fault_vfs_name(d->disk)};
    assert_ok_err(tide_store_open(&d->store, d->path, &options, &d->err), &d->err);
    assert_ok_err(
        tide_feed_open(&d->feed, d->store, &(tide_feed_options){.codec = "none"}, &d->err),
        &d->err);
}

static void small_disk_done(small_disk *d)
{
    tide_feed_close(d->feed);
    tide_store_close(d->store);
    fault_vfs_free(d->disk);
    TIDE_IGNORE(tempdir_remove(&d->dir, NULL));
    virtual_env_done(&d->clock);
}

static tide_status try_logs(tide_feed *feed, int count, tide_error *err)
{
    int64_t n = 0;
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    add_logs(&batch, count, "api", 1, &n);
    tide_feed_records records = tide_record_batch_feed(&batch, NULL);
    const tide_status status = tide_feed_commit(feed, &records, 1, err);
    tide_record_batch_done(&batch);
    return status;
}

/* FAULTS C23: the disk is full: commits are refused and say so, what is stored is served, and what is dropped unread still leaves its
 * receipt: there is a reserve for it. */
static void receipts_fit_on_a_full_disk(void **state)
{
    (void)state;
    small_disk d;
    small_disk_init(&d);
    assert_ok_err(try_logs(d.feed, 1000, &d.err), &d.err);
    settle(d.feed, "colony", 0);
    step(d.feed); /* makes the reserve */
    assert_true(fault_vfs_used_len(d.disk) > 1 << 20);
    virtual_env_advance(&d.clock, 25 * HOUR_US);
    settle(d.feed, "colony", 0); /* still there, and has not moved */
    fault_vfs_set_quota(d.disk, fault_vfs_used_len(d.disk) + 40000);
    tide_status status = TIDE_OK;
    for (int i = 0; i < 100 && status == TIDE_OK; i++)
        status = try_logs(d.feed, 1000, &d.err);
    assert_status_err(TIDE_E_FULL, status, &d.err);
    tide_feed_answer answer = read_feed(d.feed, (tide_feed_request){0});
    assert_int_equal(1, answer.oldest_seq);
    assert_true(answer.count >= 1000);
    tide_feed_answer_done(&answer);
    /* Not a byte is left but the reserve's. */
    fault_vfs_set_quota(d.disk, fault_vfs_used_len(d.disk));
    for (int i = 0; i < 20; i++)
        TIDE_IGNORE(try_logs(d.feed, 1000, &d.err));
    fault_vfs_set_quota(d.disk, fault_vfs_used_len(d.disk));
    step(d.feed);
    assert_int_equal(1000, count_receipts(d.feed, "logs", "expired"));
    fault_vfs_set_quota(d.disk, FAULT_VFS_NO_QUOTA);
    answer = read_feed(d.feed, (tide_feed_request){0});
    const int64_t head = answer.head_seq;
    tide_feed_answer_done(&answer);
    assert_ok_err(try_logs(d.feed, 10, &d.err), &d.err);
    answer = read_feed(d.feed, (tide_feed_request){.start_seq = head});
    assert_numbers(&answer, TIDE_STREAM_LOGS, head + 1,
                   head + 10); /* refused commits took no number */
    tide_feed_answer_done(&answer);
    assert_ok_err(tide_feed_verify(d.feed, NULL, NULL, NULL, &d.err), &d.err);
    small_disk_done(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(records_are_kept_by_arrival),
        STORE_CASE_SQLITE(unread_records_are_kept_until_the_hard_cap),
        STORE_CASE_SQLITE(idle_readers_are_forgotten),
        STORE_CASE_SQLITE(size_drops_what_was_read_and_then_the_oldest),
        STORE_CASE_SQLITE(a_hole_of_a_hundred_million_is_one_interval),
        STORE_CASE_SQLITE(losses_side_by_side_are_joined),
        cmocka_unit_test(receipts_fit_on_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
