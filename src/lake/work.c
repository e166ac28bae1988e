#include "lake/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/change_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- repeated requests ---- */

typedef struct replay {
    const char *catalog;
    const tide_lake_commit_options *options;
    tide_lake_committed out;
} replay;

static tide_status find_request(tide_tx *tx, void *arg, tide_error *err)
{
    replay *r = arg;
    tide_lake_catalog catalog;
    TIDE_TRY(tide_lake_find_catalog(tx, r->catalog, &catalog, err));
    TIDE_QUERY_ONE(query, tx, TIDE_LAKE_SQL_LAKE_KEY_FIND, err,
                   tide_bind_i64("catalog_id", catalog.catalog_id),
                   tide_bind_text("key", r->options->request_key));
    r->out = (tide_lake_committed){.tries = 1, .is_replay = true};
    (void)snprintf(r->out.request_key, sizeof r->out.request_key, "%s", r->options->request_key);
    r->out.snapshot_id = tide_query_col_i64(query);
    r->out.parent_snapshot_id = tide_query_col_i64(query);
    const bool is_same = tide_view_equal(tide_query_col_blob(query), r->options->request_hash);
    r->out.rows_added = tide_query_col_i64(query);
    if (is_same)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "request key '%.100s' was used for another request (snapshot %" PRId64
                     " of catalog %s): use a new key for a new request",
                     r->options->request_key, r->out.snapshot_id, catalog.name);
}

/* What became of a request: asked before operations that would be refused the second time (a table that is there, because the first one made it). TIDE_NONE: the key is not
 * there. TIDE_E_CONFLICT: it is another request's. TIDE_E_NOT_FOUND: no such catalog. */
static tide_status lake_find_request(tide_lake *lake, const char *catalog,
                                     const tide_lake_commit_options *options,
                                     tide_lake_committed *out, tide_error *err)
{
    TIDE_TRY(lake_check_options(options, err));
    if (!options || !options->request_key)
        return TIDE_NONE;
    replay r = {.catalog = catalog, .options = options};
    const tide_status status = tide_store_read(lake->store, find_request, &r, err);
    if (status == TIDE_OK)
        *out = r.out;
    return status;
}

/* Checked by the commit. Who dies leaves it behind for so long. */
#define PIN_US INT64_C(3600000000)

/* A delete that lost to others so often asks appenders of its table to wait. */
enum { LOSSES_BEFORE_TURN = 2, LOSSES_MAX = 200 };
#define TURN_US INT64_C(10000000)     /* for so long, unless it asks again */
#define TURN_POLL_US INT64_C(20000)   /* an appender looks again */
#define TURN_WAIT_US INT64_C(5000000) /* and waits no longer than this */

/* Files that one operation wrote. */
typedef struct tide_lake_batch {
    struct tide_lake_batch *next;
    tide_lake_table_seen table;
    tide_lake_written written;
    /* Of a delete: */
    bool is_delete;
    bool is_replaced; /* by a batch with a newer base, which has what is left of its results */
    const char *schema;
    const char *name;
    const char *condition;
    tide_lake_isolation isolation;
    tide_lake_files files; /* of the table, at the base */
    /* Per file; NULL: no row of it meets the condition. An empty path: no row is left. */
    const tide_lake_new_file **deletes;
} tide_lake_batch;

tide_status tide_lake_work_begin(tide_lake_work *work, const char *catalog, tide_error *err)
{
    tide_arena_init(&work->memory, TIDE_LAKE_CHANGE_BYTES_MAX);
    const tide_status status =
        lake_find_request(work->lake, catalog, &work->commit, &work->result, err);
    work->is_answered = status == TIDE_OK;
    if (status != TIDE_NONE)
        return status;
    return tide_lake_begin(&work->change, work->lake, catalog, work->base, err);
}

/* ---- files ---- */

/* Nothing was done in it yet. */
static bool is_untouched(const tide_lake_change *change)
{
    lake_plan plan = {0};
    tide_error ignored;
    const tide_status status = lake_plan_make(change, &plan, &ignored);
    lake_plan_done(&plan);
    return status == TIDE_NONE;
}

static tide_status begin_again(tide_lake_work *work, tide_error *err)
{
    tide_lake_change *fresh = NULL;
    TIDE_TRY(
        tide_lake_begin(&fresh, work->lake, tide_lake_change_catalog(work->change)->name, 0, err));
    tide_lake_drop_change(work->change);
    work->change = fresh;
    return TIDE_OK;
}

/* Others may commit, and expire the base, before it is held: who has done nothing yet begins again. */
static tide_status pin_base(tide_lake_work *work, tide_error *err)
{
    for (int tries = 1;; tries++) {
        const tide_lake_catalog *catalog = tide_lake_change_catalog(work->change);
        const int64_t base = tide_lake_change_base(work->change);
        const tide_status status = tide_lake_pin_take(work->lake, catalog->catalog_id, base,
                                                      work->holder, PIN_US, &work->pin, err);
        work->has_pin = status >= TIDE_OK;
        if (status != TIDE_E_NOT_FOUND)
            return status;
        if (work->base != 0 || tries == TIDE_LAKE_TRIES_MAX || !is_untouched(work->change))
            return tide_fail(err, TIDE_E_CONFLICT,
                             "snapshot %" PRId64 " of catalog %s, which this change is based on, "
                             "has expired meanwhile: begin it again",
                             base, catalog->name);
        TIDE_TRY(begin_again(work, err));
    }
}

/* The pin first: DuckDB takes its time. */
static tide_status need_table(tide_lake_work *work, tide_lake_batch *batch, const char *schema,
                              const char *table, tide_error *err)
{
    if (!work->has_pin)
        TIDE_TRY(pin_base(work, err));
    return tide_lake_change_table(work->change, schema, table, &batch->table, err);
}

static tide_status need_data(tide_lake_work *work, tide_error *err)
{
    return work->data ? TIDE_OK : work->open_data(work->arg, &work->data, err);
}

/* A delete of the table that keeps losing to appends goes first. */
static tide_status wait_for_turn(tide_lake_work *work, int64_t table_id, tide_error *err)
{
    tide_env *env = tide_store_env(tide_lake_store(work->lake));
    const int64_t until_us = env->mono_us(env) + TURN_WAIT_US;
    for (;;) {
        bool is_asked = false;
        TIDE_TRY(tide_lake_pin_find_turn(work->lake, table_id, &is_asked, err));
        if (!is_asked || env->mono_us(env) >= until_us)
            return TIDE_OK;
        env->sleep_us(env, TURN_POLL_US);
    }
}

static void count_files(tide_lake_work *work, const tide_lake_written *written)
{
    for (int i = 0; i < written->count; i++)
        work->files += written->files[i].path && written->files[i].path[0];
    work->bytes += written->bytes;
}

/* NULL: no memory. */
static tide_lake_batch *add_batch(tide_lake_work *work)
{
    tide_lake_batch *batch = calloc(1, sizeof *batch);
    if (batch) {
        batch->next = work->batches;
        work->batches = batch;
    }
    return batch;
}

tide_status tide_lake_work_append(tide_lake_work *work, const char *schema, const char *table,
                                  const char *source, tide_lake_format format, tide_error *err)
{
    tide_lake_batch *batch = add_batch(work);
    TIDE_NEED_MEMORY(batch, err);
    TIDE_TRY(need_table(work, batch, schema, table, err));
    TIDE_TRY(wait_for_turn(work, batch->table.table.id, err));
    TIDE_TRY(need_data(work, err));
    TIDE_TRY(tide_lake_write_rows(work->data, &batch->table, source, format, &batch->written, err));
    count_files(work, &batch->written);
    for (int i = 0; i < batch->written.count; i++)
        TIDE_TRY(
            tide_lake_add_file(work->change, batch->table.table.id, &batch->written.files[i], err));
    return TIDE_OK;
}

/* ---- delete ---- */

tide_status tide_lake_isolation_parse(const char *text, tide_lake_isolation *out, tide_error *err)
{
    const bool is_snapshot = strcmp(text, "snapshot") == 0;
    *out = is_snapshot ? TIDE_LAKE_ISOLATION_SNAPSHOT : TIDE_LAKE_ISOLATION_SERIALIZABLE;
    if (is_snapshot || !*text || strcmp(text, "serializable") == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID,
                     "isolation '%.50s' does not exist: choose serializable or snapshot", text);
}

typedef struct file_read {
    const tide_lake_change *change;
    tide_lake_batch *batch;
} file_read;

static tide_status read_files(tide_tx *tx, void *arg, tide_error *err)
{
    const file_read *read = arg;
    tide_lake_files_done(&read->batch->files);
    read->batch->files = (tide_lake_files){0};
    return tide_lake_files_read(tx, tide_lake_change_catalog(read->change)->catalog_id,
                                tide_lake_change_base(read->change), read->batch->table.table.id,
                                &read->batch->files, err);
}

/* A condition is evaluated on rows of the base. Rows of the same change would escape it. */
static tide_status check_untouched(const tide_lake_work *work, const tide_lake_batch *batch,
                                   const char *table, tide_error *err)
{
    for (const tide_lake_batch *other = batch->next; other; other = other->next)
        if (!other->is_replaced && other->table.table.id == batch->table.table.id)
            return tide_fail(err, TIDE_E_INVALID,
                             "rows of '%s' were appended or deleted in the same change already: "
                             "delete first and once, or in a change of its own (the base is "
                             "snapshot %" PRId64 ")",
                             table, tide_lake_change_base(work->change));
    return TIDE_OK;
}

/* Evaluate the condition on the files whose wanted is set. wanted NULL: on all, and it is checked
 * where there are none, too. */
static tide_status find_deletes(tide_lake_work *work, tide_lake_batch *batch, const bool *wanted,
                                tide_error *err)
{
    const size_t room = (size_t)batch->files.count + 1;
    TIDE_CLEANUP(tide_freep) tide_lake_file_seen *some = calloc(room, sizeof *some);
    TIDE_CLEANUP(tide_freep) int *index = calloc(room, sizeof *index);
    TIDE_CLEANUP(tide_freep) int *which = calloc(room, sizeof *which);
    if (!some || !index || !which)
        return tide_no_memory(err);
    tide_lake_files files = {.all = some};
    for (int i = 0; i < batch->files.count; i++)
        if (!wanted || wanted[i]) {
            index[files.count] = i;
            some[files.count++] = batch->files.all[i];
        }
    if (wanted && files.count == 0)
        return TIDE_OK;
    int64_t rows = 0;
    TIDE_TRY(tide_lake_find_deletes(work->data, &batch->table, &files, batch->condition,
                                    &batch->written, which, &rows, err));
    count_files(work, &batch->written);
    for (int i = 0; i < batch->written.count; i++)
        batch->deletes[index[which[i]]] = &batch->written.files[i];
    return TIDE_OK;
}

static bool ends_file(const tide_lake_new_file *made)
{
    return !made->path || !made->path[0];
}

static tide_status add_deletes(tide_lake_change *change, const tide_lake_batch *batch,
                               int64_t *rows, tide_error *err)
{
    for (int i = 0; i < batch->files.count; i++) {
        const tide_lake_file_seen *file = &batch->files.all[i];
        const tide_lake_new_file *made = batch->deletes[i];
        if (!made)
            continue;
        const int64_t after = ends_file(made) ? file->record_count : made->record_count;
        *rows += after - (file->delete_path && *file->delete_path ? file->delete_count : 0);
        TIDE_TRY(tide_lake_delete_rows(change, batch->table.table.id, file,
                                       ends_file(made) ? NULL : made, err));
    }
    return TIDE_OK;
}

/* The batch has its table. */
static tide_status read_table_files(const tide_lake_work *work, const tide_lake_change *change,
                                    tide_lake_batch *batch, tide_error *err)
{
    file_read read = {change, batch};
    TIDE_TRY(tide_store_read(tide_lake_store(work->lake), read_files, &read, err));
    batch->deletes = calloc((size_t)batch->files.count + 1, sizeof(tide_lake_new_file *));
    return batch->deletes ? TIDE_OK : tide_no_memory(err);
}

tide_status tide_lake_work_delete(tide_lake_work *work, const tide_lake_delete *request,
                                  tide_error *err)
{
    tide_lake_batch *batch = add_batch(work);
    TIDE_NEED_MEMORY(batch, err);
    TIDE_TRY(need_table(work, batch, request->schema, request->table, err));
    TIDE_TRY(need_data(work, err));
    TIDE_TRY(check_untouched(work, batch, request->table, err));
    batch->is_delete = true;
    batch->schema = tide_arena_text(&work->memory, tide_view_of(request->schema));
    batch->name = tide_arena_text(&work->memory, tide_view_of(request->table));
    batch->condition = tide_arena_text(&work->memory, tide_view_of(request->condition));
    batch->isolation = request->isolation;
    if (!batch->schema || !batch->name || !batch->condition)
        return tide_no_memory(err);
    TIDE_TRY(read_table_files(work, work->change, batch, err));
    TIDE_TRY(find_deletes(work, batch, NULL, err));
    return add_deletes(work->change, batch, &work->deleted, err);
}

/* ---- a delete that lost ----
 *
 * Others have committed since its base: rows that may meet the condition, other delete files, other
 * data files for the same rows. The change is made again on the head of now. Results of files that
 * are as they were stay, and the condition is evaluated on the others alone, so each try takes as
 * long as what is new and not as long as the table. */

static bool is_same_column(const tide_lake_column *a, const tide_lake_column *b)
{
    return a->id == b->id && strcmp(a->name, b->name) == 0 && strcmp(a->type, b->type) == 0 &&
           strcmp(a->default_value, b->default_value) == 0;
}

/* Does the condition mean the same? */
static bool is_same_table(const tide_lake_table_seen *a, const tide_lake_table_seen *b)
{
    if (a->table.id != b->table.id || a->column_count != b->column_count)
        return false;
    for (int i = 0; i < a->column_count; i++)
        if (!is_same_column(&a->columns[i], &b->columns[i]))
            return false;
    return true;
}

/* Files are in order of ids. -1: it is not there. */
static int find_file(const tide_lake_files *files, int64_t data_file_id)
{
    int low = 0;
    int high = files->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (files->all[middle].data_file_id < data_file_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < files->count && files->all[low].data_file_id == data_file_id ? low : -1;
}

/* Results that do not fit any more leave the disk: the commit that named them was refused. */
static void drop_result(tide_lake_work *work, tide_lake_batch *from, const tide_lake_new_file *made)
{
    for (tide_lake_batch *batch = from; batch; batch = batch->next)
        for (int i = 0; i < batch->written.count; i++) {
            tide_lake_new_file *file = &batch->written.files[i];
            if (file != made || ends_file(file))
                continue;
            const tide_lake_written one = {.files = file, .count = 1};
            tide_lake_written_discard(work->data, &batch->table.table, &one);
            work->files--;
            work->bytes -= file->file_size_bytes;
            file->path = "";
        }
}

static tide_status refuse_snapshot(const tide_lake_batch *batch, int64_t data_file_id,
                                   tide_error *err)
{
    return tide_fail(err, TIDE_E_CONFLICT,
                     "data file %" PRId64 " of table %s was replaced since the delete began, so "
                     "rows of its base cannot be told from newer ones: run it again, or with "
                     "--isolation serializable",
                     data_file_id, batch->name);
}

/* What is left of the results of `was`, and which files the condition has yet to see. */
static tide_status carry_results(tide_lake_work *work, tide_lake_batch *was, tide_lake_batch *is,
                                 bool *wanted, tide_error *err)
{
    const bool is_same = is_same_table(&was->table, &is->table);
    const bool is_snapshot = was->isolation == TIDE_LAKE_ISOLATION_SNAPSHOT;
    for (int i = 0; i < was->files.count; i++)
        if (is_snapshot && find_file(&is->files, was->files.all[i].data_file_id) < 0)
            return refuse_snapshot(is, was->files.all[i].data_file_id, err);
    for (int i = 0; i < is->files.count; i++) {
        const tide_lake_file_seen *file = &is->files.all[i];
        const int at = find_file(&was->files, file->data_file_id);
        const bool is_kept =
            is_same && at >= 0 && was->files.all[at].delete_file_id == file->delete_file_id;
        wanted[i] = !is_kept && (at >= 0 || !is_snapshot);
        if (is_kept)
            is->deletes[i] = was->deletes[at];
    }
    for (int i = 0; i < was->files.count; i++) {
        const int at = find_file(&is->files, was->files.all[i].data_file_id);
        if (was->deletes[i] && (at < 0 || is->deletes[at] != was->deletes[i]))
            drop_result(work, was, was->deletes[i]);
    }
    return TIDE_OK;
}

static tide_status rebase_batch(tide_lake_work *work, tide_lake_change *change,
                                tide_lake_batch *was, tide_error *err)
{
    tide_lake_batch *is = add_batch(work);
    TIDE_NEED_MEMORY(is, err);
    TIDE_TRY(tide_lake_change_table(change, was->schema, was->name, &is->table, err));
    is->is_delete = true;
    is->schema = was->schema;
    is->name = was->name;
    is->condition = was->condition;
    is->isolation = was->isolation;
    TIDE_TRY(read_table_files(work, change, is, err));
    TIDE_CLEANUP(tide_freep) bool *wanted = calloc((size_t)is->files.count + 1, sizeof *wanted);
    TIDE_NEED_MEMORY(wanted, err);
    was->is_replaced = true;
    TIDE_TRY(carry_results(work, was, is, wanted, err));
    TIDE_TRY(find_deletes(work, is, wanted, err));
    return add_deletes(change, is, &work->deleted, err);
}

/* A change on the head of now, which a pin holds. The first pin stays: it protects the files that
 * were written under it. */
static tide_status begin_rebase(tide_lake_work *work, tide_lake_change **out, tide_error *err)
{
    const char *catalog = tide_lake_change_catalog(work->change)->name;
    TIDE_TRY(tide_lake_pin_renew(work->lake, &work->pin, PIN_US, err));
    for (int tries = 1;; tries++) {
        TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
        tide_lake_pin pin;
        TIDE_TRY(tide_lake_begin(&change, work->lake, catalog, 0, err));
        const tide_status status =
            tide_lake_pin_take(work->lake, tide_lake_change_catalog(change)->catalog_id,
                               tide_lake_change_base(change), work->holder, PIN_US, &pin, err);
        if (status == TIDE_E_NOT_FOUND && tries < TIDE_LAKE_TRIES_MAX)
            continue; /* expired before it was held */
        TIDE_TRY(status);
        if (work->has_base_pin)
            TIDE_IGNORE(tide_lake_pin_release(work->lake, &work->base_pin, NULL));
        work->base_pin = pin;
        work->has_base_pin = true;
        *out = TIDE_TAKE(change);
        return TIDE_OK;
    }
}

static tide_status rebase(tide_lake_work *work, tide_error *err)
{
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
    TIDE_TRY(begin_rebase(work, &change, err));
    tide_lake_batch *batches = work->batches;
    work->deleted = 0;
    work->rebases++;
    for (tide_lake_batch *batch = batches; batch; batch = batch->next)
        if (!batch->is_replaced)
            TIDE_TRY(rebase_batch(work, change, batch, err));
    tide_lake_drop_change(work->change);
    work->change = TIDE_TAKE(change);
    return TIDE_OK;
}

/* Only deletes, by conditions that we have, on a base that the caller did not choose, refused
 * because of what others have committed. */
static bool can_rebase(const tide_lake_work *work)
{
    bool is_delete = work->batches != NULL;
    for (const tide_lake_batch *batch = work->batches; batch; batch = batch->next)
        is_delete = is_delete && batch->is_delete;
    return is_delete && work->base == 0 && lake_change_only_deletes(work->change) &&
           tide_lake_change_outcome(work->change) == TIDE_LAKE_REFUSED &&
           tide_lake_change_collision(work->change)->snapshot_id > 0;
}

/* Appenders of the tables wait for us. A hint: a delete that cannot ask is tried all the same. */
static void ask_for_turn(const tide_lake_work *work)
{
    for (const tide_lake_batch *batch = work->batches; batch; batch = batch->next)
        if (!batch->is_replaced)
            TIDE_IGNORE(tide_lake_pin_ask_turn(work->lake, &work->pin, batch->table.table.id,
                                               TURN_US, NULL));
}

/* ---- the end ---- */

static tide_status commit_once(tide_lake_work *work, tide_error *err)
{
    work->commit.pin_id = work->has_pin ? work->pin.id : NULL;
    const tide_status status = tide_lake_commit(work->change, &work->commit, &work->result, err);
    TIDE_TRY(status);
    work->is_unchanged = status == TIDE_NONE;
    if (work->is_unchanged)
        work->result = (tide_lake_committed){.snapshot_id = tide_lake_change_base(work->change)};
    return TIDE_OK;
}

tide_status tide_lake_work_commit(tide_lake_work *work, tide_error *err)
{
    if (work->is_answered)
        return TIDE_OK;
    for (;;) {
        const tide_status status = commit_once(work, err);
        if (status != TIDE_E_CONFLICT || work->rebases == LOSSES_MAX || !can_rebase(work))
            return status;
        if (work->rebases + 1 >= LOSSES_BEFORE_TURN)
            ask_for_turn(work);
        TIDE_TRY(rebase(work, err));
    }
}

void tide_lake_work_done(tide_lake_work *work)
{
    tide_error ignored;
    while (work->batches) {
        tide_lake_batch *batch = work->batches;
        work->batches = batch->next;
        /* Files of a commit that may be there are not ours to remove; if it is not, cleanup finds them. */
        if (work->data && tide_lake_change_outcome(work->change) == TIDE_LAKE_REFUSED)
            tide_lake_written_discard(work->data, &batch->table.table, &batch->written);
        tide_lake_written_done(&batch->written);
        tide_lake_files_done(&batch->files);
        tide_lake_table_done(&batch->table);
        free(batch->deletes);
        free(batch);
    }
    tide_arena_done(&work->memory);
    if (work->has_base_pin)
        TIDE_IGNORE(tide_lake_pin_release(work->lake, &work->base_pin, &ignored));
    work->has_base_pin = false;
    if (work->has_pin)
        TIDE_IGNORE(tide_lake_pin_release(work->lake, &work->pin, &ignored));
    work->has_pin = false;
    tide_lake_drop_change(work->change);
    work->change = NULL;
}
