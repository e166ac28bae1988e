/* Limits of how many items run at once: of a type, of each key; whoever claims and whoever ends. */
#include "support/prng.h"
#include "work/work_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "store/engine.h"
#include "work/foreign/raw_sql.h"

static const char *const job[] = {"job"};

static void set_limit(store_test *t, int64_t running, int64_t per_key)
{
    const tide_work_limit limit = {TIDE_WORK_LIMIT_INIT, .work_type = "job", .running = running,
                                   .running_per_key = per_key};
    assert_ok_err(tide_work_limit_set(t->store, &limit, &t->err), &t->err);
}

static void add_keyed(store_test *t, const char *id, const char *key)
{
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id, .limit_key = key});
}

/* The first char of each claimed id; "" when there is nothing. */
static const char *claim_some(store_test *t, int limit)
{
    return claim_ids(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .types = job,
                                                         .type_count = 1, .limit = limit});
}

static void no_more_items_run_than_the_limit_of_their_type(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_limit(t, 2, -1);
    add_item(t, "a");
    add_item(t, "b");
    add_item(t, "c");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "o", .work_type = "other"});
    const held a = claim(t, "w");
    assert_string_equal("a", a.id);
    assert_string_equal("b", claim_some(t, 10));
    const held none = claim(t, "w");
    assert_int_equal(0, none.token);
    assert_in_range(none.next_due_us, 1, SECOND_US); /* a slot may become free without a word */
    assert_string_equal("limited", reasons_of(t, "c", NULL));
    assert_string_equal("o", claim_ids(t->store, (tide_work_claim_request){
                                                     TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 10}));
    assert_ok(finish(t, &a, "{}"));
    assert_string_equal("ready", reasons_of(t, "c", NULL));
    assert_string_equal("c", claim_some(t, 10));
}

static void types_are_claimed_in_one_order_beside_a_limit(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_limit(t, 1, -1);
    add_item(t, "a");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "o", .work_type = "other"});
    add_item(t, "b");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "p", .work_type = "other"});
    assert_string_equal("a o", claim_ids(t->store, (tide_work_claim_request){
                                                       TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 2}));
    assert_string_equal("p", claim_ids(t->store, (tide_work_claim_request){
                                                     TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 2}));
}

static void a_claim_of_a_task_respects_the_limit(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "u");
    set_limit(t, 1, -1);
    add_item(t, "a");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "b", .task_id = "u"});
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "u",
                                             .limit = 10};
    assert_string_equal("b", claim_ids(t->store, request));
    assert_int_equal(0, claim(t, "w").token);
}

static void each_key_has_its_own_slots(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_limit(t, -1, 1);
    add_keyed(t, "a1", "a");
    add_keyed(t, "a2", "a");
    add_keyed(t, "b1", "b");
    add_item(t, "n1"); /* without a key: no limit per key counts it */
    add_item(t, "n2");
    assert_string_equal("a1 b1 n1 n2", claim_some(t, 10));
    assert_string_equal("", claim_some(t, 10));
    char words[512];
    assert_string_equal("limited", reasons_of(t, "a2", words));
    assert_non_null(strstr(words, "limit key a"));
    run_sql(t, "UPDATE work_items SET status = 'failed', revision = revision + 1, "
               "attempt_outcome = 'cancelled', lease_token = lease_token + 1 "
               "WHERE work_item_id = 'a1'");
    assert_string_equal("a2", claim_some(t, 10));
}

static void both_limits_hold_together(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_limit(t, 2, 1);
    add_keyed(t, "a1", "a");
    add_keyed(t, "a2", "a");
    add_keyed(t, "b1", "b");
    add_keyed(t, "c1", "c");
    assert_string_equal("a1 b1", claim_some(t, 10));
    assert_string_equal("", claim_some(t, 10));
}

/* One key with thousands of items in front must not hide the items of others. */
static void a_full_key_does_not_hold_up_the_others(void **state)
{
    enum { BACKLOG = 3000, STEP = 1000 };
    store_test *t = *state;
    make_task(t, "t");
    set_limit(t, -1, 1);
    tide_work_spec items[STEP];
    tide_work_added added[STEP];
    for (int from = 0; from < BACKLOG; from += STEP) {
        for (int i = 0; i < STEP; i++)
            items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job",
                                        .max_retries = -1, .limit_key = "hot"};
        assert_ok_err(try_add(t, items, STEP, added), &t->err);
    }
    add_keyed(t, "z", "zebra");
    add_keyed(t, "c", "cold");
    assert_true(claim(t, "w").token > 0);
    assert_string_equal("z c", claim_some(t, 10));
    assert_string_equal("", claim_some(t, 10));
}

static void every_end_of_an_attempt_frees_its_slot(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_limit(t, 1, -1);
    add_item(t, "a");
    held h = claim(t, "w");
    assert_ok_err(tide_work_release(t->store, h.id, h.token, 0, &t->err), &t->err);
    h = claim(t, "w");
    assert_string_equal("a", h.id);
    add_item(t, "b");
    assert_ok(fail_it(t, &h, "boom", true));
    h = claim(t, "w");
    assert_string_equal("b", h.id);
    add_item(t, "c");
    assert_ok_err(tide_work_cancel(t->store, "b", "not wanted", &t->err), &t->err);
    h = claim(t, "w");
    assert_string_equal("c", h.id);
    add_item(t, "d");
    assert_ok_err(tide_work_delete(t->store, "c", true, &t->err), &t->err);
    h = claim(t, "w");
    assert_string_equal("d", h.id);
    add_item(t, "e");
    /* The worker crashes: its slot is its own until the lease is over, and then free. */
    assert_int_equal(0, claim(t, "v").token);
    virtual_env_advance(&t->clock, LEASE_US + 1);
    assert_int_equal(1, sweep(t).requeued);
    h = claim(t, "v");
    assert_string_equal("d", h.id);
    assert_int_equal(0, claim(t, "v").token);
}

static void plain_sql_frees_slots_and_takes_them(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_limit(t, 1, -1);
    add_item(t, "a");
    add_item(t, "b");
    add_item(t, "c");
    raw_sql raw;
    raw_open(&raw, t);
    raw_ok(&raw, "UPDATE work_items SET status = 'in_progress', lease_holder = 'me' "
                 "WHERE work_item_id = 'a'");
    assert_int_equal(0, claim(t, "w").token);
    raw_ok(&raw, "UPDATE work_items SET status = 'completed' WHERE work_item_id = 'a'");
    assert_string_equal("b", claim(t, "w").id);
    assert_int_equal(0, claim(t, "w").token);
    raw_ok(&raw, "DELETE FROM work_items WHERE work_item_id = 'b'");
    assert_string_equal("c", claim(t, "w").id);
    raw_close(&raw);
}

static void a_limit_counts_what_ran_before_it(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    for (int i = 0; i < 5; i++) {
        char id[2] = {(char)('a' + i), '\0'};
        add_keyed(t, id, "k");
    }
    const held a = claim(t, "w");
    const held b = claim(t, "w");
    set_limit(t, 2, -1);
    tide_work_limit now = {TIDE_WORK_LIMIT_INIT};
    assert_ok_err(tide_work_limit_get(t->store, "job", &now, &t->err), &t->err);
    assert_int_equal(2, now.running);
    assert_int_equal(0, now.running_per_key);
    assert_int_equal(2, now.in_progress);
    assert_int_equal(0, claim(t, "w").token);
    set_limit(t, 1, 3); /* lower than what runs: that runs on */
    assert_ok(finish(t, &a, "{}"));
    assert_int_equal(0, claim(t, "w").token);
    assert_ok(finish(t, &b, "{}"));
    assert_string_equal("c", claim_some(t, 10));
    set_limit(t, 0, -1);
    assert_string_equal("d e", claim_some(t, 10));
    set_limit(t, -1, 0);
    assert_status(TIDE_NONE, tide_work_limit_get(t->store, "job", &now, &t->err));
    assert_int_equal(0, now.running);
    assert_int_equal(0, now.running_per_key);
}

static void wrong_limits_are_refused(void **state)
{
    store_test *t = *state;
    tide_work_limit limit = {TIDE_WORK_LIMIT_INIT, .work_type = "job",
                             .running = TIDE_WORK_LIMIT_MAX + 1};
    assert_status(TIDE_E_INVALID, tide_work_limit_set(t->store, &limit, &t->err));
    limit.running = 1;
    limit.work_type = "";
    assert_status(TIDE_E_INVALID, tide_work_limit_set(t->store, &limit, &t->err));
    make_task(t, "t");
    const tide_work_spec item = {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job",
                                 .max_retries = -1, .limit_key = ""};
    tide_work_added added;
    assert_status(TIDE_E_INVALID, try_add(t, &item, 1, &added));
}

/* A retried item is limited as the one before. */
static void a_retry_has_the_limit_key(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_limit(t, -1, 1);
    add_keyed(t, "a", "k");
    add_keyed(t, "b", "k");
    held h = claim(t, "w");
    assert_ok(fail_it(t, &h, "boom", true));
    tide_work_added added;
    assert_ok_err(tide_work_retry(t->store, "a", &added, &t->err), &t->err);
    assert_string_equal("b", claim_some(t, 10));
    assert_string_equal("limited", reasons_of(t, added.work_item_id, NULL));
}

/* ---- many claimers ---- */

enum { CROWD = 6, CROWD_ITEMS = 60, CROWD_LIMIT = 1 };

typedef struct crowd {
    tide_store *store;
    atomic_int most, done, begun;
} crowd;

static void note_running(crowd *c)
{
    tide_error err;
    tide_work_limit limit = {TIDE_WORK_LIMIT_INIT};
    assert_ok_err(tide_work_limit_get(c->store, "job", &limit, &err), &err);
    const int now = (int)limit.in_progress;
    int most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now))
        ;
}

/* Each claims items of one task: claimers that want the same items would be kept apart by these. */
static void *work_in_a_crowd(void *arg)
{
    static const char *const tasks[] = {"t", "u", "v"};
    crowd *c = arg;
    const char *task_id = tasks[atomic_fetch_add(&c->begun, 1) % 3];
    while (atomic_load(&c->done) < CROWD_ITEMS) {
        const held h = claim_with(c->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT,
                                                                      .types = job, .type_count = 1,
                                                                      .task_id = task_id,
                                                                      .lease_us = 600 * SECOND_US});
        if (h.token == 0)
            continue;
        note_running(c);
        tide_error err;
        tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = h.id, .token = h.token};
        assert_ok_err(tide_work_finish(c->store, &result, &err), &err);
        (void)atomic_fetch_add(&c->done, 1);
    }
    return NULL;
}

static void claimers_at_once_do_not_exceed_the_limit(void **state)
{
    store_test *t = *state;
    static const char *const tasks[] = {"t", "u", "v"};
    for (int i = 0; i < 3; i++)
        make_task(t, tasks[i]);
    set_limit(t, CROWD_LIMIT, -1);
    tide_work_spec items[CROWD_ITEMS];
    tide_work_added added[CROWD_ITEMS];
    for (int i = 0; i < CROWD_ITEMS; i++)
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = tasks[i % 3],
                                    .work_type = "job", .max_retries = -1};
    assert_ok_err(try_add(t, items, CROWD_ITEMS, added), &t->err);
    crowd c = {.store = t->store};
    pthread_t threads[CROWD];
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, work_in_a_crowd, &c));
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(0, pthread_join(threads[i], NULL));
    assert_int_equal(CROWD_ITEMS, atomic_load(&c.done));
    assert_in_range(atomic_load(&c.most), 1, CROWD_LIMIT);
}

/* ---- any history ---- */

enum { TYPES = 2, KEYS = 3, TASKS = 2, HELD_MAX = 256, STEPS = 120 };

typedef struct world {
    store_test *t;
    raw_sql raw;
    prng random;
    int64_t running[TYPES], per_key[TYPES]; /* 0: none */
    held held[HELD_MAX];
    int held_count;
    int made;
} world;

static const char *const type_names[TYPES] = {"job", "other"};

static int64_t count_of(world *w, const char *what, int type, int key)
{
    char of_key[64] = "";
    if (key >= 0)
        (void)snprintf(of_key, sizeof of_key, " AND limit_key = 'k%d'", key);
    return raw_number(&w->raw, "SELECT count(*) FROM work_items WHERE work_type = '%s' AND %s%s",
                      type_names[type], what, of_key);
}

#define IN_PROGRESS "status = 'in_progress'"
#define READY                                                                                      \
    "status = 'pending' AND run_after IS NULL AND waits_for = 0 AND "                              \
    "task_id IN (SELECT task_id FROM tasks WHERE status IN ('pending', 'running'))"

/* How many items of the type could be claimed now: by key, and of those as many as the type allows. */
static int64_t count_claimable(world *w, int type)
{
    int64_t fitting = count_of(w, READY " AND limit_key IS NULL", type, -1);
    for (int key = 0; key < KEYS; key++) {
        const int64_t ready = count_of(w, READY, type, key);
        const int64_t used = count_of(w, IN_PROGRESS, type, key);
        const int64_t room = w->per_key[type] ? w->per_key[type] - used : ready;
        fitting += room < 0 ? 0 : (room < ready ? room : ready);
    }
    const int64_t room =
        w->running[type] ? w->running[type] - count_of(w, IN_PROGRESS, type, -1) : fitting;
    return room < 0 ? 0 : (room < fitting ? room : fitting);
}

static void add_any(world *w)
{
    char id[32];
    char key[8];
    char task[4];
    const int k = (int)prng_below(&w->random, KEYS + 1);
    (void)snprintf(id, sizeof id, "i%d", w->made++);
    (void)snprintf(key, sizeof key, "k%d", k);
    (void)snprintf(task, sizeof task, "t%d", (int)prng_below(&w->random, TASKS));
    add_new(w->t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id, .task_id = task,
                                   .work_type = type_names[prng_below(&w->random, TYPES)],
                                   .priority = (int64_t)prng_below(&w->random, 3),
                                   .limit_key = k < KEYS ? key : NULL});
}

/* What a claim gets is what there was room for: no more, and no less. */
static void claim_any(world *w)
{
    store_test *t = w->t;
    int64_t wanted = 0;
    tide_work_claims claims;
    const int choice = (int)prng_below(&w->random, TYPES + 1);
    const int limit = 1 + (int)prng_below(&w->random, 4);
    (void)sweep(t); /* what is due is ready */
    for (int type = 0; type < TYPES; type++)
        if (choice == TYPES || choice == type)
            wanted += count_claimable(w, type);
    wanted = wanted < limit ? wanted : limit;
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT,
                                             .worker = "w",
                                             .lease_us = LEASE_US,
                                             .limit = limit,
                                             .types = choice == TYPES ? NULL : &type_names[choice],
                                             .type_count = choice == TYPES ? 0 : 1};
    const tide_status status = tide_work_claim(t->store, &request, &claims, &t->err);
    if (status != TIDE_NONE)
        assert_ok_err(status, &t->err);
    /* A claim that finds a slot does not look for those that are free behind it; one in vain does. */
    if (wanted == 0)
        assert_int_equal(0, claims.count);
    else
        assert_in_range(claims.count, 1, wanted);
    for (int i = 0; i < claims.count && w->held_count < HELD_MAX; i++) {
        held *h = &w->held[w->held_count++];
        *h = (held){.token = claims.items[i].lease_token};
        (void)snprintf(h->id, sizeof h->id, "%s", claims.items[i].work_item_id);
    }
    tide_work_claims_done(&claims);
}

static void end_any(world *w)
{
    store_test *t = w->t;
    if (w->held_count == 0)
        return;
    const int at = (int)prng_below(&w->random, (uint64_t)w->held_count);
    const held h = w->held[at];
    w->held[at] = w->held[--w->held_count];
    /* Leases may be over, items cancelled: what is refused changes nothing. */
    switch (prng_below(&w->random, 6)) {
    case 0:
        TIDE_IGNORE(finish(t, &h, "{}"));
        break;
    case 1:
        TIDE_IGNORE(fail_it(t, &h, "boom", prng_below(&w->random, 2)));
        break;
    case 2:
        TIDE_IGNORE(tide_work_release(t->store, h.id, h.token, 0, &t->err));
        break;
    case 3:
        TIDE_IGNORE(tide_work_cancel(t->store, h.id, "any", &t->err));
        break;
    case 4:
        TIDE_IGNORE(tide_work_delete(t->store, h.id, true, &t->err));
        break;
    default:
        virtual_env_advance(&t->clock, LEASE_US + 1);
        (void)sweep(t);
        break;
    }
}

static void limit_any(world *w)
{
    const int type = (int)prng_below(&w->random, TYPES);
    w->running[type] = (int64_t)prng_below(&w->random, 4);
    w->per_key[type] = (int64_t)prng_below(&w->random, 3);
    const tide_work_limit limit = {TIDE_WORK_LIMIT_INIT, .work_type = type_names[type],
                                   .running = w->running[type],
                                   .running_per_key = w->per_key[type]};
    assert_ok_err(tide_work_limit_set(w->t->store, &limit, &w->t->err), &w->t->err);
}

static void claims_fill_the_limits_and_never_exceed_them(void **state)
{
    store_test *t = *state;
    world w = {.t = t};
    const uint64_t seed = prng_seed_from_env(prng_first_seed());
    prng_init(&w.random, seed);
    raw_open(&w.raw, t);
    make_task(t, "t0");
    make_task(t, "t1");
    for (int step = 0; step < STEPS; step++) {
        const uint64_t what = prng_below(&w.random, 10);
        if (what < 4)
            add_any(&w);
        else if (what < 7)
            claim_any(&w);
        else if (what < 9)
            end_any(&w);
        else
            limit_any(&w);
    }
    raw_close(&w.raw);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(no_more_items_run_than_the_limit_of_their_type),
        STORE_CASE(types_are_claimed_in_one_order_beside_a_limit),
        STORE_CASE(a_claim_of_a_task_respects_the_limit),
        STORE_CASE(each_key_has_its_own_slots),
        STORE_CASE(both_limits_hold_together),
        STORE_CASE(a_full_key_does_not_hold_up_the_others),
        STORE_CASE(every_end_of_an_attempt_frees_its_slot),
        STORE_CASE(plain_sql_frees_slots_and_takes_them),
        STORE_CASE(a_limit_counts_what_ran_before_it),
        STORE_CASE(wrong_limits_are_refused),
        STORE_CASE(a_retry_has_the_limit_key),
        STORE_CASE(claimers_at_once_do_not_exceed_the_limit),
        STORE_CASE(claims_fill_the_limits_and_never_exceed_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
