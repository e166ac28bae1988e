#include "runtime/child_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { READ_END = 0, WRITE_END = 1, FIRST_FREE_FD = 3 };

/* Every descriptor of a start; -1: none. What is still here at the end of the start is closed. */
typedef struct plumbing {
    int in[2];
    int out[2];
    int report[2];
} plumbing;

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void plumbing_done(plumbing *p)
{
    for (int end = 0; end < 2; end++) {
        close_fd(&p->in[end]);
        close_fd(&p->out[end]);
        close_fd(&p->report[end]);
    }
}

static int take_fd(int *fd)
{
    const int taken = *fd;
    *fd = -1;
    return taken;
}

/* Pipe ends stay clear of 0, 1 and 2 also where one of those is closed in us. */
static tide_status open_pipe(int ends[2], tide_error *err)
{
    if (pipe2(ends, O_CLOEXEC) != 0) {
        ends[0] = ends[1] = -1;
        return tide_fail(err, TIDE_E_IO, "no pipe: %s", strerror(errno));
    }
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= FIRST_FREE_FD)
            continue;
        const int moved = fcntl(ends[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (moved < 0)
            return tide_fail(err, TIDE_E_IO, "no pipe: %s", strerror(errno));
        (void)close(ends[i]);
        ends[i] = moved;
    }
    return TIDE_OK;
}

static tide_status open_plumbing(plumbing *p, const tide_child_spec *spec, tide_error *err)
{
    TIDE_TRY(open_pipe(p->report, err));
    if (spec->stdin_kind == TIDE_CHILD_STDIN_BYTES) {
        TIDE_TRY(open_pipe(p->in, err));
        (void)fcntl(p->in[WRITE_END], F_SETFL, O_NONBLOCK);
    } else if (spec->stdin_kind == TIDE_CHILD_STDIN_NONE) {
        /* A root directory without devices: a pipe that is at its end reads the same. */
        p->in[READ_END] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (p->in[READ_END] < 0) {
            TIDE_TRY(open_pipe(p->in, err));
            close_fd(&p->in[WRITE_END]);
        }
    }
    if (spec->is_captured) {
        TIDE_TRY(open_pipe(p->out, err));
        (void)fcntl(p->out[READ_END], F_SETFL, O_NONBLOCK);
    }
    return TIDE_OK;
}

static bool is_same_name(const char *a, const char *b)
{
    const size_t len = strcspn(a, "=");
    return strncmp(a, b, len) == 0 && b[len] == '=';
}

/* Our environment with the additions in place of what has their names. The texts are borrowed. */
static char **make_environment(const char *const *additions)
{
    size_t ours = 0;
    size_t added = 0;
    while (environ && environ[ours])
        ours++;
    while (additions && additions[added])
        added++;
    char **out = calloc(ours + added + 1, sizeof *out);
    if (!out)
        return NULL;
    size_t count = 0;
    for (size_t i = 0; i < added; i++)
        memcpy(&out[count++], &additions[i], sizeof *out); /* execve's type lacks the const */
    for (size_t i = 0; i < ours; i++) {
        bool is_replaced = false;
        for (size_t k = 0; k < added && !is_replaced; k++)
            is_replaced = is_same_name(additions[k], environ[i]);
        if (!is_replaced)
            out[count++] = environ[i];
    }
    return out;
}

/* ---- between fork and exec: async-signal-safe calls only ---- */

typedef struct orders {
    const tide_child_spec *spec;
    plumbing *p;
    char **environment;
    sigset_t mask;
    pid_t parent;
    bool has_own_group;
} orders;

/* Our handlers must not run in the program's place. What was ignored stays ignored. */
static void forget_handlers(void)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_IGN)
            continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = SIG_DFL;
        (void)sigaction(number, &action, NULL);
    }
}

/* First all out of each other's way, then each to its number. */
static bool pass_descriptors(const tide_child_spec *spec)
{
    int moved[TIDE_CHILD_PASS_MAX];
    int above = FIRST_FREE_FD;
    for (int i = 0; i < spec->pass_count; i++)
        above = spec->pass[i].theirs >= above ? spec->pass[i].theirs + 1 : above;
    for (int i = 0; i < spec->pass_count; i++)
        if ((moved[i] = fcntl(spec->pass[i].ours, F_DUPFD_CLOEXEC, above)) < 0)
            return false;
    for (int i = 0; i < spec->pass_count; i++)
        if (dup2(moved[i], spec->pass[i].theirs) < 0)
            return false;
    return true;
}

static bool set_up(const orders *o)
{
    if (o->has_own_group && setpgid(0, 0) != 0)
        return false;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return false;
    if (getppid() != o->parent) /* it died before we could ask to be told */
        _exit(EXIT_FAILURE);
    if (o->p->in[READ_END] >= 0 && dup2(o->p->in[READ_END], STDIN_FILENO) < 0)
        return false;
    if (o->p->out[WRITE_END] >= 0 && dup2(o->p->out[WRITE_END], STDOUT_FILENO) < 0)
        return false;
    return pass_descriptors(o->spec);
}

/* The report pipe must not be where a passed descriptor will stand. */
static int keep_report(const orders *o)
{
    int above = o->p->report[WRITE_END];
    for (int i = 0; i < o->spec->pass_count; i++)
        above = o->spec->pass[i].theirs >= above ? o->spec->pass[i].theirs + 1 : above;
    return fcntl(o->p->report[WRITE_END], F_DUPFD_CLOEXEC, above);
}

static _Noreturn void become_program(const orders *o)
{
    const int report = keep_report(o);
    forget_handlers();
    if (report >= 0 && set_up(o)) {
        (void)sigprocmask(SIG_SETMASK, &o->mask, NULL);
        (void)execvpe(o->spec->argv[0], o->spec->argv, o->environment);
    }
    const int failure = errno;
    const ssize_t written = write(report, &failure, sizeof failure);
    (void)written; /* then the parent sees an end without a reason */
    _exit(EXIT_FAILURE);
}

/* ---- in us ---- */

static void wait_for(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* 0: the program runs. Otherwise the errno of what failed before it could. */
static int read_report(int fd)
{
    int failure = 0;
    ssize_t got = 0;
    do
        got = read(fd, &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof failure ? failure : 0;
}

static tide_status fail_start(const char *program, int failure, tide_error *err)
{
    tide_status status = TIDE_E_IO;
    if (failure == ENOENT || failure == ENOTDIR)
        status = TIDE_E_NOT_FOUND;
    else if (failure == EACCES || failure == EPERM || failure == ENOEXEC || failure == EISDIR)
        status = TIDE_E_DENIED;
    else if (failure == ENOMEM || failure == EAGAIN)
        status = TIDE_E_NOMEM;
    return tide_fail(err, status, "'%s' cannot be started: %s", program, strerror(failure));
}

static void hear_of_ends(void)
{
    struct sigaction action;
    if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
        memset(&action, 0, sizeof action);
        action.sa_handler = SIG_DFL;
        (void)sigaction(SIGCHLD, &action, NULL);
    }
}

static tide_status fork_program(const tide_child_spec *spec, orders *o, pid_t *pid, tide_error *err)
{
    sigset_t all;
    (void)sigfillset(&all);
    hear_of_ends();
    (void)pthread_sigmask(SIG_SETMASK, &all, &o->mask);
    o->parent = getpid();
    *pid = fork();
    if (*pid == 0)
        become_program(o);
    const int failure = errno;
    (void)pthread_sigmask(SIG_SETMASK, &o->mask, NULL);
    return *pid < 0 ? fail_start(spec->argv[0], failure, err) : TIDE_OK;
}

tide_status tide_child_start(const tide_child_spec *spec, tide_child_started *out, tide_error *err)
{
    TIDE_CLEANUP(plumbing_done)
    plumbing p = {.in = {-1, -1}, .out = {-1, -1}, .report = {-1, -1}};
    TIDE_CLEANUP(tide_freep) char **environment = make_environment(spec->env);
    if (!environment)
        return tide_no_memory(err);
    TIDE_TRY(open_plumbing(&p, spec, err));
    orders o = {.spec = spec, .p = &p, .environment = environment};
    o.has_own_group = spec->stdin_kind != TIDE_CHILD_STDIN_INHERIT || !isatty(STDIN_FILENO);
    pid_t pid = 0;
    TIDE_TRY(fork_program(spec, &o, &pid, err));
    if (o.has_own_group)
        (void)setpgid(pid, pid); /* whoever comes first: from here on the group can be signalled */
    close_fd(&p.report[WRITE_END]);
    const int failure = read_report(p.report[READ_END]);
    if (failure != 0) {
        wait_for(pid);
        return fail_start(spec->argv[0], failure, err);
    }
    *out = (tide_child_started){.pid = pid,
                                .has_own_group = o.has_own_group,
                                .in_fd = take_fd(&p.in[WRITE_END]),
                                .out_fd = take_fd(&p.out[READ_END])};
    return TIDE_OK;
}
