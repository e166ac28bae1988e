#include "cli/print/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t FIRST_US = 500000;
static const int64_t AGAIN_US = 100000;

/* Back to the first column, and nothing to the right of it. */
static const char CLEAR_LINE[] = "\r\033[K";

void tide_cli_progress_begin(tide_cli_progress *progress, const tide_cli_output *out,
                             const char *what)
{
    const char *terminal = getenv("TERM");
    const bool is_shown =
        !out->is_json && terminal && strcmp(terminal, "dumb") != 0 && isatty(STDERR_FILENO) == 1;
    *progress = (tide_cli_progress){.what = what, .env = tide_env_system()};
    if (is_shown)
        progress->file = stderr;
    progress->next_us = progress->env->mono_us(progress->env) + FIRST_US;
}

void tide_cli_progress_update(tide_cli_progress *progress, int64_t done, int64_t total)
{
    if (!progress->file)
        return;
    const int64_t now_us = progress->env->mono_us(progress->env);
    if (now_us < progress->next_us)
        return;
    progress->next_us = now_us + AGAIN_US;
    progress->is_shown = true;
    if (total > 0)
        (void)fprintf(progress->file, "%s%s: %" PRId64 " of %" PRId64 " (%d %%)", CLEAR_LINE,
                      progress->what, done, total, (int)((double)done * 100 / (double)total));
    else
        (void)fprintf(progress->file, "%s%s: %" PRId64, CLEAR_LINE, progress->what, done);
    (void)fflush(progress->file);
}

void tide_cli_progress_end(tide_cli_progress *progress)
{
    if (progress->is_shown)
        (void)fputs(CLEAR_LINE, progress->file);
    progress->is_shown = false;
    progress->file = NULL;
}
