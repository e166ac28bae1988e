/* resume.c - what a resumer of a task needs: in one snapshot, under a lease that keeps a second resumer out.
 *
 * The lease is claimed in a write; then one read collects everything, and only when that has ended is the caller told: a
 * read may be run again. A task's history is that of its forks' parents, too. */
#include <tidemark/work.h>

#include <errno.h>
#include <stdlib.h>

#include <tidemark/lease.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/json_scan.h"
#include "core/lease_end.h"
#include "journal/fence.h"
#include "work/task/resume.h"

/* ---- the lease ---- */

typedef struct lease_request {
    const char *task_id;
    const char *holder;
    int64_t token;
    int64_t lease_us;
    bool is_forced;
    tide_lease lease;
} lease_request;

static tide_status claim_task(tide_tx *tx, void *arg, tide_error *err)
{
    lease_request *request = arg;
    char name[TIDE_FENCE_NAME_SIZE];
    tide_fence_name(name, request->task_id);
    TIDE_TRY(tide_item_check_task(tx, request->task_id, "there is nothing to resume", err));
    TIDE_TRY(tide_fence_lock(tx, request->task_id, err));
    return tide_lease_claim(tx, name, request->holder, request->lease_us, &request->lease, err);
}

static tide_status renew_task(tide_tx *tx, void *arg, tide_error *err)
{
    const lease_request *request = arg;
    char name[TIDE_FENCE_NAME_SIZE];
    tide_fence_name(name, request->task_id);
    return tide_lease_renew(tx, name, request->token, request->lease_us, err);
}

static tide_status release_task(tide_tx *tx, void *arg, tide_error *err)
{
    const lease_request *request = arg;
    char name[TIDE_FENCE_NAME_SIZE];
    tide_fence_name(name, request->task_id);
    if (!request->is_forced)
        return tide_lease_release(tx, name, request->token, err);
    TIDE_TRY(tide_item_find_task(tx, request->task_id, err));
    TIDE_TRY(tide_fence_lock(tx, request->task_id, err));
    return tide_lease_end(tx, name, err);
}

tide_status tide_task_renew(tide_store *store, const char *task_id, int64_t lease_token,
                            int64_t lease_us, tide_error *err)
{
    TIDE_NEED(store, err);
    lease_request request = {.task_id = task_id, .token = lease_token};
    TIDE_TRY(tide_item_check_id("a task's id", task_id, err));
    TIDE_TRY(tide_item_check_lease(lease_us, &request.lease_us, err));
    return tide_store_write_by_id(store, renew_task, &request, true, err);
}

tide_status tide_task_release(tide_store *store, const char *task_id, int64_t lease_token,
                              bool is_forced, tide_error *err)
{
    TIDE_NEED(store, err);
    lease_request request = {.task_id = task_id, .token = lease_token, .is_forced = is_forced};
    TIDE_TRY(tide_item_check_id("a task's id", task_id, err));
    return tide_store_write(store, release_task, &request, err);
}

/* ---- telling ---- */

static bool read_integer(tide_view text, int64_t *out)
{
    char digits[24];
    char *end = NULL;
    if (text.len == 0 || text.len >= sizeof digits)
        return false;
    tide_view_copy(digits, sizeof digits, text);
    errno = 0;
    *out = strtoll(digits, &end, 10);
    return errno == 0 && end == digits + text.len;
}

/* The member "iteration" of an object, if it is a whole number. */
static bool find_iteration(tide_view snapshot, int64_t *out)
{
    static const tide_view wanted = {.ptr = "\"iteration\"", .len = sizeof "\"iteration\"" - 1};
    tide_json_scan scan;
    tide_json_token token = {.kind = TIDE_JSON_END};
    int depth = 0;
    bool is_next = false;
    tide_json_scan_init(&scan, snapshot);
    while (tide_json_scan_next(&scan, &token, NULL) == TIDE_OK && token.kind != TIDE_JSON_END) {
        if (is_next && token.kind == TIDE_JSON_NUMBER && token.is_integer)
            return read_integer(token.text, out);
        is_next = token.kind == TIDE_JSON_KEY && depth == 1 && tide_view_equal(token.text, wanted);
        depth += token.kind == TIDE_JSON_OBJECT_BEGIN || token.kind == TIDE_JSON_ARRAY_BEGIN;
        depth -= token.kind == TIDE_JSON_OBJECT_END || token.kind == TIDE_JSON_ARRAY_END;
    }
    return false;
}

static tide_status tell_iteration(const tide_resume *r, const tide_task_resume_fns *fns, void *arg,
                                  tide_error *err)
{
    if (r->end->count == 0)
        return tide_callback_check(fns->iteration(arg, NULL, 1, err), err);
    const tide_journal_row *row = &r->end->rows[0];
    TIDE_TRY(tide_journal_row_check(row, err));
    int64_t iteration = 0;
    if (!find_iteration(row->checkpoint.snapshot, &iteration) || iteration == INT64_MAX)
        iteration = r->end_count; /* -1: unknown, so the next one is told as 0 */
    return tide_callback_check(fns->iteration(arg, &row->checkpoint, iteration + 1, err), err);
}

static tide_status tell_later(const tide_resume *r, const tide_task_resume_fns *fns, void *arg,
                              tide_error *err)
{
    for (int p = 0; p < r->later_count; p++) {
        for (int i = 0; i < r->later[p]->count; i++) {
            TIDE_TRY(tide_journal_row_check(&r->later[p]->rows[i], err));
            TIDE_TRY(
                tide_callback_check(fns->later(arg, &r->later[p]->rows[i].checkpoint, err), err));
        }
    }
    return TIDE_OK;
}

static tide_status tell(const tide_resume *r, const tide_task_resume_fns *fns, void *arg,
                        tide_error *err)
{
    for (int i = 0; i < r->item_count && fns->item; i++)
        TIDE_TRY(tide_callback_check(fns->item(arg, &r->items[i], err), err));
    if (fns->iteration)
        TIDE_TRY(tell_iteration(r, fns, arg, err));
    if (fns->later)
        TIDE_TRY(tell_later(r, fns, arg, err));
    for (int i = 0; i < r->key_count && fns->response; i++)
        TIDE_TRY(tide_callback_check(fns->response(arg, &r->keys[i], err), err));
    return TIDE_OK;
}

static tide_status read_and_tell(tide_store *store, const char *task_id,
                                 const tide_task_resume_fns *fns, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_resume_done) tide_resume r;
    TIDE_TRY(tide_resume_init(&r, task_id, err));
    TIDE_TRY(tide_store_read(store, tide_resume_read, &r, err));
    return tell(&r, fns, arg, err);
}

tide_status tide_task_resume(tide_store *store, const tide_task_resume_request *given,
                             const tide_task_resume_fns *given_fns, void *arg, tide_task_lease *out,
                             tide_error *err)
{
    TIDE_NEED(store && out, err);
    tide_task_resume_request wanted;
    tide_task_resume_fns fns;
    TIDE_TRY(TIDE_SIZED_COPY(&wanted, given, tide_task_resume_request, err));
    TIDE_TRY(TIDE_SIZED_COPY(&fns, given_fns, tide_task_resume_fns, err));
    lease_request request = {.task_id = wanted.task_id, .holder = wanted.holder};
    TIDE_TRY(tide_item_check_id("a task's id", wanted.task_id, err));
    TIDE_TRY(tide_item_check_name("a holder's name", wanted.holder, TIDE_LEASE_HOLDER_MAX, err));
    TIDE_TRY(tide_item_check_lease(wanted.lease_us, &request.lease_us, err));
    TIDE_TRY(tide_store_write(store, claim_task, &request, err));
    const tide_status status = read_and_tell(store, wanted.task_id, &fns, arg, err);
    if (status < TIDE_OK) {
        /* Nobody is to wait for a resumer that was told nothing. */
        request.token = request.lease.token;
        tide_error ignored;
        TIDE_IGNORE(tide_store_write(store, release_task, &request, &ignored));
        return status;
    }
    *out = (tide_task_lease){.token = request.lease.token,
                             .expires_at_us = request.lease.expires_at_us};
    return TIDE_OK;
}
