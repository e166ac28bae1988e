/* Hostile requests through the proxies that people use: none is smuggled past them. */
#include <stdio.h>
#include <stdlib.h>

#include "net/server/server_rig.h"
#include "support/check.h"

/* The requests that reached the server and that no proxy forwarded. Its connections have to end first: what a proxy sent
 * last may not have been read. */
static void nothing_is_smuggled(const char *proxy)
{
    server_rig rig;
    char rows[4096];
    (void)snprintf(rows, sizeof rows, "%s/tests/net/http/hostile_requests.txt",
                   getenv("TIDEMARK_SOURCE_DIR"));
    server_rig_start(&rig, (const char *[]){"127.0.0.1:0", "auth=1", NULL});
    char *said = server_rig_client(&rig, "hostile_proxies.py", (const char *[]){proxy, rows, NULL});
    print_message("%s: %s", proxy, said);
    assert_contains(said, "ok");
    free(said);
    while (server_rig_number(&rig, "connections_open") > 1) /* that of the number itself */
        ;
    assert_int_equal(0, server_rig_number(&rig, "refused_unauthenticated"));
    server_rig_done(&rig);
}

static void nothing_is_smuggled_past_haproxy(void **state)
{
    (void)state;
    nothing_is_smuggled("haproxy");
}

static void nothing_is_smuggled_past_nginx(void **state)
{
    (void)state;
    nothing_is_smuggled("nginx");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_smuggled_past_haproxy),
        cmocka_unit_test(nothing_is_smuggled_past_nginx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
