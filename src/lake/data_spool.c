/* Which file rows come from, and of which format it is. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lake/data_parts.h"

enum { COPY_SIZE = 1 << 20 };

static bool ends_in(const char *name, size_t len, const char *end)
{
    const size_t end_len = strlen(end);
    return len > end_len && strncasecmp(name + len - end_len, end, end_len) == 0;
}

/* By the last part of its name, below what it is packed with. */
static tide_status format_by_name(tide_lake_source *out, tide_error *err)
{
    static const struct {
        const char *end;
        tide_lake_format format;
        bool has_tabs;
    } kinds[] = {
        {".parquet", TIDE_LAKE_PARQUET, false}, {".csv", TIDE_LAKE_CSV, false},
        {".tsv", TIDE_LAKE_CSV, true},          {".json", TIDE_LAKE_JSON, false},
        {".jsonl", TIDE_LAKE_JSON, false},      {".ndjson", TIDE_LAKE_JSON, false},
    };
    size_t len = strlen(out->shown);
    if (ends_in(out->shown, len, ".gz"))
        len -= 3;
    else if (ends_in(out->shown, len, ".zst"))
        len -= 4;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!ends_in(out->shown, len, kinds[i].end))
            continue;
        if (out->format == TIDE_LAKE_BY_NAME)
            out->format = kinds[i].format;
        out->has_tabs = kinds[i].has_tabs;
        return TIDE_OK;
    }
    if (out->format != TIDE_LAKE_BY_NAME)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID,
                     "%s: the name does not say what it is; want .parquet, .csv, .tsv, .json or "
                     ".jsonl (also with .gz or .zst), or say the format",
                     out->shown);
}

tide_lake_format tide_lake_format_of(tide_view bytes)
{
    size_t at = 0;
    while (at < bytes.len && bytes.ptr[at] && strchr(" \t\r\n", bytes.ptr[at]))
        at++;
    if (bytes.len >= 4 && memcmp(bytes.ptr, "PAR1", 4) == 0)
        return TIDE_LAKE_PARQUET;
    if (at < bytes.len && (bytes.ptr[at] == '{' || bytes.ptr[at] == '['))
        return TIDE_LAKE_JSON;
    return TIDE_LAKE_CSV;
}

static tide_status write_all(int fd, const char *bytes, size_t len, const char *path,
                             tide_error *err)
{
    while (len > 0) {
        const ssize_t written = write(fd, bytes, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return tide_lake_fail_errno(err, "write", path);
        bytes += written;
        len -= (size_t)written;
    }
    return TIDE_OK;
}

static tide_status copy_input(tide_lake_source *out, int from, int fd, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *bytes = malloc(COPY_SIZE);
    TIDE_NEED_MEMORY(bytes, err);
    for (bool is_first = true;;) {
        const ssize_t len = read(from, bytes, COPY_SIZE);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return tide_lake_fail_errno(err, "read", out->shown);
        if (is_first && out->format == TIDE_LAKE_BY_NAME) /* what flows has no name */
            out->format = tide_lake_format_of(tide_view_bytes(bytes, (size_t)len));
        is_first = false;
        if (len == 0)
            return TIDE_OK;
        TIDE_TRY(write_all(fd, bytes, (size_t)len, out->path, err));
    }
}

/* What can be read once only, as standard input and pipes: into a file of ours first. */
static tide_status spool_input(tide_lake_source *out, tide_lake_data *data,
                               const tide_lake_table_seen *table, int from, const char *shown,
                               tide_error *err)
{
    char stage[PATH_MAX];
    TIDE_TRY(tide_lake_stage_make(data, &table->table, stage, err));
    out->spool = strdup(stage);
    if (!out->spool) {
        tide_lake_stage_remove(stage);
        return tide_no_memory(err);
    }
    out->shown = tide_arena_text(&out->arena, tide_view_of(shown));
    out->path = tide_lake_join(&out->arena, stage, "/input"); /* TIDE_LAKE_SPOOLED */
    TIDE_NEED_MEMORY(out->shown && out->path, err);
    const int fd = open(out->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return tide_lake_fail_errno(err, "make", out->path);
    const tide_status status = copy_input(out, from, fd, err);
    if (close(fd) != 0 && status == TIDE_OK)
        return tide_lake_fail_errno(err, "write", out->path);
    return status;
}

/* A named pipe, another process's output. */
static tide_status spool_pipe(tide_lake_source *out, tide_lake_data *data,
                              const tide_lake_table_seen *table, const char *path, tide_error *err)
{
    const int from = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (from < 0)
        return tide_lake_fail_errno(err, "read", path);
    const tide_status status = spool_input(out, data, table, from, path, err);
    (void)close(from);
    return status;
}

static tide_status find_file(tide_lake_source *out, tide_lake_data *data,
                             const tide_lake_table_seen *table, const char *path, tide_error *err)
{
    char real[PATH_MAX];
    struct stat there;
    if (stat(path, &there) != 0)
        return tide_lake_fail_errno(err, "read", path);
    if (S_ISDIR(there.st_mode))
        return tide_fail(err, TIDE_E_INVALID, "%s is a directory, want a file", path);
    if (!S_ISREG(there.st_mode))
        return spool_pipe(out, data, table, path, err);
    if (!realpath(path, real))
        return tide_lake_fail_errno(err, "read", path);
    const bool is_spooled = ends_in(path, strlen(path), TIDE_LAKE_SPOOLED);
    out->shown = is_spooled ? "what was sent" : tide_arena_text(&out->arena, tide_view_of(path));
    out->path = tide_arena_text(&out->arena, tide_view_of(real));
    TIDE_NEED_MEMORY(out->shown && out->path, err);
    return format_by_name(out, err);
}

static tide_status check_size(const tide_lake_source *source, tide_error *err)
{
    struct stat there;
    if (stat(source->path, &there) != 0)
        return tide_lake_fail_errno(err, "read", source->path);
    if (there.st_size > 0 || !S_ISREG(there.st_mode))
        return TIDE_OK;
    if (source->format == TIDE_LAKE_JSON)
        return TIDE_NONE;
    return tide_fail(err, TIDE_E_INVALID, "%s is empty: want %s", source->shown,
                     source->format == TIDE_LAKE_CSV ? "a first line with the names of columns"
                                                     : "a Parquet file");
}

tide_status tide_lake_source_find(tide_lake_source *out, tide_lake_data *data,
                                  const tide_lake_table_seen *table, const char *path,
                                  tide_lake_format format, tide_error *err)
{
    out->format = format;
    if (strcmp(path, "-") == 0)
        TIDE_TRY(spool_input(out, data, table, STDIN_FILENO, "standard input", err));
    else
        TIDE_TRY(find_file(out, data, table, path, err));
    return check_size(out, err);
}
