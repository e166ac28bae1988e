#include "demo/demo_report.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/json_tree.h"

enum { STEP_MS = 500, FAILING_STEP = 2, FAILURES_ONE_IN = 8, ROWS_PER_STEP = 250 };

/* The step of the last checkpoint; 0: there is none. */
static int find_last_step(void)
{
    const char *path = getenv("TIDEMARK_CHECKPOINT_FILE");
    char bytes[4096];
    size_t len = 0;
    FILE *file = path && *path ? fopen(path, "re") : NULL;
    if (file) {
        len = fread(bytes, 1, sizeof bytes, file);
        (void)fclose(file);
    }
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *checkpoint = NULL;
    TIDE_IGNORE(tide_json_tree_read(&checkpoint, tide_view_bytes(bytes, len), NULL));
    const int64_t step = tide_json_node_integer(tide_json_node_find(checkpoint, "step"));
    return step > 0 && step <= TIDE_DEMO_REPORT_STEPS ? (int)step : 0;
}

static tide_status send_checkpoint(int fd, int step, tide_error *err)
{
    char line[128];
    const int len = snprintf(line, sizeof line,
                             "{\"checkpoint\":{\"step\":%d,\"rows\":%d,\"digest\":\"%x\"}}\n", step,
                             step * ROWS_PER_STEP, (unsigned)step * 48271U);
    ssize_t written = 0;
    do
        written = write(fd, line, (size_t)len);
    while (written < 0 && errno == EINTR);
    return written == len ? TIDE_OK
                          : tide_fail(err, TIDE_E_IO, "cannot write to descriptor %d: %s", fd,
                                      strerror(errno));
}

static bool is_unlucky(tide_env *env)
{
    unsigned char chance = 0;
    env->random(env, &chance, sizeof chance);
    return chance % FAILURES_ONE_IN == 0;
}

tide_status tide_demo_report(FILE *out, tide_env *env, tide_error *err)
{
    const char *fd = getenv("TIDEMARK_FD");
    if (!fd || !*fd)
        return tide_fail(err, TIDE_E_INVALID,
                         "TIDEMARK_FD is not set; `tidemark work run` starts this program");
    for (int step = find_last_step() + 1; step <= TIDE_DEMO_REPORT_STEPS; step++) {
        env->sleep_us(env, STEP_MS * INT64_C(1000)); /* the work itself */
        TIDE_TRY(send_checkpoint((int)strtol(fd, NULL, 10), step, err));
        if (step == FAILING_STEP && is_unlucky(env))
            return tide_fail(err, TIDE_E_FAILED, "the printer is on fire");
    }
    (void)fprintf(out, "{\"pages\":%d}\n", TIDE_DEMO_REPORT_STEPS);
    return TIDE_OK;
}
