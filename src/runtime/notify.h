/* notify.h - systemd's notification protocol: the state of a daemon for the service manager.
 *
 * One datagram per message, lines of NAME=value, to the socket that $NOTIFY_SOCKET names (a path,
 * or '@' and an abstract name). Without the variable nothing is sent. The address is read once,
 * when a tide_notify is made, so that child processes and later changes of the environment do not
 * matter.
 *
 *     READY=1            serving                         STOPPING=1     the end has begun
 *     RELOADING=1        settings are read again         WATCHDOG=1     alive
 *     STATUS=...         one line for `systemctl status`
 *
 * Threads: safe. A message never waits: a manager that does not read loses it. */
#pragma once

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

enum { TIDE_NOTIFY_STATUS_MAX = 256 }; /* bytes of a status line; longer ones are cut */

typedef struct tide_notify {
    int fd; /* -1: NOTIFY_SOCKET is not set */
    struct sockaddr_un address;
    socklen_t address_len;
    int64_t watchdog_us; /* how often WATCHDOG=1 is expected; 0: not at all */
} tide_notify;

/* From $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID. TIDE_E_INVALID: no address. TIDE_E_IO: no
 * socket. */
TIDE_MUST_CHECK tide_status tide_notify_init(tide_notify *notify, tide_error *err);
void tide_notify_done(tide_notify *notify);

/* status may be NULL; what would end a line in it becomes a space. */
void tide_notify_ready(const tide_notify *notify, const char *status);
void tide_notify_stopping(const tide_notify *notify, const char *status);
void tide_notify_reloading(const tide_notify *notify, tide_env *env);
void tide_notify_watchdog(const tide_notify *notify);
