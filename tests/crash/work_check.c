#include "crash/work_check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

typedef struct found_item {
    char id[LOAD_ID_SIZE];
    char status[16];
    char kind[16];
    char output[48];
    int64_t token;
    int64_t max_retries;
    int64_t attempts; /* not released */
    int64_t ended_at_us;
    /* effects */
    int64_t checkpoints;
    int64_t checkpoint_token;
    int64_t follow_ups;
    int64_t follow_up_token;
    /* words */
    bool was_tried; /* by the token that it has */
} found_item;

struct work_found {
    found_item *items; /* by id */
    size_t len;
    size_t capacity;
};

/* ---- reading ---- */

static void copy_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text ? text : "");
}

static tide_status note_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    work_found *found = arg;
    if (found->len == found->capacity) {
        found->capacity = found->capacity ? found->capacity * 2 : 1024;
        found->items = realloc(found->items, found->capacity * sizeof *found->items);
        assert(found->items);
    }
    found_item *to = &found->items[found->len++];
    *to = (found_item){.token = item->lease_token, .max_retries = item->max_retries};
    copy_text(to->id, sizeof to->id, item->work_item_id);
    copy_text(to->status, sizeof to->status, item->status);
    copy_text(to->kind, sizeof to->kind, item->failure_kind);
    copy_text(to->output, sizeof to->output, item->output);
    return TIDE_OK;
}

static int compare_items(const void *a, const void *b)
{
    return strcmp(((const found_item *)a)->id, ((const found_item *)b)->id);
}

static found_item *find_item(const work_found *found, const char *id)
{
    found_item wanted;
    copy_text(wanted.id, sizeof wanted.id, id);
    return bsearch(&wanted, found->items, found->len, sizeof wanted, compare_items);
}

static tide_status count_attempt(void *arg, const tide_work_attempt *attempt, tide_error *err)
{
    (void)err;
    found_item *item = arg;
    item->attempts += !attempt->outcome || strcmp(attempt->outcome, "released") != 0;
    return TIDE_OK;
}

static int64_t token_in(const char *text)
{
    const char *colon = strchr(text, ':');
    return colon ? strtoll(colon + 1, NULL, 10) : -1;
}

static tide_status note_checkpoint(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    const work_found *found = arg;
    found_item *item = find_item(found, checkpoint->work_item_id);
    if (!item)
        return tide_fail(err, TIDE_E_DAMAGED, "a checkpoint of %s, which is not there",
                         checkpoint->work_item_id);
    char text[48];
    (void)snprintf(text, sizeof text, "%.*s", (int)checkpoint->snapshot.len,
                   checkpoint->snapshot.ptr);
    item->checkpoints++;
    item->checkpoint_token = token_in(text);
    return TIDE_OK;
}

/* f<token>.<root> */
static void note_follow_up(const work_found *found, const found_item *item)
{
    const char *dot = strchr(item->id, '.');
    found_item *root = dot ? find_item(found, dot + 1) : NULL;
    if (load_is_root(item->id) || !root)
        return;
    root->follow_ups++;
    root->follow_up_token = strtoll(item->id + 1, NULL, 10);
}

tide_status work_found_read(work_found **out, tide_store *store, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) work_found *found = calloc(1, sizeof *found);
    assert(found);
    const tide_work_filter all = {.limit = INT32_MAX};
    tide_status status = tide_work_list(store, &all, note_item, found, err);
    if (found->len > 0)
        qsort(found->items, found->len, sizeof *found->items, compare_items);
    const tide_journal_filter ends = {.type = "iteration_end", .with_snapshot = true};
    if (status >= TIDE_OK)
        status = tide_journal_list(store, &ends, note_checkpoint, found, err);
    for (size_t i = 0; status >= TIDE_OK && i < found->len; i++) {
        note_follow_up(found, &found->items[i]);
        status =
            tide_work_attempts(store, found->items[i].id, count_attempt, &found->items[i], err);
    }
    if (status < TIDE_OK) {
        free(found->items);
        return status;
    }
    *out = TIDE_TAKE(found);
    return TIDE_OK;
}

void work_found_free(work_found *found)
{
    if (!found)
        return;
    free(found->items);
    free(found);
}

size_t work_found_count(const work_found *found)
{
    return found->len;
}

static bool is_completed(const found_item *item)
{
    return strcmp(item->status, "completed") == 0;
}

size_t work_found_completed(const work_found *found)
{
    size_t count = 0;
    for (size_t i = 0; i < found->len; i++)
        count += is_completed(&found->items[i]);
    return count;
}

/* ---- the promises ---- */

static bool explain(char why[WORK_CHECK_WHY], const char *id, int64_t token, const char *words,
                    const char *more)
{
    (void)snprintf(why, WORK_CHECK_WHY, "%.90s under %" PRId64 ": %s%s", id, token, words, more);
    return false;
}

static bool check_word(const work_found *found, const char *word, const char *id, int64_t token,
                       char why[WORK_CHECK_WHY])
{
    found_item *item = find_item(found, id);
    if (!item)
        return explain(why, id, token, "acknowledged, and not there", "");
    if (strcmp(word, "try") == 0)
        item->was_tried = item->was_tried || token == item->token;
    if (strcmp(word, "done") == 0 && !is_completed(item))
        return explain(why, id, token, "finished, acknowledged, and now ", item->status);
    if (strcmp(word, "done") == 0 && token_in(item->output) != token)
        return explain(why, id, token, "finished, acknowledged, and now by ", item->output);
    if (strcmp(word, "fail") == 0 && strcmp(item->status, "failed") != 0)
        return explain(why, id, token, "failed, acknowledged, and now ", item->status);
    return true;
}

static bool check_effects(const found_item *item, char why[WORK_CHECK_WHY])
{
    const int64_t token = token_in(item->output);
    const bool is_many = strncmp(item->output, "{\"many\"", 7) == 0;
    const int64_t wanted = is_completed(item) && !is_many;
    if (item->checkpoints != wanted || (wanted && item->checkpoint_token != token))
        return explain(why, item->id, token, item->status, ", and not one checkpoint of its end");
    const bool is_root = load_is_root(item->id);
    if (item->follow_ups != (is_root ? wanted : 0) ||
        (is_root && wanted && item->follow_up_token != token))
        return explain(why, item->id, token, item->status, ", and its effect is there not once");
    return true;
}

static bool check_item(const found_item *item, char why[WORK_CHECK_WHY])
{
    const bool is_failed = strcmp(item->status, "failed") == 0;
    if (!is_completed(item) && !is_failed)
        return explain(why, item->id, item->token, "not ended: ", item->status);
    if (is_completed(item) && !item->was_tried)
        return explain(why, item->id, item->token, "completed, and nobody said that he would", "");
    if (item->attempts > 1 + item->max_retries)
        return explain(why, item->id, item->token, "more attempts than 1 + max_retries", "");
    const bool is_used_up =
        strcmp(item->kind, "exhausted") == 0 || strcmp(item->kind, "quarantined") == 0;
    if (is_failed && is_used_up && item->attempts != 1 + item->max_retries)
        return explain(why, item->id, item->token, item->kind, ", with attempts left");
    return check_effects(item, why);
}

bool work_found_keeps(const work_found *found, const ack_journal *journal, char why[WORK_CHECK_WHY])
{
    bool is_kept = true;
    for (size_t i = 0; is_kept && i < journal->len; i++) {
        char text[LOAD_LINE_MAX];
        char *rest = NULL;
        copy_text(text, sizeof text, journal->acks[i].text);
        const char *word = strtok_r(text, " ", &rest);
        const char *id = word ? strtok_r(NULL, " ", &rest) : NULL;
        if (!id || !*rest)
            return explain(why, journal->acks[i].text, 0, "is no word", "");
        is_kept = check_word(found, word, id, strtoll(rest, NULL, 10), why);
    }
    for (size_t i = 0; is_kept && i < found->len; i++)
        is_kept = check_item(&found->items[i], why);
    return is_kept;
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
    /* One walk over all: a killed client's last transaction may still end meanwhile, and an item that changes its status would be met twice by a walk for each. Newest first, so what
     * comes instead of an item that has ended lies behind us. */
    const tide_work_filter filter = {.limit = INT32_MAX};
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
    const tide_work_stats_fns fns = {.item = add_live, .lease = pass_lease, .task = pass_task};
    *count = 0;
    return tide_work_stats(store, &fns, count, err);
}
