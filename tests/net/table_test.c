/* The tables of a server: routes, peers, the memory budget. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/held.h"
#include "net/peers.h"
#include "net/route.h"
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
    prng_init(&random, 11);
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
    tide_held held;
    tide_held_init(&held, &budget, 8000);
    char piece[100] = {0};
    for (int i = 0; i < 80; i++) {
        assert_ok(tide_held_append(&held, tide_view_bytes(piece, sizeof piece)));
        assert_true(held.charged >= held.bytes.capacity);
        assert_int_equal(held.charged, atomic_load(&budget.used));
    }
    assert_status(TIDE_E_LIMIT, tide_held_append(&held, tide_view_bytes(piece, 1)));
    tide_held second;
    tide_held_init(&second, &budget, 8000);
    tide_status status = TIDE_OK;
    while (status == TIDE_OK)
        status = tide_held_append(&second, tide_view_bytes(piece, sizeof piece));
    assert_int_equal(TIDE_E_BUSY, status);
    assert_true(atomic_load(&budget.used) <= budget.max);
    tide_held_done(&second);
    size_t len;
    char *taken = tide_held_take(&held, &len);
    assert_int_equal(8000, len);
    free(taken);
    assert_int_equal(0, atomic_load(&budget.used));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_path_wins_then_the_longest_prefix),
        cmocka_unit_test(a_peer_is_an_address_or_a_64_bit_prefix),
        cmocka_unit_test(peers_are_counted_right),
        cmocka_unit_test(held_bytes_are_charged_and_given_back),
        cmocka_unit_test(a_budget_is_right_among_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
