/* cmd_lake_diff.c - tidemark lake diff: what differs between two snapshots. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "cli/lake/cmd_lake.h"

typedef struct diff_look {
    tide_cli *cli;
    const char *catalog_name; /* NULL: the first that has both */
    const char *texts[2];
    tide_lake_catalog *catalogs;
    int catalog_count;
    tide_cli_table table;
} diff_look;

static tide_status print_difference(void *arg, const tide_lake_difference *difference,
                                    tide_error *err)
{
    diff_look *look = arg;
    tide_cli_output *out = &look->cli->out;
    const char sign[] = {difference->sign, '\0'};
    if (!out->is_json) {
        tide_cli_table_cell(&look->table, sign);
        tide_cli_table_cell(&look->table, tide_lake_kind_name(difference->kind));
        tide_cli_table_number(&look->table, difference->id);
        tide_cli_table_number(&look->table, difference->table_id);
        tide_cli_table_cell(&look->table, difference->name);
        tide_cli_table_number(&look->table, difference->records);
        return TIDE_OK;
    }
    LAKE(Difference) row;
    tide_lake_message_difference(&row, difference);
    return tide_cli_print_message(out, &row.base, err);
}

static tide_status keep_catalog(void *arg, const tide_lake_catalog *catalog, tide_error *err)
{
    diff_look *look = arg;
    TIDE_TRY(tide_list_room(&look->catalogs, look->catalog_count, sizeof *look->catalogs,
                            TIDE_LIST_MAX, err));
    look->catalogs[look->catalog_count++] = *catalog;
    return TIDE_OK;
}

static tide_status find_both(tide_tx *tx, const diff_look *look, const tide_lake_catalog *catalog,
                             int64_t found[2], tide_error *err)
{
    for (int i = 0; i < 2; i++)
        TIDE_TRY(tide_lake_find_snapshot(tx, catalog, look->texts[i], &found[i], err));
    return TIDE_OK;
}

/* Numbers are told apart by themselves: a fork and its parent see the same at the snapshots that they share. */
static tide_status choose_catalog(tide_tx *tx, diff_look *look, int64_t *catalog_id,
                                  int64_t found[2], tide_error *err)
{
    tide_lake_catalog named;
    if (look->catalog_name) {
        TIDE_TRY(tide_lake_find_catalog(tx, look->catalog_name, &named, err));
        *catalog_id = named.catalog_id;
        return find_both(tx, look, &named, found, err);
    }
    look->catalog_count = 0;
    TIDE_TRY(tide_lake_each_catalog(tx, keep_catalog, look, err));
    for (int i = 0; i < look->catalog_count; i++) {
        const tide_status status = find_both(tx, look, &look->catalogs[i], found, err);
        if (status == TIDE_E_NOT_FOUND)
            continue;
        *catalog_id = look->catalogs[i].catalog_id;
        return status;
    }
    return tide_fail(err, TIDE_E_NOT_FOUND,
                     "no catalog has both snapshots, %s and %s: 'tidemark lake snapshots CATALOG' "
                     "lists them",
                     look->texts[0], look->texts[1]);
}

static tide_status list_differences(tide_tx *tx, void *arg, tide_error *err)
{
    diff_look *look = arg;
    int64_t catalog_id = 0;
    int64_t found[2] = {0, 0};
    TIDE_TRY(choose_catalog(tx, look, &catalog_id, found, err));
    tide_cli_table_begin(&look->table, &look->cli->out, ",KIND,ID#,TABLE#,NAME,RECORDS#");
    const tide_status status =
        tide_lake_diff(tx, catalog_id, found[0], found[1], print_difference, look, err);
    return tide_cli_table_end(&look->table, status, err);
}

tide_status tide_cli_lake_diff(tide_cli *cli, tide_error *err)
{
    const bool is_named = cli->arg_count == 3;
    diff_look look = {.cli = cli,
                      .catalog_name =
                          is_named ? cli->args[0] : tide_cli_text(cli, TIDE_CLI_CATALOG),
                      .texts = {cli->args[is_named ? 1 : 0], cli->args[is_named ? 2 : 1]}};
    const char *const digits = "0123456789";
    tide_lake_name name;
    if (look.catalog_name) {
        TIDE_TRY(tide_lake_name_parse(&name, look.catalog_name, 1, err));
        look.catalog_name = name.catalog;
    }
    for (int i = 0; i < 2 && !look.catalog_name; i++)
        if (!look.texts[i][0] || look.texts[i][strspn(look.texts[i], digits)])
            return tide_fail(err, TIDE_E_INVALID,
                             "'%.60s' is not the number of a snapshot: with times the catalog has "
                             "to be named (lake diff CATALOG A B)",
                             look.texts[i]);
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    const tide_status status =
        tide_cli_lake_print(cli, metabase.store, list_differences, &look, err);
    free(look.catalogs);
    return status;
}
