/* idempotency_signals.h - signals to us, passed on to the command that we run.
 *
 * SIGINT, SIGTERM, SIGHUP and SIGQUIT reach the command instead of us; how it takes them is its business. Where it shares our
 * terminal and process group, the terminal has sent it Ctrl-C already, and it is not sent twice.
 *
 * Ctrl-Z (SIGTSTP) stops the command and then us. When we go on, the lock is looked at first: a command whose lock
 * is over is not woken but killed.
 *
 * What was ignored when we were started stays ignored, by the command too.
 *
 * Threads: the thread that runs the command; handlers write into a pipe and do nothing else. */
#pragma once

#include <tidemark/error.h>
#include <tidemark/export.h>

#include "runtime/child.h"

/* From here on until release. *fd is to be watched with tide_cli_signals_pass. */
TIDE_MUST_CHECK tide_status tide_cli_signals_catch(int *fd, tide_error *err);
void tide_cli_signals_release(void);

/* A watch of child.h; arg is the tide_cli_lock under which the command runs. */
void tide_cli_signals_pass(void *arg, tide_child *child, tide_child_watch *watch);
