/* Two callers and one idempotency key, in forced orders; and many at once. */
#include "support/interleave.h"

#include "core/idempotency_calls.h"

typedef enum move { BEGIN, COMPLETE, DELETE, INSERT_PLAINLY } move;

/* One transaction on the key, which stops at step 1 with everything done but the commit. */
typedef struct caller {
    move what;
    tide_store *store;
    interleave *x;
    int actor;
    int64_t token;
    bool is_failing;
    tide_idempotency_state state;
    tide_status status;
    tide_error err;
} caller;

static tide_status remove_row(tide_tx *tx, tide_error *err)
{
    char text[] = "DELETE FROM idempotency_keys WHERE idempotency_key = 'job';";
    return run_script(tx, text, err);
}

static tide_status insert_row(tide_tx *tx, tide_error *err)
{
    char text[] = "INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('job', "
                  "'" HASH_A "');";
    return run_script(tx, text, err);
}

static tide_status make_move(tide_tx *tx, caller *c, tide_error *err)
{
    const tide_idempotency_request r = request_of("job", HASH_A);
    switch (c->what) {
    case BEGIN:
        return tide_idempotency_begin_in(tx, &r, &c->state, err);
    case COMPLETE:
        return tide_idempotency_complete_in(tx, "job", c->token, tide_view_of("answer"), err);
    case DELETE:
        return remove_row(tx, err);
    case INSERT_PLAINLY:
        return insert_row(tx, err);
    }
    return TIDE_E_FAILED;
}

static tide_status move_and_wait(tide_tx *tx, void *arg, tide_error *err)
{
    caller *c = arg;
    TIDE_TRY(make_move(tx, c, err));
    interleave_step(c->x, c->actor, 1);
    return c->is_failing ? tide_fail(err, TIDE_E_FAILED, "as asked") : TIDE_OK;
}

static void run_caller(interleave *x, int actor, void *arg)
{
    caller *c = arg;
    c->x = x;
    c->actor = actor;
    c->status = tide_store_write(c->store, move_and_wait, c, &c->err);
}

/* a has done its work and not committed; b comes and waits; a ends; b ends. */
static void run_both(store_test *t, caller *a, caller *b)
{
    interleave x;
    interleave_init(&x, t);
    a->store = store_test_open_real(t);
    b->store = store_test_open_real(t);
    (void)interleave_add(&x, run_caller, a);
    (void)interleave_add(&x, run_caller, b);
    interleave_until(&x, 0, 1);
    interleave_blocked(&x, 1);
    interleave_finish(&x, 0);
    interleave_finish(&x, 1);
    interleave_done(&x);
    assert_status(a->is_failing ? TIDE_E_FAILED : TIDE_OK, a->status);
}

static void expect_outcome(const caller *c, tide_idempotency_outcome outcome)
{
    assert_ok_err(c->status, &c->err);
    assert_string_equal(tide_idempotency_outcome_name(outcome),
                        tide_idempotency_outcome_name(c->state.outcome));
}

static void done(caller *c)
{
    tide_idempotency_state_done(&c->state);
}

/* A key whose lock is over, on the real clock. Returns its token. */
static int64_t make_stalled_key(store_test *t)
{
    tide_store *real = store_test_open_real(t);
    tide_idempotency_request r = request_of("job", HASH_A);
    r.lock_us = TIDE_LEASE_MIN_US;
    tide_idempotency_state state = {.token = 0};
    assert_ok_err(tide_idempotency_begin(real, &r, &state, &t->err), &t->err);
    tide_env *env = tide_env_system();
    const int64_t start_us = env->boot_us(env);
    while (env->boot_us(env) <= start_us + 2 * TIDE_LEASE_MIN_US)
        ;
    return state.token;
}

/* Both find no key; one makes it, the other finds it made. */
static void of_two_who_begin_a_new_key_one_runs(void **state)
{
    store_test *t = *state;
    caller a = {.what = BEGIN};
    caller b = {.what = BEGIN};
    run_both(t, &a, &b);
    expect_outcome(&a, TIDE_IDEMPOTENCY_NEW);
    expect_outcome(&b, TIDE_IDEMPOTENCY_IN_PROGRESS);
}

/* ... and when the first rolls back, the second is the one. */
static void the_second_runs_when_the_first_did_not_begin_after_all(void **state)
{
    store_test *t = *state;
    caller a = {.what = BEGIN, .is_failing = true};
    caller b = {.what = BEGIN};
    run_both(t, &a, &b);
    expect_outcome(&b, TIDE_IDEMPOTENCY_NEW);
    assert_true(b.state.token > 0);
}

/* Both see the same lock run out; one takes over. */
static void of_two_who_take_over_one_runs(void **state)
{
    store_test *t = *state;
    const int64_t stalled = make_stalled_key(t);
    caller a = {.what = BEGIN};
    caller b = {.what = BEGIN};
    run_both(t, &a, &b);
    expect_outcome(&a, TIDE_IDEMPOTENCY_TAKEOVER);
    assert_true(a.state.token > stalled);
    expect_outcome(&b, TIDE_IDEMPOTENCY_IN_PROGRESS);
}

/* The late holder answers while another is about to take over: the other gets the answer. */
static void a_late_answer_is_replayed_to_the_one_who_wanted_to_take_over(void **state)
{
    store_test *t = *state;
    caller a = {.what = COMPLETE, .token = make_stalled_key(t)};
    caller b = {.what = BEGIN};
    run_both(t, &a, &b);
    expect_outcome(&b, TIDE_IDEMPOTENCY_REPLAY);
    assert_string_equal("answer", b.state.response);
    done(&b);
}

/* The same, the other way round: who has taken over has, and the late answer is refused. */
static void a_late_answer_is_refused_after_a_takeover(void **state)
{
    store_test *t = *state;
    caller a = {.what = BEGIN};
    caller b = {.what = COMPLETE, .token = make_stalled_key(t)};
    run_both(t, &a, &b);
    expect_outcome(&a, TIDE_IDEMPOTENCY_TAKEOVER);
    assert_status(TIDE_E_LEASE_LOST, b.status);
}

/* The row vanishes between the look and the lock: look again, make it anew. */
static void a_key_that_vanishes_is_made_anew(void **state)
{
    store_test *t = *state;
    (void)make_stalled_key(t);
    caller a = {.what = DELETE};
    caller b = {.what = BEGIN};
    run_both(t, &a, &b);
    expect_outcome(&b, TIDE_IDEMPOTENCY_NEW);
}

/* A key that plain SQL inserts at the same moment counts like one of ours. */
static void a_key_inserted_by_plain_sql_at_the_same_time_is_in_progress(void **state)
{
    store_test *t = *state;
    caller a = {.what = INSERT_PLAINLY};
    caller b = {.what = BEGIN};
    run_both(t, &a, &b);
    expect_outcome(&b, TIDE_IDEMPOTENCY_IN_PROGRESS);
}

/* ---- many at once ---- */

enum { THREADS = 16, ROUNDS = 5 };

typedef struct crowd_member {
    tide_store *store;
    pthread_barrier_t *start;
    const char *key;
    tide_idempotency_state state;
    tide_status status;
    tide_error err;
} crowd_member;

static void *begin_at_once(void *arg)
{
    crowd_member *m = arg;
    const tide_idempotency_request r = request_of(m->key, HASH_A);
    (void)pthread_barrier_wait(m->start);
    m->status = tide_idempotency_begin(m->store, &r, &m->state, &m->err);
    return NULL;
}

static void run_crowd(crowd_member *members, const char *key)
{
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    assert_int_equal(0, pthread_barrier_init(&start, NULL, THREADS));
    for (int i = 0; i < THREADS; i++) {
        members[i].start = &start;
        members[i].key = key;
        assert_int_equal(0, pthread_create(&threads[i], NULL, begin_at_once, &members[i]));
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(0, pthread_join(threads[i], NULL));
    assert_int_equal(0, pthread_barrier_destroy(&start));
}

/* Sixteen callers on four stores, one key: one runs, fifteen are told so. */
static void of_sixteen_who_begin_at_once_one_runs(void **state)
{
    store_test *t = *state;
    tide_store *stores[4];
    for (int i = 0; i < 4; i++)
        stores[i] = store_test_open_real(t);
    for (int round = 0; round < ROUNDS; round++) {
        char key[32];
        snprintf(key, sizeof key, "crowd-%d", round);
        crowd_member members[THREADS] = {0};
        for (int i = 0; i < THREADS; i++)
            members[i].store = stores[i % 4];
        run_crowd(members, key);
        int winner = -1;
        for (int i = 0; i < THREADS; i++) {
            assert_ok_err(members[i].status, &members[i].err);
            if (members[i].state.outcome == TIDE_IDEMPOTENCY_NEW) {
                assert_int_equal(-1, winner);
                winner = i;
            } else {
                assert_int_equal(TIDE_IDEMPOTENCY_IN_PROGRESS, members[i].state.outcome);
            }
        }
        assert_true(winner >= 0);
        assert_ok_err(tide_idempotency_complete(stores[0], key, members[winner].state.token,
                                                tide_view_of("done"), &t->err),
                      &t->err);
    }
}

/* Each takes its turn: begin, give back. Every token is higher than all before it, and nobody runs beside another. */
typedef struct turn {
    tide_store *store;
    int64_t *running;
    int64_t *last_token;
    int taken;
    bool is_wrong;
    tide_status status;
    tide_error err;
} turn;

static void *take_turns(void *arg)
{
    turn *w = arg;
    const tide_idempotency_request r = request_of("turns", HASH_A);
    for (int i = 0; i < 4000 && w->taken < 10 && w->status == TIDE_OK; i++) {
        tide_idempotency_state state = {.token = 0};
        w->status = tide_idempotency_begin(w->store, &r, &state, &w->err);
        if (w->status != TIDE_OK || state.outcome != TIDE_IDEMPOTENCY_NEW)
            continue;
        const int64_t before = __atomic_exchange_n(w->last_token, state.token, __ATOMIC_SEQ_CST);
        w->is_wrong = w->is_wrong || before >= state.token ||
                      __atomic_add_fetch(w->running, 1, __ATOMIC_SEQ_CST) != 1;
        (void)__atomic_sub_fetch(w->running, 1, __ATOMIC_SEQ_CST);
        w->status = tide_idempotency_fail(w->store, "turns", state.token, false, tide_view_of(NULL),
                                          &w->err);
        w->taken++;
    }
    return NULL;
}

static void those_who_take_turns_never_run_beside_each_other(void **state)
{
    store_test *t = *state;
    enum { WORKERS = 4 };
    int64_t running = 0;
    int64_t last_token = 0;
    turn turns[WORKERS];
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        turns[i] = (turn){
            .store = store_test_open_real(t), .running = &running, .last_token = &last_token};
        assert_int_equal(0, pthread_create(&threads[i], NULL, take_turns, &turns[i]));
    }
    int taken = 0;
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
        assert_ok_err(turns[i].status, &turns[i].err);
        assert_false(turns[i].is_wrong);
        taken += turns[i].taken;
    }
    assert_true(taken > 0);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(of_two_who_begin_a_new_key_one_runs),
        STORE_CASE(the_second_runs_when_the_first_did_not_begin_after_all),
        STORE_CASE(of_two_who_take_over_one_runs),
        STORE_CASE(a_late_answer_is_replayed_to_the_one_who_wanted_to_take_over),
        STORE_CASE(a_late_answer_is_refused_after_a_takeover),
        STORE_CASE(a_key_that_vanishes_is_made_anew),
        STORE_CASE(a_key_inserted_by_plain_sql_at_the_same_time_is_in_progress),
        STORE_CASE(of_sixteen_who_begin_at_once_one_runs),
        STORE_CASE(those_who_take_turns_never_run_beside_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
