#include "support/process/proc_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { GROUPS_MAX = 64 };

/* Everything the child needs between fork and exec, made ready before the fork. */
typedef struct launch {
    const proc_options *options;
    char **env;
    int streams[3]; /* becomes 0, 1, 2; -1 inherits */
    int report_fd;  /* carries a launch_failure; closed by a successful exec */
    bool changes_user;
    uid_t uid;
    gid_t gid;
    gid_t groups[GROUPS_MAX];
    int groups_len;
} launch;

typedef struct launch_failure {
    char doing[16];
    int error;
} launch_failure;

static tide_status look_up_user(launch *l, const char *user, tide_error *err)
{
    if (user == NULL || geteuid() != 0)
        return TIDE_OK;
    const struct passwd *entry = getpwnam(user);
    if (entry == NULL)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no user '%s' on this machine", user);
    l->changes_user = true;
    l->uid = entry->pw_uid;
    l->gid = entry->pw_gid;
    l->groups_len = GROUPS_MAX;
    if (getgrouplist(user, l->gid, l->groups, &l->groups_len) < 0)
        return tide_fail(err, TIDE_E_LIMIT, "user '%s' is in more than %d groups", user,
                         GROUPS_MAX);
    return TIDE_OK;
}

static bool has_same_name(const char *entry, const char *change)
{
    const size_t len = strcspn(change, "=");
    return strncmp(entry, change, len) == 0 && entry[len] == '=';
}

/* Our environment with the changes applied; the strings stay where they are. */
static char **make_env(const char *const *changes)
{
    size_t own_len = 0;
    while (environ[own_len] != NULL)
        own_len++;
    char **env = calloc(own_len + PROC_ENV_MAX + 1, sizeof(*env));
    assert(env != NULL);

    size_t len = 0;
    for (size_t i = 0; i < own_len; i++) {
        bool is_changed = false;
        for (size_t c = 0; changes != NULL && changes[c] != NULL; c++)
            is_changed = is_changed || has_same_name(environ[i], changes[c]);
        if (!is_changed)
            env[len++] = environ[i];
    }
    for (size_t c = 0; changes != NULL && changes[c] != NULL; c++) {
        assert(c < PROC_ENV_MAX);
        if (strchr(changes[c], '=') != NULL)
            env[len++] = (char *)changes[c]; /* execve does not write to it */
    }
    return env;
}

static void die_reporting(const launch *l, const char *doing)
{
    launch_failure failure = {.error = errno};
    strncpy(failure.doing, doing, sizeof(failure.doing) - 1);
    if (write(l->report_fd, &failure, sizeof(failure)) < 0)
        _exit(126);
    _exit(127);
}

/* Runs in the child: async-signal-safe calls only, other threads of the test may have held any
 * lock. */
static _Noreturn void become_program(const launch *l)
{
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (l->options->has_own_session && setsid() < 0)
        die_reporting(l, "setsid");
    for (int fd = 0; fd < 3; fd++)
        if (l->streams[fd] >= 0 && dup2(l->streams[fd], fd) < 0)
            die_reporting(l, "dup2");
    if (l->changes_user && (setgroups((size_t)l->groups_len, l->groups) != 0 ||
                            setgid(l->gid) != 0 || setuid(l->uid) != 0))
        die_reporting(l, "become user");
    if (l->options->directory != NULL && chdir(l->options->directory) != 0)
        die_reporting(l, "chdir");
    execvpe(l->options->argv[0], (char *const *)l->options->argv, l->env);
    die_reporting(l, "execute");
    _exit(127);
}

/* Open the child's end of one stream, and ours if it is a pipe. */
static tide_status open_stream(int *theirs, int *ours, int fd, proc_stream kind, const char *path,
                               tide_error *err)
{
    int ends[2];
    switch (kind) {
    case PROC_INHERIT:
        return TIDE_OK;
    case PROC_NULL:
        path = "/dev/null";
        *theirs = open(path, O_RDWR | O_CLOEXEC);
        break;
    case PROC_FILE:
        assert(path != NULL && fd != STDIN_FILENO);
        *theirs = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        break;
    case PROC_PIPE:
        if (pipe2(ends, O_CLOEXEC) != 0)
            return tide_fail(err, TIDE_E_IO, "pipe: %s", strerror(errno));
        *theirs = ends[fd == STDIN_FILENO ? 0 : 1];
        *ours = ends[fd == STDIN_FILENO ? 1 : 0];
        return TIDE_OK;
    }
    if (*theirs < 0)
        return tide_fail(err, TIDE_E_IO, "open '%s': %s", path, strerror(errno));
    return TIDE_OK;
}

static void launch_done(launch *l)
{
    free(l->env);
    for (int fd = 0; fd < 3; fd++)
        proc_close_fd(&l->streams[fd]);
}

static tide_status fork_and_exec(proc *child, launch *l, tide_error *err)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return tide_fail(err, TIDE_E_IO, "pipe: %s", strerror(errno));
    l->report_fd = report[1];
    const pid_t pid = fork();
    if (pid == 0)
        become_program(l);
    const int fork_error = errno;
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        return tide_fail(err, TIDE_E_IO, "fork: %s", strerror(fork_error));
    }
    child->pid = pid;

    launch_failure failure;
    ssize_t got;
    while ((got = read(report[0], &failure, sizeof(failure))) < 0 && errno == EINTR)
        ;
    close(report[0]);
    if (got == 0)
        return TIDE_OK;
    assert(got == (ssize_t)sizeof(failure));
    const tide_status status = failure.error == ENOENT   ? TIDE_E_NOT_FOUND
                               : failure.error == EACCES ? TIDE_E_DENIED
                                                         : TIDE_E_IO;
    return tide_fail(err, status, "%s '%s': %s", failure.doing, l->options->argv[0],
                     strerror(failure.error));
}

tide_status proc_start(proc *child, const proc_options *options, tide_error *err)
{
    *child = (proc){.in_fd = -1, .out_fd = -1, .err_fd = -1, .exit_code = -1};
    TIDE_CLEANUP(launch_done) launch l = {.options = options, .streams = {-1, -1, -1}};
    TIDE_TRY(look_up_user(&l, options->user, err));
    TIDE_TRY(open_stream(&l.streams[0], &child->in_fd, 0, options->in, NULL, err));
    TIDE_TRY(open_stream(&l.streams[1], &child->out_fd, 1, options->out, options->out_path, err));
    TIDE_TRY(open_stream(&l.streams[2], &child->err_fd, 2, options->err, options->err_path, err));
    l.env = make_env(options->env);
    return fork_and_exec(child, &l, err);
}
