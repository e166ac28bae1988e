/* The small encodings: gRPC's time-outs, prefixes and messages, header lists. */
#include <string.h>

#include "base/cleanup.h"
#include "net/http/grpc.h"
#include "net/http/headers.h"
#include "net/http/limits.h"
#include "support/check.h"

static void a_timeout_is_digits_and_a_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {{"1H", INT64_C(3600000000)},
                {"2M", 120000000},
                {"3S", 3000000},
                {"4m", 4000},
                {"5u", 5},
                {"1n", 1},
                {"0n", 0},
                {"6000n", 6},
                {"99999999H", INT64_MAX},
                {"0S", 0}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t us = -1;
        assert_true(tide_grpc_timeout_parse(tide_view_of(good[i].text), &us));
        assert_int_equal(good[i].us, us);
    }
    static const char *const bad[] = {"",    "1",    "S",          "1s", "-1S",
                                      "+1S", "1.5S", "123456789S", " 1S"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t us = -1;
        assert_false(tide_grpc_timeout_parse(tide_view_of(bad[i]), &us));
    }
}

static void a_prefix_holds_flag_and_length(void **state)
{
    (void)state;
    uint8_t prefix[TIDE_GRPC_PREFIX_LEN];
    tide_grpc_prefix_encode(prefix, true, 0x01020304);
    assert_memory_equal("\x01\x01\x02\x03\x04", prefix, sizeof prefix);
    bool is_compressed = false;
    uint32_t len = 0;
    tide_grpc_prefix_decode(prefix, &is_compressed, &len);
    assert_true(is_compressed);
    assert_int_equal(0x01020304, len);
}

/* A text that does not fit is cut between characters, never inside one. */
static void a_long_message_is_cut_between_characters(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 8);
    tide_grpc_message_encode(&out, "a\xc3\xbc\xc3\xbc");
    assert_string_equal("a%C3%BC", tide_buffer_text(&out));
}

static void a_list_names_what_it_accepts(void **state)
{
    (void)state;
    assert_true(tide_headers_lists("gzip", "gzip"));
    assert_true(tide_headers_lists("br, GZIP;q=0.1", "gzip"));
    assert_true(tide_headers_lists("identity,deflate,gzip", "gzip"));
    assert_false(tide_headers_lists("gzip;q=0", "gzip"));
    assert_false(tide_headers_lists("br, gzip;q=0.000", "gzip"));
    assert_false(tide_headers_lists("x-gzip, gzipped", "gzip"));
    assert_false(tide_headers_lists(NULL, "gzip"));
}

static void a_head_takes_no_more_than_its_maximum(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_headers_done) tide_headers head;
    tide_headers_init(&head, 100);
    assert_ok(tide_headers_add(&head, tide_view_of("X-Name"), tide_view_of("value")));
    assert_string_equal("value", tide_headers_text(&head, "x-name"));
    assert_status(TIDE_E_LIMIT, tide_headers_add(&head, tide_view_of("x-more"),
                                                 tide_view_of("0123456789012345678901234567890")));
    assert_ok(tide_headers_add(&head, tide_view_of("x-name"), tide_view_of("again")));
    assert_int_equal(2, tide_headers_count(&head, "x-name"));
    tide_headers_drop(&head, "x-name");
    assert_null(tide_headers_find(&head, "x-name"));
    assert_int_equal(0, head.cost);
}

/* Each row is an option and a line of the documentation: its own standard value has to be allowed. */
static void every_limit_is_within_its_own_range(void **state)
{
    (void)state;
    size_t count;
    const tide_net_limit_row *rows = tide_net_limit_rows(&count);
    tide_net_limits limits;
    tide_net_limits_init(&limits);
    tide_error err;
    assert_ok_err(tide_net_limits_check(&limits, &err), &err);
    for (size_t i = 0; i < count; i++) {
        assert_true(rows[i].help[0] != '\0');
        for (int side = 0; side < 2; side++) {
            tide_net_limits bad = limits;
            const int64_t value = side ? rows[i].maximum + 1 : rows[i].minimum - 1;
            memcpy((char *)&bad + rows[i].offset, &value, sizeof value);
            assert_status(TIDE_E_INVALID, tide_net_limits_check(&bad, &err));
            assert_contains(err.text, rows[i].name);
        }
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeout_is_digits_and_a_unit),
        cmocka_unit_test(a_prefix_holds_flag_and_length),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(a_list_names_what_it_accepts),
        cmocka_unit_test(a_head_takes_no_more_than_its_maximum),
        cmocka_unit_test(every_limit_is_within_its_own_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
