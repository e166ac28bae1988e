/* Random agents, honest but unlucky, and everything that may happen to them and to us: after every step the ledger holds its
 * invariants (settle_fixture.h), and in the end every record that the agent still has is stored, or in a gap record that says why not. */
#include "colony/settle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/settle_fixture.h"
#include "feed/record.h"
#include "support/check.h"
#include "support/prng.h"

enum {
    SEEDS = 300,
    SEEDS_SOAK = 2000,
    STEPS = 400,
    HEAD_MAX = 3000,
    EPOCHS_MAX = 60,
    WORLDS_MAX = 8, /* sessions that may come back */
    ATTEMPT_MAX = 3,
};

typedef enum number_state {
    NOTHING,
    PRESENT,
    BROKEN,
    YOUNG,
    VOIDED,
    DAMAGED,
    EXPIRED
} number_state;

/* What an agent's disk holds. */
typedef struct world {
    char session[16];
    bool is_foreign;
    bool is_forked; /* put back unnoticed, and nobody has told it yet */
    struct {
        int64_t epoch;
        int64_t first;
        char id[24];
        const char *reason;
    } epochs[EPOCHS_MAX];
    int epoch_count;
    int64_t head;
    int64_t floor;
    unsigned char states[HEAD_MAX + 2];
    int64_t uids[HEAD_MAX + 2];
    tide_digest128 chain[HEAD_MAX + 2];
} world;

typedef struct run {
    prng p;
    ledger ledger;
    world now;
    world backup; /* of the same session; session "": none */
    world left[WORLDS_MAX];
    int left_count;
    int sessions;
    int64_t next_uid;
    int64_t next_epoch_id;
    char refusal[256]; /* the last one */
    bool
        may_repeat; /* a fork that could not be told exactly: rows may be read twice, in two epochs */
} run;

static run R;

/* ---- the agent ---- */

/* An agent that was put back unnoticed and then has evidence of something else would be believed too much (settle.h): the one thing that
 * is left out here. */
static void raise_epoch(world *w, int64_t epoch, const char *reason)
{
    if (w->epoch_count == EPOCHS_MAX)
        return;
    if (w->is_forked && strcmp(reason, "diverged") != 0)
        reason = "operator";
    const int at = w->epoch_count++;
    w->epochs[at].epoch = epoch;
    w->epochs[at].first = w->head + 1;
    w->epochs[at].reason = reason;
    (void)snprintf(w->epochs[at].id, sizeof w->epochs[at].id, "e%lld",
                   (long long)++R.next_epoch_id);
}

static int64_t get_epoch(const world *w)
{
    return w->epochs[w->epoch_count - 1].epoch;
}

static void begin_world(void)
{
    world *w = &R.now;
    memset(w, 0, sizeof *w);
    (void)snprintf(w->session, sizeof w->session, "s%d", ++R.sessions);
    w->is_foreign = prng_chance(&R.p, 1, 3);
    raise_epoch(w, 1, "created");
    memset(&R.backup, 0, sizeof R.backup);
    /* Some were there long before us. */
    if (prng_chance(&R.p, 1, 4)) {
        w->head = w->floor = (int64_t)prng_below(&R.p, 50);
        for (int64_t seq = 1; seq <= w->head; seq++)
            w->states[seq] = EXPIRED;
    }
}

static void chain_one(world *w, int64_t seq)
{
    w->chain[seq] = w->chain[seq - 1];
    if (w->states[seq] != PRESENT)
        return;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 1024);
    record_bytes(&bytes, seq, w->uids[seq]);
    w->chain[seq] = tide_record_chain(w->chain[seq - 1], tide_buffer_view(&bytes));
}

static void write_one(world *w)
{
    if (w->head >= HEAD_MAX)
        return;
    const int64_t seq = ++w->head;
    w->uids[seq] = ++R.next_uid;
    w->states[seq] = PRESENT;
    if (w->is_foreign && prng_chance(&R.p, 1, 5))
        w->states[seq] = YOUNG;
    else if (w->is_foreign && prng_chance(&R.p, 1, 30))
        w->states[seq] = BROKEN;
    else if (!w->is_foreign && prng_chance(&R.p, 1, 30))
        w->states[seq] = VOIDED;
    chain_one(w, seq);
}

/* Transactions that were under way end, some by a rollback. */
static void commit_young(world *w, uint64_t of)
{
    for (int64_t seq = w->floor + 1; seq <= w->head; seq++)
        if (w->states[seq] == YOUNG && prng_chance(&R.p, 1, of))
            w->states[seq] = prng_chance(&R.p, 1, 4) ? VOIDED : PRESENT;
}

static void expire(world *w)
{
    const int64_t room = w->head - w->floor;
    const int64_t count = room > 0 ? (int64_t)prng_below(&R.p, (uint64_t)room) / 2 : 0;
    for (int64_t i = 0; i < count && w->states[w->floor + 1] != YOUNG; i++)
        w->states[++w->floor] = EXPIRED;
}

static void damage(world *w)
{
    if (w->head == w->floor || w->is_foreign)
        return;
    const int64_t first = w->floor + 1 + (int64_t)prng_below(&R.p, (uint64_t)(w->head - w->floor));
    for (int64_t seq = first; seq <= w->head && seq < first + 5; seq++)
        w->states[seq] = DAMAGED;
}

/* ---- its answers ---- */

static int64_t epoch_of(const world *w, int64_t seq)
{
    int64_t epoch = w->epochs[0].epoch;
    for (int i = 0; i < w->epoch_count && w->epochs[i].first <= seq; i++)
        epoch = w->epochs[i].epoch;
    return epoch;
}

static tide_feed_standing judge(world *w, const tide_ask *asked, int64_t *matched)
{
    *matched = 0;
    if (strcmp(asked->session_id, w->session) != 0)
        return TIDE_FEED_STANDING_NONE;
    /* Who has settled numbers that were never given, or read an epoch that never was, comes from another history. */
    bool has_differed =
        asked->epoch > get_epoch(w) || (asked->epoch > 0 && asked->start_seq > w->head);
    for (int i = 0; i < w->epoch_count; i++)
        has_differed = has_differed || (w->epochs[i].epoch == asked->epoch && *asked->epoch_id &&
                                        strcmp(w->epochs[i].id, asked->epoch_id) != 0);
    int64_t shown = 0;
    *matched = 0;
    for (int i = asked->point_count - 1; i >= 0 && *matched == 0; i--) {
        const tide_feed_point *point = &asked->points[i];
        shown = point->epoch > shown ? point->epoch : shown;
        const bool is_known = point->seq > w->floor && point->seq <= w->head;
        if (point->seq > w->head || point->epoch > get_epoch(w) ||
            point->epoch < epoch_of(w, point->seq) ||
            (is_known &&
             memcmp(point->digest, w->chain[point->seq].bytes, sizeof point->digest) != 0))
            has_differed = true;
        else if (is_known)
            *matched = point->seq;
    }
    if (!has_differed)
        return asked->point_count > 0 ? TIDE_FEED_STANDING_OK : TIDE_FEED_STANDING_NONE;
    /* No evidence of its own, and somebody has read another history: a new epoch, above any that was shown. */
    if (get_epoch(w) <= asked->epoch || get_epoch(w) <= shown)
        raise_epoch(w, (asked->epoch > shown ? asked->epoch : shown) + 1, "diverged");
    w->is_forked = false;
    return TIDE_FEED_STANDING_DIVERGED;
}

static void answer_numbers(answer *a, const world *w, const tide_ask *asked, int64_t *scanned)
{
    const int64_t last = asked->last_seq > 0 && asked->last_seq < w->head && !w->is_foreign
                             ? asked->last_seq
                             : w->head;
    int64_t records = 0;
    *scanned = asked->start_seq < w->head ? asked->start_seq : w->head;
    for (int64_t seq = asked->start_seq + 1; seq <= last && records < asked->max_records; seq++) {
        const number_state kind = (number_state)w->states[seq];
        *scanned = seq;
        records += kind == PRESENT || kind == BROKEN;
        if (kind == PRESENT && w->is_foreign)
            answer_foreign(a, seq, w->uids[seq]);
        else if (kind == PRESENT)
            answer_record(a, seq, w->uids[seq]);
        else if (kind == BROKEN)
            answer_dead(a, seq);
        else if (kind == EXPIRED && !w->is_foreign && a->state.len < ANSWER_MAX / 2)
            answer_hole(a, seq, seq, "expired");
        else if (kind == DAMAGED)
            answer_hole(a, seq, seq, "damaged");
        if (a->state.len > 20000) /* holes: the page ends */
            break;
    }
}

static void answer_ask(answer *a, world *w, const tide_ask *asked)
{
    answer_begin(a, w->session);
    int64_t scanned = 0;
    int64_t matched = 0;
    if (w->is_foreign) {
        answer_numbers(a, w, asked, &scanned);
        return;
    }
    const tide_feed_standing standing = judge(w, asked, &matched);
    answer_numbers(a, w, asked, &scanned);
    answer_state(a, get_epoch(w), w->floor + 1, scanned, w->head);
    const bool tells_epochs = asked->epoch != get_epoch(w) ||
                              standing == TIDE_FEED_STANDING_DIVERGED || prng_chance(&R.p, 1, 5);
    for (int i = tells_epochs ? 0 : w->epoch_count - 1; i < w->epoch_count; i++)
        answer_epoch(a, w->epochs[i].epoch, w->epochs[i].first, w->epochs[i].id,
                     w->epochs[i].reason);
    answer_number(a, 11, standing);
    answer_number(a, 12, (uint64_t)matched);
    if (scanned > 0)
        answer_chain(a, w->chain[scanned].bytes);
}

/* ---- the colony ---- */

static tide_ask ask_from(const tide_position *at, int64_t start)
{
    return (tide_ask){.type = tide_colony_type_of(TIDE_STREAM_TELEMETRY),
                      .data_type = "telemetry",
                      .start_seq = start,
                      .max_records = 1 + (int64_t)prng_below(&R.p, 60),
                      .session_id = at->session_id,
                      .epoch = at->epoch,
                      .epoch_id = prng_chance(&R.p, 1, 2) ? at->epoch_id : "",
                      .points = at->points,
                      .point_count = at->point_count};
}

/* The closed position of this session with the highest epoch; NULL: it is new. */
static const tide_position *find_left(const char *session)
{
    const tide_position *found = NULL;
    for (int i = 0; i < R.ledger.source_count; i++) {
        const tide_position *p = &R.ledger.sources[i].position;
        if (strcmp(p->session_id, session) == 0 && (!found || p->epoch > found->epoch))
            found = p;
    }
    return found;
}

static tide_status settle_reply(const tide_ask *asked, const tide_reply *reply, tide_error *err)
{
    const tide_position *at = ledger_at(&R.ledger);
    const tide_position *left = find_left(reply->session_id);
    if (*at->session_id == '\0' || strcmp(at->session_id, reply->session_id) == 0 || !left)
        return ledger_settle(&R.ledger, asked, reply, err);
    tide_change change;
    R.ledger.may_go_back = true;
    const tide_status status = tide_settle_return(&change, at, left, reply, R.ledger.now_us, err);
    if (status == TIDE_OK)
        ledger_apply(&R.ledger, &change);
    return status;
}

static tide_status poll_from(int64_t start)
{
    const tide_position *at = ledger_at(&R.ledger);
    const tide_ask asked = ask_from(at, start);
    answer a;
    answer_ask(&a, &R.now, &asked);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    tide_error err = {.text = ""};
    assert_ok_err(answer_read(&a, &reply, &err), &err);
    if (reply.standing == TIDE_FEED_STANDING_DIVERGED)
        R.may_repeat = true;
    const tide_status status = settle_reply(&asked, &reply, &err);
    answer_done(&a);
    if (status < TIDE_OK) {
        assert_status_err(TIDE_E_CONFLICT, status, &err); /* held, asked again: nothing else */
        (void)snprintf(R.refusal, sizeof R.refusal, "%.250s", err.text);
    }
    return status;
}

static void poll_somewhere(void)
{
    const tide_position *at = ledger_at(&R.ledger);
    const int64_t highest = tide_cursor_highest(&at->cursor);
    int64_t start = at->last_seq;
    if (prng_chance(&R.p, 1, 6))
        start = highest;
    else if (prng_chance(&R.p, 1, 8))
        start = (int64_t)prng_below(&R.p, (uint64_t)highest + 1);
    (void)poll_from(start);
}

static void recover_one(tide_gap gap)
{
    const tide_position *at = &ledger_source(&R.ledger, gap.source_id)->position;
    if (gap.status == TIDE_GAP_RECOVERED)
        return;
    tide_change change;
    tide_error err = {.text = ""};
    if (prng_chance(&R.p, 1, 6)) {
        assert_ok_err(tide_settle_miss(&change, at, &gap, "away", ATTEMPT_MAX, INT64_C(20) * SECOND,
                                       R.ledger.now_us, &err),
                      &err);
        ledger_apply(&R.ledger, &change);
        return;
    }
    tide_ask asked = ask_from(at, gap.start_seq - 1);
    asked.last_seq = gap.end_seq;
    if (R.now.is_foreign && gap.attempts >= ATTEMPT_MAX - 1)
        asked.start_seq = gap.start_seq > 5 ? gap.start_seq - 5 : 0;
    answer a;
    answer_ask(&a, &R.now, &asked);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {.len = 0};
    assert_ok_err(answer_read(&a, &reply, &err), &err);
    const tide_status status =
        tide_settle_gap(&change, at, &gap, &asked, &reply, ATTEMPT_MAX, R.ledger.now_us, &err);
    if (status == TIDE_OK)
        ledger_apply(&R.ledger, &change);
    else
        assert_status_err(TIDE_E_CONFLICT, status, &err);
    answer_done(&a);
}

static void recover_any(void)
{
    if (R.ledger.gap_count > 0)
        recover_one(R.ledger.gaps[prng_below(&R.p, (uint64_t)R.ledger.gap_count)]);
}

static void move_by_hand(void)
{
    const tide_position *at = ledger_at(&R.ledger);
    if (*at->session_id == '\0')
        return;
    tide_change change;
    tide_error err;
    const int64_t seq = (int64_t)prng_below(&R.p, (uint64_t)at->head + 1);
    const tide_status status = tide_settle_move(&change, at, seq, R.ledger.now_us, &err);
    R.ledger.may_go_back = true;
    assert_true(status == TIDE_OK || status == TIDE_NONE);
    if (status == TIDE_OK)
        ledger_apply(&R.ledger, &change);
}

static void turn_gap_by_hand(void)
{
    if (R.ledger.gap_count == 0)
        return;
    const tide_gap gap = R.ledger.gaps[prng_below(&R.p, (uint64_t)R.ledger.gap_count)];
    const tide_position *at = &ledger_source(&R.ledger, gap.source_id)->position;
    tide_change change;
    tide_error err;
    const tide_status status =
        prng_chance(&R.p, 1, 2)
            ? tide_settle_retry(&change, at, &gap, R.ledger.now_us, &err)
            : tide_settle_accept(&change, at, &gap, "by hand", R.ledger.now_us, &err);
    if (status == TIDE_OK)
        ledger_apply(&R.ledger, &change);
    else
        assert_true(status == TIDE_NONE || gap.status == TIDE_GAP_RECOVERED);
}

/* ---- what happens to agents ---- */

static void wipe(void)
{
    if (R.sessions > 30)
        return;
    commit_young(&R.now, 1); /* nothing is under way on a disk that nobody uses */
    if (R.left_count < WORLDS_MAX)
        R.left[R.left_count++] = R.now;
    begin_world();
}

static void bring_back(void)
{
    if (R.left_count == 0)
        return;
    commit_young(&R.now, 1);
    const int at = (int)prng_below(&R.p, (uint64_t)R.left_count);
    const world other = R.left[at];
    R.left[at] = R.now;
    R.now = other;
    memset(&R.backup, 0, sizeof R.backup);
}

static void restore(void)
{
    if (R.now.is_foreign) /* nobody could tell */
        return;
    if (strcmp(R.backup.session, R.now.session) != 0) {
        R.backup = R.now;
        return;
    }
    R.now = R.backup;
    if (prng_chance(&R.p, 1, 2)) /* noticed, or not */
        raise_epoch(&R.now, get_epoch(&R.now) + 1, "restored");
    else
        R.now.is_forked = true;
}

static void learn(void)
{
    commit_young(&R.now, 1);
    for (int64_t seq = 1; seq <= R.now.head; seq++)
        if (R.now.states[seq] == BROKEN)
            return; /* their bytes are in no chain of this model */
    for (int64_t seq = 1; seq <= R.now.head && R.now.is_foreign; seq++)
        chain_one(&R.now, seq);
    R.now.is_foreign = false;
}

static void step(void)
{
    const uint64_t dice = prng_below(&R.p, 100);
    R.ledger.now_us += (int64_t)prng_below(&R.p, 4 * SECOND);
    R.ledger.mono_us += (int64_t)prng_below(&R.p, 4 * SECOND);
    if (dice < 30)
        for (uint64_t i = prng_below(&R.p, 12); i > 0; i--)
            write_one(&R.now);
    else if (dice < 70)
        poll_somewhere();
    else if (dice < 80)
        recover_any();
    else if (dice < 84)
        commit_young(&R.now, 2);
    else if (dice < 87)
        expire(&R.now);
    else if (dice < 89)
        damage(&R.now);
    else if (dice < 92)
        move_by_hand();
    else if (dice < 94)
        turn_gap_by_hand();
    else if (dice < 96)
        restore();
    else if (dice < 97)
        wipe();
    else if (dice < 98)
        bring_back();
    else if (dice < 99)
        raise_epoch(&R.now, get_epoch(&R.now) + 1, "copied");
    else
        learn();
}

/* ---- the end: everything is read, and everything that is there is accounted for ---- */

static void drain(void)
{
    commit_young(&R.now, 1);
    for (int i = 0; i < 4000; i++) {
        R.ledger.mono_us += INT64_C(6) * SECOND;
        const tide_position *at = ledger_at(&R.ledger);
        const int64_t version = at->version;
        const int64_t source_id = at->source_id;
        const tide_status status = poll_from(at->last_seq);
        at = ledger_at(&R.ledger);
        const bool is_still = at->version == version && at->source_id == source_id;
        if (status == TIDE_NONE && is_still && at->held_count == 0 &&
            at->last_seq == tide_cursor_highest(&at->cursor))
            return;
    }
    fail_msg("it never comes to the end: last %lld of %lld; %s",
             (long long)ledger_at(&R.ledger)->last_seq, (long long)R.now.head, R.refusal);
}

/* Of which position a number is: of the latest epoch that had begun by then. NULL: it was before our time. */
static const source *find_owner(int64_t seq)
{
    const source *owner = NULL;
    for (int i = 0; i < R.ledger.source_count; i++) {
        const source *src = &R.ledger.sources[i];
        if (strcmp(src->position.session_id, R.now.session) == 0 && src->position.first <= seq &&
            (!owner || src->position.epoch > owner->position.epoch))
            owner = src;
    }
    return owner;
}

static const tide_gap *find_gap(const source *owner, int64_t seq)
{
    for (int i = 0; i < R.ledger.gap_count; i++) {
        const tide_gap *gap = &R.ledger.gaps[i];
        if (gap->source_id == owner->position.source_id && gap->status != TIDE_GAP_RECOVERED &&
            gap->start_seq <= seq && gap->end_seq >= seq)
            return gap;
    }
    return NULL;
}

/* What the agent still has is stored, or a gap record says why not; and an agent with state lost nothing that it has. */
static void check_record(int64_t seq)
{
    const source *owner = find_owner(seq);
    if (!owner || owner->fates[seq] == DEAD ||
        (owner->fates[seq] == STORED && owner->uids[seq] == R.now.uids[seq]))
        return;
    const tide_gap *gap = find_gap(owner, seq);
    if (!gap)
        fail_msg("record %lld is there, was skipped, and nothing says why", (long long)seq);
    else if (strcmp(gap->reason, "rolled back") == 0)
        fail_msg("record %lld is there and was taken for void", (long long)seq);
}

static void check_everything_is_there(void)
{
    for (int64_t seq = 1; seq <= R.now.head; seq++) {
        int stored = 0;
        for (int i = 0; i < R.ledger.source_count; i++)
            stored += R.ledger.sources[i].fates[seq] == STORED &&
                      R.ledger.sources[i].uids[seq] == R.now.uids[seq];
        if (stored > 1 && !R.may_repeat)
            fail_msg("record %lld is stored %d times", (long long)seq, stored);
        if (R.now.states[seq] == PRESENT)
            check_record(seq);
    }
}

static void play(uint64_t seed)
{
    memset(&R, 0, sizeof R);
    prng_init(&R.p, seed);
    ledger_init(&R.ledger);
    R.ledger.grace_us = INT64_C(5) * SECOND;
    begin_world();
    for (int i = 0; i < STEPS; i++)
        step();
    drain();
    check_everything_is_there();
    ledger_done(&R.ledger);
}

/* Ledgers balance after every step, no number is stored twice, no cursor goes
 * back, nothing is skipped without a reason. */
static void ledgers_balance_whatever_happens(void **state)
{
    (void)state;
    uint64_t count = is_soak() ? SEEDS_SOAK : SEEDS;
    const uint64_t first = prng_first_of(&count, 20261115);
    for (uint64_t i = 0; i < count; i++) {
        prng_print_seed(first + i);
        play(first + i);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ledgers_balance_whatever_happens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
