#include <tidemark/cursor.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/bytes/crc32c.h"
#include "base/cleanup.h"
#include "support/alloc_fault.h"
#include "support/check.h"
#include "support/prng.h"

enum { PLENTY = 1000, BYTES_MAX = 1 << 20 };

static int64_t add(tide_cursor *cursor, int64_t first, int64_t last)
{
    int64_t added = -1;
    tide_error err;
    assert_ok_err(tide_cursor_add(cursor, first, last, &added, &err), &err);
    return added;
}

static void assert_holes(const tide_cursor *cursor, const char *want)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 10000);
    size_t count;
    const tide_interval *holes = tide_cursor_holes(cursor, &count);
    for (size_t i = 0; i < count; i++)
        assert_ok(tide_buffer_printf(&text, "%s%lld-%lld", i > 0 ? " " : "",
                                     (long long)holes[i].first, (long long)holes[i].last));
    assert_string_equal(tide_buffer_text(&text), want);
}

static void encode(const tide_cursor *cursor, tide_buffer *out)
{
    tide_error err;
    tide_buffer_init(out, BYTES_MAX);
    assert_ok_err(tide_cursor_encode(cursor, out, &err), &err);
}

/* A body with a right checksum behind it: what lies behind the checksum's back. */
static tide_status decode_sealed(tide_cursor *cursor, const char *body, size_t len)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, BYTES_MAX);
    assert_ok(tide_buffer_append(&bytes, body, len));
    assert_ok(tide_buffer_append_u32(&bytes, tide_crc32c(tide_view_bytes(body, len))));
    return tide_cursor_decode(cursor, tide_buffer_view(&bytes), PLENTY, NULL);
}

/* Rows 1, 2, 3, 5; then 4. */
static void a_number_beyond_a_hole_waits_for_it(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 0, PLENTY);
    assert_int_equal(add(&c, 1, 3), 3);
    assert_int_equal(add(&c, 5, 5), 1);
    assert_int_equal(tide_cursor_contiguous(&c), 3);
    assert_int_equal(tide_cursor_highest(&c), 5);
    assert_holes(&c, "4-4");
    assert_true(tide_cursor_has(&c, 5));
    assert_false(tide_cursor_has(&c, 4));
    assert_int_equal(add(&c, 4, 4), 1);
    assert_int_equal(tide_cursor_contiguous(&c), 5);
    assert_holes(&c, "");
}

/* "seen before" settles too, and counts nothing. */
static void what_was_seen_before_adds_nothing(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 10, PLENTY);
    assert_int_equal(add(&c, 1, 10), 0);
    assert_int_equal(add(&c, 5, 12), 2);
    assert_int_equal(add(&c, 20, 30), 11);
    assert_int_equal(add(&c, 20, 30), 0);
    assert_int_equal(add(&c, 25, 35), 5);
    assert_int_equal(tide_cursor_contiguous(&c), 12);
    assert_holes(&c, "13-19");
    assert_int_equal(add(&c, 1, 40), 12);
    assert_int_equal(tide_cursor_contiguous(&c), 40);
}

/* A hole can be shortened at either end, split, and covered together with others. */
static void holes_shrink_split_and_vanish(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 0, PLENTY);
    assert_int_equal(add(&c, 100, 100), 1);
    assert_holes(&c, "1-99");
    assert_int_equal(add(&c, 90, 99), 10);
    assert_int_equal(add(&c, 50, 59), 10);
    assert_int_equal(add(&c, 20, 29), 10);
    assert_holes(&c, "1-19 30-49 60-89");
    assert_int_equal(tide_cursor_pending(&c), 69);
    assert_int_equal(add(&c, 10, 69), 40);
    assert_holes(&c, "1-9 70-89");
    assert_int_equal(add(&c, 1, 2), 2);
    assert_holes(&c, "3-9 70-89");
    assert_int_equal(tide_cursor_contiguous(&c), 2);
}

/* Numbers are 1 .. 2^63-1 and ranges run upward. */
static void ranges_that_are_none_are_refused(void **state)
{
    (void)state;
    static const int64_t bad[][2] = {
        {0, 5}, {-1, 5}, {5, 4}, {INT64_MIN, INT64_MAX}, {0, 0}, {INT64_MAX, INT64_MIN}};
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 3, PLENTY);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t added = 77;
        tide_error err;
        assert_status(TIDE_E_INVALID, tide_cursor_add(&c, bad[i][0], bad[i][1], &added, &err));
        assert_int_equal(added, 77);
        assert_contains(err.text, "want 1 <= first <= last");
    }
    assert_int_equal(tide_cursor_highest(&c), 3);
    assert_ok(tide_cursor_add(&c, 4, 4, NULL, NULL));
}

/* A loud stop, with nothing changed; filling a hole makes room again. */
static void too_many_holes_stop_the_cursor(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 0, 2);
    assert_int_equal(add(&c, 10, 10), 1);
    assert_int_equal(add(&c, 20, 20), 1);
    tide_error err;
    int64_t added = 77;
    assert_status(TIDE_E_LIMIT, tide_cursor_add(&c, 30, 30, &added, &err));
    assert_contains(err.text, "2 holes");
    assert_contains(err.text, "fill or give up holes from 1 on");
    assert_status(TIDE_E_LIMIT, tide_cursor_add(&c, 15, 15, &added, &err));
    assert_int_equal(added, 77);
    assert_holes(&c, "1-9 11-19");
    assert_int_equal(tide_cursor_highest(&c), 20);
    assert_int_equal(add(&c, 21, 25), 5);
    assert_int_equal(add(&c, 1, 9), 9);
    assert_int_equal(add(&c, 30, 30), 1);
    assert_holes(&c, "11-19 26-29");
}

/* A cursor that may keep no hole takes numbers in order only. */
static void without_room_for_holes_only_order_is_accepted(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 0, 0);
    assert_int_equal(add(&c, 1, 5), 5);
    assert_status(TIDE_E_LIMIT, tide_cursor_add(&c, 7, 7, NULL, NULL));
    assert_int_equal(add(&c, 3, 6), 1);
    assert_int_equal(tide_cursor_contiguous(&c), 6);
}

/* A gap is two numbers, however wide. */
static void a_wide_gap_costs_constant_memory(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 0, PLENTY);
    assert_int_equal(add(&c, 100000001, 100000001), 1);
    assert_int_equal(tide_cursor_pending(&c), 100000000);
    assert_true(c.hole_capacity * sizeof *c.holes <= 256);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    encode(&c, &bytes);
    assert_true(bytes.len <= 16);
}

/* The last number there is, with nothing above it to overflow into. */
static void the_highest_number_of_all_works(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 0, PLENTY);
    assert_int_equal(add(&c, INT64_MAX, INT64_MAX), 1);
    assert_true(tide_cursor_pending(&c) == INT64_MAX - 1);
    assert_true(tide_cursor_has(&c, INT64_MAX));
    assert_false(tide_cursor_has(&c, INT64_MAX - 1));
    assert_int_equal(add(&c, INT64_MAX - 1, INT64_MAX), 1);
    tide_interval hole;
    assert_int_equal(tide_cursor_next_hole(&c, INT64_MAX, &hole), TIDE_NONE);
    assert_int_equal(tide_cursor_next_hole(&c, INT64_MAX - 2, &hole), TIDE_NONE);
    assert_ok(tide_cursor_next_hole(&c, INT64_MAX - 3, &hole));
    assert_true(hole.first == INT64_MAX - 2 && hole.last == INT64_MAX - 2);

    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    encode(&c, &bytes);
    TIDE_CLEANUP(tide_cursor_done) tide_cursor again = {0};
    assert_ok(tide_cursor_decode(&again, tide_buffer_view(&bytes), PLENTY, NULL));
    assert_true(tide_cursor_highest(&again) == INT64_MAX);

    assert_true(add(&c, 1, INT64_MAX) == INT64_MAX - 2);
    assert_true(tide_cursor_contiguous(&c) == INT64_MAX);
    assert_int_equal(add(&c, 1, INT64_MAX), 0);
    assert_int_equal(tide_cursor_raise(&c, INT64_MAX), 0);

    TIDE_CLEANUP(tide_cursor_done) tide_cursor whole;
    tide_cursor_init(&whole, 0, PLENTY);
    assert_true(add(&whole, 1, INT64_MAX) == INT64_MAX);
    TIDE_CLEANUP(tide_cursor_done) tide_cursor full;
    tide_cursor_init(&full, INT64_MAX, 0);
    assert_int_equal(add(&full, INT64_MAX, INT64_MAX), 0);
}

/* Holes that were given up: the prefix moves over them, and says how many numbers that were. */
static void raising_covers_holes_and_counts_them(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 0, PLENTY);
    (void)add(&c, 5, 10);
    (void)add(&c, 15, 20);
    assert_int_equal(tide_cursor_raise(&c, INT64_MIN), 0);
    assert_int_equal(tide_cursor_raise(&c, 0), 0);
    assert_int_equal(tide_cursor_raise(&c, 2), 2);
    assert_holes(&c, "3-4 11-14");
    assert_int_equal(tide_cursor_raise(&c, 12), 4);
    assert_int_equal(tide_cursor_contiguous(&c), 12);
    assert_holes(&c, "13-14");
    assert_int_equal(tide_cursor_raise(&c, 14), 2);
    assert_int_equal(tide_cursor_contiguous(&c), 20);
    assert_int_equal(tide_cursor_raise(&c, 25), 5);
    assert_int_equal(tide_cursor_highest(&c), 25);
    assert_int_equal(tide_cursor_raise(&c, 25), 0);
    assert_int_equal(tide_cursor_raise(&c, 7), 0);
    assert_int_equal(tide_cursor_contiguous(&c), 25);
}

/* Who fetches what is missing walks from hole to hole. */
static void holes_can_be_walked(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 2, PLENTY);
    tide_interval hole;
    assert_int_equal(tide_cursor_next_hole(&c, 0, &hole), TIDE_NONE);
    (void)add(&c, 5, 6);
    (void)add(&c, 10, 10);
    assert_ok(tide_cursor_next_hole(&c, 0, &hole));
    assert_true(hole.first == 3 && hole.last == 4);
    assert_ok(tide_cursor_next_hole(&c, INT64_MIN, &hole));
    assert_true(hole.first == 3 && hole.last == 4);
    assert_ok(tide_cursor_next_hole(&c, 4, &hole));
    assert_true(hole.first == 7 && hole.last == 9);
    assert_ok(tide_cursor_next_hole(&c, 7, &hole));
    assert_true(hole.first == 8 && hole.last == 9);
    assert_int_equal(tide_cursor_next_hole(&c, 9, &hole), TIDE_NONE);
}

/* The stored form is a contract: these bytes must be readable for ever. */
static void the_encoding_is_as_drawn(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 300, PLENTY);
    (void)add(&c, 303, 304);
    (void)add(&c, 310, 310);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    encode(&c, &bytes);
    static const char body[] = "\x01\xAC\x02\x02\x02\x02\x05\x01";
    assert_int_equal(bytes.len, sizeof body - 1 + 4);
    assert_memory_equal(bytes.ptr, body, sizeof body - 1);

    TIDE_CLEANUP(tide_cursor_done) tide_cursor again = {0};
    assert_ok(decode_sealed(&again, body, sizeof body - 1));
    assert_int_equal(tide_cursor_contiguous(&again), 300);
    assert_int_equal(tide_cursor_highest(&again), 310);
    assert_holes(&again, "301-302 305-309");
}

/* Every flipped bit, every cut and every added byte is found, and the target stays as it was. */
static void damaged_bytes_are_refused(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 300, PLENTY);
    (void)add(&c, 400, 500);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    encode(&c, &bytes);
    tide_cursor target;
    memset(&target, 0x5A, sizeof target);
    const tide_cursor before = target;
    for (size_t bit = 0; bit < bytes.len * 8; bit++) {
        bytes.ptr[bit / 8] = (char)(bytes.ptr[bit / 8] ^ (1 << bit % 8));
        assert_status(TIDE_E_DAMAGED,
                      tide_cursor_decode(&target, tide_buffer_view(&bytes), PLENTY, NULL));
        bytes.ptr[bit / 8] = (char)(bytes.ptr[bit / 8] ^ (1 << bit % 8));
    }
    for (size_t len = 0; len < bytes.len; len++)
        assert_status(TIDE_E_DAMAGED,
                      tide_cursor_decode(&target, tide_view_bytes(bytes.ptr, len), PLENTY, NULL));
    assert_ok(tide_buffer_append_byte(&bytes, 0));
    assert_status(TIDE_E_DAMAGED,
                  tide_cursor_decode(&target, tide_buffer_view(&bytes), PLENTY, NULL));
    assert_status(TIDE_E_DAMAGED, tide_cursor_decode(&target, (tide_view){0}, PLENTY, NULL));
    assert_memory_equal(&target, &before, sizeof target);
}

/* A literal as bytes, NULs included. */
#define BODY(text) ((tide_view){.ptr = (text), .len = sizeof(text) - 1})

/* A right checksum proves nothing: contents are checked too. */
static void impossible_contents_are_refused(void **state)
{
    (void)state;
    const tide_view bad[] = {
        BODY(""),
        BODY("\x00\x05\x00"),                                     /* version 0 */
        BODY("\x01"),                                             /* no position */
        BODY("\x01\x05"),                                         /* no count */
        BODY("\x01\x85\x00\x00"),                                 /* padded varint */
        BODY("\x01\x05\x00\x00"),                                 /* a byte behind the end */
        BODY("\x01\x05\x01\x01"),                                 /* half a hole */
        BODY("\x01\x05\x01\x00\x01"),                             /* a hole of nothing */
        BODY("\x01\x05\x01\x01\x00"),                             /* a run of nothing */
        BODY("\x01\x05\x02\x01\x01\x01"),                         /* one hole too few */
        BODY("\x01\x05\xFF\xFF\xFF\xFF\x0F\x01\x01"),             /* four thousand million holes */
        BODY("\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00"), /* position 2^63 */
        BODY("\x01\x05\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x01"), /* ends above 2^63-1 */
        BODY("\x01\x05\x01\xFA\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x01"), /* the run does */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tide_cursor target;
        memset(&target, 0x5A, sizeof target);
        const tide_cursor before = target;
        assert_status(TIDE_E_DAMAGED, decode_sealed(&target, bad[i].ptr, bad[i].len));
        assert_memory_equal(&target, &before, sizeof target);
    }
    tide_cursor target;
    assert_status(TIDE_E_NEWER, decode_sealed(&target, "\x02\x05\x00", 3));
}

/* A reader with a smaller limit must say so, not drop holes. */
static void more_holes_than_allowed_are_not_decoded(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 0, PLENTY);
    (void)add(&c, 2, 2);
    (void)add(&c, 4, 4);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    encode(&c, &bytes);
    TIDE_CLEANUP(tide_cursor_done) tide_cursor again = {0};
    tide_error err;
    assert_status(TIDE_E_LIMIT, tide_cursor_decode(&again, tide_buffer_view(&bytes), 1, &err));
    assert_contains(err.text, "2 holes");
    assert_ok(tide_cursor_decode(&again, tide_buffer_view(&bytes), 2, &err));
    assert_status(TIDE_E_LIMIT, tide_cursor_add(&again, 6, 6, NULL, &err));

    TIDE_CLEANUP(tide_buffer_done) tide_buffer small;
    tide_buffer_init(&small, 8);
    assert_ok(tide_buffer_append_text(&small, "ab"));
    assert_status(TIDE_E_LIMIT, tide_cursor_encode(&c, &small, &err));
    assert_string_equal(tide_buffer_text(&small), "ab");
}

/* The same numbers are the same cursor, in whatever order they came. */
static void the_order_of_arrival_does_not_matter(void **state)
{
    (void)state;
    enum { RANGES = 60 };
    prng random;
    prng_init(&random, prng_seed_from_env(60));
    tide_interval ranges[RANGES];
    for (size_t i = 0; i < RANGES; i++) {
        ranges[i].first = 1 + (int64_t)prng_below(&random, 2000);
        ranges[i].last = ranges[i].first + (int64_t)prng_below(&random, 20);
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer reference;
    tide_buffer_init(&reference, BYTES_MAX);
    for (int round = 0; round < 200; round++) {
        for (size_t i = RANGES - 1; i > 0; i--) {
            const size_t k = prng_below(&random, i + 1);
            const tide_interval swapped = ranges[i];
            ranges[i] = ranges[k];
            ranges[k] = swapped;
        }
        TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
        tide_cursor_init(&c, 0, PLENTY);
        for (size_t i = 0; i < RANGES; i++)
            (void)add(&c, ranges[i].first, ranges[i].last);
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        encode(&c, &bytes);
        if (round == 0)
            assert_ok(tide_buffer_append_view(&reference, tide_buffer_view(&bytes)));
        assert_true(tide_view_equal(tide_buffer_view(&bytes), tide_buffer_view(&reference)));
    }
}

/* The naive model: one bool per number of a small universe that begins at base + 1. */
enum { UNIVERSE = 96 };

typedef struct model {
    int64_t base;
    bool is_settled[UNIVERSE + 1]; /* [0] stands for everything up to base */
} model;

static int64_t model_add(model *m, int64_t first, int64_t last)
{
    int64_t added = 0;
    for (int64_t n = first; n <= last; n++) {
        added += !m->is_settled[n];
        m->is_settled[n] = true;
        if (n == UNIVERSE)
            break;
    }
    return added;
}

/* Everything that can be asked, worked out from the bools. */
static size_t assert_like_model(const tide_cursor *c, const model *m)
{
    size_t count;
    const tide_interval *holes = tide_cursor_holes(c, &count);
    int64_t contiguous = 0;
    int64_t highest = 0;
    int64_t pending = 0;
    while (contiguous < UNIVERSE && m->is_settled[contiguous + 1])
        contiguous++;
    for (int64_t n = 0; n <= UNIVERSE; n++) {
        if (m->is_settled[n])
            highest = n;
        if (m->base + n > 0)
            assert_int_equal(tide_cursor_has(c, m->base + n), m->is_settled[n]);
    }
    size_t at = 0;
    for (int64_t n = 1; n < highest; n++) {
        if (m->is_settled[n])
            continue;
        const int64_t first = n;
        while (!m->is_settled[n + 1])
            n++;
        assert_true(at < count);
        assert_true(holes[at].first == m->base + first && holes[at].last == m->base + n);
        pending += n - first + 1;
        at++;
    }
    assert_int_equal(at, count);
    assert_true(tide_cursor_contiguous(c) == m->base + contiguous);
    assert_true(tide_cursor_highest(c) == m->base + highest);
    assert_true(tide_cursor_pending(c) == pending);
    return count;
}

/* Storing and loading gives the same cursor and the same bytes; the loaded one is used from then
 * on. */
static void replace_by_stored(tide_cursor *c)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer once;
    encode(c, &once);
    tide_cursor loaded;
    tide_error err;
    assert_ok_err(tide_cursor_decode(&loaded, tide_buffer_view(&once), c->hole_max, &err), &err);
    tide_cursor_done(c);
    *c = loaded;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer twice;
    encode(c, &twice);
    assert_true(tide_view_equal(tide_buffer_view(&once), tide_buffer_view(&twice)));
}

static void step_at_random(tide_cursor *c, model *m, prng *random)
{
    const int64_t first = 1 + (int64_t)prng_below(random, UNIVERSE);
    const int64_t room = UNIVERSE - first;
    const int64_t wish = prng_chance(random, 1, 8) ? (int64_t)prng_below(random, UNIVERSE)
                                                   : (int64_t)prng_below(random, 3);
    const int64_t last = first + (wish < room ? wish : room);
    if (prng_chance(random, 1, 25)) {
        const int64_t covered = tide_cursor_raise(c, m->base + first);
        assert_true(covered == model_add(m, 1, first));
        return;
    }
    model after = *m;
    const int64_t want = model_add(&after, first, last);
    int64_t added = -1;
    const tide_status status = tide_cursor_add(c, m->base + first, m->base + last, &added, NULL);
    if (status == TIDE_E_LIMIT) {
        /* Refused rightly: the model would have more holes than allowed. */
        size_t holes = 0;
        int64_t highest = UNIVERSE;
        while (!after.is_settled[highest])
            highest--;
        for (int64_t n = 1; n < highest; n++)
            holes += !after.is_settled[n] && after.is_settled[n + 1];
        assert_true(holes > c->hole_max);
        return;
    }
    assert_ok(status);
    assert_true(added == want);
    *m = after;
}

/* Thousands of random steps against the naive model, at the start of the numbers, in the middle, at
 * the end. */
static void a_random_life_agrees_with_a_naive_set(void **state)
{
    (void)state;
    static const int64_t bases[] = {0, 1000000007, INT64_MAX - UNIVERSE};
    const uint64_t seed = prng_seed_from_env(20240229);
    size_t most_holes = 0;
    for (size_t life = 0; life < 240; life++) {
        prng random;
        prng_init(&random, seed + life);
        model m = {.base = bases[life % 3]};
        m.is_settled[0] = true;
        TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
        tide_cursor_init(&c, m.base, life % 4 == 0 ? prng_below(&random, 12) : PLENTY);
        for (int step = 0; step < 60; step++) {
            step_at_random(&c, &m, &random);
            replace_by_stored(&c);
            const size_t holes = assert_like_model(&c, &m);
            assert_true(holes <= c.hole_max);
            most_holes = holes > most_holes ? holes : most_holes;
        }
    }
    assert_true(most_holes >= 12); /* the lives are not trivial */
}

static void scatter_without_memory(void *arg)
{
    (void)arg;
    TIDE_CLEANUP(tide_cursor_done) tide_cursor c;
    tide_cursor_init(&c, 0, PLENTY);
    int64_t settled = 0;
    for (int64_t n = 2; n <= 80; n += 2) {
        const int64_t highest = tide_cursor_highest(&c);
        int64_t added = 0;
        const tide_status status = tide_cursor_add(&c, n, n, &added, NULL);
        if (status != TIDE_OK) {
            assert_status(TIDE_E_NOMEM, status);
            assert_int_equal(tide_cursor_highest(&c), highest);
        }
        settled += added;
    }
    assert_int_equal(tide_cursor_highest(&c) - tide_cursor_pending(&c), settled);

    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, BYTES_MAX);
    if (tide_cursor_encode(&c, &bytes, NULL) != TIDE_OK) {
        assert_int_equal(bytes.len, 0);
        return;
    }
    TIDE_CLEANUP(tide_cursor_done) tide_cursor again = {0};
    const tide_status status = tide_cursor_decode(&again, tide_buffer_view(&bytes), PLENTY, NULL);
    assert_status(again.hole_count == c.hole_count && again.highest == c.highest ? TIDE_OK
                                                                                 : TIDE_E_NOMEM,
                  status);
}

/* Every allocation fails once: nothing is half settled. */
static void without_memory_nothing_is_half_settled(void **state)
{
    (void)state;
    ALLOC_FAULT_SWEEP(scatter_without_memory, NULL, 1000);
}

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_beyond_a_hole_waits_for_it),
        cmocka_unit_test(what_was_seen_before_adds_nothing),
        cmocka_unit_test(holes_shrink_split_and_vanish),
        cmocka_unit_test(ranges_that_are_none_are_refused),
        cmocka_unit_test(too_many_holes_stop_the_cursor),
        cmocka_unit_test(without_room_for_holes_only_order_is_accepted),
        cmocka_unit_test(a_wide_gap_costs_constant_memory),
        cmocka_unit_test(the_highest_number_of_all_works),
        cmocka_unit_test(raising_covers_holes_and_counts_them),
        cmocka_unit_test(holes_can_be_walked),
        cmocka_unit_test(the_encoding_is_as_drawn),
        cmocka_unit_test(damaged_bytes_are_refused),
        cmocka_unit_test(impossible_contents_are_refused),
        cmocka_unit_test(more_holes_than_allowed_are_not_decoded),
        cmocka_unit_test(the_order_of_arrival_does_not_matter),
        cmocka_unit_test(a_random_life_agrees_with_a_naive_set),
        cmocka_unit_test_teardown(without_memory_nothing_is_half_settled, disarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
