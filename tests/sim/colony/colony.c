#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "crash/copying.h"
#include "sim/colony/world.h"

#define LEASE_US (INT64_C(2) * SIM_SECOND_US)
#define RECOVER_INTERVAL_US (INT64_C(5) * SIM_SECOND_US)

enum { CUT_CALLS = 500, DOWN_MAX_US = 3000000 };

/* ---- the machine ---- */

static tide_env *depot_env(const world *w)
{
    return sim_env(w->sim, w->depot.id);
}

static int64_t depot_mono(const world *w)
{
    tide_env *env = depot_env(w);
    return env->mono_us(env);
}

static void arm_trouble(world_depot *d)
{
    world *w = d->w;
    prng *chance = sim_chance(w->sim);
    if (world_happens(w, 3))
        fault_vfs_power_cut_at(d->disk,
                               prng_chance(chance, 1, 3) ? FAULT_VFS_SYNC : FAULT_VFS_WRITE,
                               1 + (int64_t)prng_below(chance, CUT_CALLS));
    else if (world_happens(w, 2))
        fault_vfs_fail(d->disk, (fault_vfs_fault){.on = FAULT_VFS_WRITE,
                                                  .nth = 1 + (int64_t)prng_below(chance, CUT_CALLS),
                                                  .is_short = true});
}

static bool depot_goes_down(world_depot *d)
{
    if (!d->disk || !fault_vfs_is_cut(d->disk))
        return false;
    d->w->tally.cut++;
    sim_crash_now(d->w->sim, d->id, SIM_CRASH_POWER,
                  (int64_t)prng_below(sim_chance(d->w->sim), DOWN_MAX_US));
    return true;
}

static void crash_depot(void *self, sim *place, sim_crash how)
{
    static const fault_vfs_survival survivals[] = {FAULT_VFS_KEEP_RANDOM, FAULT_VFS_KEEP_PREFIX,
                                                   FAULT_VFS_KEEP_NONE};
    world_depot *d = self;
    prng *chance = sim_chance(place);
    tide_error err;
    if (!fault_vfs_is_cut(d->disk))
        fault_vfs_power_cut(d->disk);
    for (int i = 0; i < d->w->colony_count; i++)
        world_colony_drop(&d->w->colonies[i]);
    fault_vfs_image(d->disk,
                    how == SIM_CRASH_POWER ? survivals[prng_below(chance, 3)] : FAULT_VFS_KEEP_ALL,
                    chance, d->scratch.path);
    fault_vfs_free(d->disk);
    d->disk = NULL;
    restore_image(&d->scratch, &d->dir, "colony.db");
    TIDE_IGNORE(tempdir_remove(&d->scratch, &err));
    assert_ok_err(tempdir_make(&d->scratch, &err), &err);
}

static void restart_depot(void *self, sim *place)
{
    world_depot *d = self;
    d->disk = fault_vfs_new(d->dir.path, prng_u64(sim_chance(place)));
    arm_trouble(d);
}

static int64_t step_depot(void *self, sim *place)
{
    world_depot *d = self;
    tide_env *env = sim_env(place, d->id);
    if (world_is_calm(d->w) && d->disk) {
        fault_vfs_power_cut_at(d->disk, FAULT_VFS_ANY, 0);
        fault_vfs_fail_off(d->disk);
    }
    return env->mono_us(env) + SIM_SECOND_US;
}

void world_depot_init(world_depot *d, world *w)
{
    tide_error err;
    *d = (world_depot){.w = w};
    assert_ok_err(tempdir_make(&d->dir, &err), &err);
    assert_ok_err(tempdir_make(&d->scratch, &err), &err);
    tempdir_join(&d->dir, "colony.db", d->path);
    d->id = sim_add(w->sim, &(sim_actor){.name = "depot",
                                         .self = d,
                                         .step = step_depot,
                                         .crash = crash_depot,
                                         .restart = restart_depot});
    copy_file(world_colony_template(), d->path);
    d->disk = fault_vfs_new(d->dir.path, prng_u64(sim_chance(w->sim)));
}

void world_depot_done(world_depot *d)
{
    fault_vfs_free(d->disk);
    TIDE_IGNORE(tempdir_remove(&d->dir, NULL));
    TIDE_IGNORE(tempdir_remove(&d->scratch, NULL));
}

/* ---- colonies ---- */

static void drop_poller(polled_agent *p)
{
    tide_poller_free(p->poller);
    *p = (polled_agent){.poller = NULL};
}

/* Killed: nobody gives the item back, its lease has to run out. */
static void abandon_recovery(world_colony *c)
{
    if (c->recovery)
        tide_recovery_abandon(c->recovery);
    c->recovery = NULL;
    c->recovery_asked.number = 0;
}

static void drop_recovery(world_colony *c)
{
    tide_recovery_free(c->recovery);
    c->recovery = NULL;
    c->recovery_asked.number = 0;
}

/* Its memory is gone. */
static void forget(world_colony *c)
{
    for (int i = 0; i < WORLD_AGENTS_MAX; i++)
        drop_poller(&c->agents[i]);
    if (c->recovery && prng_chance(sim_chance(c->w->sim), 1, 2))
        drop_recovery(c); /* told to stop: the item goes back */
    abandon_recovery(c);
    if (c->is_ready)
        tide_holding_done(&c->holding);
    c->is_ready = false;
}

void world_colony_drop(world_colony *c)
{
    forget(c);
    tide_sink_closep(&c->sink);
    tide_store_closep(&c->store);
}

/* ---- wrong ones ---- */

static struct {
    tide_sink_ops ops;
    const tide_sink_ops *real;
    uint64_t count;
} wrong;

static tide_status apply_losing(tide_sink *sink, tide_change *change, tide_error *err)
{
    if (change->row_count > 0 && ++wrong.count % 7 == 0)
        change->row_count--;
    return wrong.real->apply(sink, change, err);
}

static tide_status apply_skipping(tide_sink *sink, tide_change *change, tide_error *err)
{
    if (change->row_count > 0 && ++wrong.count % 7 == 0) {
        change->to.stored -= change->row_count;
        change->row_count = 0;
    }
    return wrong.real->apply(sink, change, err);
}

static void make_wrong(world_colony *c)
{
    if (c->w->planted == COLONY_NO_FAULT)
        return;
    wrong.real = c->sink->ops;
    wrong.ops = *c->sink->ops;
    wrong.ops.apply = c->w->planted == COLONY_LOSING ? apply_losing : apply_skipping;
    c->sink->ops = &wrong.ops;
}

/* ---- opening ---- */

static tide_status register_agents(world_colony *c, tide_error *err)
{
    for (int i = 0; i < c->w->agent_count; i++)
        TIDE_TRY(
            tide_registry_put(c->store, c->w->agents[i].rig.name, "localhost:1", "option", err));
    return TIDE_OK;
}

static tide_status open_store(world_colony *c, tide_error *err)
{
    const tide_store_options options = {
        TIDE_STORE_OPTIONS_INIT, .env = depot_env(c->w), .is_inline = true,
        .sqlite_vfs = fault_vfs_name(c->w->depot.disk), .state_dir = ""};
    TIDE_TRY(tide_store_open(&c->store, c->w->depot.path, &options, err));
    TIDE_TRY(tide_sink_open_sql(&c->sink, c->store, err));
    make_wrong(c);
    return register_agents(c, err);
}

/* A new process. Its connection is the one before's: opening is what a world takes its time for. */
static tide_status start_colony(world_colony *c, tide_error *err)
{
    char name[64];
    if (!c->sink)
        TIDE_TRY(open_store(c, err));
    (void)snprintf(name, sizeof name, "colony-%d-%" PRId64, c->index, ++c->starts);
    tide_holding_init(&c->holding, name, LEASE_US);
    c->is_ready = true;
    c->holding_us = 0;
    c->plan_us = 0;
    return TIDE_OK;
}

/* ---- what pollers tell ---- */

static void on_applied(void *arg, const tide_change *change)
{
    const world_colony *c = arg;
    world_note_change(c->w, change);
}

/* A seed repeats its history: the name of the temporary directory differs, and is left out. */
static const char *without_directory(const world_colony *c, const char *text)
{
    const size_t len = strlen(c->w->depot.dir.path);
    const char *at = strstr(text, c->w->depot.dir.path);
    return at ? at + len : text;
}

static void on_failed(void *arg, const char *agent_id, const char *data_type, tide_status status,
                      const char *text)
{
    const world_colony *c = arg;
    sim_trace(c->w->sim, "c%d: %s %s: %s: %s", c->index, agent_id, data_type,
              tide_status_get(status)->name, without_directory(c, text));
}

static tide_poller_events events_of(world_colony *c)
{
    return (tide_poller_events){
        .arg = c, .applied = on_applied, .failed = on_failed, .not_stored = on_failed};
}

/* ---- polling ---- */

static int64_t ask(world_colony *c, int agent, const tide_question *question, asked *out)
{
    const int64_t number = ++c->w->numbers;
    out->number = number;
    out->until_us = depot_mono(c->w) + question->timeout_us;
    world_send(c->w, c->id, c->w->agents[agent].id,
               (letter){.number = number, .path_len = (int64_t)strlen(question->path)},
               question->path, question->request);
    return out->until_us;
}

static void take(world_colony *c, polled_agent *p, tide_status status, tide_view body,
                 const char *text)
{
    tide_error err;
    p->asked.number = 0;
    p->wake_us = 0;
    if (tide_poller_take(p->poller, status, body, text, -1, &err) < TIDE_OK)
        sim_fail(c->w->sim, "a poller cannot go on: %s", err.text);
    c->w->tally.lost_leases += tide_poller_is_over(p->poller);
}

/* When it wants to run again. */
static int64_t run_poller(world_colony *c, int agent)
{
    polled_agent *p = &c->agents[agent];
    const int64_t now_us = depot_mono(c->w);
    tide_error err;
    if (p->asked.number != 0 && now_us < p->asked.until_us)
        return p->asked.until_us;
    if (p->asked.number != 0)
        take(c, p, TIDE_E_TIMEOUT, tide_view_of(NULL), "no answer in time");
    if (tide_poller_is_over(p->poller)) {
        drop_poller(p);
        return INT64_MAX;
    }
    tide_question question;
    const tide_status status = tide_poller_next(p->poller, &question, &p->wake_us, &err);
    if (status < TIDE_OK)
        sim_fail(c->w->sim, "a poller cannot ask: %s", err.text);
    return status == TIDE_OK ? ask(c, agent, &question, &p->asked) : p->wake_us;
}

static int find_agent(const world *w, const char *agent_id)
{
    for (int i = 0; i < w->agent_count; i++)
        if (strcmp(w->agents[i].rig.name, agent_id) == 0)
            return i;
    return -1;
}

static const tide_held_agent *find_held(const world_colony *c, int agent)
{
    for (int i = 0; i < c->holding.count; i++)
        if (find_agent(c->w, c->holding.agents[i].agent_id) == agent)
            return &c->holding.agents[i];
    return NULL;
}

/* One poller for each lease; a new token is a new poller. */
static void follow_holding(world_colony *c)
{
    const tide_poller_options options = {.sink = c->sink,
                                         .env = depot_env(c->w),
                                         .reader = "colony",
                                         .data_types = world_streams,
                                         .data_type_count = WORLD_STREAMS,
                                         .events = events_of(c)};
    const bool is_over = depot_mono(c->w) >= c->holding.until_us;
    for (int i = 0; i < c->w->agent_count; i++) {
        polled_agent *p = &c->agents[i];
        const tide_held_agent *held = is_over ? NULL : find_held(c, i);
        if (p->poller && (!held || held->token != p->token))
            drop_poller(p);
        if (!held || p->poller)
            continue;
        tide_error err;
        assert_ok_err(tide_poller_new(&p->poller, held, &options, &err), &err);
        p->token = held->token;
    }
}

/* ---- recovery ---- */

static tide_recover_options recover_options(world_colony *c)
{
    return (tide_recover_options){.sink = c->sink,
                                  .env = depot_env(c->w),
                                  .interval_us = RECOVER_INTERVAL_US,
                                  .events = events_of(c)};
}

static void end_recovery(world_colony *c, tide_status status, tide_view body, const char *text)
{
    tide_error err;
    tide_recovery *recovery = TIDE_TAKE(c->recovery);
    c->recovery_asked.number = 0;
    TIDE_IGNORE(tide_recover_take(recovery, status, body, text, &err));
}

static int64_t run_recovery(world_colony *c)
{
    const int64_t now_us = depot_mono(c->w);
    const tide_recover_options options = recover_options(c);
    tide_error err;
    if (c->recovery && now_us < c->recovery_asked.until_us)
        return c->recovery_asked.until_us;
    if (c->recovery)
        end_recovery(c, TIDE_E_TIMEOUT, tide_view_of(NULL), "no answer in time");
    if (now_us >= c->plan_us) {
        int64_t added = 0;
        int64_t next_us = RECOVER_INTERVAL_US;
        TIDE_IGNORE(tide_recover_plan(&options, &added, &next_us, &err));
        c->plan_us = now_us + next_us + SIM_SECOND_US;
    }
    if (tide_recover_begin(&c->recovery, &options, c->holding.colony_id, &err) != TIDE_OK)
        return c->plan_us;
    return ask(c, find_agent(c->w, tide_recovery_agent(c->recovery)),
               tide_recovery_question(c->recovery), &c->recovery_asked);
}

/* ---- the actor ---- */

static bool make_ready(world_colony *c)
{
    tide_error err;
    if (!c->w->depot.disk)
        return false;
    if (c->is_ready)
        return true;
    const tide_status status = start_colony(c, &err);
    if (status < TIDE_OK) {
        sim_trace(c->w->sim, "c%d cannot open: %s", c->index, without_directory(c, err.text));
        world_colony_drop(c);
    }
    return !depot_goes_down(&c->w->depot) && status >= TIDE_OK;
}

static void run_holding(world_colony *c)
{
    const int64_t now_us = depot_mono(c->w);
    tide_error err;
    if (now_us >= c->holding_us) {
        int64_t next_us = SIM_SECOND_US;
        const tide_status status = tide_holding_step(&c->holding, c->store, &next_us, &err);
        if (status < TIDE_OK)
            sim_trace(c->w->sim, "c%d: leases: %s", c->index, without_directory(c, err.text));
        c->holding_us = now_us + (status < TIDE_OK ? SIM_SECOND_US / 2 : next_us);
    }
    follow_holding(c);
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t step(void *self, sim *place)
{
    world_colony *c = self;
    tide_env *env = sim_env(place, c->id);
    if (!make_ready(c))
        return env->mono_us(env) + SIM_SECOND_US / 4;
    if (world_happens(c->w, 40)) /* stalled: its leases run out, and its answers wait */
        env->sleep_us(env, (int64_t)prng_below(sim_chance(place), 3 * LEASE_US));
    run_holding(c);
    int64_t wake_us = at_most(c->holding_us, depot_mono(c->w) + SIM_SECOND_US);
    for (int i = 0; i < c->w->agent_count && !fault_vfs_is_cut(c->w->depot.disk); i++)
        if (c->agents[i].poller)
            wake_us = at_most(wake_us, run_poller(c, i));
    if (!fault_vfs_is_cut(c->w->depot.disk))
        wake_us = at_most(wake_us, run_recovery(c));
    if (depot_goes_down(&c->w->depot))
        return env->mono_us(env) + SIM_SECOND_US / 4;
    const int64_t pause_us = wake_us - depot_mono(c->w);
    return env->mono_us(env) + (pause_us < 1000 ? 1000 : pause_us);
}

static void receive(void *self, sim *place, sim_id from, tide_view bytes)
{
    (void)place;
    (void)from;
    world_colony *c = self;
    letter head;
    memcpy(&head, bytes.ptr, sizeof head);
    char text[TIDE_ERROR_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%.*s", (int)head.text_len, bytes.ptr + sizeof head);
    const tide_view body =
        tide_view_bytes(bytes.ptr + sizeof head + head.text_len, (size_t)head.body_len);
    const tide_status status = (tide_status)head.status;
    for (int i = 0; i < WORLD_AGENTS_MAX; i++)
        if (c->agents[i].poller && c->agents[i].asked.number == head.number)
            take(c, &c->agents[i], status, body, status < TIDE_OK ? text : NULL);
    if (c->recovery && c->recovery_asked.number == head.number)
        end_recovery(c, status, body, status < TIDE_OK ? text : NULL);
    (void)depot_goes_down(&c->w->depot);
}

static void crash(void *self, sim *place, sim_crash how)
{
    (void)place;
    (void)how;
    forget(self);
}

static void restart(void *self, sim *place)
{
    (void)self;
    (void)place; /* opens in its next step */
}

void world_colony_init(world_colony *c, world *w, int index)
{
    static const char *const names[WORLD_COLONIES_MAX] = {"c0", "c1", "c2"};
    *c = (world_colony){.w = w, .index = index};
    c->id = sim_add(w->sim, &(sim_actor){.name = names[index],
                                         .self = c,
                                         .step = step,
                                         .receive = receive,
                                         .crash = crash,
                                         .restart = restart});
}
