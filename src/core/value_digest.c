#include "core/value_digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "store/migration.h"

enum {
    PAGE = 20,      /* rows, each with values of up to 16 MiB */
    NAME_MAX = 600, /* bytes of a name */
};

int64_t tide_value_digest(const char *kind, tide_view name, tide_view value)
{
    if (!value.ptr)
        return 0;
    char head[64];
    (void)snprintf(head, sizeof head, "%s %zu %zu ", kind, name.len, value.len);
    const tide_view parts[] = {tide_view_of(head), name, value};
    const tide_digest128 digest = tide_digest128_of_parts(parts, sizeof parts / sizeof parts[0]);
    uint64_t number = 0;
    int64_t out = 0;
    for (size_t i = 0; i < sizeof number; i++)
        number = number << 8 | digest.bytes[i];
    memcpy(&out, &number, sizeof out);
    return out;
}

tide_status tide_value_digest_check(int64_t stored, int64_t found, const char *what, tide_view name,
                                    tide_error *err)
{
    if (found == stored)
        return TIDE_OK;
    return tide_fail(
        err, TIDE_E_DAMAGED,
        "the stored %s '%.*s' is not what was written: restore the store from a "
        "backup, or delete that row (tidemark store verify lists all that are damaged)",
        what, (int)(name.len < 200 ? name.len : 200), name.ptr);
}

/* ---- verify ---- */

typedef struct verify_page {
    const tide_value_table *table;
    tide_store_finding_fn *fn;
    void *arg;
    tide_values_checked found; /* of this one, which may run again */
    char after[NAME_MAX];
    size_t after_len;
    char last[NAME_MAX];
    size_t last_len;
    int count;
} verify_page;

/* Pages go on behind the last name, so a damaged index must not lead back. */
static tide_status check_order(verify_page *p, tide_view name, tide_error *err)
{
    const size_t shared = name.len < p->last_len ? name.len : p->last_len;
    const int order = shared > 0 ? memcmp(name.ptr, p->last, shared) : 0;
    if (name.len > sizeof p->last || order < 0 || (order == 0 && name.len <= p->last_len))
        return tide_fail(err, TIDE_E_DAMAGED,
                         "'%.*s' comes behind '%.*s' in the index of names: restore the store from "
                         "a backup",
                         (int)(name.len < 200 ? name.len : 200), name.ptr,
                         (int)(p->last_len < 200 ? p->last_len : 200), p->last);
    memcpy(p->last, name.ptr, name.len);
    p->last_len = name.len;
    return TIDE_OK;
}

static void verify_row(verify_page *p, tide_view name, tide_query *query)
{
    tide_error why = {0};
    int64_t found = 0;
    for (int i = 0; i < TIDE_ROW_VALUES_MAX && p->table->kinds[i]; i++) {
        const bool is_null = tide_query_col_is_null(query);
        const tide_view value = tide_query_col_text(query);
        if (!is_null)
            found ^= tide_value_digest(p->table->kinds[i], name, value);
    }
    if (tide_query_col_is_null(query)) {
        p->found.unchecked++;
        return;
    }
    p->found.checked++;
    if (tide_value_digest_check(tide_query_col_i64(query), found, p->table->what, name, &why) ==
        TIDE_OK)
        return;
    p->found.damaged++;
    p->fn(p->arg, why.text);
}

static tide_status verify_rows(tide_tx *tx, void *arg, tide_error *err)
{
    verify_page *p = arg;
    p->found = (tide_values_checked){0};
    memcpy(p->last, p->after, sizeof p->last);
    p->last_len = p->after_len;
    p->count = 0;
    TIDE_QUERY(query, tx, p->table->page, err,
               tide_bind_view("after", tide_view_bytes(p->after, p->after_len)),
               tide_bind_i64("limit", PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view name = tide_query_col_text(query);
        TIDE_TRY(check_order(p, name, err));
        verify_row(p, name, query);
        p->count++;
    }
    return TIDE_OK;
}

tide_status tide_values_verify(tide_store *store, const tide_value_table *table,
                               tide_store_finding_fn *fn, void *arg, tide_values_checked *out,
                               tide_error *err)
{
    int64_t damaged = 0;
    verify_page p = {.table = table, .fn = fn, .arg = arg};
    if (tide_store_is_older(store))
        return TIDE_OK;
    do {
        TIDE_TRY(tide_store_read(store, verify_rows, &p, err));
        out->checked += p.found.checked;
        out->unchecked += p.found.unchecked;
        out->damaged += p.found.damaged;
        damaged += p.found.damaged;
        memcpy(p.after, p.last, sizeof p.after);
        p.after_len = p.last_len;
    } while (p.count == PAGE);
    if (damaged > 0)
        return tide_fail(err, TIDE_E_DAMAGED, "%" PRId64 " rows are damaged: the stored %s",
                         damaged, table->what);
    return TIDE_OK;
}
