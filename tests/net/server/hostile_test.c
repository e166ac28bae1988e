/* Peers that mean no good, on real sockets: memory stays within what the limits say, and others are served. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/server/server_rig.h"
#include "support/check.h"
#include "support/tempdir.h"

enum { QUIET_MIB = 32 }; /* what a server that refuses everything may take */

static void assert_peak_below(const server_rig *rig, int64_t mib)
{
    const int64_t peak = server_rig_peak_mib(rig);
    print_message("peak %lld MiB, allowed %lld\n", (long long)peak, (long long)mib);
    if (!server_rig_is_sanitized())
        assert_true(peak <= mib);
}

static void attack(const server_rig *rig, const char *name, const char *number)
{
    char *said = server_rig_client(rig, "hostile.py", (const char *[]){name, number, NULL});
    assert_contains(said, "ok");
    free(said);
}

/* evhttp took 481 MiB for these. */
static void unauthenticated_uploads_cost_nothing(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "auth=1", NULL});
    attack(&rig, "unauthenticated_uploads", "8");
    assert_int_equal(0, server_rig_number(&rig, "held_len"));
    assert_peak_below(&rig, QUIET_MIB);
    server_rig_done(&rig);
}

/* Limit budget_len: those that fit are held, the others told to come back; their memory is given back. */
static void authenticated_uploads_stay_within_the_budget(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "auth=1", "budget_len=134217728", NULL});
    attack(&rig, "authenticated_uploads", "8");
    assert_true(server_rig_number(&rig, "refused_budget") >= 6);
    assert_peak_below(&rig, 128 + QUIET_MIB);
    assert_int_equal(0, server_rig_number(&rig, "held_len")); /* the attackers are gone */
    server_rig_done(&rig);
}

static void a_gzip_bomb_is_stopped_at_the_limit(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err = {0};
    assert_ok_err(tempdir_make(&dir, &err), &err);
    char command[TEMPDIR_PATH_MAX + 100];
    char file[TEMPDIR_PATH_MAX];
    char over_http1[TEMPDIR_PATH_MAX + 300];
    char over_h2[TEMPDIR_PATH_MAX + 300];
    tempdir_join(&dir, "bomb.gz", file);
    (void)snprintf(command, sizeof command, "head -c 200000000 /dev/zero | gzip -1 > %s", file);
    static const char CURL[] = "cat %s | curl -sS %s -o /dev/null -w '%%{http_code}' -H 'expect:' "
                               "-H 'content-encoding: gzip' --data-binary @- @/echo";
    (void)snprintf(over_http1, sizeof over_http1, CURL, file, "--http1.1");
    (void)snprintf(over_h2, sizeof over_h2, CURL, file, "--http2-prior-knowledge");
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    free(server_rig_run(&rig, NULL, (const char *[]){"sh", "-c", command, NULL}));
    for (int i = 0; i < 2; i++) {
        char *code = server_rig_run(&rig, NULL,
                                    (const char *[]){"sh", "-c", i ? over_h2 : over_http1, NULL});
        assert_string_equal("413", code);
        free(code);
    }
    assert_peak_below(&rig, 64 + 16 + QUIET_MIB);
    server_rig_done(&rig);
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

/* CVE-2023-44487, CVE-2024-28182, and their relatives. */
static void floods_end_the_connection_that_sends_them(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    attack(&rig, "rapid_reset", "50000");
    attack(&rig, "continuation_flood", "20000");
    attack(&rig, "ping_flood", "20000");
    attack(&rig, "header_bomb", "1");
    assert_int_equal(2, server_rig_number(&rig, "refused_flood"));
    /* Continuations with fields end at what the fields cost, before their number does. */
    assert_int_equal(2, server_rig_number(&rig, "refused_headers"));
    assert_peak_below(&rig, QUIET_MIB);
    server_rig_done(&rig);
}

/* Limit queue_len: 100 downloads of 640 MB that nobody reads. */
static void readers_that_never_read_cost_a_queue_each(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "queue_len=131072", NULL});
    attack(&rig, "no_window", "100");
    assert_true(server_rig_number(&rig, "streamed") < 1000);
    assert_peak_below(&rig, 20 + QUIET_MIB);
    server_rig_done(&rig);
}

/* Limits answer_len and peer_answer_len: pages become smaller, nobody is turned away, others have room, and the memory is
 * the system's again when the readers have left. */
static void answers_that_nobody_reads_stay_within_the_budget(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    char *said =
        server_rig_client(&rig, "hostile.py", (const char *[]){"unread_pages", "60", NULL});
    print_message("%s", said);
    assert_contains(said, "b'200' 4194304\n"); /* 127.0.0.2 has everything it asked for */
    free(said);
    assert_int_equal(0, server_rig_number(&rig, "refused_answers"));
    /* The share of the one address, and the page of the other, which is copied once. */
    assert_peak_below(&rig, 48 + 2 * 4 + QUIET_MIB);
    for (int64_t until_ms = proc_now_ms() + 10000; server_rig_number(&rig, "connections_open") > 1;)
        assert_true(proc_now_ms() < until_ms);
    /* Looked at once a second, when a call ends. */
    int64_t now_mib = server_rig_resident_mib(&rig);
    for (int64_t until_ms = proc_now_ms() + 5000; now_mib > 16 && proc_now_ms() < until_ms;) {
        (void)server_rig_number(&rig, "answers_len");
        now_mib = server_rig_resident_mib(&rig);
    }
    print_message("%lld MiB left\n", (long long)now_mib);
    if (!server_rig_is_sanitized())
        assert_true(now_mib <= 16);
    server_rig_done(&rig);
}

/* Limit write_rate, on sockets: 640 KB a second are taken of 1 MiB that is asked for. */
static void a_reader_that_dawdles_is_given_up(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(
        &rig, (const char *[]){"127.0.0.1:0", "write_us=1000000", "write_rate=1048576", NULL});
    attack(&rig, "dawdle", "20");
    assert_int_equal(1, server_rig_number(&rig, "timeouts_write"));
    server_rig_done(&rig);
}

/* Limit peer_budget_len: one address starves itself, and not even that of small requests. */
static void bodies_that_never_end_do_not_starve_others(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "budget_len=67108864",
                                            "peer_budget_len=33554432", NULL});
    char *said =
        server_rig_client(&rig, "hostile.py", (const char *[]){"half_bodies", "100", NULL});
    print_message("%s", said);
    assert_contains(said, "b'200' 4194304\nb'200' 20000\nb'503' ");
    free(said);
    assert_peak_below(&rig, 64 + QUIET_MIB);
    server_rig_done(&rig);
}

/* Limit header_us, on sockets: also TLS's and HTTP/2's beginnings. */
static void connections_that_stop_half_way_are_closed(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "header_us=1000000", NULL});
    attack(&rig, "half_open", "5");
    assert_int_equal(30, server_rig_number(&rig, "timeouts_header"));
    server_rig_done(&rig);
}

/* Limit peer_connections: others are served from elsewhere; limit connections: nobody is. */
static void connections_above_the_limit_are_closed_at_once(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(
        &rig, (const char *[]){"127.0.0.1:0", "peer_connections=20", "spare_us=3600000000", NULL});
    char *said = server_rig_client(&rig, "hostile.py", (const char *[]){"too_many", "20", NULL});
    assert_string_equal("True\nok\n", said);
    free(said);
    assert_int_equal(1, server_rig_number(&rig, "refused_peer_connections"));
    server_rig_done(&rig);

    server_rig_start(
        &rig, (const char *[]){"127.0.0.1:0", "connections=20", "spare_us=3600000000", NULL});
    said = server_rig_client(&rig, "hostile.py", (const char *[]){"too_many", "20", NULL});
    assert_string_equal("False\nok\n", said);
    free(said);
    server_rig_done(&rig);
}

/* Limit spare_us: by default everybody calls from one address, so who keeps connections that say nothing must not keep others out. */
static void idle_connections_make_room_for_new_ones(void **state)
{
    (void)state;
    static const char *const limits[] = {"peer_connections=20", "connections=20"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        server_rig rig;
        server_rig_start(&rig, (const char *[]){"127.0.0.1:0", limits[i], "spare_us=0", NULL});
        char *said =
            server_rig_client(&rig, "hostile.py", (const char *[]){"make_room", "20", NULL});
        assert_string_equal("ok\n", said);
        free(said);
        assert_true(server_rig_number(&rig, "closed_for_others") >= 20);
        assert_int_equal(0, server_rig_number(&rig, "refused_peer_connections"));
        assert_int_equal(0, server_rig_number(&rig, "refused_connections"));
        server_rig_done(&rig);
    }
}

/* Half of them HTTP/1.1, half HTTP/2, each after a first exchange; 10,000 in a soak. */
static void idle_connections_are_cheap(void **state)
{
    (void)state;
    const char *count = is_soak() ? "10000" : "2000";
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    char script[PATH_MAX];
    (void)snprintf(script, sizeof script, "%s/tests/net/server/hostile.py",
                   getenv("TIDEMARK_SOURCE_DIR"));
    proc client;
    tide_error err = {0};
    const proc_options options = {
        .argv = (const char *[]){"/usr/bin/python3", script, rig.addresses[0], "idle", count, NULL},
        .in = PROC_PIPE,
        .out = PROC_PIPE};
    assert_ok_err(proc_start(&client, &options, &err), &err);
    char said[64] = {0};
    assert_true(read(client.out_fd, said, sizeof said - 1) > 0);
    assert_contains(said, "holding");
    assert_int_equal(strtoll(count, NULL, 10) + 1, server_rig_number(&rig, "connections_open"));
    /* About 20 KiB each, most of it nghttp2's tables. */
    assert_peak_below(&rig, strtoll(count, NULL, 10) * 20 / 1024 + QUIET_MIB);
    proc_done(&client);
    server_rig_done(&rig);
}

/* slowhttptest's verdict is "Service available: YES" as long as its probes are answered. */
static void slow_clients_do_not_keep_others_out(void **state)
{
    (void)state;
    static const char *const modes[] = {"-H", "-B", "-X"};
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "header_us=2000000", "body_us=2000000",
                                            "write_us=2000000", NULL});
    char url[300];
    (void)snprintf(url, sizeof url, "%s/healthz", rig.url);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        char *said =
            server_rig_run(&rig, NULL,
                           (const char *[]){"slowhttptest", modes[i], "-c", "300", "-r", "300",
                                            "-i", "1", "-l", "5", "-p", "2", "-u", url, NULL});
        assert_contains(said, "YES");
        assert_null(strstr(said, "service available:   \x1b[1;31mNO"));
        free(said);
        free(server_rig_run(&rig, NULL,
                            (const char *[]){"curl", "-sS", "-m", "2", "@/healthz", NULL}));
    }
    assert_true(server_rig_number(&rig, "timeouts_header") > 100);
    assert_peak_below(&rig, QUIET_MIB);
    server_rig_done(&rig);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unauthenticated_uploads_cost_nothing),
        cmocka_unit_test(authenticated_uploads_stay_within_the_budget),
        cmocka_unit_test(a_gzip_bomb_is_stopped_at_the_limit),
        cmocka_unit_test(floods_end_the_connection_that_sends_them),
        cmocka_unit_test(readers_that_never_read_cost_a_queue_each),
        cmocka_unit_test(answers_that_nobody_reads_stay_within_the_budget),
        cmocka_unit_test(a_reader_that_dawdles_is_given_up),
        cmocka_unit_test(bodies_that_never_end_do_not_starve_others),
        cmocka_unit_test(connections_that_stop_half_way_are_closed),
        cmocka_unit_test(connections_above_the_limit_are_closed_at_once),
        cmocka_unit_test(idle_connections_make_room_for_new_ones),
        cmocka_unit_test(idle_connections_are_cheap),
        cmocka_unit_test(slow_clients_do_not_keep_others_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
