/* work_child_run.h - one item being done by a command: what the parts of work_child share.
 *
 * Threads: one runner's, but for what work_messages.h says. */
#pragma once

#include "base/text/json.h"
#include "cli/work/work_child.h"
#include "cli/work/work_messages.h"
#include "runtime/child.h"

enum {
    TIDE_WORK_VARIABLES_MAX = 16,
    TIDE_WORK_VARIABLE_SIZE = 640,
    TIDE_WORK_PATH_SIZE = 512, /* of the checkpoint's file */
    TIDE_WORK_STOPPED = 1,     /* reason of tide_child_terminate */
};

typedef struct tide_work_run {
    tide_work_children *children;
    tide_job *job;
    const tide_work_claimed *item;
    char key[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    tide_idempotency_state state;
    char checkpoint_path[TIDE_WORK_PATH_SIZE]; /* "": none */
    int sockets[2];                            /* ours, the command's */
    int errors[2];                             /* the command's stderr: read, write */
    int stop_fd;
    int end_fd;
    char variables[TIDE_WORK_VARIABLES_MAX][TIDE_WORK_VARIABLE_SIZE];
    const char **env;
    tide_work_messages messages;
    tide_child_result result;
    int64_t took_us;
} tide_work_run;

/* "command":[...], into the object under way. */
void tide_work_put_command(tide_json *json, char *const *argv);

/* Give the key's lock back: the next attempt need not wait for it. */
void tide_work_give_key_back(tide_work_run *run);

/* The command has ended: finish, fail or release its item as its exit status says. */
TIDE_MUST_CHECK tide_status tide_work_conclude(tide_work_run *run, tide_error *err);
