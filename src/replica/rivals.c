#include "replica/rivals.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "replica/table_text.h"
#include "store/foreign/foreign_triggers.h"
#include "tidemark_templates.h"

int tide_rivals_columns(const tide_desk_row *row, bool with_key, int *out)
{
    int count = 0;
    for (int i = 0; i < row->table->column_count; i++) {
        bool is_key = false;
        for (int k = 0; k < row->table->key_count; k++)
            is_key = is_key || row->table->key[k] == i;
        if (row->has[i] && (with_key || !is_key))
            out[count++] = i;
    }
    return count;
}

/* A parameter per unique key (is the row in it?) and per term, in their order. */
typedef struct terms {
    tide_sql_value *values;
    int count;
    bool is_made; /* some of it only SQLite can tell */
} terms;

static void terms_done(terms *t)
{
    free(t->values);
}

static tide_status terms_init(terms *t, const tide_table *table, tide_error *err)
{
    for (int u = 0; u < table->unique_count; u++) {
        const tide_table_unique *unique = &table->uniques[u];
        if (tide_table_unique_is_rowid(unique))
            continue;
        t->count += 1 + unique->term_count;
        t->is_made = t->is_made || unique->where;
        for (int i = 0; i < unique->term_count; i++)
            t->is_made = t->is_made || unique->terms[i].column < 0;
    }
    t->values = calloc((size_t)t->count + 1, sizeof *t->values);
    return t->values ? TIDE_OK : tide_no_memory(err);
}

static void take_stored(terms *t, const tide_desk_row *row)
{
    int at = 0;
    for (int u = 0; u < row->table->unique_count; u++) {
        const tide_table_unique *unique = &row->table->uniques[u];
        if (tide_table_unique_is_rowid(unique))
            continue;
        t->values[at++] = (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = 1};
        for (int i = 0; i < unique->term_count; i++)
            t->values[at++] = row->values[unique->terms[i].column];
    }
}

static tide_status force(tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    int columns[TIDE_EVENT_COLUMNS_MAX];
    const int count = tide_rivals_columns(row, true, columns);
    TIDE_FOREIGN_QUERY_BY(query, tide_table_query_some, desk->tx, row->table, TIDE_TABLE_ROW_FORCE,
                          columns, count, err);
    for (int i = 0; i < count; i++)
        tide_table_bind(query, 'c', columns[i], &row->values[columns[i]]);
    return tide_foreign_run(query, NULL, err);
}

static void bind_key(tide_foreign_query *query, const tide_desk_row *row)
{
    for (int i = 0; i < row->table->key_count; i++)
        tide_table_bind(query, 'k', i, &row->values[row->table->key[i]]);
}

static tide_status read_forced(terms *t, tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(force(desk, row, err));
    TIDE_TRY(tide_table_query(&query, desk->tx, row->table, TIDE_TABLE_ROW_TERMS, err));
    bind_key(query, row);
    const tide_status status = tide_foreign_step(query, err);
    if (status != TIDE_OK)
        return status < TIDE_OK
                   ? status
                   : tide_fail(err, TIDE_E_FAILED, "table %s swallows a row", row->table->name);
    for (int i = 0; i < t->count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        TIDE_TRY(tide_desk_keep(&t->values[i], desk, &value, err));
    }
    return TIDE_OK;
}

static tide_status take_made(terms *t, tide_desk *desk, const tide_desk_row *row, tide_error *err)
{
    TIDE_TRY(tide_foreign_script(desk->tx, TIDE_TEMPLATE_RIVALS_BEGIN->text, err));
    tide_foreign_mute_triggers(desk->tx, true);
    const tide_status status = read_forced(t, desk, row, err);
    tide_foreign_mute_triggers(desk->tx, false);
    tide_error undo = {0};
    if (tide_foreign_script(desk->tx, TIDE_TEMPLATE_RIVALS_UNDO->text, &undo) < TIDE_OK)
        return tide_fail(err, TIDE_E_FAILED, "a row that was put by force stays: %s", undo.text);
    return status;
}

tide_status tide_rivals_find(tide_found *out, tide_desk *desk, const tide_desk_row *row,
                             tide_error *err)
{
    TIDE_CLEANUP(terms_done) terms t = {.values = NULL};
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(terms_init(&t, row->table, err));
    if (t.count == 0)
        return TIDE_OK;
    if (t.is_made) {
        const tide_status status = take_made(&t, desk, row, err);
        if (status == TIDE_E_INVALID) /* it cannot stand there anyway */
            return TIDE_OK;
        TIDE_TRY(status);
    } else {
        take_stored(&t, row);
    }
    TIDE_TRY(tide_table_query(&query, desk->tx, row->table, TIDE_TABLE_ROW_RIVALS, err));
    for (int i = 0; i < t.count; i++)
        tide_table_bind(query, 'c', i, &t.values[i]);
    bind_key(query, row);
    return tide_found_collect(out, desk, row->table, query, err);
}
