#include "base/digest.h"

#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"

static void assert_digest(tide_digest128 digest, const char *want)
{
    char text[TIDE_DIGEST128_TEXT_SIZE];
    tide_hex_encode(text, digest.bytes, sizeof digest.bytes);
    assert_string_equal(text, want);
}

static void assert_sha256(tide_view bytes, const char *want)
{
    uint8_t digest[TIDE_SHA256_LEN];
    char text[TIDE_SHA256_TEXT_SIZE];
    assert_ok(tide_sha256_of(bytes, digest, NULL));
    tide_hex_encode(text, digest, sizeof digest);
    assert_string_equal(text, want);
}

/* What xxh128sum prints. */
static void xxh3_has_its_known_digests(void **state)
{
    (void)state;
    assert_digest(tide_digest128_of((tide_view){0}), "99aa06d3014798d86001c324468d497f");
    assert_digest(tide_digest128_of(tide_view_of("a")), "a96faf705af16834e6c632b61e964e1f");
    assert_digest(tide_digest128_of(tide_view_of("abc")), "06b05ab6733a618578af5f94892f3950");
}

/* FIPS 180-4 and its examples. */
static void sha256_has_its_known_digests(void **state)
{
    (void)state;
    assert_sha256((tide_view){0},
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256(tide_view_of("abc"),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_sha256(tide_view_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* In pieces or at once: the same. */
static void sha256_in_pieces_is_that_of_the_whole(void **state)
{
    (void)state;
    static const char text[] = "a snapshot that arrives in chunks of any length, also of none";
    const size_t len = sizeof text - 1;
    uint8_t whole[TIDE_SHA256_LEN];
    assert_ok(tide_sha256_of(tide_view_of(text), whole, NULL));
    for (size_t step = 1; step <= len; step++) {
        TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
        assert_ok(tide_sha256_init(&sha, NULL));
        for (size_t at = 0; at < len; at += step) {
            const size_t part_len = len - at < step ? len - at : step;
            assert_ok(tide_sha256_add(&sha, tide_view_bytes(text + at, part_len), NULL));
            assert_ok(tide_sha256_add(&sha, (tide_view){0}, NULL));
        }
        uint8_t pieces[TIDE_SHA256_LEN];
        assert_ok(tide_sha256_finish(&sha, pieces, NULL));
        assert_memory_equal(pieces, whole, sizeof whole);
    }
}

/* d(n) = XXH3-128(d(n-1), record n), the previous digest in its canonical bytes. */
static void a_chain_step_digests_the_previous_digest_and_the_record(void **state)
{
    (void)state;
    static const size_t lens[] = {0, 1, 15, 112, 113, 224, 225, 240, 241, 1000, 5000};
    char bytes[16 + 5000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    tide_digest128 previous = {{0}};
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        memcpy(bytes, previous.bytes, sizeof previous.bytes);
        const tide_digest128 want = tide_digest128_of(tide_view_bytes(bytes, 16 + lens[i]));
        const tide_digest128 got =
            tide_digest_chain(previous, tide_view_bytes(lens[i] ? bytes + 16 : NULL, lens[i]));
        assert_true(tide_digest128_equal(&got, &want));
        previous = got;
    }
}

/* Two histories with the same records in another order are two histories. */
static void a_chain_depends_on_the_order_of_its_records(void **state)
{
    (void)state;
    const tide_digest128 none = {{0}};
    const tide_view a = tide_view_of("a");
    const tide_view b = tide_view_of("b");
    const tide_digest128 ab = tide_digest_chain(tide_digest_chain(none, a), b);
    const tide_digest128 ba = tide_digest_chain(tide_digest_chain(none, b), a);
    const tide_digest128 joined = tide_digest_chain(none, tide_view_of("ab"));
    assert_false(tide_digest128_equal(&ab, &ba));
    assert_false(tide_digest128_equal(&ab, &joined));
}

/* Every differing byte is noticed, wherever it stands. */
static void comparing_looks_at_every_byte(void **state)
{
    (void)state;
    uint8_t a[TIDE_SHA256_LEN] = {1, 2, 3};
    uint8_t b[TIDE_SHA256_LEN] = {1, 2, 3};
    assert_true(tide_digest_equal(a, b, sizeof a));
    assert_true(tide_digest_equal(a, b, 0));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 0x10;
        assert_false(tide_digest_equal(a, b, sizeof a));
        b[i] ^= 0x10;
    }
}

/* Hexadecimal goes both ways; what is not exactly it is refused. */
static void hex_is_read_strictly(void **state)
{
    (void)state;
    uint8_t bytes[4];
    char text[9];
    assert_ok(tide_hex_decode(bytes, 4, tide_view_of("00fFa09C")));
    assert_memory_equal(bytes, "\x00\xFF\xA0\x9C", 4);
    tide_hex_encode(text, bytes, 4);
    assert_string_equal(text, "00ffa09c");
    tide_hex_encode(text, bytes, 0);
    assert_string_equal(text, "");
    assert_ok(tide_hex_decode(bytes, 0, (tide_view){0}));

    static const char *const bad[] = {"",         "00ffa09",  "00ffa09c0", "00ffa09c00",
                                      "00ffa09g", "0x00ffa0", "00 ffa09",  "00ffa0\xC3\xA9"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, tide_hex_decode(bytes, 4, tide_view_of(bad[i])));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xxh3_has_its_known_digests),
        cmocka_unit_test(sha256_has_its_known_digests),
        cmocka_unit_test(sha256_in_pieces_is_that_of_the_whole),
        cmocka_unit_test(a_chain_step_digests_the_previous_digest_and_the_record),
        cmocka_unit_test(a_chain_depends_on_the_order_of_its_records),
        cmocka_unit_test(comparing_looks_at_every_byte),
        cmocka_unit_test(hex_is_read_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
