/* import_publish.c - what was staged becomes part of the journal, in one transaction.
 *
 * Under the locks of all tasks concerned and of the journal's head it is decided which checkpoints are new (by id, and not
 * removed here before), and which numbers they get: the file's own if all of the new ones lie above the counter, otherwise the next ones, in the same
 * order. Counters end at least where the file says that they stood. Numbers in between belong to checkpoints that did
 * not come: they are recorded as gaps.
 *
 * Tasks are worked on by depth, because a fork's numbers and chain go on from its fork point. */
#include <inttypes.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "journal/check/checksum.h"
#include "journal/check/removal.h"
#include "journal/checkpoint_iter.h"
#include "journal/events.h"
#include "journal/transfer/import_run.h"
#include "store/statement.h"
#include "tidemark_sql.h"

typedef struct publication {
    const tide_import_run *run;
    tide_journal_transfer counts;
    int64_t head; /* before */
    int64_t last; /* the counter afterwards */
    int64_t new_count;
    int64_t lowest;
    int64_t highest;
    bool is_distinct; /* all numbers of the file differ */
    bool is_kept;     /* numbers stay as in the file */
    int64_t first_new;
    int64_t last_new;
    tide_sequence_range range;
} publication;

/* ---- statements ---- */

static tide_status begin(tide_query **out, const publication *p, tide_tx *tx, const tide_sql *sql,
                         tide_error *err)
{
    return tide_query_start(out, tx, sql, err, tide_bind_i64("import_id", p->run->import_id));
}

/* A statement that wants nothing but the import. */
static tide_status run(const publication *p, tide_tx *tx, const tide_sql *sql, tide_error *err)
{
    TIDE_QUERY_BY(query, begin, p, tx, sql, err);
    return tide_query_run(query, NULL, err);
}

/* ... or the depth of tasks as well. */
static tide_status run_at(const publication *p, tide_tx *tx, const tide_sql *sql, int64_t depth,
                          tide_error *err)
{
    TIDE_QUERY_BY(query, begin, p, tx, sql, err);
    tide_query_bind_i64(query, "depth", depth);
    return tide_query_run(query, NULL, err);
}

static tide_status run_last(tide_tx *tx, const tide_sql *sql, int64_t last, tide_error *err)
{
    return tide_tx_exec(tx, sql, NULL, err, tide_bind_i64("last", last));
}

/* ---- what is there ---- */

static tide_status check_run(const publication *p, tide_tx *tx, tide_error *err)
{
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_QUERY_BY(touch, begin, p, tx, TIDE_SQL_IMPORT_RUN_TOUCH, err);
    tide_query_bind_time(touch, "now", now_us);
    int64_t changed = 0;
    TIDE_TRY(tide_query_run(touch, &changed, err));
    TIDE_QUERY_BY(query, begin, p, tx, TIDE_SQL_IMPORT_COUNT, err);
    TIDE_TRY(tide_query_one(query, err));
    const int64_t tasks = tide_query_col_i64(query);
    (void)tide_query_col_i64(query); /* without a depth: looked at before */
    (void)tide_query_col_i64(query);
    const int64_t checkpoints = tide_query_col_i64(query);
    if (changed != 1 || tasks != p->run->tasks || checkpoints != p->run->checkpoints)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "what was read was cleaned away meanwhile; start the import again");
    return TIDE_OK;
}

/* What this store has removed is taken out of what was staged. */
static tide_status drop_removed(publication *p, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY_BY(query, begin, p, tx, TIDE_SQL_IMPORT_DROP_REMOVED, err);
    tide_query_bind_bool(query, "is_own", p->run->is_own);
    tide_query_bind_text(query, "session", p->run->session);
    int64_t dropped = 0;
    TIDE_TRY(tide_query_run(query, &dropped, err));
    p->counts.removed += dropped;
    return TIDE_OK;
}

static tide_status read_new(publication *p, tide_tx *tx, tide_error *err)
{
    TIDE_TRY(drop_removed(p, tx, err));
    TIDE_QUERY_BY(query, begin, p, tx, TIDE_SQL_IMPORT_NEW_ROWS, err);
    TIDE_TRY(tide_query_one(query, err));
    p->new_count = tide_query_col_i64(query);
    p->lowest = tide_query_col_i64(query);
    p->highest = tide_query_col_i64(query);
    p->is_distinct = tide_query_col_i64(query) == p->new_count;
    return TIDE_OK;
}

/* Same id, same content: it is here already. Same id, other content: nothing is changed. */
static tide_status check_same(const publication *p, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY_BY(query, begin, p, tx, TIDE_SQL_IMPORT_MISMATCH, err);
    const tide_status status = tide_query_one(query, err);
    TIDE_TRY(status);
    if (status == TIDE_OK) {
        const tide_view id = tide_query_col_text(query);
        return tide_fail(err, TIDE_E_MISMATCH,
                         "checkpoint %.*s is here already, with other content", (int)id.len,
                         id.ptr);
    }
    TIDE_QUERY_BY(plain, begin, p, tx, TIDE_SQL_IMPORT_KNOWN_PLAIN_COUNT, err);
    TIDE_TRY(tide_query_one(plain, err));
    if (tide_query_col_i64(plain) > p->run->known_plain)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "checkpoints of the file were added here meanwhile; start again");
    return TIDE_OK;
}

static tide_status check_types(const publication *p, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY_BY(query, begin, p, tx, TIDE_SQL_IMPORT_ROW_WITHOUT_TYPE, err);
    TIDE_OK_IF_NONE(tide_query_one(query, err));
    const tide_view id = tide_query_col_text(query);
    const tide_view type = tide_query_col_text(query);
    return tide_fail(err, TIDE_E_INVALID, "checkpoint %.*s has an unknown type '%.*s'", (int)id.len,
                     id.ptr, (int)type.len, type.ptr);
}

/* The one number that a statement finds. */
static tide_status ask(int64_t *out, const publication *p, tide_tx *tx, const tide_sql *sql,
                       tide_error *err)
{
    TIDE_QUERY_BY(query, begin, p, tx, sql, err);
    TIDE_TRY(tide_query_one(query, err));
    *out = tide_query_col_i64(query);
    return TIDE_OK;
}

/* A second import of the same file: nothing is written. */
static tide_status is_nothing_new(bool *out, int64_t *store_head, const publication *p, tide_tx *tx,
                                  tide_error *err)
{
    *out = false;
    TIDE_QUERY_BY(head, tide_tx_one, tx, TIDE_SQL_JOURNAL_HEAD_GET, err, TIDE_NO_BIND);
    const int64_t last = tide_query_col_i64(head);
    if (p->new_count > 0 || last < p->run->head)
        return TIDE_OK;
    *store_head = last;
    int64_t tasks = 0;
    int64_t types = 0;
    int64_t annotations = 0;
    TIDE_TRY(ask(&tasks, p, tx, TIDE_SQL_IMPORT_TASKS_BEHIND, err));
    TIDE_TRY(ask(&types, p, tx, TIDE_SQL_IMPORT_NEW_TYPES, err));
    TIDE_TRY(ask(&annotations, p, tx, TIDE_SQL_IMPORT_NEW_ANNOTATIONS, err));
    *out = tasks == 0 && types == 0 && annotations == 0;
    return TIDE_OK;
}

/* ---- locks ---- */

static tide_status add_tasks(const publication *p, tide_tx *tx, tide_error *err)
{
    TIDE_TRY(run(p, tx, TIDE_SQL_IMPORT_TASKS_MARK, err));
    TIDE_QUERY_BY(query, begin, p, tx, TIDE_SQL_IMPORT_TASKS_PUBLISH, err);
    tide_query_bind_bool(query, "yes", true);
    return tide_query_run(query, NULL, err);
}

/* In the order in which everybody takes them: tasks by id, the journal, events. */
static tide_status lock(publication *p, tide_tx *tx, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        TIDE_TRY(run(p, tx, TIDE_SQL_IMPORT_HEADS_LOCK, err));
    TIDE_QUERY(query, tx, TIDE_SQL_IMPORT_HEAD_LOCK, err, tide_bind_clock("clock"));
    TIDE_TRY(tide_tx_declare_counter(tx, "journal/2", &query, &p->head, err));
    TIDE_TRY(tide_journal_event_declare(tx, &p->range, err));
    return tide_tx_take_counters(tx, err);
}

/* ---- numbers ---- */

static tide_status decide_numbers(publication *p, tide_error *err)
{
    p->is_kept = p->is_distinct && p->lowest > p->head;
    p->last = p->head;
    if (p->new_count > 0)
        p->last = p->is_kept ? p->highest : p->head + p->new_count;
    if (p->run->head > p->last)
        p->last = p->run->head;
    /* A store that is beyond it already, by appends, is not made worse by a file without news. */
    if (p->last > TIDE_JOURNAL_NUMBER_MAX && p->last > p->head)
        return tide_fail(err, TIDE_E_LIMIT,
                         "the import would raise the numbers of this store from %" PRId64
                         " to %" PRId64 "; at most %" PRId64,
                         p->head, p->last, TIDE_JOURNAL_NUMBER_MAX);
    p->counts.store_head = p->last;
    return TIDE_OK;
}

static tide_status order_rows(const publication *p, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY_BY(query, begin, p, tx, TIDE_SQL_IMPORT_ORDER_FILL, err);
    tide_query_bind_bool(query, "is_kept", p->is_kept);
    tide_query_bind_bool(query, "is_by_place", !p->is_distinct);
    tide_query_bind_i64(query, "head", p->head);
    return tide_query_run(query, NULL, err);
}

static tide_status record_gaps(const publication *p, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY_BY(between, begin, p, tx, TIDE_SQL_IMPORT_GAPS_PUBLISH, err);
    tide_query_bind_i64(between, "head", p->head);
    TIDE_TRY(tide_query_run(between, NULL, err));
    const int64_t last_row = p->new_count > 0 ? p->last_new : p->head;
    if (p->last <= last_row)
        return TIDE_OK;
    return tide_tx_exec(tx, TIDE_SQL_IMPORT_GAP_PUBLISH, NULL, err,
                        tide_bind_i64("first", last_row + 1), tide_bind_i64("last", p->last));
}

/* SQLite's own counter never falls behind. */
static tide_status raise_sequence(const publication *p, tide_tx *tx, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_SQLITE || p->last == 0)
        return TIDE_OK;
    TIDE_TRY(run_last(tx, TIDE_SQL_IMPORT_SEQUENCE_ADD, p->last, err));
    return run_last(tx, TIDE_SQL_IMPORT_SEQUENCE_RAISE, p->last, err);
}

/* ---- tasks ---- */

static tide_status set_fork(tide_tx *tx, const char *task_id, const char *parent, int64_t number,
                            tide_error *err)
{
    tide_lineage lineage;
    TIDE_TRY(tide_lineage_read(&lineage, tx, parent, err));
    if (lineage.count > TIDE_JOURNAL_DEPTH_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "task %s: more than %d forks in a line", task_id,
                         TIDE_JOURNAL_DEPTH_MAX);
    tide_chain chain = {0};
    TIDE_TRY(tide_chain_at(&chain, tx, parent, number, err));
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_IMPORT_FORK_SET, NULL, err,
                          tide_bind_text("task_id", task_id), tide_bind_i64("number", number)));
    return tide_tx_exec(tx, TIDE_SQL_FORK_HEAD_SET, NULL, err, tide_bind_text("task_id", task_id),
                        tide_bind_i64("number", number),
                        tide_bind_blob("chain", tide_chain_view(&chain)));
}

static tide_status set_forks(const publication *p, tide_tx *tx, int64_t depth, tide_error *err)
{
    TIDE_QUERY_BY(query, begin, p, tx, TIDE_SQL_IMPORT_FORKS, err);
    tide_query_bind_i64(query, "depth", depth);
    tide_query_bind_bool(query, "yes", true);
    TIDE_EACH(tide_query_step(query, err)) {
        char task_id[TIDE_JOURNAL_ID_MAX + 1];
        char parent[TIDE_JOURNAL_ID_MAX + 1];
        tide_view text = tide_query_col_text(query);
        tide_view_copy(task_id, sizeof task_id, text);
        text = tide_query_col_text(query);
        tide_view_copy(parent, sizeof parent, text);
        if (tide_query_col_is_null(query))
            return tide_fail(err, TIDE_E_INVALID,
                             "task %s was forked from %s at a checkpoint that is neither in the "
                             "file nor here, or was removed here",
                             task_id, parent);
        TIDE_TRY(set_fork(tx, task_id, parent, tide_query_col_i64(query), err));
    }
    return TIDE_OK;
}

static tide_status publish_depth(const publication *p, tide_tx *tx, int64_t depth, tide_error *err)
{
    TIDE_TRY(set_forks(p, tx, depth, err));
    TIDE_TRY(run_at(p, tx, TIDE_SQL_IMPORT_SHIFTS, depth, err));
    TIDE_TRY(run_at(p, tx, TIDE_SQL_IMPORT_HEADS_RAISE, depth, err));
    TIDE_TRY(run_at(p, tx, TIDE_SQL_IMPORT_ROWS_PUBLISH, depth, err));
    return run_at(p, tx, TIDE_SQL_IMPORT_CHAINS_PUBLISH, depth, err);
}

/* ---- all of it ---- */

static tide_status read_result(publication *p, tide_tx *tx, tide_error *err)
{
    TIDE_QUERY_BY(query, begin, p, tx, TIDE_SQL_IMPORT_RESULT, err);
    TIDE_TRY(tide_query_one(query, err));
    p->counts.checkpoints = tide_query_col_i64(query);
    p->counts.renumbered = tide_query_col_i64(query);
    p->first_new = tide_query_col_i64(query);
    p->last_new = tide_query_col_i64(query);
    p->counts.skipped = p->run->checkpoints - p->counts.checkpoints;
    return TIDE_OK;
}

/* Tags and chunks come before their checkpoints, parents before their forks. */
static tide_status publish_rows(publication *p, tide_tx *tx, tide_error *err)
{
    TIDE_TRY(decide_numbers(p, err));
    TIDE_TRY(order_rows(p, tx, err));
    TIDE_TRY(run_last(tx, TIDE_SQL_IMPORT_HEAD_RAISE, p->last, err));
    TIDE_TRY(run(p, tx, TIDE_SQL_IMPORT_TAGS_PUBLISH, err));
    TIDE_TRY(run(p, tx, TIDE_SQL_IMPORT_CHUNKS_PUBLISH, err));
    for (int64_t depth = 0; depth <= p->run->depth_max; depth++)
        TIDE_TRY(publish_depth(p, tx, depth, err));
    TIDE_TRY(run(p, tx, TIDE_SQL_IMPORT_ANNOTATIONS_PUBLISH, err));
    TIDE_TRY(read_result(p, tx, err));
    TIDE_TRY(record_gaps(p, tx, err));
    return raise_sequence(p, tx, err);
}

static tide_status publish(tide_tx *tx, void *arg, tide_error *err)
{
    publication *p = arg;
    p->counts = (tide_journal_transfer){.tasks = p->run->tasks, .head = p->run->head};
    bool is_nothing = false;
    TIDE_TRY(tide_removal_keep_away(tx, err)); /* forks come too */
    TIDE_TRY(check_run(p, tx, err));
    TIDE_TRY(check_same(p, tx, err));
    TIDE_TRY(read_new(p, tx, err));
    TIDE_TRY(is_nothing_new(&is_nothing, &p->counts.store_head, p, tx, err));
    if (is_nothing) {
        p->counts.skipped = p->run->checkpoints;
        return run(p, tx, TIDE_SQL_IMPORT_RUN_END, err);
    }
    TIDE_TRY(run(p, tx, TIDE_SQL_IMPORT_TYPES_PUBLISH, err));
    TIDE_TRY(check_types(p, tx, err));
    TIDE_TRY(add_tasks(p, tx, err));
    TIDE_TRY(lock(p, tx, err));
    /* Once more, now that nobody else can add to these tasks. */
    TIDE_TRY(check_same(p, tx, err));
    TIDE_TRY(read_new(p, tx, err));
    TIDE_TRY(publish_rows(p, tx, err));
    TIDE_TRY(run(p, tx, TIDE_SQL_IMPORT_RUN_END, err));
    const tide_journal_event event = {
        .kind = TIDE_JOURNAL_IMPORTED,
        .first_global = p->first_new,
        .last_global = p->last_new,
        .count = p->counts.checkpoints,
    };
    return tide_journal_event_defer(tx, &event, err);
}

tide_status tide_import_publish(tide_import_run *run_of, tide_journal_transfer *out,
                                tide_error *err)
{
    publication p = {.run = run_of};
    tide_status status = tide_store_write(run_of->store, publish, &p, err);
    if (status ==
        TIDE_E_EXISTS) /* another has added a task or a checkpoint meanwhile: look again */
        status = tide_store_write(run_of->store, publish, &p, err);
    if (status >= TIDE_OK)
        *out = p.counts;
    return status;
}
