/* The parts of the simulated world, one by one: clocks, wakes, links, crashes. */
#include "support/sim/sim.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"

enum {
    RECEIVED_MAX = 1000,
    EVENTS_MAX = 200000,
};

typedef struct probe {
    sim_id id;
    int64_t every_us; /* steps so often on its own clock; 0: idle */
    int64_t sleep_us; /* sleeps so long inside each step */
    int steps;
    int restarts;
    int received[RECEIVED_MAX];
    int received_len;
    int64_t received_at_us;
} probe;

static int64_t probe_step(void *self, sim *world)
{
    probe *p = self;
    tide_env *env = sim_env(world, p->id);
    p->steps++;
    if (p->sleep_us > 0)
        env->sleep_us(env, p->sleep_us);
    return p->every_us > 0 ? env->mono_us(env) + p->every_us : SIM_IDLE;
}

static void probe_receive(void *self, sim *world, sim_id from, tide_view message)
{
    probe *p = self;
    (void)from;
    assert(p->received_len < RECEIVED_MAX && message.len == sizeof(int));
    memcpy(&p->received[p->received_len++], message.ptr, sizeof(int));
    p->received_at_us = sim_now_us(world);
}

static void probe_crash(void *self, sim *world, sim_crash how)
{
    (void)self;
    (void)world;
    (void)how;
}

static void probe_restart(void *self, sim *world)
{
    (void)world;
    ((probe *)self)->restarts++;
}

static void add_probe(sim *world, probe *p)
{
    p->id = sim_add(world, &(sim_actor){.name = "probe",
                                        .self = p,
                                        .step = probe_step,
                                        .receive = probe_receive,
                                        .crash = probe_crash,
                                        .restart = probe_restart});
}

static void free_world(sim **world)
{
    sim_free(*world);
}

static void send_numbers(sim *world, const probe *from, const probe *to, int count)
{
    for (int i = 0; i < count; i++)
        sim_send(world, from->id, to->id, tide_view_bytes(&i, sizeof(i)));
}

/* A clock that runs 10 % fast makes its owner step 10 % more often; its wall clock is off by
 * what was set. */
static void wake_times_follow_the_actors_own_clock(void **state)
{
    (void)state;
    TIDE_CLEANUP(free_world) sim *world = sim_new("clocks", 1);
    probe right = {.every_us = 1000};
    probe fast = {.every_us = 1000};
    probe slow = {.every_us = 1000};
    add_probe(world, &right);
    add_probe(world, &fast);
    add_probe(world, &slow);
    sim_set_clock(world, fast.id, 5 * SIM_SECOND_US, 100000);
    sim_set_clock(world, slow.id, 0, -100000);
    assert_true(sim_run(world, 10 * SIM_SECOND_US, EVENTS_MAX));
    assert_in_range(right.steps, 10001, 10001);
    assert_in_range(fast.steps, 10990, 11001);
    assert_in_range(slow.steps, 8990, 9002);

    tide_env *env = sim_env(world, fast.id);
    assert_int_equal(11 * SIM_SECOND_US, env->mono_us(env));
    assert_int_equal(VIRTUAL_ENV_WALL_US + 16 * SIM_SECOND_US, env->wall_us(env));
}

/* A message wakes its receiver early; the wake it replaces is forgotten, or steps would double
 * for ever. */
static void an_early_wake_replaces_the_later_one(void **state)
{
    (void)state;
    TIDE_CLEANUP(free_world) sim *world = sim_new("wakes", 1);
    probe a = {0};
    probe b = {.every_us = 1000};
    add_probe(world, &a);
    add_probe(world, &b);
    assert_true(sim_run(world, 500, EVENTS_MAX));
    send_numbers(world, &a, &b, 1);
    assert_true(sim_run(world, 10500, EVENTS_MAX));
    assert_int_equal(1 + 11, b.steps); /* at 0, at 500, then at 1500, ... 10500 */
}

/* A sleep inside a step holds up its own actor only. */
static void a_sleeping_actor_does_not_stop_the_world(void **state)
{
    (void)state;
    TIDE_CLEANUP(free_world) sim *world = sim_new("sleep", 1);
    probe sleeper = {.sleep_us = SIM_SECOND_US};
    probe other = {.every_us = 100000};
    add_probe(world, &sleeper);
    add_probe(world, &other);
    assert_true(sim_run(world, 0, EVENTS_MAX)); /* the sleeper is now inside its first step */
    send_numbers(world, &other, &sleeper, 1);
    assert_true(sim_run(world, 900000, EVENTS_MAX));
    assert_int_equal(10, other.steps);
    assert_int_equal(0, sleeper.received_len);
    assert_true(sim_run(world, SIM_SECOND_US, EVENTS_MAX));
    assert_int_equal(1, sleeper.received_len);
    assert_int_equal(SIM_SECOND_US, sleeper.received_at_us);
}

static bool is_in_order(const probe *p)
{
    for (int i = 1; i < p->received_len; i++)
        if (p->received[i] < p->received[i - 1])
            return false;
    return true;
}

/* Delays alone do not reorder a link; only reorder_ppm does. */
static void a_link_keeps_order_unless_told_otherwise(void **state)
{
    (void)state;
    for (uint32_t reorder_ppm = 0; reorder_ppm <= SIM_PPM; reorder_ppm += SIM_PPM) {
        TIDE_CLEANUP(free_world) sim *world = sim_new("order", 3);
        probe a = {0};
        probe b = {0};
        sim_set_faults(world, &(sim_faults){.delay_max_us = 1000, .reorder_ppm = reorder_ppm});
        add_probe(world, &a);
        add_probe(world, &b);
        send_numbers(world, &a, &b, 100);
        assert_true(sim_run(world, SIM_SECOND_US, EVENTS_MAX));
        assert_int_equal(100, b.received_len);
        assert_int_equal(reorder_ppm == 0, is_in_order(&b));
    }
}

/* The rates are kept: of 500 messages about 10 % are lost and of the rest about 20 %
 * doubled. */
static void loss_and_copies_come_at_their_rates(void **state)
{
    (void)state;
    TIDE_CLEANUP(free_world) sim *world = sim_new("rates", 5);
    probe a = {0};
    probe b = {0};
    sim_set_faults(world, &(sim_faults){.loss_ppm = 100000, .duplicate_ppm = 200000});
    add_probe(world, &a);
    add_probe(world, &b);
    send_numbers(world, &a, &b, 500);
    assert_true(sim_run(world, SIM_SECOND_US, EVENTS_MAX));
    assert_in_range(b.received_len, 490, 590); /* 540 expected, 16 standard deviation */
}

/* A cut takes one direction, for its time, with what is under way. */
static void a_cut_link_loses_what_is_sent_and_what_is_under_way(void **state)
{
    (void)state;
    TIDE_CLEANUP(free_world) sim *world = sim_new("cut", 1);
    probe a = {0};
    probe b = {0};
    sim_set_faults(world, &(sim_faults){.delay_min_us = 10, .delay_max_us = 10});
    add_probe(world, &a);
    add_probe(world, &b);
    send_numbers(world, &a, &b, 1); /* under way */
    sim_cut(world, a.id, b.id, 1000);
    send_numbers(world, &a, &b, 1); /* into the cut */
    send_numbers(world, &b, &a, 1); /* the other way */
    assert_true(sim_run(world, 1000, EVENTS_MAX));
    assert_int_equal(0, b.received_len);
    assert_int_equal(1, a.received_len);
    send_numbers(world, &a, &b, 1);
    assert_true(sim_run(world, 2000, EVENTS_MAX));
    assert_int_equal(1, b.received_len);
}

/* kill -9 leaves the machine running; after a power cut it has booted anew. */
static void only_a_power_cut_gives_a_new_boot(void **state)
{
    (void)state;
    TIDE_CLEANUP(free_world) sim *world = sim_new("boot", 1);
    probe p = {.every_us = 1000};
    probe other = {0};
    add_probe(world, &p);
    add_probe(world, &other);
    tide_env *env = sim_env(world, p.id);
    char boots[3][TIDE_BOOT_ID_SIZE];
    env->boot_id(env, boots[0]);
    assert_true(sim_run(world, SIM_SECOND_US, EVENTS_MAX));

    sim_crash_now(world, p.id, SIM_CRASH_PROCESS, 500000);
    assert_false(sim_is_up(world, p.id));
    const int steps = p.steps;
    send_numbers(world, &other, &p, 1); /* no receiver */
    assert_true(sim_run(world, SIM_SECOND_US + 499999, EVENTS_MAX));
    assert_int_equal(steps, p.steps);
    assert_int_equal(0, p.received_len);
    assert_true(sim_run(world, 2 * SIM_SECOND_US, EVENTS_MAX));
    assert_true(sim_is_up(world, p.id));
    assert_true(p.steps > steps);
    env->boot_id(env, boots[1]);
    assert_string_equal(boots[0], boots[1]);
    assert_int_equal(2 * SIM_SECOND_US, env->boot_us(env));

    sim_crash_now(world, p.id, SIM_CRASH_POWER, 500000);
    assert_true(sim_run(world, 3 * SIM_SECOND_US, EVENTS_MAX));
    env->boot_id(env, boots[2]);
    assert_string_not_equal(boots[1], boots[2]);
    assert_int_equal(500000, env->boot_us(env));
    assert_int_equal(2, p.restarts);
}

static int64_t step_at_once(void *self, sim *world)
{
    (void)self;
    (void)world;
    return 0;
}

/* An actor that always wants to run at once would stop time: that is a failure, not a hang. */
static void a_livelock_is_a_failure(void **state)
{
    (void)state;
    TIDE_CLEANUP(free_world) sim *world = sim_new("livelock", 1);
    sim_set_report(world, NULL);
    sim_add(world, &(sim_actor){.name = "restless", .step = step_at_once});
    assert_false(sim_run(world, SIM_SECOND_US, 1000));
    assert_string_equal("more than 1000 events", sim_failure(world));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wake_times_follow_the_actors_own_clock),
        cmocka_unit_test(an_early_wake_replaces_the_later_one),
        cmocka_unit_test(a_sleeping_actor_does_not_stop_the_world),
        cmocka_unit_test(a_link_keeps_order_unless_told_otherwise),
        cmocka_unit_test(loss_and_copies_come_at_their_rates),
        cmocka_unit_test(a_cut_link_loses_what_is_sent_and_what_is_under_way),
        cmocka_unit_test(only_a_power_cut_gives_a_new_boot),
        cmocka_unit_test(a_livelock_is_a_failure),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
