/* The tables of a server: routes, peers, the memory budget. */
#include <arpa/inet.h>
#include <glob.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "net/call/route.h"
#include "net/http/charged_buffer.h"
#include "net/server/peer_quota.h"
#include "net/server/peers.h"
#include "support/check.h"
#include "support/prng.h"

static void do_nothing(tide_call *call, tide_view message, void *arg)
{
    (void)call;
    (void)message;
    (void)arg;
}

static const tide_method METHODS[] = {
    {"/a.B/C", TIDE_CALL_UNARY, TIDE_ROLE_NONE, false, NULL, NULL, do_nothing}, {0}};

static const tide_route ROUTES[] = {
    {"GET", "/files/", true, TIDE_ROLE_NONE, false, do_nothing},
    {"GET", "/files/deep/", true, TIDE_ROLE_NONE, false, do_nothing},
    {"GET", "/files/exact", false, TIDE_ROLE_NONE, false, do_nothing},
    {"PUT", "/files/exact", false, TIDE_ROLE_NONE, false, do_nothing},
    {0},
};

static const char *find(const tide_routes *routes, const char *method, const char *path)
{
    bool has_path;
    const char *allow;
    const tide_route_entry *entry = tide_routes_find(routes, method, path, &has_path, &allow);
    return entry ? tide_route_entry_path(entry) : has_path ? allow : "none";
}

static void the_exact_path_wins_then_the_longest_prefix(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_routes_freep) tide_routes *routes = NULL;
    tide_error err;
    assert_ok_err(tide_routes_new(&routes, &err), &err);
    assert_ok_err(tide_routes_add_methods(routes, METHODS, NULL, &err), &err);
    assert_ok_err(tide_routes_add(routes, ROUTES, NULL, &err), &err);
    assert_string_equal("/files/exact", find(routes, "GET", "/files/exact"));
    assert_string_equal("/files/", find(routes, "GET", "/files/exactly"));
    assert_string_equal("/files/deep/", find(routes, "HEAD", "/files/deep/x"));
    assert_string_equal("/a.B/C", find(routes, "POST", "/a.B/C"));
    assert_string_equal("POST", find(routes, "GET", "/a.B/C"));
    assert_string_equal("none", find(routes, "GET", "/file"));
    assert_status(TIDE_E_INVALID, tide_routes_add_methods(routes, METHODS, NULL, &err));
    assert_int_equal(5, tide_routes_count(routes));
}

static tide_peer_key key_of(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    tide_peer_key key;
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        assert_true(tide_peer_key_of(&key, (const struct sockaddr *)&v4));
    else {
        assert_int_equal(1, inet_pton(AF_INET6, text, &v6.sin6_addr));
        assert_true(tide_peer_key_of(&key, (const struct sockaddr *)&v6));
    }
    return key;
}

/* One host has a whole /64 at its disposal; mapped addresses are the IPv4 they map. */
static void a_peer_is_an_address_or_a_64_bit_prefix(void **state)
{
    (void)state;
    const tide_peer_key rows[] = {key_of("2001:db8::1"), key_of("2001:db8::ffff:1"),
                                  key_of("2001:db8:0:1::1"), key_of("10.0.0.1"),
                                  key_of("::ffff:10.0.0.1")};
    assert_memory_equal(&rows[0], &rows[1], sizeof rows[0]);
    assert_memory_not_equal(&rows[0], &rows[2], sizeof rows[0]);
    assert_memory_equal(&rows[3], &rows[4], sizeof rows[0]);
    const struct sockaddr local = {.sa_family = AF_UNIX};
    tide_peer_key key;
    assert_false(tide_peer_key_of(&key, &local));
}

/* Against a plain array: enter and leave in any order, many keys. */
static void peers_are_counted_right(void **state)
{
    (void)state;
    enum { PEERS = 300, STEPS = 100000, MAX = 5 };
    tide_peers peers;
    tide_peers_init(&peers);
    int counts[PEERS] = {0};
    prng random;
    prng_init(&random, prng_seed_from_env(11));
    for (int i = 0; i < STEPS; i++) {
        const size_t who = (size_t)(prng_u64(&random) % PEERS);
        tide_peer_key key = {{4, (uint8_t)who, (uint8_t)(who >> 8)}};
        if (prng_u64(&random) % 2) {
            assert_int_equal(counts[who] < MAX, tide_peers_enter(&peers, &key, MAX));
            counts[who] += counts[who] < MAX;
        } else if (counts[who] > 0) {
            tide_peers_leave(&peers, &key);
            counts[who]--;
        }
    }
    size_t used = 0;
    for (size_t i = 0; i < PEERS; i++)
        used += counts[i] > 0;
    assert_int_equal(used, peers.used);
    tide_peers_done(&peers);
}

/* What is charged is what is allocated, and all of it is given back. */
static void held_bytes_are_charged_and_given_back(void **state)
{
    (void)state;
    tide_budget budget = {.max = 10000};
    tide_charged_buffer held;
    tide_charged_buffer_init(&held, &budget, 8000);
    char piece[100] = {0};
    for (int i = 0; i < 80; i++) {
        assert_ok(tide_charged_buffer_append(&held, tide_view_bytes(piece, sizeof piece)));
        assert_true(held.charged >= held.bytes.capacity);
        assert_int_equal(held.charged, atomic_load(&budget.used));
    }
    assert_status(TIDE_E_LIMIT, tide_charged_buffer_append(&held, tide_view_bytes(piece, 1)));
    tide_charged_buffer second;
    tide_charged_buffer_init(&second, &budget, 8000);
    tide_status status = TIDE_OK;
    while (status == TIDE_OK)
        status = tide_charged_buffer_append(&second, tide_view_bytes(piece, sizeof piece));
    assert_int_equal(TIDE_E_BUSY, status);
    assert_true(atomic_load(&budget.used) <= budget.max);
    tide_charged_buffer_done(&second);
    size_t len;
    char *taken = tide_charged_buffer_take(&held, &len);
    assert_int_equal(8000, len);
    free(taken);
    assert_int_equal(0, atomic_load(&budget.used));
}

/* Unfinished uploads of one user do not keep out the others of the machine. */
static void each_user_of_this_machine_has_a_share(void **state)
{
    (void)state;
    tide_net_limits limits;
    tide_net_limits_init(&limits);
    tide_budget requests;
    tide_budget answers;
    tide_peer_quotas quotas;
    tide_budget_init(&requests, 1000000, NULL);
    tide_budget_init(&answers, 1000000, NULL);
    tide_peer_quotas_init(&quotas, &requests, &answers, &limits);
    const tide_peer_owner root = {.is_known = true, .uid = 0};
    const tide_peer_owner user = {.is_known = true, .uid = 1000};
    tide_peer_quota *all[] = {tide_peer_quota_get(&quotas, "127.0.0.1:5", root),
                              tide_peer_quota_get(&quotas, "127.0.0.1:6", user),
                              tide_peer_quota_get(&quotas, "127.0.0.1:7", (tide_peer_owner){0}),
                              tide_peer_quota_get(&quotas, "unix:", user),
                              tide_peer_quota_get(&quotas, "unix:", root)};
    tide_peer_quota *same = tide_peer_quota_get(&quotas, "127.0.0.1:8", user);
    const size_t count = sizeof all / sizeof all[0];
    assert_ptr_equal(all[1], same);
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++)
            assert_ptr_not_equal(all[i], all[j]);
    for (size_t i = 0; i < count; i++)
        tide_peer_quota_release(&quotas, all[i]);
    tide_peer_quota_release(&quotas, same);
    tide_peer_quotas_done(&quotas);
}

/* What one address holds is taken from what all may hold, and bounded by its share; so others have the rest. */
static void an_address_has_its_share_and_no_more(void **state)
{
    (void)state;
    tide_net_limits limits;
    tide_net_limits_init(&limits);
    limits.peer_budget_len = 640000;
    limits.peer_answer_len = 640000;
    tide_budget requests;
    tide_budget answers;
    tide_peer_quotas quotas;
    tide_budget_init(&requests, 1000000, NULL);
    tide_budget_init(&answers, 1000000, NULL);
    tide_peer_quotas_init(&quotas, &requests, &answers, &limits);
    tide_peer_quota *one = tide_peer_quota_get(&quotas, "10.0.0.1:5", (tide_peer_owner){0});
    tide_peer_quota *other = tide_peer_quota_get(&quotas, "10.0.0.2:5", (tide_peer_owner){0});
    tide_peer_quota *same = tide_peer_quota_get(&quotas, "10.0.0.1:99", (tide_peer_owner){0});
    tide_peer_quota *six = tide_peer_quota_get(&quotas, "[2001:db8::1]:5", (tide_peer_owner){0});
    tide_peer_quota *six_too =
        tide_peer_quota_get(&quotas, "[2001:db8::2]:5", (tide_peer_owner){0});
    assert_ptr_equal(one, same);
    assert_ptr_equal(six, six_too);
    assert_ptr_not_equal(one, other);
    assert_ptr_not_equal(one, six);
    assert_true(tide_budget_take(&one->requests, 500000));
    assert_int_equal(500000, tide_budget_used(&requests));
    assert_false(tide_budget_take(&one->requests, 110000)); /* its share, less the reserve */
    assert_int_equal(500000, tide_budget_used(&requests));
    assert_true(tide_budget_take(&other->requests, 400000));
    assert_false(tide_budget_take(&six->requests, 100000)); /* all, less the reserve */
    assert_int_equal(0, tide_budget_used(&six->requests));
    assert_true(tide_budget_take(&six->requests, 60000)); /* small */
    assert_int_equal(960000, tide_budget_used(&requests));
    tide_budget_give(&six->requests, 60000);
    tide_budget_give(&other->requests, 400000);
    tide_budget_give(&one->requests, 500000);
    assert_int_equal(0, tide_budget_used(&requests));
    tide_peer_quota *all[] = {one, other, same, six, six_too};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tide_peer_quota_release(&quotas, all[i]);
    tide_peer_quotas_done(&quotas);
}

/* Who grows from small to large leaves the reserve to others. */
static void a_held_body_becomes_large_as_it_grows(void **state)
{
    (void)state;
    tide_budget budget;
    tide_budget_init(&budget, 1600000, NULL);
    assert_true(tide_budget_take(&budget, 1450000));
    tide_charged_buffer held;
    tide_charged_buffer_init(&held, &budget, 1000000);
    static const char piece[32768];
    assert_ok(tide_charged_buffer_append(&held, tide_view_bytes(piece, sizeof piece)));
    assert_ok(tide_charged_buffer_append(&held, tide_view_bytes(piece, sizeof piece)));
    assert_status(TIDE_E_BUSY,
                  tide_charged_buffer_append(&held, tide_view_bytes(piece, sizeof piece)));
    tide_charged_buffer_done(&held);
    tide_budget_give(&budget, 1450000);
    assert_int_equal(0, tide_budget_used(&budget));
}

static void *take_and_give(void *arg)
{
    tide_budget *budget = arg;
    for (int i = 0; i < 100000; i++) {
        if (tide_budget_take(budget, 3))
            tide_budget_give(budget, 3);
    }
    return NULL;
}

static void a_budget_is_right_among_threads(void **state)
{
    (void)state;
    tide_budget budget = {.max = 8};
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, take_and_give, &budget));
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(0, pthread_join(threads[i], NULL));
    assert_int_equal(0, atomic_load(&budget.used));
    assert_int_equal(8, tide_budget_left(&budget));
}

/* Does a comment of this text say "Limit name" or "Limits ..., name ..." on its line? */
static bool tells_of_limit(const char *text, const char *name)
{
    const size_t len = strlen(name);
    for (const char *line = strstr(text, "/* Limit"); line; line = strstr(line + 1, "/* Limit")) {
        const char *end = strchrnul(line, '\n');
        for (const char *at = strstr(line, name); at && at < end; at = strstr(at + 1, name)) {
            if (at[-1] == ' ' && strchr(" ,:.;", at[len]))
                return true;
        }
    }
    return false;
}

/* limits.h: a row is an option (tests/runtime/listener_test.c), and a test that says so, here or of
 * the queries. */
static void every_limit_has_a_test(void **state)
{
    (void)state;
    static const char *const places[] = {"tests/net/*/*_test.c", "tests/runtime/query/*_test.c"};
    glob_t files = {0};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char pattern[4096];
        (void)snprintf(pattern, sizeof pattern, "%s/%s", getenv("TIDEMARK_SOURCE_DIR"), places[i]);
        assert_int_equal(0, glob(pattern, i > 0 ? GLOB_APPEND : 0, NULL, &files));
    }
    size_t count;
    const tide_net_limit_row *rows = tide_net_limit_rows(&count);
    for (size_t i = 0; i < count; i++) {
        bool is_told = false;
        for (size_t k = 0; k < files.gl_pathc && !is_told; k++) {
            TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
            tide_buffer_init(&text, 4 << 20);
            assert_ok(tide_file_read(&text, files.gl_pathv[k], NULL));
            is_told = tells_of_limit(tide_buffer_text(&text), rows[i].name);
        }
        if (!is_told)
            fail_msg("no test says that it is about the limit %s", rows[i].name);
    }
    globfree(&files);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_path_wins_then_the_longest_prefix),
        cmocka_unit_test(a_peer_is_an_address_or_a_64_bit_prefix),
        cmocka_unit_test(peers_are_counted_right),
        cmocka_unit_test(held_bytes_are_charged_and_given_back),
        cmocka_unit_test(an_address_has_its_share_and_no_more),
        cmocka_unit_test(each_user_of_this_machine_has_a_share),
        cmocka_unit_test(a_held_body_becomes_large_as_it_grows),
        cmocka_unit_test(a_budget_is_right_among_threads),
        cmocka_unit_test(every_limit_has_a_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
