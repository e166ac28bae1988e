/* Whatever catalogs, forks of forks, pins and drops there are, and wherever expiring and cleaning up die: no file that a catalog can reach at a retained
 * snapshot is ever removed, and in the end everything else is.
 *
 * The oracle remembers what each snapshot held when it was committed, and asks the store only which snapshots are left. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/maintenance/toy_disk.h"
#include "support/prng.h"

enum {
    CATALOGS = 24,
    SNAPSHOTS = 400,
    FILES_MAX = 40, /* alive at once */
    STEPS = 70,
    SEEDS = 4,
};

/* What a catalog holds at a snapshot. */
typedef struct holding {
    int64_t schema;
    int64_t table; /* 0: none */
    int count;
    struct {
        int64_t data;
        int64_t deletes; /* 0: none */
    } files[FILES_MAX];
} holding;

typedef struct world_catalog {
    bool is_dropped;
    int64_t fork_point; /* 0: not a fork */
    holding now;
} world_catalog;

typedef struct world_snapshot {
    int64_t catalog;
    holding held;
    bool is_pinned;
    bool is_gone; /* seen to be gone */
} world_snapshot;

typedef struct world {
    hand *h;
    prng random;
    toy_disk disk;
    world_catalog catalogs[CATALOGS];
    int64_t catalog_count;
    world_snapshot snapshots[SNAPSHOTS]; /* by id */
    int64_t last;
    int64_t next_file;
    int64_t next_table;
} world;

/* ---- the write that fails ---- */

static int writes;
static int fail_write;
static bool fails_behind;

tide_status __real_tide_store_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err);
tide_status __wrap_tide_store_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err);

tide_status __wrap_tide_store_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    const bool fails = fail_write > 0 && ++writes == fail_write;
    if (fails && !fails_behind)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "write %d fails", writes);
    const tide_status status = __real_tide_store_write(store, fn, arg, err);
    return fails ? tide_fail(err, TIDE_E_OUTCOME_UNKNOWN, "nobody hears of write %d", writes)
                 : status;
}

static void plan_failure(world *w)
{
    writes = 0;
    fail_write = prng_chance(&w->random, 1, 2) ? 1 + (int)prng_below(&w->random, 6) : 0;
    fails_behind = prng_chance(&w->random, 1, 2);
    w->disk.removals = 0;
    w->disk.fail_at = prng_chance(&w->random, 1, 2) ? 1 + (int)prng_below(&w->random, 5) : 0;
    w->disk.fails_behind = prng_chance(&w->random, 1, 2);
}

static void plan_no_failure(world *w)
{
    fail_write = 0;
    w->disk.fail_at = 0;
}

/* ---- what happens ---- */

static int64_t choose_catalog(world *w)
{
    for (int tries = 0; tries < 50; tries++) {
        const int64_t catalog = 1 + (int64_t)prng_below(&w->random, (uint64_t)w->catalog_count);
        if (!w->catalogs[catalog].is_dropped)
            return catalog;
    }
    return 0;
}

static void remember(world *w, int64_t catalog)
{
    w->snapshots[w->last] = (world_snapshot){.catalog = catalog, .held = w->catalogs[catalog].now};
}

static void make_catalog(world *w)
{
    if (w->catalog_count + 1 >= CATALOGS)
        return;
    const int64_t catalog = ++w->catalog_count;
    char name[32];
    (void)snprintf(name, sizeof name, "c%" PRId64, catalog);
    hand_catalog(w->h, catalog, name, ++w->last);
    w->catalogs[catalog] = (world_catalog){.now = {.schema = 100 * catalog + 1}};
    remember(w, catalog);
}

static void make_table(world *w, int64_t catalog)
{
    holding *now = &w->catalogs[catalog].now;
    now->table = w->next_table++;
    char name[32];
    (void)snprintf(name, sizeof name, "t%" PRId64, now->table);
    hand_table(w->h, catalog, ++w->last, now->schema, now->table, name);
    hand_commit(w->h, catalog, w->last, 0, "");
    remember(w, catalog);
}

static void add_files(world *w, int64_t catalog)
{
    holding *now = &w->catalogs[catalog].now;
    const int64_t snapshot = ++w->last;
    for (uint64_t n = 1 + prng_below(&w->random, 3); n > 0 && now->count < FILES_MAX; n--) {
        const int64_t file = w->next_file++;
        toy_disk_put(&w->disk, now->schema, now->table, file);
        hand_file(w->h, catalog, snapshot, now->table, file);
        now->files[now->count].data = file;
        now->files[now->count++].deletes = 0;
    }
    hand_commit(w->h, catalog, snapshot, 0, "");
    remember(w, catalog);
}

static void delete_rows(world *w, int64_t catalog)
{
    holding *now = &w->catalogs[catalog].now;
    const uint64_t at = prng_below(&w->random, (uint64_t)now->count);
    const int64_t snapshot = ++w->last;
    if (now->files[at].deletes > 0)
        hand_end(w->h, catalog, snapshot, 6, now->files[at].deletes, 0);
    const int64_t file = w->next_file++;
    toy_disk_put(&w->disk, now->schema, now->table, file);
    hand_delete_file(w->h, catalog, snapshot, now->table, now->files[at].data, file);
    now->files[at].deletes = file;
    hand_commit(w->h, catalog, snapshot, 0, "");
    remember(w, catalog);
}

static void end_file(world *w, int64_t catalog)
{
    holding *now = &w->catalogs[catalog].now;
    const uint64_t at = prng_below(&w->random, (uint64_t)now->count);
    const int64_t snapshot = ++w->last;
    if (now->files[at].deletes > 0)
        hand_end(w->h, catalog, snapshot, 6, now->files[at].deletes, 0);
    hand_end(w->h, catalog, snapshot, 5, now->files[at].data, 0);
    now->files[at] = now->files[--now->count];
    hand_commit(w->h, catalog, snapshot, 0, "");
    remember(w, catalog);
}

static void drop_table(world *w, int64_t catalog)
{
    holding *now = &w->catalogs[catalog].now;
    hand_drop_table(w->h, catalog, ++w->last, now->table);
    now->table = 0;
    now->count = 0;
    hand_commit(w->h, catalog, w->last, 0, "");
    remember(w, catalog);
}

/* A snapshot that is left of a catalog that is; 0: none was found. */
static int64_t choose_snapshot(world *w)
{
    for (int tries = 0; tries < 50; tries++) {
        const int64_t snapshot = 1 + (int64_t)prng_below(&w->random, (uint64_t)w->last);
        const world_snapshot *s = &w->snapshots[snapshot];
        if (s->catalog > 0 && !s->is_gone && !w->catalogs[s->catalog].is_dropped)
            return snapshot;
    }
    return 0;
}

static void fork_catalog(world *w)
{
    const int64_t at = choose_snapshot(w);
    if (at == 0 || w->catalog_count + 1 >= CATALOGS)
        return;
    const int64_t child = ++w->catalog_count;
    char name[32];
    (void)snprintf(name, sizeof name, "c%" PRId64, child);
    hand_fork(w->h, w->snapshots[at].catalog, at, child, name, ++w->last);
    w->catalogs[child] = (world_catalog){.fork_point = at, .now = w->snapshots[at].held};
    remember(w, child);
}

static void drop_catalog(world *w, int64_t catalog)
{
    hand_sql(w->h,
             "UPDATE lake_catalog SET dropped_at = '2026-01-03 00:00:00.000000' "
             "WHERE catalog_id = %" PRId64 "; DELETE FROM lake_head WHERE catalog_id = %" PRId64,
             catalog, catalog);
    w->catalogs[catalog].is_dropped = true;
}

static void pin_or_release(world *w)
{
    const int64_t snapshot = choose_snapshot(w);
    if (snapshot == 0)
        return;
    world_snapshot *s = &w->snapshots[snapshot];
    if (s->is_pinned)
        hand_sql(w->h, "DELETE FROM lake_pin WHERE snapshot_id = %" PRId64, snapshot);
    else
        hand_sql(
            w->h,
            "INSERT INTO lake_pin (pin_id, catalog_id, snapshot_id, holder, taken_at, expires_at) "
            "VALUES ('00000000-0000-0000-0000-%012" PRId64 "', %" PRId64 ", %" PRId64
            ", 'somebody', '2020-01-01 00:00:00.000000', '2099-01-01 00:00:00.000000')",
            snapshot, s->catalog, snapshot);
    s->is_pinned = !s->is_pinned;
}

/* A file of a commit that came to nothing. */
static void leave_orphan(world *w, int64_t catalog)
{
    const holding *now = &w->catalogs[catalog].now;
    toy_disk_put(&w->disk, now->schema, now->table > 0 ? now->table : 9, w->next_file++);
}

/* ---- the oracle ---- */

static void must_be_there(const world *w, int64_t snapshot, int64_t file)
{
    if (file > 0 && !w->disk.files[file].is_there)
        fail_msg("file %" PRId64 " is gone, but snapshot %" PRId64 " needs it", file, snapshot);
}

static void look_around(world *w)
{
    for (int64_t i = 1; i <= w->last; i++) {
        world_snapshot *s = &w->snapshots[i];
        if (s->catalog == 0 || s->is_gone)
            continue;
        for (int n = 0; n < s->held.count; n++) {
            must_be_there(w, i, s->held.files[n].data);
            must_be_there(w, i, s->held.files[n].deletes);
        }
    }
}

typedef struct left {
    bool is_left[SNAPSHOTS];
} left;

static tide_status read_left(tide_tx *tx, void *arg, tide_error *err)
{
    left *l = arg;
    memset(l, 0, sizeof *l);
    static const tide_sql sql = {
        TIDE_SQL_INIT,
        .name = "snapshots_left",
        .engine = {{.text = "SELECT snapshot_id FROM ducklake_snapshot"},
                   {.text = "SELECT snapshot_id FROM ducklake_snapshot"}},
    };
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, &sql, err));
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK)
        l->is_left[tide_query_col_i64(query)] = true;
    return status < TIDE_OK ? status : TIDE_OK;
}

/* A head, pinned, or the point of a fork that is not dropped. (One that is may still need it, for its own forks.) */
static bool is_needed(const world *w, int64_t snapshot)
{
    const int64_t catalog = w->snapshots[snapshot].catalog;
    for (int64_t i = 1; i <= w->catalog_count; i++)
        if (!w->catalogs[i].is_dropped && w->catalogs[i].fork_point == snapshot)
            return true;
    return w->snapshots[snapshot].is_pinned ||
           (!w->catalogs[catalog].is_dropped && w->h->heads[catalog] == snapshot);
}

static void see_what_is_left(world *w)
{
    static left l;
    hand_flush(w->h);
    assert_ok_err(tide_store_read(w->h->t->store, read_left, &l, &w->h->t->err), &w->h->t->err);
    for (int64_t i = 1; i <= w->last; i++) {
        if (w->snapshots[i].catalog == 0 || w->snapshots[i].is_gone)
            continue;
        if (!l.is_left[i] && is_needed(w, i))
            fail_msg("snapshot %" PRId64 " is gone, but is a head, a fork's point or pinned", i);
        w->snapshots[i].is_gone = !l.is_left[i];
    }
}

/* ---- expiring and cleaning up ---- */

static void expire(world *w, int64_t keep_last, int64_t batch)
{
    tide_lake_expired expired;
    const tide_lake_expire_options options = {.keep_last = keep_last, .batch = batch};
    do {
        const tide_status status =
            tide_lake_expire(w->h->lake, NULL, &options, &expired, &w->h->t->err);
        if (fail_write > 0 && status < TIDE_OK)
            return;
        assert_status_err(TIDE_OK, status, &w->h->t->err);
    } while (expired.more);
}

static void clean(world *w, bool with_orphans)
{
    const tide_lake_cleanup_options options = {
        .grace_us = -1, .with_orphans = with_orphans, .batch = 7, .disk = &w->disk.ops};
    tide_lake_cleaned cleaned;
    do {
        const tide_status status = tide_lake_cleanup(w->h->lake, &options, &cleaned, &w->h->t->err);
        if ((fail_write > 0 || w->disk.fail_at > 0) && status < TIDE_OK)
            return;
        assert_status_err(TIDE_OK, status, &w->h->t->err);
    } while (cleaned.more);
}

static void take_out_the_rubbish(world *w)
{
    hand_flush(w->h);
    virtual_env_advance(&w->h->t->clock, SECOND_US * 10);
    plan_failure(w);
    expire(w, 1 + (int64_t)prng_below(&w->random, 4), 1 + (int64_t)prng_below(&w->random, 5));
    plan_no_failure(w);
    see_what_is_left(w);
    look_around(w);
    plan_failure(w);
    clean(w, prng_chance(&w->random, 1, 2));
    plan_no_failure(w);
    look_around(w);
}

static void step(world *w)
{
    virtual_env_advance(&w->h->t->clock, SECOND_US);
    const int64_t catalog = choose_catalog(w);
    const uint64_t what = prng_below(&w->random, 100);
    if (catalog == 0 || what < 6) {
        make_catalog(w);
    } else if (what < 16) {
        fork_catalog(w);
    } else if (what < 24) {
        pin_or_release(w);
    } else if (what < 30) {
        leave_orphan(w, catalog);
    } else if (what < 33) {
        drop_catalog(w, catalog);
    } else if (what < 45) {
        take_out_the_rubbish(w);
    } else if (w->catalogs[catalog].now.table == 0) {
        make_table(w, catalog);
    } else if (w->catalogs[catalog].now.count == 0 || what < 70) {
        add_files(w, catalog);
    } else if (what < 82) {
        delete_rows(w, catalog);
    } else if (what < 94) {
        end_file(w, catalog);
    } else {
        drop_table(w, catalog);
    }
}

/* Without pins, and with one snapshot per catalog: what is on the disk is what they need. */
static void end_it_all(world *w)
{
    hand_sql(w->h, "DELETE FROM lake_pin");
    hand_flush(w->h);
    for (int64_t i = 1; i <= w->last; i++)
        w->snapshots[i].is_pinned = false;
    virtual_env_advance(&w->h->t->clock, SECOND_US * 10);
    expire(w, 1, 0);
    see_what_is_left(w);
    clean(w, true);
    look_around(w);
    bool is_needed_file[TOY_FILES] = {false};
    for (int64_t i = 1; i <= w->last; i++) {
        const world_snapshot *s = &w->snapshots[i];
        for (int n = 0; s->catalog > 0 && !s->is_gone && n < s->held.count; n++) {
            is_needed_file[s->held.files[n].data] = true;
            is_needed_file[s->held.files[n].deletes] = true;
        }
    }
    for (int i = 1; i < TOY_FILES; i++)
        if (w->disk.files[i].is_there && !is_needed_file[i])
            fail_msg("file %d (%s) is still there, and nobody needs it", i, w->disk.files[i].path);
}

static void run_seed(hand *h, uint64_t seed)
{
    static world w;
    memset(&w, 0, sizeof w);
    w.h = h;
    w.next_file = 1;
    w.next_table = 5001;
    prng_init(&w.random, seed);
    toy_disk_init(&w.disk, h);
    make_catalog(&w);
    for (int i = 0; i < STEPS; i++)
        step(&w);
    hand_flush(h);
    take_out_the_rubbish(&w);
    hand_expect_sound(h);
    end_it_all(&w);
    hand_expect_sound(h);
}

static void no_file_that_can_be_reached_is_ever_removed(void **state)
{
    hand *h = *state;
    uint64_t count = is_soak() ? 200 : SEEDS;
    const uint64_t first = prng_first_of(&count, 0);
    for (uint64_t i = 0; i < count; i++) {
        prng_print_seed(first + i);
        run_seed(h, first + i);
        assert_int_equal(0, h->t->engine == TIDE_ENGINE_SQLITE ? hand_setup_sqlite(state)
                                                               : hand_setup_postgres(state));
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {HAND_CASE(no_file_that_can_be_reached_is_ever_removed)};
    return cmocka_run_group_tests(tests, NULL, hand_group_teardown);
}
