/* idempotency_keys.c - looking after keys: find, list, delete, clean. */
#include <tidemark/idempotency.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "core/idempotency_keys.h"
#include "core/idempotency_row.h"
#include "core/value_digest.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    PAGE = 100,
    PAGE_BYTES_MAX = 64 << 20, /* of PAGE keys without their answers */
    KEY_BYTES_MAX = TIDE_TX_BYTES_MAX + (1 << 20),
    CLEAN_STEP = 500, /* keys removed by one transaction */
};

/* ---- find, list ---- */

typedef struct page {
    const char *status;  /* NULL: any */
    const char *task_id; /* NULL: any */
    const char *name;    /* of find */
    int64_t limit;
    char after[TIDE_IDEMPOTENCY_KEY_MAX]; /* the last name of the page before, bytes of any kind */
    size_t after_len;
    char last[TIDE_IDEMPOTENCY_KEY_MAX]; /* of this page */
    size_t last_len;
    tide_idempotency_times times;
    tide_arena arena;
    int count;
    tide_idempotency_key keys[PAGE];
} page;

static void free_page(page **p)
{
    if (*p)
        tide_arena_done(&(*p)->arena);
    free(*p);
}

static page *new_page(size_t bytes_max)
{
    page *p = calloc(1, sizeof *p);
    if (p)
        tide_arena_init(&p->arena, bytes_max);
    return p;
}

/* A text column; NULL stays NULL. Sets *is_short when there is no memory. */
static const char *keep_text(tide_query *query, tide_arena *arena, bool *is_short)
{
    const bool is_null = tide_query_col_is_null(query);
    const tide_view text = tide_query_col_text(query);
    if (is_null)
        return NULL;
    const char *copy = tide_arena_text(arena, text);
    if (!copy)
        *is_short = true;
    return copy;
}

/* The columns of idempotency_list, which are also the first ones of idempotency_show. */
static tide_status read_key(tide_query *query, page *p, tide_idempotency_key *key, tide_error *err)
{
    bool is_short = false;
    const tide_view name = tide_query_col_text(query);
    p->last_len = name.len < sizeof p->last ? name.len : sizeof p->last;
    memcpy(p->last, name.ptr, p->last_len);
    *key = (tide_idempotency_key){.name = tide_arena_text(&p->arena, name)};
    key->task_id = keep_text(query, &p->arena, &is_short);
    key->work_item_id = keep_text(query, &p->arena, &is_short);
    key->request_hash = keep_text(query, &p->arena, &is_short);
    key->status = keep_text(query, &p->arena, &is_short);
    key->lock_holder = keep_text(query, &p->arena, &is_short);
    key->lock_via = keep_text(query, &p->arena, &is_short);
    key->policy = keep_text(query, &p->arena, &is_short);
    if (is_short || !key->name)
        return tide_no_memory(err);
    key->has_response = tide_query_col_bool(query);
    key->lock_token = tide_query_col_i64(query);
    key->lock_expires_at_us = tide_idempotency_col_time(query);
    key->attempts = tide_query_col_i64(query);
    key->created_at_us = tide_idempotency_col_time(query);
    key->completed_at_us = tide_idempotency_col_time(query);
    key->expires_at_us = tide_idempotency_col_time(query);
    key->is_locked =
        strcmp(key->status, "pending") == 0 && key->lock_expires_at_us > p->times.lock_now_us;
    return TIDE_OK;
}

static tide_status find_key(tide_tx *tx, void *arg, tide_error *err)
{
    page *p = arg;
    tide_idempotency_key *key = &p->keys[0];
    tide_arena_reset(&p->arena);
    TIDE_TRY(tide_idempotency_times_get(tx, &p->times, err));
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_IDEMPOTENCY_SHOW, err, tide_bind_text("name", p->name));
    TIDE_TRY(read_key(query, p, key, err));
    if (key->expires_at_us != 0 && key->expires_at_us <= p->times.now_us && !key->is_locked)
        return TIDE_NONE;
    if (key->has_response) {
        const tide_view response = tide_query_col_text(query);
        if (!tide_query_col_is_null(query))
            TIDE_TRY(tide_idempotency_row_check(tide_query_col_i64(query), p->name, response, err));
        key->response.ptr = tide_arena_text(&p->arena, response);
        key->response.len = response.len;
        TIDE_NEED_MEMORY(key->response.ptr, err);
    }
    return TIDE_OK;
}

tide_status tide_idempotency_find(tide_store *store, const char *name, tide_idempotency_key_fn *fn,
                                  void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_TRY(tide_idempotency_check_name(name, err));
    TIDE_CLEANUP(free_page) page *p = new_page(KEY_BYTES_MAX);
    TIDE_NEED_MEMORY(p, err);
    p->name = name;
    const tide_status status = tide_store_read(store, find_key, p, err);
    return status == TIDE_OK ? tide_callback_check(fn(arg, &p->keys[0], err), err) : status;
}

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    page *p = arg;
    p->count = 0;
    tide_arena_reset(&p->arena);
    TIDE_TRY(tide_idempotency_times_get(tx, &p->times, err));
    TIDE_QUERY(query, tx, TIDE_SQL_IDEMPOTENCY_LIST, err,
               tide_bind_view("after", tide_view_bytes(p->after, p->after_len)),
               tide_bind_text("status", p->status), tide_bind_text("task_id", p->task_id),
               tide_bind_i64("limit", p->limit));
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK)
        TIDE_TRY(read_key(query, p, &p->keys[p->count++], err));
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_idempotency_list(tide_store *store, const tide_idempotency_filter *given,
                                  tide_idempotency_key_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    tide_idempotency_filter filter;
    TIDE_TRY(TIDE_SIZED_COPY(&filter, given, tide_idempotency_filter, err));
    const char *status = filter.status;
    const int64_t limit = filter.limit;
    if (limit < 0)
        return tide_fail(err, TIDE_E_INVALID, "limit %" PRId64 ", want 0 (all) or more", limit);
    if (status && strcmp(status, "pending") != 0 && strcmp(status, "completed") != 0 &&
        strcmp(status, "failed") != 0)
        return tide_fail(err, TIDE_E_INVALID, "a status is pending, completed or failed, not '%s'",
                         status);
    int64_t left = limit ? limit : INT64_MAX;
    TIDE_CLEANUP(free_page) page *p = new_page(PAGE_BYTES_MAX);
    TIDE_NEED_MEMORY(p, err);
    p->status = status;
    p->task_id = filter.task_id;
    do {
        p->limit = left < PAGE ? left : PAGE;
        TIDE_TRY(tide_store_read(store, read_page, p, err));
        for (int i = 0; i < p->count; i++)
            TIDE_TRY(tide_callback_check(fn(arg, &p->keys[i], err), err));
        memcpy(p->after, p->last, p->last_len);
        p->after_len = p->last_len;
        left -= p->count;
    } while (p->count == PAGE && left > 0);
    return TIDE_OK;
}

/* ---- delete, clean ---- */

typedef struct delete_call {
    const char *name;
    bool is_forced;
} delete_call;

static tide_status unlock_key(tide_tx *tx, const char *name, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_IDEMPOTENCY_UNLOCK, NULL, err, tide_bind_text("name", name));
}

static tide_status delete_key(tide_tx *tx, void *arg, tide_error *err)
{
    const delete_call *call = arg;
    tide_idempotency_times times;
    tide_idempotency_row row = {.token = 0};
    TIDE_TRY(tide_idempotency_times_get(tx, &times, err));
    tide_status status = tide_idempotency_row_lock(tx, call->name, err);
    if (status == TIDE_OK)
        status = tide_idempotency_row_look(tx, call->name, &times, &row, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no key %s", call->name);
    if (row.is_locked && !call->is_forced)
        return tide_fail(err, TIDE_E_CONFLICT, "%s works on the key %s, for another %.1f s at most",
                         row.holder[0] ? row.holder : "somebody", call->name,
                         (double)(row.lock_expires_at_us - times.lock_now_us) / 1e6);
    TIDE_TRY(unlock_key(tx, call->name, err));
    return tide_tx_exec(tx, TIDE_SQL_IDEMPOTENCY_REMOVE, NULL, err,
                        tide_bind_text("name", call->name));
}

tide_status tide_idempotency_delete(tide_store *store, const char *name, bool is_forced,
                                    tide_error *err)
{
    TIDE_NEED(store, err);
    delete_call call = {.name = name, .is_forced = is_forced};
    TIDE_TRY(tide_idempotency_check_name(name, err));
    return tide_store_write(store, delete_key, &call, err);
}

typedef struct clean_call {
    int64_t keep_us;
    bool is_any; /* also completed keys that have an expiry of their own */
    int64_t removed;
} clean_call;

static tide_status clean_expired(tide_tx *tx, void *arg, tide_error *err)
{
    clean_call *call = arg;
    tide_idempotency_times times;
    TIDE_TRY(tide_idempotency_times_get(tx, &times, err));
    TIDE_TRY(tide_tx_exec(
        tx, TIDE_SQL_IDEMPOTENCY_UNLOCK_EXPIRED, NULL, err, tide_bind_time("now", times.now_us),
        tide_bind_time("lock_now", times.lock_now_us), tide_bind_i64("limit", CLEAN_STEP)));
    return tide_tx_exec(tx, TIDE_SQL_IDEMPOTENCY_REMOVE_EXPIRED, &call->removed, err,
                        tide_bind_time("now", times.now_us), tide_bind_i64("limit", CLEAN_STEP));
}

static tide_status clean_old(tide_tx *tx, void *arg, tide_error *err)
{
    clean_call *call = arg;
    return tide_tx_exec(tx, TIDE_SQL_IDEMPOTENCY_REMOVE_OLD, &call->removed, err,
                        tide_bind_now_plus("before", -call->keep_us),
                        tide_bind_bool("is_any", call->is_any), tide_bind_i64("limit", CLEAN_STEP));
}

tide_status tide_idempotency_clean_step(tide_store *store, int64_t keep_us, bool is_any,
                                        int64_t *removed, bool *has_more, tide_error *err)
{
    TIDE_NEED(store, err);
    if (keep_us < 0 || keep_us > TIDE_IDEMPOTENCY_EXPIRY_MAX_US)
        return tide_fail(err, TIDE_E_INVALID,
                         "completed keys are kept for up to 100 years, not %" PRId64 " us",
                         keep_us);
    clean_call call = {.keep_us = keep_us ? keep_us : TIDE_IDEMPOTENCY_KEEP_US, .is_any = is_any};
    static tide_tx_fn *const passes[] = {clean_expired, clean_old};
    *removed = 0;
    *has_more = false;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        TIDE_TRY(tide_store_write(store, passes[i], &call, err));
        *removed += call.removed;
        *has_more = *has_more || call.removed == CLEAN_STEP;
    }
    return TIDE_OK;
}

tide_status tide_idempotency_clean(tide_store *store, int64_t keep_us, int64_t *removed,
                                   tide_error *err)
{
    int64_t sum = 0;
    bool has_more = true;
    tide_status status = TIDE_OK;
    while (status >= TIDE_OK && has_more) {
        int64_t count = 0;
        status = tide_idempotency_clean_step(store, keep_us, keep_us != 0, &count, &has_more, err);
        sum += count;
    }
    if (removed)
        *removed = sum;
    return status;
}

/* ---- verify ---- */

tide_status tide_idempotency_verify(tide_store *store, tide_store_finding_fn *fn, void *arg,
                                    tide_values_checked *out, tide_error *err)
{
    TIDE_NEED(store && fn && out, err);
    static const tide_value_table responses = {.page = TIDE_SQL_IDEMPOTENCY_VERIFY,
                                               .what = TIDE_IDEMPOTENCY_WHAT,
                                               .kinds = {TIDE_IDEMPOTENCY_VALUE}};
    return tide_values_verify(store, &responses, fn, arg, out, err);
}
