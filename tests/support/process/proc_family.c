#include "support/process/proc.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FAMILY_MAX = 1024 };

/* A number, with spaces before it and anything behind it. */
static bool parse_pid(const char *text, pid_t *out)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (end == text || errno != 0 || value < 0 || value > INT_MAX)
        return false;
    *out = (pid_t)value;
    return true;
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
    if (behind == NULL || behind[1] != ' ' || behind[2] == '\0')
        return false;
    *state = behind[2];
    return parse_pid(behind + 3, parent);
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
        pid_t pid; /* the names of processes are their pids; others are no numbers */
        if (parse_pid(entry->d_name, &pid) && read_stat(pid, &state, &its_parent) &&
            its_parent == parent) {
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
