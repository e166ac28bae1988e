/* cmd_export.c - tidemark export --parquet DIR: a colony's rows as files, each row once. --lake: cmd_export_lake.c. */
#include "cli/colony/cmd_export.h"

#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/print/message_output.h"

tide_status tide_cli_absolute(const char *dir, char out[PATH_MAX], tide_error *err)
{
    char here[PATH_MAX] = "";
    if (!*dir)
        return tide_fail(err, TIDE_E_INVALID, "--parquet wants a directory");
    if (*dir != '/' && !getcwd(here, sizeof here))
        return tide_fail(err, TIDE_E_IO, "the working directory has no path");
    const int len = snprintf(out, PATH_MAX, "%s%s%s", here, *here ? "/" : "", dir);
    return len < PATH_MAX ? TIDE_OK
                          : tide_fail(err, TIDE_E_LIMIT, "the path of '%.60s...' is too long", dir);
}

static tide_status print_files(void *arg, const COLONY(ExportResponse) * answer, tide_error *err)
{
    tide_cli *cli = arg;
    tide_cli_table table;
    if (cli->out.is_json) {
        for (size_t i = 0; i < answer->n_files; i++)
            TIDE_TRY(tide_cli_print_message(&cli->out, &answer->files[i]->base, err));
        return TIDE_OK;
    }
    tide_cli_table_begin(&table, &cli->out, "FILE,FIRST#,LAST#,ROWS#,BYTES#");
    for (size_t i = 0; i < answer->n_files; i++) {
        const COLONY(ExportedFile) *file = answer->files[i];
        tide_cli_table_cell(&table, *file->path ? file->path : NULL);
        tide_cli_table_number(&table, (int64_t)file->first_seq_id);
        tide_cli_table_number(&table, (int64_t)file->last_seq_id);
        tide_cli_table_number(&table, (int64_t)file->rows);
        tide_cli_table_number(&table, (int64_t)file->bytes);
    }
    return tide_cli_table_done(&table, err);
}

tide_status tide_cli_export_files(tide_cli *cli, char *dir, tide_cli_exported_fn *fn, void *arg,
                                  tide_error *err)
{
    const char *data_type = tide_cli_text(cli, TIDE_CLI_DATA_TYPE);
    COLONY(ExportRequest) request = COLONY_INIT(EXPORT_REQUEST);
    request.directory = dir;
    if (data_type)
        request.data_type = (char *)data_type;
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    TIDE_TRY(tide_cli_colony_open(cli, &colony, TIDE_STORE_EXISTING, false, err));
    TIDE_TRY(tide_cli_colony_call(&colony, "Export", &request.base,
                                  &tidemark__colony__v1__export_response__descriptor, &response,
                                  err));
    const tide_status status =
        fn ? fn(arg, (const COLONY(ExportResponse) *)response, err) : TIDE_OK;
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

static tide_status run_export(tide_cli *cli, tide_error *err)
{
    char dir[PATH_MAX];
    if (tide_cli_text(cli, TIDE_CLI_LAKE))
        return tide_cli_export_lake(cli, err);
    if (!tide_cli_text(cli, TIDE_CLI_PARQUET))
        return tide_fail(err, TIDE_E_INVALID,
                         "where to? --parquet DIR writes files, --lake URL --catalog NAME appends "
                         "to tables of a lake");
    TIDE_TRY(tide_cli_absolute(tide_cli_text(cli, TIDE_CLI_PARQUET), dir, err));
    return tide_cli_export_files(cli, dir, print_files, cli, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .arguments = "",
     .takes =
         TIDE_CLI_LIST(PARQUET, LAKE, CATALOG, SCHEMA, CREATE, DATA_TYPE, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "write a colony's rows that were not exported yet as Parquet files, or into a lake",
     .details = "Needs DuckDB, whatever the store is. DIR/manifest.tsv lists what was written; a "
                "row is in one file,\n"
                "also after a crash. Run it again for what has come since.\n"
                "With --lake rows are appended to tables spans, logs, ... of a catalog, each once, "
                "a snapshot per range of\n"
                "numbers; --parquet then names where files are kept on the way (else below the "
                "lake's data, and removed).",
     .run = run_export},
    {.name = NULL},
};

const tide_cli_command tide_cli_export = {
    .name = "export",
    .summary = "write a colony's rows that were not exported yet as Parquet files, or into a lake",
    .verbs = verbs,
};
