/* A simulated world: producers append through a bad network to a source that loses power; readers follow. Every
 * append is acknowledged in the end, exactly one row each, numbers without gaps, and no reader believes to have
 * what it has not. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/append/source.h"
#include "support/check.h"

enum {
    READERS = 2,
    SEEDS = 100,
    SOAK_SEEDS = 2500,
    WINDOW = 2, /* appends under way at once, of one producer */
    RETRY_US = 300000,
    POLL_US = 250000,
    EVENTS_MAX = 200000,
};

#define CALM_FROM_US (INT64_C(12) * SIM_SECOND_US)
#define END_US (INT64_C(30) * SIM_SECOND_US)

typedef struct world world;

typedef struct producer {
    world *w;
    sim_id id;
    int64_t index;
    int64_t acked[APPEND_EACH + 1]; /* the number, -1: acknowledged without one; 0: not yet */
} producer;

typedef struct reader {
    world *w;
    sim_id id;
    int64_t epoch;
    tide_cursor cursor;
    append_row have[APPEND_ROWS_MAX + 1]; /* by number; seq_id 0: not received */
} reader;

struct world {
    sim *sim;
    append_source source;
    producer producers[APPEND_PRODUCERS];
    reader readers[READERS];
    append_row rows[APPEND_ROWS_MAX]; /* of the source, as last read */
    int row_count;
};

/* ---- producers ---- */

static bool is_acked(const producer *p, int64_t n)
{
    return p->acked[n] != 0;
}

static int64_t produce(void *self, sim *place)
{
    producer *p = self;
    int under_way = 0;
    for (int64_t n = 1; n <= APPEND_EACH && under_way < WINDOW; n++) {
        if (is_acked(p, n))
            continue;
        const message m = {.kind = MESSAGE_APPEND, .row = {.writer = p->index, .n = n}};
        sim_send(place, p->id, p->w->source.id, tide_view_bytes(&m, sizeof m));
        under_way++;
    }
    tide_env *env = sim_env(place, p->id);
    return under_way > 0 ? env->mono_us(env) + RETRY_US : SIM_IDLE;
}

static void take_ack(void *self, sim *place, sim_id from, tide_view bytes)
{
    (void)from;
    producer *p = self;
    message m;
    memcpy(&m, bytes.ptr, sizeof m);
    const int64_t seq_id = m.row.seq_id != 0 ? m.row.seq_id : -1;
    int64_t *acked = &p->acked[m.row.n];
    if (*acked != 0 && *acked != seq_id)
        sim_fail(place, "p%" PRId64 " %" PRId64 " was acknowledged as %" PRId64 " and as %" PRId64,
                 p->index, m.row.n, *acked, seq_id);
    *acked = seq_id;
}

/* ---- readers ---- */

static void forget(reader *r, int64_t epoch)
{
    tide_cursor_done(&r->cursor);
    tide_cursor_init(&r->cursor, 0, APPEND_ROWS_MAX);
    memset(r->have, 0, sizeof r->have);
    r->epoch = epoch;
}

/* Asks for the next page and, at the same time, for the one behind it: answers come in any order, and leave holes
 * when one is lost. */
static int64_t poll_source(void *self, sim *place)
{
    reader *r = self;
    const int64_t at = tide_cursor_contiguous(&r->cursor);
    for (int64_t ahead = 0; ahead <= APPEND_PAGE; ahead += APPEND_PAGE) {
        const message m = {.kind = MESSAGE_POLL, .after = at + ahead};
        sim_send(place, r->id, r->w->source.id, tide_view_bytes(&m, sizeof m));
    }
    tide_env *env = sim_env(place, r->id);
    return env->mono_us(env) + POLL_US;
}

static void take_page(void *self, sim *place, sim_id from, tide_view bytes)
{
    (void)from;
    reader *r = self;
    message m;
    memcpy(&m, bytes.ptr, sizeof m);
    if (m.epoch < r->epoch)
        return; /* late, from a history that has ended */
    if (m.epoch > r->epoch)
        forget(r, m.epoch);
    for (int64_t i = 0; i < m.count; i++) {
        const append_row *row = &m.rows[i];
        append_row *mine = &r->have[row->seq_id];
        if (mine->seq_id != 0 && (mine->writer != row->writer || mine->n != row->n))
            sim_fail(place, "number %" PRId64 " changed hands within epoch %" PRId64, row->seq_id,
                     r->epoch);
        *mine = *row;
        tide_error err;
        if (tide_cursor_add(&r->cursor, row->seq_id, row->seq_id, NULL, &err) < TIDE_OK)
            sim_fail(place, "cursor: %s", err.text);
    }
}

static void lose_memory(void *self, sim *place, sim_crash how)
{
    (void)place;
    (void)how;
    forget(self, 0);
}

/* ---- what must hold after every event ---- */

static const append_row *find_row(const append_row *rows, int count, int64_t writer, int64_t n)
{
    for (int i = 0; i < count; i++)
        if (rows[i].writer == writer && rows[i].n % APPEND_AGAIN == n)
            return &rows[i];
    return NULL;
}

static bool check_acks(const producer *p, const append_row *rows, int count, char why[SIM_WHY_MAX])
{
    for (int64_t n = 1; n <= APPEND_EACH; n++) {
        if (!is_acked(p, n))
            continue;
        const append_row *row = find_row(rows, count, p->index, n);
        if (row && (p->acked[n] == -1 || row->seq_id == p->acked[n]))
            continue;
        (void)snprintf(why, SIM_WHY_MAX,
                       "p%" PRId64 " %" PRId64 " was acknowledged as %" PRId64 " and is %s",
                       p->index, n, p->acked[n], row ? "under another number" : "not there");
        return false;
    }
    return true;
}

static bool check_table(const append_row *rows, int count, char why[SIM_WHY_MAX])
{
    bool is_there[APPEND_PRODUCERS][APPEND_EACH + 1] = {{false}};
    for (int i = 0; i < count; i++) {
        bool *once = &is_there[rows[i].writer][rows[i].n % APPEND_AGAIN];
        if (rows[i].seq_id != i + 1 || *once) {
            (void)snprintf(why, SIM_WHY_MAX, "row %d has number %" PRId64 "%s", i + 1,
                           rows[i].seq_id, *once ? " and repeats an earlier one" : "");
            return false;
        }
        *once = true;
    }
    return true;
}

static bool source_keeps_its_promises(void *arg, const sim *place, char why[SIM_WHY_MAX])
{
    (void)place;
    world *w = arg;
    if (w->source.is_dirty)
        w->row_count = append_source_read(&w->source, w->rows);
    if (w->row_count < 0)
        return true; /* down: judged when it is back */
    if (!check_table(w->rows, w->row_count, why))
        return false;
    for (int i = 0; i < APPEND_PRODUCERS; i++)
        if (!check_acks(&w->producers[i], w->rows, w->row_count, why))
            return false;
    return true;
}

static bool readers_have_what_they_count(void *arg, const sim *place, char why[SIM_WHY_MAX])
{
    (void)place;
    const world *w = arg;
    for (int i = 0; i < READERS; i++) {
        const reader *r = &w->readers[i];
        for (int64_t n = 1; n <= tide_cursor_contiguous(&r->cursor); n++)
            if (r->have[n].seq_id != n) {
                (void)snprintf(why, SIM_WHY_MAX,
                               "reader %d counts %" PRId64 " and has not received it", i, n);
                return false;
            }
    }
    return true;
}

static bool readers_agree(void *arg, const sim *place, char why[SIM_WHY_MAX])
{
    (void)place;
    const world *w = arg;
    const reader *a = &w->readers[0];
    const reader *b = &w->readers[1];
    for (int n = 1; a->epoch == b->epoch && n <= APPEND_ROWS_MAX; n++)
        if (a->have[n].seq_id != 0 && b->have[n].seq_id != 0 &&
            (a->have[n].writer != b->have[n].writer || a->have[n].n != b->have[n].n)) {
            (void)snprintf(why, SIM_WHY_MAX, "two readers saw different rows as number %d", n);
            return false;
        }
    return true;
}

/* ---- one run ---- */

static void build(world *w, uint64_t seed, bool is_quiet, source_planted_fault planted)
{
    static const sim_faults faults = {
        .delay_min_us = 1000,
        .delay_max_us = 150000,
        .loss_ppm = 100000,
        .duplicate_ppm = 100000,
        .reorder_ppm = 200000,
        .cut_every_us = 3000000,
        .cut_max_us = 2000000,
        .cut_one_way_ppm = 500000,
        .crash_every_us = 5000000,
        .crash_after_ppm = 5000,
        .down_max_us = 2000000,
        .power_ppm = 600000,
        .calm_from_us = CALM_FROM_US,
    };
    w->sim = sim_new("append", seed);
    if (is_quiet)
        sim_set_report(w->sim, NULL);
    sim_set_faults(w->sim, &faults);
    append_source_init(&w->source, w->sim, planted, CALM_FROM_US);
    for (int i = 0; i < APPEND_PRODUCERS; i++) {
        producer *p = &w->producers[i];
        *p = (producer){.w = w, .index = i};
        p->id = sim_add(
            w->sim,
            &(sim_actor){.name = "producer", .self = p, .step = produce, .receive = take_ack});
    }
    for (int i = 0; i < READERS; i++) {
        reader *r = &w->readers[i];
        r->w = w;
        forget(r, 0);
        r->id = sim_add(w->sim, &(sim_actor){.name = "reader",
                                             .self = r,
                                             .step = poll_source,
                                             .receive = take_page,
                                             .crash = lose_memory});
    }
    sim_set_clock(w->sim, w->source.id, -3600 * INT64_C(1000000), 50);
    sim_invariant(w->sim, "the source keeps its promises", source_keeps_its_promises, w);
    sim_invariant(w->sim, "a reader has what it counts", readers_have_what_they_count, w);
    sim_invariant(w->sim, "readers agree", readers_agree, w);
}

static void expect_all_done(world *w)
{
    for (int i = 0; i < APPEND_PRODUCERS; i++)
        for (int64_t n = 1; n <= APPEND_EACH; n++)
            (void)sim_expect(w->sim, is_acked(&w->producers[i], n),
                             "p%d %" PRId64 " is acknowledged in the end", i, n);
    for (int i = 0; i < READERS; i++) {
        const int64_t at = tide_cursor_contiguous(&w->readers[i].cursor);
        (void)sim_expect(w->sim, at == APPEND_TOTAL, "reader %d is at the end, not at %" PRId64, i,
                         at);
    }
}

typedef struct tally {
    source_planted_fault planted;
    uint64_t runs;
    uint64_t crashes;
    uint64_t epochs;
    uint64_t hash;
    char failure[SIM_WHY_MAX]; /* of the last run; "" */
} tally;

static bool run_world(uint64_t seed, bool is_quiet, void *arg)
{
    tally *t = arg;
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    build(w, seed, is_quiet, t->planted);
    if (sim_run(w->sim, END_US, EVENTS_MAX))
        expect_all_done(w);
    const bool is_held = sim_failure(w->sim) == NULL;
    t->runs++;
    t->crashes += sim_crash_count(w->sim);
    t->epochs += (uint64_t)w->source.epoch;
    t->hash = sim_trace_hash(w->sim);
    (void)snprintf(t->failure, sizeof t->failure, "%s", is_held ? "" : sim_failure(w->sim));
    for (int i = 0; i < READERS; i++)
        tide_cursor_done(&w->readers[i].cursor);
    append_source_done(&w->source);
    sim_free(w->sim);
    free(w);
    return is_held;
}

/* ---- cases ---- */

static void every_append_ends_as_one_row_that_all_readers_have(void **state)
{
    (void)state;
    tally t = {.planted = SOURCE_NO_FAULT};
    assert_true(sim_seeds("append", is_soak() ? SOAK_SEEDS : SEEDS, run_world, &t));
    print_message("%" PRIu64 " worlds, %" PRIu64 " crashes, %" PRIu64 " epochs\n", t.runs,
                  t.crashes, t.epochs);
}

/* One seed, one history: a failure can be repeated. */
static void a_seed_repeats_its_history(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        tally first = {.planted = SOURCE_NO_FAULT};
        tally second = {.planted = SOURCE_NO_FAULT};
        (void)run_world(seed, true, &first);
        (void)run_world(seed, true, &second);
        assert_true(first.hash == second.hash);
    }
}

/* The invariants can see: an answer before the commit is a promise that a power cut breaks. */
static void answering_before_the_commit_is_found_out(void **state)
{
    (void)state;
    uint64_t seed = 0;
    tally t = {.planted = SOURCE_HASTY};
    assert_true(sim_find_failure(1, SEEDS, run_world, &t, &seed));
    print_message("seed %" PRIu64 ": %s\n", seed, t.failure);
    assert_contains(t.failure, "not there");
}

/* Knowing duplicates from memory, and not in the transaction that adds the row, adds one twice. */
static void remembering_outside_the_transaction_is_found_out(void **state)
{
    (void)state;
    uint64_t seed = 0;
    tally t = {.planted = SOURCE_FORGETFUL};
    assert_true(sim_find_failure(1, SEEDS, run_world, &t, &seed));
    print_message("seed %" PRIu64 ": %s\n", seed, t.failure);
    assert_contains(t.failure, "repeats an earlier one");
}

TEST_FILE()
{
    /* The disk is a model that syncs nothing; files that cost nothing make it quick. */
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_append_ends_as_one_row_that_all_readers_have),
        cmocka_unit_test(a_seed_repeats_its_history),
        cmocka_unit_test(answering_before_the_commit_is_found_out),
        cmocka_unit_test(remembering_outside_the_transaction_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
