/* Power cuts: the store on a disk that loses what was not synced, cut at a random call, opened again from what
 * is left. No acknowledged commit is lost, nothing that was refused appears, the file is sound, numbers go on
 * without a gap, and the identity tells a store that came back from one that was copied. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "crash/copying.h"
#include "crash/tailing.h"
#include "store/engine.h"
#include "support/disk/fault_vfs.h"
#include "support/prng.h"
#include "support/store_fixture.h"

enum {
    CUTS = 200,
    SOAK_FACTOR = 20,
    THREADS = 4,
    WRITES_MAX = 400,  /* per thread, before the power is cut by hand */
    BLOB_LEN = 400000, /* 25 pages: a checkpoint comes every 30 commits */
    CALLS_CREATION = 220,
    CALLS_SMALL = 600,
    CALLS_LARGE = 6000,
    TICK_US = 40000,
};

typedef enum traffic {
    CREATION, /* the cut falls while the store is made */
    SMALL,    /* single rows, one thread */
    LARGE,    /* rows with blobs, one thread: through checkpoints and new beginnings of the log */
    THREADED, /* the writer thread and groups */
    TRAFFIC_COUNT
} traffic;

typedef struct cut_case {
    uint64_t seed;
    traffic kind;
    prng chance;
    tempdir dir;   /* the disk */
    tempdir image; /* what is left of it */
    tempdir state; /* of identity markers: another disk, which keeps everything */
    fault_vfs *disk;
    virtual_env clock;
    tide_store *store;
    bool is_created; /* tide_store_open succeeded */
    bool is_ready;   /* and so did the making of the tables */
    tide_identity identity;
    pthread_mutex_t lock;
    ack_journal journal;
} cut_case;

/* ---- writing until the lights go out ---- */

static tide_status create_tables(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tx->store->ops->script(tx, test_sql_migrations[0].text[TIDE_ENGINE_SQLITE], err);
}

typedef struct cut_row {
    numbered_row row;
    int64_t id;
    tide_view blob; /* empty: none */
} cut_row;

static tide_status add_row(tide_tx *tx, void *arg, tide_error *err)
{
    cut_row *r = arg;
    if (r->blob.len > 0) {
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
        tide_query_bind_i64(query, "id", r->id);
        tide_query_bind_blob(query, "b", r->blob);
        TIDE_TRY(tide_query_run(query, NULL, err));
    }
    return add_numbered(tx, &r->row, err);
}

typedef struct cut_writer {
    cut_case *owner;
    int64_t thread;
    bool has_blobs;
    pthread_t id;
} cut_writer;

static void note(cut_case *c, const cut_writer *w, int64_t n, tide_status status, int64_t seq_id)
{
    taken_fate fate = TAKEN_FAILED;
    if (status == TIDE_OK)
        fate = TAKEN_STORED;
    else if (status == TIDE_E_OUTCOME_UNKNOWN)
        fate = TAKEN_UNKNOWN;
    const taken row = {.thread = w->thread,
                       .n = n,
                       .fate = (int64_t)fate,
                       .seq_id = fate == TAKEN_STORED ? seq_id : 0};
    char line[TAKEN_LINE_MAX];
    line[taken_format(line, &row) - 1] = '\0';
    (void)pthread_mutex_lock(&c->lock);
    ack_journal_add(&c->journal, 0, 0, line + strlen("ack "));
    (void)pthread_mutex_unlock(&c->lock);
}

static void *write_until_cut(void *arg)
{
    cut_writer *w = arg;
    cut_case *c = w->owner;
    static const char bytes[BLOB_LEN];
    const taken self = {.thread = w->thread};
    char name[WRITER_NAME_SIZE];
    taken_writer(name, &self);
    tide_status status = TIDE_OK;
    for (int64_t n = 1; n <= WRITES_MAX && status == TIDE_OK; n++) {
        cut_row r = {.row = {.writer = name, .n = n}, .id = n * THREADS + w->thread};
        if (w->has_blobs)
            r.blob = tide_view_bytes(bytes, sizeof bytes);
        tide_error err;
        status = tide_store_write(c->store, add_row, &r, &err);
        note(c, w, n, status, r.row.range.first);
        virtual_env_advance(&c->clock,
                            TICK_US); /* so that the mark and its identity marker move too */
    }
    return NULL;
}

static void write_alone(cut_case *c)
{
    cut_writer w = {.owner = c, .has_blobs = c->kind == LARGE};
    (void)write_until_cut(&w);
}

static void write_together(cut_case *c)
{
    cut_writer w[THREADS];
    const bool has_blobs = prng_chance(&c->chance, 1, 3);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (cut_writer){.owner = c, .thread = i, .has_blobs = has_blobs};
        assert_int_equal(0, pthread_create(&w[i].id, NULL, write_until_cut, &w[i]));
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(w[i].id, NULL);
}

static tide_store_options make_options(cut_case *c, bool is_on_disk)
{
    return (tide_store_options){
        TIDE_STORE_OPTIONS_INIT,
        .env = &c->clock.env,
        .state_dir = c->state.path,
        .is_inline = c->kind != THREADED,
        .sqlite_vfs = is_on_disk ? fault_vfs_name(c->disk) : NULL,
    };
}

static int64_t draw_cut(cut_case *c)
{
    static const int calls[TRAFFIC_COUNT] = {CALLS_CREATION, CALLS_SMALL, CALLS_LARGE, CALLS_LARGE};
    return 1 + (int64_t)prng_below(&c->chance, (uint64_t)calls[c->kind]);
}

static void run_until_cut(cut_case *c)
{
    tide_error err;
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c->dir, "store.db", path);
    const tide_store_options options = make_options(c, true);
    if (c->kind == CREATION)
        fault_vfs_power_cut_at(c->disk, FAULT_VFS_ANY, draw_cut(c));
    c->is_created = tide_store_open(&c->store, path, &options, &err) == TIDE_OK;
    if (c->is_created) {
        tide_store_identity(c->store, &c->identity);
        c->is_ready = tide_store_write(c->store, create_tables, NULL, &err) == TIDE_OK;
    }
    if (c->kind != CREATION) {
        assert_true(c->is_ready);
        fault_vfs_power_cut_at(c->disk, FAULT_VFS_ANY, draw_cut(c));
    }
    if (c->is_ready && c->kind == THREADED)
        write_together(c);
    else if (c->is_ready)
        write_alone(c);
    if (!fault_vfs_is_cut(c->disk))
        fault_vfs_power_cut(c->disk);
    tide_store_closep(&c->store);
}

/* ---- the next boot ---- */

static void print_finding(void *arg, const char *finding)
{
    print_error("seed %" PRIu64 ": %s\n", ((cut_case *)arg)->seed, finding);
}

static void look_at_mode(void *arg, const char *name, const char *value)
{
    if (strcmp(name, "journal_mode") == 0)
        *(bool *)arg = strcmp(value, "wal") == 0;
}

/* However its making was interrupted: a store writes ahead. */
static void check_mode(const cut_case *c, tide_store *store)
{
    bool is_wal = false;
    tide_error err;
    assert_ok_err(tide_store_describe(store, look_at_mode, &is_wal, &err), &err);
    if (!is_wal)
        fail_msg("seed %" PRIu64 ": the store is not in WAL mode", c->seed);
}

static void check_rows(cut_case *c, tide_store *store)
{
    tide_error err;
    char why[WHY_SIZE] = "";
    seen_rows table = {0};
    tide_status status = TIDE_OK;
    while ((status = seen_rows_read(&table, store, &err)) == TIDE_OK)
        continue;
    if (status != TIDE_NONE || !check_promises(&c->journal, &table, why))
        fail_msg("seed %" PRIu64 ": %s", c->seed, status != TIDE_NONE ? err.text : why);
    tide_sequence sequence = {0};
    status = tide_sequence_show(store, "numbered", &sequence, &err);
    assert_true(status >= TIDE_OK);
    assert_int_equal((int64_t)table.len, sequence.last);
    numbered_row next = {.writer = "after", .n = 1};
    assert_ok_err(tide_store_write(store, add_numbered, &next, &err), &err);
    assert_int_equal((int64_t)table.len + 1, next.range.first);
    seen_rows_done(&table);
}

static void check_identity(cut_case *c, tide_store *store, bool is_copy)
{
    tide_identity now;
    tide_store_identity(store, &now);
    if (!c->is_created)
        return;
    assert_string_equal(c->identity.session_id, now.session_id);
    assert_int_equal(c->identity.epoch + (is_copy ? 1 : 0), now.epoch);
}

static void boot_and_check(cut_case *c)
{
    static const fault_vfs_survival survivals[] = {FAULT_VFS_KEEP_RANDOM, FAULT_VFS_KEEP_RANDOM,
                                                   FAULT_VFS_KEEP_PREFIX, FAULT_VFS_KEEP_ALL,
                                                   FAULT_VFS_KEEP_NONE};
    fault_vfs_image(c->disk, survivals[prng_below(&c->chance, 5)], &c->chance, c->image.path);
    virtual_env_reboot(&c->clock);
    const bool is_copy = prng_chance(&c->chance, 1, 2);
    if (!is_copy)
        restore_image(&c->image, &c->dir, "store.db");
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(is_copy ? &c->image : &c->dir, "store.db", path);
    tide_error err;
    tide_store_options options = make_options(c, false);
    if (c->is_created)
        options.mode = TIDE_STORE_EXISTING;
    const tide_status status = tide_store_open(&c->store, path, &options, &err);
    if (status < TIDE_OK)
        fail_msg("seed %" PRIu64 ": cannot open what is left: %s", c->seed, err.text);
    assert_ok_err(tide_store_verify(c->store, print_finding, c, &err), &err);
    check_mode(c, c->store);
    check_identity(c, c->store, is_copy);
    if (!c->is_ready)
        TIDE_IGNORE(
            tide_store_write(c->store, create_tables, NULL, &err)); /* may be there already */
    check_rows(c, c->store);
    assert_ok_err(tide_store_verify(c->store, print_finding, c, &err), &err);
    tide_store_closep(&c->store);
}

static void cut_once(uint64_t seed, traffic kind, int64_t *acknowledged)
{
    cut_case c = {.seed = seed, .kind = kind, .lock = PTHREAD_MUTEX_INITIALIZER};
    tide_error err;
    prng_init(&c.chance, seed);
    (void)sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)seed, NULL);
    virtual_env_init(&c.clock, seed);
    assert_ok_err(tempdir_make(&c.dir, &err), &err);
    assert_ok_err(tempdir_make(&c.image, &err), &err);
    assert_ok_err(tempdir_make(&c.state, &err), &err);
    c.disk = fault_vfs_new(c.dir.path, seed);
    run_until_cut(&c);
    boot_and_check(&c);
    *acknowledged += (int64_t)c.journal.len;
    fault_vfs_free(c.disk);
    ack_journal_done(&c.journal);
    TIDE_IGNORE(tempdir_remove(&c.dir, &err));
    TIDE_IGNORE(tempdir_remove(&c.image, &err));
    TIDE_IGNORE(tempdir_remove(&c.state, &err));
    virtual_env_done(&c.clock);
}

/* ---- cases ---- */

static uint64_t count_cuts(void)
{
    return (is_soak() ? SOAK_FACTOR : 1) * CUTS / TRAFFIC_COUNT;
}

static void cut_often(traffic kind)
{
    int64_t acknowledged = 0;
    uint64_t count = count_cuts();
    const uint64_t first = prng_first_of(&count, 20250102 + 1000000 * (uint64_t)kind);
    print_message("seeds from %" PRIu64 "; TIDEMARK_SEED=n repeats one\n", first);
    for (uint64_t i = 0; i < count; i++)
        cut_once(first + i, kind, &acknowledged);
    print_message("%" PRIu64 " cuts, %" PRId64 " writes\n", count, acknowledged);
}

/* A store that was being made is made afresh, or is complete; never something in between. */
static void a_cut_during_creation_leaves_a_store_or_none(void **state)
{
    (void)state;
    cut_often(CREATION);
}

static void single_commits_survive_a_cut(void **state)
{
    (void)state;
    cut_often(SMALL);
}

/* The log is being moved into the file, or begins anew. */
static void a_cut_around_a_checkpoint_loses_nothing(void **state)
{
    (void)state;
    cut_often(LARGE);
}

/* Everybody in the group was answered after the sync that made all of it durable. */
static void grouped_commits_survive_a_cut(void **state)
{
    (void)state;
    cut_often(THREADED);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_during_creation_leaves_a_store_or_none),
        cmocka_unit_test(single_commits_survive_a_cut),
        cmocka_unit_test(a_cut_around_a_checkpoint_loses_nothing),
        cmocka_unit_test(grouped_commits_survive_a_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
