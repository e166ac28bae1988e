#include "journal/tasks.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { PAGE = 200 };

typedef struct task_page {
    char after[TIDE_JOURNAL_ID_MAX + 1];
    char ids[PAGE][TIDE_JOURNAL_ID_MAX + 1];
    int count;
} task_page;

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    task_page *page = arg;
    page->count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_JOURNAL_TASKS, err, tide_bind_text("after", page->after),
               tide_bind_i64("limit", PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view id = tide_query_col_text(query);
        (void)snprintf(page->ids[page->count++], sizeof page->ids[0], "%.*s", (int)id.len, id.ptr);
    }
    return TIDE_OK;
}

tide_status tide_journal_each_task(tide_store *store, tide_task_id_fn *fn, void *arg,
                                   tide_error *err)
{
    TIDE_CLEANUP(tide_freep) TIDE_NEW(task_page, page, err);
    do {
        TIDE_TRY(tide_store_read(store, read_page, page, err));
        for (int i = 0; i < page->count; i++)
            TIDE_TRY(fn(arg, page->ids[i], err));
        if (page->count > 0)
            memcpy(page->after, page->ids[page->count - 1], sizeof page->after);
    } while (page->count == PAGE);
    return TIDE_OK;
}

typedef struct search {
    char id[TIDE_JOURNAL_ID_MAX + 1];
} search;

static tide_status look_at(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    search *s = arg;
    /* These record that something began or broke, not how far it came. */
    if (strcmp(checkpoint->type, "iteration_start") == 0 ||
        strcmp(checkpoint->type, "error_boundary") == 0)
        return TIDE_OK;
    (void)snprintf(s->id, sizeof s->id, "%s", checkpoint->checkpoint_id);
    return tide_fail(err, TIDE_E_INTERRUPTED, "found");
}

tide_status tide_journal_last_checkpoint(tide_store *store, const char *work_item_id,
                                         tide_checkpoint_fn *fn, void *arg, tide_error *err)
{
    const tide_journal_filter newest = {TIDE_JOURNAL_FILTER_INIT, .work_item_id = work_item_id,
                                        .order = TIDE_JOURNAL_NEWEST_FIRST};
    search s = {.id = ""};
    const tide_status status = tide_journal_list(store, &newest, look_at, &s, err);
    if (!s.id[0])
        return status < TIDE_OK ? status : TIDE_NONE;
    return tide_journal_find(store, s.id, true, fn, arg, err);
}
