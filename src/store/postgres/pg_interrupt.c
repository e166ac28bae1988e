/* pg_interrupt.c - the cancel keys of all connections, where a signal handler finds them. */
#include "store/postgres/pg_interrupt.h"

#include <stdatomic.h>
#include <stddef.h>

#include "store/postgres/pg_connection.h"

/* A command has a handful of connections. Those of a daemon that find no slot are not cancelled: it
 * ends its calls before it ends. */
enum { SLOTS = 64 };

static _Atomic(PGcancel *) slots[SLOTS];

void tide_pg_interrupt_add(tide_pg_connection *connection)
{
    connection->interrupt_slot = -1;
    PGcancel *cancel = tide_pq.getCancel(connection->pg);
    for (int i = 0; i < SLOTS && cancel && connection->interrupt_slot < 0; i++) {
        PGcancel *none = NULL;
        if (atomic_compare_exchange_strong(&slots[i], &none, cancel))
            connection->interrupt_slot = i;
    }
    if (connection->interrupt_slot < 0)
        tide_pq.freeCancel(cancel);
}

/* The thread that removes a key from its slot owns it, so none is freed under the handler. */
void tide_pg_interrupt_remove(tide_pg_connection *connection)
{
    if (connection->interrupt_slot >= 0)
        tide_pq.freeCancel(atomic_exchange(&slots[connection->interrupt_slot], NULL));
    connection->interrupt_slot = -1;
}

/* PQcancel is async-signal-safe by its documentation. */
void tide_pg_interrupt_all(void)
{
    for (int i = 0; i < SLOTS; i++) {
        char ignored[256];
        PGcancel *cancel = atomic_exchange(&slots[i], NULL);
        if (cancel)
            (void)tide_pq.cancel(cancel, ignored, sizeof ignored);
    }
}
