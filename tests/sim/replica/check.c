#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/replica/world.h"

enum { ROUNDS_MAX = 12 };

/* ---- marks ---- */

typedef struct seen_marks {
    world_node *n;
    tide_origin_mark now[WORLD_LOGS_MAX];
    int count;
} seen_marks;

static const tide_origin_mark *find_mark(const tide_origin_mark *of, int count,
                                         const tide_origin_mark *wanted)
{
    for (int i = 0; i < count; i++)
        if (of[i].epoch == wanted->epoch &&
            memcmp(&of[i].origin, &wanted->origin, sizeof wanted->origin) == 0)
            return &of[i];
    return NULL;
}

static tide_status keep_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    seen_marks *seen = arg;
    (void)err;
    assert_true(seen->count < WORLD_LOGS_MAX);
    seen->now[seen->count++] = *mark;
    return TIDE_OK;
}

static void compare_marks(world_node *n, const tide_origin_mark *was, const tide_origin_mark *now)
{
    if (!now)
        sim_fail(n->w->sim, "%s has lost a log", n->name);
    else if (now->prefix < was->prefix || now->highest < was->highest || now->floor < was->floor)
        sim_fail(n->w->sim,
                 "%s: a mark went back: prefix %lld to %lld, highest %lld to %lld, floor %lld to "
                 "%lld",
                 n->name, (long long)was->prefix, (long long)now->prefix, (long long)was->highest,
                 (long long)now->highest, (long long)was->floor, (long long)now->floor);
    else if (now->prefix > now->highest || now->floor > now->prefix)
        sim_fail(n->w->sim, "%s: a mark that cannot be: floor %lld, prefix %lld, highest %lld",
                 n->name, (long long)now->floor, (long long)now->prefix, (long long)now->highest);
}

void world_check_marks(world_node *n)
{
    seen_marks seen = {.n = n};
    tide_error err;
    if (!world_node_is_up(n))
        return;
    assert_ok_err(tide_node_marks(n->node, keep_mark, &seen, &err), &err);
    for (int i = 0; i < n->mark_count; i++)
        compare_marks(n, &n->marks[i], find_mark(seen.now, seen.count, &n->marks[i]));
    memcpy(n->marks, seen.now, (size_t)seen.count * sizeof *seen.now);
    n->mark_count = seen.count;
}

/* ---- digests ---- */

typedef struct digest_list {
    tide_table_digest of[WORLD_TABLES + 1];
    int count;
} digest_list;

static tide_status keep_digest(void *arg, const tide_table_digest *digest, tide_error *err)
{
    digest_list *list = arg;
    (void)err;
    assert_true(list->count <= WORLD_TABLES);
    list->of[list->count++] = *digest;
    return TIDE_OK;
}

static const tide_table_digest *find_digest(const digest_list *list, const char *table)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->of[i].table, table) == 0)
            return &list->of[i];
    return NULL;
}

/* Every stored column, in the order of the key. */
static char *dump_table(world_node *n, int table)
{
    char query[256];
    (void)snprintf(query, sizeof query, "SELECT * FROM %s ORDER BY %s", world_tables[table],
                   table == 2 ? "a, b" : "1, typeof(1), quote(1)");
    return look_dump(n->writer, query);
}

static bool shows_same(world_node *a, world_node *b, int table)
{
    char *first = dump_table(a, table);
    char *second = dump_table(b, table);
    const bool is_same = strcmp(first, second) == 0;
    sqlite3_free(first);
    sqlite3_free(second);
    return is_same;
}

void world_check_digests(world_node *a, world_node *b)
{
    tide_error err;
    digest_list of_a = {.count = 0};
    digest_list of_b = {.count = 0};
    if (tide_node_digests(a->node, keep_digest, &of_a, &err) < TIDE_OK) {
        world_node_must(a, TIDE_E_FAILED, &err, "tell its digests");
        return;
    }
    if (tide_node_digests(b->node, keep_digest, &of_b, &err) < TIDE_OK) {
        world_node_must(b, TIDE_E_FAILED, &err, "tell its digests");
        return;
    }
    for (int t = 0; t < WORLD_TABLES; t++) {
        const tide_table_digest *x = find_digest(&of_a, world_tables[t]);
        const tide_table_digest *y = find_digest(&of_b, world_tables[t]);
        if (!x || !y ||
            look_has_column(a->writer, world_tables[t], "extra") !=
                look_has_column(b->writer, world_tables[t], "extra"))
            continue;
        const bool is_equal =
            x->rows == y->rows && memcmp(x->digest, y->digest, sizeof x->digest) == 0;
        if (is_equal != shows_same(a, b, t))
            sim_fail(a->w->sim, "%s and %s: the digests of %s are %s, the rows are not", a->name,
                     b->name, world_tables[t], is_equal ? "equal" : "different");
    }
}

/* ---- healing ---- */

static void heal_clocks(world *w)
{
    for (int i = 0; i < w->count; i++) {
        world_node *n = &w->nodes[i];
        const int64_t ahead = w->wall_max_us + INT64_C(400000000);
        n->clock.offset_us += ahead - n->clock.env.wall_us(&n->clock.env);
    }
}

static void heal_tables(world *w)
{
    for (int i = 0; i < w->count; i++)
        for (int t = 0; t < WORLD_TABLES && !sim_failure(w->sim); t++) {
            world_node *n = &w->nodes[i];
            if (!w->has_table[t])
                continue;
            if (w->is_altered[t])
                world_node_alter(n, t);
            if (n->is_untracked[t])
                world_node_track(n, t);
        }
}

/* must: nothing stands in the way of a proof any more. */
static int64_t sync_all(world *w, bool must)
{
    int64_t moved = 0;
    tide_error err;
    for (int a = 0; a < w->count; a++)
        for (int b = a + 1; b < w->count && !sim_failure(w->sim); b++) {
            tide_status status = world_sync_calmly(&w->nodes[a], &w->nodes[b], &moved, &err);
            if (status == TIDE_E_NOT_FOUND) /* the other is below a floor: let it ask */
                status = world_sync_calmly(&w->nodes[b], &w->nodes[a], &moved, &err);
            if (status < TIDE_OK && must)
                sim_fail(w->sim, "n%d does not sync with n%d: %s", a, b, err.text);
        }
    return moved;
}

static void heal(world *w)
{
    heal_clocks(w);
    (void)sync_all(w, false);
    heal_tables(w);
    int rounds = 0;
    while (!sim_failure(w->sim) && sync_all(w, true) > 0)
        if (++rounds > ROUNDS_MAX)
            sim_fail(w->sim, "after %d rounds of syncs something still moves", rounds);
    for (int i = 0; i < w->count && !sim_failure(w->sim); i++)
        world_check_marks(&w->nodes[i]);
}

/* ---- the same everywhere ---- */

/* All events, by row and stamp: for who looks into a failure. */
static void print_log(const world_node *n)
{
    char *log = look_dump(n->writer, "SELECT table_name, record_id, stamp, operation_type, "
                                     "hex(substr(origin, 1, 2)), epoch, seq, cut_seq, processed, "
                                     "data FROM tide_replica_events ORDER BY table_name, "
                                     "record_id, stamp");
    (void)fprintf(stderr, "events of %s:\n%s", n->name, log);
    sqlite3_free(log);
    log = look_dump(n->writer, "SELECT t.name, hex(c.key), c.col, c.time, hex(substr(c.node, 1, "
                               "2)), hex(c.value) FROM tide_replica_conflicts c JOIN "
                               "tide_replica_tables t ON t.id = c.table_id ORDER BY 1, 2, 3, 4");
    (void)fprintf(stderr, "conflicts of %s:\n%s", n->name, log);
    sqlite3_free(log);
}

static void expect_same(world *w, int other, const char *what, const char *query)
{
    char *first = look_dump(w->nodes[0].writer, query);
    char *second = look_dump(w->nodes[other].writer, query);
    if (strcmp(first, second) != 0) {
        (void)sim_expect(w->sim, false, "%s differ between n0 and n%d", what, other);
        if (getenv("TIDEMARK_SEED"))
            (void)fprintf(stderr, "%s\nn0:\n%s\nn%d:\n%s\n", query, first, other, second);
    }
    sqlite3_free(first);
    sqlite3_free(second);
}

static void expect_converged(world *w, int other)
{
    static const char *const queries[][2] = {
        {"rows kept aside", "SELECT t.name, k.key, k.aside, k.rival FROM tide_replica_clocks k "
                            "JOIN tide_replica_tables t ON t.id = k.table_id WHERE k.aside > 0 "
                            "ORDER BY 1, 2"},
        {"conflicts", "SELECT t.name, c.key, c.col, c.time, c.node, c.value FROM "
                      "tide_replica_conflicts c JOIN tide_replica_tables t ON t.id = c.table_id "
                      "LEFT JOIN tide_replica_columns n ON n.table_id = c.table_id AND n.position "
                      "= c.col WHERE NOT (n.name IS 'extra' AND c.value = x'00') "
                      "ORDER BY 1, 2, 3, 4, 5"},
        {"loose references", "SELECT t.name, l.columns FROM tide_replica_loose l JOIN "
                             "tide_replica_tables t ON t.id = l.table_id ORDER BY 1, 2"},
    };
    world_node *n = &w->nodes[other];
    for (int t = 0; t < WORLD_TABLES; t++)
        if (w->has_table[t] && !shows_same(&w->nodes[0], n, t)) {
            char query[64];
            (void)snprintf(query, sizeof query, "SELECT * FROM %s ORDER BY 1, 2", world_tables[t]);
            expect_same(w, other, world_tables[t], query);
            if (getenv("TIDEMARK_SEED"))
                print_log(n);
        }
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
        expect_same(w, other, queries[i][0], queries[i][1]);
}

static void expect_nothing(world *w, world_node *n, const char *query, const char *what)
{
    const int64_t count = look_number(n->writer, query, 0);
    if (count == 0)
        return;
    (void)sim_expect(w->sim, false, "%s: %lld %s", n->name, (long long)count, what);
}

/* The log of a table is one chain: each event names the one before. */
static void expect_sound(world *w, world_node *n)
{
    expect_nothing(
        w, n,
        "SELECT count(*) FROM pragma_foreign_key_check f WHERE f.\"table\" NOT IN (SELECT "
        "t.name FROM tide_replica_loose l JOIN tide_replica_tables t ON t.id = "
        "l.table_id)",
        "rows without what they refer to");
    if (!w->has_orphans && w->tally.untracks == 0)
        expect_nothing(w, n, "SELECT count(*) FROM tide_replica_loose",
                       "references are loose though no application has committed an orphan");
    expect_nothing(w, n,
                   "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
                   "damages");
    expect_nothing(w, n, "SELECT count(*) FROM tide_replica_quarantine",
                   "events are held though nothing stands in their way");
    expect_nothing(
        w, n,
        "SELECT count(*) FROM tide_replica_events e WHERE NOT processed AND epoch > 0 AND NOT "
        "EXISTS (SELECT 1 FROM tide_replica_spool s WHERE s.origin = e.origin AND "
        "s.epoch = e.epoch AND s.cut_seq = e.cut_seq)",
        "events are not processed");
    expect_nothing(w, n,
                   "SELECT count(*) FROM tide_replica_events e JOIN tide_replica_origins o ON "
                   "o.origin = e.origin AND o.epoch = e.epoch WHERE e.seq <= o.start",
                   "events lie below the start of their epoch");
}

static void tell_differing_event(world *w, int other, sqlite3_stmt *here, sqlite3_stmt *there,
                                 int column)
{
    (void)sim_expect(w->sim, false, "column %d of an event differs between n0 and n%d", column,
                     other);
    if (!getenv("TIDEMARK_SEED"))
        return;
    const uint8_t *origin = sqlite3_column_blob(here, 0);
    print_error("%02x%02x epoch %lld number %lld (cut %lld), %s %s %s: n0 '%s', n%d '%s'\n",
                origin[0], origin[1], (long long)sqlite3_column_int64(here, 1),
                (long long)sqlite3_column_int64(here, 2), (long long)sqlite3_column_int64(here, 3),
                sqlite3_column_text(here, 5), sqlite3_column_text(here, 6),
                sqlite3_column_text(here, 7), sqlite3_column_text(here, column), other,
                sqlite3_column_text(there, column));
}

/* An event is the same wherever it is. */
static void expect_same_events(world *w, int other)
{
    static const char columns[] =
        "SELECT origin, epoch, seq, cut_seq, id, table_name, operation_type, record_id, "
        "timestamp, stamp, body, data FROM tide_replica_events WHERE epoch > 0";
    char text[400];
    sqlite3_stmt *row = NULL;
    assert_int_equal(SQLITE_OK,
                     sqlite3_prepare_v2(w->nodes[other].writer, columns, -1, &row, NULL));
    (void)snprintf(text, sizeof text, "%s AND origin = ? AND epoch = ? AND seq = ?", columns);
    sqlite3_stmt *same = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_prepare_v2(w->nodes[0].writer, text, -1, &same, NULL));
    while (sqlite3_step(row) == SQLITE_ROW) {
        for (int i = 0; i < 3; i++)
            (void)sqlite3_bind_value(same, i + 1, sqlite3_column_value(row, i));
        const bool is_here = sqlite3_step(same) == SQLITE_ROW;
        for (int i = 0; is_here && i < sqlite3_column_count(row); i++) {
            const int len = sqlite3_column_bytes(row, i);
            if (len != sqlite3_column_bytes(same, i) ||
                (len > 0 && memcmp(sqlite3_column_blob(row, i), sqlite3_column_blob(same, i),
                                   (size_t)len) != 0))
                tell_differing_event(w, other, same, row, i);
        }
        sqlite3_reset(same);
    }
    (void)sqlite3_finalize(row);
    (void)sqlite3_finalize(same);
}

/* ---- nothing lost, nothing invented ---- */

static bool is_replaced(const model *m, const written_cell *cell, bool surely)
{
    for (int i = 0; i < cell->gone_count; i++) {
        const written_fate fate = m->txs[cell->gone_by[i]].fate;
        if (fate == WRITTEN_HERE || (!surely && fate == WRITTEN_PARTLY))
            return true;
    }
    return false;
}

/* What is known of a write, for who looks into a failure. */
static void explain(const world *w, const tide_digest128 *id)
{
    static const char *const fates[] = {"gone", "here", "partly here"};
    const model *m = &w->model;
    if (!getenv("TIDEMARK_SEED"))
        return;
    for (int i = 0; i < m->cell_count; i++) {
        const written_cell *cell = &m->cells[i];
        if (memcmp(&cell->id, id, sizeof *id) != 0)
            continue;
        print_error("%s: by transaction %d", cell->text, cell->by);
        for (int k = -1; k < cell->gone_count; k++) {
            const int number = k < 0 ? cell->by : cell->gone_by[k];
            const written_tx *tx = &m->txs[number];
            if (k >= 0)
                print_error("; replaced by transaction %d", number);
            print_error(" of n%d (%s%s", tx->node, fates[tx->fate],
                        tx->is_told_again ? ", told again" : "");
            for (int j = 0; j < tx->name_count; j++)
                print_error(", %02x%02x epoch %lld %lld..%lld", tx->names[j].origin.bytes[0],
                            tx->names[j].origin.bytes[1], (long long)tx->names[j].epoch,
                            (long long)tx->names[j].after + 1, (long long)tx->names[j].last);
            print_error(")");
        }
        print_error("\n");
    }
    print_log(&w->nodes[0]);
}

static void expect_nothing_lost(world *w, world_node *n, const shown *state, const shown *conflicts,
                                const shown *aside)
{
    const model *m = &w->model;
    for (int i = 0; i < m->cell_count; i++) {
        const written_cell *cell = &m->cells[i];
        if (m->txs[cell->by].fate != WRITTEN_HERE || is_replaced(m, cell, false) ||
            (m->txs[cell->by].is_rescanned && !cell->is_token) || shown_find(state, &cell->id) ||
            shown_find(conflicts, &cell->id) || shown_find(aside, &cell->id))
            continue;
        (void)sim_expect(w->sim, false, "%s has lost a write of n%d: %s", n->name,
                         m->txs[cell->by].node, cell->text);
        explain(w, &cell->id);
        return;
    }
}

/* A text that was written once is listed only if nobody who removed it had seen it, and it is shown nowhere. (Where events that knew it were collected, and
 * snapshots took their place, a write is rather listed than lost: snapshot_conflict.h. A text that came to the same place twice, by a key that was changed
 * and changed back, is two writes, and he who replaced it may have seen one of them.) */
static void expect_listed_is_lost(world *w, world_node *n, const shown *state,
                                  const shown *conflicts)
{
    const model *m = &w->model;
    if (w->tally.collected > 0 && w->tally.bootstraps > 0)
        return;
    for (int c = 0; c < conflicts->count; c++) {
        const shown_cell *listed = &conflicts->cells[c];
        bool is_lost = false;
        int written = 0;
        bool is_told_again = false; /* one of the two may be lost to the other */
        if (!listed->is_token)
            continue;
        for (int i = 0; i < m->cell_count; i++) {
            if (memcmp(&m->cells[i].id, &listed->id, sizeof listed->id) != 0)
                continue;
            written++;
            is_lost = is_lost || !is_replaced(m, &m->cells[i], true);
            is_told_again = is_told_again || m->txs[m->cells[i].by].is_told_again;
        }
        if (written > 1 || is_told_again || (is_lost && !shown_find(state, &listed->id)))
            continue;
        (void)sim_expect(w->sim, false, "%s lists a conflict that is none: %s", n->name,
                         listed->text);
        explain(w, &listed->id);
        return;
    }
}

static void expect_writes(world *w, world_node *n)
{
    shown state = {.count = 0};
    shown conflicts = {.count = 0};
    shown aside = {.count = 0};
    shown_take(&state, n->writer);
    shown_take_listed(&conflicts, &aside, n->writer);
    expect_nothing_lost(w, n, &state, &conflicts, &aside);
    expect_listed_is_lost(w, n, &state, &conflicts);
    w->tally.conflicts += conflicts.count;
    w->tally.asides += aside.count;
    shown_done(&state);
    shown_done(&conflicts);
    shown_done(&aside);
}

void world_expect_end(world *w)
{
    heal(w);
    if (!sim_run(w->sim, sim_now_us(w->sim), UINT64_MAX)) /* tells what failed outside of it */
        return;
    model_decide(&w->model, &w->nodes[0]);
    world_plant_fault(w);
    for (int i = 0; i < w->count; i++) {
        world_check_marks(&w->nodes[i]);
        expect_sound(w, &w->nodes[i]);
    }
    for (int i = 0; i < w->count; i++) {
        if (i > 0) {
            expect_converged(w, i);
            expect_same_events(w, i);
            world_check_digests(&w->nodes[0], &w->nodes[i]);
        }
        expect_writes(w, &w->nodes[i]);
    }
}
