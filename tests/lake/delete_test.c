/* Deletes beside appenders, compaction and other deletes of the same table: they commit, and delete
 * exactly the rows that their isolation names. */
#include "lake_fixture.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lake/compact.h"
#include "lake/data.h"
#include "lake/work.h"
#include "support/prng.h"
#include "support/process/proc.h"

enum { APPENDERS = 16, ROUNDS = 3 };

typedef struct writer {
    lake_case *l;
    tide_lake_data *data;
    tempdir *dir;
    int id;
    tide_error err;
} writer;

static void open_writer(writer *w, lake_case *l)
{
    *w = (writer){.l = l, .dir = &l->t->dir};
    const tide_lake_data_options options = {.threads = 1};
    assert_ok_err(tide_lake_data_open(&w->data, tide_lake_data_dir(l->lake), &options, &w->err),
                  &w->err);
}

static tide_status give_data(void *arg, tide_lake_data **out, tide_error *err)
{
    (void)err;
    *out = ((writer *)arg)->data;
    return TIDE_OK;
}

static tide_lake_work new_work(writer *w)
{
    return (tide_lake_work){
        .lake = w->l->lake, .open_data = give_data, .arg = w, .holder = "a test"};
}

/* One row: id, and a name that its writer chose. */
static tide_status append(writer *w, int64_t id)
{
    char path[TEMPDIR_PATH_MAX];
    char name[32];
    (void)snprintf(name, sizeof name, "rows-%d.csv", w->id);
    tempdir_join(w->dir, name, path);
    FILE *file = fopen(path, "w");
    if (!file)
        return TIDE_E_IO;
    (void)fprintf(file, "id,name\n%" PRId64 ",w%d\n", id, w->id);
    (void)fclose(file);
    TIDE_CLEANUP(tide_lake_work_done) tide_lake_work work = new_work(w);
    TIDE_TRY(tide_lake_work_begin(&work, "work", &w->err));
    TIDE_TRY(tide_lake_work_append(&work, "main", "t", path, TIDE_LAKE_CSV, &w->err));
    return tide_lake_work_commit(&work, &w->err);
}

static tide_status begin_delete(writer *w, tide_lake_work *work, const char *condition,
                                tide_lake_isolation isolation)
{
    const tide_lake_delete request = {
        .schema = "main", .table = "t", .condition = condition, .isolation = isolation};
    TIDE_TRY(tide_lake_work_begin(work, "work", &w->err));
    return tide_lake_work_delete(work, &request, &w->err);
}

/* ---- what is there ---- */

static tide_status skip_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg, (void)names, (void)count, (void)err;
    return TIDE_OK;
}

static tide_status keep_number(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    (void)count, (void)err;
    *(int64_t *)arg = cells[0].i64;
    return TIDE_OK;
}

static int64_t count_rows(writer *w, const char *condition)
{
    char text[256];
    int64_t number = -1;
    (void)snprintf(text, sizeof text, "SELECT count(*) FROM work.main.t WHERE %s", condition);
    const tide_lake_ask ask = {.text = text,
                               .at = "",
                               .row_max = 1,
                               .bytes_max = 1 << 20,
                               .timeout_us = 60 * SECOND_US,
                               .columns = skip_columns,
                               .row = keep_number,
                               .arg = &number};
    assert_ok_err(tide_lake_query(w->data, w->l->lake, &ask, &w->err), &w->err);
    return number;
}

typedef struct delete_case {
    lake_case l;
    writer w;
} delete_case;

/* On the real clock: appenders really wait. */
static void open_case(delete_case *c, void **state)
{
    store_test *t = *state;
    char data_dir[TEMPDIR_PATH_MAX];
    memset(c, 0, sizeof *c);
    c->l.t = t;
    lake_data_dir(t, data_dir);
    tide_store *store = store_test_open_real(t);
    assert_ok_err(tide_lake_init(store, data_dir, NULL, &c->l.err), &c->l.err);
    assert_ok_err(tide_lake_open(&c->l.lake, store, &c->l.err), &c->l.err);
    lake_catalog(&c->l, "work");
    lake_table(&c->l, "work", "main", "t");
    open_writer(&c->w, &c->l);
}

static void close_case(delete_case *c)
{
    tide_lake_data_close(c->w.data);
    lake_case_done(&c->l);
}

static void commit(writer *w, tide_lake_work *work)
{
    assert_ok_err(tide_lake_work_commit(work, &w->err), &w->err);
}

/* ---- rebased ---- */

static void rows_appended_since_the_base_are_deleted_too(void **state)
{
    delete_case c;
    open_case(&c, state);
    for (int i = 1; i <= 4; i++)
        assert_ok_err(append(&c.w, i), &c.w.err);
    tide_lake_work work = new_work(&c.w);
    assert_ok_err(begin_delete(&c.w, &work, "id % 2 = 0", TIDE_LAKE_ISOLATION_SERIALIZABLE),
                  &c.w.err);
    assert_int_equal(2, work.deleted);
    for (int i = 5; i <= 8; i++)
        assert_ok_err(append(&c.w, i), &c.w.err);
    commit(&c.w, &work);
    assert_int_equal(1, work.rebases);
    assert_int_equal(4, work.deleted);
    assert_int_equal(4, count_rows(&c.w, "true"));
    assert_int_equal(0, count_rows(&c.w, "id % 2 = 0"));
    tide_lake_work_done(&work);
    close_case(&c);
}

static void a_snapshot_delete_leaves_rows_that_came_after_its_base(void **state)
{
    delete_case c;
    open_case(&c, state);
    for (int i = 1; i <= 4; i++)
        assert_ok_err(append(&c.w, i), &c.w.err);
    tide_lake_work work = new_work(&c.w);
    assert_ok_err(begin_delete(&c.w, &work, "true", TIDE_LAKE_ISOLATION_SNAPSHOT), &c.w.err);
    assert_ok_err(append(&c.w, 5), &c.w.err);
    commit(&c.w, &work);
    assert_int_equal(4, work.deleted);
    assert_int_equal(1, count_rows(&c.w, "true"));
    assert_int_equal(1, count_rows(&c.w, "id = 5"));
    tide_lake_work_done(&work);
    close_case(&c);
}

/* Several rows of one file, which another delete and a compaction change under it. */
static void a_delete_is_evaluated_again_on_files_that_changed(void **state)
{
    delete_case c;
    open_case(&c, state);
    for (int i = 1; i <= 6; i++)
        assert_ok_err(append(&c.w, i), &c.w.err);
    const tide_lake_compact_options options = {.files_least = 2};
    tide_lake_compacted compacted;
    assert_ok_err(tide_lake_compact(c.l.lake, c.w.data, "work", &options, &compacted, &c.w.err),
                  &c.w.err);
    tide_lake_work first = new_work(&c.w);
    tide_lake_work second = new_work(&c.w);
    assert_ok_err(begin_delete(&c.w, &first, "id <= 2", TIDE_LAKE_ISOLATION_SERIALIZABLE),
                  &c.w.err);
    assert_ok_err(begin_delete(&c.w, &second, "id <= 3", TIDE_LAKE_ISOLATION_SERIALIZABLE),
                  &c.w.err);
    commit(&c.w, &first);
    commit(&c.w, &second);
    assert_int_equal(1, second.rebases);
    assert_int_equal(1, second.deleted);
    assert_int_equal(3, count_rows(&c.w, "true"));

    tide_lake_work third = new_work(&c.w);
    assert_ok_err(begin_delete(&c.w, &third, "id = 5", TIDE_LAKE_ISOLATION_SERIALIZABLE), &c.w.err);
    assert_ok_err(append(&c.w, 7), &c.w.err);
    assert_ok_err(tide_lake_compact(c.l.lake, c.w.data, "work", &options, &compacted, &c.w.err),
                  &c.w.err);
    commit(&c.w, &third);
    assert_int_equal(1, third.rebases);
    assert_int_equal(1, third.deleted);
    assert_int_equal(3, count_rows(&c.w, "id IN (4, 6, 7)"));
    assert_int_equal(3, count_rows(&c.w, "true"));
    tide_lake_work_done(&first);
    tide_lake_work_done(&second);
    tide_lake_work_done(&third);
    close_case(&c);
}

static void an_append_commutes_with_a_delete(void **state)
{
    delete_case c;
    open_case(&c, state);
    assert_ok_err(append(&c.w, 1), &c.w.err);
    tide_lake_change *change = lake_begin(&c.l, "work");
    lake_op_insert(&c.l, change, "main", "t", 1);
    tide_lake_work work = new_work(&c.w);
    assert_ok_err(begin_delete(&c.w, &work, "true", TIDE_LAKE_ISOLATION_SERIALIZABLE), &c.w.err);
    commit(&c.w, &work);
    assert_ok(lake_try_commit(&c.l, change));
    tide_lake_work_done(&work);
    close_case(&c);
}

/* ---- beside many ---- */

static atomic_bool is_over;
static atomic_int appended;

static void *append_all_the_time(void *arg)
{
    writer *w = arg;
    for (int64_t i = 0; !atomic_load(&is_over); i++)
        if (append(w, i % 10) < TIDE_OK)
            return w->err.text;
        else
            atomic_fetch_add(&appended, 1);
    return NULL;
}

static void every_delete_commits_beside_sixteen_appenders(void **state)
{
    delete_case c;
    open_case(&c, state);
    static writer writers[APPENDERS];
    pthread_t threads[APPENDERS];
    atomic_store(&is_over, false);
    atomic_store(&appended, 0);
    for (int i = 0; i < APPENDERS; i++) {
        open_writer(&writers[i], &c.l);
        writers[i].id = i + 1;
        assert_int_equal(0, pthread_create(&threads[i], NULL, append_all_the_time, &writers[i]));
    }
    int64_t deleted = 0;
    int rebases = 0;
    for (int i = 0; i < ROUNDS; i++) {
        while (atomic_load(&appended) < (i + 1) * APPENDERS)
            sched_yield();
        char condition[32];
        (void)snprintf(condition, sizeof condition, "id = %d", i);
        tide_lake_work work = new_work(&c.w);
        assert_ok_err(begin_delete(&c.w, &work, condition, TIDE_LAKE_ISOLATION_SERIALIZABLE),
                      &c.w.err);
        commit(&c.w, &work);
        deleted += work.deleted;
        rebases += work.rebases;
        tide_lake_work_done(&work);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < APPENDERS; i++) {
        void *failure = NULL;
        (void)pthread_join(threads[i], &failure);
        if (failure)
            fail_msg("appender %d: %s", i, (const char *)failure);
        tide_lake_data_close(writers[i].data);
    }
    print_message("%d deletes, %d rebases, %" PRId64 " rows deleted of %d\n", ROUNDS, rebases,
                  deleted, atomic_load(&appended));
    assert_int_equal(atomic_load(&appended) - deleted, count_rows(&c.w, "true"));
    close_case(&c);
}

/* ---- killed ---- */

enum { KILLS = 12, KILL_WITHIN_US = 300000, WAIT_MS = 60000 };

/* One that has found its rows, others have committed since, and that dies within its rebase. */
static void kill_a_rebase(delete_case *c, prng *random, const char *key, const char *go)
{
    char program[PATH_MAX];
    char found[8] = "";
    proc child;
    assert_ok_err(proc_find("lake-deleter", program, &c->w.err), &c->w.err);
    const char *const argv[] = {program, c->l.t->url, c->l.t->dir.path, "id % 2 = 0", key,
                                go,      NULL};
    assert_ok_err(proc_start(&child, &(proc_options){.argv = argv, .out = PROC_PIPE}, &c->w.err),
                  &c->w.err);
    assert_int_equal(read(child.out_fd, found, 6), 6);
    for (int64_t id = 3; id <= 6; id++)
        assert_ok_err(append(&c->w, id), &c->w.err);
    FILE *file = fopen(go, "w");
    assert_non_null(file);
    (void)fclose(file);
    (void)usleep((useconds_t)prng_below(random, KILL_WITHIN_US));
    assert_ok_err(proc_kill(&child, SIGKILL, &c->w.err), &c->w.err);
    assert_ok_err(proc_wait(&child, WAIT_MS, &c->w.err), &c->w.err);
    proc_done(&child);
    assert_int_equal(unlink(go), 0);
}

/* All rows of the condition, those that came after the first look too, or none; and the same request
 * again deletes what is left. */
static void a_delete_that_dies_while_it_is_rebased_is_whole_or_nothing(void **state)
{
    delete_case c;
    open_case(&c, state);
    char go[TEMPDIR_PATH_MAX];
    prng random;
    prng_init(&random, prng_seed_from_env(20261118));
    tempdir_join(&c.l.t->dir, "go", go);
    lake_table(&c.l, "work", "main", "other");
    int whole = 0;
    for (int i = 0; i < KILLS; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "delete-%d", i);
        for (int64_t id = 1; id <= 2; id++)
            assert_ok_err(append(&c.w, id), &c.w.err);
        kill_a_rebase(&c, &random, key, go);
        lake_insert(&c.l, "work", "main", "other",
                    1); /* behind what is still on its way at a server */
        const int64_t even = count_rows(&c.w, "id % 2 = 0");
        whole += even == 0;
        if (even != 0)
            assert_int_equal(even, 3);
        lake_assert_sound(&c.l);
        tide_lake_work again = new_work(&c.w);
        again.commit.request_key = key;
        assert_ok_err(tide_lake_work_begin(&again, "work", &c.w.err), &c.w.err);
        assert_int_equal(again.is_answered, even == 0);
        if (!again.is_answered) {
            const tide_lake_delete rest = {
                .schema = "main", .table = "t", .condition = "id % 2 = 0"};
            assert_ok_err(tide_lake_work_delete(&again, &rest, &c.w.err), &c.w.err);
            commit(&c.w, &again);
        }
        tide_lake_work_done(&again);
        assert_int_equal(count_rows(&c.w, "id % 2 = 0"), 0);
        assert_int_equal(count_rows(&c.w, "true"), 3 * (i + 1));
    }
    print_message("%d of %d deletes were committed before they were killed\n", whole, KILLS);
    close_case(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(rows_appended_since_the_base_are_deleted_too),
        STORE_CASE(a_snapshot_delete_leaves_rows_that_came_after_its_base),
        STORE_CASE(a_delete_is_evaluated_again_on_files_that_changed),
        STORE_CASE(an_append_commutes_with_a_delete),
        STORE_CASE(every_delete_commits_beside_sixteen_appenders),
        STORE_CASE(a_delete_that_dies_while_it_is_rebased_is_whole_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
