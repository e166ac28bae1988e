/* Adding items: all or none, ids and unique keys that come again, bad input. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static tide_work_spec item_of(const char *id)
{
    return (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id, .task_id = "t",
                            .work_type = "job", .max_retries = -1};
}

static void items_get_ids_and_defaults(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_work_spec items[2] = {item_of(NULL), item_of(NULL)};
    tide_work_added added[2];
    assert_ok_err(try_add(t, items, 2, added), &t->err);
    assert_int_equal(36, strlen(added[0].work_item_id));
    assert_string_not_equal(added[0].work_item_id, added[1].work_item_id);
    const item_copy c = look(t, added[0].work_item_id);
    assert_string_equal("pending", c.status);
    assert_int_equal(3, c.max_retries);
    assert_int_equal(0, c.token);
    assert_true(c.claim_key == VIRTUAL_ENV_WALL_US);
    assert_int_equal(1, c.revision);
}

/* An id given again with the same task, type and input is a repetition; with anything else a mistake. */
static void an_id_given_again_is_recognised(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "u");
    tide_work_spec item = item_of("a");
    item.input = "{\"n\": 1}";
    tide_work_added added;
    assert_ok(try_add(t, &item, 1, &added));
    assert_ok(try_add(t, &item, 1, &added));
    assert_true(added.is_existing);
    assert_string_equal("a", added.work_item_id);
    tide_work_spec others[4] = {item, item, item, item};
    others[0].input = "{\"n\": 2}";
    others[1].input = NULL;
    others[2].work_type = "other";
    others[3].task_id = "u";
    for (int i = 0; i < 4; i++)
        assert_status(TIDE_E_EXISTS, try_add(t, &others[i], 1, &added));
    assert_contains(t->err.text, "a already");
}

/* A repeated batch is fine also when its task has ended meanwhile: nothing is new. */
static void a_repeated_batch_is_fine_after_its_task_has_ended(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const tide_work_spec item = item_of("a");
    tide_work_added added;
    assert_ok(try_add(t, &item, 1, &added));
    const held h = claim(t, "w");
    assert_ok(finish(t, &h, NULL));
    assert_ok_err(tide_task_finish(t->store, "t", false, false, &t->err), &t->err);
    assert_ok_err(try_add(t, &item, 1, &added), &t->err);
    assert_true(added.is_existing);
    const tide_work_spec fresh = item_of("b");
    assert_status(TIDE_E_CONFLICT, try_add(t, &fresh, 1, &added));
    assert_contains(t->err.text, "succeeded");
}

static void an_id_given_twice_in_one_batch_is_one_item(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_work_spec items[3] = {item_of("a"), item_of("b"), item_of("a")};
    tide_work_added added[3];
    assert_ok_err(try_add(t, items, 3, added), &t->err);
    assert_false(added[0].is_existing);
    assert_true(added[2].is_existing);
    assert_string_equal("a", added[2].work_item_id);
    items[2].input = "1";
    items[0].work_item_id = items[2].work_item_id = "c";
    assert_status(TIDE_E_EXISTS, try_add(t, items, 3, added));
    assert_false(look(t, "c").is_there);
}

/* At most one live item per type and unique key; when it has ended, the key is free again. */
static void a_live_item_of_the_same_key_stands_for_the_new_one(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_work_spec item = item_of(NULL);
    tide_work_added first;
    tide_work_added again;
    item.unique_key = "nightly";
    assert_ok_err(try_add(t, &item, 1, &first), &t->err);
    assert_ok(try_add(t, &item, 1, &again));
    assert_true(again.is_existing);
    assert_string_equal(first.work_item_id, again.work_item_id);
    item.work_type = "other";
    assert_ok(try_add(t, &item, 1, &again));
    assert_false(again.is_existing);
    item.work_type = "job";
    const held h = claim(t, "w");
    assert_ok(try_add(t, &item, 1, &again));
    assert_true(again.is_existing);
    assert_ok(finish(t, &h, NULL));
    assert_ok(try_add(t, &item, 1, &again));
    assert_false(again.is_existing);
}

static void a_key_given_twice_in_one_batch_is_one_item(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_work_spec items[3] = {item_of("a"), item_of("b"), item_of("c")};
    tide_work_added added[3];
    items[0].unique_key = items[2].unique_key = "k";
    assert_ok_err(try_add(t, items, 3, added), &t->err);
    assert_true(added[2].is_existing);
    assert_string_equal("a", added[2].work_item_id);
    assert_false(look(t, "c").is_there);
}

/* Only a live item stands for a new one: an earlier one of the batch that was found by its id may have ended. */
static void an_ended_item_of_the_batch_does_not_stand_for_a_new_one(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_work_spec items[3] = {item_of("a"), item_of("b"), item_of("c")};
    tide_work_added added[3];
    items[0].unique_key = items[1].unique_key = items[2].unique_key = "k";
    assert_ok(try_add(t, items, 1, added));
    const held h = claim(t, "w");
    assert_ok(finish(t, &h, NULL));
    assert_ok_err(try_add(t, items, 3, added), &t->err);
    assert_true(added[0].is_existing);
    assert_false(added[1].is_existing);
    assert_item(t, "b", "pending");
    assert_true(added[2].is_existing);
    assert_string_equal("b", added[2].work_item_id);
}

static void one_bad_item_stops_the_whole_batch(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_work_spec items[2] = {item_of("a"), item_of("b")};
    tide_work_added added[2];
    items[1].task_id = "missing";
    assert_status(TIDE_E_NOT_FOUND, try_add(t, items, 2, added));
    assert_contains(t->err.text, "missing");
    assert_false(look(t, "a").is_there);
}

static void bad_items_are_refused(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    char long_id[TIDE_WORK_ID_MAX + 2];
    memset(long_id, 'x', sizeof long_id - 1);
    long_id[sizeof long_id - 1] = '\0';
    const struct {
        tide_work_spec item;
        const char *words;
    } bad[] = {
        {{TIDE_WORK_SPEC_INIT, .task_id = "", .work_type = "job"}, "task's id"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = ""}, "work type"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = NULL}, "work type"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "a\tb"}, "control characters"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "\xff"}, "UTF-8"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .work_item_id = ""},
         "1 to 128 bytes"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .work_item_id = long_id}, "129"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .input = "{"},
         "input is not JSON"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .input = ""},
         "input is not JSON"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .input = "\"\xff\""},
         "input is not JSON"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .priority = 1000001},
         "priority"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .priority = -1000001},
         "priority"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .max_retries = 1000001},
         "max_retries"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .run_after_us = -1},
         "run_after"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .run_after_us = INT64_MAX},
         "run_after"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .delay_us = -1}, "delay"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .delay_us = 1,
          .run_after_us = 1},
         "not both"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .timeout_us = 1}, "timeout"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .timeout_us = -5}, "timeout"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .unique_key = ""}, "unique key"},
        {{TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job", .depends_on_count = -1},
         "dependencies"},
    };
    tide_work_added added;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status_err(TIDE_E_INVALID, try_add(t, &bad[i].item, 1, &added), &t->err);
        assert_contains(t->err.text, bad[i].words);
    }
    assert_status(TIDE_E_INVALID, try_add(t, &bad[0].item, 0, &added));
    assert_status(TIDE_E_INVALID, try_add(t, &bad[0].item, TIDE_WORK_BATCH_MAX + 1, &added));
    assert_string_equal("", claim_ids(t->store, (tide_work_claim_request){
                                                    TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 9}));
}

/* Inputs up to the limit go in and come back as they were; larger ones are refused. */
static void a_large_input_comes_back_whole(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    TIDE_CLEANUP(tide_freep) char *input = malloc(TIDE_WORK_DATA_MAX + 2);
    assert_non_null(input);
    memset(input, 'x', TIDE_WORK_DATA_MAX + 1);
    input[0] = '"';
    input[100] = '\\';
    input[101] = '"';
    input[TIDE_WORK_DATA_MAX] = '"';
    input[TIDE_WORK_DATA_MAX + 1] = '\0';
    tide_work_spec item = item_of("big");
    tide_work_added added;
    item.input = input;
    assert_status(TIDE_E_INVALID, try_add(t, &item, 1, &added));
    input[TIDE_WORK_DATA_MAX - 1] = '"';
    input[TIDE_WORK_DATA_MAX] = '\0';
    assert_ok_err(try_add(t, &item, 1, &added), &t->err);
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w"};
    tide_work_claims claims;
    assert_ok_err(tide_work_claim(t->store, &request, &claims, &t->err), &t->err);
    assert_int_equal(0, strcmp(input, claims.items[0].input));
    tide_work_claims_done(&claims);
}

static void a_thousand_items_go_in_at_once(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    TIDE_CLEANUP(tide_freep) tide_work_spec *items = calloc(TIDE_WORK_BATCH_MAX, sizeof *items);
    TIDE_CLEANUP(tide_freep) tide_work_added *added = calloc(TIDE_WORK_BATCH_MAX, sizeof *added);
    assert_true(items && added);
    for (int i = 0; i < TIDE_WORK_BATCH_MAX; i++)
        items[i] = item_of(NULL);
    assert_ok_err(try_add(t, items, TIDE_WORK_BATCH_MAX, added), &t->err);
    tide_work_claims claims;
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .limit = TIDE_WORK_BATCH_MAX};
    assert_ok_err(tide_work_claim(t->store, &request, &claims, &t->err), &t->err);
    assert_int_equal(TIDE_WORK_BATCH_MAX, claims.count);
    for (int i = 0; i < claims.count; i++)
        assert_string_equal(added[i].work_item_id, claims.items[i].work_item_id);
    tide_work_claims_done(&claims);
}

/* Whoever waits for work is told, by type; a batch of many types wakes everybody. */
static void adding_wakes_those_who_watch_the_type(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    char topic[64];
    char long_type[TIDE_WORK_TYPE_MAX + 1];
    memset(long_type, 'y', TIDE_WORK_TYPE_MAX);
    long_type[TIDE_WORK_TYPE_MAX] = '\0';
    const char *const types[] = {"job", long_type};
    for (int i = 0; i < 2; i++) {
        tide_watch *watch = NULL;
        tide_work_topic(topic, types[i]);
        assert_true(strlen(topic) <= TIDE_TOPIC_MAX);
        assert_ok_err(tide_watch_open(&watch, t->store, topic, &t->err), &t->err);
        add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_type = types[i]});
        assert_ok(tide_watch_wait(watch, 10 * SECOND_US, &t->err));
        tide_watch_close(watch);
    }
    tide_watch *watch = NULL;
    assert_ok(tide_watch_open(&watch, t->store, TIDE_WORK_TOPIC, &t->err));
    tide_work_spec items[9];
    tide_work_added added[9];
    char names[9][8];
    for (int i = 0; i < 9; i++) {
        (void)snprintf(names[i], sizeof names[i], "type%d", i);
        items[i] = item_of(NULL);
        items[i].work_type = names[i];
    }
    assert_ok(try_add(t, items, 9, added));
    assert_ok(tide_watch_wait(watch, 10 * SECOND_US, &t->err));
    tide_watch_close(watch);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(items_get_ids_and_defaults),
        STORE_CASE(an_id_given_again_is_recognised),
        STORE_CASE(a_repeated_batch_is_fine_after_its_task_has_ended),
        STORE_CASE(an_id_given_twice_in_one_batch_is_one_item),
        STORE_CASE(a_live_item_of_the_same_key_stands_for_the_new_one),
        STORE_CASE(a_key_given_twice_in_one_batch_is_one_item),
        STORE_CASE(an_ended_item_of_the_batch_does_not_stand_for_a_new_one),
        STORE_CASE(one_bad_item_stops_the_whole_batch),
        STORE_CASE(bad_items_are_refused),
        STORE_CASE(a_large_input_comes_back_whole),
        STORE_CASE(a_thousand_items_go_in_at_once),
        STORE_CASE(adding_wakes_those_who_watch_the_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
