#include "store/sqlite/sqlite_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "store/sqlite/sqlite_locks.h"

enum {
    HEADER_LEN = 100,
    HEADER_PAGE_SIZE = 16,     /* offset, big endian; 1: 65536 */
    HEADER_WRITE_VERSION = 18, /* offset; 2: WAL */
    HEADER_READ_VERSION = 19,
    HEADER_APPLICATION_ID = 68, /* offset, big endian */
    PATH_LEN_MAX = 480,
    SIDE_FILE_LEN = 8, /* "-journal" */
    JOURNAL_START_LEN = 20,
    JOURNAL_INITIAL_PAGES = 16, /* offset, big endian: what a rollback leaves of the file */
    LOG_HEADER_LEN = 32,        /* a log of this size holds no page */
    DOOR_SPIN_US = 100,
    DOOR_SPIN_MAX_US = 500,
};

static tide_status fail_errno(tide_error *err, int number, const char *what, const char *path)
{
    tide_status status = TIDE_E_IO;
    if (number == EACCES || number == EPERM || number == EROFS)
        status = TIDE_E_DENIED;
    else if (number == ENOENT || number == ENOTDIR)
        status = TIDE_E_NOT_FOUND;
    else if (number == ENOSPC || number == EDQUOT)
        status = TIDE_E_FULL;
    else if (number == ENAMETOOLONG || number == ELOOP)
        status = TIDE_E_INVALID;
    return tide_fail(err, status, "cannot %s %s: %s", what, path, strerror(number));
}

/* A file that is to be made needs a directory that allows it. */
tide_status tide_sqlite_check_directory(const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *directory = strdup(path);
    TIDE_NEED_MEMORY(directory, err);
    char *slash = strrchr(directory, '/');
    if (slash == directory)
        slash[1] = '\0';
    else if (slash)
        *slash = '\0';
    const char *name = slash ? directory : ".";
    struct stat info;
    if (stat(name, &info) != 0)
        return tide_fail(err,
                         errno == ENOENT || errno == ENOTDIR ? TIDE_E_NOT_FOUND : TIDE_E_DENIED,
                         "cannot make %s: its directory %s: %s", path, name, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return tide_fail(err, TIDE_E_INVALID, "cannot make %s: %s is not a directory", path, name);
    if (faccessat(AT_FDCWD, name, W_OK | X_OK, AT_EACCESS) != 0)
        return tide_fail(err, TIDE_E_DENIED, "cannot make %s: directory %s: %s", path, name,
                         strerror(errno));
    return TIDE_OK;
}

char *tide_sqlite_immutable_uri(const char *path)
{
    static const char suffix[] = "?immutable=1";
    char *uri = sqlite3_malloc64(3 * strlen(path) + sizeof "file:" + sizeof suffix);
    if (!uri)
        return NULL;
    char *out = stpcpy(uri, "file:");
    for (const char *at = path; *at; at++) {
        if (strchr("%?#", *at))
            out += sprintf(out, "%%%02X", (unsigned)*at);
        else
            *out++ = *at;
    }
    memcpy(out, suffix, sizeof suffix);
    return uri;
}

/* A database whose header does not carry our mark: is it empty (a creation that was cut short), or
 * foreign? immutable=1 reads without locks, logs or side files. */
static tide_status look_inside(tide_sqlite_kind *out, const char *path, tide_error *err)
{
    char *uri = tide_sqlite_immutable_uri(path);
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int tables = -1;
    int code = uri ? sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL)
                   : SQLITE_NOMEM;
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(db, "SELECT count(*) FROM sqlite_master", -1, &statement, NULL);
    if (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        tables = sqlite3_column_int(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    sqlite3_free(uri);
    if (tables < 0)
        return tide_fail(err, TIDE_E_DAMAGED, "%s looks like a SQLite database but cannot be read",
                         path);
    if (tables > 0)
        return tide_fail(err, TIDE_E_FOREIGN,
                         "%s is a SQLite database of another program (%d table%s)", path, tables,
                         tables == 1 ? "" : "s");
    *out = TIDE_SQLITE_ABSENT;
    return TIDE_OK;
}

/* Reads the first bytes through SQLite's VFS. A plain close() would drop the POSIX locks that the
 * application holds on the file (sqlite_locks.h). */
static int read_header(const char *path, unsigned char *header, int *got)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    char full[PATH_MAX + 1];
    int code = vfs->xFullPathname(vfs, path, (int)sizeof full, full);
    if (code != SQLITE_OK && code != SQLITE_OK_SYMLINK)
        return code;
    const char *name = sqlite3_create_filename(full, "", "", 0, NULL);
    sqlite3_file *file = calloc(1, (size_t)vfs->szOsFile);
    code = name && file
               ? vfs->xOpen(vfs, name, file, SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB, NULL)
               : SQLITE_NOMEM;
    sqlite3_int64 size = 0;
    if (code == SQLITE_OK)
        code = file->pMethods->xFileSize(file, &size);
    *got = size < HEADER_LEN ? (int)size : HEADER_LEN;
    if (code == SQLITE_OK && *got > 0)
        code = file->pMethods->xRead(file, header, *got, 0);
    if (file && file->pMethods)
        (void)file->pMethods->xClose(file);
    free(file);
    sqlite3_free_filename(name);
    return code;
}

static tide_status fail_header(tide_error *err, int code, const char *path)
{
    return tide_fail(err, code == SQLITE_NOMEM ? TIDE_E_NOMEM : TIDE_E_IO, "cannot read %s: %s",
                     path, sqlite3_errstr(code));
}

uint32_t tide_sqlite_file_page_size(const char *path)
{
    unsigned char header[HEADER_LEN];
    int got = 0;
    if (read_header(path, header, &got) != SQLITE_OK || got != HEADER_LEN)
        return 0;
    const uint32_t size =
        (uint32_t)header[HEADER_PAGE_SIZE] << 8 | (uint32_t)header[HEADER_PAGE_SIZE + 1];
    return size == 1 ? 65536 : size;
}

tide_status tide_sqlite_file_is_wal(bool *out, const char *path, tide_error *err)
{
    unsigned char header[HEADER_LEN];
    int got = 0;
    const int code = read_header(path, header, &got);
    if (code != SQLITE_OK)
        return fail_header(err, code, path);
    *out =
        got == HEADER_LEN && header[HEADER_WRITE_VERSION] == 2 && header[HEADER_READ_VERSION] == 2;
    return TIDE_OK;
}

/* A file that is not in WAL mode has no log. One that lies beside it belonged to the file that
 * stood here before, and SQLite would replay it over this one. */
static tide_status check_stray_log(const char *path, tide_error *err)
{
    char log[PATH_MAX];
    struct stat info;
    if (snprintf(log, sizeof log, "%s-wal", path) >= (int)sizeof log || stat(log, &info) != 0 ||
        info.st_size <= LOG_HEADER_LEN)
        return TIDE_OK;
    /* Look again: another process may have switched the file to WAL mode meanwhile, and the log is
     * its own. */
    bool is_wal = false;
    TIDE_TRY(tide_sqlite_file_is_wal(&is_wal, path, err));
    if (is_wal)
        return TIDE_OK;
    return tide_fail(
        err, TIDE_E_DAMAGED,
        "a log of another file lies beside %s: if this file was restored from a backup, remove "
        "%s-wal and %s-shm",
        path, path, path);
}

/* Power failed while the first transaction wrote the file: nothing of its pages need be there, and
 * the rollback journal beside it begins at a database of 0 pages. The next open of SQLite makes the
 * file empty again. */
static bool is_creation_undone(const char *path, const unsigned char *header, int got)
{
    static const unsigned char magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    unsigned char start[JOURNAL_START_LEN];
    char journal[PATH_MAX];
    for (int i = 0; i < got; i++)
        if (header[i] != 0)
            return false;
    if (snprintf(journal, sizeof journal, "%s-journal", path) >= (int)sizeof journal)
        return false;
    TIDE_CLEANUP(tide_file_closep) int fd = open(journal, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, start, sizeof start, 0) != (ssize_t)sizeof start)
        return false;
    static const unsigned char none[4] = {0};
    return memcmp(start, magic, sizeof magic) == 0 &&
           memcmp(start + JOURNAL_INITIAL_PAGES, none, sizeof none) == 0;
}

static tide_status check_header(tide_sqlite_kind *out, const char *path, tide_error *err)
{
    unsigned char header[HEADER_LEN];
    int got = 0;
    const int code = read_header(path, header, &got);
    if (code != SQLITE_OK)
        return fail_header(err, code, path);
    if (got == 0 || is_creation_undone(path, header, got)) {
        *out = TIDE_SQLITE_ABSENT;
        return TIDE_OK;
    }
    static const char magic[16] = "SQLite format 3";
    const size_t magic_len = (size_t)got < sizeof magic ? (size_t)got : sizeof magic;
    if (memcmp(header, magic, magic_len) != 0)
        return tide_fail(err, TIDE_E_FOREIGN, "%s is not a SQLite database", path);
    if (got < HEADER_LEN)
        return tide_fail(err, TIDE_E_DAMAGED, "%s is cut off after %d bytes", path, got);
    const unsigned char *id = header + HEADER_APPLICATION_ID;
    const uint32_t application_id =
        (uint32_t)id[0] << 24 | (uint32_t)id[1] << 16 | (uint32_t)id[2] << 8 | id[3];
    if (application_id != TIDE_SQLITE_APPLICATION_ID)
        return look_inside(out, path, err);
    *out = TIDE_SQLITE_OURS;
    return header[HEADER_WRITE_VERSION] == 2 ? TIDE_OK : check_stray_log(path, err);
}

/* SQLite takes paths of 512 bytes, and side files add up to 8 to a name. */
static tide_status check_length(const char *path, tide_error *err)
{
    const char *slash = strrchr(path, '/');
    const size_t name_len = strlen(slash ? slash + 1 : path);
    if (strlen(path) > PATH_LEN_MAX || name_len > NAME_MAX - SIDE_FILE_LEN)
        return tide_fail(err, TIDE_E_INVALID,
                         "the path of a store has at most %d bytes, its last part %d: %.40s...",
                         PATH_LEN_MAX, NAME_MAX - SIDE_FILE_LEN, path);
    return TIDE_OK;
}

tide_status tide_sqlite_inspect(tide_sqlite_kind *out, const char *path, bool is_read_only,
                                tide_error *err)
{
    TIDE_TRY(check_length(path, err));
    struct stat info;
    if (stat(path, &info) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return fail_errno(err, errno, "open", path);
        *out = TIDE_SQLITE_ABSENT;
        return is_read_only ? TIDE_OK : tide_sqlite_check_directory(path, err);
    }
    if (S_ISDIR(info.st_mode))
        return tide_fail(err, TIDE_E_INVALID,
                         "%s is a directory; name a file, for example %s/tidemark.db", path, path);
    if (!S_ISREG(info.st_mode))
        return tide_fail(err, TIDE_E_INVALID, "%s is not a plain file", path);
    if (info.st_nlink > 1)
        return tide_fail(
            err, TIDE_E_INVALID,
            "%s has %lu names (hard links), and SQLite keeps a log for each: leave it one", path,
            (unsigned long)info.st_nlink);
    if (faccessat(AT_FDCWD, path, is_read_only ? R_OK : R_OK | W_OK, AT_EACCESS) != 0)
        return fail_errno(err, errno, is_read_only ? "read" : "read and write", path);
    TIDE_TRY(check_header(out, path, err));
    return is_read_only ? TIDE_OK : tide_sqlite_check_directory(path, err);
}

char *tide_sqlite_full_path(const char *path)
{
    char *full = realpath(path, NULL);
    if (full || errno != ENOENT)
        return full;
    const char *slash = strrchr(path, '/');
    char directory[PATH_MAX];
    const size_t len = slash ? (size_t)(slash - path) + 1 : 0;
    if (len >= sizeof directory)
        return NULL;
    memcpy(directory, slash ? path : ".", slash ? len : 1);
    directory[slash ? len : 1] = '\0';
    char *parent = realpath(directory, NULL);
    char *joined = NULL;
    if (parent && asprintf(&joined, "%s/%s", parent, slash ? slash + 1 : path) < 0)
        joined = NULL;
    free(parent);
    return joined;
}

static ino_t find_inode(const char *path, const char *suffix)
{
    char name[PATH_MAX];
    struct stat info;
    const bool is_there = snprintf(name, sizeof name, "%s%s", path, suffix) < (int)sizeof name &&
                          stat(name, &info) == 0;
    return is_there ? info.st_ino : 0;
}

bool tide_sqlite_is_still(const char *path)
{
    tide_error ignored;
    return find_inode(path, "-wal") == 0 && tide_sqlite_check_directory(path, &ignored) < TIDE_OK;
}

/* A name that cannot be looked at (a directory that is closed to us now) says nothing. */
static bool is_elsewhere(const char *path, const char *suffix, ino_t inode)
{
    char name[PATH_MAX];
    struct stat info;
    if (inode == 0 || snprintf(name, sizeof name, "%s%s", path, suffix) >= (int)sizeof name)
        return false;
    if (stat(name, &info) == 0)
        return info.st_ino != inode;
    return errno == ENOENT || errno == ENOTDIR;
}

bool tide_sqlite_place_is_left(const tide_sqlite_place *place, const char *path)
{
    return is_elsewhere(path, "", place->file) || is_elsewhere(path, "-wal", place->log);
}

tide_sqlite_place tide_sqlite_place_of(const char *path)
{
    return (tide_sqlite_place){.file = find_inode(path, ""), .log = find_inode(path, "-wal")};
}

tide_status tide_sqlite_door_open(tide_sqlite_door *door, const char *path, tide_error *err)
{
    char name[4096];
    if (snprintf(name, sizeof name, "%s-door", path) >= (int)sizeof name)
        return tide_fail(err, TIDE_E_INVALID, "the path %.64s... is too long", path);
    struct stat info;
    const mode_t mode = stat(path, &info) == 0 ? info.st_mode & 0666 : 0600;
    door->fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, mode);
    if (door->fd >= 0)
        (void)fchmod(door->fd, mode); /* like SQLite's own side files, whatever the umask says */
    return door->fd < 0 ? fail_errno(err, errno, "open", name) : TIDE_OK;
}

void tide_sqlite_door_close(tide_sqlite_door *door)
{
    tide_file_closep(&door->fd);
    door->fd = -1;
}

static int set_lock(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int code = 0;
    do
        code = fcntl(fd, F_OFD_SETLK, &lock);
    while (code != 0 && errno == EINTR);
    return code;
}

tide_status tide_sqlite_door_enter(tide_sqlite_door *door, tide_env *env, int64_t until_us,
                                   tide_error *err)
{
    int64_t wait = DOOR_SPIN_US;
    while (set_lock(door->fd, F_WRLCK) != 0) {
        if (tide_sqlite_locks_unsupported(errno))
            return tide_sqlite_locks_fail(err, "the door file");
        if (errno != EAGAIN && errno != EACCES)
            return tide_fail(err, TIDE_E_IO, "cannot lock the door file: %s", strerror(errno));
        if (env->mono_us(env) >= until_us)
            return tide_fail(err, TIDE_E_BUSY,
                             "another process has been waiting to write for too long");
        env->sleep_us(env, wait);
        wait = wait * 2 < DOOR_SPIN_MAX_US ? wait * 2 : DOOR_SPIN_MAX_US;
    }
    return TIDE_OK;
}

void tide_sqlite_door_leave(tide_sqlite_door *door)
{
    (void)set_lock(door->fd, F_UNLCK);
}

bool tide_sqlite_backup_part(const char *path, char *out, size_t out_size)
{
    return (size_t)snprintf(out, out_size, "%s.part-%ld", path, (long)getpid()) < out_size;
}

bool tide_sqlite_file_host(const char *path, char *out, size_t out_size)
{
    struct statx info;
    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &info) != 0)
        return false;
    const bool has_birth = (info.stx_mask & STATX_BTIME) != 0;
    (void)snprintf(out, out_size, "%" PRIu64 "/%" PRId64 ".%09u", (uint64_t)info.stx_ino,
                   has_birth ? (int64_t)info.stx_btime.tv_sec : 0,
                   has_birth ? info.stx_btime.tv_nsec : 0);
    return true;
}
