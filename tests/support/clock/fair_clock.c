#include "support/clock/fair_clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WHOLE = 1000, STEP_US = 1000 };

/* Atomics and no lock: a forked copy of the process may read the clock, too. */
static _Atomic int64_t sampled_us; /* the wall clock at the last sample */
static _Atomic int64_t fair_us;

static int64_t wall_us(void)
{
    struct timespec now;
    const int rc = clock_gettime(CLOCK_MONOTONIC, &now);
    assert(rc == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t wall_clock_ms(void)
{
    return wall_us() / 1000;
}

int fair_share(const char *loadavg, int cores)
{
    char *end = NULL;
    const double minute = strtod(loadavg, &end);
    const char *slash = strchr(loadavg, '/');
    if (end == loadavg || !slash)
        return WHOLE;
    const char *running = slash;
    while (running > loadavg && running[-1] >= '0' && running[-1] <= '9')
        running--;
    const double now = (double)strtol(running, NULL, 10);
    const double wanted = now > minute ? now : minute;
    return wanted <= (double)cores ? WHOLE : (int)((double)cores * WHOLE / wanted) + 1;
}

static int read_share(void)
{
    char text[128];
    const int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return WHOLE;
    const ssize_t len = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[len > 0 ? len : 0] = '\0';
    return fair_share(text, (int)sysconf(_SC_NPROCESSORS_ONLN));
}

int64_t fair_clock_ms(void)
{
    const int saved = errno;
    const int64_t now = wall_us();
    int64_t last = atomic_load(&sampled_us);
    if (now - last >= STEP_US && atomic_compare_exchange_strong(&sampled_us, &last, now)) {
        const int64_t passed = last == 0 ? now : (now - last) * read_share() / WHOLE;
        (void)atomic_fetch_add(&fair_us, passed);
    }
    errno = saved;
    return atomic_load(&fair_us) / 1000;
}

int64_t fair_to_wall_ms(int64_t fair_ms)
{
    return fair_ms * WHOLE / read_share();
}

static int slice_ms(int64_t deadline_ms)
{
    const int64_t left_ms = deadline_ms - fair_clock_ms();
    return left_ms <= 0 ? 0 : left_ms < FAIR_SLICE_MS ? (int)left_ms : FAIR_SLICE_MS;
}

bool fair_wait_fd(int fd, int64_t deadline_ms)
{
    for (;;) {
        const int slice = slice_ms(deadline_ms);
        struct pollfd one = {.fd = fd, .events = POLLIN};
        const int ready = poll(&one, 1, slice);
        if (ready > 0)
            return true;
        if (slice == 0 || (ready < 0 && errno != EINTR))
            return false;
    }
}

static struct timespec slice_end(int slice)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += slice * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

bool fair_wait_cond(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t deadline_ms)
{
    const int slice = slice_ms(deadline_ms);
    if (slice == 0)
        return false;
    const struct timespec until = slice_end(slice);
    (void)pthread_cond_timedwait(changed, lock, &until);
    return true;
}

bool fair_wait_sem(sem_t *posted, int64_t deadline_ms)
{
    for (;;) {
        const int slice = slice_ms(deadline_ms);
        const struct timespec until = slice_end(slice);
        if (sem_timedwait(posted, &until) == 0)
            return true;
        if (slice == 0)
            return false;
    }
}
