/* cmd_lake_catalog.c - tidemark lake catalog create|ls|fork|drop. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/lake/cmd_lake.h"

/* What is asked, for its key. */
static tide_status hash_words(tide_cli *cli, const char *verb, uint8_t out[TIDE_SHA256_LEN],
                              tide_error *err)
{
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    const char *at = tide_cli_text(cli, TIDE_CLI_AT);
    const char *const words[] = {verb, cli->args[0], cli->arg_count > 1 ? cli->args[1] : "",
                                 at ? at : ""};
    TIDE_TRY(tide_sha256_init(&sha, err));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        TIDE_TRY(tide_sha256_add(&sha, tide_view_bytes(words[i], strlen(words[i]) + 1), err));
    return tide_sha256_finish(&sha, out, err);
}

/* A name may be written in double quotes, as everywhere. */
static tide_status parse_name(const char *text, tide_lake_name *out, tide_error *err)
{
    return tide_lake_name_parse(out, text, 1, err);
}

static tide_status print_created(tide_cli *cli, const char *name, const tide_lake_created *created,
                                 tide_error *err)
{
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "catalog %s (%" PRId64 ") at snapshot %" PRId64 "%s\n", name,
                       created->catalog_id, created->snapshot_id,
                       created->was_there ? ", there already" : "");
        return TIDE_OK;
    }
    LAKE(CreatedCatalog) row;
    tide_lake_message_created(&row, created);
    return tide_cli_print_message(&cli->out, &row.base, err);
}

tide_status tide_cli_lake_catalog_create(tide_cli *cli, tide_error *err)
{
    uint8_t hash[TIDE_SHA256_LEN];
    tide_lake_name name;
    TIDE_TRY(parse_name(cli->args[0], &name, err));
    TIDE_TRY(hash_words(cli, "create", hash, err));
    const tide_lake_commit_options options =
        tide_cli_lake_options(cli, tide_view_bytes((const char *)hash, sizeof hash));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    tide_lake_created created;
    TIDE_TRY(tide_lake_create_catalog(metabase.lake, name.catalog, false, &options, &created, err));
    return print_created(cli, name.catalog, &created, err);
}

tide_status tide_cli_lake_catalog_fork(tide_cli *cli, tide_error *err)
{
    uint8_t hash[TIDE_SHA256_LEN];
    tide_lake_name parent;
    tide_lake_name child;
    const char *at = tide_cli_text(cli, TIDE_CLI_AT);
    TIDE_TRY(parse_name(cli->args[0], &parent, err));
    TIDE_TRY(parse_name(cli->args[1], &child, err));
    TIDE_TRY(hash_words(cli, "fork", hash, err));
    const tide_lake_commit_options options =
        tide_cli_lake_options(cli, tide_view_bytes((const char *)hash, sizeof hash));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    tide_lake_created created;
    TIDE_TRY(tide_lake_fork(metabase.lake, parent.catalog, child.catalog, at ? at : "", &options,
                            &created, err));
    return print_created(cli, child.catalog, &created, err);
}

tide_status tide_cli_lake_catalog_drop(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(parse_name(cli->args[0], &name, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    TIDE_TRY(tide_lake_drop_catalog(metabase.lake, name.catalog, err));
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "dropped %s\n", name.catalog);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "dropped", name.catalog);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- ls ---- */

static tide_status print_catalog(void *arg, const tide_lake_catalog *catalog, tide_error *err)
{
    tide_cli_table *table = arg;
    tide_cli_output *out = table->out;
    const bool is_fork = catalog->parent_id != 0;
    if (!out->is_json) {
        tide_cli_table_number(table, catalog->catalog_id);
        tide_cli_table_cell(table, catalog->name);
        tide_cli_table_number(table, catalog->head);
        tide_cli_table_time(table, catalog->head_time_us);
        tide_cli_table_cell(table, is_fork ? catalog->parent_name : NULL);
        if (is_fork)
            tide_cli_table_number(table, catalog->fork_snapshot);
        else
            tide_cli_table_cell(table, NULL);
        return TIDE_OK;
    }
    LAKE(Catalog) row;
    tide_lake_message_catalog(&row, catalog);
    return tide_cli_print_message(out, &row.base, err);
}

static tide_status list_catalogs(tide_tx *tx, void *arg, tide_error *err)
{
    tide_cli_table table;
    tide_cli_table_begin(&table, &((tide_cli *)arg)->out, "ID#,NAME,SNAPSHOT#,CHANGED,PARENT,AT#");
    const tide_status status = tide_lake_each_catalog(tx, print_catalog, &table, err);
    return tide_cli_table_end(&table, status, err);
}

tide_status tide_cli_lake_catalog_ls(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    return tide_cli_lake_print(cli, metabase.store, list_catalogs, cli, err);
}
