/* cmd_lake_serve.c - tidemark lake serve: catalogs over the network. */
#include "base/cleanup.h"
#include "cli/cmd_lake.h"
#include "cli/front_options.h"
#include "laked/laked.h"

typedef struct serving {
    tide_front *front;
    tide_laked *laked;
} serving;

static void serving_done(serving *s)
{
    tide_front_stop(s->front); /* no calls from here on */
    tide_laked_close(s->laked);
    tide_front_close(s->front);
}

tide_status tide_cli_lake_serve(tide_cli *cli, tide_error *err)
{
    tide_log log;
    tide_front_options options;
    const char *data_dir = tide_cli_text(cli, TIDE_CLI_DATA);
    TIDE_TRY(tide_cli_front_options(cli, &log, &options, err));
    options.ports[0] =
        (tide_front_port){.name = "listen", .address = tide_cli_text(cli, TIDE_CLI_LISTEN)};
    options.port_count = 1;
    tide_cli_keep_signals_back();
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(
        tide_cli_open_store(cli, &store, data_dir ? TIDE_STORE_CREATE : TIDE_STORE_EXISTING, err));
    options.store = store;
    TIDE_CLEANUP(serving_done) serving s = {.front = NULL};
    const tide_laked_options lake = {.store = store,
                                     .store_url = tide_cli_text(cli, TIDE_CLI_STORE),
                                     .data_dir = data_dir,
                                     .duckdb_library = tide_cli_text(cli, TIDE_CLI_DUCKDB_LIBRARY),
                                     .desks = (int)tide_cli_number(cli, TIDE_CLI_DESKS)};
    TIDE_TRY(tide_front_open(&s.front, &options, err));
    TIDE_TRY(tide_laked_open(&s.laked, s.front, &lake, err));
    return tide_cli_after_serving(tide_front_serve(s.front, err));
}
