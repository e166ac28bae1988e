#include "net/call/health.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/call/fake_call.h"
#include "support/check.h"

#define CHECK_PATH "/grpc.health.v1.Health/Check"
#define WATCH_PATH "/grpc.health.v1.Health/Watch"

static tide_health *make_health(void)
{
    tide_health *health = NULL;
    assert_ok(tide_health_new(&health, NULL));
    return health;
}

static tide_view request_for(const char *service, char buffer[256])
{
    buffer[0] = 0x0A;
    buffer[1] = (char)strlen(service);
    memcpy(buffer + 2, service, strlen(service));
    return tide_view_bytes(buffer, strlen(service) + 2);
}

static void run_method(tide_call *call, const char *path, const char *service, tide_health *health)
{
    char buffer[256];
    fake_call_run(call, tide_health_methods, path, request_for(service, buffer), health);
}

/* The status in a response: field 1, which is left out when it is 0. */
static int sent_status(const tide_call *call, size_t index)
{
    assert_true(index < call->sent_count);
    const tide_buffer *sent = &call->sent[index];
    if (sent->len == 0)
        return 0;
    assert_int_equal(2, sent->len);
    assert_int_equal(0x08, sent->ptr[0]);
    return sent->ptr[1];
}

static void check_says_what_was_set(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_health_freep) tide_health *health = make_health();
    TIDE_CLEANUP(fake_call_done) tide_call first = {0};
    run_method(&first, CHECK_PATH, "", health);
    assert_true(first.is_replied);
    assert_int_equal(TIDE_HEALTH_NOT_SERVING, sent_status(&first, 0));

    assert_ok(tide_health_set(health, "", TIDE_HEALTH_SERVING, NULL));
    assert_ok(tide_health_set(health, "a.Service", TIDE_HEALTH_UNKNOWN, NULL));
    TIDE_CLEANUP(fake_call_done) tide_call second = {0};
    fake_call_run(&second, tide_health_methods, CHECK_PATH, tide_view_of(""), health);
    assert_int_equal(TIDE_HEALTH_SERVING, sent_status(&second, 0));
    TIDE_CLEANUP(fake_call_done) tide_call third = {0};
    run_method(&third, CHECK_PATH, "a.Service", health);
    assert_int_equal(TIDE_HEALTH_UNKNOWN, sent_status(&third, 0));
}

/* The protocol: Check of an unknown service fails with NOT_FOUND. */
static void check_of_an_unknown_service_is_not_found(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_health_freep) tide_health *health = make_health();
    TIDE_CLEANUP(fake_call_done) tide_call call = {0};
    run_method(&call, CHECK_PATH, "no.Service", health);
    assert_true(call.is_ended && !call.is_replied);
    assert_status(TIDE_E_NOT_FOUND, call.status);
    TIDE_CLEANUP(fake_call_done) tide_call bad = {0};
    fake_call_run(&bad, tide_health_methods, CHECK_PATH, tide_view_bytes("\x0A\x05x", 3), health);
    assert_status(TIDE_E_INVALID, bad.status);
}

/* The protocol: the present status at once, then every change; an unknown service is waited for. */
static void a_watcher_hears_the_status_and_every_change(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_health_freep) tide_health *health = make_health();
    TIDE_CLEANUP(fake_call_done) tide_call call = {0};
    run_method(&call, WATCH_PATH, "a.Service", health);
    assert_int_equal(1, call.sent_count);
    assert_int_equal(TIDE_HEALTH_SERVICE_UNKNOWN, sent_status(&call, 0));

    assert_ok(tide_health_set(health, "other", TIDE_HEALTH_SERVING, NULL));
    assert_int_equal(1, call.sent_count);
    assert_ok(tide_health_set(health, "a.Service", TIDE_HEALTH_SERVING, NULL));
    assert_ok(tide_health_set(health, "a.Service", TIDE_HEALTH_SERVING, NULL)); /* no change */
    assert_ok(tide_health_set(health, "a.Service", TIDE_HEALTH_NOT_SERVING, NULL));
    assert_int_equal(3, call.sent_count);
    assert_int_equal(TIDE_HEALTH_SERVING, sent_status(&call, 1));
    assert_int_equal(TIDE_HEALTH_NOT_SERVING, sent_status(&call, 2));
    assert_false(call.is_ended);
    assert_int_equal(1, call.holds);
    fake_call_cancel(&call);
    assert_int_equal(0, call.holds);
    assert_true(call.is_ended);
    assert_ok(tide_health_set(health, "a.Service", TIDE_HEALTH_SERVING, NULL));
    assert_int_equal(3, call.sent_count);
}

static void a_watcher_of_an_unset_status_hears_it_too(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_health_freep) tide_health *health = make_health();
    assert_ok(tide_health_set(health, "a", TIDE_HEALTH_UNKNOWN, NULL));
    TIDE_CLEANUP(fake_call_done) tide_call call = {0};
    run_method(&call, WATCH_PATH, "a", health);
    assert_int_equal(1, call.sent_count);
    assert_int_equal(TIDE_HEALTH_UNKNOWN, sent_status(&call, 0));
    tide_health_close(health);
}

/* Whoever left before the watch began is not kept. */
/* A store that takes nothing: no service of the program serves, whatever was said of it, until it is well again. */
static void an_impaired_program_serves_nothing(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_health_freep) tide_health *health = make_health();
    assert_ok(tide_health_set(health, "a.Service", TIDE_HEALTH_SERVING, NULL));
    assert_ok(tide_health_set(health, "b.Service", TIDE_HEALTH_UNKNOWN, NULL));
    TIDE_CLEANUP(fake_call_done) tide_call watch = {0};
    run_method(&watch, WATCH_PATH, "a.Service", health);
    tide_health_set_impaired(health, true);
    tide_health_set_impaired(health, true);
    assert_int_equal(TIDE_HEALTH_NOT_SERVING, tide_health_get(health, tide_view_of("a.Service")));
    assert_int_equal(TIDE_HEALTH_UNKNOWN, tide_health_get(health, tide_view_of("b.Service")));
    tide_health_set_impaired(health, false);
    assert_int_equal(3, watch.sent_count);
    assert_int_equal(TIDE_HEALTH_SERVING, sent_status(&watch, 0));
    assert_int_equal(TIDE_HEALTH_NOT_SERVING, sent_status(&watch, 1));
    assert_int_equal(TIDE_HEALTH_SERVING, sent_status(&watch, 2));
    tide_health_close(health); /* before the call that watches is gone */
}

static void a_watcher_that_left_already_is_let_go(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_health_freep) tide_health *health = make_health();
    TIDE_CLEANUP(fake_call_done) tide_call call = {.is_cancelled = true};
    run_method(&call, WATCH_PATH, "", health);
    assert_int_equal(0, call.holds);
    assert_true(call.is_ended);
}

static void closing_tells_and_ends_the_watchers(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_health_freep) tide_health *health = make_health();
    assert_ok(tide_health_set(health, "", TIDE_HEALTH_SERVING, NULL));
    TIDE_CLEANUP(fake_call_done) tide_call call = {0};
    run_method(&call, WATCH_PATH, "", health);
    tide_health_close(health);
    assert_int_equal(2, call.sent_count);
    assert_int_equal(TIDE_HEALTH_NOT_SERVING, sent_status(&call, 1));
    assert_true(call.is_ended);
    assert_status(TIDE_E_UNAVAILABLE, call.status);
    assert_int_equal(0, call.holds);

    assert_ok(tide_health_set(health, "", TIDE_HEALTH_SERVING, NULL));
    assert_int_equal(TIDE_HEALTH_NOT_SERVING, tide_health_get(health, tide_view_of("")));
    TIDE_CLEANUP(fake_call_done) tide_call late = {0};
    run_method(&late, WATCH_PATH, "", health);
    assert_status(TIDE_E_UNAVAILABLE, late.status);
    assert_int_equal(0, late.holds);
}

static void names_and_watchers_are_bounded(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_health_freep) tide_health *health = make_health();
    for (int i = 1; i < TIDE_HEALTH_SERVICES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        assert_ok(tide_health_set(health, name, TIDE_HEALTH_SERVING, NULL));
    }
    assert_status(TIDE_E_LIMIT, tide_health_set(health, "more", TIDE_HEALTH_SERVING, NULL));
    char name[TIDE_HEALTH_NAME_MAX + 2];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_status(TIDE_E_INVALID, tide_health_set(health, name, TIDE_HEALTH_SERVING, NULL));

    static tide_call calls[TIDE_HEALTH_WATCHERS_MAX + 1];
    for (size_t i = 0; i <= TIDE_HEALTH_WATCHERS_MAX; i++)
        run_method(&calls[i], WATCH_PATH, "", health);
    assert_status(TIDE_E_LIMIT, calls[TIDE_HEALTH_WATCHERS_MAX].status);
    fake_call_cancel(&calls[0]);
    TIDE_CLEANUP(fake_call_done) tide_call next = {0};
    run_method(&next, WATCH_PATH, "", health);
    assert_false(next.is_ended);
    tide_health_close(health);
    for (size_t i = 0; i <= TIDE_HEALTH_WATCHERS_MAX; i++) {
        assert_int_equal(0, calls[i].holds);
        fake_call_done(&calls[i]);
    }
}

static void *flip(void *arg)
{
    for (int i = 0; i < 20; i++)
        TIDE_IGNORE(
            tide_health_set(arg, "", i % 2 ? TIDE_HEALTH_NOT_SERVING : TIDE_HEALTH_SERVING, NULL));
    return NULL;
}

/* Changes come from any thread; what a watcher heard last is how it is. */
static void the_last_news_is_the_present_status(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_health_freep) tide_health *health = make_health();
    TIDE_CLEANUP(fake_call_done) tide_call call = {0};
    run_method(&call, WATCH_PATH, "", health);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, flip, health));
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(0, pthread_join(threads[i], NULL));
    assert_int_equal(tide_health_get(health, tide_view_of("")),
                     sent_status(&call, call.sent_count - 1));
    for (size_t i = 1; i < call.sent_count; i++)
        assert_true(sent_status(&call, i) != sent_status(&call, i - 1));
    tide_health_close(health);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_says_what_was_set),
        cmocka_unit_test(check_of_an_unknown_service_is_not_found),
        cmocka_unit_test(a_watcher_hears_the_status_and_every_change),
        cmocka_unit_test(a_watcher_of_an_unset_status_hears_it_too),
        cmocka_unit_test(an_impaired_program_serves_nothing),
        cmocka_unit_test(a_watcher_that_left_already_is_let_go),
        cmocka_unit_test(closing_tells_and_ends_the_watchers),
        cmocka_unit_test(names_and_watchers_are_bounded),
        cmocka_unit_test(the_last_news_is_the_present_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
