#include "net/codec/status_details.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/json_canon.h"
#include "net/codec/protobuf_wire.h"
#include "support/check.h"

static void check_encoding(const tide_status_details *details, const char *bytes, size_t len)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 4096);
    assert_ok(tide_status_details_encode(&out, details));
    assert_int_equal(len, out.len);
    if (len > 0)
        assert_memory_equal(bytes, out.ptr, len);
}

static void check_json(const tide_status_details *details, const char *json)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 4096);
    assert_ok(tide_status_details_json(&out, details));
    assert_string_equal(json, tide_buffer_text(&out));
    assert_ok(tide_json_check(tide_buffer_view(&out), NULL));
}

#define TYPE "type.googleapis.com/google.rpc."

static void code_and_message_alone(void **state)
{
    (void)state;
    const tide_status_details details = {.grpc_code = 3, .message = "bad"};
    check_encoding(&details,
                   "\x08\x03\x12\x03"
                   "bad",
                   7);
    check_json(&details, "{\"code\":3,\"message\":\"bad\"}");
    const tide_status_details nothing = {0};
    check_encoding(&nothing, NULL, 0);
    check_json(&nothing, "{\"code\":0,\"message\":\"\"}");
}

/* OTLP: a client waits as long as RetryInfo says. */
static void retry_info_has_seconds_and_nanoseconds(void **state)
{
    (void)state;
    const tide_status_details details = {.grpc_code = 14, .message = "busy", .retry_after_s = 1.5};
    check_encoding(&details,
                   "\x08\x0E\x12\x04"
                   "busy"
                   "\x1A\x36\x0A\x28" TYPE "RetryInfo"
                   "\x12\x0A\x0A\x08\x08\x01\x10\x80\xCA\xB5\xEE\x01",
                   64);
    check_json(&details, "{\"code\":14,\"message\":\"busy\",\"details\":[{\"@type\":\"" TYPE
                         "RetryInfo\",\"retryDelay\":\"1.500s\"}]}");
}

static void strange_delays_are_made_sensible(void **state)
{
    (void)state;
    tide_status_details details = {.grpc_code = 14, .retry_after_s = NAN};
    check_json(&details, "{\"code\":14,\"message\":\"\"}");
    details.retry_after_s = -1;
    check_json(&details, "{\"code\":14,\"message\":\"\"}");
    details.retry_after_s = 1e-9;
    check_json(&details, "{\"code\":14,\"message\":\"\",\"details\":[{\"@type\":\"" TYPE
                         "RetryInfo\",\"retryDelay\":\"0.001s\"}]}");
    details.retry_after_s = INFINITY;
    check_json(&details, "{\"code\":14,\"message\":\"\",\"details\":[{\"@type\":\"" TYPE
                         "RetryInfo\",\"retryDelay\":\"86400.000s\"}]}");
}

static void error_info_and_field_violations(void **state)
{
    (void)state;
    const tide_error_metadata metadata[] = {{"stream", "logs"}};
    const tide_field_violation violations[] = {{"position.max_bytes", "too \"large\""}};
    const tide_status_details details = {
        .grpc_code = 3,
        .message = "bad",
        .reason = "INVALID",
        .metadata = metadata,
        .metadata_count = 1,
        .violations = violations,
        .violation_count = 1,
    };
    check_json(&details, "{\"code\":3,\"message\":\"bad\",\"details\":[{\"@type\":\"" TYPE
                         "ErrorInfo\",\"reason\":\"INVALID\",\"domain\":\"tidemark\",\"metadata\":"
                         "{\"stream\":\"logs\"}},{\"@type\":\"" TYPE
                         "BadRequest\",\"fieldViolations\":[{\"field\":\"position.max_bytes\","
                         "\"description\":\"too \\\"large\\\"\"}]}]}");

    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 4096);
    assert_ok(tide_status_details_encode(&out, &details));
    tide_reader reader = tide_reader_of(tide_buffer_view(&out));
    tide_wire_field field;
    for (int i = 0; i < 3; i++) /* code, message, the first detail */
        assert_ok(tide_wire_next(&reader, &field, NULL));
    tide_reader any = tide_reader_of(field.bytes);
    assert_ok(tide_wire_next(&any, &field, NULL));
    assert_true(tide_view_equal(field.bytes, tide_view_of(TYPE "ErrorInfo")));
    assert_ok(tide_wire_next(&any, &field, NULL));
    const char info[] = "\x0A\x07INVALID\x12\x08tidemark\x1A\x0E\x0A\x06stream\x12\x04logs";
    assert_true(tide_view_equal(field.bytes, tide_view_bytes(info, sizeof info - 1)));
    assert_ok(tide_wire_next(&reader, &field, NULL));
    any = tide_reader_of(field.bytes);
    assert_ok(tide_wire_next(&any, &field, NULL));
    assert_true(tide_view_equal(field.bytes, tide_view_of(TYPE "BadRequest")));
    assert_ok(tide_wire_next(&any, &field, NULL));
    const char request[] = "\x0A\x21\x0A\x12position.max_bytes\x12\x0Btoo \"large\"";
    assert_true(tide_view_equal(field.bytes, tide_view_bytes(request, sizeof request - 1)));
    assert_status(TIDE_NONE, tide_wire_next(&reader, &field, NULL));
}

static void a_status_speaks_for_itself(void **state)
{
    (void)state;
    tide_error err = {0};
    const tide_status status = tide_fail(&err, TIDE_E_LEASE_LOST, "item %d", 7);
    tide_status_details details = tide_status_details_of(status, &err);
    assert_int_equal(9, details.grpc_code);
    assert_string_equal("item 7", details.message);
    assert_string_equal("LEASE_LOST", details.reason);
    details = tide_status_details_of(TIDE_E_BUSY, NULL);
    assert_string_equal("busy", details.message);
}

/* Broken text would make the client's parser drop the whole status. */
static void broken_text_is_mended(void **state)
{
    (void)state;
    const tide_status_details details = {.grpc_code = 13, .message = "a\xFF"};
    check_encoding(&details,
                   "\x08\x0D\x12\x04"
                   "a\xEF\xBF\xBD",
                   8);
    check_json(&details, "{\"code\":13,\"message\":\"a\xEF\xBF\xBD\"}");
}

static void what_does_not_fit_leaves_the_buffer_alone(void **state)
{
    (void)state;
    const tide_status_details details = {.grpc_code = 13, .message = "long", .retry_after_s = 1};
    for (size_t max = 4; max < 40; max++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&out, max);
        assert_ok(tide_buffer_append_text(&out, "kept"));
        assert_status(TIDE_E_LIMIT, tide_status_details_encode(&out, &details));
        assert_status(TIDE_E_LIMIT, tide_status_details_json(&out, &details));
        assert_string_equal("kept", tide_buffer_text(&out));
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_and_message_alone),
        cmocka_unit_test(retry_info_has_seconds_and_nanoseconds),
        cmocka_unit_test(strange_delays_are_made_sensible),
        cmocka_unit_test(error_info_and_field_violations),
        cmocka_unit_test(a_status_speaks_for_itself),
        cmocka_unit_test(broken_text_is_mended),
        cmocka_unit_test(what_does_not_fit_leaves_the_buffer_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
