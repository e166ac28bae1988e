#include "fleet_shard.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fleet_events.h"

#define SECOND FLEET_SECOND
#define NEVER INT64_MAX

enum {
    PAGE_ROWS_MAX = 10000,
    WORKERS = 16,    /* pages of one colony under way */
    CLAIM_MAX = 256, /* agents that a colony takes or gives up in one turn */
    CLAIM_EVERY_US = 100000,
    NETWORK_US = 500, /* to the agent and back, to the database and back */
    LEASE_S = 15,
    AWAY_S = 20, /* the database */
    CUT_S = 30,  /* an agent */
};

typedef fleet_options options;
typedef fleet_window window;

/* ---- chance ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double next_share(uint64_t *state) /* above 0, at most 1 */
{
    return ((double)(next_random(state) >> 11) + 1) / 9007199254740992.0;
}

/* ---- what is counted ---- */

static void count_lag(window *w, int64_t lag_us)
{
    const double tenths = lag_us > 1000 ? 10 * log2((double)lag_us / 1000) : 0;
    const int bucket = tenths < FLEET_BUCKETS - 1 ? (int)tenths : FLEET_BUCKETS - 1;
    w->lags[bucket]++;
    w->lag_max_us = lag_us > w->lag_max_us ? lag_us : w->lag_max_us;
}

/* ---- a shard ---- */

typedef enum agent_state {
    IDLE,  /* nothing to read */
    READY, /* in its colony's queue */
    ASKED, /* a page is under way */
} agent_state;

typedef struct agent {
    double rate;        /* records per microsecond */
    int64_t settled_us; /* everything that came until then is stored */
    int64_t first_us;   /* when the oldest unread record came; NEVER: there is none yet */
    int64_t page_us;    /* until when the page under way reaches */
    int64_t cut_us;     /* cut off until then */
    double rest;        /* of a record, that the last page left */
    int64_t page_rows;
    uint32_t turn;  /* raised when it changes hands: what was under way counts no more */
    int16_t colony; /* -1: nobody's */
    uint8_t state;
} agent;

/* An agent that waits for a worker; one whose turn is over has changed hands. */
typedef struct waiting {
    int32_t who;
    uint32_t turn;
} waiting;

typedef struct colony {
    int64_t cores[FLEET_CORES_MAX]; /* when each is free */
    waiting *queue;                 /* a ring of ready agents */
    int64_t first, len, max;
    int busy; /* workers */
    int64_t held;
    bool is_up;
} colony;

typedef struct shard {
    const options *given;
    agent *agents;
    int64_t count;
    colony colonies[FLEET_COLONIES_MAX];
    int64_t database[FLEET_CORES_MAX];
    fleet_events events;
    uint64_t random;
    int64_t now_us;
    int64_t orphans_at_us; /* when agents of the dead may be taken */
    int64_t nobodys;
    int64_t stored;
    uint64_t history; /* digest of everything that happened */
    window *windows;
} shard;

static void push(shard *s, fleet_event event)
{
    fleet_events_push(&s->events, event);
}

static void note(shard *s, int64_t what)
{
    s->history = (s->history ^ (uint64_t)what) * UINT64_C(0x100000001b3);
}

static window *window_of(shard *s)
{
    const int64_t index = s->now_us / (FLEET_WINDOW_S * SECOND);
    return &s->windows[index < FLEET_WINDOWS_MAX ? index : FLEET_WINDOWS_MAX - 1];
}

/* Take the core that is free first, from `from` on; when it is done. */
static int64_t use_core(int64_t *cores, int count, int64_t from, double us)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        best = cores[i] < cores[best] ? i : best;
    const int64_t begin = cores[best] > from ? cores[best] : from;
    return cores[best] = begin + (int64_t)us;
}

/* ---- pages ---- */

static void expect_record(shard *s, int32_t who)
{
    agent *a = &s->agents[who];
    const double missing = (1 - a->rest) / a->rate; /* until a whole record is there */
    const double wait_us = missing * -log(next_share(&s->random));
    a->state = IDLE;
    a->first_us = NEVER;
    push(s, (fleet_event){.at_us = s->now_us + 1 + (int64_t)wait_us,
                          .kind = FLEET_ARRIVED,
                          .who = who,
                          .turn = a->turn});
}

static void grow(colony *c)
{
    const int64_t max = c->max ? 2 * c->max : 1024;
    waiting *queue = malloc((size_t)max * sizeof *queue);
    assert(queue);
    for (int64_t i = 0; i < c->len; i++)
        queue[i] = c->queue[(c->first + i) % c->max];
    free(c->queue);
    c->queue = queue;
    c->max = max;
    c->first = 0;
}

static void line_up(shard *s, int32_t who)
{
    agent *a = &s->agents[who];
    colony *c = &s->colonies[a->colony];
    a->state = READY;
    if (c->len == c->max)
        grow(c);
    c->queue[(c->first + c->len++) % c->max] = (waiting){.who = who, .turn = a->turn};
}

static void ask(shard *s, int32_t who)
{
    agent *a = &s->agents[who];
    colony *c = &s->colonies[a->colony];
    const options *o = s->given;
    const double came = a->rest + (double)(s->now_us - a->settled_us) * a->rate;
    const int64_t rows = came < 1 ? 1 : came > PAGE_ROWS_MAX ? PAGE_ROWS_MAX : (int64_t)came;
    a->state = ASKED;
    a->page_rows = rows;
    a->page_us = came > PAGE_ROWS_MAX
                     ? a->settled_us + (int64_t)((PAGE_ROWS_MAX - a->rest) / a->rate)
                     : s->now_us;
    const double colony_us = o->colony_page_us + o->colony_row_us * (double)rows;
    const double database_us = o->database_page_us + o->database_row_us * (double)rows;
    const int64_t asked_us = use_core(c->cores, o->colony_cores, s->now_us, colony_us);
    const int64_t done_us =
        use_core(s->database, o->database_cores, asked_us + NETWORK_US, database_us);
    c->busy++;
    window_of(s)->colony_us += colony_us;
    window_of(s)->database_us += database_us;
    push(s, (fleet_event){
                .at_us = done_us + NETWORK_US, .kind = FLEET_STORED, .who = who, .turn = a->turn});
}

static void serve_queue(shard *s, int index)
{
    colony *c = &s->colonies[index];
    while (c->is_up && c->busy < WORKERS && c->len > 0) {
        const waiting next = c->queue[c->first];
        c->first = (c->first + 1) % c->max;
        c->len--;
        if (s->agents[next.who].turn == next.turn)
            ask(s, next.who);
    }
}

static void on_arrived(shard *s, const fleet_event *e)
{
    agent *a = &s->agents[e->who];
    if (a->turn != e->turn)
        return;
    a->first_us = a->first_us == NEVER ? s->now_us : a->first_us;
    if (a->cut_us > s->now_us) {
        push(s, (fleet_event){
                    .at_us = a->cut_us, .kind = FLEET_ARRIVED, .who = e->who, .turn = a->turn});
        return;
    }
    line_up(s, e->who);
    serve_queue(s, a->colony);
}

static void on_stored(shard *s, const fleet_event *e)
{
    agent *a = &s->agents[e->who];
    if (a->turn != e->turn)
        return; /* its colony lost it meanwhile: the store refused the page */
    window *w = window_of(s);
    const double reached = a->rest + (double)(a->page_us - a->settled_us) * a->rate;
    w->pages++;
    w->rows += a->page_rows;
    count_lag(w, s->now_us - a->first_us);
    s->stored += a->page_rows;
    a->rest = reached - (double)a->page_rows;
    a->settled_us = a->page_us;
    note(s, s->now_us ^ ((int64_t)e->who << 40) ^ a->page_rows);
    s->colonies[a->colony].busy--;
    expect_record(s, e->who);
    serve_queue(s, a->colony);
}

/* ---- leases ---- */

static void take(shard *s, int32_t who, int index)
{
    agent *a = &s->agents[who];
    a->colony = (int16_t)index;
    s->colonies[index].held++;
    s->nobodys--;
    if (a->first_us == NEVER)
        a->first_us = a->settled_us + (int64_t)((1 - a->rest) / a->rate);
    const int64_t at_us = a->first_us > s->now_us ? a->first_us : s->now_us;
    push(s, (fleet_event){.at_us = at_us, .kind = FLEET_ARRIVED, .who = who, .turn = a->turn});
}

static void give_up(shard *s, int32_t who)
{
    agent *a = &s->agents[who];
    colony *c = &s->colonies[a->colony];
    c->busy -= a->state == ASKED;
    c->held--;
    a->turn++;
    a->state = IDLE;
    a->colony = -1;
    s->nobodys++;
}

static int64_t share_of(const shard *s)
{
    int64_t live = 0;
    for (int i = 0; i < s->given->colonies; i++)
        live += s->colonies[i].is_up;
    return live > 0 ? (s->count + live - 1) / live : 0;
}

/* One turn of a colony's leases: at most CLAIM_MAX are given up, or taken. */
static void on_turn(shard *s, const fleet_event *e)
{
    colony *c = &s->colonies[e->who];
    const int64_t share = share_of(s);
    push(s, (fleet_event){.at_us = s->now_us + CLAIM_EVERY_US, .kind = FLEET_TURN, .who = e->who});
    if (!c->is_up)
        return;
    int moved = 0;
    for (int32_t who = 0; who < s->count && moved < CLAIM_MAX && c->held != share; who++) {
        if (c->held > share && s->agents[who].colony == e->who) {
            give_up(s, who);
            moved++;
        } else if (c->held < share && s->nobodys == 0) {
            break;
        } else if (c->held < share && s->agents[who].colony < 0 && s->now_us >= s->orphans_at_us) {
            take(s, who, e->who);
            moved++;
        }
    }
    window *w = window_of(s);
    w->nobodys_max = s->nobodys > w->nobodys_max ? s->nobodys : w->nobodys_max;
}

/* ---- what breaks ---- */

static void on_kill(shard *s, int index)
{
    for (int32_t who = 0; who < s->count; who++)
        if (s->agents[who].colony == index)
            give_up(s, who);
    free(s->colonies[index].queue);
    s->colonies[index] = (colony){.is_up = false};
    s->orphans_at_us = s->now_us + LEASE_S * SECOND;
}

static void on_cut(shard *s, int32_t who)
{
    s->agents[who].cut_us = s->now_us + CUT_S * SECOND;
    const int32_t other = (int32_t)(next_random(&s->random) % (uint64_t)s->count);
    /* In ten minutes one agent of fifty is cut off once. */
    const double every_us = 600.0 * 50 * (double)SECOND / (double)s->count;
    push(s,
         (fleet_event){.at_us = s->now_us + 1 + (int64_t)(every_us * -log(next_share(&s->random))),
                       .kind = FLEET_CUT,
                       .who = other});
}

static void on_event(shard *s, const fleet_event *e)
{
    switch (e->kind) {
    case FLEET_ARRIVED:
        on_arrived(s, e);
        break;
    case FLEET_STORED:
        on_stored(s, e);
        break;
    case FLEET_TURN:
        on_turn(s, e);
        break;
    case FLEET_KILL:
        on_kill(s, e->who);
        break;
    case FLEET_REVIVE:
        s->colonies[e->who].is_up = true;
        break;
    case FLEET_AWAY:
        for (int i = 0; i < s->given->database_cores; i++)
            s->database[i] = s->now_us + AWAY_S * SECOND;
        break;
    case FLEET_CUT:
        on_cut(s, e->who);
        break;
    }
}

/* ---- a run ---- */

/* Eight of ten agents are quiet (a quarter of the mean), two are busy (four times it). */
static double rate_of(shard *s)
{
    const double mean = s->given->rate / (double)SECOND;
    return next_share(&s->random) <= 0.8 ? mean / 4 : mean * 4;
}

static void begin(shard *s, const options *o, int index, window *windows)
{
    *s = (shard){.given = o, .windows = windows, .random = o->seed * 1000003 + (uint64_t)index};
    s->count = o->agents / o->shards + (index < o->agents % o->shards);
    s->agents = calloc((size_t)s->count, sizeof *s->agents);
    assert(s->agents);
    for (int i = 0; i < o->colonies; i++) {
        s->colonies[i].is_up = true;
        push(s, (fleet_event){
                    .at_us = (i + 1) * CLAIM_EVERY_US / o->colonies, .kind = FLEET_TURN, .who = i});
    }
    for (int32_t who = 0; who < s->count; who++) {
        s->agents[who].rate = rate_of(s);
        s->agents[who].colony = (int16_t)(who % o->colonies);
        s->colonies[who % o->colonies].held++;
        expect_record(s, who);
    }
    const int64_t third_us = o->seconds * SECOND / 3;
    if (o->colonies > 1) {
        push(s, (fleet_event){.at_us = third_us, .kind = FLEET_KILL, .who = 0});
        push(s, (fleet_event){.at_us = third_us + 40 * SECOND, .kind = FLEET_REVIVE, .who = 0});
    }
    push(s, (fleet_event){.at_us = 2 * third_us, .kind = FLEET_AWAY});
    push(s, (fleet_event){.at_us = 1, .kind = FLEET_CUT, .who = 0});
}

/* What came is stored or waits: counted from the agents, held against what pages have stored. */
static fleet_books close_books(const shard *s, int64_t end_us)
{
    fleet_books books = {.stored = s->stored, .history = s->history, .oldest_us = end_us};
    double read = 0;
    int64_t pending = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const agent *a = &s->agents[i];
        const int64_t since_us = a->settled_us + (int64_t)((1 - a->rest) / a->rate);
        books.oldest_us = since_us < books.oldest_us ? since_us : books.oldest_us;
        read += a->rate * (double)a->settled_us - a->rest;
        pending += (int64_t)(a->rest + a->rate * (double)(end_us - a->settled_us));
    }
    books.came = s->stored + pending;
    books.unexplained = llabs(llround(read) - s->stored);
    return books;
}

fleet_books fleet_shard_run(const fleet_options *given, int index,
                            fleet_window windows[FLEET_WINDOWS_MAX])
{
    shard s;
    const int64_t end_us = given->seconds * SECOND;
    begin(&s, given, index, windows);
    while (s.events.len > 0 && s.events.heap[0].at_us < end_us) {
        const fleet_event e = fleet_events_pop(&s.events);
        s.now_us = e.at_us;
        on_event(&s, &e);
    }
    const fleet_books books = close_books(&s, end_us);
    for (int i = 0; i < given->colonies; i++)
        free(s.colonies[i].queue);
    fleet_events_done(&s.events);
    free(s.agents);
    return books;
}
