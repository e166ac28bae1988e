/* Many clients on one thread, and calls that nobody waits for. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/client.h"
#include "net/echo.h"
#include "support/check.h"

enum { CLIENTS = 40, ASKS = 5, CROWD_THREADS = 8, CROWD_STREAMS = 8, CROWD_ROUNDS = 40 };

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

static void note(void *arg, tide_status status, tide_client_reply *reply, const char *text)
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
    assert_ok_err(tide_client_ask(out, client, &request, note, a, &err), &err);
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
    unsigned seed;
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
            if (rand_r(&c->seed) % 2 == 0)
                tide_client_send_end(streams[i]);
        }
        for (int i = 0; i < CROWD_STREAMS; i++) {
            tide_client_send_end(streams[i]);
            if (rand_r(&c->seed) % 8 == 0)
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
    for (int i = 0; i < CROWD_THREADS; i++) {
        crowds[i] = (crowd){.client = client, .seed = (unsigned)i};
        assert_int_equal(0, pthread_create(&threads[i], NULL, call_in_a_crowd, &crowds[i]));
    }
    for (int i = 0; i < CROWD_THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
        assert_int_equal(CROWD_ROUNDS * CROWD_STREAMS, crowds[i].ended);
    }
    tide_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_of_one_hub_all_get_their_answers),
        cmocka_unit_test(closing_one_client_ends_its_own_calls_alone),
        cmocka_unit_test(a_call_can_be_cancelled_and_is_told_once),
        cmocka_unit_test(a_call_to_nobody_fails),
        cmocka_unit_test(streams_of_many_threads_all_come_to_an_end),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
