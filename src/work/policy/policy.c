#include "work/policy/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/list.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"

enum { POLICIES_MAX = 100000 };

static const struct {
    unsigned flag;
    const char *word;
} kinds[] = {{TIDE_WORK_NO_RETRY_ERROR, "error"},
             {TIDE_WORK_NO_RETRY_CRASH, "crash"},
             {TIDE_WORK_NO_RETRY_TIMEOUT, "timeout"}};

static const tide_work_policy defaults = {TIDE_WORK_POLICY_INIT, .max_retries = -1};

tide_status tide_work_no_retry_parse(unsigned *flag, const char *word, tide_error *err)
{
    for (size_t i = 0; word && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(word, kinds[i].word) == 0) {
            *flag = kinds[i].flag;
            return TIDE_OK;
        }
    return tide_fail(err, TIDE_E_INVALID, "no retry after '%.40s'? known are error, crash, timeout",
                     word ? word : "");
}

void tide_work_no_retry_text(char out[TIDE_WORK_NO_RETRY_SIZE], unsigned flags)
{
    if (!out)
        return;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (flags & kinds[i].flag) {
            const size_t len = strlen(out);
            (void)snprintf(out + len, TIDE_WORK_NO_RETRY_SIZE - len, "%s%s", len ? "," : "",
                           kinds[i].word);
        }
}

/* Plain SQL may have written other words: they mean nothing. */
static unsigned read_flags(tide_view text)
{
    unsigned flags = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (text.len > 0 && memmem(text.ptr, text.len, kinds[i].word, strlen(kinds[i].word)))
            flags |= kinds[i].flag;
    return flags;
}

static int64_t read_number(tide_query *query, int64_t otherwise)
{
    const bool is_null = tide_query_col_is_null(query);
    const int64_t value = tide_query_col_i64(query);
    return is_null ? otherwise : value;
}

static void read_policy(tide_query *query, tide_work_policy *out)
{
    *out = defaults;
    out->max_retries = read_number(query, -1);
    out->backoff_us = read_number(query, 0);
    out->backoff_max_us = read_number(query, 0);
    out->no_retry = read_flags(tide_query_col_text(query));
}

/* ---- for the ends of attempts ---- */

tide_status tide_policy_get(tide_tx *tx, const char *work_type, tide_work_policy *out,
                            tide_error *err)
{
    *out = defaults;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_POLICY_GET, err, tide_bind_text("type", work_type));
    if (status == TIDE_OK)
        read_policy(query, out);
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_policies_read(tide_tx *tx, tide_policies *out, tide_arena *arena, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_POLICY_LIST, err));
    out->count = 0;
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        TIDE_TRY(tide_list_room(&out->items, out->count, sizeof *out->items, POLICIES_MAX, err));
        tide_row row = {.query = query, .arena = arena};
        const char *work_type = tide_row_text(&row);
        tide_work_policy *policy = &out->items[out->count++];
        read_policy(query, policy);
        policy->work_type = work_type;
        TIDE_TRY(tide_row_end(&row, err));
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

void tide_policies_done(tide_policies *policies)
{
    free(policies->items);
}

const tide_work_policy *tide_policies_find(const tide_policies *policies, const char *work_type)
{
    for (int i = 0; i < policies->count; i++)
        if (strcmp(policies->items[i].work_type, work_type) == 0)
            return &policies->items[i];
    return &defaults;
}

int64_t tide_policy_backoff_us(const tide_work_policy *policy, tide_tx *tx, int64_t retry)
{
    const int64_t base_us = policy->backoff_us > 0 ? policy->backoff_us : TIDE_WORK_BACKOFF_US;
    const int64_t cap_us =
        policy->backoff_max_us > 0 ? policy->backoff_max_us : TIDE_WORK_BACKOFF_MAX_US;
    const tide_backoff backoff = {.base_us = base_us,
                                  .cap_us = cap_us > base_us ? cap_us : base_us};
    const int64_t wait_us = tide_backoff_next(&backoff, retry > 62 ? 62 : (int)retry,
                                              tide_store_env(tide_tx_store(tx)));
    /* Jitter may be below what the policy promises. */
    return policy->backoff_us > 0 && wait_us < base_us ? base_us : wait_us;
}

/* ---- for people ---- */

static bool is_default(const tide_work_policy *p)
{
    return p->max_retries < 0 && p->backoff_us == 0 && p->backoff_max_us == 0 && p->no_retry == 0;
}

tide_status tide_work_policy_set(tide_store *store, const tide_work_policy *given, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_work_policy policy;
    TIDE_TRY(TIDE_SIZED_COPY(&policy, given, tide_work_policy, err));
    TIDE_TRY(tide_item_check_name("a work type", policy.work_type, TIDE_WORK_TYPE_MAX, err));
    if (policy.max_retries >= 0)
        TIDE_TRY(
            tide_item_check_range("retries", policy.max_retries, 0, TIDE_ITEM_RETRIES_MAX, err));
    TIDE_TRY(tide_item_check_range("back-off", policy.backoff_us, 0, TIDE_ITEM_DELAY_MAX_US, err));
    TIDE_TRY(tide_item_check_range("longest back-off", policy.backoff_max_us, policy.backoff_us,
                                   TIDE_ITEM_DELAY_MAX_US, err));
    if (policy.backoff_us == 0 && policy.backoff_max_us > 0)
        return tide_fail(err, TIDE_E_INVALID, "a longest back-off needs a shortest one");
    if (is_default(&policy))
        return tide_store_exec(store, TIDE_SQL_POLICY_DELETE, NULL, err,
                               tide_bind_text("type", policy.work_type));
    char words[TIDE_WORK_NO_RETRY_SIZE];
    tide_work_no_retry_text(words, policy.no_retry);
    return tide_store_exec(
        store, TIDE_SQL_POLICY_SET, NULL, err, tide_bind_text("type", policy.work_type),
        TIDE_BIND_IF(policy.max_retries >= 0, tide_bind_i64("max_retries", policy.max_retries)),
        TIDE_BIND_IF(policy.backoff_us > 0, tide_bind_i64("backoff_us", policy.backoff_us)),
        TIDE_BIND_IF(policy.backoff_max_us > 0,
                     tide_bind_i64("backoff_max_us", policy.backoff_max_us)),
        tide_bind_text("no_retry", words));
}

typedef struct find_request {
    const char *work_type;
    tide_work_policy *out;
} find_request;

static tide_status find_policy(tide_tx *tx, void *arg, tide_error *err)
{
    const find_request *request = arg;
    return tide_policy_get(tx, request->work_type, request->out, err);
}

tide_status tide_work_policy_get(tide_store *store, const char *work_type, tide_work_policy *out,
                                 tide_error *err)
{
    TIDE_NEED(store && out, err);
    TIDE_TRY(tide_sized_check(out, sizeof *out, "tide_work_policy", err));
    TIDE_TRY(tide_item_check_name("a work type", work_type, TIDE_WORK_TYPE_MAX, err));
    find_request request = {.work_type = work_type, .out = out};
    TIDE_TRY(tide_store_read(store, find_policy, &request, err));
    out->work_type = work_type;
    return is_default(out) ? TIDE_NONE : TIDE_OK;
}
