/* Stored values and their digests: what was changed is not served, and verification names it. */
#include "core/idempotency_calls.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/idempotency.h>

#include "core/value_digest.h"

enum { VALUE_LEN = 512, FLIPS = 2000 };

static tide_status check(int64_t digest, const char *kind, const char *name, tide_view value)
{
    tide_error err = {0};
    const tide_view row = tide_view_of(name);
    return tide_value_digest_check(digest, tide_value_digest(kind, row, value), kind, row, &err);
}

static void no_flipped_bit_matches(void **state)
{
    (void)state;
    char value[VALUE_LEN];
    for (int i = 0; i < VALUE_LEN; i++)
        value[i] = (char)('a' + i % 26);
    const tide_view view = tide_view_bytes(value, VALUE_LEN);
    const int64_t digest = tide_value_digest("response", tide_view_of("job"), view);
    assert_status(TIDE_OK, check(digest, "response", "job", view));
    for (int bit = 0; bit < FLIPS; bit++) {
        value[bit / 8] ^= (char)(1 << bit % 8);
        assert_status(TIDE_E_DAMAGED, check(digest, "response", "job", view));
        value[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (int bit = 0; bit < 64; bit++)
        assert_status(TIDE_E_DAMAGED, check((int64_t)((uint64_t)digest ^ UINT64_C(1) << bit),
                                            "response", "job", view));
    /* of another row, of another kind, cut elsewhere, none at all */
    assert_status(TIDE_E_DAMAGED, check(digest, "response", "jo", view));
    assert_status(TIDE_E_DAMAGED, check(digest, "output", "job", view));
    assert_status(TIDE_E_DAMAGED,
                  check(digest, "response", "job", tide_view_bytes(value, VALUE_LEN - 1)));
    assert_status(TIDE_E_DAMAGED, check(digest, "response", "job", (tide_view){.ptr = NULL}));
}

typedef struct heard {
    int count;
    char text[TIDE_ERROR_TEXT_MAX + 1];
} heard;

static void hear(void *arg, const char *finding)
{
    heard *h = arg;
    h->count++;
    (void)snprintf(h->text, sizeof h->text, "%s", finding);
}

/* As a disk would: the revision moves, so no trigger refuses it. */
static void a_damaged_response_is_not_served(void **state)
{
    store_test *t = *state;
    tide_values_checked sum = {0};
    heard found = {0};
    assert_ok_err(complete(t, begin_as(t, TIDE_IDEMPOTENCY_NEW), "{\"n\":1}"), &t->err);
    assert_replay(t, "{\"n\":1}", false);
    sum = (tide_values_checked){0};
    assert_ok_err(tide_idempotency_verify(t->store, hear, &found, &sum, &t->err), &t->err);
    assert_true(sum.checked == 1 && sum.unchecked == 0 && sum.damaged == 0);
    assert_ok_err(
        plain_sql(
            t, t->store,
            "UPDATE idempotency_keys SET response_data = '{\"n\":3}', revision = revision + 1"),
        &t->err);
    tide_idempotency_state got = {.token = 0};
    const tide_idempotency_request request = request_of("job", HASH_A);
    assert_status(TIDE_E_DAMAGED, tide_idempotency_begin(t->store, &request, &got, &t->err));
    assert_contains(t->err.text, "job");
    assert_contains(t->err.text, "store verify");
    sum = (tide_values_checked){0};
    assert_status(TIDE_E_DAMAGED, tide_idempotency_verify(t->store, hear, &found, &sum, &t->err));
    assert_true(sum.checked == 1 && sum.damaged == 1 && found.count == 1);
    assert_contains(found.text, "job");
    assert_ok_err(
        plain_sql(t, t->store,
                  "UPDATE idempotency_keys SET value_digest = NULL, revision = revision + 1"),
        &t->err);
    sum = (tide_values_checked){0};
    assert_ok_err(tide_idempotency_verify(t->store, hear, &found, &sum, &t->err), &t->err);
    assert_true(sum.checked == 0 && sum.unchecked == 1);
    assert_replay(t, "{\"n\":3}", false);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_flipped_bit_matches),
        STORE_CASE(a_damaged_response_is_not_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
