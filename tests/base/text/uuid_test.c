#include "base/text/uuid.h"

#include <string.h>

#include "support/check.h"
#include "support/clock/virtual_env.h"

/* Version and variant as RFC 9562 draws them. */
static void assert_marked(const tide_uuid *uuid, int version)
{
    assert_int_equal(uuid->bytes[6] >> 4, version);
    assert_int_equal(uuid->bytes[8] >> 6, 2);
}

/* 122 random bits, all of them used. */
static void v4_is_random_but_for_its_marks(void **state)
{
    (void)state;
    virtual_env v;
    virtual_env_init(&v, 7);
    uint8_t ones[TIDE_UUID_LEN] = {0};
    uint8_t zeros[TIDE_UUID_LEN] = {0};
    for (int i = 0; i < 200; i++) {
        tide_uuid uuid;
        tide_uuid_v4(&v.env, &uuid);
        assert_marked(&uuid, 4);
        for (size_t k = 0; k < TIDE_UUID_LEN; k++) {
            ones[k] |= uuid.bytes[k];
            zeros[k] |= (uint8_t)~uuid.bytes[k];
        }
    }
    for (size_t k = 0; k < TIDE_UUID_LEN; k++) {
        const uint8_t fixed = k == 6 ? 0xF0 : k == 8 ? 0xC0 : 0;
        assert_int_equal(ones[k] & zeros[k], (uint8_t)~fixed);
    }
    virtual_env_done(&v);
}

/* The first 48 bits are the milliseconds: ids of later times sort later. */
static void v7_begins_with_the_time(void **state)
{
    (void)state;
    virtual_env v;
    virtual_env_init(&v, 7);
    virtual_env_set_wall(&v, INT64_C(1645557742000999)); /* the example of RFC 9562, A.6 */
    tide_uuid uuid;
    tide_uuid_v7(&v.env, &uuid);
    assert_marked(&uuid, 7);
    assert_memory_equal(uuid.bytes, "\x01\x7F\x22\xE2\x79\xB0", 6);

    tide_uuid later;
    virtual_env_set_wall(&v, INT64_C(1645557742001000));
    tide_uuid_v7(&v.env, &later);
    assert_true(memcmp(&uuid, &later, sizeof uuid) < 0);
    virtual_env_done(&v);
}

/* A clock that is badly wrong still gives an id. */
static void v7_counts_an_impossible_clock_as_the_nearest_end(void **state)
{
    (void)state;
    virtual_env v;
    virtual_env_init(&v, 7);
    tide_uuid uuid;
    virtual_env_set_wall(&v, -5000000);
    tide_uuid_v7(&v.env, &uuid);
    assert_memory_equal(uuid.bytes, "\0\0\0\0\0\0", 6);
    virtual_env_set_wall(&v, INT64_MAX);
    tide_uuid_v7(&v.env, &uuid);
    assert_memory_equal(uuid.bytes, "\xFF\xFF\xFF\xFF\xFF\xFF", 6);
    assert_marked(&uuid, 7);
    virtual_env_done(&v);
}

/* Text and bytes say the same. */
static void text_comes_back_as_the_same_bytes(void **state)
{
    (void)state;
    static const char TEXT[] = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    tide_uuid uuid;
    assert_ok(tide_uuid_parse(&uuid, tide_view_of(TEXT)));
    assert_memory_equal(uuid.bytes,
                        "\x01\x7F\x22\xE2\x79\xB0\x7C\xC3\x98\xC4\xDC\x0C\x0C\x07\x39\x8F", 16);
    char text[TIDE_UUID_TEXT_SIZE];
    tide_uuid_format(&uuid, text);
    assert_string_equal(text, TEXT);

    tide_uuid upper;
    assert_ok(tide_uuid_parse(&upper, tide_view_of("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")));
    assert_memory_equal(&upper, &uuid, sizeof uuid);
}

/* Nothing but the strict form, and the result untouched. */
static void malformed_text_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "017f22e2",
        "017f22e279b07cc398c4dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
        "017f22e2-79b0-7cc3-98c4_dc0c0c07398f",
        "017f22e27-9b0-7cc3-98c4-dc0c0c07398f",
        "{17f22e2-79b0-7cc3-98c4-dc0c0c07398}",
        " 17f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tide_uuid uuid = {{1, 2, 3}};
        const tide_uuid before = uuid;
        assert_status(TIDE_E_INVALID, tide_uuid_parse(&uuid, tide_view_of(bad[i])));
        assert_memory_equal(&uuid, &before, sizeof uuid);
    }
    tide_uuid uuid;
    assert_status(TIDE_E_INVALID, tide_uuid_parse(&uuid, (tide_view){0}));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v4_is_random_but_for_its_marks),
        cmocka_unit_test(v7_begins_with_the_time),
        cmocka_unit_test(v7_counts_an_impossible_clock_as_the_nearest_end),
        cmocka_unit_test(text_comes_back_as_the_same_bytes),
        cmocka_unit_test(malformed_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
