#include "store/sqlite/sqlite_group.h"

#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    CAREFUL_GROUPS = 64,     /* groups that run in savepoints after a closure has failed */
    CHECKPOINT_FRAMES = 800, /* below the 1,000 at which foreign programs start to checkpoint */
    CHECKPOINT_STEP = 100,   /* frames between two tries while a reader is in the way */
    MARK_RETRY_US = 1000000,
    MARKER_OUT_US = 1000000, /* how much of the identity marker a power cut can take */
};

static tide_status exec(tide_sqlite_writer *writer, const char *text, tide_error *err)
{
    return tide_sqlite_exec(writer->connection, text, err);
}

static bool is_transaction_gone(const tide_sqlite_writer *writer)
{
    return sqlite3_get_autocommit(writer->connection->db) != 0;
}

/* ---- one closure ---- */

/* A reference that is still dangling would fail the whole group's COMMIT: it is this closure's
 * failure. */
static tide_status check_deferred_keys(tide_sqlite_writer *writer, tide_error *err)
{
    int pending = 0;
    int highest = 0;
    (void)sqlite3_db_status(writer->connection->db, SQLITE_DBSTATUS_DEFERRED_FKS, &pending,
                            &highest, 0);
    if (pending == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "FOREIGN KEY constraint failed: a row refers to nothing");
}

static tide_status run_closure(tide_sqlite_writer *writer, tide_tx_fn *fn, void *arg,
                               tide_error *err)
{
    tide_sqlite_connection *connection = writer->connection;
    tide_tx *tx = &connection->tx;
    tide_sqlite_set_limits(connection);
    tide_tx_init(tx, writer->store, connection, &connection->pool, true);
    tide_status status = tide_tx_run(tx, fn, arg, err);
    if (status >= TIDE_OK) {
        const tide_status completed = tide_tx_complete_plainly(tx, err);
        if (completed < TIDE_OK)
            status = completed;
    }
    tide_tx_done(tx);
    if (status >= TIDE_OK && !is_transaction_gone(writer)) {
        const tide_status keys = check_deferred_keys(writer, err);
        if (keys < TIDE_OK)
            status = keys;
    }
    connection->budget_until_us = 0;
    return status;
}

/* Returns false when the closure took the whole transaction with it. */
static bool run_unshielded(tide_sqlite_writer *writer, tide_tx_fn *fn, void *arg,
                           tide_status *status, tide_error *err)
{
    *status = run_closure(writer, fn, arg, err);
    if (!is_transaction_gone(writer))
        return true;
    if (*status >= TIDE_OK)
        *status = tide_fail(err, TIDE_E_CONFLICT, "the database rolled the transaction back");
    return false;
}

/* The same, and a closure that fails takes nobody else along. */
static bool run_in_savepoint(tide_sqlite_writer *writer, tide_tx_fn *fn, void *arg,
                             tide_status *status, tide_error *err)
{
    *status = exec(writer, "SAVEPOINT closure", err);
    if (*status < TIDE_OK)
        return !is_transaction_gone(writer);
    if (!run_unshielded(writer, fn, arg, status, err))
        return false;
    const bool is_kept = *status >= TIDE_OK;
    tide_error end_err;
    const tide_status ended = exec(
        writer, is_kept ? "RELEASE closure" : "ROLLBACK TO closure; RELEASE closure", &end_err);
    if (ended < TIDE_OK && is_kept) {
        *status = ended;
        *err = end_err;
    }
    return ended >= TIDE_OK && !is_transaction_gone(writer);
}

/* ---- one group ---- */

static void checkpoint(tide_sqlite_writer *writer)
{
    tide_sqlite_connection *connection = writer->connection;
    int frames = 0;
    int moved = 0;
    tide_sqlite_set_limits(connection);
    connection->budget_until_us = 0;
    if (sqlite3_wal_checkpoint_v2(connection->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames,
                                  &moved) != SQLITE_OK)
        return; /* the next group tries again; the log is complete without it */
    writer->checkpointed_frames = frames;
    /* Everything moved: the next commit starts the log anew, unless a reader still looks at it. */
    if (frames == moved)
        atomic_store(&writer->wal_bytes, 0);
}

/* Whoever reads is not waited for: then the log keeps its length, and what could be moved is
 * moved. */
static void empty_log(tide_sqlite_writer *writer)
{
    tide_sqlite_connection *connection = writer->connection;
    tide_sqlite_set_limits(connection);
    connection->budget_until_us = 0;
    connection->busy_until_us = 0;
    if (sqlite3_wal_checkpoint_v2(connection->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) !=
        SQLITE_OK)
        return;
    connection->wal_frames = 0;
    writer->checkpointed_frames = 0;
    atomic_store(&writer->wal_bytes, 0);
}

void tide_sqlite_group_checkpoint(tide_sqlite_writer *writer)
{
    if (atomic_exchange(&writer->is_log_unwanted, false))
        empty_log(writer);
    const int64_t frames = writer->connection->wal_frames;
    if (frames < writer->checkpointed_frames)
        writer->checkpointed_frames = 0;
    const bool is_due =
        writer->connection->is_checkpoint_wanted ||
        (frames >= CHECKPOINT_FRAMES && frames >= writer->checkpointed_frames + CHECKPOINT_STEP);
    if (is_due && atomic_load(&writer->log_holds) == 0)
        checkpoint(writer);
    writer->connection->is_checkpoint_wanted = false;
    tide_env *env = writer->store->env;
    if (writer->store->marker && env->mono_us(env) >= writer->marker_due_us) {
        writer->marker_due_us = env->mono_us(env) + MARKER_OUT_US;
        tide_identity_marker_sync(writer->store->marker);
    }
}

/* Somebody moved, replaced or deleted the file or its log under us: what we write goes nowhere. */
static tide_status check_place(const tide_sqlite_writer *writer, tide_error *err)
{
    if (!tide_sqlite_place_is_left(&writer->place, writer->path))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_DAMAGED, "%s or its log was moved, replaced or deleted while open",
                     writer->store->name);
}

/* The file is known since it was opened, its log exists at the latest when a commit has written to
 * it. */
static void find_place(tide_sqlite_writer *writer)
{
    if (writer->place.file == 0 || writer->place.log == 0) {
        const tide_sqlite_place found = tide_sqlite_place_of(writer->path);
        if (writer->place.file == 0)
            writer->place.file = found.file;
        writer->place.log = found.log;
    }
}

static tide_status begin(tide_sqlite_writer *writer, tide_error *err)
{
    TIDE_TRY(check_place(writer, err));
    tide_env *env = writer->store->env;
    tide_sqlite_connection *connection = writer->connection;
    const int64_t limit = writer->store->options.wal_max;
    if (atomic_load(&writer->wal_bytes) > limit)
        checkpoint(writer);
    if (atomic_load(&writer->wal_bytes) > limit)
        return tide_fail(
            err, TIDE_E_BUSY,
            "the write-ahead log has grown beyond %lld bytes because a reader holds an "
            "old snapshot",
            (long long)limit);
    tide_sqlite_set_limits(connection);
    connection->budget_until_us = 0;
    TIDE_TRY(tide_sqlite_door_enter(&writer->door, env, connection->busy_until_us, err));
    const tide_status status = exec(writer, "BEGIN IMMEDIATE", err);
    tide_sqlite_door_leave(&writer->door);
    if (status == TIDE_E_BUSY)
        return tide_fail(err, TIDE_E_BUSY,
                         "another program has been writing to %s for more than %.1f s",
                         writer->store->name, (double)writer->store->options.wait_us / 1e6);
    return status;
}

static void roll_back(tide_sqlite_writer *writer)
{
    tide_error ignored;
    if (!is_transaction_gone(writer))
        TIDE_IGNORE(exec(writer, "ROLLBACK", &ignored));
}

/* Cut the log behind its last commit, inside a write transaction that has written nothing. The
 * wal-index header (https://www.sqlite.org/walformat.html) has the number of frames that count, and
 * no reader looks behind it. This needs no room on the disk. */
static bool cut_log(tide_sqlite_writer *writer)
{
    enum { REGION_LEN = 32768, PAGE_AT = 14, FRAMES_AT = 16, HEADER_LEN = 32, FRAME_LEN = 24 };
    sqlite3 *db = writer->connection->db;
    sqlite3_file *file = NULL;
    sqlite3_file *log = NULL;
    void volatile *region = NULL;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
        sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) != SQLITE_OK ||
        !file->pMethods || !log->pMethods || file->pMethods->iVersion < 2 ||
        file->pMethods->xShmMap(file, 0, REGION_LEN, 0, &region) != SQLITE_OK || !region)
        return false;
    uint16_t page = 0;
    uint32_t frames = 0;
    memcpy(&page, (const char *)region + PAGE_AT, sizeof page);
    memcpy(&frames, (const char *)region + FRAMES_AT, sizeof frames);
    const int64_t page_len = page == 1 ? 65536 : page;
    const int64_t len = frames == 0 ? 0 : HEADER_LEN + frames * (FRAME_LEN + page_len);
    return page_len == writer->page_size && log->pMethods->xTruncate(log, len) == SQLITE_OK &&
           log->pMethods->xSync(log, SQLITE_SYNC_FULL) == SQLITE_OK;
}

/* A failed COMMIT may have left its frames in the log, where a crash would find them. A later
 * successful commit overwrites them, or the log is cut in front of them: then the failure is
 * certain. */
static tide_status make_certain(tide_sqlite_writer *writer, tide_status status, tide_error *err)
{
    roll_back(writer);
    tide_error ignored;
    if (status == TIDE_E_FULL && atomic_load(&writer->log_holds) == 0)
        checkpoint(writer); /* makes room in the log */
    tide_status covered = begin(writer, &ignored);
    /* A real change: SQLite leaves a page alone whose bytes would stay the same. */
    if (covered >= TIDE_OK)
        covered = exec(writer, TIDE_SQL_IDENTITY_MARK->engine[TIDE_ENGINE_SQLITE].text, &ignored);
    if (covered >= TIDE_OK)
        covered = exec(writer, "COMMIT", &ignored);
    if (covered >= TIDE_OK)
        return status;
    roll_back(writer);
    if (begin(writer, &ignored) >= TIDE_OK) {
        const bool is_cut = cut_log(writer);
        roll_back(writer);
        if (is_cut)
            return status;
    }
    return tide_fail_context(err, TIDE_E_OUTCOME_UNKNOWN,
                             "the commit failed and may still take effect");
}

/* A full disk: what the log holds and the file already has can be given back. */
static void note_full(tide_sqlite_writer *writer, tide_status status)
{
    if (status == TIDE_E_FULL)
        writer->connection->is_checkpoint_wanted = true;
}

static tide_status commit(tide_sqlite_writer *writer, tide_error *err)
{
    const tide_status status = exec(writer, "COMMIT", err);
    note_full(writer, status);
    if (status >= TIDE_OK) {
        atomic_store(&writer->wal_bytes, writer->connection->wal_frames * writer->page_size);
        find_place(writer);
        if (check_place(writer, err) < TIDE_OK)
            return tide_fail_context(err, TIDE_E_OUTCOME_UNKNOWN,
                                     "committed, but perhaps to nowhere");
        return TIDE_OK;
    }
    return make_certain(writer, status, err);
}

static tide_status raise_mark(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_IDENTITY_MARK, err, TIDE_NO_BIND);
    if (status == TIDE_OK)
        *(int64_t *)arg = tide_query_col_i64(query);
    return status;
}

static void fail_job(tide_sqlite_job *failed, tide_status status, const tide_error *err)
{
    failed->status = status;
    if (failed->err)
        *failed->err = *err;
}

/* The transaction is gone, and with it what every closure of the group had done. */
static void run_again_singly(tide_sqlite_writer *writer, tide_sqlite_job *const *jobs, int count,
                             int culprit)
{
    for (int i = 0; i < count; i++)
        if (i != culprit && (i > culprit || jobs[i]->status >= TIDE_OK))
            tide_sqlite_group_run(writer, &jobs[i], 1);
}

/* The sequences that a closure raised, once it cannot fail any more. */
static void note_raised(tide_sqlite_writer *writer)
{
    const tide_tx *tx = &writer->connection->tx;
    for (int i = 0; i < tx->raised_count; i++) {
        int at = 0;
        while (at < writer->raised_count &&
               strcmp(writer->raised[at].name, tx->raised[i].name) != 0)
            at++;
        if (at == TIDE_IDENTITY_MARKER_COUNTERS)
            return;
        if (at == writer->raised_count) {
            writer->raised[writer->raised_count++] = tx->raised[i];
        } else if (writer->raised[at].last < tx->raised[i].last) {
            writer->raised[at].last = tx->raised[i].last;
        }
    }
}

/* One raised counter that the marker has room for proves that the commit took place. */
static bool has_witness(tide_sqlite_writer *writer)
{
    bool has_one = false;
    for (int i = 0; i < writer->raised_count; i++)
        if (tide_identity_marker_has_counter(writer->store->marker, writer->raised[i].name))
            has_one = true;
    return has_one;
}

/* After the sync, before the answers. */
static void move_marker(tide_sqlite_writer *writer, int64_t mark)
{
    tide_identity_marker *marker = writer->store->marker;
    tide_identity identity;
    tide_store_identity(writer->store, &identity);
    for (int i = 0; i < writer->raised_count; i++)
        tide_identity_marker_raise_counter(marker, writer->raised[i].name, writer->raised[i].last);
    tide_identity_marker_raise(marker, mark, identity.epoch);
    tide_identity_marker_set_logged(marker, true);
}

static void finish_group(tide_sqlite_writer *writer, tide_sqlite_job *const *jobs, int count)
{
    int64_t mark = 0;
    tide_error err;
    tide_status status = TIDE_OK;
    tide_env *env = writer->store->env;
    if (writer->store->marker && !has_witness(writer) && env->mono_us(env) >= writer->mark_due_us) {
        /* A mark that cannot be raised must not cost anybody's write. */
        const bool is_sound = run_in_savepoint(writer, raise_mark, &mark, &status, &err);
        if (status < TIDE_OK)
            writer->mark_due_us = env->mono_us(env) + MARK_RETRY_US;
        if (!is_sound) {
            roll_back(writer);
            run_again_singly(writer, jobs, count, -1);
            return;
        }
    }
    status = commit(writer, &err);
    if (status < TIDE_OK) {
        for (int i = 0; i < count; i++)
            if (jobs[i]->status >= TIDE_OK)
                fail_job(jobs[i], status, &err);
        return;
    }
    move_marker(writer, mark);
    for (int i = 0; i < count; i++)
        if (jobs[i]->status >= TIDE_OK)
            tide_watch_signal_topics(writer->store, &jobs[i]->topics);
}

/* A closure failed that nothing shields the others from: undo all, and run the group again in
 * savepoints. */
static void run_again_carefully(tide_sqlite_writer *writer, tide_sqlite_job *const *jobs, int count)
{
    writer->careful_groups = CAREFUL_GROUPS;
    tide_sqlite_group_run(writer, jobs, count);
}

void tide_sqlite_group_run(tide_sqlite_writer *writer, tide_sqlite_job *const *jobs, int count)
{
    tide_error err;
    const tide_status begun = begin(writer, &err);
    if (begun < TIDE_OK) {
        for (int i = 0; i < count; i++)
            fail_job(jobs[i], begun, &err);
        return;
    }
    const bool is_careful = count > 1 && writer->careful_groups > 0;
    if (is_careful)
        writer->careful_groups--;
    bool is_any_kept = false;
    writer->raised_count = 0;
    for (int i = 0; i < count; i++) {
        tide_sqlite_job *current = jobs[i];
        tide_error job_err = {.status = TIDE_OK};
        bool is_sound = true;
        if (is_careful)
            is_sound =
                run_in_savepoint(writer, current->fn, current->arg, &current->status, &job_err);
        else
            is_sound =
                run_unshielded(writer, current->fn, current->arg, &current->status, &job_err);
        note_full(writer, current->status);
        current->topics = writer->connection->tx.topics;
        if (current->status < TIDE_OK)
            fail_job(current, current->status, &job_err);
        else
            note_raised(writer);
        if (!is_sound) {
            roll_back(writer);
            run_again_singly(writer, jobs, count, i);
            return;
        }
        if (current->status < TIDE_OK && !is_careful) {
            roll_back(writer);
            if (count > 1)
                run_again_carefully(writer, jobs, count);
            return;
        }
        is_any_kept = is_any_kept || current->status >= TIDE_OK;
    }
    if (is_any_kept)
        finish_group(writer, jobs, count);
    else
        roll_back(writer);
}
