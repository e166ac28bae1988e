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
