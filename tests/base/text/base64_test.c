#include "base/text/base64.h"

#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/prng.h"

enum { BYTES_MAX = 4096 };

/* RFC 4648, section 10. */
static void base64_is_as_the_standard_says(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&out, BYTES_MAX);
        assert_ok(tide_base64_encode(&out, tide_view_of(rows[i][0]), true));
        assert_string_equal(rows[i][1], tide_buffer_text(&out));
        tide_buffer_clear(&out);
        assert_ok(tide_base64_decode(&out, tide_view_of(rows[i][1])));
        assert_string_equal(rows[i][0], tide_buffer_text(&out));
    }
}

static void base64_refuses_what_it_is_not(void **state)
{
    (void)state;
    static const char *const rows[] = {"A",        "Zg=",  "Zg===", "Zh==",  "Zm9=", "Z g=",
                                       "Zg==Zg==", "*AAA", "AAAA=", "Zg\n=", "====", "="};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&out, BYTES_MAX);
        assert_ok(tide_buffer_append_text(&out, "kept"));
        assert_status(TIDE_E_INVALID, tide_base64_decode(&out, tide_view_of(rows[i])));
        assert_string_equal("kept", tide_buffer_text(&out));
    }
}

static void base64_gives_back_any_bytes(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(7));
    for (size_t len = 0; len < 300; len++) {
        char bytes[300];
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)prng_u64(&random);
        TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer back;
        tide_buffer_init(&text, BYTES_MAX);
        tide_buffer_init(&back, BYTES_MAX);
        assert_ok(tide_base64_encode(&text, tide_view_bytes(bytes, len), len % 2 == 0));
        assert_ok(tide_base64_decode(&back, tide_buffer_view(&text)));
        assert_int_equal(len, back.len);
        assert_true(len == 0 || memcmp(bytes, back.ptr, len) == 0);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_is_as_the_standard_says),
        cmocka_unit_test(base64_refuses_what_it_is_not),
        cmocka_unit_test(base64_gives_back_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
