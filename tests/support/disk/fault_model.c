#include "support/disk/fault_model.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct fault_change {
    fault_change *next;
    uint64_t serial;
    bool is_truncate;
    size_t offset; /* of a truncate: the new size */
    size_t len;
    unsigned char bytes[];
};

typedef enum fault_fate { FATE_KEPT, FATE_DROPPED, FATE_TORN, FATE_ZEROED } fault_fate;

void fault_give_up(const char *what, const char *about)
{
    fprintf(stderr, "fault_vfs: %s: %s (%s)\n", what, about, strerror(errno));
    abort();
}

/* --- content and fates
 * -------------------------------------------------------------------------- */

static bool reserve_content(fault_content *c, size_t len)
{
    if (len <= c->room)
        return true;
    const size_t room = len < 4096 ? 4096 : len + len / 2;
    unsigned char *bytes = realloc(c->bytes, room);
    if (!bytes)
        return false;
    c->bytes = bytes;
    c->room = room;
    return true;
}

/* The room must be there. Growth is filled with zeros, as in a file. */
static void resize_content(fault_content *c, size_t len)
{
    assert(len <= c->room);
    if (len > c->len)
        memset(c->bytes + c->len, 0, len - c->len);
    c->len = len;
}

static void apply_part(fault_content *c, const fault_change *w, size_t from, size_t to)
{
    if (c->len < to)
        resize_content(c, to);
    memcpy(c->bytes + from, w->bytes + (from - w->offset), to - from);
}

/* Each sector of the file for itself: all of it, or nothing. */
static void apply_torn(fault_content *c, const fault_change *w, prng *random)
{
    const size_t end = w->offset + w->len;
    for (size_t from = w->offset; from < end;) {
        const size_t sector_end = (from / FAULT_VFS_SECTOR_LEN + 1) * FAULT_VFS_SECTOR_LEN;
        const size_t to = sector_end < end ? sector_end : end;
        if (prng_chance(random, 1, 2))
            apply_part(c, w, from, to);
        from = to;
    }
}

static void apply_change(fault_content *c, const fault_change *w, fault_fate f, prng *random)
{
    const size_t end = w->offset + w->len;

    if (f == FATE_DROPPED)
        return;
    if (w->is_truncate) {
        if (f == FATE_KEPT)
            resize_content(c, w->offset);
    } else if (f == FATE_KEPT) {
        apply_part(c, w, w->offset, end);
    } else if (f == FATE_ZEROED) {
        if (c->len < end)
            resize_content(c, end);
    } else {
        apply_torn(c, w, random);
    }
}

fault_lottery fault_lottery_open(fault_vfs_survival survival, prng *random)
{
    fault_lottery l = {.survival = survival, .random = random};
    if (survival == FAULT_VFS_KEEP_RANDOM)
        l.kept_of_8 = prng_below(random, 9);
    return l;
}

static fault_fate draw_fate(const fault_lottery *l, uint64_t serial)
{
    switch (l->survival) {
    case FAULT_VFS_KEEP_ALL:
        return FATE_KEPT;
    case FAULT_VFS_KEEP_NONE:
        return FATE_DROPPED;
    case FAULT_VFS_KEEP_PREFIX:
        return serial < l->torn ? FATE_KEPT : serial == l->torn ? FATE_TORN : FATE_DROPPED;
    case FAULT_VFS_KEEP_RANDOM:
        if (prng_chance(l->random, l->kept_of_8, 8))
            return FATE_KEPT;
        if (prng_chance(l->random, 1, 2))
            return FATE_DROPPED;
        return prng_chance(l->random, 3, 4) ? FATE_TORN : FATE_ZEROED;
    }
    fault_give_up("unknown survival", "bug");
}

/* --- files
 * -------------------------------------------------------------------------------------- */

fault_node *fault_node_new(void)
{
    fault_node *n = calloc(1, sizeof(*n));
    if (n)
        n->last_next = &n->first;
    return n;
}

static void drop_changes(fault_node *n)
{
    while (n->first) {
        fault_change *gone = n->first;
        n->first = gone->next;
        free(gone);
    }
    n->last_next = &n->first;
}

void fault_node_unref(fault_node *n)
{
    if (!n || --n->refs > 0)
        return;
    drop_changes(n);
    free(n->durable.bytes);
    free(n);
}

void fault_node_settle(fault_node *n, const fault_lottery *l)
{
    for (const fault_change *w = n->first; w; w = w->next)
        apply_change(&n->durable, w, draw_fate(l, w->serial), l->random);
    drop_changes(n);
}

bool fault_node_note(fault_model *model, fault_node *n, const void *data, size_t offset, size_t len)
{
    fault_change *w = reserve_content(&n->durable, offset + len) ? malloc(sizeof(*w) + len) : NULL;
    if (!w)
        return false;
    *w = (fault_change){
        .serial = model->serial++, .is_truncate = !data, .offset = offset, .len = len};
    if (data)
        memcpy(w->bytes, data, len);
    *n->last_next = w;
    n->last_next = &w->next;
    if (!data || n->size_now < offset + len)
        n->size_now = offset + len;
    return true;
}

bool fault_node_draw(const fault_node *n, const fault_lottery *l, fault_content *out)
{
    *out = (fault_content){.len = n->durable.len};
    if (!reserve_content(out, n->durable.room + 1))
        return false;
    assert(out->bytes);
    if (n->durable.bytes)
        memcpy(out->bytes, n->durable.bytes, out->len);
    for (const fault_change *w = n->first; w; w = w->next)
        apply_change(out, w, draw_fate(l, w->serial), l->random);
    return true;
}

/* --- names
 * -------------------------------------------------------------------------------------- */

fault_node *fault_entry_node(const fault_entry *e)
{
    fault_node *now = e->durable;
    for (const fault_entry_change *c = e->first; c; c = c->next)
        now = c->to;
    return now;
}

void fault_entry_note(fault_model *model, fault_entry *e, fault_entry_change *c)
{
    fault_entry_change **at = &e->first;
    while (*at)
        at = &(*at)->next;
    c->serial = model->serial++;
    if (c->to)
        c->to->refs++;
    *at = c;
}

void fault_entry_settle(fault_entry *e)
{
    while (e->first) {
        fault_entry_change *c = e->first;
        e->first = c->next;
        fault_node_unref(e->durable);
        e->durable = c->to; /* with the reference that c held */
        free(c);
    }
}

void fault_model_settle(fault_model *model)
{
    for (fault_entry *e = model->entries; e; e = e->next)
        fault_entry_settle(e);
}

/* Read a file that was there before this disk met it. 1: read, 0: there is none, -1: no memory. */
static int load_node(fault_node *n, const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    if (!file) {
        if (errno != ENOENT)
            fault_give_up("cannot read", path);
        return 0;
    }
    if (fstat(fileno(file), &st) != 0)
        fault_give_up("cannot stat", path);
    const size_t len = (size_t)st.st_size;
    const bool has_room = reserve_content(&n->durable, len);
    if (has_room && fread(n->durable.bytes, 1, len, file) != len)
        fault_give_up("cannot read", path);
    fclose(file);
    n->durable.len = n->size_now = len;
    return has_room ? 1 : -1;
}

fault_entry *fault_model_find(fault_model *model, const char *name, const char *path)
{
    fault_entry **at = &model->entries;
    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0)
            return *at;

    const size_t name_len = strlen(name);
    fault_entry *e = calloc(1, sizeof(*e) + name_len + 1);
    fault_node *n = fault_node_new();
    const int is_there = e && n ? load_node(n, path) : -1;
    if (is_there < 0) {
        if (n)
            free(n->durable.bytes);
        free(n);
        free(e);
        return NULL;
    }
    memcpy(e->name, name, name_len + 1);
    n->refs = 1;
    if (is_there)
        e->durable = n;
    else
        fault_node_unref(n);
    *at = e;
    return e;
}

fault_node *fault_entry_draw(const fault_entry *e, const fault_lottery *l)
{
    fault_node *n = e->durable;
    for (const fault_entry_change *c = e->first; c && draw_fate(l, c->serial) == FATE_KEPT;
         c = c->next)
        n = c->to;
    return n;
}

/* --- the whole disk
 * ----------------------------------------------------------------------------- */

int64_t fault_model_used_len(const fault_model *model)
{
    int64_t used = 0;
    for (const fault_entry *e = model->entries; e; e = e->next) {
        const fault_node *n = fault_entry_node(e);
        used += n ? (int64_t)n->size_now : 0;
    }
    return used;
}

uint64_t fault_model_oldest(const fault_model *model)
{
    uint64_t oldest = model->serial;
    for (const fault_entry *e = model->entries; e; e = e->next) {
        if (e->first && e->first->serial < oldest)
            oldest = e->first->serial;
        const fault_node *n = fault_entry_node(e);
        if (n && n->first && n->first->serial < oldest)
            oldest = n->first->serial;
    }
    return oldest;
}

void fault_model_done(fault_model *model)
{
    fault_model_settle(model);
    while (model->entries) {
        fault_entry *gone = model->entries;
        model->entries = gone->next;
        fault_node_unref(gone->durable);
        free(gone);
    }
}
