/* Tokens of a store behind the server's hook, on every engine. */
#include "support/store_fixture.h"

#include <libpq-fe.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/token.h>

#include "base/cleanup.h"
#include "services/access/access.h"
#include "services/access/token_lookup.h"
#include "support/clock/fair_clock.h"

static tide_status check(tide_access *access, const char *token, const char *peer, tide_caller *out,
                         tide_error *err)
{
    const tide_credentials given = {
        .token = token, .peer = peer, .owner = {.is_known = true, .uid = geteuid()}};
    return tide_auth_check(tide_access_auth(access), &given, out, err);
}

static void tokens_of_the_store_open_the_door(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_caller peer;
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = "ingest", .role = TIDE_TOKEN_WRITE};
    const tide_access_options options = {.env = &t->clock.env, .is_required = true};
    TIDE_CLEANUP(tide_access_closep) tide_access *access = NULL;
    assert_ok_err(tide_access_open(&access, t->store, &options, &t->err), &t->err);
    /* made after the daemon has started, known at once */
    assert_ok(tide_token_create(t->store, &wanted, text, NULL, &t->err));
    assert_ok_err(check(access, text, "10.0.0.1:1", &peer, &t->err), &t->err);
    assert_string_equal("ingest", peer.name);
    assert_int_equal(TIDE_ROLE_WRITE, peer.role);
    assert_status(TIDE_E_UNAUTHENTICATED, check(access, NULL, "127.0.0.1:1", &peer, &t->err));
    /* revoked: gone when the cache has forgotten, or at once on SIGHUP */
    assert_ok(tide_token_revoke(t->store, "ingest", &t->err));
    assert_ok(tide_access_reload(access, &t->err));
    assert_status(TIDE_E_UNAUTHENTICATED, check(access, text, "10.0.0.1:1", &peer, &t->err));
}

static void a_token_may_send_and_not_read(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_caller caller;
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = "sdk", .role = TIDE_TOKEN_INGEST};
    const tide_access_options options = {.env = &t->clock.env, .is_required = true};
    TIDE_CLEANUP(tide_access_closep) tide_access *access = NULL;
    assert_ok_err(tide_access_open(&access, t->store, &options, &t->err), &t->err);
    assert_ok_err(tide_token_create(t->store, &wanted, text, NULL, &t->err), &t->err);
    assert_ok_err(check(access, text, "10.0.0.1:1", &caller, &t->err), &t->err);
    assert_int_equal(TIDE_ROLE_INGEST, caller.role);
    assert_true(tide_role_includes(caller.role, TIDE_ROLE_INGEST));
    assert_false(tide_role_includes(caller.role, TIDE_ROLE_READ));
}

static void a_token_of_an_agent_counts_at_that_agent_only(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_caller caller;
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = "a", .agent = "web-1",
                                   .role = TIDE_TOKEN_WRITE};
    assert_ok_err(tide_token_create(t->store, &wanted, text, NULL, &t->err), &t->err);
    static const struct {
        const char *daemon;
        const char *certificate;
        bool is_good;
    } rows[] = {{"web-1", NULL, true},
                {"web-2", NULL, false},
                {NULL, NULL, false},
                {NULL, "web-1", true},
                {"web-1", "web-2", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const tide_access_options options = {.env = &t->clock.env, .agent = rows[i].daemon};
        const tide_credentials given = {
            .token = text, .peer = "10.0.0.1:1", .certificate = rows[i].certificate};
        TIDE_CLEANUP(tide_access_closep) tide_access *access = NULL;
        assert_ok_err(tide_access_open(&access, t->store, &options, &t->err), &t->err);
        const tide_status status =
            tide_auth_check(tide_access_auth(access), &given, &caller, &t->err);
        assert_int_equal(rows[i].is_good ? TIDE_OK : TIDE_E_UNAUTHENTICATED, status);
    }
    assert_non_null(strstr(t->err.text, "of agent 'web-1'"));
}

static void without_configuration_this_machine_may_do_everything(void **state)
{
    store_test *t = *state;
    tide_caller peer;
    const tide_access_options options = {.env = &t->clock.env};
    TIDE_CLEANUP(tide_access_closep) tide_access *access = NULL;
    assert_ok(tide_access_open(&access, t->store, &options, &t->err));
    assert_ok(check(access, NULL, "127.0.0.1:1", &peer, &t->err));
    assert_int_equal(TIDE_ROLE_ADMIN, peer.role);
    assert_status(TIDE_E_UNAUTHENTICATED, check(access, NULL, "10.0.0.1:1", &peer, &t->err));
    assert_status(TIDE_E_UNAUTHENTICATED,
                  check(access, "tide_nobody", "127.0.0.1:1", &peer, &t->err));
}

static void uses_are_written_down_at_the_latest_on_close(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_caller peer;
    tide_token found;
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = "ingest", .role = TIDE_TOKEN_WRITE};
    const tide_access_options options = {.env = &t->clock.env};
    tide_access *access = NULL;
    assert_ok(tide_access_open(&access, t->store, &options, &t->err));
    assert_ok(tide_token_create(t->store, &wanted, text, NULL, &t->err));
    for (int i = 0; i < 10; i++)
        assert_ok(check(access, text, "10.0.0.1:1", &peer, &t->err));
    tide_access_close(access);
    assert_ok(tide_token_check(t->store, tide_view_of(text), &found, &t->err));
    assert_true(found.last_used_at_us == t->clock.wall_us);
}

static PGconn *lock_tokens(const store_test *t)
{
    PGconn *other = PQconnectdb(t->url);
    PGresult *result = PQexec(other, "BEGIN; LOCK TABLE access_tokens");
    assert_int_equal(PGRES_COMMAND_OK, PQresultStatus(result));
    PQclear(result);
    return other;
}

/* The network thread that authorises a call serves many connections. */
static void a_store_that_does_not_answer_holds_callers_up_for_a_second_in_all(void **state)
{
    store_test *t = *state;
    char text[TIDE_TOKEN_TEXT_SIZE];
    tide_caller peer;
    const tide_token_new wanted = {TIDE_TOKEN_NEW_INIT, .name = "ingest", .role = TIDE_TOKEN_WRITE};
    const tide_access_options options = {.env = &t->clock.env};
    TIDE_CLEANUP(tide_access_closep) tide_access *access = NULL;
    assert_ok(tide_access_open(&access, t->store, &options, &t->err));
    assert_ok(tide_token_create(t->store, &wanted, text, NULL, &t->err));
    PGconn *other = lock_tokens(t);
    assert_status(TIDE_E_UNAVAILABLE, check(access, text, "10.0.0.1:1", &peer, &t->err));
    assert_non_null(strstr(t->err.text, "cannot check the token"));
    const int64_t late_ms = fair_clock_ms();
    for (int i = 0; i < 2 * TIDE_TOKEN_LOOKUPS; i++)
        assert_status(TIDE_E_UNAVAILABLE, check(access, text, "10.0.0.1:1", &peer, &t->err));
    assert_true(fair_clock_ms() - late_ms < TIDE_TOKEN_LOOKUP_US / 1000);
    PQfinish(other);
    tide_status status = TIDE_E_UNAVAILABLE;
    for (const int64_t until_ms = fair_clock_ms() + 30000;
         status == TIDE_E_UNAVAILABLE && fair_clock_ms() < until_ms;)
        status = check(access, text, "10.0.0.1:1", &peer, &t->err);
    assert_ok_err(status, &t->err);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(tokens_of_the_store_open_the_door),
        STORE_CASE(a_token_may_send_and_not_read),
        STORE_CASE(a_token_of_an_agent_counts_at_that_agent_only),
        STORE_CASE(without_configuration_this_machine_may_do_everything),
        STORE_CASE(uses_are_written_down_at_the_latest_on_close),
        STORE_CASE_POSTGRES(a_store_that_does_not_answer_holds_callers_up_for_a_second_in_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
