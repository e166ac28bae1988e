/* known.c - schemas and tables that were read before, kept by (catalog, schema_version): nothing about them changes while the catalog's schema_version stays.
 *
 * So who appends again and again reads the catalog's head and nothing else. What is kept was visible at a snapshot that was read durably, and never changes; who comes with
 * another schema_version does not find it. Entries are replaced in turn. */
#include "lake/known.h"

#include <stdlib.h>
#include <string.h>

static void hold(tide_lake_known_all *all)
{
    while (atomic_flag_test_and_set_explicit(&all->is_held, memory_order_acquire)) {
        /* held for a few instructions */
    }
}

static void let_go(tide_lake_known_all *all)
{
    atomic_flag_clear_explicit(&all->is_held, memory_order_release);
}

static void free_one(lake_known *known)
{
    if (!known)
        return;
    free(known->columns);
    free(known);
}

void lake_known_release(tide_lake_known_all *all, lake_known *known)
{
    if (!known)
        return;
    hold(all);
    const bool is_last = --known->uses == 0;
    let_go(all);
    if (is_last)
        free_one(known);
}

void lake_known_done(tide_lake_known_all *all)
{
    for (int i = 0; i < TIDE_LAKE_KNOWN_MAX; i++)
        free_one(all->entries[i]);
}

static bool is_asked_for(const lake_known *known, const lake_known_question *q)
{
    const tide_lake_object *seen = &known->row.seen;
    if (known->catalog_id != q->catalog_id || known->version != q->version || seen->kind != q->kind)
        return false;
    if (!q->name)
        return seen->id == q->id;
    return (q->kind == TIDE_LAKE_SCHEMA || seen->schema_id == q->schema_id) &&
           tide_lake_same_name(seen->name, q->name);
}

lake_known *lake_known_find(tide_lake_known_all *all, const lake_known_question *question)
{
    lake_known *found = NULL;
    if (question->version < 0)
        return NULL;
    hold(all);
    for (int i = 0; i < TIDE_LAKE_KNOWN_MAX && !found; i++)
        if (all->entries[i] && is_asked_for(all->entries[i], question))
            found = all->entries[i];
    if (found)
        found->uses++;
    let_go(all);
    return found;
}

/* In the place of one that says less of the same, else of the oldest. */
static lake_known *put_entry(tide_lake_known_all *all, lake_known *fresh)
{
    const lake_known_question same = {.catalog_id = fresh->catalog_id,
                                      .version = fresh->version,
                                      .kind = fresh->row.seen.kind,
                                      .id = fresh->row.seen.id};
    int place = -1;
    for (int i = 0; i < TIDE_LAKE_KNOWN_MAX && place < 0; i++)
        if (all->entries[i] && is_asked_for(all->entries[i], &same))
            place = i;
    if (place < 0) {
        place = all->next;
        all->next = (all->next + 1) % TIDE_LAKE_KNOWN_MAX;
    }
    lake_known *old = all->entries[place];
    all->entries[place] = fresh;
    return old && --old->uses == 0 ? old : NULL;
}

/* Without memory nothing is kept, and nothing is lost. */
void lake_known_put(tide_lake_known_all *all, const lake_known *what)
{
    if (what->version < 0 || what->row.seen.kind == TIDE_LAKE_VIEW)
        return;
    lake_known *fresh = malloc(sizeof *fresh);
    if (!fresh)
        return;
    *fresh = *what;
    fresh->uses = 1;
    fresh->columns = NULL;
    if (what->has_columns && what->column_count > 0) {
        fresh->columns = malloc((size_t)what->column_count * sizeof *fresh->columns);
        if (!fresh->columns) {
            free(fresh);
            return;
        }
        memcpy(fresh->columns, what->columns, (size_t)what->column_count * sizeof *fresh->columns);
    }
    hold(all);
    lake_known *gone = put_entry(all, fresh);
    let_go(all);
    free_one(gone);
}
