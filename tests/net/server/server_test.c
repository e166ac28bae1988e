/* The server on real sockets, with clients that others wrote: curl, grpcio, h2load, openssl. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/server/server_rig.h"
#include "support/check.h"
#include "support/tempdir.h"

static void assert_same(const char *want, char *got)
{
    assert_string_equal(want, got);
    free(got);
}

static char *run(const server_rig *rig, const char *const *argv)
{
    return server_rig_run(rig, NULL, argv);
}

/* Both protocols on one port, told apart by their first bytes. */
static void curl_speaks_both_protocols_to_one_port(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    assert_same("ok\n2", run(&rig, (const char *[]){"curl", "-sS", "--http2-prior-knowledge", "-w",
                                                    "%{http_version}", "@/healthz", NULL}));
    assert_same("ok\n1.1", run(&rig, (const char *[]){"curl", "-sS", "-w", "%{http_version}",
                                                      "@/healthz", NULL}));
    assert_same("655360 200",
                run(&rig, (const char *[]){"curl", "-sS", "-o", "/dev/null", "-w",
                                           "%{size_download} %{http_code}", "@/stream?10", NULL}));
    char *json = run(&rig, (const char *[]){"curl", "-sS", "--compressed", "-H",
                                            "content-type: application/json", "-d",
                                            "{\"responseSize\":2000}",
                                            "@/grpc.testing.TestService/UnaryCall", NULL});
    assert_contains(json, "\"payload\":{");
    free(json);
    assert_int_equal(0, server_rig_stop(&rig));
    server_rig_done(&rig);
}

static void it_listens_on_several_addresses_at_once(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err = {0};
    assert_ok_err(tempdir_make(&dir, &err), &err);
    char path[TEMPDIR_PATH_MAX];
    char address[TEMPDIR_PATH_MAX + 8];
    tempdir_join(&dir, "socket", path);
    (void)snprintf(address, sizeof address, "unix:%s", path);
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"[::1]:0", address, NULL});
    assert_same("ok\n", run(&rig, (const char *[]){"curl", "-sS", "-g", "@/healthz", NULL}));
    assert_same("ok\n", run(&rig, (const char *[]){"curl", "-sS", "--unix-socket", path,
                                                   "http://x/healthz", NULL}));
    assert_int_equal(0, server_rig_stop(&rig));
    server_rig_done(&rig);

    /* A socket file that a server left behind is no obstacle. */
    server_rig_start(&rig, (const char *[]){address, NULL});
    assert_same("ok\n", run(&rig, (const char *[]){"curl", "-sS", "--unix-socket", path,
                                                   "http://x/healthz", NULL}));
    server_rig_done(&rig);
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

static void grpcio_is_served(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    assert_same("ok\n", server_rig_client(&rig, "grpc_client.py", NULL));
    assert_int_equal(0, server_rig_number(&rig, "held_len"));
    assert_int_equal(1, server_rig_number(&rig, "calls_running")); /* the question itself */
    server_rig_done(&rig);
}

static void make_certificate(const tempdir *dir, char cert[TEMPDIR_PATH_MAX],
                             char key[TEMPDIR_PATH_MAX], const char *name)
{
    char cert_name[64];
    char key_name[64];
    char subject[128];
    (void)snprintf(cert_name, sizeof cert_name, "%s.pem", name);
    (void)snprintf(key_name, sizeof key_name, "%s.key", name);
    (void)snprintf(subject, sizeof subject, "subjectAltName=DNS:%s,IP:127.0.0.1", name);
    tempdir_join(dir, cert_name, cert);
    tempdir_join(dir, key_name, key);
    const char *const argv[] = {
        "openssl", "req",   "-x509",    "-newkey", "ec",    "-pkeyopt", "ec_paramgen_curve:P-256",
        "-nodes",  "-subj", "/CN=test", "-addext", subject, "-days",    "2",
        "-keyout", key,     "-out",     cert,      NULL};
    free(server_rig_run(&(server_rig){0}, NULL, argv));
}

/* TLS, ALPN, tokens, and the name of a client's certificate. */
static void tls_and_tokens_protect_what_they_should(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err = {0};
    assert_ok_err(tempdir_make(&dir, &err), &err);
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
    char own_cert[TEMPDIR_PATH_MAX];
    char own_key[TEMPDIR_PATH_MAX];
    make_certificate(&dir, cert, key, "localhost");
    make_certificate(&dir, own_cert, own_key, "agent-7");
    char words[4][TEMPDIR_PATH_MAX + 8];
    (void)snprintf(words[0], sizeof words[0], "cert=%s", cert);
    (void)snprintf(words[1], sizeof words[1], "key=%s", key);
    (void)snprintf(words[2], sizeof words[2], "ca=%s", own_cert);
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", words[0], words[1], words[2], "verify=1",
                                            "auth=1", NULL});
    (void)snprintf(rig.url, sizeof rig.url, "https://%s", rig.addresses[0]);
    assert_same("ok\n2", run(&rig, (const char *[]){"curl", "-sS", "--cacert", cert, "-w",
                                                    "%{http_version}", "@/healthz", NULL}));
    assert_same("ok\n1.1", run(&rig, (const char *[]){"curl", "-sS", "--http1.1", "--cacert", cert,
                                                      "-w", "%{http_version}", "@/healthz", NULL}));
    assert_same("401",
                run(&rig, (const char *[]){"curl", "-sS", "--cacert", cert, "-o", "/dev/null", "-w",
                                           "%{http_code}", "@/files/a", NULL}));
    assert_same("/files/a",
                run(&rig, (const char *[]){"curl", "-sS", "--cacert", cert, "-H",
                                           "Authorization: Bearer reader", "@/files/a", NULL}));
    assert_same("/files/a",
                run(&rig, (const char *[]){"curl", "-sS", "--cacert", cert, "--cert", own_cert,
                                           "--key", own_key, "@/files/a", NULL}));
    assert_same("ok\n",
                server_rig_client(&rig, "grpc_client.py", (const char *[]){cert, "reader", NULL}));
    assert_int_equal(0, server_rig_stop(&rig));
    server_rig_done(&rig);
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

/* Loopback only, unless TLS and authorisation, or somebody insists. */
static void other_addresses_are_refused_without_tls(void **state)
{
    (void)state;
    char path[PATH_MAX];
    tide_error err = {0};
    assert_ok_err(proc_find("net-test-server", path, &err), &err);
    proc_result result = {0};
    const proc_options refused = {.argv = (const char *[]){path, "0.0.0.0:0", "auth=1", NULL}};
    assert_ok_err(proc_run(&result, &refused, 10000, &err), &err);
    assert_int_equal(TIDE_EXIT_USAGE, result.exit_code);
    assert_contains(result.err, "0.0.0.0:0");
    assert_contains(result.err, "TLS");
    proc_result_done(&result);
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"0.0.0.0:0", "insecure=1", NULL});
    server_rig_done(&rig);
}

static void a_taken_port_is_an_error_that_names_it(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    char path[PATH_MAX];
    tide_error err = {0};
    assert_ok_err(proc_find("net-test-server", path, &err), &err);
    proc_result result = {0};
    const proc_options options = {.argv = (const char *[]){path, rig.addresses[0], NULL}};
    assert_ok_err(proc_run(&result, &options, 10000, &err), &err);
    assert_int_equal(TIDE_EXIT_CONFLICT, result.exit_code);
    assert_contains(result.err, rig.addresses[0]);
    proc_result_done(&result);
    server_rig_done(&rig);
}

static void start_slow(proc *child, const server_rig *rig, const char *wait)
{
    char url[300];
    char header[64];
    (void)snprintf(url, sizeof url, "%s/slow", rig->url);
    (void)snprintf(header, sizeof header, "x-wait-ms: %s", wait);
    tide_error err = {0};
    const proc_options options = {
        .argv = (const char *[]){"curl", "-sS", "-d", "x", "-H", header, url, NULL},
        .out = PROC_PIPE};
    assert_ok_err(proc_start(child, &options, &err), &err);
}

static void wait_for_number(const server_rig *rig, const char *name, int64_t wanted)
{
    for (int64_t until_ms = proc_now_ms() + 10000; server_rig_number(rig, name) != wanted;)
        assert_true(proc_now_ms() < until_ms);
}

/* Limits workers and worker_queue: what has no place in the queue is told to come back. */
static void calls_above_the_queue_are_503_with_advice(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "workers=1", "worker_queue=1", NULL});
    proc running;
    proc waiting;
    start_slow(&running, &rig, "3000");
    wait_for_number(&rig, "running", 1);
    start_slow(&waiting, &rig, "1");
    wait_for_number(&rig, "calls_running", 3); /* both, and the question */
    char *answer = run(&rig, (const char *[]){"curl", "-sS", "-i", "-d", "x", "@/slow", NULL});
    assert_contains(answer, "HTTP/1.1 503 ");
    assert_contains(answer, "retry-after: 1\r\n");
    assert_contains(answer, "{\"code\":8,");
    free(answer);
    assert_int_equal(1, server_rig_number(&rig, "refused_workers"));
    tide_error err = {0};
    assert_ok_err(proc_wait(&waiting, 20000, &err), &err);
    assert_int_equal(0, waiting.exit_code);
    proc_done(&waiting);
    proc_done(&running);
    server_rig_done(&rig);
}

/* SIGTERM: what runs is finished, then the process ends. */
static void draining_finishes_what_runs(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    proc slow;
    start_slow(&slow, &rig, "1000");
    wait_for_number(&rig, "running", 1);
    assert_int_equal(0, server_rig_stop(&rig));
    tide_error err = {0};
    assert_ok_err(proc_wait(&slow, 10000, &err), &err);
    assert_int_equal(0, slow.exit_code);
    char text[64] = {0};
    assert_true(read(slow.out_fd, text, sizeof text - 1) > 0);
    assert_string_equal("at last\n", text);
    proc_done(&slow);
    server_rig_done(&rig);
}

/* Limit drain_us. */
static void draining_does_not_wait_for_ever(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "drain_us=300000", NULL});
    char url[300];
    (void)snprintf(url, sizeof url, "%s/never", rig.url);
    proc stuck;
    tide_error err = {0};
    const proc_options options = {.argv = (const char *[]){"curl", "-sS", url, NULL},
                                  .err = PROC_NULL};
    assert_ok_err(proc_start(&stuck, &options, &err), &err);
    wait_for_number(&rig, "calls_running", 2);
    const int64_t before_ms = proc_now_ms();
    assert_int_equal(0, server_rig_stop(&rig));
    assert_true(proc_now_ms() - before_ms < 5000);
    proc_done(&stuck);
    server_rig_done(&rig);
}

/* Limits loops and workers: so many threads, and the one that started them. */
static void the_server_has_the_threads_that_it_was_told(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "loops=3", "workers=5", NULL});
    assert_int_equal(1 + 3 + 5, server_rig_threads(&rig));
    assert_same("ok\n", run(&rig, (const char *[]){"curl", "-sS", "@/healthz", NULL}));
    server_rig_done(&rig);
}

/* Who sends on is heard out, in both protocols: the refusal of a large upload arrives. */
static void a_refused_upload_hears_why(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "auth=1", NULL});
    static const char COMMAND[] =
        "for i in 1 2 3 4 5 6 7 8 9 10; do head -c 16000000 /dev/zero | curl -sS -m 20 %s -H "
        "'expect:' -o /dev/null -w '%%{http_code} ' --data-binary @- @/echo; done";
    for (int i = 0; i < 2; i++) {
        char command[600];
        (void)snprintf(command, sizeof command, COMMAND,
                       i ? "--http2-prior-knowledge" : "--http1.1");
        assert_same("401 401 401 401 401 401 401 401 401 401 ",
                    run(&rig, (const char *[]){"sh", "-c", command, NULL}));
    }
    assert_int_equal(0, server_rig_number(&rig, "held_len"));
    server_rig_done(&rig);
}

static void a_client_that_leaves_cancels_its_call(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    for (int i = 0; i < 2; i++) {
        int exit_code;
        free(server_rig_run(&rig, &exit_code,
                            (const char *[]){"curl", "-sS", "-m", "0.3",
                                             i ? "--http2-prior-knowledge" : "--http1.1", "@/never",
                                             NULL}));
        assert_int_equal(28, exit_code); /* curl's own time-out */
        wait_for_number(&rig, "cancelled", i + 1);
    }
    server_rig_done(&rig);
}

static void h2load_finds_no_failed_request(void **state)
{
    (void)state;
    server_rig rig;
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", NULL});
    static const char *const forms[][6] = {
        {"h2load", "-n20000", "-c8", "-m16", "@/files/x", NULL},
        {"h2load", "--h1", "-n10000", "-c8", "@/files/x", NULL},
    };
    for (size_t i = 0; i < 2; i++) {
        char *report = run(&rig, forms[i]);
        assert_contains(report, i ? "10000 succeeded, 0 failed" : "20000 succeeded, 0 failed");
        free(report);
    }
    wait_for_number(&rig, "connections_open", 1);
    server_rig_done(&rig);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curl_speaks_both_protocols_to_one_port),
        cmocka_unit_test(it_listens_on_several_addresses_at_once),
        cmocka_unit_test(grpcio_is_served),
        cmocka_unit_test(tls_and_tokens_protect_what_they_should),
        cmocka_unit_test(other_addresses_are_refused_without_tls),
        cmocka_unit_test(a_taken_port_is_an_error_that_names_it),
        cmocka_unit_test(calls_above_the_queue_are_503_with_advice),
        cmocka_unit_test(draining_finishes_what_runs),
        cmocka_unit_test(draining_does_not_wait_for_ever),
        cmocka_unit_test(the_server_has_the_threads_that_it_was_told),
        cmocka_unit_test(a_refused_upload_hears_why),
        cmocka_unit_test(a_client_that_leaves_cancels_its_call),
        cmocka_unit_test(h2load_finds_no_failed_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
