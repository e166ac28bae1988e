/* The agents a colony knows: adding, removing, health, who polls them. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <string.h>

#include <tidemark/watch.h>

#include "colony/registry.h"

static tide_status put(store_test *t, const char *name, const char *address)
{
    return tide_registry_put(t->store, name, address, "option", &t->err);
}

static tide_agent_row find(store_test *t, const char *name)
{
    tide_agent_row row;
    assert_ok_err(tide_registry_find(t->store, name, &row, &t->err), &t->err);
    return row;
}

static tide_status count_row(void *arg, const tide_agent_row *agent, tide_error *err)
{
    (void)agent;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

static int count(store_test *t, bool with_removed)
{
    int rows = 0;
    assert_ok_err(tide_registry_list(t->store, with_removed, count_row, &rows, &t->err), &t->err);
    return rows;
}

static void an_agent_is_added_moved_removed_and_brought_back(void **state)
{
    store_test *t = *state;
    assert_ok_err(put(t, "a", "host:4000"), &t->err);
    assert_ok_err(put(t, "a", "host:4000"), &t->err);
    tide_agent_row row = find(t, "a");
    assert_string_equal("host:4000", row.address);
    assert_string_equal("option", row.origin);
    assert_int_equal(TIDE_AGENT_UNSEEN, row.health);
    assert_false(row.is_removed);
    const int64_t added_at_us = row.added_at_us;
    virtual_env_advance(&t->clock, SECOND_US);
    assert_ok_err(put(t, "a", "other:4001"), &t->err);
    row = find(t, "a");
    assert_string_equal("other:4001", row.address);
    assert_true(row.added_at_us == added_at_us);
    assert_ok_err(tide_registry_remove(t->store, "a", &t->err), &t->err);
    assert_status(TIDE_NONE, tide_registry_remove(t->store, "a", &t->err));
    assert_status(TIDE_NONE, tide_registry_remove(t->store, "b", &t->err));
    assert_true(find(t, "a").is_removed);
    assert_int_equal(0, count(t, false));
    assert_int_equal(1, count(t, true));
    assert_ok_err(put(t, "a", "host:4000"), &t->err);
    assert_int_equal(1, count(t, false));
    assert_status(TIDE_NONE, tide_registry_find(t->store, "b", &row, &t->err));
}

/* Healthy within 30 s, degraded within 2 min, else away: on the store's clock. */
static void health_is_how_long_ago_an_agent_answered(void **state)
{
    store_test *t = *state;
    assert_ok(put(t, "a", "host:4000"));
    assert_ok_err(tide_registry_note(t->store, "a", "cannot\xff connect", &t->err), &t->err);
    tide_agent_row row = find(t, "a");
    assert_int_equal(TIDE_AGENT_UNSEEN, row.health);
    assert_string_equal("cannot\xef\xbf\xbd connect", row.error);
    assert_true(row.failed_at_us > 0);
    assert_ok_err(tide_registry_note(t->store, "a", NULL, &t->err), &t->err);
    row = find(t, "a");
    assert_int_equal(TIDE_AGENT_HEALTHY, row.health);
    assert_string_equal("", row.error);
    /* Its responses are refused: it answers, and is not healthy. */
    virtual_env_advance(&t->clock, TIDE_AGENT_HEALTHY_US / 2);
    assert_ok_err(tide_registry_note(t->store, "a", "refused", &t->err), &t->err);
    assert_int_equal(TIDE_AGENT_DEGRADED, find(t, "a").health);
    assert_ok_err(tide_registry_note(t->store, "a", NULL, &t->err), &t->err);
    virtual_env_advance(&t->clock, TIDE_AGENT_HEALTHY_US);
    assert_int_equal(TIDE_AGENT_HEALTHY, find(t, "a").health);
    virtual_env_advance(&t->clock, 1);
    assert_int_equal(TIDE_AGENT_DEGRADED, find(t, "a").health);
    virtual_env_advance(&t->clock, TIDE_AGENT_DEGRADED_US);
    assert_int_equal(TIDE_AGENT_AWAY, find(t, "a").health);
    assert_string_equal("away", tide_agent_health_name(TIDE_AGENT_AWAY));
    char long_error[5000];
    memset(long_error, 'x', sizeof long_error - 1);
    long_error[sizeof long_error - 1] = '\0';
    assert_ok_err(tide_registry_note(t->store, "a", long_error, &t->err), &t->err);
    assert_int_equal(TIDE_AGENT_ERROR_MAX, strlen(find(t, "a").error));
}

static void bad_names_and_addresses_are_refused(void **state)
{
    store_test *t = *state;
    char long_name[TIDE_AGENT_ID_MAX + 2];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_status(TIDE_E_INVALID, put(t, "", "host:1"));
    assert_status(TIDE_E_INVALID, put(t, long_name, "host:1"));
    assert_status(TIDE_E_INVALID, put(t, "a\nb", "host:1"));
    assert_status(TIDE_E_INVALID, put(t, "a\xff", "host:1"));
    const char *const bad[] = {"",        "host",    "host:",      ":80",   "host:0",  "host:70000",
                               "host:8x", "http://", "https:///x", "unix:", "host:1 ", "a/b:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, put(t, "a", bad[i]));
    const char *const good[] = {"host:1",      "[::1]:65535",      "127.0.0.1:4000",
                                "http://host", "https://host:1/x", "unix:/run/x"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_ok_err(put(t, "a", good[i]), &t->err);
}

/* ---- sharing ---- */

enum { COLONIES = 3, AGENTS = 10, ROUNDS = 40 };

#define LEASE_US (9 * SECOND_US)

static void add_agents(store_test *t, int count_of_them)
{
    char name[32];
    for (int i = 0; i < count_of_them; i++) {
        (void)snprintf(name, sizeof name, "agent-%02d", i);
        assert_ok(put(t, name, "host:1"));
    }
}

static void init_colonies(tide_holding *colonies)
{
    char id[16];
    for (int i = 0; i < COLONIES; i++) {
        (void)snprintf(id, sizeof id, "colony-%d", i);
        tide_holding_init(&colonies[i], id, LEASE_US);
    }
}

static void end_colonies(tide_holding *colonies)
{
    for (int i = 0; i < COLONIES; i++)
        tide_holding_done(&colonies[i]);
}

static void step(store_test *t, tide_holding *holding)
{
    int64_t next_us = 0;
    assert_ok_err(tide_holding_step(holding, t->store, &next_us, &t->err), &t->err);
    assert_true(next_us > 0 && next_us <= LEASE_US / 3);
}

/* At most one colony holds an agent; tokens that are held are those of the store. */
static int check_sharing(store_test *t, const tide_holding *colonies, unsigned alive)
{
    int held = 0;
    for (int c = 0; c < COLONIES; c++) {
        if (!(alive & 1U << c))
            continue;
        held += colonies[c].count;
        for (int i = 0; i < colonies[c].count; i++) {
            const tide_held_agent *agent = &colonies[c].agents[i];
            const tide_agent_row row = find(t, agent->agent_id);
            if (t->clock.mono_us < colonies[c].until_us) {
                assert_string_equal(colonies[c].colony_id, row.holder);
                assert_int_equal(agent->token, row.lease_token);
            }
            if (i > 0)
                assert_true(strcmp(colonies[c].agents[i - 1].agent_id, agent->agent_id) < 0);
        }
    }
    return held;
}

static void colonies_share_agents_fairly_and_take_over_from_the_dead(void **state)
{
    store_test *t = *state;
    tide_holding colonies[COLONIES];
    init_colonies(colonies);
    add_agents(t, AGENTS);
    step(t, &colonies[0]);
    assert_int_equal(AGENTS, colonies[0].count);
    step(t, &colonies[1]);
    assert_int_equal(0, colonies[1].count);
    step(t, &colonies[0]); /* gives up what is above its share */
    assert_int_equal(5, colonies[0].count);
    step(t, &colonies[1]);
    assert_int_equal(5, colonies[1].count);
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < COLONIES; c++)
            step(t, &colonies[c]);
    for (int c = 0; c < COLONIES; c++)
        assert_in_range(colonies[c].count, 2, 4);
    assert_int_equal(AGENTS, check_sharing(t, colonies, 7));

    /* colony-0 is killed: it renews nothing. The others take over once its leases are over, with higher tokens. */
    const tide_held_agent lost = colonies[0].agents[0];
    for (int i = 0; i < 5; i++) {
        virtual_env_advance(&t->clock, LEASE_US / 4);
        step(t, &colonies[1]);
        step(t, &colonies[2]);
    }
    assert_int_equal(5, colonies[1].count);
    assert_int_equal(5, colonies[2].count);
    assert_true(t->clock.mono_us >= colonies[0].until_us);
    assert_true(find(t, lost.agent_id).lease_token > lost.token);
    assert_int_equal(AGENTS, check_sharing(t, colonies, 6));

    /* It wakes up: what it held is gone. */
    step(t, &colonies[0]);
    assert_int_equal(0, colonies[0].count);
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < COLONIES; c++)
            step(t, &colonies[c]);
    assert_int_equal(AGENTS, check_sharing(t, colonies, 7));
    end_colonies(colonies);
}

/* Nobody takes more than its share, however much is free. */
static void each_takes_no_more_than_its_share(void **state)
{
    store_test *t = *state;
    tide_holding colonies[COLONIES];
    init_colonies(colonies);
    for (int c = 0; c < COLONIES; c++)
        step(t, &colonies[c]);
    add_agents(t, AGENTS);
    step(t, &colonies[0]);
    assert_int_equal(4, colonies[0].count);
    step(t, &colonies[1]);
    assert_int_equal(4, colonies[1].count);
    step(t, &colonies[2]);
    assert_int_equal(2, colonies[2].count);
    end_colonies(colonies);
}

static void a_removed_agent_is_dropped_and_an_added_one_taken(void **state)
{
    store_test *t = *state;
    tide_holding colonies[COLONIES];
    init_colonies(colonies);
    add_agents(t, 3);
    step(t, &colonies[0]);
    assert_int_equal(3, colonies[0].count);
    assert_ok(tide_registry_remove(t->store, "agent-01", &t->err));
    step(t, &colonies[0]);
    assert_int_equal(2, colonies[0].count);
    assert_string_equal("agent-02", colonies[0].agents[1].agent_id);
    assert_string_equal("", find(t, "agent-01").holder);
    assert_ok(put(t, "agent-07", "there:9"));
    assert_ok(put(t, "agent-02", "moved:9"));
    step(t, &colonies[0]);
    assert_int_equal(3, colonies[0].count);
    assert_string_equal("moved:9", colonies[0].agents[1].address);
    end_colonies(colonies);
}

static void a_clean_stop_gives_everything_back(void **state)
{
    store_test *t = *state;
    tide_holding colonies[COLONIES];
    init_colonies(colonies);
    add_agents(t, 4);
    step(t, &colonies[0]);
    const int64_t token = colonies[0].agents[0].token;
    assert_ok_err(tide_holding_release(&colonies[0], t->store, &t->err), &t->err);
    assert_int_equal(0, colonies[0].count);
    step(t, &colonies[1]);
    assert_int_equal(4, colonies[1].count);
    assert_true(colonies[1].agents[0].token > token);
    end_colonies(colonies);
}

/* Two processes under one name: the second waits until the first is over. */
static void a_second_colony_of_the_same_name_is_refused(void **state)
{
    store_test *t = *state;
    tide_holding first;
    tide_holding second;
    int64_t next_us = 0;
    tide_holding_init(&first, "same", LEASE_US);
    tide_holding_init(&second, "same", LEASE_US);
    add_agents(t, 2);
    step(t, &first);
    assert_status(TIDE_E_CONFLICT, tide_holding_step(&second, t->store, &next_us, &t->err));
    assert_int_equal(0, second.count);
    virtual_env_advance(&t->clock, LEASE_US + 1);
    step(t, &second);
    assert_int_equal(2, second.count);
    assert_status(TIDE_E_CONFLICT, tide_holding_step(&first, t->store, &next_us, &t->err));
    assert_int_equal(2, first.count); /* nothing is known; but its time is over */
    assert_true(t->clock.mono_us >= first.until_us);
    tide_holding_done(&first);
    tide_holding_done(&second);
}

/* A guest takes what nobody holds, and makes nobody give anything up. */
static void a_guest_takes_what_is_free(void **state)
{
    store_test *t = *state;
    tide_holding colonies[COLONIES];
    init_colonies(colonies);
    add_agents(t, 3);
    step(t, &colonies[0]);
    add_agents(t, 6);
    colonies[1].is_guest = true;
    step(t, &colonies[1]);
    assert_int_equal(3, colonies[1].count);
    step(t, &colonies[0]);
    assert_int_equal(3, colonies[0].count);
    assert_int_equal(6, check_sharing(t, colonies, 3));
    assert_ok_err(tide_holding_release(&colonies[1], t->store, &t->err), &t->err);
    step(t, &colonies[0]);
    assert_int_equal(6, colonies[0].count);
    end_colonies(colonies);
}

/* Colonies come, go, stall and are killed at random: nobody ever holds what another holds, tokens only rise, and in the end all is held. */
static void colonies_that_come_and_go_never_share_an_agent(void **state)
{
    store_test *t = *state;
    tide_holding colonies[COLONIES];
    init_colonies(colonies);
    add_agents(t, AGENTS);
    int64_t tokens[AGENTS] = {0};
    prng random;
    prng_init(&random, prng_seed_from_env(3));
    for (int round = 0; round < ROUNDS; round++) {
        const int c = (int)prng_below(&random, COLONIES);
        if (prng_chance(&random, 1, 10))
            assert_ok(tide_holding_release(&colonies[c], t->store, &t->err));
        else
            step(t, &colonies[c]);
        virtual_env_advance(&t->clock, (int64_t)prng_below(&random, LEASE_US / 2));
        (void)check_sharing(t, colonies, 7);
        for (int i = 0; i < AGENTS; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "agent-%02d", i);
            const int64_t token = find(t, name).lease_token;
            assert_true(token >= tokens[i]);
            tokens[i] = token;
        }
    }
    for (int i = 0; i < 6; i++) {
        virtual_env_advance(&t->clock, LEASE_US / 3);
        for (int c = 0; c < COLONIES; c++)
            step(t, &colonies[c]);
    }
    assert_int_equal(AGENTS, check_sharing(t, colonies, 7));
    end_colonies(colonies);
}

/* Thousands of agents: a bounded number is taken in one turn, and all of them in the end. */
static void many_agents_are_taken_in_turns(void **state)
{
    store_test *t = *state;
    tide_holding colony;
    tide_holding_init(&colony, "colony", LEASE_US);
    char name[16];
    for (int i = 0; i < 600; i++) {
        (void)snprintf(name, sizeof name, "agent-%04d", i);
        assert_ok(put(t, name, "host:1"));
    }
    int64_t next_us = 0;
    int turns = 0;
    do {
        assert_ok_err(tide_holding_step(&colony, t->store, &next_us, &t->err), &t->err);
        turns++;
    } while (colony.count < 600 && turns < 10);
    assert_int_equal(3, turns);
    assert_true(next_us > SECOND_US);
    tide_holding_done(&colony);
}

/* A file of agents is kept as a whole, a thousand in a transaction; one that is wrong, and nothing is. */
static void many_agents_are_registered_at_once(void **state)
{
    enum { MANY = 2500 };
    static char names[MANY][16];
    static tide_agent_given given[MANY];
    store_test *t = *state;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "agent-%d", i);
        given[i] =
            (tide_agent_given){.agent_id = names[i], .address = "host:4000", .origin = "file"};
    }
    given[MANY - 1].address = "nowhere";
    assert_status(TIDE_E_INVALID, tide_registry_put_all(t->store, given, MANY, &t->err));
    assert_int_equal(0, count(t, true));
    given[MANY - 1].address = "host:4001";
    assert_ok_err(tide_registry_put_all(t->store, given, MANY, &t->err), &t->err);
    assert_int_equal(MANY, count(t, false));
    assert_string_equal("host:4001", find(t, names[MANY - 1]).address);
}

/* Whoever watches the registry is told of changes, and can tell them from what else happens in the store. */
static void a_change_of_the_registry_is_told(void **state)
{
    store_test *t = *state;
    tide_watch *watch = NULL;
    int64_t before = 0;
    int64_t after = 0;
    assert_ok_err(tide_registry_mark(t->store, &before, &t->err), &t->err);
    assert_int_equal(0, before);
    assert_ok_err(tide_watch_open(&watch, t->store, TIDE_REGISTRY_TOPIC, &t->err), &t->err);
    assert_ok_err(put(t, "a", "host:4000"), &t->err);
    assert_ok_err(tide_watch_wait(watch, 60 * SECOND_US, &t->err), &t->err);
    assert_ok_err(tide_registry_mark(t->store, &before, &t->err), &t->err);
    assert_true(before > 0);
    assert_ok_err(tide_registry_note(t->store, "a", NULL, &t->err), &t->err);
    assert_ok_err(tide_registry_mark(t->store, &after, &t->err), &t->err);
    assert_true(after == before);
    assert_ok_err(tide_registry_remove(t->store, "a", &t->err), &t->err);
    assert_ok_err(tide_registry_mark(t->store, &after, &t->err), &t->err);
    assert_true(after > before);
    tide_watch_close(watch);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(an_agent_is_added_moved_removed_and_brought_back),
        STORE_CASE(health_is_how_long_ago_an_agent_answered),
        STORE_CASE(bad_names_and_addresses_are_refused),
        STORE_CASE(colonies_share_agents_fairly_and_take_over_from_the_dead),
        STORE_CASE(each_takes_no_more_than_its_share),
        STORE_CASE(a_removed_agent_is_dropped_and_an_added_one_taken),
        STORE_CASE(a_clean_stop_gives_everything_back),
        STORE_CASE(a_second_colony_of_the_same_name_is_refused),
        STORE_CASE(a_guest_takes_what_is_free),
        STORE_CASE(colonies_that_come_and_go_never_share_an_agent),
        STORE_CASE(many_agents_are_taken_in_turns),
        STORE_CASE(many_agents_are_registered_at_once),
        STORE_CASE(a_change_of_the_registry_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
