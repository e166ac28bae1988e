/* env_system.c - the real machine. The only file that asks it. */
#include <tidemark/env.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/cond_wait.h"
#include "base/text/uuid.h"

static const int64_t SECOND_US = 1000000;
static const int64_t MICROSECOND_NS = 1000;

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    const int rc = clock_gettime(clock, &now);
    assert(rc == 0); /* all three clocks exist on every kernel that runs this program */
    return (int64_t)now.tv_sec * SECOND_US + (int64_t)now.tv_nsec / MICROSECOND_NS;
}

static int64_t read_wall(tide_env *env)
{
    (void)env;
    return read_clock(CLOCK_REALTIME);
}

static int64_t read_mono(tide_env *env)
{
    (void)env;
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t read_boot(tide_env *env)
{
    (void)env;
    return read_clock(CLOCK_BOOTTIME);
}

/* Read once: the id cannot change while this process lives. */
static char boot_id_text[TIDE_BOOT_ID_SIZE] = "00000000-0000-0000-0000-000000000000";
static pthread_once_t boot_id_once = PTHREAD_ONCE_INIT;

static void load_boot_id(void)
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* no /proc: the zeros stay */
    char text[TIDE_BOOT_ID_SIZE - 1];
    const ssize_t len = read(fd, text, sizeof text);
    (void)close(fd);
    tide_uuid id;
    if (len == (ssize_t)sizeof text &&
        tide_uuid_parse(&id, tide_view_bytes(text, sizeof text)) == TIDE_OK)
        tide_uuid_format(&id, boot_id_text);
}

static void read_boot_id(tide_env *env, char out[TIDE_BOOT_ID_SIZE])
{
    (void)env;
    const int rc = pthread_once(&boot_id_once, load_boot_id);
    assert(rc == 0);
    memcpy(out, boot_id_text, sizeof boot_id_text);
}

static void fill_random(tide_env *env, void *out, size_t len)
{
    (void)env;
    unsigned char *at = out;
    while (len > 0) {
        const ssize_t got = getrandom(at, len, 0);
        if (got < 0) {
            /* Identities and tokens would repeat without it: there is no way to go on. */
            assert(errno == EINTR);
            continue;
        }
        at += (size_t)got;
        len -= (size_t)got;
    }
}

/* Relative: a process whose clock is faked (tests) would wake at once from an absolute one. */
static void sleep_for(tide_env *env, int64_t us)
{
    (void)env;
    if (us <= 0)
        return;
    struct timespec left = {
        .tv_sec = (time_t)(us / SECOND_US),
        .tv_nsec = (long)(us % SECOND_US * MICROSECOND_NS),
    };
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
        /* a signal woke us early: sleep on */
    }
}

tide_env *tide_env_system(void)
{
    static tide_env system_env = {
        TIDE_ENV_INIT,           .wall_us = read_wall,  .mono_us = read_mono,  .boot_us = read_boot,
        .boot_id = read_boot_id, .random = fill_random, .sleep_us = sleep_for,
    };
    return &system_env;
}

int64_t tide_cond_until(int64_t timeout_us)
{
    return read_clock(CLOCK_MONOTONIC) + timeout_us;
}

bool tide_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_us)
{
    const struct timespec until = {.tv_sec = until_us / SECOND_US,
                                   .tv_nsec = until_us % SECOND_US * MICROSECOND_NS};
    return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT;
}
