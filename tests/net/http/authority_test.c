/* Host and port, parsed to the last byte. */
#include "net/http/authority.h"

#include <stdio.h>

#include "support/check.h"

static void what_names_a_host_is_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *host;
        int port;
    } rows[] = {
        {"localhost", "localhost", -1},
        {"localhost:", "localhost", -1},
        {"localhost:0", "localhost", 0},
        {"agent.example.com:65535", "agent.example.com", 65535},
        {"127.0.0.1:80", "127.0.0.1", 80},
        {"[::1]", "::1", -1},
        {"[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1", 80},
        {"a_b-c~.%41!$&'()*+,;=", "a_b-c~.%41!$&'()*+,;=", -1},
        {"", "", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tide_authority found;
        if (!tide_authority_parse(&found, tide_view_of(rows[i].text)))
            fail_msg("'%s' was refused", rows[i].text);
        assert_true(tide_view_equal(tide_view_of(rows[i].host), found.host));
        assert_int_equal(rows[i].port, found.port);
        assert_int_equal(rows[i].text[0] == '[', found.is_v6);
    }
}

static void what_names_none_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[::1]evil.example",
        "[::1]evil:80",
        "localhost:evil",
        "localhost:80evil",
        "a:65536",
        "a:000080",
        "a:-1",
        "a:+1",
        "a:80:80",
        ":80",
        "[::1",
        "[::1]]",
        "[]",
        "[a]",
        "[127.0.0.1]",
        "[fe80::1%25lo]",
        "::1",
        "a b",
        " a",
        "a/b",
        "a@b",
        "a?b",
        "a#b",
        "a\\b",
        "a%",
        "a%4",
        "a%4g",
        "\xc3\xa4",
        "a\tb",
        "http://a",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tide_authority found;
        if (tide_authority_parse(&found, tide_view_of(texts[i])))
            fail_msg("'%s' was parsed", texts[i]);
    }
    tide_authority found;
    assert_false(tide_authority_parse(&found, tide_view_bytes("a\0b", 3)));
}

static bool is_equal(const char *one, const char *other, int default_port)
{
    tide_authority first;
    tide_authority second;
    assert_true(tide_authority_parse(&first, tide_view_of(one)));
    assert_true(tide_authority_parse(&second, tide_view_of(other)));
    return tide_authority_equal(&first, &second, default_port);
}

static void equal_is_host_and_port(void **state)
{
    (void)state;
    assert_true(is_equal("a", "A:80", 80));
    assert_false(is_equal("a", "a:80", 443));
    assert_true(is_equal("[::1]:80", "[::1]", 80));
    assert_false(is_equal("a", "ab", 80));
    assert_false(is_equal("a:81", "a:80", 80));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_names_a_host_is_parsed),
        cmocka_unit_test(what_names_none_is_refused),
        cmocka_unit_test(equal_is_host_and_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
