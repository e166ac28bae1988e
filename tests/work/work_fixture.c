#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"

void make_task(store_test *t, const char *task_id)
{
    char made[TIDE_WORK_ID_MAX + 1];
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = task_id, .title = "A task"};
    assert_ok_err(tide_task_create(t->store, &task, made, &t->err), &t->err);
    assert_string_equal(task_id, made);
}

tide_status try_add(store_test *t, const tide_work_spec *items, int count, tide_work_added *out)
{
    return tide_work_add(t->store, items, count, out, &t->err);
}

void add_new(store_test *t, tide_work_spec item)
{
    tide_work_added added;
    if (!item.task_id)
        item.task_id = "t";
    if (!item.work_type)
        item.work_type = "job";
    if (item.max_retries == 0)
        item.max_retries = -1;
    assert_ok_err(try_add(t, &item, 1, &added), &t->err);
    assert_false(added.is_existing);
}

void add_item(store_test *t, const char *id)
{
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id});
}

held claim_with(tide_store *store, tide_work_claim_request request)
{
    tide_error err = {.text = ""};
    tide_work_claims claims;
    held h = {.token = 0};
    if (!request.worker)
        request.worker = "w";
    if (!request.lease_us)
        request.lease_us = LEASE_US;
    const tide_status status = tide_work_claim(store, &request, &claims, &err);
    if (status != TIDE_NONE)
        assert_ok_err(status, &err);
    h.next_due_us = claims.next_due_us;
    if (status == TIDE_OK) {
        const tide_work_claimed *item = &claims.items[0];
        (void)snprintf(h.id, sizeof h.id, "%s", item->work_item_id);
        (void)snprintf(h.input, sizeof h.input, "%s", item->input ? item->input : "");
        h.token = item->lease_token;
        h.attempt = item->attempt;
        h.lease_us = item->lease_us;
        h.expires_at_us = item->lease_expires_at_us;
        h.deadline_at_us = item->deadline_at_us;
    }
    tide_work_claims_done(&claims);
    return h;
}

held claim(store_test *t, const char *worker)
{
    static const char *const types[] = {"job"};
    return claim_with(t->store,
                      (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .worker = worker,
                                                .types = types, .type_count = 1});
}

const char *claim_ids(tide_store *store, tide_work_claim_request request)
{
    static char ids[8192];
    tide_error err = {.text = ""};
    tide_work_claims claims;
    if (!request.worker)
        request.worker = "w";
    const tide_status status = tide_work_claim(store, &request, &claims, &err);
    if (status != TIDE_NONE)
        assert_ok_err(status, &err);
    ids[0] = '\0';
    size_t len = 0;
    for (int i = 0; i < claims.count; i++)
        len += (size_t)snprintf(ids + len, sizeof ids - len, "%s%s", i ? " " : "",
                                claims.items[i].work_item_id);
    tide_work_claims_done(&claims);
    return ids;
}

tide_status finish(store_test *t, const held *h, const char *output)
{
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = h->id, .token = h->token,
                               .output = output};
    return tide_work_finish(t->store, &result, &t->err);
}

tide_status fail_it(store_test *t, const held *h, const char *error, bool is_final)
{
    return tide_work_fail(t->store,
                          &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = h->id,
                                               .token = h->token, .error = error,
                                               .is_final = is_final, .retry_after_us = -1},
                          NULL, &t->err);
}

tide_work_swept sweep(store_test *t)
{
    tide_work_swept swept;
    assert_ok_err(tide_work_sweep(t->store, 0, 0, &swept, &t->err), &t->err);
    return swept;
}

static void copy(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text ? text : "");
}

static tide_status copy_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    item_copy *c = arg;
    c->is_there = true;
    copy(c->status, sizeof c->status, item->status);
    copy(c->error, sizeof c->error, item->error_message);
    copy(c->kind, sizeof c->kind, item->failure_kind);
    copy(c->outcome, sizeof c->outcome, item->attempt_outcome);
    copy(c->holder, sizeof c->holder, item->lease_holder);
    copy(c->output, sizeof c->output, item->output);
    copy(c->progress, sizeof c->progress, item->progress);
    copy(c->retried_from, sizeof c->retried_from, item->retried_from);
    copy(c->schedule, sizeof c->schedule, item->schedule_name);
    copy(c->via, sizeof c->via, item->lease_via);
    c->retry_count = item->retry_count;
    c->failure_count = item->failure_count;
    c->crash_count = item->crash_count;
    c->token = item->lease_token;
    c->waits_for = item->waits_for;
    c->run_after_us = item->run_after_us;
    c->revision = item->revision;
    c->expires_at_us = item->lease_expires_at_us;
    c->heartbeat_at_us = item->heartbeat_at_us;
    c->completed_at_us = item->completed_at_us;
    c->claim_key = item->claim_key;
    c->started_at_us = item->started_at_us;
    c->deadline_at_us = item->deadline_at_us;
    c->max_retries = item->max_retries;
    c->priority = item->priority;
    c->timeout_us = item->timeout_us;
    c->has_dependents = item->has_dependents;
    return TIDE_OK;
}

item_copy look(store_test *t, const char *id)
{
    item_copy c = {.is_there = false};
    const tide_status status = tide_work_find(t->store, id, copy_item, &c, &t->err);
    if (status != TIDE_NONE)
        assert_ok_err(status, &t->err);
    return c;
}

void assert_item(store_test *t, const char *id, const char *status)
{
    const item_copy c = look(t, id);
    assert_true(c.is_there);
    assert_string_equal(status, c.status);
}

static tide_status join_outcome(void *arg, const tide_work_attempt *attempt, tide_error *err)
{
    (void)err;
    char *out = arg;
    const size_t len = strlen(out);
    (void)snprintf(out + len, 512 - len, "%s%s", len ? " " : "",
                   attempt->ended_at_us ? attempt->outcome : "-");
    return TIDE_OK;
}

const char *outcomes_of(store_test *t, const char *id)
{
    static char out[512];
    out[0] = '\0';
    assert_ok_err(tide_work_attempts(t->store, id, join_outcome, out, &t->err), &t->err);
    return out;
}

static tide_status join_snapshot(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    char *out = arg;
    const size_t len = strlen(out);
    (void)snprintf(out + len, 65536 - len, "%.*s\n", (int)checkpoint->snapshot.len,
                   checkpoint->snapshot.ptr);
    return TIDE_OK;
}

const char *boundaries_of(store_test *t, const char *task_id)
{
    static char out[65536];
    const tide_journal_filter filter = {TIDE_JOURNAL_FILTER_INIT, .task_id = task_id,
                                        .type = "error_boundary", .with_snapshot = true};
    out[0] = '\0';
    assert_ok_err(tide_journal_list(t->store, &filter, join_snapshot, out, &t->err), &t->err);
    return out;
}

static tide_status count_one(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)checkpoint;
    (void)err;
    ++*(int64_t *)arg;
    return TIDE_OK;
}

int64_t count_checkpoints(store_test *t, const char *task_id)
{
    int64_t count = 0;
    const tide_journal_filter filter = {TIDE_JOURNAL_FILTER_INIT, .task_id = task_id};
    assert_ok_err(tide_journal_list(t->store, &filter, count_one, &count, &t->err), &t->err);
    return count;
}

static tide_status run_script(tide_tx *tx, void *arg, tide_error *err)
{
    return tx->store->ops->script(tx, arg, err);
}

tide_status try_sql(store_test *t, const char *text)
{
    return tide_store_write(t->store, run_script, (void *)text, &t->err);
}

void run_sql(store_test *t, const char *text)
{
    assert_ok_err(try_sql(t, text), &t->err);
}

typedef struct reasons {
    char codes[256];
    char *words;
} reasons;

static void join_reason(void *arg, const char *code, const char *words)
{
    reasons *r = arg;
    const size_t len = strlen(r->codes);
    (void)snprintf(r->codes + len, sizeof r->codes - len, "%s%s", len ? " " : "", code);
    if (r->words)
        (void)snprintf(r->words, 512, "%s", words);
}

const char *reasons_of(store_test *t, const char *id, char words[512])
{
    static reasons r;
    r.codes[0] = '\0';
    r.words = words;
    assert_ok_err(tide_work_explain(t->store, id, join_reason, &r, &t->err), &t->err);
    return r.codes;
}
