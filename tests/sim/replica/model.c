#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/replica/world.h"

/* ---- growing ---- */

static int add_tx(model *m, const world_node *n)
{
    if (m->tx_count == m->tx_capacity) {
        m->tx_capacity = m->tx_capacity > 0 ? 2 * m->tx_capacity : 256;
        m->txs = realloc(m->txs, (size_t)m->tx_capacity * sizeof *m->txs);
        assert_non_null(m->txs);
    }
    m->txs[m->tx_count] = (written_tx){.node = n->index, .table = -1};
    return m->tx_count++;
}

static void add_name(written_tx *tx, const tide_node_id *origin, int64_t epoch, int64_t after,
                     int64_t last)
{
    assert_true(tx->name_count < WORLD_NAMES_MAX);
    tx->names[tx->name_count++] =
        (written_name){.origin = *origin, .epoch = epoch, .after = after, .last = last};
}

static void add_written(model *m, const shown_cell *cell, int by)
{
    if (m->cell_count == m->cell_capacity) {
        m->cell_capacity = m->cell_capacity > 0 ? 2 * m->cell_capacity : 1024;
        m->cells = realloc(m->cells, (size_t)m->cell_capacity * sizeof *m->cells);
        assert_non_null(m->cells);
    }
    written_cell *written = &m->cells[m->cell_count++];
    *written = (written_cell){.id = cell->id, .is_token = cell->is_token, .by = by};
    memcpy(written->text, cell->text, sizeof written->text);
}

static void add_gone(model *m, const tide_digest128 *id, int by)
{
    for (int i = 0; i < m->cell_count; i++) {
        written_cell *cell = &m->cells[i];
        if (memcmp(&cell->id, id, sizeof *id) != 0)
            continue;
        cell->gone_by = realloc(cell->gone_by, ((size_t)cell->gone_count + 1) * sizeof(int));
        assert_non_null(cell->gone_by);
        cell->gone_by[cell->gone_count++] = by;
    }
}

/* ---- transactions ---- */

typedef struct committing {
    model *m;
    const world_node *n;
    int64_t after_seq;
    int64_t last_seq;
    int captured;                 /* -1: none yet */
    int uncaptured[WORLD_TABLES]; /* the same */
} committing;

/* A column that was added and that no look has seen yet: writes of it alone are found by the scan of the next look, with whatever else it has by then. */
static bool has_unseen_column(const world_node *n, int table)
{
    char query[256];
    (void)snprintf(query, sizeof query,
                   "SELECT count(*) FROM tide_replica_columns c JOIN tide_replica_tables t ON t.id "
                   "= c.table_id WHERE t.name = '%s' AND c.name = 'extra'",
                   world_tables[table]);
    return look_has_column(n->writer, world_tables[table], "extra") &&
           look_number(n->writer, query, 0) == 0;
}

/* The transaction of a table's changes: what is not captured is another matter. */
static int tx_of(committing *c, int table)
{
    if (c->n->is_untracked[table]) {
        if (c->uncaptured[table] < 0) {
            c->uncaptured[table] = add_tx(c->m, c->n);
            written_tx *tx = &c->m->txs[c->uncaptured[table]];
            tx->is_uncaptured = true;
            tx->table = table;
        }
        return c->uncaptured[table];
    }
    if (c->captured < 0) {
        const tide_node_id id = tide_node_get_id(c->n->node);
        c->captured = add_tx(c->m, c->n);
        add_name(&c->m->txs[c->captured], &id, tide_node_epoch(c->n->node), c->after_seq,
                 c->last_seq);
        c->m->txs[c->captured].is_unsure =
            c->last_seq <= c->after_seq && has_unseen_column(c->n, table);
        if (c->m->txs[c->captured].is_unsure)
            c->m->txs[c->captured].name_count = 0;
        else if (c->last_seq <= c->after_seq)
            sim_fail(c->n->w->sim, "%s: a change of %s has no number", c->n->name,
                     world_tables[table]);
    }
    return c->captured;
}

void model_commit(model *m, const world_node *n, const shown *before, const shown *after,
                  int64_t after_seq, int64_t last_seq)
{
    committing c = {.m = m, .n = n, .after_seq = after_seq, .last_seq = last_seq, .captured = -1};
    memset(c.uncaptured, -1, sizeof c.uncaptured);
    for (int i = 0; i < before->count; i++)
        if (!shown_find(after, &before->cells[i].id))
            add_gone(m, &before->cells[i].id, tx_of(&c, before->cells[i].table));
    for (int i = 0; i < after->count; i++)
        if (!shown_find(before, &after->cells[i].id))
            add_written(m, &after->cells[i], tx_of(&c, after->cells[i].table));
}

void model_captured(model *m, const world_node *n, int table, int64_t after_seq, int64_t last_seq)
{
    const tide_node_id id = tide_node_get_id(n->node);
    for (int i = 0; i < m->tx_count; i++) {
        written_tx *tx = &m->txs[i];
        if (tx->is_uncaptured && tx->node == n->index && tx->table == table) {
            tx->is_uncaptured = false;
            tx->is_rescanned = true;
            add_name(tx, &id, tide_node_epoch(n->node), after_seq, last_seq);
        }
    }
}

void model_forget_uncaptured(model *m, const world_node *n)
{
    for (int i = 0; i < m->tx_count; i++)
        if (m->txs[i].is_uncaptured && m->txs[i].node == n->index)
            m->txs[i].is_uncaptured = false;
}

void model_told_again(model *m, const world_node *n, const tide_node_id *was, int64_t was_epoch,
                      int64_t folded, int64_t last)
{
    const tide_node_id id = tide_node_get_id(n->node);
    for (int i = 0; i < m->tx_count; i++) {
        written_tx *tx = &m->txs[i];
        for (int k = 0; k < tx->name_count; k++) {
            const written_name name = tx->names[k];
            if (memcmp(&name.origin, was, sizeof *was) != 0 || name.epoch != was_epoch ||
                name.last <= folded || name.last > last)
                continue;
            add_name(tx, &id, tide_node_epoch(n->node), name.after > folded ? name.after : folded,
                     name.last);
            tx->is_told_again = true;
            break;
        }
    }
}

void model_given_again(model *m, const tide_node_id *origin, int64_t epoch, int64_t last)
{
    for (int i = 0; i < m->tx_count; i++) {
        written_tx *tx = &m->txs[i];
        for (int k = 0; k < tx->name_count; k++)
            if (memcmp(&tx->names[k].origin, origin, sizeof *origin) == 0 &&
                tx->names[k].epoch == epoch && tx->names[k].last > last)
                tx->names[k--] = tx->names[--tx->name_count];
    }
}

/* ---- the end ---- */

typedef struct known_marks {
    tide_origin_mark of[WORLD_LOGS_MAX];
    int count;
} known_marks;

static tide_status keep_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    known_marks *marks = arg;
    (void)err;
    assert_true(marks->count < WORLD_LOGS_MAX);
    marks->of[marks->count++] = *mark;
    return TIDE_OK;
}

static int64_t count_events(sqlite3 *db, const written_name *name, bool is_processed)
{
    sqlite3_stmt *row = NULL;
    int64_t count = 0;
    assert_int_equal(SQLITE_OK, sqlite3_prepare_v2(db,
                                                   "SELECT count(*) FROM tide_replica_events WHERE "
                                                   "origin = ? AND epoch = ? AND seq > ? AND "
                                                   "seq <= ? AND processed = ?",
                                                   -1, &row, NULL));
    (void)sqlite3_bind_blob(row, 1, name->origin.bytes, TIDE_NODE_LEN, SQLITE_STATIC);
    (void)sqlite3_bind_int64(row, 2, name->epoch);
    (void)sqlite3_bind_int64(row, 3, name->after);
    (void)sqlite3_bind_int64(row, 4, name->last);
    (void)sqlite3_bind_int64(row, 5, is_processed);
    if (sqlite3_step(row) == SQLITE_ROW)
        count = sqlite3_column_int64(row, 0);
    (void)sqlite3_finalize(row);
    return count;
}

static written_fate decide(const known_marks *marks, sqlite3 *db, const written_name *name)
{
    int64_t prefix = 0;
    for (int i = 0; i < marks->count; i++)
        if (memcmp(&marks->of[i].origin, &name->origin, sizeof name->origin) == 0 &&
            marks->of[i].epoch == name->epoch)
            prefix = marks->of[i].prefix;
    if (count_events(db, name, false) >
        0) /* it waits for the rest of its batch, which may never come */
        return WRITTEN_PARTLY;
    if (prefix >= name->last)
        return WRITTEN_HERE;
    const int64_t count = count_events(db, name, true);
    if (count == name->last - name->after)
        return WRITTEN_HERE;
    return count > 0 || prefix > name->after ? WRITTEN_PARTLY : WRITTEN_GONE;
}

void model_decide(model *m, world_node *n)
{
    known_marks marks = {.count = 0};
    tide_error err;
    assert_ok_err(tide_node_marks(n->node, keep_mark, &marks, &err), &err);
    for (int i = 0; i < m->tx_count; i++) {
        written_tx *tx = &m->txs[i];
        tx->fate = tx->is_unsure ? WRITTEN_PARTLY : WRITTEN_GONE;
        for (int k = 0; k < tx->name_count && tx->fate != WRITTEN_HERE; k++) {
            const written_fate fate = decide(&marks, n->writer, &tx->names[k]);
            tx->fate = fate == WRITTEN_GONE ? tx->fate : fate;
        }
        n->w->tally.gone += tx->fate == WRITTEN_GONE;
    }
}

void model_done(model *m)
{
    for (int i = 0; i < m->cell_count; i++)
        free(m->cells[i].gone_by);
    free(m->cells);
    free(m->txs);
    *m = (model){.tx_count = 0};
}
