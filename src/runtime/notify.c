#include "runtime/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_SIZE = TIDE_NOTIFY_STATUS_MAX + 128 };

static tide_status set_address(tide_notify *notify, const char *path, tide_error *err)
{
    const size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof notify->address.sun_path)
        return tide_fail(err, TIDE_E_INVALID, "NOTIFY_SOCKET '%s' is not the address of a socket",
                         path);
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, path, len + 1);
    notify->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (path[0] == '@')
        notify->address.sun_path[0] = '\0';
    else
        notify->address_len++; /* the terminator belongs to a path */
    return TIDE_OK;
}

/* The watchdog is meant for the process it names, or for any if it names none. */
static int64_t get_watchdog_us(void)
{
    const char *text = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    if (!text || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    char *end = NULL;
    errno = 0;
    const long long us = strtoll(text, &end, 10);
    return errno == 0 && *text && *end == '\0' && us > 0 ? us : 0;
}

tide_status tide_notify_init(tide_notify *notify, tide_error *err)
{
    const char *path = getenv("NOTIFY_SOCKET");
    *notify = (tide_notify){.fd = -1};
    if (!path || !*path)
        return TIDE_OK;
    TIDE_TRY(set_address(notify, path, err));
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify->fd < 0)
        return tide_fail(err, TIDE_E_IO, "no socket for the service manager: %s", strerror(errno));
    notify->watchdog_us = get_watchdog_us();
    return TIDE_OK;
}

void tide_notify_done(tide_notify *notify)
{
    if (notify->fd >= 0)
        (void)close(notify->fd);
    *notify = (tide_notify){.fd = -1};
}

static void send_message(const tide_notify *notify, const char *message)
{
    if (notify->fd < 0)
        return;
    (void)sendto(notify->fd, message, strlen(message), MSG_NOSIGNAL,
                 (const struct sockaddr *)&notify->address, notify->address_len);
}

static void send_with_status(const tide_notify *notify, const char *state, const char *status)
{
    char message[MESSAGE_SIZE];
    const int len = snprintf(message, sizeof message, "%s%s%.*s", state, status ? "\nSTATUS=" : "",
                             TIDE_NOTIFY_STATUS_MAX, status ? status : "");
    const size_t status_at = strlen(state) + strlen("\nSTATUS=");
    for (size_t i = status_at; status && i < (size_t)len; i++)
        if ((unsigned char)message[i] < ' ')
            message[i] = ' ';
    send_message(notify, message);
}

void tide_notify_ready(const tide_notify *notify, const char *status)
{
    send_with_status(notify, "READY=1", status);
}

void tide_notify_stopping(const tide_notify *notify, const char *status)
{
    send_with_status(notify, "STOPPING=1", status);
}

void tide_notify_reloading(const tide_notify *notify, tide_env *env)
{
    char message[MESSAGE_SIZE];
    (void)snprintf(message, sizeof message, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
                   env->mono_us(env));
    send_message(notify, message);
}

void tide_notify_watchdog(const tide_notify *notify)
{
    send_message(notify, "WATCHDOG=1");
}
