/* driver_course.c - how checkpoints and heads of the agents polled here have gone: a look every TIDE_SCHEDULER_COURSE_US; see driver.h.
 *
 * Each seat keeps a ring per stream, indexed by the number of the look. A look that a stream was not there for leaves a place without numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "services/colony/scheduler_internal.h"

static const tide_course_point nothing = {.checkpoint = -1, .head = -1};

/* NULL: there is no room, and its course is not kept. */
static tide_course *find_course(tide_poll_job *job, const char *data_type)
{
    tide_scheduler *driver = job->driver;
    for (tide_course *course = job->courses; course; course = course->next)
        if (strcmp(course->data_type, data_type) == 0)
            return course;
    if (atomic_load(&driver->course_count) >= TIDE_SCHEDULER_COURSES_MAX)
        return NULL;
    tide_course *course = calloc(1, sizeof *course);
    if (!course)
        return NULL;
    (void)snprintf(course->data_type, sizeof course->data_type, "%s", data_type);
    for (int i = 0; i < TIDE_SCHEDULER_COURSE_POINTS; i++)
        course->points[i] = nothing;
    course->next = job->courses;
    job->courses = course;
    atomic_fetch_add(&driver->course_count, 1);
    return course;
}

void tide_scheduler_course_look(tide_scheduler *driver)
{
    pthread_mutex_lock(&driver->lock);
    const int64_t look = driver->course_look++;
    driver->course_wall_ms = driver->env->wall_us(driver->env) / 1000;
    for (tide_poll_job *job = driver->jobs; job; job = job->next) {
        for (tide_course *course = job->courses; course; course = course->next)
            course->points[look % TIDE_SCHEDULER_COURSE_POINTS] = nothing;
        for (int i = 0; i < job->lag_count; i++) {
            const tide_agent_slot_lag *lag = &job->lags[i];
            tide_course *course = find_course(job, lag->data_type);
            if (course)
                course->points[look % TIDE_SCHEDULER_COURSE_POINTS] =
                    (tide_course_point){.checkpoint = lag->checkpoint, .head = lag->head};
        }
    }
    pthread_mutex_unlock(&driver->lock);
}

void tide_scheduler_course_forget(tide_poll_job *job)
{
    while (job->courses) {
        tide_course *course = job->courses;
        job->courses = course->next;
        atomic_fetch_sub(&job->driver->course_count, 1);
        free(course);
    }
}

static void tell_course(const tide_scheduler *driver, const tide_course *course,
                        tide_scheduler_course_fn *fn, void *arg)
{
    const int64_t last = driver->course_look - 1;
    int64_t look = last - TIDE_SCHEDULER_COURSE_POINTS + 1;
    for (look = look < 0 ? 0 : look; look <= last; look++) {
        const tide_course_point *point = &course->points[look % TIDE_SCHEDULER_COURSE_POINTS];
        if (point->head >= 0)
            fn(arg, course->data_type,
               driver->course_wall_ms - (last - look) * (TIDE_SCHEDULER_COURSE_US / 1000), point);
    }
}

void tide_scheduler_courses(tide_scheduler *driver, const char *agent_id, const char *data_type,
                            tide_scheduler_course_fn *fn, void *arg)
{
    pthread_mutex_lock(&driver->lock);
    for (const tide_poll_job *job = driver->jobs; job; job = job->next) {
        if (!job->poller || strcmp(job->agent_id, agent_id) != 0)
            continue;
        for (const tide_course *course = job->courses; course; course = course->next)
            if (!data_type || strcmp(course->data_type, data_type) == 0)
                tell_course(driver, course, fn, arg);
    }
    pthread_mutex_unlock(&driver->lock);
}
