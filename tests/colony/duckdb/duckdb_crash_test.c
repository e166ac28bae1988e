/* kill -9 of a colony that writes into DuckDB, at any point, again and again: rows, positions and gaps are there together or not at all, what was
 * acknowledged is there, and no number twice. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "colony/duckdb/duckdb_rig.h"
#include "support/clock/fair_clock.h"
#include "support/prng.h"
#include "support/process/proc.h"

enum { ROUNDS = 24, PAGE = 40 };

/* ---- the colony that is killed ---- */

/* Poll for ever: pages of a source that leaves out every 97th number, and compaction in between. Prints what is acknowledged. */
static int work(const char *dir)
{
    duckdb_rig r = {0};
    duckdb_rig_place();
    (void)snprintf(r.path, sizeof r.path, "%s/colony.duckdb", dir);
    char path[TEMPDIR_PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/colony.db", dir);
    virtual_env_init(&r.clock, 1);
    r.store = duckdb_rig_open_store(path, &r.clock.env, &r.err);
    duckdb_rig_reopen(&r);
    tide_position at = {0};
    duckdb_rig_load(&r, "web-1", "telemetry", &at);
    int64_t next = tide_cursor_highest(&at.cursor) + 1;
    for (int64_t page = 0;; page++) {
        answer a;
        answer_begin(&a, "s1");
        for (int64_t seq = next; seq < next + PAGE; seq++)
            if (seq % 97 != 0)
                answer_record(&a, seq, seq);
        /* An agent that says what is final: what it leaves out is a gap at once. */
        answer_state(&a, 1, 1, next + PAGE - 1, next + PAGE - 1);
        const tide_status status = duckdb_rig_poll(&r, "web-1", next - 1, &a);
        if (status != TIDE_OK) {
            (void)fprintf(stderr, "page at %" PRId64 ": %d %s\n", next, status, r.err.text);
            return 1;
        }
        next += PAGE;
        (void)printf("%" PRId64 "\n", next - 1);
        (void)fflush(stdout);
        tide_retained got;
        if (page % 8 == 7 &&
            r.sink->ops->retain(r.sink, INT64_C(1000000000000), &got, &r.err) != TIDE_OK)
            return 2;
    }
}

/* ---- who kills it ---- */

/* Read acknowledgements until the deadline; the highest one counts. */
static int64_t listen_until(proc *child, int64_t deadline_ms, int64_t acked)
{
    char text[65536];
    size_t len = 0;
    while (true) {
        const int64_t left = deadline_ms - wall_clock_ms();
        struct pollfd out = {.fd = child->out_fd, .events = POLLIN};
        if (left <= 0 || poll(&out, 1, (int)left) <= 0)
            return acked;
        const ssize_t got = read(child->out_fd, text + len, sizeof text - 1 - len);
        if (got <= 0)
            return acked;
        len += (size_t)got;
        text[len] = '\0';
        char *line = text;
        for (char *end; (end = strchr(line, '\n')); line = end + 1)
            acked = strtoll(line, NULL, 10);
        len = strlen(line);
        memmove(text, line, len);
    }
}

static int64_t run_and_kill(duckdb_rig *r, prng *random, int64_t acked)
{
    char self[PATH_MAX];
    proc_self_path(self);
    const char *const argv[] = {self, test_file_name(), "--", r->dir.path, NULL};
    const proc_options options = {.argv = argv, .out = PROC_PIPE};
    proc child;
    assert_ok_err(proc_start(&child, &options, &r->err), &r->err);
    /* Some die while they open the file and replay its log. */
    const bool is_early = prng_below(random, 4) == 0;
    const int64_t before = acked;
    if (!is_early)
        while (acked == before && !proc_poll(&child))
            acked = listen_until(&child, wall_clock_ms() + 20, acked);
    const int64_t ms = (int64_t)prng_below(random, is_early ? 80 : 120);
    acked = listen_until(&child, wall_clock_ms() + ms, acked);
    assert_ok_err(proc_kill(&child, SIGKILL, &r->err), &r->err);
    /* What it said before it died counts too. */
    acked = listen_until(&child, wall_clock_ms() + 5000, acked);
    assert_ok_err(proc_wait(&child, 10000, &r->err), &r->err);
    assert_int_equal(SIGKILL, child.signal);
    proc_done(&child);
    return acked;
}

static void a_killed_colony_leaves_whole_changes(void **state)
{
    duckdb_rig *r = *state;
    prng random;
    prng_init(&random, prng_seed_from_env((uint64_t)wall_clock_ms()));
    int64_t acked = 0;
    for (int round = 0; round < ROUNDS; round++) {
        duckdb_rig_forget(r);
        tide_sink_closep(&r->sink);
        acked = run_and_kill(r, &random, acked);
        duckdb_rig_reopen(r);
        duckdb_rig_check(r);
        TIDE_CLEANUP(tide_position_done) tide_position at = {0};
        duckdb_rig_load(r, "web-1", "telemetry", &at);
        const int64_t highest = tide_cursor_highest(&at.cursor);
        assert_true(highest >= acked);
        assert_int_equal(0, highest % PAGE);
        assert_int_equal(highest - highest / 97, at.stored);
        assert_int_equal(highest / 97, duckdb_rig_number(r, "SELECT count(*) FROM sequence_gaps"));
        assert_int_equal(highest / 97,
                         duckdb_rig_number(r, "SELECT coalesce(max(id), 0) FROM sequence_gaps"));
        assert_int_equal(at.stored, duckdb_rig_number(r, "SELECT sum(count) FROM spans_1m"));
    }
    assert_true(acked > ROUNDS * PAGE / 2);
    (void)printf("%" PRId64 " numbers acknowledged in %d lives\n", acked, ROUNDS);
}

TEST_FILE()
{
    if (test_file_argument(0) != NULL)
        return work(test_file_argument(0));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_killed_colony_leaves_whole_changes, duckdb_rig_setup,
                                        duckdb_rig_teardown),
    };
    return cmocka_run_group_tests_name("duckdb-crash", tests, NULL, NULL);
}
