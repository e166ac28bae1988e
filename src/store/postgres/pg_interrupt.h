/* pg_interrupt.h - cancellation on the servers when a signal ends the process.
 *
 * A process that ends rolls back nothing by itself: its server notices the closed connection. A
 * backend that waits for a synchronous standby does not notice, and stays. So it is cancelled
 * before.
 *
 * Threads: any, and signal handlers. */
#pragma once

/* Cancel on the servers what this process waits for. Async-signal-safe; for a handler that ends the
 * process afterwards: connections are of no further use. Waits until the servers have received the
 * requests. */
void tide_pg_interrupt_all(void);
