#include "base/bytes/crc32c.h"

#include <string.h>

#include "support/check.h"
#include "support/prng.h"

/* RFC 3720 B.4 and the check value of the catalogue of CRCs. */
static void known_bytes_have_known_checksums(void **state)
{
    (void)state;
    char zeros[32] = {0};
    char ones[32];
    char rising[32];
    char falling[32];
    memset(ones, 0xFF, sizeof ones);
    for (size_t i = 0; i < 32; i++) {
        rising[i] = (char)i;
        falling[i] = (char)(31 - i);
    }
    const struct {
        tide_view bytes;
        uint32_t crc;
    } rows[] = {
        {{0}, 0},
        {tide_view_of("123456789"), 0xE3069283U},
        {tide_view_of("a"), 0xC1D04330U},
        {tide_view_bytes(zeros, 32), 0x8A9136AAU},
        {tide_view_bytes(ones, 32), 0x62A8AB43U},
        {tide_view_bytes(rising, 32), 0x46DD794EU},
        {tide_view_bytes(falling, 32), 0x113FDB5CU},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(tide_crc32c(rows[i].bytes), rows[i].crc);
        assert_int_equal(tide_crc32c_extend_table(0, rows[i].bytes), rows[i].crc);
    }
}

/* The instruction and the table are the same function, at every length and alignment. */
static void hardware_and_table_agree(void **state)
{
    (void)state;
    if (!tide_crc32c_has_hardware())
        return; /* this processor has only the table, which is tested above */
    prng random;
    prng_init(&random, prng_seed_from_env(32));
    char bytes[400];
    prng_fill(&random, bytes, sizeof bytes);
    for (size_t start = 0; start < 9; start++) {
        for (size_t len = 0; start + len <= sizeof bytes; len += 1 + len / 40) {
            const tide_view part = tide_view_bytes(bytes + start, len);
            const uint32_t before = (uint32_t)prng_u64(&random);
            assert_int_equal(tide_crc32c_extend_hardware(before, part),
                             tide_crc32c_extend_table(before, part));
        }
    }
}

/* A checksum can be taken in pieces, cut anywhere. */
static void extending_is_the_checksum_of_the_whole(void **state)
{
    (void)state;
    static const char text[] = "durable numbers, handed out once, in order, for ever";
    const size_t len = sizeof text - 1;
    for (size_t cut = 0; cut <= len; cut++) {
        const uint32_t head = tide_crc32c(tide_view_bytes(text, cut));
        assert_int_equal(tide_crc32c_extend(head, tide_view_bytes(text + cut, len - cut)),
                         tide_crc32c(tide_view_bytes(text, len)));
    }
}

/* One flipped bit is always found. */
static void every_flipped_bit_changes_the_checksum(void **state)
{
    (void)state;
    char bytes[64] = "some record";
    const uint32_t sound = tide_crc32c(tide_view_bytes(bytes, sizeof bytes));
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        assert_int_not_equal(tide_crc32c(tide_view_bytes(bytes, sizeof bytes)), sound);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bytes_have_known_checksums),
        cmocka_unit_test(hardware_and_table_agree),
        cmocka_unit_test(extending_is_the_checksum_of_the_whole),
        cmocka_unit_test(every_flipped_bit_changes_the_checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
