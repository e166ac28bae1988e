#include "support/postgres/pg_cluster_internal.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool has_initdb(const char *directory)
{
    char program[PATH_MAX];
    const int len = snprintf(program, sizeof(program), "%s/initdb", directory);
    return len > 0 && len < TEMPDIR_PATH_MAX && access(program, X_OK) == 0;
}

/* pg_config may be missing or that of another version. */
static bool ask_pg_config(char out[TEMPDIR_PATH_MAX])
{
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    const char *const argv[] = {"pg_config", "--bindir", NULL};
    if (proc_run(&result, &(proc_options){.argv = argv}, PG_CLUSTER_DEADLINE_MS, NULL) != TIDE_OK ||
        result.exit_code != 0 || result.out_len == 0)
        return false;
    result.out[strcspn(result.out, "\n")] = '\0';
    if (!has_initdb(result.out))
        return false;
    snprintf(out, TEMPDIR_PATH_MAX, "%s", result.out);
    return true;
}

static bool find_newest(char out[TEMPDIR_PATH_MAX])
{
    glob_t found;
    const bool has_any = glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0;
    if (has_any) {
        const char *newest = found.gl_pathv[found.gl_pathc - 1];
        snprintf(out, TEMPDIR_PATH_MAX, "%.*s", (int)(strlen(newest) - strlen("/initdb")), newest);
    }
    globfree(&found);
    return has_any;
}

tide_status pg_find_programs(char out[TEMPDIR_PATH_MAX], tide_error *err)
{
    const char *given = getenv("TIDEMARK_TEST_PG_BIN");
    if (given != NULL && given[0] != '\0') {
        if (!has_initdb(given))
            return tide_fail(err, TIDE_E_NOT_FOUND, "TIDEMARK_TEST_PG_BIN='%s' has no initdb",
                             given);
        snprintf(out, TEMPDIR_PATH_MAX, "%s", given);
        return TIDE_OK;
    }
    if (!ask_pg_config(out) && !find_newest(out))
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "PostgreSQL's server is not installed (apt-get install postgresql)");
    return TIDE_OK;
}
