/* Looking: one item, lists, attempts, reasons, statistics, types. */
#include "work/work_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tide_status join_id(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    char *out = arg;
    const size_t len = strlen(out);
    (void)snprintf(out + len, 8192 - len, "%s%s", len ? " " : "", item->work_item_id);
    return TIDE_OK;
}

static const char *list(store_test *t, tide_work_filter filter)
{
    static char ids[8192];
    ids[0] = '\0';
    assert_ok_err(tide_work_list(t->store, &filter, join_id, ids, &t->err), &t->err);
    return ids;
}

static void items_are_listed_newest_first_and_filtered(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "u");
    add_item(t, "a");
    virtual_env_advance(&t->clock, SECOND_US);
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "b", .work_type = "other"});
    virtual_env_advance(&t->clock, SECOND_US);
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "c", .task_id = "u"});
    virtual_env_advance(&t->clock, SECOND_US);
    add_item(t, "d");
    const held a = claim(t, "w1");
    assert_string_equal("a", a.id);
    (void)claim(t, "w2");
    assert_ok(fail_it(t, &a, "x", true));
    assert_string_equal("d c b a", list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .limit = 0}));
    assert_string_equal("d c", list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .limit = 2}));
    assert_string_equal("b a",
                        list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .before_id = "c"}));
    assert_string_equal(
        "b", list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .before_id = "c", .limit = 1}));
    assert_string_equal("d b a",
                        list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .task_id = "t"}));
    assert_string_equal("b a", list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .task_id = "t",
                                                          .before_id = "d"}));
    assert_string_equal("d c a",
                        list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .work_type = "job"}));
    assert_string_equal("d b",
                        list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .status = "pending"}));
    assert_string_equal(
        "a", list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .failure_kind = "error"}));
    assert_string_equal("c", list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .worker = "w2"}));
    assert_string_equal("", list(t, (tide_work_filter){TIDE_WORK_FILTER_INIT, .task_id = "none"}));
    const tide_work_filter gone = {TIDE_WORK_FILTER_INIT, .before_id = "none"};
    char ids[8192] = "";
    assert_status(TIDE_E_NOT_FOUND, tide_work_list(t->store, &gone, join_id, ids, &t->err));
    const tide_work_filter negative = {TIDE_WORK_FILTER_INIT, .limit = -1};
    assert_status(TIDE_E_INVALID, tide_work_list(t->store, &negative, join_id, ids, &t->err));
}

static tide_status count_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)item;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

/* Pages end by their bytes as well as by their rows; nothing is left out or told twice. */
static void long_lists_are_complete(void **state)
{
    store_test *t = *state;
    enum { MANY = 350 };
    static char input[200000];
    memset(input, 'x', sizeof input - 1);
    input[0] = '"';
    input[sizeof input - 2] = '"';
    make_task(t, "t");
    tide_work_spec items[MANY];
    tide_work_added added[MANY];
    for (int i = 0; i < MANY; i++)
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job",
                                    .max_retries = -1, .input = i % 2 ? input : NULL};
    assert_ok_err(try_add(t, items, MANY / 2, added), &t->err);
    assert_ok_err(try_add(t, items + MANY / 2, MANY - MANY / 2, added), &t->err);
    int count = 0;
    const tide_work_filter all = {TIDE_WORK_FILTER_INIT, .limit = 100000};
    assert_ok_err(tide_work_list(t->store, &all, count_item, &count, &t->err), &t->err);
    assert_int_equal(MANY, count);
    count = 0;
    const tide_work_filter some = {TIDE_WORK_FILTER_INIT, .limit = 201, .task_id = "t"};
    assert_ok(tide_work_list(t->store, &some, count_item, &count, &t->err));
    assert_int_equal(201, count);
}

static void every_state_has_its_reason(void **state)
{
    store_test *t = *state;
    char words[512];
    make_task(t, "t");
    add_item(t, "first");
    add_item(t, "second");
    add_new(t,
            (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "late", .delay_us = MINUTE_US});
    assert_string_equal("ready", reasons_of(t, "first", words));
    assert_contains(words, "next of its type");
    virtual_env_advance(&t->clock, SECOND_US);
    add_item(t, "third");
    assert_string_equal("behind", reasons_of(t, "third", words));
    assert_contains(words, "2 items");
    assert_string_equal("delayed", reasons_of(t, "late", words));
    assert_contains(words, "59.0 s");
    const held h = claim(t, "w7");
    assert_string_equal("running", reasons_of(t, "first", words));
    assert_contains(words, "w7 works on it");
    assert_ok(fail_it(t, &h, "no luck", true));
    assert_string_equal("ended", reasons_of(t, "first", words));
    assert_contains(words, "no luck");
    assert_ok(tide_work_pause(t->store, "job", NULL, &t->err));
    assert_string_equal("paused delayed", reasons_of(t, "late", NULL));
    assert_status(TIDE_NONE,
                  tide_work_explain(t->store, "none", (tide_work_reason_fn *)NULL, NULL, &t->err));
}

typedef struct numbers {
    char items[1024];
    tide_work_lease_stat lease;
    int lease_count;
    char tasks[1024];
    double pending_age_s;
} numbers;

static tide_status note_item(void *arg, const tide_work_stat *stat, tide_error *err)
{
    (void)err;
    numbers *n = arg;
    const size_t len = strlen(n->items);
    (void)snprintf(n->items + len, sizeof n->items - len, "%s/%s=%d ", stat->work_type,
                   stat->status, (int)stat->count);
    if (strcmp(stat->status, "pending") == 0)
        n->pending_age_s = stat->mean_age_s;
    return TIDE_OK;
}

static tide_status note_lease(void *arg, const tide_work_lease_stat *stat, tide_error *err)
{
    (void)err;
    numbers *n = arg;
    n->lease = *stat;
    n->lease_count++;
    return TIDE_OK;
}

static tide_status note_task(void *arg, const tide_work_task_stat *stat, tide_error *err)
{
    (void)err;
    numbers *n = arg;
    const size_t len = strlen(n->tasks);
    (void)snprintf(n->tasks + len, sizeof n->tasks - len, "%s=%d/%d ", stat->task_id,
                   (int)stat->checkpoint_count, (int)stat->max_sequence);
    return TIDE_OK;
}

/* The three monitoring queries: items by type and status, lease health, checkpoint growth. */
static void statistics_tell_what_the_three_queries_tell(void **state)
{
    store_test *t = *state;
    numbers n = {.items = ""};
    const tide_work_stats_fns fns = {TIDE_WORK_STATS_FNS_INIT, .item = note_item,
                                     .lease = note_lease, .task = note_task};
    make_task(t, "t");
    make_task(t, "u");
    add_item(t, "a");
    virtual_env_advance(&t->clock, 10 * SECOND_US);
    add_item(t, "b");
    add_item(t, "c");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "d", .work_type = "other"});
    const held a =
        claim_with(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 1,
                                                       .lease_us = 600 * SECOND_US});
    assert_string_equal("a", a.id);
    virtual_env_advance(&t->clock, 130 * SECOND_US);
    const held b = claim(t, "w");
    assert_string_equal("b", b.id);
    for (int i = 0; i < 3; i++) {
        const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .task_id = i ? "u" : "t",
                                                .type = "iteration_end",
                                                .snapshot = tide_view_of("{}")};
        tide_checkpoint_numbers ignored;
        assert_ok(tide_journal_append(t->store, &checkpoint, &ignored, &t->err));
    }
    assert_ok_err(tide_work_stats(t->store, &fns, &n, &t->err), &t->err);
    assert_string_equal("job/in_progress=2 job/pending=1 other/pending=1 ", n.items);
    assert_true(fabs(n.pending_age_s - 130.0) < 0.01);
    assert_int_equal(1, n.lease_count);
    assert_int_equal(2, n.lease.active);
    assert_int_equal(1, n.lease.stale);
    assert_true(fabs(n.lease.mean_heartbeat_age_s - 65.0) < 0.01);
    assert_string_equal("u=2/2 t=1/1 ", n.tasks);
}

static tide_status join_type(void *arg, const tide_work_type *type, tide_error *err)
{
    (void)err;
    char *out = arg;
    const size_t len = strlen(out);
    (void)snprintf(out + len, 256 - len, "%s%s%s ", type->work_type, type->is_paused ? ":" : "",
                   type->pause_reason ? type->pause_reason : "");
    return TIDE_OK;
}

static void types_are_known_paused_or_not(void **state)
{
    store_test *t = *state;
    char types[256] = "";
    make_task(t, "t");
    add_item(t, "a");
    assert_ok_err(tide_work_pause(t->store, "unheard", "why not", &t->err), &t->err);
    assert_ok(tide_work_types(t->store, join_type, types, &t->err));
    assert_string_equal("job unheard:why not ", types);
    assert_ok(tide_work_resume(t->store, "unheard", &t->err));
    assert_ok(tide_work_resume(t->store, "never seen", &t->err));
    types[0] = '\0';
    assert_ok(tide_work_types(t->store, join_type, types, &t->err));
    assert_string_equal("job unheard ", types);
    assert_status(TIDE_E_INVALID, tide_work_pause(t->store, "", NULL, &t->err));
}

/* Resuming a type wakes those who wait, whatever they wait for. */
static void resuming_a_type_wakes_everybody(void **state)
{
    store_test *t = *state;
    tide_watch *watch = NULL;
    make_task(t, "t");
    add_item(t, "a");
    assert_ok(tide_work_pause(t->store, "job", NULL, &t->err));
    assert_ok(tide_watch_open(&watch, t->store, TIDE_WORK_TOPIC, &t->err));
    assert_ok(tide_work_resume(t->store, "job", &t->err));
    assert_ok(tide_watch_wait(watch, 10 * SECOND_US, &t->err));
    tide_watch_close(watch);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(items_are_listed_newest_first_and_filtered),
        STORE_CASE(long_lists_are_complete),
        STORE_CASE(every_state_has_its_reason),
        STORE_CASE(statistics_tell_what_the_three_queries_tell),
        STORE_CASE(types_are_known_paused_or_not),
        STORE_CASE(resuming_a_type_wakes_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
