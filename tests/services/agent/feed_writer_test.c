/* Room for what waits to be stored. Nothing here waits for a disk for long: what is counted is looked at while it is reserved. */
#include "services/agent/feed_writer.h"

#include <pthread.h>
#include <string.h>

#include "feed/feed_fixture.h"

enum { MIB = 1 << 20, QUEUE = 64 * MIB };

typedef struct outcome {
    tide_feed_put put; /* first: the writer hands it back */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_told;
    tide_status status;
} outcome;

static void note(tide_feed_put *put, tide_status status, const tide_error *err)
{
    outcome *o = (outcome *)put;
    (void)err;
    pthread_mutex_lock(&o->lock);
    o->is_told = true;
    o->status = status;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

static void outcome_init(outcome *o)
{
    *o = (outcome){.put.done = note};
    assert_int_equal(0, pthread_mutex_init(&o->lock, NULL));
    assert_int_equal(0, pthread_cond_init(&o->changed, NULL));
}

static tide_status wait_for(outcome *o)
{
    pthread_mutex_lock(&o->lock);
    while (!o->is_told)
        pthread_cond_wait(&o->changed, &o->lock);
    pthread_mutex_unlock(&o->lock);
    return o->status;
}

static tide_feed_writer *open_writer(store_test *t, tide_feed *feed)
{
    tide_feed_writer *writer = NULL;
    const tide_feed_writer_options options = {.queue_max = QUEUE};
    assert_ok_err(tide_feed_writer_open(&writer, feed, &t->clock.env, &options, &t->err), &t->err);
    return writer;
}

static tide_status reserve(store_test *t, tide_feed_writer *writer, tide_feed_put *put, size_t len)
{
    *put = (tide_feed_put){.count = 0};
    return tide_feed_writer_reserve(writer, put, len, &t->err);
}

/* Large requests are made into records one after the other; small ones go on beside them. */
static void large_ones_share_the_room_and_leave_some_to_small_ones(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_feed_writer *writer = open_writer(t, feed);
    tide_feed_put first;
    tide_feed_put second;
    tide_feed_put small[17];
    assert_ok(reserve(t, writer, &first, 28 * MIB));
    assert_status(TIDE_E_BUSY, reserve(t, writer, &second, 28 * MIB));
    assert_contains(t->err.text, "64 MiB");
    assert_ok(reserve(t, writer, &second, 20 * MIB));
    for (int i = 0; i < 16; i++)
        assert_ok(reserve(t, writer, &small[i], MIB));
    assert_status(TIDE_E_BUSY, reserve(t, writer, &small[16], MIB));
    tide_feed_writer_unreserve(writer, &first);
    assert_ok(reserve(t, writer, &first, 28 * MIB));
    for (int i = 0; i < 16; i++)
        tide_feed_writer_unreserve(writer, &small[i]);
    tide_feed_writer_unreserve(writer, &first);
    tide_feed_writer_unreserve(writer, &second);
    tide_feed_writer_close(writer);
    tide_feed_close(feed);
}

/* What is larger than all there is would be refused for ever: alone it is taken, whatever small ones there are. */
static void one_that_is_larger_than_the_room_is_taken_alone(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_feed_writer *writer = open_writer(t, feed);
    tide_feed_put small;
    tide_feed_put huge;
    tide_feed_put other;
    assert_ok(reserve(t, writer, &small, MIB));
    assert_ok(reserve(t, writer, &huge, 128 * (size_t)MIB));
    assert_status(TIDE_E_BUSY, reserve(t, writer, &other, 2 * MIB));
    assert_ok(reserve(t, writer, &other, MIB));
    tide_feed_writer_unreserve(writer, &other);
    tide_feed_writer_unreserve(writer, &huge);
    assert_ok(reserve(t, writer, &other, 2 * MIB));
    tide_feed_writer_unreserve(writer, &other);
    tide_feed_writer_unreserve(writer, &small);
    tide_feed_writer_close(writer);
    tide_feed_close(feed);
}

/* Room is counted until the records are stored, and not longer. */
static void what_is_stored_takes_no_room(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_feed_writer *writer = open_writer(t, feed);
    for (int i = 0; i < 3; i++) {
        int64_t n = 0;
        outcome o;
        outcome_init(&o);
        tide_record_batch batch;
        tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
        add_logs(&batch, 10, "api", 1000, &n);
        assert_ok_err(tide_feed_writer_reserve(writer, &o.put, QUEUE, &t->err), &t->err);
        o.put.records[o.put.count++] = tide_record_batch_feed(&batch, NULL);
        assert_ok_err(tide_feed_writer_put(writer, &o.put, &t->err), &t->err);
        assert_ok(wait_for(&o));
        assert_int_equal(10 * i + 1, o.put.records[0].first_seq);
        tide_record_batch_done(&batch);
    }
    outcome empty;
    outcome_init(&empty);
    assert_ok(tide_feed_writer_reserve(writer, &empty.put, QUEUE, &t->err));
    assert_ok(tide_feed_writer_put(writer, &empty.put, &t->err));
    assert_ok(wait_for(&empty));
    tide_feed_put large;
    assert_ok(reserve(t, writer, &large, QUEUE));
    tide_feed_writer_unreserve(writer, &large);
    tide_feed_writer_close(writer);
    tide_feed_close(feed);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(large_ones_share_the_room_and_leave_some_to_small_ones),
        STORE_CASE_SQLITE(one_that_is_larger_than_the_room_is_taken_alone),
        STORE_CASE_SQLITE(what_is_stored_takes_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
