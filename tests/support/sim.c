#include "support/sim.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "support/virtual_env.h"

typedef enum event_kind {
    EVENT_WAKE,
    EVENT_DELIVER,
    EVENT_CRASH_SOMEBODY,
    EVENT_RESTART,
    EVENT_CUT_SOMEBODY,
    EVENT_CALM,
} event_kind;

typedef struct event {
    int64_t at_us;
    uint64_t order; /* of scheduling: decides between events of the same time */
    event_kind kind;
    sim_id to;
    sim_id from;
    uint64_t generation; /* of the wake or the life it belongs to; older ones are stale */
    char *bytes;
    size_t len;
} event;

/* An actor's view of the machine: the true time seen through a wrong clock. */
typedef struct actor_env {
    tide_env env; /* first: a tide_env * given out is also an actor_env * */
    const sim *world;
    int64_t wall_offset_us;
    int64_t drift_ppm;
    int64_t booted_us;     /* true time at which its boot clock read 0 */
    int64_t busy_until_us; /* true time to which it has slept inside a step */
    char boot_id[TIDE_BOOT_ID_SIZE];
    prng random;
} actor_env;

typedef struct actor {
    sim_actor does;
    actor_env machine;
    bool is_up;
    uint64_t life;      /* rises with each crash */
    uint64_t wake;      /* rises with each new wake time */
    int64_t wake_at_us; /* true time of the wake that counts */
} actor;

typedef struct invariant {
    const char *name;
    sim_invariant_fn holds;
    void *arg;
} invariant;

struct sim {
    const char *name;
    uint64_t seed;
    int64_t now_us;
    sim_faults faults;
    bool has_begun;
    actor actors[SIM_ACTORS_MAX];
    int actors_len;
    invariant invariants[SIM_INVARIANTS_MAX];
    int invariants_len;
    int64_t cut_until_us[SIM_ACTORS_MAX][SIM_ACTORS_MAX];
    int64_t last_arrival_us[SIM_ACTORS_MAX][SIM_ACTORS_MAX];
    prng network; /* one generator per purpose: a change in one does not stir up the others */
    prng trouble;
    prng chance;
    event *heap; /* a binary heap, the next event at 0 */
    size_t heap_len;
    size_t heap_capacity;
    uint64_t order;
    uint64_t event_count;
    uint64_t crash_count;
    char trace[SIM_TRACE_KEPT][SIM_TRACE_LINE_MAX];
    uint64_t trace_len;
    uint64_t trace_hash;
    char failure[SIM_WHY_MAX + 128];
    FILE *report;
};

/* ---- trace ---- */

static void hash_bytes(sim *world, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++) /* FNV-1a */
        world->trace_hash = (world->trace_hash ^ at[i]) * UINT64_C(0x100000001b3);
}

void sim_trace(sim *world, const char *format, ...)
{
    char *line = world->trace[world->trace_len % SIM_TRACE_KEPT];
    const int head = snprintf(line, SIM_TRACE_LINE_MAX, "%6" PRId64 ".%06" PRId64 "  ",
                              world->now_us / SIM_SECOND_US, world->now_us % SIM_SECOND_US);
    va_list args;
    va_start(args, format);
    vsnprintf(line + head, (size_t)(SIM_TRACE_LINE_MAX - head), format, args);
    va_end(args);
    world->trace_len++;
    hash_bytes(world, line, strlen(line) + 1);
}

void sim_print_trace(const sim *world, FILE *out)
{
    const uint64_t skipped =
        world->trace_len > SIM_TRACE_KEPT ? world->trace_len - SIM_TRACE_KEPT : 0;
    if (skipped > 0)
        fprintf(out, "  ... %" PRIu64 " lines before\n", skipped);
    for (uint64_t i = skipped; i < world->trace_len; i++)
        fprintf(out, "  %s\n", world->trace[i % SIM_TRACE_KEPT]);
}

void sim_fail(sim *world, const char *format, ...)
{
    if (world->failure[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(world->failure, sizeof(world->failure), format, args);
    va_end(args);
    sim_trace(world, "FAILED %s", world->failure);
}

static void print_failure(const sim *world)
{
    if (world->report == NULL)
        return;
    fprintf(world->report, "simulation '%s', seed %" PRIu64 ", event %" PRIu64 ": %s\n",
            world->name, world->seed, world->event_count, world->failure);
    sim_print_trace(world, world->report);
    fprintf(world->report, "  replay: TIDEMARK_SEED=%" PRIu64 " %s\n", world->seed,
            program_invocation_name);
    fflush(world->report);
}

bool sim_expect(sim *world, bool holds, const char *format, ...)
{
    if (holds || world->failure[0] != '\0')
        return world->failure[0] == '\0';
    char words[SIM_WHY_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    sim_fail(world, "at the end: %s", words);
    print_failure(world);
    return false;
}

static const char *name_of(const sim *world, sim_id id)
{
    assert(id >= 0 && id < world->actors_len);
    return world->actors[id].does.name;
}

/* ---- the events to come ---- */

static bool is_before(const event *a, const event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap_events(event *a, event *b)
{
    const event kept = *a;
    *a = *b;
    *b = kept;
}

static void schedule(sim *world, event e)
{
    if (world->heap_len == SIM_EVENTS_MAX) {
        free(e.bytes);
        sim_fail(world, "more than %d events are waiting", SIM_EVENTS_MAX);
        return;
    }
    if (world->heap_len == world->heap_capacity) {
        world->heap_capacity = world->heap_capacity == 0 ? 64 : 2 * world->heap_capacity;
        world->heap = reallocarray(world->heap, world->heap_capacity, sizeof(event));
        assert(world->heap != NULL);
    }
    e.order = world->order++;
    if (e.at_us < world->now_us)
        e.at_us = world->now_us;
    size_t at = world->heap_len++;
    world->heap[at] = e;
    for (; at > 0 && is_before(&world->heap[at], &world->heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap_events(&world->heap[at], &world->heap[(at - 1) / 2]);
}

static event take_next(sim *world)
{
    assert(world->heap_len > 0);
    const event next = world->heap[0];
    world->heap[0] = world->heap[--world->heap_len];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < world->heap_len; child++)
            if (is_before(&world->heap[child], &world->heap[least]))
                least = child;
        if (least == at)
            return next;
        swap_events(&world->heap[at], &world->heap[least]);
        at = least;
    }
}

/* Evenly between 1 and twice the mean, so the mean is what was asked for. */
static int64_t draw_interval(sim *world, int64_t mean_us)
{
    return 1 + (int64_t)prng_below(&world->trouble, (uint64_t)mean_us * 2);
}

static int64_t draw_up_to(prng *random, int64_t max_us)
{
    return max_us <= 0 ? 0 : (int64_t)prng_below(random, (uint64_t)max_us + 1);
}

static bool is_calm(const sim *world)
{
    return world->faults.calm_from_us > 0 && world->now_us >= world->faults.calm_from_us;
}

/* ---- clocks ---- */

/* us * ppm / 10^6 without overflow for any time a run can reach. */
static int64_t scale_ppm(int64_t us, int64_t ppm)
{
    return us / SIM_PPM * ppm + us % SIM_PPM * ppm / SIM_PPM;
}

static int64_t to_local(const actor_env *m, int64_t true_us)
{
    const int64_t up_us = true_us - m->booted_us;
    return up_us + scale_ppm(up_us, m->drift_ppm);
}

/* The first true time at which the actor's clock shows local_us or more. */
static int64_t to_true(const actor_env *m, int64_t local_us)
{
    if (local_us <= 0)
        return m->booted_us;
    if (local_us >= INT64_MAX / 4)
        return INT64_MAX;
    /* Close by, then exact: a local microsecond is between half and twice a true one. */
    const int64_t slowdown_ppm = m->drift_ppm * SIM_PPM / (SIM_PPM + m->drift_ppm);
    int64_t at_us = m->booted_us + local_us - scale_ppm(local_us, slowdown_ppm);
    while (to_local(m, at_us) < local_us)
        at_us += 1 + (local_us - to_local(m, at_us)) / 2;
    while (to_local(m, at_us - 1) >= local_us)
        at_us -= 1 + (to_local(m, at_us - 1) - local_us) / 2;
    return at_us;
}

/* An actor that has slept inside its step is ahead of the world. */
static int64_t true_now(const actor_env *m)
{
    return m->busy_until_us > m->world->now_us ? m->busy_until_us : m->world->now_us;
}

static int64_t read_uptime(tide_env *env)
{
    const actor_env *m = (const actor_env *)env;
    return to_local(m, true_now(m));
}

static int64_t read_wall(tide_env *env)
{
    const actor_env *m = (const actor_env *)env;
    const int64_t now_us = true_now(m);
    return VIRTUAL_ENV_WALL_US + now_us + scale_ppm(now_us, m->drift_ppm) + m->wall_offset_us;
}

static void read_boot_id(tide_env *env, char out[TIDE_BOOT_ID_SIZE])
{
    memcpy(out, ((const actor_env *)env)->boot_id, TIDE_BOOT_ID_SIZE);
}

static void draw_random(tide_env *env, void *out, size_t len)
{
    prng_fill(&((actor_env *)env)->random, out, len);
}

static void sleep_ahead(tide_env *env, int64_t us)
{
    actor_env *m = (actor_env *)env;
    const int64_t now_us = true_now(m);
    if (us > 0)
        m->busy_until_us = to_true(m, to_local(m, now_us) + us);
}

/* ---- actors ---- */

static void set_wake(sim *world, sim_id id, int64_t true_us)
{
    actor *a = &world->actors[id];
    a->wake++;
    a->wake_at_us = true_us;
    if (true_us == INT64_MAX)
        return;
    schedule(world, (event){.at_us = true_us, .kind = EVENT_WAKE, .to = id, .generation = a->wake});
}

void sim_wake(sim *world, sim_id id)
{
    assert(id >= 0 && id < world->actors_len);
    if (world->actors[id].is_up && world->actors[id].wake_at_us > world->now_us)
        set_wake(world, id, world->now_us);
}

static void step_actor(sim *world, sim_id id)
{
    actor *a = &world->actors[id];
    const uint64_t life = a->life;
    sim_trace(world, "%s steps", a->does.name);
    a->wake_at_us = SIM_IDLE;
    const int64_t next_us = a->does.step(a->does.self, world);
    if (!a->is_up || a->life != life) /* it brought about its own crash */
        return;
    const int64_t at_us = next_us == SIM_IDLE ? SIM_IDLE : to_true(&a->machine, next_us);
    if (at_us < a->wake_at_us)
        set_wake(world, id, at_us);
}

static void restart_actor(sim *world, sim_id id)
{
    actor *a = &world->actors[id];
    sim_trace(world, "%s restarts", a->does.name);
    a->is_up = true;
    if (a->does.restart != NULL)
        a->does.restart(a->does.self, world);
    if (a->is_up)
        set_wake(world, id, world->now_us);
}

void sim_crash_now(sim *world, sim_id id, sim_crash how, int64_t down_us)
{
    assert(id >= 0 && id < world->actors_len);
    actor *a = &world->actors[id];
    assert(a->does.crash != NULL);
    if (!a->is_up)
        return;
    sim_trace(world, "%s crashes (%s) for %" PRId64 " us", a->does.name,
              how == SIM_CRASH_POWER ? "power" : "process", down_us);
    world->crash_count++;
    a->is_up = false;
    a->life++;
    a->wake++; /* its wakes are stale */
    a->wake_at_us = SIM_IDLE;
    a->machine.busy_until_us = 0;
    a->does.crash(a->does.self, world, how);
    const int64_t back_us = world->now_us + (down_us > 0 ? down_us : 0);
    if (how == SIM_CRASH_POWER) {
        a->machine.booted_us = back_us;
        virtual_env_make_boot_id(&a->machine.random, a->machine.boot_id);
    }
    schedule(world,
             (event){.at_us = back_us, .kind = EVENT_RESTART, .to = id, .generation = a->life});
}

/* ---- network ---- */

void sim_cut(sim *world, sim_id from, sim_id to, int64_t until_us)
{
    sim_trace(world, "link %s -> %s is cut until %" PRId64 " us", name_of(world, from),
              name_of(world, to), until_us);
    world->cut_until_us[from][to] = until_us;
}

static void put_on_wire(sim *world, sim_id from, sim_id to, tide_view message)
{
    const sim_faults *f = &world->faults;
    int64_t at_us = world->now_us + f->delay_min_us;
    at_us += draw_up_to(&world->network, f->delay_max_us - f->delay_min_us);
    const bool overtakes = !is_calm(world) && prng_chance(&world->network, f->reorder_ppm, SIM_PPM);
    if (!overtakes && at_us < world->last_arrival_us[from][to])
        at_us = world->last_arrival_us[from][to];
    if (at_us > world->last_arrival_us[from][to])
        world->last_arrival_us[from][to] = at_us;

    char *copy = malloc(message.len + 1);
    assert(copy != NULL);
    if (message.len > 0)
        memcpy(copy, message.ptr, message.len);
    schedule(world, (event){.at_us = at_us,
                            .kind = EVENT_DELIVER,
                            .to = to,
                            .from = from,
                            .bytes = copy,
                            .len = message.len});
}

void sim_send(sim *world, sim_id from, sim_id to, tide_view message)
{
    const char *const sender = name_of(world, from);
    const char *const receiver = name_of(world, to);
    hash_bytes(world, message.ptr, message.len);
    if (world->cut_until_us[from][to] > world->now_us) {
        sim_trace(world, "%s -> %s sends %zu bytes into a cut", sender, receiver, message.len);
        return;
    }
    if (!is_calm(world) && prng_chance(&world->network, world->faults.loss_ppm, SIM_PPM)) {
        sim_trace(world, "%s -> %s sends %zu bytes, lost", sender, receiver, message.len);
        return;
    }
    sim_trace(world, "%s -> %s sends %zu bytes", sender, receiver, message.len);
    put_on_wire(world, from, to, message);
    if (!is_calm(world) && prng_chance(&world->network, world->faults.duplicate_ppm, SIM_PPM)) {
        sim_trace(world, "%s -> %s the same again", sender, receiver);
        put_on_wire(world, from, to, message);
    }
}

static void deliver(sim *world, const event *e)
{
    const actor *a = &world->actors[e->to];
    const bool is_cut = world->cut_until_us[e->from][e->to] > world->now_us;
    if (is_cut || !a->is_up || a->does.receive == NULL) {
        sim_trace(world, "%s -> %s %zu bytes do not arrive: %s", name_of(world, e->from),
                  a->does.name, e->len, is_cut ? "cut" : "nobody there");
        return;
    }
    sim_trace(world, "%s -> %s %zu bytes arrive", name_of(world, e->from), a->does.name, e->len);
    a->does.receive(a->does.self, world, e->from, tide_view_bytes(e->bytes, e->len));
    sim_wake(world, e->to); /* an event of its own, so that a crash can come between */
}

/* ---- trouble ---- */

static void crash_by_chance(sim *world, sim_id id)
{
    const bool is_power = prng_chance(&world->trouble, world->faults.power_ppm, SIM_PPM);
    const int64_t down_us = draw_up_to(&world->trouble, world->faults.down_max_us);
    sim_crash_now(world, id, is_power ? SIM_CRASH_POWER : SIM_CRASH_PROCESS, down_us);
}

/* A timed crash hardly ever falls between two events of the same moment; this one does. */
static void maybe_crash_after(sim *world, sim_id id)
{
    if (world->actors[id].does.crash != NULL && world->actors[id].is_up && !is_calm(world) &&
        prng_chance(&world->trouble, world->faults.crash_after_ppm, SIM_PPM))
        crash_by_chance(world, id);
}

static void crash_somebody(sim *world)
{
    sim_id candidates[SIM_ACTORS_MAX];
    uint64_t len = 0;
    for (sim_id id = 0; id < world->actors_len; id++)
        if (world->actors[id].is_up && world->actors[id].does.crash != NULL)
            candidates[len++] = id;
    if (len > 0)
        crash_by_chance(world, candidates[prng_below(&world->trouble, len)]);
    schedule(world,
             (event){.at_us = world->now_us + draw_interval(world, world->faults.crash_every_us),
                     .kind = EVENT_CRASH_SOMEBODY});
}

static void cut_somebody(sim *world)
{
    if (world->actors_len >= 2) {
        const uint64_t len = (uint64_t)world->actors_len;
        const sim_id a = (sim_id)prng_below(&world->trouble, len);
        const sim_id b = (sim_id)(((uint64_t)a + 1 + prng_below(&world->trouble, len - 1)) % len);
        const int64_t until_us =
            world->now_us + draw_up_to(&world->trouble, world->faults.cut_max_us);
        sim_cut(world, a, b, until_us);
        if (!prng_chance(&world->trouble, world->faults.cut_one_way_ppm, SIM_PPM))
            sim_cut(world, b, a, until_us);
    }
    schedule(world,
             (event){.at_us = world->now_us + draw_interval(world, world->faults.cut_every_us),
                     .kind = EVENT_CUT_SOMEBODY});
}

static void calm_down(sim *world)
{
    sim_trace(world, "calm from here on");
    memset(world->cut_until_us, 0, sizeof(world->cut_until_us));
    for (sim_id id = 0; id < world->actors_len; id++)
        if (!world->actors[id].is_up) {
            world->actors[id].life++; /* the restart on its way is stale */
            if (world->actors[id].machine.booted_us > world->now_us)
                world->actors[id].machine.booted_us = world->now_us;
            restart_actor(world, id);
        }
}

/* ---- the run ---- */

static void begin(sim *world)
{
    world->has_begun = true;
    for (sim_id id = 0; id < world->actors_len; id++)
        set_wake(world, id, 0);
    if (world->faults.crash_every_us > 0)
        schedule(world, (event){.at_us = draw_interval(world, world->faults.crash_every_us),
                                .kind = EVENT_CRASH_SOMEBODY});
    if (world->faults.cut_every_us > 0)
        schedule(world, (event){.at_us = draw_interval(world, world->faults.cut_every_us),
                                .kind = EVENT_CUT_SOMEBODY});
    if (world->faults.calm_from_us > 0)
        schedule(world, (event){.at_us = world->faults.calm_from_us, .kind = EVENT_CALM});
}

static void happen(sim *world, const event *e)
{
    actor *a = &world->actors[e->to];
    switch (e->kind) {
    case EVENT_WAKE:
        if (a->is_up && e->generation == a->wake)
            step_actor(world, e->to);
        maybe_crash_after(world, e->to);
        break;
    case EVENT_DELIVER:
        deliver(world, e);
        maybe_crash_after(world, e->to);
        break;
    case EVENT_CRASH_SOMEBODY:
        if (!is_calm(world))
            crash_somebody(world);
        break;
    case EVENT_RESTART:
        if (!a->is_up && e->generation == a->life)
            restart_actor(world, e->to);
        break;
    case EVENT_CUT_SOMEBODY:
        if (!is_calm(world))
            cut_somebody(world);
        break;
    case EVENT_CALM:
        calm_down(world);
        break;
    }
}

/* What concerns an actor that is still asleep inside its step waits for it. */
static bool has_to_wait(const sim *world, const event *e)
{
    const bool is_for_actor = e->kind == EVENT_WAKE || e->kind == EVENT_DELIVER;
    return is_for_actor && world->actors[e->to].machine.busy_until_us > world->now_us;
}

static void check_invariants(sim *world)
{
    for (int i = 0; i < world->invariants_len && world->failure[0] == '\0'; i++) {
        char why[SIM_WHY_MAX] = "";
        if (!world->invariants[i].holds(world->invariants[i].arg, world, why))
            sim_fail(world, "invariant \"%s\" is broken: %s", world->invariants[i].name, why);
    }
}

bool sim_run(sim *world, int64_t until_us, uint64_t max_events)
{
    if (!world->has_begun)
        begin(world);
    uint64_t done = 0;
    while (world->failure[0] == '\0' && world->heap_len > 0 && world->heap[0].at_us <= until_us) {
        if (done++ == max_events) {
            sim_fail(world, "more than %" PRIu64 " events", max_events);
            break;
        }
        event e = take_next(world);
        world->now_us = e.at_us;
        if (has_to_wait(world, &e)) {
            e.at_us = world->actors[e.to].machine.busy_until_us;
            schedule(world, e);
            continue;
        }
        world->event_count++;
        happen(world, &e);
        free(e.bytes);
        check_invariants(world);
    }
    if (world->failure[0] != '\0') {
        print_failure(world);
        return false;
    }
    if (until_us != INT64_MAX && world->now_us < until_us)
        world->now_us = until_us;
    return true;
}

/* ---- building and asking ---- */

sim *sim_new(const char *name, uint64_t seed)
{
    sim *world = calloc(1, sizeof(*world));
    assert(world != NULL);
    world->name = name;
    world->seed = seed;
    world->report = stderr;
    world->trace_hash = UINT64_C(0xcbf29ce484222325);
    prng_init(&world->network, seed);
    prng_init(&world->trouble, prng_u64(&world->network));
    prng_init(&world->chance, prng_u64(&world->network));
    return world;
}

void sim_free(sim *world)
{
    if (world == NULL)
        return;
    for (size_t i = 0; i < world->heap_len; i++)
        free(world->heap[i].bytes);
    free(world->heap);
    free(world);
}

void sim_set_faults(sim *world, const sim_faults *faults)
{
    assert(!world->has_begun);
    assert(faults->delay_min_us >= 0 && faults->cut_every_us >= 0 && faults->crash_every_us >= 0);
    world->faults = *faults;
}

sim_id sim_add(sim *world, const sim_actor *does)
{
    assert(!world->has_begun && world->actors_len < SIM_ACTORS_MAX && does->step != NULL);
    const sim_id id = world->actors_len++;
    actor *a = &world->actors[id];
    *a = (actor){.does = *does, .is_up = true, .wake_at_us = SIM_IDLE};
    a->machine = (actor_env){.env = {.wall_us = read_wall,
                                     .mono_us = read_uptime,
                                     .boot_us = read_uptime,
                                     .boot_id = read_boot_id,
                                     .random = draw_random,
                                     .sleep_us = sleep_ahead},
                             .world = world};
    prng_init(&a->machine.random,
              world->seed ^ (UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(id + 1)));
    virtual_env_make_boot_id(&a->machine.random, a->machine.boot_id);
    return id;
}

void sim_invariant(sim *world, const char *name, sim_invariant_fn holds, void *arg)
{
    assert(world->invariants_len < SIM_INVARIANTS_MAX);
    world->invariants[world->invariants_len++] = (invariant){name, holds, arg};
}

void sim_set_clock(sim *world, sim_id id, int64_t wall_offset_us, int32_t drift_ppm)
{
    assert(!world->has_begun && id >= 0 && id < world->actors_len);
    assert(drift_ppm > -SIM_PPM / 2 && drift_ppm < SIM_PPM / 2);
    world->actors[id].machine.wall_offset_us = wall_offset_us;
    world->actors[id].machine.drift_ppm = drift_ppm;
}

void sim_set_report(sim *world, FILE *report)
{
    world->report = report;
}

tide_env *sim_env(sim *world, sim_id id)
{
    assert(id >= 0 && id < world->actors_len);
    return &world->actors[id].machine.env;
}

prng *sim_chance(sim *world)
{
    return &world->chance;
}

int64_t sim_now_us(const sim *world)
{
    return world->now_us;
}

bool sim_is_up(const sim *world, sim_id id)
{
    assert(id >= 0 && id < world->actors_len);
    return world->actors[id].is_up;
}

const char *sim_failure(const sim *world)
{
    return world->failure[0] != '\0' ? world->failure : NULL;
}

uint64_t sim_event_count(const sim *world)
{
    return world->event_count;
}

uint64_t sim_crash_count(const sim *world)
{
    return world->crash_count;
}

uint64_t sim_trace_hash(const sim *world)
{
    return world->trace_hash;
}

/* A number from the environment; a value that is none ends the program, a replay must not turn
 * into another run. */
static bool read_env_number(const char *name, uint64_t *out)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0')
        return false;
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0' || text[0] == '-') {
        fprintf(stderr, "%s='%s' is not a number\n", name, text);
        exit(2);
    }
    return true;
}

bool sim_seeds(uint64_t first, uint64_t count, sim_run_fn run, void *arg)
{
    read_env_number("TIDEMARK_SIM_SEEDS", &count);
    if (read_env_number("TIDEMARK_SEED", &first))
        count = 1;
    for (uint64_t i = 0; i < count; i++)
        if (!run(first + i, false, arg)) {
            fprintf(stderr, "seed %" PRIu64 " failed (number %" PRIu64 " of %" PRIu64 ")\n",
                    first + i, i + 1, count);
            return false;
        }
    return true;
}

bool sim_find_failure(uint64_t first, uint64_t count, sim_run_fn run, void *arg,
                      uint64_t *failing_seed)
{
    for (uint64_t i = 0; i < count; i++)
        if (!run(first + i, true, arg)) {
            *failing_seed = first + i;
            return true;
        }
    return false;
}
