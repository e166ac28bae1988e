#include "base/combiner.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

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
};

tide_combiner *tide_combiner_new(int batch_max, int leader_max)
{
    assert(batch_max > 0 && batch_max <= TIDE_COMBINER_BATCH_MAX && leader_max > 0);
    tide_combiner *crew = calloc(1, sizeof *crew);
    if (!crew)
        return NULL;
    crew->batch_max = batch_max;
    crew->leader_max = leader_max;
    (void)pthread_mutex_init(&crew->lock, NULL);
    return crew;
}

void tide_combiner_free(tide_combiner *crew)
{
    if (!crew)
        return;
    assert(!crew->lines && "somebody is still inside");
    (void)pthread_mutex_destroy(&crew->lock);
    free(crew);
}

static line *find_line(tide_combiner *crew, int64_t key)
{
    for (line *at = crew->lines; at; at = at->next)
        if (at->key == key)
            return at;
    line *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return NULL;
    fresh->key = key;
    fresh->next = crew->lines;
    crew->lines = fresh;
    return fresh;
}

static void leave_line(tide_combiner *crew, line *left)
{
    if (--left->inside > 0)
        return;
    for (line **at = &crew->lines; *at; at = &(*at)->next) {
        if (*at == left) {
            *at = left->next;
            free(left);
            return;
        }
    }
}

static void wake_first(const tide_combiner *crew, line *of)
{
    if (of->first && of->leaders < crew->leader_max)
        (void)pthread_cond_signal(&of->first->changed);
}

struct tide_combiner_turn {
    tide_combiner *crew;
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
    wake_first(turn->crew, turn->of);
}

void tide_combiner_pass(tide_combiner_turn *turn)
{
    if (!turn)
        return;
    TIDE_HOLD(&turn->crew->lock);
    end_turn(turn);
}

static int take_batch(const tide_combiner *crew, line *from, member **batch)
{
    int count = 0;
    while (from->first && count < crew->batch_max) {
        batch[count++] = from->first;
        from->first = from->first->next;
    }
    if (!from->first)
        from->last = NULL;
    return count;
}

/* With the lock held; given back with it. */
static void lead(tide_combiner *crew, line *of, tide_combiner_fn *fn)
{
    member *batch[TIDE_COMBINER_BATCH_MAX];
    void *whats[TIDE_COMBINER_BATCH_MAX];
    const int count = take_batch(crew, of, batch);
    of->leaders++;
    wake_first(crew, of);
    (void)pthread_mutex_unlock(&crew->lock);
    for (int i = 0; i < count; i++)
        whats[i] = batch[i]->what;
    tide_combiner_turn turn = {.crew = crew, .of = of};
    fn(&turn, whats, count);
    (void)pthread_mutex_lock(&crew->lock);
    for (int i = 0; i < count; i++) {
        batch[i]->is_done = true;
        (void)pthread_cond_signal(&batch[i]->changed);
    }
    end_turn(&turn);
}

void tide_combiner_do(tide_combiner *crew, int64_t key, void *what, tide_combiner_fn *fn)
{
    (void)pthread_mutex_lock(&crew->lock);
    line *mine = find_line(crew, key);
    if (!mine) { /* no memory for a line: alone, then */
        (void)pthread_mutex_unlock(&crew->lock);
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
    while (!me.is_done && (mine->first != &me || mine->leaders >= crew->leader_max))
        (void)pthread_cond_wait(&me.changed, &crew->lock);
    if (!me.is_done)
        lead(crew, mine, fn);
    leave_line(crew, mine);
    (void)pthread_mutex_unlock(&crew->lock);
    (void)pthread_cond_destroy(&me.changed);
}

int tide_combiner_queued(tide_combiner *crew, int64_t key)
{
    int count = 0;
    TIDE_HOLD(&crew->lock);
    for (const line *at = crew->lines; at; at = at->next)
        for (const member *m = at->key == key ? at->first : NULL; m; m = m->next)
            count++;
    return count;
}

int tide_combiner_waiting(tide_combiner *crew)
{
    int count = 0;
    TIDE_HOLD(&crew->lock);
    for (const line *at = crew->lines; at; at = at->next)
        for (const member *m = at->first; m; m = m->next)
            count++;
    return count;
}
