/* Our client and our server together: TLS, mutual TLS, tokens, streams, retries. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "net/certificates.h"
#include "net/client/client.h"
#include "net/server/auth.h"
#include "net/server/server.h"
#include "support/check.h"

#define READER "tide_rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr"
#define WRITER "tide_wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww"

typedef struct pair_test {
    tempdir dir;
    certificates certs;
    char ca[TEMPDIR_PATH_MAX];
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
    char tokens[TEMPDIR_PATH_MAX];
    tide_tls *tls;
    tide_auth *auth;
    tide_routes *routes;
    tide_server *server;
    tide_client *client;
    tide_client_response reply;
    int busy_count; /* calls that are still told to come again */
    tide_error err;
} pair_test;

/* ---- what is served ---- */

static void echo(tide_call *call, tide_view message, void *arg)
{
    (void)arg;
    tide_call_add_header(call, "x-identity",
                         tide_call_identity(call) ? tide_call_identity(call) : "");
    tide_call_respond(call, message);
}

static void echo_all(tide_call *call, tide_view message, void *arg)
{
    (void)arg;
    if (message.ptr)
        (void)tide_call_send(call, message);
    else
        tide_call_end(call, TIDE_OK, NULL);
}

static void chat(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    tide_call_receive(call, echo_all, arg);
}

static void count_up(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    (void)arg;
    char text[32];
    for (int i = 0; i < 1000; i++) {
        const int len = snprintf(text, sizeof text, "%d", i);
        (void)tide_call_send(call, tide_view_bytes(text, (size_t)len));
    }
    tide_call_end(call, TIDE_OK, NULL);
}

static void be_busy(tide_call *call, tide_view message, void *arg)
{
    pair_test *t = arg;
    if (t->busy_count-- > 0)
        tide_call_end_with(call, &(tide_call_status){.grpc_code = TIDE_GRPC_UNAVAILABLE,
                                                     .message = "100 % busy",
                                                     .retry_after_s = 0.01});
    else
        tide_call_respond(call, message);
}

static const tide_method methods[] = {
    {.path = "/test.Pair/Read", .kind = TIDE_CALL_UNARY, .role = TIDE_ROLE_READ, .run = echo},
    {.path = "/test.Pair/Write",
     .kind = TIDE_CALL_UNARY,
     .role = TIDE_ROLE_WRITE,
     .is_blocking = true,
     .run = echo},
    {.path = "/test.Pair/Chat", .kind = TIDE_CALL_BIDIRECTIONAL, .run = chat},
    {.path = "/test.Pair/Count", .kind = TIDE_CALL_SERVER_STREAM, .run = count_up},
    {.path = "/test.Pair/Busy", .kind = TIDE_CALL_UNARY, .run = be_busy},
    {.path = NULL},
};

/* ---- the fixture ---- */

static void write_tokens(const pair_test *t, const char *text)
{
    FILE *out = fopen(t->tokens, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(0, fchmod(fileno(out), 0600));
    assert_int_equal(0, fclose(out));
}

static int setup(void **state)
{
    pair_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    tide_client_response_init(&t->reply);
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    certificates_init(&t->certs, &t->dir);
    certificates_make(&t->certs, "server",
                      &(certificate_spec){.dns = "localhost", .ip = "127.0.0.1"});
    certificates_make(&t->certs, "agent", &(certificate_spec){.dns = "agent-7"});
    tempdir_join(&t->dir, "ca.pem", t->ca);
    tempdir_join(&t->dir, "server.pem", t->cert);
    tempdir_join(&t->dir, "server.key", t->key);
    tempdir_join(&t->dir, "tokens", t->tokens);
    write_tokens(t, "reader read " READER "\nwriter write " WRITER "\n");
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    pair_test *t = *state;
    tide_client_close(t->client);
    tide_server_close(t->server);
    tide_routes_free(t->routes);
    tide_auth_close(t->auth);
    tide_tls_close(t->tls);
    tide_client_response_done(&t->reply);
    certificates_done(&t->certs);
    (void)tempdir_remove(&t->dir, &t->err);
    free(t);
    return 0;
}

static void start(pair_test *t, bool is_tls, tide_tls_verify verify)
{
    static const char *const listen[] = {"127.0.0.1:0", NULL};
    const tide_tls_options tls = {
        .cert_file = t->cert, .key_file = t->key, .ca_file = t->ca, .verify = verify};
    const tide_auth_options auth = {.token_file = t->tokens, .certificate_role = TIDE_ROLE_WRITE};
    if (is_tls)
        assert_ok_err(tide_tls_open_server(&t->tls, &tls, &t->err), &t->err);
    assert_ok_err(tide_auth_open(&t->auth, &auth, &t->err), &t->err);
    assert_ok_err(tide_routes_new(&t->routes, &t->err), &t->err);
    assert_ok_err(tide_routes_add_methods(t->routes, methods, t, &t->err), &t->err);
    const tide_server_options options = {.listen = listen,
                                         .routes = t->routes,
                                         .authorise = tide_auth_check,
                                         .authorise_arg = t->auth,
                                         .tls = t->tls};
    assert_ok_err(tide_server_open(&t->server, &options, &t->err), &t->err);
}

static void connect_with(pair_test *t, tide_client_options options)
{
    char target[128];
    tide_client_close(t->client);
    t->client = NULL;
    (void)snprintf(target, sizeof target, "%s://%s", t->tls ? "https" : "http",
                   tide_server_address(t->server, 0));
    options.target = target;
    options.ca_file = t->tls ? t->ca : NULL;
    assert_ok_err(tide_client_open(&t->client, &options, &t->err), &t->err);
}

static tide_status call(pair_test *t, const char *path)
{
    const tide_client_request request = {.path = path, .message = tide_view_of("hello")};
    return tide_client_call(t->client, &request, &t->reply, &t->err);
}

static void refuse(pair_test *t, tide_status status, const char *path)
{
    assert_status_err(status, call(t, path), &t->err);
}

/* ---- */

static void roles_decide_what_a_token_opens(void **state)
{
    pair_test *t = *state;
    for (int is_tls = 0; is_tls < 2; is_tls++) {
        start(t, is_tls, TIDE_TLS_VERIFY_NONE);
        connect_with(t, (tide_client_options){.token = READER});
        assert_ok_err(call(t, "/test.Pair/Read"), &t->err);
        assert_string_equal("hello", tide_buffer_text(&t->reply.message));
        assert_string_equal("reader", tide_headers_text(&t->reply.head, "x-identity"));
        refuse(t, TIDE_E_DENIED, "/test.Pair/Write");
        connect_with(t, (tide_client_options){.token = WRITER, .is_gzip = true});
        assert_ok_err(call(t, "/test.Pair/Write"), &t->err);
        connect_with(t, (tide_client_options){.token = WRITER "x"});
        refuse(t, TIDE_E_UNAUTHENTICATED, "/test.Pair/Read");
        connect_with(t, (tide_client_options){.token = NULL});
        refuse(t, TIDE_E_UNAUTHENTICATED, "/test.Pair/Read");
        refuse(t, TIDE_E_UNSUPPORTED, "/test.Pair/None");
        tide_client_close(TIDE_TAKE(t->client));
        tide_server_close(TIDE_TAKE(t->server));
        tide_routes_free(TIDE_TAKE(t->routes));
        tide_auth_close(TIDE_TAKE(t->auth));
    }
}

static void a_certificate_is_a_name(void **state)
{
    pair_test *t = *state;
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "agent.pem", cert);
    tempdir_join(&t->dir, "agent.key", key);
    start(t, true, TIDE_TLS_VERIFY_REQUIRED);
    connect_with(t, (tide_client_options){.cert_file = cert, .key_file = key});
    assert_ok_err(call(t, "/test.Pair/Write"), &t->err);
    assert_string_equal("agent-7", tide_headers_text(&t->reply.head, "x-identity"));
    connect_with(t, (tide_client_options){.token = WRITER, .try_max = 1});
    assert_true(call(t, "/test.Pair/Write") < TIDE_OK);
}

/* SIGHUP: a token that is gone from the file opens nothing any more, also on an open connection. */
static void a_reload_takes_a_token_away(void **state)
{
    pair_test *t = *state;
    start(t, true, TIDE_TLS_VERIFY_NONE);
    connect_with(t, (tide_client_options){.token = WRITER});
    assert_ok_err(call(t, "/test.Pair/Write"), &t->err);
    write_tokens(t, "reader read " READER "\n");
    assert_ok_err(tide_auth_reload(t->auth, &t->err), &t->err);
    refuse(t, TIDE_E_UNAUTHENTICATED, "/test.Pair/Write");
}

static void a_new_certificate_serves_new_connections(void **state)
{
    pair_test *t = *state;
    start(t, true, TIDE_TLS_VERIFY_NONE);
    connect_with(t, (tide_client_options){.token = WRITER});
    assert_ok_err(call(t, "/test.Pair/Write"), &t->err);
    certificates_make(&t->certs, "server", &(certificate_spec){.dns = "elsewhere"});
    assert_ok_err(tide_tls_reload(t->tls, &t->err), &t->err);
    assert_ok_err(call(t, "/test.Pair/Write"), &t->err); /* on the old connection */
    connect_with(t, (tide_client_options){.token = WRITER});
    assert_status_err(TIDE_E_DENIED, call(t, "/test.Pair/Write"), &t->err);
}

static void streams_flow_both_ways(void **state)
{
    pair_test *t = *state;
    start(t, true, TIDE_TLS_VERIFY_NONE);
    connect_with(t, (tide_client_options){.token = NULL});
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message;
    tide_buffer_init(&message, 0);
    TIDE_CLEANUP(tide_client_endp) tide_client_stream *talk = NULL;
    const tide_client_request open = {.path = "/test.Pair/Chat", .is_open = true};
    assert_ok_err(tide_client_begin(&talk, t->client, &open, &t->err), &t->err);
    for (int i = 0; i < 20; i++) {
        assert_ok_err(tide_client_send(talk, tide_view_of("ping"), &t->err), &t->err);
        assert_ok_err(tide_client_next(talk, &message, &t->err), &t->err);
        assert_string_equal("ping", tide_buffer_text(&message));
    }
    TIDE_CLEANUP(tide_client_endp) tide_client_stream *list = NULL;
    const tide_client_request count = {.path = "/test.Pair/Count"};
    assert_ok_err(tide_client_begin(&list, t->client, &count, &t->err), &t->err);
    for (int i = 0; i < 1000; i++) {
        assert_ok_err(tide_client_next(list, &message, &t->err), &t->err);
        assert_int_equal(i, assert_number(tide_buffer_text(&message)));
    }
    assert_status_err(TIDE_NONE, tide_client_next(list, &message, &t->err), &t->err);
    tide_client_send_end(talk);
    assert_status_err(TIDE_NONE, tide_client_next(talk, &message, &t->err), &t->err);
}

static void keep_count(void *arg, const tide_client_counted *counted)
{
    *(tide_client_counted *)arg = *counted;
}

static void advice_of_the_server_is_followed(void **state)
{
    pair_test *t = *state;
    start(t, false, TIDE_TLS_VERIFY_NONE);
    tide_client_counted counted = {.path = ""};
    connect_with(t, (tide_client_options){.backoff = {.base_us = 1000, .cap_us = 2000},
                                          .count = keep_count,
                                          .count_arg = &counted});
    t->busy_count = 2;
    assert_ok_err(call(t, "/test.Pair/Busy"), &t->err);
    assert_int_equal(3, t->reply.try_count);
    assert_string_equal("/test.Pair/Busy", counted.path); /* counted once, with all its tries */
    assert_int_equal(0, counted.grpc_code);
    assert_int_equal(3, counted.try_count);
    assert_true(counted.took_us >= 20000);
    assert_status_err(TIDE_E_UNSUPPORTED, call(t, "/test.Pair/None"), &t->err);
    assert_int_equal(TIDE_GRPC_UNIMPLEMENTED, counted.grpc_code);
    assert_int_equal(1, counted.try_count);
    connect_with(t, (tide_client_options){.try_max = 1});
    t->busy_count = 1;
    assert_status_err(TIDE_E_UNAVAILABLE, call(t, "/test.Pair/Busy"), &t->err);
    assert_string_equal("100 % busy", t->err.text);
    assert_int_equal(10000, t->reply.retry_after_us);
}

/* Refused at its headers, or under way: the client is still sending then, and hears the answer all the same (RFC 9113
 * 8.1; a reset at once would make libcurl 7.88 lose it). */
static void an_early_refusal_is_heard_by_who_still_sends(void **state)
{
    pair_test *t = *state;
    start(t, false, TIDE_TLS_VERIFY_NONE);
    const size_t len = 16 << 20;
    char *body = calloc(1, len);
    assert_non_null(body);
    for (int i = 0; i < 10; i++) {
        connect_with(t, (tide_client_options){.try_max = 1});
        const tide_client_request request = {.path = "/test.Pair/Read",
                                             .message = tide_view_bytes(body, len)};
        assert_status_err(TIDE_E_UNAUTHENTICATED,
                          tide_client_call(t->client, &request, &t->reply, &t->err), &t->err);
        assert_status_err(TIDE_E_UNAUTHENTICATED,
                          tide_client_post(t->client, &request, &t->reply, &t->err), &t->err);
        assert_int_equal(401, t->reply.http_code);
    }
    free(body);
}

#define PAIR_CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        PAIR_CASE(roles_decide_what_a_token_opens),
        PAIR_CASE(an_early_refusal_is_heard_by_who_still_sends),
        PAIR_CASE(a_certificate_is_a_name),
        PAIR_CASE(a_reload_takes_a_token_away),
        PAIR_CASE(a_new_certificate_serves_new_connections),
        PAIR_CASE(streams_flow_both_ways),
        PAIR_CASE(advice_of_the_server_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
