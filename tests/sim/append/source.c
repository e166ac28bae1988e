#include "sim/append/source.h"

#include <assert.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "crash/copying.h"
#include "support/store_fixture.h"

enum {
    CUT_CALLS = 120,     /* an armed cut falls within so many calls of its class */
    CUT_OPEN_CALLS = 12, /* ... while the store is opened */
    DOWN_MAX_US = 2000000,
};

/* ---- the disk ---- */

static bool is_calm(const append_source *s, const sim *world)
{
    return sim_now_us(world) >= s->calm_from_us;
}

/* Writes and syncs: what reads the table for an invariant must not decide where the power goes. */
static void arm_cut(append_source *s, sim *world, uint64_t calls)
{
    static const fault_vfs_call classes[] = {FAULT_VFS_WRITE, FAULT_VFS_WRITE, FAULT_VFS_SYNC};
    prng *chance = sim_chance(world);
    const fault_vfs_call on = classes[prng_below(chance, 3)];
    fault_vfs_power_cut_at(
        s->disk, on, 1 + (int64_t)prng_below(chance, on == FAULT_VFS_SYNC ? calls / 8 + 1 : calls));
}

static tide_status open_store(append_source *s, sim *world, tide_error *err)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&s->dir, "store.db", path);
    const tide_store_options options = {
        TIDE_STORE_OPTIONS_INIT,    .env = sim_env(world, s->id),
        .is_inline = true,          .sqlite_vfs = fault_vfs_name(s->disk),
        .state_dir = s->state.path,
    };
    return tide_store_open(&s->store, path, &options, err);
}

/* The power is gone, or will not be back if another call is under way: true when the source went down. */
static bool go_down_when_cut(append_source *s, sim *world)
{
    if (!fault_vfs_is_cut(s->disk))
        return false;
    const int64_t down_us = (int64_t)prng_below(sim_chance(world), DOWN_MAX_US);
    sim_crash_now(world, s->id,
                  prng_chance(sim_chance(world), 1, 3) ? SIM_CRASH_PROCESS : SIM_CRASH_POWER,
                  down_us);
    return true;
}

static void crash(void *self, sim *world, sim_crash how)
{
    append_source *s = self;
    static const fault_vfs_survival survivals[] = {FAULT_VFS_KEEP_RANDOM, FAULT_VFS_KEEP_PREFIX,
                                                   FAULT_VFS_KEEP_NONE};
    prng *chance = sim_chance(world);
    if (!fault_vfs_is_cut(s->disk))
        fault_vfs_power_cut(s->disk);
    tide_store_closep(&s->store);
    fault_vfs_image(s->disk,
                    how == SIM_CRASH_POWER ? survivals[prng_below(chance, 3)] : FAULT_VFS_KEEP_ALL,
                    chance, s->scratch.path);
    fault_vfs_free(s->disk);
    s->disk = NULL;
    s->is_dirty = true;
    memset(s->appended, 0, sizeof s->appended);
    if (how == SIM_CRASH_POWER &&
        prng_chance(chance, 1, 4)) { /* the disk goes into another machine */
        const tempdir old = s->dir;
        s->dir = s->scratch;
        s->scratch = old;
        s->moves++;
    } else {
        restore_image(&s->scratch, &s->dir, "store.db");
    }
    tide_error err;
    const tide_status removed = tempdir_remove(&s->scratch, &err);
    const tide_status made = tempdir_make(&s->scratch, &err);
    assert(removed >= TIDE_OK && made >= TIDE_OK);
    (void)removed;
    (void)made;
}

/* A move is a new epoch; coming back in the same place is not. (Several moves with starts between that did not
 * get far may be noticed as one.) */
static void check_epoch(append_source *s, sim *world)
{
    tide_identity identity;
    tide_store_identity(s->store, &identity);
    const int64_t lowest = s->epoch + (s->moves > 0 ? 1 : 0);
    const int64_t highest = s->epoch + s->moves;
    if (identity.epoch < lowest || identity.epoch > highest)
        sim_fail(world, "epoch %" PRId64 " after %" PRId64 " and %" PRId64 " moves", identity.epoch,
                 s->epoch, s->moves);
    s->epoch = identity.epoch;
    s->moves = 0;
}

static void restart(void *self, sim *world)
{
    append_source *s = self;
    tide_error err;
    s->disk = fault_vfs_new(s->dir.path, prng_u64(sim_chance(world)));
    if (!is_calm(s, world) && prng_chance(sim_chance(world), 1, 5))
        arm_cut(s, world, CUT_OPEN_CALLS);
    const tide_status status = open_store(s, world, &err);
    if (status < TIDE_OK && !fault_vfs_is_cut(s->disk))
        sim_fail(world, "the source cannot open its store: %s", err.text);
    if (status >= TIDE_OK)
        check_epoch(s, world);
    if (go_down_when_cut(s, world))
        return;
    if (!is_calm(s, world) && prng_chance(sim_chance(world), 2, 3))
        arm_cut(s, world, CUT_CALLS);
}

/* ---- the answers ---- */

static void writer_name(char out[16], int64_t writer)
{
    (void)snprintf(out, 16, "p%" PRId64, writer);
}

typedef struct append_request {
    append_row row;
    bool is_blind; /* do not look first */
    tide_sequence_range range;
} append_request;

/* Check, act and record in one transaction. */
static tide_status append(tide_tx *tx, void *arg, tide_error *err)
{
    append_request *r = arg;
    char name[16];
    writer_name(name, r->row.writer);
    TIDE_CLEANUP(tide_query_endp) tide_query *find = NULL;
    TIDE_TRY(tide_query_begin(&find, tx, TEST_SQL_NUMBERED_FIND, err));
    tide_query_bind_text(find, "writer", name);
    tide_query_bind_i64(find, "n", r->row.n);
    const tide_status found = tide_query_one(find, err);
    TIDE_TRY(found);
    r->range.first = 0;
    if (found == TIDE_OK) {
        r->row.seq_id = tide_query_col_i64(find);
        return TIDE_OK;
    }
    TIDE_TRY(tide_sequence_declare(tx, "numbered", 1, &r->range, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_NUMBERED_ADD, err));
    tide_query_bind_text(query, "sequence", "numbered");
    tide_query_bind_text(query, "writer", name);
    tide_query_bind_i64(query, "n", r->row.n);
    tide_query_bind_i64(query, "back", 0);
    return tide_query_defer(&query, err);
}

static void send(append_source *s, sim *world, sim_id to, message *m)
{
    tide_identity identity;
    tide_store_identity(s->store, &identity);
    m->epoch = identity.epoch;
    sim_send(world, s->id, to, tide_view_bytes(m, sizeof *m));
}

static void answer_append(append_source *s, sim *world, sim_id from, const message *asked)
{
    append_request r = {.row = {.writer = asked->row.writer, .n = asked->row.n}};
    message answer = {.kind = MESSAGE_ACK, .row = asked->row};
    int64_t *known = &s->appended[r.row.writer][r.row.n];
    if (s->planted == SOURCE_HASTY)
        send(s, world, from, &answer);
    if (s->planted == SOURCE_FORGETFUL && *known == 0)
        r.row.n += APPEND_AGAIN * s->attempts++;
    else if (s->planted == SOURCE_FORGETFUL) {
        answer.row.seq_id = *known;
        send(s, world, from, &answer);
        return;
    }
    tide_error err;
    const tide_status status = tide_store_write(s->store, append, &r, &err);
    s->is_dirty = true;
    if (go_down_when_cut(s, world))
        return;
    if (status < TIDE_OK) {
        sim_fail(world, "an append failed without a reason: %s", err.text);
        return;
    }
    answer.row.seq_id = r.range.first != 0 ? r.range.first : r.row.seq_id;
    *known = answer.row.seq_id;
    if (s->planted != SOURCE_HASTY)
        send(s, world, from, &answer);
}

typedef struct page_request {
    int64_t after;
    int64_t limit;
    int64_t count;
    append_row *rows;
} page_request;

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    page_request *p = arg;
    p->count = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_NUMBERED_TAIL, err));
    tide_query_bind_i64(query, "after", p->after);
    tide_query_bind_i64(query, "limit", p->limit);
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        append_row *row = &p->rows[p->count++];
        row->seq_id = tide_query_col_i64(query);
        const tide_view writer = tide_query_col_text(query);
        row->writer = writer.len == 2 ? writer.ptr[1] - '0' : -1;
        row->n = tide_query_col_i64(query);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static void answer_poll(append_source *s, sim *world, sim_id from, const message *asked)
{
    message answer = {.kind = MESSAGE_PAGE, .after = asked->after};
    page_request p = {.after = asked->after, .limit = APPEND_PAGE, .rows = answer.rows};
    tide_error err;
    const tide_status status = tide_store_read(s->store, read_page, &p, &err);
    if (go_down_when_cut(s, world))
        return;
    if (status < TIDE_OK) {
        sim_fail(world, "a page failed without a reason: %s", err.text);
        return;
    }
    answer.count = p.count;
    send(s, world, from, &answer);
}

static void receive(void *self, sim *world, sim_id from, tide_view bytes)
{
    append_source *s = self;
    message asked;
    assert(bytes.len == sizeof asked);
    memcpy(&asked, bytes.ptr, sizeof asked);
    if (is_calm(s, world))
        fault_vfs_power_cut_at(s->disk, FAULT_VFS_ANY, 0);
    if (asked.kind == MESSAGE_APPEND)
        answer_append(s, world, from, &asked);
    else
        answer_poll(s, world, from, &asked);
}

static int64_t step(void *self, sim *world)
{
    (void)self;
    (void)world;
    return SIM_IDLE; /* it only answers */
}

/* ---- life ---- */

sim_actor append_source_actor(append_source *s)
{
    return (sim_actor){.name = "source",
                       .self = s,
                       .step = step,
                       .receive = receive,
                       .crash = crash,
                       .restart = restart};
}

void append_source_init(append_source *s, sim *world, source_planted_fault planted,
                        int64_t calm_from_us)
{
    *s = (append_source){
        .planted = planted, .calm_from_us = calm_from_us, .epoch = 1, .is_dirty = true};
    tide_error err;
    (void)sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)prng_u64(sim_chance(world)), NULL);
    assert_ok_err(tempdir_make(&s->dir, &err), &err);
    assert_ok_err(tempdir_make(&s->scratch, &err), &err);
    assert_ok_err(tempdir_make(&s->state, &err), &err);
    const sim_actor actor = append_source_actor(s);
    s->id = sim_add(world, &actor);
    s->disk = fault_vfs_new(s->dir.path, prng_u64(sim_chance(world)));
    assert_ok_err(open_store(s, world, &err), &err);
    store_test_add_tables(s->store);
    arm_cut(s, world, CUT_CALLS);
}

void append_source_done(append_source *s)
{
    tide_store_closep(&s->store);
    fault_vfs_free(s->disk);
    TIDE_IGNORE(tempdir_remove(&s->dir, NULL));
    TIDE_IGNORE(tempdir_remove(&s->scratch, NULL));
    TIDE_IGNORE(tempdir_remove(&s->state, NULL));
}

int append_source_read(append_source *s, append_row rows[APPEND_ROWS_MAX])
{
    page_request p = {.limit = APPEND_ROWS_MAX, .rows = rows};
    if (!s->store || tide_store_read(s->store, read_page, &p, NULL) < TIDE_OK)
        return -1;
    s->is_dirty = false;
    return (int)p.count;
}
