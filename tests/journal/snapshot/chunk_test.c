/* chunk_test.c - states cut into chunks by content, stored once, and read back unharmed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "journal/snapshot/chunk.h"
#include "support/alloc_fault.h"
#include "support/check.h"
#include "support/prng.h"

enum { STATE_MAX = 4 << 20, SWEEP_MAX = 1000, REFERENCE_LEN = 40, FEW = 16, CONTENTS = 15 };

/* zstd is a shared library: its contexts count as one allocation each. */
struct ZSTD_CCtx_s *__real_ZSTD_createCCtx(void);
struct ZSTD_DCtx_s *__real_ZSTD_createDCtx(void);
struct ZSTD_CCtx_s *__wrap_ZSTD_createCCtx(void);
struct ZSTD_DCtx_s *__wrap_ZSTD_createDCtx(void);

static bool has_memory(void)
{
    void *probe = malloc(1);
    free(probe);
    return probe != NULL;
}

struct ZSTD_CCtx_s *__wrap_ZSTD_createCCtx(void)
{
    return has_memory() ? __real_ZSTD_createCCtx() : NULL;
}

struct ZSTD_DCtx_s *__wrap_ZSTD_createDCtx(void)
{
    return has_memory() ? __real_ZSTD_createDCtx() : NULL;
}

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

/* Bytes that do not come from tests/support: what is pinned must not depend on anything else. */
static void fill_simply(char *out, size_t len)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < len; i++) {
        x = x * 1103515245U + 12345U;
        out[i] = (char)(x >> 24);
    }
}

/* The cuts are a storage format: if this test must be changed, stored chunks are shared no more.
 * The numbers come from a second program, written from the description in chunk.h. */
static void the_cuts_never_change(void **state)
{
    (void)state;
    static const size_t WANT[] = {2272,  3617,  8588,  14496, 18973, 23935, 25473, 29604,
                                  35415, 40515, 44707, 48850, 53432, 58501, 65487, 65536};
    TIDE_CLEANUP(tide_freep) char *bytes = malloc(65536);
    assert_non_null(bytes);
    fill_simply(bytes, 65536);
    tide_chunker chunker;
    tide_chunker_init(&chunker, tide_view_bytes(bytes, 65536));
    assert_true(chunker.gear[0] == UINT64_C(0xC8F212D9FBDA4FAE));
    assert_true(chunker.gear[255] == UINT64_C(0x769E27026C340AD2));
    tide_chunk_span span;
    for (size_t i = 0; i < sizeof WANT / sizeof WANT[0]; i++) {
        assert_true(tide_chunker_next(&chunker, &span));
        assert_int_equal(span.offset, i == 0 ? 0 : WANT[i - 1]);
        assert_int_equal(span.offset + span.len, WANT[i]);
    }
    assert_false(tide_chunker_next(&chunker, &span));
    assert_false(tide_chunker_next(&chunker, &span));
}

/* 64 bytes whose hash begins with this many 0 bits, and not with one more. */
static void find_window(const uint64_t gear[256], int bits, char out[64])
{
    prng random;
    prng_init(&random, 64); /* an example that is known to have no other place to cut */
    for (;;) {
        prng_fill(&random, out, 64);
        uint64_t hash = 0;
        for (int i = 0; i < 64; i++)
            hash = (hash << 1) + gear[(uint8_t)out[i]];
        if (hash >> (64 - bits) == 0 && hash >> (63 - bits) != 0)
            return;
    }
}

/* How long the first chunk is when the window ends behind len bytes, and no other place is one to
 * cut. */
static size_t cut_with_window(const char window[64], size_t len)
{
    static char bytes[3 * TIDE_CHUNK_LEN_MAX];
    memset(bytes, 'a', sizeof bytes);
    memcpy(bytes + len - 64, window, 64);
    tide_chunker chunker;
    tide_chunker_init(&chunker, tide_view_bytes(bytes, sizeof bytes));
    tide_chunk_span span;
    assert_true(tide_chunker_next(&chunker, &span));
    return span.len;
}

/* The lengths at which the rules change, to the byte. */
static void the_limits_of_cuts_never_change(void **state)
{
    (void)state;
    tide_chunker chunker;
    tide_chunker_init(&chunker, (tide_view){0});
    char strict[64];
    char almost[64];
    char loose[64];
    char never[64];
    find_window(chunker.gear, 14, strict);
    find_window(chunker.gear, 13, almost);
    find_window(chunker.gear, 10, loose);
    find_window(chunker.gear, 9, never);
    assert_int_equal(cut_with_window(strict, 1023), 16384);
    assert_int_equal(cut_with_window(strict, 1024), 1024);
    assert_int_equal(cut_with_window(strict, 4096), 4096);
    assert_int_equal(cut_with_window(strict, 4097), 4097);
    assert_int_equal(cut_with_window(almost, 1024), 16384);
    assert_int_equal(cut_with_window(almost, 4096), 16384);
    assert_int_equal(cut_with_window(loose, 4096), 16384);
    assert_int_equal(cut_with_window(loose, 4097), 4097);
    assert_int_equal(cut_with_window(loose, 16383), 16383);
    assert_int_equal(cut_with_window(loose, 16385), 16384);
    assert_int_equal(cut_with_window(never, 4097), 16384);
}

/* The codecs are stored as numbers. */
static void the_numbers_of_codecs_never_change(void **state)
{
    (void)state;
    assert_int_equal(TIDE_CHUNK_RAW, 0);
    assert_int_equal(TIDE_CHUNK_ZSTD, 1);
}

static void check_cover(tide_view state_bytes)
{
    tide_chunker chunker;
    tide_chunker_init(&chunker, state_bytes);
    tide_chunk_span span;
    size_t end = 0;
    while (tide_chunker_next(&chunker, &span)) {
        assert_int_equal(span.offset, end);
        assert_true(span.len <= TIDE_CHUNK_LEN_MAX);
        end += span.len;
        assert_true(span.len >= TIDE_CHUNK_LEN_MIN || (end == state_bytes.len && span.len > 0));
    }
    assert_int_equal(end, state_bytes.len);
}

/* Without gaps, and never longer or shorter than promised, whatever the bytes. */
static void chunks_cover_every_state(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(3));
    TIDE_CLEANUP(tide_freep) char *bytes = malloc(STATE_MAX);
    assert_non_null(bytes);
    check_cover((tide_view){0});
    static const size_t LENGTHS[] = {0,    1,    63,    64,    1023,  1024,
                                     1025, 4096, 16383, 16384, 16385, 100000};
    for (size_t i = 0; i < sizeof LENGTHS / sizeof LENGTHS[0]; i++) {
        prng_fill(&random, bytes, LENGTHS[i]);
        check_cover(tide_view_bytes(bytes, LENGTHS[i]));
    }
    for (int byte = 0; byte < 256; byte++) {
        memset(bytes, byte, 100000);
        check_cover(tide_view_bytes(bytes, 100000));
    }
    prng_fill(&random, bytes, STATE_MAX);
    check_cover(tide_view_bytes(bytes, STATE_MAX));
}

/* --- a store in miniature: which chunks are there, and what they take --- */

typedef struct shelf {
    uint8_t (*digests)[TIDE_CHUNK_DIGEST_LEN];
    size_t count;
    size_t capacity;
    size_t raw_len;
    size_t stored_len;
    size_t reference_count;
    tide_chunk_coder coder;
} shelf;

static void shelf_done(shelf *s)
{
    free(s->digests);
    tide_chunk_coder_done(&s->coder);
}

/* True: it was new. */
static bool put_digest(shelf *s, const uint8_t *digest)
{
    for (size_t i = s->count; i-- > 0;) {
        if (memcmp(s->digests[i], digest, TIDE_CHUNK_DIGEST_LEN) == 0)
            return false;
    }
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 64;
        s->digests = realloc(s->digests, s->capacity * sizeof *s->digests);
        assert_non_null(s->digests);
    }
    memcpy(s->digests[s->count++], digest, TIDE_CHUNK_DIGEST_LEN);
    return true;
}

static void store_chunk(shelf *s, tide_view chunk, const uint8_t *digest)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer stored;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
    tide_buffer_init(&stored, STATE_MAX);
    tide_buffer_init(&again, STATE_MAX);
    tide_chunk_codec codec;
    assert_ok(tide_chunk_encode(&s->coder, chunk, &stored, &codec, NULL));
    s->stored_len += stored.len;
    const tide_chunk_stored read = {.codec = codec,
                                    .raw_len = (int64_t)chunk.len,
                                    .bytes = tide_buffer_view(&stored),
                                    .digest = tide_view_bytes(digest, TIDE_CHUNK_DIGEST_LEN)};
    assert_ok(tide_chunk_decode(&s->coder, &read, &again, NULL));
    assert_true(tide_view_equal(tide_buffer_view(&again), chunk));
}

/* Returns how many of the state's chunks were new. */
static size_t store_state(shelf *s, tide_view bytes)
{
    size_t new_count = 0;
    s->raw_len += bytes.len;
    tide_chunker chunker;
    tide_chunker_init(&chunker, bytes);
    for (tide_chunk_span span; tide_chunker_next(&chunker, &span); s->reference_count++) {
        const tide_view chunk = tide_view_bytes(bytes.ptr + span.offset, span.len);
        uint8_t digest[TIDE_CHUNK_DIGEST_LEN];
        assert_ok(tide_chunk_digest(chunk, digest, NULL));
        if (put_digest(s, digest)) {
            store_chunk(s, chunk, digest);
            new_count++;
        }
    }
    return new_count;
}

/* Changes one random content in three places; returns the most chunks that a change made new. */
static size_t change_content(prng *random)
{
    TIDE_CLEANUP(shelf_done) shelf s = {0};
    TIDE_CLEANUP(tide_freep) char *bytes = malloc(400001);
    assert_non_null(bytes);
    prng_fill(random, bytes + 1, 400000);
    const size_t all = store_state(&s, tide_view_bytes(bytes + 1, 400000));
    assert_true(all > 50 && all < 150); /* about 4 KiB each */
    assert_int_equal(store_state(&s, tide_view_bytes(bytes + 1, 400000)), 0);
    bytes[0] = 'x';
    const size_t inserted = store_state(&s, tide_view_bytes(bytes, 400001));
    bytes[200000] ^= 1;
    const size_t flipped = store_state(&s, tide_view_bytes(bytes, 400001));
    const size_t cut = store_state(&s, tide_view_bytes(bytes + 5000, 395001));
    assert_true(store_state(&s, tide_view_bytes(bytes, 300000)) <= 1);
    const size_t most = inserted > flipped ? inserted : flipped;
    return most > cut ? most : cut;
}

/* What is stored behind an insertion keeps its chunks. Cuts meet again after three chunks at most in most contents, and
 * always soon: about one content in ten needs more than three. */
static void an_insertion_changes_few_chunks(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(4));
    int usual = 0;
    for (int i = 0; i < CONTENTS; i++) {
        const size_t most = change_content(&random);
        assert_true(most <= FEW);
        usual += most <= 3;
    }
    assert_true(usual > CONTENTS / 2);
}

static const char *const WORDS[] = {
    "read",    "the",      "file", "and",   "found", "a",      "function", "that",  "returns",
    "an",      "error",    "when", "index", "is",    "beyond", "end",      "of",    "list",
    "changed", "tests",    "pass", "now",   "next",  "look",   "at",       "store", "which",
    "holds",   "sequence", "rows", "42",    "1.5",   "tool",   "call",     "with",  "arguments"};

static void append_entry(prng *random, tide_buffer *history, int number)
{
    assert_ok(tide_buffer_printf(history, "%s{\"step\":%d,\"id\":\"%016llx\",\"text\":\"",
                                 history->len > 0 ? "," : "", number,
                                 (unsigned long long)prng_u64(random)));
    for (uint64_t i = 10 + prng_below(random, 20); i > 0; i--)
        assert_ok(tide_buffer_printf(history, "%s ",
                                     WORDS[prng_below(random, sizeof WORDS / sizeof WORDS[0])]));
    assert_ok(tide_buffer_append_text(history, "\"}"));
}

/* The promise of the journal: states that grow, with counters in front that change every time, take
 * a tenth of their bytes at most. A reference to a chunk counts as 40 bytes. */
static void growing_states_take_a_fraction_of_their_bytes(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(130));
    TIDE_CLEANUP(shelf_done) shelf s = {0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer history;
    tide_buffer_init(&history, STATE_MAX);
    int entries = 0;
    while (history.len < 105000)
        append_entry(&random, &history, entries++);
    for (int i = 0; i < 300; i++) {
        append_entry(&random, &history, entries++);
        TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
        tide_buffer_init(&text, STATE_MAX);
        assert_ok(tide_buffer_printf(
            &text,
            "{\"iteration\":%d,\"tokens\":%u,\"cost\":%u.%02u,\"updated_at\":\"2026-01-02 "
            "03:04:%02d.%06u\",\"status\":\"running\",\"history\":[",
            i, (unsigned)prng_below(&random, 1000000), (unsigned)prng_below(&random, 100),
            (unsigned)prng_below(&random, 100), i % 60, (unsigned)prng_below(&random, 1000000)));
        assert_ok(tide_buffer_append_view(&text, tide_buffer_view(&history)));
        assert_ok(tide_buffer_append_text(&text, "],\"version\":3}"));
        (void)store_state(&s, tide_buffer_view(&text));
    }
    const size_t total_len = s.stored_len + s.reference_count * REFERENCE_LEN;
    const double ratio = (double)s.raw_len / (double)total_len;
    print_message(
        "300 states of %zu bytes on average: %zu chunks of %zu, %zu bytes stored + %zu of "
        "references: %.1f times smaller\n",
        s.raw_len / 300, s.count, s.reference_count, s.stored_len,
        s.reference_count * REFERENCE_LEN, ratio);
    assert_true(s.raw_len / 300 > 120000 && s.raw_len / 300 < 140000);
    assert_true(ratio >= 20);
}

/* --- one chunk --- */

typedef struct sample {
    char raw[TIDE_CHUNK_LEN_MAX];
    size_t len;
    uint8_t digest[TIDE_CHUNK_DIGEST_LEN];
    tide_buffer bytes;
    tide_chunk_codec codec;
    tide_chunk_coder coder;
} sample;

static void sample_done(sample *s)
{
    tide_buffer_done(&s->bytes);
    tide_chunk_coder_done(&s->coder);
}

static void encode_sample(sample *s)
{
    tide_buffer_init(&s->bytes, TIDE_CHUNK_LEN_MAX);
    assert_ok(tide_chunk_digest(tide_view_bytes(s->raw, s->len), s->digest, NULL));
    assert_ok(
        tide_chunk_encode(&s->coder, tide_view_bytes(s->raw, s->len), &s->bytes, &s->codec, NULL));
}

static void make_text_sample(sample *s)
{
    *s = (sample){.len = 5000};
    for (size_t i = 0; i < s->len; i++)
        s->raw[i] = "the same again and again, "[i % 26];
    encode_sample(s);
    assert_int_equal(s->codec, TIDE_CHUNK_ZSTD);
}

static void make_noise_sample(sample *s)
{
    *s = (sample){.len = 5000};
    fill_simply(s->raw, s->len);
    encode_sample(s);
    assert_int_equal(s->codec, TIDE_CHUNK_RAW);
}

static tide_chunk_stored stored_of(const sample *s)
{
    return (tide_chunk_stored){
        .codec = s->codec,
        .raw_len = (int64_t)s->len,
        .bytes = tide_buffer_view(&s->bytes),
        .digest = tide_view_bytes(s->digest, sizeof s->digest),
    };
}

static void expect_damaged(sample *s, const tide_chunk_stored *stored, const char *words)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, STATE_MAX);
    assert_ok(tide_buffer_append_text(&out, "before"));
    tide_error err = {0};
    assert_status_err(TIDE_E_DAMAGED, tide_chunk_decode(&s->coder, stored, &out, &err), &err);
    assert_contains(err.text, words);
    assert_string_equal(tide_buffer_text(&out), "before");
}

/* What does not become smaller is stored as it is: never more than the chunk. */
static void chunks_of_every_length_come_back(void **state)
{
    (void)state;
    TIDE_CLEANUP(shelf_done) shelf s = {0};
    char bytes[TIDE_CHUNK_LEN_MAX];
    for (int kind = 0; kind < 2; kind++) {
        if (kind == 0)
            memset(bytes, 'a', sizeof bytes);
        else
            fill_simply(bytes, sizeof bytes);
        for (size_t len = 0; len <= sizeof bytes; len += len < 50 ? 1 : 997) {
            uint8_t digest[TIDE_CHUNK_DIGEST_LEN];
            assert_ok(tide_chunk_digest(tide_view_bytes(bytes, len), digest, NULL));
            const size_t before_len = s.stored_len;
            store_chunk(&s, tide_view_bytes(bytes, len), digest);
            assert_true(s.stored_len - before_len <= len);
            if (len > 50)
                assert_true((s.stored_len - before_len < len) == (kind == 0));
        }
    }
}

/* Whatever byte was changed: it is noticed. */
static void every_damaged_byte_is_noticed(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        TIDE_CLEANUP(sample_done) sample s = {0};
        if (kind == 0)
            make_text_sample(&s);
        else
            make_noise_sample(&s);
        const tide_chunk_stored stored = stored_of(&s);
        for (size_t i = 0; i < s.bytes.len; i += kind == 0 ? 1 : 37) {
            for (unsigned bit = 0; bit < 8; bit += kind == 0 ? 1 : 5) {
                s.bytes.ptr[i] = (char)((uint8_t)s.bytes.ptr[i] ^ 1U << bit);
                TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
                tide_buffer_init(&out, STATE_MAX);
                const tide_status status = tide_chunk_decode(&s.coder, &stored, &out, NULL);
                /* a bit of a frame that means nothing may change nothing */
                if (status == TIDE_OK)
                    assert_true(
                        tide_view_equal(tide_buffer_view(&out), tide_view_bytes(s.raw, s.len)));
                else
                    assert_status(TIDE_E_DAMAGED, status);
                assert_true(status == TIDE_OK || out.len == 0);
                s.bytes.ptr[i] = (char)((uint8_t)s.bytes.ptr[i] ^ 1U << bit);
            }
        }
        for (size_t len = 0; len < s.bytes.len; len += kind == 0 ? 1 : 499) {
            tide_chunk_stored cut = stored;
            cut.bytes.len = len;
            expect_damaged(&s, &cut, "chunk");
        }
    }
}

/* Codec, length and digest are input as well. */
static void what_is_stated_wrongly_is_damage(void **state)
{
    (void)state;
    TIDE_CLEANUP(sample_done) sample text = {0};
    TIDE_CLEANUP(sample_done) sample noise = {0};
    make_text_sample(&text);
    make_noise_sample(&noise);
    static const int64_t CODECS[] = {-1, 2, 255, 256, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof CODECS / sizeof CODECS[0]; i++) {
        tide_chunk_stored stored = stored_of(&text);
        stored.codec = CODECS[i];
        expect_damaged(&text, &stored, "unknown codec");
    }
    static const int64_t IMPOSSIBLE[] = {-1, 16385, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof IMPOSSIBLE / sizeof IMPOSSIBLE[0]; i++) {
        tide_chunk_stored stored = stored_of(&text);
        stored.raw_len = IMPOSSIBLE[i];
        expect_damaged(&text, &stored, "a length of");
        stored = stored_of(&noise);
        stored.raw_len = IMPOSSIBLE[i];
        expect_damaged(&noise, &stored, "a length of");
    }
    static const int64_t OTHERS[] = {0, 4999, 5001, 16384};
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        tide_chunk_stored stored = stored_of(&text);
        stored.raw_len = OTHERS[i];
        expect_damaged(&text, &stored, OTHERS[i] < 5000 ? "too small" : "5000 bytes");
        stored = stored_of(&noise);
        stored.raw_len = OTHERS[i];
        expect_damaged(&noise, &stored, "5000 bytes");
    }
    tide_chunk_stored stored = stored_of(&noise);
    stored.codec = TIDE_CHUNK_ZSTD;
    expect_damaged(&noise, &stored, "chunk");
    stored = stored_of(&text);
    stored.codec = TIDE_CHUNK_RAW;
    expect_damaged(&text, &stored, "were stored");
    stored = stored_of(&text);
    stored.digest = tide_view_bytes(noise.digest, sizeof noise.digest);
    expect_damaged(&text, &stored, "do not have its digest");
    stored.digest = tide_view_bytes(text.digest, sizeof text.digest - 1);
    expect_damaged(&text, &stored, "do not have its digest");
    stored.digest = (tide_view){0};
    expect_damaged(&text, &stored, "do not have its digest");
}

/* A frame of 20 bytes that unpacks to a megabyte does not get more room than a chunk may take. */
static void a_frame_that_grows_without_end_is_damage(void **state)
{
    (void)state;
    TIDE_CLEANUP(sample_done) sample s = {0};
    make_text_sample(&s);
    /* magic; window 1 MiB, no content size; eight blocks of 128 KiB of one repeated byte */
    uint8_t bomb[6 + 8 * 4] = {0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x50};
    for (size_t i = 0; i < 8; i++) {
        const uint32_t header = (i == 7 ? 1U : 0U) | 1U << 1 | 131072U << 3;
        bomb[6 + 4 * i] = (uint8_t)header;
        bomb[7 + 4 * i] = (uint8_t)(header >> 8);
        bomb[8 + 4 * i] = (uint8_t)(header >> 16);
        bomb[9 + 4 * i] = 'x';
    }
    tide_chunk_stored stored = stored_of(&s);
    stored.bytes = tide_view_bytes(bomb, sizeof bomb);
    stored.raw_len = TIDE_CHUNK_LEN_MAX;
    expect_damaged(&s, &stored, "too small");
}

/* No room: an error, and the buffer is as before. */
static void a_full_buffer_changes_nothing(void **state)
{
    (void)state;
    TIDE_CLEANUP(sample_done) sample s = {0};
    make_text_sample(&s);
    const tide_chunk_stored stored = stored_of(&s);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 10);
    assert_ok(tide_buffer_append_text(&out, "before"));
    assert_status(TIDE_E_LIMIT, tide_chunk_decode(&s.coder, &stored, &out, NULL));
    tide_chunk_codec codec;
    assert_status(TIDE_E_LIMIT,
                  tide_chunk_encode(&s.coder, tide_view_bytes(s.raw, s.len), &out, &codec, NULL));
    assert_string_equal(tide_buffer_text(&out), "before");
}

static void code_without_memory(void *arg)
{
    const tide_view raw = *(const tide_view *)arg;
    TIDE_CLEANUP(tide_chunk_coder_done) tide_chunk_coder coder = {0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
    tide_buffer_init(&bytes, STATE_MAX);
    tide_buffer_init(&again, STATE_MAX);
    uint8_t digest[TIDE_CHUNK_DIGEST_LEN];
    assert_ok(tide_chunk_digest(raw, digest, NULL));
    tide_chunk_codec codec;
    tide_error err = {0};
    tide_status status = tide_chunk_encode(&coder, raw, &bytes, &codec, &err);
    if (status == TIDE_OK) {
        const tide_chunk_stored stored = {.codec = codec,
                                          .raw_len = (int64_t)raw.len,
                                          .bytes = tide_buffer_view(&bytes),
                                          .digest = tide_view_bytes(digest, sizeof digest)};
        status = tide_chunk_decode(&coder, &stored, &again, &err);
    }
    if (status == TIDE_OK) {
        assert_true(tide_view_equal(tide_buffer_view(&again), raw));
    } else {
        assert_status(TIDE_E_NOMEM, status); /* not TIDE_E_DAMAGED: nothing is */
        assert_contains(err.text, "no memory");
        assert_int_equal(again.len, 0);
    }
}

/* Without memory: an error that says so, never a claim of damage. */
static void memory_that_runs_out_is_no_damage(void **state)
{
    (void)state;
    TIDE_CLEANUP(sample_done) sample text = {0};
    TIDE_CLEANUP(sample_done) sample noise = {0};
    make_text_sample(&text);
    make_noise_sample(&noise);
    tide_view raw = tide_view_bytes(text.raw, text.len);
    ALLOC_FAULT_SWEEP(code_without_memory, &raw, SWEEP_MAX);
    raw = tide_view_bytes(noise.raw, noise.len);
    ALLOC_FAULT_SWEEP(code_without_memory, &raw, SWEEP_MAX);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cuts_never_change),
        cmocka_unit_test(the_limits_of_cuts_never_change),
        cmocka_unit_test(the_numbers_of_codecs_never_change),
        cmocka_unit_test(chunks_cover_every_state),
        cmocka_unit_test(an_insertion_changes_few_chunks),
        cmocka_unit_test(growing_states_take_a_fraction_of_their_bytes),
        cmocka_unit_test(chunks_of_every_length_come_back),
        cmocka_unit_test(every_damaged_byte_is_noticed),
        cmocka_unit_test(what_is_stated_wrongly_is_damage),
        cmocka_unit_test(a_frame_that_grows_without_end_is_damage),
        cmocka_unit_test(a_full_buffer_changes_nothing),
        cmocka_unit_test_teardown(memory_that_runs_out_is_no_damage, disarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
