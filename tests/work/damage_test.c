/* Inputs and outputs that are not what was written: no read, claim or copy hands them out; plain SQL leaves no digest. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

static const char *const job[] = {"job"};

typedef struct heard {
    int count;
    char text[TIDE_ERROR_TEXT_MAX + 1];
} heard;

static void hear(void *arg, const char *finding)
{
    heard *h = arg;
    h->count++;
    (void)snprintf(h->text, sizeof h->text, "%s", finding);
}

static void assert_values(store_test *t, int64_t checked, int64_t unchecked, int64_t damaged)
{
    heard found = {0};
    tide_values_checked sum = {0};
    assert_status(damaged > 0 ? TIDE_E_DAMAGED : TIDE_OK,
                  tide_work_verify(t->store, hear, &found, &sum, &t->err));
    assert_int_equal(checked, sum.checked);
    assert_int_equal(unchecked, sum.unchecked);
    assert_int_equal(damaged, sum.damaged);
    assert_int_equal(damaged, found.count);
}

static void add_with_input(store_test *t, const char *id, const char *input)
{
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id, .task_id = "t",
                                .work_type = "job", .input = input, .max_retries = -1});
}

/* As a disk would: no trigger sees that plain SQL wrote it. */
static void damage_input(store_test *t, const char *id)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "UPDATE work_items SET input_data = '{\"n\":3}', revision = revision + 1 WHERE "
                   "work_item_id = '%s'",
                   id);
    run_sql(t, sql);
}

static tide_status take(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    *(int *)arg += item != NULL;
    return TIDE_OK;
}

static void assert_unreadable(store_test *t, const char *id)
{
    int count = 0;
    tide_work_added added;
    assert_status(TIDE_E_DAMAGED, tide_work_find(t->store, id, take, &count, &t->err));
    assert_contains(t->err.text, id);
    assert_contains(t->err.text, "store verify");
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT, .limit = 100};
    assert_status(TIDE_E_DAMAGED, tide_work_list(t->store, &filter, take, &count, &t->err));
    assert_status(TIDE_E_DAMAGED, tide_work_retry(t->store, id, &added, &t->err));
}

static void a_claim_passes_a_damaged_input(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const tide_work_claim_request requests[] = {
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .types = job, .type_count = 1},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .types = job, .type_count = 1, .limit = 20},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .limit = 5},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .task_id = "t", .limit = 5}};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        char damaged[32], sound[32];
        (void)snprintf(damaged, sizeof damaged, "damaged-%zu", i);
        (void)snprintf(sound, sizeof sound, "sound-%zu", i);
        add_with_input(t, damaged, "{\"n\":1}");
        add_with_input(t, sound, "{\"n\":2}");
        damage_input(t, damaged);
        assert_string_equal(sound, claim_ids(t->store, requests[i]));
        assert_unreadable(t, damaged);
        assert_ok_err(tide_work_delete(t->store, sound, true, &t->err), &t->err);
        assert_string_equal("ended", reasons_of(t, damaged, NULL));
        /* alone, there is nothing to do */
        assert_ok_err(tide_work_delete(t->store, damaged, false, &t->err), &t->err);
        add_with_input(t, damaged, "{\"n\":1}");
        damage_input(t, damaged);
        assert_string_equal("", claim_ids(t->store, requests[i]));
        assert_ok_err(tide_work_delete(t->store, damaged, false, &t->err), &t->err);
    }
}

static void a_type_with_a_limit_passes_a_damaged_input(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const tide_work_limit limit = {TIDE_WORK_LIMIT_INIT, .work_type = "job", .running = 1};
    assert_ok_err(tide_work_limit_set(t->store, &limit, &t->err), &t->err);
    add_with_input(t, "damaged", "{\"n\":1}");
    add_with_input(t, "sound", "{\"n\":2}");
    damage_input(t, "damaged");
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .types = job, .type_count = 1};
    assert_string_equal("sound", claim_ids(t->store, request));
    assert_unreadable(t, "damaged");
}

static void a_finish_with_a_claim_passes_a_damaged_input(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_with_input(t, "first", "{\"n\":1}");
    const held h = claim(t, "w");
    add_with_input(t, "damaged", "{\"n\":1}");
    add_with_input(t, "sound", "{\"n\":2}");
    damage_input(t, "damaged");
    tide_work_claims claims;
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .types = job, .type_count = 1};
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = h.id, .token = h.token,
                               .output = "1"};
    assert_ok_err(tide_work_next(t->store, &result, 1, &request, &claims, &t->err), &t->err);
    assert_int_equal(1, claims.count);
    assert_string_equal("sound", claims.items[0].work_item_id);
    tide_work_claims_done(&claims);
    assert_unreadable(t, "damaged");
    assert_values(t, 3, 0, 1);
}

static void forget_rules(store_test *t)
{
    if (tide_store_engine(t->store) == TIDE_ENGINE_POSTGRES)
        run_sql(t, "ALTER TABLE work_items DISABLE TRIGGER USER");
    else
        run_sql(t, "DROP TRIGGER check_work_items_status");
}

static void a_damaged_output_is_not_served(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_with_input(t, "a", "{\"n\":1}");
    const held h = claim(t, "w");
    assert_ok_err(finish(t, &h, "{\"files\":42}"), &t->err);
    assert_values(t, 1, 0, 0);
    forget_rules(t);
    run_sql(t, "UPDATE work_items SET output_data = '{\"files\":43}', revision = revision + 1");
    assert_unreadable(t, "a");
    assert_values(t, 1, 0, 1);
    run_sql(t, "UPDATE work_items SET output_data = NULL, revision = revision + 1");
    assert_unreadable(t, "a");
}

/* Every way to write a value leaves a digest that fits. */
static void what_the_library_writes_is_checked(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_with_input(t, "a", "{\"text\":\"\\u0000 \\\"x\\\" \xc3\xa4\"}");
    add_with_input(t, "b", NULL);
    add_with_input(t, "c", "\"\"");
    add_with_input(t, "d", "4");
    tide_work_claims claims;
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .types = job, .type_count = 1, .limit = 3};
    assert_ok_err(tide_work_claim(t->store, &request, &claims, &t->err), &t->err);
    tide_work_result results[3];
    for (int i = 0; i < 3; i++)
        results[i] =
            (tide_work_result){TIDE_WORK_RESULT_INIT, .work_item_id = claims.items[i].work_item_id,
                               .token = claims.items[i].lease_token,
                               .output = i == 1 ? NULL : "{\"out\":\"\\\\ {}, NULL\"}"};
    assert_ok_err(tide_work_finish_many(t->store, results, 3, &t->err), &t->err);
    tide_work_claims_done(&claims);
    const held h = claim(t, "w");
    assert_string_equal("d", h.id);
    assert_ok_err(fail_it(t, &h, "no", true), &t->err);
    tide_work_added added;
    assert_ok_err(tide_work_retry(t->store, "d", &added, &t->err), &t->err);
    assert_values(t, 5, 0, 0);
    const held again = claim(t, "w");
    assert_string_equal(added.work_item_id, again.id);
    assert_string_equal("4", again.input);
}

static void plain_sql_leaves_no_digest(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_with_input(t, "a", "{\"n\":1}");
    add_with_input(t, "b", "{\"n\":2}");
    run_sql(t, "INSERT INTO work_items (work_item_id, task_id, work_type, input_data) VALUES ('c', "
               "'t', 'job', '3')");
    assert_values(t, 2, 1, 0);
    run_sql(t, "UPDATE work_items SET priority = 1 WHERE work_item_id = 'b'");
    assert_values(t, 2, 1, 0);
    run_sql(t, "UPDATE work_items SET input_data = '{\"n\":5}' WHERE work_item_id = 'b'");
    assert_values(t, 1, 2, 0);
    const held h = claim(t, "w");
    assert_string_equal("{\"n\":5}", h.input);
    assert_ok_err(finish(t, &h, "1"), &t->err);
    assert_values(t, 1, 2, 0);
    run_sql(t, "UPDATE work_items SET status = 'in_progress', lease_holder = 'plain' WHERE "
               "work_item_id = 'a'");
    assert_values(t, 1, 2, 0);
    run_sql(t, "UPDATE work_items SET status = 'completed', output_data = '{\"n\":6}' WHERE "
               "work_item_id = 'a'");
    assert_values(t, 0, 3, 0);
    assert_string_equal("{\"n\":6}", look(t, "a").output);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_claim_passes_a_damaged_input),
        STORE_CASE(a_type_with_a_limit_passes_a_damaged_input),
        STORE_CASE(a_finish_with_a_claim_passes_a_damaged_input),
        STORE_CASE(a_damaged_output_is_not_served),
        STORE_CASE(what_the_library_writes_is_checked),
        STORE_CASE(plain_sql_leaves_no_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
