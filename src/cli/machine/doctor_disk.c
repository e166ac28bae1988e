/* doctor_disk.c - the file of a SQLite store, its directory, and the disk below. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/machine/doctor.h"

enum {
    SYNC_LEN = 4096,
    SYNC_ROUNDS = 31,
    SYNC_BUDGET_US = 2000000,
    SYNC_LEAST = 3,        /* rounds, whatever they cost */
    SYNC_TOO_FAST_US = 20, /* no disk is that quick */
    SYNC_TOO_SLOW_US = 50000,
    INODES_WARN = 1000,
    INODES_BAD = 10,
};

#define MIB (INT64_C(1) << 20)
#define SPACE_WARN (1024 * MIB)
#define SPACE_BAD (64 * MIB)

/* ---- file system ---- */

/* Not all of these are in <linux/magic.h>. */
typedef struct file_system {
    uint32_t magic;
    const char *name;
    const char *advice; /* "": fit for a store */
} file_system;

#define ON_NETWORK "locks and shared memory are not reliable there: use a local disk, or PostgreSQL"
#define IN_MEMORY "nothing there survives a restart: use a disk"

static const file_system file_systems[] = {
    {0x6969, "nfs", ON_NETWORK},
    {0x517b, "smb", ON_NETWORK},
    {0xff534d42, "cifs", ON_NETWORK},
    {0xfe534d42, "smb2", ON_NETWORK},
    {0x01021997, "9p", ON_NETWORK},
    {0x00c36400, "ceph", ON_NETWORK},
    {0x5346414f, "afs", ON_NETWORK},
    {0x47504653, "gpfs", ON_NETWORK},
    {0x0bd00bd0, "lustre", ON_NETWORK},
    {0x65735546, "fuse",
     "whether it locks and syncs depends on the program behind it: use a local disk"},
    {0x01021994, "tmpfs", IN_MEMORY},
    {0x858458f6, "ramfs", IN_MEMORY},
    {0x794c7630, "overlay", "a container's own layer goes with the container: use a volume"},
    {0xef53, "ext4", ""},
    {0x58465342, "xfs", ""},
    {0x9123683e, "btrfs", ""},
    {0x2fc12fc1, "zfs", ""},
    {0xf2f52010, "f2fs", ""},
    {0xca451a4e, "bcachefs", ""},
};

static void check_file_system(tide_doctor *doctor, const char *directory)
{
    struct statfs found;
    if (statfs(directory, &found) != 0) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "file system", "", "cannot be asked: %s",
                         strerror(errno));
        return;
    }
    const uint32_t magic = (uint32_t)found.f_type;
    for (size_t i = 0; i < sizeof file_systems / sizeof file_systems[0]; i++) {
        const file_system *row = &file_systems[i];
        if (row->magic != magic)
            continue;
        tide_doctor_tell(doctor, *row->advice ? TIDE_DOCTOR_WARN : TIDE_DOCTOR_OK, "file system",
                         row->advice, "%s", row->name);
        return;
    }
    tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "file system", "", "of type 0x%" PRIx32, magic);
}

static void check_space(tide_doctor *doctor, const char *directory)
{
    struct statvfs found;
    if (statvfs(directory, &found) != 0) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "free space", "", "cannot be asked: %s",
                         strerror(errno));
        return;
    }
    const uint64_t fragment = found.f_frsize;
    const uint64_t free_bytes = (uint64_t)found.f_bavail * fragment;
    tide_doctor_level level = TIDE_DOCTOR_OK;
    if (free_bytes < (uint64_t)SPACE_WARN)
        level = free_bytes < (uint64_t)SPACE_BAD ? TIDE_DOCTOR_BAD : TIDE_DOCTOR_WARN;
    tide_doctor_tell(doctor, level, "free space", level == TIDE_DOCTOR_OK ? "" : "free some",
                     "%" PRIu64 " MiB", free_bytes / (uint64_t)MIB);
    if (found.f_files == 0)
        return; /* this file system makes inodes as it needs them */
    const uint64_t inodes = found.f_favail;
    level = TIDE_DOCTOR_OK;
    if (inodes < INODES_WARN)
        level = inodes < INODES_BAD ? TIDE_DOCTOR_BAD : TIDE_DOCTOR_WARN;
    tide_doctor_tell(doctor, level, "free inodes",
                     level == TIDE_DOCTOR_OK ? "" : "remove some files", "%" PRIu64, inodes);
}

/* ---- sync speed ---- */

static int compare_times(const void *a, const void *b)
{
    int64_t left = 0;
    int64_t right = 0;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return (left > right) - (left < right);
}

/* A file without a name: nothing is left behind, however this ends. */
static int open_nameless(const char *directory)
{
    const int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd;
    TIDE_CLEANUP(tide_freep) char *path = NULL;
    if (asprintf(&path, "%s/.tidemark-doctor-XXXXXX", directory) < 0) {
        path = NULL;
        return -1;
    }
    const int named = mkostemp(path, O_CLOEXEC);
    if (named >= 0)
        (void)unlink(path);
    return named;
}

/* The median time of write + fdatasync; below 0: minus errno. */
static int64_t measure_sync(tide_env *env, const char *directory)
{
    static const char block[SYNC_LEN] = "tidemark doctor";
    int64_t times[SYNC_ROUNDS];
    size_t count = 0;
    TIDE_CLEANUP(tide_file_closep) int fd = open_nameless(directory);
    if (fd < 0)
        return -errno;
    /* The first write makes the file longer; a log is mostly written over. */
    if (pwrite(fd, block, sizeof block, 0) != SYNC_LEN || fsync(fd) != 0)
        return errno ? -errno : -EIO;
    const int64_t start_us = env->mono_us(env);
    while (count < SYNC_ROUNDS) {
        const int64_t before_us = env->mono_us(env);
        if (pwrite(fd, block, sizeof block, 0) != SYNC_LEN || fdatasync(fd) != 0)
            return errno ? -errno : -EIO;
        const int64_t after_us = env->mono_us(env);
        times[count++] = after_us - before_us;
        if (count >= SYNC_LEAST && after_us - start_us > SYNC_BUDGET_US)
            break;
    }
    qsort(times, count, sizeof times[0], compare_times);
    return times[count / 2];
}

static void check_sync(tide_doctor *doctor, const char *directory)
{
    const int64_t median_us = measure_sync(doctor->env, directory);
    if (median_us < 0) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "sync", "", "cannot be measured: %s",
                         strerror((int)-median_us));
        return;
    }
    tide_doctor_level level = TIDE_DOCTOR_OK;
    const char *advice = "";
    if (median_us < SYNC_TOO_FAST_US) {
        level = TIDE_DOCTOR_WARN;
        advice = "no disk is that fast: syncs are probably not carried out, and a power cut loses "
                 "numbers";
    } else if (median_us > SYNC_TOO_SLOW_US) {
        level = TIDE_DOCTOR_WARN;
        advice = "each durable write waits this long: look for a busy or failing disk";
    }
    tide_doctor_tell(doctor, level, "sync", advice, "%.3f ms for 4 KiB, median",
                     (double)median_us / 1000.0);
}

/* ---- permissions ---- */

static char *copy_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

void tide_doctor_check_directory(tide_doctor *doctor, const char *path)
{
    TIDE_CLEANUP(tide_freep) char *directory = copy_directory(path);
    struct stat info;
    if (!directory || stat(directory, &info) != 0 || !S_ISDIR(info.st_mode)) {
        tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "directory", "make it, or name another --store",
                         "%s: %s", directory ? directory : path,
                         directory && stat(directory, &info) == 0 ? "not a directory"
                                                                  : strerror(errno));
        return;
    }
    if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0)
        tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "directory",
                         "the store and its side files (-wal, -shm, -door) are made there",
                         "%s: %s", directory, strerror(errno));
    else if ((info.st_mode & S_IWOTH) && !(info.st_mode & S_ISVTX))
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "directory", "chmod o-w",
                         "%s: everybody may remove or replace the store", directory);
    else
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "directory", "", "%s can be written", directory);
    check_file_system(doctor, directory);
    check_space(doctor, directory);
    check_sync(doctor, directory);
}

/* 0, or errno: a file that is there must be ours to write. */
static int check_access(const char *path, const char *suffix)
{
    TIDE_CLEANUP(tide_freep) char *name = NULL;
    if (asprintf(&name, "%s%s", path, suffix) < 0) {
        name = NULL;
        return ENOMEM;
    }
    if (faccessat(AT_FDCWD, name, R_OK | W_OK, AT_EACCESS) == 0 || errno == ENOENT)
        return 0;
    return errno;
}

void tide_doctor_check_file(tide_doctor *doctor, const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-door"};
    struct stat info;
    if (stat(path, &info) != 0)
        return; /* check_store tells that there is none */
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        const int problem = check_access(path, suffixes[i]);
        if (problem == 0)
            continue;
        tide_doctor_tell(doctor, TIDE_DOCTOR_BAD, "file", "check its owner and permissions",
                         "%s%s: %s", path, suffixes[i], strerror(problem));
        return;
    }
    if (info.st_mode & S_IWOTH)
        tide_doctor_tell(doctor, TIDE_DOCTOR_WARN, "file", "chmod o-w",
                         "%s: everybody may write it", path);
    else
        tide_doctor_tell(doctor, TIDE_DOCTOR_OK, "file", "", "%s can be read and written", path);
    tide_doctor_tell(
        doctor, TIDE_DOCTOR_OK, "other programs",
        "any program that writes this file needs SQLite 3.51.3 or later (WAL-reset bug)",
        "cannot be seen from here");
}
