#include "sim/work/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/sim/sim.h"

enum {
    KEYS = 3,
    DELAY_MAX_US = 40 * SIM_SECOND_US,
    TIMEOUT_MIN_US = 4 * SIM_SECOND_US,
    TIMEOUT_MAX_US = 30 * SIM_SECOND_US,
};

/* A unique key may keep an item from ever being added: nothing depends on one that has a key. */
static void draw_dependencies(work_plan *plan, int index, prng *chance)
{
    work_plan_item *item = &plan->items[index];
    const int wanted = prng_chance(chance, 1, 3) ? 1 + (int)prng_below(chance, 2) : 0;
    for (int tries = 0; index > 0 && tries < 4 && item->depends_count < wanted; tries++) {
        const int on = (int)prng_below(chance, (uint64_t)index);
        const bool is_again = item->depends_count > 0 && item->depends_on[0] == on;
        if (plan->items[on].task == item->task && plan->items[on].key == 0 && !is_again)
            item->depends_on[item->depends_count++] = on;
    }
}

static void draw_item(work_plan *plan, int index, prng *chance)
{
    work_plan_item *item = &plan->items[index];
    *item = (work_plan_item){
        .task = (int)prng_below(chance, WORK_TASKS),
        .type = (int)prng_below(chance, WORK_TYPES),
        .priority = (int64_t)prng_below(chance, 4) - 1,
        .max_retries = (int64_t)prng_below(chance, 4),
    };
    if (prng_chance(chance, 1, 5))
        item->delay_us = (int64_t)prng_below(chance, DELAY_MAX_US);
    if (prng_chance(chance, 1, 4))
        item->timeout_us =
            TIMEOUT_MIN_US + (int64_t)prng_below(chance, TIMEOUT_MAX_US - TIMEOUT_MIN_US);
    if (prng_chance(chance, 1, 4))
        item->key = 1 + (int)prng_below(chance, KEYS);
}

void work_plan_draw(work_plan *plan, prng *chance)
{
    for (int i = 0; i < WORK_ROOTS; i++) {
        draw_item(plan, i, chance);
        draw_dependencies(plan, i, chance);
        plan->items[i].has_follow_up = prng_chance(chance, 1, 3);
    }
    for (int i = WORK_ROOTS; i < WORK_ITEMS; i++) {
        draw_item(plan, i, chance);
        plan->items[i].task = plan->items[i - WORK_ROOTS].task;
    }
}

/* ---- names ---- */

static void make_name(char out[WORK_NAME_SIZE], char letter, int64_t number)
{
    (void)snprintf(out, WORK_NAME_SIZE, "%c%03u", letter, (unsigned)(number % 1000));
}

void work_item_name(char out[WORK_NAME_SIZE], int64_t item)
{
    make_name(out, 'i', item);
}

void work_task_name(char out[WORK_NAME_SIZE], int64_t task)
{
    make_name(out, 't', task);
}

void work_type_name(char out[WORK_NAME_SIZE], int64_t type)
{
    make_name(out, 'y', type);
}

void work_key_name(char out[WORK_NAME_SIZE], int64_t key)
{
    make_name(out, 'k', key);
}

void work_sender_name(char out[WORK_NAME_SIZE], int64_t sender)
{
    make_name(out, 'w', sender);
}

int work_item_index(const char *name)
{
    const long index = name && name[0] == 'i' ? strtol(name + 1, NULL, 10) : -1;
    return index >= 0 && index < WORK_ITEMS ? (int)index : -1;
}

const char *work_verb_name(int64_t verb)
{
    static const char *const names[WORK_VERBS] = {
        [WORK_ADD] = "add",
        [WORK_CLAIM] = "claim",
        [WORK_RENEW] = "renew",
        [WORK_CHECKPOINT] = "checkpoint",
        [WORK_PROGRESS] = "progress",
        [WORK_FINISH] = "finish",
        [WORK_FINISH_MANY] = "finish many",
        [WORK_FAIL] = "fail",
        [WORK_RELEASE] = "release",
        [WORK_CANCEL] = "cancel",
        [WORK_CANCEL_TASK] = "cancel task",
        [WORK_PAUSE] = "pause",
        [WORK_RESUME] = "resume",
        [WORK_SWEEP] = "sweep",
        [WORK_SQL_CLAIM] = "sql claim",
        [WORK_SQL_ADD] = "sql add",
        [WORK_SQL_HEARTBEAT] = "sql heartbeat",
        [WORK_SQL_COMPLETE] = "sql complete",
        [WORK_SQL_FAIL] = "sql fail",
        [WORK_SQL_SWEEP] = "sql sweep",
        [WORK_SQL_EXPIRE] = "sql expire",
        [WORK_SQL_CHECKPOINT] = "sql checkpoint",
    };
    return names[verb];
}
