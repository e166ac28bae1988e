/* Two nodes bring each other up to date: whole batches, over any path, with proof. The nodes here are memory: logs of numbers. */
#include "replica/sync.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/prng.h"

enum { NODES = 4, NUMBERS = 400, BATCH = 7 };

/* ---- a node in memory ---- */

typedef struct fake_log {
    bool has[NUMBERS + 1];
    int64_t floor;
} fake_log;

typedef struct fake {
    int id; /* 1..NODES */
    fake_log logs[NODES + 1];
    int64_t acknowledged[NODES + 1][NODES + 1]; /* by peer, of log */
    bool has_table;
    int calls_left;    /* until the network breaks; -1: never */
    bool is_standing;  /* says that there is more, and gives nothing */
    bool is_forgetful; /* takes pages and keeps nothing of them */
    bool is_writing;   /* a new number of its own with every look at it */
    int refuses;       /* pages of this log; 0: of none */
} fake;

typedef struct fake_event {
    int origin;
    int64_t seq;
} fake_event;

static tide_node_id id_of(int id)
{
    tide_node_id node = {.bytes = {0}};
    node.bytes[0] = (uint8_t)id;
    return node;
}

static int64_t prefix_of(const fake_log *log)
{
    int64_t prefix = log->floor;
    while (prefix < NUMBERS && log->has[prefix + 1])
        prefix++;
    return prefix;
}

static int64_t highest_of(const fake_log *log)
{
    for (int64_t seq = NUMBERS; seq > log->floor; seq--)
        if (log->has[seq])
            return seq;
    return log->floor;
}

static int64_t cut_of(int64_t seq)
{
    const int64_t cut = (seq + BATCH - 1) / BATCH * BATCH;
    return cut < NUMBERS ? cut : NUMBERS;
}

static tide_status ring(fake *node, tide_error *err)
{
    if (node->calls_left == 0)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "nobody is there");
    if (node->calls_left > 0)
        node->calls_left--;
    return TIDE_OK;
}

static void write_numbers(fake *node, int64_t first, int64_t last)
{
    for (int64_t seq = first; seq <= last; seq++)
        node->logs[node->id].has[seq] = true;
}

static tide_status fake_marks(void *arg, const tide_peer_marks *others, tide_peer_marks *out,
                              tide_error *err)
{
    fake *node = arg;
    TIDE_TRY(ring(node, err));
    if (node->is_writing && highest_of(&node->logs[node->id]) < NUMBERS) {
        const int64_t next = highest_of(&node->logs[node->id]) + 1;
        write_numbers(node, next, next);
    }
    for (int i = 0; others && i < others->origin_count; i++)
        node->acknowledged[others->node.bytes[0]][others->origins[i].origin.bytes[0]] =
            others->origins[i].prefix;
    out->node = id_of(node->id);
    out->epoch = 1;
    for (int i = 1; i <= NODES; i++) {
        const tide_origin_mark mark = {.origin = id_of(i),
                                       .epoch = 1,
                                       .floor = node->logs[i].floor,
                                       .prefix = prefix_of(&node->logs[i]),
                                       .highest = highest_of(&node->logs[i])};
        if (mark.highest > 0)
            TIDE_TRY(tide_peer_marks_add(out, &mark, err));
    }
    if (node->has_table)
        TIDE_TRY(
            tide_peer_marks_add_table(out, "todos", 7, 0, (const char *const[]){"sql", NULL}, err));
    return tide_peer_marks_sort(out, err);
}

static tide_status fake_offer(void *arg, const tide_peer_table *tables, int count, int *created,
                              tide_error *err)
{
    fake *node = arg;
    TIDE_TRY(ring(node, err));
    assert_int_equal(count, 1);
    assert_string_equal(tables[0].name, "todos");
    assert_string_equal(tables[0].sql[0], "sql");
    *created = !node->has_table;
    node->has_table = true;
    return TIDE_OK;
}

static tide_status fake_read(void *arg, const tide_node_id *origin, int64_t epoch, int64_t after,
                             int64_t max_rows, int64_t max_bytes, tide_peer_page *page,
                             tide_error *err)
{
    fake *node = arg;
    const fake_log *log = &node->logs[origin->bytes[0]];
    TIDE_TRY(ring(node, err));
    assert_int_equal(epoch, 1);
    assert_true(max_bytes > 0);
    tide_peer_page_clear(page);
    page->through = after;
    page->has_more = node->is_standing;
    if (after < log->floor) {
        page->needs_snapshot = true;
        page->floor = log->floor;
    }
    if (node->is_standing || page->needs_snapshot)
        return TIDE_OK;
    for (int64_t seq = after + 1; seq <= NUMBERS; seq++) {
        if (page->count >= max_rows && page->through == cut_of(page->through)) {
            page->has_more = seq <= highest_of(log);
            break;
        }
        const fake_event event = {.origin = origin->bytes[0], .seq = seq};
        if (log->has[seq])
            TIDE_TRY(tide_peer_page_add(page, tide_view_bytes(&event, sizeof event), err));
        if (seq <= highest_of(log))
            page->through = seq;
    }
    return TIDE_OK;
}

static tide_status fake_push(void *arg, const tide_origin_mark *mark, const tide_peer_page *page,
                             tide_applied *out, tide_error *err)
{
    fake *node = arg;
    TIDE_TRY(ring(node, err));
    if (node->refuses == mark->origin.bytes[0])
        return tide_fail(err, TIDE_E_INVALID, "log %d is forged", node->refuses);
    for (int i = 0; i < page->count; i++) {
        fake_event event;
        const tide_view bytes = tide_peer_page_event(page, i);
        assert_int_equal(bytes.len, sizeof event);
        memcpy(&event, bytes.ptr, sizeof event);
        assert_int_equal(event.origin, mark->origin.bytes[0]);
        if (node->is_forgetful)
            continue;
        if (node->logs[event.origin].has[event.seq] || event.seq <= node->logs[event.origin].floor)
            out->known++;
        else
            out->events++;
        node->logs[event.origin].has[event.seq] = true;
    }
    return TIDE_OK;
}

static tide_peer peer_of(fake *node)
{
    static const char *const names[] = {"", "one", "two", "three", "four"};
    return (tide_peer){.arg = node,
                       .name = names[node->id],
                       .marks = fake_marks,
                       .offer = fake_offer,
                       .read = fake_read,
                       .push = fake_push};
}

static fake *new_fake(int id)
{
    fake *node = calloc(1, sizeof *node);
    assert_non_null(node);
    node->id = id;
    node->calls_left = -1;
    return node;
}

static tide_status sync_nodes(fake *here, fake *there, const tide_sync_options *options,
                              tide_sync_result *result, tide_error *err)
{
    static const tide_sync_options usual = {.page_rows = 10};
    tide_peer a = peer_of(here);
    tide_peer b = peer_of(there);
    *err = (tide_error){.status = TIDE_OK};
    return tide_sync(&a, &b, options ? options : &usual, result, err);
}

/* ---- cases ---- */

/* Both directions, page by page, and each knows afterwards what the other has. */
static void a_sync_brings_both_to_the_same_cut(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) fake *a = new_fake(1);
    TIDE_CLEANUP(tide_freep) fake *b = new_fake(2);
    tide_sync_result result;
    tide_error err;
    write_numbers(a, 1, 100);
    write_numbers(b, 1, 50);
    a->has_table = true;
    assert_ok_err(sync_nodes(a, b, NULL, &result, &err), &err);
    assert_true(result.is_proven);
    assert_int_equal(result.pulled.events, 50);
    assert_int_equal(result.pushed.events, 100);
    assert_int_equal(result.tables_created, 1);
    assert_memory_equal(a->logs, b->logs, sizeof a->logs);
    assert_int_equal(a->acknowledged[2][1], 100);
    assert_int_equal(b->acknowledged[1][2], 50);
    assert_ok_err(sync_nodes(a, b, NULL, &result, &err), &err);
    assert_int_equal(result.pulled.events + result.pushed.events, 0);
    assert_int_equal(result.rounds, 1);
}

/* One direction: what was asked for is proven, and nothing else is moved. */
static void a_pull_changes_nothing_there(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) fake *a = new_fake(1);
    TIDE_CLEANUP(tide_freep) fake *b = new_fake(2);
    tide_sync_result result;
    tide_error err;
    write_numbers(a, 1, 20);
    write_numbers(b, 1, 30);
    assert_ok_err(sync_nodes(a, b, &(tide_sync_options){.is_pull_only = true}, &result, &err),
                  &err);
    assert_int_equal(prefix_of(&a->logs[2]), 30);
    assert_int_equal(highest_of(&b->logs[1]), 0);
    assert_ok_err(sync_nodes(a, b, &(tide_sync_options){.is_push_only = true}, &result, &err),
                  &err);
    assert_int_equal(prefix_of(&b->logs[1]), 20);
}

/* What came before its predecessor is kept, and the predecessor is asked for. */
static void a_hole_is_asked_for_and_filled(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) fake *a = new_fake(1);
    TIDE_CLEANUP(tide_freep) fake *b = new_fake(2);
    tide_sync_result result;
    tide_error err;
    write_numbers(b, 1, 60);
    memcpy(a->logs, b->logs, sizeof a->logs);
    a->logs[2].has[4] = false;
    assert_ok_err(sync_nodes(a, b, NULL, &result, &err), &err);
    assert_int_equal(prefix_of(&a->logs[2]), 60);
    assert_int_equal(result.pulled.events, 1);
}

/* A third node gets them from whoever has them. */
static void peers_relay_for_each_other(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) fake *a = new_fake(1);
    TIDE_CLEANUP(tide_freep) fake *b = new_fake(2);
    TIDE_CLEANUP(tide_freep) fake *c = new_fake(3);
    tide_sync_result result;
    tide_error err;
    write_numbers(a, 1, 25);
    write_numbers(c, 1, 5);
    assert_ok_err(sync_nodes(a, b, NULL, &result, &err), &err);
    assert_ok_err(sync_nodes(c, b, NULL, &result, &err), &err);
    assert_int_equal(prefix_of(&c->logs[1]), 25);
    assert_ok_err(sync_nodes(a, b, NULL, &result, &err), &err);
    assert_int_equal(prefix_of(&a->logs[3]), 5);
}

/* A request that fails is not a sync; the next one goes on from there, and ends. */
static void a_broken_sync_is_not_proven_and_goes_on(void **state)
{
    (void)state;
    for (int calls = 0; calls < 40; calls++) {
        TIDE_CLEANUP(tide_freep) fake *a = new_fake(1);
        TIDE_CLEANUP(tide_freep) fake *b = new_fake(2);
        tide_sync_result result;
        tide_error err;
        write_numbers(a, 1, 40);
        write_numbers(b, 1, 40);
        b->calls_left = calls;
        const tide_status status = sync_nodes(a, b, NULL, &result, &err);
        assert_true(status == TIDE_OK || status == TIDE_E_UNAVAILABLE);
        assert_int_equal(result.is_proven, status == TIDE_OK);
        if (status == TIDE_OK)
            assert_true(calls > 5);
        b->calls_left = -1;
        assert_ok_err(sync_nodes(a, b, NULL, &result, &err), &err);
        assert_memory_equal(a->logs, b->logs, sizeof a->logs);
    }
}

/* Who does not get on is told why, at once. */
static void a_sync_that_does_not_move_says_why(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) fake *a = new_fake(1);
    TIDE_CLEANUP(tide_freep) fake *b = new_fake(2);
    tide_sync_result result;
    tide_error err;
    write_numbers(b, 1, 40);
    b->is_standing = true;
    assert_status_err(TIDE_E_CONFLICT, sync_nodes(a, b, NULL, &result, &err), &err);
    assert_contains(err.text, "two does not get on");
    b->is_standing = false;
    a->is_forgetful = true;
    assert_status_err(TIDE_E_CONFLICT, sync_nodes(a, b, NULL, &result, &err), &err);
    assert_contains(err.text, "nothing moves");
    assert_int_equal(result.rounds, 1);
    a->is_forgetful = false;
    a->id = 2; /* a copy of the same node */
    assert_status_err(TIDE_E_CONFLICT, sync_nodes(a, b, NULL, &result, &err), &err);
    assert_contains(err.text, "this node itself");
}

/* One log that is refused does not hold up the others, and is named. */
static void a_refused_log_does_not_hold_up_others(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) fake *a = new_fake(1);
    TIDE_CLEANUP(tide_freep) fake *b = new_fake(2);
    tide_sync_result result;
    tide_error err;
    write_numbers(b, 1, 40);
    for (int64_t seq = 1; seq <= 30; seq++)
        b->logs[3].has[seq] = true;
    a->refuses = 2;
    assert_status_err(TIDE_E_INVALID, sync_nodes(a, b, NULL, &result, &err), &err);
    assert_contains(err.text, "log 2 is forged");
    assert_int_equal(prefix_of(&a->logs[3]), 30);
    assert_false(result.is_proven);
}

static tide_status bring_snapshot(void *arg, tide_error *err)
{
    (void)err;
    fake *const *both = arg;
    fake_log *log = &both[0]->logs[2];
    log->floor = both[1]->logs[2].floor;
    return TIDE_OK;
}

/* Below the floor it is a snapshot or a failure, never silently less; own numbers survive. */
static void below_the_floor_a_snapshot_is_required(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) fake *a = new_fake(1);
    TIDE_CLEANUP(tide_freep) fake *b = new_fake(2);
    fake *both[] = {a, b};
    tide_sync_result result;
    tide_error err;
    write_numbers(a, 1, 5);
    write_numbers(b, 1, 100);
    b->logs[2].floor = 70;
    assert_status_err(TIDE_E_NOT_FOUND, sync_nodes(a, b, NULL, &result, &err), &err);
    assert_contains(err.text, "a snapshot is required");
    assert_int_equal(highest_of(&a->logs[2]), 0);
    assert_int_equal(prefix_of(&b->logs[1]), 5); /* our own were shipped all the same */
    const tide_sync_options options = {.bootstrap = bring_snapshot, .arg = both};
    assert_ok_err(sync_nodes(a, b, &options, &result, &err), &err);
    assert_true(result.has_bootstrapped);
    assert_int_equal(prefix_of(&a->logs[2]), 100);
}

/* The cut that is proven is that of the beginning: writers do not keep a sync from ending. */
static void a_sync_ends_beside_writers(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) fake *a = new_fake(1);
    TIDE_CLEANUP(tide_freep) fake *b = new_fake(2);
    tide_sync_result result;
    tide_error err;
    write_numbers(a, 1, 50);
    a->is_writing = true;
    b->is_writing = true;
    assert_ok_err(sync_nodes(a, b, NULL, &result, &err), &err);
    assert_int_equal(result.rounds, 1);
    assert_true(prefix_of(&b->logs[1]) >= 50);
}

/* Marks that cannot be are refused when they come in. */
static void impossible_marks_are_refused(void **state)
{
    (void)state;
    static const tide_origin_mark bad[] = {
        {.epoch = 0, .prefix = 1, .highest = 1},
        {.epoch = 1, .prefix = 2, .highest = 1},
        {.epoch = 1, .floor = 3, .prefix = 2, .highest = 5},
        {.epoch = 1, .floor = -1, .prefix = 2, .highest = 5},
        {.epoch = 1, .start = -1, .prefix = 2, .highest = 5},
    };
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks marks = {.origin_count = 0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, tide_peer_marks_add(&marks, &bad[i], NULL));
    const tide_origin_mark good = {.epoch = 1, .prefix = 1, .highest = 2};
    for (int i = 0; i < 20; i++) {
        tide_origin_mark other = good;
        other.origin = id_of(20 - i);
        assert_ok(tide_peer_marks_add(&marks, &other, NULL));
    }
    assert_ok(tide_peer_marks_sort(&marks, NULL));
    for (int i = 1; i <= 20; i++) {
        const tide_node_id id = id_of(i);
        assert_non_null(tide_peer_marks_find(&marks, &id, 1));
        assert_null(tide_peer_marks_find(&marks, &id, 2));
    }
    assert_ok(tide_peer_marks_add(&marks, &good, NULL));
    assert_ok(tide_peer_marks_add(&marks, &good, NULL));
    assert_status(TIDE_E_INVALID, tide_peer_marks_sort(&marks, NULL));
}

/* Any path, any order, broken at any call, with holes: when it is quiet, all have everything. */
static void random_syncs_converge(void **state)
{
    const uint64_t seed = *(const uint64_t *)*state;
    for (int round = 0; round < 100; round++) {
        prng p;
        prng_init(&p, seed + (uint64_t)round);
        fake *nodes[NODES];
        int64_t last[NODES] = {0};
        for (int i = 0; i < NODES; i++)
            nodes[i] = new_fake(i + 1);
        for (int step = 0; step < 60; step++) {
            const int at = (int)prng_below(&p, NODES);
            const int other = (at + 1 + (int)prng_below(&p, NODES - 1)) % NODES;
            tide_sync_result result;
            tide_error err;
            if (prng_chance(&p, 1, 3) && last[at] < NUMBERS - BATCH) {
                write_numbers(nodes[at], last[at] + 1, last[at] + BATCH);
                last[at] += BATCH;
                continue;
            }
            if (prng_chance(&p, 1, 4)) /* pages that overtook others */
                nodes[at]->logs[nodes[other]->id].has[1 + prng_below(&p, NUMBERS)] =
                    nodes[other]->logs[nodes[other]->id].has[1];
            nodes[other]->calls_left = (int)prng_below(&p, 30) - 1;
            TIDE_IGNORE(sync_nodes(
                nodes[at], nodes[other],
                &(tide_sync_options){.page_rows = 1 + (int64_t)prng_below(&p, 9)}, &result, &err));
            nodes[other]->calls_left = -1;
        }
        for (int i = 0; i < 2 * NODES; i++) {
            tide_sync_result result;
            tide_error err;
            TIDE_IGNORE(sync_nodes(nodes[i % NODES], nodes[(i + 1) % NODES], NULL, &result, &err));
        }
        for (int i = 0; i < NODES; i++)
            for (int log = 1; log <= NODES; log++)
                assert_true(prefix_of(&nodes[i]->logs[log]) >= last[log - 1]);
        for (int i = 0; i < NODES; i++)
            free(nodes[i]);
    }
}

TEST_FILE()
{
    static uint64_t seed;
    seed = prng_seed_from_env(20261);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sync_brings_both_to_the_same_cut),
        cmocka_unit_test(a_pull_changes_nothing_there),
        cmocka_unit_test(a_hole_is_asked_for_and_filled),
        cmocka_unit_test(peers_relay_for_each_other),
        cmocka_unit_test(a_broken_sync_is_not_proven_and_goes_on),
        cmocka_unit_test(a_sync_that_does_not_move_says_why),
        cmocka_unit_test(a_refused_log_does_not_hold_up_others),
        cmocka_unit_test(below_the_floor_a_snapshot_is_required),
        cmocka_unit_test(a_sync_ends_beside_writers),
        cmocka_unit_test(impossible_marks_are_refused),
        cmocka_unit_test_prestate(random_syncs_converge, &seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
