/* Many writers at once: every commit succeeds, numbers follow commit order, and a published snapshot never changes. */
#include "lake_fixture.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { WRITERS = 16, COMMITS_EACH = 8 };

typedef struct writer {
    tide_lake *lake;
    const char *catalog;
    int index;
    const char *key; /* of every commit; NULL: none */
    int64_t snapshots[COMMITS_EACH];
    int64_t parents[COMMITS_EACH];
    tide_status status;
    tide_error err;
} writer;

static tide_status append(writer *w, int i)
{
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    char path[64];
    (void)snprintf(path, sizeof path, "%s-%d-%d.parquet", w->catalog, w->index, i);
    const tide_lake_new_file file = {.path = path, .record_count = 1, .file_size_bytes = 1};
    const tide_lake_commit_options options = {.request_key = w->key};
    tide_lake_committed done;
    TIDE_TRY(tide_lake_begin(&change, w->lake, w->catalog, 0, &w->err));
    TIDE_TRY(tide_lake_change_table(change, "main", "t", &seen, &w->err));
    TIDE_TRY(tide_lake_add_file(change, seen.table.id, &file, &w->err));
    TIDE_TRY(tide_lake_commit(change, &options, &done, &w->err));
    w->snapshots[i] = done.snapshot_id;
    w->parents[i] = done.parent_snapshot_id;
    return TIDE_OK;
}

static void *run_writer(void *arg)
{
    writer *w = arg;
    for (int i = 0; i < COMMITS_EACH && w->status >= TIDE_OK; i++)
        w->status = append(w, i);
    return NULL;
}

static void run_all(writer *writers, int count, tide_lake *lake)
{
    pthread_t threads[WRITERS];
    for (int i = 0; i < count; i++) {
        writers[i].lake = lake;
        writers[i].index = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_writer, &writers[i]), 0);
    }
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < count; i++)
        assert_status_err(TIDE_OK, writers[i].status, &writers[i].err);
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- the observer ---- */

enum { SEEN_MAX = 4096 };

typedef struct observer {
    lake_case l;
    atomic_bool is_over;
    int64_t snapshots[SEEN_MAX];
    char *states[SEEN_MAX];
    int count;
} observer;

static void *observe(void *arg)
{
    observer *o = arg;
    int64_t last = 0;
    while (!atomic_load(&o->is_over)) {
        const int64_t head = lake_head(&o->l, "work");
        assert_true(head >= last);
        if (head == last || o->count == SEEN_MAX)
            continue;
        char at[24];
        (void)snprintf(at, sizeof at, "%" PRId64, head);
        o->snapshots[o->count] = head;
        o->states[o->count++] = lake_state(&o->l, "work", at);
        last = head;
    }
    return NULL;
}

/* What was seen at a snapshot is what is there for ever. */
static void a_published_snapshot_never_changes(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    static writer writers[WRITERS];
    static observer o;
    memset(writers, 0, sizeof writers);
    memset(&o, 0, sizeof o);
    store_test own = *l.t; /* the observer looks through a store of its own */
    own.store = store_test_open_real(l.t);
    o.l.t = &own;
    tide_lake *lake = NULL;
    pthread_t thread;
    assert_ok_err(tide_lake_open(&lake, store_test_open_real(l.t), &l.err), &l.err);
    for (int i = 0; i < 4; i++)
        writers[i].catalog = "work";
    assert_int_equal(pthread_create(&thread, NULL, observe, &o), 0);
    run_all(writers, 4, lake);
    atomic_store(&o.is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(o.count > 0);
    for (int i = 0; i < o.count; i++) {
        char at[24];
        (void)snprintf(at, sizeof at, "%" PRId64, o.snapshots[i]);
        TIDE_CLEANUP(tide_freep) char *now = lake_state(&l, "work", at);
        assert_string_equal(now, o.states[i]);
        free(o.states[i]);
    }
    tide_lake_close(lake);
    lake_case_done(&l);
}

/* ---- one catalog ---- */

static void sixteen_writers_of_one_catalog_all_commit_in_order(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    const int64_t before = lake_table(&l, "work", "main", "t");
    static writer writers[WRITERS];
    static int64_t numbers[WRITERS * COMMITS_EACH];
    tide_lake *lake = NULL;
    memset(writers, 0, sizeof writers);
    assert_ok_err(tide_lake_open(&lake, store_test_open_real(l.t), &l.err), &l.err);
    for (int i = 0; i < WRITERS; i++)
        writers[i].catalog = "work";
    run_all(writers, WRITERS, lake);
    int count = 0;
    for (int i = 0; i < WRITERS; i++)
        for (int j = 0; j < COMMITS_EACH; j++)
            numbers[count++] = writers[i].snapshots[j];
    qsort(numbers, (size_t)count, sizeof numbers[0], compare_numbers);
    assert_true(numbers[0] > before);
    for (int i = 1; i < count; i++)
        assert_true(numbers[i] > numbers[i - 1]);
    /* Each follows the one before it: the line has no fork. */
    for (int i = 0; i < WRITERS; i++) {
        for (int j = 0; j < COMMITS_EACH; j++) {
            const int64_t *found = bsearch(&writers[i].snapshots[j], numbers, (size_t)count,
                                           sizeof numbers[0], compare_numbers);
            assert_non_null(found);
            assert_int_equal(writers[i].parents[j], found == numbers ? before : found[-1]);
        }
    }
    assert_int_equal(lake_head(&l, "work"), numbers[count - 1]);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), WRITERS * COMMITS_EACH);
    tide_lake_close(lake);
    lake_case_done(&l);
}

static void many_with_one_request_key_commit_once(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    static writer writers[WRITERS];
    tide_lake *lake = NULL;
    memset(writers, 0, sizeof writers);
    assert_ok_err(tide_lake_open(&lake, store_test_open_real(l.t), &l.err), &l.err);
    for (int i = 0; i < 8; i++) {
        writers[i].catalog = "work";
        writers[i].key = "one";
    }
    run_all(writers, 8, lake);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < COMMITS_EACH; j++)
            assert_int_equal(writers[i].snapshots[j], writers[0].snapshots[0]);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 1);
    tide_lake_close(lake);
    lake_case_done(&l);
}

/* ---- catalogs, schemas and forks at once ---- */

typedef struct founder {
    tide_lake *lake;
    int index;
    int made; /* of the common name */
    tide_status status;
    tide_error err;
} founder;

static tide_status found(founder *f)
{
    char name[32];
    tide_lake_created made;
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
    tide_lake_committed done;
    (void)snprintf(name, sizeof name, "own%d", f->index);
    TIDE_TRY(tide_lake_create_catalog(f->lake, name, false, NULL, &made, &f->err));
    TIDE_TRY(tide_lake_begin(&change, f->lake, name, 0, &f->err));
    TIDE_TRY(tide_lake_create_schema(change, "s", &f->err));
    TIDE_TRY(tide_lake_commit(change, NULL, &done, &f->err));
    (void)snprintf(name, sizeof name, "fork%d", f->index);
    TIDE_TRY(tide_lake_fork(f->lake, "work", name, "", NULL, &made, &f->err));
    const tide_status status =
        tide_lake_create_catalog(f->lake, "common", false, NULL, &made, &f->err);
    f->made = status == TIDE_OK;
    return status == TIDE_E_EXISTS ? TIDE_OK : status;
}

static void *run_founder(void *arg)
{
    founder *f = arg;
    f->status = found(f);
    return NULL;
}

static void catalogs_schemas_and_forks_made_at_once_never_collide(void **state)
{
    enum { FOUNDERS = 12 };
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    founder founders[FOUNDERS] = {{0}};
    pthread_t threads[FOUNDERS];
    tide_lake *lake = NULL;
    int made = 0;
    assert_ok_err(tide_lake_open(&lake, store_test_open_real(l.t), &l.err), &l.err);
    for (int i = 0; i < FOUNDERS; i++) {
        founders[i] = (founder){.lake = lake, .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, run_founder, &founders[i]), 0);
    }
    for (int i = 0; i < FOUNDERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < FOUNDERS; i++) {
        assert_status_err(TIDE_OK, founders[i].status, &founders[i].err);
        made += founders[i].made;
    }
    assert_int_equal(made, 1);
    tide_lake_close(lake);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_published_snapshot_never_changes),
        STORE_CASE(sixteen_writers_of_one_catalog_all_commit_in_order),
        STORE_CASE(many_with_one_request_key_commit_once),
        STORE_CASE(catalogs_schemas_and_forks_made_at_once_never_collide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
