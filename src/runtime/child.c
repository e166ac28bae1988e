#include "runtime/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

/* ---- fork and exec, with a report about what went wrong in between ---- */

enum { READ_END = 0, WRITE_END = 1, FIRST_FREE_FD = 3 };

/* Every descriptor of a start; -1: none. What is still here at the end of the start is closed. */
typedef struct plumbing {
    int in[2];
    int out[2];
    int report[2];
} plumbing;

static void plumbing_done(plumbing *p)
{
    for (int end = 0; end < 2; end++) {
        tide_file_closep(&p->in[end]);
        tide_file_closep(&p->out[end]);
        tide_file_closep(&p->report[end]);
    }
}

static int receive_fd(int *fd)
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
            tide_file_closep(&p->in[WRITE_END]);
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

/* First to numbers that collide with none, then each to its own. */
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
    if (getppid() != o->parent) /* it died before the death signal was set */
        _exit(EXIT_FAILURE);
    if (o->p->in[READ_END] >= 0 && dup2(o->p->in[READ_END], STDIN_FILENO) < 0)
        return false;
    if (o->p->out[WRITE_END] >= 0 && dup2(o->p->out[WRITE_END], STDOUT_FILENO) < 0)
        return false;
    return pass_descriptors(o->spec);
}

/* The report pipe must not be where a passed descriptor will stand. */
static int store_report(const orders *o)
{
    int above = o->p->report[WRITE_END];
    for (int i = 0; i < o->spec->pass_count; i++)
        above = o->spec->pass[i].theirs >= above ? o->spec->pass[i].theirs + 1 : above;
    return fcntl(o->p->report[WRITE_END], F_DUPFD_CLOEXEC, above);
}

static _Noreturn void become_program(const orders *o)
{
    const int report = store_report(o);
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
    TIDE_NEED_MEMORY(environment, err);
    TIDE_TRY(open_plumbing(&p, spec, err));
    orders o = {.spec = spec, .p = &p, .environment = environment};
    o.has_own_group = spec->stdin_kind != TIDE_CHILD_STDIN_INHERIT || !isatty(STDIN_FILENO);
    pid_t pid = 0;
    TIDE_TRY(fork_program(spec, &o, &pid, err));
    if (o.has_own_group)
        (void)setpgid(pid, pid); /* parent or child: from here on the group can be signalled */
    tide_file_closep(&p.report[WRITE_END]);
    const int failure = read_report(p.report[READ_END]);
    if (failure != 0) {
        wait_for(pid);
        return fail_start(spec->argv[0], failure, err);
    }
    *out = (tide_child_started){.pid = pid,
                                .has_own_group = o.has_own_group,
                                .in_fd = receive_fd(&p.in[WRITE_END]),
                                .out_fd = receive_fd(&p.out[READ_END])};
    return TIDE_OK;
}

enum {
    CHUNK = 65536,        /* bytes read at once */
    TEE_STEP = 4096,      /* bytes that a pipe takes without blocking when poll says so */
    LOOK_EVERY_MS = 1000, /* at least: the machine may have slept, and poll's clock with it */
    LOOK_OFTEN_MS = 20,   /* where the kernel has no pidfd */
};

struct tide_child {
    const tide_child_spec *spec;
    tide_child_result *result;
    tide_env *clock;
    tide_child_started at;
    int pid_fd; /* -1: the kernel has none */
    size_t fed; /* bytes of stdin_bytes */
    bool has_ended;
    bool is_killed;
    int64_t kill_at_us;   /* INT64_MAX: not being terminated */
    int64_t linger_at_us; /* once it has ended */
    int64_t tick_at_us;
    int tee_fd;       /* -1: none (any more) */
    size_t chunk_len; /* read and not passed on yet: chunk_at .. chunk_len */
    size_t chunk_at;
    char chunk[CHUNK];
};

static int64_t now_us(const tide_child *child)
{
    return child->clock->boot_us(child->clock);
}

/* ---- signals ---- */

/* It is not reaped before the loop ends, so its pid cannot belong to another process. */
void tide_child_signal(tide_child *child, int number)
{
    if (child->at.has_own_group)
        (void)kill(-child->at.pid, number);
    else if (!child->has_ended)
        (void)kill(child->at.pid, number);
}

void tide_child_terminate(tide_child *child, int reason, int64_t grace_us)
{
    assert(reason != 0);
    if (child->result->reason == 0 && !child->has_ended)
        child->result->reason = reason;
    if (child->kill_at_us == INT64_MAX && grace_us > 0) {
        tide_child_signal(child, SIGTERM);
        tide_child_signal(child, SIGCONT); /* a stopped process handles no other signal */
    }
    const int64_t kill_at_us = now_us(child) + grace_us;
    if (kill_at_us < child->kill_at_us)
        child->kill_at_us = kill_at_us;
}

bool tide_child_is_in_our_group(const tide_child *child)
{
    return !child->at.has_own_group;
}

static void kill_when_due(tide_child *child)
{
    if (!child->is_killed && now_us(child) >= child->kill_at_us) {
        tide_child_signal(child, SIGKILL);
        child->is_killed = true;
    }
}

/* ---- bytes ---- */

static void feed_stdin(tide_child *child)
{
    const tide_view bytes = child->spec->stdin_bytes;
    while (child->fed < bytes.len) {
        const ssize_t sent = write(child->at.in_fd, bytes.ptr + child->fed, bytes.len - child->fed);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0)
            break; /* it closed its stdin */
        child->fed += (size_t)sent;
    }
    tide_file_closep(&child->at.in_fd);
}

static void store_output(tide_child *child, const char *bytes, size_t len)
{
    tide_child_result *result = child->result;
    result->out_len += len;
    if (!result->is_out_over && tide_buffer_append(&result->out, bytes, len) != TIDE_OK) {
        result->is_out_over = true;
        tide_buffer_done(&result->out);
    }
}

static void hear_stdout(tide_child *child)
{
    const ssize_t got = read(child->at.out_fd, child->chunk, sizeof child->chunk);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        tide_file_closep(&child->at.out_fd);
        return;
    }
    store_output(child, child->chunk, (size_t)got);
    if (child->tee_fd >= 0) {
        child->chunk_at = 0;
        child->chunk_len = (size_t)got;
    }
}

static bool has_chunk(const tide_child *child)
{
    return child->chunk_at < child->chunk_len;
}

/* Called when poll reports that the reader accepts bytes, so that the write does not block the
 * loop. */
static void pass_on(tide_child *child)
{
    const size_t left = child->chunk_len - child->chunk_at;
    const ssize_t sent =
        write(child->tee_fd, child->chunk + child->chunk_at, left < TEE_STEP ? left : TEE_STEP);
    if (sent >= 0)
        child->chunk_at += (size_t)sent;
    else if (errno != EINTR && errno != EAGAIN) {
        child->result->tee_errno = errno;
        child->tee_fd = -1; /* the reader has left; the bytes are still stored */
        child->chunk_len = 0;
    }
}

/* ---- the loop ---- */

typedef struct poll_list {
    struct pollfd fds[TIDE_CHILD_WATCH_MAX + 4];
    nfds_t count;
    int pid; /* positions; -1: not polled */
    int in;
    int out;
    int tee;
    int watch[TIDE_CHILD_WATCH_MAX];
} poll_list;

static int add_fd(poll_list *list, int fd, short events)
{
    if (fd < 0)
        return -1;
    list->fds[list->count] = (struct pollfd){.fd = fd, .events = events};
    return (int)list->count++;
}

static bool is_ready(const poll_list *list, int position)
{
    return position >= 0 && list->fds[position].revents != 0;
}

static void make_list(poll_list *list, const tide_child *child)
{
    const tide_child_spec *spec = child->spec;
    *list = (poll_list){.count = 0};
    list->pid = add_fd(list, child->has_ended ? -1 : child->pid_fd, POLLIN);
    list->in = add_fd(list, child->at.in_fd, POLLOUT);
    list->out = add_fd(list, has_chunk(child) ? -1 : child->at.out_fd, POLLIN);
    list->tee = add_fd(list, has_chunk(child) ? child->tee_fd : -1, POLLOUT);
    for (int i = 0; i < spec->watch_count; i++)
        list->watch[i] = add_fd(list, spec->watches[i].fd, POLLIN);
}

static int find_timeout_ms(const tide_child *child)
{
    int64_t at_us = child->tick_at_us;
    if (child->has_ended && child->linger_at_us < at_us)
        at_us = child->linger_at_us;
    if (!child->is_killed && child->kill_at_us < at_us)
        at_us = child->kill_at_us;
    const int64_t limit_ms = child->pid_fd < 0 && !child->has_ended ? LOOK_OFTEN_MS : LOOK_EVERY_MS;
    const int64_t us = now_us(child);
    if (at_us <= us)
        return 0;
    const int64_t left_ms = (at_us - us - 1) / 1000 + 1;
    return (int)(left_ms < limit_ms ? left_ms : limit_ms);
}

static void check_end(tide_child *child)
{
    siginfo_t info = {.si_pid = 0};
    if (child->has_ended ||
        waitid(P_PID, (id_t)child->at.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return;
    child->has_ended = true;
    child->linger_at_us = now_us(child) + TIDE_CHILD_LINGER_US;
    if (child->result->reason != 0) { /* what it has started ends with it; the output is not read */
        if (child->at.has_own_group)
            (void)kill(-child->at.pid, SIGKILL);
        child->linger_at_us = INT64_MIN;
    }
}

static void call_watches(tide_child *child, const poll_list *list)
{
    for (int i = 0; i < child->spec->watch_count; i++) {
        tide_child_watch *watch = &child->spec->watches[i];
        if (is_ready(list, list->watch[i]) && watch->fd >= 0)
            watch->fn(watch->arg, child, watch);
    }
}

static void turn_once(tide_child *child)
{
    poll_list list;
    make_list(&list, child);
    const int count = poll(list.fds, list.count, find_timeout_ms(child));
    if (count > 0) {
        if (is_ready(&list, list.in))
            feed_stdin(child);
        if (is_ready(&list, list.tee))
            pass_on(child);
        if (is_ready(&list, list.out))
            hear_stdout(child);
        call_watches(child, &list);
    }
    check_end(child);
    if (child->spec->tick && !child->has_ended && now_us(child) >= child->tick_at_us)
        child->tick_at_us = child->spec->tick(child->spec->tick_arg, child, now_us(child));
    kill_when_due(child);
}

/* What it had written by its end is in the pipe and counts, also when it was terminated. */
static void hear_rest(tide_child *child)
{
    uint64_t heard;
    do {
        heard = child->result->out_len;
        if (child->at.out_fd >= 0)
            hear_stdout(child);
    } while (child->result->out_len > heard);
}

/* It has ended, and so has its stdout, or the time to read that is over. */
static bool is_over(const tide_child *child)
{
    if (!child->has_ended)
        return false;
    if (child->result->reason != 0)
        return true;
    if (has_chunk(child))
        return false;
    return child->at.out_fd < 0 || now_us(child) >= child->linger_at_us;
}

static void reap(tide_child *child)
{
    int state = 0;
    while (waitpid(child->at.pid, &state, 0) < 0 && errno == EINTR)
        ;
    tide_child_result *result = child->result;
    result->exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    result->signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
}

/* A reader that has left must not kill us: SIGPIPE is blocked on this thread, and discarded. */
static void hold_sigpipe(sigset_t *before)
{
    sigset_t pipe_set;
    (void)sigemptyset(&pipe_set);
    (void)sigaddset(&pipe_set, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_set, before);
}

static void release_sigpipe(const sigset_t *before)
{
    sigset_t pipe_set;
    const struct timespec at_once = {.tv_sec = 0};
    (void)sigemptyset(&pipe_set);
    (void)sigaddset(&pipe_set, SIGPIPE);
    if (sigismember(before, SIGPIPE) == 0)
        while (sigtimedwait(&pipe_set, NULL, &at_once) == SIGPIPE)
            ;
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

tide_status tide_child_run(const tide_child_spec *spec, tide_child_result *result, tide_error *err)
{
    assert(spec->watch_count <= TIDE_CHILD_WATCH_MAX && spec->pass_count <= TIDE_CHILD_PASS_MAX);
    *result = (tide_child_result){.exit_code = -1};
    tide_buffer_init(&result->out, spec->stdout_max);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(tide_child, child, err);
    child->spec = spec;
    child->result = result;
    child->clock = spec->clock ? spec->clock : tide_env_system();
    child->kill_at_us = INT64_MAX;
    child->tick_at_us = spec->tick ? INT64_MIN : INT64_MAX;
    child->tee_fd = spec->tee_fd;
    TIDE_TRY(tide_child_start(spec, &child->at, err));
    result->pid = child->at.pid;
    child->pid_fd = pidfd_open(child->at.pid, 0);
    sigset_t before;
    hold_sigpipe(&before);
    while (!is_over(child))
        turn_once(child);
    hear_rest(child);
    reap(child);
    release_sigpipe(&before);
    tide_file_closep(&child->at.in_fd);
    tide_file_closep(&child->at.out_fd);
    tide_file_closep(&child->pid_fd);
    return TIDE_OK;
}

void tide_child_result_done(tide_child_result *result)
{
    tide_buffer_done(&result->out);
}
