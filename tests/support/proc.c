#include "support/proc.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

extern char **environ;

enum {
    GROUPS_MAX = 64,
    FAMILY_MAX = 1024,
    FIND_LEVELS_MAX = 4,
    READ_CHUNK = 64 * 1024,
};

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

int64_t proc_now_ms(void)
{
    struct timespec now;
    const int rc = clock_gettime(CLOCK_MONOTONIC, &now);
    assert(rc == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int remaining_ms(int64_t deadline_ms)
{
    const int64_t left_ms = deadline_ms - proc_now_ms();
    return left_ms <= 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

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
            env[len++] = (char *)(uintptr_t)changes[c]; /* execve does not write to it */
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
    execvpe(l->options->argv[0], (char *const *)(uintptr_t)l->options->argv, l->env);
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
        close_fd(&l->streams[fd]);
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

tide_status proc_kill(proc *child, int signal, tide_error *err)
{
    if (child->pid <= 0 || kill(child->pid, signal) == 0 || errno == ESRCH)
        return TIDE_OK;
    return tide_fail(err, errno == EPERM ? TIDE_E_DENIED : TIDE_E_IO, "signal %d to process %d: %s",
                     signal, (int)child->pid, strerror(errno));
}

bool proc_poll(proc *child)
{
    if (child->pid <= 0)
        return true;
    int status;
    pid_t got;
    while ((got = waitpid(child->pid, &status, WNOHANG)) < 0 && errno == EINTR)
        ;
    if (got == 0)
        return false;
    assert(got == child->pid); /* somebody else reaped our child */
    child->pid = 0;
    child->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    child->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return true;
}

tide_status proc_wait(proc *child, int64_t timeout_ms, tide_error *err)
{
    const int64_t deadline_ms = proc_now_ms() + timeout_ms;
    if (proc_poll(child))
        return TIDE_OK;
    int fd = pidfd_open(child->pid, 0); /* readable when the process has ended */
    if (fd < 0)
        return tide_fail(err, TIDE_E_IO, "watch process %d: %s", (int)child->pid, strerror(errno));
    bool has_ended = false;
    do {
        struct pollfd watched = {.fd = fd, .events = POLLIN};
        poll(&watched, 1, remaining_ms(deadline_ms));
        has_ended = proc_poll(child);
    } while (!has_ended && proc_now_ms() < deadline_ms);
    close_fd(&fd);
    if (!has_ended)
        return tide_fail(err, TIDE_E_TIMEOUT, "process %d still runs after %lld ms",
                         (int)child->pid, (long long)timeout_ms);
    return TIDE_OK;
}

void proc_done(proc *child)
{
    if (!proc_poll(child)) {
        kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        child->pid = 0;
        child->signal = SIGKILL;
    }
    close_fd(&child->in_fd);
    close_fd(&child->out_fd);
    close_fd(&child->err_fd);
}

/* State letter and parent of a process from /proc; false when there is no such process. */
static bool read_stat(pid_t pid, char *state, pid_t *parent)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    char line[512];
    const bool has_line = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    /* "pid (name) S ppid ...": the name may hold anything, so start behind its last parenthesis. */
    const char *behind = has_line ? strrchr(line, ')') : NULL;
    int ppid;
    if (behind == NULL || sscanf(behind + 1, " %c %d", state, &ppid) != 2)
        return false;
    *parent = ppid;
    return true;
}

bool proc_is_gone(pid_t pid)
{
    char state;
    pid_t parent;
    return !read_stat(pid, &state, &parent) || state == 'Z' || state == 'X';
}

static bool is_stopped(pid_t pid)
{
    char state;
    pid_t parent;
    return !read_stat(pid, &state, &parent) || state == 'T' || state == 'Z';
}

/* Poll a fact of /proc, for which there is no event to wait on. */
static tide_status wait_until(bool (*is_true)(pid_t pid), pid_t pid, int64_t deadline_ms,
                              tide_error *err)
{
    while (!is_true(pid)) {
        if (proc_now_ms() >= deadline_ms)
            return tide_fail(err, TIDE_E_TIMEOUT, "process %d does not react to signals", (int)pid);
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return TIDE_OK;
}

static size_t list_children(pid_t parent, pid_t out[FAMILY_MAX])
{
    DIR *processes = opendir("/proc");
    assert(processes != NULL);
    size_t len = 0;
    for (const struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        char state;
        pid_t its_parent;
        const pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
        if (pid > 0 && read_stat(pid, &state, &its_parent) && its_parent == parent) {
            assert(len < FAMILY_MAX);
            out[len++] = pid;
        }
    }
    closedir(processes);
    return len;
}

tide_status proc_kill_family(proc *child, int64_t timeout_ms, tide_error *err)
{
    const int64_t deadline_ms = proc_now_ms() + timeout_ms;
    if (proc_poll(child))
        return TIDE_OK;
    TIDE_TRY(proc_kill(child, SIGSTOP, err));
    TIDE_TRY(wait_until(is_stopped, child->pid, deadline_ms, err));

    /* A stopped parent neither forks nor reaps: the list is complete and its pids stay theirs. */
    pid_t family[FAMILY_MAX];
    const size_t len = list_children(child->pid, family);
    for (size_t i = 0; i < len; i++)
        kill(family[i], SIGKILL);
    for (size_t i = 0; i < len; i++)
        TIDE_TRY(wait_until(proc_is_gone, family[i], deadline_ms, err));
    TIDE_TRY(proc_kill(child, SIGKILL, err));
    return proc_wait(child, timeout_ms, err);
}

/* Append what the pipe has; closes it at its end. */
static tide_status drain(int *fd, char **text, size_t *len, tide_error *err)
{
    if (*len > PROC_OUTPUT_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d bytes of output", PROC_OUTPUT_MAX);
    char *grown = realloc(*text, *len + READ_CHUNK + 1);
    assert(grown != NULL);
    *text = grown;
    const ssize_t got = read(*fd, grown + *len, READ_CHUNK);
    if (got > 0)
        *len += (size_t)got;
    else if (got == 0 || (errno != EINTR && errno != EAGAIN))
        close_fd(fd);
    grown[*len] = '\0';
    return TIDE_OK;
}

static tide_status collect(proc *child, proc_result *result, int64_t deadline_ms, tide_error *err)
{
    while (child->out_fd >= 0 || child->err_fd >= 0) {
        struct pollfd pipes[2] = {{.fd = child->out_fd, .events = POLLIN},
                                  {.fd = child->err_fd, .events = POLLIN}};
        const int ready = poll(pipes, 2, remaining_ms(deadline_ms));
        if (ready == 0)
            return tide_fail(err, TIDE_E_TIMEOUT, "process %d still prints at its deadline",
                             (int)child->pid);
        if (ready > 0 && pipes[0].revents != 0)
            TIDE_TRY(drain(&child->out_fd, &result->out, &result->out_len, err));
        if (ready > 0 && pipes[1].revents != 0)
            TIDE_TRY(drain(&child->err_fd, &result->err, &result->err_len, err));
    }
    return TIDE_OK;
}

tide_status proc_run(proc_result *result, const proc_options *options, int64_t timeout_ms,
                     tide_error *err)
{
    const int64_t deadline_ms = proc_now_ms() + timeout_ms;
    *result = (proc_result){.exit_code = -1};
    proc_options piped = *options;
    piped.out = PROC_PIPE;
    piped.err = PROC_PIPE;
    if (piped.in == PROC_INHERIT)
        piped.in = PROC_NULL;
    TIDE_CLEANUP(proc_done) proc child = {.in_fd = -1, .out_fd = -1, .err_fd = -1};
    TIDE_TRY(proc_start(&child, &piped, err));
    TIDE_TRY(collect(&child, result, deadline_ms, err));
    TIDE_TRY(proc_wait(&child, remaining_ms(deadline_ms), err));
    result->exit_code = child.exit_code;
    result->signal = child.signal;
    return TIDE_OK;
}

void proc_result_done(proc_result *result)
{
    free(result->out);
    free(result->err);
    *result = (proc_result){.exit_code = -1};
}

void proc_self_path(char out[PATH_MAX])
{
    const ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
    assert(len > 0);
    out[len] = '\0';
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

tide_status proc_find(const char *name, char out[PATH_MAX], tide_error *err)
{
    const char *given = strcmp(name, "tidemark") == 0 ? getenv("TIDEMARK_BIN") : NULL;
    if (given != NULL) {
        if (strlen(given) >= PATH_MAX || !is_program(given))
            return tide_fail(err, TIDE_E_NOT_FOUND, "TIDEMARK_BIN='%s' is no program", given);
        strcpy(out, given);
        return TIDE_OK;
    }
    char directory[PATH_MAX];
    proc_self_path(directory);
    for (int level = 0; level < FIND_LEVELS_MAX; level++) {
        char *slash = strrchr(directory, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
        const int len = snprintf(out, PATH_MAX, "%s/%s", directory, name);
        if (len > 0 && len < PATH_MAX && is_program(out))
            return TIDE_OK;
    }
    proc_self_path(directory);
    return tide_fail(err, TIDE_E_NOT_FOUND, "no program '%s' in or above the directory of %s", name,
                     directory);
}
