#include "runtime/query/query_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum {
    FIRST_OTHER_FD = 3,
    FILE_LEN_MAX = 16 << 20, /* the -shm of a write-ahead log of 8 GiB */
};

/* Stacks of DuckDB's threads and the allocator's reserve are mapped, not used. */
#define SLACK_LEN (INT64_C(128) << 20)

static tide_status fail_system(tide_error *err, const char *what)
{
    return tide_fail(err, TIDE_E_FAILED, "cannot confine the query process: %s: %s", what,
                     strerror(errno));
}

/* The thread of the daemon that started this process blocks all signals, and SIGTERM stays blocked:
 * systemd sends it to all processes of a unit, while the daemon still waits for queries. */
static bool heed_cpu_limit(void)
{
    sigset_t cpu;
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    return sigemptyset(&cpu) == 0 && sigaddset(&cpu, SIGXCPU) == 0 &&
           sigaction(SIGXCPU, &usual, NULL) == 0 && sigprocmask(SIG_UNBLOCK, &cpu, NULL) == 0;
}

tide_status tide_query_limits_begin(tide_error *err)
{
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    if (close_range(FIRST_OTHER_FD, ~0U, 0) != 0) {
        const long open_max = sysconf(_SC_OPEN_MAX); /* Linux before 5.9 */
        for (int fd = FIRST_OTHER_FD; fd < open_max; fd++)
            (void)close(fd);
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return fail_system(err, "no_new_privs");
    if (!heed_cpu_limit())
        return fail_system(err, "SIGXCPU");
    return setrlimit(RLIMIT_CORE, &none) == 0 ? TIDE_OK : fail_system(err, "core size");
}

/* ---- memory and files ---- */

/* Bytes of address space; 0: unknown. */
static int64_t mapped_len(void)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(4096);
    if (tide_file_read(&text, "/proc/self/statm", NULL) < TIDE_OK)
        return 0;
    return strtoll(tide_buffer_text(&text), NULL, 10) * sysconf(_SC_PAGESIZE);
}

static tide_status limit(int which, int64_t len, const char *what, tide_error *err)
{
    struct rlimit now;
    const rlim_t wanted = (rlim_t)len;
    if (getrlimit((__rlimit_resource_t)which, &now) != 0)
        return fail_system(err, what);
    if (now.rlim_max != RLIM_INFINITY && now.rlim_max < wanted)
        return TIDE_OK; /* the operator's is lower */
    const struct rlimit then = {.rlim_cur = wanted, .rlim_max = wanted};
    return setrlimit((__rlimit_resource_t)which, &then) == 0 ? TIDE_OK : fail_system(err, what);
}

void tide_query_limits_cpu(int64_t cpu_us)
{
    struct rusage used;
    struct rlimit now;
    if (getrusage(RUSAGE_SELF, &used) != 0 || getrlimit(RLIMIT_CPU, &now) != 0)
        return;
    /* Whole seconds, and one more: the clock of the query ends it first. */
    now.rlim_cur = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 2 +
                            (cpu_us < INT64_C(86400000000) ? cpu_us / 1000000 : 86400));
    (void)setrlimit(RLIMIT_CPU, &now);
}

/* ---- Landlock ---- */

/* Everything of the file system that this header and the kernel's version know. */
static uint64_t all_access(long version)
{
    uint64_t access = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1; /* version 1 */
    if (version >= 2)
        access |= UINT64_C(1) << 13; /* REFER */
    if (version >= 3)
        access |= UINT64_C(1) << 14; /* TRUNCATE */
    if (version >= 5)
        access |= UINT64_C(1) << 15; /* IOCTL_DEV */
    return access;
}

static tide_status permit(int ruleset, const char *path, uint64_t access, tide_error *err)
{
    TIDE_CLEANUP(tide_file_closep) int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? TIDE_OK : fail_system(err, path);
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0
               ? TIDE_OK
               : fail_system(err, path);
}

/* DuckDB looks for the memory limit of its control group, and aborts if it may not. An open
 * descriptor keeps the inode, and so the rule: /proc makes a new one for the same name
 * otherwise. */
static tide_status permit_control_group(int ruleset, tide_error *err)
{
    static const char own[] = "/proc/self/cgroup";
    if (open(own, O_RDONLY | O_CLOEXEC) < 0)
        return TIDE_OK;
    TIDE_TRY(permit(ruleset, own, LANDLOCK_ACCESS_FS_READ_FILE, err));
    return permit(ruleset, "/sys/fs/cgroup", LANDLOCK_ACCESS_FS_READ_FILE, err);
}

static tide_status lock_files(const tide_query_limits *limits, tide_error *err)
{
    const long version =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return TIDE_OK;
    /* With network access from version 4 on; headers of Debian 12 end before it. */
    const uint64_t handled[2] = {all_access(version), 3 /* bind and connect of TCP */};
    TIDE_CLEANUP(tide_file_closep)
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, handled,
                               version >= 4 ? sizeof handled : sizeof handled[0], 0);
    if (ruleset < 0)
        return fail_system(err, "Landlock");
    TIDE_TRY(permit_control_group(ruleset, err));
    for (int i = 0; i < limits->directory_count; i++)
        TIDE_TRY(permit(ruleset, limits->directories[i], LANDLOCK_ACCESS_FS_READ_FILE, err));
    if (limits->written)
        TIDE_TRY(permit(ruleset, limits->written,
                        LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE, err));
    return syscall(SYS_landlock_restrict_self, ruleset, 0) == 0 ? TIDE_OK
                                                                : fail_system(err, "Landlock");
}

tide_status tide_query_limits_set(const tide_query_limits *limits, tide_error *err)
{
    const int64_t mapped = mapped_len(); /* /proc cannot be read afterwards */
    TIDE_TRY(limit(RLIMIT_FSIZE, FILE_LEN_MAX, "file size", err));
    if (mapped > 0)
        TIDE_TRY(limit(RLIMIT_AS, mapped + limits->memory_len + SLACK_LEN, "address space", err));
    return lock_files(limits, err);
}
