/* What agents answer, trusted in nothing. */
#include "colony/ask.h"

#include <string.h>

#include "base/cleanup.h"
#include "colony/settle_fixture.h"
#include "feed/record.h"
#include "support/check.h"

static tide_status read_into(tide_reply *out, answer *a)
{
    tide_error err = {.text = ""};
    return answer_read(a, out, &err);
}

static tide_status try_read(answer *a)
{
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    const tide_status status = read_into(&reply, a);
    answer_done(a);
    if (status < TIDE_OK)
        assert_true(!reply.records && !reply.holes && !reply.epochs && !reply.frames);
    return status;
}

/* Ours and others': the number may stand anywhere, padded or not; records need not be in order. */
static void records_are_read_and_sorted(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    TIDE_CLEANUP(answer_done) answer a;
    answer_begin(&a, "any text is a session");
    answer_foreign(&a, 300, 3);
    answer_record(&a, 2, 2);
    answer_foreign(&a, INT64_MAX, 4);
    answer_record(&a, 1, 1);
    assert_ok(read_into(&reply, &a));
    assert_string_equal(reply.session_id, "any text is a session");
    assert_false(reply.has_state);
    assert_int_equal(reply.record_count, 4);
    const int64_t want[] = {1, 2, 300, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        tide_record_row row;
        assert_int_equal(reply.records[i].seq, want[i]);
        assert_false(reply.records[i].is_dead);
        assert_ok(tide_record_decode(tide_stream_type_of(TIDE_STREAM_TELEMETRY),
                                     reply.records[i].message, &row));
        assert_int_equal(row.seq, want[i]);
        assert_int_equal(row.values[TIDE_SPAN_TIMESTAMP].i64, i + 1);
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 1024);
    record_bytes(&bytes, 1, 1);
    assert_true(tide_view_equal(reply.records[0].bytes, tide_buffer_view(&bytes)));
}

static void the_state_is_read(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    TIDE_CLEANUP(answer_done) answer a;
    const unsigned char digest[TIDE_FEED_DIGEST_SIZE] = {1, 2, 3};
    answer_begin(&a, "s1");
    answer_record(&a, 9, 9);
    answer_state(&a, 1, 5, 9, 20);
    answer_hole(&a, 8, 8, "damaged"); /* not in order */
    answer_hole(&a, 5, 6, "Very odd");
    answer_hole(&a, 7, 7, "a reason that is much too long");
    answer_chain(&a, digest);
    answer_epoch(&a, 1, 1, "one", "created");
    answer_epoch(&a, 3, 7, "three", "restored");
    answer_number(&a, 8, 1);
    answer_number(&a, 9, 1000);
    answer_number(&a, 10, 1001);
    answer_number(&a, 11, 9); /* a standing of the future */
    answer_number(&a, 12, 4);
    answer_number(&a, 13, 1002);
    answer_number(&a, 14, 1003);
    answer_number(&a, 17, 1);
    answer_number(&a, 400, 1); /* a field of the future */
    assert_ok(read_into(&reply, &a));
    assert_true(reply.has_state && reply.has_more && reply.has_chain);
    assert_int_equal(reply.oldest_seq, 5);
    assert_int_equal(reply.scanned_through_seq, 9);
    assert_int_equal(reply.stable_seq, 20);
    assert_int_equal(reply.head_seq, 20);
    assert_memory_equal(reply.chain, digest, sizeof digest);
    assert_int_equal(reply.hole_count, 3);
    assert_int_equal(reply.holes[0].first_seq, 5);
    assert_string_equal(reply.holes[0].reason, "lost"); /* nothing to show of it */
    assert_string_equal(reply.holes[1].reason, "a reason that i");
    assert_string_equal(reply.holes[2].reason, "damaged");
    assert_int_equal(reply.epoch, 3);
    assert_int_equal(reply.epoch_first_seq, 7);
    assert_string_equal(reply.epoch_id, "three");
    assert_int_equal(reply.epoch_count, 2);
    assert_int_equal(reply.epochs[1].first_seq, 7);
    assert_string_equal(reply.epochs[1].reason, "restored");
    assert_int_equal(reply.standing, TIDE_FEED_STANDING_UNKNOWN);
    assert_int_equal(reply.matched_seq, 4);
    assert_int_equal(reply.next_arrived_ms, 1000);
    assert_int_equal(reply.head_arrived_ms, 1001);
    assert_int_equal(reply.now_ms, 1002);
    assert_int_equal(reply.retention_ms, 1003);
    assert_int_equal(reply.filtered, 1);
}

/* A digest of zeros says that it is not known. */
static void an_unknown_chain_is_none(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    TIDE_CLEANUP(answer_done) answer a;
    const unsigned char digest[TIDE_FEED_DIGEST_SIZE] = {0};
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 0, 0);
    answer_chain(&a, digest);
    assert_ok(read_into(&reply, &a));
    assert_false(reply.has_chain);
}

static void an_answer_without_a_session_is_refused(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "");
    answer_record(&a, 1, 1);
    assert_status(TIDE_E_INVALID, try_read(&a));
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    tide_error err;
    const tide_colony_type *type = tide_colony_type_of(TIDE_STREAM_TELEMETRY);
    assert_status(TIDE_E_INVALID, tide_reply_read(&reply, type, tide_view_of(""), &err));
    assert_contains(err.text, "session_id");

    char longest[66] = {0};
    memset(longest, 'x', 65);
    answer_begin(&a, longest);
    assert_status(TIDE_E_DAMAGED, try_read(&a));
    longest[64] = '\0';
    answer_begin(&a, longest);
    assert_ok(try_read(&a));
    answer_begin(&a, "\xff\xfe");
    assert_status(TIDE_E_DAMAGED, try_read(&a));
}

/* Two records with one number: kept once if they are the same, else a contradiction. */
static void a_number_that_comes_twice(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    TIDE_CLEANUP(answer_done) answer a;
    answer_begin(&a, "s1");
    answer_record(&a, 2, 2);
    answer_record(&a, 1, 1);
    answer_record(&a, 2, 2);
    answer_record(&a, 2, 2);
    assert_ok(read_into(&reply, &a));
    assert_int_equal(reply.record_count, 2);
    answer b;
    answer_begin(&b, "s1");
    answer_record(&b, 2, 2);
    answer_record(&b, 2, 3);
    assert_status(TIDE_E_INVALID, try_read(&b));
}

/* Numbers above 2^63-1 are none, wherever they stand. */
static void numbers_beyond_the_last_are_refused(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_foreign(&a, INT64_MIN, 1); /* 2^63 */
    assert_status(TIDE_E_DAMAGED, try_read(&a));
    const uint32_t fields[] = {1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 16, 17};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        answer_begin(&a, "s1");
        answer_state(&a, 1, 1, 0, 0);
        answer_number(&a, fields[i], UINT64_C(1) << 63);
        assert_status(TIDE_E_DAMAGED, try_read(&a));
    }
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 0, 0);
    answer_hole(&a, INT64_MIN, 5, "lost");
    assert_status(TIDE_E_DAMAGED, try_read(&a));
}

/* What cannot be decoded keeps its number if that can be read. */
static void records_that_cannot_be_read_are_dead(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    TIDE_CLEANUP(answer_done) answer a;
    answer_begin(&a, "s1");
    answer_record(&a, 1, 1);
    answer_dead(&a, 2);
    answer_dead(&a, 0);
    /* a text that is not UTF-8, and a message that is sound but has no number */
    assert_ok(tide_buffer_append(&a.body,
                                 "\x0a\x07\x60\x03\x12\x03"
                                 "a\xff"
                                 "b",
                                 9));
    assert_ok(tide_buffer_append(&a.body, "\x0a\x02\x08\x01", 4));
    assert_ok(tide_buffer_append(&a.body, "\x0a\x03\x60\x04\x0a", 5)); /* cut short */
    assert_ok(read_into(&reply, &a));
    assert_int_equal(reply.record_count, 6);
    const int64_t want[] = {0, 0, 1, 2, 3, 4};
    const char *reasons[] = {"not a message", "no number", NULL,
                             "not a message", "UTF-8",     "not a message"};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(reply.records[i].seq, want[i]);
        assert_int_equal(reply.records[i].is_dead, reasons[i] != NULL);
        if (reasons[i])
            assert_contains(reply.records[i].reason, reasons[i]);
        else
            assert_null(reply.records[i].reason);
    }
}

/* An agent that contradicts itself is not believed in anything. */
static void contradictions_are_refused(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1"); /* a record above what was scanned */
    answer_record(&a, 5, 5);
    answer_state(&a, 1, 1, 4, 9);
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1"); /* scanned above the head */
    answer_state(&a, 1, 1, 10, 9);
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1"); /* scanned above what is stable */
    answer_state(&a, 1, 1, 9, 9);
    answer_number(&a, 3, 8);
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1"); /* stable above the head */
    answer_state(&a, 1, 1, 9, 9);
    answer_number(&a, 3, 10);
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1"); /* the oldest above the head */
    answer_state(&a, 1, 11, 9, 9);
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1"); /* no oldest number, no epoch */
    answer_state(&a, 1, 0, 9, 9);
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1");
    answer_state(&a, 0, 1, 9, 9);
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1"); /* a record inside of a hole */
    answer_record(&a, 5, 5);
    answer_state(&a, 1, 1, 9, 9);
    answer_hole(&a, 4, 6, "lost");
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1"); /* holes that overlap, that are none, that were not scanned */
    answer_state(&a, 1, 1, 9, 9);
    answer_hole(&a, 4, 6, "lost");
    answer_hole(&a, 6, 7, "lost");
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 9, 9);
    answer_hole(&a, 6, 4, "lost");
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 9, 20);
    answer_hole(&a, 8, 10, "lost");
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1"); /* epochs that do not ascend, or end in another one */
    answer_state(&a, 1, 1, 0, 0);
    answer_epoch(&a, 2, 5, "two", "");
    answer_epoch(&a, 1, 1, "one", "");
    assert_status(TIDE_E_INVALID, try_read(&a));
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 0, 0);
    answer_epoch(&a, 2, 5, "two", "");
    answer_number(&a, 1, 3);
    assert_status(TIDE_E_INVALID, try_read(&a));
}

/* The latest epochs are kept; more than anybody can have are refused. */
static void many_epochs_are_cut_to_the_latest(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    TIDE_CLEANUP(answer_done) answer a;
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 0, 0);
    for (int64_t i = 1; i <= TIDE_REPLY_EPOCHS_MAX + 6; i++)
        answer_epoch(&a, i, i, "id", "");
    assert_ok(read_into(&reply, &a));
    assert_int_equal(reply.epoch_count, TIDE_REPLY_EPOCHS_MAX);
    assert_int_equal(reply.epochs[0].epoch, 7);
    answer b;
    answer_begin(&b, "s1");
    answer_state(&b, 1, 1, 0, 0);
    for (int64_t i = 1; i <= 5000; i++)
        answer_epoch(&b, i, i, "", "");
    assert_status(TIDE_E_DAMAGED, try_read(&b));
}

/* Limits: records, holes, bytes. */
static void more_than_the_limits_is_refused(void **state)
{
    (void)state;
    answer a;
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, TIDE_REPLY_RECORDS_MAX);
    assert_ok(try_read(&a));
    answer_begin(&a, "s1");
    answer_foreign_run(&a, 1, TIDE_REPLY_RECORDS_MAX + 1);
    assert_status(TIDE_E_DAMAGED, try_read(&a));
    answer_begin(&a, "s1");
    answer_state(&a, 1, 1, 10000, 10000);
    for (int64_t i = 1; i <= TIDE_REPLY_HOLES_MAX + 1; i++)
        answer_hole(&a, 2 * i, 2 * i, "lost");
    assert_status(TIDE_E_DAMAGED, try_read(&a));
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    tide_error err;
    assert_status(TIDE_E_DAMAGED,
                  tide_reply_read(&reply, tide_colony_type_of(TIDE_STREAM_TELEMETRY),
                                  tide_view_bytes("", TIDE_REPLY_BYTES_MAX + 1), &err));
}

/* Every prefix of an answer is an answer or none: never a read beyond its end (the sanitizer looks). */
static void an_answer_that_is_cut_is_no_trouble(void **state)
{
    (void)state;
    TIDE_CLEANUP(answer_done) answer a;
    answer_begin(&a, "s1");
    answer_record_run(&a, 1, 3);
    answer_foreign(&a, 6, 6);
    answer_state(&a, 1, 1, 6, 9);
    answer_hole(&a, 4, 5, "lost");
    answer_epoch(&a, 1, 1, "one", "created");
    const tide_view all = answer_bytes(&a);
    const tide_colony_type *type = tide_colony_type_of(TIDE_STREAM_TELEMETRY);
    int refused = 0;
    for (size_t len = 0; len < all.len; len++) {
        TIDE_CLEANUP(tide_freep) char *part = malloc(len + 1);
        assert_non_null(part);
        memcpy(part, all.ptr, len);
        TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
        const tide_status status = tide_reply_read(&reply, type, tide_view_bytes(part, len), NULL);
        assert_true(status == TIDE_OK || status == TIDE_E_DAMAGED || status == TIDE_E_INVALID);
        refused += status != TIDE_OK;
    }
    assert_true(refused > 50);
}

/* eBPF: four streams in one answer; each type sees its own. */
static void one_of_four_streams_is_read(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 1024);
    assert_ok(tide_buffer_append(&bytes,
                                 "\x0a\x02\x48\x07" /* http 7 */
                                 "\x12\x02\x40\x08" /* gRPC 8 */
                                 "\x1a\x02\x40\x09" /* SQL 9 */
                                 "\x22\x02\x60\x0a" /* traces 10 */
                                 "\x30\x07\x38\x08\x40\x09\x48\x0a"
                                 "\x52\x02s1",
                                 28));
    const tide_stream_kind kinds[] = {TIDE_STREAM_BEYLA_HTTP, TIDE_STREAM_BEYLA_GRPC,
                                      TIDE_STREAM_BEYLA_SQL, TIDE_STREAM_BEYLA_TRACES};
    for (int i = 0; i < 4; i++) {
        TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
        tide_error err;
        assert_ok_err(
            tide_reply_read(&reply, tide_colony_type_of(kinds[i]), tide_buffer_view(&bytes), &err),
            &err);
        assert_int_equal(reply.record_count, 1);
        assert_int_equal(reply.records[0].seq, 7 + i);
        assert_int_equal(reply.max_seq, 7 + i);
        assert_string_equal(reply.session_id, "s1");
    }
}

/* Profiles bring the names of their frames; one that cannot be read costs itself alone. */
static void frames_come_with_profiles(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 1024);
    assert_ok(tide_buffer_append(&bytes,
                                 "\x0a\x02\x40\x05"
                                 "\x22\x02s1"
                                 "\xaa\x01\x08\x08\x03\x12\x04main"
                                 "\xaa\x01\x04\x08\x04\x12\x7f"
                                 "\xaa\x01\x05\x08\x05\x12\x01\xff",
                                 34));
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    tide_error err;
    assert_ok_err(tide_reply_read(&reply, tide_colony_type_of(TIDE_STREAM_CPU_PROFILE),
                                  tide_buffer_view(&bytes), &err),
                  &err);
    assert_int_equal(reply.records[0].seq, 5);
    assert_int_equal(reply.frame_count, 1);
    assert_int_equal(reply.frames[0].id, 3);
    assert_true(tide_view_equal(reply.frames[0].name, tide_view_of("main")));
}

/* As many as an agent may have: a page whose stacks are all different is no damage. */
static void a_page_may_name_every_frame_of_its_agent(void **state)
{
    (void)state;
    enum { COUNT = TIDE_FEED_FRAMES_MAX + 1 };
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, TIDE_ASK_BYTES_MAX);
    assert_ok(tide_buffer_append(&bytes, "\x0a\x02\x40\x05\x22\x02s1", 8));
    for (int i = 0; i < COUNT; i++)
        assert_ok(tide_buffer_append(&bytes, "\xaa\x01\x05\x08\x03\x12\x01x", 8));
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    tide_error err;
    assert_ok_err(tide_reply_read(&reply, tide_colony_type_of(TIDE_STREAM_CPU_PROFILE),
                                  tide_buffer_view(&bytes), &err),
                  &err);
    assert_int_equal(reply.frame_count, COUNT);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_read_and_sorted),
        cmocka_unit_test(the_state_is_read),
        cmocka_unit_test(an_unknown_chain_is_none),
        cmocka_unit_test(an_answer_without_a_session_is_refused),
        cmocka_unit_test(a_number_that_comes_twice),
        cmocka_unit_test(numbers_beyond_the_last_are_refused),
        cmocka_unit_test(records_that_cannot_be_read_are_dead),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(many_epochs_are_cut_to_the_latest),
        cmocka_unit_test(more_than_the_limits_is_refused),
        cmocka_unit_test(an_answer_that_is_cut_is_no_trouble),
        cmocka_unit_test(one_of_four_streams_is_read),
        cmocka_unit_test(frames_come_with_profiles),
        cmocka_unit_test(a_page_may_name_every_frame_of_its_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
