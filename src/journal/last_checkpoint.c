#include "journal/last_checkpoint.h"

#include <stdio.h>
#include <string.h>

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
