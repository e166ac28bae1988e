/* commit.c - a change becomes a snapshot: attempts, refusals, replays.
 *
 *     it dies or fails                          then
 *     before COMMIT                             nothing happened; files that the caller brought are his to remove
 *     during it, the answer is lost             tried again under its key: the head's lock is free only when the first has ended, so either the key is there, with
 *                                               the id of this attempt (committed) or of another (a replay), or it never was
 *     the server stays away                     TIDE_E_OUTCOME_UNKNOWN; repeating with the same request key finds out
 *
 * Once a try may have committed, only an answer that was read behind the head's lock ends the doubt: any other failure leaves it. */
#include "lake/change_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "base/text/uuid.h"
#include "lake/expose.h"
#include "lake/mark.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

static const tide_backoff retry_policy = {.base_us = 4000, .cap_us = 250000};
#define RETRY_BUDGET_US INT64_C(60000000)

/* ---- one attempt ---- */

tide_status lake_number_files(lake_try *c, const int64_t *ids, tide_lake_digest *digest,
                              tide_error *err)
{
    int next = 0;
    for (lake_file *file = c->change->files; file; file = file->next) {
        if (!file->table->is_there)
            continue;
        file->id = ids[next++];
        const tide_lake_file_row row = {.id = file->id,
                                        .table_id = file->table->is.seen.id,
                                        .data_file_id = file->data_file_id,
                                        .path = tide_view_of(file->file.path),
                                        .is_relative = true,
                                        .records = file->file.record_count,
                                        .bytes = file->file.file_size_bytes,
                                        .footer = file->file.footer_size,
                                        .has_footer = true};
        tide_lake_digest one;
        TIDE_TRY(file->is_delete ? tide_lake_delete_file_digest(&row, &one, err)
                                 : tide_lake_data_file_digest(&row, &one, err));
        tide_lake_digest_add(digest, &one);
    }
    return TIDE_OK;
}

static tide_status number_files(tide_tx *tx, lake_try *c, tide_lake_digest *digest, tide_error *err)
{
    c->left.count = 0;
    if (c->plan.file_count == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_freep) int64_t *ids = calloc((size_t)c->plan.file_count, sizeof *ids);
    TIDE_NEED_MEMORY(ids, err);
    TIDE_TRY(tide_lake_file_ids(c->change->lake, tx, c->plan.file_count, ids, &c->left, err));
    return lake_number_files(c, ids, digest, err);
}

typedef struct refusal {
    bool is_gone; /* the catalog */
    bool has_key; /* the key is there */
    bool is_own;  /* under this attempt's id */
    bool is_unpinned;
    int64_t snapshot;
    int64_t parent;
    int64_t rows;
    bool is_same; /* request */
    bool is_too_old;
    int64_t known_from;
    bool is_conflict;
    char mark[TIDE_LAKE_NAME_MAX + 64];
    char author[100];
} refusal;

static tide_status look_for_key(tide_tx *tx, const lake_try *c, refusal *out, tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_LAKE_SQL_LAKE_KEY_FIND, err,
                   tide_bind_i64("catalog_id", c->change->catalog.catalog_id),
                   tide_bind_text("key", c->key));
    out->has_key = true;
    out->snapshot = tide_query_col_i64(query);
    out->parent = tide_query_col_i64(query);
    out->is_same = tide_view_equal(tide_query_col_blob(query),
                                   c->options ? c->options->request_hash : tide_view_bytes("", 0));
    out->rows = tide_query_col_i64(query);
    out->is_own = tide_view_equal(tide_query_col_text(query), tide_view_of(c->change->attempt));
    return TIDE_OK;
}

bool lake_try_asks(const lake_try *c)
{
    return c->has_key || c->runs > 1 || c->change->outcome == TIDE_LAKE_UNKNOWN;
}

const char *lake_try_pin(const lake_try *c)
{
    return c->options ? c->options->pin_id : NULL;
}

/* SQLite: the writer is alone, and clean-up writes before it looks. */
static tide_status look_for_pin(tide_tx *tx, const lake_try *c, refusal *out, tide_error *err)
{
    if (!lake_try_pin(c))
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_PIN_FIND, err,
                    tide_bind_text("id", lake_try_pin(c)), tide_bind_now("now"));
    out->is_unpinned = status == TIDE_NONE;
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status look_for_mark(tide_tx *tx, const lake_try *c, refusal *out, tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_LAKE_SQL_LAKE_CONFLICT_FIND, err,
                   tide_bind_i64("catalog_id", c->change->catalog.catalog_id),
                   tide_bind_i64("base", c->change->base),
                   tide_bind_view("fears", tide_buffer_view(&c->plan.fears)));
    const tide_view mark = tide_query_col_text(query);
    out->is_conflict = true;
    tide_view_copy(out->mark, sizeof out->mark, mark);
    out->snapshot = tide_query_col_i64(query);
    const tide_view author = tide_utf8_cut(tide_query_col_text(query), sizeof out->author - 1);
    tide_view_copy(out->author, sizeof out->author, author);
    return TIDE_OK;
}

/* Why can it not go on? Read where nothing can change: under the lock, or afterwards (marks and keys stay). */
static tide_status look_for_refusal(tide_tx *tx, const lake_try *c, refusal *out, tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_TRY(look_for_key(tx, c, out, err));
    if (out->has_key)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_HEAD_GET, err,
                    tide_bind_i64("catalog_id", c->change->catalog.catalog_id));
    TIDE_TRY(status);
    out->is_gone = status == TIDE_NONE;
    if (out->is_gone)
        return TIDE_OK;
    (void)tide_query_col_i64(query);
    out->known_from = tide_query_col_i64(query);
    TIDE_TRY(look_for_pin(tx, c, out, err));
    if (out->is_unpinned)
        return TIDE_OK;
    out->is_too_old = c->change->base < out->known_from;
    return out->is_too_old ? TIDE_OK : look_for_mark(tx, c, out, err);
}

static bool is_refused(const refusal *r)
{
    return r->is_gone || r->has_key || r->is_unpinned || r->is_too_old || r->is_conflict;
}

/* The head is locked, or the writer is alone: a plain look. */
static tide_status check_plainly(tide_tx *tx, const lake_try *c, tide_error *err)
{
    refusal r;
    TIDE_TRY(look_for_refusal(tx, c, &r, err));
    return is_refused(&r) ? tide_fail(err, TIDE_E_CONFLICT,
                                      "somebody else's commit stood in the way: read the current "
                                      "state and try again")
                          : TIDE_OK;
}

/* In the same pipeline as the lock: the server itself fails the transaction. */
static tide_status check_deferred(tide_tx *tx, const lake_try *c, tide_error *err)
{
    return tide_tx_defer(tx, TIDE_LAKE_SQL_LAKE_REFUSE, err,
                         tide_bind_i64("catalog_id", c->change->catalog.catalog_id),
                         tide_bind_i64("base", c->change->base),
                         tide_bind_view("fears", tide_buffer_view(&c->plan.fears)),
                         tide_bind_text("key", lake_try_asks(c) ? c->key : NULL),
                         tide_bind_text("pin", lake_try_pin(c)), tide_bind_clock("clock"));
}

static tide_status write_commit(tide_tx *tx, void *arg, tide_error *err)
{
    lake_try *c = arg;
    const int64_t catalog_id = c->change->catalog.catalog_id;
    tide_lake_digest digest = c->plan.digest;
    c->runs++;
    c->parent = TIDE_LAKE_UNANSWERED;
    TIDE_TRY(number_files(tx, c, &digest, err));
    TIDE_TRY(tide_lake_next_snapshot(tx, catalog_id, c->plan.schema_step, digest.sums, &c->snapshot,
                                     err));
    if (c->plan.has_drops)
        TIDE_TRY(tide_tx_take_counters(tx, err));
    const bool is_sqlite = tide_store_engine(c->change->store) == TIDE_ENGINE_SQLITE;
    if (c->plan.has_drops || is_sqlite)
        TIDE_TRY(check_plainly(tx, c, err));
    if (!is_sqlite)
        TIDE_TRY(check_deferred(tx, c, err));
    if (c->plan.has_drops)
        TIDE_TRY(lake_write_drops(tx, c->change, err));
    TIDE_TRY(lake_write_things(tx, c->change, err));
    TIDE_TRY(lake_write_files(tx, c->change, err));
    const lake_publication what = {.catalog_id = catalog_id,
                                   .base = c->change->base,
                                   .changes = tide_buffer_text(&c->plan.tokens),
                                   .marks = tide_buffer_text(&c->plan.leaves),
                                   .key = c->key,
                                   .attempt = c->change->attempt,
                                   .hash = c->options ? c->options->request_hash
                                                      : tide_view_bytes("", 0),
                                   .rows = c->plan.rows_added,
                                   .options = c->options,
                                   .parent = &c->parent};
    TIDE_TRY(lake_publish(tx, &what, err));
    const tide_lake_change *change = c->change;
    return lake_settle_bounds(tx, &change, 1, err);
}

/* ---- refusals in words ---- */

static tide_status explain_conflict(const lake_try *c, const refusal *r, tide_error *err)
{
    tide_lake_collision *with = &c->change->collision;
    with->snapshot_id = r->snapshot;
    memcpy(with->mark, r->mark, sizeof with->mark);
    memcpy(with->author, r->author, sizeof with->author);
    return tide_fail(err, TIDE_E_CONFLICT,
                     "snapshot %" PRId64 " of catalog %s, by %s%s%s, %s since snapshot %" PRId64
                     ", which this change is based on (%s): read the current state and try again",
                     r->snapshot, c->change->catalog.name, r->author[0] ? "'" : "",
                     r->author[0] ? r->author : "an unnamed author", r->author[0] ? "'" : "",
                     tide_lake_mark_words(r->mark), c->change->base, r->mark);
}

typedef struct explanation {
    const lake_try *c;
    refusal r;
} explanation;

static tide_status explain(tide_tx *tx, void *arg, tide_error *err)
{
    explanation *e = arg;
    return look_for_refusal(tx, e->c, &e->r, err);
}

static void fill_answer(const lake_try *c, tide_lake_committed *out)
{
    *out = (tide_lake_committed){.snapshot_id = c->snapshot,
                                 .parent_snapshot_id = c->parent,
                                 .rows_added = c->plan.rows_added,
                                 .tries = c->tries};
    (void)snprintf(out->request_key, sizeof out->request_key, "%s", c->key);
}

/* A refused commit: its answer, if it is there; otherwise what stood in its way. Without a reason of ours the failure stays as it is. Where the reason cannot be read, a doubt stays. */
static tide_status answer_refusal(lake_try *c, tide_status status, tide_lake_committed *out,
                                  tide_error *err)
{
    explanation e = {.c = c};
    tide_error failure;
    if (tide_store_read(c->change->store, explain, &e, &failure) < TIDE_OK) {
        if (c->change->outcome != TIDE_LAKE_UNKNOWN)
            return status;
        *err = failure;
        return TIDE_E_OUTCOME_UNKNOWN;
    }
    if (e.r.has_key && e.r.is_own)
        c->change->outcome = TIDE_LAKE_COMMITTED;
    else if (status != TIDE_E_DAMAGED || e.r.has_key || e.r.is_gone) /* refused behind the lock */
        c->change->outcome = TIDE_LAKE_REFUSED;
    if (e.r.has_key && (e.r.is_own || e.r.is_same)) {
        c->snapshot = e.r.snapshot;
        c->parent = e.r.parent;
        fill_answer(c, out);
        out->rows_added = e.r.rows;
        out->is_replay = !e.r.is_own;
        return TIDE_OK;
    }
    if (e.r.is_gone)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "catalog %s was dropped meanwhile: nothing was committed",
                         c->change->catalog.name);
    if (e.r.has_key)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "request key '%.100s' was used for another request (snapshot %" PRId64
                         " of catalog %s): use a new key for a new request",
                         c->key, e.r.snapshot, c->change->catalog.name);
    if (e.r.is_unpinned)
        return tide_fail(err, TIDE_E_LEASE_LOST,
                         "the pin of snapshot %" PRId64 " of catalog %s ran out before the commit: "
                         "files of this change may have been cleaned up; begin it again",
                         c->change->base, c->change->catalog.name);
    if (e.r.is_too_old)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "this change is based on snapshot %" PRId64 " of catalog %s, and what was "
                         "done before %" PRId64 " is no longer known: begin it again",
                         c->change->base, c->change->catalog.name, e.r.known_from);
    if (status == TIDE_E_EXISTS &&
        (strstr(err->text, "_file_path") || strstr(err->text, "_file.path")))
        return tide_fail(err, TIDE_E_EXISTS,
                         "a file of this change has a path that another file has already: write it "
                         "under a new name (a UUID)");
    return e.r.is_conflict ? explain_conflict(c, &e.r, err) : status;
}

/* ---- attempts ---- */

/* A counter stood behind its rows: somebody restored a dump under us. Told by the constraint's name (PostgreSQL) or the column's (SQLite). */
static bool is_reissued(tide_status status, const tide_error *err)
{
    static const char *const names[] = {
        "ducklake_snapshot_pkey",    "ducklake_snapshot.snapshot_id",
        "lake_commit_pkey",          "lake_commit.snapshot_id",
        "ducklake_data_file_pkey",   "ducklake_data_file.data_file_id",
        "ducklake_delete_file_pkey", "ducklake_delete_file.delete_file_id",
        "ducklake_snapshot_changes", "lake_mark_pkey",
    };
    for (size_t i = 0; status == TIDE_E_EXISTS && i < sizeof names / sizeof names[0]; i++)
        if (strstr(err->text, names[i]))
            return true;
    return false;
}

static bool is_transient(tide_status status)
{
    return status == TIDE_E_SERIALIZATION || status == TIDE_E_BUSY ||
           status == TIDE_E_UNAVAILABLE || status == TIDE_E_OUTCOME_UNKNOWN;
}

static bool may_be_refused(tide_status status)
{
    return status == TIDE_E_CONFLICT || status == TIDE_E_EXISTS || status == TIDE_E_DAMAGED;
}

static tide_status give_up(const lake_try *c, tide_status status, tide_error *err)
{
    if (c->change->outcome == TIDE_LAKE_UNKNOWN)
        return tide_fail_context(err, TIDE_E_OUTCOME_UNKNOWN,
                                 "after %d tries, one of which may have committed; repeat with the "
                                 "same request key '%s'",
                                 c->tries, c->key);
    return tide_fail_context(err, status, "after %d tries", c->tries);
}

/* One try, and what is known after it. */
static tide_status try_once(lake_try *c, tide_error *err)
{
    const tide_status status = tide_store_write(c->change->store, write_commit, c, err);
    const bool is_answered = status >= TIDE_OK && c->parent != TIDE_LAKE_UNANSWERED;
    if (is_answered) {
        tide_lake_keep_ids(c->change->lake, &c->left);
        c->change->outcome = TIDE_LAKE_COMMITTED;
        return TIDE_OK;
    }
    if (status < TIDE_OK && status != TIDE_E_OUTCOME_UNKNOWN)
        return status; /* of this try nothing is left; of an earlier one, perhaps */
    c->change->outcome = TIDE_LAKE_UNKNOWN;
    return status < TIDE_OK
               ? status
               : tide_fail(err, TIDE_E_OUTCOME_UNKNOWN, "the answer to the commit was lost");
}

static tide_status try_again(lake_try *c, tide_lake_committed *out, tide_error *err)
{
    tide_env *env = tide_store_env(c->change->store);
    const int64_t until_us = env->mono_us(env) + RETRY_BUDGET_US;
    tide_error failure;
    for (int attempt = c->tries;; attempt++) {
        c->tries = attempt + 1;
        tide_status status = try_once(c, &failure);
        if (status >= TIDE_OK) {
            fill_answer(c, out);
            return TIDE_OK;
        }
        const bool is_healable = is_reissued(status, &failure);
        if (!is_healable && may_be_refused(status))
            status = answer_refusal(c, status, out, &failure);
        if (status >= TIDE_OK)
            return TIDE_OK;
        const bool is_over = attempt + 1 >= TIDE_LAKE_TRIES_MAX || env->mono_us(env) >= until_us;
        const bool is_final = !is_healable && !is_transient(status);
        if (is_over || is_final) {
            if (err)
                *err = failure;
            return is_final && c->change->outcome != TIDE_LAKE_UNKNOWN ? status
                                                                       : give_up(c, status, err);
        }
        if (c->change->retry_count < TIDE_LAKE_TRIES_MAX)
            c->change->retries[c->change->retry_count++] = status;
        if (is_healable)
            TIDE_IGNORE(tide_lake_heal_behind(c->change->lake, &failure));
        env->sleep_us(env, tide_backoff_next(&retry_policy, attempt, env));
    }
}

tide_status lake_check_options(const tide_lake_commit_options *options, tide_error *err)
{
    if (!options)
        return TIDE_OK;
    const char *const words[] = {options->request_key, options->author, options->message,
                                 options->extra};
    static const char *const names[] = {"request key", "author", "message", "extra information"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i] && !tide_utf8_valid(tide_view_of(words[i])))
            return tide_fail(err, TIDE_E_INVALID, "the %s of a commit must be UTF-8", names[i]);
    if (options->request_key &&
        (!options->request_key[0] || strlen(options->request_key) > TIDE_LAKE_KEY_MAX))
        return tide_fail(err, TIDE_E_INVALID, "a request key has 1 to %d bytes", TIDE_LAKE_KEY_MAX);
    return TIDE_OK;
}

tide_status tide_lake_commit(tide_lake_change *change, const tide_lake_commit_options *options,
                             tide_lake_committed *out, tide_error *err)
{
    TIDE_TRY(lake_check_open(change, err));
    TIDE_TRY(lake_check_options(options, err));
    lake_try c = {.change = change, .options = options};
    if (!change->attempt[0]) {
        tide_uuid uuid;
        tide_uuid_v7(tide_store_env(change->store), &uuid);
        tide_uuid_format(&uuid, change->attempt);
    }
    c.has_key = options && options->request_key;
    c.key = c.has_key ? options->request_key : change->attempt;
    tide_status status = lake_plan_make(change, &c.plan, err);
    /* Ours come together, so that stock clients have a while between them. */
    tide_env *env = tide_store_env(change->store);
    if (status == TIDE_OK && change->catalog.exposed_as[0])
        env->sleep_us(env, tide_lake_turn_us(env->wall_us(env)));
    if (status == TIDE_OK && lake_commit_together(&c)) {
        fill_answer(&c, out);
    } else if (status >= TIDE_OK) {
        const tide_status checked = lake_check_base(change, err);
        if (checked < TIDE_OK)
            status = change->outcome == TIDE_LAKE_UNKNOWN && checked != TIDE_E_CONFLICT
                         ? give_up(&c, checked, err)
                         : checked;
        else if (status == TIDE_OK)
            status = try_again(&c, out, err);
    }
    lake_plan_done(&c.plan);
    change->is_committed = status == TIDE_OK;
    return status;
}
