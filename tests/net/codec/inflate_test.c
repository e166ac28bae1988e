#include "net/codec/inflate.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/prng.h"

enum { MIB = 1 << 20 };

static void append_zlib(tide_buffer *out, tide_view bytes, int window_bits)
{
    z_stream zlib = {0};
    assert_int_equal(Z_OK, deflateInit2(&zlib, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY));
    const size_t bound = deflateBound(&zlib, bytes.len) + 64;
    assert_ok(tide_buffer_reserve(out, bound));
    zlib.next_in = (Bytef *)bytes.ptr;
    zlib.avail_in = (uInt)bytes.len;
    zlib.next_out = (Bytef *)out->ptr + out->len;
    zlib.avail_out = (uInt)bound;
    assert_int_equal(Z_STREAM_END, deflate(&zlib, Z_FINISH));
    out->len += bound - zlib.avail_out;
    assert_int_equal(Z_OK, deflateEnd(&zlib));
}

static void append_zstd(tide_buffer *out, tide_view bytes)
{
    const size_t bound = ZSTD_compressBound(bytes.len);
    assert_ok(tide_buffer_reserve(out, bound));
    const size_t len = ZSTD_compress(out->ptr + out->len, bound, bytes.ptr, bytes.len, 3);
    assert_false(ZSTD_isError(len));
    out->len += len;
}

static void append_packed(tide_buffer *out, tide_view bytes, tide_coding coding)
{
    if (coding == TIDE_CODING_GZIP)
        assert_ok(tide_gzip_append(out, bytes, 0, NULL));
    else if (coding == TIDE_CODING_DEFLATE)
        append_zlib(out, bytes, 15);
    else if (coding == TIDE_CODING_ZSTD)
        append_zstd(out, bytes);
    else
        assert_ok(tide_buffer_append_view(out, bytes));
}

static const tide_coding codings[] = {TIDE_CODING_IDENTITY, TIDE_CODING_GZIP, TIDE_CODING_DEFLATE,
                                      TIDE_CODING_ZSTD};

/* Text that compresses a little. */
static void append_words(tide_buffer *out, prng *random, size_t len)
{
    for (size_t i = 0; i < len; i++)
        assert_ok(tide_buffer_append_byte(out, (uint8_t)(' ' + prng_below(random, 30))));
}

/* Unpack in pieces of random lengths. */
static tide_status unpack_in_pieces(tide_coding coding, tide_view bytes, prng *random,
                                    tide_buffer *out, tide_error *err)
{
    TIDE_CLEANUP(tide_inflater_freep) tide_inflater *inflater = NULL;
    TIDE_TRY(tide_inflater_new(&inflater, coding, NULL, err));
    while (bytes.len > 0) {
        size_t len = (size_t)prng_below(random, prng_chance(random, 1, 2) ? 4 : 5000) + 1;
        len = len < bytes.len ? len : bytes.len;
        TIDE_TRY(tide_inflater_feed(inflater, tide_view_bytes(bytes.ptr, len), out, err));
        bytes = tide_view_bytes(bytes.ptr + len, bytes.len - len);
    }
    return tide_inflater_finish(inflater, err);
}

static void every_coding_is_unpacked_in_whatever_pieces_it_comes(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(8));
    for (int i = 0; i < 200; i++) {
        const tide_coding coding = codings[i % 4];
        TIDE_CLEANUP(tide_buffer_done) tide_buffer plain;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&plain, MIB);
        tide_buffer_init(&packed, 2 * MIB);
        tide_buffer_init(&out, MIB);
        append_words(&plain, &random, (size_t)prng_below(&random, i % 8 < 4 ? 10 : 200000));
        append_packed(&packed, tide_buffer_view(&plain), coding);
        tide_error err = {0};
        assert_ok_err(unpack_in_pieces(coding, tide_buffer_view(&packed), &random, &out, &err),
                      &err);
        assert_true(tide_view_equal(tide_buffer_view(&plain), tide_buffer_view(&out)));
        tide_buffer_clear(&out);
        assert_ok_err(tide_inflate(&out, tide_buffer_view(&packed), tide_coding_name(coding), &err),
                      &err);
        assert_true(tide_view_equal(tide_buffer_view(&plain), tide_buffer_view(&out)));
    }
}

/* RFC 1952: members one after the other are one file. Some senders pad with zeros. */
static void members_and_frames_in_a_row_are_one_body(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(9));
    const tide_coding several[] = {TIDE_CODING_GZIP, TIDE_CODING_ZSTD};
    for (size_t i = 0; i < 2; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&packed, MIB);
        tide_buffer_init(&out, MIB);
        append_packed(&packed, tide_view_of("one "), several[i]);
        append_packed(&packed, tide_view_of(""), several[i]);
        append_packed(&packed, tide_view_of("two"), several[i]);
        if (several[i] == TIDE_CODING_GZIP)
            assert_ok(tide_buffer_append(&packed, "\0\0\0\0\0", 5));
        assert_ok(unpack_in_pieces(several[i], tide_buffer_view(&packed), &random, &out, NULL));
        assert_string_equal("one two", tide_buffer_text(&out));
        tide_buffer_clear(&out);
        assert_ok(
            tide_inflate(&out, tide_buffer_view(&packed), tide_coding_name(several[i]), NULL));
        assert_string_equal("one two", tide_buffer_text(&out));
    }
}

static void bare_deflate_is_understood_too(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(10));
    for (int i = 0; i < 50; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer plain;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&plain, MIB);
        tide_buffer_init(&packed, MIB);
        tide_buffer_init(&out, MIB);
        append_words(&plain, &random, (size_t)prng_below(&random, 5000));
        append_zlib(&packed, tide_buffer_view(&plain), -15);
        assert_ok(
            unpack_in_pieces(TIDE_CODING_DEFLATE, tide_buffer_view(&packed), &random, &out, NULL));
        assert_true(tide_view_equal(tide_buffer_view(&plain), tide_buffer_view(&out)));
    }
}

static void what_is_cut_short_is_refused_at_the_end(void **state)
{
    (void)state;
    for (size_t i = 1; i < 4; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
        tide_buffer_init(&packed, MIB);
        append_packed(&packed, tide_view_of("the tide comes in, the tide goes out"), codings[i]);
        for (size_t len = 0; len < packed.len; len++) {
            TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
            tide_buffer_init(&out, MIB);
            assert_ok(tide_buffer_append_text(&out, "kept"));
            tide_error err = {0};
            assert_status(TIDE_E_INVALID, tide_inflate(&out, tide_view_bytes(packed.ptr, len),
                                                       tide_coding_name(codings[i]), &err));
            assert_contains(err.text, "too early");
            assert_string_equal("kept", tide_buffer_text(&out));
        }
    }
}

static void damage_is_noticed(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&packed, MIB);
    tide_buffer_init(&out, MIB);
    tide_error err = {0};
    append_packed(&packed, tide_view_of("the tide"), TIDE_CODING_GZIP);
    packed.ptr[packed.len - 6] ^= 1; /* of the checksum */
    assert_status(TIDE_E_INVALID, tide_inflate(&out, tide_buffer_view(&packed), "gzip", &err));
    assert_status(TIDE_E_INVALID, tide_inflate(&out, tide_view_of("plain text"), "gzip", &err));
    assert_contains(err.text, "not gzip");
    assert_status(TIDE_E_INVALID, tide_inflate(&out, tide_view_of("plain text"), "zstd", &err));
    assert_contains(err.text, "not zstd");
    assert_status(TIDE_E_INVALID,
                  tide_inflate(&out, tide_view_of("\xFF\xFF\xFF"), "deflate", &err));
    tide_buffer_clear(&packed);
    append_packed(&packed, tide_view_of("x"), TIDE_CODING_GZIP);
    assert_ok(tide_buffer_append_text(&packed, "garbage"));
    assert_status(TIDE_E_INVALID, tide_inflate(&out, tide_buffer_view(&packed), "gzip", &err));
    tide_buffer_clear(&packed);
    append_packed(&packed, tide_view_of("x"), TIDE_CODING_DEFLATE);
    assert_ok(tide_buffer_append_text(&packed, "garbage"));
    assert_status(TIDE_E_INVALID, tide_inflate(&out, tide_buffer_view(&packed), "deflate", &err));
    assert_contains(err.text, "follows its end");
}

/* The limit is a limit: exactly so many bytes are fine, and one more is not. */
static void the_limit_is_exact(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(1));
    for (size_t i = 0; i < 4; i++) {
        for (size_t len = 199999; len <= 200001; len++) {
            TIDE_CLEANUP(tide_buffer_done) tide_buffer plain;
            TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
            TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
            tide_buffer_init(&plain, MIB);
            tide_buffer_init(&packed, MIB);
            tide_buffer_init(&out, 200000);
            append_words(&plain, &random, len);
            append_packed(&packed, tide_buffer_view(&plain), codings[i]);
            tide_error err = {0};
            assert_status_err(
                len <= 200000 ? TIDE_OK : TIDE_E_LIMIT,
                tide_inflate(&out, tide_buffer_view(&packed), tide_coding_name(codings[i]), &err),
                &err);
            if (len > 200000)
                assert_contains(err.text, "larger than 200000 bytes");
        }
    }
}

/* 100 MiB of zeros in 100 kB (gzip, deflate) end at the limit of size, with never more than that in memory; in 10 kB (zstd)
 * at the floor of the ratio, long before. */
static void bombs_end_early(void **state)
{
    (void)state;
    const size_t len = 100 * MIB;
    char *zeros = calloc(1, len);
    assert_non_null(zeros);
    for (size_t i = 1; i < 4; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&packed, 2 * len);
        tide_buffer_init(&out, 64 * MIB);
        append_packed(&packed, tide_view_bytes(zeros, len), codings[i]);
        TIDE_CLEANUP(tide_inflater_freep) tide_inflater *inflater = NULL;
        assert_ok(tide_inflater_new(&inflater, codings[i], NULL, NULL));
        tide_error err = {0};
        assert_status(TIDE_E_LIMIT,
                      tide_inflater_feed(inflater, tide_buffer_view(&packed), &out, &err));
        const bool is_zstd = codings[i] == TIDE_CODING_ZSTD;
        assert_contains(err.text, is_zstd ? "1100 times" : "larger than");
        assert_true(out.len <= (is_zstd ? TIDE_INFLATE_RATIO_FLOOR_LEN + MIB : 64 * MIB));
    }
    free(zeros);
}

/* Below the floor any ratio is fine: a small body of repetition is no bomb. */
static void small_bodies_may_have_any_ratio(void **state)
{
    (void)state;
    char *zeros = calloc(1, 4 * MIB);
    assert_non_null(zeros);
    for (size_t i = 1; i < 4; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&packed, 16 * MIB);
        tide_buffer_init(&out, 64 * MIB);
        append_packed(&packed, tide_view_bytes(zeros, 4 * MIB), codings[i]);
        assert_true(packed.len < 4 * MIB / 200);
        assert_ok(
            tide_inflate(&out, tide_buffer_view(&packed), tide_coding_name(codings[i]), NULL));
        assert_int_equal(4 * MIB, out.len);
    }
    free(zeros);
}

/* A frame may claim a window of gigabytes in six bytes. */
static void a_zstd_window_above_eight_mebibytes_is_refused(void **state)
{
    (void)state;
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_non_null(context);
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 27);
    char packed[256];
    ZSTD_outBuffer out = {.dst = packed, .size = sizeof packed};
    ZSTD_inBuffer in = {.src = "tide", .size = 4};
    assert_false(ZSTD_isError(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush)));
    assert_int_equal(0, ZSTD_compressStream2(context, &out, &in, ZSTD_e_end));
    (void)ZSTD_freeCCtx(context);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer body;
    tide_buffer_init(&body, MIB);
    tide_error err = {0};
    assert_status(TIDE_E_LIMIT,
                  tide_inflate(&body, tide_view_bytes(packed, out.pos), "zstd", &err));
    assert_contains(err.text, "8 MiB");
}

/* The decoders of those that libzstd may have know no limit of the window. */
static void zstd_formats_before_its_rfc_are_refused(void **state)
{
    (void)state;
    for (char version = 0x22; version < 0x28; version++) {
        const char frame[] = {version, '\xB5', '\x2F', '\xFD', 0, 0, 0, 0};
        const tide_view bytes = tide_view_bytes(frame, sizeof frame);
        TIDE_CLEANUP(tide_buffer_done) tide_buffer body = tide_buffer_of(MIB);
        tide_error err = {0};
        assert_status(TIDE_E_INVALID, tide_inflate(&body, bytes, "zstd", &err));
        assert_contains(err.text, "RFC 8878");
        TIDE_CLEANUP(tide_inflater_freep) tide_inflater *inflater = NULL;
        assert_ok_err(tide_inflater_new(&inflater, TIDE_CODING_ZSTD, NULL, &err), &err);
        assert_status(TIDE_E_INVALID,
                      tide_inflater_feed(inflater, tide_view_bytes(frame, 1), &body, &err));
    }
}

static void names_of_codings_are_known_in_any_case(void **state)
{
    (void)state;
    tide_coding coding;
    assert_ok(tide_coding_find(&coding, tide_view_of("GZip"), NULL));
    assert_int_equal(TIDE_CODING_GZIP, coding);
    assert_ok(tide_coding_find(&coding, tide_view_of("x-gzip"), NULL));
    assert_int_equal(TIDE_CODING_GZIP, coding);
    for (size_t i = 0; i < 4; i++) {
        assert_ok(tide_coding_find(&coding, tide_view_of(tide_coding_name(codings[i])), NULL));
        assert_int_equal(codings[i], coding);
    }
    tide_error err = {0};
    assert_status(TIDE_E_UNSUPPORTED, tide_coding_find(&coding, tide_view_of("br"), &err));
    assert_contains(err.text, "\"br\" is not one of identity,gzip");
    assert_status(TIDE_E_UNSUPPORTED, tide_coding_find(&coding, tide_view_of(""), &err));
    assert_status(TIDE_E_UNSUPPORTED, tide_coding_find(&coding, (tide_view){0}, &err));
}

static void gzip_that_does_not_fit_leaves_the_buffer_alone(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(2));
    char noise[1000];
    prng_fill(&random, noise, sizeof noise);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 500);
    assert_ok(tide_buffer_append_text(&out, "kept"));
    assert_status(TIDE_E_LIMIT,
                  tide_gzip_append(&out, tide_view_bytes(noise, sizeof noise), 9, NULL));
    assert_int_equal(4, out.len);
    assert_ok(tide_gzip_append(&out, tide_view_of("fits"), 9, NULL));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_coding_is_unpacked_in_whatever_pieces_it_comes),
        cmocka_unit_test(members_and_frames_in_a_row_are_one_body),
        cmocka_unit_test(bare_deflate_is_understood_too),
        cmocka_unit_test(what_is_cut_short_is_refused_at_the_end),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(bombs_end_early),
        cmocka_unit_test(small_bodies_may_have_any_ratio),
        cmocka_unit_test(a_zstd_window_above_eight_mebibytes_is_refused),
        cmocka_unit_test(zstd_formats_before_its_rfc_are_refused),
        cmocka_unit_test(names_of_codings_are_known_in_any_case),
        cmocka_unit_test(gzip_that_does_not_fit_leaves_the_buffer_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
