/* Bearer tokens: made once, known by their digest, gone when they should be; on every engine. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <string.h>

#include <tidemark/token.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "store/engine.h"
#include "tidemark_sql.h"

#define DAY_US (INT64_C(86400) * SECOND_US)

static void make(store_test *t, const char *name, tide_token_role role,
                 char text[TIDE_TOKEN_TEXT_SIZE])
{
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = name, .role = role};
    assert_ok_err(tide_token_create(t->store, &wanted, text, NULL, &t->err), &t->err);
}

static tide_status check(store_test *t, const char *text, tide_token *out)
{
    return tide_token_check(t->store, tide_view_of(text), out, &t->err);
}

static void a_token_is_text_of_256_bits_and_known_again(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    char other[TIDE_TOKEN_TEXT_SIZE];
    tide_token made = {.name = ""};
    tide_token found = {.name = ""};
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = "collector-1", .agent = "agent-7",
                                   .role = TIDE_TOKEN_WRITE, .lifetime_us = 30 * DAY_US};
    assert_ok_err(tide_token_create(t->store, &wanted, text, &made, &t->err), &t->err);
    assert_int_equal(48, strlen(text));
    assert_int_equal(0, strncmp(text, "tide_", 5));
    assert_int_equal(43, strspn(text + 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789-_"));
    assert_ok_err(check(t, text, &found), &t->err);
    assert_memory_equal(&made, &found, sizeof made);
    assert_string_equal("collector-1", found.name);
    assert_string_equal("agent-7", found.agent);
    assert_int_equal(TIDE_TOKEN_WRITE, found.role);
    assert_true(found.expires_at_us - found.created_at_us == 30 * DAY_US);
    assert_true(found.last_used_at_us == 0 && found.revoked_at_us == 0);
    make(t, "another", TIDE_TOKEN_READ, other);
    assert_string_not_equal(text, other);
}

static void what_is_nearly_a_token_is_none(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_token found;
    make(t, "a", TIDE_TOKEN_ADMIN, text);
    for (int i = 0; i < TIDE_TOKEN_TEXT_SIZE - 1; i++) {
        text[i] ^= 1;
        assert_status(TIDE_E_UNAUTHENTICATED, check(t, text, &found));
        text[i] ^= 1;
    }
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, "", &found));
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, text + 5, &found));
    assert_status(TIDE_E_UNAUTHENTICATED,
                  tide_token_check(t->store, tide_view_bytes(text, 47), &found, &t->err));
    assert_ok(check(t, text, &found));
}

static tide_status read_digest(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_TOKEN_LIST, err));
    tide_query_bind_text(query, "after_name", "");
    tide_query_bind_blob(query, "after_digest", tide_view_bytes("", 0));
    tide_query_bind_bool(query, "all", true);
    tide_query_bind_i64(query, "limit", 1);
    TIDE_TRY(tide_query_one(query, err));
    const tide_view digest = tide_query_col_blob(query);
    if (digest.len != TIDE_SHA256_LEN)
        return tide_fail(err, TIDE_E_DAMAGED, "%zu bytes", digest.len);
    memcpy(arg, digest.ptr, digest.len);
    return TIDE_OK;
}

/* Whoever reads the table learns nothing to come in with. */
static void only_the_digest_is_stored(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    uint8_t stored[TIDE_SHA256_LEN];
    uint8_t expected[TIDE_SHA256_LEN];
    tide_token found;
    make(t, "a", TIDE_TOKEN_READ, text);
    assert_ok_err(tide_store_read(t->store, read_digest, stored, &t->err), &t->err);
    assert_ok(tide_sha256_of(tide_view_of(text), expected, &t->err));
    assert_memory_equal(expected, stored, sizeof stored);
    assert_status(
        TIDE_E_UNAUTHENTICATED,
        tide_token_check(t->store, tide_view_bytes(stored, sizeof stored), &found, &t->err));
}

static void a_name_is_taken_until_its_token_is_revoked(void **state)
{
    store_test *t = *state;
    char first[TIDE_TOKEN_TEXT_SIZE];
    char second[TIDE_TOKEN_TEXT_SIZE] = "untouched";
    tide_token found;
    make(t, "a", TIDE_TOKEN_READ, first);
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = "a", .role = TIDE_TOKEN_ADMIN};
    assert_status(TIDE_E_EXISTS, tide_token_create(t->store, &wanted, second, NULL, &t->err));
    assert_string_equal("untouched", second);
    assert_ok_err(tide_token_revoke(t->store, "a", &t->err), &t->err);
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, first, &found));
    assert_contains(t->err.text, "revoked");
    assert_status(TIDE_E_NOT_FOUND, tide_token_revoke(t->store, "a", &t->err));
    make(t, "a", TIDE_TOKEN_WRITE, second);
    assert_ok(check(t, second, &found));
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, first, &found));
}

static void a_token_ends_by_itself(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_token found;
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = "short", .role = TIDE_TOKEN_READ,
                                   .lifetime_us = 10 * SECOND_US};
    assert_ok(tide_token_create(t->store, &wanted, text, NULL, &t->err));
    virtual_env_advance(&t->clock, 10 * SECOND_US - 1);
    assert_ok_err(check(t, text, &found), &t->err);
    virtual_env_advance(&t->clock, 1);
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, text, &found));
    assert_contains(t->err.text, "expired");
}

static void the_last_use_is_written_once_a_minute(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_token found;
    make(t, "a", TIDE_TOKEN_READ, text);
    const int64_t start_us = t->clock.wall_us;
    assert_ok(tide_token_use(t->store, "a", &t->err));
    virtual_env_advance(&t->clock, TIDE_TOKEN_USE_EVERY_US);
    assert_ok(tide_token_use(t->store, "a", &t->err));
    assert_ok(check(t, text, &found));
    assert_true(found.last_used_at_us == start_us); /* not yet more than a minute */
    virtual_env_advance(&t->clock, 1);
    assert_ok(tide_token_use(t->store, "a", &t->err));
    assert_ok(check(t, text, &found));
    assert_true(found.last_used_at_us == start_us + TIDE_TOKEN_USE_EVERY_US + 1);
    assert_ok(tide_token_use(t->store, "nobody", &t->err));
}

static void bad_words_are_refused(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    char huge[TIDE_TOKEN_NAME_MAX + 2];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    const char *const names[] = {NULL, "", "two words", "tab\t", "\xc3\xa4", huge};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const tide_token_new by_name = {TIDE_TOKEN_NEW_INIT, .name = names[i],
                                        .role = TIDE_TOKEN_READ};
        assert_status(TIDE_E_INVALID, tide_token_create(t->store, &by_name, text, NULL, &t->err));
        if (names[i]) {
            const tide_token_new by_agent = {TIDE_TOKEN_NEW_INIT, .name = "a", .agent = names[i],
                                             .role = TIDE_TOKEN_READ};
            assert_status(TIDE_E_INVALID,
                          tide_token_create(t->store, &by_agent, text, NULL, &t->err));
        }
    }
    tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = huge + 1, .role = (tide_token_role)0};
    assert_status(TIDE_E_INVALID, tide_token_create(t->store, &wanted, text, NULL, &t->err));
    wanted.role = TIDE_TOKEN_READ;
    wanted.lifetime_us = -1;
    assert_status(TIDE_E_INVALID, tide_token_create(t->store, &wanted, text, NULL, &t->err));
    wanted.lifetime_us = TIDE_TOKEN_LIFETIME_MAX_US + 1;
    assert_status(TIDE_E_INVALID, tide_token_create(t->store, &wanted, text, NULL, &t->err));
    wanted.lifetime_us = TIDE_TOKEN_LIFETIME_MAX_US;
    assert_ok_err(tide_token_create(t->store, &wanted, text, NULL, &t->err), &t->err);
    tide_token_role role = TIDE_TOKEN_READ;
    assert_ok(tide_token_role_find(&role, "admin", &t->err));
    assert_int_equal(TIDE_TOKEN_ADMIN, role);
    assert_status(TIDE_E_INVALID, tide_token_role_find(&role, "Admin", &t->err));
}

typedef struct listing {
    int count;
    int revoked_count;
    char last[TIDE_TOKEN_NAME_MAX + 1];
} listing;

static tide_status list_one(void *arg, const tide_token *token, tide_error *err)
{
    listing *list = arg;
    (void)err;
    assert_true(strcmp(list->last, token->name) <= 0);
    (void)snprintf(list->last, sizeof list->last, "%s", token->name);
    list->count++;
    list->revoked_count += token->revoked_at_us != 0;
    return TIDE_OK;
}

/* More than a page, and several rows of one name. */
static void all_tokens_are_listed_by_name(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    char name[32];
    for (int i = 0; i < 130; i++) {
        (void)snprintf(name, sizeof name, "t-%03d", i);
        make(t, name, TIDE_TOKEN_READ, text);
    }
    for (int i = 0; i < 120; i++) {
        assert_ok(tide_token_revoke(t->store, "t-050", &t->err));
        make(t, "t-050", TIDE_TOKEN_READ, text);
    }
    listing list = {.count = 0};
    assert_ok_err(tide_token_list(t->store, false, list_one, &list, &t->err), &t->err);
    assert_int_equal(130, list.count);
    assert_int_equal(0, list.revoked_count);
    list = (listing){.count = 0};
    assert_ok_err(tide_token_list(t->store, true, list_one, &list, &t->err), &t->err);
    assert_int_equal(250, list.count);
    assert_int_equal(120, list.revoked_count);
}

static tide_status run_script(tide_tx *tx, void *arg, tide_error *err)
{
    return tx->store->ops->script(tx, arg, err);
}

/* Plain SQL can revoke (that only takes away), but give nothing back and raise nobody. */
static void plain_sql_cannot_raise_or_revive_a_token(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_token found;
    make(t, "a", TIDE_TOKEN_READ, text);
    static const char *const refused[] = {
        "UPDATE access_tokens SET role = 'admin'",
        "UPDATE access_tokens SET role = 'owner'",
        "UPDATE access_tokens SET name = 'b'",
        "UPDATE access_tokens SET agent = 'b'",
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_true(tide_store_write(t->store, run_script, (void *)refused[i], &t->err) < TIDE_OK);
    assert_ok_err(
        tide_store_write(t->store, run_script,
                         "UPDATE access_tokens SET revoked_at = '2025-01-01 00:00:00.000000'",
                         &t->err),
        &t->err);
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, text, &found));
    assert_true(tide_store_write(t->store, run_script, "UPDATE access_tokens SET revoked_at = NULL",
                                 &t->err) < TIDE_OK);
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, text, &found));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_token_is_text_of_256_bits_and_known_again),
        STORE_CASE(what_is_nearly_a_token_is_none),
        STORE_CASE(only_the_digest_is_stored),
        STORE_CASE(a_name_is_taken_until_its_token_is_revoked),
        STORE_CASE(a_token_ends_by_itself),
        STORE_CASE(the_last_use_is_written_once_a_minute),
        STORE_CASE(bad_words_are_refused),
        STORE_CASE(all_tokens_are_listed_by_name),
        STORE_CASE(plain_sql_cannot_raise_or_revive_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
