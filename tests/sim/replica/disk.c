#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "crash/copying.h"
#include "sim/replica/world.h"

enum {
    CUT_CALLS = 60,
    DOWN_MAX_US = 700000,
};

/* Keys that collide, are equal in SQLite's eyes and not in ours, refer to each other. Most values come from a few, so that nodes clash;
 * one column of each table takes a text that is written once. */
const char *const world_schemas[WORLD_TABLES] = {
    "CREATE TABLE IF NOT EXISTS people (id INTEGER PRIMARY KEY, name TEXT UNIQUE, city TEXT, age "
    "INTEGER CHECK (age + id < 60))",
    "CREATE TABLE IF NOT EXISTS notes (k TEXT NOT NULL PRIMARY KEY, owner INTEGER REFERENCES "
    "people (id) ON DELETE CASCADE, body);"
    "CREATE INDEX IF NOT EXISTS notes_owner ON notes (owner)",
    "CREATE TABLE IF NOT EXISTS pairs (a INTEGER, b TEXT, c, d UNIQUE, PRIMARY KEY (a, b)) "
    "WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS tree (id INTEGER PRIMARY KEY, up INTEGER REFERENCES tree (id), "
    "label TEXT UNIQUE, x TEXT);"
    "CREATE INDEX IF NOT EXISTS tree_up ON tree (up)",
    "CREATE TABLE IF NOT EXISTS things (k NOT NULL PRIMARY KEY, v, n REAL, twice GENERATED ALWAYS "
    "AS (n * 2) VIRTUAL, t)",
    "CREATE TABLE IF NOT EXISTS tags (name TEXT COLLATE NOCASE NOT NULL PRIMARY KEY, t)",
};
const char *const world_tables[WORLD_TABLES] = {"people", "notes",  "pairs",
                                                "tree",   "things", "tags"};

uint64_t world_below(world *w, uint64_t n)
{
    return prng_below(sim_chance(w->sim), n);
}

bool world_is_calm(const world *w)
{
    return sim_now_us(w->sim) >= w->calm_from_us;
}

bool world_happens(world *w, uint64_t n)
{
    return !world_is_calm(w) && prng_chance(sim_chance(w->sim), 1, n);
}

/* ---- clocks ---- */

static tide_env *base_of(tide_env *env)
{
    return ((world_clock *)env)->base;
}

static int64_t read_wall(tide_env *env)
{
    return base_of(env)->wall_us(base_of(env)) + ((world_clock *)env)->offset_us;
}

static int64_t read_mono(tide_env *env)
{
    return base_of(env)->mono_us(base_of(env));
}

static int64_t read_boot(tide_env *env)
{
    return base_of(env)->boot_us(base_of(env));
}

static void read_boot_id(tide_env *env, char out[TIDE_BOOT_ID_SIZE])
{
    base_of(env)->boot_id(base_of(env), out);
}

static void draw(tide_env *env, void *out, size_t len)
{
    base_of(env)->random(base_of(env), out, len);
}

static void wait_us(tide_env *env, int64_t us)
{
    base_of(env)->sleep_us(base_of(env), us);
}

/* ---- falling ---- */

bool world_node_is_up(const world_node *n)
{
    return n->node != NULL && !fault_vfs_is_cut(n->disk);
}

void world_node_arm(world_node *n)
{
    if (!world_happens(n->w, 12))
        return;
    const bool on_sync = world_happens(n->w, 3);
    fault_vfs_power_cut_at(n->disk, on_sync ? FAULT_VFS_SYNC : FAULT_VFS_WRITE,
                           1 + (int64_t)world_below(n->w, on_sync ? CUT_CALLS / 8 : CUT_CALLS));
}

bool world_node_fell(world_node *n)
{
    if (!n->disk)
        return true;
    if (!fault_vfs_is_cut(n->disk)) {
        fault_vfs_power_cut_at(n->disk, FAULT_VFS_WRITE, 0);
        return false;
    }
    n->w->tally.cut++;
    sim_crash_now(n->w->sim, n->id, world_happens(n->w, 2) ? SIM_CRASH_PROCESS : SIM_CRASH_POWER,
                  (int64_t)world_below(n->w, DOWN_MAX_US));
    return true;
}

void world_node_must(world_node *n, tide_status status, const tide_error *err, const char *what)
{
    if (status < TIDE_OK && !fault_vfs_is_cut(n->disk))
        sim_fail(n->w->sim, "%s cannot %s: %s (status %d)", n->name, what, err->text, (int)status);
}

/* ---- opening ---- */

static void open_writer(world_node *n)
{
    const int code = sqlite3_open_v2(
        n->path, &n->writer, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, fault_vfs_name(n->disk));
    char text[160];
    if (code == SQLITE_OK) {
        (void)snprintf(text, sizeof text,
                       "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; PRAGMA synchronous = "
                       "FULL; PRAGMA foreign_keys = %d; PRAGMA recursive_triggers = %d",
                       n->has_foreign_keys, n->has_recursion);
        (void)sqlite3_exec(n->writer, text, NULL, NULL, NULL);
    }
    for (int t = 0; n->has_app && t < WORLD_TABLES; t++)
        if (n->w->has_table[t] &&
            sqlite3_exec(n->writer, world_schemas[t], NULL, NULL, NULL) != SQLITE_OK &&
            !fault_vfs_is_cut(n->disk))
            sim_fail(n->w->sim, "%s: the application's schema: %s", n->name,
                     sqlite3_errmsg(n->writer));
}

static bool is_tracked(world_node *n, int table)
{
    char text[160];
    (void)snprintf(text, sizeof text,
                   "SELECT is_tracked FROM tide_replica_tables WHERE name = '%s'",
                   world_tables[table]);
    return look_number(n->writer, text, 0) == 1;
}

static void track_all(world_node *n)
{
    for (int t = 0; t < WORLD_TABLES && world_node_is_up(n); t++) {
        tide_tracked tracked;
        tide_error err;
        if (!n->w->has_table[t] || n->is_untracked[t] || is_tracked(n, t))
            continue;
        world_node_must(n,
                        tide_node_track(n->node, world_tables[t], WORLD_RETAIN_US, &tracked, &err),
                        &err, "track");
    }
}

/* Changes that were captured but not folded where the file comes from are told once more by who it is now. */
static void compare_past(world_node *n)
{
    const tide_node_id id = tide_node_get_id(n->node);
    const world_past *past = &n->past;
    if (past->is_set &&
        (memcmp(&id, &past->id, sizeof id) != 0 || tide_node_epoch(n->node) != past->epoch)) {
        sim_trace(n->w->sim, "%s begins epoch %lld", n->name, (long long)tide_node_epoch(n->node));
        model_told_again(&n->w->model, n, &past->id, past->epoch, past->folded, past->last);
    } else if (past->is_set) {
        model_given_again(&n->w->model, &id, past->epoch, past->last);
    }
    n->past.is_set = false;
}

void world_node_open(world_node *n)
{
    tide_error err;
    n->disk = fault_vfs_new(n->dir.path, prng_u64(sim_chance(n->w->sim)));
    if (world_happens(n->w, 15))
        fault_vfs_power_cut_at(n->disk, FAULT_VFS_WRITE, 1 + (int64_t)world_below(n->w, 40));
    open_writer(n);
    const tide_node_options options = {.env = &n->clock.env,
                                       .is_new = !n->has_app,
                                       .state_dir = n->state.path,
                                       .vfs = fault_vfs_name(n->disk)};
    world_node_must(n, tide_node_open(&n->node, n->path, &options, &err), &err, "open its file");
    if (n->node && n->has_app)
        track_all(n);
    if (world_node_fell(n))
        return;
    if (n->node)
        compare_past(n);
    if (n->is_writing)
        world_write_settle(n);
}

/* ---- what befalls a file ---- */

static void remake(tempdir *dir)
{
    tide_error err;
    TIDE_IGNORE(tempdir_remove(dir, &err));
    assert_ok_err(tempdir_make(dir, &err), &err);
}

void world_files_copy(const char *from_dir, const char *to_dir)
{
    /* With the rollback journal: beside a file that it does not belong to, SQLite would roll that one back. */
    static const char *const names[] = {"store.db", "store.db-wal", "store.db-journal"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char from[TEMPDIR_PATH_MAX + 16];
        char to[TEMPDIR_PATH_MAX + 16];
        (void)snprintf(from, sizeof from, "%s/%s", from_dir, names[i]);
        (void)snprintf(to, sizeof to, "%s/%s", to_dir, names[i]);
        if (access(from, F_OK) == 0)
            copy_file(from, to);
        else
            (void)unlink(to);
    }
}

/* Another file stands there now. */
static void become(world_node *n, const world_past *past)
{
    n->mark_count = 0;
    n->is_writing = false;
    n->past = *past;
    memset(n->is_untracked, 0, sizeof n->is_untracked);
    model_forget_uncaptured(&n->w->model, n);
}

bool world_node_is_whole(const world_node *n)
{
    bool is_whole = world_node_is_up(n) && !n->is_writing;
    for (int t = 0; is_whole && t < WORLD_TABLES; t++)
        is_whole = !n->w->has_table[t] ||
                   (!n->is_untracked[t] && look_has_table(n->writer, world_tables[t]));
    return is_whole;
}

typedef struct own_mark {
    tide_node_id id;
    int64_t epoch;
    int64_t prefix;
} own_mark;

static tide_status find_own(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    own_mark *own = arg;
    (void)err;
    if (memcmp(&mark->origin, &own->id, sizeof own->id) == 0 && mark->epoch == own->epoch)
        own->prefix = mark->prefix;
    return TIDE_OK;
}

static world_past get_past(const world_node *n)
{
    tide_error err;
    own_mark own = {.id = tide_node_get_id(n->node), .epoch = tide_node_epoch(n->node)};
    assert_ok_err(tide_node_marks(n->node, find_own, &own, &err), &err);
    return (world_past){.is_set = true,
                        .id = own.id,
                        .epoch = own.epoch,
                        .folded = own.prefix,
                        .last = look_number(n->writer, "SELECT max(seq) FROM tide_replica_seq", 0)};
}

void world_node_save(world_node *n)
{
    sim_trace(n->w->sim, "%s is saved", n->name);
    n->saved_past = get_past(n);
    remake(&n->saved);
    world_files_copy(n->dir.path, n->saved.path);
}

static void wipe(world_node *n)
{
    n->has_app = world_happens(n->w, 2);
    sim_trace(n->w->sim, "%s is wiped%s", n->name, n->has_app ? ", its tables are empty" : "");
    remove_store(n->path);
    become(n, &(world_past){.is_set = false});
    n->w->tally.wipes++;
}

static void put_back(world_node *n)
{
    const bool is_other_file = world_happens(n->w, 4);
    sim_trace(n->w->sim, "%s is restored%s", n->name, is_other_file ? " as another file" : "");
    if (is_other_file)
        remove_store(n->path);
    world_files_copy(n->saved.path, n->dir.path);
    become(n, &n->saved_past);
    n->has_app = true;
    n->w->tally.restores++;
}

void world_node_copy(world_node *n, const world_node *from)
{
    sim_trace(n->w->sim, "%s becomes a copy of %s", n->name, from->name);
    const world_past past = get_past(from);
    remove_store(n->path);
    world_files_copy(from->dir.path, n->dir.path);
    become(n, &past);
    n->has_app = true;
    n->w->tally.copies++;
}

static void befall(world_node *n)
{
    world *w = n->w;
    if (!w->with_disasters)
        return;
    if (world_happens(w, 10)) {
        wipe(n);
    } else if (n->saved_past.is_set && world_happens(w, 4)) {
        put_back(n);
    } else if (world_happens(w, 10)) {
        const world_node *from = &w->nodes[world_below(w, (uint64_t)w->count)];
        if (from != n && world_node_is_whole(from))
            world_node_copy(n, from);
    }
}

static void crash(void *self, sim *place, sim_crash how)
{
    static const fault_vfs_survival survivals[] = {FAULT_VFS_KEEP_RANDOM, FAULT_VFS_KEEP_PREFIX,
                                                   FAULT_VFS_KEEP_NONE};
    world_node *n = self;
    prng *chance = sim_chance(place);
    if (!fault_vfs_is_cut(n->disk))
        fault_vfs_power_cut(n->disk);
    if (world_happens(n->w, 2)) { /* whoever goes first */
        (void)sqlite3_close(n->writer);
        n->writer = NULL;
    }
    tide_node_close(n->node);
    (void)sqlite3_close(n->writer);
    n->node = NULL;
    n->writer = NULL;
    fault_vfs_image(n->disk,
                    how == SIM_CRASH_POWER ? survivals[prng_below(chance, 3)] : FAULT_VFS_KEEP_ALL,
                    chance, n->scratch.path);
    fault_vfs_free(n->disk);
    n->disk = NULL;
    restore_image(&n->scratch, &n->dir, "store.db");
    remake(&n->scratch);
    befall(n);
}

static void restart(void *self, sim *place)
{
    (void)place;
    world_node *n = self;
    if (!n->disk)
        world_node_open(n);
}

/* ---- tables ---- */

void world_node_untrack(world_node *n, int table)
{
    tide_error err;
    sim_trace(n->w->sim, "%s does not capture %s any more", n->name, world_tables[table]);
    world_node_must(n, tide_node_untrack(n->node, world_tables[table], &err), &err, "untrack");
    n->is_untracked[table] = true;
    n->w->tally.untracks++;
}

void world_node_track(world_node *n, int table)
{
    tide_error err;
    tide_tracked tracked;
    sim_trace(n->w->sim, "%s captures %s again", n->name, world_tables[table]);
    const int64_t before = look_number(n->writer, "SELECT max(seq) FROM tide_replica_seq", 0);
    world_node_must(n,
                    tide_node_track(n->node, world_tables[table], WORLD_RETAIN_US, &tracked, &err),
                    &err, "track again");
    world_node_must(n, tide_peer_look(n->node, NULL, &err), &err, "look at its file");
    const int64_t after = look_number(n->writer, "SELECT max(seq) FROM tide_replica_seq", 0);
    n->is_untracked[table] = false;
    model_captured(&n->w->model, n, table, before, after);
}

void world_node_alter(world_node *n, int table)
{
    char text[128];
    if (!look_has_table(n->writer, world_tables[table]) ||
        look_has_column(n->writer, world_tables[table], "extra"))
        return;
    sim_trace(n->w->sim, "%s adds a column to %s", n->name, world_tables[table]);
    (void)snprintf(text, sizeof text, "ALTER TABLE %s ADD COLUMN extra TEXT", world_tables[table]);
    if (sqlite3_exec(n->writer, text, NULL, NULL, NULL) == SQLITE_OK) {
        n->w->is_altered[table] = true;
        n->w->tally.alters++;
    } else if (!fault_vfs_is_cut(n->disk)) {
        sim_fail(n->w->sim, "%s: %s: %s", n->name, text, sqlite3_errmsg(n->writer));
    }
}

/* ---- a life ---- */

static void set_clock(world_node *n)
{
    static const int64_t jumps_us[] = {-INT64_C(3600000000), -INT64_C(20000000), -INT64_C(400000),
                                       INT64_C(0),           INT64_C(700000),    INT64_C(30000000),
                                       INT64_C(3600000000)};
    n->clock.offset_us = jumps_us[world_below(n->w, sizeof jumps_us / sizeof *jumps_us)];
    sim_trace(n->w->sim, "%s: the clock is %+lld s off", n->name,
              (long long)(n->clock.offset_us / 1000000));
}

static void collect(world_node *n)
{
    tide_error err;
    tide_collected collected = {.events = 0};
    const tide_collect_options options = {.safety = world_happens(n->w, 2) ? -1 : 3,
                                          .batch = 1 + (int64_t)world_below(n->w, 40)};
    world_node_must(n, tide_node_collect(n->node, &options, &collected, &err), &err, "collect");
    n->w->tally.collected += collected.events;
    if (collected.events > 0)
        sim_trace(n->w->sim, "%s has collected %lld events", n->name, (long long)collected.events);
}

static void close_and_open(world_node *n)
{
    tide_node_close(n->node);
    n->node = NULL;
    (void)sqlite3_close(n->writer);
    n->writer = NULL;
    fault_vfs_free(n->disk);
    n->disk = NULL;
    world_node_open(n);
}

static void cut_off(world_node *n)
{
    world *w = n->w;
    const int other = (int)world_below(w, (uint64_t)w->count);
    const int64_t until = sim_now_us(w->sim) + (int64_t)world_below(w, 2000000);
    w->cut_until_us[n->index][other] = until;
    w->cut_until_us[other][n->index] = until;
}

static void change_tables(world_node *n)
{
    world *w = n->w;
    const int table = (int)world_below(w, WORLD_TABLES);
    if (w->with_altering && world_happens(w, 2)) {
        world_node_alter(n, table);
    } else if (w->with_untracking && look_has_table(n->writer, world_tables[table]) &&
               (w->with_untracked_parents || table == 2 || table > 3)) {
        if (n->is_untracked[table])
            world_node_track(n, table);
        else if (is_tracked(n, table))
            world_node_untrack(n, table);
    }
}

static void live(world_node *n)
{
    world *w = n->w;
    const uint64_t die = world_below(w, 100);
    if (die < 54) {
        world_node_arm(n);
        world_write(n);
    } else if (die < 68) {
        world_node_arm(n);
        world_sync(n);
    } else if (die < 80) {
        world_send_page(n);
    } else if (die < 86) {
        world_node_arm(n);
        if (w->with_collecting)
            collect(n);
    } else if (die < 90) {
        change_tables(n);
    } else if (die < 92) {
        if (w->with_skew)
            set_clock(n);
    } else if (die < 94) {
        close_and_open(n);
    } else if (die < 97) {
        cut_off(n);
    } else if (world_node_is_whole(n)) {
        world_node_save(n);
    }
}

static int64_t step(void *self, sim *place)
{
    world_node *n = self;
    (void)place;
    if (world_is_calm(n->w))
        return SIM_IDLE;
    if (n->disk && n->node) {
        live(n);
        const int64_t wall = n->clock.env.wall_us(&n->clock.env);
        if (wall > n->w->wall_max_us)
            n->w->wall_max_us = wall;
        if (!world_node_fell(n))
            world_check_marks(n);
    }
    tide_env *env = &n->clock.env;
    return env->mono_us(env) + 1000 + (int64_t)world_below(n->w, 120000);
}

static void receive(void *self, sim *place, sim_id from, tide_view message)
{
    world_node *n = self;
    (void)place;
    (void)from;
    if (!n->disk || !n->node)
        return;
    world_node_arm(n);
    world_receive_page(n, message);
    if (!world_node_fell(n))
        world_check_marks(n);
}

void world_node_init(world_node *n, world *w, int index)
{
    tide_error err;
    *n = (world_node){.w = w, .index = index, .has_app = true};
    (void)snprintf(n->name, sizeof n->name, "n%d", index);
    assert_ok_err(tempdir_make(&n->dir, &err), &err);
    assert_ok_err(tempdir_make(&n->scratch, &err), &err);
    assert_ok_err(tempdir_make(&n->state, &err), &err);
    assert_ok_err(tempdir_make(&n->saved, &err), &err);
    tempdir_join(&n->dir, "store.db", n->path);
    n->id = sim_add(w->sim, &(sim_actor){.name = n->name,
                                         .self = n,
                                         .step = step,
                                         .receive = receive,
                                         .crash = crash,
                                         .restart = restart});
    n->clock = (world_clock){.env = {TIDE_ENV_INIT, .wall_us = read_wall, .mono_us = read_mono,
                                     .boot_us = read_boot, .boot_id = read_boot_id, .random = draw,
                                     .sleep_us = wait_us},
                             .base = sim_env(w->sim, n->id)};
    n->has_foreign_keys = prng_chance(sim_chance(w->sim), 3, 4);
    n->has_recursion = prng_chance(sim_chance(w->sim), 1, 4);
    world_node_open(n);
}

void world_node_done(world_node *n)
{
    tide_error err;
    tide_node_close(n->node);
    (void)sqlite3_close(n->writer);
    fault_vfs_free(n->disk);
    shown_done(&n->before);
    TIDE_IGNORE(tempdir_remove(&n->dir, &err));
    TIDE_IGNORE(tempdir_remove(&n->scratch, &err));
    TIDE_IGNORE(tempdir_remove(&n->state, &err));
    TIDE_IGNORE(tempdir_remove(&n->saved, &err));
}
