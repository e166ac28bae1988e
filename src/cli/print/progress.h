/* progress.h - one line on stderr that tells how far long work has come.
 *
 *     tide_cli_progress progress;
 *     tide_cli_progress_begin(&progress, &cli->out, "importing");
 *     while (...)
 *         tide_cli_progress_update(&progress, done, total);       importing: 1200 of 5000 (24 %)
 *     tide_cli_progress_end(&progress);                           the line is gone
 *
 * For people only: silent with --json, when stderr is no terminal, and for work that is done within half a second. The line
 * is written over ten times a second at most, so update may be called for every row.
 *
 * Threads: one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tidemark/env.h>

#include "cli/print/output.h"

typedef struct tide_cli_progress {
    FILE *file;       /* NULL: silent */
    tide_env *env;    /* whose monotonic clock counts */
    const char *what; /* borrowed */
    int64_t next_us;  /* not written again before this */
    bool is_shown;    /* a line stands on the terminal */
} tide_cli_progress;

void tide_cli_progress_begin(tide_cli_progress *progress, const tide_cli_output *out,
                             const char *what);

/* total 0: not known. */
void tide_cli_progress_update(tide_cli_progress *progress, int64_t done, int64_t total);

/* Fits TIDE_CLEANUP. */
void tide_cli_progress_end(tide_cli_progress *progress);
