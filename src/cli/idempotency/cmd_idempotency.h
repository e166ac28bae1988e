/* cmd_idempotency.h - the verb of `tidemark idempotency` that runs a command. */
#pragma once

#include "cli/frame/cli.h"

/* tidemark idempotency run --key K -- CMD ARG...
 *
 *     begin ---- NEW, TAKEOVER ----> the command runs ----> exit code and stdout are stored, and are ours
 *       |                                     |-----------> ended by a signal, or exit 75: the lock is given back
 *       |                                     |-----------> cannot be started (126, 127): the lock is given back
 *       |                                     |-----------> the lock cannot be kept: it is stopped; the key is left
 *       |------- REPLAY -------------> the stored stdout and exit code
 *       |------- MISMATCH (4), IN_PROGRESS (6), outcome unknown (7)
 *
 * If we die (kill -9):
 *     before begin has committed              nothing happened
 *     after it, before the command starts     the key stays locked until the lock runs out; then TAKEOVER
 *     while the command runs                  the kernel kills it with us (child.h); then as above
 *     after its end, before it is stored      as above: it ran, and nobody knows: that is what --policy is for
 *     after it is stored                      REPLAY
 * Ctrl-C and SIGTERM before the command starts end us as always. While it runs they are passed on, and what counts is
 * how the command takes them. */
TIDE_MUST_CHECK tide_status tide_cli_idempotency_run(tide_cli *cli, tide_error *err);
