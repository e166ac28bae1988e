/* port_holder.h - which process listens on a TCP port of this machine, for error texts.
 *
 * Reads /proc/net/tcp and tcp6 for the listening socket, then the descriptors of the processes that
 * this user may inspect. A hint: the answer may be out of date when it is printed. */
#pragma once

#include <stdint.h>

enum { TIDE_PORT_HOLDER_MAX = 96 };

/* "process 4711 (nginx)", or "a process of another user". Writes "" where no socket listens. */
void tide_port_holder(char out[TIDE_PORT_HOLDER_MAX], uint16_t port);
