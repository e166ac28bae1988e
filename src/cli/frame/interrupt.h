/* interrupt.h - Ctrl-C at any moment: exit code 130, and no half-made file.
 *
 * A verb is one transaction, which a dead process rolls back, so the handler may simply end the
 * program. It must not leave behind a file under way, named here for as long as it is one, nor a
 * session of a PostgreSQL server that waits for a standby (store/postgres/pg_interrupt.h).
 *
 * SIGTERM and SIGHUP clear up in the same way and then end the program as they always do.
 *
 * Threads: verbs that write a file do so on the main thread, so that no other thread writes it
 * again after the handler. */
#pragma once

void tide_cli_interrupt_install(void);

/* The file to remove when interrupted; NULL: none (any more). A name too long to keep is not
 * kept. */
void tide_cli_interrupt_partial(const char *path);
