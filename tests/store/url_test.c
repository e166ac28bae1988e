#include "store/url.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static void a_bare_path_and_the_sqlite_scheme_name_a_file(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *path;
    } cases[] = {
        {"tidemark.db", "tidemark.db"},
        {"./a:b.db", "./a:b.db"},
        {"/var/lib/x.db", "/var/lib/x.db"},
        {"sqlite:x.db", "x.db"},
        {"sqlite:/x.db", "/x.db"},
        {"sqlite:///x.db", "///x.db"},
        {"sqlite:odd:name.db", "odd:name.db"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tide_store_url url;
        assert_ok(tide_store_url_parse(&url, cases[i].text, NULL));
        assert_int_equal(TIDE_ENGINE_SQLITE, url.engine);
        assert_string_equal(cases[i].path, url.target);
    }
}

static void both_spellings_name_postgresql(void **state)
{
    (void)state;
    tide_store_url url;
    assert_ok(tide_store_url_parse(&url, "postgres://h/db", NULL));
    assert_int_equal(TIDE_ENGINE_POSTGRES, url.engine);
    assert_ok(tide_store_url_parse(&url, "postgresql:///db?host=/tmp", NULL));
    assert_int_equal(TIDE_ENGINE_POSTGRES, url.engine);
}

/* A mistyped engine must not become a file name. */
static void anything_else_is_refused_with_advice(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "mysql://h/db", "postgres:db",
                                      "sqlite:", "sqlite://host/x.db", "http://x",
                                      /* libpq would tell a part of the password as a host */
                                      "postgres://u:se@cret@h/db"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tide_store_url url;
        tide_error err;
        assert_status(TIDE_E_INVALID, tide_store_url_parse(&url, bad[i], &err));
        assert_true(strlen(err.text) > 20);
        assert_null(strstr(err.text, "cret"));
    }
    tide_store_url url;
    assert_status(TIDE_E_INVALID, tide_store_url_parse(&url, NULL, NULL));
}

static void a_password_is_never_shown(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {
        {"postgres://u:secret@h/db", "postgres://u:*@h/db"},
        {"postgres://u:se@cret@h/db", "postgres://u:*@h/db"},
        {"postgres://u:@h/db", "postgres://u:*@h/db"},
        {"postgres://u@h/db", "postgres://u@h/db"},
        {"postgres://h/db?password=x&sslmode=require",
         "postgres://h/db?password=*&sslmode=require"},
        {"postgres://h/db?sslmode=require&password=x",
         "postgres://h/db?sslmode=require&password=*"},
        {"/tmp/u:p@x.db", "/tmp/u:p@x.db"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *shown = tide_store_url_redact(cases[i].text);
        assert_string_equal(cases[i].shown, shown);
        free(shown);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bare_path_and_the_sqlite_scheme_name_a_file),
        cmocka_unit_test(both_spellings_name_postgresql),
        cmocka_unit_test(anything_else_is_refused_with_advice),
        cmocka_unit_test(a_password_is_never_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
