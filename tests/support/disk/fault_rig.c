#include "support/disk/fault_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/check.h"

void fault_rig_begin(fault_rig *r, uint64_t seed)
{
    tide_error err;
    memset(r, 0, sizeof(*r));
    prng_init(&r->random, seed);
    /* SQLite has a generator of its own (WAL salts, randomblob()); 0 would unseed it. */
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)(seed % 1000000) + 1, NULL);
    assert_ok_err(tempdir_make(&r->dir, &err), &err);
    tempdir_join(&r->dir, "test.db", r->path);
    r->disk = fault_vfs_new(r->dir.path, prng_u64(&r->random));
}

void fault_rig_end(fault_rig *r)
{
    tide_error err;
    sqlite3_close(r->db);
    fault_vfs_free(r->disk);
    assert_ok_err(tempdir_remove(&r->dir, &err), &err);
}

int fault_rig_exec(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int64_t fault_rig_ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t answer = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        answer = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return answer;
}

bool fault_rig_is_intact(sqlite3 *db)
{
    return fault_rig_ask(db, "SELECT count(*) = 1 AND max(integrity_check) = 'ok' "
                             "FROM pragma_integrity_check") == 1;
}

int fault_rig_open(fault_rig *r, const char *journal_mode, const char *synchronous)
{
    char sql[256];
    snprintf(sql, sizeof(sql),
             "PRAGMA page_size=1024; PRAGMA journal_mode=%s; PRAGMA synchronous=%s;"
             "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=8",
             journal_mode, synchronous);
    const int rc = sqlite3_open_v2(r->path, &r->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                   fault_vfs_name(r->disk));
    return rc == SQLITE_OK ? fault_rig_exec(r->db, sql) : rc;
}

int fault_rig_create_schema(fault_rig *r)
{
    const int rc = fault_rig_exec(r->db, "BEGIN;"
                                         "CREATE TABLE part(tx INTEGER, parts INTEGER, body TEXT);"
                                         "CREATE INDEX part_body ON part(body);"
                                         "CREATE TABLE total(parts INTEGER);"
                                         "INSERT INTO total VALUES (0);"
                                         "COMMIT");
    r->has_schema = r->has_schema || rc == SQLITE_OK;
    return rc;
}

int fault_rig_add(fault_rig *r, int tx)
{
    char sql[512];
    const int parts = 1 + (int)prng_below(&r->random, 5);
    const int body_len = 1 + (int)prng_below(&r->random, 900);
    snprintf(sql, sizeof(sql),
             "BEGIN;"
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
             "INSERT INTO part SELECT %d, %d, hex(randomblob(%d)) FROM n;"
             "UPDATE total SET parts = parts + %d;"
             "COMMIT",
             parts, tx, parts, body_len, parts);
    const int rc = fault_rig_exec(r->db, sql);
    if (rc == SQLITE_OK)
        r->acknowledged = tx;
    else if (!sqlite3_get_autocommit(r->db))
        fault_rig_exec(r->db, "ROLLBACK");
    return rc;
}

bool fault_rig_is_atomic(sqlite3 *db)
{
    return fault_rig_ask(db, "SELECT count(*) FROM (SELECT 1 FROM part GROUP BY tx "
                             "HAVING count(*) <> max(parts) OR min(parts) <> max(parts))") == 0 &&
           fault_rig_ask(db, "SELECT (SELECT parts FROM total) = (SELECT count(*) FROM part)") == 1;
}

bool fault_rig_has_up_to(sqlite3 *db, int tx)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT count(DISTINCT tx) FROM part WHERE tx <= %d", tx);
    return fault_rig_ask(db, sql) == tx;
}

/* The next boot: the standard VFS opens what the cut left. */
static void judge_image(const fault_rig *r, const char *path, fault_rig_tally *t)
{
    struct stat st;
    sqlite3 *db = NULL;
    t->images++;
    if (!r->has_schema && stat(path, &st) != 0)
        return;

    /* Synchronous off here: the judge needs no durability of its own. */
    const bool is_open = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK &&
                         fault_rig_exec(db, "PRAGMA synchronous=OFF") == SQLITE_OK;
    const bool has_schema = fault_rig_ask(db, "SELECT count(*) = 3 FROM sqlite_schema") == 1;
    if (!is_open || !fault_rig_is_intact(db) || (has_schema && !fault_rig_is_atomic(db))) {
        t->damaged++;
    } else if (!has_schema) {
        t->lost += r->has_schema;
        t->lost_many += r->acknowledged > 0;
    } else if (!fault_rig_has_up_to(db, r->acknowledged)) {
        t->lost++;
        t->lost_many += !fault_rig_has_up_to(db, r->acknowledged - 1);
    }
    sqlite3_close(db);
}

void fault_rig_draw_images(fault_rig *r, fault_rig_tally *t)
{
    static const fault_vfs_survival survivals[FAULT_RIG_IMAGES] = {
        FAULT_VFS_KEEP_RANDOM,
        FAULT_VFS_KEEP_RANDOM,
        FAULT_VFS_KEEP_PREFIX,
        FAULT_VFS_KEEP_NONE,
    };

    for (int i = 0; i < FAULT_RIG_IMAGES; i++) {
        tempdir image;
        tide_error err;
        char path[TEMPDIR_PATH_MAX];
        assert_ok_err(tempdir_make(&image, &err), &err);
        tempdir_join(&image, "test.db", path);
        fault_vfs_image(r->disk, survivals[i], &r->random, image.path);
        judge_image(r, path, t);
        assert_ok_err(tempdir_remove(&image, &err), &err);
    }
}
