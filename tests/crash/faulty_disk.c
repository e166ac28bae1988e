#include "crash/faulty_disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/core_store.h"

tide_status disk_case_open(disk_case *c, const char *path, bool is_inline)
{
    const tide_store_options options = {
        TIDE_STORE_OPTIONS_INIT,
        .env = &c->clock.env,
        .state_dir = "",
        .is_inline = is_inline,
        .sqlite_vfs = path == c->path ? fault_vfs_name(c->disk) : NULL,
    };
    return core_store_open(&c->store, path, &options, &c->err);
}

void disk_case_init(disk_case *c, uint64_t seed)
{
    *c = (disk_case){.lock = PTHREAD_MUTEX_INITIALIZER};
    prng_init(&c->chance, seed);
    virtual_env_init(&c->clock, seed);
    assert_ok_err(tempdir_make(&c->dir, &c->err), &c->err);
    assert_ok_err(tempdir_make(&c->image, &c->err), &c->err);
    tempdir_join(&c->dir, "store.db", c->path);
    c->disk = fault_vfs_new(c->dir.path, seed);
    assert_ok_err(disk_case_open(c, c->path, true), &c->err);
    store_test_add_tables(c->store);
    tide_store_closep(&c->store);
}

void disk_case_done(disk_case *c)
{
    tide_store_closep(&c->store);
    fault_vfs_free(c->disk);
    ack_journal_done(&c->journal);
    TIDE_IGNORE(tempdir_remove(&c->dir, NULL));
    TIDE_IGNORE(tempdir_remove(&c->image, NULL));
    virtual_env_done(&c->clock);
}

/* ---- writing, and remembering what was said ---- */

void disk_case_note(disk_case *c, int64_t thread, int64_t n, tide_status status, int64_t seq_id)
{
    taken_fate fate = TAKEN_FAILED;
    if (status == TIDE_OK)
        fate = TAKEN_STORED;
    else if (status == TIDE_E_OUTCOME_UNKNOWN)
        fate = TAKEN_UNKNOWN;
    const taken row = {.thread = thread,
                       .n = n,
                       .fate = (int64_t)fate,
                       .seq_id = fate == TAKEN_STORED ? seq_id : 0};
    char line[TAKEN_LINE_MAX];
    line[taken_format(line, &row) - 1] = '\0';
    (void)pthread_mutex_lock(&c->lock);
    ack_journal_add(&c->journal, 0, 0, line + strlen("ack "));
    (void)pthread_mutex_unlock(&c->lock);
}

static tide_status put_blob(tide_tx *tx, int64_t id, tide_error *err)
{
    static const char bytes[DISK_BLOB_LEN];
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", id);
    tide_query_bind_blob(query, "b", tide_view_bytes(bytes, sizeof bytes));
    return tide_query_run(query, NULL, err);
}

tide_status add_fault_row(tide_tx *tx, void *arg, tide_error *err)
{
    fault_row *r = arg;
    r->runs++;
    if (r->blob_id != 0)
        TIDE_TRY(put_blob(tx, r->blob_id, err));
    return add_numbered(tx, &r->row, err);
}

tide_status disk_case_write(disk_case *c, int64_t thread, int64_t n, int64_t blob_id)
{
    const taken self = {.thread = thread};
    char name[WRITER_NAME_SIZE];
    taken_writer(name, &self);
    fault_row r = {.row = {.writer = name, .n = n}, .blob_id = blob_id};
    tide_error err;
    const tide_status status = tide_store_write(c->store, add_fault_row, &r, &err);
    disk_case_note(c, thread, n, status, r.row.range.first);
    return status;
}

/* ---- checking ---- */

static void print_finding(void *arg, const char *finding)
{
    print_error("%s: %s\n", ((disk_case *)arg)->what, finding);
}

static void look_at_mode(void *arg, const char *name, const char *value)
{
    if (strcmp(name, "journal_mode") == 0)
        *(bool *)arg = strcmp(value, "wal") == 0;
}

/* However its making was interrupted: a store writes ahead. */
static void check_mode(disk_case *c)
{
    bool is_wal = false;
    assert_ok_err(tide_store_describe(c->store, look_at_mode, &is_wal, &c->err), &c->err);
    if (!is_wal)
        fail_msg("%s: the store is not in WAL mode", c->what);
}

static void check_rows(disk_case *c)
{
    char why[WHY_SIZE] = "";
    check_mode(c);
    seen_rows table = {0};
    tide_status status = TIDE_OK;
    while ((status = seen_rows_read(&table, c->store, &c->err)) == TIDE_OK)
        continue;
    if (status != TIDE_NONE || !check_promises(&c->journal, &table, why))
        fail_msg("%s: %s", c->what, status != TIDE_NONE ? c->err.text : why);
    tide_sequence sequence = {0};
    assert_true(tide_sequence_show(c->store, "numbered", &sequence, &c->err) >= TIDE_OK);
    assert_int_equal((int64_t)table.len, sequence.last);
    seen_rows_done(&table);
}

void disk_case_check(disk_case *c)
{
    check_rows(c);
    assert_ok_err(tide_store_verify(c->store, print_finding, c, &c->err), &c->err);
}

void disk_case_check_now_and_later(disk_case *c)
{
    check_rows(c); /* reading all of the file once, when it is opened again, is enough */
    tide_store_closep(&c->store);
    if (disk_case_open(c, c->path, true) < TIDE_OK)
        fail_msg("%s: cannot open again: %s", c->what, c->err.text);
    disk_case_check(c);
    fault_vfs_power_cut(c->disk);
    tide_store_closep(&c->store);
    fault_vfs_image(c->disk,
                    prng_chance(&c->chance, 1, 2) ? FAULT_VFS_KEEP_NONE : FAULT_VFS_KEEP_RANDOM,
                    &c->chance, c->image.path);
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&c->image, "store.db", path);
    if (disk_case_open(c, path, true) < TIDE_OK)
        fail_msg("%s: cannot open after a power cut: %s", c->what, c->err.text);
    disk_case_check(c);
}
