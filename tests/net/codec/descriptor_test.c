#include "net/codec/descriptor.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/codec/protobuf_wire.h"
#include "support/check.h"
#include "support/prng.h"

static tide_view embedded_set(void)
{
    return tide_view_bytes(tide_descriptor_set, tide_descriptor_set_len);
}

static tide_descriptors *open_embedded(void)
{
    tide_descriptors *made = NULL;
    tide_error err = {0};
    assert_ok_err(tide_descriptors_new(&made, embedded_set(), &err), &err);
    return made;
}

static void check_symbol(const tide_descriptors *d, const char *symbol, const char *file)
{
    const tide_descriptor_file *found = tide_descriptors_find_symbol(d, tide_view_of(symbol));
    if (!found)
        fail_msg("no %s", symbol);
    assert_true(tide_view_equal(found->name, tide_view_of(file)));
}

static void every_kind_of_symbol_is_found(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_descriptors_freep) tide_descriptors *d = open_embedded();
    const char *agent = "tidemark/agent/v1/agent.proto";
    check_symbol(d, "tidemark.agent.v1.AgentService", agent);
    check_symbol(d, "tidemark.agent.v1.AgentService.QueryTelemetry", agent);
    check_symbol(d, "tidemark.agent.v1.TelemetrySpan", agent);
    check_symbol(d, "tidemark.agent.v1.TelemetrySpan.AttributesEntry", agent);
    check_symbol(d, "tidemark.agent.v1.TelemetrySpan.seq_id", agent);
    check_symbol(d, "tidemark.agent.v1.Standing", agent);
    check_symbol(d, "tidemark.agent.v1.STANDING_OK", agent);
    check_symbol(d, "tidemark.agent.v1.AgentDebugService", "tidemark/agent/v1/debug.proto");
    check_symbol(d, "grpc.reflection.v1.ServerReflectionRequest.message_request",
                 "grpc/reflection/v1/reflection.proto");
    check_symbol(d, "grpc.health.v1.HealthCheckResponse.SERVING", "grpc/health/v1/health.proto");
    assert_null(tide_descriptors_find_symbol(d, tide_view_of("tidemark.agent.v1")));
    assert_null(tide_descriptors_find_symbol(d, tide_view_of("tidemark.agent.v1.Nothing")));
    assert_null(tide_descriptors_find_symbol(d, tide_view_of("")));
    assert_true(tide_descriptors_has_message(d, tide_view_of("tidemark.agent.v1.Hole")));
    assert_false(tide_descriptors_has_message(d, tide_view_of("tidemark.agent.v1.Standing")));
}

static bool note_name(const tide_descriptor_file *file, void *arg)
{
    tide_buffer *names = arg;
    return tide_buffer_append_view(names, file->name) == TIDE_OK &&
           tide_buffer_append_text(names, " ") == TIDE_OK;
}

static bool stop_at_once(const tide_descriptor_file *file, void *arg)
{
    (void)file;
    (*(int *)arg)++;
    return false;
}

static void a_walk_visits_a_file_and_its_imports_once(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_descriptors_freep) tide_descriptors *d = open_embedded();
    TIDE_CLEANUP(tide_buffer_done) tide_buffer names;
    tide_buffer_init(&names, 1000);
    const tide_descriptor_file *debug =
        tide_descriptors_find_file(d, tide_view_of("tidemark/agent/v1/debug.proto"));
    assert_non_null(debug);
    assert_true(tide_descriptors_walk(d, debug, note_name, &names));
    assert_string_equal("tidemark/agent/v1/debug.proto tidemark/agent/v1/agent.proto ",
                        tide_buffer_text(&names));
    int calls = 0;
    assert_false(tide_descriptors_walk(d, debug, stop_at_once, &calls));
    assert_int_equal(1, calls);
}

/* Message p.M of one file is extended in another, by number 100 and, inside of message N, by 101.
 * The files import each other: protoc forbids circles, bytes may have them. */
static void build_extended(tide_buffer *set)
{
    size_t file;
    size_t message;
    assert_ok(tide_wire_begin(set, 1, &file));
    assert_ok(tide_wire_append_text(set, 1, "a.proto"));
    assert_ok(tide_wire_append_text(set, 2, "p"));
    assert_ok(tide_wire_append_text(set, 3, "b.proto"));
    assert_ok(tide_wire_begin(set, 4, &message));
    assert_ok(tide_wire_append_text(set, 1, "M"));
    assert_ok(tide_wire_end(set, message));
    assert_ok(tide_wire_end(set, file));

    const char outside[] = "\x0A\x03one\x12\x04.p.M\x18\x64";
    const char inside[] = "\x0A\x03two\x12\x04.p.M\x18\x65";
    assert_ok(tide_wire_begin(set, 1, &file));
    assert_ok(tide_wire_append_text(set, 1, "b.proto"));
    assert_ok(tide_wire_append_text(set, 2, "q"));
    assert_ok(tide_wire_append_text(set, 3, "a.proto"));
    assert_ok(tide_wire_append_bytes(set, 7, tide_view_bytes(outside, sizeof outside - 1)));
    assert_ok(tide_wire_begin(set, 4, &message));
    assert_ok(tide_wire_append_text(set, 1, "N"));
    assert_ok(tide_wire_append_bytes(set, 6, tide_view_bytes(inside, sizeof inside - 1)));
    assert_ok(tide_wire_end(set, message));
    assert_ok(tide_wire_end(set, file));
}

static void extensions_are_found_by_type_and_number(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer set;
    tide_buffer_init(&set, 1000);
    build_extended(&set);
    TIDE_CLEANUP(tide_descriptors_freep) tide_descriptors *d = NULL;
    tide_error err = {0};
    assert_ok_err(tide_descriptors_new(&d, tide_buffer_view(&set), &err), &err);
    const tide_view type = tide_view_of("p.M");
    const tide_descriptor_file *file = tide_descriptors_find_extension(d, type, 101);
    assert_non_null(file);
    assert_true(tide_view_equal(file->name, tide_view_of("b.proto")));
    assert_null(tide_descriptors_find_extension(d, type, 102));
    assert_null(tide_descriptors_find_extension(d, tide_view_of("q.N"), 100));
    check_symbol(d, "q.one", "b.proto");
    check_symbol(d, "q.N.two", "b.proto");
    int32_t sum = 0;
    int32_t number = 0;
    for (size_t index = 0; tide_descriptors_next_extension(d, type, &index, &number);)
        sum += number;
    assert_int_equal(201, sum);

    TIDE_CLEANUP(tide_buffer_done) tide_buffer names;
    tide_buffer_init(&names, 100);
    assert_true(tide_descriptors_walk(d, file, note_name, &names));
    assert_string_equal("b.proto a.proto ", tide_buffer_text(&names));
}

static void what_is_described_twice_is_refused(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer set;
    tide_buffer_init(&set, 1000);
    build_extended(&set);
    build_extended(&set);
    tide_descriptors *d = NULL;
    tide_error err = {0};
    assert_status(TIDE_E_INVALID, tide_descriptors_new(&d, tide_buffer_view(&set), &err));
    assert_contains(err.text, "a.proto is described twice");
    assert_null(d);
}

/* A set is input: whatever is cut off or changed, it is refused or indexed, never more. */
static void damaged_sets_do_no_harm(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(12));
    const tide_view set = embedded_set();
    char *copy = malloc(set.len);
    assert_non_null(copy);
    for (int i = 0; i < 300; i++) {
        memcpy(copy, set.ptr, set.len);
        for (int n = 0; n < 3; n++)
            copy[prng_below(&random, set.len)] = (char)prng_u64(&random);
        const size_t len = prng_chance(&random, 1, 2) ? set.len : prng_below(&random, set.len);
        TIDE_CLEANUP(tide_descriptors_freep) tide_descriptors *d = NULL;
        tide_error err = {0};
        if (tide_descriptors_new(&d, tide_view_bytes(copy, len), &err) != TIDE_OK) {
            assert_null(d);
            assert_true(err.text[0] != '\0');
        }
    }
    free(copy);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer set;
    tide_buffer_init(&set, 1 << 20);
    size_t levels[TIDE_DESCRIPTOR_DEPTH_MAX + 2];
    size_t file;
    assert_ok(tide_wire_begin(&set, 1, &file));
    const int depth = TIDE_DESCRIPTOR_DEPTH_MAX + 1;
    for (int i = 0; i < depth; i++) {
        assert_ok(tide_wire_begin(&set, i == 0 ? 4 : 3, &levels[i]));
        assert_ok(tide_wire_append_text(&set, 1, "M"));
    }
    for (int i = depth; i-- > 0;)
        assert_ok(tide_wire_end(&set, levels[i]));
    assert_ok(tide_wire_end(&set, file));
    tide_descriptors *d = NULL;
    tide_error err = {0};
    assert_status(TIDE_E_LIMIT, tide_descriptors_new(&d, tide_buffer_view(&set), &err));
    assert_null(d);
}

static void an_empty_set_knows_nothing(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_descriptors_freep) tide_descriptors *d = NULL;
    assert_ok(tide_descriptors_new(&d, (tide_view){0}, NULL));
    assert_int_equal(0, tide_descriptors_file_count(d));
    assert_int_equal(0, tide_descriptors_service_count(d));
    assert_null(tide_descriptors_find_symbol(d, tide_view_of("a")));
    assert_null(tide_descriptors_find_file(d, tide_view_of("a")));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_symbol_is_found),
        cmocka_unit_test(a_walk_visits_a_file_and_its_imports_once),
        cmocka_unit_test(extensions_are_found_by_type_and_number),
        cmocka_unit_test(what_is_described_twice_is_refused),
        cmocka_unit_test(damaged_sets_do_no_harm),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(an_empty_set_knows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
