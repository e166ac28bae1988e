#include <tidemark/error.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "support/check.h"

/* A failing path is one line: fill and return. */
static void failing_fills_the_words_and_returns_the_status(void **state)
{
    (void)state;
    tide_error err;
    assert_status(TIDE_E_INVALID, tide_fail(&err, TIDE_E_INVALID, "count %d", 7));
    assert_int_equal(err.status, TIDE_E_INVALID);
    assert_string_equal(err.text, "count 7");
}

/* Who does not care about words passes NULL. */
static void words_are_dropped_without_an_error_to_hold_them(void **state)
{
    (void)state;
    assert_status(TIDE_E_IO, tide_fail(NULL, TIDE_E_IO, "lost"));
    assert_status(TIDE_E_IO, tide_fail_context(NULL, TIDE_E_IO, "lost"));
}

/* The text may be built from itself. */
static void an_argument_may_be_the_old_text(void **state)
{
    (void)state;
    tide_error err;
    (void)tide_fail(&err, TIDE_E_IO, "disk");
    (void)tide_fail(&err, TIDE_E_IO, "again: %s", err.text);
    assert_string_equal(err.text, "again: disk");
}

/* 511 bytes fit; one more is cut, and the cut is shown. */
static void a_long_text_ends_in_three_dots(void **state)
{
    (void)state;
    char text[TIDE_ERROR_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    text[TIDE_ERROR_TEXT_MAX - 1] = '\0';
    tide_error err;
    (void)tide_fail(&err, TIDE_E_IO, "%s", text);
    assert_string_equal(err.text, text);

    text[TIDE_ERROR_TEXT_MAX - 1] = 'x';
    text[TIDE_ERROR_TEXT_MAX] = '\0';
    (void)tide_fail(&err, TIDE_E_IO, "%s", text);
    assert_int_equal(strlen(err.text), TIDE_ERROR_TEXT_MAX - 1);
    assert_string_equal(err.text + TIDE_ERROR_TEXT_MAX - 5, "x...");
}

static bool is_whole_utf8(const char *text)
{
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        const int more = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : byte >= 0xC0 ? 1 : 0;
        for (int i = 0; i < more; i++) {
            if (((unsigned char)*++text & 0xC0) != 0x80)
                return false;
        }
    }
    return true;
}

/* A cut must not leave half a character, wherever it falls. */
static void a_cut_never_splits_a_character(void **state)
{
    (void)state;
    for (int shift = 0; shift < 8; shift++) {
        char text[2 * TIDE_ERROR_TEXT_MAX] = "";
        const char *character = shift % 2 ? "\xF0\x9F\x8C\x8A" : "\xE2\x82\xAC";
        memset(text, 'x', (size_t)shift);
        for (size_t at = (size_t)shift; at < TIDE_ERROR_TEXT_MAX + 8; at += strlen(character))
            memcpy(text + at, character, strlen(character));
        tide_error err;
        (void)tide_fail(&err, TIDE_E_IO, "%s", text);
        assert_true(is_whole_utf8(err.text));
        assert_true(strlen(err.text) >= TIDE_ERROR_TEXT_MAX - 5);
        assert_string_equal(err.text + strlen(err.text) - 3, "...");
    }
}

/* Bytes that are no text do not eat the message. */
static void a_cut_in_continuation_bytes_loses_little(void **state)
{
    (void)state;
    char text[TIDE_ERROR_TEXT_MAX + 9];
    memset(text, '\x80', sizeof text);
    text[sizeof text - 1] = '\0';
    tide_error err;
    (void)tide_fail(&err, TIDE_E_IO, "%s", text);
    assert_int_equal(strlen(err.text), TIDE_ERROR_TEXT_MAX - 4);
}

/* The operator reads from the outside in. */
static void context_stands_in_front(void **state)
{
    (void)state;
    tide_error err;
    const tide_status status = tide_fail(&err, TIDE_E_DENIED, "open: no");
    assert_status(TIDE_E_DENIED, tide_fail_context(&err, status, "store '%s'", "a.db"));
    assert_int_equal(err.status, TIDE_E_DENIED);
    assert_string_equal(err.text, "store 'a.db': open: no");
}

/* A text that ends with what to do keeps that through its contexts, until another failure. */
static void advice_in_the_text_replaces_that_of_the_table(void **state)
{
    (void)state;
    tide_error err;
    assert_status(TIDE_E_BUSY, tide_fail_advised(&err, TIDE_E_BUSY, "in use; stop %s", "it"));
    assert_true(err.is_advised);
    (void)tide_fail_context(&err, TIDE_E_BUSY, "start");
    assert_true(err.is_advised);
    assert_string_equal(err.text, "start: in use; stop it");
    (void)tide_fail(&err, TIDE_E_BUSY, "in use");
    assert_false(err.is_advised);
    assert_status(TIDE_E_BUSY, tide_fail_advised(NULL, TIDE_E_BUSY, "in use; stop it"));
}

static void no_memory_has_one_text(void **state)
{
    (void)state;
    tide_error err = {.status = TIDE_OK};
    assert_status(TIDE_E_NOMEM, tide_no_memory(&err));
    assert_status(TIDE_E_NOMEM, err.status);
    assert_string_equal(err.text, "no memory");
    assert_status(TIDE_E_NOMEM, tide_no_memory(NULL));
}

/* A callee with a bare status left no words. */
static void context_without_words_uses_those_of_the_table(void **state)
{
    (void)state;
    tide_error err = {.status = TIDE_OK};
    (void)tide_fail_context(&err, TIDE_E_NOMEM, "reading");
    assert_string_equal(err.text, "reading: out of memory");
}

/* Context on a full text is cut like any other. */
static void context_that_does_not_fit_is_cut(void **state)
{
    (void)state;
    char text[TIDE_ERROR_TEXT_MAX];
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    tide_error err;
    (void)tide_fail(&err, TIDE_E_IO, "%s", text);
    (void)tide_fail_context(&err, TIDE_E_IO, "outer");
    assert_memory_equal(err.text, "outer: y", 8);
    assert_string_equal(err.text + TIDE_ERROR_TEXT_MAX - 5, "y...");
}

/* Callers look at errno after they reported. */
static void errno_survives_a_report(void **state)
{
    (void)state;
    tide_error err;
    errno = ENOSPC;
    (void)tide_fail(&err, TIDE_E_FULL, "%s", strerror(ENOSPC));
    (void)tide_fail_context(&err, TIDE_E_FULL, "x");
    assert_int_equal(errno, ENOSPC);
}

static tide_status pass_up(tide_status inner, bool *went_on)
{
    TIDE_TRY(inner);
    *went_on = true;
    return TIDE_OK;
}

/* Below zero returns, "nothing there" goes on. */
static void try_passes_failures_up_and_nothing_else(void **state)
{
    (void)state;
    bool went_on = false;
    assert_status(TIDE_E_IO, pass_up(TIDE_E_IO, &went_on));
    assert_false(went_on);
    assert_ok(pass_up(TIDE_NONE, &went_on));
    assert_true(went_on);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failing_fills_the_words_and_returns_the_status),
        cmocka_unit_test(words_are_dropped_without_an_error_to_hold_them),
        cmocka_unit_test(an_argument_may_be_the_old_text),
        cmocka_unit_test(a_long_text_ends_in_three_dots),
        cmocka_unit_test(a_cut_never_splits_a_character),
        cmocka_unit_test(a_cut_in_continuation_bytes_loses_little),
        cmocka_unit_test(context_stands_in_front),
        cmocka_unit_test(advice_in_the_text_replaces_that_of_the_table),
        cmocka_unit_test(no_memory_has_one_text),
        cmocka_unit_test(context_without_words_uses_those_of_the_table),
        cmocka_unit_test(context_that_does_not_fit_is_cut),
        cmocka_unit_test(errno_survives_a_report),
        cmocka_unit_test(try_passes_failures_up_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
