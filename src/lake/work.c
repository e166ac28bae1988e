#include "lake/work.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "lake/change_parts.h"

/* Checked by the commit. Who dies leaves it behind for so long. */
#define PIN_US INT64_C(3600000000)

/* Files that one operation wrote. */
typedef struct tide_lake_batch {
    struct tide_lake_batch *next;
    tide_lake_table_seen table;
    tide_lake_files files; /* of which rows are deleted */
    tide_lake_written written;
} tide_lake_batch;

tide_status tide_lake_work_begin(tide_lake_work *work, const char *catalog, tide_error *err)
{
    const tide_status status =
        tide_lake_find_request(work->lake, catalog, &work->commit, &work->result, err);
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
static tide_status need_files(tide_lake_work *work, tide_lake_batch *batch, const char *schema,
                              const char *table, tide_error *err)
{
    if (!work->has_pin)
        TIDE_TRY(pin_base(work, err));
    TIDE_TRY(tide_lake_change_table(work->change, schema, table, &batch->table, err));
    return work->data ? TIDE_OK : work->open_data(work->arg, &work->data, err);
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
    TIDE_TRY(need_files(work, batch, schema, table, err));
    TIDE_TRY(tide_lake_write_rows(work->data, &batch->table, source, format, &batch->written, err));
    count_files(work, &batch->written);
    for (int i = 0; i < batch->written.count; i++)
        TIDE_TRY(
            tide_lake_add_file(work->change, batch->table.table.id, &batch->written.files[i], err));
    return TIDE_OK;
}

/* ---- delete ---- */

typedef struct file_look {
    tide_lake_work *work;
    tide_lake_batch *batch;
} file_look;

static tide_status read_files(tide_tx *tx, void *arg, tide_error *err)
{
    const file_look *look = arg;
    tide_lake_files_done(&look->batch->files);
    look->batch->files = (tide_lake_files){0};
    return tide_lake_files_read(tx, tide_lake_change_catalog(look->work->change)->catalog_id,
                                tide_lake_change_base(look->work->change),
                                look->batch->table.table.id, &look->batch->files, err);
}

/* A condition is met by what stands at the base: rows of the same change would escape it. */
static tide_status check_untouched(const tide_lake_work *work, const tide_lake_batch *batch,
                                   const char *table, tide_error *err)
{
    for (const tide_lake_batch *other = batch->next; other; other = other->next)
        if (other->table.table.id == batch->table.table.id)
            return tide_fail(err, TIDE_E_INVALID,
                             "rows of '%s' were appended or deleted in the same change already: "
                             "delete first and once, or in a change of its own (the base is "
                             "snapshot %" PRId64 ")",
                             table, tide_lake_change_base(work->change));
    return TIDE_OK;
}

tide_status tide_lake_work_delete(tide_lake_work *work, const char *schema, const char *table,
                                  const char *condition, tide_error *err)
{
    tide_lake_batch *batch = add_batch(work);
    TIDE_NEED_MEMORY(batch, err);
    TIDE_TRY(need_files(work, batch, schema, table, err));
    TIDE_TRY(check_untouched(work, batch, table, err));
    file_look look = {work, batch};
    TIDE_TRY(tide_store_read(tide_lake_store(work->lake), read_files, &look, err));
    TIDE_CLEANUP(tide_freep) int *which = calloc((size_t)batch->files.count + 1, sizeof *which);
    TIDE_NEED_MEMORY(which, err);
    int64_t rows = 0;
    TIDE_TRY(tide_lake_find_deletes(work->data, &batch->table, &batch->files, condition,
                                    &batch->written, which, &rows, err));
    for (int i = 0; i < batch->written.count; i++) {
        const tide_lake_new_file *file = &batch->written.files[i];
        const bool is_empty = !file->path || !file->path[0];
        TIDE_TRY(tide_lake_delete_rows(work->change, batch->table.table.id,
                                       &batch->files.all[which[i]], is_empty ? NULL : file, err));
    }
    count_files(work, &batch->written);
    work->deleted += rows;
    return TIDE_OK;
}

/* ---- the end ---- */

tide_status tide_lake_work_commit(tide_lake_work *work, tide_error *err)
{
    if (work->is_answered)
        return TIDE_OK;
    work->commit.pin_id = work->has_pin ? work->pin.id : NULL;
    const tide_status status = tide_lake_commit(work->change, &work->commit, &work->result, err);
    TIDE_TRY(status);
    work->is_unchanged = status == TIDE_NONE;
    if (work->is_unchanged)
        work->result = (tide_lake_committed){.snapshot_id = tide_lake_change_base(work->change)};
    return TIDE_OK;
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
        free(batch);
    }
    if (work->has_pin)
        TIDE_IGNORE(tide_lake_pin_release(work->lake, &work->pin, &ignored));
    work->has_pin = false;
    tide_lake_drop_change(work->change);
    work->change = NULL;
}
