#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"

enum { UNIT = _Alignof(max_align_t) };

/* Any type may be put anywhere. */
static void every_allocation_is_aligned_and_its_own(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_arena_done) tide_arena a;
    tide_arena_init(&a, 1 << 20);
    unsigned char *seen[600];
    for (size_t i = 0; i < 600; i++) {
        const size_t len = i % 97;
        seen[i] = tide_arena_alloc(&a, len);
        assert_non_null(seen[i]);
        assert_int_equal((uintptr_t)seen[i] % UNIT, 0);
        memset(seen[i], (int)i, len);
    }
    for (size_t i = 0; i < 600; i++) {
        for (size_t k = 0; k < i % 97; k++)
            assert_int_equal(seen[i][k], (unsigned char)i);
    }
}

/* The sum is bounded, rounding included, and a refusal changes nothing. */
static void an_arena_never_hands_out_more_than_its_maximum(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_arena_done) tide_arena a;
    tide_arena_init(&a, 10 * (size_t)UNIT);
    for (int i = 0; i < 9; i++)
        assert_non_null(tide_arena_alloc(&a, 1));
    assert_null(tide_arena_alloc(&a, UNIT + 1));
    assert_non_null(tide_arena_alloc(&a, UNIT));
    assert_null(tide_arena_alloc(&a, 0));
    assert_int_equal(a.used_len, a.max);
}

/* Lengths near the end of the address space must not wrap around. */
static void absurd_lengths_are_refused(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_arena_done) tide_arena a;
    tide_arena_init(&a, SIZE_MAX);
    assert_null(tide_arena_alloc(&a, SIZE_MAX));
    assert_null(tide_arena_alloc(&a, SIZE_MAX - UNIT));
    assert_null(tide_arena_text(&a, (tide_view){.ptr = "", .len = SIZE_MAX}));
    assert_non_null(tide_arena_alloc(&a, 100));
}

/* One request may be larger than any chunk. */
static void a_large_request_gets_a_chunk_of_its_own(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_arena_done) tide_arena a;
    tide_arena_init(&a, 4 << 20);
    char *small = tide_arena_alloc(&a, 10);
    char *large = tide_arena_alloc(&a, 1 << 20);
    assert_non_null(small);
    assert_non_null(large);
    memset(large, 1, 1 << 20);
    assert_non_null(tide_arena_alloc(&a, 10));
}

/* A loop over messages returns to the same memory. */
static void a_reset_arena_starts_over_in_the_chunk_it_kept(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_arena_done) tide_arena a;
    tide_arena_init(&a, 1 << 20);
    tide_arena_reset(&a);
    void *first = tide_arena_alloc(&a, 100);
    tide_arena_reset(&a);
    assert_int_equal(a.used_len, 0);
    assert_ptr_equal(tide_arena_alloc(&a, 100), first);
    for (int i = 0; i < 200; i++)
        assert_non_null(tide_arena_alloc(&a, 1000));
    tide_arena_reset(&a);
    assert_non_null(tide_arena_alloc(&a, 1 << 19));
    tide_arena_reset(&a);
    assert_non_null(tide_arena_alloc(&a, (1 << 20) - UNIT));
}

/* Copies are equal and apart; text ends with a NUL. */
static void copies_belong_to_the_arena(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_arena_done) tide_arena a;
    tide_arena_init(&a, 1000);
    char source[] = "hello world";
    char *copy = tide_arena_copy(&a, source, sizeof source);
    char *text = tide_arena_text(&a, tide_view_bytes(source, 5));
    source[0] = 'J';
    assert_string_equal(copy, "hello world");
    assert_string_equal(text, "hello");
    assert_string_equal(tide_arena_text(&a, (tide_view){0}), "");
    assert_non_null(tide_arena_copy(&a, NULL, 0));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_is_aligned_and_its_own),
        cmocka_unit_test(an_arena_never_hands_out_more_than_its_maximum),
        cmocka_unit_test(absurd_lengths_are_refused),
        cmocka_unit_test(a_large_request_gets_a_chunk_of_its_own),
        cmocka_unit_test(a_reset_arena_starts_over_in_the_chunk_it_kept),
        cmocka_unit_test(copies_belong_to_the_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
