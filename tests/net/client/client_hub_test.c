/* Many clients on one thread, and calls that nobody waits for. */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/client/client.h"
#include "net/client/echo.h"
#include "support/check.h"
#include "support/prng.h"

enum {
    CLIENTS = 40,
    ASKS = 5,
    REFUSED_ROUNDS = 60,
    CROWD_THREADS = 8,
    CROWD_STREAMS = 8,
    CROWD_ROUNDS = 40
};

#define UNARY "/test.Echo/Unary"

static echo server;

static int start_server(void **state)
{
    (void)state;
    echo_start(&server, NULL, NULL, NULL);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    echo_stop(&server);
    return 0;
}

/* What came back of some calls. */
typedef struct answers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int good;
    int interrupted;
    int other;
    char text[128]; /* of the last good one */
} answers;

static void answers_init(answers *a)
{
    *a = (answers){.good = 0};
    assert_int_equal(0, pthread_mutex_init(&a->lock, NULL));
    assert_int_equal(0, pthread_cond_init(&a->changed, NULL));
}

static void answers_done(answers *a)
{
    assert_int_equal(0, pthread_cond_destroy(&a->changed));
    assert_int_equal(0, pthread_mutex_destroy(&a->lock));
}

static void note(void *arg, tide_status status, tide_client_response *reply, const char *text)
{
    answers *a = arg;
    (void)text;
    pthread_mutex_lock(&a->lock);
    if (status == TIDE_OK) {
        (void)snprintf(a->text, sizeof a->text, "%s", tide_buffer_text(&reply->message));
        a->good++;
    } else if (status == TIDE_E_INTERRUPTED) {
        a->interrupted++;
    } else {
        a->other++;
    }
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static void wait_for(answers *a, int count)
{
    pthread_mutex_lock(&a->lock);
    while (a->good + a->interrupted + a->other < count)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

static tide_client *open_on(tide_client_hub *hub, int port)
{
    char target[64];
    tide_client *client = NULL;
    tide_error err = {.status = TIDE_OK};
    (void)snprintf(target, sizeof target, "http://127.0.0.1:%d", port);
    assert_ok_err(
        tide_client_open(&client, &(tide_client_options){.target = target, .hub = hub}, &err),
        &err);
    return client;
}

static tide_client_hub *open_hub(void)
{
    tide_client_hub *hub = NULL;
    tide_error err = {.status = TIDE_OK};
    const tide_client_hub_options options = {.connection_max = CLIENTS, .idle_max = CLIENTS};
    assert_ok_err(tide_client_hub_open(&hub, &options, &err), &err);
    return hub;
}

static void ask(tide_client *client, const char *message, const char *sleep_ms, answers *a,
                tide_client_stream **out)
{
    tide_error err = {.status = TIDE_OK};
    const tide_client_field field = {.name = "x-sleep-ms", .value = tide_view_of(sleep_ms)};
    const tide_client_request request = {.path = UNARY,
                                         .message = tide_view_of(message),
                                         .fields = &field,
                                         .field_count = sleep_ms ? 1 : 0};
    assert_ok_err(tide_client_start_call(out, client, &request, note, a, &err), &err);
}

static void clients_of_one_hub_all_get_their_answers(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_client_hub_closep) tide_client_hub *hub = open_hub();
    tide_client *clients[CLIENTS];
    answers a;
    answers_init(&a);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = open_on(hub, server.grpc_port);
    for (int round = 0; round < ASKS; round++)
        for (int i = 0; i < CLIENTS; i++)
            ask(clients[i], "hello", NULL, &a, NULL);
    wait_for(&a, CLIENTS * ASKS);
    for (int i = 0; i < CLIENTS; i++)
        tide_client_close(clients[i]);
    assert_int_equal(CLIENTS * ASKS, a.good);
    assert_string_equal("hello", a.text);
    answers_done(&a);
}

/* Another client's calls go on, and the one that closes is told of each of its own. */
static void closing_one_client_ends_its_own_calls_alone(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_client_hub_closep) tide_client_hub *hub = open_hub();
    tide_client *leaving = open_on(hub, server.grpc_port);
    tide_client *staying = open_on(hub, server.grpc_port);
    answers left;
    answers stayed;
    answers_init(&left);
    answers_init(&stayed);
    ask(staying, "warm", NULL, &stayed, NULL);
    wait_for(&stayed, 1);
    for (int i = 0; i < ASKS; i++)
        ask(leaving, "never", "60000", &left, NULL);
    ask(staying, "later", "200", &stayed, NULL);
    tide_client_close(leaving);
    assert_int_equal(ASKS, left.interrupted);
    wait_for(&stayed, 2);
    assert_int_equal(2, stayed.good);
    ask(staying, "again", NULL, &stayed,
        NULL); /* over a connection that may have been made by the other one */
    wait_for(&stayed, 3);
    assert_int_equal(3, stayed.good);
    tide_client_close(staying);
    answers_done(&left);
    answers_done(&stayed);
}

static void a_call_can_be_cancelled_and_is_told_once(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_client_hub_closep) tide_client_hub *hub = open_hub();
    tide_client *client = open_on(hub, server.grpc_port);
    answers a;
    answers_init(&a);
    tide_client_stream *stream = NULL;
    ask(client, "never", "60000", &a, &stream);
    tide_client_cancel(stream);
    wait_for(&a, 1);
    tide_client_end(stream);
    assert_int_equal(1, a.interrupted);
    ask(client, "still here", NULL, &a, &stream);
    wait_for(&a, 2);
    tide_client_end(stream);
    assert_int_equal(1, a.good);
    assert_int_equal(0, a.other);
    tide_client_close(client);
    answers_done(&a);
}

/* libcurl does not report every socket that it closes then; what counts them goes with the hub (the sanitizer looks). */
static void calls_that_are_cancelled_while_they_connect_leave_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        TIDE_CLEANUP(tide_client_hub_closep) tide_client_hub *hub = open_hub();
        tide_client *client = open_on(hub, server.grpc_port);
        answers a;
        answers_init(&a);
        tide_client_stream *stream = NULL;
        ask(client, "never", "60000", &a, &stream);
        for (int turn = 0; turn < i * 40; turn++)
            (void)sched_yield(); /* every round reaches another point of the connection */
        tide_client_cancel(stream);
        wait_for(&a, 1);
        tide_client_end(stream);
        assert_int_equal(1, a.interrupted);
        tide_client_close(client);
        answers_done(&a);
    }
}

/* Nobody listens there: a failure, soon, and not a call that waits for ever. */
static void a_call_to_nobody_fails(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_client_hub_closep) tide_client_hub *hub = open_hub();
    tide_client *client = open_on(hub, 1);
    answers a;
    answers_init(&a);
    for (int i = 0; i < ASKS; i++)
        ask(client, "anybody?", NULL, &a, NULL);
    wait_for(&a, ASKS);
    assert_int_equal(ASKS, a.other);
    tide_client_close(client);
    answers_done(&a);
}

/* ---- many threads at once ---- */

typedef struct crowd {
    tide_client *client;
    prng chance;
    int ended;
} crowd;

/* Streams that are begun, ended and cancelled while the hub takes others of the same list. */
static void *call_in_a_crowd(void *arg)
{
    crowd *c = arg;
    for (int round = 0; round < CROWD_ROUNDS; round++) {
        tide_client_stream *streams[CROWD_STREAMS];
        tide_error err = {.status = TIDE_OK};
        const tide_client_request request = {.path = UNARY,
                                             .message = tide_view_of("crowd"),
                                             .is_open = true,
                                             .timeout_us = 20 * INT64_C(1000000)};
        for (int i = 0; i < CROWD_STREAMS; i++) {
            assert_ok_err(tide_client_begin(&streams[i], c->client, &request, &err), &err);
            if (prng_chance(&c->chance, 1, 2))
                tide_client_send_end(streams[i]);
        }
        for (int i = 0; i < CROWD_STREAMS; i++) {
            tide_client_send_end(streams[i]);
            if (prng_chance(&c->chance, 1, 8))
                tide_client_cancel(streams[i]);
        }
        for (int i = 0; i < CROWD_STREAMS; i++) {
            TIDE_CLEANUP(tide_buffer_done) tide_buffer answer;
            tide_buffer_init(&answer, 4096);
            tide_status status = TIDE_OK;
            while (status == TIDE_OK)
                status = tide_client_next(streams[i], &answer, &err);
            c->ended += status == TIDE_NONE || err.status == TIDE_E_INTERRUPTED;
            tide_client_end(streams[i]);
        }
    }
    return NULL;
}

/* A stream that is put into the list of pending ones again while the list is taken loses nobody, and is let go of once. */
static void streams_of_many_threads_all_come_to_an_end(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_client_hub_closep) tide_client_hub *hub = open_hub();
    tide_client *client = open_on(hub, server.grpc_port);
    crowd crowds[CROWD_THREADS];
    pthread_t threads[CROWD_THREADS];
    const uint64_t seed = prng_seed_from_env(0);
    for (int i = 0; i < CROWD_THREADS; i++) {
        crowds[i] = (crowd){.client = client};
        prng_init(&crowds[i].chance, seed + (uint64_t)i);
        assert_int_equal(0, pthread_create(&threads[i], NULL, call_in_a_crowd, &crowds[i]));
    }
    for (int i = 0; i < CROWD_THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
        assert_int_equal(CROWD_ROUNDS * CROWD_STREAMS, crowds[i].ended);
    }
    tide_client_close(client);
}

/* ---- methods that are not there ---- */

typedef struct refusals {
    answers sum;
    int unsupported;
    char other[256]; /* the words of one that was something else */
} refusals;

static void note_refusal(void *arg, tide_status status, tide_client_response *reply,
                         const char *text)
{
    refusals *r = arg;
    pthread_mutex_lock(&r->sum.lock);
    if (status == TIDE_E_UNSUPPORTED)
        r->unsupported++;
    else
        (void)snprintf(r->other, sizeof r->other, "%s: %s", tide_status_get(status)->name, text);
    pthread_mutex_unlock(&r->sum.lock);
    note(&r->sum, status, reply, text);
}

static void ask_nothing(tide_client *client, const char *body, size_t len, refusals *r)
{
    tide_error err = {.status = TIDE_OK};
    const tide_client_request request = {
        .path = "/test.Echo/Nothing", .message = tide_view_bytes(body, len), .is_idempotent = true};
    assert_ok_err(tide_client_start_call(NULL, client, &request, note_refusal, r, &err), &err);
}

/* A server of others says UNIMPLEMENTED in its headers and resets the stream in the same moment. Whoever asked learns that the method is not
 * there, every time, and never that the server is away: on new connections and on old ones, alone and beside others. */
static void a_method_that_is_not_there_is_told_every_time(void **state)
{
    static char body[16000];
    static const size_t lengths[] = {0, 20, 300, 5000, sizeof body};
    enum { LENGTHS = sizeof lengths / sizeof lengths[0] };
    (void)state;
    TIDE_CLEANUP(tide_client_hub_closep) tide_client_hub *hub = open_hub();
    refusals r = {.unsupported = 0};
    answers_init(&r.sum);
    int asked = 0;
    for (int round = 0; round < REFUSED_ROUNDS; round++) {
        tide_client *client = open_on(hub, server.grpc_port);
        for (int i = 0; i < LENGTHS; i++) { /* one behind the other */
            ask_nothing(client, body, lengths[(round + i) % LENGTHS], &r);
            wait_for(&r.sum, ++asked);
        }
        for (int i = 0; i < LENGTHS; i++) /* together */
            ask_nothing(client, body, lengths[i], &r);
        wait_for(&r.sum, asked += LENGTHS);
        tide_client_close(client);
    }
    if (r.unsupported != asked)
        fail_msg("%d of %d were told; another: %s", r.unsupported, asked, r.other);
    answers_done(&r.sum);
}

/* ---- connections that end under a call ---- */

/* A server by plain sockets: what it says on its first connection ends that, on the second it answers. */
typedef struct leaving {
    int listener;
    int port;
    uint8_t last_stream; /* of GOAWAY on the first connection */
    uint8_t code;
} leaving;

static void send_frame(int fd, uint8_t kind, uint8_t flags, uint8_t stream, const void *bytes,
                       uint8_t len)
{
    uint8_t frame[9 + 255] = {0, 0, len, kind, flags, 0, 0, 0, stream};
    memcpy(frame + 9, bytes, len);
    assert_int_equal(9 + len, send(fd, frame, 9 + (size_t)len, MSG_NOSIGNAL));
}

/* Everything up to the end of the first request. */
static void read_request(int fd)
{
    static const uint8_t preface_len = 24;
    uint8_t head[9];
    uint8_t rest[4096];
    assert_int_equal(preface_len, recv(fd, rest, preface_len, MSG_WAITALL));
    do {
        assert_int_equal(9, recv(fd, head, 9, MSG_WAITALL));
        const size_t len = (size_t)head[1] << 8 | head[2];
        assert_true(len <= sizeof rest);
        assert_int_equal(len, len > 0 ? recv(fd, rest, len, MSG_WAITALL) : 0);
    } while (head[3] != 0 || (head[4] & 1) == 0);
}

static void *serve_leaving(void *arg)
{
    static const char head[] = "\x88\x00\x0c"
                               "content-type\x10"
                               "application/grpc";
    static const char trailers[] = "\x00\x0bgrpc-status\x01"
                                   "0";
    const leaving *l = arg;
    const uint8_t goaway[8] = {0, 0, 0, l->last_stream, 0, 0, 0, l->code};
    int fd = accept(l->listener, NULL, NULL);
    send_frame(fd, 4, 0, 0, "", 0);
    read_request(fd);
    send_frame(fd, 7, 0, 0, goaway, sizeof goaway);
    (void)close(fd);
    fd = accept(l->listener, NULL, NULL);
    send_frame(fd, 4, 0, 0, "", 0);
    read_request(fd);
    send_frame(fd, 1, 4, 1, head, sizeof head - 1);
    send_frame(fd, 0, 0, 1, "\0\0\0\0\2ok", 7);
    send_frame(fd, 1, 5, 1, trailers, sizeof trailers - 1);
    uint8_t end[64];
    while (recv(fd, end, sizeof end, 0) > 0) {
    }
    (void)close(fd);
    return NULL;
}

/* One that says goodbye, or that something is wrong with the connection, while a call that can be repeated is under way which it has not begun: the call is
 * begun again on another connection, and nobody takes the server for away. */
static void a_server_that_leaves_under_a_call_is_asked_again(void **state)
{
    static const leaving ways[] = {{.last_stream = 0}, {.last_stream = 0, .code = 2}};
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        leaving l = ways[i];
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof at;
        l.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(0, bind(l.listener, (struct sockaddr *)&at, sizeof at));
        assert_int_equal(0, listen(l.listener, 8));
        assert_int_equal(0, getsockname(l.listener, (struct sockaddr *)&at, &len));
        pthread_t thread;
        assert_int_equal(0, pthread_create(&thread, NULL, serve_leaving, &l));
        TIDE_CLEANUP(tide_client_hub_closep) tide_client_hub *hub = open_hub();
        tide_client *client = open_on(hub, ntohs(at.sin_port));
        refusals r = {.unsupported = 0};
        answers_init(&r.sum);
        ask_nothing(client, "x", 1, &r);
        wait_for(&r.sum, 1);
        if (r.sum.good != 1)
            fail_msg("way %zu: %s", i, r.other);
        assert_string_equal("ok", r.sum.text);
        tide_client_close(client);
        (void)shutdown(l.listener, SHUT_RDWR);
        (void)close(l.listener);
        tide_client_hub_closep(&hub);
        hub = NULL;
        assert_int_equal(0, pthread_join(thread, NULL));
        answers_done(&r.sum);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_of_one_hub_all_get_their_answers),
        cmocka_unit_test(closing_one_client_ends_its_own_calls_alone),
        cmocka_unit_test(a_call_can_be_cancelled_and_is_told_once),
        cmocka_unit_test(calls_that_are_cancelled_while_they_connect_leave_nothing),
        cmocka_unit_test(a_call_to_nobody_fails),
        cmocka_unit_test(streams_of_many_threads_all_come_to_an_end),
        cmocka_unit_test(a_method_that_is_not_there_is_told_every_time),
        cmocka_unit_test(a_server_that_leaves_under_a_call_is_asked_again),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
