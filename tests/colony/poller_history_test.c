/* Polling agents whose history changed: wiped, restored, put back unnoticed, seen before. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/rig.h"

/* ---- other histories ---- */

/* Session reset of the telemetry document: the agent was wiped; the old session's position closes, the new one is read from its first number. */
static void a_wiped_agent_begins_a_new_position(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 30);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_wipe(a);
    rig_put(a, "telemetry", 12);
    rig_catch_up(r, a, poller, MINUTE_US);
    assert_int_equal(12, rig_last_seq(r, a, "telemetry"));
    rig_assert_rows(r, a, 1, 12);
    assert_int_equal(42, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(42, r->stored);
    assert_int_equal(0, rig_query(r, "SELECT COUNT(*) FROM sequence_gaps"));
    assert_true(rig_query(r, "SELECT COUNT(*) FROM polling_checkpoint_history") > 0);
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* What the wiped agent had told of and nobody had read is lost (source gone). */
static void what_a_wiped_agent_took_with_it_is_lost(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 200);
    a->answer_max = 5000; /* so that one page is not all */
    while (rig_last_seq(r, a, "telemetry") == 0) {
        int64_t wake_us;
        assert_ok(rig_turn(r, a, poller, &wake_us));
    }
    const int64_t read = rig_last_seq(r, a, "telemetry");
    assert_in_range(read, 1, 199);
    rig_agent_wipe(a);
    a->answer_max = 0;
    rig_put(a, "telemetry", 3);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_assert_rows(r, a, 1, 3);
    assert_int_equal(1, rig_count_gaps(r, TIDE_GAP_PERMANENT));
    assert_int_equal(200 - read,
                     rig_query(r, "SELECT end_seq_id - start_seq_id + 1 FROM sequence_gaps"));
    assert_contains(rig_log_text(r), "PERMANENT DATA LOSS");
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Restored from a backup, noticed by the agent: rows of both histories are kept apart by epoch, nothing stalls. */
static void a_restored_agent_goes_on_in_a_new_epoch(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 20);
    rig_agent_backup(a);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_restore(a, true);
    assert_int_equal(21, rig_put(a, "telemetry", 15));
    rig_catch_up(r, a, poller, 2 * MINUTE_US);
    assert_int_equal(35, rig_last_seq(r, a, "telemetry"));
    /* 21..30 of the first history and 21..35 of the second: all kept, none mixed */
    assert_int_equal(45, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(45, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
    assert_int_equal(2, rig_query(r, "SELECT COUNT(DISTINCT epoch) FROM spans"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Put back without any evidence at the agent, and further than before: the digest we show finds it out. */
static void a_history_that_was_put_back_unnoticed_is_found_by_its_digest(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 20);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_backup(a);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_restore(a, false);
    assert_int_equal(21, rig_put(a, "telemetry", 30));
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    assert_int_equal(50, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(60, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(60, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
    assert_int_equal(2, rig_query(r, "SELECT COUNT(DISTINCT epoch) FROM spans"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Put back unnoticed within what was read as one page: points inside of it bound what is read once more by what was rolled back. */
static void a_history_that_was_cut_inside_of_a_page_is_found_nearly_there(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 60);
    rig_agent_backup(a);
    rig_put(a, "telemetry", 40);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_restore(a, false);
    rig_put(a, "telemetry", 50);
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    assert_int_equal(150, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
    /* 100 - 64 is the last point before the cut: 37 to 60 are there twice. */
    assert_int_equal(150 + 24, rig_query(r, "SELECT COUNT(*) FROM spans"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* The same with an agent that had dropped its oldest records before it was polled for the first time. */
static void a_first_page_behind_what_was_dropped_has_points_inside(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 50);
    rig_advance(r, 2 * HOUR_US);
    rig_agent_retain(a);
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 60);
    rig_agent_backup(a);
    rig_put(a, "telemetry", 40);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_restore(a, false);
    rig_put(a, "telemetry", 50);
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    assert_int_equal(150, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
    assert_int_equal(150 + 24, rig_query(r, "SELECT COUNT(*) FROM spans"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Put back unnoticed, and shorter than what was read: never a silent stall. */
static void a_shorter_history_does_not_stall_the_reader(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 20);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_backup(a);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_restore(a, false);
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    rig_put(a, "telemetry", 4);
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    assert_int_equal(34, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(34, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* A session that was there before is back (the old disk was put in again): its rows are recognised. */
static void an_earlier_session_that_comes_back_is_recognised(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 20);
    rig_agent_restart(a);
    rig_agent_backup(a);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_wipe(a);
    rig_put(a, "telemetry", 5);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_restore(a, false);
    rig_put(a, "telemetry", 2);
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    assert_int_equal(22, rig_last_seq(r, a, "telemetry"));
    assert_int_equal(27, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(27, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* One backup is put back twice, and its records were read in one page with later ones: no point of ours lies in it, but its epoch is known. */
static void a_backup_that_is_put_back_twice_is_stored_once(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 10);
    rig_agent_backup(a);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);
    rig_agent_restore(a, true);
    rig_put(a, "telemetry", 15);
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    rig_agent_restore(a, true);
    rig_put(a, "telemetry", 4);
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    assert_int_equal(39, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(39, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* The colony comes when the agent is in its second epoch already; numbers of the first one are told as the first one's, so that they are known when the
 * backup comes back once more. */
static void a_first_contact_learns_whose_numbers_it_reads(void **state)
{
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    rig_put(a, "telemetry", 30);
    rig_agent_backup(a);
    rig_agent_restore(a, true);
    rig_put(a, "telemetry", 50);
    tide_poller *poller = rig_poller(r, a);
    rig_catch_up(r, a, poller, MINUTE_US);
    assert_int_equal(30, rig_query(r, "SELECT COUNT(*) FROM spans WHERE epoch = 1"));
    rig_agent_restore(a, true);
    rig_catch_up(r, a, poller, 5 * MINUTE_US);
    assert_int_equal(80, rig_query(r, "SELECT COUNT(*) FROM spans"));
    assert_int_equal(80, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* The same, a wipe, and then the backup again: its next epoch has a number that was there before. All of it is read, and nothing twice;
 * however often. */
static void a_backup_that_comes_back_begins_an_epoch_of_its_own(void **state)
{
    enum { TIMES = 12 };
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 10);
    rig_agent_backup(a);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);
    int64_t count = 20;
    for (int i = 0; i < TIMES; i++) {
        if (i % 4 == 3) {
            rig_agent_wipe(a);
            count += 6;
            rig_put(a, "telemetry", 6);
            rig_catch_up(r, a, poller, 5 * MINUTE_US);
        }
        rig_agent_restore(a, true);
        count += 3 + i;
        rig_put(a, "telemetry", 3 + i);
        rig_put(a, "logs", 1);
        rig_catch_up(r, a, poller, HOUR_US);
        assert_int_equal(count, rig_query(r, "SELECT COUNT(*) FROM spans"));
    }
    assert_int_equal(count, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
    rig_assert_balanced(r);
    tide_poller_free(poller);
    rig_free(r);
}

/* Two copies of one agent, of different age. */
static void swap_backup(const rig_agent *a, const char *name, bool is_out)
{
    char backup[TEMPDIR_PATH_MAX];
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&a->dir, "backup.db", backup);
    tempdir_join(&a->dir, name, path);
    assert_int_equal(0, is_out ? rename(backup, path) : rename(path, backup));
}

static void restore_from(rig_agent *a, const char *name, bool with_evidence)
{
    swap_backup(a, name, false);
    rig_agent_restore(a, with_evidence);
    swap_backup(a, name, true);
}

/* An epoch was left for an older copy of the agent, and comes back under its own id, noticed or not, written on, and again: what was
 * read of it is recognised, what is new is read, and the ledger balances. */
static void an_epoch_that_comes_back_after_an_older_copy_is_read_on(void **state)
{
    enum { ROUNDS = 8 };
    rig *r = rig_new(*state, 1);
    rig_agent *a = &r->agents[0];
    tide_poller *poller = rig_poller(r, a);
    rig_put(a, "telemetry", 10);
    rig_agent_backup(a);
    swap_backup(a, "older.db", true);
    rig_put(a, "telemetry", 10);
    rig_catch_up(r, a, poller, MINUTE_US);
    restore_from(a, "older.db", true); /* the second epoch begins */
    rig_put(a, "telemetry", 15);
    rig_catch_up(r, a, poller, HOUR_US);
    rig_agent_backup(a);
    swap_backup(a, "newer.db", true);
    rig_put(a, "telemetry", 5);
    rig_catch_up(r, a, poller, HOUR_US);
    int64_t count = 40;
    for (int i = 0; i < ROUNDS; i++) {
        restore_from(a, "older.db", (i & 1) != 0);
        rig_put(a, "telemetry", 4 + i);
        rig_catch_up(r, a, poller, HOUR_US);
        count += 4 + i;
        assert_int_equal(count, rig_query(r, "SELECT COUNT(*) FROM spans"));
        restore_from(a, "newer.db", (i & 2) != 0);
        rig_put(a, "telemetry", 6 + i);
        rig_catch_up(r, a, poller, HOUR_US);
        count += 6 + i;
        assert_int_equal(count, rig_query(r, "SELECT COUNT(*) FROM spans"));
        assert_int_equal(count, rig_query(r, "SELECT COUNT(DISTINCT trace_id) FROM spans"));
        rig_assert_balanced(r);
    }
    tide_poller_free(poller);
    rig_free(r);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_wiped_agent_begins_a_new_position),
        STORE_CASE(what_a_wiped_agent_took_with_it_is_lost),
        STORE_CASE(a_restored_agent_goes_on_in_a_new_epoch),
        STORE_CASE_SQLITE(a_backup_that_is_put_back_twice_is_stored_once),
        STORE_CASE_SQLITE(a_first_contact_learns_whose_numbers_it_reads),
        STORE_CASE_SQLITE(an_epoch_that_comes_back_after_an_older_copy_is_read_on),
        STORE_CASE_SQLITE(a_backup_that_comes_back_begins_an_epoch_of_its_own),
        STORE_CASE(a_history_that_was_put_back_unnoticed_is_found_by_its_digest),
        STORE_CASE_SQLITE(a_history_that_was_cut_inside_of_a_page_is_found_nearly_there),
        STORE_CASE_SQLITE(a_first_page_behind_what_was_dropped_has_points_inside),
        STORE_CASE(a_shorter_history_does_not_stall_the_reader),
        STORE_CASE(an_earlier_session_that_comes_back_is_recognised),
    };
    return cmocka_run_group_tests_name("colony-poller-history", tests, NULL, NULL);
}
