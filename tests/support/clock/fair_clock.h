/* fair_clock.h - the clock of a test's deadlines: time in which the machine had a core for us.
 *
 * A deadline of a test ends a wait for something that never happens. On a machine that is shared
 * with twenty busy programs everything takes ten times as long, and a wall clock cannot distinguish
 * slow from stuck. This clock advances by the share of a core that a runnable thread gets: as the
 * wall clock while there are fewer runnable threads than cores, at half its speed with twice as
 * many. The count of runnable threads is the kernel's, the higher of now and the last minute.
 *
 * The clock is for limits. What lasts a certain time (a schedule of faults, a lease) uses
 * wall_clock_ms. scripts/check/test-watchdog limits whole programs by the same rule.
 *
 * Threads: any. It is sampled when it is read, so waits read it at least every FAIR_SLICE_MS. */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

enum { FAIR_SLICE_MS = 200 };

int64_t fair_clock_ms(void);

/* The real monotonic clock. */
int64_t wall_clock_ms(void);

/* What so much fair time takes on the wall clock if the machine stays as busy as it is: for
 * programs that get their run time as an argument. */
int64_t fair_to_wall_ms(int64_t fair_ms);

/* The share of a core, in thousandths, that a thread gets when the kernel's /proc/loadavg contains
 * this: "2.30 ... 5/312 4711" on so many cores. 1000 where it cannot be read. */
int fair_share(const char *loadavg, int cores);

/* Wait until the descriptor is readable or closed. False: the deadline of the fair clock passed. */
bool fair_wait_fd(int fd, int64_t deadline_ms);

/* Wait once on a condition, with its lock held, for at most a slice; the caller checks again. The
 * condition uses CLOCK_REALTIME, the default. False: the deadline has passed. */
bool fair_wait_cond(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t deadline_ms);

/* False: not posted by the deadline. */
bool fair_wait_sem(sem_t *posted, int64_t deadline_ms);
