/* stress_observer.c - who looks on during a stress run. See stress.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/env.h>

#include "base/cleanup.h"
#include "bench/stress/stress_internal.h"

enum { PINS = 8 };

#define PIN_US INT64_C(600000000)

typedef struct held {
    bool is_there;
    tide_lake_pin pin;
    tide_lake_sight sight;
} held;

struct tide_stress_observer {
    tide_lake *lake;
    tide_stress run;
    tide_env *env;
    held pins[PINS]; /* a ring */
    int next;
    tide_lake_sight *sights;
    int64_t count;
    int64_t changed;
};

typedef struct head_look {
    char catalog[TIDE_STRESS_NAME_MAX];
    int64_t catalog_id;
    int64_t head;
    tide_lake_sight sight;
} head_look;

static tide_status find_head(tide_tx *tx, void *arg, tide_error *err)
{
    head_look *look = arg;
    tide_lake_catalog catalog;
    TIDE_TRY(tide_lake_find_catalog(tx, look->catalog, &catalog, err));
    look->catalog_id = catalog.catalog_id;
    look->head = catalog.head;
    return TIDE_OK;
}

static tide_status look_at(tide_tx *tx, void *arg, tide_error *err)
{
    head_look *look = arg;
    return tide_lake_look(tx, look->catalog_id, look->head, &look->sight, err);
}

/* What was pinned a while ago is the same now. */
static void look_again(tide_stress_observer *o, held *h)
{
    if (!h->is_there)
        return;
    tide_error err;
    head_look look = {.catalog_id = h->sight.catalog_id, .head = h->sight.snapshot_id};
    if (tide_store_read(tide_lake_store(o->lake), look_at, &look, &err) != TIDE_OK)
        return;
    if (memcmp(&look.sight.digest, &h->sight.digest, sizeof look.sight.digest) != 0)
        o->changed++;
    if (tide_lake_pin_release(o->lake, &h->pin, &err) == TIDE_OK)
        h->is_there = false;
}

void tide_stress_observer_step(tide_stress_observer *o)
{
    held *h = &o->pins[o->next];
    look_again(o, h);
    if (h->is_there || o->count == TIDE_STRESS_SIGHTS_MAX)
        return;
    uint64_t random = 0;
    tide_error err;
    head_look look = {0};
    o->env->random(o->env, &random, sizeof random);
    (void)snprintf(look.catalog, sizeof look.catalog, "%.40s-c%" PRIu64, o->run.prefix,
                   random % (uint64_t)o->run.catalogs);
    if (tide_store_read(tide_lake_store(o->lake), find_head, &look, &err) != TIDE_OK ||
        tide_lake_pin_take(o->lake, look.catalog_id, look.head, "observer", PIN_US, &h->pin,
                           &err) != TIDE_OK)
        return;
    if (tide_store_read(tide_lake_store(o->lake), look_at, &look, &err) != TIDE_OK) {
        TIDE_IGNORE(tide_lake_pin_release(o->lake, &h->pin, &err));
        return;
    }
    h->is_there = true;
    h->sight = look.sight;
    o->sights[o->count++] = look.sight;
    o->next = (o->next + 1) % PINS;
}

const tide_lake_sight *tide_stress_observer_sights(const tide_stress_observer *o, int64_t *count,
                                                   int64_t *changed)
{
    *count = o->count;
    *changed = o->changed;
    return o->sights;
}

tide_status tide_stress_observer_open(tide_stress_observer **out, tide_lake *lake,
                                      const tide_stress *run, tide_error *err)
{
    TIDE_CLEANUP(tide_stress_observer_closep)
    tide_stress_observer *o = calloc(1, sizeof *o);
    if (!o)
        return tide_no_memory(err);
    o->lake = lake;
    o->run = *run;
    o->env = tide_store_env(tide_lake_store(lake));
    o->sights = calloc(TIDE_STRESS_SIGHTS_MAX, sizeof *o->sights);
    if (!o->sights)
        return tide_no_memory(err);
    *out = TIDE_TAKE(o);
    return TIDE_OK;
}

void tide_stress_observer_close(tide_stress_observer *o)
{
    if (!o)
        return;
    tide_error err;
    for (int i = 0; i < PINS; i++)
        if (o->pins[i].is_there)
            TIDE_IGNORE(tide_lake_pin_release(o->lake, &o->pins[i].pin, &err));
    free(o->sights);
    free(o);
}
