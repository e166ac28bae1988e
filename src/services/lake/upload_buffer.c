#include "services/lake/upload_buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/uuid.h"

static tide_status fail_errno(tide_error *err)
{
    const int code = errno;
    return tide_fail(err,
                     code == ENOSPC || code == EDQUOT ? TIDE_E_FULL
                     : code == EACCES                 ? TIDE_E_DENIED
                                                      : TIDE_E_IO,
                     "rows that come in cannot be kept in the data directory: %s", strerror(code));
}

tide_status tide_spool_open(tide_spool *out, const char *data_dir, tide_env *env, tide_error *err)
{
    tide_uuid uuid;
    char name[TIDE_UUID_TEXT_SIZE];
    tide_uuid_v4(env, &uuid);
    tide_uuid_format(&uuid, name);
    *out = (tide_spool){.fd = -1};
    const int len = snprintf(out->dir, sizeof out->dir, "%s%s.new", data_dir, name);
    if (len >= (int)sizeof out->dir) {
        out->dir[0] = '\0';
        return tide_fail(err, TIDE_E_INVALID, "the data directory's name is too long");
    }
    if (mkdir(out->dir, 0700) != 0) {
        out->dir[0] = '\0';
        return fail_errno(err);
    }
    (void)snprintf(out->path, sizeof out->path, "%s/input", out->dir); /* TIDE_LAKE_SPOOLED */
    out->fd = open(out->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return out->fd < 0 ? fail_errno(err) : TIDE_OK;
}

tide_status tide_spool_write(tide_spool *spool, tide_view bytes, tide_error *err)
{
    if (spool->len + (int64_t)bytes.len > TIDE_SPOOL_LEN_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %lld GiB of rows: send them in parts",
                         (long long)(TIDE_SPOOL_LEN_MAX >> 30));
    const size_t room = sizeof spool->head - spool->head_len;
    const size_t kept = bytes.len < room ? bytes.len : room;
    if (kept > 0)
        memcpy(spool->head + spool->head_len, bytes.ptr, kept);
    spool->head_len += kept;
    while (bytes.len > 0) {
        const ssize_t written = write(spool->fd, bytes.ptr, bytes.len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail_errno(err);
        bytes = tide_view_bytes(bytes.ptr + written, bytes.len - (size_t)written);
        spool->len += written;
    }
    return TIDE_OK;
}

tide_status tide_spool_finish(tide_spool *spool, tide_error *err)
{
    const int fd = spool->fd;
    spool->fd = -1;
    return close(fd) == 0 ? TIDE_OK : fail_errno(err);
}

void tide_spool_done(tide_spool *spool)
{
    if (spool->fd >= 0)
        (void)close(spool->fd);
    spool->fd = -1;
    if (!spool->dir[0])
        return;
    (void)unlink(spool->path);
    (void)rmdir(spool->dir);
    spool->dir[0] = '\0';
}

tide_status tide_spool_format(tide_lake_format *out, const tide_spool *spool, const char *word,
                              tide_error *err)
{
    static const struct {
        const char *word;
        tide_lake_format format;
    } formats[] = {
        {"parquet", TIDE_LAKE_PARQUET}, {"csv", TIDE_LAKE_CSV}, {"json", TIDE_LAKE_JSON}};
    if (!word[0]) {
        *out = tide_lake_format_of(tide_view_bytes(spool->head, spool->head_len));
        return TIDE_OK;
    }
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(word, formats[i].word) == 0) {
            *out = formats[i].format;
            return TIDE_OK;
        }
    return tide_fail(err, TIDE_E_INVALID,
                     "'%.50s' is not a format: choose parquet, csv or json, or say nothing", word);
}
