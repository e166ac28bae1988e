/* The simulator, tried on a protocol small enough to see through: stop-and-wait. A sender hands
 * the numbers 1..TOTAL to a receiver over a bad network; both may crash at any time. Each number
 * must be delivered once, in order. Four deliberate mistakes show that the simulator finds what
 * it is there to find. */
#include "support/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/virtual_env.h"

enum {
    TOTAL = 20,
    UNKNOWN = -1,
    LOG_MAX = 1000,
    RETRY_US = 40000,
    SEEDS = 300,
    EVENTS_MAX = 200000,
};

#define RUN_US (INT64_C(30) * SIM_SECOND_US)

typedef enum mistake {
    NO_MISTAKE,
    NO_DEDUP,         /* delivers whatever arrives */
    ACK_BEFORE_SYNC,  /* answers for what only the page cache has */
    FORGETS_IN_CRASH, /* keeps the last number in memory, and trusts the first it sees */
    GIVES_UP,         /* the sender asks once for each number: safe, but never done */
} mistake;

/* What a disk holds: the files as written, and the part of it that would survive a power cut. */
typedef struct sender_disk {
    int64_t next;
} sender_disk;

typedef struct receiver_disk {
    int64_t last;
    int64_t log[LOG_MAX];
    int log_len;
} receiver_disk;

typedef struct sender {
    sim_id id;
    sim_id peer;
    mistake has;
    sender_disk disk; /* every write is synced at once */
    int64_t retry_at_us;
    int64_t highest_acked;
} sender;

typedef struct receiver {
    sim_id id;
    mistake has;
    receiver_disk written;
    receiver_disk synced;
} receiver;

typedef struct pair {
    sim *world;
    sender sender;
    receiver receiver;
} pair;

static int64_t sender_step(void *self, sim *world)
{
    sender *s = self;
    if (s->disk.next > TOTAL)
        return SIM_IDLE;
    const int64_t now_us = sim_env(world, s->id)->mono_us(sim_env(world, s->id));
    if (now_us >= s->retry_at_us) {
        sim_send(world, s->id, s->peer, tide_view_bytes(&s->disk.next, sizeof(s->disk.next)));
        s->retry_at_us = s->has == GIVES_UP ? SIM_IDLE : now_us + RETRY_US;
    }
    return s->retry_at_us;
}

static void sender_receive(void *self, sim *world, sim_id from, tide_view message)
{
    sender *s = self;
    int64_t number;
    (void)world;
    (void)from;
    memcpy(&number, message.ptr, sizeof(number));
    if (number > s->highest_acked)
        s->highest_acked = number;
    if (number == s->disk.next) {
        s->disk.next++;
        s->retry_at_us = 0;
    }
}

static void sender_crash(void *self, sim *world, sim_crash how)
{
    (void)world;
    (void)how;
    ((sender *)self)->retry_at_us = 0;
}

static int64_t receiver_step(void *self, sim *world)
{
    receiver *r = self;
    (void)world;
    r->synced = r->written; /* whoever acknowledged too early, syncs too late */
    return SIM_IDLE;
}

static void receiver_receive(void *self, sim *world, sim_id from, tide_view message)
{
    receiver *r = self;
    int64_t number;
    memcpy(&number, message.ptr, sizeof(number));
    const bool is_new =
        r->has == NO_DEDUP || r->written.last == UNKNOWN || number == r->written.last + 1;
    if (is_new && r->written.log_len < LOG_MAX) {
        r->written.log[r->written.log_len++] = number;
        r->written.last = number;
    }
    if (r->has != ACK_BEFORE_SYNC)
        r->synced = r->written;
    if (number <= r->written.last)
        sim_send(world, r->id, from, tide_view_bytes(&number, sizeof(number)));
}

static void receiver_crash(void *self, sim *world, sim_crash how)
{
    receiver *r = self;
    (void)world;
    if (how == SIM_CRASH_POWER)
        r->written = r->synced;
    if (r->has == FORGETS_IN_CRASH)
        r->written.last = UNKNOWN;
}

/* Exactly once and in order: the log is 1, 2, 3, ... */
static bool delivered_once_in_order(void *arg, const sim *world, char why[SIM_WHY_MAX])
{
    const receiver *r = arg;
    (void)world;
    for (int i = 0; i < r->written.log_len; i++)
        if (r->written.log[i] != i + 1) {
            snprintf(why, SIM_WHY_MAX, "delivery %d is number %d", i + 1, (int)r->written.log[i]);
            return false;
        }
    return true;
}

static bool acknowledged_is_delivered(void *arg, const sim *world, char why[SIM_WHY_MAX])
{
    const pair *p = arg;
    (void)world;
    snprintf(why, SIM_WHY_MAX, "%d acknowledged, %d there", (int)p->sender.highest_acked,
             p->receiver.written.log_len);
    return p->sender.highest_acked <= p->receiver.written.log_len;
}

static const sim_faults bad_world = {
    .delay_min_us = 500,
    .delay_max_us = 30000,
    .loss_ppm = 100000,
    .duplicate_ppm = 50000,
    .reorder_ppm = 200000,
    .cut_every_us = 700000,
    .cut_max_us = 500000,
    .cut_one_way_ppm = 500000,
    .crash_every_us = 500000,
    .crash_after_ppm = 20000,
    .down_max_us = 100000,
    .power_ppm = 500000,
    .calm_from_us = 10 * SIM_SECOND_US,
};

static void pair_init(pair *p, uint64_t seed, mistake has, const sim_faults *faults)
{
    *p = (pair){.world = sim_new("stop-and-wait", seed)};
    p->sender.disk.next = 1;
    p->sender.has = has;
    p->receiver.has = has;
    sim_set_faults(p->world, faults);
    p->sender.id = sim_add(p->world, &(sim_actor){.name = "sender",
                                                  .self = &p->sender,
                                                  .step = sender_step,
                                                  .receive = sender_receive,
                                                  .crash = sender_crash});
    p->receiver.id = sim_add(p->world, &(sim_actor){.name = "receiver",
                                                    .self = &p->receiver,
                                                    .step = receiver_step,
                                                    .receive = receiver_receive,
                                                    .crash = receiver_crash});
    p->sender.peer = p->receiver.id;
    sim_set_clock(p->world, p->sender.id, 3600 * (int64_t)SIM_SECOND_US, 500);
    sim_invariant(p->world, "delivered once, in order", delivered_once_in_order, &p->receiver);
    sim_invariant(p->world, "acknowledged is delivered", acknowledged_is_delivered, p);
}

static void pair_done(pair *p)
{
    sim_free(p->world);
}

/* In the calm at the end all must be delivered. */
static bool run_to_the_end(pair *p)
{
    if (!sim_run(p->world, RUN_US, EVENTS_MAX))
        return false;
    const bool is_done = p->receiver.written.log_len == TOTAL && p->sender.disk.next == TOTAL + 1;
    return sim_expect(p->world, is_done, "%d of %d delivered", p->receiver.written.log_len, TOTAL);
}

static bool run_pair(uint64_t seed, bool is_quiet, void *arg)
{
    TIDE_CLEANUP(pair_done) pair p;
    pair_init(&p, seed, *(const mistake *)arg, &bad_world);
    if (is_quiet)
        sim_set_report(p.world, NULL);
    return run_to_the_end(&p);
}

/* Promise: a protocol that is right survives loss, copies, reordering, cuts and crashes,
 * whatever the seed. */
static void a_right_protocol_holds_on_every_seed(void **state)
{
    (void)state;
    mistake none = NO_MISTAKE;
    assert_true(sim_seeds(1, SEEDS, run_pair, &none));
}

static void find_and_replay(mistake has, const char *words)
{
    uint64_t seed = 0;
    assert_true(sim_find_failure(1, SEEDS, run_pair, &has, &seed));

    uint64_t hashes[2];
    uint64_t counts[2];
    for (int i = 0; i < 2; i++) {
        TIDE_CLEANUP(pair_done) pair p;
        pair_init(&p, seed, has, &bad_world);
        sim_set_report(p.world, NULL);
        assert_false(run_to_the_end(&p));
        assert_contains(sim_failure(p.world), words);
        hashes[i] = sim_trace_hash(p.world);
        counts[i] = sim_event_count(p.world);
    }
    assert_int_equal(hashes[0], hashes[1]);
    assert_int_equal(counts[0], counts[1]);
}

/* A copy of a message must not become a second delivery (FAULTS rule 11). */
static void a_receiver_without_dedup_is_found_and_replayed(void **state)
{
    (void)state;
    find_and_replay(NO_DEDUP, "delivered once, in order");
}

/* Only a power cut between the answer and the sync shows this one (FAULTS rule 13). */
static void an_answer_before_the_sync_is_found_and_replayed(void **state)
{
    (void)state;
    find_and_replay(ACK_BEFORE_SYNC, "acknowledged is delivered");
}

/* A counter kept in memory gives a number twice after a crash (FAULTS rule 4). */
static void a_receiver_that_forgets_in_a_crash_is_found_and_replayed(void **state)
{
    (void)state;
    find_and_replay(FORGETS_IN_CRASH, "delivered once, in order");
}

/* Safe is not enough: what never arrives is found in the calm at the end. */
static void a_sender_that_gives_up_is_found_and_replayed(void **state)
{
    (void)state;
    find_and_replay(GIVES_UP, "at the end: ");
}

/* Everything comes from the seed: two runs are equal to the last byte, two seeds are not. */
static void the_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    const uint64_t seeds[] = {7, 7, 8};
    uint64_t hashes[3];
    char *traces[3] = {NULL};
    for (int i = 0; i < 3; i++) {
        TIDE_CLEANUP(pair_done) pair p;
        pair_init(&p, seeds[i], NO_MISTAKE, &bad_world);
        assert_true(sim_run(p.world, RUN_US, EVENTS_MAX));
        assert_true(sim_crash_count(p.world) > 0);
        hashes[i] = sim_trace_hash(p.world);
        size_t len = 0;
        FILE *out = open_memstream(&traces[i], &len);
        sim_print_trace(p.world, out);
        fclose(out);
    }
    assert_int_equal(hashes[0], hashes[1]);
    assert_int_not_equal(hashes[0], hashes[2]);
    assert_string_equal(traces[0], traces[1]);
    for (int i = 0; i < 3; i++)
        free(traces[i]);
}

/* A failure tells all one needs: the invariant, the seed, the events before it, the line that
 * replays it. */
static void a_failure_prints_its_seed_and_its_last_events(void **state)
{
    (void)state;
    mistake has = NO_DEDUP;
    uint64_t seed = 0;
    assert_true(sim_find_failure(1, SEEDS, run_pair, &has, &seed));
    TIDE_CLEANUP(tide_freep) char *report = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&report, &len);
    TIDE_CLEANUP(pair_done) pair p;
    pair_init(&p, seed, has, &bad_world);
    sim_set_report(p.world, out);
    assert_false(sim_run(p.world, RUN_US, EVENTS_MAX));
    fclose(out);

    char replay[64];
    snprintf(replay, sizeof(replay), "TIDEMARK_SEED=%llu ", (unsigned long long)seed);
    assert_contains(report, replay);
    assert_contains(report, "simulation 'stop-and-wait'");
    assert_contains(report, "\"delivered once, in order\" is broken");
    assert_contains(report, "sender -> receiver 8 bytes arrive");
}

/* ---- the parts of the world ---- */

typedef struct probe {
    sim_id id;
    int64_t every_us; /* steps so often on its own clock; 0: idle */
    int64_t sleep_us; /* sleeps so long inside each step */
    int steps;
    int restarts;
    int received[LOG_MAX];
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
    assert(p->received_len < LOG_MAX && message.len == sizeof(int));
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

/* The rates are what they say: of 500 messages about 10 % are lost and of the rest about 20 %
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
    send_numbers(world, &other, &p, 1); /* nobody there */
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

/* An actor that always wants to run at once would stop time: that is a failure, not a hang. */
static int64_t step_at_once(void *self, sim *world)
{
    (void)self;
    (void)world;
    return 0;
}

static void a_livelock_is_a_failure(void **state)
{
    (void)state;
    TIDE_CLEANUP(free_world) sim *world = sim_new("livelock", 1);
    sim_set_report(world, NULL);
    sim_add(world, &(sim_actor){.name = "restless", .step = step_at_once});
    assert_false(sim_run(world, SIM_SECOND_US, 1000));
    assert_string_equal("more than 1000 events", sim_failure(world));
}

/* Each clock moves by what happens to the machine, as the table of virtual_env.h says. */
static void a_virtual_machine_moves_only_by_hand(void **state)
{
    (void)state;
    TIDE_CLEANUP(virtual_env_done) virtual_env v;
    virtual_env_init(&v, 1);
    tide_env *env = &v.env;
    char first[TIDE_BOOT_ID_SIZE];
    char second[TIDE_BOOT_ID_SIZE];
    env->boot_id(env, first);
    const int64_t wall = env->wall_us(env);
    const int64_t mono = env->mono_us(env);
    const int64_t boot = env->boot_us(env);

    virtual_env_advance(&v, 10);
    env->sleep_us(env, 5);
    virtual_env_suspend(&v, 100);
    assert_int_equal(wall + 115, env->wall_us(env));
    assert_int_equal(mono + 15, env->mono_us(env));
    assert_int_equal(boot + 115, env->boot_us(env));

    virtual_env_set_wall(&v, 42);
    virtual_env_reboot(&v);
    env->boot_id(env, second);
    assert_int_equal(42, env->wall_us(env));
    assert_int_equal(0, env->mono_us(env));
    assert_int_equal(0, env->boot_us(env));
    assert_string_not_equal(first, second);
    assert_int_equal(TIDE_BOOT_ID_SIZE - 1, strlen(second));
}

/* Random bytes depend on the seed alone. */
static void virtual_randomness_repeats(void **state)
{
    (void)state;
    const uint64_t seeds[] = {1, 1, 2};
    unsigned char bytes[3][13];
    for (int i = 0; i < 3; i++) {
        TIDE_CLEANUP(virtual_env_done) virtual_env v;
        virtual_env_init(&v, seeds[i]);
        v.env.random(&v.env, bytes[i], sizeof(bytes[i]));
    }
    assert_memory_equal(bytes[0], bytes[1], sizeof(bytes[0]));
    assert_memory_not_equal(bytes[0], bytes[2], sizeof(bytes[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_protocol_holds_on_every_seed),
        cmocka_unit_test(a_receiver_without_dedup_is_found_and_replayed),
        cmocka_unit_test(an_answer_before_the_sync_is_found_and_replayed),
        cmocka_unit_test(a_receiver_that_forgets_in_a_crash_is_found_and_replayed),
        cmocka_unit_test(a_sender_that_gives_up_is_found_and_replayed),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(a_failure_prints_its_seed_and_its_last_events),
        cmocka_unit_test(wake_times_follow_the_actors_own_clock),
        cmocka_unit_test(an_early_wake_replaces_the_later_one),
        cmocka_unit_test(a_sleeping_actor_does_not_stop_the_world),
        cmocka_unit_test(a_link_keeps_order_unless_told_otherwise),
        cmocka_unit_test(loss_and_copies_come_at_their_rates),
        cmocka_unit_test(a_cut_link_loses_what_is_sent_and_what_is_under_way),
        cmocka_unit_test(only_a_power_cut_gives_a_new_boot),
        cmocka_unit_test(a_livelock_is_a_failure),
        cmocka_unit_test(a_virtual_machine_moves_only_by_hand),
        cmocka_unit_test(virtual_randomness_repeats),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
