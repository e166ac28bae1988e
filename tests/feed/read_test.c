/* What an answer carries: records, holes, positions, standing. */
#include <stdio.h>
#include <string.h>

#include <tidemark/identity.h>

#include "base/digest.h"
#include "feed/feed_fixture.h"

/* Pages of any size give every record once, also when they cut batches; the chain at every page's end is the one that the records
 * make. */
static void pages_of_every_size_join_without_a_seam(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    for (int i = 1; i <= 12; i++)
        (void)put_logs(feed, i, "api", i * 1000);
    for (int size = 1; size <= 30; size += 3) {
        int64_t position = 0;
        tide_digest128 chain = {{0}};
        bool has_more = true;
        while (has_more) {
            tide_feed_answer answer =
                read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = position,
                                                    .max_records = size});
            assert_numbers(&answer, TIDE_STREAM_LOGS, position + 1, position + answer.count);
            assert_true(answer.count == size || !answer.has_more);
            tide_view rest = tide_view_bytes(answer.bytes, answer.len);
            tide_record record;
            while (tide_record_next(tide_stream_type_of(TIDE_STREAM_LOGS), &rest, &record) ==
                   TIDE_OK)
                chain = tide_digest_chain(chain, record.bytes);
            assert_memory_equal(chain.bytes, answer.chain, sizeof answer.chain);
            assert_int_equal(78, answer.head_seq);
            assert_int_equal(78, answer.stable_seq);
            assert_int_equal(1, answer.oldest_seq);
            assert_int_equal(0, answer.hole_count);
            assert_int_equal(position + answer.count, answer.scanned_through_seq);
            assert_true(answer.has_more == (answer.next_arrived_us > 0));
            position = answer.scanned_through_seq;
            has_more = answer.has_more;
            tide_feed_answer_done(&answer);
        }
        assert_int_equal(78, position);
    }
    tide_feed_close(feed);
}

/* Pages are bounded by bytes as well, and always have at least one record. */
static void a_page_ends_at_its_bytes_but_has_one_record(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 100, "api", 1);
    tide_feed_answer one =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .max_bytes = 1});
    assert_numbers(&one, TIDE_STREAM_LOGS, 1, 1);
    const int64_t five_bytes = (int64_t)one.len * 5;
    tide_feed_answer five =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .max_bytes = five_bytes});
    assert_numbers(&five, TIDE_STREAM_LOGS, 1, 5);
    assert_true(five.has_more);
    tide_feed_answer_done(&one);
    tide_feed_answer_done(&five);
    tide_feed_close(feed);
}

/* A poll finds the session and the state of the stream also when there is nothing to give: never an empty session. */
static void an_empty_answer_says_who_and_where(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_identity identity;
    tide_store_identity(t->store, &identity);
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = 7});
    assert_string_equal(identity.session_id, answer.session);
    assert_string_equal(identity.epoch_id, answer.epoch_id);
    assert_int_equal(identity.epoch, answer.epoch);
    assert_int_equal(0, answer.count);
    assert_int_equal(0, answer.max_seq);
    assert_int_equal(0, answer.head_seq);
    assert_int_equal(1, answer.oldest_seq);
    assert_int_equal(1, answer.epoch_first_seq);
    assert_int_equal(0, answer.scanned_through_seq);
    assert_false(answer.has_more);
    tide_feed_answer_done(&answer);
    tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "logs",
                                 .session = "00000000-0000-4000-8000-000000000000"};
    assert_status(TIDE_E_CONFLICT, tide_feed_read(feed, &request, &answer, &t->err));
    request = (tide_feed_request){TIDE_FEED_REQUEST_INIT, .stream = "nothing"};
    assert_status(TIDE_E_NOT_FOUND, tide_feed_read(feed, &request, &answer, &t->err));
    tide_feed_close(feed);
}

static void a_bounded_range_ends_where_it_says(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 10, "api", 1);
    (void)put_logs(feed, 10, "api", 1);
    tide_feed_answer answer = read_feed(
        feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = 7, .last_seq = 13});
    assert_numbers(&answer, TIDE_STREAM_LOGS, 8, 13);
    assert_int_equal(13, answer.scanned_through_seq);
    assert_true(answer.has_more);
    tide_feed_answer_done(&answer);
    answer = read_feed(
        feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = 13, .last_seq = 13});
    assert_int_equal(0, answer.count);
    assert_int_equal(13, answer.scanned_through_seq);
    tide_feed_answer_done(&answer);
    tide_feed_close(feed);
}

/* What a filter leaves out is counted and scanned through: no hole, and nothing is asked for again. */
static void a_filter_leaves_no_holes(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_record_batch mixed;
    tide_record_batch_init(&mixed, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    int64_t n = 0;
    for (int i = 0; i < 10; i++) {
        add_logs(&mixed, 1, "api", 100, &n);
        add_logs(&mixed, 1, "db", 100, &n);
    }
    tide_feed_records records = tide_record_batch_feed(&mixed, NULL);
    assert_ok_err(tide_feed_commit(feed, &records, 1, &t->err), &t->err);
    (void)put_logs(feed, 30, "web", 1); /* its batch is passed over by its set */
    const char *const services[] = {"db", "nobody"};
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .services = services,
                                            .service_count = 2});
    assert_int_equal(10, answer.count);
    assert_int_equal(40, answer.filtered);
    assert_int_equal(50, answer.scanned_through_seq);
    assert_int_equal(20, answer.max_seq);
    assert_int_equal(0, answer.hole_count);
    assert_false(answer.has_more);
    tide_feed_answer all = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_memory_equal(all.chain, answer.chain,
                        sizeof all.chain); /* it is the history's, not the filter's */
    tide_feed_answer_done(&all);
    tide_feed_answer_done(&answer);
    answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .where_column = "body",
                                                 .where_value = "web 7"});
    assert_int_equal(1, answer.count);
    assert_int_equal(28, answer.max_seq);
    tide_feed_answer_done(&answer);
    tide_feed_request bad = {TIDE_FEED_REQUEST_INIT, .stream = "logs", .where_column = "no_column",
                             .where_value = ""};
    assert_status(TIDE_E_INVALID, tide_feed_read(feed, &bad, &answer, &t->err));
    tide_record_batch_done(&mixed);
    tide_feed_close(feed);
}

static void the_time_form_gives_what_lies_between(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 10, "api", 5000);
    (void)put_logs(feed, 10, "api", 1000);
    (void)put_logs(feed, 10, "api", 9000);
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_time_ms = 1005,
                                            .end_time_ms = 5003});
    assert_int_equal(5 + 3, answer.count);
    assert_int_equal(22, answer.filtered);
    assert_false(answer.has_more);
    tide_feed_answer_done(&answer);
    tide_feed_close(feed);
}

/* ---- standing ---- */

static tide_feed_point point_at(tide_feed *feed, int64_t seq)
{
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT,
                                            .max_records = seq > 0 ? seq : 1, .last_seq = seq});
    tide_feed_point point = {.seq = seq, .epoch = answer.epoch};
    if (seq > 0)
        memcpy(point.digest, answer.chain, sizeof point.digest);
    tide_feed_answer_done(&answer);
    return point;
}

static void assert_standing(tide_feed *feed, const tide_feed_point *points, int count,
                            tide_feed_standing standing, int64_t matched_seq)
{
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = 1,
                                            .points = points, .point_count = count});
    assert_int_equal(standing, answer.standing);
    assert_int_equal(matched_seq, answer.matched_seq);
    tide_feed_answer_done(&answer);
}

/* Who shows points is told whether they are of this history, and up to where. */
static void points_tell_one_history_from_another(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 10, "api", 1);
    (void)put_logs(feed, 10, "api", 1);
    tide_feed_point points[] = {point_at(feed, 3), point_at(feed, 10), point_at(feed, 17)};
    assert_standing(feed, points, 0, TIDE_FEED_STANDING_NONE, 0);
    assert_standing(feed, points, 3, TIDE_FEED_STANDING_OK, 17);
    points[2].digest[0] ^= 1;
    assert_standing(feed, points, 3, TIDE_FEED_STANDING_DIVERGED, 10);
    points[2] = point_at(feed, 17);
    points[2].seq = 21; /* beyond the head: this history is shorter than the reader's */
    assert_standing(feed, points, 3, TIDE_FEED_STANDING_DIVERGED, 10);
    points[2].seq = 17;
    points[2].epoch = 2; /* an epoch that never was */
    assert_standing(feed, points, 3, TIDE_FEED_STANDING_DIVERGED, 10);
    tide_feed_close(feed);
}

/* A store that was put back to an earlier state goes on in a new epoch. What it has given out a second time is
 * told from what it gave out before, with and without digests. */
static void a_restored_store_is_told_by_epoch_and_digest(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 10, "api", 1);
    char copy[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "copy.db", copy);
    assert_ok_err(tide_store_backup(t->store, copy, &t->err), &t->err);
    (void)put_logs(feed, 10, "old", 1);
    const tide_feed_point points[] = {point_at(feed, 8), point_at(feed, 15)};
    tide_feed_close(feed);

    const tide_store_options options = store_test_options(t);
    tide_store *restored = NULL;
    assert_ok_err(tide_store_open(&restored, copy, &options, &t->err), &t->err);
    assert_ok_err(tide_feed_open(&feed, restored, NULL, &t->err), &t->err);
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_int_equal(2, answer.epoch);
    assert_int_equal(11, answer.epoch_first_seq);
    tide_feed_answer_done(&answer);
    assert_standing(feed, points, 2, TIDE_FEED_STANDING_DIVERGED, 8);
    (void)put_logs(feed, 20, "new", 1);
    assert_standing(feed, points, 2, TIDE_FEED_STANDING_DIVERGED, 8);
    tide_feed_close(feed);
    tide_store_close(restored);
}

/* More epochs than one answer tells: the reader's own and those behind it are among them, whoever it is, and the newest. */
static void of_many_epochs_the_readers_next_ones_are_told(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    enum { COUNT = TIDE_FEED_EPOCHS_MAX + 16 };
    for (int i = 0; i < COUNT; i++) {
        (void)put_logs(feed, 2, "api", 1);
        assert_ok(tide_identity_raise(t->store, "operator", "a test", NULL, &t->err));
    }
    static const int64_t readers[] = {0, 5, 30, COUNT - 3}; /* 0: asks for the first time */
    for (size_t at = 0; at < sizeof readers / sizeof readers[0]; at++) {
        const int64_t own = readers[at] > 0 ? readers[at] : 1;
        tide_feed_answer answer =
            read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .epoch = readers[at]});
        assert_int_equal(TIDE_FEED_EPOCHS_MAX, answer.epoch_count);
        bool has_own = false;
        for (int i = 0; i < answer.epoch_count; i++) {
            const tide_feed_epoch *epoch = &answer.epochs[i];
            assert_int_equal(2 * epoch->epoch - 1, epoch->first_seq);
            assert_true(i == 0 || epoch->epoch > answer.epochs[i - 1].epoch);
            if (epoch->epoch == own) {
                has_own = true;
                assert_int_equal(own + 1, answer.epochs[i + 1].epoch);
            }
        }
        assert_true(has_own);
        assert_int_equal(COUNT + 1, answer.epochs[answer.epoch_count - 1].epoch);
        tide_feed_answer_done(&answer);
    }
    tide_feed_close(feed);
}

/* A reader of an earlier epoch is told where each epoch began, so that it knows to which one a number belongs. */
static void a_reader_of_another_epoch_is_told_where_they_began(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_identity identity;
    (void)put_logs(feed, 10, "api", 1);
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .epoch = 1});
    assert_int_equal(0, answer.epoch_count);
    tide_feed_answer_done(&answer);
    assert_ok(tide_identity_raise(t->store, "operator", "a test", NULL, &t->err));
    (void)put_logs(feed, 5, "api", 1);
    assert_ok(tide_identity_raise(t->store, "operator", "a test", &identity, &t->err));
    answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .epoch = 1});
    assert_int_equal(3, answer.epoch_count);
    static const int64_t firsts[] = {1, 11, 16};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(i + 1, answer.epochs[i].epoch);
        assert_int_equal(firsts[i], answer.epochs[i].first_seq);
        assert_int_equal(36, strlen(answer.epochs[i].epoch_id));
    }
    assert_string_equal(identity.epoch_id, answer.epochs[2].epoch_id);
    tide_feed_answer_done(&answer);
    tide_feed_close(feed);
}

/* What a reader says of itself is enough to see that it is of another history, also where it has no point to show. */
static void a_reader_of_a_longer_history_has_diverged(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_identity identity;
    (void)put_logs(feed, 10, "api", 1);
    tide_store_identity(t->store, &identity);
    const tide_feed_request fine = {TIDE_FEED_REQUEST_INIT, .start_seq = 10, .epoch = 1,
                                    .epoch_id = identity.epoch_id, .session = identity.session_id};
    tide_feed_request above = fine;
    above.start_seq = 11;
    tide_feed_request later = fine;
    later.epoch = 9;
    tide_feed_request other = fine;
    other.epoch_id = "00000000-0000-4000-8000-000000000000";
    const tide_feed_request *cases[] = {&above, &later, &other};
    tide_feed_answer answer = read_feed(feed, fine);
    assert_int_equal(TIDE_FEED_STANDING_NONE, answer.standing);
    tide_feed_answer_done(&answer);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tide_identity before;
        virtual_env_advance(&t->clock, TIDE_FEED_RAISE_US);
        tide_store_identity(t->store, &before);
        tide_feed_request request = *cases[i];
        if (request.epoch == 1)
            request.epoch = before.epoch;
        answer = read_feed(feed, request);
        assert_int_equal(TIDE_FEED_STANDING_DIVERGED, answer.standing);
        assert_true(answer.epoch > before.epoch && answer.epoch > request.epoch);
        tide_feed_answer_done(&answer);
    }
    tide_feed_close(feed);
}

/* Old readers show nothing but a number. */
static void a_number_above_the_head_is_ahead(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 10, "api", 1);
    tide_feed_answer answer =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = 10});
    assert_int_equal(TIDE_FEED_STANDING_NONE, answer.standing);
    tide_feed_answer_done(&answer);
    answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = 11});
    assert_int_equal(TIDE_FEED_STANDING_AHEAD, answer.standing);
    assert_int_equal(10, answer.head_seq);
    tide_feed_answer_done(&answer);
    answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = 999,
                                                 .reader = "colony", .lease_token = 1});
    assert_int_equal(TIDE_FEED_STANDING_AHEAD, answer.standing);
    tide_feed_answer_done(&answer);
    tide_feed_close(feed);
}

/* A volume that was rolled back has no evidence in itself; the reader that has seen more is the evidence. What is given out from
 * then on belongs to an epoch that nobody has seen. */
static void a_reader_that_has_seen_more_makes_a_new_epoch_begin(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    tide_identity identity;
    (void)put_logs(feed, 10, "api", 1);
    tide_store_identity(t->store, &identity);
    tide_feed_point points[] = {point_at(feed, 6), point_at(feed, 9)};
    points[1].seq = 30;
    points[1].epoch = 4;
    tide_feed_request request = {
        TIDE_FEED_REQUEST_INIT,         .start_seq = 30,  .epoch = 4,
        .session = identity.session_id, .points = points, .point_count = 2};
    tide_feed_answer answer = read_feed(feed, request);
    assert_int_equal(TIDE_FEED_STANDING_DIVERGED, answer.standing);
    assert_int_equal(6, answer.matched_seq);
    assert_int_equal(5, answer.epoch);
    assert_int_equal(11, answer.epoch_first_seq);
    assert_int_equal(2, answer.epoch_count);
    tide_feed_answer_done(&answer);

    points[1].epoch = 5; /* somebody who wants to use them up is held back */
    request.epoch = 5;
    answer = read_feed(feed, request);
    assert_int_equal(5, answer.epoch);
    tide_feed_answer_done(&answer);
    virtual_env_advance(&t->clock, TIDE_FEED_RAISE_US);
    answer = read_feed(feed, request);
    assert_int_equal(6, answer.epoch);
    tide_feed_answer_done(&answer);

    points[1].epoch = request.epoch =
        6 + 20; /* an old backup: three times eight epochs have passed since */
    virtual_env_advance(&t->clock, 2 * TIDE_FEED_RAISE_US);
    answer = read_feed(feed, request);
    assert_int_equal(6, answer.epoch);
    tide_feed_answer_done(&answer);
    virtual_env_advance(&t->clock, TIDE_FEED_RAISE_US);
    answer = read_feed(feed, request);
    assert_int_equal(27, answer.epoch);
    tide_feed_answer_done(&answer);
    tide_feed_close(feed);
}

/* A volume was rolled back, wrote more than the reader had seen, and dropped that before the reader came back. No digest is left to
 * compare; but when the rolled-back store was opened it ended below what the reader has. What was dropped is told as a hole. Who was served
 * since, and comes too late to be checked, is believed. */
static void a_reader_of_numbers_that_were_given_again_and_dropped_has_diverged(void **state)
{
    store_test *t = *state;
    const tide_feed_options options = {TIDE_FEED_OPTIONS_INIT, .keep_us = MINUTE_US,
                                       .hard_us = HOUR_US};
    tide_feed *feed = feed_test_open(t, &options);
    tide_identity identity;
    tide_store_identity(t->store, &identity);
    (void)put_logs(feed, 10, "api", 1);
    tide_feed_request rolled = {TIDE_FEED_REQUEST_INIT, .reader = "rolled",
                                .session = identity.session_id, .epoch = 1};
    tide_feed_request served = rolled;
    served.reader = "served";
    tide_feed_answer answer = read_feed(feed, rolled);
    tide_feed_answer_done(&answer);
    tide_feed_close(feed); /* the volume is put back to here after the reader has seen 15 */
    feed = feed_test_open(t, &options);
    (void)put_logs(feed, 10, "api", 1);
    answer = read_feed(feed, served);
    tide_feed_answer_done(&answer);
    tide_feed_close(feed);
    feed = feed_test_open(t, &options);
    (void)put_logs(feed, 5, "api", 1);
    int64_t next_us = 0;
    virtual_env_advance(&t->clock, 2 * HOUR_US);
    assert_ok_err(tide_feed_step(feed, &next_us, &t->err), &t->err);
    assert_int_equal(25, ask_sql(t, "SELECT floor_seq FROM feed_streams WHERE name = 'logs'"));

    const tide_feed_point points[] = {{.seq = 5, .epoch = 1, .digest = {1}},
                                      {.seq = 15, .epoch = 1, .digest = {2}}};
    rolled.points = served.points = points;
    rolled.point_count = served.point_count = 2;
    rolled.start_seq = served.start_seq = 15;
    answer = read_feed(feed, served);
    assert_int_equal(TIDE_FEED_STANDING_UNKNOWN, answer.standing);
    assert_int_equal(1, answer.epoch);
    tide_feed_answer_done(&answer);
    rolled.point_count = 0;
    answer = read_feed(feed, rolled); /* who shows nothing is not judged, nor taken as judged */
    tide_feed_answer_done(&answer);
    rolled.point_count = 2;
    for (int i = 0; i < 2; i++) { /* asking again changes nothing */
        answer = read_feed(feed, rolled);
        assert_int_equal(TIDE_FEED_STANDING_DIVERGED, answer.standing);
        assert_int_equal(10, answer.matched_seq);
        assert_int_equal(2, answer.epoch);
        tide_feed_answer_done(&answer);
    }
    rolled.start_seq = 10;
    rolled.point_count = 1;
    rolled.epoch = 2;
    answer = read_feed(feed, rolled);
    assert_int_equal(TIDE_FEED_STANDING_UNKNOWN, answer.standing);
    assert_hole(&answer, 0, 11, 25, "expired");
    tide_feed_answer_done(&answer);
    assert_int_equal(0,
                     ask_sql(t, "SELECT count(*) FROM feed_readers WHERE opened_seq IS NOT NULL"));
    tide_feed_close(feed);
}

/* ---- readers ---- */

static void look_at_reader(void *arg, const tide_feed_reader *reader)
{
    *(tide_feed_reader *)arg = *reader;
}
static tide_status keep_reader(void *arg, const tide_feed_reader *reader, tide_error *err)
{
    (void)err;
    look_at_reader(arg, reader);
    return TIDE_OK;
}

/* A reader's position only rises, and a stalled one with an old token is refused. */
static void a_reader_moves_forward_under_its_newest_token(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    (void)put_logs(feed, 20, "api", 1);
    tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "logs", .reader = "colony",
                                 .start_seq = 5, .lease_token = 7};
    tide_feed_answer answer = read_feed(feed, request);
    tide_feed_answer_done(&answer);
    request.start_seq = 3;
    answer = read_feed(feed, request); /* reading again is fine, the position stays */
    tide_feed_answer_done(&answer);
    tide_feed_reader reader = {0};
    assert_ok_err(tide_feed_readers(feed, "logs", keep_reader, &reader, &t->err), &t->err);
    assert_string_equal("colony", reader.name);
    assert_int_equal(5, reader.position);
    request.lease_token = 6;
    assert_status(TIDE_E_LEASE_LOST, tide_feed_read(feed, &request, &answer, &t->err));
    request.lease_token = 8;
    request.start_seq = 999; /* nobody has read what was not given */
    answer = read_feed(feed, request);
    tide_feed_answer_done(&answer);
    assert_ok_err(tide_feed_readers(feed, "logs", keep_reader, &reader, &t->err), &t->err);
    assert_int_equal(20, reader.position);
    assert_int_equal(8, reader.lease_token);
    assert_ok_err(tide_feed_forget(feed, "logs", "colony", &t->err), &t->err);
    assert_status(TIDE_NONE, tide_feed_forget(feed, "logs", "colony", &t->err));
    tide_feed_close(feed);
}

/* ---- damage ---- */

/* Damaged bytes are never served. The batch is a hole, noted once with a receipt, and what follows is served. */
static void a_damaged_batch_is_a_hole_with_a_receipt(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    for (int i = 0; i < 4; i++)
        (void)put_logs(feed, 10, "api", 1);
    static const char *const damages[] = {
        "DROP TRIGGER feed_batches_keep; UPDATE feed_batches SET body = CAST(substr(body, 1, 20) "
        "|| x'00' || "
        "substr(body, 22) AS BLOB) WHERE first_seq = 11",
        "UPDATE feed_batches SET max_time_ms = max_time_ms + 1 WHERE first_seq = 21",
    };
    run_sql(t, damages[0]);
    run_sql(t, damages[1]);
    for (int again = 0; again < 3; again++) {
        tide_feed_answer answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
        assert_int_equal(20, answer.count);
        assert_int_equal(40, answer.scanned_through_seq);
        assert_int_equal(1, answer.hole_count);
        assert_hole(&answer, 0, 11, 30, "damaged");
        assert_int_equal(20, count_receipts(feed, "logs", "damaged"));
        tide_feed_answer_done(&answer);
    }
    tide_feed_answer first =
        read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .last_seq = 15});
    assert_hole(&first, 0, 11, 15, "damaged");
    assert_int_equal(10, first.count);
    tide_feed_answer_done(&first);
    assert_int_equal(41, put_logs(feed, 1, "api", 1));
    tide_feed_close(feed);
}

/* A row that vanished: its numbers are lost, and said so. */
static void a_missing_batch_is_lost(void **state)
{
    store_test *t = *state;
    tide_feed *feed = feed_test_open(t, NULL);
    for (int i = 0; i < 3; i++)
        (void)put_logs(feed, 10, "api", 1);
    run_sql(t, "DELETE FROM feed_batches WHERE first_seq = 11");
    tide_feed_answer answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_int_equal(20, answer.count);
    assert_hole(&answer, 0, 11, 20, "lost");
    tide_feed_answer_done(&answer);
    assert_int_equal(10, count_receipts(feed, "logs", "lost"));
    run_sql(t, "DELETE FROM feed_batches WHERE first_seq = 21"); /* the head itself */
    answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
    assert_hole(&answer, 0, 11, 30, "lost");
    tide_feed_answer_done(&answer);
    assert_int_equal(31, put_logs(feed, 5, "api", 1)); /* numbers are not given twice */
    answer = read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .start_seq = 30});
    assert_numbers(&answer, TIDE_STREAM_LOGS, 31, 35);
    tide_feed_answer_done(&answer);
    tide_feed_close(feed);
}

/* A copy of the store in which the page that holds a text is overwritten; opened. */
static tide_store *open_with_bad_page(store_test *t, const char *text)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "bad.db", path);
    assert_ok_err(tide_store_backup(t->store, path, &t->err), &t->err);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    static char page[16384];
    int hits = 0;
    for (long at = 0; fread(page, 1, sizeof page, file) == sizeof page; at += (long)sizeof page) {
        if (!memmem(page, sizeof page, text, strlen(text)))
            continue;
        memset(page, 0xff, sizeof page);
        assert_int_equal(0, fseek(file, at, SEEK_SET));
        assert_int_equal(sizeof page, fwrite(page, 1, sizeof page, file));
        hits++;
    }
    assert_int_equal(1, hits);
    assert_int_equal(0, fclose(file));
    const tide_store_options options = store_test_options(t);
    tide_store *store = NULL;
    assert_ok_err(tide_store_open(&store, path, &options, &t->err), &t->err);
    return store;
}

/* The file's last page of batches cannot be read, so that no receipt can be written either: what lies before it is served, the
 * rest is a hole of the answer, and who wants to write is told of the damage. */
static void what_lies_before_an_unreadable_end_is_served(void **state)
{
    store_test *t = *state;
    tide_feed *feed =
        feed_test_open(t, &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .codec = "none"});
    char service[16];
    for (int i = 0; i < 60; i++) {
        (void)snprintf(service, sizeof service, "part-%03d", i);
        (void)put_logs(feed, 20, service, 1);
    }
    tide_feed_close(feed);
    tide_store *store = open_with_bad_page(t, "part-059 0");
    assert_ok_err(tide_feed_open(&feed, store,
                                 &(tide_feed_options){TIDE_FEED_OPTIONS_INIT, .reserve_bytes = -1},
                                 &t->err),
                  &t->err);
    for (int i = 0; i < 2; i++) {
        tide_feed_answer answer =
            read_feed(feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .max_records = 5000});
        assert_in_range(answer.count, 800, 1180);
        assert_numbers(&answer, TIDE_STREAM_LOGS, 1, answer.count);
        assert_int_equal(1, answer.hole_count);
        assert_hole(&answer, 0, answer.count + 1, 1200, "damaged");
        assert_int_equal(1200, answer.scanned_through_seq);
        tide_feed_answer_done(&answer);
    }
    int64_t n = 0;
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    add_logs(&batch, 1, "new", 1, &n);
    tide_feed_records records = tide_record_batch_feed(&batch, NULL);
    assert_status(TIDE_E_DAMAGED, tide_feed_commit(feed, &records, 1, &t->err));
    tide_record_batch_done(&batch);
    tide_feed_close(feed);
    tide_store_close(store);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(pages_of_every_size_join_without_a_seam),
        STORE_CASE_SQLITE(a_page_ends_at_its_bytes_but_has_one_record),
        STORE_CASE_SQLITE(an_empty_answer_says_who_and_where),
        STORE_CASE_SQLITE(a_bounded_range_ends_where_it_says),
        STORE_CASE_SQLITE(a_filter_leaves_no_holes),
        STORE_CASE_SQLITE(the_time_form_gives_what_lies_between),
        STORE_CASE_SQLITE(points_tell_one_history_from_another),
        STORE_CASE_SQLITE(a_restored_store_is_told_by_epoch_and_digest),
        STORE_CASE_SQLITE(of_many_epochs_the_readers_next_ones_are_told),
        STORE_CASE_SQLITE(a_reader_of_another_epoch_is_told_where_they_began),
        STORE_CASE_SQLITE(a_reader_of_a_longer_history_has_diverged),
        STORE_CASE_SQLITE(a_number_above_the_head_is_ahead),
        STORE_CASE_SQLITE(a_reader_that_has_seen_more_makes_a_new_epoch_begin),
        STORE_CASE_SQLITE(a_reader_of_numbers_that_were_given_again_and_dropped_has_diverged),
        STORE_CASE_SQLITE(a_reader_moves_forward_under_its_newest_token),
        STORE_CASE_SQLITE(a_damaged_batch_is_a_hole_with_a_receipt),
        STORE_CASE_SQLITE(a_missing_batch_is_lost),
        STORE_CASE_SQLITE(what_lies_before_an_unreadable_end_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
