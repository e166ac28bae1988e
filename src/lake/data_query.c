/* A question over a metabase: what it names is looked up, pinned and shown. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/catalog.h"
#include "lake/data_parts.h"
#include "lake/lake_parts.h"

enum {
    THINGS_MAX = 256,  /* tables and views of one question */
    CATALOGS_MAX = 64, /* of one question */
    DEPTH_MAX = 32,    /* views that name views */
    PIN_TRIES = 10,    /* of a catalog's newest snapshot */
};
static const int64_t grace_us = 60000000;         /* of a pin, beyond the question's own time */
static const int64_t time_max_us = 2505600000000; /* a pin is held for 30 days at most */

typedef struct place { /* a catalog, at one snapshot for the whole question */
    tide_lake_catalog catalog;
    int64_t snapshot;
    tide_lake_pin pin;
    bool is_pinned;
} place;

typedef struct thing {
    const place *place;
    char schema[TIDE_LAKE_NAME_MAX + 1];
    tide_lake_table_seen seen; /* of a view: its object alone */
    tide_lake_files files;
    bool is_open; /* what it names is being looked up */
} thing;

typedef struct search {
    tide_lake_data *data;
    tide_lake *lake;
    const tide_lake_ask *ask;
    place *places[CATALOGS_MAX];
    int place_count;
    thing *things[THINGS_MAX];
    int thing_count;
    thing *order[THINGS_MAX]; /* views behind what they name */
    int ordered;
} search;

static void done(search *s)
{
    for (int i = 0; i < s->thing_count; i++) {
        tide_lake_files_done(&s->things[i]->files);
        free(s->things[i]->seen.columns);
        free(s->things[i]->seen.table.sql);
        free(s->things[i]);
    }
    for (int i = 0; i < s->place_count; i++) {
        if (s->places[i]->is_pinned)
            TIDE_IGNORE(tide_lake_pin_release(s->lake, &s->places[i]->pin, NULL));
        free(s->places[i]);
    }
}

/* ---- catalogs ---- */

typedef struct place_look {
    const char *name;
    const char *at;
    place *out;
} place_look;

static tide_status look_place(tide_tx *tx, void *arg, tide_error *err)
{
    place_look *look = arg;
    TIDE_TRY(tide_lake_find_catalog(tx, look->name, &look->out->catalog, err));
    return tide_lake_find_snapshot(tx, &look->out->catalog, look->at, &look->out->snapshot, err);
}

/* Who may not write (a role with SELECT alone, a hot standby) takes no pin: the grace of clean-up keeps
 * the files that it reads, and check_place that its snapshot had not expired when it knew them. */
static bool may_go_unpinned(tide_status status)
{
    return status == TIDE_E_DENIED || status == TIDE_E_UNAVAILABLE;
}

/* Rows that a snapshot shows are removed behind it: where it is still there, all of them were read. */
static tide_status check_place(tide_tx *tx, const place *where, tide_error *err)
{
    char at[32];
    int64_t found = 0;
    if (where->is_pinned)
        return TIDE_OK;
    (void)snprintf(at, sizeof at, "%" PRId64, where->snapshot);
    return tide_lake_find_snapshot(tx, &where->catalog, at, &found, err);
}

static tide_status add_place(search *s, const char *name, place **out, tide_error *err)
{
    if (s->place_count == CATALOGS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d catalogs in a question", CATALOGS_MAX);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(place, fresh, err);
    place_look look = {.name = name, .at = s->ask->at ? s->ask->at : "", .out = fresh};
    const int64_t time_us = s->ask->timeout_us < time_max_us ? s->ask->timeout_us : time_max_us;
    tide_status status = TIDE_E_NOT_FOUND;
    /* Others may commit, and expire the newest snapshot, before it is held. */
    for (int tries = 0; status == TIDE_E_NOT_FOUND && tries < (*look.at ? 1 : PIN_TRIES); tries++) {
        TIDE_TRY(tide_store_read(tide_lake_store(s->lake), look_place, &look, err));
        status = tide_lake_pin_take(s->lake, fresh->catalog.catalog_id, fresh->snapshot, "query",
                                    time_us + grace_us, &fresh->pin, err);
    }
    if (!may_go_unpinned(status))
        TIDE_TRY(status);
    fresh->is_pinned = status == TIDE_OK;
    *out = s->places[s->place_count++] = TIDE_TAKE(fresh);
    return TIDE_OK;
}

static tide_status find_place(search *s, const char *name, place **out, tide_error *err)
{
    for (int i = 0; i < s->place_count; i++) {
        if (tide_lake_same_name(s->places[i]->catalog.name, name)) {
            *out = s->places[i];
            return TIDE_OK;
        }
    }
    return add_place(s, name, out, err);
}

/* ---- tables and views ---- */

typedef struct thing_look {
    const char *schema;
    const char *name;
    thing *out;
} thing_look;

static void forget(thing *gone)
{
    tide_lake_files_done(&gone->files);
    free(gone->seen.columns);
    free(gone->seen.table.sql);
    gone->seen = (tide_lake_table_seen){0};
}

/* TIDE_NONE: there is no such thing. It may run again. */
static tide_status look_thing(tide_tx *tx, void *arg, tide_error *err)
{
    thing_look *look = arg;
    thing *out = look->out;
    const int64_t catalog_id = out->place->catalog.catalog_id;
    const int64_t snapshot = out->place->snapshot;
    forget(out);
    tide_lake_object schema = {0};
    tide_status status =
        tide_lake_find_schema(tx, catalog_id, snapshot, look->schema, &schema, err);
    if (status != TIDE_OK)
        return status;
    memcpy(out->schema, schema.name, sizeof out->schema);
    status = tide_lake_find_object(tx, catalog_id, snapshot, schema.id, look->name,
                                   &out->seen.table, err);
    if (status == TIDE_OK && out->seen.table.kind != TIDE_LAKE_VIEW) {
        const int64_t id = out->seen.table.id;
        TIDE_TRY(tide_lake_read_columns(tx, catalog_id, snapshot, id, &out->seen.columns,
                                        &out->seen.column_count, err));
        TIDE_TRY(tide_lake_files_read(tx, catalog_id, snapshot, id, &out->files, err));
    }
    if (status >= TIDE_OK)
        TIDE_TRY(check_place(tx, out->place, err));
    return status;
}

static void free_thing(thing **gone)
{
    if (*gone)
        forget(*gone);
    free(*gone);
}

static thing *find_known(const search *s, const thing *like)
{
    for (int i = 0; i < s->thing_count; i++)
        if (s->things[i]->place == like->place &&
            s->things[i]->seen.table.id == like->seen.table.id)
            return s->things[i];
    return NULL;
}

/* TIDE_NONE: not there. *is_new: it was not known before. */
static tide_status find_thing(search *s, place *where, const char *schema, const char *name,
                              thing **out, bool *is_new, tide_error *err)
{
    TIDE_CLEANUP(free_thing) TIDE_NEW(thing, fresh, err);
    fresh->place = where;
    thing_look look = {.schema = schema, .name = name, .out = fresh};
    TIDE_TRY_FOUND(tide_store_read(tide_lake_store(s->lake), look_thing, &look, err));
    *out = find_known(s, fresh);
    *is_new = !*out;
    if (*out)
        return TIDE_OK;
    if (s->thing_count == THINGS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d tables in a question", THINGS_MAX);
    *out = s->things[s->thing_count++] = TIDE_TAKE(fresh);
    return TIDE_OK;
}

/* ---- names ---- */

typedef struct scope { /* where names without all parts are looked for */
    search *search;
    const char *catalog; /* NULL: none */
    const char *schema;
    int depth;
} scope;

static tide_status add_name(void *arg, const tide_lake_name *name, tide_error *err);

static tide_status add_found(const scope *in, thing *found, tide_error *err)
{
    search *s = in->search;
    const char *name = found->seen.table.name;
    if (found->seen.table.kind == TIDE_LAKE_VIEW) {
        if (in->depth == DEPTH_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "view %s: views name views more than %d deep", name,
                             DEPTH_MAX);
        scope inside = {.search = s,
                        .catalog = found->place->catalog.name,
                        .schema = found->schema,
                        .depth = in->depth + 1};
        found->is_open = true;
        const tide_status status =
            tide_lake_each_name(s->data, found->seen.table.sql, add_name, &inside, err);
        found->is_open = false;
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "view %s", name);
    }
    s->order[s->ordered++] = found;
    return TIDE_OK;
}

static tide_status fail_absent(const tide_lake_name *name, const place *where, tide_error *err)
{
    return tide_fail(err, TIDE_E_NOT_FOUND, "no table or view %s.%s in catalog %s at snapshot %lld",
                     name->schema, name->object, where->catalog.name, (long long)where->snapshot);
}

/* a.b.c is whole. a.b is a table of schema a in the catalog at hand; without one, of schema main of catalog a. What is not there and not whole may be a name
 * of the question's own, or of DuckDB's: it is left to DuckDB. */
static tide_status add_name(void *arg, const tide_lake_name *name, tide_error *err)
{
    const scope *in = arg;
    search *s = in->search;
    const bool is_whole = *name->catalog != '\0';
    const bool has_two = !is_whole && *name->schema;
    const bool is_outside = has_two && !in->catalog;
    if (!is_whole && !has_two && !in->catalog)
        return TIDE_OK;
    const char *catalog = is_whole ? name->catalog : is_outside ? name->schema : in->catalog;
    const char *schema = is_outside ? "main" : *name->schema ? name->schema : in->schema;
    place *where = NULL;
    tide_error words = {0};
    const tide_status known = find_place(s, catalog, &where, is_outside ? &words : err);
    if (known == TIDE_E_NOT_FOUND && is_outside)
        return TIDE_OK;
    if (known < TIDE_OK)
        return is_outside ? tide_fail(err, known, "%s", words.text) : known;
    assert(where);
    thing *found = NULL;
    bool is_new = false;
    const tide_status status = find_thing(s, where, schema, name->object, &found, &is_new, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return is_whole ? fail_absent(name, where, err) : TIDE_OK;
    assert(found);
    if (found->is_open)
        return tide_fail(err, TIDE_E_INVALID, "view %s names itself", found->seen.table.name);
    return is_new ? add_found(in, found, err) : TIDE_OK;
}

/* ---- the question ---- */

static tide_status ask_found(search *s, tide_error *err)
{
    tide_lake_shown shown[THINGS_MAX];
    for (int i = 0; i < s->ordered; i++) {
        const thing *found = s->order[i];
        const bool is_view = found->seen.table.kind == TIDE_LAKE_VIEW;
        const char *by_default = s->ask->default_catalog;
        shown[i] = (tide_lake_shown){
            .catalog = found->place->catalog.name,
            .schema = found->schema,
            .table = is_view ? NULL : &found->seen,
            .files = &found->files,
            .view_name = found->seen.table.name,
            .view_sql = found->seen.table.sql,
            .is_default = by_default && tide_lake_same_name(by_default, found->place->catalog.name),
        };
    }
    return tide_lake_ask_shown(s->data, shown, s->ordered, s->ask, err);
}

tide_status tide_lake_query(tide_lake_data *data, tide_lake *lake, const tide_lake_ask *ask,
                            tide_error *err)
{
    TIDE_CLEANUP(done) search s = {.data = data, .lake = lake, .ask = ask};
    scope outside = {.search = &s, .catalog = ask->default_catalog, .schema = "main"};
    TIDE_TRY(tide_lake_each_name(data, ask->text, add_name, &outside, err));
    return ask_found(&s, err);
}
