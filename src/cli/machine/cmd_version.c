/* cmd_version.c - tidemark version: this program, and the libraries it came with. */
#include "cli/frame/cli.h"

#include "cli/version.h"
#include "store/engine.h"
#include "store/postgres/pq_library.h"

static tide_status show_version(tide_cli *cli, tide_error *err)
{
    char libpq[32] = "";
    tide_error err_libpq;
    if (tide_pq_load(&err_libpq) == TIDE_OK)
        (void)snprintf(libpq, sizeof libpq, "%d.%d", tide_pq.libVersion() / 10000,
                       tide_pq.libVersion() % 10000);
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file, "tidemark %s (SQLite %s, %s%s)\n", TIDE_CLI_VERSION,
                      tide_sqlite_version(), *libpq ? "libpq " : "no libpq", libpq);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "version", TIDE_CLI_VERSION);
    tide_cli_json_text(&cli->out, "sqlite", tide_sqlite_version());
    if (*libpq)
        tide_cli_json_text(&cli->out, "libpq", libpq);
    else
        tide_cli_json_null(&cli->out, "libpq");
    return tide_cli_json_end(&cli->out, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .summary = "print the versions of this program and its libraries",
     .run = show_version},
    {.name = NULL},
};

const tide_cli_command tide_cli_version = {
    .name = "version",
    .summary = "print the versions of this program and its libraries",
    .verbs = verbs,
    .is_placeless = true,
};
