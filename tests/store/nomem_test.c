/* Memory that runs out, at every allocation in turn: opening, writing, reading, asking and closing end with a
 * clean error or the right result, nothing leaks (the sanitizer looks), and the store goes on as if nothing had
 * been when there is memory again. The store has the core's schema alone (core_store.h): every connection reads all of its
 * schema, thousands of allocations that are one like the other. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "crash/copying.h"
#include "support/alloc_fault.h"
#include "support/core_store.h"
#include "support/program/sanitized.h"
#include "support/store_fixture.h"

enum {
    SWEEP_MAX = 20000, /* allocations: a scenario that makes more is not small */
    MEMORY_MAX = 2,    /* GiB: a run that goes astray ends here and not at the machine's end */
    CPU_MAX_S = 900,
    CHECK_EVERY = 10, /* runs: reading the whole file costs as much as a run */
    WRONG_SHOWN = 10,
};

typedef struct nomem_case {
    tempdir dir;
    char made[TEMPDIR_PATH_MAX]; /* a finished store, to be copied */
    char path[TEMPDIR_PATH_MAX]; /* the one that is used */
    virtual_env clock;
    bool is_inline;
    tide_store *store;
    int64_t nth;
    bool is_stored;  /* the row was acknowledged */
    bool is_unknown; /* or nobody knows */
    int wrong;       /* answers that name something else than memory */
} nomem_case;

/* ---- files ---- */

static void put_fresh_copy(nomem_case *c)
{
    char from[TEMPDIR_PATH_MAX + 16];
    char to[TEMPDIR_PATH_MAX + 16];
    remove_store(c->path);
    copy_file(c->made, c->path);
    (void)snprintf(from, sizeof from, "%s-wal", c->made);
    (void)snprintf(to, sizeof to, "%s-wal", c->path);
    if (access(from, F_OK) == 0)
        copy_file(from, to);
}

static tide_store_options make_options(nomem_case *c)
{
    return (tide_store_options){TIDE_STORE_OPTIONS_INIT, .env = &c->clock.env,
                                .state_dir = c->dir.path, .is_inline = c->is_inline};
}

static void nomem_case_init(nomem_case *c, bool is_inline)
{
    *c = (nomem_case){.is_inline = is_inline};
    tide_error err;
    virtual_env_init(&c->clock, 1);
    assert_ok_err(tempdir_make(&c->dir, &err), &err);
    tempdir_join(&c->dir, "made.db", c->made);
    tempdir_join(&c->dir, "used.db", c->path);
    const tide_store_options options = make_options(c);
    assert_ok_err(core_store_open(&c->store, c->made, &options, &err), &err);
    store_test_add_tables(c->store);
    numbered_row row = {.writer = "before", .n = 1};
    assert_ok_err(tide_store_write(c->store, add_numbered, &row, &err), &err);
    tide_store_closep(&c->store);
}

static void nomem_case_done(nomem_case *c)
{
    TIDE_IGNORE(tempdir_remove(&c->dir, NULL));
    virtual_env_done(&c->clock);
}

/* ---- what is done while memory runs out ---- */

/* Out of memory is said as such; a commit during which it ran out may also be of unknown outcome. */
static void check_words(nomem_case *c, tide_status status, const tide_error *err, bool is_write)
{
    if (status >= TIDE_OK || status == TIDE_E_NOMEM)
        return;
    if (is_write && status == TIDE_E_OUTCOME_UNKNOWN)
        return;
    if (c->wrong++ < WRONG_SHOWN)
        print_error("allocation %" PRId64 ": %s: %s\n", c->nth, tide_status_get(status)->name,
                    err->text);
}

static tide_status ask(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_NUMBERED_TAIL, err));
    tide_query_bind_i64(query, "after", 0);
    tide_query_bind_i64(query, "limit", 10);
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        (void)tide_query_col_i64(query);
        (void)tide_query_col_text(query);
        (void)tide_query_col_i64(query);
        (void)tide_query_col_time(query);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status put_typed(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    char bytes[9000] = {0};
    tide_query_bind_i64(query, "id", 1);
    tide_query_bind_f64(query, "f", 0.5);
    tide_query_bind_text(query, "t", "text");
    tide_query_bind_blob(query, "b", tide_view_bytes(bytes, sizeof bytes));
    TIDE_TRY(tide_query_run(query, NULL, err));
    return tide_fail(err, TIDE_E_CONFLICT, "taken back");
}

static void use_store(nomem_case *c)
{
    tide_error err = {.status = TIDE_OK};
    const tide_store_options options = make_options(c);
    tide_status status = core_store_open(&c->store, c->path, &options, &err);
    check_words(c, status, &err, true);
    if (status < TIDE_OK)
        return;
    numbered_row row = {.writer = "w", .n = 1};
    status = tide_store_write(c->store, add_numbered, &row, &err);
    check_words(c, status, &err, true);
    c->is_stored = status == TIDE_OK;
    c->is_unknown = status == TIDE_E_OUTCOME_UNKNOWN;
    status = tide_store_write(c->store, put_typed, NULL, &err);
    if (status != TIDE_E_CONFLICT)
        check_words(c, status, &err, true);
    check_words(c, tide_store_read(c->store, ask, NULL, &err), &err, false);
    tide_sequence sequence;
    check_words(c, tide_sequence_show(c->store, "numbered", &sequence, &err), &err, false);
}

/* ---- and what must be true when there is memory again ---- */

static void print_finding(void *arg, const char *finding)
{
    (void)arg;
    print_error("finding: %s\n", finding);
}

static void check_after(nomem_case *c)
{
    tide_error err;
    const tide_store_options options = make_options(c);
    if (!c->store)
        assert_ok_err(core_store_open(&c->store, c->path, &options, &err), &err);
    int64_t count = 0;
    int64_t highest = 0;
    for (int round = 0; round < 2; round++) { /* as it is, and opened again */
        count_numbered(c->store, &count, &highest);
        assert_int_equal(count, highest);
        const int64_t others = 1 + round; /* before, and the one below */
        if (!c->is_unknown)
            assert_int_equal(others + (c->is_stored ? 1 : 0), count);
        numbered_row row = {.writer = "after", .n = round};
        assert_ok_err(tide_store_write(c->store, add_numbered, &row, &err), &err);
        assert_int_equal(count + 1, row.range.first);
        if (round == 1 && c->nth % CHECK_EVERY == 1)
            assert_ok_err(tide_store_verify(c->store, print_finding, NULL, &err), &err);
        tide_store_closep(&c->store);
        if (round == 0)
            assert_ok_err(core_store_open(&c->store, c->path, &options, &err), &err);
    }
}

static void sweep(bool is_inline, void (*arm)(int64_t nth), int64_t step, bool is_creation)
{
    nomem_case c;
    nomem_case_init(&c, is_inline);
    int64_t nth = 1;
    for (; nth < SWEEP_MAX; nth += step) {
        if (is_creation)
            remove_store(c.path);
        else
            put_fresh_copy(&c);
        c.nth = nth;
        c.is_stored = false;
        c.is_unknown = false;
        arm(nth);
        if (is_creation) {
            tide_error err = {.status = TIDE_OK};
            const tide_store_options options = make_options(&c);
            check_words(&c, core_store_open(&c.store, c.path, &options, &err), &err, true);
        } else {
            use_store(&c);
        }
        const bool is_met = alloc_fault_hit() > 0;
        alloc_fault_off();
        if (is_creation) {
            tide_error err;
            const tide_store_options options = make_options(&c);
            if (!c.store)
                assert_ok_err(core_store_open(&c.store, c.path, &options, &err), &err);
            store_test_add_tables(c.store);
            assert_ok_err(tide_store_verify(c.store, print_finding, NULL, &err), &err);
            tide_store_closep(&c.store);
        } else {
            check_after(&c);
        }
        if (!is_met)
            break;
    }
    assert_true(nth < SWEEP_MAX);
    assert_int_equal(0, c.wrong);
    print_message("%" PRId64 " allocations, every %" PRId64 ".\n", nth - 1, step);
    nomem_case_done(&c);
}

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

/* One allocation fails, each in a run of its own. */
static void one_failed_allocation_is_a_clean_error(void **state)
{
    (void)state;
    sweep(true, alloc_fault_at, 1, false);
}

/* From one on, all fail: nothing along the way may need memory to give up in order. */
static void memory_that_stays_away_is_a_clean_error(void **state)
{
    (void)state;
    sweep(true, alloc_fault_from, 3, false);
}

/* The same with the writer on its own thread: the closure's failure travels back to its caller. */
static void the_writer_thread_reports_it_too(void **state)
{
    (void)state;
    sweep(false, alloc_fault_at, 5, false);
}

/* A store that could not be made for want of memory is made by the next who tries. */
static void a_creation_without_memory_can_be_repeated(void **state)
{
    (void)state;
    sweep(true, alloc_fault_at, 7, true);
    sweep(true, alloc_fault_from, 17, true);
}

/* What is swept is memory: files that cost nothing make it quick. */
static void use_quick_files(void)
{
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
}

static void set_limits(void)
{
    const struct rlimit cpu = {.rlim_cur = CPU_MAX_S, .rlim_max = CPU_MAX_S};
    (void)setrlimit(RLIMIT_CPU, &cpu);
#if !IS_SANITIZED /* whose shadow memory counts too */
    const struct rlimit limit = {.rlim_cur = (rlim_t)MEMORY_MAX << 30,
                                 .rlim_max = (rlim_t)MEMORY_MAX << 30};
    (void)setrlimit(RLIMIT_DATA, &limit);
#endif
}

TEST_FILE()
{
    set_limits();
    use_quick_files();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_failed_allocation_is_a_clean_error, disarm),
        cmocka_unit_test_teardown(memory_that_stays_away_is_a_clean_error, disarm),
        cmocka_unit_test_teardown(the_writer_thread_reports_it_too, disarm),
        cmocka_unit_test_teardown(a_creation_without_memory_can_be_repeated, disarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
