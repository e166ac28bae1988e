/* Retrying ended items: dependencies, checkpoints, filters. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

typedef struct retried_list {
    char old[8][64];
    char made[8][64];
    int count;
} retried_list;

static tide_status note(void *arg, const tide_work_retried *retried, tide_error *err)
{
    (void)err;
    retried_list *list = arg;
    assert_true(list->count < 8);
    (void)snprintf(list->old[list->count], sizeof list->old[0], "%s", retried->work_item_id);
    (void)snprintf(list->made[list->count++], sizeof list->made[0], "%s",
                   retried->new_id ? retried->new_id : "-");
    return TIDE_OK;
}

static tide_status try_retry(store_test *t, tide_work_retry_request request, retried_list *out)
{
    *out = (retried_list){.count = 0};
    return tide_work_retry_many(t->store, &request, note, out, &t->err);
}

static const char *made_of(const retried_list *list, const char *old)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->old[i], old) == 0)
            return list->made[i];
    fail_msg("%s was not retried", old);
    return NULL;
}

static tide_status join_id(void *arg, const char *id, tide_error *err)
{
    (void)err;
    char *text = arg;
    const size_t len = strlen(text);
    (void)snprintf(text + len, 256 - len, "%s%s", len ? " " : "", id);
    return TIDE_OK;
}

static const char *depends_on(store_test *t, const char *id)
{
    static char text[256];
    text[0] = '\0';
    assert_ok_err(tide_work_dependencies(t->store, id, join_id, text, &t->err), &t->err);
    return text;
}

static void add_after(store_test *t, const char *id, const char *dependency)
{
    const char *const on[] = {dependency};
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id, .depends_on = on,
                                .depends_on_count = 1});
}

static void fail_next(store_test *t, const char *id)
{
    const held h = claim(t, "w");
    assert_string_equal(id, h.id);
    assert_ok(fail_it(t, &h, "boom", true));
}

static tide_status join_snapshot(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    char *text = arg;
    const size_t len = strlen(text);
    (void)snprintf(text + len, 256 - len, "%s%.*s", len ? " " : "", (int)checkpoint->snapshot.len,
                   checkpoint->snapshot.ptr);
    return TIDE_OK;
}

static const char *snapshots_of(store_test *t, const char *id)
{
    static char text[256];
    text[0] = '\0';
    const tide_journal_filter filter = {TIDE_JOURNAL_FILTER_INIT, .work_item_id = id,
                                        .with_snapshot = true};
    assert_ok_err(tide_journal_list(t->store, &filter, join_snapshot, text, &t->err), &t->err);
    return text;
}

/* A load that is retried must not run before its extract. */
static void a_retry_keeps_its_dependencies(void **state)
{
    store_test *t = *state;
    retried_list list;
    make_task(t, "t");
    add_item(t, "extract");
    add_after(t, "load", "extract");
    const held extract = claim(t, "w");
    assert_ok(finish(t, &extract, NULL));
    fail_next(t, "load");
    assert_ok_err(
        try_retry(t,
                  (tide_work_retry_request){TIDE_WORK_RETRY_REQUEST_INIT, .work_item_id = "load"},
                  &list),
        &t->err);
    assert_int_equal(1, list.count);
    assert_string_equal("extract", depends_on(t, list.made[0]));
    assert_string_equal("load", look(t, list.made[0]).retried_from);
    assert_string_equal(list.made[0], claim(t, "w").id);
}

static void items_retried_together_depend_on_the_new_ones(void **state)
{
    store_test *t = *state;
    retried_list list;
    make_task(t, "t");
    add_item(t, "z-extract"); /* by name behind those that depend on it */
    add_after(t, "load", "z-extract");
    add_after(t, "index", "load");
    fail_next(t, "z-extract");
    while (sweep(t).blocked > 0)
        ;
    assert_item(t, "index", "failed");
    /* What failed with it is not taken along unless that is asked for. */
    assert_status(TIDE_E_CONFLICT, try_retry(t,
                                             (tide_work_retry_request){TIDE_WORK_RETRY_REQUEST_INIT,
                                                                       .work_item_id = "load"},
                                             &list));
    const tide_work_retry_request request = {TIDE_WORK_RETRY_REQUEST_INIT,
                                             .work_item_id = "z-extract", .with_dependents = true};
    assert_ok_err(try_retry(t, request, &list), &t->err);
    assert_int_equal(3, list.count);
    char extract[64];
    char load[64];
    (void)snprintf(extract, sizeof extract, "%s", made_of(&list, "z-extract"));
    (void)snprintf(load, sizeof load, "%s", made_of(&list, "load"));
    assert_string_equal(extract, depends_on(t, load));
    assert_string_equal(load, depends_on(t, made_of(&list, "index")));
    const held first = claim(t, "w");
    assert_string_equal(extract, first.id);
    assert_int_equal(0, claim(t, "w").token);
    assert_ok(finish(t, &first, NULL));
    assert_string_equal(load, claim(t, "w").id);
}

static void put_page(store_test *t, const held *h, const char *json)
{
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "manual_checkpoint",
                                            .snapshot = tide_view_of(json)};
    tide_checkpoint_numbers numbers;
    assert_ok_err(tide_work_checkpoint(t->store, h->id, h->token, &checkpoint, &numbers, &t->err),
                  &t->err);
}

static void the_last_checkpoint_is_handed_over(void **state)
{
    store_test *t = *state;
    retried_list list;
    make_task(t, "t");
    add_item(t, "a");
    const held a = claim(t, "w");
    put_page(t, &a, "{\"page\":6}");
    put_page(t, &a, "{\"page\":7}");
    assert_ok(fail_it(t, &a, "boom", true));
    assert_ok_err(
        try_retry(t, (tide_work_retry_request){TIDE_WORK_RETRY_REQUEST_INIT, .work_item_id = "a"},
                  &list),
        &t->err);
    assert_string_equal("{\"page\":7}", snapshots_of(t, list.made[0]));
    const tide_work_retry_request scratch = {TIDE_WORK_RETRY_REQUEST_INIT, .work_item_id = "a",
                                             .from_scratch = true};
    assert_ok_err(try_retry(t, scratch, &list), &t->err);
    assert_string_equal("", snapshots_of(t, list.made[0]));
    /* An item that is done begins again from the start. */
    const held again = claim(t, "w");
    put_page(t, &again, "{\"page\":9}");
    assert_ok(finish(t, &again, NULL));
    assert_ok_err(
        try_retry(t,
                  (tide_work_retry_request){TIDE_WORK_RETRY_REQUEST_INIT, .work_item_id = again.id},
                  &list),
        &t->err);
    assert_string_equal("", snapshots_of(t, list.made[0]));
}

static void a_filter_retries_what_failed_and_each_once(void **state)
{
    store_test *t = *state;
    retried_list list;
    make_task(t, "t");
    add_item(t, "early");
    fail_next(t, "early");
    virtual_env_advance(&t->clock, MINUTE_US);
    add_item(t, "late");
    fail_next(t, "late");
    add_item(t, "cancelled");
    assert_ok(tide_work_cancel(t->store, "cancelled", NULL, &t->err));
    add_item(t, "pending");
    tide_work_filter filter = {TIDE_WORK_FILTER_INIT, .work_type = "job", .failure_kind = "error"};
    tide_work_retry_request request = {TIDE_WORK_RETRY_REQUEST_INIT, .filter = &filter,
                                       .is_dry_run = true};
    assert_ok_err(try_retry(t, request, &list), &t->err);
    assert_int_equal(2, list.count);
    assert_string_equal("-", list.made[0]);
    request.is_dry_run = false;
    filter.ended_since_us = VIRTUAL_ENV_WALL_US + MINUTE_US;
    assert_ok_err(try_retry(t, request, &list), &t->err);
    assert_int_equal(1, list.count);
    assert_string_equal("late", list.old[0]);
    filter.ended_since_us = 0;
    assert_ok_err(try_retry(t, request, &list), &t->err);
    assert_int_equal(1, list.count);
    assert_string_equal("early", list.old[0]);
    assert_ok_err(try_retry(t, request, &list), &t->err);
    assert_int_equal(0, list.count);
}

static void what_cannot_be_retried_is_refused(void **state)
{
    store_test *t = *state;
    retried_list list;
    make_task(t, "t");
    add_item(t, "a");
    tide_work_filter bad = {TIDE_WORK_FILTER_INIT, .failure_kind = "bad luck"};
    for (int is_dry_run = 0; is_dry_run < 2; is_dry_run++) {
        tide_work_retry_request request = {TIDE_WORK_RETRY_REQUEST_INIT, .work_item_id = "a",
                                           .is_dry_run = is_dry_run};
        assert_status(TIDE_E_CONFLICT, try_retry(t, request, &list));
        request.work_item_id = "none";
        assert_status(TIDE_E_NOT_FOUND, try_retry(t, request, &list));
        request.work_item_id = NULL;
        assert_status(TIDE_E_INVALID, try_retry(t, request, &list));
        request.filter = &bad;
        assert_status(TIDE_E_INVALID, try_retry(t, request, &list));
        assert_contains(t->err.text, "quarantined");
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_retry_keeps_its_dependencies),
        STORE_CASE(items_retried_together_depend_on_the_new_ones),
        STORE_CASE(the_last_checkpoint_is_handed_over),
        STORE_CASE(a_filter_retries_what_failed_and_each_once),
        STORE_CASE(what_cannot_be_retried_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
