#include "base/combiner.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cond_wait.h"
#include "base/lock.h"

typedef struct member {
    struct member *next;
    void *what;
    bool is_done;
    pthread_cond_t changed; /* done, or first of its line */
} member;

typedef struct line {
    struct line *next;
    int64_t key;
    member *first;
    member *last;
    int leaders;
    int inside; /* those who have not returned yet */
} line;

struct tide_combiner {
    pthread_mutex_t lock;
    line *lines;
    int batch_max;
    int leader_max;
    int64_t patience_us;
};

tide_combiner *tide_combiner_new(int batch_max, int leader_max, int64_t patience_us)
{
    assert(batch_max > 0 && batch_max <= TIDE_COMBINER_BATCH_MAX && leader_max > 0 &&
           patience_us >= 0);
    tide_combiner *combiner = calloc(1, sizeof *combiner);
    if (!combiner)
        return NULL;
    combiner->batch_max = batch_max;
    combiner->leader_max = leader_max;
    combiner->patience_us = patience_us;
    (void)pthread_mutex_init(&combiner->lock, NULL);
    return combiner;
}

void tide_combiner_free(tide_combiner *combiner)
{
    if (!combiner)
        return;
    assert(!combiner->lines && "a member is still inside");
    (void)pthread_mutex_destroy(&combiner->lock);
    free(combiner);
}

static line *find_line(tide_combiner *combiner, int64_t key)
{
    for (line *at = combiner->lines; at; at = at->next)
        if (at->key == key)
            return at;
    line *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return NULL;
    fresh->key = key;
    fresh->next = combiner->lines;
    combiner->lines = fresh;
    return fresh;
}

static void leave_line(tide_combiner *combiner, line *left)
{
    if (--left->inside > 0)
        return;
    for (line **at = &combiner->lines; *at; at = &(*at)->next) {
        if (*at == left) {
            *at = left->next;
            free(left);
            return;
        }
    }
}

static void wake_first(const tide_combiner *combiner, line *of)
{
    if (of->first && of->leaders < combiner->leader_max)
        (void)pthread_cond_signal(&of->first->changed);
}

struct tide_combiner_turn {
    tide_combiner *combiner;
    line *of;
    bool is_passed;
};

/* With the lock held. */
static void end_turn(tide_combiner_turn *turn)
{
    if (turn->is_passed)
        return;
    turn->is_passed = true;
    turn->of->leaders--;
    wake_first(turn->combiner, turn->of);
}

void tide_combiner_pass(tide_combiner_turn *turn)
{
    if (!turn)
        return;
    TIDE_HOLD(&turn->combiner->lock);
    end_turn(turn);
}

static int next_batch(const tide_combiner *combiner, line *from, member **batch)
{
    int count = 0;
    while (from->first && count < combiner->batch_max) {
        batch[count++] = from->first;
        from->first = from->first->next;
    }
    if (!from->first)
        from->last = NULL;
    return count;
}

/* With the lock held; given back with it. */
static void lead(tide_combiner *combiner, line *of, tide_combiner_fn *fn)
{
    member *batch[TIDE_COMBINER_BATCH_MAX];
    void *whats[TIDE_COMBINER_BATCH_MAX];
    const int count = next_batch(combiner, of, batch);
    of->leaders++;
    wake_first(combiner, of);
    (void)pthread_mutex_unlock(&combiner->lock);
    for (int i = 0; i < count; i++)
        whats[i] = batch[i]->what;
    tide_combiner_turn turn = {.combiner = combiner, .of = of};
    fn(&turn, whats, count);
    (void)pthread_mutex_lock(&combiner->lock);
    for (int i = 0; i < count; i++) {
        batch[i]->is_done = true;
        (void)pthread_cond_signal(&batch[i]->changed);
    }
    end_turn(&turn);
}

/* With the lock held: until this member is done, or the one to lead. */
static void wait_for_turn(tide_combiner *combiner, const line *mine, member *me)
{
    int64_t until_us = -1;
    bool is_patient = combiner->patience_us > 0;
    while (!me->is_done && (mine->first != me || mine->leaders >= combiner->leader_max ||
                            (mine->leaders > 0 && is_patient))) {
        const bool is_timed =
            is_patient && mine->leaders > 0 && mine->leaders < combiner->leader_max;
        if (is_timed && until_us < 0)
            until_us = tide_cond_until(combiner->patience_us);
        if (is_timed)
            is_patient = tide_cond_wait(&me->changed, &combiner->lock, until_us);
        else
            (void)pthread_cond_wait(&me->changed, &combiner->lock);
    }
}

void tide_combiner_do(tide_combiner *combiner, int64_t key, void *what, tide_combiner_fn *fn)
{
    (void)pthread_mutex_lock(&combiner->lock);
    line *mine = find_line(combiner, key);
    if (!mine) { /* no memory for a line: alone, then */
        (void)pthread_mutex_unlock(&combiner->lock);
        fn(NULL, &what, 1);
        return;
    }
    member me = {.what = what};
    mine->inside++;
    (void)pthread_cond_init(&me.changed, NULL);
    if (mine->last)
        mine->last->next = &me;
    else
        mine->first = &me;
    mine->last = &me;
    wait_for_turn(combiner, mine, &me);
    if (!me.is_done)
        lead(combiner, mine, fn);
    leave_line(combiner, mine);
    (void)pthread_mutex_unlock(&combiner->lock);
    (void)pthread_cond_destroy(&me.changed);
}

int tide_combiner_queued(tide_combiner *combiner, int64_t key)
{
    int count = 0;
    TIDE_HOLD(&combiner->lock);
    for (const line *at = combiner->lines; at; at = at->next)
        for (const member *m = at->key == key ? at->first : NULL; m; m = m->next)
            count++;
    return count;
}

int tide_combiner_waiting(tide_combiner *combiner)
{
    int count = 0;
    TIDE_HOLD(&combiner->lock);
    for (const line *at = combiner->lines; at; at = at->next)
        for (const member *m = at->first; m; m = m->next)
            count++;
    return count;
}
