/* work_output.h - how tasks, items and checkpoints are printed: one shape for every verb.
 *
 * Threads: one. */
#pragma once

#include <tidemark/identity.h>
#include <tidemark/work.h>

#include "cli/frame/cli.h"
#include "cli/print/message_output.h"
#include "services/api/messages.h"

enum { TIDE_CLI_WORKER_SIZE = 1024 }; /* too long a name is refused by the library, not cut here */

/* A time that may be missing: 0 is null. */
void tide_cli_json_moment(tide_cli_output *out, const char *key, int64_t us);

/* An item and a checkpoint, as a line of --json. */
TIDE_MUST_CHECK tide_status tide_cli_print_item(tide_cli_output *out, const tide_work_item *item,
                                                tide_error *err);
TIDE_MUST_CHECK tide_status tide_cli_print_checkpoint(tide_cli_output *out,
                                                      const tide_checkpoint *checkpoint,
                                                      tide_error *err);

/* session_id, epoch and epoch_id: with a number they are a position. NULL: null. */
void tide_cli_json_identity(tide_cli_output *out, const tide_identity *identity);

/* {"task_id":"..."}, or the id alone. */
TIDE_MUST_CHECK tide_status tide_cli_print_id(tide_cli_output *out, const char *key, const char *id,
                                              tide_error *err);
/* {"task_id":"...","result":"cancelled"}, or words. */
TIDE_MUST_CHECK tide_status tide_cli_print_done(tide_cli_output *out, const char *key,
                                                const char *id, const char *result,
                                                tide_error *err);

/* Its numbers as a line of --json, or the global number. */
TIDE_MUST_CHECK tide_status tide_cli_print_numbers(tide_cli_output *out,
                                                   const tide_checkpoint_numbers *numbers,
                                                   tide_error *err);

/* TIDE_NONE becomes "there is no <what> '<id>' in <store>". */
TIDE_MUST_CHECK tide_status tide_cli_found(tide_status status, const char *what, const char *id,
                                           const tide_store *store, tide_error *err);

/* The option's value, or HOST-PID. */
void tide_cli_worker_name(const tide_cli *cli, tide_cli_option_id id,
                          char out[TIDE_CLI_WORKER_SIZE]);
