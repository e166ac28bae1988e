/* driver_listen.c - the registry was changed by another process: look now; see driver_parts.h.
 *
 * A hint, never needed: the keeper looks every few seconds all the same. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "services/colony/scheduler_internal.h"

enum { REST_MS = 100 }; /* SQLite tells of every commit, our own too: most are not the registry's */

/* False: it is over. */
static bool wait_for_news(const tide_scheduler *driver, tide_watch *watch)
{
    struct pollfd fds[] = {{.fd = driver->listener_fd, .events = POLLIN},
                           {.fd = tide_watch_fd(watch), .events = POLLIN}};
    (void)poll(fds, 1, REST_MS);
    while (!fds[0].revents && !fds[1].revents)
        (void)poll(fds, 2, -1);
    return !fds[0].revents;
}

static void *listen_on(void *arg)
{
    tide_scheduler *driver = arg;
    tide_store *store = driver->options.sink->store;
    TIDE_CLEANUP(tide_watch_closep) tide_watch *watch = NULL;
    int64_t seen = -1;
    int64_t mark = 0;
    if (tide_watch_open(&watch, store, TIDE_REGISTRY_TOPIC, NULL) < TIDE_OK)
        return NULL;
    do {
        TIDE_IGNORE(tide_watch_wait(watch, 0, NULL));
        if (tide_registry_mark(store, &mark, NULL) < TIDE_OK || mark == seen)
            continue;
        seen = mark;
        tide_scheduler_look(driver);
    } while (wait_for_news(driver, watch));
    return NULL;
}

tide_status tide_scheduler_listen(tide_scheduler *driver, tide_error *err)
{
    driver->listener_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (driver->listener_fd < 0)
        return tide_fail(err, TIDE_E_LIMIT, "eventfd: %s", strerror(errno));
    TIDE_TRY(tide_thread_start(&driver->listener, listen_on, driver, err));
    driver->has_listener = true;
    return TIDE_OK;
}

void tide_scheduler_listen_end(tide_scheduler *driver)
{
    const uint64_t one = 1;
    if (driver->has_listener) {
        (void)!write(driver->listener_fd, &one, sizeof one);
        (void)pthread_join(driver->listener, NULL);
    }
    if (driver->listener_fd >= 0)
        (void)close(driver->listener_fd);
}
