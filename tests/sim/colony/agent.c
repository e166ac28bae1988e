#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "crash/copying.h"
#include "sim/colony/world.h"

enum {
    PUT_EVERY_US = 700000, /* on average */
    PUT_RECORDS = 6,       /* at most, at a time */
    CUT_CALLS = 150,
    DOWN_MAX_US = 3000000,
};

const char *const world_streams[WORLD_STREAMS] = {"telemetry", "logs"};

bool world_is_calm(const world *w)
{
    return sim_now_us(w->sim) >= w->calm_from_us;
}

bool world_happens(world *w, uint64_t n)
{
    return !world_is_calm(w) && prng_chance(sim_chance(w->sim), 1, n);
}

void world_send(world *w, sim_id from, sim_id to, letter head, const char *text, tide_view body)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = {0};
    tide_buffer_init(&out, TIDE_REPLY_BYTES_MAX);
    const tide_view words = tide_view_of(text);
    head.body_len = (int64_t)body.len;
    assert_ok(tide_buffer_append(&out, &head, sizeof head));
    assert_ok(tide_buffer_append_view(&out, words));
    assert_ok(tide_buffer_append_view(&out, body));
    sim_send(w->sim, from, to, tide_buffer_view(&out));
}

/* ---- the disk ---- */

static void arm_cut(world_agent *a)
{
    if (!world_happens(a->w, 2))
        return;
    prng *chance = sim_chance(a->w->sim);
    const bool on_sync = prng_chance(chance, 1, 3);
    fault_vfs_power_cut_at(a->disk, on_sync ? FAULT_VFS_SYNC : FAULT_VFS_WRITE,
                           1 + (int64_t)prng_below(chance, on_sync ? CUT_CALLS / 8 : CUT_CALLS));
}

static bool go_down_when_cut(world_agent *a)
{
    if (!fault_vfs_is_cut(a->disk))
        return false;
    a->w->tally.cut++;
    sim_crash_now(a->w->sim, a->id, SIM_CRASH_POWER,
                  (int64_t)prng_below(sim_chance(a->w->sim), DOWN_MAX_US));
    return true;
}

static void copy_files(const tempdir *from, const tempdir *to)
{
    /* With the rollback journal: beside a file that it does not belong to, SQLite would roll that one back. */
    static const char *const names[] = {"agent.db", "agent.db-wal", "agent.db-journal"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char source[TEMPDIR_PATH_MAX];
        char target[TEMPDIR_PATH_MAX];
        tempdir_join(from, names[i], source);
        tempdir_join(to, names[i], target);
        FILE *there = fopen(source, "rb");
        if (there) {
            (void)fclose(there);
            copy_file(source, target);
        } else {
            (void)remove(target);
        }
    }
}

static void remake(tempdir *dir)
{
    tide_error err;
    TIDE_IGNORE(tempdir_remove(dir, &err));
    assert_ok_err(tempdir_make(dir, &err), &err);
}

/* What the host knows of its store. */
static void forget_twin(world_agent *a)
{
    remake(&a->state);
    (void)snprintf(a->rig.state_dir, sizeof a->rig.state_dir, "%s", a->state.path);
}

/* While it is down: the disk is wiped, saved, or restored. */
static void befall(world_agent *a)
{
    world *w = a->w;
    if (world_happens(w, 8)) {
        sim_trace(w->sim, "%s is wiped", a->rig.name);
        remove_store(a->rig.path);
        w->tally.wipes++;
    } else if (a->has_backup && world_happens(w, 3)) {
        const bool is_unnoticed = world_happens(w, 2);
        sim_trace(w->sim, "%s is restored%s", a->rig.name, is_unnoticed ? ", unnoticed" : "");
        if (!is_unnoticed)
            remove_store(a->rig.path);
        else
            forget_twin(a);
        copy_files(&a->backup, &a->rig.dir);
        w->tally.restores++;
        w->tally.unnoticed += is_unnoticed;
    } else if (world_happens(w, 3)) {
        sim_trace(w->sim, "%s is saved", a->rig.name);
        copy_files(&a->rig.dir, &a->backup);
        a->has_backup = true;
    }
}

static void drop_parked(world_agent *a)
{
    for (int i = 0; i < WORLD_PARKED; i++) {
        tide_buffer_done(&a->parked[i].request);
        a->parked[i].is_used = false;
    }
}

static void crash(void *self, sim *place, sim_crash how)
{
    static const fault_vfs_survival survivals[] = {FAULT_VFS_KEEP_RANDOM, FAULT_VFS_KEEP_PREFIX,
                                                   FAULT_VFS_KEEP_NONE};
    world_agent *a = self;
    prng *chance = sim_chance(place);
    drop_parked(a);
    if (how == SIM_CRASH_PROCESS && a->rig.feed && !fault_vfs_is_cut(a->disk))
        return; /* what it wrote is there; opening again would show nothing and takes its time */
    if (!fault_vfs_is_cut(a->disk))
        fault_vfs_power_cut(a->disk);
    tide_feed_closep(&a->rig.feed);
    tide_store_closep(&a->rig.store);
    fault_vfs_image(a->disk,
                    how == SIM_CRASH_POWER ? survivals[prng_below(chance, 3)] : FAULT_VFS_KEEP_ALL,
                    chance, a->scratch.path);
    fault_vfs_free(a->disk);
    a->disk = NULL;
    restore_image(&a->scratch, &a->rig.dir, "agent.db");
    remake(&a->scratch);
    befall(a);
}

static void restart(void *self, sim *place)
{
    world_agent *a = self;
    tide_error err;
    if (a->disk)
        return;
    a->disk = fault_vfs_new(a->rig.dir.path, prng_u64(sim_chance(place)));
    a->rig.vfs = fault_vfs_name(a->disk);
    if (world_happens(a->w, 6))
        fault_vfs_power_cut_at(a->disk, FAULT_VFS_WRITE,
                               1 + (int64_t)prng_below(sim_chance(place), 20));
    const tide_status status = rig_agent_try_open(&a->rig, &err);
    if (status < TIDE_OK && !fault_vfs_is_cut(a->disk))
        sim_fail(place, "%s cannot open its store: %s", a->rig.name, err.text);
    if (!go_down_when_cut(a))
        arm_cut(a);
}

/* ---- records ---- */

static void put_some(world_agent *a)
{
    world *w = a->w;
    tide_error err;
    const int count = 1 + (int)prng_below(sim_chance(w->sim), PUT_RECORDS);
    const int stream = (int)prng_below(sim_chance(w->sim), WORLD_STREAMS);
    const int64_t before = a->rig.put;
    if (before + count > WORLD_PUTS_MAX)
        return;
    int64_t first = 0;
    const bool is_full = world_happens(w, 12); /* the disk is full for a moment */
    if (is_full)
        fault_vfs_set_quota(a->disk, fault_vfs_used_len(a->disk));
    const tide_status status = rig_try_put(&a->rig, world_streams[stream], count, &first, &err);
    a->is_news = true;
    if (is_full)
        fault_vfs_set_quota(a->disk, FAULT_VFS_NO_QUOTA);
    tide_identity identity;
    tide_store_identity(a->rig.store, &identity);
    for (int i = 0; i < count; i++) {
        put_record *record = &a->puts[before + 1 + i];
        *record = (put_record){.seq = status == TIDE_OK ? first + i : 0, .stream = stream};
        memcpy(record->session_id, identity.session_id, sizeof record->session_id);
    }
    if (status < TIDE_OK && !fault_vfs_is_cut(a->disk) && !is_full && status != TIDE_E_FULL)
        sim_fail(w->sim, "%s cannot put records: %s", a->rig.name, err.text);
}

/* ---- answers ---- */

static void park(world_agent *a, sim_id from, int64_t number, tide_view request, int64_t wait_us)
{
    for (int i = 0; i < WORLD_PARKED; i++) {
        parked *p = &a->parked[i];
        if (p->is_used)
            continue;
        *p = (parked){.is_used = true,
                      .from = from,
                      .number = number,
                      .until_us = sim_now_us(a->w->sim) + wait_us};
        tide_buffer_init(&p->request, 1 << 20);
        assert_ok(tide_buffer_append_view(&p->request, request));
        return;
    }
}

static void answer(world_agent *a, sim_id from, int64_t number, const char *path, tide_view request,
                   bool is_last)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer body = {0};
    tide_buffer_init(&body, TIDE_REPLY_BYTES_MAX);
    tide_error err = {0};
    int64_t wait_us = 0;
    tide_status status = rig_answer(&a->rig, path, request, &body, &wait_us, &err);
    if (go_down_when_cut(a))
        return;
    if (status == TIDE_NONE && !is_last) {
        park(a, from, number, request, wait_us);
        return;
    }
    if (status == TIDE_OK && a->w->answer_max > 0 && (int64_t)body.len > a->w->answer_max &&
        !strstr(path, "/WatchStreams"))
        status = tide_fail(&err, TIDE_E_LIMIT, "the answer has %zu bytes", body.len);
    const char *text = status < TIDE_OK ? err.text : "";
    world_send(a->w, a->id, from,
               (letter){.number = number,
                        .status = status == TIDE_NONE ? TIDE_OK : status,
                        .text_len = (int64_t)strlen(text)},
               text, status < TIDE_OK ? tide_view_of(NULL) : tide_buffer_view(&body));
}

static void receive(void *self, sim *place, sim_id from, tide_view bytes)
{
    (void)place;
    world_agent *a = self;
    letter head;
    memcpy(&head, bytes.ptr, sizeof head);
    char path[WORLD_TEXT_MAX];
    (void)snprintf(path, sizeof path, "%.*s", (int)head.path_len, bytes.ptr + sizeof head);
    answer(a, from, head.number, path,
           tide_view_bytes(bytes.ptr + sizeof head + head.path_len, (size_t)head.body_len), false);
}

/* Those who wait are answered when there is news, or when their time is over. */
static void look_at_parked(world_agent *a)
{
    for (int i = 0; i < WORLD_PARKED && a->disk; i++) {
        parked *p = &a->parked[i];
        if (!p->is_used || (!a->is_news && sim_now_us(a->w->sim) < p->until_us))
            continue;
        p->is_used = false;
        tide_buffer request = p->request;
        tide_buffer_init(&p->request, 0);
        answer(a, p->from, p->number, "/WatchStreams", tide_buffer_view(&request),
               sim_now_us(a->w->sim) >= p->until_us);
        tide_buffer_done(&request);
    }
}

static int64_t step(void *self, sim *place)
{
    world_agent *a = self;
    tide_env *env = sim_env(place, a->id);
    const int64_t now_us = sim_now_us(place);
    if (!a->rig.feed)
        return env->mono_us(env) + SIM_SECOND_US;
    if (now_us >= a->next_put_us && !world_is_calm(a->w)) {
        put_some(a);
        a->next_put_us = now_us + (int64_t)prng_below(sim_chance(place), 2 * PUT_EVERY_US);
        if (go_down_when_cut(a))
            return SIM_IDLE;
    }
    if (world_happens(a->w, 8)) {
        int64_t next_us = 0;
        tide_error err;
        TIDE_IGNORE(tide_feed_step(a->rig.feed, &next_us, &err));
        if (go_down_when_cut(a))
            return SIM_IDLE;
    }
    if (world_is_calm(a->w))
        fault_vfs_power_cut_at(a->disk, FAULT_VFS_ANY, 0);
    look_at_parked(a);
    a->is_news = false;
    return env->mono_us(env) + (world_is_calm(a->w) ? SIM_SECOND_US : PUT_EVERY_US / 3);
}

/* ---- life ---- */

void world_agent_init(world_agent *a, world *w, int index)
{
    tide_error err;
    *a = (world_agent){.w = w, .index = index};
    (void)snprintf(a->rig.name, sizeof a->rig.name, "a%d", index);
    assert_ok_err(tempdir_make(&a->rig.dir, &err), &err);
    assert_ok_err(tempdir_make(&a->scratch, &err), &err);
    assert_ok_err(tempdir_make(&a->backup, &err), &err);
    tempdir_join(&a->rig.dir, "agent.db", a->rig.path);
    forget_twin(a);
    a->rig.feed_options = (tide_feed_options){TIDE_FEED_OPTIONS_INIT, .reserve_bytes = -1,
                                              .keep_us = w->keep_us, .hard_us = 2 * w->keep_us};
    a->id = sim_add(w->sim, &(sim_actor){.name = a->rig.name,
                                         .self = a,
                                         .step = step,
                                         .receive = receive,
                                         .crash = crash,
                                         .restart = restart});
    a->rig.env = sim_env(w->sim, a->id);
    copy_file(world_agent_template((int)(a - w->agents)), a->rig.path);
    a->disk = fault_vfs_new(a->rig.dir.path, prng_u64(sim_chance(w->sim)));
    a->rig.vfs = fault_vfs_name(a->disk);
    rig_agent_open(&a->rig);
    arm_cut(a);
}

void world_agent_done(world_agent *a)
{
    drop_parked(a);
    tide_feed_closep(&a->rig.feed);
    tide_store_closep(&a->rig.store);
    fault_vfs_free(a->disk);
    TIDE_IGNORE(tempdir_remove(&a->rig.dir, NULL));
    TIDE_IGNORE(tempdir_remove(&a->scratch, NULL));
    TIDE_IGNORE(tempdir_remove(&a->backup, NULL));
    TIDE_IGNORE(tempdir_remove(&a->state, NULL));
}
