/* cmd_lake_expose.c - tidemark lake expose|unexpose|export: a catalog for stock DuckLake clients. */
#include <inttypes.h>

#include "base/cleanup.h"
#include "cli/lake/cmd_lake.h"
#include "lake/expose.h"

/* An export reads everything in one closure. */
#define EXPORT_US INT64_C(86400000000)

tide_status tide_cli_lake_expose(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    tide_lake_exposed exposed = {0};
    TIDE_TRY(tide_lake_expose(metabase.lake, name.catalog, tide_cli_text(cli, TIDE_CLI_SCHEMA),
                              &exposed, err));
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "catalog %s is exposed as schema %s%s: attach with METADATA_SCHEMA '%s'\n",
                       name.catalog, exposed.schema, exposed.was_there ? ", as before" : "",
                       exposed.schema);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "catalog_id", exposed.catalog_id);
    tide_cli_json_text(&cli->out, "schema", exposed.schema);
    tide_cli_json_bool(&cli->out, "was_there", exposed.was_there);
    return tide_cli_json_end(&cli->out, err);
}

tide_status tide_cli_lake_unexpose(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    bool was_exposed = false;
    TIDE_TRY(tide_lake_unexpose(metabase.lake, name.catalog, &was_exposed, err));
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "catalog %s %s\n", name.catalog,
                       was_exposed ? "is not exposed any more" : "was not exposed");
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_bool(&cli->out, "was_exposed", was_exposed);
    return tide_cli_json_end(&cli->out, err);
}

tide_status tide_cli_lake_export(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, EXPORT_US, err));
    tide_lake_exported exported = {0};
    TIDE_TRY(tide_lake_export(metabase.lake, name.catalog, cli->args[1],
                              tide_cli_is_given(cli, TIDE_CLI_FORCE), &exported, err));
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "%s: snapshot %" PRId64 ", %" PRId64 " snapshots, %" PRId64 " tables\n",
                       cli->args[1], exported.snapshot_id, exported.snapshots, exported.tables);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "snapshot_id", exported.snapshot_id);
    tide_cli_json_i64(&cli->out, "snapshots", exported.snapshots);
    tide_cli_json_i64(&cli->out, "tables", exported.tables);
    return tide_cli_json_end(&cli->out, err);
}
