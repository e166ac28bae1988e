/* The simulator, tried on a protocol small enough to see through: stop-and-wait. A sender hands
 * the numbers 1..TOTAL to a receiver over a bad network; both may crash at any time. Each number
 * must be delivered once, in order. Four deliberate mistakes show that the simulator finds what
 * it is there to find. */
#include "support/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"

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
    r->synced = r->written; /* a replica that acknowledged too early syncs too late */
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
    assert_true(sim_seeds(NULL, SEEDS, run_pair, &none));
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

/* A copy of a message must not become a second delivery. */
static void a_receiver_without_dedup_is_found_and_replayed(void **state)
{
    (void)state;
    find_and_replay(NO_DEDUP, "delivered once, in order");
}

/* Only a power cut between the answer and the sync shows this one. */
static void an_answer_before_the_sync_is_found_and_replayed(void **state)
{
    (void)state;
    find_and_replay(ACK_BEFORE_SYNC, "acknowledged is delivered");
}

/* A counter kept in memory gives a number twice after a crash. */
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

/* A failure reports all that is needed: the invariant, the seed, the events before it, the line
 * that replays it. */
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

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_protocol_holds_on_every_seed),
        cmocka_unit_test(a_receiver_without_dedup_is_found_and_replayed),
        cmocka_unit_test(an_answer_before_the_sync_is_found_and_replayed),
        cmocka_unit_test(a_receiver_that_forgets_in_a_crash_is_found_and_replayed),
        cmocka_unit_test(a_sender_that_gives_up_is_found_and_replayed),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(a_failure_prints_its_seed_and_its_last_events),
    };
    return cmocka_run_group_tests_name("sim-protocol", tests, NULL, NULL);
}
