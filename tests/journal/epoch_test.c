/* A follower of the journal learns that history was cut, and continues behind what is common. */
#include "journal/journal_fixture.h"

#include <stdio.h>
#include <string.h>

#include <tidemark/identity.h>

typedef struct followed {
    int64_t numbers[64]; /* of checkpoints; an epoch that changed is -1 - last_common */
    int count;
    tide_identity identity; /* of the last change */
    int fail_at;
} followed;

static tide_status follow(void *arg, const tide_journal_event *event, tide_error *err)
{
    followed *f = arg;
    if (f->fail_at > 0 && f->count + 1 == f->fail_at)
        return tide_fail(err, TIDE_E_INTERRUPTED, "enough");
    if (event->kind == TIDE_JOURNAL_EPOCH_CHANGED) {
        f->identity = *event->identity;
        f->numbers[f->count++] = -1 - event->last_global;
    } else if (event->checkpoint) {
        f->numbers[f->count++] = event->checkpoint->global_sequence;
    }
    return TIDE_OK;
}

static void follow_all(tide_store *store, tide_journal_position *position, followed *f)
{
    tide_error err;
    tide_status status = TIDE_OK;
    *f = (followed){0};
    while (status == TIDE_OK)
        status = tide_journal_tail(
            store, position,
            &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 3}, follow, f,
            &err);
    assert_int_equal(TIDE_NONE, status);
}

static void append_some(store_test *t, tide_store *store, int count)
{
    tide_store *own = t->store;
    t->store = store;
    for (int i = 0; i < count; i++)
        (void)append_n(t, "a", i);
    t->store = own;
}

static void check_numbers(const followed *f, const int64_t *want, int count)
{
    assert_int_equal(count, f->count);
    for (int i = 0; i < count; i++)
        assert_int_equal(want[i], f->numbers[i]);
}

/* Every answer that carries a number names the epoch it belongs to. */
static void numbers_carry_their_epoch(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    tide_identity identity;
    tide_store_identity(t->store, &identity);
    const tide_checkpoint_new given = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                       .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers = {0};
    assert_ok_err(tide_journal_append(t->store, &given, &numbers, &t->err), &t->err);
    assert_string_equal(identity.session_id, numbers.identity.session_id);
    assert_string_equal(identity.epoch_id, numbers.identity.epoch_id);
    assert_int_equal(identity.epoch, numbers.identity.epoch);
    int64_t head = 0;
    tide_identity at_head;
    assert_ok_err(tide_journal_head(t->store, &head, &at_head, &t->err), &t->err);
    assert_int_equal(1, head);
    assert_string_equal(identity.epoch_id, at_head.epoch_id);
}

/* An epoch that begins without a loss takes nothing back: the follower hears of it once. */
static void a_new_epoch_is_reported_once(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    append_some(t, t->store, 4);
    tide_journal_position position = {0};
    followed f;
    follow_all(t->store, &position, &f);
    assert_int_equal(4, f.count);
    assert_true(position.identity.epoch > 0);
    tide_identity raised;
    assert_ok_err(tide_identity_raise(t->store, "operator", "test", &raised, &t->err), &t->err);
    append_some(t, t->store, 2);
    follow_all(t->store, &position, &f);
    check_numbers(&f, (const int64_t[]){-1 - 4, 5, 6}, 3);
    assert_string_equal(raised.epoch_id, f.identity.epoch_id);
    assert_string_equal(raised.epoch_id, position.identity.epoch_id);
    follow_all(t->store, &position, &f);
    assert_int_equal(0, f.count);
}

/* What was last common is the smallest head of all epochs that followed, not of the last one. */
static void the_smallest_head_of_later_epochs_counts(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    append_some(t, t->store, 3);
    tide_journal_position position = {0};
    followed f;
    follow_all(t->store, &position, &f);
    position.global_sequence = 9; /* read before the history was cut at 3 */
    assert_ok(tide_identity_raise(t->store, "operator", "test", NULL, &t->err));
    append_some(t, t->store, 5);
    assert_ok(tide_identity_raise(t->store, "operator", "test", NULL, &t->err));
    append_some(t, t->store, 1);
    follow_all(t->store, &position, &f);
    check_numbers(&f, (const int64_t[]){-1 - 3, 4, 5, 6, 7, 8, 9}, 7);
}

/* A follower that is behind the cut goes on where it was. */
static void a_position_before_the_cut_stays(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    append_some(t, t->store, 4);
    tide_journal_position position = {0};
    tide_store_identity(t->store, &position.identity);
    position.global_sequence = 2;
    assert_ok(tide_identity_raise(t->store, "operator", "test", NULL, &t->err));
    followed f;
    follow_all(t->store, &position, &f);
    check_numbers(&f, (const int64_t[]){-1 - 2, 3, 4}, 3);
}

/* A change that the follower could not take is handed out again. */
static void a_change_is_handed_out_until_it_is_taken(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    append_some(t, t->store, 2);
    tide_journal_position position = {0};
    followed f;
    follow_all(t->store, &position, &f);
    assert_ok(tide_identity_raise(t->store, "operator", "test", NULL, &t->err));
    const tide_journal_position before = position;
    f = (followed){.fail_at = 1};
    assert_status(
        TIDE_E_INTERRUPTED,
        tide_journal_tail(t->store, &position,
                          &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 10},
                          follow, &f, &t->err));
    assert_memory_equal(&before, &position, sizeof before);
    follow_all(t->store, &position, &f);
    check_numbers(&f, (const int64_t[]){-1 - 2}, 1);
}

static void positions_of_other_histories_are_refused(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    append_some(t, t->store, 2);
    tide_identity identity;
    tide_store_identity(t->store, &identity);
    followed f = {0};
    tide_journal_position newer = {.global_sequence = 2, .identity = identity};
    newer.identity.epoch += 1;
    memset(newer.identity.epoch_id, 'a', 8);
    assert_status(
        TIDE_E_MISMATCH,
        tide_journal_tail(t->store, &newer,
                          &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 10},
                          follow, &f, &t->err));
    assert_non_null(strstr(t->err.text, identity.epoch_id));
    assert_non_null(strstr(t->err.text, newer.identity.epoch_id));
    tide_journal_position foreign = {.global_sequence = 2, .identity = identity};
    memset(foreign.identity.session_id, 'b', 8);
    assert_status(
        TIDE_E_MISMATCH,
        tide_journal_tail(t->store, &foreign,
                          &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 10},
                          follow, &f, &t->err));
    assert_int_equal(0, f.count);
    /* An operator has left that epoch behind. */
    assert_ok(tide_identity_raise_above(t->store, newer.identity.epoch, "operator", "test", NULL,
                                        &t->err));
    follow_all(t->store, &newer, &f);
    check_numbers(&f, (const int64_t[]){-1 - 0, 1, 2}, 3);
}

/* A restored backup may be older than every epoch of the store but the first, and begins an epoch above all of them.
 * The number of an epoch that the store lacks says nothing about where it branched off: nothing is common. */
static void nothing_is_common_with_an_epoch_that_the_store_lacks(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    append_some(t, t->store, 2);
    assert_ok(tide_identity_raise(t->store, "restored", "test", NULL, &t->err));
    append_some(t, t->store, 1);
    tide_journal_position lost = {.global_sequence = 3};
    assert_ok(tide_identity_raise(t->store, "restored", "test", &lost.identity, &t->err));
    lost.identity.epoch += 1; /* a branch that began at number 1 */
    memset(lost.identity.epoch_id, 'a', 8);
    assert_ok(tide_identity_raise_above(t->store, lost.identity.epoch, "restored", "test", NULL,
                                        &t->err));
    followed f;
    follow_all(t->store, &lost, &f);
    check_numbers(&f, (const int64_t[]){-1 - 0, 1, 2, 3}, 4);
}

/* The file of a follower's store is restored from a backup and written again. */
static void a_follower_of_a_restored_file_continues_behind_the_cut(void **state)
{
    store_test *t = *state;
    char backup[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "backup.db", backup);
    make_task(t, "a");
    append_some(t, t->store, 3);
    assert_ok_err(tide_store_backup(t->store, backup, &t->err), &t->err);
    append_some(t, t->store, 4);
    tide_journal_position position = {0};
    followed f;
    follow_all(t->store, &position, &f);
    assert_int_equal(7, f.count);
    store_test_close(t, &t->store);
    assert_int_equal(0, rename(backup, t->url));
    tide_store *restored = store_test_open(t);
    append_some(t, restored, 2);
    follow_all(restored, &position, &f);
    check_numbers(&f, (const int64_t[]){-1 - 3, 4, 5}, 3);
    assert_int_equal(2, position.identity.epoch);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(numbers_carry_their_epoch),
        STORE_CASE(a_new_epoch_is_reported_once),
        STORE_CASE(the_smallest_head_of_later_epochs_counts),
        STORE_CASE(a_position_before_the_cut_stays),
        STORE_CASE(a_change_is_handed_out_until_it_is_taken),
        STORE_CASE(positions_of_other_histories_are_refused),
        STORE_CASE(nothing_is_common_with_an_epoch_that_the_store_lacks),
        STORE_CASE_SQLITE(a_follower_of_a_restored_file_continues_behind_the_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
