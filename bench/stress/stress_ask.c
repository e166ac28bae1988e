/* stress_ask.c - one request of a stress run, asked once. See stress.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "bench/stress/stress_internal.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

void tide_stress_line(const tide_stress_request *request, char out[512])
{
    (void)snprintf(out, 512, "%s %d %s %s", request->key, (int)request->act, request->catalog,
                   request->name);
}

bool tide_stress_word(const char **at, char out[TIDE_STRESS_NAME_MAX])
{
    const char *first = *at + strspn(*at, " ");
    const size_t len = strcspn(first, " \n");
    if (len == 0 || len >= TIDE_STRESS_NAME_MAX)
        return false;
    memcpy(out, first, len);
    out[len] = '\0';
    *at = first + len;
    return true;
}

bool tide_stress_number(const char **at, int64_t *out)
{
    char word[TIDE_STRESS_NAME_MAX];
    char *end = NULL;
    if (!tide_stress_word(at, word))
        return false;
    *out = strtoll(word, &end, 10);
    return *end == '\0';
}

bool tide_stress_parse(const char *line, tide_stress_request *out)
{
    int64_t act = 0;
    if (!tide_stress_word(&line, out->key) || !tide_stress_number(&line, &act) ||
        !tide_stress_word(&line, out->catalog) || !tide_stress_word(&line, out->name) || act < 0 ||
        act >= TIDE_STRESS_ACTS)
        return false;
    out->act = (tide_stress_act)act;
    return true;
}

/* ---- files ---- */

static void close_file(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static tide_status make_directories(char *path, tide_error *err)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool is_made = mkdir(path, 0777) == 0 || errno == EEXIST;
        *slash = '/';
        if (!is_made)
            return tide_fail(err, TIDE_E_IO, "cannot make a directory of %s: %s", path,
                             strerror(errno));
    }
    return TIDE_OK;
}

/* Size and footer of the file that all are links to: a Parquet file ends with the footer's length and four letters. */
static tide_status measure_seed(const tide_stress *run, tide_lake_new_file *out, tide_error *err)
{
    TIDE_CLEANUP(close_file) int fd = open(run->seed_file, O_RDONLY | O_CLOEXEC);
    struct stat info;
    uint8_t tail[8] = {0};
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size < (off_t)sizeof tail ||
        pread(fd, tail, sizeof tail, info.st_size - (off_t)sizeof tail) != (ssize_t)sizeof tail)
        return tide_fail(err, TIDE_E_IO, "cannot read %s", run->seed_file);
    const int64_t footer =
        (int64_t)tail[0] | (int64_t)tail[1] << 8 | (int64_t)tail[2] << 16 | (int64_t)tail[3] << 24;
    out->file_size_bytes = info.st_size;
    out->footer_size = footer < info.st_size ? footer : 0;
    return TIDE_OK;
}

/* Where a link cannot be (a file has as many as it may, the file system knows none). */
static tide_status copy_seed(const tide_stress *run, const char *whole, tide_error *err)
{
    char bytes[4096];
    TIDE_CLEANUP(close_file) int in = open(run->seed_file, O_RDONLY | O_CLOEXEC);
    TIDE_CLEANUP(close_file) int out = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const ssize_t len = in < 0 ? -1 : read(in, bytes, sizeof bytes);
    if (out < 0 || len < 0 || write(out, bytes, (size_t)len) != len)
        return tide_fail(err, TIDE_E_IO, "cannot write %s: %s", whole, strerror(errno));
    return TIDE_OK;
}

static tide_status link_seed(const tide_stress *run, const char *whole, tide_error *err)
{
    if (link(run->seed_file, whole) == 0 || errno == EEXIST)
        return TIDE_OK;
    if (errno == ENOENT)
        return TIDE_NONE;
    return copy_seed(run, whole, err);
}

/* The same name for the same request: asked again, it is the same file. */
static tide_status put_file(tide_lake *lake, const tide_stress *run,
                            const tide_stress_request *request, const tide_lake_object *table,
                            char name[TIDE_STRESS_NAME_MAX + 16], char whole[4096], tide_error *err)
{
    (void)snprintf(name, TIDE_STRESS_NAME_MAX + 16, "%s.parquet", request->key);
    (void)snprintf(whole, 4096, "%s%s%s", tide_lake_data_dir(lake), table->path, name);
    tide_status status = link_seed(run, whole, err);
    if (status != TIDE_NONE)
        return status;
    TIDE_TRY(make_directories(whole, err));
    status = link_seed(run, whole, err);
    return status == TIDE_NONE ? tide_fail(err, TIDE_E_IO, "%s is gone", run->seed_file) : status;
}

/* ---- changes ---- */

/* A change under way, and the file that it brought; it goes again with a change that came to nothing. */
typedef struct attempt {
    tide_lake *lake;
    const tide_stress *run;
    const tide_stress_request *request;
    tide_lake_change *change;
    char whole[4096]; /* "": none */
} attempt;

static tide_status append(attempt *a, const char *schema, const char *table, tide_error *err)
{
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    TIDE_TRY(tide_lake_change_table(a->change, schema, table, &seen, err));
    char name[TIDE_STRESS_NAME_MAX + 16];
    TIDE_TRY(put_file(a->lake, a->run, a->request, &seen.table, name, a->whole, err));
    tide_lake_new_file file = {.path = name, .record_count = 1};
    TIDE_TRY(measure_seed(a->run, &file, err));
    return tide_lake_add_file(a->change, seen.table.id, &file, err);
}

static const tide_lake_column_def first_column = {.name = "a", .type = "int64"};

static tide_status several(attempt *a, tide_error *err)
{
    TIDE_TRY(tide_lake_create_schema(a->change, a->request->name, err));
    TIDE_TRY(tide_lake_create_table(a->change, a->request->name, "t", &first_column, 1, err));
    return append(a, a->request->name, "t", err);
}

static tide_status collect(attempt *a, tide_error *err)
{
    const tide_stress_request *request = a->request;
    const tide_lake_column_def column = {.name = request->key, .type = "varchar"};
    switch (request->act) {
    case TIDE_STRESS_APPEND:
        return append(a, "main", request->name, err);
    case TIDE_STRESS_CREATE_TABLE:
        return tide_lake_create_table(a->change, "main", request->name, &first_column, 1, err);
    case TIDE_STRESS_DROP_TABLE:
        return tide_lake_drop_table(a->change, "main", request->name, err);
    case TIDE_STRESS_ALTER_TABLE:
        return tide_lake_add_column(a->change, "main", request->name, &column, err);
    case TIDE_STRESS_CREATE_SCHEMA:
        return tide_lake_create_schema(a->change, request->name, err);
    case TIDE_STRESS_DROP_SCHEMA:
        return tide_lake_drop_schema(a->change, request->name, true, err);
    case TIDE_STRESS_SEVERAL:
        return several(a, err);
    case TIDE_STRESS_CREATE_CATALOG:
    case TIDE_STRESS_FORK:
    case TIDE_STRESS_ACTS:
        break;
    }
    return tide_fail(err, TIDE_E_INVALID, "no change: %d", (int)request->act);
}

static tide_lake_commit_options options_of(const tide_stress_request *request)
{
    return (tide_lake_commit_options){.request_key = request->key,
                                      .request_hash = tide_view_of(request->key),
                                      .author = "stress"};
}

static tide_status ask_change(attempt *a, tide_stress_answer *out, tide_error *err)
{
    TIDE_TRY(tide_lake_begin(&a->change, a->lake, a->request->catalog, 0, err));
    TIDE_TRY(collect(a, err));
    const tide_lake_commit_options options = options_of(a->request);
    tide_lake_committed committed = {0};
    TIDE_TRY(tide_lake_commit(a->change, &options, &committed, err));
    *out = (tide_stress_answer){tide_lake_change_catalog(a->change)->catalog_id,
                                committed.snapshot_id, committed.tries};
    return TIDE_OK;
}

static tide_status ask_catalog(tide_lake *lake, const tide_stress_request *request,
                               tide_stress_answer *out, tide_error *err)
{
    const tide_lake_commit_options options = options_of(request);
    tide_lake_created created = {0};
    if (request->act == TIDE_STRESS_FORK)
        TIDE_TRY(
            tide_lake_fork(lake, request->catalog, request->name, "", &options, &created, err));
    else
        TIDE_TRY(tide_lake_create_catalog(lake, request->name, false, &options, &created, err));
    *out = (tide_stress_answer){created.catalog_id, created.snapshot_id, 1};
    return TIDE_OK;
}

/* ---- is it there already? ---- */

typedef struct lookup {
    const tide_stress_request *request;
    tide_stress_answer *out;
} lookup;

static tide_status find_commit(tide_tx *tx, void *arg, tide_error *err)
{
    const lookup *look = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_LAKE_SQL_STRESS_FIND, err,
                                           tide_bind_text("catalog", look->request->catalog),
                                           tide_bind_text("key", look->request->key));
    if (status != TIDE_OK)
        return status;
    look->out->catalog_id = tide_query_col_i64(query);
    look->out->snapshot_id = tide_query_col_i64(query);
    look->out->tries = 1;
    return TIDE_OK;
}

tide_status tide_stress_ask(tide_lake *lake, const tide_stress *run,
                            const tide_stress_request *request, bool is_again,
                            tide_stress_answer *out, tide_error *err)
{
    if (request->act == TIDE_STRESS_CREATE_CATALOG || request->act == TIDE_STRESS_FORK)
        return ask_catalog(lake, request, out, err);
    if (is_again) {
        lookup look = {request, out};
        const tide_status found = tide_store_read(tide_lake_store(lake), find_commit, &look, err);
        if (found != TIDE_NONE)
            return found;
    }
    attempt a = {.lake = lake, .run = run, .request = request};
    const tide_status status = ask_change(&a, out, err);
    tide_lake_drop_change(a.change);
    const bool is_refused = status < TIDE_OK && status != TIDE_E_OUTCOME_UNKNOWN;
    if (is_refused && !is_again && a.whole[0])
        (void)unlink(a.whole);
    return status;
}
