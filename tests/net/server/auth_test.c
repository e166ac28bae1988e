/* Who is calling: tokens, certificates, addresses; what is remembered and for how long. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/server/auth.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"
#include "support/tempdir.h"

#define SECOND INT64_C(1000000)
#define TOKEN_A "tide_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define TOKEN_B "tide_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

typedef struct auth_test {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    virtual_env clock;
    tide_auth *auth;
    int asked_count;
    tide_status answer_status;
    tide_auth_result answer;
    tide_caller peer;
    tide_error err;
} auth_test;

static tide_status look_up(void *arg, tide_view token, tide_auth_result *out, tide_error *err)
{
    auth_test *t = arg;
    t->asked_count++;
    if (t->answer_status < TIDE_OK)
        return tide_fail(err, t->answer_status, "the lookup says no");
    if (!tide_view_equal(token, tide_view_of(TOKEN_A)))
        return tide_fail(err, TIDE_E_UNAUTHENTICATED, "no such token");
    *out = t->answer;
    return TIDE_OK;
}

static int setup(void **state)
{
    auth_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    tempdir_join(&t->dir, "tokens", t->path);
    virtual_env_init(&t->clock, 1);
    t->answer =
        (tide_auth_result){.name = "ingest", .role = TIDE_ROLE_WRITE, .expires_at_us = INT64_MAX};
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    auth_test *t = *state;
    tide_auth_close(t->auth);
    (void)tempdir_remove(&t->dir, &t->err);
    virtual_env_done(&t->clock);
    free(t);
    return 0;
}

enum { OWN_UID = 1000, NOTED_SIZE = 512 };

static void open_auth(auth_test *t, tide_auth_options options)
{
    options.env = &t->clock.env;
    options.lookup = look_up;
    options.lookup_arg = t;
    options.own_uid = OWN_UID;
    assert_ok_err(tide_auth_open(&t->auth, &options, &t->err), &t->err);
}

static tide_status check(auth_test *t, const char *token, const char *certificate,
                         const char *address)
{
    const tide_credentials given = {.token = token,
                                    .certificate = certificate,
                                    .peer = address,
                                    .owner = {.is_known = true, .uid = OWN_UID}};
    t->peer = (tide_caller){.role = TIDE_ROLE_NONE};
    return tide_auth_check(t->auth, &given, &t->peer, &t->err);
}

static void write_tokens(auth_test *t, const char *text)
{
    FILE *out = fopen(t->path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(0, fchmod(fileno(out), 0600));
    assert_int_equal(0, fclose(out));
}

/* ---- tokens ---- */

static void a_good_token_is_who_the_lookup_says(void **state)
{
    auth_test *t = *state;
    open_auth(t, (tide_auth_options){.local_role = TIDE_ROLE_ADMIN});
    assert_ok_err(check(t, TOKEN_A, NULL, "10.0.0.1:5"), &t->err);
    assert_string_equal("ingest", t->peer.name);
    assert_int_equal(TIDE_ROLE_WRITE, t->peer.role);
}

/* Whoever shows something bad is not let in as nobody: it would hide a mistake. */
static void a_bad_token_is_refused_whatever_else_is_shown(void **state)
{
    auth_test *t = *state;
    open_auth(
        t, (tide_auth_options){.local_role = TIDE_ROLE_ADMIN, .certificate_role = TIDE_ROLE_WRITE});
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_B, NULL, "127.0.0.1:5"));
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_B, "agent-1", "127.0.0.1:5"));
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, "", NULL, "127.0.0.1:5"));
    char *huge = malloc(100000);
    assert_non_null(huge);
    memset(huge, 'x', 99999);
    huge[99999] = '\0';
    const int asked_count = t->asked_count;
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, huge, NULL, "127.0.0.1:5"));
    assert_int_equal(asked_count, t->asked_count);
    free(huge);
}

static void an_answer_counts_for_seconds_and_is_asked_for_again_then(void **state)
{
    auth_test *t = *state;
    open_auth(t, (tide_auth_options){.local_role = TIDE_ROLE_NONE});
    for (int i = 0; i < 10; i++)
        assert_ok(check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    assert_int_equal(1, t->asked_count);
    virtual_env_advance(&t->clock, TIDE_AUTH_FRESH_US - 1);
    assert_ok(check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    assert_int_equal(1, t->asked_count);
    virtual_env_advance(&t->clock, 1);
    t->answer_status = TIDE_E_UNAUTHENTICATED;
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    assert_int_equal(2, t->asked_count);
    /* and is forgotten: the store being away does not revive it */
    t->answer_status = TIDE_E_UNAVAILABLE;
    assert_status(TIDE_E_UNAVAILABLE, check(t, TOKEN_A, NULL, "10.0.0.1:5"));
}

static void forgetting_asks_again_at_once(void **state)
{
    auth_test *t = *state;
    open_auth(t, (tide_auth_options){.local_role = TIDE_ROLE_NONE});
    assert_ok(check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    t->answer_status = TIDE_E_UNAUTHENTICATED;
    assert_ok(check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    tide_auth_forget(t->auth);
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_A, NULL, "10.0.0.1:5"));
}

static void a_store_that_is_away_keeps_known_callers_in_for_a_while(void **state)
{
    auth_test *t = *state;
    open_auth(t, (tide_auth_options){.local_role = TIDE_ROLE_NONE});
    assert_ok(check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    t->answer_status = TIDE_E_UNAVAILABLE;
    virtual_env_advance(&t->clock, TIDE_AUTH_STALE_US - 1);
    assert_ok(check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    assert_string_equal("ingest", t->peer.name);
    assert_status(TIDE_E_UNAVAILABLE, check(t, TOKEN_B, NULL, "10.0.0.1:5"));
    virtual_env_advance(&t->clock, 1);
    assert_status(TIDE_E_UNAVAILABLE, check(t, TOKEN_A, NULL, "10.0.0.1:5"));
}

static void a_token_ends_on_time_even_when_it_is_remembered(void **state)
{
    auth_test *t = *state;
    t->answer.expires_at_us = VIRTUAL_ENV_WALL_US + 2 * SECOND;
    open_auth(t, (tide_auth_options){.local_role = TIDE_ROLE_NONE});
    assert_ok(check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    virtual_env_advance(&t->clock, 2 * SECOND);
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    assert_contains(t->err.text, "expired");
}

static void note_end(void *arg, const char *name, const char *why)
{
    char *noted = arg;
    const size_t len = strlen(noted);
    (void)snprintf(noted + len, NOTED_SIZE - len, "%s: %s;", name, why);
}

static void a_token_that_ends_is_reported_once(void **state)
{
    auth_test *t = *state;
    char noted[NOTED_SIZE] = "";
    open_auth(t, (tide_auth_options){
                     .local_role = TIDE_ROLE_NONE, .ended = note_end, .ended_arg = noted});
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_B, NULL, "10.0.0.1:5"));
    assert_string_equal(noted, ""); /* it was never good */
    assert_ok(check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    t->answer_status = TIDE_E_UNAUTHENTICATED; /* revoked */
    virtual_env_advance(&t->clock, TIDE_AUTH_FRESH_US + SECOND);
    for (int i = 0; i < 3; i++)
        assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    assert_string_equal(noted, "ingest: it is not in the store any more, or was revoked or has "
                               "expired;");
}

static void an_agents_token_does_not_serve_another_agent(void **state)
{
    auth_test *t = *state;
    (void)snprintf(t->answer.agent, sizeof t->answer.agent, "agent-1");
    open_auth(t, (tide_auth_options){.certificate_role = TIDE_ROLE_WRITE});
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_A, NULL, "10.0.0.1:5"));
    assert_ok(check(t, TOKEN_A, "agent-1", "10.0.0.1:5"));
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_A, "agent-2", "10.0.0.1:5"));
}

/* Bad tokens cost a look each; nobody may ask for more than so many. */
static void who_guesses_is_shut_out_for_a_while(void **state)
{
    auth_test *t = *state;
    char token[64];
    open_auth(t, (tide_auth_options){.local_role = TIDE_ROLE_NONE});
    for (int i = 0; i < TIDE_AUTH_BAD_MAX; i++) {
        (void)snprintf(token, sizeof token, "%s%d", TOKEN_B, i);
        assert_status(TIDE_E_UNAUTHENTICATED, check(t, token, NULL, "10.0.0.1:5"));
    }
    assert_int_equal(TIDE_AUTH_BAD_MAX, t->asked_count);
    assert_status(TIDE_E_BUSY, check(t, TOKEN_B, NULL, "10.0.0.1:6")); /* another port, same host */
    assert_int_equal(TIDE_AUTH_BAD_MAX, t->asked_count);
    assert_ok(check(t, TOKEN_A, NULL, "10.0.0.2:5"));
    virtual_env_advance(&t->clock, TIDE_AUTH_BAD_WINDOW_US);
    assert_ok(check(t, TOKEN_A, NULL, "10.0.0.1:5"));
}

static tide_status accept_any(void *arg, tide_view token, tide_auth_result *out, tide_error *err)
{
    (void)err;
    (*(int *)arg)++;
    *out = (tide_auth_result){.role = TIDE_ROLE_READ, .expires_at_us = INT64_MAX};
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)token.len, token.ptr);
    return TIDE_OK;
}

/* However many tokens there are, each is answered for itself; beyond the cache they are asked for more often. */
static void more_tokens_than_are_remembered_are_all_told_apart(void **state)
{
    auth_test *t = *state;
    int asked_count = 0;
    char token[64];
    const tide_auth_options options = {
        .env = &t->clock.env, .lookup = accept_any, .lookup_arg = &asked_count};
    assert_ok(tide_auth_open(&t->auth, &options, &t->err));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3 * TIDE_AUTH_CACHE; i++) {
            (void)snprintf(token, sizeof token, "token-%d", i);
            assert_ok(check(t, token, NULL, "10.0.0.1:5"));
            assert_string_equal(token, t->peer.name);
        }
    assert_true(asked_count > 3 * TIDE_AUTH_CACHE);
}

/* ---- without a token ---- */

static void without_a_token_certificate_and_address_decide(void **state)
{
    auth_test *t = *state;
    open_auth(
        t, (tide_auth_options){.certificate_role = TIDE_ROLE_WRITE, .local_role = TIDE_ROLE_ADMIN});
    assert_ok(check(t, NULL, "agent-1", "10.0.0.1:5"));
    assert_string_equal("agent-1", t->peer.name);
    assert_int_equal(TIDE_ROLE_WRITE, t->peer.role);
    assert_ok(check(t, NULL, NULL, "127.0.0.1:5"));
    assert_int_equal(TIDE_ROLE_ADMIN, t->peer.role);
    assert_string_equal("", t->peer.name);
    assert_ok(check(t, NULL, NULL, "[::1]:5"));
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, NULL, NULL, "10.0.0.1:5"));
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, NULL, NULL, ""));
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, NULL, NULL, NULL));
    assert_int_equal(0, t->asked_count);
}

/* Root and the daemon's own user are trusted on this machine; others, and who cannot be told, are not. */
static void on_this_machine_the_user_decides(void **state)
{
    auth_test *t = *state;
    static const struct {
        tide_peer_owner owner;
        tide_call_role role;
        const char *name;
    } rows[] = {
        {{.is_known = true, .uid = OWN_UID}, TIDE_ROLE_ADMIN, ""},
        {{.is_known = true, .uid = 0}, TIDE_ROLE_ADMIN, ""},
        {{.is_known = true, .uid = 65534}, TIDE_ROLE_INGEST, "user 65534"},
        {{.is_known = false, .uid = OWN_UID}, TIDE_ROLE_INGEST, "unknown user"},
        {{.is_known = false, .uid = 0}, TIDE_ROLE_INGEST, "unknown user"},
    };
    static const char *const peers[] = {"127.0.0.1:5", "[::1]:5", "unix:"};
    open_auth(t, (tide_auth_options){.local_role = TIDE_ROLE_ADMIN,
                                     .other_role = TIDE_ROLE_INGEST,
                                     .own_uid = OWN_UID});
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t j = 0; j < sizeof peers / sizeof peers[0]; j++) {
            const tide_credentials given = {.peer = peers[j], .owner = rows[i].owner};
            assert_ok_err(tide_auth_check(t->auth, &given, &t->peer, &t->err), &t->err);
            assert_int_equal(rows[i].role, t->peer.role);
            assert_string_equal(rows[i].name, t->peer.name);
        }
        /* elsewhere a uid means nothing */
        const tide_credentials given = {.peer = "10.0.0.1:5", .owner = rows[i].owner};
        assert_status(TIDE_E_UNAUTHENTICATED, tide_auth_check(t->auth, &given, &t->peer, &t->err));
    }
}

static void roles_include_what_their_names_say(void **state)
{
    (void)state;
    static const struct {
        tide_call_role role;
        const char *includes; /* of any, ingest, read, write, admin */
    } rows[] = {{TIDE_ROLE_NONE, "00000"},
                {TIDE_ROLE_INGEST, "11000"},
                {TIDE_ROLE_READ, "10100"},
                {TIDE_ROLE_WRITE, "11110"},
                {TIDE_ROLE_ADMIN, "11111"}};
    static const tide_call_role needed[] = {TIDE_ROLE_ANY, TIDE_ROLE_INGEST, TIDE_ROLE_READ,
                                            TIDE_ROLE_WRITE, TIDE_ROLE_ADMIN};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(tide_role_includes(rows[i].role, TIDE_ROLE_NONE));
        for (size_t j = 0; j < sizeof needed / sizeof needed[0]; j++)
            assert_int_equal(rows[i].includes[j] == '1',
                             tide_role_includes(rows[i].role, needed[j]));
    }
}

static void addresses_of_this_machine_are_known(void **state)
{
    (void)state;
    static const char *const local[] = {
        "127.0.0.1",      "127.0.0.1:80", "127.9.9.9:1",          "[::1]:80", "::1",
        "localhost:4317", "unix:/run/x",  "[::ffff:127.0.0.1]:9", "localhost"};
    static const char *const others[] = {"0.0.0.0:80",
                                         "128.0.0.1",
                                         "10.0.0.1:80",
                                         "[::]:80",
                                         "::",
                                         "example.org:80",
                                         "",
                                         "localhost.evil:80",
                                         "127.0.0.1.evil",
                                         "[::ffff:10.0.0.1]:9",
                                         "[::1"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        assert_true(tide_auth_is_local(local[i]));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(tide_auth_is_local(others[i]));
}

static void other_addresses_need_tls_and_credentials(void **state)
{
    auth_test *t = *state;
    assert_ok(tide_auth_check_listen("127.0.0.1:80", false, false, false, &t->err));
    assert_ok(tide_auth_check_listen("0.0.0.0:80", true, true, false, &t->err));
    assert_ok(tide_auth_check_listen("0.0.0.0:80", false, false, true, &t->err));
    assert_status(TIDE_E_INVALID,
                  tide_auth_check_listen("0.0.0.0:80", false, true, false, &t->err));
    assert_contains(t->err.text, "no TLS");
    assert_status(TIDE_E_INVALID, tide_auth_check_listen("[::]:80", true, false, false, &t->err));
    assert_contains(t->err.text, "no authentication");
    assert_contains(t->err.text, "--insecure");
}

/* ---- the token file ---- */

static void the_file_knows_tokens_and_digests(void **state)
{
    auth_test *t = *state;
    uint8_t digest[TIDE_SHA256_LEN];
    char hex[TIDE_SHA256_TEXT_SIZE];
    char text[1024];
    assert_ok(tide_sha256_of(tide_view_of(TOKEN_B), digest, &t->err));
    tide_hex_encode(hex, digest, sizeof digest);
    (void)snprintf(text, sizeof text,
                   "# who may come in\r\n\n  reader\tread   sha256:%s \r\nboss admin %s", hex,
                   "0123456789abcdef0123456789ABCDEF");
    write_tokens(t, text);
    t->answer_status = TIDE_E_UNAVAILABLE;
    open_auth(t, (tide_auth_options){.token_file = t->path});
    assert_ok_err(check(t, TOKEN_B, NULL, "10.0.0.1:5"), &t->err);
    assert_string_equal("reader", t->peer.name);
    assert_int_equal(TIDE_ROLE_READ, t->peer.role);
    assert_ok(check(t, "0123456789abcdef0123456789ABCDEF", NULL, "10.0.0.1:5"));
    assert_int_equal(TIDE_ROLE_ADMIN, t->peer.role);
    assert_int_equal(0, t->asked_count);
    assert_status(TIDE_E_UNAVAILABLE, check(t, hex, NULL, "10.0.0.1:5")); /* a digest is no token */
}

static void a_new_file_counts_after_a_reload_and_a_bad_one_does_not(void **state)
{
    auth_test *t = *state;
    write_tokens(t, "one read " TOKEN_B "\n");
    t->answer_status = TIDE_E_UNAUTHENTICATED;
    open_auth(t, (tide_auth_options){.token_file = t->path});
    assert_ok(check(t, TOKEN_B, NULL, "10.0.0.1:5"));
    write_tokens(t, "one read\n");
    assert_status(TIDE_E_INVALID, tide_auth_reload(t->auth, &t->err));
    assert_contains(t->err.text, "tokens:1: want NAME ROLE TOKEN");
    assert_ok(check(t, TOKEN_B, NULL, "10.0.0.1:5"));
    write_tokens(t, "");
    assert_ok_err(tide_auth_reload(t->auth, &t->err), &t->err);
    assert_status(TIDE_E_UNAUTHENTICATED, check(t, TOKEN_B, NULL, "10.0.0.1:5"));
}

/* The line is named, the token is not. */
static void bad_lines_are_refused_by_number(void **state)
{
    auth_test *t = *state;
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"a read\n", "f:1: want NAME ROLE TOKEN, found 2 words"},
        {"\n\na read x y\n", "f:3: want NAME ROLE TOKEN, found 4 words"},
        {"a owner " TOKEN_A "\n", "f:1: the role of 'a' is none of"},
        {"a read shortsecret\n", "f:1: a token has 32 to 512 characters, this one has 11"},
        {"a read sha256:1234\n", "f:1: sha256: wants 64"},
        {"a read " TOKEN_A "\na read " TOKEN_B "\n", "f:2: 'a' stands there twice"},
        {"a read " TOKEN_A "\nb read " TOKEN_A "\n", "f:2: 'a' and 'b' have the same token"},
        {"\xc3\xa4 read " TOKEN_A "\n", "f:1: a name is visible ASCII"},
        {"a read " TOKEN_A "\x01\n", "f:1: the token of 'a' is not visible"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tide_auth_rows parsed = {.items = NULL};
        assert_status(TIDE_E_INVALID,
                      tide_auth_rows_parse(&parsed, tide_view_of(rows[i].text), "f", &t->err));
        assert_contains(t->err.text, rows[i].words);
        assert_null(strstr(t->err.text, "shortsecret"));
        tide_auth_rows_done(&parsed);
    }
}

/* ---- web pages ---- */

/* DNS rebinding: a browser on this machine calls from this machine; what the page's author cannot choose is an address,
 * and the name localhost. */
static void a_web_page_is_not_this_machine(void **state)
{
    auth_test *t = *state;
    static const char *const names[] = {"tidemark.internal"};
    static const struct {
        const char *host;
        const char *origin;
        tide_status status;
    } rows[] = {
        {NULL, NULL, TIDE_OK},
        {"localhost:4317", NULL, TIDE_OK},
        {"LocalHost", NULL, TIDE_OK},
        {"localhost.:4317", NULL, TIDE_OK},
        {"tidemark.internal.", NULL, TIDE_OK},
        {"localhost..", NULL, TIDE_E_DENIED},
        {".", NULL, TIDE_E_DENIED},
        {"127.0.0.1:4318", NULL, TIDE_OK},
        {"10.1.2.3", NULL, TIDE_OK},
        {"[::1]:4318", NULL, TIDE_OK},
        {"Tidemark.Internal:4318", NULL, TIDE_OK},
        {"127.0.0.1:4318", "http://127.0.0.1:4318", TIDE_OK},
        {"localhost", "http://LOCALHOST", TIDE_OK},
        {"evil.example.com", NULL, TIDE_E_DENIED},
        {"[::1]evil.example", NULL, TIDE_E_DENIED},
        {"[::1]:80evil.example", NULL, TIDE_E_DENIED},
        {"localhost:evil", NULL, TIDE_E_DENIED},
        {"localhost:80:evil.example", NULL, TIDE_E_DENIED},
        {"evil.example@localhost", NULL, TIDE_E_DENIED},
        {"evil.example.com:4318", "http://evil.example.com:4318", TIDE_E_DENIED},
        {"localhost.example.com:4318", NULL, TIDE_E_DENIED},
        {"127.0.0.1.example.com:4318", NULL, TIDE_E_DENIED},
        {"", NULL, TIDE_E_DENIED},
        {"127.0.0.1:4318", "http://evil.example.com", TIDE_E_DENIED},
        {"127.0.0.1:4318", "http://127.0.0.1:8080", TIDE_E_DENIED},
        {"127.0.0.1:4318", "null", TIDE_E_DENIED},
        {NULL, "http://evil.example.com", TIDE_E_DENIED},
    };
    open_auth(t,
              (tide_auth_options){.local_role = TIDE_ROLE_ADMIN, .hosts = names, .host_count = 1});
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tide_credentials given = {.owner = {.is_known = true},
                                  .peer = "127.0.0.1:5",
                                  .host = rows[i].host,
                                  .origin = rows[i].origin};
        print_message("%s, %s\n", given.host, given.origin);
        assert_status(rows[i].status, tide_auth_check(t->auth, &given, &t->peer, &t->err));
        given.peer = "unix:";
        assert_ok(tide_auth_check(t->auth, &given, &t->peer, &t->err));
        given = (tide_credentials){.peer = "127.0.0.1:5",
                                   .token = TOKEN_A,
                                   .host = rows[i].host,
                                   .origin = rows[i].origin};
        assert_ok(tide_auth_check(t->auth, &given, &t->peer, &t->err));
    }
    const tide_credentials evil = {
        .peer = "127.0.0.1:5", .owner = {.is_known = true}, .host = "evil.example.com"};
    assert_status(TIDE_E_DENIED, tide_auth_check(t->auth, &evil, &t->peer, &t->err));
    assert_contains(t->err.text, "'evil.example.com'");
    assert_contains(t->err.text, "--allow-host");
}

/* A name that no Host can match would be a wish that is never heard. */
static void only_names_of_hosts_are_taken_as_names(void **state)
{
    auth_test *t = *state;
    static const char *const good[] = {"agent", "tide.internal", "a_b-c.example.com.", "10.0.0.1"};
    static const char *const bad[] = {"",   "a b", "*",    "http://x", "x:80", "[::1]",
                                      ",,", ".",   "x..y", "x/",       ".x",   "\xc3\xa4"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_ok_err(tide_auth_check_name(good[i], &t->err), &t->err);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        print_message("'%s'\n", bad[i]);
        assert_status(TIDE_E_INVALID, tide_auth_check_name(bad[i], &t->err));
        assert_contains(t->err.text, bad[i]);
    }
}

/* --insecure: where everybody may do everything nobody is trusted for an address. */
static void where_strangers_are_trusted_names_do_not_matter(void **state)
{
    auth_test *t = *state;
    open_auth(t,
              (tide_auth_options){.local_role = TIDE_ROLE_ADMIN, .stranger_role = TIDE_ROLE_ADMIN});
    const tide_credentials given = {
        .peer = "127.0.0.1:5", .owner = {.is_known = true}, .host = "agent.example.com"};
    assert_ok(tide_auth_check(t->auth, &given, &t->peer, &t->err));
}

#define AUTH_CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        AUTH_CASE(a_good_token_is_who_the_lookup_says),
        AUTH_CASE(a_bad_token_is_refused_whatever_else_is_shown),
        AUTH_CASE(an_answer_counts_for_seconds_and_is_asked_for_again_then),
        AUTH_CASE(forgetting_asks_again_at_once),
        AUTH_CASE(a_store_that_is_away_keeps_known_callers_in_for_a_while),
        AUTH_CASE(a_token_ends_on_time_even_when_it_is_remembered),
        AUTH_CASE(a_token_that_ends_is_reported_once),
        AUTH_CASE(an_agents_token_does_not_serve_another_agent),
        AUTH_CASE(who_guesses_is_shut_out_for_a_while),
        AUTH_CASE(more_tokens_than_are_remembered_are_all_told_apart),
        AUTH_CASE(without_a_token_certificate_and_address_decide),
        AUTH_CASE(a_web_page_is_not_this_machine),
        AUTH_CASE(only_names_of_hosts_are_taken_as_names),
        AUTH_CASE(where_strangers_are_trusted_names_do_not_matter),
        AUTH_CASE(on_this_machine_the_user_decides),
        AUTH_CASE(roles_include_what_their_names_say),
        AUTH_CASE(addresses_of_this_machine_are_known),
        AUTH_CASE(other_addresses_need_tls_and_credentials),
        AUTH_CASE(the_file_knows_tokens_and_digests),
        AUTH_CASE(a_new_file_counts_after_a_reload_and_a_bad_one_does_not),
        AUTH_CASE(bad_lines_are_refused_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
