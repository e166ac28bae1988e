#include "net/codec/protobuf_guard.h"

#include <string.h>

#include "base/cleanup.h"
#include "net/codec/protobuf_wire.h"
#include "net/codec/random_message.h"
#include "sample.pb-c.h"
#include "support/alloc_fault.h"
#include "support/check.h"
#include "support/prng.h"
#include "tidemark_agent_v1_agent.pb-c.h"

#define NODE (&tidemark__sample__v1__node__descriptor)
#define EVERYTHING (&tidemark__sample__v1__everything__descriptor)

enum { MIB = 1 << 20 };

static void a_message_is_decoded_into_the_arena(void **state)
{
    (void)state;
    Tidemark__Sample__V1__Node child = TIDEMARK__SAMPLE__V1__NODE__INIT;
    child.name = (char *)"child";
    Tidemark__Sample__V1__Node node = TIDEMARK__SAMPLE__V1__NODE__INIT;
    node.name = (char *)"parent";
    node.child = &child;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, MIB);
    assert_ok(tide_protobuf_pack(&bytes, &node.base, NULL));

    TIDE_CLEANUP(tide_arena_done) tide_arena arena;
    tide_arena_init(&arena, MIB);
    ProtobufCMessage *message = NULL;
    tide_error err;
    assert_ok_err(tide_protobuf_unpack(&message, NODE, tide_buffer_view(&bytes), &arena, &err),
                  &err);
    memset(bytes.ptr, 'x', bytes.len); /* it has copies of its own */
    const Tidemark__Sample__V1__Node *decoded = (const Tidemark__Sample__V1__Node *)message;
    assert_string_equal("parent", decoded->name);
    assert_string_equal("child", decoded->child->name);
}

/* 2 bytes on the wire, 136 in memory: 4 MB would take half a gigabyte. */
static void amplification_ends_at_the_limit_and_allocates_nothing(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 4 * MIB);
    while (bytes.len + 2 <= bytes.max)
        assert_ok(tide_wire_append_bytes(&bytes, 1, tide_view_of("")));
    TIDE_CLEANUP(tide_arena_done) tide_arena arena;
    tide_arena_init(&arena, 64 * MIB);
    ProtobufCMessage *message = NULL;
    tide_error err;
    assert_status(TIDE_E_LIMIT,
                  tide_protobuf_unpack(&message,
                                       &tidemark__agent__v1__query_telemetry_response__descriptor,
                                       tide_buffer_view(&bytes), &arena, &err));
    assert_null(message);
    assert_int_equal(0, arena.used_len);
}

/* The parts of a message given often are merged, each time into a new array: the scan does not see
 * that, the allocator does. */
static void merging_without_end_is_stopped_by_the_allocator(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, MIB);
    for (int i = 0; i < 20000; i++)
        assert_ok(tide_wire_append_bytes(&bytes, 2, tide_view_bytes("\x1A\x00", 2)));
    TIDE_CLEANUP(tide_arena_done) tide_arena arena;
    tide_arena_init(&arena, 64 * MIB);
    assert_ok(tide_protobuf_scan(NODE, tide_buffer_view(&bytes), NULL, NULL, NULL));
    ProtobufCMessage *message = NULL;
    tide_error err;
    assert_status(TIDE_E_LIMIT,
                  tide_protobuf_unpack(&message, NODE, tide_buffer_view(&bytes), &arena, &err));
    assert_true(arena.used_len <= arena.max);
}

static void ones_own_limit_and_what_is_left_of_the_arena_both_count(void **state)
{
    (void)state;
    const tide_view bytes = tide_view_bytes("\x0A\x03"
                                            "abc",
                                            5);
    TIDE_CLEANUP(tide_arena_done) tide_arena arena;
    tide_arena_init(&arena, 1024);
    ProtobufCMessage *message = NULL;
    const tide_protobuf_limits small = {.memory_len = 64};
    assert_status(TIDE_E_LIMIT,
                  tide_protobuf_unpack_within(&message, NODE, bytes, &small, &arena, NULL));
    assert_ok(tide_protobuf_unpack(&message, NODE, bytes, &arena, NULL));
    assert_non_null(tide_arena_alloc(&arena, 1024 - arena.used_len));
    message = NULL;
    assert_status(TIDE_E_LIMIT, tide_protobuf_unpack(&message, NODE, bytes, &arena, NULL));
    assert_null(message);
}

/* The estimate is what protobuf-c really allocates: never less, and hardly more. */
static void the_estimate_agrees_with_the_arena(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(4));
    for (int i = 0; i < 500; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        tide_buffer_init(&bytes, MIB);
        random_message(&random, EVERYTHING, 4, &bytes);
        TIDE_CLEANUP(tide_arena_done) tide_arena arena;
        tide_arena_init(&arena, 256 * MIB);
        tide_protobuf_facts facts;
        const tide_protobuf_limits wide = {.memory_len = 256 * MIB};
        tide_error err;
        assert_ok_err(tide_protobuf_scan(EVERYTHING, tide_buffer_view(&bytes), &wide, &facts, &err),
                      &err);
        ProtobufCMessage *message = NULL;
        assert_ok_err(
            tide_protobuf_unpack(&message, EVERYTHING, tide_buffer_view(&bytes), &arena, &err),
            &err);
        /* Merging takes some more, rounding of rows some less. */
        assert_true(facts.memory_len + facts.memory_len / 4 + 4096 >= arena.used_len);
        assert_true(facts.memory_len <= arena.used_len + arena.used_len / 4 + 4096);
    }
}

/* A page as an agent sends it: in order, nothing twice. */
static void the_estimate_of_a_page_is_exact(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, MIB);
    for (int i = 0; i < 1000; i++) {
        size_t at;
        assert_ok(tide_wire_begin(&bytes, 1, &at));
        assert_ok(tide_wire_append_varint(&bytes, 12, (uint64_t)i));
        assert_ok(tide_wire_append_text(&bytes, 2, "4bf92f3577b34da6a3ce929d0e0e4736"));
        assert_ok(tide_wire_append_text(&bytes, 4, "shop"));
        assert_ok(tide_wire_append_bytes(&bytes, 11, tide_view_bytes("\x0A\x01k\x12\x01v", 6)));
        assert_ok(tide_wire_append_bytes(&bytes, 11, tide_view_bytes("\x0A\x01l\x12\x01w", 6)));
        assert_ok(tide_wire_end(&bytes, at));
    }
    const ProtobufCMessageDescriptor *page =
        &tidemark__agent__v1__query_telemetry_response__descriptor;
    TIDE_CLEANUP(tide_arena_done) tide_arena arena;
    tide_arena_init(&arena, 16 * MIB);
    tide_protobuf_facts facts;
    assert_ok(tide_protobuf_scan(page, tide_buffer_view(&bytes), NULL, &facts, NULL));
    ProtobufCMessage *message = NULL;
    assert_ok(tide_protobuf_unpack(&message, page, tide_buffer_view(&bytes), &arena, NULL));
    assert_in_range(facts.memory_len, arena.used_len, arena.used_len + 16 * 1001);
}

/* No memory is told apart from a limit; whichever allocation fails. */
static void every_failed_allocation_is_told(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(7));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, MIB);
    random_message(&random, EVERYTHING, 3, &bytes);
    for (int64_t nth = 1; nth < 1000; nth++) {
        TIDE_CLEANUP(tide_arena_done) tide_arena arena;
        tide_arena_init(&arena, 64 * MIB);
        ProtobufCMessage *message = NULL;
        alloc_fault_at(nth);
        const tide_status status =
            tide_protobuf_unpack(&message, EVERYTHING, tide_buffer_view(&bytes), &arena, NULL);
        alloc_fault_off();
        if (alloc_fault_hit() == 0) {
            assert_ok(status);
            assert_true(nth > 1);
            return;
        }
        assert_status(TIDE_E_NOMEM, status);
    }
    fail();
}

static void a_message_that_does_not_fit_leaves_the_buffer_alone(void **state)
{
    (void)state;
    Tidemark__Sample__V1__Node node = TIDEMARK__SAMPLE__V1__NODE__INIT;
    node.name = (char *)"long enough";
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 10);
    assert_ok(tide_buffer_append_text(&out, "kept"));
    tide_error err;
    assert_status(TIDE_E_LIMIT, tide_protobuf_pack(&out, &node.base, &err));
    assert_string_equal("kept", tide_buffer_text(&out));
}

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_decoded_into_the_arena),
        cmocka_unit_test(amplification_ends_at_the_limit_and_allocates_nothing),
        cmocka_unit_test(merging_without_end_is_stopped_by_the_allocator),
        cmocka_unit_test(ones_own_limit_and_what_is_left_of_the_arena_both_count),
        cmocka_unit_test(the_estimate_agrees_with_the_arena),
        cmocka_unit_test(the_estimate_of_a_page_is_exact),
        cmocka_unit_test_teardown(every_failed_allocation_is_told, disarm),
        cmocka_unit_test(a_message_that_does_not_fit_leaves_the_buffer_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
