#include "lake_judge.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/history.h"
#include "support/process/proc.h"

enum { WAIT_MS = 120000 };

static bool run_script(const tempdir *dir, const char *what, const char *url,
                       const char *stress_dir)
{
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    char script[PATH_MAX];
    char history[TEMPDIR_PATH_MAX];
    tide_error err;
    (void)snprintf(script, sizeof script, "%s/tests/lake/lake_history.py", source ? source : ".");
    tempdir_join(dir, "history.jsonl", history);
    const char *const argv[] = {"python3", script, what, url, history, stress_dir, NULL};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv, .in = PROC_NULL}, WAIT_MS, &err),
                  &err);
    if (result.exit_code != 0)
        print_message("%s: %.1000s", what, result.err);
    return result.exit_code == 0;
}

void lake_observe(const tempdir *dir, const char *url, bool *is_seen)
{
    *is_seen = run_script(dir, "sights", url, NULL);
}

void lake_judge(const tempdir *dir, const char *url, const char *stress_dir)
{
    char history[TEMPDIR_PATH_MAX];
    char verdict[HISTORY_VERDICT_MAX];
    tide_error err;
    tempdir_join(dir, "history.jsonl", history);
    assert_true(run_script(dir, "sights", url, NULL));
    assert_true(run_script(dir, "snapshots", url, NULL));
    if (stress_dir)
        assert_true(run_script(dir, "stress", url, stress_dir));
    assert_ok_err(history_judge("catalog.py", (const char *const[]){"--killed", history, NULL},
                                verdict, &err),
                  &err);
    print_message("%s\n", verdict);
}
