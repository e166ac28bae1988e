#include "crash/work/work_check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/history.h"

/* ---- items and effects ---- */

typedef struct writing {
    tide_store *store;
    int history;
} writing;

static int64_t token_in(const char *text)
{
    const char *colon = strchr(text, ':');
    return colon ? strtoll(colon + 1, NULL, 10) : -1;
}

static void write_effect(const writing *w, const char *item, const char *kind, int64_t token)
{
    history_line line;
    history_begin(&line, "end", "effect");
    history_text(&line, "item", item);
    history_text(&line, "kind", kind);
    history_number(&line, "token", token);
    history_end(&line, w->history, HISTORY_OK);
}

static tide_status count_attempt(void *arg, const tide_work_attempt *attempt, tide_error *err)
{
    (void)err;
    *(int64_t *)arg += !attempt->outcome || strcmp(attempt->outcome, "released") != 0;
    return TIDE_OK;
}

typedef struct found_item {
    char id[LOAD_ID_SIZE];
    char status[16];
    char kind[16];
    char output[48];
    int64_t max_retries;
} found_item;

typedef struct found_items {
    found_item *all;
    size_t len;
    size_t capacity;
} found_items;

static void copy_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text ? text : "");
}

static tide_status note_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    found_items *found = arg;
    if (found->len == found->capacity) {
        found->capacity = found->capacity ? found->capacity * 2 : 1024;
        found->all = reallocarray(found->all, found->capacity, sizeof *found->all);
        assert(found->all);
    }
    found_item *to = &found->all[found->len++];
    to->max_retries = item->max_retries;
    copy_text(to->id, sizeof to->id, item->work_item_id);
    copy_text(to->status, sizeof to->status, item->status);
    copy_text(to->kind, sizeof to->kind, item->failure_kind);
    copy_text(to->output, sizeof to->output, item->output);
    return TIDE_OK;
}

/* The kinds of effect that an item must have. */
static size_t count_effects(const found_item *item)
{
    const bool is_many = strncmp(item->output, "{\"many\"", 7) == 0;
    if (strcmp(item->status, "completed") != 0 || is_many)
        return 0;
    return load_is_root(item->id) ? 2 : 1;
}

static tide_status write_item(const writing *w, const found_item *item, tide_error *err)
{
    static const char *const effects[] = {"checkpoint", "follow_up"};
    int64_t attempts = 0;
    history_line line;
    TIDE_TRY(tide_work_attempts(w->store, item->id, count_attempt, &attempts, err));
    history_begin(&line, "end", "item");
    history_text(&line, "item", item->id);
    history_text(&line, "status", item->status);
    if (strcmp(item->status, "completed") == 0)
        history_number(&line, "token", token_in(item->output));
    history_number(&line, "attempts", attempts);
    history_number(&line, "attempts_max", 1 + item->max_retries);
    history_flag(&line, "exhausted",
                 strcmp(item->kind, "exhausted") == 0 || strcmp(item->kind, "quarantined") == 0);
    history_texts(&line, "effects", effects, count_effects(item));
    history_flag(&line, "must_end", true);
    history_end(&line, w->history, HISTORY_OK);
    /* f<token>.<root> is what the root's finish under this token has left. */
    const char *dot = strchr(item->id, '.');
    if (!load_is_root(item->id) && dot)
        write_effect(w, dot + 1, "follow_up", strtoll(item->id + 1, NULL, 10));
    return TIDE_OK;
}

static tide_status write_checkpoint(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    char text[48];
    (void)snprintf(text, sizeof text, "%.*s", (int)checkpoint->snapshot.len,
                   checkpoint->snapshot.ptr);
    write_effect(arg, checkpoint->work_item_id, "checkpoint", token_in(text));
    return TIDE_OK;
}

tide_status work_check_write(tide_store *store, int history, tide_error *err)
{
    writing w = {.store = store, .history = history};
    const tide_work_filter all = {TIDE_WORK_FILTER_INIT, .limit = INT32_MAX};
    const tide_journal_filter ends = {TIDE_JOURNAL_FILTER_INIT, .type = "iteration_end",
                                      .with_snapshot = true};
    found_items found = {0};
    tide_status status = tide_work_list(store, &all, note_item, &found, err);
    for (size_t i = 0; status >= TIDE_OK && i < found.len; i++)
        status = write_item(&w, &found.all[i], err);
    free(found.all);
    TIDE_TRY(status);
    TIDE_TRY(tide_journal_list(store, &ends, write_checkpoint, &w, err));
    return TIDE_OK;
}

/* ---- live items ---- */

enum { KEYS_MAX = 4096 };

typedef struct live_keys {
    char names[KEYS_MAX][LOAD_ID_SIZE];
    size_t len;
} live_keys;

static bool is_live(const char *status)
{
    return strcmp(status, "completed") != 0 && strcmp(status, "failed") != 0;
}

static tide_status note_key(void *arg, const tide_work_item *item, tide_error *err)
{
    live_keys *keys = arg;
    char name[LOAD_ID_SIZE];
    if (!item->unique_key || !is_live(item->status))
        return TIDE_OK;
    (void)snprintf(name, sizeof name, "%.40s/%.40s", item->work_type, item->unique_key);
    for (size_t i = 0; i < keys->len; i++)
        if (strcmp(keys->names[i], name) == 0)
            return tide_fail(err, TIDE_E_CONFLICT, "two live items have the unique key %s", name);
    assert(keys->len < KEYS_MAX);
    memcpy(keys->names[keys->len++], name, sizeof name);
    return TIDE_OK;
}

tide_status work_check_keys(tide_store *store, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) live_keys *keys = calloc(1, sizeof *keys);
    assert(keys);
    /* One walk over all: a killed client's last transaction may still end meanwhile, and an item
     * that changes its status would be met twice by a walk for each. Newest first, so what comes
     * instead of an item that has ended lies behind us. */
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT, .limit = INT32_MAX};
    return tide_work_list(store, &filter, note_key, keys, err);
}

static tide_status add_live(void *arg, const tide_work_stat *stat, tide_error *err)
{
    (void)err;
    if (is_live(stat->status))
        *(int64_t *)arg += stat->count;
    return TIDE_OK;
}

static tide_status pass_lease(void *arg, const tide_work_lease_stat *stat, tide_error *err)
{
    (void)arg;
    (void)stat;
    (void)err;
    return TIDE_OK;
}

static tide_status pass_task(void *arg, const tide_work_task_stat *stat, tide_error *err)
{
    (void)arg;
    (void)stat;
    (void)err;
    return TIDE_OK;
}

tide_status work_count_live(tide_store *store, int64_t *count, tide_error *err)
{
    const tide_work_stats_fns fns = {TIDE_WORK_STATS_FNS_INIT, .item = add_live,
                                     .lease = pass_lease, .task = pass_task};
    *count = 0;
    return tide_work_stats(store, &fns, count, err);
}
