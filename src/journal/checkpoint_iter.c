#include "journal/checkpoint_iter.h"

#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/timefmt.h"
#include "journal/check.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- lineage ---- */

tide_status tide_lineage_read(tide_lineage *lineage, tide_tx *tx, const char *task_id,
                              tide_error *err)
{
    lineage->count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_JOURNAL_LINEAGE, err, tide_bind_text("task_id", task_id));
    TIDE_EACH(tide_query_step(query, err)) {
        if (lineage->count > TIDE_JOURNAL_DEPTH_MAX)
            return tide_fail(err, TIDE_E_DAMAGED, "task %s: more than %d forks in a line", task_id,
                             TIDE_JOURNAL_DEPTH_MAX);
        tide_segment *segment = &lineage->segments[lineage->count++];
        tide_view_copy(segment->task_id, sizeof segment->task_id, tide_query_col_text(query));
        segment->low = tide_query_col_i64(query);
        segment->high = tide_query_col_i64(query);
    }
    return TIDE_OK;
}

static tide_status read_lineage(tide_tx *tx, void *arg, tide_error *err)
{
    tide_checkpoint_iter *walk = arg;
    return tide_lineage_read(&walk->lineage, tx, walk->filter.task_id, err);
}

/* ---- which statement finds them ---- */

typedef struct way {
    const tide_sql *up;
    const tide_sql *down;
    bool has_task;
    bool has_item;
    bool has_tag;
    bool has_time;
} way;

static way find_way(const tide_journal_filter *filter)
{
    if (filter->task_id)
        return (way){.up = TIDE_SQL_JOURNAL_PICK_TASK_UP,
                     .down = TIDE_SQL_JOURNAL_PICK_TASK_DOWN,
                     .has_task = true,
                     .has_item = true,
                     .has_tag = true,
                     .has_time = true};
    if (filter->work_item_id)
        return (way){.up = TIDE_SQL_JOURNAL_PICK_ITEM_UP,
                     .down = TIDE_SQL_JOURNAL_PICK_ITEM_DOWN,
                     .has_item = true,
                     .has_tag = true,
                     .has_time = true};
    if (filter->tag)
        return (way){.up = TIDE_SQL_JOURNAL_PICK_TAG_UP,
                     .down = TIDE_SQL_JOURNAL_PICK_TAG_DOWN,
                     .has_tag = true,
                     .has_time = true};
    if (filter->since_us != 0 || filter->until_us != 0)
        return (way){.up = TIDE_SQL_JOURNAL_PICK_TIME_UP,
                     .down = TIDE_SQL_JOURNAL_PICK_TIME_DOWN,
                     .has_time = true};
    return (way){.up = TIDE_SQL_JOURNAL_PICK_UP, .down = TIDE_SQL_JOURNAL_PICK_DOWN};
}

void tide_journal_bind_bound(tide_query *query, tide_tx *tx, const char *name, int64_t us)
{
    char text[TIDE_TIME_TEXT_SIZE];
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_SQLITE ||
        tide_time_format(us, text) != TIDE_OK) {
        tide_query_bind_time(query, name, us);
        return;
    }
    size_t len = strlen(text);
    while (text[len - 1] == '0' && len > sizeof "YYYY-MM-DD HH:MM:SS")
        len--;
    if (text[len - 1] == '.')
        len--;
    tide_query_bind_text_view(query, name, tide_view_bytes(text, len));
}

static void bind_times(tide_query *query, tide_tx *tx, const tide_journal_filter *filter,
                       bool is_needed)
{
    if (filter->since_us != 0 || is_needed)
        tide_journal_bind_bound(query, tx, "since",
                                filter->since_us != 0 ? filter->since_us : TIDE_TIME_MIN_US);
    if (filter->until_us != 0 || is_needed)
        tide_journal_bind_bound(query, tx, "until",
                                filter->until_us != 0 ? filter->until_us : TIDE_TIME_MAX_US);
}

static void bind_filter(tide_query *query, tide_tx *tx, const tide_checkpoint_iter *walk,
                        const way *by)
{
    const tide_journal_filter *filter = &walk->filter;
    tide_query_bind_i64(query, "first", filter->first_global);
    tide_query_bind_i64(query, "last", filter->last_global);
    tide_query_bind_text(query, "type", filter->type);
    if (by->has_task) {
        const tide_segment *segment = &walk->lineage.segments[walk->segment];
        tide_query_bind_text(query, "task_id", segment->task_id);
        tide_query_bind_i64(query, "low", segment->low);
        tide_query_bind_i64(query, "high", segment->high);
    }
    if (by->has_item)
        tide_query_bind_text(query, "work_item_id", filter->work_item_id);
    if (by->has_tag)
        tide_query_bind_text(query, "tag", filter->tag);
    if (by->has_time)
        bind_times(query, tx, filter, !by->has_task && !by->has_item && !by->has_tag);
}

/* ---- one page ---- */

/* A page ends at its number of rows or of bytes, but has at least one row. */
static tide_status pick(tide_checkpoint_iter *walk, tide_tx *tx, int64_t *numbers, tide_error *err)
{
    const way by = find_way(&walk->filter);
    const bool is_up = walk->filter.order == TIDE_JOURNAL_OLDEST_FIRST;
    const int64_t limit = walk->left < TIDE_JOURNAL_PAGE_MAX ? walk->left : TIDE_JOURNAL_PAGE_MAX;
    walk->picked = 0;
    walk->is_full = false;
    TIDE_QUERY_BY(query, tide_query_begin, tx, is_up ? by.up : by.down, err);
    bind_filter(query, tx, walk, &by);
    tide_query_bind_i64(query, "limit", limit);
    int64_t weight = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        const int64_t global = tide_query_col_i64(query);
        const int64_t number = tide_query_col_i64(query);
        const int64_t snapshot_len = tide_query_col_i64(query);
        weight += tide_query_col_i64(query) + (walk->what & TIDE_PAGE_SNAPSHOTS ? snapshot_len : 0);
        if (walk->picked > 0 && weight > TIDE_JOURNAL_PAGE_LEN) {
            walk->is_full = true;
            return TIDE_OK;
        }
        walk->last_number = number;
        walk->last_global = global;
        numbers[walk->picked++] = global;
    }
    walk->is_full = walk->picked == limit;
    return TIDE_OK;
}

tide_status tide_checkpoint_iter_read_in(tide_checkpoint_iter *walk, tide_tx *tx, tide_error *err)
{
    int64_t numbers[TIDE_JOURNAL_PAGE_MAX];
    TIDE_TRY(pick(walk, tx, numbers, err));
    return tide_journal_page_read(walk->page, tx, numbers, walk->picked, walk->what, err);
}

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_checkpoint_iter_read_in(arg, tx, err);
}

/* Where the next page begins. */
void tide_checkpoint_iter_move_on(tide_checkpoint_iter *walk)
{
    const bool is_up = walk->filter.order == TIDE_JOURNAL_OLDEST_FIRST;
    walk->left -= walk->picked;
    if (walk->picked > 0) {
        tide_segment *segment = &walk->lineage.segments[walk->segment];
        if (is_up) {
            walk->filter.first_global = walk->last_global + 1;
            segment->low = walk->last_number;
        } else {
            walk->filter.last_global = walk->last_global - 1;
            segment->high = walk->last_number - 1;
        }
    }
    if (walk->is_full)
        return;
    walk->segment += is_up ? 1 : -1;
    walk->is_last = walk->segment < 0 || walk->segment >= walk->lineage.count;
}

static tide_status check_filter(const tide_journal_filter *filter, tide_error *err)
{
    if (filter->limit < 0)
        return tide_fail(err, TIDE_E_INVALID, "a limit of %" PRId64, filter->limit);
    if (filter->first_global < 0 || filter->last_global < 0)
        return tide_fail(err, TIDE_E_INVALID, "global numbers start at 1");
    if (filter->type)
        TIDE_TRY(
            tide_journal_check_name("checkpoint type", filter->type, TIDE_JOURNAL_TYPE_MAX, err));
    if (filter->tag)
        TIDE_TRY(tide_journal_check_name("tag", filter->tag, TIDE_JOURNAL_TAG_MAX, err));
    if (filter->work_item_id)
        TIDE_TRY(tide_journal_check_name("work item id", filter->work_item_id, TIDE_JOURNAL_ID_MAX,
                                         err));
    if (filter->task_id)
        TIDE_TRY(tide_journal_check_name("task id", filter->task_id, TIDE_JOURNAL_ID_MAX, err));
    return TIDE_OK;
}

tide_status tide_checkpoint_iter_begin(tide_checkpoint_iter *walk, tide_store *store,
                                       const tide_journal_filter *filter, unsigned what,
                                       tide_error *err)
{
    TIDE_TRY(check_filter(filter, err));
    *walk = (tide_checkpoint_iter){.store = store, .filter = *filter, .what = what};
    if (walk->filter.last_global == 0)
        walk->filter.last_global = INT64_MAX;
    walk->left = filter->limit > 0 ? filter->limit : INT64_MAX;
    walk->page = tide_journal_page_new();
    TIDE_NEED_MEMORY(walk->page, err);
    walk->lineage.count = 1; /* without a task there is one segment: everything */
    if (filter->task_id) {
        TIDE_TRY(tide_store_read(store, read_lineage, walk, err));
        if (walk->lineage.count == 0)
            return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", filter->task_id);
    }
    walk->segment = filter->order == TIDE_JOURNAL_OLDEST_FIRST ? 0 : walk->lineage.count - 1;
    return TIDE_OK;
}

void tide_checkpoint_iter_done(tide_checkpoint_iter *walk)
{
    tide_journal_page_freep(&walk->page);
}

bool tide_checkpoint_iter_is_done(const tide_checkpoint_iter *walk)
{
    return walk->is_last || walk->left <= 0;
}

tide_status tide_checkpoint_iter_next(tide_checkpoint_iter *walk, tide_error *err)
{
    while (!tide_checkpoint_iter_is_done(walk)) {
        TIDE_TRY(tide_store_read(walk->store, read_page, walk, err));
        tide_checkpoint_iter_move_on(walk);
        if (walk->page->count > 0)
            return TIDE_OK;
    }
    return TIDE_NONE;
}

const tide_journal_row *tide_checkpoint_iter_row(const tide_checkpoint_iter *walk, int index)
{
    const bool is_up = walk->filter.order == TIDE_JOURNAL_OLDEST_FIRST;
    return &walk->page->rows[is_up ? index : walk->page->count - 1 - index];
}
