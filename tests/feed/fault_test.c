/* No memory, no disk: a commit is there as a whole or not at all, and what was said is true. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "feed/feed_fixture.h"
#include "support/alloc_fault.h"
#include "support/disk/fault_vfs.h"

typedef struct rig {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    virtual_env clock;
    fault_vfs *disk;
    tide_store *store;
    tide_feed *feed;
    tide_error err;
    int64_t head; /* what must be there at least */
} rig;

static void rig_open(rig *r)
{
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = &r->clock.env,
                                        .state_dir = "", .is_inline = true,
                                        .sqlite_vfs = fault_vfs_name(r->disk)};
    assert_ok_err(tide_store_open(&r->store, r->path, &options, &r->err), &r->err);
    assert_ok_err(tide_feed_open(&r->feed, r->store, NULL, &r->err), &r->err);
}

static void rig_close(rig *r)
{
    tide_feed_closep(&r->feed);
    tide_store_closep(&r->store);
}

static int rig_setup(void **state)
{
    static rig r;
    r = (rig){.head = 0};
    virtual_env_init(&r.clock, 1);
    assert_ok_err(tempdir_make(&r.dir, &r.err), &r.err);
    tempdir_join(&r.dir, "store.db", r.path);
    r.disk = fault_vfs_new(r.dir.path, 3);
    rig_open(&r);
    (void)put_logs(r.feed, 5, "first", 1);
    r.head = 5;
    *state = &r;
    return 0;
}

static int rig_teardown(void **state)
{
    rig *r = *state;
    alloc_fault_off();
    fault_vfs_fail_off(r->disk);
    rig_close(r);
    fault_vfs_free(r->disk);
    TIDE_IGNORE(tempdir_remove(&r->dir, NULL));
    virtual_env_done(&r->clock);
    return 0;
}

/* Records that found no memory are left out: *count is how many are in. */
static tide_status try_commit(rig *r, int *count, int64_t *first)
{
    int64_t n = 0;
    tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_LOGS), 0);
    for (int i = 0; i < *count; i++) {
        tide_record_begin(&batch);
        tide_record_i64(&batch, TIDE_LOG_TIMESTAMP, n++);
        tide_record_text(&batch, TIDE_LOG_SERVICE_NAME, tide_view_of("api"));
        tide_record_text(&batch, TIDE_LOG_BODY, tide_view_of("a body that can be packed, packed"));
        TIDE_IGNORE(tide_record_end(&batch));
    }
    tide_feed_records records = tide_record_batch_feed(&batch, NULL);
    const tide_status status = tide_feed_commit(r->feed, &records, 1, &r->err);
    *first = records.first_seq;
    *count = records.count;
    tide_record_batch_done(&batch);
    return status;
}

/* The head is what was acknowledged, and everything holds together. */
static void check(rig *r, bool may_have_more)
{
    tide_feed_answer answer =
        read_feed(r->feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT, .max_records = 50000});
    if (may_have_more)
        assert_true(answer.head_seq >= r->head);
    else
        assert_int_equal(r->head, answer.head_seq);
    assert_numbers(&answer, TIDE_STREAM_LOGS, 1, answer.head_seq);
    r->head = answer.head_seq;
    tide_feed_answer_done(&answer);
    assert_ok_err(tide_feed_verify(r->feed, NULL, NULL, NULL, &r->err), &r->err);
}

static void commit_and_read(void *arg)
{
    rig *r = arg;
    int64_t first = 0;
    int count = 40;
    const tide_status committed = try_commit(r, &count, &first);
    tide_feed_answer answer = {0};
    const tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "logs", .start_seq = 2,
                                       .reader = "colony", .max_records = 7};
    const tide_status read = tide_feed_read(r->feed, &request, &answer, &r->err);
    if (read == TIDE_OK)
        assert_numbers(&answer, TIDE_STREAM_LOGS, 3, 9 <= answer.head_seq ? 9 : answer.head_seq);
    tide_feed_answer_done(&answer);
    int64_t next_us = 0;
    const tide_status stepped = tide_feed_step(r->feed, &next_us, &r->err);
    alloc_fault_off();
    assert_true(read == TIDE_OK || read == TIDE_E_NOMEM);
    assert_true(stepped == TIDE_OK || stepped == TIDE_E_NOMEM);
    if (committed == TIDE_OK) {
        assert_int_equal(r->head + 1, first);
        r->head += count;
    }
    check(r, committed == TIDE_E_OUTCOME_UNKNOWN);
}

/* Every allocation of a commit, a read and a step fails once. */
static void a_lack_of_memory_changes_nothing(void **state)
{
    rig *r = *state;
    assert_true(alloc_fault_sweep(alloc_fault_at, commit_and_read, r, 3000) > 0);
}

/* Every call to the disk during a commit fails once: what was refused is not there, also after a restart. */
static void a_failing_disk_loses_nothing_that_was_acknowledged(void **state)
{
    rig *r = *state;
    for (int64_t nth = 1; nth < 60; nth++) {
        int64_t first = 0;
        fault_vfs_fail(r->disk,
                       (fault_vfs_fault){.on = FAULT_VFS_ANY, .nth = nth, .is_short = nth & 1});
        int count = 300;
        const tide_status status = try_commit(r, &count, &first);
        fault_vfs_fail_off(r->disk);
        if (status == TIDE_OK) {
            assert_int_equal(r->head + 1, first);
            r->head += count;
        }
        if (nth % 8 == 0) {
            rig_close(r);
            rig_open(r);
        }
        check(r, status == TIDE_E_OUTCOME_UNKNOWN);
    }
}

/* The same during retention: a step is done or not, and the books close. */
static void a_failing_disk_leaves_whole_steps(void **state)
{
    rig *r = *state;
    for (int64_t nth = 1; nth < 40; nth++) {
        int64_t first = 0;
        int count = 10;
        assert_ok_err(try_commit(r, &count, &first), &r->err);
        const tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "logs",
                                           .reader = "colony", .start_seq = first};
        tide_feed_answer answer = {0};
        assert_ok_err(tide_feed_read(r->feed, &request, &answer, &r->err), &r->err);
        tide_feed_answer_done(&answer);
        virtual_env_advance(&r->clock, 25 * HOUR_US);
        int64_t next_us = 0;
        fault_vfs_fail(r->disk, (fault_vfs_fault){.on = FAULT_VFS_ANY, .nth = nth});
        TIDE_IGNORE(tide_feed_step(r->feed, &next_us, &r->err));
        fault_vfs_fail_off(r->disk);
        assert_ok_err(tide_feed_step(r->feed, &next_us, &r->err), &r->err);
        answer = read_feed(r->feed, (tide_feed_request){TIDE_FEED_REQUEST_INIT});
        assert_int_equal(answer.head_seq + 1, answer.oldest_seq);
        tide_feed_answer_done(&answer);
        assert_ok_err(tide_feed_verify(r->feed, NULL, NULL, NULL, &r->err), &r->err);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lack_of_memory_changes_nothing, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_failing_disk_loses_nothing_that_was_acknowledged,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_failing_disk_leaves_whole_steps, rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
