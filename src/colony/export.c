#include "colony/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "colony/export_parts.h"

enum { NEAR = 1000 }; /* late numbers that lie no farther apart share a file */

typedef struct exporting {
    const tide_export_options *options;
    tide_manifest manifest;
    tide_export_writer writer;
    tide_export_fn *fn;
    void *arg;
    tide_export_sum sum;
} exporting;

static void exporting_done(exporting *e)
{
    tide_export_writer_done(&e->writer);
    tide_manifest_close(&e->manifest);
}

/* ---- one range ---- */

static tide_status note_written(exporting *e, tide_export_range *range,
                                const tide_interval *missing, int count, tide_error *err)
{
    char path[TIDE_EXPORT_NAME_SIZE];
    range->is_written = true;
    TIDE_TRY(tide_manifest_note(&e->manifest, range, missing, count, err));
    e->sum.files += range->rows > 0;
    e->sum.rows += range->rows;
    e->sum.bytes += range->bytes;
    TIDE_TRY(tide_export_path(path, e->options->dir, range, err));
    return e->fn && range->rows > 0 ? e->fn(e->arg, range, path, err) : TIDE_OK;
}

static tide_status note_plan(void *arg, const tide_export_range *range, tide_error *err)
{
    exporting *e = arg;
    return tide_manifest_note(&e->manifest, range, NULL, 0, err);
}

static tide_status write_range(exporting *e, tide_export_range *range, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) tide_interval *missing = NULL;
    int count = 0;
    range->is_written = false;
    tide_export_source *source = NULL;
    TIDE_TRY(tide_manifest_source(&e->manifest, range->data_type, range->agent_id,
                                  range->session_id, range->epoch, &source, err));
    e->writer.done = range->is_late ? &source->done : NULL;
    TIDE_TRY(tide_export_write(&e->writer, range, note_plan, e, &missing, &count, err));
    /* A late range without rows has nothing to say. */
    if (range->is_late && range->rows == 0)
        return TIDE_OK;
    return note_written(e, range, missing, count, err);
}

/* What a run that died has planned: its file is there as a whole, or it is written now, under the same name. */
static tide_status finish_plan(exporting *e, const tide_export_source *source, tide_error *err)
{
    tide_export_range range = source->plan;
    TIDE_CLEANUP(tide_freep) tide_interval *missing = NULL;
    int count = 0;
    const tide_status status = tide_export_look(&e->writer, &range, &missing, &count, err);
    TIDE_TRY(status);
    if (status == TIDE_OK)
        return note_written(e, &range, missing, count, err);
    return write_range(e, &range, err);
}

/* ---- one source ---- */

static tide_export_range range_of(const tide_position *position, int64_t first, int64_t last)
{
    tide_export_range range = {.epoch = position->epoch, .first_seq = first, .last_seq = last};
    (void)snprintf(range.data_type, sizeof range.data_type, "%s", position->data_type);
    (void)snprintf(range.agent_id, sizeof range.agent_id, "%s", position->agent_id);
    (void)snprintf(range.session_id, sizeof range.session_id, "%s", position->session_id);
    return range;
}

static tide_status find_source(exporting *e, const tide_position *position,
                               tide_export_source **out, tide_error *err)
{
    return tide_manifest_source(&e->manifest, position->data_type, position->agent_id,
                                position->session_id, position->epoch, out, err);
}

typedef struct gap_walk {
    exporting *e;
    const tide_position *position;
    int64_t bound; /* before the first open gap */
    int64_t last_id;
    int64_t seen;
    tide_interval *late; /* numbers that are in no file, though ranges around them were written */
    size_t late_count;
} gap_walk;

static tide_status lower_bound(void *arg, const tide_gap *gap, tide_error *err)
{
    gap_walk *w = arg;
    (void)err;
    if (gap->start_seq <= w->bound)
        w->bound = gap->start_seq - 1;
    w->last_id = gap->id;
    w->seen++;
    return TIDE_OK;
}

/* The first numbers of a gap that are in no file, though ranges around them were written. */
static bool find_late(const tide_export_source *source, const tide_gap *gap, int64_t after,
                      tide_interval *out)
{
    const int64_t end = gap->end_seq < source->through ? gap->end_seq : source->through;
    const int64_t highest = tide_cursor_highest(&source->done);
    if (tide_cursor_next_hole(&source->done, after, out) != TIDE_OK)
        *out = (tide_interval){after < highest ? highest + 1 : after + 1, source->through};
    if (out->last > end)
        out->last = end;
    return out->first <= out->last;
}

static tide_status keep_late(gap_walk *w, tide_interval late, tide_error *err)
{
    TIDE_TRY(tide_list_room(&w->late, (int64_t)w->late_count, sizeof *w->late, TIDE_LIST_MAX, err));
    w->late[w->late_count++] = late;
    return TIDE_OK;
}

static tide_status gather_late(void *arg, const tide_gap *gap, tide_error *err)
{
    gap_walk *w = arg;
    w->last_id = gap->id;
    w->seen++;
    int64_t after = gap->start_seq - 1;
    tide_interval late;
    tide_export_source *source = NULL;
    TIDE_TRY(find_source(w->e, w->position, &source, err));
    for (; find_late(source, gap, after, &late); after = late.last)
        TIDE_TRY(keep_late(w, late, err));
    return TIDE_OK;
}

static tide_status walk_gaps(gap_walk *w, uint32_t statuses, tide_gap_fn *fn, tide_error *err)
{
    tide_sink *sink = w->e->options->sink;
    tide_gap_filter filter = {.agent_id = w->position->agent_id,
                              .data_type = w->position->data_type,
                              .session_id = w->position->session_id,
                              .epoch = w->position->epoch,
                              .statuses = statuses,
                              .limit = TIDE_SINK_GAPS_MAX};
    do {
        w->seen = 0;
        TIDE_TRY(sink->ops->gaps(sink, &filter, fn, w, err));
        filter.after_id = w->last_id;
    } while (w->seen == filter.limit);
    return TIDE_OK;
}

static int compare_intervals(const void *a, const void *b)
{
    const int64_t x = ((const tide_interval *)a)->first;
    const int64_t y = ((const tide_interval *)b)->first;
    return (x > y) - (x < y);
}

/* Neighbours go into one file: how far from `at` on does it reach? What lies between them is exported already, and left out. */
static int64_t find_neighbours(const gap_walk *w, size_t at, size_t *next)
{
    const int64_t row_max = w->e->options->row_max;
    const int64_t width_max = row_max > 0 ? row_max : TIDE_EXPORT_ROWS_DEFAULT;
    const int64_t first = w->late[at].first;
    int64_t last = w->late[at].last;
    for (*next = at + 1; *next < w->late_count; (*next)++) {
        const tide_interval *late = &w->late[*next];
        if (late->first - last > NEAR || late->last - first >= width_max)
            break;
        last = late->last > last ? late->last : last;
    }
    return last;
}

static tide_status write_neighbours(gap_walk *w, int64_t first, int64_t last, tide_error *err)
{
    while (first <= last) {
        tide_export_range range = range_of(w->position, first, last);
        range.is_late = true;
        TIDE_TRY(write_range(w->e, &range, err));
        first = range.last_seq + 1;
    }
    return TIDE_OK;
}

static tide_status write_late(gap_walk *w, tide_error *err)
{
    qsort(w->late, w->late_count, sizeof *w->late, compare_intervals);
    for (size_t at = 0, next = 0; at < w->late_count; at = next) {
        const int64_t last = find_neighbours(w, at, &next);
        const tide_status status = write_neighbours(w, w->late[at].first, last, err);
        /* What was written with them is there already, and is left out. */
        for (size_t i = at; (status == TIDE_E_EXISTS || status == TIDE_E_LIMIT) && i < next; i++)
            TIDE_TRY(write_neighbours(w, w->late[i].first, w->late[i].last, err));
        if (status < TIDE_OK && status != TIDE_E_EXISTS && status != TIDE_E_LIMIT)
            return status;
    }
    return TIDE_OK;
}

static void gap_walk_done(gap_walk *w)
{
    free(w->late);
}

static tide_status export_source(exporting *e, const tide_position *position, tide_error *err)
{
    gap_walk open = {
        .e = e, .position = position, .bound = tide_cursor_contiguous(&position->cursor)};
    TIDE_TRY(
        walk_gaps(&open, 1U << TIDE_GAP_DETECTED | 1U << TIDE_GAP_RECOVERING, lower_bound, err));
    tide_export_source *source = NULL;
    TIDE_TRY(find_source(e, position, &source, err));
    if (source->has_plan)
        TIDE_TRY(finish_plan(e, source, err));
    while (true) {
        TIDE_TRY(find_source(e, position, &source, err));
        const int64_t before = position->first > 0 ? position->first - 1 : 0;
        const int64_t first = (source->through > before ? source->through : before) + 1;
        if (first > open.bound)
            break;
        tide_export_range range = range_of(position, first, open.bound);
        TIDE_TRY(write_range(e, &range, err));
    }
    TIDE_CLEANUP(gap_walk_done) gap_walk late = {.e = e, .position = position};
    TIDE_TRY(walk_gaps(&late, 1U << TIDE_GAP_RECOVERED, gather_late, err));
    return late.late_count > 0 ? write_late(&late, err) : TIDE_OK;
}

/* ---- all of them ---- */

typedef struct position_list {
    tide_position *items;
    int count;
} position_list;

static void position_list_done(position_list *list)
{
    for (int i = 0; i < list->count; i++)
        tide_position_done(&list->items[i]);
    free(list->items);
}

static tide_status gather(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                          tide_error *err)
{
    position_list *list = arg;
    (void)gaps;
    if (*position->session_id == '\0')
        return TIDE_OK;
    TIDE_TRY(tide_list_room(&list->items, list->count, sizeof *list->items, TIDE_LIST_MAX, err));
    TIDE_TRY(tide_position_copy(&list->items[list->count], position, err));
    list->count++;
    return TIDE_OK;
}

static tide_status check_options(const tide_export_options *options, tide_error *err)
{
    if (options->row_max < 0 || options->row_max > TIDE_EXPORT_ROWS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%" PRId64 " rows per file, want 1 to %d",
                         options->row_max, TIDE_EXPORT_ROWS_MAX);
    if (mkdir(options->dir, 0700) != 0 && errno != EEXIST)
        return tide_fail(err, errno == EACCES ? TIDE_E_DENIED : TIDE_E_IO, "cannot make %s: %s",
                         options->dir, strerror(errno));
    return TIDE_OK;
}

tide_status tide_export_run(const tide_export_options *options, tide_export_fn *fn, void *arg,
                            tide_export_sum *out, tide_error *err)
{
    TIDE_TRY(check_options(options, err));
    TIDE_CLEANUP(exporting_done)
    exporting e = {.options = options,
                   .fn = fn,
                   .arg = arg,
                   .manifest = {.fd = -1, .lock_fd = -1},
                   .writer = {.options = options}};
    TIDE_TRY(tide_manifest_open(&e.manifest, options->dir, err));
    TIDE_CLEANUP(position_list_done) position_list list = {0};
    tide_sink *sink = options->sink;
    TIDE_TRY(sink->ops->positions(sink, options->agent_id, options->data_type, true, gather, &list,
                                  err));
    for (int i = 0; i < list.count; i++)
        TIDE_TRY(export_source(&e, &list.items[i], err));
    *out = e.sum;
    return TIDE_OK;
}
