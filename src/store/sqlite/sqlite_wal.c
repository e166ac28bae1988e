#include "store/sqlite/sqlite_wal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "store/sqlite/sqlite_file.h"
#include "store/sqlite/sqlite_locks.h"

/* The format is documented in sqlite.org/fileformat2.html, "The Write-Ahead Log". */
enum {
    HEADER_LEN = 32,
    HEADER_SUMMED_LEN = 24,
    FRAME_HEADER_LEN = 24,
    FRAME_SUMMED_LEN = 8, /* of the frame's header, before the page */
    MAGIC = 0x377f0682,   /* the lowest bit: sums are of big endian words */
    VERSION = 3007000,
    PAGE_MIN = 512,
    PAGE_MAX = 65536,
    /* In PATH-shm: whoever has the database open holds a shared lock on this byte. */
    SHM_OPEN_BYTE = 128,
    COPY_LEN = 1 << 16,
};

typedef struct sum {
    uint32_t a;
    uint32_t b;
} sum;

typedef struct frame {
    sum stored;
    uint32_t salt_a;
    uint32_t salt_b;
    bool is_commit;
    bool continues_before; /* its sum continues the one that the frame before it stores */
} frame;

typedef struct scan {
    int fd;
    bool is_big_endian;
    uint32_t page_size;
    uint32_t salt_a;
    uint32_t salt_b;
    uint8_t *bytes; /* of one frame */
} scan;

static uint32_t read_big(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t read_little(const uint8_t *at)
{
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static sum add_bytes(sum to, const uint8_t *at, size_t len, bool is_big_endian)
{
    for (size_t i = 0; i < len; i += 8) {
        to.a += (is_big_endian ? read_big(at + i) : read_little(at + i)) + to.b;
        to.b += (is_big_endian ? read_big(at + i + 4) : read_little(at + i + 4)) + to.a;
    }
    return to;
}

static bool is_equal(sum x, sum y)
{
    return x.a == y.a && x.b == y.b;
}

static bool is_page_size(uint32_t size)
{
    return size >= PAGE_MIN && size <= PAGE_MAX && (size & (size - 1)) == 0;
}

static bool read_exactly(int fd, void *to, size_t len, off_t at)
{
    return pread(fd, to, len, at) == (ssize_t)len;
}

/* The sum of the header is where the first frame's begins. */
static bool read_header(scan *s, sum *stored)
{
    uint8_t header[HEADER_LEN];
    if (!read_exactly(s->fd, header, sizeof header, 0))
        return false;
    const uint32_t magic = read_big(header);
    s->is_big_endian = magic & 1;
    s->page_size = read_big(header + 8);
    s->salt_a = read_big(header + 16);
    s->salt_b = read_big(header + 20);
    *stored = (sum){read_big(header + 24), read_big(header + 28)};
    return (magic & ~UINT32_C(1)) == MAGIC && read_big(header + 4) == VERSION &&
           is_page_size(s->page_size) &&
           is_equal(*stored, add_bytes((sum){0, 0}, header, HEADER_SUMMED_LEN, s->is_big_endian));
}

static bool read_frame(const scan *s, int64_t number, const frame *before, frame *out)
{
    const size_t len = FRAME_HEADER_LEN + s->page_size;
    if (!read_exactly(s->fd, s->bytes, len, HEADER_LEN + (off_t)(number - 1) * (off_t)len))
        return false;
    out->is_commit = read_big(s->bytes + 4) != 0;
    out->salt_a = read_big(s->bytes + 8);
    out->salt_b = read_big(s->bytes + 12);
    out->stored = (sum){read_big(s->bytes + 16), read_big(s->bytes + 20)};
    sum found = add_bytes(before->stored, s->bytes, FRAME_SUMMED_LEN, s->is_big_endian);
    found = add_bytes(found, s->bytes + FRAME_HEADER_LEN, s->page_size, s->is_big_endian);
    out->continues_before = is_equal(found, out->stored);
    return true;
}

/* Frames that a failed commit left behind the end never continue a commit before them: whoever
 * writes behind a commit has seen it succeed. */
static void scan_frames(const scan *s, sum begin, tide_sqlite_wal *out)
{
    frame before = {.stored = begin, .salt_a = s->salt_a, .salt_b = s->salt_b};
    bool is_good = !out->is_header_bad;
    for (int64_t i = 1; i <= out->frames && !out->is_damaged; i++) {
        frame now;
        if (!read_frame(s, i, &before, &now))
            return;
        if (is_good &&
            (!now.continues_before || now.salt_a != s->salt_a || now.salt_b != s->salt_b)) {
            is_good = false;
            out->bad_frame = i;
        }
        if (is_good && now.is_commit)
            out->good = i;
        const bool is_of_this_log =
            out->is_header_bad ? i > 1 && now.salt_a == before.salt_a && now.salt_b == before.salt_b
                               : now.salt_a == s->salt_a && now.salt_b == s->salt_b;
        out->is_damaged = !is_good && i > 1 && (out->bad_frame == 0 || i > out->bad_frame) &&
                          before.is_commit && now.continues_before && is_of_this_log;
        before = now;
    }
}

static bool is_open_somewhere(const char *path)
{
    char name[PATH_MAX];
    (void)snprintf(name, sizeof name, "%s-shm", path);
    return tide_sqlite_locks_is_locked(name, SHM_OPEN_BYTE);
}

tide_status tide_sqlite_wal_scan(tide_sqlite_wal *out, const char *path, tide_error *err)
{
    char name[PATH_MAX];
    struct stat info;
    *out = (tide_sqlite_wal){.frames = 0};
    (void)snprintf(name, sizeof name, "%s-wal", path);
    TIDE_CLEANUP(tide_file_closep) int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size <= HEADER_LEN || is_open_somewhere(path))
        return TIDE_NONE;
    scan s = {.fd = fd};
    sum begin = {0, 0};
    out->is_header_bad = !read_header(&s, &begin);
    /* A header that is wrong about the page size hides the frames: the database has it, too. */
    if (out->is_header_bad)
        s.page_size = tide_sqlite_file_page_size(path);
    if (!is_page_size(s.page_size))
        return TIDE_NONE;
    TIDE_CLEANUP(tide_freep) uint8_t *bytes = malloc(FRAME_HEADER_LEN + s.page_size);
    TIDE_NEED_MEMORY(bytes, err);
    s.bytes = bytes;
    out->frames = (info.st_size - HEADER_LEN) / (FRAME_HEADER_LEN + (off_t)s.page_size);
    scan_frames(&s, begin, out);
    return TIDE_OK;
}

/* ---- what is kept ---- */

static tide_status fail_copy(tide_error *err, const char *name)
{
    const tide_status status = errno == ENOSPC || errno == EDQUOT ? TIDE_E_FULL : TIDE_E_IO;
    return tide_fail(err, status,
                     "the write-ahead log is damaged and cannot be copied to %s: %s; make room "
                     "there, or copy it elsewhere and delete it",
                     name, strerror(errno));
}

tide_status tide_sqlite_wal_copy(const char *path, tide_error *err)
{
    char from[PATH_MAX];
    char part[PATH_MAX];
    char to[PATH_MAX];
    (void)snprintf(from, sizeof from, "%s-wal", path);
    (void)snprintf(part, sizeof part, "%s-wal.part", path);
    (void)snprintf(to, sizeof to, "%s-wal.lost", path);
    if (access(to, F_OK) == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_file_closep) int in = open(from, O_RDONLY | O_CLOEXEC);
    TIDE_CLEANUP(tide_file_closep)
    int out = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (in < 0 || out < 0)
        return fail_copy(err, to);
    char bytes[COPY_LEN];
    ssize_t got = 0;
    while ((got = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, (size_t)got) != got)
            break;
    if (got != 0 || fsync(out) != 0 || rename(part, to) != 0) {
        const tide_status status = fail_copy(err, to);
        (void)unlink(part);
        return status;
    }
    return TIDE_OK;
}

void tide_sqlite_wal_keep(const char *path, int64_t epoch)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    (void)snprintf(from, sizeof from, "%s-wal.lost", path);
    (void)snprintf(to, sizeof to, "%s-wal.lost-%" PRId64, path, epoch);
    if (epoch == 0)
        (void)unlink(from);
    else
        (void)rename(from, to);
}
