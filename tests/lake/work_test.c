/* A change with files holds its base: what others do between its beginning and its pin does not fail it.
 *
 * tide_lake_pin_take is wrapped: a case has somebody commit, and the base expire, right before it. */
#include "lake_fixture.h"

#include "base/cleanup.h"
#include "lake/expire.h"
#include "lake/work.h"

static lake_case *meanwhile; /* whose base expires before the next pin */

tide_status __real_tide_lake_pin_take(tide_lake *lake, int64_t catalog_id, int64_t snapshot,
                                      const char *holder, int64_t lease_us, tide_lake_pin *out,
                                      tide_error *err);
tide_status __wrap_tide_lake_pin_take(tide_lake *lake, int64_t catalog_id, int64_t snapshot,
                                      const char *holder, int64_t lease_us, tide_lake_pin *out,
                                      tide_error *err);

tide_status __wrap_tide_lake_pin_take(tide_lake *lake, int64_t catalog_id, int64_t snapshot,
                                      const char *holder, int64_t lease_us, tide_lake_pin *out,
                                      tide_error *err)
{
    lake_case *l = meanwhile;
    meanwhile = NULL;
    if (l) {
        const tide_lake_expire_options options = {.keep_last = 1};
        tide_lake_expired expired;
        lake_insert(l, "work", "main", "t", 1);
        assert_ok_err(tide_lake_expire(l->lake, "work", &options, &expired, &l->err), &l->err);
    }
    return __real_tide_lake_pin_take(lake, catalog_id, snapshot, holder, lease_us, out, err);
}

/* Where the files would be written: it is enough to have come here. */
static tide_status open_nothing(void *arg, tide_lake_data **out, tide_error *err)
{
    (void)arg;
    (void)out;
    return tide_fail(err, TIDE_E_UNSUPPORTED, "no DuckDB here");
}

static lake_case open_work(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    return l;
}

static void who_has_done_nothing_yet_begins_again(void **state)
{
    lake_case l = open_work(state);
    TIDE_CLEANUP(tide_lake_work_done)
    tide_lake_work work = {.lake = l.lake, .open_data = open_nothing, .holder = "a test"};
    assert_ok_err(tide_lake_work_begin(&work, "work", &l.err), &l.err);
    meanwhile = &l;
    assert_status(TIDE_E_UNSUPPORTED,
                  tide_lake_work_append(&work, "main", "t", "x.csv", TIDE_LAKE_CSV, &l.err));
    assert_true(work.has_pin);
    assert_int_equal(tide_lake_change_base(work.change), lake_head(&l, "work"));
    tide_lake_work_done(&work);
    lake_case_done(&l);
}

static void who_has_done_something_is_told_to(void **state)
{
    lake_case l = open_work(state);
    TIDE_CLEANUP(tide_lake_work_done)
    tide_lake_work work = {.lake = l.lake, .open_data = open_nothing, .holder = "a test"};
    assert_ok_err(tide_lake_work_begin(&work, "work", &l.err), &l.err);
    assert_ok_err(tide_lake_create_schema(work.change, "s", &l.err), &l.err);
    meanwhile = &l;
    assert_status(TIDE_E_CONFLICT,
                  tide_lake_work_append(&work, "main", "t", "x.csv", TIDE_LAKE_CSV, &l.err));
    assert_contains(l.err.text, "begin it again");
    tide_lake_work_done(&work);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(who_has_done_nothing_yet_begins_again),
        STORE_CASE(who_has_done_something_is_told_to),
    };
    return cmocka_run_group_tests_name("lake work", tests, NULL, NULL);
}
